"""A built kernel on an AMD GPU, through its Python module and a ROCm build of torch."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
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
            "no AMD GPU here that torch can use (it needs a ROCm build of torch and the amdgpu driver); "
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

    def launch() -> None:
        module.dispatch(*ordered, *scalars.values(), torch.cuda.current_stream(device).cuda_stream)

    return launch


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
