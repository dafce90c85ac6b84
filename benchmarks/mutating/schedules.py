"""Mutants of a plan: one thing about its schedule changed, as a slip of the pen would.

    for mutant in mutants(plan):
        mutant.kind, mutant.what, mutant.plan

Every mutant can be lowered and run, so that an emulator can say whether it is right. A change is made alike in the
programs of all waves of a role; barriers are changed in all roles, or, as kinds of their own, in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tkgen.ir.types import Program
from tkgen.schedule.plan import Plan
from tkgen.tile.ops import (
    LOADS,
    TILE_WRITES,
    Barrier,
    Fence,
    Move,
    Multiply,
    OfRound,
    OfSums,
    Read,
    Store,
    Zero,
)
from tkgen.tile.program import END, Drain, Op, Part, Role

DATA = (*LOADS, Read, Multiply)

Edit = Callable[[tuple[Op, ...]], tuple[Op, ...] | None]


@dataclass(frozen=True)
class Mutant:
    """`kind` as the benchmark counts them, `what` in words; `plan` is the mutated one."""

    kind: str
    what: str
    plan: Plan


def mutants(plan: Plan) -> Iterator[Mutant]:
    """All mutants of `plan`, in a fixed order; plans that come out unchanged are left out."""
    for made in _all(plan):
        if made.plan.waves != plan.waves or made.plan.program != plan.program:
            yield made


def _all(plan: Plan) -> Iterator[Mutant]:
    for make in (_barriers, _waits, _slots, _orders, _steps, _fragments, _parts, _missing, _zeros, _stores, _phases):
        yield from make(plan)
    yield from _rounds(plan)
    yield from _collectives(plan)
    yield from _accumulators(plan)


# ---------------------------------------------------------------- how a change is made


def _edited(plan: Plan, part: Part, edit: Edit, role: str | None = None) -> Plan | None:
    """`plan` with `edit` done in a part of every wave's program, or one role's; None where it cannot be."""
    waves: list[Role] = []
    for wave in plan.waves:
        if role is None or wave.name == role:
            changed = edit(wave.ops(part))
            if changed is None:
                return None
            wave = wave.with_ops(part, changed)
        waves.append(wave)
    return replace(plan, waves=tuple(waves))


def _made(kind: str, what: str, plan: Plan | None) -> Iterator[Mutant]:
    if plan is not None:
        yield Mutant(kind, what, plan)


def _each(plan: Plan, wanted: Callable[[Op], bool]) -> Iterator[tuple[str, Part, int, Op]]:
    """(role, part, position, operation) of every operation that is wanted, once for each role."""
    seen: set[str] = set()
    for wave in plan.waves:
        if wave.name not in seen:
            seen.add(wave.name)
            for part in Part:
                for i, placed in enumerate(wave.ops(part)):
                    if wanted(placed):
                        yield wave.name, part, i, placed


def _with(position: int, *new: Op) -> Edit:
    """Puts `new` in place of the operation at `position`."""
    return lambda ops: (*ops[:position], *new, *ops[position + 1 :])


def _nth(kind: type[Op], n: int, ops: Sequence[Op]) -> int | None:
    found = [i for i, p in enumerate(ops) if isinstance(p, kind)]
    return found[n] if n < len(found) else None


# ---------------------------------------------------------------- barriers and waits


def _barriers(plan: Plan) -> Iterator[Mutant]:
    for part in Part:
        count = max(sum(isinstance(p, Barrier) for p in w.ops(part)) for w in plan.waves)
        for n in range(count):

            def dropped(ops: tuple[Op, ...], n: int = n) -> tuple[Op, ...] | None:
                at = _nth(Barrier, n, ops)
                return None if at is None else _with(at)(ops)

            def doubled(ops: tuple[Op, ...], n: int = n) -> tuple[Op, ...] | None:
                at = _nth(Barrier, n, ops)
                return None if at is None else _with(at, ops[at], ops[at])(ops)

            where = f"barrier {n} of the {part.value}"
            yield from _made("drop barrier", where, _edited(plan, part, dropped))
            yield from _made("duplicate barrier", where, _edited(plan, part, doubled))
            for direction in (-1, 1):

                def moved(ops: tuple[Op, ...], n: int = n, direction: int = direction) -> tuple[Op, ...] | None:
                    at = _nth(Barrier, n, ops)
                    return None if at is None else _moved(ops, at, direction)

                way = "up" if direction < 0 else "down"
                yield from _made("move barrier", f"{where} {way}", _edited(plan, part, moved))
            for role in {w.name for w in plan.waves} if len(plan.program.roles) > 1 else ():
                yield from _made("barrier in one role", f"drop {where}, {role}", _edited(plan, part, dropped, role))
                yield from _made("barrier in one role", f"double {where}, {role}", _edited(plan, part, doubled, role))


def _moved(ops: tuple[Op, ...], at: int, direction: int) -> tuple[Op, ...] | None:
    """An operation moved past the next one that touches data, alone."""
    to = at + direction
    while 0 <= to < len(ops) and not isinstance(ops[to], DATA):
        to += direction
    if not 0 <= to < len(ops):
        return None
    rest = [*ops[:at], *ops[at + 1 :]]
    rest.insert(to, ops[at])
    return tuple(rest)


def _waits(plan: Plan) -> Iterator[Mutant]:
    for role, part, i, placed in _each(plan, lambda op: isinstance(op, Drain)):
        where = f"`{placed}` at {i} of the {part.value}, {role}"
        yield from _made("drop wait", where, _edited(plan, part, _with(i), role))
        yield from _made("duplicate wait", where, _edited(plan, part, _with(i, placed, placed), role))
        weaker = replace(placed, left=str(placed.count + 4))
        yield from _made("weaken wait", where, _edited(plan, part, _with(i, weaker), role))
        other = replace(placed, stream="vm" if placed.stream == "lds" else "lds")
        yield from _made("wait on the other counter", where, _edited(plan, part, _with(i, other), role))
        for direction in (-1, 1):
            way = "up" if direction < 0 else "down"
            yield from _made(
                "move wait",
                f"{where} {way}",
                _edited(plan, part, lambda ops, i=i, d=direction: _moved(ops, i, d), role),  # type: ignore[misc]
            )
    for role, part, i, _ in _each(plan, lambda op: isinstance(op, Fence)):
        yield from _made("drop fence", f"fence at {i} of the {part.value}, {role}", _edited(plan, part, _with(i), role))


# ---------------------------------------------------------------- operations on data


def _slots(plan: Plan) -> Iterator[Mutant]:
    for role, part, i, placed in _each(plan, lambda op: isinstance(op, (*TILE_WRITES, Read))):
        if plan.program.operand(placed.operand).buffers > 1:
            shifted = _other_slot(placed)
            where = f"`{placed}` of the {part.value}, {role}"
            yield from _made("shift slot", where, _edited(plan, part, _with(i, shifted), role))


def _other_slot(op: Op) -> Op:
    """A move whose side in LDS is the next K-step's."""
    assert isinstance(op, Move) and op.shared is not None
    side = "source" if op.source is op.shared else "target"
    return replace(op, **{side: replace(op.shared, ahead=op.shared.ahead + 1)})


