/**
 * Operands of the matrix instructions 16x16x32 and 32x32x16 of gfx950, as fused matmuls hold them: a lane owns eight
 * elements of each base tile, neighbours as they come from memory, or four neighbours of each of two halves, as the
 * result of a product has them.
 */
#pragma once

#include "fused_tiles.cuh"

namespace tk {

/// Base tiles of rows x cols, 8 elements a lane along the columns (row layout) or the rows (col layout), `stride` of them
/// neighbours.
template <int rows_, int cols_, int stride_ = 8> struct wide {
    static constexpr int rows = rows_, cols = cols_, stride = stride_;
};

/// Row layout: lane l owns of each base tile 8 columns of one row, rows counted by l % rows, columns by l / rows. Col layout is the
/// transpose.
template <typename T_, int rows_, int cols_, ducks::rt_layout::all layout_, int base_rows, int base_cols, int stride>
struct rt<T_, rows_, cols_, layout_, wide<base_rows, base_cols, stride>> {
    using T = native<T_>;
    using layout = layout_;
    using shape = wide<base_rows, base_cols, stride>;
    static constexpr int rows = rows_, cols = cols_;
    static_assert(rows % base_rows == 0 && cols % base_cols == 0, "a register tile consists of whole base tiles");
    static constexpr int height = rows / base_rows, width = cols / base_cols;
    static constexpr bool is_row = __is_same(layout, ducks::rt_layout::row);
    static constexpr int side = is_row ? base_rows : base_cols; // of the matrix instruction: 16 or 32

    vec<T, 8> tiles[height][width];
};
template <typename T> constexpr bool is_wide = false;
template <typename T, int rows, int cols, typename layout, int r, int c, int s> constexpr bool is_wide<rt<T, rows, cols, layout, wide<r, c, s>>> = true;
template <typename T> concept wide_tile = is_wide<T>;
#ifdef KITTENS_CDNA4

/// Sixteen lanes read 8 bytes each, lanes 4 j..4 j + 3 the 16 elements of row j of four; lane i of them gets element i of
/// every row (CDNA4 ISA, DS_READ_B64_TR_B16).
template <typename T> __device__ __forceinline__ vec<T, 4> read_transposed(lds_bytes address) {
    using raw = vec<short, 4>;
    return bits_of<vec<T, 4>>(__builtin_amdgcn_ds_read_tr16_b64_v4i16((__attribute__((address_space(3))) raw *)address));
}

/// What this lane reads of a tile in LDS, or a part of one, for an operand of base tiles of rows x cols, `stride` neighbours at a
/// time: put(i, j, eight elements). Row layout: one read of 16 bytes a base tile; col layout: two transposing reads, of
/// neighbouring rows or of those that a lane has of a product's result.
template <typename T, int rows, int cols, int stride, bool by_row, ducks::st::all ST, typename F>
__device__ __forceinline__ void read_wide(const ST &from, F put) {
    constexpr int side = by_row ? rows : cols, halves = by_row ? 1 : 2, apart = stride == 8 ? 4 : WARP_THREADS / side * 4;
    static_assert(!by_row || stride == 8, "a read of 16 bytes takes 8 neighbours of a row");
    const uint32_t lane = laneid(), group = lane / 16 % (side / 16);
    const auto own = [&](int b, int h) { // row and column of what this lane reads of base tile (0, b)
        if constexpr (by_row) return words_2{lane % side, 16 * b + lane / side * 8};
        else return words_2{lane / side * stride + apart * h + lane % 16 / 4, 16 * b + 16 * group + lane % 4 * 4};
    };
#ifdef KITTENS_EMBEDDED // positions of base tiles differ by constants, but for the two of 16 columns in a box
    using positions = typename ST::positions;
    constexpr int bases = cols == 16 ? 2 : 1;
    lds_bytes base[bases][halves];
    const int first = from.col_offset / 16;
    const int uniform = from.row_offset * positions::row_bytes + from.col_offset / 32 * positions::column_bytes;
#pragma unroll
    for (int b = 0; b < bases; ++b)
#pragma unroll
        for (int h = 0; h < halves; ++h)
            base[b][h] = kittens::detail::lds_pointer(from.data, positions::offset(own(b, h).x, own(b, h).y)) + uniform;
    const auto place = [&](int i, int j, int h) {
        const int column = bases == 2 ? first % 2 + j : 2 * j; // in units of 16, from the box in which the tile begins
        return base[bases == 2 ? column % 2 : 0][h] + (i * rows * positions::row_bytes + column / 2 * positions::column_bytes);
    };
#else
    const uint32_t data = lds_address(&from.data[0]);
    const auto place = [&](int i, int j, int h) {
        const words_2 at = own(0, h);
        return (lds_bytes)(uintptr_t)position(from, data, int(at.x), int(at.y), i * rows, j * cols);
    };
#endif
#pragma unroll
    for (int i = 0; i < ST::rows / rows; ++i)
#pragma unroll
        for (int j = 0; j < ST::cols / cols; ++j) {
            vec<T, 8> value;
            if constexpr (by_row) {
                value = *(__attribute__((address_space(3))) const vec<T, 8> *)place(i, j, 0);
            } else {
                value.lo = read_transposed<T>(place(i, j, 0));
                value.hi = read_transposed<T>(place(i, j, halves - 1));
            }
            put(i, j, value);
        }
}

/// A tile in LDS, or a part of one.
template <wide_tile RT, ducks::st::all ST> __device__ __forceinline__ void load(RT &to, const ST &from) {
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols, "register tile and shared tile must have the same shape");
    using shape = typename RT::shape;
    read_wide<typename RT::T, shape::rows, shape::cols, shape::stride, RT::is_row>(from, [&](int i, int j, const auto &value) { to.tiles[i][j] = value; });
}

