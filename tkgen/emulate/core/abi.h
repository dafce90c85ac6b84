// The structures that Python and the core share: `native.py` reads them and the functions from here, a declaration a line.
// `decode.py` has the encodings and the flags in the same order.
#pragma once
#include <cstdint>

enum Encoding : uint8_t {
  ENC_UNKNOWN, ENC_SOP1, ENC_SOP2, ENC_SOPC, ENC_SOPK, ENC_SOPP, ENC_SMEM, ENC_VOP1, ENC_VOP2, ENC_VOPC,
  ENC_VOP3, ENC_VOP3P, ENC_MFMA, ENC_DS, ENC_FLAT, ENC_GLOBAL, ENC_SCRATCH, ENC_MUBUF, ENC_MTBUF,
};

enum OpFlag : uint16_t {
  F_DPP = 1, F_SDWA = 2, F_LITERAL = 4, F_LDS = 8, F_OFFEN = 16, F_IDXEN = 32, F_SC0 = 64, F_SADDR = 128,
  F_TRUNCATED = 256, F_SDST = 512, F_GDS = 1024, F_SCALED = 2048, F_SC1 = 4096,
};

// Operand codes: 0..127 scalar registers, 128..255 constants, 256..511 VGPRs, 512..767 AGPRs.
struct Op {
  uint16_t opcode;
  uint8_t encoding, size;
  uint16_t dst, sdst, src[3], flags;
  uint8_t neg, abs, opsel, opsel_hi, omod, clamp, cbsz, abid, blgp, pad[3];
  uint32_t literal;
  int32_t offset;
  uint32_t control;
};
static_assert(sizeof(Op) == 40, "Op has no gaps");

enum Target : uint32_t { GFX90A, GFX942, GFX950 };
enum Policy : uint32_t { TO_BARRIER, ROUND_ROBIN, RANDOM, ADVERSARIAL };

enum FindingKind : uint32_t {
  RACE = 1, UNINITIALISED_LDS, UNINITIALISED_REGISTER, LDS_OUT_OF_BOUNDS, GLOBAL_OUT_OF_BOUNDS, READ_ONLY_WRITE,
  SCRATCH_OUT_OF_BOUNDS, MISALIGNED, READ_BEFORE_WAIT, OVERWRITE_BEFORE_WAIT, BARRIER_COUNT, BUDGET,
  UNKNOWN_INSTRUCTION, BAD_JUMP, TRAP, UNSUPPORTED, ILLEGAL_OPERAND, DEADLOCK, WATCH_LIMIT, LANE_RACE,
  DATA_DEPENDENT, WAIT_STATES, DIVERGENT_BARRIER,
};

enum FindingNote : uint32_t {
  SAME_VALUES = 1,    // of two writes that race: the bytes written are the same
  WRITTEN_LATER = 2,  // of a read of LDS that nobody had written: somebody did before the block ended
  IN_ANOTHER_L2 = 4,  // of blocks that race: a flag orders them, but what one stored was not written back (set by Python)
  NO_RELEASE = 8,     // of waves that race: one has seen a flag that the other set before its own access was complete
  NO_ACQUIRE = 16,    // of waves that race: one has read a flag of the other, and never acquired what it orders
  WIDE_FLAG = 32,     // that flag is of agent or system scope
};

struct TkResult;
struct TkFlags;
struct TkGrid;

