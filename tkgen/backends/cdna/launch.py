"""A built kernel on an AMD GPU, through its Python module and a ROCm build of torch, or any torch and HIP itself."""

from __future__ import annotations

import ctypes
import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from tkgen.backends import protocol
from tkgen.build.model import Build
from tkgen.build.outputs import write_module
from tkgen.toolchain.compiler import ToolchainError


def need_gpu() -> None:
    """Raises ToolchainError where torch has no AMD GPU here."""
    if not torch.cuda.is_available() or torch.version.hip is None:
        raise ToolchainError(
            "torch finds no AMD GPU here (it needs a ROCm build of torch and the amdgpu driver); "
            "`--device emulator` runs without one"
        )


def launcher(
    build: protocol.Build, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> Callable[[], None]:
    """Return a function that launches the kernel, or all of a sequence, on these tensors, on the current stream.

    `tensors` has every tensor that is read or written, those between the kernels of a sequence, too.
    """
    ordered = [tensors[t.name].contiguous() for t in build.spec.program.arguments]
    module, device = _module(build), ordered[0].device
    if device.type == "cpu":
        return lambda: _in_shared_memory(module, ordered, scalars)

    def launch() -> None:
        module.dispatch(*ordered, *scalars.values(), torch.cuda.current_stream(device).cuda_stream)

    return launch


_through_hip = False


def takes(device: torch.device) -> bool:
    """Return True if modules take tensors of that device, those of the CPU within `through_hip`."""
    return device.type == "cuda" or _through_hip


@contextmanager
def through_hip() -> Iterator[None]:
    """Within it, CPU tensors are computed by the AMD GPU that HIP finds, which torch need not know.

    Each launch copies its tensors to memory that the GPU and the CPU share, and what it wrote back.
    """
    global _through_hip
    before, _through_hip = _through_hip, True
    try:
        yield
    finally:
        _through_hip = before


class _OnGpu(torch.Tensor):
    """A tensor that a module takes for one on the GPU."""

    device = SimpleNamespace(type="cuda")  # type: ignore[assignment]


def _in_shared_memory(module: Any, tensors: Sequence[torch.Tensor], scalars: Mapping[str, float]) -> None:
    """Launch once on copies, and wait for it. Raises ToolchainError where HIP fails."""
    hip = ctypes.CDLL(module.__file__)  # finds functions of the HIP that the module is linked with
    addresses: list[int] = []

    def call(name: str, *arguments: Any) -> None:
        if status := getattr(hip, name)(*arguments):
            raise ToolchainError(f"{name} fails with error {status}")

    def shared(tensor: torch.Tensor) -> torch.Tensor:
        address, size = ctypes.c_void_p(), max(tensor.nbytes, 1)
        call("hipMallocManaged", ctypes.byref(address), ctypes.c_size_t(size), 1)
        addresses.append(address.value or 0)
        data = torch.frombuffer((ctypes.c_char * size).from_address(addresses[-1]), dtype=torch.uint8)
        return data[: tensor.nbytes].view(tensor.dtype).view(tensor.shape).copy_(tensor)

    try:
        copies = [shared(tensor) for tensor in tensors]
        module.dispatch(*(copy.as_subclass(_OnGpu) for copy in copies), *scalars.values(), 0)
        call("hipDeviceSynchronize")
        for tensor, copy in zip(tensors, copies, strict=True):
            tensor.copy_(copy)
    finally:
        for address in addresses:
            hip.hipFree(ctypes.c_void_p(address))


def _module(build: protocol.Build) -> Any:
    """The built Python module, made once for the same machine code."""
    if identity(build) not in _modules:
        folder = Path(tempfile.mkdtemp(prefix="tkgen-module-"))
        first = build.kernels[0]
        assert isinstance(first, Build)
        path = write_module(build.spec, first.compiler, folder, first.kittens)
        found = importlib.util.spec_from_file_location(build.spec.name, path)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        _modules[identity(build)] = module
    return _modules[identity(build)]


def identity(build: protocol.Build) -> tuple[object, ...]:
    """Return everything that decides the results: the machine code of each kernel, and the sizes that grids are made
    from.
    """
    return (*(k.code for k in build.kernels), *(d.size for d in build.spec.program.dims))


# Modules stay loaded as long as the process, as torch's own registry of operators does.
_modules: dict[tuple[object, ...], Any] = {}
