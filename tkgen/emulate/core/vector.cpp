// VOP1, VOP2 and VOP3: one lane at a time, the same table entry for every encoding of an operation.
// Semantics after AMD's CDNA3 ISA document, chapter "Instructions"; which 16-bit results clear the upper half follows
// LLVM's GCNSubtarget::zeroesHigh16BitsOfDest.
#include "lanes.h"

namespace {

int count_leading(uint32_t x) { return x ? __builtin_clz(x) : -1; }
int count_trailing(uint32_t x) { return x ? __builtin_ctz(x) : -1; }
int count_sign(int32_t x) {
  const uint32_t y = uint32_t(x ^ (x >> 31));
  return y ? __builtin_clz(y) : -1;
}

uint32_t reverse(uint32_t x) {
  x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
  x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(x);
}

// Below one, also for tiny negative numbers, as the hardware has it; NaN of NaN and of infinities (LLVM, AMDGPUCodeGenPrepare, counts on it).
template <class F> F fraction(F x) {
  const F part = x - std::floor(x);
  return part < F(1) || part != part ? part : std::nextafter(F(1), F(0));
}

template <class F>
int frexp_exponent(F x) {
  int e = 0;
  if (std::isfinite(x)) std::frexp(x, &e);
  return e;
}
template <class F>
F frexp_mantissa(F x) {
  int e;
  return std::isfinite(x) ? std::frexp(x, &e) : x;
}

float sine(float x) { return std::isfinite(x) ? float(std::sin(2 * M_PI * double(fraction(double(x))))) : NAN; }
float cosine(float x) { return std::isfinite(x) ? float(std::cos(2 * M_PI * double(fraction(double(x))))) : NAN; }

// The integer formats of v_cvt_norm and v_cvt_pknorm.
uint32_t signed_norm(float x) {
  x = x != x ? 0 : x < -1 ? -1 : x > 1 ? 1 : x;
  return uint32_t(int32_t(std::nearbyint(double(x) * 32767))) & 0xffff;
}
uint32_t unsigned_norm(float x) {
  x = x != x ? 0 : x < 0 ? 0 : x > 1 ? 1 : x;
  return uint32_t(std::nearbyint(double(x) * 65535));
}

uint32_t byte(uint32_t x, int i) { return x >> 8 * i & 255; }
uint32_t distance(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }
uint32_t sad_u8(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 4; ++i) c += distance(byte(a, i), byte(b, i));
  return c;
}
uint32_t msad_u8(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 4; ++i) c += byte(b, i) ? distance(byte(a, i), byte(b, i)) : 0;
  return c;
}

uint32_t permute_byte(uint64_t data, uint32_t select) {
  if (select >= 13) return 255;
  if (select == 12) return 0;
  if (select >= 8) return data >> (16 * (select - 8) + 15) & 1 ? 255 : 0;
  return uint32_t(data >> 8 * select) & 255;
}
uint32_t permute(uint32_t a, uint32_t b, uint32_t select) {
  const uint64_t data = uint64_t(a) << 32 | b;
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i) r |= permute_byte(data, byte(select, i)) << 8 * i;
  return r;
}

uint32_t lerp(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i) r |= ((byte(a, i) + byte(b, i) + (c >> 8 * i & 1)) >> 1 & 255) << 8 * i;
  return r;
}

template <class F>
F median(F a, F b, F c, bool ieee) {
  if (a != a || b != b || c != c) return minimum_number(minimum_number(a, b, ieee), c, ieee);
  const F m = maximum_number(maximum_number(a, b, ieee), c, ieee);
  if (m == a) return maximum_number(b, c, ieee);
  if (m == b) return maximum_number(a, c, ieee);
  return maximum_number(a, b, ieee);
}
template <class I>
I median_of(I a, I b, I c) {
  const I low = a < b ? a : b, high = a < b ? b : a;
  return c < low ? low : c > high ? high : c;
}
template <class I> I smaller(I a, I b) { return a < b ? a : b; }
template <class I> I larger(I a, I b) { return a < b ? b : a; }

// NaN-propagating minimum and maximum of gfx950.
float minimum_strict(float a, float b) { return a != a || b != b ? NAN : minimum_number(a, b, false); }
float maximum_strict(float a, float b) { return a != a || b != b ? NAN : maximum_number(a, b, false); }

template <class F> struct Format;
template <> struct Format<float> { using U = uint32_t; static constexpr int fraction = 23, mask = 0xff, scale = 64, far = 96, tiny = 23, vanishing = -150; };
template <> struct Format<double> { using U = uint64_t; static constexpr int fraction = 52, mask = 0x7ff, scale = 128, far = 768, tiny = 53, vanishing = -1075; };

template <class F>
int exponent_field(F x) { return int(bits<typename Format<F>::U>(x) >> Format<F>::fraction) & Format<F>::mask; }

// v_div_scale: the operand scaled so that the reciprocal and the quotient stay normal; `flag` tells v_div_fmas to undo it.
// (Where both are subnormal, the document scales a denominator beyond 2^126 up, out of range; it must come down.)
template <class F>
F divide_scale(F s0, F denominator, F numerator, bool& flag) {
  constexpr int step = Format<F>::scale;
  const F tiny = std::numeric_limits<F>::min();
  flag = false;
  if (numerator == 0 || denominator == 0) return std::numeric_limits<F>::quiet_NaN();
  if (exponent_field(numerator) - exponent_field(denominator) >= Format<F>::far) {
    flag = true;
    return s0 == denominator ? std::ldexp(s0, step) : s0;
  }
  if (std::fabs(denominator) < tiny) return std::ldexp(s0, step);
  const auto subnormal = [](auto x) { return std::fpclassify(x) == FP_SUBNORMAL; };
  const bool reciprocal_tiny = subnormal(F(1) / denominator), quotient_tiny = subnormal(numerator / denominator);
  if (reciprocal_tiny && quotient_tiny) {
    flag = true;
    return s0 == denominator ? std::ldexp(s0, -step) : s0;
  }
  if (reciprocal_tiny) return std::ldexp(s0, -step);
  if (quotient_tiny) {
    flag = true;
    return s0 == numerator ? std::ldexp(s0, step) : s0;
  }
  if (exponent_field(numerator) <= Format<F>::tiny) return std::ldexp(s0, step);
  return s0;
}

