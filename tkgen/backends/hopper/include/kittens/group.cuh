/// Warps that work together (PTX ISA: bar, setmaxnreg, wgmma).
#pragma once

#include "store.cuh"
#include "wgmma.cuh"

namespace kittens {

/// `WARPS` consecutive warps of a block, from a multiple of as many on.
template<int WARPS> struct group {
    static constexpr int GROUP_WARPS = WARPS, GROUP_THREADS = WARPS * WARP_THREADS;

    __device__ static int groupid() { return threadIdx.x / GROUP_THREADS; }
    __device__ static int warpid() { return kittens::warpid() % GROUP_WARPS; }
    __device__ static int laneid() { return threadIdx.x % GROUP_THREADS; }

    /// A meeting of as many threads at named barrier `id`; 0 is that of the block.
    __device__ static void sync(int id) { asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(GROUP_THREADS) : "memory"); }

    /// Comes to that meeting without waiting for it.
    __device__ static void arrive(int id) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(GROUP_THREADS) : "memory"); }

    template<int N> __device__ static void increase_registers() {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
    }
    template<int N> __device__ static void decrease_registers() {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
    }

    /// D += A B of a warpgroup, or D = A B, with factors as they lie or transposed. `mma_async_wait` says when it is done.
    template<typename D, typename A, typename B> __device__ static void mma_AB(D &d, const A &a, const B &b) {
        multiply<true, false, true>(d, a, b);
    }
    template<typename D, typename A, typename B> __device__ static void mma_ABt(D &d, const A &a, const B &b) {
        multiply<true, false, false>(d, a, b);
    }
    template<typename D, typename A, typename B> __device__ static void mma_AtB(D &d, const A &a, const B &b) {
        multiply<true, true, true>(d, a, b);
    }
    template<typename D, typename A, typename B> __device__ static void mma_AtBt(D &d, const A &a, const B &b) {
        multiply<true, true, false>(d, a, b);
    }
    template<typename D, typename A, typename B> __device__ static void mm_AB(D &d, const A &a, const B &b) {
        multiply<false, false, true>(d, a, b);
    }
    template<typename D, typename A, typename B> __device__ static void mm_ABt(D &d, const A &a, const B &b) {
        multiply<false, false, false>(d, a, b);
    }
    template<typename D, typename A, typename B> __device__ static void mm_AtB(D &d, const A &a, const B &b) {
        multiply<false, true, true>(d, a, b);
    }
    template<typename D, typename A, typename B> __device__ static void mm_AtBt(D &d, const A &a, const B &b) {
        multiply<false, true, false>(d, a, b);
    }

    /// Returns when at most N of the group's products, as committed, are still running.
    template<int N = 0> __device__ static void mma_async_wait() {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
    }

    /// A warpgroup's 64 x C elements to a tile, converted to its type and made visible to the copy engine.
    template<typename S, typename T, int C> __device__ static void store(S &to, const rt<T, 16, C> &from) {
        static_assert(WARPS == WARPGROUP_WARPS && S::rows == 64 && S::cols == C);
        tkgen::store_rows(to, warpid() * 16, from);
        tkgen::fence_view_async_shared();
    }

    template<int R, int C> __device__ static void zero(rt_fl<R, C> &tile) {
#pragma unroll
        for (int i = 0; i < R / 16; ++i)
#pragma unroll
            for (int j = 0; j < C / 16; ++j)
#pragma unroll
                for (int q = 0; q < 4; ++q) tile.tiles[i][j].data[q] = {0, 0};
    }

    /// The same elements as narrower floats.
    template<typename T, int R, int C> __device__ static void copy(rt<T, R, C> &to, const rt_fl<R, C> &from) {
#pragma unroll
        for (int i = 0; i < R / 16; ++i)
#pragma unroll
            for (int j = 0; j < C / 16; ++j)
#pragma unroll
                for (int q = 0; q < 4; ++q) to.tiles[i][j].data[q] = tkgen::pack<T>(from.tiles[i][j].data[q]);
    }

private:
    template<bool ACCUMULATE, bool TRANSPOSE_A, bool TRANSPOSE_B, typename D, typename A, typename B>
    __device__ static void multiply(D &d, const A &a, const B &b) {
        static_assert(WARPS == WARPGROUP_WARPS, "products are a warpgroup's");
        tkgen::multiply_tiles<ACCUMULATE, TRANSPOSE_A, TRANSPOSE_B>(d, a, b);
    }
};

using warp = group<1>;
using warpgroup = group<WARPGROUP_WARPS>;

} // namespace kittens
