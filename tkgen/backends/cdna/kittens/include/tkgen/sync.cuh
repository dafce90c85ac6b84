/**
 * Barriers, waits and fences. No access to memory crosses any of them, in the optimiser or in the code generator.
 */
#pragma once

#include "kittens.cuh"

namespace tk {
using namespace kittens;

/// No access to memory crosses. A barrier or a wait alone is no obstacle to LLVM's MachineSink, which moves LDS reads past
/// both to where their values are used, nor are fences.
__device__ inline void pin() { asm volatile("" : : : "memory"); }

/// The schedule ends a cluster or group here: the compiler moves nothing across.
__device__ inline void fence() {
    pin();
    __builtin_amdgcn_sched_barrier(0);
}

/// The products are in their registers, whatever way leads to their use: LLVM's GCNHazardRecognizer looks for the wait
/// states after an MFMA (20 at most: CDNA3 and CDNA4 ISA, "Manually Inserted Wait States") once a block, and so misses
/// some where a branch goes around instructions.
__device__ inline void settle() {
    fence();
    asm volatile("s_nop 15\n\ts_nop 7" : : : "memory");
}

/// The first wait state of an iteration of a loop that may have none, for which its end has two branches: LLVM's
/// GCNHazardRecognizer counts both, and the way back has one. It does not count assembly. Nothing is moved before it.
__device__ inline void begin_pass() {
    pin();
    asm volatile("s_nop 0" : : : "memory");
    __builtin_amdgcn_sched_barrier(0);
}

/// The same at the end of an iteration.
__device__ inline void end_iteration() {
    fence();
    asm volatile("s_nop 0" : : : "memory");
}

/// Waits for outstanding memory operations, as many as `immediate` (of s_waitcnt) says.
template <int immediate> __device__ inline void wait() {
    pin();
    __builtin_amdgcn_s_waitcnt(immediate);
    pin();
}

/// All waves of the block meet. Counted by the hardware, so it may stand in a role's branch; waits for nothing else.
__device__ inline void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
    pin();
}

/// All waves of the block meet, once this wave's memory operations are as complete as `immediate` says. The fences are for
/// the compiler's scheduler, which then mixes reads with multiplies; the wait is spelled out, for clang 22 loses a fence's
/// own at the head of some loops.
template <int immediate> __device__ inline void barrier_after() {
#if __clang_major__ >= 19
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
#else
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
#endif
    __builtin_amdgcn_s_waitcnt(immediate);
    __builtin_amdgcn_s_barrier();
#if __clang_major__ >= 19
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
#else
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#endif
    pin();
}

/// All waves of the block meet, once this wave's LDS operations are complete; global loads stay in flight.
__device__ inline void lds_barrier() { barrier_after<0xc07f>(); } // lgkmcnt(0)

/// The same, once what this wave has loaded directly is in LDS.
__device__ inline void landed_barrier() { barrier_after<0x0070>(); } // vmcnt(0) lgkmcnt(0)

/// What was read of LDS has arrived: one wait, where the compiler would place one before each MFMA.
__device__ inline void arrived() {
    __builtin_amdgcn_sched_barrier(0);
    __builtin_amdgcn_s_waitcnt(0xc07f); // lgkmcnt(0)
    __builtin_amdgcn_sched_barrier(0);
}

/// A barrier that ends a phase: no instruction crosses it.
__device__ inline void turn() {
    __builtin_amdgcn_sched_barrier(0);
    lds_barrier();
    __builtin_amdgcn_sched_barrier(0);
}
__device__ inline void landed_turn() {
    __builtin_amdgcn_sched_barrier(0);
    landed_barrier();
    __builtin_amdgcn_sched_barrier(0);
}

/// The same for waves that have accessed nothing in LDS since the last barrier.
__device__ inline void idle_turn() {
    __builtin_amdgcn_sched_barrier(0);
    pin();
    __builtin_amdgcn_s_barrier();
    pin();
    __builtin_amdgcn_sched_barrier(0);
}

/// `count` MFMAs stand one by one between `vector` vector instructions; the code that follows waits for these.
template <int count, int vector> __device__ inline void interleave() {
#pragma unroll
    for (int n = 0; n < count; ++n) {
        __builtin_amdgcn_sched_group_barrier(0x8, 1, 0);                            // MFMA
        __builtin_amdgcn_sched_group_barrier(0x2, (vector + count - 1) / count, 0); // vector
    }
    __builtin_amdgcn_sched_barrier(0);
}

} // namespace tk
