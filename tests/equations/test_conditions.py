"""`when any`: definitions for the tiles that have an element of which a condition is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tkgen import api, run
from tkgen.diagnostics import SpecError
from tkgen.execute.compare import compare
from tkgen.ir.computation import compute
from tkgen.ir.deciding import decided
from tkgen.ir.equation_text import to_text
from tkgen.ir.equations import Kernel, When, walk
from tkgen.ir.meaning import evaluate
from tkgen.ir.rounding import TORCH
from tkgen.ir.typing import typed
from tkgen.ir.verifier import verify
from tkgen.source import SourceFile
from tkgen.syntax.format import format_source
from tkgen.syntax.parser import parse_text

torch = pytest.importorskip("torch")

LAZY = """kernel lazy
  dims LENGTH = 256, D = 32
  global Q : bf16[LENGTH, D]
  global K : bf16[LENGTH, D]
  global V : bf16[LENGTH, D]
  global O : f32[LENGTH, D]
  over q in LENGTH by 128
  waves 4 along q
  carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0
  each j in LENGTH by 64
    s = Q[q] @ K[j].T
    n = max(m, rowmax(s))
    r = exp2((m - n) * LOG2E)
    when any(r < LEAST)
      l = l * r
      o = o * r
      m = n
    p = exp2((s - m) * LOG2E)
    l = l + rowsum(p)
    o = o + bf16(p) @ V[j]
  O[q] = o / l
"""
ROWS = """kernel rows
  dims R = 12, D = 8
  global X : f32[R, D]
  global Y : f32[R, D]
  over t in R by 4
  waves 4 along t
  x = X[t]
  y = x
  when any(x > 2)
    z = x * 10
    y = z + 1
  Y[t] = y
"""


SUMS = """kernel sums
  dims M = 256, N = 256, K = 128
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  over m in M by 128, n in N by 128
  waves 2 x 2
  shared A, B
  each k in K by 64
    c = c + A[m, k] @ B[n, k].T
  when any(c > 4)
    c = c * 0.5
  C[m, n] = c
"""


def kernel(text: str) -> Kernel:
    return typed(parse_text(text)).kernel


def inputs(scale: float) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    shape = (256, 32)
    return {n: (torch.randn(shape, generator=generator) * scale).bfloat16() for n in ("Q", "K", "V")}


@pytest.mark.parametrize("least", ["0.00390625", "2", "1e-30"], ids=["lazy", "always", "hardly ever"])
@pytest.mark.parametrize("scale", [1.0])
def test_a_rescaling_that_is_left_out_where_it_is_not_needed_changes_nothing(least: str, scale: float) -> None:
    given = inputs(scale)
    q, k, v = (given[n].double() for n in ("Q", "K", "V"))
    expected = torch.softmax(q @ k.T, -1) @ v
    lazy = kernel(LAZY.replace("LEAST", least))
    found = evaluate(lazy, given)["O"]
    assert (found.value - expected).abs().max() < 0.02 * expected.abs().max()  # the products take bf16
    off = (compute(lazy, given)["O"].double() - found.value).abs()
    assert (off <= found.bound).all()


def test_each_tile_decides_for_itself_and_as_a_whole() -> None:
    x = torch.zeros(12, 8)
    x[5, 3] = 3.0  # of the second tile of four rows
    found = evaluate(kernel(ROWS), {"X": x})["Y"]
    expected = x.clone()
    expected[4:8] = expected[4:8] * 10 + 1
    assert torch.equal(found.value, expected.double())
    assert torch.equal(compute(kernel(ROWS), {"X": x})["Y"], expected)


def test_a_tile_that_hangs_over_the_end_is_asked_for_what_it_has() -> None:
    x = torch.full((10, 8), 1.0)
    found = evaluate(kernel(ROWS.replace("R = 12", "R = 10").replace("x > 2", "x < 1")), {"X": x})["Y"]
    assert torch.equal(found.value, x.double())


def test_where_nobody_can_say_which_way_it_goes_both_ways_are_allowed() -> None:
    text = ROWS.replace("x > 2", "rcp(x) * x > 1")
    found = evaluate(kernel(text), {"X": torch.full((12, 8), 3.0)})["Y"]
    assert ((found.value - found.bound <= 3) & (found.value + found.bound >= 31)).all()


def test_the_text_shows_what_is_chosen() -> None:
    text = to_text(kernel(ROWS))
    (when,) = (op for op in walk(kernel(ROWS).body) if isinstance(op, When))
    assert len(when.chosen) == 1
    chosen = when.chosen[0]
    assert f"  when any {when.condition}\n" in text
    assert f"    {chosen.result} : f32[t, D] = {chosen.update} else {chosen.otherwise}\n" in text


def test_what_nothing_depends_on_is_not_asked_for() -> None:
    text = ROWS.replace("Y[t] = y", "Y[t] = x")
    assert not any(isinstance(op, When) for op in walk(kernel(text).body))
    assert [u.name for u in typed(parse_text(text)).unused] == ["z", "y"]


def test_the_formatter_knows_its_body() -> None:
    ragged = ROWS.replace("  when any(x > 2)\n    z = x * 10\n    y", "  when  any (x>2)\n       z = x*10\n       y")
    assert format_source(SourceFile("a.tk", ragged)) == format_source(SourceFile("a.tk", ROWS))
    assert "  when any(x > 2)\n    z = x * 10\n    y = z + 1\n" in format_source(SourceFile("a.tk", ragged))


def test_any_and_when_are_names_like_others() -> None:
    renamed = ROWS.replace("z", "any").replace("X", "when")
    assert evaluate(kernel(renamed), {"when": torch.ones(12, 8)})["Y"].value.sum() == 96


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("any(x > 2)", "any(x)"), "E229: `when any` takes a truth, not a number"),
        (("y = z + 1", "Y[t] = z"), "E222: `Y[t]` is under `when any`, where only definitions are allowed"),
        (
            ("    y = z + 1", "    carry k : f32[t] = 0"),
            "E222: `carry` is under `when any`, where only definitions are allowed",
        ),
        (("y = z + 1", "y = rowmax(z)"), "E225: `y` was [t, D], and would be [t] here"),
        (("    y = z + 1", "    when any(x > 3)\n      y = z + 1"), "E110: a `when any` is inside another one"),
        (("Y[t] = y", "Y[t] = z"), "E227: `z` is defined under `when any`, so it does not exist in every tile"),
        (("any(x > 2)", "all(x > 2)"), "E101: expected `any`, found `all`"),
        (("    z = x * 10\n    y = z + 1\n", ""), "E102: `when` has no body"),
    ],
)
def test_mistakes(change: tuple[str, str], message: str) -> None:
    assert change[0] in ROWS
    with pytest.raises(SpecError) as found:
        kernel(ROWS.replace(*change))
    assert f"{found.value.diagnostics[0].code}: {found.value.diagnostics[0].message}" == message


WITHIN = SUMS.replace("  when any(c > 4)\n    c = c", "    when any(c > 4)\n      c = c")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            ROWS,
            "E406",
            "`when any` is about all 4 positions along `t` of a tile, but lanes that have other rows do not vote",
        ),
        (WITHIN, "E230", "`when any` is in a loop that sums products: decide after the loop, by the sums"),
    ],
    ids=["rows", "within"],
)
def test_what_no_schedule_carries_out(text: str, code: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.tk"
    path.write_text(text)
    with pytest.raises(SpecError) as found:
        api.load(path).check()
    (diagnostic,) = found.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == (code, message)
    assert code != "E406" or "`where`" in str(diagnostic.fix)


# ------------------------------------------------------------ carried out by choosing

FLAT = ROWS.replace("R = 12, D = 8", "R = 12, D = 80").replace("by 4\n  waves 4 along t", "by 1\n  waves 2")
LOOPED = """kernel looped
  dims R = 7, D = 1100
  global X : f32[R, D]
  global Y : f32[R, D]
  global L : f32[R]
  over t in R by 1
  waves 4
  carry m : f32[t] = -inf, l : f32[t] = 0
  each j in D by 512
    x = X[t, j]
    n = max(m, rowmax(x))
    when any(n - m > 0.25)
      l = l * exp(m - n)
      m = n
    l = l + rowsum(exp(x - m))
  L[t] = m + log(l)
  each i in D by 512
    y = exp(X[t, i] - m) / l
    when any(X[t, i] > 3)
      y = y * 2
    Y[t, i] = y
