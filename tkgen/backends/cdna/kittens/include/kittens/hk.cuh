/**
 * The tiles of HipKittens (November 2025) for gfx950: shared tiles of shape st_16x32, filled straight from global
 * memory, and operand tiles of shapes rt_16x32 and rt_32x16 for the matrix instructions 16x16x32 and 32x32x16.
 *
 * How a tile of shape st_16x32 lies in LDS. It is cut into boxes of 16 rows x 32 columns of 2-byte elements (64 of bytes),
 * 1024 bytes: what one wave moves with one load of 16 bytes a lane, whose lane i always writes the box's i-th 16 bytes.
 * Boxes of the same columns lie one after the other. Row r of a box is 64 bytes, four chunks of 16; chunk c stands at
 * c ^ spread(r / 4), spread = {0, 2, 3, 1}. The lanes fetch accordingly: lane i takes row i / 4, chunk
 * (i % 4) ^ spread(i / 16).
 *
 * LDS has 64 banks of 4 bytes: four rows of a box. A read of 16 bytes is served 16 lanes at a time, neighbours or
 * lanes {0-3, 12-15, 20-27} and {4-11, 16-19, 28-31} and the same plus 32; one of 8 bytes 32 neighbours at a time.
 * Rows that share banks are 4 apart; there `spread` differs, and so it does where the groups of sixteen mix two chunks:
 * spread(0) ^ spread(3) = spread(1) ^ spread(2) = 1. A transposing read takes 32 bytes of each of 8 rows, two of which
 * share banks, r and r + 8: spread(q) and spread(q + 2) differ in bit 1, so they use different halves of them. No read
 * below has a bank conflict.
 */
#pragma once

#include "global.cuh"
#include "mma.cuh"
#include "registers.cuh"
#include "shared.cuh"

namespace kittens {

using row_l = ducks::rt_layout::row;
using col_l = ducks::rt_layout::col;

namespace ducks::rt_shape {
/// Base tiles of rows x cols, 8 neighbours a lane along the columns (row layout) or the rows (col layout).
template <int rows_, int cols_> struct wide {
    static constexpr bool is_wide = true;
    static constexpr int rows = rows_, cols = cols_;
};
using rt_16x32 = wide<16, 32>;
using rt_32x16 = wide<32, 16>;
} // namespace ducks::rt_shape
using rt_16x32_s = ducks::rt_shape::rt_16x32;
using rt_32x16_s = ducks::rt_shape::rt_32x16;

namespace ducks::rt {
struct wide_identifier {};
template <typename T>
concept wide = requires { typename T::identifier; } && __is_same(typename T::identifier, wide_identifier);
} // namespace ducks::rt

namespace detail {

/// Byte positions inside a tile of `rows` x `cols` elements of 2 bytes, or of one, as described at the top of this file.
template <typename T, int rows_, int cols_> struct boxes {
    static_assert(sizeof(T) <= 2, "tiles of shape st_16x32 hold elements of 2 bytes, or of one");
    static constexpr int box_cols = 64 / sizeof(T), chunk_cols = 16 / sizeof(T);
    static_assert(rows_ % 16 == 0 && cols_ % box_cols == 0,
                  "a tile of shape st_16x32 is cut into boxes of 16 rows x 64 bytes");
    static constexpr bool direct = true;
    static constexpr int box_bytes = 1024, row_bytes = 64;
    static constexpr int boxes_down = rows_ / 16, boxes_across = cols_ / box_cols, count = boxes_down * boxes_across;
    static constexpr int column_bytes = boxes_down * box_bytes; // of the boxes of the same columns

    /// {0, 2, 3, 1}[q]
    __host__ __device__ static constexpr uint32_t spread(uint32_t q) { return (q << 1 & 3) ^ (q >> 1) * 3; }
    __host__ __device__ static constexpr uint32_t offset(uint32_t r, uint32_t c) {
        return c / box_cols * column_bytes + r * row_bytes + (c / chunk_cols % 4 ^ spread(r / 4 % 4)) * 16 +
               c % chunk_cols * sizeof(T);
    }
};

} // namespace detail

namespace ducks::st_shape {
struct st_16x32 {
    template <typename T, int rows, int cols> using positions = kittens::detail::boxes<T, rows, cols>;
};
} // namespace ducks::st_shape
using st_16x32_s = ducks::st_shape::st_16x32;

/// An operand of the wide matrix instructions, held by one wave. Row layout: lane l owns of each base tile 8 columns of
/// one row, rows counted by l % rows, columns by l / rows. Col layout is the transpose.
template <typename T_, int rows_, int cols_, ducks::rt_layout::all layout_, int base_rows, int base_cols>
struct rt<T_, rows_, cols_, layout_, ducks::rt_shape::wide<base_rows, base_cols>> {
    using identifier = ducks::rt::wide_identifier;
    using layout = layout_;
    using shape = ducks::rt_shape::wide<base_rows, base_cols>;
    using T = T_;
    using dtype = T;
    static constexpr int rows = rows_, cols = cols_;
    static_assert(sizeof(T) == 2, "wide matrix instructions take elements of 2 bytes");
    static_assert(rows % base_rows == 0 && cols % base_cols == 0, "a register tile consists of whole base tiles");
    static constexpr int height = rows / base_rows, width = cols / base_cols;
    static constexpr bool is_row = __is_same(layout, ducks::rt_layout::row);
    static constexpr int side = is_row ? base_rows : base_cols; // of the matrix instruction: 16 or 32

