/// The names of CUDA C++ that generated kernels and the embedded headers use, for the host: types of few bits with their
/// roundings, indices, functions.
#pragma once

#include "tkgen_host.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <math.h>
#include <type_traits>

#define TKGEN_IN(x) ::tkgen_host::in(x)
#define TKGEN_OUT(x) ::tkgen_host::out(x)

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __restrict__

#define threadIdx ::tkgen_host::thread_index
#define blockIdx ::tkgen_host::block_index
#define blockDim ::tkgen_host::block_dimension
#define gridDim ::tkgen_host::grid_dimension

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};

// ---------------------------------------------------------------- numbers of few bits

namespace tkgen_host {

/// `v` rounded to nearest even, to a float of `exponent` and `mantissa` bits whose largest number has the code `largest`.
/// What is larger becomes `beyond`, NaN `nan`; the sign stands above them.
template<int exponent, int mantissa> inline uint32_t to_bits(float v, uint32_t largest, uint32_t beyond, uint32_t nan) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, v), sign = bits >> 31 << (exponent + mantissa);
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | nan;
    constexpr int bias = (1 << (exponent - 1)) - 1, drop = 23 - mantissa;
    const int power = int(magnitude >> 23) - 127;
    uint64_t code;
    if (magnitude == 0x7f800000) return sign | beyond;
    if (power >= 1 - bias) {
        const uint64_t rebased = magnitude - (uint64_t(127 - bias) << 23);
        code = (rebased + ((uint64_t(1) << (drop - 1)) - 1) + (rebased >> drop & 1)) >> drop;
    } else {
        const int shift = drop + (1 - bias - power);
        const uint64_t whole = (magnitude >> 23 ? (magnitude & 0x7fffff) | 0x800000 : uint64_t(magnitude & 0x7fffff));
        code = shift > 40 ? 0 : (whole + ((uint64_t(1) << (shift - 1)) - 1) + (whole >> shift & 1)) >> shift;
    }
    return sign | uint32_t(code > largest ? beyond : code);
}

inline float of_half(uint16_t h) {
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                            : exponent     ? std::ldexp(float(mantissa | 1024), exponent - 25)
                                           : std::ldexp(float(mantissa), -24);
    return h >> 15 ? -magnitude : magnitude;
}
inline float of_e4m3(uint8_t b) {
    const int exponent = b >> 3 & 15, mantissa = b & 7;
    const float magnitude = (b & 0x7f) == 0x7f ? NAN
                            : exponent         ? std::ldexp(float(mantissa | 8), exponent - 10)
                                               : std::ldexp(float(mantissa), -9);
    return b >> 7 ? -magnitude : magnitude;
}
inline float of_e5m2(uint8_t b) { return of_half(uint16_t(b << 8)); }
inline uint16_t to_bfloat(float v) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, v);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline uint16_t to_half(float v) { return uint16_t(to_bits<5, 10>(v, 0x7bff, 0x7c00, 0x7fff)); }
/// Infinities, too, become the largest number.
inline uint8_t to_e4m3(float v) { return uint8_t(to_bits<4, 3>(v, 0x7e, 0x7e, 0x7f)); }
inline uint8_t to_e5m2(float v) { return uint8_t(to_bits<5, 2>(v, 0x7b, 0x7b, 0x7f)); }

} // namespace tkgen_host

struct __nv_bfloat16 {
    unsigned short bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float v) : bits(tkgen_host::to_bfloat(v)) {}
    operator float() const { return __builtin_bit_cast(float, unsigned(bits) << 16); }
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
struct half {
    unsigned short bits;
    half() = default;
    half(float v) : bits(tkgen_host::to_half(v)) {}
    operator float() const { return tkgen_host::of_half(bits); }
};
struct alignas(4) half2 {
    half x, y;
};
struct __nv_fp8_e4m3 {
    unsigned char __x;
    __nv_fp8_e4m3() = default;
    explicit __nv_fp8_e4m3(float v) : __x(tkgen_host::to_e4m3(v)) {}
    explicit operator float() const { return tkgen_host::of_e4m3(__x); }
};
struct __nv_fp8_e5m2 {
    unsigned char __x;
    __nv_fp8_e5m2() = default;
    explicit __nv_fp8_e5m2(float v) : __x(tkgen_host::to_e5m2(v)) {}
    explicit operator float() const { return tkgen_host::of_e5m2(__x); }
};
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
inline half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return v; }
inline float __bfloat162float(__nv_bfloat16 v) { return v; }

// ---------------------------------------------------------------- threads

inline void __syncthreads() { tkgen_host::sync_threads(); }
inline void __syncwarp(unsigned = 0xffffffff) { tkgen_host::sync_warp(); }
namespace tkgen_host {
template<typename T> T shuffle(T value, int from) {
    static_assert(sizeof(T) <= 8);
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits = shuffled(bits, from);
    memcpy(&value, &bits, sizeof(T));
    return value;
}
} // namespace tkgen_host
template<typename T> T __shfl_xor_sync(unsigned, T value, int mask) {
    return tkgen_host::shuffle(value, int(threadIdx.x % 32) ^ mask);
}
template<typename T> T __shfl_sync(unsigned, T value, int lane) { return tkgen_host::shuffle(value, lane & 31); }
template<typename T> T __shfl_down_sync(unsigned, T value, int by) {
    const int from = int(threadIdx.x % 32) + by;
    return tkgen_host::shuffle(value, from < 32 ? from : int(threadIdx.x % 32));
}
inline unsigned __ballot_sync(unsigned, bool value) { return tkgen_host::ballot(value); }
inline int __any_sync(unsigned, bool value) { return tkgen_host::ballot(value) != 0; }
inline int __all_sync(unsigned, bool value) { return tkgen_host::ballot(!value) == 0; }

template<typename T> T __ldg(const T *p) { return *p; }
template<typename T> T __ldcs(const T *p) { return *p; }
template<typename T> void __stcs(T *p, const T &value) { *p = value; }
template<typename T> T atomicAdd(T *to, T value) {
    const T before = *to;
    return *to += value, before;
}
inline float2 atomicAdd(float2 *to, float2 value) { return {atomicAdd(&to->x, value.x), atomicAdd(&to->y, value.y)}; }
template<typename T> T atomicMax(T *to, T value) {
    const T before = *to;
    return *to = before < value ? value : before, before;
}
template<typename T> T atomicMin(T *to, T value) {
    const T before = *to;
    return *to = value < before ? value : before, before;
}
inline uint64_t __cvta_generic_to_shared(const void *p) { return tkgen_host::shared_address(p); }

// ---------------------------------------------------------------- functions

template<typename A, typename B> constexpr auto min(A a, B b) { return a < b ? a : b; }
template<typename A, typename B> constexpr auto max(A a, B b) { return a < b ? b : a; }
inline float rsqrtf(float x) { return float(1 / std::sqrt(double(x))); }
inline float sinpif(float x) { return float(std::sin(M_PI * std::fmod(double(x), 2.0))); }
inline float cospif(float x) { return float(std::cos(M_PI * std::fmod(double(x), 2.0))); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline int __float2int_rn(float v) {
    if (std::isnan(v)) return 0;
    const double whole = std::nearbyint(double(v));
    return whole >= 2147483647.0 ? 2147483647 : whole <= -2147483648.0 ? int(0x80000000) : int(whole);
}
using std::isinf;
using std::isnan;
