"""`group(rows)`: bands of a few rows, each walked down its columns, so that neighbours in time share rows of A.

A band is `rows` tiles high; the last one keeps what is left of the grid. SUPER_M = 12 of ThunderKittens' NVIDIA
kernels is `group(rows = 12)`.
"""

from __future__ import annotations

from tkgen.remap.expr import Const, Expr, Program, divides, minimum
from tkgen.remap.spec import Arguments, Grid, Parameter, Placement


def define(program: Program, index: Expr, grid: Grid, args: Arguments) -> tuple[Expr, Expr]:
    """The band by division with its tiles, then column-major inside it. No value exceeds the number of tiles."""
    rows = program.let("rows", minimum(Const(args["rows"]), grid.rows), "height of a full band")
    tiles = program.let("tiles", rows * grid.cols, "tiles of a full band")
    first = program.let("first_row", index // tiles * rows, "of this band")
    slot = program.let("slot", index % tiles, "place in the band")
    height = rows
    if not divides(rows, grid.rows):
        left = program.let("rows_left", grid.rows - first)
        height = program.let("height", minimum(rows, left), "the last band keeps the remainder")
    return first + slot % height, slot // height


SPEC = Placement(
    name="group",
    doc="Bands of `rows` rows of tiles, each walked down its columns; the last band keeps the remainder.",
    source="Grouped ordering of Triton's matrix multiplication tutorial; SUPER_M in ThunderKittens' NVIDIA kernels.",
    parameters=(Parameter("rows", "height of a band in tiles", 1, 1 << 16),),
    define=define,
)
