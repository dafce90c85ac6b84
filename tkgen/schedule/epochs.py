"""The barrier calculus: unrolled traces, the epoch of every operation, and the conflicts that no barrier orders.

`s_barrier` counts waves: the n-th barrier of every wave of a block is one meeting. An operation begins in the epoch
`begin` (barriers its wave has passed when it issues) and is complete in `done` (barriers passed once its wave has
waited for it, or infinity). x on wave u happens before y on wave v != u iff done(x) < begin(y); on one wave program
order and waits decide.

What the machine code keeps of the written order. Every FENCE, BARRIER and WAIT is lowered with a memory clobber that no
access crosses, in LLVM's IR or in its machine passes; they cut a program into *sections*. Within a section the compiler
may put accesses in any order, do two equal ones once, and leave out those whose result nobody uses. (Multiplies may
move anywhere that their data allows, past barriers too.)

Waits follow the hardware's counters: LDS operations complete in order (lgkmcnt), global loads complete in order
(vmcnt). So a wait that leaves n outstanding completes x iff at least n instructions are *surely* issued after x: those
of later sections, each section's at their fewest (`tkgen.schedule.instructions`). A multiply completes nothing: it
needs the reads that it consumes, but it may sink below a barrier, and the compiler's wait with it. Where a barrier
relies on it, the plan writes a wait of its own in front of the barrier (`held`). A collective load ends with a wait for
its LDS writes, and so for the accesses to LDS of earlier sections; in kernels with direct loads it is a copy that is
waited for at once (vmcnt alone). A write of staged registers has waited for its fetch, and so, from the next cut on,
for the direct loads of sections before that fetch.

A tile in LDS lies in parts (`Operand.parts`), each of which is a tile of its own: what brings a part writes all of it,
dealt to the threads of its group always alike, and nothing beside it. So two accesses meet iff they have a part in
common, and what is said below of a buffer holds of each of its parts.

Why a few passes of the loop prove all of them: control flow is uniform, so epochs are affine in the iteration; an LDS
slot is revisited after `buffers` steps, no operation runs more than `depth` steps ahead, and a wait that leaves n
outstanding looks back over the steps that issue n; after all of these steps the pattern of conflicts repeats.
`passes_to_prove` counts those passes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tkgen.ir.ops import (
    SHARED_READS,
    Access,
    Barrier,
    CatchUp,
    Copy,
    Fence,
    Fetch,
    Load,
    Multiply,
    OfRound,
    Op,
    Placed,
    Read,
    Space,
    Store,
    Wait,
    WaveProgram,
    Write,
    Zero,
)
from tkgen.ir.reductions import BUFFERS, RING, exchanges
from tkgen.ir.types import Program
from tkgen.schedule.instructions import instructions, instructions_of, pieces, whole_rounds

NEVER = math.inf
CUTS = (Fence, Barrier, Wait)  # no access to memory crosses them

Place = tuple[str, int]  # segment of a wave's program, and the position in it


@dataclass(slots=True)
class Event:
    """One executed operation: `step` is its K-step in output tile `tile`; `order` its position in the trace.

    `begin` and `done` are epochs; `completed` is the position in the trace at which it is complete. `section` counts
    the cuts before it; `place` is where the operation stands, None for the barriers of a phase.
    """

    op: Op
    tile: int
    step: int
    order: int
    begin: int
    section: int = 0
    place: Place | None = None
    done: float = NEVER
    completed: float = NEVER

    def step_of(self, access: Access) -> int:
        """The K-step of one of its accesses: what lives in a ring of n buffers is in the one of step mod n."""
        return self.op.step_of(access, self.step)

    def complete(self, epoch: int, order: int) -> None:
        """It is known to be complete from position `order` on."""
        self.done, self.completed = epoch, order


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


def passes_to_prove(program: Program, waves: Sequence[WaveProgram], depth: int, unroll: int) -> int:
    """Passes of the steady loop after which the pattern of conflicts repeats."""
    buffers = max(o.buffers for o in program.operands)
    return -(-(depth + buffers + 1) // unroll) + 1 + max(_passes_waited_over(program, w) for w in waves)


def _passes_waited_over(program: Program, wave: WaveProgram) -> int:
    """Passes of the loop that issue as much as the loosest counted wait leaves outstanding; 0 without such waits."""
    most = 0
    waits = [p.op for p in (*wave.prologue, *wave.body, *wave.epilogue) if isinstance(p.op, Wait)]
    for counter in ("lds", "vm"):
        left = max((op.count for op in waits if op.counter == counter), default=0)
        issued = sum(instructions(program, [p.op])[counter] for p in wave.body)
        most = max(most, -(-left // issued) if issued else 0)
    return most


# ---------------------------------------------------------------- traces


@dataclass(slots=True)
class _Section:
    """What one counter has outstanding of a section."""

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
        self._complete(sum(s.number < section for s in self.sections), epoch, order)

    def issued_after(self, section: int) -> int:
        """Instructions surely issued after a section's."""
        return sum(s.instructions for s in self.sections if s.number > section)

    def _complete(self, count: int, epoch: int, order: int) -> None:
        for section in self.sections[:count]:
            for event in section.events:
                if event.done is NEVER:
                    event.complete(epoch, order)
        del self.sections[:count]


