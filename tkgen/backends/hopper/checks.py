"""Checks of a spec for the one schedule that the Hopper back end has, and of its machine code.

Rule. Everything that `lowering` would drop, or turn into a kernel that computes something else, hangs or does not
launch, is refused here (E240), with what to write instead; so is what the GPU has no room for (E501, E403).

The schedule itself - the phases of the mbarriers, when a stage is given back, when a buffer of the output is written
again - is the back end's own. `schedule` states it for the general proof, which runs here for the shape of each spec.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tkgen.backends.hopper.epilogue import stored_as_it_is
from tkgen.backends.hopper.filled import raw_elements
from tkgen.backends.hopper.launch import problems
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.lowering import tile_code
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.meant import wrong_product
from tkgen.backends.hopper.port import WORKING_REGISTERS, by_all, fitted, through_shared
from tkgen.backends.hopper.schedule import unproven
from tkgen.checks import mapping
from tkgen.checks.words import names_text, statement
from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.diagnostics.edits import also_for, with_size, without_option, without_statement
from tkgen.ir.equations import Coordinate
from tkgen.ir.launch import Launch
from tkgen.ir.limits import counts_steps_in_64_bits, most_tiles
from tkgen.ir.products import Sums
from tkgen.ir.room import too_many_registers, too_much_lds
from tkgen.ir.schedules import alternates, names
from tkgen.ir.types import DType, Program, Role, Tensor, Via
from tkgen.source import Span

if TYPE_CHECKING:
    from tkgen.backends.hopper.toolchain import Figures

TF32 = "its matrix instructions read f32 as tf32, with 10 of the 23 fraction bits"
"""Why it multiplies no f32 (PTX ISA, alternate floating-point data formats)."""


def check(program: Program, machine: Hopper) -> list[Diagnostic]:
    """Everything that is wrong with `program` on this GPU; empty where a kernel can be made of it."""
    found = [*_targets(program, machine), *_language(program)]
    if not found:
        found = [*_operands(program), *_roles(program, machine)]
    if not found:
        found = [*_tiles(program, machine), *_clusters(program, machine), *mapping.check_program(program)]
        found += [*mapping.check_parts(program), *_counted(program)]
    if not found:
        found = [*_room(program, machine), *_matrices(program, machine)]
    return found or [*_proof(program, machine), *_rows_in_parts(program, machine)]


def check_figures(
    at: Span,
    allow: Collection[str],
    figures: Figures,
    remarks: str,
    room: str = "",
    fix: str = "make the block smaller, or use more consumers",
) -> list[Diagnostic]:
    """Diagnostics of the compiled kernel: spills, and ptxas' remarks that it broke a promise.

    `room` says how many registers a thread has and about how many it takes, `fix` what takes fewer.
    """  # fmt: skip
    from tkgen.backends.hopper.toolchain import lacks_registers, lost  # no check of a spec needs it

    broken, short = lost(remarks), ""
    if kept := figures.spill_bytes or figures.stack_bytes:
        short = f"the compiled kernel keeps {kept} bytes of a thread in memory"
    elif any(map(lacks_registers, broken)):
        short = (
            "the products of the compiled kernel wait for one another, because there are too few registers to "
            "run them together"
        )
    found = []
    if short and "spills" not in allow:
        found.append(Diagnostic("E405", short, Label(at, room or f"{figures.registers} registers a thread"), (), (),
                                Fix(fix)))  # fmt: skip
    found += [_refused(f"ptxas could not keep the promises of the schedule: {line}", at, "report this") for line in
              broken if not lacks_registers(line)]  # fmt: skip
    return found


def _refused(
    message: str,
    at: Span,
    fix: str,
    label: str = "",
    note: str = "",
    secondary: tuple[Label, ...] = (),
    edits: tuple[Edit, ...] = (),
) -> Diagnostic:
    return Diagnostic("E240", message, Label(at, label), secondary, (note,) if note else (), Fix(fix, edits))


def _targets(program: Program, machine: Hopper) -> Iterator[Diagnostic]:
    if program.targets and machine.name not in program.targets:
        yield Diagnostic(
            "E219",
            f"this spec is not for {machine.name}",
            Label(statement(program, "targets"), f"for {', '.join(program.targets)} only"),
            (),
            (),
            Fix(
                f"build with `--target {program.targets[0]}`, or add `{machine.name}` to the line",
                also_for(statement(program, "targets"), machine.name),
            ),
        )


def _language(program: Program) -> Iterator[Diagnostic]:
    """Clauses that this back end has nothing for."""
    yield from _equations(program, program.equations)
    if program.grid.name == "stream_k":
        yield from _stream_k(program)
    if program.tail == "clamped":
        tail = statement(program, "tail")
        yield _refused("sm_90a does not clamp tails", tail, "write `tail masked`", "",
                       "outside of a tensor the copy engine reads zeros and drops stores",
                       edits=(Edit(tail, "tail masked"),))  # fmt: skip
    for name, clause in (
        ("occupancy", program.occupancy),
        ("unroll", program.unroll),
        ("phase", program.phases),
        ("stream", program.streamed),
    ):
        if clause:
            at = statement(program, name)
            yield _refused(f"`{name}` has no meaning for sm_90a yet", at, f"remove the `{name}` line",
                           edits=without_statement(at))  # fmt: skip
    if program.schedule is not None and not alternates(program.schedule.preset):
        at = statement(program, "schedule")
        yield _refused("sm_90a has two built-in schedules and does not accept a written one yet", at,
                       f"remove the `schedule` block, or choose from {names(alternating=True)}",
                       edits=without_statement(at))  # fmt: skip
    for unused in program.unused:
        yield _refused(f"the {unused.what} `{unused.name}` is never used", unused.span, "remove it", edits=unused.edits)


def _stream_k(program: Program) -> Iterator[Diagnostic]:
    """Runs of K-steps that are not proven."""
    at = program.grid.span or statement(program, "kernel")
    if unknown := next((d for d in program.dims if d.size is None), None):
        yield _refused(f"{unknown.name} is known only at run time, but the proof needs the number of K-steps of each "
                       "tile", at,
                       f"give {unknown.name} a size, or use `grid persistent(132)`")  # fmt: skip
    if program.schedule is not None:
        yield _refused("consumers that take turns need the same number of K-steps in all tiles", at,
                       "remove the `schedule` line, or use `grid persistent(132)`")  # fmt: skip


def _equations(program: Program, equations: Sums) -> Iterator[Diagnostic]:
    """Equations of more than sums of products and what is made of their elements."""
    if program.schedule is not None and any(s.scaled for s in equations.sums):
        yield _refused("consumers that take turns cannot scale products before they are "
                       "added", statement(program, "schedule"),
                       "remove the `schedule` block", "", "the products of the other consumers run "
                                                          "meanwhile")  # fmt: skip
    if len({bool(s.scaled) for s in equations.sums}) > 1:
        plain = next(s for s in equations.sums if not s.scaled)
        yield _refused("on sm_90a the products of all sums must be scaled before they are added, or of "
                       "none", plain.span or
                       statement(program, "kernel"), "write a separate kernel for each")  # fmt: skip
    yield from _filled(program)
    yield from _ragged(program)
    scaled = next((s.span for s in equations.sums if s.scaled), None)
    if (program.grid.shares_tiles or program.part) and scaled:
        yield _refused("sm_90a does not divide the K-steps of scaled products among blocks", scaled,
                       "remove `part`" if program.part else "use `grid persistent(132)`")  # fmt: skip
    known = (program.m, program.n, program.k, *([] if program.ragged else [a.dim for a in program.batch]))
    others = (d for t in program.arguments for d in t.dims if d not in known)
    for dim in dict.fromkeys(d for d in others if d.size is None):
        yield _refused(f"sm_90a needs a size of {dim.name} that is known at build time", dim.span,
                       f"give {dim.name} a size", "dynamic")  # fmt: skip
    if program.grid.name != "linear" and not program.ragged and any(not v.is_whole for v in equations.views):
        yield _refused(f"on sm_90a `grid {program.grid.name}` distributes the tiles of one matrix, not of a batch",
                       program.grid.span or statement(program, "kernel"),
                       "leave the grid out: each tile of each matrix gets a block",
                       edits=without_statement(program.grid.span) if program.grid.span else ())  # fmt: skip
    yield from _reduced(program, equations)
    by_axes = [s for s in equations.stores if not s.target.computed]
    tensors = [s.target.tensor for s in by_axes]
    if again := next((s for n, s in enumerate(by_axes) if s.target.tensor in tensors[:n]), None):
        yield _refused(f"sm_90a stores only one matrix of `{again.target.tensor.name}`", again.span or
                       statement(program, "kernel"), "use a separate tensor for each output")  # fmt: skip


def _filled(program: Program) -> Iterator[Diagnostic]:
    """Operands that warps of the producer load themselves, where they cannot."""
    for operand in program.operands:
        made, tensor, name = program.equations.made.get(operand.name), operand.tensor, operand.name
        if not made and name not in program.gathered and name not in program.placed:
            continue
        at = (made.value.span if made else None) or tensor.span
        if program.schedule is not None:
            yield _refused(
                f"warps load `{name}` themselves, which consumers that take turns cannot have yet",
                at,
                "remove the `schedule` line",
                edits=without_statement(statement(program, "schedule")),
            )
        if program.clusters is not None:
            yield _refused(f"warps load `{name}` themselves, but blocks of a cluster share what the copy engine copies",
                           at, "remove `clusters`", edits=without_statement(program.clusters.span))  # fmt: skip
        if program.ragged and made:
            yield _refused(f"sm_90a does not compute `{name}` for ragged rows yet", at,
                           "compute it in a kernel before")  # fmt: skip
        if operand.contraction_first:
            yield _refused(f"`{name}` is stored with `{program.k.name}` first, but warps load neighbors along it", at,
                           f"store it with `{program.k.name}` as its last dimension")  # fmt: skip
        if made is None:
            continue
        unit, step, size = raw_elements(tensor), program.block[2], program.k.size
        if size is None or size % unit:
            yield _refused(f"rows of `{name}` are loaded in chunks of {unit} elements, and `{program.k.name}` is "
                           f"{'dynamic' if size is None else size}", program.k.span,
                           f"give {program.k.name} a size that is a multiple of {unit}")  # fmt: skip
        elif size % step:
            yield _refused(f"`{name}` is computed for complete K-steps, and {size} elements are not a multiple of "
                           f"{step}", at, f"pad {program.k.name} with zeros to {-(-size // step) * step}")  # fmt: skip


def _reduced(program: Program, equations: Sums) -> Iterator[Diagnostic]:
    """Reductions of other things than rows of a block's sums, and outputs that are neither matrices nor of rows."""
    at = statement(program, "kernel")
    reductions = [r for each in equations.rounds for r in each]
    for reduced in reductions:
        if reduced.axis == equations.rows and program.schedule is not None:
            yield _refused("consumers that take turns finish their rows at different times, so no complete column "
                           "exists",
                           reduced.result.span or at, "remove `schedule`", secondary=
                           (Label(statement(program, "schedule")),),
                           edits=without_statement(statement(program, "schedule")))  # fmt: skip
    if reductions and program.grid.shares_tiles:
        yield _refused("blocks that add to a tile have only parts of its sums, which cannot be reduced",
                       reductions[0].result.span or at, "remove the grid", secondary=
                       (Label(statement(program, "grid")),))  # fmt: skip
    matrices = [s for s in equations.stores if len(s.target.axes) == 2]
    for store in equations.stores:
        if store in matrices:
            continue
        if store.target.tensor.dtype not in (DType.F32, DType.BF16, DType.F16):
            kind = store.target.tensor.dtype.spelling
            yield _refused(f"sm_90a stores results of reductions as f32, bf16 or f16, not {kind}",
                           store.target.tensor.span, "store a wider type")  # fmt: skip


