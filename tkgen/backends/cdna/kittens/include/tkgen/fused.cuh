/**
 * Fused matmuls, whose products are computed transposed: a wave has some columns of each tile, and the result of one
 * product is already in the registers in which it is an operand of the next one.
 */
#pragma once

#include "fused_tiles.cuh"
#include "wide_tiles.cuh"

namespace tk {

/// Elements of 16 bits that an MFMA with results of `side` x `side` sums over.
#ifdef KITTENS_CDNA4
template <int side> constexpr int DEPTH = 512 / side;
#else
template <int side> constexpr int DEPTH = 256 / side;
#endif

/// Which row of a tile the element `e` of a lane in base tile `i` of a column is.
template <int side> __device__ inline int row_at(int i, int e) {
    return i * side + e / 4 * (WARP_THREADS / side * 4) + laneid() / side * 4 + e % 4;
}

/// An element of a lane's in a register tile: element `e` in base tile (i, c).
template <register_tile RT> __device__ inline float at(const RT &tile, int i, int c, int e) {
    const auto &pair = tile.tiles[i][c].data[e / 2];
    return e % 2 ? pair.y : pair.x;
}
/// The same of a number for each row, element `e` in base tile `i`.
template <int length, typename shape> __device__ inline float at(const row_values<length, shape> &values, int i, int e) {
    return e % 2 ? values[i][e / 2].y : values[i][e / 2].x;
}
template <register_tile RT> __device__ inline void put(RT &tile, int i, int c, int e, float value) {
    auto &pair = tile.tiles[i][c].data[e / 2];
    if (e % 2) pair.y = value;
    else pair.x = value;
}

/// Two neighbours of a lane's elements, number 2 e and 2 e + 1, for instructions that take pairs.
using pair = vec<float, 2>;
template <register_tile RT> __device__ inline pair pair_at(const RT &tile, int i, int c, int e) {
    return tile.tiles[i][c].data[e];
}
template <register_tile RT> __device__ inline void put_pair(RT &tile, int i, int c, int e, pair value) {
    tile.tiles[i][c].data[e] = value;
}
template <typename F> __device__ inline pair each(F function, pair x) { return pair{function(x.x), function(x.y)}; }

/// Each element of a lane's in a tile = f(row and column of its base tile, its number there); or each two neighbours.
template <register_tile RT, typename F> __device__ __forceinline__ void map(RT &tile, F f) {
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int c = 0; c < RT::width; ++c)
#pragma unroll
            for (int e = 0; e < 2 * RT::packed_per_tile; ++e) put(tile, i, c, e, f(i, c, e));
}
template <register_tile RT, typename F> __device__ __forceinline__ void map_pairs(RT &tile, F f) {
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int c = 0; c < RT::width; ++c)
#pragma unroll
            for (int e = 0; e < RT::packed_per_tile; ++e) put_pair(tile, i, c, e, f(i, c, e));
}

/// The tile is computed here: what gives it does not sink into the branch that follows. LLVM's GCNHazardRecognizer misses
/// wait states between an MFMA and what reads its result behind a branch, as said at `settle`.
template <register_tile RT> __device__ inline void keep(RT &tile) {
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int c = 0; c < RT::width; ++c)
#pragma unroll
            for (auto &pair : tile.tiles[i][c].data) asm("" : "+v"(pair.x), "+v"(pair.y));
}

/// A tile to bf16, to nearest even. Where no instruction does it, in integers: half of the last place, less the smallest
/// part of it where that place is even, carries into it. NaN stays NaN, whose lower half must be zero: see `quiet`.
template <register_tile TO, register_tile FROM> __device__ inline void round_operand(TO &to, const FROM &from) {
#ifdef KITTENS_CDNA4
    copy(to, from);
#else
#pragma unroll
    for (int i = 0; i < FROM::height; ++i)
#pragma unroll
        for (int c = 0; c < FROM::width; ++c)
#pragma unroll
            for (int e = 0; e < FROM::packed_per_tile; ++e) {
                const auto x = __builtin_bit_cast(words_2, from.tiles[i][c].data[e]);
                const words_2 up = x + 0x7fff + (x >> 16 & 1);
                to.tiles[i][c].data[e] = __builtin_bit_cast(vec<__bf16, 2>, __builtin_amdgcn_perm(up.y, up.x, 0x07060302));
            }
#endif
}

