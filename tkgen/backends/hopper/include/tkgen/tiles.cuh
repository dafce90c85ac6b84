/// Register tiles of products: a lane has rows l / 4 and l / 4 + 8 of its warp's 16, and of each base tile the columns
/// 2 (l % 4), the next one, and 8 more of both.
#pragma once

#include "lanes.cuh"
#include "memory.cuh"

namespace tk {

/// Element `e` of pair `h` of base tile `t`: of a lane's row h % 2, at columns 16 t + 8 (h / 2) + 2 (l % 4) + e.
template <typename D> __device__ inline float &at(D &d, int t, int h, int e) {
    float2 &pair = d.tiles[0][t].data[h];
    return e ? pair.y : pair.x;
}

/// The part of a tile of shared memory that has these columns, number `part`: its panels stand one after another.
template <int COLUMNS, typename S> __device__ inline auto &columns(S &tile, int part) {
    using part_tile = kittens::st<typename S::dtype, S::rows, COLUMNS>;
    static_assert(COLUMNS * int(sizeof(typename S::dtype)) % 128 == 0, "a part has whole panels");
    return reinterpret_cast<part_tile *>(&tile)[part];
}

/// Nothing that uses these registers stands above this place, or is thought to be done with them there.
__device__ inline void pin(float2 &pair) { asm volatile("" : "+f"(pair.x), "+f"(pair.y)); }
__device__ inline void pin(int2 &pair) { asm volatile("" : "+r"(pair.x), "+r"(pair.y)); }
template <typename D> __device__ inline void pin(D &d) {
    using pair = std::remove_reference_t<decltype(d.tiles[0][0].data[0])>;
#pragma unroll
    for (int t = 0; t < D::width; ++t)
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            if constexpr (std::is_same_v<pair, float2> || std::is_same_v<pair, int2>) pin(d.tiles[0][t].data[h]);
            else asm volatile("" : "+r"(reinterpret_cast<uint32_t &>(d.tiles[0][t].data[h])));
        }
}

/// A left factor of 8-bit floats, 16 x K, as wgmma takes it from registers: of each 32 columns a lane has those from
/// 4 (l % 4) on, four of each of its two rows, and the same 16 further on (PTX ISA, "Register Fragments for
/// wgmma.mma_async.m64nNk32").
template <typename T, int K> struct left_of_bytes {
    static_assert(sizeof(T) == 1 && K % 32 == 0);
    static constexpr int width = K / 32;
    struct {
        uint32_t data[4];
    } tiles[1][width];
};

/// Sums as such a factor. In sums a lane has two neighbours of every eight columns: lanes 2 (l % 2) and 2 (l % 2) + 1 of the
/// row's four have what this lane takes, and hold both rows of it in one register, so that each hands on one at a time.
template <typename T, int K> __device__ inline void convert(left_of_bytes<T, K> &to, const rt_fl<16, K> &from) {
    rt<T, 16, K> pairs;
    warp::copy(pairs, from);
    const int lane = laneid() % 4, first = laneid() / 4 * 4 + lane % 2 * 2 + lane / 2;
#pragma unroll
    for (int t = 0; t < K / 16; ++t) {
        const auto &pair = pairs.tiles[0][t].data;
        const uint32_t low = pair[0] | uint32_t(pair[1]) << 16, high = pair[2] | uint32_t(pair[3]) << 16;
        const uint32_t one = __shfl_sync(0xffffffff, lane % 2 ? high : low, first);
        const uint32_t other = __shfl_sync(0xffffffff, lane % 2 ? low : high, first ^ 1);
        const uint32_t left = lane / 2 ? other : one, right = lane / 2 ? one : other;
        to.tiles[0][t / 2].data[t % 2 * 2] = (left & 0xffff) | right << 16;
        to.tiles[0][t / 2].data[t % 2 * 2 + 1] = left >> 16 | (right & 0xffff0000);
    }
}

