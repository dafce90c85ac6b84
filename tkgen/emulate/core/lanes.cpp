// Operand access: constants, scalar broadcast, DPP, SDWA, modifiers, and masked results.
#include "lanes.h"

// The lane that lane l reads under a DPP control, or -1 (CDNA3 ISA, "DPP: data parallel primitives").
int dpp_source(uint32_t control, int l) {
  const int row = l & ~15, in = l & 15, n = control & 15;
  if (control < 0x100) return (l & ~3) | (control >> 2 * (l & 3) & 3);
  switch (control >> 4) {
    case 0x10: return in + n < 16 ? l + n : -1;
    case 0x11: return in - n >= 0 ? l - n : -1;
    case 0x12: return row | ((in - n) & 15);
    case 0x13:
      switch (n) {
        case 0x0: return l + 1 < LANES ? l + 1 : -1;
        case 0x4: return (l + 1) % LANES;
        case 0x8: return l - 1;
        case 0xc: return (l + LANES - 1) % LANES;
      }
      return -1;
    case 0x14:
      switch (n) {
        case 0: return row | (15 - in);
        case 1: return (l & ~7) | (7 - (l & 7));
        case 2: return row - 1;
        case 3: return l >= 32 ? 31 : -1;
      }
      return -1;
    case 0x15: return row | n;
  }
  return -1;
}

