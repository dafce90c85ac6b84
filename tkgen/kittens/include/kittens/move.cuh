/**
 * Loads and stores by one wave: shared <-> registers, global <-> registers; tiles and vectors.
 *
 * Nothing here waits: the compiler knows every access and places exact waits before the first use.
 */
#pragma once

#include "global.cuh"
#include "registers.cuh"
#include "shared.cuh"

namespace kittens {

namespace detail {

template <typename To, typename From> __device__ __forceinline__ vec<To, 4> convert_quad(const vec<From, 4> &value) {
    if constexpr (__is_same(To, From)) return value;
    else return __builtin_convertvector(value, vec<To, 4>);
}

/* ---------- shared <-> registers ---------- */

/**
 * One lane's addresses in a shared tile or subtile: where its part of base tile (i, j) lies. They are a base that does not depend on i and j,
 * plus constants.
 *
 * In row layout a lane's four elements are consecutive: 16 bytes of floats; of 2-byte elements 8 bytes, and the other 8 of that chunk
 * are its part of the neighbouring base tile. In col layout they are in four rows, whose positions in a panel differ by
 * an exclusive-or that depends on the lane: one base for each, selected by `e`.
 */
template <typename ST, bool is_row> struct lane_view {
    using positions = typename ST::positions;
    using T = typename ST::dtype;
    static constexpr int per_panel = positions::panel_cols / TILE_DIM; // base tiles side by side in a panel
    static constexpr int rows_owned = is_row ? 1 : 4;

    uint32_t panel_base[rows_owned];
    uint32_t half_panel_base[rows_owned];
    int first_column; // in base tiles

    __device__ __forceinline__ lane_view(const ST &tile) : first_column(tile.col_offset / TILE_DIM) {
        const uint32_t low = laneid() & 15, high = laneid() >> 4;
        const uint32_t q = is_row ? high : low >> 2, element = is_row ? 0 : (low & 3) * sizeof(T);
        #pragma unroll
        for (int e = 0; e < rows_owned; e++) {
            const uint32_t row = is_row ? low : 4 * high + e;
            panel_base[e] = tile.address() + tile.row_offset * positions::row_bytes + (positions::chunk(row, q) + element);
            half_panel_base[e] =
                tile.address() + tile.row_offset * positions::half_row_bytes + (positions::half_panel_start + positions::unit(row, q) + element);
        }
    }

    /// Whether base tile column j is the half panel.
    __device__ __forceinline__ bool in_half_panel(int j) const { return positions::half_panel && first_column + j == positions::panels * per_panel; }
    /// Which half of its chunks base tile column j is, where a chunk serves two.
    __device__ __forceinline__ int chunk_half(int j) const { return (first_column + j) % per_panel; }

    /// The chunk (row layout) or the element (col layout, row e of four) of base tile (i, j) in a panel.
    __device__ __forceinline__ uint32_t in_panel(int i, int j, int e = 0) const {
        const uint32_t panel = uint32_t(first_column + j) / per_panel;
        return panel_base[e] + panel * positions::panel_bytes + i * TILE_DIM * positions::row_bytes + (is_row ? 0 : chunk_half(j) * 8);
    }
    /// The same in the half panel.
    __device__ __forceinline__ uint32_t in_half(int i, int e = 0) const { return half_panel_base[e] + i * TILE_DIM * positions::half_row_bytes; }

    /// The lane's four elements of base tile (i, j). A chunk is read whole, also where only half of it is wanted: 8-byte reads of one half would meet in
    /// half of the banks. The compiler merges the reads of the two halves of a chunk.
    __device__ __forceinline__ vec<T, 4> read(int i, int j) const {
        if constexpr (!is_row) {
            vec<T, 4> value;
            #pragma unroll
            for (int e = 0; e < 4; e++) value[e] = lds_read<T>(in_half_panel(j) ? in_half(i, e) : in_panel(i, j, e));
            return value;
        } else if constexpr (per_panel == 1) {
            return lds_read<vec<T, 4>>(in_panel(i, j));
        } else {
            if (in_half_panel(j)) return lds_read<vec<T, 4>>(in_half(i));
            const auto chunk = lds_read<vec<T, 8>>(in_panel(i, j));
            return chunk_half(j) == 0 ? chunk.lo : chunk.hi;
        }
    }

    __device__ __forceinline__ void write(int i, int j, const vec<T, 4> &value) const {
        if constexpr (!is_row) {
            #pragma unroll
            for (int e = 0; e < 4; e++) lds_write<T>(in_half_panel(j) ? in_half(i, e) : in_panel(i, j, e), value[e]);
        } else {
            lds_write<vec<T, 4>>(in_half_panel(j) ? in_half(i) : in_panel(i, j) + chunk_half(j) * 8, value);
        }
    }
    /// Both halves of a chunk at once: base tiles (i, j) and (i, j + 1), j even.
    __device__ __forceinline__ void write_chunk(int i, int j, const vec<T, 4> &low, const vec<T, 4> &high) const {
        vec<T, 8> chunk;
        chunk.lo = low;
        chunk.hi = high;
        lds_write<vec<T, 8>>(in_panel(i, j), chunk);
    }

    /// Whether base tiles (i, j) and (i, j + 1), j even, always share their chunks: the tile then begins at a multiple of 32 columns.
    static constexpr bool whole_chunks = is_row && per_panel == 2 && (ST::cols % 32 == 0 || ST::cols == ST::underlying_cols);
};

} // namespace detail

/// dst = the shared tile src; equal shapes. Any element types: converts.
template <ducks::rt::all RT, ducks::st::all ST> __device__ __forceinline__ void load(RT &dst, const ST &src) {
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols, "register tile and shared tile must have the same shape");
    const detail::lane_view<ST, RT::is_row> view(src);
    #pragma unroll
    for (int i = 0; i < RT::height; i++)
        #pragma unroll
        for (int j = 0; j < RT::width; j++) dst.tiles[i][j].set(detail::convert_quad<typename RT::T, typename ST::dtype>(view.read(i, j)));
}

