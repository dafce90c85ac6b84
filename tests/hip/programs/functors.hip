// Templates, a functor with state passed by value, a struct of pointers, a device function in another namespace.
#include "check.h"
#include <vector>

namespace bias {
__device__ float add(float x) { return x + 0.5f; }
}  // namespace bias

struct Affine {
    float scale, offset;
    bool clamp;
    __host__ __device__ float operator()(float x) const {
        const float y = scale * x + offset;
        return clamp && y < 0 ? 0 : y;
    }
};

struct Vectors {
    const float *in;
    float *out;
    short first, count;
};

template <int UNROLL, typename F> __global__ void transform(Vectors v, F f, char shift) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const int i = v.first + (blockIdx.x * UNROLL + u) * blockDim.x + threadIdx.x;
        if (i < v.first + v.count) v.out[i] = f(v.in[i]) + shift;
    }
}

struct Bias {
    __device__ float operator()(float x) const { return bias::add(x); }
};

int main() {
    const int n = 300;
    std::vector<float> in(n), out(n);
    for (int i = 0; i < n; ++i) in[i] = float(i - 150);
    float *a, *b;
    HIP_CHECK(hipMalloc((void **)&a, n * sizeof(float)));
    HIP_CHECK(hipMalloc((void **)&b, n * sizeof(float)));
    HIP_CHECK(hipMemcpy(a, in.data(), n * sizeof(float), hipMemcpyHostToDevice));
    const Affine affine{2, 1, true};
    transform<2><<<2, 64>>>(Vectors{a, b, 0, 200}, affine, char(3));
    transform<4><<<1, 64>>>(Vectors{a, b, 200, 100}, Bias{}, char(-1));
    HIP_CHECK(hipMemcpy(out.data(), b, n * sizeof(float), hipMemcpyDeviceToHost));
    bool right = true;
    for (int i = 0; i < n; ++i) right &= out[i] == (i < 200 ? affine(in[i]) + 3 : in[i] + 0.5f - 1);
    return verdict(right);
}
