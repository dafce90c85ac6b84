/**
 * Operands of matrix instructions that are computed on their way from LDS: weights of 8 and of 4 bits.
 *
 * A lane owns quads of four neighbours along a row of a base tile. Of bytes a quad is one read of 4 bytes, of two elements
 * in a byte one of 2 bytes. Interleaved, 128 neighbours of a row lie as lanes own them: 16 bytes have the quads of a lane in
 * all base tiles of 16 x 16, and a word has two of them, in the low and in the high halves of its bytes, elements 0, 2, 1, 3.
 * Half a word so becomes four bytes with one mask, and these four numbers with one instruction each (v_cvt_f32_ubyte).
 */
#pragma once

#include "bytes.cuh"
#include "registers.cuh"
#include "shared.cuh"

namespace kittens {

namespace detail {

template <typename T> constexpr bool is_pair = __is_same(T, u4x2) || __is_same(T, i4x2);
using quad = vec<float, 4>;

/// The numbers of four bytes that hold a code of 4 bits each. The compiler is not told where `codes` come from: it would
/// take each code for itself out of the word that it masked, with an instruction more.
template <typename T> __device__ __forceinline__ quad numbers(uint32_t codes) {
    uint32_t moved = __is_same(T, i4x2) ? codes ^ 0x08080808 : codes; // by 8: none is negative
    asm("" : "+v"(moved));
    quad found{float(moved & 0xff), float(moved >> 8 & 0xff), float(moved >> 16 & 0xff), float(moved >> 24)};
    if constexpr (__is_same(T, i4x2)) found -= 8.0f;
    return found;
}

/// To the type that is multiplied. `exact`: whole numbers of which it holds every one, so that nothing is rounded: the
/// upper halves of floats are the bf16, and halves come by the instruction that makes two of them at once.
template <typename T, bool exact> __device__ __forceinline__ vec<T, 4> narrowed(const quad &value) {
    if constexpr (exact && __is_same(T, bf16)) {
        const u32x2 pairs{__builtin_amdgcn_perm(bits<uint32_t>(value[1]), bits<uint32_t>(value[0]), 0x07060302),
                          __builtin_amdgcn_perm(bits<uint32_t>(value[3]), bits<uint32_t>(value[2]), 0x07060302)};
        return __builtin_bit_cast(vec<T, 4>, pairs);
    } else if constexpr (exact && __is_same(T, half)) {
        const auto low = __builtin_amdgcn_cvt_pkrtz(value[0], value[1]), high = __builtin_amdgcn_cvt_pkrtz(value[2], value[3]);
        return vec<T, 4>{T(low[0]), T(low[1]), T(high[0]), T(high[1])};
    } else return convert_vector<T>(value);
}

/// What a lane has of a shared tile, quad by quad: f(row of base tiles, column of the tile's first lane, the quad).
template <bool interleaved, ducks::rt::row_layout RT, ducks::st::all ST, typename F>
__device__ __forceinline__ void for_each_stored_quad(const ST &src, F f) {
    using positions = typename ST::positions;
    using shape = typename RT::shape;
    using T = typename ST::dtype;
    constexpr int per_byte = is_pair<T> ? 2 : 1, panel = 64, chunk = 16, chunks = 4; // bytes of a panel's row, its chunks
    constexpr int row_step = shape::side * positions::row_bytes;
    const int uniform = src.row_offset * positions::row_bytes + src.col_offset / panel * positions::column_bytes;
    const auto at = [&](uint32_t byte) { return lds_pointer(src.data, positions::offset(shape::line(), byte), uniform); };
    if constexpr (interleaved) {
        constexpr int group = panel * per_byte, halves = shape::quad_stride == 16 ? 1 : 16 / shape::quad_stride;
        lds_byte *base[halves];
#pragma unroll
        for (int h = 0; h < halves; h++) base[h] = at((h * shape::quad_stride + shape::first()) / 4 * chunk);
#pragma unroll
        for (int i = 0; i < RT::height; i++)
#pragma unroll
            for (int p = 0; p < RT::cols / group; p++)
#pragma unroll
                for (int h = 0; h < halves; h++) {
                    const auto words = lds_read<u32x4>(base[h] + p * positions::column_bytes + i * row_step);
#pragma unroll
                    for (int t = 0; t < 8; t++) {
                        const quad mixed = numbers<T>(words[t / 2] >> t % 2 * 4 & 0x0f0f0f0f);
                        f(i, p * group + 16 * t + h * shape::quad_stride, quad{mixed[0], mixed[2], mixed[1], mixed[3]});
                    }
                }
    } else {
        lds_byte *base[chunks];
#pragma unroll
        for (int b = 0; b < chunks; b++) base[b] = at(b * chunk + shape::first() / per_byte);
#pragma unroll
        for (int i = 0; i < RT::height; i++)
#pragma unroll
            for (int c = 0; c < RT::cols; c += shape::quad_stride) {
                const int byte = c / per_byte;
                const auto *here = base[byte / chunk % chunks] + byte % chunk + byte / panel * positions::column_bytes + i * row_step;
                if constexpr (is_pair<T>) {
                    const uint32_t pairs = lds_read<unsigned short>(here);
                    const quad found = numbers<T>((pairs & 0x0f0f) | (pairs & 0xf0f0) << 12);
                    f(i, c, quad{found[0], found[2], found[1], found[3]});
                } else {
                    const auto four = lds_read<vec<T, 4>>(here);
                    f(i, c, quad{float(four[0]), float(four[1]), float(four[2]), float(four[3])});
                }
            }
    }
}
} // namespace detail

/// dst = what `of` makes of each element of the shared tile src; as many elements. `of` takes a row's number in the tile,
/// and the number of a block of it where there are several, and gives the function of their elements.
template <int blocks = 1, bool interleaved = false, bool exact = false, ducks::rt::row_layout RT, ducks::st::all ST, typename F>
__device__ __forceinline__ void load_made(RT &dst, const ST &src, F of) {
    using shape = typename RT::shape;
    static_assert(sizeof(typename ST::dtype) == 1, "the shared tile has elements of one byte, or two in a byte");
    static_assert(RT::rows == ST::rows && RT::cols == ST::cols * (detail::is_pair<typename ST::dtype> ? 2 : 1),
                  "register tile and shared tile must have the same shape");
    static_assert(ST::cols % 64 == 0, "tiles of bytes are a multiple of 64 columns wide");
    static_assert(RT::cols % blocks == 0 && RT::cols / blocks % shape::side == 0, "blocks are whole base tiles");
    const auto set = [&](int i, int column, const detail::quad &value, auto made) __attribute__((always_inline)) {
        detail::quad found;
        if constexpr (requires { made(value); }) found = made(value); // arithmetic alone: two at a time
        else found = detail::quad{made(value[0]), made(value[1]), made(value[2]), made(value[3])};
        dst.tiles[i][column / shape::side].set(detail::narrowed<typename RT::T, exact>(found), column % shape::side / shape::quad_stride);
    };
    detail::for_each_stored_quad<interleaved, RT>(src, [&](int i, int column, const detail::quad &value) __attribute__((always_inline)) {
        const int row = i * shape::side + int(shape::line());
        if constexpr (blocks == 1) set(i, column, value, of(row));
        else set(i, column, value, of(row, column / (RT::cols / blocks)));
    });
}

} // namespace kittens
