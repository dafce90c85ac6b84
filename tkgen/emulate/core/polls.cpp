// See polls.h.
#include "polls.h"

#include <algorithm>
#include <set>
#include <string>

#include "paths.h"
#include "unknown.h"

namespace {

using Places = std::set<uint32_t>;  // dword indices

constexpr unsigned SCC = ROWS + SCALARS + 16, REGISTERS = SCC + 1;
constexpr size_t LONGEST = 1024;  // instructions of a loop that may wait
constexpr int DEEPEST = 16;       // instructions that an address is followed back through
constexpr size_t AHEAD = 64;      // instructions between a first look and the loop

bool is(const char* name, const char* other) { return !std::strcmp(name, other); }

class Polls {
 public:
  Polls(const TkLaunch& launch, const std::vector<const Info*>& infos, const std::vector<Use>& uses)
      : launch_(launch), infos_(infos), uses_(uses), before_(launch.op_count) {}

  std::vector<uint8_t> all() {
    std::vector<uint8_t> found(launch_.op_count);
    std::vector<uint32_t> candidates;
    for (uint32_t at = 0; at < launch_.op_count; ++at)
      if (infos_[at] && (gives_lds(launch_.ops[at], *infos_[at]) || gives_global(launch_.ops[at], *infos_[at]))) candidates.push_back(at);
    if (candidates.empty()) return found;
    map();
    for (uint32_t at : candidates) {
      Loop* loop = innermost(at);
      found[at] = loop && !loop->meets && stays(at, loop->places) && decides(at, *loop);
    }
    for (uint32_t at : candidates)
      if (!found[at]) found[at] = looks_ahead(at, found);
    for (uint32_t at : candidates) {
      const Op& op = launch_.ops[at];
      if (found[at]) found[at] = (gives_lds(op, *infos_[at]) ? POLLS_LDS : 0) | (gives_global(op, *infos_[at]) ? POLLS_GLOBAL : 0);
    }
    return found;
  }

 private:
  struct Loop {
    Places places;
    bool meets;                  // has a barrier
    std::vector<bool> decisive;  // registers that decide whether it ends, once they are asked for
  };

  static bool gives_lds(const Op& op, const Info& info) {
    if (!(info.flags & MEMORY) || info.flags & CROSS_LANE || !info.dst) return false;
    if (op.encoding == ENC_DS) return begins(info.name, {"ds_read"}) ? !std::strstr(info.name, "addtid") : returning_lds_atomic(op, info);
    return op.encoding == ENC_FLAT && (begins(info.name, {"flat_load"}) || returning_lds_atomic(op, info));
  }

  bool gives_global(const Op& op, const Info& info) const {
    if (launch_.target != GFX90A || launch_.split || op.flags & (F_SC0 | F_LDS) || !info.dst) return false;
    return begins(info.name, {"global_load_", "flat_load_"});
  }

  // The registers of an address.
  static std::vector<unsigned> address(const Op& op) {
    std::vector<unsigned> found{op.src[0] - 256u};
    if (op.encoding == ENC_GLOBAL && op.flags & F_SADDR) found.insert(found.end(), {unsigned(ROWS) + op.src[2], unsigned(ROWS) + op.src[2] + 1u});
    else if (op.encoding != ENC_DS) found.push_back(found[0] + 1);
    return found;
  }

  // Who comes before whom, and the loops.
  void map() {
    std::vector<std::pair<uint32_t, uint32_t>> back;
    std::vector<uint32_t> todo{uint32_t(launch_.entry)}, next;
    std::vector<bool> seen(launch_.op_count);
    while (!todo.empty()) {
      const uint32_t at = todo.back();
      todo.pop_back();
      if (at >= launch_.op_count || seen[at] || !infos_[at]) continue;
      seen[at] = true;
      next.clear();
      successors(launch_, infos_, at, true, next);
      for (uint32_t n : next) {
        if (n >= launch_.op_count) continue;
        before_[n].push_back(at);
        if (n <= at) back.emplace_back(at, n);
        todo.push_back(n);
      }
    }
    for (const auto& edge : back) {
      const Places ahead = reached(edge.second, edge.first, false), behind = reached(edge.first, edge.second, true);
      if (ahead.size() > LONGEST || behind.size() > LONGEST) continue;
      Loop loop{{}, false, {}};
      std::set_intersection(ahead.begin(), ahead.end(), behind.begin(), behind.end(), std::inserter(loop.places, loop.places.end()));
      for (uint32_t n : loop.places) loop.meets |= infos_[n] && begins(infos_[n]->name, {"s_barrier"});
      loops_.push_back(std::move(loop));
    }
  }

