"""Along which axes the values of a kernel have directions, and where along them they are, as it is carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tkgen.ir.equations import Axis, AxisKind
from tkgen.ir.tiles import Tile, split


class Directions:
    """The sizes of axes, and the places of the moment along those of loops and groups."""

    extents: Mapping[str, int]
    axes: Mapping[str, Axis]
    places: dict[str, range]  # where a loop is
    group: dict[str, range]  # the places of ragged axes and of their index, of the group at hand

    def length(self, axis: Axis) -> int:
        """The size of an axis; of a ragged one that of the group at hand."""
        return len(self.group[axis.name]) if axis.name in self.group else self.extents[axis.dim.name]

    def first(self, axis: Axis) -> int:
        """The place from which those of an axis are counted."""
        return self.group[axis.name].start if axis.within else 0

    def place(self, axis: Axis) -> range:
        """Where along an axis the values of the moment are: all of it, or the loop's tile; in the whole dimension."""
        all_of_it = self.group.get(axis.name, range(self.length(axis)))
        return self.places.get(axis.name, all_of_it)

    def at(self, axis: Axis) -> int | None:
        """The one place of an index that values have no direction along: a loop's, or that of the group at hand."""
        one = axis.is_index and (axis.kind is AxisKind.SEQUENTIAL or axis.name in self.group)
        return self.place(axis).start if one else None

    def tiles(self, axis: Axis) -> int:
        """The number of an axis' tiles."""
        return -(-self.length(axis) // (axis.tile or 1))

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
                of = torch.arange(self.length(axis)) // (axis.tile or 1)
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
