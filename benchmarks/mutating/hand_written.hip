// Kernels as people write them. benchmarks/verify_hand_written.py changes a line of one, and asks verify for the cause.
#include <hip/hip_runtime.h>

// C = A B, tiles of 16 in LDS.
extern "C" __global__ __launch_bounds__(256) void gemm(const float *A, const float *B, float *C, int N, int K) {
    __shared__ float a[16][17], b[16][17];
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    const int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0;
    for (int t = 0; t < K; t += 16) {
        a[y][x] = A[row * K + t + x];
        b[y][x] = B[(t + y) * N + col];
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    C[row * N + col] = sum;
}

// D = relu(alpha A B' + bias), B by rows, two results a thread.
extern "C" __global__ __launch_bounds__(128) void linear(const float *A, const float *B, const float *bias, float *D, int N, int K) {
    __shared__ float a[16][33], b[16][33];
    const int x = threadIdx.x % 8, y = threadIdx.x / 8;
    const int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum[2] = {0, 0};
    for (int t = 0; t < K; t += 32) {
        for (int i = x; i < 32; i += 8) {
            a[y][i] = A[row * K + t + i];
            b[y][i] = B[(blockIdx.x * 16 + y) * K + t + i];
        }
        __syncthreads();
        for (int k = 0; k < 32; ++k) {
            sum[0] += a[y][k] * b[x][k];
            sum[1] += a[y][k] * b[x + 8][k];
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i) {
        const float value = 0.3f * sum[i] + bias[col + 8 * i];
        D[row * N + col + 8 * i] = value > 0 ? value : 0;
    }
}

// Means of rows, a block each, a tree in LDS.
extern "C" __global__ __launch_bounds__(64) void mean(const float *X, float *Y, int n) {
    __shared__ float part[64];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 64) sum += X[blockIdx.x * n + i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 32; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) Y[blockIdx.x] = part[0] / n;
}

// Softmax of rows of 128, two elements a lane.
extern "C" __global__ __launch_bounds__(64) void softmax(const float *X, float *Y) {
    const float *x = X + blockIdx.x * 128;
    const float u = x[threadIdx.x], v = x[threadIdx.x + 64];
    float most = fmaxf(u, v);
    for (int far = 32; far; far /= 2) most = fmaxf(most, __shfl_xor(most, far));
    const float eu = __expf(u - most), ev = __expf(v - most);
    float sum = eu + ev;
    for (int far = 32; far; far /= 2) sum += __shfl_xor(sum, far);
    Y[blockIdx.x * 128 + threadIdx.x] = eu / sum;
    Y[blockIdx.x * 128 + threadIdx.x + 64] = ev / sum;
}

// Layer norm of rows of 128 with weights and biases.
extern "C" __global__ __launch_bounds__(64) void norm(const float *X, const float *W, const float *B, float *Y) {
    const float *x = X + blockIdx.x * 128;
    const int t = threadIdx.x;
    float sum = x[t] + x[t + 64];
    for (int far = 32; far; far /= 2) sum += __shfl_xor(sum, far);
    const float m = sum / 128, u = x[t] - m, v = x[t + 64] - m;
    float squares = u * u + v * v;
    for (int far = 32; far; far /= 2) squares += __shfl_xor(squares, far);
    const float scale = rsqrtf(squares / 128 + 1e-5f);
    Y[blockIdx.x * 128 + t] = u * scale * W[t] + B[t];
    Y[blockIdx.x * 128 + t + 64] = v * scale * W[t + 64] + B[t + 64];
}

// Attention of a head: 16 queries a block, 4 lanes a query, 48 keys of 32 elements.
extern "C" __global__ __launch_bounds__(64) void attention(const float *Q, const float *K, const float *V, float *O) {
    __shared__ float p[16][48];
    const int q = threadIdx.x / 4, part = threadIdx.x % 4, row = blockIdx.x * 16 + q;
    float most = -1e30f, sum = 0;
    for (int j = part; j < 48; j += 4) {
        float s = 0;
        for (int d = 0; d < 32; ++d) s += Q[row * 32 + d] * K[j * 32 + d];
        p[q][j] = s * 0.1767767f;
        most = fmaxf(most, p[q][j]);
    }
    for (int far = 1; far < 4; far *= 2) most = fmaxf(most, __shfl_xor(most, far));
    for (int j = part; j < 48; j += 4) sum += p[q][j] = __expf(p[q][j] - most);
    for (int far = 1; far < 4; far *= 2) sum += __shfl_xor(sum, far);
    __syncthreads();
    for (int d = part; d < 32; d += 4) {
        float o = 0;
        for (int j = 0; j < 48; ++j) o += p[q][j] * V[j * 32 + d];
        O[row * 32 + d] = o / sum;
    }
}

// Five points, tiles of 16 with a halo in LDS; zero outside.
extern "C" __global__ __launch_bounds__(256) void stencil(const float *X, float *Y, int n) {
    __shared__ float t[18][18];
    const int x = threadIdx.x % 16 + 1, y = threadIdx.x / 16 + 1;
    const int col = blockIdx.x * 16 + x - 1, row = blockIdx.y * 16 + y - 1;
    const auto at = [&](int r, int c) { return r < 0 || c < 0 || r >= n || c >= n ? 0.0f : X[r * n + c]; };
    t[y][x] = at(row, col);
    if (x == 1) t[y][0] = at(row, col - 1);
    if (x == 16) t[y][17] = at(row, col + 1);
    if (y == 1) t[0][x] = at(row - 1, col);
    if (y == 16) t[17][x] = at(row + 1, col);
    __syncthreads();
    Y[row * n + col] = 0.6f * t[y][x] + 0.1f * (t[y][x - 1] + t[y][x + 1] + t[y - 1][x] + t[y + 1][x]);
}
