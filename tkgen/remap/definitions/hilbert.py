"""`hilbert`: a Hilbert curve on any rectangle; consecutive tiles are neighbours.

A piece is entered at a corner and left at the other end of the side it runs along: `length` tiles along the run,
`breadth` across it.
- A long piece (length > 1.5 breadth) is cut in two that run the same way.
- Any other piece is cut in three: a near piece that runs across, the far side running the same way, and a last piece
  that comes back. Each begins beside the end of the one before.
Cuts fall on even sizes where there are any, so the ends meet; where the sizes leave no choice a single diagonal step
remains. A piece one tile broad or long is a straight run. Directions only ever swap, or swap and turn round together,
so one vector (step_row, step_col) gives both: the direction across is (step_col, step_row).
"""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.remap.expr import Const, Expr, Program, Ref, select
from tkgen.remap.spec import Arguments, Grid, Placement


@dataclass(frozen=True)
class _Piece:
    """The piece that holds the index: `slot` counts inside it, it is entered at (row, col)."""

    slot: Ref
    row: Ref
    col: Ref
    length: Ref
    breadth: Ref
    step_row: Ref
    step_col: Ref


def define(program: Program, index: Expr, grid: Grid, _args: Arguments) -> tuple[Expr, Expr]:
    """Follow the index down the cuts, then along the straight run that is left."""
    upright = program.let("upright", grid.rows > grid.cols, "run down the rows")
    piece = _Piece(
        slot=program.variable("slot", index, "place in the piece"),
        row=program.variable("row", 0, "where the piece is entered"),
        col=program.variable("col", 0),
        length=program.variable("length", select(upright, grid.rows, grid.cols), "tiles along the run"),
        breadth=program.variable("breadth", select(upright, grid.cols, grid.rows), "tiles across it"),
        step_row=program.variable(
            "step_row", select(upright, 1, 0), "direction of the run; across it, the two swapped"
        ),
        step_col=program.variable("step_col", select(upright, 0, 1)),
    )
    with program.loop((piece.length > 1) & (piece.breadth > 1)):
        with program.when(piece.length > piece.breadth + (piece.breadth >> 1)):
            _cut_in_two(program, piece)
        with program.otherwise():
            _cut_in_three(program, piece)
    with program.when(piece.breadth > 1):
        _turn(program, piece)
    return piece.row + piece.slot * piece.step_row, piece.col + piece.slot * piece.step_col


def _cut_in_two(program: Program, p: _Piece) -> None:
    """Both halves run the same way."""
    half = program.let("half", ((p.length + 2) >> 2) * 2, "even")
    tiles = program.let("tiles", half * p.breadth)
    with program.when(p.slot < tiles):
        program.set(p.length, half)
    with program.otherwise():
        program.set(p.slot, p.slot - tiles)
        _walk(program, p, along=half, across=Const(0))
        program.set(p.length, p.length - half)


def _cut_in_three(program: Program, p: _Piece) -> None:
    """Across, along the far side, and back."""
    near = program.let("near", select(p.breadth > 2, ((p.breadth + 2) >> 2) * 2, 1), "even if it can be")
    half = program.let("middle", p.length >> 1)
    out = program.let("out", near * half, "tiles of the piece that runs across")
    far = program.let("far", out + p.length * (p.breadth - near), "and of the one beyond it")
    with program.when(p.slot < out):
        program.set(p.length, near)
        program.set(p.breadth, half)
        _turn(program, p)
    with program.otherwise():
        with program.when(p.slot < far):
            program.set(p.slot, p.slot - out)
            _walk(program, p, along=Const(0), across=near)
            program.set(p.breadth, p.breadth - near)
        with program.otherwise():
            program.set(p.slot, p.slot - far)
            _walk(program, p, along=p.length - 1, across=near - 1)
            program.set(p.breadth, p.length - half)
            program.set(p.length, near)
            _turn(program, p, back=True)


def _walk(program: Program, p: _Piece, along: Expr, across: Expr) -> None:
    """Move the entry by so many tiles in the two directions."""
    program.set(p.row, p.row + (along * p.step_row + across * p.step_col))
    program.set(p.col, p.col + (along * p.step_col + across * p.step_row))


def _turn(program: Program, p: _Piece, back: bool = False) -> None:
    """Run in the direction across from here on, or against it."""
    step_row = program.let("turned", p.step_row)
    program.set(p.step_row, -p.step_col if back else p.step_col)
    program.set(p.step_col, -step_row if back else step_row)


SPEC = Placement(
    name="hilbert",
    doc="A Hilbert curve: consecutive tiles are neighbours, every run of tiles is compact; any grid.",
    source="D. Hilbert, 1891; on rectangles by the two- and three-way cuts of J. Cerveny's generalised curve.",
    parameters=(),
    define=define,
)
