// A sum in one launch: each block leaves its part, and the one that comes last adds all of them.
#include "check.h"

__device__ unsigned tickets;

__global__ void sum(const float *in, float *parts, float *out, int n) {
    __shared__ float values[128];
    __shared__ bool last;
    const int t = threadIdx.x;
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += blockDim.x * gridDim.x) mine += in[i];
    values[t] = mine;
    __syncthreads();
    for (int half = 64; half; half /= 2) {
        if (t < half) values[t] += values[t + half];
        __syncthreads();
    }
    if (t == 0) {
        parts[blockIdx.x] = values[0];
        __threadfence();
        last = atomicAdd(&tickets, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || t) return;
    __threadfence();
    float all = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) all += reinterpret_cast<volatile float *>(parts)[i];
    *out = all;
}

int main() {
    const int n = 1500, blocks = 5;
    float *in, *parts, *out;
    HIP_CHECK(hipMallocManaged((void **)&in, n * sizeof(float)));
    HIP_CHECK(hipMalloc((void **)&parts, blocks * sizeof(float)));
    HIP_CHECK(hipMallocManaged((void **)&out, sizeof(float)));
    float expected = 0;
    for (int i = 0; i < n; ++i) expected += in[i] = float(i % 9);
    sum<<<blocks, 128>>>(in, parts, out, n);
    HIP_CHECK(hipDeviceSynchronize());
    return verdict(*out == expected);
}
