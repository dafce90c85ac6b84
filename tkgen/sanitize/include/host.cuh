/**
 * The rest of a hand-written file: what its host side calls, declared and never run, and the device functions of HIP's headers
 * that tile kernels use beside the tile library. With it a ThunderKittens source compiles for the device alone, unchanged.
 */
#pragma once

#ifdef KITTENS_LANGUAGE_ONLY
#include "kittens/device.cuh" // the tile library is a checkout's
#else
#include "kittens.cuh"
#endif

#include "device_functions.cuh"
#include "fp8_floats.cuh"

#define __align__(bytes) __attribute__((aligned(bytes)))

/* ---------- host: parsed by the compiler, no code made of it ---------- */

using hipError_t = int;
using hipStream_t = struct ihipStream_t *;
using hipEvent_t = struct ihipEvent_t *;
using hipDevice_t = int;
struct hipDeviceProp_t {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize, maxThreadsPerBlock, multiProcessorCount, clockRate, major, minor;
    char gcnArchName[256];
};
constexpr hipError_t hipSuccess = 0;
enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize, hipFuncAttributePreferredSharedMemoryCarveout };
enum hipMemcpyKind { hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice, hipMemcpyDefault };

#define TKGEN_HOST_CALL(name) \
    template <typename... T> __host__ hipError_t hip##name(const T &...) { return hipSuccess; }
TKGEN_HOST_CALL(FuncSetAttribute)
TKGEN_HOST_CALL(FuncSetCacheConfig)
TKGEN_HOST_CALL(DeviceSynchronize)
TKGEN_HOST_CALL(DeviceReset)
TKGEN_HOST_CALL(StreamSynchronize)
TKGEN_HOST_CALL(StreamDestroy)
TKGEN_HOST_CALL(StreamWaitEvent)
TKGEN_HOST_CALL(GetLastError)
TKGEN_HOST_CALL(PeekAtLastError)
TKGEN_HOST_CALL(Memcpy)
TKGEN_HOST_CALL(MemcpyAsync)
TKGEN_HOST_CALL(MemcpyToSymbol)
TKGEN_HOST_CALL(Memset)
TKGEN_HOST_CALL(MemsetAsync)
TKGEN_HOST_CALL(Free)
TKGEN_HOST_CALL(FreeAsync)
TKGEN_HOST_CALL(HostFree)
TKGEN_HOST_CALL(SetDevice)
TKGEN_HOST_CALL(EventRecord)
TKGEN_HOST_CALL(EventSynchronize)
TKGEN_HOST_CALL(EventDestroy)
TKGEN_HOST_CALL(Init)
#undef TKGEN_HOST_CALL
template <typename T> __host__ hipError_t hipMalloc(T **, size_t) { return hipSuccess; }
template <typename T> __host__ hipError_t hipMallocManaged(T **, size_t, unsigned = 1) { return hipSuccess; }
template <typename T> __host__ hipError_t hipHostMalloc(T **, size_t, unsigned = 0) { return hipSuccess; }
template <typename T> __host__ hipError_t hipMallocAsync(T **, size_t, hipStream_t) { return hipSuccess; }
__host__ inline hipError_t hipGetDevice(int *) { return hipSuccess; }
__host__ inline hipError_t hipGetDeviceCount(int *) { return hipSuccess; }
__host__ inline hipError_t hipGetDeviceProperties(hipDeviceProp_t *, int) { return hipSuccess; }
__host__ inline hipError_t hipStreamCreate(hipStream_t *) { return hipSuccess; }
__host__ inline hipError_t hipEventCreateWithFlags(hipEvent_t *, unsigned) { return hipSuccess; }
template <typename F> __host__ hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *, F, int, size_t) { return hipSuccess; }
__host__ inline hipError_t hipEventCreate(hipEvent_t *) { return hipSuccess; }
__host__ inline hipError_t hipEventElapsedTime(float *, hipEvent_t, hipEvent_t) { return hipSuccess; }
__host__ inline const char *hipGetErrorString(hipError_t) { return ""; }
// What `kernel<<<grid, block, lds, stream>>>(...)` stands for.
extern "C" __host__ hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds = 0, hipStream_t stream = nullptr);
extern "C" __host__ hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);
#define hipLaunchKernelGGL(kernel, grid, block, lds, stream, ...) (kernel)<<<(grid), (block), (lds), (stream)>>>(__VA_ARGS__)
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_DYNAMIC_SHARED(type, variable) extern __shared__ type variable[];

