// Arithmetic that clang expands into sequences: division, square root, 64-bit integers, indexing with a run-time index.
#include "device.h"

__device__ inline int global_thread() { return __builtin_amdgcn_workgroup_id_x() * 256 + thread(); }

extern "C" __global__ LAUNCH(256) void divide_f32(const float* a, const float* b, float* c) {
  const int i = global_thread();
  c[i] = a[i] / b[i];
}

extern "C" __global__ LAUNCH(256) void divide_f64(const double* a, const double* b, double* c) {
  const int i = global_thread();
  c[i] = a[i] / b[i];
}

extern "C" __global__ LAUNCH(256) void integers(const long* a, const long* b, long* c) {
  const int i = global_thread();
  const unsigned long x = a[i], y = b[i] | 1;
  c[i] = (a[i] * b[i]) ^ (x / y) ^ (x % y) ^ (a[i] >> (b[i] & 63));
}

// An array indexed at run time: in scratch, or moved about with s_set_gpr_idx.
extern "C" __global__ LAUNCH(256) void gather(const int* a, const int* order, int* c) {
  int values[16];
  for (int i = 0; i < 16; ++i) values[i] = a[i] * 3;
  const int i = global_thread();
  c[i] = values[order[i] & 15];
}

extern "C" __global__ LAUNCH(256) void gather_uniform(const int* a, int which, int* c) {
  typedef int int16 __attribute__((ext_vector_type(16)));
  int16 values;
  for (int i = 0; i < 16; ++i) values[i] = a[i] + thread();
  c[global_thread()] = values[which & 15];
}

extern "C" __global__ LAUNCH(256) void histogram(const int* a, int* counts, float* sum) {
  __shared__ static int local[16];
  if (thread() < 16) local[thread()] = 0;
  barrier();
  const int i = global_thread();
  __hip_atomic_fetch_add(&local[a[i] & 15], 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  barrier();
  if (thread() < 16) __hip_atomic_fetch_add(&counts[thread()], local[thread()], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  __hip_atomic_fetch_add(sum, float(a[i] & 15), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
