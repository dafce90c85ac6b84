// Loading a program, starting waves, scheduling them, and the C interface.
#include <algorithm>
#include <string>

#include "algebra.h"
#include "flags.h"
#include "grid.h"
#include "lanes.h"
#include "polls.h"
#include "referee.h"
#include "repetition.h"
#include "unknown.h"
#include "wait_states.h"

namespace {

constexpr uint32_t UNDEFINED = 0x7fc0dead;  // what registers and LDS hold before anybody writes them
constexpr size_t MOST_FINDINGS = 1000;

// All operations, file by file.
std::vector<Table> tables() {
  return {scalar_table(), vector_table(), compare_table(), packed_table(), small_float_table(), matrix_table(), memory_table(),
          grid_table()};
}

const std::unordered_map<std::string, const Info*>& operations() {
  static const auto* map = [] {
    auto* m = new std::unordered_map<std::string, const Info*>;
    for (const Table& t : tables())
      for (size_t i = 0; i < t.count; ++i) m->emplace(t.begin[i].name, t.begin + i);
    return m;
  }();
  return *map;
}

void unknown_instruction(Wave& w, const Op&) { w.engine->fatal(UNKNOWN_INSTRUCTION, w); }
void illegal_instruction(Wave& w, const Op&) { w.engine->fatal(ILLEGAL_OPERAND, w); }
void unsupported_instruction(Wave& w, const Op&) { w.engine->fatal(UNSUPPORTED, w); }

bool legal_source(uint16_t code) {
  if (code < 128 || code >= 256) return true;
  return code <= 208 || (code >= 235 && code <= 238) || (code >= 240 && code <= 248) || (code >= 251 && code <= 253) || code == 255;
}

bool legal(const Use& use) {
  for (int i = 0; i < use.count; ++i) {
    const Use::Span& s = use.spans[i];
    if (s.first >= ROWS ? s.first - ROWS + s.count > SCALARS : s.first % 256 + s.count > 256) return false;
  }
  return true;
}

bool accumulates(const Use& use) {
  return std::any_of(use.spans, use.spans + use.count, [](const Use::Span& s) { return s.first >= 256 && s.first < ROWS; });
}

bool is_vector_alu(const Op& op) { return op.encoding >= ENC_VOP1 && op.encoding <= ENC_VOP3P; }

// The registers of an instruction that is no memory access. False if an operand cannot exist.
bool describe(const Op& op, const Info& info, Use& use) {
  // v_mfma_*_f8f6f4: the formats say how many registers A and B take.
  constexpr uint8_t FORMAT_REGISTERS[8] = {8, 8, 6, 6, 4, 8, 8, 8};
  const bool formats = op.encoding == ENC_MFMA && std::strstr(info.name, "f8f6f4");
  for (int i = 0; i < 3; ++i) {
    if (!info.src[i]) continue;
    if (!legal_source(op.src[i])) return false;
    ++use.sources;
    const unsigned halves = 1u << (op.opsel >> i & 1) | (info.flags & PAIRS ? 1u << (op.opsel_hi >> i & 1) : 0);
    const bool high = halves & 2, one = halves != 3 && info.flags & (PAIRS | MOVES_PAIR) && op.encoding == ENC_VOP3P;
    if (one && op.src[i] >= 256) use.add(uint16_t(op.src[i] + high), 1, 0);  // one of the pair
    else use.add(op.src[i], formats && i < 2 ? FORMAT_REGISTERS[(i ? op.blgp : op.cbsz) & 7] : info.src[i], 0);
  }
  for (int i = 0; i < 2 && op.flags & F_SCALED; ++i) {
    const uint16_t scale = op.control >> 9 * i & 511;
    if (!formats || !legal_source(scale)) return false;
    use.add(scale, 1, 0);
  }
  // Constants cannot be written; eight-bit destination fields can name them.
  if (info.dst && op.dst >= SCALARS && op.dst < 256) return false;
  if (info.flags & SWAPS) {
    if (op.src[0] < 256) return false;
    use.add(op.src[0], 1, Use::WRITES);
  }
  if (info.flags & READS_DST) use.add(op.dst, info.dst, info.flags & KEEPS_PART ? Use::KEPT : 0);
  if (info.dst) use.add(op.dst, info.dst, Use::WRITES);
  if (op.flags & F_SDST) use.add(op.sdst, 2, Use::WRITES);
  // Vector results go to vector registers, but for compares and lane reads, whose destination the decoder made scalar.
  const bool vector = info.dst && (is_vector_alu(op) || op.encoding == ENC_MFMA);
  const bool scalar_result = op.encoding == ENC_VOPC || !std::strncmp(info.name, "v_cmp", 5) || !std::strncmp(info.name, "v_read", 6);
  if (vector && (op.dst < 256) != scalar_result) return false;
  return true;
}

}  // namespace

