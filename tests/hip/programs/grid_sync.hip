// Blocks of a cooperative launch that wait for one another: sums in rounds, each of which reads what all blocks have stored.
#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>
#include <vector>

#include "check.h"

namespace groups = cooperative_groups;

__global__ void rounds(int *values, int *next, int count, int steps) {
    groups::grid_group grid = groups::this_grid();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int step = 0; step < steps; ++step) {
        next[i] = values[i] + values[(i + 97) % count];
        grid.sync();
        int *old = values;
        values = next, next = old;
    }
}

int main() {
    constexpr int blocks = 6, threads = 128, count = blocks * threads, steps = 5;
    std::vector<int> host(count), wanted(count);
    for (int i = 0; i < count; ++i) host[i] = wanted[i] = i % 13;
    for (int step = 0; step < steps; ++step) {
        std::vector<int> old = wanted;
        for (int i = 0; i < count; ++i) wanted[i] = old[i] + old[(i + 97) % count];
    }
    int *values, *next, most = 0;
    HIP_CHECK(hipMalloc(&values, count * sizeof(int)));
    HIP_CHECK(hipMalloc(&next, count * sizeof(int)));
    HIP_CHECK(hipMemcpy(values, host.data(), count * sizeof(int), hipMemcpyHostToDevice));
    HIP_CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&most, reinterpret_cast<const void *>(rounds), threads, 0));
    int n = count, s = steps;
    void *arguments[] = {&values, &next, &n, &s};
    HIP_CHECK(hipLaunchCooperativeKernel(reinterpret_cast<void *>(rounds), dim3(blocks), dim3(threads), arguments, 0, nullptr));
    HIP_CHECK(hipMemcpy(host.data(), steps % 2 ? next : values, count * sizeof(int), hipMemcpyDeviceToHost));
    HIP_CHECK(hipFree(values));
    HIP_CHECK(hipFree(next));
    return verdict(host == wanted && most > 0);
}
