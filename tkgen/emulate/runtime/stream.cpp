// Streams and events. All work is done when the call that submits it returns, so every order between streams holds.
#include <chrono>
#include <cstdio>

#include "graph.h"

struct ihipStream_t {
  unsigned flags;
  int priority;
};

struct ihipEvent_t {
  unsigned flags;
  bool recorded;
  std::chrono::steady_clock::time_point time;
  double predicted_seconds;
};

namespace {

constexpr unsigned NO_TIME = 2;  // hipEventDisableTiming

/// Streams that the program need not make: null, hipStreamLegacy and hipStreamPerThread.
bool of_all(hipStream_t stream) { return uintptr_t(stream) <= 2; }

}  // namespace

HIP_API hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority) {
  LOCKED;
  NEED(stream, hipErrorInvalidValue);
  Runtime::get().device();
  *stream = new ihipStream_t{flags, priority};
  return hipSuccess;
}
HIP_API hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  return hipStreamCreateWithPriority(stream, flags, 0);
}
HIP_API hipError_t hipStreamCreate(hipStream_t* stream) { return hipStreamCreateWithPriority(stream, 0, 0); }
HIP_API hipError_t hipExtStreamCreateWithCUMask(hipStream_t* stream, uint32_t, const uint32_t*) { return hipStreamCreate(stream); }
HIP_API hipError_t hipStreamDestroy(hipStream_t stream) {
  NEED(!of_all(stream), hipErrorInvalidHandle);
  delete stream;
  return hipSuccess;
}
HIP_API hipError_t hipStreamSynchronize(hipStream_t stream) { return failed(synchronized(stream)); }
HIP_API hipError_t hipStreamQuery(hipStream_t stream) { return failed(synchronized(stream)); }
HIP_API hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned) {
  LOCKED;
  NEED(event, hipErrorInvalidHandle);
  waits(stream, event);
  return hipSuccess;
}
HIP_API hipError_t hipStreamGetFlags(hipStream_t stream, unsigned* flags) {
  NEED(flags, hipErrorInvalidValue);
  *flags = of_all(stream) ? 0 : stream->flags;
  return hipSuccess;
}
HIP_API hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
  NEED(priority, hipErrorInvalidValue);
  *priority = of_all(stream) ? 0 : stream->priority;
  return hipSuccess;
}
HIP_API hipError_t hipStreamGetDevice(hipStream_t, hipDevice_t* device) {
  NEED(device, hipErrorInvalidValue);
  *device = 0;
  return hipSuccess;
}
HIP_API hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 1;
  if (greatest) *greatest = -1;
  return hipSuccess;
}
HIP_API hipError_t hipDeviceSynchronize() { return failed(synchronized(nullptr, true)); }
HIP_API hipError_t hipCtxSynchronize() { return hipDeviceSynchronize(); }

HIP_API hipError_t hipStreamAddCallback(hipStream_t stream, void (*call)(hipStream_t, hipError_t, void*), void* data, unsigned) {
  NEED(call, hipErrorInvalidValue);
  TRY(synchronized(stream));  // a callback of this form cannot be captured
  call(stream, hipSuccess, data);
  return hipSuccess;
}
HIP_API hipError_t hipLaunchHostFunc(hipStream_t stream, void (*call)(void*), void* data) {
  NEED(call, hipErrorInvalidValue);
  return failed(in_order(stream, HOST, [=] {
    call(data);
    return hipSuccess;
  }));
}

HIP_API hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  NEED(event, hipErrorInvalidValue);
  *event = new ihipEvent_t{flags, false, {}, 0};
  return hipSuccess;
}
HIP_API hipError_t hipEventCreate(hipEvent_t* event) { return hipEventCreateWithFlags(event, 0); }
HIP_API hipError_t hipEventDestroy(hipEvent_t event) {
  NEED(event, hipErrorInvalidHandle);
  forget(event);
  delete event;
  return hipSuccess;
}
HIP_API hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  LOCKED;
  NEED(event, hipErrorInvalidHandle);
  if (records(event, stream)) return hipSuccess;
  event->recorded = true, event->time = std::chrono::steady_clock::now();
  event->predicted_seconds = Runtime::get().predicted_seconds;
  return hipSuccess;
}
HIP_API hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned) { return hipEventRecord(event, stream); }
HIP_API hipError_t hipEventSynchronize(hipEvent_t event) { return failed(event ? hipSuccess : hipErrorInvalidHandle); }
HIP_API hipError_t hipEventQuery(hipEvent_t event) { return failed(event ? hipSuccess : hipErrorInvalidHandle); }
HIP_API hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t end) {
  LOCKED;
  NEED(milliseconds, hipErrorInvalidValue);
  NEED(start && end, hipErrorInvalidHandle);
  NEED(start->recorded && end->recorded && !((start->flags | end->flags) & NO_TIME), hipErrorInvalidHandle);
  static bool told = false;
  const bool predicts = Runtime::get().predicts;
  if (!std::exchange(told, true))
    std::fprintf(stderr, "tkgen emulate: times of events are %s\n",
                 predicts ? "predicted: those of kernels, one after another; copies take no time" : "of the emulation, not of a GPU");
  if (predicts) {
    *milliseconds = float(1e3 * (end->predicted_seconds - start->predicted_seconds));
    return hipSuccess;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return hipSuccess;
}

PER_THREAD(hipStreamQuery);
PER_THREAD(hipStreamSynchronize);
PER_THREAD(hipStreamGetPriority);
PER_THREAD(hipStreamWaitEvent);
PER_THREAD(hipStreamGetFlags);
PER_THREAD(hipStreamAddCallback);
PER_THREAD(hipEventRecord);
PER_THREAD(hipLaunchHostFunc);
