"""From a checked spec of rows to machine code and what is known of it."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen import __version__
from tkgen.backends.cdna import kittens as headers
from tkgen.diagnostics import Diagnostic, Fix, Label, Severity, SpecError
from tkgen.diagnostics.machine import to_json
from tkgen.machine_check.verdict import NOT_ASKED, UNCHECKED, Verdict
from tkgen.rows.watch import watch
from tkgen.targets.model import Occupancy
from tkgen.targets.resources import Resources
from tkgen.toolchain.cache import default_cache
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.files import write_atomic
from tkgen.toolchain.hip import find_hip
from tkgen.toolchain.isa import Function, instruction_mix, parse_asm
from tkgen.toolchain.metadata import read_resources

if TYPE_CHECKING:
    from tkgen.rows.spec import RowSpec

EMITS = ("cpp", "asm", "hsaco", "report")  # unless others are asked for


@dataclass(frozen=True)
class RowBuild:
    """A compiled spec: the machine code, the figures read from it, and what watching it showed."""

    spec: RowSpec
    compiler: Compiler
    asm: str = field(repr=False)
    hsaco: bytes = field(repr=False)
    resources: Resources
    kittens: Path | None
    seconds: float
    cached: bool
    machine_check: Verdict = NOT_ASKED

    @cached_property
    def function(self) -> Function:
        """The kernel's instructions."""
        return parse_asm(self.asm)[self.resources.kernel]

    @property
    def lds_bytes(self) -> int:
        """LDS of one block, all of it static."""
        return self.resources.lds_static_bytes

    @property
    def occupancy(self) -> Occupancy:
        """Blocks and waves that fit a compute unit, from the real registers and LDS."""
        r = self.resources
        return self.spec.target.occupancy(r.vgpr, self.lds_bytes, self.spec.program.waves, r.agpr)

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What there is to say of the spec, of the real registers, and of the machine code."""
        return (*self.spec.diagnostics, *self._registers(), *self.machine_check.diagnostics)

    def _registers(self) -> list[Diagnostic]:
        """What the real registers break: spills (E405), too few waves on a SIMD (E404)."""
        r, program, found = self.resources, self.spec.program, list[Diagnostic]()
        fix = Fix("make the tile smaller (`by`), use more waves, or `allow spills`")
        if not r.clean and "spills" not in program.allow:
            spilled = f"{r.vgpr_spills} spilled, {r.scratch_bytes} bytes of scratch"
            label = Label(program.spans["kernel"], f"about {self.spec.layout.registers} registers were expected")
            found.append(
                Diagnostic("E405", f"the compiled kernel keeps registers in memory: {spilled}", label, fix=fix)
            )
        real = self.spec.target.waves_per_simd(r.vgpr, r.agpr)
        if program.occupancy and real < program.occupancy and "low_occupancy" not in program.allow:
            message = f"{r.total_vgpr} registers let {real} waves share a SIMD, the spec asks for {program.occupancy}"
            found.append(Diagnostic("E404", message, Label(program.spans["occupancy"]), fix=fix))
        return found

    def check(self) -> RowBuild:
        """This build; raises SpecError where the machine code breaks what was promised: spills, scratch, races."""
        errors = [d for d in self.diagnostics if d.severity is Severity.ERROR]
        if errors:
            raise SpecError(errors)
        return self

    @property
    def unwatched(self) -> str:
        """Why the machine code was not watched although it should have been; empty where it was."""
        asked = self.machine_check != NOT_ASKED and self.machine_check.outcome == UNCHECKED
        return self.machine_check.summary if asked else ""

    def report(self) -> dict[str, object]:
        """All figures as plain data: the content of report.json."""
        spec, layout = self.spec, self.spec.layout
        mix = instruction_mix(self.function.instructions)
        return {
            "tkgen": __version__,
            "kernel": spec.name,
            "spec": spec.path.name,
            "target": spec.target.name,
            "compiler": {"kind": self.compiler.kind.value, "version": self.compiler.version},
            "defines": dict(spec.defines),
            "sizes": {d.name: d.size for d in spec.program.dims},
            "waves": spec.program.waves,
            "layout": {
                "text": layout.describe(),
                "lanes": layout.lanes,
                "chunk": layout.chunk,
                "chunks": layout.chunks,
                "rows": layout.held,
                "across": layout.across,
                "passes": layout.passes,
                "predicted_registers": layout.registers,
            },
            "resources": asdict(self.resources),
            "lds_bytes": self.lds_bytes,
            "occupancy": asdict(self.occupancy),
            "instructions": asdict(mix),
            "flat_instructions": len(self.function.flat_accesses),
            "machine_check": self.machine_check.to_json(),
            "diagnostics": [to_json(d) for d in self.diagnostics],
        }

    def line(self) -> str:
        """The figures in one line."""
        r = self.resources
        waves = self.occupancy.waves_per_simd
        spills = r.vgpr_spills + r.sgpr_spills
        return (
            f"{self.spec.name} ({self.spec.target.name}): {r.vgpr} VGPR, {r.sgpr} SGPR, "
            f"{spills} spill{'s' if spills != 1 else ''}, {r.scratch_bytes} B scratch, {self.lds_bytes} B LDS, "
            f"{waves:g} {'wave' if waves == 1 else 'waves'}/SIMD, {self.spec.layout.describe()}"
        )


def compiled(
    spec: RowSpec, *, cxx: str | None = None, kittens: Path | None = None, log: Path | None = None
) -> RowBuild:
    """Compile `spec`, or take it from the cache where nothing changed. Its code is not watched."""
    compiler = find_compiler(spec.target, cxx)
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
    assert result.asm is not None and result.hsaco is not None
    resources = next(iter(read_resources(result.hsaco).values()))
    return RowBuild(spec, compiler, result.asm, result.hsaco, resources, kittens, result.seconds, result.cached)


def watched(build: RowBuild) -> RowBuild:
    """`build` with a verdict on its machine code."""
    verdict = watch(build.spec, build.hsaco, build.resources.kernel, default_cache())
    return replace(build, machine_check=verdict)


def write(build: RowBuild, directory: Path, emit: Collection[str] = EMITS) -> dict[str, Path]:
    """Put the outputs named by `emit` under `directory`, each whole or not at all; returns their paths."""
    name, spec = build.spec.name, build.spec
    files: dict[str, tuple[str, bytes | str]] = {
        "cpp": (f"{name}.cpp", spec.source.text),
        "asm": (f"{name}.s", build.asm),
        "hsaco": (f"{name}.hsaco", build.hsaco),
        "report": (f"{name}.json", json.dumps(build.report(), indent=2) + "\n"),
    }
    written: dict[str, Path] = {}
    for kind in emit:
        if kind in files:
            written[kind] = directory / files[kind][0]
            write_atomic(written[kind], files[kind][1])
    if "module" in emit:
        from tkgen.toolchain.module import build_module

        written["module"] = build_module(
            spec.source.text,
            name,
            spec.target,
            build.compiler,
            directory,
            include_dirs=[] if build.kittens else [headers.include_dir()],
            kittens=build.kittens,
            log=directory / f"{name}.log",
        )
    return written


def produce(
    spec: RowSpec,
    directory: Path,
    emit: Collection[str] = EMITS,
    *,
    cxx: str | None = None,
    kittens: Path | None = None,
    watch: bool = True,
) -> tuple[RowBuild, dict[str, Path]]:
    """Build `spec`, hold its figures against what was promised and write the outputs: the build and their paths.

    Where watching the machine code finds something, source and assembly are kept under `NAME.refused`. Raises as
    `RowSpec.build` and `RowBuild.check`.
    """
    built = compiled(spec.check(), cxx=cxx, kittens=kittens, log=directory / f"{spec.name}.log")
    if watch:
        built = watched(built)
        kept = [directory / f"{spec.name}.refused{suffix}" for suffix in (".cpp", ".s")]
        for path, text in zip(kept, (spec.source.text, built.asm), strict=True):
            if built.machine_check.diagnostics:
                write_atomic(path, text)
            else:
                path.unlink(missing_ok=True)
    return built, write(built.check(), directory, emit)
