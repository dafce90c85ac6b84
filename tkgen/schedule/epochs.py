"""The barrier calculus: unrolled traces, the epoch of every operation, and the conflicts that no barrier orders.

`s_barrier` counts waves: the n-th barrier of every wave of a block is one meeting. An operation begins in the epoch
`begin` (barriers its wave has passed when it issues) and is complete in `done` (barriers passed once its wave has
waited for it, or infinity). x on wave u happens before y on wave v != u iff done(x) < begin(y); on one wave program
order and waits decide.

Waits follow the hardware's counters: LDS operations complete in order (lgkmcnt), global loads complete in order
(vmcnt). A LOAD waits for itself, a WRITE for the fetch it writes. A MULTIPLY needs its register tiles, and the compiler
waits for them, but where is the compiler's choice: a multiply may sink below a barrier, and the wait with it. So
the reads that
a MULTIPLY consumes count as complete only from the next FENCE on, which nothing crosses. Everything else is
complete only when a WAIT says so.

Why a few passes of the loop prove all of them: control flow is uniform, so epochs are affine in the iteration; an LDS
slot is revisited after `buffers` steps and no operation runs more than `depth` steps ahead, so after
depth + buffers + 1 steps the pattern of conflicts repeats. `passes_to_prove` counts those passes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tkgen.ir.ops import LDS_WRITES, Action, Op, WaveProgram
from tkgen.ir.types import WAVE_LANES, Program

NEVER = math.inf


@dataclass(slots=True)
class Event:
    """One executed operation: `step` is its K-step in output tile `tile`; `order` its position in the trace.

    `begin` and `done` are epochs; `completed` is the position in the trace at which it is complete.
    """

    op: Op
    tile: int
    step: int
    order: int
    begin: int
    done: float = NEVER
    completed: float = NEVER

    def complete(self, epoch: int, order: int) -> None:
        """It is known to be complete from position `order` on."""
        self.done, self.completed = epoch, order


@dataclass(frozen=True)
class Conflict:
    """Two operations that the sequential meaning orders and the program does not.

    `kind`: RAW, WAR, WAW (LDS), `unwritten` (a read of a tile nobody loads), `register` (a multiply of a tile that its
    registers do not hold), `staging`, `zero`, `products` (a fragment does not get every product once), `stores`,
    `barriers` (waves that pass different numbers of barriers), `wait` (complete too late although a barrier follows).
    `first` must come before `second`; `waves` are one wave of each.
    """

    kind: str
    operand: str
    first: Event | None
    second: Event | None
    waves: tuple[int, int]
    detail: str = ""


def passes_to_prove(program: Program, depth: int, unroll: int) -> int:
    """Passes of the steady loop after which the pattern of conflicts repeats."""
    buffers = max(o.buffers for o in program.operands)
    return -(-(depth + buffers + 1) // unroll) + 1


def lds_instructions(program: Program, op: Op) -> int:
    """The fewest LDS instructions with which one wave can do `op`: each moves at most 16 bytes a lane.

    Fewest, because a counted wait leaves that many of the *latest* outstanding: counting too many of these would take
    an earlier operation for complete.
    """
    operand = program.operand(op.operand)
    if op.action is Action.READ:
        elements = operand.fragment_extent * operand.slice * len(op.rows or op.cols) * len(op.slices)
        return -(-elements * operand.tensor.dtype.bytes // (16 * WAVE_LANES))
    return global_instructions(program, op)


def global_instructions(program: Program, op: Op) -> int:
    """Global loads one wave issues to bring a tile: 16 bytes a lane, over the waves of one group."""
    operand = program.operand(op.operand)
    role = next((r for r in program.roles if op.operand in r.loads), program.compute)
    return max(1, -(-operand.lds_bytes // (16 * WAVE_LANES * role.group)))


class _Counter:
    """Outstanding operations of one hardware counter, completed in order."""

    def __init__(self) -> None:
        self.queue: deque[tuple[Event, int]] = deque()

    def issue(self, event: Event, instructions: int) -> None:
        self.queue.append((event, instructions))

    def wait(self, outstanding: int, epoch: int, order: int) -> None:
        """Complete from the front until at most `outstanding` instructions remain."""
        total = sum(n for _, n in self.queue)
        while self.queue and total > outstanding:
            event, n = self.queue[0]
            if total - n < outstanding:
                break  # part of this operation is done, not all
            self.queue.popleft()
            event.complete(epoch, order)
            total -= n

    def wait_for(self, event: Event, epoch: int, order: int) -> None:
        """Complete everything up to and including `event`."""
        if any(e is event for e, _ in self.queue):
            while self.queue:
                head, _ = self.queue.popleft()
                head.complete(epoch, order)
                if head is event:
                    return


def trace(program: Program, wave: WaveProgram, passes: int, unroll: int, steps: int, tiles: int, last_phase: int
          ) -> list[Event]:  # fmt: skip
    """Every operation that `wave` executes over `tiles` output tiles of `steps` K-steps, with epochs.

    `last_phase` is the largest phase of the block: waves that run ahead pass the difference at the end of a tile.
    """
    events: list[Event] = []
    lds, vm = _Counter(), _Counter()
    reads: dict[tuple[str, int, int, int], Event] = {}  # (operand, fragment, step, slice) -> its read
    fetched: dict[tuple[str, int], Event] = {}
    consumed: list[Event] = []  # reads that a MULTIPLY needs, not yet behind a FENCE
    epoch = 0
    barrier = Op(Action.BARRIER, automatic=True)
    for tile in range(tiles):
        sequence: list[tuple[Op, int]] = [(barrier, 0)] * wave.phase
        sequence += [(p.op, p.step.at(0, steps)) for p in wave.prologue]
        for i in range(passes):
            sequence += [(p.op, p.step.at(i * unroll, steps)) for p in wave.body]
        sequence += [(p.op, p.step.at(0, steps)) for p in wave.epilogue]
        sequence += [(barrier, 0)] * (last_phase - wave.phase)
        for op, step in sequence:
            now = len(events)
            event = Event(op, tile, step, now, epoch)
            events.append(event)
            match op.action:
                case Action.FETCH:
                    vm.issue(event, global_instructions(program, op))
                    fetched[op.operand, step] = event
                case Action.COPY:
                    vm.issue(event, global_instructions(program, op))
                case Action.WRITE:
                    if (op.operand, step) in fetched:
                        vm.wait_for(fetched.pop((op.operand, step)), epoch, now)
                    lds.issue(event, lds_instructions(program, op))
                case Action.READ:
                    lds.issue(event, lds_instructions(program, op))
                    for key in _tiles(op, step):
                        reads[key] = event
                case _:
                    event.complete(epoch, now)
            match op.action:
                case Action.BARRIER:
                    epoch += 1
                case Action.LOAD:
                    lds.wait(0, epoch, now)
                    vm.wait(0, epoch, now)
                case Action.MULTIPLY:
                    consumed += [reads.pop(key) for key in _consumed(program, op, step) if key in reads]
                case Action.FENCE:
                    for read in consumed:
                        lds.wait_for(read, epoch, now)
                    consumed = []
                case Action.WAIT:
                    (lds if op.counter == "lds" else vm).wait(op.count, epoch, now)
    return events


def _tiles(op: Op, step: int) -> Iterable[tuple[str, int, int, int]]:
    return ((op.operand, f, step, t) for f in (op.rows or op.cols) for t in op.slices)


def _consumed(program: Program, op: Op, step: int) -> Iterable[tuple[str, int, int, int]]:
    for t in op.slices:
        yield from ((program.a.name, i, step, t) for i in op.rows)
        yield from ((program.b.name, j, step, t) for j in op.cols)


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
    for operand in program.operands:
        found += _lds(operand.name, operand.buffers, waves, traces)
    return _first_of_each(found)


def _first_of_each(found: list[Conflict]) -> list[Conflict]:
    unique: dict[tuple[object, ...], Conflict] = {}
    for c in found:
        key = (c.kind, c.operand, c.first and c.first.op, c.second and c.second.op)
        unique.setdefault(key, c)
    return list(unique.values())


def _barrier_counts(waves: Sequence[WaveProgram], traces: list[list[Event]]) -> list[Conflict]:
    """Waves that pass other numbers of barriers than the first, over the tile or in one pass of the loop."""
    counts = [sum(e.op.action is Action.BARRIER for e in events) for events in traces]
    looped = [sum(p.op.action is Action.BARRIER for p in w.body) for w in waves]
    return [
        Conflict("barriers", "", None, None, (waves[0].waves[0], w.waves[0]), f"{counts[0]} {n}")
        for w, n, m in zip(waves[1:], counts[1:], looped[1:], strict=True)
        if n != counts[0] or m != looped[0]
    ]


# ---------------------------------------------------------------- LDS, across waves


def _lds(operand: str, buffers: int, waves: Sequence[WaveProgram], traces: list[list[Event]]) -> list[Conflict]:
    """RAW, WAR and WAW of one operand, and its reads of tiles that nobody loads."""
    found: list[Conflict] = []
    for slot in _slots(operand, buffers, traces):
        for _, reads in (accesses for accesses in slot.values() if not accesses[0]):
            wave = waves[reads[0].wave].waves[0]
            found.append(Conflict("unwritten", operand, None, reads[0].event, (wave, wave)))
        for kind, first, second in _required(slot, waves):
            found += _unordered(kind, operand, first, second, waves)
    return found


@dataclass(frozen=True, slots=True)
class _At:
    wave: int
    event: Event


def _key(at: _At) -> tuple[int, int]:
    return at.wave, at.event.order


def _same_part(x: _At, y: _At, waves: Sequence[WaveProgram]) -> bool:
    """Whether x and y write a tile divided over the same threads: then only a thread meets its own bytes again."""
    return x.event.op.action is y.event.op.action and waves[x.wave].role == waves[y.wave].role


_Slot = dict[tuple[int, int], tuple[list[_At], list[_At]]]  # (tile, step) -> its writes, its reads


def _slots(operand: str, buffers: int, traces: list[list[Event]]) -> list[_Slot]:
    """The accesses to each buffer of an operand, steps in order."""
    slots: dict[int, _Slot] = {}
    for index, events in enumerate(traces):
        for e in events:
            if e.op.operand == operand and (e.op.action in LDS_WRITES or e.op.action is Action.READ):
                slot = slots.setdefault((e.step + e.op.slot_shift) % buffers, {})
                writes, reads = slot.setdefault((e.tile, e.step), ([], []))
                (reads if e.op.action is Action.READ else writes).append(_At(index, e))
    return [dict(sorted(slot.items(), key=lambda item: item[0])) for slot in slots.values()]


def _required(slot: _Slot, waves: Sequence[WaveProgram]) -> Iterator[tuple[str, _At, _At]]:
    """(kind, first, second) of all pairs that must be ordered: writes of a step, its reads, the next step's writes."""
    before: list[_At] = []  # accesses of the previous step that used this buffer
    for writes, reads in slot.values():
        for w in writes:
            for x in before:
                if not _same_part(x, w, waves):
                    yield ("WAR" if x.event.op.action is Action.READ else "WAW"), x, w
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


