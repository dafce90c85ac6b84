"""A kernel compiled by nvcc: machine code, what is read from it, and the files of it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

from tkgen import __version__
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.toolchain import Figures, Nvcc, compile_cubin, find_nvcc
from tkgen.backends.spec import TypedSpec
from tkgen.diagnostics import Diagnostic, refuse
from tkgen.diagnostics.machine import to_json
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.types import Program
from tkgen.toolchain.cache import default_cache
from tkgen.toolchain.files import write_atomic

EMITS = ("cu", "cubin", "sass", "report")


@dataclass(frozen=True)
class CudaBuild:
    """A compiled spec: the cubin and the figures read from it. What kinds of kernels have of their own stands below."""

    nvcc: Nvcc
    cubin: bytes = field(repr=False)
    figures: Figures
    remarks: str = field(repr=False)
    sass: str = field(repr=False)
    spec: TypedSpec[Program | EquationProgram, Hopper]

    def measured(self) -> list[Diagnostic]:
        """What the machine code breaks."""
        raise NotImplementedError

    @property
    def dynamic_bytes(self) -> int:
        """Bytes of shared memory that the launch asks for."""
        raise NotImplementedError

    @property
    def threads(self) -> int:
        """Threads of a block."""
        raise NotImplementedError

    def facts(self) -> dict[str, object]:
        """What its plan says of it, as plain data."""
        raise NotImplementedError

    def words(self) -> str:
        """The same in words."""
        raise NotImplementedError

    @property
    def moved_registers(self) -> tuple[int, int] | None:
        """Registers of a producer's and of a consumer's thread, where warpgroups hand some on."""
        return None

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What the checks say of the spec and of the machine code."""
        return (*self.spec.diagnostics, *self.measured())

    def check(self) -> Self:
        """This build. Raises SpecError where the machine code spills or lost what the source promises."""
        refuse(self.diagnostics)
        return self

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: static, and what the launch asks for."""
        return self.figures.static_shared_bytes + self.dynamic_bytes

    @property
    def unwatched(self) -> str:
        """Nothing: the machine code of this back end is never watched, and none was promised to be."""
        return ""

    def report(self) -> dict[str, object]:
        """All figures as plain data."""
        return {
            "tkgen": __version__,
            "kernel": self.spec.name,
            "spec": self.spec.path.name,
            "target": self.spec.target.name,
            "compiler": {"kind": "nvcc", "version": self.nvcc.version},
            "defines": dict(self.spec.defines),
            "threads": self.threads,
            **self.facts(),
            "figures": asdict(self.figures),
            "shared_bytes": self.shared_bytes,
            "diagnostics": [to_json(d) for d in self.diagnostics],
        }

    def line(self) -> str:
        """The figures in one line."""
        f, moved = self.figures, self.moved_registers
        registers = f"{f.registers} registers" + (f" ({moved[0]} producer, {moved[1]} consumer)" if moved else "")
        return (f"{self.spec.name} ({self.spec.target.name}): {registers}, {f.spill_bytes} B spilled, "
                f"{self.shared_bytes} B shared, {self.threads} threads, {self.words()}")  # fmt: skip

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


def compiled(source: str, name: str, target: Hopper, cxx: str | None) -> tuple[Nvcc, bytes, Figures, str, str]:
    """A source's machine code, as the first fields of a build. Raises ToolchainError: no nvcc, or it fails."""
    found = find_nvcc(cxx)
    made = compile_cubin(source, name, target.name, found, include_dir(), default_cache())
    return found, made.cubin, made.figures, made.remarks, made.sass


def include_dir() -> Path:
    """The folder of the embedded headers."""
    return Path(os.path.dirname(__file__)) / "include"
