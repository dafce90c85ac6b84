// Loops that go on: a block that stands at a barrier as it stood some barriers before does the same again until its control flow
// or an LDS address changes. Such passes need not be watched once more.
//
// Of launches without data. Two barriers are alike if every wave stands at the same instruction, with the same outstanding accesses,
// issued as many barriers ago, the same registers defined and unknown, and if every byte of LDS was last touched by the
// same instructions of the same waves, as many barriers ago, or by none since. What the referee says of the instructions
// between two such barriers - a pass - is a function of that state, of which instructions they are and of the lanes,
// LDS addresses and M0 that they have. So a further pass that goes through the same instructions with the same of these ends alike
// and has nothing to find. Registers are no part of that: a counter of the loop, an address in a tensor.
//
// They are computed instead: a pass is carried out again by its scalar and vector instructions alone, which costs a tenth, and
// checked as it goes: each branch, EXEC, each LDS address, that loads stay in their tensor. A pass that
// differs in one of them is taken back, and the launch goes on in full from where it began. Nothing is guessed, then, and
// what comes out - findings, instructions, barriers - is what it would be without.
#pragma once
#include "referee.h"

class Repetition {
 public:
  explicit Repetition(Engine& engine);
  void begin_block();
  void met();  // all waves have come to a barrier and are about to go on
  bool recording() const { return recording_; }
  bool walking() const { return walking_; }
  void issues(const Wave& w);                 // while recording: an instruction, before it is executed,
  void issued(const Wave& w, bool left_out);  // and after it
  bool takes(Wave& w, const MemoryOp& m);     // a memory access: true if it belongs to a pass that is carried out again

  uint64_t instructions = 0;  // of passes carried out again, in this block

 private:
  struct Step {  // an instruction that a pass cannot leave out
    uint32_t pc, next, access;
    uint64_t exec;
  };
  struct Lanes {  // what the referee sees of an access
    bool hollow;
    uint32_t row, base;        // the register of the address if that says it all; where a load into LDS begins
    std::vector<uint32_t> at;  // what is in `row`, else the addresses in LDS
  };
  struct Path {  // of a wave through a pass
    std::vector<Step> steps;
    std::vector<Lanes> accesses;
    std::vector<std::pair<uint32_t, uint64_t>> executed;  // every instruction, and how often
    std::vector<uint16_t> rows;                           // vector registers that `steps` write
    uint64_t count = 0;
  };
  struct Stand {  // of a wave at a barrier
    uint32_t pc, epoch, mode, state;
    uint64_t exec, absent;
    std::vector<MemoryOp> queued;
    size_t vector_ops, lds_ops;
    std::vector<uint8_t> unknown;
    std::vector<uint64_t> unknown_lanes, defined;
    std::vector<uint32_t> pending;
  };
  struct Saved {  // the registers of a wave that a pass writes
    std::vector<uint32_t> scalars, rows;
    uint32_t scc;
    bool operator==(const Saved& o) const { return scc == o.scc && scalars == o.scalars && rows == o.rows; }
  };

  static Stand stand(const Wave& w);
  bool alike(const Stand& then, const Wave& w) const;
  bool begins_alike() const;
  void begin();
  void give_up();
  void finish_paths();
  uint64_t again();
  void go_on_from(uint64_t passes);
  bool walk(Wave& w, const Path& path);
  Saved save(const Wave& w, const Path& path) const;
  void restore(Wave& w, const Path& path, const Saved& saved) const;
  Lanes lanes(const MemoryOp& m) const;

  Engine& engine_;
  std::vector<bool> left_alone_, forbidden_;  // per dword index: needs no carrying out, cannot be carried out again
  std::vector<Stand> then_;
  Referee::Touched touched_;
  std::vector<Path> paths_;
  size_t reports_ = 0;
  uint64_t meets_ = 0, next_ = 0, began_ = 0, rest_ = 0;
  bool recording_ = false, possible_ = false;
  const Path* walking_ = nullptr;  // the path of the pass that is being carried out again
  uint32_t step_ = 0;
  bool same_ = true;
};