def _boxes(op: Op) -> dict[str, tuple[int, ...]]:
    """The fragments and slices that an operation names."""
    if isinstance(op, Move):
        return {"fragments": op.tile.fragments, "slices": op.tile.slices}
    if isinstance(op, Multiply):
        return {"rows": op.rows, "cols": op.cols, "slices": op.slices}
    assert isinstance(op, OfSums)
    return {"rows": op.rows, "cols": op.cols}


def _boxed(op: Op, name: str, values: tuple[int, ...]) -> Op:
    """The operation with other fragments or slices, in all its accesses."""
    box = _boxes(op) | {name: values}
    match op:
        case Move():
            here = (box["fragments"], box["slices"])
            sides = (replace(op.source, box=here), replace(op.target, box=here))
            return replace(op, source=sides[0], target=sides[1])
        case Multiply():
            left, right = ((box[side], box["slices"]) for side in ("rows", "cols"))
            return replace(op, left=replace(op.left, box=left), right=replace(op.right, box=right))
        case _:
            return replace(op, **box)


def _orders(plan: Plan) -> Iterator[Mutant]:
    """Neighbouring operations on data the other way round."""
    for role, part, i, placed in _each(plan, lambda op: isinstance(op, DATA)):

        def swapped(ops: tuple[Op, ...], i: int = i) -> tuple[Op, ...] | None:
            other = next((j for j in range(i + 1, len(ops)) if isinstance(ops[j], DATA)), None)
            if other is None:
                return None
            return (*ops[:i], ops[other], *ops[i + 1 : other], ops[i], *ops[other + 1 :])

        where = f"`{placed}` with the next in the {part.value}, {role}"
        yield from _made("swap order", where, _edited(plan, part, swapped, role))


