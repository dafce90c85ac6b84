"""A compiled sequence: a code object for each kernel, their figures, the files of it."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen import __version__
from tkgen.backends.cdna.lower import harness_cpp, harness_python
from tkgen.backends.cdna.lower.harness import Kernels, refuse_packed
from tkgen.build.compiling import compiled
from tkgen.build.model import Build
from tkgen.build.outputs import DEFAULT_EMITS, watched_at, write_module
from tkgen.diagnostics import Diagnostic, Fix, Label, Severity, SpecError, distinct
from tkgen.diagnostics.machine import to_json
from tkgen.rows.build import RowBuild
from tkgen.rows.spec import RowSpec
from tkgen.sequence.program import meaning_of, overlap
from tkgen.toolchain.compiler import Compiler
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.files import write_atomic

if TYPE_CHECKING:
    from tkgen.sequence.spec import SequenceSpec


@dataclass(frozen=True)
class SequenceBuild:
    """A compiled spec of several kernels, each built as if it stood alone."""

    spec: SequenceSpec
    kernels: tuple[Build | RowBuild, ...]

    @property
    def compiler(self) -> Compiler:
        """What compiled all of it."""
        return self.kernels[0].compiler

    @property
    def kittens(self) -> Path | None:
        """The ThunderKittens checkout that it was compiled against, where that was asked for."""
        return self.kernels[0].kittens

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What there is to say of the spec, of the real registers, and of the machine code of each kernel."""
        return tuple(distinct([*self.spec.diagnostics, *(d for k in self.kernels for d in k.diagnostics)]))

    def check(self) -> SequenceBuild:
        """This build; raises SpecError where machine code breaks what was promised: spills, scratch, races."""
        errors = [d for d in self.diagnostics if d.severity is Severity.ERROR]
        if errors:
            raise SpecError(errors)
        return self

    @property
    def unwatched(self) -> str:
        """Why machine code was not watched although it should have been; empty where it was."""
        return "; ".join(f"{k.spec.name}: {k.unwatched}" for k in self.kernels if k.unwatched)

    def line(self) -> str:
        """The figures, a line for each kernel."""
        return "\n".join(f"{self.spec.name}/{kernel.line()}" for kernel in self.kernels)

    def report(self) -> dict[str, object]:
        """All figures as plain data: the content of report.json."""
        spec = self.spec
        return {
            "tkgen": __version__,
            "sequence": spec.name,
            "spec": spec.path.name,
            "target": spec.target.name,
            "defines": dict(spec.defines),
            "inputs": [t.name for t in spec.program.reads],
            "between": [t.name for t in spec.program.between],
            "outputs": [t.name for t in spec.program.outputs],
            "kernels": [k.report() for k in self.kernels],
            "diagnostics": [to_json(d) for d in self.diagnostics],
        }


def write(build: SequenceBuild, directory: Path, emit: Collection[str]) -> dict[str, Path]:
    """Put the outputs named by `emit` under `directory`, each whole or not at all; returns their paths.

    There is one source, and one module; assembly and code object are each kernel's own. Raises as `check_harnesses`.
    """
    spec = build.spec
    if "harness" in emit:
        check_harnesses(spec)
    files: dict[str, tuple[str, bytes | str]] = {}
    if "cpp" in emit:
        files["cpp"] = (f"{spec.name}.cpp", spec.text)
    for kernel in build.kernels:
        for kind, content in (("asm", kernel.asm), ("hsaco", kernel.hsaco)):
            if kind in emit:
                suffix = "s" if kind == "asm" else kind
                files[f"{kind} {kernel.spec.name}"] = (f"{spec.name}.{kernel.spec.name}.{suffix}", content)
    written = {}
    if "html" in emit:
        from tkgen.sequence.report import write_sequence_build

        written["html"] = directory / f"{spec.name}.html"
        write_sequence_build(build, written["html"], directory / f"{spec.name}.json")  # an earlier one so far
    if "report" in emit:
        files["report"] = (f"{spec.name}.json", json.dumps(build.report(), indent=2) + "\n")
    for kind, (name, content) in files.items():
        written[kind] = directory / name
        write_atomic(written[kind], content)
    if "harness" in emit:
        kernels = tuple(k.program if isinstance(k, RowSpec) else k.plan for k in spec.kernels)
        checked = Kernels(spec.name, kernels, spec.program.arguments)
        for kind, suffix, make in (("harness", "py", harness_python), ("harness_cpp", "cpp", harness_cpp)):
            written[kind] = directory / f"{spec.name}_check.{suffix}"
            write_atomic(written[kind], make(checked, spec.target.name))
    if "module" in emit:
        written["module"] = write_module(spec, build.compiler, directory, build.kittens)
    return written


def check_harnesses(spec: SequenceSpec) -> None:
    """Raises SpecError for outputs that no harness compares (E204), and where a check that comes after all kernels
    cannot see what one of them wrote (E231)."""
    refuse_packed(t for p in spec.program.kernels for t in p.outputs)
    stores = [meaning_of(p).stores for p in spec.program.kernels]
    for first, later in combinations(range(len(stores)), 2):
        for one, other in product(stores[first], stores[later]):
            if overlap(one.target, other.target):
                name, names = one.target.tensor.name, [k.program.spans["kernel"] for k in spec.kernels]
                message = f"`{name}` is written again: a check that comes after all kernels cannot see it as it was"
                places = (Label(names[first], f"writes `{name}`"),)
                fix = Fix("let it write another tensor, or leave the harness: `tkgen run` compares it too")
                raise SpecError(Diagnostic("E231", message, Label(names[later], "writes it again"), places, fix=fix))


def produce(
    spec: SequenceSpec,
    directory: Path,
    emit: Collection[str] = DEFAULT_EMITS,
    *,
    cxx: str | None = None,
    kittens: Path | None = None,
    watch: bool = True,
) -> tuple[SequenceBuild, dict[str, Path]]:
    """Build `spec`, hold its figures against what was promised and write the outputs: the build and their paths.

    Where watching the machine code of a kernel finds something, its source and assembly are kept under
    `NAME.KERNEL.refused`. Raises as `SequenceSpec.build` and `SequenceBuild.check`.
    """
    spec.check()
    if "harness" in emit:
        check_harnesses(spec)
    compiler = find_compiler(spec.target, cxx)
    log = directory / f"{spec.name}.log"
    built: list[Build | RowBuild] = []
    for kernel in spec.kernels:
        made = compiled(kernel, compiler, kittens=kittens, log=log)
        assert isinstance(made, Build | RowBuild)
        built.append(watched_at(made, directory / f"{spec.name}.{kernel.name}") if watch else made)
    whole = SequenceBuild(spec, tuple(built)).check()
    return whole, write(whole, directory, emit)
