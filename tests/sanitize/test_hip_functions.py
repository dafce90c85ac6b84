"""Functions of HIP's headers that plain kernels use, and what they compute."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tkgen.emulate import Buffer, EmulateError, Scalar
from tkgen.emulate import launch as emulate
from tkgen.sanitize import from_source

THREADS = 128
LANE = np.arange(THREADS) % 64
WAVE = np.arange(THREADS) - LANE
X = np.random.default_rng(0).integers(-1000, 1000, THREADS).astype(np.int32)

# What a thread computes of its x, and what that is for all threads.
VALUES = {
    "__mul24(x, -3)": X * -3,
    "__umul24(x, 5)": (X & 0xFFFFFF) * 5,
    "__popc(x)": [bin(v & 0xFFFFFFFF).count("1") for v in X.tolist()],
    "__mulhi(x << 20, 1 << 20)": X.astype(np.int64) << 40 >> 32,
    "__umulhi(x, 3)": (X.astype(np.uint32).astype(np.uint64) * 3) >> 32,
    "__clz(t)": [32 - int(t).bit_length() for t in range(THREADS)],
    "__clzll(t)": [64 - int(t).bit_length() for t in range(THREADS)],
    "__ffs(t << 3)": [((t << 3) & -(t << 3)).bit_length() for t in range(THREADS)],
    "__brev(t) >> 24": [int(f"{t:08b}"[::-1], 2) for t in range(THREADS)],
    "__byte_perm(0x03020100, 0x07060504, 0x6420)": np.full(THREADS, 0x06040200),
    "__byte_perm(0x03020100, 0x07060504, 0x1357)": np.full(THREADS, 0x01030507),
    "__funnelshift_l(1u << 31, 6, 1)": np.full(THREADS, 13),
    "__funnelshift_r(6, 1, 1)": np.full(THREADS, -0x7FFFFFFD),
    "__ldg(in + t)": X,
    "max(long(x), 5l) + min(7ll, 9ll) + max(3u, 4u) + int(max(1.5, 2.5))": np.maximum(X, 5) + 13,
    "abs(x) + int(abs(-2.5f))": np.abs(X) + 2,
    "__float_as_int(__int_as_float(x)) + int(__uint_as_float(__float_as_uint(2.0f)))": X + 2,
    "__float2int_rn(2.5f) + __float2int_rz(-2.5f) + __float2int_ru(2.5f) + __float2int_rd(2.5f)": np.full(THREADS, 5),
    "int(__longlong_as_double(__double_as_longlong(x)))": X,
    "int(clock64() >= 0 && wall_clock64() >= 0 && clock() >= 0)": np.ones(THREADS),
    "int((make_float3(1, 2, 3) * 2.0f + make_float3(1, 1, 1)).z) + int(sizeof(float3))": np.full(THREADS, 19),
    "(make_int2(x, 2) - make_int2(1, 1)).x + (make_int4(1, 2, 3, 4) * 3).w": X + 11,
    "make_uchar4(250, 7, 6, 5).x + make_short2(1, -2).y + int(make_double2(1, 2).x)": np.full(THREADS, 249),
    "[&] { int3 v{1, 2, 3}; v += make_int3(x, 1, 1); v *= 2; return v.x + v.z; }()": 2 * X + 10,
    "[&] { std::array<int, 2> v{x, 1}; std::swap(v[0], v[1]); return v[1] + int(v.size()); }()": X + 2,
    "std::is_same_v<std::decay_t<const int &>, int> && std::is_floating_point_v<float>": np.ones(THREADS),
    "std::numeric_limits<int>::max() == INT_MAX && std::numeric_limits<float>::infinity() > FLT_MAX": np.ones(THREADS),
    "__shfl(x, 3)": X[WAVE + 3],
    "int(__shfl(__half(float(x)), 3))": X[WAVE + 3],
    "__shfl(make_int4(0, 1, 2, x), 3).w": X[WAVE + 3],
    "__shfl_sync(~0ul, x, 5, 16)": X[WAVE + LANE // 16 * 16 + 5],
    "__shfl_up_sync(~0ul, x, 2)": X[WAVE + np.where(LANE < 2, LANE, LANE - 2)],
    "__shfl_down_sync(~0ul, x, 3, 32)": X[WAVE + np.where(LANE % 32 + 3 >= 32, LANE, LANE + 3)],
    "__shfl_xor_sync(~0ul, x, 9)": X[WAVE + (LANE ^ 9)],
    "int(__shfl(double(x), 7))": X[WAVE + 7],
    "__any_sync(~0ul, t == 70)": WAVE == 64,
    "__all(t < 64)": WAVE == 0,
    "int(__ballot(t % 2) >> 32)": np.full(THREADS, -0x55555556),
    "__syncthreads_or(t == 100)": np.ones(THREADS),
    "__syncthreads_or(t == 128)": np.zeros(THREADS),
    "__syncthreads_and(t < 128)": np.ones(THREADS),
    "__syncthreads_count(t < 100)": np.full(THREADS, 100),
    "int(make_uint4(1, 2, 3, 4).z + make_float2(1, 2).y)": np.full(THREADS, 5),
    "atomicCAS(sums + t, 0, x)": np.zeros(THREADS),
    "atomicSub(sums + t, 1)": X,
    "atomicMin(sums + t, -5000)": X - 1,
    "atomicMax(sums + t, 7)": np.full(THREADS, -5000),
    "atomicOr(sums + t, 8)": np.full(THREADS, 7),
    "atomicExch(sums + t, 1)": np.full(THREADS, 15),
    "atomicAnd(sums + t, 3) + atomicXor(sums + t, 2)": np.full(THREADS, 2),
    "atomicInc((unsigned *)sums + t, 3)": np.full(THREADS, 3),
    "atomicInc((unsigned *)sums + t, 3)  + 0": np.zeros(THREADS),
    "atomicDec((unsigned *)sums + t, 9)": np.ones(THREADS),
    "atomicDec((unsigned *)sums + t, 9) + 0": np.zeros(THREADS),
    "int(block.thread_rank() + block.size() + block.thread_index().x)": 2 * np.arange(THREADS) + THREADS,
    "tile.shfl(x, 3) + int(tile.thread_rank() + tile.meta_group_rank() + tile.size())": (
        X[np.arange(THREADS) // 16 * 16 + 3] + np.arange(THREADS) % 16 + np.arange(THREADS) // 16 + 16
    ),
    "int(tile.ballot(t % 3 == 0)) + tile.any(t == 40) + tile.all(t < 16)": [
        sum(1 << i for i in range(16) if (t // 16 * 16 + i) % 3 == 0) + (t // 16 == 2) + (t < 16)
        for t in range(THREADS)
    ],
    "unsafeAtomicAdd(sums + t, 1)": np.full(THREADS, 9),
}

# Functions of f = x / 256, between -4 and 4, and how far from the true value they may be.
F = X / 256
H = F.astype(np.float16)
FLOATS = {
    "expf(f) + exp2f(f)": np.exp(F) + np.exp2(F),
    "exp10f(f / 4) + __exp10f(f / 4)": 2 * 10 ** (F / 4),
    "__expf(f) + std::exp(f)": 2 * np.exp(F),
    "logf(f * f + 1) + log2f(f * f + 1) + log10f(f * f + 1)": sum(g(F * F + 1) for g in (np.log, np.log2, np.log10)),
    "log1pf(f * f) + expm1f(f) + expm1f(f / 4096)": np.log1p(F * F) + np.expm1(F) + np.expm1(F / 4096),
    "sqrtf(f * f + 1) + rsqrtf(f * f + 1)": np.sqrt(F * F + 1) + 1 / np.sqrt(F * F + 1),
    "sinf(f) + cosf(f) + tanf(f / 4)": np.sin(F) + np.cos(F) + np.tan(F / 4),
    "tanhf(f) + tanhf(f / 64)": np.tanh(F) + np.tanh(F / 64),
    "sinhf(f) + coshf(f)": np.sinh(F) + np.cosh(F),
    "erff(f) - erfcf(f)": [2 * math.erf(f) - 1 for f in F],
    "normcdff(f)": [0.5 + 0.5 * math.erf(f / math.sqrt(2)) for f in F],
    "powf(f, 3) + powf(f, 2) + powf(f * f, 0.3f)": F**3 + F**2 + (F * F) ** 0.3,
    "cbrtf(f) + hypotf(f, 3) + fdimf(f, 1)": np.cbrt(F) + np.hypot(F, 3) + np.maximum(F - 1, 0),
    "floorf(f) + ceilf(f) + truncf(f) + rintf(f)": np.floor(F) + np.ceil(F) + np.trunc(F) + np.rint(F),
    "roundf(f) + fmodf(f, 1.5f) + fabsf(f)": np.trunc(F + np.copysign(0.5, F)) + np.fmod(F, 1.5) + np.abs(F),
    "fmaf(f, f, 1) + fmaxf(f, 0) + fminf(f, 0) + copysignf(2, f)": F * F + 1 + F + np.copysign(2, F),
    "ldexpf(f, 3) + __saturatef(f) + __fdividef(f, 3) + __frcp_rn(f * f + 1)": 8 * F
    + F.clip(0, 1)
    + F / 3
    + 1 / (F * F + 1),
    "[&] { float s, c; sincosf(f, &s, &c); return s * s + c * c; }()": np.ones(THREADS),
    "float(sqrt(double(f) * f) + floor(2.5) + fma(1.0, 2.0, 3.0))": np.abs(F) + 7,
    "isnan(f) + isinf(INFINITY) + isfinite(NAN) + signbit(f)": 1 + (F < 0),
    # Floats of 16 bits.
    "__half2float(__float2half(f)) + float(__float2half_rn(f))": 2 * F.astype(np.float16).astype(np.float64),
    "__half2float(__hfma(__half(f), __half(2.0f), __half(1.0f)))": (F * 2 + 1).astype(np.float16),
    "__low2float(__hadd2(__floats2half2_rn(f, 1), __float2half2_rn(1))) + __half22float2(make_half2(f, 2)).y": F + 3,
    "float(__hmul(__half(f), __half(0.5f)) + __hmax(__half(f), __half(0.0f)) - __habs(__half(f)))": (
        H / np.float16(2) + H.clip(0) - np.abs(H)
    ),
    "__hgt(__half(f), __half(0.0f)) + __half_as_ushort(__half(1.0f)) - 0x3c00": F > 0,
    "float(hexp(__half(0.0f)) + hsqrt(__half(4.0f)) + hrcp(__half(0.5f)))": np.full(THREADS, 5),
    "__bfloat162float(__float2bfloat16(2.0f)) + float(__hip_bfloat16(f > 0))": 2 + (F > 0),
    "__high2float(__hfma2(__float2bfloat162_rn(2), __floats2bfloat162_rn(1, 4), __float2bfloat162_rn(1)))": np.full(
        THREADS, 9
    ),
    "__bfloat1622float2(make_bfloat162(1, 3)).y + __bfloat16_as_ushort(__hip_bfloat16(1.0f)) - 0x3f80": np.full(
        THREADS, 3
    ),
    "float(hip_bfloat16(1.0f) + hip_bfloat16(2.0f))": np.full(THREADS, 3),
}


def test_device_functions(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cpp"
    lines = "".join(f"    out[{THREADS} * {i} + t] = {text};\n" for i, text in enumerate(VALUES))
    path.write_text(
        "#include <hip/hip_runtime.h>\n#include <hip/hip_cooperative_groups.h>\n#include <algorithm>\n"
        f"__global__ __launch_bounds__({THREADS}) void k(const int *in, int *out, int *sums) {{\n"
        f"    const int t = threadIdx.x, x = in[t];\n"
        "    const auto block = cooperative_groups::this_thread_block();\n"
        f"    const auto tile = cooperative_groups::tiled_partition<16>(block);\n{lines}    block.sync();\n}}\n"
        "int main() { return max(3, 4) + std::min(1, 2) + max(sizeof(int), 3ul) + min(2.5f, 1.0f); }\n"
    )
    out, sums = np.zeros((len(VALUES), THREADS), np.int32), np.zeros(THREADS, np.int32)
    code = from_source(path, "gfx942").code
    outcome = emulate(
        code, args=[Buffer(X), Buffer(out), Buffer(sums)], grid=(1, 1, 1), block=(THREADS, 1, 1), watch=True
    )
    assert [str(f) for f in outcome.findings] == []
    for text, got in zip(VALUES, out, strict=True):
        np.testing.assert_array_equal(got, np.asarray(VALUES[text]).astype(np.int32), err_msg=text)


@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
def test_floats(target: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cpp"
    lines = "".join(f"    out[{THREADS} * {i} + t] = {text};\n" for i, text in enumerate(FLOATS))
    path.write_text(
        "#include <hip/hip_runtime.h>\n#include <hip/hip_fp16.h>\n#include <hip/hip_bf16.h>\n#include <cmath>\n"
        f"__global__ __launch_bounds__({THREADS}) void k(const float *in, float *out) {{\n"
        f"    const int t = threadIdx.x; const float f = in[t];\n{lines}}}\n"
    )
    out = np.zeros((len(FLOATS), THREADS), np.float32)
    outcome = emulate(
        from_source(path, target).code,
        args=[Buffer(F.astype(np.float32)), Buffer(out)],
        grid=(1, 1, 1),
        block=(THREADS, 1, 1),
        watch=True,
    )
    assert [str(f) for f in outcome.findings] == []
    for text, got in zip(FLOATS, out, strict=True):
        np.testing.assert_allclose(got, np.asarray(FLOATS[text], np.float64), rtol=3e-6, atol=3e-6, err_msg=text)


HOST = """\
#include <hip/hip_runtime.h>
#include <hip/amd_detail/amd_hip_unsafe_atomics.h>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <fstream>
#include <initializer_list>
#include <map>
#include <new>
#include <numbers>
#include <optional>
#include <thread>
#include <unordered_map>
#include <hip/amd_detail/amd_warp_functions.h>
#include <hip/hip_ext.h>
#define CHECK(call) if ((call) != hipSuccess) fprintf(stderr, "%s", hipGetErrorString(call)), exit(1)

