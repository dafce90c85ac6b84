"""The AST as text, without spans: what `--print-after parse` shows, and what makes two trees equal.

    Block rows=128 cols=128 step=64

One line per statement; statements and schedule lines inside it follow, indented. Expressions are fully parenthesised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from tkgen.syntax import ast


def dump(node: ast.Node) -> str:
    """The text form of a tree; equal for trees that differ only in their spans."""
    return "\n".join(_lines(node, 0)) + "\n"


def _lines(node: ast.Node, depth: int) -> Iterator[str]:
    """A node's own line, then those of the statements or schedule operations it holds."""
    children: list[ast.Node] = []
    words = [type(node).__name__]
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name in ("body", "clusters", "ops", "kernels"):
            children += value
        elif field.name not in ("span", "shared") and value not in (None, ()):
            words.append(f"{field.name}={_inline(value)}")
    yield "  " * depth + " ".join(words)
    for child in children:
        yield from _lines(child, depth + 1)


def _inline(value: object) -> str:
    """A field's value on one line."""
    match value:
        case ast.Number(value=number):
            return repr(number)
        case ast.Name(id=name):
            return name
        case ast.Binary(op=op, left=left, right=right):
            return f"({_inline(left)} {op} {_inline(right)})"
        case ast.Unary(op=op, operand=operand):
            return f"({op} {_inline(operand)})"
        case ast.Transposed(operand=operand):
            return f"{_inline(operand)}.T"
        case ast.Access(name=name, indices=indices):
            return f"{name.id}[{', '.join(map(_inline, indices))}]"
        case ast.AxisClause(tile=tile, parts=parts) if parts:
            return f"({', '.join(map(_inline, parts))}) by {_inline(tile)}"
        case ast.AxisClause(name=name, extent=extent, within=within, tile=tile):
            part = f" {_inline(within)}" if within else ""
            return f"{name.id} in {_inline(extent)}{part}" + (f" by {_inline(tile)}" if tile else "")
        case ast.Within(offsets=offsets, of=of, lengths=lengths):
            return f"{'below' if lengths else 'within'} {offsets.id}[{of.id}]"
        case ast.Carried(name=name, dtype=dtype, axes=axes, initial=initial):
            return f"{name.id}:{dtype.id}{_inline(axes)}={_inline(initial)}"
        case ast.Call(name=name, args=args, keywords=keywords, fast=fast, along=along):
            words = [*map(_inline, args), *(f"{key.id}={_inline(value)}" for key, value in keywords)]
            words += map(_inline, along)
            return f"{'fast ' * fast}{name.id}({', '.join(words)})"
        case ast.Binding(name=name, value=bound):
            return f"{name.id}={_inline(bound) if bound else 'dynamic'}"
        case ast.WaveRange(first=first, last=last) | ast.Index(first=first, last=last):
            return f"{_inline(first)}..{_inline(last)}"
        case ast.StepRef(offset=offset, base=base):
            return str(offset) if base == "zero" else f"{base}{offset:+d}"
        case tuple():
            return f"[{', '.join(map(_inline, value))}]"
        case _:
            return repr(value)
