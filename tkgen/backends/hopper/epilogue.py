"""What becomes of the sums, element by element: equations as CUDA C++, in a function of a sum and its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tkgen.backends.cdna.lower.elements import functions, literal, local, statements
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.ir.equations import Access, Argument, Axis, Coordinate, Index, Load, Op, Reduce, Store, Value, reads
from tkgen.ir.functions import HOPPER, helpers
from tkgen.ir.integers import Widths
from tkgen.ir.products import Sum, Sums, needed
from tkgen.source import Span


@dataclass(frozen=True)
class Loaded:
    """What is read of a tensor beside two neighbouring sums, those at row `r` and columns `c` and `c + 1`: a float2."""

    name: str
    pair: str


@dataclass(frozen=True)
class RowValue:
    """What is reduced of a row, by its name, in round number `round`."""

    name: str
    round: int


@dataclass(frozen=True)
class Epilogue:
    """`float element(float SUM, ..., float LOADED, ..., float ROW, ..., int row, int col, const globals &g)`, and what
    it needs."""

    sums: tuple[str, ...]
    loads: tuple[Loaded, ...]
    rows: tuple[RowValue, ...]
    lines: tuple[str, ...]
    value: str
    helpers: tuple[str, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Reduction:
    """What is reduced of rows of the sums: `element` of each, by a function of ThunderKittens, from `start` on."""

    name: str
    function: str
    start: str
    element: Epilogue


@dataclass(frozen=True)
class RoundModel:
    """What is reduced at once, of the sums and of what `earlier` rounds made."""

    number: int
    reductions: tuple[Reduction, ...]
    earlier: int


@dataclass(frozen=True)
class RowOutput:
    """An output that has a number of each row: what it is made of, its `place` of row `r`, its coordinate in tiles."""

    name: str
    type: str
    made: Epilogue
    place: str
    coord: str
    origin: str


IDENTITY = {"sum": "0.0f", "max": "-INFINITY", "min": "INFINITY"}


def epilogue(equations: Sums, store: Store, name: Callable[[str], str]) -> Epilogue | None:
    """What equations make of their sums for one of the outputs; None where one of these is stored as it is.

    `name` gives the C++ name of a tensor or scalar.
    """
    return None if stored_as_it_is(equations, store) is not None else element(equations, store.value, name)


def reductions(equations: Sums, name: Callable[[str], str]) -> tuple[tuple[Reduction, ...], ...]:
    """What is reduced of the rows of the sums, round by round."""
    return tuple(
        tuple(
            Reduction(_reduced_name(op), f"base_ops::{op.function}::op<float>", IDENTITY[op.function],
                      element(equations, op.argument, name))
            for op in ops
        )
        for ops in equations.rounds
    )  # fmt: skip


def _reduced_name(op: Reduce) -> str:
    return local(op.result, {})


def element(equations: Sums, value: Value, name: Callable[[str], str], of_rows: bool = False) -> Epilogue:
    """What a value is made of, element by element; `of_rows`: row by row, so that one number is loaded for each."""
    known = dict[Value, str]()
    for total in equations.sums:
        known[total.result] = local(total.result, known)
    ops, rows = needed(equations.epilogue, value), list[RowValue]()
    read = {v for op in ops for v in reads(op)} | {value}
    for number, reduced in enumerate(equations.rounds):
        for each in reduced:
            known[each.result] = _reduced_name(each)
            if each.result in read:
                rows.append(RowValue(known[each.result], number))
    loads, lines = list[Loaded](), list[str]()
    for op in ops:
        match op:
            case Load(result=result, source=source):
                known[result] = local(result, known)
                loads.append(_loaded(equations, source, known[result], name, of_rows))
            case _:
                lines += _line(equations, op, known, name, Widths(ops))
    spans = (op.result.span for op in ops if op.result.span)  # type: ignore[union-attr]
    return Epilogue(
        tuple(known[s.result] for s in equations.sums),
        tuple(loads),
        tuple(rows),
        tuple(lines),
        known.get(value) or literal(0),
        helpers(functions(ops), HOPPER),
        tuple(dict.fromkeys(spans)),
    )


@dataclass(frozen=True)
class Scale:
    """A number of a tensor that a step's product is scaled by: for each row (`r`), each column (`c`), or for all."""

    name: str
    along: str  # "r", "c" or ""
    element: str


