"""Fused matmuls executed as `loop_schedule` says: what each operation makes of what it finds, as in `model`.

Values that a warp carries for its rows, such as a running maximum or a sum, are in registers that nobody else and no
asynchronous operation touches. The schedule does not name them; they are kept here, a set for each warp.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from tkgen.backends.hopper.fused_loop import FusedLoop
from tkgen.backends.hopper.loop_schedule import Shape, schedule, shape_of
from tkgen.backends.hopper.loops import HopperLoop
from tkgen.backends.hopper.model import Edit, Memory, modelled
from tkgen.backends.protocol import Modelled
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Access, Axis, Carry, Index, Load, Op, Product, Store, Value
from tkgen.ir.launch import Launch
from tkgen.ir.products import needed
from tkgen.ir.rounding import TORCH, rounded
from tkgen.ir.tiles import Tile, along_dims
from tkgen.proof.execution import Order, Outcome, Parts, Work, execute
from tkgen.proof.program import Do
from tkgen.proof.program import Loop as ProofLoop
from tkgen.schedule.loop_masks import NEUTRAL
from tkgen.schedule.loop_tiles import extent

Place = Mapping[Axis, int]
Groups = Mapping[Axis, Sequence[range]]
NO_GROUPS: Groups = {}

Scheduled = tuple[Work, ProofLoop] | None  # the data of a block and its schedule; None if it has no tile


class LoopMemory(Memory):
    """Memory whose loads give zeros beyond the end, as those of lanes do."""

    def load(self, access: Access) -> Tile:
        """The values that are read of a tensor at the current position."""
        axes = {i.axis.name: i.axis for i in access.indices if i.axis is not None and i.axis.name in self.places}
        whole = self.places
        ends = {name: self.group.get(name, range(self.extents[axis.dim.name])).stop for name, axis in axes.items()}
        self.places = whole | {
            name: range(min(whole[name].start, end), min(whole[name].stop, end)) for name, end in ends.items()
        }
        found = super().load(access)
        self.places = whole
        beyond = [n for d in reversed(found.dims) for n in (0, len(whole[d]) if d in axes else 0)]
        short = [n for s in reversed(found.value.shape) for n in (0, s)]
        pads = [max(b - s, 0) for b, s in zip(beyond, short, strict=True)]
        return replace(found, value=torch.nn.functional.pad(found.value, pads))


class BlockTiles:
    """The output tiles of one block, at `places`, and their iterations; `starts` count those of all tiles."""

    m: FusedLoop
    memory: Memory
    places: Sequence[Place]
    groups: Groups
    starts: Sequence[int]
    rows: int
    own: int  # rows of a warp

    def _place(self, tile: int) -> Place | None:
        """That of an output tile; after the last one there is none."""
        if not 0 <= tile < len(self.places):
            return None
        place = self.places[tile]
        self.memory.at_indices({a.name: at for a, at in place.items() if a.is_index})
        self.memory.group |= group_at(self.m, self.groups, place)
        return place

    def _row(self, place: Place, consumer: int, warp: int = 0) -> int:
        """The first row of a warp."""
        return place[self.m.split] * extent(self.m.split) + consumer * self.rows + warp * self.own

    def _rows_inside(self, place: Place, first: int, count: int) -> int:
        """Rows from `first` on, at most `count`, that are of the block's tile."""
        return max(min(count, (place[self.m.split] + 1) * extent(self.m.split) - first), 0)

    def _iteration_of(self, instance: int) -> tuple[int, int]:
        """The tile that has this iteration of all, and the number of the iteration there; after the last tile if none.

        A tile without iterations counts as one of one.
        """
        tile = bisect_right(self.starts, instance) - 1
        return tile, instance - self.starts[tile]

    def _passes(self, place: Place) -> range:
        return passes(self.m, self.memory.extents, place, self.groups)


