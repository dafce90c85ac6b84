// Wait states that hardware does not insert: a pair of instructions that stand too close on some path through the code.
//
// Wait states count instructions issued in between, an s_nop as many as it says. The rules are those of the tables "Manually
// Inserted Wait States (NOPs)" and "Dependency Resolution: Required Independent Instructions" of the CDNA2, CDNA3 and CDNA4 ISA
// documents, and of LLVM's GCNHazardRecognizer, by whose `post-RA-hazard-rec` pass (LLVM 22) every number here was measured.
// Where the two differ, LLVM's holds: what it emits must pass. Like it, a rule looks along all paths of the control flow, and a
// write in between does not end a dependence; but of matrix instructions that write parts of one operand the nearest counts.
// Paths end where the target is not known (s_setpc, s_swappc) and at calls.
#include "wait_states.h"

#include <algorithm>
#include <cstdlib>

#include "paths.h"

namespace {

enum Class : uint32_t {
  VALU = 1, MATRIX_OP = 2, TRANSCENDENTAL = 4, DOT = 8, DPP = 16, READ_LANE = 32, ANY_LANE = 64, LANE_SELECT = 128, VMEM = 256,
  LDS_OP = 512, SALU = 1024, FMA64 = 2048, DIV_FMAS = 4096, NEEDS_M0 = 8192, SWAP = 1 << 14, SET_MODE = 1 << 15, GET_MODE = 1 << 16,
  WIDE_STORE = 1 << 17, HALF_WRITE = 1 << 18, DOUBLE_MATRIX = 1 << 19, SINGLE_MATRIX = 1 << 20,
  MEMORY_OP = VMEM | LDS_OP,
};

struct Registers {
  uint16_t first = 0;  // VGPR row, or ROWS + scalar register
  uint16_t count = 0;
  uint32_t flags = 0;
  bool scalar() const { return first >= ROWS; }
};

bool overlap(const Registers& a, const Registers& b) {
  return a.count && b.count && a.first < b.first + b.count && b.first < a.first + a.count;
}

enum ReadFlag : uint32_t { ACCUMULATED = 1, SELECTS_LANE = 2 };

struct Instruction {
  uint32_t is = 0;
  uint16_t opcode = 0;
  int states = 1, passes = 0, horizon = 0;
  std::vector<Registers> reads, writes;
  Registers a, b, c, d;  // of a matrix instruction
  bool writes_exec = false, reads_vccz = false, reads_execz = false;
  int hardware_register = -1;
};

bool starts(const char* name, const char* with) { return !std::strncmp(name, with, std::strlen(with)); }

// Passes of four cycles, by the shape in the name.
int matrix_passes(const char* name, const Op& op, uint32_t target) {
  const char* x = std::strchr(name + 7, '_');
  const int m = std::atoi(x + 1);
  const char* k_text = std::strchr(std::strchr(x, 'x') + 1, 'x');
  const int k = std::atoi(k_text + 1);
  if (m == 4) return 2;
  if (target == GFX90A) return m / 2;
  if (std::strstr(name, "f8f6f4")) return m / 4 * (op.cbsz < 2 || op.blgp < 2 ? 2 : 1);  // 0 and 1 are eight-bit formats
  const bool whole_rate = std::strstr(name, "xf32") || k >= 8;
  return m / 4 * (whole_rate ? 1 : 2);
}

Registers registers(uint16_t code, unsigned count) {
  if (code >= 128 && code < 256) return {};
  return {uint16_t(code >= 256 ? code - 256 : ROWS + code), uint16_t(count), 0};
}

uint32_t vector_class(const char* name, const Op& op) {
  uint32_t is = VALU;
  constexpr const char* SLOW[] = {"v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_"};
  for (const char* slow : SLOW)
    if (starts(name, slow)) is |= TRANSCENDENTAL;
  if (starts(name, "v_dot")) is |= DOT;
  if (op.flags & F_DPP) is |= DPP;
  if (starts(name, "v_readlane") || starts(name, "v_readfirstlane")) is |= READ_LANE | ANY_LANE;
  if (starts(name, "v_writelane")) is |= ANY_LANE;
  if (starts(name, "v_fma_f64") || starts(name, "v_fmac_f64")) is |= FMA64;
  if (starts(name, "v_div_fmas")) is |= DIV_FMAS;
  if (starts(name, "v_permlane")) is |= SWAP;
  // Conversions to 8 and 4 bits choose the part with two bits; those to 4 bits with random rounding always count as such.
  const unsigned part = starts(name, "v_cvt_") ? 12 : 8;
  if (op.flags & F_SDWA ? op.encoding != ENC_VOPC && (op.control >> 8 & 7) != 6 : op.encoding == ENC_VOP3 && op.opsel & part) is |= HALF_WRITE;
  if (std::strstr(name, "_sr_pk_fp4_")) is |= HALF_WRITE;
  return is;
}

uint32_t memory_class(const char* name, const Op& op, const Use& use) {
  if (op.encoding == ENC_DS) return LDS_OP | (std::strstr(name, "addtid") ? NEEDS_M0 : 0);
  if (op.encoding == ENC_SMEM) return 0;
  uint32_t is = VMEM;
  if (op.flags & F_LDS || std::strstr(name, "_lds_")) is |= NEEDS_M0;
  if (!std::strstr(name, "_store_") && !std::strstr(name, "_atomic_")) return is;
  const bool offset_register = op.encoding == ENC_MUBUF && op.src[2] < 128;
  for (int i = 0; i < use.count; ++i)
    if (!(use.spans[i].flags & (Use::ADDRESS | Use::WRITES)) && use.spans[i].count > 2 && !offset_register) is |= WIDE_STORE;
  return is;
}

void matrix(const Op& op, const Info& info, const Use& use, uint32_t target, Instruction& x) {
  x.is = VALU | MATRIX_OP;
  const char* name = info.name;
  x.passes = matrix_passes(name, op, target);
  if (starts(name, "v_mfma_f64")) x.is |= DOUBLE_MATRIX;
  const size_t length = std::strlen(name);
  if (target != GFX90A && !std::strcmp(name + length - 4, "_f32")) x.is |= SINGLE_MATRIX;
  x.horizon = 20;
  x.a = registers(op.src[0], info.src[0]);
  x.b = registers(op.src[1], info.src[1]);
  x.c = registers(op.src[2], info.src[2]);
  x.d = registers(op.dst, info.dst);
  for (int i = 0; i < use.count; ++i)  // the formats of f8f6f4 shorten A and B
    for (Registers* r : {&x.a, &x.b})
      if (use.spans[i].first == r->first && r->count > use.spans[i].count && !(use.spans[i].flags & Use::WRITES)) r->count = use.spans[i].count;
}

// Operands that the core's table leaves out: masks and carries of the vector unit, VCC of v_div_fmas.
void hidden_operands(const char* name, const Op& op, Instruction& x) {
  const bool carries_in = starts(name, "v_addc") || starts(name, "v_subb");
  if (carries_in || starts(name, "v_cndmask")) x.reads.push_back(registers(op.src[2], 2));
  if (starts(name, "v_div_fmas")) x.reads.push_back(registers(VCC, 2));
  if (carries_in || std::strstr(name, "_co_")) x.writes.push_back(registers(op.sdst, 2));
  if (starts(name, "v_cmpx")) x.writes_exec = true;
  for (uint16_t source : op.src) x.reads_vccz |= source == 251, x.reads_execz |= source == 252;
}

Instruction describe(const Op& op, const Info& info, const Use& use, uint32_t target) {
  Instruction x;
  const char* name = info.name;
  x.opcode = op.opcode;
  if (!std::strcmp(name, "s_nop")) x.states = (op.offset & 15) + 1;
  if (op.encoding == ENC_MFMA) {
    matrix(op, info, use, target, x);
    return x;
  }
  if (info.flags & MEMORY) x.is = memory_class(name, op, use);
  else if (name[0] == 'v') x.is = vector_class(name, op);
  else x.is = SALU;
  const bool whole_dpp = op.flags & F_DPP && (op.control >> 24 & 255) == 255 && op.control >> 19 & 1;
  for (int i = 0; i < use.count; ++i) {
    const Use::Span& s = use.spans[i];
    Registers r{s.first, s.count, 0};
    if (s.flags & Use::WRITES) x.writes.push_back(r);
    else x.reads.push_back(r);
  }
  if (op.flags & F_DPP && !whole_dpp && op.dst >= 256) x.reads.push_back(registers(op.dst, 1));
  if (x.is & VALU) hidden_operands(name, op, x);
  if (x.is & ANY_LANE && op.src[1] < 128 && op.encoding == ENC_VOP3) x.reads.push_back({uint16_t(ROWS + op.src[1]), 1, SELECTS_LANE});
  if (x.is & DOT) x.reads.push_back({registers(op.encoding == ENC_VOP2 ? op.dst : op.src[2], 1).first, 1, ACCUMULATED});
  if (starts(name, "s_setreg")) x.is |= SET_MODE, x.hardware_register = op.offset & 63;
  if (starts(name, "s_getreg")) x.is |= GET_MODE, x.hardware_register = op.offset & 63;
  if (starts(name, "s_movrel") || starts(name, "s_sendmsg") || starts(name, "s_ttracedata")) x.is |= NEEDS_M0;
  if (x.is & VMEM) {
    x.reads.push_back(registers(EXEC, 2));
    if (x.is & NEEDS_M0) x.reads.push_back(registers(M0, 1));
  }
  for (const Registers& r : x.writes)
    if (r.scalar() && r.first - ROWS <= EXEC + 1 && r.first - ROWS + r.count > EXEC) x.writes_exec = true;
  const bool writes_scalar = std::any_of(x.writes.begin(), x.writes.end(), [](const Registers& r) { return r.scalar(); });
  if (x.is & VALU) x.horizon = writes_scalar || x.writes_exec ? 5 : x.is & DOT ? 3 : 2;
  else if (x.is & SET_MODE || x.is & WIDE_STORE) x.horizon = 2;
  else if (x.is & SALU) x.horizon = writes_scalar ? 1 : 0;
  else if (!x.writes.empty()) x.horizon = 2;
  return x;
}

// What one pair needs more than it has, by each rule that applies: the register, and all of the operand that it is of.
struct Need {
  int states;
  unsigned reg;
  Registers operand;
};

class Pair {
 public:
  Pair(const Instruction& first, const Instruction& second, int gap, uint32_t target) : p(first), c(second), gap_(gap), target_(target) {}

