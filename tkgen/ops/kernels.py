"""The kernels behind the operators: specs of this package, built once for each target and sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType

import torch

from tkgen.api import load
from tkgen.backends import protocol
from tkgen.execute.operator import run

SPECS = Path(__file__).with_name("specs")
NAMESPACE = "tkgen_ops"
FREE: Mapping[str, int] = MappingProxyType({})  # of a kernel whose sizes are all known at run time, without scalars
_target = "gfx942"


@contextmanager
def emulated(target: str) -> Iterator[None]:
    """Within it, CPU tensors are computed by the machine code for `target` (else for gfx942).

    Raises:
        UnknownTargetError: at the first kernel, where there is no such target.
    """
    global _target
    before, _target = _target, target
    try:
        yield
    finally:
        _target = before


def compute(
    name: str, *tensors: torch.Tensor, sizes: Mapping[str, int] = FREE, scalars: Mapping[str, float] = FREE
) -> torch.Tensor:
    """The one output of a kernel: see `outputs`."""
    (found,) = outputs(name, *tensors, sizes=sizes, scalars=scalars)
    return found


def outputs(
    name: str, *tensors: torch.Tensor, sizes: Mapping[str, int] = FREE, scalars: Mapping[str, float] = FREE
) -> tuple[torch.Tensor, ...]:
    """What the spec `name` makes of tensors, in the order of its outputs; `sizes` are those of its fixed dimensions.

    Raises:
        ValueError: types, shapes, sizes or devices that the kernel cannot do.
        SpecError: sizes for which the spec cannot be built.
        ToolchainError: there is no compiler, or it fails.
    """
    build = _built(name, architecture(tensors[0].device), tuple(sorted(sizes.items())))
    found = run(build, *tensors, **scalars)
    return found if isinstance(found, tuple) else (found,)


@cache
def _built(name: str, target: str, sizes: tuple[tuple[str, int], ...]) -> protocol.Build:
    return load(SPECS / f"{name}.tk", dict(sizes), target).check().build()


def architecture(device: torch.device) -> str:
    """The target of the kernels that compute a device's tensors."""
    if device.type != "cuda":
        return _target
    return str(torch.cuda.get_device_properties(device).gcnArchName).partition(":")[0]


def check(name: str, **tensors: torch.Tensor) -> None:
    """Raises ValueError for tensors that are not bf16."""
    for which, tensor in tensors.items():
        if tensor.dtype is not torch.bfloat16:
            raise ValueError(f"{name}: {which} is bf16, not {tensor.dtype}")
