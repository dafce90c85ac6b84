// Conversions to and from floats of 8 and 4 bits, also with gfx950's scale, and those that round at random.
#include "lanes.h"

namespace {

// One of four bytes or two halves of the destination, chosen by op_sel, the rest stays (conversions to fp8 and bf16).
template <class F>
void insert_lanes(Wave& w, const Op& op, int width, F f) {
  Source<F32> a(w, op, 0);
  Lanes b;
  fetch_code(w, op, op.src[1], Kind::B32, b);
  const int shift = width == 8 ? 8 * (op.opsel >> 2 & 3) : 16 * (op.opsel >> 3 & 1);
  const uint32_t mask = ((1u << width) - 1) << shift;
  const uint32_t* old = w.v[op.dst - 256];
  alignas(64) uint32_t r[LANES];
  for (int l = 0; l < LANES; ++l) r[l] = (old[l] & ~mask) | (f(a[l], b.lo[l]) << shift & mask);
  write_row(w, op.dst, r, w.lanes);
}

bool ocp(const Wave& w) { return w.engine->launch.target == GFX950; }
// MODE.FP16_OVFL (bit 23) selects saturation for the conversions to 8-bit floats.
bool saturating(const Wave& w) { return w.mode >> 23 & 1; }

uint32_t to_fp8(const Wave& w, float x) {
  return ocp(w) ? float_to_small<4, 3, false>(x, saturating(w)) : float_to_small<4, 3, true>(x, saturating(w));
}
uint32_t to_bf8(const Wave& w, float x) {
  return ocp(w) ? float_to_small<5, 2, false>(x, saturating(w)) : float_to_small<5, 2, true>(x, saturating(w));
}
float from_fp8(const Wave& w, uint32_t x) { return ocp(w) ? small_to_float<4, 3, false>(x) : small_to_float<4, 3, true>(x); }
float from_bf8(const Wave& w, uint32_t x) { return ocp(w) ? small_to_float<5, 2, false>(x) : small_to_float<5, 2, true>(x); }

// Stochastic rounding: the random bits below the last place are added before the value is cut.
float add_random(float x, uint32_t random, int kept) {
  if (!std::isfinite(x)) return x != x ? quiet(x) : x;
  const float sum = bits<float>(bits<uint32_t>(x) + (random >> (9 + kept)));
  return std::isfinite(sum) ? sum : std::copysign(std::numeric_limits<float>::infinity(), x);
}
float cut(float x, int kept) {
  return std::isfinite(x) ? bits<float>(bits<uint32_t>(x) & ~((1u << (23 - kept)) - 1)) : x;
}

// The source with its DPP. An SDWA names the part that is converted, which is not taken out of it first.
Op without_parts(const Op& op) {
  Op whole = op;
  whole.flags &= uint16_t(~F_SDWA);
  whole.neg = whole.abs = whole.opsel = 0;
  return whole;
}

template <class F>
void pair_from_small(Wave& w, const Op& op, F f) {  // v_cvt_pk_f32_fp8: the low or the high 16 bits
  const Op whole = without_parts(op);
  Lanes a;
  fetch(w, whole, 0, Kind::B32, a);
  const bool high = op.flags & F_SDWA ? (op.control >> 16 & 7) == 5 : op.encoding == ENC_VOP3 && op.opsel & 1;
  alignas(64) uint32_t lo[LANES], hi[LANES];
  for (int l = 0; l < LANES; ++l) {
    const uint32_t x = a.lo[l] >> (high ? 16 : 0);
    lo[l] = bits<uint32_t>(f(x & 255));
    hi[l] = bits<uint32_t>(f(x >> 8 & 255));
  }
  store(w, whole, Kind::F32, lo, nullptr);
  Op second = whole;
  ++second.dst;
  store(w, second, Kind::F32, hi, nullptr);
}

template <class F>
void float_from_small(Wave& w, const Op& op, F f) {  // the byte chosen by SDWA or by op_sel
  const Op whole = without_parts(op);
  Lanes a;
  fetch(w, whole, 0, Kind::B32, a);
  int select = 0;
  if (op.flags & F_SDWA) select = op.control >> 18 & 1 ? 0 : op.control >> 16 & 3;
  else if (op.encoding == ENC_VOP3) select = (op.opsel & 1) << 1 | (op.opsel >> 1 & 1);
  alignas(64) uint32_t r[LANES];
  for (int l = 0; l < LANES; ++l) r[l] = bits<uint32_t>(f(a.lo[l] >> 8 * select & 255));
  store(w, whole, Kind::F32, r, nullptr);
}

// --- gfx950: v_cvt_scalef32_* -------------------------------------------------------------------------------------
//
// The scale is a power of two, the exponent of an f32 operand: results of the small formats are divided by it, values
// from them multiplied. op_sel names the half or byte of the small side (AMD's CDNA4 ISA document, "Instructions").

enum class Small : uint8_t { FP8, BF8, FP4 };
enum class Wide : uint8_t { F32, F16, BF16 };

uint32_t next_random(uint32_t x) { return x << 1 ^ (x >> 31 ? 197u : 0u); }  // v_prng_b32

double scale_of(uint32_t f32) {
  const int exponent = int(f32 >> 23 & 255);
  return exponent == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, exponent - 127);
}