class LoopWork(BlockTiles):
    """Data of the operations of `loop_schedule` in one block, for the output tiles at `places`.

    `groups` has the positions of each group along ragged axes.
    """

    m: HopperLoop

    def __init__(
        self, m: HopperLoop, shape: Shape, memory: Memory, places: Sequence[Place], groups: Groups = NO_GROUPS
    ):  # fmt: skip
        self.m, self.shape, self.memory, self.places, self.groups = m, shape, memory, places, groups
        self.rows = m.machine.wgmma_rows
        self.own = self.rows // shape.warps  # rows of a warp
        counts = shape.run or (shape.passes,) * len(places)
        self.starts = [0, *accumulate(max(n, 1) for n in counts)]  # of tiles, in iterations of all
        second = m.second
        self.summed = None if second is None else next(c for c in m.loop.carries if c.update == second.result)
        self.kept: dict[str, dict[Value, Tile]] = {}  # of each warp what it carries of its rows
        at = m.kernel.body.index(m.loop)
        self.before = [op for op in m.kernel.body[:at] if not self._moved(op)]
        late = {*m.loaded, *m.carried}
        late |= {op for op in m.loop.body if second is not None and getattr(op, "result", None) == second.result}
        self.middle = [
            op for op in m.loop.body if not isinstance(op, Product) and not self._moved(op) and op not in late
        ]

    @property
    def _sums(self) -> Carry:
        """The carried sums of the second product."""
        assert self.summed is not None
        return self.summed

    def _moved(self, op: Op) -> bool:
        """Return True if the copy engine brings what an operation loads."""
        return isinstance(op, Load) and op.source in self.m.operands

    def do(self, agent: int, step: Do, found: Sequence[Parts]) -> Sequence[Parts]:
        """The results of an operation."""
        m = self.m
        if step.stream == "copies":
            return [(self._brought(step),)]
        if step.stream == "stores":
            self._stored(step, torch.cat(found[0]))
            return []
        if not step.writes:
            (self._columns_stored if m.second is not None else self._rows_stored)(step, found)
            return []
        ring, *of = step.writes[0].ring.split()
        if step.stream == "products":
            return [((self._first if ring == "scores" else self._second)(of, found),)]
        if ring == "loaded":
            return [(self._loaded(step, of),)]
        if m.second is None:
            return [(self._numbers(step, of, found),)]
        if ring == "made":
            return [(self._made(step, of, *(parts[0] for parts in found)),)]
        if ring == "columns":
            return [(self._reduced(agent, step, found),)]
        if ring == "combined":
            return [(self._combined(step, found[0]),)]
        if ring == "values" or (ring == "out" and not m.combined):
            return [(self._panel(agent, step, found),)]
        if ring == "out":
            return [found[0]]
        if not found:
            return [(self._initial(step, of),)]
        sums, factor = self._carried(of, found)
        return [(sums,), (factor,)]

    def lost(self, agent: int, step: Do) -> None:
        """A store of what nobody knows leaves NaNs."""
        if step.stream == "stores":
            self._stored(step, torch.full((self.rows, self.m.width), torch.nan))
        elif not step.writes and self.m.second is None:
            self._rows_stored(step, [])
        elif not step.writes:
            nothing = {op.result: torch.full((self.m.width,), torch.nan) for op in self.m.combined}
            self._columns_stored(step, [(nothing,)])

    def _brought(self, step: Do) -> Tensor:
        """A tile of a factor: of the held one a consumer's part."""
        m, (access,) = self.m, step.writes
        if access.ring == "held":
            return self._tile(m.held, access.instance, m.split, access.box[0][0], self.rows)
        tile, number = self._iteration_of(access.instance)
        return self._tile(m.left if access.ring == "left" else m.operands[-1], tile, m.loop.axis, number, m.keys)

    def _tile(self, access: Access, tile: int, along: Axis, number: int, size: int) -> Tensor:
        cols = next(a for a in access.axes if a != along)
        chained = self.m.second is not None and access == self.m.second.right
        shape = (size, self.m.width if chained else self.m.depth)
        if (place := self._place(tile)) is None:
            return torch.zeros(shape)
        if along != self.m.split:
            access = self._of_tile(access, place[self.m.split])
            first = (self._passes(place).start + number) * size
            return self.memory.brought(access, (along, cols), (first, 0), shape)
        rows = torch.zeros(shape)
        first, count = self._row(place, number), min(size, extent(along))
        rows[:count] = self.memory.brought(access, (along, cols), (first, 0), (count, shape[1]))
        return rows

    def _of_tile(self, access: Access, number: int) -> Access:
        """An access at a tile of the split axis, whose number an index may be."""

        def known(index: Index) -> Index:
            if index.through is not None:
                return replace(index, through=self._of_tile(index.through, number))
            return Index(None, at=number) if index.of_tile and index.axis == self.m.split else index

        return replace(access, indices=tuple(map(known, access.indices)))

    def _first(self, of: Sequence[str], found: Sequence[Parts]) -> Tile:
        """The first product: rows of a warp."""
        (held,), (left,) = found
        m, w = self.m, int(of[1])
        rows = Tile((m.split.name, m.first.axis.name), held[w * self.own : (w + 1) * self.own])
        columns = Tile((m.loop.axis.name, m.first.axis.name), left)
        return self.memory.contracted(m.first, [rows, columns], m.first.axis.name)

    def _second(self, of: Sequence[str], found: Sequence[Parts]) -> Tile:
        """The second product, added to the sums."""
        (right,), (factor,), (sums,) = found
        m = self.m
        assert m.second is not None
        columns = Tile((m.loop.axis.name, m.columns.name), right)
        made = self.memory.contracted(m.second.product, [factor, columns], m.loop.axis.name)
        dims, (a, b) = self.memory.aligned([sums, made])
        return Tile(dims, a.value + b.value)

    def _computed(self, ops: Sequence[Op], known: Mapping[Value, Tile], tile: int, first: int, loop: range) -> None:
        """Compute operations from known values, for the rows of a warp from `first` on."""
        self._place(tile)
        places = {} if self.m.second is None else {self.m.columns.name: range(self.m.width)}
        for axis, at in ((self.m.split, range(first, first + self.own)), (self.m.loop.axis, loop)):
            begin = self.memory.group[axis.name].start if axis.within else 0
            places[axis.name] = range(begin + at.start, begin + at.stop)
        self.memory.compute([*self.before, *ops], known, places)

    def _iteration(self, step: Do, of: Sequence[str]) -> tuple[int, int, int, range]:
        """The tile and the number of an iteration, the first of a warp's rows there, the positions of the loop."""
        m, (c, w) = self.m, map(int, of)
        tile, number = self._iteration_of(step.writes[0].instance)
        place = self._place(tile) or self.places[0]
        at = (self._passes(place).start + number) * m.keys
        return tile, number, self._row(place, c, w), range(at, at + m.keys)

    def _loaded(self, step: Do, of: Sequence[str]) -> dict[Value, Tile]:
        """The tiles that lanes read of an iteration."""
        tile, _, first, loop = self._iteration(step, of)
        self._computed(self.m.loaded, {}, tile, first, loop)
        return {op.result: self.memory.get(op.result) for op in self.m.loaded}

    def _made(self, step: Do, of: Sequence[str], scores: Tile, loaded: Mapping[Value, Tile] = {}) -> dict[int, Tile]:
        """All values that are known between the two products, by number."""
        tile, number, first, loop = self._iteration(step, of)
        if number == 0:
            self._started(of, tile, first, loop)
        kept = {v: t for v, t in self.kept[" ".join(of)].items() if number == 0 or v != self._sums.inside}
        self._computed(self.middle, {**kept, **loaded, self.m.first.result: scores}, tile, first, loop)
        return dict(self.memory.values)

    def _started(self, of: Sequence[str], tile: int, first: int, loop: range) -> None:
        """Set the values that a warp carries for its rows before the first iteration."""
        self._computed([], {}, tile, first, loop)
        self.kept[" ".join(of)] = {c.inside: self.memory.taken(c.initial) for c in self.m.loop.carries}

    def _initial(self, step: Do, of: Sequence[str]) -> Tile:
        """The sums of a tile that takes no iteration."""
        self._begun(step, of)
        return self.kept[" ".join(of)][self._sums.inside]

    def _begun(self, step: Do, of: Sequence[str]) -> None:
        """Set the values that a warp carries through a tile that takes no iteration."""
        (access,), (c, w) = step.writes, map(int, of)
        place = self._place(access.instance) or self.places[0]
        self._started(of, access.instance, self._row(place, c, w), range(0))

    def _carried(self, of: Sequence[str], found: Sequence[Parts]) -> tuple[Tile, Tile]:
        """The sums that the second product adds to, and its factor; what the warp keeps is that of this pass."""
        (made,), *sums = found
        m, memory = self.m, self.memory
        memory.values = dict(made)
        if sums:
            memory.values[self._sums.inside.number] = sums[0][0]
        memory.body(m.carried)
        rows = [carry for carry in m.loop.carries if carry != self.summed]
        self.kept[" ".join(of)] |= {carry.inside: memory.taken(carry.update) for carry in rows}
        assert m.second is not None
        return memory.get(m.second.onto), memory.get(m.second.product.left)

    def _numbers(self, step: Do, of: Sequence[str], found: Sequence[Parts]) -> dict[Value, Tile]:
        """The numbers of a warp's rows after an iteration of a loop with one product; before the first one if none."""
        m, key = self.m, " ".join(of)
        if not found:
            self._begun(step, of)
            return self.kept[key]
        (scores,), *others = found
        tile, number, first, loop = self._iteration(step, of)
        if number == 0:
            self._started(of, tile, first, loop)
        loaded = others.pop(0)[0] if m.loaded else {}
        kept = others[0][0] if others else self.kept[key]
        self._computed(self.middle, {**kept, **loaded, m.first.result: scores}, tile, first, loop)
        return {carry.inside: self.memory.taken(carry.update) for carry in m.loop.carries}

    def _rows_stored(self, step: Do, found: Sequence[Parts]) -> None:
        """The numbers of a warp's rows to memory; NaN where nobody knows them."""
        m, (access,) = self.m, step.reads
        tile, _ = self._iteration_of(access.instance)
        if (place := self._place(tile)) is None:
            return
        store = m.rows_stored[int(str(step.does[1]).split()[1])]
        c, w = map(int, access.ring.split()[1:])
        first = self._row(place, c, w)
        if found:
            known = {carry.result: found[0][0][carry.inside] for carry in m.loop.carries}
            self._computed(m.behind, known, tile, first, range(0))
            row = self.memory.get(store.value)
            rows = along_dims(row.value, row.dims, (m.split.name,)).expand(self.own)
        else:
            rows = torch.full((self.own,), torch.nan)
        places = self.memory.inside([m.split], [first], [self._rows_inside(place, first, self.own)])
        self.memory.put_out(store.target, places, rounded(rows, store.target.tensor.dtype), tuple(places))

    def _after(self, agent: int, step: Do, found: Sequence[Parts], ops: Sequence[Op]) -> int | None:
        """Execute operations after the loop on the rows of a warp and combined columns; the first of its rows."""
        m, (access,), ((sums,), *columns) = self.m, step.writes, (parts[:1] for parts in found)
        if (place := self._place(access.instance)) is None:
            return None
        c, w = divmod(agent - 1, self.shape.warps)  # the first agent is the producer
        first = self._row(place, c, w)
        kept = self.kept[f"{c} {w}"]
        known = {carry.result: kept[carry.inside] for carry in m.loop.carries if carry != self.summed}
        known |= self._of_columns(columns) | {self._sums.result: sums}
        self._computed([op for op in ops if op not in m.combined], known, access.instance, first, range(0))
        return first

    def _of_columns(self, found: Sequence[Parts]) -> dict[Value, Tile]:
        """The combined columns that an operation reads."""
        return {value: Tile((self.m.columns.name,), numbers) for (made, *_) in found for value, numbers in made.items()}

    def _reduced(self, agent: int, step: Do, found: Sequence[Parts]) -> dict[Value, Tensor]:
        """The columns of a warp's rows that are within the tensor."""
        m, op = self.m, self.m.combined[int(step.writes[0].ring.split()[1])]
        nothing = torch.full((m.width,), NEUTRAL[op.function])
        if (first := self._after(agent, step, found, m.behind[: m.behind.index(op)])) is None:
            return {op.result: nothing}
        rows = self.memory.inside([m.split], [first], [self.own])[m.split.name]
        made = self.memory.get(op.argument)
        whole = along_dims(made.value, made.dims, (m.split.name, self.m.columns.name)).expand(self.own, m.width)
        inside = torch.cat([whole[: len(rows)], nothing.unsqueeze(0)])
        return {op.result: self.memory.gather(op.function, Tile(("rows", self.m.columns.name), inside), 0)[0]}

    def _combined(self, step: Do, parts: Parts) -> dict[Value, Tensor]:
        """The columns, of the parts of all warps."""
        op = self.m.combined[int(step.writes[0].ring.split()[1])]
        tile = Tile(("warps", self.m.columns.name), torch.stack([part[op.result] for part in parts]))
        return {op.result: self.memory.gather(op.function, tile, 0)[0]}

    def _columns_stored(self, step: Do, found: Sequence[Parts]) -> None:
        """The numbers of columns to memory; all warps have the same."""
        m, instance = self.m, step.reads[0].instance
        store = m.columns_stored[int(str(step.does[1]).split()[1])]
        if (place := self._place(instance)) is None:
            return
        known = self._of_columns(found)
        self._computed(needed(tuple(m.behind), store.value, known=known), known, instance, 0, range(0))
        made, size = self.memory.get(store.value), extent(self.m.columns)
        value = along_dims(made.value, made.dims, (self.m.columns.name,)).expand(m.width)[:size]
        at = tuple(
            index.at if index.axis is None else slice(0, size) if index.extends else
            place[index.axis] if index.of_tile else self.memory.group[index.axis.name].start // index.divisor
            for index in store.target.indices
        )  # fmt: skip
        self.memory.outputs[store.target.tensor.name][at] = rounded(value, store.target.tensor.dtype)

    def _panel(self, agent: int, step: Do, found: Sequence[Parts]) -> Tensor:
        """Rows of a warp of the tile that is stored; what else is stored of them goes out at once."""
        m, stored = self.m, [s for s in self.m.stored if s not in self.m.columns_stored]
        whole = torch.zeros(self.own, m.width)
        if (first := self._after(agent, step, found, m.behind)) is None:
            return whole
        made = {s.target: self.memory.get(s.value) for s in stored}
        (tile,) = m.tile_stored
        for store in (s for s in stored if s is not tile):
            row = made[store.target]
            rows = along_dims(row.value, row.dims, (m.split.name,)).expand(self.own)
            count = self._rows_inside(self._place(step.writes[0].instance) or self.places[0], first, self.own)
            places = self.memory.inside([m.split], [first], [count])
            self.memory.put_out(store.target, places, rounded(rows, store.target.tensor.dtype), tuple(places))
        out = made[tile.target]
        value = along_dims(out.value, out.dims, (m.split.name, self.m.columns.name)).expand(whole.shape)
        return rounded(value, tile.target.tensor.dtype)

    def _stored(self, step: Do, panel: Tensor) -> None:
        m, (access,) = self.m, step.reads
        if (place := self._place(access.instance)) is None:
            return
        first = self._row(place, int(access.ring.split()[1]))
        rows = self._rows_inside(place, first, self.rows)
        places = self.memory.inside([m.split, m.columns], [first, 0], [rows, m.width])
        (tile,) = m.tile_stored
        self.memory.put_out(tile.target, places, panel, tuple(places))