    detail::vec<T, 8> tiles[height][width];
};

namespace detail {

/* ---------- global -> LDS ---------- */

/// How the waves of a group divide a tile: each takes `passes` boxes in a row, in runs of at most four that lie below
/// each other.
template <typename ST, int threads> struct direct_share {
    using positions = typename ST::positions;
    static constexpr int waves = threads / WARP_THREADS;
    static_assert(positions::count % waves == 0, "the waves of a group take equally many boxes of 16 x 32 each");
    static constexpr int passes = positions::count / waves;
    static constexpr int run = passes % 4 == 0 && positions::boxes_down % 4 == 0   ? 4
                               : passes % 2 == 0 && positions::boxes_down % 2 == 0 ? 2
                                                                                   : 1;
};

using descriptor = vec<uint32_t, 4>;

/**
 * `run` loads of 1024 bytes into LDS from `to` on. Assembly, because for its own direct loads the compiler waits before
 * the next LDS read, whatever that reads; that wait is the schedule's matter. vmcnt counts each; nothing here waits. M0
 * is the LDS address, to be set one wait state before it is used (LLVM GCNHazardRecognizer, checkReadM0Hazards). It is
 * not named as changed: the compiler sets M0 anew before each use of its own, and takes the reserved register in that
 * list for a mistake. The vector unit may have written the scalar operands just before, to be read five wait states
 * later (the same, checkVMEMHazards); the compiler does not look into assembly for that.
 */
template <int run, int policy>
__device__ __forceinline__ void direct_loads(uint32_t to, descriptor from, uint32_t soffset, const uint32_t (&v)[run]) {
#define KITTENS_DIRECT_LOAD(voffset, at, nt) "\n\tbuffer_load_dwordx4 " voffset ", %1, %2 offen offset:" at nt " lds"
#define KITTENS_DIRECT_LOADS(nt)                                                                                       \
    if constexpr (run == 1)                                                                                            \
        asm volatile("s_mov_b32 m0, %0\n\ts_nop 3" KITTENS_DIRECT_LOAD("%3", "0", nt)                                  \
                     : : "s"(to), "s"(from), "s"(soffset), "v"(v[0]) : "memory");                                      \
    else if constexpr (run == 2)                                                                                       \
        asm volatile("s_mov_b32 m0, %0\n\ts_nop 3" KITTENS_DIRECT_LOAD("%3", "0", nt)                                  \
                         KITTENS_DIRECT_LOAD("%4", "1024", nt)                                                         \
                     : : "s"(to), "s"(from), "s"(soffset), "v"(v[0]), "v"(v[1]) : "memory");                           \
    else                                                                                                               \
        asm volatile("s_mov_b32 m0, %0\n\ts_nop 3" KITTENS_DIRECT_LOAD("%3", "0", nt)                                  \
                         KITTENS_DIRECT_LOAD("%4", "1024", nt) KITTENS_DIRECT_LOAD("%5", "2048", nt)                   \
                             KITTENS_DIRECT_LOAD("%6", "3072", nt)                                                     \
                     : : "s"(to), "s"(from), "s"(soffset), "v"(v[0]), "v"(v[1]), "v"(v[2]), "v"(v[3]) : "memory");
    if constexpr (policy == cache::stream) {
        KITTENS_DIRECT_LOADS(" nt")
    } else {
        KITTENS_DIRECT_LOADS("")
    }
#undef KITTENS_DIRECT_LOADS
#undef KITTENS_DIRECT_LOAD
}

/**
 * What stays the same over all loads of tiles of one kind: where this lane fetches in each pass, and where its wave
 * writes in LDS. The offset of p % run * 1024 bytes that the instruction needs for LDS counts in global memory too: it
 * is taken off here. Registers of their own, so that no loop adds them up again.
 */
template <int axis, int threads, typename ST, typename GL>
__device__ __forceinline__ void prefill_direct(const ST &, const GL &src, uint32_t *offsets, int wave) {
    using share = direct_share<ST, threads>;
    using positions = typename ST::positions;
    const tile_window<axis, ST::rows, ST::cols, GL> window(src, coord<ST>());
    const uint32_t lane = laneid(), chunk = lane % 4 ^ positions::spread(lane / 16), first = wave * share::passes;
    #pragma unroll
    for (int p = 0; p < share::passes; p++) {
        const uint32_t box = first + p;
        const uint32_t row = box % positions::boxes_down * 16 + lane / 4;
        const uint32_t column = box / positions::boxes_down * 64 + chunk * 16;
        uint32_t offset = row * window.row_bytes + column - p % share::run * positions::box_bytes;
        asm volatile("" : "+v"(offset));
        offsets[p] = offset;
    }
    offsets[share::passes] = __builtin_amdgcn_readfirstlane(first * positions::box_bytes);
}

/// The tile of src at idx to LDS by the waves of a group; in flight on return.
template <int axis, int threads, typename ST, typename GL, typename COORD>
__device__ __forceinline__ void load_direct(ST &dst, const GL &src, const COORD &idx, const uint32_t *offsets) {
    using share = direct_share<ST, threads>;
    using positions = typename ST::positions;
    using WINDOW = tile_window<axis, ST::rows, ST::cols, GL>;
    static_assert(__is_same(typename ST::dtype, typename GL::dtype),
                  "shared tile and tensor must have the same element type");
    static_assert(WINDOW::columns_divide || GL::__c__ < 0,
                  "direct loads cannot leave out what lies past the end of a row");
    const WINDOW window(src, idx);
    const uint64_t base = (uint64_t)window.start;
    // What is the same for all lanes clang may keep in a vector register all the same, where it is worked out at run time,
    // and hand that to the assembly.
    const auto scalar = [](uint32_t value) {
        return WINDOW::plane_fits ? value : uint32_t(__builtin_amdgcn_readfirstlane(value));
    };
    const descriptor from = {scalar(base), scalar(base >> 32) & 0xffff, scalar(window.range), RAW_BUFFER_FLAGS};
    const uint32_t lds = scalar((uint32_t)(uintptr_t)(lds_byte *)(char *)&dst + offsets[share::passes]);
    #pragma unroll
    for (int p = 0; p < share::passes; p += share::run) {
        uint32_t v[share::run];
        #pragma unroll
        for (int i = 0; i < share::run; i++) v[i] = offsets[p + i];
        direct_loads<share::run, GL::cache_policy>(lds + p * positions::box_bytes, from, scalar(window.origin), v);
    }
}

/* ---------- LDS -> registers ---------- */

} // namespace detail

/// dst = the shared tile src; equal shapes and types. Row layout: one read of 16 bytes a base tile; col layout: two
/// transposing reads of neighbouring rows. These take 4 rows of 64 bytes for 32 lanes: all banks once.
template <ducks::rt::wide RT, ducks::st::all ST>
    requires(ST::positions::direct)
__device__ __forceinline__ void load(RT &dst, const ST &src) {
    using T = typename RT::T;
    using positions = typename ST::positions;
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols,
                  "register tile and shared tile must have the same shape");
    static_assert(__is_same(T, typename ST::dtype), "register tile and shared tile must have the same element type");
    constexpr int base_rows = RT::shape::rows, base_cols = RT::shape::cols;
    // Positions of a base tile differ from the first one's by constants, but for the two base tiles of 16 columns in a
    // box.
    constexpr int bases = base_cols == 16 ? 2 : 1, halves = RT::is_row ? 1 : 2;
    const uint32_t lane = laneid(), group = lane / 16 % (RT::side / 16);
    detail::lds_byte *base[bases][halves];
    const int first = src.col_offset / 16;
    const int uniform = src.row_offset * positions::row_bytes + src.col_offset / 32 * positions::column_bytes;
    #pragma unroll
    for (int b = 0; b < bases; b++)
        #pragma unroll
        for (int h = 0; h < halves; h++) {
            uint32_t at;
            if constexpr (RT::is_row) at = positions::offset(lane % RT::side, 16 * b + lane / RT::side * 8);
            else
                at = positions::offset(lane / RT::side * 8 + 4 * h + lane % 16 / 4,
                                       16 * b + 16 * group + lane % 4 * 4);
            base[b][h] = detail::lds_pointer(src.data, at) + uniform;
        }
    #pragma unroll
    for (int i = 0; i < RT::height; i++)
        #pragma unroll
        for (int j = 0; j < RT::width; j++) {
            // In units of 16, from the box in which the tile begins.
            const int column = bases == 2 ? first % 2 + j : 2 * j;
            const int constant = i * base_rows * positions::row_bytes + column / 2 * positions::column_bytes;
            const int b = bases == 2 ? column % 2 : 0;
            if constexpr (RT::is_row) {
                dst.tiles[i][j] = detail::lds_read<detail::vec<T, 8>>(base[b][0] + constant);
            } else {
                dst.tiles[i][j].lo = detail::lds_read_transposed<T>(base[b][0] + constant);
                dst.tiles[i][j].hi = detail::lds_read_transposed<T>(base[b][halves - 1] + constant);
            }
        }
}

