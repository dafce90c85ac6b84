/**
 * What a loop over tiles brings to LDS, by all threads of a block together: tiles as they lie in memory or transposed,
 * vectors, and tiles that are loaded straight to LDS. Each is fetched to registers first, and written to LDS later.
 */
#pragma once

#include "stage.cuh"

namespace tk {

/// Squares of 4 x 4 elements of a tile in LDS that each of N threads brings, where memory has its columns as rows.
template <int N, ducks::st::all ST> constexpr int SQUARES = (ST::rows * ST::cols + 16 * N - 1) / (16 * N);

/// Row and column at which square number `at` of a tile starts. 16 neighbours write two lots of 64 bytes, four rows
/// apart, which meet in no bank; 64 read 8 rows x 64 bytes at a time.
template <ducks::st::all ST> __device__ inline int2 square_at(int at) {
    constexpr int across = ST::cols % 32 == 0 ? 8 : ST::cols / 4, down = ST::rows / 4;
    return int2{at / across % down * 4, at / across / down * (4 * across) + at % across * 4};
}

/// Global memory -> registers by N threads together; waits for nothing.
template <int N, ducks::st::all ST> __device__ inline void fetch_transposed(const ST &, words_2 (&stage)[SQUARES<N, ST>][4], buffer from, int pitch) {
#pragma unroll
    for (int n = 0; n < SQUARES<N, ST>; ++n) {
        const int2 at = square_at<ST>(n * N + int(threadIdx.x));
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const uint32_t offset = ((at.y + e) * pitch + at.x) * int(sizeof(typename ST::dtype));
            stage[n][e] = __builtin_amdgcn_raw_buffer_load_b64(from, at.y < ST::cols ? offset : OUTSIDE, 0, 0);
        }
    }
}

/// The same of squares.
template <int N, ducks::st::all ST> constexpr bool EVEN_SQUARES = [] {
    constexpr int lines = N / 8, down = ST::rows / 4;
    return EMBEDDED && ST::cols % 32 == 0 && (lines % down == 0 || down % lines == 0);
}();

/// Registers -> LDS: what `fetch_transposed` brought, each square transposed.
template <int N, ducks::st::all ST> __device__ inline void write_transposed(ST &to, const words_2 (&stage)[SQUARES<N, ST>][4]) {
    constexpr uint32_t LOW = 0x05040100, HIGH = 0x07060302;  // these halves of two words, the second argument's below
    const uint32_t base = lds_address(&to.data[0]);
    const int2 first = square_at<ST>(int(threadIdx.x));
#pragma unroll
    for (int n = 0; n < SQUARES<N, ST>; ++n) {
        const int2 at = square_at<ST>(n * N + int(threadIdx.x));
        if (SQUARES<N, ST> * N * 16 > ST::rows * ST::cols && at.y >= ST::cols) continue;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const uint32_t half = e % 2 ? HIGH : LOW;
            uint32_t place = position(to, base, at.x + e, at.y);
            if constexpr (EVEN_SQUARES<N, ST>) place = position(to, base, first.x + e, first.y) + ST::idx(0u, square_at<ST>(n * N));
            auto *here = (__attribute__((address_space(3))) words_2 *)(uintptr_t)place;
            *here = words_2{__builtin_amdgcn_perm(stage[n][1][e / 2], stage[n][0][e / 2], half),
                            __builtin_amdgcn_perm(stage[n][3][e / 2], stage[n][2][e / 2], half)};
        }
    }
}

/// Elements of a vector in LDS that each of N threads brings.
template <int N, ducks::sv::all SV> constexpr int LINES = (SV::length + N - 1) / N;

/// Global memory -> registers by N threads together, an element each, `pitch` elements apart; waits for nothing.
template <int N, ducks::sv::all SV> __device__ inline void fetch_vector(const SV &, typename SV::dtype (&stage)[LINES<N, SV>], buffer from, int pitch) {
    using T = typename SV::dtype;
#pragma unroll
    for (int n = 0; n < LINES<N, SV>; ++n) {
        const int at = n * N + int(threadIdx.x);
        const uint32_t offset = at < SV::length ? at * pitch * int(sizeof(T)) : OUTSIDE;
        if constexpr (sizeof(T) == 2) stage[n] = __builtin_bit_cast(T, __builtin_amdgcn_raw_buffer_load_b16(from, offset, 0, 0));
        else stage[n] = __builtin_bit_cast(T, __builtin_amdgcn_raw_buffer_load_b32(from, offset, 0, 0));
    }
}