def _unordered(kind: str, operand: str, first: _At, second: _At, waves: Sequence[WaveProgram]) -> Iterator[Conflict]:
    x, y = first.event, second.event
    u, theirs = waves[first.wave].waves[0], waves[second.wave].waves
    if not _across(first, second, waves):
        if not _ordered_within_wave(x, y):
            yield Conflict(kind, operand, x, y, (u, u))
    elif not x.done < y.begin:
        v = next((w for w in theirs if w != u), theirs[0])
        yield Conflict(kind, operand, x, y, (u, v), "wait" if x.begin < y.begin else "")


def _ordered_within_wave(x: Event, y: Event) -> bool:
    """On one wave: program order. LDS serves a wave in order too; a copy (vmcnt) goes past that queue."""
    if x.order >= y.order:
        return False
    return x.completed <= y.order or Action.COPY not in (x.op.action, y.op.action)


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
    """What the barriers order, and which waits complete anything, both by the `id` of their operations."""

    covers: dict[int, Cover]
    completing: frozenset[int]


def purposes(
    program: Program, waves: Sequence[WaveProgram], passes: int, unroll: int, steps: int, tiles: int = 1
) -> Purposes:
    """What each barrier and wait that the waves execute is for."""
    last_phase = max(w.phase for w in waves)
    traces = [trace(program, w, passes, unroll, steps, tiles, last_phase) for w in waves]
    completing = {id(t[int(e.completed)].op) for t in traces for e in t if e.order < e.completed < NEVER}
    return Purposes(_covers(program, waves, traces), frozenset(completing))