def _steps(plan: Plan) -> Iterator[Mutant]:
    """An operation on the K-step before or after."""
    for role, part, i, placed in _each(plan, lambda op: isinstance(op, (*LOADS, Read))):
        for by in (-1, 1):
            changed = placed.moved(placed.at, by)
            if (not changed.at and changed.offset < 0) or (changed.at == END and changed.offset >= 0):
                continue  # no such step, so nothing could be emitted for it
            where = f"`{placed}` of the {part.value} by {by:+d}, {role}"
            yield from _made("shift step", where, _edited(plan, part, _with(i, changed), role))


def _fragments(plan: Plan) -> Iterator[Mutant]:
    """Fragments or slices left out, or another in their place."""
    rows, cols = plan.program.accumulator.fragments
    for role, part, i, placed in _each(plan, lambda op: isinstance(op, Read | Multiply)):
        extents = {"rows": rows, "cols": cols, "slices": plan.program.a.slices}
        if placed.operand:
            operand = plan.program.operand(placed.operand)
            extents = {"fragments": operand.fragments, "slices": operand.slices}
        for name, values in _boxes(placed).items():
            where = f"{name} of `{placed}` of the {part.value}, {role}"
            if len(values) > 1:
                fewer = _boxed(placed, name, values[:-1])
                yield from _made("leave out fragment", where, _edited(plan, part, _with(i, fewer), role))
            elif values and extents[name] > 1:
                other = _boxed(placed, name, ((values[0] + 1) % extents[name],))
                yield from _made("permute coordinate", where, _edited(plan, part, _with(i, other), role))


def _parts(plan: Plan) -> Iterator[Mutant]:
    """Another part of a tile brought to LDS."""
    for role, part, i, placed in _each(plan, lambda op: isinstance(op, LOADS)):
        operand = plan.program.operand(placed.operand)
        counts = {"fragments": operand.fragments, "slices": operand.slices}
        for (name, values), parts in zip(_boxes(placed).items(), operand.parts, strict=True):
            if values:
                by, count = counts[name] // parts, counts[name]
                changed = _boxed(placed, name, tuple(sorted((value + by) % count for value in values)))
                where = f"{name} of `{placed}` of the {part.value}, {role}"
                yield from _made("permute part", where, _edited(plan, part, _with(i, changed), role))


def _missing(plan: Plan) -> Iterator[Mutant]:
    for role, part, i, placed in _each(plan, lambda op: isinstance(op, DATA)):
        where = f"`{placed}` of the {part.value}, {role}"
        yield from _made(f"drop {placed.word}", where, _edited(plan, part, _with(i), role))
        yield from _made(f"duplicate {placed.word}", where, _edited(plan, part, _with(i, placed, placed), role))


def _zeros(plan: Plan) -> Iterator[Mutant]:
    for role, part, i, placed in _each(plan, lambda op: isinstance(op, Zero)):
        yield from _made("skip zero", "all", _edited(plan, part, _with(i), role))
        for name in ("rows", "cols"):
            values = _boxes(placed)[name]
            if len(values) > 1:
                fewer = _boxed(placed, name, values[:-1])
                yield from _made("skip zero", f"the last of the {name}", _edited(plan, part, _with(i, fewer), role))


