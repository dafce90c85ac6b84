/// Products of a warpgroup (PTX ISA: wgmma.mma_async): 64 x N in registers of fp32, or of s32 where factors are integers, the
/// left factor in shared memory or registers, the right one in shared memory.
#pragma once

#include "sync.cuh"

namespace kittens::tkgen {

template<typename T> constexpr bool is_half = false;
template<> constexpr bool is_half<half> = true;
template<typename T> constexpr bool is_e5m2 = false;
template<> constexpr bool is_e5m2<fp8e5m2> = true;

/// A matrix descriptor (PTX ISA, "Matrix descriptor format"): address, leading and stride byte offsets in 16 bytes, and
/// the swizzle: 1 for that of 128 bytes, 2 for that of 64. Where rows run along K, 8 of them are one stride apart and the
/// leading offset is not used; where they run along M or N, 8 of them (K) are one stride apart and panels of 64 elements one
/// leading offset.
__device__ inline uint64_t descriptor(uint32_t address, uint32_t leading, uint32_t stride, int swizzle = 1) {
    return uint64_t((address & 0x3FFFF) >> 4) | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | uint64_t(swizzle) << 62;
}

/// Elements of K that one instruction sums: 32 bytes of each factor.
template<typename T> constexpr int DEPTH = 32 / int(sizeof(T));

/// The descriptor of as many elements of K, from element `k` on; TRANSPOSED says that rows of the tile run along M or N,
/// which elements of 16 bits alone may.
template<bool TRANSPOSED, typename S> __device__ inline uint64_t factor(const S &tile, int k) {
    static_assert(!TRANSPOSED || sizeof(typename S::dtype) == 2, "factors of 8 bits have rows along K");
    static_assert(!TRANSPOSED || S::row_bytes == SWIZZLE_BYTES, "rows along M or N are of whole panels");
    constexpr int width = S::panel_cols, size = sizeof(typename S::dtype), swizzle = S::row_bytes == SWIZZLE_BYTES ? 1 : 2;
    const uint32_t base = shared_address(&tile);
    if constexpr (TRANSPOSED) return descriptor(base + k * SWIZZLE_BYTES, S::panel_bytes, 8 * SWIZZLE_BYTES);
    return descriptor(base + k / width * S::panel_bytes + k % width * size, 16, 8 * S::row_bytes, swizzle);
}

#define TK_R0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TK_R1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define TK_R2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define TK_R3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define TK_R4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define TK_R5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define TK_R6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define TK_R7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define TK_R8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define TK_R9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define TK_R10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define TK_R11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define TK_R12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define TK_R13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define TK_R14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define TK_R15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define TK_ACC(j)                                                                                                     \
    "+f"(d.tiles[0][j].data[0].x), "+f"(d.tiles[0][j].data[0].y), "+f"(d.tiles[0][j].data[1].x),                      \
        "+f"(d.tiles[0][j].data[1].y), "+f"(d.tiles[0][j].data[2].x), "+f"(d.tiles[0][j].data[2].y),                  \
        "+f"(d.tiles[0][j].data[3].x), "+f"(d.tiles[0][j].data[3].y)
/// One instruction: registers and accumulators, and the numbers of the operands behind them. `more` 0 starts from zero.
#define TK_WGMMA(N, TYPE, REGISTERS, A, B, MORE, TA, TB, ...)                                                          \
    asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, " MORE ", 0;\n"                                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" REGISTERS "}, " A ", " B         \
                 ", more, 1, 1, " TA ", " TB ";\n}\n"                                                                 \
                 : __VA_ARGS__                                                                                         \
                 : "l"(a), "l"(b), "r"(more), "n"(int(TRANSPOSE_A)), "n"(int(TRANSPOSE_B)))

