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

/* ---------- shared <-> registers ---------- */

#ifdef KITTENS_CDNA4
/// Sixteen lanes read 8 bytes each, lanes 4 j..4 j + 3 the 16 elements of row j of four; lane i of them gets element i
/// of every row (CDNA4 ISA, DS_READ_B64_TR_B16).
template <typename T> __device__ __forceinline__ vec<T, 4> lds_read_transposed(lds_byte *address) {
    using raw = vec<short, 4>;
    return bits<vec<T, 4>>(__builtin_amdgcn_ds_read_tr16_b64_v4i16((__attribute__((address_space(3))) raw *)address));
}
#endif

/**
 * One lane's addresses in a shared tile or subtile, for a register tile of a given layout and shape: a base, plus
 * constants for each of its quads.
 *
 * In row layout a quad is consecutive: 16 bytes of floats; of 2-byte elements 8 bytes, half of a chunk, whose other
 * half belongs to the quad 16 columns further. In col layout its elements are in four rows, whose positions in a panel
 * differ by an exclusive-or that depends on the lane: one base for each. So do the two chunks of a row that a lane owns
 * of a 32x32 base tile; 8 rows further, positions repeat. On gfx950 a quad in col layout of 2-byte elements is one
 * transposing read, of 8 bytes of the row that the lane is given.
 */
template <typename ST, typename RT> struct lane_view {
    using positions = typename ST::positions;
    using T = typename ST::dtype;
    using shape = typename RT::shape;
    static constexpr bool is_row = RT::is_row;
    static constexpr int halves = 4 / sizeof(T); // 16 columns are a half of a chunk, or a panel
    static constexpr int bases = is_row ? (shape::side == 32 ? 2 : 1) : 4;
#ifdef KITTENS_CDNA4
    static constexpr bool transposes = !is_row && sizeof(T) == 2 && !positions::half_panel;
    lds_byte *row_base; // of the row that this lane reads for the four that it gets
#else
    static constexpr bool transposes = false;
#endif

    lds_byte *panel_base[bases];
    lds_byte *half_panel_base[bases];
    int first_columns16; // columns before the tile's first that are not in the bases, in units of 16

    // A tile whose width is a multiple of the panels' begins a panel: what is before it is then added to the bases
    // once.
    static constexpr bool begins_panel = ST::cols % positions::panel_cols == 0 || ST::cols == ST::underlying_cols;

    __device__ __forceinline__ lane_view(const ST &tile) : first_columns16(begins_panel ? 0 : tile.col_offset / 16) {
#pragma unroll
        for (int b = 0; b < bases; b++) {
            const uint32_t row = is_row ? shape::line() : shape::first() + b;
            const uint32_t column = is_row ? shape::first() + b * shape::quad_stride : shape::line();
            const int columns_before =
                begins_panel ? tile.col_offset / positions::panel_cols * positions::panel_bytes : 0;
            panel_base[b] = lds_pointer(tile.data, positions::in_panel(row, column),
                                        tile.row_offset * positions::row_bytes + columns_before);
            half_panel_base[b] = lds_pointer(tile.data, positions::in_half_panel(row, column),
                                             tile.row_offset * positions::half_row_bytes);
        }
#ifdef KITTENS_CDNA4
        if constexpr (transposes) {
            const uint32_t lane = laneid(), group = lane / 16 % (shape::side / 16);
            const int columns_before =
                begins_panel ? tile.col_offset / positions::panel_cols * positions::panel_bytes : 0;
            row_base = lds_pointer(tile.data,
                                   positions::in_panel(shape::first() + lane % 16 / 4, group * 16 + lane % 4 * 4),
                                   tile.row_offset * positions::row_bytes + columns_before);
        }
#endif
    }

    /// Where quad m of base tile column j begins (row layout) or lies (col layout) past the bases, in units of 16
    /// columns.
    __device__ __forceinline__ int columns16(int j, int m) const {
        return first_columns16 + j * (shape::side / 16) + (is_row ? m * shape::quad_stride / 16 : 0);
    }
    __device__ __forceinline__ static bool in_half_panel(int columns16) {
        constexpr bool possible = positions::half_panel && (!begins_panel || ST::cols == ST::underlying_cols);
        return possible && columns16 == positions::panels * halves;
    }

    /// The chunk of a quad (row layout), or its element e (col layout), in a panel.
    __device__ __forceinline__ lds_byte *in_panel(int i, int columns16, int m, int e = 0) const {
        const int rows = i * shape::side + (is_row ? 0 : m * shape::quad_stride);
        return panel_base[is_row ? m % bases : e] +
               ((columns16 >> (halves - 1)) * positions::panel_bytes + (is_row ? 0 : (columns16 & (halves - 1)) * 8) +
                rows * positions::row_bytes);
    }
    /// The same in the half panel, where a quad is a unit of its own.
    __device__ __forceinline__ lds_byte *in_half(int i, int e = 0) const {
        return half_panel_base[e] + i * shape::side * positions::half_row_bytes;
    }

    /// Quad m of base tile (i, j). A chunk is read whole, also where only half of it is wanted: the compiler merges the
    /// reads for its two halves. (Of a half that it finds unused it may read 8 bytes instead; two lanes then meet in a
    /// bank, which takes as long as reading all 16.)
    __device__ __forceinline__ vec<T, 4> read(int i, int j, int m) const {
        const int c = columns16(j, m);
#ifdef KITTENS_CDNA4
        if constexpr (transposes) {
            const int rows = i * shape::side + m * shape::quad_stride;
            return lds_read_transposed<T>(row_base + (c >> 1) * positions::panel_bytes + (c & 1) * 8 +
                                          rows * positions::row_bytes);
        } else
#endif
        if constexpr (!is_row) {
            vec<T, 4> value;
#pragma unroll
            for (int e = 0; e < 4; e++) value[e] = lds_read<T>(in_half_panel(c) ? in_half(i, e) : in_panel(i, c, m, e));
            return value;
        } else if constexpr (halves == 1) {
            return lds_read<vec<T, 4>>(in_panel(i, c, m));
        } else {
            if (in_half_panel(c)) return lds_read<vec<T, 4>>(in_half(i));
            const auto chunk = lds_read<vec<T, 8>>(in_panel(i, c, m));
            return (c & 1) == 0 ? chunk.lo : chunk.hi;
        }
    }

    __device__ __forceinline__ void write(int i, int j, int m, const vec<T, 4> &value) const {
        const int c = columns16(j, m);
        if constexpr (!is_row) {
#pragma unroll
            for (int e = 0; e < 4; e++) lds_write<T>(in_half_panel(c) ? in_half(i, e) : in_panel(i, c, m, e), value[e]);
        } else {
            lds_write<vec<T, 4>>(in_half_panel(c) ? in_half(i) : in_panel(i, c, m) + (c & (halves - 1)) * 8, value);
        }
    }
    /// A whole chunk: quad m of base tile (i, j), which is its first half, and the quad 16 columns further.
    __device__ __forceinline__ void write_chunk(int i, int j, int m, const vec<T, 4> &first,
                                                const vec<T, 4> &second) const {
        vec<T, 8> chunk;
        chunk.lo = first;
        chunk.hi = second;
        lds_write<vec<T, 8>>(in_panel(i, columns16(j, m), m), chunk);
    }

    /// Whether the tile owns whole chunks of 2-byte elements, the last 16 columns perhaps excepted.
    static constexpr bool whole_chunks = is_row && halves == 2 && begins_panel;
};

} // namespace detail

