// See repetition.h.
#include "repetition.h"

#include <algorithm>
#include <map>

namespace {

constexpr uint64_t FIRST = 48;         // barriers of a block before it is looked at: short ones are not worth it
constexpr uint64_t LONGEST = 64;       // barriers of a pass
constexpr uint64_t REST = 16;          // barriers between two attempts, doubled after each that failed up to
constexpr uint64_t MOST_REST = 1024;
constexpr uint64_t CHEAPER = 16;       // instructions of passes carried out again count as that part of one in the budget
constexpr uint64_t ASK = 256;          // passes between two looks at whether the launch was given up

// Everything of an outstanding access that the referee may still look at, epochs counted from where its wave stands.
bool same_access(const MemoryOp& a, uint32_t epoch_a, const MemoryOp& b, uint32_t epoch_b) {
  if (a.index != b.index || epoch_a - a.epoch != epoch_b - b.epoch || a.exec != b.exec || a.live != b.live) return false;
  if (a.queue != b.queue || a.access != b.access || a.lds != b.lds || a.dma != b.dma || a.hollow != b.hollow) return false;
  if (a.writable || b.writable || a.dst != b.dst || a.dst_count != b.dst_count || a.size != b.size || a.parts != b.parts) return false;
  if (std::memcmp(a.undefined, b.undefined, sizeof a.undefined)) return false;
  if (a.dma && a.lds_base != b.lds_base) return false;
  if (!a.lds) return true;
  if (a.parts == 2 && a.second != b.second) return false;
  for (int l = 0; l < LANES; ++l)
    if (a.live >> l & 1 && a.address[l] != b.address[l]) return false;
  return true;
}

}  // namespace

Repetition::Repetition(Engine& engine) : engine_(engine) {
  const TkLaunch& l = engine.launch;
  left_alone_.resize(l.op_count);
  forbidden_.resize(l.op_count);
  for (uint64_t i = 0; i < l.op_count; ++i) {
    const char* name = engine.infos_[i] ? engine.infos_[i]->name : "";
    left_alone_[i] = begins(name, {"s_waitcnt", "s_barrier", "s_nop", "s_setprio", "s_sleep"});
    forbidden_[i] = !*name || begins(name, {"s_endpgm", "s_set_gpr_idx", "s_setreg", "s_trap", "s_sethalt", "s_sendmsg", "buffer_inv", "buffer_wb"});
  }
}

void Repetition::begin_block() {
  instructions = 0;
  meets_ = 0;
  next_ = FIRST;
  rest_ = REST;
  recording_ = false;
}

Repetition::Stand Repetition::stand(const Wave& w) {
  Stand s{w.pc, w.epoch, w.mode, uint32_t(w.state), w.exec(), w.absent, {}, w.vector_ops.size(), w.lds_ops.size(), {}, {}, {}, {}};
  for (const MemoryQueue* q : {&w.vector_ops, &w.lds_ops, &w.scalar_ops})
    for (auto& m : *q) s.queued.push_back(*m);
  s.unknown.assign(std::begin(w.unknown), std::end(w.unknown));
  s.unknown.push_back(w.unknown_scc);
  s.unknown_lanes.assign(std::begin(w.unknown_lanes), std::end(w.unknown_lanes));
  s.defined.assign(std::begin(w.defined), std::end(w.defined));
  s.pending.assign(std::begin(w.pending), std::end(w.pending));
  return s;
}

bool Repetition::alike(const Stand& then, const Wave& w) const {
  const Stand now = stand(w);
  if (now.mode != then.mode || now.state != then.state || w.indexes() || now.exec != then.exec || now.absent != then.absent) return false;
  if (now.vector_ops != then.vector_ops || now.lds_ops != then.lds_ops || now.queued.size() != then.queued.size()) return false;
  if (now.unknown != then.unknown || now.unknown_lanes != then.unknown_lanes || now.defined != then.defined || now.pending != then.pending) return false;
  for (size_t i = 0; i < now.queued.size(); ++i)
    if (!same_access(then.queued[i], then.epoch, now.queued[i], now.epoch)) return false;
  return true;
}

