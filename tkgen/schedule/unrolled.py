"""Reductions of a lane alone: along a short dimension that lies further out in memory than another axis of the tile.

c = colsum(W[PARTS, m, n])        ->        c = W[0, m, n] + W[1, m, n] + ...

Lanes have neighbours along n, so each has all that it sums, and nothing crosses lanes. So what belongs to each place
of such an axis is computed on its own, and the reduction is a chain of functions of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
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
    Store,
    Value,
    When,
    walk,
    writes,
)
from tkgen.ir.verifier import verify

MOST_PLACES = 32  # each is a value of its own: more than that do not fit the registers
CHAINED = {"sum": "add", "max": "max", "min": "min"}


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
            or (isinstance(op, Scan) and axis in op.result.axes)
            or (isinstance(op, Store) and axis in op.target.axes)
        ):
            return False
        if isinstance(op, Load) and op.source.indices[-1].axis == axis:
            return False
    return True


def _without(kernel: Kernel, axis: Axis) -> Kernel:
    assert axis.dim.size is not None
    numbers = count(1 + max((v.number for op in walk(kernel.body) for v in writes(op)), default=0))
    at: dict[tuple[Value, int], Value] = {}  # what stands for a value at a place of the axis
    body: list[Op] = []
    for op in kernel.body:
        if isinstance(op, Reduce) and op.axis == axis:
            body += _chain(op, [at[op.argument, i] for i in range(axis.dim.size)], numbers)
        elif isinstance(op, Coordinate) and op.axis == axis:
            for i in range(axis.dim.size):
                at[op.result, i] = replace(op.result, number=next(numbers), axes=())
                body.append(Constant(at[op.result, i], float(i)))
        elif isinstance(op, Load | Map | Convert | Reduce) and axis in op.result.axes:
            rest = tuple(a for a in op.result.axes if a != axis)
            for i in range(axis.dim.size):
                at[op.result, i] = replace(op.result, number=next(numbers), axes=rest)
                body.append(_copy(op, axis, i, at))
        else:
            body.append(op)
    return replace(kernel, axes=tuple(a for a in kernel.axes if a != axis), body=tuple(body))


def _copy(op: Load | Map | Convert | Reduce, axis: Axis, place: int, at: dict[tuple[Value, int], Value]) -> Op:
    """The operation at one place of the axis."""
    result = at[op.result, place]
    match op:
        case Load(source=source):
            indices = tuple(Index(None, at=place) if i.axis == axis else i for i in source.indices)
            return Load(result, Access(source.tensor, indices))
        case Map(arguments=arguments):
            return replace(op, result=result, arguments=tuple(at.get((a, place), a) for a in arguments))
    return replace(op, result=result, argument=at.get((op.argument, place), op.argument))


def _chain(op: Reduce, values: list[Value], numbers: Iterator[int]) -> Iterator[Op]:
    """The reduction of values, from the first to the last; the last result is the reduction's own."""
    total = values[0]
    if len(values) == 1:  # a dimension of one place
        yield Convert(op.result, total)
    for n, value in enumerate(values[1:], 2):
        last = n == len(values)
        result = op.result if last else Value(next(numbers), op.result.axes, "", Kind.NUMBER, span=op.result.span)
        yield Map(result, CHAINED[op.function], (total, value))
        total = result
