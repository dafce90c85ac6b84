/**
 * Operands of matrix instructions in elements of one byte: 8-bit floats and whole numbers.
 *
 * A lane owns 16 bytes of each base tile: of 16 x 64 elements row l % 16, columns 16 (l / 16)..+15, of 32 x 32 row
 * l % 32, columns 16 (l / 32)..+15: one chunk of a panel in LDS, or of a box (hk.cuh), so that tiles come to LDS and to
 * registers 16 bytes a lane at a time. The instructions' own layouts have 4, 8, 16 or 32 bytes of a lane in other
 * columns; but a product is the same over k in any order that both factors have, and they are laid out alike. There is
 * no col layout: both factors are stored with k innermost.
 *
 * Instructions (bytes of a lane): gfx90a v_mfma_i32_16x16x16_i8 (4); gfx942 16x16x32, 32x32x16 of fp8, bf8 and i8 (8);
 * gfx950 those of fp8, 16x16x64 and 32x32x32 of i8 (16), 16x16x128 and 32x32x64_f8f6f4 (32), at twice the rate of the
 * shorter ones (CDNA2, CDNA3 and CDNA4 ISA).
 *
 * Floats of 4 and 6 bits lie packed in such bytes. A lane owns of a base tile the 32 that the f8f6f4 instructions take of
 * it, neighbours along k: 16 or 24 bytes. So a base tile is one instruction deep, and 24 bytes are read 8 at a time, for
 * they begin in the middle of every other chunk.
 */
#pragma once

#include "global.cuh"
#include "registers.cuh"
#include "shared.cuh"

namespace kittens {

namespace ducks::rt_shape {
/// Base tiles of side_ x (64 owned_ / side_) bytes, of which each lane has `owned_` neighbours.
template <int side_, int owned_ = 16> struct bytes {
    static constexpr bool is_wide = true;
    static constexpr int side = side_, owned = owned_, rows = side_, cols = owned_ * WARP_THREADS / side_;
};
using rt_16x64 = bytes<16>;
using rt_32x32_bytes = bytes<32>;
using rt_16x96 = bytes<16, 24>;
using rt_32x48_bytes = bytes<32, 24>;
} // namespace ducks::rt_shape

namespace ducks::rt {
struct bytes_identifier {};
template <typename T>
concept bytes = requires { typename T::identifier; } && __is_same(typename T::identifier, bytes_identifier);
} // namespace ducks::rt

/// An operand of one-byte elements, held by one wave.
template <typename T_, int rows_, int cols_, ducks::rt_layout::all layout_, int side_, int owned_>
struct rt<T_, rows_, cols_, layout_, ducks::rt_shape::bytes<side_, owned_>> {
    using identifier = ducks::rt::bytes_identifier;
    using layout = layout_;
    using shape = ducks::rt_shape::bytes<side_, owned_>;
    using T = T_;
    using dtype = T;
    static constexpr int rows = rows_, cols = cols_, side = side_;
    static_assert(sizeof(T) == 1, "tiles of this shape hold elements of one byte");
    static_assert(__is_same(layout, ducks::rt_layout::row), "matrix instructions take bytes that are neighbours along k");
    static_assert(rows % shape::rows == 0 && cols % shape::cols == 0, "a register tile consists of whole base tiles");
    static constexpr int height = rows / shape::rows, width = cols / shape::cols;
    static constexpr int tile_size_row = shape::rows, tile_size_col = shape::cols;
    static constexpr int depth = cols * 8 / detail::element_bits<T>; // elements along k

