// Memory of the device and the host, and copies. Each copy is complete when its call returns, whatever its stream.
#include <cstring>

#include "graph.h"

namespace {

constexpr size_t PITCH = 256;

hipError_t allocated(void** pointer, size_t size, Kind kind, unsigned flags = 0) {
  LOCKED;
  NEED(pointer, hipErrorInvalidValue);
  *pointer = nullptr;
  if (!size) return hipSuccess;
  const Allocation* memory = Runtime::get().allocate(size, kind, flags);
  NEED(memory, hipErrorOutOfMemory);
  *pointer = reinterpret_cast<void*>(memory->base);
  return hipSuccess;
}

hipError_t freed(void* pointer, bool host) {
  LOCKED;
  if (!pointer) return hipSuccess;
  Runtime& runtime = Runtime::get();
  const Allocation* memory = runtime.holding(uint64_t(pointer));
  NEED(memory && memory->base == uint64_t(pointer), host ? hipErrorInvalidValue : hipErrorInvalidDevicePointer);
  NEED(host ? memory->kind == Kind::HOST : memory->kind == Kind::DEVICE || memory->kind == Kind::MANAGED, hipErrorInvalidValue);
  runtime.release(memory->base);
  return hipSuccess;
}

/// Rows of `width` bytes; all of both sides must be there.
hipError_t copied(void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width, size_t height) {
  LOCKED;
  if (!width || !height) return hipSuccess;
  NEED(target && source, hipErrorInvalidValue);
  NEED(height == 1 || (width <= target_pitch && width <= source_pitch), hipErrorInvalidPitchValue);
  const Runtime& runtime = Runtime::get();
  NEED(runtime.accessible(target, target_pitch * (height - 1) + width), hipErrorInvalidValue);
  NEED(runtime.accessible(source, source_pitch * (height - 1) + width), hipErrorInvalidValue);
  for (size_t row = 0; row < height; ++row)
    std::memmove(static_cast<char*>(target) + row * target_pitch, static_cast<const char*>(source) + row * source_pitch, width);
  return hipSuccess;
}

template <typename T> hipError_t filled(void* target, size_t pitch, T value, size_t width, size_t height = 1) {
  LOCKED;
  if (!width || !height) return hipSuccess;
  NEED(target && Runtime::get().holding(uint64_t(target)), hipErrorInvalidValue);
  NEED(Runtime::get().accessible(target, pitch * (height - 1) + width * sizeof(T)), hipErrorInvalidValue);
  for (size_t row = 0; row < height; ++row) {
    T* first = reinterpret_cast<T*>(static_cast<char*>(target) + row * pitch);
    std::fill(first, first + width, value);
  }
  return hipSuccess;
}

char* at(const hipPitchedPtr& memory, const hipPos& place, size_t slice) {
  return static_cast<char*>(memory.ptr) + (place.z + slice) * memory.pitch * memory.ysize + place.y * memory.pitch + place.x;
}

}  // namespace

HIP_API hipError_t hipMalloc(void** pointer, size_t size) { return allocated(pointer, size, Kind::DEVICE); }
HIP_API hipError_t hipExtMallocWithFlags(void** pointer, size_t size, unsigned flags) {
  return allocated(pointer, size, Kind::DEVICE, flags);
}
HIP_API hipError_t hipMallocManaged(void** pointer, size_t size, unsigned flags) {
  return allocated(pointer, size, Kind::MANAGED, flags);
}
HIP_API hipError_t hipHostMalloc(void** pointer, size_t size, unsigned flags) {
  return allocated(pointer, size, Kind::HOST, flags);
}
HIP_API hipError_t hipHostAlloc(void** pointer, size_t size, unsigned flags) { return hipHostMalloc(pointer, size, flags); }
HIP_API hipError_t hipMallocHost(void** pointer, size_t size) { return hipHostMalloc(pointer, size, 0); }
HIP_API hipError_t hipMemAllocHost(void** pointer, size_t size) { return hipHostMalloc(pointer, size, 0); }
HIP_API hipError_t hipFree(void* pointer) { return freed(pointer, false); }
HIP_API hipError_t hipHostFree(void* pointer) { return freed(pointer, true); }
HIP_API hipError_t hipFreeHost(void* pointer) { return hipHostFree(pointer); }

HIP_API hipError_t hipMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  NEED(pitch, hipErrorInvalidValue);
  *pitch = (width + PITCH - 1) / PITCH * PITCH;
  return hipMalloc(pointer, *pitch * height);
}

HIP_API hipError_t hipMemAllocPitch(void** pointer, size_t* pitch, size_t width, size_t height, unsigned) {
  return hipMallocPitch(pointer, pitch, width, height);
}

HIP_API hipError_t hipMalloc3D(hipPitchedPtr* memory, hipExtent extent) {
  NEED(memory, hipErrorInvalidValue);
  memory->xsize = extent.width, memory->ysize = extent.height;
  return hipMallocPitch(&memory->ptr, &memory->pitch, extent.width, extent.height * extent.depth);
}

HIP_API hipError_t hipHostRegister(void* pointer, size_t size, unsigned flags) {
  LOCKED;
  NEED(pointer && size, hipErrorInvalidValue);
  return failed(Runtime::get().register_host(pointer, size, flags));
}

