"""The quick search for plans against the calculus itself: the same verdicts, and waits for as little as possible."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from random_programs import PASSES, Case, case, refilled

from tkgen.api import load_products
from tkgen.schedule.epochs import conflicts, executed
from tkgen.schedule.orders import Unrolled, orders
from tkgen.schedule.plan import Plan
from tkgen.schedule.traces import NEVER, Event, trace
from tkgen.tile.ops import Barrier, Fence
from tkgen.tile.program import Drain, Op, Part, Role

SPECS = Path(__file__).parent.parent.parent / "specs"
SMALL = {"M": 512, "N": 512, "K": 512}
FEW = {"persistent": {"M": 1024, "N": 1024, "K": 256}}
PLANNED = (
    "ping_pong",
    "hk_ping_pong",
    "hk_half_tiles",
    "hk_8c4p_2",
    "persistent",
    "linear_softmax",
    "no_lds",
    "staged",
)


def planned(name: str) -> Plan:
    path = SPECS / f"{name}.tk"
    sizes = {dim.name for dim in load_products(path).program.dims if dim.name}
    wanted = {k: v for k, v in FEW.get(name, SMALL).items() if k in sizes}
    return load_products(path, wanted).plan


def loosened(plan: Plan, rng: random.Random) -> Plan:
    """A plan with some barriers, waits or fences fewer, in the programs of all waves, and looser waits."""
    made: dict[tuple[str, Part], tuple[Op, ...]] = {}
    numbers = [rng.random() for _ in range(400)]
    waves: list[Role] = []
    for wave in plan.waves:
        for part in Part:
            if (wave.name, part) not in made:
                made[wave.name, part] = _loosened(wave.ops(part), rng, numbers)
            wave = wave.with_ops(part, made[wave.name, part])
        waves.append(wave)
    return replace(plan, waves=tuple(waves))


def _loosened(ops: tuple[Op, ...], rng: random.Random, numbers: list[float]) -> tuple[Op, ...]:
    """Barriers go by their number, so that all roles lose the same; the rest as it comes."""
    kept: list[Op] = []
    meetings = 0
    for p in ops:
        gone = rng.random() < 0.04
        if isinstance(p, Barrier):
            gone, meetings = numbers[meetings] < 0.02, meetings + 1
        if isinstance(p, Drain) and rng.random() < 0.04:
            p = replace(p, left=str(p.count + 1))
        if not (isinstance(p, Barrier | Drain | Fence) and gone):
            kept.append(p)
    return tuple(kept)


@pytest.mark.parametrize("name", PLANNED)
def test_a_list_of_orders_says_of_looser_plans_what_the_calculus_says(name: str) -> None:
    plan = planned(name)
    assert not plan.conflicts()
    passes = plan.passes_to_prove[0]
    unrolled = Unrolled(plan.program, passes, plan.shape.unroll, plan.shape.steps(passes), plan.tiles_to_prove)
    must = orders(unrolled, plan.waves)
    assert must.kept(unrolled, plan.waves)
    counts: Counter[bool] = Counter()
    for seed in range(20):
        other = loosened(plan, random.Random(seed))
        found = conflicts(
            plan.program, other.waves, passes, plan.shape.unroll, plan.shape.steps(passes), plan.tiles_to_prove
        )
        assert must.kept(unrolled, other.waves) == (not found), seed
        counts[not found] += 1
    assert counts[True] and (counts[False] or name == "no_lds"), counts


def test_what_is_wrong_with_data_no_barrier_mends() -> None:
    plan = planned("ping_pong")
    waves = tuple(w.with_ops(Part.BODY, (p for p in w.ops(Part.BODY) if p.word != "read")) for w in plan.waves)
    passes = plan.passes_to_prove[0]
    unrolled = Unrolled(plan.program, passes, plan.shape.unroll, plan.shape.steps(passes), plan.tiles_to_prove)
    assert orders(unrolled, waves).hopeless


@pytest.mark.parametrize("make", [case, refilled])
@pytest.mark.parametrize("tiles", [1, 2])
def test_waves_of_another_phase_do_the_same_later(make: object, tiles: int) -> None:
    """Their moves are not walked along again: they begin and are complete as if they were."""
    assert callable(make)
    later = 0
    for seed in range(150):
        made = phased(make(seed), seed)
        last = max(w.phase for w in made.waves)
        found = executed(made.program, made.waves, PASSES, 1, PASSES, tiles)
        for wave, moves in zip(made.waves, found, strict=True):
            alone = trace(made.program, wave, PASSES, 1, PASSES, tiles, last)
            ends = max((e.order for e in alone if e.op.operand), default=0) if wave.phase == last else NEVER
            walked, derived = ([_times(e, ends) for e in each if e.op.operand] for each in (alone, moves))
            assert walked == derived, seed
            later += wave.phase > 0 and bool(derived)
    assert later > 50


def phased(made: Case, seed: int) -> Case:
    """The case whose roles of several waves do the same in phases."""
    rng = random.Random(seed)
    waves: list[Role] = []
    for wave in made.waves:
        split = rng.randrange(len(wave.waves) + 1)
        groups = ((wave.phase, wave.waves[:split]), (wave.phase + rng.choice([1, 2, 3]), wave.waves[split:]))
        waves += [replace(wave, phase=phase, waves=group) for phase, group in groups if group]
    return Case(made.program, tuple(waves))


def _times(e: Event, ends: float) -> tuple[object, ...]:
    """After its last move the last wave has no barrier that would complete anything, and nobody begins anything."""
    done = (e.done, e.completed) if e.completed <= ends else (NEVER, NEVER)
    return e.op, e.tile, e.step, e.order, e.begin, e.section, *done


@pytest.mark.parametrize("name", ["hk_ab", "hk_8c4p_3", "hk_12c4p_2", "hk_eight_wave"])
def test_waits_leave_as_much_in_flight_as_may_be(name: str) -> None:
    """One operation more, at any place where tkgen counted, is a race."""
    plan = planned(name)
    counted = 0
    for role in plan.role_names:
        for part in Part:
            ops = plan.waves_of(role)[0].ops(part)
            for at, placed in enumerate(ops):
                op = placed
                if not isinstance(op, Drain) or not op.automatic or op.stream != "vm":
                    continue
                looser = replace(op, left=str(op.count + 1))
                assert plan.with_ops(role, part, (*ops[:at], looser, *ops[at + 1 :])).conflicts(), placed
                counted += 1
    assert counted