def run_loop(
    m: HopperLoop, launch: Launch[EquationProgram], inputs: Mapping[str, Tensor], scalars: Mapping[str, float],
    order: Order, progress: Callable[[int, int], None] | None = None, warps: int = 0, edit: Edit | None = None,
) -> Modelled:  # fmt: skip
    """A launch of a fused matmul in one order, block after block; the rest as `model.run_products`."""

    def scheduled(launch: Launch[EquationProgram], memory: LoopMemory, block: int) -> Scheduled:
        return block_schedule(m, launch, memory, block, warps)

    return run_blocks(m, m.stored, scheduled, launch, inputs, scalars, order, progress, edit)


def run_blocks(
    m: FusedLoop, stored: Iterable[Store],
    schedule: Callable[[Launch[EquationProgram], LoopMemory, int], Scheduled], launch: Launch[EquationProgram],
    inputs: Mapping[str, Tensor], scalars: Mapping[str, float], order: Order,
    progress: Callable[[int, int], None] | None, edit: Edit | None,
) -> Modelled:  # fmt: skip
    """The blocks of a launch, one after another, each with the data and the schedule that `schedule` gives it."""
    outputs = {
        s.target.tensor.name: torch.full(launch.shape(s.target.tensor), torch.nan, dtype=TORCH[s.target.tensor.dtype])
        for s in stored
    }
    memory = LoopMemory(m.kernel, inputs, scalars, launch.extents, outputs)
    launch = launch.of_groups({t.name: inputs[t.name].tolist() for t in m.kernel.offsets})
    blocks, found = launched_blocks(m, launch), list[Outcome]()
    for block in range(blocks):
        if (made := schedule(launch, memory, block)) is None:
            continue
        work, loop = made
        found.append(execute((edit(loop) if edit else loop).unrolled(1), work, order))
        if progress is not None:
            progress(block + 1, blocks)
    return modelled(outputs, found)


