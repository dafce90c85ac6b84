"""Scans: `cumsum(x)` along the last axis of a tile, `cumsum(x, t)` along the axis or the dimension of that name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tkgen.diagnostics import Label
from tkgen.ir.equations import Axis, AxisKind, Kernel, Product, Scan, Sort, walk
from tkgen.ir.resolve.names import Scope, Stop
from tkgen.ir.typing import suggestions
from tkgen.ir.typing.vocabulary import SCANS, axes_text
from tkgen.syntax import ast

if TYPE_CHECKING:
    from tkgen.ir.typing.expressions import Expressions, Tile


def scanned(at: Expressions, node: ast.Call, name: str) -> Tile:
    """The tile of a call of `cumsum`, `cumprod`, `cummax` or `cummin`."""
    word, scope = node.name.id, at.scope
    if not 1 <= len(node.args) <= 2:
        raise scope.error("E200", f"`{word}` takes 1 or 2 arguments, not {len(node.args)}", node.span,
                          fix=f"`{word}(x)` is along the last axis, `{word}(x, t)` along the axis `t`")  # fmt: skip
    tile = at.number(node.args[0], f"`{word}`")
    if not tile.axes:
        raise scope.error("E226", f"`{word}` has no axis to go along: this is a single number", node.args[0].span,
                          "no axis", fix="drop it")  # fmt: skip
    axis = tile.axes[-1] if len(node.args) == 1 else named_axis(at, node, node.args[1], tile)
    if axis.kind is AxisKind.PARALLEL and not axis.is_one_tile:
        raise at.needs_whole(axis, f"`{word}` along `{axis.name}`", node.span, reduced=False)
    result = at.value(tile.value.axes, node.span, name)
    at.ops.append(Scan(result, SCANS[word], axis, tile.value))
    return replace(tile, value=result)


def named_axis(at: Expressions, node: ast.Call, along: ast.Expr, tile: Tile) -> Axis:
    """The axis that an argument of a call names; E226 if the tile has none of that name."""
    word, first = node.name.id, node.args[0]
    if isinstance(along, ast.Name):
        own = [a for a in tile.axes if a.name == along.id]
        own += [a for a in tile.axes if a.kind is AxisKind.WHOLE and a.dim.name == along.id]
        if own:
            at.axes.used.add(own[0].name)
            return own[0]
    number = along.span.text.replace(" ", "")
    places = {str(n): axis for count in (0, len(tile.axes)) for n, axis in enumerate(tile.axes, -count)}
    if number in places:
        meant = places[number]
        given = [a.span.text for a in node.args if a is not along]
        text = f"{word}({', '.join([*given, *([] if meant == tile.axes[-1] else [meant.name])])})"
        raise at.scope.error(
            "E226", f"`{word}` goes along an axis by its name, not its number", along.span, axes_text(tile.axes),
            fix=suggestions.written(node.span, text, ": without a name it is along the last axis"),
        )  # fmt: skip
    raise at.scope.error(
        "E226", f"`{word}` goes along an axis of its tile, and `{along.span.text}` is none", along.span,
        "no axis of the tile", secondary=(Label(first.span, axes_text(tile.axes)),),
        fix=suggestions.written(along.span, tile.axes[-1].name, f", or another of {axes_text(tile.axes)}"),
    )  # fmt: skip


def check_scans(scope: Scope, kernel: Kernel) -> None:
    """E230 for scans and sorted elements beside products, which only kernels of rows have."""
    if not any(isinstance(op, Product) for op in walk(kernel.body)):
        return
    for op in walk(kernel.body):
        if isinstance(op, Scan | Sort):
            span = op.result.span or scope.kernel.name.span
            what = "scans" if isinstance(op, Scan) else "elements in order"
            word = span.text.split("(")[0]
            scope.error("E230", f"`{word}` is in a kernel with products, and only kernels of rows have {what}", span,
                        fix="compute it in a kernel of rows before or after this one, in a `sequence`")  # fmt: skip
            raise Stop()
