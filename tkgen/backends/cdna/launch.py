"""A built kernel on an AMD GPU, through its Python module and a ROCm build of torch."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from tkgen.build.outputs import write_module
from tkgen.sequence.build import SequenceBuild
from tkgen.toolchain.compiler import ToolchainError

if TYPE_CHECKING:
    from tkgen.build.model import Compiled

    Launched: TypeAlias = Compiled | SequenceBuild


def need_gpu() -> None:
    """Raises ToolchainError where torch has no AMD GPU here."""
    if not torch.cuda.is_available() or torch.version.hip is None:
        raise ToolchainError(
            "no AMD GPU here that torch can use (it needs a ROCm build of torch and the amdgpu driver); "
            "`--device emulator` runs without one"
        )


def launcher(build: Launched, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, float]) -> Callable[[], None]:
    """What launches the kernel, or all of a sequence, on these tensors, on the current stream of their device.

    `tensors` has all that is read or written, what is between the kernels of a sequence too.
    """
    ordered = [tensors[t.name].contiguous() for t in build.spec.program.arguments]
    module, device = _module(build), ordered[0].device

    def launch() -> None:
        module.dispatch(*ordered, *scalars.values(), torch.cuda.current_stream(device).cuda_stream)

    return launch


def _module(build: Launched) -> Any:
    """The built Python module, made once for the same machine code."""
    if identity(build) not in _modules:
        folder = Path(tempfile.mkdtemp(prefix="tkgen-module-"))
        path = write_module(build.spec, build.compiler, folder, build.kittens)
        found = importlib.util.spec_from_file_location(build.spec.name, path)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        _modules[identity(build)] = module
    return _modules[identity(build)]


def identity(build: Launched) -> tuple[object, ...]:
    """What decides the results: the machine code, of each kernel, and the sizes that grids are made from."""
    code = [k.hsaco for k in build.kernels] if isinstance(build, SequenceBuild) else [build.hsaco]
    return (*code, *(d.size for d in build.spec.program.dims))


# Modules stay loaded as long as the process, as torch's own registry of operators does.
_modules: dict[tuple[object, ...], Any] = {}
