"""Fused matmuls on Hopper: what a block's warpgroups hold of a loop such as attention's, and what moves.

    over b in BATCH, h in HEADS, q in LENGTH by 128    `q` is split: each consumer warpgroup has 64 of its rows
    waves 8 along q                                    of the consumers; a warpgroup that loads is beside them
    shared K, V buffers 2 via direct                   through the copy engine, with mbarriers for each buffer
    each j in KEYS by 128
      s = scale * Q[b, h, q] @ K[b, h, j].T            the first product: of two tensors, from shared memory
      ...                                              element by element, and reductions of rows
      o = o * r + bf16(p) @ V[b, h, j]                 the second: of what was made of the first, from registers

Factors of 8 bits lie with the axis that is summed innermost, as wgmma takes no others: `@ V[b, h, D, j].T`.

The operations between the products (`middle`) do not need the second one's sums, so the middle of one iteration runs in
parallel with the second product of the previous iteration. The operations on the carried sums (`carried`) wait for
them. A lane has two rows of every tile: a row's reductions are over its own elements and those of the three lanes
beside it.

A loop may have the first product alone, and reduce its rows: it then stores only numbers of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import gcd

from tkgen.backends.hopper.layout import BARRIER_BYTES, launched_registers, moved_registers
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.port import WORKING_REGISTERS
from tkgen.ir.equations import (
    Access,
    Axis,
    Convert,
    Index,
    Kernel,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Store,
    Value,
    reads,
    writes,
)
from tkgen.ir.limits import LARGEST_ROWS_SIZE
from tkgen.ir.tensors import Dim, Tensor
from tkgen.ir.types import DType, Role
from tkgen.remap import Remap
from tkgen.schedule.loop_tiles import extent
from tkgen.targets.model import round_up

FEWER_REGISTERS = "use smaller tiles of the loop's axis (`by`), or fewer consumers"
PRODUCER_REGISTERS = 32  # of a thread that works out the places of two rings and a tile: with 24 ptxas spills some
BARRIERS_OF_TILE = 2  # beside those of buffers: the held factor is there, and no longer needed
NO_GROUPS: Mapping[str, range] = {}


@dataclass(frozen=True)
class Chain:
    """The second product of a loop: what it adds to, the sum, and its right operand."""

    product: Product
    onto: Value
    result: Value
    right: Access


@dataclass(frozen=True)
class HopperLoop:
    """The layout of one kernel, which `hopper_loop` has found to fit."""

    kernel: Kernel
    loop: Loop
    split: Axis
    consumers: int
    first: Product
    second: Chain | None  # None where the loop has one product, of which rows are reduced alone
    held: Access
    left: Access
    buffers: tuple[int, int]  # of left, and of the second product's right operand
    persistent: int  # blocks, 0 where each tile has its own
    remap: Remap | None  # the order of the tiles
    machine: Hopper
    roles: tuple[Role, ...] = ()  # where the spec names them: of the warps that load, and of those that multiply
    backwards: bool = False  # the last tiles of the split axis come first: their loops are the longest

    @property
    def threads(self) -> int:
        """Threads of a block: those of its consumers, and of the warpgroup that loads."""
        return (self.consumers + 1) * self.machine.warpgroup_threads

    @property
    def loads_first(self) -> bool:
        """True if the warpgroup that loads is before those that multiply, not after them."""
        return any(role.loads and role.first == 0 for role in self.roles)

    @property
    def keys(self) -> int:
        """Elements of the loop's axis in an iteration."""
        return extent(self.loop.axis)

    @property
    def padded(self) -> bool:
        """True if a tile has fewer rows than a product: the other rows are zeros, and are not stored."""
        return extent(self.split) < self.machine.wgmma_rows

    def page(self, access: Access) -> Index | None:
        """The index of an access that is the page of the iteration, as a table lists it."""
        return next((i for i in access.indices if i.of_page), None)

    @property
    def bounded(self) -> bool:
        """True if the loop begins or ends with the block's tile, so that tiles differ in their passes."""
        return bool(self.loop.axis.bounds)

    @property
    def unlike_tiles(self) -> bool:
        """True if a block may have several tiles that differ in their passes.

        Blocks then take the tiles of each second round in reverse order. The first tiles of a round are the longest,
        so two rounds together give each block about as many passes.
        """
        return bool(self.persistent) and (self.bounded or self.part is not None)

    @property
    def meets(self) -> bool:
        """Its waves meet in every iteration."""
        return True

    def largest(self, dim: str) -> int:
        """The largest size that run time may give a dimension, as for rows."""
        return LARGEST_ROWS_SIZE

    @property
    def part(self) -> Axis | None:
        """The index among whose places the loop is divided."""
        return next((a for a in self.kernel.axes if a.name == self.loop.axis.part), None)

    @property
    def _deciding(self) -> tuple[Axis, ...]:
        """The axes whose lengths decide how many iterations tiles of the output take."""
        bounding = self.split if self.bounded else None
        return tuple(a for a in (self.loop.axis, self.part, bounding) if a is not None)

    @property
    def deciding(self) -> frozenset[Dim]:
        """The dimensions whose sizes decide how many iterations tiles of the output take."""
        return frozenset(a.dim for a in self._deciding)

    @property
    def of_groups(self) -> bool:
        """True if the lengths of groups decide how many iterations a tile takes, so that it may take none."""
        return any(a.within for a in self._deciding)

    def passes(
        self, extents: Mapping[str, int], tile: int, part: int = 0, groups: Mapping[str, range] = NO_GROUPS
    ) -> range:
        """The iterations of tile number `tile` along the split axis, as the tiles of the loop's axis that they take.

        `extents` has the sizes of dimensions by name, `groups` the positions of the tile's group along ragged axes. Of
        a loop that is divided among blocks, those of part `part`.
        """

        def length(of: Axis) -> int:
            return len(groups[of.name]) if of.name in groups else extents[of.dim.name]

        axis, rows = self.loop.axis, extent(self.split)
        size = length(axis)
        begin, end = 0, -(-size // self.keys)
        if self.part is not None:
            run = axis.part_length(size, length(self.part)) // self.keys
            return range(min(part * run, end), min((part + 1) * run, end))
        longer = size - length(self.split) if self.bounded else 0
        if axis.since is not None:
            begin = max((tile * rows + axis.since.moved + longer * axis.since.aligned) // self.keys, 0)
        if axis.until is not None:
            last = (tile + 1) * rows - 1 + axis.until.moved + longer * axis.until.aligned
            end = min(last // self.keys + 1, end)
        return range(begin, end)

    def counts(self, extents: Mapping[str, int]) -> tuple[int, ...]:
        """Numbers of iterations that tiles of the output take at these sizes, in ascending order."""
        tiles = -(-extents[self.split.dim.name] // extent(self.split)) if self.bounded else 1
        parts = 1 if self.part is None else extents[self.part.dim.name]
        return tuple(sorted({len(self.passes(extents, *n)) for n in product(range(tiles), range(parts))}))

    @property
    def pass_counts(self) -> tuple[int, ...] | None:
        """Numbers of iterations that output tiles take, in ascending order; None if only the launch decides them."""
        sizes = {d.name: d.size for d in self.deciding if d.size is not None}
        return self.counts(sizes) if len(sizes) == len(self.deciding) and not self.of_groups else None

    @property
    def depth(self) -> int:
        """Elements over which the first product sums: whole panels, which hold zeros beyond the end."""
        return round_up(extent(self.first.axis), self.machine.swizzle_bytes // self.element_bytes)

    @property
    def width(self) -> int:
        """Columns of the second product's sums, as many as an instruction has; those beyond the end are zeros."""
        if self.second is None:
            return 0
        wanted = extent(self.columns)
        return next((n for n in self.machine.wgmma_columns if n >= wanted), wanted)

    def overhangs(self, axis: Axis) -> bool:
        """Return True if tiles in registers may go beyond the end of an axis."""
        along_columns = self.second is not None and axis == self.columns
        size, tile = axis.dim.size, self.width if along_columns else axis.tile or 1
        if axis == self.split and self.padded:
            return True
        return axis.within is not None or size is None or size % tile > 0

    @cached_property
    def middle(self) -> tuple[Op, ...]:
        """The operations between the products, in order."""
        result = None if self.second is None else self.second.result
        return tuple(op for op in self.loop.body if isinstance(op, Map | Reduce | Convert) and op not in self.carried
                     and op.result != result)  # fmt: skip

    @cached_property
    def loaded(self) -> tuple[Load, ...]:
        """The tiles of scores that lanes load for an iteration while its products run, if registers have room for them.

        Lanes read other tensors element by element, where they use them.
        """
        both = {self.split, self.loop.axis}
        found = tuple(op for op in self.loop.body if isinstance(op, Load) and set(op.result.axes) == both)
        wanted = sum(self._registers_of_pair(op.source) * self.keys // 4 for op in found)
        return found if self.registers + wanted <= self.most_registers else ()

    def _registers_of_pair(self, access: Access) -> int:
        """Registers of a thread for two neighbours of a tile in `loaded`."""
        return 2 if self.at_once(access) == 1 else max(access.tensor.dtype.bytes // 2, 1)

    def at_once(self, access: Access) -> int:
        """Elements that a lane reads at once of a tile in `loaded`: two, where they are side by side in every row."""
        inner = access.indices[-1].axis == self.loop.axis and self.loop.axis.within is None
        return gcd(2, access.tensor.dims[-1].size or 1) if inner else 1

    @cached_property
    def carried(self) -> tuple[Op, ...]:
        """The operations that need the second product's sums of the previous iteration, in order."""
        if self.second is None:
            return ()
        late, result = {c.inside for c in self.loop.carries if c.update == self.second.result}, self.second.result
        found = list[Op]()
        for op in self.loop.body:
            if not isinstance(op, Product) and late & set(reads(op)) and writes(op)[0] != result:
                found.append(op)
                late |= set(writes(op))
        return tuple(found)

    @cached_property
    def stored(self) -> tuple[Store, ...]:
        """The stores after the loop."""
        return tuple(op for op in self.kernel.body if isinstance(op, Store))

    @cached_property
    def tile_stored(self) -> tuple[Store, ...]:
        """Of these the tiles, which leave through shared memory."""
        return tuple(op for op in self.stored if len(op.target.axes) > 1)

    @cached_property
    def rows_stored(self) -> tuple[Store, ...]:
        """The stores of a number of each row."""
        return tuple(op for op in self.stored if op.target.axes == (self.split,))

    @cached_property
    def columns_stored(self) -> tuple[Store, ...]:
        """The stores of a number of each column."""
        if self.second is None:
            return ()
        return tuple(op for op in self.stored if op.target.axes == (self.columns,))

    @cached_property
    def behind(self) -> tuple[Op, ...]:
        """The operations after the loop, in order."""
        at = self.kernel.body.index(self.loop)
        return tuple(op for op in self.kernel.body[at + 1 :] if not isinstance(op, Store))

    @cached_property
    def combined(self) -> tuple[Reduce, ...]:
        """The reductions of columns after the loop: each warp has a part of them, which all combine."""
        return tuple(op for op in self.behind if isinstance(op, Reduce) and op.axis == self.split)

    def column_bytes(self, consumers: int) -> int:
        """Bytes of shared memory for these: for each column an f32 of each warp of the consumers, and one of all."""
        warps = consumers * self.machine.warpgroup_warps
        return len(self.combined) * (warps + 1) * self.width * DType.F32.bytes

    @cached_property
    def columns(self) -> Axis:
        """The axis along which the second product's sums have columns."""
        assert self.second is not None, "one product has no sums with columns"
        return next(a for a in self.second.result.axes if a != self.split)

    @property
    def keys_innermost(self) -> bool:
        """True if the second product's right operand has the loop's axis innermost, as 8-bit floats must."""
        return self.second is not None and self.second.right.indices[-1].axis == self.loop.axis

    @property
    def element_bytes(self) -> int:
        """Of a factor."""
        return self.held.tensor.dtype.bytes

    @property
    def dynamic_bytes(self) -> int:
        """Shared memory that the launch asks for."""
        rows = self.consumers * self.machine.wgmma_rows
        tiles = rows * self.depth + self.buffers[0] * self.keys * self.depth + self.buffers[1] * self.keys * self.width
        out = sum(rows * self.width * s.target.tensor.dtype.bytes for s in self.tile_stored)
        return tiles * self.element_bytes + out + self.column_bytes(self.consumers) + self.machine.tile_alignment

    @property
    def shared_bytes(self) -> int:
        """All shared memory of a block."""
        return self.dynamic_bytes + (2 * sum(self.buffers) + BARRIERS_OF_TILE) * BARRIER_BYTES

    @property
    def moved_registers(self) -> tuple[int, int] | None:
        """Registers of producer and consumer threads after `setmaxnreg`."""
        return moved_registers(self.machine, self.threads, self.consumers, PRODUCER_REGISTERS)

    @property
    def most_registers(self) -> int:
        """Registers that a consumer's thread has."""
        return (self.moved_registers or (0, launched_registers(self.machine, self.threads)))[1]

    @property
    def registers(self) -> int:
        """Registers of a consumer's thread, as predicted."""
        return registers_of(self.keys, self.width, self.element_bytes if self.second is not None else 0)

    @cached_property
    def moved(self) -> dict[str, Access]:
        """The accesses of tiles that the copy engine moves, by name."""
        return {a.tensor.name: a for a in (*self.operands, *(s.target for s in self.tile_stored))}

    @property
    def operands(self) -> tuple[Access, ...]:
        """The operands of products that the copy engine brings."""
        return (self.held, self.left, *((self.second.right,) if self.second is not None else ()))

    def row_bytes(self, tensor: Tensor) -> int:
        """Bytes of a row of a box."""
        return self.machine.swizzle_bytes

    def box(self, tensor: Tensor) -> tuple[int, int]:
        """Rows and columns of one box of the copy engine."""
        rows = next((n for a, n in self.rows_of_factors.items() if a.tensor == tensor), self.machine.wgmma_rows)
        return rows, self.machine.swizzle_bytes // tensor.dtype.bytes

    @property
    def rows_of_factors(self) -> Mapping[Access, int]:
        """Rows of the tiles in shared memory that are multiplied."""
        found = {self.held: self.machine.wgmma_rows, self.left: self.keys}
        if self.second is not None:
            found[self.second.right] = self.width if self.keys_innermost else self.keys
        return found

    def rows_along(self, access: Access) -> int:
        """The dimension of batch, depth, rows and columns along which the rows of a tile lie."""
        return 4 - len(access.indices) + next(n for n, i in enumerate(access.indices) if i.extends)

    @property
    def clusters(self) -> int:
        """Blocks of a cluster."""
        return 1

    @property
    def ended(self) -> tuple[str, ...]:
        """No operand: rows beyond the end are zeros, which reductions of keys read."""
        return ()

    def grouped(self, access: Access) -> bool:
        """True if the rows of a tile end before the tensor does: where a group, a padded tile or a page's keys end."""
        along = [i.axis for i in access.indices if i.extends and i.axis is not None]
        ends = any(axis.within is not None or (axis == self.split and self.padded) for axis in along)
        return ends or self.page(access) is not None

    def describe(self) -> str:
        """One line for people."""
        rows = f"{extent(self.split)} of {self.machine.wgmma_rows}" if self.padded else self.machine.wgmma_rows
        found = (f"{self.split.name}: {self.consumers} consumers of {rows}; "
                 f"{self.left.tensor.name} {self.buffers[0]} x {self.keys} x {self.depth}")  # fmt: skip
        if self.second is None:
            return found
        return f"{found}, {self.second.right.tensor.name} {self.buffers[1]} x {self.keys} x {self.width}"


def registers_of(keys: int, width: int, factor_bytes: int) -> int:
    """Registers of a consumer's thread: both sums, the factor made of the first, and what works on them."""
    return (keys + width + keys * factor_bytes // 4) // 2 + WORKING_REGISTERS