/// The same number; of NaN one whose lower half is zero.
__device__ inline float quiet(float x) { return x == x ? x : __builtin_nanf(""); }

/// An operand's rows from memory to registers, lane by lane: row n from `from` on, `pitch` elements after the one before.
template <row_tile RT> __device__ inline void load_operand(RT &tile, buffer from, int first, int pitch) {
    using base = typename RT::base;
    constexpr int side = RT::tile_size_row, elements = side * side / WARP_THREADS;
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int k = 0; k < RT::width; ++k)
#pragma unroll
            for (int q = 0; q < elements / 4; ++q) {
                const int row = first + i * side + laneid() % side;
                const int col = row_at<side>(k, 4 * q);
                tile.tiles[i][k].set(__builtin_bit_cast(typename base::quad, __builtin_amdgcn_raw_buffer_load_b64(from, (row * pitch + col) * 2, 0, 0)), q);
            }
}

/// An operand of products from a tile in LDS that has it the other way round: a base tile's rows, from `first` on, are what
/// is summed. Squares of four rows and G columns in each lane, transposed: column c of them is a row of base tile c, which
/// puts columns G r .. G r + G - 1 in row r of G base tiles. Lanes of each second panel of 32 columns of the embedded tiles
/// read rows 1, 0, 3, 2: side by side, panels would meet in the same banks.
template <int G, row_tile RT, ducks::st::all ST> __device__ inline void load_across(RT &tile, const ST &from, int first) {
    using base = typename RT::base;
    constexpr int side = RT::tile_size_row, elements = side * side / WARP_THREADS;
    const uint32_t data = lds_address(&from.data[0]);
    const int own = laneid() % side * G, odd = own / 32 % 2;
    const uint32_t low = odd ? 0x01000504 : 0x05040100, high = low + 0x02020202;  // halves of two words, the second argument's below
#pragma unroll
    for (int g = 0; g < RT::height / G; ++g)
#pragma unroll
        for (int q = 0; q < elements / 4; ++q) {
            uint32_t rows[4][(G + 1) / 2];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int2 at = {first + row_at<side>(0, 4 * q) + (e ^ odd), g * G * side + own};
                const auto *here = (__attribute__((address_space(3))) const char *)(uintptr_t)position(from, data, at.x, at.y);
                if constexpr (G == 1) rows[e][0] = *(__attribute__((address_space(3))) const uint16_t *)here;
                else if constexpr (G == 2) rows[e][0] = *(__attribute__((address_space(3))) const uint32_t *)here;
                else __builtin_memcpy(rows[e], (__attribute__((address_space(3))) const words_2 *)here, 8);
            }
#pragma unroll
            for (int c = 0; c < G; ++c) {
                const uint32_t half = c % 2 ? high : low;
                const words_2 transposed = {__builtin_amdgcn_perm(rows[1][c / 2], rows[0][c / 2], half),
                                        __builtin_amdgcn_perm(rows[3][c / 2], rows[2][c / 2], half)};
                tile.tiles[g * G + c][0].set(__builtin_bit_cast(typename base::quad, transposed), q);
            }
        }
}

/// Neighbours in memory, `offset` bytes into a buffer, and `more` that all lanes have alike.
template <typename T, int count> struct neighbours { T data[count]; };
template <typename T, int count> __device__ inline neighbours<T, count> neighbours_at(buffer from, uint32_t offset, uint32_t more = 0) {
    using found = neighbours<T, count>;
    if constexpr (sizeof(found) == 16) return __builtin_bit_cast(found, __builtin_amdgcn_raw_buffer_load_b128(from, offset, more, 0));
    else if constexpr (sizeof(found) == 8) return __builtin_bit_cast(found, __builtin_amdgcn_raw_buffer_load_b64(from, offset, more, 0));
    else if constexpr (sizeof(found) == 4) return __builtin_bit_cast(found, __builtin_amdgcn_raw_buffer_load_b32(from, offset, more, 0));
    else if constexpr (sizeof(found) == 1) return __builtin_bit_cast(found, __builtin_amdgcn_raw_buffer_load_b8(from, offset, more, 0));
    else return __builtin_bit_cast(found, __builtin_amdgcn_raw_buffer_load_b16(from, offset, more, 0));
}

