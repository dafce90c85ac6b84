// Whole numbers that others were rounded to, by conversions or as the bits of floats: what is added to them, which of their
// bits stand where, and which numbers these spell (algebra.h). So floats of any format may be put together by integers.
#include <algorithm>

#include "algebra.h"

namespace ring {

namespace {

Number plus(Number a, Number b) { return {add<P>(a.p, b.p), (a.q | b.q) & SPECIAL ? ABSENT : add<Q>(a.q, b.q)}; }
Number minus(Number a, Number b) { return {sub<P>(a.p, b.p), (a.q | b.q) & SPECIAL ? ABSENT : sub<Q>(a.q, b.q)}; }
Number times(Number a, int exponent) {
  return {mul<P>(a.p, two_to<P>(exponent)), a.q & SPECIAL ? ABSENT : mul<Q>(a.q, two_to<Q>(exponent))};
}
Number negative(Number a) { return {neg<P>(a.p), a.q & SPECIAL ? ABSENT : neg<Q>(a.q)}; }
bool nothing(Number a) { return !a.p && (!a.q || a.q == ABSENT); }

// The bit of an f32 above its fraction, which is not written, by its sign and exponent: subnormals have none.
int64_t first_bit(uint32_t base) { return base & 0x7f800000 ? 1 << 23 : 0; }

int last_byte(Format f) { return width_of(f) >= 32 ? 3 : 1; }

}  // namespace

bool Algebra::soft(uint32_t p, uint32_t q) const {
  if (!(q & COMPOSED)) return wholes_[p].lost == NONE;
  for (const Spot spot : patterns_[q & ~COMPOSED])
    if (spot.part != NO_PART && wholes_[whole_at(p, q, spot)].lost != NONE) return false;
  return true;
}

// What it is to those that know nothing of whole numbers: plain bits, or lost ones.
void Algebra::bare_cell(Cell& c) const {
  for (int b = 0; b < 4; ++b) {
    const uint32_t t = c.tag >> 8 * b & 255;
    if ((t & 0xf0) == NEAR) c.tag &= ~(255u << 8 * b);
    if (t != WHOLE) continue;
    c.tag &= ~(255u << 8 * b);
    if (soft(c.p[b], c.q[b])) continue;
    c.tag |= uint32_t(JUNK) << 8 * b;
    uint32_t lost = c.q[b] & COMPOSED ? NONE : wholes_[c.p[b]].lost;
    for (int i = 0; c.q[b] & COMPOSED && i < 8; ++i) {
      const Spot spot = patterns_[c.q[b] & ~COMPOSED][size_t(i)];
      const uint32_t id = spot.part == NO_PART ? NONE : wholes_[whole_at(c.p[b], c.q[b], spot)].lost;
      if (id != NONE) lost = id;
    }
    c.q[b] = lost;
  }
}

// Whether nothing but plain bits would be left of it.
bool Algebra::is_soft(const Cell& c) const {
  for (int b = 0; b < 4; ++b) {
    const uint32_t t = c.tag >> 8 * b & 255;
    if (t != PLAIN && (t & 0xf0) != NEAR && (t != WHOLE || !soft(c.p[b], c.q[b]))) return false;
  }
  return true;
}

bool Algebra::bare(const Shadow& s) const {
  if (s.common == PLAIN) return true;
  if (!whole_in_use_) return false;
  for (int l = 0; l < LANES; ++l)
    if (!is_soft(s.cell(l))) return false;
  return true;
}

// Whether an instruction reads nothing but integers, of whatever they are roundings.
bool Algebra::all_bare(const Wave& w, const Use& use) const {
  const Registers& r = of(w);
  for (int i = 0; i < use.count; ++i) {
    const Use::Span& s = use.spans[i];
    if (s.flags & Use::WRITES) continue;
    for (unsigned k = s.first; k < unsigned(s.first) + s.count; ++k)
      if (k < ROWS ? !bare(r.rows[k]) : r.s[k - ROWS].tag != PLAIN) return false;
  }
  return true;
}

// Where the 32 bits of a dword are from, by its tag and the second values of its slots.
void Algebra::spots_of(uint32_t tag, const uint32_t* q, Spot* out) const {
  for (int b = 0; b < 4; ++b, out += 8) {
    if ((tag >> 8 * b & 255) != WHOLE) std::fill(out, out + 8, Spot{NO_PART, 0});
    else if (q[b] & COMPOSED) std::copy_n(patterns_[q[b] & ~COMPOSED].data(), 8, out);
    else
      for (unsigned i = 0; i < 8; ++i) out[i] = {0, uint8_t(q[b] + i)};
  }
}

void Algebra::refs_of(const Cell& c, Ref* out) const {
  Spot spots[32];
  spots_of(c.tag, c.q, spots);
  for (int i = 0; i < 32; ++i) out[i] = {spots[i].part == NO_PART ? NO_WHOLE : whole_at(c.p[i / 8], c.q[i / 8], spots[i]), spots[i].at};
}

// A byte of the result in all these lanes, of eight bits that are plain or of whole numbers.
void Algebra::compose(const Dwords& s, const Origin* from, int byte, uint64_t lanes, Shadow& out) {
  uint32_t ids[8][LANES];
  uint8_t parts = 0;
  Pattern pattern;
  bool straight = true;
  for (unsigned i = 0; i < 8; ++i) {
    const Origin& x = from[i];
    pattern[i] = {NO_PART, 0};
    if (i && x.dword >= 0 && x.dword == from[i - 1].dword && x.byte == from[i - 1].byte && x.spot.part == from[i - 1].spot.part) {
      pattern[i] = {pattern[i - 1].part, x.spot.at};
    } else if (x.dword >= 0) {
      const uint32_t *p = s.row[x.dword]->p[x.byte], *q = s.row[x.dword]->q[x.byte];
      each_lane(lanes, [&](int l) { ids[parts][l] = whole_at(p[l], q[l], x.spot); });
      uint8_t part = 0;  // perhaps one that is there
      const auto same = [&] {
        uint32_t differ = 0;
        each_lane(lanes, [&](int l) { differ |= ids[part][l] ^ ids[parts][l]; });
        return !differ;
      };
      while (part < parts && !same()) ++part;
      parts += part == parts;
      pattern[i] = {part, x.spot.at};
    }
    straight &= pattern[i].part == 0 && pattern[i].at == pattern[0].at + i;
  }
  const uint32_t tag = parts ? uint32_t(WHOLE) << 8 * byte : 0;
  uint32_t q = pattern[0].at;
  if (parts && !straight) {
    const auto [it, fresh] = pattern_numbers_.try_emplace(pattern, uint32_t(patterns_.size()));
    if (fresh) patterns_.push_back(pattern);
    q = COMPOSED | it->second;
  }
  each_lane(lanes, [&](int l) {
    out.tag[l] = (out.tag[l] & ~(255u << 8 * byte)) | tag;
    if (!parts) return;
    out.p[byte][l] = straight ? ids[0][l] : uint32_t(composed_.size()), out.q[byte][l] = q;
    for (int i = 0; i < parts && !straight; ++i) composed_.push_back(ids[i][l]);
  });
}

// Those of f32 in these lanes as whole numbers, in rows of `made`.
void Algebra::as_wholes(Wave& w, Dwords& s, uint64_t lanes, Shadow* made) {
  for (int i = 0; i < 6; ++i) {
    if (!s.row[i]) continue;
    Shadow& row = made[i];
    row.copy(*s.row[i]);
    row.spread();
    each_lane(lanes, [&](int l) {
      Whole bits;
      Cell c;
      if (row.tag[l] != TAG_F32 || !bits_of_f32(w, {row.p[3][l], row.q[3][l]}, s.bits[i][l], bits)) return;
      new_whole(c) = bits;
      row.put(l, c);
    });
    s.row[i] = &row;
  }
}

// A dword that is a whole number, which is to be filled in.
Whole& Algebra::new_whole(Cell& out) {
  out.tag = TAG_WHOLE;
  for (uint32_t b = 0; b < 4; ++b) out.p[b] = uint32_t(wholes_.size()), out.q[b] = 8 * b;
  whole_in_use_ = true;
  return wholes_.emplace_back();
}

// The bits of an f32 as a whole number, in units of its last place: its exponent and its sign are none of it.
bool Algebra::bits_of_f32(Wave& w, Number n, uint32_t b, Whole& out) {
  const int e = int(b >> 23 & 255);
  if (n.special() || e == 255) return false;
  const Number rest = times(minus(n, image(bits<float>(b))), 150 - (e ? e : 1));
  out = {b >> 31 ? negative(rest) : rest, b, b & 0xff800000, 0, loss(w, "bits of a number changed in a way that is not followed")};
  return true;
}

// The same of an f16 or bf16 in the lower half.
bool Algebra::bits_of_half(Wave& w, const Cell& c, uint32_t b, Whole& out) {
  const bool f16 = (c.tag & 0xffff) == TAG_F16;
  const uint32_t fraction = f16 ? 10 : 7, e = b >> fraction & (f16 ? 31 : 255);
  const Number n = {c.p[1], c.q[1]}, shown = image_of(f16 ? Format::F16 : Format::BF16, b & 0xffff);
  if (n.special() || shown.special()) return false;
  const Number rest = times(minus(n, shown), (f16 ? 25 : 134) - int(e ? e : 1));
  out = {b & 0x8000 ? negative(rest) : rest, b & 0xffff, b & 0xffff & ~((1u << fraction) - 1)};
  out.lost = loss(w, "bits of a number changed in a way that is not followed");
  return true;
}

// `width` bits as a whole number: those of one in a row, and plain ones beside them. Where its lowest ones are cut off, they
// are part of what rounding took. Its value is not said, `base` is how much of it the number is.
bool Algebra::unpacked(const Ref* refs, int width, Whole& out) const {
  int first = 0, end;
  while (first < width && refs[first].whole == NO_WHOLE) ++first;
  if (first == width) return false;
  const uint32_t id = refs[first].whole, cut = refs[first].at;
  for (end = first; end < width && refs[end].whole == id && refs[end].at == cut + unsigned(end - first); ++end) {}
  for (int i = end; i < width; ++i)
    if (refs[i].whole != NO_WHOLE && (refs[i].whole != id || refs[i].at != 31)) return false;  // copies of a sign are plain
  const Whole& x = wholes_[id];
  if (cut < x.cut) return false;
  const bool rounded = x.rounds && cut >= x.rounds;
  const uint32_t below = cut ? x.value & ((1u << cut) - 1) : 0;
  out.rest = times(plus(rounded ? x.rest_rounded : x.rest, image_of_integer(below)), first - int(cut));
  out.base = uint32_t(int32_t(x.value - (rounded ? x.base_rounded : x.base)) >> cut) << first;
  out.lost = x.lost;
  return true;
}

// A dword as a whole number; false where it is none.
bool Algebra::word_of(Wave& w, const Cell& c, uint32_t b, Whole& out) {
  if (c.tag == TAG_F32) return bits_of_f32(w, {c.p[3], c.q[3]}, b, out);
  if (c.tag == TAG_F16 || c.tag == TAG_BF16) return bits_of_half(w, c, b, out);
  for (int i = 0; i < 4; ++i)
    if ((c.tag >> 8 * i & 255) != WHOLE && (c.tag >> 8 * i & 255) != PLAIN) return false;
  Ref refs[32];
  refs_of(c, refs);
  if (!unpacked(refs, 32, out)) return false;
  out.value = b, out.base = b - out.base, out.cut = 0;
  return true;
}

// What is added to the bits of a float and is less than its exponent may be there to round it; then it is no part of the
// number. It must be, where nothing else is added.
void Algebra::may_round(const Whole& of, int32_t added, bool float_alone, Whole& sum) {
  const int32_t fraction = added & 0x7fffff, small = fraction > 0x400000 ? fraction - 0x800000 : fraction;
  if (!small || of.base & 0x7fffff) return;
  const int64_t old = of.value - of.base, now = old + small;
  const int carry = now >= 1 << 23 ? 1 : now < 0 ? -1 : 0;
  const uint32_t base = of.base + uint32_t(carry) * (1u << 23), shown = of.value + uint32_t(small) - base;
  const int64_t first = first_bit(of.base), first_now = first_bit(base);
  const int halved = first && first_now ? carry : 0;  // subnormals have the last places of the least normal numbers
  const Number real = times(plus(of.rest, image_of_integer(old + first)), -halved);  // in last places, with its first bit
  sum.rest_rounded = minus(real, image_of_integer(int64_t(shown) + first_now));
  sum.base_rounded = base + uint32_t(added - small);
  sum.rounds = 1;
  while (uint32_t(std::abs(small)) > 1u << sum.rounds) ++sum.rounds;
  if (float_alone && added == small) sum.cut = sum.rounds;
}

// A sum of one whole number and plain ones; false where it is none.
bool Algebra::sum_of(Wave& w, const Rule& rule, const Operand* s, int lane, Cell& out) {
  if (rule.bits == Bits::SHIFT_ADD && s[1].low->of(lane)) return false;
  Whole number;
  int count = 0, left = 0;  // by how much the number is shifted
  uint32_t plain = 0;       // what is added
  bool direct = false, negated = false;
  int half = 0;  // bits of the fraction, of an f16 or bf16
  bool hard = false, of_float = false;  // beside which a plain integer that is another's rounding is plain
  Cell cells[3];
  bool softs[3];
  for (int i = 0; i < rule.sources; ++i) {
    cells[i].tag = s[i].low->of(lane);
    if (softs[i] = true; cells[i].tag == PLAIN) continue;
    cells[i] = s[i].low->cell(lane);
    of_float |= cells[i].tag == TAG_F32;
    softs[i] = is_soft(cells[i]);
    hard |= !softs[i];
  }
  for (int i = 0; i < rule.sources; ++i) {
    if (rule.bits == Bits::SHIFT_ADD && i == 1) continue;
    Cell& c = cells[i];
    const uint32_t b = s[i].bits.lo[lane];
    const bool up = of_float && c.tag != TAG_F32 && b <= 1;  // whether to round up
    if (hard && (softs[i] || up)) c.tag = PLAIN;
    const int by = rule.bits == Bits::SHIFT_ADD && i == 0 ? int(s[1].bits.lo[lane] & 31) : 0;
    const bool minus_it = (rule.bits == Bits::SUB && i == 1) || (rule.bits == Bits::SUBREV && i == 0);
    if (!c.tag) {
      plain += minus_it ? 0 - (b << by) : b << by;
      continue;
    }
    if (++count > 1 || !word_of(w, c, b, number)) return false;
    direct = c.tag == TAG_F32, left = by, negated = minus_it;
    if (!direct && !whole_within(c.tag)) half = c.tag == TAG_F16 ? 10 : 7;
  }
  if (half && (plain & ((1u << half) - 1) || rule.width != 16)) return false;  // rounded or not, nobody knows
  const uint32_t value = number.value << left, base = number.base << left;
  Whole& sum = new_whole(out);
  sum.rest = left ? times(number.rest, left) : number.rest;
  if (negated) sum.rest = negative(sum.rest);
  sum.value = plain + (negated ? 0 - value : value), sum.base = plain + (negated ? 0 - base : base);
  sum.lost = number.lost;
  if (rule.width == 16) {
    sum.value &= 0xffff, sum.base = sum.value - uint32_t(int16_t(sum.value - sum.base));
    out.tag &= 0xffff;
  } else if (sum.lost != NONE && !left && !negated) {
    may_round(number, int32_t(plain), direct, sum);
  }
  return true;
}

// --- What bits spell ------------------------------------------------------------------------------------------------------

Number Algebra::spelled(Format f, const Ref* refs, uint32_t b, uint32_t pc) {
  const int width = width_of(f);
  Whole x;
  const auto plain = [&] {
    Number n = is_integer(f) ? image_of_integer(f == Format::I8 ? int8_t(b) : int32_t(b)) : image_of(f, b);
    if (n.lost()) n.q = loss(pc, "it is not a number");
    return n;
  };
  if (!unpacked(refs, width, x)) {
    bool only_plain = true;
    for (int i = 0; i < width; ++i) {
      if (refs[i].whole == NO_WHOLE) continue;
      const uint32_t lost = wholes_[refs[i].whole].lost;
      if (lost != NONE) return {LOST, lost};
      only_plain = width >= 8;
    }
    return only_plain ? plain() : Number{LOST, loss(pc, "bits of several numbers are taken for one")};
  }
  const Number shown = plain();
  if (nothing(x.rest) || shown.special() || (x.lost == NONE && f == Format::F32)) return shown;
  if (is_integer(f)) return plus(shown, x.rest);
  if (f == Format::E8M0) {  // the fraction of an f32 of that exponent, which is all of the bits below
    if (x.base) return {LOST, loss(pc, "an exponent is rounded in a way that is not followed")};
    return b & 255 ? plus(shown, times(x.rest, int(b & 255) - 127)) : shown;
  }
  // The number is the one shown and so many more units of the last place, of which there are two sizes beside a power of two.
  const uint32_t sign = 1u << (width - 1), size = b & (sign - 1);
  const double value = value_of(f, size), above = value_of(f, size + 1) - value, below = size ? value - value_of(f, size - 1) : above;
  const double units = double(int32_t(x.base));
  double unit = above;
  if (!std::isfinite(above) || size + 1 == sign) unit = below;
  else if (above != below && units != 0 && value != units * above) unit = value == units * below ? below : 0;
  int exponent;
  if (unit == 0 || !std::isfinite(unit) || std::frexp(unit, &exponent) != 0.5)
    return {LOST, loss(pc, "a number is rounded to a power of two, from above or from below")};
  const Number more = times(x.rest, exponent - 1);
  return plus(shown, b & sign ? negative(more) : more);
}

Number Algebra::spelled(Format f, const Cell& c, unsigned first, uint32_t b, uint32_t pc) {
  Ref refs[32];
  refs_of(c, refs);
  return spelled(f, refs + 8 * first, b >> 8 * first & (width_of(f) == 32 ? ~0u : (1u << width_of(f)) - 1), pc);
}

// --- Roundings to whole numbers ---------------------------------------------------------------------------------------------

// Of floats (Act::ROUND) and to integers: the result is plain, beside the number that it was. Where that is a whole number
// or is not known, there is nothing to remember.
void Algebra::rounds(Wave& w, const Op& op, const Rule& rule) {
  static thread_local Operand a;
  static thread_local Numbers n;
  const Format f = rule.from;
  operand(w, op, 0, f == Format::F64 ? Kind::F64 : f == Format::F16 ? Kind::F16 : Kind::F32, a);
  const Shadow& from = f == Format::F64 ? *a.high : *a.low;
  pending_ = from.common != PLAIN && !op.clamp && !op.omod && !(op.encoding == ENC_VOP3 && op.opsel & 8);
  if (!pending_) return;
  numbers(w, a, f, last_byte(f), n);
  const bool is_signed = rule.keeps;
  const auto whole = [&](double x) {
    switch (rule.part) {
      case 'n': return std::nearbyint(x);
      case 'f': return std::floor(x);
      case 'c': return std::ceil(x);
      case 'h': return std::floor(x + 0.5);
      default: return std::trunc(x);
    }
  };
  const double most = rule.act == Act::ROUND ? 1e30 : f == Format::F16 ? (is_signed ? 32767 : 65535) : is_signed ? 2147483647 : 4294967295.0;
  out_[0].common = MIXED;
  rows_ = 1;
  for (int l = 0; l < LANES; ++l) {
    out_[0].tag[l] = PLAIN;
    const double real = value_of(f, f == Format::F64 ? U64::get(a.bits.lo[l], a.bits.hi[l]) : a.bits.lo[l]), r = whole(real);
    if ((n.p[l] & SPECIAL) || !std::isfinite(real) || !from.of(l) || r > most || r < (is_signed ? -most - 1 : rule.act == Act::ROUND ? -most : 0)) continue;
    Number rest = minus({n.p[l], n.q[l]}, image(r));
    if (from.of(l) == TAG_NEAR && !a.neg && !a.abs) rest = plus(rest, {from.p[3][l], from.q[3][l]});
    if (nothing(rest)) continue;
    Cell c;
    if (rule.act == Act::ROUND) c.tag = TAG_NEAR, c.p[3] = rest.p, c.q[3] = rest.q, whole_in_use_ = true;
    else new_whole(c) = {rest, uint32_t(int64_t(r)), 0};
    out_[0].put(l, c);
  }
  out_[0].settle();
  if (op.flags & F_SDWA) insert(w, op);
}

// The largest, smallest or middle one of numbers of which some were rounded is one of these.
void Algebra::keep_near(const Operand* a, const double (*real)[LANES], int count, const Result& r) {
  Shadow& out = out_[0];
  bool any = false;
  for (int i = 0; i < count; ++i) any |= a[i].low->common == TAG_NEAR || a[i].low->common == MIXED;
  if (!any) return;
  out.spread();
  for (int l = 0; l < LANES; ++l)
    for (int i = 0; i < count; ++i) {
      if (a[i].low->of(l) != TAG_NEAR || a[i].neg || a[i].abs || real[i][l] != real[chosen_[l]][l] || r.special >> l & 1) continue;
      out.tag[l] = TAG_NEAR, out.p[3][l] = a[i].low->p[3][l], out.q[3][l] = a[i].low->q[3][l];
      break;
    }
  out.settle();
}

// --- Instructions on integers -----------------------------------------------------------------------------------------------

// The larger, smaller or middle one of integers is one of them.
bool Algebra::chosen(const Rule& rule, const Operand* s) {
  if (rule.bits < Bits::MIN_SIGNED) return false;
  out_[0].common = MIXED;
  for (int l = 0; l < LANES; ++l) {
    int best = 0;
    for (int i = 1; i < rule.sources; ++i) {
      const uint32_t a = s[best].bits.lo[l], b = s[i].bits.lo[l];
      const bool less = rule.bits == Bits::MIN_SIGNED || rule.bits == Bits::MAX_SIGNED ? int32_t(b) < int32_t(a) : b < a;
      const bool smallest = rule.bits == Bits::MIN_SIGNED || rule.bits == Bits::MIN_UNSIGNED;
      if (smallest ? less : !less && a != b) best = i;
    }
    if (rule.bits == Bits::MEDIAN_SIGNED) {
      const int32_t a = int32_t(s[0].bits.lo[l]), b = int32_t(s[1].bits.lo[l]), c = int32_t(s[2].bits.lo[l]);
      best = (a >= b) == (a <= c) ? 0 : (b >= a) == (b <= c) ? 1 : 2;
    }
    out_[0].put(l, s[best].low->cell(l));
  }
  out_[0].settle();
  rows_ = 1;
  return true;
}

// Packed integers of 16 bits: the halves one by one, as they stand in the sources.
void Algebra::halves(Wave& w, const Op& op, const Rule& rule) {
  static thread_local Operand s[3];
  static thread_local Shadow low, own;
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < rule.sources; ++i) {
      const int high = (half ? op.opsel_hi : op.opsel) >> i & 1;
      fetch_code(w, op, op.src[i], Kind::P16, s[i].bits);
      for (int l = 0; l < LANES; ++l) s[i].bits.low[l] = s[i].bits.lo[l] >> 16 * high & 0xffff;
      s[i].bits.lo = s[i].bits.low;
      s[i].uniform = op.src[i] < 256, s[i].neg = s[i].abs = false;
      take(shadow_of(w, op.src[i], own), 2 * high, 2, 0, s[i].own);
      s[i].low = &s[i].own;
    }
    follow(w, op, rule, s, 1);
    if (!half) low.copy(out_[0]);
  }
  Shadow& out = out_[0];
  out.spread(), low.spread();
  for (int l = 0; l < LANES; ++l) {
    out.tag[l] = out.tag[l] << 16 | (low.tag[l] & 0xffff);
    for (int b = 0; b < 2; ++b) {
      out.p[b + 2][l] = out.p[b][l], out.q[b + 2][l] = out.q[b][l];
      out.p[b][l] = low.p[b][l], out.q[b][l] = low.q[b][l];
    }
  }
  out.settle();
  signs_ = {}, rows_ = 1;
}

// A number that is near another is plain bits to integers.
void Algebra::without_near(Operand& a) const {
  if (a.low->common != TAG_NEAR && a.low->common != MIXED) return;
  static thread_local Shadow made;
  made.common = MIXED;
  for (int l = 0; l < LANES; ++l) {
    Cell c = a.low->cell(l);
    if (c.tag == TAG_NEAR) c.tag = PLAIN;
    made.put(l, c);
  }
  made.settle();
  a.own.copy(made);
  a.low = &a.own;
}

}  // namespace ring
