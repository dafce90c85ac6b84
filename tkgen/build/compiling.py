"""From a checked spec to machine code, and its verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen import machine_check
from tkgen.backends.cdna import kittens as headers
from tkgen.build.model import Build
from tkgen.toolchain.cache import default_cache
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, ToolchainError
from tkgen.toolchain.hip import find_hip
from tkgen.toolchain.metadata import read_resources

if TYPE_CHECKING:
    from tkgen.backends.cdna.spec import Spec


def compiled(spec: Spec, compiler: Compiler, *, kittens: Path | None = None, log: Path | None = None) -> Build:
    """Compile `spec`, which is proven, or take it from the cache where nothing changed. Its code is not watched."""
    try:
        result = compile_device(
            spec.source.text,
            spec.target,
            compiler,
            include_dirs=[] if kittens else [headers.include_dir()],
            kittens=kittens,
            hip=find_hip() if kittens else None,
            source_name=f"{spec.name}.cpp",
            log=log,
            cache=default_cache(),
        )
    except ToolchainError as error:
        raise _at_spec_line(spec, error) from error
    assert result.asm is not None and result.hsaco is not None
    kernels = list(read_resources(result.hsaco).values())
    if len(kernels) != 1:
        raise ToolchainError(f"the code object has {len(kernels)} kernels, not one")
    return Build(spec, compiler, result.asm, result.hsaco, kernels[0], kittens, result.seconds, result.cached)


def _at_spec_line(spec: Spec, error: ToolchainError) -> ToolchainError:
    """The same error, its first place in generated code named as a line of the spec."""
    origin = error.origin
    place = spec.source.origin(origin.line) if origin else None
    if place is None:
        return error
    return ToolchainError(
        f"{place.file.name}:{place.line}: {error.message}",
        errors=error.errors,
        output=error.output,
        command=error.command,
        log=error.log,
    )


def watched(build: Build) -> Build:
    """`build` with a verdict on its machine code. See `tkgen.machine_check`."""
    verdict = machine_check.watch(build.spec, build.hsaco, build.resources.kernel, default_cache())
    return replace(build, machine_check=verdict)
