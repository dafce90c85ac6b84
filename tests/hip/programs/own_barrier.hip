// A prefix sum over the whole grid whose blocks wait for one another at a barrier of the program's own, a counter in memory.
#include <hip/hip_runtime.h>

#include <vector>

#include "check.h"

__device__ void wait_for_all(unsigned *arrived) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const unsigned ticket = __hip_atomic_fetch_add(arrived, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
        const unsigned wanted = (ticket / gridDim.x + 1) * gridDim.x;
        while (__hip_atomic_load(arrived, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) < wanted) {
        }
        __threadfence();
    }
    __syncthreads();
}

__global__ void scan(const int *in, int *out, int *totals, unsigned *arrived) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ int values[64];
    values[threadIdx.x] = in[i];
    __syncthreads();
    int sum = 0;
    for (unsigned t = 0; t <= threadIdx.x; ++t) sum += values[t];
    if (threadIdx.x == blockDim.x - 1) totals[blockIdx.x] = sum;
    wait_for_all(arrived);
    for (unsigned b = 0; b < blockIdx.x; ++b) sum += totals[b];
    out[i] = sum;
    wait_for_all(arrived);
    if (threadIdx.x == 0) totals[blockIdx.x] = -1;  // nobody reads it any more
}

int main() {
    constexpr int blocks = 7, count = 64 * blocks;
    int *in, *out, *totals;
    unsigned *arrived;
    HIP_CHECK(hipMallocManaged(reinterpret_cast<void **>(&in), count * sizeof(int)));
    HIP_CHECK(hipMallocManaged(reinterpret_cast<void **>(&out), count * sizeof(int)));
    HIP_CHECK(hipMalloc(reinterpret_cast<void **>(&totals), blocks * sizeof(int)));
    HIP_CHECK(hipMalloc(reinterpret_cast<void **>(&arrived), sizeof(unsigned)));
    HIP_CHECK(hipMemset(arrived, 0, sizeof(unsigned)));
    std::vector<int> wanted(count);
    for (int i = 0; i < count; ++i) {
        in[i] = i * i % 11;
        wanted[i] = in[i] + (i ? wanted[i - 1] : 0);
    }
    void *arguments[] = {&in, &out, &totals, &arrived};
    HIP_CHECK(hipLaunchCooperativeKernel(reinterpret_cast<void *>(scan), dim3(blocks), dim3(64), arguments, 0, nullptr));
    HIP_CHECK(hipDeviceSynchronize());
    return verdict(std::vector<int>(out, out + count) == wanted);
}
