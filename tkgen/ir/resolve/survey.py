"""Errors of single clauses, for a kernel that has no program because of an error elsewhere.

Nothing here depends on the equations or on another clause, so that no error follows from one that is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from tkgen.ir.resolve import clauses
from tkgen.ir.resolve.dataflow import MOST_BUFFERS, way
from tkgen.ir.resolve.names import Scope, Stop, guarded
from tkgen.ir.resolve.sizes import positive
from tkgen.ir.resolve.waves import no_axis
from tkgen.ir.schedules import SCHEDULES
from tkgen.syntax import ast


def survey(scope: Scope) -> None:
    """Report what is wrong with each clause by itself, without what is reported already."""
    known = {(d.code, d.primary.span) for d in scope.errors if d.primary}
    before, scope.errors = scope.errors, []
    readers: tuple[Callable[[Scope], object], ...] = (
        clauses.grid, clauses.tail, clauses.occupancy, clauses.allow, clauses.targets, clauses.streamed,
        clauses.unroll, _remap,
        *(partial(way, shared=shared) for shared in scope.all(ast.Shared)),
    )  # fmt: skip
    for read in readers:
        with suppress(Stop):
            read(scope)
    for shared in scope.all(ast.Shared):
        guarded(partial(_tiles, scope, shared, "`shared`"))
    for registers in scope.all(ast.Registers):
        guarded(partial(_tiles, scope, registers, "`registers`"))
    for store in (s for s in scope.everything if isinstance(s, ast.Store)):
        with suppress(Stop):
            scope.tensor_named(store.name, "`store`")
    for waves in scope.all(ast.Waves):
        guarded(partial(_waves, scope, waves))
    for schedule in scope.all(ast.Schedule):
        if schedule.preset is not None and schedule.preset.id not in (*SCHEDULES, "auto"):
            scope.error("E216", f"there is no schedule `{schedule.preset.id}`", schedule.preset.span,
                        fix=f"the schedules are {', '.join(SCHEDULES)}", known=[*SCHEDULES, "auto"])  # fmt: skip
    scope.errors = [*before, *(d for d in scope.errors if not d.primary or (d.code, d.primary.span) not in known)]


def _remap(scope: Scope) -> None:
    scope.errors += clauses.remap_problems(clauses.remap(scope))


def _tiles(scope: Scope, clause: ast.Shared | ast.Registers, what: str) -> None:
    """The names of a line of tiles, and its numbers."""
    for name in clause.names:
        with suppress(Stop):
            scope.tensor_named(name, what)
    if clause.buffers:
        positive(scope, clause.buffers, "buffers", MOST_BUFFERS)


def _waves(scope: Scope, waves: ast.Waves) -> None:
    """The numbers of waves, and the axis along which they share a tile."""
    for count in (waves.rows, *((waves.cols,) if waves.cols else ())):
        positive(scope, count, "the number of waves", scope.most_waves)
    tiled = [a.name.id for over in scope.all(ast.Over) for a in over.axes if a.tile is not None]
    if waves.along is not None and tiled and waves.along.id not in tiled:
        no_axis(scope, waves.along, tiled)
