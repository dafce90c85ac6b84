"""Small random wave programs: 2 to 4 waves, a few operations, two iterations, tiles moved and read in parts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import planning

from tkgen.ir.types import Operand, Program, Role, Via
from tkgen.tile import program as tile
from tkgen.tile.ops import Barrier, Copy, Fence, Fetch, Load, Move, Multiply, Read, Write
from tkgen.tile.program import Drain, Op, Tiles

PASSES = 2
VIAS = tuple(via.value for via in Via)


@dataclass(frozen=True)
class Case:
    """A program and what its waves execute."""

    program: Program
    waves: tuple[tile.Role, ...]


@dataclass(frozen=True)
class Form:
    """Fragments of A and slices of a K-step that a wave has, the elements' type, and how A is stored.

    `apart`: the fragments and slices of a tile move apart, if the schedule wants. `held`: register buffers of A and B;
    as many as slices where nothing is said.
    """

    fragments: int = 1
    slices: int = 1
    dtype: str = "bf16"
    a: str = "M, K"
    apart: bool = False
    held: tuple[int, int] | None = None


FORMS = (
    *(Form(), Form(), Form(2), Form(1, 2), Form(2, 2), Form(1, 2, "f32"), Form(2, 1, "bf16", "K, M")),
    *(Form(2, apart=True), Form(2, apart=True), Form(1, 2, apart=True), Form(2, 2, apart=True)),
    *(Form(1, 2, held=(1, 2)), Form(2, 2, held=(2, 1))),
)


@cache
def program(
    loading: int, multiplying: int, buffers: tuple[int, int], vias: tuple[str, str], form: Form = FORMS[0]
) -> Program:
    """A kernel whose waves have one fragment of B; `loading` waves in their own role, or none."""
    rows, step = 16 * multiplying * form.fragments, 16 * form.slices
    held = form.held or (form.slices, form.slices)
    registers = "\n  ".join(f"registers {name} slice 16 buffers {n}" for name, n in zip("AB", held, strict=True))
    if loading:
        waves = f"""  role loaders waves 0..{loading - 1}
    load A, B
  {registers}
  role workers waves {loading}..{loading + multiplying - 1} as {multiplying} x 1
    accumulate C : f32 tile 16 x 16 interleaved
    store C"""
    else:
        waves = f"  waves {multiplying} x 1\n  {registers}\n  accumulate C : f32 tile 16 x 16 interleaved\n  store C"
    text = f"""kernel small
  dims M = {rows}, N = 16, K = {step * PASSES}
  global A : {form.dtype}[{form.a}]
  global B : {form.dtype}[N, K]
  global C : f32[M, N]
  block {rows} x 16 step {step}
{waves}
  shared A buffers {buffers[0]} via {vias[0]}
  shared B buffers {buffers[1]} via {vias[1]}
"""
    made = planning.program(text)
    return _apart(made) if form.apart else made


def _apart(made: Program) -> Program:
    """The program whose operands' fragments and slices are parts of their own in LDS."""
    operands = tuple(replace(o, parts=(o.fragments, o.slices)) for o in made.operands)
    product = replace(made.products[0], left=operands[0], right=operands[1])
    return replace(made, operands=operands, products=(product,))


def case(seed: int) -> Case:
    """The random case of that number."""
    rng = random.Random(seed)
    loading, multiplying = rng.choice([(0, 2), (0, 2), (0, 3), (0, 4), (1, 1), (1, 1), (1, 2), (2, 1), (2, 2)])
    buffers = rng.choice([1, 1, 2, 2, 3]), rng.choice([1, 2])
    made = program(loading, multiplying, buffers, (rng.choice(VIAS), rng.choice(VIAS)), rng.choice(FORMS))
    waves = loading + multiplying
    room = {2: 9, 3: 7, 4: 6}[waves]
    # Most cases follow a pattern that can be right, so that both verdicts occur.
    make = _patterned if rng.random() < 0.8 else _scattered
    bodies = make(rng, made, room)
    return Case(made, tuple(_split(rng, made, bodies)))


