"""Inputs with which ways of a kernel are taken that normally distributed numbers leave out.

The maximum of the first iteration of a loop is usually about as large as that of all iterations, so a branch on its
change is taken once, in the first iteration. So in every other draw the numbers that such a loop reads rise along it.

Groups of any length are seldom empty, or longer than a tile: offsets are drawn until there is one of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tkgen.execute.compare import random_offsets
from tkgen.ir.equations import Kernel, Load, Loop, Map, When, walk
from tkgen.ir.segments import parts
from tkgen.verify.payloads import carries

RISES = (1.0, 4.0, 8.0)  # by which numbers are multiplied in the parts of a loop, one as long as another
_DRAWS = 200  # of offsets


def risen(kernels: Sequence[Kernel], memory: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Inputs of which the numbers rise along the loops that go by what is largest so far."""
    found = dict(memory)
    for kernel in kernels:
        for name, dim in sorted(_along(kernel)):
            if name in memory:
                found[name] = _rising(found[name], dim)
    return found


def grouped(
    kernels: Sequence[Kernel], memory: Mapping[str, Tensor], extents: Mapping[str, int], seed: int
) -> dict[str, Tensor]:
    """Inputs with offsets of which a group is empty, and one has more than a tile where that can be."""
    found, generator = dict(memory), torch.Generator().manual_seed(seed)
    for kernel in kernels:
        for tensor, axis in kernel.offsets.items():
            assert axis.within is not None
            if axis.within.lengths or tensor.name not in memory:
                continue
            size = extents[axis.dim.name]
            for _ in range(_DRAWS):
                lengths = [len(part) for part in parts(axis.within, found[tensor.name].tolist(), size)]
                if 0 in lengths and max(lengths) > min(axis.tile or 1, size - 1):
                    break
                found[tensor.name] = random_offsets(len(memory[tensor.name]), size, generator)
    return found


def _along(kernel: Kernel) -> set[tuple[str, int]]:
    """The tensors of floats that such loops read, and the dimension of each along which they do."""
    found = set()
    for loop in (op for op in walk(kernel.body) if isinstance(op, Loop) and _moves(op)):
        for load in (op for op in walk(loop.body) if isinstance(op, Load)):
            tensor = load.source.tensor
            if carries(tensor) and not tensor.dtype.packed:
                found |= {
                    (tensor.name, at)
                    for at, index in enumerate(load.source.indices)
                    if index.axis == loop.axis and index.through is None and index.divisor == 1
                }
    return found


def _moves(loop: Loop) -> bool:
    """Return True if a loop has a branch, or carries what is largest or least so far."""
    carried = {c.inside for c in loop.carries}
    return any(
        isinstance(op, When)
        or (isinstance(op, Map) and op.function in ("max", "min") and not carried.isdisjoint(op.arguments))
        for op in walk(loop.body)
    )


def _rising(memory: Tensor, dim: int) -> Tensor:
    """The numbers of a tensor, those of each part along a dimension multiplied by its factor."""
    size = memory.shape[dim]
    part = torch.arange(size) * len(RISES) // max(size, 1)
    shape = [-1 if d == dim else 1 for d in range(memory.dim())]
    return (memory.float() * torch.tensor(RISES)[part].reshape(shape)).to(memory.dtype)