/// dst = the shared tile src; equal shapes. Any element types: converts.
template <ducks::rt::all RT, ducks::st::all ST> __device__ __forceinline__ void load(RT &dst, const ST &src) {
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols,
                  "register tile and shared tile must have the same shape");
    const detail::lane_view<ST, RT> view(src);
    detail::for_each_quad<RT>([&](int i, int j, int m) {
        dst.tiles[i][j].set(detail::convert_vector<typename RT::T>(view.read(i, j, m)), m);
    });
}

/// The shared tile dst = src; equal shapes. Any element types: converts, rounding to nearest even.
template <ducks::st::all ST, ducks::rt::all RT> __device__ __forceinline__ void store(ST &dst, const RT &src) {
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols,
                  "register tile and shared tile must have the same shape");
    using view_t = detail::lane_view<ST, RT>;
    const view_t view(dst);
    const auto quad = [&](int i, int j, int m) {
        return detail::convert_vector<typename ST::dtype>(src.tiles[i][j].get(m));
    };
    detail::for_each_quad<RT>([&](int i, int j, int m) {
        if constexpr (!view_t::whole_chunks) {
            view.write(i, j, m, quad(i, j, m));
        } else if constexpr (RT::shape::side == 32) {
            if (m < 2) view.write_chunk(i, j, m, quad(i, j, m), quad(i, j, m + 2));
        } else {
            if (j % 2 == 0 && j + 1 < RT::width) view.write_chunk(i, j, m, quad(i, j, m), quad(i, j + 1, m));
            else if (j % 2 == 0) view.write(i, j, m, quad(i, j, m));
        }
    });
}

