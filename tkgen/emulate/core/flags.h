// Order through flags in global memory and in LDS: a wave that reads what another released, and then drops what its cache held,
// comes after all that the other had done.
//
// Which accesses are flags. An access of agent or system scope (SC1 from gfx942 on; on gfx90a GLC of a load) and every atomic
// operation: they do not race with each other. LLVM gives an atomic load or store these bits (AMDGPUUsage, "Memory Model gfx942":
// "load atomic monotonic agent: sc1=1", "store atomic monotonic agent: sc1=1"; "gfx90a": "glc=1" of loads). Of workgroup scope are
// SC0 alone from gfx942 on ("load atomic monotonic workgroup: sc0=1"): flags among the waves of a block, outside of TgSplit mode.
// On gfx90a an atomic store looks as a plain one does. There a store of one lane, of 4 or 8 bytes, may be one (PERHAPS), in a
// program that has acquires: it does not race with loads that are flags or with atomic operations that return, but with all else.
//
// Releases. A store or an atomic operation of these is one of its wave: it covers the wave's own accesses that had been waited
// for (the model's release waits for vmcnt(0) before it), and what other waves of the block had issued before the last barrier.
// One of workgroup scope covers accesses of global memory once they are issued, as the waves share an L1 ("Memory Model gfx942",
// release of workgroup scope: "s_waitcnt lgkmcnt(0)", and vmcnt(0) in TgSplit mode alone).
// From gfx942 on the XCDs of a GPU have an L2 each: what a block has stored, other blocks see only once it was written back, by
// buffer_wbl2 sc1 that the wave has waited for ("Memory Model gfx942": "buffer_wbl2 sc1=1: Performs L2 writeback to ensure previous
// global/generic store/atomicrmw are visible at agent scope"). So a release covers plain stores as far as the last writeback that
// its wave knows of, its own or one before a barrier. On gfx90a all waves of a GPU share one L2.
// Acquires. A load, or an atomic operation that returns, takes over what its address was last given, but the wave is only after
// it once it has executed buffer_inv sc1 (gfx90a: buffer_wbinvl1_vol), without which the L1 may serve older lines. One that follows
// accesses of flags with nothing but waits between, as in what LLVM makes of an acquire, is for these flags alone. Elsewhere it is
// a fence, for all that the wave has read. A load of
// workgroup scope needs no more than its wait. A barrier passes on to all waves what each of them knows, and what each has
// read: their L1 is one, any of them may invalidate it.
// On gfx90a a load of workgroup scope, too, looks as a plain one does ("Memory Model gfx90a", load atomic of workgroup scope: "glc=1
// - If not TgSplit execution mode, omit glc=1", and no wait or buffer_wbinvl1_vol after an acquire). There it is the loads that poll
// which are flags for the block's waves, and every store of up to 8 bytes a lane to where such a load looks, as in LDS.
//
// Flags in LDS. Instructions of LDS have no scope, so an atomic load or store looks as a plain one does. A load that polls (polls.h)
// is a flag, and so is every store of up to 8 bytes a lane to where such a load looks: they do not race with each other. All
// atomic operations on LDS are flags for one another, and for loads that poll. A store or atomic operation is a release of
// workgroup scope. It covers what its wave had waited for (the model: "s_waitcnt lgkmcnt(0)" before it), and a load that polls, or an
// atomic operation that gives back what was there, acquires it with its wait: there is no cache in between.
#pragma once
#include <mutex>
#include <unordered_set>

#include "machine.h"
#include "polls.h"

// Releases known, in order of blocks and waves. The last one of a wave covers its earlier ones, so there are two at most: the
// last that was written back, and a later one that was not.
using Clock = std::vector<Known>;

void join(Clock& into, const Clock& other);

// What the flags of a launch hold, for all threads.
struct TkFlags {
  std::mutex mutex;
  std::unordered_map<uint64_t, Clock> at;  // per dword
  size_t perhaps = 0;  // dwords of stores that may be no flags
};

