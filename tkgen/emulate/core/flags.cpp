// See flags.h for the rule.
#include "flags.h"

#include <algorithm>

void join(Clock& into, const Clock& other) {
  Clock both;
  std::set_union(into.begin(), into.end(), other.begin(), other.end(), std::back_inserter(both));
  into.swap(both);
}

bool is_scoped(const Op& op, Access access, uint32_t target) {
  if (target == GFX90A) return access == Access::READ && op.flags & F_SC0;
  return op.flags & F_SC1;
}

bool adds_floats(const char* name) { return std::strstr(name, "_add_f") || std::strstr(name, "_add_bf"); }

void Order::begin_block(size_t waves) {
  waves_.assign(waves, Known{});
  released_.clear();
}

uint32_t Order::intern(Clock clock) {
  for (size_t i = engine_.clocks.size(); i-- > 0;)  // mostly the last
    if (engine_.clocks[i] == clock) return uint32_t(i);
  engine_.clocks.push_back(std::move(clock));
  return uint32_t(engine_.clocks.size() - 1);
}

void Order::released(const Wave& w, const MemoryOp& m) {
  const uint32_t block = uint32_t(engine_.block_linear), number = releases();
  released_.push_back({block, number, w.id, w.epoch, engine_.launch.target == GFX90A});
  engine_.releases.push_back(released_.back());
  Clock given{uint64_t(block) << 32 | number};
  join(given, engine_.clocks[waves_[w.id].clock]);
  join(given, waves_[w.id].written);
  TkFlags& flags = *engine_.launch.flags;
  std::lock_guard<std::mutex> lock(flags.mutex);
  for (int l = 0; l < LANES; ++l) {
    if (!(m.live >> l & 1)) continue;
    Clock& at = flags.at[m.address[l] >> 2];
    if (m.access == Access::ATOMIC) join(at, given);  // goes on with the sequence that others began
    else at = given;
  }
}

void Order::written_back(const Wave& w, uint32_t epoch) {
  const uint32_t block = uint32_t(engine_.block_linear), number = releases();
  released_.push_back({block, number, w.id, epoch, 1});
  engine_.releases.push_back(released_.back());
  Clock& written = waves_[w.id].written;  // covers what the wave's earlier ones did
  const auto own = [&](uint64_t entry) { return released_[uint32_t(entry)].wave == w.id; };
  written.erase(std::remove_if(written.begin(), written.end(), own), written.end());
  written.push_back(uint64_t(block) << 32 | number);
}

void Order::acquired(const Wave& w, const MemoryOp& m) {
  TkFlags& flags = *engine_.launch.flags;
  std::lock_guard<std::mutex> lock(flags.mutex);
  for (int l = 0; l < LANES; ++l) {
    if (!(m.live >> l & 1)) continue;
    const auto found = flags.at.find(m.address[l] >> 2);
    if (found != flags.at.end()) join(waves_[w.id].pending, found->second);
  }
}

void Order::invalidated(const Wave& w) {
  Known& known = waves_[w.id];
  if (known.pending.empty()) return;
  Clock now = engine_.clocks[known.clock];
  join(now, known.pending);
  known.pending.clear();
  known.clock = intern(std::move(now));
}

void Order::met() {
  Clock all, pending, written;
  for (const Known& known : waves_) {
    if (known.clock) join(all, engine_.clocks[known.clock]);
    if (!known.pending.empty()) join(pending, known.pending);
    if (!known.written.empty()) join(written, known.written);
  }
  if (all.empty() && pending.empty() && written.empty()) return;
  const uint32_t clock = intern(std::move(all));
  for (Known& known : waves_) known = {clock, pending, written};
}

bool Order::before(uint32_t wave, uint32_t epoch, uint32_t completed, uint32_t clock) const {
  for (uint64_t entry : engine_.clocks[clock]) {
    if (entry >> 32 != engine_.block_linear) continue;
    const TkRelease& r = released_[uint32_t(entry)];
    if (r.wave == wave ? completed <= r.number : epoch < r.epoch) return true;
  }
  return false;
}
