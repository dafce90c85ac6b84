// Memory of the host that is registered: the kernel uses it in place.
#include "check.h"
#include <vector>

__global__ void square(const int *in, int *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * in[i];
}

int main() {
    const int n = 3000;
    std::vector<int> in(n), out(n), beside(n, 7);
    for (int i = 0; i < n; ++i) in[i] = i - 1000;
    HIP_CHECK(hipHostRegister(in.data(), n * sizeof(int), hipHostRegisterDefault));
    HIP_CHECK(hipHostRegister(out.data(), n * sizeof(int), hipHostRegisterMapped));
    bool right = hipHostRegister(in.data(), 4, 0) == hipErrorHostMemoryAlreadyRegistered;
    int *device_in, *device_out;
    HIP_CHECK(hipHostGetDevicePointer((void **)&device_in, in.data(), 0));
    HIP_CHECK(hipHostGetDevicePointer((void **)&device_out, out.data(), 0));
    square<<<(n + 255) / 256, 256>>>(device_in, device_out, n);
    HIP_CHECK(hipDeviceSynchronize());
    in[5] = 77;
    square<<<1, 64>>>(device_in, device_out, 6);
    HIP_CHECK(hipDeviceSynchronize());
    HIP_CHECK(hipHostUnregister(in.data()));
    HIP_CHECK(hipHostUnregister(out.data()));
    right &= hipHostUnregister(out.data()) == hipErrorHostMemoryNotRegistered;
    for (int i = 0; i < n; ++i) right &= out[i] == (i == 5 ? 77 * 77 : (i - 1000) * (i - 1000)) && beside[i] == 7;
    in.resize(4 * n);  // the memory is the host's again
    return verdict(right);
}
