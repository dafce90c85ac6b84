/// Accumulators to shared memory.
#pragma once

#include "sync.cuh"

namespace kittens {

/// Orders this thread's ordinary stores to shared memory before what the copy engine and wgmma read after a meeting.
__device__ inline void fence_view_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

namespace detail {

template<typename T> __device__ inline uint32_t pack(float2 v);
template<> __device__ inline uint32_t pack<bf16>(float2 v) {
    __nv_bfloat162 packed = __float22bfloat162_rn(v);
    return reinterpret_cast<uint32_t &>(packed);
}
template<> __device__ inline uint32_t pack<half>(float2 v) {
    half2 packed = __float22half2_rn(v);
    return reinterpret_cast<uint32_t &>(packed);
}

/// Byte offset of an element of a panel, before its row's chunks are exchanged: `column` in bytes.
__device__ inline uint32_t swizzled(int row, int column) {
    return uint32_t(row * SWIZZLE_BYTES + (column ^ ((row % 8) * 16)));
}

} // namespace detail

/// The group's 64 x C accumulators to a tile, converted to its type, and made visible to the copy engine.
template<typename S, int C> __device__ inline void warpgroup::store(S &to, const rt_fl<16, C> &from) {
    static_assert(S::rows == 64 && S::cols == C);
    using T = typename S::dtype;
    const int lane = kittens::laneid(), first = warpid() * 16;
    const uint32_t tile = shared_address(&to);
    if constexpr (sizeof(T) == 2) {
        // stmatrix: lanes 8 i .. 8 i + 7 give the addresses of the rows of matrix i, 8 x 8 elements of 16 bits.
        const int row = first + lane / 8 % 2 * 8 + lane % 8;
#pragma unroll
        for (int j = 0; j < C / 16; ++j) {
            const int column = j * 16 + lane / 16 * 8, panel = j * 16 / S::panel_cols;
            const uint32_t at = tile + panel * S::panel_bytes + detail::swizzled(row, (column - panel * S::panel_cols) * 2);
            const float2 *d = from.tiles[0][j].data;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                         "r"(detail::pack<T>(d[0])), "r"(detail::pack<T>(d[1])), "r"(detail::pack<T>(d[2])),
                         "r"(detail::pack<T>(d[3]))
                         : "memory");
        }
    } else {
#pragma unroll
        for (int j = 0; j < C / 16; ++j)
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                const int row = first + lane / 4 + q % 2 * 8, column = j * 16 + q / 2 * 8 + lane % 4 * 2;
                const int panel = (j * 16 + q / 2 * 8) / S::panel_cols;
                const uint32_t at = tile + panel * S::panel_bytes + detail::swizzled(row, (column - panel * S::panel_cols) * 4);
                const float2 v = from.tiles[0][j].data[q];
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(v.x), "f"(v.y) : "memory");
            }
    }
    fence_view_async_shared();
}

} // namespace kittens
