/**
 * Element types, their packed pairs, conversions, and the operations that maps and reductions apply.
 */
#pragma once

#include "device.cuh"

namespace kittens {

using bf16 = __bf16;
using half = _Float16;
using bf16_2 = __bf16 __attribute__((ext_vector_type(2)));
using half_2 = _Float16 __attribute__((ext_vector_type(2)));

namespace detail {
template <typename T, int n> using vec = T __attribute__((ext_vector_type(n)));
using u32x2 = vec<uint32_t, 2>;
using u32x4 = vec<uint32_t, 4>;

/// Element type conversion; narrowing rounds to nearest even (gfx942 and gfx90a have no bf16 conversion; the compiler's
/// expansion keeps a NaN a NaN). Between the two 2-byte types it goes through float, which is exact one way and has no
/// instruction of its own either way.
template <typename To, typename From> __host__ __device__ __forceinline__ To convert(const From &value) {
    if constexpr (__is_same(To, From)) return value;
    else return To(float(value));
}
template <typename To, typename From, int n>
__device__ __forceinline__ vec<To, n> convert_vector(const vec<From, n> &value) {
    if constexpr (__is_same(To, From)) return value;
    else return __builtin_convertvector(__builtin_convertvector(value, vec<float, n>), vec<To, n>);
}
} // namespace detail

namespace base_types {

/// packing<T>: the unpacked element, the pair, and how many elements T holds.
template <typename T> struct packing;
template <> struct packing<bf16> {
    using unpacked_type = bf16;
    using packed_type = bf16_2;
    static constexpr int num() { return 1; }
};
template <> struct packing<bf16_2> {
    using unpacked_type = bf16;
    using packed_type = bf16_2;
    static constexpr int num() { return 2; }
};
template <> struct packing<half> {
    using unpacked_type = half;
    using packed_type = half_2;
    static constexpr int num() { return 1; }
};
template <> struct packing<half_2> {
    using unpacked_type = half;
    using packed_type = half_2;
    static constexpr int num() { return 2; }
};
template <> struct packing<float> {
    using unpacked_type = float;
    using packed_type = float2;
    static constexpr int num() { return 1; }
};
template <> struct packing<float2> {
    using unpacked_type = float;
    using packed_type = float2;
    static constexpr int num() { return 2; }
};

/// convertor<T, U>::convert: U to T, elements or pairs.
template <typename T, typename U> struct convertor {
    __host__ __device__ static __forceinline__ T convert(const U &value) {
        if constexpr (packing<T>::num() == 1) {
            return detail::convert<T>(value);
        } else {
            using element = typename packing<T>::unpacked_type;
            detail::vec<element, 2> pair = {detail::convert<element>(value.x), detail::convert<element>(value.y)};
            return __builtin_bit_cast(T, pair);
        }
    }
};

} // namespace base_types

namespace ducks::base_types {
template <typename T> concept T1 = __is_same(T, bf16) || __is_same(T, half) || __is_same(T, float);
template <typename T> concept T2 = __is_same(T, bf16_2) || __is_same(T, half_2) || __is_same(T, float2);
} // namespace ducks::base_types

namespace detail {

/// The type an operation computes in: bf16 widens to float (there is no bf16 arithmetic), half and float stay.
template <typename T> struct arithmetic {
    using type = T;
};
template <> struct arithmetic<bf16> {
    using type = float;
};
template <> struct arithmetic<bf16_2> {
    using type = vec<float, 2>;
};
template <> struct arithmetic<half_2> {
    using type = vec<half, 2>;
};
template <> struct arithmetic<float2> {
    using type = vec<float, 2>;
};

template <typename T> __device__ __forceinline__ typename arithmetic<T>::type widen(const T &value) {
    using type = typename arithmetic<T>::type;
    if constexpr (__is_same(T, bf16)) return float(value);
    else if constexpr (__is_same(T, bf16_2)) return type{float(value.x), float(value.y)};
    else return bits<type>(value);
}
template <typename T> __device__ __forceinline__ T narrow(const typename arithmetic<T>::type &value) {
    if constexpr (__is_same(T, bf16)) return bf16(value);
    else if constexpr (__is_same(T, bf16_2)) return __builtin_convertvector(value, bf16_2);
    else return bits<T>(value);
}

template <typename T, typename F> __device__ __forceinline__ T apply(F f, const T &a) { return narrow<T>(f(widen(a))); }
template <typename T, typename F> __device__ __forceinline__ T apply(F f, const T &a, const T &b) {
    return narrow<T>(f(widen(a), widen(b)));
}
/// A float function applied to each element of a scalar or a pair.
template <typename T, typename F> __device__ __forceinline__ T apply_float(F f, const T &a) {
    using base_types::packing;
    if constexpr (packing<T>::num() == 1) {
        return T(f(float(a)));
    } else {
        using element = typename packing<T>::unpacked_type;
        vec<element, 2> pair = {element(f(float(a.x))), element(f(float(a.y)))};
        return bits<T>(pair);
    }
}

constexpr float LOG2_E = 1.44269504088896340736f;
constexpr float LN_2 = 0.69314718055994530942f;

} // namespace detail

/// The operations: each has `op<T>` for an element or a pair. Maps and reductions take them as template arguments, and
/// kernels may add their own.
namespace base_ops {

struct zero {
    template <typename T> __device__ static __forceinline__ T op(const T &) { return T{}; }
};
struct one {
    template <typename T> __device__ static __forceinline__ T op(const T &) {
        return detail::apply_float<T>([](float) { return 1.0f; }, T{});
    }
};
struct pos_infty {
    template <typename T> __device__ static __forceinline__ T op(const T &) {
        return detail::apply_float<T>([](float) { return __builtin_inff(); }, T{});
    }
};
struct neg_infty {
    template <typename T> __device__ static __forceinline__ T op(const T &) {
        return detail::apply_float<T>([](float) { return -__builtin_inff(); }, T{});
    }
};

struct exp {
    template <typename T> __device__ static __forceinline__ T op(const T &x) {
        return detail::apply_float([](float v) { return __builtin_amdgcn_exp2f(v * detail::LOG2_E); }, x);
    }
};
struct exp2 {
    template <typename T> __device__ static __forceinline__ T op(const T &x) {
        return detail::apply_float([](float v) { return __builtin_amdgcn_exp2f(v); }, x);
    }
};
struct log {
    template <typename T> __device__ static __forceinline__ T op(const T &x) {
        return detail::apply_float([](float v) { return __builtin_amdgcn_logf(v) * detail::LN_2; }, x);
    }
};
struct log2 {
    template <typename T> __device__ static __forceinline__ T op(const T &x) {
        return detail::apply_float([](float v) { return __builtin_amdgcn_logf(v); }, x);
    }
};
struct abs {
    template <typename T> __device__ static __forceinline__ T op(const T &x) {
        return detail::apply([](auto v) { return __builtin_elementwise_abs(v); }, x);
    }
};
struct relu {
    template <typename T> __device__ static __forceinline__ T op(const T &x) {
        return detail::apply([](auto v) { return __builtin_elementwise_max(v, decltype(v){}); }, x);
    }
};
struct copy {
    template <typename T> __device__ static __forceinline__ T op(const T &x) { return x; }
};
struct copy1 {
    template <typename T> __device__ static __forceinline__ T op(const T &a, const T &) { return a; }
};
struct copy2 {
    template <typename T> __device__ static __forceinline__ T op(const T &, const T &b) { return b; }
};

struct sum {
    template <typename T> __device__ static __forceinline__ T op(const T &a, const T &b) {
        return detail::apply([](auto x, auto y) { return x + y; }, a, b);
    }
};
struct sub {
    template <typename T> __device__ static __forceinline__ T op(const T &a, const T &b) {
        return detail::apply([](auto x, auto y) { return x - y; }, a, b);
    }
};
struct mul {
    template <typename T> __device__ static __forceinline__ T op(const T &a, const T &b) {
        return detail::apply([](auto x, auto y) { return x * y; }, a, b);
    }
};
struct div {
    template <typename T> __device__ static __forceinline__ T op(const T &a, const T &b) {
        return detail::apply([](auto x, auto y) { return x / y; }, a, b);
    }
};
struct max {
    template <typename T> __device__ static __forceinline__ T op(const T &a, const T &b) {
        return detail::apply([](auto x, auto y) { return __builtin_elementwise_max(x, y); }, a, b);
    }
};
struct min {
    template <typename T> __device__ static __forceinline__ T op(const T &a, const T &b) {
        return detail::apply([](auto x, auto y) { return __builtin_elementwise_min(x, y); }, a, b);
    }
};

} // namespace base_ops
} // namespace kittens
