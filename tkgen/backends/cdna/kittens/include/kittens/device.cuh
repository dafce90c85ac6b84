/**
 * What the other files need of the language: HIP's own, or, with KITTENS_DEVICE_ONLY, the same names from clang
 * builtins.
 */
#pragma once

#ifndef KITTENS_DEVICE_ONLY

#include <hip/hip_runtime.h>
#include <cstddef>
#include <cstdint>

#else

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

// __launch_bounds__(threads) and __launch_bounds__(threads, waves per SIMD), with the meaning HIP gives them.
#define KITTENS_LAUNCH_BOUNDS_1(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define KITTENS_LAUNCH_BOUNDS_2(threads, waves)                                                                        \
    __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(waves)))
#define KITTENS_LAUNCH_BOUNDS_PICK(_1, _2, NAME, ...) NAME
#define __launch_bounds__(...)                                                                                         \
    KITTENS_LAUNCH_BOUNDS_PICK(__VA_ARGS__, KITTENS_LAUNCH_BOUNDS_2, KITTENS_LAUNCH_BOUNDS_1, )(__VA_ARGS__)

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using size_t = decltype(sizeof(0));
using uintptr_t = unsigned long;

#ifdef KITTENS_LANGUAGE_ONLY // as HIP has them
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    union {
        float data __attribute__((ext_vector_type(4)));
        struct {
            float x, y, z, w;
        };
    };
    float4() = default;
    __host__ __device__ constexpr float4(float x, float y, float z, float w) : data{x, y, z, w} {}
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
#else
using float2 = float __attribute__((ext_vector_type(2)));
using float4 = float __attribute__((ext_vector_type(4)));
struct int2 {
    int x, y;
};
struct int4 {
    int x, y, z, w;
};
#endif

struct dim3 {
    uint32_t x, y, z;
    __host__ __device__ constexpr dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
};

__device__ constexpr int min(int a, int b) { return a < b ? a : b; }
__device__ constexpr int max(int a, int b) { return a < b ? b : a; }
__device__ constexpr uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }
__device__ constexpr uint32_t max(uint32_t a, uint32_t b) { return a < b ? b : a; }
__device__ constexpr uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }
__device__ constexpr uint64_t max(uint64_t a, uint64_t b) { return a < b ? b : a; }
__device__ __forceinline__ float min(float a, float b) { return __builtin_fminf(a, b); }
__device__ __forceinline__ float max(float a, float b) { return __builtin_fmaxf(a, b); }

namespace kittens::device_only {

/// Three read-only coordinates, each a builtin: `threadIdx.x` reads as an unsigned integer.
template <typename Read> struct coordinates {
    template <int axis> struct component {
        __device__ __forceinline__ operator uint32_t() const { return Read::template get<axis>(); }
    };
    component<0> x;
    component<1> y;
    component<2> z;
    __device__ __forceinline__ operator dim3() const { return dim3(x, y, z); }
};

struct read_thread {
    template <int axis> __device__ static __forceinline__ uint32_t get() {
        if constexpr (axis == 0) return __builtin_amdgcn_workitem_id_x();
        else if constexpr (axis == 1) return __builtin_amdgcn_workitem_id_y();
        else return __builtin_amdgcn_workitem_id_z();
    }
};

struct read_block {
    template <int axis> __device__ static __forceinline__ uint32_t get() {
        if constexpr (axis == 0) return __builtin_amdgcn_workgroup_id_x();
        else if constexpr (axis == 1) return __builtin_amdgcn_workgroup_id_y();
        else return __builtin_amdgcn_workgroup_id_z();
    }
};

struct read_block_size {
    template <int axis> __device__ static __forceinline__ uint32_t get() {
        if constexpr (axis == 0) return __builtin_amdgcn_workgroup_size_x();
        else if constexpr (axis == 1) return __builtin_amdgcn_workgroup_size_y();
        else return __builtin_amdgcn_workgroup_size_z();
    }
};

/// hidden_block_count_{x,y,z}: the first three dwords of the implicit arguments (code object 5 and later,
/// LLVM AMDGPUUsage, "Code Object V5 Metadata").
struct read_grid_size {
    template <int axis> __device__ static __forceinline__ uint32_t get() {
        auto counts = (const __attribute__((address_space(4))) uint32_t *)__builtin_amdgcn_implicitarg_ptr();
        return counts[axis];
    }
};

} // namespace kittens::device_only

