/**
 * Operations on register tiles and vectors: fills, copies, element-wise maps, row and column maps, reductions.
 */
#pragma once

#include "registers.cuh"

namespace kittens {

/* ---------- element-wise, tiles ---------- */

/// dst = op(src), pair by pair.
template <typename op, ducks::rt::all T> __device__ __forceinline__ void unary_map(T &dst, const T &src) {
    detail::for_each_pair<T>([&](int i, int j, int k) {
        dst.tiles[i][j].data[k] = op::template op<typename T::dtype>(src.tiles[i][j].data[k]);
    });
}
/// dst = op(lhs, rhs), pair by pair.
template <typename op, ducks::rt::all T> __device__ __forceinline__ void bin_map(T &dst, const T &lhs, const T &rhs) {
    detail::for_each_pair<T>([&](int i, int j, int k) {
        dst.tiles[i][j].data[k] = op::template op<typename T::dtype>(lhs.tiles[i][j].data[k], rhs.tiles[i][j].data[k]);
    });
}
/// dst = op(src, value), the same value everywhere.
template <typename op, ducks::rt::all T>
__device__ __forceinline__ void bin_map(T &dst, const T &src, const typename T::T &value) {
    const auto both = detail::bits<typename T::dtype>(detail::vec<typename T::T, 2>{value, value});
    detail::for_each_pair<T>([&](int i, int j, int k) {
        dst.tiles[i][j].data[k] = op::template op<typename T::dtype>(src.tiles[i][j].data[k], both);
    });
}

namespace detail {

/// The pair of vector values that belongs to packed pair k of base tile (i, j): the vector runs along the rows (by_row)
/// or the columns.
template <bool by_row, typename T, typename V>
__device__ __forceinline__ typename T::dtype vector_pair(const V &v, int i, int j, int k) {
    static_assert(__is_same(typename V::T, typename T::T), "tile and vector must have the same element type");
    const int o = by_row ? i : j;
    static_assert(__is_same(typename V::shape, typename T::shape), "tile and vector must have the same shape");
    if constexpr (V::is_align) return v.data[o][k];
    else return bits<typename T::dtype>(vec<typename T::T, 2>{v.data[o][0], v.data[o][0]});
}
template <typename T, typename V> constexpr bool one_per_row = __is_same(V, typename T::col_vec);
template <typename T, typename V> constexpr bool one_per_column = __is_same(V, typename T::row_vec);

} // namespace detail

/// dst(r, c) = op(src(r, c), values(r)).
template <typename op, ducks::rt::all T, ducks::rv::all V>
__device__ __forceinline__ void row_map(T &dst, const T &src, const V &values) {
    static_assert(detail::one_per_row<T, V>, "row maps take the tile's col_vec: one value per row");
    detail::for_each_pair<T>([&](int i, int j, int k) {
        dst.tiles[i][j].data[k] =
            op::template op<typename T::dtype>(src.tiles[i][j].data[k], detail::vector_pair<true, T>(values, i, j, k));
    });
}
/// dst(r, c) = op(src(r, c), values(c)).
template <typename op, ducks::rt::all T, ducks::rv::all V>
__device__ __forceinline__ void col_map(T &dst, const T &src, const V &values) {
    static_assert(detail::one_per_column<T, V>, "column maps take the tile's row_vec: one value per column");
    detail::for_each_pair<T>([&](int i, int j, int k) {
        dst.tiles[i][j].data[k] =
            op::template op<typename T::dtype>(src.tiles[i][j].data[k], detail::vector_pair<false, T>(values, i, j, k));
    });
}

/* ---------- element-wise, vectors ---------- */

template <typename op, ducks::rv::all V> __device__ __forceinline__ void unary_op(V &dst, const V &src) {
#pragma unroll
    for (int o = 0; o < V::outer_dim; o++)
#pragma unroll
        for (int k = 0; k < V::inner_dim; k++) dst.data[o][k] = op::template op<typename V::dtype>(src.data[o][k]);
}
template <typename op, ducks::rv::all V> __device__ __forceinline__ void bin_op(V &dst, const V &lhs, const V &rhs) {
#pragma unroll
    for (int o = 0; o < V::outer_dim; o++)
#pragma unroll
        for (int k = 0; k < V::inner_dim; k++)
            dst.data[o][k] = op::template op<typename V::dtype>(lhs.data[o][k], rhs.data[o][k]);
}
template <typename op, ducks::rv::all V>
__device__ __forceinline__ void bin_op(V &dst, const V &src, const typename V::T &value) {
    typename V::dtype filled;
    if constexpr (V::is_align) filled = detail::bits<typename V::dtype>(detail::vec<typename V::T, 2>{value, value});
    else filled = value;
#pragma unroll
    for (int o = 0; o < V::outer_dim; o++)
#pragma unroll
        for (int k = 0; k < V::inner_dim; k++)
            dst.data[o][k] = op::template op<typename V::dtype>(src.data[o][k], filled);
}

/* ---------- the named operations ---------- */

// Fills: zero(x), one(x), pos_infty(x), neg_infty(x).
#define KITTENS_FILL(name)                                                                                             \
    template <ducks::rt::all T> __device__ __forceinline__ void name(T &dst) { unary_map<base_ops::name>(dst, dst); }  \
    template <ducks::rv::all V> __device__ __forceinline__ void name(V &dst) { unary_op<base_ops::name>(dst, dst); }
KITTENS_FILL(zero)
KITTENS_FILL(one)
KITTENS_FILL(pos_infty)
KITTENS_FILL(neg_infty)
#undef KITTENS_FILL

// Functions of one argument: exp(dst, src), ...
#define KITTENS_UNARY(name)                                                                                            \
    template <ducks::rt::all T> __device__ __forceinline__ void name(T &dst, const T &src) {                           \
        unary_map<base_ops::name>(dst, src);                                                                           \
    }                                                                                                                  \
    template <ducks::rv::all V> __device__ __forceinline__ void name(V &dst, const V &src) {                           \
        unary_op<base_ops::name>(dst, src);                                                                            \
    }
KITTENS_UNARY(exp)
KITTENS_UNARY(exp2)
KITTENS_UNARY(log)
KITTENS_UNARY(log2)
KITTENS_UNARY(abs)
KITTENS_UNARY(relu)
#undef KITTENS_UNARY

// Functions of two arguments: add(dst, lhs, rhs), ...; rhs is a tile (a vector) like lhs, or one value.
#define KITTENS_BINARY(name, operation)                                                                                \
    template <ducks::rt::all T, typename U> __device__ __forceinline__ void name(T &dst, const T &lhs, const U &rhs) { \
        bin_map<base_ops::operation>(dst, lhs, rhs);                                                                   \
    }                                                                                                                  \
    template <ducks::rv::all V, typename U> __device__ __forceinline__ void name(V &dst, const V &lhs, const U &rhs) { \
        bin_op<base_ops::operation>(dst, lhs, rhs);                                                                    \
    }
KITTENS_BINARY(add, sum)
KITTENS_BINARY(sub, sub)
KITTENS_BINARY(mul, mul)
KITTENS_BINARY(div, div)
KITTENS_BINARY(max, max)
KITTENS_BINARY(min, min)
#undef KITTENS_BINARY

// One value per row: add_row(dst, src, col_vec), ...; one per column: add_col(dst, src, row_vec), ...
#define KITTENS_ROW_COL(name, operation)                                                                               \
    template <ducks::rt::all T, ducks::rv::all V>                                                                      \
    __device__ __forceinline__ void name##_row(T &dst, const T &src, const V &values) {                                \
        row_map<base_ops::operation>(dst, src, values);                                                                \
    }                                                                                                                  \
    template <ducks::rt::all T, ducks::rv::all V>                                                                      \
    __device__ __forceinline__ void name##_col(T &dst, const T &src, const V &values) {                                \
        col_map<base_ops::operation>(dst, src, values);                                                                \
    }
