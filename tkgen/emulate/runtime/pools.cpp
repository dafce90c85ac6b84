// Memory pools. Memory is allocated and freed when the call returns, whatever its stream; a pool only counts.
#include "graph.h"

struct ihipMemPoolHandle_t {
  uint64_t threshold = 0, used = 0, high = 0;
  int reuse[3] = {1, 1, 1};
};
typedef ihipMemPoolHandle_t* hipMemPool_t;

HIP_API hipError_t hipMalloc(void** pointer, size_t size);
HIP_API hipError_t hipFree(void* pointer);

namespace {

ihipMemPoolHandle_t standard;  // of the device
hipMemPool_t current = &standard;

std::map<void*, hipMemPool_t>& owners() {
  static auto* const all = new std::map<void*, hipMemPool_t>;
  return *all;
}

uint64_t size_of(void* pointer) {
  const Allocation* memory = Runtime::get().holding(uint64_t(pointer));
  return memory ? memory->size : 0;
}

}  // namespace

HIP_API hipError_t hipMallocFromPoolAsync(void** pointer, size_t size, hipMemPool_t pool, hipStream_t stream) {
  LOCKED;
  NEED(pool, hipErrorInvalidValue);
  never_captured(stream, "hipMallocAsync");
  TRY(hipMalloc(pointer, size));
  if (!*pointer) return hipSuccess;
  owners()[*pointer] = pool;
  pool->used += size;
  pool->high = std::max(pool->high, pool->used);
  return hipSuccess;
}
HIP_API hipError_t hipMallocAsync(void** pointer, size_t size, hipStream_t stream) {
  return hipMallocFromPoolAsync(pointer, size, current, stream);
}
HIP_API hipError_t hipFreeAsync(void* pointer, hipStream_t stream) {
  LOCKED;
  never_captured(stream, "hipFreeAsync");
  auto found = owners().find(pointer);
  if (found != owners().end()) {
    found->second->used -= size_of(pointer);
    owners().erase(found);
  }
  return hipFree(pointer);
}

HIP_API hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int device) {
  NEED(pool, hipErrorInvalidValue);
  NEED(!device, hipErrorInvalidDevice);
  *pool = &standard;
  return hipSuccess;
}
HIP_API hipError_t hipDeviceGetMemPool(hipMemPool_t* pool, int device) {
  NEED(pool, hipErrorInvalidValue);
  NEED(!device, hipErrorInvalidDevice);
  *pool = current;
  return hipSuccess;
}
HIP_API hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool) {
  NEED(pool, hipErrorInvalidValue);
  NEED(!device, hipErrorInvalidDevice);
  current = pool;
  return hipSuccess;
}
HIP_API hipError_t hipMemPoolCreate(hipMemPool_t* pool, const void* properties) {
  NEED(pool && properties, hipErrorInvalidValue);
  *pool = new ihipMemPoolHandle_t;
  return hipSuccess;
}
/// Memory of the pool lives on until it is freed, and belongs to the device's pool then.
HIP_API hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  LOCKED;
  NEED(pool && pool != &standard, hipErrorInvalidValue);
  for (auto& [pointer, owner] : owners())
    if (owner == pool) owner = &standard, standard.used += size_of(pointer);
  if (current == pool) current = &standard;
  delete pool;
  return hipSuccess;
}
HIP_API hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t) { return failed(pool ? hipSuccess : hipErrorInvalidValue); }
HIP_API hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const void*, size_t) {
  return failed(pool ? hipSuccess : hipErrorInvalidValue);
}
HIP_API hipError_t hipMemPoolGetAccess(int* flags, hipMemPool_t pool, const void*) {
  NEED(flags && pool, hipErrorInvalidValue);
  *flags = 3;  // to read and to write
  return hipSuccess;
}

/// hipMemPoolAttr: what may be used again (1 to 3), the threshold (4), bytes reserved and used, now and at most (5 to 8).
HIP_API hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, int attribute, void* value) {
  LOCKED;
  NEED(pool && value, hipErrorInvalidValue);
  switch (attribute) {
    case 1: case 2: case 3: *static_cast<int*>(value) = pool->reuse[attribute - 1]; break;
    case 4: *static_cast<uint64_t*>(value) = pool->threshold; break;
    case 5: case 7: *static_cast<uint64_t*>(value) = pool->used; break;
    case 6: case 8: *static_cast<uint64_t*>(value) = pool->high; break;
    default: return failed(hipErrorInvalidValue);
  }
  return hipSuccess;
}
HIP_API hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, int attribute, void* value) {
  LOCKED;
  NEED(pool && value, hipErrorInvalidValue);
  switch (attribute) {
    case 1: case 2: case 3: pool->reuse[attribute - 1] = *static_cast<int*>(value); break;
    case 4: pool->threshold = *static_cast<uint64_t*>(value); break;
    case 6: case 8:  // only back to what there is
      NEED(!*static_cast<uint64_t*>(value), hipErrorInvalidValue);
      pool->high = pool->used;
      break;
    default: return failed(hipErrorInvalidValue);
  }
  return hipSuccess;
}
