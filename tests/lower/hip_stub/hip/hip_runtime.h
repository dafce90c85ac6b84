// As much of HIP as a generated file and its harness need on a machine without it: declarations for the compiler, and a
// runtime whose GPU memory is the CPU's. A test defines `hipLaunchKernel`; without a GPU is a run with NO_GPU in its environment.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct dim3 {
    uint32_t x, y, z;
    __host__ __device__ constexpr dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
static constexpr __device__ dim3 threadIdx, blockIdx, blockDim, gridDim;
__device__ inline void __syncthreads() {}
__host__ __device__ constexpr int min(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int max(int a, int b) { return a < b ? b : a; }

using hipStream_t = void *;
using hipEvent_t = void *;
enum hipError_t { hipSuccess = 0, hipErrorUnknown = 999 };
enum hipMemcpyKind { hipMemcpyHostToDevice, hipMemcpyDeviceToHost };
enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize };

inline const char *hipGetErrorString(hipError_t) { return "an error"; }
inline hipError_t hipGetLastError() { return hipSuccess; }
inline hipError_t hipFuncSetAttribute(const void *, hipFuncAttribute, int) { return hipSuccess; }
inline hipError_t hipMalloc(void **p, size_t n) { return (*p = std::malloc(n)) ? hipSuccess : hipErrorUnknown; }
inline hipError_t hipFree(void *p) { std::free(p); return hipSuccess; }
inline hipError_t hipMemcpy(void *to, const void *from, size_t n, hipMemcpyKind) { std::memcpy(to, from, n); return hipSuccess; }
inline hipError_t hipMemset(void *p, int value, size_t n) { std::memset(p, value, n); return hipSuccess; }
extern "C" hipError_t hipMemsetAsync(void *, int, size_t, hipStream_t);  // for the program to define, where it is called
inline hipError_t hipStreamCreate(hipStream_t *s) { *s = nullptr; return hipSuccess; }
inline hipError_t hipStreamDestroy(hipStream_t) { return hipSuccess; }
inline hipError_t hipStreamSynchronize(hipStream_t) { return hipSuccess; }
inline hipError_t hipEventCreate(hipEvent_t *e) { *e = nullptr; return hipSuccess; }
inline hipError_t hipEventDestroy(hipEvent_t) { return hipSuccess; }
inline hipError_t hipEventRecord(hipEvent_t, hipStream_t) { return hipSuccess; }
inline hipError_t hipEventSynchronize(hipEvent_t) { return hipSuccess; }
inline hipError_t hipEventElapsedTime(float *ms, hipEvent_t, hipEvent_t) { *ms = 2.0f; return hipSuccess; }
inline hipError_t hipGetDeviceCount(int *count) {
    *count = std::getenv("NO_GPU") ? 0 : 1;
    return hipSuccess;
}

// What clang makes of `kernel<<<grid, block, lds, stream>>>(g)`.
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);
inline dim3 pushed_grid, pushed_block;
extern "C" inline unsigned __hipPushCallConfiguration(dim3 grid, dim3 block, size_t = 0, void * = nullptr) {
    pushed_grid = grid, pushed_block = block;
    return 0;
}
extern "C" inline hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *, void *) {
    *grid = pushed_grid, *block = pushed_block;
    return hipSuccess;
}
extern "C" __attribute__((used)) inline void **__hipRegisterFatBinary(const void *) { return nullptr; }
extern "C" __attribute__((used)) inline void __hipUnregisterFatBinary(void **) {}
extern "C" __attribute__((used)) inline int __hipRegisterFunction(void **, const void *, char *, char *, unsigned, void *, void *, dim3 *, dim3 *, int *) { return 0; }
