"""The form of programs over which the proof works: what each agent does, where it completes, where agents meet.

    Program   agents, barriers, streams, fences, rings
    Agent     one instruction stream (a wave, a warpgroup, the thread that issues copies) as steps in machine order
    Step      Do | Arrive | Await | Meet | Commit | Drain | Fence
    Access    a box of one slot of a ring, as instance i of the value that lives there

Nothing here knows of a GPU: what streams, barriers and fences there are, targets say (`tkgen.targets.synchronisation`).
Nor is there any arithmetic on data: an operation is what it reads and what it writes.

**Sequential meaning.** A ring holds the instances 0, 1, 2, ... of a value, each in the slot that its accesses name. The
unscheduled iteration defines instance after instance: the writes of i, the reads of i, the writes of i + 1. Where two
accesses touch common elements of a slot and one writes, that is the order in which they must come; nothing else is
required. A value that is updated in place is a new instance at each update. Registers are rings like any other, of one
agent.

**Loops** are unrolled: a `Loop` is a prologue, the steps of one iteration, an epilogue, and by how many instances of
each ring, and phases of each barrier, an iteration goes on. How many iterations prove all of them:
`tkgen.proof.passes`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TypeVar

from tkgen.targets.synchronisation import NOTHING, Completion, Synchronisation

Box = tuple[tuple[int, int], ...]  # a half-open range of elements in each dimension; () is a slot as one thing


@dataclass(frozen=True)
class Access:
    """Elements `box` of `slot` of a ring, which hold `instance` of its value.

    `proxy` is the way to memory where it is not that of the operation's stream.
    """

    ring: str
    instance: int
    slot: int
    box: Box = ()
    proxy: str = ""

    def __str__(self) -> str:
        box = "" if not self.box else " " + " x ".join(f"{lo}..{hi - 1}" for lo, hi in self.box)
        return f"{self.ring}[{self.instance}] in slot {self.slot}{box}"


@dataclass(frozen=True)
class Do:
    """An operation on data.

    Without a `stream` it is complete when it is done. Else it goes on while its agent goes on: on a counted stream as
    `units` operations, on one of bytes until it has delivered `bytes` on `meeting`. Its agent waits at once for what is
    `waited`. Of operations that may be issued in any order the first one counts for all, the others 0. `does` says what
    it makes of what it reads, for those who execute it (`tkgen.tile.stored`).
    """

    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    stream: str = ""
    units: int = 1
    meeting: str = ""
    bytes: int = 0
    waited: bool = False
    name: str = ""
    does: tuple[Hashable, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return self.name or "; ".join([*(f"read {a}" for a in self.reads), *(f"write {a}" for a in self.writes)])


@dataclass(frozen=True)
class Arrive:
    """`count` arrivals at a barrier, without waiting; with them, `bytes` more are expected there."""

    meeting: str
    count: int = 1
    bytes: int = 0


@dataclass(frozen=True)
class Await:
    """Wait for a phase of a barrier to be complete. The machine is told only whether its number is even or odd."""

    meeting: str
    phase: int


@dataclass(frozen=True)
class Meet:
    """Arrive, and wait until all have."""

    meeting: str
    count: int = 1


@dataclass(frozen=True)
class Commit:
    """The operations on a stream since the last commit are one group."""

    stream: str


@dataclass(frozen=True)
class Drain:
    """Wait until at most `left` operations (of a counted stream) or groups are outstanding, the latest ones.

    `reads_only`: they have read what they read, but may still write.
    """

    stream: str
    left: int = 0
    reads_only: bool = False


@dataclass(frozen=True)
class Fence:
    """A fence: data that its agent has completed through the proxy `source` may be touched through `target`."""

    source: str
    target: str


Step = Do | Arrive | Await | Meet | Commit | Drain | Fence


@dataclass(frozen=True)
class Meeting:
    """A barrier object: a phase is complete after so many `arrivals` and all bytes that were expected with them.

    `phased`: it is waited for by phase (`Await`); else by those who arrive (`Meet`).

    `place` is where it lies, if others than the agents of one block come to it: a ring of one slot, named as the block
    is. Who arrives there, delivers or waits reads its instance 0, which says that it is set up; and the block must not
    have ended: some agent of it must know that this is over.
    """

    name: str
    arrivals: int
    phased: bool = False
    place: str = ""


@dataclass(frozen=True)
class Agent:
    """One instruction stream; `block` is that of a cluster to which it belongs."""

    name: str
    steps: tuple[Step, ...]
    block: str = ""


@dataclass(frozen=True)
class Program:
    """The agents that run together: a block, or the blocks of a cluster, on a machine with these streams and fences.

    `initial` are rings whose instance 0 is there from the beginning.
    """

    agents: tuple[Agent, ...]
    meetings: tuple[Meeting, ...]
    machine: Synchronisation = NOTHING
    initial: frozenset[str] = frozenset()


def check(program: Program) -> None:
    """That each step is one that its barrier or stream can be told.

    Raises:
        ValueError: a name that is not there; a wait by phase for a barrier without phases, or the other way round; an
            arrival without a count, expected or delivered bytes that are none.
    """
    phased = {m.name: m.phased for m in program.meetings}
    completion = {s.name: s.completion for s in program.machine.streams}
    for agent in program.agents:
        for step in agent.steps:
            if not _possible(step, phased, completion):
                raise ValueError(f"{agent.name}: {step!r} cannot be")


def _possible(step: Step, phased: Mapping[str, bool], completion: Mapping[str, Completion]) -> bool:
    match step:
        case Do(stream=""):
            return not step.meeting
        case Do():
            delivers = completion.get(step.stream) is Completion.BYTES
            known = step.stream in completion and (not delivers or step.meeting in phased)
            return known and delivers == bool(step.meeting) == (step.bytes > 0) and step.units >= 0
        case Arrive():
            return step.meeting in phased and step.count > 0 and step.bytes >= 0
        case Await():
            return phased.get(step.meeting, False)
        case Meet():
            return not phased.get(step.meeting, True) and step.count > 0
        case Commit():
            return completion.get(step.stream) is Completion.GROUPS
        case Drain():
            return completion.get(step.stream) in (Completion.GROUPS, Completion.COUNTED) and step.left >= 0
    return True


# ---------------------------------------------------------------- loops


@dataclass(frozen=True)
class Looped:
    """The steps of one agent: before the loop, in its iteration 0, and after it as they would be after no iteration."""

    name: str
    prologue: tuple[Step, ...]
    body: tuple[Step, ...]
    epilogue: tuple[Step, ...] = ()
    block: str = ""


@dataclass(frozen=True)
class Loop:
    """A block whose agents all make the same number of iterations.

    `slots` are those of each ring; `advance` says by how many instances of a ring, and phases of a barrier, the
    iteration after next is further on than the next. `rotation` names the barriers that have another one in their
    place there, `advance` phases further (`tkgen.proof.rotation`).
    """

    agents: tuple[Looped, ...]
    meetings: tuple[Meeting, ...]
    slots: Mapping[str, int]
    advance: Mapping[str, int]
    machine: Synchronisation = NOTHING
    initial: frozenset[str] = frozenset()
    rotation: Mapping[str, str] = field(default_factory=dict)

    def unrolled(self, passes: int, epilogue: bool = True) -> Program:
        """The program that makes so many iterations, with or without the epilogue."""
        agents = tuple(Agent(a.name, self._steps(a, passes, epilogue), a.block) for a in self.agents)
        return Program(agents, self.meetings, self.machine, self.initial)

    def _steps(self, agent: Looped, passes: int, epilogue: bool) -> tuple[Step, ...]:
        """The steps of an agent, without the passes to which they belong."""
        passed = chain.from_iterable(self._pass(agent, k) for k in range(passes))
        behind = (self.later(step, passes) for step in agent.epilogue if epilogue)
        return (*agent.prologue, *passed, *behind)

    def steps(self, agent: Looped, passes: int) -> Iterator[tuple[Step, int]]:
        """(step, pass) of what an agent does; the prologue is pass -1, the epilogue pass `passes`."""
        yield from ((step, -1) for step in agent.prologue)
        for k in range(passes):
            yield from ((step, k) for step in self._pass(agent, k))
        yield from ((self.later(step, passes), passes) for step in agent.epilogue)

    def _pass(self, agent: Looped, number: int) -> tuple[Step, ...]:
        """The body of an agent in one iteration, made once: a proof tries many numbers of iterations."""
        body, steps = self._made.get((id(agent.body), number), (None, ()))
        if body is not agent.body:
            steps = tuple(self.later(step, number) for step in agent.body)
            self._made[id(agent.body), number] = agent.body, steps
        return steps

    @cached_property
    def _made(self) -> dict[tuple[int, int], tuple[tuple[Step, ...], tuple[Step, ...]]]:
        return {}

    def later(self, step: Step, passes: int) -> Step:
        """A step so many iterations later."""
        match step:
            case Do():
                reads, writes = (tuple(self._moved(a, passes) for a in group) for group in (step.reads, step.writes))
                meeting = self.place(step.meeting, passes)[0] if self.rotation and step.meeting else step.meeting
                return _with(step, reads=reads, writes=writes, meeting=meeting)
            case Await():
                name, by = self.place(step.meeting, passes)
                return Await(name, step.phase + by)
            case Arrive() | Meet() if self.rotation:
                return replace(step, meeting=self.place(step.meeting, passes)[0])
        return step

    def place(self, meeting: str, passes: int) -> tuple[str, int]:
        """The barrier in the place of another after `passes` iterations, and how many phases it is further."""
        if not self.rotation:
            return meeting, passes * self.advance.get(meeting, 0)
        if (known := self._places.get((meeting, passes))) is None:
            name, by = self.place(meeting, passes - 1) if passes else (meeting, 0)
            known = (self.rotation.get(name, name), by + self.advance.get(name, 0)) if passes else (name, by)
            self._places[meeting, passes] = known
        return known

    @cached_property
    def _places(self) -> dict[tuple[str, int], tuple[str, int]]:
        return {}

    def _moved(self, access: Access, passes: int) -> Access:
        by = passes * self.advance.get(access.ring, 0)
        if not by:
            return access
        slot = (access.slot + by) % self.slots[access.ring]
        return _with(access, instance=access.instance + by, slot=slot)


T = TypeVar("T", Access, Do)


def _with(value: T, **changed: object) -> T:
    """As `dataclasses.replace`, which takes several times as long: a proof makes some ten thousand copies."""
    made = object.__new__(type(value))
    made.__dict__.update(value.__dict__, **changed)
    return made
