"""What a kernel's equations say of their values before any number is known, for `tkgen.ir.meaning`.

- **Products that are added where they are computed.** Matrix units add to a sum that is there already:
  of `o * r + P @ V` the sum starts at `o * r`, and each partial sum is rounded with it. So the sum is exact only if
  that is a multiple of the same unit, too.
- **Values that are never negative**, such as magnitudes and exponentials, however they are rounded: the square root of
  one whose error is larger than itself is a number.
- **Values that nothing reads any more**, after each operation of the kernel's body: their memory can be given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tkgen.ir.equations import (
    Carry,
    Constant,
    Convert,
    Coordinate,
    Extent,
    Kernel,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Value,
    When,
    reads,
    walk,
    writes,
)

NOT_NEGATIVE = frozenset({"abs", "exp", "exp2", "sqrt", "sigmoid", "relu", "random"})  # of any argument
KEEP_SIGN = frozenset({"add", "mul", "div", "min", "settled"})  # of arguments that are not negative


@dataclass(frozen=True)
class ValueFacts:
    """Facts about the values of a kernel, by their numbers."""

    kernel: Kernel

    @cached_property
    def made(self) -> Mapping[int, Op]:
        """The operation that defines each value."""
        return {v.number: op for op in walk(self.kernel.body) for v in writes(op)}

    # ------------------------------------------------------------ products

    def added(self, op: Map) -> list[tuple[Product, Value]]:
        """The products that this addition adds to another value, which matrix units may take for their start."""
        if op.function != "add":
            return []
        a, b = op.arguments
        both = [(p, other) for value, other in ((a, b), (b, a)) for p in self._products(value)]
        return [(p, other) for p, other in both if set(other.axes) == set(p.result.axes)]

    def maximum(self, op: Map) -> tuple[Value, Value] | None:
        """Of a - max(a, b) these two: it is exactly zero wherever a is larger for certain."""
        made = self.made.get(op.arguments[1].number) if op.function == "sub" else None
        if not (isinstance(made, Map) and made.function == "max" and op.arguments[0] in made.arguments):
            return None
        return op.arguments[0], made.arguments[1 - made.arguments.index(op.arguments[0])]

    def _products(self, value: Value) -> list[Product]:
        """The products of which a value is the sum and nothing else; none where one of them has another use."""
        op = self.made.get(value.number)
        if self._uses[value.number] != 1:
            return []
        if isinstance(op, Product):
            return [op]
        if not isinstance(op, Map) or op.function != "add":
            return []
        left, right = (self._products(v) for v in op.arguments)
        return left + right if left and right else []

    @cached_property
    def _uses(self) -> Counter[int]:
        return Counter(v.number for op in walk(self.kernel.body) for v in (*reads(op), *_handed(op)))

    # ------------------------------------------------------------ signs

    @cached_property
    def never_negative(self) -> frozenset[int]:
        """The values that are zero, positive or NaN, as any back end computes them."""
        carries = [c for op in walk(self.kernel.body) if isinstance(op, Loop) for c in op.carries]
        supposed = {c.inside.number for c in carries}
        while True:
            found = self._never_negative(supposed)
            kept = {c.inside.number for c in carries if _both(c, found)} & supposed
            if kept == supposed:
                return frozenset(found)
            supposed = kept

    def _never_negative(self, supposed: set[int]) -> set[int]:
        """Those of which this is so if it is so of what is `supposed` to be."""
        found = set(supposed)

        def visit(ops: Sequence[Op]) -> None:
            for op in ops:
                match op:
                    case Loop(carries=carries, body=body):
                        visit(body)
                        found.update(c.result.number for c in carries if _both(c, found))
                    case When(chosen=chosen, body=body):
                        visit(body)
                        found.update(c.result.number for c in chosen if {c.update.number, c.otherwise.number} <= found)
                    case _ if self._is_never_negative(op, found):
                        found.update(v.number for v in writes(op))

        visit(self.kernel.body)
        return found

    def _is_never_negative(self, op: Op, found: set[int]) -> bool:
        match op:
            case Constant(value=value):
                return value >= 0
            case Coordinate() | Extent():
                return True
            case Convert(argument=value) | Reduce(argument=value):
                return value.number in found
            case Map(function="mul", arguments=(a, b)) if a == b:
                return True
            case Map(function="max", arguments=arguments):  # of NaN and a number the number: one that is no NaN
                made = [self.made.get(a.number) for a in arguments if a.number in found]
                return len(made) == len(arguments) or any(isinstance(m, Constant | Coordinate | Extent) for m in made)
            case Map(function="where" | "clamp", arguments=(_, a, b)):
                return {a.number, b.number} <= found
            case Map(function="ldexp", arguments=(a, _)):
                return a.number in found
            case Map(function=function, arguments=arguments):
                of_same_sign = function in KEEP_SIGN and found.issuperset(a.number for a in arguments)
                return function in NOT_NEGATIVE or of_same_sign
        return False

    # ------------------------------------------------------------ lifetimes

    @cached_property
    def last(self) -> Sequence[Sequence[int]]:
        """The values that nothing reads after each operation of the kernel's body."""
        until: dict[int, int] = {}
        for n, op in enumerate(self.kernel.body):
            for inner in walk((op,)):
                until |= {v.number: n for v in (*writes(inner), *_handed(inner), *self._looked_at(inner))}
        ends: list[list[int]] = [[] for _ in self.kernel.body]
        for number, n in until.items():
            ends[n].append(number)
        return ends

    def _looked_at(self, op: Op) -> list[Value]:
        """What an operation reads, and what the bound on its error is made of: the factors of a product, say."""
        found = list(reads(op))
        if isinstance(op, Map):
            found += [v for product, _ in self.added(op) for v in reads(product)]
            found += [v for pair in [self.maximum(op)] if pair for v in pair]
        return found


def _handed(op: Op) -> list[Value]:
    """What a loop hands to its next iteration, and a condition to what follows."""
    return [c.update for c in (op.carries if isinstance(op, Loop) else op.chosen if isinstance(op, When) else ())]


def _both(carry: Carry, found: set[int]) -> bool:
    return {carry.initial.number, carry.update.number} <= found
