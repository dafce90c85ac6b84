"""Vector clocks: which operations of a program are known to be complete where, over all its interleavings.

**One run decides.** `run` executes the agents in some order and hands each event the vector clock with which it began:
how far it knows each agent to have come, and how many phases of each barrier to be complete. Other interleavings match
arrivals and waits alike, under three conditions that are checked on the clocks of that one run:

1. whatever counts towards phase n + 1 of a barrier (an arrival, bytes) knows phase n to be complete;
2. a wait that phase n releases (its parity is all that the machine is told) knows phase n - 1 to be complete when it
   begins: a phase two behind would release it too;
3. something that counts towards phase n + 1 knows that wait to be over: else phase n + 1 may be complete before the
   wait looks, which then takes the object for one whose phase n is not.

*Sufficient.* Take a run that differs, up to the first event that another phase takes or releases. All before it is
matched as here, so that run has been through a set of events that is closed under happens-before. Condition 1 forbids
that an arrival or bytes count towards an earlier phase. A phase cannot be complete too early: its expectations come
with its arrivals, so that after the last arrival only bytes are missing, and they are positive; nor too late, all it
takes has happened. Conditions 2 and 3 leave a wait the one phase that releases it. So nothing differs; every
interleaving is an order of the same events that respects happens-before, and every such order is an interleaving. A run
that comes to an end then says that none hangs. (This is the determinacy of persistent systems: Keller, "A fundamental
theorem of asynchronous parallel computation", 1975. Clocks: Mattern, "Virtual time and global states of distributed
systems", 1989; Fidge, "Timestamps in message-passing systems", 1988.)

*Necessary.* Where a condition does not hold, there is an order of the events, up to there, that respects
happens-before and in which the other phase comes to count or release (take all that must come before, and nothing
else). Such a program is refused: which phase is meant depends on the interleaving, or it hangs.

So **x happens before y** in every interleaving iff y's clock reaches the completion of x: a position of x's agent (for
what is synchronous, or was drained) or, for what delivers its bytes on a barrier, the phase to which they counted.

Sources: PTX ISA, "mbarrier" (phase complete when pending arrivals and tx-count are zero; try_wait.parity), "barrier"
(bar.sync, bar.arrive), "Data movement and conversion: completion mechanisms", "wgmma.wait_group"; AMD CDNA3 ISA,
S_BARRIER and S_WAITCNT.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from tkgen.proof.program import Arrive, Await, Commit, Do, Drain, Fence, Meet, Meeting, Program, Step, check
from tkgen.targets.synchronisation import Completion

Clock = tuple[int, ...]  # steps that each agent is known to have done, then phases of each meeting known complete
NEVER = math.inf


class Point(NamedTuple):
    """Known from the moment at which `component` of a clock is at least `time`."""

    component: int
    time: float


@dataclass(slots=True)
class Event:
    """One executed step: `clock` is what its agent knew when it began, without its own `position`.

    `phase` is the phase that an arrival or bytes counted towards, or that released a wait.
    """

    step: Step
    agent: int
    position: int
    clock: Clock
    phase: int = -1
    read: Point | None = None  # when a Do has read, and when it is complete
    done: Point | None = None

    def knows(self, point: Point | None) -> bool:
        """Return True if it begins after that point in every interleaving."""
        if point is None:
            return False
        return (self.position if point.component == self.agent else self.clock[point.component]) >= point.time


@dataclass(frozen=True)
class Stuck:
    """A deadlock: who waits for ever, at which position of its steps, for which phase, and what that phase lacks."""

    agent: int
    position: int
    meeting: str
    phase: int
    arrivals: int
    bytes: int


@dataclass(frozen=True)
class Unmatched:
    """`event` counts towards another phase, or is released by another, in some interleaving.

    `condition` is the one of the module's text that does not hold; 0 says that a phase gets more arrivals, or more
    bytes, than it expects.
    """

    event: Event
    condition: int


@dataclass(frozen=True)
class Run:
    """The result of one run: the events of each agent, and reasons why other runs may differ or hang."""

    program: Program
    events: list[list[Event]]
    stuck: list[Stuck]
    unmatched: list[Unmatched]
    members: list[list[list[Event]]]  # of each meeting, what counted towards each phase
    ends: list[Event]  # behind the last step of each agent, with what it knows then


@dataclass(slots=True)
class _Phase:
    """A phase of a barrier: what it lacks, what counted towards it, and what those that it releases learn."""

    arrivals: int
    bytes: int = 0
    delivered: bool = False
    clock: list[int] = field(default_factory=list)
    members: list[Event] = field(default_factory=list)


@dataclass(frozen=True)
class Moment:
    """The state that later steps depend on: a `shape`, clocks, and points of events and phases.

    `now` is how far each component is; the first `agents` components are agents, the others barriers. A clock in
    `known` has a number for each component. `constant` are points that no step of the loop asks for.
    """

    shape: tuple[object, ...]
    known: tuple[Clock, ...]
    points: tuple[tuple[int, float], ...]
    constant: tuple[tuple[int, int], ...]
    now: Clock
    agents: int

    def repeats(self, before: Moment) -> bool:
        """Return True if from here on all is as it was from an earlier moment on, each component so much further.

        A number of a clock may be constant instead, if it is smaller than all that anybody asks about.
        """
        if (self.shape, len(self.known), self.constant) != (before.shape, len(before.known), before.constant):
            return False
        further = [a - b for a, b in zip(self.now, before.now, strict=True)]
        if self.points != tuple((c, at + further[c]) for c, at in before.points):
            return False
        least = [now - 2 * (c >= self.agents) for c, now in enumerate(before.now)]  # the oldest phase that counts
        for c, at in before.points:
            least[c] = min(least[c], int(at))
        most = [-math.inf] * len(least)  # of the constants
        for c, at in before.constant:
            most[c] = max(most[c], at)
        for clock, later in zip(before.known, self.known, strict=True):
            for c, (at, then, by) in enumerate(zip(clock, later, further, strict=True)):
                if at + by == then:
                    least[c] = min(least[c], at)
                elif at == then:
                    most[c] = max(most[c], at)
                else:
                    return False
        return all(at <= first for at, first in zip(most, least, strict=True))


class Running:
    """A run under way: executes each agent as far as it gets, in turn."""

    def __init__(self, program: Program):
        self.program = program
        agents = len(program.agents)
        self.size = agents + len(program.meetings)
        self.numbers = {m.name: n for n, m in enumerate(program.meetings)}
        self.component = {m.name: agents + n for n, m in enumerate(program.meetings)}
        self.streams = {s.name: s for s in program.machine.streams}
        self.phases = [[self._new(m)] for m in program.meetings]
        self.clocks = [[0] * self.size for _ in range(agents)]
        self.events: list[list[Event]] = [[] for _ in range(agents)]
        self.arrived: list[Event | None] = [None] * agents  # the arrival of an agent that waits in a Meet
        self.outstanding: list[dict[str, list[Event]]] = [{} for _ in range(agents)]
        self.groups: list[dict[str, list[list[Event]]]] = [{} for _ in range(agents)]
        self.waits: list[tuple[Event, int]] = []  # a wait, and the phase in which it found the meeting
        self.unmatched: list[Unmatched] = []

    def _new(self, meeting: Meeting) -> _Phase:
        return _Phase(meeting.arrivals, clock=[0] * self.size)

    def go(self, program: Program) -> None:
        """Execute what can be executed of a program whose agents have done what they have done in this run."""
        self.program = program
        moved = True
        while moved:
            moved = False
            for agent, made in enumerate(program.agents):
                while len(self.events[agent]) < len(made.steps) and self._step(agent, made.steps):
                    moved = True
        self.waits = [(wait, current) for wait, current in self.waits if not self._seen(wait, current)]

    def ended(self) -> Run:
        """The verdict, once nothing of the program can be executed any more."""
        stuck = list(self._stuck())
        if not stuck:
            self._look_late()
        ends = [
            Event(Arrive(""), agent, len(done), tuple(self.clocks[agent])) for agent, done in enumerate(self.events)
        ]
        members = [[phase.members for phase in phases] for phases in self.phases]
        return Run(self.program, self.events, stuck, self.unmatched, members, ends)

    def copy(self) -> Running:
        """Another run that has come as far; what one of the two executes leaves the other as it is."""
        other = Running(self.program)
        for mine, its in zip(self.phases, other.phases, strict=True):
            last = mine[-1]  # nothing comes to the others any more
            its[:] = [*mine[:-1], _Phase(last.arrivals, last.bytes, last.delivered, last.clock[:], last.members[:])]
        other.clocks = [clock[:] for clock in self.clocks]
        other.events = [events[:] for events in self.events]
        other.waits, other.unmatched = self.waits[:], self.unmatched[:]
        other.arrived = self.arrived[:]
        for agent, events in enumerate(other.events):
            for stream, found in self.outstanding[agent].items():
                other.outstanding[agent][stream] = _own(found, events)
            for stream, groups in self.groups[agent].items():
                other.groups[agent][stream] = [_own(group, events) for group in groups]
        return other

    def moment(self, drained: Collection[str], barriers: Sequence[int], met: Collection[int]) -> Moment:
        """All that the steps to come depend on: what is known, the last phases, what is under way.

        Of a stream that is not `drained`, what has read stays under way: only steps after a loop complete it.
        Component `agents + n` of the moment is the barrier with the number `barriers[n]`. Those that are not `met` in
        the loop stay as they are, with what is known of the steps that came to them.
        """
        agents = len(self.events)
        order = [*range(agents), *(agents + number for number in barriers)]
        at = {component: n for n, component in enumerate(order)}
        known = [*self.clocks]
        points: list[tuple[int, float]] = []
        constant: list[tuple[int, int]] = []
        shape: list[object] = [event is None for event in self.arrived]
        for number in barriers:
            for phase in self.phases[number][-3:]:
                known.append(phase.clock)
                members = sorted((m.agent, m.position) for m in phase.members)
                if number in met:
                    points += members
                else:
                    constant += members
                shape.append((phase.arrivals, phase.bytes, phase.delivered, tuple(agent for agent, _ in members)))
        for agent in range(agents):
            held = [(s, [e]) for s, events in self.outstanding[agent].items() for e in events]
            held += [(s, group) for s, groups in self.groups[agent].items() for group in groups]
            for stream, events in held:
                if stream not in drained and all(e.read is not None for e in events):
                    continue
                points += [(e.agent, e.position) for e in events]
                done = [point for e in events for point in (e.read, e.done) if point is not None]
                points += [(at[point.component], point.time) for point in done]
                shape.append((stream, tuple((e.read is None, e.done is None) for e in events)))
        for wait, current in sorted(self.waits, key=lambda found: (found[0].agent, found[0].position)):
            assert isinstance(wait.step, Await)
            component = at[self.component[wait.step.meeting]]
            points += [(wait.agent, wait.position), (component, current)]
            shape.append((wait.agent, component))
        now = (*map(len, self.events), *(len(self.phases[number]) - 1 for number in barriers))
        in_order = itemgetter(*order) if len(order) > 1 else tuple
        return Moment(tuple(shape), tuple(map(in_order, known)), tuple(points), tuple(constant), now, agents)

    def _step(self, agent: int, steps: tuple[Step, ...]) -> bool:
        """One step of an agent; False where it waits."""
        step = steps[len(self.events[agent])]
        event = self.arrived[agent] or Event(step, agent, len(self.events[agent]), tuple(self.clocks[agent]))
        match step:
            case Do():
                self._do(event, step)
            case Arrive():
                self._count(event, step.meeting, step.count, step.bytes)
            case Meet():
                if self.arrived[agent] is None:
                    self.arrived[agent] = event
                    self._count(event, step.meeting, step.count, 0)
                if not self._learn(event, step.meeting, event.phase):
                    return False
                self.arrived[agent] = None
            case Await():
                current = len(self.phases[self.numbers[step.meeting]]) - 1
                if current % 2 == step.phase % 2:
                    return False
                self._released(event, step.meeting, current)
            case Commit():
                waiting = self.outstanding[agent].setdefault(step.stream, [])
                self.groups[agent].setdefault(step.stream, []).append(waiting[:])
                waiting.clear()
            case Drain():
                self._drain(event, step)
            case Fence():
                pass
        self.events[agent].append(event)
        return True

    # ------------------------------------------------------------ operations and streams

    def _do(self, event: Event, step: Do) -> None:
        if step.waited or not step.stream:
            event.read = event.done = Point(event.agent, event.position + 1)
        if not step.stream:
            return
        if self.streams[step.stream].completion is Completion.BYTES:
            self._count(event, step.meeting, 0, -step.bytes)
            event.read = event.done = Point(self.component[step.meeting], event.phase + 1)
        else:
            self.outstanding[event.agent].setdefault(step.stream, []).append(event)

    def _drain(self, event: Event, step: Drain) -> None:
        """All except the latest are complete, or have read."""
        known = Point(event.agent, event.position + 1)
        if self.streams[step.stream].completion is Completion.GROUPS:
            groups = self.groups[event.agent].setdefault(step.stream, [])
            count = max(0, len(groups) - step.left)
            drained = [e for group in groups[:count] for e in group]
            if not step.reads_only:
                del groups[:count]
        else:
            waiting = self.outstanding[event.agent].setdefault(step.stream, [])
            count = _all_but(waiting, step.left)
            drained = waiting[:count]
            if not step.reads_only:
                del waiting[:count]
        for done in drained:
            done.read = done.read or known
            if not step.reads_only:
                done.done = done.done or known

    # ------------------------------------------------------------ meetings

    def _count(self, event: Event, meeting: str, arrivals: int, expected: int) -> None:
        """Arrivals or bytes come to a barrier; its phase may then be complete."""
        number = self.numbers[meeting]
        phases = self.phases[number]
        phase, event.phase = phases[-1], len(phases) - 1
        if arrivals > phase.arrivals:
            self.unmatched.append(Unmatched(event, 0))
        if event.phase and not self.complete(event, meeting, event.phase - 1):
            self.unmatched.append(Unmatched(event, 1))
        phase.arrivals -= arrivals
        phase.bytes += expected
        phase.delivered |= arrivals == 0
        phase.members.append(event)
        _join(phase.clock, event.clock)
        # Bytes are delivered when they are: what was issued before them is known, but no more of their agent's steps.
        phase.clock[event.agent] = max(phase.clock[event.agent], event.position + 1)
        if phase.arrivals <= 0 and phase.bytes < 0:
            self.unmatched.append(Unmatched(event, 0))
        if phase.arrivals <= 0 and phase.bytes == 0:
            phases.append(self._new(self.program.meetings[number]))

    def complete(self, event: Event, meeting: str, phase: int) -> bool:
        """Return True if an event knows a phase to be complete: from a wait, or from all events of the phase."""
        if event.clock[self.component[meeting]] > phase:
            return True
        found = self.phases[self.numbers[meeting]][phase]
        return not found.delivered and all(event.knows(Point(m.agent, m.position + 1)) for m in found.members)

    def _learn(self, event: Event, meeting: str, phase: int) -> bool:
        """An agent that a phase releases knows what those knew that the phase took; False where it is not complete."""
        number = self.numbers[meeting]
        if len(self.phases[number]) - 1 <= phase:
            return False
        if phase >= 0:
            mine = self.clocks[event.agent]
            _join(mine, self.phases[number][phase].clock)
            mine[self.component[meeting]] = max(mine[self.component[meeting]], phase + 1)
        return True

    def _released(self, event: Event, meeting: str, current: int) -> None:
        event.phase = current - 1
        if current >= 2 and not self.complete(event, meeting, current - 2):
            self.unmatched.append(Unmatched(event, 2))
        self.waits.append((event, current))
        self._learn(event, meeting, current - 1)

    def _look_late(self) -> None:
        """Condition 3: no wait may be overtaken by the phase after the one that releases it."""
        for wait, current in self.waits:
            assert isinstance(wait.step, Await)
            if current < len(self.phases[self.numbers[wait.step.meeting]]) - 1 and not self._seen(wait, current):
                self.unmatched.append(Unmatched(wait, 3))

    def _seen(self, wait: Event, current: int) -> bool:
        """Return True if something that counts towards a phase knows a wait for the phase before to be over."""
        assert isinstance(wait.step, Await)
        over = Point(wait.agent, wait.position + 1)
        return any(m.knows(over) for m in self.phases[self.numbers[wait.step.meeting]][current].members)

    def _stuck(self) -> Iterator[Stuck]:
        for agent, made in enumerate(self.program.agents):
            at = len(self.events[agent])
            if at < len(made.steps):
                step, arrived = made.steps[at], self.arrived[agent]
                assert isinstance(step, Await | Meet)
                phases = self.phases[self.numbers[step.meeting]]
                phase = arrived.phase if arrived is not None else len(phases) - 1
                yield Stuck(agent, at, step.meeting, phase, phases[phase].arrivals, phases[phase].bytes)


def _own(under_way: list[Event], events: list[Event]) -> list[Event]:
    """Copies of operations under way, put in their places among `events`: they are told when they are complete."""
    for e in under_way:
        events[e.position] = Event(e.step, e.agent, e.position, e.clock, e.phase, e.read, e.done)
    return [events[e.position] for e in under_way]


def _all_but(waiting: list[Event], left: int) -> int:
    """Count the operations with at least `left` operations issued after them."""
    later = 0
    for count in range(len(waiting), 0, -1):
        if later >= left:
            return count
        step = waiting[count - 1].step
        assert isinstance(step, Do)
        later += step.units
    return 0


def _join(clock: list[int], other: Sequence[int]) -> None:
    clock[:] = [mine if mine > its else its for mine, its in zip(clock, other, strict=True)]


def run(program: Program) -> Run:
    """One run of a program, with the clock of each event.

    Raises:
        ValueError: a step that its barrier or stream cannot be told (`tkgen.proof.program.check`).
    """
    check(program)
    made = Running(program)
    made.go(program)
    return made.ended()
