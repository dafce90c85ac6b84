"""The host side of a batch whose number of matrices only run time knows, on a fake runtime."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import pytest
from on_host import LINK_FLAGS, host_compile, needs_clang

from tkgen.api import load_products
from tkgen.execute.arguments import SizeError

HEADS = """kernel heads
  dims B = dynamic, H = dynamic, KV = dynamic, M = 64, N = 128, K = 64
  global Q : bf16[B, M, H, K]
  global P : bf16[B, N, KV, K]
  global S : f32[B, H, M, N]
  over b in B, h in H, m in M by 64, n in N by 64
  waves 4 along m
  shared Q, P
  each k in K by 32
    s = s + Q[b, m, h, k] @ P[b, n, h / 2, k].T
  S[b, h, m, n] = s
"""
# The sizes B, H and KV of each tensor are the program's arguments; it says what is launched, and what is cleared.
PROGRAM = """
#define TKGEN_STANDALONE
#include "heads.cpp"
#include <cstdio>
static size_t at(char **words, int i) { return size_t(std::atoll(words[i])); }
extern "C" char __hip_fatbin[1] = {};
extern "C" hipError_t hipLaunchKernel(const void *, dim3 grid, dim3, void **, size_t, hipStream_t) {
    std::printf("%u blocks", grid.x);
    return hipSuccess;
}
extern "C" hipError_t hipMemsetAsync(void *, int, size_t bytes, hipStream_t) {
    std::printf("%zu bytes cleared, ", bytes);
    return hipSuccess;
}
int main(int, char **words) {
    try {
        heads::dispatch({
            {nullptr, at(words, 1), nullptr, at(words, 2), nullptr},
            {nullptr, at(words, 3), nullptr, at(words, 4), nullptr},
            {nullptr, at(words, 5), at(words, 6), nullptr, nullptr},
            0,
        });
    } catch (const std::invalid_argument &error) {
        std::printf("%s", error.what());
    }
}
"""


PAST = 1 << 32  # an `int` made of this and 3 is 3


def program(folder: Path, text: str) -> Path:
    (folder / "heads.cpp").write_text(load_products(text).check().text)
    (folder / "main.cpp").write_text(PROGRAM)
    host_compile(folder, "main.cpp", *LINK_FLAGS, str(folder / "run"))
    return folder / "run"


def said(run: Path, *sizes: int) -> str:
    return subprocess.run([run, *map(str, sizes)], capture_output=True, text=True, check=True).stdout


def of(b: int, h: int, kv: int) -> tuple[int, ...]:
    return b, h, b, kv, b, h


@needs_clang
def test_the_host_takes_the_sizes_that_the_library_takes(tmp_path: Path) -> None:
    run, spec = program(tmp_path, HEADS), load_products(HEADS)
    sizes = (0, 1, 2, 3, 4, 1 << 20, 1 << 22, 1 << 24, 1 << 30)
    for b, h, kv in [*product(sizes, sizes[:6], (0, 1, 2)), *((b, 1 << 23, 1 << 22) for b in sizes)]:
        try:
            blocks = spec.launch({"B": b, "H": h, "KV": kv}).blocks
            expected = f"{blocks} blocks" if blocks else ""
        except SizeError as error:
            expected = str(error)
        assert said(run, *of(b, h, kv)) == expected, (b, h, kv)


@needs_clang
@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((3, 4, 2, 2, 3, 4), "heads: P and its partners differ in B"),
        ((3, 4, 3, 2, 3, 2), "heads: S and its partners differ in H"),
        ((-1, 4, -1, 2, -1, 4), "heads: B must be from 0 to 2147483647"),
        ((PAST + 3, 4, PAST + 3, 2, PAST + 3, 4), "heads: B must be from 0 to 2147483647"),
        ((3, 4, PAST + 3, 2, 3, 4), "heads: P and its partners differ in B"),
    ],
)
def test_tensors_of_different_batches(tmp_path: Path, sizes: tuple[int, ...], expected: str) -> None:
    assert said(program(tmp_path, HEADS), *sizes) == expected


@needs_clang
def test_what_blocks_add_to_is_cleared_for_all_matrices(tmp_path: Path) -> None:
    run = program(tmp_path, HEADS + "  grid stream_k(7)\n")
    assert said(run, *of(3, 4, 2)) == f"{3 * 4 * 64 * 128 * 4} bytes cleared, 7 blocks"
    assert said(run, *of(0, 4, 2)) == said(run, *of(3, 0, 0)) == ""


TWO = """kernel heads
  dims M = 128, N = 64, K = 96
  global X : bf16[M, K]
  global G : bf16[N, K]
  global U : bf16[N, K]
  global S : f32[M, N]
  global T : f32[M, N]
  over m in M by 64, n in N by 64
  waves 2 x 2
  grid split_k(3)
  shared X, G, U
  each k in K by 32
    g = g + X[m, k] @ G[n, k].T
    u = u + X[m, k] @ U[n, k].T
  S[m, n] = g
  T[m, n] = 2 * u
"""


@needs_clang
def test_all_outputs_to_which_blocks_add_are_cleared(tmp_path: Path) -> None:
    (tmp_path / "heads.cpp").write_text(load_products(TWO).check().text)
    nothing = "{nullptr, nullptr, nullptr, nullptr, nullptr}"
    start = PROGRAM.index("heads::dispatch({") + len("heads::dispatch({")
    text = PROGRAM[:start] + ", ".join([nothing] * 5) + ", 0});" + PROGRAM[PROGRAM.index("    } catch") :]
    (tmp_path / "main.cpp").write_text(
        text.replace("int main(int, char **words)", "int main()").replace(
            "static size_t at(char **words, int i) { return size_t(std::atoll(words[i])); }", ""
        )
    )
    host_compile(tmp_path, "main.cpp", *LINK_FLAGS, str(tmp_path / "run"))
    assert said(tmp_path / "run") == "32768 bytes cleared, 32768 bytes cleared, 6 blocks"
