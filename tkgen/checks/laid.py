"""The checks of kernels without K-steps, and of the layout of their tiles over lanes or waves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from math import prod
from typing import TYPE_CHECKING

from tkgen.checks.recurrences import recurrences
from tkgen.diagnostics import Diagnostic, Edit, Fix, Label, SpecError
from tkgen.diagnostics.edits import with_size
from tkgen.diagnostics.text import count_text
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Axis, Load, Loop, Product, Store, accesses, reads, walk
from tkgen.ir.limits import BUFFER_BYTES, LAUNCH_THREADS
from tkgen.ir.room import too_many_registers
from tkgen.ir.types import ACCESS_BYTES
from tkgen.schedule.row_form import RowError, Way
from tkgen.schedule.row_verifier import verify
from tkgen.schedule.rows import LaneTarget, RowMap, by_element, map_rows, reach_bytes
from tkgen.schedule.sweeps import REGISTER_BYTES
from tkgen.targets import Target

if TYPE_CHECKING:
    from tkgen.execute.arguments import Layout
    from tkgen.schedule.loops import LoopMap


def laid_over_lanes(program: EquationProgram, lanes: LaneTarget) -> RowMap:
    """Assign the elements to lanes. Raises SpecError (E406) where the tile cannot be laid over the lanes."""
    try:
        found = map_rows(program.kernel, program.waves, lanes, program.waves_along)
    except RowError as error:
        span = error.span or program.spans["kernel"]
        raise SpecError(Diagnostic("E406", str(error), Label(span), fix=Fix(error.fix))) from error
    verify(found, lanes)
    return found


def lane_figures(m: RowMap) -> dict[str, object]:
    """A layout over lanes, as plain data."""
    return {
        "text": m.describe(), "lanes": m.lanes, "chunk": m.chunk, "chunks": m.chunks, "rows": m.held,
        "across": m.across, "passes": m.passes, "predicted_registers": m.registers,
    }  # fmt: skip


def of_lanes(program: EquationProgram, layout: RowMap) -> Iterator[Diagnostic]:
    """Check a tile that is laid over lanes."""
    waste = chain(_idle_lanes(program, layout), _narrow(program, layout))
    return _all(program, layout, _foreign_to_lanes(program), waste)


def of_waves(program: EquationProgram, layout: LoopMap, target: Target) -> Iterator[Diagnostic]:
    """Check tiles that are laid over waves."""
    return _all(program, layout, _foreign_to_waves(program, layout), _too_many(program, layout, target))


def _all(
    program: EquationProgram, layout: Layout, foreign: Iterable[Diagnostic], waste: Iterable[Diagnostic]
) -> Iterator[Diagnostic]:
    yield from foreign
    yield from _sizes(program, layout)
    yield from waste
    yield from unused(program)


def unused(program: EquationProgram) -> Iterator[Diagnostic]:
    """Report names that no operation uses, and recurrences that may lose precision or range."""
    for found in program.unused:
        yield Diagnostic("W502", f"the {found.what} `{found.name}` is never used", Label(found.span),
                         fix=Fix(found.fix, found.edits))  # fmt: skip
    yield from recurrences(program.kernel, program.spans["kernel"])


def _foreign_to_lanes(program: EquationProgram) -> Iterator[Diagnostic]:
    """Clauses that rows have no use for."""
    for staging in program.shared:
        message = f"`{staging.tensor.name}` does not need LDS: only one lane uses each of its elements"
        yield Diagnostic("E406", message, Label(staging.span), fix=Fix("remove `shared`"))
    if program.remap and (program.kernel.ragged or any(a.dim.size is None for a in program.parallel)):
        message = "`remap` needs a number of blocks that is known at build time"
        yield Diagnostic("E406", message, Label(program.remap[0].span), fix=Fix("remove `remap`"))


def _foreign_to_waves(program: EquationProgram, layout: LoopMap) -> Iterator[Diagnostic]:
    """Clauses that these loops have no use for."""
    if program.grid.name != "linear" and program.kernel.ragged:
        label = Label(program.grid.span or program.spans["kernel"])
        message = f"blocks of groups compute one tile each, so they cannot have `grid {program.grid.name}`"
        yield Diagnostic("E230", message, label, fix=Fix("remove `grid`"))
    yield from read_across(program, layout.loop, layout.split)
    held = {load.source.tensor for load in layout.held}
    for tensor in program.registers:
        if tensor not in held:
            message = f"`{tensor.name}` is not an operand that stays in registers"
            yield Diagnostic("E230", message, Label(program.spans["registers"]), fix=Fix("leave it out"))


def read_across(program: EquationProgram, loop: Loop, split: Axis) -> Iterator[Diagnostic]:
    """Warn about numbers for each score, of a loop of fused matmuls, whose neighbours along the loop are far apart."""
    factors = {v for op in loop.body if isinstance(op, Product) for v in reads(op)}
    loads = (op for op in loop.body if isinstance(op, Load) and op.result not in factors)
    for load in (op for op in loads if set(op.result.axes) == {split, loop.axis}):
        access, name = load.source, load.source.tensor.name
        if access.indices[-1].axis == split and "slow_reads" not in program.allow:
            message = f"`{name}` is read one element at a time: its last index is `{split.name}`"
            label = Label(
                load.result.span or access.tensor.span, f"neighboring lanes read neighbors along `{loop.axis.name}`"
            )
            fix = Fix(f"swap the indices if its rows are those of `{split.name}`, else store it with "
                      f"`{loop.axis.name}` last, or write `allow slow_reads`")  # fmt: skip
            yield Diagnostic("W201", message, label, fix=fix)


def too_large(program: EquationProgram, layout: Layout) -> Iterator[Diagnostic]:
    """Report sizes that a 32-bit integer does not hold, and more blocks than a launch has."""
    blocks = prod(count or 1 for count in program.blocks)
    for dim in program.dims:
        if dim.size is not None and dim.size > (largest := layout.largest(dim.name)):
            message = f"{dim.name} = {dim.size} is more than a 32-bit integer holds"
            yield Diagnostic("E607", message, Label(dim.span, f"{largest} at most"))
    most = LAUNCH_THREADS // layout.threads
    if blocks > most:
        span = program.spans["kernel"]
        yield Diagnostic("E607", f"{blocks} blocks are more than the maximum of a launch, {most}", Label(span))


def _sizes(program: EquationProgram, layout: Layout) -> Iterator[Diagnostic]:
    yield from too_large(program, layout)
    for access in dict.fromkeys(accesses(layout.kernel)):
        if (spanned := reach_bytes(access)) > BUFFER_BYTES:
            message = f"a tile of `{access.tensor.name}` spans {spanned} bytes"
            note = "a tile is addressed with 32-bit offsets from its first row: less than 2 GiB"
            fix = Fix("make the tile smaller (`by`)")
            yield Diagnostic("E607", message, Label(access.tensor.span), notes=(note,), fix=fix)


def _idle_lanes(program: EquationProgram, layout: RowMap) -> Iterator[Diagnostic]:
    """Lanes without work, which a larger tile or fewer waves would use."""
    covered = layout.rows_covered * layout.chunks * layout.lanes * layout.chunk
    used = layout.row_count * layout.length
    if used * 2 <= covered:
        span = program.spans.get("waves", program.spans["kernel"])
        yield Diagnostic("W403", f"{1 - used / covered:.0%} of the lanes have no element of the tile",
                         Label(span, layout.describe()),
                         fix=Fix("give a tile more rows (`by`), or use fewer waves"))  # fmt: skip


def _narrow(program: EquationProgram, m: RowMap) -> Iterator[Diagnostic]:
    """Tensors of long rows of which each access moves less than a register, as their size or their tile is uneven."""
    if "slow_reads" in program.allow:
        return
    if by_element(m.kernel, m.fast):
        return
    written = {op.target for op in walk(m.kernel.body) if isinstance(op, Store)}
    for access in dict.fromkeys(accesses(m.kernel)):
        tensor, axis = access.tensor, access.innermost
        size = tensor.dtype.sized({Way.ALONG: m.chunk, Way.ACROSS: m.across}.get(m.way(access), REGISTER_BYTES))
        if size >= REGISTER_BYTES or axis is None or axis.within is not None:
            continue
        lies_along, unit = axis == m.fast, ACCESS_BYTES * 8 // tensor.dtype.bits
        if tensor.dtype.sized(m.length if lies_along else m.length * m.row_count) <= m.line_bytes:
            continue
        known = str(axis.dim.size)
        verb, told = "written" if access in written else "read", f"each access moves {count_text(size, 'byte')}"
        uneven = axis.dim.size % unit if axis.dim.size is not None else 0
        edits: tuple[Edit, ...] = ()
        if axis.dim.size is None:
            known = "dynamic, so rows may begin anywhere"
            fix = f"give `{axis.dim.name}` a size: a build for each, as `tkgen.jit` makes them"
        elif uneven:
            padded = axis.dim.size + unit - uneven
            fix, edits = f"pad {axis.dim.name} to {padded}", with_size(axis.dim.span, padded)
        elif axis.tile is not None and axis.tile % unit:
            fix = f"make tiles of `{axis.name}` a multiple of {unit} (`by`)"
        else:
            fix = f"store `{tensor.name}` with `{m.fast.dim.name}` last"
        message = f"`{tensor.name}` is {verb} one element at a time"
        label = Label(tensor.span, f"{axis.dim.name} = {known}: {told}")
        advice = Fix(f"{fix}, or accept it with `allow slow_reads`", edits, certain=False)
        yield Diagnostic("W201", message, label, fix=advice)


def _too_many(program: EquationProgram, m: LoopMap, target: Target) -> Iterator[Diagnostic]:
    """Tiles that no wave has the registers for; every lane has elements."""
    from tkgen.schedule.loop_registers import shares, total  # kernels of rows do not need it

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
