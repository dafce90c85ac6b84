/**
 * Loads and stores of shared tiles, by one wave or by the N waves of a group together.
 */
#pragma once

#include "move.cuh"
#ifdef KITTENS_CDNA4
#include "hk.cuh"
#endif

namespace kittens {

namespace detail {

/**
 * How N threads divide a tile in 16-byte pieces between global memory and LDS.
 *
 * 32 lanes take a block of 8 rows x 64 bytes: each four lanes one row's 64 consecutive bytes. Neighbouring blocks go
 * along the row first, so that the loads of one wave cover whole cache lines. In LDS the block is four lines of a
 * panel, and every group of 8 or 16 neighbouring lanes writes to distinct banks. `pass` k of a thread is a whole number
 * of blocks from its pass 0, so its addresses differ by uniform amounts: constants in LDS, scalars in global memory.
 */
template <typename ST, int threads> struct panel_pieces {
    using T = typename ST::dtype;
    using positions = typename ST::positions;
    static constexpr int panels = positions::panels;
    static constexpr int blocks = panels * (ST::rows / 8);
    static constexpr int blocks_per_pass = threads / 32;
    static constexpr int passes = (blocks + blocks_per_pass - 1) / blocks_per_pass;
    static constexpr bool exact = blocks % blocks_per_pass == 0;
    static constexpr bool along_rows = panels == 0 || blocks_per_pass % panels == 0; // a pass covers whole rows
    static constexpr bool along_columns =
        !along_rows && panels % blocks_per_pass == 0; // a row takes several whole passes
    static constexpr bool uniform = along_rows || along_columns; // all lanes of a pass are as many rows from pass 0

    int row, panel, piece, block;

    __device__ __forceinline__ panel_pieces(int thread) : piece(thread & 3), block(thread >> 5) {
        // Rows 4..7 pairwise swapped: so the groups of lanes in which LDS serves ds_read_b128 cover every bank, too.
        const int in_block = ((thread >> 2) & 7) ^ ((thread >> 4) & 1);
        if constexpr (along_rows) {
            panel = block % panels;
            row = block / panels * 8 + in_block;
        } else {
            panel = along_columns ? block : 0;
            row = in_block;
        }
    }

    /// Rows and panels of a pass beyond pass 0.
    __device__ __forceinline__ int row_step(int pass) const {
        if constexpr (along_rows) return pass * (blocks_per_pass / panels) * 8;
        else if constexpr (along_columns) return pass / (panels / blocks_per_pass) * 8;
        else return (pass * blocks_per_pass + block) / panels * 8;
    }
    __device__ __forceinline__ int panel_step(int pass) const {
        if constexpr (along_rows) return 0;
        else if constexpr (along_columns) return pass % (panels / blocks_per_pass) * blocks_per_pass;
        else return (pass * blocks_per_pass + block) % panels;
    }
    __device__ __forceinline__ bool active(int pass) const { return exact || pass * blocks_per_pass + block < blocks; }

    __device__ __forceinline__ int column_bytes(int pass) const {
        return panel * 64 + piece * 16 + panel_step(pass) * 64;
    }

    /// Where part 0 or 1 of a piece goes: 4 elements of 2 bytes, or all of it.
    __device__ __forceinline__ lds_byte *position(const ST &tile, int pass, int part) const {
        const uint32_t column = (panel * 64 + piece * 16) / sizeof(T) + part * 4;
        return lds_pointer(tile.data, positions::in_panel(row, column)) +
               (row_step(pass) * positions::row_bytes + panel_step(pass) * positions::panel_bytes);
    }
};

/// The same for the half panel: 16 lanes take 8 rows x 32 bytes.
template <typename ST, int threads> struct half_panel_pieces {
    using T = typename ST::dtype;
    using positions = typename ST::positions;
    static constexpr int rows_per_pass = threads / 2;
    static constexpr int passes = positions::half_panel ? (ST::rows + rows_per_pass - 1) / rows_per_pass : 0;
    static constexpr bool exact = ST::rows % rows_per_pass == 0;
    static constexpr bool uniform = true;

    int row, piece;

    __device__ __forceinline__ half_panel_pieces(int thread) : row(thread >> 1), piece(thread & 1) {}

    __device__ __forceinline__ int row_step(int pass) const { return pass * rows_per_pass; }
    __device__ __forceinline__ bool active(int pass) const { return exact || row + row_step(pass) < ST::rows; }
    __device__ __forceinline__ int column_bytes(int) const { return positions::panels * 64 + piece * 16; }
    __device__ __forceinline__ lds_byte *position(const ST &tile, int pass, int part) const {
        return lds_pointer(tile.data, positions::in_half_panel(row, 8 * piece + 4 * part)) +
               row_step(pass) * positions::half_row_bytes;
    }
};

/// Moves 16-byte pieces of one kind between a tensor, registers and a shared tile.
template <typename PIECES, typename ST> struct piece_mover {
    static constexpr int passes = PIECES::passes;

    /// The lane's offset of a piece, and the scalar one: rows of a pass go to the latter where they are the same for all.
    /// clang keeps some that are worked out at run time in a vector register; each access would be a loop over its values.
    template <typename WINDOW>
    __device__ static __forceinline__ uint32_t voffset(const PIECES &at, const WINDOW &window, int pass) {
        const int row = PIECES::uniform ? at.row : at.row + at.row_step(pass);
        return window.column(row * window.row_bytes + at.column_bytes(pass), at.column_bytes(pass));
    }
    template <typename WINDOW>
    __device__ static __forceinline__ uint32_t soffset(const PIECES &at, const WINDOW &window, int pass) {
        const uint32_t offset = window.origin + (PIECES::uniform ? at.row_step(pass) * window.row_bytes : 0);
        return WINDOW::plane_fits ? offset : __builtin_amdgcn_readfirstlane(offset);
    }
    template <typename WINDOW>
    __device__ static __forceinline__ u32x4 fetch(const PIECES &at, const WINDOW &window, int pass) {
        return buffer_read<u32x4, WINDOW::policy>(window.resource, at.active(pass) ? voffset(at, window, pass) : OUTSIDE,
                                  soffset(at, window, pass));
    }
    /// Writes part 0 or 1 of a piece: 2-byte elements go to two chunks, 8 bytes each; others in one part of 16 bytes.
    static constexpr int parts = sizeof(typename ST::dtype) == 2 ? 2 : 1;
    template <int part>
    __device__ static __forceinline__ void place(const PIECES &at, const ST &tile, int pass, const u32x4 &value) {
        if (!at.active(pass) || part >= parts) return;
        if constexpr (parts == 1) lds_write<u32x4>(at.position(tile, pass, 0), value);
        else if constexpr (part == 0) lds_write<u32x2>(at.position(tile, pass, 0), value.lo);
        else lds_write<u32x2>(at.position(tile, pass, 1), value.hi);
    }
    __device__ static __forceinline__ u32x4 take(const PIECES &at, const ST &tile, int pass) {
        if constexpr (parts == 1) {
            return lds_read<u32x4>(at.position(tile, pass, 0));
        } else {
            u32x4 value;
            value.lo = lds_read<u32x2>(at.position(tile, pass, 0));
            value.hi = lds_read<u32x2>(at.position(tile, pass, 1));
            return value;
        }
    }
    template <typename WINDOW>
    __device__ static __forceinline__ void send(const PIECES &at, const WINDOW &window, int pass, const u32x4 &value) {
        buffer_write(window.resource, value, voffset(at, window, pass), soffset(at, window, pass));
    }
};

// Pieces in flight at once in a load that stages through registers: 8 of 4 VGPRs each.
constexpr int PIECES_IN_FLIGHT = 8;

template <typename PIECES, typename ST, typename WINDOW>
__device__ __forceinline__ void stage(const ST &tile, const WINDOW &window, int thread) {
    using mover = piece_mover<PIECES, ST>;
    const PIECES at(thread);
    constexpr int in_flight = PIECES::passes < PIECES_IN_FLIGHT ? PIECES::passes : PIECES_IN_FLIGHT;
#pragma unroll
    for (int first = 0; first < PIECES::passes; first += in_flight) {
        u32x4 pieces[in_flight];
#pragma unroll
        for (int p = 0; p < in_flight; p++)
            if (first + p < PIECES::passes) pieces[p] = mover::fetch(at, window, first + p);
// Two passes at a time: the same part of both, so that the compiler can merge them into one ds_write2st64_b64.
#pragma unroll
        for (int p = 0; p < in_flight; p += 2) {
            const bool here = first + p < PIECES::passes, next = p + 1 < in_flight && first + p + 1 < PIECES::passes;
            if (here) mover::template place<0>(at, tile, first + p, pieces[p]);
            if (next) mover::template place<0>(at, tile, first + p + 1, pieces[p + 1]);
            if (here) mover::template place<1>(at, tile, first + p, pieces[p]);
            if (next) mover::template place<1>(at, tile, first + p + 1, pieces[p + 1]);
        }
    }
}

template <typename PIECES, typename ST, typename WINDOW>
__device__ __forceinline__ void unstage(const ST &tile, const WINDOW &window, int thread) {
    using mover = piece_mover<PIECES, ST>;
    const PIECES at(thread);
#pragma unroll
    for (int pass = 0; pass < PIECES::passes; pass++)
        if (at.active(pass)) mover::send(at, window, pass, mover::take(at, tile, pass));
}

template <int axis, int threads, typename ST, typename GL, typename COORD>
__device__ __forceinline__ void load_shared(ST &dst, const GL &src, const COORD &idx, int thread) {
    static_assert(__is_same(typename ST::dtype, typename GL::dtype),
                  "shared tile and tensor must have the same element type");
    const tile_window<axis, ST::rows, ST::cols, GL> window(src, idx);
    if constexpr (ST::positions::panels > 0) stage<panel_pieces<ST, threads>>(dst, window, thread);
    if constexpr (ST::positions::half_panel) stage<half_panel_pieces<ST, threads>>(dst, window, thread);
    release_lds();
}

template <int axis, int threads, typename ST, typename GL, typename COORD>
__device__ __forceinline__ void store_shared(const GL &dst, const ST &src, const COORD &idx, int thread) {
    static_assert(__is_same(typename ST::dtype, typename GL::dtype),
                  "shared tile and tensor must have the same element type");
    const tile_window<axis, ST::rows, ST::cols, GL> window(dst, idx);
    if constexpr (ST::positions::panels > 0) unstage<panel_pieces<ST, threads>>(src, window, thread);
    if constexpr (ST::positions::half_panel) unstage<half_panel_pieces<ST, threads>>(src, window, thread);
}

} // namespace detail

/* ---------- by one wave ---------- */

// `assume_aligned` is part of the surface; tiles here always take the path that it asks for.

/// The shared tile dst = the tile of src at idx, by one wave; complete on return, for this wave.
template <int axis, bool assume_aligned = false, ducks::st::all ST, ducks::gl::all GL,
          ducks::coord::all COORD = coord<ST>>
__device__ __forceinline__ void load(ST &dst, const GL &src, const COORD &idx) {
    detail::load_shared<axis, WARP_THREADS>(dst, src, idx, laneid());
}
template <ducks::st::all ST, ducks::gl::all GL, ducks::coord::all COORD = coord<ST>>
__device__ __forceinline__ void load(ST &dst, const GL &src, const COORD &idx) {
    detail::load_shared<2, WARP_THREADS>(dst, src, idx, laneid());
}
/// The tile of dst at idx = the shared tile src, by one wave.
template <int axis, bool assume_aligned = false, ducks::st::all ST, ducks::gl::all GL,
          ducks::coord::all COORD = coord<ST>>
__device__ __forceinline__ void store(const GL &dst, const ST &src, const COORD &idx) {
    detail::store_shared<axis, WARP_THREADS>(dst, src, idx, laneid());
}
template <ducks::st::all ST, ducks::gl::all GL, ducks::coord::all COORD = coord<ST>>
__device__ __forceinline__ void store(const GL &dst, const ST &src, const COORD &idx) {
    detail::store_shared<2, WARP_THREADS>(dst, src, idx, laneid());
}

/* ---------- by a group ---------- */

/// N consecutive waves, aligned: waves n N .. n N + N - 1 for some n. A collective must be run by all of them.
template <int N_WARPS> struct group {
    static constexpr int GROUP_WARPS = N_WARPS;
    static constexpr int GROUP_THREADS = N_WARPS * WARP_THREADS;

    __device__ static __forceinline__ int laneid() { return int(threadIdx.x) % GROUP_THREADS; }
    __device__ static __forceinline__ int warpid() { return kittens::warpid() % N_WARPS; }
    __device__ static __forceinline__ int groupid() { return kittens::warpid() / N_WARPS; }

    /// The shared tile dst = the tile of src at idx, by the whole group. Each wave returns when its own part is in LDS;
    /// other waves see the tile after a barrier.
    template <int axis, bool assume_aligned = false, ducks::st::all ST, ducks::gl::all GL,
              ducks::coord::all COORD = coord<ST>>
    __device__ static __forceinline__ void load(ST &dst, const GL &src, const COORD &idx) {
        detail::load_shared<axis, GROUP_THREADS>(dst, src, idx, laneid());
    }
    template <ducks::st::all ST, ducks::gl::all GL, ducks::coord::all COORD = coord<ST>>
        requires(!ST::positions::direct)
    __device__ static __forceinline__ void load(ST &dst, const GL &src, const COORD &idx) {
        detail::load_shared<2, GROUP_THREADS>(dst, src, idx, laneid());
    }
#ifdef KITTENS_CDNA4
    /// What direct loads of tiles like dst need beside the coordinate: one number for each of a lane's loads of a tile,
    /// and one more.
    template <int axis = 2, ducks::st::all ST, ducks::gl::all GL>
        requires(ST::positions::direct)
    __device__ static __forceinline__ void prefill_swizzled_offsets(ST &dst, const GL &src, uint32_t *offsets) {
        detail::prefill_direct<axis, GROUP_THREADS>(dst, src, offsets, warpid());
    }
    /// The shared tile dst = the tile of src at idx, by the whole group, straight from global memory to LDS. In flight
    /// on return: a wave's part is in LDS when its vmcnt says so, the others' after a barrier that they reach in that
    /// state.
    template <ducks::st::all ST, ducks::gl::all GL, ducks::coord::all COORD = coord<ST>>
        requires(ST::positions::direct)
    __device__ static __forceinline__ void load(ST &dst, const GL &src, const COORD &idx, const uint32_t *offsets) {
        detail::load_direct<2, GROUP_THREADS>(dst, src, idx, offsets);
    }
    template <ducks::st::all ST, ducks::gl::all GL, ducks::coord::all COORD = coord<ST>>
        requires(ST::positions::direct)
    __device__ static __forceinline__ void load(ST &dst, const GL &src, const COORD &idx) {
        uint32_t offsets[detail::direct_share<ST, GROUP_THREADS>::passes + 1];
        detail::prefill_direct<2, GROUP_THREADS>(dst, src, offsets, warpid());
        detail::load_direct<2, GROUP_THREADS>(dst, src, idx, offsets);
    }
#endif

    /// The tile of dst at idx = the shared tile src, by the whole group.
    template <int axis, bool assume_aligned = false, ducks::st::all ST, ducks::gl::all GL,
              ducks::coord::all COORD = coord<ST>>
    __device__ static __forceinline__ void store(const GL &dst, const ST &src, const COORD &idx) {
        detail::store_shared<axis, GROUP_THREADS>(dst, src, idx, laneid());
    }
    template <ducks::st::all ST, ducks::gl::all GL, ducks::coord::all COORD = coord<ST>>
    __device__ static __forceinline__ void store(const GL &dst, const ST &src, const COORD &idx) {
        detail::store_shared<2, GROUP_THREADS>(dst, src, idx, laneid());
    }
};

using warpgroup = group<4>;

} // namespace kittens
