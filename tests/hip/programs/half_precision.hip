// Arithmetic on halves, two at a time, and vector types. (HIP 5.2's __half does not compile with clang 22.)
#include "check.h"

using half2v = __attribute__((ext_vector_type(2))) _Float16;

__global__ void mix(const float4 *in, half2v *out, int n) {
    const int i = threadIdx.x;
    if (i >= n) return;
    const float4 v = in[i];
    const half2v a = {_Float16(v.x), _Float16(v.y)}, b = {_Float16(v.z), _Float16(v.w)};
    out[i] = a * b + (a + b);
}

int main() {
    float4 *in;
    half2v *out;
    HIP_CHECK(hipMallocManaged((void **)&in, 64 * sizeof *in));
    HIP_CHECK(hipMallocManaged((void **)&out, 64 * sizeof *out));
    for (int i = 0; i < 64; ++i) in[i] = make_float4(float(i), i * 0.5f, 2.0f, -4.0f);
    mix<<<1, 64>>>(in, out, 60);
    HIP_CHECK(hipDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < 60; ++i) right &= out[i].x == i * 2.0f + i + 2 && out[i].y == i * -2.0f + i * 0.5f - 4;
    return verdict(right);
}
