/**
 * Register tiles of products, element by element: what is computed of them, and their way to global memory.
 */
#pragma once

#include "memory.cuh"

namespace tk {

#ifdef KITTENS_EMBEDDED

/// A tile in LDS, or a part of one, to registers.
template <typename RT, ducks::st::all ST>
    requires requires(RT &to, const ST &from) { kittens::load(to, from); }
__device__ __forceinline__ void load(RT &to, const ST &from) {
    kittens::load(to, from);
}
#else

/// A tile in LDS, or a part of one, to registers. What arrives when is the compiler's to know: libraries read in assembly, or
/// through pointers of unknown address space, and so wait at once, at the next barrier or not at all.
template <ducks::rt::all RT, ducks::st::all ST>
    requires requires { RT::tile_size_row; }
__device__ __forceinline__ void load(RT &to, const ST &from) {
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols, "register tile and shared tile must have the same shape");
    static_assert(__is_same(typename RT::T, typename ST::dtype), "register tile and shared tile must have the same element type");
    using T = native<typename RT::T>;
    constexpr int side = RT::tile_size_row;
    const uint32_t data = lds_address(&from.data[0]);
    const int line = laneid() % side, first = laneid() / side * 4;
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int j = 0; j < RT::width; ++j) {
            vec<T, 4> quad;
            if constexpr (__is_same(typename RT::layout, ducks::rt_layout::row)) {
                constexpr int n = 8 / sizeof(T); // neighbours that lie together in any library
#pragma unroll
                for (int e = 0; e < 4; e += n) {
                    const auto part = *(__attribute__((address_space(3))) const vec<T, n> *)(uintptr_t)position(from, data, line, first + e, i * side, j * side);
                    __builtin_memcpy((T *)&quad + e, &part, sizeof(part));
                }
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    quad[e] = *(__attribute__((address_space(3))) const T *)(uintptr_t)position(from, data, first + e, line, i * side, j * side);
            }
            __builtin_memcpy(to.tiles[i][j].data, &quad, sizeof(quad));
        }
}
#endif

/// element = f(offset, element) for each element of a register tile that this lane owns: quads of four rows of a column.
/// The offset is in bytes from the tile's first row in `tensor`, or NOWHERE.
template <ducks::gl::all GL, ducks::rt::all RT, typename F>
__device__ inline void for_each_inside(const GL &tensor, RT &tile, int tile_row, int tile_col, F f) {
    constexpr int side = RT::tile_size_row, quads = side * side / WARP_THREADS / 4; // of a base tile
    const int first_row = tile_row * RT::rows, first_col = tile_col * RT::cols, rows = tensor.rows(), cols = tensor.cols();
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int j = 0; j < RT::width; ++j)
#pragma unroll
            for (int k = 0; k < 4 * quads; ++k) {
                const int row = side * i + WARP_THREADS / side * (k / 4 * 4) + laneid() / side * 4 + k % 4;
                const int col = first_col + side * j + laneid() % side;
                const bool inside = first_row + row < rows && col < cols;
                auto &pair = tile.tiles[i][j].data[k / 2];
                const int offset = inside ? (row * cols + col) * int(sizeof(typename GL::dtype)) : NOWHERE;
                if (k % 2) pair.y = f(offset, pair.y);
                else pair.x = f(offset, pair.x);
            }
}

/// Adds a register tile to global memory, leaving out what lies outside the tensor; other blocks may add at the same time.
template <ducks::gl::all GL, ducks::rt::all RT>
__device__ inline void store_add(const GL &dst, RT &src, int tile_row, int tile_col) {
#if __has_builtin(__builtin_amdgcn_raw_ptr_buffer_atomic_fadd_f32)
    const auto memory = rows_from(dst, tile_row * RT::rows);
    const auto add = [&](int offset, float value) { __builtin_amdgcn_raw_ptr_buffer_atomic_fadd_f32(value, memory, offset, 0, 0); };
#else // clang before 22
    float *first = dst.raw_ptr + uint64_t(tile_row * RT::rows) * dst.cols();
    const auto add = [&](int offset, float value) {
        if (offset != NOWHERE) __builtin_amdgcn_global_atomic_fadd_f32((__attribute__((address_space(1))) float *)(first + offset / int(sizeof(float))), value);
    };
#endif
    for_each_inside(dst, src, tile_row, tile_col, [&](int offset, float value) {
        add(offset, value);
        return value;
    });
}

/// A tile like another one, of other elements.
template <typename T, typename RT> struct retyped;
template <typename T, typename U, int rows, int cols, typename... layout>
struct retyped<T, rt<U, rows, cols, layout...>> {
    using type = rt<T, rows, cols, layout...>;
};

