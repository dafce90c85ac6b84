"""A spec of a loop of products for Hopper: laid over warpgroups, proven, generated, compiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import lcm

from tkgen.backends.hopper.build import CudaBuild, compiled
from tkgen.backends.hopper.checks import check_figures
from tkgen.backends.hopper.loop_lowering import lower_loop, tile_code
from tkgen.backends.hopper.loop_schedule import scheduled, unproven
from tkgen.backends.hopper.loops import HopperLoop, hopper_loop
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.meant import wrong_chain
from tkgen.backends.spec import TypedSpec
from tkgen.checks.recurrences import recurrences
from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import AxisKind
from tkgen.schedule.loop_tiles import LoopError


@dataclass(frozen=True)
class HopperLoopSpec(TypedSpec[EquationProgram, Hopper]):
    """A kernel such as attention's for Hopper."""

    @cached_property
    def layout(self) -> HopperLoop:
        """What its warpgroups hold. Raises SpecError (E230) where nothing carries the equations out."""
        try:
            return hopper_loop(self.program, self.target)
        except LoopError as error:
            span = error.span or self.program.spans["kernel"]
            fix = Fix(error.fix) if error.fix else None
            raise SpecError(Diagnostic("E230", str(error), Label(span), fix=fix)) from error

    def found(self) -> Iterator[Diagnostic]:
        """What there is to say of its layout; without one, why."""
        try:
            self.layout  # noqa: B018
        except SpecError as error:
            yield from error.diagnostics
            return
        if fault := unproven(self.layout) or wrong_chain(self.layout, tile_code(self.layout)):
            message = f"the schedule for this kernel is not proven: {fault}"
            yield Diagnostic(
                "E240",
                message,
                Label(self.program.spans["kernel"]),
                fix=Fix("report this, or use another number of buffers"),
            )
        for unused in self.program.unused:
            yield Diagnostic(
                "W502", f"the {unused.what} `{unused.name}` is never used", Label(unused.span), fix=Fix(unused.fix)
            )
        yield from recurrences(self.program.kernel, self.program.spans["kernel"])

    @property
    def scheduled(self) -> str:
        """What its producer and consumers do, as text. Raises SpecError as `layout`."""
        return scheduled(self.layout)

    @cached_property
    def text(self) -> str:
        """The generated CUDA C++."""
        return lower_loop(self.layout, self.program.header.splitlines(), self.path.name, self.target.name).text

    def size_cases(self) -> Iterator[dict[str, int]]:
        """Sizes worth trying: one, two and three times what holds whole tiles of each axis that has tiles."""
        units: dict[str, int] = {}
        for axis in self.program.kernel.axes:
            if axis.kind is not AxisKind.WHOLE and (axis.tile or 1) > 1:
                units[axis.dim.name] = lcm(units.get(axis.dim.name, 1), axis.tile or 1)
        yield from ({name: times * unit for name, unit in units.items()} for times in (1, 2, 3))

    def build(self, *, cxx: str | None = None) -> HopperLoopBuild:
        """Compile to a cubin, with the nvcc `cxx` where it is given.

        Raises:
            SpecError: as `check`, or the machine code spills or lost what the source promises.
            ToolchainError: there is no nvcc, or it fails.
        """
        self.check()
        return HopperLoopBuild(*compiled(self.text, self.name, self.target, cxx), self).check()


@dataclass(frozen=True)
class HopperLoopBuild(CudaBuild):
    """A compiled loop of products."""

    spec: HopperLoopSpec

    def measured(self) -> list[Diagnostic]:
        """Spills, and promises that ptxas says it could not keep."""
        program = self.spec.program
        return check_figures(program.spans["kernel"], program.allow, self.figures, self.remarks)

    @property
    def dynamic_bytes(self) -> int:
        """Of tiles."""
        return self.spec.layout.dynamic_bytes

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.spec.layout.threads

    @property
    def moved_registers(self) -> tuple[int, int] | None:
        """Those of producer and consumers."""
        return self.spec.layout.moved_registers

    def facts(self) -> dict[str, object]:
        """Its layout."""
        m = self.spec.layout
        return {
            "sizes": {d.name: d.size for d in self.spec.program.dims},
            "consumers": m.consumers, "keys": m.keys, "buffers": list(m.buffers), "moved_registers": m.moved_registers,
            "proof": "the plan; its machine code is tested on the GPU",
        }  # fmt: skip

    def words(self) -> str:
        """The layout, and matrix instructions."""
        products = "" if self.figures.products is None else f", {self.figures.products} HGMMA"
        return f"{self.spec.layout.describe()}{products}"
