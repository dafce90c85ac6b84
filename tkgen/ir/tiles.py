"""Numbers along named directions, with bounds on their errors: what `tkgen.ir.meaning` computes with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


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
    found = found.reshape(*tensor.shape[:at], *places.shape, *tensor.shape[at + 1 :])
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