namespace {

bool wide(Kind k) { return k == Kind::B64 || k == Kind::I64 || k == Kind::F64; }
bool half(Kind k) { return k == Kind::B16 || k == Kind::F16 || k == Kind::F16_KEEP || k == Kind::B16_KEEP; }
bool half_float(Kind k) { return k == Kind::F16 || k == Kind::F16_KEEP; }

constexpr double CONSTANTS[] = {0.5, -0.5, 1, -1, 2, -2, 4, -4};

uint32_t float_constant32(int i, Kind kind) {
  if (half_float(kind) || kind == Kind::PF16) return i == 8 ? 0x3118 : float_to_half(float(CONSTANTS[i]));
  return i == 8 ? 0x3e22f983 : bits<uint32_t>(float(CONSTANTS[i]));
}

// Applies the DPP word: permutes the rows into `out`, takes lanes without a source out of w.lanes.
void apply_dpp(Wave& w, const Op& op, Lanes& out, bool both) {
  const uint32_t control = op.control >> 8 & 0x1ff, row_mask = op.control >> 28, bank_mask = op.control >> 24 & 15;
  const bool zero = op.control >> 19 & 1;
  const uint64_t exec = w.exec();
  const uint32_t *lo = out.lo, *hi = out.hi;
  uint64_t lanes = w.lanes;
  for (int l = 0; l < LANES; ++l) {
    const int from = dpp_source(control, l);
    const bool good = from >= 0 && (exec >> from & 1);
    out.low[l] = good ? lo[from] : 0;
    if (both) out.high[l] = good ? hi[from] : 0;
    if ((!good && !zero) || !(row_mask >> (l >> 4) & 1) || !(bank_mask >> (l >> 2 & 3) & 1)) lanes &= ~(1ull << l);
  }
  w.lanes = lanes;
  out.lo = out.low;
  out.hi = both ? out.high : nullptr;
}

void apply_sdwa(const Op& op, int i, Lanes& out) {
  const uint32_t field = op.control >> (16 + 8 * i), select = field & 7;
  const bool sign = field >> 3 & 1;
  if (select == 6) return;
  const int shift = select < 4 ? 8 * select : 16 * (select - 4), width = select < 4 ? 8 : 16;
  for (int l = 0; l < LANES; ++l) {
    uint32_t x = out.lo[l] >> shift & ((1u << width) - 1);
    if (sign && x >> (width - 1)) x |= ~0u << width;
    out.low[l] = x;
  }
  out.lo = out.low;
}

void own(Lanes& out, bool both) {
  if (out.lo != out.low) std::memcpy(out.low, out.lo, sizeof out.low);
  if (both && out.hi != out.high) std::memcpy(out.high, out.hi, sizeof out.high);
  out.lo = out.low;
  if (both) out.hi = out.high;
}

void apply_modifiers(const Op& op, int i, Kind kind, Lanes& out) {
  const bool neg = op.neg >> i & 1, abs = op.abs >> i & 1;
  if (!neg && !abs) return;
  own(out, wide(kind));
  uint32_t* sign_word = wide(kind) ? out.high : out.low;
  const uint32_t sign = half(kind) ? 0x8000 : 0x80000000;
  for (int l = 0; l < LANES; ++l) {
    if (abs) sign_word[l] &= ~sign;
    if (neg) sign_word[l] ^= sign;
  }
}

void flush_subnormals(Kind kind, uint32_t* lo, uint32_t* hi) {
  for (int l = 0; l < LANES; ++l) {
    if (kind == Kind::F32 && !(lo[l] & 0x7f800000)) lo[l] &= 0x80000000;
    if (half_float(kind) && !(lo[l] & 0x7c00)) lo[l] &= 0x8000;
    if (kind == Kind::F64 && !(hi[l] & 0x7ff00000)) { lo[l] = 0; hi[l] &= 0x80000000; }
  }
}

// MODE bits 4..7: 1 allows subnormal inputs, 2 subnormal outputs; first f32, then f64 and f16.
bool flushes(const Wave& w, Kind kind, int bit) {
  if (kind == Kind::F32) return !(w.mode >> (4 + bit) & 1);
  return (half_float(kind) || kind == Kind::F64) && !(w.mode >> (6 + bit) & 1);
}

// "Output modifiers are not compatible with output denormals: if output denormals are enabled, then output modifiers are
// ignored. [...] -0 is flushed to +0. Output modifiers are ignored if the IEEE mode bit is set to 1." (CDNA3 ISA, "Output
// modifiers").
template <class F>
F scale_and_clamp(const Wave& w, F x, unsigned omod, bool clamp) {
  constexpr F scale[] = {1, 2, 4, F(0.5)};
  if (omod) x = x * scale[omod] + F(0);
  return clamp ? clamped(w, x) : x;
}

void finish_float(const Wave& w, const Op& op, Kind kind, uint32_t* lo, uint32_t* hi) {
  const unsigned omod = flushes(w, kind, 1) && !ieee(w) ? op.omod : 0;
  if (omod) flush_subnormals(kind, lo, hi);  // to zeros, which lose their sign
  for (int l = 0; l < LANES; ++l) {
    if (kind == Kind::F32) lo[l] = bits<uint32_t>(scale_and_clamp(w, bits<float>(lo[l]), omod, op.clamp));
    else if (half_float(kind)) lo[l] = float_to_half(scale_and_clamp(w, half_to_float(lo[l]), omod, op.clamp));
    else F64::put(scale_and_clamp(w, F64::get(lo[l], hi[l]), omod, op.clamp), lo[l], hi[l]);
  }
}

void merge_sdwa(const Op& op, const uint32_t* old, uint32_t* lo) {
  const uint32_t select = op.control >> 8 & 7, unused = op.control >> 11 & 3;
  if (select == 6) return;
  const int shift = select < 4 ? 8 * select : 16 * (select - 4), width = select < 4 ? 8 : 16;
  const uint32_t mask = ((1u << width) - 1) << shift;
  for (int l = 0; l < LANES; ++l) {
    const uint32_t x = lo[l] << shift & mask;
    uint32_t rest = 0;
    if (unused == 2) rest = old[l] & ~mask;
    else if (unused == 1 && lo[l] >> (width - 1) & 1) rest = ~uint32_t((uint64_t(1) << (shift + width)) - 1);
    lo[l] = x | rest;
  }
}

}  // namespace

uint64_t aperture(Wave& w, uint16_t code) {
  const TkLaunch& launch = w.engine->launch;
  switch (code) {
    case 235: return launch.shared_base;
    case 236: return launch.shared_base | 0xffffffff;
    case 237: return launch.private_base;
    case 238: return launch.private_base | 0xffffffff;
  }
  return 0;
}

uint32_t scalar32(Wave& w, const Op& op, uint16_t code, Kind kind) {
  if (code < 128) return w.s[code];
  if (code <= 192) return code - 128;
  if (code <= 208) return uint32_t(192 - code);
  if (code >= 240 && code <= 248) return float_constant32(code - 240, kind);
  switch (code) {
    case 251: return w.get64(VCC) == 0;
    case 252: return w.exec() == 0;
    case 253: return w.scc;
    case 255: return op.literal;
  }
  return uint32_t(aperture(w, code));
}