template <Small S>
constexpr int BITS = S == Small::FP4 ? 4 : 8;
template <Small S>
constexpr int MANTISSA = S == Small::FP8 ? 3 : S == Small::BF8 ? 2 : 1;

template <Small S>
uint32_t to_small(const Wave& w, float x) {
  return S == Small::FP8 ? to_fp8(w, x) : S == Small::BF8 ? to_bf8(w, x) : float_to_tiny<2, 1>(x);
}
template <Small S>
float from_small(const Wave& w, uint32_t x) {
  return S == Small::FP8 ? from_fp8(w, x & 255) : S == Small::BF8 ? from_bf8(w, x & 255) : tiny_to_float<2, 1>(x & 15);
}
template <Wide W>
float widened(uint32_t x) {
  return W == Wide::F32 ? bits<float>(x) : W == Wide::F16 ? half_to_float(x & 0xffff) : bfloat_to_float(x & 0xffff);
}
template <Wide W>
uint32_t narrowed(float x) {
  return W == Wide::F32 ? bits<uint32_t>(x) : W == Wide::F16 ? float_to_half(x) : float_to_bfloat(x);
}

// Beyond all floats, a finite number still is one, for the formats that saturate.
float unscaled(float x, double scale) {
  const float r = float(double(x) / scale);
  return std::isinf(r) && std::isfinite(x) ? std::copysign(std::numeric_limits<float>::max(), r) : r;
}

void fetch_scale(Wave& w, const Op& op, int i, double* scale) {
  Lanes s;
  fetch_code(w, op, op.src[i], Kind::B32, s);
  for (int l = 0; l < LANES; ++l) scale[l] = scale_of(s.lo[l]);
}

// `values` small floats per lane replace the part of the destination that op_sel bits 2 and 3 name.
template <Small S, Wide W, bool RANDOM>
void scaled_to_small(Wave& w, const Op& op, int values) {
  constexpr bool packed = W != Wide::F32;
  const bool two_registers = values == 2 && !packed;        // the two values stand in registers of their own
  const bool pair = two_registers && !RANDOM;               // which are different operands
  const int scale_operand = RANDOM || pair ? 2 : 1;
  Lanes first, second, random;
  fetch_code(w, op, op.src[0], Kind::F32, first);
  if (two_registers) fetch_code(w, op, pair ? op.src[1] : op.src[0] >= 256 ? uint16_t(op.src[0] + 1) : op.src[0], Kind::F32, second);
  if (RANDOM) fetch_code(w, op, op.src[1], Kind::B32, random);
  double scale[LANES];
  fetch_scale(w, op, scale_operand, scale);
  const int width = BITS<S> * values, shift = width == 16 ? 16 * (op.opsel >> 3 & 1) : 8 * (op.opsel >> 2 & 3);
  const uint32_t mask = ((1u << width) - 1) << shift;
  const uint32_t* old = w.v[op.dst - 256];
  alignas(64) uint32_t r[LANES];
  for (int l = 0; l < LANES; ++l) {
    uint32_t code = 0, noise = RANDOM ? random.lo[l] : 0;
    for (int i = 0; i < values; ++i) {
      const uint32_t raw = two_registers && i ? second.lo[l] : packed ? first.lo[l] >> 16 * (values == 2 ? i : op.opsel & 1) : first.lo[l];
      float x = unscaled(widened<W>(raw), scale[l]);
      if (RANDOM) x = cut(add_random(x, noise, MANTISSA<S>), MANTISSA<S>);
      code |= to_small<S>(w, x) << BITS<S> * i;
      noise = next_random(noise);
    }
    r[l] = (old[l] & ~mask) | code << shift;
  }
  write_row(w, op.dst, r, w.lanes);
}

