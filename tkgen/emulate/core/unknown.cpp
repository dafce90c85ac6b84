// See unknown.h.
#include "unknown.h"

#include "lanes.h"

#include <algorithm>

namespace {

bool contains(const char* name, const char* part) { return std::strstr(name, part) != nullptr; }

unsigned place(uint16_t code) { return code >= 256 ? code - 256u : ROWS + code; }

}  // namespace

Flow Unknown::describe(const Op& op, const Info& info) {
  const char* n = info.name;
  Flow f;
  const auto when = [&](bool holds, uint16_t bit) { if (holds) f.bits |= bit; };
  const bool scalar = op.encoding >= ENC_SOP1 && op.encoding <= ENC_SOPP;
  if (scalar) {
    when(begins(n, {"s_cselect", "s_cmov", "s_addc_", "s_subb_", "s_cbranch_scc"}), Flow::READS_SCC);
    // Whatever is not named here may set SCC or leave it as it was: at worst SCC counts as unknown for too long. Moves
    // leave it (CDNA3 ISA guide, "S_MOV_B32", "S_MOV_B64", "S_MOVK_I32"): a mask of a division is moved to VCC.
    when(begins(n, {"s_mov_b32", "s_mov_b64", "s_movk_i32"}), Flow::LEAVES_SCC);
    when(op.encoding == ENC_SOPC && !contains(n, "gpr_idx"), Flow::SETS_SCC);
    when(begins(n, {"s_cmpk_", "s_addk_", "s_add_", "s_sub_", "s_addc_", "s_subb_", "s_and", "s_or", "s_xor", "s_lsh", "s_ashr",
                    "s_bfe_", "s_min_", "s_max_"}), Flow::SETS_SCC);
    when(begins(n, {"s_cmov"}), Flow::KEEPS_DST);
    when(contains(n, "saveexec") || contains(n, "wrexec"), Flow::WRITES_EXEC | Flow::READS_EXEC);
    when(begins(n, {"s_cbranch_vcc"}), Flow::READS_VCC);
    when(begins(n, {"s_cbranch", "s_setpc", "s_swappc", "s_setreg"}), Flow::JUMPS);
    when(contains(n, "movrel") || contains(n, "gpr_idx"), Flow::RELATIVE);
    when(begins(n, {"s_getreg"}), Flow::READS_BLOCK);
  } else if (info.flags & MEMORY) {
    when(op.flags & F_LDS || contains(n, "load_lds") || contains(n, "addtid") || !std::strcmp(n, "ds_append") || !std::strcmp(n, "ds_consume"),
         Flow::READS_M0);
  } else {
    const bool carry = begins(n, {"v_addc_", "v_subb_", "v_subbrev_"});
    const bool fmas = begins(n, {"v_div_fmas"});
    when(carry || fmas || begins(n, {"v_cndmask"}), Flow::READS_MASK);
    f.mask = op.encoding == ENC_VOP3 && !fmas ? op.src[2] : uint16_t(VCC);
    when(carry || contains(n, "_co_") || begins(n, {"v_div_scale", "v_mad_u64_u32", "v_mad_i64_i32"}), Flow::WRITES_MASK);
    when(begins(n, {"v_cmpx"}), Flow::WRITES_EXEC);
    when(begins(n, {"v_mad_u64_u32", "v_mad_i64_i32"}), Flow::LOW_BY_ITSELF);
    when(begins(n, {"v_movrel"}), Flow::RELATIVE);
    when(begins(n, {"v_readfirstlane"}), Flow::FIRST_LANE);
    when(begins(n, {"v_readlane", "v_writelane"}), Flow::ONE_LANE);
    for (int i = 0; i < 3; ++i) {
      if (!info.src[i]) continue;
      when(op.src[i] == 251, Flow::READS_VCC);
      when(op.src[i] == 253, Flow::READS_SCC);
    }
  }
  if (scalar)
    for (int i = 0; i < 2; ++i) {
      if (!info.src[i]) continue;
      when(op.src[i] == 251, Flow::READS_VCC);
      when(op.src[i] == 253, Flow::READS_SCC);
    }
  if (info.dst && op.dst < 128 && op.dst <= EXEC + 1 && op.dst + info.dst > EXEC) f.bits |= Flow::WRITES_EXEC;
  return f;
}

void Unknown::begin_wave(Wave& w, uint32_t first_block_id, uint32_t block_ids) {
  std::fill(std::begin(w.unknown), std::end(w.unknown), 0);
  std::fill(std::begin(w.unknown_lanes), std::end(w.unknown_lanes), 0);
  w.unknown_scc = 0;
  w.scratch_unknown.assign(w.scratch.size(), 0);
  for (uint32_t i = 0; i < block_ids; ++i) w.unknown[ROWS + first_block_id + i] = BLOCK;
}

