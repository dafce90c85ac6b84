/**
 * Tensors in global memory, coordinates, and the window through which one tile of a tensor is read or written.
 */
#pragma once

#include "base_types.cuh"

namespace kittens {

/* ---------- coordinates ---------- */

namespace ducks::coord {
struct identifier {};
} // namespace ducks::coord

/**
 * Where in a tensor: {b, d, r, c}, leading ones may be left out. coord<TILE> counts rows and columns in tiles,
 * coord<VECTOR> columns in vectors, coord<> in elements. A wave (or a whole group, for its collectives) passes one
 * value.
 */
template <typename UNIT = ducks::default_type> struct coord {
    using identifier = ducks::coord::identifier;
    using BASE = UNIT;
    int b, d, r, c;
    __host__ __device__ coord(int b_, int d_, int r_, int c_) : b(b_), d(d_), r(r_), c(c_) {}
    __host__ __device__ coord(int d_, int r_, int c_) : coord(0, d_, r_, c_) {}
    __host__ __device__ coord(int r_, int c_) : coord(0, 0, r_, c_) {}
    __host__ __device__ coord(int c_) : coord(0, 0, 0, c_) {}
    __host__ __device__ coord() : coord(0, 0, 0, 0) {}
    template <typename OTHER>
    __host__ __device__ coord(const coord<OTHER> &other) : coord(other.b, other.d, other.r, other.c) {}
};

namespace ducks::coord {
template <typename T>
concept all = requires { typename T::identifier; } && __is_same(typename T::identifier, identifier);
} // namespace ducks::coord

/* ---------- tensors ---------- */

namespace ducks::gl {
struct identifier {};
template <typename T>
concept all = requires { typename T::identifier; } && __is_same(typename T::identifier, identifier);

/// One extent. A compile-time extent is an empty type, a different one per axis, so that none of them takes storage.
template <int axis, int extent> struct dim {
    static_assert(extent > 0, "an extent is positive, or -1 for one known at run time");
    __host__ __device__ constexpr dim(decltype(nullptr)) {}
    __host__ __device__ constexpr dim(size_t) {}
    __host__ __device__ static constexpr size_t value() { return extent; }
};
template <int axis> struct dim<axis, -1> {
    size_t v;
    __host__ __device__ constexpr dim(size_t extent) : v(extent) {}
    __host__ __device__ constexpr size_t value() const { return v; }
};
} // namespace ducks::gl

namespace cache {
/// What a buffer instruction says of the caches (LLVM AMDGPUUsage, "buffer" intrinsics, aux): nothing; that the data is
/// used once (nt from gfx940 on, slc before).
constexpr int all = 0, stream = 2;
} // namespace cache

/**
 * A row-major tensor {batch, depth, rows, cols} in global memory; an extent of -1 is known at run time.
 *
 * Layout, also as part of a kernel argument: the 8-byte pointer, then one 8-byte integer per run-time extent in the
 * order b, d, r, c. Compile-time extents occupy nothing: gl<bf16, 1, 1, 128, 64> is its pointer alone.
 *
 * `policy` is how its loads and stores of tiles use the caches.
 */
template <typename T_, int b, int d, int r, int c, int policy = cache::all> struct gl {
    using identifier = ducks::gl::identifier;
    using T = typename base_types::packing<T_>::unpacked_type;
    using T2 = typename base_types::packing<T_>::packed_type;
    using dtype = T;

    T *raw_ptr;

    static constexpr int cache_policy = policy;
    static constexpr int __b__ = b, __d__ = d, __r__ = r, __c__ = c;
    [[no_unique_address]] ducks::gl::dim<0, b> batch_internal;
    [[no_unique_address]] ducks::gl::dim<1, d> depth_internal;
    [[no_unique_address]] ducks::gl::dim<2, r> rows_internal;
    [[no_unique_address]] ducks::gl::dim<3, c> cols_internal;

    /// Extents known at compile time may be given as nullptr or as their value.
    __host__ __device__ gl(T *data, ducks::gl::dim<0, b> batch, ducks::gl::dim<1, d> depth, ducks::gl::dim<2, r> rows,
                           ducks::gl::dim<3, c> cols)
        : raw_ptr(data), batch_internal(batch), depth_internal(depth), rows_internal(rows), cols_internal(cols) {}

    __host__ __device__ __forceinline__ int batch() const { return int(batch_internal.value()); }
    __host__ __device__ __forceinline__ int depth() const { return int(depth_internal.value()); }
    __host__ __device__ __forceinline__ int rows() const { return int(rows_internal.value()); }
    __host__ __device__ __forceinline__ int cols() const { return int(cols_internal.value()); }

    /// Extent of axis 0 (batch) .. 3 (column).
    template <int axis> __host__ __device__ __forceinline__ size_t shape() const {
        static_assert(axis >= 0 && axis <= 3);
        if constexpr (axis == 0) return batch_internal.value();
        else if constexpr (axis == 1) return depth_internal.value();
        else if constexpr (axis == 2) return rows_internal.value();
        else return cols_internal.value();
    }
    /// Elements between neighbours along an axis.
    template <int axis> __host__ __device__ __forceinline__ size_t stride() const {
        if constexpr (axis == 3) return 1;
        else return stride<axis + 1>() * shape<axis + 1>();
    }
    /// The element at {b, d, r, c}.
    __device__ __forceinline__ T &operator[](const coord<ducks::default_type> &at) const {
        return raw_ptr[at.b * stride<0>() + at.d * stride<1>() + at.r * stride<2>() + at.c];
    }
};

/* ---------- buffer access ---------- */

namespace detail {

// Buffer instructions check each dword against the descriptor's range: a load outside reads 0, a store outside is
// dropped. The range check counts voffset, the instruction's offset and soffset (for a raw buffer: out of range if
// offset >= num_records - soffset, saturating; so measured on CDNA in ROCm/rocm-systems pull request 10928, so used by
// LLVM in llvm-project pull request 207796). An offset of OUTSIDE is beyond every range used here.
constexpr uint32_t OUTSIDE = 0x80000000u;
constexpr uint32_t LARGEST_RANGE = 0x7fffff00u;
// Third dword of a raw buffer descriptor on gfx9: DATA_FORMAT = 32 (CDNA3 ISA, "Buffer resource descriptor").
constexpr int RAW_BUFFER_FLAGS = 0x00020000;

using buffer = __amdgpu_buffer_rsrc_t;

template <typename T, int policy = 0>
__device__ __forceinline__ T buffer_read(buffer resource, uint32_t voffset, uint32_t soffset = 0) {
    if constexpr (sizeof(T) == 1) return bits<T>(__builtin_amdgcn_raw_buffer_load_b8(resource, voffset, soffset, policy));
    else if constexpr (sizeof(T) == 2)
        return bits<T>(__builtin_amdgcn_raw_buffer_load_b16(resource, voffset, soffset, policy));
    else if constexpr (sizeof(T) == 4)
        return bits<T>(__builtin_amdgcn_raw_buffer_load_b32(resource, voffset, soffset, policy));
    else if constexpr (sizeof(T) == 8)
        return bits<T>(__builtin_amdgcn_raw_buffer_load_b64(resource, voffset, soffset, policy));
    else return bits<T>(__builtin_amdgcn_raw_buffer_load_b128(resource, voffset, soffset, policy));
}

/// Stores wider than 8 bytes must leave soffset 0: with an SGPR there gfx940-family hardware needs a wait state before
/// the data registers are overwritten, which clang adds only from 23 on (llvm-project pull request 197267).
template <typename T, int policy = 0>
__device__ __forceinline__ void buffer_write(buffer resource, T value, uint32_t voffset, uint32_t soffset = 0) {
    if constexpr (sizeof(T) == 1) {
        __builtin_amdgcn_raw_buffer_store_b8(bits<uint8_t>(value), resource, voffset, soffset, policy);
    } else if constexpr (sizeof(T) == 2) {
        __builtin_amdgcn_raw_buffer_store_b16(bits<uint16_t>(value), resource, voffset, soffset, policy);
    } else if constexpr (sizeof(T) == 4) {
        __builtin_amdgcn_raw_buffer_store_b32(bits<uint32_t>(value), resource, voffset, soffset, policy);
    } else if constexpr (sizeof(T) == 8) {
        __builtin_amdgcn_raw_buffer_store_b64(bits<u32x2>(value), resource, voffset, soffset, policy);
    } else {
        __builtin_amdgcn_raw_buffer_store_b128(bits<u32x4>(value), resource, voffset + soffset, 0, policy);
    }
}

/**
 * The tile `rows` x `cols` of a tensor at a coordinate in tiles, rows running along `axis`, as a buffer.
 *
 * An element (i, j) of the tile is at voffset = i * row_bytes + j * sizeof(T), soffset = origin. Rows past the end of
 * the matrix fall out of the buffer's range. Columns past its end must be sent OUTSIDE by `column()`; where the extents
 * show at compile time that no tile overhangs, that costs nothing. Where one may, a row must be a multiple of 16 bytes
 * long, so that no 16-byte access straddles its end.
 *
 * The descriptor is 64-bit base plus 32-bit range. For extents known at compile time and planes below 2 GiB it spans
 * the whole (b, d) plane and the tile's position is the 32-bit origin: the descriptor stays the same through a loop
 * over tiles. Otherwise the base is the first row of the tile, so tensors may be larger than 4 GiB.
 */
template <int axis, int rows, int cols, typename GL> struct tile_window {
    using T = typename GL::dtype;
    static constexpr int size = sizeof(T), policy = GL::cache_policy;
    static constexpr bool static_plane = axis == 2 && GL::__r__ > 0 && GL::__c__ > 0;
    static constexpr bool plane_fits = static_plane && uint64_t(GL::__r__) * uint64_t(GL::__c__) * size < LARGEST_RANGE;
    static constexpr bool columns_divide = GL::__c__ > 0 && GL::__c__ % cols == 0;
    static_assert(GL::__c__ < 0 || columns_divide || GL::__c__ * size % 16 == 0,
                  "where tiles overhang a row's end, the row must be a multiple of 16 bytes");

    buffer resource; // from `start` on, `range` bytes
    T *start;
    uint32_t range;
    uint32_t origin;
    uint32_t row_bytes;
    int valid_column_bytes; // of one row, from the tile's first column on; may be negative

    template <typename COORD> __device__ __forceinline__ tile_window(const GL &tensor, const COORD &at) {
        constexpr bool in_tiles = !__is_same(typename COORD::BASE, ducks::default_type);
        constexpr int row_unit = in_tiles ? rows : 1, col_unit = in_tiles ? cols : 1;
        const int first_col = at.c * col_unit;
        row_bytes = uint32_t(tensor.template stride<axis>() * size);
        valid_column_bytes = (int(tensor.template shape<3>()) - first_col) * size;

        const int first_row = (axis == 0 ? at.b : axis == 1 ? at.d : at.r) * row_unit;
        uint64_t base = (axis == 0 ? 0 : at.b * tensor.template stride<0>()) +
                        (axis == 1 ? 0 : at.d * tensor.template stride<1>()) +
                        (axis == 2 ? 0 : at.r * tensor.template stride<2>());
        if constexpr (plane_fits) {
            range = uint32_t(GL::__r__) * uint32_t(GL::__c__) * size;
            origin = uint32_t(first_row) * row_bytes + uint32_t(first_col * size);
        } else {
            base += uint64_t(first_row) * tensor.template stride<axis>();
            // The tile's rows alone: in 32 bits. A 64-bit comparison is not one of the scalar unit's, and would become
            // a branch, or take the range to a vector register.
            const int rows_left = int(tensor.template shape<axis>()) - first_row;
            const uint32_t bytes = min(uint32_t(min(rows_left, rows)) * row_bytes, LARGEST_RANGE);
            range = rows_left > 0 ? bytes : 0;
            origin = uint32_t(first_col * size);
        }
        start = tensor.raw_ptr + base;
        resource = __builtin_amdgcn_make_buffer_rsrc(start, 0, range, RAW_BUFFER_FLAGS);
    }

    /// `voffset`, or OUTSIDE if the tile's byte column `column_bytes` lies past the end of the row.
    __device__ __forceinline__ uint32_t column(uint32_t voffset, int column_bytes) const {
        if constexpr (columns_divide) return voffset;
        else return column_bytes < valid_column_bytes ? voffset : OUTSIDE;
    }
};

} // namespace detail
} // namespace kittens