    detail::vec<uint32_t, owned_ / 4> tiles[height][width];
};

template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row,
          ducks::rt_shape::all shape = ducks::rt_shape::rt_16x64>
using rt_fp8e4m3 = rt<fp8e4m3, rows, cols, layout, shape>;
template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row,
          ducks::rt_shape::all shape = ducks::rt_shape::rt_16x64>
using rt_fp8e5m2 = rt<fp8e5m2, rows, cols, layout, shape>;
template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row,
          ducks::rt_shape::all shape = ducks::rt_shape::rt_16x64>
using rt_fp4e2m1 = rt<fp4e2m1, rows, cols, layout, shape>;
template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row,
          ducks::rt_shape::all shape = ducks::rt_shape::rt_16x96>
using rt_fp6e2m3 = rt<fp6e2m3, rows, cols, layout, shape>;
template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row,
          ducks::rt_shape::all shape = ducks::rt_shape::rt_16x96>
using rt_fp6e3m2 = rt<fp6e3m2, rows, cols, layout, shape>;
template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row,
          ducks::rt_shape::all shape = ducks::rt_shape::rt_16x64>
using rt_i8 = rt<int8_t, rows, cols, layout, shape>;
template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row,
          ducks::rt_shape::all shape = ducks::rt_shape::rt_16x16>
using rt_i32 = rt<int, rows, cols, layout, shape>;

template <int rows, int cols, typename shape = ducks::st_shape::panels> using st_fp8e4m3 = st<fp8e4m3, rows, cols, shape>;
template <int rows, int cols, typename shape = ducks::st_shape::panels> using st_fp8e5m2 = st<fp8e5m2, rows, cols, shape>;
template <int rows, int cols, typename shape = ducks::st_shape::panels> using st_fp4e2m1 = st<fp4e2m1, rows, cols, shape>;
template <int rows, int cols, typename shape = ducks::st_shape::panels> using st_fp6e2m3 = st<fp6e2m3, rows, cols, shape>;
template <int rows, int cols, typename shape = ducks::st_shape::panels> using st_fp6e3m2 = st<fp6e3m2, rows, cols, shape>;
template <int rows, int cols, typename shape = ducks::st_shape::panels> using st_i8 = st<int8_t, rows, cols, shape>;
template <int rows, int cols, typename shape = ducks::st_shape::panels> using st_u4x2 = st<u4x2, rows, cols, shape>;
template <int rows, int cols, typename shape = ducks::st_shape::panels> using st_i4x2 = st<i4x2, rows, cols, shape>;

/* ---------- LDS -> registers ---------- */

namespace detail {
/// After how many panels of 64 bytes base tiles of so many bytes begin with one again.
constexpr int panels_of(int columns) {
    int panels = 1;
    while (64 * panels % columns) panels++;
    return panels;
}
} // namespace detail

/// dst = the shared tile src; equal shapes and types. One read of 16 bytes a base tile, or three of 8, from base tiles
/// that repeat after whole panels of 64 bytes: the positions of these differ by an exclusive-or, others by constants.
template <ducks::rt::bytes RT, ducks::st::all ST> __device__ __forceinline__ void load(RT &dst, const ST &src) {
    using positions = typename ST::positions;
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols,
                  "register tile and shared tile must have the same shape");
    static_assert(__is_same(typename RT::T, typename ST::dtype),
                  "register tile and shared tile must have the same element type");
    constexpr int owned = RT::shape::owned, piece = owned % 16 ? 8 : 16, pieces = owned / piece;
    constexpr int columns = RT::shape::cols, panels = detail::panels_of(columns), bases = 64 * panels / columns;
    using words = detail::vec<uint32_t, piece / 4>;
    const uint32_t lane = laneid();
    const int first = src.col_offset / columns;
    const int uniform = src.row_offset * positions::row_bytes + first / bases * panels * positions::column_bytes;
    detail::lds_byte *base[bases][pieces];
#pragma unroll
    for (int b = 0; b < bases; b++)
#pragma unroll
        for (int p = 0; p < pieces; p++) {
            const uint32_t at = positions::offset(lane % RT::side, b * columns + lane / RT::side * owned + p * piece);
            base[b][p] = detail::lds_pointer(src.data, at, uniform);
        }
#pragma unroll
    for (int i = 0; i < RT::height; i++)
#pragma unroll
        for (int j = 0; j < RT::width; j++) {
            const int column = first % bases + j;
            const int at = i * RT::side * positions::row_bytes + column / bases * panels * positions::column_bytes;
            if constexpr (pieces == 1) {
                dst.tiles[i][j] = detail::lds_read<words>(base[column % bases][0] + at);
            } else {
#pragma unroll
                for (int p = 0; p < pieces; p++) {
                    const auto read = detail::lds_read<words>(base[column % bases][p] + at);
                    dst.tiles[i][j][2 * p] = read[0];
                    dst.tiles[i][j][2 * p + 1] = read[1];
                }
            }
        }
}

/* ---------- global -> registers ---------- */