// Control flow, EXEC, M0 or an LDS address is as unknown as `how` says.
void Unknown::decides(Wave& w, uint8_t how) {
  if (how & DATA) engine_.fatal(DATA_DEPENDENT, w);
  if (how & BLOCK) block_dependent = true;
}

// How unknown some lanes of a register are; the number of the block is followed for all lanes together.
uint8_t Unknown::of(const Wave& w, unsigned row, uint64_t lanes) const {
  if (row >= ROWS) return w.unknown[row];
  return uint8_t((w.unknown[row] & BLOCK) | (w.unknown_lanes[row] & lanes ? DATA : 0));
}

uint64_t Unknown::lanes_of(const Wave& w, unsigned row) const {
  return row < ROWS ? w.unknown_lanes[row] : w.unknown[row] & DATA ? ~0ull : 0;
}

// `lanes` of a register are written, `unknown` ones of them with unknown data; `keeps`: with a part of what they held.
void Unknown::becomes(Wave& w, unsigned row, uint64_t lanes, uint8_t how, uint64_t unknown, bool keeps) {
  if (row >= ROWS) {
    w.unknown[row] = uint8_t(how | (keeps ? w.unknown[row] : 0));
    return;
  }
  uint64_t& data = w.unknown_lanes[row];
  data = (keeps ? data : data & ~lanes) | (unknown & lanes);
  w.unknown[row] = uint8_t((how & BLOCK) | (keeps || lanes != ~0ull ? w.unknown[row] : 0));
}

// The lane that v_readlane or v_writelane names; all of them where other data or another block may name another one.
uint64_t Unknown::one_lane(Wave& w, const Op& op) const {
  const uint16_t by = op.src[1];
  const bool fixed = by >= 128 && by < 256;
  return fixed || (by < SCALARS && !w.unknown[ROWS + by]) ? 1ull << (scalar32(w, op, by, Kind::B32) & 63) : ~0ull;
}

namespace {

// The lanes that an instruction reads: those of EXEC, the first of them (without any, lane 0), or any.
uint64_t lanes_read(const Wave& w, const Op& op, const Use& use, Flow flow) {
  if (flow.bits & Flow::FIRST_LANE) return w.exec() ? w.exec() & -w.exec() : 1;
  const bool any = use.info_flags & (MATRIX | CROSS_LANE) || op.flags & F_DPP;
  return any ? ~0ull : w.exec();
}

}  // namespace

bool Unknown::before(Wave& w, const Op& op, const Use& use, Flow flow) {
  uint8_t sources = 0, address = 0;
  uint64_t unknown = 0, low = 0;
  const bool one = flow.bits & Flow::ONE_LANE;
  const uint64_t lanes = one ? one_lane(w, op) : lanes_read(w, op, use, flow);
  for (int i = 0; i < use.count; ++i) {
    const Use::Span& s = use.spans[i];
    if (s.flags & Use::WRITES || (one && op.dst >= 256 && s.first == op.dst - 256)) continue;  // v_writelane leaves the others
    uint8_t here = 0;
    uint64_t mine = 0;
    for (unsigned r = s.first; r < unsigned(s.first) + s.count; ++r) here |= of(w, r, lanes), mine |= lanes_of(w, r);
    sources |= here, unknown |= mine;
    if (s.flags & Use::ADDRESS) address |= here;
    low |= s.count == 2 ? lanes_of(w, s.first) : mine;  // of the addend, which alone has two, the low half
  }
  if (flow.bits) {
    if (flow.bits & Flow::READS_SCC) sources |= w.unknown_scc;
    if (flow.bits & Flow::READS_VCC) sources |= w.unknown[ROWS + VCC] | w.unknown[ROWS + VCC + 1];
    if (flow.bits & Flow::READS_MASK && flow.mask < SCALARS) sources |= w.unknown[ROWS + flow.mask] | w.unknown[ROWS + flow.mask + 1];
    if (flow.bits & Flow::READS_BLOCK) sources |= BLOCK;
    if (flow.bits & Flow::READS_M0) decides(w, w.unknown[ROWS + M0]);
    if (flow.bits & (Flow::JUMPS | Flow::WRITES_EXEC)) decides(w, sources);
    if (flow.bits & Flow::RELATIVE) engine_.fatal(UNSUPPORTED, w);
  }
  const bool together = use.info_flags & (MATRIX | CROSS_LANE) || op.flags & F_DPP;  // a lane may read another's
  if (sources & DATA && (together || flow.bits & (Flow::READS_SCC | Flow::READS_VCC | Flow::READS_MASK))) unknown = low = ~0ull;
  sources_ = sources, unknown_ = unknown, low_ = low, address_ = address;
  if (use.info_flags & MEMORY) {
    data_ = 0, data_lanes_ = {};
    unsigned data = 0;
    for (int i = 0; i < use.count; ++i) {
      const Use::Span& s = use.spans[i];
      if (s.flags & (Use::WRITES | Use::ADDRESS)) continue;
      for (unsigned r = s.first; r < unsigned(s.first) + s.count; ++r) {
        data_ |= of(w, r, lanes);
        if (data < data_lanes_.size()) data_lanes_[data++] = lanes_of(w, r);
      }
    }
    const bool lds = op.encoding == ENC_DS || op.encoding == ENC_FLAT;
    decides(w, lds ? address : address & DATA);
    return false;  // its address counts, and when it is waited for
  }
  if (flow.bits & Flow::LOW_BY_ITSELF) return false;
  return sources & DATA && !(w.exec() & ~unknown);  // what lanes hold that are unknown does the others no harm
}