template <class F>
F divide_fixup(F quotient, F denominator, F numerator) {
  const F inf = std::numeric_limits<F>::infinity(), nan = std::numeric_limits<F>::quiet_NaN();
  const bool negative = std::signbit(denominator) != std::signbit(numerator);
  if (numerator != numerator) return quiet(numerator);
  if (denominator != denominator) return quiet(denominator);
  if ((denominator == 0 && numerator == 0) || (std::isinf(denominator) && std::isinf(numerator))) return -nan;
  if (denominator == 0 || std::isinf(numerator)) return negative ? -inf : inf;
  const int distance = exponent_field(numerator) - exponent_field(denominator);
  if (std::isinf(denominator) || numerator == 0 || distance < Format<F>::vanishing) return negative ? F(-0.0) : F(0.0);
  // A quotient beyond all exponents has made infinities cancel on the way here.
  if (quotient != quotient && distance > std::numeric_limits<F>::max_exponent) return negative ? -inf : inf;
  return negative ? -std::fabs(quotient) : std::fabs(quotient);
}

// The fraction bits of 2 / pi, from the most significant one on.
constexpr uint32_t TWO_OVER_PI[] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0,
    0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4,
    0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d,
    0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab,
};

// v_trig_preop_f64: the 53 bits of 2 / pi from segment `segment` on, further on by the excess of a large exponent. Past
// the 1201 bits that the hardware keeps there are none.
double two_over_pi(double x, uint32_t segment) {
  constexpr unsigned words = sizeof TWO_OVER_PI / sizeof *TWO_OVER_PI;
  const int exponent = exponent_field(x), shift = int(segment & 31) * 53 + (exponent > 1077 ? exponent - 1077 : 0);
  const unsigned first = unsigned(shift) / 32, by = unsigned(shift) % 32;
  if (first + 2 >= words) return 0;
  const uint64_t high = U64::get(TWO_OVER_PI[first + 1], TWO_OVER_PI[first]);
  const uint64_t top = by ? high << by | TWO_OVER_PI[first + 2] >> (32 - by) : high;
  return std::ldexp(double(top >> 11), -53 - shift + (exponent >= 1968 ? 128 : 0));
}

void segment_lanes(Wave& w, const Op& op) {
  Source<F64> a(w, op, 0);
  Source<U32> b(w, op, 1);
  each<F64>(w, op, [&](int l) { return two_over_pi(a[l], b[l]); });
}

template <class T>
void scale_lanes(Wave& w, const Op& op) {
  Source<T> a(w, op, 0), b(w, op, 1), c(w, op, 2);
  uint64_t flags = 0;
  each<T>(w, op, [&](int l) {
    bool flag;
    const auto r = divide_scale(a[l], b[l], c[l], flag);
    flags |= uint64_t(flag) << l;
    return r;
  });
  w.set64(op.sdst, flags & w.exec());
}

// The last step of a division undoes what v_div_scale did: up when the quotient is large, down when it is small, with one
// rounding in all. (The document's text says 2^32 for both, which divides wrongly; this is what its inputs require.)
float divide_fmas(float a, float b, float c) {
  const double r = sum_to_odd(double(a) * b, c);
  return float(std::ldexp(r, exponent_field(c) > 127 ? 64 : -64));
}
double divide_fmas(double a, double b, double c) {
  const int scale = exponent_field(c) > 1023 ? 128 : -128;
  const double r = std::fma(a, b, c), scaled = std::ldexp(r, scale);
  if (std::fpclassify(scaled) != FP_SUBNORMAL) return scaled;
  const double product = a * b, error = std::fma(a, b, -product);
  const double sum = product + c, bb = sum - product, rest = (product - (sum - bb)) + (c - bb) + error;
  // To whole units of a subnormal result; of 53 bits one may go, too few to have rounded to odd before.
  const double unit = std::ldexp(1.0, -1074 - scale), big = std::copysign(std::ldexp(unit, 52), sum);
  const double nearest = (sum + big) - big;
  const bool tie = std::fabs(sum - nearest) == unit / 2 && rest != 0;
  return std::ldexp(tie ? sum + std::copysign(unit / 2, rest) : nearest, scale);
}

template <class T>
void fmas_lanes(Wave& w, const Op& op) {
  Source<T> a(w, op, 0), b(w, op, 1), c(w, op, 2);
  const uint64_t vcc = w.get64(VCC);
  each<T>(w, op, [&](int l) { return vcc >> l & 1 ? divide_fmas(a[l], b[l], c[l]) : std::fma(a[l], b[l], c[l]); });
}

// Additions with carry; src2 is the carry in for the VOP3 form, VCC for VOP2. The carry out goes to sdst.
template <class F>
void carry_lanes(Wave& w, const Op& op, bool carry_in, F f) {
  Source<U32> a(w, op, 0), b(w, op, 1);
  const uint64_t in = carry_in ? w.get64(op.encoding == ENC_VOP3 ? op.src[2] : uint16_t(VCC)) : 0;
  uint64_t out = 0;
  each<U32>(w, op, [&](int l) {
    const int64_t r = f(int64_t(a[l]), int64_t(b[l]), int64_t(in >> l & 1));
    const bool carry = r < 0 || r > int64_t(0xffffffff);
    out |= uint64_t(carry) << l;
    if (op.clamp && carry) return r < 0 ? 0u : ~0u;
    return uint32_t(r);
  });
  w.set64(op.sdst, out & w.exec());
}

void select_lanes(Wave& w, const Op& op) {
  Source<U32> a(w, op, 0), b(w, op, 1);
  const uint64_t mask = op.encoding == ENC_VOP3 ? scalar64(w, op, op.src[2], Kind::B64) : w.get64(VCC);
  each<U32>(w, op, [&](int l) { return mask >> l & 1 ? b[l] : a[l]; });
}

void multiply_add_64(Wave& w, const Op& op, bool is_signed) {
  Source<U32> a(w, op, 0), b(w, op, 1);
  Source<U64> c(w, op, 2);
  uint64_t out = 0;
  each<U64>(w, op, [&](int l) {
    if (is_signed) {
      const __int128 r = __int128(int64_t(int32_t(a[l])) * int32_t(b[l])) + int64_t(c[l]);
      out |= uint64_t(r >> 64 & 1) << l;
      return uint64_t(r);
    }
    const unsigned __int128 r = (unsigned __int128)(uint64_t(a[l]) * b[l]) + c[l];
    out |= uint64_t(r >> 64 & 1) << l;
    return uint64_t(r);
  });
  w.set64(op.sdst, out & w.exec());
}