/* ---------- global -> registers ---------- */

/// dst = the tile of src at idx, counted in tiles; equal types. Row layout: one load of 16 bytes a base tile; col layout:
/// one of each element. Elements outside the tensor read as 0. The compiler waits for these, and counts no direct loads.
template <ducks::rt::wide RT, ducks::gl::all GL, ducks::coord::all COORD = coord<RT>>
__device__ __forceinline__ void load(RT &dst, const GL &src, const COORD &idx) {
    using T = typename RT::T;
    static_assert(__is_same(T, typename GL::dtype), "register tile and tensor must have the same element type");
    constexpr int policy = GL::cache_policy;
    const detail::tile_window<2, RT::rows, RT::cols, GL> window(src, idx);
    const uint32_t line = laneid() % RT::side, first = laneid() / RT::side * 8;
    #pragma unroll
    for (int i = 0; i < RT::height; i++)
        #pragma unroll
        for (int j = 0; j < RT::width; j++) {
            const uint32_t column = (j * RT::shape::cols + (RT::is_row ? first : line)) * sizeof(T);
            const uint32_t row = RT::is_row ? line : first;
            const uint32_t voffset = window.column(row * window.row_bytes + column, column);
            const uint32_t soffset = window.origin + i * RT::shape::rows * window.row_bytes;
            if constexpr (RT::is_row) {
                dst.tiles[i][j] = detail::buffer_read<detail::vec<T, 8>, policy>(window.resource, voffset, soffset);
            } else {
                #pragma unroll
                for (int e = 0; e < 8; e++)
                    dst.tiles[i][j][e] =
                        detail::buffer_read<T, policy>(window.resource, voffset, soffset + e * window.row_bytes);
            }
        }
}

