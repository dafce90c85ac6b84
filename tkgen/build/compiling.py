"""From a checked spec to machine code, and its verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna import kittens as headers
from tkgen.backends.stages import Compiling
from tkgen.build.model import Build
from tkgen.machine_check import watch
from tkgen.toolchain.cache import default_cache
from tkgen.toolchain.checkout import compile_with_checkout
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, ToolchainError
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.files import write_atomic
from tkgen.toolchain.metadata import read_resources

if TYPE_CHECKING:
    from tkgen.backends.cdna.spec import Spec


def compiled_and_watched(spec: Spec[Any], compiling: Compiling) -> Build:
    """A build of `spec`, which is proven.

    Raises:
        SpecError: the code is watched, and races, does not wait, or leaves its memory.
        ToolchainError: the compiler fails.
    """
    compiler = find_compiler(spec.target, compiling.cxx)
    made = compiled(spec, compiler, kittens=compiling.kittens, log=compiling.log)
    if not compiling.watch:
        return made
    made = watched(made)
    if compiling.kept is not None:
        made = _kept(made, compiling.kept)
    return made.check() if made.machine_check.diagnostics else made


def compiled(spec: Spec[Any], compiler: Compiler, *, kittens: Path | None = None, log: Path | None = None) -> Build:
    """Compile `spec`, which is proven, or take it from the cache where nothing changed. Its code is not watched."""
    try:
        text, name, embedded = spec.source.text, f"{spec.name}.cpp", headers.include_dir()
        if kittens is None:
            result = compile_device(
                text, spec.target, compiler, include_dirs=[embedded], source_name=name, log=log, cache=default_cache()
            )
        else:
            result = compile_with_checkout(
                text, spec.target, compiler, kittens=kittens.resolve(), headers=embedded, source_name=name, log=log,
                cache=default_cache(),
            )  # fmt: skip
    except ToolchainError as error:
        raise _at_spec_line(spec, error) from error
    assert result.asm is not None and result.hsaco is not None
    kernels = list(read_resources(result.hsaco).values())
    if len(kernels) != 1:
        raise ToolchainError(f"the code object has {len(kernels)} kernels, not one")
    return Build(spec, compiler, result.asm, result.hsaco, kernels[0], kittens, result.seconds, result.cached)


def _at_spec_line(spec: Spec[Any], error: ToolchainError) -> ToolchainError:
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
    return replace(build, machine_check=watch(build.spec, build.hsaco, build.resources.kernel, default_cache()))


def _kept(built: Build, stem: Path) -> Build:
    """`built`; what was compiled is kept for a look where it is wrong, a former one removed if not."""
    kept = [stem.with_name(f"{stem.name}.refused{suffix}") for suffix in (".cpp", ".s")]
    found = built.machine_check.diagnostics
    if not found:
        for path in kept:
            path.unlink(missing_ok=True)
        return built
    for path, text in zip(kept, (built.spec.text, built.asm), strict=True):
        write_atomic(path, text)
    note = f"what was compiled is kept as {kept[0]} and {kept[1].name}"
    last = replace(found[-1], notes=(*found[-1].notes, note))
    return replace(built, machine_check=replace(built.machine_check, diagnostics=(*found[:-1], last)))