template <typename T, int count> __device__ __forceinline__ void store_at(buffer to, uint32_t offset, const neighbours<T, count> &out) {
    if constexpr (sizeof(out) == 16) __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(words_4, out), to, offset, 0, 0);
    else if constexpr (sizeof(out) == 8) __builtin_amdgcn_raw_buffer_store_b64(__builtin_bit_cast(words_2, out), to, offset, 0, 0);
    else if constexpr (sizeof(out) == 4) __builtin_amdgcn_raw_buffer_store_b32(__builtin_bit_cast(uint32_t, out), to, offset, 0, 0);
    else __builtin_amdgcn_raw_buffer_store_b16(__builtin_bit_cast(uint16_t, out), to, offset, 0, 0);
}

/// A tile of results to memory: its columns are rows there, `pitch` elements apart, from row `first` on; there are `rows`.
template <typename T, col_tile RT> __device__ inline void store_rows(buffer to, const RT &tile, int first, int rows, int pitch) {
    constexpr int side = RT::tile_size_row, elements = side * side / WARP_THREADS;
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int c = 0; c < RT::width; ++c)
#pragma unroll
            for (int q = 0; q < elements / 4; ++q) {
                const int row = first + c * side + laneid() % side;
                const uint32_t offset = row < rows ? (row * pitch + row_at<side>(i, 4 * q)) * int(sizeof(T)) : OUTSIDE;
                base_tile<native<T>, square<16>> out;
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const auto value = native<T>(at(tile, i, c, 4 * q + e));
                    if (e % 2) out.data[e / 2].y = value;
                    else out.data[e / 2].x = value;
                }
                if constexpr (sizeof(T) == 2) __builtin_amdgcn_raw_buffer_store_b64(__builtin_bit_cast(words_2, out.get()), to, offset, 0, 0);
                else __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(words_4, out.get()), to, offset, 0, 0);
            }
}

/// The same of a tile whose rows lie interleaved, as products with `load_across` leave them: G neighbours in G base tiles.
template <typename T, int G, col_tile RT> __device__ inline void store_interleaved(buffer to, const RT &tile, int first, int rows, int pitch) {
    constexpr int side = RT::tile_size_row, elements = side * side / WARP_THREADS;
#pragma unroll
    for (int g = 0; g < RT::height / G; ++g)
#pragma unroll
        for (int c = 0; c < RT::width; ++c)
#pragma unroll
            for (int e = 0; e < elements; ++e) {
                const int row = first + c * side + laneid() % side;
                const uint32_t offset = row < rows ? (row * pitch + g * G * side + row_at<side>(0, e) * G) * int(sizeof(T)) : OUTSIDE;
                neighbours<T, G> out;
#pragma unroll
                for (int n = 0; n < G; ++n) out.data[n] = convert<T>(at(tile, g * G + n, c, e));
                store_at(to, offset, out);
            }
}

/// A column of results from memory, where it begins with element `start`: a lane's elements, each given to `put` with its
/// base tile and its number there. Interleaved, G neighbours are in as many base tiles (`load_across`), else four are in one.
template <typename T, int G, int height, int side, typename F> __device__ __forceinline__ void load_column(buffer from, int start, F put) {
    constexpr int elements = side * side / WARP_THREADS, count = G == 1 ? 4 : G;
#pragma unroll
    for (int g = 0; g < height / G; ++g)
#pragma unroll
        for (int e = 0; e < elements; e += G == 1 ? 4 : 1) {
            const auto in = neighbours_at<T, count>(from, (start + g * G * side + row_at<side>(0, e) * G) * int(sizeof(T)));
#pragma unroll
            for (int n = 0; n < count; ++n) put(G == 1 ? g : g * G + n, G == 1 ? e + n : e, convert<float>(in.data[n]));
        }
}

