"""A spec of a loop of products for Hopper: laid over warpgroups, proven, generated, compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.hopper.checks import check_figures
from tkgen.backends.hopper.kernel_spec import HopperKernel
from tkgen.backends.hopper.loop_lowering import lower_loop, tile_code
from tkgen.backends.hopper.loop_schedule import scheduled, unproven
from tkgen.backends.hopper.loops import FEWER_REGISTERS, HopperLoop, hopper_loop
from tkgen.backends.hopper.meant import wrong_chain
from tkgen.backends.hopper.toolchain import Figures
from tkgen.backends.protocol import Modelled
from tkgen.checks.recurrences import recurrences
from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.execute.arguments import launched_in
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import AxisKind, accesses
from tkgen.ir.launch import Launch
from tkgen.proof.execution import Order
from tkgen.schedule.loop_tiles import LoopError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class HopperLoopSpec(HopperKernel[EquationProgram]):
    """A kernel such as attention's for Hopper."""

    @cached_property
    def layout(self) -> HopperLoop:
        """What its warpgroups hold. Raises SpecError (E230) where nothing carries the equations out."""
        try:
            return hopper_loop(self.program, self.target)
        except LoopError as error:
            span = error.span or self.program.spans["kernel"]
            fix = Fix(error.fix, error.edits) if error.fix else None
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
    def source(self) -> Source:
        """The generated CUDA C++."""
        return lower_loop(self.layout, self.program.header.splitlines(), self.path.name, self.target.name)

    def launch(self, given: Mapping[str, int] | None = None) -> Launch[EquationProgram]:
        """The launch at the spec's own sizes, `given` ones for dynamic dimensions. Raises SizeError."""
        return launched_in(self.layout, self.program, given)

    @property
    def one_matrix(self) -> dict[str, int]:
        """One place of each index that says nothing but which matrix, such as a batch's."""
        touched = accesses(self.program.kernel)
        used = [(i.axis, d) for a in touched for i, d in zip(a.indices, a.tensor.dims, strict=True)]
        alone = [a for a in self.program.parallel if a.is_index and all(d == a.dim for axis, d in used if axis == a)]
        return {a.dim.name: 1 for a in alone}

    def size_cases(self) -> Iterator[dict[str, int]]:
        """Sizes worth trying: one, two and three times what holds whole tiles of each axis that has tiles."""
        units: dict[str, int] = {}
        for axis in self.program.kernel.axes:
            if axis.kind is not AxisKind.WHOLE and (axis.tile or 1) > 1:
                units[axis.dim.name] = lcm(units.get(axis.dim.name, 1), axis.tile or 1)
        yield from ({name: times * unit for name, unit in units.items()} for times in (1, 2, 3))

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.layout.threads

    @property
    def dynamic_bytes(self) -> int:
        """Of tiles."""
        return self.layout.dynamic_bytes

    @property
    def moved_registers(self) -> tuple[int, int] | None:
        """Those of producer and consumers."""
        return self.layout.moved_registers

    @property
    def boxes(self) -> HopperLoop:
        """Tiles of operands and outputs."""
        return self.layout

    def blocks(self, launch: Launch[Any]) -> int:
        """One for each tile, or as many as its grid says."""
        return min(launch.tile_count, launch.blocks)

    def measured(self, figures: Figures, remarks: str) -> list[Diagnostic]:
        """Spills, and promises that ptxas says it could not keep, with the registers that its tiles take."""
        m = self.layout
        room = f"a consumer's thread has {m.most_registers} registers; its tiles take about {m.registers}"
        return check_figures(self.judged, self.program.allow, figures, remarks, room, FEWER_REGISTERS)

    def facts(self) -> dict[str, object]:
        """Its layout."""
        m = self.layout
        return {
            "sizes": {d.name: d.size for d in self.program.dims},
            "consumers": m.consumers, "keys": m.keys, "buffers": list(m.buffers), "moved_registers": m.moved_registers,
            "proof": "the plan; its machine code is tested on the GPU",
        }  # fmt: skip

    def words(self, figures: Figures) -> str:
        """The layout, and matrix instructions."""
        products = "" if figures.products is None else f", {figures.products} HGMMA"
        return f"{self.layout.describe()}{products}"

    def modelled(
        self, launch: Launch[Any], inputs: Mapping[str, Tensor], scalars: Mapping[str, float], order: Order,
        progress: Callable[[int, int], None] | None = None,
    ) -> Modelled:  # fmt: skip
        """The model of producer and consumers."""
        from tkgen.backends.hopper.loop_model import run_loop

        return run_loop(self.layout, launch, inputs, scalars, order, progress)
