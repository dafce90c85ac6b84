"""Loops whose last tile hangs over the end of its axis: what lies beyond takes no part in reductions and products.

    l = l + rowsum(p)          ->        l = l + rowsum(where(j < KEYS, p, 0))
    o = o + bf16(p) @ V[j]     ->        o = o + bf16(where(j < KEYS, p, 0)) @ V[j]

The equations say that already (`tkgen.ir.equations`: a load gives zero beyond the end, a reduction leaves it out). In
registers there is something beyond the end, so it is exchanged where it would count: for what changes no sum, maximum
or minimum. A factor from memory is zero there, but 0 x is 0 for numbers alone: so the other factor, where it is
computed, is made zero, too.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from tkgen.ir.equations import (
    Axis,
    Constant,
    Convert,
    Coordinate,
    Extent,
    Kernel,
    Kind,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Value,
    walk,
    writes,
)
from tkgen.ir.integers import HELD, OVERHANG
from tkgen.ir.substitution import Named, substituted
from tkgen.ir.verifier import verify

NEUTRAL = {"sum": 0.0, "max": -inf, "min": inf}


def masked(kernel: Kernel, loop: Loop, along: Axis | None = None) -> Kernel:
    """The kernel with what lies beyond the end of the axis of `loop`, one of its operations, left out; or `along`."""
    axis = along or loop.axis
    if axis.within is None and axis.dim.size is not None and axis.dim.size % (axis.tile or 1) == 0:
        return kernel
    made = _Masked(kernel, axis)
    factors = {v for op in loop.body if isinstance(op, Product) and op.axis == axis for v in (op.left, op.right)}
    for op in loop.body:
        op = substituted(op, made.others)
        if isinstance(op, Reduce) and op.axis == axis:
            op = replace(op, argument=made.inside(op.argument, NEUTRAL[op.function]))
        elif isinstance(op, Convert) and op.result in factors:
            op = replace(op, argument=made.inside(op.argument, 0.0))
        made.body.append(op)
    carries = substituted(loop.carries, made.others)
    ops = tuple(replace(loop, carries=carries, body=tuple(made.body)) if op is loop else op for op in kernel.body)
    return verify(replace(kernel, body=ops), "masking")


def masked_behind(kernel: Kernel, loop: Loop, axis: Axis) -> Kernel:
    """The kernel with what lies beyond the end of `axis` left out of reductions after `loop`."""
    made, behind = _Masked(kernel, axis), kernel.body.index(loop) + 1
    for op in kernel.body[behind:]:
        op = substituted(op, made.others)
        if isinstance(op, Reduce) and op.axis == axis:
            op = replace(op, argument=made.inside(op.argument, NEUTRAL[op.function]))
        made.body.append(op)
    return verify(replace(kernel, body=(*kernel.body[:behind], *made.body)), "masking")


class _Masked:
    """Operations with new values, numbered after the kernel's own.

    What a value is beyond the end means nothing, so after the place where it is exchanged all take the new one.
    """

    def __init__(self, kernel: Kernel, axis: Axis):
        self.axis = axis
        self.body: list[Op] = []
        self.others: dict[Named, Named] = {}
        self.fillers: dict[Value, float] = {}
        self.last = max(v.number for op in walk(kernel.body) for v in (*writes(op), *_carried(op)))

    def _new(self, axes: tuple[Axis, ...], kind: Kind = Kind.NUMBER) -> Value:
        self.last += 1
        return Value(self.last, axes, kind=kind)

    def inside(self, value: Value, filler: float) -> Value:
        """`value` within the axis' extent, `filler` beyond."""
        if self.fillers.get(value) == filler:
            return value
        place, there = self._new((self.axis,), Kind.COORDINATE), self._new((self.axis,), Kind.PREDICATE)
        end, other, result = self._end(), self._new(()), replace(self._new(value.axes), span=value.span)
        self.body += [
            Coordinate(place, self.axis),
            end,
            Map(there, "lt", (place, end.result)),
            Constant(other, filler),
            Map(result, "where", (there, value, other)),
        ]
        self.others = {k: result if v == value else v for k, v in self.others.items()} | {value: result}
        self.fillers[result] = filler
        return result

    def _end(self) -> Constant | Extent:
        """Return the op that gives the length of the axis."""
        if self.axis.dim.size is None or self.axis.within is not None:
            return Extent(self._new((), Kind.COORDINATE), self.axis)
        kind = Kind.NUMBER if self.axis.dim.size + OVERHANG <= HELD else Kind.COORDINATE
        return Constant(self._new((), kind), float(self.axis.dim.size))


def _carried(op: Op) -> tuple[Value, ...]:
    return tuple(c.inside for c in op.carries) if isinstance(op, Loop) else ()