/// A tile of results from memory, where its columns are rows, `pitch` elements apart, from row `first` on.
template <typename T, int G = 1, col_tile RT> __device__ inline void load_rows(RT &tile, buffer from, int first, int pitch) {
    constexpr int side = RT::tile_size_row;
#pragma unroll
    for (int c = 0; c < RT::width; ++c)
        load_column<T, G, RT::height, side>(from, (first + c * side + laneid() % side) * pitch, [&](int i, int e, float x) { put(tile, i, c, e, x); });
}

/// A tile of results as memory has it: the elements of T of a lane, so many neighbours of a column together.
template <typename T, int count, int rows, int cols, int side> struct loaded_tile {
    neighbours<T, count> tiles[rows / side][cols / side][side * side / WARP_THREADS / count];
};
template <typename T, int count, int rows, int cols, int side>
__device__ inline float at(const loaded_tile<T, count, rows, cols, side> &tile, int i, int c, int e) {
    return convert<float>(tile.tiles[i][c][e / count].data[e % count]);
}
template <typename T, int count, int rows, int cols, int side>
__device__ inline pair pair_at(const loaded_tile<T, count, rows, cols, side> &tile, int i, int c, int e) {
    return {at(tile, i, c, 2 * e), at(tile, i, c, 2 * e + 1)};
}
/// The same as numbers, to which a product is added.
template <register_tile RT, typename T, int count, int rows, int cols, int side>
__device__ inline void widen_tile(RT &tile, const loaded_tile<T, count, rows, cols, side> &from) {
#pragma unroll
    for (int i = 0; i < rows / side; ++i)
#pragma unroll
        for (int c = 0; c < cols / side; ++c)
#pragma unroll
            for (int e = 0; e < side * side / WARP_THREADS; ++e) put(tile, i, c, e, at(from, i, c, e));
}

/// A tile of results from memory, from its column `first` on, where columns are `pitch` elements apart and the neighbours of
/// a column `apart`: `count` at once, which are side by side if these are several. `set` has a lane's elements one after another.
template <typename T, int count, int height, int width, int side, typename F>
__device__ __forceinline__ void load_elements(buffer from, int first, int pitch, int apart, F set) {
    const int of_lane = (first + laneid() % side) * pitch + laneid() / side * 4 * apart;
#pragma unroll
    for (int i = 0; i < height; ++i)
#pragma unroll
        for (int c = 0; c < width; ++c)
#pragma unroll
            for (int e = 0; e < side * side / WARP_THREADS; e += count) {
                const int more = c * side * pitch + (i * side + e / 4 * (WARP_THREADS / side * 4) + e % 4) * apart;
                set(i, c, e, neighbours_at<T, count>(from, of_lane * int(sizeof(T)), more * int(sizeof(T))));
            }
}
template <typename T, int count, int rows, int cols, int side>
__device__ __forceinline__ void load_tile(loaded_tile<T, count, rows, cols, side> &tile, buffer from, int first, int pitch, int apart) {
    load_elements<T, count, rows / side, cols / side, side>(
        from, first, pitch, apart, [&](int i, int c, int e, const auto &in) { tile.tiles[i][c][e / count] = in; });
}
template <typename T, int count, col_tile RT>
__device__ __forceinline__ void load_tile(RT &tile, buffer from, int first, int pitch, int apart) {
    load_elements<T, count, RT::height, RT::width, RT::tile_size_row>(from, first, pitch, apart, [&](int i, int c, int e, const auto &in) {
#pragma unroll
        for (int n = 0; n < count; ++n) put(tile, i, c, e + n, convert<float>(in.data[n]));
    });
}
/// The same of a number for each row: of a column alone.
template <typename T, int count, int length, typename shape>
__device__ __forceinline__ void load_tile(row_values<length, shape> &values, buffer from, int first, int pitch, int apart) {
    load_elements<T, count, length / shape::side, 1, shape::side>(from, first, pitch, apart, [&](int i, int, int e, const auto &in) {
#pragma unroll
        for (int n = 0; n < count; ++n) {
            const auto x = convert<float>(in.data[n]);
            if ((e + n) % 2) values[i][(e + n) / 2].y = x;
            else values[i][(e + n) / 2].x = x;
        }
    });
}

