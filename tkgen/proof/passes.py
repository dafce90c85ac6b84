"""Loops: how many iterations prove all numbers of iterations.

**Statement.** Let a loop be balanced (`unbalanced` finds nothing): each iteration brings every barrier a whole number
of phases, as many as its waits go on by, and as many bytes as it expects. Let A agents run it. Say that what counts
towards one phase, and the waits that it releases, are at most `spread` iterations apart, and accesses that must be
ordered at most `reach` iterations. Then a program of more than

    W = reach + 3 (A - 1) spread + 1

iterations has a fault iff the program of W + 1 iterations has one.

**Proof.** Iteration k + 1 is iteration k with instances and phases moved on; which accesses share a slot, and which
phases a parity can be taken for, depends on differences alone. So away from its ends a program looks the same from
iteration to iteration. x happens before y iff a path leads from the completion of x to y, whose edges are the order of
an agent's steps, and what counts towards a phase before the waits that it releases. A path that comes to an agent twice
can stay there between; so there is one with at most A - 1 edges between agents. Each goes forward or back by `spread`
iterations at most, all others go forward, and y is `reach` iterations from x at most: the path stays within (A - 1)
spread iterations before x and reach + 2 (A - 1) spread after it, W iterations in all. Those touch the prologue or the
epilogue, or neither, but not both if there are more; and so the same W iterations, with the same end of the loop in
them or none, occur in a program of W + 1 iterations. There the path exists, or not, as it does here. The conditions of
`tkgen.proof.clock` are such pairs, too (events of consecutive phases, 2 spread + 1 iterations apart at most, which
`reach` includes), and a deadlock is a path from an event to itself. A matching of arrivals and waits in phases, moved
on from iteration to iteration, that has no such path and meets the conditions, is that of every run
(`tkgen.proof.clock`); so `spread` is the same for all numbers of iterations.

**Fewer.** W is for the worst loop. Most repeat themselves at once: let the `Moment` after k + 1 iterations be the one
after k, each agent and barrier an iteration further; numbers of clocks may be constant if they are below all others of
their component. An iteration depends only on the moment before it, and only compares and joins numbers of one
component. So the next iteration does the same, an iteration further: smaller constants lose every comparison, as they
did before. By induction all iterations after k are copies of iteration k, also in the clocks of their events. Then a
program of more than N = k + reach + 2 iterations has a fault only if that of N iterations has one. Of a fault, y is at
most `reach` iterations after x. If y is in an iteration and x in iteration k or before it, the program of N iterations
has both; otherwise it has copies, whose clocks differ by the same. If y is in the epilogue, or is the end itself, x may
be moved towards it, up to iteration k + 1 of N: what is not known at a larger distance is not known at a smaller one,
since constants are below all points of copies.

Barriers that no step of the loop names, such as that of a cluster at its beginning, stay as they are. Their
clocks are constant, and an iteration does not ask for them; so these are other constants that must be below all others.

Where iterations rotate (`tkgen.proof.rotation`), the iteration after next has other barriers and slots in the places of
those of the next. Then all of this holds in the names of the first iteration.

Where an access of the loop goes to one instance in all iterations (its ring does not advance), only the nearest
iteration counts: of one step in successive iterations, what is known of a later one is known of the earlier ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import product

from tkgen.proof.clock import Moment, Run, Running
from tkgen.proof.faults import Fault, faults, faults_of
from tkgen.proof.program import Access, Arrive, Await, Box, Do, Drain, Loop, Meet, Meeting, Program, check

MOST_TO_SETTLE = 16  # iterations after which a loop that does not repeat itself is proven by W


def loop_faults(loop: Loop, passes: int | None = None) -> list[Fault]:
    """Everything that goes wrong in a loop of so many iterations; None: of any number, none included.

    The faults of the first number of iterations that has any.

    Raises:
        ValueError: the loop is not balanced.
    """
    if said := list(unbalanced(loop)):
        raise ValueError("; ".join(said))
    runs = _Runs(loop)
    enough = _enough(runs)
    if passes is not None and passes < enough:
        return faults(loop.unrolled(passes))
    made, _ = runs.of(enough)
    alone = made.stuck or made.unmatched  # a run of this program alone says where it hangs
    found = faults(loop.unrolled(enough)) if alone else faults_of(made)
    if found or passes is not None:
        return found
    return next(filter(None, (faults_of(*runs.of(fewer)) for fewer in range(enough))), [])


class _Runs:
    """A run of each number of iterations of a loop. All begin alike: what they have in common is executed once."""

    def __init__(self, loop: Loop):
        check(loop.unrolled(1))
        self.loop = loop
        self.begun = Running(loop.unrolled(0))
        self.made: list[tuple[Run, list[int]]] = []
        self.drained = {
            step.stream for a in loop.agents for step in a.body if isinstance(step, Drain) and not step.reads_only
        }
        named = {getattr(step, "meeting", "") for a in loop.agents for step in a.body} | loop.rotation.keys()
        self.met = {n for n, m in enumerate(loop.meetings) if m.name in named}
        self.moments: list[Moment | None] = []  # behind each number of iterations; None where an agent still waits

    def of(self, iterations: int) -> tuple[Run, list[int]]:
        """A run of the program, and the number of events of each agent that come before the epilogue."""
        for count in range(len(self.made), iterations + 1):
            begun = self.loop.unrolled(count, epilogue=False)
            self.begun.go(begun)
            through = all(len(done) == len(a.steps) for done, a in zip(self.begun.events, begun.agents, strict=True))
            self.moments.append(self._moment(count) if through else None)
            whole = self.begun.copy()
            whole.go(self.loop.unrolled(count))
            self.made.append((whole.ended(), [len(events) for events in self.begun.events]))
        return self.made[iterations]

    def repeats(self, iterations: int) -> bool:
        """Return True if each iteration after so many leaves all as the one before it did, but further on."""
        self.of(iterations + 1)
        before, after = self.moments[iterations : iterations + 2]
        if before is None or after is None or not after.repeats(before):
            return False
        further = (b - a for a, b in zip(before.now[before.agents :], after.now[after.agents :], strict=True))
        places = (self.loop.place(m.name, iterations)[0] for m in self.loop.meetings)
        return all(by == self.loop.advance.get(name, 0) for by, name in zip(further, places, strict=True))

    def _moment(self, count: int) -> Moment:
        """The moment after `count` iterations, in the names of the first one's barriers."""
        numbers = {m.name: n for n, m in enumerate(self.loop.meetings)}
        barriers = [numbers[self.loop.place(m.name, count)[0]] for m in self.loop.meetings]
        return self.begun.moment(self.drained, barriers, self.met)