// One or two small floats, from the part of the source that op_sel bits 0 and 1 name.
template <Small S, Wide W>
void scaled_from_small(Wave& w, const Op& op, int values) {
  Lanes a;
  fetch_code(w, op, op.src[0], Kind::B32, a);
  double scale[LANES];
  fetch_scale(w, op, 1, scale);
  const int width = BITS<S> * values, shift = width == 16 ? 16 * (op.opsel & 1) : 8 * (op.opsel & 3);
  alignas(64) uint32_t r[2][LANES];
  for (int l = 0; l < LANES; ++l)
    for (int i = 0; i < values; ++i)
      r[i][l] = narrowed<W>(float(double(from_small<S>(w, a.lo[l] >> shift >> BITS<S> * i)) * scale[l]));
  if (W == Wide::F32) {
    for (int i = 0; i < values; ++i) write_row(w, uint16_t(op.dst + i), r[i], w.lanes);
    return;
  }
  const uint32_t* old = w.v[op.dst - 256];
  for (int l = 0; l < LANES; ++l) {
    if (values == 2) r[0][l] |= r[1][l] << 16;
    else r[0][l] = op.opsel & 8 ? (old[l] & 0xffff) | r[0][l] << 16 : (old[l] & 0xffff0000) | r[0][l];
  }
  write_row(w, op.dst, r[0], w.lanes);
}