def block_schedule(
    m: HopperLoop, launch: Launch[EquationProgram], memory: Memory, block: int, warps: int = 0
) -> tuple[LoopWork, ProofLoop] | None:
    """The data and schedule of a block, `warps` as in `model.run_products`; None if it has no tile."""
    places = places_of_block(m, launch, block)
    if not places:
        return None
    counts = tuple(len(passes(m, launch.extents, place, launch.groups)) for place in places)
    shape = shape_of(m, counts[0])
    shape = replace(shape, warps=warps or shape.warps, run=counts if m.unlike_tiles else ())
    return LoopWork(m, shape, memory, places, launch.groups), schedule(shape, len(places))


def places_of_block(m: FusedLoop, launch: Launch[EquationProgram], block: int) -> list[Place]:
    """The output tiles of a block, in order."""
    blocks = launched_blocks(m, launch)
    numbers = _taken(block, blocks, launch.tile_count) if m.unlike_tiles else range(block, launch.tile_count, blocks)
    return [place for tile in numbers if (place := _tile_place(m, launch, tile)) is not None]


def _taken(block: int, blocks: int, tiles: int) -> list[int]:
    """The tiles of a block, those of each second round of blocks in reverse order."""
    rounds = range(0, tiles, blocks)
    found = (first + (blocks - 1 - block if n % 2 else block) for n, first in enumerate(rounds))
    return [tile for tile in found if tile < tiles]


