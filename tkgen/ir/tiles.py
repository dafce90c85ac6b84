"""Numbers along named directions, with bounds on their errors: what `tkgen.ir.meaning` computes with."""

from __future__ import annotations

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


def renamed(tile: Tile, old: str, new: str) -> Tile:
    """With another name for a direction."""
    return Tile(tuple(new if d == old else d for d in tile.dims), tile.value, tile.error)
