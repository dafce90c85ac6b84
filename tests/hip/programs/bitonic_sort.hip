// Sorts keys by a bitonic network, one launch for each step.
#include "check.h"
#include <algorithm>
#include <vector>

__global__ void exchange(unsigned *keys, int size, int distance) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ distance;
    if (other <= i) return;
    const unsigned a = keys[i], b = keys[other];
    if ((a > b) == ((i & size) == 0)) keys[i] = b, keys[other] = a;
}

int main() {
    const int n = 256;
    std::vector<unsigned> keys(n), sorted;
    unsigned state = 1, *device;
    for (unsigned &key : keys) key = state = state * 1664525u + 1013904223u;
    HIP_CHECK(hipMalloc((void **)&device, n * sizeof(unsigned)));
    HIP_CHECK(hipMemcpy(device, keys.data(), n * sizeof(unsigned), hipMemcpyHostToDevice));
    for (int size = 2; size <= n; size *= 2)
        for (int distance = size / 2; distance > 0; distance /= 2) exchange<<<n / 64, 64>>>(device, size, distance);
    sorted = keys;
    std::sort(sorted.begin(), sorted.end());
    HIP_CHECK(hipMemcpy(keys.data(), device, n * sizeof(unsigned), hipMemcpyDeviceToHost));
    return verdict(keys == sorted);
}
