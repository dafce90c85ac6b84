// The device side: a kernel `e_NAME` for each expression.
#include "device.h"
#define FUNCTION static __device__ __attribute__((noinline))
#define METHOD __device__
#define E(NAME, T, ...)                                                                    \
  extern "C" __global__ LAUNCH(64) void e_##NAME(const T* left, const T* right, T* result) { \
    const int i = __builtin_amdgcn_workgroup_id_x() * 64 + thread();                         \
    const T a = left[i], b = right[i];                                                       \
    result[i] = __VA_ARGS__;                                                                       \
  }
#include "expressions.h"
