/**
 * HIP's floats of 8 bits, by the names of <hip/hip_fp8.h>: conversions by the instructions of gfx942, which has FNUZ codes, and of
 * gfx950, which has OCP's. Each name is there on both; the one that is not the GPU's own has the codes of the other.
 */
#pragma once

#include "vector_types.cuh"

namespace tkgen_hip {

template <bool five_bits> struct fp8 {
    unsigned char __x;
    fp8() = default;
    __host__ __device__ explicit fp8(float value) {
        __x = 0;
#if __HIP_DEVICE_COMPILE__ && !defined(__gfx90a__)
        if constexpr (five_bits) __x = __builtin_amdgcn_cvt_pk_bf8_f32(value, value, 0, false);
        else __x = __builtin_amdgcn_cvt_pk_fp8_f32(value, value, 0, false);
#endif
    }
    __host__ __device__ operator float() const {
#if __HIP_DEVICE_COMPILE__ && !defined(__gfx90a__)
        if constexpr (five_bits) return __builtin_amdgcn_cvt_f32_bf8(__x, 0);
        else return __builtin_amdgcn_cvt_f32_fp8(__x, 0);
#else
        return 0;
#endif
    }
};
template <bool five_bits> struct fp8x2 {
    unsigned short __x;
    fp8x2() = default;
    __host__ __device__ explicit fp8x2(float2 value) {
        __x = fp8<five_bits>(value.x).__x | fp8<five_bits>(value.y).__x << 8;
    }
    __host__ __device__ operator float2() const {
        return {__builtin_bit_cast(fp8<five_bits>, (unsigned char)__x), __builtin_bit_cast(fp8<five_bits>, (unsigned char)(__x >> 8))};
    }
};
template <bool five_bits> struct fp8x4 {
    unsigned int __x;
    fp8x4() = default;
    __host__ __device__ explicit fp8x4(float4 value) {
        __x = fp8x2<five_bits>(float2{value.x, value.y}).__x | unsigned(fp8x2<five_bits>(float2{value.z, value.w}).__x) << 16;
    }
    __host__ __device__ operator float4() const {
        const float2 low = __builtin_bit_cast(fp8x2<five_bits>, (unsigned short)__x);
        const float2 high = __builtin_bit_cast(fp8x2<five_bits>, (unsigned short)(__x >> 16));
        return {low.x, low.y, high.x, high.y};
    }
};

} // namespace tkgen_hip

#define TKGEN_FP8(name, five_bits)                                                                                     \
    using __hip_fp8_##name = tkgen_hip::fp8<five_bits>;                                                                \
    using __hip_fp8_##name##_fnuz = tkgen_hip::fp8<five_bits>;                                                         \
    using __hip_fp8x2_##name = tkgen_hip::fp8x2<five_bits>;                                                            \
    using __hip_fp8x2_##name##_fnuz = tkgen_hip::fp8x2<five_bits>;                                                     \
    using __hip_fp8x4_##name = tkgen_hip::fp8x4<five_bits>;                                                            \
    using __hip_fp8x4_##name##_fnuz = tkgen_hip::fp8x4<five_bits>;
TKGEN_FP8(e4m3, false)
TKGEN_FP8(e5m2, true)
#undef TKGEN_FP8
using __hip_fp8_storage_t = unsigned char;
