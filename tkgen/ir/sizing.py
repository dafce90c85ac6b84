"""The sizes of a launch, the work of its blocks, and the common part of launches of one kernel and of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from tkgen.ir.tensors import Dim, ScalarArg, Tensor

if TYPE_CHECKING:
    from tkgen.ir.launch import Launch


@dataclass(frozen=True)
class Piece:
    """The work of a block at a time: K-steps `first` to `last` - 1 of the output tile at (`row`, `col`), in tiles.

    `matrix` says of which output, where there is a batch of them. Without a contraction there are no K-steps.
    """

    row: int
    col: int
    first: int
    last: int
    matrix: int = 0

    @property
    def steps(self) -> int:
        """K-steps of it."""
        return self.last - self.first


class Taking(Protocol):
    """The arguments of one kernel, or of several, as a launch needs them."""

    @property
    def arguments(self) -> Sequence[Tensor]:
        """All tensors, in the order of the spec."""

    @property
    def reads(self) -> Sequence[Tensor]:
        """Those to be given."""

    @property
    def outputs(self) -> Sequence[Tensor]:
        """The tensors that it writes for its caller."""

    @property
    def scalars(self) -> Sequence[ScalarArg]:
        """The scalars."""

    @property
    def added(self) -> frozenset[str]:
        """The outputs to which several blocks add, which must be set before the launch."""

    @property
    def starts(self) -> Mapping[str, float]:
        """The number that each of them must be set to."""

    @property
    def dims(self) -> Sequence[Dim]:
        """All dimensions."""


@dataclass(frozen=True)
class Box:
    """A piece of what a block computes: the places of each axis, by its name, of which the block has a part alone.

    Of a ragged axis `groups` has the places of the group in which these are.
    """

    places: Mapping[str, range]
    groups: Mapping[str, range] = field(default_factory=dict)

    def first(self, axis: str) -> int:
        """The first place, as the equations count: of a ragged axis from where the group begins."""
        return self.places[axis].start - (self.groups[axis].start if axis in self.groups else 0)


@dataclass(frozen=True)
class Sizing(ABC):
    """`program` at the sizes `extents`, by the names of dimensions; only those asked about need be there."""

    program: Taking = field(repr=False)
    extents: Mapping[str, int] = field(compare=False)

    @property
    @abstractmethod
    def launches(self) -> tuple[Launch[Any], ...]:
        """The launches of single kernels, in order."""

    @abstractmethod
    def with_launches(self, launches: Sequence[Launch[Any]]) -> Sizing:
        """The same with others of its kernels."""

    @property
    def blocks(self) -> int:
        """Blocks to launch, of all kernels."""
        return sum(launch.blocks for launch in self.launches)

    @property
    def written(self) -> tuple[Tensor, ...]:
        """The tensors that it writes."""
        return tuple(self.program.outputs)

    @property
    def flops(self) -> int:
        """Floating-point operations of all products."""
        return sum(launch.flops for launch in self.launches)

    @property
    def moved_bytes(self) -> int:
        """Bytes that it reads and writes, each tensor once."""
        return sum(map(self.bytes, (*self.program.reads, *self.program.outputs)))

    def first(self, count: int) -> Sizing:
        """The launch of the first `count` kernels."""
        return self

    def shape(self, tensor: Tensor) -> list[int]:
        """The sizes of a tensor in memory: elements, or bytes along a dimension of which they hold several."""
        sizes = [self.extents[d.name] if d.size is None else self.extents.get(d.name, d.size) for d in tensor.dims]
        return tensor.dtype.stored(sizes)

    def given(self, tensor: Tensor) -> list[int]:
        """The sizes of a tensor that a caller passes: as the spec declares it."""
        if not tensor.declared:
            return self.shape(tensor)
        return tensor.dtype.stored([dim.size or self.extents[dim.name] for dim in tensor.declared])

    def bytes(self, tensor: Tensor) -> int:
        """The size of a tensor in memory."""
        return prod(self.shape(tensor)) * tensor.dtype.bytes
