// The scalar unit: SOP1, SOP2, SOPC, SOPK and the branches, waits and barriers of SOPP.
#include "lanes.h"

namespace {

uint32_t s32(Wave& w, const Op& op, int i) { return scalar32(w, op, op.src[i], Kind::B32); }
uint64_t s64(Wave& w, const Op& op, int i) { return scalar64(w, op, op.src[i], Kind::B64); }

template <class F>
void result32(Wave& w, const Op& op, F f) {  // SCC = result != 0
  const uint32_t r = f();
  w.s[op.dst] = r;
  w.scc = r != 0;
}
template <class F>
void result64(Wave& w, const Op& op, F f) {
  const uint64_t r = f();
  w.set64(op.dst, r);
  w.scc = r != 0;
}

template <class F>
void add_like(Wave& w, const Op& op, F f) {  // f gives the result and sets SCC
  const uint32_t a = s32(w, op, 0), b = s32(w, op, 1);
  w.s[op.dst] = f(a, b, w.scc);
}

bool overflow_add(uint32_t a, uint32_t b, uint32_t r) { return ~(a ^ b) & (a ^ r) & 0x80000000; }
bool overflow_sub(uint32_t a, uint32_t b, uint32_t r) { return (a ^ b) & (a ^ r) & 0x80000000; }

template <class F>
void save_exec(Wave& w, const Op& op, F f) {
  const uint64_t exec = w.exec(), r = f(s64(w, op, 0), exec);
  w.set64(op.dst, exec);
  w.set64(EXEC, r);
  w.scc = r != 0;
}
template <class F>
void write_exec(Wave& w, const Op& op, F f) {
  const uint64_t r = f(s64(w, op, 0), w.exec());
  w.set64(EXEC, r);
  w.set64(op.dst, r);
  w.scc = r != 0;
}

uint64_t reverse64(uint64_t x) {
  uint64_t r = 0;
  for (int i = 0; i < 64; ++i) r |= (x >> i & 1) << (63 - i);
  return r;
}
int find_sign(uint64_t x, int width) {
  const uint64_t sign = x >> (width - 1) & 1;
  for (int i = 1; i < width; ++i)
    if ((x >> (width - 1 - i) & 1) != sign) return i;
  return -1;
}
uint64_t quads(uint64_t x, bool whole) {
  uint64_t r = 0;
  for (int q = 0; q < 16; ++q)
    if (x >> 4 * q & 15) r |= whole ? uint64_t(15) << 4 * q : uint64_t(1) << q;
  return r;
}
uint64_t replicate(uint32_t x) {
  uint64_t r = 0;
  for (int i = 0; i < 32; ++i) r |= uint64_t(x >> i & 1 ? 3 : 0) << 2 * i;
  return r;
}

template <class I, class U>
I extract(U x, uint32_t control, int width) {
  const int offset = int(control & uint32_t(width - 1)), bits_wanted = int(control >> 16 & 127);
  if (!bits_wanted) return 0;
  U r = U(I(x) >> offset);
  if (bits_wanted >= width) return I(r);
  r &= (U(1) << bits_wanted) - 1;
  if (std::numeric_limits<I>::is_signed && r >> (bits_wanted - 1) & 1) r |= ~U(0) << bits_wanted;
  return I(r);
}

// Byte addresses of this emulator's program counter.
uint64_t address_of(const Wave& w, uint32_t index) { return w.engine->launch.text_base + 4ull * index; }
void jump(Wave& w, uint64_t address) {
  const uint64_t offset = address - w.engine->launch.text_base;
  w.next = offset % 4 == 0 && offset / 4 < w.engine->launch.op_count ? uint32_t(offset / 4) : NONE;
}
void branch(Wave& w, const Op& op, bool taken) {
  if (taken) jump(w, address_of(w, w.next) + int64_t(op.offset) * 4);
}

constexpr int HW_MODE = 1, HW_STATUS = 2, HW_ID = 4, HW_SH_MEM_BASES = 15, HW_XCC_ID = 20;
constexpr uint32_t GPR_IDX_EN = 1u << 27;
// Of MODE: rounding but to nearest even, debugging, exceptions, skipped vector instructions.
constexpr uint32_t NOT_EXECUTED = 0x101ff80f;

// A hardware register (CDNA3 ISA, "Kernel state"; the numbers are LLVM's, AMDGPU::Hwreg), and the bits of it that are known.
uint32_t hardware_register(const Wave& w, int id, uint32_t& known) {
  known = ~0u;
  const TkLaunch& l = w.engine->launch;
  switch (id) {
    case HW_MODE: return w.mode;
    case HW_STATUS: {
      known = 0x17e3f;  // neither traps, nor traces, nor graphics
      const uint32_t in_group = w.engine->waves.size() > 1, valid = 1;
      return w.scc | w.priority << 3 | (w.exec() == 0) << 9 | (w.get64(VCC) == 0) << 10 | in_group << 11 | valid << 16;
    }
    case HW_ID: return w.id / 4 | w.id % 4 << 4;  // slot and SIMD of a block that is alone on the first compute unit
    case HW_SH_MEM_BASES: return uint32_t(l.private_base >> 48 | l.shared_base >> 48 << 16);
    case HW_XCC_ID:
      if (l.target != GFX90A) return uint32_t(w.engine->block_linear % 8);  // blocks go round robin over the XCDs
  }
  known = 0;
  return 0;
}

uint32_t bits_of(const Op& op) {
  const int low = op.offset >> 6 & 31, size = (op.offset >> 11 & 31) + 1;
  return uint32_t((uint64_t(1) << size) - 1) << low;
}
void get_hardware_register(Wave& w, const Op& op) {
  uint32_t known;
  const uint32_t value = hardware_register(w, op.offset & 63, known), mask = bits_of(op);
  if (mask & ~known) return w.engine->fatal(UNSUPPORTED, w);
  w.s[op.dst] = (value & mask) >> (op.offset >> 6 & 31);
}
void set_hardware_register(Wave& w, const Op& op, uint32_t value) {
  if ((op.offset & 63) != HW_MODE) return w.engine->fatal(UNSUPPORTED, w);
  const uint32_t mask = bits_of(op), now = (w.mode & ~mask) | (value << (op.offset >> 6 & 31) & mask);
  if (now & NOT_EXECUTED) return w.engine->fatal(UNSUPPORTED, w);
  w.mode = now;
}

void end(Wave& w) {
  drain(w);
  w.state = Wave::ENDED;
}

void arrive(Wave& w) {
  w.state = Wave::BARRIER;
  if (const uint64_t absent = w.started & ~w.exec()) w.absent |= absent, w.barrier_pc = w.pc;
}

int32_t k16(const Op& op) { return op.offset; }
uint32_t destination(Wave& w, const Op& op) { return w.s[op.dst]; }

#define S1(NAME, D, A, BODY) {#NAME, [](Wave& w, const Op& op) { BODY; }, D, {A, 0, 0}, 0}
#define S2(NAME, D, A, B, BODY) {#NAME, [](Wave& w, const Op& op) { BODY; }, D, {A, B, 0}, 0}
#define LOGIC32(NAME, EXPR) S2(NAME, 1, 1, 1, const uint32_t a = s32(w, op, 0); const uint32_t b = s32(w, op, 1); result32(w, op, [&] { return EXPR; }))
#define LOGIC64(NAME, EXPR) S2(NAME, 2, 2, 2, const uint64_t a = s64(w, op, 0); const uint64_t b = s64(w, op, 1); result64(w, op, [&] { return EXPR; }))
#define CMP32(NAME, TYPE, OP) S2(NAME, 0, 1, 1, w.scc = TYPE(s32(w, op, 0)) OP TYPE(s32(w, op, 1)))
#define CMPK(NAME, TYPE, K, OP) {#NAME, [](Wave& w, const Op& op) { w.scc = TYPE(destination(w, op)) OP K; }, 1, {0, 0, 0}, READS_DST}
#define SAVE(NAME, EXPR) S1(NAME, 2, 2, save_exec(w, op, [](uint64_t a, uint64_t e) { return EXPR; }))
#define CONTROL(NAME, BODY) {#NAME, [](Wave& w, const Op& op) { (void)w; (void)op; BODY; }, 0, {0, 0, 0}, 0}

const Info TABLE[] = {
    // SOP1
    S1(s_mov_b32, 1, 1, w.s[op.dst] = s32(w, op, 0)),
    S1(s_mov_b64, 2, 2, w.set64(op.dst, s64(w, op, 0))),
    S1(s_cmov_b32, 1, 1, if (w.scc) w.s[op.dst] = s32(w, op, 0)),
    S1(s_cmov_b64, 2, 2, if (w.scc) w.set64(op.dst, s64(w, op, 0))),
    S1(s_not_b32, 1, 1, result32(w, op, [&] { return ~s32(w, op, 0); })),
    S1(s_not_b64, 2, 2, result64(w, op, [&] { return ~s64(w, op, 0); })),
    S1(s_wqm_b32, 1, 1, result32(w, op, [&] { return uint32_t(quads(s32(w, op, 0), true)); })),
    S1(s_wqm_b64, 2, 2, result64(w, op, [&] { return quads(s64(w, op, 0), true); })),
    S1(s_brev_b32, 1, 1, w.s[op.dst] = uint32_t(reverse64(s32(w, op, 0)) >> 32)),
    S1(s_brev_b64, 2, 2, w.set64(op.dst, reverse64(s64(w, op, 0)))),
    S1(s_bcnt0_i32_b32, 1, 1, result32(w, op, [&] { return uint32_t(__builtin_popcount(~s32(w, op, 0))); })),
    S1(s_bcnt0_i32_b64, 1, 2, result32(w, op, [&] { return uint32_t(__builtin_popcountll(~s64(w, op, 0))); })),
    S1(s_bcnt1_i32_b32, 1, 1, result32(w, op, [&] { return uint32_t(__builtin_popcount(s32(w, op, 0))); })),
    S1(s_bcnt1_i32_b64, 1, 2, result32(w, op, [&] { return uint32_t(__builtin_popcountll(s64(w, op, 0))); })),
    S1(s_ff0_i32_b32, 1, 1, const uint32_t a = ~s32(w, op, 0); w.s[op.dst] = uint32_t(a ? __builtin_ctz(a) : -1)),
    S1(s_ff0_i32_b64, 1, 2, const uint64_t a = ~s64(w, op, 0); w.s[op.dst] = uint32_t(a ? __builtin_ctzll(a) : -1)),
    S1(s_ff1_i32_b32, 1, 1, const uint32_t a = s32(w, op, 0); w.s[op.dst] = uint32_t(a ? __builtin_ctz(a) : -1)),
    S1(s_ff1_i32_b64, 1, 2, const uint64_t a = s64(w, op, 0); w.s[op.dst] = uint32_t(a ? __builtin_ctzll(a) : -1)),
    S1(s_flbit_i32_b32, 1, 1, const uint32_t a = s32(w, op, 0); w.s[op.dst] = uint32_t(a ? __builtin_clz(a) : -1)),
    S1(s_flbit_i32_b64, 1, 2, const uint64_t a = s64(w, op, 0); w.s[op.dst] = uint32_t(a ? __builtin_clzll(a) : -1)),
    S1(s_flbit_i32, 1, 1, w.s[op.dst] = uint32_t(find_sign(s32(w, op, 0), 32))),
    S1(s_flbit_i32_i64, 1, 2, w.s[op.dst] = uint32_t(find_sign(s64(w, op, 0), 64))),
    S1(s_sext_i32_i8, 1, 1, w.s[op.dst] = uint32_t(int32_t(int8_t(s32(w, op, 0))))),
    S1(s_sext_i32_i16, 1, 1, w.s[op.dst] = uint32_t(int32_t(int16_t(s32(w, op, 0))))),
    {"s_bitset0_b32", [](Wave& w, const Op& op) { w.s[op.dst] &= ~(1u << (s32(w, op, 0) & 31)); }, 1, {1, 0, 0}, READS_DST},
    {"s_bitset1_b32", [](Wave& w, const Op& op) { w.s[op.dst] |= 1u << (s32(w, op, 0) & 31); }, 1, {1, 0, 0}, READS_DST},
    {"s_bitset0_b64", [](Wave& w, const Op& op) { w.set64(op.dst, w.get64(op.dst) & ~(1ull << (s32(w, op, 0) & 63))); }, 2, {1, 0, 0}, READS_DST},
    {"s_bitset1_b64", [](Wave& w, const Op& op) { w.set64(op.dst, w.get64(op.dst) | 1ull << (s32(w, op, 0) & 63)); }, 2, {1, 0, 0}, READS_DST},
    S1(s_getpc_b64, 2, 0, w.set64(op.dst, address_of(w, w.next))),
    S1(s_setpc_b64, 0, 2, jump(w, s64(w, op, 0))),
    S1(s_swappc_b64, 2, 2, const uint64_t to = s64(w, op, 0); w.set64(op.dst, address_of(w, w.next)); jump(w, to)),
    SAVE(s_and_saveexec_b64, a & e),
    SAVE(s_or_saveexec_b64, a | e),
    SAVE(s_xor_saveexec_b64, a ^ e),
    SAVE(s_andn2_saveexec_b64, a & ~e),
    SAVE(s_orn2_saveexec_b64, a | ~e),
    SAVE(s_nand_saveexec_b64, ~(a & e)),
    SAVE(s_nor_saveexec_b64, ~(a | e)),
    SAVE(s_xnor_saveexec_b64, ~(a ^ e)),
    SAVE(s_andn1_saveexec_b64, ~a & e),
    SAVE(s_orn1_saveexec_b64, ~a | e),
    S1(s_andn1_wrexec_b64, 2, 2, write_exec(w, op, [](uint64_t a, uint64_t e) { return ~a & e; })),
    S1(s_andn2_wrexec_b64, 2, 2, write_exec(w, op, [](uint64_t a, uint64_t e) { return a & ~e; })),
    S1(s_quadmask_b32, 1, 1, result32(w, op, [&] { return uint32_t(quads(s32(w, op, 0), false)); })),
    S1(s_quadmask_b64, 2, 2, result64(w, op, [&] { return quads(s64(w, op, 0), false); })),
    S1(s_movrels_b32, 1, 1, const uint64_t i = uint64_t(op.src[0]) + w.s[M0]; if (i > 127) return w.engine->fatal(ILLEGAL_OPERAND, w); w.s[op.dst] = w.s[i]),
    S1(s_movrels_b64, 2, 2, const uint64_t i = uint64_t(op.src[0]) + w.s[M0]; if (i > 126) return w.engine->fatal(ILLEGAL_OPERAND, w); w.set64(op.dst, w.get64(int(i)))),
    S1(s_movreld_b32, 1, 1, const uint64_t i = uint64_t(op.dst) + w.s[M0]; if (i > 127) return w.engine->fatal(ILLEGAL_OPERAND, w); w.s[i] = s32(w, op, 0)),
    S1(s_movreld_b64, 2, 2, const uint64_t i = uint64_t(op.dst) + w.s[M0]; if (i > 126) return w.engine->fatal(ILLEGAL_OPERAND, w); w.set64(int(i), s64(w, op, 0))),
    S1(s_abs_i32, 1, 1, result32(w, op, [&] { const uint32_t a = s32(w, op, 0); return a >> 31 ? 0 - a : a; })),
    S1(s_bitreplicate_b64_b32, 2, 1, w.set64(op.dst, replicate(s32(w, op, 0)))),
    S1(s_set_gpr_idx_idx, 0, 1, w.s[M0] = (w.s[M0] & ~255u) | (s32(w, op, 0) & 255)),

    // SOP2
    S2(s_add_u32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { const uint32_t r = a + b; scc = r < a; return r; })),
    S2(s_sub_u32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { scc = b > a; return a - b; })),
    S2(s_add_i32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { const uint32_t r = a + b; scc = overflow_add(a, b, r); return r; })),
    S2(s_sub_i32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { const uint32_t r = a - b; scc = overflow_sub(a, b, r); return r; })),
    S2(s_addc_u32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { const uint64_t r = uint64_t(a) + b + scc; scc = r >> 32 != 0; return uint32_t(r); })),
    S2(s_subb_u32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { const uint64_t r = uint64_t(a) - b - scc; scc = r >> 63; return uint32_t(r); })),
    S2(s_min_i32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { scc = int32_t(a) < int32_t(b); return scc ? a : b; })),
    S2(s_min_u32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { scc = a < b; return scc ? a : b; })),
    S2(s_max_i32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { scc = int32_t(a) >= int32_t(b); return scc ? a : b; })),
    S2(s_max_u32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { scc = a >= b; return scc ? a : b; })),
    S2(s_cselect_b32, 1, 1, 1, w.s[op.dst] = s32(w, op, w.scc ? 0 : 1)),
    S2(s_cselect_b64, 2, 2, 2, w.set64(op.dst, s64(w, op, w.scc ? 0 : 1))),
    LOGIC32(s_and_b32, a & b), LOGIC64(s_and_b64, a & b),
    LOGIC32(s_or_b32, a | b), LOGIC64(s_or_b64, a | b),
    LOGIC32(s_xor_b32, a ^ b), LOGIC64(s_xor_b64, a ^ b),
    LOGIC32(s_andn2_b32, a & ~b), LOGIC64(s_andn2_b64, a & ~b),
    LOGIC32(s_orn2_b32, a | ~b), LOGIC64(s_orn2_b64, a | ~b),
    LOGIC32(s_nand_b32, ~(a & b)), LOGIC64(s_nand_b64, ~(a & b)),
    LOGIC32(s_nor_b32, ~(a | b)), LOGIC64(s_nor_b64, ~(a | b)),
    LOGIC32(s_xnor_b32, ~(a ^ b)), LOGIC64(s_xnor_b64, ~(a ^ b)),
    LOGIC32(s_lshl_b32, a << (b & 31)),
    S2(s_lshl_b64, 2, 2, 1, result64(w, op, [&] { return s64(w, op, 0) << (s32(w, op, 1) & 63); })),
    LOGIC32(s_lshr_b32, a >> (b & 31)),
    S2(s_lshr_b64, 2, 2, 1, result64(w, op, [&] { return s64(w, op, 0) >> (s32(w, op, 1) & 63); })),
    LOGIC32(s_ashr_i32, uint32_t(int32_t(a) >> (b & 31))),
    S2(s_ashr_i64, 2, 2, 1, result64(w, op, [&] { return uint64_t(int64_t(s64(w, op, 0)) >> (s32(w, op, 1) & 63)); })),
    S2(s_bfm_b32, 1, 1, 1, w.s[op.dst] = ((1u << (s32(w, op, 0) & 31)) - 1) << (s32(w, op, 1) & 31)),
    S2(s_bfm_b64, 2, 1, 1, w.set64(op.dst, ((1ull << (s32(w, op, 0) & 63)) - 1) << (s32(w, op, 1) & 63))),
    S2(s_mul_i32, 1, 1, 1, w.s[op.dst] = s32(w, op, 0) * s32(w, op, 1)),
    S2(s_mul_hi_u32, 1, 1, 1, w.s[op.dst] = uint32_t(uint64_t(s32(w, op, 0)) * s32(w, op, 1) >> 32)),
    S2(s_mul_hi_i32, 1, 1, 1, w.s[op.dst] = uint32_t(int64_t(int32_t(s32(w, op, 0))) * int32_t(s32(w, op, 1)) >> 32)),
    LOGIC32(s_bfe_u32, extract<uint32_t>(a, b, 32)),
    LOGIC32(s_bfe_i32, uint32_t(extract<int32_t>(a, b, 32))),
    S2(s_bfe_u64, 2, 2, 1, result64(w, op, [&] { return extract<uint64_t>(s64(w, op, 0), s32(w, op, 1), 64); })),
    S2(s_bfe_i64, 2, 2, 1, result64(w, op, [&] { return uint64_t(extract<int64_t>(s64(w, op, 0), s32(w, op, 1), 64)); })),
    LOGIC32(s_absdiff_i32, int32_t(a - b) < 0 ? b - a : a - b),  // of the wrapped difference
    S2(s_lshl1_add_u32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { const uint64_t r = (uint64_t(a) << 1) + b; scc = r >> 32 != 0; return uint32_t(r); })),
    S2(s_lshl2_add_u32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { const uint64_t r = (uint64_t(a) << 2) + b; scc = r >> 32 != 0; return uint32_t(r); })),
    S2(s_lshl3_add_u32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { const uint64_t r = (uint64_t(a) << 3) + b; scc = r >> 32 != 0; return uint32_t(r); })),
    S2(s_lshl4_add_u32, 1, 1, 1, add_like(w, op, [](uint32_t a, uint32_t b, uint32_t& scc) { const uint64_t r = (uint64_t(a) << 4) + b; scc = r >> 32 != 0; return uint32_t(r); })),
    S2(s_pack_ll_b32_b16, 1, 1, 1, w.s[op.dst] = (s32(w, op, 0) & 0xffff) | s32(w, op, 1) << 16),
    S2(s_pack_lh_b32_b16, 1, 1, 1, w.s[op.dst] = (s32(w, op, 0) & 0xffff) | (s32(w, op, 1) & 0xffff0000)),
    S2(s_pack_hh_b32_b16, 1, 1, 1, w.s[op.dst] = s32(w, op, 0) >> 16 | (s32(w, op, 1) & 0xffff0000)),

    // SOPC
    CMP32(s_cmp_eq_i32, int32_t, ==), CMP32(s_cmp_lg_i32, int32_t, !=), CMP32(s_cmp_gt_i32, int32_t, >),
    CMP32(s_cmp_ge_i32, int32_t, >=), CMP32(s_cmp_lt_i32, int32_t, <), CMP32(s_cmp_le_i32, int32_t, <=),
    CMP32(s_cmp_eq_u32, uint32_t, ==), CMP32(s_cmp_lg_u32, uint32_t, !=), CMP32(s_cmp_gt_u32, uint32_t, >),
    CMP32(s_cmp_ge_u32, uint32_t, >=), CMP32(s_cmp_lt_u32, uint32_t, <), CMP32(s_cmp_le_u32, uint32_t, <=),
    S2(s_cmp_eq_u64, 0, 2, 2, w.scc = s64(w, op, 0) == s64(w, op, 1)),
    S2(s_cmp_lg_u64, 0, 2, 2, w.scc = s64(w, op, 0) != s64(w, op, 1)),
    S2(s_bitcmp0_b32, 0, 1, 1, w.scc = !(s32(w, op, 0) >> (s32(w, op, 1) & 31) & 1)),
    S2(s_bitcmp1_b32, 0, 1, 1, w.scc = s32(w, op, 0) >> (s32(w, op, 1) & 31) & 1),
    S2(s_bitcmp0_b64, 0, 2, 1, w.scc = !(s64(w, op, 0) >> (s32(w, op, 1) & 63) & 1)),
    S2(s_bitcmp1_b64, 0, 2, 1, w.scc = uint32_t(s64(w, op, 0) >> (s32(w, op, 1) & 63) & 1)),
    S2(s_set_gpr_idx_on, 0, 1, 0, w.mode |= GPR_IDX_EN; w.s[M0] = (w.s[M0] & ~0xf0ffu) | (s32(w, op, 0) & 255) | uint32_t(op.src[1] & 15) << 12),

    // SOPK
    {"s_movk_i32", [](Wave& w, const Op& op) { w.s[op.dst] = uint32_t(k16(op)); }, 1, {0, 0, 0}, 0},
    {"s_cmovk_i32", [](Wave& w, const Op& op) { if (w.scc) w.s[op.dst] = uint32_t(k16(op)); }, 1, {0, 0, 0}, 0},
    CMPK(s_cmpk_eq_i32, int32_t, k16(op), ==), CMPK(s_cmpk_lg_i32, int32_t, k16(op), !=), CMPK(s_cmpk_gt_i32, int32_t, k16(op), >),
    CMPK(s_cmpk_ge_i32, int32_t, k16(op), >=), CMPK(s_cmpk_lt_i32, int32_t, k16(op), <), CMPK(s_cmpk_le_i32, int32_t, k16(op), <=),
    CMPK(s_cmpk_eq_u32, uint32_t, uint16_t(k16(op)), ==), CMPK(s_cmpk_lg_u32, uint32_t, uint16_t(k16(op)), !=), CMPK(s_cmpk_gt_u32, uint32_t, uint16_t(k16(op)), >),
    CMPK(s_cmpk_ge_u32, uint32_t, uint16_t(k16(op)), >=), CMPK(s_cmpk_lt_u32, uint32_t, uint16_t(k16(op)), <), CMPK(s_cmpk_le_u32, uint32_t, uint16_t(k16(op)), <=),
    {"s_addk_i32", [](Wave& w, const Op& op) { const uint32_t a = w.s[op.dst], b = uint32_t(k16(op)), r = a + b; w.scc = overflow_add(a, b, r); w.s[op.dst] = r; }, 1, {0, 0, 0}, READS_DST},
    {"s_mulk_i32", [](Wave& w, const Op& op) { w.s[op.dst] *= uint32_t(k16(op)); }, 1, {0, 0, 0}, READS_DST},
    {"s_getreg_b32", get_hardware_register, 1, {0, 0, 0}, 0},
    {"s_setreg_b32", [](Wave& w, const Op& op) { set_hardware_register(w, op, w.s[op.dst]); }, 1, {0, 0, 0}, READS_DST},
    {"s_setreg_imm32_b32", [](Wave& w, const Op& op) { set_hardware_register(w, op, op.literal); }, 0, {0, 0, 0}, 0},
    {"s_call_b64", [](Wave& w, const Op& op) { w.set64(op.dst, address_of(w, w.next)); branch(w, op, true); }, 2, {0, 0, 0}, 0},

    // SOPP
    CONTROL(s_nop, ),
    CONTROL(s_endpgm, end(w)),
    CONTROL(s_branch, branch(w, op, true)),
    CONTROL(s_cbranch_scc0, branch(w, op, !w.scc)),
    CONTROL(s_cbranch_scc1, branch(w, op, w.scc)),
    CONTROL(s_cbranch_vccz, branch(w, op, w.get64(VCC) == 0)),
    CONTROL(s_cbranch_vccnz, branch(w, op, w.get64(VCC) != 0)),
    CONTROL(s_cbranch_execz, branch(w, op, w.exec() == 0)),
    CONTROL(s_cbranch_execnz, branch(w, op, w.exec() != 0)),
    CONTROL(s_barrier, arrive(w)),
    // vmcnt is split: bits 0..3 and 14..15; lgkmcnt is bits 8..11.
    CONTROL(s_waitcnt, wait(w, (op.offset & 15) | (op.offset >> 10 & 0x30), op.offset >> 8 & 15)),
    CONTROL(s_sleep, w.engine->sleeps = true),  // another wave's turn: who sleeps may be waiting for it
    CONTROL(s_setprio, w.priority = op.offset & 3),  // of waves that wait to issue: time alone
    CONTROL(s_wakeup, ),
    CONTROL(s_icache_inv, ),
    CONTROL(s_incperflevel, ),
    CONTROL(s_decperflevel, ),
    CONTROL(s_ttracedata, ),
    CONTROL(s_set_valu_coexec_mode, ),
    CONTROL(s_cbranch_cdbgsys, ),
    CONTROL(s_cbranch_cdbguser, ),
    CONTROL(s_cbranch_cdbgsys_or_user, ),
    CONTROL(s_cbranch_cdbgsys_and_user, ),
    CONTROL(s_sethalt, if (op.offset & 1) w.engine->fatal(TRAP, w)),
    // An interrupt goes to the host: HIP's printf rings it. Other messages are of graphics.
    CONTROL(s_sendmsg, if ((op.offset & 15) != 1) w.engine->fatal(UNSUPPORTED, w); else if (w.engine->launch.interrupt) interrupt_host(*w.engine)),
    CONTROL(s_trap, w.engine->fatal(TRAP, w)),
    CONTROL(s_set_gpr_idx_off, w.mode &= ~GPR_IDX_EN),
    CONTROL(s_set_gpr_idx_mode, w.s[M0] = (w.s[M0] & ~0xf000u) | uint32_t(op.offset & 15) << 12),
};

}  // namespace

Table scalar_table() { return {TABLE, sizeof TABLE / sizeof *TABLE}; }