/// A tile of `value` of a lane's elements to memory, `count` neighbours of a column at once: what is before row `rows` and column
/// `left` there. Its columns are rows in memory, `pitch` elements apart, from row `first` on.
template <typename T, int count, int height, int width, int side, typename F>
__device__ __forceinline__ void store_tile(buffer to, int first, int rows, int left, int pitch, F value) {
#pragma unroll
    for (int i = 0; i < height / side; ++i)
#pragma unroll
        for (int c = 0; c < width / side; ++c)
#pragma unroll
            for (int e = 0; e < side * side / WARP_THREADS; e += count) {
                const int row = first + c * side + laneid() % side, col = row_at<side>(i, e);
                neighbours<T, count> out;
#pragma unroll
                for (int n = 0; n < count; ++n) out.data[n] = convert<T>(value(i, c, e + n));
                store_at(to, row < rows && col < left ? (row * pitch + col) * int(sizeof(T)) : OUTSIDE, out);
            }
}

/// The same of a tile whose columns are side by side in memory, and the neighbours of a column `apart`.
template <typename T, int height, int width, int side, typename F>
__device__ __forceinline__ void store_across(buffer to, int first, int rows, int left, int apart, F value) {
#pragma unroll
    for (int i = 0; i < height / side; ++i)
#pragma unroll
        for (int c = 0; c < width / side; ++c)
#pragma unroll
            for (int e = 0; e < side * side / WARP_THREADS; ++e) {
                const int row = first + c * side + laneid() % side, col = row_at<side>(i, e);
                const neighbours<T, 1> out = {{convert<T>(value(i, c, e))}};
                store_at(to, row < rows && col < left ? (col * apart + row) * int(sizeof(T)) : OUTSIDE, out);
            }
}

/// A number for each row of results from memory, where they are neighbours.
template <typename T, int G = 1, int length, typename shape> __device__ inline void load_row(row_values<length, shape> &values, buffer from) {
    load_column<T, G, length / shape::side, shape::side>(from, 0, [&](int i, int e, float x) {
        if (e % 2) values[i][e / 2].y = x;
        else values[i][e / 2].x = x;
    });
}

/// One number for each column from memory, where it is a row, `pitch` elements apart from row `first` on.
template <typename T, typename V> __device__ inline void load_columns(V &values, buffer from, int first, int pitch) {
    constexpr int side = V::length / V::outer_dim;
#pragma unroll
    for (int c = 0; c < V::outer_dim; ++c) {
        const uint32_t here = (first + c * side + laneid() % side) * pitch * int(sizeof(T));
        values[c][0] = read_element<T>(from, here);
    }
}

/// One number for each of `rows` rows of memory, by one of the lanes that have it.
template <typename T, typename V> __device__ inline void store_columns(buffer to, const V &values, int first, int rows, int pitch) {
    constexpr int side = V::length / V::outer_dim;
#pragma unroll
    for (int c = 0; c < V::outer_dim; ++c) {
        const int row = first + c * side + laneid() % side;
        const uint32_t here = laneid() < side && row < rows ? row * pitch * int(sizeof(T)) : OUTSIDE;
        const T value = convert<T>(values[c][0]);
        if constexpr (sizeof(T) == 2) __builtin_amdgcn_raw_buffer_store_b16(__builtin_bit_cast(uint16_t, value), to, here, 0, 0);
        else __builtin_amdgcn_raw_buffer_store_b32(__builtin_bit_cast(uint32_t, value), to, here, 0, 0);
    }
}

/// A number for each row of results to memory, where they are neighbours: `value` of a lane's base tile and its number there.
template <typename T, int G, int length, typename shape, typename F> __device__ __forceinline__ void store_row(buffer to, F value) {
    constexpr int side = shape::side, elements = side * side / WARP_THREADS, count = G == 1 ? 4 : G;
    const bool mine = warpid() == 0 && laneid() % side == 0;  // all waves have all rows
#pragma unroll
    for (int g = 0; g < length / side / G; ++g)
#pragma unroll
        for (int e = 0; e < elements; e += G == 1 ? 4 : 1) {
            neighbours<T, count> out;
#pragma unroll
            for (int n = 0; n < count; ++n) out.data[n] = convert<T>(value(G == 1 ? g : g * G + n, G == 1 ? e + n : e));
            const uint32_t offset = mine ? (g * G * side + row_at<side>(0, e) * G) * int(sizeof(T)) : OUTSIDE;
            store_at(to, offset, out);
        }
}

