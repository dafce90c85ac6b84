"""Factors of products that no matrix instruction takes together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tkgen.diagnostics import Edit, Fix, Label
from tkgen.ir.equations import Load
from tkgen.ir.types import DType, Tensor
from tkgen.source import Span
from tkgen.syntax import ast

if TYPE_CHECKING:
    from tkgen.ir.resolve.names import Stop
    from tkgen.ir.typing.expressions import Expressions, Tile


def mixed_factors(at: Expressions, a: Tile, b: Tile, left: ast.Expr, right: ast.Expr, span: Span) -> Stop:
    """E204, with the conversion of the factor that is computed."""
    wide, node, to = (a, left, b.value.dtype) if a.value.dtype is DType.F32 else (b, right, a.value.dtype)
    first, second = a.value.dtype.spelling, b.value.dtype.spelling
    fix = Fix("give both operands the same type")
    scaled = any(isinstance(op, Load) and op.source.tensor.dtype is DType.E8M0 for op in at.ops)
    if scaled and DType.F32 in (a.value.dtype, b.value.dtype):
        fix = Fix("scale the blocks of both operands: `(s[m, k / 32] * A[m, k]) @ (t[n, k / 32] * B[n, k]).T`")
    elif (loaded := _loaded(at, wide)) is not None:
        fix = Fix(f"declare `{loaded.name}` as {to.spelling}, like the other operand")
    elif wide.value.dtype is DType.F32:
        text = f"{to.spelling}({node.span.text})"
        fix = Fix(f"round it first: `{text}`", (Edit(node.span, text),), certain=False)
    return at.scope.error(
        "E204", f"one product of {first} and {second}: no matrix instruction accepts both", span,
        secondary=(Label(left.span, first), Label(right.span, second)), fix=fix,
    )  # fmt: skip


def _loaded(at: Expressions, tile: Tile) -> Tensor | None:
    """Return the tensor from which a tile is loaded, if it is."""
    loads = (op for op in at.ops if isinstance(op, Load) and op.result == tile.value)
    return next((op.source.tensor for op in loads), None)
