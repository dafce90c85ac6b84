// Vector operands: reading them into 64 lanes with their modifiers, and writing results back.
#pragma once
#include "machine.h"
#include "numeric.h"

// How the bits of an operand are meant; decides constants, modifiers and what happens to the upper half.
enum class Kind : uint8_t { B32, F32, B16, F16, F16_KEEP, B16_KEEP, B64, I64, F64, P16, PF16 };

struct Lanes {  // 64 lanes of one operand: its own rows or a copy
  const uint32_t* lo;
  const uint32_t* hi;
  alignas(64) uint32_t low[LANES], high[LANES];
};

uint32_t scalar32(Wave& w, const Op& op, uint16_t code, Kind kind);
uint64_t scalar64(Wave& w, const Op& op, uint16_t code, Kind kind);
void fetch(Wave& w, const Op& op, int i, Kind kind, Lanes& out);
void fetch_code(Wave& w, const Op& op, uint16_t code, Kind kind, Lanes& out);
void flush_operand(const Wave& w, Kind kind, Lanes& out);
void store(Wave& w, const Op& op, Kind kind, uint32_t* lo, uint32_t* hi);
void store_scalar_mask(Wave& w, uint16_t code, uint64_t mask);
int dpp_source(uint32_t control, int l);
void write_row(Wave& w, uint16_t code, const uint32_t* lanes, uint64_t mask);

inline int swizzled_lane(int lane, int blgp) {  // BLGP of a matrix instruction: which lanes of B are read (not for f64)
  switch (blgp) {
    case 1: return lane & 31;
    case 2: return lane | 32;
    case 3: return (lane + 16) & 63;
    case 4: case 5: case 6: case 7: return (lane & 15) | (blgp - 4) << 4;
  }
  return lane;
}

inline bool ieee(const Wave& w) { return w.mode >> 9 & 1; }
// Subnormals as the mode has them, of operands (output false) and of results.
inline uint32_t flush_half(const Wave& w, uint32_t h, bool output) { return w.mode >> (6 + output) & 1 || h & 0x7c00 ? h : h & 0x8000; }
inline float flush_single(const Wave& w, float x, bool output) {
  const uint32_t u = bits<uint32_t>(x);
  return w.mode >> (4 + output) & 1 || u & 0x7f800000 ? x : bits<float>(u & 0x80000000);
}
// CLAMP of a float: to +0 to 1; DX10_CLAMP makes zero of NaN.
template <class F>
inline F clamped(const Wave& w, F x) { return x != x ? (w.mode >> 8 & 1 ? F(0) : x) : std::signbit(x) ? F(0) : x > 1 ? F(1) : x; }

// Types of lane values: `T` is what the operation computes with.
struct U32 { using T = uint32_t; static constexpr int rows = 1; static constexpr Kind kind = Kind::B32;
  static T get(uint32_t lo, uint32_t) { return lo; } static void put(T x, uint32_t& lo, uint32_t&) { lo = x; } };
struct I32 { using T = int32_t; static constexpr int rows = 1; static constexpr Kind kind = Kind::B32;
  static T get(uint32_t lo, uint32_t) { return T(lo); } static void put(T x, uint32_t& lo, uint32_t&) { lo = uint32_t(x); } };
struct F32 { using T = float; static constexpr int rows = 1; static constexpr Kind kind = Kind::F32;
  static T get(uint32_t lo, uint32_t) { return bits<float>(lo); } static void put(T x, uint32_t& lo, uint32_t&) { lo = bits<uint32_t>(x); } };
struct U16 { using T = uint32_t; static constexpr int rows = 1; static constexpr Kind kind = Kind::B16;
  static T get(uint32_t lo, uint32_t) { return lo & 0xffff; } static void put(T x, uint32_t& lo, uint32_t&) { lo = x & 0xffff; } };
struct I16 { using T = int32_t; static constexpr int rows = 1; static constexpr Kind kind = Kind::B16;
  static T get(uint32_t lo, uint32_t) { return int16_t(lo); } static void put(T x, uint32_t& lo, uint32_t&) { lo = uint32_t(x) & 0xffff; } };
struct F16 { using T = float; static constexpr int rows = 1; static constexpr Kind kind = Kind::F16;
  static T get(uint32_t lo, uint32_t) { return half_to_float(lo & 0xffff); } static void put(T x, uint32_t& lo, uint32_t&) { lo = float_to_half(x); } };
struct H16 { using T = uint32_t; static constexpr int rows = 1; static constexpr Kind kind = Kind::F16;  // raw half
  static T get(uint32_t lo, uint32_t) { return lo & 0xffff; } static void put(T x, uint32_t& lo, uint32_t&) { lo = x & 0xffff; } };
