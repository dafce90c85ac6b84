/**
 * The mathematics of <cmath> and of HIP's device functions that kernels use, without a library: instructions of the GPU where
 * it has one, else float arithmetic that is right to a few units in the last place.
 */
#pragma once

#include "kittens/device.cuh"

#define TKGEN_DEVICE __host__ __device__ __forceinline__
#undef INFINITY
#undef NAN
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_inff()
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define DBL_MAX __DBL_MAX__
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (2u * __INT_MAX__ + 1)
#define LONG_MAX __LONG_MAX__
#define M_PI 3.14159265358979323846
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define M_LOG2E 1.44269504088896340736
#define M_LN2 0.69314718055994530942
#define M_2_SQRTPI 1.12837916709551257390

/* ---------- functions of one float, by both names ---------- */

#define TKGEN_FLOAT(name, value)                                                                                       \
    TKGEN_DEVICE float name##f(float x) { return value; }                                                              \
    TKGEN_DEVICE float name(float x) { return name##f(x); }
TKGEN_FLOAT(exp, __builtin_expf(x))
TKGEN_FLOAT(exp2, __builtin_exp2f(x))
TKGEN_FLOAT(exp10, __builtin_exp2f(x * 3.321928094887362f))
TKGEN_FLOAT(log, __builtin_logf(x))
TKGEN_FLOAT(log2, __builtin_log2f(x))
TKGEN_FLOAT(log10, __builtin_log10f(x))
TKGEN_FLOAT(log1p, 1 + x == 1 ? x : __builtin_logf(1 + x) * x / ((1 + x) - 1))
TKGEN_FLOAT(sqrt, __builtin_sqrtf(x))
TKGEN_FLOAT(rsqrt, 1 / __builtin_sqrtf(x))
TKGEN_FLOAT(sin, __builtin_sinf(x))
TKGEN_FLOAT(cos, __builtin_cosf(x))
TKGEN_FLOAT(tan, __builtin_sinf(x) / __builtin_cosf(x))
TKGEN_FLOAT(floor, __builtin_floorf(x))
TKGEN_FLOAT(ceil, __builtin_ceilf(x))
TKGEN_FLOAT(trunc, __builtin_truncf(x))
TKGEN_FLOAT(round, __builtin_roundf(x))
TKGEN_FLOAT(rint, __builtin_rintf(x))
TKGEN_FLOAT(nearbyint, __builtin_rintf(x))
TKGEN_FLOAT(fabs, __builtin_fabsf(x))

namespace tkgen_hip {
TKGEN_DEVICE float tanh_of(float x) {
    const float size = __builtin_fabsf(x), e = __builtin_expf(-2 * size), square = x * x;
    if (size < 0.1f) return x * (1 - square * (1 / 3.0f - square * (2 / 15.0f - square * (17 / 315.0f))));
    return __builtin_copysignf((1 - e) / (1 + e), x);
}
/// Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: within 1.5e-7.
TKGEN_DEVICE float erf_of(float x) {
    const float size = __builtin_fabsf(x), t = 1 / (1 + 0.3275911f * size);
    const float sum = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    return __builtin_copysignf(1 - sum * __builtin_expf(-x * x), x);
}
TKGEN_DEVICE float power(float x, float y) {
    if (y == 0 || x == 1) return 1;
    const bool whole = __builtin_truncf(y) == y, odd = whole && __builtin_fabsf(y) < 16777216 && int(y) % 2;
    if (x < 0 && !whole) return NAN;
    const float size = __builtin_exp2f(y * __builtin_log2f(__builtin_fabsf(x)));
    return odd ? __builtin_copysignf(size, x) : size;
}
} // namespace tkgen_hip
TKGEN_FLOAT(tanh, tkgen_hip::tanh_of(x))
TKGEN_FLOAT(expm1, __builtin_fabsf(x) < 1 ? 2 * tkgen_hip::tanh_of(x / 2) / (1 - tkgen_hip::tanh_of(x / 2)) : __builtin_expf(x) - 1)
TKGEN_FLOAT(sinh, (expm1f(x) - expm1f(-x)) / 2)
TKGEN_FLOAT(cosh, (__builtin_expf(x) + __builtin_expf(-x)) / 2)
TKGEN_FLOAT(erf, tkgen_hip::erf_of(x))
TKGEN_FLOAT(erfc, 1 - tkgen_hip::erf_of(x))
TKGEN_FLOAT(normcdf, (1 + tkgen_hip::erf_of(x * float(M_SQRT1_2))) / 2)
TKGEN_FLOAT(cbrt, __builtin_copysignf(tkgen_hip::power(__builtin_fabsf(x), 1 / 3.0f), x))
#undef TKGEN_FLOAT

#define TKGEN_FLOATS(name, value)                                                                                      \
    TKGEN_DEVICE float name##f(float x, float y) { return value; }                                                     \
    TKGEN_DEVICE float name(float x, float y) { return value; }
TKGEN_FLOATS(fmax, __builtin_fmaxf(x, y))
TKGEN_FLOATS(fmin, __builtin_fminf(x, y))
TKGEN_FLOATS(fmod, __builtin_fmodf(x, y))
TKGEN_FLOATS(pow, tkgen_hip::power(x, y))
TKGEN_FLOATS(copysign, __builtin_copysignf(x, y))
TKGEN_FLOATS(fdim, x > y ? x - y : 0)
TKGEN_FLOATS(hypot, __builtin_sqrtf(x * x + y * y))
#undef TKGEN_FLOATS
TKGEN_DEVICE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TKGEN_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TKGEN_DEVICE float ldexpf(float x, int by) { return __builtin_ldexpf(x, by); }
TKGEN_DEVICE float ldexp(float x, int by) { return __builtin_ldexpf(x, by); }
TKGEN_DEVICE void sincosf(float x, float *sine, float *cosine) { *sine = __builtin_sinf(x), *cosine = __builtin_cosf(x); }
TKGEN_DEVICE void __sincosf(float x, float *sine, float *cosine) { sincosf(x, sine, cosine); }

/* ---------- doubles: what the GPU has instructions for ---------- */

#define TKGEN_DOUBLE(name) TKGEN_DEVICE double name(double x) { return __builtin_##name(x); }
TKGEN_DOUBLE(sqrt)
TKGEN_DOUBLE(floor)
TKGEN_DOUBLE(ceil)
TKGEN_DOUBLE(trunc)
TKGEN_DOUBLE(rint)
TKGEN_DOUBLE(fabs)
#undef TKGEN_DOUBLE
TKGEN_DEVICE double fmax(double a, double b) { return __builtin_fmax(a, b); }
TKGEN_DEVICE double fmin(double a, double b) { return __builtin_fmin(a, b); }
TKGEN_DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

/* ---------- the fast ones ---------- */

TKGEN_DEVICE float __expf(float x) { return __builtin_expf(x); }
TKGEN_DEVICE float __exp10f(float x) { return exp10f(x); }
TKGEN_DEVICE float __logf(float x) { return __builtin_logf(x); }
TKGEN_DEVICE float __log2f(float x) { return __builtin_log2f(x); }
TKGEN_DEVICE float __log10f(float x) { return __builtin_log10f(x); }
TKGEN_DEVICE float __sinf(float x) { return __builtin_sinf(x); }
TKGEN_DEVICE float __cosf(float x) { return __builtin_cosf(x); }
TKGEN_DEVICE float __powf(float x, float y) { return tkgen_hip::power(x, y); }
TKGEN_DEVICE float __fdividef(float x, float y) { return x / y; }
TKGEN_DEVICE float __saturatef(float x) { return __builtin_fminf(__builtin_fmaxf(x, 0.0f), 1.0f); }
TKGEN_DEVICE float __frcp_rn(float x) { return 1 / x; }
TKGEN_DEVICE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
TKGEN_DEVICE float __frsqrt_rn(float x) { return 1 / __builtin_sqrtf(x); }
TKGEN_DEVICE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TKGEN_DEVICE float __fadd_rn(float a, float b) { return a + b; }
TKGEN_DEVICE float __fsub_rn(float a, float b) { return a - b; }
TKGEN_DEVICE float __fmul_rn(float a, float b) { return a * b; }
TKGEN_DEVICE float __fdiv_rn(float a, float b) { return a / b; }

/* ---------- numbers of any type ---------- */

template <typename T> TKGEN_DEVICE bool isnan(T x) { return __builtin_isnan(x); }
template <typename T> TKGEN_DEVICE bool isinf(T x) { return __builtin_isinf(x); }
template <typename T> TKGEN_DEVICE bool isfinite(T x) { return __builtin_isfinite(x); }
template <typename T> TKGEN_DEVICE bool signbit(T x) { return __builtin_signbit(x); }
template <typename T> __host__ __device__ constexpr T abs(T x) { return x < 0 ? -x : x; }
TKGEN_DEVICE float abs(float x) { return __builtin_fabsf(x); }
TKGEN_DEVICE double abs(double x) { return __builtin_fabs(x); }
__device__ constexpr long min(long a, long b) { return a < b ? a : b; }
__device__ constexpr long max(long a, long b) { return a < b ? b : a; }
__device__ constexpr long long min(long long a, long long b) { return a < b ? a : b; }
__device__ constexpr long long max(long long a, long long b) { return a < b ? b : a; }
__device__ constexpr unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
__device__ constexpr unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
TKGEN_DEVICE double min(double a, double b) { return __builtin_fmin(a, b); }
TKGEN_DEVICE double max(double a, double b) { return __builtin_fmax(a, b); }

/* ---------- bits, and numbers of other types ---------- */

#define TKGEN_BITS(name, To, From) TKGEN_DEVICE To name(From x) { return __builtin_bit_cast(To, x); }
TKGEN_BITS(__float_as_int, int, float)
TKGEN_BITS(__float_as_uint, unsigned, float)
TKGEN_BITS(__int_as_float, float, int)
TKGEN_BITS(__uint_as_float, float, unsigned)
TKGEN_BITS(__double_as_longlong, long long, double)
TKGEN_BITS(__longlong_as_double, double, long long)
#undef TKGEN_BITS
TKGEN_DEVICE int __float2int_rn(float x) { return int(__builtin_rintf(x)); }
TKGEN_DEVICE int __float2int_rz(float x) { return int(x); }
TKGEN_DEVICE int __float2int_rd(float x) { return int(__builtin_floorf(x)); }
TKGEN_DEVICE int __float2int_ru(float x) { return int(__builtin_ceilf(x)); }
TKGEN_DEVICE unsigned __float2uint_rn(float x) { return unsigned(__builtin_rintf(x)); }
TKGEN_DEVICE unsigned __float2uint_rz(float x) { return unsigned(x); }
TKGEN_DEVICE float __int2float_rn(int x) { return float(x); }
TKGEN_DEVICE float __uint2float_rn(unsigned x) { return float(x); }
TKGEN_DEVICE float __double2float_rn(double x) { return float(x); }
#undef TKGEN_DEVICE