extern "C" {

struct TkRegion {  // guest addresses base..base+size-1 are host memory; null: they have no contents
  uint64_t base, size;
  uint8_t* host;
  uint32_t writable, id;
  uint32_t* payload;  // in a launch over an algebra: two values of each of `elements` numbers, or null (algebra.h)
  uint64_t elements;
  uint32_t format;
};

struct TkLaunch {
  const Op* ops;
  uint64_t op_count, text_base, entry;  // entry: dword index
  const char* const* names;
  uint64_t name_count;
  const TkRegion* regions;
  uint64_t region_count;
  uint64_t shared_base, private_base, scratch_base;  // guest apertures; scratch_base for buffer-addressed scratch
  uint64_t printed_base, printed_bytes;              // what the kernel prints: no tensor
  uint64_t host_base, host_bytes;                    // what it shares with the host alone: nothing of the program's
  void (*interrupt)();                               // the host's answer to s_sendmsg MSG_INTERRUPT, or null
  uint64_t budget;                                    // instructions per block
  uint64_t seed;
  uint64_t trace_limit;  // instructions traced at most
  uint32_t target, policy, watch, poison;
  uint32_t grid[3], block[3];
  uint32_t lds_bytes, scratch_bytes;  // scratch_bytes per lane
  uint32_t user_sgprs[32], user_sgpr_count;
  uint32_t block_id_enable;  // bits 0..2: x, y, z
  uint32_t block_info_enable, scratch_offset_enable;
  uint32_t mode;             // initial MODE register
  uint32_t split;            // the waves of a block may run on several CUs (TgSplit)
  int32_t trace_wave;        // -1: none; -2: all waves
  uint32_t trace_lanes;      // also per-lane addresses
  uint32_t dataless;         // follow addresses and control flow alone (unknown.h)
  uint32_t every_pass;             // of them: also passes of loops that do what those before did (repetition.h)
  uint32_t first_finding;          // stop at the first finding that is one about the code
  uint32_t algebra;                // follow numbers in two finite fields (algebra.h)
  const volatile int32_t* cancel;  // not 0: stop soon
  TkFlags* flags;                  // of all threads of a watched launch
};

struct TkParty {  // one dynamic instruction
  uint32_t wave, index;    // index: dword index of the instruction
  uint32_t instance;       // how many times this wave had executed it before
  uint32_t epoch, done;    // barriers passed when it issued, when it was waited for
  uint32_t writes;         // 0 reads, 1 writes, 2 atomic
};

struct TkFinding {
  uint32_t kind, fatal, block[3], lane;
  uint64_t count, address;
  uint32_t size, space;    // space: 0 LDS, 1 global, 2 scratch, 3 VGPR, 4 SGPR; of WAIT_STATES size is what is missing, lane what is needed
  uint32_t other_lane, note;  // of LANE_RACE the other lane; FindingNote bits
  TkParty a, b;            // b.index == UINT32_MAX: no second party
};

struct TkInterval {  // bytes of one region that one block wrote (or read)
  uint32_t region, block, index, writes;
  uint64_t begin, end;
  uint32_t unchanged;       // 1: the instruction wrote what was there
  uint32_t clock;           // the releases that it comes after, by number of the engine's clocks
  uint32_t wave, epoch;
  uint32_t completed;       // releases that there had been of its block when it was complete
  uint32_t flag;            // what it may be of one (flags.h): 0 for nothing
};

struct TkRelease {  // a wave gave a flag to others (flags.h)
  uint32_t block, number, wave, epoch;
  uint32_t written_back;  // it covers what the block wrote to its L2
};

struct TkKnown {  // one release that a clock holds
  uint32_t clock, number;
  uint64_t block;
};

struct TkTraceEntry {
  uint32_t wave, index;     // instruction
  int64_t lanes;            // first of 64 addresses in the lane array, or -1
  uint64_t exec;
  uint32_t size;            // of a memory instruction: bytes a lane, of each of its parts,
  uint32_t access;          // 0 reads, 1 writes, 2 atomic; and 4: in LDS, 8: from memory into LDS, 16: two parts,
  int32_t second;           // so far apart
  uint32_t lds_base;        // of a load into LDS: where the first lane's goes
};

struct TkSpan {  // registers that an instruction reads or writes
  uint32_t index;           // dword index of the instruction
  uint16_t first, count;    // VGPRs from 0, AGPRs from 256, scalar registers from 512
  uint32_t writes;
};

struct TkLoss {  // numbers that were stored, but lost on the way
  uint32_t index;  // dword index of the instruction
  uint64_t count;
  const char* reason;
};

#define TK_API __attribute__((visibility("default")))
TK_API TkResult* tk_new(const TkLaunch* launch);
TK_API void tk_free(TkResult* result);
// Runs the blocks (linear ids); returns 0, or 1 when a fatal finding stopped it.
TK_API int tk_run(TkResult* result, const uint64_t* blocks, uint64_t count);
// Runs blocks that may wait for one another, one of each result; returns as tk_run (grid.h).
TK_API int tk_run_together(TkResult** results, const uint64_t* blocks, uint64_t count);
// Whether the number of the block decided a branch, EXEC, M0 or an LDS address (dataless launches).
TK_API int tk_block_dependent(const TkResult* result);
TK_API uint64_t tk_instructions(const TkResult* result);
TK_API const uint64_t* tk_counts(const TkResult* result);  // executions per dword index, op_count entries
// A bit for each wave of a block (modulo 64) that executed it, per dword index; op_count entries, none without a referee.
TK_API const uint64_t* tk_executed_by(const TkResult* result, uint64_t* count);
TK_API const TkFinding* tk_findings(const TkResult* result, uint64_t* count);
TK_API const uint32_t* tk_barriers(const TkResult* result, uint64_t* count);  // per wave of the last block
TK_API const TkInterval* tk_intervals(const TkResult* result, uint64_t* count);
TK_API const TkRelease* tk_releases(const TkResult* result, uint64_t* count);
TK_API const TkKnown* tk_known(TkResult* result, uint64_t* count);
TK_API TkFlags* tk_flags_new();
TK_API void tk_flags_free(TkFlags* flags);
// In a launch over an algebra: those that count.
TK_API const TkLoss* tk_losses(TkResult* result, uint64_t* count);
// The keyed hash of a number, modulo p (field 0) or q (field 1); p and q themselves.
TK_API uint32_t tk_ring_hash(const char* tag, uint32_t x, uint32_t field);
TK_API uint32_t tk_ring_modulus(uint32_t field);
TK_API const TkTraceEntry* tk_trace(const TkResult* result, uint64_t* count);
// The registers of every instruction of a traced launch, by its dword index.
TK_API const TkSpan* tk_spans(const TkResult* result, uint64_t* count);
TK_API const uint64_t* tk_trace_lanes(const TkResult* result, uint64_t* count);
// Every mnemonic that the core implements, in table order; null past the end.
TK_API const char* tk_operation(uint64_t i);
}