def _ragged(program: Program) -> Iterator[Diagnostic]:
    """Groups of other things than the rows of matrices, and what is made of places within them."""
    equations, at = program.equations, statement(program, "kernel")
    if program.ragged_sum:
        yield _refused("sm_90a has no ragged sums yet", program.ragged_sum.span or at,
                       "remove `within`: each block then sums over the complete axis")  # fmt: skip
    if (rows := program.ragged) is None:
        return
    if any(isinstance(op, Coordinate) and op.axis == rows for op in equations.epilogue):
        yield _refused(f"sm_90a cannot use the position of `{rows.name}` in its group yet", rows.span or at,
                       "read values that depend on it from a tensor")  # fmt: skip
    if scaled := next((s for s in equations.sums if s.scaled), None):
        yield _refused("sm_90a does not scale products of ragged rows before they are added yet", scaled.span or at,
                       "scale the sum after the loop")  # fmt: skip
    for store in equations.stores:
        if len(store.target.tensor.dims) != 2 and not store.target.computed:
            yield _refused("sm_90a stores ragged rows only in matrices", store.span or at,
                           "give the output two dimensions")  # fmt: skip


def _operands(program: Program) -> Iterator[Diagnostic]:
    """Types, ways into shared memory, the ring."""
    first, *rest = program.operands
    if (other := next((o for o in program.operands if not _multiplied(o.dtype)), None)) is not None:
        yield _refused(f"sm_90a does not multiply {other.dtype.spelling}", other.tensor.span,
                       "use bf16, f16, fp8, bf8 or i8, or build for another target", "",
                       TF32 if other.dtype is DType.F32 else "")  # fmt: skip
    others = {o.span: o.via for o in program.operands if o.via is not Via.DIRECT}
    for span, via in others.items():
        way, fix, edits = "bypass shared memory", "write `shared` in place of `registers`", through_shared(span)
        if via is not None:
            way, fix, edits = f"come `via {via.value}`", f"remove `via {via.value}`", without_option(span, "via")
        yield _refused(f"operands {way}, but sm_90a has only `via direct`", span,
                       f"{fix}: the copy engine copies them, with an mbarrier for each stage", edits=edits)  # fmt: skip
    for span in dict.fromkeys(o.registers_span for o in program.shared if o.registers_span is not None):
        yield _refused("register tiles of operands have no meaning for sm_90a", span, "remove the `registers` line",
                       "", "its matrix instructions read both operands from shared memory",
                       edits=without_statement(span))  # fmt: skip
    for other in rest:
        if other.buffers != first.buffers:
            yield _refused(f"`{first.name}` has {first.buffers} buffers, `{other.name}` {other.buffers}", other.span,
                           "use the same number for all operands: they arrive together", "", "one stage holds a tile "
                                                                                             "of each",
                           edits=without_option(other.span, "buffers"))  # fmt: skip
            return
    if first.buffers < 2:
        yield _refused("sm_90a needs at least two stages", first.span,
                       "use `buffers 2` or more, or remove `buffers`", "",
                       "a stage is released when the products of the next one have been issued",
                       edits=without_option(first.span, "buffers"))  # fmt: skip