def trace(program: Program, wave: WaveProgram, passes: int, unroll: int, steps: int, tiles: int, last_phase: int
          ) -> list[Event]:  # fmt: skip
    """Every operation that `wave` executes over `tiles` output tiles of `steps` K-steps, with epochs.

    `last_phase` is the largest phase of the block: waves that run ahead pass the difference at the end of a tile.
    """
    return _Trace(program, _sequence(wave, passes, unroll, steps, tiles, last_phase)).events


def held(program: Program, wave: WaveProgram, passes: int, unroll: int, steps: int, tiles: int) -> dict[Place, int]:
    """Where a barrier of `wave` must be preceded by a wait for LDS operations, and how many that may leave outstanding.

    It completes the reads that multiplies before the barrier have consumed.
    """
    return _Trace(program, _sequence(wave, passes, unroll, steps, tiles, wave.phase)).held


_Step = tuple[Op, int, int, Place | None]  # operation, tile, K-step, place


def _sequence(wave: WaveProgram, passes: int, unroll: int, steps: int, tiles: int, last_phase: int) -> list[_Step]:
    """What `wave` executes, in order."""
    meeting = Barrier(automatic=True)
    sequence: list[_Step] = []
    for tile in range(tiles):
        sequence += [(meeting, tile, 0, None)] * wave.phase
        for segment, times in (("prologue", 1), ("body", passes), ("epilogue", 1)):
            placed: tuple[Placed, ...] = getattr(wave, segment)
            for i in range(times):
                sequence += [(p.op, tile, p.step.at(i * unroll, steps), (segment, n)) for n, p in enumerate(placed)]
        level = [(meeting, tile, 0, None)] * (last_phase - wave.phase)
        at = next((n for n, (op, *_) in enumerate(sequence) if isinstance(op, CatchUp)), len(sequence))
        sequence[at : at + 1] = level
    return sequence


