"""Reductions of tiles: `rowsum(x)` along the last axis, `colsum(x)` along the first, `sum(x)` of all elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tkgen.ir.equations import Axis, AxisKind, Map, Reduce
from tkgen.ir.resolve.names import Stop
from tkgen.ir.typing.axes import Partial
from tkgen.ir.typing.vocabulary import axes_text
from tkgen.syntax import ast

if TYPE_CHECKING:
    from tkgen.ir.typing.expressions import Expressions, Tile


def reduction(at: Expressions, node: ast.Call, name: str) -> Tile:
    """`rowsum(x)` along the last axis, `colsum(x)` along the first."""
    word, argument = node.name.id, node.args[0]
    along, function = word[:3], word[3:]
    tile = at.number(argument, f"`{word}`")
    if not tile.axes:
        raise _one_number(at, word, argument)
    axis = tile.axes[-1 if along == "row" else 0]
    what, several = f"`{word}` along `{axis.name}`", axis.kind is AxisKind.PARALLEL and not axis.is_one_tile
    if several and axis.name not in at.numbered:
        other, swapped = tile.axes[0 if along == "row" else -1], {"row": "col", "col": "row"}[along] + function
        fix = f"use `{swapped}`, which is over `{other.name}`: this tile is {axes_text(tile.axes)}"
        raise at.needs_whole(axis, what, node.span, fix=fix if other.kind is not AxisKind.PARALLEL else "")
    if function == "mean" and (several or axis.kind is AxisKind.SEQUENTIAL):
        looped = f"add up `{along}sum` over the loop, and divide by {axis.dim.name} after it"
        raise _mean_of_tile(at, word, axis, tile, node, "take the sum, and divide it" if several else looped)
    found = reduced(at, function, [axis], tile, node, name)
    if several:
        at.partial.append(Partial(found.value, axis, what, node.span))
    return found


def reduced(at: Expressions, function: str, axes: Sequence[Axis], tile: Tile, node: ast.Call, name: str) -> Tile:
    """`sum`, `max`, `min` or `mean` of a tile along these of its axes, the last one first."""
    mean, what = function == "mean", "sum" if function == "mean" else function
    left, value = tile.axes, tile.value
    for n, axis in enumerate(reversed(axes), 1):
        rest = tuple(a for a in value.axes if a != axis)
        result = at.value(rest, node.span, "" if mean or n < len(axes) else name)
        at.ops.append(Reduce(result, what, axis, value))
        left, value = tuple(a for a in left if a != axis), result
    if mean:
        number = math.prod(axis.dim.size or 0 for axis in axes)
        count = at.constant(float(number), node.span).value
        total, value = value, at.value(value.axes, node.span, name)
        at.ops.append(Map(value, "div", (total, count)))
    return replace(tile, value=value, axes=left)


def reduced_to_one(at: Expressions, node: ast.Call, name: str) -> Tile | None:
    """`sum(x)`, `max(x)`, `min(x)` or `mean(x)`: one number for all of a tile; None if rows of `over` have one."""
    word, (argument,) = node.name.id, node.args
    if any(a.kind is AxisKind.PARALLEL for a in at.trial().number(argument, f"`{word}`").axes):
        return None
    tile = at.number(argument, f"`{word}`")
    if not tile.axes:
        raise _one_number(at, word, argument)
    if word == "mean" and (looped := next((a for a in tile.axes if a.kind is AxisKind.SEQUENTIAL), None)):
        raise _mean_of_tile(at, word, looped, tile, node,
                                 "add up `sum` over the loop, and divide by the number of elements "
                                 "after it")  # fmt: skip
    return reduced(at, word, tile.axes, tile, node, name)


def _one_number(at: Expressions, word: str, argument: ast.Expr) -> Stop:
    return at.scope.error("E226", f"`{word}` has no axis to reduce: this is a single number", argument.span,
                            "no axis", fix="drop it")  # fmt: skip


def _mean_of_tile(at: Expressions, word: str, axis: Axis, tile: Tile, node: ast.Call, fix: str) -> Stop:
    return at.scope.error("E226", f"`{word}` along `{axis.name}` would be the mean of one tile", node.span,
                            axes_text(tile.axes), fix=fix)  # fmt: skip
