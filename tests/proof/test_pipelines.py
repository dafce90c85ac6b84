"""A pipeline of copies and products: right as it stands, wrong after each slip, and proven for any number of passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from pipelines import Shape, pipeline

from tkgen.proof.faults import Fault, Kind, Lack, faults
from tkgen.proof.passes import loop_faults, passes_to_prove, unbalanced
from tkgen.proof.program import Access, Arrive, Await, Commit, Do, Drain, Fence, Loop, Looped, Meet, Meeting, Step

SHAPES = [Shape(*values) for values in product((1, 2, 3, 4), (1, 2, 3), (0, 1, 2)) if values[0] > values[2]]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pipelines_are_right(shape: Shape) -> None:
    assert loop_faults(pipeline(shape)) == []


def test_a_slot_that_is_held_by_products_cannot_be_waited_for() -> None:
    found = loop_faults(pipeline(Shape(slots=2, flight=2)))
    assert {f.kind for f in found} == {Kind.DEADLOCK}


def changed(loop: Loop, wanted: Callable[[Step], bool], change: Callable[[Step], Step | None]) -> Iterator[Loop]:
    """The loop with each step that is wanted changed, or left out, in turn."""
    for a, agent in enumerate(loop.agents):
        for segment in ("prologue", "body", "epilogue"):
            steps: tuple[Step, ...] = getattr(agent, segment)
            for n, step in enumerate(steps):
                if wanted(step):
                    new = change(step)
                    mended = (*steps[:n], *([new] if new else []), *steps[n + 1 :])
                    agents = (*loop.agents[:a], replace(agent, **{segment: mended}), *loop.agents[a + 1 :])
                    yield replace(loop, agents=agents)


def refused(loop: Loop) -> set[Kind] | str:
    """The kinds of fault, or that the loop is not balanced."""
    return "unbalanced" if list(unbalanced(loop)) else {f.kind for f in loop_faults(loop)}


def without(kind: type[Step], loop: Loop) -> list[set[Kind] | str]:
    return [refused(made) for made in changed(loop, lambda s: isinstance(s, kind), lambda s: None)]


LOOP = pipeline(Shape())


def altered(kind: type[Step], loop: Loop, change: Callable[[Any], Step]) -> list[set[Kind] | str]:
    """Verdicts with each step of that kind changed, where that changes it."""
    found = changed(loop, lambda s: isinstance(s, kind), change)
    return [refused(made) for made in found if made != loop]


def by(**amounts: int) -> Callable[[Any], Step]:
    """Adds to fields of a step that are not zero."""
    return lambda s: replace(s, **{n: getattr(s, n) + d for n, d in amounts.items() if getattr(s, n) or n != "bytes"})


def test_every_arrival_counts() -> None:
    for more in (-1, 1):
        for n, meeting in enumerate(LOOP.meetings):
            other = replace(meeting, arrivals=meeting.arrivals + more)
            if other.arrivals:
                assert refused(replace(LOOP, meetings=(*LOOP.meetings[:n], other, *LOOP.meetings[n + 1 :])))
    for kind in (Arrive, Meet):
        assert all(altered(kind, LOOP, by(count=1))) and all(without(kind, LOOP))


def test_every_byte_counts() -> None:
    for more in (-64, 64):
        found = altered(Arrive, LOOP, by(bytes=more))
        assert all(found) and len(found) == 4


def test_no_wait_is_for_another_phase() -> None:
    for more in (-1, 1):
        found = altered(Await, LOOP, by(phase=more))
        assert all(found) and len(found) == 12


def test_no_wait_is_needless_but_those_for_slots_that_nobody_has_used() -> None:
    found = without(Await, LOOP)
    assert len(found) == 12
    assert found.count(set()) == 1  # the copy of the peeled item, to a slot that is empty


def test_groups_are_waited_for() -> None:
    assert all(without(Drain, LOOP)) and all(without(Commit, LOOP))
    assert all(altered(Drain, LOOP, by(left=1)))


def test_a_store_is_waited_for_until_it_has_read() -> None:
    assert altered(Drain, LOOP, lambda s: replace(s, reads_only=s.stream == "bulk")) == [set()]
    stores = changed(LOOP, lambda s: isinstance(s, Drain) and s.stream == "bulk", lambda s: None)
    assert [refused(made) for made in stores] == [{Kind.UNFINISHED}]


def test_fences_stand_between_proxies() -> None:
    unfenced = list(changed(LOOP, lambda s: isinstance(s, Fence), lambda s: None))
    assert len(unfenced) == 4
    for made in unfenced:
        assert {f.lack for f in loop_faults(made)} == {Lack.FENCE}


def test_slots_are_not_used_early() -> None:
    def early(step: Step) -> Step:
        assert isinstance(step, Do)
        return replace(step, writes=tuple(replace(w, slot=(w.slot + 1) % 3) for w in step.writes))

    found = [refused(made) for made in changed(LOOP, lambda s: isinstance(s, Do) and s.stream == "copy", early)]
    assert all(found) and len(found) == 8


# ---------------------------------------------------------------- numbers of passes


def test_the_verdict_of_a_few_passes_is_that_of_many() -> None:
    loops = [pipeline(shape) for shape in SHAPES[::5]]
    loops += changed(pipeline(Shape(2, 1, 1)), lambda s: isinstance(s, Await | Drain | Fence), lambda s: None)
    verdicts = set()
    for loop in loops:
        if list(unbalanced(loop)):
            continue
        enough = passes_to_prove(loop)
        few, many = ({f.kind for f in faults(loop.unrolled(n))} for n in (enough, enough + 7))
        assert few == many
        verdicts.add(frozenset(few))
    assert len(verdicts) > 2


def overtaken(left: int) -> Loop:
    """Two agents: one loads before the loop, complete after some iterations; the other reads it after the loop."""
    loads = (Do(writes=(Access("X", 0, 0),), stream="vm"),)
    body = (Do(writes=(Access("Y", 0, 0),), stream="vm"), Drain("vm", left), Meet("all"))
    behind = (Do(reads=(Access("X", 0, 0),)), Do(writes=(Access("X", 1, 0),)))
    agents = (Looped("loads", loads, body), Looped("reads", (), (Meet("all"),), behind))
    return Loop(agents, (Meeting("all", 2),), {"X": 1, "Y": left + 2}, {"Y": 1, "all": 1}, LOOP.machine)


def drained_twice() -> Loop:
    """One agent loads before the loop: complete early in an iteration or, without iterations, late in the epilogue."""
    loads = (Do(writes=(Access("X", 0, 0),), stream="vm"),)
    passed, read = (Drain("vm", 0), Meet("all")), (Meet("all"), Do(reads=(Access("X", 0, 0),)))
    agents = (Looped("loads", loads, passed, (*(Do() for _ in range(8)), *passed)), Looped("reads", (), read, read))
    return Loop(agents, (Meeting("all", 2),), {"X": 1}, {"all": 1}, LOOP.machine)


def one_by_one(loop: Loop) -> list[Fault]:
    """`loop_faults`, with each number of passes run and looked at by itself."""
    enough = passes_to_prove(loop)
    return next((found for n in (enough, *range(enough)) if (found := faults(loop.unrolled(n)))), [])


def test_what_few_passes_share_with_many_is_looked_at_once() -> None:
    """The faults are those of each number by itself, also where many passes have none and few have one."""
    loops = [
        pipeline(Shape(2, 1, 0)),
        pipeline(Shape(3, 1, 1)),
        lagging(9, 11),
        lagging(9, 10),
        *map(overtaken, range(4)),
        drained_twice(),
    ]
    slips = [
        made
        for loop in loops
        for wanted, change in (
            (Await | Meet | Drain | Fence | Commit | Arrive, lambda s: None),
            (Await, by(phase=1)),
            (Drain, by(left=1)),
            (Do, lambda s: replace(s, reads=tuple(replace(a, instance=max(0, a.instance - 1)) for a in s.reads))),
        )
        for made in changed(loop, lambda s, kind=wanted: isinstance(s, kind), change)
    ]
    few = 0
    for loop in (*loops, *slips):
        if not list(unbalanced(loop)):
            found = one_by_one(loop)
            assert loop_faults(loop) == found
            few += bool(found) and not faults(loop.unrolled(passes_to_prove(loop)))
    assert few > 2


def test_a_loop_that_repeats_itself_has_the_verdict_of_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment after each iteration says the same as the number of iterations that is enough for any loop."""
    loops = [pipeline(Shape(2, 1, 0)), pipeline(Shape(3, 2, 1)), lagging(9, 11), lagging(9, 10), overtaken(2)]
    changes = (Await | Meet | Drain | Fence, lambda s: None), (Await, by(phase=1)), (Drain, by(left=1))
    loops += [
        made for loop in loops for wanted, change in changes
        for made in changed(loop, lambda s, kind=wanted: isinstance(s, kind), change)
    ]  # fmt: skip
    fewer, verdicts = 0, set()
    for loop in (loop for loop in loops if not list(unbalanced(loop))):
        enough, found = passes_to_prove(loop), {f.kind for f in loop_faults(loop)}
        with monkeypatch.context() as patch:
            patch.setattr("tkgen.proof.passes.MOST_TO_SETTLE", 0)
            fewer += enough < passes_to_prove(loop)
            assert bool(found) == bool(loop_faults(loop))
        verdicts.add(frozenset(found))
    assert fewer > 10 and len(verdicts) > 2


def lagging(left: int, slots: int) -> Loop:
    """A reader nine instances after a writer whose waits leave so many of its writes outstanding."""

    def write(i: int) -> Step:
        return Do(writes=(Access("X", i, i % slots),), stream="vm")

    writer = Looped("writer", tuple(write(i) for i in range(9)), (write(9), Drain("vm", left), Meet("all")))
    reader = Looped("reader", (), (Meet("all"), Do(reads=(Access("X", 0, 0),))))
    return Loop((writer, reader), (Meeting("all", 2),), {"X": slots}, {"X": 1, "all": 1}, LOOP.machine)


def test_waits_may_leave_what_is_read_passes_later() -> None:
    assert loop_faults(lagging(9, 11)) == []
    assert {f.kind for f in loop_faults(lagging(9, 10))} == {Kind.WAR}
    assert {f.kind for f in loop_faults(lagging(10, 11))} == {Kind.RAW}
