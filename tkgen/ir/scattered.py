"""The meaning of stores to computed positions: where each element goes, and what values at one position make.

Elements whose position lies outside of the tensor are dropped. Values that are combined (`+=`, `max=`, `min=`) are
collected during the run, since the order in which they arrive is not known: then each position combines all of its
values at once, as a reduction of as many terms. So the bound on a sum of f32 is that of any order of its own terms.
Sums of i32 are exact, modulo 2^32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from tkgen.ir import rounding
from tkgen.ir.equation_text import access_text
from tkgen.ir.equations import Access, Axis, Index, Kernel, Store, Term, Update
from tkgen.ir.tensors import DType
from tkgen.ir.tiles import Directions, Tile, along_dims

Gather = Callable[[str, Tile, int], "tuple[Tensor, Tensor | None]"]
REDUCED = {Update.ADD: "sum", Update.MAX: "max", Update.MIN: "min"}


@dataclass(frozen=True)
class Placed:
    """The elements of a store that lie in the tensor: the number of each in the tile, and its position."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chosen: Tensor
    at: tuple[Tensor, ...]

    def of(self, tile: Tile) -> Tile:
        """The values of these elements."""

        def picked(values: Tensor) -> Tensor:
            return along_dims(values, tile.dims, self.dims).expand(self.shape).reshape(-1)[self.chosen]

        return Tile(("element",), picked(tile.value), None if tile.error is None else picked(tile.error))


@dataclass
class Combined:
    """The values that stores of one `update` bring to computed positions of a tensor, and the element of each."""

    update: Update
    at: list[Tensor] = field(default_factory=list)
    values: list[Tile] = field(default_factory=list)


def placed(here: Directions, target: Access, positions: Callable[[Access], Tile], visited: list[Tile]) -> Placed:
    """The elements of a store that lie in its tensor, and that `visited` masks leave.

    `positions` loads those that a tensor of i32 holds.
    """
    extents = [here.extents[dim.name] for dim in target.tensor.dims]
    found, limits = list[Tile](), list[tuple[int, int]]()
    for index, extent in zip(target.indices, extents, strict=True):
        first, limit = 0, extent
        if index.terms:
            tile = here.affine(index)
            if index.shifted is not None and index.shifted.name in here.group:
                group = here.group[index.shifted.name]
                first, limit = group.start, len(group)
        elif index.through is not None:
            tile = positions(index.through)
        elif index.axis is None:
            tile = Tile((), torch.tensor(index.at))
        else:
            tile = _along(here, index.axis, index.divisor)
        found.append(Tile(tile.dims, tile.value.long() + first))
        limits.append((first, limit + first))
    dims = tuple(dict.fromkeys(d for tile in found for d in tile.dims))
    shape = tuple(len(here.place(here.axes[d])) for d in dims)
    there = torch.ones(shape, dtype=torch.bool)
    at = [along_dims(tile.value, tile.dims, dims).expand(shape) for tile in found]
    for places, (first, last) in zip(at, limits, strict=True):
        there = there & (places >= first) & (places < last)
    for mask in (here.widened(each, set(dims)) for each in visited):
        there = there & along_dims(mask.value, mask.dims, dims).bool()
    chosen = there.reshape(-1).nonzero().flatten()
    return Placed(dims, shape, chosen, tuple(places.reshape(-1)[chosen] for places in at))


