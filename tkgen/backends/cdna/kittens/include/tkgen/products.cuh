/**
 * Products of register tiles, d = a b + c in the four layouts of operands, by the names of the library's: of the tiles of
 * fused matmuls, and of the library's own where its products refuse the element type (halves and floats).
 */
#pragma once

#include "memory.cuh"

namespace tk {

/// The side of base tiles, and how a lane finds its quads in them.
template <int side_> struct square {
    static constexpr int side = side_;
    static constexpr int quads = side * side / WARP_THREADS / 4; // of four elements, per lane and base tile
    static constexpr int quad_stride = WARP_THREADS / side * 4;  // between a lane's quads
    /// The row (row layout) or column (col layout) that this lane owns a part of.
    __device__ static __forceinline__ uint32_t line() { return laneid() % side; }
    /// Where along it this lane's quad 0 begins.
    __device__ static __forceinline__ uint32_t first() { return laneid() / side * 4; }
};

/// acc += a * b for one base tile of each, their quads of the same k: one instruction, four of floats, each with one element
/// of every lane.
template <typename shape, typename T> __device__ __forceinline__ auto mfma(vec<T, 4> a, vec<T, 4> b, auto acc) {
    constexpr bool small = shape::side == 16;
    if constexpr (__is_same(T, __bf16)) {
        const auto x = __builtin_bit_cast(vec<short, 4>, a), y = __builtin_bit_cast(vec<short, 4>, b);
        if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, acc, 0, 0, 0);
        else return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(x, y, acc, 0, 0, 0);
    } else if constexpr (__is_same(T, _Float16)) {
        if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, acc, 0, 0, 0);
        else return __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, acc, 0, 0, 0);
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            if constexpr (small) acc = __builtin_amdgcn_mfma_f32_16x16x4f32(a[e], b[e], acc, 0, 0, 0);
            else acc = __builtin_amdgcn_mfma_f32_32x32x2f32(a[e], b[e], acc, 0, 0, 0);
        }
        return acc;
    }
}
#ifdef KITTENS_CDNA4
/// The same of two quads of each: 16x16x32 or 32x32x16 (CDNA4 ISA).
template <typename shape, typename T> __device__ __forceinline__ auto mfma_wide(vec<T, 8> a, vec<T, 8> b, auto acc) {
    constexpr bool small = shape::side == 16;
    if constexpr (__is_same(T, __bf16)) {
        if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x32_bf16(a, b, acc, 0, 0, 0);
        else return __builtin_amdgcn_mfma_f32_32x32x16_bf16(a, b, acc, 0, 0, 0);
    } else {
        if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x32_f16(a, b, acc, 0, 0, 0);
        else return __builtin_amdgcn_mfma_f32_32x32x16_f16(a, b, acc, 0, 0, 0);
    }
}
template <typename T> __device__ __forceinline__ vec<T, 8> joined(vec<T, 4> first, vec<T, 4> second) {
    return __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
}
#endif

/// Quad m, or all, of a lane's elements of a base tile, as one vector.
template <typename V, typename B> __device__ __forceinline__ V vector_of(const B &base, int m = 0) {
    V value;
    __builtin_memcpy(&value, base.data + 2 * m, sizeof(value));
    return value;
}

