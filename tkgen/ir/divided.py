"""Dimensions of which several places share one of another: heads that share a head of keys, `K[b, h / GROUP, n, k]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tkgen.ir.equations import Kernel, Load, Store, walk
from tkgen.ir.tensors import Dim
from tkgen.targets.model import round_up

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Divided:
    """Of the dimension `large`, `count` places after each other share one of `small`.

    `by_tile`: a tile of `large` has one (`n / 128`), the last one maybe fewer places.
    """

    large: Dim
    count: int
    small: Dim
    by_tile: bool

    @property
    def dynamic(self) -> bool:
        """True if only run time knows that it is so."""
        return self.small.size is None

    def of(self, size: int) -> int:
        """The size of `small` where `large` has this one."""
        return -(-size // self.count)


def divided(kernel: Kernel) -> tuple[Divided, ...]:
    """Return the pairs of dimensions that the divided indices of a kernel relate."""
    accesses = (op.source if isinstance(op, Load) else op.target
                for op in walk(kernel.body) if isinstance(op, Load | Store))  # fmt: skip
    indices = (pair for a in accesses for pair in zip(a.tensor.dims, a.indices, strict=True))
    parts = ((i, i.axis, dim) for dim, i in indices if i.axis and i.divisor > 1 and not i.remainder)
    found = (Divided(axis.dim, i.divisor, dim, not axis.is_index) for i, axis, dim in parts)
    return tuple(dict.fromkeys(found))


def unit(dim: Dim, of: Sequence[Divided]) -> int:
    """Return the number of which the size of a dimension must be a multiple, so that all shares come out even."""
    shared = [d for d in of if d.dynamic and not d.by_tile]
    return prod(d.count for d in shared) if dim in [d.large for d in shared] else 1


def completed(
    dims: Sequence[Dim], of: Sequence[Divided], extents: Mapping[str, int], places: int = 1
) -> dict[str, int]:
    """`extents` and a size of every other dimension: its own, or about so many `places` where only run time knows.

    More, where several share one of another dimension, and of that one as many as they need.
    """
    found = {d.name: d.size for d in dims if d.size is not None} | dict(extents)
    follow = {d.small for d in of if d.dynamic}
    found |= {d.name: round_up(places, unit(d, of)) for d in dims if d.name not in found and d not in follow}
    missing = [d for d in of if d.small.name not in found]
    while missing:  # one may be shared by places of one that is shared itself
        known = next(d for d in missing if d.large.name in found)
        found[known.small.name] = known.of(found[known.large.name])
        missing = [d for d in missing if d.small.name not in found]
    return found


def extents_of(kernel: Kernel, inputs: Mapping[str, Tensor], given: Mapping[str, int]) -> dict[str, int]:
    """The size of every dimension. Raises ValueError where it is not known, or not the same everywhere."""
    found = dict(given)
    for tensor in kernel.tensors:
        if tensor.name in inputs:
            if inputs[tensor.name].dim() != len(tensor.dims):
                raise ValueError(f"{tensor.name} has {len(tensor.dims)} dimensions, not {inputs[tensor.name].dim()}")
            for dim, size in zip(tensor.dims, tensor.dtype.counted(inputs[tensor.name].shape), strict=True):
                if found.setdefault(dim.name, size) != size:
                    raise ValueError(f"{dim.name} is {found[dim.name]}, but {size} in {tensor.name}")
    for shared in divided(kernel):  # of these an output alone may have the smaller one
        if shared.large.name in found:
            found.setdefault(shared.small.name, shared.of(found[shared.large.name]))
    used = [d for t in kernel.tensors for d in t.dims] + [a.dim for a in kernel.axes]
    for dim in used:
        if dim.name not in found:
            if dim.size is None:
                raise ValueError(f"{dim.name} has no size: give one")
            found[dim.name] = dim.size
    return found
