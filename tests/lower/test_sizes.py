"""Sizes at the ends of what the generated arithmetic can count: right, or refused with the sizes."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from lowering import compiled, gemm, lowered
from on_host import host_compile, needs_clang
from planning import planned

from tkgen.checks.families import check
from tkgen.emulate import Buffer, Scalar, Struct, launch
from tkgen.execute.arguments import SizeError, check_requirements
from tkgen.ir.limits import requirements
from tkgen.targets import load_target

STREAM_K = """
kernel t
  dims M = {m}, N = {n}, K = {k}
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block {block}
  grid stream_k({blocks})
  waves {waves}
  shared A, B buffers 1
  accumulate C : f32 tile 16 x 16
  store C
"""
CUBE = {"k": 65536, "block": "64 x 64 step 32", "blocks": 304, "waves": "2 x 2"}
ONE_BF16 = 0x3F80
MAP_NORESERVE = 0x4000  # of Linux; the module names it from Python 3.13 on


def codes(text: str) -> list[tuple[str, str]]:
    """The codes and messages of what is found in a spec."""
    return [(d.code, d.message) for d in check(planned(text), load_target("gfx942"))]


def sparse(rows: int, cols: int, dtype: type[np.generic]) -> np.ndarray[tuple[int, int], np.dtype[np.generic]]:
    """Zeros that take memory only where they are touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    memory = mmap.mmap(-1, rows * cols * np.dtype(dtype).itemsize, flags=flags)
    return np.frombuffer(memory, dtype).reshape(rows, cols)


@pytest.mark.parametrize("size", ["dynamic", "65536"])
def test_stream_k_sums_every_step_where_there_are_more_than_an_int_counts(size: str) -> None:
    """4096 x 4096 tiles of 128 steps each are 2^31 K-steps: 33554432 runs of 64."""
    text = STREAM_K.format(m=size, n=size, k=2048, block="16 x 16 step 16", blocks=1 << 25, waves="1")
    code = compiled(lowered(text)).hsaco
    a, b, c = sparse(65536, 2048, np.uint16), sparse(65536, 2048, np.uint16), sparse(65536, 65536, np.float32)
    a[[0, -1]] = b[[0, -1]] = ONE_BF16
    extents = [[], [], []] if size != "dynamic" else [[65536], [65536], [65536, 65536]]
    fields = [
        f
        for tensor, dims in zip((a, b, c), extents, strict=True)
        for f in (Buffer(tensor), *(Scalar("u64", d) for d in dims))
    ]
    arguments = [Struct([*fields, Scalar("u64", 0)])]
    ends = [0, 1, (1 << 25) - 2, (1 << 25) - 1]  # two runs make the first tile, two the last
    launch(code, grid=(1 << 25, 1, 1), block=(64, 1, 1), args=arguments, blocks=ends)
    for tile in (c[:16, :16], c[-16:, -16:]):
        assert np.count_nonzero(tile) == 1
    assert c[0, 0] == c[-1, -1] == 2048


@pytest.mark.parametrize("size", ["dynamic", "65536"])
def test_stream_k_of_a_cube_of_65536_compiles_and_counts_in_64_bits(size: str) -> None:
    text = lowered(STREAM_K.format(m=size, n=size, **CUBE))
    assert "int64_t ALL_STEPS = int64_t(" in text
    assert compiled(text).hsaco


def test_stream_k_counts_in_an_int_where_that_will_do() -> None:
    text = lowered(STREAM_K.format(m=32768, n=16384, **CUBE))
    assert "constexpr int ALL_STEPS" in text and "int64_t" not in text.partition("__global__")[2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (gemm(shape="M = 2147483647, N = 256, K = 256", body="  tail masked\n"), "M = 2147483647 cannot be counted"),
        (gemm(shape="M = 256, N = 67108864, K = 256"), "32 rows of `C` span 8589934592 bytes"),
        (
            gemm(shape="M = 2147483520, N = 128, K = 32", body="  epilogue bias(V)\n").replace(
                "  global C", "  global V : f32[M]\n  global C"
            ),
            "`V` span 8589934080 bytes",
        ),
        (gemm(shape="M = 1048576, N = 4194304, K = 256"), "8192 x 32768 output tiles are more than a kernel can "
                                                          "number"),
        (
            gemm(body="  grid split_k(8)\n", shape="M = 131072, N = 524288, K = 256"),
            "1024 x 4096 output tiles are more than a kernel can number",
        ),
        (gemm(body="  grid persistent(16777216)\n"), "16777216 blocks of 256 threads cannot be launched"),
        (
            gemm(body="  grid persistent(4194304)\n", block="32 x 32 step 32", waves="  waves 1\n",
                 shape="M = 2097152, N = 1073676288, K = 32"),
            "65536 x 33552384 output tiles are more than a kernel can number",
        ),
    ],
)  # fmt: skip
def test_static_sizes_beyond_the_arithmetic_are_refused(text: str, said: str) -> None:
    assert ("E607", said) in codes(text)


