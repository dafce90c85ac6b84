"""One iteration -> prologue, steady loop and epilogue, by clipping each operation to the K-steps that exist.

Operations are written for iteration k and touch step k + offset. With depth D = the largest offset, iterations
-D .. -1 are the prologue (only steps >= 0), 0 .. K-D-1 the steady loop, K-D .. K-1 the epilogue (only steps < K).
Register slots are static, so the loop handles `unroll` iterations a pass; iterations left over by that are peeled into
the epilogue whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from tkgen.ir.ops import Action, Body, Op, Placed, Step, WaveProgram
from tkgen.ir.types import Program

CONTROL = frozenset({Action.BARRIER, Action.WAIT, Action.PRIORITY, Action.FENCE})


@dataclass(frozen=True)
class Shape:
    """How many iterations are prologue (`depth`), in a pass of the loop (`unroll`), and epilogue.

    `passes` is the loop's trip count, None when K is dynamic (then K-steps must be a multiple of `unroll`).
    """

    depth: int
    unroll: int
    passes: int | None
    tail_iterations: int

    def steps(self, passes: int) -> int:
        """K-steps of a tile when the loop makes `passes` passes."""
        return passes * self.unroll + self.tail_iterations


def shape(program: Program, bodies: Sequence[Body]) -> Shape:
    """The loop's shape for `program`: static K gives the exact trip count."""
    depth = max((op.offset for b in bodies for op in b.ops), default=0)
    a = program.a
    registers = a.register_buffers
    needed = lcm(registers, a.slices) // a.slices  # iterations after which register slots repeat
    unroll = lcm(needed, program.unroll or 1)
    if program.steps is None:
        return Shape(depth, unroll, None, depth + (-depth) % unroll)
    if program.steps <= depth:
        return Shape(depth, unroll, 0, program.steps)
    left = (program.steps - depth) % unroll
    return Shape(depth, unroll, (program.steps - depth) // unroll, depth + left)


def clip(program: Program, body: Body, waves: tuple[int, ...], phase: int, shape: Shape) -> WaveProgram:
    """The program of `waves`, which all execute `body`."""
    role = next(r for r in program.roles if r.name == body.role)
    steps = program.steps
    rows, cols = (tuple(range(n)) for n in program.accumulator.fragments)
    whole = {"rows": rows, "cols": cols, "span": program.accumulator.span}
    prologue = [Placed(Op(Action.ZERO, **whole), Step("zero", 0))] if role.multiplies else []  # type: ignore[arg-type]
    for k in range(-shape.depth, 0):
        for op in body.ops:
            step = k + op.offset
            if op.action in CONTROL or (step >= 0 and (steps is None or step < steps)):
                prologue.append(Placed(op, Step("zero", step)))
    passes = [Placed(op, Step("k", i + op.offset)) for i in range(shape.unroll) for op in body.ops]
    epilogue = []
    for i in range(-shape.tail_iterations, 0):
        epilogue += [
            Placed(op, Step("end", i + op.offset)) for op in body.ops if op.action in CONTROL or i + op.offset < 0
        ]
    if role.stores:
        epilogue.append(Placed(Op(Action.STORE, **whole), Step("end", 0)))  # type: ignore[arg-type]
    return WaveProgram(
        body.role, waves, phase, tuple(prologue), tuple(passes) if shape.passes != 0 else (), tuple(epilogue)
    )
