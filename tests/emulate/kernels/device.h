// What the test kernels need of HIP, from clang's builtins alone.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define LAUNCH(threads) __attribute__((amdgpu_flat_work_group_size(threads, threads)))

typedef short half4 __attribute__((ext_vector_type(4)));   // four bf16 values, as bits
typedef float float4v __attribute__((ext_vector_type(4)));

__device__ inline int thread() { return __builtin_amdgcn_workitem_id_x(); }
__device__ inline int wave() { return __builtin_amdgcn_readfirstlane(thread() / 64); }
__device__ inline int lane() { return thread() % 64; }
__device__ inline void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__device__ inline float4v mma(half4 a, half4 b, float4v c) { return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0); }

constexpr int STEP = 32, PITCH = STEP + 8;  // K per step; padded row of a tile in LDS

// `threads` threads copy a tile of `rows` x STEP values into LDS; `t` is this thread's number among them.
__device__ inline void load_tile(short* tile, const short* from, int pitch, int rows, int t, int threads) {
  for (int i = t; i < rows * STEP / 4; i += threads) {
    const int r = i * 4 / STEP, c = i * 4 % STEP;
    *(half4*)(tile + r * PITCH + c) = *(const half4*)(from + (long)r * pitch + c);
  }
}

// A 16x16 operand of one MFMA from LDS: lane l holds row l % 16, four values from 4 (l / 16).
__device__ inline half4 fragment(const short* tile, int row, int k) {
  return *(const half4*)(tile + (row + lane() % 16) * PITCH + k + 4 * (lane() / 16));
}

__device__ inline void store_fragment(float* c, int pitch, int row, int column, float4v value) {
  for (int r = 0; r < 4; ++r) c[(long)(row + 4 * (lane() / 16) + r) * pitch + column + lane() % 16] = value[r];
}
