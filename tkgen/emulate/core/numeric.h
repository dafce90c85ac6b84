// Number formats and the few exact operations that C++ lacks. Everything rounds to nearest even unless it says otherwise.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

template <class To, class From>
inline To bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "size");
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}

inline float half_to_float(uint32_t h) {
  const uint32_t magnitude = h & 0x7fff, sign = (h & 0x8000) << 16;
  // 2^112 moves the exponent from bias 15 to bias 127, subnormals included.
  uint32_t u = bits<uint32_t>(bits<float>(magnitude << 13) * bits<float>(uint32_t(0x77800000)));
  u = magnitude >= 0x7c00 ? (u | 0x7f800000) : u;
  return bits<float>(u | sign);
}

inline uint32_t float_to_half(float f) {
  uint32_t x = bits<uint32_t>(f);
  const uint32_t sign = x >> 16 & 0x8000;
  x &= 0x7fffffff;
  // Adding 0.5 leaves the value in units of 2^-24, the spacing of subnormal halves.
  const uint32_t subnormal = bits<uint32_t>(bits<float>(x) + 0.5f) - 0x3f000000;
  const uint32_t normal = (x + 0xfff + (x >> 13 & 1) - 0x38000000) >> 13;
  const uint32_t special = x > 0x7f800000 ? 0x7e00 | (x >> 13 & 0x3ff) : 0x7c00;
  uint32_t h = x < 0x38800000 ? subnormal : normal;
  h = x >= 0x477ff000 ? special : h;
  return h | sign;
}

inline uint32_t float_to_half_toward_zero(float f) {
  const uint32_t x = bits<uint32_t>(f), sign = x >> 16 & 0x8000, m = x & 0x7fffffff;
  if (m > 0x7f800000) return sign | 0x7e00 | (m >> 13 & 0x3ff);
  if (m == 0x7f800000) return sign | 0x7c00;
  if (m >= 0x47800000) return sign | 0x7bff;
  if (m < 0x33800000) return sign;
  if (m < 0x38800000) return sign | ((m & 0x7fffff) | 0x800000) >> (126 - (m >> 23));
  return sign | (m - 0x38000000) >> 13;
}

// A double that has been rounded to odd, so that rounding it once more is right (Boldo and Melquiond).
inline double sum_to_odd(double a, double b) {
  const double s = a + b;
  if (!(std::fabs(s) < std::numeric_limits<double>::infinity())) return s;
  const double bb = s - a, error = (a - (s - bb)) + (b - bb);
  if (error == 0) return s;
  int64_t u = bits<int64_t>(s);
  if (!(u & 1)) u += (error > 0) == (s > 0) ? 1 : -1;
  return bits<double>(u);
}

inline uint32_t double_to_half(double d) {
  // Round to odd at 13 extra bits, then to half.
  float f = float(d);
  if (double(f) != d && std::fabs(d) < 65536 && f == f) {
    uint32_t u = bits<uint32_t>(f);
    const bool away = std::fabs(double(f)) > std::fabs(d);
    if (away) u -= 1;
    f = bits<float>(u | 1);
  }
  return float_to_half(f);
}

// Products of halves are exact in double; one rounding at the end.
inline uint32_t half_fma(uint32_t a, uint32_t b, uint32_t c) {
  const double p = double(half_to_float(a)) * double(half_to_float(b));
  return double_to_half(sum_to_odd(p, double(half_to_float(c))));
}

inline float bfloat_to_float(uint32_t b) { return bits<float>(b << 16); }

inline uint32_t float_to_bfloat(float f) {
  const uint32_t x = bits<uint32_t>(f);
  if ((x & 0x7fffffff) > 0x7f800000) return x >> 16 | 0x40;
  return (x + 0x7fff + (x >> 16 & 1)) >> 16;
}

