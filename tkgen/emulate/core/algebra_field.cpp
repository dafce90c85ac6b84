// See algebra_field.h.
#include "algebra_field.h"

#include <array>

namespace ring {

namespace {

template <uint32_t M>
uint32_t power_of_two(int e) {
  const uint32_t r = power<M>(2, uint32_t(e < 0 ? -e : e));
  return e < 0 ? inverse<M>(r) : r;
}

constexpr int MOST = 1200;  // of exponents that are looked up

template <uint32_t M>
struct Exponents {
  std::array<uint32_t, 2 * MOST + 1> of;
  Exponents() {
    for (int e = -MOST; e <= MOST; ++e) of[size_t(e + MOST)] = power_of_two<M>(e);
  }
};

struct Powers {  // 2^(e - 150) for the exponent field e of an f32, and 2^x in three digits of ten bits
  std::array<uint32_t, 256> p, q;
  std::array<uint32_t, 1024> digit[3];
  Powers() {
    for (int e = 0; e < 256; ++e) p[size_t(e)] = two_to<P>((e ? e : 1) - 150), q[size_t(e)] = two_to<Q>((e ? e : 1) - 150);
    for (uint32_t i = 0; i < 1024; ++i)
      for (int d = 0; d < 3; ++d) digit[d][i] = power<P>(2, i << 10 * d);
  }
};

const Powers& powers() {
  static const Powers table;
  return table;
}

}  // namespace

template <uint32_t M>
uint32_t two_to(int e) {
  static const Exponents<M> table;
  return e >= -MOST && e <= MOST ? table.of[size_t(e + MOST)] : power_of_two<M>(e);
}
template uint32_t two_to<P>(int e);
template uint32_t two_to<Q>(int e);

uint32_t exp2_of(uint32_t x) {
  const Powers& t = powers();
  return mul<P>(mul<P>(t.digit[0][x & 1023], t.digit[1][x >> 10 & 1023]), t.digit[2][x >> 20]);
}

Number image(float x) {
  const uint32_t b = bits<uint32_t>(x), e = b >> 23 & 255;
  if (e == 255) return b & 0x7fffff ? Number{LOST, 0} : Number{INFINITE, b >> 31};
  const uint32_t m = (b & 0x7fffff) | (e ? 0x800000 : 0);
  const Powers& t = powers();
  const Number r = {mul<P>(m, t.p[e]), mul<Q>(m, t.q[e])};
  return b >> 31 ? Number{neg<P>(r.p), neg<Q>(r.q)} : r;
}

Number image_of_integer(int64_t x) {
  const uint64_t m = x < 0 ? 0 - uint64_t(x) : uint64_t(x);
  const Number r = {uint32_t(m % P), uint32_t(m % Q)};
  return x < 0 ? Number{neg<P>(r.p), neg<Q>(r.q)} : r;
}

Number image(double x) {
  if (x != x) return {LOST, 0};
  if (std::isinf(x)) return {INFINITE, x < 0};
  int e;
  const Number m = image_of_integer(int64_t(std::ldexp(std::frexp(x, &e), 53)));
  return {mul<P>(m.p, two_to<P>(e - 53)), mul<Q>(m.q, two_to<Q>(e - 53))};
}

}  // namespace ring