@pytest.mark.parametrize(
    "text",
    [
        gemm(shape="M = 2147483519, N = 128, K = 256", body="  tail masked\n"),
        gemm(shape="M = 256, N = 16777088, K = 256"),
        gemm(body="  grid persistent(16777215)\n"),
        gemm(shape="M = 524288, N = 524160, K = 256"),
    ],
)
def test_static_sizes_within_it_are_not(text: str) -> None:
    assert [found for found in codes(text) if found[0] == "E607"] == []


CLAMPED = gemm(
    shape="M = dynamic, N = dynamic, K = 64", a="K, M", b="K, N", block="64 x 64 step 32",
    body="  tail clamped\n  allow slow_reads\n",
)  # fmt: skip
DYNAMIC = gemm(shape="M = dynamic, N = dynamic, K = dynamic", body="  tail masked\n")


@pytest.mark.parametrize(
    ("text", "extents", "said"),
    [
        (CLAMPED, (100, 104, 64), "M must be a multiple of 8: `tail clamped` reads rows of A in chunks"),
        (CLAMPED, (104, 100, 64), "N must be a multiple of 8: `tail clamped` reads rows of B in chunks"),
        (DYNAMIC, (0, 1, 1), "M must be from 1 to 2147483520"),
        (DYNAMIC, ((1 << 32) + 64, 1, 1), "M must be from 1 to 2147483520"),
        (DYNAMIC, (1, 1 << 24, 1), "N must be from 1 to 16777214"),
        (DYNAMIC, (1, 1, 1 << 23), "K must be from 1 to 8388607"),
        (DYNAMIC, (1 << 30, 1 << 20, 1), "M and N must make at most 16777215 output tiles"),
    ],
)
def test_dynamic_sizes_beyond_it_are_refused_at_run_time(text: str, extents: tuple[int, ...], said: str) -> None:
    plan = planned(text)
    needed = requirements(plan.program, plan.shape.unroll, plan.shape.tail_iterations)
    with pytest.raises(SizeError, match=said.replace("`", ".")):
        check_requirements(plan.program, needed, dict(zip("MNK", extents, strict=True)))
    assert f'throw std::invalid_argument("gemm: {said}");' in lowered(text)


@needs_clang
@pytest.mark.parametrize("sizes", [("dynamic", 64, 64), (64, "dynamic", 64), (64, 64, "dynamic")])
def test_no_size_is_asked_for_that_the_kernel_does_not_name(sizes: tuple[int | str, ...], tmp_path: Path) -> None:
    """Compilers warn of it."""
    m, n, k = sizes
    for grid in ("linear", "persistent(4)", *(("stream_k(4)", "split_k(2)") if k != "dynamic" else ())):
        text = f"""kernel t
  dims M = {m}, N = {n}, K = {k}
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  over m in M by 32, n in N by 32
  grid {grid}
  waves 1
  shared A, B
  each k in K by 32
    s = s + A[m, k] @ B[n, k].T
  C[m, n] = s
"""
        (tmp_path / "t.cpp").write_text(lowered(text))
        host_compile(tmp_path, "t.cpp", "-DTKGEN_STANDALONE", "-fsyntax-only")


def test_an_addend_is_read_element_by_element_so_its_rows_may_be_ragged() -> None:
    text = gemm(shape="M = 100, N = 97, K = 64", body="  tail clamped\n  epilogue add(D)\n")
    assert codes(text.replace("  global C", "  global D : bf16[M, N]\n  global C")) == []
