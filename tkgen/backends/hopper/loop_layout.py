"""The layout of a fused matmul on Hopper: found in a program's equations, or refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from tkgen.backends.hopper.layout import launched_registers, moved_registers
from tkgen.backends.hopper.loop_clauses import (
    buffers_of,
    checked_roles,
    order_of_tiles,
    paging,
    read_by_lanes,
    rows_of_warps,
    split_axis,
)
from tkgen.backends.hopper.loops import FEWER_REGISTERS, PRODUCER_REGISTERS, Chain, HopperLoop, registers_of
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.port import MOST_CONSUMERS
from tkgen.backends.hopper.serial_layout import serial_loop
from tkgen.backends.hopper.serial_loop import SerialLoop
from tkgen.checks.blocks import tiled
from tkgen.diagnostics import Edit
from tkgen.diagnostics.edits import without_statement
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import (
    Access,
    Axis,
    Convert,
    Kernel,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Store,
    Value,
    When,
    reads,
    walk,
    writes,
)
from tkgen.ir.limits import LARGEST_ROWS_SIZE
from tkgen.ir.schedules import alternates, names
from tkgen.ir.types import DType
from tkgen.schedule.loop_accesses import integers_of_rows
from tkgen.schedule.loop_factors import apart
from tkgen.schedule.loop_masks import masked, masked_behind
from tkgen.schedule.loop_tiles import LoopError, extent
from tkgen.source import Span

BYTES = (DType.E4M3FN, DType.E5M2)
FACTORS = (DType.BF16, DType.F16, *BYTES)


def hopper_loop(program: EquationProgram, machine: Hopper) -> HopperLoop | SerialLoop:
    """The layout of a program's kernel on `machine`.

    Raises:
        LoopError: the kernel is not of this form, or its tiles do not fit.
    """
    kernel = program.kernel
    for tensor in kernel.tensors:
        if tensor in kernel.offsets or tensor in integers_of_rows(kernel):
            continue
        if tensor.dtype is DType.I32 and tensor not in paging(kernel):
            raise LoopError(
                f"`{tensor.name}` is i32: a fused matmul on Hopper cannot read tables of indices yet", tensor.span
            )
        if tensor.dtype is DType.I32:
            continue
        masks = tensor.dtype is DType.I8 and read_by_lanes(kernel, tensor)
        if tensor.dtype not in (*FACTORS, DType.F32) and not masks:
            raise LoopError(f"`{tensor.name}` is {tensor.dtype.spelling}", tensor.span, "use bf16, f16 or f32")
    kernel = apart(kernel)
    kernel = masked(kernel, _loop(kernel))
    if not _is_chain(kernel, _loop(kernel), split_axis(program, _loop(kernel)), machine):
        serial = serial_loop(program, kernel, _loop(kernel), machine)
        if "schedule" in program.spans:
            said = program.spans["schedule"]
            raise LoopError("only products as of softmax attention have a schedule on Hopper", said,
                            "remove `schedule`", without_statement(said))  # fmt: skip
        _room(serial, program)
        _maps(serial)
        return serial
    found = _products(program, kernel, _loop(kernel), machine)
    if found.second is not None and found.overhangs(found.columns):
        kernel = masked_behind(kernel, found.loop, found.columns)
        found = replace(found, kernel=kernel)
    if "schedule" in program.spans:
        _scheduled(found, program)
    _fits(found, program)
    _middle(found)
    _stores(found)
    return found


def _loop(kernel: Kernel) -> Loop:
    loops = [op for op in walk(kernel.body) if isinstance(op, Loop)]
    if len(loops) != 1:
        raise LoopError("a kernel with products has one loop", loops[1].span if loops else None)
    if when := next((op for op in walk(kernel.body) if isinstance(op, When)), None):
        raise LoopError("`when any` has no schedule on Hopper yet", when.span, "choose element by element with `where`")
    if loops[0].axis.part is not None and loops[0].axis.bounds:
        raise LoopError(
            "on Hopper a loop cannot both start or end at the tile of a block and have parts", loops[0].axis.span
        )
    return loops[0]


def _is_chain(kernel: Kernel, loop: Loop, split: Axis, machine: Hopper) -> bool:
    """Return True for the products of softmax attention, or the first of them alone: what `HopperLoop` lays out.

    Products of 8-bit floats count as such, too: no others take them. Sums of more columns than a product has do not:
    consumers divide these.
    """
    made = {value: op for op in walk(kernel.body) for value in writes(op)}
    every = [op for op in walk(kernel.body) if isinstance(op, Product)]
    loads = [op.source for v in (v for p in every for v in reads(p)) if isinstance(op := made[v], Load)]
    if any(access.tensor.dtype in BYTES for access in loads):
        return True
    products = [op for op in loop.body if isinstance(op, Product)]
    if not 1 <= len(products) <= 2 or products != every or any(isinstance(op, Store) for op in loop.body):
        return False
    first, *others = products
    held, left = (op.source.axes if isinstance(op := made[v], Load) else () for v in (first.left, first.right))
    if held != (split, first.axis) or left != (loop.axis, first.axis):
        return False
    tiles = [op for op in kernel.body if isinstance(op, Store) and len(op.target.axes) > 1]
    if not others:
        return not tiles and all(len(c.inside.axes) < 2 for c in loop.carries)
    (second,) = others
    right, factor = made[second.right], made[second.left]
    if not isinstance(right, Load) or not isinstance(factor, Convert) or second.axis != loop.axis or len(tiles) > 1:
        return False
    if any(a != split and extent(a) > max(machine.fused_columns) for a in second.result.axes):
        return False
    late = {c.inside for c in loop.carries if len(c.inside.axes) > 1}
    return not any(late & set(reads(op)) and not isinstance(op, Map) for op in loop.body)


def _products(program: EquationProgram, kernel: Kernel, loop: Loop, machine: Hopper) -> HopperLoop:
    """The layout, with its products found."""
    made = {value: op for op in walk(kernel.body) for value in writes(op)}
    products = [op for op in loop.body if isinstance(op, Product)]
    if not 1 <= len(products) <= 2 or any(isinstance(op, Product) for op in kernel.body):
        raise LoopError("on Hopper a fused matmul has one product, or two of which the second multiplies a result of "
                        "the first", loop.span)  # fmt: skip
    first = products[0]
    split = split_axis(program, loop)
    held, left = (op.source if isinstance(op := made[v], Load) else None for v in (first.left, first.right))
    second = _second(loop, made, products[1:])
    if held is None or left is None:
        raise LoopError("the first product must multiply two tensors, the second a converted value (`bf16(...)`) and "
                        "a tensor", products[-1].result.span)  # fmt: skip
    of_bytes = _of_bytes(kernel, held, left, second, first)
    wanted = [(held, split, first.axis), (left, loop.axis, first.axis)]
    if second is not None:
        columns = next(a for a in second.product.result.axes if a != split)
        wanted.append((second.right, columns, loop.axis) if of_bytes else (second.right, loop.axis, columns))
    for access, rows, cols in wanted:
        if of_bytes and access.indices[-1].axis != cols:
            name = access.tensor.name
            raise LoopError(f"`{name}` does not have `{cols.name}` innermost: wgmma takes 8-bit floats only with "
                            "the summed axis innermost", access.tensor.span,
                            f"store `{name}` with `{cols.dim.name}` as its last dimension")  # fmt: skip
        if access.axes != (rows, cols) or access.indices[-1].axis != cols:
            raise LoopError(f"a tile of `{access.tensor.name}` is of `{rows.name}` x `{cols.name}`, in this order",
                            access.tensor.span)  # fmt: skip
    buffers = (buffers_of(program, left.tensor), 1 if second is None else buffers_of(program, second.right.tensor))
    warps = machine.warpgroup_warps
    moving = (left,) if second is None else (left, second.right)
    checked_roles(program, (held, *moving), moving, warps)
    rows_of_warps(program, kernel, split, machine)
    return HopperLoop(kernel, loop, split, max(program.waves // warps, 1), program.grid.count,
                      order_of_tiles(program), machine, first, second, held, left, buffers, roles=program.roles,
                      backwards=bool(loop.axis.bounds) and "remap" not in program.spans)  # fmt: skip


def _second(loop: Loop, made: Mapping[Value, Op], products: Sequence[Product]) -> Chain | None:
    """The second product, None where there is none. Raises LoopError for other operands than a lane has."""
    if not products:
        return None
    (second,) = products
    right = made[second.right]
    if not isinstance(right, Load) or not isinstance(made[second.left], Convert):
        raise LoopError("the first product must multiply two tensors, the second a converted value (`bf16(...)`) and "
                        "a tensor", second.result.span)  # fmt: skip
    return Chain(second, *_onto(second, loop), right.source)


def _of_bytes(kernel: Kernel, held: Access, left: Access, second: Chain | None, first: Product) -> bool:
    """Return True if the factors are 8-bit floats. Raises LoopError if only some of them are, or anything else is."""
    factors = [held.tensor, left.tensor, *([second.right.tensor] if second is not None else [])]
    if stray := next((t for t in kernel.tensors if t.dtype in BYTES and t not in factors), None):
        raise LoopError(f"`{stray.name}` is {stray.dtype.spelling}, but not an operand of a product", stray.span,
                        "use bf16, f16 or f32")  # fmt: skip
    last = first if second is None else second.product
    sizes = {dtype.bytes for dtype in (*(t.dtype for t in factors), last.left.dtype)}
    if len(sizes) > 1:
        raise LoopError("all operands of both products must have 16 bits, or all must have 8 bits", last.result.span)
    return sizes == {1}


def _scheduled(m: HopperLoop, program: EquationProgram) -> None:
    """Raises LoopError for a schedule other than the one that there is, in which consumers take turns."""
    edits = [*without_statement(program.spans["schedule"])]
    edits += without_statement(program.spans["phase"]) if "phase" in program.spans else ()
    message = ""
    if not alternates(program.schedule) or "phase" in program.spans:
        message = f"fused matmuls on Hopper have only {names(alternating=True)} as a schedule"
    elif m.consumers == 1:
        message = f"one warpgroup of `{m.split.name}` cannot take turns"
    if message:
        raise LoopError(message, program.spans["schedule"], "remove `schedule`", edits)


def _onto(second: Product, loop: Loop) -> tuple[Value, Value]:
    """Return what the second product is added to, and the sum, which a carry takes on."""
    users = [op for op in loop.body if second.result in reads(op)]
    handed = [c.update for c in loop.carries]
    if len(users) == 1 and second.result not in handed and isinstance(add := users[0], Map) and add.function == "add":
        others = [v for v in add.arguments if v != second.result]
        if len(others) == 1 and add.result in handed:
            return others[0], add.result
    raise LoopError("the second product must be added once, to a carried value", second.result.span)


def _fits(m: HopperLoop, program: EquationProgram) -> None:
    """Raises LoopError for tiles that no instruction takes, or that do not fit."""
    machine = m.machine
    at: Span | None = m.loop.axis.span
    columns = machine.fused_columns if m.element_bytes > 1 else machine.wgmma_columns
    if m.keys not in columns or (m.second and m.width not in machine.wgmma_columns):
        found = ", ".join(map(str, columns))
        raise LoopError(f"products have {found} columns, not {m.keys} of `{m.loop.axis.name}`, {m.width} columns",
                        at, "choose another tile (`by`)", _fitting_tiles(m))  # fmt: skip
    panel = machine.swizzle_bytes // m.element_bytes
    if m.keys_innermost and m.keys % panel:
        raise LoopError(f"{m.keys} of `{m.loop.axis.name}` are not a multiple of {panel}, the length of a row of "
                        f"`{m.operands[-1].tensor.name}` in shared memory", at, "choose another tile (`by`)",
                        _fitting_tiles(m))  # fmt: skip
    paged = [access for access in m.operands if m.page(access) is not None]
    if m.page(m.held) is not None:
        raise LoopError(f"`{m.held.tensor.name}` is paged, but is no operand that changes in the loop", at)
    if m.keys_innermost and (m.loop.axis.within is not None or paged):
        raise LoopError(f"the copy engine cannot end a row of `{m.operands[-1].tensor.name}` at the end of a group", at)
    _room(m, program)
    _maps(m)


def _room(m: HopperLoop | SerialLoop, program: EquationProgram) -> None:
    """Raises LoopError for tiles that do not fit, and for clauses that no fused matmul has a use for."""
    machine, at = m.machine, m.loop.axis.span
    for inner, tensor in ((access.tensor.dims[-1], access.tensor) for access in m.moved.values()):
        if (row := (inner.size or 0) * tensor.dtype.bytes) % machine.stride_alignment:
            raise LoopError(f"a row of `{tensor.name}` is {row} bytes, but the copy engine needs a multiple of "
                            f"{machine.stride_alignment}", inner.span, f"pad {inner.name}")  # fmt: skip
    if m.shared_bytes > machine.shared_bytes_per_block:
        raise LoopError(
            f"the tiles need {m.shared_bytes} bytes of shared memory, but a block has "
            f"{machine.shared_bytes_per_block}", at,
            "use fewer buffers, or smaller tiles of the loop's axis (`by`)", _fitting_tiles(m),
        )  # fmt: skip
    if m.threads > machine.max_threads_per_block:
        raise LoopError(f"{m.threads} threads are more than the maximum of a block, "
                        f"{machine.max_threads_per_block}", at,
                        f"use a smaller tile of `{m.split.name}`", _fitting_tiles(m))  # fmt: skip
    if m.registers > m.most_registers:
        raise LoopError(
            f"a consumer's thread has {m.most_registers} registers; its tiles take about {m.registers}", at,
            FEWER_REGISTERS, _fitting_tiles(m),
        )  # fmt: skip
    vectors = {op.source.tensor for op in m.loop.body if isinstance(op, Load) and op.result.axes == (m.loop.axis,)}
    named = (s for s in program.shared if s.tensor not in vectors)  # lanes read vectors: AMD GPUs take them from LDS
    if stray := next((s for s in named if s.tensor.name not in m.moved), None):
        raise LoopError(f"`{stray.tensor.name}` is not an operand that changes in the loop", stray.span, "leave it out")
    if program.grid.name not in ("linear", "persistent"):
        raise LoopError(f"there is no `grid {program.grid.name}` for fused matmuls on Hopper", program.grid.span)
    counts, most = m.pass_counts, {d.name: LARGEST_ROWS_SIZE for d in m.deciding}
    if not m.of_groups and (counts[0] if counts else len(m.passes(most, 0))) == 0:
        raise LoopError("a tile has no iteration of the loop", m.loop.axis.span, "give each tile at least one")
    if m.persistent and m.kernel.ragged:
        raise LoopError("tiles of groups may have no iteration of the loop, so each block must compute one tile",
                        program.grid.span, "remove `grid persistent`",
                        without_statement(program.spans["grid"]))  # fmt: skip
    if program.registers:
        raise LoopError(f"`{program.registers[0].name}` stays in shared memory on Hopper", program.spans["registers"],
                        "remove `registers`", without_statement(program.spans["registers"]))  # fmt: skip


def _maps(m: HopperLoop | SerialLoop) -> None:
    """Raises LoopError for a tensor whose tiles differ: it has one tensor map, with boxes of one shape."""
    rows = m.rows_of_factors
    for access in rows:
        for other in rows:
            along = m.rows_along(access) != m.rows_along(other)
            unlike = along or m.grouped(access) != m.grouped(other)
            if access.tensor == other.tensor and (rows[access] != rows[other] or unlike):
                sizes = f"{rows[other]} rows, and of {rows[access]}" if not unlike else "rows along two dimensions"
                sizes = "rows of a group, and of others" if unlike and not along else sizes
                message = f"`{access.tensor.name}` is multiplied in tiles of {sizes}, but a tensor map has one shape"
                raise LoopError(message, m.loop.axis.span, "pass the tensor twice, under two names")


def _middle(m: HopperLoop) -> None:
    """Raises LoopError for values that a lane cannot hold, and for sums that come too late."""
    late, moved = set[Value](), m.operands
    if (second := m.second) is not None:
        late = {c.inside for c in m.loop.carries if c.update == second.result}
        late |= {second.result, second.product.result}
    factors = {op.result: op.source.tensor for op in walk(m.kernel.body) if isinstance(op, Load) and op.source in moved}
    for op in m.middle:
        if late & set(reads(op)):
            raise LoopError(
                "the sums of the second product are used in the loop, but can only be carried", writes(op)[0].span
            )
    for op in walk(m.kernel.body):
        if isinstance(op, Load) and op.source not in moved and (fault := _unreadable(m, op.source)):
            raise LoopError(fault, op.result.span)
        if not isinstance(op, Product) and (tile := next((v for v in reads(op) if v in factors), None)) is not None:
            name = factors[tile].name
            raise LoopError(f"`{name}` is an operand of a product, so it cannot be used otherwise", tile.span)
        of_row = isinstance(op, Reduce) and m.split in op.result.axes and (op.axis == m.loop.axis or op in m.behind)
        of_column = m.second is not None and op in m.combined and op.result.axes == (m.columns,)
        of_column = of_column and m.split.within is None
        if isinstance(op, Reduce) and not of_row and not of_column:
            over = f"over `{m.loop.axis.name}`"
            if m.second is not None:
                over += f", and after the loop over `{m.columns.name}`, or columns of a tile"
            raise LoopError(f"only rows along `{m.split.name}` can be reduced, {over}", op.result.span)
    if m.second is None and (tile := next((c.inside for c in m.loop.carries if c.inside.axes != (m.split,)), None)):
        raise LoopError(
            f"a loop with one product carries only numbers of rows of `{m.split.name}` on Hopper", tile.span
        )


def _unreadable(m: HopperLoop, access: Access) -> str:
    """Why lanes cannot read the elements of a tensor beside those of their sums; empty where they can."""
    name = access.tensor.name
    if any(i.through is not None or i.remainder for i in access.indices):
        return f"`{name}` is indexed by another tensor"
    if any(i.extends and i.divisor != 1 for i in access.indices):
        return f"several elements of a tile share one of `{name}`"
    if m.second is not None and m.loop.axis in access.axes and m.columns in access.axes:
        return f"`{name}` is not an operand of a product"
    return ""


def _stores(m: HopperLoop) -> None:
    """Raises LoopError for what is stored in another form."""
    for store in m.stored:
        name, axes = store.target.tensor.name, store.target.axes
        if store.adds:
            raise LoopError(f"blocks add to `{name}`", store.span)
        known: list[tuple[Axis, ...]] = [(m.split,)]
        if m.second is not None:
            known += [
                m.second.result.axes,
                (m.split, m.second.result.axes[-1]),
                *([(m.columns,)] if m.combined else []),
            ]
        if axes not in known and m.second is None:
            message = f"`{name}` is a tile, but a loop with one product stores only numbers of rows on Hopper"
            raise LoopError(message, store.span)
        if axes not in known:
            raise LoopError(f"`{name}` has axes other than `{m.split.name}` and the columns of the sums", store.span)
        if len(axes) > 1 and store.target.indices[-1].axis != axes[-1]:
            raise LoopError(f"`{name}` does not have `{axes[-1].name}` innermost", store.span)
    if m.second is not None and len(m.tile_stored) != 1:
        raise LoopError("only one tile can be stored after the loop", m.stored[0].span if m.stored else None)
    for op in walk(m.loop.body):
        if isinstance(op, Store):
            raise LoopError(f"`{op.target.tensor.name}` is stored in the loop", op.span, "store it after the loop")


def _fitting_tiles(m: HopperLoop | SerialLoop) -> tuple[Edit, ...]:
    """Choose the largest tiles that wgmma takes and that fit, of the split axis and then of the loop's.

    Those that divide their axes are tried first.
    """
    if isinstance(m, SerialLoop):
        return ()
    machine, split, keys = m.machine, m.split, m.loop.axis
    most_rows = max(extent(split), machine.wgmma_rows)
    most_keys = max(m.keys, machine.swizzle_bytes if m.keys_innermost else machine.wgmma_columns[0])

    def fits(rows: int, columns: int) -> bool:
        consumers = rows // machine.wgmma_rows
        threads = (consumers + 1) * machine.warpgroup_threads
        moved = moved_registers(machine, threads, consumers, PRODUCER_REGISTERS)
        most = (moved or (0, launched_registers(machine, threads)))[1]
        tiles = rows * m.depth + columns * (m.buffers[0] * m.depth + m.buffers[1] * m.width)
        shared = tiles * m.element_bytes + sum(rows * m.width * s.target.tensor.dtype.bytes for s in m.tile_stored)
        shared += m.column_bytes(consumers)
        room = machine.shared_bytes_per_block - 2 * machine.tile_alignment
        panels = not m.keys_innermost or columns * m.element_bytes % machine.swizzle_bytes == 0
        return panels and registers_of(columns, m.width, m.element_bytes) <= most and shared <= room

    sizes = [n * machine.wgmma_rows for n in range(MOST_CONSUMERS, 0, -1)]
    found = [(rows, columns) for rows, columns in product(sizes, reversed(machine.wgmma_columns))
             if rows <= most_rows and columns <= most_keys and fits(rows, columns)]  # fmt: skip
    if not found:
        return ()
    rows, columns = min(found, key=lambda t: ((split.dim.size or 0) % t[0] > 0, (keys.dim.size or 0) % t[1] > 0))
    changed = ((split, split.tile, rows), (keys, keys.tile, columns))
    return tuple(e for a, old, new in changed if old != new and a.span for e in tiled(a.span, new))
