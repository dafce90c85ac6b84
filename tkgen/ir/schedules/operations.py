"""Operations of one K-step from which schedules with names are made, and what several of them need of a program."""

from __future__ import annotations

from collections.abc import Iterator

from tkgen.ir.types import Operand, Program, Via
from tkgen.tile.ops import Copy, Fetch, Move, Multiply, Read, Take
from tkgen.tile.program import Op


def reads_past_lds(program: Program, slice_: int) -> list[Op]:
    """Reads from global memory into the registers that the multiplies of the slice before this one have left."""
    made = []
    for operand in program.operands:
        if not operand.shared and slice_ % operand.together == 0:
            ahead = slice_ + (operand.register_depth - 1) * operand.together
            made.append(read_all(operand, ahead // operand.slices, ahead % operand.slices))
    return made


def read_all(operand: Operand, offset: int, slice_: int) -> Op:
    """The read of the slices that go together from this one on, of all fragments."""
    slices = tuple(range(slice_, slice_ + operand.together))
    kind = Read if operand.shared else Take
    return kind.of(operand.name, offset, tuple(range(operand.fragments)), slices, operand.span)


def reads(program: Program, slice_: int) -> Iterator[Op]:
    """The reads of all operands for a slice of this K-step: those past LDS come first."""
    yield from reads_past_lds(program, slice_)
    yield from (read_all(operand, 0, slice_) for operand in program.shared)


def loads(program: Program) -> list[Op]:
    """For each operand in LDS, the load of its next tile: a direct copy, or a fetch to staging registers."""
    return moves(program, Copy if program.direct else Fetch)


def moves(program: Program, kind: type[Move]) -> list[Op]:
    """For each operand in LDS, the move of its next tile."""
    return [kind.of(o.name, 1, span=o.span) for o in program.shared]


def multiplies(program: Program, rows: tuple[int, ...], cols: tuple[int, ...], slice_: int) -> list[Op]:
    """The multiplies of these fragments, one for each product."""
    several, span = len(program.products) > 1, program.accumulator.span
    return [
        Multiply.of(p.names, rows, cols, (slice_,), product=p.name if several else "", span=span)
        for p in program.products
    ]


def staged_obstacle(program: Program) -> str:
    """The reason why the waves of a program cannot order their own loads, reads and multiplies; empty without one."""
    if len(program.roles) > 1:
        return "the block has roles"
    ways, buffers = {o.via for o in program.shared}, {o.buffers for o in program.shared}
    if not ways:
        return "no operand goes through LDS, so waves do not wait for each other"
    if ways not in ({Via.REGISTERS}, {Via.DIRECT}):
        return "operands must come `via registers` or `via direct`, so that loads can be in flight across clusters"
    if ways == {Via.REGISTERS} and buffers != {1}:
        return "it needs one LDS buffer, because the staging registers are the second"
    if ways == {Via.DIRECT} and buffers != {2}:
        return "it needs two LDS buffers: one is copied to while the other is read"
    if any(o.together != 1 for o in program.operands):
        return "the operands have different slices"
    if any(o.register_buffers != 1 for o in program.shared):
        return "it needs one register buffer, because clusters separate reads from multiplies"
    return ""
