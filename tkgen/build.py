"""From a checked spec to machine code and what is known of it: compile, measure, write the outputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen import __version__, checks, machine_check
from tkgen import kittens as headers
from tkgen.diagnostics import Diagnostic, Severity, SpecError
from tkgen.diagnostics.machine import to_json
from tkgen.lower import harness_cpp, harness_python
from tkgen.machine_check import NOT_ASKED, Verdict
from tkgen.targets.model import Occupancy
from tkgen.toolchain.cache import default_cache
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, ToolchainError
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.files import write_atomic
from tkgen.toolchain.hip import find_hip
from tkgen.toolchain.isa import Function, InstructionMix, instruction_mix, main_loop, parse_asm
from tkgen.toolchain.metadata import Resources, read_resources

if TYPE_CHECKING:
    import torch

    from tkgen.api import Spec
    from tkgen.report import Outline

EMITS = ("cpp", "asm", "hsaco", "module", "harness", "report", "html")
DEFAULT_EMITS = ("cpp", "asm", "hsaco", "report", "html")


@dataclass(frozen=True)
class Build:
    """A compiled spec: the machine code, the figures read from it, and what watching it showed."""

    spec: Spec
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

    @cached_property
    def main_loop(self) -> InstructionMix | None:
        """The instruction mix of one pass of the steady loop; None where nothing loops."""
        loop = main_loop(self.function)
        return None if loop is None else instruction_mix(loop.instructions)

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
        """What the checks say of the spec, of the real registers, and of the machine code."""
        measured = checks.check_resources(self.spec.plan, self.spec.target, self.resources)
        return (*self.spec.diagnostics, *measured, *self.machine_check.diagnostics)

    def report(self) -> dict[str, object]:
        """All figures as plain data: the content of report.json."""
        spec = self.spec
        loop = self.main_loop
        return {
            "tkgen": __version__,
            "kernel": spec.name,
            "spec": spec.path.name,
            "target": spec.target.name,
            "compiler": {"kind": self.compiler.kind.value, "version": self.compiler.version},
            "defines": dict(spec.defines),
            "sizes": {d.name: d.size for d in spec.program.dims},
            "block": list(spec.program.block),
            "waves": spec.program.waves,
            "resources": asdict(self.resources),
            "lds_bytes": self.lds_bytes,
            "occupancy": asdict(self.occupancy),
            "schedule": spec.plan.chosen,
            "barriers_per_step": spec.plan.barriers_per_step,
            "steps_per_pass": spec.plan.shape.unroll,
            "main_loop": None if loop is None else asdict(loop) | {"other_per_mfma": other_per_mfma(loop)},
            "flat_instructions": len(self.function.flat_accesses),
            "machine_check": self.machine_check.to_json(),
            "diagnostics": [to_json(d) for d in self.diagnostics],
        }

    def check(self) -> Build:
        """This build; raises SpecError where the machine code breaks what was promised: spills, scratch, races."""
        errors = [d for d in self.diagnostics if d.severity is Severity.ERROR]
        if errors:
            raise SpecError(errors)
        return self

    def watched(self) -> Build:
        """This build with a verdict on its machine code. See `tkgen.machine_check`."""
        verdict = machine_check.watch(self.spec, self.hsaco, self.resources.kernel, default_cache())
        return replace(self, machine_check=verdict)

    def run(self, *tensors: torch.Tensor, **scalars: float) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The kernel's output, or outputs, for input tensors in the spec's order; on the emulator for CPU tensors.

        Raises:
            TypeError: something that is no tensor, or a scalar that the kernel does not have.
            ValueError: types, shapes, sizes or devices that the kernel cannot do.
        """
        from tkgen.execute.operator import run

        return run(self, tensors, scalars)

    def operator(self, name: str | None = None) -> Callable[..., torch.Tensor]:
        """The kernel as a torch operator, `torch.ops.tkgen.NAME`, usable under `torch.compile`.

        Raises:
            ValueError: another kernel has been registered under this name, which is the kernel's own unless given.
        """
        from tkgen.execute.operator import register

        return register(self, name)

    def write(
        self, directory: Path, emit: Collection[str] = DEFAULT_EMITS, drawn: Outline | None = None
    ) -> dict[str, Path]:
        """Put the outputs named by `emit` under `directory`, each whole or not at all; returns their paths.

        `drawn` is the outline of the spec for the HTML report, where it is there already.
        """
        name, spec = self.spec.name, self.spec
        files: dict[str, tuple[str, bytes | str]] = {
            "cpp": (f"{name}.cpp", spec.source.text),
            "asm": (f"{name}.s", self.asm),
            "hsaco": (f"{name}.hsaco", self.hsaco),
            "report": (f"{name}.json", json.dumps(self.report(), indent=2) + "\n"),
        }
        written: dict[str, Path] = {}
        if "html" in emit:
            from tkgen.report import previous_report, write_build

            written["html"] = directory / f"{name}.html"
            write_build(self, written["html"], previous_report(directory / f"{name}.json"), drawn)
        if "harness" in emit:
            for kind, suffix, text in (
                ("harness", "_check.py", harness_python(spec.plan, spec.target.name)),
                ("harness_cpp", "_check.cpp", harness_cpp(spec.plan, spec.target.name)),
            ):
                written[kind] = directory / f"{name}{suffix}"
                write_atomic(written[kind], text)
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
                self.compiler,
                directory,
                include_dirs=[] if self.kittens else [headers.include_dir()],
                kittens=self.kittens,
                log=directory / f"{name}.log",
            )
        return written


