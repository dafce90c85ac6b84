"""The reductions of a block's tile in an epilogue, and the LDS through which waves exchange their parts.

A wave reduces what its lanes hold, across fragments and lanes. Where several waves share a row (or column) each writes
its part to LDS, and all read those of all after a barrier. Reductions of one round are independent of each other and
share that barrier. Partial results have their own LDS, a ring of two: a round writes to one slot while waves may still
read the results of the round before from the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.ir.equations import Reduce
from tkgen.ir.types import BASE_TILE, WAVE_LANES, Program

RING, BUFFERS = "partial results", 2
BYTES = 4  # f32


@dataclass(frozen=True)
class Reduction:
    """One of them: `across` the columns (1) or the rows (0) of the tile, by as many `waves`.

    `first` is the number of its first partial result in LDS, where there are several waves: each has one for each row
    (or column) of the block.
    """

    op: Reduce
    across: int
    waves: int
    first: int

    @property
    def kept(self) -> int:
        """The axis of the tile along which there is a result each: 0 for rows."""
        return 1 - self.across


@dataclass(frozen=True)
class Round:
    """Reductions that need none of each other: all of round `number`. `exchange` counts the rounds that go through LDS,
    None where none of the reductions does."""

    number: int
    reductions: tuple[Reduction, ...]
    exchange: int | None


def rounds(program: Program) -> tuple[Round, ...]:
    """The rounds of an epilogue."""
    equations, shape = program.equations, program.compute.shape
    if not equations.rounds:
        return ()
    assert shape is not None
    found: list[Round] = []
    exchanges, ends = 0, [0, 0]
    plain = [[(op, 1 if op.axis == equations.cols else 0) for op in ops] for ops in equations.rounds]
    sizes = [sum(_places(program, shape, across) for _, across in ops) for ops in plain]
    crossing = [size for size in sizes if size]
    ends = [0, max(crossing[::BUFFERS], default=0)]  # where the two buffers begin
    for number, (ops, size) in enumerate(zip(plain, sizes, strict=True)):
        first = ends[exchanges % BUFFERS]
        made = []
        for op, across in ops:
            made.append(Reduction(op, across, shape[across], first))
            first += _places(program, shape, across)
        found.append(Round(number, tuple(made), exchanges if size else None))
        exchanges += bool(size)
    return tuple(found)


def exchanges(program: Program) -> int:
    """Rounds that go through LDS."""
    return sum(r.exchange is not None for r in rounds(program))


def exchanged(program: Program) -> int:
    """Numbers that the partial results take in LDS."""
    return max(
        (r.first + _places(program, (r.waves, r.waves), r.across) for each in rounds(program) for r in each.reductions
         if r.waves > 1), default=0,
    )  # fmt: skip


def held(program: Program) -> int:
    """VGPRs per lane that the results take: a lane has one of each row, or column, of which it owns elements."""
    acc = program.accumulator
    side = acc.mfma[0]
    owned = (acc.fragments[0] * acc.tile[0] * side // WAVE_LANES, acc.fragments[1] * acc.tile[1] // side)
    return sum(owned[r.kept] for each in rounds(program) for r in each.reductions)


def owned(program: Program, axis: int) -> int:
    """Rows (axis 0) or columns of one fragment of which a lane owns elements: quads of four rows of a column."""
    acc = program.accumulator
    side = acc.mfma[0]
    assert side >= BASE_TILE
    return acc.tile[0] * side // WAVE_LANES if axis == 0 else acc.tile[1] // side


def _places(program: Program, shape: tuple[int, int], across: int) -> int:
    """Partial results of one reduction in LDS."""
    return shape[across] * program.block[1 - across] if shape[across] > 1 else 0
