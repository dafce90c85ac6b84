// The ways through a program.
#pragma once
#include "machine.h"

// The dword indices that may be executed after the instruction at `at`; `past_calls`: after a call also what follows it.
inline void successors(const TkLaunch& launch, const std::vector<const Info*>& infos, uint32_t at, bool past_calls, std::vector<uint32_t>& out) {
  const Op& op = launch.ops[at];
  const char* name = infos[at]->name;
  const uint32_t next = at + op.size / 4u;
  if (begins(name, {"s_endpgm", "s_setpc", "s_rfe"})) return;
  const bool call = begins(name, {"s_swappc", "s_call"});
  if (begins(name, {"s_branch", "s_cbranch", "s_call"})) out.push_back(uint32_t(int64_t(next) + op.offset));
  if (!begins(name, {"s_branch"}) && (!call || past_calls)) out.push_back(next);
}
