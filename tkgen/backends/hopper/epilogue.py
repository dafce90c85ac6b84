"""Epilogue of the sums, element by element: equations as CUDA C++, in a function of a sum and its position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tkgen.backends.cdna.lower.elements import INDENT, functions, literal, local, statements
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.origins import within
from tkgen.ir.equations import Access, Argument, Axis, Coordinate, Index, Load, Op, Reduce, Store, Value, reads, writes
from tkgen.ir.functions import HOPPER, helpers
from tkgen.ir.integers import Widths
from tkgen.ir.products import Sum, Sums, needed
from tkgen.source import Span


@dataclass(frozen=True)
class Loaded:
    """Values loaded for two neighbouring sums, those at row `r` and columns `c` and `c + 1`: a float2."""

    name: str
    pair: str


@dataclass(frozen=True)
class Element:
    """Expression of an element as a function of elements of sums, of loaded values, of reductions of its row.

    Reductions of its column are loaded, but where there is one number of each row, of each column, or of all: there
    `rows` has them, too. `given` is the C++ of what each of these is in.
    """

    sums: tuple[str, ...]
    loads: tuple[Loaded, ...]
    rows: tuple[str, ...]
    lines: tuple[str, ...]
    value: str
    helpers: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    given: tuple[str, ...] = ()

    @classmethod
    def of_sum(cls, number: int, sums: Sequence[str]) -> Element:
        """One of the sums as it is."""
        return cls(tuple(sums), (), (), (), sums[number])


@dataclass(frozen=True)
class Reduction:
    """Reduction of the sums: `element` of each, by an operation of ThunderKittens, from `start` on.

    By rows, or by `columns`.
    """

    name: str
    operation: str
    start: str
    element: Element
    columns: bool = False
    span: Span | None = None

    @property
    def parts(self) -> str:
        """The C++ of what each warp makes of its rows of each column."""
        return f"{self.name}_parts"


IDENTITY = {"sum": "0.0f", "max": "-INFINITY", "min": "INFINITY"}


def element_function(parameters: Sequence[str]) -> str:
    """The head of a function of an element: of its row and column, and of numbers."""
    return f"[&]({', '.join(['int row', 'int col', *(f'float {p}' for p in parameters)])})"


def function(head: str, made: Element | Scaling, remark: str, end: str) -> Iterator[str]:
    """A statement with a function whose head ends `head`, and which returns what is made; `end` is written after it."""
    yield f"{head} {{{remark}"
    yield from (INDENT + line for line in made.lines)
    yield f"{INDENT}return {made.value};"
    yield f"}}{end}"


def of_all_warps(name: str) -> str:
    """The C++ of what all warps of a block reduce of each column, where a value has this name."""
    return f"{name}_columns"


def reductions(
    equations: Sums, rounds: Sequence[Sequence[Reduce]], name: Callable[[str], str]
) -> tuple[tuple[Reduction, ...], ...]:
    """Reductions of the sums, in these rounds; `name` gives the C++ name of a tensor or scalar."""
    names = _given(equations)
    return tuple(
        tuple(
            Reduction(names[op.result], f"base_ops::{op.function}", IDENTITY[op.function],
                      element(equations, op.argument, name), op.axis == equations.rows, op.result.span)
            for op in ops
        )
        for ops in rounds
    )  # fmt: skip


def _given(equations: Sums) -> dict[Value, str]:
    """The names of sums, and of what is reduced of them."""
    known = dict[Value, str]()
    for value in (*(s.result for s in equations.sums), *(op.result for ops in equations.rounds for op in ops)):
        known[value] = local(value, known)
    return known


def element(
    equations: Sums, value: Value, name: Callable[[str], str], axes: tuple[Axis, ...] | None = None
) -> Element:  # fmt: skip
    """The expression of a value, element by element; or, with `axes`, value by value along them, each loaded once."""
    known = _given(equations)
    ops = needed(equations.epilogue, value)
    read = {v for op in ops for v in reads(op)} | {value}
    reduced = [op for ops in equations.rounds for op in ops if op.result in read]
    loads, lines = list[Loaded](), list[str]()
    parameters = dict[str, str]()
    for reduce in reduced:
        reduction, of_columns = known[reduce.result], reduce.axis == equations.rows
        if axes is None and of_columns:
            place = f"{of_all_warps(reduction)}, c - tile_col * BLOCK_COLS"
            loads.append(Loaded(reduction, f"tk::columns_at({place})"))
        else:
            parameters[reduction] = of_all_warps(reduction) if of_columns else reduction
    for op in ops:
        match op:
            case Load(result=result, source=source):
                known[result] = local(result, known)
                loads.append(_loaded(equations, source, known[result], name, axes is not None))
            case _:
                lines += within(writes(op)[0].span, _line(equations, op, known, name, Widths(ops)))
    spans = (op.result.span for op in ops if op.result.span)  # type: ignore[union-attr]
    return Element(
        tuple(known[s.result] for s in equations.sums),
        tuple(loads),
        tuple(parameters),
        tuple(lines),
        known.get(value) or literal(0),
        helpers(functions(ops), HOPPER),
        tuple(dict.fromkeys(spans)),
        tuple(parameters.values()),
    )


@dataclass(frozen=True)
class Scale:
    """A number of a tensor that a step's product is scaled by, of rows, columns or the tile; how step `k` loads it."""

    name: str
    type: str
    loaded: str


