"""The kernels behind the operators: specs of this package, built once for each target and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType

import torch

from tkgen.api import load
from tkgen.backends import protocol
from tkgen.execute.operator import run
from tkgen.targets import load_target

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
    return load(text_for(name, target), dict(sizes), target).check().build()


def text_for(name: str, target: str) -> Path | str:
    """The spec `name`, in the form that is fastest on a target.

    Where there are direct loads of 16 bytes a lane (gfx950), what the loops of attention multiply goes to LDS by them:
    at 4096 queries the forward pass is predicted to reach 1341 TFLOP/s instead of 1182 (docs/prediction.md), gradients
    to take 0.83 of the time. A backward pass must compute the scores of its forward pass bit by bit, so both do. On
    gfx942 no schedule is predicted to be more than 2 % faster than the plain one with and without a causal mask.
    """
    path = SPECS / f"{name}.tk"
    if not name.startswith("attention") or 16 not in load_target(target).direct_load_bytes:
        return path
    return re.sub(r"(shared (?:K, V|Q, GO) buffers 2)", r"\1 via direct", path.read_text(encoding="utf-8"))


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
