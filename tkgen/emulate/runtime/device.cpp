// The device: queries, its context, errors.
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

#include "runtime.h"

namespace {

thread_local hipError_t last_error = hipSuccess;

struct Named {
  hipError_t status;
  const char *name, *text;
};

constexpr Named ERRORS[] = {
    {hipSuccess, "hipSuccess", "no error"},
    {hipErrorInvalidValue, "hipErrorInvalidValue", "invalid argument"},
    {hipErrorOutOfMemory, "hipErrorOutOfMemory", "out of memory"},
    {hipErrorNotInitialized, "hipErrorNotInitialized", "initialization error"},
    {hipErrorInvalidConfiguration, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {hipErrorInvalidPitchValue, "hipErrorInvalidPitchValue", "invalid pitch argument"},
    {hipErrorInvalidSymbol, "hipErrorInvalidSymbol", "invalid device symbol"},
    {hipErrorInvalidDevicePointer, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {hipErrorInvalidMemcpyDirection, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {hipErrorInvalidDeviceFunction, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {hipErrorNoDevice, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {hipErrorInvalidDevice, "hipErrorInvalidDevice", "invalid device ordinal"},
    {hipErrorInvalidImage, "hipErrorInvalidImage", "device kernel image is invalid"},
    {hipErrorInvalidContext, "hipErrorInvalidContext", "invalid device context"},
    {hipErrorNoBinaryForGpu, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {hipErrorUnsupportedLimit, "hipErrorUnsupportedLimit", "limit is not supported on this architecture"},
    {hipErrorPeerAccessUnsupported, "hipErrorPeerAccessUnsupported", "peer access is not supported between these two devices"},
    {hipErrorFileNotFound, "hipErrorFileNotFound", "file not found"},
    {hipErrorInvalidHandle, "hipErrorInvalidHandle", "invalid resource handle"},
    {hipErrorNotFound, "hipErrorNotFound", "named symbol not found"},
    {hipErrorNotReady, "hipErrorNotReady", "device not ready"},
    {hipErrorHostMemoryAlreadyRegistered, "hipErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {hipErrorHostMemoryNotRegistered, "hipErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {hipErrorCooperativeLaunchTooLarge, "hipErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {hipErrorNotSupported, "hipErrorNotSupported", "operation not supported"},
    {hipErrorIllegalState, "hipErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {hipErrorStreamCaptureUnsupported, "hipErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {hipErrorStreamCaptureInvalidated, "hipErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {hipErrorStreamCaptureUnmatched, "hipErrorStreamCaptureUnmatched", "capture was not initiated in this stream"},
    {hipErrorStreamCaptureUnjoined, "hipErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {hipErrorStreamCaptureImplicit, "hipErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {hipErrorGraphExecUpdateFailure, "hipErrorGraphExecUpdateFailure",
     "the graph update was not performed because it included changes which violated constraints specific to instantiated graph "
     "update"},
    {hipErrorUnknown, "hipErrorUnknown", "unknown error"},
};

const Named& named(hipError_t status) {
  for (const Named& each : ERRORS)
    if (each.status == status) return each;
  return ERRORS[std::size(ERRORS) - 1];
}

constexpr int WALL_CLOCK_KHZ = 100000;  // of wall_clock64() on gfx9
constexpr int VERSION_5 = 50221153, VERSION_6 = 60342134;
constexpr uint32_t ARCH_OF_GFX9 = 0x7ffff & ~(1u << 13);  // hipDeviceArch_t: all but wave vote of 32 lanes

/// Major and minor "compute capability": 9.0 for gfx90a, 9.4 for gfx942, 9.5 for gfx950.
int minor_of(const Device& device) { return device.target == "gfx90a" ? 0 : device.target[4] - '0'; }

std::string arch_name(const Device& device) { return device.target + ":sramecc+:xnack-"; }

/// What both layouts have, under the same names.
template <typename P> void describe(P& p, const Device& device) {
  p = {};
  std::snprintf(p.name, sizeof(p.name), "%s", device.name.c_str());
  std::snprintf(p.gcnArchName, sizeof(p.gcnArchName), "%s", arch_name(device).c_str());
  p.totalGlobalMem = device.memory, p.sharedMemPerBlock = device.lds_per_block;
  p.maxSharedMemoryPerMultiProcessor = device.lds_per_cu;
  p.regsPerBlock = int(device.registers_per_cu), p.warpSize = int(device.wave_size);
  p.maxThreadsPerBlock = int(device.threads_per_block);
  for (int& extent : p.maxThreadsDim) extent = int(device.threads_per_block);
  p.maxGridSize[0] = 0x7fffffff, p.maxGridSize[1] = p.maxGridSize[2] = 65536;
  p.clockRate = int(device.clock_khz), p.memoryClockRate = int(device.memory_clock_khz);
  p.memoryBusWidth = int(device.bus_bits), p.totalConstMem = 0x7fffffff, p.major = 9, p.minor = minor_of(device);
  p.multiProcessorCount = int(device.compute_units), p.l2CacheSize = int(device.l2_bytes);
  p.maxThreadsPerMultiProcessor = int(device.waves_per_cu * device.wave_size);
  p.clockInstructionRate = WALL_CLOCK_KHZ, p.arch = ARCH_OF_GFX9, p.concurrentKernels = 1, p.pciBusID = 1;
  p.canMapHostMemory = 1, p.cooperativeLaunch = 1, p.memPitch = 0x7fffffff, p.textureAlignment = 256;
  p.texturePitchAlignment = 256, p.ECCEnabled = 1, p.isLargeBar = 1, p.managedMemory = 1, p.concurrentManagedAccess = 1;
}

hipError_t one(int device) { return device ? hipErrorInvalidDevice : hipSuccess; }

ihipCtx_t* const CONTEXT = reinterpret_cast<ihipCtx_t*>(1);

}  // namespace

hipError_t failed(hipError_t status) {
  if (status) last_error = status;
  return status;
}

/// Whether the program was linked with HIP 5: by the name under which it loads this library, or where that says nothing.
bool before_6() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&before_6), &info)) return true;
  return !std::strstr(info.dli_fname, ".so.6") && !std::strstr(info.dli_fname, ".so.7");
}

HIP_API hipError_t hipGetLastError() { return std::exchange(last_error, hipSuccess); }
HIP_API hipError_t hipExtGetLastError() { return hipGetLastError(); }
HIP_API hipError_t hipPeekAtLastError() { return last_error; }
HIP_API const char* hipGetErrorName(hipError_t status) { return named(status).name; }
HIP_API const char* hipGetErrorString(hipError_t status) { return named(status).text; }
HIP_API hipError_t hipDrvGetErrorName(hipError_t status, const char** name) {
  NEED(name, hipErrorInvalidValue);
  *name = named(status).name;
  return hipSuccess;
}
HIP_API hipError_t hipDrvGetErrorString(hipError_t status, const char** text) {
  NEED(text, hipErrorInvalidValue);
  *text = named(status).text;
  return hipSuccess;
}

HIP_API hipError_t hipInit(unsigned flags) {
  LOCKED;
  NEED(!flags, hipErrorInvalidValue);
  Runtime::get().device();
  return hipSuccess;
}

HIP_API hipError_t hipRuntimeGetVersion(int* version) {
  NEED(version, hipErrorInvalidValue);
  *version = before_6() ? VERSION_5 : VERSION_6;
  return hipSuccess;
}
HIP_API hipError_t hipDriverGetVersion(int* version) { return hipRuntimeGetVersion(version); }

HIP_API hipError_t hipGetDeviceCount(int* count) {
  LOCKED;
  NEED(count, hipErrorInvalidValue);
  Runtime::get().device();
  *count = 1;
  return hipSuccess;
}

HIP_API hipError_t hipGetDevice(int* device) {
  NEED(device, hipErrorInvalidValue);
  *device = 0;
  return hipSuccess;
}
HIP_API hipError_t hipSetDevice(int device) { return failed(one(device)); }
HIP_API hipError_t hipSetDeviceFlags(unsigned) { return hipSuccess; }
HIP_API hipError_t hipGetDeviceFlags(unsigned* flags) {
  NEED(flags, hipErrorInvalidValue);
  *flags = 0;
  return hipSuccess;
}

HIP_API hipError_t hipGetDeviceProperties(DevicePropertiesOf5* found, int device) {
  LOCKED;
  NEED(found, hipErrorInvalidValue);
  TRY(one(device));
  describe(*found, Runtime::get().device());
  found->gcnArch = found->major * 100 + found->minor * 10 + 2;
  return hipSuccess;
}

HIP_API hipError_t hipGetDevicePropertiesR0600(DevicePropertiesOf6* found, int device) {
  LOCKED;
  NEED(found, hipErrorInvalidValue);
  TRY(one(device));
  const Device& d = Runtime::get().device();
  describe(*found, d);
  found->deviceOverlap = 1, found->asyncEngineCount = 1, found->unifiedAddressing = 1;
  found->streamPrioritiesSupported = 1, found->sharedMemPerMultiprocessor = d.lds_per_cu;
  found->regsPerMultiprocessor = int(d.registers_per_cu), found->canUseHostPointerForRegisteredMem = 1;
  found->sharedMemPerBlockOptin = d.lds_per_block, found->maxBlocksPerMultiProcessor = int(d.waves_per_cu);
  found->hostRegisterSupported = found->memoryPoolsSupported = 1, found->unifiedFunctionPointers = 1;
  return hipSuccess;
}

HIP_API hipError_t hipChooseDevice(int* device, const void* wanted) {
  NEED(device && wanted, hipErrorInvalidValue);
  *device = 0;
  return hipSuccess;
}
HIP_API hipError_t hipChooseDeviceR0600(int* device, const void* wanted) { return hipChooseDevice(device, wanted); }

/// hipDeviceAttribute_t: the numbers of HIP 5.0 to 6.3, in the order of DevicePropertiesOf5 and 6.
HIP_API hipError_t hipDeviceGetAttribute(int* value, int attribute, int device) {
  LOCKED;
  NEED(value, hipErrorInvalidValue);
  DevicePropertiesOf6 p;
  TRY(hipGetDevicePropertiesR0600(&p, device));
  switch (attribute) {
    case 0: *value = p.ECCEnabled; break;
    case 2: *value = p.asyncEngineCount; break;
    case 3: *value = p.canMapHostMemory; break;
    case 4: *value = p.canUseHostPointerForRegisteredMem; break;
    case 5: *value = p.clockRate; break;
    case 6: *value = p.computeMode; break;
    case 7: *value = p.computePreemptionSupported; break;
    case 8: *value = p.concurrentKernels; break;
    case 9: *value = p.concurrentManagedAccess; break;
    case 10: *value = p.cooperativeLaunch; break;
    case 11: *value = p.cooperativeMultiDeviceLaunch; break;
    case 12: *value = p.deviceOverlap; break;
    case 13: *value = p.directManagedMemAccessFromHost; break;
    case 16: *value = p.integrated; break;
    case 17: *value = p.isMultiGpuBoard; break;
    case 18: *value = p.kernelExecTimeoutEnabled; break;
    case 19: *value = p.l2CacheSize; break;
    case 23: *value = p.major; break;
    case 24: *value = p.managedMemory; break;
    case 25: *value = p.maxBlocksPerMultiProcessor; break;
    case 26: case 27: case 28: *value = p.maxThreadsDim[attribute - 26]; break;
    case 29: case 30: case 31: *value = p.maxGridSize[attribute - 29]; break;
    case 55: *value = p.maxThreadsDim[0]; break;
    case 56: *value = p.maxThreadsPerBlock; break;
    case 57: *value = p.maxThreadsPerMultiProcessor; break;
    case 58: *value = int(p.memPitch); break;
    case 59: *value = p.memoryBusWidth; break;
    case 60: *value = p.memoryClockRate; break;
    case 61: *value = p.minor; break;
    case 63: *value = p.multiProcessorCount; break;
    case 65: *value = p.pageableMemoryAccess; break;
    case 66: *value = p.pageableMemoryAccessUsesHostPageTables; break;
    case 67: *value = p.pciBusID; break;
    case 68: *value = p.pciDeviceID; break;
    case 69: *value = p.pciDomainID; break;
    case 71: *value = p.regsPerBlock; break;
    case 72: *value = p.regsPerMultiprocessor; break;
    case 74: *value = int(p.sharedMemPerBlock); break;
    case 75: *value = int(p.sharedMemPerBlockOptin); break;
    case 76: *value = int(p.sharedMemPerMultiprocessor); break;
    case 78: *value = p.streamPrioritiesSupported; break;
    case 80: *value = p.tccDriver; break;
    case 81: *value = int(p.textureAlignment); break;
    case 82: *value = int(p.texturePitchAlignment); break;
    case 83: *value = int(p.totalConstMem); break;
    case 84: *value = int(p.totalGlobalMem); break;
    case 85: *value = p.unifiedAddressing; break;
    case 87: *value = p.warpSize; break;
    case 88: *value = p.memoryPoolsSupported; break;
    case 10000: *value = p.clockInstructionRate; break;
    case 10002: *value = int(p.maxSharedMemoryPerMultiProcessor); break;
    case 10007: case 10008: case 10009: case 10010: *value = 0; break;
    case 10011: *value = p.isLargeBar; break;
    case 10012: *value = p.asicRevision; break;
    case 10013: case 10014: *value = 0; break;  // no waiting for values, no images
    case 10015: *value = p.multiProcessorCount; break;
    case 10016: *value = 1; break;
    case 10017: *value = WALL_CLOCK_KHZ; break;
    default: refuse("attribute " + std::to_string(attribute) + " of hipDeviceGetAttribute");
  }
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGet(hipDevice_t* device, int number) {
  NEED(device, hipErrorInvalidValue);
  *device = 0;
  return failed(one(number));
}

HIP_API hipError_t hipDeviceGetName(char* name, int size, hipDevice_t device) {
  LOCKED;
  NEED(name && size > 0, hipErrorInvalidValue);
  TRY(one(device));
  std::snprintf(name, size_t(size), "%s", Runtime::get().device().name.c_str());
  return hipSuccess;
}

HIP_API hipError_t hipDeviceTotalMem(size_t* size, hipDevice_t device) {
  LOCKED;
  NEED(size, hipErrorInvalidValue);
  TRY(one(device));
  *size = Runtime::get().device().memory;
  return hipSuccess;
}

HIP_API hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t device) {
  LOCKED;
  NEED(major && minor, hipErrorInvalidValue);
  TRY(one(device));
  *major = 9, *minor = minor_of(Runtime::get().device());
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGetPCIBusId(char* text, int size, int device) {
  NEED(text && size > 12, hipErrorInvalidValue);
  TRY(one(device));
  std::snprintf(text, size_t(size), "0000:01:00.0");
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) {
  NEED(uuid, hipErrorInvalidValue);
  TRY(one(device));
  std::memcpy(uuid->bytes, "tkgen-emulator-0", 16);
  return hipSuccess;
}

HIP_API hipError_t hipDeviceCanAccessPeer(int* can, int device, int peer) {
  NEED(can, hipErrorInvalidValue);
  TRY(one(device));
  TRY(one(peer));
  *can = 0;
  return hipSuccess;
}

HIP_API hipError_t hipDeviceEnablePeerAccess(int, unsigned) { return failed(hipErrorInvalidDevice); }
HIP_API hipError_t hipDeviceDisablePeerAccess(int) { return failed(hipErrorInvalidDevice); }
HIP_API hipError_t hipDeviceSetCacheConfig(int) { return hipSuccess; }
HIP_API hipError_t hipDeviceGetCacheConfig(int* found) {
  NEED(found, hipErrorInvalidValue);
  *found = 0;
  return hipSuccess;
}
HIP_API hipError_t hipDeviceSetSharedMemConfig(int) { return hipSuccess; }
HIP_API hipError_t hipDeviceGetSharedMemConfig(int* found) { return hipDeviceGetCacheConfig(found); }
HIP_API hipError_t hipProfilerStart() { return hipSuccess; }
HIP_API hipError_t hipProfilerStop() { return hipSuccess; }

HIP_API hipError_t hipDeviceReset() {
  LOCKED;
  Runtime& runtime = Runtime::get();
  std::vector<uint64_t> all;
  for (const auto& [base, each] : runtime.live)
    if (each.kind == Kind::DEVICE) all.push_back(base);
  for (uint64_t base : all) runtime.release(base);
  return hipSuccess;
}

// ---------------------------------------------------------------- one context

HIP_API hipError_t hipCtxCreate(hipCtx_t* context, unsigned, hipDevice_t device) {
  NEED(context, hipErrorInvalidValue);
  TRY(one(device));
  *context = CONTEXT;
  return hipSuccess;
}
HIP_API hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* context, hipDevice_t device) { return hipCtxCreate(context, 0, device); }
HIP_API hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device) { return failed(one(device)); }
HIP_API hipError_t hipCtxDestroy(hipCtx_t) { return hipSuccess; }
HIP_API hipError_t hipCtxSetCurrent(hipCtx_t) { return hipSuccess; }
HIP_API hipError_t hipCtxPushCurrent(hipCtx_t) { return hipSuccess; }
HIP_API hipError_t hipCtxGetCurrent(hipCtx_t* context) { return hipCtxCreate(context, 0, 0); }
HIP_API hipError_t hipCtxPopCurrent(hipCtx_t* context) { return context ? hipCtxCreate(context, 0, 0) : hipSuccess; }
HIP_API hipError_t hipCtxGetDevice(hipDevice_t* device) { return hipGetDevice(device); }