class _Trace:
    """One walk along what a wave executes."""

    def __init__(self, program: Program, sequence: Sequence[_Step]):
        self.program = program
        self.events: list[Event] = []
        self.held: dict[Place, int] = {}
        self.lds, self.vm = _Counter(), _Counter()
        self.fetched: dict[tuple[str, int, int], Event] = {}  # (operand, step, part) -> its fetch, not written yet
        self.reads: dict[tuple[str, int, int, int], Event] = {}  # (operand, fragment, step, slice) -> its read
        self.owed: list[Event] = []  # reads that a multiply has consumed since the last barrier
        self.waited_fetch = 0  # the latest section whose fetch a write of this section has waited for
        used = _used(program, sequence)
        epoch = section = 0
        for (op, tile, step, place), tiles in zip(sequence, used, strict=True):
            event = Event(op, tile, step, len(self.events), epoch, section, place)
            self.events.append(event)
            if isinstance(op, CUTS):
                self._cut(event)
                section += 1
                epoch += isinstance(op, Barrier)
            else:
                self._access(event, tiles)

    def _access(self, event: Event, used: frozenset[tuple[int, int]] | None) -> None:
        op, program = event.op, self.program
        for counter, found in pieces(program, op, event.step, used):
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
                self.reads.update(dict.fromkeys(_tiles(op.target, event.step), event))
            case Copy():
                pass
            case OfRound() if op.ring:
                pass
            case _:
                event.complete(event.begin, event.order)
                consumed = _consumed(op, event.step) if isinstance(op, Multiply) else ()
                self.owed += [self.reads.pop(key) for key in consumed if key in self.reads]

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
        self.vm.wait_before(self.waited_fetch, epoch, now)
        if isinstance(op, Wait):
            (self.lds if op.counter == "lds" else self.vm).wait(op.count, epoch, now)
        elif isinstance(op, Barrier):
            late = [e for e in self.owed if e.done is NEVER]
            if late and event.place is not None:
                left = min(self.lds.issued_after(e.section) for e in late)
                self.held[event.place] = min(left, self.held.get(event.place, left))
            self.owed = []


def _used(program: Program, sequence: Sequence[_Step]) -> list[frozenset[tuple[int, int]] | None]:
    """Which tiles of each READ a multiply uses before they are read again; None for other operations.

    What nobody uses the compiler leaves out: reads by the register tile, fetches by the part, as (part, 0).
    """
    wanted: set[tuple[str, int, int]] = set()  # (operand, fragment, register buffer)
    staged: set[tuple[str, int]] = set()  # (operand, part)
    result: list[frozenset[tuple[int, int]] | None] = []
    for op, _, step, _ in reversed(sequence):
        found: frozenset[tuple[int, int]] | None = None
        match op:
            case Multiply():
                for name, fragment, s, t in _consumed(op, step):
                    wanted.add((name, fragment, program.operand(name).register_buffer(s, t)))
            case Read():
                buffer = program.operand(op.operand).register_buffer
                keys = {(f, t): (name, f, buffer(s, t)) for name, f, s, t in _tiles(op.target, step)}
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


def parts_of(program: Program, access: Access) -> tuple[int, ...]:
    """The parts of a tile in LDS that an access touches; partial results of reductions have one."""
    return (0,) if access.name == RING else program.operand(access.name).parts_of(access)


def _tiles(access: Access, step: int) -> Iterable[tuple[str, int, int, int]]:
    """The register tiles of an access: operand, fragment, K-step, slice."""
    return ((access.name, f, step, t) for f in access.fragments for t in access.slices)


def _consumed(op: Multiply, step: int) -> Iterable[tuple[str, int, int, int]]:
    return (tile for access in (op.left, op.right) for tile in _tiles(access, step))


def conflicts(
    program: Program, waves: Sequence[WaveProgram], passes: int, unroll: int, steps: int, tiles: int = 1
) -> list[Conflict]:
    """Everything that goes wrong in some interleaving of `waves`, the first of each sort.

    `steps` is the number of K-steps that `passes` passes of the loop make with prologue and epilogue.
    """
    last_phase = max(w.phase for w in waves)
    traces = [trace(program, w, passes, unroll, steps, tiles, last_phase) for w in waves]
    found = _barrier_counts(waves, traces)
    for wave, events in zip(waves, traces, strict=True):
        found += _one_wave(program, wave, events, steps)
    for ring in rings(program).items():
        found += _lds(program, *ring, waves, traces)
    return _first_of_each(found)


