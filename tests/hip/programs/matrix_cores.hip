// A product on the matrix cores: 16 x 16 tiles of f32 by an intrinsic.
#include "check.h"
#include <vector>

using float4v = __attribute__((ext_vector_type(4))) float;

__global__ void multiply(const float *a, const float *b, float *c) {
#if __HIP_DEVICE_COMPILE__
    const int lane = threadIdx.x, row = lane % 16, group = lane / 16;
    float4v sum = {};
    for (int k = 0; k < 16; k += 4) sum = __builtin_amdgcn_mfma_f32_16x16x4f32(a[row * 16 + k + group], b[(k + group) * 16 + row], sum, 0, 0, 0);
    for (int i = 0; i < 4; ++i) c[(group * 4 + i) * 16 + row] = sum[i];
#endif
}

int main() {
    std::vector<float> a(256), b(256), c(256);
    for (int i = 0; i < 256; ++i) a[i] = float(i % 13 - 6), b[i] = float(i % 7 - 3);
    float *p[3];
    for (float *&each : p) HIP_CHECK(hipMalloc((void **)&each, 1024));
    HIP_CHECK(hipMemcpy(p[0], a.data(), 1024, hipMemcpyHostToDevice));
    HIP_CHECK(hipMemcpy(p[1], b.data(), 1024, hipMemcpyHostToDevice));
    multiply<<<1, 64>>>(p[0], p[1], p[2]);
    HIP_CHECK(hipMemcpy(c.data(), p[2], 1024, hipMemcpyDeviceToHost));
    bool right = true;
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) {
            float expected = 0;
            for (int k = 0; k < 16; ++k) expected += a[i * 16 + k] * b[k * 16 + j];
            right &= c[i * 16 + j] == expected;
        }
    return verdict(right);
}
