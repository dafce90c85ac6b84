/**
 * Numbers in global memory that lanes combine with others, one after the other: sums, and the largest and least.
 */
#pragma once

#include "rows.cuh"

namespace tk {

/// A tensor from one of its elements on, of which offsets are in bytes.
template <typename T> struct memory {
    __attribute__((address_space(1))) T *first;
    __device__ auto *at(uint32_t offset) const { return first + offset / sizeof(T); }
};
template <ducks::gl::all GL> __device__ inline memory<typename GL::dtype> memory_from(const GL &tensor, uint64_t origin) {
    return {(__attribute__((address_space(1))) typename GL::dtype *)(tensor.raw_ptr + origin)};
}

/// Element number `at` of a tensor, counted over all of it.
template <ducks::gl::all GL> __device__ inline auto *element_at(const GL &tensor, size_t at) {
    return (__attribute__((address_space(1))) typename GL::dtype *)tensor.raw_ptr + at;
}

/// `value` in the place of a number in memory; `policy` as of a tensor.
template <int policy, typename T> __device__ inline void set_to(__attribute__((address_space(1))) T *to, T value) {
    using bits = decltype([] {
        if constexpr (sizeof(T) == 1) return uint8_t();
        else if constexpr (sizeof(T) == 2) return uint16_t();
        else return uint32_t();
    }());
    auto *there = (__attribute__((address_space(1))) bits *)to;
    if constexpr (policy) __builtin_nontemporal_store(__builtin_bit_cast(bits, value), there);
    else *there = __builtin_bit_cast(bits, value);
}

/// The number `value` added to one in memory.
__device__ inline void add_to(__attribute__((address_space(1))) float *to, float value) { __builtin_amdgcn_global_atomic_fadd_f32(to, value); }
__device__ inline void add_to(__attribute__((address_space(1))) int *to, int value) {
    __hip_atomic_fetch_add(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

/// The larger of a number in memory and `value`, and the lesser one.
__device__ inline void max_to(__attribute__((address_space(1))) int *to, int value) {
    __hip_atomic_fetch_max(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
__device__ inline void min_to(__attribute__((address_space(1))) int *to, int value) {
    __hip_atomic_fetch_min(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
__device__ inline void max_to(__attribute__((address_space(1))) unsigned *to, unsigned value) {
    __hip_atomic_fetch_max(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
__device__ inline void min_to(__attribute__((address_space(1))) unsigned *to, unsigned value) {
    __hip_atomic_fetch_min(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

/// Floats are in the order of their bits: positive ones as integers with a sign, negative ones from the largest integer
/// without a sign downwards. NaN changes nothing.
__device__ inline void max_to(__attribute__((address_space(1))) float *to, float value) {
    const int bits = __builtin_bit_cast(int, value);
    if (value != value) return;
    if (bits >= 0) max_to((__attribute__((address_space(1))) int *)to, bits);
    else min_to((__attribute__((address_space(1))) unsigned *)to, unsigned(bits));
}
__device__ inline void min_to(__attribute__((address_space(1))) float *to, float value) {
    const int bits = __builtin_bit_cast(int, value);
    if (value != value) return;
    if (bits >= 0) min_to((__attribute__((address_space(1))) int *)to, bits);
    else max_to((__attribute__((address_space(1))) unsigned *)to, unsigned(bits));
}

/// Neighbours in memory combined with these; nothing is outside.
template <typename T, int n> __device__ inline void add_elements(memory<T> to, uint32_t offset, const elements<T, n> &e) {
    if (offset >= OUTSIDE) return;
#pragma unroll
    for (int i = 0; i < n; ++i) add_to(to.at(offset) + i, e.at[i]);
}
template <typename T, int n> __device__ inline void max_elements(memory<T> to, uint32_t offset, const elements<T, n> &e) {
    if (offset >= OUTSIDE) return;
#pragma unroll
    for (int i = 0; i < n; ++i) max_to(to.at(offset) + i, e.at[i]);
}
template <typename T, int n> __device__ inline void min_elements(memory<T> to, uint32_t offset, const elements<T, n> &e) {
    if (offset >= OUTSIDE) return;
#pragma unroll
    for (int i = 0; i < n; ++i) min_to(to.at(offset) + i, e.at[i]);
}

/// at[n] = the position that a vector of i32 holds for the n-th of a lane's own rows or columns of a fragment; the
/// largest number where there is no such row.
template <typename owned, ducks::gl::all GL, int N>
__device__ inline void positions_of(uint32_t (&at)[N], const GL &held, int tile) {
    static_assert(N == owned::count, "a position for each of the rows or columns of a lane");
#pragma unroll
    for (int n = 0; n < N; ++n) {
        const int row = tile * owned::extent + owned::at(n);
        at[n] = row < int(held.cols()) ? uint32_t(held.raw_ptr[row]) : 0xffffffff;
    }
}

/// f(at, n) for each row or column of a fragment, by one of the lanes that own elements of it.
template <typename owned, typename F> __device__ inline void each_owned(int tile, F f) {
    if (!owned::first()) return;
#pragma unroll
    for (int n = 0; n < owned::count; ++n) f(tile * owned::extent + owned::at(n), n);
}

} // namespace tk
