// See flags.h for the rule.
#include "flags.h"

#include <algorithm>
#include <tuple>

namespace {

constexpr size_t MOST_PERHAPS = 1 << 16;  // dwords of stores that are remembered as flags, though they may be none
constexpr size_t COMPARED = 16;           // of the last clocks, to find one that is the same

auto key(const Known& x) { return std::tie(x.block, x.wave, x.written_back, x.number); }

}  // namespace

void join(Clock& into, const Clock& other) {
  if (other.empty()) return;
  Clock both;
  std::merge(into.begin(), into.end(), other.begin(), other.end(), std::back_inserter(both), [](const Known& a, const Known& b) { return key(a) < key(b); });
  into.clear();
  for (size_t i = 0; i < both.size();) {
    const Known* last[2] = {nullptr, nullptr};
    const size_t first = i;
    for (; i < both.size() && both[i].block == both[first].block && both[i].wave == both[first].wave; ++i) last[both[i].written_back] = &both[i];
    if (last[0] && !(last[1] && last[1]->number > last[0]->number)) into.push_back(*last[0]);
    if (last[1]) into.push_back(*last[1]);
  }
}

Flag flag_of(const Engine& e, const MemoryOp& m) {
  const bool old = e.launch.target == GFX90A;
  if (m.access == Access::ATOMIC) return m.dst_count ? OF_ALL : SUM;
  if (!old) return m.op->flags & F_SC1 ? OF_ALL : m.op->flags & F_SC0 && !e.launch.split ? OF_BLOCK : PLAIN;
  if (m.access == Access::READ) return m.op->flags & F_SC0 ? OF_ALL : e.global_polls && e.polls[m.index] & POLLS_GLOBAL ? POLLED : PLAIN;
  const bool one_lane = m.live && !(m.live & (m.live - 1));
  if (e.acquires && one_lane && m.parts == 1 && (m.size == 4 || m.size == 8)) return PERHAPS;
  return e.global_polls && m.parts == 1 && m.size <= 8 ? STORED : PLAIN;
}

bool apart(Flag a, Flag b) {
  if (a == PLAIN || b == PLAIN) return false;
  if (a == STORED || b == STORED) return a == POLLED || b == POLLED;
  if (a == PERHAPS || b == PERHAPS) return a == OF_ALL || b == OF_ALL || a == POLLED || b == POLLED;
  return true;
}

bool of_block(Flag a) { return a == POLLED || a == STORED; }

bool adds_floats(const char* name) { return std::strstr(name, "_add_f") || std::strstr(name, "_add_bf"); }

void Order::begin_block(size_t waves, size_t lds_bytes) {
  in_lds_.assign(engine_.lds_flags ? (lds_bytes + 3) / 4 : 0, 0);
  polled_.assign(in_lds_.size(), false);
  waves_.assign(waves, Knows{});
  released_.clear();
  of_block_.clear();
  released_at_.clear();
  given_.clear();
  given_to_block_.clear();
  polled_in_global_.clear();
}

uint32_t Order::intern(Clock clock) {
  const size_t count = engine_.clocks.size();
  for (size_t i = count; i-- > 0 && count - i <= COMPARED;)
    if (engine_.clocks[i] == clock) return uint32_t(i);
  engine_.clocks.push_back(std::move(clock));
  return uint32_t(count);
}

Clock Order::give(const Wave& w, Flag flag) {
  across_ = true;
  return release(w, flag == OF_BLOCK);
}

Clock Order::release(const Wave& w, bool of_block) {
  const uint32_t block = uint32_t(engine_.block_linear), number = releases();
  const bool one_l2 = engine_.launch.target == GFX90A;
  released_.push_back({block, number, w.id, w.epoch, one_l2});
  of_block_.push_back(of_block);
  released_at_.push_back(w.executed);
  engine_.releases.push_back(released_.back());
  Clock mine{{block, w.id, number, one_l2}};
  join(mine, engine_.clocks[waves_[w.id].clock]);
  join(mine, waves_[w.id].written);
  return mine;
}

void Order::take(const Wave& w, const Clock& given) {
  across_ = true;
  Clock now = engine_.clocks[waves_[w.id].clock];
  join(now, given);
  waves_[w.id].clock = intern(std::move(now));
}

void Order::released(const Wave& w, const MemoryOp& m, Flag flag) {
  if (flag != STORED) releases_to_all(w, m, flag);
  if (flag != STORED && flag != PERHAPS) return;
  if (!engine_.global_polls) return;
  const Clock mine = release(w, true);
  for (int l = 0; l < LANES; ++l)
    if (m.live >> l & 1) given_to_block_[m.address[l] >> 2] = mine;
}

void Order::releases_to_all(const Wave& w, const MemoryOp& m, Flag flag) {
  TkFlags& flags = *engine_.launch.flags;
  std::lock_guard<std::mutex> lock(flags.mutex);
  if (flag == PERHAPS) {
    const uint64_t at = m.address[__builtin_ctzll(m.live)] >> 2;
    if (!flags.at.count(at) && ++flags.perhaps > MOST_PERHAPS) return;
  }
  const Clock mine = give(w, flag);
  const bool goes_on = m.access == Access::ATOMIC;  // with the sequence that others began
  for (int l = 0; l < LANES; ++l) {
    if (!(m.live >> l & 1)) continue;
    Clock &here = given_[m.address[l] >> 2], &there = flags.at[m.address[l] >> 2];
    if (!goes_on) here.clear(), there.clear();
    join(here, mine);
    if (flag != OF_BLOCK) join(there, mine);
  }
}

uint32_t Order::joined(uint32_t one, uint32_t other) {
  if (!one || !other || one == other) return one ? one : other;
  Clock both = engine_.clocks[one];
  join(both, engine_.clocks[other]);
  return both == engine_.clocks[one] ? one : intern(std::move(both));
}

