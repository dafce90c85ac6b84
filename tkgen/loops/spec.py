"""A spec whose loop multiplies what it made of products: its layout over waves, its steps, what there is to say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING

from tkgen.backends.cdna.lower.loops import LoopLowering
from tkgen.backends.cdna.lower.origins import Source
from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.diagnostics.text import count_text
from tkgen.ir.divided import divided
from tkgen.ir.room import too_many_registers
from tkgen.loops.build import LoopBuild
from tkgen.rows.spec import RowSpec
from tkgen.schedule.loop_program import LoopSteps
from tkgen.schedule.loop_registers import shares, total
from tkgen.schedule.loop_steps import steps
from tkgen.schedule.loop_tiles import LoopError
from tkgen.schedule.loop_written import StepError
from tkgen.schedule.loops import LoopMap, map_loops
from tkgen.schedule.row_graph import loop_graph
from tkgen.schedule.step_text import loop_text
from tkgen.targets.model import round_up

if TYPE_CHECKING:
    from networkx import MultiDiGraph


@dataclass(frozen=True)
class LoopSpec(RowSpec):
    """A spec read from `path` with its `-D` values, typed, for `target`."""

    @cached_property
    def layout(self) -> LoopMap:
        """Which wave has which tiles. Raises SpecError (E230) where nothing carries the equations out."""
        program = self.program
        try:
            return map_loops(program, self.target)
        except LoopError as error:
            span = error.span or program.spans["kernel"]
            fix = Fix(error.fix) if error.fix else None
            raise SpecError(Diagnostic("E230", str(error), Label(span), fix=fix)) from error

    @cached_property
    def steps(self) -> LoopSteps:
        """What its waves do, proven. Raises SpecError (E216, E312 to E314) for a written schedule."""
        try:
            return steps(self.layout, self.target.synchronisation)
        except StepError as error:
            other = (Label(*error.other),) if error.other else ()
            fix = Fix(error.fix) if error.fix else None
            raise SpecError(Diagnostic(error.code, str(error), Label(error.span), other, fix=fix)) from error

    @cached_property
    def graph(self) -> MultiDiGraph:
        """Operations, what each takes of others, and the barrier of a pass that covers what goes through LDS."""
        return loop_graph(self.steps)

    def found(self) -> Iterator[Diagnostic]:
        """What there is to say of its layout and of its steps."""
        said = list(super().found())
        yield from said
        if any(d.code.startswith("E") for d in said):
            return
        try:
            self.steps  # noqa: B018
        except SpecError as error:
            yield from error.diagnostics

    def _foreign(self) -> Iterator[Diagnostic]:
        """Clauses that these loops have no use for."""
        program = self.program
        if program.grid.name != "linear" and program.kernel.ragged:
            label = Label(program.grid.span or program.spans["kernel"])
            message = f"blocks of groups take a tile each: there is no `grid {program.grid.name}` for them"
            yield Diagnostic("E230", message, label, fix=Fix("leave `grid` out"))
        held = {load.source.tensor for load in self.layout.held}
        for tensor in program.registers:
            if tensor not in held:
                message = f"`{tensor.name}` is no factor that stays in registers"
                yield Diagnostic("E230", message, Label(program.spans["registers"]), fix=Fix("leave it out"))

    def _waste(self) -> Iterator[Diagnostic]:
        """Tiles that no wave has the registers for; every lane has elements."""
        m, program, target = self.layout, self.program, self.target
        per_simd = program.occupancy or m.waves_per_simd(target)
        found, most = shares(m), target.max_registers(per_simd)
        if total(found) <= most or "spills" in program.allow:
            return
        asked = program.occupancy is not None
        fixes = [f"make tiles of `{m.split.name}` or of `{m.loop.axis.name}` smaller"]
        if not asked and m.waves > target.simds_per_cu:
            fixes.append(f"use {target.simds_per_cu} waves for a tile of {m.columns * target.simds_per_cu}")
        yield too_many_registers(
            f"a wave needs at least {total(found)} registers",
            f"{count_text(per_simd, 'wave')} on a SIMD leave{'s' * (per_simd == 1)} it {most}",
            Label(program.spans.get("occupancy" if asked else "waves", program.spans["kernel"]), m.describe()),
            ", or ".join(fixes),
            notes=("of each lane: " + "; ".join(f"{s.what}: {s.registers}" for s in found),
                   f"{target.name} has {target.registers_per_lane} for each lane of a SIMD, VGPRs and AGPRs together",
                   target.cited("registers.vector_per_lane")),
            asked=asked,
        )  # fmt: skip

    @property
    def decides(self) -> bool:
        """Whether there is a condition on which waves decide, or a number from memory to compare places with."""
        return bool(self.layout.votes or self.layout.numbers_loaded)

    def size_cases(self) -> Iterator[dict[str, int]]:
        """Sizes worth trying: one, two and three times what holds whole tiles of each axis; where only run time knows
        some, those of rows."""
        if self.program.dynamic:
            yield from super().size_cases()
            return
        units: dict[str, int] = {}
        for axis in (*self.program.parallel, self.layout.loop.axis):
            units[axis.dim.name] = lcm(units.get(axis.dim.name, 1), axis.tile or 1)
        fixed = {name: 1 for name, unit in units.items() if unit == 1}
        for d in divided(self.program.kernel):
            if d.large.name in fixed:  # heads that share keys: one set of them
                fixed |= {d.large.name: d.count, d.small.name: 1}
        if (groups := self.program.kernel.groups) is not None:
            fixed[groups.dim.name] = 3
        for times in (1, 2, 3):
            yield {name: unit * times for name, unit in units.items()} | fixed

    def fitting(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """`sizes` with a whole number of heads of queries for each head of keys."""
        found = dict(sizes)
        for d in divided(self.program.kernel):
            if d.large.name in found:
                found[d.large.name] = round_up(found[d.large.name], found.get(d.small.name, d.small.size or 1))
        return found

    @property
    def scheduled(self) -> str:
        """Its steps, as text. Raises SpecError as `layout`."""
        return loop_text(self.steps)

    def generated(self, alone: bool) -> Source:
        """The C++ of the kernel; without the file around it where it is not `alone` there."""
        program = self.program
        header = program.header.splitlines()
        return LoopLowering(self.steps).source(self.target, header, self.path.name, program.occupancy, alone)

    @property
    def kind(self) -> type[LoopBuild]:
        """A build of loops."""
        return LoopBuild
