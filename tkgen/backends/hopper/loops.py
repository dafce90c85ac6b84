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

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from tkgen.backends.hopper.fused_loop import PRODUCER_REGISTERS as PRODUCER_REGISTERS
from tkgen.backends.hopper.fused_loop import FusedLoop, IterationPhase
from tkgen.backends.hopper.layout import BARRIER_BYTES
from tkgen.backends.hopper.port import WORKING_REGISTERS
from tkgen.ir.equations import (
    Access,
    Axis,
    Carry,
    Convert,
    Load,
    Map,
    Op,
    Product,
    Reduce,
    Store,
    Value,
    reads,
    writes,
)
from tkgen.ir.tensors import Tensor
from tkgen.ir.types import DType
from tkgen.schedule.loop_tiles import extent
from tkgen.source import Span
from tkgen.targets.model import round_up

FEWER_REGISTERS = "use smaller tiles of the loop's axis (`by`), or fewer consumers"
BARRIERS_OF_TILE = 2  # beside those of buffers: the held factor is there, and no longer needed


@dataclass(frozen=True)
class Chain:
    """The second product of a loop: what it adds to, the sum, and its right operand."""

    product: Product
    onto: Value
    result: Value
    right: Access


@dataclass(frozen=True)
class HopperLoop(FusedLoop):
    """The layout of one kernel, which `hopper_loop` has found to fit."""

    first: Product
    second: Chain | None  # None where the loop has one product, of which rows are reduced alone
    held: Access
    left: Access
    buffers: tuple[int, int]  # of left, and of the second product's right operand

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

    # ------------------------------------------------------------ of its values in C++

    @cached_property
    def _late(self) -> Carry | None:
        """The carried sums of the second product."""
        return next((c for c in self.loop.carries if self.second and c.update == self.second.result), None)

    @property
    def in_arrays(self) -> frozenset[Value]:
        """Values whose registers are there for a tile of the output: sums of both products."""
        if self.second is None or self._late is None:
            return frozenset({self.first.result})
        carried = (self._late.inside, self._late.result, self.second.onto, self.second.result)
        return frozenset({self.first.result, *carried})

    @property
    def shared_arrays(self) -> Mapping[Value, Value]:
        """Values whose registers are those of another one."""
        if self.second is None or self._late is None:
            return {}
        return {self.second.onto: self._late.inside, self.second.result: self._late.inside}

    @property
    def inlined_before(self) -> tuple[Op, ...]:
        """The operations before the loop: part of the expressions that use them."""
        return self.kernel.body[: self.kernel.body.index(self.loop)]

    @property
    def groups(self) -> tuple[tuple[Op, ...], ...]:
        """The operations between which the kernel does something else."""
        return self.middle, self.carried, self.behind

    @property
    def reduced(self) -> tuple[Reduce, ...]:
        """The reductions of the loop."""
        return tuple(op for op in self.middle if isinstance(op, Reduce))

    def columns_text(self, axes: Collection[Axis]) -> str:
        """The C++ of the columns of a tile with these axes."""
        return "KEYS" if self.loop.axis in axes else "WIDTH"

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
    def tile_stored(self) -> tuple[Store, ...]:
        """Of these the tiles, which leave through shared memory."""
        return tuple(op for op in self.stored if len(op.target.axes) > 1)

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
    def registers(self) -> int:
        """Registers of a consumer's thread, as predicted."""
        return registers_of(self.keys, self.width, self.element_bytes if self.second is not None else 0)

    @property
    def operands(self) -> tuple[Access, ...]:
        """The operands of products that the copy engine brings."""
        return (self.held, self.left, *((self.second.right,) if self.second is not None else ()))

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

    @property
    def phases(self) -> tuple[IterationPhase, ...]:
        """Both products: the second runs beside what comes after it."""
        left = self.left.tensor.name
        first = IterationPhase(((self.keys, self.depth),), (left,), (left,), 1.0, span=self.first.result.span)
        if self.second is None:
            return (first,)
        right = self.second.right.tensor.name
        span = self.second.product.result.span
        return first, IterationPhase(((self.width, self.keys),), (right,), (right,), 0.0, True, span)

    @property
    def moving(self) -> Mapping[str, tuple[int, int, Span | None]]:
        """The right operands of both."""
        row = self.keys * self.element_bytes
        left = self.left.tensor
        found = {left.name: (row * self.depth, self.buffers[0], left.span)}
        if self.second is not None:
            right = self.second.right.tensor
            found[right.name] = (row * self.width, self.buffers[1], right.span)
        return found

    @property
    def vector_ops(self) -> tuple[Op, ...]:
        """The operations of an iteration on elements."""
        return self.middle

    def facts(self) -> dict[str, object]:
        """The layout as plain data."""
        return {"consumers": self.consumers, "keys": self.keys, "buffers": list(self.buffers),
                "moved_registers": self.moved_registers}  # fmt: skip

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