def rings(program: Program) -> dict[str, int]:
    """What lies in LDS, and in how many buffers: the operands, and partial results of reductions."""
    return {o.name: o.buffers for o in program.operands} | ({RING: BUFFERS} if exchanges(program) else {})


def _first_of_each(found: list[Conflict]) -> list[Conflict]:
    unique: dict[tuple[object, ...], Conflict] = {}
    for c in found:
        key = (c.kind, c.operand, c.first and c.first.op, c.second and c.second.op)
        unique.setdefault(key, c)
    return list(unique.values())


def _barrier_counts(waves: Sequence[WaveProgram], traces: list[list[Event]]) -> list[Conflict]:
    """Waves that pass other numbers of barriers than the first, over the tile or in one pass of the loop."""
    counts = [sum(isinstance(e.op, Barrier) for e in events) for events in traces]
    looped = [sum(isinstance(p.op, Barrier) for p in w.body) for w in waves]
    return [
        Conflict("barriers", "", None, None, (waves[0].waves[0], w.waves[0]), where=(counts[0], n))
        for w, n, m in zip(waves[1:], counts[1:], looped[1:], strict=True)
        if n != counts[0] or m != looped[0]
    ]


# ---------------------------------------------------------------- LDS, across waves


def _lds(
    program: Program, name: str, buffers: int, waves: Sequence[WaveProgram], traces: list[list[Event]]
) -> list[Conflict]:
    """RAW, WAR and WAW of what lies in LDS by that name, and its reads of tiles that nobody writes."""
    found: list[Conflict] = []
    # What goes past the queue of LDS operations, on the other counter.
    direct = (Copy, Load) if program.direct else (Copy,)
    for part, slot in _slots(program, name, buffers, traces):
        for _, reads in (accesses for accesses in slot.values() if not accesses[0]):
            wave = waves[reads[0].wave].waves[0]
            found.append(Conflict("unwritten", name, None, reads[0].event, (wave, wave), part=part))
        for kind, first, second in _required(slot, waves):
            found += (replace(c, part=part) for c in _unordered(kind, name, first, second, waves, direct))
    return found


@dataclass(frozen=True, slots=True)
class _At:
    wave: int
    event: Event


def _key(at: _At) -> tuple[int, int]:
    return at.wave, at.event.order


def _same_part(x: _At, y: _At, waves: Sequence[WaveProgram]) -> bool:
    """Whether x and y write a tile divided over the same threads: then only a thread meets its own bytes again."""
    return type(x.event.op) is type(y.event.op) and waves[x.wave].role == waves[y.wave].role


_Slot = dict[tuple[int, int], tuple[list[_At], list[_At]]]  # (tile, step) -> its writes, its reads


def _slots(program: Program, name: str, buffers: int, traces: list[list[Event]]) -> list[tuple[int, _Slot]]:
    """The accesses to each part of each buffer of a ring, as (part, accesses), steps in order."""
    slots: dict[tuple[int, int], _Slot] = {}
    for index, events in enumerate(traces):
        for e in events:
            if e.op.operand != name:
                continue
            at = _At(index, e)
            for access, number in ((a, n) for n, made in enumerate((e.op.writes, e.op.reads)) for a in made):
                if access.space is Space.LDS:
                    step = e.step_of(access)
                    for part in parts_of(program, access):
                        slot = slots.setdefault((step % buffers, part), {})
                        slot.setdefault((e.tile, step), ([], []))[number].append(at)
    return [(part, dict(sorted(slot.items(), key=lambda item: item[0]))) for (_, part), slot in slots.items()]