/// dst = the tile of src at idx, counted in tiles; equal types. One load of 16 bytes a base tile. Elements outside the
/// tensor read as 0.
template <ducks::rt::bytes RT, ducks::gl::all GL, ducks::coord::all COORD = coord<RT>>
__device__ __forceinline__ void load(RT &dst, const GL &src, const COORD &idx) {
    static_assert(__is_same(typename RT::T, typename GL::dtype),
                  "register tile and tensor must have the same element type");
    static_assert(RT::shape::owned == 16, "a lane loads 16 bytes at a time");
    const detail::tile_window<2, RT::rows, RT::cols, GL> window(src, idx);
    const uint32_t row = laneid() % RT::side, first = laneid() / RT::side * 16;
#pragma unroll
    for (int i = 0; i < RT::height; i++)
#pragma unroll
        for (int j = 0; j < RT::width; j++) {
            const uint32_t column = j * RT::shape::cols + first;
            const uint32_t voffset = window.column(row * window.row_bytes + column, column);
            const uint32_t soffset = window.origin + i * RT::side * window.row_bytes;
            dst.tiles[i][j] = detail::buffer_read<detail::u32x4, GL::cache_policy>(window.resource, voffset, soffset);
        }
}

/* ---------- products ---------- */

namespace detail {

/// How many bytes of a lane the longest instruction takes.
#if defined(KITTENS_CDNA4)
template <typename T> constexpr int deepest = is_fp8<T> ? 32 : 16;
#elif defined(KITTENS_CDNA2)
template <typename T> constexpr int deepest = 4;
#else
template <typename T> constexpr int deepest = 8;
#endif

/// acc += a * b, of elements TA and TB: one instruction on as many bytes of a lane as A has.
template <int side, typename TA, typename TB, typename A>
__device__ __forceinline__ auto mfma_bytes(const A &a, const A &b, auto acc) {
    constexpr bool small = side == 16;
    if constexpr (!is_fp8<TA>) {
        static_assert(__is_same(TA, int8_t) && __is_same(TB, int8_t));
#if defined(KITTENS_CDNA4)
        if constexpr (small) return __builtin_amdgcn_mfma_i32_16x16x64_i8(bits<vec<int, 4>>(a), bits<vec<int, 4>>(b), acc, 0, 0, 0);
        else return __builtin_amdgcn_mfma_i32_32x32x32_i8(bits<vec<int, 4>>(a), bits<vec<int, 4>>(b), acc, 0, 0, 0);
#elif defined(KITTENS_CDNA2)
        if constexpr (small) return __builtin_amdgcn_mfma_i32_16x16x16i8(bits<int>(a), bits<int>(b), acc, 0, 0, 0);
        else return __builtin_amdgcn_mfma_i32_32x32x8i8(bits<int>(a), bits<int>(b), acc, 0, 0, 0);
#else
        if constexpr (small) return __builtin_amdgcn_mfma_i32_16x16x32_i8(bits<long>(a), bits<long>(b), acc, 0, 0, 0);
        else return __builtin_amdgcn_mfma_i32_32x32x16_i8(bits<long>(a), bits<long>(b), acc, 0, 0, 0);
#endif
    }
#ifndef KITTENS_CDNA2
    else if constexpr (sizeof(A) == 8) {
        const long x = bits<long>(a), y = bits<long>(b);
        if constexpr (__is_same(TA, fp8e4m3) && __is_same(TB, fp8e4m3)) {
            if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(x, y, acc, 0, 0, 0);
            else return __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(x, y, acc, 0, 0, 0);
        } else if constexpr (__is_same(TA, fp8e4m3)) {
            if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8(x, y, acc, 0, 0, 0);
            else return __builtin_amdgcn_mfma_f32_32x32x16_fp8_bf8(x, y, acc, 0, 0, 0);
        } else if constexpr (__is_same(TB, fp8e4m3)) {
            if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8(x, y, acc, 0, 0, 0);
            else return __builtin_amdgcn_mfma_f32_32x32x16_bf8_fp8(x, y, acc, 0, 0, 0);
        } else {
            if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(x, y, acc, 0, 0, 0);
            else return __builtin_amdgcn_mfma_f32_32x32x16_bf8_bf8(x, y, acc, 0, 0, 0);
        }
    }
#endif
#ifdef KITTENS_CDNA4
    else {
        constexpr int cbsz = __is_same(TA, fp8e4m3) ? 0 : 1, blgp = __is_same(TB, fp8e4m3) ? 0 : 1; // without scales
        const auto x = bits<vec<int, 8>>(a), y = bits<vec<int, 8>>(b);
        if constexpr (small)
            return __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(x, y, acc, cbsz, blgp, 0, 0, 0, 0);
        else return __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(x, y, acc, cbsz, blgp, 0, 0, 0, 0);
    }
#endif
}

using u32x8 = vec<uint32_t, 8>;

/// The n-th `size` bytes that a lane owns of base tiles in a row.
template <int size> __device__ __forceinline__ auto nth_bytes(auto tile_at, int n) {
    if constexpr (size == 32) {
        return __builtin_shufflevector(tile_at(2 * n), tile_at(2 * n + 1), 0, 1, 2, 3, 4, 5, 6, 7);
    } else {
        const u32x4 tile = tile_at(n * size / 16);
        if constexpr (size == 16) return tile;
        else if constexpr (size == 8) return u32x2{tile[n % 2 * 2], tile[n % 2 * 2 + 1]};
        else return tile[n % 4];
    }
}

/// How many bytes of a lane one instruction takes of operands of `width` base tiles.
template <typename T, int width> constexpr int bytes_at_once = deepest<T> == 32 && width % 2 ? 8 : deepest<T>;

/// d = a b^T + c, of tiles of results whose base tiles have `get_all` and `set_all`.
template <typename D, typename A, typename B, typename C>
__device__ __forceinline__ void multiply_bytes(D &d, const A &a, const B &b, const C &c) {
    constexpr int size = bytes_at_once<typename A::T, A::width>;
#pragma unroll
    for (int n = 0; n < A::width * 16 / size; n++)
#pragma unroll
        for (int i = 0; i < D::height; i++)
#pragma unroll
            for (int j = 0; j < D::width; j++) {
                const auto acc = n == 0 ? c.tiles[i][j].get_all() : d.tiles[i][j].get_all();
                const auto x = nth_bytes<size>([&](int k) { return a.tiles[i][k]; }, n);
                const auto y = nth_bytes<size>([&](int k) { return b.tiles[j][k]; }, n);
                d.tiles[i][j].set_all(mfma_bytes<A::side, typename A::T, typename B::T>(x, y, acc));
            }
}

template <typename A, typename B, typename D, typename C>
concept byte_operands = ducks::rt::bytes<A> && ducks::rt::bytes<B> && ducks::rt::col_layout<D> &&
                        __is_same(D, C) && is_fp8<typename A::T> == is_fp8<typename B::T> &&
                        __is_same(typename D::T, conditional_t<is_fp8<typename A::T>, float, int>) &&
                        A::side == D::shape::side && B::side == D::shape::side;

} // namespace detail

