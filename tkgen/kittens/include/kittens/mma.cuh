/**
 * Matrix products of register tiles: d = a * b + c in the four operand layouts.
 *
 * v_mfma_f32_16x16x16 takes A with lane l holding row l % 16, k = 4 (l / 16)..+3; B with column l % 16, the same k; and gives D with
 * column l % 16, rows 4 (l / 16)..+3 (CDNA3 ISA, "Matrix fused-multiply-add"; gfx90a has the same shapes, bf16 as the _1k variant). So A
 * is a row-layout tile, or a col-layout tile of the transpose, B the other way round, D a col-layout tile.
 *
 * fp32 operands use v_mfma_f32_16x16x4_f32, whose lane l supplies k = l / 16: its e-th issue takes each lane's e-th element, k = 4 (l / 16) + e, of
 * both operands, and four issues cover the base tile's sixteen k.
 */
#pragma once

#include "registers.cuh"

namespace kittens {

namespace detail {

using accumulator = vec<float, 4>;

__device__ __forceinline__ accumulator mfma(const vec<bf16, 4> &a, const vec<bf16, 4> &b, const accumulator &c) {
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bits<vec<short, 4>>(a), bits<vec<short, 4>>(b), c, 0, 0, 0);
}
__device__ __forceinline__ accumulator mfma(const vec<half, 4> &a, const vec<half, 4> &b, const accumulator &c) {
    return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);
}
__device__ __forceinline__ accumulator mfma(const vec<float, 4> &a, const vec<float, 4> &b, accumulator c) {
    #pragma unroll
    for (int e = 0; e < 4; e++) c = __builtin_amdgcn_mfma_f32_16x16x4f32(a[e], b[e], c, 0, 0, 0);
    return c;
}

/// d(m, n) = c(m, n) + sum over k of a_at(m, k) * b_at(k, n), base tile by base tile. k is outermost: consecutive matrix instructions are
/// independent, none waits for its predecessor's result.
template <int depth, typename D, typename C, typename A, typename B>
__device__ __forceinline__ void multiply(D &d, const C &c, A a_at, B b_at) {
    static_assert(D::rows == C::rows && D::cols == C::cols, "accumulators must have the same shape");
    #pragma unroll
    for (int k = 0; k < depth; k++) {
        #pragma unroll
        for (int m = 0; m < D::height; m++) {
            #pragma unroll
            for (int n = 0; n < D::width; n++) {
                const accumulator sum = k == 0 ? c.tiles[m][n].get() : d.tiles[m][n].get();
                d.tiles[m][n].set(mfma(a_at(m, k).get(), b_at(k, n).get(), sum));
            }
        }
    }
}

template <typename D, typename C>
concept accumulators = ducks::rt::col_layout<D> && ducks::rt::col_layout<C> && __is_same(typename D::T, float) && __is_same(typename C::T, float);

} // namespace detail

/// d = a b + c: a (M x K) row, b (K x N) col.
template <ducks::rt::col_layout D, ducks::rt::row_layout A, ducks::rt::col_layout B, ducks::rt::col_layout C>
    requires detail::accumulators<D, C>
__device__ __forceinline__ void mma_AB(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::rows == D::rows && B::cols == D::cols && A::cols == B::rows, "mma_AB: (M x K) (K x N) -> (M x N)");
    static_assert(__is_same(typename A::T, typename B::T), "operands must have the same element type");
    detail::multiply<A::width>(d, c, [&](int m, int k) { return a.tiles[m][k]; }, [&](int k, int n) { return b.tiles[k][n]; });
}

/// d = a b^T + c: a (M x K) row, b (N x K) row.
template <ducks::rt::col_layout D, ducks::rt::row_layout A, ducks::rt::row_layout B, ducks::rt::col_layout C>
    requires detail::accumulators<D, C>
__device__ __forceinline__ void mma_ABt(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::rows == D::rows && B::rows == D::cols && A::cols == B::cols, "mma_ABt: (M x K) (N x K)^T -> (M x N)");
    static_assert(__is_same(typename A::T, typename B::T), "operands must have the same element type");
    detail::multiply<A::width>(d, c, [&](int m, int k) { return a.tiles[m][k]; }, [&](int k, int n) { return b.tiles[n][k]; });
}

/// d = a^T b + c: a (K x M) col, b (K x N) col.
template <ducks::rt::col_layout D, ducks::rt::col_layout A, ducks::rt::col_layout B, ducks::rt::col_layout C>
    requires detail::accumulators<D, C>
__device__ __forceinline__ void mma_AtB(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::cols == D::rows && B::cols == D::cols && A::rows == B::rows, "mma_AtB: (K x M)^T (K x N) -> (M x N)");
    static_assert(__is_same(typename A::T, typename B::T), "operands must have the same element type");
    detail::multiply<A::height>(d, c, [&](int m, int k) { return a.tiles[k][m]; }, [&](int k, int n) { return b.tiles[k][n]; });
}

/// d = a^T b^T + c: a (K x M) col, b (N x K) row.
template <ducks::rt::col_layout D, ducks::rt::col_layout A, ducks::rt::row_layout B, ducks::rt::col_layout C>
    requires detail::accumulators<D, C>
__device__ __forceinline__ void mma_AtBt(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::cols == D::rows && B::rows == D::cols && A::rows == B::cols, "mma_AtBt: (K x M)^T (N x K)^T -> (M x N)");
    static_assert(__is_same(typename A::T, typename B::T), "operands must have the same element type");
    detail::multiply<A::height>(d, c, [&](int m, int k) { return a.tiles[k][m]; }, [&](int k, int n) { return b.tiles[n][k]; });
}

} // namespace kittens