def _required(slot: _Slot, waves: Sequence[WaveProgram]) -> Iterator[tuple[str, _At, _At]]:
    """(kind, first, second) of all pairs that must be ordered: writes of a step, its reads, the next step's writes."""
    before: list[_At] = []  # accesses of the previous step that used this buffer
    for writes, reads in slot.values():
        for w in writes:
            for x in before:
                if not _same_part(x, w, waves):
                    yield ("WAR" if isinstance(x.event.op, SHARED_READS) else "WAW"), x, w
            for x in writes:
                if _key(x) < _key(w) and not _same_part(x, w, waves):
                    yield "WAW", x, w
        for r in reads:
            for w in writes:
                yield "RAW", w, r
        before = reads + writes


def _across(first: _At, second: _At, waves: Sequence[WaveProgram]) -> bool:
    """Whether the two may run on different waves."""
    mine = waves[first.wave].waves
    return mine != waves[second.wave].waves or len(mine) > 1


def _unordered(
    kind: str, operand: str, first: _At, second: _At, waves: Sequence[WaveProgram], direct: tuple[type[Op], ...]
) -> Iterator[Conflict]:
    x, y = first.event, second.event
    u, theirs = waves[first.wave].waves[0], waves[second.wave].waves
    if not _across(first, second, waves):
        if not _ordered_within_wave(x, y, direct):
            yield Conflict(kind, operand, x, y, (u, u))
    elif not x.done < y.begin:
        v = next((w for w in theirs if w != u), theirs[0])
        yield Conflict(kind, operand, x, y, (u, v), "wait" if x.begin < y.begin else "")


def _ordered_within_wave(x: Event, y: Event, direct: tuple[type[Op], ...]) -> bool:
    """On one wave: program order. LDS serves a wave in order too; what is `direct` (vmcnt) goes past that queue."""
    if x.order >= y.order:
        return False
    return x.completed <= y.order or (not isinstance(x.op, direct) and not isinstance(y.op, direct))


# ---------------------------------------------------------------- what each barrier is for


@dataclass(frozen=True)
class Cover:
    """What a barrier of the schedule orders.

    `alone`: some pair of accesses is ordered by it and no other. `shared`: a pair that it orders together with another
    barrier, as (first access, second access, the other barrier).
    """

    alone: bool = False
    shared: tuple[Op, Op, Op] | None = None


@dataclass(frozen=True)
class Purposes:
    """What the barriers order, and which waits complete anything, both by the numbers of their operations."""

    covers: dict[int, Cover]
    completing: frozenset[int]


def purposes(
    program: Program, waves: Sequence[WaveProgram], passes: int, unroll: int, steps: int, tiles: int = 1
) -> Purposes:
    """What each barrier and wait that the waves execute is for."""
    last_phase = max(w.phase for w in waves)
    traces = [trace(program, w, passes, unroll, steps, tiles, last_phase) for w in waves]
    completing = {t[int(e.completed)].op.number for t in traces for e in t if e.order < e.completed < NEVER}
    return Purposes(_covers(program, waves, traces), frozenset(completing))


def _covers(program: Program, waves: Sequence[WaveProgram], traces: list[list[Event]]) -> dict[int, Cover]:
    barriers = [[e.op for e in events if isinstance(e.op, Barrier)] for events in traces]
    found = {op.number: Cover() for ops in barriers for op in ops}
    for ring in rings(program).items():
        for _, slot in _slots(program, *ring, traces):
            for _, first, second in _required(slot, waves):
                x, y = first.event, second.event
                if not _across(first, second, waves) or not x.done < y.begin:
                    continue
                met = barriers[first.wave][int(x.done) : y.begin]
                if all(op.number == met[0].number for op in met):
                    found[met[0].number] = Cover(True)
                    continue
                for op in met:
                    if found[op.number] == Cover():
                        other = next(o for o in met if o.number != op.number)
                        found[op.number] = Cover(False, (x.op, y.op, other))
    return found


# ---------------------------------------------------------------- registers, within a wave

_Sum = tuple[str, int, int]  # product, fragment row, fragment column


