"""Any products in and around a loop executed as `serial_schedule` says, on tiles of torch, as in `loop_model`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from tkgen.backends.hopper.loop_model import (
    NO_GROUPS,
    BlockTiles,
    Groups,
    LoopMemory,
    Place,
    Scheduled,
    passes,
    places_of_block,
    run_blocks,
)
from tkgen.backends.hopper.model import Edit
from tkgen.backends.hopper.serial_loop import Brought, Multiplied, SerialLoop
from tkgen.backends.hopper.serial_program import ring_of
from tkgen.backends.hopper.serial_schedule import SerialShape, serial_schedule
from tkgen.backends.protocol import Modelled
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Access, Axis, Index, Loop, Op, Product, Store, Value, reads, writes
from tkgen.ir.launch import Launch
from tkgen.ir.rounding import rounded
from tkgen.ir.tiles import Tile, along_dims
from tkgen.proof.execution import Order, Parts
from tkgen.proof.program import Do
from tkgen.proof.program import Loop as ProofLoop
from tkgen.schedule.loop_tiles import extent
from tkgen.tile.unroll import WRITE


class SerialTiles(BlockTiles):
    """Data of the operations of `serial_schedule` in one block, for the output tiles at `places`."""

    m: SerialLoop

    def __init__(
        self, m: SerialLoop, shape: SerialShape, memory: LoopMemory, places: Sequence[Place], groups: Groups = NO_GROUPS
    ):
        self.m, self.shape, self.memory, self.places, self.groups = m, shape, memory, places, groups
        self.rows = m.machine.wgmma_rows
        self.own = self.rows // shape.warps
        self.starts = [0, *accumulate(len(self._passes(place)) for place in places)]
        self.value = {v.number: v for v in m.made}
        self.stores = (*m.tile_stored, *m.rows_stored)

    def _row(self, place: Place, consumer: int, warp: int = 0) -> int:
        """The first row of a warp; consumers that divide columns have the same rows."""
        return super()._row(place, 0 if self.m.divided else consumer, warp)

    def do(self, agent: int, step: Do, found: Sequence[Parts]) -> Sequence[Parts]:
        """The results of an operation."""
        if step.stream == "copies":
            tile, (access,) = self._brought(step), step.writes
            parted = self.m.in_parts(self.m.tiles[int(access.ring.removeprefix("tile"))])
            return [tile.chunk(self.m.consumers, 1) if parted else (tile,)]
        if step.stream == "stores":
            whole = torch.cat(found[0])
            store = self.stores[self._store_number(step)]
            self._stored(step, whole.T if self.m.transposed(store) else whole)
            return []
        if step.stream == "products":
            return [(self._product(step, found),)]
        if not step.writes:
            if not str(step.does[1]).startswith("dropped"):
                self._row_numbers(step, found[0][0])
            return []
        if step.does[0] == WRITE:
            return [self._panel(step, found[0])]
        if step.does[1] == "handed":
            return [found[0]]
        return [(self._value(agent, step, found),)]

    def lost(self, agent: int, step: Do) -> None:
        """A store of what nobody knows leaves NaNs."""
        if step.stream == "stores":
            store = self.stores[self._store_number(step)]
            self._stored(step, torch.full(self.m.out_shape(store), torch.nan))
        elif not step.writes and not str(step.does[1]).startswith("dropped"):
            self._row_numbers(step, Tile((self.m.split.name,), torch.full((self.own,), torch.nan)))

    def _panel(self, step: Do, parts: Parts) -> Parts:
        """A warp's rows of a tile that is stored, along the axes that it has in memory."""
        store = self.stores[int(step.writes[0].ring.split()[0].removeprefix("out"))]
        (made,), axes = parts, store.target.axes
        shape = [self.own if a == self.m.split else n for a, n in zip(axes, self.m.out_shape(store), strict=True)]
        value = along_dims(made.value, made.dims, tuple(a.name for a in axes)).expand(shape)
        return (value if axes[0] == self.m.split else value.T,)

    def _brought(self, step: Do) -> Tensor:
        """A tile of an operand: of a consumer's its part."""
        (access,) = step.writes
        tile = self.m.tiles[int(access.ring.removeprefix("tile"))]
        number, at = self._iteration_of(access.instance) if tile.moves else (access.instance, 0)
        shape = self.m.shape(tile)
        if (place := self._place(number)) is None:
            return torch.zeros(shape)
        at += self._passes(place).start
        consumer = access.box[0][0] if tile.own else 0
        first = (self._first_of(tile.rows, place, at, consumer), self._first_of(tile.cols, place, at, consumer))
        count = min(shape[0], extent(self.m.split)) if tile.rows == self.m.split else shape[0]
        found, of = torch.zeros(shape), self._of_iteration(tile.access, place, at)
        found[:count] = self.memory.brought(of, (tile.rows, tile.cols), first, (count, shape[1]))
        return found

    def _of_iteration(self, access: Access, place: Place, iteration: int) -> Access:
        """An access in an iteration of a tile, whose numbers indices may be."""
        numbers = {self.m.split: place[self.m.split], self.m.loop.axis: iteration}

        def known(index: Index) -> Index:
            if index.through is not None:
                return replace(index, through=self._of_iteration(index.through, place, iteration))
            fixed = index.of_tile and index.axis in numbers
            return Index(None, at=numbers[index.axis]) if fixed and index.axis is not None else index

        return replace(access, indices=tuple(map(known, access.indices)))

    def _first_of(self, axis: Axis, place: Place, iteration: int, consumer: int, of_output: bool = False) -> int:
        """The first position of a tile along an axis."""
        if axis == self.m.split:
            return self._row(place, consumer)
        if axis == self.m.divided and of_output:
            return consumer * self.m.own_columns(axis)
        return iteration * self.m.keys if axis == self.m.loop.axis else 0

    def _product(self, step: Do, found: Sequence[Parts]) -> Tile:
        """Rows of a warp of a product, added to sums where it reads them."""
        m, ring = self.m, step.writes[0].ring.split()
        w = int(ring[-1])
        each = self._product_of(step)
        factors, before = found[:2], found[2:]
        if isinstance(each.left, Value):  # tiles of shared memory are read first
            right, left = torch.cat(factors[0], 1), factors[1][0]
        else:
            whole, right = (torch.cat(parts, 1) for parts in factors)
            names = (each.left.rows.name, each.left.cols.name)
            at = names.index(m.split.name)
            left = Tile(names, whole.narrow(at, w * self.own, self.own))
        other = Tile((each.right.rows.name, each.right.cols.name), right)
        axis = each.product.axis.name
        sides = (left, other) if m.split in each.product.left.axes else (other, left)
        made = self.memory.contracted(each.product, list(sides), axis)
        if not before:
            return made
        dims, (a, b) = self.memory.aligned([before[0][0], made])
        return Tile(dims, a.value + b.value)

    def _product_of(self, step: Do) -> Multiplied:
        """The product that an operation is, by its operands and its sums."""
        rings = {a.ring.split(" ")[0] if a.ring.startswith("tile") else " ".join(a.ring.split()[:2])
                 for a in step.reads}  # fmt: skip
        sums = " ".join(step.writes[0].ring.split()[:2])

        def operand(of: Brought | Value) -> str:
            return ring_of(self.m, of) if isinstance(of, Value) else f"tile{self.m.tiles.index(of)}"

        return next(p for p in self.m.products
                    if ring_of(self.m, p.result) == sums and {operand(p.left), operand(p.right)} <= rings)  # fmt: skip

    def _value(self, agent: int, step: Do, found: Sequence[Parts]) -> Tile:
        """A value that a warp computes of those in its registers."""
        m, (kind, number) = self.m, str(step.does[1]).split()
        tile, *iterations = (int(str(of)) for of in step.does[2:])
        value = self.value[int(number)]
        parts = m.parts(value) if kind == "take" else m.inputs(m.made[value])
        known = {part: tiles[0] for part, tiles in zip(parts, found, strict=True)}
        place = self._place(tile) or self.places[0]
        c, w = divmod(agent - 1, self.shape.warps)  # the first agent is the producer
        first, at = self._row(place, c, w), iterations[0] if iterations else 0
        places = {a.name: range(m.own_columns(a)) for v in (value, *parts) for a in v.axes if not a.is_index}
        if m.divided is not None:
            places[m.divided.name] = range(c * m.own_columns(m.divided), (c + 1) * m.own_columns(m.divided))
        for axis, where in (
            (m.split, range(first, first + self.own)),
            (m.loop.axis, range(at * m.keys, (at + 1) * m.keys)),
        ):
            begin = self.memory.group[axis.name].start if axis.within else 0
            places[axis.name] = range(begin + where.start, begin + where.stop)
        made = value in known and kind == "make"
        self.memory.compute(self._ops(value, frozenset(known) - {value} if made else frozenset(known)), known, places)
        return self.memory.get(value)

    def _ops(self, value: Value, known: frozenset[Value]) -> list[Op]:
        """The operations that a value is made of, in order, those of known ones left out."""
        wanted, found = {value} - known, list[Op]()
        for op in reversed((*self.m.kernel.body, *self.m.loop.body)):
            if not isinstance(op, Store | Loop | Product) and wanted & set(writes(op)):
                wanted.update(v for v in reads(op) if v not in known)
                found.append(op)
        found.reverse()
        return sorted(found, key=lambda op: op in self.m.loop.body)

    def _row_numbers(self, step: Do, row: Tile) -> None:
        """Numbers of a warp's rows to memory."""
        (access,) = step.reads
        store = self.stores[int(access.ring.split()[1])]
        tile, iteration = self._now(step)
        if (place := self._place(tile)) is None:
            return
        c, w = map(int, access.ring.split()[2:])
        first = self._row(place, c, w)
        rows = along_dims(row.value, row.dims, (self.m.split.name,)).expand(self.own)
        places = self.memory.inside([self.m.split], [first], [self._rows_inside(place, first, self.own)])
        target = self._of_iteration(store.target, place, iteration)
        self.memory.put_out(target, places, rounded(rows, store.target.tensor.dtype), tuple(places))

    def _now(self, step: Do) -> tuple[int, int]:
        """The tile and the iteration of a store: it is the one of its number, counted over all tiles."""
        store = self.stores[self._store_number(step)]
        instance = step.reads[0].instance
        if store not in self.m.loop.body:
            return instance, 0
        tile, at = self._iteration_of(instance)
        place = self._place(tile)
        return tile, at + (self._passes(place).start if place is not None else 0)

    def _store_number(self, step: Do) -> int:
        """The number of what is stored."""
        word, *others = step.reads[0].ring.split()
        return int(others[0]) if word == "stored" else int(word.removeprefix("out"))

    def _stored(self, step: Do, panel: Tensor) -> None:
        """A tile of a consumer to memory."""
        m, (access,) = self.m, step.reads
        store = self.stores[self._store_number(step)]
        tile, iteration = self._now(step)
        if (place := self._place(tile)) is None:
            return
        consumer = int(access.ring.split()[1])
        axes = store.target.axes
        firsts = [self._first_of(a, place, iteration, consumer, True) for a in axes]
        sizes = list(m.out_shape(store))
        at = axes.index(m.split)
        sizes[at] = self._rows_inside(place, firsts[at], self.rows)
        places = self.memory.inside(axes, firsts, sizes)
        target = self._of_iteration(store.target, place, iteration)
        self.memory.put_out(target, places, rounded(panel, store.target.tensor.dtype), tuple(places))