// Whether the block stands as it stood when the recording began.
bool Repetition::begins_alike() const {
  for (auto& w : engine_.waves)
    if (w->pc != then_[w->id].pc) return false;
  for (auto& w : engine_.waves)
    if (!alike(then_[w->id], *w)) return false;
  return engine_.referee->touched_as(touched_, uint32_t(meets_ - began_));
}

void Repetition::begin() {
  then_.clear();
  for (auto& w : engine_.waves) then_.push_back(stand(*w));
  touched_ = engine_.referee->touched();
  paths_.assign(engine_.waves.size(), Path{});
  reports_ = engine_.reports;
  began_ = meets_;
  recording_ = possible_ = true;
}

void Repetition::give_up() {
  recording_ = false;
  next_ = meets_ + rest_;
  rest_ = std::min(2 * rest_, MOST_REST);
}

void Repetition::met() {
  ++meets_;
  if (!recording_) {
    if (meets_ >= next_) begin();
    return;
  }
  if (!possible_ || engine_.reports != reports_ || meets_ - began_ > LONGEST || engine_.referee->order.used()) return give_up();
  if (!begins_alike()) return;
  recording_ = false;
  finish_paths();
  if (const uint64_t passes = again()) go_on_from(passes);
  rest_ = REST;
  next_ = meets_ + rest_;
}

// The block stands behind so many passes more. What has been waited for may stay where it was: a barrier is behind it.
void Repetition::go_on_from(uint64_t passes) {
  for (auto& w : engine_.waves) {
    const Path& path = paths_[w->id];
    for (auto [pc, n] : path.executed) {
      engine_.counts[pc] += passes * n;
      w->instances[pc] += uint32_t(passes * n);
    }
    w->executed += passes * path.count;
    instructions += passes * path.count;
    if (w->state == Wave::ENDED) continue;
    const uint32_t epochs = uint32_t(passes * (meets_ - began_));
    w->epoch += epochs;
    for (MemoryQueue* q : {&w->vector_ops, &w->lds_ops, &w->scalar_ops})
      for (auto& m : *q) {
        const auto in_pass = std::lower_bound(path.executed.begin(), path.executed.end(), std::make_pair(m->index, uint64_t(0)));
        m->epoch += epochs, m->number += uint32_t(passes * in_pass->second);
      }
  }
}

void Repetition::issues(const Wave& w) {
  Path& path = paths_[w.id];
  path.steps.push_back({w.pc, 0, NONE, w.exec()});
  if (forbidden_[w.pc]) possible_ = false;
}

void Repetition::issued(const Wave& w, bool left_out) {
  Path& path = paths_[w.id];
  Step& step = path.steps.back();
  step.next = w.next;
  path.executed.push_back({w.pc, 1});
  ++path.count;
  if (left_out || left_alone_[w.pc]) path.steps.pop_back();
}

void Repetition::finish_paths() {
  for (Path& path : paths_) {
    std::map<uint32_t, uint64_t> times;
    for (auto [pc, n] : path.executed) times[pc] += n;
    path.executed.assign(times.begin(), times.end());
    for (const Step& step : path.steps) {
      if (step.access != NONE) continue;
      const Use& use = engine_.uses_[step.pc];
      for (int i = 0; i < use.count; ++i)
        for (unsigned r = use.spans[i].first; use.spans[i].flags & Use::WRITES && r < unsigned(use.spans[i].first) + use.spans[i].count; ++r)
          if (r < unsigned(ROWS)) path.rows.push_back(uint16_t(r));
    }
    std::sort(path.rows.begin(), path.rows.end());
    path.rows.erase(std::unique(path.rows.begin(), path.rows.end()), path.rows.end());
  }
}

Repetition::Lanes Repetition::lanes(const MemoryOp& m) const {
  Lanes l{m.hollow, NONE, m.dma ? m.lds_base : 0, {}};
  if (m.lds)
    for (int i = 0; i < LANES; ++i)
      if (m.live >> i & 1) l.at.push_back(uint32_t(m.address[i]));
  return l;
}