def _scattered(rng: random.Random, made: Program, room: int) -> dict[str, list[Op]]:
    share = max(1, room // len(made.roles))
    return {role.name: [_any(rng, made, role) for _ in range(share)] for role in made.roles}


def _any(rng: random.Random, made: Program, role: Role) -> Op:
    kinds = ["barrier", "wait", "fence"]
    if role.loads:
        kinds += ["move"] * 3
    if role.multiplies:
        kinds += ["read"] * 2 + ["multiply"]
    match rng.choice(kinds):
        case "barrier":
            return Barrier()
        case "wait":
            return Drain(rng.choice(["lds", "vm"]), str(rng.choice([0, 0, 1, 2, 3])))
        case "read":
            return _read(rng, rng.choice(made.operands), rng.choice([0, 0, 1]))
        case "multiply":
            return _multiply(rng, made)
        case "fence":
            return Fence()
    operand = made.operand(rng.choice(role.loads))
    return rng.choice(_moves(rng, operand, rng.choice([0, 1, 1, 2])))


def _patterned(rng: random.Random, made: Program, room: int) -> dict[str, list[Op]]:
    """Loads, reads and a multiply in a sensible order, with barriers and waits here and there."""
    operands = made.operands if room >= 6 and rng.random() < 0.4 else (rng.choice(made.operands),)
    bodies: dict[str, list[Op]] = {}
    ahead = {o.name: rng.choice([0, o.buffers - 1, 1]) for o in operands}
    meetings = rng.choice([1, 2, 2])
    reads_first = rng.random() < 0.3
    for role in made.roles:
        ops: list[Op] = []
        for o in (o for o in operands if o.name in role.loads):
            ops += _moves(rng, o, ahead[o.name])
        if role.multiplies:
            reads = [_read(rng, o, 0) for o in operands for _ in range(rng.choice([1, 1, 2]))]
            ops = [*reads, *ops] if reads_first else [*ops, *reads]
            if rng.random() < 0.6:
                ops += [_multiply(rng, made), *([Fence()] if rng.random() < 0.8 else [])]
        for _ in range(rng.choice([0, 0, 1, 2])):
            ops.insert(rng.randint(0, len(ops)), Fence())
        for _ in range(meetings + (rng.random() < 0.05)):
            at = rng.randint(0, len(ops))
            ops.insert(at, Barrier())
            for counter in ("lds", "vm") if any(o.via is Via.DIRECT for o in operands) else ("lds",):
                if rng.random() < 0.8:
                    ops.insert(at, Drain(counter, str(rng.choice([0, 0, 0, 0, 1, 2, 3]))))
        bodies[role.name] = ops[:room]
    return bodies


def refilled(seed: int) -> Case:
    """Two waves that read parts of A in turn, each brought anew soon after; nearly always with what orders them."""
    rng = random.Random(seed)
    form = rng.choice([form for form in FORMS if form.apart])
    made = program(0, 2, (rng.choice([1, 2]), 1), (rng.choice(VIAS), VIAS[0]), form)
    operand = made.a
    along = operand.parts[0] > 1 and (operand.parts[1] == 1 or rng.random() < 0.5)
    runs = [((f,), ()) for f in range(operand.fragments)] if along else [((), (t,)) for t in range(operand.slices)]
    ahead = rng.choice([1, operand.buffers])
    waits = [Drain(counter) for counter in ("lds", "vm")]
    ops: list[Op] = []
    late: list[Move] = []
    for rows, slices in runs:
        fragments, held = rows or tuple(range(operand.fragments)), slices or tuple(range(operand.slices))
        read = Read.of(operand.name, 0, fragments, held)
        left = [replace(op, left=str(rng.choice([0, 0, 1, 2]))) for op in waits]
        meeting = [op for op in (*left, Barrier()) if rng.random() < 0.9]
        ops += [*late, read, *meeting]
        late = [kind.of(operand.name, ahead, rows, slices) for kind in _ways(operand)]
    ops += [op for op in (*late, *waits, Barrier()) if rng.random() < 0.95]
    if rng.random() < 0.3:
        at = rng.randrange(len(ops) - 1)
        ops[at : at + 2] = ops[at : at + 2][::-1]
    first = [kind.of(operand.name).moved("", s) for s in range(ahead) for kind in _ways(operand)]
    prologue = (*first, *waits, Barrier())
    body = tuple(op for op in ops)
    return Case(made, (tile.Role(made.roles[0].name, (), prologue, Tiles((), body), waves=(0, 1)),))


def _moves(rng: random.Random, operand: Operand, offset: int) -> list[Move]:
    """Loads of a tile to LDS: at once, in parts one after the other, or, now and then, not all of it."""
    kinds = _ways(operand)
    whole = [kind.of(operand.name, offset) for kind in kinds]
    if operand.part_count == 1 or rng.random() < 0.25:
        return whole
    halves = operand.parts[0] > 1 and (operand.parts[1] == 1 or rng.random() < 0.5)
    runs = [((f,), ()) for f in range(operand.fragments)] if halves else [((), (t,)) for t in range(operand.slices)]
    if operand.part_count == 4 and rng.random() < 0.2:
        runs = [((f,), (t,)) for f in range(2) for t in range(2)]
    if rng.random() < 0.1:
        runs.pop()
    parts = [kind.of(operand.name, offset, f, t) for f, t in runs for kind in kinds]
    if len(kinds) > 1 and rng.random() < 0.5:  # fetched together, written apart; or the other way round
        one = rng.choice(kinds)
        parts = [op for op in parts if not isinstance(op, one)]
        at = 0 if one is Fetch else len(parts)
        parts.insert(at, next(op for op in whole if isinstance(op, one)))
    return parts


def _ways(operand: Operand) -> list[type[Move]]:
    ways: dict[Via, list[type[Move]]] = {Via.COLLECTIVE: [Load], Via.REGISTERS: [Fetch, Write], Via.DIRECT: [Copy]}
    return ways[operand.via]


def _part(rng: random.Random, count: int) -> tuple[int, ...]:
    """All of 0 .. count - 1, mostly, or one of them."""
    return tuple(range(count)) if rng.random() < 0.6 else (rng.randrange(count),)


def _read(rng: random.Random, operand: Operand, offset: int) -> Op:
    return Read.of(operand.name, offset, _part(rng, operand.fragments), _part(rng, operand.slices))


def _multiply(rng: random.Random, made: Program) -> Op:
    rows, cols = made.accumulator.fragments
    i, j, t = (_part(rng, count) for count in (rows, cols, made.a.slices))
    return Multiply.of(made.products[0].names, i, j, t)


def _split(rng: random.Random, made: Program, bodies: dict[str, list[Op]]) -> list[tile.Role]:
    """Wave programs: what runs ahead is done once before the loop; sometimes a part of a role runs a barrier late."""
    result = []
    for role in made.roles:
        ops = bodies[role.name]
        before = [op for op in ops if op.offset > 0 or isinstance(op, Barrier)]
        first: Sequence[Op] = before if any(op.offset for body in bodies.values() for op in body) else ()
        prologue = tuple(op.moved("", max(op.offset - 1, 0) - op.offset) for op in first)
        body = tuple(op for op in ops)
        groups = [(0, tuple(role.waves))]
        if len(role.waves) > 1 and rng.random() < 0.15:
            groups = [(0, tuple(role.waves[:1])), (1, tuple(role.waves[1:]))]
        result += [
            tile.Role(role.name, (), prologue, Tiles((), body), waves=waves, phase=phase) for phase, waves in groups
        ]
    return result