uint64_t scalar64(Wave& w, const Op& op, uint16_t code, Kind kind) {
  if (code < 128) return w.get64(code);
  if (code <= 192) return code - 128;
  if (code <= 208) return uint64_t(int64_t(192 - code));
  if (code >= 240 && code <= 248) return code == 248 ? 0x3fc45f306dc9c882 : bits<uint64_t>(CONSTANTS[code - 240]);
  if (code == 255) {
    if (kind == Kind::F64) return uint64_t(op.literal) << 32;
    return kind == Kind::I64 ? uint64_t(int64_t(int32_t(op.literal))) : op.literal;
  }
  if (code >= 235 && code <= 238) return aperture(w, code);
  return scalar32(w, op, code, kind);
}

void fetch_code(Wave& w, const Op& op, uint16_t code, Kind kind, Lanes& out) {
  out.hi = nullptr;
  if (code >= 256) {
    out.lo = w.v[code - 256];
    if (wide(kind)) out.hi = w.v[code - 255];
    return;
  }
  const uint64_t x = wide(kind) ? scalar64(w, op, code, kind) : scalar32(w, op, code, kind);
  for (int l = 0; l < LANES; ++l) out.low[l] = uint32_t(x);
  out.lo = out.low;
  if (!wide(kind)) return;
  for (int l = 0; l < LANES; ++l) out.high[l] = uint32_t(x >> 32);
  out.hi = out.high;
}

void fetch(Wave& w, const Op& op, int i, Kind kind, Lanes& out) {
  fetch_code(w, op, op.src[i], kind, out);
  if (op.flags & F_DPP && i == 0) apply_dpp(w, op, out, wide(kind));
  if (op.flags & F_SDWA && i < 2) apply_sdwa(op, i, out);
  if (half(kind) && op.encoding == ENC_VOP3 && op.opsel >> i & 1 && op.src[i] < 1024) {
    own(out, false);
    for (int l = 0; l < LANES; ++l) out.low[l] >>= 16;
  }
  if (op.neg | op.abs) apply_modifiers(op, i, kind, out);
  flush_operand(w, kind, out);
}

void flush_operand(const Wave& w, Kind kind, Lanes& out) {
  if (!flushes(w, kind, 0)) return;
  own(out, wide(kind));
  flush_subnormals(kind, out.low, out.high);
}

void write_row(Wave& w, uint16_t code, const uint32_t* lanes, uint64_t mask) {
  uint32_t* to = w.v[code - 256];
  if (mask == ~0ull) {
    std::memcpy(to, lanes, sizeof w.v[0]);
    return;
  }
  for (int l = 0; l < LANES; ++l) to[l] = mask >> l & 1 ? lanes[l] : to[l];
}

void store(Wave& w, const Op& op, Kind kind, uint32_t* lo, uint32_t* hi) {
  const bool is_float = kind == Kind::F32 || kind == Kind::F64 || half_float(kind);
  if (is_float && (op.omod | op.clamp)) finish_float(w, op, kind, lo, hi);
  if (flushes(w, kind, 1)) flush_subnormals(kind, lo, hi);
  const uint32_t* old = w.v[op.dst - 256];
  if (op.flags & F_SDWA) {
    merge_sdwa(op, old, lo);
  } else if (half(kind)) {
    if (op.encoding == ENC_VOP3 && op.opsel & 8)
      for (int l = 0; l < LANES; ++l) lo[l] = lo[l] << 16 | (old[l] & 0xffff);
    else if (kind == Kind::F16_KEEP || kind == Kind::B16_KEEP)
      for (int l = 0; l < LANES; ++l) lo[l] = (lo[l] & 0xffff) | (old[l] & 0xffff0000);
  }
  write_row(w, op.dst, lo, w.lanes);
  if (hi) write_row(w, op.dst + 1, hi, w.lanes);
}

void store_scalar_mask(Wave& w, uint16_t code, uint64_t mask) { w.set64(code, mask); }
