"""The clauses that every kernel may have, whatever its equations are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import MappingProxyType

from tkgen.ir.equations import Kernel
from tkgen.ir.kernel_program import GridKind, KernelProgram, Unused
from tkgen.ir.resolve import clauses
from tkgen.ir.resolve.names import Scope
from tkgen.ir.types import Origins
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
        targets=clauses.targets(scope),
        unused=unused,
        spans=placed,
        origins=origins_of(scope.kernel),
    )


def origins_of(kernel: ast.Kernel) -> Origins:
    """The places of `kernel` that a report shows beside what came of them."""
    statements = list(_statements(kernel))
    main = kernel.span.file
    included = {s.span.file.name: s.span.file for s in statements if s.span.file.name != main.name}
    plain = [s for s in statements if not isinstance(s, ast.Role)]
    return Origins((main, *(included[name] for name in sorted(included))), tuple(_parameters(plain)))


def _parameters(statements: Sequence[ast.Statement]) -> Iterator[tuple[Span, Span]]:
    """The statements that use a parameter, and where it is declared or tuned."""
    declared: dict[str, list[Span]] = {}
    for statement in statements:
        if isinstance(statement, ast.Param):
            for binding in statement.bindings:
                declared.setdefault(binding.name.id, []).append(statement.span)
        elif isinstance(statement, ast.Tune):
            declared.setdefault(statement.name.id, []).append(statement.span)
    if not declared:
        return
    for statement in statements:
        if not isinstance(statement, ast.Param | ast.Tune):
            for word in re.findall(r"[A-Za-z_]\w*", statement.span.text):
                yield from ((statement.span, place) for place in declared.get(word, ()))


def _statements(node: object) -> Iterator[ast.Statement]:
    if isinstance(node, tuple):
        for item in node:
            yield from _statements(item)
    elif is_dataclass(node) and not isinstance(node, Span):
        if isinstance(node, ast.Statement):
            yield node
        for field in fields(node):
            yield from _statements(getattr(node, field.name))