/* ---------- products ---------- */

namespace detail {

template <int depth, typename D, typename C, typename A, typename B>
__device__ __forceinline__ void multiply_wide(D &d, const C &c, A a_at, B b_at) {
    #pragma unroll
    for (int k = 0; k < depth; k++)
        #pragma unroll
        for (int i = 0; i < D::height; i++)
            #pragma unroll
            for (int j = 0; j < D::width; j++) {
                const auto acc = k == 0 ? c.tiles[i][j].get_all() : d.tiles[i][j].get_all();
                d.tiles[i][j].set_all(mfma_wide<D::shape::side>(a_at(i, k), b_at(k, j), acc));
            }
}

template <typename A, typename B, typename D, typename C>
concept wide_operands = ducks::rt::wide<A> && ducks::rt::wide<B> && ducks::rt::col_layout<D> &&
                        ducks::rt::col_layout<C> && __is_same(typename D::T, float) &&
                        __is_same(typename C::T, float) && __is_same(typename A::T, typename B::T) &&
                        A::side == D::shape::side && B::side == D::shape::side && C::shape::side == D::shape::side;

} // namespace detail

/// d = a b + c: a (M x K) row, b (K x N) col.
template <typename D, typename A, typename B, typename C>
    requires(detail::wide_operands<A, B, D, C> && A::is_row && !B::is_row)