/// What `op` makes of a lane's elements of each of its rows, in four parts: of every fourth of them.
template <typename op> struct parts {
    float at[2][4];
    __device__ explicit parts(float start) {
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
            for (int i = 0; i < 4; ++i) at[r][i] = start;
    }
    /// One more, which is element `e` of pair `h` of its base tile.
    __device__ void take(int h, int e, float value) {
        float &part = at[h % 2][h / 2 * 2 + e];
        part = op::template op<float>(part, value);
    }
    /// Of all the lane's elements of row r, and of those of the four lanes that share the row.
    __device__ float of_lane(int r) const { return fold<op, 4>(at[r]); }
    __device__ float of_row(int r) const { return across<op, 4>(of_lane(r)); }
};

// ---------------------------------------------------------------- tiles from global memory

/// A tile of a warp's rows as memory has it: two neighbours of each of a lane's pairs of elements.
template <typename T, int cols> struct loaded_tile {
    using two = std::conditional_t<sizeof(T) == 1, uint16_t, std::conditional_t<sizeof(T) == 2, uint32_t, uint2>>;  // packed
    two pairs[cols / 16][4];
};
template <typename T, int cols> __device__ inline float at(loaded_tile<T, cols> &tile, int t, int h, int e) {
    T both[2];
    memcpy(both, &tile.pairs[t][h], sizeof(both));
    return float(both[e]);
}

/// Those from `from` on, where rows are `pitch` elements apart and columns `apart`; zeros past `rows` and `columns`. `count`
/// neighbours are read at once, which are side by side if these are two.
template <int count, typename T, int cols>
__device__ inline void load_tile(loaded_tile<T, cols> &to, const T *from, size_t pitch, size_t apart, int rows, int columns) {
    using two = typename loaded_tile<T, cols>::two;
    from += laneid() / 4 * pitch + laneid() % 4 * 2 * apart;
#pragma unroll
    for (int t = 0; t < cols / 16; ++t)
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            const int row = h % 2 * 8, col = t * 16 + h / 2 * 8;
            const T *here = from + row * pitch + col * apart;
            const bool there = laneid() / 4 + row < rows;
            const int left = columns - laneid() % 4 * 2 - col;
            if constexpr (count == 2) {
                to.pairs[t][h] = there && left > 0 ? *reinterpret_cast<const two *>(here) : two{};
            } else {
                const T both[2] = {there && left > 0 ? here[0] : T{}, there && left > 1 ? here[apart] : T{}};
                memcpy(&to.pairs[t][h], both, sizeof(both));
            }
        }
}

/// A warpgroup's 64 x C elements to a tile of C x 64, transposed and converted, and made visible to the copy engine. Panels
/// have 128 bytes of each row, whose chunks of 16 bytes are exchanged.
template <typename S, int C> __device__ inline void store_columns(S &to, const rt_fl<16, C> &from) {
    using T = typename S::dtype;
    constexpr int PANEL = 128 / sizeof(T), CHUNK = 16 / sizeof(T);  // elements
    static_assert(S::rows == C && S::cols == 64 && CHUNK > 0);
    const int row = warpgroup::warpid() * 16 + laneid() / 4;
#pragma unroll
    for (int t = 0; t < C / 16; ++t)
#pragma unroll
        for (int h = 0; h < 4; ++h)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int r = row + h % 2 * 8, c = t * 16 + h / 2 * 8 + laneid() % 4 * 2 + e, in_panel = r % PANEL;
                const int chunk = in_panel / CHUNK ^ c % 8;
                const float2 pair = from.tiles[0][t].data[h];
                to.data[r / PANEL * S::rows * PANEL + c * PANEL + chunk * CHUNK + r % CHUNK] = T(e ? pair.y : pair.x);
            }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---------------------------------------------------------------- elements of a block's sums

/// A number of each of a lane's rows, of each of its columns, two neighbours of each of its pairs of elements.
struct row_values {
    float at[2];
};
template <int cols> struct col_values {
    float at[cols / 16][4];
};
template <int cols> struct pairs {
    float2 at[cols / 16][4];
};

