// Adds two vectors.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

__global__ void add(const float *a, const float *b, float *c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

int main() {
    const int n = 1000;
    std::vector<float> a(n), b(n), c(n);
    for (int i = 0; i < n; ++i) a[i] = i, b[i] = 2 * i;
    float *on_gpu[3];
    for (float *&p : on_gpu)
        if (hipMalloc(&p, n * sizeof(float)) != hipSuccess) return 2;
    (void)hipMemcpy(on_gpu[0], a.data(), n * sizeof(float), hipMemcpyHostToDevice);
    (void)hipMemcpy(on_gpu[1], b.data(), n * sizeof(float), hipMemcpyHostToDevice);
    add<<<(n + 255) / 256, 256>>>(on_gpu[0], on_gpu[1], on_gpu[2], n);
    if (hipGetLastError() != hipSuccess) return 2;
    (void)hipMemcpy(c.data(), on_gpu[2], n * sizeof(float), hipMemcpyDeviceToHost);
    for (int i = 0; i < n; ++i)
        if (c[i] != 3.0f * i) return std::printf("c[%d] is %g\n", i, c[i]), 1;
    for (float *p : on_gpu) (void)hipFree(p);
    std::puts("right");
    return 0;
}