/// d = a b^T + c: a (M x K), b (N x K), of one-byte elements; d and c of floats, of whole numbers for whole numbers.
template <typename D, typename A, typename B, typename C>
    requires detail::byte_operands<A, B, D, C>
__device__ __forceinline__ void mma_ABt(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::rows == D::rows && B::rows == D::cols && A::cols == B::cols,
                  "mma_ABt: (M x K) (N x K)^T -> (M x N)");
    detail::multiply_bytes(d, a, b, c);
}

#ifdef KITTENS_CDNA4

/* ---------- products of blocks that have scales ---------- */

/// Exponents of the scales of a tile's blocks of 32 along k (e8m0, 127 is 1): those that a lane hands to each
/// instruction, which takes that of row l % side and of the (l / side)-th block of what it sums (CDNA4 ISA).
template <ducks::rt::bytes RT> struct block_scales {
    static constexpr int across = WARP_THREADS / RT::side; // blocks that an instruction sums
    static_assert(RT::depth % (32 * across) == 0, "a tile is as deep as whole instructions");
    static constexpr int count = RT::depth / (32 * across); // instructions
    int tiles[RT::height][count];
};

/// The scales of the tile of `rows x depth` elements at (row, col), counted in tiles like `of`, from element `first` of
/// src on. `masked`: blocks past the end of a row may not be read as the next row's, which need not be numbers.
template <bool masked, ducks::rt::bytes RT, ducks::gl::all GL>
__device__ __forceinline__ block_scales<RT> scales_of(const RT &, const GL &src, int first, int row, int col) {
    static_assert(sizeof(typename GL::dtype) == 1, "scales of blocks are exponents of one byte");
    constexpr int across = block_scales<RT>::across;
    const uint64_t bytes = uint64_t(src.batch()) * src.depth() * src.rows() * src.cols();
    const auto buffer = __builtin_amdgcn_make_buffer_rsrc((void *)src.raw_ptr, 0, bytes < 0xffffffff ? bytes : 0xffffffff, 0x00020000);
    const int lane = laneid() % RT::side * src.cols() + laneid() / RT::side; // what no other lane has
    block_scales<RT> scales;
#pragma unroll
    for (int i = 0; i < RT::height; i++)
#pragma unroll
        for (int n = 0; n < block_scales<RT>::count; n++) {
            const int block = col * (RT::depth / 32) + n * across;
            const bool outside = masked && block + int(laneid() / RT::side) >= src.cols();
            const int uniform = first + (row * RT::rows + i * RT::side) * src.cols() + block;
            scales.tiles[i][n] = __builtin_amdgcn_raw_buffer_load_b8(buffer, outside ? -1 : lane, uniform, 0);
        }
    return scales;
}

