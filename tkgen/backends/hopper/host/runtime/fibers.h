/// Threads of a kernel as fibers: each has a stack of its own and goes on where it stopped.
#pragma once

#include <cstddef>

namespace tkgen_host {

/// The stack pointer of something that is not running.
struct fiber {
    void *stack = nullptr;
};

/// Stops what is running, which is kept in `from`, and lets `to` go on.
void switch_to(fiber &from, const fiber &to);

/// Makes a fiber that begins with `entry` on the `bytes` of stack from `memory` on. `entry` never returns.
void make(fiber &made, void *memory, size_t bytes, void (*entry)());

} // namespace tkgen_host
