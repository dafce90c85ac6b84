"""Any products in and around a loop, on Hopper: the tiles that move, what the consumers' registers hold, the steps.

    over h in HEADS, j in LENGTH by 128                  `j` is split: each consumer warpgroup has 64 of its rows
    each q in LENGTH by 64
      p = exp2(scale * Q[h, q] @ K[h, j].T - L[h, q])    rows of every sum are those of `j`: K[h, j] @ Q[h, q].T
      gv = gv + bf16(p).T @ GO[h, q]                     what has rows of `j` is the left operand, from registers
      gk = gk + bf16(p * (gp - D[h, q])).T @ Q[h, q]     the right one is a tile of shared memory, in either direction

Sums of more columns than a product has (MLA: 512) are divided among consumers of the same 64 rows: each has a part of
the columns, and computes all else, such as the scores, itself.

Each sum has the rows of the split axis, whichever operand the equations name first: a sum of 64 rows is what wgmma
makes, and its registers are those that wgmma takes as a left operand, so nothing is exchanged between lanes.

A step issues all products whose operands are there, computes what does not wait for them, and waits. The loop has the
same steps in each iteration; products of several consumers run beside each other's other work. Where a loop is that of
softmax attention, `loops` overlaps more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.hopper.fused_loop import FusedLoop, IterationPhase
from tkgen.backends.hopper.layout import BARRIER_BYTES
from tkgen.backends.hopper.port import WORKING_REGISTERS
from tkgen.ir.equations import (
    Access,
    Axis,
    Carry,
    Convert,
    Kind,
    Load,
    Map,
    Op,
    Product,
    Reduce,
    Store,
    Value,
    reads,
    walk,
    writes,
)
from tkgen.ir.tensors import Tensor
from tkgen.schedule.loop_tiles import LoopError, extent
from tkgen.source import Span
from tkgen.targets.model import round_up

Computed = Map | Reduce | Convert


@dataclass(frozen=True)
class Brought:
    """A tile that the copy engine brings: all of it for all consumers, or for each one its 64 rows, or columns."""

    access: Access
    rows: Axis
    cols: Axis  # innermost in memory
    own: bool  # each consumer has its part
    moves: bool  # there is another one in each iteration
    buffers: int

    @property
    def tensor(self) -> Tensor:
        """The tensor that it is of."""
        return self.access.tensor


@dataclass(frozen=True)
class Multiplied:
    """A product: a left operand of the split axis' rows, from registers where it is a value, and a right one.

    `layouts` says how they lie, as the functions of products are named. The sums are added to `onto`, if that is any
    value; they are `result` then, else the product's own.
    """

    product: Product
    left: Brought | Value
    right: Brought
    layouts: str
    onto: Value | None
    result: Value

    @property
    def tiles(self) -> tuple[Brought, ...]:
        """Its operands of shared memory."""
        return (self.right,) if isinstance(self.left, Value) else (self.left, self.right)


@dataclass(frozen=True)
class ProductStep:
    """Products that run together, and what is computed, rounded for products and stored while they run."""

    products: tuple[Multiplied, ...] = ()
    ops: tuple[Computed, ...] = ()
    converts: tuple[Convert, ...] = ()
    stores: tuple[Store, ...] = ()


def column_count(axis: Axis, loop: Axis) -> str:
    """The constant that has the elements along an axis of a tile."""
    return "KEYS" if axis == loop else f"{cpp_name(axis.name)}_COLUMNS"


def part_count(axis: Axis) -> str:
    """The constant that has a consumer's columns of an axis which consumers divide."""
    return f"{cpp_name(axis.name)}_PART"