def first_wrong(loop: Loop, once: bool = False) -> str | None:
    """In words what goes wrong first in a loop of any number of iterations, or of one; None where nothing does."""
    if not once and (found := next(unbalanced(loop), None)):
        return found
    if not (wrong := faults(loop.unrolled(1)) if once else loop_faults(loop)):
        return None
    fault = wrong[0]
    where = f" of `{fault.access.ring}`" if fault.access else f" at `{fault.stuck.meeting}`" if fault.stuck else ""
    return f"{fault.kind.value}{where}"


def unread(loop: Loop, once: bool = False) -> str | None:
    """Name a value that an iteration writes and nobody reads; None where each instance is read.

    Races do not show it: a block whose last sums are never stored is ordered as well as one that stores them. The next
    iteration may read a value, unless there is only `once`.
    """
    (written, _), (_, read) = (_instances(loop.unrolled(passes)) for passes in (1, 1 if once else 2))
    missing = written - read
    return None if not missing else f"nobody reads what is written of `{min(missing)[0]}`"


def _instances(program: Program) -> tuple[set[tuple[str, int, Box]], set[tuple[str, int, Box]]]:
    """Return the written and the read elements: ring, instance, element or slot; the places of
    barriers count as read.
    """
    places = {(m.place, 0, ()) for m in program.meetings if m.place}
    found: tuple[set[tuple[str, int, Box]], set[tuple[str, int, Box]]] = set(), {*places}
    for step in (step for agent in program.agents for step in agent.steps if isinstance(step, Do)):
        for into, accesses in zip(found, (step.writes, step.reads), strict=True):
            for a in accesses:
                parts = product(*([(at, at + 1) for at in range(lo, hi)] for lo, hi in a.box))
                into.update((a.ring, a.instance, part) for part in parts)
    return found


