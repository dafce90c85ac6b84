"""`row_major`: along each row of tiles in turn, the order of a plain linear grid."""

from __future__ import annotations

from tkgen.remap.expr import Expr, Program
from tkgen.remap.spec import Arguments, Grid, Placement


def define(_program: Program, index: Expr, grid: Grid, _args: Arguments) -> tuple[Expr, Expr]:
    """Row and column by division with the number of columns."""
    return index // grid.cols, index % grid.cols


SPEC = Placement(
    name="row_major",
    doc="Along each row of tiles in turn; what a spec without a remap gets.",
    source="The order of a two-dimensional HIP launch: blockIdx.x runs fastest.",
    parameters=(),
    define=define,
)
