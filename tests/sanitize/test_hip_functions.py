"""Functions of HIP's headers that plain kernels use, and what they compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tkgen.emulate import Buffer, EmulateError
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
    "__shfl(x, 3)": X[WAVE + 3],
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
}


def test_device_functions(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cpp"
    lines = "".join(f"    out[{THREADS} * {i} + t] = {text};\n" for i, text in enumerate(VALUES))
    path.write_text(
        "#include <hip/hip_runtime.h>\n#include <algorithm>\n"
        f"__global__ __launch_bounds__({THREADS}) void k(const int *in, int *out, int *sums) {{\n"
        f"    const int t = threadIdx.x, x = in[t];\n{lines}}}\n"
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


def test_a_file_without_a_kernel_says_so(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cpp"
    path.write_text("template <int N> __global__ void k(float *out) { out[0] = N; }\n")
    with pytest.raises(EmulateError, match="no kernel was compiled into it"):
        from_source(path, "gfx942")
