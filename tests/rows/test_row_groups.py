"""Kernels of rows whose rows belong to groups of any lengths: results beside torch, group by group, and mutants."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from sampling import sample
from test_row_parts import parts_of
from torch import Tensor

from tkgen.api import load
from tkgen.backends.cdna.lower.places import BlockPlaces
from tkgen.backends.cdna.spec import Spec
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute.compare import Inputs, random_inputs
from tkgen.execute.launch import computed
from tkgen.execute.modelled import in_order
from tkgen.machine_check.tile_sorts import launches
from tkgen.schedule.row_verifier import wrong

HEAD = """kernel grouped
  dims ROWS = {rows}, GROUPS = 4, OFFSETS = GROUPS + 1, D = {d}, HEADS = 2
  global FIRST : i32[OFFSETS]
  global ROW : i32[ROWS]
  global S : f32[GROUPS]
  global W : f32[GROUPS, D]
  global X : {x}
  global Y : {y}
  over {over}
  {clauses}
"""
Group = Callable[[Tensor, Tensor, Tensor], Tensor]  # rows, which come first, the group's number and its weights


@dataclass(frozen=True)
class Case:
    """A kernel, and what it means for a group, of which it is given X, S and W."""

    body: str
    group: Group
    d: int = 96
    rows: str = "37"
    by: int = 4
    over: str = "g in GROUPS, r in ROWS within FIRST[g] by {by}"
    x: str = "f32[ROWS, D]"
    y: str = "f32[ROWS, D]"
    clauses: str = "waves 4"

    @property
    def text(self) -> str:
        """The spec."""
        head = HEAD.format(
            rows=self.rows, d=self.d, x=self.x, y=self.y, over=self.over.format(by=self.by), clauses=self.clauses
        )
        return head + "".join(f"  {line}\n" for line in self.body.split("\n"))


def norm(x: Tensor, s: Tensor, w: Tensor) -> Tensor:
    return x * (x.square().mean(-1, True) + 0.001).rsqrt() * w


def counted(x: Tensor, s: Tensor, w: Tensor) -> Tensor:
    return torch.arange(len(x))[:, None] + s * x


def normed_columns(x: Tensor, s: Tensor, w: Tensor) -> Tensor:
    off = x - x.mean(0)
    return off * (off.square().mean(0) + 0.001).rsqrt() + torch.arange(len(x))[:, None]


EACH, COLUMNS = "each {} in ROWS within FIRST[g] by 16", "g in GROUPS, d in D by 32"
SUM = EACH.format("r") + "\n  y = y + colsum(X[r, d])"
NORM = "Y[{r}] = X[{r}] * rsqrt(rowmean(X[{r}] * X[{r}]) + 0.001) * W[g]"
CASES = {
    "softmax": Case("e = exp(X[r] - rowmax(X[r]))\nY[r] = S[g] * e / rowsum(e)", lambda x, s, w: s * x.softmax(-1)),
    "norm": Case(NORM.format(r="r"), norm),
    "a row a block": Case(NORM.format(r="r"), norm, d=5000, by=1),
    "persistent": Case(
        NORM.format(r="h, r"), norm, d=5000, by=2, x="f32[HEADS, ROWS, D]", y="f32[HEADS, ROWS, D]",
        over="h in HEADS, g in GROUPS, r in ROWS within FIRST[g] by {by}", clauses="grid persistent(3)\n  waves 4",
    ),
    "a loop": Case(
        "carry m : f32[r] = -3e38, l : f32[r] = 0\neach j in D by 256\n  n = max(m, rowmax(X[r, j]))\n"
        "  l = l * exp(m - n) + rowsum(exp(X[r, j] - n))\n  m = n\neach k in D by 256\n"
        "  Y[r, k] = S[g] * exp(X[r, k] - m) / l", lambda x, s, w: s * x.softmax(-1), d=600,
    ),
    "places are the group's": Case("Y[r] = r + S[g] * X[r]", counted),
    "tiles of columns": Case(
        "Y[r, d] = r + S[g] * X[r, d]", counted, d=100,
        over="d in D by 64, g in GROUPS, r in ROWS within FIRST[g] by {by}",
    ),
    "rows innermost": Case(
        "Y[d, r] = S[g] * X[d, r] + r", counted, x="f32[D, ROWS]", y="f32[D, ROWS]", by=16,
        over="g in GROUPS, d in D by 8, r in ROWS within FIRST[g] by {by}",
    ),
    "transposed": Case(NORM.format(r="r").replace("Y[r]", "Y[D, r]"), norm, y="f32[D, ROWS]", by=16),
    "in place": Case("Y[r] = Y[r] * W[g] + X[r]", lambda x, s, w: x + 3 * w),
    "gathered": Case("Y[r] = X[ROW[r]] * W[g]", lambda x, s, w: x * w),
    "unknown number": Case(NORM.format(r="r"), norm, rows="dynamic"),
    "length of a group": Case("Y[r] = length(r) * X[r]", lambda x, s, w: len(x) * x, rows="dynamic"),
    "sums of columns": Case(
        f"{SUM}\nY[g, d] = S[g] * y", lambda x, s, w: s * x.sum(0), y="f32[GROUPS, D]", over=COLUMNS
    ),
    "means of columns": Case(
        f"{SUM}\nY[g, d] = y / max(length(r), 1)", lambda x, s, w: x.sum(0) / max(len(x), 1), y="f32[GROUPS, D]",
        over=COLUMNS, clauses="grid persistent(5)\n  waves 4",
    ),
    "norms of columns": Case(
        f"{SUM}\n{EACH.format('i')}\n  v = v + colsum((X[i, d] - y / length(i)) * (X[i, d] - y / length(i)))\n"
        f"{EACH.format('j')}\n  Y[j, d] = (X[j, d] - y / length(j)) * rsqrt(v / length(r) + 0.001) + j",
        normed_columns, over=COLUMNS,
    ),
    "softmax of a group": Case(
        f"carry m : f32 = -3e38, l : f32 = 0\n{EACH.format('r')}\n  n = max(m, rowmax(X[r]))\n"
        f"  l = l * exp(m - n) + rowsum(exp(X[r] - n))\n  m = n\n{EACH.format('i')}\n  Y[i] = exp(X[i] - m) / l",
        lambda x, s, w: x.softmax(0), x="f32[ROWS]", y="f32[ROWS]", over="g in GROUPS",
    ),
    "less the mean": Case(
        f"{SUM}\nY[q, d] = X[q, d] - y / length(q)", lambda x, s, w: x - x.mean(0),
        over="g in GROUPS, q in ROWS within FIRST[g] by 4, d in D by 32",
    ),
    "sums up to a row": Case(
        "each r in ROWS within FIRST[g] by 1 to q\n  y = y + colsum(X[r, d])\nY[q, d] = y + q",
        lambda x, s, w: x.cumsum(0) + torch.arange(len(x))[:, None],
        over="g in GROUPS, q in ROWS within FIRST[g] by 1, d in D by 32",
    ),
}  # fmt: skip
SIZE = 37
OFFSETS = {
    "any lengths": [0, 21, 22, 30, 37],
    "empty ones": [0, 0, 19, 19, 19],
    "single rows": [3, 4, 5, 6, 7],
    "none": [5, 5, 5, 5, 5],
    "decreasing": [0, 30, 9, 33, 20],
    "outside": [-7, 12, 50, 20, 2**31 - 1],
}
TARGETS = "gfx942", "sm_90a"


def members(offsets: Sequence[int]) -> list[slice]:
    """The rows of each group: from where the last one ended to the largest offset so far, within the tensor."""
    ends = [min(max(0, *offsets[: n + 1]), SIZE) for n in range(len(offsets))]
    return [slice(a, b) for a, b in itertools.pairwise(ends)]


def failures(case: Case, target: str, offsets: Sequence[int]) -> list[str]:
    """Return the faults of a run by any executor: forbidden accesses, and wrong numbers."""
    spec = load(case.text, target=target).check()
    backend = backend_of(target)
    launch = spec.launch({"ROWS": SIZE} if case.rows == "dynamic" else {})
    inputs = random_inputs(launch, 1, Inputs.NORMAL, backend.functions)
    inputs["FIRST"] = torch.tensor(offsets, dtype=torch.int32)
    if "Y" in inputs:
        inputs["Y"].fill_(3)
    if backend.interpreter is None:
        try:
            built = spec.build()
        except SpecError as error:
            return [d.message for d in error.diagnostics]
        return differing(case, computed(built, launch, inputs, {})["Y"], inputs)
    found = list[str]()
    for executor in backend.executors.values():
        (order,) = executor.orders(1)
        made = in_order(executor, spec, launch, inputs, {}, order)
        found += [*made.findings, *differing(case, made.outputs["Y"], inputs)]
    return found


def differing(case: Case, made: Tensor, inputs: Mapping[str, Tensor]) -> list[str]:
    """Count the wrong numbers; rows of no group must be as they were."""
    x, w, s = (inputs[name].double() if name in inputs else torch.zeros(4) for name in "XWS")
    found = made.double().movedim(rows_of(case.y), 0) if "ROWS" in case.y else made.double()
    if "ROW" in inputs:  # a place that is none reads zeros
        at = inputs["ROW"].long()
        x = torch.where(((at >= 0) & (at < SIZE))[:, None], x[at.clamp(0, SIZE - 1)], 0)
    x = x.movedim(rows_of(case.x), 0)
    wanted = torch.full_like(found, 3 if "Y" in inputs else torch.nan)
    for g, own in enumerate(members(inputs["FIRST"].tolist())):
        wanted[own if "ROWS" in case.y else g] = case.group(x[own], s[g], w[g])
    off = ~torch.isclose(found, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)
    return [f"{int(off.sum())} numbers are others"] * bool(off.any())


def rows_of(shape: str) -> int:
    """The dimension of the rows."""
    return shape.removeprefix("f32[").removesuffix("]").split(", ").index("ROWS")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "offsets"), sample(itertools.product(CASES, OFFSETS), 5, several=True))
def test_each_group_has_its_rows(name: str, offsets: str, target: str) -> None:
    assert not failures(CASES[name], target, OFFSETS[offsets])


def mutated(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Let all statements of kernels have `new` in place of `old`."""
    whole = BlockPlaces.with_locals

    def changed(self: BlockPlaces, statements: Iterable[str]) -> list[str]:
        made = [*whole(self, statements)]
        assert any(old in line for line in made), made
        return [line.replace(old, new) for line in made]

    monkeypatch.setattr(BlockPlaces, "with_locals", changed)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("norm", "r_in < r_length", "r_in < DIM_ROWS"),  # the rows of the next group, too
        ("norm", "r_in < r_length", "r_in < r_length - 1"),
        ("rows innermost", "r_in < r_length", "r_in < DIM_ROWS"),
        ("tiles of columns", "(r_first + r_0)", "(r_0)"),
        ("places are the group's", "(r_0 + r_in)", "(r_first + r_0 + r_in)"),
        ("persistent", "continue;", "return;"),  # the second head's tiles are never begun
        ("sums of columns", "r_0 < r_length", "r_0 < r_length - 1"),
        ("sums of columns", "r_in < r_length", "r_in < DIM_ROWS"),
        ("sums of columns", "(r_first + r_0)", "(r_0)"),
        ("norms of columns", "r_0 += 16", "r_0 += 32"),
    ],
)
def test_changed_code_gives_other_numbers(
    target: str, name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutated(monkeypatch, old, new)
    assert any(failures(CASES[name], target, OFFSETS[of]) for of in ("any lengths", "empty ones"))


def test_no_access_may_part_at_the_end_of_a_group() -> None:
    """Rows of 37 are odd, but those of 64 are aligned: then still a group may begin at any of them."""
    for name, dim in (("rows innermost", "chunk"), ("transposed", "across")):
        spec = load(replace(CASES[name], rows="64").text)
        assert isinstance(spec, Spec) and getattr(spec.layout, dim) == 1
        assert not [*wrong(spec.layout, spec.target)]
        wider = replace(spec.layout, **{dim: 4, "held": 4})
        assert {rule for rule, _ in wrong(wider, spec.target)} == {"accesses"}


@pytest.mark.parametrize("name", ["persistent", "tiles of columns"])
def test_blocks_of_each_sort_are_watched(name: str) -> None:
    spec = load(CASES[name].text)
    assert isinstance(spec, Spec)
    for watched in launches(spec):
        blocks = (watched.first, *watched.edges)
        assert all(0 <= block < watched.launch.blocks for block in blocks)
        if name == "tiles of columns":
            assert {watched.launch.place(b)[spec.program.kernel.axes[0]] for b in blocks} == {0, 1}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (replace(CASES["norm"], clauses="remap reversed\n  waves 4").text, "`remap` needs a number of blocks"),
        (CASES["norms of columns"].text.replace(EACH.format("i"), "each i in ROWS within ROW[g] by 16")
         .replace("ROW : i32[ROWS]", "ROW : i32[OFFSETS]"), "is over other tiles than `r`"),
        (CASES["less the mean"].text.replace("FIRST[g] by 16", "ROW[g] by 16 to q + length(r) - length(q)")
         .replace("ROW : i32[ROWS]", "ROW : i32[OFFSETS]"), "known only at run time"),
        (CASES["norm"].text.replace("OFFSETS = GROUPS + 1, D = 96", "OFFSETS = GROUPS + 1, D = 96, COLS = 8")
         .replace("by 4\n", "by 4, c in COLS within FIRST[g] by 4\n").replace("[ROWS, D]", "[ROWS, COLS]")
         .replace("[r]", "[r, c]").replace(NORM.format(r="r, c"), "Y[r, c] = X[r, c]"), "can find a group along one "
                                                                                        "axis only"),
    ],
)  # fmt: skip
def test_what_is_refused(target: str, text: str, message: str) -> None:
    with pytest.raises(SpecError) as found:
        load(text, target=target).check()
    assert any(message in d.message for d in found.value.diagnostics), [d.message for d in found.value.diagnostics]