/// f(row) of each of a lane's rows, f(col) of each of its columns.
template <typename F> __device__ inline row_values load_rows(int row, F f) {
    row_values found;
#pragma unroll
    for (int i = 0; i < 2; ++i) found.at[i] = f(row + warpgroup::warpid() * 16 + laneid() / 4 + i * 8);
    return found;
}
template <int cols, typename F> __device__ inline col_values<cols> load_cols(int col, F f) {
    col_values<cols> found;
#pragma unroll
    for (int j = 0; j < cols / 16; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) found.at[j][i] = f(col + j * 16 + i / 2 * 8 + laneid() % 4 * 2 + i % 2);
    return found;
}

/// f(j, q, row, col) for pair `q` of base tile `first` + `j`, of `cols` columns.
template <int cols, typename F> __device__ inline void each_pair(int first, int row, int col, F f) {
    row += warpgroup::warpid() * 16 + laneid() / 4, col += first * 16 + laneid() % 4 * 2;
#pragma unroll
    for (int j = 0; j < cols / 16; ++j)
#pragma unroll
        for (int q = 0; q < 4; ++q) f(j, q, row + q % 2 * 8, col + j * 16 + q / 2 * 8);
}

// ---------------------------------------------------------------- to computed positions

constexpr uint32_t NOWHERE = 0xffffffff;  // past every dimension: nothing is stored there

/// A position of each of a lane's rows, or of each of its columns of a panel.
template <int n> struct own_positions {
    uint32_t at[n];
    __device__ uint32_t operator[](int i) const { return at[i]; }
};
template <typename F> __device__ inline own_positions<2> own_rows(int row, F f) {
    row += warpgroup::warpid() * 16 + laneid() / 4;
    return {{f(row), f(row + 8)}};
}
template <int cols, typename F> __device__ inline own_positions<cols / 4> own_columns(int col, F f) {
    own_positions<cols / 4> found;
#pragma unroll
    for (int i = 0; i < cols / 4; ++i) found.at[i] = f(col + laneid() % 4 * 2 + i / 2 * 8 + i % 2);
    return found;
}

/// f(row, col, r, c, pair) for each two neighbours of a lane in a panel, row by row: `r` is the number of the row among its
/// own, `c` that of the first column.
template <int cols, typename D, typename F> __device__ inline void scatter_pairs(const D &values, int row, int col, F f) {
    row += warpgroup::warpid() * 16 + laneid() / 4, col += laneid() % 4 * 2;
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int i = 0; i < cols / 8; ++i) f(row + r * 8, col + i * 8, r, 2 * i, values.tiles[0][i / 2].data[i % 2 * 2 + r]);
}

/// The same for each element.
template <int cols, typename D, typename F> __device__ inline void scatter(const D &values, int row, int col, F f) {
    scatter_pairs<cols>(values, row, col, [&](int row, int col, int r, int c, auto pair) {
        f(row, col, r, c, pair.x), f(row, col + 1, r, c + 1, pair.y);
    });
}

/// What is reduced of a lane's row `r`, or of the block's column `c`: of either all rows, or columns, have the same, if what is
/// asked for is the other.
__device__ inline float number_of(const row_values &of, int r, int) { return of.at[r]; }
template <int cols> __device__ inline float number_of(const float (&of)[cols], int, int c) { return of[c]; }

/// f(row, values...) for each of a lane's rows, with the number of it that each of `values` has: by one of the four lanes
/// that share the row.
template <typename F, typename... V> __device__ inline void each_row(int row, F f, const V &...values) {
    row += warpgroup::warpid() * 16 + laneid() / 4;
    if (laneid() % 4) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) f(row + i * 8, number_of(values, i, 0)...);
}

