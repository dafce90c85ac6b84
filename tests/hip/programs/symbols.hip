// Variables of the device: constants that the host sets, a counter and a table that it reads.
#include "check.h"

__constant__ float coefficients[4];
__device__ unsigned launches;
__device__ float table[64] = {7};

__global__ void polynomial() {
    const float x = threadIdx.x * 0.25f;
    table[threadIdx.x] = ((coefficients[3] * x + coefficients[2]) * x + coefficients[1]) * x + coefficients[0];
    if (threadIdx.x == 0) ++launches;
}

int main() {
    float first, found[64], set[4] = {1, -2, 0.5f, 4};
    unsigned count, *address;
    size_t size;
    HIP_CHECK(hipMemcpyFromSymbol(&first, HIP_SYMBOL(table), sizeof first, 0, hipMemcpyDeviceToHost));
    HIP_CHECK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), set, 2 * sizeof(float), 0, hipMemcpyHostToDevice));
    HIP_CHECK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), set + 2, 2 * sizeof(float), 2 * sizeof(float), hipMemcpyHostToDevice));
    for (int i = 0; i < 3; ++i) polynomial<<<1, 64>>>();
    HIP_CHECK(hipMemcpyFromSymbol(found, HIP_SYMBOL(table), sizeof found, 0, hipMemcpyDeviceToHost));
    HIP_CHECK(hipGetSymbolAddress((void **)&address, HIP_SYMBOL(launches)));
    HIP_CHECK(hipGetSymbolSize(&size, HIP_SYMBOL(launches)));
    HIP_CHECK(hipMemcpy(&count, address, size, hipMemcpyDeviceToHost));
    bool right = first == 7 && count == 3 && size == 4;
    for (int i = 0; i < 64; ++i) {
        const float x = i * 0.25f;
        right &= found[i] == ((4 * x + 0.5f) * x - 2) * x + 1;
    }
    right &= hipMemcpyToSymbol(HIP_SYMBOL(coefficients), set, 17, 0, hipMemcpyHostToDevice) == hipErrorInvalidValue;
    return verdict(right);
}
