"""A compiled spec as data: the machine code, and the figures that are read from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tkgen import __version__
from tkgen.backends.cdna.form import loop_mix
from tkgen.diagnostics import Diagnostic, Severity, SpecError
from tkgen.diagnostics.machine import to_json
from tkgen.diagnostics.text import count_text
from tkgen.machine_check import NOT_ASKED, UNCHECKED, Verdict
from tkgen.notebooks import Shown
from tkgen.targets.model import Occupancy, Resources
from tkgen.toolchain.compiler import Compiler, ToolchainError
from tkgen.toolchain.isa import Function, InstructionMix, parse_asm

if TYPE_CHECKING:
    from tkgen.backends.cdna.spec import Spec


@dataclass(frozen=True)
class Build(Shown):
    """A compiled spec: the machine code, the figures read from it, and what watching it showed."""

    spec: Spec[Any]
    compiler: Compiler
    asm: str = field(repr=False)
    hsaco: bytes = field(repr=False)
    resources: Resources
    kittens: Path | None
    seconds: float
    cached: bool
    machine_check: Verdict = NOT_ASKED

    @property
    def kernels(self) -> tuple[Self, ...]:
        """This one."""
        return (self,)

    @property
    def code(self) -> bytes:
        """The code object."""
        return self.hsaco

    @cached_property
    def function(self) -> Function:
        """The kernel's instructions. ToolchainError where assembly and code object do not belong together."""
        functions = parse_asm(self.asm)
        if self.resources.kernel not in functions:
            raise ToolchainError(f"the kernel {self.resources.kernel!r} of the code object is not in its assembly")
        return functions[self.resources.kernel]

    @property
    def lds_bytes(self) -> int:
        """LDS of one block, all of it static."""
        return self.resources.lds_static_bytes

    @property
    def registers(self) -> int:
        """Registers of a lane that its code uses, VGPRs and AGPRs together."""
        return max(self.resources.total_vgpr, self.resources.vgpr + self.resources.agpr)

    @property
    def resident(self) -> int:
        """Blocks that share a compute unit."""
        return self.occupancy.blocks_per_cu

    @property
    def occupancy(self) -> Occupancy:
        """Blocks and waves that fit a compute unit, from the real registers and LDS."""
        r = self.resources
        return self.spec.target.occupancy(r.vgpr, self.lds_bytes, self.spec.program.waves, r.agpr)

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of the spec, of the real registers, and of the machine code."""
        return (
            *self.spec.diagnostics,
            *self.spec.form.measured(self.spec, self.resources),
            *self.machine_check.diagnostics,
        )

    @property
    def watched(self) -> str:
        """The verdict on the machine code in one line."""
        return self.machine_check.summary

    @property
    def unwatched(self) -> str:
        """Why the machine code was not watched although it should have been; empty where it was."""
        asked = self.machine_check != NOT_ASKED and self.machine_check.outcome == UNCHECKED
        return self.watched if asked else ""

    @cached_property
    def main_loop(self) -> InstructionMix | None:
        """The instruction mix of one iteration of the main loop; None where nothing loops."""
        return loop_mix(self.function)

    def report(self) -> dict[str, object]:
        """All figures as plain data: the content of report.json."""
        spec = self.spec
        return {
            "tkgen": __version__,
            "kernel": spec.name,
            "spec": spec.path.name,
            "target": spec.target.name,
            "compiler": {"kind": self.compiler.kind.value, "version": self.compiler.version},
            "defines": dict(spec.defines),
            "sizes": {d.name: d.size for d in spec.program.dims},
            "waves": spec.program.waves,
            "resources": asdict(self.resources),
            "lds_bytes": self.lds_bytes,
            "occupancy": asdict(self.occupancy),
            **spec.form.figures(spec, self.function),
            "flat_instructions": len(self.function.flat_accesses),
            "machine_check": self.machine_check.to_json(),
            "diagnostics": [to_json(d) for d in self.diagnostics],
        }

    def line(self) -> str:
        """The figures in one line."""
        r = self.resources
        waves = self.occupancy.waves_per_simd
        figures = [
            f"{r.vgpr} VGPR" + (f" + {r.agpr} AGPR" if r.agpr else ""),
            f"{r.sgpr} SGPR",
            count_text(r.vgpr_spills + r.sgpr_spills, "spill"),
            f"{r.scratch_bytes} B scratch",
            f"{self.lds_bytes} B LDS",
            f"{waves:g} {'wave' if waves == 1 else 'waves'}/SIMD",
            *self.spec.form.words(self.spec, self.function),
        ]
        return f"{self.spec.name} ({self.spec.target.name}): " + ", ".join(figures)

    def named_figures(self) -> dict[str, int]:
        """The numbers that an `# expect` line can name."""
        r, (barriers, count) = self.resources, self.spec.form.barriers(self.spec)
        return {
            "waves": self.spec.program.waves,
            barriers: count,
            "vgpr": r.vgpr,
            "agpr": r.agpr,
            "sgpr": r.sgpr,
            "spills": r.vgpr_spills + r.sgpr_spills,
            "scratch": r.scratch_bytes,
            "lds": self.lds_bytes,
        }

    def check(self) -> Self:
        """This build; raises SpecError where the machine code breaks what was promised: spills, scratch, races."""
        errors = [d for d in self.diagnostics if d.severity is Severity.ERROR]
        if errors:
            raise SpecError(errors)
        return self
