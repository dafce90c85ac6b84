/**
 * Tiles of matrices on their way to LDS, or to register tiles, which may meet the end of a tensor.
 */
#pragma once

#include "memory.cuh"

namespace tk {

/// Chunks of 16 bytes of a tile in LDS that each of N threads brings.
template <int N, ducks::st::all ST>
constexpr int CHUNKS = (ST::rows * ST::cols * int(sizeof(typename ST::dtype)) + 16 * N - 1) / (16 * N);

/// The element at which chunk number `at` of a tile starts. 32 neighbours take 8 rows x 64 bytes: what they write to LDS
/// together then meets in no bank, and they read whole halves of cache lines.
template <ducks::st::all ST> __device__ inline int2 chunk_at(int at) {
    constexpr int elements = 16 / sizeof(typename ST::dtype), per_row = ST::cols / elements;
    if constexpr (per_row % 4 == 0) {
        constexpr int across = per_row / 4;
        return int2{at / 32 / across * 8 + at / 4 % 8, (at / 32 % across * 4 + at % 4) * elements};
    } else {
        return int2{at / per_row, at % per_row * elements};
    }
}

/// The number of a thread among N that bring a tile together.
template <int N, int how> __device__ inline int number_of_thread() { return how & WHOLE_BLOCK ? int(threadIdx.x) : int(threadIdx.x) % N; }

/// Global memory -> registers by N threads together, 16 bytes a thread at a time: rows `pitch` elements apart, from byte
/// `origin` on; waits for nothing.
template <int N, int how = 0, int policy = 0, ducks::st::all ST>
__device__ inline void fetch(const ST &, words_4 (&stage)[CHUNKS<N, ST>], buffer from, int pitch, int origin = 0) {
#pragma unroll
    for (int i = 0; i < CHUNKS<N, ST>; ++i) {
        const int2 at = chunk_at<ST>(i * N + number_of_thread<N, how>());
        const int offset = (at.x * pitch + at.y) * int(sizeof(typename ST::dtype));
        stage[i] = __builtin_amdgcn_raw_buffer_load_b128(from, at.x < ST::rows ? offset : NOWHERE, origin, policy);
    }
}

/// The same of a tile of a tensor, whose end it may meet.
template <int N, int how = 0, ducks::st::all ST, ducks::gl::all GL>
__device__ inline void fetch(const ST &dst, words_4 (&stage)[CHUNKS<N, ST>], const GL &src, int tile_row, int tile_col) {
    constexpr int size = sizeof(typename ST::dtype), elements = 16 / size, policy = policy_of<GL>();
    const int pitch = src.cols(), first_row = tile_row * ST::rows, first_col = tile_col * ST::cols;
    const auto tensor = buffer_at(src, how & WIDE ? uint64_t(min(first_row, int(src.rows()))) * pitch : 0);
    // clang may keep the origin, the same for all lanes, in a vector register, and loop over the lanes at each access.
    const int origin = __builtin_amdgcn_readfirstlane(how & WIDE ? first_col * size : (first_row * pitch + first_col) * size);
    if constexpr (!(how & (CLAMPED | MASKED))) return fetch<N, how, policy>(dst, stage, tensor, pitch, origin);
#pragma unroll
    for (int i = 0; i < CHUNKS<N, ST>; ++i) {
        const int2 at = chunk_at<ST>(i * N + int(threadIdx.x) % N);
        const int row = at.x, col = at.y;
        if constexpr (how & CLAMPED) {
            const int from_row = min(row, int(src.rows()) - 1 - first_row);
            const int from_col = min(col, pitch - elements - first_col);
            stage[i] = __builtin_amdgcn_raw_buffer_load_b128(tensor, (from_row * pitch + from_col) * size, origin, policy);
        } else if constexpr (how & MASKED) {
            const int offset = (row * pitch + col) * size;
            const int left = row < ST::rows && first_row + row < int(src.rows()) ? pitch - first_col - col : 0; // in the row
            if (pitch % elements == 0) {
                stage[i] = __builtin_amdgcn_raw_buffer_load_b128(tensor, left > 0 ? offset : NOWHERE, origin, policy);
            } else { // a row may end inside a chunk: element by element
                stage[i] = words_4{};
#pragma unroll
                for (int e = 0; e < elements; ++e) {
                    const int here = e < left ? offset + e * size : NOWHERE;
                    if constexpr (size == 4)
                        stage[i][e] = __builtin_amdgcn_raw_buffer_load_b32(tensor, here, origin, policy);
                    else if constexpr (size == 1)
                        stage[i][e / 4] |= uint32_t(__builtin_amdgcn_raw_buffer_load_b8(tensor, here, origin, policy)) << e % 4 * 8;
                    else
                        stage[i][e / 2] |= uint32_t(__builtin_amdgcn_raw_buffer_load_b16(tensor, here, origin, policy)) << e % 2 * 16;
                }
            }
        }
    }
}

/// Whether all chunks of a thread are as far apart in LDS as those of thread 0 are: it then adds constants to its first one's.
/// Tiles of a library may lie in any way.
template <int N, ducks::st::all ST> constexpr bool EVEN_CHUNKS = [] {
    constexpr int blocks = N / 32, per_row = ST::cols * int(sizeof(typename ST::dtype)) / 16, across = per_row / 4;
    return EMBEDDED && per_row % 4 == 0 && (blocks % across == 0 || across % blocks == 0);
}();

/// Rows from one chunk of a thread to its next one, where these are multiples of 16 in the same columns; else 0.
template <int N, ducks::st::all ST> constexpr int CHUNK_ROWS = [] {
    constexpr int blocks = N / 32, per_row = ST::cols * int(sizeof(typename ST::dtype)) / 16, across = per_row / 4;
    if constexpr (per_row % 4 != 0) return 0;
    else return blocks % (2 * across) == 0 ? blocks / across * 8 : 0;
}();

/// Registers -> LDS: what `fetch` brought. The same half of two chunks in turn, which the compiler joins to one write;
/// of bytes, for a role, both at once.
template <int N, int how = 0, ducks::st::all ST> __device__ inline void write(ST &dst, const words_4 (&stage)[CHUNKS<N, ST>]) {
    constexpr int elements = 16 / sizeof(typename ST::dtype), chunks = CHUNKS<N, ST>;
    constexpr bool even = how & WHOLE_BLOCK && EVEN_CHUNKS<N, ST>, together = elements == 16 && !(how & WHOLE_BLOCK);
    const uint32_t base = lds_address(&dst.data[0]);
    const int2 first = chunk_at<ST>(number_of_thread<N, how>());
#pragma unroll
    for (int i = 0; i < 2 * chunks; ++i) {
        const int pair = i / 4 * 2, c = pair + 1 < chunks ? pair + i % 2 : pair, part = pair + 1 < chunks ? i / 2 % 2 : i % 2;
        const int2 at = chunk_at<ST>(c * N + number_of_thread<N, how>()), from = even ? first : at;
        if (chunks * N * elements > ST::rows * ST::cols && at.x >= ST::rows) continue;
        const int half = together ? 0 : part * elements / 2;
        uint32_t place = position(dst, base, from.x, from.y + half);
        if constexpr (!EMBEDDED && how & WHOLE_BLOCK && CHUNK_ROWS<N, ST> != 0)
            place = position(dst, base, first.x, first.y + half, c * CHUNK_ROWS<N, ST>);
        if constexpr (even) place += ST::idx(0u, chunk_at<ST>(c * N));
        if constexpr (!together) *(__attribute__((address_space(3))) words_2 *)(uintptr_t)place = part ? stage[c].zw : stage[c].xy;
        else if (part == 0) *(__attribute__((address_space(3))) words_4 *)(uintptr_t)place = stage[c];
    }
}

/// Global memory -> LDS by N threads together; complete on return.
template <int N, int how, ducks::st::all ST, ducks::gl::all GL>
__device__ inline void load_tile(ST &dst, const GL &src, int tile_row, int tile_col) {
    words_4 stage[CHUNKS<N, ST>];
    fetch<N, how>(dst, stage, src, tile_row, tile_col);
    write<N>(dst, stage);
    __builtin_amdgcn_s_waitcnt(0xc07f); // LDS operations: none outstanding
}

/// Where the rows of tile `tile_row` lie in `src`, in bytes, for the chunks that each of N threads stages: at the indices
/// in `places`. NOWHERE for rows beyond these, and for indices that `src` has not.
template <int N, ducks::st::all ST, ducks::gl::all GL, ducks::gl::all PLACES>
__device__ inline void gather_rows(const ST &, int (&rows)[CHUNKS<N, ST>], const GL &src, const PLACES &places, int tile_row) {
    const auto held = buffer_at(places, 0);
    const int first = tile_row * ST::rows;
#pragma unroll
    for (int i = 0; i < CHUNKS<N, ST>; ++i) {
        const int in_tile = chunk_at<ST>(i * N + int(threadIdx.x) % N).x, row = first + in_tile;
        const bool there = in_tile < ST::rows && row < int(places.cols());
        const uint32_t place = __builtin_amdgcn_raw_buffer_load_b32(held, there ? row * 4 : NOWHERE, 0, 0);
        rows[i] = there && place < uint32_t(src.rows()) ? int(place * src.cols() * sizeof(typename GL::dtype)) : NOWHERE;
    }
}

/// Global memory -> registers by N threads together, 16 bytes a thread at a time, of rows at `rows`; waits for nothing.
template <int N, ducks::st::all ST, ducks::gl::all GL>
__device__ inline void fetch_gathered(const ST &, words_4 (&stage)[CHUNKS<N, ST>], const GL &src, const int (&rows)[CHUNKS<N, ST>],
                                      int tile_col) {
    constexpr int size = sizeof(typename ST::dtype);
    const auto tensor = buffer_at(src, 0);
    const int first_col = tile_col * ST::cols;
#pragma unroll
    for (int i = 0; i < CHUNKS<N, ST>; ++i) {
        const int col = first_col + chunk_at<ST>(i * N + int(threadIdx.x) % N).y; // rows are whole chunks
        const bool there = rows[i] != NOWHERE && col < int(src.cols());
        stage[i] = __builtin_amdgcn_raw_buffer_load_b128(tensor, there ? rows[i] + col * size : NOWHERE, 0, policy_of<GL>());
    }
}

/// Global memory -> LDS by N threads together, of rows at `rows`; complete on return.
template <int N, ducks::st::all ST, ducks::gl::all GL>
__device__ inline void load_gathered(ST &dst, const GL &src, const int (&rows)[CHUNKS<N, ST>], int tile_col) {
    words_4 stage[CHUNKS<N, ST>];
    fetch_gathered<N>(dst, stage, src, rows, tile_col);
    write<N>(dst, stage);
    __builtin_amdgcn_s_waitcnt(0xc07f); // LDS operations: none outstanding
}

/// A part of where a chunk of a tensor lies: bytes, and the positions along D dimensions that it may be outside of. The
/// part of its row and that of its K-step add up; a chunk outside of any dimension is zeros.
template <int D> struct place {
    int at, on[D];
};

/// The places of the rows of tile `tile_row` for the chunks that each of N threads stages, as `of` has them; of `count`
/// rows, those beyond are outside of the tensor.
template <int N, ducks::st::all ST, int D, typename OF>
__device__ inline void place_rows(const ST &, place<D> (&rows)[CHUNKS<N, ST>], int tile_row, int count, OF of) {
#pragma unroll
    for (int i = 0; i < CHUNKS<N, ST>; ++i) {
        const int in_tile = chunk_at<ST>(i * N + int(threadIdx.x) % N).x, row = tile_row * ST::rows + in_tile;
        rows[i] = of(row);
        if (in_tile >= ST::rows || row >= count) rows[i].on[0] = 1 << 30;
    }
}

/// Global memory -> registers by N threads together, 16 bytes a thread at a time; waits for nothing. `rows` and `of`, a
/// function of the K-step and an element in it, say where; the contraction has K elements (0: all of each K-step).
template <int N, int K, int... SIZES, ducks::st::all ST, ducks::gl::all GL, typename OF>
__device__ inline void fetch_placed(const ST &, words_4 (&stage)[CHUNKS<N, ST>], const GL &src,
                                    const place<sizeof...(SIZES)> (&rows)[CHUNKS<N, ST>], int step, OF of) {
    constexpr int sizes[] = {SIZES...};
    const auto tensor = buffer_at(src, 0);
#pragma unroll
    for (int i = 0; i < CHUNKS<N, ST>; ++i) {
        const int within = chunk_at<ST>(i * N + int(threadIdx.x) % N).y;
        const place<sizeof...(SIZES)> along = of(step, within);
        bool there = K == 0 || step * ST::cols + within < K;
#pragma unroll
        for (int d = 0; d < int(sizeof...(SIZES)); ++d) there = there && uint32_t(rows[i].on[d] + along.on[d]) < uint32_t(sizes[d]);
        stage[i] = __builtin_amdgcn_raw_buffer_load_b128(tensor, there ? rows[i].at + along.at : NOWHERE, 0, policy_of<GL>());
    }
}

/// Global memory -> LDS by N threads together, of such places; complete on return.
template <int N, int K, int... SIZES, ducks::st::all ST, ducks::gl::all GL, typename OF>
__device__ inline void load_placed(ST &dst, const GL &src, const place<sizeof...(SIZES)> (&rows)[CHUNKS<N, ST>], int step, OF of) {
    words_4 stage[CHUNKS<N, ST>];
    fetch_placed<N, K, SIZES...>(dst, stage, src, rows, step, of);
    write<N>(dst, stage);
    __builtin_amdgcn_s_waitcnt(0xc07f); // LDS operations: none outstanding
}

/// Global memory -> a register tile, with zeros past the tensor's end; waits for nothing. A lane has quads of neighbours:
/// along a row (row layout), or a column, whose elements lie a row apart in memory.
template <int how, ducks::rt::all RT, ducks::gl::all GL>
__device__ inline void take(RT &dst, const GL &src, int tile_row, int tile_col) {
    constexpr int size = sizeof(typename GL::dtype), side = RT::tile_size_row, quads = side * side / WARP_THREADS / 4;
    constexpr int policy = policy_of<GL>();
    constexpr bool by_rows = __is_same(typename RT::layout, ducks::rt_layout::row);
    const int pitch = src.cols(), first_row = tile_row * RT::rows, first_col = tile_col * RT::cols;
    const auto tensor = buffer_at(src, how & WIDE ? uint64_t(min(first_row, int(src.rows()))) * pitch : 0);
    // clang may keep the origin, the same for all lanes, in a vector register, and loop over the lanes at each access.
    const int origin = __builtin_amdgcn_readfirstlane(how & WIDE ? first_col * size : (first_row * pitch + first_col) * size);
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int j = 0; j < RT::width; ++j)
#pragma unroll
            for (int m = 0; m < quads; ++m) {
                const int line = laneid() % side, along = laneid() / side * 4 + m * (WARP_THREADS / side * 4);
                const int row = side * i + (by_rows ? line : along), col = side * j + (by_rows ? along : line);
                const int rows_left = int(src.rows()) - first_row - row, cols_left = pitch - first_col - col;
                const int offset = (row * pitch + col) * size;
                uint32_t words[size] = {}; // of four elements
                if (by_rows && pitch % 4 == 0) {
                    const int here = rows_left > 0 && cols_left > 0 ? offset : NOWHERE;
                    if constexpr (size == 4) {
                        const auto quad = __builtin_amdgcn_raw_buffer_load_b128(tensor, here, origin, policy);
                        __builtin_memcpy(words, &quad, sizeof(words));
                    } else {
                        const auto quad = __builtin_amdgcn_raw_buffer_load_b64(tensor, here, origin, policy);
                        __builtin_memcpy(words, &quad, sizeof(words));
                    }
                } else {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const bool inside = by_rows ? rows_left > 0 && e < cols_left : e < rows_left && cols_left > 0;
                        const int here = inside ? offset + e * (by_rows ? 1 : pitch) * size : NOWHERE;
                        if constexpr (size == 4)
                            words[e] = __builtin_amdgcn_raw_buffer_load_b32(tensor, here, origin, policy);
                        else
                            words[e / 2] |= uint32_t(__builtin_amdgcn_raw_buffer_load_b16(tensor, here, origin, policy)) << e % 2 * 16;
                    }
                }
                __builtin_memcpy(&dst.tiles[i][j].data[2 * m], words, sizeof(words));
            }
}
#ifdef KITTENS_EMBEDDED

