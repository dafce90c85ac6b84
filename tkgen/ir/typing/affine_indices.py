"""Affine indices: `X[2 * p + r - 1]` as a sum of axes and sizes, each times a number, and of a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tkgen.diagnostics import Label
from tkgen.ir.affine import whole_ends
from tkgen.ir.equations import Axis, Digit, Index, Term
from tkgen.ir.limits import LARGEST_INT, LARGEST_ROWS_SIZE
from tkgen.ir.resolve.names import Scope
from tkgen.ir.resolve.sizes import number
from tkgen.ir.tensors import Dim, Tensor
from tkgen.source import Span
from tkgen.syntax import ast

FORM = "an index is a sum of axes, each times a number, and of a number: `X[2 * p + r - 1]`"
WHOLE = "coordinate"  # `coordinate(D)`: the position along a dimension that is taken whole


@dataclass
class Sum:
    """A sum of axes, parts of flattened ones and dynamic sizes, each times a number, and of `at`."""

    at: int = 0
    factors: dict[Axis | Digit | Dim, int] = field(default_factory=dict)

    def plus(self, other: Sum, times: int = 1) -> Sum:
        """Return this sum plus `times` another one."""
        found = dict(self.factors)
        for of, factor in other.factors.items():
            found[of] = found.get(of, 0) + times * factor
        return Sum(self.at + times * other.at, {of: factor for of, factor in found.items() if factor})


@dataclass(frozen=True)
class Reader:
    """Reads indices: `axis` finds the axis of a name, `whole` that of a dimension that is taken whole."""

    scope: Scope
    axis: Callable[[ast.Name], Axis | Digit | None]
    whole: Callable[[Dim, Span], Axis]

    def index(self, tensor: Tensor, dim: Dim, expr: ast.Expr) -> Index:
        """The index that an expression is, along a dimension of a tensor. Stops where it is none (E223, E203)."""
        found = self.sum(expr, expr)
        index = Index(None, at=found.at, terms=tuple(Term(of, factor) for of, factor in found.factors.items()))
        if (axis := index.shifted) is not None and (axis.dim != dim or index.terms != (Term(axis),)):
            raise self.scope.error(
                "E232", f"`{expr.span.text}` is no shift of `{axis.name}`, which is counted in each group", expr.span,
                secondary=(Label(axis.span, "ragged"),) if axis.span else (),
                fix=f"shift it along its own dimension, `{axis.name} - 1`, or list positions in an i32 tensor",
            )  # fmt: skip
        if index.terms:
            self._inside(tensor, dim, expr, index)
        match index:
            case Index(at=0, terms=(Term(of=Axis() as axis, factor=1),)) if axis.dim == dim:
                return Index(axis)  # a shift by nothing
        return index

    def _inside(self, tensor: Tensor, dim: Dim, expr: ast.Expr, index: Index) -> None:
        """E223 for an index that is outside of its dimension everywhere, E203 for one that 32 bits do not hold."""
        low, high = whole_ends(index, LARGEST_ROWS_SIZE)
        if max(-low, high) > LARGEST_INT:
            raise self.scope.error(
                "E203", f"`{expr.span.text}` may be beyond 31 bits", expr.span, "positions are counted with 32 bits",
                fix="use smaller factors, or give dynamic dimensions a size",
            )  # fmt: skip
        sizes = [term.size for term in index.terms]
        if dim.size is not None and None not in sizes and (high < 0 or low >= dim.size):
            raise self.scope.error(
                "E223", f"`{tensor.name}` has no element at any `{expr.span.text}`", expr.span,
                f"it is {low}..{high}, and `{dim.name}` has 0..{dim.size - 1}",
                secondary=(Label(tensor.span, "declared here"),),
                fix="outside of a tensor all elements are zero: shift by less",
            )  # fmt: skip

    def sum(self, node: ast.Expr, whole: ast.Expr) -> Sum:
        """A part of an index as a sum; `whole` is the index. E223 where it is none."""
        match node:
            case ast.Name() if (axis := self.axis(node)) is not None:
                return Sum(0, {axis: 1})
            case ast.Name(id=name) if name in self.scope.dims and self.scope.values.get(name) is None:
                return Sum(0, {self.scope.dims[name]: 1})
            case ast.Call(name=ast.Name(id=word), args=(ast.Name(id=name) as argument,)) if word == WHOLE:
                return self._whole(argument, name)
            case ast.Binary(op="+" | "-" as op, left=left, right=right):
                return self.sum(left, whole).plus(self.sum(right, whole), 1 if op == "+" else -1)
            case ast.Binary(op="*", left=left, right=right):
                return self._scaled(self.sum(left, whole), self.sum(right, whole), node, whole)
        if isinstance(node, ast.Binary | ast.Call) and (varying := self._varying(node)) is not None:
            what = f"`{node.op}`" if isinstance(node, ast.Binary) else f"`{node.name.id}`"
            raise self.scope.error(
                "E223", f"`{whole.span.text}` is no index: {what} takes numbers there, not `{varying.id}`", whole.span,
                "not affine", fix=FORM,
            )  # fmt: skip
        return Sum(number(self.scope, node))

    def _whole(self, argument: ast.Name, name: str) -> Sum:
        """`coordinate(D)`, of a dimension that is taken whole, or of an axis."""
        axis = self.axis(argument)
        if axis is None and name not in self.scope.dims:
            raise self.scope.error("E200", f"`{name}` is neither an axis nor a dimension", argument.span,
                                   fix="name one", known=self.scope.dims)  # fmt: skip
        of: Axis | Digit = axis or self.whole(self.scope.dims[name], argument.span)
        return Sum(0, {of: 1})

    def _scaled(self, left: Sum, right: Sum, node: ast.Binary, whole: ast.Expr) -> Sum:
        """A product of which one factor is a number."""
        if left.factors and right.factors:
            raise self.scope.error(
                "E223", f"`{whole.span.text}` is no index: it multiplies `{node.left.span.text}` by "
                f"`{node.right.span.text}`", node.span, "not affine", fix=FORM,
            )  # fmt: skip
        times, other = (left.at, right) if not left.factors else (right.at, left)
        return Sum().plus(other, times)

    def _varying(self, node: ast.Expr) -> ast.Name | None:
        """The first name in an expression that is no number: an axis, or a dynamic size."""
        match node:
            case ast.Name(id=name):
                axis = name in self.scope.declared and self.axis(node) is not None
                dynamic = name in self.scope.dims and self.scope.values.get(name) is None
                return node if axis or dynamic else None
            case ast.Binary(left=left, right=right):
                return self._varying(left) or self._varying(right)
            case ast.Call(args=args):
                return next((found for a in args if (found := self._varying(a)) is not None), None)
        return None
