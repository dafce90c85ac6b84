/**
 * HIP's vector types, `int2` and their like, and what makes them. Those of two and four elements are clang's; those of one and
 * three are structs, which have no padding: three floats are 12 bytes (HIP language documentation, "Vector types").
 */
#pragma once

#include "kittens/device.cuh"

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using ulong = unsigned long;
using longlong = long long;
using ulonglong = unsigned long long;

#ifdef KITTENS_LANGUAGE_ONLY // tile libraries of others take the vector out of it
struct alignas(8) short4 {
    union {
        short data __attribute__((ext_vector_type(4)));
        struct {
            short x, y, z, w;
        };
    };
    short4() = default;
    __host__ __device__ constexpr short4(short x, short y, short z, short w) : data{x, y, z, w} {}
};
#else
using short4 = short __attribute__((ext_vector_type(4)));
#endif
using short2 = short __attribute__((ext_vector_type(2)));

namespace tkgen_hip {
template <typename T> struct one {
    using element = T;
    T x;
};
template <typename T> struct three {
    using element = T;
    T x, y, z;
};
/// What the tile library has as structs without arithmetic, too.
template <typename V> concept is_one = requires { typename V::element; } && __is_same(V, one<typename V::element>);
template <typename V> concept is_three = requires { typename V::element; } && __is_same(V, three<typename V::element>);
template <typename V> concept is_two = __is_same(V, int2) || __is_same(V, float2);
template <typename V> concept is_four = __is_same(V, int4) || __is_same(V, float4) || __is_same(V, short4);
template <typename V> concept is_struct = __is_class(V) && (is_one<V> || is_three<V> || is_two<V> || is_four<V>);
} // namespace tkgen_hip

#define TKGEN_OPERATOR(op)                                                                                             \
    template <tkgen_hip::is_struct V> __host__ __device__ constexpr V operator op(V a, V b) {                          \
        a.x = a.x op b.x;                                                                                              \
        if constexpr (!tkgen_hip::is_one<V>) a.y = a.y op b.y;                                                         \
        if constexpr (tkgen_hip::is_three<V> || tkgen_hip::is_four<V>) a.z = a.z op b.z;                               \
        if constexpr (tkgen_hip::is_four<V>) a.w = a.w op b.w;                                                         \
        return a;                                                                                                      \
    }                                                                                                                  \
    template <tkgen_hip::is_struct V> __host__ __device__ constexpr V operator op(V a, decltype(V::x) b) {             \
        if constexpr (tkgen_hip::is_one<V>) return a op V{b};                                                          \
        else if constexpr (tkgen_hip::is_two<V>) return a op V{b, b};                                                  \
        else if constexpr (tkgen_hip::is_three<V>) return a op V{b, b, b};                                             \
        else return a op V{b, b, b, b};                                                                                \
    }                                                                                                                  \
    template <tkgen_hip::is_struct V, typename T> __host__ __device__ constexpr V &operator op##=(V & a, T b) {        \
        return a = a op b;                                                                                             \
    }
TKGEN_OPERATOR(+)
TKGEN_OPERATOR(-)
TKGEN_OPERATOR(*)
TKGEN_OPERATOR(/)
#undef TKGEN_OPERATOR

#define TKGEN_WIDE(T, name)                                                                                            \
    using name##2 = T __attribute__((ext_vector_type(2)));                                                             \
    using name##4 = T __attribute__((ext_vector_type(4)));
TKGEN_WIDE(unsigned int, uint)
TKGEN_WIDE(unsigned short, ushort)
TKGEN_WIDE(signed char, char)
TKGEN_WIDE(unsigned char, uchar)
TKGEN_WIDE(long, long)
TKGEN_WIDE(unsigned long, ulong)
TKGEN_WIDE(long long, longlong)
TKGEN_WIDE(unsigned long long, ulonglong)
TKGEN_WIDE(double, double)
#undef TKGEN_WIDE

namespace tkgen_hip {
template <typename T, unsigned n> struct vector_of {  // of sizes that have no name
    using type = T __attribute__((ext_vector_type(n)));
};
}
template <typename T, unsigned n> using HIP_vector_type = typename tkgen_hip::vector_of<T, n>::type;
#define TKGEN_OF(T, name, n)                                                                                           \
    template <> struct tkgen_hip::vector_of<T, n> {                                                                    \
        using type = name##n;                                                                                          \
    };
#define TKGEN_VECTOR(T, name)                                                                                          \
    using name##1 = tkgen_hip::one<T>;                                                                                 \
    using name##3 = tkgen_hip::three<T>;                                                                               \
    TKGEN_OF(T, name, 1)                                                                                               \
    TKGEN_OF(T, name, 2)                                                                                               \
    TKGEN_OF(T, name, 3)                                                                                               \
    TKGEN_OF(T, name, 4)                                                                                               \
    __host__ __device__ constexpr name##1 make_##name##1(T x) { return {x}; }                                          \
    __host__ __device__ constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                                  \
    __host__ __device__ constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                          \
    __host__ __device__ constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TKGEN_VECTOR(signed char, char)
TKGEN_VECTOR(unsigned char, uchar)
TKGEN_VECTOR(short, short)
TKGEN_VECTOR(unsigned short, ushort)
TKGEN_VECTOR(int, int)
TKGEN_VECTOR(unsigned int, uint)
TKGEN_VECTOR(long, long)
TKGEN_VECTOR(unsigned long, ulong)
TKGEN_VECTOR(long long, longlong)
TKGEN_VECTOR(unsigned long long, ulonglong)
TKGEN_VECTOR(float, float)
TKGEN_VECTOR(double, double)
#undef TKGEN_VECTOR
#undef TKGEN_OF
