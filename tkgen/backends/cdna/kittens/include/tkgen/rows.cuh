/**
 * Rows over lanes: what a lane moves of a row at once, reductions over lanes, floats of 4 and 6 bits packed.
 */
#pragma once

#include "lanes.cuh"
#include "memory.cuh"

namespace tk {

/// Neighbours in memory, as they stand there.
template <typename T, int n> struct elements {
    T at[n];
};

/// Loads of at most 16 bytes.
template <typename T, int n> __device__ inline elements<T, n> load_elements(buffer from, uint32_t offset) {
    using E = elements<T, n>;
    if constexpr (sizeof(E) == 1) return __builtin_bit_cast(E, __builtin_amdgcn_raw_buffer_load_b8(from, offset, 0, 0));
    else if constexpr (sizeof(E) == 2) return __builtin_bit_cast(E, __builtin_amdgcn_raw_buffer_load_b16(from, offset, 0, 0));
    else if constexpr (sizeof(E) == 4) return __builtin_bit_cast(E, __builtin_amdgcn_raw_buffer_load_b32(from, offset, 0, 0));
    else if constexpr (sizeof(E) == 8) return __builtin_bit_cast(E, __builtin_amdgcn_raw_buffer_load_b64(from, offset, 0, 0));
    else return __builtin_bit_cast(E, __builtin_amdgcn_raw_buffer_load_b128(from, offset, 0, 0));
}

/// The optimiser knows these numbers no more: what was made of them before is made again, not kept in registers.
template <typename W, typename E> __device__ inline void forget_as(E &e) {
    W words = __builtin_bit_cast(W, e);
    asm("" : "+v"(words));
    e = __builtin_bit_cast(E, words);
}
template <typename T, int n> __device__ inline void forget(elements<T, n> &e) {
    if constexpr (sizeof(e) == 2) forget_as<uint16_t>(e);
    else if constexpr (sizeof(e) == 4) forget_as<uint32_t>(e);
    else if constexpr (sizeof(e) == 8) forget_as<words_2>(e);
    else forget_as<words_4>(e);
}

/// Stores of at most 16 bytes.
template <typename T, int n> __device__ inline void store_elements(buffer to, uint32_t offset, const elements<T, n> &e) {
    if constexpr (sizeof(e) == 1) __builtin_amdgcn_raw_buffer_store_b8(__builtin_bit_cast(uint8_t, e), to, offset, 0, 0);
    else if constexpr (sizeof(e) == 2) __builtin_amdgcn_raw_buffer_store_b16(__builtin_bit_cast(uint16_t, e), to, offset, 0, 0);
    else if constexpr (sizeof(e) == 4) __builtin_amdgcn_raw_buffer_store_b32(__builtin_bit_cast(uint32_t, e), to, offset, 0, 0);
    else if constexpr (sizeof(e) == 8) __builtin_amdgcn_raw_buffer_store_b64(__builtin_bit_cast(words_2, e), to, offset, 0, 0);
    else __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(words_4, e), to, offset, 0, 0);
}

/// Stores of packed elements, whole bytes of them, in words as wide as all of them are aligned.
template <int n> __device__ inline void store_packed(buffer to, uint32_t offset, const elements<uint8_t, n> &e) {
    constexpr int size = n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : 1;
#pragma unroll
    for (int i = 0; i < n; i += size) {
        uint32_t word = 0;
        __builtin_memcpy(&word, e.at + i, size);
        if constexpr (size == 4) __builtin_amdgcn_raw_buffer_store_b32(word, to, offset + i, 0, 0);
        else if constexpr (size == 2) __builtin_amdgcn_raw_buffer_store_b16(uint16_t(word), to, offset + i, 0, 0);
        else __builtin_amdgcn_raw_buffer_store_b8(uint8_t(word), to, offset + i, 0, 0);
    }
}

/// Numbers are f32 while they are computed with.
template <typename T> __device__ inline float widen(const T &value) { return convert<float>(value); }
template <typename T> __device__ inline T narrow(float value) { return convert<T>(value); }
#ifdef KITTENS_EMBEDDED

