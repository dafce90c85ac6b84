"""The terms of sums of products, by which a wrong element can be explained (`tkgen.verify.diagnose`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from tkgen.ir.equations import Access, AxisKind, Kernel, Load, Op, Product, Store, Value, reads, walk, writes
from tkgen.ir.tiles import Tile, along_dims
from tkgen.verify import field, ring
from tkgen.verify.compare import spread
from tkgen.verify.field import P, Q
from tkgen.verify.meaning import Meaning
from tkgen.verify.ring import Ring
from tkgen.verify.run import Drawn

Run = tuple[int, int]  # the first and the last of some terms


@dataclass(frozen=True)
class Factors:
    """A sum of products that an output is made of: both factors along named directions, the last one the sum's."""

    output: str
    dims: tuple[str, ...]  # of the output's dimensions, by the axis that each goes along
    axis: str
    left: Tile
    right: Tile
    names: tuple[Access | None, Access | None]
    meant: Ring

    def rows(self, place: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
        """Of one element of the output, the terms' two factors, in both fields."""
        left, right = (self._row(t, place) for t in (self.left, self.right))
        return left, right

    def _row(self, tile: Tile, place: Sequence[int]) -> list[Tensor]:
        at = dict(zip(self.dims, place, strict=True))
        planes = ring.numeric(along_dims(tile.value, tile.dims, (*(d for d in tile.dims if d != self.axis), self.axis)))
        key = tuple(at.get(d, 0) for d in tile.dims if d != self.axis)
        return [planes.p[key], planes.q[key]]

    def scales(self, place: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """By what the sum may be multiplied in the output: by nothing, or by what makes it the output."""
        yield 1, 1
        left, right = self.rows(place)
        found = []
        for i, (modulus, meant) in enumerate(((P, self.meant.p[place]), (Q, self.meant.q[place]))):
            total = (left[i] * right[i] % modulus).sum() % modulus
            found.append(int(meant * field.inverse(total, modulus) % modulus) if int(total) and meant > 0 else 1)
        if found != [1, 1]:
            yield found[0], found[1]

    def along(self, run: Run) -> str:
        """`k 16..31`."""
        return f"{self.axis} {spread(list(range(run[0], run[1] + 1)))}"

    def text(self, place: Sequence[int], left: Run, right: Run) -> str:
        """`A[17, 64..79] * B[33, 64..79]`."""
        at = dict(zip(self.dims, place, strict=True))
        runs = zip(self.names, (left, right), strict=True)
        return " * ".join(self._named(access, at | {self.axis: run}) for access, run in runs)

    def _named(self, access: Access | None, at: Mapping[str, int | Run]) -> str:
        if access is None:
            return f"a factor at {self.along(at[self.axis])}"  # type: ignore[arg-type]
        parts = []
        for index in access.indices:
            where = at.get(index.axis.name, 0) if index.axis is not None else index.at
            ends = where if isinstance(where, tuple) else (where, where)
            first, last = (x // index.divisor for x in ends)
            parts.append(str(first) if first == last else f"{first}..{last}")
        return f"{access.tensor.name}[{', '.join(parts)}]"


def factors(
    kernel: Kernel, drawn: Drawn, scalars: Mapping[str, float], extents: Mapping[str, int]
) -> tuple[Factors, ...]:
    """The sums of products of a kernel whose axes are not ragged, each with the outputs that are made of it."""
    if kernel.ragged:
        return ()
    run = _Captured(kernel, drawn.memory, scalars, extents, drawn.rings)
    run.whole()
    made = {v.number: op for op in walk(kernel.body) for v in writes(op)}
    found = []
    for store in kernel.stores:
        dims = tuple(i.axis.name if i.axis is not None else "" for i in store.target.indices)
        if any(i.divisor != 1 or i.axis is None for i in store.target.indices):
            continue
        value = run.tensors[store.target.tensor.name].value
        assert isinstance(value, Ring)
        for product, left, right in run.captured:
            names = (_loaded(product.left, made), _loaded(product.right, made))
            found.append(Factors(store.target.tensor.name, dims, product.axis.name, left, right, names, value))
    return tuple(found)


class _Captured(Meaning):
    """A run that remembers the factors of its products over whole axes."""

    def __init__(
        self, kernel: Kernel, given: Mapping[str, Tensor], scalars: Mapping[str, float], extents: Mapping[str, int],
        rings: Mapping[str, Ring],
    ):  # fmt: skip
        self.captured: list[tuple[Product, Tile, Tile]] = []
        super().__init__(kernel, given, scalars, extents, rings)

    def contracted(self, op: Product, factors: Sequence[Tile], summed: str) -> Tile:
        if op.axis.name not in self.places and op.axis.kind is not AxisKind.PARALLEL and summed == op.axis.name:
            self.captured.append((op, factors[0], factors[1]))
        return super().contracted(op, factors, summed)


def _loaded(value: Value, made: Mapping[int, Op]) -> Access | None:
    """The tensor that a factor is loaded from, as it is or converted."""
    op = made.get(value.number)
    while op is not None and not isinstance(op, Load | Store):
        taken = reads(op)
        if len(taken) != 1:
            return None
        op = made.get(taken[0].number)
    return op.source if isinstance(op, Load) else None
