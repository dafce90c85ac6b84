// printf in a kernel: integers, floats, strings, a long text, several lanes.
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void table(const char *unit) {
    const int i = threadIdx.x;
    if (i % 21 == 0) printf("block %d lane %2d: %8.3f %s, %5s|%-5s|, %llu, %c%%\n", int(blockIdx.x), i, i / 8.0, unit, "ab", "cd", 1ull << 40, 'x');
}

__global__ void song() {
    printf("a text that is longer than the fifty-six bytes which one packet of a lane takes at a time: %*d and %.2e\n", 6, -42, 12345.678);
}

int main() {
    char *unit;
    (void)hipMallocManaged((void **)&unit, 8);
    std::snprintf(unit, 8, "ms");
    std::printf("before\n");
    table<<<2, 64>>>(unit);
    song<<<1, 1>>>();
    (void)hipDeviceSynchronize();
    std::printf("after\n");
    return 0;
}