void Use::add(uint16_t code, unsigned registers, uint8_t flags) {
  if (code >= 128 && code < 256) return;  // constants
  if (count == sizeof spans / sizeof *spans) return;
  spans[count++] = {uint16_t(code >= 256 ? code - 256 : ROWS + code), uint8_t(registers), flags};
}

TkParty party(const Wave& w) {
  const uint32_t number = w.instances.empty() || w.pc >= w.instances.size() || !w.instances[w.pc] ? 0 : w.instances[w.pc] - 1;
  return {w.id, w.pc, number, w.epoch, w.epoch, 0};
}

Engine::Engine(const TkLaunch& l) : launch(l), counts(l.op_count), executed_by(l.watch ? l.op_count : 0), random_state_(l.seed * 2 + 1) {
  if (launch.watch) referee = std::make_unique<Referee>(*this);
  if (launch.dataless) unknown = std::make_unique<Unknown>(*this);
  else if (launch.algebra) algebra = std::make_unique<ring::Algebra>(*this);
  load();
  const bool plain = launch.policy == TO_BARRIER && launch.trace_wave == -1 && !launch.poison;
  if (referee && unknown && plain && !launch.every_pass) repetition = std::make_unique<Repetition>(*this);
}

Engine::~Engine() = default;

void Engine::load() {
  std::vector<const Info*> by_name(launch.name_count);
  for (uint64_t i = 0; i < launch.name_count; ++i) {
    const auto it = operations().find(launch.names[i]);
    by_name[i] = it == operations().end() ? nullptr : it->second;
  }
  handlers_.resize(launch.op_count, unknown_instruction);
  uses_.resize(launch.op_count);
  flows_.resize(launch.dataless ? launch.op_count : 0);
  infos_.resize(launch.op_count, nullptr);
  waits_.resize(launch.op_count);
  for (uint64_t i = 0; i < launch.op_count; ++i) {
    const Op& op = launch.ops[i];
    const Info* info = op.opcode < by_name.size() ? by_name[op.opcode] : nullptr;
    if (!info || op.flags & F_TRUNCATED) continue;
    Use use;
    use.info_flags = info->flags;
    const bool good = info->flags & MEMORY ? describe_memory(op, *info, launch.target, use) : describe(op, *info, use);
    if (!good || !legal(use)) {
      handlers_[i] = illegal_instruction;  // and no registers: the referee must not follow operands that do not exist
      continue;
    }
    handlers_[i] = op.flags & F_GDS && !begins(info->name, {"ds_gws_barrier"}) ? unsupported_instruction : info->run;
    uses_[i] = use;
    acquires |= begins(info->name, {"buffer_inv", "buffer_wbinvl1"});
    waits_[i] = begins(info->name, {"s_waitcnt", "s_nop", "buffer_inv", "buffer_wbinvl1"});
    if (unknown) flows_[i] = Unknown::describe(op, *info);
    if (algebra) algebra->rules[i] = ring::Algebra::describe(op, *info, launch.target);
    infos_[i] = info;
    lds_flags |= returning_lds_atomic(op, *info);
    for (int k = 0; launch.trace_wave != -1 && k < use.count; ++k) spans.push_back({uint32_t(i), use.spans[k].first, use.spans[k].count, uint32_t(use.spans[k].flags & Use::WRITES)});
  }
  polls.resize(launch.op_count);
  lds_flags &= referee && !unknown;  // without data no loop waits for any
  if (!referee || unknown) return;
  polls = polling_loads(launch, infos_, uses_);
  lds_polls = std::any_of(polls.begin(), polls.end(), [](uint8_t one) { return one & POLLS_LDS; });
  global_polls = std::any_of(polls.begin(), polls.end(), [](uint8_t one) { return one & POLLS_GLOBAL; });
  lds_flags |= lds_polls;
}