/// Numbers of which each lane of a column has one, combined over `left` halves of the lanes: of an even count, a lane sends the half
/// that the other one keeps. `put` has what is left of them, with the number of each among all.
template <typename op, int left, int count, typename F> __device__ __forceinline__ void combine_lanes(const float (&x)[count], int first, F put) {
    if constexpr (left == 1) {
#pragma unroll
        for (int n = 0; n < count; ++n) put(first + n, x[n]);
    } else if constexpr (count % 2) {
        float y[count];
#pragma unroll
        for (int n = 0; n < count; ++n) y[n] = op::template op<float>(x[n], lane_xor(x[n], left / 2));
        combine_lanes<op, left / 2>(y, first, put);
    } else {
        const bool upper = laneid() & left / 2;
        float y[count / 2];
#pragma unroll
        for (int n = 0; n < count / 2; ++n)
            y[n] = op::template op<float>(upper ? x[n + count / 2] : x[n], lane_xor(upper ? x[n] : x[n + count / 2], left / 2));
        combine_lanes<op, left / 2>(y, upper ? first + count / 2 : first, put);
    }
}

/// This wave's part of each row of a tile, combined, beginning with `identity`, to LDS for the other waves.
template <typename op, col_tile RT, int rows> __device__ __forceinline__ void share_rows(float (&to)[rows], const RT &tile, float identity) {
    constexpr int side = RT::tile_size_row, elements = side * side / WARP_THREADS;
    static_assert(rows == RT::rows, "a number for each row");
    float x[RT::height * elements];
#pragma unroll
    for (int n = 0; n < RT::height * elements; ++n) {
        x[n] = identity;
#pragma unroll
        for (int c = 0; c < RT::width; ++c) x[n] = op::template op<float>(x[n], at(tile, n / elements, c, n % elements));
    }
    combine_lanes<op, side>(x, 0, [&](int n, float value) { *lds(&to[row_at<side>(n / elements, n % elements)]) = value; });
}
/// The parts of all waves, combined; one wave's after the other's, which take few registers.
template <typename op, int length, typename shape, int waves> __device__ __forceinline__ void take_rows(row_values<length, shape> &values, const float (&from)[waves][length]) {
    constexpr int side = shape::side, quads = side * side / WARP_THREADS / 4;
    const auto part = [&](int w, int n) {
        return *(__attribute__((address_space(3))) const vec<float, 4> *)lds(&from[w][row_at<side>(n / quads, 4 * (n % quads))]);
    };
    vec<float, 4> total[length / side * quads];
#pragma unroll
    for (int n = 0; n < length / side * quads; ++n) total[n] = part(0, n);
#pragma unroll 1
    for (int w = 1; w < waves; ++w)
#pragma unroll
        for (int n = 0; n < length / side * quads; ++n) {
            const auto other = part(w, n);
#pragma unroll
            for (int e = 0; e < 4; ++e) total[n][e] = op::template op<float>(total[n][e], other[e]);
        }
#pragma unroll
    for (int n = 0; n < length / side * quads; ++n) {
        values[n / quads][2 * (n % quads)] = total[n].lo;
        values[n / quads][2 * (n % quads) + 1] = total[n].hi;
    }
}

/// What waves have of a tile, each some of its `columns`, in LDS: rows there, far enough apart that lanes meet in no bank.
template <int columns, int rows> struct alignas(16) exchanged { uint16_t data[columns][rows + 4]; };

/// Quad number n of those that a lane has of a column of base tiles.
template <register_tile RT> __device__ inline auto quad_at(const RT &tile, int n, int c) {
    constexpr int quads = RT::packed_per_tile / 2;
    return tile.tiles[n / quads][c].get(n % quads);
}

