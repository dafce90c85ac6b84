// The sum of a vector: lanes by shuffles, waves through LDS, blocks by an atomic addition.
#include "check.h"
#include <vector>

__global__ void sum(const int *in, int *out, int n) {
    __shared__ int waves[4];
    int mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += in[i];
    for (int offset = warpSize / 2; offset > 0; offset /= 2) mine += __shfl_down(mine, offset);
    if (threadIdx.x % warpSize == 0) waves[threadIdx.x / warpSize] = mine;
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(out, waves[0] + waves[1] + waves[2] + waves[3]);
}

int main() {
    const int n = 5000;
    std::vector<int> in(n);
    long expected = 0;
    for (int i = 0; i < n; ++i) expected += in[i] = i % 17 - 5;
    int *device_in, *device_out, out = 0;
    HIP_CHECK(hipMalloc(&device_in, n * sizeof(int)));
    HIP_CHECK(hipMalloc(&device_out, sizeof(int)));
    HIP_CHECK(hipMemcpy(device_in, in.data(), n * sizeof(int), hipMemcpyHostToDevice));
    HIP_CHECK(hipMemset(device_out, 0, sizeof(int)));
    sum<<<3, 256>>>(device_in, device_out, n);
    HIP_CHECK(hipMemcpy(&out, device_out, sizeof(int), hipMemcpyDeviceToHost));
    return verdict(out == expected);
}
