// Copies and kernels on two streams: pinned memory, events, a stream that waits for another, a callback.
#include "check.h"

__global__ void scale(float *data, float by, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= by;
}

static void note(hipStream_t, hipError_t status, void *done) { *(bool *)done = status == hipSuccess; }

int main() {
    const int n = 512;
    float *host, *device[2];
    hipStream_t stream[2];
    hipEvent_t start, end;
    bool done = false;
    HIP_CHECK(hipHostMalloc((void **)&host, 2 * n * sizeof(float), hipHostMallocDefault));
    for (int i = 0; i < 2 * n; ++i) host[i] = float(i);
    HIP_CHECK(hipEventCreate(&start));
    HIP_CHECK(hipEventCreateWithFlags(&end, hipEventDefault));
    HIP_CHECK(hipEventRecord(start, nullptr));
    for (int s = 0; s < 2; ++s) {
        HIP_CHECK(hipStreamCreateWithFlags(&stream[s], hipStreamNonBlocking));
        HIP_CHECK(hipMalloc((void **)&device[s], n * sizeof(float)));
        HIP_CHECK(hipMemcpyAsync(device[s], host + s * n, n * sizeof(float), hipMemcpyHostToDevice, stream[s]));
        scale<<<n / 128, 128, 0, stream[s]>>>(device[s], float(s + 2), n);
        HIP_CHECK(hipMemcpyAsync(host + s * n, device[s], n * sizeof(float), hipMemcpyDeviceToHost, stream[s]));
    }
    HIP_CHECK(hipEventRecord(end, stream[1]));
    HIP_CHECK(hipStreamWaitEvent(stream[0], end, 0));
    HIP_CHECK(hipStreamAddCallback(stream[0], note, &done, 0));
    HIP_CHECK(hipStreamSynchronize(stream[0]));
    HIP_CHECK(hipEventSynchronize(end));
    float milliseconds = -1;
    HIP_CHECK(hipEventElapsedTime(&milliseconds, start, end));
    bool right = done && milliseconds >= 0 && hipStreamQuery(stream[1]) == hipSuccess && hipEventQuery(end) == hipSuccess;
    for (int i = 0; i < 2 * n; ++i) right &= host[i] == float(i * (i / n + 2));
    for (int s = 0; s < 2; ++s) HIP_CHECK(hipStreamDestroy(stream[s]));
    HIP_CHECK(hipHostFree(host));
    return verdict(right);
}
