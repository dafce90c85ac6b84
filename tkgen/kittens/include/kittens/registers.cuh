/**
 * Tiles and vectors in the registers of one wave.
 *
 * A tile is a grid of 16x16 base tiles; a lane owns four elements of each. Row layout: lane l owns row l % 16, columns
 * 4 (l / 16)..+3. Col layout is the transpose: column l % 16, rows 4 (l / 16)..+3. These are the operand and result layouts of the
 * 16x16x16 matrix instructions (CDNA3 ISA, "Matrix fused-multiply-add"): a row-layout tile is its A, a col-layout tile its B and its D.
 */
#pragma once

#include "base_types.cuh"

namespace kittens {

namespace ducks {
namespace rt_layout {
struct row {};
struct col {};
template <typename T> concept all = __is_same(T, row) || __is_same(T, col);
template <all L> struct transpose { using type = detail::conditional_t<__is_same(L, row), col, row>; };
} // namespace rt_layout

/// How a vector is spread over the wave. align: as a row-layout tile's columns, lane l owns elements 4 (l / 16)..+3 of each 16.
/// ortho: as its rows, lane l owns element l % 16 of each 16. naive: lane l owns element l of each 64.
namespace rv_layout {
struct align { static constexpr int inner_dim = 2; };
struct ortho { static constexpr int inner_dim = 1; };
struct naive { static constexpr int inner_dim = 1; };
template <typename T> concept all = __is_same(T, align) || __is_same(T, ortho) || __is_same(T, naive);
} // namespace rv_layout

namespace rt {
struct identifier {};
template <typename T> concept all = requires { typename T::identifier; } && __is_same(typename T::identifier, identifier);
template <typename T> concept row_layout = all<T> && __is_same(typename T::layout, ducks::rt_layout::row);
template <typename T> concept col_layout = all<T> && __is_same(typename T::layout, ducks::rt_layout::col);
} // namespace rt
namespace rv {
struct identifier {};
template <typename T> concept all = requires { typename T::identifier; } && __is_same(typename T::identifier, identifier);
} // namespace rv
} // namespace ducks

/// One lane's four elements of a 16x16 base tile, as two packed pairs.
template <typename T_, ducks::rt_layout::all layout_> struct rt_base {
    using layout = layout_;
    using T = typename base_types::packing<T_>::unpacked_type;
    using T2 = typename base_types::packing<T_>::packed_type;
    using dtype = T2;
    using quad = detail::vec<T, 4>;
    static constexpr int tile_size_row = TILE_DIM, tile_size_col = TILE_DIM, rows = TILE_DIM, cols = TILE_DIM;
    static constexpr int num_elements = rows * cols, elements_per_thread = 4, packed_per_thread = 2;

    alignas(sizeof(quad)) dtype data[packed_per_thread];

    /// The four elements as one vector: what loads, stores and matrix instructions move.
    __device__ __forceinline__ quad get() const { return detail::bits<quad>(data); }
    __device__ __forceinline__ void set(const quad &value) { __builtin_memcpy(data, &value, sizeof(value)); }
};

template <typename T_, size_t length_, ducks::rv_layout::all layout_ = ducks::rv_layout::naive> struct rv;

/// A tile of `rows_` x `cols_` elements held by one wave.
template <typename T_, int rows_, int cols_, ducks::rt_layout::all layout_ = ducks::rt_layout::row> struct rt {
    using identifier = ducks::rt::identifier;
    using layout = layout_;
    using T = typename base_types::packing<T_>::unpacked_type;
    using T2 = typename base_types::packing<T_>::packed_type;
    using dtype = T2;
    using base = rt_base<T, layout>;

    static constexpr int rows = rows_, cols = cols_;
    static_assert(rows > 0 && rows % TILE_DIM == 0, "rows of a register tile must be a multiple of 16");
    static_assert(cols > 0 && cols % TILE_DIM == 0, "columns of a register tile must be a multiple of 16");
    static constexpr int tile_size_row = TILE_DIM, tile_size_col = TILE_DIM;
    static constexpr int height = rows / TILE_DIM, width = cols / TILE_DIM;
    static constexpr int num_elements = rows * cols;
    static constexpr int elements_per_thread = base::elements_per_thread * width * height;
    static constexpr int packed_per_thread = base::packed_per_thread * width * height;
    static constexpr int packed_per_tile = base::packed_per_thread;

    base tiles[height][width];

    static constexpr bool is_row = __is_same(layout, ducks::rt_layout::row);
    /// One value per column (what column reductions give).
    using row_vec = rv<T, cols_, detail::conditional_t<is_row, ducks::rv_layout::align, ducks::rv_layout::ortho>>;
    /// One value per row (what row reductions give).
    using col_vec = rv<T, rows_, detail::conditional_t<is_row, ducks::rv_layout::ortho, ducks::rv_layout::align>>;
};

template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row> using rt_bf = rt<bf16, rows, cols, layout>;
template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row> using rt_hf = rt<half, rows, cols, layout>;
template <int rows, int cols, ducks::rt_layout::all layout = ducks::rt_layout::row> using rt_fl = rt<float, rows, cols, layout>;

/// A vector of `length_` elements held by one wave, in one of the layouts of ducks::rv_layout.
template <typename T_, size_t length_, ducks::rv_layout::all layout_> struct rv {
    using identifier = ducks::rv::identifier;
    using layout = layout_;
    static constexpr bool is_align = __is_same(layout, ducks::rv_layout::align);
    static constexpr bool is_ortho = __is_same(layout, ducks::rv_layout::ortho);
    static constexpr bool is_naive = __is_same(layout, ducks::rv_layout::naive);
    using T = typename base_types::packing<T_>::unpacked_type;
    using T2 = typename base_types::packing<T_>::packed_type;
    using dtype = detail::conditional_t<is_align, T2, T>;

    static constexpr int length = length_;
    static_assert(length > 0 && length % TILE_DIM == 0, "the length of a register vector must be a multiple of 16");
    static constexpr int tiles = length / TILE_DIM;
    static constexpr int outer_dim = is_naive ? (tiles + 3) / 4 : tiles;
    static constexpr int inner_dim = layout::inner_dim;

    dtype data[outer_dim][inner_dim];

    __device__ __forceinline__ dtype *operator[](size_t i) { return data[i]; }
    __device__ __forceinline__ const dtype *operator[](size_t i) const { return data[i]; }
};

template <int length, ducks::rv_layout::all layout = ducks::rv_layout::naive> using rv_bf = rv<bf16, length, layout>;
template <int length, ducks::rv_layout::all layout = ducks::rv_layout::naive> using rv_hf = rv<half, length, layout>;
template <int length, ducks::rv_layout::all layout = ducks::rv_layout::naive> using rv_fl = rv<float, length, layout>;

} // namespace kittens
