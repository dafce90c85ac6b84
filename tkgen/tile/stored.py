"""The terms (`tkgen.proof.terms`) that a tile program stores: one run of it, with formulas in place of numbers.

A copy brings a leaf: the tensor, and the coordinate in its C++. A product multiplies two terms and adds them to the
sums, C++ that computes is a function, and a store keeps a term at a coordinate. Where nothing races every interleaving
stores the same (`tkgen.proof.terms`), so one run is enough. The back end gives the meaning of the equations in the same
terms. If both agree, every tile is copied from its position, multiplied with its partner, once, and stored to its
position.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from math import prod

from tkgen.proof.execution import Order, Parts, execute
from tkgen.proof.program import Do, Loop
from tkgen.proof.terms import Term, Terms
from tkgen.tile.unroll import COMPUTE, COPY, MULTIPLY, STORE, WRITE

Coordinate = tuple[int, ...]
Stores = Mapping[tuple[str, Coordinate], Sequence[Term]]  # (tensor, coordinate) -> what was stored, each time


def stores(loop: Loop, terms: Terms) -> Stores:
    """Return the stores of one iteration of a loop."""
    work = _Work(terms)
    execute(loop.unrolled(1), work, Order())
    return work.stored


def product(terms: Terms, layouts: str, left: Term, right: Term) -> Term:
    """left @ right, which lie as `layouts` says."""
    return terms.of((MULTIPLY, layouts), left, right)


def computed(terms: Terms, function: str, *of: Hashable, tiles: Sequence[Term], result: int = 0) -> Term:
    """Result number `result` of a function of tiles, and of these values."""
    return terms.of((COMPUTE, function, result, *of), *tiles)


def copied(terms: Terms, tensor: str, coordinate: Coordinate, part: int | None = None) -> Term:
    """A tile of a tensor, or of its parts one."""
    return terms.leaf(tensor, coordinate if part is None else (*coordinate, part))


class _Work:
    """The effect of operations on terms."""

    def __init__(self, terms: Terms):
        self.terms = terms
        self.stored: dict[tuple[str, Coordinate], list[Term]] = defaultdict(list)

    def do(self, agent: int, step: Do, found: Sequence[Parts]) -> Sequence[Parts]:
        """Return the results of an operation."""
        tiles = [self._whole(parts) for parts in found]
        match step.does:
            case (str(kind), str(tensor), tuple(coordinate)) if kind == COPY:
                (written,) = step.writes
                if (count := prod(end - first for first, end in written.box)) == 1:
                    return [(copied(self.terms, tensor, coordinate),)]
                return [tuple(copied(self.terms, tensor, coordinate, part) for part in range(count))]
            case (str(kind), str(layouts), bool(in_order)) if kind == MULTIPLY:
                one, two, *before = tiles
                made = product(self.terms, layouts, *((one, two) if in_order else (two, one)))
                return [(self.terms.sum([*before, made]),)]
            case (str(kind), str(function), *of) if kind == COMPUTE:
                return [(computed(self.terms, function, *of, tiles=tiles, result=n),) for n in range(len(step.writes))]
            case (str(kind),) if kind == WRITE:
                return [(tiles[0],)]
            case (str(kind), str(tensor), tuple(coordinate)) if kind == STORE:
                self.stored[tensor, coordinate].append(self.values(tiles))
                return []
        raise AssertionError(f"{step} makes nothing that is known")

    def values(self, tiles: Sequence[Term]) -> Term:
        """Return the stored term of tiles: of one tile that tile."""
        return tiles[0] if len(tiles) == 1 else self.terms.of("values", *tiles)

    def lost(self, agent: int, step: Do) -> None:
        """A store of what nobody knows is equal to nothing."""
        if step.does[0] == STORE:
            _, tensor, coordinate = step.does
            self.stored[tensor, coordinate].append(self.terms.unknown())  # type: ignore[index]

    def _whole(self, parts: Parts) -> Term:
        """A tile whose parts are rows of one: of a tile of rows of one term, that term."""
        first, *others = parts
        return first if all(other == first for other in others) else self.terms.of("parts", *parts)
