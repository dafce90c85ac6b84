// Pi by random points: integer arithmetic, doubles, a float atomic addition.
#include "check.h"
#include <cmath>

__global__ void points(double *sum, unsigned *inside, int each) {
    unsigned state = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 1, hits = 0;
    const auto next = [&] { return (state = state * 1664525u + 1013904223u) * 0x1p-32; };
    double radii = 0;
    for (int i = 0; i < each; ++i) {
        const double x = next(), y = next(), r = sqrt(x * x + y * y);
        hits += r < 1;
        radii += r;
    }
    atomicAdd(inside, hits);
    atomicAdd(sum, radii);
}

int main() {
    const int threads = 256, each = 20;
    double *sum, host_sum = 0;
    unsigned *inside, host_inside = 0;
    HIP_CHECK(hipMallocManaged((void **)&sum, sizeof *sum));
    HIP_CHECK(hipMallocManaged((void **)&inside, sizeof *inside));
    *sum = 0, *inside = 0;
    points<<<4, threads / 4>>>(sum, inside, each);
    HIP_CHECK(hipDeviceSynchronize());
    for (int t = 0; t < threads; ++t) {
        unsigned state = t * 2654435761u + 1;
        const auto next = [&] { return (state = state * 1664525u + 1013904223u) * 0x1p-32; };
        for (int i = 0; i < each; ++i) {
            const double x = next(), y = next(), r = std::sqrt(x * x + y * y);
            host_inside += r < 1;
            host_sum += r;
        }
    }
    const double pi = 4.0 * *inside / (threads * each);
    return verdict(*inside == host_inside && std::fabs(*sum - host_sum) < 1e-9 && std::fabs(pi - 3.14) < 0.1);
}
