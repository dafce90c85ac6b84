// The race referee: shadow memory that remembers, for every byte of LDS and of global memory that a block touches, who
// accessed it last, and judges whether barriers order the accesses of different waves - whatever order they ran in here.
//
// Rule for LDS. An access x of wave u has an interval of epochs: epoch(x), the barriers that u had passed when it issued, to
// done(x), those it had passed once it had waited for x. x happens before y of another wave iff done(x) < epoch(y), or a flag
// in memory that was given after x was complete has been taken before y issued (flags.h). Two
// conflicting accesses race iff neither happens before the other, that is, iff their intervals overlap.
//
// Accesses enter when they are waited for, so done() never falls from one to the next, and of all earlier accesses to a byte
// by other waves only the last of each kind can still overlap a new one. A cell therefore keeps the last read and write,
// and the last of each by yet another wave.
//
// Rule for global memory. The waves of a block run on one CU and share its vector L1, which serves their accesses in the order
// of issue; so a barrier orders them whether or not they were waited for: x happens before y iff epoch(x) < epoch(y). LLVM
// relies on it: a release or acquire of workgroup scope waits for LDS, and for vmcnt and the L1 only with TgSplit (AMDGPUUsage,
// "Memory Model gfx90a" and "gfx942": "No special action is required for coherence between wavefronts in the same work-group
// since they execute on the same CU. The exception is when in tgsplit execution mode"). These accesses enter when they issue.
// Not so, and under the rule for LDS: everything with TgSplit, where waves of a block may be on several CUs; scalar loads, whose
// cache is not the vector L1; the LDS side of a load straight into LDS. Blocks may be on different CUs: no barrier orders them,
// only flags do (flags.h).
//
// Lanes of one instruction have no order either: two that write different values to one byte are a finding.
#pragma once
#include "flags.h"
#include "machine.h"

class Referee {
 public:
  explicit Referee(Engine& engine) : order(engine), engine_(engine) {}
  void begin_block(uint32_t lds_bytes);
  void end_block();  // writes the block's intervals of global memory to the engine

  // Before an instruction: registers read or overwritten while a load is on its way, undefined operands.
  void check_registers(Wave& w, const Op& op, const Use& use);
  // After it: what it wrote is defined, as far as its sources were.
  void define_registers(Wave& w, const Op& op, const Use& use);

  void issued(Wave& w, MemoryOp& m);
  void read_lds(Wave& w, MemoryOp& m, uint64_t address, uint32_t size, int lane);
  void write_lds(const MemoryOp& m, uint64_t address, uint32_t size, int lane, int part);
  void completed(Wave& w, MemoryOp& m);

  Order order;  // through flags

  // What LDS looks like to the referee, to compare with later.
  struct Touched;
  Touched touched() const;
  // Whether each byte was last touched as it was then, `epochs` later, or not since.
  bool touched_as(const Touched& then, uint32_t epochs) const;

 private:
  struct Instance {
    uint32_t wave, index, number, epoch, done;
    Access access;
    bool scalar;
    Flag flag;
    bool unchanged;
    uint32_t clock, issued, completed, own;  // flags.h
    uint32_t seen;
    uint64_t issued_at;
  };
  struct Cell {
    uint32_t read[2], write[2];  // indices into instances_, 0 for none
  };
  static constexpr int PAGE_BITS = 10;
  // Bounds on what the referee itself may take: pages of shadow for global memory (16 KiB each) and instances.
  static constexpr size_t MOST_PAGES = 40960, MOST_INSTANCES = 1 << 22, MOST_INTERVALS = 1 << 22;
  struct Page {
    Cell cells[1 << PAGE_BITS];
  };

  uint64_t half_defined(const Wave& w, const Op& op, const Use& use, int half) const;
  void through_scratch(Wave& w, MemoryOp& m);
  void stored_undefined(Wave& w, const MemoryOp& m);
  void divergent(Wave& w, const MemoryOp& m);
  void meet_direct_loads(Wave& w, const MemoryOp& m);
  void overtake(Wave& w, const MemoryOp& load, const MemoryOp& other);
  uint32_t add_instance(const Wave& w, const MemoryOp& m, Access access, uint32_t done, Flag flag = PLAIN);
  void touch_global(Wave& w, MemoryOp& m);
  void touch_lds(Wave& w, const MemoryOp& m, uint32_t done);
  void touch(Wave& w, const MemoryOp& m, uint32_t id, bool lds, Access access, uint64_t address, uint32_t size, int lane);
  bool ordered(const Instance& x, const Instance& mine, bool lds, uint64_t address) const;
  bool acquires_lds(const MemoryOp& m) const;
  bool releases_lds(const MemoryOp& m) const;
  void judge(Wave& w, const MemoryOp& m, const Instance& mine, uint32_t other, bool lds, uint64_t address, uint32_t size, int lane);
  void judge_lanes(Wave& w, const MemoryOp& m, bool lds, uint64_t address, int lane);
  bool in_lds(const MemoryOp& m, int lane) const;
  Cell* global_cell(Wave& w, uint64_t address);
  void compact();
  void put_away();
  void write_intervals(std::vector<uint64_t> pages);
  void add_intervals(uint64_t page, const Page& cells, int kind);

  Engine& engine_;
  uint64_t sources_defined_[2];  // of the instruction under way, for either half of a pair that it writes
  uint64_t data_defined_[4];  // of the data that the instruction under way stores, dword by dword
  unsigned data_row_[4];
  std::vector<Instance> instances_;
  std::vector<Cell> lds_;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_page_ = ~0ull;
  Cell* last_cells_ = nullptr;
  size_t compact_at_ = MOST_INSTANCES;
  uint32_t compactions_ = 0;
};

struct Referee::Touched {
  std::vector<Cell> cells;
  std::vector<uint8_t> state;
  uint32_t compactions = 0;  // after one the numbers in `cells` mean others
};