/// The code of a number in a float without infinities and NaN (MX, revision 1.0): to nearest even, the largest one beyond
/// that, zero for NaN. `fraction` bits, `least` is the exponent of the least normal number. Adding 2^(23 - fraction) units
/// in the last place leaves these as the lowest bits: the implicit one carries into the exponent's field.
template <int fraction, int least> __device__ inline uint32_t code_of(float x, float most) {
    const float number = x == x ? x : 0.0f, size = __builtin_fminf(__builtin_fabsf(number), most);
    const uint32_t exponent = max(__builtin_bit_cast(uint32_t, size) & 0x7f800000, uint32_t(least + 127) << 23);
    const float far = __builtin_bit_cast(float, exponent + (uint32_t(23 - fraction) << 23));
    const uint32_t units = __builtin_bit_cast(uint32_t, size + far) - __builtin_bit_cast(uint32_t, far);
    const uint32_t code = units + (((exponent >> 23) - uint32_t(least + 127)) << fraction);
    return code | __builtin_bit_cast(uint32_t, number) >> 31 << (fraction + (least ? 3 : 2));
}
template <typename T> __device__ inline uint32_t code_as(float x) {
    if constexpr (__is_same(T, fp6e2m3)) return code_of<3, 0>(x, 7.5f);
    else if constexpr (__is_same(T, fp6e3m2)) return code_of<2, -2>(x, 28.0f);
    else return code_of<1, 0>(x, 6.0f);
}

/// Numbers as packed bytes, each in the bits above the one before it.
template <typename T, int n> __device__ inline elements<uint8_t, n * detail::element_bits<T> / 8> pack(const elements<float, n> &e) {
    constexpr int bits = detail::element_bits<T>;
    elements<uint8_t, n * bits / 8> found;
    uint32_t words[(n * bits + 31) / 32] = {};
#ifdef KITTENS_CDNA4
    if constexpr (bits == 4) {
        const auto number = [&](int i) { return e.at[i] == e.at[i] ? e.at[i] : 0.0f; };
#pragma unroll
        for (int i = 0; i < n; i += 8) {  // a word; two numbers to each of its bytes
            uint32_t &word = words[i / 8];
            word = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(word, number(i), number(i + 1), 1.0f, 0);
            if constexpr (n > 2) word = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(word, number(i + 2), number(i + 3), 1.0f, 1);
            if constexpr (n > 4) word = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(word, number(i + 4), number(i + 5), 1.0f, 2);
            if constexpr (n > 4) word = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(word, number(i + 6), number(i + 7), 1.0f, 3);
        }
    } else
#endif
#pragma unroll
    for (int i = 0; i < n; ++i) {
        const uint32_t code = code_as<T>(e.at[i]);
        words[i * bits / 32] |= code << i * bits % 32;
        if (i * bits % 32 + bits > 32) words[i * bits / 32 + 1] |= code >> (32 - i * bits % 32);
    }
    __builtin_memcpy(found.at, words, sizeof(found));
    return found;
}
#endif

/// `op` over each group of `lanes` lanes, a power of two; every lane gets the result.
template <typename op, int lanes> __device__ inline float across(float value) {
    const auto with = [](float a, float b) { return op::template op<float>(a, b); };
    if constexpr (lanes > 1) value = with(value, lane_at<0xb1>(value));   // quad_perm [1, 0, 3, 2]
    if constexpr (lanes > 2) value = with(value, lane_at<0x4e>(value));   // quad_perm [2, 3, 0, 1]
    if constexpr (lanes > 4) value = with(value, lane_at<0x141>(value));  // row_half_mirror
    if constexpr (lanes > 8) value = with(value, lane_at<0x140>(value));  // row_mirror
    if constexpr (lanes == 32) value = with(value, lane_beyond(value));
    if constexpr (lanes == 64) {
        value = with(value, lane_at<0x142>(value));  // row_bcast:15, from the row of 16 before: rows 1 and 3 are right
        value = with(value, lane_at<0x143>(value));  // row_bcast:31, from the lower half: row 3 is right
        value = __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, value), 63));
    }
    return value;
}

} // namespace tk
