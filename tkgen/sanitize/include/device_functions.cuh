/**
 * Functions of HIP's headers for plain HIP kernels: atomics, votes, shuffles, integers, clocks. All after AMD's HIP language
 * documentation; what takes a mask of lanes (`_sync`) works on all lanes that are there, as it does on a wave of 64.
 */
#pragma once

#include "small_floats.cuh"
#include "vector_types.cuh"

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
template <typename T, typename U> __device__ __forceinline__ T unsafeAtomicAdd(T *address, U value) { return atomicAdd(address, value); }
template <typename T, typename U> __device__ __forceinline__ T safeAtomicAdd(T *address, U value) { return atomicAdd(address, value); }
template <typename T, typename U> __device__ __forceinline__ void atomicAddNoRet(T *address, U value) { atomicAdd(address, value); }
__device__ __forceinline__ unsigned atomicInc(unsigned *address, unsigned last) {
    return __builtin_amdgcn_atomic_inc32(address, last, __ATOMIC_RELAXED, "agent");
}
__device__ __forceinline__ unsigned atomicDec(unsigned *address, unsigned last) {
    return __builtin_amdgcn_atomic_dec32(address, last, __ATOMIC_RELAXED, "agent");
}
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

/// `value` of another lane of the wave, dword by dword.
template <typename T> __device__ __forceinline__ T from_lane(T value, int lane) {
    constexpr int dwords = (sizeof(T) + 3) / 4;
    int parts[dwords] = {};
    __builtin_memcpy(parts, &value, sizeof(T));
#pragma unroll
    for (int i = 0; i < dwords; i++) parts[i] = __builtin_amdgcn_ds_bpermute(lane << 2, parts[i]);
    __builtin_memcpy(&value, parts, sizeof(T));
    return value;
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
__device__ constexpr int __mulhi(int a, int b) { return int((long(a) * b) >> 32); }
__device__ constexpr unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t(a) * b) >> 32); }
__device__ constexpr int __popc(unsigned x) { return __builtin_popcount(x); }
__device__ constexpr int __popcll(unsigned long x) { return __builtin_popcountl(x); }
__device__ constexpr int __clz(int x) { return x ? __builtin_clz(x) : 32; }
__device__ constexpr int __clzll(long x) { return x ? __builtin_clzl(x) : 64; }
__device__ constexpr int __ffs(int x) { return __builtin_ffs(x); }
__device__ constexpr int __ffsll(long x) { return __builtin_ffsl(x); }
__device__ constexpr unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
__device__ constexpr unsigned long __brevll(unsigned long x) { return __builtin_bitreverse64(x); }
__device__ __forceinline__ unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    return __builtin_amdgcn_perm(y, x, (selector & 7) | (selector & 0x70) << 4 | (selector & 0x700) << 8 | (selector & 0x7000) << 12);
}
__device__ __forceinline__ unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return unsigned((uint64_t(high) << 32 | low) << (by & 31) >> 32);
}
__device__ __forceinline__ unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return unsigned((uint64_t(high) << 32 | low) >> (by & 31));
}
template <typename T> __device__ __forceinline__ T __ldg(const T *address) { return *address; }

/* ---------- clocks, and ends ---------- */

__device__ __forceinline__ long long clock64() { return __builtin_readcyclecounter(); }
__device__ __forceinline__ long long clock() { return __builtin_readcyclecounter(); }
__device__ __forceinline__ long long wall_clock64() { return __builtin_readsteadycounter(); }
__device__ inline void abort() { __builtin_trap(); }
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : __builtin_trap())
#endif

/* ---------- of the host side ---------- */

template <typename A, typename B> __host__ constexpr auto min(A a, B b) { return b < a ? b : a; }
template <typename A, typename B> __host__ constexpr auto max(A a, B b) { return a < b ? b : a; }