#define TK_REGISTERS_16 TK_R0
#define TK_ACCUMULATORS_16 TK_ACC(0)
#define TK_REGISTERS_32 TK_R0 ", " TK_R1
#define TK_ACCUMULATORS_32 TK_ACC(0), TK_ACC(1)
#define TK_REGISTERS_64 TK_R0 ", " TK_R1 ", " TK_R2 ", " TK_R3
#define TK_ACCUMULATORS_64 TK_ACC(0), TK_ACC(1), TK_ACC(2), TK_ACC(3)
#define TK_REGISTERS_128 TK_R0 ", " TK_R1 ", " TK_R2 ", " TK_R3 ", " TK_R4 ", " TK_R5 ", " TK_R6 ", " TK_R7
#define TK_ACCUMULATORS_128 TK_ACC(0), TK_ACC(1), TK_ACC(2), TK_ACC(3), TK_ACC(4), TK_ACC(5), TK_ACC(6), TK_ACC(7)
#define TK_REGISTERS_192 TK_R0 ", " TK_R1 ", " TK_R2 ", " TK_R3 ", " TK_R4 ", " TK_R5 ", " TK_R6 ", " TK_R7 ", " TK_R8 ", " TK_R9 ", " TK_R10 ", " TK_R11
#define TK_ACCUMULATORS_192 TK_ACC(0), TK_ACC(1), TK_ACC(2), TK_ACC(3), TK_ACC(4), TK_ACC(5), TK_ACC(6), TK_ACC(7), TK_ACC(8), TK_ACC(9), TK_ACC(10), TK_ACC(11)
#define TK_REGISTERS_256 TK_R0 ", " TK_R1 ", " TK_R2 ", " TK_R3 ", " TK_R4 ", " TK_R5 ", " TK_R6 ", " TK_R7 ", " TK_R8 ", " TK_R9 ", " TK_R10 ", " TK_R11 ", " TK_R12 ", " TK_R13 ", " TK_R14 ", " TK_R15
#define TK_ACCUMULATORS_256 TK_ACC(0), TK_ACC(1), TK_ACC(2), TK_ACC(3), TK_ACC(4), TK_ACC(5), TK_ACC(6), TK_ACC(7), TK_ACC(8), TK_ACC(9), TK_ACC(10), TK_ACC(11), TK_ACC(12), TK_ACC(13), TK_ACC(14), TK_ACC(15)

/// D += A B, 64 x N x 16, without waiting for anything.
template<typename T, bool TRANSPOSE_A, bool TRANSPOSE_B, int N>
__device__ inline void multiply(rt_fl<16, N> &d, uint64_t a, uint64_t b, int more) {
    static_assert(N == 16 || N == 32 || N == 64 || N == 128 || N == 192 || N == 256, "columns of a product");
    constexpr bool BF16 = sizeof(T) == 2 && !is_half<T>;
    if constexpr (N == 16) {
        if constexpr (BF16) TK_WGMMA(16, "bf16", TK_REGISTERS_16, "%8", "%9", "%10", "%11", "%12", TK_ACCUMULATORS_16);
        else TK_WGMMA(16, "f16", TK_REGISTERS_16, "%8", "%9", "%10", "%11", "%12", TK_ACCUMULATORS_16);
    } else if constexpr (N == 32) {
        if constexpr (BF16) TK_WGMMA(32, "bf16", TK_REGISTERS_32, "%16", "%17", "%18", "%19", "%20", TK_ACCUMULATORS_32);
        else TK_WGMMA(32, "f16", TK_REGISTERS_32, "%16", "%17", "%18", "%19", "%20", TK_ACCUMULATORS_32);
    } else if constexpr (N == 64) {
        if constexpr (BF16) TK_WGMMA(64, "bf16", TK_REGISTERS_64, "%32", "%33", "%34", "%35", "%36", TK_ACCUMULATORS_64);
        else TK_WGMMA(64, "f16", TK_REGISTERS_64, "%32", "%33", "%34", "%35", "%36", TK_ACCUMULATORS_64);
    } else if constexpr (N == 128) {
        if constexpr (BF16) TK_WGMMA(128, "bf16", TK_REGISTERS_128, "%64", "%65", "%66", "%67", "%68", TK_ACCUMULATORS_128);
        else TK_WGMMA(128, "f16", TK_REGISTERS_128, "%64", "%65", "%66", "%67", "%68", TK_ACCUMULATORS_128);
    } else if constexpr (N == 192) {
        if constexpr (BF16) TK_WGMMA(192, "bf16", TK_REGISTERS_192, "%96", "%97", "%98", "%99", "%100", TK_ACCUMULATORS_192);
        else TK_WGMMA(192, "f16", TK_REGISTERS_192, "%96", "%97", "%98", "%99", "%100", TK_ACCUMULATORS_192);
    } else if constexpr (N == 256) {
        if constexpr (BF16) TK_WGMMA(256, "bf16", TK_REGISTERS_256, "%128", "%129", "%130", "%131", "%132", TK_ACCUMULATORS_256);
        else TK_WGMMA(256, "f16", TK_REGISTERS_256, "%128", "%129", "%130", "%131", "%132", TK_ACCUMULATORS_256);
    }
}

