/**
 * Functions of HIP's headers for plain HIP kernels: atomics, votes, shuffles, vector types. All after AMD's HIP language
 * documentation; what takes a mask of lanes (`_sync`) works on all lanes that are there, as it does on a wave of 64.
 */
#pragma once

#include "kittens/device.cuh"

/* ---------- barriers and fences ---------- */

__device__ __forceinline__ void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
__device__ __forceinline__ void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
__device__ __forceinline__ void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }

namespace tkgen_hip {

/// HIP's barrier orders global memory, too; that of the tile library leaves loads from it in flight.
__device__ __forceinline__ void syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __syncthreads();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__device__ __forceinline__ unsigned thread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

} // namespace tkgen_hip
#define __syncthreads tkgen_hip::syncthreads

/* ---------- vector types ---------- */

#define TKGEN_VECTOR(T, name)                                                                                          \
    using name##2 = T __attribute__((ext_vector_type(2)));                                                             \
    using name##4 = T __attribute__((ext_vector_type(4)));
TKGEN_VECTOR(unsigned int, uint)
TKGEN_VECTOR(short, short)
TKGEN_VECTOR(unsigned short, ushort)
TKGEN_VECTOR(signed char, char)
TKGEN_VECTOR(unsigned char, uchar)
TKGEN_VECTOR(long, long)
TKGEN_VECTOR(unsigned long, ulong)
TKGEN_VECTOR(double, double)
#undef TKGEN_VECTOR
using uint = unsigned int;
#define TKGEN_MAKE(name, T)                                                                                            \
    __host__ __device__ constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                                  \
    __host__ __device__ constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TKGEN_MAKE(int, int)
TKGEN_MAKE(uint, unsigned int)
TKGEN_MAKE(float, float)
#undef TKGEN_MAKE

/* ---------- atomic operations: relaxed, of the GPU's scope, as HIP's are ---------- */

