"""What equations make of the sums of products, tile by tile: the statements that compute and store it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tkgen.ir.equations import Access, Argument, Axis, Coordinate, Load, Op, Store, Value, reads
from tkgen.ir.products import Sums
from tkgen.lower.elements import functions, literal, local, statements
from tkgen.lower.model import Loop, Statement
from tkgen.lower.names import cpp_name


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
    how: str,
    loops: tuple[Loop, ...],
    origin: Callable[[Store], str],
) -> tuple[list[Statement], frozenset[str]]:
    """A statement for each store, and the helpers that they call.

    `sums` has the C++ of each sum's register tile, `matrix` gives that of what is accessed, `how` says how a tile goes
    to memory (whole, masked, add). The last store's tile is computed in the place of the first sum.
    """
    result, helpers = [], set[str]()
    stores = equations.stores
    for store in stores:
        last = store is stores[-1]
        args, used = _stored(equations, store, sums, place, matrix)
        tile = next(iter(sums.values())) if last else f"{cpp_name(store.target.tensor.name)}_tile"
        args |= {"tile": tile, "type": "" if last else tile_type, "how": how}
        result.append(Statement("equations", args, loops, origin(store)))
        helpers |= used
    helpers |= {"add": {"atomic_store"}, "masked": {"masked_store"}, "whole": set()}[how]
    return result, frozenset(helpers)


def _stored(
    equations: Sums, store: Store, sums: Mapping[str, str], place: Place, matrix: Callable[[Access], str]
) -> tuple[dict[str, object], frozenset[str]]:
    """The arguments of the statement that computes and stores one value, and the helpers that it calls."""
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
    identity = not lines and given and not buffers
    args: dict[str, object] = {
        "tensor": matrix(store.target),
        "row": place.row,
        "col": place.col,
        "buffers": buffers,
        "parameters": parameters,
        "sums": given,
        "lines": lines,
        "value": value,
        "identity": identity and given[0] == next(iter(sums.values())),
    }
    return args, frozenset(helpers | functions(ops)) if not args["identity"] else frozenset()


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
