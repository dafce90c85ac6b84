"""The passes over equations: a reduction that is written twice is computed once, and nothing else changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.cli import app
from tkgen.ir import passes
from tkgen.ir.passes.common_reductions import Expressions
from tkgen.ir.verifier import Broken
from tkgen.pipeline import PRINTED, SIMPLIFY, Request, run, text_of

HEAD = """kernel a
  dims ROWS = 8, D = 512
  global X : f32[ROWS, D]
  global Y : f32[ROWS, D]
  global Z : f32[ROWS, D]
  over r in ROWS by 1
  waves 4
"""
TWICE = "  Y[r] = X[r] / rowsum(X[r] * X[r])\n  Z[r] = X[r] + rowsum(X[r] * X[r])\n"
ATTENTION = """kernel a
  dims H = 1, L = 256, D = 64
  global Q : bf16[H, L, D]
  global K : bf16[H, L, D]
  global V : bf16[H, L, D]
  global O : f32[H, L, D]
  over h in H, q in L by 128
  waves 4 along q
  shared K, V buffers 2
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in L by 64
    s = Q[h, q] @ K[h, j].T
    n = max(m, rowmax(s))
    r = exp(m - n)
    l = l * r + rowsum(exp(s - max(m, rowmax(s))))
    o = o * r + bf16(exp(s - n)) @ V[h, j]
    m = n
  O[h, q] = o / l
"""


def reductions(text: str) -> int:
    """The reductions that are left after all passes."""
    return len(re.findall(r"= (?:sum|max|min) over", text_of("simplify", Request("a.tk", text=text))))


def test_the_folder_has_the_passes_of_the_list() -> None:
    files = {path.stem for path in Path(passes.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == set(passes.PASSES) <= set(PRINTED)


@pytest.mark.parametrize("target", ["gfx942", "sm_90a"])
def test_a_reduction_written_twice_is_computed_once(tmp_path: Path, target: str) -> None:
    """Waves exchange one number, and the kernel computes what torch does."""
    text, path = HEAD + TWICE, tmp_path / "a.tk"
    path.write_text(text, encoding="utf-8")
    once = HEAD + "  q = rowsum(X[r] * X[r])\n  Y[r] = X[r] / q\n  Z[r] = X[r] + q\n"
    written, named = (text_of("schedule", Request("a.tk", text=t, target=target)) for t in (text, once))
    plain = [re.sub(r"%[0-9]+(\.q)?", "%", schedule) for schedule in (written, named)]
    assert plain[0] == plain[1] and "shared store % to" in plain[0]
    result = CliRunner().invoke(app, ["run", str(path), "-t", target])
    assert result.exit_code == 0, result.output


def test_a_loop_has_its_reductions_once(tmp_path: Path) -> None:
    assert ATTENTION.count("rowmax") == 2 and reductions(ATTENTION) == 2  # the other one is a sum
    path = tmp_path / "a.tk"
    path.write_text(ATTENTION, encoding="utf-8")
    result = CliRunner().invoke(app, ["run", str(path)])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    "second",
    [
        "rowmax(X[r] * X[r])", "rowsum(X[r] + X[r])", "rowsum(X[r] * 2.0)", "rowsum(bf16(X[r] * X[r]))",
        "rowsum(X[r] * -X[r])",
    ],
)  # fmt: skip
def test_others_stay(second: str) -> None:
    assert reductions(HEAD + TWICE.replace("+ rowsum(X[r] * X[r])", f"+ {second}")) == 2


def test_zeros_have_signs() -> None:
    text = "  Y[r] = X[r] * rowmax(X[r] * 0.0)\n  Z[r] = X[r] * rowmax(X[r] * -0.0)\n"
    assert reductions(HEAD + text) == 2
    assert reductions(HEAD + text.replace("-0.0", "0.0")) == 1


def test_a_reduction_with_a_name_stays() -> None:
    assert reductions(HEAD + "  a = rowmax(X[r])\n  b = rowmax(X[r])\n  Y[r] = X[r] + a\n  Z[r] = X[r] + b\n") == 2
    assert reductions(HEAD + "  a = rowmax(X[r])\n  Y[r] = X[r] + a\n  Z[r] = X[r] + rowmax(X[r])\n") == 1


@pytest.mark.parametrize("text", [HEAD + TWICE.replace("+ rowsum", "+ rowmax"), ATTENTION], ids=["rows", "loop"])
def test_a_pass_that_changes_what_is_stored_is_caught(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expressions that do not tell a sum from a maximum, or values from each other, share what is not the same."""
    monkeypatch.setattr(Expressions, "expression", lambda self, op: type(op))
    with pytest.raises(Broken, match=r"after common_reductions: .* breaks the rule `the same stores`"):
        run(Request("a.tk", text=text), SIMPLIFY)


def test_a_warning_names_what_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "a.tk"
    path.write_text(HEAD + "  dead = rowsum(X[r])\n" + TWICE, encoding="utf-8")
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 0 and "W502" in result.output and "`dead` is never used" in result.output