/// Registers -> global memory, leaving out what lies outside the tensor.
template <ducks::gl::all GL, ducks::rt::all RT>
__device__ inline void store_masked(const GL &dst, const RT &src, int tile_row, int tile_col) {
    constexpr int policy = policy_of<GL>();
    using T = typename GL::dtype;
    using number = decltype([] { // there are no tiles of sums in bytes
        if constexpr (sizeof(T) == 1) return typename RT::T{};
        else return T{};
    }());
    typename retyped<number, RT>::type out;
    copy(out, src);
    const auto memory = rows_from(dst, tile_row * RT::rows);
    for_each_inside(dst, out, tile_row, tile_col, [&](int offset, number value) {
        if constexpr (sizeof(T) == 1)
            __builtin_amdgcn_raw_buffer_store_b8(__builtin_bit_cast(uint8_t, convert<T>(value)), memory, offset, 0, policy);
        else if constexpr (sizeof(T) == 4)
            __builtin_amdgcn_raw_buffer_store_b32(__builtin_bit_cast(uint32_t, value), memory, offset, 0, policy);
        else
            __builtin_amdgcn_raw_buffer_store_b16(__builtin_bit_cast(uint16_t, value), memory, offset, 0, policy);
        return value;
    });
}

/// What reads the products comes a wait state later than LLVM thinks: on gfx950 a product of 16 passes needs 20, and of
/// the instructions before a read its GCNHazardRecognizer (LLVM 22) sees 19. It counts no inline assembly.
template <ducks::rt::all RT> __device__ inline void outlast([[maybe_unused]] RT &products) {
#ifdef KITTENS_CDNA4
    asm volatile("s_nop 0" : "+v"(products.tiles[0][0].data[0].x));
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int j = 0; j < RT::width; ++j)
#pragma unroll
            for (auto &pair : products.tiles[i][j].data) asm volatile("" : "+v"(pair.x), "+v"(pair.y));
#endif
}

/// tile = f(row, column, element of each of `sums`) for every element; row and column are counted in the tensor. A lane
/// owns quads of four rows of a column, two pairs each. f may also take, behind the column, the numbers of the row and the
/// column among those of which the lane owns elements.
template <ducks::rt::all RT, typename F, ducks::rt::all... Sums>
__device__ inline void combine(RT &tile, int tile_row, int tile_col, F f, const Sums &...sums) {
    constexpr int side = RT::tile_size_row;
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int j = 0; j < RT::width; ++j)
#pragma unroll
            for (int k = 0; k < RT::packed_per_tile; ++k) {
                const int row = tile_row * RT::rows + side * i + WARP_THREADS / side * 4 * (k / 2) + laneid() / side * 4 + k % 2 * 2;
                const int col = tile_col * RT::cols + side * j + laneid() % side;
                const int r = 2 * RT::packed_per_tile * i + 2 * k;
                if constexpr (requires { f(row, col, r, j, sums.tiles[i][j].data[k].x...); })
                    tile.tiles[i][j].data[k] = {f(row, col, r, j, sums.tiles[i][j].data[k].x...),
                                                f(row + 1, col, r + 1, j, sums.tiles[i][j].data[k].y...)};
                else
                    tile.tiles[i][j].data[k] = {f(row, col, sums.tiles[i][j].data[k].x...),
                                                f(row + 1, col, sums.tiles[i][j].data[k].y...)};
            }
}

/// f(row, column, r, c, element of each of `sums`) for every element of a tile that this lane owns, of the r-th row and
/// c-th column of which it owns any.
template <ducks::rt::all RT, typename F, ducks::rt::all... Sums>
__device__ inline void visit(const RT &, int tile_row, int tile_col, F f, const Sums &...sums) {
    constexpr int side = RT::tile_size_row;
#pragma unroll
    for (int i = 0; i < RT::height; ++i)
#pragma unroll
        for (int j = 0; j < RT::width; ++j)
#pragma unroll
            for (int k = 0; k < RT::packed_per_tile; ++k) {
                const int row = tile_row * RT::rows + side * i + WARP_THREADS / side * 4 * (k / 2) + laneid() / side * 4 + k % 2 * 2;
                const int col = tile_col * RT::cols + side * j + laneid() % side, r = 2 * RT::packed_per_tile * i + 2 * k;
                f(row, col, r, j, sums.tiles[i][j].data[k].x...);
                f(row + 1, col, r + 1, j, sums.tiles[i][j].data[k].y...);
            }
}

} // namespace tk