def _covers(program: Program, waves: Sequence[WaveProgram], traces: list[list[Event]]) -> dict[int, Cover]:
    barriers = [[e.op for e in events if e.op.action is Action.BARRIER] for events in traces]
    found = {id(op): Cover() for ops in barriers for op in ops}
    for operand in program.operands:
        for slot in _slots(operand.name, operand.buffers, traces):
            for _, first, second in _required(slot, waves):
                x, y = first.event, second.event
                if not _across(first, second, waves) or not x.done < y.begin:
                    continue
                met = barriers[first.wave][int(x.done) : y.begin]
                if all(op is met[0] for op in met):
                    found[id(met[0])] = Cover(True)
                    continue
                for op in met:
                    if found[id(op)] == Cover():
                        other = next(o for o in met if o is not op)
                        found[id(op)] = Cover(False, (x.op, y.op, other))
    return found


# ---------------------------------------------------------------- registers, within a wave


def _one_wave(program: Program, wave: WaveProgram, events: list[Event], steps: int) -> list[Conflict]:
    """Registers hold what is multiplied, every product is summed once, every fragment zeroed and stored once."""
    found: list[Conflict] = []
    me = (wave.waves[0], wave.waves[0])
    role = next(r for r in program.roles if r.name == wave.role)
    holds: dict[tuple[str, int, int], tuple[int, int, int]] = {}  # (operand, fragment, slot) -> (tile, step, slice)
    filler: dict[tuple[str, int, int], Event] = {}
    staged: dict[str, Event] = {}  # the last fetch of each operand
    unwritten: set[str] = set()  # operands whose last fetch is not yet in LDS
    finished: set[tuple[int, int]] = set()  # fragments stored since they were zeroed
    sums: dict[tuple[int, int], set[tuple[int, int]]] = {}
    slices, buffers = program.a.slices, program.a.register_buffers
    all_fragments = {
        (i, j) for i in range(program.accumulator.fragments[0]) for j in range(program.accumulator.fragments[1])
    }
    stored: dict[int, list[tuple[int, int]]] = {}
    for e in events:
        op = e.op
        match op.action:
            case Action.FETCH:
                previous = staged.get(op.operand)
                if previous and op.operand in unwritten and (previous.tile, previous.step) != (e.tile, e.step):
                    found.append(Conflict("staging", op.operand, previous, e, me, "overwritten"))
                staged[op.operand] = e
                unwritten.add(op.operand)
            case Action.WRITE:
                source = staged.get(op.operand)
                if source is None or (source.tile, source.step) != (e.tile, e.step):
                    found.append(Conflict("staging", op.operand, source, e, me, "other step"))
                unwritten.discard(op.operand)
            case Action.READ:
                for fragment in op.rows or op.cols:
                    for t in op.slices:
                        key = (op.operand, fragment, (e.step * slices + t) % buffers)
                        holds[key], filler[key] = (e.tile, e.step, t), e
            case Action.ZERO:
                for f in ((i, j) for i in op.rows for j in op.cols):
                    sums[f] = set()
                    finished.discard(f)
            case Action.MULTIPLY:
                for t in op.slices:
                    slot = (e.step * slices + t) % buffers
                    for name, fragments in ((program.a.name, op.rows), (program.b.name, op.cols)):
                        for fragment in fragments:
                            if holds.get((name, fragment, slot)) != (e.tile, e.step, t):
                                other = filler.get((name, fragment, slot))
                                found.append(Conflict("register", name, other, e, me, f"{fragment} {t}"))
                    for f in ((i, j) for i in op.rows for j in op.cols):
                        if f not in sums or f in finished:
                            found.append(Conflict("zero", "", None, e, me, f"{f[0]} {f[1]}"))
                            sums[f] = set()
                            finished.discard(f)
                        elif (e.step, t) in sums[f]:
                            found.append(Conflict("products", "", None, e, me, f"{f[0]} {f[1]} {e.step} {t} twice"))
                        sums[f].add((e.step, t))
            case Action.STORE:
                wanted = {(s, t) for s in range(steps) for t in range(slices)}
                for f in ((i, j) for i in op.rows for j in op.cols):
                    missing = wanted - sums.get(f, set())
                    finished.add(f)
                    if missing:
                        s, t = min(missing)
                        found.append(Conflict("products", "", None, e, me, f"{f[0]} {f[1]} {s} {t} missing"))
                    stored.setdefault(e.tile, []).append(f)
    if role.multiplies:
        for tile in range(1 + max((e.tile for e in events), default=0)):
            for f in sorted(all_fragments):
                times = stored.get(tile, []).count(f)
                if times != 1:
                    found.append(Conflict("stores", "", None, None, me, f"{f[0]} {f[1]} {times}"))
    return found
