// Conversions to and from floats of 8 and 4 bits, also with gfx950's scales, and those that round at random.
#include "algebra.h"

namespace ring {

namespace {

bool has(const std::string& s, const char* part) { return s.find(part) != std::string::npos; }

Format small_format(const std::string& name, bool ocp) {
  if (has(name, "fp4")) return Format::FP4;
  if (has(name, "bf8")) return ocp ? Format::BF8 : Format::BF8_FNUZ;
  return ocp ? Format::FP8 : Format::FP8_FNUZ;
}

// The type that a name ends with, or that stands before the small one.
Format wide_format(const std::string& part) {
  return has(part, "bf16") ? Format::BF16 : has(part, "f16") ? Format::F16 : Format::F32;
}

}  // namespace

// `to` and `from`: formats; `sources`: how many values; `part`: 1 with a scale, 2 at random; `keeps`: to a small format.
bool Algebra::describe_small(const std::string& name, uint32_t target, Rule& r) {
  if (name.compare(0, 6, "v_cvt_") || (!has(name, "fp8") && !has(name, "bf8") && !has(name, "fp4") && !has(name, "v_cvt_sr_"))) return false;
  const bool ocp = target == GFX950, scaled = has(name, "scalef32");
  const std::string rest = scaled ? name.substr(name.find("scalef32_") + 9) : name.substr(6);
  r.sources = has(rest, "pk_") ? 2 : 1;
  r.part = uint8_t((scaled ? 1 : 0) | (has(rest, "sr_") ? 2 : 0));
  const size_t last = rest.rfind('_');
  const std::string end = rest.substr(last + 1), first = rest.substr(0, last);
  r.keeps = !has(end, "8") && !has(end, "fp4");
  const bool half = r.keeps && !has(first, "8") && !has(first, "fp4");  // v_cvt_sr_f16_f32, v_cvt_sr_bf16_f32
  if (r.keeps) r.to = half ? wide_format(first) : small_format(first, ocp), r.from = wide_format(end);
  else r.from = small_format(end, ocp), r.to = wide_format(first);
  return true;
}

// Powers of two in the exponents of a scale, times them or one over them.
static void rescale(Numbers& n, const uint32_t* scale, bool over) {
  for (int l = 0; l < LANES; ++l) {
    const int e = int(scale[l] >> 23 & 255) - 127;
    const uint32_t p = n.p[l], q = n.q[l];
    n.own_p[l] = p & SPECIAL ? p : mul<P>(p, two_to<P>(over ? -e : e));
    n.own_q[l] = (p | q) & SPECIAL ? q : mul<Q>(q, two_to<Q>(over ? -e : e));
  }
  n.p = n.own_p, n.q = n.own_q;
}

// Packed floats, kept beside the tensors: their numbers are found by the place of their first byte, which this is.
uint32_t Algebra::keep(Format f, const Number* n, int count) {
  const size_t which = size_t(f) - size_t(Format::FP4);
  std::vector<uint32_t>& kept = kept_[which];
  Packed& packed = packed_[packed_.size() - 3 + which];
  const uint32_t place = uint32_t(kept.size() / 2 * size_t(width_of(f)) / 8);
  for (int i = 0; i < count; ++i) kept.push_back(n[i].p), kept.push_back(n[i].q);
  packed.payload = kept.data(), packed.elements = kept.size() / 2;
  return place;
}

// A byte of two floats of 4 bits.
void Algebra::keep_pair(Shadow& s, int byte, const Numbers* n) {
  for (int l = 0; l < LANES; ++l) {
    const Number two[] = {{n[0].p[l], n[0].q[l]}, {n[1].p[l], n[1].q[l]}};
    s.p[byte][l] = uint32_t(packed_.size() - 3), s.q[byte][l] = keep(Format::FP4, two, 2);
  }
}

void Algebra::to_small(Wave& w, const Op& op, const Rule& rule) {
  static thread_local Operand a;
  static thread_local Numbers n[2];
  const bool scaled = rule.part & 1, random = rule.part & 2, packed = rule.from != Format::F32;
  const bool registers = rule.sources == 2 && !packed, operands = registers && !random;
  Lanes scale;
  if (scaled) fetch_code(w, op, op.src[random || operands ? 2 : 1], Kind::B32, scale);
  for (int i = 0; i < rule.sources; ++i) {
    if (packed) {
      const int last = rule.sources == 2 ? 2 * i + 1 : op.opsel & 1 ? 3 : 1;
      Lanes lanes;
      static thread_local Shadow own;
      fetch_code(w, op, op.src[0], Kind::B32, lanes);
      numbers(w, shadow_of(w, op.src[0], own), lanes.lo, nullptr, rule.from, last, op.src[0] < 256, n[i]);
    } else if (registers && random && i && op.src[0] >= 256) {
      numbers(w, of(w).rows[size_t(op.src[0] - 255)], w.v[op.src[0] - 255], nullptr, Format::F32, 3, false, n[i]);
    } else {
      operand(w, op, operands ? i : 0, Kind::F32, a);
      numbers(w, a, Format::F32, 3, n[i]);
    }
    if (n[i].p != n[i].own_p) {
      std::memcpy(n[i].own_p, n[i].p, sizeof n[i].own_p), std::memcpy(n[i].own_q, n[i].q, sizeof n[i].own_q);
      n[i].p = n[i].own_p, n[i].q = n[i].own_q;
    }
    if (scaled) rescale(n[i], scale.lo, true);
  }
  Shadow& s = out_[0];
  s.copy(of(w).rows[op.dst - 256]);
  const int bits = width_of(rule.to), width = bits * rule.sources, bytes = width / 8;
  const int first = bytes == 2 ? 2 * (op.opsel >> 3 & 1) : op.opsel >> 2 & 3;
  uint32_t tag = bits == 4 ? PACKED : bits == 8 ? F8 : rule.to == Format::F16 ? TAG_F16 : TAG_BF16;
  if (bits == 8 && bytes == 2) tag |= F8 << 8;
  const uint32_t mask = ((1u << width) - 1) << 8 * first;
  if (s.common != MIXED) s.common = (s.common & ~mask) | tag << 8 * first;
  else
    for (int l = 0; l < LANES; ++l) s.tag[l] = (s.tag[l] & ~mask) | tag << 8 * first;
  rows_ = 1;
  if (bits == 4) return keep_pair(s, first, n);
  for (int i = 0; i < rule.sources; ++i) {
    const int byte = bits == 16 ? first + 1 : first + i;
    std::memcpy(s.p[byte], n[i].p, 4 * LANES), std::memcpy(s.q[byte], n[i].q, 4 * LANES);
  }
}

void Algebra::from_small(Wave& w, const Op& op, const Rule& rule) {
  static thread_local Numbers n;
  static thread_local Shadow own;
  const bool scaled = rule.part & 1;
  const int bits = width_of(rule.from), width = bits * rule.sources;
  int first = 0;
  if (op.flags & F_SDWA) first = rule.sources == 2 ? ((op.control >> 16 & 7) == 5 ? 2 : 0) : int(op.control >> 16 & 3);
  else if (scaled) first = width == 16 ? 2 * (op.opsel & 1) : op.opsel & 3;
  else if (op.encoding == ENC_VOP3) first = rule.sources == 2 ? 2 * (op.opsel & 1) : (op.opsel & 1) << 1 | (op.opsel >> 1 & 1);
  Lanes a, scale;
  fetch_code(w, op, op.src[0], Kind::B32, a);
  if (scaled) fetch_code(w, op, op.src[1], Kind::B32, scale);
  const Shadow& s = shadow_of(w, op.src[0], own);
  for (int i = 0; i < rule.sources; ++i) {
    if (bits == 4) {
      const Shadow* rows[] = {&s};
      const uint32_t* lanes[] = {a.lo};
      packed_numbers(w, rows, lanes, rule.from, 2 * first + i, n);
    } else {
      numbers(w, s, a.lo, nullptr, rule.from, first + i, op.src[0] < 256, n);
    }
    if (scaled) rescale(n, scale.lo, false);
    const bool f32 = rule.to == Format::F32;
    const int half = f32 ? -1 : rule.sources == 2 ? i : op.opsel >> 3 & 1;
    Result& r = make(w, op, rule.to, f32 ? i : 0, !f32 && (rule.sources == 1 || i), half);
    std::memcpy(out_[r.row].p[r.last], n.p, 4 * LANES), std::memcpy(out_[r.row].q[r.last], n.q, 4 * LANES);
  }
}

void Algebra::small(Wave& w, const Op& op, const Rule& rule) { rule.keeps ? to_small(w, op, rule) : from_small(w, op, rule); }

}  // namespace ring
