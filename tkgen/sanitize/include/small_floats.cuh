/**
 * HIP's floats of 16 bits, by the names of <hip/hip_fp16.h> and <hip/hip_bf16.h>. They are clang's own types, which convert and
 * compute as HIP's do: rounded to nearest even after each operation.
 */
#pragma once

#include "math_functions.cuh"
#include "vector_types.cuh"

using __half = _Float16;
using half = _Float16;
using __half2 = _Float16 __attribute__((ext_vector_type(2)));
using half2 = __half2;
using __hip_bfloat16 = __bf16;
using __hip_bfloat162 = __bf16 __attribute__((ext_vector_type(2)));
using hip_bfloat16 = __bf16;

#define TKGEN_INLINE __host__ __device__ __forceinline__

/* ---------- from one type to the other ---------- */

TKGEN_INLINE __half __float2half(float x) { return __half(x); }
TKGEN_INLINE __half __float2half_rn(float x) { return __half(x); }
TKGEN_INLINE float __half2float(__half x) { return float(x); }
TKGEN_INLINE __half __int2half_rn(int x) { return __half(x); }
TKGEN_INLINE int __half2int_rz(__half x) { return int(x); }
TKGEN_INLINE int __half2int_rn(__half x) { return int(__builtin_rintf(float(x))); }
TKGEN_INLINE unsigned short __half_as_ushort(__half x) { return __builtin_bit_cast(unsigned short, x); }
TKGEN_INLINE __half __ushort_as_half(unsigned short x) { return __builtin_bit_cast(__half, x); }
TKGEN_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
TKGEN_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
TKGEN_INLINE __half2 __half2half2(__half x) { return {x, x}; }
TKGEN_INLINE __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
TKGEN_INLINE __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
TKGEN_INLINE __half2 __float22half2_rn(float2 x) { return {__half(x.x), __half(x.y)}; }
TKGEN_INLINE float2 __half22float2(__half2 x) { return {float(x.x), float(x.y)}; }
TKGEN_INLINE __half __low2half(__half2 x) { return x.x; }
TKGEN_INLINE __half __high2half(__half2 x) { return x.y; }

TKGEN_INLINE __hip_bfloat16 __float2bfloat16(float x) { return __hip_bfloat16(x); }
TKGEN_INLINE __hip_bfloat16 __float2bfloat16_rn(float x) { return __hip_bfloat16(x); }
TKGEN_INLINE float __bfloat162float(__hip_bfloat16 x) { return float(x); }
TKGEN_INLINE unsigned short __bfloat16_as_ushort(__hip_bfloat16 x) { return __builtin_bit_cast(unsigned short, x); }
TKGEN_INLINE __hip_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __builtin_bit_cast(__hip_bfloat16, x); }
TKGEN_INLINE __hip_bfloat162 __halves2bfloat162(__hip_bfloat16 x, __hip_bfloat16 y) { return {x, y}; }
TKGEN_INLINE __hip_bfloat162 make_bfloat162(__hip_bfloat16 x, __hip_bfloat16 y) { return {x, y}; }
TKGEN_INLINE __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 x) { return {x, x}; }
TKGEN_INLINE __hip_bfloat162 __float2bfloat162_rn(float x) { return {__hip_bfloat16(x), __hip_bfloat16(x)}; }
TKGEN_INLINE __hip_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__hip_bfloat16(x), __hip_bfloat16(y)}; }
TKGEN_INLINE __hip_bfloat162 __float22bfloat162_rn(float2 x) { return {__hip_bfloat16(x.x), __hip_bfloat16(x.y)}; }
TKGEN_INLINE float2 __bfloat1622float2(__hip_bfloat162 x) { return {float(x.x), float(x.y)}; }
TKGEN_INLINE __hip_bfloat16 __low2bfloat16(__hip_bfloat162 x) { return x.x; }
TKGEN_INLINE __hip_bfloat16 __high2bfloat16(__hip_bfloat162 x) { return x.y; }

/* ---------- the same functions for both types ---------- */