def _along(here: Directions, axis: Axis, divisor: int) -> Tile:
    tile = here.coordinate(axis)
    return Tile(tile.dims, (tile.value.long() + here.first(axis)) // divisor)


def flat(at: tuple[Tensor, ...], shape: torch.Size) -> Tensor:
    """The number of an element in a row-major tensor."""
    found = torch.zeros(at[0].shape if at else (), dtype=torch.int64)
    for n, places in enumerate(at):
        found = found + places * prod(shape[n + 1 :])
    return found


def refuse_equal(op: Store, elements: Placed, shape: torch.Size) -> None:
    """Raises ValueError where two elements of a store have one position: which of them remains is not known."""
    numbers = flat(elements.at, shape)
    order = numbers.argsort(stable=True)
    twice = (numbers[order][1:] == numbers[order][:-1]).nonzero().flatten()
    if not len(twice):
        return
    pair = order[int(twice[0])], order[int(twice[0]) + 1]
    position = ", ".join(str(int(places[pair[0]])) for places in elements.at)
    places = torch.unravel_index(elements.chosen[torch.stack(pair)], elements.shape)
    names = [", ".join(f"{d} = {int(p[n])}" for d, p in zip(elements.dims, places, strict=True)) for n in range(2)]
    raise ValueError(f"`{access_text(op.target)}` has the position [{position}] twice: at {names[0]} and at {names[1]}")


def combined(
    found: Combined, dtype: DType, gather: Gather, wrap: Callable[[Tensor, DType], Tensor]
) -> Iterator[tuple[Tensor, Tile]]:
    """The elements to which something is stored, and what all values at each make; those with as many at a time.

    `wrap` keeps sums of integers within a type.
    """
    at = torch.cat(found.at)
    value = torch.cat([tile.value for tile in found.values])
    errors = [tile.error for tile in found.values]
    error = None
    if any(e is not None for e in errors):
        pairs = zip(errors, found.values, strict=True)
        error = torch.cat([torch.zeros_like(t.value) if e is None else e for e, t in pairs])
    order = at.argsort(stable=True)
    elements, counts = torch.unique_consecutive(at[order], return_counts=True)
    firsts = counts.cumsum(0) - counts
    for count in counts.unique().tolist():
        mine = (counts == count).nonzero().flatten()
        chosen = order[firsts[mine][:, None] + torch.arange(count)]
        tile = Tile(("element", "stored"), value[chosen], None if error is None else error[chosen])
        if dtype.whole and found.update is Update.ADD:
            summed = None if tile.error is None else tile.error.sum(1)
            yield elements[mine], Tile(("element",), wrap(tile.value.sum(1), dtype), summed)
        else:
            yield elements[mine], Tile(("element",), *gather(REDUCED[found.update], tile, 1))


def results_of(found: Combined, dtype: DType) -> tuple[Tensor, Tensor, Tensor]:
    """The elements to which something is stored, what is then there before it is rounded, and the bound on its error.

    Values are combined with the start of the tensor. In f64, with bounds for f32.
    """
    if found.update is Update.SET:
        value = torch.cat([tile.value for tile in found.values])
        bounds = [rounding.stored(tile.value, tile.error, dtype) for tile in found.values]
        return torch.cat(found.at), value, torch.cat(bounds)
    made = list(combined(found, dtype, reduced, wrapped))
    bounds = [rounding.stored(tile.value, tile.error, dtype) for _, tile in made]
    nothing = torch.empty(0, dtype=torch.float64)
    elements = torch.cat([torch.empty(0, dtype=torch.int64), *(at for at, _ in made)])
    return elements, torch.cat([nothing, *(tile.value for _, tile in made)]), torch.cat([nothing, *bounds])


def reduced(function: str, tile: Tile, at: int) -> tuple[Tensor, Tensor | None]:
    """A reduction along a direction, with the bound on its error."""
    if function == "sum":
        return rounding.summed(tile.value, tile.error, at)
    return rounding.extreme(tile.value, tile.error, at, least=function == "min")


def wrapped(values: Tensor, dtype: DType) -> Tensor:
    """Integers modulo those that a type holds, as memory adds them."""
    least, count = dtype.range[0], 2**dtype.bits
    return (values - least).remainder(count) + least


class Scatters(Directions, ABC):
    """Accesses of one run of a kernel to computed positions."""

    kernel: Kernel
    tensors: dict[str, Tile]  # what is in memory
    given: Collection[str]  # the tensors that hold something before the launch
    visited: list[Tile]
    combined: dict[str, Combined]

    @abstractmethod
    def view(self, tensor: Tensor, access: Access) -> tuple[Tensor, tuple[str, ...]]:
        """The part of a tensor that is touched, and its directions."""

    @abstractmethod
    def convert(self, tile: Tile, dtype: DType) -> Tile:
        """A tile rounded to a type."""

    @abstractmethod
    def gather(self, function: str, tile: Tile, at: int) -> tuple[Tensor, Tensor | None]:
        """A reduction along a direction."""

    @abstractmethod
    def put(
        self, name: str, dtype: DType, at: tuple[int | slice | Tensor, ...], value: Tensor, error: Tensor | None,
        mask: Tensor,
    ) -> None:  # fmt: skip
        """Write what is stored."""

    def scatter(self, op: Store, tile: Tile) -> None:
        """Store to computed positions, or keep the values that are combined there until all are known."""
        name, dtype = op.target.tensor.name, op.target.tensor.dtype
        old = self.tensors[name].value
        elements = placed(self, op.target, self.positions, self.visited)
        tile = elements.of(self.widened(tile, set(elements.dims)))
        if op.update is Update.SET:
            refuse_equal(op, elements, old.shape)
            self.put(name, dtype, elements.at, tile.value, tile.error, torch.ones((), dtype=torch.bool))
        elif dtype.whole:
            tile = self.convert(tile, dtype)
        known = self.combined.setdefault(name, Combined(op.update))
        known.at.append(flat(elements.at, old.shape))
        known.values.append(tile)

    def wrapped(self, values: Tensor, dtype: DType) -> Tensor:
        """Sums of integers as memory holds them."""
        return wrapped(values, dtype)

    def positions(self, access: Access) -> Tile:
        """The positions that a tensor of i32 holds."""
        held, dims = self.view(self.tensors[access.tensor.name].value, access)
        return Tile(dims, held)

    def positions_of(self, index: Index) -> Tile:
        """The positions that an index takes; those that a tensor holds may be none of its dimension."""
        if index.through is not None:
            held = self.positions(index.through)
            return Tile(held.dims, held.value.long())
        if index.axis is None:
            return self.affine(index)
        places = self.affine(Index(None, terms=(Term(index.axis),)))
        return Tile(places.dims, places.value // index.divisor)

    def joint(self, tensor: Tensor, access: Access) -> tuple[Tensor, tuple[str, ...]]:
        """The elements of a tensor whose indices share axes, as those along a flattened one do; zeros for none."""
        taken = list(map(self.positions_of, access.indices))
        dims = tuple(dict.fromkeys(d for place in taken for d in place.dims))
        places = [along_dims(place.value, place.dims, dims) for place in taken]
        there = torch.ones((), dtype=torch.bool)
        for place, size in zip(places, tensor.shape, strict=True):
            there = there & (place >= 0) & (place < size)
        inside = tuple(place.clamp(0, size - 1) for place, size in zip(places, tensor.shape, strict=True))
        return torch.where(there, tensor[inside], 0.0), dims

    def combine(self) -> None:
        """Store what the values at each position make, with the element that is there if it was given."""
        types = {t.name: t.dtype for t in self.kernel.outputs}
        for name, found in self.combined.items():
            if found.update is Update.SET:
                continue
            old = self.tensors[name]
            if name in self.given:
                touched = torch.cat(found.at).unique()
                found.at.append(touched)
                error = None if old.error is None else old.error.flatten()[touched]
                found.values.append(Tile(("element",), old.value.flatten()[touched], error))
            for elements, tile in combined(found, types[name], self.gather, self.wrapped):
                at = torch.unravel_index(elements, old.value.shape)
                self.put(name, types[name], at, tile.value, tile.error, torch.ones((), dtype=torch.bool))