def _multiplied(dtype: DType) -> bool:
    """True if wgmma has it in the headers: all encodings of 8 bits that the target knows, typing has told others."""
    return dtype in (DType.BF16, DType.F16, DType.I8) or dtype.encoded


def _roles(program: Program, machine: Hopper) -> Iterator[Diagnostic]:
    """One warpgroup that loads, up to three that multiply rows of the block each."""
    group, at, edits = machine.warpgroup_warps, statement(program, "kernel"), fitted(program, machine)
    producers = [r for r in program.roles if not r.multiplies]
    consumer = program.compute
    if len(producers) != 1:
        yield _refused(f"sm_90a needs one role that loads and one that multiplies, not {len(program.roles)} roles",
                       program.roles[-1].span if producers else consumer.span,
                       "write `role producer waves 0..3` with `load A, B`, and the rest in a second role",
                       edits=edits)  # fmt: skip
        return
    for role in (producers[0], consumer):
        if role.first % group or len(role.waves) % group:
            yield _refused(f"role `{role.name}` does not consist of complete warpgroups", role.span,
                           f"use a multiple of {group} waves, starting at a multiple of "
                           f"{group}", edits=edits)  # fmt: skip
    yield from _producer(program, producers[0], group, edits)
    if consumer.loads:
        yield _refused(f"role `{consumer.name}` multiplies and loads {names_text(consumer.loads)}",
                       consumer.loads_span or at, f"leave loading to `{producers[0].name}`",
                       edits=edits)  # fmt: skip
    if program.schedule is not None and len(consumer.waves) < 2 * group:
        yield _refused("a single warpgroup cannot take turns", statement(program, "schedule"),
                       f"give `{consumer.name}` {2 * group} waves, or remove the `schedule` line")  # fmt: skip
    if consumer.shape is not None and consumer.shape[1] != 1:
        yield _refused("consumers must be one above the other on sm_90a", consumer.span,
                       f"write `as {len(consumer.waves)} x 1`", edits=edits)  # fmt: skip


