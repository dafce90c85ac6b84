"""The facts about values that a kernel's equations show without data, for `tkgen.ir.meaning`.

- **Products that are added where they are computed.** Matrix units add to a sum that is there already:
  of `o * r + P @ V` the sum starts at `o * r`, and each partial sum is rounded with it. So the sum is exact only if
  that is a multiple of the same unit, too.
- **The least that values can be**, where they are never negative, such as magnitudes and exponentials, however they are
  rounded: the square root of one whose error is larger than itself is a number, and `1 / (abs(x) + 1)` is at most 1.
- **Values that are never NaN**, such as a running maximum, and reductions of which it does not matter whether a row of
  NaNs alone gives NaN.
- **Values that nothing reads any more**, after each operation of the kernel's body: their memory can be given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan

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
    Scan,
    Sort,
    Value,
    When,
    reads,
    walk,
    writes,
)

NOT_NEGATIVE = frozenset(
    {"abs", "exp", "exp2", "sqrt", "sigmoid", "relu", "random", "fast_sqrt", "fast_sigmoid"}
)  # of any argument
ROUNDED = 1 - 2.0**-20  # of a sum at least
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

    # ------------------------------------------------------------ ranges

    @cached_property
    def least(self) -> Mapping[int, float]:
        """Of values that are never negative, or NaN: what they are not below, as any back end computes them."""
        carries = [c for op in walk(self.kernel.body) if isinstance(op, Loop) for c in op.carries]
        supposed = {c.inside.number for c in carries}
        while True:
            found = self._least(dict.fromkeys(supposed, 0.0))
            kept = {c.inside.number for c in carries if _both(c, found)} & supposed
            if kept == supposed:
                return found
            supposed = kept

    def _least(self, supposed: dict[int, float]) -> dict[int, float]:
        """The same if what is `supposed` holds of what loops carry."""
        found = dict(supposed)

        def visit(ops: Sequence[Op]) -> None:
            for op in ops:
                match op:
                    case Loop(carries=carries, body=body):
                        visit(body)
                        found.update((c.result.number, 0.0) for c in carries if _both(c, found))
                    case When(chosen=chosen, body=body):
                        visit(body)
                        ends = {c.result.number: (c.update.number, c.otherwise.number) for c in chosen}
                        found.update(
                            (n, min(map(found.__getitem__, of))) for n, of in ends.items() if {*of} <= {*found}
                        )
                    case _:
                        bound = self._least_of(op, found)
                        found.update((v.number, bound) for v in writes(op) if bound is not None)

        visit(self.kernel.body)
        return found

    def _least_of(self, op: Op, found: Mapping[int, float]) -> float | None:
        """Of what an operation makes. Rounding keeps the order of numbers, and moves them by less than `ROUNDED`."""

        def of(value: Value) -> float | None:
            return found.get(value.number)

        match op:
            case Constant(value=value):
                return value if value >= 0 else None
            case Coordinate() | Extent():
                return 0.0
            case Convert(argument=value) | Reduce(argument=value, function="sum"):
                return None if of(value) is None else 0.0
            case Scan(argument=value, function="sum" | "prod"):
                return None if of(value) is None else 0.0
            case Sort(function="positions"):
                return 0.0
            case Reduce(argument=value) | Scan(argument=value) | Sort(argument=value):
                return of(value)
            case Map(function="mul", arguments=(a, b)) if a == b:
                return 0.0
            case Map(function="max", arguments=arguments):  # of NaN and a number the number: one that is no NaN
                numbers = [a for a in arguments if isinstance(self.made.get(a.number), Constant | Coordinate | Extent)]
                known = [bound for a in arguments if (bound := of(a)) is not None]
                sure = [bound for a in numbers if (bound := of(a)) is not None]
                return min(known) if len(known) == len(arguments) and not sure else max(sure, default=None)
            case Map(function="where" | "clamp", arguments=(_, a, b)):
                ends = [bound for v in (a, b) if (bound := of(v)) is not None]
                return min(ends) if len(ends) == 2 else None
            case Map(function="ldexp", arguments=(a, _)):
                return None if of(a) is None else 0.0
            case Map(function=function, arguments=arguments):
                bounds = [bound for a in arguments if (bound := of(a)) is not None]
                if function in KEEP_SIGN and len(bounds) == len(arguments):
                    return {"add": sum(bounds) * ROUNDED, "min": min(bounds)}.get(function, 0.0)
                return 0.0 if function in NOT_NEGATIVE else None
        return None

    # ------------------------------------------------------------ NaN

    def shows_nan(self, op: Reduce) -> bool:
        """Return True if a kernel whose maximum (minimum) of NaNs alone is NaN, not -inf (inf), may give other results.

        It does not where the result is only ever compared with a value that is never NaN: `max(m, rowmax(s))`.
        """

        def hides(user: Op) -> bool:
            if not isinstance(user, Map) or user.function != op.function:
                return False
            return any(a != op.result and self.never_nan(a) for a in user.arguments)

        handed = any(op.result in _handed(user) for user in walk(self.kernel.body))
        return handed or not all(hides(user) for user in walk(self.kernel.body) if op.result in reads(user))

    def never_nan(self, value: Value, supposed: frozenset[int] = frozenset()) -> bool:
        """Return True if no code computes NaN for a value, on the premise that none does for those `supposed`."""

        def numbers(*values: Value) -> bool:
            return all(self.never_nan(v, supposed | {value.number}) for v in values)

        if value.number in supposed:
            return True
        if carry := self._carried.get(value.number):
            return numbers(carry.initial, carry.update)
        match self.made[value.number]:
            case Constant(value=number):
                return not isnan(number)
            case Coordinate() | Extent():
                return True
            case Map(function="max" | "min", arguments=arguments):
                return any(map(numbers, arguments))
            case When(chosen=chosen):
                return all(numbers(c.update, c.otherwise) for c in chosen if c.result == value)
        return False

    @cached_property
    def _carried(self) -> Mapping[int, Carry]:
        """The carries of loops by the values they give, within the loop and after it."""
        carries = [c for op in walk(self.kernel.body) if isinstance(op, Loop) for c in op.carries]
        return {value.number: c for c in carries for value in (c.inside, c.result)}

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
        """List the values that an operation reads, and those that the bound on its error needs, such as operands of a
        product.
        """
        found = list(reads(op))
        if isinstance(op, Map):
            found += [v for product, _ in self.added(op) for v in reads(product)]
            found += [v for pair in [self.maximum(op)] if pair for v in pair]
        return found


def _handed(op: Op) -> list[Value]:
    """List the values that a loop hands to its next iteration, or a condition to the ops after it."""
    return [c.update for c in (op.carries if isinstance(op, Loop) else op.chosen if isinstance(op, When) else ())]


def _both(carry: Carry, found: Mapping[int, float]) -> bool:
    return carry.initial.number in found and carry.update.number in found
