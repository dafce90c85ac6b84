"""One iteration -> prologue, steady loop and epilogue, by clipping each operation to the K-steps that exist.

Operations are written for iteration k and touch step k + offset. With depth D = the largest offset, iterations
-D .. -1 are the prologue (only steps >= 0), 0 .. K-D-1 the steady loop, K-D .. K-1 the epilogue (only steps < K).
A `mix` applies in the steady loop only: elsewhere there is no such pattern. Register slots are static, so one trip
through the loop handles `unroll` iterations; iterations left over by that are peeled into the epilogue whole.

Where the spec writes prologue and drain itself (`Schedule.drain`), these stand as they are, and the loop leaves the
K-steps that the drain multiplies.

A wait for all except the last n global operations means those n of the steady loop: in prologue and epilogue, where
operations that do not exist are left out, it leaves as many in flight as are left of the n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

from tkgen.ir.reductions import RING, exchanges, rounds
from tkgen.ir.types import Program, Role
from tkgen.schedule.explicit import ends
from tkgen.schedule.instructions import global_instructions
from tkgen.tile.ops import Barrier, Bodies, CatchUp, Copy, Fetch, Gather, Mix, Reduce, Store, Take, Zero
from tkgen.tile.program import END, Control, Drain, K, Op


@dataclass(frozen=True)
class Shape:
    """The number of iterations in the prologue (`depth`), in one iteration of the loop (`unroll`), and in the epilogue.

    `passes` is the loop's trip count, None when K is dynamic (then K-steps must be a multiple of `unroll`).
    """

    depth: int
    unroll: int
    passes: int | None
    tail_iterations: int

    def steps(self, passes: int) -> int:
        """K-steps of a tile when the loop makes `passes` passes."""
        return passes * self.unroll + self.tail_iterations


def shape(program: Program, bodies: Bodies) -> Shape:
    """The loop's shape for `program`: static K gives the exact trip count."""
    depth = max((op.offset for body in bodies.values() for op in body), default=0)
    slots = lcm(*(o.register_buffers for o in program.operands))
    needed = lcm(slots, program.slices) // program.slices  # iterations after which register slots repeat
    unroll = lcm(needed, program.unroll or 1)
    drained = [r.schedule.drained for r in program.roles if r.multiplies and r.schedule and r.schedule.drain]
    if drained:
        tail = len(drained[0])  # no less than the depth: no operation of the prologue touches a later step
        return Shape(tail, unroll, None if program.steps is None else (program.steps - tail) // unroll, tail)
    if program.steps is None:
        return Shape(depth, unroll, None, depth + (-depth) % unroll)
    if program.steps <= depth:
        return Shape(depth, unroll, 0, program.steps)
    left = (program.steps - depth) % unroll
    return Shape(depth, unroll, (program.steps - depth) // unroll, depth + left)


Segment = tuple[Op, ...]


def clip(program: Program, name: str, body: Segment, shape: Shape) -> tuple[Segment, Segment, Segment]:
    """Prologue, loop and epilogue of the waves of the role `name`, which execute `body`."""
    role = next(r for r in program.roles if r.name == name)
    steps = program.steps
    rows, cols = (tuple(range(n)) for n in program.accumulator.fragments)
    span = program.accumulator.span
    prologue: list[Op] = [Zero(rows, cols, span=span)] if role.multiplies else []
    clipped = [(at, op) for at, op in enumerate(body) if not isinstance(op, Mix)]
    for k in range(-shape.depth, 0):
        for at, op in clipped:
            step = k + op.offset
            if isinstance(op, Control) or (step >= 0 and (steps is None or step < steps)):
                prologue.append(_clipped_wait(program, body, at, k, 0, steps).moved("", k))
    passes = [op.moved(K, i) for i in range(shape.unroll) for op in body]
    epilogue = []
    written = ends(role.schedule)
    if written:
        prologue = [*prologue[: role.multiplies], *(op.moved("", 0) for op in written[0])]
        epilogue = [op.moved(END, 0) for op in written[1]]
    for i in range(-shape.tail_iterations if not written else 0, 0):
        first = None if steps is None else -steps
        epilogue += [
            _clipped_wait(program, body, at, i, first, 0).moved(END, i)
            for at, op in clipped
            if isinstance(op, Control) or i + op.offset < 0
        ]
    epilogue += _reduced(program, role)
    if role.multiplies:
        inputs, outputs = (tuple(t.name for t in each) for each in (program.epilogue_tensors, program.outputs))
        epilogue.append(Store(rows, cols, inputs, outputs, span=span))
    return tuple(prologue), tuple(passes) if shape.passes != 0 else (), tuple(epilogue)


def _reduced(program: Program, role: Role) -> list[Op]:
    """List the epilogue's reductions, with the barriers after which the waves' parts of them can be read."""
    made: list[Op] = []
    inputs = tuple(t.name for t in program.epilogue_tensors)
    wait, barrier = Drain("lds", automatic=True), Barrier(automatic=True)
    rows, cols = (tuple(range(n)) for n in program.accumulator.fragments)
    if program.phases and exchanges(program):
        made.append(CatchUp(automatic=True))
    for each in rounds(program):
        shared = each.exchange is not None
        ring, number = RING if shared else "", each.exchange or 0
        reduce, gather = (
            kind(rows, cols, each.number, ring, inputs, number, span=each.reductions[0].op.result.span)
            for kind in (Reduce, Gather)
        )
        # What is gathered is complete before the next meeting, or a later round would write over it.
        ops = [reduce, wait, barrier, gather, wait] if shared else [reduce]
        kept = ops if role.multiplies else [barrier] * shared
        made += kept
    return made


def _clipped_wait(program: Program, body: Segment, at: int, iteration: int, first: int | None, end: int | None) -> Op:
    """The operation at a position of an iteration; a wait for global operations leaves only those of its count in
    flight that touch steps first .. end - 1."""
    op = body[at]
    if not isinstance(op, Drain) or op.stream != "vm" or not op.count:
        return op
    issued = [other for other in (*body[at:], *body[:at]) if isinstance(other, Copy | Fetch | Take)]
    after = sum(isinstance(other, Copy | Fetch | Take) for other in body[at:])
    left, count, passed = op.count, 0, 0
    while issued and left > 0:
        position = len(issued) - 1 - passed % len(issued)
        other = issued[position]
        step = iteration - passed // len(issued) - (position < after) + other.offset
        number = min(left, global_instructions(program, other))
        if (first is None or step >= first) and (end is None or step < end):
            count += number
        left -= number
        passed += 1
    return replace(op, left=str(count))
