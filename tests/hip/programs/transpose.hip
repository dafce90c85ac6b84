// A matrix transposed tile by tile through LDS, in pitched memory.
#include "check.h"
#include <vector>

__global__ void transpose(const float *in, size_t in_pitch, float *out, size_t out_pitch, int width, int height) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * in_pitch + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < height && y + j < width) out[(y + j) * out_pitch + x] = tile[threadIdx.x][threadIdx.y + j];
}

int main() {
    const int width = 70, height = 45;
    std::vector<float> in(width * height), out(in.size());
    for (size_t i = 0; i < in.size(); ++i) in[i] = float(i);
    float *a, *b;
    size_t a_pitch, b_pitch;
    HIP_CHECK(hipMallocPitch((void **)&a, &a_pitch, width * sizeof(float), height));
    HIP_CHECK(hipMallocPitch((void **)&b, &b_pitch, height * sizeof(float), width));
    HIP_CHECK(hipMemset2D(b, b_pitch, 0xff, height * sizeof(float), width));
    HIP_CHECK(hipMemcpy2D(a, a_pitch, in.data(), width * sizeof(float), width * sizeof(float), height, hipMemcpyHostToDevice));
    transpose<<<dim3((width + 31) / 32, (height + 31) / 32), dim3(32, 8)>>>(a, a_pitch / 4, b, b_pitch / 4, width, height);
    HIP_CHECK(hipMemcpy2D(out.data(), height * sizeof(float), b, b_pitch, height * sizeof(float), width, hipMemcpyDeviceToHost));
    bool right = a_pitch % 256 == 0;
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) right &= out[x * height + y] == in[y * width + x];
    return verdict(right);
}