@dataclass(frozen=True)
class Scaling:
    """`float added(float SUM, float PRODUCT, float SCALE, ..., int row, int col, const globals &g)`: the sum behind."""

    sum: str
    product: str
    scales: tuple[Scale, ...]
    lines: tuple[str, ...]
    value: str
    helpers: tuple[str, ...]
    spans: tuple[Span, ...]


def scaling(equations: Sums, total: Sum, name: Callable[[str], str]) -> Scaling | None:
    """What equations make of a sum and a step's product before the next one; None where they add them.

    `name` as for `epilogue`.
    """
    if not total.scaled:
        return None
    known = dict[Value, str]()
    known[total.inside] = local(total.inside, known)
    known[total.product] = local(total.product, known)
    scales, lines = list[Scale](), list[str]()
    for op in total.scaled:
        match op:
            case Load(result=result, source=source):
                known[result] = local(result, known)
                along = "r" if equations.rows in source.axes else "c" if equations.cols in source.axes else ""
                scales.append(Scale(known[result], along, _scale(equations, source, name)))
            case _:
                lines += _line(equations, op, known, name, Widths(total.scaled))
    spans = (op.result.span for op in total.scaled if op.result.span)  # type: ignore[union-attr]
    return Scaling(
        known[total.inside], known[total.product], tuple(scales), tuple(lines), known[total.update],
        helpers(functions(total.scaled), HOPPER), tuple(dict.fromkeys(spans)),
    )  # fmt: skip


def _line(equations: Sums, op: Op, known: dict[Value, str], name: Callable[[str], str], widths: Widths) -> list[str]:
    """The C++ of an operation on one element."""
    match op:
        case Argument(result=result, scalar=scalar):
            known[result] = f"g.{name(scalar.name)}"
        case Coordinate(result=result, axis=axis):
            known[result] = {equations.rows: "row", equations.cols: "col"}.get(axis) or f"{cpp_name(axis.name)}_i"
        case _:
            return statements([op], known, HOPPER, widths)
    return []


def _scale(equations: Sums, source: Access, name: Callable[[str], str]) -> str:
    """An element at row `r` or column `c`, in step `k`; one for a whole tile by its first row and column."""

    def place(index: Index) -> str:
        if index.axis == equations.contraction:
            return "k" if index.divisor == equations.contraction.tile else f"k * K_STEP / {index.divisor}"
        first = {equations.rows: "row", equations.cols: "col"}.get(index.axis) if index.axis else None
        if first is None or index.extends:
            return "" if first is None else first[0]
        return f"{first} / {index.divisor}"

    return f"element_at(g.{name(source.tensor.name)}, {place_of(source, [place(i) for i in source.indices])})"


def stored_as_it_is(equations: Sums, store: Store) -> int | None:
    """The number of the sum that an output is; None where it is made of them."""
    return next((n for n, s in enumerate(equations.sums) if s.result == store.value), None)


def _loaded(equations: Sums, source: Access, result: str, name: Callable[[str], str], of_rows: bool = False) -> Loaded:
    tensor = f"g.{name(source.tensor.name)}"

    def at(col: str) -> str:
        place: dict[Axis | None, str] = {equations.rows: "r", equations.cols: col}
        return place_of(source, [place.get(i.axis, "") for i in source.indices])

    if of_rows:
        return Loaded(result, f"element_at({tensor}, {at('')})")
    if source.axes and source.axes[-1] == equations.cols:
        return Loaded(result, f"pair_at({tensor}, {at('c')})")
    if equations.cols in source.axes:
        return Loaded(result, f"{{element_at({tensor}, {at('c')}), element_at({tensor}, {at('c + 1')})}}")
    return Loaded(result, f"both(element_at({tensor}, {at('')}))")


def place_of(access: Access, tiled: Sequence[str]) -> str:
    """Batch, depth, row and column of an access, `tiled` along its tile's axes: what a `coord` is made of."""
    places = []
    for index, place in zip(access.indices, tiled, strict=True):
        if not place:
            place = str(index.at) if index.axis is None else f"{cpp_name(index.axis.name)}_i"
            place = f"{place} / {index.divisor}" if index.divisor != 1 else place
        places.append(place)
    return f"{{{', '.join(['0', '0', '0', *places][-4:])}}}"
