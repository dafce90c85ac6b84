// Memory of pools, allocated and freed in the order of a stream.
#include <hip/hip_runtime.h>

#include "check.h"

__global__ void count(int *out) { out[threadIdx.x] = threadIdx.x; }

int main() {
    int device = 0, supported = 0;
    HIP_CHECK(hipGetDevice(&device));
    HIP_CHECK(hipDeviceGetAttribute(&supported, hipDeviceAttributeMemoryPoolsSupported, device));
    hipMemPool_t pool, standard;
    HIP_CHECK(hipDeviceGetDefaultMemPool(&standard, device));
    hipMemPoolProps properties{};
    properties.allocType = hipMemAllocationTypePinned;
    properties.location = {hipMemLocationTypeDevice, device};
    HIP_CHECK(hipMemPoolCreate(&pool, &properties));
    uint64_t threshold = 1 << 20, used = 0, high = 0;
    HIP_CHECK(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &threshold));
    HIP_CHECK(hipDeviceSetMemPool(device, pool));
    hipStream_t stream;
    HIP_CHECK(hipStreamCreate(&stream));
    int *a, *b, host[64];
    HIP_CHECK(hipMallocAsync(reinterpret_cast<void **>(&a), sizeof host, stream));
    HIP_CHECK(hipMallocFromPoolAsync(reinterpret_cast<void **>(&b), 1000, standard, stream));
    count<<<1, 64, 0, stream>>>(a);
    HIP_CHECK(hipMemcpyAsync(host, a, sizeof host, hipMemcpyDeviceToHost, stream));
    HIP_CHECK(hipFreeAsync(a, stream));
    HIP_CHECK(hipStreamSynchronize(stream));
    HIP_CHECK(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
    HIP_CHECK(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemHigh, &high));
    bool right = supported && used == 0 && high == sizeof host && host[63] == 63;
    HIP_CHECK(hipMemPoolGetAttribute(standard, hipMemPoolAttrUsedMemCurrent, &used));
    right &= used == 1000;
    HIP_CHECK(hipMemPoolDestroy(pool));
    HIP_CHECK(hipFreeAsync(b, stream));
    return verdict(right);
}