// The four 8-bit formats: E exponent bits, M mantissa bits. FNUZ (gfx942): bias one larger, no negative zero (its code is
// the only NaN), no infinity. OCP (gfx950): e5m2 with infinities, e4m3 with NaN at all ones.
template <int E, int M, bool FNUZ>
inline float small_to_float(uint32_t x) {
  constexpr int bias = (1 << (E - 1)) - 1 + (FNUZ ? 1 : 0);
  x &= 255;
  const uint32_t mantissa = x & ((1 << M) - 1), exponent = x >> M & ((1 << E) - 1);
  const float sign = x & 128 ? -1.f : 1.f;
  if (FNUZ && x == 128) return std::numeric_limits<float>::quiet_NaN();
  if (!FNUZ && exponent == (1 << E) - 1) {
    if (E == 5) return mantissa ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
    if (mantissa == (1 << M) - 1) return std::numeric_limits<float>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(float(mantissa), 1 - bias - M);
  return sign * std::ldexp(float(mantissa | 1 << M), int(exponent) - bias - M);
}

// The OCP formats without infinities and NaNs: e2m3, e3m2, e2m1.
template <int E, int M>
inline float tiny_to_float(uint32_t x) {
  constexpr int bias = (1 << (E - 1)) - 1;
  const uint32_t mantissa = x & ((1 << M) - 1), exponent = x >> M & ((1 << E) - 1);
  const float sign = x >> (E + M) & 1 ? -1.f : 1.f;
  if (exponent == 0) return sign * std::ldexp(float(mantissa), 1 - bias - M);
  return sign * std::ldexp(float(mantissa | 1 << M), int(exponent) - bias - M);
}

// To the nearest of those values, ties to the even code; larger ones and NaN give the largest.
template <int E, int M>
inline uint32_t float_to_tiny(float f) {
  uint32_t best = (1u << (E + M)) - 1;
  const float a = std::fmin(std::fabs(f), tiny_to_float<E, M>(best));  // of a far one all distances round alike
  for (uint32_t code = 0; code < 1u << (E + M); ++code) {
    const float distance = std::fabs(tiny_to_float<E, M>(code) - a), least = std::fabs(tiny_to_float<E, M>(best) - a);
    if (distance < least || (distance == least && !(code & 1))) best = code;
  }
  return best | (bits<uint32_t>(f) >> 31) << (E + M);
}

// Overflow saturates when `saturate`; otherwise it gives infinity or NaN.
template <int E, int M, bool FNUZ>
inline uint32_t float_to_small(float f, bool saturate) {
  constexpr int bias = (1 << (E - 1)) - 1 + (FNUZ ? 1 : 0);
  constexpr uint32_t nan = FNUZ ? 0x80 : 0x7f;
  const uint32_t sign = bits<uint32_t>(f) >> 31 << 7;
  if (f != f) return FNUZ ? nan : nan | sign;
  constexpr int top = FNUZ || E == 4 ? (1 << E) - 1 : (1 << E) - 2;
  constexpr uint32_t largest = top << M | (!FNUZ && E == 4 ? (1 << M) - 2 : (1 << M) - 1);
  const uint32_t overflow = FNUZ ? 0x80 : (E == 5 ? 0x7c | sign : nan | sign);
  const float a = std::fabs(f);
  if (a == std::numeric_limits<float>::infinity()) return !FNUZ && E == 5 ? 0x7c | sign : (saturate ? largest | sign : overflow);
  int e;
  std::frexp(a, &e);
  const int unit = (e - 1 < 1 - bias ? 1 - bias : e - 1) - M;  // exponent of the last place
  const float q = std::nearbyint(std::ldexp(a, -unit));
  uint32_t code;
  if (q == 0) code = 0;
  else {
    int eq;
    std::frexp(q, &eq);  // q in [2^(eq-1), 2^eq)
    const int exponent = unit + eq - 1 + bias;
    code = exponent <= 0 || eq - 1 < M ? uint32_t(q)
                                        : (uint32_t(exponent) << M) + (uint32_t(std::ldexp(q, M + 1 - eq)) - (1u << M));
  }
  if (code > largest) return saturate ? largest | sign : overflow;
  if (FNUZ && code == 0) return 0;
  return code | sign;
}

template <class F>
inline bool is_signalling(F x);
template <>
inline bool is_signalling(float x) {
  const uint32_t u = bits<uint32_t>(x) & 0x7fffffff;
  return u > 0x7f800000 && u < 0x7fc00000;
}
template <>
inline bool is_signalling(double x) {
  const uint64_t u = bits<uint64_t>(x) & 0x7fffffffffffffff;
  return u > 0x7ff0000000000000 && u < 0x7ff8000000000000;
}

inline float quiet(float x) { return bits<float>(bits<uint32_t>(x) | 0x400000); }
inline double quiet(double x) { return bits<double>(bits<uint64_t>(x) | 0x8000000000000); }

// IEEE-754 2008 minNum/maxNum with -0 < +0, as V_MIN_F32 and V_MAX_F32 have it.
template <class F>
inline F minimum_number(F a, F b, bool ieee) {
  if (ieee && is_signalling(a)) return quiet(a);
  if (ieee && is_signalling(b)) return quiet(b);
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <class F>
inline F maximum_number(F a, F b, bool ieee) {
  if (ieee && is_signalling(a)) return quiet(a);
  if (ieee && is_signalling(b)) return quiet(b);
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

// Conversions to integers saturate, NaN gives 0.
template <class I, class F>
inline I saturate(F x) {
  if (x != x) return 0;
  constexpr I low = std::numeric_limits<I>::min(), high = std::numeric_limits<I>::max();
  if (x <= F(low)) return low;
  if (x >= F(high)) return high;
  return I(x);
}

template <class I>
inline I clamp_to(int64_t x) {
  constexpr int64_t low = std::numeric_limits<I>::min(), high = std::numeric_limits<I>::max();
  return I(x < low ? low : x > high ? high : x);
}