__device__ __forceinline__ void mma_AB(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::rows == D::rows && B::cols == D::cols && A::cols == B::rows, "mma_AB: (M x K) (K x N) -> (M x N)");
    detail::multiply_wide<A::width>(d, c,
        [&](int i, int k) { return a.tiles[i][k]; },
        [&](int k, int j) { return b.tiles[k][j]; });
}

/// d = a b^T + c: a (M x K) row, b (N x K) row.
template <typename D, typename A, typename B, typename C>
    requires(detail::wide_operands<A, B, D, C> && A::is_row && B::is_row)
__device__ __forceinline__ void mma_ABt(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::rows == D::rows && B::rows == D::cols && A::cols == B::cols,
                  "mma_ABt: (M x K) (N x K)^T -> (M x N)");
    detail::multiply_wide<A::width>(d, c,
        [&](int i, int k) { return a.tiles[i][k]; },
        [&](int k, int j) { return b.tiles[j][k]; });
}

/// d = a^T b + c: a (K x M) col, b (K x N) col.
template <typename D, typename A, typename B, typename C>
    requires(detail::wide_operands<A, B, D, C> && !A::is_row && !B::is_row)
__device__ __forceinline__ void mma_AtB(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::cols == D::rows && B::cols == D::cols && A::rows == B::rows,
                  "mma_AtB: (K x M)^T (K x N) -> (M x N)");
    detail::multiply_wide<A::height>(d, c,
        [&](int i, int k) { return a.tiles[k][i]; },
        [&](int k, int j) { return b.tiles[k][j]; });
}

/// d = a^T b^T + c: a (K x M) col, b (N x K) row.
template <typename D, typename A, typename B, typename C>
    requires(detail::wide_operands<A, B, D, C> && !A::is_row && B::is_row)
__device__ __forceinline__ void mma_AtBt(D &d, const A &a, const B &b, const C &c) {
    static_assert(A::cols == D::rows && B::rows == D::cols && A::rows == B::cols,
                  "mma_AtBt: (K x M)^T (N x K)^T -> (M x N)");
    detail::multiply_wide<A::height>(d, c,
        [&](int i, int k) { return a.tiles[k][i]; },
        [&](int k, int j) { return b.tiles[j][k]; });
}

} // namespace kittens
