"""The footprint of a block on CDNA: LDS, registers of a lane over the program, the owners of parts of the output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tkgen.checks.registers import estimate, pieces, waves_per_simd
from tkgen.ir.reductions import BYTES, exchanged
from tkgen.ir.types import WAVE_LANES, Program, Side
from tkgen.schedule.loop_registers import moments, shares, total
from tkgen.schedule.loop_tiles import extent
from tkgen.schedule.loops import VOTE_BYTES, VOTES, LoopMap
from tkgen.schedule.plan import EPILOGUE, NEXT, Plan
from tkgen.schedule.row_footprint import exchanged_rows, row_owners, row_registers
from tkgen.schedule.rows import RowMap
from tkgen.schedule.traces import Event
from tkgen.targets import Target
from tkgen.tile.ops import Fetch, Load, Multiply, Read, Store, Take, Write, Zero
from tkgen.tile.program import Control
from tkgen.tile.scheduled import (
    Buffer,
    Footprint,
    Fragment,
    Moment,
    Ownership,
    Reads,
    RoleMoments,
    Share,
    together,
)

MEMORY = "LDS"
REGISTERS_PER_PIECE = 4  # of 16 bytes per lane
SUMS, STAGING = "accumulators", "staging"

Tile = tuple[str, str, int, int, int]  # (of what, operand, fragment, step, slice)


def staged_footprint(plan: Plan, target: Target) -> Footprint:
    """The footprint of a plan."""
    program, predicted = plan.program, estimate(plan, target)
    found: dict[str, tuple[Moment, ...]] = {}
    for wave in plan.waves:  # waves of other phases do the same later
        found.setdefault(wave.name, tuple(_moments(program, plan.events(wave))))
    roles = (RoleMoments(r.name, found[r.name], needed.live, predicted.budget, r.multiplies)
             for r, needed in zip(program.roles, predicted.roles, strict=True))  # fmt: skip
    buffers = [Buffer(o.name, o.lds_bytes, o.buffers, f"{o.lds_shape[0]} x {o.lds_shape[1]} {o.tensor.dtype.spelling}")
               for o in program.shared]  # fmt: skip
    if exchanged(program):
        buffers.append(Buffer("reductions", BYTES * exchanged(program), 1, "parts of all waves"))
    return footprint(target, tuple(buffers), tuple(roles), _owned(program), program.waves, waves_per_simd(program))


def footprint(
    target: Target,
    buffers: tuple[Buffer, ...],
    roles: tuple[RoleMoments, ...],
    owned: Ownership,
    waves: int,
    sharing: int,
) -> Footprint:
    """The footprint of a block of `waves`, of which `sharing` share a SIMD."""
    registers = min(target.allotted_registers(max(r.needs for r in roles)), target.max_registers(sharing))
    vgprs, used = min(registers, target.max_vgprs), sum(b.bytes * b.slots for b in buffers)
    resident = target.occupancy(vgprs, used, waves, registers - vgprs).blocks_per_cu
    limits = WAVE_LANES, target.register_granule, resident, sharing
    return Footprint(MEMORY, target.lds_bytes_per_block, buffers, roles, owned, *limits)


def fused_footprint(m: LoopMap, target: Target, occupancy: int | None) -> Footprint:
    """The footprint of fused matmuls."""
    sharing = occupancy or m.waves_per_simd(target)
    budget = target.max_registers(sharing)
    target_axes, name = m.kernel.stores[0].target.axes, m.kernel.stores[0].target.tensor.name
    rows, columns = m.columns // m.side, max((extent(a) for a in target_axes if a != m.split), default=1) // m.side or 1
    along = target_axes[0] == m.split
    fragments = tuple(
        Fragment(*((w * rows + i, j) if along else (j, w * rows + i)), w, f"({i}, {j})")
        for w in range(m.waves) for i in range(rows) for j in range(columns)
    )  # fmt: skip
    split, other = (tuple(m.side * n for n in range(count)) for count in (m.waves * rows, columns))
    shape = (m.waves * m.columns, columns * m.side)
    how = "; ".join(filter(None, (m.describe(), m.transposes())))
    if along:
        owned = Ownership(name, shape, split, other, fragments, how)
    else:
        owned = Ownership(name, shape[::-1], other, split, fragments, how)
    roles = (RoleMoments("wave", moments(m), total(shares(m)), budget),)
    return footprint(target, tuple(_loop_buffers(m)), roles, owned, m.waves, sharing)


def lanes_footprint(m: RowMap, target: Target) -> Footprint:
    """The footprint of rows."""
    sharing = m.waves_per_simd(target)
    roles = row_registers(m, target.max_registers(sharing))
    return footprint(target, exchanged_rows(m), roles, row_owners(m), m.waves, sharing)


def _loop_buffers(m: LoopMap) -> Iterator[Buffer]:
    for ring in m.moving:
        shape = " x ".join(str(extent(a)) for a in (ring.rows, ring.cols) if a is not None)
        yield Buffer(
            ring.name, ring.bytes // ring.buffers, ring.buffers, f"{shape} {ring.access.tensor.dtype.spelling}"
        )
    for vote in m.votes:
        yield Buffer(f"votes on {vote.condition}", m.waves * VOTE_BYTES, VOTES, "of each wave")
    for x in m.exchanges:
        yield Buffer(str(x.given), x.bytes, VOTES, "of all waves")
    for op in m.combined:
        yield Buffer(str(op.result), m.part_bytes(op), 1, "parts of all waves")


# ---------------------------------------------------------------- whose the output is


def _owned(program: Program) -> Ownership:
    acc, role = program.accumulator, program.compute
    shape = role.shape or (1, 1)
    grid = (program.block[0] // acc.tile[0], program.block[1] // acc.tile[1])
    fragments = [
        Fragment(
            acc.tile_index(0, wave_row, i, shape[0]),
            acc.tile_index(1, wave_col, j, shape[1]),
            role.first + wave_row * shape[1] + wave_col,
            f"({i}, {j})",
        )
        for wave_row in range(shape[0])
        for wave_col in range(shape[1])
        for i in range(acc.fragments[0])
        for j in range(acc.fragments[1])
    ]
    kind = "interleaved" if acc.interleaved else "blocked"
    rows, cols = (tuple(n * acc.tile[side] for n in range(grid[side])) for side in (0, 1))
    reads = tuple(_reads(program, side, fragments, grid[n]) for n, side in enumerate((Side.A, Side.B)))
    cells = tuple(sorted(fragments, key=lambda f: (f.row, f.col, f.wave)))
    how = f"{shape[0]} x {shape[1]} waves, fragments {kind}"
    return Ownership(acc.tensor.name, program.block[:2], rows, cols, cells, how, reads)


def _reads(program: Program, side: Side, fragments: Sequence[Fragment], count: int) -> Reads:
    """Find the waves that read the operands of a side. All operands of a side are divided alike."""
    operands = [o for o in program.operands if o.side is side]
    readers: list[set[int]] = [set() for _ in range(count)]
    for f in fragments:
        readers[f.row if side is Side.A else f.col].add(f.wave)
    first = operands[0]
    return Reads(", ".join(o.name for o in operands), side is Side.A, first.fragment_extent, first.slice, count,
                 first.slices, tuple(tuple(sorted(r)) for r in readers))  # fmt: skip


# ---------------------------------------------------------------- registers over a plan


def _moments(program: Program, events: Sequence[tuple[Event, str]]) -> Iterator[Moment]:
    """Live tiles at each operation: from the read (or fetch) that fills one to the last operation that uses it."""
    born: dict[Tile, int] = {}
    dies: dict[Tile, int] = {}
    for index, (event, _) in enumerate(events):
        for tile in _touched(program, event):
            born.setdefault(tile, index)
            dies[tile] = index
    looped = any(segment == NEXT for _, segment in events)
    for index, (event, segment) in enumerate(events):
        if isinstance(event.op, Control) or segment == NEXT or (segment == EPILOGUE and looped):
            continue
        live = [Share(t[0], _registers(program, t[0], t[1])) for t in born if born[t] <= index <= dies[t]]
        yield Moment(str(event.op), event.op.word, segment, together(live))


def _touched(program: Program, event: Event) -> Iterator[Tile]:
    op, step, tile = event.op, event.step, event.tile
    match op:
        case Read() | Take():
            sort = _sort(program, op.operand)
            yield from ((sort, op.operand, f, step, t) for f in op.tile.fragments for t in op.tile.slices)
        case Multiply():
            for operand, fragments in program.consumed(op):
                sort = _sort(program, operand.name)
                yield from ((sort, operand.name, f, step, t) for f in fragments for t in op.slices)
            name = program.product_of(op.product).name
            yield from ((SUMS, name, i, j, tile) for i in op.rows for j in op.cols)
        case Zero() | Store():
            sums = ((p.name, i, j) for p in program.products for i in op.rows for j in op.cols)
            yield from ((SUMS, *at, tile) for at in sums)
        case Fetch() | Write() | Load():
            yield STAGING, op.operand, 0, step, 0


def _sort(program: Program, operand: str) -> str:
    return f"{program.operand(operand).side.value} tiles"


def _registers(program: Program, sort: str, operand: str) -> int:
    """VGPRs per lane of one tile."""
    if sort == SUMS:
        acc = program.accumulator
        return acc.registers // (acc.fragments[0] * acc.fragments[1])
    if sort == STAGING:
        load = next(o for o in program.operands if o.name == operand)
        role = next((r for r in program.roles if load.name in r.loads), program.compute)
        return pieces(load, role, load.part_count) * REGISTERS_PER_PIECE
    return program.operand(operand).registers_per_tile
