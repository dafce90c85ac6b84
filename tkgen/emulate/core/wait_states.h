// Pairs of instructions with too few wait states between them; see wait_states.cpp.
#pragma once
#include "machine.h"

struct TooClose {
  uint32_t first, second;    // dword indices
  uint32_t needed, missing;  // wait states
  unsigned reg;              // VGPR row, or ROWS + scalar register
};

// `infos` and `uses` are per dword of the code; a null Info stands where the core knows no instruction.
std::vector<TooClose> missing_wait_states(const TkLaunch& launch, const std::vector<const Info*>& infos, const std::vector<Use>& uses);
