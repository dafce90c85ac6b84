"""The unrolled events of a wave: every operation with the epochs in which it begins and is complete.

**Order in the machine code.** Every FENCE, BARRIER and WAIT is lowered with a memory clobber that no access crosses, in
LLVM's IR or in its machine passes; they cut a program into *sections*. Within a section the compiler may put accesses
in any order, do two equal ones once, and leave out those whose result nobody uses. (Multiplies may move anywhere that
their data allows, past barriers too.)

Waits follow the hardware's counters: LDS operations complete in order (lgkmcnt), global loads complete in order
(vmcnt). So a wait that leaves n outstanding completes x iff at least n instructions are *surely* issued after x: those
of later sections, each section's at their fewest (`tkgen.schedule.instructions`). A multiply completes nothing: it
needs the reads that it consumes, but it may sink below a barrier, and the compiler's wait with it. Where a barrier
relies on it, the plan writes its own wait in front of the barrier (`held`). A collective load ends with a wait for
its LDS writes, and so for the accesses to LDS of earlier sections; in kernels with direct loads it is a copy that is
waited for at once (vmcnt alone). A write of staged registers has waited for its fetch, and so, from the next cut on,
for the direct loads of sections before that fetch. A read past LDS counts on vmcnt, and needs nobody's wait: nothing
but multiplies of its own wave relies on it, and for these the compiler waits, by data. Nothing relies on the other
accesses that this wait completes: the compiler counts its own loads only, and places the wait with the multiply.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tkgen.ir.reductions import RING
from tkgen.ir.types import Program
from tkgen.schedule.instructions import instructions_of, pieces, whole_rounds
from tkgen.tile.ops import (
    Barrier,
    CatchUp,
    Copy,
    Fence,
    Fetch,
    Load,
    Multiply,
    OfRound,
    Read,
    Take,
    Write,
)
from tkgen.tile.program import END, Control, Drain, K, Op, Part, Place, Region, Role

NEVER = math.inf
CUTS = (Fence, Barrier, Drain)  # no access to memory crosses them


@dataclass(slots=True)
class Event:
    """One executed operation: `step` is its K-step in output tile `tile`; `order` its position in the trace.

    `place` is where the operation stands, None for the barriers of a phase. `begin` and `done` are epochs; `completed`
    is the position in the trace at which it is complete. `section` counts the cuts before it.
    """

    op: Op
    tile: int
    step: int = 0
    place: Place | None = None
    order: int = 0
    begin: int = 0
    section: int = 0
    done: float = NEVER
    completed: float = NEVER

    def step_of(self, access: Region) -> int:
        """The K-step of one of its accesses: what lives in a ring of n buffers is in the one of step mod n."""
        return self.op.step_of(access, self.step)

    def later(self, meetings: int) -> Event:
        """The same on a wave that has passed so many barriers more."""
        return Event(
            *(self.op, self.tile, self.step, self.place),
            *(self.order + meetings, self.begin + meetings, self.section + meetings),
            *(self.done + meetings, self.completed + meetings),
        )

    def complete(self, epoch: int, order: int) -> None:
        """It is known to be complete from position `order` on."""
        self.done, self.completed = epoch, order


@dataclass(slots=True)
class _Section:
    """The outstanding operations of one counter in a section."""

    number: int
    events: list[Event] = field(default_factory=list)
    pieces: dict[Hashable, int] = field(default_factory=dict)

    @property
    def instructions(self) -> int:
        return instructions_of(self.pieces)


class _Counter:
    """Outstanding operations of one hardware counter: sections complete in order, nothing is known within one."""

    def __init__(self) -> None:
        self.sections: list[_Section] = []

    def issue(self, event: Event, pieces: Mapping[Hashable, int]) -> None:
        if not self.sections or self.sections[-1].number != event.section:
            self.sections.append(_Section(event.section))
        self.sections[-1].events.append(event)
        self.sections[-1].pieces.update(pieces)

    def wait(self, outstanding: int, epoch: int, order: int) -> None:
        """Complete every section after which `outstanding` instructions, or more, are surely issued."""
        later = 0
        for index in range(len(self.sections) - 1, -1, -1):
            if later >= outstanding:
                self._complete(index + 1, epoch, order)
                return
            later += self.sections[index].instructions

    def wait_before(self, section: int, epoch: int, order: int) -> None:
        """Complete the sections before that number."""
        count = 0
        for s in self.sections:
            if s.number >= section:
                break
            count += 1
        self._complete(count, epoch, order)

    def issued_after(self, section: int) -> int:
        """Instructions surely issued after a section's."""
        return sum(s.instructions for s in self.sections if s.number > section)

    def _complete(self, count: int, epoch: int, order: int) -> None:
        for section in self.sections[:count]:
            for event in section.events:
                if event.done is NEVER:
                    event.complete(epoch, order)
        del self.sections[:count]


Issued = list[tuple[tuple[str, dict[Hashable, int]], ...]]


