"""A reduction that is written twice is computed once: its exchange between waves and its barriers are needed once.

`Y[r] = X[r] / rowsum(X[r] * X[r])` and `Z[r] = X[r] + rowsum(X[r] * X[r])` share one sum. Of two reductions of equal
values in one body the first one stays. A reduction that the spec gives a name stays, too: a schedule may refer to it.
Element-wise operations are left as they are written: they need no barrier, and a compiler finds those that are equal.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tkgen.ir.equations import Kernel, Loop, Op, Reduce, Scan, Sort, Store, Value, When
from tkgen.ir.substitution import Named, substituted


def run(kernel: Kernel) -> Kernel:
    """The kernel without reductions whose values earlier ones in the same body have."""
    return replace(kernel, body=_shared(kernel.body, Expressions()))


@dataclass
class Expressions:
    """Values by the expressions that compute them: two values of one class are equal in every element.

    An operation is known by its kind and all its fields, with the classes of the values that it reads. A value that a
    loop or a condition gives is known by its number alone.
    """

    classes: dict[int, Hashable] = field(default_factory=dict)  # by the number of a value
    known: dict[Hashable, int] = field(default_factory=dict)  # an operation without its result's number: its class

    def add(self, op: Op) -> None:
        """Find the classes of the values that an operation defines."""
        if not isinstance(op, Loop | When | Store):
            self.classes[op.result.number] = self.known.setdefault(self.expression(op), len(self.known))

    def expression(self, op: Op) -> Hashable:
        """The operation as a key: equal for operations that compute the same of equal values."""
        return type(op), *(self._part(getattr(op, f.name), f.name == "result") for f in fields(op))

    def _part(self, part: Any, result: bool) -> Hashable:
        if isinstance(part, Value):
            given = (part.axes, part.kind, part.dtype)
            return given if result else (given, self.classes.get(part.number, ("value", part.number)))
        if isinstance(part, tuple):
            return tuple(self._part(each, result) for each in part)
        if isinstance(part, float):
            return part.hex()  # 0.0 and -0.0 are equal, and not the same
        return (type(part), part)


def _shared(body: tuple[Op, ...], values: Expressions) -> tuple[Op, ...]:
    first = dict[Hashable, Value]()  # the results of reductions of this body
    others = dict[Named, Named]()
    kept = list[Op]()
    for written in body:
        op = substituted(written, others) if others else written
        if isinstance(op, Loop | When):
            op = replace(op, body=_shared(op.body, values))
        elif isinstance(op, Reduce | Scan | Sort):
            same = first.setdefault(values.expression(op), op.result)
            if same != op.result and not op.result.name:
                others[op.result] = same
                continue
        values.add(op)
        kept.append(op)
    return tuple(kept)
