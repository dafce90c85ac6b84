"""A spec of matrix products for CDNA: scheduled, proven, generated, compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tkgen import checks
from tkgen.backends.cdna.kernel_spec import KernelSpec
from tkgen.backends.cdna.lower import Source, lower
from tkgen.backends.cdna.sizes import cases, chunks
from tkgen.diagnostics import Diagnostic
from tkgen.execute.arguments import launched
from tkgen.ir.launch import Launch
from tkgen.ir.limits import Requirement, places_of, requirements
from tkgen.ir.types import Dim, Program
from tkgen.schedule import Plan
from tkgen.targets.model import round_up

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
    def planned(self) -> Plan:
        """The plan."""
        return self.plan

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

    def launch(self, given: Mapping[str, int] | None = None) -> Launch[Program]:
        """The launch at the spec's own sizes, `given` ones for dynamic dimensions. Raises SizeError."""
        return launched(self, given)

    def size_cases(self) -> Iterator[dict[str, int]]:
        """Sizes worth trying: multiples of its block and its steps, and ragged ones."""
        return cases(self.plan)

    @property
    def places(self) -> set[Dim]:
        """The dynamic dimensions that blocks take one place of."""
        return places_of(self.program)

    @property
    def divides(self) -> bool:
        """Sizes are multiples of its block and steps."""
        return True

    def fitting(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """`sizes` with whole chunks along rows that are gathered."""
        fitted = {name: round_up(sizes[name], chunk) for name, chunk in chunks(self.program).items() if name in sizes}
        return dict(sizes) | fitted

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
