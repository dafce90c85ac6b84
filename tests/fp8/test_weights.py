"""Weights of 8 bits: factors that are computed of what is stored, on their way from LDS to the product."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sampling import sample

import tkgen
from tkgen import Spec
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run

SPECS = Path(__file__).parents[2] / "specs" / "low_precision"
REMAP = "  remap xcd(8, chunk = 16) | group(rows = 4)\n"
LARGE = (SPECS / "w8.tk").read_text(encoding="utf-8").replace(REMAP, "")
DECODE = (SPECS / "w8_decode.tk").read_text(encoding="utf-8")


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
@pytest.mark.parametrize(("text", "sizes"), [(LARGE, (72, 136, 208)), (DECODE, (7, 72, 336))], ids=["large", "decode"])
def test_the_specs_under_many_interleavings(text: str, sizes: tuple[int, int, int], target: str, count: int) -> None:
    """Sizes that do not divide, of two and of three K-steps."""
    assert_right(text, dict(zip("MNK", sizes, strict=True)), target, count)


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("text", [LARGE, DECODE], ids=["large", "decode"])
def test_few_steps(text: str, steps: int) -> None:
    assert_right(text, {"M": 16, "N": 64, "K": 128 * steps}, "gfx942")


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_every_code_against_torch(target: str) -> None:
    """All 256 codes, in every place along K, with a scale and a zero point for each group: products with ones and
    zeros give the weights back."""
    m, n, k = 256, 128, 256
    build = tkgen.load(LARGE, {"M": m, "N": n, "K": k}, target).check().build()
    generator = torch.Generator().manual_seed(3)
    w = (torch.arange(n)[:, None] * 2 + torch.arange(k)[None, :]).remainder(256).sub(128).to(torch.int8)
    s, z = torch.rand(n, 2, generator=generator), torch.randint(-8, 8, (n, 2), generator=generator).float()
    found = tkgen.operator(build, f"w8_{target}")(torch.eye(k).bfloat16(), w, s, z)
    wide = s.repeat_interleave(128, 1) * (w.float() - z.repeat_interleave(128, 1))
    assert torch.equal(found, wide.bfloat16().T)


def test_some_blocks_of_the_kernel_as_shipped() -> None:
    build = tkgen.load(DECODE, {"N": 512, "K": 512}, "gfx942").check().build()
    assert isinstance(build.spec, Spec)
    assert run(build, [1, 7]).ok


WEIGHTS = """kernel weights
  dims M = 72, N = 136, K = 208, STEPS = ceil_div(K, 64), BATCH = 2
  global X : f16[BATCH, K, M]
  global W : i8[BATCH, N, K]
  global s : f32[BATCH, STEPS, N]
  global C : f32[BATCH, N, M]
  scalar zero : f32 = 3
  over b in BATCH, n in N by 64, m in M by 64
  tail masked
  waves 2 x 2
  CLAUSES
  allow slow_reads
  each k in K by 64
    w = f16((W[b, n, k] - zero) * s[b, k / 64, n] / 8)
    c = c + w @ X[b, k, m]
  C[b, n, m] = c
"""


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize(
    "clauses",
    sample(["shared W, X", "shared W buffers 2 via registers\n  shared X buffers 3", "shared W\n  registers X",
     "shared W, X\n  accumulate c : f32 tile 32 x 32 mfma 32 x 32"], 2),
)  # fmt: skip
def test_a_left_factor_of_f16_in_a_batch(clauses: str, target: str) -> None:
    assert_right(WEIGHTS.replace("CLAUSES", clauses), {}, target)


MISTAKES = {
    "not rounded": ("bf16(s[n, k / 128] * W[n, k])", "(s[n, k / 128] * W[n, k])", "E204"),
    "a scale for each element": ("s[n, k / 128] *", "S[n, k] *", "E230"),
    "another group": ("K by 128", "K by 64", "E22"),
    "a type that is not multiplied": ("bf16(s", "f16(s", "E204"),
    "not staged": ("shared A, W buffers 4 via registers", "shared A\n  registers W", "E230"),
    "direct": ("via registers", "via direct", "E230"),
    "a reduction": ("s[n, k / 128] * W", "rowsum(W[n, k]) * W", "E230"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_said_where_they_are(mistake: str) -> None:
    old, new, code = MISTAKES[mistake]
    text = DECODE.replace("  global W", "  global S : f32[N, K]\n  global W" if "S[" in new else "  global W")
    text = text.replace("  tail masked\n", "" if mistake == "direct" else "  tail masked\n")
    assert old in text
    with pytest.raises(SpecError) as caught:
        tkgen.load(text.replace(old, new), target="gfx950").check()
    found = caught.value.diagnostics[0]
    assert found.code.startswith(code) and found.primary.span is not None, str(caught.value)


def test_on_hopper_warps_of_the_producer_compute_tiles() -> None:
    text = DECODE.replace("  target gfx942, gfx950\n", "").replace(" via registers", "")
    assert "tk::fill(" in tkgen.load(text, target="sm_90a").check().text
