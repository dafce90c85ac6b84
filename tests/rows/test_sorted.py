"""Rows in order, and their first elements, beside torch: meaning, the code of each machine, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from sampling import only
from torch import Tensor
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.backends.cdna.lower.places import BlockPlaces
from tkgen.backends.registry import backend_of
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.execute.compare import Inputs, compare, random_inputs
from tkgen.execute.launch import computed
from tkgen.execute.modelled import in_order
from tkgen.ir import sorting
from tkgen.ir.equations import Axis, AxisKind, Sort, Value
from tkgen.ir.meaning import Result, evaluate
from tkgen.schedule.row_verifier import wrong
from tkgen.schedule.rows import RowMap

Answers = Mapping[str, Tensor]


@dataclass(frozen=True)
class Case:
    """A kernel of X, and what torch computes for it."""

    head: str
    body: str
    torch: Callable[[Tensor], Answers]
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def text(self) -> str:
        """The spec."""
        return "kernel first\n" + "".join(f"  {line}\n" for line in f"{self.head}\n{self.body}".split("\n"))


def top(count: int, dim: int = -1) -> Callable[[Tensor], Answers]:
    """The first numbers and positions; `torch.topk` leaves the order of equal ones open, a stable sort does not."""

    def answers(x: Tensor) -> Answers:
        found = torch.sort(x, dim=dim, descending=True, stable=True)
        return {"V": found.values.narrow(dim, 0, count), "ID": found.indices.narrow(dim, 0, count)}

    return answers


def ordered(descending: bool, dim: int = -1) -> Callable[[Tensor], Answers]:
    """All numbers and positions in order."""

    def answers(x: Tensor) -> Answers:
        found = torch.sort(x, dim=dim, descending=descending, stable=True)
        return {"V": found.values, "ID": found.indices}

    return answers


def again(x: Tensor) -> Answers:
    """Three times in order, the other way round each time."""
    for i in range(3):
        x = torch.sort(x * -0.5, dim=-1, descending=True).values + i
    return {"V": x}


def sparsemax(x: Tensor) -> Answers:
    """The point of the simplex next to each row (Martins and Astudillo 2016, algorithm 1)."""
    z = torch.sort(x, dim=-1, descending=True).values
    c, place = z.cumsum(-1), torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    k = (1 + place * z > c).sum(-1, True)
    return {"V": (x - (c.gather(-1, k - 1) - 1) / k).clamp(min=0)}


def head(rows: int, length: int, count: int, by: int, more: str = "") -> str:
    """Declarations for a tensor of rows and their first elements."""
    return (f"dims R = {rows}, D = {length}, K = {count}\nglobal X : f32[R, D]\nglobal V : f32[R, K]\n"
            f"global ID : i32[R, K]\nover r in R by {by}{more}")  # fmt: skip


def renormalised(x: Tensor) -> Answers:
    """Only the 8 largest of each row, and what ties with the last of them, as shares of their sum."""
    kept = torch.where(x >= x.topk(8).values[:, -1:], x, 0.0)
    return {"V": kept / kept.sum(-1, True)}


def routed(x: Tensor) -> Answers:
    """The weights of 6 experts by their scores, of which they are chosen with a bias."""
    s, bias = x.sigmoid(), torch.linspace(-1, 1, 64, dtype=x.dtype)
    chosen = torch.sort(s + bias, dim=-1, descending=True, stable=True).indices[:, :6]
    weights = s.gather(-1, chosen)
    return {"V": weights / weights.sum(-1, True), "ID": chosen}


def least_number(x: Tensor) -> Answers:
    """The third largest of each row, or the least of these that is a number; inf where none is."""
    return {"V": x.sort(-1, True).values[:, :3].nan_to_num(torch.inf, torch.inf, -torch.inf).amin(-1)}


def of_two(x: Tensor) -> Answers:
    """Shares of the exponentials of the two largest."""
    e = (x.topk(2).values - x.amax(-1, True)).exp()
    return {"V": e / e.sum(-1, True)}


ALL = "dims R = {}, D = {}\nglobal X : f32[R, D]\nglobal V : f32[R, D]\nglobal ID : i32[R, D]\nover r in R by {}"
BOTH = "V[r] = topk(X[r], K)\nID[r] = argtopk(X[r], K)"
ROW = "global X : f32[R, D]\nglobal ID : i32[R]\nglobal LEAST : i32[R]\n"
CASES = {
    "short rows": Case(head(9, 24, 5, 4), BOTH, top(5)),
    "odd rows": Case(head(9, 77, 3, 2), BOTH, top(3)),
    "all of a row": Case(head(9, 5, 5, 4).replace(", K = 5", "").replace("K]", "D]"),
                     BOTH.replace("K", "D"), top(5)),
    "a row of all waves": Case(head(9, 3000, 8, 1, "\nwaves 4"), BOTH, top(8)),
    "many": Case(head(9, 200, 64, 1, "\nwaves 2"), BOTH, top(64)),
    "one": Case(head(9, 40, 1, 4), BOTH, top(1)),
    "columns": Case("dims D = 40, R = 9, K = 3\nglobal X : f32[D, R]\nglobal V : f32[K, R]\nglobal ID : i32[K, R]\n"
                    "over r in R by 8", "V[K, r] = topk(X[D, r], K, D)\nID[K, r] = argtopk(X[D, r], K, D)", top(3, 0)),
    "first of all": Case(f"dims R = 9, D = 77\n{ROW}over r in R by 2",
                         "ID[r] = argmax(X[r])\nLEAST[r] = argmin(X[r])",
                         lambda x: {"ID": x.argmax(-1), "LEAST": x.argmin(-1)}),
    "first of a loop": Case(
        "dims R = 9, D = dynamic\nglobal X : f32[R, D]\nglobal ID : i32[R]\nover r in R by 1\n"
        "carry best : f32[r] = -inf, at : f32[r] = 0",
        "each v in D by 256\n  n = rowmax(X[r, v])\n  at = where(n > best, argmax(X[r, v]), at)\n"
        "  best = max(best, n)\nID[r] = at", lambda x: {"ID": x.argmax(-1)}, (("D", 700),)),
    "renormalised": Case("dims R = 9, D = 300\nglobal X : f32[R, D]\nglobal V : f32[R, D]\nover r in R by 1",
                         "q = where(X[r] >= rowmin(topk(X[r], 8)), X[r], 0)\nV[r] = q / rowsum(q)", renormalised),
    "of two": Case(head(9, 40, 2, 4).replace("global ID : i32[R, K]\n", ""),
                   "e = exp(topk(X[r], K) - rowmax(X[r]))\nV[r] = e / rowsum(e)", of_two),
    "a threshold": Case("dims R = 9, D = 40\nglobal X : f32[R, D]\nglobal V : f32[R]\nover r in R by 1",
                        "V[r] = rowmin(topk(X[r], 3))", least_number),
    "routed": Case(head(9, 64, 6, 4), "s = sigmoid(X[r])\nb = 2 * coordinate(D) / 63 - 1\ni = argtopk(s + b, K)\n"
                   "w = rowsum(where(coordinate(D) == i, s, 0))\nV[r] = w / rowsum(w)\nID[r] = i", routed),
    "in order of these": Case(head(9, 40, 4, 4), "t = topk(X[r], K)\nV[r] = cumsum(topk(t, K))\nID[r] = argtopk(t, K)",
                              lambda x: {"V": x.topk(4).values.cumsum(-1), "ID": torch.arange(4).expand(9, 4)}),
    "sorted": Case(ALL.format(9, 24, 4), "V[r] = sort(X[r])\nID[r] = argsort(X[r])", ordered(False)),
    "descending": Case(ALL.format(9, 77, 2), "x = X[r]\nV[r] = sort(x, descending)\nID[r] = argsort(x, descending)",
                       ordered(True)),
    "numbers alone": Case(ALL.format(9, 320, 4).replace("global ID : i32[R, D]\n", ""), "V[r] = sort(X[r], D)",
                          lambda x: {"V": torch.sort(x).values}),
    "one element": Case(ALL.format(9, 1, 4), "V[r] = sort(X[r])\nID[r] = argsort(X[r])", ordered(False)),
    "columns in order": Case("dims D = 40, R = 9\nglobal X : f32[D, R]\nglobal V : f32[D, R]\nglobal ID : i32[D, R]\n"
                             "over r in R by 8", "V[D, r] = sort(X[D, r], D, descending)\n"
                             "ID[D, r] = argsort(X[D, r], descending, D)", ordered(True, 0)),
    "carried": Case(
        "dims R = 9, D = 40, K = 3, N = 4\nglobal X : f32[R, D]\nglobal V : f32[R, K]\nover r in R by 4\n"
        "carry v : f32[r, K] = 1", "each i in N\n  v = v + topk(X[r] * f32(i), K)\nV[r] = v",
        lambda x: {"V": 1 + sum((x * i).topk(3).values for i in range(4))}),
    "in order again and again": Case(
        "dims R = 9, D = 40, N = 3\nglobal X : f32[R, D]\nglobal V : f32[R, D]\nover r in R by 4\nwaves 1\n"
        "carry x : f32[r, D] = X[r]", "each i in N\n  x = sort(x * -0.5, descending) + f32(i)\nV[r] = x", again),
    "under a condition": Case(
        "dims R = 9, D = 40\nglobal X : f32[R, D]\nglobal V : f32[R, D]\nover r in R by 1",
        "x = X[r]\ny = x\nwhen any(x > 2)\n  y = sort(x)\nV[r] = y",
        lambda x: {"V": torch.where((x > 2).any(-1, True), x.sort(-1).values, x)}),
    "sparsemax": Case(
        "dims R = 9, D = 200\nglobal X : f32[R, D]\nglobal V : f32[R, D]\nover r in R by 4",
        "x = X[r]\nz = sort(x, descending)\nc = cumsum(z)\nk = rowsum(where(1 + (coordinate(D) + 1) * z > c, 1, 0))\n"
        "V[r] = max(x - (rowsum(where(coordinate(D) < k, z, 0)) - 1) / k, 0)", sparsemax),
}  # fmt: skip
EXACT = "short rows", "odd rows", "a row of all waves", "many", "one", "columns", "all of a row", "first of all"
EXACT += "a threshold", "sorted", "descending", "numbers alone", "one element", "columns in order"
SOME = "odd rows", "a row of all waves", "first of a loop", "routed", "descending", "sparsemax"


def hurt(x: Tensor) -> Tensor:
    """Rows of ties, of NaN beside infinity, of one number alone, of both zeros."""
    y = x if x.shape[0] == 9 else x.T
    y.copy_((2 * y).round())
    y[1] = 3.0
    y[2, ::3], y[2, 1::3] = torch.nan, torch.inf
    y[3], y[3, -1] = -torch.inf, 0.0
    y[4] = torch.nan
    y[5], y[5, ::2] = 0.0, -0.0
    y[6] = -torch.inf
    y[7, 0], y[7, -1] = torch.inf, torch.inf
    return x


def given(case: Case, target: str, hurting: bool) -> tuple[Tensor, dict[str, Result]]:
    """Inputs, and what they mean."""
    launch = load(case.text).check().launch(dict(case.sizes) or None)
    inputs = random_inputs(launch, 1, Inputs.NORMAL)
    if hurting:
        hurt(inputs["X"])
    functions = backend_of(target).functions
    return inputs["X"], evaluate(launch.program.kernel, inputs, {}, launch.extents, functions)


def outputs(case: Case, target: str, hurting: bool) -> Iterator[tuple[Mapping[str, Tensor], list[str]]]:
    """The results of each executor of a target, and what it finds; all are within the bounds of the meaning."""
    spec = load(case.text, target=target).check()
    launch = spec.launch(dict(case.sizes) or None)
    x, meant = given(case, target, hurting)
    if backend_of(target).emulated:
        results = [(computed(spec.build().check(), launch, {"X": x}, {}), list[str]())]
    else:
        made = (in_order(e, spec, launch, {"X": x}, {}, e.orders(1)[0]) for e in backend_of(target).executors.values())
        results = [(m.outputs, [*map(str, m.findings)]) for m in made]
    for found, findings in results:
        for name, result in meant.items():
            assert compare(found[name].float(), result.value, result.bound).right, name
        yield found, findings


def assert_as_torch(case: Case, found: Mapping[str, Tensor], x: Tensor, exact: bool) -> None:
    """The results are torch's, in f64; what is not computed, exactly."""
    for name, wanted in case.torch(x.double()).items():
        near = 0.0 if exact else 1e-5
        torch.testing.assert_close(found[name].double(), wanted.double(), rtol=near, atol=near, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_the_meaning_is_torchs(name: str) -> None:
    for hurting in (False, True) if name in EXACT else (False,):
        x, meant = given(CASES[name], "gfx942", hurting)
        assert_as_torch(CASES[name], {n: r.value for n, r in meant.items()}, x, name in EXACT)
        assert all(bool((r.bound < 1e-4).all()) for r in meant.values())


@pytest.mark.parametrize("hurting", only([False, True], [True]))
@pytest.mark.parametrize("name", only(CASES, SOME))
def test_machine_code(name: str, hurting: bool) -> None:
    x, _ = given(CASES[name], "gfx942", hurting)
    for found, findings in outputs(CASES[name], "gfx942", hurting):
        assert not findings
        if name in EXACT or not hurting:
            assert_as_torch(CASES[name], found, x, name in EXACT)


@pytest.mark.parametrize("name", only(CASES, ["odd rows", "descending"]))
@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
def test_machine_code_of_other_machines(name: str, target: str) -> None:
    x, _ = given(CASES[name], target, True)
    for found, findings in outputs(CASES[name], target, True):
        assert not findings
        if name in EXACT:
            assert_as_torch(CASES[name], found, x, True)


@pytest.mark.parametrize("hurting", only([False, True], [True]))
@pytest.mark.parametrize("name", only(CASES, ["odd rows", "carried", "descending"]))
def test_code_and_model_for_hopper(name: str, hurting: bool) -> None:
    x, _ = given(CASES[name], "sm_90a", hurting)
    count = 0
    for found, findings in outputs(CASES[name], "sm_90a", hurting):
        assert not findings
        if name in EXACT or not hurting:
            assert_as_torch(CASES[name], found, x, name in EXACT)
        count += 1
    assert count == 2


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize("descending", [False, True])
def test_bounds_hold_for_numbers_that_are_off(descending: bool) -> None:
    """Numbers moved within their bounds keep each position that is known, and come near each value."""
    torch.manual_seed(1)
    axis = Axis("d", None, AxisKind.WHOLE)
    values, positions = (
        Sort(Value(0, (axis,)), function, axis, Value(1, (axis,)), axis, descending)
        for function in ("values", "positions")
    )
    certain = 0
    for _ in range(50):
        x = torch.randn(40, 12, dtype=torch.float64).mul(8).round() / 4
        error = torch.rand_like(x).mul(0.4) * (torch.rand_like(x) < 0.5)
        (value, off), (place, open_) = (sorting.ordered(op, x, error, 1, 0) for op in (values, positions))
        assert off is not None and open_ is not None
        certain += int((open_ == 0).sum())
        for _ in range(20):
            moved = x + error * (2 * torch.rand_like(x) - 1)
            found = torch.sort(moved, dim=1, descending=descending, stable=True)
            assert bool(((found.values - value).abs() <= off + 1e-12).all())
            assert bool(((found.indices == place) | (open_ > 0)).all())
    assert 0.1 < certain / (50 * x.numel()) < 0.9


def test_positions_of_numbers_nearly_equal_are_unknown() -> None:
    case = Case("dims R = 1, D = 4, K = 2\nglobal X : f32[R, D]\nglobal ID : i32[R, K]\nover r in R by 1",
                "ID[r] = argtopk(exp(X[r]), K)", top(2))  # fmt: skip
    kernel = load(case.text).check().program.kernel
    found = evaluate(kernel, {"X": torch.tensor([[1.0, 3.0, 1.0, 2.0]])})["ID"]
    assert found.bound.tolist() == [[0.0, 0.0]] and found.value.tolist() == [[1.0, 3.0]]
    found = evaluate(kernel, {"X": torch.tensor([[1.0, 3.0, 3.0 + 2**-22, 2.0]])})["ID"]
    assert bool((found.bound == torch.inf).all())


# ---------------------------------------------------------------- the proof


def changed(layout: RowMap, number: int, **new: object) -> RowMap:
    """The layout with one sweep that is other."""
    made = replace(layout)
    sweeps = [replace(s, **new) if n == number else s for n, s in enumerate(layout.sweeps)]  # type: ignore[arg-type]
    vars(made)["sweeps"] = tuple(sweeps)
    return made


def test_the_proof_refuses_layouts_that_sort_wrongly() -> None:
    spec = load(CASES["sparsemax"].text, target="gfx942").check()
    layout, target = spec.layout, spec.target
    assert isinstance(layout, RowMap) and not [*wrong(layout, target)]
    (number,) = [n for n, s in enumerate(layout.sweeps) if s.sorts]
    lost = changed(layout, number, sorts=())
    assert {rule for rule, _ in wrong(lost, target)} >= {"sweeps"}
    sorts, after = layout.sweeps[number].sorts, layout.sweeps[number + 1]
    late = changed(changed(layout, number, sorts=()), number + 1, sorts=(*after.sorts, *sorts))
    assert {rule for rule, _ in wrong(late, target)} >= {"sweeps"}
    wide = replace(layout, lanes=layout.wave_lanes * 2, chunks=1)
    assert "lanes of several waves sort a row" in {text for _, text in wrong(wide, target)}


# ---------------------------------------------------------------- mutants

MUTANTS = [
    ("odd rows", " - 16777216.0f);", ");"),  # NaN after infinity
    ("odd rows", " ? (-__builtin_inff()) : rest;", " ? rest : rest;"),  # the same number again
    ("odd rows", " ? __builtin_inff() : rest_at;", " ? rest_at : rest_at;"),  # the same position of -inf again
    ("odd rows", "base_ops::min", "base_ops::max"),  # the last of equal ones
    ("descending", "tk::sort_row<LANES>", "tk::sort_row<LANES / 2>"),
    ("descending", " : tk::sorted_end<long long>()", " : 0"),  # beyond the end of a row
    ("descending", "tk::sort_key_at<true>(x, ", "tk::sort_key_at<true>(x, -"),  # the last of equal ones
]


@pytest.mark.parametrize(("name", "old", "new"), MUTANTS)
def test_changed_code_is_found(name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = BlockPlaces.with_locals

    def mutated(self: BlockPlaces, statements: Iterator[str]) -> list[str]:
        made = [*whole(self, statements)]
        assert any(old in line for line in made), made
        return [line.replace(old, new) for line in made]

    monkeypatch.setattr(BlockPlaces, "with_locals", mutated)
    with pytest.raises(AssertionError, match="right"):
        [*outputs(CASES[name], "sm_90a", True)]


# ---------------------------------------------------------------- mistakes

HEAD = """kernel first
  dims ROWS = 64, D = 256, K = 8, N = dynamic, BIG = 512
  global X : f32[ROWS, D]
  global Y : f32[ROWS, K]
  scalar p : f32 = 3
  over r in ROWS by 4
"""
MISTAKES = [
    ("topk(X[r], K, -1)", "E226", "`topk` goes along an axis by its name, not its number", "topk(X[r], K)"),
    ("topk(X[r], K, 0)", "E226", "`topk` goes along an axis by its name", "topk(X[r], K, r)"),
    ("topk(X[r], K, r)", "E226", "`topk` along `r` would be over only the block's tile of 4", None),
    ("topk(X[r], K, q)", "E226", "`topk` goes along an axis of its tile, and `q` is none", "write `D`"),
    ("topk(X[r])", "E200", "`topk` takes 2 to 3 arguments, not 1", "topk(X[r], 8)"),
    ("topk(3, K)", "E226", "`topk` has no axis to go along", None),
    ("topk(X[r], p)", "E203", "the number of elements at build time, and `p` is none", "where(coordinate(K) < p"),
    ("topk(X[r], N)", "E203", "`N` is dynamic", "give `N` a size"),
    ("topk(X[r], BIG)", "E203", "`topk` of 512 elements, but `D` has only 256", "write `256`"),
    ("topk(X[r], 0)", "E203", "the number of elements of `topk` must be positive, not 0", None),
    ("topk(X[r], 2.5)", "E203", "a size is an integer, not 2.5", None),
    ("topk(X[r], 8)", "E225", "the value stored has axes [r, 8]", "topk(x, K)"),
    ("topk(X[r] > 0, K)", "E229", "`topk` takes a number, not a truth", None),
    ("argmax(X[r], r)", "E226", "`argmax` along `r` would be over only the block's tile", None),
    ("argmin(X[r], -1)", "E226", "`argmin` goes along an axis by its name", "argmin(X[r])"),
    ("torch.topk(X[r], k=K, dim=-1)", "E101", "functions and types have no prefix", "Y[r] = topk(X[r], K)"),
    ("topk(X[r], K, dim=-1)", "E101", "functions have no keyword arguments", "Y[r] = topk(X[r], K)"),
    ("topk(X[r], K, largest=False)", "E101", "functions have no keyword", "Y[r] = -topk(-X[r], K)"),
    ("argtopk(X[r], K, largest=False)", "E101", "functions have no keyword", "Y[r] = argtopk(-X[r], K)"),
    ("torch.topk(X[r], K).values", "E101", "functions and types have no prefix", "Y[r] = topk(X[r], K)"),
    ("torch.topk(X[r], K)[1]", "E101", "functions and types have no prefix", "Y[r] = argtopk(X[r], K)"),
    ("X[r].topk(K)", "E101", "functions come before their arguments", "Y[r] = topk(X[r], K)"),
    ("X[r].topk(K).indices", "E101", "the largest elements are `topk(x, K)`", "Y[r] = argtopk(X[r], K)"),
    ("X[r].argmax(-1)", "E101", "functions come before their arguments", "Y[r] = argmax(X[r])"),
    ("X[r].max(-1).indices", "E101", "functions come before", "Y[r] = argmax(X[r])"),
    ("tl.argmax(X[r], axis=1)", "E101", "functions and types have no prefix", "Y[r] = argmax(X[r], 1)"),
    ("top_k(X[r], K)", "E200", "it is called `topk`", "topk"),
    ("sorted(X[r])", "E200", "it is called `sort`", "sort"),
    ("sort(X[r], -1)", "E226", "`sort` goes along an axis by its name, not its number", "sort(X[r])"),
    ("sort(X[r], r)", "E226", "`sort` along `r` would be over only the block's tile of 4", None),
    ("sort(X[r], desc)", "E200", "`sort` is ascending, or `descending`", "descending"),
    ("sort(X[r], ascending)", "E200", "`sort` is ascending, or `descending`", "leave it out"),
    ("sort(X[r], D, descending, 1)", "E200", "`sort` takes 1 to 3 arguments, not 4", "ascending along the last axis"),
    ("torch.sort(X[r], dim=-1, descending=True)[0]", "E101", "no prefix", "Y[r] = sort(X[r], descending)"),
    ("X[r].sort(-1, True).indices", "E101", "in order `sort(x)`", "Y[r] = argsort(X[r], descending)"),
    ("kthvalue(X[r], 3)", "E200", "`kthvalue` is not a function", "rowmin(topk(x, K))"),
    ("multinomial(X[r], 1)", "E200", "`multinomial` is not a function", "Gumbel"),
]


def refused(text: str) -> SpecError:
    """The error of a spec."""
    with pytest.raises(SpecError) as error:
        load(text).check()
    return error.value


@pytest.mark.parametrize(("text", "code", "message", "written"), MISTAKES)
def test_mistakes(text: str, code: str, message: str, written: str | None) -> None:
    first = refused(f"{HEAD}  Y[r] = {text}\n").diagnostics[0]
    assert first.code == code and message in first.message
    if written is not None:
        assert first.fix is not None and written in first.fix.text


def test_rows_that_one_wave_cannot_hold_are_refused() -> None:
    text = HEAD.replace("D = 256", "D = 8192").replace("by 4", "by 1") + "  Y[r] = topk(sort(X[r]), K)\n"
    first = refused(text).diagnostics[0]
    assert first.code == "E406" and "lanes of one wave sort a row, and 8192 elements take" in first.message


def test_waves_along_a_sorted_row_are_refused() -> None:
    text = HEAD.replace("by 4", "by 1, d in D by 256\n  waves 4 along d").replace(
        "Y : f32[ROWS, K]", "Y : f32[ROWS, D]"
    )
    first = refused(text + "  Y[r, d] = sort(X[r, d])\n").diagnostics[0]
    assert first.code == "E406" and "`waves` is along d" in first.message


def test_first_elements_of_the_tiles_of_a_loop_are_refused() -> None:
    text = HEAD.replace("N = dynamic, ", "") + "  each v in D by 64\n    Y[r] = topk(X[r, v], K)\n"
    first = refused(text).diagnostics[0]
    assert first.code == "E226" and "would be of one tile of a loop" in first.message


def test_too_many_first_elements_are_refused() -> None:
    text = HEAD.replace("K = 8", "K = 65") + "  Y[r] = topk(X[r], K)\n"
    first = refused(text).diagnostics[0]
    assert first.code == "E406" and "65 elements" in first.message and "at most 64" in first.message


def test_an_index_computed_from_the_axis_of_first_elements_is_refused() -> None:
    first = refused(f"{HEAD}  Y[r, K - 1 - coordinate(K)] = topk(X[r], K)\n").diagnostics[0]
    assert first.code == "E406" and "a position computed from `K`" in first.message


def test_first_elements_beside_products_are_refused() -> None:
    text = """kernel product
  dims M = 128, N = 128, K = 64, TOP = 4
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, TOP]
  over m in M by 128
  shared A, B
  each k in K by 64
    c = c + A[m, k] @ B[N, k].T
  C[m] = topk(c, TOP)
"""
    first = refused(text).diagnostics[0]
    assert first.code == "E230" and "`topk` is in a kernel with products" in first.message


# ---------------------------------------------------------------- verify


VERIFIED = [("odd rows", 0, "as meant"), ("descending", 1, "a row of `D` in order")]


@pytest.mark.parametrize(("name", "code", "said"), VERIFIED)
def test_rounds_are_verified_and_networks_refused(name: str, code: int, said: str, tmp_path: Path) -> None:
    """Numbers carry payloads through the rounds; a network compares the bits of floats."""
    (tmp_path / "first.tk").write_text(CASES[name].text)
    result = CliRunner().invoke(app, ["verify", str(tmp_path / "first.tk"), "-t", "gfx942"])
    assert result.exit_code == code and said in " ".join(result.output.split()), result.output
