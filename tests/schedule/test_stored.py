"""Stores as terms: right for every spec; for mutants, the same findings as the search along each wave, and no more.

`pytest -m slow tests/schedule/test_stored.py` tries all mutants of all specs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from mutating.schedules import mutants

import tkgen.api
from tkgen.backends.cdna.lower.render import lower
from tkgen.checks.sync import check
from tkgen.ir.verifier import Broken
from tkgen.schedule.epochs import conflicts
from tkgen.schedule.plan import Plan
from tkgen.schedule.stored import Wrong, wrong_stores
from tkgen.tile.ops import Fetch, Multiply, Store, Zero
from tkgen.tile.program import Op, Part

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.tk"))
VALUES = {"products", "zero", "register", "stores", "staging"}


def plan_of(name: str) -> Plan:
    return tkgen.api.load(SPECS[0].parent / f"{name}.tk").plan


def numbers(plan: Plan) -> tuple[int, int, int, int]:
    passes = min(plan.passes_to_prove[0], plan.passes_to_repeat)
    return passes, plan.shape.unroll, plan.shape.steps(passes), plan.tiles_to_prove


def wrong(plan: Plan) -> list[Wrong]:
    return wrong_stores(plan.program, plan.waves, *numbers(plan))


def compare(plan: Plan, every: int) -> set[bool]:
    """The verdicts of terms, each held against that of the calculus."""
    verdicts = set()
    source = lower(plan, "gfx950", "a.tk").text
    for mutant in list(mutants(plan))[::every]:
        found = conflicts(mutant.plan.program, mutant.plan.waves, *numbers(mutant.plan))
        terms = bool(wrong(mutant.plan))
        verdicts.add(terms)
        assert found or not terms, f"{mutant.kind}: {mutant.what}"
        if {c.kind for c in found} & VALUES and not terms:
            # A multiply may name another slice, or a read another K-step, than the registers or the buffer hold: only
            # the names are wrong, and none of them is in the code.
            assert lower(mutant.plan, "gfx950", "a.tk").text == source, f"{mutant.kind}: {mutant.what}"
    return verdicts


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_stores_what_it_means(path: Path) -> None:
    assert wrong(tkgen.api.load(path).plan) == []


@pytest.mark.parametrize("name", ["hk_8c4p_2", "ping_pong", "persistent", "staged", "subtiles_16"])
def test_mutants_store_something_else_where_the_walk_says_so(name: str) -> None:
    assert compare(plan_of(name), 9) == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_all_mutants_store_something_else_where_the_walk_says_so(path: Path) -> None:
    compare(tkgen.api.load(path).plan, 1)


def changed(plan: Plan, part: Part, kind: type[Op], *new: Op | None) -> Plan:
    """The plan with the first such operation of a part left out, or doubled."""
    (wave,) = plan.waves
    ops = wave.ops(part)
    at = next(n for n, p in enumerate(ops) if isinstance(p, kind))
    kept = [p or ops[at] for p in new]
    return plan.with_ops(wave.name, part, (*ops[:at], *kept, *ops[at + 1 :]))


def test_wrong_sums_are_told_by_what_they_lack_and_what_they_have_besides() -> None:
    plan = plan_of("double_buffer")
    fragments = len({w.fragment for w in wrong(changed(plan, Part.EPILOGUE, Store))})
    rows, cols = plan.program.accumulator.fragments
    assert fragments == rows * cols
    assert {w.times for w in wrong(changed(plan, Part.EPILOGUE, Store))} == {0}
    assert {w.times for w in wrong(changed(plan, Part.EPILOGUE, Store, None, None))} == {2}
    steps = numbers(plan)[2]
    unread = wrong(changed(plan, Part.EPILOGUE, Multiply))
    assert {(w.missing, w.extra) for w in unread} == {(tuple((steps - 1, t) for t in range(plan.program.slices)), 0)}
    twice = wrong(changed(plan, Part.EPILOGUE, Multiply, None, None))
    assert {(w.missing, w.extra) for w in twice} == {((), plan.program.slices)}
    assert {(w.missing, w.extra) for w in wrong(changed(plan, Part.PROLOGUE, Zero))} == {((), 1)}


def test_a_buffer_holds_what_was_written_to_it() -> None:
    """Writes of staged registers carry what was fetched, so the wrong fetch is a wrong sum."""
    plan = plan_of("staged")
    (wave,) = plan.waves
    body = tuple(op.moved(op.at, -1) if isinstance(op, Fetch) else op for op in wave.ops(Part.BODY))
    assert {w.product for w in wrong(plan.with_ops(wave.name, Part.BODY, body))} == {plan.program.products[0].name}


def test_a_plan_that_the_calculus_takes_though_it_stores_something_else_is_not_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second proof of every check: as if the calculus were blind."""
    plan = plan_of("double_buffer")
    blind = changed(plan, Part.BODY, Multiply)
    assert check(plan, plan.target) == [] and blind.conflicts()
    monkeypatch.setattr(Plan, "conflicts", lambda self: [])
    assert check(plan, plan.target) == []
    with pytest.raises(Broken, match="stored"):
        check(blind, plan.target)