def _one_wave(program: Program, wave: WaveProgram, events: list[Event], steps: int) -> list[Conflict]:
    """Registers hold what is multiplied, every product is summed once, every fragment zeroed and stored once."""
    found: list[Conflict] = []
    me = (wave.waves[0], wave.waves[0])
    role = next(r for r in program.roles if r.name == wave.role)
    holds: dict[tuple[str, int, int], tuple[int, int, int]] = {}  # (operand, fragment, slot) -> (tile, step, slice)
    filler: dict[tuple[str, int, int], Event] = {}
    staged: dict[tuple[str, int], Event] = {}  # the last fetch of each part of an operand
    unwritten: set[tuple[str, int]] = set()  # parts whose last fetch is not yet in LDS
    finished: set[_Sum] = set()  # stored since they were zeroed
    sums: dict[_Sum, set[tuple[int, int]]] = {}
    slices = program.slices
    products = [p.name for p in program.products]
    all_fragments = {
        (i, j) for i in range(program.accumulator.fragments[0]) for j in range(program.accumulator.fragments[1])
    }
    stored: dict[int, list[tuple[int, int]]] = {}
    for e in events:
        op = e.op
        match op:
            case Fetch():
                for at in ((op.operand, part) for part in parts_of(program, op.target)):
                    previous = staged.get(at)
                    if previous and at in unwritten and (previous.tile, previous.step) != (e.tile, e.step):
                        found.append(Conflict("staging", op.operand, previous, e, me, "overwritten"))
                    staged[at] = e
                    unwritten.add(at)
            case Write():
                for at in ((op.operand, part) for part in parts_of(program, op.source)):
                    source = staged.get(at)
                    if source is None or (source.tile, source.step) != (e.tile, e.step_of(op.target)):
                        found.append(Conflict("staging", op.operand, source, e, me, "other step"))
                    unwritten.discard(at)
            case Read():
                buffer = program.operand(op.operand).register_buffer
                for name, fragment, step, t in _tiles(op.target, e.step):
                    key = (name, fragment, buffer(step, t))
                    holds[key], filler[key] = (e.tile, e.step_of(op.source), t), e
            case Zero():
                for f in ((p, i, j) for p in products for i in op.rows for j in op.cols):
                    sums[f] = set()
                    finished.discard(f)
            case Multiply():
                product = program.product_of(op.product).name
                for t in op.slices:
                    for operand, fragments in program.consumed(op):
                        slot = operand.register_buffer(e.step, t)
                        for fragment in fragments:
                            key = (operand.name, fragment, slot)
                            if holds.get(key) != (e.tile, e.step, t):
                                found.append(
                                    Conflict("register", operand.name, filler.get(key), e, me, where=(fragment, t))
                                )
                    for i, j in ((i, j) for i in op.rows for j in op.cols):
                        f = (product, i, j)
                        if f not in sums or f in finished:
                            found.append(Conflict("zero", op.product, None, e, me, where=(i, j)))
                            sums[f] = set()
                            finished.discard(f)
                        elif (e.step, t) in sums[f]:
                            again = (i, j, e.step, t)
                            found.append(Conflict("products", op.product, None, e, me, "twice", where=again))
                        sums[f].add((e.step, t))
            case Store():
                wanted = {(s, t) for s in range(steps) for t in range(slices)}
                for i, j in ((i, j) for i in op.rows for j in op.cols):
                    for f in ((p, i, j) for p in products):
                        missing = wanted - sums.get(f, set())
                        finished.add(f)
                        if missing:
                            s, t = min(missing)
                            name = f[0] if len(products) > 1 else ""
                            found.append(Conflict("products", name, None, e, me, "missing", where=(i, j, s, t)))
                    stored.setdefault(e.tile, []).append((i, j))
    if role.multiplies:
        for tile in range(1 + max((e.tile for e in events), default=0)):
            for i, j in sorted(all_fragments):
                times = stored.get(tile, []).count((i, j))
                if times != 1:
                    found.append(Conflict("stores", "", None, None, me, where=(i, j, times)))
    return found
