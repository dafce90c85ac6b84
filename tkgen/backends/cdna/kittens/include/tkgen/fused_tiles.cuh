/**
 * Register tiles of fused matmuls: base tiles of 16 x 16 or 32 x 32, held by one wave, and what is computed of whole tiles.
 *
 * The library's register tiles consist of 16 x 16 base tiles. These are the same with a side of 16 or 32: a lane owns
 * quads of four neighbours, in row layout of row l % side, columns 4 (l / side) + 256 / side m..+3 for each m; in col layout
 * of the transpose. So the 16x16x16 and 32x32x8 matrix instructions take their operands and give their results (CDNA3
 * ISA, "Matrix fused-multiply-add"). Elements are the compiler's types, whichever classes the library has for them.
 *
 * Names and arguments are the library's, and are found by the type of the tile.
 */
#pragma once

#include "products.cuh"

namespace tk {

/// One lane's elements of a base tile, in pairs.
template <typename T, typename shape> struct base_tile {
    using quad = vec<T, 4>;
    using all_quads = vec<T, 4 * shape::quads>;
    alignas(sizeof(all_quads)) vec<T, 2> data[2 * shape::quads];

    /// Quad m, or all of them, as one vector: what loads, stores and matrix instructions move.
    __device__ __forceinline__ quad get(int m = 0) const {
        quad value;
        __builtin_memcpy(&value, data + 2 * m, sizeof(value));
        return value;
    }
    __device__ __forceinline__ void set(const quad &value, int m = 0) { __builtin_memcpy(data + 2 * m, &value, sizeof(value)); }
    __device__ __forceinline__ all_quads get_all() const {
        all_quads value;
        __builtin_memcpy(&value, data, sizeof(value));
        return value;
    }
    __device__ __forceinline__ void set_all(const all_quads &value) { __builtin_memcpy(data, &value, sizeof(value)); }
};

/// A number for each column of a tile in col layout: a lane's of column l % side of each base tile.
template <int length_, typename shape> struct column_values {
    static constexpr int length = length_, outer_dim = length / shape::side;
    float data[outer_dim][1];
    __device__ __forceinline__ float *operator[](int i) { return data[i]; }
    __device__ __forceinline__ const float *operator[](int i) const { return data[i]; }
};

/// A number for each row of a tile in col layout: of those rows that a lane owns elements of, in pairs.
template <int length_, typename shape_> struct row_values {
    using shape = shape_;
    static constexpr int length = length_, outer_dim = length / shape::side;
    vec<float, 2> data[outer_dim][2 * shape::quads];
    __device__ __forceinline__ vec<float, 2> *operator[](int i) { return data[i]; }
    __device__ __forceinline__ const vec<float, 2> *operator[](int i) const { return data[i]; }
};

/// A tile of `rows_` x `cols_` elements held by one wave.
template <typename T_, int rows_, int cols_, ducks::rt_layout::all layout_, typename shape_> struct rt {
    using T = native<T_>;
    using layout = layout_;
    using shape = shape_;
    using base = base_tile<T, shape>;
    static constexpr bool is_row = __is_same(layout, ducks::rt_layout::row);
    static constexpr int rows = rows_, cols = cols_, tile_size_row = shape::side, tile_size_col = shape::side;
    static_assert(rows % shape::side == 0 && cols % shape::side == 0, "a register tile consists of whole base tiles");
    static constexpr int height = rows / shape::side, width = cols / shape::side, packed_per_tile = 2 * shape::quads;
    using row_vec = column_values<cols, shape>;
    using col_vec = row_values<rows, shape>;

    base tiles[height][width];
};
template <int rows, int cols, ducks::rt_layout::all layout, typename shape> using rt_bf = rt<bf16, rows, cols, layout, shape>;
template <int rows, int cols, ducks::rt_layout::all layout, typename shape> using rt_hf = rt<half, rows, cols, layout, shape>;
template <int rows, int cols, ducks::rt_layout::all layout, typename shape> using rt_fl = rt<float, rows, cols, layout, shape>;

template <typename T> constexpr bool is_tile = false;
template <typename T, int rows, int cols, typename layout, int side> constexpr bool is_tile<rt<T, rows, cols, layout, square<side>>> = true;
template <typename T> concept register_tile = is_tile<T>;
template <typename T> concept row_tile = register_tile<T> && T::is_row;
template <typename T> concept col_tile = register_tile<T> && !T::is_row;

/// `part_rows` rows of a tile, in place: those from row n * part_rows on.
template <int part_rows, register_tile RT>
__device__ __forceinline__ rt<typename RT::T, part_rows, RT::cols, typename RT::layout, typename RT::shape> &subtile_inplace(RT &of, int n) {
    static_assert(part_rows % RT::tile_size_row == 0 && RT::rows % part_rows == 0, "whole base tiles, a part of the tile's");
    using part = rt<typename RT::T, part_rows, RT::cols, typename RT::layout, typename RT::shape>;
    return reinterpret_cast<part &>(of.tiles[n * (part_rows / RT::tile_size_row)]);
}

/// Every element = `value`.
template <register_tile RT> __device__ __forceinline__ void copy(RT &to, typename RT::T value) {
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int c = 0; c < RT::width; ++c)
#pragma unroll
            for (auto &pair : to.tiles[i][c].data) pair = {value, value};
}
template <register_tile RT> __device__ __forceinline__ void zero(RT &to) { copy(to, typename RT::T{}); }

