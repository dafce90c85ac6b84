"""Conditions on coordinates as C++ that holds for a whole tile: of each side its least and its largest number.

q >= j    ->    first of q's tile >= last of j's tile

Sides are integers, which elements compare, too, or numbers of f32 that all elements have the same of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tkgen.ir.equations import Constant, Map, Op, Value
from tkgen.ir.integers import Widths, whole_number

SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}

Range = tuple[str, str]  # the least and the largest of the integers that a value has in a tile, as C++


def conjuncts(predicate: Value, made: Mapping[Value, Op]) -> Iterator[Value]:
    """The predicates that all hold where this one does."""
    op = made[predicate]
    if isinstance(op, Map) and op.function == "and":
        for part in op.arguments:
            yield from conjuncts(part, made)
    else:
        yield predicate


def holds(
    predicate: Value, made: Mapping[Value, Op], place: Callable[[Op], Range | None], widths: Widths
) -> str | None:
    """C++ that is true where a predicate of coordinates holds for all elements of a tile; None for another predicate.

    `made` is what gives each value; `place` the range of what a back end knows, coordinates above all; `widths` says
    which take 64 bits.
    """
    op = made[predicate]
    if not isinstance(op, Map):
        return None
    if op.function == "and":
        parts = [holds(v, made, place, widths) for v in op.arguments]
        return None if None in parts else " && ".join(map(str, parts))
    if op.function not in SIGNS:
        return None
    one, other = (_range(v, made, place, widths) for v in op.arguments)
    if one is None or other is None:
        return None
    sign = SIGNS[op.function]
    return f"{one[1]} {sign} {other[0]}" if sign[0] == "<" else f"{one[0]} {sign} {other[1]}"


def _range(value: Value, made: Mapping[Value, Op], place: Callable[[Op], Range | None], widths: Widths) -> Range | None:
    match made[value]:
        case Constant(value=number):
            whole = whole_number(number)
            return None if whole is None else (str(whole), str(whole))
        case Map(function="add" | "sub" as function, arguments=(a, b)) as op:
            left, right = _range(a, made, place, widths), _range(b, made, place, widths)
            if left is None or right is None:
                return None
            if widths.first_wide(op):
                left = f"int64_t({left[0]})", f"int64_t({left[1]})"
            if function == "add":
                return f"{left[0]} + {right[0]}", f"{left[1]} + {right[1]}"
            return f"{left[0]} - ({right[1]})", f"{left[1]} - ({right[0]})"
        case op:
            return place(op)