KITTENS_ROW_COL(add, sum)
KITTENS_ROW_COL(sub, sub)
KITTENS_ROW_COL(mul, mul)
KITTENS_ROW_COL(div, div)
#undef KITTENS_ROW_COL

/// dst(r, c) = values(r).
template <ducks::rt::all T, ducks::rv::all V> __device__ __forceinline__ void broadcast_row(T &dst, const V &values) {
    row_map<base_ops::copy2>(dst, dst, values);
}
/// dst(r, c) = values(c).
template <ducks::rt::all T, ducks::rv::all V> __device__ __forceinline__ void broadcast_col(T &dst, const V &values) {
    col_map<base_ops::copy2>(dst, dst, values);
}

/* ---------- copies ---------- */

/// dst = src, converting the element type; equal shapes and layouts.
template <typename T, typename U, int rows, int cols, ducks::rt_layout::all layout, ducks::rt_shape::all shape>
__device__ __forceinline__ void copy(rt<T, rows, cols, layout, shape> &dst,
                                     const rt<U, rows, cols, layout, shape> &src) {
    detail::for_each_base<rt<T, rows, cols, layout, shape>>(
        [&](int i, int j) { dst.tiles[i][j].set_all(detail::convert_vector<T>(src.tiles[i][j].get_all())); });
}
/// dst = value everywhere.
template <ducks::rt::all T> __device__ __forceinline__ void copy(T &dst, const typename T::T &value) {
    bin_map<base_ops::copy2>(dst, dst, value);
}