struct H16K : H16 { static constexpr Kind kind = Kind::F16_KEEP; };  // the other half of the destination stays
struct U16K : U16 { static constexpr Kind kind = Kind::B16_KEEP; };
struct P16 : U32 { static constexpr Kind kind = Kind::P16; };    // two 16-bit integers
struct PF16 : U32 { static constexpr Kind kind = Kind::PF16; };  // two halves
struct U64 { using T = uint64_t; static constexpr int rows = 2; static constexpr Kind kind = Kind::B64;
  static T get(uint32_t lo, uint32_t hi) { return uint64_t(hi) << 32 | lo; } static void put(T x, uint32_t& lo, uint32_t& hi) { lo = uint32_t(x); hi = uint32_t(x >> 32); } };
struct I64 { using T = int64_t; static constexpr int rows = 2; static constexpr Kind kind = Kind::I64;
  static T get(uint32_t lo, uint32_t hi) { return T(uint64_t(hi) << 32 | lo); } static void put(T x, uint32_t& lo, uint32_t& hi) { U64::put(uint64_t(x), lo, hi); } };
struct F64 { using T = double; static constexpr int rows = 2; static constexpr Kind kind = Kind::F64;
  static T get(uint32_t lo, uint32_t hi) { return bits<double>(U64::get(lo, hi)); } static void put(T x, uint32_t& lo, uint32_t& hi) { U64::put(bits<uint64_t>(x), lo, hi); } };

template <class A>
struct Source : Lanes {
  Source(Wave& w, const Op& op, int i) { fetch(w, op, i, A::kind, *this); }
  typename A::T operator[](int l) const { return A::get(lo[l], A::rows == 2 ? hi[l] : 0); }
};

template <class A>
struct Destination : Lanes {  // the old value, for operations that accumulate
  Destination(Wave& w, const Op& op) {
    fetch_code(w, op, op.dst, A::kind, *this);
    flush_operand(w, A::kind, *this);
  }
  typename A::T operator[](int l) const { return A::get(lo[l], A::rows == 2 ? hi[l] : 0); }
};

template <class D, class F>
inline void each(Wave& w, const Op& op, F f) {
  alignas(64) uint32_t lo[LANES], hi[LANES];
  for (int l = 0; l < LANES; ++l) D::put(typename D::T(f(l)), lo[l], hi[l]);
  store(w, op, D::kind, lo, D::rows == 2 ? hi : nullptr);
}

template <class D, class A, class F>
inline void lanes1(Wave& w, const Op& op, F f) {
  Source<A> a(w, op, 0);
  each<D>(w, op, [&](int l) { return f(a[l]); });
}
template <class D, class A, class B, class F>
inline void lanes2(Wave& w, const Op& op, F f) {
  Source<A> a(w, op, 0);
  Source<B> b(w, op, 1);
  each<D>(w, op, [&](int l) { return f(a[l], b[l]); });
}
template <class D, class A, class B, class C, class F>
inline void lanes3(Wave& w, const Op& op, F f) {
  Source<A> a(w, op, 0);
  Source<B> b(w, op, 1);
  Source<C> c(w, op, 2);
  each<D>(w, op, [&](int l) { return f(a[l], b[l], c[l]); });
}
template <class D, class A, class B, class F>
inline void lanes_accumulate(Wave& w, const Op& op, F f) {
  Source<A> a(w, op, 0);
  Source<B> b(w, op, 1);
  Destination<D> c(w, op);
  each<D>(w, op, [&](int l) { return f(a[l], b[l], c[l]); });
}

// Table entries. In the expressions a, b, c are the sources (c the old destination in VACC) and `w`, `op` the context.
#define V1(NAME, D, A, EXPR) \
  {#NAME, [](Wave& w, const Op& op) { (void)w; lanes1<D, A>(w, op, [&](auto a) { return EXPR; }); }, D::rows, {A::rows, 0, 0}, 0}
#define V2(NAME, D, A, B, EXPR) \
  {#NAME, [](Wave& w, const Op& op) { lanes2<D, A, B>(w, op, [&](auto a, auto b) { return EXPR; }); }, D::rows, {A::rows, B::rows, 0}, 0}
#define V3(NAME, D, A, B, C, EXPR)                                                                                   \
  {#NAME, [](Wave& w, const Op& op) { lanes3<D, A, B, C>(w, op, [&](auto a, auto b, auto c) { return EXPR; }); }, D::rows, \
   {A::rows, B::rows, C::rows}, 0}
#define VACC(NAME, D, A, B, EXPR)                                                                                       \
  {#NAME, [](Wave& w, const Op& op) { lanes_accumulate<D, A, B>(w, op, [&](auto a, auto b, auto c) { return EXPR; }); }, D::rows, \
   {A::rows, B::rows, 0}, READS_DST}
#define SPECIAL(NAME, CALL, D, A, B, C, FLAGS) {#NAME, [](Wave& w, const Op& op) { CALL; }, D, {A, B, C}, FLAGS}