HIP_API hipError_t hipHostUnregister(void* pointer) {
  LOCKED;
  NEED(pointer, hipErrorInvalidValue);
  return failed(Runtime::get().unregister_host(pointer));
}

HIP_API hipError_t hipHostGetDevicePointer(void** device, void* host, unsigned) {
  LOCKED;
  NEED(device && host && Runtime::get().holding(uint64_t(host)), hipErrorInvalidValue);
  *device = host;
  return hipSuccess;
}

HIP_API hipError_t hipHostGetFlags(unsigned* flags, void* host) {
  LOCKED;
  const Allocation* memory = Runtime::get().holding(uint64_t(host));
  NEED(flags && memory && (memory->kind == Kind::HOST || memory->kind == Kind::REGISTERED), hipErrorInvalidValue);
  *flags = memory->flags;
  return hipSuccess;
}

HIP_API hipError_t hipMemGetInfo(size_t* left, size_t* total) {
  LOCKED;
  NEED(left && total, hipErrorInvalidValue);
  *total = Runtime::get().device().memory;
  *left = *total - Runtime::get().used;
  return hipSuccess;
}

HIP_API hipError_t hipMemPtrGetInfo(void* pointer, size_t* size) {
  LOCKED;
  const Allocation* memory = Runtime::get().holding(uint64_t(pointer));
  NEED(size && memory && memory->base == uint64_t(pointer), hipErrorInvalidValue);
  *size = memory->size;
  return hipSuccess;
}

HIP_API hipError_t hipMemGetAddressRange(void** base, size_t* size, void* pointer) {
  LOCKED;
  const Allocation* memory = Runtime::get().holding(uint64_t(pointer));
  NEED(memory, hipErrorNotFound);
  if (base) *base = reinterpret_cast<void*>(memory->base);
  if (size) *size = memory->size;
  return hipSuccess;
}

bool before_6();

HIP_API hipError_t hipPointerGetAttributes(hipPointerAttribute_t* found, const void* pointer) {
  LOCKED;
  NEED(found, hipErrorInvalidValue);
  const Allocation* memory = Runtime::get().holding(uint64_t(pointer));
  *found = {};
  if (!memory) {  // HIP 5 has no type for memory that it does not know
    NEED(!before_6(), hipErrorInvalidValue);
    found->device = -2;
    return hipSuccess;
  }
  const bool host = memory->kind == Kind::HOST || memory->kind == Kind::REGISTERED, managed = memory->kind == Kind::MANAGED;
  found->type = before_6() ? !host : host ? 1 : managed ? 3 : 2;
  found->devicePointer = const_cast<void*>(pointer);
  found->hostPointer = host || managed ? const_cast<void*>(pointer) : nullptr;
  found->isManaged = managed, found->allocationFlags = memory->flags;
  return hipSuccess;
}

// Managed memory is in one place.
HIP_API hipError_t hipMemAdvise(const void*, size_t, int, int) { return hipSuccess; }
HIP_API hipError_t hipMemPrefetchAsync(const void*, size_t, int, hipStream_t) { return hipSuccess; }
HIP_API hipError_t hipStreamAttachMemAsync(hipStream_t, void*, size_t, unsigned) { return hipSuccess; }

/// A copy of bytes, in the order of its stream.
static hipError_t copying(hipStream_t stream, void* target, const void* source, size_t size, hipMemcpyKind kind = hipMemcpyDefault) {
  NEED(kind >= hipMemcpyHostToHost && kind <= hipMemcpyDefault, hipErrorInvalidMemcpyDirection);
  return failed(in_order(stream, MEMCPY, [=] { return copied(target, size, source, size, size, 1); }));
}

HIP_API hipError_t hipMemcpy(void* target, const void* source, size_t size, hipMemcpyKind kind) {
  return copying(nullptr, target, source, size, kind);
}

HIP_API hipError_t hipMemcpyAsync(void* target, const void* source, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  return copying(stream, target, source, size, kind);
}
HIP_API hipError_t hipMemcpyWithStream(void* target, const void* source, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  return copying(stream, target, source, size, kind);
}
HIP_API hipError_t hipMemcpyHtoD(void* target, void* source, size_t size) { return copying(nullptr, target, source, size); }
HIP_API hipError_t hipMemcpyDtoH(void* target, void* source, size_t size) { return hipMemcpyHtoD(target, source, size); }
HIP_API hipError_t hipMemcpyDtoD(void* target, void* source, size_t size) { return hipMemcpyHtoD(target, source, size); }
HIP_API hipError_t hipMemcpyHtoDAsync(void* target, void* source, size_t size, hipStream_t stream) {
  return copying(stream, target, source, size);
}
HIP_API hipError_t hipMemcpyDtoHAsync(void* target, void* source, size_t size, hipStream_t stream) {
  return copying(stream, target, source, size);
}
HIP_API hipError_t hipMemcpyDtoDAsync(void* target, void* source, size_t size, hipStream_t stream) {
  return copying(stream, target, source, size);
}
HIP_API hipError_t hipMemcpyPeerAsync(void*, int, const void*, int, size_t, hipStream_t);
HIP_API hipError_t hipMemcpyPeer(void* target, int to, const void* source, int from, size_t size) {
  return hipMemcpyPeerAsync(target, to, source, from, size, nullptr);
}
HIP_API hipError_t hipMemcpyPeerAsync(void* target, int to, const void* source, int from, size_t size, hipStream_t stream) {
  NEED(!to && !from, hipErrorInvalidDevice);
  return copying(stream, target, source, size);
}