/// The same of elements of one byte: a lane has sixteen neighbours of a row.
template <int how, ducks::rt::bytes RT, ducks::gl::all GL>
__device__ inline void take(RT &dst, const GL &src, int tile_row, int tile_col) {
    constexpr int policy = policy_of<GL>();
    const int pitch = src.cols(), first_row = tile_row * RT::rows, first_col = tile_col * RT::cols;
    const auto tensor = buffer_at(src, uint64_t(min(first_row, int(src.rows()))) * pitch);
    const int origin = __builtin_amdgcn_readfirstlane(first_col);
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int j = 0; j < RT::width; ++j) {
            const int row = RT::side * i + laneid() % RT::side, col = RT::shape::cols * j + laneid() / RT::side * 16;
            const int left = first_row + row < int(src.rows()) ? pitch - first_col - col : 0, offset = row * pitch + col;
            if (pitch % 16 == 0) {
                dst.tiles[i][j] = __builtin_amdgcn_raw_buffer_load_b128(tensor, left > 0 ? offset : NOWHERE, origin, policy);
            } else { // a row may end inside
                dst.tiles[i][j] = {};
#pragma unroll
                for (int e = 0; e < 16; ++e)
                    dst.tiles[i][j][e / 4] |= uint32_t(__builtin_amdgcn_raw_buffer_load_b8(tensor, e < left ? offset + e : NOWHERE, origin, policy)) << e % 4 * 8;
            }
        }
}
#endif

} // namespace tk
