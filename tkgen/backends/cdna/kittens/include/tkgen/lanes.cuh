/**
 * What a lane has of another one.
 */
#pragma once

#include "common.cuh"

namespace tk {

/// The value of another lane, by a DPP control (CDNA3 ISA guide, "DPP: data parallel primitives").
template <int control> __device__ inline float lane_at(float value) {
    return __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, value), control, 0xf, 0xf, true));
}

/// The value of lane ^ 16.
__device__ inline float lane_beyond(float value) {
    return __builtin_bit_cast(float, __builtin_amdgcn_ds_swizzle(__builtin_bit_cast(int, value), 0x401f));
}

__device__ inline float lane_from(float value, int lane) {
    return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(lane * 4, __builtin_bit_cast(int, value)));
}

__device__ inline float lane_xor(float value, int mask) {
    const int moved = __builtin_amdgcn_ds_bpermute((laneid() ^ mask) * 4, __builtin_bit_cast(int, value));
    return __builtin_bit_cast(float, moved);
}

/// The value of lane ^ `mask`, a power of two.
template <int mask> __device__ inline int lane_beside(int value) {
    if constexpr (mask == 1) return __builtin_amdgcn_update_dpp(0, value, 0xb1, 0xf, 0xf, true);       // quad_perm [1, 0, 3, 2]
    else if constexpr (mask == 2) return __builtin_amdgcn_update_dpp(0, value, 0x4e, 0xf, 0xf, true);  // quad_perm [2, 3, 0, 1]
    else if constexpr (mask == 8) return __builtin_amdgcn_update_dpp(0, value, 0x128, 0xf, 0xf, true); // row_ror:8
    else if constexpr (mask < 32) return __builtin_amdgcn_ds_swizzle(value, mask << 10 | 0x1f);
    else return __builtin_amdgcn_ds_bpermute((laneid() ^ mask) * 4, value);
}

/// The bits of a number, and the number of bits.
__device__ inline int bits_of(float value) { return __builtin_bit_cast(int, value); }
__device__ inline float of_bits(int bits) { return __builtin_bit_cast(float, bits); }

} // namespace tk
