"""Stores to computed positions: their meaning beside plain torch, their code on each machine, mutants of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sampling import only
from scatter_cases import CASES, Case
from torch import Tensor

from tkgen.api import load
from tkgen.backends.cdna import kittens
from tkgen.backends.hopper.host.run import run as run_on_host
from tkgen.build.model import Build
from tkgen.execute.compare import Inputs, compare, random_inputs
from tkgen.execute.launch import emulate, run
from tkgen.ir.meaning import evaluate
from tkgen.proof.execution import Order
from tkgen.report.facts import facts
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.metadata import read_resources
from tkgen.verify import verify
from tkgen.verify.ring import UnsupportedError

BY_NAME = {case.name: case for case in CASES}
EXTREMES = (-1, -(2**31), 2**31 - 1)


def given_to(case: Case, kind: str) -> dict[str, Tensor]:
    """Inputs whose positions are random, all one (unless they must be distinct), or all outside of the tensor."""
    launch = load(case.text).check().launch(case.sizes or None)
    given = random_inputs(launch, kind=Inputs.NORMAL)
    for name, size in case.positions.items():
        if kind == "one" and not case.distinct:
            given[name].fill_(size - 1)
        if kind == "outside":
            ends = torch.tensor([*EXTREMES, size], dtype=torch.int32)
            given[name] = ends[torch.arange(given[name].numel()) % 4].reshape(given[name].shape)
    return given


def right(case: Case, given: dict[str, Tensor], found: dict[str, Tensor], bounds: dict[str, Tensor]) -> None:
    """Assert that every stored element is what torch computes in f64, within its bound."""
    expected = case.reference({name: t if t.dtype is torch.int32 and name in case.positions else t.double()
                               for name, t in given.items()})  # fmt: skip
    assert set(expected) == set(found)
    for name, value in found.items():
        size = expected[name].abs().nan_to_num(posinf=0)
        assert compare(value, expected[name], bounds[name] + 1e-12 * size).right, name


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", ["random", "one", "outside"])
def test_meaning_is_what_torch_computes(case: Case, kind: str) -> None:
    given = given_to(case, kind)
    results = evaluate(load(case.text).check().program.kernel, given, {}, case.sizes)
    expected = case.reference({name: t if name in case.positions else t.double() for name, t in given.items()})
    assert set(expected) == set(results)
    for name, value in expected.items():
        torch.testing.assert_close(results[name].value, value, rtol=1e-12, atol=1e-12)


NAMES = "rows", "histogram", "segment extremes", "columns", "even and odd elements", "several times to one position"
SOME = [BY_NAME[name] for name in NAMES]


@pytest.mark.parametrize("case", only(CASES, SOME), ids=str)
def test_machine_code(case: Case) -> None:
    """The code of gfx942 stores what torch computes, whatever the positions are, and the referee sees no race."""
    spec = load(case.text, target="gfx942").check()
    build, launch = spec.build().check(), spec.launch(case.sizes or None)
    assert build.resources.clean
    for kind in ("random", "one", "outside"):
        given = given_to(case, kind)
        bounds = {name: r.bound for name, r in evaluate(spec.program.kernel, given, {}, case.sizes).items()}
        found, outcome = emulate(build, launch, given, {})
        assert not outcome.findings, outcome.findings
        right(case, given, found, bounds)


@pytest.mark.parametrize("case", only(CASES, SOME[1:3]), ids=str)
@pytest.mark.parametrize("target", only(["gfx90a", "gfx950"], ["gfx90a"]))
def test_machine_code_of_other_machines(case: Case, target: str) -> None:
    build = load(case.text, target=target).check().build().check()
    for kind in (Inputs.EXACT, Inputs.NORMAL):
        tried = run(build, extents=case.sizes or None, kind=kind)
        assert tried.ok, tried.failure


@pytest.mark.parametrize("case", only(CASES, SOME[:3]), ids=str)
def test_code_for_hopper(case: Case) -> None:
    """The C++ for sm_90a, executed on the CPU, and the model of its schedule."""
    spec = load(case.text, target="sm_90a").check()
    launch = spec.launch(case.sizes or None)
    for kind in ("random", "one", "outside"):
        given = given_to(case, kind)
        meant = evaluate(spec.program.kernel, given, {}, launch.extents, "hopper")
        bounds = {name: r.bound for name, r in meant.items()}
        for made in (
            run_on_host(spec, launch, given, {}, Order()),
            spec.modelled(launch, given, {}, Order()),
        ):
            assert not made.findings
            right(case, given, dict(made.outputs), bounds)


NOT_ATOMIC = "if (DW_row + D_in * 4 < tk::OUTSIDE) *DW_at.at(DW_row + D_in * 4) += DW_w.at[0];"
MUTANTS = {
    "a bound that is not looked for": ("embedding gradient", "TOKEN__held < DIM_V ?", "true ?"),
    "a position with a sign": ("embedding gradient", "TOKEN__held < DIM_V", "int(TOKEN__held) < DIM_V"),
    "the next position": ("embedding gradient", "TOKEN__held * DIM_D", "(TOKEN__held + 1) % DIM_V * DIM_D"),
    "a sum that is not atomic": ("embedding gradient", "tk::add_elements(DW_at, DW_row + D_in * 4, DW_w);", NOT_ATOMIC),
    "the position of another row": ("rows", "< DIM_M ? m__in * 4 :", "< DIM_M ? 0 :"),
    "a shift by one too many": ("the next row", "uint64_t(t_0 + 1)", "uint64_t(t_0 + 2)"),
}


@pytest.mark.parametrize("mutant", only(MUTANTS, ["a bound that is not looked for", "a sum that is not atomic"]))
def test_mutants_are_found(mutant: str) -> None:
    """Code with another position, bound or sum is refused: by the referee or its numbers, where the code is right."""
    name, old, new = MUTANTS[mutant]
    case = BY_NAME[name]
    spec = load(case.text, target="gfx942").check()
    build, launch, text = spec.build(machine_check=False), spec.launch(), spec.source.text
    assert old in text, text
    made = compile_device(text.replace(old, new), spec.target, build.compiler,
                          include_dirs=[kittens.include_dir()], source_name="mutant.cpp")  # fmt: skip
    assert made.asm is not None and made.hsaco is not None
    (resources,) = read_resources(made.hsaco).values()
    changed = replace(build, asm=made.asm, hsaco=made.hsaco, resources=resources)

    def refused(tried: Build) -> bool:
        for kind in ("random", "one", "outside"):
            given = given_to(case, kind)
            meant = evaluate(spec.program.kernel, given, {}, case.sizes)
            found, outcome = emulate(tried, launch, given, {})
            wrong = [n for n, r in meant.items() if not compare(found[n], r.value, r.bound).right]
            if outcome.findings or wrong:
                return True
        return False

    assert not refused(build)
    assert refused(changed)
    if "atomic" not in mutant and "sign" not in mutant:  # it runs one wave after the other, on positions near the ends
        assert verify(build).ok
        assert not verify(changed).ok


def test_two_writers_of_one_position_are_named() -> None:
    """Positions that are not distinct: the meaning names both rows, the referee both waves."""
    case = BY_NAME["rows"]
    spec = load(case.text, target="gfx942").check()
    given = given_to(case, "random")
    given["ROW"][3] = given["ROW"][30] = 7
    given["ROW"][(given["ROW"] == 7) & (torch.arange(37) != 3) & (torch.arange(37) != 30)] = -1
    with pytest.raises(ValueError, match=r"has the position \[7, 0\] twice: at m = 3, D = 0 and at m = 30, D = 0"):
        evaluate(spec.program.kernel, given)
    _, outcome = emulate(spec.build(), spec.launch(), given, {})
    (finding,) = outcome.findings
    assert finding.buffer == "Y" and finding.first.access == "writes"
    assert finding.second is not None and finding.second.access == "writes"


def test_some_blocks_of_a_launch() -> None:
    """Nothing changes but the elements to which the blocks store."""
    for name in ("embedding gradient", "rows", "columns"):
        build = load(BY_NAME[name].text, target="gfx942").check().build(machine_check=False)
        tried = run(build, [0, 3], kind=Inputs.NORMAL)
        assert tried.ok, f"{name}: {tried.failure}"


def test_a_sum_has_the_bound_of_its_own_terms() -> None:
    """The bound of an element is that of a sum of the values at its position in any order, of one value zero."""
    case = BY_NAME["embedding gradient"]
    given = given_to(case, "random")
    given["TOKEN"] = torch.arange(61, dtype=torch.int32) % 61
    given["TOKEN"][20:] = 5
    given["DY"] = torch.randn(61, 96, generator=torch.Generator().manual_seed(1)).bfloat16() * 1.0009765625
    result = evaluate(load(case.text).check().program.kernel, given)["DW"]
    values = given["DY"].double()
    terms = torch.cat([values[5:6], values[20:]])
    worst = (len(terms) - 1) * 2.0**-24 * terms.abs().sum(0)
    alone = torch.arange(20) != 5
    assert not result.bound[alone].any()
    assert bool(((result.bound[5] > 0) & (result.bound[5] <= worst * 1.01)).all())
    for seed in range(3):  # sums of f32 in other orders are within it
        order = torch.randperm(len(terms), generator=torch.Generator().manual_seed(seed))
        total = torch.zeros(96)
        for n in order:
            total = total + terms[n].float()
        assert bool(((total.double() - terms.sum(0)).abs() <= result.bound[5]).all())


TOP = """kernel top
  dims M = 40, N = 9, D = 72
  global SEGMENT : i32[M]
  global Q : i32[M, D]
  global TOP : i32[N, D]
  over m in M by 8
  waves 2
  TOP[SEGMENT[m]] min= Q[m]
"""


def test_verify_follows_extremes_of_integers_and_refuses_those_of_floats() -> None:
    """Elements to which nothing is stored hold the start; bits of floats that are compared are no numbers."""
    assert verify(load(TOP, target="gfx942").check().build(machine_check=False)).ok
    floats = load(TOP.replace("Q : i32", "Q : f32").replace("TOP : i32", "TOP : f32"), target="gfx942").check()
    with pytest.raises(UnsupportedError, match="`min=` of `TOP`: `tkgen verify` cannot follow floats"):
        verify(floats.build(machine_check=False))


def test_the_report_names_sums_whose_order_is_free() -> None:
    """Sums of f32 are named; counts, extremes and distinct stores do not depend on the order."""
    for name, sentence in (("segment sums of rows", "S is summed"), ("segment extremes", ""), ("rows", "")):
        found = facts(load(BY_NAME[name].text, target="gfx942").check())
        assert found.unordered.startswith(sentence) and bool(found.unordered) == bool(sentence)
