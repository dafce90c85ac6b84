// What a program is told about its mistakes.
#include "check.h"
#include <cstring>

__global__ __launch_bounds__(128) void nothing() {}

int main() {
    bool right = true;
    char host[16];
    void *p = nullptr;
    HIP_CHECK(hipMalloc(&p, 64));
    right &= hipMemcpy(p, host, 16, hipMemcpyHostToDevice) == hipSuccess;
    right &= hipMemcpy((char *)p + 60, host, 16, hipMemcpyHostToDevice) == hipErrorInvalidValue;
    right &= hipFree((char *)p + 8) == hipErrorInvalidDevicePointer;
    right &= hipSetDevice(1) == hipErrorInvalidDevice;
    right &= hipMalloc(&p, size_t(1) << 45) == hipErrorOutOfMemory && hipGetLastError() == hipErrorOutOfMemory;
    right &= hipGetLastError() == hipSuccess;
    nothing<<<1, 256>>>();
    right &= hipPeekAtLastError() == hipErrorInvalidValue && hipGetLastError() == hipErrorInvalidValue;
    nothing<<<0, 64>>>();
    right &= hipGetLastError() == hipErrorInvalidConfiguration;
    nothing<<<1, 64, 1 << 20>>>();
    right &= hipGetLastError() != hipSuccess;
    nothing<<<1, 64>>>();
    right &= hipGetLastError() == hipSuccess;
    right &= !std::strcmp(hipGetErrorName(hipErrorOutOfMemory), "hipErrorOutOfMemory");
    right &= !std::strcmp(hipGetErrorString(hipErrorInvalidValue), "invalid argument");
    return verdict(right);
}
