"""Scans of rows beside torch: their meaning, the code of each machine, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from sampling import only
from torch import Tensor

from tkgen.api import load
from tkgen.backends.cdna.lower.places import BlockPlaces
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute.compare import Inputs, compare, random_inputs
from tkgen.execute.launch import computed
from tkgen.execute.modelled import in_order
from tkgen.ir.equations import Scan
from tkgen.ir.meaning import evaluate
from tkgen.schedule.row_verifier import wrong
from tkgen.schedule.sweeps import Sweep


@dataclass(frozen=True)
class Case:
    """A kernel of X to Y, and what torch computes for it."""

    dims: str
    x: str
    over: str
    body: str
    torch: Callable[[Tensor], Tensor]
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def text(self) -> str:
        """The spec."""
        lines = [f"dims {self.dims}", f"global X : f32[{self.x}]", f"global Y : f32[{self.x}]", f"over {self.over}"]
        return "kernel scans\n" + "".join(f"  {line}\n" for part in [*lines, self.body] for line in part.split("\n"))


LOOP = "each t in T by {by}\n  x = X[r, t]\n  Y[r, t] = {y}\n  s = {s}"
CASES = {
    "short rows": Case("R = 9, D = 24", "R, D", "r in R by 4", "Y[r] = cumsum(X[r])", lambda x: x.cumsum(-1)),
    "odd rows": Case("R = 5, D = 77", "R, D", "r in R by 2", "Y[r] = cumsum(X[r])", lambda x: x.cumsum(-1)),
    "a row of all waves": Case("R = 2, D = 5000", "R, D", "r in R by 1\nwaves 4", "Y[r] = cumsum(X[r], D)",
                               lambda x: x.cumsum(-1)),
    "one element": Case("R = 9, D = 1", "R, D", "r in R by 4", "Y[r] = cumsum(X[r])", lambda x: x.cumsum(-1)),
    "columns": Case("T = 100, D = 40", "T, D", "d in D by 32", "Y[T, d] = cumsum(X[T, d], T)", lambda x: x.cumsum(0)),
    "long columns": Case("T = 700, D = 24", "T, D", "d in D by 8\nwaves 4", "Y[T, d] = cumsum(X[T, d], T)",
                         lambda x: x.cumsum(0)),
    "three axes": Case("B = 3, C = 5, D = 64", "B, C, D", "b in B, c in C by 4", "Y[b, c] = cumsum(X[b, c])",
                       lambda x: x.cumsum(-1)),
    "products": Case("R = 5, D = 300", "R, D", "r in R by 2", "Y[r] = cumprod(X[r])", lambda x: x.cumprod(-1)),
    "maxima": Case("R = 5, D = 300", "R, D", "r in R by 2", "Y[r] = cummax(X[r])", lambda x: running(x, torch.fmax)),
    "minima": Case("R = 5, D = 300", "R, D", "r in R by 2", "Y[r] = cummin(X[r])", lambda x: running(x, torch.fmin)),
    "a loop": Case("R = 3, T = 1000", "R, T", "r in R by 1\ncarry s : f32[r] = 0",
                   LOOP.format(by=256, y="s + cumsum(x)", s="s + rowsum(x)"), lambda x: x.cumsum(-1)),
    "a loop of any length": Case("R = 3, T = dynamic", "R, T", "r in R by 1\ncarry s : f32[r] = 0\nwaves 2",
                                 LOOP.format(by=256, y="s + cumsum(x)", s="s + rowsum(x)"), lambda x: x.cumsum(-1),
                                 (("T", 777),)),
    "maxima over a loop": Case("R = 3, T = 600", "R, T", "r in R by 1\ncarry s : f32[r] = -inf",
                               LOOP.format(by=256, y="max(s, cummax(x))", s="max(s, rowmax(x))"),
                               lambda x: running(x, torch.fmax)),
    "of a scan": Case("R = 5, D = 100", "R, D", "r in R by 2", "c = cumsum(X[r])\nY[r] = cumsum(c) + rowsum(X[r])",
                      lambda x: x.cumsum(-1).cumsum(-1) + x.sum(-1, True)),
    "two at once": Case("R = 3, D = 3000", "R, D", "r in R by 1\nwaves 4", "Y[r] = cumsum(X[r]) - cumsum(abs(X[r]))",
                        lambda x: x.cumsum(-1) - x.abs().cumsum(-1)),
    "after a sum": Case("R = 5, D = 100", "R, D", "r in R by 2", "e = exp(X[r])\nY[r] = cumsum(e / rowsum(e))",
                        lambda x: (x.exp() / x.exp().sum(-1, True)).cumsum(-1)),
    "backwards": Case(
        "R = 5, D = 100", "R, D", "r in R by 2",
        "x = X[r, D - 1 - coordinate(D)]\nY[r, D - 1 - coordinate(D)] = cumsum(x)",
        lambda x: x.flip(-1).cumsum(-1).flip(-1),
    ),
}  # fmt: skip
SOME = "odd rows", "a row of all waves", "long columns", "a loop of any length"


def running(x: Tensor, joined: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Results one after the other, by torch's function of two; NaN, before the first number, as the missing one."""
    found = [x[..., 0]]
    for n in range(1, x.shape[-1]):
        found.append(joined(found[-1], x[..., n]))
    return torch.stack(found, -1).nan_to_num(-torch.inf if joined is torch.fmax else torch.inf, torch.inf, -torch.inf)