@dataclass(frozen=True)
class Scaling:
    """New value of a sum as a function of the sum, of a step's product and of the scales of that product."""

    sum: str
    product: str
    scales: tuple[Scale, ...]
    lines: tuple[str, ...]
    value: str
    helpers: tuple[str, ...]
    spans: tuple[Span, ...]


def scaling(equations: Sums, total: Sum, name: Callable[[str], str]) -> Scaling | None:
    """The equations' new value of a sum from the sum and a step's product; None where they add the two.

    `name` gives the C++ name of a tensor or scalar.
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
                number = _scale(equations, source, name)
                kind = "float"
                if equations.rows in source.axes:
                    kind, number = "tk::row_values", f"tk::load_rows(row, [&](int r) {{ return {number}; }})"
                elif equations.cols in source.axes:
                    load = f"[&](int c) {{ return {number}; }}"
                    kind, number = "tk::col_values<BLOCK_COLS>", f"tk::load_cols<BLOCK_COLS>(col, {load})"
                scales.append(Scale(known[result], kind, number))
            case _:
                lines += within(writes(op)[0].span, _line(equations, op, known, name, Widths(total.scaled)))
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

    return f"tk::element_at(g.{name(source.tensor.name)}, {place_of(source, [place(i) for i in source.indices])})"


def stored_as_it_is(equations: Sums, store: Store) -> int | None:
    """The number of the sum that an output is; None where it is made of them."""
    return next((n for n, s in enumerate(equations.sums) if s.result == store.value), None)


def _loaded(equations: Sums, source: Access, result: str, name: Callable[[str], str], single: bool = False) -> Loaded:
    tensor = f"g.{name(source.tensor.name)}"

    def at(col: str) -> str:
        place: dict[Axis | None, str] = {equations.rows: "row" if single else "r", equations.cols: col}
        return place_of(source, [place.get(i.axis, "") for i in source.indices])

    if single:
        return Loaded(result, f"tk::element_at({tensor}, {at('col' if equations.cols in source.axes else '')})")
    if source.axes and source.axes[-1] == equations.cols and not (source.tensor.dims[-1].size or 0) % 2:
        return Loaded(result, f"tk::pair_at({tensor}, {at('c')})")
    if equations.cols in source.axes:
        return Loaded(result, f"{{tk::element_at({tensor}, {at('c')}), tk::element_at({tensor}, {at('c + 1')})}}")
    return Loaded(result, f"tk::both(tk::element_at({tensor}, {at('')}))")


def place_of(access: Access, tiled: Sequence[str]) -> str:
    """Batch, depth, row and column of an access, `tiled` along its tile's axes: what a `coord` is made of."""
    places = []
    for index, place in zip(access.indices, tiled, strict=True):
        if not place:
            place = str(index.at) if index.axis is None else f"{cpp_name(index.axis.name)}_i"
            place = f"{place} / {index.divisor}" if index.divisor != 1 else place
        places.append(place)
    return f"{{{', '.join(['0', '0', '0', *places][-4:])}}}"