@dataclass(frozen=True)
class Passed:
    """A wait for operations on `vm`, at a place of a program, that is to complete nothing.

    `times` are filled by the walk: each time that it is passed, its position and epoch, and the instructions that are
    surely issued after each section which is then in flight.
    """

    place: Place
    times: list[tuple[int, int, Mapping[int, int]]] = field(default_factory=list)


def trace(
    program: Program,
    wave: Role,
    passes: int,
    unroll: int,
    steps: int,
    tiles: int,
    last_phase: int,
) -> list[Event]:
    """Every operation that `wave` executes over `tiles` output tiles of `steps` K-steps, with epochs.

    `last_phase` is the largest phase of the block: waves that run ahead pass the difference at the end of a tile.
    """
    return _Trace(program, _sequence(wave, passes, unroll, steps, tiles, last_phase)).events


def data_trace(
    program: Program,
    wave: Role,
    passes: int,
    unroll: int,
    steps: int,
    tiles: int,
    last_phase: int,
    passed: Passed | None = None,
    issued: Issued | None = None,
) -> list[Event]:
    """As `trace`, but the operations on data alone. The wait at the place of `passed` completes nothing.

    `issued` is filled, or is what a program has filled that differs in barriers and waits alone.
    """
    sequence = _sequence(wave, passes, unroll, steps, tiles, last_phase, controls=False)
    return [e for e in _Trace(program, sequence, passed, issued).events if not isinstance(e.op, Control)]


def held(program: Program, wave: Role, passes: int, unroll: int, steps: int, tiles: int) -> dict[Place, int]:
    """Return the barriers of `wave` that need a wait for LDS operations before them, and how many that may leave.

    It completes the reads that multiplies before the barrier have consumed.
    """
    return _Trace(program, _sequence(wave, passes, unroll, steps, tiles, wave.phase)).held


def _sequence(
    wave: Role, passes: int, unroll: int, steps: int, tiles: int, last_phase: int, controls: bool = True
) -> list[Event]:
    """List the events of `wave` in order, without their times.

    Without `controls` each operation without data has one event for all its executions.
    """
    meeting = Barrier(automatic=True)
    sequence: list[Event] = []
    for tile in range(tiles):
        sequence += [Event(meeting, tile) for _ in range(wave.phase)]
        for part, times in zip(Part, (1, passes, 1), strict=True):
            places = [
                (op, op.at, op.offset, place,
                 None if controls or not isinstance(op, Control) else Event(op, tile, 0, place))
                for op, place in ((op, Place(part, n)) for n, op in enumerate(wave.ops(part)))
            ]  # fmt: skip
            for i in range(times):
                base = {"": 0, K: i * unroll, END: steps}
                sequence += [
                    again or Event(op, tile, base[at] + offset, place) for op, at, offset, place, again in places
                ]
        level = [Event(meeting, tile) for _ in range(last_phase - wave.phase)]
        at = next((n for n, event in enumerate(sequence) if isinstance(event.op, CatchUp)), len(sequence))
        sequence[at : at + 1] = level
    return sequence


class _Trace:
    """One walk along what a wave executes."""

    def __init__(
        self, program: Program, events: list[Event], passed: Passed | None = None, issued: Issued | None = None
    ):
        self.program, self.passed = program, passed
        self.events = events
        self.held: dict[Place, int] = {}
        self.lds, self.vm = _Counter(), _Counter()
        self.fetched: dict[tuple[str, int, int], Event] = {}  # (operand, step, part) -> its fetch, not written yet
        self.reads: dict[tuple[str, int, int, int], Event] = {}  # (operand, fragment, step, slice) -> its read
        self.owed: list[Event] = []  # reads that a multiply has consumed since the last barrier
        self.waited_fetch = 0  # the latest section whose fetch a write of this section has waited for
        epoch = section = 0
        pieces_of = iter(_issued(program, events) if issued is None else (issued or _filled(issued, program, events)))
        for order, event in enumerate(events):
            event.order, event.begin, event.section = order, epoch, section
            if isinstance(event.op, CUTS):
                self._cut(event)
                section += 1
                epoch += isinstance(event.op, Barrier)
            elif isinstance(event.op, Control):
                event.complete(epoch, order)
            else:
                self._access(event, next(pieces_of))
        assert next(pieces_of, None) is None, "a program with other operations has issued others"

    def _access(self, event: Event, issued: Iterable[tuple[str, Mapping[Hashable, int]]]) -> None:
        op, program = event.op, self.program
        for counter, found in issued:
            (self.lds if counter == "lds" else self.vm).issue(event, found)
        match op:
            case Load() if program.direct:
                self.vm.wait(0, event.begin, event.order)
            case Load():
                self.lds.wait_before(event.section, event.begin, event.order)
                event.complete(event.begin, event.order)
            case Fetch():
                self.fetched |= {(op.operand, event.step, part): event for part in parts_of(program, op.tile)}
            case Write():
                self._staged(event, op)
            case Read():
                self.reads.update(dict.fromkeys(register_tiles(op.target, event.step), event))
            case Copy() | Take():
                pass
            case OfRound() if op.ring:
                pass
            case _:
                event.complete(event.begin, event.order)
                if isinstance(op, Multiply) and self.reads:
                    self.owed += [self.reads.pop(key) for key in _consumed(op, event.step) if key in self.reads]

    def _staged(self, write: Event, op: Write) -> None:
        """A write has waited for its fetch: by data, so only on waves that have something to write."""
        keys = ((op.operand, write.step, part) for part in parts_of(self.program, op.source))
        for fetch in {f.order: f for key in keys if (f := self.fetched.pop(key, None))}.values():
            if all(f.order != fetch.order for f in self.fetched.values()):  # every part of it is written
                fetch.complete(write.begin, write.order)
            if whole_rounds(self.program, op):
                self.waited_fetch = max(self.waited_fetch, fetch.section)

    def _cut(self, event: Event) -> None:
        op, epoch, now = event.op, event.begin, event.order
        event.complete(epoch, now)
        if self.waited_fetch:
            self.vm.wait_before(self.waited_fetch, epoch, now)
            self.waited_fetch = 0  # no later section has a smaller number
        if self.passed and event.place == self.passed.place:
            issued = {s.number: self.vm.issued_after(s.number) for s in self.vm.sections}
            self.passed.times.append((now, epoch, issued))
        elif isinstance(op, Drain):
            (self.lds if op.stream == "lds" else self.vm).wait(op.count, epoch, now)
        elif isinstance(op, Barrier):
            late = [e for e in self.owed if e.done is NEVER]
            if late and event.place is not None:
                left = min(self.lds.issued_after(e.section) for e in late)
                self.held[event.place] = min(left, self.held.get(event.place, left))
            self.owed = []


