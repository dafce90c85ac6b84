"""A referee for the proof that knows nothing of clocks: it runs small programs in every interleaving there is.

Agents go on step by step, bytes are delivered at any time after their copy was issued, and operations on other streams
are complete as late as something waits for them. An access is wrong if it can be issued while one that must come before
it is not complete, or not fenced by its agent; a program also, if it can hang, if an arrival can count towards one
phase or another, or a wait be released by one or another, and if the block can end with copies under way that must not
be, or a block of a cluster before others come to the barriers that lie in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from tkgen.proof.program import Access, Arrive, Await, Commit, Do, Drain, Fence, Meet, Program, Step
from tkgen.targets.synchronisation import Completion

T = TypeVar("T")
Where = tuple[int, int]  # agent, position of a step
Counters = tuple[tuple[int, int, int], ...]  # of each meeting: phase, arrivals and bytes that it lacks


@dataclass(frozen=True)
class State:
    """Positions of the agents; `inside` is the phase for which one that has arrived waits; running copies."""

    at: tuple[int, ...]
    inside: tuple[int | None, ...]
    meetings: Counters
    flying: frozenset[Where]


@dataclass
class Verdict:
    """Findings of all interleavings."""

    hangs: bool = False
    differs: bool = False
    racing: set[str] = field(default_factory=set)
    unwritten: set[str] = field(default_factory=set)
    unfinished: bool = False
    states: int = 0


def explore(program: Program) -> Verdict:
    """The verdict over all interleavings."""
    return _Explorer(program).explore()


@dataclass(frozen=True)
class _Pair:
    """x comes before y; `either` pairs are wrong only if the other way round is, too."""

    x: Where
    y: Where
    ring: str
    needs_fence: tuple[str, str] | None
    reads: bool  # x reads
    either: bool


class _Explorer:
    def __init__(self, program: Program):
        self.program = program
        self.streams = {s.name: s for s in program.machine.streams}
        self.numbers = {m.name: n for n, m in enumerate(program.meetings)}
        self.verdict = Verdict()
        self.matched: dict[Where, int] = {}
        self.places = {m.name: m.place for m in program.meetings if m.place}
        self.drained = {
            (u, q, reads): self._drained(u, q, reads)
            for u, agent in enumerate(program.agents)
            for q, step in enumerate(agent.steps)
            if isinstance(step, Do)
            for reads in (False, True)
        }
        self.before: dict[Where, list[_Pair]] = {}
        for pair in self._pairs():
            self.before.setdefault(pair.y, []).append(pair)
        self.violated: set[tuple[Where, Where, str]] = set()

    def explore(self) -> Verdict:
        program = self.program
        counters = tuple((0, m.arrivals, 0) for m in program.meetings)
        first = State((0,) * len(program.agents), (None,) * len(program.agents), counters, frozenset())
        known, stack = {first}, [first]
        while stack:
            state = stack.pop()
            following = list(self._following(state))
            if all(at == len(a.steps) for at, a in zip(state.at, program.agents, strict=True)):
                self.verdict.unfinished |= any(self.streams[self._do(w).stream].finish for w in state.flying)
            elif not following:
                self.verdict.hangs = True
            for new in following:
                if new not in known:
                    known.add(new)
                    stack.append(new)
        for pair in (p for pairs in self.before.values() for p in pairs):
            turned = (pair.y, pair.x, pair.ring)
            if (pair.x, pair.y, pair.ring) in self.violated and (not pair.either or turned in self.violated):
                self.verdict.racing.add(pair.ring)
        self._static()
        self.verdict.states = len(known)
        return self.verdict

    def _come(self, state: State, meeting: str) -> None:
        """Somebody comes to a barrier, or looks whether a phase is complete: its block must be there."""
        place = self.places.get(meeting, "")
        mine = [n for n, agent in enumerate(self.program.agents) if place and agent.block == place]
        if place and all(state.at[n] == len(self.program.agents[n].steps) for n in mine):
            self.verdict.unfinished = True

    def _do(self, where: Where) -> Do:
        step = self.program.agents[where[0]].steps[where[1]]
        assert isinstance(step, Do)
        return step

    # ------------------------------------------------------------ the machine

    def _following(self, state: State) -> Iterator[State]:
        for flying in state.flying:
            step = self._do(flying)
            self._come(state, step.meeting)
            yield self._counted(state, flying, step.meeting, 0, -step.bytes, state.flying - {flying})
        for u, agent in enumerate(self.program.agents):
            if state.at[u] < len(agent.steps):
                yield from self._stepped(state, u)

    def _stepped(self, state: State, u: int) -> Iterator[State]:
        where = (u, state.at[u])
        step = self.program.agents[u].steps[state.at[u]]
        if isinstance(step, Do | Arrive | Await | Meet):
            self._check(state, where)
            self._come(state, step.meeting)
        match step:
            case Do():
                flying = state.flying
                if step.stream and self.streams[step.stream].completion is Completion.BYTES:
                    flying |= {where}
                yield State(_next(state.at, u), state.inside, state.meetings, flying)
            case Arrive():
                counted = self._counted(state, where, step.meeting, step.count, step.bytes, state.flying)
                yield State(_next(state.at, u), state.inside, counted.meetings, state.flying)
            case Meet() if state.inside[u] is None:
                phase = state.meetings[self.numbers[step.meeting]][0]
                counted = self._counted(state, where, step.meeting, step.count, 0, state.flying)
                yield State(state.at, _set(state.inside, u, phase), counted.meetings, state.flying)
            case Meet():
                inside = state.inside[u]
                if inside is not None and state.meetings[self.numbers[step.meeting]][0] > inside:
                    yield State(_next(state.at, u), _set(state.inside, u, None), state.meetings, state.flying)
            case Await():
                phase = state.meetings[self.numbers[step.meeting]][0]
                if phase % 2 != step.phase % 2:
                    self._match(where, phase)
                    yield State(_next(state.at, u), state.inside, state.meetings, state.flying)
            case _:
                yield State(_next(state.at, u), state.inside, state.meetings, state.flying)

    def _counted(
        self, state: State, where: Where, meeting: str, arrivals: int, bytes_: int, flying: frozenset[Where]
    ) -> State:
        number = self.numbers[meeting]
        phase, left, expected = state.meetings[number]
        self._match(where, phase)
        if arrivals > left:
            self.verdict.differs = True
        left, expected = left - arrivals, expected + bytes_
        if left <= 0 and expected < 0:
            self.verdict.differs = True  # more bytes than were expected
        if left <= 0 and expected == 0:
            phase, left = phase + 1, self.program.meetings[number].arrivals
        meetings = _set(state.meetings, number, (phase, left, expected))
        return State(state.at, state.inside, meetings, flying)

    def _match(self, where: Where, phase: int) -> None:
        if self.matched.setdefault(where, phase) != phase:
            self.verdict.differs = True

    # ------------------------------------------------------------ accesses

    def _check(self, state: State, where: Where) -> None:
        for pair in self.before.get(where, ()):
            if not self._is_before(state, pair):
                self.violated.add((pair.x, pair.y, pair.ring))

    def _is_before(self, state: State, pair: _Pair) -> bool:
        u, q = pair.x
        if state.at[u] <= q:
            return False
        step = self._do(pair.x)
        stream = self.streams.get(step.stream)
        complete: float | None
        if stream is None:
            complete = q + 1
        elif stream.completion is Completion.BYTES:
            complete = None
            if pair.x in state.flying:
                return False
        else:
            complete = self.drained[u, q, pair.reads]
            if complete is None or state.at[u] < complete:
                return stream.in_order and u == pair.y[0] and self._do(pair.y).stream == step.stream
        if pair.needs_fence is None:
            return True
        return complete is not None and any(
            isinstance(s, Fence) and (s.source, s.target) == pair.needs_fence and f >= complete
            for f, s in enumerate(self.program.agents[u].steps[: state.at[u]])
        )

    def _drained(self, u: int, q: int, reads: bool) -> int | None:
        """The position from which an operation on a counted stream, or in a group, is complete, or has read."""
        steps, mine = self.program.agents[u].steps, self._do((u, q))
        groups = mine.stream and self.streams[mine.stream].completion is Completion.GROUPS
        for p in range(q + 1, len(steps)):
            drain = steps[p]
            if isinstance(drain, Drain) and drain.stream == mine.stream and (reads or not drain.reads_only):
                between = steps[q + 1 : p]
                commits = [i for i, s in enumerate(between) if isinstance(s, Commit) and s.stream == mine.stream]
                if groups and commits and len(commits) - 1 >= drain.left:
                    return p + 1
                later = sum(s.units for s in between if isinstance(s, Do) and s.stream == mine.stream)
                if not groups and later >= drain.left:
                    return p + 1
        return None

    def _pairs(self) -> Iterator[_Pair]:
        found = [
            ((u, q), access, writes)
            for u, agent in enumerate(self.program.agents)
            for q, step in enumerate(agent.steps)
            for writes, access in self._accesses(step)
        ]
        rules = {(f.source, f.target): f.writes_only for f in self.program.machine.fences}
        for x, a, x_writes in found:
            for y, b, y_writes in found:
                if x == y or not (x_writes or y_writes) or not _overlap(a, b):
                    continue
                either = a.instance == b.instance and x_writes and y_writes
                if either or (a.instance, not x_writes) < (b.instance, not y_writes):
                    ways = (self._proxy(x, a), self._proxy(y, b))
                    fence = ways if ways in rules and (x_writes or not rules[ways]) else None
                    yield _Pair(x, y, a.ring, fence, not x_writes, either)

    def _accesses(self, step: Step) -> Iterator[tuple[bool, Access]]:
        """(does it write, what); who comes to a barrier reads whether it is set up."""
        if isinstance(step, Do):
            yield from ((True, access) for access in step.writes)
            yield from ((False, access) for access in step.reads)
        if isinstance(step, Do | Arrive | Await | Meet) and step.meeting in self.places:
            yield False, Access(self.places[step.meeting], 0, 0, proxy="generic")

    def _proxy(self, where: Where, access: Access) -> str:
        if access.proxy:
            return access.proxy
        stream = self.streams.get(self._do(where).stream)
        return stream.proxy if stream else "generic"

    def _static(self) -> None:
        """Find what no interleaving changes: reads of values that nobody writes, operations that nobody waits for."""
        written: set[tuple[str, int, int, tuple[int, ...]]] = set()
        dos = [(u, q, s) for u, a in enumerate(self.program.agents) for q, s in enumerate(a.steps) if isinstance(s, Do)]
        for _, _, step in dos:
            written |= {(a.ring, a.slot, a.instance, cell) for a in step.writes for cell in _cells(a)}
        for u, q, step in dos:
            for a in step.reads:
                there = a.instance == 0 and a.ring in self.program.initial
                if not there and any((a.ring, a.slot, a.instance, cell) not in written for cell in _cells(a)):
                    self.verdict.unwritten.add(a.ring)
            stream = self.streams.get(step.stream)
            if stream is not None and stream.finish and stream.completion is not Completion.BYTES:
                self.verdict.unfinished |= self.drained[u, q, not step.writes] is None


EXTENT = 2  # boxes of small programs have one dimension with so many elements


def _cells(access: Access) -> list[tuple[int, ...]]:
    (lo, hi), *rest = access.box or ((0, EXTENT),)
    assert not rest
    return [(i,) for i in range(lo, hi)]


def _overlap(a: Access, b: Access) -> bool:
    return (a.ring, a.slot) == (b.ring, b.slot) and bool(set(_cells(a)) & set(_cells(b)))


def _next(at: tuple[int, ...], u: int) -> tuple[int, ...]:
    return _set(at, u, at[u] + 1)


def _set(values: tuple[T, ...], n: int, value: T) -> tuple[T, ...]:
    return (*values[:n], value, *values[n + 1 :])