HIP_API hipError_t hipMemcpy2DAsync(void*, size_t, const void*, size_t, size_t, size_t, hipMemcpyKind, hipStream_t);
HIP_API hipError_t hipMemcpy2D(void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width,
                               size_t height, hipMemcpyKind kind) {
  return hipMemcpy2DAsync(target, target_pitch, source, source_pitch, width, height, kind, nullptr);
}

HIP_API hipError_t hipMemcpy2DAsync(void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width,
                                    size_t height, hipMemcpyKind, hipStream_t stream) {
  return failed(in_order(stream, MEMCPY, [=] { return copied(target, target_pitch, source, source_pitch, width, height); }));
}

static hipError_t copied(const hipMemcpy3DParms* what) {
  if (what->srcArray || what->dstArray) refuse("arrays in hipMemcpy3D");
  for (size_t slice = 0; slice < what->extent.depth; ++slice)
    TRY(copied(at(what->dstPtr, what->dstPos, slice), what->dstPtr.pitch, at(what->srcPtr, what->srcPos, slice),
               what->srcPtr.pitch, what->extent.width, what->extent.height));
  return hipSuccess;
}

HIP_API hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms* what, hipStream_t stream) {
  NEED(what, hipErrorInvalidValue);
  return failed(in_order(stream, MEMCPY, [copy = *what] { return copied(&copy); }));
}
HIP_API hipError_t hipMemcpy3D(const hipMemcpy3DParms* what) { return hipMemcpy3DAsync(what, nullptr); }

template <typename T> static hipError_t filling(hipStream_t stream, void* target, size_t pitch, T value, size_t width, size_t height = 1) {
  return failed(in_order(stream, MEMSET, [=] { return filled(target, pitch, value, width, height); }));
}

HIP_API hipError_t hipMemsetAsync(void* target, int value, size_t size, hipStream_t stream) {
  return filling(stream, target, size, uint8_t(value), size);
}
HIP_API hipError_t hipMemset(void* target, int value, size_t size) { return hipMemsetAsync(target, value, size, nullptr); }
HIP_API hipError_t hipMemset2DAsync(void* target, size_t pitch, int value, size_t width, size_t height, hipStream_t stream) {
  NEED(width <= pitch, hipErrorInvalidPitchValue);
  return filling(stream, target, pitch, uint8_t(value), width, height);
}
HIP_API hipError_t hipMemset2D(void* target, size_t pitch, int value, size_t width, size_t height) {
  return hipMemset2DAsync(target, pitch, value, width, height, nullptr);
}
HIP_API hipError_t hipMemset3DAsync(hipPitchedPtr memory, int value, hipExtent extent, hipStream_t stream) {
  for (size_t slice = 0; slice < extent.depth; ++slice)
    TRY(hipMemset2DAsync(at(memory, {0, 0, 0}, slice), memory.pitch, value, extent.width, extent.height, stream));
  return hipSuccess;
}
HIP_API hipError_t hipMemset3D(hipPitchedPtr memory, int value, hipExtent extent) {
  return hipMemset3DAsync(memory, value, extent, nullptr);
}
HIP_API hipError_t hipMemsetD8Async(void* target, unsigned char value, size_t count, hipStream_t stream) {
  return filling(stream, target, 0, value, count);
}
HIP_API hipError_t hipMemsetD16Async(void* target, unsigned short value, size_t count, hipStream_t stream) {
  return filling(stream, target, 0, value, count);
}
HIP_API hipError_t hipMemsetD32Async(void* target, int value, size_t count, hipStream_t stream) {
  return filling(stream, target, 0, value, count);
}
HIP_API hipError_t hipMemsetD8(void* target, unsigned char value, size_t count) {
  return hipMemsetD8Async(target, value, count, nullptr);
}
HIP_API hipError_t hipMemsetD16(void* target, unsigned short value, size_t count) {
  return hipMemsetD16Async(target, value, count, nullptr);
}
HIP_API hipError_t hipMemsetD32(void* target, int value, size_t count) { return hipMemsetD32Async(target, value, count, nullptr); }

PER_THREAD(hipMemcpy);
PER_THREAD(hipMemcpyAsync);
PER_THREAD(hipMemcpy2D);
PER_THREAD(hipMemcpy2DAsync);
PER_THREAD(hipMemcpy3D);
PER_THREAD(hipMemcpy3DAsync);
PER_THREAD(hipMemset);
PER_THREAD(hipMemsetAsync);
PER_THREAD(hipMemset2D);
PER_THREAD(hipMemset2DAsync);
PER_THREAD(hipMemset3D);
PER_THREAD(hipMemset3DAsync);