  // The places from `from` on, or back from it, beyond `last` none.
  Places reached(uint32_t from, uint32_t last, bool back) const {
    Places found{from};
    std::vector<uint32_t> todo{from}, next;
    while (!todo.empty() && found.size() <= LONGEST) {
      const uint32_t at = todo.back();
      todo.pop_back();
      if (at == last || !infos_[at]) continue;
      next.clear();
      if (back) next = before_[at];
      else successors(launch_, infos_, at, true, next);
      for (uint32_t n : next)
        if (n < launch_.op_count && found.insert(n).second) todo.push_back(n);
    }
    return found;
  }

  Loop* innermost(uint32_t at) {
    Loop* least = nullptr;
    for (Loop& loop : loops_)
      if (loop.places.count(at) && (!least || loop.places.size() < least->places.size())) least = &loop;
    return least;
  }

  // The registers that an instruction reads or writes beside those of its `Use`.
  void hidden(uint32_t at, std::vector<unsigned>& reads, std::vector<unsigned>& writes) const {
    const Flow flow = Unknown::describe(launch_.ops[at], *infos_[at]);
    const char* name = infos_[at]->name;
    const auto two = [](std::vector<unsigned>& into, unsigned first) { into.push_back(ROWS + first), into.push_back(ROWS + first + 1); };
    if (flow.bits & Flow::READS_SCC) reads.push_back(SCC);
    if (flow.bits & Flow::SETS_SCC) writes.push_back(SCC);
    if (flow.bits & Flow::READS_MASK) two(reads, flow.mask);
    if (flow.bits & Flow::WRITES_MASK) two(writes, launch_.ops[at].flags & F_SDST ? launch_.ops[at].sdst : uint16_t(VCC));
    if (flow.bits & Flow::READS_VCC || begins(name, {"s_cbranch_vcc"})) two(reads, VCC);
    if (flow.bits & Flow::READS_EXEC || begins(name, {"s_cbranch_exec"})) two(reads, EXEC);
    if (flow.bits & Flow::WRITES_EXEC) two(writes, EXEC);
  }

  void registers(uint32_t at, std::vector<unsigned>& reads, std::vector<unsigned>& writes) const {
    reads.clear(), writes.clear();
    const Use& use = uses_[at];
    for (int i = 0; i < use.count; ++i)
      for (unsigned r = 0; r < use.spans[i].count; ++r) (use.spans[i].flags & Use::WRITES ? writes : reads).push_back(use.spans[i].first + r);
    hidden(at, reads, writes);
  }

  // Whether a branch out of the loop depends on what the load gives.
  bool decides(uint32_t load, Loop& loop) const {
    if (loop.decisive.empty()) trace_back(loop);
    std::vector<unsigned> reads, writes;
    registers(load, reads, writes);
    return std::any_of(writes.begin(), writes.end(), [&](unsigned r) { return loop.decisive[r]; });
  }

  void trace_back(Loop& loop) const {
    loop.decisive.resize(REGISTERS);
    std::vector<unsigned> reads, writes;
    std::vector<uint32_t> next;
    for (uint32_t at : loop.places) {
      if (!infos_[at] || !begins(infos_[at]->name, {"s_cbranch"})) continue;
      next.clear();
      successors(launch_, infos_, at, true, next);
      if (std::all_of(next.begin(), next.end(), [&](uint32_t n) { return loop.places.count(n); })) continue;
      registers(at, reads, writes);
      for (unsigned r : reads) loop.decisive[r] = true;
    }
    for (bool more = true; more;) {
      more = false;
      for (uint32_t at : loop.places) {
        if (!infos_[at]) continue;
        registers(at, reads, writes);
        if (std::none_of(writes.begin(), writes.end(), [&](unsigned r) { return loop.decisive[r]; })) continue;
        for (unsigned r : reads)
          if (!loop.decisive[r]) loop.decisive[r] = more = true;
      }
    }
  }

  // Whether the address of the load is the same in each iteration.
  bool stays(uint32_t load, const Places& loop) const {
    std::vector<std::pair<unsigned, uint32_t>> open;
    for (unsigned r : address(launch_.ops[load]))
      if (!same(r, load, loop, open)) return false;
    return true;
  }

