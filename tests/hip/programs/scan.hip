// An exclusive prefix sum over several blocks: within blocks, over their sums, and both together.
#include "check.h"
#include <vector>

template <int THREADS> __global__ void scan_block(const int *in, int *out, int *sums, int n) {
    __shared__ int values[THREADS];
    const int t = threadIdx.x, i = blockIdx.x * THREADS + t;
    const int mine = i < n ? in[i] : 0;
    values[t] = mine;
    __syncthreads();
    for (int offset = 1; offset < THREADS; offset *= 2) {
        const int other = t >= offset ? values[t - offset] : 0;
        __syncthreads();
        values[t] += other;
        __syncthreads();
    }
    if (i < n) out[i] = values[t] - mine;
    if (t == THREADS - 1 && sums) sums[blockIdx.x] = values[t];
}

__global__ void add_sums(int *out, const int *sums, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += sums[blockIdx.x];
}

int main() {
    constexpr int threads = 128, n = 1000, blocks = (n + threads - 1) / threads;
    std::vector<int> in(n), out(n);
    for (int i = 0; i < n; ++i) in[i] = i * 7 % 13;
    int *a, *b, *sums, *offsets;
    HIP_CHECK(hipMalloc((void **)&a, n * sizeof(int)));
    HIP_CHECK(hipMalloc((void **)&b, n * sizeof(int)));
    HIP_CHECK(hipMalloc((void **)&sums, blocks * sizeof(int)));
    HIP_CHECK(hipMalloc((void **)&offsets, blocks * sizeof(int)));
    HIP_CHECK(hipMemcpy(a, in.data(), n * sizeof(int), hipMemcpyHostToDevice));
    scan_block<threads><<<blocks, threads>>>(a, b, sums, n);
    scan_block<threads><<<1, threads>>>(sums, offsets, nullptr, blocks);
    hipLaunchKernelGGL(add_sums, dim3(blocks), dim3(threads), 0, 0, b, offsets, n);
    HIP_CHECK(hipGetLastError());
    HIP_CHECK(hipMemcpy(out.data(), b, n * sizeof(int), hipMemcpyDeviceToHost));
    bool right = true;
    for (int i = 0, expected = 0; i < n; expected += in[i++]) right &= out[i] == expected;
    return verdict(right);
}
