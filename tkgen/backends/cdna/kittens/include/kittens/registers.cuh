/**
 * Tiles and vectors in the registers of one wave.
 *
 * A tile is a grid of 16x16 base tiles; a lane owns four elements of each. Row layout: lane l owns row l % 16, columns
 * 4 (l / 16)..+3. Col layout is the transpose: column l % 16, rows 4 (l / 16)..+3. These are the operand and result
 * layouts of the 16x16x16 matrix instructions (CDNA3 ISA, "Matrix fused-multiply-add"): a row-layout tile is its A, a
 * col-layout tile its B and its D.
 *
 * An addition to the surface: tiles of shape ducks::rt_shape::rt_32x32 consist of 32x32 base tiles, for the 32x32x8
 * instructions. A lane owns sixteen elements of each, in four quads: in row layout row l % 32, columns 8 m + 4 (l /
 * 32)..+3 for m = 0..3; in col layout the transpose. All operands of a product must have the same shape; everything
 * else is used alike.
 */
#pragma once

#include "base_types.cuh"

namespace kittens {

namespace ducks {
namespace rt_layout {
struct row {};
struct col {};
template <typename T> concept all = __is_same(T, row) || __is_same(T, col);
template <all L> struct transpose {
    using type = detail::conditional_t<__is_same(L, row), col, row>;
};
} // namespace rt_layout

/// The side of the base tiles, and how a lane finds its quads in them.
namespace rt_shape {
template <int side_> struct square {
    static constexpr int side = side_;
    static constexpr int quads = side * side / WARP_THREADS / 4; // of four elements, per lane and base tile
    static constexpr int quad_stride = WARP_THREADS / side * 4;  // between a lane's quads
    /// The row (row layout) or column (col layout) that this lane owns a part of.
    __device__ static __forceinline__ uint32_t line() { return laneid() % side; }
    /// Where along it this lane's quad 0 begins.
    __device__ static __forceinline__ uint32_t first() { return laneid() / side * 4; }
};
using rt_16x16 = square<16>;
using rt_32x32 = square<32>;
template <typename T>
concept all = __is_same(T, rt_16x16) || __is_same(T, rt_32x32) || requires { T::is_wide; }; // the last: hk.cuh
} // namespace rt_shape

/// How a vector is spread over the wave. align: as a row-layout tile's columns, lane l owns elements 4 (l / 16)..+3 of
/// each 16. ortho: as its rows, lane l owns element l % 16 of each 16. naive: lane l owns element l of each 64.
namespace rv_layout {
struct align {};
struct ortho {};
struct naive {};
template <typename T> concept all = __is_same(T, align) || __is_same(T, ortho) || __is_same(T, naive);
} // namespace rv_layout

namespace rt {
struct identifier {};
template <typename T>
concept all = requires { typename T::identifier; } && __is_same(typename T::identifier, identifier);
template <typename T> concept row_layout = all<T> && __is_same(typename T::layout, ducks::rt_layout::row);
template <typename T> concept col_layout = all<T> && __is_same(typename T::layout, ducks::rt_layout::col);
} // namespace rt
namespace rv {
struct identifier {};
template <typename T>
concept all = requires { typename T::identifier; } && __is_same(typename T::identifier, identifier);
} // namespace rv
} // namespace ducks

/// One lane's elements of a base tile, as packed pairs.
template <typename T_, ducks::rt_layout::all layout_, ducks::rt_shape::all shape_ = ducks::rt_shape::rt_16x16>
struct rt_base {
    using layout = layout_;
    using shape = shape_;
    using T = typename base_types::packing<T_>::unpacked_type;
    using T2 = typename base_types::packing<T_>::packed_type;
    using dtype = T2;
    using quad = detail::vec<T, 4>;
    static constexpr int tile_size_row = shape::side, tile_size_col = shape::side, rows = shape::side,
                         cols = shape::side;
    static constexpr int num_elements = rows * cols, elements_per_thread = 4 * shape::quads,
                         packed_per_thread = elements_per_thread / 2;
    using all_quads = detail::vec<T, elements_per_thread>;

    alignas(sizeof(all_quads)) dtype data[packed_per_thread];

    /// Quad m, or all of them, as one vector: what loads, stores and matrix instructions move.
    __device__ __forceinline__ quad get(int m = 0) const {
        quad value;
        __builtin_memcpy(&value, data + 2 * m, sizeof(value));
        return value;
    }
    __device__ __forceinline__ void set(const quad &value, int m = 0) {
        __builtin_memcpy(data + 2 * m, &value, sizeof(value));
    }
    __device__ __forceinline__ all_quads get_all() const {
        all_quads value;
        __builtin_memcpy(&value, data, sizeof(value));
        return value;
    }
    __device__ __forceinline__ void set_all(const all_quads &value) { __builtin_memcpy(data, &value, sizeof(value)); }
};

template <typename T_, size_t length_, ducks::rv_layout::all layout_ = ducks::rv_layout::naive,
          ducks::rt_shape::all shape_ = ducks::rt_shape::rt_16x16>
struct rv;

/// A tile of `rows_` x `cols_` elements held by one wave.
template <typename T_, int rows_, int cols_, ducks::rt_layout::all layout_ = ducks::rt_layout::row,
          ducks::rt_shape::all shape_ = ducks::rt_shape::rt_16x16>
struct rt {
    using identifier = ducks::rt::identifier;
    using layout = layout_;
    using shape = shape_;
    using T = typename base_types::packing<T_>::unpacked_type;
    using T2 = typename base_types::packing<T_>::packed_type;
    using dtype = T2;
    using base = rt_base<T, layout, shape>;

