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

/// Floats of 8 bits in the target's own encoding: on gfx942 e4m3fnuz and e5m2fnuz (CDNA3 ISA), on gfx950 OCP's e4m3fn
/// and e5m2 (CDNA4 ISA). Nothing is computed in them: they are loaded, converted, multiplied by matrix instructions.
struct fp8e4m3 {
    uint8_t bits;
};
struct fp8e5m2 {
    uint8_t bits;
};

/// A power of two, by its exponent: 2^(bits - 127), 255 is NaN (OCP MX, revision 1.0: E8M0). A scale of blocks.
struct e8m0 {
    uint8_t bits;
};

/// Two whole numbers of 4 bits, the first one in the low half: from 0 to 15, from -8 to 7. Nothing is computed in them.
struct u4x2 {
    uint8_t bits;
};
struct i4x2 {
    uint8_t bits;
};

/// A byte of a row of OCP's floats of 4 bits, two of them, or of 6 bits, of which four lie in three bytes, the first in
/// the lowest bits (MX, revision 1.0; so matrix instructions read them: CDNA4 ISA). Tiles and tensors of these count
/// such bytes as columns.
struct fp4e2m1 {
    uint8_t bits;
};
struct fp6e2m3 {
    uint8_t bits;
};
struct fp6e3m2 {
    uint8_t bits;
};

namespace detail {
template <typename T, int n> using vec = T __attribute__((ext_vector_type(n)));
using u32x2 = vec<uint32_t, 2>;
using u32x4 = vec<uint32_t, 4>;

template <typename T> constexpr bool is_fp8 = __is_same(T, fp8e4m3) || __is_same(T, fp8e5m2);

/// Bits of an element, of types that stand for a byte.
template <typename T> constexpr int element_bits = 8;
template <> inline constexpr int element_bits<fp4e2m1> = 4;
template <> inline constexpr int element_bits<fp6e2m3> = 6;
template <> inline constexpr int element_bits<fp6e3m2> = 6;

/// The largest finite number.
#ifdef KITTENS_CDNA4
template <typename T> constexpr float largest = __is_same(T, fp8e4m3) ? 448.0f : 57344.0f;
#else
template <typename T> constexpr float largest = __is_same(T, fp8e4m3) ? 240.0f : 57344.0f;
#endif

/// A number that the instructions convert to the nearest of 8 bits: finite ones beyond the largest become that. The
/// instructions make NaNs of them, and of infinities where the encoding has none.
template <typename T> __device__ __forceinline__ float within_fp8(float value) {
    const float within = __builtin_amdgcn_fmed3f(value, -largest<T>, largest<T>);
    return __builtin_isfinite(value) ? within : value;
}
/// To the nearest of 8 bits.
template <typename T> __device__ __forceinline__ T to_fp8(float value) {
    const float x = within_fp8<T>(value);
    if constexpr (__is_same(T, fp8e4m3)) return T{uint8_t(__builtin_amdgcn_cvt_pk_fp8_f32(x, x, 0, false))};
    else return T{uint8_t(__builtin_amdgcn_cvt_pk_bf8_f32(x, x, 0, false))};
}
template <typename T> __device__ __forceinline__ float from_fp8(T value) {
    if constexpr (__is_same(T, fp8e4m3)) return __builtin_amdgcn_cvt_f32_fp8(value.bits, 0);
    else return __builtin_amdgcn_cvt_f32_bf8(value.bits, 0);
}

/// To the nearest power of two, of two equally near to the larger one; the sign is left out. The largest ones, infinities
/// and NaN become NaN, as torch's float8_e8m0fnu does it. From 2^-127, which is subnormal, the lower neighbour counts as even.
__device__ __forceinline__ e8m0 to_e8m0(float value) {
    const uint32_t magnitude = __builtin_bit_cast(uint32_t, value) & 0x7fffffff;
    const uint32_t code = (magnitude + (magnitude < 0x800000 ? 0x3fffff : 0x400000)) >> 23;
    return e8m0{uint8_t(code < 255 ? code : 255)};
}
__device__ __forceinline__ float from_e8m0(e8m0 value) {
    const uint32_t bits = value.bits == 255 ? 0x7fc00000 : value.bits == 0 ? 0x400000 : uint32_t(value.bits) << 23;
    return __builtin_bit_cast(float, bits);
}

/// To the nearest whole number that T holds; NaN becomes the least one.
template <typename T> __device__ __forceinline__ T to_whole(float value) {
    const float nearest = __builtin_rintf(value);
    if constexpr (sizeof(T) == 1) return T(int(__builtin_fminf(__builtin_fmaxf(nearest, -128.0f), 127.0f)));
    else return nearest >= 2147483648.0f ? 0x7fffffff : nearest >= -2147483648.0f ? int(nearest) : -0x7fffffff - 1;
}

/// Element type conversion; narrowing rounds to nearest even (gfx942 and gfx90a have no bf16 conversion; the compiler's
/// expansion keeps a NaN a NaN). Between the two 2-byte types it goes through float, which is exact one way and has no
/// instruction of its own either way.
template <typename To, typename From> __host__ __device__ __forceinline__ To convert(const From &value) {
    if constexpr (__is_same(To, From)) return value;
    else if constexpr (__is_same(From, e8m0)) return convert<To>(from_e8m0(value));
    else if constexpr (__is_same(To, e8m0)) return to_e8m0(float(value));
    else if constexpr (is_fp8<From>) return convert<To>(from_fp8(value));
    else if constexpr (is_fp8<To>) return to_fp8<To>(float(value));
    else if constexpr (__is_same(To, int8_t) || __is_same(To, int)) return to_whole<To>(float(value));
    else return To(float(value));
}
/// Elements of one byte, of which the language has no vectors.
template <typename T, int n> struct bytes {
    T at[n];
    __device__ __forceinline__ T operator[](int i) const { return at[i]; }
};
template <typename To, typename From, int n>
__device__ __forceinline__ auto convert_vector(const vec<From, n> &value) {
    if constexpr (__is_same(To, From)) {
        return value;
    } else if constexpr (sizeof(To) == 1 || __is_same(To, int)) {
        conditional_t<sizeof(To) == 1, bytes<To, n>, vec<int, n>> result;
#pragma unroll
        for (int i = 0; i < n; i++) {
            if constexpr (sizeof(To) == 1) result.at[i] = convert<To>(value[i]);
            else result[i] = convert<To>(value[i]);
        }
        return result;
    } else return __builtin_convertvector(__builtin_convertvector(value, vec<float, n>), vec<To, n>);
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
template <> struct packing<int> {
    using unpacked_type = int;
    using packed_type = int2;
    static constexpr int num() { return 1; }
};
/// Elements of one byte are not computed with: no pairs.
template <typename T>
    requires(sizeof(T) == 1)
struct packing<T> {
    using unpacked_type = T;
    using packed_type = void;
    static constexpr int num() { return 1; }
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
