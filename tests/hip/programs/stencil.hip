// Heat on a plate: a stencil of five points with a halo in LDS, two buffers in turn.
#include "check.h"
#include <cmath>
#include <utility>
#include <vector>

constexpr int EDGE = 16;

__global__ void step(const float *in, float *out, int width, int height) {
    __shared__ float tile[EDGE + 2][EDGE + 2];
    const int x = blockIdx.x * EDGE + threadIdx.x, y = blockIdx.y * EDGE + threadIdx.y;
    const auto at = [=](int column, int row) {
        return column >= 0 && column < width && row >= 0 && row < height ? in[row * width + column] : 0.0f;
    };
    tile[threadIdx.y + 1][threadIdx.x + 1] = at(x, y);
    if (threadIdx.x == 0) tile[threadIdx.y + 1][0] = at(x - 1, y), tile[threadIdx.y + 1][EDGE + 1] = at(x + EDGE, y);
    if (threadIdx.y == 0) tile[0][threadIdx.x + 1] = at(x, y - 1), tile[EDGE + 1][threadIdx.x + 1] = at(x, y + EDGE);
    __syncthreads();
    if (x >= width || y >= height) return;
    const int i = threadIdx.y + 1, j = threadIdx.x + 1;
    out[y * width + x] = 0.5f * tile[i][j] + 0.125f * (tile[i - 1][j] + tile[i + 1][j] + tile[i][j - 1] + tile[i][j + 1]);
}

int main() {
    const int width = 40, height = 24;
    std::vector<float> now(width * height), next(now.size());
    for (size_t i = 0; i < now.size(); ++i) now[i] = float(i % 11);
    float *a, *b;
    HIP_CHECK(hipMalloc((void **)&a, now.size() * sizeof(float)));
    HIP_CHECK(hipMalloc((void **)&b, now.size() * sizeof(float)));
    HIP_CHECK(hipMemcpy(a, now.data(), now.size() * sizeof(float), hipMemcpyHostToDevice));
    for (int round = 0; round < 3; ++round) {
        step<<<dim3((width + EDGE - 1) / EDGE, (height + EDGE - 1) / EDGE), dim3(EDGE, EDGE)>>>(a, b, width, height);
        std::swap(a, b);
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x) {
                const auto at = [&](int c, int r) { return c < 0 || c >= width || r < 0 || r >= height ? 0.0f : now[r * width + c]; };
                next[y * width + x] = 0.5f * at(x, y) + 0.125f * (at(x, y - 1) + at(x, y + 1) + at(x - 1, y) + at(x + 1, y));
            }
        std::swap(now, next);
    }
    std::vector<float> out(now.size());
    HIP_CHECK(hipMemcpy(out.data(), a, out.size() * sizeof(float), hipMemcpyDeviceToHost));
    bool right = true;
    for (size_t i = 0; i < out.size(); ++i) right &= std::fabs(out[i] - now[i]) < 1e-5f;
    return verdict(right);
}
