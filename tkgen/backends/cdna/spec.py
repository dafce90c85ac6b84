"""A spec of matrix products for CDNA: scheduled, proven, generated, compiled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tkgen import checks
from tkgen.backends.cdna.kernel_spec import KernelSpec
from tkgen.backends.cdna.lower import Source, lower
from tkgen.diagnostics import Diagnostic
from tkgen.ir.limits import Requirement, requirements
from tkgen.ir.types import Program
from tkgen.schedule import Plan

if TYPE_CHECKING:
    from networkx import MultiDiGraph

    from tkgen.build import Build


@dataclass(frozen=True)
class Spec(KernelSpec[Program, "Build"]):
    """A spec read from `path` with its `-D` values, resolved and scheduled for `target`."""

    plan: Plan = field(repr=False)

    def found(self) -> Iterable[Diagnostic]:
        """What the families of checks say."""
        return checks.check(self.plan, self.target)

    @property
    def graph(self) -> MultiDiGraph:
        """The dataflow graph of an iteration."""
        return self.plan.graph

    @property
    def scheduled(self) -> str:
        """The plan, as text."""
        return self.plan.to_text()

    def generated(self, alone: bool) -> Source:
        """The C++ of the kernel; without the file around it where it is not `alone` there."""
        return lower(self.plan, self.target.name, str(self.path), alone=alone)

    @property
    def requirements(self) -> list[Requirement]:
        """What dynamic sizes must be."""
        shape = self.plan.shape
        return requirements(self.program, shape.unroll, shape.tail_iterations)

    @property
    def kind(self) -> type[Build]:
        """A build of products."""
        from tkgen.build.model import Build

        return Build
