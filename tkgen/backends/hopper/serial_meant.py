"""Values that a block with any products must store, from its equations, in the terms of its tile program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import lcm

from tkgen.backends.hopper.file import name
from tkgen.backends.hopper.meant import TILES, WARPS, TilePosition, compared
from tkgen.backends.hopper.schedule import MACHINE
from tkgen.backends.hopper.serial_loop import SerialLoop
from tkgen.backends.hopper.serial_program import SerialCode, constants, serial_program
from tkgen.ir.equations import Load, Product, Store, Value, reads, writes
from tkgen.proof.terms import Term, Terms
from tkgen.tile.stored import Coordinate, computed, copied, product, stores
from tkgen.tile.unroll import Tile, unroll


def wrong_serial(m: SerialLoop, code: SerialCode) -> str | None:
    """The first difference between the stores of a kernel and its equations; None without one.

    Where a tile may take no iteration, also of such a tile.
    """
    values = constants(m, m.consumers, WARPS)
    places = [_SerialPlace(m, number) for number in range(TILES + m.of_groups)]
    terms = Terms()
    found = stores(unroll(serial_program(m, code), MACHINE, values, [place.values for place in places]), terms)
    return compared(found, dict(chain.from_iterable(place.meant(terms) for place in places)))


class _SerialPlace(TilePosition):
    """An output tile: the equations of each consumer's rows, evaluated on terms."""

    m: SerialLoop

    @property
    def iterations_of(self) -> int:
        """Enough to go around all rings twice."""
        return 2 * lcm(*self.m.buffers) + 1

    @property
    def values(self) -> Tile:
        """The values of the names that the C++ of a tile has."""
        return {**super().values, "tile": self.number}

    def meant(self, terms: Terms) -> Iterator[tuple[tuple[str, Coordinate], Sequence[Term]]]:
        """The terms that each consumer's tiles must have."""
        for consumer in range(self.m.consumers):
            row = self.tile if self.m.divided else self.tile * self.m.consumers + consumer
            yield from _Rows(self, terms, row, consumer).stored()


class _Rows:
    """The values of a consumer's rows, or columns, of an output tile."""

    def __init__(self, place: _SerialPlace, terms: Terms, row: int, consumer: int):
        self.place, self.m, self.terms, self.row, self.consumer = place, place.m, terms, row, consumer
        self.known: dict[Value, Term] = {}
        self.iteration: int | None = None

    def stored(self) -> Iterator[tuple[tuple[str, Coordinate], Sequence[Term]]]:
        """The stores of the equations, in order."""
        m, loop = self.m, self.m.loop
        for op in m.kernel.body:
            for value in writes(op) if op is not loop else ():
                if value in m.kept:
                    self.value(value)
            if isinstance(op, Store):
                yield from self._store(op)
            if op is not loop:
                continue
            for carry in loop.carries:
                self.known[carry.inside] = self._taken(carry.initial)
            for number in self.place.iterations:
                self.iteration = number
                yield from (made for each in loop.body if isinstance(each, Store) for made in self._store(each))
                self._hand_on()
            self.iteration = None
            self.known |= {carry.result: self.known[carry.inside] for carry in loop.carries}

    def _hand_on(self) -> None:
        """Begin another iteration with the updates of this one."""
        new: dict[Value, Term] = {}
        for carry in self.m.loop.carries:
            taken = carry in self.m.handed
            new[carry.inside] = (computed(self.terms, "handed", tiles=(self._taken(carry.update),)) if taken
                                 else self.value(carry.update))  # fmt: skip
        own = self._of_iteration
        self.known = {v: t for v, t in self.known.items() if v not in own} | new

    @property
    def _of_iteration(self) -> set[Value]:
        """The values that each iteration has of its own."""
        return {v for v in self.known if self.m.made.get(v) in self.m.loop.body}

    @property
    def _of(self) -> tuple[int, ...]:
        return (self.place.number,) if self.iteration is None else (self.place.number, self.iteration)

    def _taken(self, value: Value) -> Term:
        """A value where it is stored, or handed on."""
        parts = [self.value(part) for part in self.m.parts(value)]
        return computed(self.terms, f"take {value.number}", *self._of, tiles=parts)

    def value(self, value: Value) -> Term:
        """The term of a value that has registers."""
        if value not in self.known:
            self.known[value] = self._made(value)
        return self.known[value]

    def _made(self, value: Value) -> Term:
        op = self.m.made[value]
        if isinstance(op, Product):
            return self.terms.sum([self._product(op)])
        if (added := next((m for m in self.m.products if m.result == value), None)) is not None:
            (other,) = (v for v in reads(op) if v != added.product.result)
            return self.terms.sum([self.value(other), self._product(added.product)])
        parts = [self.value(part) for part in self.m.inputs(op)]
        return computed(self.terms, f"make {value.number}", *self._of, tiles=parts)

    def _product(self, op: Product) -> Term:
        """A product, the operand with the rows of the tile on the left; of a divided axis the consumer's columns."""
        split = self.m.split
        left, right = (op.left, op.right) if split in op.left.axes else (op.right, op.left)
        part = self.consumer if self.m.divided in op.result.axes else None
        both = (self._operand(left), self._operand(right, part))
        layouts = "A" + "t" * (self._first(left) == op.axis) + "B" + "t" * (self._first(right) != op.axis)
        return product(self.terms, layouts, *both)

    def _first(self, value: Value) -> object:
        """The axis of the rows of an operand in shared memory."""
        op = self.m.made[value]
        return op.source.axes[0] if isinstance(op, Load) else None

    def _operand(self, value: Value, part: int | None = None) -> Term:
        """An operand: of a tile whose columns consumers divide one part, or all of them."""
        op = self.m.made[value]
        if not isinstance(op, Load):
            return self.value(value)
        tensor, coordinate = (
            name(op.source.tensor.name),
            self.place.coordinate(op.source, self.row, self.iteration or 0),
        )
        if not any(tile.access == op.source and self.m.in_parts(tile) for tile in self.m.tiles):
            return copied(self.terms, tensor, coordinate)
        parts = [copied(self.terms, tensor, coordinate, n) for n in range(self.m.consumers)]
        return self.terms.of("parts", *parts) if part is None else parts[part]

    def _store(self, store: Store) -> Iterator[tuple[tuple[str, Coordinate], Sequence[Term]]]:
        """A store; of consumers that have the same rows the first one stores numbers of rows."""
        of_rows = len(store.target.axes) == 1
        if of_rows and self.m.divided is not None and self.consumer:
            return
        place = self.place.coordinate(store.target, self.row, self.iteration or 0, self.consumer)
        term = self._taken(store.value)
        yield (name(store.target.tensor.name), place), [term] * (WARPS if of_rows else 1)
