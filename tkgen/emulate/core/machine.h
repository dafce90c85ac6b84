// The state of a block on the emulated machine, and what instructions may do with it.
#pragma once
#include <cstring>
#include <initializer_list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "abi.h"

constexpr int LANES = 64;
constexpr int ROWS = 512;  // 256 VGPRs, then 256 AGPRs
constexpr int SCALARS = 128;
constexpr uint32_t NONE = UINT32_MAX;
enum ScalarRegister : uint16_t { FLAT_SCRATCH = 102, VCC = 106, M0 = 124, EXEC = 126 };

struct Wave;
struct Engine;
class Referee;
class Unknown;
class Repetition;
struct Flow;
namespace ring {
class Algebra;
struct Taken;
}
using Handler = void (*)(Wave&, const Op&);

enum InfoFlag : uint16_t {
  READS_DST = 1,   // accumulates into its destination, or keeps a part of it
  MEMORY = 2,      // goes through a memory queue
  MATRIX = 4,      // reads and writes all lanes whatever EXEC says
  CROSS_LANE = 8,  // reads or writes lanes that EXEC does not name
  SWAPS = 32,      // also writes its first source, which must be a vector register
  SELECTS = 16,    // may ignore an undefined source: its result counts as defined
  PAIRS = 64,      // each half of its result is of one half of each source: op_sel, op_sel_hi; without them, of the same
  KEEPS_PART = 256,  // with READS_DST: only to keep a part of it
  MOVES_PAIR = 128,  // half 0 of its result is one of source 0, half 1 one of source 1: op_sel
};

struct Info {
  const char* name;
  Handler run;
  uint8_t dst, src[3];  // dwords per operand
  uint16_t flags;
};

struct Table {
  const Info* begin;
  size_t count;
};

// The registers that one instruction touches, worked out once when the program is loaded.
struct Use {
  enum : uint8_t { WRITES = 1, ADDRESS = 2, KEPT = 4 };  // KEPT: read to be written back, as a part of the register
  struct Span {
    uint16_t first;  // VGPR row, or ROWS + scalar register
    uint8_t count, flags;
  };
  Span spans[6];
  uint8_t count = 0;
  uint16_t info_flags = 0;
  uint8_t sources = 0;
  void add(uint16_t code, unsigned registers, uint8_t flags);
};

enum class Queue : uint8_t { VECTOR, LDS, SCALAR, FLAT };
constexpr uint32_t pending_unit(Queue q) { return 1u << 8 * int(q); }
enum class Access : uint8_t { READ, WRITE, ATOMIC };

// A memory instruction from issue until its wave has waited for it.
struct MemoryOp {
  using Perform = void (*)(Wave&, MemoryOp&);
  Perform perform;
  const Op* op;
  uint64_t exec;  // lanes that take part
  uint64_t live;  // those of them whose address was good
  uint32_t index, number, epoch;
  uint32_t clock;     // what its wave had acquired when it issued (flags.h)
  uint32_t seen;      // the same with flags that it had only read
  uint64_t issued_at; // instructions that its wave had executed
  uint32_t instance;  // of the referee, 0 for none yet
  uint32_t given, release, acquires;  // of flags in LDS: the clock that it gives, the release that it is, the clock that it takes
  Queue queue;
  Access access;
  bool lds, performed, seen_vector, seen_lgkm;
  bool writes_back;  // the L2
  bool hollow;    // some of it is memory without contents
  bool writable;  // some of it is memory that the kernel may write
  uint64_t undefined[4];   // lanes whose dword nobody has written, of the data stored or (from scratch) loaded
  uint64_t private_lanes;  // lanes whose address is in scratch
  uint64_t changed;        // lanes whose store changed what stood there, once it is performed
  uint32_t written = ~0u;  // bits of each result register that the load fills; d16 forms keep a half
  bool transposes;         // gfx950's transposing reads of LDS
  bool dma;                // loads from memory into LDS, from lds_base on
  uint16_t dst, dst_count; // operand code of the result registers; 0 dwords for none
  uint16_t size, parts;    // bytes per lane and part; parts is 2 for ds_read2 and its kin
  uint32_t lds_base;
  int64_t second;          // distance of the second part
  uint64_t address[LANES];
  uint8_t* host[LANES];
  uint8_t in_range[LANES]; // buffer accesses: bytes within the descriptor's range
  uint32_t data[4][LANES];
  // Bytes in LDS of one lane's data, and from one lane's to the next, of a load that goes there: narrow ones fill a dword,
  // three dwords leave a fourth free (CDNA4 ISA, "Memory Buffer Load to LDS").
  uint32_t lds_width() const { return size > 4 ? size : 4; }
  uint32_t lds_step() const { return size > 4 ? 16 : 4; }
  bool high;                           // stores the upper halves of its data
  std::shared_ptr<ring::Taken> taken;  // in launches over an algebra (algebra.h)
};