/// The shared tile dst = src; equal shapes. Any element types: converts, rounding to nearest even.
template <ducks::st::all ST, ducks::rt::all RT> __device__ __forceinline__ void store(ST &dst, const RT &src) {
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols, "register tile and shared tile must have the same shape");
    const detail::lane_view<ST, RT::is_row> view(dst);
    const auto converted = [&](int i, int j) { return detail::convert_quad<typename ST::dtype, typename RT::T>(src.tiles[i][j].get()); };
    #pragma unroll
    for (int i = 0; i < RT::height; i++)
        #pragma unroll
        for (int j = 0; j < RT::width; j++) {
            if (view.whole_chunks && j % 2 == 0 && j + 1 < RT::width) view.write_chunk(i, j, converted(i, j), converted(i, j + 1));
            else if (!(view.whole_chunks && j % 2 == 1)) view.write(i, j, converted(i, j));
        }
}

/// A subtile made in place (a temporary) can be stored to as well.
template <ducks::st::all ST, ducks::rt::all RT> __device__ __forceinline__ void store(ST &&dst, const RT &src) { store(dst, src); }

/* ---------- global <-> registers ---------- */

/// dst = the tile of src at idx, counted in tiles; rows run along `axis`. Elements outside the tensor read as 0.
template <int axis, ducks::rt::all RT, ducks::gl::all GL, ducks::coord::all COORD = coord<RT>>
__device__ __forceinline__ void load(RT &dst, const GL &src, const COORD &idx) {
    using T = typename RT::T;
    using U = typename GL::dtype;
    constexpr int size = sizeof(U);
    const detail::tile_window<axis, RT::rows, RT::cols, GL> window(src, idx);
    const uint32_t lane = laneid(), low = lane & 15, high = lane >> 4;
    #pragma unroll
    for (int j = 0; j < RT::width; j++) {
        const int column = int(RT::is_row ? 4 * high : low) * size + j * TILE_DIM * size;
        const uint32_t voffset = window.column((RT::is_row ? low : 4 * high) * window.row_bytes + column, column);
        #pragma unroll
        for (int i = 0; i < RT::height; i++) {
            const uint32_t soffset = window.origin + i * TILE_DIM * window.row_bytes;
            detail::vec<U, 4> value;
            if constexpr (RT::is_row) {
                value = detail::buffer_read<detail::vec<U, 4>>(window.resource, voffset, soffset);
            } else {
                #pragma unroll
                for (int e = 0; e < 4; e++) value[e] = detail::buffer_read<U>(window.resource, voffset, soffset + e * window.row_bytes);
            }
            dst.tiles[i][j].set(detail::convert_quad<T, U>(value));
        }
    }
}
template <ducks::rt::all RT, ducks::gl::all GL, ducks::coord::all COORD = coord<RT>>
__device__ __forceinline__ void load(RT &dst, const GL &src, const COORD &idx) {
    load<2, RT, GL, COORD>(dst, src, idx);
}