  const std::vector<Need>& needs() {
    if (p.is & MATRIX_OP) matrix_first();
    if (p.is & VALU && !(p.is & MATRIX_OP)) vector_first();
    if (c.is & DPP) reads_of(2, [](const Registers& r) { return !r.scalar(); });
    if (p.is & WIDE_STORE && c.is & VALU) overwrites_stored();
    if (p.is & SET_MODE && c.is & (SET_MODE | GET_MODE) && p.hardware_register == c.hardware_register) n.of(2, ROWS);
    if (p.is & SALU && c.is & NEEDS_M0)
      for (const Registers& w : p.writes)
        if (overlap(w, registers(M0, 1))) n.of(1, ROWS + M0);
    return n.all;
  }

 private:
  // Every register that the first writes and the second reads, of those that `which` names.
  template <class F>
  void reads_of(int states, F which) {
    if (p.is & MATRIX_OP) return;
    for (const Registers& w : p.writes)
      for (const Registers& r : c.reads)
        if (overlap(w, r) && which(r)) n.of(states, std::max(w.first, r.first));
    if (!(c.is & MATRIX_OP)) return;
    for (const Registers& w : p.writes)
      for (const Registers* r : {&c.a, &c.b, &c.c})
        if (overlap(w, *r) && which(*r)) n.of(states, std::max(w.first, r->first));
  }

