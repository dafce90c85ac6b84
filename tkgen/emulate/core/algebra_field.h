// Numbers of two finite fields, Z_p and Z_q with p = 2 q + 1: what a launch over an algebra computes beside its floats.
//
// 2 is a square modulo p and has the order q, so 2^x of an x in Z_q is one number of Z_p, and 2^(x + y) = 2^x 2^y. A dyadic
// rational has an image in both; sums and products of images are images of sums and products.
#pragma once
#include "numeric.h"

namespace ring {

constexpr uint32_t P = 2147481143, Q = 1073740571;
static_assert(P == 2 * Q + 1 && P % 8 == 7, "2 must have the order q");

// In place of the p value: of a number lost, with the number of its loss in place of the q value; of an infinity, with 1
// where it is negative. In place of the q value: of a number that has none. All have the top bit, as no number does.
constexpr uint32_t LOST = 0xffffffff, INFINITE = 0xfffffffd, ABSENT = 0xffffffff, SPECIAL = 0x80000000;

struct Number {
  uint32_t p, q;
  bool special() const { return p & SPECIAL; }
  bool lost() const { return p == LOST; }
};

template <uint32_t M>
constexpr uint32_t add(uint32_t a, uint32_t b) { return a + b >= M ? a + b - M : a + b; }
template <uint32_t M>
constexpr uint32_t sub(uint32_t a, uint32_t b) { return a >= b ? a - b : a + (M - b); }
template <uint32_t M>
constexpr uint32_t neg(uint32_t a) { return a ? M - a : 0; }

// x modulo 2^31 - 2505 and 2^30 - 1253, for x below 2^62 and 2^60.
template <uint32_t M>
constexpr uint32_t reduce(uint64_t x) {
  constexpr int width = M == P ? 31 : 30;
  constexpr uint64_t rest = (uint64_t(1) << width) - M, mask = (uint64_t(1) << width) - 1;
  x = (x & mask) + (x >> width) * rest;
  x = (x & mask) + (x >> width) * rest;
  const uint32_t r = uint32_t(x);
  return r >= M ? r - M : r;
}
template <uint32_t M>
constexpr uint32_t mul(uint32_t a, uint32_t b) { return reduce<M>(uint64_t(a) * b); }

template <uint32_t M>
constexpr uint32_t power(uint32_t x, uint32_t e) {
  uint32_t r = 1;
  for (; e; e >>= 1, x = mul<M>(x, x))
    if (e & 1) r = mul<M>(r, x);
  return r;
}
template <uint32_t M>
constexpr uint32_t inverse(uint32_t x) { return power<M>(x, M - 2); }

// 2^e of an integer, and of an x in Z_q.
template <uint32_t M>
uint32_t two_to(int e);
uint32_t exp2_of(uint32_t x);

// A keyed hash: what a function that is not followed makes of its argument. The ASCII letters of the tag, the first lowest.
inline uint64_t hash(uint64_t tag, uint32_t x) {
  uint64_t z = tag ^ x * 0x9E3779B97F4A7C15ull;
  z ^= z >> 30, z *= 0xBF58476D1CE4E5B9ull;
  z ^= z >> 27, z *= 0x94D049BB133111EBull;
  return z ^ z >> 31;
}
constexpr uint64_t tag(const char* name) {
  uint64_t r = 0;
  for (int i = 0; name[i]; ++i) r |= uint64_t(uint8_t(name[i])) << 8 * i;
  return r;
}

// The image of a float, exactly; of a NaN LOST with no number of a loss yet.
Number image(float x);
Number image(double x);
Number image_of_integer(int64_t x);

}  // namespace ring
