"""Defaults of waves, roles, ways of tiles and buffers, on each kind of machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.targets import known_names

HEAD = """\
kernel gemm
  dims M = 1024, N = 1024, K = 512
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
"""
CLAUSES = HEAD + "  block {m} x {n} step 64\n  shared A, B\n  accumulate C : f32\n  store C\n"
EQUATIONS = (
    HEAD
    + """\
  over m in M by {m}, n in N by {n}
  shared A, B
  each k in K by 64
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = c
"""
)
CHAIN = """\
kernel attention
  dims HEADS = 2, LENGTH = 512, D = 64
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, LENGTH, D]
  global V : bf16[HEADS, LENGTH, D]
  global O : bf16[HEADS, LENGTH, D]
  over h in HEADS, q in LENGTH by 128
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in LENGTH by 64
    s = 0.18 * Q[h, q] @ K[h, j].T
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[h, q] = o / l
"""

ROWS = """\
kernel norm
  dims TOKENS = 512, D = 4096
  global X : bf16[TOKENS, D]
  global Y : bf16[TOKENS, D]
  over t in TOKENS by 4
  x = X[t]
  Y[t] = x * rsqrt(rowmean(x * x))
"""


def resolved(text: str, target: str, folder: Path) -> str:
    """The stage in which what was chosen is printed."""
    path = folder / "spec.tk"
    path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["check", str(path), "-t", target, "--print-after", "resolve"])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("target", known_names())
@pytest.mark.parametrize("form", [CLAUSES, EQUATIONS], ids=["clauses", "equations"])
@pytest.mark.parametrize("block", [(64, 64), (128, 128), (128, 256)], ids=str)
def test_a_spec_that_names_no_instruction_builds_for_every_machine(
    target: str, form: str, block: tuple[int, int]
) -> None:
    spec = load(form.format(m=block[0], n=block[1]), target=target).check()
    assert spec.text


@pytest.mark.parametrize("form", [CLAUSES, EQUATIONS], ids=["clauses", "equations"])
def test_what_is_chosen_is_printed(form: str, tmp_path: Path) -> None:
    text = form.format(m=128, n=256)
    grouped = resolved(text, "sm_90a", tmp_path)
    assert "role producer waves 0..3  loads A, B by 4" in grouped
    assert "role consumer waves 4..11  multiplies as 8 x 1  stores" in grouped
    assert "128 x 64 in 4 buffers via direct" in grouped and "1 x 1 of 16 x 256 f32" in grouped
    alone = resolved(text, "gfx942", tmp_path)
    assert "role waves 0..3  multiplies as 2 x 2" in alone and "2 x 4 of 32 x 32 f32" in alone
    assert "128 x 64 in 1 buffers via collective" in alone


@pytest.mark.parametrize(("target", "waves"), [("sm_90a", 8), ("gfx942", 4), ("gfx950", 4)])
def test_waves_of_fused_matmuls_follow_from_the_tile(target: str, waves: int, tmp_path: Path) -> None:
    found = resolved(CHAIN, target, tmp_path)
    assert f"waves {waves} along q" in found
    way = "2 buffers via direct" if target == "sm_90a" else "1 buffers via collective"
    assert f"shared K  in {way}" in found and f"shared V  in {way}" in found


def test_waves_that_are_written_are_those_that_multiply(tmp_path: Path) -> None:
    text = CLAUSES.format(m=128, n=128).replace("  shared", "  waves 8\n  shared")
    assert "role consumer waves 4..11  multiplies as 8 x 1" in resolved(text, "sm_90a", tmp_path)
    with pytest.raises(SpecError, match="a wave's sums are 2 x 1 fragments"):
        load(text.replace("waves 8", "waves 4"), target="sm_90a").check()


def test_one_number_of_buffers_is_that_of_the_other_operand(tmp_path: Path) -> None:
    text = CLAUSES.format(m=128, n=128).replace("  shared A, B", "  shared A buffers 3\n  shared B")
    assert resolved(text, "sm_90a", tmp_path).count("in 3 buffers via direct") == 2


@pytest.mark.parametrize(("block", "waves"), [((16, 16), 1), ((32, 32), 4), ((256, 256), 8)])
def test_waves_on_their_own_are_as_many_as_tiles_and_registers_allow(
    block: tuple[int, int], waves: int, tmp_path: Path
) -> None:
    text = CLAUSES.format(m=block[0], n=block[1])
    assert f"step 64  waves {waves}\n" in resolved(text, "gfx950", tmp_path)


def test_too_many_registers_of_waves_that_nobody_wrote_are_said_of_the_kernel() -> None:
    text = CHAIN.replace("D = 64", "D = 256").replace("q in LENGTH by 128", "q in LENGTH by 512")
    with pytest.raises(SpecError, match="a wave needs at least") as error:
        load(text, target="gfx950").check()
    found = error.value.diagnostics[0].primary
    assert found is not None and found.span.text == "attention"


@pytest.mark.parametrize("target", known_names())
def test_rows_have_four_waves(target: str) -> None:
    spec, written = (load(text, target=target) for text in (ROWS, ROWS.replace("by 4\n", "by 4\n  waves 4\n")))
    assert not spec.check().diagnostics and spec.program.waves == written.program.waves == 4
