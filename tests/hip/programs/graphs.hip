// Graphs: captured from two streams that fork and join, and built node by node; launched, changed, launched again.
#include <hip/hip_runtime.h>

#include <vector>

#include "check.h"

__global__ void add(const int *a, const int *b, int *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}

__global__ void scale(int *values, int by, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] *= by;
}

int calls = 0;

bool captured() {
    constexpr int n = 300, bytes = n * sizeof(int);
    int *a, *b, *out;
    std::vector<int> host(n), result(n);
    hipStream_t first, second;
    hipEvent_t fork, join;
    hipGraph_t graph;
    hipGraphExec_t exec;
    HIP_CHECK(hipMalloc(&a, bytes));
    HIP_CHECK(hipMalloc(&b, bytes));
    HIP_CHECK(hipMalloc(&out, bytes));
    HIP_CHECK(hipMemset(out, 0xff, bytes));
    HIP_CHECK(hipStreamCreate(&first));
    HIP_CHECK(hipStreamCreate(&second));
    HIP_CHECK(hipEventCreateWithFlags(&fork, hipEventDisableTiming));
    HIP_CHECK(hipEventCreateWithFlags(&join, hipEventDisableTiming));

    HIP_CHECK(hipStreamBeginCapture(first, hipStreamCaptureModeRelaxed));
    HIP_CHECK(hipMemcpyAsync(a, host.data(), bytes, hipMemcpyHostToDevice, first));
    HIP_CHECK(hipEventRecord(fork, first));
    HIP_CHECK(hipStreamWaitEvent(second, fork, 0));
    HIP_CHECK(hipMemsetAsync(b, 0, bytes, second));
    add<<<3, 128, 0, second>>>(a, b, b, n);
    scale<<<3, 128, 0, second>>>(b, 10, n);
    HIP_CHECK(hipEventRecord(join, second));
    HIP_CHECK(hipStreamWaitEvent(first, join, 0));
    add<<<3, 128, 0, first>>>(a, b, out, n);
    hipStreamCaptureStatus status;
    HIP_CHECK(hipStreamIsCapturing(second, &status));
    bool right = status == hipStreamCaptureStatusActive;
    HIP_CHECK(hipStreamEndCapture(first, &graph));
    HIP_CHECK(hipMemcpy(result.data(), out, bytes, hipMemcpyDeviceToHost));
    right &= result[0] == -1;  // nothing has run

    size_t nodes = 0;
    HIP_CHECK(hipGraphGetNodes(graph, nullptr, &nodes));
    right &= nodes == 5;
    HIP_CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    for (int round = 1; round <= 3; ++round) {
        for (int i = 0; i < n; ++i) host[i] = i * round;
        HIP_CHECK(hipGraphLaunch(exec, first));
        HIP_CHECK(hipStreamSynchronize(first));
        HIP_CHECK(hipMemcpy(result.data(), out, bytes, hipMemcpyDeviceToHost));
        for (int i = 0; i < n; ++i) right &= result[i] == 11 * i * round;
    }
    HIP_CHECK(hipGraphExecDestroy(exec));
    HIP_CHECK(hipGraphDestroy(graph));
    return right;
}

bool built() {
    constexpr int n = 200, bytes = n * sizeof(int);
    int *values;
    std::vector<int> host(n), result(n);
    for (int i = 0; i < n; ++i) host[i] = i;
    HIP_CHECK(hipMalloc(&values, bytes));
    hipGraph_t graph;
    hipGraphNode_t in, kernel, out, notice;
    hipGraphExec_t exec;
    HIP_CHECK(hipGraphCreate(&graph, 0));
    HIP_CHECK(hipGraphAddMemcpyNode1D(&out, graph, nullptr, 0, result.data(), values, bytes, hipMemcpyDeviceToHost));
    HIP_CHECK(hipGraphAddMemcpyNode1D(&in, graph, nullptr, 0, values, host.data(), bytes, hipMemcpyHostToDevice));
    int by = 3, count = n;
    void *arguments[] = {&values, &by, &count};
    hipKernelNodeParams what{};
    what.func = reinterpret_cast<void *>(scale);
    what.gridDim = dim3(2), what.blockDim = dim3(128), what.kernelParams = arguments;
    HIP_CHECK(hipGraphAddKernelNode(&kernel, graph, &in, 1, &what));
    hipHostNodeParams said{[](void *count) { ++*static_cast<int *>(count); }, &calls};
    HIP_CHECK(hipGraphAddHostNode(&notice, graph, nullptr, 0, &said));
    HIP_CHECK(hipGraphAddDependencies(graph, &kernel, &out, 1));  // `out` is older, and comes last
    HIP_CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    bool right = true;
    for (int round = 0; round < 2; ++round) {
        HIP_CHECK(hipGraphLaunch(exec, nullptr));
        HIP_CHECK(hipDeviceSynchronize());
        for (int i = 0; i < n; ++i) right &= result[i] == by * i;
        by = -7;
        HIP_CHECK(hipGraphExecKernelNodeSetParams(exec, kernel, &what));
    }
    HIP_CHECK(hipGraphAddDependencies(graph, &out, &in, 1));  // a circle
    right &= hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0) == hipErrorInvalidValue;
    return right && calls == 2;
}

/// What a capture refuses, and what ends it.
bool refused() {
    int *values, host = 0;
    hipStream_t stream, other;
    hipEvent_t event;
    hipGraph_t graph;
    HIP_CHECK(hipMalloc(&values, sizeof(int)));
    HIP_CHECK(hipStreamCreate(&stream));
    HIP_CHECK(hipStreamCreate(&other));
    HIP_CHECK(hipEventCreate(&event));
    bool right = hipStreamEndCapture(stream, &graph) == hipErrorIllegalState;
    HIP_CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    right &= hipMemcpy(&host, values, sizeof(int), hipMemcpyDeviceToHost) == hipErrorStreamCaptureImplicit;
    right &= hipStreamEndCapture(stream, &graph) == hipErrorStreamCaptureInvalidated && graph == nullptr;
    HIP_CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    right &= hipStreamSynchronize(stream) == hipErrorStreamCaptureUnsupported;
    right &= hipStreamEndCapture(stream, &graph) == hipErrorStreamCaptureInvalidated;
    HIP_CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    HIP_CHECK(hipEventRecord(event, stream));
    HIP_CHECK(hipStreamWaitEvent(other, event, 0));
    HIP_CHECK(hipMemsetAsync(values, 0, sizeof(int), other));  // never joins
    right &= hipStreamEndCapture(stream, &graph) == hipErrorStreamCaptureUnjoined;
    return right && hipMemcpy(&host, values, sizeof(int), hipMemcpyDeviceToHost) == hipSuccess;
}

int main() { return verdict(captured() && built() && refused()); }
