"""Loops that carry a running maximum and what is relative to it, and masks of loops that end with a tile: W203.

    n = max(m, rowmax(s))              softmax in one walk: p and all sums of it are relative to the maximum so far, n,
    p = exp2(s - n)                    so what was summed relative to the one before, m, is multiplied by r before
    r = exp2(m - n)                    anything is added, and what comes of the loop is divided by another such sum, or
    l = l * r + rowsum(p)              has the maximum itself in it
    o = o * r + bf16(p) @ V[j]
    m = n

A kernel that breaks this rule is computed as written, but its result depends on which keys share a tile. The same holds
of a bounded walk (`to q`) whose mask keeps places that no tile visits, or that has none: where its last tile ends is by
the tile's size. These are warnings; the equations mean what they say.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tkgen.diagnostics import Diagnostic, Fix, Label
from tkgen.ir.equations import (
    Axis,
    Bound,
    Carry,
    Constant,
    Coordinate,
    Extent,
    Kernel,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Store,
    Value,
    When,
    reads,
    walk,
    writes,
)
from tkgen.source import Span

CODE = "W203"
EXPONENTIALS = ("exp", "exp2")
FAR = 1 << 24  # a place far from both ends of an axis
COMPARED = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq,
            "ne": operator.ne}  # fmt: skip
COMBINED = {"add": operator.add, "sub": operator.sub, "and": operator.and_, "or": operator.or_}
LEAST_SCORE = -1e4  # what masks scores is so far below all others that nothing is left of it


def recurrences(kernel: Kernel, at: Span) -> Iterator[Diagnostic]:
    """Report carries and masks of loops that can hardly be meant; `at` is the kernel."""
    for loop in (op for op in kernel.body if isinstance(op, Loop) and op.carries):
        found = _Loop(kernel, loop, at)
        if any(isinstance(op, Product | Reduce) for op in loop.body):
            yield from found.bounded()
            yield from found.masks()
        if not any(isinstance(op, When) for op in walk(loop.body)):  # a choice of maxima has rules of its own
            yield from found.relative()


@dataclass(frozen=True)
class _Power:
    """exp(x - n) where n is a running maximum: how, of which value, and the maximum's carry."""

    function: str
    value: Value
    carry: Carry


