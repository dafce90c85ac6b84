// Loads in inline assembly, which the compiler does not wait for. WAIT=0 leaves the s_waitcnt out.
#include "device.h"
#ifndef WAIT
#define WAIT 1
#endif
#if WAIT
#define WAIT_VECTOR "s_waitcnt vmcnt(0)\n"
#define WAIT_LDS "s_waitcnt lgkmcnt(0)\n"
#else
#define WAIT_VECTOR
#define WAIT_LDS
#endif

extern "C" __global__ LAUNCH(64) void from_global(const float* in, float* out) {
  float x, y;
  asm volatile("global_load_dword %0, %2, %3\n" WAIT_VECTOR "v_add_f32 %1, 1.0, %0\n"
               : "=&v"(x), "=&v"(y) : "v"(thread() * 4), "s"(in) : "memory");
  out[thread()] = y;
}

extern "C" __global__ LAUNCH(64) void from_lds(const float* in, float* out) {
  __shared__ static float tile[64];
  tile[thread()] = in[thread()];
  float x, y;
  asm volatile("s_waitcnt lgkmcnt(0)\nds_read_b32 %0, %2\n" WAIT_LDS "v_add_f32 %1, 1.0, %0\n"
               : "=&v"(x), "=&v"(y) : "v"((unsigned)(__UINTPTR_TYPE__)(__attribute__((address_space(3))) float*)&tile[thread()]) : "memory");
  out[thread()] = y;
}

// Straight into LDS: complete at vmcnt, visible to the other wave after the barrier.
extern "C" __global__ LAUNCH(128) void direct(const float* in, float* out) {
  __shared__ static float tile[128];
  __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) void*)(in + thread()),
                                   (__attribute__((address_space(3))) void*)(tile + 64 * wave()), 4, 0, 0);
#if WAIT
  __builtin_amdgcn_s_waitcnt(0);
#endif
  asm volatile("s_barrier" ::: "memory");
  float y;
  asm volatile("ds_read_b32 %0, %1\ns_waitcnt lgkmcnt(0)\n" : "=&v"(y)
               : "v"((unsigned)(__UINTPTR_TYPE__)(__attribute__((address_space(3))) float*)&tile[127 - thread()]) : "memory");
  out[thread()] = y;
}
