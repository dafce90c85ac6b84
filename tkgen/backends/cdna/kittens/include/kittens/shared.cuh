/**
 * Tiles and vectors in LDS.
 *
 * How a tile lies in LDS. LDS has 32 banks of 4 bytes, 128 bytes per cycle; an access is served in groups of lanes that
 * move at most 128 bytes together: ds_write_b128 in groups of 8 neighbours, ds_read_b128 in the groups {0-3, 20-23},
 * {4-7, 16-19}, {8-11, 28-31}, {12-15, 24-27} and the same plus 32 (ROCm documentation, Composable Kernel,
 * "Understanding AMD GPU LDS and Bank Conflicts"); 8 bytes per lane in quarters of the wave, 4 and less in halves (AMD
 * OpenCL optimisation guide, "Local Memory (LDS) Optimization"). No two lanes of a group may meet in a bank, unless in
 * the same 4 bytes.
 *
 * Columns are cut into panels of 64 bytes: 16 floats, or 32 elements of 2 bytes. A panel holds its rows one after the
 * other, two to a 128-byte line of eight 16-byte chunks. Row r's chunk q (0..3) stands at chunk (4 (r % 2) + q) ^
 * spread(line), with spread(line) = {0, 1, 6, 7}[line % 4]. A fixed q over 8 rows, and 4 chunks over rows r and r + 4,
 * then fill a line's banks exactly once, which covers every group above; and because a row offset that is a multiple of
 * 8, or a step to another panel, leaves the exclusive-or alone, each lane has one address and reaches all fragments of
 * a tile through the instruction's constant offset: offset(r + 8 i, c) = offset(r, c) + 512 i.
 *
 * (Two accesses do meet in banks, two lanes each: writing a register tile to a subtile whose width is an odd multiple
 * of 16 columns of 2-byte elements, which fills halves of chunks; and moving 32x32 base tiles of floats in col layout,
 * whose lanes span two panels.)
 *
 * A chunk of 2-byte elements holds columns 4q..4q+3 *and* 16+4q..16+4q+3 of its panel: what one lane owns of two
 * neighbouring base tiles. So one ds_read_b128 feeds two base tiles while their register layout stays the documented
 * one. A chunk of one-byte elements holds 16 columns, what a lane owns of one base tile (bytes.cuh).
 *
 * If the width in bytes is an odd multiple of 32 (2-byte elements, an odd number of base tiles), the last 16 columns
 * form a half panel: 32 bytes per row, four rows to a line of sixteen 8-byte units; row r's unit q stands at unit (4 (r
 * % 4) + q) ^ 5 (r / 4 % 4). It is read with ds_read_b64.
 */
#pragma once

#include "base_types.cuh"

