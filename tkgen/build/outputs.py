"""The files of a build: source, assembly, code object, module, harnesses, reports."""

from __future__ import annotations

import json
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkgen import machine_check
from tkgen.backends import protocol
from tkgen.backends.cdna import kittens as headers
from tkgen.backends.cdna.lower.harness import Kernels, harness_cpp, harness_python
from tkgen.backends.spec import AnySpec
from tkgen.backends.stages import BUILDING, COMPILE, LOWER, Compiling, through
from tkgen.build.model import Build
from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.sequence.program import overlap
from tkgen.toolchain.files import write_atomic

if TYPE_CHECKING:
    from tkgen.toolchain.compiler import Compiler

EMITS = ("cpp", "asm", "hsaco", "module", "harness", "report", "html")
DEFAULT_EMITS = ("cpp", "asm", "hsaco", "report", "html")


def write(build: protocol.Build, directory: Path, emit: Collection[str]) -> dict[str, Path]:
    """Put the outputs named by `emit` under `directory`, each whole or not at all; returns their paths.

    There is one source, and one module; assembly and code object are each kernel's own. Raises as `check_harnesses`.
    """
    name, spec = build.spec.name, build.spec
    alone = spec.kernels == (spec,)
    if "harness" in emit:
        check_harnesses(spec)
    written: dict[str, Path] = {}
    if "html" in emit:
        from tkgen.report import write_build

        written["html"] = directory / f"{name}.html"
        write_build(build, written["html"], directory / f"{name}.json")  # an earlier report.json so far
    files: dict[str, tuple[str, bytes | str]] = {"cpp": (f"{name}.cpp", spec.text)} if "cpp" in emit else {}
    for kernel in build.kernels:
        assert isinstance(kernel, Build)
        key, stem = ("", name) if alone else (f" {kernel.spec.name}", f"{name}.{kernel.spec.name}")
        for kind, suffix, content in (("asm", "s", kernel.asm), ("hsaco", "hsaco", kernel.hsaco)):
            if kind in emit:
                files[f"{kind}{key}"] = (f"{stem}.{suffix}", content)
    if "harness" in emit:
        kernels: tuple[Any, ...] = spec.kernels
        each = tuple(k.plan or k.program for k in kernels)
        checked = each[0] if alone else Kernels(name, each, spec.program.arguments)
        for kind, suffix, make in (("harness", "py", harness_python), ("harness_cpp", "cpp", harness_cpp)):
            files[kind] = (f"{name}_check.{suffix}", make(checked, spec.target.name))
    if "report" in emit:
        files["report"] = (f"{name}.json", json.dumps(build.report(), indent=2) + "\n")
    for kind, (file, content) in files.items():
        written[kind] = directory / file
        write_atomic(written[kind], content)
    if "module" in emit:
        first = build.kernels[0]
        assert isinstance(first, Build)
        written["module"] = write_module(spec, first.compiler, directory, first.kittens)
    return written


def check_harnesses(spec: AnySpec) -> None:
    """Raises SpecError where a check that comes after all kernels cannot see what one of them wrote (E231)."""
    stores = [k.program.kernel.stores for k in spec.kernels]
    for first, later in combinations(range(len(stores)), 2):
        for one, other in product(stores[first], stores[later]):
            if overlap(one.target, other.target):
                name, names = one.target.tensor.name, [k.program.spans["kernel"] for k in spec.kernels]
                message = f"`{name}` is written again: a check that comes after all kernels cannot see it as it was"
                places = (Label(names[first], f"writes `{name}`"),)
                fix = Fix("let it write another tensor, or leave the harness: `tkgen run` compares it too")
                raise SpecError(Diagnostic("E231", message, Label(names[later], "writes it again"), places, fix=fix))


def write_module(spec: AnySpec, compiler: Compiler, directory: Path, kittens: Path | None) -> Path:
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
        include_dirs=[headers.include_dir()],
        kittens=kittens,
        log=directory / f"{spec.name}.log",
    )


def produce(
    spec: AnySpec,
    directory: Path,
    emit: Collection[str] = DEFAULT_EMITS,
    *,
    cxx: str | None = None,
    kittens: Path | None = None,
    watch: bool = True,
) -> tuple[protocol.Build, dict[str, Path]]:
    """Build `spec`, hold its figures against what was promised and write the outputs.

    Returns the build, and the paths of the outputs.
    The machine code is watched unless
    `watch` says not to; where that finds something, source and assembly are kept under `NAME.refused`, of a sequence
    under `NAME.KERNEL.refused`. Raises as `compiled`, `check` of a build and `check_harnesses`.
    """
    *_, (_, lowered) = through(BUILDING, spec, LOWER)
    if "harness" in emit:
        check_harnesses(spec)
    log, kept = directory / f"{spec.name}.log", directory / spec.name
    lowered = replace(lowered, compiling=Compiling(cxx, kittens, log, watch, kept))
    with ThreadPoolExecutor(1) as pool:
        if watch:
            pool.submit(machine_check.warm)
        *_, (_, whole) = through(BUILDING, lowered, COMPILE, after=LOWER)
    return whole.check(), write(whole, directory, emit)
