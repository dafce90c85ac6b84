// Loads that wait for another wave, where nothing marks a flag but that somebody looks at it until it changes: in LDS, and on
// gfx90a in global memory without GLC.
//
// A load, or an atomic operation that gives back what was there, polls if it is in a loop without a barrier, at an address
// that the loop does not change, and what it gives decides whether the loop ends; so does the same load in front of the loop.
// It is the code that says so, so no order of the waves hides a flag.
#pragma once
#include "machine.h"

enum Poll : uint8_t { POLLS_LDS = 1, POLLS_GLOBAL = 2 };

// Per dword of the code, which of these the instruction there does. `infos` and `uses` as for missing_wait_states.
std::vector<uint8_t> polling_loads(const TkLaunch& launch, const std::vector<const Info*>& infos, const std::vector<Use>& uses);

// An atomic operation on LDS, or on what may be LDS, that gives back what was there.
bool returning_lds_atomic(const Op& op, const Info& info);
