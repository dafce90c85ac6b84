/// Operations of two numbers, as reductions take them.
#pragma once

namespace kittens::base_ops {

struct sum {
    template<typename T> __device__ static inline T op(const T &a, const T &b) { return a + b; }
};
/// Of two numbers of which one is NaN the other.
struct max {
    template<typename T> __device__ static inline T op(const T &a, const T &b) { return fmaxf(a, b); }
};
struct min {
    template<typename T> __device__ static inline T op(const T &a, const T &b) { return fminf(a, b); }
};

} // namespace kittens::base_ops