  // Whether a register holds the same at a place whenever an iteration comes by.
  bool same(unsigned reg, uint32_t at, const Places& loop, std::vector<std::pair<unsigned, uint32_t>>& open) const {
    std::vector<unsigned> reads, writes;
    Places seen;
    std::vector<uint32_t> todo{at};
    while (!todo.empty()) {
      const uint32_t from = todo.back();
      todo.pop_back();
      for (uint32_t n : before_[from]) {
        if (!loop.count(n) || !seen.insert(n).second) continue;
        registers(n, reads, writes);
        if (std::find(writes.begin(), writes.end(), reg) == writes.end()) {
          todo.push_back(n);
          continue;
        }
        const std::pair<unsigned, uint32_t> here{reg, n};
        if (uses_[n].info_flags & MEMORY || open.size() >= DEEPEST || std::find(open.begin(), open.end(), here) != open.end()) return false;
        open.push_back(here);
        const std::vector<unsigned> sources = reads;
        const bool constant = std::all_of(sources.begin(), sources.end(), [&](unsigned r) { return same(r, n, loop, open); });
        open.pop_back();
        if (!constant) return false;
      }
    }
    return true;
  }

  // A first look in front of the loop, as compilers turn `while (look()) {..}` into `if (look()) do {..} while (look())`.
  bool looks_ahead(uint32_t at, const std::vector<uint8_t>& polls) const {
    const Op& first = launch_.ops[at];
    std::vector<uint32_t> todo{at}, next;
    Places seen;
    while (!todo.empty() && seen.size() < AHEAD) {
      const uint32_t from = todo.back();
      todo.pop_back();
      if (!infos_[from] || begins(infos_[from]->name, {"s_barrier"})) continue;
      next.clear();
      successors(launch_, infos_, from, false, next);
      for (uint32_t n : next) {
        if (n >= launch_.op_count || !seen.insert(n).second) continue;
        const Op& op = launch_.ops[n];
        const bool alike = polls[n] && op.opcode == first.opcode && op.offset == first.offset && op.flags == first.flags;
        if (alike && same_address(at, n)) return true;
        todo.push_back(n);
      }
    }
    return false;
  }

  bool same_address(uint32_t one, uint32_t other) const {
    const std::vector<unsigned> mine = address(launch_.ops[one]), theirs = address(launch_.ops[other]);
    if (mine.size() != theirs.size()) return false;
    for (size_t i = 0; i < mine.size(); ++i) {
      const std::string a = value(mine[i], one, 0), b = value(theirs[i], other, 0);
      if (a.empty() || a != b) return false;
    }
    return true;
  }

  // How a register's value before a place is made, in words: from constants, and registers where several ways meet. Empty where
  // that goes too far back.
  std::string value(unsigned reg, uint32_t at, int depth) const {
    std::vector<unsigned> reads, writes;
    Places seen, makers;
    std::vector<uint32_t> todo{at};
    while (!todo.empty()) {
      const uint32_t from = todo.back();
      todo.pop_back();
      for (uint32_t n : before_[from]) {
        if (!seen.insert(n).second) continue;
        registers(n, reads, writes);
        if (std::find(writes.begin(), writes.end(), reg) == writes.end()) todo.push_back(n);
        else makers.insert(n);
      }
      if (seen.size() > LONGEST) return "";
    }
    std::string made = "r" + std::to_string(reg);
    const uint32_t maker = makers.size() == 1 ? *makers.begin() : NONE;
    if (maker == NONE || uses_[maker].info_flags & MEMORY || depth == DEEPEST) {
      for (uint32_t n : makers) made += "@" + std::to_string(n);
      return made;
    }
    registers(maker, reads, writes);
    const Op& op = launch_.ops[maker];
    made = std::to_string(op.opcode) + (writes.front() == reg ? "" : "+");
    for (uint16_t source : op.src) made += "," + (source < SCALARS || source >= 256 ? "" : std::to_string(source));
    made += "," + std::to_string(op.literal) + "," + std::to_string(op.offset);
    const std::vector<unsigned> sources = reads;
    for (unsigned r : sources) made += "(" + value(r, maker, depth + 1) + ")";
    return made.size() > LONGEST ? "" : made;
  }

  const TkLaunch& launch_;
  const std::vector<const Info*>& infos_;
  const std::vector<Use>& uses_;
  std::vector<std::vector<uint32_t>> before_;
  std::vector<Loop> loops_;
};

}  // namespace

bool returning_lds_atomic(const Op& op, const Info& info) {
  if (op.encoding == ENC_FLAT) return begins(info.name, {"flat_atomic"}) && op.flags & F_SC0;
  return op.encoding == ENC_DS && (std::strstr(info.name, "_rtn_") || is(info.name, "ds_append") || is(info.name, "ds_consume"));
}

std::vector<uint8_t> polling_loads(const TkLaunch& launch, const std::vector<const Info*>& infos, const std::vector<Use>& uses) {
  return Polls(launch, infos, uses).all();
}