// What an access may be: nothing of a flag; a flag for the block's waves; for all; an atomic operation that gives nothing back,
// a flag, too; a plain store of gfx90a that may be a flag. In LDS, and for the block's waves in global memory
// of gfx90a: a load or atomic operation that polls; a store, which may be one.
enum Flag : uint8_t { PLAIN, OF_BLOCK, OF_ALL, SUM, PERHAPS, POLLED, STORED };
Flag flag_of(const Engine& e, const MemoryOp& m);
bool apart(Flag a, Flag b);  // whether two of them do not race
bool of_block(Flag a);       // of those that poll and what they look at: for other blocks they are plain accesses
bool adds_floats(const char* name);  // sums, which nobody waits for: not worth remembering

// Of one block.
class Order {
 public:
  explicit Order(Engine& engine) : engine_(engine) {}
  void begin_block(size_t waves, size_t lds_bytes);
  void released(const Wave& w, const MemoryOp& m, Flag flag);
  Clock give(const Wave& w, Flag flag);          // a release: everything that is before it
  void take(const Wave& w, const Clock& given);  // the acquire of one
  void written_back(const Wave& w, uint32_t epoch);  // by an instruction of that epoch, waited for now
  void reads(const Wave& w, const MemoryOp& m);  // a flag
  // Of LDS: a release, at its issue; what its dword at `address` holds from its execution on; the acquire of that.
  void releases_lds(const Wave& w, MemoryOp& m);
  void lds_holds(const MemoryOp& m, uint64_t address);
  void reads_lds(MemoryOp& m, uint64_t address);
  void acquired_lds(const Wave& w, const MemoryOp& m);
  bool polled(uint64_t address) const { return !polled_.empty() && polled_[address >> 2]; }  // whether a load has polled LDS there
  void polls_global(const MemoryOp& m);
  bool polled_in_global(uint64_t address) const { return polled_in_global_.count(address >> 2); }  // by a wave of this block
  void acquired(const Wave& w, const MemoryOp& m, Flag flag);
  void invalidated(const Wave& w);
  void passed(const Wave& w);  // an instruction that is neither a wait nor an invalidation
  void met();  // a barrier

  uint32_t clock(const Wave& w) const { return waves_.empty() ? 0 : waves_[w.id].clock; }  // index into Engine::clocks
  uint32_t seen(const Wave& w);  // the same with what the wave has read and not acquired
  uint32_t releases() const { return uint32_t(released_.size()); }
  bool used() const { return across_; }  // whether flags may order blocks
  // Whether an access of this block, of `wave` in `epoch`, issued and complete when there had been so many releases, is before
  // `clock`. `issued` is NONE where the order of issue does not count, `own` the release that the access itself is, or NONE.
  bool before(uint32_t wave, uint32_t epoch, uint32_t issued, uint32_t completed, uint32_t own, uint32_t clock) const;
  // What a flag lacks that one wave set and another saw, as bits of FindingNote: of a race between an access of `wave`, issued
  // after so many instructions of it, and another one. `arguments` as for `before`.
  struct Side { uint32_t wave, epoch, completed; uint64_t issued_at; };
  uint32_t lacks(const Side& of, uint32_t clock, uint32_t seen) const;

 private:
  struct Knows {
    uint32_t clock = 0;
    std::unordered_map<uint32_t, Clock> pending;  // by the instruction that read it
    std::vector<std::pair<uint32_t, uint64_t>> just_read;  // flags, with nothing but waits since: instructions, and when
    Clock written;  // writebacks of this block
  };
  uint32_t intern(Clock clock);
  uint32_t joined(uint32_t one, uint32_t other);  // of clocks
  Clock release(const Wave& w, bool of_block);
  void releases_to_all(const Wave& w, const MemoryOp& m, Flag flag);
  void now_knows(const Wave& w, const Clock& more);

  Engine& engine_;
  std::vector<Knows> waves_;
  std::vector<TkRelease> released_;
  std::vector<bool> of_block_;                 // whether a release is of workgroup scope
  std::vector<uint64_t> released_at_;          // instructions that its wave had executed
  std::unordered_map<uint64_t, Clock> given_;  // per dword: to waves of this block
  std::unordered_map<uint64_t, Clock> given_to_block_;  // per dword: by stores that may be flags, to loads that poll
  std::unordered_set<uint64_t> polled_in_global_;       // dwords
  std::vector<uint32_t> in_lds_;               // per dword of LDS: the clock that it holds
  std::vector<bool> polled_;                   // per dword of LDS
  bool across_ = false;
};
