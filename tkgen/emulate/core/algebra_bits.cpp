// Integer instructions on numbers. Each bit of the result is followed to where it came from; a number is where it was as long
// as all bits that matter stand together in the place of a number of that width:
//   an f32 by its upper 16 bits (what stands below is a rounding of it), others by all but the sign, which negates it
// Exponents and signs by themselves follow the real number, and are plain; other parts of numbers are JUNK. A sum of the bits of
// an f32 and at most 2^16 is a rounding of it (to bf16, or to the nearest neighbours that roots are refined with). Other sums, and
// bits that are shifted to the right, are those of a whole number (algebra_wholes.cpp), whose bits are followed one by one.
#include <algorithm>

#include "algebra.h"

namespace ring {

namespace {

struct Bit {
  int8_t source;  // CONSTANT, UNKNOWN plain, JUNKED, or the dword
  uint8_t at;     // its bit; of CONSTANT the value
  uint8_t rank = 255, value = 0;  // of a whole number: which bit it is there, and what, or SOME
};
constexpr uint8_t SOME = 2;  // not the same in all lanes
enum : int8_t { CONSTANT = -1, UNKNOWN = -2, JUNKED = -3 };
using Word = Bit[64];

Bit constant(unsigned v) { return {CONSTANT, uint8_t(v)}; }
bool is(Bit b, unsigned v) { return b.source == CONSTANT && b.at == v; }
bool plain(Bit b) { return b.source == CONSTANT || b.source == UNKNOWN; }

void spell(const Source32* s, int first, int dwords, Word out) {
  for (int i = 0; i < 32 * dwords; ++i) {
    const Source32& x = s[first + i / 32];
    const int b = i % 32;
    const bool number = x.tag >> (b & ~7) & 255, whole = x.spots && (x.tag >> (b & ~7) & 255) == WHOLE;
    const bool known = x.known >> b & 1;
    const uint8_t value = x.value >> b & 1;
    if (whole && x.spots[b].part != NO_PART) out[i] = {int8_t(first + i / 32), uint8_t(b), x.spots[b].at, known ? value : SOME};
    else if (number && !whole) out[i] = {int8_t(first + i / 32), uint8_t(b)};
    else out[i] = known ? constant(value) : Bit{UNKNOWN, 0};
  }
}

// Where bits of two whole numbers meet, the upper one is beyond what is meant of its number, if it is zero. So is one that meets
// plain bits, such as signs, that are not the same in all lanes.
void yield(Bit& a, Bit& b) {
  if (a.source == UNKNOWN && b.rank != 255 && !b.value) b = constant(0);
  if (b.source == UNKNOWN && a.rank != 255 && !a.value) a = constant(0);
  if (a.rank == 255 || b.rank == 255 || a.rank == b.rank) return;
  Bit& upper = a.rank > b.rank ? a : b;
  if (upper.value == SOME) upper = {JUNKED, 1};
  else if (!upper.value) upper = constant(0);
}

// Of two bits that say nothing of each other; of JUNKED `at` is 1 where an unknown bit made it.
Bit mixed(Bit a, Bit b) {
  if (plain(a) && plain(b)) return {UNKNOWN, 0};
  const bool unknown = plain(a) || plain(b) || (a.source == JUNKED && a.at) || (b.source == JUNKED && b.at);
  return {JUNKED, uint8_t(unknown)};
}
Bit both(Bit a, Bit b) {
  if (is(a, 0) || is(b, 0)) return constant(0);
  if (is(a, 1)) return b;
  if (is(b, 1)) return a;
  return mixed(a, b);
}
Bit inverse(Bit a) {
  if (a.rank != 255) return a.value == SOME ? Bit{UNKNOWN, 0} : constant(!a.value);
  if (a.source == CONSTANT) return constant(!a.at);
  return plain(a) || a.source == JUNKED ? a : Bit{JUNKED, 0};
}
Bit either(Bit a, Bit b) {
  yield(a, b);
  if (is(a, 1) || is(b, 1)) return constant(1);
  if (is(a, 0)) return b;
  if (is(b, 0)) return a;
  return mixed(a, b);
}
Bit differ(Bit a, Bit b) {
  yield(a, b);
  if (is(a, 0)) return b;
  if (is(b, 0)) return a;
  if (is(a, 1)) return inverse(b);
  if (is(b, 1)) return inverse(a);
  return mixed(a, b);
}

// The number that these bits of a source spell, if they are known, and no part of another number.
bool amount(const Source32& s, uint32_t mask, uint32_t& out) {
  if ((s.known & mask) != mask) return false;
  for (uint32_t byte = 255; byte; byte <<= 8)
    if (mask & byte && s.tag & byte) return false;
  out = s.value & mask;
  return true;
}

void shift(const Word a, int by, int width, bool is_signed, Word out) {  // left where positive
  for (int i = 0; i < (width == 64 ? 64 : 32); ++i) {
    const int from = i - by;
    out[i] = i >= width ? constant(0) : from >= 0 && from < width ? a[from] : is_signed && from >= width ? Bit{a[width - 1].source == JUNKED ? int8_t(JUNKED) : a[width - 1].source, a[width - 1].at} : constant(0);
  }
}

void junk_all(Word out, int width) {
  for (int i = 0; i < width; ++i) out[i] = {JUNKED, 0};
}

// A sum of words that have no bit in common; false where it is none.
bool disjoint(const Word a, const Word b, Word out) {
  for (int i = 0; i < 32; ++i) {
    Bit x = a[i], y = b[i];
    yield(x, y);
    if (x.rank != 255 && !x.value && is(y, 1)) x = constant(0);
    if (y.rank != 255 && !y.value && is(x, 1)) y = constant(0);
    if (!is(x, 0) && !is(y, 0)) return false;
    out[i] = is(x, 0) ? y : x;
  }
  return true;
}

void permute(const Word a, const Word b, uint32_t select, Word out) {
  for (int i = 0; i < 4; ++i) {
    const uint32_t s = select >> 8 * i & 255;
    for (int k = 0; k < 8; ++k) {
      Bit& to = out[8 * i + k];
      if (s >= 13) to = constant(1);
      else if (s == 12) to = constant(0);
      else if (s >= 8) to = {JUNKED, 0};
      else to = s < 4 ? b[8 * s + unsigned(k)] : a[8 * (s - 4) + unsigned(k)];
    }
  }
}

// A function of three bits by its table: with those that are known it may be a constant, one of the others or its inverse.
Bit by_table(uint32_t table, Bit a, Bit b, Bit c) {
  yield(a, b), yield(a, c), yield(b, c);
  const Bit x[3] = {a, b, c};
  unsigned agree[3] = {3, 3, 3}, seen = 0;  // bit 0: the function is this bit, bit 1: its inverse
  for (unsigned t = 0; t < 8; ++t) {
    bool possible = true;
    for (unsigned i = 0; i < 3; ++i) possible &= !(x[i].source == CONSTANT && x[i].at != (t >> (2 - i) & 1));
    if (!possible) continue;
    const unsigned value = table >> t & 1;
    seen |= 1u << value;
    for (unsigned i = 0; i < 3; ++i) agree[i] &= value == (t >> (2 - i) & 1) ? 1u : 2u;
  }
  if (seen != 3) return constant(seen >> 1);
  for (int i = 0; i < 3; ++i)
    if (agree[i] && x[i].source != CONSTANT) return agree[i] & 1 ? x[i] : inverse(x[i]);
  return mixed(mixed(a, b), c);
}

int bits_of_result(const Rule& rule) { return rule.width == 64 || rule.part == 2 ? 64 : 32; }

// The result of an instruction, bit by bit; JUNK and false where an amount or mask would have to be known, or words of a sum overlap.
bool work(const Rule& rule, const Op& op, const Source32* s, Word out) {
  Word a, b, c;
  const int dwords = rule.width == 64 ? 2 : 1, low = rule.width == 16 ? 16 : 32;
  const bool reversed = rule.bits >= Bits::REVERSED_LEFT && rule.bits <= Bits::REVERSED_RIGHT_SIGNED;
  spell(s, 0, reversed ? 1 : dwords, a);
  if (rule.sources > 1) spell(s, 2, reversed ? dwords : 1, b);
  if (rule.sources > 2) spell(s, 4, 1, c);
  const int width = rule.width;
  uint32_t n = 0, size = 0;
  for (int i = 0; i < bits_of_result(rule); ++i) out[i] = constant(0);
  const auto each = [&](auto f) { for (int i = 0; i < low; ++i) out[i] = f(i); };
  switch (rule.bits) {
    case Bits::MOVE: each([&](int i) { return a[i]; }); return true;
    case Bits::AND: each([&](int i) { return both(a[i], b[i]); }); return true;
    case Bits::AND_NOT: each([&](int i) { return both(a[i], inverse(b[i])); }); return true;
    case Bits::OR: each([&](int i) { return either(a[i], b[i]); }); return true;
    case Bits::XOR: each([&](int i) { return differ(a[i], b[i]); }); return true;
    case Bits::XNOR: each([&](int i) { return inverse(differ(a[i], b[i])); }); return true;
    case Bits::NOT: each([&](int i) { return inverse(a[i]); }); return true;
    case Bits::AND_OR: each([&](int i) { return either(both(a[i], b[i]), c[i]); }); return true;
    case Bits::OR3: each([&](int i) { return either(either(a[i], b[i]), c[i]); }); return true;
    case Bits::INSERT: each([&](int i) { return either(both(a[i], b[i]), both(inverse(a[i]), c[i])); }); return true;
    case Bits::TABLE: {
      const uint32_t table = uint32_t(op.omod) << 6 | uint32_t(op.abs) << 3 | op.neg;
      each([&](int i) { return by_table(table, a[i], b[i], c[i]); });
      return true;
    }
    case Bits::SHIFT_LEFT: case Bits::SHIFT_RIGHT: case Bits::SHIFT_RIGHT_SIGNED:
      if (!amount(s[2], uint32_t(width - 1), n)) break;
      shift(a, rule.bits == Bits::SHIFT_LEFT ? int(n) : -int(n), width, rule.bits == Bits::SHIFT_RIGHT_SIGNED, out);
      return true;
    case Bits::REVERSED_LEFT: case Bits::REVERSED_RIGHT: case Bits::REVERSED_RIGHT_SIGNED:
      if (!amount(s[0], uint32_t(width - 1), n)) break;
      shift(b, rule.bits == Bits::REVERSED_LEFT ? int(n) : -int(n), width, rule.bits == Bits::REVERSED_RIGHT_SIGNED, out);
      return true;
    case Bits::EXTRACT: case Bits::EXTRACT_SIGNED:
      if (!amount(s[2], 31, n) || !amount(s[4], 31, size)) break;
      for (uint32_t i = 0; i < 32; ++i) {
        const uint32_t from = n + (i < size ? i : size - 1);
        out[i] = size && from < 32 && (i < size || rule.bits == Bits::EXTRACT_SIGNED) ? a[from] : constant(0);
      }
      return true;
    case Bits::EXTRACT_SCALAR:
      if (!amount(s[2], 0x7f001f, n)) break;
      size = n >> 16, n &= 31;
      for (uint32_t i = 0; i < 32; ++i) out[i] = i < size && n + i < 32 ? a[n + i] : constant(0);
      return true;
    case Bits::ALIGN_BIT: case Bits::ALIGN_BYTE: {
      if (!amount(s[4], rule.bits == Bits::ALIGN_BIT ? 31 : 3, n)) break;
      if (rule.bits == Bits::ALIGN_BYTE) n *= 8;
      each([&](int i) { return i + int(n) < 32 ? b[i + int(n)] : a[i + int(n) - 32]; });
      return true;
    }
    case Bits::PERMUTE:
      if (!amount(s[4], ~0u, n)) break;
      permute(a, b, n, out);
      return true;
    case Bits::SHIFT_OR:
      if (!amount(s[2], 31, n)) break;
      shift(a, int(n), 32, false, out);
      each([&](int i) { return either(out[i], c[i]); });
      return true;
    case Bits::PACK_LL: each([&](int i) { return i < 16 ? a[i] : b[i - 16]; }); return true;
    case Bits::PACK_LH: each([&](int i) { return i < 16 ? a[i] : b[i]; }); return true;
    case Bits::PACK_HH: each([&](int i) { return i < 16 ? a[i + 16] : b[i]; }); return true;
    case Bits::ADD:
      if (disjoint(a, b, out)) return true;
      break;
    case Bits::SHIFT_ADD: {
      if (!amount(s[2], 31, n)) break;
      Word shifted;
      shift(a, int(n), 32, false, shifted);
      if (disjoint(shifted, c, out)) return true;
      break;
    }
    default: break;
  }
  junk_all(out, rule.part == 2 ? 64 : 32);
  return false;
}

bool top_of_f32(uint32_t tag) { return tag >> 16 == TAG_BF16; }

// Whether result bits first .. first + width - 1 are a number of one source, but for its sign.
bool stands(const Word r, int first, int width, int& source, int& at) {
  source = r[first].source, at = r[first].at;
  if (source < 0) return false;
  for (int i = 0; i < width - 1; ++i)
    if (r[first + i].source != source || r[first + i].at != at + i) return false;
  return true;
}

// Part of a number that is a number by itself neither: the exponent of an f32, a bf16 or its sign.
bool follows(const Source32* s, Bit b) {
  if (b.source < 0) return false;
  const uint32_t half = s[b.source].tag >> (b.at & 16) & 0xffff;
  return half == TAG_BF16 && (b.at & 15) >= 7;
}

void interpret(const Source32* s, const Word r, Recipe& out) {
  bool mantissa[6] = {};
  for (int i = 0; i < 32; ++i)
    if (r[i].source >= 0 && !follows(s, r[i])) mantissa[r[i].source] = true;
  bool done[4] = {};
  const auto number = [&](int last, int source, int at, uint32_t tag, int bytes) {
    for (int b = 0; b < bytes; ++b) done[last - b] = true;
    out.tag |= tag << 8 * (last + 1 - bytes);
    out.source[last] = uint8_t(source), out.byte[last] = uint8_t(at / 8 + bytes - 1);
    const Bit sign = r[8 * last + 7];
    if (sign.source != source || sign.at != at + 8 * bytes - 1) out.signs |= 1u << last;
  };
  for (int half = 0; half < 2; ++half) {
    int source, at;
    if (!stands(r, 16 * half, 16, source, at) || at % 16) continue;
    const uint32_t tag = s[source].tag >> at & 0xffff;
    if (tag == TAG_BF16 || tag == TAG_F16) number(2 * half + 1, source, at, tag, 2);
  }
  for (int b = 0; b < 4; ++b) {
    if (done[b]) continue;
    int source, at;
    if (stands(r, 8 * b, 8, source, at) && at % 8 == 0) {
      const uint32_t tag = s[source].tag >> at & 255;
      const bool intact = r[8 * b + 7].source == source && r[8 * b + 7].at == at + 7;
      if (tag == F8) {
        number(b, source, at, F8, 1);
        continue;
      }
      if (intact && (tag == PACKED || tag == WHOLE || tag == JUNK)) {
        out.tag |= tag << 8 * b, out.source[b] = uint8_t(source), out.byte[b] = uint8_t(at / 8);
        continue;
      }
    }
    bool any = false, low = b < 2, plain_enough = true;
    int junk_of = -1;
    for (int i = 8 * b; i < 8 * b + 8; ++i) {
      if (plain(r[i])) continue;
      any = true;
      low &= r[i].source >= 0 && ((s[r[i].source].tag >> (r[i].at & ~7) & 255) | 1) == F32 + 1;
      plain_enough &= follows(s, r[i]) && !mantissa[r[i].source];
      if (r[i].source >= 0 && (s[r[i].source].tag >> (r[i].at & ~7) & 255) == JUNK) junk_of = i;
    }
    if (!any || plain_enough) continue;
    if (low) {
      out.tag |= uint32_t(F32 + b) << 8 * b;
      continue;
    }
    out.tag |= uint32_t(JUNK) << 8 * b;
    if (junk_of >= 0) out.source[b] = uint8_t(r[junk_of].source), out.byte[b] = r[junk_of].at / 8;
    else out.fresh |= 1u << b;
  }
}

Recipe recipe_of(const Rule& rule, const Op& op, const Source32* s, int dword, Word r) {
  Recipe out;
  out.certain = work(rule, op, s, r);
  for (int i = 0; i < bits_of_result(rule); ++i) out.certain &= !(r[i].source == JUNKED && r[i].at);
  interpret(s, r + 32 * dword, out);
  for (int b = 0; b < 4; ++b) {
    if (!(out.fresh >> b & 1)) continue;
    bool any = false, followed = true;
    for (int i = 0; i < 8; ++i) {
      const Bit bit = r[32 * dword + 8 * b + i];
      if (bit.rank == 255) followed &= plain(bit) || follows(s, bit);
      else any = true, out.from[b][i] = {bit.source, uint8_t(bit.at / 8), s[bit.source].spots[bit.at]};
    }
    if (any && followed) out.composed |= 1u << b;
  }
  return out;
}

// Bits that are no part of a float.
uint32_t integer_bits(uint32_t tag) {
  uint32_t r = 0;
  for (int b = 0; b < 4; ++b)
    if (const uint32_t t = tag >> 8 * b & 255; t == PLAIN || t == WHOLE) r |= 255u << 8 * b;
  return r;
}

// The bits of a dword that are the same in all these lanes. Of lanes that are alike in `Likeness::FORMATS` alone no more is said of
// whole numbers, whose bits are `wholes`, than which are zero: that is likely the same in the next lanes.
Source32 common_bits(uint32_t tag, uint32_t wholes, const uint32_t* bits, uint64_t lanes, Likeness by) {
  uint32_t all = ~0u, any = 0;
  each_lane(lanes, [&](int l) { all &= bits[l], any |= bits[l]; });
  const uint32_t mine = integer_bits(tag), same = ~(all ^ any);
  const uint32_t known = mine & (by == Likeness::FORMATS ? same & ~(wholes & any) : same);
  return {tag, known | ~mine, any & known};
}

Dwords dwords_of(const Rule& rule, const Operand* s) {
  Dwords out;
  for (int i = 0; i < rule.sources && i < 3; ++i) {
    out.row[2 * i] = s[i].low, out.bits[2 * i] = s[i].bits.lo;
    if (rule.width == 64 && i == 1) out.row[3] = s[1].high, out.bits[3] = s[1].bits.hi;
  }
  return out;
}

// Lanes that are like lane `first`: they have numbers of the same formats in the same places, bit by bit; their plain bits, or
// also those of whole numbers, are the same.
uint64_t alike(const Dwords& s, int first, uint64_t lanes, Likeness by) {
  const auto keep = [&](auto same) {
    each_lane(lanes, [&](int l) { lanes &= ~(uint64_t(!same(l)) << l); });
  };
  for (int i = 0; i < 6; ++i) {
    if (!s.row[i]) continue;
    const Shadow& row = *s.row[i];
    const uint32_t tag = row.of(first), *bits = s.bits[i];
    if (row.common == MIXED) keep([&](int l) { return row.tag[l] == tag; });
    uint32_t mine = integer_bits(tag);
    for (int b = 0; b < 4; ++b) {
      if ((tag >> 8 * b & 255) != WHOLE) continue;
      keep([&](int l) { return row.q[b][l] == row.q[b][first]; });
      if (by != Likeness::ALL_BITS) mine &= ~(255u << 8 * b);
    }
    if (mine && by != Likeness::FORMATS) keep([&](int l) { return ((bits[l] ^ bits[first]) & mine) == 0; });
  }
  return lanes;
}

}  // namespace

void Algebra::junk(Wave& w, int rows) {
  const uint32_t id = loss(w, "bits of a number changed in a way that is not followed");
  rows_ = rows;
  for (int r = 0; r < rows; ++r) {
    out_[r].common = TAG_JUNK;
    for (int b = 0; b < 4; ++b)
      for (int l = 0; l < LANES; ++l) out_[r].q[b][l] = id;
  }
}

// What an instruction does to lanes that are alike. Waves are like each other, and passes of a loop: what came of them is kept.
const Recipes& Algebra::recipes(const Wave& w, const Op& op, const Rule& rule, const Source32* s, int rows) {
  constexpr size_t KEPT = 8;
  if (recipes_.empty()) recipes_.resize(rules.size());
  std::vector<Recipes>& kept = recipes_[w.pc];
  for (const Recipes& r : kept)
    if (r.rows == rows && std::equal(s, s + 6, r.of)) return r;
  Recipes& fresh = kept.size() < KEPT ? kept.emplace_back() : kept[replaced_++ % KEPT];
  fresh = Recipes();
  fresh.rows = rows;
  std::copy(s, s + 6, fresh.of);
  Word bits;
  for (int d = 0; d < rows; ++d) fresh.made[d] = recipe_of(rule, op, s, d, bits);
  return fresh;
}

static bool adds(const Rule& rule) { return rule.bits >= Bits::ADD && rule.bits <= Bits::SHIFT_ADD; }

// A small change of the bits of an f32, or a sum with a whole number; lanes in which it is neither are JUNK.
bool Algebra::rounded(Wave& w, const Op& op, const Rule& rule, const Operand* s, const Dwords& dwords) {
  if (!adds(rule)) return false;
  uint64_t others = 0, floats = 0;  // of which no sum is known, and with an f32
  out_[0].common = PLAIN;
  out_[0].spread();
  each_lane(w.lanes, [&](int l) {
    uint32_t x[3] = {s[0].bits.lo[l], s[1].bits.lo[l], rule.sources > 2 ? s[2].bits.lo[l] : 0};
    if (rule.bits == Bits::SUB) x[1] = 0 - x[1];
    if (rule.bits == Bits::SUBREV) x[0] = 0 - x[0];
    int number = -1;
    uint32_t any = 0;
    for (int i = 0; i < rule.sources; ++i) {
      const uint32_t tag = s[i].low->of(l);
      if (top_of_f32(tag)) number = number < 0 ? i : 3;
      any |= tag;
    }
    if (!any) return;
    const bool negated = (rule.bits == Bits::SUB && number == 1) || (rule.bits == Bits::SUBREV && number == 0);
    const int32_t change = number >= 0 && number < 3 ? int32_t(x[0] + x[1] + x[2] - x[number]) : 0;
    const bool small = number >= 0 && number < 3 && !negated && change >= -0x10000 && change <= 0x10000;
    if (small && rule.bits != Bits::SHIFT_ADD) {
      out_[0].tag[l] = TAG_F32, out_[0].p[3][l] = s[number].low->p[3][l], out_[0].q[3][l] = s[number].low->q[3][l];
      return;
    }
    Cell made;
    if (sum_of(w, rule, s, l, made)) return out_[0].put(l, made);
    others |= uint64_t(1) << l;
    floats |= uint64_t(number >= 0) << l;
  });
  follow_lanes(w, op, rule, dwords, others, 1, false);
  each_lane(floats, [&](int l) {
    if (whole_within(out_[0].tag[l])) return;
    out_[0].tag[l] = TAG_JUNK;
    for (auto& q : out_[0].q) q[l] = loss(w, "bits of a number changed in a way that is not followed");
  });
  out_[0].settle();
  rows_ = 1;
  settle_half(w, op, rule);
  return true;
}

// The payloads of these lanes.
void Algebra::apply(Wave& w, const Recipe& recipe, const Dwords& s, uint64_t lanes) {
  Shadow& out = out_[rows_];
  const unsigned slots = slots_of(recipe.tag);
  const uint32_t id = recipe.fresh ? loss(w, "bits of a number changed in a way that is not followed") : 0;
  for (int b = 0; b < 4; ++b) {
    if (!(slots >> b & 1)) continue;
    if (recipe.fresh >> b & 1) {
      each_lane(lanes, [&](int l) { out.p[b][l] = LOST, out.q[b][l] = id; });
      continue;
    }
    const int from = recipe.byte[b];
    const Shadow& x = *s.row[recipe.source[b]];
    each_lane(lanes, [&](int l) { out.p[b][l] = x.p[from][l], out.q[b][l] = x.q[from][l]; });
    if (!(recipe.signs >> b & 1) || rows_) continue;
    signs_[b] |= lanes;
    const uint32_t* bits = s.bits[recipe.source[b]];
    each_lane(lanes, [&](int l) { signed_[b][l] = bits[l] >> (8 * from + 7) & 1; });
  }
}

// What a 16-bit result leaves beside it: with op_sel it goes to the upper half, and the lower stays.
void Algebra::settle_half(Wave& w, const Op& op, const Rule& rule) {
  if (op.flags & F_SDWA) return insert(w, op);
  if (rule.width != 16 || op.encoding != ENC_VOP3 || !(op.opsel & 8)) return;
  Op upper = op;
  upper.control = 5u << 8 | 2u << 11;  // as SDWA says it: WORD_1, the rest is kept
  insert(w, upper);
}

// Whether the lower bits of a dword may be cut off. A bit by itself says how to round.
static bool cuts(const Rule& rule, const Operand* s) {
  const bool one_bit = rule.bits == Bits::EXTRACT && s[2].uniform && s[2].bits.lo[0] == 1;
  return rule.width == 32 && (rule.bits == Bits::REVERSED_RIGHT || rule.bits == Bits::EXTRACT) && !one_bit;
}

void Algebra::integers(Wave& w, const Op& op, const Use& use, const Rule& rule) {
  const int rows = rule.part;
  static thread_local Operand s[3];
  const bool wide = rule.width == 64;
  Op bare_op = op;
  if (rule.bits == Bits::TABLE) bare_op.neg = bare_op.abs = bare_op.omod = 0;
  const bool of_half = rule.width == 16 || (rule.bits == Bits::PACK_LL && op.encoding == ENC_VOP3);
  const bool followed = rule.bits != Bits::OTHER && rows <= 2 && rule.sources <= 3;
  for (int i = 0; i < rule.sources && i < 3 && (followed || whole_in_use_); ++i)
    operand(w, bare_op, i, wide && i == 1 ? Kind::B64 : of_half ? Kind::B16 : Kind::B32, s[i]);
  const bool soft_alone = whole_in_use_ && all_bare(w, use);
  for (int i = 0; i < rule.sources && i < 3 && whole_in_use_; ++i) without_near(s[i]);
  if (rule.packed && !soft_alone) return halves(w, op, rule);
  if (!followed || rule.packed) return soft_alone ? void(rows_ = 0) : junk(w, rows > 2 ? 2 : rows);
  if (chosen(rule, s)) return;
  follow(w, op, rule, s, rows);
  for (int d = 0; d < rows_ && soft_alone; ++d) {  // integers may do what they like
    out_[d].spread();
    for (int l = 0; l < LANES; ++l)
      for (int b = 0; b < 4; ++b)
        if ((out_[d].tag[l] >> 8 * b & 255) == JUNK) out_[d].tag[l] &= ~(255u << 8 * b);
    out_[d].settle();
  }
}

void Algebra::follow(Wave& w, const Op& op, const Rule& rule, const Operand* s, int rows) {
  const Dwords dwords = dwords_of(rule, s);
  const bool cut = cuts(rule, s);
  Source32 all[6];
  bool uniform = true;
  for (int i = 0; i < 6; ++i) {
    if (!dwords.row[i]) continue;
    const uint32_t tag = dwords.row[i]->common;
    uniform &= tag != MIXED && !whole_within(tag);
    all[i] = common_bits(tag, 0, dwords.bits[i], ~0ull, Likeness::FORMATS);
  }
  if (uniform) {
    const Recipes& found = recipes(w, op, rule, all, rows);
    bool good = true, fresh = false;
    for (int d = 0; d < rows; ++d) good &= found.made[d].certain, fresh |= found.made[d].fresh != 0;
    if (good && !(fresh && (cut || rule.bits == Bits::SHIFT_ADD))) {
      for (rows_ = 0; rows_ < rows; ++rows_) {
        out_[rows_].common = found.made[rows_].tag;
        apply(w, found.made[rows_], dwords, ~0ull);
      }
      settle_half(w, op, rule);
      return;
    }
  }
  if (rounded(w, op, rule, s, dwords)) return;
  for (int d = 0; d < rows; ++d) out_[d].common = PLAIN, out_[d].spread();
  follow_lanes(w, op, rule, dwords, w.lanes, rows, cut);
  for (int d = 0; d < rows; ++d) out_[d].settle();
  rows_ = rows;
  settle_half(w, op, rule);
}

// Many lanes at once: those that are alike, or so much alike that nothing depends on bits that differ between them.
void Algebra::follow_lanes(Wave& w, const Op& op, const Rule& rule, const Dwords& s, uint64_t lanes, int rows, bool cut, Likeness by) {
  while (lanes) {
    const uint64_t some = alike(s, __builtin_ctzll(lanes), lanes, by);
    lanes &= ~some;
    if (follow_alike(w, op, rule, s, some, rows, cut, by)) continue;
    follow_lanes(w, op, rule, s, some, rows, cut, by == Likeness::FORMATS ? Likeness::PLAIN_BITS : Likeness::ALL_BITS);
  }
}

// Bits of whole numbers are followed one by one. An f32 becomes one where `cut` bits of it would be lost. False where bits decide
// that differ between the lanes; then nothing is done.
bool Algebra::follow_alike(Wave& w, const Op& op, const Rule& rule, const Dwords& s, uint64_t lanes, int rows, bool cut, Likeness by) {
  const int first = __builtin_ctzll(lanes);
  Source32 x[6];
  Spot spots[6][32];
  bool wholes = false, certain = true;
  for (int i = 0; i < 6; ++i) {
    if (!s.row[i]) continue;
    const Cell c = s.row[i]->cell(first);
    uint32_t of_wholes = 0;
    if (whole_within(c.tag)) {
      wholes = true;
      spots_of(c.tag, c.q, spots[i]);
      for (int b = 0; b < 32; ++b) of_wholes |= uint32_t(spots[i][b].part != NO_PART) << b;
    }
    x[i] = common_bits(c.tag, of_wholes, s.bits[i], lanes, by);
    if (!whole_within(c.tag)) continue;
    x[i].spots = spots[i];
    for (int b = 0; b < 4; ++b) x[i].q[b] = (c.tag >> 8 * b & 255) == WHOLE ? c.q[b] : 0;
  }
  const Recipes& found = recipes(w, op, rule, x, rows);
  unsigned fresh = 0;
  for (int d = 0; d < rows; ++d) certain &= found.made[d].certain, fresh |= found.made[d].fresh;
  if (!certain && by != Likeness::ALL_BITS) return false;
  if (cut && fresh && !wholes) {
    static thread_local Shadow whole_rows[6];
    Dwords changed = s;
    as_wholes(w, changed, lanes, whole_rows);
    follow_lanes(w, op, rule, changed, lanes, rows, false);
    return true;
  }
  for (rows_ = 0; rows_ < rows; ++rows_) {
    const Recipe& made = found.made[rows_];
    Shadow& out = out_[rows_];
    each_lane(lanes, [&](int l) { out.tag[l] = made.tag; });
    apply(w, made, s, lanes);
    for (int b = 0; b < 4; ++b)
      if (made.composed >> b & 1) compose(s, made.from[b], b, lanes, out);
  }
  return true;
}

// The same for the scalar unit, one dword at a time.
void Algebra::scalars(Wave& w, const Op& op, const Use& use, const Rule& rule) {
  Registers& r = of(w);
  const std::string name = rule.name;
  const auto cell = [&](int i, int dword) { return op.src[i] + dword < 128 ? r.s[op.src[i] + dword] : Cell(); };
  Cell out[2];
  const bool selects = name == "s_cselect_b32" || name == "s_cselect_b64";
  if (selects || name == "s_mov_b64" || (name.compare(0, 6, "s_cmov") == 0 && w.scc)) {
    const int i = selects && !w.scc ? 1 : 0;
    for (int d = 0; d < rule.part; ++d) out[d] = cell(i, d);
  } else if (name.compare(0, 6, "s_cmov") == 0) {
    return;
  } else if (rule.bits != Bits::OTHER) {
    Source32 s[6];
    for (int i = 0; i < 6; ++i) {
      if (i / 2 >= rule.sources || (i % 2 && !(rule.width == 64 && i == 1))) continue;
      const uint64_t both = i < 2 && rule.width == 64 ? scalar64(w, op, op.src[i / 2], Kind::B64) : scalar32(w, op, op.src[i / 2], Kind::B32);
      s[i].tag = cell(i / 2, i % 2).tag, s[i].value = uint32_t(both >> 32 * (i % 2));
    }
    for (int d = 0; d < rule.part; ++d) {
      Word r;
      const Recipe made = recipe_of(rule, op, s, d, r);
      out[d].tag = made.tag;
      for (int b = 0; b < 4; ++b) {
        const Cell from = cell(made.source[b] / 2, made.source[b] % 2);
        out[d].p[b] = from.p[made.byte[b]], out[d].q[b] = from.q[made.byte[b]];
        if (!(made.fresh >> b & 1) && !(made.signs >> b & 1)) continue;
        if (bears(made.tag >> 8 * b & 255)) out[d].tag |= uint32_t(JUNK) << 8 * b, out[d].q[b] = loss(w, "bits of a number changed in a way that is not followed");
      }
    }
  } else {
    for (int d = 0; d < rule.part && d < 2; ++d) {
      out[d].tag = TAG_JUNK;
      for (uint32_t& q : out[d].q) q = loss(w, "bits of a number changed in a way that is not followed");
    }
  }
  becomes_plain(w, use, ~0ull);
  for (int d = 0; d < rule.part && d < 2; ++d) r.s[op.dst + d] = out[d];
}

}  // namespace ring