using MemoryQueue = std::vector<std::unique_ptr<MemoryOp>>;

struct alignas(64) Wave {
  uint32_t v[ROWS][LANES];
  uint32_t s[SCALARS + 16];  // 16 spare so that wide reads at the end stay inside
  uint32_t scc, mode, priority;
  uint32_t pc, next;  // dword indices
  uint64_t lanes;     // lanes that the current vector instruction writes: EXEC, less what DPP masks out
  uint64_t executed;
  uint32_t id, epoch;
  uint64_t started, absent;  // lanes there were at first; those that were not at a barrier, which its wave passed at `barrier_pc`
  uint32_t barrier_pc;
  struct Poll {
    uint64_t address, at;
    uint32_t pc, epoch;
  } polls[4];  // its last loads of flags and of LDS
  enum State : uint8_t { RUNNING, BARRIER, GRID, ENDED } state;  // GRID: waits for other blocks (grid.h)
  Engine* engine;
  MemoryQueue vector_ops, lds_ops, scalar_ops;  // FLAT ones stand among vector_ops
  std::vector<uint8_t> scratch;                 // lane by lane
  std::vector<uint8_t> scratch_state;           // with a referee: 1 where written with a defined value
  // With a referee only:
  uint32_t pending[ROWS + SCALARS + 16];  // outstanding loads per register, a byte for each queue
  uint64_t defined[ROWS];                 // lanes ever written
  std::vector<uint32_t> instances;        // executions per dword index
  // In launches without data only (unknown.h):
  uint8_t unknown[ROWS + SCALARS + 16];
  uint64_t unknown_lanes[ROWS];  // of a vector register: those whose data is unknown
  uint8_t unknown_scc;
  std::vector<uint8_t> scratch_unknown;

  uint64_t get64(int i) const { uint64_t x; std::memcpy(&x, s + i, 8); return x; }
  void set64(int i, uint64_t x) { std::memcpy(s + i, &x, 8); }
  uint64_t exec() const { return get64(EXEC); }
  bool indexes() const { return mode >> 27 & 1; }  // MODE.GPR_IDX_EN
};

// A release: the `number`-th of its block, by this wave. `written_back`: what the wave had stored has left its L2.
struct Known {
  uint32_t block, wave, number;
  bool written_back;
  bool operator==(const Known& o) const { return block == o.block && wave == o.wave && number == o.number && written_back == o.written_back; }
};

// Everything of one launch on one thread.
struct Engine {
  explicit Engine(const TkLaunch& launch);
  ~Engine();
  void run_block(uint64_t linear);
  void begin_block(uint64_t linear);
  bool advance(uint64_t instructions);  // about as many; false where the block has not ended after them
  void end_block();
  uint64_t executed() const { return block_instructions_; }  // instructions of the block so far

  const TkRegion* find(uint64_t address, uint64_t size) {
    const TkRegion& r = launch.regions[hint_];
    if (address - r.base < r.size && size <= r.size - (address - r.base)) return &r;
    return search(address, size);
  }

  /// Whether an address is in what the kernel shares with the host alone, which is not watched.
  bool of_host(uint64_t address) const { return address - launch.host_base < launch.host_bytes; }

