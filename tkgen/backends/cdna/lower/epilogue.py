"""Epilogue of the sums of products, tile by tile: the statements that compute and store the results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tkgen.backends.cdna.lower.elements import axes_named, functions, literal, local, of_element, parameters
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.origins import within
from tkgen.backends.cdna.lower.statements import How, indented, lambda_call, scoped
from tkgen.ir.equations import Access, Axis, Load, Map, Op, Store, Value, reads, writes
from tkgen.ir.integers import Widths
from tkgen.ir.products import Sums, needed
from tkgen.ir.reductions import Reduction

IDENTITY = {"sum": "0.0f", "max": "-__builtin_inff()", "min": "__builtin_inff()"}


@dataclass(frozen=True)
class Place:
    """A tile of the output: C++ of its tile row and column, elements of a tile, the fragment that it is of its wave."""

    row: str
    col: str
    shape: tuple[int, int]
    fragment: tuple[str, str]


@dataclass(frozen=True)
class Element:
    """The C++ of an element of a value: a function's body, what it takes, and what is declared before it.

    `named`: of the row and column of the element ("row", "col") and their indices among those of the lane ("r", "c"),
    those that the body reads.
    """

    parameters: tuple[str, ...]  # for elements of `sums`
    sums: tuple[str, ...]
    buffers: tuple[str, ...]
    lines: tuple[str, ...]
    value: str
    named: frozenset[str]


@dataclass
class Epilogue:
    """The equations after the sums, for the tile at `place`: statements, and the `functions` that they call.

    `held` has the C++ of the register tiles of sums, or of what took their places, `matrix` gives that of what is
    accessed, `tile_type` is the tiles'. `reductions` are all that the equations have. `past_end`: what
    loads of matrices do there, as template arguments.
    """

    equations: Sums
    held: Mapping[Value, str]
    place: Place
    matrix: Callable[[Access], str]
    tile_type: str
    reductions: tuple[Reduction, ...]
    past_end: str
    functions: set[str] = field(default_factory=set)

    def variable(self, reduction: Reduction) -> str:
        """The results of a reduction: of each fragment those of a lane's own rows, or columns."""
        return variable(reduction.op.result)

    def fold(self, reduction: Reduction, limit: str) -> list[str]:
        """Lines that add a tile to the results of a lane; up to `limit`, where the tile may extend past the end."""
        op = reduction.op
        element = self.element(op.argument)
        across, own = ("row", "col")[reduction.across], "rc"[reduction.kept]
        named = {*element.named, own, *([across] if limit else [])}
        result = f"{self.variable(reduction)}[{self.place.fragment[reduction.kept]}][{own}]"
        value = f"{across} < {limit} ? {element.value} : {IDENTITY[op.function]}" if limit else element.value
        lines = [*element.lines, f"{result} = base_ops::{op.function}::op<float>({result}, {value});"]
        taken = (*parameters(named, "row", "col", "r", "c"), *element.parameters)
        visited = f"tk::visit({next(iter(self.held.values()))}, {self.place.row}, {self.place.col}, "
        return scoped(element.buffers, lambda_call(visited, taken, lines, element.sums))

    def keep(self, value: Value, tile: str) -> list[str]:
        """Lines that compute a value into a tile that held another one."""
        element = self.element(value)
        return scoped(element.buffers, self._combined(element, tile))

    def combine(self, store: Store, how: How, own: bool, whole: str) -> list[str]:
        """Lines that compute a stored matrix: in place of the first sum, or in a tile of its `own`.

        `whole` is the tile of a sum of integers that is stored as it is, else empty.
        """
        element = self.element(store.value)
        if store.value in self.held:  # it is stored from where it is
            return [self._stored(store, how, whole or element.sums[0])]
        tile = f"{cpp_name(store.target.tensor.name)}_tile" if own else next(iter(self.held.values()))
        declared = [f"{self.tile_type} {tile};"] * own
        lines = [*declared, *element.buffers, *self._combined(element, tile), self._stored(store, how, tile)]
        return ["{", *indented(lines), "}"]

    def _combined(self, element: Element, tile: str) -> list[str]:
        """A value to each element of a tile."""
        taken = (*parameters(element.named, "row", "col", *("rc" if self.reductions else "")), *element.parameters)
        call = f"tk::combine({tile}, {self.place.row}, {self.place.col}, "
        return lambda_call(call, taken, [*element.lines, f"return {element.value};"], element.sums)

    def _stored(self, store: Store, how: How, tile: str) -> str:
        tensor, row, col = self.matrix(store.target), self.place.row, self.place.col
        if how == "whole":
            return f"store({tensor}, {tile}, {{0, 0, {row}, {col}}});"
        return f"tk::store_{how}({tensor}, {tile}, {row}, {col});"

    def owned(self, store: Store, to: str, stride: str, extent: str, condition: str) -> list[str]:
        """Lines that store a value for each row or column, or a single one, from the first of the waves and lanes that
        have it.

        The numbers lie `stride` elements apart. The waves of a `condition` store them.
        """
        axes = store.target.axes
        element = self.element(store.value)
        assert not element.buffers, "what is stored by the row reads no matrix"
        lines = [*element.lines, f"return {element.value};"]
        if axes:
            along = (self.equations.rows, self.equations.cols).index(axes[0])
            kind, tile = f"tk::{('rows', 'cols')[along]}_of<{self.tile_type}>", (self.place.row, self.place.col)[along]
            taken = parameters(element.named, *(("row", "r"), ("col", "c"))[along])
            stored = lambda_call(f"tk::store_owned<{kind}>({to}, {stride}, {extent}, {tile}, ", taken, lines)
        else:
            stored = lambda_call(f"tk::store_one({to}, ", None, lines)
        return [f"if ({condition}) {{", *indented(stored), "}"] if condition else stored

    def element(self, value: Value) -> Element:
        """The C++ of an element of a value."""
        ops = needed(self.equations.epilogue, value, known=self.held)
        known: dict[Value, str] = {}
        taken, given, buffers, lines = [], [], list[str](), list[str]()
        for held, tile in self.held.items():
            if any(held in reads(op) for op in ops) or value == held:
                known[held] = local(held, known)
                taken.append(f"float {known[held]}")
                given.append(tile)
        for r in self.reductions:
            at = f"[{self.place.fragment[r.kept]}][{'rc'[r.kept]}]" if r.op.result.axes else "[0][0]"
            known[r.op.result] = self.variable(r) + at
        optional = _optional(ops, value)
        first = needed(self.equations.epilogue, *optional.values())  # the same for all elements: before them
        before = [op for op in first if not isinstance(op, Load)]
        for op in [*first, *(op for op in ops if op not in first)]:
            wanted = known[optional[op.result]] if isinstance(op, Load) and op.result in optional else ""
            load = partial(self._loaded, buffers=buffers, wanted=wanted)
            made = of_element(op, known, load, self._coordinate, Widths(ops))
            (buffers if op in before else lines).extend(within(writes(op)[0].span, made))
        self.functions |= functions(op for op in ops if isinstance(op, Map))
        text = known.get(value) or literal(0)
        return Element(tuple(taken), tuple(given), tuple(buffers), tuple(lines), text, self._named(ops, before, value))

    def _named(self, ops: Sequence[Op], before: Sequence[Op], value: Value) -> frozenset[str]:
        """The indices that the function of an element names, where it computes `ops` without those `before` it."""
        inside = [op for op in ops if op not in before]
        axes = axes_named(ops, inside, value)
        along = {self.equations.rows: "row", self.equations.cols: "col"}
        read = {value, *(v for op in inside for v in reads(op))}
        own = ("rc"[r.kept] for r in self.reductions if r.op.result.axes and r.op.result in read)
        return frozenset({*(name for axis, name in along.items() if axis in axes), *own})

    def _loaded(self, source: Access, name: str, buffers: list[str], wanted: str) -> str:
        """An element of a tensor; of a matrix that is not `wanted` none is read, from a buffer without rows."""
        tensor, axes = self.matrix(source), source.axes
        at = [self._coordinate(axis) for axis in axes]
        if len(axes) != 2:
            return f"tk::element({tensor}, {at[0] if at else '0'})"
        first = self._first(axes[0])
        begin = f"{wanted} ? {first} : {tensor}.rows()" if wanted else first
        buffers.append(f"const auto {name}_rows = tk::rows_from({tensor}, {begin});")
        return f"tk::element_of{self.past_end}({tensor}, {name}_rows, {first}, {at[0]}, {at[1]})"

    def _coordinate(self, axis: Axis) -> str:
        if axis.is_index:
            return f"{cpp_name(axis.name)}_i"
        return {self.equations.rows: "row", self.equations.cols: "col"}[axis]

    def _first(self, axis: Axis) -> str:
        """The first element of the tile along an axis."""
        number = 0 if axis == self.equations.rows else 1
        tile, size = (self.place.row, self.place.col)[number], self.place.shape[number]
        return f"{tile if tile.isidentifier() else f'({tile})'} * {size}"


def _optional(ops: Sequence[Op], value: Value) -> dict[Value, Value]:
    """The loads among `ops` that only one condition of all elements asks for, `where(beta != 0, c + beta * C, c)`."""
    found = dict[Value, Value]()
    for op in ops:
        if isinstance(op, Map) and op.function == "where" and not op.arguments[0].axes:
            condition, _, otherwise = op.arguments
            without = tuple(replace(o, arguments=(condition, otherwise, otherwise)) if o is op else o for o in ops)
            read = needed(without, value)
            found |= {o.result: condition for o in ops if isinstance(o, Load) and o not in read}
    return found


def variable(result: Value) -> str:
    """The C++ variable of what is reduced."""
    return f"{cpp_name(result.name)}_each{result.number}" if result.name else f"t{result.number}_each"


def spans_of(equations: Sums, value: Value, known: Collection[Value]) -> list[Op]:
    """The operations whose places a statement for a value comes from."""
    return needed(equations.epilogue, value, known=known)