"""
EDGES = SUMS.replace("M = 256, N = 256", "M = 200, N = 150").replace("by 128, n in N by 128", "by 64, n in N by 64")
EDGES = EDGES.replace("  waves", "  tail masked\n  waves").replace("c > 4", "c > 40")
CARRIED_OUT = {"flat": FLAT, "looped": LOOPED, "edges": EDGES}


def given(meant: Kernel) -> dict[str, torch.Tensor]:
    """Normally distributed, such that some tiles ask for what others do not."""
    generator = torch.Generator().manual_seed(5)
    found = {}
    for t in meant.inputs:
        values = torch.randn([d.size or 0 for d in t.dims], generator=generator)
        values.view(-1)[: values.numel() // 3] *= 0.4
        found[t.name] = values.to(TORCH[t.dtype])
    return found


@pytest.mark.parametrize("name", [*CARRIED_OUT, "lazy"])
def test_choices_mean_what_conditions_mean(name: str) -> None:
    meant = kernel(CARRIED_OUT.get(name, LAZY.replace("LEAST", "0.5")))
    chosen = verify(decided(meant), "deciding")
    assert not any(isinstance(op, When) for op in walk(chosen.body))
    inputs_of = given(meant)
    right, found = evaluate(meant, inputs_of), evaluate(chosen, inputs_of)
    for output, result in right.items():
        torch.testing.assert_close(found[output].value, result.value, rtol=0, atol=0)
        assert (found[output].bound >= result.bound).all()


@pytest.mark.parametrize("name", CARRIED_OUT)
def test_the_machine_code_decides(name: str, tmp_path: Path) -> None:
    """Some blocks take the one way, some the other, and all are right."""
    path = tmp_path / "spec.tk"
    path.write_text(CARRIED_OUT[name])
    meant = kernel(CARRIED_OUT[name])
    inputs_of = given(meant)
    never = kernel(re.sub(r"(when any.* >) [0-9.]+", r"\1 1e9", CARRIED_OUT[name]))
    always = kernel(re.sub(r"(when any.* >) [0-9.]+", r"\1 -1e9", CARRIED_OUT[name]))
    right = evaluate(meant, inputs_of)
    (output, result), *_ = [(n, r) for n, r in right.items() if len(r.value.shape) == 2]
    for other in (never, always):  # so a build that did either everywhere would be wrong
        assert ((evaluate(other, inputs_of)[output].value - result.value).abs() > 3 * result.bound).any()
    build = api.load(path).check().build()
    assert not build.machine_check.diagnostics
    found = run(build, *inputs_of.values())
    for tensor, expected in zip(found if isinstance(found, tuple) else (found,), right.values(), strict=True):
        assert compare(tensor, expected.value, expected.bound).right
