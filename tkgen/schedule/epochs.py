"""The barrier calculus: the conflicts that no barrier orders, in traces with the epoch of every operation.

`s_barrier` counts waves: the n-th barrier of every wave of a block is one meeting. An operation begins in the epoch
`begin` (barriers its wave has passed when it issues) and is complete in `done` (barriers passed once its wave has
waited for it, or infinity). x on wave u happens before y on wave v != u iff done(x) < begin(y); on one wave program
order and waits decide.

When an operation of a wave is complete, `tkgen.schedule.traces` says.

A tile in LDS lies in parts (`Operand.parts`), each of which is a tile of its own: what brings a part writes all of it,
dealt to the threads of its group always alike, and nothing beside it. So two accesses meet iff they have a part in
common, and what is said below of a buffer holds of each of its parts.

Why a few passes of the loop prove all of them: control flow is uniform, so epochs are affine in the iteration; an LDS
slot is revisited after `buffers` steps, no operation runs more than `depth` steps ahead, and a wait that leaves n
outstanding looks back over the steps that issue n; after all of these steps the pattern of conflicts repeats.
`passes_to_prove` counts those passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tkgen.ir.ops import SHARED_READS, Barrier, Copy, Load, Op, Space, Wait, WaveProgram
from tkgen.ir.reductions import BUFFERS, RING, exchanges
from tkgen.ir.types import Program
from tkgen.schedule.conflict import Conflict
from tkgen.schedule.instructions import instructions
from tkgen.schedule.registers import within_wave
from tkgen.schedule.traces import NEVER, Event, parts_of, trace


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
        if left:
            issued = sum(instructions(program, [p.op])[counter] for p in wave.body)
            most = max(most, -(-left // issued) if issued else 0)
    return most


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
        found += within_wave(program, wave, events, steps)
    for ring in rings(program).items():
        found += _lds(program, *ring, waves, traces)
    return _first_of_each(found)


def rings(program: Program) -> dict[str, int]:
    """What lies in LDS, and in how many buffers: the operands, and partial results of reductions."""
    return {o.name: o.buffers for o in program.shared} | ({RING: BUFFERS} if exchanges(program) else {})


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
