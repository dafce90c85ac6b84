"""What becomes of the sums, element by element: equations as CUDA C++, in a function of a sum and its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tkgen.backends.cdna.lower.elements import functions, literal, local, statements
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.ir.equations import Access, Argument, Axis, Coordinate, Load, Store, Value
from tkgen.ir.functions import HOPPER, helpers
from tkgen.ir.products import Sums, needed
from tkgen.source import Span


@dataclass(frozen=True)
class Loaded:
    """What is read of a tensor beside two neighbouring sums, those at row `r` and columns `c` and `c + 1`: a float2."""

    name: str
    pair: str


@dataclass(frozen=True)
class Epilogue:
    """`float element(float SUM, ..., float LOADED, ..., int row, int col, const globals &g)` and what it needs."""

    sums: tuple[str, ...]
    loads: tuple[Loaded, ...]
    lines: tuple[str, ...]
    value: str
    helpers: tuple[str, ...]
    spans: tuple[Span, ...]


def epilogue(equations: Sums, store: Store, name: Callable[[str], str]) -> Epilogue | None:
    """What equations make of their sums for one of the outputs; None where one of these is stored as it is.

    `name` gives the C++ name of a tensor or scalar.
    """
    if stored_as_it_is(equations, store) is not None:
        return None
    known = dict[Value, str]()
    for total in equations.sums:
        known[total.result] = local(total.result, known)
    loads, lines = list[Loaded](), list[str]()
    ops = needed(equations.epilogue, store.value)
    for op in ops:
        match op:
            case Load(result=result, source=source):
                known[result] = local(result, known)
                loads.append(_loaded(equations, source, known[result], name))
            case Argument(result=result, scalar=scalar):
                known[result] = f"g.{name(scalar.name)}"
            case Coordinate(result=result, axis=axis):
                known[result] = {equations.rows: "row", equations.cols: "col"}.get(axis) or f"{cpp_name(axis.name)}_i"
            case _:
                lines += statements([op], known, HOPPER)
    spans = (op.result.span for op in ops if op.result.span)  # type: ignore[union-attr]
    return Epilogue(
        tuple(known[s.result] for s in equations.sums),
        tuple(loads),
        tuple(lines),
        known.get(store.value) or literal(0),
        helpers(functions(ops), HOPPER),
        tuple(dict.fromkeys(spans)),
    )


def stored_as_it_is(equations: Sums, store: Store) -> int | None:
    """The number of the sum that an output is; None where it is made of them."""
    return next((n for n, s in enumerate(equations.sums) if s.result == store.value), None)


def _loaded(equations: Sums, source: Access, result: str, name: Callable[[str], str]) -> Loaded:
    tensor = f"g.{name(source.tensor.name)}"

    def at(col: str) -> str:
        place: dict[Axis | None, str] = {equations.rows: "r", equations.cols: col}
        return place_of(source, [place.get(i.axis, "") for i in source.indices])

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
