"""Questions about the statements of a spec: included ones in place, names, files, and what it is written in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tkgen.syntax.ast import (
    Carry,
    Dims,
    Each,
    Equation,
    Function,
    Include,
    Kernel,
    Name,
    Node,
    Over,
    Param,
    Reference,
    Role,
    Sequence,
    Statement,
    When,
)

EQUATIONS = (Over, Each, When, Carry, Equation, Reference)


def together(found: Kernel | Sequence) -> Kernel:
    """All statements of a file as if they stood in one kernel: what kernels share once, then what is each one's own."""
    if isinstance(found, Kernel):
        return found
    own = {s.span: s for kernel in found.kernels for s in kernel.body}
    body = own | {s.span: s for s in found.shared}  # of which each kernel has what it needs
    return Kernel(found.span, found.name, tuple(body.values()), found.header)


def names(node: object) -> set[str]:
    """Every name in a node, or in nodes within each other, those that it declares too, but not those of parameters."""
    if isinstance(node, Name):
        return {node.id}
    if isinstance(node, Function):
        return {node.name.id} | (names(node.value) - {p.id for p in node.parameters})
    parts = node if isinstance(node, tuple) else vars(node).values() if isinstance(node, Node) else ()
    return {name for part in parts for name in names(part)}


def bound(kernel: Kernel) -> set[str]:
    """The names of a kernel's dimensions and parameters."""
    return {b.name.id for s in flatten(kernel.body) if isinstance(s, Dims | Param) for b in s.bindings}


def files(found: Kernel | Sequence) -> set[str]:
    """The names of the files that the statements of a kernel, or of several, stand in."""

    def of(body: Iterable[Statement]) -> set[str]:
        names: set[str] = set()
        for statement in body:
            if not isinstance(statement, Include):
                names.add(statement.span.file.name)
            if isinstance(statement, Include | Role):
                names |= of(statement.body)
        return names

    return set[str]().union(*(of(k.body) for k in (found.kernels if isinstance(found, Sequence) else (found,))))


def flatten(body: Iterable[Statement]) -> Iterator[Statement]:
    """Statements with included ones in place of their include."""
    for statement in body:
        yield from flatten(statement.body) if isinstance(statement, Include) else (statement,)


def has_equations(kernel: Kernel) -> bool:
    """Return True if a kernel is written in equations, and not in the clauses of one matrix product."""
    return any(isinstance(s, EQUATIONS) for s in flatten(kernel.body))