def _tile_place(m: FusedLoop, launch: Launch[EquationProgram], tile: int) -> Place | None:
    """The tiles that have this number along the parallel axes: of bounded loops from the end on, the longest first.

    None where no group has the tile.
    """
    place, count = launch.place(tile), launch.tiles(m.split)
    if m.split.within is not None:
        count = -(-len(group_at(m, launch.groups, place)[m.split.name]) // extent(m.split))
    if place[m.split] >= count:
        return None
    return place | {m.split: count - 1 - place[m.split]} if m.backwards else place


def group_at(m: FusedLoop, groups: Groups, place: Place) -> dict[str, range]:
    """The positions of the group at a place, along ragged axes by name."""
    index = m.kernel.groups
    return {} if index is None else {axis.name: parts[place[index]] for axis, parts in groups.items()}


def passes(m: FusedLoop, extents: Mapping[str, int], place: Place, groups: Groups = NO_GROUPS) -> range:
    """The iterations of the tile at a place, at these sizes."""
    part = place[m.part] if m.part is not None else 0
    return m.passes(extents, place[m.split], part, group_at(m, groups, place))


def launched_blocks(m: FusedLoop, launch: Launch[EquationProgram]) -> int:
    """Blocks of a launch: one for each tile, or as many as its grid says."""
    return min(launch.tile_count, launch.blocks)
