"""Differences from a zero that the compiler knows: `0 - x` is +0 where x is 0, and -x is not.

Instruction selection for AMD GPUs takes `0 - x` for `-x` where an instruction has it as an operand (LLVM's
`SelectVOP3ModsImpl` folds `fsub` of either zero), so that `1 / (0 - x)` is -inf where x is +0. `settled` puts such
differences, and sums of a zero and an opposite, of which LLVM makes the same, into the function of this name: that has
them computed.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tkgen.ir.equations import (
    AxisKind,
    Constant,
    Convert,
    Coordinate,
    Kernel,
    Kind,
    Loop,
    Map,
    Op,
    Value,
    When,
    walk,
    writes,
)

SETTLED = "settled"


def settled(kernel: Kernel) -> Kernel:
    """The kernel with such differences computed before anything takes them."""
    found = _Zeros()
    found.see(kernel.body)
    if not found.differences:
        return kernel
    last = max(v.number for op in walk(kernel.body) for v in (*writes(op), *_inside(op)))
    return replace(kernel, body=_Settled(found.differences, last).body(kernel.body))


def _inside(op: Op) -> tuple[Value, ...]:
    return tuple(c.inside for c in op.carries) if isinstance(op, Loop) else ()


class _Zeros:
    """Values that may be literals once loops are unrolled, which of these may be +0, and what subtracts from such."""

    def __init__(self) -> None:
        self.literal: dict[int, bool] = {}
        self.opposite: set[int] = set()
        self.minus_one: set[int] = set()
        self.differences: set[int] = set()

    def see(self, ops: tuple[Op, ...]) -> None:
        for op in ops:
            match op:
                case Constant(result=result, value=value):
                    self.literal[result.number] = value == 0 and math.copysign(1.0, value) > 0
                    self.minus_one |= {result.number} if value == -1 else set()
                case Coordinate(result=result, axis=axis) if axis.kind is not AxisKind.PARALLEL:
                    self.literal[result.number] = True
                case Convert(result=result, argument=argument):
                    self._passes(result, argument)
                case Map():
                    self._map(op)
                case Loop(carries=carries, body=body):
                    for carry in carries:
                        self._passes(carry.inside, carry.initial)
                    self.see(body)
                    for carry in carries:  # a loop has a pass, or which it is shows at run time
                        self._passes(carry.result, carry.update)
                case When(chosen=chosen, body=body):
                    self.see(body)
                    for c in chosen:
                        self._passes(c.result, c.otherwise, c.update)

    def _passes(self, result: Value, *given: Value) -> None:
        """A value that is one of these."""
        known = [self.literal[v.number] for v in given if v.number in self.literal]
        if known:
            self.literal[result.number] = any(known)

    def _map(self, op: Map) -> None:
        number, given = op.result.number, [a.number for a in op.arguments]
        if op.function == "where":
            self._passes(op.result, *op.arguments[1:])
        elif all(n in self.literal for n in given):
            self.literal[number] = op.result.kind is Kind.NUMBER
        others = {n for n in given if n not in self.minus_one}
        if op.function == "neg" or (op.function in ("mul", "div") and len(others) < len(given)):
            self.opposite.add(number)
        if op.result.kind is Kind.NUMBER:
            zero = [n for n in given if self.literal.get(n)]
            summed = op.function == "add" and zero and not self.opposite.isdisjoint(given)
            if summed or (op.function == "sub" and given[0] in zero):
                self.differences.add(number)


class _Settled:
    def __init__(self, differences: set[int], last: int):
        self.differences, self.last = differences, last

    def body(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        found: list[Op] = []
        for op in ops:
            if isinstance(op, Loop | When):
                found.append(replace(op, body=self.body(op.body)))
            elif isinstance(op, Map) and op.result.number in self.differences:
                self.last += 1
                inner = replace(op.result, number=self.last, name="")
                found += [replace(op, result=inner), Map(op.result, SETTLED, (inner,))]
            else:
                found.append(op)
        return tuple(found)