  void vector_first() {
    const bool later = target_ != GFX90A;
    const auto vector = [](const Registers& r) { return !r.scalar() && !(r.flags & ACCUMULATED); };
    const auto scalar = [](const Registers& r) { return r.scalar(); };
    if (c.is & VMEM) {
      reads_of(5, scalar);
      if (p.writes_exec) n.of(5, ROWS + EXEC);
    }
    if (c.is & VALU && later) reads_of(2, scalar);
    reads_of(4, [](const Registers& r) { return r.flags & SELECTS_LANE; });
    if (c.is & READ_LANE && later) reads_of(1, vector);
    if (c.is & DIV_FMAS) reads_of(4, [](const Registers& r) { return overlap(r, registers(VCC, 2)); });
    if (c.is & MATRIX_OP && !(p.is & DOT)) reads_of(2, vector);
    if (p.is & TRANSCENDENTAL && c.is & VALU && !(c.is & TRANSCENDENTAL) && later) reads_of(1, vector);
    if (p.is & HALF_WRITE && c.is & VALU && later) reads_of(1, vector);
    if (c.is & SWAP && target_ == GFX950) reads_of(2, vector);
    if (c.reads_vccz)
      for (const Registers& w : p.writes)
        if (overlap(w, registers(VCC, 2))) n.of(5, ROWS + VCC);
    if (c.reads_execz && p.writes_exec) n.of(5, ROWS + EXEC);
    if (p.is & DOT && c.is & (VALU | MEMORY_OP) && !(c.is & MATRIX_OP)) dot_first();
    if (!p.writes_exec) return;
    if (c.is & DPP) n.of(5, ROWS + EXEC);
    if (c.is & MATRIX_OP || (c.is & ANY_LANE && later) || (c.is & SWAP && target_ == GFX950)) n.of(4, ROWS + EXEC);
  }

