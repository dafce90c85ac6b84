/**
 * What is the same on all machines: reductions of a lane's numbers and over lanes far apart, division of many numbers by one.
 */
#pragma once

#include "kittens.cuh"

namespace tk {
using namespace kittens;

/// `op` over all of a lane's partial results, pairwise.
template <typename op, int n> __device__ inline float fold(const float *parts) {
    if constexpr (n == 1) return parts[0];
    else return op::template op<float>(fold<op, n / 2>(parts), fold<op, n - n / 2>(parts + n / 2));
}

/// The value of lane ^ `mask`. Each machine defines its own.
__device__ inline float lane_xor(float value, int mask);

/// `op` over the lanes of a wave that are multiples of `spacing` apart, a power of two; every lane gets the result.
template <typename op, int spacing> __device__ inline float across_spaced(float value) {
#pragma unroll
    for (int other = spacing; other < WARP_THREADS; other *= 2) value = op::template op<float>(value, lane_xor(value, other));
    return value;
}

/// Something to divide many numbers by. x / d = (x scale) reciprocal, where no reciprocal overflows or loses bits.
struct divisor {
    float scale, reciprocal;
    __device__ divisor() = default;
    __device__ explicit divisor(float d) {
        const float magnitude = __builtin_fabsf(d);
        scale = magnitude < 0x1p-100f ? 0x1p64f : magnitude > 0x1p100f ? 0x1p-64f : 1.0f;
        reciprocal = 1.0f / (d * scale);
    }
};
__device__ inline float operator/(float x, const divisor &d) { return x * d.scale * d.reciprocal; }

} // namespace tk