/// Registers -> LDS: what `fetch_vector` brought.
template <int N, ducks::sv::all SV> __device__ inline void write_vector(SV &to, const typename SV::dtype (&stage)[LINES<N, SV>]) {
#pragma unroll
    for (int n = 0; n < LINES<N, SV>; ++n) {
        const int at = n * N + int(threadIdx.x);
        if ((n + 1) * N <= SV::length || at < SV::length) lds((native<typename SV::dtype> *)&to.data[0])[at] = bits_of<native<typename SV::dtype>>(stage[n]);
    }
}
#ifdef KITTENS_CDNA4

/// How N threads divide a tile of shape st_16x32: each wave takes `passes` boxes of 16 rows x 64 bytes that follow one another in
/// LDS, in runs of at most four.
template <int N, ducks::st::all ST> struct direct_share {
    static constexpr int box_bytes = 1024, boxes_down = ST::rows / 16, waves = N / WARP_THREADS;
    static constexpr int count = ST::rows * ST::cols * int(sizeof(typename ST::dtype)) / box_bytes;
    static_assert(count % waves == 0, "the waves of a group take equally many boxes of 16 x 32 each");
    static constexpr int passes = count / waves;
    static constexpr int run = passes % 4 == 0 && boxes_down % 4 == 0 ? 4 : passes % 2 == 0 && boxes_down % 2 == 0 ? 2 : 1;
};

/// Row, and byte of it, at which 16 bytes of a tile begin: number `lane` of box `box`, counted as they lie in LDS.
template <ducks::st::all ST> __device__ inline words_2 direct_chunk(uint32_t box, uint32_t lane) {
#ifdef KITTENS_EMBEDDED // boxes of the same columns follow one another
    const uint32_t row = box % (ST::rows / 16) * 16 + lane / 4;
    return {row, box / (ST::rows / 16) * 64 + (lane % 4 ^ ST::positions::spread(lane / 16)) * 16};
#else // boxes of the same rows do; twice swizzled is not swizzled
    const uint32_t across = ST::underlying_subtiles_per_row, in_box = ST::swizzle(int2{int(lane / 4), int(lane % 4 * 8)});
    return {box / across * 16 + in_box / 64, box % across * 64 + in_box % 64};
#endif
}

/// `run` loads of 1024 bytes into LDS from `to` on. Assembly, because for its own direct loads the compiler waits before the
/// next LDS read, whatever that reads. M0 is the LDS address, to be set one wait state before it is used (LLVM
/// GCNHazardRecognizer, checkReadM0Hazards). It is not named as changed: the compiler sets M0 anew before each use of its
/// own. The vector unit may have written the scalar operands just before, to be read five wait states later (the same,
/// checkVMEMHazards); the compiler does not look into assembly for that.
template <int run, int policy = 0>
__device__ __forceinline__ void direct_loads(uint32_t to, words_4 from, uint32_t soffset, const uint32_t (&v)[run]) {
#define TK_DIRECT_LOAD(voffset, at, nt) "\n\tbuffer_load_dwordx4 " voffset ", %1, %2 offen offset:" at nt " lds"
#define TK_DIRECT_LOADS(nt)                                                                                                     \
    if constexpr (run == 1)                                                                                                     \
        asm volatile("s_mov_b32 m0, %0\n\ts_nop 3" TK_DIRECT_LOAD("%3", "0", nt)                                                \
                     : : "s"(to), "s"(from), "s"(soffset), "v"(v[0]) : "memory");                                               \
    else if constexpr (run == 2)                                                                                                \
        asm volatile("s_mov_b32 m0, %0\n\ts_nop 3" TK_DIRECT_LOAD("%3", "0", nt) TK_DIRECT_LOAD("%4", "1024", nt)               \
                     : : "s"(to), "s"(from), "s"(soffset), "v"(v[0]), "v"(v[1]) : "memory");                                    \
    else                                                                                                                        \
        asm volatile("s_mov_b32 m0, %0\n\ts_nop 3" TK_DIRECT_LOAD("%3", "0", nt) TK_DIRECT_LOAD("%4", "1024", nt)               \
                         TK_DIRECT_LOAD("%5", "2048", nt) TK_DIRECT_LOAD("%6", "3072", nt)                                      \
                     : : "s"(to), "s"(from), "s"(soffset), "v"(v[0]), "v"(v[1]), "v"(v[2]), "v"(v[3]) : "memory");
    if constexpr (policy != 0) {
        TK_DIRECT_LOADS(" nt")
    } else {
        TK_DIRECT_LOADS("")
    }
#undef TK_DIRECT_LOADS
#undef TK_DIRECT_LOAD
}

