// The host side: a function `e_NAME` for each expression, and what its type is.
#define FUNCTION static __attribute__((noinline))
#define METHOD
#define E(NAME, T, ...)                                                                   \
  extern "C" int e_##NAME(const T* left, const T* right, T* result, int count) {            \
    for (int i = 0; i < count; ++i) {                                                       \
      const T a = left[i], b = right[i];                                                    \
      result[i] = __VA_ARGS__;                                                                    \
    }                                                                                       \
    return sizeof(T);                                                                       \
  }
#include "expressions.h"

// Older compiler libraries lack it.
extern "C" bf16 __truncsfbf2(f32 x) {
  u32 u = __builtin_bit_cast(u32, x);
  u = (u & 0x7fffffff) > 0x7f800000 ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1);
  return __builtin_bit_cast(bf16, u16(u >> 16));
}
extern "C" bf16 __truncdfbf2(f64 x) { return __truncsfbf2(f32(x)); }
