/// mbarriers and clusters (PTX ISA: mbarrier, barrier.cluster).
#pragma once

#include "types.cuh"

namespace kittens {

/// An mbarrier: a phase completes when its arrivals are counted and the bytes it expects have come.
struct alignas(8) semaphore {
    uint64_t state;
};

/// Makes `bar` ready for phases of `threads` + `transactions` arrivals. One thread does it, before a barrier of the block.
__device__ inline void init_semaphore(semaphore &bar, int threads, int transactions = 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(tkgen::shared_address(&bar)), "r"(threads + transactions) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // to the copy engine, too
}

/// Counts one arrival.
__device__ inline void arrive(semaphore &bar) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(tkgen::shared_address(&bar)) : "memory");
}

/// Returns when the phase of parity `phase` is complete. On a fresh barrier parity 1 counts as complete.
__device__ inline void wait(semaphore &bar, int phase) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
        "@done bra ready;\n"
        "bra again;\n"
        "ready:\n"
        "}\n" ::"r"(tkgen::shared_address(&bar)), "r"(phase) : "memory");
}

/// The number of this block within its cluster.
__device__ inline int cluster_ctarank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return int(rank);
}

namespace tma::cluster {

/// Counts `count` arrivals at the barrier that block `rank` of the cluster has in place of `bar`: this thread is done with
/// what it read. What it wrote by ordinary stores is not made visible beyond its own block, which takes a fence of the GPU.
__device__ inline void arrive(semaphore &bar, int rank, uint32_t count = 1) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.release.cta.shared::cluster.b64 _, [there], %2;\n"
        "}\n" ::"r"(tkgen::shared_address(&bar)),
        "r"(rank), "r"(count)
        : "memory");
}

} // namespace tma::cluster

/// A meeting of all threads of a cluster.
namespace everyone::tma::cluster {
__device__ inline void arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ inline void wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
} // namespace everyone::tma::cluster

/// Kernels of a stream that run beside each other for a while (PTX ISA: griddepcontrol).
namespace pdl {
/// Blocks of the kernel that is launched next may begin, where there is room, once all blocks of this one have come here.
__device__ inline void arrive() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
/// Returns when the kernel that was launched before has ended, and its stores are seen here.
__device__ inline void wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
} // namespace pdl

} // namespace kittens