/// The same of 8-bit floats, 64 x N x 32, each factor in an encoding of its own.
#define TK_WGMMA_8(N, TYPES, A, B, MORE)                                                                               \
    asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, " MORE ", 0;\n"                                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." TYPES " {" TK_REGISTERS_##N "}, " A ", " B           \
                 ", more, 1, 1;\n}\n"                                                                                  \
                 : TK_ACCUMULATORS_##N                                                                                 \
                 : "l"(a), "l"(b), "r"(more))
#define TK_WGMMA_8_OF(N, A, B, MORE)                                                                                   \
    if constexpr (is_e5m2<TA> && is_e5m2<TB>) TK_WGMMA_8(N, "e5m2.e5m2", A, B, MORE);                                  \
    else if constexpr (is_e5m2<TA>) TK_WGMMA_8(N, "e5m2.e4m3", A, B, MORE);                                            \
    else if constexpr (is_e5m2<TB>) TK_WGMMA_8(N, "e4m3.e5m2", A, B, MORE);                                            \
    else TK_WGMMA_8(N, "e4m3.e4m3", A, B, MORE)
template<typename TA, typename TB, int N>
__device__ inline void multiply_bytes(rt_fl<16, N> &d, uint64_t a, uint64_t b, int more) {
    static_assert(N == 64 || N == 128 || N == 192 || N == 256, "columns of a product");
    if constexpr (N == 64) {
        TK_WGMMA_8_OF(64, "%32", "%33", "%34");
    } else if constexpr (N == 128) {
        TK_WGMMA_8_OF(128, "%64", "%65", "%66");
    } else if constexpr (N == 192) {
        TK_WGMMA_8_OF(192, "%96", "%97", "%98");
    } else if constexpr (N == 256) {
        TK_WGMMA_8_OF(256, "%128", "%129", "%130");
    }
}

/// The same with A from registers: a base tile of each warp's rows.
#define TK_WGMMA_RS(N, TYPE, REGISTERS, A0, A1, A2, A3, B, MORE, TB, ...)                                              \
    asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, " MORE ", 0;\n"                                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" REGISTERS "}, {" A0 ", " A1 ", " A2   \
                 ", " A3 "}, " B ", more, 1, 1, " TB ";\n}\n"                                                             \
                 : __VA_ARGS__                                                                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more), "n"(int(TRANSPOSE_B)))
template<typename T, bool TRANSPOSE_B, int N>
__device__ inline void multiply(rt_fl<16, N> &d, const uint32_t (&a)[4], uint64_t b, int more) {
    static_assert(N == 16 || N == 32 || N == 64 || N == 128 || N == 192 || N == 256, "columns of a product");
    constexpr bool BF16 = sizeof(T) == 2 && !is_half<T>;
    if constexpr (N == 16) {
        if constexpr (BF16) TK_WGMMA_RS(16, "bf16", TK_REGISTERS_16, "%8", "%9", "%10", "%11", "%12", "%13", "%14", TK_ACCUMULATORS_16);
        else TK_WGMMA_RS(16, "f16", TK_REGISTERS_16, "%8", "%9", "%10", "%11", "%12", "%13", "%14", TK_ACCUMULATORS_16);
    } else if constexpr (N == 32) {
        if constexpr (BF16) TK_WGMMA_RS(32, "bf16", TK_REGISTERS_32, "%16", "%17", "%18", "%19", "%20", "%21", "%22", TK_ACCUMULATORS_32);
        else TK_WGMMA_RS(32, "f16", TK_REGISTERS_32, "%16", "%17", "%18", "%19", "%20", "%21", "%22", TK_ACCUMULATORS_32);
    } else if constexpr (N == 64) {
        if constexpr (BF16) TK_WGMMA_RS(64, "bf16", TK_REGISTERS_64, "%32", "%33", "%34", "%35", "%36", "%37", "%38", TK_ACCUMULATORS_64);
        else TK_WGMMA_RS(64, "f16", TK_REGISTERS_64, "%32", "%33", "%34", "%35", "%36", "%37", "%38", TK_ACCUMULATORS_64);
    } else if constexpr (N == 128) {
        if constexpr (BF16) TK_WGMMA_RS(128, "bf16", TK_REGISTERS_128, "%64", "%65", "%66", "%67", "%68", "%69", "%70", TK_ACCUMULATORS_128);
        else TK_WGMMA_RS(128, "f16", TK_REGISTERS_128, "%64", "%65", "%66", "%67", "%68", "%69", "%70", TK_ACCUMULATORS_128);
    } else if constexpr (N == 192) {
        if constexpr (BF16) TK_WGMMA_RS(192, "bf16", TK_REGISTERS_192, "%96", "%97", "%98", "%99", "%100", "%101", "%102", TK_ACCUMULATORS_192);
        else TK_WGMMA_RS(192, "f16", TK_REGISTERS_192, "%96", "%97", "%98", "%99", "%100", "%101", "%102", TK_ACCUMULATORS_192);
    } else if constexpr (N == 256) {
        if constexpr (BF16) TK_WGMMA_RS(256, "bf16", TK_REGISTERS_256, "%128", "%129", "%130", "%131", "%132", "%133", "%134", TK_ACCUMULATORS_256);
        else TK_WGMMA_RS(256, "f16", TK_REGISTERS_256, "%128", "%129", "%130", "%131", "%132", "%133", "%134", TK_ACCUMULATORS_256);
    }
}

