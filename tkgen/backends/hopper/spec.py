"""A spec for Hopper: loaded, checked, generated, compiled."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from tkgen import __version__
from tkgen.backends.hopper.checks import check, check_figures
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.lowering import lower
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.toolchain import Figures, Nvcc, compile_cubin, find_nvcc
from tkgen.backends.spec import TypedSpec
from tkgen.diagnostics import Diagnostic, refuse
from tkgen.diagnostics.machine import to_json
from tkgen.ir.limits import Requirement, requirements
from tkgen.ir.types import Program
from tkgen.toolchain.cache import default_cache
from tkgen.toolchain.files import write_atomic

EMITS = ("cu", "cubin", "sass", "report")


@dataclass(frozen=True)
class HopperSpec(TypedSpec[Program, Hopper]):
    """A spec read from `path` with its `-D` values, resolved for a Hopper GPU."""

    @cached_property
    def layout(self) -> Layout:
        """How its tiles lie in a block."""
        return Layout(self.program, self.target)

    def found(self) -> Iterable[Diagnostic]:
        """What the checks say."""
        return check(self.program, self.target)

    @cached_property
    def text(self) -> str:
        """The generated CUDA C++."""
        return lower(self.program, self.target, str(self.path))

    @property
    def requirements(self) -> list[Requirement]:
        """What dynamic sizes must be: any number of K-steps is one pass."""
        return requirements(self.program, 1, 0)

    def build(self, *, cxx: str | None = None) -> HopperBuild:
        """Compile to a cubin, with the nvcc `cxx` where it is given.

        Raises:
            SpecError: as `check`, or the machine code spills or lost what the source promises.
            ToolchainError: there is no nvcc, or it fails.
        """
        self.check()
        found = find_nvcc(cxx)
        made = compile_cubin(self.text, self.name, self.target.name, found, include_dir(), default_cache())
        return HopperBuild(self, found, made.cubin, made.figures, made.remarks, made.sass).check()


@dataclass(frozen=True)
class HopperBuild:
    """A compiled spec: the cubin and the figures read from it."""

    spec: HopperSpec
    nvcc: Nvcc
    cubin: bytes = field(repr=False)
    figures: Figures
    remarks: str = field(repr=False)
    sass: str = field(repr=False)

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What the checks say of the spec and of the machine code."""
        return (*self.spec.diagnostics, *check_figures(self.spec.program, self.figures, self.remarks))

    def check(self) -> HopperBuild:
        """This build. Raises SpecError where the machine code spills or lost what the source promises."""
        refuse(self.diagnostics)
        return self

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: static, and what the launch asks for."""
        return self.figures.static_shared_bytes + self.spec.layout.dynamic_bytes

    @property
    def unwatched(self) -> str:
        """Nothing: the machine code of this back end is never watched, and none was promised to be."""
        return ""

    def report(self) -> dict[str, object]:
        """All figures as plain data."""
        spec, layout = self.spec, self.spec.layout
        return {
            "tkgen": __version__,
            "kernel": spec.name,
            "spec": spec.path.name,
            "target": spec.target.name,
            "compiler": {"kind": "nvcc", "version": self.nvcc.version},
            "defines": dict(spec.defines),
            "sizes": {d.name: d.size for d in spec.program.dims},
            "block": list(spec.program.block),
            "threads": layout.threads,
            "consumers": layout.consumers,
            "stages": layout.stages,
            "store_buffers": layout.store_buffers,
            "moved_registers": layout.moved_registers,
            "figures": asdict(self.figures),
            "shared_bytes": self.shared_bytes,
            "proof": "the plan; its machine code is tested on the GPU",
            "diagnostics": [to_json(d) for d in self.diagnostics],
        }

    def line(self) -> str:
        """The figures in one line."""
        f, layout = self.figures, self.spec.layout
        moved = layout.moved_registers
        registers = f"{f.registers} registers" + (f" ({moved[0]} producer, {moved[1]} consumer)" if moved else "")
        products = "" if f.products is None else f", {f.products} HGMMA"
        return (f"{self.spec.name} ({self.spec.target.name}): {registers}, {f.spill_bytes} B spilled, "
                f"{self.shared_bytes} B shared, {layout.threads} threads, "
                f"{layout.stages} stages{products}")  # fmt: skip

    def write(self, directory: Path, emit: Collection[str] = EMITS) -> dict[str, Path]:
        """Put the outputs named by `emit` under `directory`, each whole or not at all; returns their paths."""
        files: dict[str, bytes | str] = {
            "cu": self.spec.text,
            "cubin": self.cubin,
            "sass": self.sass,
            "report": json.dumps(self.report(), indent=2) + "\n",
        }
        suffixes = {"report": "json"}
        written = {}
        for kind in emit:
            if kind in files and (kind != "sass" or self.sass):
                written[kind] = directory / f"{self.spec.name}.{suffixes.get(kind, kind)}"
                write_atomic(written[kind], files[kind])
        return written


def include_dir() -> Path:
    """The folder of the embedded headers."""
    return Path(os.path.dirname(__file__)) / "include"