namespace kittens {

namespace ducks::st {
struct identifier {};
template <typename T>
concept all = requires { typename T::identifier; } && __is_same(typename T::identifier, identifier);
} // namespace ducks::st
namespace ducks::sv {
struct identifier {};
template <typename T>
concept all = requires { typename T::identifier; } && __is_same(typename T::identifier, identifier);
} // namespace ducks::sv

namespace detail {

/// Byte positions inside an LDS tile of `rows` x `cols` elements T, as described at the top of this file.
template <typename T, int rows, int cols> struct swizzle {
    static constexpr bool direct = false; // a 16-byte chunk is not 16 bytes of a tensor
    static constexpr int size = sizeof(T);
    static_assert(size == 1 || size == 2 || size == 4);
    static constexpr int panel_cols = 64 / size;
    static constexpr int panels = cols / panel_cols;
    static constexpr int panel_bytes = rows * 64, column_bytes = panel_bytes; // of the same 64 bytes of all rows
    static constexpr bool half_panel = cols % panel_cols != 0;
    static_assert(size > 1 || !half_panel, "a tile of one-byte elements is a multiple of 64 columns wide");
    static constexpr int half_panel_start = panels * panel_bytes;
    static constexpr int row_bytes = 64, half_row_bytes = 32; // of one row in a panel, in the half panel

    /// Byte of row `r`, chunk `q`, in a panel.
    __host__ __device__ static constexpr uint32_t chunk(uint32_t r, uint32_t q) {
        const uint32_t line = r >> 1;
        const uint32_t spread = (line & 3) | ((line & 2) << 1);
        return line * 128 + ((((r & 1) << 2) | q) ^ spread) * 16;
    }
    /// Byte of element (r, c) of a tile whose column c lies in a whole panel.
    __host__ __device__ static constexpr uint32_t in_panel(uint32_t r, uint32_t c) {
        if constexpr (size == 1) return c / panel_cols * panel_bytes + chunk(r, (c >> 4) & 3) + (c & 15);
        return c / panel_cols * panel_bytes + chunk(r, (c >> 2) & 3) + (c % panel_cols >> 4) * 8 + (c & 3) * size;
    }
    /// Byte of element (r, c) of a tile whose column c lies in the half panel: row `r`, 8-byte unit c / 4 % 4.
    __host__ __device__ static constexpr uint32_t in_half_panel(uint32_t r, uint32_t c) {
        const uint32_t line = r >> 2;
        const uint32_t unit = (((r & 3) << 2) | ((c >> 2) & 3)) ^ ((line & 3) * 5);
        return half_panel_start + line * 128 + unit * 8 + (c & 3) * size;
    }
    /// Byte of element (r, c) of the tile. Both kinds are worked out, so that nothing branches where `c` is known late.
    __host__ __device__ static constexpr uint32_t offset(uint32_t r, uint32_t c) {
        const uint32_t whole = in_panel(r, c), half = half_panel ? in_half_panel(r, c) : 0;
        return half_panel && c >= uint32_t(panels * panel_cols) ? half : whole;
    }
};

} // namespace detail

/// How a shared tile lies in LDS: its last template argument. `panels`, described above, is the default.
namespace ducks::st_shape {
struct panels {
    template <typename T, int rows, int cols> using positions = kittens::detail::swizzle<T, rows, cols>;
};
} // namespace ducks::st_shape

template <typename ST, int subtile_rows, int subtile_cols> struct st_subtile;
template <typename T_, size_t length_> struct sv;

/// A tile of `rows_` x `cols_` elements in LDS, rows * cols * sizeof(T) bytes, swizzled.
template <typename T_, int rows_, int cols_, typename shape_ = ducks::st_shape::panels> struct alignas(16) st {
    using identifier = ducks::st::identifier;
    using T = typename base_types::packing<T_>::unpacked_type;
    using T2 = typename base_types::packing<T_>::packed_type;
    using dtype = T;

    static constexpr int rows = rows_, cols = cols_;
    static_assert(rows > 0 && rows % TILE_DIM == 0, "rows of a shared tile must be a multiple of 16");
    static_assert(cols > 0 && cols % TILE_DIM == 0, "columns of a shared tile must be a multiple of 16");
    static constexpr int height = rows / TILE_DIM, width = cols / TILE_DIM;
    static constexpr int num_elements = rows * cols;
    static constexpr int underlying_rows = rows, underlying_cols = cols;
    static constexpr int underlying_height = height, underlying_width = width;
    static constexpr int underlying_num_elements = num_elements;
    using shape = shape_;
    using positions = typename shape::template positions<T, rows, cols>;

    dtype data[rows * cols];

    /// Where element {row, column} lies, given where the tile begins: a pointer, or an LDS byte address.
    __device__ static __forceinline__ T *idx(T *ptr, int2 at) {
        return (T *)((char *)ptr + positions::offset(at.x, at.y));
    }
    __device__ static __forceinline__ uint32_t idx(uint32_t ptr, int2 at) {
        return ptr + positions::offset(at.x, at.y);
    }

    __device__ __forceinline__ dtype &operator[](const int2 &at) { return *idx(data, at); }
    __device__ __forceinline__ const dtype &operator[](const int2 &at) const { return *idx(const_cast<T *>(data), at); }
    __device__ __forceinline__ dtype &operator[](int i) { return data[i]; }
    __device__ __forceinline__ const dtype &operator[](int i) const { return data[i]; }

    static constexpr int row_offset = 0, col_offset = 0;

    using col_vec = sv<dtype, rows_>;
    using row_vec = sv<dtype, cols_>;
    template <int subtile_rows, int subtile_cols>
    using subtile = st_subtile<st<T, rows, cols, shape>, subtile_rows, subtile_cols>;
};

/// A rectangle of a shared tile; made by subtile_inplace, used like a tile.
template <typename ST_, int subtile_rows, int subtile_cols> struct st_subtile {
    using identifier = ducks::st::identifier;
    using ST = ST_;
    using T = typename ST::T;
    using T2 = typename ST::T2;
    using dtype = T;

    static constexpr int rows = subtile_rows, cols = subtile_cols;
    static_assert(rows > 0 && rows % TILE_DIM == 0 && rows <= ST::rows,
                  "rows of a subtile: a multiple of 16, within the tile");
    static_assert(cols > 0 && cols % TILE_DIM == 0 && cols <= ST::cols,
                  "columns of a subtile: a multiple of 16, within the tile");
    static constexpr int height = rows / TILE_DIM, width = cols / TILE_DIM;
    static constexpr int num_elements = rows * cols;
    static constexpr int underlying_rows = ST::underlying_rows, underlying_cols = ST::underlying_cols;
    static constexpr int underlying_height = ST::underlying_height, underlying_width = ST::underlying_width;
    static constexpr int underlying_num_elements = ST::underlying_num_elements;
    using positions = typename ST::positions;

    dtype *data;
    int row_offset, col_offset;

    __device__ __forceinline__ st_subtile(ST &tile, int2 at)
        : data(tile.data), row_offset(at.x * rows), col_offset(at.y * cols) {}

    __device__ __forceinline__ T *idx(T *ptr, int2 at) const {
        return ST::idx(ptr, int2{at.x + row_offset, at.y + col_offset});
    }
    __device__ __forceinline__ uint32_t idx(uint32_t ptr, int2 at) const {
        return ST::idx(ptr, int2{at.x + row_offset, at.y + col_offset});
    }

    __device__ __forceinline__ dtype &operator[](const int2 &at) { return *idx(data, at); }
    __device__ __forceinline__ const dtype &operator[](const int2 &at) const { return *idx(data, at); }

    using col_vec = sv<dtype, subtile_rows>;
    using row_vec = sv<dtype, subtile_cols>;
};

/// The `subtile_rows` x `subtile_cols` part of a shared tile at {row, column}, counted in subtiles.
template <int subtile_rows, int subtile_cols, ducks::st::all ST>
__device__ __forceinline__ st_subtile<ST, subtile_rows, subtile_cols> subtile_inplace(ST &tile, int2 at) {
    return st_subtile<ST, subtile_rows, subtile_cols>(tile, at);
}

template <int rows, int cols, typename shape = ducks::st_shape::panels> using st_bf = st<bf16, rows, cols, shape>;
template <int rows, int cols, typename shape = ducks::st_shape::panels> using st_hf = st<half, rows, cols, shape>;
template <int rows, int cols, typename shape = ducks::st_shape::panels> using st_fl = st<float, rows, cols, shape>;

/// A vector in LDS.
template <typename T_, size_t length_> struct alignas(16) sv {
    using identifier = ducks::sv::identifier;
    using T = typename base_types::packing<T_>::unpacked_type;
    using T2 = typename base_types::packing<T_>::packed_type;
    using dtype = T;
    static constexpr int length = length_;
    static_assert(length > 0 && length % TILE_DIM == 0, "the length of a shared vector must be a multiple of 16");
    static constexpr int tiles = length / TILE_DIM;

    dtype data[length];

    __device__ __forceinline__ dtype &operator[](size_t i) { return data[i]; }
    __device__ __forceinline__ const dtype &operator[](size_t i) const { return data[i]; }
};

template <size_t length> using sv_bf = sv<bf16, length>;
template <size_t length> using sv_hf = sv<half, length>;
template <size_t length> using sv_fl = sv<float, length>;

/* ---------- allocation ---------- */

/// Element type of the dynamic shared array: gives it 16-byte alignment.
struct alignas(16) alignment_dummy {
    int dummy;
};

/// Hands out consecutive, aligned objects of a 16-byte aligned block of shared memory.
template <int default_alignment = 16> struct shared_allocator {
    int *ptr; // where the next object may begin, before alignment

    __device__ __forceinline__ shared_allocator(int *start) : ptr(start), start_(start) {}

    template <typename A, size_t... dims> __device__ __forceinline__ auto &allocate() {
        return take<default_alignment, A, dims...>();
    }
    template <int alignment, typename A, size_t... dims> __device__ __forceinline__ auto &allocate() {
        return take<alignment, A, dims...>();
    }

  private:
    template <typename A, size_t... dims> struct array {
        using type = A;
    };
    template <typename A, size_t first, size_t... rest> struct array<A, first, rest...> {
        using type = typename array<A, rest...>::type[first];
    };

    template <int alignment, typename A, size_t... dims>
    __device__ __forceinline__ typename array<A, dims...>::type &take() {
        using object = typename array<A, dims...>::type;
        if constexpr (alignment > 1) {
            // Offsets, not addresses, are rounded: they are constants after inlining.
            const size_t used = size_t(ptr - start_) * sizeof(int);
            ptr = start_ + (used + alignment - 1) / alignment * alignment / sizeof(int);
        }
        auto *result = (object *)ptr;
        ptr += (sizeof(object) + sizeof(int) - 1) / sizeof(int);
        return *result;
    }

    int *start_;
};

} // namespace kittens