int first_lane(uint64_t exec) { return exec ? __builtin_ctzll(exec) : 0; }

void read_first_lane(Wave& w, const Op& op) {
  Lanes a;
  fetch_code(w, op, op.src[0], Kind::B32, a);
  w.s[op.dst] = a.lo[first_lane(w.exec())];
}
void read_lane(Wave& w, const Op& op) {
  Lanes a;
  fetch_code(w, op, op.src[0], Kind::B32, a);
  w.s[op.dst] = a.lo[scalar32(w, op, op.src[1], Kind::B32) & 63];
}
void write_lane(Wave& w, const Op& op) {
  w.v[op.dst - 256][scalar32(w, op, op.src[1], Kind::B32) & 63] = scalar32(w, op, op.src[0], Kind::B32);
}

// Sums of differences of four bytes at each of four byte positions, into 16 bits each.
template <class F>
void quad_lanes(Wave& w, const Op& op, F sum) {
  Source<U64> a(w, op, 0), c(w, op, 2);
  Source<U32> b(w, op, 1);
  each<U64>(w, op, [&](int l) {
    uint64_t r = 0;
    for (int i = 0; i < 4; ++i) r |= uint64_t(sum(uint32_t(a[l] >> 8 * i), b[l], uint32_t(c[l] >> 16 * i & 0xffff)) & 0xffff) << 16 * i;
    return r;
  });
}

// The same into 32 bits each: the addend and the result are four registers.
void quad_wide_lanes(Wave& w, const Op& op) {
  Source<U64> a(w, op, 0);
  Source<U32> b(w, op, 1);
  alignas(64) uint32_t r[4][LANES];
  for (int i = 0; i < 4; ++i) {
    Lanes c;
    fetch_code(w, op, op.src[2] >= 256 ? uint16_t(op.src[2] + i) : op.src[2], Kind::B32, c);
    for (int l = 0; l < LANES; ++l) r[i][l] = msad_u8(uint32_t(a[l] >> 8 * i), b[l], c.lo[l]);
  }
  for (int i = 0; i < 4; ++i) write_row(w, uint16_t(op.dst + i), r[i], w.lanes);
}

void count_below(Wave& w, const Op& op, int half) {
  Source<U32> a(w, op, 0), b(w, op, 1);
  each<U32>(w, op, [&](int l) {
    const uint64_t below = (uint64_t(1) << l) - 1;
    return b[l] + uint32_t(__builtin_popcount(a[l] & uint32_t(below >> 32 * half)));
  });
}

void swap_rows(Wave& w, const Op& op) {
  uint32_t *a = w.v[op.dst - 256], *b = w.v[op.src[0] - 256];
  for (int l = 0; l < LANES; ++l)
    if (w.lanes >> l & 1) std::swap(a[l], b[l]);
}

// v_permlane16_swap, v_permlane32_swap: odd groups of `width` lanes of the destination against even ones of the source.
void swap_groups(Wave& w, const Op& op, int width) {
  uint32_t *a = w.v[op.dst - 256], *b = w.v[op.src[0] - 256];
  for (int base = 0; base < LANES; base += 2 * width)
    for (int l = base; l < base + width; ++l) std::swap(b[l], a[l + width]);
}

void bit_operation(Wave& w, const Op& op, bool wide) {
  const uint32_t table = uint32_t(op.omod) << 6 | uint32_t(op.abs) << 3 | op.neg;
  Lanes s[3];
  for (int i = 0; i < 3; ++i) fetch_code(w, op, op.src[i], Kind::B32, s[i]);
  alignas(64) uint32_t r[LANES];
  for (int l = 0; l < LANES; ++l) {
    uint32_t x[3];
    for (int i = 0; i < 3; ++i) x[i] = s[i].lo[l] >> (!wide && op.opsel >> i & 1 ? 16 : 0);
    uint32_t y = 0;
    for (int t = 0; t < 8; ++t)
      if (table >> t & 1) y |= (t & 4 ? x[0] : ~x[0]) & (t & 2 ? x[1] : ~x[1]) & (t & 1 ? x[2] : ~x[2]);
    r[l] = wide ? y : y & 0xffff;
  }
  Op plain = op;
  plain.omod = plain.clamp = 0;
  store(w, plain, wide ? Kind::B32 : Kind::B16, r, nullptr);
}

// "v_mad_f32/v_mac_f32 do not support denormals" (LLVM, SITargetLowering::isFMADLegal), whatever the mode says; it takes them for
// a v_mul_f32 and a v_add_f32 that flush. Of the legacy form, zero times anything is zero.
float without_subnormals(float x) { return bits<uint32_t>(x) & 0x7f800000 ? x : bits<float>(bits<uint32_t>(x) & 0x80000000); }
float multiply_add(float a, float b, float c, bool legacy = false) {
  a = without_subnormals(a), b = without_subnormals(b);
  const float product = legacy && (a == 0 || b == 0) ? 0.0f : without_subnormals(a * b);
  return without_subnormals(product + without_subnormals(c));
}

// fmamk/fmaak and their mad forms: the constant stands between or after the sources.
template <class F>
void with_constant(Wave& w, const Op& op, bool last, F f) {
  Source<F32> a(w, op, 0), b(w, op, 1);
  const float k = bits<float>(op.literal);
  each<F32>(w, op, [&](int l) { return last ? f(a[l], b[l], k) : f(a[l], k, b[l]); });
}
void half_with_constant(Wave& w, const Op& op, bool last) {
  Source<F16> a(w, op, 0), b(w, op, 1);
  const float k = half_to_float(op.literal & 0xffff);
  each<F16>(w, op, [&](int l) {
    const float x = last ? b[l] : k, y = last ? k : b[l];
    return half_to_float(float_to_half(a[l] * x)) + y;
  });
}

uint32_t fmac_half(const Wave& w, uint32_t a, uint32_t b, uint32_t c) {
  const auto in = [&](uint32_t x) { return flush_half(w, x & 0xffff, false); };
  return flush_half(w, half_fma(in(a), in(b), in(c)), true);
}

