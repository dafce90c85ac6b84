// See algebra.h. Shadows of registers, moves of whole dwords, and what comes after an instruction.
#include "algebra.h"

namespace ring {

int width_of(Format f) {
  switch (f) {
    case Format::F64: return 64;
    case Format::F32: return 32;
    case Format::F16: case Format::BF16: return 16;
    case Format::FP6: case Format::BF6: return 6;
    case Format::FP4: return 4;
    case Format::I32: return 32;
    default: return 8;
  }
}

double value_of(Format f, uint64_t b) {
  const uint32_t x = uint32_t(b);
  switch (f) {
    case Format::F64: return bits<double>(b);
    case Format::F32: return bits<float>(x);
    case Format::F16: return half_to_float(x & 0xffff);
    case Format::BF16: return bfloat_to_float(x & 0xffff);
    case Format::FP8: return small_to_float<4, 3, false>(x);
    case Format::BF8: return small_to_float<5, 2, false>(x);
    case Format::FP8_FNUZ: return small_to_float<4, 3, true>(x);
    case Format::BF8_FNUZ: return small_to_float<5, 2, true>(x);
    case Format::FP6: return tiny_to_float<2, 3>(x & 63);
    case Format::BF6: return tiny_to_float<3, 2>(x & 63);
    case Format::FP4: return tiny_to_float<2, 1>(x & 15);
    case Format::I8: return int8_t(x);
    case Format::I32: return int32_t(x);
    case Format::E8M0: return (x & 255) == 255 ? NAN : std::ldexp(1.0, int(x & 255) - 127);
  }
  return 0;
}

Number image_of(Format f, uint64_t b) { return f == Format::F64 || f == Format::I32 ? image(value_of(f, b)) : image(float(value_of(f, b))); }

void Shadow::settle() {
  if (common != MIXED) return;
  uint32_t differ = 0;
  for (int l = 1; l < LANES; ++l) differ |= tag[l] ^ tag[0];
  if (!differ) common = tag[0];
}

Algebra::Algebra(Engine& engine) : rules(engine.launch.op_count), engine_(engine) {
  for (uint64_t i = 0; i < engine.launch.region_count; ++i) {
    const TkRegion& r = engine.launch.regions[i];
    packed_.push_back({Format(r.format), r.payload, r.elements});
  }
  for (const Format f : {Format::FP4, Format::FP6, Format::BF6}) packed_.push_back({f, nullptr, 0});
}

void Algebra::begin_block(size_t waves) {
  while (registers_.size() < waves) registers_.push_back(std::make_unique<Registers>());
  for (auto& kept : kept_) kept.clear();
  wholes_.assign(1, Whole());  // where lanes read zero
  composed_.clear();
  parts_.clear();
  whole_in_use_ = false;
  lds_.assign((engine_.launch.lds_bytes + 3) / 4, Cell());
}

void Algebra::begin_wave(Wave& w) {
  Registers& r = of(w);
  for (Shadow& row : r.rows) row.common = PLAIN;
  for (Cell& c : r.s) c.tag = PLAIN;
  r.scalars = false;
  r.scratch.assign((w.scratch.size() + 3) / 4, Cell());
}

uint32_t Algebra::loss(uint32_t pc, const char* reason) {
  const std::pair<uint32_t, const char*> key = {pc, reason};
  if (latest_.first == key) return latest_.second;
  const auto [it, fresh] = known_.try_emplace(key, uint32_t(losses.size()));
  if (fresh) losses.push_back({pc, reason, 0});
  latest_ = *it;
  return it->second;
}

bool Algebra::all_plain(const Wave& w, const Use& use) {
  const Registers& r = of(w);
  for (int i = 0; i < use.count; ++i) {
    const Use::Span& s = use.spans[i];
    if (s.flags & Use::WRITES) continue;
    for (unsigned k = s.first; k < unsigned(s.first) + s.count; ++k)
      if (k < ROWS ? r.rows[k].common != PLAIN : r.scalars && r.s[k - ROWS].tag != PLAIN) return false;
  }
  return true;
}

namespace {

void broadcast(const Cell& c, Shadow& out) {
  out.common = c.tag;
  const unsigned slots = slots_of(c.tag);
  for (int b = 0; b < 4; ++b)
    if (slots >> b & 1)
      for (int l = 0; l < LANES; ++l) out.p[b][l] = c.p[b], out.q[b][l] = c.q[b];
}

// Rows under a DPP control. A lane without a source reads zero, where it is written at all: the number 0 of any format.
void move_lanes(Wave& w, const Op& op, const Shadow& from, Shadow& out) {
  const uint32_t control = op.control >> 8 & 0x1ff;
  const uint64_t exec = w.exec();
  out.common = from.common;
  const unsigned slots = from.common == MIXED ? 15 : slots_of(from.common);
  for (int l = 0; l < LANES; ++l) {
    const int source = dpp_source(control, l);
    const bool good = source >= 0 && (exec >> source & 1);
    if (from.common == MIXED) out.tag[l] = good ? from.tag[source] : uint32_t(PLAIN);
    for (int b = 0; b < 4; ++b)
      if (slots >> b & 1) out.p[b][l] = good ? from.p[b][source] : 0, out.q[b][l] = good ? from.q[b][source] : 0;
  }
}

}  // namespace

const Shadow& Algebra::shadow_of(Wave& w, uint16_t code, Shadow& own) {
  Registers& r = of(w);
  if (code >= 256) return r.rows[code - 256];
  own.common = PLAIN;
  if (code < 128 && r.scalars) broadcast(r.s[code], own);
  return own;
}

// `count` bytes of each dword from `first` on, in the lowest place; nothing above.
void take(const Shadow& from, int first, int count, uint32_t junk, Shadow& out) {
  const uint32_t keep = count == 4 ? ~0u : (1u << 8 * count) - 1;
  const auto cut = [&](uint32_t tag) {
    uint32_t t = tag >> 8 * first & keep;
    if (count == 1 && t && t != F8 && t != PACKED && t != WHOLE) t = JUNK;  // a byte of a number that has more
    return t;
  };
  Shadow made;
  made.common = from.common == MIXED ? MIXED : cut(from.common);
  if (made.common == MIXED)
    for (int l = 0; l < LANES; ++l) made.tag[l] = cut(from.tag[l]);
  for (int b = 0; b < count; ++b)
    for (int l = 0; l < LANES; ++l) {
      made.p[b][l] = from.p[b + first][l], made.q[b][l] = from.q[b + first][l];
      if ((made.of(l) >> 8 * b & 255) == JUNK && (from.of(l) >> 8 * (b + first) & 255) != JUNK) made.q[b][l] = junk;
    }
  out.copy(made);
}

void Algebra::operand(Wave& w, const Op& op, int i, Kind kind, Operand& out) {
  const uint16_t code = op.src[i];
  const bool wide = kind == Kind::B64 || kind == Kind::I64 || kind == Kind::F64;
  const bool half = kind == Kind::B16 || kind == Kind::F16 || kind == Kind::F16_KEEP || kind == Kind::B16_KEEP;
  fetch(w, op, i, kind, out.bits);
  out.uniform = code < 256;
  out.neg = op.neg >> i & 1;
  out.abs = op.abs >> i & 1;
  if (out.abs) {
    Op plain = op;
    plain.neg = plain.abs = 0;
    fetch(w, plain, i, kind, out.raw);
  }
  out.low = &shadow_of(w, code, out.own);
  if (wide) out.high = code >= 256 ? &of(w).rows[code - 255] : code < 127 ? &shadow_of(w, uint16_t(code + 1), out.own_high) : out.low;
  const auto changed = [&](auto&& change) {
    if (out.low->common != PLAIN) change(*out.low, out.own), out.low = &out.own;
    if (wide && out.high->common != PLAIN) change(*out.high, out.own_high), out.high = &out.own_high;
  };
  if (op.flags & F_DPP && i == 0) changed([&](const Shadow& from, Shadow& to) { move_lanes(w, op, from, to); });
  const auto cut = [&](int first, int count) {
    changed([&](const Shadow& from, Shadow& to) { take(from, first, count, loss(w, "a byte of a number"), to); });
  };
  if (op.flags & F_SDWA && i < 2) {
    const uint32_t select = op.control >> (16 + 8 * i) & 7;
    if (select != 6) cut(int(select < 4 ? select : 2 * (select - 4)), select < 4 ? 1 : 2);
  } else if (half && op.encoding == ENC_VOP3 && op.opsel >> i & 1) {
    cut(2, 2);
  }
}

// The numbers of format `f` whose last byte is `last`: payloads, or what plain bits are.
void Algebra::numbers(Wave& w, const Shadow& s, const uint32_t* lo, const uint32_t* hi, Format f, int last, bool uniform, Numbers& out) {
  const int width = width_of(f), bytes = width >= 32 ? 4 : width / 8, first = last + 1 - bytes;
  const uint32_t mine = bytes == 4 ? ~0u : ((1u << 8 * bytes) - 1) << 8 * first;
  uint32_t wanted = F8;
  if (f == Format::F32 || f == Format::BF16) wanted = F32 + 3;
  else if (f == Format::F16) wanted = F16 + 1;
  else if (f == Format::F64) wanted = F64 + 7;
  const auto plain = [&](int l) {
    const uint64_t b = f == Format::F64 ? U64::get(lo[l], hi[l]) : lo[l] >> 8 * first;
    Number n = image_of(f, width < 32 ? b & ((1u << width) - 1) : b);
    if (n.lost()) n.q = loss(w, "it is not a number");
    return n;
  };
  out.p = s.p[last], out.q = s.q[last];
  if (s.common != MIXED && (s.common >> 8 * last & 255) == wanted) return;
  out.p = out.own_p, out.q = out.own_q;
  const auto put = [&](int l, Number n) { out.own_p[l] = n.p, out.own_q[l] = n.q; };
  if (s.common == TAG_NEAR || (s.common != MIXED && !(s.common & mine))) {
    if (uniform) {
      const Number n = plain(0);
      for (int l = 0; l < LANES; ++l) put(l, n);
    } else if (f == Format::F32) {
      for (int l = 0; l < LANES; ++l) put(l, image(bits<float>(lo[l])));
      for (int l = 0; l < LANES; ++l)
        if (out.own_p[l] == LOST) out.own_q[l] = loss(w, "it is not a number");
    } else {
      for (int l = 0; l < LANES; ++l) put(l, plain(l));
    }
    return;
  }
  for (int l = 0; l < LANES; ++l) {
    const uint32_t t = s.of(l), end = t >> 8 * last & 255;
    if (end == wanted) put(l, {s.p[last][l], s.q[last][l]});
    else if (!(t & mine) || t == TAG_NEAR) put(l, plain(l));
    else if (width < 64 && whole_within(t & mine)) put(l, spelled(f, s.cell(l), unsigned(first), lo[l], w.pc));
    else if (end == JUNK) put(l, {LOST, s.q[last][l]});
    else put(l, {LOST, loss(w, "bits of one format are read as another's")});
  }
}

void Algebra::numbers(Wave& w, const Operand& a, Format f, int last, Numbers& out) {
  const bool wide = f == Format::F64;
  // Plain bits have had their signs changed already, payloads have not.
  const Shadow& s = wide ? *a.high : *a.low;
  numbers(w, s, a.bits.lo, a.bits.hi, f, last, a.uniform, out);
  if ((!a.neg && !a.abs) || s.common == PLAIN) return;
  for (int l = 0; l < LANES; ++l) {
    uint32_t p = out.p[l], q = out.q[l];
    const uint32_t t = s.of(l) >> 8 * last & 255;
    const bool is_plain = t == PLAIN || t == NEAR + 3;
    const int sign = 8 * last + 7;
    const uint32_t raw = a.abs ? (wide ? a.raw.hi[l] : a.raw.lo[l]) : 0;
    const bool flip = a.neg != (a.abs && (raw >> sign & 1));
    if (flip && !is_plain && !(p & SPECIAL)) p = neg<P>(p), q = q == ABSENT ? q : neg<Q>(q);
    else if (flip && !is_plain && p == INFINITE) q ^= 1;
    out.own_p[l] = p, out.own_q[l] = q;
  }
  out.p = out.own_p, out.q = out.own_q;
}

void Algebra::commit(Wave& w, uint16_t code, const Shadow& from, uint64_t lanes) {
  Shadow& to = of(w).rows[code - 256];
  if (lanes == ~0ull) to.copy(from);
  else blend(to, from, lanes);
}

void Algebra::becomes_plain(Wave& w, const Use& use, uint64_t lanes) {
  Registers& r = of(w);
  for (int i = 0; i < use.count; ++i) {
    const Use::Span& s = use.spans[i];
    if (!(s.flags & Use::WRITES)) continue;
    for (unsigned k = s.first; k < unsigned(s.first) + s.count; ++k) {
      if (k >= ROWS) {
        r.s[k - ROWS].tag = PLAIN;
        continue;
      }
      Shadow& row = r.rows[k];
      if (row.common == PLAIN) continue;
      if (lanes == ~0ull) {
        row.common = PLAIN;
        continue;
      }
      row.spread();
      for (int l = 0; l < LANES; ++l) row.tag[l] = lanes >> l & 1 ? uint32_t(PLAIN) : row.tag[l];
      row.settle();
    }
  }
}

// --- Moves of whole dwords ------------------------------------------------------------------------------------------

void Algebra::swap(Wave& w, const Op& op, int width) {
  Shadow &a = of(w).rows[op.dst - 256], &b = of(w).rows[op.src[0] - 256];
  if (a.common == PLAIN && b.common == PLAIN) return;
  if (!width && w.lanes == ~0ull) return std::swap(a, b);
  Shadow x, y;
  x.copy(a), y.copy(b);
  x.spread(), y.spread();
  a.spread(), b.spread();
  if (width) {
    for (int base = 0; base < LANES; base += 2 * width)
      for (int l = base; l < base + width; ++l) b.put(l, x.cell(l + width)), a.put(l + width, y.cell(l));
  } else {
    for (int l = 0; l < LANES; ++l)
      if (w.lanes >> l & 1) a.put(l, y.cell(l)), b.put(l, x.cell(l));
  }
  a.settle(), b.settle();
}

void Algebra::moves(Wave& w, const Op& op, const Use& use, const Rule& rule) {
  Registers& r = of(w);
  rows_ = 1;
  switch (rule.act) {
    case Act::MOVE: {
      static thread_local Operand a;
      operand(w, op, 0, rule.packed ? Kind::B64 : Kind::B32, a);
      out_[0].copy(*a.low);
      if (rule.packed) out_[1].copy(*a.high), rows_ = 2;
      if (op.flags & F_SDWA) insert(w, op);
      return;
    }
    case Act::MOVE_PAIR: {
      Shadow own;
      for (int i = 0; i < 2; ++i) {
        const uint16_t code = op.src[i];
        out_[i].copy(shadow_of(w, uint16_t(code + (code >= 256 || code < 127 ? op.opsel >> i & 1 : 0)), own));
      }
      rows_ = 2;
      return;
    }
    case Act::SELECT: {
      static thread_local Operand a, b;
      operand(w, op, 0, Kind::B32, a);
      operand(w, op, 1, Kind::B32, b);
      const uint64_t mask = op.encoding == ENC_VOP3 ? scalar64(w, op, op.src[2], Kind::B64) : w.get64(VCC);
      const auto change = [&](const Operand& x, Shadow& to) {
        to.copy(*x.low);
        if ((x.neg || x.abs) && to.common != PLAIN) negate(x, to);
      };
      change(a, out_[0]);
      if (mask & w.exec()) {
        static thread_local Shadow chosen;
        change(b, chosen);
        blend(out_[0], chosen, mask);
      }
      if (op.flags & F_SDWA) insert(w, op);
      return;
    }
    case Act::SWAP: case Act::SWAP16: case Act::SWAP32:
      rows_ = 0;
      return swap(w, op, rule.act == Act::SWAP ? 0 : rule.act == Act::SWAP16 ? 16 : 32);
    case Act::READ_LANE: case Act::READ_FIRST: {
      const uint64_t exec = w.exec();
      const int l = rule.act == Act::READ_LANE ? int(scalar32(w, op, op.src[1], Kind::B32) & 63) : exec ? __builtin_ctzll(exec) : 0;
      r.s[op.dst] = op.src[0] >= 256 ? r.rows[op.src[0] - 256].cell(l) : op.src[0] < 128 ? r.s[op.src[0]] : Cell();
      if (whole_in_use_) bare_cell(r.s[op.dst]);
      r.scalars |= r.s[op.dst].tag != PLAIN;
      rows_ = 0;
      return;
    }
    case Act::WRITE_LANE: {
      const Cell c = op.src[0] < 128 ? r.s[op.src[0]] : Cell();
      Shadow& row = r.rows[op.dst - 256];
      rows_ = 0;
      if (c.tag == PLAIN && row.common == PLAIN) return;
      row.spread();
      row.put(int(scalar32(w, op, op.src[1], Kind::B32) & 63), c);
      row.settle();
      return;
    }
    default: becomes_plain(w, use, w.lanes);
  }
}

// Of v_cndmask with sign modifiers: numbers of f32.
void Algebra::negate(const Operand& a, Shadow& s) {
  for (int l = 0; l < LANES; ++l) {
    if (s.of(l) == TAG_NEAR) s.spread(), s.tag[l] = PLAIN;
    if ((s.of(l) >> 24) != F32 + 3 || s.p[3][l] & SPECIAL) continue;
    if (a.neg == (a.abs && (a.raw.lo[l] >> 31))) continue;
    s.p[3][l] = neg<P>(s.p[3][l]);
    if (s.q[3][l] != ABSENT) s.q[3][l] = neg<Q>(s.q[3][l]);
  }
}

// `lanes` of `to` become those of `from`.
void Algebra::blend(Shadow& to, const Shadow& from, uint64_t lanes) {
  if (from.common == PLAIN && to.common == PLAIN) return;
  const bool same = from.common == to.common && from.common != MIXED;
  const unsigned slots = same ? slots_of(from.common) : 15;
  if (!same) {
    to.spread();
    for (int l = 0; l < LANES; ++l) to.tag[l] = lanes >> l & 1 ? from.of(l) : to.tag[l];
  }
  if (from.common != PLAIN)
    for (int b = 0; b < 4; ++b)
      if (slots >> b & 1)
        for (int l = 0; l < LANES; ++l)
          to.p[b][l] = lanes >> l & 1 ? from.p[b][l] : to.p[b][l], to.q[b][l] = lanes >> l & 1 ? from.q[b][l] : to.q[b][l];
  if (!same) to.settle();
}

// The part of the destination that SDWA names takes the lowest bytes of the result.
void Algebra::insert(Wave& w, const Op& op) {
  const uint32_t select = op.control >> 8 & 7, unused = op.control >> 11 & 3;
  if (select == 6) return;
  const int first = int(select < 4 ? select : 2 * (select - 4)), count = select < 4 ? 1 : 2;
  static thread_local Shadow made;
  made.copy(out_[0]);
  if (unused == 2) out_[0].copy(of(w).rows[op.dst - 256]);
  else out_[0].common = PLAIN;
  for (int i = 0; i < made_; ++i) results_[i].last = uint8_t(results_[i].last + first);
  std::array<uint64_t, 4> signs{};
  for (int b = count - 1; b >= 0; --b) {
    signs[size_t(first + b)] = signs_[size_t(b)];
    if (first && signs_[size_t(b)]) std::memcpy(signed_[first + b], signed_[b], sizeof signed_[b]);
  }
  signs_ = signs;
  out_[0].spread(), made.spread();
  const uint32_t junk = loss(w, "a byte of a number");
  for (int l = 0; l < LANES; ++l)
    for (int b = 0; b < count; ++b) {
      uint32_t t = made.tag[l] >> 8 * b & 255;
      const bool torn = count == 1 && t && t != F8 && t != PACKED && t != WHOLE && t != JUNK;
      if (torn) t = JUNK;
      const int to = first + b;
      out_[0].tag[l] = (out_[0].tag[l] & ~(255u << 8 * to)) | t << 8 * to;
      out_[0].p[to][l] = made.p[b][l], out_[0].q[to][l] = torn ? junk : made.q[b][l];
    }
  out_[0].settle();
}

// --- Every instruction -------------------------------------------------------------------------------------------------

void Algebra::before(Wave& w, const Op& op, const Use& use) {
  const Rule& rule = rules[w.pc];
  clamped_ = 0;
  rows_ = made_ = 0;
  signs_ = {};
  pending_ = false;
  if (rule.act == Act::MEMORY || rule.act == Act::NOTHING) return;
  if (rule.act == Act::DECIDES) return;
  if (rule.act == Act::ROUND || rule.act == Act::TO_INTEGER) return rounds(w, op, rule);
  if (rule.act == Act::LDEXP && all_plain(w, use)) return;  // a power of two: its bits are a scale's code
  if (rule.act >= Act::ADD) {
    pending_ = true;
    return rule.act == Act::MATRIX ? matrix(w, op, rule) : floats(w, op, use, rule);
  }
  if (all_plain(w, use)) {
    if (rule.act >= Act::SWAP && rule.act <= Act::WRITE_LANE) moves(w, op, use, rule);
    return;
  }
  pending_ = true;
  if (rule.act == Act::INTEGER) integers(w, op, use, rule);
  else if (rule.act == Act::SCALAR) scalars(w, op, use, rule);
  else moves(w, op, use, rule);
}

void Algebra::after(Wave& w, const Op& op, const Use& use) {
  const Rule& rule = rules[w.pc];
  if (rule.act == Act::MEMORY || rule.act == Act::NOTHING) return;
  if (rule.act >= Act::SWAP && rule.act <= Act::WRITE_LANE) return;
  if (!pending_) return becomes_plain(w, use, rule.act == Act::SCALAR ? ~0ull : w.lanes);
  if (rule.act == Act::SCALAR) return;
  if (op.flags & F_SDST) of(w).s[op.sdst].tag = of(w).s[op.sdst + 1].tag = PLAIN;
  if (rule.act == Act::MATRIX) return finish_matrix(w, op, rule);
  if (!rows_) return becomes_plain(w, use, w.lanes);
  if (op.dst < 256) return becomes_plain(w, use, w.lanes);
  finish(w, op);
  for (int i = 0; i < rows_; ++i) commit(w, uint16_t(op.dst + i), out_[i], w.lanes);
}

// Numbers whose payload the real result decides: of an infinite operand, and those that vanish.
void Algebra::finish(Wave& w, const Op& op) {
  for (int i = 0; i < made_; ++i) {
    const Result& r = results_[i];
    if (!r.special && !r.vanishes && !clamped_) continue;
    Shadow& s = out_[r.row];
    const uint32_t *lo = w.v[op.dst - 256 + r.row], *low = r.row ? lo - LANES : lo;
    for (int l = 0; l < LANES; ++l) {
      const int width = width_of(r.format), shift = width < 32 ? 8 * (r.last + 1) - width : 0;
      const uint64_t raw = width == 64 ? U64::get(low[l], lo[l]) : lo[l] >> shift & (width < 32 ? (1u << width) - 1 : ~0u);
      const bool zero = r.vanishes && value_of(r.format, raw) == 0 && s.p[r.last][l] != LOST;
      const bool limit = clamped_ && (value_of(r.format, raw) == 0 || value_of(r.format, raw) == 1);
      if (!zero && !limit && !(r.special >> l & 1)) continue;
      Number n = image_of(r.format, raw);
      if (n.lost()) n.q = loss(w, "it is not a number");
      s.p[r.last][l] = n.p, s.q[r.last][l] = n.q;
    }
  }
  const uint32_t* result = w.v[op.dst - 256];
  for (int b = 0; b < 4; ++b)
    each_lane(signs_[size_t(b)], [&](int l) {
      const uint32_t t = out_[0].of(l) >> 8 * b & 255;
      if (!bears(t) || t == WHOLE || out_[0].p[b][l] & SPECIAL) return;
      if ((result[l] >> (8 * b + 7) & 1) == (signed_[b][l] & 1)) return;
      out_[0].p[b][l] = neg<P>(out_[0].p[b][l]);
      if (out_[0].q[b][l] != ABSENT) out_[0].q[b][l] = neg<Q>(out_[0].q[b][l]);
    });
}

}  // namespace ring
