"""First elements in order: `topk(x, K)`, `argtopk(x, K)`, `argmax(x)` and `argmin(x)`; and all in order, `sort(x)`.

Each goes along the last axis of a tile, or along the one that the last argument names, as scans do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tkgen.diagnostics import Fix, Label
from tkgen.ir.equations import Axis, AxisKind, Map, Sort
from tkgen.ir.resolve.sizes import positive
from tkgen.ir.tensors import Dim
from tkgen.ir.typing import suggestions
from tkgen.ir.typing.scanned import named_axis
from tkgen.ir.typing.vocabulary import axes_text
from tkgen.syntax import ast

if TYPE_CHECKING:
    from tkgen.ir.typing.expressions import Expressions, Tile

DESCENDING = "descending"  # `sort(x, descending)`
FORMS = {
    "topk": "`topk(x, K)` has the K largest elements, `topk(x, K, t)` those along the axis `t`",
    "sort": "`sort(x)` is ascending along the last axis, `sort(x, descending)` descending, `sort(x, t)` along `t`",
    "max": "`argmax(x)` is along the last axis, `argmax(x, t)` along the axis `t`",
}


def sorted_(at: Expressions, node: ast.Call, name: str) -> Tile:
    """The tile of a call of one of these functions."""
    word, scope = node.name.id, at.scope
    kind = word.removeprefix("arg")
    form = FORMS.get(kind, FORMS["max"].replace("argmax", word)).replace(f"`{kind}(", f"`{word}(")
    least, most = {"topk": (2, 3), "sort": (1, 3)}.get(kind, (1, 2))
    if not least <= len(node.args) <= most:
        raise scope.error("E200", f"`{word}` takes {least} to {most} arguments, not {len(node.args)}", node.span,
                          fix=_first_argument(node) or form)  # fmt: skip
    first, *rest = node.args
    tile = at.number(first, f"`{word}`")
    if not tile.axes:
        raise scope.error("E226", f"`{word}` has no axis to go along: this is a single number", first.span,
                          "no axis", fix="drop it")  # fmt: skip
    count = rest.pop(0) if kind == "topk" else None
    ordered = [a for a in rest if isinstance(a, ast.Name) and a.id == DESCENDING] if kind == "sort" else []
    rest = [a for a in rest if a not in ordered]
    if kind == "sort" and rest and (found := _order(rest[0])):
        raise scope.error(
            "E200", f"`{word}` is ascending, or `{DESCENDING}`", rest[0].span, "not known here", fix=found
        )
    axis = named_axis(at, node, rest[0], tile) if rest else tile.axes[-1]
    what = f"`{word}` along `{axis.name}`"
    if axis.kind is AxisKind.PARALLEL and not axis.is_one_tile:
        raise at.needs_whole(axis, what, node.span, reduced=False)
    function = "positions" if word.startswith("arg") else "values"
    if kind in ("max", "min"):
        return _made(at, node, tile, name, axis, None, function, least=kind == "min")
    if axis.kind is AxisKind.SEQUENTIAL:
        raise scope.error(
            "E226", f"{what} would be of one tile of a loop", node.span, axes_text(tile.axes),
            fix=f"give the tensor a dimension of tiles, such as `X : f32[R, TILES, 4096]`, and take `{word}` of each; "
            "a second kernel of a `sequence` takes it of what these have",
        )  # fmt: skip
    if count is None:
        return _made(at, node, tile, name, axis, axis, function, ascending=not ordered)
    return _made(at, node, tile, name, axis, _leading(at, node, tile, axis, count), function)


def _first_argument(node: ast.Call) -> Fix | None:
    """`topk(x, 8)` where the number was forgotten."""
    if node.name.id not in ("topk", "argtopk") or len(node.args) != 1:
        return None
    return suggestions.written(node.span, f"{node.name.id}({node.args[0].span.text}, 8)", ", with your own number")


def _order(argument: ast.Expr) -> Fix | None:
    """The fix for an order by another name."""
    name = argument.id if isinstance(argument, ast.Name) else ""
    if name in ("True", "true", "desc", "reverse", "reversed", "decreasing", "largest"):
        return suggestions.written(argument.span, DESCENDING)
    return Fix("leave it out") if name in ("False", "false", "asc", "ascending", "increasing") else None


def _leading(at: Expressions, node: ast.Call, tile: Tile, axis: Axis, count: ast.Expr) -> Axis:
    """The axis of the first K elements: that of a dimension, or one of its own for a number."""
    scope, word = at.scope, node.name.id
    if isinstance(count, ast.Name) and (count.id in at.names or count.id in scope.scalars or at.axes.is_axis(count.id)):
        raise scope.error(
            "E203", f"`{word}` needs the number of elements at build time, and `{count.id}` is none", count.span,
            "known only at run time", fix="write a number, a `dims` or a `param`; of these mask what is too many: "
            f"`where(coordinate(K) < {count.id}, {word}({node.args[0].span.text}, K), 0)`",
        )  # fmt: skip
    size = positive(scope, count, f"the number of elements of `{word}`")
    assert axis.dim.size is not None  # a tile holds all of it
    if size > axis.dim.size:
        raise scope.error(
            "E203", f"`{word}` of {size} elements, but `{axis.name}` has only {axis.dim.size}", count.span,
            secondary=(Label(axis.dim.span, f"{axis.dim.size} elements"),),
            fix=suggestions.written(count.span, str(axis.dim.size), f", or give `{axis.dim.name}` more elements"),
        )  # fmt: skip
    dim = Dim(str(size), size, count.span)
    if isinstance(count, ast.Name) and count.id in scope.dims:
        dim = scope.dims[count.id]
    if any(other.name == dim.name for other in tile.axes if other != axis):
        raise scope.error(
            "E226", f"`{word}` gives its elements the axis `{dim.name}`, which the tile already has", count.span,
            axes_text(tile.axes), fix=f"declare another dimension of {size} elements, and name that",
        )  # fmt: skip
    return axis if dim.name == axis.name else at.axes.whole(dim, count.span)


def _made(
    at: Expressions, node: ast.Call, tile: Tile, name: str, axis: Axis, first: Axis | None, function: str,
    ascending: bool = False, least: bool = False,
) -> Tile:  # fmt: skip
    """The tile of what is sorted; the `least` is the largest of the negated tile, of which NaN is first, too."""
    argument = tile.value
    if least:
        argument = at.value(tile.value.axes, node.span)
        at.ops.append(Map(argument, "neg", (tile.value,)))

    def put(axes: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(a if a != axis else first for a in axes if a != axis or first is not None)  # type: ignore[misc]

    result = at.value(put(tile.value.axes), node.span, name)
    at.ops.append(Sort(result, function, axis, argument, first, not ascending))
    return replace(tile, value=result, axes=put(tile.axes))
