/**
 * Fused matmuls of 8-bit floats. Operands are those of kittens/bytes.cuh: a lane owns 16 neighbours along k of each base
 * tile. Of a result it has quads instead, by turns of the lanes of a column, and what is rounded to be multiplied keeps
 * them in that order. A product sums over k in any order that both factors have: so columns of LDS that are summed with
 * what was computed are written in the order of the quads, and every operand is read 16 bytes a lane.
 */
#pragma once
#ifdef KITTENS_EMBEDDED // whose operands of bytes these are

#include "fused_tiles.cuh"
#include "rings.cuh"

namespace tk {

template <typename T> concept byte_tile = kittens::ducks::rt::bytes<T>;

/// Elements of one byte that an MFMA with results of `side` x `side` sums over, of `depth` in all.
template <int side, int depth>
constexpr int BYTE_DEPTH = kittens::detail::bytes_at_once<fp8e4m3, depth * side / WARP_THREADS / 16> * WARP_THREADS / side;

/// Four numbers as 8-bit floats, as `to_fp8` converts one.
template <typename T> __device__ inline uint32_t round_bytes(const vec<float, 4> &quad) {
    vec<float, 4> x;
#pragma unroll
    for (int e = 0; e < 4; ++e) x[e] = kittens::detail::within_fp8<T>(quad[e]);
    if constexpr (__is_same(T, fp8e4m3)) return __builtin_amdgcn_cvt_pk_fp8_f32(x[2], x[3], __builtin_amdgcn_cvt_pk_fp8_f32(x[0], x[1], 0, false), true);
    else return __builtin_amdgcn_cvt_pk_bf8_f32(x[2], x[3], __builtin_amdgcn_cvt_pk_bf8_f32(x[0], x[1], 0, false), true);
}

/// A tile of results as an operand: its columns are rows there, with a lane's quads one after the other.
template <byte_tile TO, col_tile FROM> __device__ inline void round_operand(TO &to, const FROM &from) {
    static_assert(TO::rows == FROM::cols && TO::cols == FROM::rows && TO::side == FROM::shape::side, "the transpose");
    constexpr int quads = FROM::shape::quads;
#pragma unroll
    for (int n = 0; n < FROM::height * quads; ++n)
#pragma unroll
        for (int c = 0; c < FROM::width; ++c)
            to.tiles[c][n / 4][n % 4] = round_bytes<typename TO::T>(from.tiles[n / quads][c].get(n % quads));
}

/// An operand's rows from memory to registers, lane by lane: row n from `from` on, `pitch` elements after the one before.
template <byte_tile RT> __device__ inline void load_operand(RT &tile, buffer from, int first, int pitch) {
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int k = 0; k < RT::width; ++k) {
            const int row = first + i * RT::side + laneid() % RT::side, col = k * RT::shape::cols + laneid() / RT::side * 16;
            tile.tiles[i][k] = bits_of<words_4>(__builtin_amdgcn_raw_buffer_load_b128(from, row * pitch + col, 0, 0));
        }
}

/// d = a b^T + c: a (M x K), b (N x K).
template <col_tile D, byte_tile A, byte_tile B> __device__ __forceinline__ void mma_ABt(D &d, const A &a, const B &b, const D &c) {
    static_assert(A::rows == D::rows && B::rows == D::cols && A::cols == B::cols, "mma_ABt: (M x K) (N x K)^T -> (M x N)");
    static_assert(A::side == D::shape::side, "operands of results like these");
    kittens::detail::multiply_bytes(d, a, b, c);
}

/// A tile of results to memory as 8-bit floats: as `store_rows` of fused.cuh.
template <typename T, col_tile RT>
    requires(sizeof(T) == 1)
__device__ inline void store_rows(buffer to, const RT &tile, int first, int rows, int pitch) {
    using shape = typename RT::shape;
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int c = 0; c < RT::width; ++c)
#pragma unroll
            for (int m = 0; m < shape::quads; ++m) {
                const int row = first + c * shape::side + int(shape::line());
                const int col = i * shape::side + int(shape::first()) + m * shape::quad_stride;
                __builtin_amdgcn_raw_buffer_store_b32(round_bytes<T>(tile.tiles[i][c].get(m)), to, row < rows ? row * pitch + col : OUTSIDE, 0, 0);
            }
}

/// Where LDS has column `at`, the first of a quad, of what is summed with results: those that one of `groups` lanes of a
/// column has of four base tiles' quads lie side by side. With one group, where it is.
template <int groups> __device__ inline int quad_column(int at) {
    const int quad = at / 4;
    return quad / (4 * groups) * (16 * groups) + quad % groups * 16 + quad / groups % 4 * 4;
}

/// Registers -> LDS: what `fetch` brought, in that order of columns.
template <int N, int groups, ducks::st::all ST> __device__ inline void write_quads(ST &to, const words_4 (&stage)[CHUNKS<N, ST>]) {
    const uint32_t base = lds_address(&to.data[0]);
#pragma unroll
    for (int n = 0; n < CHUNKS<N, ST>; ++n) {
        const int2 at = chunk_at<ST>(n * N + int(threadIdx.x));
        if (CHUNKS<N, ST> * N * 16 > ST::rows * ST::cols && at.x >= ST::rows) continue;
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            const uint32_t place = position(to, base, at.x, quad_column<groups>(at.y + 4 * w));
            *(__attribute__((address_space(3))) uint32_t *)(uintptr_t)place = stage[n][w];
        }
    }
}

/// Global memory -> registers by N threads together; waits for nothing.
template <int N, ducks::st::all ST> __device__ inline void fetch_transposed(const ST &, uint32_t (&stage)[SQUARES<N, ST>][4], buffer from, int pitch) {
#pragma unroll
    for (int n = 0; n < SQUARES<N, ST>; ++n) {
        const int2 at = square_at<ST>(n * N + int(threadIdx.x));
#pragma unroll
        for (int e = 0; e < 4; ++e)
            stage[n][e] = __builtin_amdgcn_raw_buffer_load_b32(from, at.y < ST::cols ? (at.y + e) * pitch + at.x : OUTSIDE, 0, 0);
    }
}

/// Registers -> LDS: what `fetch_transposed` brought, each square transposed, in the order of columns of `groups`.
template <int N, int groups = 1, ducks::st::all ST> __device__ inline void write_transposed(ST &to, const uint32_t (&stage)[SQUARES<N, ST>][4]) {
    const uint32_t base = lds_address(&to.data[0]);
#pragma unroll
    for (int n = 0; n < SQUARES<N, ST>; ++n) {
        const int2 at = square_at<ST>(n * N + int(threadIdx.x));
        if (SQUARES<N, ST> * N * 16 > ST::rows * ST::cols && at.y >= ST::cols) continue;
        uint32_t pairs[2][2]; // of rows 0 and 1, and 2 and 3: two columns of each, byte by byte
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            pairs[r][0] = __builtin_amdgcn_perm(stage[n][2 * r + 1], stage[n][2 * r], 0x05010400);
            pairs[r][1] = __builtin_amdgcn_perm(stage[n][2 * r + 1], stage[n][2 * r], 0x07030602);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const uint32_t place = position(to, base, at.x + e, quad_column<groups>(at.y));
            *(__attribute__((address_space(3))) uint32_t *)(uintptr_t)place =
                __builtin_amdgcn_perm(pairs[1][e / 2], pairs[0][e / 2], e % 2 ? 0x07060302 : 0x05040100);
        }
    }
}

} // namespace tk
#endif
