/// Reductions over lanes.
#pragma once

#include "tkgen/common.cuh"

namespace tk {
using namespace kittens;

__device__ inline float lane_from(float value, int lane) { return __shfl_sync(0xffffffff, value, lane); }

__device__ inline float lane_xor(float value, int mask) { return __shfl_xor_sync(0xffffffff, value, mask); }

/// The value of lane ^ `mask`, a power of two.
template <int mask> __device__ inline int lane_beside(int value) { return __shfl_xor_sync(0xffffffff, value, mask); }

/// The bits of a number, and the number of bits.
__device__ inline int bits_of(float value) { return __float_as_int(value); }
__device__ inline float of_bits(int bits) { return __int_as_float(bits); }

/// `op` over each group of `lanes` lanes, a power of two, each `apart` lanes behind the one before; every lane gets the result.
template <typename op, int lanes, int apart = 1> __device__ inline float across(float value) {
#pragma unroll
    for (int other = apart; other < lanes * apart; other *= 2) value = op::template op<float>(value, lane_xor(value, other));
    return value;
}

} // namespace tk
