"""A spec of matrix products for CDNA: scheduled, proven, generated, compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen import checks
from tkgen.backends.cdna.lower import Source, lower
from tkgen.diagnostics import Diagnostic, errors_first, refuse
from tkgen.ir.limits import Requirement, requirements
from tkgen.ir.types import Program
from tkgen.schedule import Plan
from tkgen.syntax import ast
from tkgen.targets import Target

if TYPE_CHECKING:
    from networkx import MultiDiGraph

    from tkgen.build import Build


@dataclass(frozen=True)
class Spec:
    """A spec read from `path` with its `-D` values, resolved and scheduled for `target`."""

    path: Path
    kernel: ast.Kernel = field(repr=False)
    program: Program = field(repr=False)
    plan: Plan = field(repr=False)
    target: Target = field(repr=False)
    defines: Mapping[str, int | None]

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.program.name

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything the checks have to say: errors, then warnings."""
        found = checks.check(self.plan, self.target)
        return errors_first(found)

    @property
    def graph(self) -> MultiDiGraph:
        """The dataflow graph of an iteration."""
        return self.plan.graph

    def check(self) -> Spec:
        """This spec, proven. Raises SpecError with every diagnostic where one is an error."""
        refuse(self.diagnostics)
        return self

    @cached_property
    def source(self) -> Source:
        """The generated C++."""
        return lower(self.plan, self.target.name, str(self.path))

    @property
    def text(self) -> str:
        """The text of it."""
        return self.source.text

    @cached_property
    def namespace(self) -> Source:
        """The generated C++ without the file around it, as it stands among other kernels."""
        return lower(self.plan, self.target.name, str(self.path), alone=False)

    @property
    def requirements(self) -> list[Requirement]:
        """What dynamic sizes must be."""
        shape = self.plan.shape
        return requirements(self.program, shape.unroll, shape.tail_iterations)

    def build(
        self,
        *,
        cxx: str | None = None,
        kittens: Path | None = None,
        log: Path | None = None,
        machine_check: bool = True,
    ) -> Build:
        """Compile to a code object and watch it, unless `machine_check` says not to (see `tkgen.machine_check`).

        Raises:
            SpecError: as `check`; or the compiled code races, does not wait, or leaves its memory.
            ToolchainError: the compiler fails.
        """
        from tkgen.build.compiling import build
        from tkgen.build.model import Build

        return build(self, Build, cxx=cxx, kittens=kittens, log=log, machine_check=machine_check)
