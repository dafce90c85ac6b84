// Floats of the vector unit in the two fields (algebra.h).
#include "algebra.h"

namespace ring {

namespace {

uint32_t absent(uint32_t q) { return q & SPECIAL ? ABSENT : q; }

// Of numbers that are none of the special ones, but for q values that are absent.
void sum(const Numbers& a, const Numbers& b, uint32_t* __restrict p, uint32_t* __restrict q) {
  for (int l = 0; l < LANES; ++l) p[l] = add<P>(a.p[l], b.p[l]);
  for (int l = 0; l < LANES; ++l) q[l] = (a.q[l] | b.q[l]) & SPECIAL ? ABSENT : add<Q>(a.q[l], b.q[l]);
}
void difference(const Numbers& a, const Numbers& b, uint32_t* __restrict p, uint32_t* __restrict q) {
  for (int l = 0; l < LANES; ++l) p[l] = sub<P>(a.p[l], b.p[l]);
  for (int l = 0; l < LANES; ++l) q[l] = (a.q[l] | b.q[l]) & SPECIAL ? ABSENT : sub<Q>(a.q[l], b.q[l]);
}
void product(const Numbers& a, const Numbers& b, uint32_t* __restrict p, uint32_t* __restrict q) {
  for (int l = 0; l < LANES; ++l) p[l] = mul<P>(a.p[l], b.p[l]);
  for (int l = 0; l < LANES; ++l) q[l] = (a.q[l] | b.q[l]) & SPECIAL ? ABSENT : mul<Q>(a.q[l], b.q[l]);
}
void product_sum(const Numbers& a, const Numbers& b, const Numbers& c, uint32_t* __restrict p, uint32_t* __restrict q) {
  for (int l = 0; l < LANES; ++l) p[l] = add<P>(mul<P>(a.p[l], b.p[l]), c.p[l]);
  for (int l = 0; l < LANES; ++l) q[l] = (a.q[l] | b.q[l] | c.q[l]) & SPECIAL ? ABSENT : add<Q>(mul<Q>(a.q[l], b.q[l]), c.q[l]);
}

template <uint32_t M>
void invert(const uint32_t* x, uint32_t* __restrict r) {
  alignas(64) uint32_t base[LANES];
  for (int l = 0; l < LANES; ++l) base[l] = x[l], r[l] = 1;
  for (uint32_t e = M - 2; e; e >>= 1) {
    if (e & 1)
      for (int l = 0; l < LANES; ++l) r[l] = mul<M>(r[l], base[l]);
    for (int l = 0; l < LANES; ++l) base[l] = mul<M>(base[l], base[l]);
  }
}

Kind kind_of(Format f) { return f == Format::F64 ? Kind::F64 : f == Format::F16 ? Kind::F16 : f == Format::BF16 ? Kind::B16 : Kind::F32; }
Kind register_of(Format f) { return f == Format::F64 ? Kind::B64 : Kind::B32; }

int last_of(Format f) { return width_of(f) >= 32 ? 3 : width_of(f) / 8 - 1; }

bool needs_real(Act act) {
  return act == Act::MIN || act == Act::MAX || act == Act::MEDIAN || act == Act::RECIPROCAL || act == Act::HASH || act == Act::FRACTION ||
         act == Act::MANTISSA;
}

void reals(Format f, const uint32_t* lo, const uint32_t* hi, double* out) {
  if (f == Format::F32)
    for (int l = 0; l < LANES; ++l) out[l] = bits<float>(lo[l]);
  else
    for (int l = 0; l < LANES; ++l) out[l] = value_of(f, f == Format::F64 ? U64::get(lo[l], hi[l]) : lo[l]);
}

void flip(Numbers& n) {
  for (int l = 0; l < LANES; ++l) {
    const uint32_t p = n.p[l], q = n.q[l];
    n.own_p[l] = p & SPECIAL ? p : neg<P>(p);
    n.own_q[l] = p == LOST ? q : p == INFINITE ? q ^ 1 : q & SPECIAL ? q : neg<Q>(q);
  }
  n.p = n.own_p, n.q = n.own_q;
}

void same(Number n, Numbers& out) {
  for (int l = 0; l < LANES; ++l) out.own_p[l] = n.p, out.own_q[l] = n.q;
  out.p = out.own_p, out.q = out.own_q;
}

uint32_t any_special(const Numbers* s, int count) {
  uint32_t any = 0;
  for (int i = 0; i < count; ++i)
    for (int l = 0; l < LANES; ++l) any |= s[i].p[l];
  return any & SPECIAL;
}

// Lanes with a special operand: what was lost stays lost, and what came of an infinity is what the real result is.
uint64_t settle_special(const Numbers* s, int count, uint32_t* p, uint32_t* q) {
  uint64_t from_result = 0;
  for (int l = 0; l < LANES; ++l) {
    bool special = false, lost = false;
    for (int i = 0; i < count && !lost; ++i) {
      special |= (s[i].p[l] & SPECIAL) != 0;
      if (s[i].p[l] == LOST) lost = true, p[l] = LOST, q[l] = s[i].q[l];
    }
    if (special && !lost) from_result |= 1ull << l, p[l] = q[l] = 0;
  }
  return from_result;
}

}  // namespace

// A number in each lane of a register of the destination: of f16 in its half, beside which the register is zero or kept.
Algebra::Result& Algebra::make(Wave& w, const Op& op, Format f, int row, bool keeps, int half) {
  Result& r = results_[made_++];
  const int bytes = width_of(f) >= 32 ? 4 : 2;
  r = {uint8_t(f == Format::F64 ? row + 1 : row), 3, f, 0, false};
  rows_ = r.row + 1;
  if (f == Format::F64) out_[row].common = TAG_F64_LOW, out_[row + 1].common = TAG_F64;
  if (f == Format::F32) out_[row].common = TAG_F32;
  if (bytes == 4) return r;
  const uint32_t tag = f == Format::F16 ? TAG_F16 : TAG_BF16;
  bool high = half == 1;
  if (half < 0 && op.encoding == ENC_VOP3 && op.opsel & 8) high = keeps = true;
  Shadow& s = out_[row];
  r.last = high ? 3 : 1;
  if (!keeps) {
    s.common = high ? tag << 16 : tag;
    return r;
  }
  if (!(half == 1 && made_ == 2)) s.copy(of(w).rows[op.dst - 256]);
  const uint32_t mask = high ? 0xffff0000 : 0xffff, mine = high ? tag << 16 : tag;
  if (s.common != MIXED) s.common = (s.common & ~mask) | mine;
  else
    for (int l = 0; l < LANES; ++l) s.tag[l] = (s.tag[l] & ~mask) | mine;
  return r;
}

void Algebra::choose(const Rule& rule, const Numbers* s, const double (*real)[LANES], uint32_t* p, uint32_t* q) {
  for (int l = 0; l < LANES; ++l) {
    const auto better = [&](int i, int j) {  // whether the machine takes j where it had i
      const double a = real[i][l], b = real[j][l];
      if (a != a || b != b) return b == b;
      return rule.act == Act::MIN ? b < a : b > a;
    };
    int best = 0;
    if (rule.act == Act::MEDIAN) {
      const double a = real[0][l], b = real[1][l], c = real[2][l];
      best = (a >= b) == (a <= c) ? 0 : (b >= a) == (b <= c) ? 1 : 2;
    } else {
      for (int i = 1; i < rule.sources; ++i)
        if (better(best, i)) best = i;
    }
    p[l] = s[best].p[l], q[l] = s[best].q[l];
    chosen_[l] = uint8_t(best);
  }
}

// Functions of one number that need its real value, or an integer.
void Algebra::scale(Wave& w, const Op& op, const Rule& rule, const Numbers& a, const double* real, uint32_t* p, uint32_t* q) {
  static thread_local Operand by;
  if (rule.act == Act::LDEXP) operand(w, op, 1, Kind::B32, by);
  for (int l = 0; l < LANES; ++l) {
    int e = 0;
    if (rule.act == Act::LDEXP) e = rule.to == Format::F16 ? int16_t(by.bits.lo[l]) : int32_t(by.bits.lo[l]);
    else if (std::isfinite(real[l])) std::frexp(real[l], &e), e = -e;
    p[l] = mul<P>(a.p[l], two_to<P>(e));
    q[l] = absent(a.q[l]);
    if (!(q[l] & SPECIAL)) q[l] = mul<Q>(q[l], two_to<Q>(e));
  }
}

void Algebra::compute(Wave& w, const Op& op, const Rule& rule, const Numbers* s, const double (*real)[LANES], Result& r) {
  uint32_t *p = out_[r.row].p[r.last], *q = out_[r.row].q[r.last];
  const int count = rule.sources;
  switch (rule.act) {
    case Act::ADD: sum(s[0], s[1], p, q); break;
    case Act::SUB: difference(s[0], s[1], p, q); break;
    case Act::SUBREV: difference(s[1], s[0], p, q); break;
    case Act::MUL: product(s[0], s[1], p, q); break;
    case Act::MULTIPLY_ADD: product_sum(s[0], s[1], s[2], p, q); break;
    case Act::MIN: case Act::MAX: case Act::MEDIAN: return choose(rule, s, real, p, q);
    case Act::KEEP:
      std::memcpy(p, s[0].p, 4 * LANES), std::memcpy(q, s[0].q, 4 * LANES);
      break;
    case Act::RECIPROCAL:
      invert<P>(s[0].p, p), invert<Q>(s[0].q, q);
      for (int l = 0; l < LANES; ++l) q[l] = s[0].q[l] & SPECIAL || !s[0].q[l] ? ABSENT : q[l];
      for (int l = 0; l < LANES; ++l) {
        if (s[0].p[l]) continue;
        if (real[0][l] == 0) r.special |= 1ull << l;
        else p[l] = LOST, q[l] = loss(w, "it is one over zero");
      }
      break;
    case Act::EXP2:
      for (int l = 0; l < LANES; ++l) {
        const uint32_t x = s[0].q[l] & SPECIAL ? uint32_t(hash(tag("Q"), s[0].p[l]) % Q) : s[0].q[l];
        p[l] = exp2_of(x), q[l] = ABSENT;
      }
      r.vanishes = true;
      break;
    case Act::HASH:
      for (int l = 0; l < LANES; ++l) {
        p[l] = uint32_t(hash(rule.key[0], s[0].p[l]) % P), q[l] = uint32_t(hash(rule.key[1], s[0].p[l]) % Q);
        if (rule.part == 'r') p[l] = inverse<P>(p[l]), q[l] = inverse<Q>(q[l]);
        if (s[0].p[l] == 0 && real[0][l] == 0) r.special |= 1ull << l;
      }
      break;
    case Act::FRACTION:
      for (int l = 0; l < LANES; ++l) {
        const Number n = std::isfinite(real[0][l]) ? image(std::floor(real[0][l])) : Number{0, 0};
        p[l] = sub<P>(s[0].p[l], n.p), q[l] = s[0].q[l] & SPECIAL ? ABSENT : sub<Q>(s[0].q[l], n.q);
      }
      break;
    default: scale(w, op, rule, s[0], real[0], p, q);
  }
  if (any_special(s, count)) r.special = (r.special & ~0ull) | settle_special(s, count, p, q);
}

void Algebra::floats(Wave& w, const Op& op, const Use& use, const Rule& rule) {
  switch (rule.act) {
    case Act::CONVERT_PAIR: return convert_pair(w, op, rule);
    case Act::FROM_INTEGER: return from_integer(w, op, use, rule);
    case Act::MIX: return mix(w, op, rule);
    case Act::DOT2: return dot2(w, op, rule);
    case Act::SMALL: return small(w, op, rule);
    default: break;
  }
  if (rule.packed) return pair(w, op, rule);
  static thread_local Operand a[3];
  static thread_local Numbers s[3];
  alignas(64) double real[3][LANES];
  const bool compares = needs_real(rule.act);
  // The sources as the instruction takes them: the third may be the destination or the literal, which may stand in the middle.
  const int given = rule.third == Third::NONE || rule.third == Third::SOURCE ? rule.sources : 2;
  for (int i = 0; i < given; ++i) {
    const int to = rule.third == Third::CONSTANT_MIDDLE && i == 1 ? 2 : i;
    operand(w, op, i, kind_of(rule.from), a[i]);
    numbers(w, a[i], rule.from, last_of(rule.from), s[to]);
    if (compares) reals(rule.from, a[i].bits.lo, a[i].bits.hi, real[to]);
  }
  if (rule.third == Third::DESTINATION) {
    Lanes old;
    fetch_code(w, op, op.dst, register_of(rule.to), old);
    const Shadow* rows = &of(w).rows[op.dst - 256];
    numbers(w, rows[rule.to == Format::F64], old.lo, old.hi, rule.to, last_of(rule.to), false, s[2]);
  } else if (rule.third == Third::CONSTANT_LAST || rule.third == Third::CONSTANT_MIDDLE) {
    const uint32_t k = rule.to == Format::F16 ? op.literal & 0xffff : op.literal;
    same(image_of(rule.to, k), s[rule.third == Third::CONSTANT_LAST ? 2 : 1]);
  }
  Result& r = make(w, op, rule.to, 0, rule.keeps);
  compute(w, op, rule, s, real, r);
  uint32_t *p = out_[r.row].p[r.last], *q = out_[r.row].q[r.last];
  if (op.omod) {
    Numbers made, by;
    made.p = p, made.q = q;
    constexpr float factor[] = {1, 2, 4, 0.5f};
    same(image(factor[op.omod]), by);
    alignas(64) uint32_t x[LANES], y[LANES];
    product(made, by, x, y);
    for (int l = 0; l < LANES; ++l)
      if (!(p[l] & SPECIAL)) p[l] = x[l], q[l] = y[l];
  }
  clamped_ = op.clamp;
  if (whole_in_use_ && rule.to == Format::F32 && !op.omod && !op.clamp && (rule.act == Act::MIN || rule.act == Act::MAX || rule.act == Act::MEDIAN))
    keep_near(a, real, given, r);
  if (op.flags & F_SDWA) insert(w, op);
}

// Source i of a packed instruction: the low or the high number of it.
void Algebra::pick(Wave& w, const Op& op, int i, Format f, bool high, bool second, Numbers& out, double* real) {
  const uint16_t code = op.src[i];
  const bool negative = (second ? op.abs : op.neg) >> i & 1;
  static thread_local Shadow own;
  Lanes lanes;
  const Shadow* s;
  int last = 3;
  if (f == Format::F32) {
    const bool pairs = code >= 256 || code < 127;
    if (pairs) {
      fetch_code(w, op, uint16_t(code + high), Kind::B32, lanes);
      s = &shadow_of(w, uint16_t(code + high), own);
    } else {
      fetch_code(w, op, code, Kind::F32, lanes);
      if (high)
        for (int l = 0; l < LANES; ++l) lanes.low[l] = 0;
      own.common = PLAIN;
      s = &own;
    }
  } else {
    fetch_code(w, op, code, f == Format::F16 ? Kind::PF16 : Kind::P16, lanes);
    s = &shadow_of(w, code, own);
    last = high ? 3 : 1;
  }
  numbers(w, *s, lanes.lo, nullptr, f, last, code < 256, out);
  if (out.p != out.own_p) {  // the shadow may be `own`
    std::memcpy(out.own_p, out.p, sizeof out.own_p), std::memcpy(out.own_q, out.q, sizeof out.own_q);
    out.p = out.own_p, out.q = out.own_q;
  }
  if (negative) flip(out);
  if (!real) return;
  for (int l = 0; l < LANES; ++l) {
    const double x = value_of(f, f == Format::F32 ? lanes.lo[l] : lanes.lo[l] >> (high ? 16 : 0) & 0xffff);
    real[l] = negative ? -x : x;
  }
}

void Algebra::pair(Wave& w, const Op& op, const Rule& rule) {
  static thread_local Numbers s[3];
  alignas(64) double real[3][LANES];
  const bool accumulates = rule.third == Third::DESTINATION;
  for (int second = 0; second < 2; ++second) {
    for (int i = 0; i < rule.sources - accumulates; ++i) {
      const bool high = op.encoding == ENC_VOP3P ? (second ? op.opsel_hi : op.opsel) >> i & 1 : second;
      pick(w, op, i, rule.to, high, second, s[i], needs_real(rule.act) ? real[i] : nullptr);
    }
    if (accumulates) {
      const Shadow& old = of(w).rows[op.dst - 256];
      numbers(w, old, w.v[op.dst - 256], nullptr, rule.to, second ? 3 : 1, false, s[2]);
    }
    Result& r = rule.to == Format::F32 ? make(w, op, rule.to, second, false) : make(w, op, rule.to, 0, second, second);
    compute(w, op, rule, s, real, r);
  }
  clamped_ = op.clamp;
}

// v_fma_mix: each source is an f32 or, by op_sel_hi, the half that op_sel names.
void Algebra::mix(Wave& w, const Op& op, const Rule& rule) {
  static thread_local Numbers s[3];
  for (int i = 0; i < 3; ++i) {
    const bool half = op.opsel_hi >> i & 1, high = op.opsel >> i & 1;
    const Format f = half ? Format::F16 : Format::F32;
    Lanes lanes;
    static thread_local Shadow own[3];
    fetch_code(w, op, op.src[i], half ? Kind::PF16 : Kind::F32, lanes);
    const int last = half && !high ? 1 : 3;
    numbers(w, shadow_of(w, op.src[i], own[i]), lanes.lo, nullptr, f, last, op.src[i] < 256, s[i]);
    const bool absolute = op.abs >> i & 1, negative = op.neg >> i & 1;
    if (!absolute && !negative) continue;
    for (int l = 0; l < LANES; ++l) {
      const bool below = lanes.lo[l] >> (8 * last + 7) & 1;
      uint32_t p = s[i].p[l], q = s[i].q[l];
      if ((absolute && below) != negative) {
        if (!(p & SPECIAL)) p = neg<P>(p), q = q & SPECIAL ? q : neg<Q>(q);
        else if (p == INFINITE) q ^= 1;
      }
      s[i].own_p[l] = p, s[i].own_q[l] = q;
    }
    s[i].p = s[i].own_p, s[i].q = s[i].own_q;
  }
  Rule fma = rule;
  fma.act = Act::MULTIPLY_ADD;
  Result& r = rule.part ? make(w, op, Format::F16, 0, true, rule.part - 1) : make(w, op, Format::F32, 0, false);
  compute(w, op, fma, s, nullptr, r);
  clamped_ = op.clamp;
}

// v_dot2: two products and the third source, or the destination.
void Algebra::dot2(Wave& w, const Op& op, const Rule& rule) {
  static thread_local Numbers s[3];
  Rule fma = rule;
  fma.act = Act::MULTIPLY_ADD;
  fma.sources = 3;
  if (rule.third == Third::DESTINATION) {
    numbers(w, of(w).rows[op.dst - 256], w.v[op.dst - 256], nullptr, Format::F32, 3, false, s[2]);
  } else {
    pick(w, op, 2, Format::F32, false, false, s[2], nullptr);
  }
  Result& r = make(w, op, Format::F32, 0, false);
  uint64_t special = 0;
  for (int second = 0; second < 2; ++second) {
    for (int i = 0; i < 2; ++i) {
      const bool high = op.encoding == ENC_VOP3P ? (second ? op.opsel_hi : op.opsel) >> i & 1 : second;
      pick(w, op, i, rule.from, high, second, s[i], nullptr);
    }
    compute(w, op, fma, s, nullptr, r);
    special |= r.special;
    std::memcpy(s[2].own_p, out_[0].p[3], sizeof s[2].own_p), std::memcpy(s[2].own_q, out_[0].q[3], sizeof s[2].own_q);
    s[2].p = s[2].own_p, s[2].q = s[2].own_q;
  }
  r.special = special;
  clamped_ = op.clamp;
}

void Algebra::convert_pair(Wave& w, const Op& op, const Rule& rule) {
  static thread_local Operand a;
  static thread_local Numbers s;
  for (int i = 0; i < 2; ++i) {
    operand(w, op, i, Kind::F32, a);
    numbers(w, a, Format::F32, 3, s);
    Result& r = make(w, op, rule.to, 0, i == 1, i);
    std::memcpy(out_[0].p[r.last], s.p, 4 * LANES), std::memcpy(out_[0].q[r.last], s.q, 4 * LANES);
  }
}

// An integer is what it is, also where no float is as exact.
void Algebra::from_integer(Wave& w, const Op& op, const Use& use, const Rule& rule) {
  static thread_local Operand a;
  operand(w, op, 0, rule.to == Format::F16 ? Kind::B16 : Kind::B32, a);
  const bool plain = all_plain(w, use) || bare(*a.low), is_signed = std::strstr(rule.name, "_i") != nullptr;
  Result& r = make(w, op, rule.to, 0, false);
  uint32_t *p = out_[r.row].p[r.last], *q = out_[r.row].q[r.last];
  for (int l = 0; l < LANES; ++l) {
    const uint32_t x = a.bits.lo[l];
    int64_t value = is_signed ? int64_t(int32_t(x)) : int64_t(x);
    if (rule.to == Format::F16) value = is_signed ? int64_t(int16_t(x)) : int64_t(x & 0xffff);
    if (rule.part < 4) value = x >> 8 * rule.part & 255;
    const Number n = plain || a.low->of(l) == PLAIN ? image_of_integer(value) : Number{LOST, loss(w, "bits of a number are taken for an integer")};
    p[l] = n.p, q[l] = n.q;
  }
  if (op.flags & F_SDWA) insert(w, op);
}

}  // namespace ring