using FILE = struct tkgen_file;
extern "C" {
extern FILE *stdout, *stderr;
__host__ int fprintf(FILE *, const char *, ...);
__host__ int fflush(FILE *);
__host__ void *malloc(size_t);
__host__ void *calloc(size_t, size_t);
__host__ void free(void *);
__host__ void exit(int);
__host__ int rand();
__host__ void srand(unsigned);
__host__ int atoi(const char *);
__host__ double atof(const char *);
__host__ void *memcpy(void *, const void *, size_t);
__host__ void *memset(void *, int, size_t);
}
constexpr int RAND_MAX = __INT_MAX__, EXIT_SUCCESS = 0, EXIT_FAILURE = 1;

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

// What kernels print: words used, then records, which the emulator reads (tkgen/emulate/printed.py).
inline __device__ unsigned tkgen_printed[1 << 18];
namespace tkgen_hip {
enum printed_kind : unsigned { printed_signed, printed_unsigned, printed_float, printed_pointer };
__device__ inline void put(unsigned *to, unsigned kind, unsigned long bits) { to[0] = kind, to[1] = unsigned(bits), to[2] = unsigned(bits >> 32); }
template <typename T> concept stands_for_number = __is_class(T) && requires(T value) { +value; } && !__is_class(decltype(+T()));
template <typename T> __device__ inline void put_value(unsigned *to, T value) {
    if constexpr (__is_same(T, decltype(nullptr))) put(to, printed_pointer, 0);
    else if constexpr (__is_pointer(T)) put(to, printed_pointer, (unsigned long)value);
    else if constexpr (__is_integral(T) || __is_enum(T)) put(to, T(-1) < T(0) ? printed_signed : printed_unsigned, (unsigned long)(long)value);
    else if constexpr (stands_for_number<T>) put_value(to, +value); // such as blockIdx.x
    else if constexpr (__is_same(T, double)) put(to, printed_float, __builtin_bit_cast(unsigned long, value));
    else put(to, printed_float, __builtin_bit_cast(unsigned long, double(float(value))));
}
} // namespace tkgen_hip
template <typename... T> __host__ __device__ int printf(const char *format, T... values) {
    constexpr unsigned words = 3 + 3 * sizeof...(T), room = sizeof tkgen_printed / 4 - 1;
    const unsigned at = __hip_atomic_fetch_add(tkgen_printed, words, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    if (at > room - words) return -1;
    unsigned *to = tkgen_printed + 1 + at;
    tkgen_hip::put(to, words, (unsigned long)format);
    (tkgen_hip::put_value(to += 3, values), ...);
    return int(sizeof...(T));
}

namespace std {
template <typename T, T found> struct integral_constant {
    static constexpr T value = found;
    constexpr operator T() const { return found; }
};
template <bool found> using bool_constant = integral_constant<bool, found>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;
template <typename A, typename B> inline constexpr bool is_same_v = __is_same(A, B);
template <typename A, typename B> struct is_same : bool_constant<__is_same(A, B)> {};
template <typename T> using remove_reference_t = __remove_reference_t(T);
template <typename T> using remove_cv_t = __remove_cv(T);
template <typename T> using remove_const_t = __remove_const(T);
template <typename T> using remove_pointer_t = __remove_pointer(T);
template <typename T> using remove_cvref_t = __remove_cvref(T);
template <typename T> using decay_t = __decay(T);
template <typename T> inline constexpr bool is_integral_v = __is_integral(T);
template <typename T> struct is_integral : bool_constant<__is_integral(T)> {};
template <typename T> inline constexpr bool is_floating_point_v = __is_floating_point(T);
template <typename T> struct is_floating_point : bool_constant<__is_floating_point(T)> {};
template <typename T> inline constexpr bool is_signed_v = __is_signed(T);
template <typename T> inline constexpr bool is_unsigned_v = __is_unsigned(T);
template <typename T> inline constexpr bool is_pointer_v = __is_pointer(T);
template <typename T> inline constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);
template <bool condition, typename A, typename B> struct conditional {
    using type = A;
};
template <typename A, typename B> struct conditional<false, A, B> {
    using type = B;
};
template <bool condition, typename A, typename B> using conditional_t = typename conditional<condition, A, B>::type;
template <typename A, typename B> concept same_as = __is_same(A, B);
template <typename From, typename To> concept convertible_to = __is_convertible(From, To);
template <typename T> concept integral = __is_integral(T);
template <typename T> concept floating_point = __is_floating_point(T);
template <typename To, typename From> __host__ __device__ constexpr To bit_cast(const From &value) { return __builtin_bit_cast(To, value); }
template <bool condition, typename T = void> struct enable_if {};
template <typename T> struct enable_if<true, T> {
    using type = T;
};
template <bool condition, typename T = void> using enable_if_t = typename enable_if<condition, T>::type;
template <typename T, T... found> struct integer_sequence {};
template <typename T, T n> using make_integer_sequence = __make_integer_seq<integer_sequence, T, n>;
template <size_t... found> using index_sequence = integer_sequence<size_t, found...>;
template <size_t n> using make_index_sequence = make_integer_sequence<size_t, n>;
using nullptr_t = decltype(nullptr);
template <typename T> __host__ __device__ constexpr remove_reference_t<T> &&move(T &&value) { return static_cast<remove_reference_t<T> &&>(value); }
template <typename T> __host__ __device__ constexpr T &&forward(remove_reference_t<T> &value) { return static_cast<T &&>(value); }
template <typename T> __host__ __device__ constexpr void swap(T &a, T &b) {
    T held = a;
    a = b, b = held;
}
template <typename T> __host__ __device__ constexpr T min(T a, T b) { return b < a ? b : a; }
template <typename T> __host__ __device__ constexpr T max(T a, T b) { return a < b ? b : a; }
template <typename T, size_t n> struct array {
    T elements[n ? n : 1];
    __host__ __device__ constexpr T &operator[](size_t i) { return elements[i]; }
    __host__ __device__ constexpr const T &operator[](size_t i) const { return elements[i]; }
    __host__ __device__ constexpr size_t size() const { return n; }
    __host__ __device__ constexpr T *begin() { return elements; }
    __host__ __device__ constexpr T *end() { return elements + n; }
    __host__ __device__ constexpr T *data() { return elements; }
};
template <typename T> struct numeric_limits;
template <> struct numeric_limits<float> {
    __host__ __device__ static constexpr float infinity() { return __builtin_inff(); }
    __host__ __device__ static constexpr float quiet_NaN() { return __builtin_nanf(""); }
    __host__ __device__ static constexpr float max() { return __FLT_MAX__; }
    __host__ __device__ static constexpr float min() { return __FLT_MIN__; }
    __host__ __device__ static constexpr float lowest() { return -__FLT_MAX__; }
    __host__ __device__ static constexpr float epsilon() { return __FLT_EPSILON__; }
};
template <typename T> requires(is_integral_v<T>) struct numeric_limits<T> {
    __host__ __device__ static constexpr T min() { return is_unsigned_v<T> ? T(0) : T(1ull << (8 * sizeof(T) - 1)); }
    __host__ __device__ static constexpr T max() { return T(~min()); }
    __host__ __device__ static constexpr T lowest() { return min(); }
};
using ::abs, ::exp, ::exp2, ::log, ::log2, ::sqrt, ::sin, ::cos, ::tanh, ::pow, ::floor, ::ceil, ::round, ::fabs, ::fmax, ::fmin, ::isnan, ::isinf, ::isfinite;
using ::printf, ::malloc, ::free, ::memcpy, ::memset, ::exit, ::rand, ::srand;
using ::int8_t, ::uint8_t, ::int16_t, ::uint16_t, ::int32_t, ::uint32_t, ::int64_t, ::uint64_t, ::size_t, ::uintptr_t;
} // namespace std

#include "host_library.cuh"