    static constexpr int rows = rows_, cols = cols_;
    static_assert(rows > 0 && rows % base::rows == 0,
                  "rows of a register tile must be a multiple of its base tile's, 16 or 32");
    static_assert(cols > 0 && cols % base::cols == 0,
                  "columns of a register tile must be a multiple of its base tile's, 16 or 32");
    static constexpr int tile_size_row = base::rows, tile_size_col = base::cols;
    static constexpr int height = rows / tile_size_row, width = cols / tile_size_col;
    static constexpr int num_elements = rows * cols;
    static constexpr int elements_per_thread = base::elements_per_thread * width * height;
    static constexpr int packed_per_thread = base::packed_per_thread * width * height;
    static constexpr int packed_per_tile = base::packed_per_thread;

    base tiles[height][width];

    static constexpr bool is_row = __is_same(layout, ducks::rt_layout::row);
    /// One value per column (what column reductions give).
    using row_vec =
        rv<T, cols_, detail::conditional_t<is_row, ducks::rv_layout::align, ducks::rv_layout::ortho>, shape>;
    /// One value per row (what row reductions give).
    using col_vec =
        rv<T, rows_, detail::conditional_t<is_row, ducks::rv_layout::ortho, ducks::rv_layout::align>, shape>;
};

namespace detail {

/// Calls f(i, j) for every base tile of a register tile, unrolled.
template <typename RT, typename F> __device__ __forceinline__ void for_each_base(F f) {
#pragma unroll
    for (int i = 0; i < RT::height; i++)
#pragma unroll
        for (int j = 0; j < RT::width; j++) f(i, j);
}
/// Calls f(i, j, m) for every quad that a lane owns of a register tile, unrolled.
template <typename RT, typename F> __device__ __forceinline__ void for_each_quad(F f) {
    for_each_base<RT>([&](int i, int j) {
#pragma unroll
        for (int m = 0; m < RT::shape::quads; m++) f(i, j, m);
    });
}
/// Calls f(i, j, k) for every packed pair that a lane owns of a register tile, unrolled.
template <typename RT, typename F> __device__ __forceinline__ void for_each_pair(F f) {
    for_each_base<RT>([&](int i, int j) {
#pragma unroll
        for (int k = 0; k < RT::packed_per_tile; k++) f(i, j, k);
    });
}

} // namespace detail

/// `subtile_rows` rows of a register tile, in place: those from row i * subtile_rows on.
template <int subtile_rows, ducks::rt::all RT>
__device__ __forceinline__ rt<typename RT::T, subtile_rows, RT::cols, typename RT::layout, typename RT::shape> &
subtile_inplace(RT &tile, int i) {
    static_assert(subtile_rows % RT::tile_size_row == 0 && RT::rows % subtile_rows == 0,
                  "rows of a register subtile: whole base tiles, a part of the tile's");
    using part = rt<typename RT::T, subtile_rows, RT::cols, typename RT::layout, typename RT::shape>;
    return reinterpret_cast<part &>(tile.tiles[i * (subtile_rows / RT::tile_size_row)]);
}

template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row,
          ducks::rt_shape::all shape = ducks::rt_shape::rt_16x16>
using rt_bf = rt<bf16, rows, cols, layout, shape>;
template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row,
          ducks::rt_shape::all shape = ducks::rt_shape::rt_16x16>
using rt_hf = rt<half, rows, cols, layout, shape>;
template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row,
          ducks::rt_shape::all shape = ducks::rt_shape::rt_16x16>
using rt_fl = rt<float, rows, cols, layout, shape>;

/// A vector of `length_` elements held by one wave, in one of the layouts of ducks::rv_layout.
template <typename T_, size_t length_, ducks::rv_layout::all layout_, ducks::rt_shape::all shape_> struct rv {
    using identifier = ducks::rv::identifier;
    using layout = layout_;
    using shape = shape_;
    static constexpr bool is_align = __is_same(layout, ducks::rv_layout::align);
    static constexpr bool is_ortho = __is_same(layout, ducks::rv_layout::ortho);
    static constexpr bool is_naive = __is_same(layout, ducks::rv_layout::naive);
    using T = typename base_types::packing<T_>::unpacked_type;
    using T2 = typename base_types::packing<T_>::packed_type;
    using dtype = detail::conditional_t<is_align, T2, T>;

    static constexpr int length = length_;
    static_assert(length > 0 && length % shape::side == 0,
                  "the length of a register vector must be a multiple of its base tile's side, 16 or 32");
    static constexpr int tiles = length / shape::side;
    static constexpr int outer_dim = is_naive ? (length + WARP_THREADS - 1) / WARP_THREADS : tiles;
    static constexpr int inner_dim = is_align ? 2 * shape::quads : 1;

    dtype data[outer_dim][inner_dim];

    __device__ __forceinline__ dtype *operator[](size_t i) { return data[i]; }
    __device__ __forceinline__ const dtype *operator[](size_t i) const { return data[i]; }
};

template <int length, ducks::rv_layout::all layout = ducks::rv_layout::naive> using rv_bf = rv<bf16, length, layout>;
template <int length, ducks::rv_layout::all layout = ducks::rv_layout::naive> using rv_hf = rv<half, length, layout>;
template <int length, ducks::rv_layout::all layout = ducks::rv_layout::naive> using rv_fl = rv<float, length, layout>;

} // namespace kittens
