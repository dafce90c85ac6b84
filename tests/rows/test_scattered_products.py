"""Results of products that are stored to computed positions: their meaning and their code beside plain torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from sampling import only
from scatter_cases import inside
from scattered_product_cases import BY_NAME, CASES, Case
from torch import Tensor

from tkgen.api import load
from tkgen.backends.cdna import kittens
from tkgen.backends.hopper.host.run import run as run_on_host
from tkgen.build.model import Build
from tkgen.diagnostics import SpecError
from tkgen.execute.compare import Inputs, compare, random_inputs
from tkgen.execute.launch import emulate
from tkgen.ir.meaning import evaluate
from tkgen.proof.execution import Order
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.metadata import read_resources


def given_to(case: Case, kind: str) -> dict[str, Tensor]:
    """Inputs whose positions are random, all one (unless they must be distinct), or all outside of the tensor."""
    given = random_inputs(load(case.text).check().launch(), kind=Inputs.NORMAL)
    if case.of and kind == "one" and "distinct" not in case.text:
        given[case.of].fill_(case.rows - 1)
    if case.of and kind == "outside":
        ends = torch.tensor([-1, -(2**31), 2**31 - 1, case.rows], dtype=torch.int32)
        given[case.of] = ends[torch.arange(given[case.of].numel()) % 4]
    return given


def double(case: Case, given: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: t if name in (case.of, "FIRST") else t.double() for name, t in given.items()}


def refused(case: Case, build: Build, kind: str) -> str:
    """The outputs that are not those of torch, and what the race referee finds."""
    given = given_to(case, kind)
    meant = evaluate(build.spec.program.kernel, given)
    expected = case.reference(double(case, given))
    assert set(expected) == set(meant)
    found, outcome = emulate(build, build.spec.launch(), given, {})
    wrong = [str(f) for f in outcome.findings]
    for name, value in found.items():
        size = expected[name].abs().nan_to_num(posinf=0)
        if not compare(value, expected[name], meant[name].bound + 1e-12 * size).right:
            wrong.append(name)
    return ", ".join(wrong)


def refused_on_hopper(case: Case, spec: Any, kind: str, text: str = "", modelled: bool = False) -> str:
    """The same of the C++ for Hopper, or of `text` in its place, on the CPU; or of the model of its schedule."""
    given, launch = given_to(case, kind), spec.launch()
    meant = evaluate(spec.program.kernel, given, {}, launch.extents, "hopper")
    expected = case.reference(double(case, given))
    made = (spec.modelled(launch, given, {}, Order()) if modelled else
            run_on_host(spec, launch, given, {}, Order(), text=text or None))  # fmt: skip
    assert set(expected) == set(made.outputs)
    wrong = [str(f) for f in made.findings]
    for name, value in made.outputs.items():
        size = expected[name].abs().nan_to_num(posinf=0)
        if not compare(value, expected[name], meant[name].bound + 1e-12 * size).right:
            wrong.append(name)
    return ", ".join(wrong)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", ["random", "one", "outside"])
def test_meaning_is_what_torch_computes(case: Case, kind: str) -> None:
    given = given_to(case, kind)
    results = evaluate(load(case.text).check().program.kernel, given)
    for name, value in case.reference(double(case, given)).items():
        torch.testing.assert_close(results[name].value, value, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize(
    "case", only(CASES, [BY_NAME["experts"], BY_NAME["distinct rows"], BY_NAME["columns"]]), ids=str
)
@pytest.mark.parametrize("target", only(["gfx942", "gfx90a", "gfx950"], ["gfx942"]))
def test_machine_code(case: Case, target: str) -> None:
    """The code stores what torch computes, whatever the positions are, and the referee sees no race."""
    build = load(case.text, target=target).check().build().check()
    for kind in ("random", "one", "outside"):
        assert not refused(case, build, kind)


@pytest.mark.parametrize(
    "case", only(CASES, [BY_NAME[n] for n in ("experts", "beside a plain store, and reduced", "columns")]), ids=str
)
def test_code_for_hopper(case: Case) -> None:
    """The C++ for sm_90a, executed on the CPU, and the model of its schedule."""
    spec = load(case.text, target="sm_90a").check()
    for kind in ("random", "one", "outside"):
        assert not refused_on_hopper(case, spec, kind)
        assert not refused_on_hopper(case, spec, kind, modelled=True)


MUTANTS = {
    "a bound that is not looked for": ("experts", "if (ROW__at[r] < uint32_t(DIM_TOKENS)) ", ""),
    "the position of another row": ("experts", "size_t(ROW__at[r])", "size_t(ROW__at[r ^ 1])"),
    "the next position": ("distinct rows", "size_t(ROW__at[r])", "size_t(ROW__at[r] + 1)"),
    "columns past the end": ("distinct rows", "col < DIM_N && ", ""),
    "a shift by one too many": ("the next row", "size_t((row + 1))", "size_t((row + 2))"),
}


@pytest.mark.parametrize("mutant", only(MUTANTS, ["the position of another row"]))
def test_mutants_are_found(mutant: str) -> None:
    """Code with another position or bound is refused where the code is right."""
    name, old, new = MUTANTS[mutant]
    case = BY_NAME[name]
    spec = load(case.text, target="gfx942").check()
    build, text = spec.build(machine_check=False), spec.source.text
    assert old in text, text
    made = compile_device(text.replace(old, new), spec.target, build.compiler,
                          include_dirs=[kittens.include_dir()], source_name="mutant.cpp")  # fmt: skip
    assert made.asm is not None and made.hsaco is not None
    (resources,) = read_resources(made.hsaco).values()
    changed = replace(build, asm=made.asm, hsaco=made.hsaco, resources=resources)
    kinds = ("random", "outside")
    assert not any(refused(case, build, kind) for kind in kinds)
    assert any(refused(case, changed, kind) for kind in kinds)


HOPPER_MUTANTS = {
    "a bound that is not looked for": ("experts", "if (ROW__at[r] < uint32_t(50)) ", ""),
    "the position of another row": ("experts", "size_t(ROW__at[r])", "size_t(ROW__at[r ^ 1])"),
    "rows of the next group": ("experts", "row < walk.end ? uint32_t(", "true ? uint32_t("),
    "the next position": ("distinct rows", "size_t(ROW__at[r])", "size_t(ROW__at[r] + 1)"),
    "columns past the end": ("distinct rows", "col < 72 && ", ""),
    "a shift by one too many": ("the next row", "size_t((row + 1))", "size_t((row + 2))"),
    "a value in place of a sum": ("experts", "tk::add_to(", "tk::set_to("),
    "the columns of the first panel": ("experts", "tile_col * BLOCK_COLS + p * 32, [&](int row, int col, int r",
                                       "tile_col * BLOCK_COLS, [&](int row, int col, int r"),
}  # fmt: skip


@pytest.mark.parametrize("mutant", only(HOPPER_MUTANTS, ["rows of the next group", "a value in place of a sum"]))
def test_mutants_for_hopper_are_found(mutant: str) -> None:
    """C++ with another position, bound or combination stores something else than torch computes."""
    name, old, new = HOPPER_MUTANTS[mutant]
    case = BY_NAME[name]
    spec = load(case.text, target="sm_90a").check()
    text = spec.text
    assert old in text, text
    assert any(refused_on_hopper(case, spec, kind, text.replace(old, new)) for kind in ("random", "outside"))


@pytest.mark.parametrize("grid", ["split_k(2)", "stream_k(4)"])
def test_parts_of_sums_are_not_scattered(grid: str) -> None:
    with pytest.raises(SpecError, match="adds parts of sums, and `Y` is stored at computed positions"):
        load(CASES[0].text + f"  grid {grid}\n").check()


def test_inside() -> None:
    """The references drop negative positions and those past the end."""
    assert inside(torch.tensor([-1, 0, 3]), 3).tolist() == [False, True, False]