def unbalanced(loop: Loop) -> Iterator[str]:
    """Barriers to which an iteration brings other than the phases that it goes on by, or other bytes than it expects.

    With enough passes, waits for these hang or are released by another phase.
    """
    arrivals: Counter[str] = Counter()
    bytes_: Counter[str] = Counter()
    for agent in loop.agents:
        for step in agent.body:
            if isinstance(step, Arrive | Meet):
                arrivals[step.meeting] += step.count
            if isinstance(step, Arrive):
                bytes_[step.meeting] += step.bytes
            elif isinstance(step, Do) and step.meeting:
                bytes_[step.meeting] -= step.bytes
    for name, circle in _circles(loop):
        wanted = sum(m.arrivals * loop.advance.get(m.name, 0) for m in circle)
        arrived, expected = (sum(found[m.name] for m in circle) for found in (arrivals, bytes_))
        if arrived != wanted:
            yield f"`{name}` gets {arrived} arrivals a pass, its phases take {wanted}"
        if expected:
            yield f"`{name}` expects {expected} bytes a pass more than are delivered"


def _circles(loop: Loop) -> Iterator[tuple[str, list[Meeting]]]:
    """The barriers that take each other's place from iteration to iteration, by the name of the first; most are alone.

    In as many iterations as there are each of them gets what all of them get in one.
    """
    left = {m.name: m for m in loop.meetings}
    for first in [*left]:
        circle, name = [], first
        while name in left:
            circle.append(left.pop(name))
            name = loop.rotation.get(name, name)
        if circle:
            yield first, circle


def passes_to_prove(loop: Loop) -> int:
    """At least W + 1; or, where that many iterations hang or match differently, a number of iterations that does."""
    return _enough(_Runs(loop))


def _enough(runs: _Runs) -> int:
    reach, settled, needed = _reach(runs.loop), 0, 2
    while True:
        settled += 1
        made, _ = runs.of(settled)
        if made.stuck or made.unmatched:
            return settled
        if settled < MOST_TO_SETTLE and runs.repeats(settled):
            return settled + reach + 2
        if settled == needed:  # W + 1 of the spread that was found, which more iterations may raise
            spread = _spread(runs.loop, made, settled)
            needed = max(reach, 2 * spread + 1) + 3 * (len(runs.loop.agents) - 1) * spread + 2
            if needed <= settled:
                return settled


def _spread(loop: Loop, made: Run, passes: int) -> int:
    """By how many iterations what touches one phase is apart, at most."""
    pass_of = [[k for _, k in loop.steps(agent, passes)] for agent in loop.agents]
    touched: dict[tuple[str, int], list[int]] = defaultdict(list)
    for events in made.events:
        for e in events:
            if isinstance(e.step, Arrive | Await | Meet | Do) and e.step.meeting and e.phase >= 0:
                touched[e.step.meeting, e.phase].append(pass_of[e.agent][e.position])
    return max((max(found) - min(found) for found in touched.values()), default=0)


def _reach(loop: Loop) -> int:
    """By how many iterations accesses that must be ordered are apart, at most.

    They are of one instance, or of two that are as many instances apart as the ring has slots.
    """
    first: dict[str, list[int]] = defaultdict(list)
    for agent in loop.agents:
        for access in _accesses(agent.body):
            first[access.ring].append(access.instance)
    return max(
        ((max(found) - min(found) + loop.slots[ring]) // by for ring, found in first.items()
         if (by := loop.advance.get(ring, 0))),
        default=1,
    )  # fmt: skip


def _accesses(steps: Iterable[object]) -> Iterator[Access]:
    for step in steps:
        if isinstance(step, Do):
            yield from (*step.reads, *step.writes)
