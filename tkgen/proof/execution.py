"""A program of the proof executed with data, in one order: what its agents do, and when what they started is done.

    outcome = execute(program, work, ORDERS[1])    # `work` says what each operation makes of what it finds

Where the proof speaks of all interleavings, this runs one, as a machine would: agents step by step, and every operation
that an agent started on a stream as a separate agent, which does its work at some moment between its issue and the
moment at which somebody knows it to be complete. An `Order` decides who is next. What an access finds is

- what was last written there, which may be another instance than the one that is meant;
- nothing (`lost`): where nobody has written, where an operation is on its way to write - bytes come in any order -, or
  where what was written by ordinary stores has met no fence and is read another way.

Barriers are counted as mbarriers are: a phase is complete when it has its arrivals and the bytes that were expected, a
wait is told its parity. A run in which nobody can go on is a deadlock and says who waits for what.

The proof finds what any order gets wrong, and more: it asks for the order, not for wrong data. A run that is right
proves nothing of the others. So this is no second proof, but a witness with numbers: it reads the data that the proof
reads, and what it finds wrong is wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

from tkgen.proof.program import Access, Arrive, Await, Commit, Do, Drain, Fence, Meet, Program, Step, check
from tkgen.targets.synchronisation import GENERIC, Completion

Cell = tuple[str, int, tuple[int, ...]]  # a ring, a slot, an element of it; () is a slot as one thing
Parts = tuple[Any, ...]  # what the cells of an access hold


class Work(Protocol):
    """The effect of operations on data."""

    def do(self, agent: int, step: Do, found: Sequence[Parts]) -> Sequence[Parts]:
        """Return the results of the writes of a step, given the values that its reads find."""

    def lost(self, agent: int, step: Do) -> None:
        """The same of a step that reads what nobody can know. Its writes are lost, too."""


@dataclass(frozen=True)
class Order:
    """The choice of the agent that goes on next.

    `agents`: each one step in `turn`, the `first` or the `last` that can go on, or at `random`, by the `seed`.
    Operations on a stream that is `early` are executed at once, on others when no agent can go on (the latest first, or
    the oldest where the last agent goes first), at random at any time.
    """

    agents: str = "turn"
    early: frozenset[str] | None = None  # None: all streams
    seed: int = 0

    def __str__(self) -> str:
        if self.agents == "random":
            return f"random {self.seed}"
        done = "all early" if self.early is None else " and ".join(sorted(self.early)) + " early"
        return f"{self.agents}, {done if self.early is None or self.early else 'all late'}"


def orders(count: int, streams: Sequence[str]) -> Iterator[Order]:
    """`count` of them: all that is asynchronous early, late, one stream early, one late; then at random."""
    one = [frozenset({s}) for s in streams]
    fixed = [Order(), Order("first", frozenset()), Order("last", frozenset())]
    fixed += [Order("turn", early) for early in dict.fromkeys((*one, *(frozenset(streams) - s for s in one)))]
    yield from fixed[:count]
    yield from (Order("random", seed=seed) for seed in range(1, count - len(fixed) + 1))


@dataclass(frozen=True)
class Outcome:
    """The result of a run: the number of executed steps, and the errors seen, in words."""

    steps: int
    findings: tuple[str, ...]


def execute(program: Program, work: Work, order: Order) -> Outcome:
    """One run of a program.

    Raises:
        ValueError: a step that its barrier or stream cannot be told (`tkgen.proof.program.check`).
    """
    check(program)
    return _Execution(program, work, order).run()


@dataclass(slots=True, eq=False)
class _Operation:
    """Something that was started, and whether it has done its work."""

    agent: int
    step: Do
    done: bool = False


@dataclass(slots=True)
class _Meeting:
    """The phase that a barrier is in, and what that lacks."""

    wanted: int
    phase: int = 0
    arrivals: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Contents:
    """The contents of a cell: `writers` are on their way to it, `unfenced` has written it and not fenced."""

    value: Any = None
    known: bool = False
    writers: list[_Operation] = field(default_factory=list)
    unfenced: int | None = None


class _Execution:
    """The state of one run."""

    def __init__(self, program: Program, work: Work, order: Order):
        self.program, self.work, self.order = program, work, order
        self.streams = {s.name: s for s in program.machine.streams}
        self.fences = {(f.source, f.target) for f in program.machine.fences}
        self.meetings = {m.name: _Meeting(m.arrivals, arrivals=m.arrivals) for m in program.meetings}
        self.places = {m.name: (m.place, 0, ()) for m in program.meetings if m.place}
        self.at = [0] * len(program.agents)
        self.entered: list[int | None] = [None] * len(program.agents)  # the phase that an agent in a Meet waits for
        self.cells: dict[Cell, _Contents] = {}
        self.started: list[_Operation] = []  # and not done
        self.groups: dict[tuple[int, str], list[list[_Operation]]] = {}
        self.ungrouped: dict[tuple[int, str], list[_Operation]] = {}
        self.random = random.Random(order.seed)
        self.turn = self.steps = 0
        self.all_steps = sum(len(agent.steps) for agent in program.agents)
        self.findings: dict[str, None] = {}

    def run(self) -> Outcome:
        """Everything, until nobody can go on."""
        while self._move():
            pass
        waiting = [a for a, made in enumerate(self.program.agents) if self.at[a] < len(made.steps)]
        for agent in waiting:
            self.findings[self._waits(agent)] = None
        if not waiting:
            self._end()
        return Outcome(self.steps, tuple(self.findings))

    # ------------------------------------------------------------ who is next

    def _move(self) -> bool:
        """One step of an agent, or one operation that was started; False where there is none, and at the end."""
        if self.steps == self.all_steps:
            return False
        if self.order.agents == "random":
            return self._any()
        early = self.order.early
        for op in self.started:
            if (early is None or op.step.stream in early) and self._can_do(op):
                self._perform(op)
                return True
        count = len(self.at)
        first = self.turn if self.order.agents == "turn" else 0
        numbers = [(first + n) % count for n in range(count)]
        for agent in reversed(numbers) if self.order.agents == "last" else numbers:
            if self._can_go(agent):
                self._step(agent)
                self.turn = agent + 1
                return True
        waiting = self.started if self.order.agents == "last" else reversed(self.started)
        late = next((op for op in waiting if self._can_do(op)), None)
        if late is not None:
            self._perform(late)
        return late is not None

    def _any(self) -> bool:
        agents = [a for a in range(len(self.at)) if self._can_go(a)]
        ops = [op for op in self.started if self._can_do(op)]
        if not agents and not ops:
            return False
        chosen = self.random.randrange(len(agents) + len(ops))
        if chosen < len(agents):
            self._step(agents[chosen])
        else:
            self._perform(ops[chosen - len(agents)])
        return True

    def _can_do(self, op: _Operation) -> bool:
        """Return True if nothing that must be done before it was started before it."""
        if not self.streams[op.step.stream].in_order:
            return True
        first = next(o for o in self.started if o.agent == op.agent and o.step.stream == op.step.stream)
        return first is op

    def _can_go(self, agent: int) -> bool:
        steps = self.program.agents[agent].steps
        if self.at[agent] == len(steps):
            return False
        match steps[self.at[agent]]:
            case Await(meeting=meeting, phase=phase):
                return self.meetings[meeting].phase % 2 != phase % 2
            case Meet(meeting=meeting):
                entered = self.entered[agent]
                return entered is None or self.meetings[meeting].phase > entered
            case Drain() as drain:
                return not self._outstanding(agent, drain)
        return True

    # ------------------------------------------------------------ steps

    def _step(self, agent: int) -> None:
        step = self.program.agents[agent].steps[self.at[agent]]
        match step:
            case Do(stream=""):
                self._do(agent, step, GENERIC, None)
            case Do():
                self._start(_Operation(agent, step))
            case Arrive():
                self._count(step.meeting, step.count, step.bytes)
            case Await():
                self._come(step.meeting)
            case Meet():
                if self.entered[agent] is None:
                    self.entered[agent] = self.meetings[step.meeting].phase
                    self._count(step.meeting, step.count, 0)
                    return  # it is done when the phase is
                self.entered[agent] = None
            case Commit(stream=stream):
                waiting = self.ungrouped.pop((agent, stream), [])
                self.groups.setdefault((agent, stream), []).append(waiting)
            case Fence():
                self._fence(agent, step)
        self.at[agent] += 1
        self.steps += 1
        self._leave(self.program.agents[agent].block)

    def _leave(self, block: str) -> None:
        """The memory of a block is gone when all of its agents have ended."""
        mine = (n for n, agent in enumerate(self.program.agents) if block and agent.block == block)
        if block and all(self.at[n] == len(self.program.agents[n].steps) for n in mine):
            self._contents((block, 0, ())).known = False

    def _start(self, op: _Operation) -> None:
        self.started.append(op)
        self.ungrouped.setdefault((op.agent, op.step.stream), []).append(op)
        for cell in (c for access in op.step.writes for c in _cells(access)):
            self._contents(cell).writers.append(op)

    def _perform(self, op: _Operation) -> None:
        """Execute an operation that was started."""
        self.started.remove(op)
        for cell in (c for access in op.step.writes for c in _cells(access)):
            self._contents(cell).writers.remove(op)
        self._do(op.agent, op.step, self.streams[op.step.stream].proxy, op)
        op.done = True
        if op.step.meeting:
            self._count(op.step.meeting, 0, -op.step.bytes)

    def _outstanding(self, agent: int, drain: Drain) -> bool:
        """Return True if more is under way than a wait leaves. A completed operation has read, and written."""
        if self.streams[drain.stream].completion is Completion.COUNTED:
            return any(not op.done for op in _all_but(self.ungrouped.get((agent, drain.stream), []), drain.left))
        groups = self.groups.get((agent, drain.stream), [])
        return any(not op.done for group in groups[: max(len(groups) - drain.left, 0)] for op in group)

    def _come(self, name: str) -> None:
        """Somebody arrives at a barrier, delivers there or waits for it: it must be set up, and its block there."""
        if name in self.places and not self._contents(self.places[name]).known:
            self.findings[f"`{name}` is used before it is set up, or when its block has ended"] = None

    def _count(self, name: str, arrivals: int, expected: int) -> None:
        self._come(name)
        meeting = self.meetings[name]
        if arrivals > meeting.arrivals:
            self.findings[f"`{name}` gets more arrivals than it expects"] = None
        meeting.arrivals -= arrivals
        meeting.bytes += expected
        if meeting.arrivals <= 0 and meeting.bytes == 0:
            meeting.phase += 1
            meeting.arrivals = meeting.wanted

    # ------------------------------------------------------------ data

    def _contents(self, cell: Cell) -> _Contents:
        return self.cells.setdefault(cell, _Contents())

    def _do(self, agent: int, step: Do, proxy: str, op: _Operation | None) -> None:
        found = [[self._read(agent, c, a.proxy or proxy, step.stream) for c in _cells(a)] for a in step.reads]
        made: Sequence[Parts | None] = [None] * len(step.writes)
        if all(known for parts in found for known, _ in parts):
            made = self.work.do(agent, step, [tuple(value for _, value in parts) for parts in found])
        else:
            self.work.lost(agent, step)
        for access, parts in zip(step.writes, made, strict=True):
            cells = list(_cells(access))
            for cell, value in zip(cells, parts or [None] * len(cells), strict=True):
                self._write(agent, cell, access.proxy or proxy, value, parts is not None)

    def _read(self, agent: int, cell: Cell, proxy: str, stream: str) -> tuple[bool, Any]:
        held = self._contents(cell)
        queued = bool(stream) and self.streams[stream].in_order
        beside = any(not (queued and w.agent == agent and w.step.stream == stream) for w in held.writers)
        unseen = held.unfenced is not None and (GENERIC, proxy) in self.fences
        return held.known and not beside and not unseen, held.value

    def _write(self, agent: int, cell: Cell, proxy: str, value: Any, known: bool) -> None:
        held = self._contents(cell)
        overtaken = held.unfenced is not None and (GENERIC, proxy) in self.fences  # what was stored may come later
        held.value, held.known = value, known and not overtaken
        if proxy == GENERIC:
            held.unfenced = agent

    def _fence(self, agent: int, step: Fence) -> None:
        for held in self.cells.values():
            if step.source == GENERIC and held.unfenced == agent:
                held.unfenced = None

    # ------------------------------------------------------------ the end

    def _end(self) -> None:
        """Execute the operations under way when the block ends; those on streams that must be
        finished find no memory.
        """
        for op in [op for op in self.started if not self.streams[op.step.stream].finish]:
            self._perform(op)
        for op in self.started:
            self.findings[f"under way when the block ends: {op.step}"] = None
        for held in self.cells.values():
            held.known = False
        while self.started:
            self._perform(self.started[0])

    def _waits(self, agent: int) -> str:
        """Describe an agent that waits for ever."""
        made = self.program.agents[agent]
        step: Step = made.steps[self.at[agent]]
        if isinstance(step, Drain):
            return f"{made.name} waits for ever for what it started on `{step.stream}`"
        assert isinstance(step, Await | Meet)
        meeting = self.meetings[step.meeting]
        lacks = [f"{meeting.arrivals} arrivals"] if meeting.arrivals > 0 else []
        lacks += [f"{meeting.bytes} parts on their way"] if meeting.bytes else []
        of = f"phase {step.phase} of " if isinstance(step, Await) else ""
        return f"{made.name} waits for ever for {of}`{step.meeting}`, whose phase {meeting.phase} lacks " + (
            " and ".join(lacks) or "nothing"
        )


def _all_but(ops: Sequence[_Operation], left: int) -> Sequence[_Operation]:
    """Those that have at least `left` after them."""
    later = 0
    for count in range(len(ops), 0, -1):
        if later >= left:
            return ops[:count]
        later += ops[count - 1].step.units
    return ()


def _cells(access: Access) -> Iterator[Cell]:
    return ((access.ring, access.slot, at) for at in product(*(range(lo, hi) for lo, hi in access.box)))