// Before the first block, for all the code that can be reached: whatever the waves do, the distances stay.
void Engine::check_wait_states() {
  for (const TooClose& pair : missing_wait_states(launch, infos_, uses_)) {
    const TkParty a = {0, pair.second, 0, 0, 0, 0}, b = {0, pair.first, 0, 0, 0, 1};
    if (TkFinding* f = report(WAIT_STATES, *waves[0], a, &b)) {
      f->size = pair.missing;
      f->lane = pair.needed;
      f->address = pair.reg < unsigned(ROWS) ? pair.reg : pair.reg - ROWS;
      f->space = pair.reg < unsigned(ROWS) ? 3 : 4;
    }
  }
}

const TkRegion* Engine::search(uint64_t address, uint64_t size) {
  const TkRegion *first = launch.regions, *last = first + launch.region_count;
  const TkRegion* r = std::upper_bound(first, last, address, [](uint64_t a, const TkRegion& x) { return a < x.base; });
  if (r == first) return nullptr;
  --r;
  if (address - r->base >= r->size || size > r->size - (address - r->base)) return nullptr;
  hint_ = uint64_t(r - first);
  return r;
}

uint32_t Engine::random(uint32_t below) {
  random_state_ = random_state_ * 6364136223846793005ull + 1442695040888963407ull;
  return uint32_t((random_state_ >> 33) % below);
}

// One entry per pair of instructions and kind; later ones only count.
TkFinding* Engine::report(FindingKind kind, const Wave& w, const TkParty& a, const TkParty* b) {
  (void)w;
  ++reports;
  if (repetition && repetition->walking()) return nullptr;  // the pass is taken back, and says it again
  const uint64_t key = uint64_t(kind) << 56 ^ uint64_t(a.index) << 28 ^ (b ? b->index + 1 : 0);
  const auto it = seen_.find(key);
  if (it != seen_.end()) {
    ++findings[it->second].count;
    return nullptr;
  }
  if (findings.size() >= MOST_FINDINGS) return nullptr;
  seen_.emplace(key, findings.size());
  TkFinding f = {};
  f.kind = kind;
  std::copy(block_id, block_id + 3, f.block);
  f.count = 1;
  f.a = a;
  f.b.index = NONE;
  if (b) f.b = *b;
  findings.push_back(f);
  const bool of_run = kind == WATCH_LIMIT || kind == DATA_DEPENDENT || kind == BUDGET || kind == DEADLOCK;
  if (launch.first_finding && !of_run) stopped = true;
  return &findings.back();
}

TkFinding* Engine::report(FindingKind kind, const Wave& w) { return report(kind, w, party(w)); }

void Engine::fatal(FindingKind kind, const Wave& w) {
  if (TkFinding* f = report(kind, w)) f->fatal = 1;
  stopped = true;
}

