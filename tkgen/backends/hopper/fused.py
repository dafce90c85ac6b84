"""Fused matmuls on Hopper, kernels whose loop multiplies what it made of products: laid over warpgroups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.hopper.chain_lowering import ChainLowering, tile_code
from tkgen.backends.hopper.form import HopperForm
from tkgen.backends.hopper.loop_layout import hopper_loop
from tkgen.backends.hopper.loop_schedule import scheduled, unproven
from tkgen.backends.hopper.loops import FEWER_REGISTERS, HopperLoop
from tkgen.backends.hopper.meant import wrong_chain
from tkgen.backends.hopper.serial_loop import SerialLoop
from tkgen.backends.hopper.serial_lowering import SerialLowering
from tkgen.backends.hopper.serial_meant import wrong_serial
from tkgen.backends.hopper.serial_schedule import serial_scheduled, serial_unproven
from tkgen.backends.protocol import Modelled
from tkgen.checks.laid import read_across, too_large, unused
from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.execute.arguments import SizeError, launched_in
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import accesses
from tkgen.ir.launch import Launch
from tkgen.ir.size_cases import around_tiles, tile_units
from tkgen.schedule.loop_tiles import LoopError

if TYPE_CHECKING:
    from tkgen.backends.hopper.spec import HopperSpec
    from tkgen.backends.hopper.toolchain import Figures
    from tkgen.tile.scheduled import Footprint


def _layout(spec: HopperSpec[Any]) -> HopperLoop | SerialLoop:
    """Tiles of its warpgroups. Raises SpecError (E230) if no layout can execute the equations."""
    try:
        return hopper_loop(spec.program, spec.target)
    except LoopError as error:
        span = error.span or spec.program.spans["kernel"]
        fix = Fix(error.fix, error.edits) if error.fix else None
        raise SpecError(Diagnostic("E230", str(error), Label(span), fix=fix)) from error


def _fault(m: HopperLoop | SerialLoop) -> str | None:
    """The first fault that the proof finds in the schedule, or in the values that it stores."""
    if isinstance(m, SerialLoop):
        return serial_unproven(m) or wrong_serial(m, SerialLowering(m).code())
    return unproven(m) or wrong_chain(m, tile_code(m))


def _source(spec: HopperSpec[Any]) -> Source:
    m = spec.layout
    lowering = SerialLowering(m) if isinstance(m, SerialLoop) else ChainLowering(m)
    file = lowering.file(spec.program.header.splitlines(), spec.path.name, spec.target.name)
    return replace(file, beside=spec.beside).source(lowering.marks)


def _check(spec: HopperSpec[Any]) -> Iterator[Diagnostic]:
    if beyond := list(too_large(spec.program, spec.layout)):
        yield from beyond  # its C++ counts tiles in an `int`
        return
    if fault := _fault(spec.layout):
        yield Diagnostic(
            "E240", f"the schedule for this kernel is not proven: {fault}", Label(spec.program.spans["kernel"]),
            fix=Fix("report this, or use another number of buffers"),
        )  # fmt: skip
    yield from read_across(spec.program, spec.layout.loop, spec.layout.split)
    yield from unused(spec.program)


def _one_matrix(spec: HopperSpec[Any]) -> dict[str, int]:
    """One position of each index that only selects a matrix, such as that of a batch."""
    touched = accesses(spec.program.kernel)
    used = [(i.axis, d) for a in touched for i, d in zip(a.indices, a.tensor.dims, strict=True)]
    alone = [a for a in spec.program.parallel if a.is_index and all(d == a.dim for axis, d in used if axis == a)]
    return {a.dim.name: 1 for a in alone}


def _launch(spec: HopperSpec[Any], given: Mapping[str, int] | None) -> Launch[EquationProgram]:
    """The launch at these sizes. Raises SizeError for sizes at which some tile takes no iteration of the loop."""
    layout = spec.layout
    launch = launched_in(layout, spec.program, given)
    if layout.pass_counts is None and not layout.of_groups and layout.counts(launch.extents)[0] == 0:
        names, loop = " and ".join(sorted(d.name for d in layout.deciding if d.size is None)), layout.loop.axis.name
        raise SizeError(f"{spec.name}: at this {names} a tile of {layout.split.name} has no `{loop}` to loop over")
    return launch


def _size_cases(spec: HopperSpec[Any]) -> Iterator[dict[str, int]]:
    """One, two and three times what holds whole tiles of each axis; around tiles if any size is `dynamic`."""
    if spec.program.dynamic:
        known = {d.name: d.size for d in spec.program.dims if d.size is not None}
        cases = around_tiles(spec.program)
        yield from (case for case in cases if spec.layout.of_groups or spec.layout.counts(known | case)[0])
        return
    units = {name: unit for name, unit in tile_units(spec.program).items() if unit > 1}
    yield from ({name: times * unit for name, unit in units.items()} for times in (1, 2, 3))


def _room(spec: HopperSpec[Any]) -> tuple[str, str]:
    m = spec.layout
    room = f"a consumer's thread has {m.most_registers} registers; its tiles take about {m.registers}"
    return room, FEWER_REGISTERS


def _facts(spec: HopperSpec[Any]) -> dict[str, object]:
    found: dict[str, object] = spec.layout.facts()
    return found


def _words(spec: HopperSpec[Any], figures: Figures) -> str:
    products = "" if figures.products is None else f", {figures.products} HGMMA"
    return f"{spec.layout.describe()}{products}"


def _modelled(spec: HopperSpec[Any], *launched: Any) -> Modelled:
    if isinstance(spec.layout, SerialLoop):
        from tkgen.backends.hopper.serial_model import run_serial

        return run_serial(spec.layout, *launched)
    from tkgen.backends.hopper.loop_model import run_loop

    return run_loop(spec.layout, *launched)


def _footprint(spec: HopperSpec[Any]) -> Footprint:
    from tkgen.backends.hopper.footprint import fused_footprint, serial_footprint  # no check needs it

    m = spec.layout
    return serial_footprint(m) if isinstance(m, SerialLoop) else fused_footprint(m)


FUSED = HopperForm(
    layout=_layout,
    check=_check,
    tiles=lambda spec: (serial_scheduled if isinstance(spec.layout, SerialLoop) else scheduled)(spec.layout),
    footprint=_footprint,
    source=_source,
    launch=_launch,
    size_cases=_size_cases,
    facts=_facts,
    words=_words,
    modelled=_modelled,
    blocks=lambda launch: min(launch.tile_count, launch.blocks),
    one_matrix=_one_matrix,
    room=_room,
)
