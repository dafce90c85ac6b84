"""The host side of a sequence of kernels, and of one of rows, on a fake runtime: what is checked before a launch."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from on_host import LINK_FLAGS, host_compile, needs_clang

from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.execute.arguments import SizeError
from tkgen.ir.launch import Launch

LATE = """sequence late
dims M = dynamic, N = 64, K = 64
global X : f32[M, K]
global T : bf16[M, K]
global W : bf16[N, K]
global Y : f32[M, N]
kernel halve
  over m in M by 4
  waves 1
  T[m] = X[m] / 2
kernel multiply
  over m in M by 64, n in N by 64
  remap group(rows = 2)
  waves 2 x 2
  shared T, W
  each k in K by 32
    s = s + T[m, k] @ W[n, k].T
  Y[m, n] = s
"""
APART = """sequence apart
dims M = dynamic
global X : f32[M]
global T : f32[M]
global Z : f32[M]
global Y : f32[M]
kernel first
  over m in M by 64
  waves 1
  T[m] = X[m] / 2
kernel second
  over m in M by 64
  waves 1
  Y[m] = Z[m] * 2
"""
# The sizes of the tensors' first dimension are the program's arguments; it says how many kernels were launched.
PROGRAM = """
#define TKGEN_STANDALONE
#include "{name}.cpp"
#include <cstdio>
static int launches = 0;
extern "C" char __hip_fatbin[1] = {{}};
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t) {{
    ++launches;
    return hipSuccess;
}}
int main(int, char **sizes) {{
    try {{
        {name}::dispatch({{ {arguments}, 0 }});
    }} catch (const std::invalid_argument &error) {{
        std::printf("%s; ", error.what());
    }}
    std::printf("%d launched", launches);
}}
"""


def program(folder: Path, text: str, arguments: str) -> Path:
    spec = load(text).check()
    (folder / f"{spec.name}.cpp").write_text(spec.text)
    (folder / "main.cpp").write_text(PROGRAM.format(name=spec.name, arguments=arguments))
    host_compile(folder, "main.cpp", *LINK_FLAGS, str(folder / "run"))
    return folder / "run"


def said(run: Path, *sizes: int) -> str:
    return subprocess.run([run, *map(str, sizes)], capture_output=True, text=True, check=True).stdout


def vector(at: int) -> str:
    return f"{{nullptr, nullptr, nullptr, nullptr, size_t(std::atoll(sizes[{at}]))}}"


@needs_clang
def test_all_sizes_are_checked_before_the_first_launch(tmp_path: Path) -> None:
    rows = "{{nullptr, nullptr, nullptr, size_t(std::atoll(sizes[{}])), nullptr}}"
    weights = "{nullptr, nullptr, nullptr, nullptr, nullptr}"
    arguments = ", ".join([rows.format(1), rows.format(2), weights, rows.format(3)])
    run = program(tmp_path, LATE, arguments)
    assert said(run, 128, 128, 128) == "2 launched"
    assert said(run, 100, 100, 100) == "multiply: M must be a multiple of 64; 0 launched"
    assert said(run, 128, 64, 64) == "halve: T and its partners differ in M; 0 launched"
    assert said(run, 128, 128, 192) == "multiply: Y and its partners differ in M; 0 launched"
    assert said(run, 0, 0, 0).startswith("halve: M must be from 1 to ")


@needs_clang
def test_kernels_that_share_no_tensor_have_the_same_sizes(tmp_path: Path) -> None:
    run = program(tmp_path, APART, ", ".join(map(vector, (1, 2, 3, 4))))
    assert said(run, 65, 65, 65, 65) == "2 launched"
    for size in (66, (1 << 32) + 65):
        assert said(run, 65, 65, size, size) == "apart: Z and X differ in M; 0 launched"


@needs_clang
def test_a_kernel_of_rows_refuses_sizes_that_it_cannot_do(tmp_path: Path) -> None:
    text = "kernel doubled\n  dims M = dynamic\n  global X : f32[M]\n  global Y : f32[M]\n"
    text += "  over m in M by 4\n  waves 1\n  Y[m] = X[m] * 2\n"
    run = program(tmp_path, text, ", ".join(map(vector, (1, 2))))
    assert said(run, 65, 65) == "1 launched"
    assert said(run, 65, 64) == "doubled: Y and its partners differ in M; 0 launched"
    for size in (0, 1 << 30, (1 << 32) + 65):
        assert said(run, size, size) == "doubled: M must be from 1 to 1073741822; 0 launched"
        with pytest.raises(SizeError, match="M must be from 1 to 1073741822"):
            row_launch_of(text, size)
    assert said(run, 65, (1 << 32) + 65) == "doubled: Y and its partners differ in M; 0 launched"
    assert said(run, 1 << 29, 1 << 29) == "doubled: there must be at most 67108863 blocks; 0 launched"
    with pytest.raises(SizeError, match="there must be at most 67108863 blocks"):
        row_launch_of(text, 1 << 29)


@needs_clang
def test_a_tile_is_within_what_its_offsets_reach(tmp_path: Path) -> None:
    text = "kernel turned\n  dims M = dynamic, N = 64\n  global X : f32[N, M]\n  global Y : f32[M, N]\n"
    text += "  over m in M by 64, n in N by 64\n  waves 4\n  Y[m, n] = X[n, m]\n"
    matrix = "{{nullptr, nullptr, nullptr, {}}}"
    size = "size_t(std::atoll(sizes[1]))"
    run = program(tmp_path, text, ", ".join(map(matrix.format, (f"nullptr, {size}", f"{size}, nullptr"))))
    most = (0x7FFFFF00 // 4 - 64) // 63  # 63 rows of X, and 64 elements
    assert said(run, most) == "1 launched" and row_launch_of(text, most)
    assert said(run, most + 1) == "turned: a tile of X spans more than 2147483392 bytes; 0 launched"
    with pytest.raises(SizeError, match="turned: a tile of X spans more than 2147483392 bytes"):
        row_launch_of(text, most + 1)


@needs_clang
def test_places_that_share_one_of_another_dimension(tmp_path: Path) -> None:
    text = "kernel shared\n  dims M = dynamic, G = dynamic, D = 64\n  global X : f32[M, D]\n  global W : f32[G, D]\n"
    text += "  over m in M\n  waves 1\n  X[m] = X[m] * W[m / 4]\n"
    matrix = "{{nullptr, nullptr, nullptr, size_t(std::atoll(sizes[{}])), nullptr}}"
    run = program(tmp_path, text, ", ".join(map(matrix.format, (1, 2))))
    assert said(run, 8, 2) == "1 launched"
    for m, g in ((8, 3), (7, 2)):
        assert said(run, m, g) == "shared: G must be M / 4; 0 launched"
        with pytest.raises(SizeError, match="shared: G must be M / 4"):
            row_launch_of(text, m, G=g)


def row_launch_of(text: str, size: int, **others: int) -> Launch[Any]:
    spec = load(text)
    assert isinstance(spec, Spec)
    return spec.launch({"M": size, **others})