namespace detail {

/// The value that lane `lane` holds.
template <typename T> __device__ __forceinline__ T from_lane(const T &value, int lane) {
    if constexpr (sizeof(T) == 2)
        return bits<T>(uint16_t(__builtin_amdgcn_ds_bpermute(lane * 4, int(bits<uint16_t>(value)))));
    else return bits<T>(__builtin_amdgcn_ds_bpermute(lane * 4, bits<int>(value)));
}

/// The same base tile in the other layout: element (x, y) moves from lane x + 16 (y / 4), element y % 4 to lane y + 16
/// (x / 4), element x % 4.
template <typename T> __device__ __forceinline__ vec<T, 4> swap_quad(const vec<T, 4> &value) {
    const int lane = laneid(), x = lane & 15, y = 4 * (lane >> 4);
    vec<T, 4> result;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int source = (y + e) + 16 * (x >> 2);
        T candidates[4];
#pragma unroll
        for (int s = 0; s < 4; s++) candidates[s] = from_lane(T(value[s]), source);
        const T low = x & 1 ? candidates[1] : candidates[0], high = x & 1 ? candidates[3] : candidates[2];
        result[e] = x & 2 ? high : low;
    }
    return result;
}

} // namespace detail

/// dst = src in the other layout.
template <typename T, int rows, int cols, ducks::rt_layout::all layout>
__device__ __forceinline__ void swap_layout(rt<T, rows, cols, typename ducks::rt_layout::transpose<layout>::type> &dst,
                                            const rt<T, rows, cols, layout> &src) {
    detail::for_each_base<rt<T, rows, cols, layout>>(
        [&](int i, int j) { dst.tiles[i][j].set(detail::swap_quad<T>(src.tiles[i][j].get())); });
}

/// dst = src transposed, in the same layout.
template <typename T, int rows, int cols, ducks::rt_layout::all layout>
__device__ __forceinline__ void transpose_sep(rt<T, cols, rows, layout> &dst, const rt<T, rows, cols, layout> &src) {
    detail::for_each_base<rt<T, rows, cols, layout>>(
        [&](int i, int j) { dst.tiles[j][i].set(detail::swap_quad<T>(src.tiles[i][j].get())); });
}

/* ---------- reductions ---------- */