/// This wave's columns: four neighbours of a column at a time.
template <typename RT, int columns, int rows> __device__ inline void share_columns(exchanged<columns, rows> &to, const RT &tile) {
    constexpr int side = RT::cols / RT::width, elements = side * side / WARP_THREADS;
#pragma unroll
    for (int n = 0; n < rows * side / WARP_THREADS / 4; ++n)
#pragma unroll
        for (int c = 0; c < RT::width; ++c) {
            const auto quad = quad_at(tile, n, c);
            *(__attribute__((address_space(3))) vec<uint16_t, 4> *)lds(&to.data[warpid() * RT::cols + c * side + laneid() % side][row_at<side>(n / (elements / 4), 4 * (n % (elements / 4)))]) = bits_of<vec<uint16_t, 4>>(quad);
        }
}

/// Base columns from `first` on, of whichever wave, as an operand of products that sum over them.
template <row_tile RT, int columns, int rows> __device__ inline void take_columns(RT &tile, const exchanged<columns, rows> &from, int first) {
    using base = typename RT::base;
    constexpr int side = RT::tile_size_row, elements = side * side / WARP_THREADS;
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int q = 0; q < elements / 4; ++q) {
            uint16_t quad[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) quad[e] = *lds(&from.data[first + row_at<side>(0, 4 * q + e)][i * side + laneid() % side]);
            tile.tiles[i][0].set(__builtin_bit_cast(typename base::quad, quad), q);
        }
}

/// A base tile's rows of memory from row `first` on, of which there are `rows`, `pitch` elements apart: as an operand of products that
/// sum over them, its rows the columns from `col` on.
template <row_tile RT> __device__ inline void load_transposed(RT &tile, buffer from, int first, int rows, int col, int pitch) {
    using base = typename RT::base;
    constexpr int side = RT::tile_size_row, elements = side * side / WARP_THREADS;
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int q = 0; q < elements / 4; ++q) {
            uint16_t quad[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = first + row_at<side>(0, 4 * q + e);
                const uint32_t offset = row < rows ? (row * pitch + col + i * side + laneid() % side) * 2 : OUTSIDE;
                quad[e] = __builtin_amdgcn_raw_buffer_load_b16(from, offset, 0, 0);
            }
            tile.tiles[i][0].set(__builtin_bit_cast(typename base::quad, quad), q);
        }
}

/// Adds a tile of results to memory, from element `origin` and column `col` on: the first `rows` of its rows, `pitch` elements
/// apart. Each element is one lane's; other blocks may add at the same time.
template <ducks::gl::all GL, col_tile RT> __device__ inline void add_rows(const GL &to, uint64_t origin, const RT &tile, int rows, int pitch, int col) {
    constexpr int side = RT::tile_size_row, elements = side * side / WARP_THREADS;
#if __has_builtin(__builtin_amdgcn_raw_ptr_buffer_atomic_fadd_f32)
    const auto memory = rows_from(to, origin, rows, pitch, pitch);
#endif
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int c = 0; c < RT::width; ++c)
#pragma unroll
            for (int e = 0; e < elements; ++e) {
                const int row = row_at<side>(i, e), place = row * pitch + col + c * side + laneid() % side;
#if __has_builtin(__builtin_amdgcn_raw_ptr_buffer_atomic_fadd_f32)
                __builtin_amdgcn_raw_ptr_buffer_atomic_fadd_f32(at(tile, i, c, e), memory, place * int(sizeof(float)), 0, 0);
#else  // clang before 22
                if (row < rows) __builtin_amdgcn_global_atomic_fadd_f32((__attribute__((address_space(1))) float *)(to.raw_ptr + origin + place), at(tile, i, c, e));
#endif
            }
}

/// What any lane of this wave asks for, for the other waves of the block: `votes` has a place for each.
template <int waves> __device__ inline void vote(int (&votes)[waves], bool asks) {
    const int any = __builtin_amdgcn_ballot_w64(asks) != 0;
    if (laneid() == 0) lds(votes)[warpid()] = any;
}
/// Whether any wave asked for it.
template <int waves> __device__ inline bool any_vote(const int (&votes)[waves]) {
    return __builtin_amdgcn_ballot_w64(lds(votes)[laneid() % waves] != 0) != 0;
}

} // namespace tk
