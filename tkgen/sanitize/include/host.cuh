/**
 * The rest of a hand-written file: what its host side calls, declared and never run, and the device functions of HIP's headers
 * that tile kernels use beside the tile library. With it a ThunderKittens source compiles for the device alone, unchanged.
 */
#pragma once

#include "kittens.cuh"

#include "device_functions.cuh"

/* ---------- host: parsed by the compiler, no code made of it ---------- */

using hipError_t = int;
using hipStream_t = struct ihipStream_t *;
using hipEvent_t = struct ihipEvent_t *;
constexpr hipError_t hipSuccess = 0;
enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize, hipFuncAttributePreferredSharedMemoryCarveout };
enum hipMemcpyKind { hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice, hipMemcpyDefault };

#define TKGEN_HOST_CALL(name) \
    template <typename... T> __host__ hipError_t name(const T &...) { return hipSuccess; }
TKGEN_HOST_CALL(hipFuncSetAttribute)
TKGEN_HOST_CALL(hipDeviceSynchronize)
TKGEN_HOST_CALL(hipStreamSynchronize)
TKGEN_HOST_CALL(hipGetLastError)
TKGEN_HOST_CALL(hipPeekAtLastError)
TKGEN_HOST_CALL(hipMemcpy)
TKGEN_HOST_CALL(hipMemset)
TKGEN_HOST_CALL(hipFree)
TKGEN_HOST_CALL(hipSetDevice)
TKGEN_HOST_CALL(hipEventRecord)
TKGEN_HOST_CALL(hipEventSynchronize)
TKGEN_HOST_CALL(hipEventDestroy)
#undef TKGEN_HOST_CALL
template <typename T> __host__ hipError_t hipMalloc(T **, size_t) { return hipSuccess; }
__host__ inline hipError_t hipEventCreate(hipEvent_t *) { return hipSuccess; }
__host__ inline hipError_t hipEventElapsedTime(float *, hipEvent_t, hipEvent_t) { return hipSuccess; }
__host__ inline const char *hipGetErrorString(hipError_t) { return ""; }
// What `kernel<<<grid, block, lds, stream>>>(...)` stands for.
extern "C" __host__ hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds = 0, hipStream_t stream = nullptr);
extern "C" __host__ hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);

namespace pybind11 {
struct module_ {
    const char *&doc() const;
    template <typename... T> __host__ module_ &def(const char *, const T &...) { return *this; }
};
} // namespace pybind11
#define PYBIND11_MODULE(name, variable) [[maybe_unused]] static __host__ void tkgen_module_##name(pybind11::module_ variable)

namespace kittens::py {
template <auto, typename GLOBALS, typename... T> __host__ void bind_kernel(const pybind11::module_ &, const char *, T GLOBALS::*...) {}
template <auto, typename GLOBALS, typename... T> __host__ void bind_function(const pybind11::module_ &, const char *, T GLOBALS::*...) {}
} // namespace kittens::py

/* ---------- device: HIP's ---------- */

// The text is not formatted: under the emulator nobody reads it.
template <typename... T> __host__ __device__ int printf(const char *, const T &...) { return 0; }

namespace std {
template <typename A, typename B> inline constexpr bool is_same_v = __is_same(A, B);
template <typename A, typename B> struct is_same {
    static constexpr bool value = __is_same(A, B);
};
template <bool condition, typename A, typename B> using conditional_t = kittens::detail::conditional_t<condition, A, B>;
template <typename T> using remove_reference_t = __remove_reference_t(T);
template <typename T> using remove_cv_t = __remove_cv(T);
template <typename T> using remove_cvref_t = __remove_cvref(T);
template <typename T> __host__ __device__ constexpr remove_reference_t<T> &&move(T &&value) { return static_cast<remove_reference_t<T> &&>(value); }
template <typename T> __host__ __device__ constexpr T &&forward(remove_reference_t<T> &value) { return static_cast<T &&>(value); }
template <typename T> __host__ __device__ constexpr T min(T a, T b) { return b < a ? b : a; }
template <typename T> __host__ __device__ constexpr T max(T a, T b) { return a < b ? b : a; }
using ::int8_t, ::uint8_t, ::int16_t, ::uint16_t, ::int32_t, ::uint32_t, ::int64_t, ::uint64_t, ::size_t, ::uintptr_t;
} // namespace std
