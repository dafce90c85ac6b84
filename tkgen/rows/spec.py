"""A spec of equations without products: its program, its layout over lanes, and what there is to say about them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Generic

from tkgen.backends.cdna.kernel_spec import KernelSpec
from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.cdna.lower.rows import RowLowering
from tkgen.backends.spec import T, TypedSpec
from tkgen.checks.recurrences import recurrences
from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.execute.arguments import Layout, launched_in
from tkgen.ir.divided import completed, divided, unit
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import AxisKind, accesses
from tkgen.ir.launch import Launch
from tkgen.ir.limits import BUFFER_BYTES, LAUNCH_THREADS
from tkgen.remap import Remap, RemapCall, compose
from tkgen.schedule.row_form import RowError
from tkgen.schedule.row_graph import row_graph
from tkgen.schedule.row_verifier import verify
from tkgen.schedule.rows import LaneTarget, RowMap, map_rows, reach_bytes
from tkgen.schedule.step_text import row_text
from tkgen.targets import Target
from tkgen.targets.model import round_up

if TYPE_CHECKING:
    from networkx import MultiDiGraph

    from tkgen.rows.build import RowBuild


@dataclass(frozen=True)
class LaidRows(TypedSpec[EquationProgram, T], Generic[T]):
    """A spec read from `path` with its `-D` values, typed, laid over the lanes of some machine."""

    @property
    @abstractmethod
    def lanes(self) -> LaneTarget:
        """The machine, as far as layouts need to know."""

    @cached_property
    def layout(self) -> Layout:
        """Which lane has which elements. Raises SpecError where the tile cannot be laid over the lanes."""
        return self.rows

    @cached_property
    def rows(self) -> RowMap:
        """The layout, as one of rows. Raises SpecError as `layout`."""
        program = self.program
        try:
            found = map_rows(program.kernel, program.waves, self.lanes, program.waves_along)
        except RowError as error:
            span = error.span or program.spans["kernel"]
            raise SpecError(Diagnostic("E406", str(error), Label(span), fix=Fix(error.fix))) from error
        verify(found, self.lanes)
        return found

    @property
    def remap(self) -> Remap | None:
        """The order of the tiles, where the spec says one."""
        stages = [RemapCall(s.name, dict(s.keywords), s.positional) for s in self.program.remap]
        return compose(stages) if stages else None

    def found(self) -> Iterator[Diagnostic]:
        """What there is to say of its layout; without one, why."""
        try:
            self.layout  # noqa: B018
        except SpecError as error:
            yield from error.diagnostics
            return
        yield from self._foreign()
        yield from self._sizes()
        yield from self._waste()
        yield from self._unused()

    def _foreign(self) -> Iterator[Diagnostic]:
        """Clauses that rows have no use for."""
        program = self.program
        for staging in program.shared:
            message = f"`{staging.tensor.name}` need not go through LDS: each of its elements has one lane"
            yield Diagnostic("E406", message, Label(staging.span), fix=Fix("leave `shared` out"))
        if program.remap and any(a.dim.size is None for a in program.parallel):
            message = "blocks whose number only run time knows are taken in their order"
            yield Diagnostic("E406", message, Label(program.remap[0].span), fix=Fix("leave `remap` out"))

    def _sizes(self) -> Iterator[Diagnostic]:
        program = self.program
        blocks = prod(count or 1 for count in program.blocks)
        for dim in program.dims:
            if dim.size is not None and dim.size > (largest := self.layout.largest(dim.name)):
                message = f"{dim.name} = {dim.size} is more than the kernel can count"
                yield Diagnostic("E607", message, Label(dim.span, f"{largest} at most"))
        most = LAUNCH_THREADS // self.layout.threads
        if blocks > most:
            span = program.spans["kernel"]
            yield Diagnostic("E607", f"{blocks} blocks are more than a launch can have, {most}", Label(span))
        for access in dict.fromkeys(accesses(self.layout.kernel)):
            if (spanned := reach_bytes(access)) > BUFFER_BYTES:
                message = f"a tile of `{access.tensor.name}` spans {spanned} bytes"
                note = "a tile is addressed with 32-bit offsets from its first row: less than 2 GiB"
                fix = Fix("make the tile smaller (`by`)")
                yield Diagnostic("E607", message, Label(access.tensor.span), notes=(note,), fix=fix)

    def _waste(self) -> Iterator[Diagnostic]:
        """Lanes without work, which a larger tile or fewer waves would mend."""
        layout = self.rows
        covered = layout.rows_covered * layout.chunks * layout.lanes * layout.chunk
        used = layout.row_count * layout.length
        if used * 2 > covered:
            return
        span = self.program.spans.get("waves", self.program.spans["kernel"])
        yield Diagnostic(
            "W403",
            f"{1 - used / covered:.0%} of the lanes have no element of the tile",
            Label(span, layout.describe()),
            fix=Fix("give a tile more rows (`by`), or use fewer waves"),
        )

    def _unused(self) -> Iterator[Diagnostic]:
        for unused in self.program.unused:
            yield Diagnostic(
                "W502", f"the {unused.what} `{unused.name}` is never used", Label(unused.span), fix=Fix(unused.fix)
            )
        yield from recurrences(self.program.kernel, self.program.spans["kernel"])

    @property
    def here(self) -> Label:
        """Where what is said of all of it has its place."""
        return Label(self.program.spans["kernel"])

    def launch(self, given: Mapping[str, int] | None = None) -> Launch[EquationProgram]:
        """The launch at the spec's own sizes, `given` ones for dynamic dimensions. Raises SizeError."""
        return launched_in(self.layout, self.program, given)

    def size_cases(self) -> Iterator[dict[str, int]]:
        """Sizes worth trying: a tile of each dimension that has them, one element, a tile and one, less than three."""
        program, shared = self.program, divided(self.program.kernel)
        fixed = {dim for d in shared for dim in (d.large, d.small) if not d.dynamic and not d.by_tile}
        follow = {d.small for d in shared if d.dynamic}
        walked = (a for a in program.kernel.axes if a.kind is not AxisKind.WHOLE)
        tiles = {a.dim: a.tile or 1 for a in walked if a.dim not in fixed | follow}
        for size in (lambda t: t, lambda t: 1, lambda t: t + 1, lambda t: max(3 * t - 1, 2)):
            sizes = {dim.name: round_up(size(tile), unit(dim, shared)) for dim, tile in tiles.items()}
            whole = completed(program.dims, shared, sizes)
            yield {dim.name: whole[dim.name] for dim in program.dims if dim in follow or dim.name in sizes}

    @property
    def scheduled(self) -> str:
        """Its steps, as text. Raises SpecError as `layout`."""
        return row_text(self.rows)

    @cached_property
    def graph(self) -> MultiDiGraph:
        """The dataflow graph of its equations. Raises SpecError as `layout`."""
        return row_graph(self.rows)


@dataclass(frozen=True)
class RowSpec(LaidRows[Target], KernelSpec[EquationProgram, "RowBuild"]):
    """The same for an AMD GPU."""

    @property
    def lanes(self) -> LaneTarget:
        """The target."""
        return self.target

    def generated(self, alone: bool) -> Source:
        """The C++ of the kernel; without the file around it where it is not `alone` there."""
        program = self.program
        header = program.header.splitlines()
        lowering = RowLowering(self.rows, remap=self.remap, persistent=program.grid.count)
        return lowering.source(self.target, header, self.path.name, program.occupancy, alone)

    @property
    def kind(self) -> type[RowBuild]:
        """A build of rows."""
        from tkgen.rows.build import RowBuild

        return RowBuild