/// What a function of elements is given, for pair `q` of base tile `j` of what is made, which is `first` + `j` of the sums:
/// of sums, which must not be read above the wait for their products, that pair; of a load its result.
template <typename D> __device__ inline void done(D &from, int j, int q) {
    if constexpr (requires { from.tiles; }) pin(from.tiles[0][j].data[q]);
}
template <typename P> __device__ inline float2 floats(const P &pair) { return {float(pair.x), float(pair.y)}; }
template <typename D> __device__ inline float2 pair_of(D &from, int first, int j, int q, int row, int col) {
    if constexpr (requires { from.tiles; }) return floats(from.tiles[0][first + j].data[q]);
    else if constexpr (requires { from(row, col); }) return from(row, col);
    else if constexpr (std::is_same_v<std::remove_const_t<D>, row_values>) return both(from.at[q % 2]);
    else return from.at[j][q];
}

/// Columns `first` * 16 and on of sums, as they are.
template <int cols, typename D> __device__ inline rt_fl<16, cols> panel(int first, D &sums) {
    rt_fl<16, cols> panel;
#pragma unroll
    for (int j = 0; j < cols / 16; ++j)
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            done(sums, first + j, q);
            panel.tiles[0][j].data[q] = floats(sums.tiles[0][first + j].data[q]);
        }
    return panel;
}

/// The same of integers, which stay such.
template <int cols, typename D> __device__ inline rt<int, 16, cols> integer_panel(int first, D &sums) {
    rt<int, 16, cols> panel;
#pragma unroll
    for (int j = 0; j < cols / 16; ++j)
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            done(sums, first + j, q);
            panel.tiles[0][j].data[q] = sums.tiles[0][first + j].data[q];
        }
    return panel;
}

/// The same columns of what `f(row, col, elements...)` makes of the elements of all of `from`.
template <int cols, typename F, typename... D>
__device__ inline rt_fl<16, cols> panel(int first, int row, int col, F f, D &...from) {
    rt_fl<16, cols> panel;
    each_pair<cols>(first, row, col, [&](int j, int q, int r, int c) {
        (done(from, first + j, q), ...);
        const auto both_of = [&](auto... v) { return float2{float(f(r, c, v.x...)), float(f(r, c + 1, v.y...))}; };
        panel.tiles[0][j].data[q] = both_of(pair_of(from, first, j, q, r, c)...);
    });
    return panel;
}

/// Columns that a reduction takes: all of them, or those before the end of a matrix.
struct all {
    __device__ static constexpr bool has(int) { return true; }
};
struct before {
    int end;
    __device__ bool has(int col) const { return col < end; }
};

/// `op` over the columns of a block, from `start` on, of what `f(row, col, elements...)` makes of the elements of all of
/// `from`, the first of which are sums: of each of a lane's rows. Each of the four lanes that share a row gets the result.
template <typename op, typename C, typename F, typename D, typename... More>
__device__ inline row_values reduce(float start, C columns, int row, int col, F f, D &sums, More &&...more) {
    row_values found{{start, start}};
    each_pair<D::cols>(0, row, col, [&](int j, int q, int r, int c) {
        done(sums, j, q), (done(more, j, q), ...);
        const auto take = [&](auto... v) {
            if (columns.has(c)) found.at[q % 2] = op::template op<float>(found.at[q % 2], float(f(r, c, v.x...)));
            if (columns.has(c + 1)) found.at[q % 2] = op::template op<float>(found.at[q % 2], float(f(r, c + 1, v.y...)));
        };
        take(pair_of(sums, 0, j, q, r, c), pair_of(more, 0, j, q, r, c)...);
        // Loads of more columns would take the registers that the sums leave: they wait for these, as those do for all lanes.
        if constexpr ((std::is_invocable_v<More, int, int> || ...))
            if (j % 4 == 3 && q == 3) __syncwarp();
    });
#pragma unroll
    for (int i = 0; i < 2; ++i) found.at[i] = across<op, 4>(found.at[i]);
    return found;
}

/// `op` over the lanes that share a column, of each of a lane's columns of base tile `j`: to `to`.
template <typename op, int cols> __device__ inline void columns_of_warp(float (&to)[cols], int j, float (&found)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        found[i] = across<op, 8, 4>(found[i]);
        if (laneid() / 4 == j % 8) to[j * 16 + i / 2 * 8 + laneid() % 4 * 2 + i % 2] = found[i];
    }
}