BELOW = """kernel lengths
  dims PARTS = {parts}, GROUPS = 5, ROWS = 37, D = 64
  global COUNT : i32[GROUPS]
  global X : f32[GROUPS, ROWS, D]
  global Y : f32[PARTS, GROUPS, D]
  over p in PARTS, g in GROUPS, d in D by 32
  waves 2
  each r in ROWS below COUNT[g] by 4 part p
    y = y + colsum(X[g, r, d])
  Y[p, g, d] = y
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("parts", [1, 3])
def test_the_first_rows_of_each(parts: int, target: str) -> None:
    spec = load(BELOW.format(parts=parts), target=target).check()
    backend = backend_of(target)
    launch = spec.launch({})
    inputs = random_inputs(launch, 1, Inputs.EXACT, backend.functions)
    inputs["COUNT"] = torch.tensor([0, 1, 22, 99, -3], dtype=torch.int32)
    wanted = torch.zeros(parts, 5, 64)
    for g, count in enumerate([0, 1, 22, 37, 0]):
        for p, run in enumerate(parts_of(count, 4, parts)):
            wanted[p, g] = inputs["X"][g, run].sum(0)
    if backend.interpreter is None:
        assert torch.equal(computed(spec.build(), launch, inputs, {})["Y"], wanted)
        return
    for executor in backend.executors.values():
        (order,) = executor.orders(1)
        made = in_order(executor, spec, launch, inputs, {}, order)
        assert not made.findings and torch.equal(made.outputs["Y"], wanted)
