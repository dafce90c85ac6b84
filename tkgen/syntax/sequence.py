"""A file with several kernels: what they share, then the kernels, one launched after the other.

sequence split_k_gelu                     its name
dims M = 1024, ...                        what the kernels share: sizes, tensors, scalars, targets
global W : f32[PARTS, M, N]
kernel parts                              each with a body as if it stood alone
  ...
kernel finish
  ...

To everything after the parser such a kernel is one that declares itself what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tkgen.diagnostics import Diagnostic, Fix, Label
from tkgen.source import Span
from tkgen.syntax import ast, statements
from tkgen.syntax.statements import flatten
from tkgen.syntax.tree import Branch, TreeBuilder, check_once

SHARED = (  # what stands above the kernels
    ast.Dims, ast.Param, ast.Global, ast.Scalar, ast.Targets, ast.Tune, ast.Function,
)  # fmt: skip
TOGETHER = (ast.Dims, ast.Global, ast.Scalar, ast.Targets)  # and nowhere else


def sequence(items: Sequence[Branch], builder: TreeBuilder, header: str) -> ast.Sequence | None:
    """The sequence of a file with such a line; what is wrong goes to the builder's diagnostics."""
    heads = [t for t in items if t.data == "sequence"]
    kernels = [builder.kernel(t, header) for t in items if t.data == "kernel"]
    head = heads[0]
    for again in heads[1:]:
        builder.repeated("`sequence`", builder.span(again), builder.span(head))
    if items[0] is not head:
        builder.error("E106", "`sequence` must be above everything that belongs to it", builder.span(head),
                      fix=Fix("move it to the first line"))  # fmt: skip
    if len(kernels) < 2:
        builder.error("E106", f"a sequence of {len(kernels) or 'no'} kernel{'' if kernels else 's'}",
                      builder.span(head), fix=Fix("remove `sequence`, or write the other kernels"))  # fmt: skip
    first = next((n for n, t in enumerate(items) if t.data == "kernel"), len(items))
    shared = _shared(items[:first], builder)
    for item in items[first:]:
        if item.data not in ("kernel", "sequence"):
            builder.error("E106", "a statement between kernels", builder.span(_head(item)),
                          fix=Fix("indent it under one of them, or share it: move it above the first"))  # fmt: skip
    name = builder.name(head.children[0])
    _named_once([name, *(k.name for k in kernels)], builder)
    for kernel in kernels:
        check_once(kernel.body, builder)
        for statement in flatten(kernel.body):
            if isinstance(statement, TOGETHER):
                _not_shared(statement.span, builder)
    return ast.Sequence(builder.span(head), name, tuple(shared), tuple(_completed(shared, kernels)), header)


def _head(item: Branch) -> Branch:
    """The tree of a statement's header line."""
    inner = item.children[0]
    return inner if item.data in ("role", "each", "when", "schedule") and not isinstance(inner, str) else item


def _shared(items: Iterable[Branch], builder: TreeBuilder) -> list[ast.Statement]:
    """Return the statements above the kernels, with included statements in place of their include."""
    found = list(flatten(builder.body(t for t in items if t.data != "sequence")))
    for statement in found:
        if not isinstance(statement, SHARED):
            word = statement.span.text.split()[0]
            builder.error("E106", f"`{word}` belongs to one kernel, but is above all of them", statement.span,
                          fix=Fix("indent it under the kernel that it is for"))  # fmt: skip
    return [s for s in found if isinstance(s, SHARED)]


def _not_shared(span: Span, builder: TreeBuilder) -> None:
    word = span.text.split()[0]
    builder.error("E106", f"`{word}` is declared in one kernel of a sequence", span, "the other kernels do not see it",
                  Fix(f"move it above the first kernel, where `{word}` holds for all"))  # fmt: skip


def _named_once(names: Sequence[ast.Name], builder: TreeBuilder) -> None:
    first: dict[str, Span] = {}
    for name in names:
        if first.setdefault(name.id, name.span) is not name.span:
            builder.diagnostics.append(
                Diagnostic(
                    "E202", f"`{name.id}` is declared twice", Label(name.span, "declared again here"),
                    (Label(first[name.id], "first declared here"),), fix=Fix("rename one of them"),
                )
            )  # fmt: skip


def _completed(shared: Sequence[ast.Statement], kernels: Sequence[ast.Kernel]) -> list[ast.Kernel]:
    """The kernels with the shared declarations that they need; the first also has those that none needs."""
    needed = [_needed(statements.names(kernel.body), shared) for kernel in kernels]
    rest = {name for statement in shared for name in _declared(statement)} - {n for names in needed for n in names}
    for first in needed[:1]:
        first |= rest
    bodies = [tuple(kept for statement in shared for kept in _kept(statement, names)) for names in needed]
    return [replace(kernel, body=(*own, *kernel.body)) for kernel, own in zip(kernels, bodies, strict=True)]


def _needed(names: set[str], shared: Sequence[ast.Statement]) -> set[str]:
    """Of the shared names those that stand in a kernel, and those that their declarations need."""
    while True:
        kept = [k for statement in shared for k in _kept(statement, names) if not isinstance(k, ast.Tune | ast.Targets)]
        more = names | statements.names(tuple(kept))
        if more == names:
            return names
        names = more


def _declared(statement: ast.Statement) -> set[str]:
    match statement:
        case ast.Dims(bindings=bindings) | ast.Param(bindings=bindings):
            return {b.name.id for b in bindings}
        case ast.Global(name=name) | ast.Scalar(name=name) | ast.Function(name=name):
            return {name.id}
    return set()


def _kept(statement: ast.Statement, names: set[str]) -> list[ast.Statement]:
    """Return the part of a shared declaration that belongs to a kernel with these names."""
    match statement:
        case ast.Dims(bindings=bindings) | ast.Param(bindings=bindings):
            kept = tuple(b for b in bindings if b.name.id in names)
            return [replace(statement, bindings=kept)] if kept else []
        case ast.Global() | ast.Scalar() | ast.Function():
            return [statement] if _declared(statement) & names else []
        case ast.Tune(name=name):
            return [statement] if name.id in names else []
    return [statement]