def hurt(x: Tensor, how: str) -> Tensor:
    """Inputs with what hurts in the middle of a row."""
    y = x.clone()
    flat = y.flatten()
    at = flat.numel() // 3
    if how == "nan":
        flat[at] = torch.nan
    elif how == "infinity":
        flat[at] = torch.inf
    elif how == "both infinities":
        flat[at], flat[at + 1] = torch.inf, -torch.inf
    elif how == "large":
        flat *= 1e30
    elif how == "integers":
        flat.copy_((8 * flat).round())
    elif how == "zeros":
        flat[at::7] = 0
    return y


HURTING = "normal", "nan", "infinity", "both infinities", "large", "integers", "zeros"


def outputs(case: Case, target: str, how: str = "normal") -> Iterator[tuple[Tensor, list[str], Tensor]]:
    """The result of each executor of a target, what it finds, and the input."""
    spec = load(case.text, target=target).check()
    launch = spec.launch(dict(case.sizes) or None)
    inputs = random_inputs(launch, 1, Inputs.NORMAL, backend_of(target).functions)
    inputs["X"] = hurt(inputs["X"], how)
    meant = evaluate(spec.program.kernel, inputs, {}, launch.extents, backend_of(target).functions)["Y"]
    if backend_of(target).emulated:
        results = [(computed(spec.build().check(), launch, inputs, {})["Y"], list[str]())]
    else:
        made = (in_order(e, spec, launch, inputs, {}, e.orders(1)[0]) for e in backend_of(target).executors.values())
        results = [(m.outputs["Y"], [*map(str, m.findings)]) for m in made]
    for result, findings in results:
        known = meant.bound < torch.inf  # elsewhere the order of operations decides
        assert compare(torch.where(known, result, meant.value.float()), meant.value, meant.bound).right
        yield result, findings, inputs["X"]


