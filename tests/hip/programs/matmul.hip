// A product of matrices, a tile of each factor in dynamic LDS.
#include "check.h"
#include <cmath>
#include <vector>

__global__ __launch_bounds__(256) void matmul(const float *a, const float *b, float *c, int n) {
    extern __shared__ float tiles[];
    float *left = tiles, *right = tiles + 256;
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[ty * 16 + tx] = a[row * n + k + tx];
        right[ty * 16 + tx] = b[(k + ty) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += left[ty * 16 + i] * right[i * 16 + tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

int main() {
    const int n = 48;
    std::vector<float> a(n * n), b(n * n), c(n * n);
    for (int i = 0; i < n * n; ++i) a[i] = float(i % 7 - 3), b[i] = float(i % 5 - 2);
    float *p[3];
    for (float *&each : p) HIP_CHECK(hipMalloc((void **)&each, n * n * sizeof(float)));
    HIP_CHECK(hipMemcpy(p[0], a.data(), n * n * sizeof(float), hipMemcpyHostToDevice));
    HIP_CHECK(hipMemcpy(p[1], b.data(), n * n * sizeof(float), hipMemcpyHostToDevice));
    HIP_CHECK(hipFuncSetAttribute((const void *)matmul, hipFuncAttributeMaxDynamicSharedMemorySize, 2048));
    matmul<<<dim3(n / 16, n / 16), dim3(16, 16), 2048>>>(p[0], p[1], p[2], n);
    HIP_CHECK(hipMemcpy(c.data(), p[2], n * n * sizeof(float), hipMemcpyDeviceToHost));
    bool right = true;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            float expected = 0;
            for (int k = 0; k < n; ++k) expected += a[i * n + k] * b[k * n + j];
            right &= c[i * n + j] == expected;
        }
    return verdict(right);
}
