"""Placement in a ring: right, and of all placements that are right the one with arrivals first and waits last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from small_programs import MACHINE

from tkgen.proof.faults import Kind
from tkgen.proof.passes import loop_faults, unbalanced
from tkgen.proof.program import Access, Arrive, Await, Commit, Do, Drain, Fence, Step
from tkgen.proof.ring import Pipeline, Place, Role, place, placed, with_places

X, Y, SUMS = Access("X", 0, 0), Access("Y", 0, 0), Access("sums", 0, 0)


def filling(by: str) -> tuple[Step, ...]:
    match by:
        case "copies":
            return tuple(Do(writes=(a,), stream="copy", bytes=64) for a in (X, Y))
        case "late copies":
            return (Fence("generic", "async"), *filling("copies"))
        case "loads":
            return (Do(writes=(X, Y), stream="vm"), Drain("vm"), Fence("generic", "async"))
        case "loads in flight":
            return (Do(writes=(X, Y), stream="vm"), Drain("vm", 1), Fence("generic", "async"))
        case "both":
            return (Do(writes=(X,), stream="copy", bytes=64), Do(writes=(Y,)), Fence("generic", "async"))
    return (Do(writes=(X,)), Do(writes=(Y,)), Fence("generic", "async"))


def reading(by: str, sums: str) -> tuple[Step, ...]:
    totals = (Access(sums, 0, 0), Access(sums, 1, 0))
    match by:
        case "products":
            return (Do((X, Y, totals[0]), (totals[1],), stream="mma"), Commit("mma"), Drain("mma"))
        case "products in flight":
            return (Do((X, Y, totals[0]), (totals[1],), stream="mma"), Commit("mma"), Drain("mma", 1))
        case "reads":
            return (Do(reads=(X,), stream="lds"), Drain("lds"), Do(reads=(Y,), stream="lds"), Drain("lds"))
    return (Do(reads=(X,)), Do(reads=(Y,)), Do(reads=(X,)))


FILLING = ("copies", "late copies", "loads", "loads in flight", "stores", "both")
READING = ("products", "products in flight", "reads", "alone")


def pipeline(fills: str, reads: str, slots: int, readers: int) -> Pipeline:
    roles = [Role("filling", filling(fills), behind=(Drain("vm"), Fence("generic", "async")))]
    for n in range(readers):
        zero: tuple[Step, ...] = (Do(writes=(Access(f"sums {n}", 0, 0),)), Fence("generic", "async"))
        roles.append(Role(f"reading {n}", reading(reads, f"sums {n}"), zero, (Drain("mma"),)))
    private = {f"sums {n}": 1 for n in range(readers)}
    return Pipeline(tuple(roles), frozenset("XY"), slots, private, MACHINE)


@pytest.mark.parametrize("reads", READING)
@pytest.mark.parametrize("fills", FILLING)
def test_placements_are_right(fills: str, reads: str) -> None:
    for slots, readers in product((3, 5), (1, 2, 3)):
        assert loop_faults(placed(pipeline(fills, reads, slots, readers)), 4) == []


@pytest.mark.parametrize(("fills", "reads"), list(zip(FILLING, READING * 2, strict=False)))
def test_placements_are_right_for_any_number_of_passes(fills: str, reads: str) -> None:
    assert loop_faults(placed(pipeline(fills, reads, 3, 2))) == []


def places(made: Pipeline, role: Role) -> Iterator[Place]:
    """All places of one wait and one arrival."""
    gaps = range(len(role.item) + 1)
    delivering = any(made.delivers(step) for step in role.item)
    yield from (Place(*values) for values in product(gaps, gaps, (0,) if delivering else range(made.slots)))


def order(at: Place) -> tuple[int, int]:
    """The order of arrivals."""
    return at.lag, at.arrive


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("reads", READING)
@pytest.mark.parametrize("fills", FILLING)
def test_no_other_placement_that_is_right_is_weaker(fills: str, reads: str, slots: int) -> None:
    made = pipeline(fills, reads, slots, 1)
    if (fills + reads).count("flight") >= slots:
        with pytest.raises(ValueError, match=f"more than {slots} slots"):
            placed(made)
        return
    ours = {role.name: place(made, role) for role in made.roles}
    for role in made.roles:
        delivers = all(made.delivers(s) for s in role.item if isinstance(s, Do))
        for other in places(made, role):
            if other != ours[role.name] and not loop_faults(with_places(made, ours | {role.name: other}), 4):
                assert other.wait <= ours[role.name].wait
                assert delivers or order(other) >= order(ours[role.name])


def test_each_arrival_and_each_wait_is_needed() -> None:
    loop = placed(pipeline("loads", "products", 2, 2))
    tried = 0
    for a, agent in enumerate(loop.agents):
        for n, step in enumerate(agent.body):
            if isinstance(step, Arrive | Await):
                fewer = replace(agent, body=(*agent.body[:n], *agent.body[n + 1 :]))
                less = replace(loop, agents=(*loop.agents[:a], fewer, *loop.agents[a + 1 :]))
                assert list(unbalanced(less)) or loop_faults(less)
                tried += 1
    assert tried == 3 * 2 * 2  # roles, slots, a wait and an arrival


@pytest.mark.parametrize(("fills", "slots"), [("copies", 1), ("loads in flight", 2)])
def test_a_ring_whose_slots_are_all_held_would_hang(fills: str, slots: int) -> None:
    few, enough = (pipeline(fills, "products in flight", n, 1) for n in (slots, slots + 1))
    with pytest.raises(ValueError, match=f"{slots} items are held at a time, so the ring must have more than {slots}"):
        placed(few)
    by_hand = with_places(few, {role.name: place(few, role) for role in few.roles})
    assert {f.kind for f in loop_faults(by_hand)} == {Kind.DEADLOCK}
    assert loop_faults(placed(enough)) == []


def test_somebody_must_fill_and_somebody_must_wait() -> None:
    reader = Role("reading", (Do(reads=(X,)),))
    with pytest.raises(ValueError, match="0 roles fill X"):
        placed(Pipeline((reader,), frozenset("X"), 2, {}, MACHINE))
    never = Role("reading", (Do(reads=(X,), stream="lds"),))
    with pytest.raises(ValueError, match="never waits"):
        placed(Pipeline((Role("filling", (Do(writes=(X,)),)), never), frozenset("X"), 2, {}, MACHINE))