template <typename T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
__global__ __launch_bounds__(64, 2) void scale(const T *__restrict__ in, T *__restrict__ out, T by, int n) {
    HIP_DYNAMIC_SHARED(T, tile)
    __shared__ __align__(16) T first[4];
    if (threadIdx.x < 4) first[threadIdx.x] = by;
    assert(n <= 64);
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) out[threadIdx.x] = tile[n - 1 - threadIdx.x] * by;
    if (n < 0) printf("%d", n);
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 64;
    float *in, *out, *host = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) host[i] = sqrtf(rand() / float(RAND_MAX));
    const auto many = std::make_unique<float[]>(n);
    const auto one = std::make_unique<int>(n);
    many[0] = *one * std::numbers::pi_v<float>;
    std::map<std::string, int> counts;
    std::unordered_map<int, std::string> names;
    counts["one"] = 1, names[1] = "one";
    std::optional<int> found;
    std::ofstream("numbers.txt") << counts.size() << found.has_value();
    std::thread([] {}).join();
    for (int i : {1, 2, 3}) many[i] = *new (&many[i]) float(i);
    hipStream_t stream;
    hipEvent_t begin;
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    CHECK(hipStreamCreate(&stream));
    CHECK(hipEventCreate(&begin));
    CHECK(hipMalloc(&in, n * sizeof(float)));
    CHECK(hipMalloc((void **)&out, n * sizeof(float)));
    CHECK(hipMemcpyAsync(in, host, n * sizeof(float), hipMemcpyHostToDevice, stream));
    CHECK(hipEventRecord(begin, stream));
    hipLaunchKernelGGL(HIP_KERNEL_NAME(scale<float>), dim3(1), dim3(64), n * sizeof(float), stream, in, out, 2.0f, n);
    scale<float><<<1, 64, n * sizeof(float), stream>>>(in, out, 2.0f, n);
    CHECK(hipStreamSynchronize(stream));
    CHECK(hipFree(in));
    free(host);
    return EXIT_SUCCESS;
}
"""


def test_a_whole_program_of_plain_hip(tmp_path: Path) -> None:
    path = tmp_path / "scale.hip"
    path.write_text(HOST)
    x, out = np.random.default_rng(1).standard_normal(64).astype(np.float32), np.zeros(64, np.float32)
    outcome = emulate(
        from_source(path, "gfx942").code,
        args=[Buffer(x), Buffer(out), Scalar("f32", 2.0), Scalar("i32", 64)],
        grid=(1, 1, 1),
        block=(64, 1, 1),
        lds_bytes=256,
        watch=True,
    )
    assert outcome.findings == ()
    np.testing.assert_array_equal(out, 2 * x[::-1])


def test_a_file_without_a_kernel_says_so(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cpp"
    path.write_text("template <int N> __global__ void k(float *out) { out[0] = N; }\n")
    with pytest.raises(EmulateError, match="no kernel was compiled into it"):
        from_source(path, "gfx942")
