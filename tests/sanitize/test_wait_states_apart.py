"""Too few wait states are told apart from races: by the exit code, the last line, and their place in the list."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.cli import app

KERNELS = """
#include <hip/hip_runtime.h>
extern "C" __global__ __launch_bounds__(128) void early(const float *in, float *out) {
  float x = in[threadIdx.x];
  asm volatile("v_exp_f32 %0, %0\\n v_mul_f32 %0, %0, %0" : "+v"(x));
  out[threadIdx.x] = x;
}
extern "C" __global__ __launch_bounds__(128) void races(const float *in, float *out) {
  __shared__ float tile[128];
  float x = in[threadIdx.x];
  asm volatile("v_exp_f32 %0, %0\\n v_mul_f32 %0, %0, %0" : "+v"(x));
  tile[threadIdx.x] = x;
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
extern "C" __global__ __launch_bounds__(128) void right(const float *in, float *out) {
  out[threadIdx.x] = in[threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("kernel", "status", "last"),
    [
        ("right", 0, ": no findings;"),
        ("early", 4, ": no findings, and 1 of too few wait states (E714, whatever runs);"),
        ("races", 1, ": 1 finding, and 1 of too few wait states (E714, whatever runs);"),
    ],
)
def test_exit_codes_and_counts(tmp_path: Path, kernel: str, status: int, last: str) -> None:
    (tmp_path / "kernel.hip").write_text(KERNELS)
    (tmp_path / "arguments.txt").write_text("f32[128]=randn\nf32[128]=nan:out\n")
    options = ["--grid", "1", "--block", "128", "--kernel", kernel, "--args", str(tmp_path / "arguments.txt")]
    shown = CliRunner().invoke(app, ["sanitize", str(tmp_path / "kernel.hip"), *options, "--schedules", "2"])
    assert shown.exit_code == status, shown.output
    assert last in shown.output
    if kernel == "races":
        assert shown.output.index("error[E701]") < shown.output.index("error[E714]")