void Engine::start_wave(Wave& w, uint32_t id, uint32_t threads) {
  const TkLaunch& l = launch;
  for (auto& row : w.v) std::fill(row, row + LANES, UNDEFINED);
  std::fill(std::begin(w.s), std::end(w.s), UNDEFINED);
  w.engine = this;
  w.id = id;
  w.scc = w.priority = 0;
  w.mode = l.mode;
  w.pc = uint32_t(l.entry);
  w.executed = 0;
  w.epoch = 0;
  w.state = Wave::RUNNING;
  std::fill(std::begin(w.polls), std::end(w.polls), Wave::Poll{0, 0, NONE, 0});
  for (MemoryQueue* q : {&w.vector_ops, &w.lds_ops, &w.scalar_ops}) q->clear();
  w.scratch.assign(size_t(l.scratch_bytes) * LANES, 0);
  w.scratch_state.assign(l.watch ? w.scratch.size() : 0, 0);
  std::fill(std::begin(w.pending), std::end(w.pending), 0);
  w.instances.assign(l.watch ? l.op_count : 0, 0);

  const uint32_t first = id * LANES, active = std::min<uint32_t>(LANES, threads - first);
  w.started = active == LANES ? ~0ull : (1ull << active) - 1;
  w.absent = 0;
  w.set64(EXEC, w.started);
  w.set64(VCC, 0);
  // Work-item ids come packed in v0 on gfx90a and later: ten bits each.
  for (uint32_t i = 0; i < LANES; ++i) {
    const uint32_t t = first + i;
    w.v[0][i] = t % l.block[0] | t / l.block[0] % l.block[1] << 10 | t / l.block[0] / l.block[1] << 20;
  }
  std::fill(std::begin(w.defined), std::end(w.defined), 0);
  w.defined[0] = ~0ull;

  uint32_t n = 0;
  for (; n < l.user_sgpr_count; ++n) w.s[n] = l.user_sgprs[n];
  const uint32_t first_block_id = n;
  for (int d = 0; d < 3; ++d)
    if (l.block_id_enable >> d & 1) w.s[n++] = block_id[d];
  if (unknown) unknown->begin_wave(w, first_block_id, n - first_block_id);
  if (algebra) algebra->begin_wave(w);
  if (l.block_info_enable) w.s[n++] = 0;
  const uint64_t scratch_offset = uint64_t(id) * l.scratch_bytes * LANES;
  if (l.scratch_offset_enable) w.s[n++] = uint32_t(scratch_offset);
  w.set64(FLAT_SCRATCH, l.private_base);
}

void Engine::start_waves() {
  const uint64_t n = launch.grid[0], m = launch.grid[1];
  block_id[0] = uint32_t(block_linear % n);
  block_id[1] = uint32_t(block_linear / n % m);
  block_id[2] = uint32_t(block_linear / n / m);
  lds.resize(launch.lds_bytes);
  for (size_t i = 0; i + 4 <= lds.size(); i += 4) std::memcpy(lds.data() + i, &UNDEFINED, 4);
  lds_state.assign(launch.watch ? launch.lds_bytes : 0, 0);
  const uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  const uint32_t count = (threads + LANES - 1) / LANES;
  while (waves.size() < count) waves.push_back(std::make_unique<Wave>());
  if (algebra) algebra->begin_block(count);
  for (uint32_t i = 0; i < count; ++i) start_wave(*waves[i], i, threads);
  turn_ = 0;
  victim_ = random(count);
  block_instructions_ = 0;
  if (referee) referee->begin_block(launch.lds_bytes);
  if (repetition) repetition->begin_block();
}

// All waves that have not ended stand at a barrier: let them go on. False if there are none. "If some waves in the
// threadgroup have already terminated, this waits on only the surviving waves" (CDNA3 ISA, s_barrier).
bool Engine::meet() {
  const Wave *waiting = nullptr, *ended = nullptr;
  for (auto& w : waves) {
    if (w->state == Wave::BARRIER) waiting = w.get();
    else if (w->epoch) ended = w.get();  // one that left before its first barrier, as a guard of the grid's tail does, meant to
    if (launch.poison && !launch.split) reach_memory(*w);
  }
  if (!waiting) return false;
  if (ended) {
    TkParty a = party(*waiting), b = party(*ended);
    --a.index;  // s_barrier itself
    report(BARRIER_COUNT, *waiting, a, &b);
  }
  for (auto& w : waves)
    if (w->state == Wave::BARRIER) w->state = Wave::RUNNING, ++w->epoch;
  if (referee) referee->order.met();
  victim_ = random(uint32_t(waves.size()));
  if (repetition) repetition->met();
  return true;
}