float half_round(float x) { return half_to_float(float_to_half(x)); }


template <class I>
I add_clamped(const Op& op, int64_t x) { return op.clamp ? clamp_to<I>(x) : I(x); }

int32_t signed24(uint32_t x) { return int32_t(x << 8) >> 8; }
uint32_t unsigned24(uint32_t x) { return x & 0xffffff; }

uint32_t saturate_u8(int32_t x) { return uint32_t(x < 0 ? 0 : x > 255 ? 255 : x); }
uint32_t saturate_i8(int32_t x) { return uint32_t(x < -128 ? -128 : x > 127 ? 127 : x) & 255; }
uint32_t float_to_u8(float x) { return uint32_t(saturate<uint8_t>(std::nearbyint(x))); }

uint32_t pack(uint32_t low, uint32_t high) { return (low & 0xffff) | high << 16; }

template <class F>
F cube(F x, F y, F z, int what) {  // 0 face, 1 s, 2 t, 3 major axis
  const F ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  if (az >= ax && az >= ay) {
    const F r[] = {z < 0 ? F(5) : F(4), z < 0 ? -x : x, -y, z * 2};
    return r[what];
  }
  if (ay >= ax) {
    const F r[] = {y < 0 ? F(3) : F(2), x, y < 0 ? -z : z, y * 2};
    return r[what];
  }
  const F r[] = {x < 0 ? F(1) : F(0), x < 0 ? z : -z, -y, x * 2};
  return r[what];
}

float dot2(float a0, float b0, float a1, float b1, float c) { return std::fma(a1, b1, std::fma(a0, b0, c)); }

template <int WIDTH, bool SIGNED>
int64_t dot_integer(uint32_t a, uint32_t b) {
  int64_t r = 0;
  for (int i = 0; i < 32 / WIDTH; ++i) {
    const uint32_t x = a << (32 - WIDTH - WIDTH * i), y = b << (32 - WIDTH - WIDTH * i);
    r += SIGNED ? int64_t(int32_t(x) >> (32 - WIDTH)) * (int32_t(y) >> (32 - WIDTH))
                : int64_t(x >> (32 - WIDTH)) * (y >> (32 - WIDTH));
  }
  return r;
}

#define CARRY(NAME, IN, EXPR)                                                                               \
  {#NAME, [](Wave& w, const Op& op) { carry_lanes(w, op, IN, [](int64_t a, int64_t b, int64_t c) { (void)c; return EXPR; }); }, 1, \
   {1, 1, 0}, 0}

