/**
 * Matrix products of register tiles: d = a * b + c in the four operand layouts.
 *
 * v_mfma_f32_16x16x16 takes A with lane l holding row l % 16, k = 4 (l / 16)..+3; B with column l % 16, the same k; and
 * gives D with column l % 16, rows 4 (l / 16)..+3 (CDNA3 ISA, "Matrix fused-multiply-add"; gfx90a has the same shapes,
 * bf16 as the _1k variant). So A is a row-layout tile, or a col-layout tile of the transpose, B the other way round, D
 * a col-layout tile.
 *
 * The 32x32x8 instructions have the same structure: row l % 32, k = 4 (l / 32)..+3; D with column l % 32, rows 8 g + 4
 * (l / 32)..+3.
 *
 * fp32 operands use 16x16x4 (32x32x2), whose lane l supplies the one k = l / 16 (l / 32): the issue for the e-th
 * element of a quad takes each lane's own e-th element, k = 4 (l / 16) + e, of both operands, and the issues for e =
 * 0..3 cover the quads' sixteen (eight) k.
 *
 * gfx950 has instructions twice as deep, 16x16x32 and 32x32x16, whose lanes own eight k: two quads of a and the same
 * two of b (CDNA4 ISA).
 */
#pragma once

#include "registers.cuh"

namespace kittens {

namespace detail {

/// acc += a * b for one base tile of each, the part of their m-th quads: one issue of 16x16x16 or 32x32x8, or four for
/// floats. The lanes of A and of B own the same k in their m-th quads, whichever operand layout they came from.
template <typename SHAPE, typename T>
__device__ __forceinline__ auto mfma(const vec<T, 4> &a, const vec<T, 4> &b, auto acc) {
    constexpr bool small = SHAPE::side == 16;
    if constexpr (__is_same(T, bf16)) {
        const auto x = bits<vec<short, 4>>(a), y = bits<vec<short, 4>>(b);
        if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, acc, 0, 0, 0);
        else return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(x, y, acc, 0, 0, 0);
    } else if constexpr (__is_same(T, half)) {
        if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, acc, 0, 0, 0);
        else return __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, acc, 0, 0, 0);
    } else {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if constexpr (small) acc = __builtin_amdgcn_mfma_f32_16x16x4f32(a[e], b[e], acc, 0, 0, 0);
            else acc = __builtin_amdgcn_mfma_f32_32x32x2f32(a[e], b[e], acc, 0, 0, 0);
        }
        return acc;
    }
}

#ifdef KITTENS_CDNA4
/// acc += a * b, one 16x16x32 or 32x32x16 instruction: lane l holds row (column) l % side of a (b), k = 8 (l /
/// side)..+7, or any other eight k that are the same for a and b.
template <int side, typename T>
__device__ __forceinline__ auto mfma_wide(const vec<T, 8> &a, const vec<T, 8> &b, auto acc) {
    if constexpr (__is_same(T, bf16)) {
        if constexpr (side == 16) return __builtin_amdgcn_mfma_f32_16x16x32_bf16(a, b, acc, 0, 0, 0);
        else return __builtin_amdgcn_mfma_f32_32x32x16_bf16(a, b, acc, 0, 0, 0);
    } else {
        if constexpr (side == 16) return __builtin_amdgcn_mfma_f32_16x16x32_f16(a, b, acc, 0, 0, 0);
        else return __builtin_amdgcn_mfma_f32_32x32x16_f16(a, b, acc, 0, 0, 0);
    }
}
template <typename T> __device__ __forceinline__ vec<T, 8> joined(const vec<T, 4> &first, const vec<T, 4> &second) {
    return __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
}

/// The quads that A and B hold, two at a time: of 32x32 base tiles those 16 apart, which are one chunk in LDS (shared.cuh).
template <int depth, typename D, typename C, typename A, typename B>
__device__ __forceinline__ void multiply_pairs(D &d, const C &c, A a_at, B b_at) {
    using shape = typename D::shape;
    #pragma unroll
    for (int n = 0; n < depth * shape::quads; n += 2) {
        constexpr bool chunks = shape::side == 32;
        const int k = n / shape::quads, m = chunks ? n % shape::quads / 2 : n % shape::quads;
        const int next_k = (n + 1) / shape::quads, next_m = chunks ? m + 2 : (n + 1) % shape::quads;
        #pragma unroll
        for (int i = 0; i < D::height; i++)
            #pragma unroll
            for (int j = 0; j < D::width; j++) {
                const auto acc = n == 0 ? c.tiles[i][j].get_all() : d.tiles[i][j].get_all();
                const auto a = joined(a_at(i, k).get(m), a_at(i, next_k).get(next_m));
                const auto b = joined(b_at(k, j).get(m), b_at(next_k, j).get(next_m));
                d.tiles[i][j].set_all(mfma_wide<shape::side>(a, b, acc));
            }
    }
}
#endif

