"""Kernels without products on Hopper: their tile lies over the lanes of warps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.hopper.form import HopperForm
from tkgen.backends.protocol import Modelled
from tkgen.checks.laid import laid_over_lanes, lane_figures, of_lanes
from tkgen.execute.arguments import launched_in
from tkgen.ir.size_cases import around_tiles

if TYPE_CHECKING:
    from networkx import MultiDiGraph

    from tkgen.backends.hopper.spec import HopperSpec
    from tkgen.tile.scheduled import Footprint, Scheduled


def _source(spec: HopperSpec[Any]) -> Source:
    from tkgen.backends.hopper.rows import lower_rows  # no check needs it

    program = spec.program
    header = program.header.splitlines()
    return lower_rows(spec.layout, spec.target.lanes, header, spec.path.name, program.occupancy, program.tile_order,
                      program.grid.count, spec.beside)  # fmt: skip


def _modelled(spec: HopperSpec[Any], *launched: Any) -> Modelled:
    from tkgen.backends.hopper.row_model import run_rows

    return run_rows(spec.layout, spec.target.lanes, *launched)


def _tiles(spec: HopperSpec[Any]) -> Scheduled:
    from tkgen.schedule.step_text import row_program

    return row_program(spec.layout)


def _graph(spec: HopperSpec[Any]) -> MultiDiGraph:
    from tkgen.schedule.row_graph import row_graph

    return row_graph(spec.layout)


def _footprint(spec: HopperSpec[Any]) -> Footprint:
    from tkgen.backends.hopper.footprint import lanes_footprint  # no check needs it

    return lanes_footprint(spec.layout, spec.target)


LANES = HopperForm(
    layout=lambda spec: laid_over_lanes(spec.program, spec.target.lanes),
    check=lambda spec: of_lanes(spec.program, spec.layout),
    tiles=_tiles,
    footprint=_footprint,
    graph=_graph,
    source=_source,
    launch=lambda spec, given: launched_in(spec.layout, spec.program, given),
    size_cases=lambda spec: around_tiles(spec.program),
    facts=lambda spec: {"layout": lane_figures(spec.layout)},
    words=lambda spec, figures: str(spec.layout.describe()),
    modelled=_modelled,
    proof="the layout; its machine code is tested on the GPU",
    copies=False,
)
