// Order through flags in global memory: a wave that reads what another released, and then drops what its cache held, comes
// after all that the other had done.
//
// Which accesses are flags. An access of agent or system scope (SC1 from gfx942 on; on gfx90a GLC of a load) and every atomic
// operation: they do not race with each other. LLVM gives an atomic load or store these bits (AMDGPUUsage, "Memory Model gfx942":
// "load atomic monotonic agent: sc1=1", "store atomic monotonic agent: sc1=1"; "gfx90a": "glc=1" of loads). On gfx90a an atomic
// store looks as a plain one does, and is taken for one.
//
// Releases. A store or an atomic operation of these is one of its wave: it covers the wave's own accesses that had been waited
// for (the model's release waits for vmcnt(0) before it), and what other waves of the block had issued before the last barrier.
// From gfx942 on the XCDs of a GPU have an L2 each: what a block has stored, other blocks see only once it was written back, by
// buffer_wbl2 sc1 that the wave has waited for ("Memory Model gfx942": "buffer_wbl2 sc1=1: Performs L2 writeback to ensure previous
// global/generic store/atomicrmw are visible at agent scope"). So a release covers plain stores as far as the last writeback that
// its wave knows of, its own or one before a barrier. On gfx90a all waves of a GPU share one L2.
// Acquires. A load, or an atomic operation that returns, takes over what its address was last given, but the wave is only after
// it once it has executed buffer_inv sc1 (gfx90a: buffer_wbinvl1_vol), without which the L1 may serve older lines. A barrier
// passes on to all waves what each of them knows, and what each has read: their L1 is one, any of them may invalidate it.
#pragma once
#include <mutex>

#include "machine.h"

// Releases known: block << 32 | number of its release, in order.
using Clock = std::vector<uint64_t>;

void join(Clock& into, const Clock& other);

// What the flags of a launch hold, for all threads.
struct TkFlags {
  std::mutex mutex;
  std::unordered_map<uint64_t, Clock> at;  // per dword
};

bool is_scoped(const Op& op, Access access, uint32_t target);
bool adds_floats(const char* name);  // sums, which nobody waits for: not worth remembering

// Of one block.
class Order {
 public:
  explicit Order(Engine& engine) : engine_(engine) {}
  void begin_block(size_t waves);
  void released(const Wave& w, const MemoryOp& m);
  void written_back(const Wave& w, uint32_t epoch);  // by an instruction of that epoch, waited for now
  void acquired(const Wave& w, const MemoryOp& m);
  void invalidated(const Wave& w);
  void met();  // a barrier

  uint32_t clock(const Wave& w) const { return waves_.empty() ? 0 : waves_[w.id].clock; }  // index into Engine::clocks
  uint32_t releases() const { return uint32_t(released_.size()); }
  bool used() const { return !released_.empty() || engine_.clocks.size() > 1; }
  // Whether an access of this block, of `wave` in `epoch`, complete when there had been `completed` releases, is before `clock`.
  bool before(uint32_t wave, uint32_t epoch, uint32_t completed, uint32_t clock) const;

 private:
  struct Known {
    uint32_t clock = 0;
    Clock pending;
    Clock written;  // writebacks of this block
  };
  uint32_t intern(Clock clock);

  Engine& engine_;
  std::vector<Known> waves_;
  std::vector<TkRelease> released_;
};
