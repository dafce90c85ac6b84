"""The calculus of epochs and the general proof agree, program by program.

`pytest -m slow tests/schedule/test_executed_block.py` compares 20,000 random programs and all mutants of all specs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from executed_block import executed_block
from mutating.schedules import mutants
from random_programs import PASSES, case

import tkgen.api
from tkgen.ir.types import Program
from tkgen.proof.faults import Fault, Kind, faults
from tkgen.schedule.epochs import conflicts
from tkgen.schedule.plan import Plan
from tkgen.targets import load_target
from tkgen.tile.program import Role
from tkgen.tile.unroll import once

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.tk"))
MACHINE = load_target("gfx942").synchronisation
DATA = ("RAW", "WAR", "WAW", "unwritten")
Verdict = set[str] | None  # operands in whose buffers something is wrong; None where waves wait for ever


def by_epochs(program: Program, waves: Sequence[Role], *numbers: int) -> Verdict:
    found = conflicts(program, waves, *numbers)
    if any(c.kind == "barriers" for c in found):
        return None
    return {c.operand for c in found if c.kind in DATA}


def by_clocks(program: Program, waves: Sequence[Role], *numbers: int) -> Verdict:
    found = faults(once(executed_block(program, waves, *numbers), MACHINE, {}))
    if any(f.kind in (Kind.DEADLOCK, Kind.PHASE) for f in found):
        return None
    return {f.access.ring for f in found if f.access and not own_part(f)}


def own_part(fault: Fault) -> bool:
    """A wave that writes its part of a later K-step before that of an earlier one.

    Epochs leave that alone: whoever reads the earlier one then reads it too late, which they do find.
    """
    first, second = fault.first, fault.second
    return fault.kind is Kind.WAW and first is not None and second is not None and first.agent == second.agent


def compare_plan(plan: Plan) -> Verdict:
    passes = min(plan.passes_to_prove[0], plan.passes_to_repeat)
    numbers = (passes, plan.shape.unroll, plan.shape.steps(passes), plan.tiles_to_prove)
    found = by_epochs(plan.program, plan.waves, *numbers)
    assert found == by_clocks(plan.program, plan.waves, *numbers)
    return found


def compare_programs(seeds: range) -> list[int]:
    """Return how many are right, are wrong, and wait for ever."""
    counts = [0, 0, 0]
    for seed in seeds:
        made = case(seed)
        found = by_epochs(made.program, made.waves, PASSES, 1, PASSES)
        assert found == by_clocks(made.program, made.waves, PASSES, 1, PASSES), f"seed {seed}"
        counts[2 if found is None else bool(found)] += 1
    return counts


def test_they_agree_on_random_programs() -> None:
    assert min(compare_programs(range(400))) > 20


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_they_agree_on_every_spec(path: Path) -> None:
    assert compare_plan(tkgen.api.load(path).plan) == set()


@pytest.mark.parametrize("name", ["eight_wave", "ping_pong", "hk_8c4p_3", "persistent", "staged"])
def test_they_agree_on_mutants(name: str) -> None:
    plan = tkgen.api.load(SPECS[0].parent / f"{name}.tk").plan
    verdicts = [compare_plan(mutant.plan) for mutant in list(mutants(plan))[::11]]
    assert set() in verdicts and any(verdicts)


@pytest.mark.slow
def test_they_agree_on_20000_random_programs() -> None:
    assert min(compare_programs(range(400, 20_400))) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_they_agree_on_every_mutant(path: Path) -> None:
    for mutant in mutants(tkgen.api.load(path).plan):
        compare_plan(mutant.plan)
