/**
 * Rows in order: a bitonic network over the elements of a row, which the lanes of one wave have.
 *
 * Numbers are sorted as integers, in which NaN is the greatest; what lies beyond the end of a row is greater than that.
 * With positions, these are the lower half of 64 bits, so equal numbers are in the order of their positions.
 */
#pragma once

#include "common.cuh"

namespace tk {

/// What lies beyond the end of a row.
constexpr int SORTED_LAST = 0x7fffffff;

/// The value of lane ^ `mask`, a power of two, and the bits of a number. Each machine defines its own.
template <int mask> __device__ inline int lane_beside(int value);
__device__ inline int bits_of(float value);
__device__ inline float of_bits(int bits);

template <int mask> __device__ inline long long lane_beside(long long value) {
    const uint32_t low = lane_beside<mask>(int(value)), high = lane_beside<mask>(int(value >> 32));
    return (long long)(uint64_t(high) << 32 | low);
}

/// An integer for a number: the least comes first, with `descending` the greatest.
template <bool descending> __device__ inline int sort_key(float value) {
    const int bits = bits_of(value), key = value == value ? bits ^ ((bits >> 31) & 0x7fffffff) : SORTED_LAST - 1;
    return descending ? ~key : key;
}

/// The number of such an integer.
template <bool descending> __device__ inline float sorted_number(int key) {
    const int bits = descending ? ~key : key;
    return of_bits(bits ^ ((bits >> 31) & 0x7fffffff));
}

/// The same with a position; +0 and -0 are equal.
template <bool descending> __device__ inline long long sort_key_at(float value, int position) {
    const int key = sort_key<descending>(value == 0.0f ? 0.0f : value);
    return (long long)(uint64_t(uint32_t(key)) << 32 | uint32_t(position));
}
template <bool descending> __device__ inline float sorted_number(long long key) { return sorted_number<descending>(int(key >> 32)); }

__device__ inline float sorted_position(long long key) { return float(int(key)); }

/// What lies beyond the end, as a key of either kind.
template <typename T> __device__ inline T sorted_end() { return sizeof(T) == 4 ? T(SORTED_LAST) : T((long long)SORTED_LAST << 32); }

/// One step of the network: elements that are `apart` from each other, in runs of `run` that go up and down in turn.
template <int run, int apart, int lanes, typename T, int chunks, int chunk>
__device__ inline void sort_step(T (&keys)[chunks][chunk], int lane) {
    constexpr int across = lanes * chunk;
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
#pragma unroll
        for (int e = 0; e < chunk; ++e) {
            const bool up = (((c * lanes + lane) * chunk + e) & run) == 0;
            if constexpr (apart >= chunk && apart < across) {
                const T other = lane_beside<apart / chunk>(keys[c][e]);
                const bool first = ((lane & (apart / chunk)) == 0) == up;
                keys[c][e] = (keys[c][e] < other) == first ? keys[c][e] : other;
            } else {
                constexpr int to_e = apart < chunk ? apart : 0, to_c = apart < chunk ? 0 : apart / across;
                if ((e & to_e) == 0 && (c & to_c) == 0) {
                    const T a = keys[c][e], b = keys[c + to_c][e + to_e];
                    const bool swapped = (b < a) == up;
                    keys[c][e] = swapped ? b : a;
                    keys[c + to_c][e + to_e] = swapped ? a : b;
                }
            }
        }
    }
    if constexpr (apart > 1) sort_step<run, apart / 2, lanes>(keys, lane);
}

/// Keys of a row in order. A lane has element (c * lanes + lane) * chunk + e at [c][e]; all three are powers of two.
template <int lanes, int run = 2, typename T, int chunks, int chunk> __device__ inline void sort_row(T (&keys)[chunks][chunk]) {
    if constexpr (run <= chunks * lanes * chunk) {
        sort_step<run, run / 2, lanes>(keys, int(laneid()) % lanes);
        sort_row<lanes, run * 2>(keys);
    }
}

} // namespace tk