/// The same as `reduce` over the rows of a warp, of each column of the block: to `to`.
template <typename op, typename R, typename F, typename D, typename... More>
__device__ inline void reduce_columns(float (&to)[D::cols], float start, R rows, int row, int col, F f, D &sums, More &&...more) {
    row += warpgroup::warpid() * 16 + laneid() / 4, col += laneid() % 4 * 2;
#pragma unroll
    for (int j = 0; j < D::cols / 16; ++j) {
        float found[4] = {start, start, start, start};
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int r = row + q % 2 * 8, c = col + j * 16 + q / 2 * 8;
            float &x = found[q / 2 * 2], &y = found[q / 2 * 2 + 1];
            done(sums, j, q), (done(more, j, q), ...);
            const auto take = [&](auto... v) {
                x = op::template op<float>(x, float(f(r, c, v.x...)));
                y = op::template op<float>(y, float(f(r, c + 1, v.y...)));
            };
            if (rows.has(r)) take(pair_of(sums, 0, j, q, r, c), pair_of(more, 0, j, q, r, c)...);
        }
        columns_of_warp<op>(to, j, found);
    }
}

/// The same of what `f(t, h, e)` makes of an element (`at`), of the rows of a warp from `row` on.
template <typename op, int cols, typename R, typename F>
__device__ inline void reduce_elements(float (&to)[cols], float start, R rows, int row, F f) {
    row += laneid() / 4;
#pragma unroll
    for (int t = 0; t < cols / 16; ++t) {
        float found[4] = {start, start, start, start};
#pragma unroll
        for (int h = 0; h < 4; ++h)
#pragma unroll
            for (int e = 0; e < 2; ++e)
                if (rows.has(row + h % 2 * 8)) found[h / 2 * 2 + e] = op::template op<float>(found[h / 2 * 2 + e], f(t, h, e));
        columns_of_warp<op>(to, t, found);
    }
}

/// `op` over what each of the warps made of each column: to `to`, some columns by each thread.
template <typename op, int cols, int warps>
__device__ inline void combine(float (&to)[cols], const float (&parts)[warps][cols], int thread) {
    for (int c = thread; c < cols; c += warps * WARP_THREADS) {
        float found = parts[0][c];
#pragma unroll
        for (int w = 1; w < warps; ++w) found = op::template op<float>(found, parts[w][c]);
        to[c] = found;
    }
}

/// Two neighbours of what is reduced of columns, the first of which is column `c` of the block.
template <int cols> __device__ inline float2 columns_at(const float (&of)[cols], int c) { return {of[c], of[c + 1]}; }

/// f(col, values...) for each of the columns of a block from `first` on, with the number of it that each of `values` has: by
/// one of so many threads.
template <int cols, int threads, typename F, typename... V>
__device__ inline void each_column(int thread, int first, F f, const V &...values) {
    for (int c = thread; c < cols; c += threads) f(first + c, number_of(values, 0, c)...);
}

/// f(values...) with the one number that each of `values` has, by the first thread.
template <typename F, typename... V> __device__ inline void by_first(int thread, F f, const V &...values) {
    if (thread == 0) f(number_of(values, 0, 0)...);
}

/// What scales the two elements of a pair: a number of their row, of their columns, or of the whole tile.
__device__ inline float2 scale_of(const row_values &of, int, int q) { return both(of.at[q % 2]); }
template <int cols> __device__ inline float2 scale_of(const col_values<cols> &of, int j, int q) {
    return {of.at[j][q / 2 * 2], of.at[j][q / 2 * 2 + 1]};
}
__device__ inline float2 scale_of(float of, int, int) { return both(of); }