def _issued(program: Program, events: Sequence[Event]) -> Issued:
    """The pieces of each operation on data (`tkgen.schedule.instructions`), in order, by counter."""
    return [
        tuple(pieces(program, event.op, event.step, tiles))
        for event, tiles in zip(events, used(program, events), strict=True)
        if not isinstance(event.op, Control)
    ]


def _filled(issued: Issued, program: Program, events: Sequence[Event]) -> Issued:
    issued += _issued(program, events)
    return issued


def used(program: Program, events: Sequence[Event]) -> list[frozenset[tuple[int, int]] | None]:
    """Return the tiles of each READ that a multiply uses before the next read; None for other operations.

    The compiler removes the others: reads by the register tile, fetches by the part, as (part, 0).
    """
    wanted: set[tuple[str, int, int]] = set()  # (operand, fragment, register buffer)
    staged: set[tuple[str, int]] = set()  # (operand, part)
    result: list[frozenset[tuple[int, int]] | None] = []
    for event in reversed(events):
        op, step = event.op, event.step
        found: frozenset[tuple[int, int]] | None = None
        match op:
            case Control():
                pass
            case Multiply():
                for name, fragment, s, t in _consumed(op, step):
                    wanted.add((name, fragment, program.operand(name).register_buffer(s, t)))
            case Read() | Take():
                buffer = program.operand(op.operand).register_buffer
                keys = {(f, t): (name, f, buffer(s, t)) for name, f, s, t in register_tiles(op.target, step)}
                found = frozenset(tile for tile, key in keys.items() if key in wanted)
                wanted.difference_update(keys.values())
            case Write():
                staged.update((op.operand, part) for part in parts_of(program, op.source))
            case Fetch():
                parts = {(op.operand, part) for part in parts_of(program, op.target)}
                found = frozenset((part, 0) for _, part in parts & staged)
                staged -= parts
            case _:
                pass
        result.append(found)
    result.reverse()
    return result


def parts_of(program: Program, access: Region) -> tuple[int, ...]:
    """The parts of a tile in LDS that an access touches; partial results of reductions have one."""
    return (0,) if access.name == RING else program.operand(access.name).parts_of(access)


def register_tiles(access: Region, step: int) -> Iterable[tuple[str, int, int, int]]:
    """The register tiles of an access: operand, fragment, K-step, slice."""
    return ((access.name, f, step, t) for f in access.fragments for t in access.slices)


def _consumed(op: Multiply, step: int) -> Iterable[tuple[str, int, int, int]]:
    return (tile for access in (op.left, op.right) for tile in register_tiles(access, step))


@dataclass(frozen=True)
class Conflict:
    """Two operations that the sequential meaning orders and the program does not.

    `kind`: RAW, WAR, WAW (LDS), `unwritten` (a read of a tile nobody loads), `register` (a multiply of a tile that its
    registers do not hold), `staging`, `zero`, `products` (a fragment does not get every product once), `stores`,
    `barriers` (waves that pass different numbers of barriers). `first` must come before `second`; `waves` are one wave
    of each. `part` is that of the tile, for LDS.

    `how`: `wait` where the first is complete too late although a barrier follows, of staging registers `overwritten` or
    `other step`, of products `twice` or `missing`. `where`: of `barriers` the number that each wave passes, of
    `register` a fragment and a slice, of `zero` row and column of a fragment, of `products` these, K-step and slice, of
    `stores` these and how often.
    """

    kind: str
    operand: str
    first: Event | None
    second: Event | None
    waves: tuple[int, int]
    how: str = ""
    part: int = 0
    where: tuple[int, ...] = ()
