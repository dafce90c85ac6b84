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
 * One lane's view of a shared tile or subtile: the address of its part of base tile (i, j), as a base that does not depend on i and j where
 * possible, plus a constant.
 *
 * In row layout a lane's four elements are 8 (or, floats, 16) consecutive bytes. In col layout they are in four rows, whose positions inside a
 * panel differ by an exclusive-or that depends on the lane: `element` selects the row.
 */
template <typename ST, bool is_row> struct lane_view {
    using positions = typename ST::positions;
    using T = typename ST::dtype;
    static constexpr int per_panel = positions::panel_cols / TILE_DIM; // base tiles side by side in a panel
    static constexpr int elements = is_row ? 1 : 4;

    lds_byte *panel_base[elements];
    lds_byte *half_base[elements];
    int first_tile_col;

    __device__ __forceinline__ lane_view(const ST &tile) : first_tile_col(tile.col_offset / TILE_DIM) {
        const int lane = laneid(), low = lane & 15, high = lane >> 4;
        const int first_tile_row = tile.row_offset / TILE_DIM;
        lds_byte *start = tile.address();
        #pragma unroll
        for (int e = 0; e < elements; e++) {
            const int row = is_row ? low : 4 * high + e;
            const int q = is_row ? high : low >> 2;
            const int within = is_row ? 0 : (low & 3) * int(sizeof(T));
            panel_base[e] = start + positions::chunk(row, q) + within + first_tile_row * positions::row16_bytes;
            half_base[e] = start + positions::half_panel_start + positions::unit(row, q) + within + first_tile_row * positions::half_row16_bytes;
        }
    }

    /// Whether base tile column j lies in the half panel.
    __device__ __forceinline__ bool in_half_panel(int j) const { return positions::half_panel && first_tile_col + j == positions::panels * per_panel; }

    __device__ __forceinline__ lds_byte *at(int i, int j, int e) const {
        const int column = first_tile_col + j;
        lds_byte *in_panel = panel_base[e] + (column / per_panel) * positions::panel_bytes + (column % per_panel) * 8 + i * positions::row16_bytes;
        if constexpr (!positions::half_panel) return in_panel;
        else return in_half_panel(j) ? half_base[e] + i * positions::half_row16_bytes : in_panel;
    }

    /// Whether base tiles (i, j) and (i, j + 1) are one 16-byte chunk.
    static constexpr bool pairs = per_panel == 2 && is_row;
};

/// Whether a lane's parts of base tiles j and j + 1 always share a chunk, for even j: the tile's first column is then a multiple of 32.
template <typename ST> constexpr bool starts_on_a_panel = ST::cols % 32 == 0 || ST::cols == ST::underlying_cols;

} // namespace detail

/// dst = the shared tile src; equal shapes. Any element types: converts.
template <ducks::rt::all RT, ducks::st::all ST> __device__ __forceinline__ void load(RT &dst, const ST &src) {
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols, "register tile and shared tile must have the same shape");
    using T = typename RT::T;
    using U = typename ST::dtype;
    const detail::lane_view<ST, RT::is_row> view(src);
    #pragma unroll
    for (int i = 0; i < RT::height; i++) {
        #pragma unroll
        for (int j = 0; j < RT::width; j++) {
            if constexpr (!RT::is_row) {
                detail::vec<U, 4> value;
                #pragma unroll
                for (int e = 0; e < 4; e++) value[e] = detail::lds_read<U>(view.at(i, j, e));
                dst.tiles[i][j].set(detail::convert_quad<T, U>(value));
            } else if constexpr (view.pairs && detail::starts_on_a_panel<ST>) {
                if (j % 2 == 0 && j + 1 < RT::width) {
                    const auto both = detail::lds_read<detail::vec<U, 8>>(view.at(i, j, 0));
                    dst.tiles[i][j].set(detail::convert_quad<T, U>(both.lo));
                    dst.tiles[i][j + 1].set(detail::convert_quad<T, U>(both.hi));
                } else if (j % 2 == 0) {
                    dst.tiles[i][j].set(detail::convert_quad<T, U>(detail::lds_read<detail::vec<U, 4>>(view.at(i, j, 0))));
                }
            } else {
                dst.tiles[i][j].set(detail::convert_quad<T, U>(detail::lds_read<detail::vec<U, 4>>(view.at(i, j, 0))));
            }
        }
    }
}

/// The shared tile dst = src; equal shapes. Any element types: converts, rounding to nearest even.
template <ducks::st::all ST, ducks::rt::all RT> __device__ __forceinline__ void store(ST &dst, const RT &src) {
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols, "register tile and shared tile must have the same shape");
    using T = typename RT::T;
    using U = typename ST::dtype;
    const detail::lane_view<ST, RT::is_row> view(dst);
    #pragma unroll
    for (int i = 0; i < RT::height; i++) {
        #pragma unroll
        for (int j = 0; j < RT::width; j++) {
            const auto value = detail::convert_quad<U, T>(src.tiles[i][j].get());
            if constexpr (!RT::is_row) {
                #pragma unroll
                for (int e = 0; e < 4; e++) detail::lds_write<U>(view.at(i, j, e), 0, value[e]);
            } else if constexpr (view.pairs && detail::starts_on_a_panel<ST>) {
                if (j % 2 == 0 && j + 1 < RT::width) {
                    detail::vec<U, 8> both;
                    both.lo = value;
                    both.hi = detail::convert_quad<U, T>(src.tiles[i][j + 1].get());
                    detail::lds_write(view.at(i, j, 0), 0, both);
                } else if (j % 2 == 0) {
                    detail::lds_write(view.at(i, j, 0), 0, value);
                }
            } else {
                detail::lds_write(view.at(i, j, 0), 0, value);
            }
        }
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
        detail::lds_write(dst.address() + element * int(sizeof(typename SV::dtype)), 0, memory::get(src, o));
    });
}

} // namespace kittens