/// A subtile made in place (a temporary) can be stored to as well.
template <ducks::st::all ST, ducks::rt::all RT> __device__ __forceinline__ void store(ST &&dst, const RT &src) {
    store(dst, src);
}

/* ---------- global <-> registers ---------- */

namespace detail {

/// One lane's offsets in the buffer window of a register tile. voffset holds the lane's part, soffset what is uniform.
template <typename RT, typename WINDOW> struct lane_offsets {
    using shape = typename RT::shape;
    const WINDOW &window;

    /// Quad m of base tile column j: its first element (row layout), or its column (col layout).
    __device__ __forceinline__ uint32_t voffset(int j, int m) const {
        const uint32_t column =
            j * shape::side + (RT::is_row ? shape::first() + m * shape::quad_stride : shape::line());
        const uint32_t row = RT::is_row ? shape::line() : shape::first();
        return window.column(row * window.row_bytes + column * WINDOW::size, column * WINDOW::size);
    }
    /// Base tile row i and, in col layout, the row of element e of quad m.
    __device__ __forceinline__ uint32_t soffset(int i, int m, int e) const {
        return window.origin + (i * shape::side + (RT::is_row ? 0 : m * shape::quad_stride + e)) * window.row_bytes;
    }
};

} // namespace detail

/// dst = the tile of src at idx, counted in tiles; rows run along `axis`. Elements outside the tensor read as 0.
template <int axis, ducks::rt::all RT, ducks::gl::all GL, ducks::coord::all COORD = coord<RT>>
__device__ __forceinline__ void load(RT &dst, const GL &src, const COORD &idx) {
    using U = typename GL::dtype;
    const detail::tile_window<axis, RT::rows, RT::cols, GL> window(src, idx);
    const detail::lane_offsets<RT, decltype(window)> at{window};
    detail::for_each_quad<RT>([&](int i, int j, int m) {
        detail::vec<U, 4> value;
        if constexpr (RT::is_row) {
            value = detail::buffer_read<detail::vec<U, 4>, GL::cache_policy>(window.resource, at.voffset(j, m), at.soffset(i, m, 0));
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
                value[e] = detail::buffer_read<U, GL::cache_policy>(window.resource, at.voffset(j, m), at.soffset(i, m, e));
        }
        dst.tiles[i][j].set(detail::convert_vector<typename RT::T>(value), m);
    });
}
template <ducks::rt::all RT, ducks::gl::all GL, ducks::coord::all COORD = coord<RT>>
__device__ __forceinline__ void load(RT &dst, const GL &src, const COORD &idx) {
    load<2, RT, GL, COORD>(dst, src, idx);
}

/// The tile of dst at idx, counted in tiles, = src; rows run along `axis`. Elements outside the tensor are dropped.
template <int axis, ducks::rt::all RT, ducks::gl::all GL, ducks::coord::all COORD = coord<RT>>
__device__ __forceinline__ void store(const GL &dst, const RT &src, const COORD &idx) {
    using U = typename GL::dtype;
    const detail::tile_window<axis, RT::rows, RT::cols, GL> window(dst, idx);
    const detail::lane_offsets<RT, decltype(window)> at{window};
    detail::for_each_quad<RT>([&](int i, int j, int m) {
        const auto value = detail::convert_vector<U>(src.tiles[i][j].get(m));
        if constexpr (RT::is_row) {
            detail::buffer_write<decltype(value), GL::cache_policy>(window.resource, value, at.voffset(j, m), at.soffset(i, m, 0));
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
                detail::buffer_write<U, GL::cache_policy>(window.resource, value[e], at.voffset(j, m), at.soffset(i, m, e));
        }
    });
}
template <ducks::rt::all RT, ducks::gl::all GL, ducks::coord::all COORD = coord<RT>>
__device__ __forceinline__ void store(const GL &dst, const RT &src, const COORD &idx) {
    store<2, RT, GL, COORD>(dst, src, idx);
}

/* ---------- vectors ---------- */

