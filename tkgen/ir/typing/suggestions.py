"""Fixes of mistakes in equations whose meaning can be guessed: names, arguments and the order of indices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tkgen.diagnostics import Edit, Fix
from tkgen.diagnostics.edits import line_above
from tkgen.ir.equations import Axis, AxisKind
from tkgen.ir.types import Dim, Tensor
from tkgen.source import Span
from tkgen.syntax import ast, habits
from tkgen.syntax.foreign_context import Surroundings
from tkgen.syntax.statements import flatten

_GROUP = r"(?:[ \t]+(?:within|below)[ \t]+\w+\[\w+\])?"
_IN = re.compile(rf"[ \t]+in[ \t]+\w+{_GROUP}")  # the dimension of an axis, and where its positions end


def written(span: Span, text: str, more: str = "") -> Fix:
    """Write `text` in place of a span; `more` follows it in the sentence."""
    return Fix(f"write `{text}`{more}", (Edit(span, text),), certain=False)


# ---------------------------------------------------------------- functions


def renamed(node: ast.Call) -> tuple[str, Fix] | None:
    """The rest of a message and the fix for a function with another name, or none, in specs; None for any other."""
    word = node.name.id
    if (text := habits.written_out(word, [a.span.text for a in node.args])) is not None:
        around = node.span.file.text
        alone = around[: node.span.start].endswith("= ") and around[node.span.end :].split("\n")[0].strip() == ""
        return "", written(node.span, text[1:-1] if alone and text[0] == "(" else text)
    if word in habits.ADVICE:
        return "", Fix(habits.ADVICE[word])
    if word not in habits.FUNCTIONS:
        return None
    meant = habits.FUNCTIONS[word]
    if meant.startswith("row") and len(node.args) > 1:
        return f"; it is called `{meant}`", reduced(node, meant)
    return f"; it is called `{meant}`", written(node.name.span, meant)


def indexed(node: ast.Call, tensors: Mapping[str, Tensor]) -> Fix | None:
    """`X[t]` for `X(t)`."""
    if node.name.id not in tensors:
        return None
    return written(node.span, f"{node.name.id}[{', '.join(a.span.text for a in node.args)}]")


def reduced(node: ast.Call, word: str) -> Fix:
    """A reduction without the number of a dimension: `rowsum(x)` for `rowsum(x, -1)`, `colsum(x)` for dimension 0."""
    along = "col" if node.args[1].span.text in ("0", "-2") else "row"
    return written(
        node.span, f"{along}{word[3:]}({node.args[0].span.text})", ": over the last axis; `col...` is over the first"
    )


def of_arguments(node: ast.Call, row_wise: bool) -> Fix | None:
    """A call with as many arguments as the function takes: `max(max(a, b), c)`, `rowmax(x)`, `max(x, 0)`."""
    word, args = node.name.id, [a.span.text for a in node.args]
    if row_wise and len(args) == 2:
        return reduced(node, word)
    if word in ("max", "min") and len(args) > 2:
        nested = args[0]
        for each in args[1:]:
            nested = f"{word}({nested}, {each})"
        return written(node.span, nested)
    if word in ("max", "min") and len(args) == 1:
        return written(node.name.span, f"row{word}", f" for a row; for a column it is `col{word}`")
    if word == "clamp" and len(args) == 2:
        return written(node.span, f"max({args[0]}, {args[1]})", f", or `min({args[0]}, {args[1]})` for an upper end")
    return None


def truth(node: ast.Expr) -> Fix:
    """A truth of a number: it is not 0."""
    return written(node.span, f"({node.span.text} != 0)", "; or compare otherwise: `x > 0`")


def number(node: ast.Expr) -> Fix:
    """A number of a truth: 1 where it holds."""
    return written(
        node.span, f"where({node.span.text}, 1, 0)", "; or use it to choose between values: `where(q >= j, s, 0)`"
    )


# ---------------------------------------------------------------- parts of tensors


def axes_of(dims: Iterable[Dim], axes: Iterable[Axis]) -> list[str]:
    """The axis that runs over each dimension, up to the first that none does; none where one has several."""
    found: list[str] = []
    for dim in dims:
        mine = [a.name for a in axes if a.dim == dim and a.kind is not AxisKind.WHOLE]
        if len(mine) > 1:
            return []
        if not mine:
            break
        found += mine
    return found


def part(name: ast.Name, tensor: Tensor, axes: Sequence[Axis]) -> Fix | None:
    """`A[m, k]` for `A`, where an axis runs over each of its first dimensions."""
    found = axes_of(tensor.dims, axes)
    return written(name.span, f"{name.id}[{', '.join(found)}]", ": the part for this tile") if found else None


def without_none(name: str, indices: Sequence[ast.Expr], at: Span) -> Fix | None:
    """`bias[n]` for `bias[None, n]`: values go together by the names of their axes."""
    left = [i.span.text for i in indices if not (isinstance(i, ast.Name) and i.id in ("None", "newaxis"))]
    if len(left) == len(indices):
        return None
    return written(at, f"{name}[{', '.join(left)}]" if left else name, ": axes broadcast by name")


def swapped(tensor: Tensor, indices: Sequence[ast.Expr], axes: Mapping[str, Axis], at: Span) -> Fix | None:
    """`B[n, k].T` for `B[k, n]` of `B[N, K]`: the indices in the order of the dimensions.

    As a factor of a product it gets the `.T`, or loses it, that brings the axis of the loop to where `@` sums.
    """
    named = [i.id if isinstance(i, ast.Name) else "" for i in indices]
    if len(named) != 2 or len(tensor.dims) != 2 or not all(n in axes for n in named):
        return None
    if [axes[n].dim for n in named[::-1]] != list(tensor.dims):
        return None
    text, end = at.file.text, at.end
    turned = text.startswith(".T", end)
    end += 2 * turned
    right, left = text[: at.start].rstrip().endswith("@"), text[end:].lstrip(" ").startswith("@")
    if right or left:
        looped = axes[named[1] if right else named[0]].kind is AxisKind.SEQUENTIAL
        turned = not looped
    new = f"{tensor.name}[{named[1]}, {named[0]}]{'.T' * turned}"
    return written(Span(at.file, at.start, end), new, f", in the order of `{tensor.name}[{tensor.dims[0].name}, "
                   f"{tensor.dims[1].name}]`")  # fmt: skip


# ---------------------------------------------------------------- statements


def summed(body: Iterable[ast.Statement], name: str, defined: Span) -> Fix | None:
    """`c = c + a @ b` where a loop defines `c = a @ b`, and what is wanted after it is the sum."""
    for statement in flatten(body):
        match statement:
            case ast.Equation(target=ast.Name(span=span), value=ast.Binary(op="@", span=value)) if span == defined:
                start = Span(value.file, value.start, value.start)
                return Fix(f"add it up: `{name} = {name} + ...`", (Edit(start, f"{name} + "),), certain=False)
            case ast.Each(body=inner) if (found := summed(inner, name, defined)) is not None:
                return found
    return None


def carried(body: Iterable[ast.Statement], node: ast.Name) -> Fix:
    """`carry m : f32[q] = -inf` for a name that a loop reads before it has a value: in the line that is there."""
    declared = Surroundings(node.span.file).carried(node.id)
    text = f"give it a value before the loop: `carry {declared}`"
    statements = [s for s in flatten(body) if s.span.file == node.span.file and s.span.start < node.span.start]
    there = next((s for s in statements if isinstance(s, ast.Carry)), None)
    loop = next((s for s in statements if isinstance(s, ast.Each)), None)
    if there is not None:
        end = there.values[-1].span.end
        return Fix(text, (Edit(Span(node.span.file, end, end), f", {declared}"),), certain=False)
    return Fix(text, line_above(loop.span, f"carry {declared}") if loop else (), certain=False)


def transposing(axis: Axis, left: ast.Expr, lefts: tuple[Axis, ...], right: ast.Expr, rights: tuple[Axis, ...]) -> Fix:
    """Suggest the `.T` that make the product valid."""
    wanted = [(left, lefts, lefts[-1] != axis), (right, rights, rights[0] != axis)]
    if any(turn and len(axes) != 2 for _, axes, turn in wanted):
        return Fix(f"make `{axis.name}` the last axis of the left operand and the first of the right one")
    texts = [(node, _turned(node)) for node, _, turn in wanted if turn]
    words = " and ".join(f"`{text}`" for _, text in texts)
    return Fix(f"write {words}", tuple(Edit(node.span, text) for node, text in texts))


def _turned(node: ast.Expr) -> str:
    """A factor with `.T` put on it, or taken off."""
    if isinstance(node, ast.Transposed):
        return node.operand.span.text
    return f"{node.span.text}.T" if isinstance(node, ast.Name | ast.Access | ast.Call) else f"({node.span.text}).T"


def tiles_of_one(axis: Axis) -> Fix | None:
    """Give an index of `over` tiles of one position; None where the spec does not name its dimension."""
    if axis.span is None or (said := _IN.match(axis.span.file.text, axis.span.end)) is None:
        return None
    after = Span(axis.span.file, said.end(), said.end())
    return Fix(f"give `{axis.name}` tiles of 1", (Edit(after, " by 1"),), certain=False)
