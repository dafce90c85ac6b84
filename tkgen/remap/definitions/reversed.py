"""`reversed`: the last tile first, so that blocks with the longest loops begin first where those are the last ones."""

from __future__ import annotations

from tkgen.remap.expr import Const, Expr, Program
from tkgen.remap.spec import Arguments, Grid, Permutation


def define(program: Program, index: Expr, grid: Grid, _args: Arguments) -> Expr:
    """Counted from the end."""
    return program.let("turned", grid.tiles - Const(1) - index, "counted from the last tile")


SPEC = Permutation(
    name="reversed",
    doc="The last tile first.",
    source="Longest first, the rule of list scheduling: what begins last is short (Graham, 1969).",
    parameters=(),
    define=define,
)
