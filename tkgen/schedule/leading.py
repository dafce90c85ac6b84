"""The first elements in order, `topk(x, K)` and `argmax(x)`, as rounds of reductions: each finds one, and drops it.

    t = topk(x, K)      ->    m = rowmax(y)                        y = x, with NaN as +inf
    i = argtopk(x, K)         p = rowmin(where(y == m, d, inf))    d = positions; less `NAN` where it is NaN: first
                              y, d = -inf and inf where d == p     so what was taken is never found again

So of equal elements the lowest position comes first, and NaN is the greatest. Positions are integers that f32 holds.
Values at each of the K places are computed separately, without an axis (`tkgen.schedule.unrolled`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from math import inf

from tkgen.ir.equations import (
    Axis,
    Constant,
    Convert,
    Coordinate,
    Kernel,
    Kind,
    Loop,
    Map,
    Op,
    Reduce,
    Sort,
    Value,
    walk,
)
from tkgen.ir.verifier import verify
from tkgen.schedule.row_form import RowError
from tkgen.schedule.unrolled import numbers_after, without

MOST_ROUNDS = 64  # each takes two reductions; all results are in registers of each lane
NAN = 2.0**24  # positions are less, or f32 does not hold them


def leading(kernel: Kernel) -> Kernel:
    """The kernel with rounds in place of first elements.

    Raises:
        RowError: there are more than `MOST_ROUNDS`.
    """
    sorts = [op for op in walk(kernel.body) if isinstance(op, Sort)]
    axes = list(dict.fromkeys(op.first for op in sorts if op.first not in (None, op.axis)))
    found = [op for op in sorts if op.first != op.axis or op.axis in axes]
    if not found:
        return kernel
    for op in found:
        if not op.descending:
            raise RowError(f"the elements of `{op.axis.name}` are each on their own, and are sorted only with the "
                           "largest first", op.result.span, "write `descending`")  # fmt: skip
        if op.first is not None and (op.first.dim.size or 0) > MOST_ROUNDS:
            raise RowError(
                f"{op.first.dim.size} elements of `{op.first.name}` are found one after the other, and each takes two "
                f"reductions: at most {MOST_ROUNDS}", op.result.span,
                f"store to positions, which drops what does not fit: `Y[r, coordinate({op.axis.name})] = sort(x, "
                "descending)`; or find the least of these by halving an interval (see the cookbook on sampling)",
            )  # fmt: skip
    numbers = numbers_after(kernel.body)
    at: dict[tuple[Value, int], Value] = {}
    kernel = replace(kernel, body=tuple(_expanded(kernel.body, found, numbers, at)))
    for axis in axes:
        kernel = without(kernel, axis, at, numbers)
    return verify(kernel, "rounds")


def _expanded(
    ops: tuple[Op, ...], found: Collection[Sort], numbers: Iterator[int], at: dict[tuple[Value, int], Value]
) -> Iterator[Op]:  # fmt: skip
    """The operations with rounds for those of `found`; values at places of the new axes go to `at`."""
    known: dict[tuple[Value, Axis, bool], _Rounds] = {}
    for op in ops:
        if isinstance(op, Loop):
            yield replace(op, body=tuple(_expanded(op.body, found, numbers, at)))
        elif isinstance(op, Sort) and op in found:
            rounds = known.setdefault((op.argument, op.axis, op.descending), _Rounds(op, numbers))
            if op.first is None:
                rounds.find(op, 0, op.result)
            else:
                rest = tuple(a for a in op.result.axes if a != op.first)
                for n in range(op.first.dim.size or 0):
                    at[op.result, n] = replace(op.result, number=next(numbers), axes=rest)
                    rounds.find(op, n, at[op.result, n])
            yield from rounds.ops
            rounds.ops.clear()
        else:
            yield op


@dataclass
class _Rounds:
    """The rounds of one tile, as many as are asked for; `ops` are those that are not in the body yet."""

    of: Sort
    numbers: Iterator[int]
    ops: list[Op] = field(default_factory=list)
    found: list[tuple[Value, Value]] = field(default_factory=list)  # number and position, as in `y` and `d`

    def find(self, op: Sort, n: int, result: Value) -> None:
        """The result of a sort at place n."""
        while len(self.found) <= n:
            self._round()
        number, position = self.found[n]
        nan = self._map("lt", (position, self._constant(0.0)), Kind.PREDICATE)
        if op.function == "positions":
            found = position, self._map("add", (position, self._constant(NAN)))
        else:  # where it is NaN, `number` is inf
            found = number, self._map("sub", (number, number))
        self.ops.append(Map(result, "where", (nan, found[1], found[0])))

    def _round(self) -> None:
        """One more element, after which `y` and `d` lack it."""
        least, most = self._constant(-inf), self._constant(inf)
        axis, rest = self.of.axis, tuple(a for a in self.of.argument.axes if a != self.of.axis)
        if not self.found:
            self.y, self.d = self._begun()
        else:
            taken = self._map("eq", (self.d, self.found[-1][1]), Kind.PREDICATE)
            self.y = self._map("where", (taken, least, self.y), name="rest")
            self.d = self._map("where", (taken, most, self.d), name="rest_at")
        number, position = self._value(rest, name="top"), self._value(rest, name="top_at")
        self.ops.append(Reduce(number, "max", axis, self.y))
        mine = self._map("eq", (self.y, number), Kind.PREDICATE)
        self.ops.append(Reduce(position, "min", axis, self._map("where", (mine, self.d, most))))
        self.found.append((number, position))

    def _begun(self) -> tuple[Value, Value]:
        """The numbers and positions before the first round."""
        x, axis = self.of.argument, self.of.axis
        place = Value(next(self.numbers), (axis,), "", Kind.COORDINATE)
        position = self._value((axis,))
        self.ops += [Coordinate(place, axis), Convert(position, place)]
        number = self._map("eq", (x, x), Kind.PREDICATE)
        before = self._map("sub", (position, self._constant(NAN)))
        y = self._map("where", (number, x, self._constant(inf)), name="rest")
        return y, self._map("where", (number, position, before), name="rest_at")

    def _value(self, axes: tuple[Axis, ...], kind: Kind = Kind.NUMBER, name: str = "") -> Value:
        return Value(next(self.numbers), axes, name, kind, span=self.of.result.span)

    def _constant(self, number: float) -> Value:
        result = self._value(())
        self.ops.append(Constant(result, number))
        return result

    def _map(
        self, function: str, arguments: tuple[Value, ...], kind: Kind = Kind.NUMBER, name: str = ""
    ) -> Value:  # fmt: skip
        axes = tuple(dict.fromkeys(a for value in arguments for a in value.axes))
        result = self._value(axes, kind, name)
        self.ops.append(Map(result, function, arguments))
        return result
