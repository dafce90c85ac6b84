// Launches without data: tensors have addresses and no contents, so a value loaded from them is unknown, and so is all
// that is computed from it. Which registers hold such values is tracked here, exactly as wide as it is needed: a branch,
// EXEC, M0 or the address of an access that depends on one stops the run (DATA_DEPENDENT), so whatever control flow,
// addresses, waits and barriers the run went through, every run on real data goes through too.
//
// Instructions whose operands are unknown in all lanes are not executed. Nor is LDS filled: what is loaded from it is unknown. That is
// all that a launch without data leaves out, and by the above nothing that it does execute can tell.
//
// The same bits follow the number of the block. A run in which no branch, EXEC, M0 or LDS address depended on it went
// through the same instructions, waits, barriers and LDS addresses as every other block does (`block_dependent`).
#pragma once
#include "machine.h"

#include <array>

// What an instruction reads and writes beside the registers that `Use` lists.
struct Flow {
  enum : uint16_t {
    READS_SCC = 1, SETS_SCC = 2, READS_MASK = 4, WRITES_MASK = 8, READS_M0 = 16, READS_VCC = 32, READS_EXEC = 64,
    WRITES_EXEC = 128, JUMPS = 256, RELATIVE = 512, LOW_BY_ITSELF = 1024, KEEPS_DST = 2048, READS_BLOCK = 4096, FIRST_LANE = 8192,
    LEAVES_SCC = 16384, ONE_LANE = 32768,
  };
  uint16_t bits = 0;
  uint16_t mask = 0;  // the first of the two scalar registers that READS_MASK means
};

class Unknown {
 public:
  enum : uint8_t { DATA = 1, BLOCK = 2 };  // bits of Wave::unknown
  explicit Unknown(Engine& engine) : engine_(engine) {}
  static Flow describe(const Op& op, const Info& info);

  void begin_wave(Wave& w, uint32_t first_block_id, uint32_t block_ids);
  // Before an instruction: whether it is left out, because an operand of it is unknown.
  bool before(Wave& w, const Op& op, const Use& use, Flow flow);
  // After it, executed or not: what it wrote is as unknown as what it read.
  void after(Wave& w, const Op& op, const Use& use, Flow flow);
  void submitted(Wave& w, MemoryOp& m);

  bool block_dependent = false;

 private:
  using Registers = std::array<uint64_t, 4>;  // lanes of each register that one access stores or loads in scratch
  void decides(Wave& w, uint8_t how);
  uint8_t of(const Wave& w, unsigned row, uint64_t lanes) const;
  uint64_t lanes_of(const Wave& w, unsigned row) const;
  void becomes(Wave& w, unsigned row, uint64_t lanes, uint8_t how, uint64_t unknown, bool keeps);
  uint64_t one_lane(Wave& w, const Op& op) const;
  Registers through_scratch(Wave& w, const MemoryOp& m, uint8_t& how);

  Engine& engine_;
  // Of the instruction under way: how unknown what it reads is, and in which lanes each register of its data.
  uint8_t sources_ = 0, data_ = 0, address_ = 0;
  uint64_t unknown_ = 0, low_ = 0;
  Registers data_lanes_{};
};
