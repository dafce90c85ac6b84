"""A fused matmul on Hopper, whatever its products are: its rows over consumers, its iterations, its tiles of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import gcd

from tkgen.backends.hopper.layout import launched_registers, moved_registers
from tkgen.backends.hopper.machine import Hopper
from tkgen.ir.equations import Access, Axis, Index, Kernel, Load, Loop, Store
from tkgen.ir.limits import LARGEST_ROWS_SIZE
from tkgen.ir.tensors import Dim, Tensor
from tkgen.ir.types import Role
from tkgen.remap import Remap
from tkgen.schedule.loop_tiles import extent
from tkgen.source import Span

PRODUCER_REGISTERS = 32  # of a thread that works out the places of two rings and a tile: with 24 ptxas spills some
NO_GROUPS: Mapping[str, range] = {}


@dataclass(frozen=True)
class IterationPhase:
    """Products of an iteration that run together, for a prediction and its picture.

    `products` are columns and summed elements of each, `gives` the tensors whose tiles the consumer is then done with.
    It then does the part `vector` of an iteration's vector work. Where it goes on without them they are `beside`.
    """

    products: tuple[tuple[int, int], ...]
    operands: tuple[str, ...]
    gives: tuple[str, ...]
    vector: float
    beside: bool = False
    span: Span | None = None


@dataclass(frozen=True)
class FusedLoop:
    """The layout of a kernel with a loop of matmuls: the parts that do not depend on which products it has."""

    kernel: Kernel
    loop: Loop
    split: Axis
    consumers: int
    persistent: int  # blocks, 0 where each tile has its own
    remap: Remap | None  # the order of the tiles
    machine: Hopper
    # Where the spec names them, the roles of the warps that load, and of those that multiply.
    roles: tuple[Role, ...] = field(default=(), kw_only=True)
    # True if the last tiles of the split axis come first: their loops are the longest.
    backwards: bool = field(default=False, kw_only=True)

    # ------------------------------------------------------------ of its products

    @property
    def operands(self) -> tuple[Access, ...]:
        """The operands of products that the copy engine brings."""
        raise NotImplementedError

    @property
    def tile_stored(self) -> tuple[Store, ...]:
        """The stores of tiles, which leave through shared memory."""
        raise NotImplementedError

    @property
    def loaded(self) -> tuple[Load, ...]:
        """The tiles that lanes load for an iteration while its products run."""
        raise NotImplementedError

    @property
    def phases(self) -> tuple[IterationPhase, ...]:
        """The products of an iteration, in order."""
        raise NotImplementedError

    @property
    def moving(self) -> Mapping[str, tuple[int, int, Span | None]]:
        """Tensors of which each iteration has another tile: the bytes of one, its buffers, where it is named."""
        raise NotImplementedError

    # ------------------------------------------------------------ of its rows and iterations

    @property
    def threads(self) -> int:
        """Threads of a block: those of its consumers, and of the warpgroup that loads."""
        return (self.consumers + 1) * self.machine.warpgroup_threads

    @property
    def divided(self) -> Axis | None:
        """The axis whose columns the consumers divide, where all have the same rows."""
        return None

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

    def _registers_of_pair(self, access: Access) -> int:
        """Registers of a thread for two neighbours of a tile in `loaded`."""
        return 2 if self.at_once(access) == 1 else max(access.tensor.dtype.bytes // 2, 1)

    def at_once(self, access: Access) -> int:
        """Elements that a lane reads at once of a tile in `loaded`: two, where they are side by side in every row."""
        inner = access.indices[-1].axis == self.loop.axis and self.loop.axis.within is None
        return gcd(2, access.tensor.dims[-1].size or 1) if inner else 1

    @cached_property
    def stored(self) -> tuple[Store, ...]:
        """The stores after the loop."""
        return tuple(op for op in self.kernel.body if isinstance(op, Store))

    @cached_property
    def rows_stored(self) -> tuple[Store, ...]:
        """The stores of a number of each row."""
        return tuple(op for op in self.stored if op.target.axes == (self.split,))

    @property
    def moved_registers(self) -> tuple[int, int] | None:
        """Registers of producer and consumer threads after `setmaxnreg`."""
        return moved_registers(self.machine, self.threads, self.consumers, PRODUCER_REGISTERS)

    @property
    def most_registers(self) -> int:
        """Registers that a consumer's thread has."""
        return (self.moved_registers or (0, launched_registers(self.machine, self.threads)))[1]

    @cached_property
    def moved(self) -> dict[str, Access]:
        """The accesses of tiles that the copy engine moves, by name."""
        return {a.tensor.name: a for a in (*self.operands, *(s.target for s in self.tile_stored))}

    def row_bytes(self, tensor: Tensor) -> int:
        """Bytes of a row of a box."""
        return self.machine.swizzle_bytes

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
