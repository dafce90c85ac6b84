/// Registers of a warp converted, and to tiles in shared memory.
#pragma once

#include "sync.cuh"

namespace kittens::tkgen {

/// Orders this thread's ordinary stores to shared memory before what the copy engine and wgmma read after a meeting.
__device__ inline void fence_view_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Two neighbours converted.
template<typename T> __device__ inline pair_bits<T> pack(float2 v);
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
template<> __device__ inline uint16_t pack<fp8e4m3>(float2 v) {
    uint16_t packed;
    v.x = isinf(v.x) ? NAN : v.x, v.y = isinf(v.y) ? NAN : v.y;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(v.y), "f"(v.x));
    return packed;
}
template<> __device__ inline uint16_t pack<fp8e5m2>(float2 v) {
    uint16_t packed;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(v.y), "f"(v.x));
    return packed + (isinf(v.x) ? 1 : 0) + (isinf(v.y) ? 0x100 : 0);  // infinity is the code behind the largest number
}

/// Byte offset of an element of a panel, before its row's chunks are exchanged: `column` in bytes.
__device__ inline uint32_t swizzled(int row, int column) {
    return uint32_t(row * SWIZZLE_BYTES + (column ^ ((row % 8) * 16)));
}

__device__ inline void store_pair(uint32_t at, float2 v) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(v.x), "f"(v.y) : "memory");
}
__device__ inline void store_pair(uint32_t at, int2 v) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at), "r"(v.x), "r"(v.y) : "memory");
}

/// A warp's elements of 4 bytes to the rows of a tile from `first` on.
template<int C, typename S, typename R> __device__ inline void store_words(S &to, int first, const R &from) {
    const int lane = laneid();
    const uint32_t tile = shared_address(&to);
#pragma unroll
    for (int j = 0; j < C / 16; ++j)
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int row = first + lane / 4 + q % 2 * 8, column = j * 16 + q / 2 * 8 + lane % 4 * 2;
            const int panel = (j * 16 + q / 2 * 8) / S::panel_cols;
            const uint32_t at = tile + panel * S::panel_bytes + swizzled(row, (column - panel * S::panel_cols) * 4);
            store_pair(at, from.tiles[0][j].data[q]);
        }
}

/// A warp's accumulators to the rows of a tile from `first` on, converted to its type.
template<typename S, int C> __device__ inline void store_rows(S &to, int first, const rt_fl<16, C> &from) {
    using T = typename S::dtype;
    const int lane = laneid();
    const uint32_t tile = shared_address(&to);
    if constexpr (sizeof(T) == 2) {
        // stmatrix: lanes 8 i .. 8 i + 7 give the addresses of the rows of matrix i, 8 x 8 elements of 16 bits.
        const int row = first + lane / 8 % 2 * 8 + lane % 8;
#pragma unroll
        for (int j = 0; j < C / 16; ++j) {
            const int column = j * 16 + lane / 16 * 8, panel = j * 16 / S::panel_cols;
            const uint32_t at = tile + panel * S::panel_bytes + swizzled(row, (column - panel * S::panel_cols) * 2);
            const float2 *d = from.tiles[0][j].data;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                         "r"(pack<T>(d[0])), "r"(pack<T>(d[1])), "r"(pack<T>(d[2])), "r"(pack<T>(d[3]))
                         : "memory");
        }
    } else {
        store_words<C>(to, first, from);
    }
}

/// A warp's integers to the rows of a tile from `first` on.
template<typename S, int C> __device__ inline void store_rows(S &to, int first, const rt<int, 16, C> &from) {
    static_assert(std::is_same_v<int, typename S::dtype>);
    store_words<C>(to, first, from);
}

/// A warp's 8-bit floats to the rows of a tile from `first` on. Rows of a warp are in different banks.
template<typename S, typename T, int C> __device__ inline void store_rows(S &to, int first, const rt<T, 16, C> &from) {
    static_assert(sizeof(T) == 1 && std::is_same_v<T, typename S::dtype>);
    const int lane = laneid();
    const uint32_t tile = shared_address(&to);
#pragma unroll
    for (int j = 0; j < C / 16; ++j)
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int row = first + lane / 4 + q % 2 * 8, column = j * 16 + q / 2 * 8 + lane % 4 * 2;
            const int panel = j * 16 / S::panel_cols;
            const uint32_t at = tile + panel * S::panel_bytes + swizzled(row, column - panel * S::panel_cols);
            asm volatile("st.shared.b16 [%0], %1;" ::"r"(at), "h"(from.tiles[0][j].data[q]) : "memory");
        }
}

} // namespace kittens::tkgen