// The wave to run next and for how many instructions, or null when none can run.
Wave* Engine::choose(uint64_t& quantum) {
  const uint32_t n = uint32_t(waves.size());
  std::vector<uint32_t> ready;
  for (uint32_t i = 0; i < n; ++i)
    if (waves[i]->state == Wave::RUNNING) ready.push_back(i);
  if (ready.empty()) return nullptr;
  // So that a wave that spins on another's work lets it run, and long before the block counts as endless.
  const uint64_t slice = std::min<uint64_t>(100000, std::max<uint64_t>(1, launch.budget / (8 * n)));
  switch (launch.policy) {
    case ROUND_ROBIN: {
      const auto it = std::upper_bound(ready.begin(), ready.end(), turn_);
      turn_ = it == ready.end() ? ready[0] : *it;
      quantum = 1;
      return waves[turn_].get();
    }
    case RANDOM:
      quantum = 1 + random(random(4) ? 8 : 128);
      return waves[ready[random(uint32_t(ready.size()))]].get();
    case ADVERSARIAL: {
      // One wave falls behind as far as barriers let it; the others run ahead in random order.
      quantum = slice;
      if (ready.size() > 1) ready.erase(std::remove(ready.begin(), ready.end(), victim_), ready.end());
      return waves[ready[random(uint32_t(ready.size()))]].get();
    }
    default: {
      // `turn_` runs until it stops at a barrier or its slice is over.
      const auto it = std::lower_bound(ready.begin(), ready.end(), turn_);
      const uint32_t chosen = it == ready.end() ? ready[0] : *it;
      turn_ = chosen + 1;
      quantum = slice;
      return waves[chosen].get();
    }
  }
}

bool Engine::advance(uint64_t instructions) {
  const uint64_t until = block_instructions_ > ~instructions ? ~0ull : block_instructions_ + instructions;
  while (!stopped) {
    if (*launch.cancel) return stopped = true;
    if (block_instructions_ >= until) return false;
    uint64_t quantum = 0;
    Wave* w = choose(quantum);
    if (!w) {
      if (std::any_of(waves.begin(), waves.end(), [](auto& each) { return each->state == Wave::GRID; })) return false;
      if (!meet()) return true;
      continue;
    }
    if (block_instructions_ >= launch.budget) {
      const Wave* waiting = nullptr;
      for (auto& other : waves)
        if (other->state == Wave::BARRIER) waiting = other.get();
      const auto runs_most = [](const auto& x, const auto& y) {  // of those that could go on
        return std::make_pair(x->state == Wave::RUNNING, x->executed) < std::make_pair(y->state == Wave::RUNNING, y->executed);
      };
      w = std::max_element(waves.begin(), waves.end(), runs_most)->get();
      TkParty a = party(*w), b = {};
      if (waiting) b = party(*waiting), --b.index;
      if (TkFinding* f = report(waiting ? DEADLOCK : BUDGET, *w, a, waiting ? &b : nullptr)) f->fatal = 1;
      return stopped = true;
    }
    quantum = std::min({quantum, launch.budget - block_instructions_, until - block_instructions_});
    const uint64_t before = w->executed;
    sleeps = false;
    if (referee) run<true>(*w, quantum);
    else run<false>(*w, quantum);
    block_instructions_ += w->executed - before;
    // A wave that spins may wait for the one that is held back.
    if (w->state == Wave::RUNNING && (sleeps || w->executed - before == quantum) && launch.policy == ADVERSARIAL) victim_ = w->id;
  }
  return true;
}

void Engine::trace_instruction(const Wave& w) {
  tracing = launch.trace_wave != -1 && (launch.trace_wave == -2 || uint32_t(launch.trace_wave) == w.id) && trace.size() < launch.trace_limit;
  if (tracing) trace.push_back({w.id, w.pc, -1, w.exec(), 0, 0, 0, 0});
}

