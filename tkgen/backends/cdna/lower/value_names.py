"""Names in C++ for values to which a spec gives none: after the tensors and values that they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tkgen.backends.cdna.lower.places import BlockPlaces, Names
from tkgen.ir.equations import Convert, Coordinate, Load, Map, Op, Product, Reduce, Scan, Sort, Store, Value

NEXT = "_next"  # behind the name of what an iteration makes for the next one
OF_VALUE = ("_e", "_d", "_r", NEXT)
LONGEST = 24  # letters of a name that is made of others


def name_values(
    first: Iterable[Value], made: Mapping[Value, Op], ops: Iterable[Op], names: Names, places: BlockPlaces
) -> dict[Value, str]:
    """A name for each value of `made`, which has the operation of `ops` that defines it; `first` choose first."""
    stored = {op.value: f"{op.target.tensor.name}_tile" for op in ops if isinstance(op, Store)}
    found = dict[Value, str]()
    for value in dict.fromkeys([*first, *made]):
        wish = value.name or stored.get(value) or made_of(value, made)
        op = made[value]
        if isinstance(op, Load) and not value.name and op.source in places.base:
            wish = f"{places.base[op.source]}_r"
            names.used.discard(wish)  # kept for this access
        found[value] = names.new(wish, OF_VALUE)
    return found


def made_of(value: Value, made: Mapping[Value, Op]) -> str:
    """The name of a value, or one made of the names of what it is computed from; its number where that is long."""
    found = _made_of(value, made)
    return found if value.name or len(found) <= LONGEST else f"v{value.number}"


def _made_of(value: Value, made: Mapping[Value, Op]) -> str:
    if value.name:
        return value.name
    match made[value]:
        case Load(source=source):
            return source.tensor.name
        case Coordinate(axis=axis):
            return axis.name
        case Product(left=left, right=right):
            return f"dot_{_made_of(left, made)}_{_made_of(right, made)}"
        case Scan(function=function, argument=argument):
            return f"cum{function}_{_made_of(argument, made)}"
        case Sort(function=function, argument=argument):
            return f"sorted_{function}_{_made_of(argument, made)}"
        case Reduce(function=function, argument=argument):
            return f"{function}_{_made_of(argument, made)}"
        case Convert(argument=argument, result=result):
            return f"{_made_of(argument, made)}_{result.dtype.suffix}"
        case Map(function=function, arguments=arguments):
            return "_".join([function, *(_made_of(v, made) for v in arguments[:2] if v.name or v.axes)])
    return f"v{value.number}"
