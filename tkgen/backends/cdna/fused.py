"""Fused matmuls on CDNA, kernels whose loop multiplies what it made of products: their tiles lie over waves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.form import CdnaForm, loop_mix, loop_words, other_per_mfma
from tkgen.backends.cdna.lanes import measured
from tkgen.checks.laid import of_waves
from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.execute.arguments import launched_in
from tkgen.ir.divided import divided
from tkgen.ir.size_cases import around_tiles, tile_units
from tkgen.schedule.loop_steps import steps
from tkgen.schedule.loop_tiles import LoopError
from tkgen.schedule.loop_written import StepError
from tkgen.schedule.loops import LoopMap, map_loops
from tkgen.schedule.row_graph import loop_graph
from tkgen.schedule.step_text import loop_program
from tkgen.targets.model import round_up
from tkgen.tile.ops import barriers
from tkgen.tile.program import Role
from tkgen.toolchain.isa import Function, instruction_mix

if TYPE_CHECKING:
    from tkgen.backends.cdna.lower.origins import Source
    from tkgen.backends.cdna.spec import Spec
    from tkgen.tile.scheduled import Footprint


def _layout(spec: Spec[Any]) -> LoopMap:
    """The tiles of each wave. Raises SpecError (E230) if no layout can execute the equations."""
    try:
        return map_loops(spec.program, spec.target)
    except LoopError as error:
        span = error.span or spec.program.spans["kernel"]
        fix = Fix(error.fix, error.edits) if error.fix else None
        raise SpecError(Diagnostic("E230", str(error), Label(span), fix=fix)) from error


def _schedule(spec: Spec[Any]) -> Role:
    """The proven schedule of its waves. Raises SpecError (E216, E312 to E314) for a written schedule."""
    try:
        return steps(spec.layout, spec.target.synchronisation)
    except StepError as error:
        other = (Label(*error.other),) if error.other else ()
        fix = Fix(error.fix) if error.fix else None
        raise SpecError(Diagnostic(error.code, str(error), Label(error.span), other, fix=fix)) from error


def _check(spec: Spec[Any]) -> Iterator[Diagnostic]:
    """Diagnostics of the layout; of the schedule if the layout has none."""
    said = list(of_waves(spec.program, spec.layout, spec.target))
    yield from said
    if not any(d.code.startswith("E") for d in said):
        spec.schedule  # noqa: B018


def _source(spec: Spec[Any], alone: bool) -> Source:
    from tkgen.backends.cdna.lower.loops import LoopLowering  # no check needs it

    program = spec.program
    header = program.header.splitlines()
    return LoopLowering(spec.layout, spec.schedule).source(
        spec.target, header, spec.path.name, program.occupancy, alone
    )


def _size_cases(spec: Spec[Any]) -> Iterator[dict[str, int]]:
    """One, two and three times the size of complete tiles of each axis; sizes around tiles if some are dynamic."""
    program = spec.program
    if program.dynamic:
        yield from around_tiles(program)
        return
    units = tile_units(program)
    fixed = {name: 1 for name, unit in units.items() if unit == 1}
    for d in divided(program.kernel):
        if d.large.name in fixed:  # heads that share keys: one set of them
            fixed |= {d.large.name: d.count, d.small.name: 1}
    if (groups := program.kernel.groups) is not None:
        fixed[groups.dim.name] = 3
    for times in (1, 2, 3):
        yield {name: unit * times for name, unit in units.items()} | fixed


def _fitting(spec: Spec[Any], sizes: Mapping[str, int]) -> dict[str, int]:
    """`sizes` with an integer number of query heads for each head of keys."""
    found = dict(sizes)
    for d in divided(spec.program.kernel):
        if d.large.name in found:
            found[d.large.name] = round_up(found[d.large.name], found.get(d.small.name, d.small.size or 1))
    return found


def _figures(spec: Spec[Any], function: Function) -> dict[str, object]:
    m, loop = spec.layout, loop_mix(function)
    return {
        "layout": {
            "text": m.describe(),
            "columns": m.columns,
            "side": m.side,
            "predicted_registers": max(r.needs for r in spec.footprint.registers),
        },
        "barriers_per_step": barriers(spec.schedule.tiles.body),
        "instructions": asdict(instruction_mix(function.instructions)),
        "main_loop": None if loop is None else asdict(loop) | {"other_per_mfma": other_per_mfma(loop)},
    }


def _footprint(spec: Spec[Any]) -> Footprint:
    from tkgen.backends.cdna.footprint import fused_footprint  # no check needs it

    return fused_footprint(spec.layout, spec.target, spec.program.occupancy)


FUSED = CdnaForm(
    layout=_layout,
    schedule=_schedule,
    check=_check,
    tiles=lambda spec: loop_program(spec.layout, spec.schedule),
    footprint=_footprint,
    graph=lambda spec: loop_graph(spec.layout, spec.schedule),
    source=partial(_source, alone=True),
    namespace=partial(_source, alone=False),
    launch=lambda spec, given: launched_in(spec.layout, spec.program, given),
    size_cases=_size_cases,
    fitting=_fitting,
    # a condition on which waves decide, or a number from memory to compare places with
    decides=lambda spec: bool(spec.layout.votes or spec.layout.numbers_loaded),
    measured=measured,
    barriers=lambda spec: ("barriers", barriers(spec.schedule.tiles.body)),
    figures=_figures,
    words=lambda spec, function: loop_words(barriers(spec.schedule.tiles.body), loop_mix(function)),
)
