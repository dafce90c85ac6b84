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

/// Two 8-bit floats, the first in the low byte. What is finite becomes at most the largest number; infinity stays it where
/// the encoding has one (e5m2), and is a NaN where it has none: the instruction alone would make the largest number of it.
template<typename T> __device__ inline uint16_t pack_bytes(float2 v);
template<> __device__ inline uint16_t pack_bytes<fp8e4m3>(float2 v) {
    uint16_t packed;
    v.x = isinf(v.x) ? NAN : v.x, v.y = isinf(v.y) ? NAN : v.y;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(v.y), "f"(v.x));
    return packed;
}
template<> __device__ inline uint16_t pack_bytes<fp8e5m2>(float2 v) {
    uint16_t packed;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(v.y), "f"(v.x));
    return packed + (isinf(v.x) ? 1 : 0) + (isinf(v.y) ? 0x100 : 0);  // infinity is the code behind the largest number
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

/// Converted to 8-bit floats.
template<typename T, int R, int C> __device__ inline void warp::copy(rt_8<T, R, C> &to, const rt_fl<R, C> &from) {
#pragma unroll
    for (int i = 0; i < R / 16; ++i)
#pragma unroll
        for (int j = 0; j < C / 16; ++j)
#pragma unroll
            for (int q = 0; q < 4; ++q) to.tiles[i][j].data[q] = detail::pack_bytes<T>(from.tiles[i][j].data[q]);
}

/// The group's 64 x C 8-bit floats to a tile, made visible to the copy engine. Rows of a warp are in different banks.
template<typename S, typename T, int C> __device__ inline void warpgroup::store(S &to, const rt_8<T, 16, C> &from) {
    static_assert(S::rows == 64 && S::cols == C && sizeof(typename S::dtype) == 1);
    const int lane = kittens::laneid(), first = warpid() * 16;
    const uint32_t tile = shared_address(&to);
#pragma unroll
    for (int j = 0; j < C / 16; ++j)
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int row = first + lane / 4 + q % 2 * 8, column = j * 16 + q / 2 * 8 + lane % 4 * 2;
            const int panel = j * 16 / S::panel_cols;
            const uint32_t at = tile + panel * S::panel_bytes + detail::swizzled(row, column - panel * S::panel_cols);
            asm volatile("st.shared.b16 [%0], %1;" ::"r"(at), "h"(from.tiles[0][j].data[q]) : "memory");
        }
    fence_view_async_shared();
}

} // namespace kittens