namespace detail {

/// The value `step` lanes further on in this row of 16 lanes, cyclically (DPP row_ror).
template <int step> __device__ __forceinline__ float rotate16(float value) {
    return bits<float>(__builtin_amdgcn_update_dpp(0, bits<int>(value), 0x120 + step, 0xf, 0xf, false));
}

/// op of a lane's value and that of the lane `apart`, 16 or 32, from it (exclusive-or).
template <typename op, int apart> __device__ __forceinline__ float with_lane(float value) {
#ifdef KITTENS_CDNA4
    // One half of the lanes (one of two rows of 16) of the first exchanged for the other one of the second (CDNA4 ISA,
    // V_PERMLANE32_SWAP_B32, V_PERMLANE16_SWAP_B32): both then hold what is to be combined.
    const uint32_t x = bits<uint32_t>(value);
    const u32x2 both = apart == 32 ? bits<u32x2>(__builtin_amdgcn_permlane32_swap(x, x, false, false))
                                   : bits<u32x2>(__builtin_amdgcn_permlane16_swap(x, x, false, false));
    return op::template op<float>(bits<float>(both.x), bits<float>(both.y));
#else
    return op::template op<float>(value, from_lane(value, laneid() ^ apart));
#endif
}

/// Combines the values of the lanes that own parts of the same line (row layout: row) of base tiles; all of them get
/// the result.
template <typename op, typename SHAPE> __device__ __forceinline__ float along_line(float value) {
    if constexpr (SHAPE::side == 16) value = with_lane<op, 16>(value);
    return with_lane<op, 32>(value);
}
/// Combines the values of the lanes that own the same places of different lines; all of them get the result.
template <typename op, typename SHAPE> __device__ __forceinline__ float across_lines(float value) {
    value = op::template op<float>(value, rotate16<8>(value));
    value = op::template op<float>(value, rotate16<4>(value));
    value = op::template op<float>(value, rotate16<2>(value));
    value = op::template op<float>(value, rotate16<1>(value));
    if constexpr (SHAPE::side == 32) value = op::template op<float>(value, from_lane(value, laneid() ^ 16));
    return value;
}

/// All of a lane's elements of `count` base tiles, tile(0), tile(1), ..., combined. Sums and products two at a time, which is
/// one instruction; of maxima two elements and the result so far are one.
template <typename op, int count, typename F> __device__ __forceinline__ float in_lane(F tile) {
    constexpr bool packed = __is_same(op, base_ops::sum) || __is_same(op, base_ops::mul);
    constexpr int pairs = sizeof(tile(0)) / sizeof(tile(0)[0]) / 2;
    vec<float, 2> both = {};
    float total = 0.0f;
#pragma unroll
    for (int f = 0; f < count; f++) {
        const auto values = tile(f);
#pragma unroll
        for (int k = 0; k < pairs; k++) {
            const vec<float, 2> next = {float(values[2 * k]), float(values[2 * k + 1])};
            const bool first = f == 0 && k == 0;
            if constexpr (packed) {
                both = first ? next : bits<vec<float, 2>>(op::template op<float2>(bits<float2>(both), bits<float2>(next)));
            } else {
                // One after the other: so the compiler finds max(max(a, b), c), which is one instruction.
                total = first ? next.x : op::template op<float>(total, next.x);
                total = op::template op<float>(total, next.y);
            }
        }
    }
    return packed ? op::template op<float>(both.x, both.y) : total;
}

/// One value per row (by_row) or per column of `src`, combined with `start` if given. Computes in float.
template <typename op, bool by_row, typename V, typename T>
__device__ __forceinline__ void reduce_tile(V &result, const T &src, const V *start) {
    static_assert(__is_same(typename V::T, typename T::T), "tile and vector must have the same element type");
    using element = typename T::T;
    using shape = typename T::shape;
    constexpr int kept = by_row ? T::height : T::width, folded = by_row ? T::width : T::height;
    const auto combine = [](float a, float b) { return op::template op<float>(a, b); };
#pragma unroll
    for (int o = 0; o < kept; o++) {
        const auto elements = [&](int f) { return src.tiles[by_row ? o : f][by_row ? f : o].get_all(); };
        if constexpr (V::is_align) { // a lane's elements belong to different results
            vec<element, 4 * shape::quads> totals, first;
            if (start) __builtin_memcpy(&first, start->data[o], sizeof(first));
#pragma unroll
            for (int e = 0; e < 4 * shape::quads; e++) {
                float total = float(elements(0)[e]);
#pragma unroll
                for (int f = 1; f < folded; f++) total = combine(total, float(elements(f)[e]));
                total = across_lines<op, shape>(total);
                totals[e] = element(start ? combine(float(first[e]), total) : total);
            }
            __builtin_memcpy(result.data[o], &totals, sizeof(totals));
        } else { // to the same one
            const float total = along_line<op, shape>(in_lane<op, folded>(elements));
            result.data[o][0] = element(start ? combine(float(start->data[o][0]), total) : total);
        }
    }
}

} // namespace detail

// row_sum(col_vec, tile): one value per row; col_sum(row_vec, tile): one per column. A third argument is combined in as
// well.
#define KITTENS_REDUCTION(name, operation)                                                                             \
    template <ducks::rv::all V, ducks::rt::all T>                                                                      \
    __device__ __forceinline__ void row_##name(V &result, const T &src) {                                              \
        static_assert(detail::one_per_row<T, V>, "row reductions give the tile's col_vec: one value per row");         \
        detail::reduce_tile<base_ops::operation, true>(result, src, static_cast<const V *>(nullptr));                  \
    }                                                                                                                  \
    template <ducks::rv::all V, ducks::rt::all T>                                                                      \
    __device__ __forceinline__ void row_##name(V &result, const T &src, const V &start) {                              \
        static_assert(detail::one_per_row<T, V>, "row reductions give the tile's col_vec: one value per row");         \
        const V copied = start;                                                                                        \
        detail::reduce_tile<base_ops::operation, true>(result, src, &copied);                                          \
    }                                                                                                                  \
    template <ducks::rv::all V, ducks::rt::all T>                                                                      \
    __device__ __forceinline__ void col_##name(V &result, const T &src) {                                              \
        static_assert(detail::one_per_column<T, V>,                                                                    \
                      "column reductions give the tile's row_vec: one value per column");                              \
        detail::reduce_tile<base_ops::operation, false>(result, src, static_cast<const V *>(nullptr));                 \
    }                                                                                                                  \
    template <ducks::rv::all V, ducks::rt::all T>                                                                      \
    __device__ __forceinline__ void col_##name(V &result, const T &src, const V &start) {                              \
        static_assert(detail::one_per_column<T, V>,                                                                    \
                      "column reductions give the tile's row_vec: one value per column");                              \
        const V copied = start;                                                                                        \
        detail::reduce_tile<base_ops::operation, false>(result, src, &copied);                                         \
    }
KITTENS_REDUCTION(sum, sum)
KITTENS_REDUCTION(prod, mul)
KITTENS_REDUCTION(max, max)
KITTENS_REDUCTION(min, min)
#undef KITTENS_REDUCTION

} // namespace kittens
