"""Products that are scaled step by step: scales of blocks along the contraction."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tkgen
from tkgen import Spec
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run

SPECS = Path(__file__).parents[2] / "specs" / "low_precision"
SPEC = (SPECS / "fp8_blocks.tk").read_text(encoding="utf-8")
REMAP = "  remap xcd(8, chunk = 16) | group(rows = 4)\n"


def assert_right(text: str, sizes: dict[str, int | None], target: str, count: int = 2) -> None:
    """Under `count` interleavings, with exact and with other inputs."""
    build = tkgen.load(text, sizes, target).check().build()
    assert isinstance(build.spec, Spec)
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    for number, order in enumerate(interleavings(count)):
        ran = run(build, order=order, kind=(Inputs.EXACT, Inputs.NORMAL)[number % 2], seed=number, workers=2)
        assert ran.ok, f"{order}: {ran.failure}"


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_the_spec_under_many_interleavings(target: str, count: int) -> None:
    assert_right(SPEC, {"M": 256, "N": 128, "K": 384}, target, count)


@pytest.mark.parametrize("steps", [1, 2])
def test_few_steps(steps: int) -> None:
    assert_right(SPEC.replace(REMAP, ""), {"M": 128, "N": 256, "K": 128 * steps}, "gfx942")


def test_against_torch() -> None:
    """A reference that unfolds the blocks."""
    m, n, k = 128, 256, 512
    build = tkgen.load(SPEC, {"M": m, "N": n, "K": k}, "gfx950").check().build()
    generator = torch.Generator().manual_seed(5)
    a, b = (torch.randn(size, k, generator=generator).to(torch.float8_e4m3fn) for size in (m, n))
    s, t = torch.rand(m, k // 128, generator=generator), torch.rand(n // 128, k // 128, generator=generator)
    found = tkgen.operator(build, "fp8_blocks_950")(a, b, s, t)
    whole_a = a.double() * s.double().repeat_interleave(128, 1)
    whole_b = b.double() * t.double().repeat_interleave(128, 0).repeat_interleave(128, 1)
    torch.testing.assert_close(found.double(), whole_a @ whole_b.T, rtol=2**-7, atol=2**-7)


def test_some_blocks_of_the_kernel_as_shipped() -> None:
    build = tkgen.load(SPEC, {"M": 512, "N": 384, "K": 256}, "gfx942").check().build()
    assert isinstance(build.spec, Spec)
    assert run(build, [1, 7]).ok


GEMM = """kernel scaled
  dims M = 200, N = 136, K = 208, STEPS = ceil_div(K, 64), TILES = ceil_div(N, 64), BATCH = 2
  global A : bf16[BATCH, M, K]
  global B : bf16[N, K]
  global s : f32[STEPS, M]
  global t : bf16[BATCH, TILES, STEPS]
  global C : f32[BATCH, M, N]
  scalar alpha : f32 = 0.5
  over b in BATCH, m in M by 64, n in N by 64
  tail masked
  waves 2 x 2
  shared A, B CLAUSES
  each k in K by 64
    c = c + SCALED
  C[b, m, n] = c
"""


@pytest.mark.parametrize("clauses", ["buffers 1", "buffers 2", "via registers", "buffers 3"])
def test_other_tensors_sizes_and_schedules(clauses: str) -> None:
    """Scales stored with the steps first, a batch, f32 and bf16 ones, sizes that do not divide."""
    scaled = "alpha * (A[b, m, k] @ B[n, k].T) * s[k / 64, m] + t[b, n / 64, k / 64]"
    assert_right(GEMM.replace("CLAUSES", clauses).replace("SCALED", f"({scaled})"), {}, "gfx942")


def test_register_buffers_and_two_sums() -> None:
    text = GEMM.replace("CLAUSES", "buffers 2\n  registers A, B buffers 2").replace(
        "SCALED", "s[k / 64, m] * A[b, m, k] @ B[n, k].T\n    d = d + t[b, n / 64, k / 64] * A[b, m, k] @ B[n, k].T"
    )
    assert_right(text.replace("= c\n", "= c - alpha * d\n"), {}, "gfx950")


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("K_BLOCKS = K / 128", "K_BLOCKS = K / 64", "E223", "`k / 128` does not run over `K_BLOCKS` of `s`"),
        ("K_BLOCKS = K / 128", "K_BLOCKS = 1 + K / 128", "E223", "`k / 128` does not run over `K_BLOCKS` of `s`"),
        ("s[m, k / 128]", "s[m, k / 64]", "E223", "`k / 64` is not the number of a tile of `k`"),
        ("s[m, k / 128]", "s[m / 128, k / 128]", "E223", "`m / 128` does not run over `M` of `s`"),
        ("s[m, k / 128]", "s[m, k]", "E223", "`k` runs over `K`, this dimension of `s` is `K_BLOCKS`"),
        ("  each k", "  carry c : f32[m, n] = 1\n  each k", "E230", "must start at zero"),
        ("/ 128] * p", "/ 128] * p * (A[m, k] @ B[n, k].T)", "E230", "is not a sum of products"),
        ("shared A, B", "shared A, B\n  registers A, B slice 64", "E230", "scales the products of complete K-steps"),
        ("fp8[", "i8[", "E230", "scales products of i8, which has no schedule yet"),
    ],
)
def test_mistakes(old: str, new: str, code: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as raised:
        tkgen.load(SPEC.replace(old, new)).check()
    assert {d.code for d in raised.value.diagnostics} == {code}


def test_a_product_of_sixteen_passes_is_read_late_enough() -> None:
    """The compiler looks back over nineteen instructions, and gfx950 needs twenty wait states (found by the fuzz)."""
    built = tkgen.load("""kernel late
  target gfx950
  dims M = 127, N = 127, K = 448, STEPS = 7, TILES = 2
  global A : fp8[M, K]
  global B : fp8[N, K]
  global C : f32[M, N]
  global s : bf16[M, STEPS]
  global t : bf16[TILES, STEPS]
  over m in M by 64, n in N by 64
  waves 1 x 2
  registers A, B buffers 3
  tail masked
  accumulate c : f32 tile 32 x 32 interleaved mfma 32 x 32
  each k in K by 64
    c = c + ((A[m, k] @ B[n, k].T) * s[m, k / 64]) * t[n / 64, k / 64]
  C[m, n] = c
""").build()
    assert built.machine_check.outcome == "right"