/// What is the same in all loads of a tensor's tiles to LDS by N threads together: its rows, `pitch` elements apart, from
/// element `origin` on; where this lane's part of each box lies in a tile of them; where its wave's boxes begin in LDS. An
/// offset that an instruction has for LDS counts in global memory, too: it is taken off.
template <int N, ducks::st::all ST> struct direct {
    using share = direct_share<N, ST>;
    words_4 from;
    uint32_t offsets[share::passes], lds;
    template <ducks::gl::all GL> __device__ direct(const GL &tensor, uint64_t origin, int rows, int pitch, int cols) {
        const uint64_t base = (uint64_t)(tensor.raw_ptr + origin);
        from = {uint32_t(base), uint32_t(base >> 32) & 0xffff, uint32_t((rows - 1) * pitch + cols) * 2, RAW_BUFFER};
        const uint32_t first = warpid() * share::passes;
#pragma unroll
        for (int p = 0; p < share::passes; ++p) {
            const words_2 at = direct_chunk<ST>(first + p, laneid());
            offsets[p] = at.x * pitch * 2 + at.y - p % share::run * share::box_bytes;
        }
        lds = __builtin_amdgcn_readfirstlane(first * share::box_bytes);
    }
};

/// Global memory -> LDS by N threads together: the tile whose first element is number `start`. Waits for nothing.
template <int N, ducks::st::all ST> __device__ inline void fetch_direct(ST &to, const direct<N, ST> &at, uint32_t start) {
    using share = direct_share<N, ST>;
    const uint32_t base = lds_address(&to.data[0]) + at.lds;
#pragma unroll
    for (int p = 0; p < share::passes; p += share::run) {
        uint32_t v[share::run];
#pragma unroll
        for (int i = 0; i < share::run; ++i) v[i] = at.offsets[p + i];
        direct_loads<share::run>(base + p * share::box_bytes, at.from, start * 2, v);
    }
}

/// The offsets with which N threads copy tiles like `to` of a matrix, as in `direct`, and last where a wave's boxes begin in
/// LDS. They stay in registers.
template <int N, ducks::st::all ST, ducks::gl::all GL>
__device__ inline void prefill_tiles(const ST &, const GL &src, uint32_t (&offsets)[direct_share<N, ST>::passes + 1]) {
    using share = direct_share<N, ST>;
    const uint32_t first = warpid() % share::waves * share::passes;
#pragma unroll
    for (int p = 0; p < share::passes; ++p) {
        const words_2 at = direct_chunk<ST>(first + p, laneid());
        offsets[p] = at.x * src.cols() * int(sizeof(typename ST::dtype)) + at.y - p % share::run * share::box_bytes;
        asm volatile("" : "+v"(offsets[p]));
    }
    offsets[share::passes] = __builtin_amdgcn_readfirstlane(first * share::box_bytes);
}

/// Global memory -> LDS by N threads together: tile (tile_row, tile_col) of a matrix whose rows are whole chunks of 16 bytes,
/// zeros past its end. Waits for nothing. A load past the end of its buffer writes zeros to LDS (pull request 10928 of
/// ROCm/rocm-systems, which states it of a gfx950), so all lanes load, and vmcnt counts equally many loads of every tile.
template <int N, ducks::st::all ST, ducks::gl::all GL>
__device__ inline void copy_tile(ST &to, const GL &src, int tile_row, int tile_col,
                                 const uint32_t (&offsets)[direct_share<N, ST>::passes + 1]) {
    using share = direct_share<N, ST>;
    constexpr int size = sizeof(typename ST::dtype);
    // What is the same for all lanes clang may keep in a vector register where it is known at run time.
    const auto scalar = [](uint32_t value) {
        return GL::__r__ > 0 && GL::__c__ > 0 ? value : uint32_t(__builtin_amdgcn_readfirstlane(value));
    };
    const int pitch = src.cols(), first_row = min(tile_row * ST::rows, int(src.rows())), first_col = tile_col * ST::cols;
    const int rows = min(int(src.rows()) - first_row, ST::rows), bytes = (pitch - first_col) * size;
    const uint64_t base = (uint64_t)(src.raw_ptr + uint64_t(first_row) * pitch);
    const words_4 from = {scalar(base), scalar(base >> 32) & 0xffff, scalar(rows * pitch * size), RAW_BUFFER};
    const uint32_t lds = scalar(lds_address(&to.data[0]) + offsets[share::passes]);
    const bool ends = bytes < ST::cols * size; // the rows do, in this tile or before it, as parts may have steps past the end
    const uint32_t box = ends ? warpid() % share::waves * share::passes : 0;
#pragma unroll
    for (int p = 0; p < share::passes; p += share::run) {
        uint32_t v[share::run];
#pragma unroll
        for (int i = 0; i < share::run; ++i)
            v[i] = ends && int(direct_chunk<ST>(box + p + i, laneid()).y) >= bytes ? OUTSIDE : offsets[p + i];
        direct_loads<share::run, policy_of<GL>()>(lds + p * share::box_bytes, from, scalar(first_col * size), v);
    }
}
#endif

} // namespace tk
