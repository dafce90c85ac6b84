/**
 * Reductions of register tiles of products: over a lane's elements, its wave, and the waves of the block.
 */
#pragma once

#include "lanes.cuh"
#include "tiles.cuh"

namespace tk {

/// Every element of `values` = `value`.
template <int F, int N> __device__ inline void begin_with(float (&values)[F][N], float value) {
#pragma unroll
    for (int i = 0; i < F; ++i)
#pragma unroll
        for (int r = 0; r < N; ++r) values[i][r] = value;
}

/// `op` over the lanes that own elements of the same rows; each gets the result.
template <typename op, ducks::rt::all RT, int F, int N> __device__ inline void across_columns(float (&values)[F][N]) {
    const auto with = [](float a, float b) { return op::template op<float>(a, b); };
#pragma unroll
    for (int i = 0; i < F; ++i)
#pragma unroll
        for (int r = 0; r < N; ++r) {
            float value = values[i][r];
            value = with(value, lane_at<0xb1>(value));  // quad_perm [1, 0, 3, 2]
            value = with(value, lane_at<0x4e>(value));  // quad_perm [2, 3, 0, 1]
            value = with(value, lane_at<0x141>(value)); // row_half_mirror
            value = with(value, lane_at<0x140>(value)); // row_mirror
            if constexpr (RT::tile_size_col == 32) value = with(value, lane_beyond(value));
            values[i][r] = value;
        }
}

/// `op` over the lanes that own elements of the same columns; each gets the result.
template <typename op, ducks::rt::all RT, int F, int N> __device__ inline void across_rows(float (&values)[F][N]) {
    const auto with = [](float a, float b) { return op::template op<float>(a, b); };
    const int other = (laneid() ^ 32) * 4;
#pragma unroll
    for (int j = 0; j < F; ++j)
#pragma unroll
        for (int c = 0; c < N; ++c) {
            float value = values[j][c];
            if constexpr (RT::tile_size_row == 16) value = with(value, lane_beyond(value));
            values[j][c] = with(value, __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(other, __builtin_bit_cast(int, value))));
        }
}

/// The rows of a fragment of which this lane owns elements, and its columns: how many there are, where the n-th lies, and
/// whether this lane is the first of those that own elements of it.
template <ducks::rt::all RT> struct rows_of {
    static constexpr int count = RT::height * 2 * RT::packed_per_tile, extent = RT::rows;
    __device__ static inline int at(int r) {
        constexpr int side = RT::tile_size_row, each = 2 * RT::packed_per_tile;
        return side * (r / each) + WARP_THREADS / side * 4 * (r % each / 4) + laneid() / side * 4 + r % 4;
    }
    __device__ static inline bool first() { return laneid() % RT::tile_size_col == 0; }
};
template <ducks::rt::all RT> struct cols_of {
    static constexpr int count = RT::width, extent = RT::cols;
    __device__ static inline int at(int c) { return RT::tile_size_col * c + laneid() % RT::tile_size_col; }
    __device__ static inline bool first() { return laneid() / RT::tile_size_row == 0; }
};

/// What a wave found of the rows or columns of a fragment to LDS, and what all have found from there.
template <typename owned, int N> __device__ inline void share(float *to, const float (&values)[N]) {
    if (!owned::first()) return;
#pragma unroll
    for (int n = 0; n < N; ++n) lds(to)[owned::at(n)] = values[n];
}
template <typename op, typename owned, int waves, int extent, int N>
__device__ inline void gather(float (&values)[N], const float *from) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
        values[n] = lds(from)[owned::at(n)];
#pragma unroll
        for (int wave = 1; wave < waves; ++wave)
            values[n] = op::template op<float>(values[n], float(lds(from)[wave * extent + owned::at(n)]));
    }
}

/// to[at * stride] = f(at, n) for the rows or columns of a fragment, of `extent`: by one of the lanes that own elements of
/// each.
template <typename owned, typename T, typename F>
__device__ inline void store_owned(T *to, size_t stride, int extent, int tile, F f) {
    if (!owned::first()) return;
#pragma unroll
    for (int n = 0; n < owned::count; ++n) {
        const int at = tile * owned::extent + owned::at(n);
        if (at < extent) to[at * stride] = convert<T>(f(at, n));
    }
}

/// *to = f(), by one lane.
template <typename T, typename F> __device__ inline void store_one(T *to, F f) {
    if (laneid() == 0) *to = convert<T>(f());
}

} // namespace tk