void Order::releases_lds(const Wave& w, MemoryOp& m) { m.given = intern(release(w, true)), m.release = releases() - 1; }

void Order::lds_holds(const MemoryOp& m, uint64_t address) {
  uint32_t& here = in_lds_[address >> 2];
  here = m.access == Access::ATOMIC ? joined(here, m.given) : m.given;  // an atomic operation goes on with what others began
}

void Order::reads_lds(MemoryOp& m, uint64_t address) {
  if (engine_.polls[m.index]) polled_[address >> 2] = true;
  m.acquires = joined(m.acquires, in_lds_[address >> 2]);
}

void Order::acquired_lds(const Wave& w, const MemoryOp& m) {
  if (m.acquires) now_knows(w, engine_.clocks[m.acquires]);
}

void Order::written_back(const Wave& w, uint32_t epoch) {
  across_ = true;
  const uint32_t block = uint32_t(engine_.block_linear), number = releases();
  released_.push_back({block, number, w.id, epoch, 1});
  of_block_.push_back(false);
  released_at_.push_back(0);  // no flag
  engine_.releases.push_back(released_.back());
  join(waves_[w.id].written, {{block, w.id, number, true}});
}

// The wave's own releases, which a flag gives back to it, order nothing for it.
void Order::now_knows(const Wave& w, const Clock& more) {
  Knows& known = waves_[w.id];
  Clock now = engine_.clocks[known.clock];
  Clock others;
  for (const Known& x : more)
    if (x.block != engine_.block_linear || x.wave != w.id) others.push_back(x);
  join(now, others);
  if (!(now == engine_.clocks[known.clock])) known.clock = intern(std::move(now));
}

void Order::acquired(const Wave& w, const MemoryOp& m, Flag flag) {
  TkFlags& flags = *engine_.launch.flags;
  std::lock_guard<std::mutex> lock(flags.mutex);
  Clock found;
  for (int l = 0; l < LANES; ++l) {
    if (!(m.live >> l & 1)) continue;
    const uint64_t at = m.address[l] >> 2;
    const auto here = given_.find(at);
    if (here != given_.end()) join(found, here->second);
    const auto there = flags.at.find(at);
    if (flag != OF_BLOCK && flag != POLLED && there != flags.at.end()) join(found, there->second);
    const auto stored = given_to_block_.find(at);
    if (flag == POLLED && stored != given_to_block_.end()) join(found, stored->second);
  }
  across_ |= !found.empty();
  if (flag == OF_BLOCK || flag == POLLED) now_knows(w, found);
  else if (!found.empty()) join(waves_[w.id].pending[m.index], found);
}

void Order::reads(const Wave& w, const MemoryOp& m) { waves_[w.id].just_read.emplace_back(m.index, w.executed); }

void Order::polls_global(const MemoryOp& m) {
  for (int l = 0; l < LANES; ++l)
    if (m.live >> l & 1) polled_in_global_.insert(m.address[l] >> 2);
}

void Order::passed(const Wave& w) {
  auto& just_read = waves_[w.id].just_read;
  if (!just_read.empty() && just_read.back().second != w.executed) just_read.clear();
}

void Order::invalidated(const Wave& w) {
  Knows& known = waves_[w.id];
  Clock taken;
  for (const auto& read : known.just_read) {
    join(taken, known.pending[read.first]);
    known.pending.erase(read.first);
  }
  if (known.just_read.empty()) {
    for (const auto& pending : known.pending) join(taken, pending.second);
    known.pending.clear();
  }
  if (!taken.empty()) now_knows(w, taken);
}

void Order::met() {
  Clock all, written;
  std::unordered_map<uint32_t, Clock> pending;
  for (const Knows& known : waves_) {
    if (known.clock) join(all, engine_.clocks[known.clock]);
    for (const auto& read : known.pending) join(pending[read.first], read.second);
    join(written, known.written);
  }
  if (all.empty() && pending.empty() && written.empty()) return;
  const uint32_t clock = intern(std::move(all));
  for (Knows& known : waves_) known = {clock, pending, {}, written};
}

uint32_t Order::seen(const Wave& w) {
  if (waves_.empty()) return 0;
  const Knows& known = waves_[w.id];
  if (known.pending.empty()) return known.clock;
  Clock all = engine_.clocks[known.clock];
  for (const auto& pending : known.pending) join(all, pending.second);
  return intern(std::move(all));
}

uint32_t Order::lacks(const Side& of, uint32_t clock, uint32_t seen) const {
  const auto flag = [&](uint32_t at) -> const Known* {  // the last one of that wave, if it is later than the access
    const Known* last = nullptr;
    for (const Known& x : engine_.clocks[at])
      if (x.block == engine_.block_linear && released_[x.number].wave == of.wave && released_at_[x.number] > of.issued_at) last = &x;
    return last;
  };
  const Known* last = flag(seen);
  if (!last) return 0;
  const uint32_t covers = before(of.wave, of.epoch, NONE, of.completed, NONE, seen) ? 0 : NO_RELEASE;
  return covers | (flag(clock) ? 0 : NO_ACQUIRE) | (of_block_[last->number] ? 0 : WIDE_FLAG);
}

bool Order::before(uint32_t wave, uint32_t epoch, uint32_t issued, uint32_t completed, uint32_t own, uint32_t clock) const {
  for (const Known& entry : engine_.clocks[clock]) {
    if (entry.block != engine_.block_linear) continue;
    const TkRelease& r = released_[entry.number];
    if (r.wave == wave && own <= r.number) return true;
    if (r.wave != wave ? epoch < r.epoch : (of_block_[entry.number] && issued != NONE ? issued : completed) <= r.number) return true;
  }
  return false;
}