def _producer(program: Program, role: Role, group: int, edits: tuple[Edit, ...]) -> Iterator[Diagnostic]:
    if len(role.waves) != group:
        yield _refused(f"exactly one warpgroup must load on sm_90a, not {len(role.waves)} waves", role.span,
                       f"give `{role.name}` {group} waves: one of their threads drives the copy engine",
                       edits=edits)  # fmt: skip
    if set(role.loads) != {o.name for o in program.operands}:
        yield _refused(f"role `{role.name}` must load all operands on sm_90a", role.loads_span or role.span,
                       f"write `load {', '.join(o.name for o in program.operands)}` there",
                       edits=edits)  # fmt: skip
    elif role.group != len(role.waves):
        yield _refused("one thread drives the copy engine: `by` has no meaning for sm_90a",
                       role.loads_span or role.span, "remove `by ... waves`",
                       edits=by_all(role.loads_span or role.span))  # fmt: skip


def _tiles(program: Program, machine: Hopper) -> Iterator[Diagnostic]:
    """Sides of the block that wgmma and the swizzle want."""
    _, cols, step = program.block
    at, acc, edits = statement(program, "block"), program.accumulator, fitted(program, machine)
    panel = machine.swizzle_bytes // 2 // program.a.dtype.bytes  # of the narrowest swizzle that tiles have
    wanted = machine.wgmma_rows // machine.warpgroup_warps
    if step % panel or step > machine.max_box:
        yield _refused(f"a K-step of {step} is not a multiple of {panel} up to {machine.max_box}", at,
                       f"use {2 * panel} or {4 * panel}", "",
                       f"shared tiles consist of panels of {2 * panel} or {panel} elements", edits=edits)  # fmt: skip
    if cols not in machine.wgmma_columns:
        yield _refused(f"no product has {cols} columns on sm_90a", at,
                       f"use {', '.join(map(str, machine.wgmma_columns))} columns", edits=edits)  # fmt: skip
    for out in program.outputs:
        stored = next((s for s in program.equations.stores if s.target.tensor == out), None)
        if out.dtype is DType.I32 and stored and stored_as_it_is(program.equations, stored) is not None:
            if not acc.dtype.whole:
                yield _refused(f"sm_90a cannot store sums of {acc.dtype.spelling} as i32 yet", out.span,
                               "use f32, bf16, f16, fp8 or bf8")  # fmt: skip
        elif out.dtype is DType.I32:
            yield _refused(f"sm_90a stores integer sums as i32 only unchanged, and `{out.name}` is computed from them",
                           out.span, "store f32, or the sums themselves")  # fmt: skip
        elif out.dtype.whole or not (_multiplied(out.dtype) or out.dtype is DType.F32):
            yield _refused(f"sm_90a cannot store products as {out.dtype.spelling} yet", out.span,
                           "use f32, bf16, f16, fp8 or bf8")  # fmt: skip
        elif cols % (wide := machine.swizzle_bytes // out.dtype.bytes):
            yield _refused(f"{cols} columns of {out.dtype.spelling} are not a multiple of a panel of {wide}", at,
                           f"use {wide} or {2 * wide} columns, or store a wider type", "",
                           f"sums are stored in panels, {machine.swizzle_bytes} bytes of a row in each",
                           edits=edits)  # fmt: skip
    tall = program.schedule is not None and acc.fragments[1] == 1
    if acc.tile != (wanted, cols) or (acc.fragments != (1, 1) and not tall):
        yield _refused(f"a wave's sums are {acc.fragments[0]} x {acc.fragments[1]} fragments of {acc.tile[0]} x "
                       f"{acc.tile[1]}", acc.span,
                       f"write `tile {wanted} x {cols}`, and a wave for every {wanted} rows", "",
                       f"four waves make the {machine.wgmma_rows} rows of a product", edits=edits)  # fmt: skip
    if acc.mfma != (16, 16):
        yield _refused("`mfma` chooses an instruction of AMD", acc.span, "remove it", edits=edits)


def _clusters(program: Program, machine: Hopper) -> Iterator[Diagnostic]:
    """Blocks that share the tiles of a factor: two of them, which walk over the output together."""
    clusters, layout = program.clusters, Layout(program, machine)
    if clusters is None:
        return
    if clusters.count != 2:
        yield _refused(f"a cluster has two blocks on sm_90a, not {clusters.count}", clusters.span, "write `clusters 2`")
        return
    if layout.ragged:
        yield _refused("groups of rows cannot use clusters yet", clusters.span,
                       "remove `clusters`")  # fmt: skip
    if layout.ping_pong:
        yield _refused("clusters cannot have consumers that take turns yet", clusters.span,
                       "remove `clusters`", secondary=(Label(statement(program, "schedule")),))  # fmt: skip
    if program.grid.shares_tiles:
        yield _refused("blocks of a cluster do not share the sums of a tile yet", clusters.span, "remove `clusters`",
                       secondary=(Label(statement(program, "grid")),))  # fmt: skip
    elif program.grid.count % clusters.count:
        yield _refused(f"{program.grid.count} blocks are not a multiple of the cluster of {clusters.count}",
                       program.grid.span or clusters.span, f"use {program.grid.count + 1} blocks",
                       secondary=(Label(clusters.span),))  # fmt: skip
    for operand in program.operands:
        panels = layout.tile_shape(operand)[1] // layout.panel_cols(operand.tensor)
        if layout.parted(operand) == 0 and panels > 1:
            yield _refused(f"the {panels} panels of a tile of `{operand.name}` cannot be halved", clusters.span,
                           "use a block with an even number of panels, or remove `clusters`",
                           secondary=(Label(statement(program, "block")),))  # fmt: skip


def _counted(program: Program) -> Iterator[Diagnostic]:
    launch, most = Launch.known(program), most_tiles(program)
    if launch and (launch.matrix_tiles > most or counts_steps_in_64_bits(program)):
        yield Diagnostic("E607", f"{launch.matrix_tiles} output tiles are more than a kernel can number",
                         Label(statement(program, "block")), (), (), Fix("make the block larger"))  # fmt: skip


def _room(program: Program, machine: Hopper) -> Iterator[Diagnostic]:
    """Shared memory and registers."""
    layout = Layout(program, machine)
    need, has = layout.shared_bytes(layout.store_buffers), machine.shared_bytes_per_block
    if need > has:
        found = too_much_lds(
            need,
            f"a block of {machine.name} has {has}",
            Label(program.a.span, f"{layout.stages} stages of {layout.stage_bytes} bytes"),
            "use fewer buffers, or a smaller block",
            notes=(machine.cited("shared.bytes_per_block"),),
            memory="shared memory",
        )
        yield _with_edits(found, (*without_option(program.a.span, "buffers"), *fitted(program, machine)))
    most = layout.launched_registers  # which ptxas holds every instruction to, whatever setmaxnreg adds
    sums = layout.fragments * len(program.products) * program.block[1] // 2  # 64 x N sums of each over 128 threads
    said = f"which starts with {most}"
    if layout.scaled and sums + WORKING_REGISTERS <= most:  # those of two steps, too, each of one instruction
        sums, most = 3 * sums, layout.moved_registers[1] if layout.moved_registers else most
        said = f"which has {most}"
    sums += layout.reduced
    if sums + WORKING_REGISTERS > most:
        beside = too_many_registers(
            f"a consumer's sums are {sums} registers of each thread{', with two steps of them' * layout.scaled}",
            said,
            Label(program.accumulator.span),
            "use fewer columns, or fewer consumers",
            secondary=(Label(program.compute.span, f"{layout.consumers} consumers"),),
            notes=(f"about {WORKING_REGISTERS} more are needed", machine.cited("registers.per_sm")),
        )
        yield _with_edits(beside, fitted(program, machine))


def _with_edits(found: Diagnostic, edits: tuple[Edit, ...]) -> Diagnostic:
    assert found.fix is not None
    return replace(found, fix=Fix(found.fix.text, edits))


def _proof(program: Program, machine: Hopper) -> Iterator[Diagnostic]:
    """Errors of the tile program: a race or deadlock in some interleaving, or a stored value that differs from the
    equations.

    Either is a mistake of this back end's tile program.
    """
    layout = Layout(program, machine)
    if wrong := unproven(layout) or wrong_product(layout, tile_code(program, machine)):
        yield _refused(f"the schedule for this kernel is not proven: {wrong}", program.a.span,
                       "report this, or use another number of buffers")  # fmt: skip


def _matrices(program: Program, machine: Hopper) -> Iterator[Diagnostic]:
    """Tensors whose rows the copy engine cannot step over."""
    layout = Layout(program, machine)
    for tensor in (access.tensor for access in layout.moved.values()):
        *_, rows, cols = tensor.shape
        if cols is None:
            continue
        for problem in problems(layout, tensor, rows or 1, cols):
            unit = machine.stride_alignment // tensor.dtype.bytes
            dim = tensor.dims[-1]
            yield Diagnostic(
                "E240", problem, Label(dim.span, f"{dim.name} = {cols}"), (Label(tensor.span),),
                (machine.cited("copies.stride_alignment"),),
                Fix(f"pad {dim.name} to {-(-cols // unit) * unit}{_or_load(program, tensor)}",
                    with_size(dim.span, -(-cols // unit) * unit), certain=False),
            )  # fmt: skip


def _or_load(program: Program, tensor: Tensor) -> str:
    """Another fix for an operand: without some clauses warps load its rows themselves."""
    found = [word for word, clause in (("schedule", program.schedule), ("clusters", program.clusters)) if clause]
    operand = next((o for o in program.operands if o.name == tensor.name), None)
    if operand is None or operand.contraction_first or not found:
        return ""
    return f", or remove {names_text(found)}: warps then load the rows themselves"


def _rows_in_parts(program: Program, machine: Hopper) -> Iterator[Diagnostic]:
    """Operands whose rows the copy engine cannot step over: warps load a few bytes of them at a time."""
    layout = Layout(program, machine)
    operands = [o for o in program.operands if layout.loaded_in_chunks(o)]
    if "slow_reads" in program.allow:
        return
    for last in dict.fromkeys(o.tensor.dims[-1] for o in operands):
        found = [o for o in operands if o.tensor.dims[-1] == last]
        size, dtype = last.size or 0, found[0].dtype
        unit = machine.stride_alignment // min(o.dtype.bytes for o in found)
        padded = -(-size // unit) * unit
        verb = "are" if len(found) > 1 else "is"
        yield Diagnostic(
            "W201",
            f"{names_text([o.name for o in found])} {verb} read by warps, {layout.loaded_in_chunks(found[0])} "
            "bytes at a time",
            Label(last.span, f"{last.name} = {size}: a row is {size * dtype.bytes} bytes"),
            tuple(Label(o.tensor.span, "not moved by the copy engine") for o in found),
            (f"the copy engine moves rows that are multiples of {machine.stride_alignment} bytes",
             machine.cited("copies.stride_alignment")),
            Fix(f"pad {last.name} to {padded}, or accept it with `allow slow_reads`",
                with_size(last.span, padded), certain=False),
        )  # fmt: skip