def other_per_mfma(mix: InstructionMix) -> float:
    """Instructions that are not MFMAs, per MFMA, as reports show it; 0 without an MFMA."""
    return round(mix.others_per_mfma or 0.0, 3)


def produce(
    spec: Spec,
    directory: Path,
    emit: Collection[str] = DEFAULT_EMITS,
    *,
    cxx: str | None = None,
    kittens: Path | None = None,
    watch: bool = True,
) -> tuple[Build, dict[str, Path]]:
    """Build `spec`, hold its figures against what was promised and write the outputs: the build and their paths.

    What the HTML report shows of the spec alone is drawn while the compiler runs. The machine code is watched unless
    `watch` says not to; where that finds something, source and assembly are kept under `NAME.refused`. Raises as
    `build` and `Build.check`.
    """

    def draw() -> Outline | None:
        from tkgen.report import outline

        return outline(spec) if "html" in emit else None

    spec.check()
    compiler = find_compiler(spec.target, cxx)  # first: the sooner the compiler starts, the more is drawn meanwhile
    with ThreadPoolExecutor(1) as pool:
        if watch:
            pool.submit(machine_check.warm)
        drawn = pool.submit(draw)
        built = build(spec, compiler, kittens=kittens, log=directory / f"{spec.name}.log")
        if watch:
            built = _watched(built, directory)
        return built, built.check().write(directory, emit, drawn.result())


def _watched(built: Build, directory: Path) -> Build:
    """`built` with its verdict; what was compiled is kept for a look where it is wrong, a former one removed if not."""
    built = built.watched()
    kept = [directory / f"{built.spec.name}.refused{suffix}" for suffix in (".cpp", ".s")]
    found = built.machine_check.diagnostics
    if not found:
        for path in kept:
            path.unlink(missing_ok=True)
        return built
    for path, text in zip(kept, (built.spec.source.text, built.asm), strict=True):
        write_atomic(path, text)
    note = f"what was compiled is kept as {kept[0]} and {kept[1].name}"
    last = replace(found[-1], notes=(*found[-1].notes, note))
    return replace(built, machine_check=replace(built.machine_check, diagnostics=(*found[:-1], last)))


def build(spec: Spec, compiler: Compiler, *, kittens: Path | None = None, log: Path | None = None) -> Build:
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
    resources = next(iter(read_resources(result.hsaco).values()))
    return Build(spec, compiler, result.asm, result.hsaco, resources, kittens, result.seconds, result.cached)


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
