"""Reductions of a lane alone: along a short dimension that lies further out in memory than another axis of the tile.

c = colsum(W[PARTS, m, n])        ->        c = W[0, m, n] + W[1, m, n] + ...

Lanes have neighbours along n, so each has all that it sums, and nothing crosses lanes. So what belongs to each place
of such an axis is computed on its own, and the reduction is a chain of functions of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from math import inf

from tkgen.ir.equation_text import access_text
from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
    Carry,
    Constant,
    Convert,
    Coordinate,
    Index,
    Kernel,
    Kind,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Scan,
    Sort,
    Store,
    Value,
    When,
    reads,
    walk,
    writes,
)
from tkgen.ir.verifier import verify
from tkgen.schedule.row_form import RowError

MOST_PLACES = 32  # each is a value of its own: more than that do not fit the registers
CHAINED = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
BEFORE = {"max": -inf, "min": inf}  # where all elements are NaN, which these ignore


def unrolled(kernel: Kernel) -> Kernel:
    """The kernel without reductions along axes that each lane has for itself."""
    axes = {op.axis for op in walk(kernel.body) if isinstance(op, Reduce)}
    for axis in axes:
        if _fits(kernel, axis):
            kernel = verify(_without(kernel, axis), "unrolling")
    return kernel


def _fits(kernel: Kernel, axis: Axis) -> bool:
    """Return True if `axis` is short, no tensor has it innermost, and all that is stored has lost it."""
    if axis.kind is not AxisKind.WHOLE or not axis.dim.size or axis.dim.size > MOST_PLACES:
        return False
    for op in walk(kernel.body):
        if (
            isinstance(op, Loop | When | Product)
            or (isinstance(op, Scan | Sort) and axis in reads(op)[0].axes)
            or (isinstance(op, Store) and axis in op.target.axes)
        ):
            return False
        if isinstance(op, Load) and op.source.indices[-1].axis == axis:
            return False
    return True


def _without(kernel: Kernel, axis: Axis) -> Kernel:
    return without(kernel, axis, {}, numbers_after(kernel.body))


def numbers_after(body: tuple[Op, ...]) -> Iterator[int]:
    """Numbers of new values."""
    inside = (c.inside for op in walk(body) if isinstance(op, Loop) for c in op.carries)
    made = (v for op in walk(body) for v in writes(op))
    return count(1 + max((v.number for v in (*made, *inside)), default=0))


def without(
    kernel: Kernel, axis: Axis, at: dict[tuple[Value, int], Value], numbers: Iterator[int]
) -> Kernel:  # fmt: skip
    """The kernel without an axis: what belongs to each place of it is computed on its own. `at` has values that do."""
    body = tuple(_Unroller(axis, at, numbers).body(kernel.body))
    return replace(kernel, axes=tuple(a for a in kernel.axes if a != axis), body=body)


@dataclass
class _Unroller:
    """Operations at each place of `axis`; `at` has what stands for a value at a place."""

    axis: Axis
    at: dict[tuple[Value, int], Value]
    numbers: Iterator[int]

    @property
    def count(self) -> int:
        """The places of the axis."""
        assert self.axis.dim.size is not None
        return self.axis.dim.size

    def body(self, ops: tuple[Op, ...]) -> Iterator[Op]:
        """The operations in place of these."""
        for op in ops:
            if isinstance(op, Loop):
                carries = tuple(carry for c in op.carries for carry in self._carried(c))
                body = tuple(self.body(op.body))
                carries = tuple(replace(c, update=self._updated(c, op.carries)) for c in carries)
                yield replace(op, carries=carries, body=body)
            elif isinstance(op, Reduce) and op.axis == self.axis:
                yield from self._chain(op, [self.at[op.argument, i] for i in range(self.count)])
            elif isinstance(op, Scan) and op.axis == self.axis:
                yield from self._running(op)
            elif isinstance(op, Coordinate) and op.axis == self.axis:
                for i in range(self.count):
                    yield Constant(self._new(op.result, i, ()), float(i))
            elif isinstance(op, Store) and self.axis in op.target.axes:
                for i in range(self.count):
                    yield replace(op, target=self._access(op.target, i), value=self.at.get((op.value, i), op.value))
            elif isinstance(op, Load | Map | Convert | Reduce | Scan) and self.axis in op.result.axes:
                rest = tuple(a for a in op.result.axes if a != self.axis)
                for i in range(self.count):
                    self._new(op.result, i, rest)
                    yield self._copy(op, i)
            else:
                yield op

    def _new(self, value: Value, place: int, axes: tuple[Axis, ...]) -> Value:
        """The value at a place."""
        self.at[value, place] = replace(value, number=next(self.numbers), axes=axes)
        return self.at[value, place]

    def _carried(self, carry: Carry) -> Iterator[Carry]:
        """A carry for each place."""
        if self.axis not in carry.inside.axes:
            yield carry
            return
        rest = tuple(a for a in carry.inside.axes if a != self.axis)
        for i in range(self.count):
            initial = self.at.get((carry.initial, i), carry.initial)
            yield Carry(initial, self._new(carry.inside, i, rest), carry.update, self._new(carry.result, i, rest))

    def _updated(self, carry: Carry, before: tuple[Carry, ...]) -> Value:
        """The update of a carry, where it is that of a place of one `before`."""
        found = (self.at.get((c.update, i), c.update) for c in before for i in range(self.count)
                 if self.at.get((c.inside, i)) == carry.inside)  # fmt: skip
        return next(found, carry.update)

    def _access(self, access: Access, place: int) -> Access:
        """The access at one place of the axis. Raises RowError for an index that cannot be a number there."""
        if any(i.axis != self.axis and self.axis in i.axes for i in access.indices) or any(
            i.axis == self.axis and (i.through is not None or i.divisor != 1) for i in access.indices
        ):
            raise RowError(f"`{access_text(access)}` has a position computed from `{self.axis.name}`, of which each "
                           "place is on its own here", access.tensor.span,
                           f"use `{self.axis.name}` alone as an index, or move this to another kernel")  # fmt: skip
        indices = (Index(None, at=place) if i.axis == self.axis else i for i in access.indices)
        return Access(access.tensor, tuple(indices))

    def _copy(self, op: Load | Map | Convert | Reduce | Scan, place: int) -> Op:
        """The operation at one place of the axis."""
        result = self.at[op.result, place]
        match op:
            case Load(source=source):
                return Load(result, self._access(source, place))
            case Map(arguments=arguments):
                return replace(op, result=result, arguments=tuple(self.at.get((a, place), a) for a in arguments))
        return replace(op, result=result, argument=self.at.get((op.argument, place), op.argument))

    def _chain(self, op: Reduce, values: list[Value]) -> Iterator[Op]:
        """The reduction of values, from the first to the last; the last result is the reduction's own."""
        if op.function in BEFORE:
            values = [Value(next(self.numbers), (), "", Kind.NUMBER, span=op.result.span), *values]
            yield Constant(values[0], BEFORE[op.function])
        total = values[0]
        if len(values) == 1:  # a dimension of one place
            yield Convert(op.result, total)
        for n, value in enumerate(values[1:], 2):
            last = n == len(values)
            result = op.result
            if not last:
                result = Value(next(self.numbers), op.result.axes, "", Kind.NUMBER, span=op.result.span)
            yield Map(result, CHAINED[op.function], (total, value))
            total = result

    def _running(self, op: Scan) -> Iterator[Op]:
        """The running result at each place, from the one before."""
        rest = tuple(a for a in op.result.axes if a != self.axis)
        for i in range(self.count):
            value = self.at[op.argument, i]
            result = self._new(op.result, i, rest)
            if i or op.function in BEFORE:
                before = self.at[op.result, i - 1] if i else Value(next(self.numbers), (), "", Kind.NUMBER)
                if not i:
                    yield Constant(before, BEFORE[op.function])
                yield Map(result, CHAINED[op.function], (before, value))
            else:
                yield Convert(result, value)
