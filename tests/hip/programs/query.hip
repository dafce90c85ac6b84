// The device, its attributes, and the occupancy of a kernel.
#include "check.h"
#include <cstring>

__global__ __launch_bounds__(256) void fill(float *out) {
    __shared__ float tile[4096];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = tile[255 - threadIdx.x];
}

int main() {
    int count = 0, warp = 0, units = 0, blocks = 0, grid = 0, block = 0;
    hipDeviceProp_t p;
    size_t left, total;
    HIP_CHECK(hipGetDeviceCount(&count));
    HIP_CHECK(hipGetDeviceProperties(&p, 0));
    HIP_CHECK(hipDeviceGetAttribute(&warp, hipDeviceAttributeWarpSize, 0));
    HIP_CHECK(hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, 0));
    HIP_CHECK(hipMemGetInfo(&left, &total));
    bool right = count == 1 && warp == 64 && p.warpSize == 64 && units == p.multiProcessorCount && total == p.totalGlobalMem;
    right &= left <= total && left > total / 2 && !std::strncmp(p.name, "AMD Instinct MI", 15) && !std::strncmp(p.gcnArchName, "gfx9", 4);
    const struct {
        hipDeviceAttribute_t which;
        size_t value;
    } known[] = {
        {hipDeviceAttributeClockRate, size_t(p.clockRate)},
        {hipDeviceAttributeL2CacheSize, size_t(p.l2CacheSize)},
        {hipDeviceAttributeMaxBlockDimX, size_t(p.maxThreadsDim[0])},
        {hipDeviceAttributeMaxGridDimX, size_t(p.maxGridSize[0])},
        {hipDeviceAttributeMaxThreadsPerBlock, size_t(p.maxThreadsPerBlock)},
        {hipDeviceAttributeMaxThreadsPerMultiProcessor, size_t(p.maxThreadsPerMultiProcessor)},
        {hipDeviceAttributeMaxSharedMemoryPerBlock, p.sharedMemPerBlock},
        {hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, p.maxSharedMemoryPerMultiProcessor},
        {hipDeviceAttributeMaxRegistersPerBlock, size_t(p.regsPerBlock)},
        {hipDeviceAttributeMemoryBusWidth, size_t(p.memoryBusWidth)},
        {hipDeviceAttributeMemoryClockRate, size_t(p.memoryClockRate)},
        {hipDeviceAttributeComputeCapabilityMajor, size_t(p.major)},
        {hipDeviceAttributeComputeCapabilityMinor, size_t(p.minor)},
        {hipDeviceAttributePciBusId, size_t(p.pciBusID)},
        {hipDeviceAttributeManagedMemory, 1},
        {hipDeviceAttributeCooperativeLaunch, 1},
        {hipDeviceAttributeIsLargeBar, 1},
    };
    for (const auto &each : known) {
        int value = -1;
        HIP_CHECK(hipDeviceGetAttribute(&value, each.which, 0));
        if (size_t(value) != each.value) right = false, std::printf("attribute %d is %d\n", int(each.which), value);
    }
    HIP_CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 256, 0));
    HIP_CHECK(hipOccupancyMaxPotentialBlockSize(&grid, &block, (const void *)fill, 0, 0));
    right &= size_t(blocks) == p.maxSharedMemoryPerMultiProcessor / (16 << 10) || blocks == 8;
    right &= block > 0 && block <= 256 && grid % units == 0;
    hipFuncAttributes a;
    HIP_CHECK(hipFuncGetAttributes(&a, (const void *)fill));
    right &= a.sharedSizeBytes == 16384 && a.maxThreadsPerBlock == 256 && a.numRegs > 0;
    return verdict(right);
}
