// A sparse matrix (CSR) times a vector, a wave for each row.
#include "check.h"
#include <cmath>
#include <vector>

__global__ void multiply(const int *begin, const int *columns, const double *values, const double *x, double *y, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize, lane = threadIdx.x % warpSize;
    if (row >= rows) return;
    double sum = 0;
    for (int i = begin[row] + lane; i < begin[row + 1]; i += warpSize) sum += values[i] * x[columns[i]];
    for (int offset = warpSize / 2; offset; offset /= 2) sum += __shfl_down(sum, offset);
    if (lane == 0) y[row] = sum;
}

template <typename T> T *on_device(const std::vector<T> &host) {
    T *device;
    HIP_CHECK(hipMalloc((void **)&device, host.size() * sizeof(T)));
    HIP_CHECK(hipMemcpy(device, host.data(), host.size() * sizeof(T), hipMemcpyHostToDevice));
    return device;
}

int main() {
    const int rows = 10, width = 200;
    std::vector<int> begin{0}, columns;
    std::vector<double> values, x(width), y(rows), expected(rows);
    for (int i = 0; i < width; ++i) x[i] = 1.0 / (i + 1);
    for (int row = 0; row < rows; ++row) {
        for (int column = row; column < width; column += row % 4 + 1) {
            columns.push_back(column), values.push_back(row - column * 0.5);
            expected[row] += values.back() * x[column];
        }
        begin.push_back(int(columns.size()));
    }
    double *device_y = on_device(y);
    multiply<<<(rows + 3) / 4, 256>>>(on_device(begin), on_device(columns), on_device(values), on_device(x), device_y, rows);
    HIP_CHECK(hipMemcpy(y.data(), device_y, rows * sizeof(double), hipMemcpyDeviceToHost));
    bool right = true;
    for (int row = 0; row < rows; ++row) right &= std::fabs(y[row] - expected[row]) < 1e-9;
    return verdict(right);
}
