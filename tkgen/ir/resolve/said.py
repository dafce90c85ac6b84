"""What a spec says of every kernel alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tkgen.ir.equations import Kernel
from tkgen.ir.kernel_program import GridKind, KernelProgram, Unused
from tkgen.ir.resolve import clauses
from tkgen.ir.resolve.names import Scope
from tkgen.ir.resolve.origins import origins_of
from tkgen.source import Span
from tkgen.syntax import ast


def said(
    scope: Scope,
    kernel: Kernel,
    grid: GridKind,
    unused: tuple[Unused, ...],
    spans: Mapping[str, Span] = MappingProxyType({}),
) -> KernelProgram:
    """Names, sizes, clauses; `spans` are those of what has no statement of its own. Stops where a clause is wrong."""
    placed = {"kernel": scope.kernel.name.span, **spans}
    for statement in scope.everything:
        placed.setdefault(type(statement).__name__.lower(), statement.span)
    return KernelProgram(
        name=kernel.name,
        header=scope.kernel.header,
        dims=tuple(scope.dims.values()),
        tensors=kernel.tensors,
        scalars=kernel.scalars,
        kernel=kernel,
        remap=clauses.remap(scope),
        grid=grid,
        occupancy=clauses.occupancy(scope),
        allow=clauses.allow(scope),
        targets=tuple(n.id for t in scope.all(ast.Targets) for n in t.names),
        unused=unused,
        spans=placed,
        origins=origins_of(scope.kernel),
    )