/// Every element as another type: to nearest even.
template <register_tile TO, register_tile FROM>
    requires(TO::height == FROM::height && TO::width == FROM::width)
__device__ __forceinline__ void copy(TO &to, const FROM &from) {
#pragma unroll
    for (int i = 0; i < TO::height; ++i)
#pragma unroll
        for (int c = 0; c < TO::width; ++c)
            to.tiles[i][c].set_all(__builtin_convertvector(from.tiles[i][c].get_all(), typename TO::base::all_quads));
}

/* ---------- LDS -> registers ---------- */

/// A tile in LDS, or a part of one, as the operand of a product: a quad of neighbours of a row at a time.
template <row_tile RT, ducks::st::all ST> __device__ __forceinline__ void load(RT &to, const ST &from) {
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols, "register tile and shared tile must have the same shape");
    using shape = typename RT::shape;
#ifdef KITTENS_EMBEDDED // whose tiles have two quads 16 columns apart side by side: one read
    const kittens::detail::lane_view<ST, RT> view(from);
    const auto quad = [&](int i, int k, int m) { return view.read(i, k, m); };
#else
    const uint32_t data = lds_address(&from.data[0]);
    const auto quad = [&](int i, int k, int m) {
        const int right = k * shape::side + m * shape::quad_stride;
        const auto *here = (__attribute__((address_space(3))) const words_2 *)(uintptr_t)position(from, data, shape::line(), shape::first(), i * shape::side, right);
        return __builtin_bit_cast(typename RT::base::quad, *here);
    };
#endif
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int k = 0; k < RT::width; ++k)
#pragma unroll
            for (int m = 0; m < shape::quads; ++m) to.tiles[i][k].set(quad(i, k, m), m);
}

/// A vector in LDS as a number for each row of a tile.
template <int length, typename shape, ducks::sv::all SV> __device__ __forceinline__ void load(row_values<length, shape> &to, const SV &from) {
    static_assert(length == SV::length, "register vector and shared vector must have the same length");
    using T = native<typename SV::dtype>;
    const auto data = (lds_bytes)lds(&from.data[0]);
#pragma unroll
    for (int i = 0; i < to.outer_dim; ++i)
#pragma unroll
        for (int m = 0; m < shape::quads; ++m) {
            const int at = i * shape::side + int(shape::first()) + m * shape::quad_stride;
            const auto quad = *(__attribute__((address_space(3))) const vec<T, 4> *)(data + at * int(sizeof(T)));
            const auto numbers = __builtin_convertvector(quad, vec<float, 4>);
            to[i][2 * m] = numbers.lo;
            to[i][2 * m + 1] = numbers.hi;
        }
}