  void dot_first() {
    const bool same = p.opcode == c.opcode;
    for (const Registers& w : p.writes) {
      if (w.scalar()) continue;
      const bool accumulates = std::any_of(c.reads.begin(), c.reads.end(), [&](const Registers& r) { return r.flags & ACCUMULATED && overlap(w, r); });
      for (const Registers& r : c.reads)
        if (overlap(w, r) && !(same && accumulates)) n.of(3, r.first);
      for (const Registers& r : c.writes)
        if (overlap(w, r) && !same) n.of(3, r.first);
    }
  }

  void overwrites_stored() {
    const int states = target_ == GFX90A ? 1 : 2;
    for (const Registers& data : p.reads) {
      if (data.count <= 2 || data.scalar()) continue;
      if (overlap(data, c.d)) n.of(states, data.first);
      for (const Registers& w : c.writes)
        if (overlap(data, w)) n.of(states, w.first);
    }
  }

  // Results of the matrix unit. `more` is what CDNA4 adds for all but the shortest.
  void matrix_first() {
    const bool wide = p.is & DOUBLE_MATRIX, single = p.is & SINGLE_MATRIX, small = p.passes == 2;
    const int more = target_ == GFX950 && !small ? 1 : 0;
    const int result = wide ? (small ? 6 : target_ == GFX950 ? 19 : 11) : single ? p.passes + 2 : p.passes + 3 + more;
    if (c.is & MATRIX_OP) {
      for (const Registers* r : {&c.a, &c.b})
        if (overlap(p.d, *r)) n.of(result, r->first, *r);
      if (overlap(p.d, c.c)) n.of(accumulated(wide, single, small, more), c.c.first, c.c);
      return;
    }
    if (wide && c.is & FMA64) n.of(2, p.d.first);
    if (!(c.is & (VALU | MEMORY_OP))) return;
    for (const Registers& r : c.reads)
      if (overlap(p.d, r)) n.of(wide && c.is & MEMORY_OP ? (small ? 9 : 18) : result, r.first, r);
    for (const Registers& w : c.writes) {
      if (overlap(p.d, w)) n.of(wide ? (small ? 6 : 11) : result, w.first, w);
      if (overlap(p.c, w) && !wide && !single) n.of(p.passes - 1, w.first, {w.first, w.count, ACCUMULATED});
    }
  }

  // The second accumulates on what the first wrote: on all of it the hardware waits, mostly.
  int accumulated(bool wide, bool single, bool small, int more) const {
    const bool same = p.d.first == c.c.first && p.d.count == c.c.count;
    const bool xdl = !(c.is & (DOUBLE_MATRIX | SINGLE_MATRIX));
    if (target_ == GFX90A) {
      if (wide && xdl) return 0;
      if (wide) return small ? 4 : same ? 0 : 9;
      return same ? 0 : p.passes + (xdl ? 0 : 1);
    }
    if (wide) {
      if (xdl) return 0;
      if (small) return 4;
      return same ? 0 : target_ == GFX950 ? 17 : 9;
    }
    if (same) return small ? 2 : 0;
    if (single) return xdl ? 0 : p.passes;
    if (small) return target_ == GFX950 && xdl ? 4 : 3;
    return p.passes + 1 + more;
  }

