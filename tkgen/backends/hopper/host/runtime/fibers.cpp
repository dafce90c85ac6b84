#include "fibers.h"

#include <cstdint>

#if defined(__x86_64__)

// Registers that a called function must keep, and the words that say how floats are rounded.
extern "C" void tkgen_host_switch(void **from, void *to);
asm(R"(
.text
.globl tkgen_host_switch
.hidden tkgen_host_switch
.type tkgen_host_switch, @function
tkgen_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size tkgen_host_switch, .-tkgen_host_switch
)");

namespace tkgen_host {
void switch_to(fiber &from, const fiber &to) { tkgen_host_switch(&from.stack, to.stack); }
void make(fiber &made, void *memory, size_t bytes, void (*entry)()) {
    auto top = (reinterpret_cast<uintptr_t>(memory) + bytes) & ~uintptr_t(15);
    auto *at = reinterpret_cast<void **>(top);
    *--at = nullptr;  // a function starts with its return address on a stack that was aligned before
    *--at = reinterpret_cast<void *>(entry);
    for (int n = 0; n < 6; ++n) *--at = nullptr;
    made.stack = at;
}
} // namespace tkgen_host

#elif defined(__aarch64__)

extern "C" void tkgen_host_switch(void **from, void *to);
asm(R"(
.text
.globl tkgen_host_switch
.hidden tkgen_host_switch
.type tkgen_host_switch, %function
tkgen_host_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size tkgen_host_switch, .-tkgen_host_switch
)");

namespace tkgen_host {
void switch_to(fiber &from, const fiber &to) { tkgen_host_switch(&from.stack, to.stack); }
void make(fiber &made, void *memory, size_t bytes, void (*entry)()) {
    const auto top = (reinterpret_cast<uintptr_t>(memory) + bytes) & ~uintptr_t(15);
    auto *at = reinterpret_cast<void **>(top - 160);
    for (int n = 0; n < 20; ++n) at[n] = nullptr;
    at[11] = reinterpret_cast<void *>(entry);  // x30, to which the switch returns
    made.stack = at;
}
} // namespace tkgen_host

#else
#error "the host run switches stacks on x86-64 and aarch64"
#endif
