"""Inputs with which ways of a kernel are taken that normally distributed numbers leave out.

What is largest in the first pass of a loop is mostly about as large as what is largest in all: a branch on how far it
moved is taken once, in the first pass. So in every other draw the numbers that such a loop reads rise along it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tkgen.ir.equations import Kernel, Load, Loop, Map, When, walk
from tkgen.verify.payloads import carries

RISES = (1.0, 4.0, 8.0)  # by which numbers are multiplied in the parts of a loop, one as long as another


def risen(kernels: Sequence[Kernel], memory: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Inputs of which the numbers rise along the loops that go by what is largest so far."""
    found = dict(memory)
    for kernel in kernels:
        for name, dim in sorted(_along(kernel)):
            if name in memory:
                found[name] = _rising(found[name], dim)
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
    """Whether a loop has a branch, or carries what is largest or least so far."""
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
