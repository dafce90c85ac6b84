/// Numbers in global memory that threads combine with others, one after the other: sums, and the largest and least.
#pragma once

#include "rows.cuh"

namespace tk {

template <typename GL> __device__ inline buffer<typename GL::dtype> memory_from(const GL &tensor, uint64_t origin) {
    return buffer_from(tensor, origin);
}

/// The larger of a number in memory and `value`, and the lesser one. Floats are in the order of their bits: positive ones
/// as integers with a sign, negative ones from the largest integer without a sign downwards. NaN changes nothing.
__device__ inline void max_to(int *to, int value) { atomicMax(to, value); }
__device__ inline void min_to(int *to, int value) { atomicMin(to, value); }
__device__ inline void max_to(float *to, float value) {
    if (isnan(value)) return;
    if (!signbit(value)) atomicMax(reinterpret_cast<int *>(to), __float_as_int(value));
    else atomicMin(reinterpret_cast<unsigned *>(to), __float_as_uint(value));
}
__device__ inline void min_to(float *to, float value) {
    if (isnan(value)) return;
    if (!signbit(value)) atomicMin(reinterpret_cast<int *>(to), __float_as_int(value));
    else atomicMax(reinterpret_cast<unsigned *>(to), __float_as_uint(value));
}

__device__ inline void add_to(int *to, int value) { atomicAdd(to, value); }
__device__ inline void add_to(float *to, float value) { atomicAdd(to, value); }
/// `value` in the place of a number in memory.
__device__ inline void set_to(int *to, int value) { *to = value; }
template <typename T> __device__ inline void set_to(T *to, float value) { *to = narrow<T>(value); }

/// The same of two neighbours, the first of which is at a multiple of their size.
__device__ inline void add_to(float *to, float2 value) { atomicAdd(reinterpret_cast<float2 *>(to), value); }
__device__ inline void set_to(int *to, int2 value) { *reinterpret_cast<int2 *>(to) = value; }
template <typename T> __device__ inline void set_to(T *to, float2 value) {
    struct alignas(2 * sizeof(T)) pair { T x, y; };
    *reinterpret_cast<pair *>(to) = pair{narrow<T>(value.x), narrow<T>(value.y)};
}
__device__ inline void add_to(int *to, int2 value) { add_to(to, value.x), add_to(to + 1, value.y); }
template <typename T, typename P> __device__ inline auto max_to(T *to, P value) -> decltype(value.y, void()) {
    max_to(to, value.x), max_to(to + 1, value.y);
}
template <typename T, typename P> __device__ inline auto min_to(T *to, P value) -> decltype(value.y, void()) {
    min_to(to, value.x), min_to(to + 1, value.y);
}

/// Neighbours in memory combined with these; nothing is outside.
template <typename T, int n> __device__ inline void add_elements(buffer<T> to, uint32_t offset, const elements<T, n> &e) {
    if (!to.has(offset)) return;
#pragma unroll
    for (int i = 0; i < n; ++i) atomicAdd(reinterpret_cast<T *>(to.at(offset)) + i, e.at[i]);
}
template <typename T, int n> __device__ inline void max_elements(buffer<T> to, uint32_t offset, const elements<T, n> &e) {
    if (!to.has(offset)) return;
#pragma unroll
    for (int i = 0; i < n; ++i) max_to(reinterpret_cast<T *>(to.at(offset)) + i, e.at[i]);
}
template <typename T, int n> __device__ inline void min_elements(buffer<T> to, uint32_t offset, const elements<T, n> &e) {
    if (!to.has(offset)) return;
#pragma unroll
    for (int i = 0; i < n; ++i) min_to(reinterpret_cast<T *>(to.at(offset)) + i, e.at[i]);
}

} // namespace tk