const Info TABLE[] = {
    {"v_nop", [](Wave&, const Op&) {}, 0, {0, 0, 0}, 0},
    {"v_clrexcp", [](Wave&, const Op&) {}, 0, {0, 0, 0}, 0},
    {"v_mov_b32", [](Wave& w, const Op& op) { lanes1<U32, U32>(w, op, [](uint32_t a) { return a; }); }, 1, {1, 0, 0}, 0},
    {"v_mov_b64", [](Wave& w, const Op& op) { lanes1<U64, U64>(w, op, [](uint64_t a) { return a; }); }, 2, {2, 0, 0}, PAIRS},
    {"v_accvgpr_mov_b32", [](Wave& w, const Op& op) { lanes1<U32, U32>(w, op, [](uint32_t a) { return a; }); }, 1, {1, 0, 0}, 0},
    {"v_accvgpr_read_b32", [](Wave& w, const Op& op) { lanes1<U32, U32>(w, op, [](uint32_t a) { return a; }); }, 1, {1, 0, 0}, 0},
    {"v_accvgpr_write_b32", [](Wave& w, const Op& op) { lanes1<U32, U32>(w, op, [](uint32_t a) { return a; }); }, 1, {1, 0, 0}, 0},
    SPECIAL(v_readfirstlane_b32, read_first_lane(w, op), 1, 1, 0, 0, CROSS_LANE),
    SPECIAL(v_readlane_b32, read_lane(w, op), 1, 1, 1, 0, CROSS_LANE),
    SPECIAL(v_writelane_b32, write_lane(w, op), 1, 1, 1, 0, READS_DST | CROSS_LANE),
    SPECIAL(v_swap_b32, swap_rows(w, op), 1, 1, 0, 0, READS_DST | SWAPS),
    SPECIAL(v_permlane16_swap_b32, swap_groups(w, op, 16), 1, 1, 0, 0, READS_DST | SWAPS),
    SPECIAL(v_permlane32_swap_b32, swap_groups(w, op, 32), 1, 1, 0, 0, READS_DST | SWAPS),
    SPECIAL(v_cndmask_b32, select_lanes(w, op), 1, 1, 1, 0, SELECTS),

    // Conversions
    V1(v_cvt_i32_f64, I32, F64, saturate<int32_t>(std::trunc(a))),
    V1(v_cvt_f64_i32, F64, I32, double(a)),
    V1(v_cvt_f32_i32, F32, I32, float(a)),
    V1(v_cvt_f32_u32, F32, U32, float(a)),
    V1(v_cvt_u32_f32, U32, F32, saturate<uint32_t>(std::trunc(double(a)))),
    V1(v_cvt_i32_f32, I32, F32, saturate<int32_t>(std::trunc(double(a)))),
    V1(v_cvt_f16_f32, H16, F32, float_to_half(a)),
    V1(v_cvt_f32_f16, F32, F16, a),
    V1(v_cvt_rpi_i32_f32, I32, F32, saturate<int32_t>(std::floor(double(a) + 0.5))),
    V1(v_cvt_flr_i32_f32, I32, F32, saturate<int32_t>(std::floor(double(a)))),
    V1(v_cvt_off_f32_i4, F32, U32, float(int32_t(a << 28) >> 28) * 0.0625f),
    V1(v_cvt_f32_f64, F32, F64, float(a)),
    V1(v_cvt_f64_f32, F64, F32, double(a)),
    V1(v_cvt_f32_ubyte0, F32, U32, float(byte(a, 0))),
    V1(v_cvt_f32_ubyte1, F32, U32, float(byte(a, 1))),
    V1(v_cvt_f32_ubyte2, F32, U32, float(byte(a, 2))),
    V1(v_cvt_f32_ubyte3, F32, U32, float(byte(a, 3))),
    V1(v_cvt_u32_f64, U32, F64, saturate<uint32_t>(std::trunc(a))),
    V1(v_cvt_f64_u32, F64, U32, double(a)),
    V1(v_cvt_f16_u16, F16, U16, float(a)),
    V1(v_cvt_f16_i16, F16, I16, float(a)),
    V1(v_cvt_u16_f16, U16, F16, uint32_t(saturate<uint16_t>(std::trunc(a)))),
    V1(v_cvt_i16_f16, I16, F16, int32_t(saturate<int16_t>(std::trunc(a)))),
    V1(v_cvt_norm_i16_f16, U16, F16, signed_norm(a)),
    V1(v_cvt_norm_u16_f16, U16, F16, unsigned_norm(a)),
    // An inline constant is the bf16: the upper half of the f32.
    V1(v_cvt_f32_bf16, F32, U16, op.src[0] >= 240 && op.src[0] <= 248 ? bits<float>(scalar32(w, op, op.src[0], Kind::B32) & 0xffff0000) : bfloat_to_float(a)),
    V2(v_cvt_pkrtz_f16_f32, U32, F32, F32, pack(flush_half(w, float_to_half_toward_zero(a), true), flush_half(w, float_to_half_toward_zero(b), true))),
    V2(v_cvt_pk_f16_f32, U32, F32, F32, pack(flush_half(w, float_to_half(a), true), flush_half(w, float_to_half(b), true))),
    V2(v_cvt_pk_bf16_f32, U32, F32, F32, pack(float_to_bfloat(a), float_to_bfloat(b))),
    V2(v_cvt_pknorm_i16_f32, U32, F32, F32, pack(signed_norm(a), signed_norm(b))),
    V2(v_cvt_pknorm_u16_f32, U32, F32, F32, pack(unsigned_norm(a), unsigned_norm(b))),
    V2(v_cvt_pknorm_i16_f16, U32, F16, F16, pack(signed_norm(a), signed_norm(b))),
    V2(v_cvt_pknorm_u16_f16, U32, F16, F16, pack(unsigned_norm(a), unsigned_norm(b))),
    V2(v_cvt_pk_u16_u32, U32, U32, U32, pack(smaller(a, 65535u), smaller(b, 65535u))),
    V2(v_cvt_pk_i16_i32, U32, I32, I32, pack(uint32_t(clamp_to<int16_t>(a)), uint32_t(clamp_to<int16_t>(b)))),
    V3(v_cvt_pk_u8_f32, U32, F32, U32, U32, (c & ~(255u << 8 * (b & 3))) | float_to_u8(a) << 8 * (b & 3)),
    VACC(v_cvt_pkaccum_u8_f32, U32, F32, U32, (c & ~(255u << 8 * (b & 3))) | float_to_u8(a) << 8 * (b & 3)),
    V1(v_sat_pk_u8_i16, U16, U32, saturate_u8(int16_t(a)) | saturate_u8(int16_t(a >> 16)) << 8),
    V3(v_ashr_pk_i8_i32, U16K, I32, I32, U32, saturate_i8(a >> (c & 31)) | saturate_i8(b >> (c & 31)) << 8),
    V3(v_ashr_pk_u8_i32, U16K, I32, I32, U32, saturate_u8(a >> (c & 31)) | saturate_u8(b >> (c & 31)) << 8),

    // Rounding and transcendental functions; the approximate ones are rounded correctly here.
    V1(v_trunc_f64, F64, F64, std::trunc(a)),
    V1(v_ceil_f64, F64, F64, std::ceil(a)),
    V1(v_rndne_f64, F64, F64, std::nearbyint(a)),
    V1(v_floor_f64, F64, F64, std::floor(a)),
    V1(v_fract_f64, F64, F64, fraction(a)),
    V1(v_trunc_f32, F32, F32, std::trunc(a)),
    V1(v_ceil_f32, F32, F32, std::ceil(a)),
    V1(v_rndne_f32, F32, F32, std::nearbyint(a)),
    V1(v_floor_f32, F32, F32, std::floor(a)),
    V1(v_fract_f32, F32, F32, fraction(a)),
    V1(v_trunc_f16, F16, F16, std::trunc(a)),
    V1(v_ceil_f16, F16, F16, std::ceil(a)),
    V1(v_rndne_f16, F16, F16, std::nearbyint(a)),
    V1(v_floor_f16, F16, F16, std::floor(a)),
    V1(v_fract_f16, F16, F16, std::isfinite(a) ? std::min(a - std::floor(a), half_to_float(0x3bff)) : NAN),
    V1(v_exp_f32, F32, F32, float(std::exp2(double(a)))),
    V1(v_log_f32, F32, F32, float(std::log2(double(a)))),
    V1(v_exp_legacy_f32, F32, F32, float(std::exp2(double(a)))),
    V1(v_log_legacy_f32, F32, F32, float(std::log2(double(a)))),
    V1(v_rcp_f32, F32, F32, 1.0f / a),
    V1(v_rcp_iflag_f32, F32, F32, 1.0f / a),
    V1(v_rsq_f32, F32, F32, float(1.0 / std::sqrt(double(a)))),
    V1(v_sqrt_f32, F32, F32, std::sqrt(a)),
    V1(v_rcp_f64, F64, F64, 1.0 / a),
    V1(v_rsq_f64, F64, F64, 1.0 / std::sqrt(a)),
    V1(v_sqrt_f64, F64, F64, std::sqrt(a)),
    V1(v_sin_f32, F32, F32, sine(a)),
    V1(v_cos_f32, F32, F32, cosine(a)),
    V1(v_rcp_f16, F16, F16, 1.0f / a),
    V1(v_sqrt_f16, F16, F16, std::sqrt(a)),
    V1(v_rsq_f16, F16, F16, float(1.0 / std::sqrt(double(a)))),
    V1(v_log_f16, F16, F16, float(std::log2(double(a)))),
    V1(v_exp_f16, F16, F16, float(std::exp2(double(a)))),
    V1(v_sin_f16, F16, F16, sine(a)),
    V1(v_cos_f16, F16, F16, cosine(a)),
    V1(v_frexp_exp_i32_f64, I32, F64, frexp_exponent(a)),
    V1(v_frexp_mant_f64, F64, F64, frexp_mantissa(a)),
    V1(v_frexp_exp_i32_f32, I32, F32, frexp_exponent(a)),
    V1(v_frexp_mant_f32, F32, F32, frexp_mantissa(a)),
    V1(v_frexp_exp_i16_f16, I16, F16, frexp_exponent(a)),
    V1(v_frexp_mant_f16, F16, F16, frexp_mantissa(a)),
    V2(v_ldexp_f64, F64, F64, I32, std::ldexp(a, b)),
    V2(v_ldexp_f32, F32, F32, I32, std::ldexp(a, b)),
    V2(v_ldexp_f16, H16, F16, I16, double_to_half(std::ldexp(double(a), b))),
    SPECIAL(v_div_scale_f32, scale_lanes<F32>(w, op), 1, 1, 1, 1, 0),
    SPECIAL(v_div_scale_f64, scale_lanes<F64>(w, op), 2, 2, 2, 2, 0),
    SPECIAL(v_div_fmas_f32, fmas_lanes<F32>(w, op), 1, 1, 1, 1, 0),
    SPECIAL(v_div_fmas_f64, fmas_lanes<F64>(w, op), 2, 2, 2, 2, 0),
    V3(v_div_fixup_f32, F32, F32, F32, F32, divide_fixup(a, b, c)),
    V3(v_div_fixup_f64, F64, F64, F64, F64, divide_fixup(a, b, c)),
    V3(v_div_fixup_f16, H16K, F16, F16, F16, float_to_half(divide_fixup(a, b, c))),
    V3(v_div_fixup_legacy_f16, H16, F16, F16, F16, float_to_half(divide_fixup(a, b, c))),

    // Floating point
    V2(v_add_f32, F32, F32, F32, a + b),
    V2(v_sub_f32, F32, F32, F32, a - b),
    V2(v_subrev_f32, F32, F32, F32, b - a),
    V2(v_mul_f32, F32, F32, F32, a * b),
    V2(v_mul_legacy_f32, F32, F32, F32, (a == 0 || b == 0) ? 0.0f : a * b),
    V2(v_min_f32, F32, F32, F32, minimum_number(a, b, ieee(w))),
    V2(v_max_f32, F32, F32, F32, maximum_number(a, b, ieee(w))),
    V3(v_fma_f32, F32, F32, F32, F32, std::fma(a, b, c)),
    V3(v_mad_f32, F32, F32, F32, F32, multiply_add(a, b, c)),
    V3(v_mad_legacy_f32, F32, F32, F32, F32, multiply_add(a, b, c, true)),
    VACC(v_fmac_f32, F32, F32, F32, std::fma(a, b, c)),
    VACC(v_mac_f32, F32, F32, F32, multiply_add(a, b, c)),
    SPECIAL(v_fmamk_f32, with_constant(w, op, false, [](float a, float b, float c) { return std::fma(a, b, c); }), 1, 1, 1, 0, 0),
    SPECIAL(v_fmaak_f32, with_constant(w, op, true, [](float a, float b, float c) { return std::fma(a, b, c); }), 1, 1, 1, 0, 0),
    SPECIAL(v_madmk_f32, with_constant(w, op, false, [](float a, float b, float c) { return multiply_add(a, b, c); }), 1, 1, 1, 0, 0),
    SPECIAL(v_madak_f32, with_constant(w, op, true, [](float a, float b, float c) { return multiply_add(a, b, c); }), 1, 1, 1, 0, 0),
    SPECIAL(v_madmk_f16, half_with_constant(w, op, false), 1, 1, 1, 0, 0),
    SPECIAL(v_madak_f16, half_with_constant(w, op, true), 1, 1, 1, 0, 0),
    V3(v_min3_f32, F32, F32, F32, F32, minimum_number(minimum_number(a, b, ieee(w)), c, ieee(w))),
    V3(v_max3_f32, F32, F32, F32, F32, maximum_number(maximum_number(a, b, ieee(w)), c, ieee(w))),
    V3(v_med3_f32, F32, F32, F32, F32, median(a, b, c, ieee(w))),
    V3(v_minimum3_f32, F32, F32, F32, F32, minimum_strict(minimum_strict(a, b), c)),
    V3(v_maximum3_f32, F32, F32, F32, F32, maximum_strict(maximum_strict(a, b), c)),
    V3(v_cubeid_f32, F32, F32, F32, F32, cube(a, b, c, 0)),
    V3(v_cubesc_f32, F32, F32, F32, F32, cube(a, b, c, 1)),
    V3(v_cubetc_f32, F32, F32, F32, F32, cube(a, b, c, 2)),
    V3(v_cubema_f32, F32, F32, F32, F32, cube(a, b, c, 3)),
    V2(v_add_f64, F64, F64, F64, a + b),
    V2(v_mul_f64, F64, F64, F64, a * b),
    V2(v_min_f64, F64, F64, F64, minimum_number(a, b, ieee(w))),
    V2(v_max_f64, F64, F64, F64, maximum_number(a, b, ieee(w))),
    V3(v_fma_f64, F64, F64, F64, F64, std::fma(a, b, c)),
    VACC(v_fmac_f64, F64, F64, F64, std::fma(a, b, c)),
    V2(v_add_f16, F16, F16, F16, a + b),
    V2(v_sub_f16, F16, F16, F16, a - b),
    V2(v_subrev_f16, F16, F16, F16, b - a),
    V2(v_mul_f16, F16, F16, F16, a * b),
    V2(v_min_f16, F16, F16, F16, minimum_number(a, b, ieee(w))),
    V2(v_max_f16, F16, F16, F16, maximum_number(a, b, ieee(w))),
    V3(v_fma_f16, H16K, H16, H16, H16, half_fma(a, b, c)),
    V3(v_fma_legacy_f16, H16, H16, H16, H16, half_fma(a, b, c)),
    V3(v_mad_f16, H16K, F16, F16, F16, float_to_half(half_round(a * b) + c)),
    V3(v_mad_legacy_f16, H16, F16, F16, F16, float_to_half(half_round(a * b) + c)),
    VACC(v_mac_f16, F16, F16, F16, half_round(a * b) + c),
    V3(v_min3_f16, F16, F16, F16, F16, minimum_number(minimum_number(a, b, ieee(w)), c, ieee(w))),
    V3(v_max3_f16, F16, F16, F16, F16, maximum_number(maximum_number(a, b, ieee(w)), c, ieee(w))),
    V3(v_med3_f16, F16, F16, F16, F16, median(a, b, c, ieee(w))),
    V2(v_pack_b32_f16, U32, H16, H16, pack(a, b)),
    SPECIAL(v_trig_preop_f64, segment_lanes(w, op), 2, 2, 1, 0, 0),

    // Integers
    V2(v_mul_i32_i24, I32, U32, U32, int32_t(uint32_t(int64_t(signed24(a)) * signed24(b)))),
    V2(v_mul_hi_i32_i24, I32, U32, U32, int32_t(int64_t(signed24(a)) * signed24(b) >> 32)),
    V2(v_mul_u32_u24, U32, U32, U32, unsigned24(a) * unsigned24(b)),
    V2(v_mul_hi_u32_u24, U32, U32, U32, uint32_t(uint64_t(unsigned24(a)) * unsigned24(b) >> 32)),
    V3(v_mad_i32_i24, I32, U32, U32, I32, (add_clamped<int32_t>(op, int64_t(signed24(a)) * signed24(b) + c))),
    V3(v_mad_u32_u24, U32, U32, U32, U32, (add_clamped<uint32_t>(op, int64_t(unsigned24(a)) * unsigned24(b) + c))),
    V2(v_min_i32, I32, I32, I32, smaller(a, b)),
    V2(v_max_i32, I32, I32, I32, larger(a, b)),
    V2(v_min_u32, U32, U32, U32, smaller(a, b)),
    V2(v_max_u32, U32, U32, U32, larger(a, b)),
    V2(v_lshrrev_b32, U32, U32, U32, b >> (a & 31)),
    V2(v_ashrrev_i32, I32, U32, I32, b >> (a & 31)),
    V2(v_lshlrev_b32, U32, U32, U32, b << (a & 31)),
    V2(v_and_b32, U32, U32, U32, a & b),
    V2(v_or_b32, U32, U32, U32, a | b),
    V2(v_xor_b32, U32, U32, U32, a ^ b),
    V2(v_xnor_b32, U32, U32, U32, ~(a ^ b)),
    V1(v_not_b32, U32, U32, ~a),
    V1(v_bfrev_b32, U32, U32, reverse(a)),
    V1(v_ffbh_u32, I32, U32, count_leading(a)),
    V1(v_ffbl_b32, I32, U32, count_trailing(a)),
    V1(v_ffbh_i32, I32, I32, count_sign(a)),
    V1(v_prng_b32, U32, U32, a << 1 ^ (a >> 31 ? 197u : 0u)),
    V2(v_add_u32, U32, U32, U32, add_clamped<uint32_t>(op, int64_t(a) + b)),
    V2(v_sub_u32, U32, U32, U32, add_clamped<uint32_t>(op, int64_t(a) - b)),
    V2(v_subrev_u32, U32, U32, U32, add_clamped<uint32_t>(op, int64_t(b) - a)),
    V2(v_add_i32, I32, I32, I32, add_clamped<int32_t>(op, int64_t(a) + b)),
    V2(v_sub_i32, I32, I32, I32, add_clamped<int32_t>(op, int64_t(a) - b)),
    CARRY(v_add_co_u32, false, a + b),
    CARRY(v_sub_co_u32, false, a - b),
    CARRY(v_subrev_co_u32, false, b - a),
    CARRY(v_addc_co_u32, true, a + b + c),
    CARRY(v_subb_co_u32, true, a - b - c),
    CARRY(v_subbrev_co_u32, true, b - a - c),
    V3(v_bfe_u32, U32, U32, U32, U32, a >> (b & 31) & ((1u << (c & 31)) - 1)),
    V3(v_bfe_i32, I32, I32, U32, U32, (c & 31) == 0 ? 0 : int32_t(uint32_t(a >> (b & 31)) << (32 - (c & 31))) >> (32 - (c & 31))),
    V3(v_bfi_b32, U32, U32, U32, U32, (a & b) | (~a & c)),
    V2(v_bfm_b32, U32, U32, U32, ((1u << (a & 31)) - 1) << (b & 31)),
    V3(v_lerp_u8, U32, U32, U32, U32, lerp(a, b, c)),
    V3(v_alignbit_b32, U32, U32, U32, U32, uint32_t((uint64_t(a) << 32 | b) >> (c & 31))),
    V3(v_alignbyte_b32, U32, U32, U32, U32, uint32_t((uint64_t(a) << 32 | b) >> 8 * (c & 3))),
    V3(v_perm_b32, U32, U32, U32, U32, permute(a, b, c)),
    V3(v_min3_i32, I32, I32, I32, I32, smaller(smaller(a, b), c)),
    V3(v_max3_i32, I32, I32, I32, I32, larger(larger(a, b), c)),
    V3(v_med3_i32, I32, I32, I32, I32, median_of(a, b, c)),
    V3(v_min3_u32, U32, U32, U32, U32, smaller(smaller(a, b), c)),
    V3(v_max3_u32, U32, U32, U32, U32, larger(larger(a, b), c)),
    V3(v_med3_u32, U32, U32, U32, U32, median_of(a, b, c)),
    V3(v_sad_u8, U32, U32, U32, U32, sad_u8(a, b, c)),
    V3(v_sad_hi_u8, U32, U32, U32, U32, (sad_u8(a, b, 0) << 16) + c),
    V3(v_sad_u16, U32, U32, U32, U32, c + distance(a & 0xffff, b & 0xffff) + distance(a >> 16, b >> 16)),
    V3(v_sad_u32, U32, U32, U32, U32, distance(a, b) + c),
    V3(v_msad_u8, U32, U32, U32, U32, msad_u8(a, b, c)),
    SPECIAL(v_qsad_pk_u16_u8, quad_lanes(w, op, sad_u8), 2, 2, 1, 2, 0),
    SPECIAL(v_mqsad_pk_u16_u8, quad_lanes(w, op, msad_u8), 2, 2, 1, 2, 0),
    SPECIAL(v_mqsad_u32_u8, quad_wide_lanes(w, op), 4, 2, 1, 4, 0),
    V3(v_lshl_add_u32, U32, U32, U32, U32, (a << (b & 31)) + c),
    V3(v_add_lshl_u32, U32, U32, U32, U32, (a + b) << (c & 31)),
    V3(v_add3_u32, U32, U32, U32, U32, a + b + c),
    V3(v_lshl_or_b32, U32, U32, U32, U32, a << (b & 31) | c),
    V3(v_and_or_b32, U32, U32, U32, U32, (a & b) | c),
    V3(v_or3_b32, U32, U32, U32, U32, a | b | c),
    V3(v_xad_u32, U32, U32, U32, U32, (a ^ b) + c),
    V3(v_lshl_add_u64, U64, U64, U32, U64, (a << (b & 7)) + c),
    V3(v_mad_u32_u16, U32, U16, U16, U32, add_clamped<uint32_t>(op, int64_t(a) * b + c)),
    V3(v_mad_i32_i16, I32, I16, I16, I32, add_clamped<int32_t>(op, int64_t(a) * b + c)),
    // Where only the low half of the sum is wanted, compilers leave the addend's high half undefined.
    SPECIAL(v_mad_u64_u32, multiply_add_64(w, op, false), 2, 1, 1, 2, SELECTS),
    SPECIAL(v_mad_i64_i32, multiply_add_64(w, op, true), 2, 1, 1, 2, SELECTS),
    V2(v_mul_lo_u32, U32, U32, U32, a * b),
    V2(v_mul_hi_u32, U32, U32, U32, uint32_t(uint64_t(a) * b >> 32)),
    V2(v_mul_hi_i32, I32, I32, I32, int32_t(int64_t(a) * b >> 32)),
    V2(v_bcnt_u32_b32, U32, U32, U32, b + uint32_t(__builtin_popcount(a))),
    SPECIAL(v_mbcnt_lo_u32_b32, count_below(w, op, 0), 1, 1, 1, 0, 0),
    SPECIAL(v_mbcnt_hi_u32_b32, count_below(w, op, 1), 1, 1, 1, 0, 0),
    V2(v_lshlrev_b64, U64, U32, U64, b << (a & 63)),
    V2(v_lshrrev_b64, U64, U32, U64, b >> (a & 63)),
    V2(v_ashrrev_i64, I64, U32, I64, b >> (a & 63)),
    V2(v_add_u16, U16, U16, U16, uint32_t(add_clamped<uint16_t>(op, int64_t(a) + b))),
    V2(v_sub_u16, U16, U16, U16, uint32_t(add_clamped<uint16_t>(op, int64_t(a) - b))),
    V2(v_subrev_u16, U16, U16, U16, uint32_t(add_clamped<uint16_t>(op, int64_t(b) - a))),
    V2(v_add_i16, I16, I16, I16, int32_t(add_clamped<int16_t>(op, int64_t(a) + b))),
    V2(v_sub_i16, I16, I16, I16, int32_t(add_clamped<int16_t>(op, int64_t(a) - b))),
    V2(v_mul_lo_u16, U16, U16, U16, a * b),
    V2(v_lshlrev_b16, U16, U16, U16, b << (a & 15)),
    V2(v_lshrrev_b16, U16, U16, U16, b >> (a & 15)),
    V2(v_ashrrev_i16, I16, U16, I16, b >> (a & 15)),
    V2(v_max_u16, U16, U16, U16, larger(a, b)),
    V2(v_max_i16, I16, I16, I16, larger(a, b)),
    V2(v_min_u16, U16, U16, U16, smaller(a, b)),
    V2(v_min_i16, I16, I16, I16, smaller(a, b)),
    V3(v_mad_u16, U16K, U16, U16, U16, uint32_t(add_clamped<uint16_t>(op, int64_t(a) * b + c))),
    V3(v_mad_i16, U16K, I16, I16, I16, uint32_t(add_clamped<int16_t>(op, int64_t(a) * b + c)) & 0xffff),
    V3(v_mad_legacy_u16, U16, U16, U16, U16, uint32_t(add_clamped<uint16_t>(op, int64_t(a) * b + c))),
    V3(v_mad_legacy_i16, I16, I16, I16, I16, int32_t(add_clamped<int16_t>(op, int64_t(a) * b + c))),
    V3(v_min3_i16, I16, I16, I16, I16, smaller(smaller(a, b), c)),
    V3(v_max3_i16, I16, I16, I16, I16, larger(larger(a, b), c)),
    V3(v_med3_i16, I16, I16, I16, I16, median_of(a, b, c)),
    V3(v_min3_u16, U16, U16, U16, U16, smaller(smaller(a, b), c)),
    V3(v_max3_u16, U16, U16, U16, U16, larger(larger(a, b), c)),
    V3(v_med3_u16, U16, U16, U16, U16, median_of(a, b, c)),
    SPECIAL(v_bitop3_b32, bit_operation(w, op, true), 1, 1, 1, 1, 0),
    SPECIAL(v_bitop3_b16, bit_operation(w, op, false), 1, 1, 1, 1, 0),

    // Dot products that accumulate into their destination
    VACC(v_dot2c_f32_f16, F32, U32, U32,
         dot2(half_to_float(a & 0xffff), half_to_float(b & 0xffff), half_to_float(a >> 16), half_to_float(b >> 16), c)),
    VACC(v_dot2c_f32_bf16, F32, U32, U32,
         dot2(bfloat_to_float(a & 0xffff), bfloat_to_float(b & 0xffff), bfloat_to_float(a >> 16), bfloat_to_float(b >> 16), c)),
    VACC(v_dot2c_i32_i16, I32, U32, U32, (add_clamped<int32_t>(op, c + dot_integer<16, true>(a, b)))),
    VACC(v_dot4c_i32_i8, I32, U32, U32, (add_clamped<int32_t>(op, c + dot_integer<8, true>(a, b)))),
    VACC(v_dot8c_i32_i4, I32, U32, U32, (add_clamped<int32_t>(op, c + dot_integer<4, true>(a, b)))),
    VACC(v_pk_fmac_f16, U32, U32, U32, pack(fmac_half(w, a, b, c), fmac_half(w, a >> 16, b >> 16, c >> 16))),
};

}  // namespace

Table vector_table() { return {TABLE, sizeof TABLE / sizeof *TABLE}; }