/* ---------- reductions ---------- */

/// `op` of a lane's value and that of the lane `apart`, 16 or 32, from it (exclusive-or).
template <typename op, int apart> __device__ __forceinline__ float with_lane(float value) {
#ifdef KITTENS_CDNA4
    // One half of the lanes (one of two rows of 16) of the first exchanged for the other one of the second (CDNA4 ISA,
    // V_PERMLANE32_SWAP_B32, V_PERMLANE16_SWAP_B32): both then hold what is to be combined.
    const uint32_t x = bits_of<uint32_t>(value);
    const words_2 both = apart == 32 ? bits_of<words_2>(__builtin_amdgcn_permlane32_swap(x, x, false, false))
                                     : bits_of<words_2>(__builtin_amdgcn_permlane16_swap(x, x, false, false));
    return op::template op<float>(bits_of<float>(both.x), bits_of<float>(both.y));
#else
    const int other = __builtin_amdgcn_ds_bpermute((laneid() ^ apart) * 4, __builtin_bit_cast(int, value));
    return op::template op<float>(value, __builtin_bit_cast(float, other));
#endif
}

/// All of a lane's elements of column `c` of base tiles, combined. Sums two at a time, which is one instruction; of maxima
/// two elements and the result so far are one.
template <typename op, col_tile RT> __device__ __forceinline__ float in_lane(const RT &from, int c) {
    vec<float, 2> both = {};
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < RT::height; ++i) {
        const auto values = from.tiles[i][c].get_all();
#pragma unroll
        for (int k = 0; k < RT::packed_per_tile; ++k) {
            const vec<float, 2> next = {values[2 * k], values[2 * k + 1]};
            const bool first = i == 0 && k == 0;
            if constexpr (__is_same(op, base_ops::sum)) {
                both = first ? next : both + next;
            } else {
                total = first ? next.x : op::template op<float>(total, next.x);
                total = op::template op<float>(total, next.y);
            }
        }
    }
    return __is_same(op, base_ops::sum) ? both.x + both.y : total;
}

/// One number for each column of `from`, combined with those `of_nans` that columns of NaNs alone have.
template <typename op, col_tile RT, typename... start>
__device__ __forceinline__ void reduce_columns(typename RT::row_vec &to, const RT &from, start... of_nans) {
#pragma unroll
    for (int c = 0; c < RT::width; ++c) {
        float total = in_lane<op>(from, c);
        if constexpr (RT::shape::side == 16) total = with_lane<op, 16>(total);
        total = with_lane<op, 32>(total);
        ((total = op::template op<float>(total, of_nans)), ...);
        to[c][0] = total;
    }
}
template <col_tile RT> __device__ __forceinline__ void col_sum(typename RT::row_vec &to, const RT &from) { reduce_columns<base_ops::sum>(to, from); }
template <col_tile RT> __device__ __forceinline__ void col_max(typename RT::row_vec &to, const RT &from) { reduce_columns<base_ops::max>(to, from); }
template <col_tile RT> __device__ __forceinline__ void col_max(typename RT::row_vec &to, const RT &from, float of_nans) { reduce_columns<base_ops::max>(to, from, of_nans); }
template <col_tile RT> __device__ __forceinline__ void col_min(typename RT::row_vec &to, const RT &from) { reduce_columns<base_ops::min>(to, from); }
template <col_tile RT> __device__ __forceinline__ void col_min(typename RT::row_vec &to, const RT &from, float of_nans) { reduce_columns<base_ops::min>(to, from, of_nans); }

} // namespace tk
