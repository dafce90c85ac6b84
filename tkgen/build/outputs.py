"""The files of a build: source, assembly, code object, module, harnesses, reports."""

from __future__ import annotations

import json
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tkgen import machine_check
from tkgen.backends.cdna import kittens as headers
from tkgen.backends.cdna.kernel_spec import KernelSpec
from tkgen.backends.cdna.lower import harness_cpp, harness_python
from tkgen.backends.cdna.lower.harness import refuse_packed
from tkgen.backends.cdna.spec import Spec
from tkgen.backends.spec import TypedSpec
from tkgen.build.compiling import compiled, watched
from tkgen.build.model import Build, Compiled
from tkgen.rows.build import RowBuild
from tkgen.targets import Target
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.files import write_atomic

if TYPE_CHECKING:
    from tkgen.report import Outline
    from tkgen.toolchain.compiler import Compiler

EMITS = ("cpp", "asm", "hsaco", "module", "harness", "report", "html")
DEFAULT_EMITS = ("cpp", "asm", "hsaco", "report", "html")


B = TypeVar("B", bound=Compiled)


def write(build: Compiled, directory: Path, emit: Collection[str], drawn: Outline | None = None) -> dict[str, Path]:
    """Put the outputs named by `emit` under `directory`, each whole or not at all; returns their paths.

    `drawn` is the outline of the spec for the HTML report, where it is there already.
    """
    name, spec = build.spec.name, build.spec
    files: dict[str, tuple[str, bytes | str]] = {
        "cpp": (f"{name}.cpp", spec.text),
        "asm": (f"{name}.s", build.asm),
        "hsaco": (f"{name}.hsaco", build.hsaco),
        "report": (f"{name}.json", json.dumps(build.report(), indent=2) + "\n"),
    }
    written: dict[str, Path] = {}
    if "html" in emit:
        from tkgen.report import previous_report, write_build, write_row_build

        written["html"] = directory / f"{name}.html"
        previous = previous_report(directory / f"{name}.json")
        if isinstance(build, RowBuild):
            write_row_build(build, written["html"], previous)
        elif isinstance(build, Build):
            write_build(build, written["html"], previous, drawn)
    if "harness" in emit:
        kernel = spec.plan if isinstance(spec, Spec) else spec.program
        for kind, suffix, text in (
            ("harness", "_check.py", harness_python(kernel, spec.target.name)),
            ("harness_cpp", "_check.cpp", harness_cpp(kernel, spec.target.name)),
        ):
            written[kind] = directory / f"{name}{suffix}"
            write_atomic(written[kind], text)
    for kind in emit:
        if kind in files:
            written[kind] = directory / files[kind][0]
            write_atomic(written[kind], files[kind][1])
    if "module" in emit:
        written["module"] = write_module(spec, build.compiler, directory, build.kittens)
    return written


def write_module(spec: TypedSpec[Any, Target], compiler: Compiler, directory: Path, kittens: Path | None) -> Path:
    """Build the Python module of a spec's generated source, of one kernel or of several; its path.

    Raises:
        ModuleUnavailableError, ToolchainError: it cannot be built here, or the compiler fails.
    """
    from tkgen.toolchain.module import build_module

    return build_module(
        spec.text,
        spec.name,
        spec.target,
        compiler,
        directory,
        include_dirs=[] if kittens else [headers.include_dir()],
        kittens=kittens,
        log=directory / f"{spec.name}.log",
    )


def produce(
    spec: KernelSpec[Any, B],
    directory: Path,
    emit: Collection[str] = DEFAULT_EMITS,
    *,
    cxx: str | None = None,
    kittens: Path | None = None,
    watch: bool = True,
) -> tuple[B, dict[str, Path]]:
    """Build `spec`, hold its figures against what was promised and write the outputs.

    Returns the build, and the paths of the outputs.
    What the HTML report shows of the spec alone is drawn while the compiler runs. The machine code is watched unless
    `watch` says not to; where that finds something, source and assembly are kept under `NAME.refused`. Raises as
    `compiled` and `Build.check`.
    """

    def draw() -> Outline | None:
        from tkgen.report import outline

        return outline(spec) if "html" in emit and isinstance(spec, Spec) else None

    spec.check()
    if "harness" in emit:
        refuse_packed(spec.program.outputs)
    compiler = find_compiler(spec.target, cxx)  # first: the sooner the compiler starts, the more is drawn meanwhile
    with ThreadPoolExecutor(1) as pool:
        if watch:
            pool.submit(machine_check.warm)
        drawn = pool.submit(draw)
        built = compiled(spec, compiler, kittens=kittens, log=directory / f"{spec.name}.log")
        if watch:
            built = watched_at(built, directory / spec.name)
        return built, write(built.check(), directory, emit, drawn.result())


def watched_at(built: B, stem: Path) -> B:
    """`built` with its verdict; what was compiled is kept for a look where it is wrong, a former one removed if not."""
    built = watched(built)
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
