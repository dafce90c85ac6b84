"""`column_major`: down each column of tiles in turn."""

from __future__ import annotations

from tkgen.remap.expr import Expr, Program
from tkgen.remap.spec import Arguments, Grid, Placement


def define(_program: Program, index: Expr, grid: Grid, _args: Arguments) -> tuple[Expr, Expr]:
    """Row and column by division with the number of rows."""
    return index % grid.rows, index // grid.rows


SPEC = Placement(
    name="column_major",
    doc="Down each column of tiles in turn.",
    source="The transpose of row_major; best where B is larger than A.",
    parameters=(),
    define=define,
)
