"""The barrier calculus: the conflicts that no barrier orders, in traces with the epoch of every operation.

`s_barrier` counts waves: the n-th barrier of every wave of a block is the same barrier. An operation begins in the
epoch `begin` (barriers its wave has passed when it issues) and is complete in `done` (barriers passed once its wave has
waited for it, or infinity). x on wave u happens before y on wave v != u iff done(x) < begin(y); on one wave program
order and waits decide.

When an operation of a wave is complete, `tkgen.schedule.traces` says.

A tile in LDS lies in parts (`Operand.parts`), each of which is a separate tile: what brings a part writes all of it,
dealt to the threads of its group always alike, and nothing beside it. So two accesses meet iff they have a part in
common, and what is said below of a buffer holds of each of its parts.

Why a few iterations of the loop prove all of them: control flow is uniform, so epochs are affine in the iteration; an
LDS slot is revisited after `buffers` steps, no operation runs more than `depth` steps ahead, and a wait that leaves n
outstanding looks back over the steps that issue n; after all of these steps the pattern of conflicts repeats.
`passes_to_prove` counts those passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from tkgen.ir.reductions import BUFFERS, RING, exchanges
from tkgen.ir.types import Program
from tkgen.schedule.instructions import instructions
from tkgen.schedule.registers import within_wave
from tkgen.schedule.traces import NEVER, Conflict, Event, Issued, Passed, data_trace, parts_of, trace
from tkgen.tile.ops import SHARED_READS, Barrier, CatchUp, Copy, Load, barriers
from tkgen.tile.program import Control, Drain, Op, Part, Role, Space, ops


def passes_to_prove(program: Program, waves: Sequence[Role], depth: int, unroll: int) -> int:
    """Passes of the steady loop after which the pattern of conflicts repeats."""
    buffers = max(o.buffers for o in program.operands)
    waited = max(_passes_waited_over(program, waves[n]) for n in distinct(waves))
    return -(-(depth + buffers + 1) // unroll) + 1 + waited


def _passes_waited_over(program: Program, wave: Role) -> int:
    """Iterations of the loop that issue as much as the loosest counted wait leaves outstanding; 0 without such
    waits."""
    waits = [p for p in ops(wave.nodes) if isinstance(p, Drain)]
    left = {counter: max((op.count for op in waits if op.stream == counter), default=0) for counter in ("lds", "vm")}
    if not any(left.values()):
        return 0
    found = [instructions(program, [p]) for p in wave.ops(Part.BODY) if not isinstance(p, Control)]
    issued = {counter: sum(each[counter] for each in found) for counter in left}
    return max(-(-left[counter] // issued[counter]) if issued[counter] else 0 for counter in left)


def conflicts(
    program: Program, waves: Sequence[Role], passes: int, unroll: int, steps: int, tiles: int = 1
) -> list[Conflict]:
    """Everything that goes wrong in some interleaving of `waves`, the first of each sort.

    `steps` is the number of K-steps that `passes` iterations of the loop make with prologue and epilogue.
    """
    traces = executed(program, waves, passes, unroll, steps, tiles)
    found = barrier_counts(waves, passes, tiles)
    found += registers_of(program, waves, traces, steps)
    for ring in rings(program).items():
        found += _lds(program, *ring, waves, traces)
    return _first_of_each(found)


def executed(
    program: Program,
    waves: Sequence[Role],
    passes: int,
    unroll: int,
    steps: int,
    tiles: int,
    passed: Mapping[int, Passed] = MappingProxyType({}),
    issued: Mapping[int, Issued] = MappingProxyType({}),
) -> list[list[Event]]:
    """Return the events on data of each program; for one that differs from an earlier one only in its phase, its moves.

    Such waves pass the barriers of their phase before their first tile, and so many less after their last. Between two
    tiles all pass equally many. So they do what the others do, later; unless they catch up within a tile. `passed` are
    waits that complete nothing, by the number of the program; `issued` as `data_trace` takes it.
    """
    last_phase = max(w.phase for w in waves)
    found: list[list[Event]] = []
    for number, wave in enumerate(waves):
        like = next((n for n, w in enumerate(waves[:number]) if same_code(w, wave)), number)
        if like == number or passed or any(isinstance(p, CatchUp) for p in wave.behind):
            known = passed.get(number), issued.get(number)
            found.append(data_trace(program, wave, passes, unroll, steps, tiles, last_phase, *known))
        else:
            found.append([e.later(wave.phase - waves[like].phase) for e in found[like] if e.op.operand])
    return found


def same_code(a: Role, b: Role) -> bool:
    """Return True if two programs differ at most in their waves and phases."""
    return (a.name, a.parts) == (b.name, b.parts)


def distinct(waves: Sequence[Role]) -> list[int]:
    """The numbers of the programs that are like no earlier one except for waves and phase."""
    return [n for n, wave in enumerate(waves) if not any(same_code(earlier, wave) for earlier in waves[:n])]


def registers_of(
    program: Program, waves: Sequence[Role], traces: Sequence[Sequence[Event]], steps: int
) -> list[Conflict]:
    """List the conflicts in the registers of each wave; of programs that differ in phase alone, of the first one."""
    return [c for n in distinct(waves) for c in within_wave(program, waves[n], traces[n], steps)]


def rings(program: Program) -> dict[str, int]:
    """Return the number of buffers of everything in LDS: the operands, and partial results of reductions."""
    return {o.name: o.buffers for o in program.shared} | ({RING: BUFFERS} if exchanges(program) else {})


def _first_of_each(found: list[Conflict]) -> list[Conflict]:
    unique: dict[tuple[object, ...], Conflict] = {}
    for c in found:
        key = (c.kind, c.operand, *(e and (e.op if e.op.identity < 0 else e.op.identity) for e in (c.first, c.second)))
        unique.setdefault(key, c)
    return list(unique.values())


def barrier_counts(waves: Sequence[Role], passes: int, tiles: int) -> list[Conflict]:
    """Waves that pass other numbers of barriers than the first, over the tile or in one iteration of the loop."""
    # Each passes those of the phases in all, before or after.
    looped = [barriers(w.tiles.body) for w in waves]
    around = [barriers((*w.before, *w.behind)) for w in waves]
    last_phase = max(w.phase for w in waves)
    counts = [tiles * (last_phase + n + passes * m) for n, m in zip(around, looped, strict=True)]
    return [
        Conflict("barriers", "", None, None, (waves[0].waves[0], w.waves[0]), where=(counts[0], n))
        for w, n, m in zip(waves[1:], counts[1:], looped[1:], strict=True)
        if n != counts[0] or m != looped[0]
    ]


# ---------------------------------------------------------------- LDS, across waves


def _lds(program: Program, name: str, buffers: int, waves: Sequence[Role], traces: list[list[Event]]) -> list[Conflict]:
    """RAW, WAR and WAW of what lies in LDS by that name, and its reads of tiles that nobody writes."""
    found: list[Conflict] = []
    direct = past_the_queue(program)
    for part, slot in slots(program, name, buffers, traces):
        for _, reads in (accesses for accesses in slot.values() if not accesses[0]):
            wave = waves[reads[0].wave].waves[0]
            found.append(Conflict("unwritten", name, None, reads[0].event, (wave, wave), part=part))
        for kind, first, second in required(slot, waves):
            found += (replace(c, part=part) for c in _unordered(kind, name, first, second, waves, direct))
    return found


def past_the_queue(program: Program) -> tuple[type[Op], ...]:
    """Return the operations that use the counter of global loads instead of the queue of LDS operations."""
    return (Copy, Load) if program.direct else (Copy,)


@dataclass(frozen=True, slots=True)
class At:
    """An event of the wave programs with that number."""

    wave: int
    event: Event


def _key(at: At) -> tuple[int, int]:
    return at.wave, at.event.order


def _same_part(x: At, y: At, waves: Sequence[Role]) -> bool:
    """Return True if x and y write a tile divided over the same threads: only a thread meets its own bytes again."""
    return type(x.event.op) is type(y.event.op) and waves[x.wave].name == waves[y.wave].name


_Slot = dict[tuple[int, int], tuple[list[At], list[At]]]  # (tile, step) -> its writes, its reads


def slots(program: Program, name: str, buffers: int, traces: list[list[Event]]) -> list[tuple[int, _Slot]]:
    """The accesses to each part of each buffer of a ring, as (part, accesses), steps in order."""
    found: dict[tuple[int, int], _Slot] = {}
    for index, events in enumerate(traces):
        for e in events:
            if e.op.operand != name:
                continue
            at = At(index, e)
            for access, number in ((a, n) for n, made in enumerate((e.op.writes, e.op.reads)) for a in made):
                if access.space is Space.SHARED:
                    step = e.step_of(access)
                    for part in parts_of(program, access):
                        slot = found.setdefault((step % buffers, part), {})
                        slot.setdefault((e.tile, step), ([], []))[number].append(at)
    return [(part, dict(sorted(slot.items(), key=lambda item: item[0]))) for (_, part), slot in found.items()]


def required(slot: _Slot, waves: Sequence[Role]) -> Iterator[tuple[str, At, At]]:
    """(kind, first, second) of all pairs that must be ordered: writes of a step, its reads, the next step's writes."""
    before: list[At] = []  # accesses of the previous step that used this buffer
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


