// Counts of bytes: atomics in LDS for each block, then in global memory.
#include "check.h"
#include <vector>

__global__ void histogram(const unsigned char *in, unsigned *bins, int n) {
    __shared__ unsigned mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&mine[in[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

int main() {
    const int n = 3000;
    std::vector<unsigned char> in(n);
    std::vector<unsigned> expected(256), found(256);
    for (int i = 0; i < n; ++i) ++expected[in[i] = (unsigned char)(i * i % 251)];
    unsigned char *bytes;
    unsigned *bins;
    HIP_CHECK(hipMalloc((void **)&bytes, n));
    HIP_CHECK(hipMalloc((void **)&bins, 256 * sizeof(unsigned)));
    HIP_CHECK(hipMemcpyHtoD(bytes, in.data(), n));
    HIP_CHECK(hipMemsetD32(bins, 0, 256));
    histogram<<<4, 256>>>(bytes, bins, n);
    HIP_CHECK(hipMemcpyDtoH(found.data(), bins, 256 * sizeof(unsigned)));
    return verdict(found == expected);
}