#ifndef KITTENS_EMBEDDED

/// The same of the library's tiles. What arrives when is the compiler's to know: the library reads in assembly and waits for nothing.
template <ducks::rt::all RT, ducks::st::all ST>
    requires requires { RT::base_tile_stride; }
__device__ __forceinline__ void load(RT &to, const ST &from) {
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols, "register tile and shared tile must have the same shape");
    constexpr bool by_row = __is_same(typename RT::layout, ducks::rt_layout::row);
    read_wide<native<typename RT::T>, RT::base_tile_rows, RT::base_tile_cols, RT::base_tile_stride, by_row>(
        from, [&](int i, int j, const auto &value) { __builtin_memcpy(to.tiles[i][j].data, &value, sizeof(value)); });
}
#endif

/// An operand's rows from memory to registers: row n from `from` on, `pitch` elements after the one before.
template <wide_tile RT> __device__ __forceinline__ void load_operand(RT &tile, buffer from, int first, int pitch) {
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int k = 0; k < RT::width; ++k) {
            const int row = first + i * RT::side + laneid() % RT::side, col = k * RT::shape::cols + laneid() / RT::side * 8;
            tile.tiles[i][k] = __builtin_bit_cast(vec<typename RT::T, 8>, __builtin_amdgcn_raw_buffer_load_b128(from, (row * pitch + col) * 2, 0, 0));
        }
}

/// What was computed, as an operand: a lane has what it had.
template <wide_tile TO, register_tile FROM> __device__ __forceinline__ void round_operand(TO &to, const FROM &from) {
    constexpr int quads = FROM::packed_per_tile / 2;
    const auto quad = [&](int n, int c) { return __builtin_convertvector(from.tiles[n / quads][c].get(n % quads), vec<typename TO::T, 4>); };
#pragma unroll
    for (int k = 0; k < TO::height; ++k)
#pragma unroll
        for (int c = 0; c < TO::width; ++c) {
            to.tiles[k][c].lo = quad(2 * k, c);
            to.tiles[k][c].hi = quad(2 * k + 1, c);
        }
}

/// Quad number n of those that a lane has of a column of base tiles.
template <wide_tile RT> __device__ __forceinline__ auto quad_at(const RT &tile, int n, int c) {
    return n % 2 ? tile.tiles[n / 2][c].hi : tile.tiles[n / 2][c].lo;
}