namespace detail {

/// The format of factors in CBSZ and BLGP; none for other types.
template <typename T> constexpr int format = -1;
template <> inline constexpr int format<fp8e4m3> = 0;
template <> inline constexpr int format<fp8e5m2> = 1;
template <> inline constexpr int format<fp6e2m3> = 2;
template <> inline constexpr int format<fp6e3m2> = 3;
template <> inline constexpr int format<fp4e2m1> = 4;

template <typename A, typename B, typename D>
concept scaled_operands = ducks::rt::bytes<A> && ducks::rt::bytes<B> && ducks::rt::col_layout<D> &&
                          format<typename A::T> >= 0 && format<typename B::T> >= 0 && __is_same(typename D::T, float) &&
                          A::side == D::shape::side && B::side == D::shape::side;

/// What a lane hands to the n-th instruction along k: 32 elements, in as many of eight registers as they take.
template <ducks::rt::bytes RT> __device__ __forceinline__ auto nth_block(const RT &tile, int i, int n) {
    if constexpr (element_bits<typename RT::T> == 8) {
        return bits<vec<int, 8>>(nth_bytes<32>([&](int k) { return tile.tiles[i][k]; }, n));
    } else {
        constexpr int words = RT::shape::owned / 4;
        const auto some = bits<vec<int, words>>(tile.tiles[i][n]);
        if constexpr (words == 4) return __builtin_shufflevector(some, some, 0, 1, 2, 3, -1, -1, -1, -1);
        else return __builtin_shufflevector(some, some, 0, 1, 2, 3, 4, 5, -1, -1);
    }
}

} // namespace detail

/// d = (a x) (b y)^T + c: x and y are powers of two for each block of 32 along k; the formats of a and b may differ.
template <typename D, typename A, typename B>
    requires detail::scaled_operands<A, B, D>
__device__ __forceinline__ void mma_ABt(D &d, const A &a, const B &b, const D &c, const block_scales<A> &x, const block_scales<B> &y) {
    static_assert(A::rows == D::rows && B::rows == D::cols && A::depth == B::depth,
                  "mma_ABt: (M x K) (N x K)^T -> (M x N)");
    constexpr int left = detail::format<typename A::T>, right = detail::format<typename B::T>;
#pragma unroll
    for (int n = 0; n < block_scales<A>::count; n++)
#pragma unroll
        for (int i = 0; i < D::height; i++)
#pragma unroll
            for (int j = 0; j < D::width; j++) {
                const auto acc = n == 0 ? c.tiles[i][j].get_all() : d.tiles[i][j].get_all();
                const auto p = detail::nth_block(a, i, n), q = detail::nth_block(b, j, n);
                if constexpr (A::side == 16)
                    d.tiles[i][j].set_all(__builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(
                        p, q, acc, left, right, 0, x.tiles[i][n], 0, y.tiles[j][n]));
                else
                    d.tiles[i][j].set_all(__builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(
                        p, q, acc, left, right, 0, x.tiles[i][n], 0, y.tiles[j][n]));
            }
}
#endif

} // namespace kittens
