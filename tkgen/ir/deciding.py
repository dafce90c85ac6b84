"""Conditions of whole tiles, as choices that the block makes by what it reduces.

when any(r < LEAST)                 asked = max over all of the tile of where(r < LEAST, 1, 0)
  l = l * r                  ->     new = l * r
                                    l = where(asked != 0, new, l)

Both ways are computed, one is taken: `tkgen.ir.meaning` says the same of a condition. So schedules that hand
reductions on among waves execute conditions with what they have, and their proofs hold of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tkgen.ir.equations import (
    Axis,
    AxisKind,
    Constant,
    Kernel,
    Kind,
    Loop,
    Map,
    Op,
    Reduce,
    Value,
    When,
    walk,
    writes,
)


def decided(kernel: Kernel) -> Kernel:
    """The kernel with choices in place of conditions."""
    if not any(isinstance(op, When) for op in walk(kernel.body)):
        return kernel
    return replace(kernel, body=tuple(_Decider(kernel).body(kernel.body)))


def asked_along(when: When) -> tuple[Axis, ...]:
    """The axes along which a tile has several elements of which a condition may be true."""
    alone = (a for a in when.condition.axes if a.kind is AxisKind.PARALLEL and (a.tile or 1) == 1)
    return tuple(a for a in when.condition.axes if a not in alone)


class _Decider:
    """Numbers the values that it makes after those of the kernel."""

    def __init__(self, kernel: Kernel):
        inside = (c.inside for op in walk(kernel.body) if isinstance(op, Loop) for c in op.carries)
        made = (v for op in walk(kernel.body) for v in writes(op))
        self.last = max(v.number for v in (*made, *inside))

    def value(self, axes: tuple[Axis, ...], when: When, kind: Kind = Kind.NUMBER) -> Value:
        self.last += 1
        return Value(self.last, axes, "", kind, span=when.span)

    def body(self, ops: tuple[Op, ...]) -> Iterator[Op]:
        for op in ops:
            if isinstance(op, When):
                yield from self.choices(op)
            elif isinstance(op, Loop):
                yield replace(op, body=tuple(self.body(op.body)))
            else:
                yield op

    def choices(self, when: When) -> Iterator[Op]:
        """Yield ops that compute the values of a condition in any case and choose each with `where`."""
        one, zero = self.value((), when), self.value((), when)
        yield Constant(one, 1.0)
        yield Constant(zero, 0.0)
        asked = self.value(when.condition.axes, when)
        yield Map(asked, "where", (when.condition, one, zero))
        for axis in reversed(asked_along(when)):
            most = self.value(tuple(a for a in asked.axes if a != axis), when)
            yield Reduce(most, "max", axis, asked)
            asked = most
        taken = self.value(asked.axes, when, Kind.PREDICATE)
        yield Map(taken, "ne", (asked, zero))
        yield from when.body
        for c in when.chosen:
            yield Map(c.result, "where", (taken, c.update, c.otherwise))