def assert_as_torch(case: Case, found: Tensor, x: Tensor, near: float = 1e-4) -> None:
    """The result is torch's, in f64; a sum may be off by a part of the largest it had."""
    wanted = case.torch(x.double())
    wanted = torch.where(wanted.abs() > 3.4028235e38, wanted.sign() * torch.inf, wanted)
    size = wanted[wanted.isfinite()].abs().max() if wanted.isfinite().any() else torch.tensor(0.0)
    torch.testing.assert_close(
        found.double(), wanted, rtol=near, atol=near * min(float(size), 1e38) / 10, equal_nan=True
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("how", HURTING)
def test_the_meaning_is_torchs(name: str, how: str) -> None:
    case = CASES[name]
    launch = load(case.text).check().launch(dict(case.sizes) or None)
    inputs = random_inputs(launch, 1, Inputs.NORMAL)
    inputs["X"] = hurt(inputs["X"], how)
    found = evaluate(launch.program.kernel, inputs, {}, launch.extents)["Y"]
    if name in ("products", "after a sum") and how == "large":  # of numbers of 1e30: beyond f32 in any order
        assert bool((found.bound == torch.inf).any()) or name == "after a sum"
        return
    known = found.bound < torch.inf
    wanted = CASES[name].torch(inputs["X"].double())
    wanted = torch.where(wanted.abs() > 3.4028235e38, wanted.sign() * torch.inf, wanted)
    torch.testing.assert_close(found.value[known], wanted[known], rtol=1e-6, atol=1e-6, equal_nan=True)
    assert bool(known.double().mean() > 0.9) or how in ("large", "infinity", "both infinities") or name == "products"


@pytest.mark.parametrize("name", only(CASES, SOME))
def test_machine_code(name: str) -> None:
    for found, findings, x in outputs(CASES[name], "gfx942"):
        assert not findings
        assert_as_torch(CASES[name], found, x)


@pytest.mark.parametrize("name", only(CASES, SOME[1:3]))
@pytest.mark.parametrize("target", only(["gfx90a", "gfx950"], ["gfx950"]))
def test_machine_code_of_other_machines(name: str, target: str) -> None:
    for found, findings, x in outputs(CASES[name], target):
        assert not findings
        assert_as_torch(CASES[name], found, x)


@pytest.mark.parametrize("name", only(CASES, SOME))
def test_code_and_model_for_hopper(name: str) -> None:
    count = 0
    for found, findings, x in outputs(CASES[name], "sm_90a"):
        assert not findings
        assert_as_torch(CASES[name], found, x)
        count += 1
    assert count == 2


@pytest.mark.parametrize("how", only(HURTING, ["nan", "both infinities"]))
@pytest.mark.parametrize("name", only(CASES, ["odd rows"]))
@pytest.mark.parametrize("target", only(["gfx942", "sm_90a"], ["gfx942"]))
def test_code_on_numbers_that_hurt(name: str, how: str, target: str) -> None:
    """The code gives what the equations mean, within their bound (`outputs` asks), and finite sums are torch's."""
    for found, findings, _ in outputs(CASES[name], target, how):
        assert not findings and found.numel()


def test_no_element_depends_on_a_later_one() -> None:
    """Also not through the exchange of waves: NaN changes nothing before it."""
    case = CASES["a row of all waves"]
    ((plain, _, _),) = outputs(case, "gfx942")
    ((spoilt, _, x),) = outputs(case, "gfx942", "nan")
    at = int(x[0].isnan().nonzero()[0])
    assert torch.equal(plain[0, :at], spoilt[0, :at]) and spoilt[0, at:].isnan().all()
    assert torch.equal(plain[1], spoilt[1])


def test_sums_of_gates_that_underflow_are_bounded() -> None:
    """A product of many numbers below one becomes zero, and its bound stays small."""
    case = Case("R = 2, D = 2000", "R, D", "r in R by 1", "Y[r] = cumprod(X[r])", lambda x: x.cumprod(-1))
    kernel = load(case.text).check().program.kernel
    x = torch.full((2, 2000), 0.9)
    found = evaluate(kernel, {"X": x})["Y"]
    assert bool((found.bound < 1e-4).all()) and bool((found.bound[:, 1000:] < 1e-40).all())
    signs = evaluate(kernel, {"X": -x * 1e20})["Y"]
    assert bool((signs.bound[:, 5:] == torch.inf).all()), "an overflow depends on the order"


def test_the_bound_of_a_sum_knows_of_overflow() -> None:
    case = CASES["odd rows"]
    kernel = load(case.text).check().program.kernel
    x = torch.zeros(5, 77)
    x[0, :4] = torch.tensor([3e38, 3e38, -3e38, -3e38])
    x[1, :2] = 3e38
    found = evaluate(kernel, {"X": x})["Y"]
    assert found.bound[0, 0] == 0 and bool((found.bound[0, 3:] == torch.inf).all())
    assert bool((found.value[1, 1:] == torch.inf).all()) and bool((found.bound[1] == 0).all())


# ---------------------------------------------------------------- the proof


def layout_of(name: str, target: str = "gfx942") -> tuple[object, object]:
    spec = load(CASES[name].text, target=target).check()
    return spec.layout, spec.target


def changed(layout: object, number: int, **new: object) -> object:
    """The layout with one sweep that is other."""
    sweeps = [replace(s, **new) if n == number else s for n, s in enumerate(layout.sweeps)]
    made = replace(layout)
    vars(made)["sweeps"] = tuple(sweeps)
    return made


def test_the_proof_refuses_layouts_that_scan_wrongly() -> None:
    layout, target = layout_of("a row of all waves")
    assert not [*wrong(layout, target)]
    (number,) = [n for n, s in enumerate(layout.sweeps) if s.scans]
    assert isinstance(layout.sweeps[number], Sweep)
    lost = changed(layout, number, scans=())
    assert {rule for rule, _ in wrong(lost, target)} >= {"sweeps"}
    early = changed(layout, number, elements=(*layout.sweeps[number].elements, *layout.sweeps[number].scans))
    assert {rule for rule, _ in wrong(early, target)} >= {"sweeps"}
    unread = changed(layout, number + 1, elements=tuple(
        op for op in layout.sweeps[number + 1].elements if not isinstance(op, Scan)
    ))  # fmt: skip
    assert {rule for rule, _ in wrong(unread, target)} >= {"sweeps"}


def test_the_proof_refuses_an_exchange_of_scans_without_its_barrier() -> None:
    layout, target = layout_of("a row of all waves")
    assert layout.exchanges == 1
    steps = tuple(s for s in layout.steps if type(s).__name__ != "Barrier")
    made = replace(layout)
    vars(made)["steps"] = steps
    assert len(steps) == len(layout.steps) - 1
    assert {rule for rule, _ in wrong(made, target)} == {"races"}


MUTANTS = [
    ("a row of all waves", "if (w == warpid() % 4) ", "if (w == 0) "),
    ("a row of all waves", "_l.all;", "_l.before;"),
    ("short rows", "_l.before)", "_l.all)"),
    ("long columns", "_b[i][c];", "_b[i][0];"),
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
        [*outputs(CASES[name], "sm_90a")]


# ---------------------------------------------------------------- mistakes

HEAD = """kernel scans
  dims ROWS = 64, D = 256
  global X : f32[ROWS, D]
  global Y : f32[ROWS, D]
  over r in ROWS by 4
"""
MISTAKES = [
    ("cumsum(X[r], -1)", "E226", "`cumsum` goes along an axis by its name, not its number", "cumsum(X[r])"),
    ("cumprod(X[r], 0)", "E226", "`cumprod` goes along an axis by its name", "cumprod(X[r], r)"),
    ("cumsum(X[r], r)", "E226", "`cumsum` along `r` would be over only the block's tile of 4", None),
    ("cummax(X[r], q)", "E226", "`cummax` goes along an axis of its tile, and `q` is none", "write `D`"),
    ("cumsum(3)", "E226", "`cumsum` has no axis to go along", None),
    ("cumsum(X[r], D, 1)", "E200", "`cumsum` takes 1 or 2 arguments, not 3", None),
    ("torch.cumsum(X[r], dim=-1)", "E101", "functions and types have no prefix", "Y[r] = cumsum(X[r])"),
    ("tl.cumsum(X[r], axis=0)", "E101", "functions and types have no prefix", "Y[r] = cumsum(X[r], 0)"),
    ("X[r].cumsum(-1)", "E101", "functions come before their arguments", "Y[r] = cumsum(X[r], -1)"),
    ("prefix_sum(X[r])", "E200", "it is called `cumsum`", "cumsum"),
    ("scan(X[r])", "E200", "`scan` is not a function of equations", None),
    ("where(cumsum(X[r] > 0) > 1, 1, 0)", "E229", "`cumsum` takes a number, not a truth", None),
]


@pytest.mark.parametrize(("text", "code", "message", "written"), MISTAKES)
def test_mistakes(text: str, code: str, message: str, written: str | None) -> None:
    with pytest.raises(SpecError) as refused:
        load(f"{HEAD}  Y[r] = {text}\n").check()
    first = refused.value.diagnostics[0]
    assert first.code == code and message in first.message
    if written is not None:
        assert first.fix is not None and written in first.fix.text


def test_a_scan_beside_products_is_refused() -> None:
    text = """kernel product
  dims M = 128, N = 128, K = 64
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  over m in M by 128, n in N by 128
  shared A, B
  each k in K by 64
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = cumsum(c, n)
"""
    with pytest.raises(SpecError) as refused:
        load(text).check()
    (found,) = refused.value.diagnostics
    assert found.code == "E230" and "`cumsum` is in a kernel with products" in found.message


def test_two_directions_are_refused() -> None:
    with pytest.raises(SpecError) as refused:
        load(f"{HEAD.replace('over r in ROWS by 4', 'over q in ONE').replace('D = 256', 'D = 256, ONE = 1')}"
             "  Y[ROWS, D] = cumsum(cumsum(X[ROWS, D]), ROWS)\n").check()  # fmt: skip
    assert refused.value.diagnostics[0].code in ("E406", "E602")