/// The tile of dst at idx, counted in tiles, = src; rows run along `axis`. Elements outside the tensor are dropped.
template <int axis, ducks::rt::all RT, ducks::gl::all GL, ducks::coord::all COORD = coord<RT>>
__device__ __forceinline__ void store(const GL &dst, const RT &src, const COORD &idx) {
    using T = typename RT::T;
    using U = typename GL::dtype;
    constexpr int size = sizeof(U);
    const detail::tile_window<axis, RT::rows, RT::cols, GL> window(dst, idx);
    const uint32_t lane = laneid(), low = lane & 15, high = lane >> 4;
    #pragma unroll
    for (int i = 0; i < RT::height; i++) {
        const uint32_t soffset = window.origin + i * TILE_DIM * window.row_bytes;
        #pragma unroll
        for (int j = 0; j < RT::width; j++) {
            const int column = int(RT::is_row ? 4 * high : low) * size + j * TILE_DIM * size;
            const uint32_t voffset = window.column((RT::is_row ? low : 4 * high) * window.row_bytes + column, column);
            const auto value = detail::convert_quad<U, T>(src.tiles[i][j].get());
            if constexpr (RT::is_row) {
                detail::buffer_write(window.resource, value, voffset, soffset);
            } else {
                #pragma unroll
                for (int e = 0; e < 4; e++) detail::buffer_write<U>(window.resource, value[e], voffset, soffset + e * window.row_bytes);
            }
        }
    }
}
template <ducks::rt::all RT, ducks::gl::all GL, ducks::coord::all COORD = coord<RT>>
__device__ __forceinline__ void store(const GL &dst, const RT &src, const COORD &idx) {
    store<2, RT, GL, COORD>(dst, src, idx);
}

/* ---------- vectors ---------- */

