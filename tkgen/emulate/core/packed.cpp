// VOP3P without the matrix instructions: packed 16-bit and 32-bit arithmetic, mixed precision, dot products.
#include "lanes.h"

namespace {

// op_sel picks the half of each source for the low result, op_sel_hi for the high one; neg and abs hold neg_lo, neg_hi.
struct Halves {
  Lanes lanes;
  int low, high;
  uint32_t flip_low, flip_high;
  Halves(Wave& w, const Op& op, int i, Kind kind, bool can_negate) {
    fetch_code(w, op, op.src[i], kind, lanes);
    low = op.opsel >> i & 1 ? 16 : 0;
    high = op.opsel_hi >> i & 1 ? 16 : 0;
    flip_low = can_negate && op.neg >> i & 1 ? 0x8000 : 0;
    flip_high = can_negate && op.abs >> i & 1 ? 0x8000 : 0;
  }
  uint32_t lo(int l) const { return ((lanes.lo[l] >> low) & 0xffff) ^ flip_low; }
  uint32_t hi(int l) const { return ((lanes.lo[l] >> high) & 0xffff) ^ flip_high; }
};

uint32_t finished_half(const Wave& w, const Op& op, uint32_t h) {
  return flush_half(w, op.clamp ? float_to_half(clamped(w, half_to_float(h))) : h, true);
}

template <class F>
void packed(Wave& w, const Op& op, int sources, bool floats, F f) {
  const Kind kind = floats ? Kind::PF16 : Kind::P16;
  Halves a(w, op, 0, kind, floats), b(w, op, 1, kind, floats), c(w, op, sources == 3 ? 2 : 1, kind, floats);
  alignas(64) uint32_t r[LANES];
  for (int l = 0; l < LANES; ++l) {
    const auto in = [&](uint32_t x) { return floats ? flush_half(w, x, false) : x; };
    uint32_t lo = f(in(a.lo(l)), in(b.lo(l)), in(c.lo(l))) & 0xffff, hi = f(in(a.hi(l)), in(b.hi(l)), in(c.hi(l))) & 0xffff;
    if (floats) lo = finished_half(w, op, lo), hi = finished_half(w, op, hi);
    r[l] = lo | hi << 16;
  }
  write_row(w, op.dst, r, w.lanes);
}

float finished(const Wave& w, const Op& op, float x) { return flush_single(w, op.clamp ? clamped(w, x) : x, true); }

// v_pk_*_f32: op_sel picks the register of the pair for each result.
template <class F>
void packed_f32(Wave& w, const Op& op, int sources, F f) {
  Lanes s[3];
  const uint32_t *first[3], *second[3];
  float sign_low[3], sign_high[3];
  for (int i = 0; i < sources; ++i) {
    if (op.src[i] < 256) {
      // Scalar pairs hold two values; an inline constant stands in the low one.
      const bool pair = op.src[i] < 128;
      const uint32_t low = scalar32(w, op, op.src[i], Kind::F32);
      const uint32_t high = pair ? w.s[op.src[i] + 1] : 0;
      for (int l = 0; l < LANES; ++l) s[i].low[l] = low, s[i].high[l] = high;
      s[i].lo = s[i].low;
      s[i].hi = s[i].high;
    } else {
      fetch_code(w, op, op.src[i], Kind::B64, s[i]);
    }
    first[i] = op.opsel >> i & 1 ? s[i].hi : s[i].lo;
    second[i] = op.opsel_hi >> i & 1 ? s[i].hi : s[i].lo;
    sign_low[i] = op.neg >> i & 1 ? -1.f : 1.f;
    sign_high[i] = op.abs >> i & 1 ? -1.f : 1.f;
  }
  if (sources == 2) first[2] = first[1], second[2] = second[1], sign_low[2] = sign_high[2] = 1;
  alignas(64) uint32_t lo[LANES], hi[LANES];
  for (int l = 0; l < LANES; ++l) {
    const auto in = [&](float sign, const uint32_t* row) { return flush_single(w, sign * bits<float>(row[l]), false); };
    lo[l] = bits<uint32_t>(finished(w, op, f(in(sign_low[0], first[0]), in(sign_low[1], first[1]), in(sign_low[2], first[2]))));
    hi[l] = bits<uint32_t>(finished(w, op, f(in(sign_high[0], second[0]), in(sign_high[1], second[1]), in(sign_high[2], second[2]))));
  }
  write_row(w, op.dst, lo, w.lanes);
  write_row(w, op.dst + 1, hi, w.lanes);
}

void packed_move(Wave& w, const Op& op) {
  Lanes a, b;
  fetch_code(w, op, op.src[0], Kind::B64, a);
  fetch_code(w, op, op.src[1], Kind::B64, b);
  alignas(64) uint32_t lo[LANES], hi[LANES];
  std::memcpy(lo, op.opsel & 1 ? a.hi : a.lo, sizeof lo);
  std::memcpy(hi, op.opsel & 2 ? b.hi : b.lo, sizeof hi);
  write_row(w, op.dst, lo, w.lanes);
  write_row(w, op.dst + 1, hi, w.lanes);
}

// v_fma_mix: each source is an f32 or, by op_sel_hi, the half that op_sel names.
struct Mixed {
  const Wave& wave;
  Lanes lanes;
  bool is_half, absolute, negative;
  int shift;
  Mixed(Wave& w, const Op& op, int i) : wave(w) {
    is_half = op.opsel_hi >> i & 1;
    fetch_code(w, op, op.src[i], is_half ? Kind::PF16 : Kind::F32, lanes);
    shift = op.opsel >> i & 1 ? 16 : 0;
    absolute = op.abs >> i & 1;
    negative = op.neg >> i & 1;
  }
  float operator[](int l) const {
    float x = is_half ? half_to_float(flush_half(wave, lanes.lo[l] >> shift & 0xffff, false)) : flush_single(wave, bits<float>(lanes.lo[l]), false);
    if (absolute) x = std::fabs(x);
    return negative ? -x : x;
  }
};

void mix(Wave& w, const Op& op, int part) {  // part: 0 f32, 1 low half, 2 high half
  Mixed a(w, op, 0), b(w, op, 1), c(w, op, 2);
  const uint32_t* old = w.v[op.dst - 256];
  alignas(64) uint32_t r[LANES];
  for (int l = 0; l < LANES; ++l) {
    const float sum = std::fma(a[l], b[l], c[l]), x = op.clamp ? clamped(w, sum) : sum;
    const uint32_t half = flush_half(w, float_to_half(x), true);
    if (part == 0) r[l] = bits<uint32_t>(flush_single(w, x, true));
    else if (part == 1) r[l] = (old[l] & 0xffff0000) | half;
    else r[l] = (old[l] & 0xffff) | half << 16;
  }
  write_row(w, op.dst, r, w.lanes);
}

template <int WIDTH, bool SIGNED>
void dot(Wave& w, const Op& op) {
  Lanes a, b, c;
  fetch_code(w, op, op.src[0], Kind::B32, a);
  fetch_code(w, op, op.src[1], Kind::B32, b);
  fetch_code(w, op, op.src[2], Kind::B32, c);
  // Of halves op_sel names the first, op_sel_hi the second of each source.
  const auto part = [&](const Lanes& s, int source, int l, int i) {
    const int from = WIDTH == 16 ? (i ? op.opsel_hi : op.opsel) >> source & 1 : i;
    return s.lo[l] >> WIDTH * from;
  };
  alignas(64) uint32_t r[LANES];
  for (int l = 0; l < LANES; ++l) {
    int64_t sum = SIGNED ? int64_t(int32_t(c.lo[l])) : int64_t(c.lo[l]);
    for (int i = 0; i < 32 / WIDTH; ++i) {
      const uint32_t x = part(a, 0, l, i) << (32 - WIDTH), y = part(b, 1, l, i) << (32 - WIDTH);
      sum += SIGNED ? int64_t(int32_t(x) >> (32 - WIDTH)) * (int32_t(y) >> (32 - WIDTH))
                    : int64_t(uint64_t(x >> (32 - WIDTH)) * (y >> (32 - WIDTH)));
    }
    if (op.clamp) r[l] = SIGNED ? uint32_t(clamp_to<int32_t>(sum)) : clamp_to<uint32_t>(sum);
    else r[l] = uint32_t(sum);
  }
  write_row(w, op.dst, r, w.lanes);
}

template <class F>
void dot_f32(Wave& w, const Op& op, F to_float) {
  Halves a(w, op, 0, Kind::P16, true), b(w, op, 1, Kind::P16, true);
  Lanes c;
  fetch_code(w, op, op.src[2], Kind::F32, c);
  const float sign = op.neg >> 2 & 1 ? -1.f : 1.f;
  alignas(64) uint32_t r[LANES];
  for (int l = 0; l < LANES; ++l) {
    const float x = std::fma(to_float(a.lo(l)), to_float(b.lo(l)), sign * bits<float>(c.lo[l]));
    r[l] = bits<uint32_t>(finished(w, op, std::fma(to_float(a.hi(l)), to_float(b.hi(l)), x)));
  }
  write_row(w, op.dst, r, w.lanes);
}

uint32_t half_result(float x) { return float_to_half(x); }
int32_t s16(uint32_t x) { return int16_t(x); }
uint32_t limit(const Op& op, int64_t x, bool is_signed) {
  if (!op.clamp) return uint32_t(x);
  return is_signed ? uint32_t(clamp_to<int16_t>(x)) : uint32_t(clamp_to<uint16_t>(x));
}

float strict_min(float a, float b) { return a != a || b != b ? NAN : minimum_number(a, b, false); }
float strict_max(float a, float b) { return a != a || b != b ? NAN : maximum_number(a, b, false); }

#define P2(NAME, FLOATS, EXPR) \
  {#NAME, [](Wave& w, const Op& op) { packed(w, op, 2, FLOATS, [&](uint32_t a, uint32_t b, uint32_t) { return uint32_t(EXPR); }); }, 1, {1, 1, 0}, 0}
#define P3(NAME, FLOATS, EXPR) \
  {#NAME, [](Wave& w, const Op& op) { packed(w, op, 3, FLOATS, [&](uint32_t a, uint32_t b, uint32_t c) { return uint32_t(EXPR); }); }, 1, {1, 1, 1}, 0}
#define HF half_to_float

const Info TABLE[] = {
    P3(v_pk_mad_i16, false, limit(op, int64_t(s16(a)) * s16(b) + s16(c), true)),
    P3(v_pk_mad_u16, false, limit(op, int64_t(a) * b + c, false)),
    P2(v_pk_mul_lo_u16, false, a * b),
    P2(v_pk_add_i16, false, limit(op, int64_t(s16(a)) + s16(b), true)),
    P2(v_pk_sub_i16, false, limit(op, int64_t(s16(a)) - s16(b), true)),
    P2(v_pk_add_u16, false, limit(op, int64_t(a) + b, false)),
    P2(v_pk_sub_u16, false, limit(op, int64_t(a) - b, false)),
    P2(v_pk_lshlrev_b16, false, b << (a & 15)),
    P2(v_pk_lshrrev_b16, false, b >> (a & 15)),
    P2(v_pk_ashrrev_i16, false, s16(b) >> (a & 15)),
    P2(v_pk_max_i16, false, s16(a) > s16(b) ? a : b),
    P2(v_pk_min_i16, false, s16(a) < s16(b) ? a : b),
    P2(v_pk_max_u16, false, a > b ? a : b),
    P2(v_pk_min_u16, false, a < b ? a : b),
    P3(v_pk_fma_f16, true, half_fma(a, b, c)),
    P2(v_pk_add_f16, true, half_result(HF(a) + HF(b))),
    P2(v_pk_mul_f16, true, half_result(HF(a) * HF(b))),
    P2(v_pk_min_f16, true, half_result(minimum_number(HF(a), HF(b), ieee(w)))),
    P2(v_pk_max_f16, true, half_result(maximum_number(HF(a), HF(b), ieee(w)))),
    P3(v_pk_minimum3_f16, true, half_result(strict_min(strict_min(HF(a), HF(b)), HF(c)))),
    P3(v_pk_maximum3_f16, true, half_result(strict_max(strict_max(HF(a), HF(b)), HF(c)))),
    {"v_pk_fma_f32", [](Wave& w, const Op& op) { packed_f32(w, op, 3, [](float a, float b, float c) { return std::fma(a, b, c); }); }, 2, {2, 2, 2}, PAIRS},
    {"v_pk_mul_f32", [](Wave& w, const Op& op) { packed_f32(w, op, 2, [](float a, float b, float) { return a * b; }); }, 2, {2, 2, 0}, PAIRS},
    {"v_pk_add_f32", [](Wave& w, const Op& op) { packed_f32(w, op, 2, [](float a, float b, float) { return a + b; }); }, 2, {2, 2, 0}, PAIRS},
    {"v_pk_mov_b32", packed_move, 2, {2, 2, 0}, MOVES_PAIR},
    {"v_fma_mix_f32", [](Wave& w, const Op& op) { mix(w, op, 0); }, 1, {1, 1, 1}, 0},
    {"v_fma_mixlo_f16", [](Wave& w, const Op& op) { mix(w, op, 1); }, 1, {1, 1, 1}, READS_DST | KEEPS_PART},
    {"v_fma_mixhi_f16", [](Wave& w, const Op& op) { mix(w, op, 2); }, 1, {1, 1, 1}, READS_DST | KEEPS_PART},
    {"v_dot2_f32_f16", [](Wave& w, const Op& op) { dot_f32(w, op, half_to_float); }, 1, {1, 1, 1}, 0},
    {"v_dot2_f32_bf16", [](Wave& w, const Op& op) { dot_f32(w, op, bfloat_to_float); }, 1, {1, 1, 1}, 0},
    {"v_dot2_i32_i16", dot<16, true>, 1, {1, 1, 1}, 0},
    {"v_dot2_u32_u16", dot<16, false>, 1, {1, 1, 1}, 0},
    {"v_dot4_i32_i8", dot<8, true>, 1, {1, 1, 1}, 0},
    {"v_dot4_u32_u8", dot<8, false>, 1, {1, 1, 1}, 0},
    {"v_dot8_i32_i4", dot<4, true>, 1, {1, 1, 1}, 0},
    {"v_dot8_u32_u4", dot<4, false>, 1, {1, 1, 1}, 0},
};

}  // namespace

Table packed_table() { return {TABLE, sizeof TABLE / sizeof *TABLE}; }
