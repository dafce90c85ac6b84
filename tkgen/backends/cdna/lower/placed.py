"""Operands that are read at affine indices: where a row and a K-step begin, as C++ functions of their numbers.

The position along each dimension of the tensor is a sum: one part depends on the row of the output, the other one on
the place along the contraction. So a lane computes the first part once for each of its rows, and adds the second one
in each K-step: the byte offsets, and the positions along those dimensions that may be left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tkgen.backends.cdna.lower.context import Context
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.origins import Origins
from tkgen.backends.cdna.lower.statements import Statement, indented
from tkgen.ir.affine import may_leave
from tkgen.ir.equation_text import affine_text
from tkgen.ir.equations import Axis, Digit, Index, Term
from tkgen.ir.products import View
from tkgen.ir.types import Operand


@dataclass(frozen=True)
class Placed:
    """The C++ of one operand that is read at affine indices."""

    c: Context
    view: View

    # ------------------------------------------------------------ statements

    @property
    def name(self) -> str:
        """The name that locals of the operand begin with."""
        return cpp_name(self.view.name)

    @property
    def step(self) -> str:
        """The function that gives where a K-step begins."""
        return f"{self.name}_step"

    @property
    def kind(self) -> str:
        """The type of a place."""
        return f"tk::place<{len(self.leaving)}>"

    @property
    def bounds(self) -> str:
        """Template arguments of a load: elements along the contraction (0 if K-steps end with it), and the sizes of
        the dimensions that may be left."""
        size, tile = self.c.program.k.size, self.c.program.block[2]
        ends = self.c.dim(self.c.program.k.name) if size is None or size % tile else "0"
        return ", ".join([ends, *(self.c.dim(self.view.tensor.dims[n].name) for n in self.leaving)])

    def matrix(self) -> Statement:
        """A local of the kernel: the elements that a block may reach."""
        tensor = self.view.tensor
        terms = [f"g.{cpp_name(tensor.name)}.raw_ptr"]
        for n, index in enumerate(self.view.access.indices[: self.first]):
            place = self._plain(index)
            if place != "0":
                terms.append(f"size_t({place}) * {self._distance(n)}")
        count = prod(dim.size or 1 for dim in tensor.dims[self.first :])
        policy = ", cache::stream" if tensor.name in self.c.program.streamed else ""
        kind = f"gl<{tensor.dtype.cpp}, 1, 1, 1, {count}{policy}>"
        made = f"const auto {self.name}_m = tk::matrix_at<{kind}>({' + '.join(terms)}, 1, {count});"
        return Statement([made], origin=self._origin)

    def rows(self, shared: str, rows: str, threads: str, tile: str) -> Statement:
        """The places of the rows of a lane, which it computes once for each tile."""
        axis = self.c.equations.rows
        lines = [*self._digits(axis, "row", {}), f"return {self.kind}{self._place(False)};"]
        call = f"tk::place_rows<{threads}>({shared}, {rows}, {tile}, {self.c.dim(axis.dim.name)}, [&](int row) {{"
        return Statement([call, *indented(lines), "});"], origin=self._origin)

    def steps(self) -> Statement:
        """The function of a K-step, and of an element in it."""
        axis, tile = self.c.equations.contraction, self.c.program.block[2]
        lines = []
        alike = {d: "first" for d in self._parts(axis) if d.divisor % tile == 0}  # all elements of a step have one
        lines += [f"const int first = step * {tile};"]
        lines += self._digits(axis, "first + within", alike)
        lines.append(f"return {self.kind}{self._place(True)};")
        return Statement([f"const auto {self.step} = [&](int step, int within) {{", *indented(lines), "};"],
                         origin=self._origin)  # fmt: skip

    # ------------------------------------------------------------ parts

    @property
    def first(self) -> int:
        """The first index that is computed: those before it only say which matrix."""
        varying = (self.c.equations.rows, self.c.equations.contraction)
        found = enumerate(self.view.access.indices)
        return next(n for n, index in found if index.terms or any(a in varying for a in index.axes))

    @property
    def leaving(self) -> tuple[int, ...]:
        """The dimensions that a position may be outside of, one at least: rows beyond the end are outside of it."""
        pairs = enumerate(zip(self.view.access.indices, self.view.tensor.dims, strict=True))
        return tuple(n for n, (index, dim) in pairs if may_leave(index, dim)) or (self.first,)

    @property
    def _origin(self) -> Origins:
        return self.c.origin(self.view.tensor.span)

    def _distance(self, n: int) -> int:
        """Elements between neighbours along dimension `n`."""
        return prod(dim.size or 1 for dim in self.view.tensor.dims[n + 1 :])

    def _plain(self, index: Index) -> str:
        """A position that is the same for all of a block, of an index without terms."""
        if index.axis is None:
            return str(index.at)
        return self.c.index(index.axis) + (f" / {index.divisor}" if index.divisor != 1 else "")

    def _parts(self, axis: Axis) -> list[Digit]:
        """The parts of a flattened axis that the indices have."""
        ways = (way for index in self.view.access.indices for way in index.ways)
        return list(dict.fromkeys(way for way in ways if isinstance(way, Digit) and way.axis == axis))

    def _digits(self, axis: Axis, place: str, alike: Mapping[Digit, str]) -> list[str]:
        """Locals for the positions along an axis at a `place` of it, or at the one that `alike` has for a part."""
        lines = []
        for digit in self._parts(axis):
            if digit.divisor == 1 and alike and digit.size % self.c.program.block[2] == 0:
                lines.append(f"const int {_local(digit)} = first % {digit.size} + within;")
                continue
            at = alike.get(digit, place)
            at = f"({at})" if " " in at and (digit.divisor != 1 or digit.turns) else at
            at += f" / {digit.divisor}" if digit.divisor != 1 else ""
            lines.append(f"const int {_local(digit)} = {at}{f' % {digit.size}' if digit.turns else ''};")
        if any(axis in index.ways for index in self.view.access.indices):
            lines.append(f"const int {_local(axis)} = {place};")
        return lines

    def _terms(self, index: Index, summed: bool) -> tuple[list[tuple[str, int]], int]:
        """The terms of a position that belong to the contraction (`summed`), or all others; and the constant."""
        contraction = self.c.equations.contraction
        terms = index.terms or (() if index.axis is None else (Term(index.axis),))
        own = [t for t in terms if (t.axis == contraction) == summed]
        if not index.terms and index.axis is not None and index.axis.is_index:
            return ([] if summed else [(f"({self._plain(index)})", 1)]), 0
        return [(self._named(t), t.factor) for t in own], 0 if summed else index.at

    def _named(self, term: Term) -> str:
        """The position along the axis of a term."""
        if isinstance(term.of, Axis) and term.of.is_index:
            return self.c.index(term.of)
        assert isinstance(term.of, Axis | Digit)
        return _local(term.of)

    def _place(self, summed: bool) -> str:
        """The first byte of a row, or of a K-step (`summed`), and its positions."""
        size = self.view.tensor.dtype.bytes
        factors: dict[str, int] = {}
        start = 0
        for n, index in enumerate(self.view.access.indices):
            if n < self.first:
                continue
            terms, at = self._terms(index, summed)
            start += at * self._distance(n)
            for name, factor in terms:
                factors[name] = factors.get(name, 0) + factor * self._distance(n)
        offset = affine_text([(name, factor * size) for name, factor in factors.items()], start * size)
        positions = [affine_text(*self._terms(self.view.access.indices[n], summed)) for n in self.leaving]
        return f"{{{offset}, {{{', '.join(positions)}}}}}"


def placed_of(context: Context, operand: Operand) -> Placed | None:
    """The C++ of an operand's places; None where its tiles are parts of a matrix."""
    view = context.program.placed.get(operand.name)
    return None if view is None else Placed(context, view)


def _local(way: Axis | Digit) -> str:
    """The local that has the position along an axis."""
    return f"{cpp_name(way.name).rstrip('_')}_at"