class _Loop:
    def __init__(self, kernel: Kernel, loop: Loop, at: Span):
        self.kernel, self.loop, self.at = kernel, loop, at
        self.made: dict[Value, Op] = {v: op for op in walk(kernel.body) for v in writes(op)}
        self.inside = {c.inside for c in loop.carries}

    def depends(self, value: Value) -> set[Value]:
        """A value and all that it is made of; of what the loop carries no further."""
        found, left = set[Value](), [value]
        while left:
            one = left.pop()
            if one in found:
                continue
            found.add(one)
            op = self.made.get(one)
            if one not in self.inside and op is not None and not isinstance(op, Loop):
                left += reads(op)
        return found

    # ------------------------------------------------------------ sums relative to a maximum

    def relative(self) -> Iterator[Diagnostic]:
        maxima = {c: c.update for c in self.loop.carries if self._is_maximum(c)}
        yield from (self._of_a_tile(c) for c in self.loop.carries if self._is_alone(c))
        for carry in maxima:
            first = self.made.get(carry.initial)
            if isinstance(first, Constant) and first.value > LEAST_SCORE:
                name = carry.inside.name
                yield self._warn(
                    carry.inside.span,
                    f"the maximum `{name}` starts at {first.value:g}",
                    "scores far below that vanish",
                    f"start with the lowest f32 number: `{name} : f32[...] = -3.4e38`",
                )
            yield from self._rescaled(carry)

    def _is_maximum(self, carry: Carry) -> bool:
        op = self.made.get(carry.update)
        return isinstance(op, Map) and op.function == "max" and carry.inside in op.arguments

    def _is_alone(self, carry: Carry) -> bool:
        """Return True if the largest of a tile is handed on, and what was handed on is subtracted from."""
        op = self.made.get(carry.update)
        used = any(isinstance(o, Map) and o.function == "sub" and carry.inside in o.arguments for o in self.loop.body)
        return isinstance(op, Reduce) and op.function == "max" and used

    def _of_a_tile(self, carry: Carry) -> Diagnostic:
        name = carry.inside.name
        return self._warn(
            carry.update.span,
            f"`{name}` becomes the maximum of this tile only, not of all tiles so far",
            "if a later one is smaller, the sums overflow",
            f"take both: `max({name}, ...)`",
        )

    def _rescaled(self, carry: Carry) -> Iterator[Diagnostic]:
        n, m = carry.update, carry.inside
        parts, factors, inverse = list[_Power](), list[_Power](), list[_Power]()
        for op in self.loop.body:
            if not (isinstance(op, Map) and op.function in EXPONENTIALS):
                continue
            sides = self._difference(op.arguments[0])
            if sides is None:
                continue
            power = _Power(op.function, op.result, carry)
            if self._is(sides[1], n):
                (factors if self._is(sides[0], m) else parts).append(power)
            elif self._is(sides[0], n) and self._is(sides[1], m):
                inverse.append(power)
        of_parts, of_factors = {p.value for p in parts}, {f.value for f in factors}
        if not parts:
            return
        for power in factors:
            if power.function != parts[0].function:
                yield self._warn(
                    power.value.span,
                    f"`{power.value.name}` is a power by `{power.function}`, what it rescales by `{parts[0].function}`",
                    "",
                    f"use one of them: `{parts[0].function}`",
                )
        for sum_ in (c for c in self.loop.carries if c is not carry):
            yield from self._sum(sum_, carry, of_parts, of_factors, {p.value for p in inverse})
        yield from self._stored(carry, of_parts)

    def _sum(
        self, carry: Carry, maximum: Carry, parts: set[Value], factors: set[Value], inverse: set[Value]
    ) -> Iterator[Diagnostic]:
        made, name, n, m = self.depends(carry.update), carry.inside.name, maximum.update.name, maximum.inside.name
        n = n or m
        if carry.inside not in made:
            return
        rescaled = f"multiply it before: `{name} * exp2({m} - {n})`, by the same power as what is added"
        if made & parts and made & inverse:
            yield self._warn(
                carry.update.span,
                f"`{name}` is multiplied by a factor that grows with the maximum",
                f"relative to `{n}` it is smaller",
                f"turn it round: `{m} - {n}`",
            )
        elif made & parts and not made & factors:
            yield self._warn(
                carry.update.span,
                f"`{name}` adds a value relative to `{n}` to values relative to `{m}`",
                "the earlier sum is not rescaled",
                rescaled,
            )
        elif made & factors and not made & parts:
            yield self._warn(
                carry.update.span,
                f"`{name}` is rescaled from `{m}` to `{n}`, and adds a value that is relative to neither",
                "",
                f"add a value computed with `{n}`: powers of the differences from it",
            )

    def _stored(self, maximum: Carry, parts: set[Value]) -> Iterator[Diagnostic]:
        sums = {c.result: c for c in self.loop.carries if self.depends(c.update) & parts and c is not maximum}
        for store in (op for op in self.kernel.body if isinstance(op, Store)):
            made = self.depends(store.value)
            relative = [c for result, c in sums.items() if result in made]
            if len(relative) == 1 and maximum.result not in made:
                name, others = relative[0].inside.name, [c.inside.name for c in sums.values() if c is not relative[0]]
                fix = (
                    f"divide it by another such sum: `{name} / {others[0]}`"
                    if others
                    else "carry the sum of the powers"
                )
                yield self._warn(
                    store.span,
                    f"`{store.target.tensor.name}` is relative to the maximum "
                    f"`{maximum.inside.name}`, but does not include it",
                    f"`{name}` as the loop leaves it",
                    fix,
                )

    def _difference(self, value: Value) -> tuple[Value, Value] | None:
        """The sides of a difference, or of one that is multiplied by a number."""
        op = self.made.get(value)
        if isinstance(op, Map) and op.function == "mul":
            inner = [v for v in op.arguments if not isinstance(self.made.get(v), Constant)]
            op = self.made.get(inner[0]) if len(inner) == 1 else None
        return (op.arguments[0], op.arguments[1]) if isinstance(op, Map) and op.function == "sub" else None

    def _is(self, value: Value, wanted: Value) -> bool:
        """Return True if it is that one, or chosen between it and a number."""
        op = self.made.get(value)
        chosen = isinstance(op, Map) and op.function == "where" and wanted in op.arguments[1:]
        return value == wanted or chosen

    # ------------------------------------------------------------ masks

    @property
    def choices(self) -> list[Map]:
        """Choices by places along the loop's axis."""
        chosen = [op for op in walk(self.loop.body) if isinstance(op, Map) and op.function == "where"]
        return [op for op in chosen if self.loop.axis in self._places(op.arguments[0])]

    def _places(self, predicate: Value) -> set[Axis]:
        """The axes whose places it compares."""
        op = self.made.get(predicate)
        if isinstance(op, Coordinate):
            return {op.axis}
        if isinstance(op, Map) and op.function in (*COMPARED, *COMBINED, "not"):
            return set().union(*map(self._places, op.arguments))
        return set()

    def bounded(self) -> Iterator[Diagnostic]:
        """Masks of a walk that begins or ends with a block's tile keep nothing that it does not visit."""
        axes, axis = {a.name: a for a in self.kernel.axes}, self.loop.axis
        if axis.since is not None and axis.since == axis.until == Bound(axis.since.axis):
            of = axes[axis.since.axis]
            if (of.dim, of.tile) == (axis.dim, axis.tile):  # `from t to t`: a chunk is the block's tile
                return
        for word, bound, step in (("to", axis.until, 1), ("from", axis.since, -1)):
            if bound is None or axes[bound.axis].tile is None:
                continue
            of = axes[bound.axis]
            masks = [op for op in self.choices if of in self._places(op.arguments[0])]
            place = {of: FAR, axis: FAR + bound.moved + step}
            kept = [self._value(op.arguments[0], place) for op in masks]
            if None in kept or False in kept:
                continue
            side, sign = ("behind", ">=") if step > 0 else ("before", "<=")
            message = f"nothing {side} the tile `{word} {bound}` is visited, and no mask excludes what is {side} it"
            where = "this keeps it" if masks else "no position of the tile itself is masked"
            yield self._warn(
                masks[0].result.span if masks else axis.span,
                message,
                where,
                f"mask what is {side} each `{of.name}`: `where({bound} {sign} {axis.name}, ..., -inf)`",
            )

    def masks(self) -> Iterator[Diagnostic]:
        """Report masked values that still count: a score masked by position must not be an ordinary number."""
        users: dict[Value, list[Op]] = {}
        for op in self.loop.body:
            for value in reads(op):
                users.setdefault(value, []).append(op)
        for op in self.choices:
            tile, other = self.made.get(op.arguments[1]), self.made.get(op.arguments[2])
            if not isinstance(other, Constant):
                continue
            if isinstance(tile, Map) and tile.function in EXPONENTIALS and other.value == -math.inf:
                yield self._warn(
                    op.result.span,
                    "a power is masked with -inf",
                    "the power of a masked score is 0",
                    f"mask the score before `{tile.function}`, or choose 0 here",
                )
            if other.value == -math.inf and not self._guarded and (of := self._blind(op.arguments[0])) is not None:
                finite = "" if self._starts_finite else "start the maximum at -3.4e38, "
                yield self._warn(
                    op.result.span,
                    f"the first position of `{of.name}` sees no position of `{self.loop.axis.name}`",
                    "its maximum is -inf, and -inf minus -inf is NaN" if finite else "its sum is 0, and 0 / 0 is NaN",
                    f"let each position see itself, or {finite}store `where(l > 0, o / l, 0)`",
                )
            score = any(isinstance(u, Reduce) and u.function == "max" for u in users.get(op.result, []))
            if score and other.value > LEAST_SCORE:
                yield self._warn(
                    op.result.span,
                    f"a score is masked with {other.value:g}",
                    f"its power is that of a key with the score {other.value:g}",
                    "mask it with -inf, whose power is 0",
                )

    @property
    def _guarded(self) -> bool:
        """True if something is chosen by other things than places, as where no key is seen.

        Within the loop, for there -inf less -inf is NaN; where maxima start with a finite number, after it.
        """
        body = self.kernel.body if self._starts_finite else self.loop.body
        chosen = (op for op in walk(body) if isinstance(op, Map) and op.function == "where")
        return any(not self._places(op.arguments[0]) for op in chosen)

    @property
    def _starts_finite(self) -> bool:
        """True if no maximum is -inf before the first tile, nor after one whose scores all are."""
        first = [self.made.get(c.initial) for c in self.loop.carries if self._is_maximum(c)]
        return bool(first) and all(isinstance(op, Constant) and math.isfinite(op.value) for op in first)

    def _blind(self, predicate: Value) -> Axis | None:
        """The axis of blocks at whose first place a mask keeps nothing."""
        axis = self.loop.axis
        for of in self._places(predicate) - {axis}:
            found = (self._value(predicate, {of: 0, axis: place}) for place in range(axis.tile or 1))
            if all(kept is False for kept in found):
                return of
        return None

    def _value(self, value: Value, places: Mapping[Axis, int]) -> int | bool | None:
        """Evaluate a predicate of positions at these; None where it depends on anything else."""
        op = self.made.get(value)
        match op:
            case Constant(value=number):
                return int(number) if math.isfinite(number) and number == int(number) else None
            case Coordinate(axis=axis):
                return places.get(axis)
            case Extent():
                return FAR
            case Map(function="not", arguments=(a,)):
                inner = self._value(a, places)
                return None if inner is None else not inner
            case Map(function=function, arguments=(a, b)) if function in COMPARED or function in COMBINED:
                left, right = self._value(a, places), self._value(b, places)
                if left is None or right is None:
                    return None
                found: int | bool = (COMPARED.get(function) or COMBINED[function])(left, right)
                return found
        return None

    def _warn(self, span: Span | None, message: str, label: str, fix: str) -> Diagnostic:
        return Diagnostic(CODE, message, Label(span or self.loop.span or self.at, label), fix=Fix(fix))