// s_set_gpr_idx_on: M0 bits 0..7 are added to the vector operands that M0 bits 12..15 name (CDNA3 ISA, "VGPR Indexing"). Of
// accumulation registers it says nothing.
bool Engine::indexed(Wave& w, const Op& op, Op& shifted) {
  shifted = op;
  const char* name = infos_[w.pc] ? infos_[w.pc]->name : "";
  const uint32_t index = w.s[M0] & 255, which = w.s[M0] >> 12 & 15;
  const Use& use = uses_[w.pc];
  unsigned widest = 1;
  for (int i = 0; i < use.count; ++i) widest = std::max<unsigned>(widest, use.spans[i].count);
  uint16_t* operands[4] = {&shifted.src[0], &shifted.src[1], &shifted.src[2], &shifted.dst};
  // The constant of these is their second operand, so that the second register is their third.
  if (begins(name, {"v_madmk", "v_fmamk"})) std::swap(operands[1], operands[2]);
  for (int i = 0; i < 4; ++i) {
    if (!(which >> i & 1) || *operands[i] < 256) continue;
    if (*operands[i] % 256 + index + widest > 256) return false;
    *operands[i] = uint16_t(*operands[i] + index);
  }
  return true;
}

template <bool WATCH>
void Engine::run(Wave& w, uint64_t quantum) {
  const bool traced = launch.trace_wave != -1;
  for (; quantum && w.state == Wave::RUNNING && !stopped && !sleeps; --quantum) {
    const Op& op = launch.ops[w.pc];
    ++counts[w.pc];
    ++w.executed;
    w.next = w.pc + op.size / 4u;
    w.lanes = w.exec();
    if (traced) trace_instruction(w);
    if (uses_[w.pc].info_flags & MEMORY) make_room(w, op);
    if (WATCH) {
      ++w.instances[w.pc];
      executed_by[w.pc] |= 1ull << (w.id & 63);
      referee->check_registers(w, op, uses_[w.pc]);
    }
    if (w.indexes() && op.encoding >= ENC_VOP1 && op.encoding <= ENC_MFMA) {
      if (accumulates(uses_[w.pc]) || op.encoding == ENC_MFMA) return fatal(UNSUPPORTED, w);
      Op shifted;
      if (!indexed(w, op, shifted)) return fatal(ILLEGAL_OPERAND, w);
      Use touched;
      if (algebra) {
        touched.info_flags = infos_[w.pc]->flags;
        describe(shifted, *infos_[w.pc], touched);
        algebra->before(w, shifted, touched);
      }
      handlers_[w.pc](w, shifted);
      if (algebra) algebra->after(w, shifted, touched);
      if (WATCH && shifted.dst >= 256) w.defined[shifted.dst - 256] |= w.lanes;
    } else {
      const bool recorded = WATCH && repetition && repetition->recording();
      if (recorded) repetition->issues(w);
      const bool left_out = unknown && unknown->before(w, op, uses_[w.pc], flows_[w.pc]);
      if (stopped) return;  // of an access at an unknown address nothing else is known
      if (algebra) algebra->before(w, op, uses_[w.pc]);
      if (!left_out) handlers_[w.pc](w, op);
      if (algebra) algebra->after(w, op, uses_[w.pc]);
      if (recorded) repetition->issued(w, left_out);
      if (unknown) unknown->after(w, op, uses_[w.pc], flows_[w.pc]);
      if (WATCH) referee->define_registers(w, op, uses_[w.pc]);
    }
    if (WATCH && acquires && !waits_[w.pc]) referee->order.passed(w);
    if (stopped) return;
    if (w.next >= launch.op_count && w.state != Wave::ENDED) return fatal(BAD_JUMP, w);
    if (w.state != Wave::ENDED) w.pc = w.next;
  }
}

