"""A built spec launched through libamdhip64: its tensors in device memory, its arguments laid out, its outputs back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from tkgen.backends import protocol
from tkgen.emulate import Buffer, load
from tkgen.emulate.arguments import Geometry, Layout, kernarg
from tkgen.execute.arguments import packed
from tkgen.execute.launch import memory
from tkgen.hardware.hip import Dim, Hip, HipFunction, HipMemory
from tkgen.ir.launch import Launch
from tkgen.ir.sizing import Sizing


@dataclass(frozen=True)
class Ready:
    """One kernel with everything that a launch takes."""

    function: HipFunction
    grid: Dim
    block: Dim
    arguments: bytes

    def start(self, stream: int = 0) -> None:
        """Launch it."""
        self.function.launch(self.grid, self.block, self.arguments, stream)


@dataclass(frozen=True)
class LoadedKernels:
    """The kernels of a build on the GPU."""

    hip: Hip
    build: protocol.Build
    functions: tuple[HipFunction, ...]

    @classmethod
    def of(cls, hip: Hip, build: protocol.Build) -> LoadedKernels:
        """Load every code object. Raises HipError where the runtime refuses one."""
        return cls(hip, build, tuple(hip.function(k.hsaco, k.resources.kernel) for k in build.kernels))

    def ready(self, launch: Sizing, addresses: Mapping[str, int], scalars: Mapping[str, float]) -> tuple[Ready, ...]:
        """The launches, in order, on tensors at these addresses; a launch without blocks is left out."""
        found = []
        for kernel, function, one in zip(self.build.kernels, self.functions, launch.launches, strict=True):
            if one.blocks:
                grid, block = _extents(one.grid), _extents(one.block)
                found.append(Ready(function, grid, block, arguments_of(kernel, one, addresses, scalars)))
        return tuple(found)

    def run(
        self, launch: Sizing, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
    ) -> dict[str, torch.Tensor]:
        """Launch once on inputs of the CPU, on outputs that hold NaN; what it wrote, by name.

        Raises HipError where a call fails.
        """
        tensors = {name: t.contiguous() for name, t in memory(launch, inputs, poison=True).items()}
        held = {name: self.hip.allocate(Buffer(tensor).bytes()) for name, tensor in tensors.items()}
        for one in self.ready(launch, {name: m.address for name, m in held.items()}, scalars):
            one.start()
        self.hip.synchronize()
        found = {t.name: _tensor(held[t.name], tensors[t.name]) for t in launch.written}
        for each in held.values():
            each.free()
        return found


def arguments_of(kernel: Any, launch: Launch[Any], addresses: Mapping[str, int], scalars: Mapping[str, float]) -> bytes:
    """The explicit arguments of a kernel: HIP adds the hidden ones."""
    code = load(kernel.hsaco).kernel(kernel.resources.kernel)
    names = [t.name for t in launch.program.arguments]
    buffers = {name: Buffer(torch.empty(0), name) for name in names}
    layout = Layout([(buffers[name], addresses[name]) for name in names])
    none = Geometry(_extents(launch.grid), _extents(launch.block), 0, 0, 0)
    explicit = code.explicit_arguments
    return kernarg(code, [packed(launch, buffers, scalars)], layout, none)[: max(a.offset + a.size for a in explicit)]


def _extents(given: tuple[int, ...]) -> Dim:
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def _tensor(held: HipMemory, like: torch.Tensor) -> torch.Tensor:
    """The bytes of device memory as a tensor of the CPU."""
    if not prod(like.shape):
        return torch.empty_like(like)
    return torch.from_numpy(held.read()).view(like.dtype).reshape(like.shape)
