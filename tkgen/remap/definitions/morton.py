"""`morton`: Z-order on any rectangle, by cutting it in two across its longer side until one tile is left.

On a square whose side is a power of two the cuts are the bits of the index, rows first, which is the classical Z-order.
On any other rectangle every cut is still a bijection (the first half's tiles come before the second's), and since the
longer side is cut, all pieces stay near square: height and width of a piece differ at most by a factor of about two
once the grid is cut down to its shorter side. A grid of 2^k tiles takes about k iterations of the loop.
"""

from __future__ import annotations

from tkgen.remap.expr import Expr, Program, Ref
from tkgen.remap.spec import Arguments, Grid, Placement


def define(program: Program, index: Expr, grid: Grid, _args: Arguments) -> tuple[Expr, Expr]:
    """Follow the index down the cuts; the piece is `height` x `width` at (row, col), the slot counts inside it."""
    slot = program.variable("slot", index, "place in the piece")
    row = program.variable("row", 0, "first row of the piece")
    col = program.variable("col", 0, "first column of the piece")
    height = program.variable("height", grid.rows)
    width = program.variable("width", grid.cols)
    with program.loop((height > 1) | (width > 1)):
        with program.when(height >= width):
            _cut(program, slot, row, height, program.let("upper", height >> 1), width)
        with program.otherwise():
            _cut(program, slot, col, width, program.let("left", width >> 1), height)
    return row, col


def _cut(program: Program, slot: Ref, start: Ref, side: Ref, near: Expr, other: Ref) -> None:
    """Go into the half that holds the slot: the first `near` of `side`, or the rest."""
    tiles = program.let("tiles", near * other)
    with program.when(slot < tiles):
        program.set(side, near)
    with program.otherwise():
        program.set(slot, slot - tiles)
        program.set(start, start + near)
        program.set(side, side - near)


SPEC = Placement(
    name="morton",
    doc="Z-order: halves of halves, so that every run of tiles is compact; any grid.",
    source="G. M. Morton, 1966; on rectangles by bisecting the longer side.",
    parameters=(),
    define=define,
)