/// d(i, j) = c(i, j) + sum over k of a_at(i, k) * b_at(k, j), base tile by base tile, elements T. k is outermost: consecutive
/// matrix instructions are independent. gfx950 takes two quads at a time, of 32 x 32 base tiles those 16 apart.
template <typename T, int depth, typename D, typename C, typename A, typename B>
__device__ __forceinline__ void multiply(D &d, const C &c, A a_at, B b_at) {
    using shape = square<D::tile_size_row>;
    using sums = vec<float, 4 * shape::quads>;
    using quad = vec<T, 4>;
#ifdef KITTENS_CDNA4
    constexpr int step = sizeof(T) == 2 && depth * shape::quads % 2 == 0 ? 2 : 1;
#else
    constexpr int step = 1;
#endif
#pragma unroll
    for (int n = 0; n < depth * shape::quads; n += step) {
        constexpr bool apart = step == 2 && shape::side == 32;
        const int k = n / shape::quads, m = apart ? n % shape::quads / 2 : n % shape::quads;
#pragma unroll
        for (int i = 0; i < D::height; ++i)
#pragma unroll
            for (int j = 0; j < D::width; ++j) {
                auto acc = n == 0 ? vector_of<sums>(c.tiles[i][j]) : vector_of<sums>(d.tiles[i][j]);
                if constexpr (step == 2) {
#ifdef KITTENS_CDNA4
                    const int next_k = (n + 1) / shape::quads, next_m = apart ? m + 2 : (n + 1) % shape::quads;
                    const auto a = joined(vector_of<quad>(a_at(i, k), m), vector_of<quad>(a_at(i, next_k), next_m));
                    const auto b = joined(vector_of<quad>(b_at(k, j), m), vector_of<quad>(b_at(next_k, j), next_m));
                    acc = mfma_wide<shape>(a, b, acc);
#endif
                } else acc = mfma<shape>(vector_of<quad>(a_at(i, k), m), vector_of<quad>(b_at(k, j), m), acc);
                __builtin_memcpy(d.tiles[i][j].data, &acc, sizeof(acc));
            }
    }
}

/// Tiles of square base tiles: the library's, or those of fused matmuls.
template <typename T, typename layout>
concept squares = requires(T t) { t.tiles[0][0].data[0]; T::tile_size_row; } && __is_same(typename T::layout, layout);
template <typename T> concept by_rows = squares<T, ducks::rt_layout::row>;
template <typename T> concept by_columns = squares<T, ducks::rt_layout::col>;

/// d = a b + c: a (M x K) row, b (K x N) col.
template <by_columns D, by_rows A, by_columns B, by_columns C> __device__ __forceinline__ void mma_AB(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::rows == D::rows && B::cols == D::cols && A::cols == B::rows, "mma_AB: (M x K) (K x N) -> (M x N)");
    multiply<native<typename A::T>, A::width>(d, c, [&](int i, int k) { return a.tiles[i][k]; }, [&](int k, int j) { return b.tiles[k][j]; });
}

/// d = a b^T + c: a (M x K) row, b (N x K) row.
template <by_columns D, by_rows A, by_rows B, by_columns C> __device__ __forceinline__ void mma_ABt(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::rows == D::rows && B::rows == D::cols && A::cols == B::cols, "mma_ABt: (M x K) (N x K)^T -> (M x N)");
    multiply<native<typename A::T>, A::width>(d, c, [&](int i, int k) { return a.tiles[i][k]; }, [&](int k, int j) { return b.tiles[j][k]; });
}

/// d = a^T b + c: a (K x M) col, b (K x N) col.
template <by_columns D, by_columns A, by_columns B, by_columns C> __device__ __forceinline__ void mma_AtB(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::cols == D::rows && B::cols == D::cols && A::rows == B::rows, "mma_AtB: (K x M)^T (K x N) -> (M x N)");
    multiply<native<typename A::T>, A::height>(d, c, [&](int i, int k) { return a.tiles[k][i]; }, [&](int k, int j) { return b.tiles[k][j]; });
}

/// d = a^T b^T + c: a (K x M) col, b (N x K) row.
template <by_columns D, by_columns A, by_rows B, by_columns C> __device__ __forceinline__ void mma_AtBt(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::cols == D::rows && B::rows == D::cols && A::rows == B::cols, "mma_AtBt: (K x M)^T (N x K)^T -> (M x N)");
    multiply<native<typename A::T>, A::height>(d, c, [&](int i, int k) { return a.tiles[k][i]; }, [&](int k, int j) { return b.tiles[j][k]; });
}

} // namespace tk
