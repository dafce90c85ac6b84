"""Integers of equations: coordinates and lengths, and what `+`, `-` and `*` make of these and of integer constants.

They are exact: `q + 16777217 > j` compares integers, though f32 holds no such sum. `exact` says so of a kernel: it
gives integers the kind `COORDINATE`, and the constants beside them, up to the largest size. Where f32 computes the
same (`q + 1` of few places) a value stays a number. `Widths` says which integers do not fit 32 bits; those that do not
fit 64 are refused (E607).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import add, mul, sub
from typing import Any

from tkgen.ir.equations import (
    Access,
    Axis,
    Constant,
    Coordinate,
    Extent,
    Kernel,
    Kind,
    Load,
    Loop,
    Map,
    Op,
    Value,
    When,
    walk,
)
from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.tensors import Dim, Tensor

LARGEST = (1 << 31) - 1  # of a size, and of a whole number beside coordinates
LARGEST_LONG = (1 << 63) - 1
HELD = 1 << 24  # f32 holds all whole numbers up to this one
OVERHANG = 1 << 14  # elements that lanes may have beyond the end of what a tile covers

Range = tuple[int, int]  # the least and the largest


def whole_number(value: float) -> int | None:
    """The integer that a constant is beside coordinates; None for a number of f32."""
    if not math.isfinite(value) or value != int(value) or abs(value) > LARGEST:
        return None
    return None if value == 0 and math.copysign(1.0, value) < 0 else int(value)


def last_place(axis: Axis, most: int = LARGEST, over: int = OVERHANG) -> int:
    """The largest coordinate that any lane counts along an axis, or with none `over` the end the largest there is.

    `most` is the largest size that is not known.
    """
    size = most if axis.dim.size is None else axis.dim.size
    if axis.is_index:
        return max(size - 1, 0)
    tile = axis.tile or 1
    return min(-(-size // tile) * tile + over, LARGEST) if over else max(size - 1, 0)


@dataclass(frozen=True)
class _Ranges:
    """The ranges of integers, by the number of the value, for sizes up to `most` where they are not known."""

    of: dict[int, Range]
    placed: set[int]  # those that are made of coordinates or lengths

    @staticmethod
    def of_ops(ops: Iterable[Op], most: int, over: int = OVERHANG) -> _Ranges:
        found = _Ranges({}, set())
        for op in ops:
            if isinstance(op, Coordinate | Extent | Constant | Map):
                made = found.made(op, most, over)
                if made is not None:
                    found.of[op.result.number] = made
                    if isinstance(op, Coordinate | Extent) or (
                        isinstance(op, Map) and any(a.number in found.placed for a in op.arguments)
                    ):
                        found.placed.add(op.result.number)
        return found

    def made(self, op: Coordinate | Extent | Constant | Map, most: int, over: int) -> Range | None:
        match op:
            case Coordinate(axis=axis):
                return 0, last_place(axis, most, over)
            case Extent(axis=axis):
                return 0, _size(axis.dim, most)
            case Constant(value=value):
                number = whole_number(value)
                return None if number is None else (number, number)
        return self.of_map(op)

    def of_map(self, op: Map) -> Range | None:
        """Return the range of a sum, difference, product or opposite of integers, None of anything else."""
        ranges = [r for a in op.arguments if (r := self.of.get(a.number)) is not None]
        if op.function not in ("add", "sub", "mul", "neg") or len(ranges) < len(op.arguments):
            return None
        (low, high), (least, largest) = ranges[0], ranges[-1]
        match op.function:
            case "neg":
                found = -high, -low
            case "mul":
                corners = [a * b for a in (low, high) for b in (least, largest)]
                found = min(corners), max(corners)
            case "add":
                found = low + least, high + largest
            case _:
                found = low - largest, high - least
        numbers = all(a.number not in self.placed for a in op.arguments)
        if numbers and found == (0, 0) and op.function in ("mul", "neg"):
            return None  # of numbers it may be -0
        return found


def _size(dim: Dim, most: int) -> int:
    return most if dim.size is None else dim.size


def _beyond(found: Range, most: int) -> bool:
    return found[0] < -most or found[1] > most


# ---------------------------------------------------------------- what is exact


def exact(kernel: Kernel) -> Kernel:
    """The kernel with the kind of integers for what f32 would not compute as integers are computed."""
    ranges = _Ranges.of_ops(walk(kernel.body), LARGEST)
    made = {op.result.number: op for op in walk(kernel.body) if isinstance(op, Map | Constant | Coordinate | Extent)}
    wanted: set[int] = set()
    for op in walk(kernel.body):
        if isinstance(op, Map) and _as_integers(op, ranges):
            wanted |= _tree(op, made)
    if all(made[n].result.kind is not Kind.NUMBER for n in wanted):
        return kernel
    for op in walk(kernel.body):  # what integers alone make is one, too
        whole = isinstance(op, Map) and FUNCTIONS[op.function].whole and not FUNCTIONS[op.function].predicate
        if isinstance(op, Map) and whole and all(_is_integer(a, wanted, made) for a in op.arguments):
            wanted.add(op.result.number)
    last = max(v.number for op in walk(kernel.body) for v in _values(op))
    return _Exact(wanted, made, last).kernel(kernel)


def _as_integers(op: Map, ranges: _Ranges) -> bool:
    """True if f32 may give another result than integers: for it holds not all of them, or gives a zero a sign."""
    given = [ranges.of.get(a.number) for a in op.arguments]
    if not FUNCTIONS[op.function].whole or None in given or all(a.kind is Kind.COORDINATE for a in op.arguments):
        return False
    result = ranges.of.get(op.result.number)
    if not FUNCTIONS[op.function].predicate and result is None:
        return False
    placed = any(a.number in ranges.placed for a in op.arguments)
    every = [r for r in (*given, result) if r is not None]
    return (placed and op.function in ("mul", "neg")) or any(_beyond(r, HELD) for r in every)


def _tree(op: Map, made: dict[int, Any]) -> set[int]:
    """The numbers of all that an operation on integers is made of, and its own where it gives one."""
    found, ahead = set[int](), [a.number for a in op.arguments]
    if not FUNCTIONS[op.function].predicate:
        found.add(op.result.number)
    while ahead:
        number = ahead.pop()
        if number in found:
            continue
        found.add(number)
        made_by = made[number]
        if isinstance(made_by, Map):
            ahead += [a.number for a in made_by.arguments]
    return found


def _is_integer(value: Value, wanted: set[int], made: dict[int, Any]) -> bool:
    constant = isinstance(made.get(value.number), Constant)
    return value.kind is Kind.COORDINATE or (value.number in wanted and not constant)


def _values(op: Op) -> Iterator[Value]:
    match op:
        case Loop(carries=carries):
            yield from (v for c in carries for v in (c.inside, c.result))
        case When(chosen=chosen):
            yield from (c.result for c in chosen)
    if hasattr(op, "result"):
        yield op.result


class _Exact:
    """Values of the numbers `wanted` become integers; constants among them get a twin, for others may take them."""

    def __init__(self, wanted: set[int], made: dict[int, Any], last: int):
        self.made, self.wanted = made, wanted
        constants = sorted(n for n in wanted if isinstance(made[n], Constant) and made[n].result.kind is Kind.NUMBER)
        self.twins = {
            number: replace(made[number].result, number=last + 1 + at, kind=Kind.COORDINATE, name="")
            for at, number in enumerate(constants)
        }

    def kernel(self, kernel: Kernel) -> Kernel:
        return replace(kernel, body=self.body(kernel.body))

    def body(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        found: list[Op] = []
        for op in ops:
            if isinstance(op, Constant) and op.result.number in self.twins:
                found += [op, Constant(self.twins[op.result.number], op.value)]
            else:
                found.append(self.op(op))
        return tuple(found)

    def op(self, op: Op) -> Op:
        if isinstance(op, Loop | When):
            head = self.turned(replace(op, body=()))
            return replace(head, body=self.body(op.body))  # type: ignore[no-any-return]
        if isinstance(op, Map):
            integers = self._of_integers(op)
            given = tuple(self.twins.get(a.number, a) if integers else a for a in op.arguments)
            op = replace(op, arguments=given)
        return self.turned(op)  # type: ignore[no-any-return]

    def _of_integers(self, op: Map) -> bool:
        """Return True if it is one of those that take integers: all that it takes are such."""
        given = all(a.number in self.wanted or a.kind is Kind.COORDINATE for a in op.arguments)
        function = FUNCTIONS[op.function]
        return function.whole and given and (function.predicate or op.result.number in self.wanted)

    def turned(self, node: Any) -> Any:
        """A part of a kernel with values of the other kind."""
        if isinstance(node, Value):
            turned = node.number in self.wanted and node.number not in self.twins
            return replace(node, kind=Kind.COORDINATE) if turned else node
        if isinstance(node, tuple):
            return tuple(self.turned(part) for part in node)
        if not is_dataclass(node) or isinstance(node, type | Axis | Dim):
            return node
        return replace(node, **{f.name: self.turned(getattr(node, f.name)) for f in fields(node)})


# ---------------------------------------------------------------- how many bits they take


class Widths:
    """The integers of these operations that do not fit 32 bits, for sizes up to `most` where they are not known."""

    def __init__(self, ops: Iterable[Op], most: int = LARGEST):
        every = tuple(ops)
        self.ranges = _Ranges.of_ops(every, most)
        self.wide: set[int] = set()
        for op in every:
            if isinstance(op, Map) and op.result.kind is Kind.COORDINATE:
                made = self.ranges.of.get(op.result.number)
                if (made and _beyond(made, LARGEST)) or any(a.number in self.wide for a in op.arguments):
                    self.wide.add(op.result.number)

    def is_wide(self, value: Value) -> bool:
        """Return True if an integer takes 64 bits."""
        return value.number in self.wide

    def first_wide(self, op: Map) -> bool:
        """Return True if an operation takes 64 bits and none of its arguments has so many."""
        return self.is_wide(op.result) and not any(map(self.is_wide, op.arguments))


def rounded_as_numbers(ops: Iterable[Op]) -> set[int]:
    """The integers of these operations that f32 does not hold all of, by number."""
    ranges = _Ranges.of_ops(ops, LARGEST)
    return {number for number, found in ranges.of.items() if number in ranges.placed and _beyond(found, HELD)}


def largest_integers(ops: Iterable[Op]) -> dict[str, int]:
    """The largest magnitude of integers that these operations make, by how the spec writes them."""
    every, found = tuple(ops), dict[str, int]()
    ranges = _Ranges.of_ops(every, LARGEST, 0)
    for op in every:
        if isinstance(op, Coordinate | Map) and op.result.number in ranges.of and op.result.number in ranges.placed:
            text = op.axis.name if isinstance(op, Coordinate) else op.result.span.text if op.result.span else ""
            low, high = ranges.of[op.result.number]
            if text:
                found[text] = max(found.get(text, 0), -low, high)
    return found


def too_large(kernel: Kernel, most: int = LARGEST) -> Map | None:
    """The first operation on integers whose result 64 bits may not hold."""
    ranges = _Ranges.of_ops(walk(kernel.body), most)
    for op in walk(kernel.body):
        if isinstance(op, Map) and op.result.kind is Kind.COORDINATE:
            found = ranges.of.get(op.result.number)
            if found is not None and _beyond(found, LARGEST_LONG):
                return op
    return None


def op_range(op: Op, known: Mapping[Value, tuple[float, ...]]) -> tuple[float, ...] | None:
    """The ends of the integers that an operation can give; None where others are among them."""
    match op:
        case Load(source=Access(tensor=Tensor(dtype=dtype))) if dtype.whole:
            return tuple(map(float, dtype.range))
        case Constant(value=value) if value == round(value):
            return (value, value)
        case Map(function="add" | "sub" | "mul" as function, arguments=(a, b)) if a in known and b in known:
            meaning = {"add": add, "sub": sub, "mul": mul}[function]
            ends = [meaning(x, y) for x in known[a] for y in known[b]]
            return min(ends), max(ends)
    return None