/// Tiles whose lanes own eight elements of 2 bytes of a base tile: these, or the library's.
template <typename T, typename layout>
concept eights = requires(T t) { t.tiles[0][0]; } && sizeof(typename T::T) == 2 && sizeof(T::tiles) == 16 * T::height * T::width && __is_same(typename T::layout, layout);
template <typename T> concept eights_by_rows = eights<T, ducks::rt_layout::row>;
template <typename T> concept eights_by_columns = eights<T, ducks::rt_layout::col>;

/// d(i, j) = c(i, j) + sum over k of a_at(i, k) * b_at(k, j), elements T.
template <typename T, int depth, typename D, typename C, typename A, typename B>
__device__ __forceinline__ void multiply_wide(D &d, const C &c, A a_at, B b_at) {
    using shape = square<D::rows / D::height>;
    using sums = vec<float, 4 * shape::quads>;
    const auto eight = [](const auto &base) {
        vec<T, 8> value;
        __builtin_memcpy(&value, &base, sizeof(value));
        return value;
    };
#pragma unroll
    for (int k = 0; k < depth; ++k)
#pragma unroll
        for (int i = 0; i < D::height; ++i)
#pragma unroll
            for (int j = 0; j < D::width; ++j) {
                const auto acc = k == 0 ? vector_of<sums>(c.tiles[i][j]) : vector_of<sums>(d.tiles[i][j]);
                const sums result = mfma_wide<shape>(eight(a_at(i, k)), eight(b_at(k, j)), acc);
                __builtin_memcpy(d.tiles[i][j].data, &result, sizeof(result));
            }
}

/// d = a b + c: a (M x K) row, b (K x N) col.
template <typename D, eights_by_rows A, eights_by_columns B> __device__ __forceinline__ void mma_AB(D &d, const A &a, const B &b, const D &c) {
    static_assert(A::rows == D::rows && B::cols == D::cols && A::cols == B::rows, "mma_AB: (M x K) (K x N) -> (M x N)");
    multiply_wide<native<typename A::T>, A::width>(d, c, [&](int i, int k) { return a.tiles[i][k]; }, [&](int k, int j) { return b.tiles[k][j]; });
}

/// d = a b^T + c: a (M x K) row, b (N x K) row.
template <typename D, eights_by_rows A, eights_by_rows B> __device__ __forceinline__ void mma_ABt(D &d, const A &a, const B &b, const D &c) {
    static_assert(A::rows == D::rows && B::rows == D::cols && A::cols == B::cols, "mma_ABt: (M x K) (N x K)^T -> (M x N)");
    multiply_wide<native<typename A::T>, A::width>(d, c, [&](int i, int k) { return a.tiles[i][k]; }, [&](int k, int j) { return b.tiles[j][k]; });
}

/// d = a^T b + c: a (K x M) col, b (K x N) col.
template <typename D, eights_by_columns A, eights_by_columns B> __device__ __forceinline__ void mma_AtB(D &d, const A &a, const B &b, const D &c) {
    static_assert(A::cols == D::rows && B::cols == D::cols && A::rows == B::rows, "mma_AtB: (K x M)^T (K x N) -> (M x N)");
    multiply_wide<native<typename A::T>, A::height>(d, c, [&](int i, int k) { return a.tiles[k][i]; }, [&](int k, int j) { return b.tiles[k][j]; });
}

/// d = a^T b^T + c: a (K x M) col, b (N x K) row.
template <typename D, eights_by_columns A, eights_by_rows B> __device__ __forceinline__ void mma_AtBt(D &d, const A &a, const B &b, const D &c) {
    static_assert(A::cols == D::rows && B::rows == D::cols && A::rows == B::cols, "mma_AtBt: (K x M)^T (N x K)^T -> (M x N)");
    multiply_wide<native<typename A::T>, A::height>(d, c, [&](int i, int k) { return a.tiles[k][i]; }, [&](int k, int j) { return b.tiles[j][k]; });
}
#endif

} // namespace tk
