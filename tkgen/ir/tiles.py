"""Numbers along named directions, with bounds on their errors: what `tkgen.ir.meaning` computes with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from tkgen.ir.equations import Axis, AxisKind, Digit, Index


@dataclass(frozen=True)
class Tile:
    """Numbers along named directions, with a bound on their errors; None where they are exact."""

    dims: tuple[str, ...]
    value: Tensor
    error: Tensor | None = None

    def along(self, dims: tuple[str, ...]) -> Tile:
        """With directions in this order, which has all of its own; of length 1 where it had none."""
        error = None if self.error is None else along_dims(self.error, self.dims, dims)
        return Tile(dims, along_dims(self.value, self.dims, dims), error)


def along_dims(tensor: Tensor, dims: tuple[str, ...], wanted: tuple[str, ...]) -> Tensor:
    """With its directions in the order of `wanted`, which has all of them; of length 1 where it has none."""
    tensor = tensor.permute([dims.index(d) for d in wanted if d in dims])
    return tensor[tuple(slice(None) if d in dims else None for d in wanted)]


def cut(tile: Tile, name: str, first: int, end: int | None) -> Tile:
    """The part of a tile from place `first` to before `end` of a direction; without `end` that place alone."""
    if name not in tile.dims:
        return tile
    at = tile.dims.index(name)
    key = (slice(None),) * at + (first if end is None else slice(first, end),)
    dims = tile.dims if end is not None else (*tile.dims[:at], *tile.dims[at + 1 :])
    return Tile(dims, tile.value[key], None if tile.error is None else tile.error[key])


def picked(tensor: Tensor, at: int, places: Tensor) -> Tensor:
    """The parts of a tensor at `places` along dimension `at`, whose dimensions are theirs; zeros for none."""
    there = (places >= 0) & (places < tensor.shape[at])
    found = tensor.index_select(at, places.clamp(0, tensor.shape[at] - 1).flatten())
    found = found.reshape((*tensor.shape[:at], *places.shape, *tensor.shape[at + 1 :]))
    return torch.where(there[(..., *[None] * (tensor.dim() - 1 - at))], found, 0.0)


def split(tile: Tile, name: str, dims: tuple[str, str], extents: tuple[int, int], filler: float) -> Tile:
    """With two directions in place of one; `filler` where they have places that it has not."""
    at = tile.dims.index(name)

    def parts(tensor: Tensor, fill: float) -> Tensor:
        shape = list(tensor.shape)
        shape[at] = extents[0] * extents[1] - shape[at]
        padded = torch.cat([tensor, tensor.new_full(shape, fill)], at)
        return padded.reshape(*tensor.shape[:at], *extents, *tensor.shape[at + 1 :])

    error = None if tile.error is None else parts(tile.error, 0.0)
    return Tile((*tile.dims[:at], *dims, *tile.dims[at + 1 :]), parts(tile.value, filler), error)


def stacked(name: str, tiles: Sequence[Tile]) -> Tile:
    """Tiles of the same directions as one that has another one, `name`."""
    value, error = torch.stack([t.value for t in tiles]), None
    if any(t.error is not None for t in tiles):
        error = torch.stack([torch.zeros_like(t.value) if t.error is None else t.error for t in tiles])
    return Tile((name, *tiles[0].dims), value, error)


class Directions:
    """The sizes of axes, and the places of the moment along those of loops and groups."""

    extents: Mapping[str, int]
    axes: Mapping[str, Axis]
    places: dict[str, range]  # where a loop is
    group: dict[str, range]  # the places of ragged axes and of their index, of the group at hand
    slab: Mapping[str, range] = MappingProxyType({})  # the tiles of parallel axes at hand, where not all are at once

    def length(self, axis: Axis) -> int:
        """The size of an axis; of a ragged one that of the group at hand."""
        return len(self.group[axis.name]) if axis.name in self.group else self.extents[axis.dim.name]

    def first(self, axis: Axis) -> int:
        """The place from which those of an axis are counted."""
        return self.group[axis.name].start if axis.within else 0

    def reach(self, axis: Axis) -> range:
        """The positions of an axis at hand: all of it, of a ragged one those of the group, or a slab's tiles."""
        return self.group.get(axis.name, self.slab.get(axis.name, range(self.length(axis))))

    def place(self, axis: Axis) -> range:
        """Return the positions of the current values along an axis: those at hand, or the loop's tile."""
        return self.places.get(axis.name, self.reach(axis))

    def at(self, axis: Axis) -> int | None:
        """The one place of an index that values have no direction along: a loop's, or that of the group at hand."""
        one = axis.is_index and (axis.kind is AxisKind.SEQUENTIAL or axis.name in self.group)
        return self.place(axis).start if one else None

    def integer(self, value: float) -> Tile:
        """An integer, which has no direction."""
        return Tile((), torch.tensor(int(value)))

    def coordinate(self, axis: Axis) -> Tile:
        """The positions along an axis."""
        place, one = self.place(axis), self.at(axis)
        if one is not None:
            return self.integer(one)
        first = self.first(axis)
        return Tile((axis.name,), torch.arange(place.start - first, place.stop - first))

    def of_group(self, tensor: Tensor, at: int, index: Index) -> Tensor:
        """The part of a tensor along dimension `at` that an affine index reaches: of a ragged axis its group."""
        group = self.group.get(index.shifted.name) if index.shifted is not None else None
        return tensor if group is None else tensor.narrow(at, group.start, len(group))

    def affine(self, index: Index) -> Tile:
        """The positions that an affine index takes."""
        places = Tile((), torch.tensor(index.at))
        for term in index.terms:
            if term.axis is None:
                places = Tile(places.dims, places.value + term.factor * self.extents[term.of.name])
                continue
            along = self.coordinate(term.axis)
            value = along.value.long()
            if isinstance(term.of, Digit):
                value = (term.of.first + value) // term.of.divisor % term.of.size
            dims = (*places.dims, *(d for d in along.dims if d not in places.dims))
            factor = term.factor * along_dims(value, along.dims, dims)
            places = Tile(dims, along_dims(places.value, places.dims, dims) + factor)
        return places

    def tiles(self, axis: Axis) -> int:
        """The number of an axis' tiles at hand."""
        return -(-len(self.reach(axis)) // (axis.tile or 1))

    def visits(self, axis: Axis, start: int) -> Tile | None:
        """Return a mask of the tiles of the axes that bound or divide a loop that visit its tile at `start`; None for
        all.
        """
        if axis.part is not None:
            index = self.axes[axis.part]
            run = axis.part_length(self.length(axis), self.length(index))
            return Tile((index.name,), torch.arange(self.length(index)) == start // run)
        found: Tile | None = None
        for name in dict.fromkeys(bound.axis for bound in axis.bounds):
            here = self.within_bounds(axis, start, self.axes[name])
            if found is None:
                found = here
            else:
                dims, (a, b) = self.aligned([found, here])
                found = Tile(dims, a.value & b.value)
        return found

    def within_bounds(self, axis: Axis, start: int, of: Axis) -> Tile:
        """At which places of `of`, or tiles of it, a loop is that it bounds."""
        longer, one = self.length(axis) - self.length(of), self.at(of)
        if one is not None:
            return Tile((), torch.tensor(axis.visits(start, {of.name: range(one, one + 1)}, longer)))
        size = of.tile or 1
        own = [axis.visits(start, {of.name: range(n * size, (n + 1) * size)}, longer) for n in range(self.tiles(of))]
        return Tile((of.name if of.tile is None else f"{of.name}#",), torch.tensor(own))

    def aligned(self, tiles: Sequence[Tile]) -> tuple[tuple[str, ...], list[Tile]]:
        """The directions of all, and each along all of them, of length 1 where it had none."""
        named = {d for t in tiles for d in t.dims}
        tiles = [self.widened(t, named) for t in tiles]
        dims = tuple(dict.fromkeys(d for t in sorted(tiles, key=lambda t: -len(t.dims)) for d in t.dims))
        return dims, [t.along(dims) for t in tiles]

    def widened(self, tile: Tile, named: set[str]) -> Tile:
        """With a direction of elements in place of one of tiles, where others have that of elements."""
        for name in tile.dims:
            if name.endswith("#") and name[:-1] in named:
                axis, at = self.axes[name[:-1]], tile.dims.index(name)
                of = torch.arange(len(self.reach(axis))) // (axis.tile or 1)
                value = tile.value.index_select(at, of)
                error = None if tile.error is None else tile.error.index_select(at, of)
                tile = Tile(tuple(d if d != name else axis.name for d in tile.dims), value, error)
        return tile

    def by_tile(self, tile: Tile, axis: Axis, filler: float, inner: str = "") -> Tile:
        """With the direction of a parallel axis split: which tile, and where in it; `filler` beyond the end."""
        return split(tile, axis.name, (f"{axis.name}#", inner or axis.name), (self.tiles(axis), axis.tile or 1), filler)

    def along(self, tile: Tile, axis: Axis) -> Tile:
        """With the direction of `axis`, along which it may have been one number."""
        tile = self.widened(tile, {axis.name})
        if axis.name in tile.dims:
            return tile
        size = len(self.place(axis))
        error = None if tile.error is None else tile.error.unsqueeze(-1).expand(*tile.error.shape, size)
        return Tile((*tile.dims, axis.name), tile.value.unsqueeze(-1).expand(*tile.value.shape, size), error)