/// d(i, j) = c(i, j) + sum over k of a_at(i, k) * b_at(k, j), base tile by base tile. k is outermost: consecutive
/// matrix instructions are independent, none waits for its predecessor's result.
template <int depth, typename D, typename C, typename A, typename B>
__device__ __forceinline__ void multiply(D &d, const C &c, A a_at, B b_at) {
    using shape = typename D::shape;
    static_assert(D::rows == C::rows && D::cols == C::cols, "accumulators must have the same shape");
#ifdef KITTENS_CDNA4
    if constexpr (sizeof(typename decltype(a_at(0, 0))::T) == 2 && depth * shape::quads % 2 == 0)
        return multiply_pairs<depth>(d, c, a_at, b_at);
#endif
#pragma unroll
    for (int k = 0; k < depth; k++)
#pragma unroll
        for (int m = 0; m < shape::quads; m++)
            for_each_base<D>([&](int i, int j) {
                const auto acc = k == 0 && m == 0 ? c.tiles[i][j].get_all() : d.tiles[i][j].get_all();
                d.tiles[i][j].set_all(mfma<shape>(a_at(i, k).get(m), b_at(k, j).get(m), acc));
            });
}

template <typename A, typename B, typename D, typename C>
concept operands = ducks::rt::col_layout<D> && ducks::rt::col_layout<C> && __is_same(typename D::T, float) &&
                   __is_same(typename C::T, float) && __is_same(typename A::T, typename B::T) &&
                   __is_same(typename A::shape, typename D::shape) && __is_same(typename B::shape, typename D::shape) &&
                   __is_same(typename C::shape, typename D::shape);

} // namespace detail

/// d = a b + c: a (M x K) row, b (K x N) col.
template <ducks::rt::col_layout D, ducks::rt::row_layout A, ducks::rt::col_layout B, ducks::rt::col_layout C>
    requires detail::operands<A, B, D, C>
__device__ __forceinline__ void mma_AB(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::rows == D::rows && B::cols == D::cols && A::cols == B::rows, "mma_AB: (M x K) (K x N) -> (M x N)");
    detail::multiply<A::width>(
        d, c, [&](int i, int k) { return a.tiles[i][k]; }, [&](int k, int j) { return b.tiles[k][j]; });
}

/// d = a b^T + c: a (M x K) row, b (N x K) row.
template <ducks::rt::col_layout D, ducks::rt::row_layout A, ducks::rt::row_layout B, ducks::rt::col_layout C>
    requires detail::operands<A, B, D, C>
__device__ __forceinline__ void mma_ABt(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::rows == D::rows && B::rows == D::cols && A::cols == B::cols,
                  "mma_ABt: (M x K) (N x K)^T -> (M x N)");
    detail::multiply<A::width>(
        d, c, [&](int i, int k) { return a.tiles[i][k]; }, [&](int k, int j) { return b.tiles[j][k]; });
}

/// d = a^T b + c: a (K x M) col, b (K x N) col.
template <ducks::rt::col_layout D, ducks::rt::col_layout A, ducks::rt::col_layout B, ducks::rt::col_layout C>
    requires detail::operands<A, B, D, C>
__device__ __forceinline__ void mma_AtB(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::cols == D::rows && B::cols == D::cols && A::rows == B::rows,
                  "mma_AtB: (K x M)^T (K x N) -> (M x N)");
    detail::multiply<A::height>(
        d, c, [&](int i, int k) { return a.tiles[k][i]; }, [&](int k, int j) { return b.tiles[k][j]; });
}

/// d = a^T b^T + c: a (K x M) col, b (N x K) row.
template <ducks::rt::col_layout D, ducks::rt::col_layout A, ducks::rt::row_layout B, ducks::rt::col_layout C>
    requires detail::operands<A, B, D, C>
__device__ __forceinline__ void mma_AtBt(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::cols == D::rows && B::rows == D::cols && A::rows == B::cols,
                  "mma_AtBt: (K x M)^T (N x K)^T -> (M x N)");
    detail::multiply<A::height>(
        d, c, [&](int i, int k) { return a.tiles[k][i]; }, [&](int k, int j) { return b.tiles[j][k]; });
}

} // namespace kittens
