"""The sizes of a kernel's dimensions, from the tensors that it is given."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tkgen.ir.divided import divided
from tkgen.ir.equations import Kernel


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
                raise ValueError(f"{dim.name} is not known: give its size")
            found[dim.name] = dim.size
    return found