bool Repetition::takes(Wave& w, const MemoryOp& m) {
  if (walking_) {
    const Lanes &was = walking_->accesses[walking_->steps[step_].access], now = lanes(m);
    same_ &= was.hollow == now.hollow && was.base == now.base && was.at == now.at;
    return true;
  }
  if (!recording_) return false;
  // Whose contents count, or what others may write: not these. A load without contents leaves its registers alone.
  const bool elsewhere = m.queue == Queue::FLAT || m.private_lanes || m.writable;
  if (elsewhere || (m.access != Access::READ && !m.lds) || (m.dst_count && !m.hollow)) possible_ = false;
  Path& path = paths_[w.id];
  path.steps.back().access = uint32_t(path.accesses.size());
  path.accesses.push_back(lanes(m));
  const Use& use = engine_.uses_[w.pc];
  for (int i = 0; i < use.count && m.op->encoding == ENC_DS; ++i)
    if (use.spans[i].flags & Use::ADDRESS) path.accesses.back().row = use.spans[i].first, path.accesses.back().at.assign(w.v[use.spans[i].first], w.v[use.spans[i].first] + LANES);
  return false;
}

Repetition::Saved Repetition::save(const Wave& w, const Path& path) const {
  Saved s{{std::begin(w.s), std::end(w.s)}, {}, w.scc};
  s.rows.reserve(path.rows.size() * LANES);
  for (uint16_t r : path.rows) s.rows.insert(s.rows.end(), w.v[r], w.v[r] + LANES);
  return s;
}

void Repetition::restore(Wave& w, const Path& path, const Saved& saved) const {
  std::copy(saved.scalars.begin(), saved.scalars.end(), w.s);
  for (size_t i = 0; i < path.rows.size(); ++i) std::copy_n(saved.rows.begin() + long(i * LANES), LANES, w.v[path.rows[i]]);
  w.scc = saved.scc;
}

// One pass of a wave by its registers. False where it differs.
bool Repetition::walk(Wave& w, const Path& path) {
  const uint32_t begin = w.pc;
  const uint64_t exec = w.exec();
  walking_ = &path;
  same_ = true;
  for (step_ = 0; step_ < path.steps.size() && same_ && !engine_.stopped; ++step_) {
    const Step& step = path.steps[step_];
    const Op& op = engine_.launch.ops[step.pc];
    w.pc = step.pc;
    w.next = step.pc + op.size / 4u;
    w.lanes = w.exec();
    same_ = w.exec() == step.exec;
    if (!same_) break;
    if (step.access != NONE && path.accesses[step.access].row != NONE) {
      const Lanes& was = path.accesses[step.access];
      same_ = !std::memcmp(w.v[was.row], was.at.data(), sizeof w.v[0]);
      continue;
    }
    engine_.handlers_[step.pc](w, op);
    same_ &= w.next == step.next;
  }
  walking_ = nullptr;
  w.pc = begin;
  return same_ && w.exec() == exec;
}

// Carries out passes until one differs, and says how many did not.
uint64_t Repetition::again() {
  uint64_t cost = 0, passes = 0;
  for (const Path& path : paths_) cost += path.count;
  std::vector<Saved> saved(paths_.size());
  while (passes % ASK || !*engine_.launch.cancel) {
    if ((instructions + passes * cost) / CHEAPER >= engine_.launch.budget) {
      engine_.block_instructions_ = engine_.launch.budget;
      break;
    }
    for (auto& w : engine_.waves) saved[w->id] = save(*w, paths_[w->id]);
    bool same = true;
    for (auto& w : engine_.waves)
      if (same && w->state != Wave::ENDED) same = walk(*w, paths_[w->id]);
    if (!same || engine_.stopped || engine_.reports != reports_) {
      for (auto& w : engine_.waves) restore(*w, paths_[w->id], saved[w->id]);
      engine_.reports = reports_;
      break;
    }
    ++passes;
    bool still = true;
    for (auto& w : engine_.waves) still = still && saved[w->id] == save(*w, paths_[w->id]);
    if (still) engine_.block_instructions_ = engine_.launch.budget;  // and so it goes on for ever
    if (still) break;
  }
  return passes;
}
