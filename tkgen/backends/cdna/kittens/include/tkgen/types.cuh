/**
 * Element types as the compiler knows them, and conversions between them.
 */
#pragma once

#include "kittens.cuh"

namespace tk {
using namespace kittens;

template <typename T, int n> using vec = T __attribute__((ext_vector_type(n)));
using words_2 = vec<uint32_t, 2>;
using words_4 = vec<uint32_t, 4>;

template <typename To, typename From> __device__ __forceinline__ To bits_of(const From &value) { return __builtin_bit_cast(To, value); }

/// The compiler's type of an element: a library may have classes for it.
template <typename T> struct native_type {
    using type = T;
};
template <> struct native_type<bf16> {
    using type = __bf16;
};
template <> struct native_type<half> {
    using type = _Float16;
};
template <typename T> using native = typename native_type<T>::type;
template <typename T> constexpr bool is_float = __is_same(T, float) || __is_same(T, bf16) || __is_same(T, half);

/// Conversion of an element, narrowing to nearest even. (Libraries cut the fraction off where they make bf16.)
template <typename To, typename From> __device__ inline To convert(From value) {
    if constexpr (is_float<To> && is_float<From>) return __builtin_bit_cast(To, native<To>(float(__builtin_bit_cast(native<From>, value))));
    else return base_types::convertor<To, From>::convert(value);
}

using lds_bytes = __attribute__((address_space(3))) const char *;

#ifdef KITTENS_EMBEDDED
constexpr bool EMBEDDED = true;
#else
constexpr bool EMBEDDED = false;
#endif

/// The same object by an LDS address. What a library's allocator hands out the compiler may take for any address, and access it
/// by flat instructions, for which a barrier of LDS does not wait. The lower half of a flat address is the LDS address (LLVM
/// AMDGPUUsage, "Address Spaces"); of a cast, which compares with null, the compiler keeps a register for each constant added.
template <typename T> __device__ __forceinline__ auto lds(T *object) {
    using local = __attribute__((address_space(3))) T *;
    if constexpr (EMBEDDED) return (local)object;
    else return (local)(uintptr_t)(uint32_t)(uintptr_t)object;
}
template <typename T> __device__ __forceinline__ uint32_t lds_address(T *object) { return (uint32_t)(uintptr_t)lds(object); }

/// The LDS address of an element of a tile whose first byte is at `data`. HipKittens' tiles for gfx950 are cut into boxes of
/// their shape, row after row of boxes, and say where an element is in its box.
template <ducks::st::all ST> __device__ inline uint32_t position(const ST &tile, uint32_t data, int row, int col) {
    if constexpr (requires { tile.idx(data, int2{row, col}); }) {
        return tile.idx(data, int2{row, col});
    } else {
        constexpr int rows = ST::underlying_subtile_rows, cols = ST::underlying_subtile_cols;
        const int box = row / rows * ST::underlying_subtiles_per_row + col / cols;
        return data + box * ST::underlying_subtile_bytes + ST::swizzle(int2{row % rows, col % cols});
    }
}

/// The same of an element that is `below` rows further down, a multiple of 16, and `right` columns further on. Libraries apply
/// an exclusive-or to the whole address, of which the compiler does not see that the swizzle is the same again after 16 rows
/// and in each panel or box of columns: it would keep a register for each.
template <ducks::st::all ST>
__device__ __forceinline__ uint32_t position(const ST &tile, uint32_t data, int row, int col, int below, int right = 0) {
    if constexpr (requires { ST::swizzle_bytes; }) {
        constexpr int panel = ST::swizzle_bytes / sizeof(typename ST::dtype);
        const int beside = right / panel * ST::underlying_rows; // panels lie one after the other
        if constexpr (requires { tile.row_offset; })
            return tile.idx(data, int2{row - tile.row_offset, col + right % panel}) + (tile.row_offset + below + beside) * ST::swizzle_bytes;
        else return tile.idx(data, int2{row, col + right % panel}) + (below + beside) * ST::swizzle_bytes;
    } else if constexpr (requires { ST::underlying_subtile_rows; }) {
        const int boxes = below / ST::underlying_subtile_rows * ST::underlying_subtiles_per_row + right / ST::underlying_subtile_cols;
        return position(tile, data, row, col + right % ST::underlying_subtile_cols) + boxes * ST::underlying_subtile_bytes;
    } else return position(tile, data, row + below, col + right);
}

} // namespace tk
