"""The references of kernels with loops: their equations tile by tile, in torch for all blocks at once, in C++ for one.

Both languages say the same: a value is numbers and bounds with a direction for each axis of the kernel, of one place
where nothing changes along it, so names broadcast by themselves. A loop is a loop. In torch a block that does not visit
a tile keeps what it carries; in C++ it goes on with the next one. A loop that only sums is one sum over all of it,
whose order is not the kernel's (`tkgen.ir.summing`). Sums that blocks add to (`T[q] += p @ K[j]`) are sums over all
blocks in torch; the C++ check loops over the blocks. Of ragged axes (`tkgen.ir.segments`) torch goes from group to
group, and a block of the C++ check is one of a group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from tkgen.backends.cdna.lower.reference import LETTERS, made_by, variables
from tkgen.backends.cdna.lower.reference_language import Formula, Language
from tkgen.ir.equations import (
    Axis,
    AxisKind,
    Carry,
    Kernel,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Scan,
    Sort,
    Store,
    Update,
    Value,
    When,
    reads,
    walk,
    writes,
)
from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.summing import adds_to_carry, is_sums


def has_loops(kernel: Kernel) -> bool:
    """Return True if a kernel needs these references."""
    scattered = any(store.target.computed for store in kernel.stores)
    return scattered or bool(kernel.ragged) or any(isinstance(op, Loop | When | Product) for op in kernel.body)


def some_store(kernel: Kernel) -> frozenset[str]:
    """The tensors of which a launch may leave elements as they were."""
    left = frozenset(s.target.tensor.name for s in kernel.stores if s.target.computed and s.update is Update.SET)
    if kernel.ragged:
        return left | {s.target.tensor.name for s in kernel.stores if not s.combines}
    loops = [op for op in walk(kernel.body) if isinstance(op, Loop) and (op.axis.bounds or op.axis.part is not None)]
    stores = (op for loop in loops for op in walk(loop.body) if isinstance(op, Store))
    return left | {s.target.tensor.name for s in stores if s.update is Update.SET}  # what is added to begins at zero


def added_over(kernel: Kernel) -> Axis | None:
    """The axis of the blocks that add to one place, where such are in a loop."""
    return next((op.axis for op in walk(kernel.body) if isinstance(op, Product) and sums_tiles(op)), None)


def sums_tiles(op: Product) -> bool:
    """Return True if each block sums over its own tile, and what all find is added."""
    return op.axis.kind is AxisKind.PARALLEL and not op.axis.is_one_tile


def loop_variables(formula: Formula) -> dict[int, str]:
    """The variable of each value: what a loop carries has one, within the loop and after it."""
    names = variables(formula)
    for op in walk(formula.body):
        for c in op.carries if isinstance(op, Loop) else ():
            names[c.inside.number] = names[c.result.number]
    return names


class Loops(Language):
    """Syntax of loops in the languages."""

    def place(self, axis: Axis) -> int:
        """The direction of an axis."""
        return self.formula.order.index(axis)

    @property
    def ragged(self) -> list[Axis]:
        """The axes of which each group has a part."""
        return [a for a in self.formula.order if a.within is not None]

    @abstractmethod
    def spread(self, carry: Carry) -> str:
        """A line that defines what is carried by what it is before the first iteration, along all of its directions."""

    @abstractmethod
    def whole(self, axis: Axis) -> str:
        """A line that makes all of an axis the compared part."""

    @abstractmethod
    def passes(self, op: Loop, body: Iterable[str]) -> Iterator[str]:
        """A loop with this body, which hands on what it carries."""

    @abstractmethod
    def multiplied(self, op: Product) -> str:
        """A product."""

    @abstractmethod
    def any_of(self, condition: Value) -> str:
        """An expression that is true if a predicate holds anywhere in a tile."""

    @abstractmethod
    def put(self, op: Store) -> Iterator[str]:
        """Lines that keep or compare what is stored."""

    @abstractmethod
    def _shorter(self, axis: Axis, of: Axis) -> str:
        """Difference between positions of two axes that are equally far from the ends."""

    def bounds(self, axis: Axis, start: str) -> Iterator[tuple[Axis, tuple[str, str], str]]:
        """Axes that bound a loop, how their tiles begin where it is not and where it is at `start`, and the place."""
        tile = axis.tile or 1
        for bound, signs in ((axis.since, (">", "<=")), (axis.until, ("<", ">="))):
            if bound is not None:
                of = next(a for a in self.formula.order if a.name == bound.axis)
                place = start + self._shorter(axis, of) * bound.aligned
                by = tile - 1 - bound.moved if bound is axis.since else 1 - (of.tile or 1) - bound.moved
                yield of, signs, _moved(place, by)

    def loaded(self, op: Load, name: str) -> Iterator[str]:
        """Lines that define what is read of a tensor."""
        yield self.defined(name, made_by(op, self))

    def chosen(self, condition: str, update: Value, otherwise: Value) -> str:
        """One of two values."""
        return self.function("where", [condition, self.names[update.number], self.names[otherwise.number]])

    def function(self, name: str, given: Sequence[str]) -> str:
        """A function of variables."""
        function = FUNCTIONS[name]
        off = f"{function.ulps!r}, {function.growth!r}, {function.below!r}"
        return self.called(LETTERS[: len(given)], function, off, given)


def body(say: Loops, ops: Iterable[Op]) -> Iterator[str]:
    """Lines that execute operations, in order."""
    for op in ops:
        if isinstance(op, Store):
            yield from say.put(op)
        elif isinstance(op, Loop):
            yield from _sums(say, op) if is_sums(op) and op.axis.part is None else _loop(say, op)
        elif isinstance(op, When):
            condition = f"taken_{op.condition.number}"
            yield say.defined(condition, say.any_of(op.condition))
            yield from body(say, op.body)
            for c in op.chosen:
                yield say.defined(say.names[c.result.number], say.chosen(condition, c.update, c.otherwise))
        elif isinstance(op, Reduce):
            yield from say.reduced(op, say.names[op.result.number])
        elif isinstance(op, Scan):
            yield from say.scanned(op, say.names[op.result.number])
        elif isinstance(op, Sort):
            yield from say.in_order(op, say.names[op.result.number])
        elif isinstance(op, Load):
            yield from say.loaded(op, say.names[op.result.number])
        else:
            name = say.names[op.result.number]
            yield say.defined(name, say.multiplied(op) if isinstance(op, Product) else _simple(say, op))


def _simple(say: Loops, op: Op) -> str:
    """An operation of elements; a - max(a, b) is exactly zero wherever a is larger for certain."""
    text = made_by(op, say)
    if isinstance(op, Map) and op.function == "sub":
        a, larger = op.arguments
        made = next((o for o in walk(say.formula.body) if larger in writes(o)), None)
        if isinstance(made, Map) and made.function == "max" and a in made.arguments:
            b = made.arguments[1 - made.arguments.index(a)]
            return f"unmoved({say.names[a.number]}, {say.names[b.number]}, {text})"
    return text


def _sums(say: Loops, op: Loop) -> Iterator[str]:
    """One sum over all of the loop's axis, for each that it carries."""
    yield say.whole(op.axis)
    yield from body(say, [o for o in op.body if not adds_to_carry(o, op.carries)])
    for c in op.carries:
        add = next(o for o in op.body if adds_to_carry(o, (c,)))
        given = [say.names[(c.initial if v == c.inside else v).number] for v in reads(add)]
        yield say.defined(say.names[c.result.number], say.function("add", given))


def _loop(say: Loops, op: Loop) -> Iterator[str]:
    yield from (say.spread(c) for c in op.carries)
    yield from say.passes(op, body(say, op.body))


def _moved(place: str, by: int) -> str:
    return f"{place} {'-' if by < 0 else '+'} {abs(by)}" if by else place


def loop_parts(formula: Formula, axis: Axis, extent: str, over: str) -> tuple[Axis, str]:
    """The index of the parts of a loop, and elements of each, by the language's whole division."""
    index = next(a for a in formula.order if a.name == axis.part)
    parts, tile = index.dim.size, axis.tile or 1
    assert parts is not None  # typing and schedules refuse others
    if axis.dim.size is not None and axis.within is None:
        return index, str(axis.part_length(axis.dim.size, parts))
    return index, f"({_up(_up(extent, tile, over), parts, over)} * {tile})"


def _up(number: str, by: int, over: str) -> str:
    return f"(({number} + {by - 1}) {over} {by})"