void Unknown::after(Wave& w, const Op& op, const Use& use, Flow flow) {
  if (use.info_flags & MEMORY) return;  // `submitted` knows
  // SDWA: dst_sel is the whole register, or dst_unused is not UNUSED_PRESERVE (CDNA3 ISA guide, SDWA).
  const bool sdwa_keeps = op.flags & F_SDWA && (op.control >> 8 & 7) != 6 && (op.control >> 11 & 3) == 2;
  const bool keeps = flow.bits & Flow::KEEPS_DST || op.flags & F_DPP || sdwa_keeps;
  const bool one = flow.bits & Flow::ONE_LANE;
  const uint64_t lanes = one ? one_lane(w, op) : use.info_flags & (MATRIX | CROSS_LANE) ? ~0ull : w.lanes;
  for (int i = 0; i < use.count; ++i) {
    const Use::Span& s = use.spans[i];
    if (!(s.flags & Use::WRITES)) continue;
    const bool part = (keeps && (s.first < ROWS || flow.bits & Flow::KEEPS_DST)) || (one && s.first < ROWS && lanes == ~0ull);
    for (unsigned k = 0; k < s.count; ++k)
      becomes(w, s.first + k, lanes, sources_, flow.bits & Flow::LOW_BY_ITSELF && k == 0 ? low_ : unknown_, part);
  }
  if (flow.bits & Flow::WRITES_MASK) w.unknown[ROWS + op.sdst] = w.unknown[ROWS + op.sdst + 1] = sources_;
  if (op.encoding >= ENC_SOP1 && op.encoding <= ENC_SOPK) {
    if (flow.bits & Flow::SETS_SCC) w.unknown_scc = sources_;
    else if (!(flow.bits & Flow::LEAVES_SCC)) w.unknown_scc |= sources_;
  }
}

// A wave's scratch has contents: what is stored there is followed byte by byte. Returns the lanes that load unknown data,
// for each register: the compiler spills pairs of which it needs one half.
Unknown::Registers Unknown::through_scratch(Wave& w, const MemoryOp& m, uint8_t& how) {
  Registers unknown{};
  const uint8_t stored = uint8_t(how | (data_ & BLOCK));
  for (int l = 0; l < LANES; ++l) {
    if (!((m.live & m.private_lanes) >> l & 1)) continue;
    uint8_t* state = w.scratch_unknown.data() + (m.host[l] - w.scratch.data());
    for (uint32_t i = 0; i < m.size; ++i) {
      if (m.access != Access::READ) {
        state[i] = uint8_t(stored | (data_lanes_[i / 4] >> l & 1 ? DATA : 0));
        continue;
      }
      how |= state[i] & BLOCK;
      if (state[i] & DATA) unknown[i / 4] |= 1ull << l;
    }
  }
  return unknown;
}

void Unknown::submitted(Wave& w, MemoryOp& m) {
  uint8_t how = uint8_t(address_ | (m.hollow ? DATA : 0));
  if (!m.live && m.queue == Queue::LDS) how |= sources_;  // a permutation of lanes
  if (m.access == Access::ATOMIC) how |= DATA;
  const Registers loaded = m.private_lanes ? through_scratch(w, m, how) : Registers{};
  if (m.queue == Queue::SCALAR && !m.live && !m.size) how |= DATA;  // a clock
  for (unsigned i = 0; i < m.dst_count; ++i) {
    const uint64_t lanes = how & DATA ? ~0ull : i < loaded.size() ? loaded[i] : 0;
    becomes(w, place(m.dst) + i, m.exec, uint8_t(how | (lanes ? DATA : 0)), lanes, m.dst >= 256 && m.written != ~0u);
  }
}
