"""The layout of the values of a loop of equations: fused matmuls with carried values, over the waves of a block.

    over h in HEADS, q in LENGTH by 128        `q` is split: each wave has a part of its tile, no value crosses waves
    waves 4 along q
    carry m : f32[q] = -3.4e38, o : f32[q, D] = 0
    each j in KEYS by 64                       the loop; its other axis and D are whole in every wave
      s = Q[h, q] @ K[h, j].T                  a factor with the split axis is held in registers, the other one moves:
      ...                                      it changes from iteration to iteration and goes through a ring in LDS
      o = o * r + bf16(p) @ V[h, j]            a product of what was made of a product

**Orientation.** A lane holds of an MFMA's result four neighbours of one column, and of its right operand the same; of
its left operand it holds neighbours of one row (CDNA3 ISA, "Matrix fused-multiply-add"). So with the split axis along
the columns of every result, what one product gave is the right operand of the next as it stands: to convert it is to
round it, and nothing moves between lanes. With the split axis along the rows it would become a left operand: 16 lane
permutes for four elements of each lane. Hence all products are computed transposed, o^T = v^T p^T, and there is nothing
to choose: what is a row of the equations is a column here, and the reduction of a row is that of a lane's
own elements and of the two (side 32) or four lanes (side 16) with the same column.

The moving factor is the left operand: rows of the result by what is summed. A tile lies like that in LDS, so that lanes
read neighbours. Where memory has it the other way round (V: rows of keys, summed over keys) it is `turned` on the way
from registers to LDS, four rows by four columns in each lane at a time.

Where products take one tile both ways (K of a backward pass: s = Q K^T, dq += ds K), LDS has it once, with the loop's
axis along its rows, and what sums over that axis reads it `across`: four neighbours of four rows in each lane, turned
in registers by two permutes for each MFMA. A lane has one row of an operand's base tile, so these neighbours are rows
of four base tiles, and the rows of the result lie `interleaved`: row r of base tile i is place 4 r + i of the axis.
That axis is whole in each wave and its places are all alike: nothing moves until the result is stored, four neighbours
at once. All products whose results have that axis along their rows are read like that.

A factor that goes to LDS directly (`via direct`, 16 bytes a lane) lies there as in memory, and is read by rows, eight
neighbours of one row in each lane, or by columns, with transposing reads of four. These take the rows of LDS in the
order in which what was computed has them in its registers (quads of neighbours, by turns of the lanes of a column), so
it still is an operand as it stands. A loaded factor has eight neighbours, too: so by rows goes with what is loaded.

With `schedule interleave` the first product of an iteration is that of the next iteration: nothing waits for it, so its
MFMAs stand between the vector instructions of what is computed of the one before. With `schedule ping_pong` it is, too,
and of the two waves of a SIMD one multiplies while the other one computes: see `tkgen.schedule.loop_ping_pong`.

A ragged axis (`q in TOTAL within FIRST[s] by 128`, and so the loop's) changes none of this: places are counted in the
block's group, and what lies beyond its end is masked as what lies beyond the end of a tensor.

A vector along the loop's axis (a number for each row of results, such as the logarithms of sums) goes through a ring of
its own, if it is `shared`; one along the split axis is loaded before the loop. Lanes load other
numbers of an iteration as it begins: one for each result of the first product, such as a bias, for each row of them, or
a single one (`tkgen.schedule.loop_loads`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

from tkgen.diagnostics.edits import without_option
from tkgen.ir.equation_program import EquationProgram, WrittenSchedule
from tkgen.ir.equations import (
    Axis,
    Kernel,
    Load,
    Loop,
    Product,
    Reduce,
    Value,
    When,
    reads,
    walk,
    writes,
)
from tkgen.ir.limits import BUFFER_BYTES, LARGEST_ROWS_SIZE
from tkgen.ir.schedules import SCHEDULES, alternates, names, runs_ahead
from tkgen.ir.types import ACCESS_BYTES, BASE_TILE, WAVE_LANES, DType, Via
from tkgen.remap import Remap, RemapCall, compose
from tkgen.schedule.loop_accesses import check_accesses, check_bytes, check_types
from tkgen.schedule.loop_exchange import exchanges
from tkgen.schedule.loop_factors import apart
from tkgen.schedule.loop_loads import loads_first, loads_of_iterations, vectors
from tkgen.schedule.loop_masks import masked, masked_behind
from tkgen.schedule.loop_products import multiplications, outside
from tkgen.schedule.loop_tiles import (
    ALIGNMENT,
    Exchange,
    LoopError,
    Moving,
    Multiplication,
    Outside,
    extent,
    pitch_bytes,
    reach,
)
from tkgen.targets import Target
from tkgen.targets.model import round_up

SIDES = (2 * BASE_TILE, BASE_TILE)  # of the base tiles of MFMAs, the better one first: fewer reads of LDS
VOTES = 2  # slots of a ring of votes: a wave that votes again has met all that read the vote before last
VOTE_BYTES = 4  # of LDS for the vote of a wave
PART_BYTES = 4  # of LDS for a wave's part of a number that all combine
BOX = (16, 32)  # elements of 2 bytes that a wave brings with one direct load: `st_16x32` of the ThunderKittens surface


@dataclass(frozen=True)
class LoopMap:
    """The layout of one kernel over a block of `waves` waves, which divide its tile of `split` among them."""

    kernel: Kernel
    loop: Loop
    split: Axis
    waves: int
    multiplications: tuple[Multiplication, ...]
    vectors: tuple[Moving, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    outside: tuple[Outside, ...] = ()
    early: Multiplication | None = None  # what is multiplied a pass ahead
    late: int = 0  # waves from this one on are a meeting behind the others; 0: none are
    written: WrittenSchedule | None = None
    remap: Remap | None = None  # the order of blocks; along rows of the last parallel axis without
    persistent: int = 0  # blocks, which go from tile to tile; 0 where each has its own

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.waves * WAVE_LANES

    @property
    def columns(self) -> int:
        """Elements of the split axis that a wave has: some lie beyond a tile that has no whole base tiles."""
        return round_up(extent(self.split), BASE_TILE) // self.waves

    @property
    def moving(self) -> tuple[Moving, ...]:
        """The tensors that go through LDS: the operands in the order of their use, then vectors."""
        return (*dict.fromkeys(ring for m in self.multiplications for ring in m.rings), *self.vectors)

    @property
    def fenced(self) -> bool:
        """Return True if no instruction crosses a barrier."""
        return self.late > 0 or self.written is not None

    @property
    def unrolled(self) -> int:
        """Passes that stand in the loop: of two what one computes for the next one moves nowhere."""
        axis = self.loop.axis
        fixed = not axis.bounds and axis.within is None and axis.dim.size is not None
        return 2 if self.early is not None and fixed and -(-(axis.dim.size or 0) // (axis.tile or 1)) % 2 == 0 else 1

    @property
    def direct(self) -> bool:
        """Return True if the operands go to LDS directly."""
        return any(ring.direct for ring in self.moving)

    @property
    def products(self) -> tuple[Product, ...]:
        """All products, those outside of the loop too."""
        exchanged, aside = (x.product for x in self.exchanges), (x.product for x in self.outside)
        return (*(x.product for x in self.multiplications), *exchanged, *aside)

    @cached_property
    def votes(self) -> tuple[When, ...]:
        """The conditions on which the waves of a block decide together."""
        return tuple(op for op in self.loop.body if isinstance(op, When))

    @cached_property
    def combined(self) -> tuple[Reduce, ...]:
        """The reductions after the loop along the axis that the waves divide: each has a part, which all combine."""
        return tuple(op for op in self.kernel.body if isinstance(op, Reduce) and op.axis == self.split)

    @cached_property
    def rings(self) -> tuple[int, ...]:
        """The slots of each ring in LDS: of the factors that move, then of the waves' votes, of what they exchange, of
        their parts of reductions."""
        paired = (VOTES for _ in (*self.votes, *self.exchanges))
        return (*(ring.buffers for ring in self.moving), *paired, *(1 for _ in self.combined))

    @property
    def held(self) -> tuple[Load, ...]:
        """The factors that are loaded to registers before the loop."""
        changing = {x.held for x in self.multiplications if x.held_ring is not None}
        loads = (op for op in walk(self.kernel.body) if isinstance(op, Load) and op.result in self.factors)
        return tuple(op for op in loads if op.result not in changing)

    @property
    def numbers_loaded(self) -> tuple[Load, ...]:
        """The numbers that a block takes of tensors, before the loop."""
        loads = (op for op in walk(self.kernel.body) if isinstance(op, Load) and not op.result.axes)
        return tuple(op for op in loads if op not in self.loads_of_iterations)

    @property
    def columns_loaded(self) -> tuple[Load, ...]:
        """The vectors along the split axis, which are loaded before the loop."""
        loads = (op for op in walk(self.kernel.body) if isinstance(op, Load))
        return tuple(op for op in loads if op.result.axes == (self.split,) and op not in self.loads_of_iterations)

    @cached_property
    def tiles_loaded(self) -> tuple[Load, ...]:
        """The loads in the register layout of results of products, tiles and values of their rows, alike in all
        iterations. Those that only the loop uses are loaded before it.
        """
        operands = {v for product in self.products for v in reads(product)}
        loads = [op for op in walk(self.kernel.body) if isinstance(op, Load) and op.result not in operands]
        return tuple(op for op in loads if self.loop.axis not in op.result.axes and self.rows(op.result) is not None)

    @cached_property
    def loads_of_iterations(self) -> tuple[Load, ...]:
        """The loads by lanes of what changes in each iteration: the first operations of the loop."""
        return tuple(loads_of_iterations(self))

    @cached_property
    def interleaved(self) -> frozenset[Axis]:
        """The axes whose places lie interleaved in the rows of results: see the module."""
        return frozenset(m.rows for m in self.multiplications if m.across)

    def neighbours(self, axis: Axis) -> int:
        """Return the number of base tiles of an interleaved axis in which a lane has neighbours: those that LDS reads
        at once.
        """
        return gcd(extent(axis) // self.side, 4)

    @cached_property
    def factors(self) -> frozenset[Value]:
        """The operands of products that are in registers."""
        held = (*(x.held for x in self.multiplications), *(x.held for x in self.outside))
        return frozenset((*held, *(x.given for x in self.exchanges)))

    def in_quads(self, ring: Moving) -> bool:
        """True if LDS has the columns of a tile in the order of the quads that a lane has of what was computed.

        Factors of 16 bits are read by quads; of 8-bit floats a lane reads 16 neighbours.
        """
        loaded = {load.result for load in self.held}
        return ring.of_bytes and any(x.moving == ring and x.held not in loaded for x in self.multiplications)

    @cached_property
    def side(self) -> int:
        """The side of the base tiles."""
        extents = [self.columns, *(extent(a) for x in self.multiplications for a in (x.rows, x.summed))]
        extents += [extent(a) for x in self.outside for a in (x.rows, x.summed)]
        extents += [x.columns for x in self.exchanges]
        return next(side for side in SIDES if all(e % side == 0 for e in extents))

    def rows(self, value: Value) -> Axis | None:
        """The axis along the rows of the tile that a value is, None where it has none."""
        return next((a for a in value.axes if a != self.split), None)

    @property
    def lds_bytes(self) -> int:
        """LDS of a block."""
        votes = round_up(VOTES * self.waves * VOTE_BYTES, ALIGNMENT) * len(self.votes)
        exchanged = VOTES * sum(x.bytes for x in self.exchanges)
        return sum(m.bytes for m in self.moving) + votes + exchanged + sum(map(self.part_bytes, self.combined))

    def part_bytes(self, op: Reduce) -> int:
        """LDS for the parts of all waves of a reduction after the loop."""
        return extent(op.result.axes[0]) * self.waves * PART_BYTES

    @property
    def meets(self) -> bool:
        """Its waves meet in every iteration."""
        return True

    def largest(self, dim: str) -> int:
        """The largest size of a dimension known only at run time: direct loads count all rows of a tensor."""
        found = [LARGEST_ROWS_SIZE]
        for ring in self.moving:
            if ring.direct and ring.access.axes[0].dim.name == dim:
                found.append(BUFFER_BYTES // pitch_bytes(ring.access))
        return min(found)

    @property
    def tiles(self) -> tuple[Value, ...]:
        """The values that are in registers through the whole loop: carried tiles and held operands."""
        return (*(c.inside for c in self.loop.carries), *(op.result for op in self.held))

    @property
    def registers(self) -> int:
        """VGPRs of a lane that hold something through the whole loop."""
        return sum(map(self.lane_registers, self.tiles)) + sum(x.registers for x in self.exchanges)

    def lane_registers(self, value: Value) -> int:
        """VGPRs of a lane for a value: its elements of a tile, or a number for each column that it has."""
        rows = self.rows(value)
        if rows is None:
            return self.columns // self.side
        if self.split not in value.axes:
            return extent(rows) * self.side // WAVE_LANES
        return self.columns * extent(rows) * value.dtype.bytes // 4 // WAVE_LANES

    def waves_per_simd(self, target: Target) -> int:
        """Waves of a SIMD that the compiler is held to: those of one block."""
        return min(-(-self.waves // target.simds_per_cu), target.max_waves_per_simd)

    def describe(self) -> str:
        """One line for people."""
        rings = ", ".join(f"{m.name} {m.buffers} x {_shape(m)}" for m in self.moving)
        return (
            f"{self.split.name}: {self.waves} wave{'s' if self.waves > 1 else ''} of {self.columns}, "
            f"MFMAs of {self.side} x {self.side}; LDS: {rings}"
        )

    def transposes(self) -> str:
        """The tiles that are transposed, and where, for people; empty without any."""
        stored = [m.name for m in self.moving if m.turned]
        read = [m.name for m in self.moving if any(x.by_columns and x.moving == m for x in self.multiplications)]
        said = [(stored, "transposed on the way to LDS"), (read, "read transposed from LDS")]
        return "; ".join(
            f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {how}" for names, how in said if names
        )


def _shape(ring: Moving) -> str:
    return " x ".join(str(extent(a)) for a in (ring.rows, ring.cols) if a is not None)


def map_loops(program: EquationProgram, target: Target) -> LoopMap:
    """The layout of a program's kernel on `target`.

    Raises:
        LoopError: the kernel is not of this form, or its tiles are not.
    """
    kernel = program.kernel
    check_types(kernel)
    kernel = apart(kernel)
    kernel = masked(kernel, _loop(kernel))
    split = _split(program)
    kernel = masked(kernel, _loop(kernel), split)
    if split.dim.size is None or split.dim.size % extent(split):
        kernel = masked_behind(kernel, _loop(kernel), split)
    kernel = loads_first(program, kernel, _loop(kernel))
    loop = _loop(kernel)
    _parts(kernel, loop.axis)
    for word, bound in (("from", loop.axis.since), ("to", loop.axis.until)):
        if bound is not None and bound.axis != split.name:
            message = f"`{word} {bound}` is not on the axis that the waves divide"
            raise LoopError(message, loop.axis.span)
    multiplied = multiplications(program, kernel, loop, split)
    found = LoopMap(kernel, loop, split, program.waves, multiplied, vectors(program, loop))
    found = replace(found, exchanges=exchanges(program, loop, split, found.columns))
    found = replace(found, outside=outside(program, kernel, split))
    _staged(program, found)
    _tiles(found)
    check_bytes(found)
    _direct(program, found, target)
    found = replace(found, early=_early(program, found), late=_late(program, target), written=program.written)
    found = replace(found, remap=_remap(program), persistent=program.grid.count)
    _interleaved(found)
    check_accesses(found)
    loaded = {load.result for load in found.held}
    small = next((x for x in found.multiplications if x.held.dtype is DType.F16 and x.held not in loaded), None)
    if target.flushes_f16 and small is not None:
        raise LoopError(
            f"MFMAs of {target.name} treat subnormal f16 values as zero, and a computed operand may be subnormal",
            small.product.result.span, "convert to bf16",
        )  # fmt: skip
    if found.lds_bytes > target.lds_bytes_per_block:
        raise LoopError(
            f"the tiles need {found.lds_bytes} bytes of LDS, but a block on {target.name} has "
            f"{target.lds_bytes_per_block}",
            program.shared[0].span, "use fewer buffers, or smaller tiles of the loop's axis (`by`)",
        )  # fmt: skip
    return found


def _loop(kernel: Kernel) -> Loop:
    loops = [op for op in walk(kernel.body) if isinstance(op, Loop)]
    if len(loops) != 1:
        raise LoopError("a kernel with products has one loop", loops[1].span if loops else None)
    (loop,) = loops
    for op in walk(kernel.body):
        if isinstance(op, When):
            _condition(op, op in loop.body)
    return loop


def _parts(kernel: Kernel, axis: Axis) -> None:
    """Raises LoopError for parts of a loop of which only run time knows how many there are."""
    if dynamic := next((a.dim for a in kernel.axes if a.name == axis.part and a.dim.size is None), None):
        raise LoopError(f"the number of parts of `{axis.name}` must be known, but {dynamic.name} is dynamic", axis.span)


def _condition(when: When, in_loop: bool) -> None:
    """Raises LoopError for a condition that the waves do not decide on together."""
    if not in_loop:
        raise LoopError("`when any` is supported only in the loop of the products", when.span,
                        "choose element by element with `where`")  # fmt: skip
    for op in when.body:
        if isinstance(op, Product | Reduce):
            raise LoopError(
                "products and reductions are not allowed under `when any`", op.result.span, "do them before"
            )


def _split(program: EquationProgram) -> Axis:
    """The axis whose tile the waves divide."""
    tiled = [a for a in program.parallel if a.tile is not None]
    if len(tiled) != 1:
        names = " and ".join(f"`{a.name}`" for a in tiled) or "none"
        raise LoopError(f"one axis of `over` must have tiles, which the waves divide; here {names}", None)
    (split,) = tiled
    at = program.spans.get("waves", split.span)
    if round_up(extent(split), BASE_TILE) % (program.waves * BASE_TILE):
        raise LoopError(
            f"{program.waves} waves cannot divide a tile of {split.tile} in parts of {BASE_TILE}", at,
            f"make tiles of `{split.name}` a multiple of {program.waves * BASE_TILE}",
        )  # fmt: skip
    return split


def _staged(program: EquationProgram, m: LoopMap) -> None:
    """Raises LoopError for a tensor that is `shared` and does not go through LDS."""
    used = {ring.name for ring in m.moving}
    if stray := next((s for s in program.shared if s.tensor.name not in used), None):
        what = f"neither an operand that changes in the loop nor a vector along `{m.loop.axis.name}`"
        if stray.tensor in {x.source.source.tensor for x in m.outside}:
            what = "multiplied outside of the loop, where the waves read it from memory"
        raise LoopError(f"`{stray.tensor.name}` is {what}", stray.span, "remove it from `shared`")


def _tiles(m: LoopMap) -> None:
    """Raises LoopError for values that no tile of registers holds."""
    for op in walk(m.kernel.body):
        if isinstance(op, When) and m.split not in op.condition.axes:
            raise LoopError(f"a condition without `{m.split.name}` is the same for all tiles", op.span, "use `where`")
        for value in () if isinstance(op, Load) else writes(op):
            if isinstance(op, When) and m.split not in value.axes:
                raise LoopError(f"`{value.name}` has no axis `{m.split.name}`, which the condition has", op.span)
            rows = [a for a in value.axes if a != m.split]
            if len(rows) > 1 and value not in {x.product.result for x in m.exchanges}:
                raise LoopError(f"a value extends along {' and '.join(a.name for a in rows)}", value.span)
    for multiplication in m.multiplications:
        for axis in (multiplication.rows, multiplication.summed):
            if extent(axis) % BASE_TILE:
                raise LoopError(f"{extent(axis)} along `{axis.name}` is not a multiple of {BASE_TILE}", axis.span)


def _direct(program: EquationProgram, m: LoopMap, target: Target) -> None:
    """Raises LoopError where factors cannot go to LDS directly."""
    if not m.direct:
        return
    rings = [ring for ring in m.moving if ring.cols is not None]
    at = next(s.span for s in program.shared if s.via is Via.DIRECT)
    if max(target.direct_load_bytes, default=0) < ACCESS_BYTES:
        raise LoopError(f"loads from global memory to LDS move {max(target.direct_load_bytes, default=0)} bytes per "
                        f"lane on {target.name}, but tiles are made of chunks of {ACCESS_BYTES}", at,
                        "remove `via direct`, or build for gfx950",
                        tuple(e for s in program.shared for e in without_option(s.span, "via")))  # fmt: skip
    if staged := next((ring for ring in rings if not ring.direct), None):
        raise LoopError(f"`{staged.name}` is not loaded via direct, but other operands are", at, "add it to that line")
    for ring in rings:
        assert ring.cols is not None
        rows, cols = extent(ring.rows), extent(ring.cols)
        if rows % BOX[0] or cols % BOX[1] or rows * cols // (BOX[0] * BOX[1]) % m.waves:
            raise LoopError(f"{m.waves} waves cannot divide a tile of `{ring.name}` of {rows} x {cols} in boxes of "
                            f"{BOX[0]} x {BOX[1]}, the unit of direct loads", at, "remove `via direct`")  # fmt: skip
        reach(ring.access, all_rows=True)
    loaded, depth = {load.result for load in m.held}, BOX[0] * BOX[1] // m.side
    for x in m.multiplications:
        if x.held not in loaded and not x.by_columns:
            raise LoopError(f"`{x.moving.name}` has `{x.summed.name}` innermost, in another order than what it is "
                            "multiplied with has in registers", at, "remove `via direct`")  # fmt: skip
        if extent(x.summed) % depth:
            raise LoopError(f"{extent(x.summed)} along `{x.summed.name}` is not a multiple of the {depth} that an MFMA "
                            "sums", at, "remove `via direct`")  # fmt: skip


def _early(program: EquationProgram, m: LoopMap) -> Multiplication | None:
    """The product that the schedule has an iteration ahead. Raises LoopError where there is no such schedule."""
    ahead = [s for line in program.written.lines for s in line.steps if s.ahead] if program.written else []
    at = program.spans.get("schedule")
    if program.schedule is not None and program.schedule not in SCHEDULES:
        raise LoopError(f"fused matmuls have no schedule `{program.schedule}`", at, f"choose from {names()}")
    if not runs_ahead(program.schedule) and not any(s.word == "multiply" for s in ahead):
        return None
    first = m.multiplications[0]
    if first.onto is not None or first.held not in {load.result for load in m.held} or m.votes:
        raise LoopError("the first product is computed an iteration ahead: it must multiply a loaded operand and start "
                        "a sum, and the loop must have no `when any`", at, "remove `schedule`")  # fmt: skip
    if first.moving.buffers < 2 or sum(x.moving == first.moving for x in m.multiplications) > 1:
        raise LoopError(f"`{first.moving.name}` is read an iteration ahead: it needs 2 buffers and no other use", at)
    return first


def _remap(program: EquationProgram) -> Remap | None:
    """The order of blocks. Raises LoopError where only run time knows how many there are."""
    if not program.remap:
        return None
    if program.kernel.ragged or any(a.dim.size is None for a in program.parallel):
        raise LoopError("`remap` needs a number of blocks that is known at build time", program.remap[0].span,
                        "remove `remap`")  # fmt: skip
    return compose([RemapCall(s.name, dict(s.keywords), s.positional) for s in program.remap])


def _late(program: EquationProgram, target: Target) -> int:
    """The first of the waves that run one barrier later.  Raises LoopError where SIMDs have not two waves each."""
    if not alternates(program.schedule):
        return program.written.late if program.written else 0
    if program.waves != 2 * target.simds_per_cu:
        raise LoopError("of the two waves of a SIMD one multiplies while the other one computes, so this needs "
                        f"{2 * target.simds_per_cu} waves, not {program.waves}",
                        program.spans.get("waves"), f"use {2 * target.simds_per_cu} waves")  # fmt: skip
    return target.simds_per_cu


def _interleaved(m: LoopMap) -> None:
    """Raises LoopError where what lies interleaved is to be multiplied in order."""
    loaded = {load.result for load in m.held}
    for x in m.multiplications:
        if x.summed in m.interleaved and x.held not in loaded:
            raise LoopError(
                f"positions of an operand along `{x.summed.name}` are interleaved, because a tile of "
                f"`{next(y for y in m.multiplications if y.across).moving.name}` is read both ways",
                x.product.result.span,
            )