#define TKGEN_SMALL(T)                                                                                                 \
    TKGEN_INLINE float __low2float(T##2 x) { return float(x.x); }                                                      \
    TKGEN_INLINE float __high2float(T##2 x) { return float(x.y); }                                                     \
    TKGEN_INLINE T __hadd(T a, T b) { return a + b; }                                                                  \
    TKGEN_INLINE T __hsub(T a, T b) { return a - b; }                                                                  \
    TKGEN_INLINE T __hmul(T a, T b) { return a * b; }                                                                  \
    TKGEN_INLINE T __hdiv(T a, T b) { return a / b; }                                                                  \
    TKGEN_INLINE T __hneg(T a) { return -a; }                                                                          \
    TKGEN_INLINE T __habs(T a) { return T(__builtin_fabsf(float(a))); }                                                \
    TKGEN_INLINE T __hfma(T a, T b, T c) { return T(__builtin_fmaf(float(a), float(b), float(c))); }                   \
    TKGEN_INLINE T __hmax(T a, T b) { return T(__builtin_fmaxf(float(a), float(b))); }                                 \
    TKGEN_INLINE T __hmin(T a, T b) { return T(__builtin_fminf(float(a), float(b))); }                                 \
    TKGEN_INLINE bool __heq(T a, T b) { return a == b; }                                                               \
    TKGEN_INLINE bool __hne(T a, T b) { return a != b; }                                                               \
    TKGEN_INLINE bool __hlt(T a, T b) { return a < b; }                                                                \
    TKGEN_INLINE bool __hle(T a, T b) { return a <= b; }                                                               \
    TKGEN_INLINE bool __hgt(T a, T b) { return a > b; }                                                                \
    TKGEN_INLINE bool __hge(T a, T b) { return a >= b; }                                                               \
    TKGEN_INLINE bool __hisnan(T a) { return a != a; }                                                                 \
    TKGEN_INLINE T##2 __hadd2(T##2 a, T##2 b) { return a + b; }                                                        \
    TKGEN_INLINE T##2 __hsub2(T##2 a, T##2 b) { return a - b; }                                                        \
    TKGEN_INLINE T##2 __hmul2(T##2 a, T##2 b) { return a * b; }                                                        \
    TKGEN_INLINE T##2 __h2div(T##2 a, T##2 b) { return a / b; }                                                        \
    TKGEN_INLINE T##2 __hneg2(T##2 a) { return -a; }                                                                   \
    TKGEN_INLINE T##2 __habs2(T##2 a) { return {__habs(a.x), __habs(a.y)}; }                                           \
    TKGEN_INLINE T##2 __hfma2(T##2 a, T##2 b, T##2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }       \
    TKGEN_INLINE T##2 __hmax2(T##2 a, T##2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }                         \
    TKGEN_INLINE T##2 __hmin2(T##2 a, T##2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }                         \
    __device__ __forceinline__ T hexp(T a) { return T(expf(float(a))); }                                               \
    __device__ __forceinline__ T hexp2(T a) { return T(exp2f(float(a))); }                                             \
    __device__ __forceinline__ T hlog(T a) { return T(logf(float(a))); }                                               \
    __device__ __forceinline__ T hlog2(T a) { return T(log2f(float(a))); }                                             \
    __device__ __forceinline__ T##2 h2exp(T##2 a) { return {hexp(a.x), hexp(a.y)}; }                                   \
    __device__ __forceinline__ T##2 h2exp2(T##2 a) { return {hexp2(a.x), hexp2(a.y)}; }                                \
    __device__ __forceinline__ T##2 h2log(T##2 a) { return {hlog(a.x), hlog(a.y)}; }                                   \
    __device__ __forceinline__ T##2 h2log2(T##2 a) { return {hlog2(a.x), hlog2(a.y)}; }                                \
    __device__ __forceinline__ T hsqrt(T a) { return T(sqrtf(float(a))); }                                             \
    __device__ __forceinline__ T hrsqrt(T a) { return T(1 / sqrtf(float(a))); }                                        \
    __device__ __forceinline__ T hrcp(T a) { return T(1 / float(a)); }
TKGEN_SMALL(__half)
TKGEN_SMALL(__hip_bfloat16)
#undef TKGEN_SMALL
#undef TKGEN_INLINE
