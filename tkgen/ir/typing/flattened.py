"""Flattened axes: `(b in BATCH, p in P, q in Q) by 128` as one axis whose places are the combinations of its parts.

A part indexes a tensor as an axis does, `X[b, p + r - 1, q + s - 1, c]`. Where all parts of a flattened axis index
neighbouring dimensions in their order, `Y[b, p, q, o]`, the tensor is seen with these flattened to one dimension: its
memory is the same, for tensors are row-major.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import prod

from tkgen.diagnostics import Label
from tkgen.ir.equations import Axis, AxisKind, Digit, Index, Term
from tkgen.ir.limits import LARGEST_INT
from tkgen.ir.resolve.names import Scope, Stop
from tkgen.ir.tensors import Dim, Tensor
from tkgen.source import Span
from tkgen.syntax import ast


@dataclass
class Flattened:
    """The flattened axes of a kernel by name, their parts by name, and the form in which tensors are seen."""

    axes: dict[str, Axis] = field(default_factory=dict)
    digits: dict[str, Digit] = field(default_factory=dict)
    forms: dict[str, tuple[Tensor, Span]] = field(default_factory=dict)

    def axis(
        self,
        scope: Scope,
        clause: ast.AxisClause | ast.Each,
        dims: Sequence[Dim],
        kind: AxisKind,
        tile: int,
        part: str | None,
    ) -> tuple[Axis, bool]:
        """The axis that a clause declares, and True if one before it declares the same."""
        for each, dim in zip(clause.parts, dims, strict=True):
            if dim.size is None:
                raise self._dynamic(scope, each, dim)
        size = prod(dim.size or 1 for dim in dims)
        if size > LARGEST_INT:
            raise scope.error(
                "E203", f"`{clause.name.span.text}` has {size} positions, more than 31 bits count", clause.name.span,
                fix="leave the outermost part out: `over b in BATCH, (p in P, q in Q) by 128`",
            )  # fmt: skip
        names = [each.name for each in clause.parts]
        whole = Dim(self._free("_".join(d.name for d in dims), scope.dims), size, clause.name.span)
        name = self._free("_".join(n.id for n in names), scope.declared)
        axis = Axis(name, whole, kind, tile, part=part, parts=tuple(dims), span=clause.name.span)
        if self.axes.get(name) == axis:
            return axis, True
        for part_name in names:
            scope.declare(part_name)
        self.axes[name] = axis
        for n, (part_name, dim) in enumerate(zip(names, dims, strict=True)):
            self.digits[part_name.id] = Digit(part_name.id, axis, dim, prod(d.size or 1 for d in dims[n + 1 :]))
        return axis, False

    @staticmethod
    def _dynamic(scope: Scope, part: ast.AxisClause, dim: Dim) -> Stop:
        """E203 for a part whose size is known only at launch."""
        return scope.error(
            "E203", f"`{dim.name}` is dynamic, but the sizes of a flattened axis must be known at build time",
            part.span, secondary=(Label(dim.span, "dynamic"),),
            fix=f"give `{dim.name}` a size, or make it a separate axis: `over {part.span.text}, ...`",
        )  # fmt: skip

    @staticmethod
    def _free(name: str, taken: Collection[str]) -> str:
        """A name that nothing has yet."""
        while name in taken:
            name += "_"
        return name

    @staticmethod
    def twice(scope: Scope, clause: ast.AxisClause | ast.Each) -> Stop:
        """E202 for a flattened axis that is declared again where it is in use."""
        return scope.error(
            "E202", f"`{clause.name.span.text}` is declared twice", clause.name.span, "declared again here",
            fix="rename the axes of one of them",
        )  # fmt: skip

    def no_number(self, scope: Scope, name: ast.Name) -> Stop:
        """E230 for a part of a flattened axis where it is no index."""
        axis = self.digits[name.id].axis
        return scope.error(
            "E230", f"`{name.id}` is a part of a flattened axis, which can only index tensors", name.span,
            secondary=(Label(axis.span, "flattened here"),) if axis.span else (),
            fix=f"store what depends on it in a tensor, or make `{name.id}` a separate axis",
        )  # fmt: skip

    def apart(self, scope: Scope, tensor: Tensor, digit: Digit, at: ast.Expr) -> Stop:
        """E233 for a store along a part of a flattened axis alone."""
        names = [d.name for d in self.digits.values() if d.axis == digit.axis]
        return scope.error(
            "E233", f"`{tensor.name}` is stored at `{at.span.text}`, with a part of a flattened axis", at.span,
            "a store goes along complete axes",
            secondary=(Label(digit.axis.span, "flattened here"),) if digit.axis.span else (),
            fix=f"index neighboring dimensions with all parts, in their order: `{', '.join(names)}`",
        )  # fmt: skip

    def index(self, scope: Scope, tensor: Tensor, dim: Dim, digit: Digit, expr: ast.Name, stored: bool) -> Index:
        """The index that a part of a flattened axis alone is."""
        if stored:
            raise self.apart(scope, tensor, digit, expr)
        if digit.dim != dim:
            raise scope.error(
                "E223", f"`{expr.id}` runs over `{digit.dim.name}`, this dimension of `{tensor.name}` is `{dim.name}`",
                expr.span, f"along `{dim.name}`", secondary=(Label(tensor.span, "declared here"),),
                fix=f"write the indices in the order of the dimensions, or shift it: `{expr.id} + 0`",
            )  # fmt: skip
        return Index(None, terms=(Term(digit),))

    def form(
        self, scope: Scope, tensor: Tensor, indices: Sequence[ast.Expr], at: Span
    ) -> tuple[Tensor, tuple[ast.Expr, ...], dict[ast.Expr, Axis]]:
        """A tensor as these indices see it, an index for each of its dimensions, and those that are flattened axes.

        E223 where other indices of the kernel see it in another form.
        """
        dims, left, runs = list[Dim](), list[ast.Expr](), dict[ast.Expr, Axis]()
        n = 0
        while n < len(indices):
            run = self._run(tensor.dims[n:], indices[n:])
            if run:
                dims.append(run[0].axis.dim)
                runs[indices[n]] = run[0].axis
            else:
                dims.append(tensor.dims[n])
            left.append(indices[n])
            n += max(len(run), 1)
        seen = tensor
        if runs:
            rest = tensor.dims[n:]
            seen = Tensor(tensor.name, tensor.dtype, (*dims, *rest), tensor.span, tensor.interleaved, tensor.dims)
        before, where = self.forms.setdefault(tensor.name, (seen, at))
        if before != seen:
            raise scope.error(
                "E223", f"`{tensor.name}` is indexed along a flattened axis, and in another way", at,
                secondary=(Label(where, "indexed here, too"), Label(tensor.span, "declared here")),
                fix="declare it as two tensors; a launch may pass the same tensor for both",
            )  # fmt: skip
        return before, tuple(left), runs

    def _run(self, dims: Sequence[Dim], indices: Sequence[ast.Expr]) -> list[Digit]:
        """All parts of a flattened axis, where the first indices are these in their order; nothing else."""
        first = self.digits.get(indices[0].id) if isinstance(indices[0], ast.Name) else None
        if first is None or first.turns:
            return []
        parts = [d for d in self.digits.values() if d.axis == first.axis]
        given = [i.id if isinstance(i, ast.Name) else "" for i in indices[: len(parts)]]
        fits = given == [d.name for d in parts] and list(dims[: len(parts)]) == [d.dim for d in parts]
        return parts if fits else []