#define TKGEN_ATOMIC(name, operation)                                                                                  \
    template <typename T, typename U> __device__ __forceinline__ T name(T *address, U value) {                         \
        return operation(address, T(value), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                               \
    }
TKGEN_ATOMIC(atomicAdd, __hip_atomic_fetch_add)
TKGEN_ATOMIC(atomicSub, __hip_atomic_fetch_sub)
TKGEN_ATOMIC(atomicMin, __hip_atomic_fetch_min)
TKGEN_ATOMIC(atomicMax, __hip_atomic_fetch_max)
TKGEN_ATOMIC(atomicAnd, __hip_atomic_fetch_and)
TKGEN_ATOMIC(atomicOr, __hip_atomic_fetch_or)
TKGEN_ATOMIC(atomicXor, __hip_atomic_fetch_xor)
TKGEN_ATOMIC(atomicExch, __hip_atomic_exchange)
#undef TKGEN_ATOMIC
template <typename T, typename U, typename V> __device__ __forceinline__ T atomicCAS(T *address, U compare, V value) {
    T expected = T(compare);
    __hip_atomic_compare_exchange_strong(address, &expected, T(value), __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return expected;
}

/* ---------- lanes ---------- */

constexpr int warpSize = 64;
__device__ __forceinline__ unsigned __lane_id() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }

__device__ __forceinline__ unsigned long __ballot(int predicate) { return __builtin_amdgcn_ballot_w64(predicate != 0); }
__device__ __forceinline__ unsigned long __activemask() { return __ballot(1); }
__device__ __forceinline__ int __any(int predicate) { return __ballot(predicate) != 0; }
__device__ __forceinline__ int __all(int predicate) { return __ballot(!predicate) == 0; }
__device__ __forceinline__ unsigned long __ballot_sync(unsigned long mask, int predicate) { return __ballot(predicate) & mask; }
__device__ __forceinline__ int __any_sync(unsigned long mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
__device__ __forceinline__ int __all_sync(unsigned long mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
__device__ __forceinline__ void __syncwarp(unsigned long = ~0ul) { __builtin_amdgcn_wave_barrier(); }

namespace tkgen_hip {

/// `value` of another lane of the wave.
template <typename T> __device__ __forceinline__ T from_lane(T value, int lane) {
    static_assert(sizeof(T) % 4 == 0 && sizeof(T) <= 8);
    if constexpr (sizeof(T) == 4) {
        return __builtin_bit_cast(T, __builtin_amdgcn_ds_bpermute(lane << 2, __builtin_bit_cast(int, value)));
    } else {
        int2 parts = __builtin_bit_cast(int2, value);
        parts.x = __builtin_amdgcn_ds_bpermute(lane << 2, parts.x);
        parts.y = __builtin_amdgcn_ds_bpermute(lane << 2, parts.y);
        return __builtin_bit_cast(T, parts);
    }
}

} // namespace tkgen_hip

template <typename T> __device__ __forceinline__ T __shfl(T value, int lane, int width = 64) {
    const int self = __lane_id();
    return tkgen_hip::from_lane(value, (lane & (width - 1)) + (self & ~(width - 1)));
}
template <typename T> __device__ __forceinline__ T __shfl_up(T value, unsigned by, int width = 64) {
    const int self = __lane_id(), lane = self - int(by);
    return tkgen_hip::from_lane(value, lane < (self & ~(width - 1)) ? self : lane);
}
template <typename T> __device__ __forceinline__ T __shfl_down(T value, unsigned by, int width = 64) {
    const int self = __lane_id();
    return tkgen_hip::from_lane(value, (self & (width - 1)) + int(by) >= width ? self : self + int(by));
}
template <typename T> __device__ __forceinline__ T __shfl_xor(T value, int mask, int width = 64) {
    const int self = __lane_id(), lane = self ^ mask;
    return tkgen_hip::from_lane(value, lane >= ((self + width) & ~(width - 1)) ? self : lane);
}
template <typename T> __device__ __forceinline__ T __shfl_sync(unsigned long, T value, int lane, int width = 64) { return __shfl(value, lane, width); }
template <typename T> __device__ __forceinline__ T __shfl_up_sync(unsigned long, T value, unsigned by, int width = 64) { return __shfl_up(value, by, width); }
template <typename T> __device__ __forceinline__ T __shfl_down_sync(unsigned long, T value, unsigned by, int width = 64) { return __shfl_down(value, by, width); }
template <typename T> __device__ __forceinline__ T __shfl_xor_sync(unsigned long, T value, int mask, int width = 64) { return __shfl_xor(value, mask, width); }

/* ---------- barriers that vote ---------- */

__device__ __forceinline__ int __syncthreads_count(int predicate) {
    __shared__ int count;
    __syncthreads();
    if (tkgen_hip::thread() == 0) count = 0;
    __syncthreads();
    if (predicate) __hip_atomic_fetch_add(&count, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __syncthreads();
    return count;
}
__device__ __forceinline__ int __syncthreads_or(int predicate) { return __syncthreads_count(predicate != 0) != 0; }
__device__ __forceinline__ int __syncthreads_and(int predicate) { return __syncthreads_count(predicate == 0) == 0; }

/* ---------- integers ---------- */

__device__ constexpr int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
__device__ constexpr unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
__device__ constexpr int __popc(unsigned x) { return __builtin_popcount(x); }
__device__ constexpr int __popcll(unsigned long x) { return __builtin_popcountl(x); }
__device__ constexpr int __clz(int x) { return x ? __builtin_clz(x) : 32; }
__device__ constexpr int __ffs(int x) { return __builtin_ffs(x); }
__device__ constexpr int __ffsll(long x) { return __builtin_ffsl(x); }

/* ---------- of the host side ---------- */

template <typename A, typename B> __host__ constexpr auto min(A a, B b) { return b < a ? b : a; }
template <typename A, typename B> __host__ constexpr auto max(A a, B b) { return a < b ? b : a; }