namespace detail {

/// Calls access(outer, element) for what this lane owns of a vector: `element` is the first index of data[outer]. A naive vector's last,
/// partial 64 are accessed by the lanes that have an element.
template <typename RV, typename F> __device__ __forceinline__ void for_each_owned(F access) {
    const int lane = laneid();
    #pragma unroll
    for (int o = 0; o < RV::outer_dim; o++) {
        if constexpr (RV::is_align) {
            access(o, o * TILE_DIM + 4 * (lane >> 4));
        } else if constexpr (RV::is_ortho) {
            access(o, o * TILE_DIM + (lane & 15));
        } else if (RV::length % WARP_THREADS == 0 || o * WARP_THREADS + lane < RV::length) {
            access(o, o * WARP_THREADS + lane);
        }
    }
}

/// What one access to data[outer] moves: four elements or one.
template <typename RV, typename U> struct owned {
    static constexpr int count = RV::is_align ? 4 : 1;
    using type = conditional_t<RV::is_align, vec<U, 4>, U>;

    template <typename MEMORY> __device__ static __forceinline__ void set(RV &v, int o, const MEMORY &value) {
        using T = typename RV::T;
        if constexpr (RV::is_align) {
            const auto converted = convert_quad<T, U>(value);
            __builtin_memcpy(v.data[o], &converted, sizeof(converted));
        } else {
            v.data[o][0] = T(value);
        }
    }
    __device__ static __forceinline__ type get(const RV &v, int o) {
        using T = typename RV::T;
        if constexpr (RV::is_align) {
            vec<T, 4> value;
            __builtin_memcpy(&value, v.data[o], sizeof(value));
            return convert_quad<U, T>(value);
        } else {
            return U(v.data[o][0]);
        }
    }
};

/// The elements of a tensor from a vector coordinate to the end of its row, as a buffer whose first byte is element 0.
template <typename GL, typename COORD> __device__ __forceinline__ buffer vector_buffer(const GL &tensor, const COORD &at, int length) {
    constexpr bool in_vectors = !__is_same(typename COORD::BASE, ducks::default_type);
    const int first = in_vectors ? at.c * length : at.c;
    const uint64_t base = at.b * tensor.template stride<0>() + at.d * tensor.template stride<1>() + at.r * tensor.template stride<2>() + first;
    const int left = int(tensor.template shape<3>()) - first;
    const int elements = left < 0 ? 0 : left < length ? left : length;
    return __builtin_amdgcn_make_buffer_rsrc(tensor.raw_ptr + base, 0, elements * int(sizeof(typename GL::dtype)), RAW_BUFFER_FLAGS);
}

} // namespace detail

/// dst = the vector of src at idx: along the columns, column counted in vectors. Elements past the end of the row read as 0.
template <ducks::rv::all RV, ducks::gl::all GL, ducks::coord::all COORD = coord<RV>>
__device__ __forceinline__ void load(RV &dst, const GL &src, const COORD &idx) {
    using memory = detail::owned<RV, typename GL::dtype>;
    const auto resource = detail::vector_buffer(src, idx, RV::length);
    detail::for_each_owned<RV>([&](int o, int element) {
        memory::set(dst, o, detail::buffer_read<typename memory::type>(resource, element * sizeof(typename GL::dtype)));
    });
}
/// The vector of dst at idx = src.
template <ducks::rv::all RV, ducks::gl::all GL, ducks::coord::all COORD = coord<RV>>
__device__ __forceinline__ void store(const GL &dst, const RV &src, const COORD &idx) {
    using memory = detail::owned<RV, typename GL::dtype>;
    const auto resource = detail::vector_buffer(dst, idx, RV::length);
    detail::for_each_owned<RV>([&](int o, int element) {
        detail::buffer_write<typename memory::type>(resource, memory::get(src, o), element * sizeof(typename GL::dtype));
    });
}

/// dst = the shared vector src; equal lengths.
template <ducks::rv::all RV, ducks::sv::all SV> __device__ __forceinline__ void load(RV &dst, const SV &src) {
    static_assert(RV::length == SV::length, "register vector and shared vector must have the same length");
    using memory = detail::owned<RV, typename SV::dtype>;
    detail::for_each_owned<RV>([&](int o, int element) {
        memory::set(dst, o, detail::lds_read<typename memory::type>(src.address() + element * int(sizeof(typename SV::dtype))));
    });
}
/// The shared vector dst = src; equal lengths.
template <ducks::sv::all SV, ducks::rv::all RV> __device__ __forceinline__ void store(SV &dst, const RV &src) {
    static_assert(RV::length == SV::length, "register vector and shared vector must have the same length");
    using memory = detail::owned<RV, typename SV::dtype>;
    detail::for_each_owned<RV>([&](int o, int element) {
        detail::lds_write(dst.address() + element * int(sizeof(typename SV::dtype)), memory::get(src, o));
    });
}

} // namespace kittens