/// The same of 8-bit floats: of 32 columns (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk32").
#define TK_WGMMA_RS_8(N, TYPES, A0, A1, A2, A3, B, MORE)                                                               \
    asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, " MORE ", 0;\n"                                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." TYPES " {" TK_REGISTERS_##N "}, {" A0 ", " A1 ", " A2 \
                 ", " A3 "}, " B ", more, 1, 1;\n}\n"                                                                  \
                 : TK_ACCUMULATORS_##N                                                                                 \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more))
#define TK_WGMMA_RS_8_OF(N, ...)                                                                                       \
    if constexpr (is_e5m2<TA> && is_e5m2<TB>) TK_WGMMA_RS_8(N, "e5m2.e5m2", __VA_ARGS__);                              \
    else if constexpr (is_e5m2<TA>) TK_WGMMA_RS_8(N, "e5m2.e4m3", __VA_ARGS__);                                        \
    else if constexpr (is_e5m2<TB>) TK_WGMMA_RS_8(N, "e4m3.e5m2", __VA_ARGS__);                                        \
    else TK_WGMMA_RS_8(N, "e4m3.e4m3", __VA_ARGS__)
template<typename TA, typename TB, int N>
__device__ inline void multiply_bytes(rt_fl<16, N> &d, const uint32_t (&a)[4], uint64_t b, int more) {
    static_assert(N == 64 || N == 128 || N == 192 || N == 256, "columns of a product");
    if constexpr (N == 64) {
        TK_WGMMA_RS_8_OF(64, "%32", "%33", "%34", "%35", "%36", "%37");
    } else if constexpr (N == 128) {
        TK_WGMMA_RS_8_OF(128, "%64", "%65", "%66", "%67", "%68", "%69");
    } else if constexpr (N == 192) {
        TK_WGMMA_RS_8_OF(192, "%96", "%97", "%98", "%99", "%100", "%101");
    } else if constexpr (N == 256) {
        TK_WGMMA_RS_8_OF(256, "%128", "%129", "%130", "%131", "%132", "%133");
    }
}

/// D += A B of integers of 8 bits, 64 x N x 32: the sums are integers of 32 bits, modulo 2^32.
#undef TK_ACC
#define TK_ACC(j)                                                                                                     \
    "+r"(d.tiles[0][j].data[0].x), "+r"(d.tiles[0][j].data[0].y), "+r"(d.tiles[0][j].data[1].x),                      \
        "+r"(d.tiles[0][j].data[1].y), "+r"(d.tiles[0][j].data[2].x), "+r"(d.tiles[0][j].data[2].y),                  \
        "+r"(d.tiles[0][j].data[3].x), "+r"(d.tiles[0][j].data[3].y)
#define TK_WGMMA_INTEGERS(N, A, B, MORE)                                                                               \
    asm volatile("{\n.reg .pred more;\nsetp.ne.b32 more, " MORE ", 0;\n"                                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.s32.s8.s8 {" TK_REGISTERS_##N "}, " A ", " B               \
                 ", more;\n}\n"                                                                                        \
                 : TK_ACCUMULATORS_##N                                                                                 \
                 : "l"(a), "l"(b), "r"(more))
