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

/// The value of a lane of the wave, by its number. Each machine defines its own.
__device__ inline float lane_from(float value, int lane);

/// The operation of running products.
struct times {
    template <typename T> __device__ static inline T op(const T &a, const T &b) { return a * b; }
};

/// Of `lanes` lanes, each `spacing` behind the one before: `op` over those before a lane, and over all of them.
struct scanned {
    float before, all;
};

/// `lanes` is a power of two; before the first lane is `none`.
template <typename op, int lanes, int spacing> __device__ inline scanned scan_lanes(float value, float none) {
    const int lane = laneid(), place = lane / spacing % lanes;
#pragma unroll
    for (int by = 1; by < lanes; by *= 2) {
        const float other = lane_from(value, (lane - by * spacing) & (WARP_THREADS - 1));
        value = place < by ? value : op::template op<float>(other, value);
    }
    const float before = lane_from(value, (lane - spacing) & (WARP_THREADS - 1));
    return {place ? before : none, lane_from(value, lane + (lanes - 1 - place) * spacing)};
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
