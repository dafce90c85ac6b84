"""The equations of a kernel, from the AST to operations.

`axes` declares axes and reads the indices of tensors, `expressions` turns formulas into operations, `body` reads the
lines in order; `desugar` writes those that the clauses of a matrix product stand for. `clauses` reads how tiles without
products are mapped onto blocks and waves. Every problem is collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tkgen.diagnostics import SpecError
from tkgen.ir.equations import Argument, Kernel, Loop, Store, walk
from tkgen.ir.integers import exact, too_large
from tkgen.ir.liveness import live, pruned
from tkgen.ir.resolve.declarations import declarations
from tkgen.ir.resolve.names import Scope, Stop, guarded
from tkgen.ir.types import Unused
from tkgen.ir.typing.axes import Axes
from tkgen.ir.typing.body import Body
from tkgen.ir.typing.expressions import Expressions
from tkgen.ir.typing.functions import check_functions
from tkgen.ir.typing.scanned import check_scans
from tkgen.ir.typing.stores import check_read_positions
from tkgen.ir.verifier import verify
from tkgen.ir.zeros import settled
from tkgen.syntax import ast

__all__ = ["Typed", "equations", "typed"]


@dataclass(frozen=True)
class Typed:
    """The typed equations of a kernel, and the definitions that nothing uses."""

    kernel: Kernel
    unused: tuple[Unused, ...]


def typed(kernel: ast.Kernel, defines: Mapping[str, int | None] | None = None, target: str | None = None) -> Typed:
    """The equations of a kernel, with `-D` values from `defines` (None stands for `dynamic`), for `target`.

    Raises:
        SpecError: with every independent problem found.
    """
    scope = Scope(kernel, dict(defines or {}), target)
    try:
        return equations(scope)
    except Stop:
        raise SpecError(scope.errors) from None


def equations(scope: Scope) -> Typed:
    """Declare what a kernel declares, and type its equations; stops where any is wrong."""
    declarations(scope)
    check_functions(scope)
    axes = Axes(scope)
    for over in scope.all(ast.Over):
        for clause in over.axes:
            guarded(partial(axes.over, clause))
            names = {part.name.id for part in clause.parts or (clause,)}
            scope.broken |= names - axes.found.keys() - axes.flattened.digits.keys()
    at = Expressions(scope, axes)
    Body(at).whole(scope.kernel.body)
    if not scope.errors and not at.stores:
        name = scope.kernel.name
        scope.error("E201", f"kernel `{name.id}` stores nothing", name.span, "declared here",
                    fix="store what it computes: `Y[t] = ...`")  # fmt: skip
    _said_of_which_tile(at)
    if scope.errors:
        raise Stop()
    forms, scalars = axes.flattened.forms, tuple(scope.scalars.values())
    tensors = tuple(forms[t.name][0] if t.name in forms else t for t in scope.tensors.values())
    kernel = Kernel(scope.kernel.name.id, tensors, scalars, tuple(axes.found.values()), pruned(tuple(at.ops)))
    check_read_positions(at, kernel)
    check_scans(scope, kernel)
    unused = tuple(_unused(at, kernel))
    return Typed(verify(_exact(kernel, scope), "typing"), unused)


def _exact(kernel: Kernel, scope: Scope) -> Kernel:
    """Integers as such, and zeros with their signs; E607 for those that 64 bits may not hold."""
    kernel = settled(exact(kernel))
    kernel = replace(kernel, body=pruned(kernel.body))
    if (large := too_large(kernel)) is not None:
        span = large.result.span or scope.kernel.name.span
        scope.error(
            "E607", f"`{span.text}` may not fit 64 bits", span, "a product of coordinates is an exact integer",
            fix="convert the operands to f32 first, `f32(t)`; or make the sizes smaller, or known at build time",
        )  # fmt: skip
        raise Stop()
    return kernel


def _said_of_which_tile(at: Expressions) -> None:
    """E226 for reductions of one tile of several that reach no store which says of which: `R[m, n / 128] = ...`."""
    ops = [op for op in at.ops if not isinstance(op, Store)]
    for part in at.partial:
        own = [
            store for store in at.ops
            if isinstance(store, Store)
            and any(i.axis == part.axis and not i.extends for i in store.target.indices)
            and part.value.number in live((*ops, store))
        ]  # fmt: skip
        if not own:
            at.needs_whole(part.axis, part.what, part.span)


def _unused(at: Expressions, kernel: Kernel) -> list[Unused]:
    """Values, tensors and scalars that no store depends on."""
    alive = live(tuple(at.ops))
    dead = [name for name, value in at.defined if value.number not in alive]
    carried = {c.inside.name for op in at.ops if isinstance(op, Loop) for c in op.carries}
    whole = "remove it here and from `carry`"
    found = [Unused("value", n.id, n.span, *([whole] if n.id in carried else [])) for n in dead]
    return [*found, *untouched(kernel)]


def untouched(kernel: Kernel) -> Iterator[Unused]:
    """Tensors and scalars that no operation names."""
    touched = {*kernel.inputs, *kernel.outputs}
    yield from (Unused("tensor", t.name, t.span) for t in kernel.tensors if t not in touched)
    read = {op.scalar for op in walk(kernel.body) if isinstance(op, Argument)}
    yield from (Unused("scalar", s.name, s.span) for s in kernel.scalars if s not in read)
