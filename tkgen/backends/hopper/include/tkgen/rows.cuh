/// Rows over lanes: what a lane moves of a row at once, and conversions of it.
#pragma once

#include "lanes.cuh"
#include "memory.cuh"

namespace tk {

/// Neighbours in memory, as they stand there: at most 16 bytes, which one access moves.
template <typename T, int n> struct alignas(n * sizeof(T)) elements {
    T at[n];
};

/// The elements at an offset of a buffer, by `load`, which loads a word from an address.
template <typename T, int n, typename F> __device__ inline elements<T, n> load_by(buffer<T> from, uint32_t offset, F load) {
    using E = elements<T, n>;
    E e{};
    if (!from.has(offset)) return e;
    const char *at = from.at(offset);
    if constexpr (sizeof(E) == 1) reinterpret_cast<uint8_t &>(e) = load(reinterpret_cast<const unsigned char *>(at));
    else if constexpr (sizeof(E) == 2) reinterpret_cast<uint16_t &>(e) = load(reinterpret_cast<const uint16_t *>(at));
    else if constexpr (sizeof(E) == 4) reinterpret_cast<uint32_t &>(e) = load(reinterpret_cast<const uint32_t *>(at));
    else if constexpr (sizeof(E) == 8) reinterpret_cast<uint2 &>(e) = load(reinterpret_cast<const uint2 *>(at));
    else reinterpret_cast<uint4 &>(e) = load(reinterpret_cast<const uint4 *>(at));
    return e;
}
template <typename T, int n> __device__ inline elements<T, n> load_elements(buffer<T> from, uint32_t offset) {
    return load_by<T, n>(from, offset, [](const auto *at) { return *at; });
}

/// The same of what is read for the last time: the L2 may drop it first.
template <typename T, int n> __device__ inline elements<T, n> load_last(buffer<T> from, uint32_t offset) {
    return load_by<T, n>(from, offset, [](const auto *at) { return __ldcs(at); });
}

template <typename T, int n> __device__ inline void store_elements(buffer<T> to, uint32_t offset, const elements<T, n> &e) {
    if (!to.has(offset)) return;
    char *at = to.at(offset);
    if constexpr (sizeof(e) == 1) __stcs(reinterpret_cast<unsigned char *>(at), reinterpret_cast<const unsigned char &>(e));
    else if constexpr (sizeof(e) == 2) __stcs(reinterpret_cast<uint16_t *>(at), reinterpret_cast<const uint16_t &>(e));
    else if constexpr (sizeof(e) == 4) __stcs(reinterpret_cast<uint32_t *>(at), reinterpret_cast<const uint32_t &>(e));
    else if constexpr (sizeof(e) == 8) __stcs(reinterpret_cast<uint2 *>(at), reinterpret_cast<const uint2 &>(e));
    else __stcs(reinterpret_cast<uint4 *>(at), reinterpret_cast<const uint4 &>(e));
}

/// The optimiser knows these numbers no more: what was made of them before is made again, not kept in registers.
template <typename T, int n> __device__ inline void forget(elements<T, n> &e) {
    if constexpr (sizeof(e) == 2) asm("" : "+h"(reinterpret_cast<uint16_t &>(e)));
    else static_assert(sizeof(e) % 4 == 0);
#pragma unroll
    for (int w = 0; w < int(sizeof(e) / 4); ++w) asm("" : "+r"(reinterpret_cast<uint32_t *>(e.at)[w]));
}

/// Numbers are f32 while they are computed with. Narrower ones are rounded to nearest even; beyond the ends they are the
/// last number, where the type has none beyond that.
template <typename T> __device__ inline float widen(const T &value) { return float(value); }
template <typename T> __device__ inline T narrow(float value) { return T(value); }
/// Of NaN the least number.
template <> __device__ inline int8_t narrow<int8_t>(float v) { return int8_t(fminf(fmaxf(rintf(v), -128.0f), 127.0f)); }
template <> __device__ inline int narrow<int>(float v) { return isnan(v) ? int(0x80000000) : __float2int_rn(v); }
/// Of infinities NaN.
template <> __device__ inline fp8e4m3 narrow<fp8e4m3>(float v) { return fp8e4m3(isinf(v) ? NAN : v); }
/// Infinities stay such.
template <> __device__ inline fp8e5m2 narrow<fp8e5m2>(float v) {
    fp8e5m2 made(v);
    if (isinf(v)) made.__x += 1;  // the code behind the largest number
    return made;
}

/// All warps of the block meet; what they have read and written in shared memory is done.
__device__ inline void lds_barrier() { __syncthreads(); }

} // namespace tk
