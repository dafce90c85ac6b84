"""Layout of a kernel's tiles in a block: stages, panels of the output, registers of each warpgroup."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tkgen.backends.hopper.machine import Hopper
from tkgen.ir.equations import Access, Axis, Load, Reduce, Store
from tkgen.ir.products import Sums, view
from tkgen.ir.types import DType, Operand, Program, Role, Side, Tensor

BARRIER_BYTES = 8  # of an mbarrier (PTX ISA, mbarrier)
PRODUCER_OVERHEAD = 24  # registers of a thread that only issues copies; the least that setmaxnreg takes, too

FILLER_REGISTERS = 80  # more of one that loads tiles, and has what it loads for a step
SHARER_REGISTERS = 8  # more of one that copies for other blocks of a cluster, and may choose boxes for each tile
WALKER_REGISTERS = 56  # of one that also goes from group to group: with 40 ptxas keeps some of the walk in memory


@dataclass(frozen=True)
class Layout:
    """The shared memory and the registers of a block of `program`, which `checks.check` has found to fit.

    A stage holds the tiles of one K-step; `stages` of them make the ring. A consumer has 64 rows of the block or a
    multiple of that. It stores its outputs one after the other, in `panels` of `panel_cols` columns, as wide as the
    swizzle, through `store_buffers` buffers: a divisor of the panels, so that the ring of buffers starts anew with each
    tile.
    """

    program: Program
    machine: Hopper

    @property
    def producer(self) -> Role:
        """The warpgroup that loads."""
        return next(r for r in self.program.roles if not r.multiplies)

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return len(self.program.compute.waves) // self.machine.warpgroup_warps

    @property
    def ping_pong(self) -> bool:
        """True if consumers take turns: each passes over K for its own rows while another one's sums leave."""
        return self.program.schedule is not None

    @property
    def ragged(self) -> bool:
        """True if a tensor of offsets says which rows are of which matrix: a group ends within its last tile."""
        return self.program.ragged is not None

    @property
    def turns(self) -> int:
        """The number of times that a block goes through K for a tile."""
        return self.consumers if self.ping_pong else 1

    @property
    def fragments(self) -> int:
        """Products of 64 rows that a consumer's rows of a tile are."""
        return self.program.accumulator.fragments[0]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.program.waves * self.machine.warp_size

    @property
    def clusters(self) -> int:
        """Blocks of a cluster."""
        return self.program.clusters.count if self.program.clusters else 1

    @property
    def common(self) -> str:
        """The side of the factors whose tiles the blocks of a cluster have in common; empty without clusters."""
        clusters = self.program.clusters
        return "" if clusters is None else "B" if clusters.rows else "A"

    def shared_by_cluster(self, operand: Operand) -> bool:
        """True if the blocks of a cluster read the same tiles of it, of which each then copies a part, for all."""
        return operand.side.name == self.common

    @property
    def stages(self) -> int:
        """K-steps that the ring holds."""
        return self.program.a.buffers

    @property
    def stage_bytes(self) -> int:
        """Bytes of the tiles of a K-step: of A the rows of all consumers, or of the one whose turn it is."""
        return sum(self.tile_bytes(o) // (self.turns if o.side is Side.A else 1) for o in self.program.operands)

    def tile_bytes(self, operand: Operand) -> int:
        """Bytes of an operand's tiles in a stage, as they are multiplied: of A the rows of all consumers."""
        return operand.extent * operand.step * operand.dtype.bytes

    @cached_property
    def filled(self) -> dict[str, Access]:
        """The operands that warps of the producer load: gathered or computed rows, functions, and rows of odd sizes."""
        program = self.program
        found = {a.tensor.name: a for s in self.equations.sums for a in (s.left, s.right)}
        ways = {*program.gathered, *program.placed, *self.equations.made}
        ways |= {o.name for o in program.operands if self.loaded_in_chunks(o)}
        return {name: access for name, access in found.items() if name in ways}

    def loaded_in_chunks(self, operand: Operand) -> int:
        """Bytes that a lane loads at once of an operand whose rows the copy engine cannot step over; 0 for others.

        Only the copy engine brings tiles to consumers that take turns and to the blocks of a cluster, and tiles of
        which the contraction is not the last dimension.
        """
        program = self.program
        copied = program.schedule is not None or program.clusters is not None or operand.contraction_first
        return 0 if copied or operand.dtype.packed else self._chunk_bytes(operand.tensor)

    @cached_property
    def ended(self) -> tuple[str, ...]:
        """The operands whose last tile may have fewer rows than its box, of which the launch has a second tensor map.

        On an H200 a box with a quarter of its 256 rows outside of the tensor takes 590 ns, one of the rows inside
        246 ns; columns outside cost nothing. What shared memory holds beyond the last row goes into sums that are
        neither stored nor reduced.

        One copy brings the rows of all consumers, so their tiles have one panel: the panels of a copy are each of all
        rows, those of a consumer's tile of its own.
        """
        program = self.program
        if program.tail is None or self.ragged or self.ping_pong or self.filled:
            return ()
        dims = {Side.A: program.m, Side.B: program.n}
        return tuple(
            o.name for o in program.operands
            if not o.contraction_first and self.parted(o) is None and 8 < o.extent <= self.machine.max_box
            and (o.side is Side.B or self.consumers == 1 or self.one_panel(o))
            and ((size := dims[o.side].size) is None or size % o.extent)
        )  # fmt: skip

    @property
    def equations(self) -> Sums:
        """The program's equations."""
        return self.program.equations

    @property
    def tiles_stored(self) -> tuple[Store, ...]:
        """The outputs that have a tile of each block, those that leave through shared memory first."""
        found = (s for s in self.equations.stores if len(s.target.axes) == 2)
        return tuple(sorted(found, key=lambda store: store.target.computed))

    @property
    def panels_stored(self) -> tuple[Store, ...]:
        """The outputs whose tiles leave through shared memory, panel by panel."""
        return tuple(s for s in self.tiles_stored if not s.target.computed)

    @property
    def scattered(self) -> tuple[Store, ...]:
        """The outputs whose tiles are stored to computed positions, by the lanes that have their elements."""
        return tuple(s for s in self.tiles_stored if s.target.computed)

    @property
    def rows_stored(self) -> tuple[Store, ...]:
        """The outputs that have a number of each row: what is reduced of the sums' rows, from registers."""
        return tuple(s for s in self.equations.stores if s.target.axes == (self.equations.rows,))

    @property
    def columns_stored(self) -> tuple[Store, ...]:
        """The outputs that have a number of each column, or one of the block: what all warps reduced of the sums."""
        return tuple(s for s in self.equations.stores if s.target.axes in ((self.equations.cols,), ()))

    @cached_property
    def rounds(self) -> tuple[tuple[Reduce, ...], ...]:
        """The reductions of the sums, round by round; each one of columns is a separate round."""
        found = list[tuple[Reduce, ...]]()
        for ops in self.equations.rounds:
            rows = tuple(op for op in ops if not self.of_columns(op))
            found += [*([rows] if rows else []), *((op,) for op in ops if self.of_columns(op))]
        return tuple(found)

    def of_columns(self, op: Reduce) -> bool:
        """True if a reduction is of the columns of a block's sums, of which each warp has a part."""
        return op.axis == self.equations.rows

    @property
    def reduced(self) -> int:
        """Registers of a thread that hold what is reduced of its two rows."""
        return 2 * sum(len(ops) for ops in self.rounds if not self.of_columns(ops[0]))

    @property
    def column_bytes(self) -> int:
        """Shared memory for reductions of columns: an f32 of each warp, and one of all, for each column."""
        count = sum(self.of_columns(ops[0]) for ops in self.rounds)
        return count * (len(self.program.compute.waves) + 1) * self.program.block[1] * DType.F32.bytes

    @cached_property
    def moved(self) -> dict[str, Access]:
        """The accesses of tiles that the copy engine moves, by name; an epilogue reads other tensors by element."""
        found = self.equations
        stored = (s.target for s in self.panels_stored if not self.stored_in_chunks(s.target.tensor))
        touched = [*(a for s in found.sums for a in (s.left, s.right)), *stored]
        return {access.tensor.name: access for access in touched if access.tensor.name not in self.filled}

    def batch_of(self, access: Access) -> tuple[Axis, ...]:
        """The indices of the batch on which an operand depends, what is loaded beside it included."""
        made = self.equations.made.get(access.tensor.name)
        beside = [op.source for op in (made.ops if made else ()) if isinstance(op, Load)]
        beside += [i.through for i in access.indices if i.through is not None]
        axes = {axis for a in (access, *beside) for i in a.indices for axis in i.axes}
        return tuple(axis for axis in self.program.batch if axis in axes)

    def stored_in_chunks(self, output: Tensor) -> int:
        """Bytes that a lane stores at once of an output whose rows the copy engine cannot step over; 0 for others.

        The largest power of 2 that divides a row. A size that is unknown at build time must suit the copy engine.
        """
        return 0 if self.ragged else self._chunk_bytes(output)

    def _chunk_bytes(self, tensor: Tensor) -> int:
        """The largest power of 2 that divides a row's bytes; 0 if it suits the copy engine."""
        row = (tensor.dims[-1].size or 0) * tensor.dtype.bytes
        return 0 if row % self.machine.stride_alignment == 0 else row & -row

    @property
    def scaled(self) -> bool:
        """True if each step's products are made something of before they are added: their sums have registers, too."""
        return any(s.scaled for s in self.equations.sums)

    def row_bytes(self, tensor: Tensor) -> int:
        """Bytes of a row of a panel: as many as the swizzle has, or half, where a tile's rows are no multiple of it."""
        swizzle = self.machine.swizzle_bytes
        operand = next((o for o in self.program.operands if o.name == tensor.name), None)
        if operand is None or self.tile_shape(operand)[1] * operand.dtype.bytes % swizzle == 0:
            return swizzle
        return swizzle // 2

    def panel_cols(self, tensor: Tensor) -> int:
        """Columns of a panel of `tensor`."""
        operand = next((o for o in self.program.operands if o.name == tensor.name), None)
        return self.row_bytes(tensor) // (operand.dtype if operand else tensor.dtype).bytes

    def panels_of(self, store: Store) -> int:
        """Panels of 64 rows of one output."""
        return self.program.block[1] // self.panel_cols(store.target.tensor)

    @property
    def panels(self) -> int:
        """Panels of a consumer's part of all outputs that leave through shared memory."""
        return self.fragments * sum(map(self.panels_of, self.panels_stored))

    @property
    def panel_bytes(self) -> int:
        """Bytes of one panel, whatever its type."""
        return self.machine.wgmma_rows * self.machine.swizzle_bytes

    def shared_bytes(self, store_buffers: int) -> int:
        """Bytes of shared memory with `store_buffers` buffers for the output: tiles, their alignment, mbarriers."""
        tiles = self.stages * self.stage_bytes + self.consumers * store_buffers * self.panel_bytes
        return tiles + self.column_bytes + self.machine.tile_alignment + self.barrier_bytes

    @property
    def barrier_bytes(self) -> int:
        """Bytes of the mbarriers: two of each stage, and that of each turn."""
        return (2 * self.stages + (self.consumers if self.ping_pong else 0)) * BARRIER_BYTES

    @property
    def store_buffers(self) -> int:
        """As many buffers as fit and divide the panels; 1 where not even one fits, which `checks` refuses.

        0 where nothing leaves through shared memory.
        """
        if not self.panels:
            return 0
        fitting = [
            n for n in range(1, self.panels + 1)
            if self.panels % n == 0 and self.shared_bytes(n) <= self.machine.shared_bytes_per_block
        ]  # fmt: skip
        return max(fitting, default=1)

    @property
    def dynamic_bytes(self) -> int:
        """Bytes of shared memory that the launch asks for: all except the mbarriers, which are static."""
        return self.shared_bytes(self.store_buffers) - self.barrier_bytes

    @property
    def launched_registers(self) -> int:
        """Registers of each thread at the launch: an equal share, in whole granules."""
        return launched_registers(self.machine, self.threads)

    @property
    def moved_registers(self) -> tuple[int, int] | None:
        """Registers of producer and consumer threads after `setmaxnreg`; None if it would gain none."""
        return moved_registers(self.machine, self.threads, self.consumers, self.producer_registers)

    @property
    def producer_registers(self) -> int:
        """Registers that a producer's thread needs."""
        alone = WALKER_REGISTERS if self.ragged else PRODUCER_OVERHEAD
        if self.clusters > 1 and (self.ended or self.consumers > 2):  # to more than two it costs no register
            alone += SHARER_REGISTERS
        return alone + FILLER_REGISTERS * bool(self.filled)

    def tile_shape(self, operand: Operand) -> tuple[int, int]:
        """Rows and columns of the tile that a consumer multiplies: of A its 64 rows of the block, of B all."""
        extent = self.machine.wgmma_rows if operand.side is Side.A else operand.extent
        return (operand.step, extent) if operand.contraction_first else (extent, operand.step)

    def one_panel(self, operand: Operand) -> bool:
        """True if a row of an operand's tile is no longer than a panel."""
        return self.tile_shape(operand)[1] <= self.panel_cols(operand.tensor)

    def parted(self, operand: Operand) -> int | None:
        """Along which direction of its tile the parts lie that the blocks of a cluster copy: 0 of its rows, 1 columns.

        Each part is a whole piece of shared memory: some of the panels, or some rows of the only one. None where a
        block copies all of the tile.
        """
        if not self.shared_by_cluster(operand):
            return None
        return int(self.tile_shape(operand)[1] // self.panel_cols(operand.tensor) % self.clusters == 0)

    def copied_shape(self, operand: Operand) -> tuple[int, int]:
        """Rows and columns of the tile, or the part of a tile, that one copy brings."""
        rows, cols = self.tile_shape(operand)
        match self.parted(operand):
            case 0:
                return rows // self.clusters, cols
            case 1:
                return rows, cols // self.clusters
        return (operand.extent if operand.name in self.ended else rows), cols

    def box(self, tensor: Tensor) -> tuple[int, int]:
        """Rows and columns of one box of the copy engine: a panel of the tensor's tile."""
        for operand in self.program.operands:
            if operand.name == tensor.name:
                return self.copied_shape(operand)[0], self.panel_cols(tensor)
        return self.machine.wgmma_rows, self.panel_cols(tensor)

    def rows_along(self, access: Access) -> int:
        """The dimension of batch, depth, rows and columns along which the rows of a tile lie: 0, 1 or 2."""
        return 4 - len(access.tensor.dims) + view(access).tiled[0]

    def grouped(self, access: Access) -> bool:
        """False: rows of groups are moved as those of a tensor, and what is beyond a group's end is not stored."""
        return False


def launched_registers(machine: Hopper, threads: int) -> int:
    """Registers of each thread at the launch: an equal share, in whole granules."""
    share = min(machine.registers_per_sm // threads, machine.max_registers)
    return share // machine.register_granule * machine.register_granule


def moved_registers(
    machine: Hopper, threads: int, consumers: int, producer: int = PRODUCER_OVERHEAD
) -> tuple[int, int] | None:
    """Registers of a producer's and of a consumer's thread after `setmaxnreg`; None if it would gain none."""
    granule, launched = machine.register_granule, launched_registers(machine, threads)
    least = max(machine.least_registers, producer)
    gained = (launched - least) // consumers // granule * granule
    most = (machine.max_registers + 1) - 2 * granule  # 240: ptxas keeps a granule of the 255 for itself
    consumer = min(launched + gained, most)
    return None if consumer <= launched else (least, consumer)