def run_serial(
    m: SerialLoop, launch: Launch[EquationProgram], inputs: Mapping[str, Tensor], scalars: Mapping[str, float],
    order: Order, progress: Callable[[int, int], None] | None = None, warps: int = 0, edit: Edit | None = None,
) -> Modelled:  # fmt: skip
    """A launch in one order, block after block; the rest as `model.run_products`."""

    def schedule(launch: Launch[EquationProgram], memory: LoopMemory, block: int) -> Scheduled:
        return _block(m, launch, memory, block, warps)

    stored = (*m.tile_stored, *m.rows_stored)
    return run_blocks(m, stored, schedule, launch, inputs, scalars, order, progress, edit)


def _block(
    m: SerialLoop, launch: Launch[EquationProgram], memory: LoopMemory, block: int, warps: int
) -> tuple[SerialTiles, ProofLoop] | None:
    """The data and the schedule of a block; None if it has no tile."""
    places = places_of_block(m, launch, block)
    if not places:
        return None
    spans = [passes(m, launch.extents, place, launch.groups) for place in places]
    shape = SerialShape(m.buffers, m.consumers, 0, warps or m.machine.warpgroup_warps)
    return SerialTiles(m, shape, memory, places, launch.groups), serial_schedule(m, shape, len(places), spans)