void Engine::run_block(uint64_t linear) {
  begin_block(linear);
  advance(~0ull);
  end_block();
}

void Engine::begin_block(uint64_t linear) {
  block_linear = linear;
  start_waves();
  if (referee && !instructions) check_wait_states();
}

void Engine::end_block() {
  instructions += block_instructions_ + (repetition ? repetition->instructions : 0);
  for (auto& w : waves) barriers.push_back(w->epoch);
  if (referee) referee->end_block();
}

// --- C interface ------------------------------------------------------------------------------------------------

struct TkResult {
  Engine engine;
};

TkResult* tk_new(const TkLaunch* launch) { return new TkResult{Engine(*launch)}; }
void tk_free(TkResult* r) { delete r; }

int tk_run(TkResult* r, const uint64_t* blocks, uint64_t count) {
  for (uint64_t i = 0; i < count && !r->engine.stopped; ++i) r->engine.run_block(blocks[i]);
  return r->engine.stopped;
}

int tk_run_together(TkResult** results, const uint64_t* blocks, uint64_t count) {
  std::vector<Engine*> engines;
  for (uint64_t i = 0; i < count; ++i) engines.push_back(&results[i]->engine);
  return run_together(engines, blocks);
}

int tk_block_dependent(const TkResult* r) { return r->engine.unknown && r->engine.unknown->block_dependent; }
uint64_t tk_instructions(const TkResult* r) { return r->engine.instructions; }
const uint64_t* tk_counts(const TkResult* r) { return r->engine.counts.data(); }

template <class T>
const T* hand_out(const std::vector<T>& v, uint64_t* count) {
  *count = v.size();
  return v.data();
}
const uint64_t* tk_executed_by(const TkResult* r, uint64_t* count) { return hand_out(r->engine.executed_by, count); }
const TkFinding* tk_findings(const TkResult* r, uint64_t* count) { return hand_out(r->engine.findings, count); }
const uint32_t* tk_barriers(const TkResult* r, uint64_t* count) { return hand_out(r->engine.barriers, count); }
const TkInterval* tk_intervals(const TkResult* r, uint64_t* count) { return hand_out(r->engine.intervals, count); }
const TkRelease* tk_releases(const TkResult* r, uint64_t* count) { return hand_out(r->engine.releases, count); }
const TkKnown* tk_known(TkResult* r, uint64_t* count) {
  Engine& engine = r->engine;
  engine.known.clear();
  for (uint32_t i = 0; i < engine.clocks.size(); ++i)
    for (const Known& x : engine.clocks[i]) engine.known.push_back({i, x.number, x.block});
  return hand_out(engine.known, count);
}
const TkLoss* tk_losses(TkResult* r, uint64_t* count) {
  Engine& engine = r->engine;
  engine.losses.clear();
  if (engine.algebra)
    for (const ring::Loss& loss : engine.algebra->losses)
      if (loss.count) engine.losses.push_back({loss.pc, loss.count, loss.reason});
  return hand_out(engine.losses, count);
}
uint32_t tk_ring_hash(const char* tag, uint32_t x, uint32_t field) { return uint32_t(ring::hash(ring::tag(tag), x) % (field ? ring::Q : ring::P)); }
uint32_t tk_ring_modulus(uint32_t field) { return field ? ring::Q : ring::P; }
TkFlags* tk_flags_new() { return new TkFlags; }
void tk_flags_free(TkFlags* flags) { delete flags; }
const TkTraceEntry* tk_trace(const TkResult* r, uint64_t* count) { return hand_out(r->engine.trace, count); }
const TkSpan* tk_spans(const TkResult* r, uint64_t* count) { return hand_out(r->engine.spans, count); }
const uint64_t* tk_trace_lanes(const TkResult* r, uint64_t* count) { return hand_out(r->engine.trace_lanes, count); }

const char* tk_operation(uint64_t i) {
  for (const Table& t : tables()) {
    if (i < t.count) return t.begin[i].name;
    i -= t.count;
  }
  return nullptr;
}
