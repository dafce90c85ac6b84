/// mbarriers, named barriers and warpgroups (PTX ISA: mbarrier, bar, setmaxnreg).
#pragma once

#include "types.cuh"

namespace kittens {

/// An mbarrier: a phase completes when its arrivals are counted and the bytes it expects have come.
struct alignas(8) semaphore {
    uint64_t state;
};

/// Makes `bar` ready for phases of `threads` + `transactions` arrivals. One thread does it, before a barrier of the block.
__device__ inline void init_semaphore(semaphore &bar, int threads, int transactions = 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&bar)), "r"(threads + transactions) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // to the copy engine, too
}

/// Counts one arrival.
__device__ inline void arrive(semaphore &bar) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(&bar)) : "memory");
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
        "}\n" ::"r"(shared_address(&bar)), "r"(phase) : "memory");
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
        "}\n" ::"r"(shared_address(&bar)),
        "r"(rank), "r"(count)
        : "memory");
}

} // namespace tma::cluster

/// A meeting of all threads of a cluster.
namespace everyone::tma::cluster {
__device__ inline void arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ inline void wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
} // namespace everyone::tma::cluster

/// Four consecutive warps from a multiple of four on.
struct warpgroup {
    __device__ static int groupid() { return threadIdx.x / (WARPGROUP_WARPS * WARP_THREADS); }
    __device__ static int warpid() { return kittens::warpid() % WARPGROUP_WARPS; }
    __device__ static int laneid() { return threadIdx.x % (WARPGROUP_WARPS * WARP_THREADS); }

    /// A meeting of the group's 128 threads at named barrier `id`; 0 is that of the block.
    __device__ static void sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }

    /// The same meeting of several groups, `threads` in all; who arrives does not wait.
    __device__ static void sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
    __device__ static void arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

    template<int N> __device__ static void increase_registers() {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
    }
    template<int N> __device__ static void decrease_registers() {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
    }

    template<typename D, typename A, typename B> __device__ static void mma_AB(D &d, const A &a, const B &b);
    template<typename D, typename A, typename B> __device__ static void mma_ABt(D &d, const A &a, const B &b);
    template<typename D, typename A, typename B> __device__ static void mma_AtB(D &d, const A &a, const B &b);
    template<typename D, typename A, typename B> __device__ static void mma_AtBt(D &d, const A &a, const B &b);
    template<typename D, typename A, typename B> __device__ static void mm_AB(D &d, const A &a, const B &b);
    template<typename D, typename A, typename B> __device__ static void mm_ABt(D &d, const A &a, const B &b);
    template<typename D, typename A, typename B> __device__ static void mm_AtB(D &d, const A &a, const B &b);
    template<typename D, typename A, typename B> __device__ static void mm_AtBt(D &d, const A &a, const B &b);

    /// Returns when at most N of the group's products, as committed, are still running.
    template<int N = 0> __device__ static void mma_async_wait() {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
    }

    template<typename S, int C> __device__ static void store(S &to, const rt_fl<16, C> &from);
    template<typename S, typename T, int C> __device__ static void store(S &to, const rt_8<T, 16, C> &from);
};

/// One warp.
struct warp {
    template<int R, int C> __device__ static void zero(rt_fl<R, C> &tile) {
#pragma unroll
        for (int i = 0; i < R / 16; ++i)
#pragma unroll
            for (int j = 0; j < C / 16; ++j)
#pragma unroll
                for (int q = 0; q < 4; ++q) tile.tiles[i][j].data[q] = {0, 0};
    }
    template<typename T, int R, int C> __device__ static void copy(rt_8<T, R, C> &to, const rt_fl<R, C> &from);
};

} // namespace kittens