  const Instruction& p;
  const Instruction& c;
  int gap_;
  uint32_t target_;
  struct {
    int gap;
    std::vector<Need> all;
    void of(int states, unsigned reg, const Registers& operand = {}) {
      if (states > gap) all.push_back({states, reg, operand});
    }
  } n{gap_, {}};
};

class Walk {
 public:
  Walk(const TkLaunch& launch, const std::vector<const Info*>& infos, const std::vector<Use>& uses)
      : launch_(launch), infos_(infos), uses_(uses), index_(launch.op_count, 0), nearest_(launch.op_count, FAR) {}

  std::vector<TooClose> all() {
    std::vector<uint32_t> todo{uint32_t(launch_.entry)};
    while (!todo.empty()) {
      const uint32_t at = todo.back();
      todo.pop_back();
      if (at >= launch_.op_count || index_[at] || !infos_[at]) continue;
      known_.push_back(describe(launch_.ops[at], *infos_[at], uses_[at], launch_.target));
      order_.push_back(at);
      index_[at] = uint32_t(known_.size());
      successors(at, true, todo);
    }
    for (size_t i = 0; i < known_.size(); ++i)
      if (known_[i].horizon) from(order_[i]);
    return std::move(found_);
  }

 private:
  static constexpr uint8_t FAR = 255;

  void successors(uint32_t at, bool past_calls, std::vector<uint32_t>& out) const { ::successors(launch_, infos_, at, past_calls, out); }

  const Instruction& known(uint32_t at) const { return known_[index_[at] - 1]; }

  // The wait states on the shortest way from `first` to all that follows within its horizon, in `nearest_`; no way leads through
  // a matrix instruction that writes `operand`, or, of one that was accumulated on, that does so, too. Returns the places reached.
  std::vector<uint32_t> reach(uint32_t first, const Registers& operand) {
    struct Step { uint32_t at; int gap; };
    std::vector<Step> todo;
    std::vector<uint32_t> next, touched;
    const auto push = [&](uint32_t at, int gap) {
      next.clear();
      successors(at, false, next);
      for (uint32_t n : next) {
        if (n >= launch_.op_count || !index_[n] || gap >= nearest_[n] || gap >= known(first).horizon) continue;
        nearest_[n] = uint8_t(gap);
        touched.push_back(n);
        todo.push_back({n, gap});
      }
    };
    push(first, 0);
    while (!todo.empty()) {
      const Step step = todo.back();
      todo.pop_back();
      const Instruction& x = known(step.at);
      if (step.gap > nearest_[step.at] || (x.is & MATRIX_OP && overlap(operand.flags & ACCUMULATED ? x.c : x.d, operand))) continue;
      push(step.at, step.gap + x.states);
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    return touched;
  }

  void forget(const std::vector<uint32_t>& touched) {
    for (uint32_t at : touched) nearest_[at] = FAR;
  }

  void from(uint32_t first) {
    struct Candidate { uint32_t at; int gap; Need need; };
    std::vector<Candidate> candidates;
    const std::vector<uint32_t> touched = reach(first, {});
    for (uint32_t at : touched) {
      Pair pair(known(first), known(at), nearest_[at], launch_.target);
      for (const Need& need : pair.needs()) candidates.push_back({at, nearest_[at], need});
    }
    forget(touched);
    for (Candidate& c : candidates) {
      if (c.need.operand.count) {
        const std::vector<uint32_t> again = reach(first, c.need.operand);
        c.gap = nearest_[c.at];
        forget(again);
      }
      if (c.need.states <= c.gap) continue;
      const TooClose pair{first, c.at, uint32_t(c.need.states), uint32_t(c.need.states - c.gap), c.need.reg};
      if (found_.empty() || found_.back().first != first || found_.back().second != c.at) found_.push_back(pair);
      else if (found_.back().missing < pair.missing) found_.back() = pair;
    }
  }

  const TkLaunch& launch_;
  const std::vector<const Info*>& infos_;
  const std::vector<Use>& uses_;
  std::vector<uint32_t> index_;  // place in known_ plus 1, per dword of the code
  std::vector<uint8_t> nearest_;
  std::vector<Instruction> known_;
  std::vector<uint32_t> order_;
  std::vector<TooClose> found_;
};

}  // namespace

std::vector<TooClose> missing_wait_states(const TkLaunch& launch, const std::vector<const Info*>& infos, const std::vector<Use>& uses) {
  return Walk(launch, infos, uses).all();
}