def across(first: At, second: At, waves: Sequence[Role]) -> bool:
    """Return True if the two accesses may be by different waves."""
    mine = waves[first.wave].waves
    return mine != waves[second.wave].waves or len(mine) > 1


def _unordered(
    kind: str, operand: str, first: At, second: At, waves: Sequence[Role], direct: tuple[type[Op], ...]
) -> Iterator[Conflict]:
    x, y = first.event, second.event
    u, theirs = waves[first.wave].waves[0], waves[second.wave].waves
    if not across(first, second, waves):
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
    """The pairs of accesses that a barrier of the schedule orders.

    `alone`: some pair of accesses is ordered by it and no other. `shared`: a pair that it orders together with another
    barrier, as (first access, second access, the other barrier).
    """

    alone: bool = False
    shared: tuple[Op, Op, Op] | None = None


@dataclass(frozen=True)
class Purposes:
    """The accesses that barriers order, and the waits that complete anything, both by the
    numbers of their operations.
    """

    covers: dict[int, Cover]
    completing: frozenset[int]


def purposes(program: Program, waves: Sequence[Role], passes: int, unroll: int, steps: int, tiles: int = 1) -> Purposes:
    """Return the purpose of each barrier and wait that the waves execute."""
    last_phase = max(w.phase for w in waves)
    traces = [trace(program, w, passes, unroll, steps, tiles, last_phase) for w in waves]
    completing = {t[int(e.completed)].op.identity for t in traces for e in t if e.order < e.completed < NEVER}
    return Purposes(_covers(program, waves, traces), frozenset(completing))


def _covers(program: Program, waves: Sequence[Role], traces: list[list[Event]]) -> dict[int, Cover]:
    barriers = [[e.op for e in events if isinstance(e.op, Barrier)] for events in traces]
    found = {op.identity: Cover() for ops in barriers for op in ops}
    for ring in rings(program).items():
        for _, slot in slots(program, *ring, traces):
            for _, first, second in required(slot, waves):
                x, y = first.event, second.event
                if not across(first, second, waves) or not x.done < y.begin:
                    continue
                met = barriers[first.wave][int(x.done) : y.begin]
                if all(op.identity == met[0].identity for op in met):
                    found[met[0].identity] = Cover(True)
                    continue
                for op in met:
                    if found[op.identity] == Cover():
                        other = next(o for o in met if o.identity != op.identity)
                        found[op.identity] = Cover(False, (x.op, y.op, other))
    return found
