"""What equations make of the sums of products, tile by tile: the statements that compute and store it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tkgen.backends.cdna.lower.elements import functions, literal, local, statements
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.origins import Origins
from tkgen.backends.cdna.lower.statements import Combine, How, Loop, Statement
from tkgen.ir.equations import Access, Argument, Axis, Coordinate, Load, Op, Store, Value, reads
from tkgen.ir.products import Sums


@dataclass(frozen=True)
class Place:
    """A tile of the output: C++ of its tile row and column, elements of a tile, C++ of its batch and depth."""

    row: str
    col: str
    shape: tuple[int, int]


def epilogue(
    equations: Sums,
    sums: Mapping[str, str],
    place: Place,
    matrix: Callable[[Access], str],
    tile_type: str,
    how: How,
    loops: tuple[Loop, ...],
    origin: Callable[..., Origins],
) -> tuple[list[Statement], frozenset[str]]:
    """A statement for each store, and the helpers that they call.

    `sums` has the C++ of each sum's register tile, `matrix` gives that of what is accessed, `how` says how a tile goes
    to memory (whole, masked, add), `origin` names the places of spans. The last store's tile is computed in the place
    of the first sum.
    """
    result, helpers = [], set[str]()
    stores = equations.stores
    for store in stores:
        last = store is stores[-1]
        made, used = _stored(equations, store, sums, place, matrix, how)
        if not last and not made.identity:
            made = replace(made, tile=f"{cpp_name(store.target.tensor.name)}_tile", type=tile_type)
        spans = (op.result.span for op in _needed(equations.epilogue, store.value))  # type: ignore[union-attr]
        result.append(Statement(made, loops, origin(store.span, *spans)))
        helpers |= used
    helpers |= {"add": {"atomic_store"}, "masked": {"masked_store"}, "whole": set()}[how]
    return result, frozenset(helpers)


def _stored(
    equations: Sums, store: Store, sums: Mapping[str, str], place: Place, matrix: Callable[[Access], str], how: How
) -> tuple[Combine, frozenset[str]]:
    """What computes one value in the place of the first sum and stores it, and the helpers that it calls."""
    ops = _needed(equations.epilogue, store.value)
    known: dict[Value, str] = {}
    parameters, given = [], []
    for s in equations.sums:
        if any(s.result in reads(op) for op in ops) or store.value == s.result:
            known[s.result] = local(s.result, known)
            parameters.append(f"float {known[s.result]}")
            given.append(sums[s.name])
    buffers, lines, helpers = [], list[str](), {"combine"}
    for op in ops:
        match op:
            case Load(result=result, source=source):
                known[result] = local(result, known)
                tensor, axes = matrix(source), source.axes
                at = [_coordinate(equations, axis) for axis in axes]
                if len(axes) == 2:
                    first = _first(equations, axes[0], place)
                    buffers.append(f"const auto {known[result]}_rows = rows_from({tensor}, {first});")
                    value = f"element_of({tensor}, {known[result]}_rows, {first}, {at[0]}, {at[1]})"
                    helpers |= {"element_of", "masked_store"}
                else:
                    value = f"element({tensor}, {at[0] if at else '0'})"
                    helpers.add("bias")
                lines.append(f"const float {known[result]} = {value};")
            case Argument(result=result, scalar=scalar):
                known[result] = f"g.{cpp_name(scalar.name)}"
            case Coordinate(result=result, axis=axis):
                known[result] = _coordinate(equations, axis)
            case _:
                lines += statements([op], known)
    value = known.get(store.value) or literal(0)
    identity = any(store.value == s.result for s in equations.sums)  # a sum is stored from where it is
    tile = given[0] if identity else next(iter(sums.values()))
    made = Combine(
        tensor=matrix(store.target),
        tile=tile,
        type="",
        row=place.row,
        col=place.col,
        buffers=tuple(buffers),
        parameters=(*(f"int {name}" if _names(name, lines) else "int" for name in ("row", "col")), *parameters),
        sums=tuple(given),
        lines=tuple(lines),
        value=value,
        identity=identity,
        how=how,
    )
    return made, frozenset(helpers | functions(ops)) if not identity else frozenset()


def _names(name: str, lines: list[str]) -> bool:
    return any(re.search(rf"\b{name}\b", line) for line in lines)


def _needed(ops: tuple[Op, ...], value: Value) -> list[Op]:
    """The operations that `value` is made of, in order."""
    wanted, kept = {value}, list[Op]()
    for op in reversed(ops):
        if not isinstance(op, Store) and op.result in wanted:  # type: ignore[union-attr]
            wanted.update(reads(op))
            kept.append(op)
    return kept[::-1]


def _coordinate(equations: Sums, axis: Axis) -> str:
    return {equations.rows: "row", equations.cols: "col"}[axis]


def _first(equations: Sums, axis: Axis, place: Place) -> str:
    """The first element of the tile along an axis."""
    tile, size = (place.row, place.shape[0]) if axis == equations.rows else (place.col, place.shape[1])
    return f"{tile if tile.isidentifier() else f'({tile})'} * {size}"
