"""The typed program of what clauses or equations say of the product, and of the clauses that both have alike."""

from __future__ import annotations

from tkgen.ir.products import Sums
from tkgen.ir.resolve import clauses, waves
from tkgen.ir.resolve.names import Scope
from tkgen.ir.resolve.origins import origins_of
from tkgen.ir.types import Accumulator, GridKind, Operand, Product, Program, Role, Unused
from tkgen.source import Span
from tkgen.syntax import ast


def assembled(
    scope: Scope,
    block: tuple[int, int, int],
    operands: tuple[Operand, ...],
    products: tuple[Product, ...],
    roles: tuple[Role, ...],
    accumulator: Accumulator,
    grid: GridKind,
    spans: dict[str, Span],
    equations: Sums,
    unused: tuple[Unused, ...],
) -> Program:
    """The whole program; `spans` are those of what has no statement of its own. Problems of clauses are reported."""
    placed = {"kernel": scope.kernel.name.span, **spans}
    for statement in scope.everything:
        placed.setdefault(type(statement).__name__.lower(), statement.span)
    return Program(
        name=scope.kernel.name.id,
        header=scope.kernel.header,
        dims=tuple(scope.dims.values()),
        tensors=tuple(scope.tensors.values()),
        scalars=tuple(scope.scalars.values()),
        block=block,
        operands=operands,
        products=products,
        roles=roles,
        accumulator=accumulator,
        equations=equations,
        remap=clauses.remap(scope),
        grid=grid,
        tail=clauses.tail(scope),
        occupancy=clauses.occupancy(scope),
        allow=clauses.allow(scope),
        streamed=clauses.streamed(scope),
        phases=waves.phases(scope),
        unroll=clauses.unroll(scope),
        targets=tuple(n.id for t in scope.all(ast.Targets) for n in t.names),
        unused=unused,
        spans=placed,
        origins=origins_of(scope.kernel),
    )