/// Each of the sums becomes what `f(row, col, sum, product, scales...)` makes of it and of a step's product, once that is done.
template <typename D, typename F, typename... S>
__device__ inline void add(D &sums, D &step, int row, int col, F f, const S &...scales) {
    each_pair<D::cols>(0, row, col, [&](int j, int q, int r, int c) {
        float2 &sum = sums.tiles[0][j].data[q], &product = step.tiles[0][j].data[q];
        done(step, j, q);
        sum.x = f(r, c, sum.x, product.x, scale_of(scales, j, q).x...);
        sum.y = f(r, c + 1, sum.y, product.y, scale_of(scales, j, q).y...);
    });
}

// ---------------------------------------------------------------- to global memory

/// The rows of a panel before row `end` to memory, each warp those it made: the copy engine would write all of them.
template <typename GL, typename S> __device__ inline void store_rows(const GL &to, const S &panel, int row, int col, int end) {
    constexpr int CHUNK = 16 / sizeof(typename GL::dtype);  // elements: of 16 bytes, exchanged within a row of a panel
    __syncwarp();
    for (int i = laneid(); i < 16 * 8; i += WARP_THREADS) {
        const int r = warpgroup::warpid() * 16 + i / 8, c = col + i % 8 * CHUNK;
        const auto *from = reinterpret_cast<const uint4 *>(&panel) + r * 8 + (i % 8 ^ r % 8);
        if (row + r < end && c < to.cols()) *reinterpret_cast<uint4 *>(to.raw_ptr + size_t(row + r) * to.cols() + c) = *from;
    }
}

/// f(to, from) for each chunk of `bytes` of a warp's rows of a panel that is within `to`: its places in memory and in the
/// panel. The copy engine stores no tensor whose rows are no multiples of 16 bytes; chunks divide them.
template <int bytes, typename GL, typename S, typename F>
__device__ inline void each_chunk(const GL &to, const S &panel, const coord<S> &at, F f) {
    constexpr int SIZE = sizeof(typename S::dtype), CHUNKS = S::cols * SIZE / bytes;  // of a row, whose 16 bytes are exchanged
    __syncwarp();
    for (int i = laneid(); i < 16 * CHUNKS; i += WARP_THREADS) {
        const int r = warpgroup::warpid() * 16 + i / CHUNKS, byte = i % CHUNKS * bytes;
        const coord<> place{at.b, at.d, at.r * S::rows + r, at.c * S::cols + byte / SIZE};
        if (place.r >= to.rows() || place.c >= to.cols()) continue;
        f(&number_at(to, place), reinterpret_cast<const char *>(&panel) + r * 128 + (byte ^ r % 8 * 16));
    }
}

/// The rows of a panel that are within `to` to memory, each warp those it made, in chunks.
template <typename chunk, typename GL, typename S>
__device__ inline void store_rows(const GL &to, const S &panel, const coord<S> &at) {
    each_chunk<sizeof(chunk)>(to, panel, at, [](auto *place, const char *from) {
        *reinterpret_cast<chunk *>(place) = *reinterpret_cast<const chunk *>(from);
    });
}

/// The same, added to memory, as other blocks add to it: of f32.
template <typename, typename GL, typename S> __device__ inline void add_rows(const GL &to, const S &panel, const coord<S> &at) {
    each_chunk<4>(to, panel, at, [](float *place, const char *from) { atomicAdd(place, *reinterpret_cast<const float *>(from)); });
}

/// The rows of a panel before row `end`, added to memory, as other blocks add to it: of f32.
template <typename GL, typename S> __device__ inline void add_rows(const GL &to, const S &panel, int row, int col, int end) {
    __syncwarp();
    for (int i = laneid(); i < 16 * 8; i += WARP_THREADS) {
        const int r = warpgroup::warpid() * 16 + i / 8, c = col + i % 8 * 4;
        const auto *from = reinterpret_cast<const float *>(&panel) + (r * 8 + (i % 8 ^ r % 8)) * 4;
        if (row + r >= end || c >= to.cols()) continue;
        for (int e = 0; e < 4; ++e) atomicAdd(to.raw_ptr + size_t(row + r) * to.cols() + c + e, from[e]);
    }
}

} // namespace tk