@dataclass(frozen=True)
class SerialLoop(FusedLoop):
    """The layout of a kernel with any products, each step of which waits for its own."""

    tiles: tuple[Brought, ...]
    products: tuple[Multiplied, ...]
    divided: Axis | None = None

    # ------------------------------------------------------------ tiles

    @property
    def operands(self) -> tuple[Access, ...]:
        """The operands of products that the copy engine brings."""
        return tuple(tile.access for tile in self.tiles)

    @cached_property
    def tile_stored(self) -> tuple[Store, ...]:
        """The stores of tiles, in the loop and after it."""
        return tuple(op for op in walk(self.kernel.body) if isinstance(op, Store) and len(op.target.axes) > 1)

    @cached_property
    def rows_stored(self) -> tuple[Store, ...]:
        """The stores of a number of each row."""
        return tuple(op for op in walk(self.kernel.body) if isinstance(op, Store) and len(op.target.axes) == 1)

    @property
    def loaded(self) -> tuple[Load, ...]:
        """None: lanes read elements where they use them."""
        return ()

    @property
    def buffers(self) -> tuple[int, ...]:
        """Of each tile that moves."""
        return tuple(tile.buffers for tile in self.tiles if tile.moves)

    def columns_of(self, axis: Axis) -> int:
        """Elements along an axis of a tile in shared memory, or columns of sums: whole panels of memory."""
        if axis == self.loop.axis:
            return self.keys
        if axis == self.split:
            return self.machine.wgmma_rows
        return round_up(extent(axis), self.machine.swizzle_bytes // self.element_bytes)

    def own_columns(self, axis: Axis) -> int:
        """Columns along an axis that a consumer has in registers, and stores: of a divided axis its part."""
        return self.columns_of(axis) // (self.consumers if axis == self.divided else 1)

    def takes_part(self, each: Multiplied) -> bool:
        """True if a consumer multiplies by its part of the right operand's columns."""
        return self.column_axis(each.result) == self.divided

    def in_parts(self, tile: Brought) -> bool:
        """True if consumers take parts of a tile, beside all of it."""
        return any(each.right == tile and self.takes_part(each) for each in self.products)

    def shape(self, tile: Brought) -> tuple[int, int]:
        """Rows and columns of a tile in shared memory: of one consumer, where each has its own."""
        return self.columns_of(tile.rows), self.columns_of(tile.cols)

    def out_shape(self, store: Store) -> tuple[int, int]:
        """The same of a consumer's tile that is stored."""
        rows, cols = store.target.axes
        return self.own_columns(rows), self.own_columns(cols)

    def transposed(self, store: Store) -> bool:
        """True if a tile is stored with its rows side by side in memory."""
        return store.target.axes[-1] == self.split

    @cached_property
    def element_bytes(self) -> int:
        """Of an operand."""
        return self.products[0].right.tensor.dtype.bytes

    @property
    def dynamic_bytes(self) -> int:
        """Shared memory that the launch asks for."""
        held = sum(t.buffers * (self.consumers if t.own else 1) * self._bytes(self.shape(t), t.tensor)
                   for t in self.tiles)  # fmt: skip
        out = sum(self.consumers * self._bytes(self.out_shape(s), s.target.tensor) for s in self.tile_stored)
        return held + out + self.machine.tile_alignment

    @staticmethod
    def _bytes(shape: tuple[int, int], tensor: Tensor) -> int:
        return shape[0] * shape[1] * tensor.dtype.bytes

    @property
    def shared_bytes(self) -> int:
        """All shared memory of a block."""
        return self.dynamic_bytes + 2 * (sum(self.buffers) + 1) * BARRIER_BYTES

    @property
    def registers(self) -> int:
        """Registers of a consumer's thread, as predicted: sums, operands, and what works on them."""
        sums = {self.array(m.result): self.own_columns(self.column_axis(m.result)) // 2 for m in self.products}
        sums |= {c.inside: self.own_columns(self.column_axis(c.inside)) // 2 for c in self.loop.carries
                 if len(c.inside.axes) > 1}  # fmt: skip
        factors = {m.left: self.columns_of(self.column_axis(m.left)) * self.element_bytes // 8
                   for m in self.products if isinstance(m.left, Value)}  # fmt: skip
        return sum(sums.values()) + sum(factors.values()) + WORKING_REGISTERS

    def box(self, tensor: Tensor) -> tuple[int, int]:
        """Rows and columns of one box of the copy engine."""
        panel = self.machine.swizzle_bytes // tensor.dtype.bytes
        found = next((self.shape(t) for t in self.tiles if t.tensor == tensor), None)
        found = found or next(self.out_shape(s) for s in self.tile_stored if s.target.tensor == tensor)
        return found[0], panel

    @property
    def rows_of_factors(self) -> Mapping[Access, int]:
        """Rows of the tiles in shared memory."""
        stored = {s.target: self.out_shape(s)[0] for s in self.tile_stored}
        return {tile.access: self.shape(tile)[0] for tile in self.tiles} | stored

    def overhangs(self, axis: Axis) -> bool:
        """Return True if tiles in registers may go beyond the end of an axis."""
        size = axis.dim.size
        if axis == self.split and self.padded:
            return True
        return axis.within is not None or size is None or size % self.columns_of(axis) > 0

    # ------------------------------------------------------------ values

    @cached_property
    def made(self) -> Mapping[Value, Op]:
        """The operation that makes each value; of what is carried the loop."""
        found = {value: op for op in walk(self.kernel.body) for value in writes(op)}
        return found | {c.inside: self.loop for c in self.loop.carries}

    def column_axis(self, value: Value) -> Axis:
        """The axis of the columns of a tile in registers."""
        return next(a for a in value.axes if a != self.split)

    @cached_property
    def shared_arrays(self) -> Mapping[Value, Value]:
        """Values whose registers are those of another one: of sums what these are added to, of carries all."""
        found: dict[Value, Value] = {}
        for carry in self.loop.carries:
            found[carry.result] = carry.inside
            if carry.update in (added := {m.result: m for m in self.products if m.onto is not None}):
                found[carry.update] = carry.inside
                onto = added[carry.update].onto
                while onto is not None and onto != carry.inside:
                    found[onto] = carry.inside
                    onto = added[onto].onto if onto in added else None
        for each in self.products:
            if each.onto is not None and each.result not in found:
                found[each.result] = found.get(each.onto, each.onto)
        return found

    def array(self, value: Value) -> Value:
        """The value that names the registers of another."""
        while (other := self.shared_arrays.get(value)) is not None:
            value = other
        return value

    @property
    def in_arrays(self) -> frozenset[Value]:
        """Values whose registers are there for a tile of the output: sums, and tiles that are carried."""
        sums = {v for m in self.products for v in (m.result, m.onto) if v is not None}
        carried = {v for c in self.loop.carries if len(c.inside.axes) > 1 for v in (c.inside, c.result)}
        return frozenset(sums | carried)

    @cached_property
    def handed(self) -> tuple[Carry, ...]:
        """The carries that are handed on at the end of an iteration, not added to in their place."""
        return tuple(c for c in self.loop.carries if self.array(c.update) != c.inside)

    @property
    def dropped(self) -> tuple[Value, ...]:
        """Carries that nobody reads after the loop."""
        used = {v for op in self.kernel.body for v in reads(op)}
        return tuple(c.inside for c in self.loop.carries if c.result not in used)

    @cached_property
    def kept(self) -> frozenset[Value]:
        """Values that have registers from step to step: sums, what is carried, and results that later steps read."""
        found = {v for m in self.products for v in (m.result, m.onto) if v is not None}
        found |= {v for c in self.loop.carries for v in (c.inside, c.result)}
        found |= {m.left for m in self.products if isinstance(m.left, Value)}
        handed = {v for c in self.loop.carries for v in (c.initial, c.update)}
        for steps in (self.before, self.body, self.behind):
            for at, step in enumerate(steps):
                later = [op for other in steps[at + 1 :] for op in (*other.ops, *other.converts, *other.stores)]
                used = {v for op in later for v in reads(op)} | handed
                found |= {v for op in step.ops for v in writes(op) if v in used and self._has_registers(v)}
        return frozenset(found)

    def _has_registers(self, value: Value) -> bool:
        """True if a value has a variable: conditions, and numbers of columns alone, are part of expressions."""
        return value.kind is Kind.NUMBER and (not value.axes or self.split in value.axes)

    def parts(self, value: Value) -> tuple[Value, ...]:
        """The values in registers that a value is computed from: itself where it is one."""
        if value in self.kept:
            return (value,)
        return self.inputs(self.made[value]) if isinstance(self.made[value], Computed) else ()

    def inputs(self, op: Op) -> tuple[Value, ...]:
        """Those that an operation reads."""
        return tuple(dict.fromkeys(part for v in reads(op) for part in self.parts(v)))

    # ------------------------------------------------------------ steps

    @cached_property
    def _at(self) -> int:
        return self.kernel.body.index(self.loop)

    @cached_property
    def inlined_before(self) -> tuple[Op, ...]:
        """The operations before the loop that no product decides: part of the expressions that use them."""
        late, found = {v for m in self.products for v in (m.product.result, m.result)}, list[Op]()
        for op in self.kernel.body[: self._at]:
            if isinstance(op, Computed) and not late & set(reads(op)):
                found.append(op)
            elif isinstance(op, Computed):
                late.add(op.result)
        return tuple(found)

    @cached_property
    def before(self) -> tuple[ProductStep, ...]:
        """The steps before the loop."""
        return self._steps([op for op in self.kernel.body[: self._at] if op not in self.inlined_before])

    @cached_property
    def body(self) -> tuple[ProductStep, ...]:
        """The steps of an iteration."""
        return self._steps(self.loop.body)

    @cached_property
    def behind(self) -> tuple[ProductStep, ...]:
        """The steps after the loop."""
        return self._steps(self.kernel.body[self._at + 1 :])

    @property
    def groups(self) -> tuple[tuple[Op, ...], ...]:
        """The operations of each step."""
        return tuple(step.ops for steps in (self.before, self.body, self.behind) for step in steps)

    @property
    def reduced(self) -> tuple[Reduce, ...]:
        """The reductions of the loop."""
        return tuple(op for op in self.loop.body if isinstance(op, Reduce))

    def columns_text(self, axes: Collection[Axis]) -> str:
        """The C++ of the columns of a tile in registers with these axes."""
        axis = next(a for a in axes if a != self.split and not a.is_index)
        return part_count(axis) if axis == self.divided else column_count(axis, self.loop.axis)

    def _steps(self, ops: Sequence[Op]) -> tuple[ProductStep, ...]:
        """Steps for these operations. Raises LoopError where sums would be added to what is still read."""
        added = {m.result for m in self.products if m.onto is not None}
        left = [op for op in ops if isinstance(op, Computed | Store) and not (set(writes(op)) & added)]
        waiting = [m for m in self.products if m.product in ops]
        pending = {v for op in left for v in writes(op)} | {v for m in waiting for v in (m.product.result, m.result)}
        factors = {m.left for m in self.products}
        found = list[ProductStep]()
        while left or waiting:
            issued = list[Multiplied]()
            for m in waiting:  # those that are added to each other run one after another, without a wait
                added_to = {each.result for each in issued}
                if not (self._needed(m) & pending) - added_to and m.left not in added_to:
                    issued += [m] * (not self._overwrites(m, left))
            waiting = [m for m in waiting if m not in issued]
            taken = list[Computed | Store]()
            busy = self.in_arrays if issued else frozenset()  # ptxas waits for all products before any sums are touched
            for op in left:
                if set(reads(op)) & pending or busy & {*reads(op), *writes(op)}:
                    continue
                if any(other is not op and self._replaces(op, other) for other in left):
                    continue
                taken.append(op)
                pending -= set(writes(op))
            if not issued and not taken:
                at = next((m.product.result.span for m in waiting), self.loop.axis.span)
                raise LoopError("sums are added to registers that are still read", at)
            left = [op for op in left if op not in taken]
            pending -= {v for m in issued for v in (m.product.result, m.result)}
            converts = tuple(op for op in taken if isinstance(op, Convert) and op.result in factors)
            stores = tuple(op for op in taken if isinstance(op, Store))
            others = tuple(op for op in taken if not isinstance(op, Store) and op not in converts)
            found.append(ProductStep(tuple(issued), others, converts, stores))
        return tuple(found)

    @staticmethod
    def _needed(m: Multiplied) -> set[Value]:
        return {v for v in (m.left, m.onto) if isinstance(v, Value)}

    def _replaces(self, op: Op, other: Op) -> bool:
        """True if an operation writes registers whose earlier value another one reads."""
        written = {self.shared_arrays[v]: v.number for v in writes(op) if v in self.shared_arrays}
        return any(v.number < written.get(self.array(v), 0) for v in reads(other))

    def _overwrites(self, m: Multiplied, left: Iterable[Op]) -> bool:
        """True if an operation that is left reads the registers to which a product is added, as they are before."""
        if m.onto is None:
            return False
        array = self.array(m.result)
        return any(v.number < m.result.number and self.array(v) == array for op in left for v in reads(op))

    # ------------------------------------------------------------ in words

    @property
    def phases(self) -> tuple[IterationPhase, ...]:
        """The products of each step, with an equal part of the vector work after them."""
        steps = [step for step in self.body if step.products]
        last = {t: step for step in steps for each in step.products for t in each.tiles if t.moves}
        return tuple(
            IterationPhase(tuple((self.own_columns(self.column_axis(m.result)), self.columns_of(m.product.axis))
                        for m in step.products),
                  tuple(dict.fromkeys(m.right.tensor.name for m in step.products)),
                  tuple(tile.tensor.name for tile in last if last[tile] is step), 1 / len(steps),
                  span=step.products[0].product.result.span)
            for step in steps)  # fmt: skip

    @property
    def moving(self) -> Mapping[str, tuple[int, int, Span | None]]:
        """Tiles that each iteration has of its own."""
        return {t.tensor.name: (self._bytes(self.shape(t), t.tensor), t.buffers, t.tensor.span)
                for t in self.tiles if t.moves}  # fmt: skip

    @property
    def vector_ops(self) -> tuple[Op, ...]:
        """The operations of an iteration on elements."""
        return tuple(op for step in self.body for op in step.ops)

    def facts(self) -> dict[str, object]:
        """The layout as plain data."""
        return {"consumers": self.consumers, "keys": self.keys, "buffers": list(self.buffers),
                "steps": len(self.body), "moved_registers": self.moved_registers}  # fmt: skip

    def describe(self) -> str:
        """One line for people."""
        rows = f"{extent(self.split)} of {self.machine.wgmma_rows}" if self.padded else self.machine.wgmma_rows
        moved = (
            f"{t.tensor.name} {t.buffers} x {self.shape(t)[0]} x {self.shape(t)[1]}" for t in self.tiles if t.moves
        )
        of = f"{rows}; {', '.join(moved)}"
        if self.divided is not None:
            of = f"{self.own_columns(self.divided)} columns of `{self.divided.name}`, all of {of}"
        return f"{self.split.name}: {self.consumers} consumers of {of}"
