"""Sums over positions: `sum(X[t - w] * W[w], w in WIDTH)` is the sum of a term for each position.

A name such as `w` is a number in each term if they are few, so the sum is written out: nothing after typing knows of
it. Terms are added in order, the last name's positions first, as `a + b + c` is. If they are more, the names are the
positions along complete dimensions, and the sum is a reduction along these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from tkgen.diagnostics import Label
from tkgen.ir.equations import Axis
from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.resolve.sizes import positive
from tkgen.ir.typing.axes import names
from tkgen.ir.typing.reduced import reduced
from tkgen.syntax import ast

if TYPE_CHECKING:
    from tkgen.ir.typing.expressions import Expressions, Tile

SUMMED = {"sum": "add", "max": "max", "min": "min", "mean": "add"}  # the function that joins two terms
MOST_TERMS = 64  # each is computed on its own: more than that fill the registers


def summed(at: Expressions, node: ast.Call, name: str) -> Tile:
    """The tile of `sum(x, w in W)`, of `max`, `min` or `mean`."""
    word, scope = node.name.id, at.scope
    if word not in SUMMED or node.fast:
        raise scope.error(
            "E200", f"`{word}` goes along no names", node.along[0].span, "not after this function",
            fix=f"one of {', '.join(SUMMED)} does: `sum(x, {node.along[0].span.text})`",
        )  # fmt: skip
    if len(node.args) != 1:
        raise scope.error("E200", f"`{word}` along names takes one value, not {len(node.args)}", node.span,
                          fix="write one expression in front of the names")  # fmt: skip
    (term,) = node.args
    used = {n.id for n in names(term)}
    for place, clause in enumerate(node.along):
        _free(at, clause.name, node.along[:place])
        if clause.name.id not in used:
            raise scope.error(
                "E226", f"`{word}` along `{clause.name.id}`, which the expression does not name", clause.span,
                "every term would be the same", secondary=(Label(term.span),), fix="drop it, or index with it",
            )  # fmt: skip
    sizes = [positive(scope, clause.extent, f"the positions of `{clause.name.id}`") for clause in node.along]
    if prod(sizes) > MOST_TERMS:
        return _along_dimensions(at, node, name)
    found: Tile | None = None
    last = tuple(size - 1 for size in sizes)
    for positions in product(*map(range, sizes)):
        with _numbers(at, node.along, positions):
            tile = at.number(term, f"`{word}`")
        called = name if positions == last and word != "mean" else ""
        found = tile if found is None else at.mapped(FUNCTIONS[SUMMED[word]], [found, tile], node.span, called)
    assert found is not None
    if word == "mean":
        found = at.mapped(FUNCTIONS["div"], [found, at.constant(float(prod(sizes)), node.span)], node.span, name)
    return found


def _along_dimensions(at: Expressions, node: ast.Call, name: str) -> Tile:
    """The reduction along the complete dimensions whose positions the names are."""
    scope, (term,), word = at.scope, node.args, node.name.id
    for clause in node.along:
        if not isinstance(clause.extent, ast.Name) or clause.extent.id not in scope.dims:
            several = prod(positive(scope, c.extent, f"the positions of `{c.name.id}`") for c in node.along)
            raise scope.error(
                "E226", f"`{word}` would have {several} terms, and is written out: at most {MOST_TERMS}", node.span,
                fix=f"declare {clause.extent.span.text} as a dimension, `dims D = {clause.extent.span.text}`: the sum "
                    f"is then a reduction along it, `{clause.name.id} in D`; or add in a loop",
            )  # fmt: skip
    axes = [at.axes.whole(scope.dims[clause.extent.span.text], clause.span) for clause in node.along]
    with _numbers(at, node.along, (0,) * len(axes)):
        one = at.trial().number(term, f"`{word}`")
    if own := next((axis for axis in axes if axis in one.axes), None):
        raise scope.error(
            "E226", f"the expression has all of `{own.name}` already, beside each of its positions", node.span,
            secondary=(Label(term.span),), fix=f"reduce the tile itself: `{word}(x)`, or `row{word}(x)` along its "
                                               "last axis",
        )  # fmt: skip
    with _names(at, node.along, axes):
        tile = at.number(term, f"`{word}`")
    return reduced(at, word, [axis for axis in tile.axes if axis in axes], tile, node, name)


@contextmanager
def _names(at: Expressions, along: tuple[ast.AxisClause, ...], axes: Sequence[Axis]) -> Iterator[None]:
    """Names as these axes."""
    found, before = at.axes.found, dict(at.scope.declared)
    try:
        for clause, axis in zip(along, axes, strict=True):
            found[clause.name.id] = axis
            at.scope.declared[clause.name.id] = clause.name.span
        yield
    finally:
        for clause in along:
            found.pop(clause.name.id, None)
        at.scope.declared.clear()
        at.scope.declared.update(before)


def _free(at: Expressions, name: ast.Name, before: tuple[ast.AxisClause, ...]) -> None:
    """E202 where a name has a meaning already."""
    scope, names_before = at.scope, {clause.name.id: clause.name.span for clause in before}
    values = {n: named.span for n, named in at.names.items()}
    declared = at.later | values | scope.declared | names_before
    if name.id not in declared:
        return
    raise scope.error(
        "E202", f"`{name.id}` has a meaning already, and would be a number here", name.span, "declared again here",
        secondary=(Label(declared[name.id], "declared here"),), fix="give it another name",
    )  # fmt: skip


@contextmanager
def _numbers(at: Expressions, along: tuple[ast.AxisClause, ...], positions: tuple[int, ...]) -> Iterator[None]:
    """Names as these numbers, for one term."""
    scope, before = at.scope, dict(at.scope.declared)
    try:
        for clause, position in zip(along, positions, strict=True):
            scope.values[clause.name.id] = position
            scope.declared[clause.name.id] = clause.name.span
        yield
    finally:
        for clause in along:
            scope.values.pop(clause.name.id, None)
        scope.declared.clear()
        scope.declared.update(before)
