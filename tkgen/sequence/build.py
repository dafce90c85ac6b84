"""A compiled sequence: the build of each kernel, and what is said of all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tkgen import __version__
from tkgen.diagnostics import Diagnostic, Severity, SpecError, distinct
from tkgen.diagnostics.machine import to_json
from tkgen.notebooks import Shown

if TYPE_CHECKING:
    from tkgen.sequence.spec import SequenceSpec


@dataclass(frozen=True)
class SequenceBuild(Shown):
    """A compiled spec of several kernels, each built as if it stood alone."""

    spec: SequenceSpec[Any]
    kernels: tuple[Any, ...]

    @property
    def code(self) -> bytes:
        """The machine code of all kernels."""
        return b"".join(k.code for k in self.kernels)

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of the spec, of the real registers, and of the machine code of each kernel."""
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

    def named_figures(self) -> dict[str, int]:
        """The numbers that an `# expect` line can name, as `KERNEL/FIGURE`."""
        return {f"{k.spec.name}/{name}": value for k in self.kernels for name, value in k.named_figures().items()}

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