static constexpr __device__ kittens::device_only::coordinates<kittens::device_only::read_thread> threadIdx{};
static constexpr __device__ kittens::device_only::coordinates<kittens::device_only::read_block> blockIdx{};
static constexpr __device__ kittens::device_only::coordinates<kittens::device_only::read_block_size> blockDim{};
static constexpr __device__ kittens::device_only::coordinates<kittens::device_only::read_grid_size> gridDim{};

/**
 * Meeting of all waves of the block. Orders LDS only: global loads stay in flight across it.
 *
 * The wait for lgkmcnt(0) (gfx9 encoding) is spelled out: clang 22 takes the fence's own away at the head of a loop that is entered with
 * no LDS access pending, although one may be when the loop comes round.
 */
__device__ __forceinline__ void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_waitcnt(0xc07f);
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

#endif // KITTENS_DEVICE_ONLY

// A checkout of another ThunderKittens has its own of all that follows.
#ifndef KITTENS_LANGUAGE_ONLY

namespace kittens {

/* ---------- the machine ---------- */

constexpr int WARP_THREADS = 64;
constexpr int WARPGROUP_THREADS = 256;
constexpr int WARPGROUP_WARPS = 4;
#ifdef KITTENS_CDNA4
constexpr int MAX_SHARED_MEMORY = 163840; // LDS bytes of one block, gfx950 (CDNA4 ISA)
#else
constexpr int MAX_SHARED_MEMORY = 65536; // gfx90a and gfx942 (CDNA2 and CDNA3 ISA)
#endif
constexpr int TILE_DIM = 16;             // rows and columns of a base tile

/// The wave's number in its block, as a scalar: branches on it stay uniform.
__device__ __forceinline__ int warpid() { return __builtin_amdgcn_readfirstlane(int(threadIdx.x) >> 6); }
/// The wave's group of four.
__device__ __forceinline__ int warpgroupid() { return warpid() >> 2; }
/// The lane's number in its wave.
__device__ __forceinline__ int laneid() { return int(threadIdx.x) & 63; }

namespace ducks {
struct default_type {};
} // namespace ducks

namespace detail {

template <bool condition, typename A, typename B> struct conditional {
    using type = A;
};
template <typename A, typename B> struct conditional<false, A, B> {
    using type = B;
};
template <bool condition, typename A, typename B> using conditional_t = typename conditional<condition, A, B>::type;
template <typename A, typename B> concept same_as = __is_same(A, B);

template <typename To, typename From> __device__ __forceinline__ To bits(const From &value) {
    static_assert(sizeof(To) == sizeof(From));
    if constexpr (__is_trivially_copyable(To) && __is_trivially_copyable(From)) return __builtin_bit_cast(To, value);
    else {  // HIP's vector types are not
        To result;
        __builtin_memcpy(&result, &value, sizeof(To));
        return result;
    }
}

/* ---------- address spaces ---------- */

// LDS is always reached through 32-bit pointers of address space 3, never through generic ones: the compiler then emits
// ds_* instructions, folds constant offsets into them and counts lgkmcnt exactly.
using lds_byte = __attribute__((address_space(3))) char;

template <typename T> __device__ __forceinline__ T lds_read(const lds_byte *address) {
    return *(const __attribute__((address_space(3))) T *)address;
}
template <typename T> __device__ __forceinline__ void lds_write(lds_byte *address, T value) {
    *(__attribute__((address_space(3))) T *)address = value;
}

/**
 * `offset` bytes into an object in LDS, where `offset` is the lane's own part of an address.
 *
 * Left alone, the compiler takes such sums apart and adds their terms anew at every access in a loop. Two measures keep
 * the whole in one register: the sum is of integers, so that what a loop leaves alone is hoisted out of it; and the
 * offset enters as two halves of unknown origin, because an address of two terms only would be sunk back into the loop,
 * as if LDS instructions could add two registers. The constants that select a fragment are to be added to the returned
 * pointer: they become the instructions' offsets.
 */
template <typename T>
__device__ __forceinline__ lds_byte *lds_pointer(T *object, uint32_t offset, uint32_t uniform_offset = 0) {
    const uint32_t low = __builtin_amdgcn_perm(offset, offset, 0x0c0c0100u),
                   high = __builtin_amdgcn_perm(offset, offset, 0x03020c0cu);
    return (lds_byte *)(uintptr_t)((uint32_t)(uintptr_t)(lds_byte *)object + low + high + uniform_offset);
}

/// Every LDS write of this wave is visible to a wave that passes the next barrier, whatever that waits for: some wait for nothing.
__device__ __forceinline__ void release_lds() {
#if __clang_major__ >= 19
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
#else
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
#endif
}

} // namespace detail
} // namespace kittens

#endif // KITTENS_LANGUAGE_ONLY