  TkFinding* report(FindingKind kind, const Wave& w, const TkParty& a, const TkParty* b = nullptr);
  TkFinding* report(FindingKind kind, const Wave& w);
  void fatal(FindingKind kind, const Wave& w);
  bool sleeps = false;  // the wave that runs lets the others run first: it sleeps, or looks again at what it waits for
  bool tracks() const { return launch.watch || launch.poison; }

  TkLaunch launch;
  uint32_t block_id[3];
  uint64_t block_linear = 0;
  std::vector<uint8_t> lds;
  std::vector<uint8_t> lds_state;  // per byte: 0 never written, 1 written, 2 written with an undefined value
  std::vector<std::unique_ptr<Wave>> waves;
  std::vector<uint64_t> counts;
  std::vector<uint64_t> executed_by;  // per dword index: a bit for each wave of a block, modulo 64; with a referee
  std::vector<TkFinding> findings;
  std::vector<uint32_t> barriers;
  std::vector<TkInterval> intervals;
  std::vector<TkRelease> releases;
  std::vector<std::vector<Known>> clocks{{}};  // flags.h
  bool acquires = false;  // the program has flags that it reads, and drops what its caches hold
  std::vector<uint8_t> polls;  // per dword index: loads that wait for another wave (polls.h)
  bool global_polls = false, lds_polls = false, lds_flags = false;  // there are such; or atomic operations on LDS that give back what was there
  std::vector<TkKnown> known;
  std::vector<TkLoss> losses;
  std::vector<TkTraceEntry> trace;
  std::vector<uint64_t> trace_lanes;
  std::vector<TkSpan> spans;  // of a traced launch
  TkGrid* grid = nullptr;     // of a cooperative launch (grid.h)
  uint64_t instructions = 0;
  size_t reports = 0;  // of findings, repeated ones too
  bool stopped = false;
  std::unique_ptr<Referee> referee;
  std::unique_ptr<Unknown> unknown;                 // for launches without data
  std::unique_ptr<Repetition> repetition;           // for those of them that are watched
  std::unique_ptr<ring::Algebra> algebra;           // for launches over an algebra
  MemoryOp scratch_op;                              // for launches that track nothing
  std::vector<std::unique_ptr<MemoryOp>> free_ops;
  bool tracing = false;                             // the instruction under way is being traced

 private:
  friend class Repetition;
  void load();
  void check_wait_states();
  const TkRegion* search(uint64_t address, uint64_t size);
  void start_waves();
  void start_wave(Wave& w, uint32_t id, uint32_t threads);
  Wave* choose(uint64_t& quantum);
  bool meet();
  void finish_block();
  template <bool WATCH> void run(Wave& w, uint64_t quantum);
  bool indexed(Wave& w, const Op& op, Op& shifted);
  void trace_instruction(const Wave& w);
  uint32_t random(uint32_t below);

  uint64_t hint_ = 0, block_instructions_ = 0, random_state_ = 1;
  uint32_t turn_ = 0, victim_ = 0;
  std::vector<Handler> handlers_;  // per dword index
  std::vector<Use> uses_;
  std::vector<Flow> flows_;
  std::vector<const Info*> infos_;  // null where the core knows no such instruction
  std::vector<uint8_t> waits_;      // waits and invalidations
  std::unordered_map<uint64_t, size_t> seen_;
};

TkParty party(const Wave& w);

// Whether the mnemonic begins with one of these.
inline bool begins(const char* name, std::initializer_list<const char*> with) {
  for (const char* s : with)
    if (!std::strncmp(name, s, std::strlen(s))) return true;
  return false;
}

// memory.cpp
void make_room(Wave& w, const Op& op);
void wait(Wave& w, unsigned vector, unsigned lgkm);
void drain(Wave& w);
void reach_memory(Wave& w);
void interrupt_host(const Engine& e);
bool describe_memory(const Op& op, const Info& info, uint32_t target, Use& use);

// The operations, by file.
Table scalar_table();
Table vector_table();
Table compare_table();
Table packed_table();
Table small_float_table();
Table matrix_table();
Table memory_table();
Table grid_table();
