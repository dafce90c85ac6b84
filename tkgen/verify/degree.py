"""The degree of what a kernel computes, for the probability with which a wrong element looks right.

Where every result is a polynomial or a quotient of polynomials of the inputs, a difference of two such results is one
of at most the sum of the degrees of a numerator and a denominator, and is zero at a random point of the field with at
most that over p (Schwartz, "Fast Probabilistic Algorithms for Verification of Polynomial Identities", J. ACM 27, 1980).
"""

from __future__ import annotations

from collections.abc import Sequence

from tkgen.ir.equations import (
    Convert,
    Kernel,
    Load,
    Loop,
    Map,
    Product,
    Reduce,
    Scan,
    Sort,
    Store,
    Value,
    When,
    reads,
    writes,
)
from tkgen.ir.equations import Op as Operation

_EXACT = ("add", "sub", "mul", "div", "neg", "rcp", "where", "max", "min", "abs", "clamp", "relu")
Degree = tuple[int, int]  # of the numerator, of the denominator


def degree(kernels: Sequence[Kernel]) -> int | None:
    """Of the results of all, one after the other; None where there are other functions, or carried products."""
    memory: dict[str, Degree] = {}
    try:
        for kernel in kernels:
            _Degrees(memory).body(kernel.body)
    except KeyError:
        return None
    return max((n + d for n, d in memory.values()), default=1)


class _Degrees:
    def __init__(self, memory: dict[str, Degree]):
        self.memory, self.values = memory, dict[int, Degree]()

    def get(self, value: Value) -> Degree:
        return self.values[value.number]

    def body(self, ops: Sequence[Operation]) -> None:
        for op in ops:
            if isinstance(op, Store):
                old, new = self.memory.get(op.target.tensor.name, (0, 0)), self.get(op.value)
                self.memory[op.target.tensor.name] = max(old[0], new[0]), max(old[1], new[1])
            elif isinstance(op, Loop):
                self.loop(op)
            elif isinstance(op, When):
                raise KeyError(op)
            else:
                for value in writes(op):
                    self.values[value.number] = self.result(op)

    def loop(self, op: Loop) -> None:
        """Find the degrees of the carries of a loop. They must not grow from iteration to iteration; sums do not."""
        for c in op.carries:
            self.values[c.inside.number] = self.get(c.initial)
        for _ in range(3):
            self.body(op.body)
            after = {c.inside.number: self.get(c.update) for c in op.carries}
            if all(self.values[n] == d for n, d in after.items()):
                break
            self.values |= after
        else:
            raise KeyError(op)
        for c in op.carries:
            self.values[c.result.number] = self.get(c.inside)

    def result(self, op: Operation) -> Degree:
        match op:
            case Load(source=source):
                return self.memory.get(source.tensor.name, (1, 0))
            case Sort(function="positions"):
                return (0, 0)
            case Convert() | Reduce() | Sort() | Scan(function="sum" | "max" | "min"):
                return self.get(reads(op)[0])
            case Scan():  # a product of as many numbers as there are
                raise KeyError("prod")
            case Product(left=left, right=right):
                return _product(self.get(left), self.get(right))
            case Map(function=function, arguments=arguments):
                if function not in _EXACT:
                    raise KeyError(function)
                return _mapped(function, [self.values.get(a.number, (0, 0)) for a in arguments])
        return (0, 0)


def _product(a: Degree, b: Degree) -> Degree:
    return a[0] + b[0], a[1] + b[1]


def _mapped(function: str, arguments: list[Degree]) -> Degree:
    first, *rest = arguments
    if function == "rcp":
        return first[1], first[0]
    for other in rest:
        if function == "div":
            first = _product(first, (other[1], other[0]))
        elif function == "mul":
            first = _product(first, other)
        elif function in ("add", "sub"):
            first = max(first[0] + other[1], other[0] + first[1]), first[1] + other[1]
        else:
            first = max(first[0], other[0]), max(first[1], other[1])
    return first