template<int N> __device__ inline void multiply_integers(rt<int, 16, N> &d, uint64_t a, uint64_t b, int more) {
    static_assert(N == 64 || N == 128 || N == 192 || N == 256, "columns of a product");
    if constexpr (N == 64) TK_WGMMA_INTEGERS(64, "%32", "%33", "%34");
    else if constexpr (N == 128) TK_WGMMA_INTEGERS(128, "%64", "%65", "%66");
    else if constexpr (N == 192) TK_WGMMA_INTEGERS(192, "%96", "%97", "%98");
    else if constexpr (N == 256) TK_WGMMA_INTEGERS(256, "%128", "%129", "%130");
}

/// All products of a factor in registers and a tile as one group of the warpgroup: fence, issue, commit.
template<bool ACCUMULATE, bool TRANSPOSE_A, bool TRANSPOSE_B, int N, typename T, int K, typename B>
__device__ inline void multiply_tiles(rt_fl<16, N> &d, const rt<T, 16, K> &a, const B &b) {
    static_assert(!TRANSPOSE_A, "a factor in registers has rows along K");
    static_assert((TRANSPOSE_B ? B::cols : B::rows) == N && (TRANSPOSE_B ? B::rows : B::cols) == K && K % 16 == 0);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < K; k += 16)
        multiply<T, TRANSPOSE_B>(d, a.tiles[0][k / 16].data, factor<TRANSPOSE_B>(b, k), ACCUMULATE || k > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// The same of 8-bit floats, which `tk::left_of_bytes` holds as wgmma takes them.
template<bool ACCUMULATE, bool TRANSPOSE_A, bool TRANSPOSE_B, int N, template<typename, int> typename A, typename T, int K, typename B>
__device__ inline void multiply_tiles(rt_fl<16, N> &d, const A<T, K> &a, const B &b) {
    static_assert(!TRANSPOSE_A && !TRANSPOSE_B, "factors of 8 bits have rows along K");
    static_assert(sizeof(T) == 1 && B::rows == N && B::cols == K && K % DEPTH<T> == 0);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < K; k += DEPTH<T>)
        multiply_bytes<T, typename B::dtype>(d, a.tiles[0][k / DEPTH<T>].data, factor<false>(b, k), ACCUMULATE || k > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// All products of two tiles as one group of the warpgroup: fence, issue, commit.
template<bool ACCUMULATE, bool TRANSPOSE_A, bool TRANSPOSE_B, typename S, int N, typename A, typename B>
__device__ inline void multiply_tiles(rt<S, 16, N> &d, const A &a, const B &b) {
    static_assert((TRANSPOSE_A ? A::cols : A::rows) == 64 && (TRANSPOSE_B ? B::cols : B::rows) == N);
    constexpr int K = TRANSPOSE_A ? A::rows : A::cols;
    using T = typename A::dtype;
    static_assert((TRANSPOSE_B ? B::rows : B::cols) == K && K % DEPTH<T> == 0);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < K; k += DEPTH<T>) {
        const uint64_t left = factor<TRANSPOSE_A>(a, k), right = factor<TRANSPOSE_B>(b, k);
        if constexpr (std::is_same_v<S, int>) multiply_integers(d, left, right, ACCUMULATE || k > 0);
        else if constexpr (sizeof(T) == 1) multiply_bytes<T, typename B::dtype>(d, left, right, ACCUMULATE || k > 0);
        else multiply<T, TRANSPOSE_A, TRANSPOSE_B>(d, left, right, ACCUMULATE || k > 0);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

#undef TK_ACC
#undef TK_WGMMA
#undef TK_WGMMA_RS
#undef TK_WGMMA_RS_8
#undef TK_WGMMA_RS_8_OF
#undef TK_WGMMA_8
#undef TK_WGMMA_8_OF
#undef TK_WGMMA_INTEGERS
#undef TK_R0
#undef TK_R1
#undef TK_R2
#undef TK_R3
#undef TK_R4
#undef TK_R5
#undef TK_R6
#undef TK_R7
#undef TK_R8
#undef TK_R9
#undef TK_R10
#undef TK_R11
#undef TK_R12
#undef TK_R13
#undef TK_R14
#undef TK_R15
#undef TK_REGISTERS_16
#undef TK_ACCUMULATORS_16
#undef TK_REGISTERS_32
#undef TK_ACCUMULATORS_32
#undef TK_REGISTERS_64
#undef TK_ACCUMULATORS_64
#undef TK_REGISTERS_128
#undef TK_ACCUMULATORS_128
#undef TK_REGISTERS_192
#undef TK_ACCUMULATORS_192
#undef TK_REGISTERS_256
#undef TK_ACCUMULATORS_256

} // namespace kittens::tkgen
