/// Tiles of operands that a warpgroup fills itself: from global memory to registers, to be multiplied from shared memory.
///
/// The copy engine brings boxes of a tensor as they are. What lies elsewhere, row by row, or is a function of what memory
/// has, or has rows that are no multiple of 16 bytes, is loaded in chunks by the threads of the producer: each has some chunks of 16 bytes of the tile.
#pragma once

#include "memory.cuh"

namespace tk {

/// What a thread of a warpgroup has for its chunks of a tile: `Raw` of memory, and numbers `beside` it.
template <typename S, typename Raw, int beside = 0> struct loaded_chunks {
    static constexpr int CHUNK = 16 / int(sizeof(typename S::dtype)), OF_ROW = S::cols / CHUNK;
    static constexpr int COUNT = S::rows * OF_ROW / warpgroup::GROUP_THREADS;
    static_assert(S::rows * OF_ROW % warpgroup::GROUP_THREADS == 0, "each thread has as many chunks");
    Raw raw[COUNT];
    float numbers[COUNT][beside ? beside : 1];
};

/// f(raw, numbers, row, col) for each chunk of a thread, whose first element is there in the tile.
template <typename S, typename Raw, int beside, typename F>
__device__ inline void load_chunks(loaded_chunks<S, Raw, beside> &to, F f) {
    using E = loaded_chunks<S, Raw, beside>;
#pragma unroll
    for (int n = 0; n < E::COUNT; ++n) {
        const int at = n * warpgroup::GROUP_THREADS + warpgroup::laneid();
        f(to.raw[n], to.numbers[n], at / E::OF_ROW, at % E::OF_ROW * E::CHUNK);
    }
}

/// The 16 bytes from an element on; zeros where there is none.
template <typename T> __device__ inline uint4 chunk_at(const T *from) {
    return from ? *reinterpret_cast<const uint4 *>(from) : uint4{0, 0, 0, 0};
}

/// The same of a row with `left` more elements, in parts of so many bytes, of which rows are a multiple; zeros after its end.
template <int BYTES, typename T> __device__ inline uint4 chunk_in_parts(const T *from, int left) {
    using part = std::conditional_t<BYTES == 8, uint64_t, std::conditional_t<BYTES == 4, uint32_t,
                 std::conditional_t<BYTES == 2, uint16_t, uint8_t>>>;
    uint64_t words[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < 16 / BYTES; ++n)
        if (n * BYTES < left * int(sizeof(T)))
            words[n * BYTES / 8] |= uint64_t(reinterpret_cast<const part *>(from)[n]) << n * BYTES % 8 * 8;
    return {uint32_t(words[0]), uint32_t(words[0] >> 32), uint32_t(words[1]), uint32_t(words[1] >> 32)};
}

// ---------------------------------------------------------------- integers of 8 and of 4 bits

/// An integer below 2^23 as a float, less `by`: an exponent in front of it, and no conversion, of which an SM makes few.
__device__ inline float small(uint32_t code, float by) { return __int_as_float(0x4b000000 | code) - (8388608.0f + by); }

/// Eight neighbours of a row of i8, from element `k` on.
struct of_i8 {
    uint32_t words[2];
    __device__ void load(const int8_t *row, int k) {
        const uint2 both = *reinterpret_cast<const uint2 *>(row + k);
        words[0] = both.x, words[1] = both.y;
    }
    __device__ float number(int e) const { return small((words[e / 4] >> e % 4 * 8 & 0xff) ^ 0x80, 128); }
};

/// Eight neighbours of a row of 4 bits, two in a byte, the first in the low half.
template <bool is_signed> struct of_4_bits {
    uint32_t word;
    __device__ void load(const uint8_t *row, int k) { word = *reinterpret_cast<const uint32_t *>(row + k / 2); }
    __device__ float number(int e) const {
        const uint32_t code = word >> e * 4 & 0xf;
        return is_signed ? small(code ^ 8, 8) : small(code, 0);
    }
};

/// The same of `interleaved` rows: of 128 elements quad q of the 16 from 32 w on is in bytes 16 q + 4 w and on, elements 0, 2,
/// 1 and 3 of it in the low halves of these, and the quad of the 16 further in the high halves.
template <bool is_signed> struct of_4_bits_interleaved {
    uint32_t words[2];
    __device__ void load(const uint8_t *row, int k) {
        const uint8_t *from = row + k / 128 * 64 + k % 16 / 4 * 16 + k % 128 / 32 * 4;
        const int shift = k % 32 / 16 * 4;
#pragma unroll
        for (int i = 0; i < 2; ++i) words[i] = *reinterpret_cast<const uint32_t *>(from + 16 * i) >> shift & 0x0f0f0f0f;
    }
    __device__ float number(int e) const {
        const uint32_t code = words[e / 4] >> (e % 4 / 2 + e % 2 * 2) * 8 & 0xf;
        return is_signed ? small(code ^ 8, 8) : small(code, 0);
    }
};

// ---------------------------------------------------------------- to shared memory

/// Two neighbours of 16 bits, rounded.
template <typename T> __device__ inline uint32_t pair_of_floats(float x, float y) {
    if constexpr (std::is_same_v<T, bf16>) {
        const __nv_bfloat162 both = __float22bfloat162_rn(float2{x, y});
        return reinterpret_cast<const uint32_t &>(both);
    } else {
        const half2 both = __float22half2_rn(float2{x, y});
        return reinterpret_cast<const uint32_t &>(both);
    }
}

/// 16 bytes to chunk `at` of a tile.
template <typename S> __device__ inline void put_chunk(S &tile, int at, const uint32_t (&words)[4]) {
    constexpr int ROW = S::cols * int(sizeof(typename S::dtype)), PANEL = ROW % 128 ? 64 : 128;  // bytes
    constexpr int OF_ROW = ROW / 16, OF_PANEL = PANEL / 16;
    const int row = at / OF_ROW, chunk = at % OF_ROW, panel = chunk / OF_PANEL;
    const int exchanged = chunk % OF_PANEL ^ (PANEL == 128 ? row % 8 : row / 2 % 4);
    const uint32_t to = uint32_t(__cvta_generic_to_shared(&tile)) + (panel * S::rows + row) * PANEL + exchanged * 16;
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

/// Ordinary stores of a warp to shared memory come before what wgmma reads after one of its lanes has arrived somewhere.
__device__ inline void fence_of_products() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
}

/// A thread's chunks to a tile, as they are.
template <typename S> __device__ inline void fill(S &tile, const loaded_chunks<S, uint4> &from) {
#pragma unroll
    for (int n = 0; n < from.COUNT; ++n) {
        const uint4 &raw = from.raw[n];
        put_chunk(tile, n * warpgroup::GROUP_THREADS + warpgroup::laneid(), {raw.x, raw.y, raw.z, raw.w});
    }
    fence_of_products();
}

/// The same of what `f(number, numbers)` makes of each element, rounded to the type of the tile.
template <typename S, typename Raw, int beside, typename F>
__device__ inline void fill(S &tile, const loaded_chunks<S, Raw, beside> &from, F f) {
    using T = typename S::dtype;
    static_assert(sizeof(T) == 2);
#pragma unroll
    for (int n = 0; n < from.COUNT; ++n) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const auto made = [&](int e) { return f(from.raw[n].number(e), from.numbers[n]); };
            words[i] = pair_of_floats<T>(made(2 * i), made(2 * i + 1));
        }
        put_chunk(tile, n * warpgroup::GROUP_THREADS + warpgroup::laneid(), words);
    }
    fence_of_products();
}

} // namespace tk
