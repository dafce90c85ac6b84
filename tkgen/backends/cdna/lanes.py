"""Kernels without products on CDNA: their tile lies over the lanes of a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.form import CdnaForm
from tkgen.checks.laid import laid_over_lanes, lane_figures, of_lanes
from tkgen.diagnostics import Diagnostic, Fix, Label
from tkgen.execute.arguments import launched_in
from tkgen.ir.size_cases import around_tiles
from tkgen.targets.model import Resources
from tkgen.toolchain.isa import instruction_mix

if TYPE_CHECKING:
    from networkx import MultiDiGraph

    from tkgen.backends.cdna.lower.origins import Source
    from tkgen.backends.cdna.spec import Spec
    from tkgen.tile.scheduled import Footprint, Scheduled


def _source(spec: Spec[Any], alone: bool) -> Source:
    from tkgen.backends.cdna.lower.rows import RowLowering  # no check needs it

    program = spec.program
    header = program.header.splitlines()
    lowering = RowLowering(spec.layout, remap=program.tile_order, persistent=program.grid.count)
    return lowering.source(spec.target, header, spec.path.name, program.occupancy, alone)


def measured(spec: Spec[Any], r: Resources) -> Iterator[Diagnostic]:
    """Spills (E405), too few waves on a SIMD (E404)."""
    program = spec.program
    fix = Fix("make the tile smaller (`by`), use more waves, or `allow spills`")
    if not r.clean and "spills" not in program.allow:
        spilled = f"{r.vgpr_spills} spilled, {r.scratch_bytes} bytes of scratch"
        label = Label(program.spans["kernel"], f"about {spec.layout.registers} registers were expected")
        yield Diagnostic("E405", f"the compiled kernel keeps registers in memory: {spilled}", label, fix=fix)
    real = spec.target.waves_per_simd(r.vgpr, r.agpr)
    if program.occupancy and real < program.occupancy and "low_occupancy" not in program.allow:
        message = f"{r.total_vgpr} registers let {real} waves share a SIMD, but the spec asks for {program.occupancy}"
        yield Diagnostic("E404", message, Label(program.spans["occupancy"]), fix=fix)


def _tiles(spec: Spec[Any]) -> Scheduled:
    from tkgen.schedule.step_text import row_program

    return row_program(spec.layout)


def _graph(spec: Spec[Any]) -> MultiDiGraph:
    from tkgen.schedule.row_graph import row_graph

    return row_graph(spec.layout)


def _footprint(spec: Spec[Any]) -> Footprint:
    from tkgen.backends.cdna.footprint import lanes_footprint  # no check needs it

    return lanes_footprint(spec.layout, spec.target)


LANES = CdnaForm(
    layout=lambda spec: laid_over_lanes(spec.program, spec.target),
    schedule=lambda spec: spec.layout,
    check=lambda spec: of_lanes(spec.program, spec.layout),
    tiles=_tiles,
    footprint=_footprint,
    graph=_graph,
    source=partial(_source, alone=True),
    namespace=partial(_source, alone=False),
    launch=lambda spec, given: launched_in(spec.layout, spec.program, given),
    size_cases=lambda spec: around_tiles(spec.program),
    measured=measured,
    barriers=lambda spec: ("barriers", spec.layout.exchanges * spec.layout.passes),
    figures=lambda spec, function: {
        "layout": lane_figures(spec.layout),
        "instructions": asdict(instruction_mix(function.instructions)),
    },
    words=lambda spec, function: [spec.layout.describe()],
)