def _stores(plan: Plan) -> Iterator[Mutant]:
    for role, part, i, placed in _each(plan, lambda op: isinstance(op, Store)):
        yield from _made("drop store", "all", _edited(plan, part, _with(i), role))
        yield from _made("duplicate store", "all", _edited(plan, part, _with(i, placed, placed), role))
        for name in ("rows", "cols"):
            values = _boxes(placed)[name]
            if len(values) > 1:
                fewer = _boxed(placed, name, values[:-1])
                yield from _made("drop store", f"the last of the {name}", _edited(plan, part, _with(i, fewer), role))


def _rounds(plan: Plan) -> Iterator[Mutant]:
    """Mutants of the reductions of the sums: left out, done twice, in another order, in the other half of the ring."""
    for role, part, i, placed in _each(plan, lambda op: isinstance(op, OfRound)):
        where = f"`{placed}` at {i} of the {part.value}, {role}"
        yield from _made(f"drop {placed.word}", where, _edited(plan, part, _with(i), role))
        yield from _made(f"duplicate {placed.word}", where, _edited(plan, part, _with(i, placed, placed), role))

        def later(ops: tuple[Op, ...], i: int = i) -> tuple[Op, ...] | None:
            other = next((j for j in range(i + 1, len(ops)) if isinstance(ops[j], OfRound | Store)), None)
            return None if other is None else (*ops[:i], *ops[i + 1 : other + 1], ops[i], *ops[other + 1 :])

        yield from _made("delay round", where, _edited(plan, part, later, role))
        if placed.operand:
            other = replace(placed, exchange=placed.exchange + 1)
            yield from _made("other half", where, _edited(plan, part, _with(i, other), role))


def _phases(plan: Plan) -> Iterator[Mutant]:
    """Some waves a barrier earlier or later than they should be."""
    for n, wave in enumerate(plan.waves):
        for by in (-1, 1):
            phase = wave.phase + by
            if phase >= 0 and len(plan.waves) > 1:
                waves = (*plan.waves[:n], replace(wave, phase=phase), *plan.waves[n + 1 :])
                yield from _made(
                    "change phase", f"{wave.name} {wave.waves[0]}.. to {phase}", replace(plan, waves=waves)
                )
    if len(plan.waves) == 1 and len(plan.waves[0].waves) > 1:
        wave, half = plan.waves[0], len(plan.waves[0].waves) // 2
        early, late = replace(wave, waves=wave.waves[:half]), replace(wave, waves=wave.waves[half:], phase=1)
        yield from _made("change phase", "half of the waves a barrier late", replace(plan, waves=(early, late)))


# ---------------------------------------------------------------- roles and fragments


def _collectives(plan: Plan) -> Iterator[Mutant]:
    program = plan.program
    for n, role in enumerate(program.roles):
        for kind, group in (("shrink collective", role.group // 2), ("grow collective", role.group * 2)):
            if role.loads and 0 < group <= 16:
                roles = (*program.roles[:n], replace(role, group=group), *program.roles[n + 1 :])
                yield from _made(kind, f"{role.name} to {group}", _reprogrammed(plan, replace(program, roles=roles)))


def _accumulators(plan: Plan) -> Iterator[Mutant]:
    """Other fragments of the output, or in another place."""
    program = plan.program
    acc = program.accumulator
    flipped = replace(acc, interleaved=not acc.interleaved)
    yield from _made("permute coordinate", "interleaved", _reprogrammed(plan, replace(program, accumulator=flipped)))
    role = program.compute
    assert role.shape is not None
    if role.shape[0] != role.shape[1]:
        turned = tuple(replace(r, shape=(role.shape[1], role.shape[0])) if r is role else r for r in program.roles)
        yield from _made("permute coordinate", "wave grid", _reprogrammed(plan, replace(program, roles=turned)))


def _reprogrammed(plan: Plan, program: Program) -> Plan:
    return replace(plan, program=program)
