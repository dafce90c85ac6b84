"""A kernel compiled by nvcc: machine code, what is read from it, and the files of it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from tkgen import __version__
from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.toolchain import Figures, Nvcc, compile_cubin, find_nvcc
from tkgen.diagnostics import Diagnostic, refuse
from tkgen.diagnostics.machine import to_json
from tkgen.notebooks import Shown
from tkgen.toolchain.cache import default_cache
from tkgen.toolchain.files import write_atomic

if TYPE_CHECKING:
    from tkgen.backends.hopper.spec import HopperSpec
    from tkgen.backends.protocol import Build

EMITS = ("cu", "cubin", "sass", "report")


K = TypeVar("K", bound="HopperSpec[Any]", covariant=True)


@dataclass(frozen=True)
class CudaBuild(Shown, Generic[K]):
    """A compiled kernel: the cubin and the figures read from it."""

    nvcc: Nvcc
    cubin: bytes = field(repr=False)
    figures: Figures
    remarks: str = field(repr=False)
    sass: str = field(repr=False)
    spec: K

    @property
    def kernels(self) -> tuple[Self, ...]:
        """This one."""
        return (self,)

    @property
    def code(self) -> bytes:
        """The cubin."""
        return self.cubin

    def named_figures(self) -> dict[str, int]:
        """The numbers that an `# expect` line can name."""
        f = self.figures
        return {"warps": self.threads // self.spec.target.warp_size, "registers": f.registers, "spills": f.spill_bytes,
                "stack": f.stack_bytes, "shared": self.shared_bytes}  # fmt: skip

    @property
    def dynamic_bytes(self) -> int:
        """Bytes of shared memory that the launch asks for."""
        return self.spec.dynamic_bytes

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.spec.threads

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Findings of the checks on the spec and on the machine code."""
        return (*self.spec.diagnostics, *self.spec.measured(self.figures, self.remarks))

    def check(self) -> Self:
        """This build. Raises SpecError where the machine code spills or lost what the source promises."""
        refuse(self.diagnostics)
        return self

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: static, and what the launch asks for."""
        return self.figures.static_shared_bytes + self.dynamic_bytes

    @property
    def registers(self) -> int:
        """Registers of a thread at the launch."""
        return self.figures.registers

    @property
    def resident(self) -> int:
        """Blocks that share an SM."""
        return self.spec.target.blocks_per_sm(self.threads, self.registers, self.shared_bytes)

    @property
    def function(self) -> None:
        """Nothing: reports show no instructions of this back end."""

    @property
    def watched(self) -> str:
        """Nothing: the machine code of this back end is never watched."""
        return ""

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
            **self.spec.facts(),
            "figures": asdict(self.figures),
            "shared_bytes": self.shared_bytes,
            "diagnostics": [to_json(d) for d in self.diagnostics],
        }

    def line(self) -> str:
        """The figures in one line."""
        f, moved = self.figures, self.spec.moved_registers
        registers = f"{f.registers} registers" + (f" ({moved[0]} producer, {moved[1]} consumer)" if moved else "")
        return (f"{self.spec.name} ({self.spec.target.name}): {registers}, {f.spill_bytes} B spilled, "
                f"{self.shared_bytes} B shared, {self.threads} threads, "
                f"{self.spec.form.words(self.spec, f)}")  # fmt: skip


def write(build: Build, directory: Path, emit: Collection[str] = EMITS) -> dict[str, Path]:
    """Put the outputs named by `emit` under `directory`, each whole or not at all; returns their paths.

    There is one source; cubin and disassembly are each kernel's own.
    """
    name, spec = build.spec.name, build.spec
    files: dict[str, tuple[str, bytes | str]] = {"cu": (f"{name}.cu", spec.text)} if "cu" in emit else {}
    for kernel in build.kernels:
        assert isinstance(kernel, CudaBuild)
        own = "" if kernel is build else f".{kernel.spec.name}"
        for kind, content in (("cubin", kernel.cubin), ("sass", kernel.sass)):
            if kind in emit and content:
                files[f"{kind}{own.replace('.', ' ')}"] = (f"{name}{own}.{kind}", content)
    if "report" in emit:
        files["report"] = (f"{name}.json", json.dumps(build.report(), indent=2) + "\n")
    for file, content in files.values():
        write_atomic(directory / file, content)
    return {kind: directory / file for kind, (file, _) in files.items()}


def compiled(source: str, name: str, target: Hopper, cxx: str | None) -> tuple[Nvcc, bytes, Figures, str, str]:
    """A source's machine code, as the first fields of a build. Raises ToolchainError: no nvcc, or it fails."""
    found = find_nvcc(cxx)
    made = compile_cubin(source, name, target.name, found, include_dirs(), default_cache())
    return found, made.cubin, made.figures, made.remarks, made.sass


def include_dirs() -> tuple[Path, Path]:
    """The folders of the embedded headers, in their order: of Hopper, and for what it shares with CDNA."""
    return Path(os.path.dirname(__file__)) / "include", include_dir()
