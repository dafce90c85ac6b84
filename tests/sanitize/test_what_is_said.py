"""Statements on a kernel are true: on equal values, null pointers, kernels that the compiler left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkgen.emulate import EmulateError
from tkgen.sanitize import Launch, Verdict, from_source, parse, sanitize
from tkgen.toolchain.compiler import ToolchainError


def watched(body: str, folder: Path, *arguments: str, parameters: str = "float *out", kernel: str = "k") -> Verdict:
    path = folder / "kernel.cpp"
    path.write_text(
        "#include <hip/hip_runtime.h>\n"
        f'extern "C" __global__ __launch_bounds__(128) void k({parameters}) {{ {body} }}\n'
        'extern "C" __global__ void other(float *out) { out[threadIdx.x] = 1; }\n'
    )
    launch = Launch((1, 1, 1), (128, 1, 1), parse(list(arguments)), kernel=kernel)
    return sanitize(from_source(path, "gfx942"), launch, schedules=2)


@pytest.mark.parametrize(
    ("body", "same"),
    [
        ("out[threadIdx.x % 64] = threadIdx.x % 64", True),
        # Byte 0 of 1.0f is that of 2.0f.
        ("out[threadIdx.x % 64] = 1 + threadIdx.x / 64", False),
        ("__shared__ float x[64]; int t = threadIdx.x % 64; x[t] = t; __syncthreads(); out[threadIdx.x] = x[t]", True),
        (
            "__shared__ float x[64]; int t = threadIdx.x % 64; x[t] = 1 + threadIdx.x / 64; __syncthreads(); "
            "out[threadIdx.x] = x[t]",
            False,
        ),
    ],
)
def test_two_writes_of_one_value(body: str, same: bool, tmp_path: Path) -> None:
    (found,) = watched(body + ";", tmp_path, "f32[128]=nan").diagnostics
    assert found.code == ("E701" if "shared" in body else "E706")
    assert found.message.endswith("the same value this time") is same


def test_a_null_pointer_is_asked_for(tmp_path: Path) -> None:
    fixes = [
        found.fix.text
        for argument in ("u64=0", "f32[64]")
        for found in watched("out[threadIdx.x + 3] = 1;", tmp_path, argument).diagnostics
        if found.code == "E703" and found.fix
    ]
    assert ["null" in fix for fix in fixes] == [True, False]


def test_a_kernel_without_instructions_is_not_its_neighbour(tmp_path: Path) -> None:
    """All of `k` is undefined, so that it is left out; what stands at its address is `other`."""
    body = "out[threadIdx.x] = 1; *(int *)0 = 1;"
    with pytest.raises(EmulateError, match="k has no instructions: whatever it is given"):
        watched(body, tmp_path, "f32[128]")
    assert watched(body, tmp_path, "f32[128]", kernel="other").diagnostics == ()
    alone = tmp_path / "alone.cpp"
    alone.write_text('extern "C" __global__ void k(float *out) { *(int *)0 = 1; }\n')
    with pytest.raises(EmulateError, match="k has no instructions"):
        from_source(alone, "gfx942")


def test_an_empty_kernel_ends(tmp_path: Path) -> None:
    assert watched("", tmp_path, "f32[128]").diagnostics == ()


def test_groups_of_a_grid_say_why_they_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cpp"
    path.write_text(
        "#include <hip/hip_cooperative_groups.h>\n"
        "__global__ void k(float *out) { auto all = cooperative_groups::this_grid(); all.sync(); }\n"
    )
    with pytest.raises(ToolchainError, match="blocks run one after another here"):
        from_source(path, "gfx942")
