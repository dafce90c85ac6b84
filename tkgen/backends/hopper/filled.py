"""Operands that warps of the producer load themselves: the C++ of where each chunk of a tile is, and what it becomes.

A chunk is 16 bytes of a tile in shared memory, along the contraction. Four kinds of operands are loaded so: rows that
a tensor of indices names (`X[ROW[m], k]`), positions that are sums (`X[b, p + r - 1, q + s - 1, c]`), functions of
packed weights (`bf16(W[n, k] - Z[n, k / 128])`), and rows that are no multiple of 16 bytes, of which a lane loads parts
of a chunk. Elements outside of a tensor are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tkgen.backends.cdna.lower.elements import INDENT, functions, literal, local, statements
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.hopper.epilogue import place_of
from tkgen.backends.hopper.file import name
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.streamed import Filled
from tkgen.ir.affine import may_leave
from tkgen.ir.equation_text import affine_text
from tkgen.ir.equations import Access, Argument, Axis, Convert, Coordinate, Digit, Index, Load, Op, Term, Value
from tkgen.ir.functions import HOPPER, helpers
from tkgen.ir.integers import Widths
from tkgen.ir.products import Made
from tkgen.ir.types import Dim, DType, Operand, Side, Tensor

Limit = Callable[[Dim], str]


def raw_type(tensor: Tensor) -> str:
    """The C++ of what memory has of eight neighbours of packed weights."""
    if tensor.dtype is DType.I8:
        return "tk::of_i8"
    kind = "of_4_bits_interleaved" if tensor.interleaved else "of_4_bits"
    return f"tk::{kind}<{'true' if tensor.dtype is DType.I4 else 'false'}>"


def raw_elements(tensor: Tensor) -> int:
    """Neighbours along a row of packed weights of which one lane loads some at once: rows are a multiple."""
    return 128 if tensor.interleaved else 8


def helpers_of(made: Made) -> tuple[str, ...]:
    """The C++ functions that the equations of a computed operand call."""
    return helpers(functions(made.ops), HOPPER)


def filled(layout: Layout, operand: Operand, row: str, step: str, limit: Limit, remark: str) -> Filled:
    """The way of an operand; `row` is the first row of its tile, `step` the K-step, `limit` gives sizes in C++."""
    return _Filling(layout, operand, limit).way(row, step, remark)


class _Filling:
    def __init__(self, layout: Layout, operand: Operand, limit: Limit):
        self.layout, self.operand, self.limit = layout, operand, limit
        self.access = layout.filled[operand.name]
        self.made = layout.equations.made.get(operand.name)
        self.name, equations = name(operand.name), layout.equations
        self.rows = equations.rows if operand.side is Side.A else equations.cols
        self.contraction = equations.contraction
        self.beside = [op for op in (self.made.ops if self.made else ()) if isinstance(op, Load)]

    def way(self, row: str, step: str, remark: str) -> Filled:
        """Declarations, functions and calls."""
        raw = raw_type(self.access.tensor) if self.made else "uint4"
        numbers = f", {len(self.beside)}" if self.beside else ""
        several = "[CONSUMERS]" if self.operand.side is Side.A else ""
        declared = f"tk::loaded_chunks<{self.name}_tile, {raw}{numbers}> {self.name}_loaded{several};{remark}"
        return Filled(
            f"{self.name}_loaded",
            (declared,),
            (*self._load(remark), *(self._function() if self.made else ())),
            f"{self.name}_load",
            (row, step, *(f"{cpp_name(axis.name)}_i" for axis in self.layout.batch_of(self.access))),
            f"{self.name}_made" if self.made else "",
        )

    # ------------------------------------------------------------ where it is

    def _load(self, remark: str) -> Iterator[str]:
        """The function that loads the chunks of a thread of a tile."""
        batch = "".join(f", int {cpp_name(axis.name)}_i" for axis in self.layout.batch_of(self.access))
        yield f"const auto {self.name}_load = [&](auto &loaded, int first_row, int step{batch}) {{{remark}"
        yield f"{INDENT}tk::load_chunks(loaded, [&](auto &raw, auto &numbers, int r, int c) {{"
        yield f"{INDENT * 2}const int row = first_row + r, col = step * K_STEP + c;"
        yield from (INDENT * 2 + line for line in self._chunk())
        for n, op in enumerate(self.beside):
            yield f"{INDENT * 2}numbers[{n}] = {self._number(op.source)};"
        yield f"{INDENT}}});"
        yield "};"

    def _chunk(self) -> Iterator[str]:
        """Statements that load a chunk, whose first element is at `row` and `col` of the product."""
        tensor, lines = self.access.tensor, list[str]()
        for axis, place in ((self.rows, "row"), (self.contraction, "col")):
            lines += [f"const int {_local(d)} = {_digit(d, place)};" for d in self._digits(axis)]
        conditions, places = self._ends(), list[str]()
        for n, (index, dim) in enumerate(zip(self.access.indices, tensor.dims, strict=True)):
            place = self._position(index)
            if index.through is not None:
                at = f"at_{n}"
                inside = " && ".join(conditions) or "true"
                lines.append(f"const int {at} = {inside} ? {place} : -1;")
                conditions, place = [f"{at} >= 0", f"{at} < {self.limit(dim)}"], at
            elif index.terms and may_leave(index, dim):
                at = f"at_{n}"
                lines.append(f"const int {at} = {place};")
                conditions += [f"{at} >= 0", f"{at} < {self.limit(dim)}"]
                place = at
            places.append(place)
        yield from lines
        inside, pointer = " && ".join(conditions) or "true", self._pointer(places[:-1])
        if self.made:
            yield "raw = {};"
            yield f"if ({inside}) raw.load({pointer}, {places[-1]});"
        elif part := self.layout.loaded_in_chunks(self.operand):
            left = f"{inside} ? {self.limit(tensor.dims[-1])} - ({places[-1]}) : 0"
            yield f"raw = tk::chunk_in_parts<{part}>({pointer} + ({places[-1]}), {left});"
        else:
            yield f"raw = tk::chunk_at({inside} ? {pointer} + ({places[-1]}) : nullptr);"

    def _ends(self) -> list[str]:
        """Conditions under which a place of the product is one, where tiles may reach beyond its ends."""
        found = []
        for axis, place in ((self.rows, "row"), (self.contraction, "col")):
            size, tile = axis.dim.size, axis.tile or 1
            if axis.within is not None or size is None or size % tile:
                found.append(f"{place} < {self.limit(axis.dim)}")
        return found

    def _pointer(self, places: list[str]) -> str:
        """The first element of a row of the tensor."""
        tensor = self.access.tensor
        offset = ""
        for place, dim in zip(places, tensor.dims, strict=False):
            offset = f"({offset}) * {self.limit(dim)} + {place}" if offset else f"size_t({place})"
        row = tensor.dims[-1].size
        length = str(tensor.dtype.sized(row) if tensor.dtype.packed else row) if row else self.limit(tensor.dims[-1])
        return f"g.{name(tensor.name)}.raw_ptr" + (f" + ({offset}) * {length}" if offset else "")

    def _position(self, index: Index) -> str:
        """The position along a dimension, as C++."""
        if index.through is not None:
            through = index.through
            tiled = ["row" if i.axis == self.rows else "" for i in through.indices]
            return f"tk::number_at(g.{name(through.tensor.name)}, {place_of(through, tiled)})"
        if index.terms:
            return affine_text([(self._named(t), t.factor) for t in index.terms], index.at)
        if index.axis is None:
            return str(index.at)
        place = self._named(Term(index.axis))
        return f"{place} / {index.divisor}" if index.divisor != 1 else place

    def _named(self, term: Term) -> str:
        """The position along the axis of a term, or the size that it is."""
        way = term.of
        if isinstance(way, Dim):
            return self.limit(way)
        if isinstance(way, Digit):
            return _local(way)
        return {self.rows: "row", self.contraction: "col"}.get(way) or f"{cpp_name(way.name)}_i"

    def _digits(self, axis: Axis) -> list[Digit]:
        """The parts of a flattened axis that the indices have."""
        ways = (way for index in self.access.indices for way in index.ways)
        return list(dict.fromkeys(way for way in ways if isinstance(way, Digit) and way.axis == axis))

    def _number(self, source: Access) -> str:
        """A number beside a chunk, at its row and first element."""
        tiled = []
        for index in source.indices:
            place = {self.rows: "row", self.contraction: "col"}.get(index.axis, "") if index.axis else ""
            tiled.append(f"{place} / {index.divisor}" if place and index.divisor != 1 else place)
        return f"tk::element_at(g.{name(source.tensor.name)}, {place_of(source, tiled)})"

    # ------------------------------------------------------------ what it becomes

    def _function(self) -> Iterator[str]:
        """The function of an element of packed weights, and of the numbers beside it."""
        made = self.made
        assert made is not None
        known = dict[Value, str]()
        known[made.tile.result] = local(made.tile.result, known)
        parameter, lines = known[made.tile.result], list[str]()
        for n, load in enumerate(self.beside):
            known[load.result] = f"numbers[{n}]"
        *ops, last = made.ops
        assert isinstance(last, Convert)  # the tile rounds to its type
        for op in ops:
            lines += self._line(op, known, Widths(made.ops))
        yield f"const auto {self.name}_made = [&](float {parameter}, const auto &numbers) {{"
        yield from (INDENT + line for line in lines)
        yield f"{INDENT}return {known.get(last.argument) or literal(0)};"
        yield "};"

    @staticmethod
    def _line(op: Op, known: dict[Value, str], widths: Widths) -> list[str]:
        match op:
            case Load():
                return []
            case Argument(result=result, scalar=scalar):
                known[result] = f"g.{name(scalar.name)}"
            case Coordinate():
                raise AssertionError("operands are computed of tensors and scalars")
            case _:
                return statements([op], known, HOPPER, widths)
        return []


def _digit(digit: Digit, place: str) -> str:
    """The position along one of the axes that a flattened one combines, at a `place` of that."""
    at = f"{place} / {digit.divisor}" if digit.divisor != 1 else place
    return f"{at} % {digit.size}" if digit.turns else at


def _local(way: Digit) -> str:
    """The local that has that position."""
    return f"{cpp_name(way.name).rstrip('_')}_at"
