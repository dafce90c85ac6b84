// What lanes of a wave tell each other: votes, shuffles, counts of bits.
#include "check.h"

__global__ void ask(unsigned long long *masks, int *values) {
    const int lane = threadIdx.x % warpSize;
    const unsigned long long odd = __ballot(lane % 2), low = __ballot(lane < 20);
    if (lane == 0) masks[threadIdx.x / warpSize] = odd ^ low;
    int value = __shfl_xor(lane, 5) + 100 * __shfl(lane, 3) + __popcll(low);
    value += 1000 * (__all(lane >= 0) + __any(lane == 63) * 2 + __any(lane == 64) * 4);
    value += 10000 * __shfl_up(lane, 1, 16);
    values[threadIdx.x] = value;
}

int main() {
    unsigned long long *masks, expected = 0;
    int *values;
    HIP_CHECK(hipMallocManaged((void **)&masks, 2 * sizeof *masks));
    HIP_CHECK(hipMallocManaged((void **)&values, 128 * sizeof *values));
    ask<<<1, 128>>>(masks, values);
    HIP_CHECK(hipDeviceSynchronize());
    for (int lane = 0; lane < 64; ++lane) expected |= (unsigned long long)(lane % 2 != (lane < 20)) << lane;
    bool right = masks[0] == expected && masks[1] == expected;
    for (int t = 0; t < 128; ++t) {
        const int lane = t % 64, up = lane % 16 ? lane - 1 : lane;
        right &= values[t] == (lane ^ 5) + 300 + 20 + 3000 + 10000 * up;
    }
    return verdict(right);
}
