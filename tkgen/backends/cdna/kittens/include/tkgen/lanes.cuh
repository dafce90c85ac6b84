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

} // namespace tk
