// Managed memory, allocated and as a variable, which host and device use in turn.
#include "check.h"

__managed__ int total = 100;

__global__ void count(const int *data, int n) {
    if (threadIdx.x < n && data[threadIdx.x] % 2) atomicAdd(&total, 1);
}

int main() {
    int *data;
    HIP_CHECK(hipMallocManaged((void **)&data, 64 * sizeof(int), hipMemAttachGlobal));
    for (int i = 0; i < 64; ++i) data[i] = i;
    total += 1000;
    count<<<1, 64>>>(data, 50);
    HIP_CHECK(hipDeviceSynchronize());
    hipPointerAttribute_t found;
    HIP_CHECK(hipPointerGetAttributes(&found, data));
    return verdict(total == 1125 && found.isManaged && found.devicePointer == data);
}