namespace detail {

/// Calls access(outer, m, element) for what this lane owns of a vector: `element` is the first index of quad m of
/// data[outer], or the index of its one element. A naive vector's last, partial 64 are accessed by the lanes that have
/// an element.
template <typename RV, typename F> __device__ __forceinline__ void for_each_owned(F access) {
    using shape = typename RV::shape;
#pragma unroll
    for (int o = 0; o < RV::outer_dim; o++) {
        if constexpr (RV::is_align) {
#pragma unroll
            for (int m = 0; m < shape::quads; m++)
                access(o, m, o * shape::side + int(shape::first()) + m * shape::quad_stride);
        } else if constexpr (RV::is_ortho) {
            access(o, 0, o * shape::side + int(shape::line()));
        } else if (RV::length % WARP_THREADS == 0 || o * WARP_THREADS + laneid() < RV::length) {
            access(o, 0, o * WARP_THREADS + laneid());
        }
    }
}

/// What one access moves: four elements or one.
template <typename RV, typename U> struct owned {
    using T = typename RV::T;
    using type = conditional_t<RV::is_align, vec<U, 4>, U>;

    __device__ static __forceinline__ void set(RV &v, int o, int m, const type &value) {
        if constexpr (RV::is_align) {
            const auto converted = convert_vector<T>(value);
            __builtin_memcpy(v.data[o] + 2 * m, &converted, sizeof(converted));
        } else {
            v.data[o][0] = convert<T>(value);
        }
    }
    __device__ static __forceinline__ type get(const RV &v, int o, int m) {
        if constexpr (RV::is_align) {
            vec<T, 4> value;
            __builtin_memcpy(&value, v.data[o] + 2 * m, sizeof(value));
            return convert_vector<U>(value);
        } else {
            return convert<U>(v.data[o][0]);
        }
    }
};

/// The elements of a tensor from a vector coordinate to the end of its row, as a buffer whose first byte is element 0.
template <typename GL, typename COORD>
__device__ __forceinline__ buffer vector_buffer(const GL &tensor, const COORD &at, int length) {
    constexpr bool in_vectors = !__is_same(typename COORD::BASE, ducks::default_type);
    const int first = in_vectors ? at.c * length : at.c;
    const uint64_t base = at.b * tensor.template stride<0>() + at.d * tensor.template stride<1>() +
                          at.r * tensor.template stride<2>() + first;
    const int left = int(tensor.template shape<3>()) - first;
    const int elements = left < 0 ? 0 : left < length ? left : length;
    return __builtin_amdgcn_make_buffer_rsrc(tensor.raw_ptr + base, 0, elements * int(sizeof(typename GL::dtype)),
                                             RAW_BUFFER_FLAGS);
}

} // namespace detail

/// dst = the vector of src at idx: along the columns, column counted in vectors. Elements past the end of the row read
/// as 0.
template <ducks::rv::all RV, ducks::gl::all GL, ducks::coord::all COORD = coord<RV>>
__device__ __forceinline__ void load(RV &dst, const GL &src, const COORD &idx) {
    using memory = detail::owned<RV, typename GL::dtype>;
    const auto resource = detail::vector_buffer(src, idx, RV::length);
    detail::for_each_owned<RV>([&](int o, int m, int element) {
        memory::set(dst, o, m,
                    detail::buffer_read<typename memory::type>(resource, element * sizeof(typename GL::dtype)));
    });
}
/// The vector of dst at idx = src.
template <ducks::rv::all RV, ducks::gl::all GL, ducks::coord::all COORD = coord<RV>>
__device__ __forceinline__ void store(const GL &dst, const RV &src, const COORD &idx) {
    using memory = detail::owned<RV, typename GL::dtype>;
    const auto resource = detail::vector_buffer(dst, idx, RV::length);
    detail::for_each_owned<RV>([&](int o, int m, int element) {
        detail::buffer_write<typename memory::type>(resource, memory::get(src, o, m),
                                                    element * sizeof(typename GL::dtype));
    });
}

/// dst = the shared vector src; equal lengths.
template <ducks::rv::all RV, ducks::sv::all SV> __device__ __forceinline__ void load(RV &dst, const SV &src) {
    static_assert(RV::length == SV::length, "register vector and shared vector must have the same length");
    using memory = detail::owned<RV, typename SV::dtype>;
    detail::for_each_owned<RV>([&](int o, int m, int element) {
        memory::set(dst, o, m,
                    detail::lds_read<typename memory::type>((const detail::lds_byte *)src.data +
                                                            element * int(sizeof(typename SV::dtype))));
    });
}
/// The shared vector dst = src; equal lengths.
template <ducks::sv::all SV, ducks::rv::all RV> __device__ __forceinline__ void store(SV &dst, const RV &src) {
    static_assert(RV::length == SV::length, "register vector and shared vector must have the same length");
    using memory = detail::owned<RV, typename SV::dtype>;
    detail::for_each_owned<RV>([&](int o, int m, int element) {
        detail::lds_write((detail::lds_byte *)dst.data + element * int(sizeof(typename SV::dtype)),
                          memory::get(src, o, m));
    });
}

} // namespace kittens