#define TO_PAIR(NAME, S, W, A, B, C) \
  {#NAME, [](Wave& w, const Op& op) { scaled_to_small<Small::S, Wide::W, false>(w, op, 2); }, 1, {A, B, C}, READS_DST | KEEPS_PART}
#define TO_RANDOM(NAME, S, W, VALUES, A) \
  {#NAME, [](Wave& w, const Op& op) { scaled_to_small<Small::S, Wide::W, true>(w, op, VALUES); }, 1, {A, 1, 1}, READS_DST | KEEPS_PART}
#define FROM_SMALL(NAME, S, W, VALUES, D, FLAGS) \
  {#NAME, [](Wave& w, const Op& op) { scaled_from_small<Small::S, Wide::W>(w, op, VALUES); }, D, {1, 1, 0}, FLAGS}

const Info TABLE[] = {
    SPECIAL(v_cvt_f32_fp8, float_from_small(w, op, [&](uint32_t x) { return from_fp8(w, x); }), 1, 1, 0, 0, 0),
    SPECIAL(v_cvt_f32_bf8, float_from_small(w, op, [&](uint32_t x) { return from_bf8(w, x); }), 1, 1, 0, 0, 0),
    SPECIAL(v_cvt_pk_f32_fp8, pair_from_small(w, op, [&](uint32_t x) { return from_fp8(w, x); }), 2, 1, 0, 0, 0),
    SPECIAL(v_cvt_pk_f32_bf8, pair_from_small(w, op, [&](uint32_t x) { return from_bf8(w, x); }), 2, 1, 0, 0, 0),
    SPECIAL(v_cvt_sr_fp8_f32, insert_lanes(w, op, 8, [&](float a, uint32_t b) { return to_fp8(w, cut(add_random(a, b, 3), 3)); }), 1, 1, 1, 0, READS_DST | KEEPS_PART),
    SPECIAL(v_cvt_sr_bf8_f32, insert_lanes(w, op, 8, [&](float a, uint32_t b) { return to_bf8(w, cut(add_random(a, b, 2), 2)); }), 1, 1, 1, 0, READS_DST | KEEPS_PART),
    SPECIAL(v_cvt_sr_f16_f32, insert_lanes(w, op, 16, [](float a, uint32_t b) { return float_to_half_toward_zero(add_random(a, b, 10)); }), 1, 1, 1, 0, READS_DST | KEEPS_PART),
    SPECIAL(v_cvt_sr_bf16_f32, insert_lanes(w, op, 16, [](float a, uint32_t b) { return bits<uint32_t>(add_random(a, b, 7)) >> 16; }), 1, 1, 1, 0, READS_DST | KEEPS_PART),
    SPECIAL(v_cvt_pk_fp8_f32, Source<F32> s1(w, op, 1); Op lone = op; lone.src[1] = 128; int l = 0;
            insert_lanes(w, lone, 16, [&](float a, uint32_t) { const uint32_t r = to_fp8(w, a) | to_fp8(w, s1[l]) << 8; ++l; return r; }), 1, 1, 1, 0, READS_DST | KEEPS_PART),
    SPECIAL(v_cvt_pk_bf8_f32, Source<F32> s1(w, op, 1); Op lone = op; lone.src[1] = 128; int l = 0;
            insert_lanes(w, lone, 16, [&](float a, uint32_t) { const uint32_t r = to_bf8(w, a) | to_bf8(w, s1[l]) << 8; ++l; return r; }), 1, 1, 1, 0, READS_DST | KEEPS_PART),

    TO_PAIR(v_cvt_scalef32_pk_fp8_f32, FP8, F32, 1, 1, 1), TO_PAIR(v_cvt_scalef32_pk_bf8_f32, BF8, F32, 1, 1, 1),
    TO_PAIR(v_cvt_scalef32_pk_fp4_f32, FP4, F32, 1, 1, 1), TO_PAIR(v_cvt_scalef32_pk_fp8_f16, FP8, F16, 1, 1, 0),
    TO_PAIR(v_cvt_scalef32_pk_bf8_f16, BF8, F16, 1, 1, 0), TO_PAIR(v_cvt_scalef32_pk_fp4_f16, FP4, F16, 1, 1, 0),
    TO_PAIR(v_cvt_scalef32_pk_fp8_bf16, FP8, BF16, 1, 1, 0), TO_PAIR(v_cvt_scalef32_pk_bf8_bf16, BF8, BF16, 1, 1, 0),
    TO_PAIR(v_cvt_scalef32_pk_fp4_bf16, FP4, BF16, 1, 1, 0),
    TO_RANDOM(v_cvt_scalef32_sr_fp8_f32, FP8, F32, 1, 1), TO_RANDOM(v_cvt_scalef32_sr_bf8_f32, BF8, F32, 1, 1),
    TO_RANDOM(v_cvt_scalef32_sr_fp8_f16, FP8, F16, 1, 1), TO_RANDOM(v_cvt_scalef32_sr_bf8_f16, BF8, F16, 1, 1),
    TO_RANDOM(v_cvt_scalef32_sr_fp8_bf16, FP8, BF16, 1, 1), TO_RANDOM(v_cvt_scalef32_sr_bf8_bf16, BF8, BF16, 1, 1),
    TO_RANDOM(v_cvt_scalef32_sr_pk_fp4_f32, FP4, F32, 2, 2), TO_RANDOM(v_cvt_scalef32_sr_pk_fp4_f16, FP4, F16, 2, 1),
    TO_RANDOM(v_cvt_scalef32_sr_pk_fp4_bf16, FP4, BF16, 2, 1),
    FROM_SMALL(v_cvt_scalef32_f32_fp8, FP8, F32, 1, 1, 0), FROM_SMALL(v_cvt_scalef32_f32_bf8, BF8, F32, 1, 1, 0),
    FROM_SMALL(v_cvt_scalef32_f16_fp8, FP8, F16, 1, 1, READS_DST | KEEPS_PART), FROM_SMALL(v_cvt_scalef32_f16_bf8, BF8, F16, 1, 1, READS_DST | KEEPS_PART),
    FROM_SMALL(v_cvt_scalef32_pk_f32_fp8, FP8, F32, 2, 2, 0), FROM_SMALL(v_cvt_scalef32_pk_f32_bf8, BF8, F32, 2, 2, 0),
    FROM_SMALL(v_cvt_scalef32_pk_f32_fp4, FP4, F32, 2, 2, 0), FROM_SMALL(v_cvt_scalef32_pk_f16_fp8, FP8, F16, 2, 1, 0),
    FROM_SMALL(v_cvt_scalef32_pk_f16_bf8, BF8, F16, 2, 1, 0), FROM_SMALL(v_cvt_scalef32_pk_f16_fp4, FP4, F16, 2, 1, 0),
    FROM_SMALL(v_cvt_scalef32_pk_bf16_fp8, FP8, BF16, 2, 1, 0), FROM_SMALL(v_cvt_scalef32_pk_bf16_bf8, BF8, BF16, 2, 1, 0),
    FROM_SMALL(v_cvt_scalef32_pk_bf16_fp4, FP4, BF16, 2, 1, 0),
};

}  // namespace

Table small_float_table() { return {TABLE, sizeof TABLE / sizeof *TABLE}; }
