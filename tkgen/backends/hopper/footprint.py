"""The footprint of a block on Hopper: shared memory, registers of a thread, the warps that own rows of the output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tkgen.backends.hopper.fused_loop import FusedLoop
from tkgen.backends.hopper.layout import Layout, launched_registers
from tkgen.backends.hopper.loops import HopperLoop
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.port import WORKING_REGISTERS
from tkgen.backends.hopper.serial_loop import SerialLoop
from tkgen.ir.equations import Value
from tkgen.ir.types import Side
from tkgen.schedule.row_footprint import exchanged_rows, row_owners, row_registers
from tkgen.schedule.rows import RowMap
from tkgen.tile.scheduled import Buffer, Footprint, Fragment, Moment, Ownership, Reads, RoleMoments, Share, together

MEMORY = "shared memory"
PRODUCER, CONSUMER = "producer", "consumer"


def staged_footprint(m: Layout) -> Footprint:
    """The footprint of products whose operands stream through a ring of stages."""
    program, (_, columns, depth), rows = m.program, m.program.block, m.machine.wgmma_rows
    several = len(program.products) > 1
    each = [Share(f"sums of {p.name}" if several else "sums", m.fragments * columns // 2) for p in program.products]
    held = [*each, Share("products of two steps", 2 * sum(s.registers for s in each) * m.scaled)]
    behind = [*each, Share("reductions of rows", m.reduced)]
    panel = Share("a panel", max((m.panel_cols(s.target.tensor) for s in m.tiles_stored), default=0) // 2)
    moments = (_moment("K-steps", "multiply", held), _moment("a panel", "store", [*behind, panel]))
    groups = [_warps(m, n // m.fragments) for n in range(m.consumers * m.fragments)]
    everyone = tuple(dict.fromkeys(warp for group in groups for warp in group))
    names = [", ".join(o.name for o in program.operands if o.side is side) for side in (Side.A, Side.B)]
    reads = (Reads(names[0], True, rows, depth, len(groups), 1, tuple(groups)),
             Reads(names[1], False, columns, depth, 1, 1, (everyone,)))  # fmt: skip
    how = f"{m.consumers} consumers of {m.fragments * rows} rows, a warp has {_rows(m.machine)} of each {rows}"
    owned = _owned((*m.tiles_stored, *m.equations.stores)[0].target.tensor.name, columns, m.machine, groups, how, reads)
    needs = max(_moment("", "", shares).total for shares in (held, behind)) + WORKING_REGISTERS
    return _roles(m, tuple(_stages(m)), m.launched_registers, moments, needs, owned)


def _stages(m: Layout) -> Iterator[Buffer]:
    for o in m.program.operands:
        turns = m.turns if o.side is Side.A else 1
        rows, cols = (o.step, o.extent // turns) if o.contraction_first else (o.extent // turns, o.step)
        yield Buffer(o.name, m.tile_bytes(o) // turns, m.stages, f"{rows} x {cols} {o.dtype.spelling}")
    panel = f"{m.machine.wgmma_rows} rows of {m.machine.swizzle_bytes} bytes"
    if m.store_buffers:
        yield Buffer("panels of the output", m.panel_bytes, m.consumers * m.store_buffers, panel)
    yield from _rest(m.column_bytes, m.barrier_bytes, m.machine)


def fused_footprint(m: HopperLoop) -> Footprint:
    """The footprint of fused matmuls."""
    rows = m.machine.wgmma_rows
    first, second = Share("sums of the first product", m.keys // 2), Share("sums of the second product", m.width // 2)
    factor = Share("its factor of the second product", m.keys * m.element_bytes // 8)
    moments = [_moment("the product", "multiply", [first])]
    if m.second is not None:
        both = _moment("both products", "multiply", [first, second, factor])
        moments = [both, _moment("the output", "store", [second])]
    groups = [_warps(m, n) for n in range(m.consumers)]
    how = f"{m.describe()}; a warp has {_rows(m.machine)} rows of each {rows}"
    if m.second is not None and not m.keys_innermost:
        how += f"; wgmma reads {m.second.right.tensor.name} transposed"
    owned = _owned((*m.tile_stored, *m.stored)[0].target.tensor.name, m.width, m.machine, groups, how)
    return _roles(m, tuple(_tiles(m)), launched_registers(m.machine, m.threads), tuple(moments), m.registers, owned)


def serial_footprint(m: SerialLoop) -> Footprint:
    """The footprint of any products in and around a loop."""
    arrays = dict.fromkeys(m.array(v) for v in sorted(m.in_arrays, key=lambda v: v.number))
    factors = dict.fromkeys(p.left for p in m.products if isinstance(p.left, Value))
    shares = [Share(f"sums {m.columns_text(v.axes)}", m.own_columns(m.column_axis(v)) // 2) for v in arrays]
    shares += [Share("an operand", m.own_columns(m.column_axis(v)) * m.element_bytes // 8) for v in factors]
    groups = [_warps(m, n) for n in range(m.consumers)]
    how = f"{m.describe()}; a warp has {_rows(m.machine)} rows of each {m.machine.wgmma_rows}"
    out = (*m.tile_stored, *m.rows_stored)[-1]
    columns = m.columns_of(out.target.axes[-1])
    parts = 1 if m.divided is None else m.consumers
    owned = _owned(out.target.tensor.name, columns, m.machine, groups, how, parts=parts)
    moments = (_moment("an iteration", "multiply", shares),)
    return _roles(m, tuple(_serial_tiles(m)), launched_registers(m.machine, m.threads), moments, m.registers, owned)


def _serial_tiles(m: SerialLoop) -> Iterator[Buffer]:
    for tensor, (rows, cols), slots in (
        *((t.tensor, m.shape(t), t.buffers * (m.consumers if t.own else 1)) for t in m.tiles),
        *((s.target.tensor, m.out_shape(s), m.consumers) for s in m.tile_stored),
    ):
        yield Buffer(tensor.name, rows * cols * tensor.dtype.bytes, slots, f"{rows} x {cols} {tensor.dtype.spelling}")
    yield from _rest(0, m.shared_bytes - m.dynamic_bytes, m.machine)


def lanes_footprint(m: RowMap, machine: Hopper) -> Footprint:
    """The footprint of rows."""
    budget = min(machine.lanes.max_registers(m.waves_per_simd(machine.lanes)), machine.max_registers)
    return _footprint(machine, exchanged_rows(m), row_registers(m, budget), row_owners(m), m.threads, m.registers)


def _tiles(m: HopperLoop) -> Iterator[Buffer]:
    rows = m.machine.wgmma_rows
    for tensor, height, width, slots in (
        (m.held.tensor, rows, m.depth, m.consumers),
        (m.left.tensor, m.keys, m.depth, m.buffers[0]),
        *(((m.second.right.tensor, m.keys, m.width, m.buffers[1]),) if m.second is not None else ()),
        *((s.target.tensor, rows, m.width, m.consumers) for s in m.tile_stored),
    ):
        shape = f"{height} x {width} {tensor.dtype.spelling}"
        yield Buffer(tensor.name, height * width * tensor.dtype.bytes, slots, shape)
    yield from _rest(m.column_bytes(m.consumers), m.shared_bytes - m.dynamic_bytes, m.machine)


def _rest(columns: int, barriers: int, machine: Hopper) -> Iterator[Buffer]:
    """Shared memory beside tiles."""
    if columns:
        yield Buffer("reductions of columns", columns)
    yield Buffer("barriers", barriers)
    yield Buffer("alignment", machine.tile_alignment)


def _moment(text: str, action: str, shares: Iterable[Share]) -> Moment:
    return Moment(text, action, "steady", together(shares))


def _roles(
    m: Layout | FusedLoop,
    buffers: tuple[Buffer, ...],
    launched: int,
    moments: tuple[Moment, ...],
    needs: int,
    owned: Ownership,
) -> Footprint:
    """A block of warps that copy, and of others that compute, which take registers of those where they are moved."""
    producer, consumer = m.moved_registers or (launched, launched)
    copies = RoleMoments(PRODUCER, (_moment("copies", "copy", ()),), producer, producer, False)
    roles = (copies, RoleMoments(CONSUMER, moments, needs, consumer))
    moved = m.moved_registers is not None
    return _footprint(m.machine, buffers, roles, owned, m.threads, launched, moved)


def _footprint(
    machine: Hopper,
    buffers: tuple[Buffer, ...],
    roles: tuple[RoleMoments, ...],
    owned: Ownership,
    threads: int,
    launched: int,
    moved: bool = False,
) -> Footprint:
    """The footprint of a block of `threads`, each `launched` with that number of registers."""
    resident = machine.blocks_per_sm(threads, launched, sum(b.bytes * b.slots for b in buffers))
    sharing = -(-resident * threads // (machine.warp_size * machine.sub_partitions))
    limits = machine.warp_size, machine.register_granule, resident, sharing, moved
    return Footprint(MEMORY, machine.shared_bytes_per_block, buffers, roles, owned, *limits)


# ---------------------------------------------------------------- whose the output is


def _warps(m: Layout | FusedLoop, consumer: int) -> tuple[int, ...]:
    """The numbers of a consumer's warps in the block."""
    loads_first = m.loads_first if isinstance(m, FusedLoop) else m.producer.first == 0
    first = (consumer + loads_first) * m.machine.warpgroup_warps
    return tuple(range(first, first + m.machine.warpgroup_warps))


def _rows(machine: Hopper) -> int:
    """Rows of a warpgroup's product that a warp has."""
    return machine.wgmma_rows // machine.warpgroup_warps


def _owned(
    output: str,
    columns: int,
    machine: Hopper,
    groups: Iterable[tuple[int, ...]],
    how: str,
    reads: tuple[Reads, ...] = (),
    parts: int = 1,
) -> Ownership:
    """Rows of warpgroups' products, 64 at a time, by warp; of groups that divide columns into parts, each has one."""
    warps = [warp for group in groups for warp in group]
    count = len(warps) // parts
    rows = tuple(_rows(machine) * n for n in range(count))
    cols = tuple(columns // parts * n for n in range(parts))
    fragments = tuple(Fragment(n % count, n // count, warp) for n, warp in enumerate(warps))
    return Ownership(output, (_rows(machine) * count, columns), rows, cols, fragments, how, reads)
