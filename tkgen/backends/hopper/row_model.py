"""Kernels of rows executed as their steps say (`tkgen.schedule.row_steps`), warp by warp, as in `model`.

Each warp has the elements that the layout gives its lanes (`tkgen.schedule.rows`), row by row: a walk does a sweep with
them, and what it reduces is of these elements alone until all warps of the row have handed on theirs. The exchanges are
the program that the layout's verifier proves (`tkgen.schedule.row_verifier`), for all warps of a block. The lanes of a
warp are taken as one: what they shuffle is no step of the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import torch
from torch import Tensor

from tkgen.backends.hopper.machine import SmLanes
from tkgen.backends.hopper.model import Memory, modelled
from tkgen.backends.protocol import Modelled
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import (
    Access,
    Axis,
    AxisKind,
    Loop,
    Reduce,
    Scan,
    Store,
    Value,
    reads,
    writes,
)
from tkgen.ir.launch import Launch
from tkgen.ir.rounding import rounded, unwritten
from tkgen.ir.tiles import Tile, along_dims, picked
from tkgen.proof.execution import Order, Outcome, Parts, execute
from tkgen.proof.program import Do
from tkgen.schedule.row_loops import loops
from tkgen.schedule.row_steps import passes as all_passes
from tkgen.schedule.row_verifier import constants, program
from tkgen.schedule.rows import RowMap, extent
from tkgen.schedule.sweeps import THERE, Sweep, apart
from tkgen.tile.ops import ElementLoop
from tkgen.tile.unroll import in_order

NEUTRAL = {"sum": 0.0, "max": -inf, "min": inf, "prod": 1.0}
Found = dict[Reduce | Scan, Tensor]  # of a row, what is reduced so far; of a scan the part of each chunk


@dataclass
class _Row:
    """Values of a row that the lanes of a warp hold."""

    places: Mapping[str, range]
    values: dict[int, Tile] = field(default_factory=dict)
    kept: Found = field(default_factory=dict)  # of a loop, what lanes only add up
    found: Found = field(default_factory=dict)  # of the sweep at hand
    at: tuple[Loop | None, int] = (None, 0)  # the loop, and which pass of it
    begun: Found = field(default_factory=dict)  # of scans, what comes before each chunk of the warp


class RowMemory(Memory):
    """Memory in which a warp has some elements of one row: `elements`, of a tile that begins at `begin`."""

    fast: Axis
    rows: tuple[Axis, ...]
    elements: Tensor
    begin: int
    has_first: bool  # the lane that stores what belongs to the row
    begun: Found  # of scans, what comes before each chunk of the warp
    chunks: tuple[int, int]  # of the warp, and the elements of each

    def get(self, value: Value) -> Tile:
        """A value; one that is in no sweep is computed at its first read."""
        if value.number not in self.values and isinstance(op := self.facts.made[value.number], THERE):
            self.values[value.number] = self.result(op)
        return self.values[value.number]

    def coordinate(self, axis: Axis) -> Tile:
        """Places along an axis."""
        if axis != self.fast:
            return super().coordinate(axis)
        return Tile((axis.name,), self.elements.double() - self.first(axis))

    def place(self, axis: Axis) -> range:
        """The position of a row; for the axis of its elements, their number."""
        return range(len(self.elements)) if axis == self.fast else super().place(axis)

    def reduce(self, op: Reduce) -> Tile:
        """The reduction of the warp's own elements."""
        tile = self.along(self.taken(op.argument), op.axis)
        at = tile.dims.index(op.axis.name)
        dims = (*tile.dims[:at], *tile.dims[at + 1 :])
        if tile.value.shape[at]:
            return Tile(dims, self.gather(op.function, tile, at)[0])
        return Tile(dims, torch.full(tuple(1 for _ in dims), NEUTRAL[op.function]))

    def chunked(self, op: Scan) -> Tensor:
        """The warp's elements by chunk, with neutral ones beyond the end; the chunks are the last direction but one."""
        tile = self.along(self.taken(op.argument), op.axis)
        value = tile.value.movedim(tile.dims.index(op.axis.name), -1)
        count, size = self.chunks
        missing = count * size - value.shape[-1]
        padded: Tensor = torch.nn.functional.pad(value, (0, missing), value=NEUTRAL[op.function])
        return padded.reshape(*padded.shape[:-1], count, size)

    def scan(self, op: Scan) -> Tile:
        """The scan of the warp's own elements, onto what comes before each of its chunks."""
        tile = self.along(self.taken(op.argument), op.axis)
        at, parts = tile.dims.index(op.axis.name), self.chunked(op)
        first = self.begun[op].expand(parts.shape[:-1]).unsqueeze(-1)
        found = self.running(op.function, torch.cat([first, parts], -1))[..., 1:].flatten(-2)
        return Tile(tile.dims, found[..., : tile.value.shape[at]].movedim(-1, at))

    def running(self, function: str, values: Tensor) -> Tensor:
        """A scan along the last direction."""
        found: Tensor = self.run(function, Tile((), values), -1)[0]
        return found

    def view(self, tensor: Tensor, access: Access) -> tuple[Tensor, tuple[str, ...]]:
        """The part of a tensor that is touched, and its directions."""
        if access.flattens:
            return self.joint(tensor, access)
        dims: list[str] = []
        for index in access.indices:
            at, axis = len(dims), index.axis
            if index.terms:
                taken = self.affine(index)
                tensor = self.of_group(tensor, at, index)
                tensor = picked(tensor, at, taken.value)
                dims += taken.dims
            elif axis is None:
                tensor = tensor.select(at, index.at)
            elif index.through is not None:
                held, along = self.view(self.tensors[index.through.tensor.name].value, index.through)
                tensor = picked(tensor, at, held.long())
                dims += along
            elif (one := self.at(axis)) is not None:
                tensor = tensor.select(at, one // index.divisor)
            else:
                places = self.elements if axis == self.fast else torch.tensor(list(self.place(axis)))
                places = places % index.divisor if index.remainder else places // index.divisor
                tensor = tensor.index_select(at, places)
                dims.append(axis.name)
        return tensor, tuple(dims)

    def store(self, op: Store) -> None:
        """Puts the elements, or what belongs to the row, where they go."""
        tile = self.taken(op.value)
        if op.target.computed or op.target.flattens:
            self.scatter_now(op, tile)
            return
        places: list[Tensor] = []
        dims: list[str] = []
        for index in op.target.indices:
            axis = index.axis
            if axis is None:
                places.append(torch.tensor([index.at]))
            elif axis == self.fast and index.divisor == 1:
                places.append(self.elements)
            else:
                one = self.begin if axis == self.fast else self.place(axis).start
                places.append(torch.tensor([one // index.divisor]))
            dims.append(axis.name if axis is not None else f"{len(dims)}#")
        shape = [len(p) for p in places]
        if 0 in shape:
            return
        value = along_dims(tile.value, tile.dims, tuple(dims)).expand(shape)
        self.outputs[op.target.tensor.name][torch.meshgrid(*places, indexing="ij")] = rounded(
            value, op.target.tensor.dtype
        )

    def scatter_now(self, op: Store, tile: Tile) -> None:
        """The same at computed positions."""
        alike = [axis for axis in self.rows if axis not in op.target.axes]  # the first of these rows stores
        if (self.fast in op.target.axes or self.has_first) and not any(self.place(a).start for a in alike):
            self.scattered(op, tile)


class RowWork:
    """Data of the steps of a block: `tile` is its index along each axis, `passes` the starts of its loops' tiles.

    Along each ragged axis its group has the places of `groups`, and begins are counted from the first of these.
    """

    def __init__(
        self, m: RowMap, memory: RowMemory, tile: Mapping[Axis, int], passes: Sequence[int], groups: Mapping[str, range]
    ):
        self.m, self.memory, self.tile, self.passes = m, memory, tile, passes
        self.indices, self.groups = {a.name: at for a, at in tile.items() if a.is_index}, groups
        memory.at_indices(self.indices)
        memory.group |= groups
        self.walks = [self._walks() for _ in range(m.waves)]  # which walk comes next
        self.sweep = [0] * m.waves  # at which each is
        self.over = [-1] * m.waves  # the rows that each has now, by the number of `_rows`
        self.rows: list[list[_Row]] = [[] for _ in range(m.waves)]

    def do(self, agent: int, step: Do, found: Sequence[Parts]) -> Sequence[Parts]:
        """The results of a step."""
        if step.writes:
            return [(tuple(dict(row.found) for row in self.rows[agent]),)]
        if not step.reads:
            self._walk(agent)
            return []
        for number, row in enumerate(self.rows[agent]):
            self._got(row, agent, [part[number] for part in found[0]])
        return []

    def lost(self, agent: int, step: Do) -> None:
        """Set the results of a step to nan: they are unknown, and so is everything computed from them."""
        for row in self.rows[agent]:
            self._got(row, agent, [{r: torch.tensor(torch.nan) for r in row.found}])

    def _walks(self) -> Iterator[tuple[int, int, int]]:
        """The walks of a block: pass over rows, pass of a loop, sweep."""
        at = dict(constants(self.m, len(self.passes), self.m.waves, self.m.waves_of_row, self.m.passes))
        for op in in_order([all_passes(self.m.steps)], at):
            if isinstance(op, ElementLoop):
                yield at["rows"], at["iteration"] if self.m.sweeps[op.number].loop else 0, op.number

    # ------------------------------------------------------------ which elements

    def _rows(self, agent: int, over: int) -> list[_Row]:
        """The rows of a warp in a pass over them, those outside of tensors left out."""
        m = self.m
        threads = range(agent * m.wave_lanes, (agent + 1) * m.wave_lanes)
        found = list[_Row]()
        for group in dict.fromkeys(map(m.group, threads)):
            for i in range(m.held):
                row = ((over * m.held + i) // m.across * m.groups + group) * m.across + i % m.across
                places = self._places(row)
                if row < m.row_count and places is not None:
                    found.append(_Row(places))
        return found

    def _places(self, row: int) -> dict[str, range] | None:
        found: dict[str, range] = {}
        for axis in reversed(self.m.rows):
            row, at = divmod(row, extent(axis))
            at += self.tile.get(axis, 0) * extent(axis) if axis.kind is AxisKind.PARALLEL else 0
            if at >= len(whole := self._whole(axis)):
                return None
            found[axis.name] = whole[at : at + 1]
        return found

    def _whole(self, axis: Axis) -> range:
        """The places of an axis: of a ragged one those of the block's group."""
        return self.memory.group.get(axis.name, range(self.memory.extents[axis.dim.name]))

    def _elements(self, agent: int, begin: int) -> Tensor:
        """Places of a warp's elements of the row's tile that begins there, counted as `_whole` is."""
        m = self.m
        threads = range(agent * m.wave_lanes, (agent + 1) * m.wave_lanes)
        lanes = torch.tensor(sorted(set(map(m.lane, threads))))
        parts = (torch.arange(m.chunks) * m.lanes)[:, None] + lanes[None]
        at = (parts.flatten() * m.chunk)[:, None] + torch.arange(m.chunk)[None]
        whole, own = self._whole(m.fast), at.flatten()
        return whole.start + begin + own[own < min(m.length, len(whole) - begin)]

    # ------------------------------------------------------------ walks

    def _walk(self, agent: int) -> None:
        """The next walk of a warp."""
        m, memory = self.m, self.memory
        over, at, number = next(self.walks[agent])
        if over != self.over[agent]:
            self.over[agent], self.rows[agent] = over, self._rows(agent, over)
        self.sweep[agent] = number
        sweep = m.sweeps[number]
        looped = m.fast.kind is AxisKind.SEQUENTIAL
        if sweep.loop is not None and sweep.loop.axis.is_index and self.passes:
            memory.at_indices(self.indices | {sweep.loop.axis.name: self.passes[at]})
            memory.group |= self.groups
        begin = (self.passes or [0])[at] if looped else self.tile.get(m.fast, 0) * m.length
        memory.fast, memory.begin, memory.elements = m.fast, begin, self._elements(agent, begin)
        threads = range(agent * m.wave_lanes, (agent + 1) * m.wave_lanes)
        memory.chunks = m.chunks, m.chunk * m.lanes_of_wave
        memory.rows, memory.has_first = m.rows, any(m.lane(thread) == 0 for thread in threads)
        for row in self.rows[agent]:
            memory.places, memory.values, memory.begun = dict(row.places), row.values, row.begun
            self._turned(row, sweep.loop, at)
            self._passed_by(row, number)
            memory.body([*sweep.rows, *sweep.elements, *sweep.sorts])
            self._reduced(row, sweep)
            if m.waves_of_row == 1:
                self._got(row, agent, [row.found])

    def _turned(self, row: _Row, loop: Loop | None, at: int) -> None:
        """Update carried values at the start of an iteration or after the loop."""
        before, memory = row.at[0], self.memory
        if (loop, at) == row.at:
            return
        row.at = (loop, at)
        if before is not None:
            alone = apart(before)
            carries = [c for c in before.carries if c not in alone]
            new = [memory.taken(c.update) for c in carries]
            inside = {v.number for op in before.body for v in writes(op)}
            row.values = memory.values = {n: t for n, t in row.values.items() if n not in inside}
            row.values.update({c.inside.number: tile for c, tile in zip(carries, new, strict=True)})
            if loop is not before:
                row.values.update({c.result.number: tile for c, tile in zip(carries, new, strict=True)})
        if loop is not None and loop is not before:
            row.values.update({c.inside.number: memory.taken(c.initial) for c in loop.carries if c not in apart(loop)})

    def _passed_by(self, row: _Row, number: int) -> None:
        """Give the sweep of a number the initial values of carries whose loops visit no tile."""
        loops = () if self.passes else dict.fromkeys(s.loop for s in self.m.sweeps[:number] if s.loop is not None)
        for loop in loops:
            alone = apart(loop)
            carries = [c for c in loop.carries if c not in alone]
            row.values.update({c.result.number: self.memory.taken(c.initial) for c in carries})

    def _reduced(self, row: _Row, sweep: Sweep) -> None:
        """Reduce a warp's own elements in an element loop: the results are shared, or kept until after the loop."""
        memory = self.memory
        for reduce in sweep.parts:
            mine = memory.reduce(reduce).value
            row.kept[reduce] = _taken(reduce, [row.kept[reduce], mine]) if reduce in row.kept else mine
        row.found = {reduce: memory.reduce(reduce).value for reduce in sweep.reduces}
        row.found |= {s: memory.running(s.function, memory.chunked(s))[..., -1] for s in sweep.scans}
        nothing = {reduce: torch.tensor(NEUTRAL[reduce.function]) for reduce in sweep.whole}
        row.found |= {reduce: row.kept.pop(reduce, nothing[reduce]) for reduce in sweep.whole}

    def _got(self, row: _Row, agent: int, parts: Sequence[Found]) -> None:
        """Combine the parts of all warps of a row into its reductions."""
        for reduce in self.m.sweeps[self.sweep[agent]].handed:
            if isinstance(reduce, Scan):
                row.begun[reduce] = self._before(reduce, agent, [part[reduce] for part in parts])
                continue
            dims = tuple(a.name for a in reads(reduce)[0].axes if a != self.m.fast)
            value = _taken(reduce, [part[reduce] for part in parts])
            row.values[reduce.result.number] = Tile(dims if value.dim() else (), value)

    def _before(self, scan: Scan, agent: int, parts: Sequence[Tensor]) -> Tensor:
        """Combine what comes before each chunk of a warp: of all warps in earlier chunks, of earlier warps in it."""
        count = self.m.chunks
        whole = torch.stack([p.expand(*p.shape[:-1], count) if p.dim() else p.expand(count) for p in parts], -1)
        flat = whole.flatten(-2)  # chunk by chunk, in the order of the warps
        first = torch.full_like(flat[..., :1], NEUTRAL[scan.function])
        before = self.memory.running(scan.function, torch.cat([first, flat], -1))[..., :-1]
        found: Tensor = before.unflatten(-1, (count, len(parts)))[..., agent % len(parts)]
        return found


def _taken(reduce: Reduce, parts: Sequence[Tensor]) -> Tensor:
    whole = torch.stack(torch.broadcast_tensors(*parts))
    match reduce.function:
        case "sum":
            return whole.sum(0)
        case "max":
            return whole.amax(0)
    return whole.amin(0)


def run_rows(
    m: RowMap, lanes: SmLanes, launch: Launch[EquationProgram], inputs: Mapping[str, Tensor],
    scalars: Mapping[str, float], order: Order, progress: Callable[[int, int], None] | None = None,
) -> Modelled:  # fmt: skip
    """A launch of a kernel of rows in one order, block after block."""
    starts = launch.program.starts
    new = {t.name: unwritten(launch.shape(t), t.dtype) for t in launch.program.outputs}
    new |= {name: new[name].fill_(start) for name, start in starts.items()}
    outputs = {name: inputs[name].clone() if name in inputs else tensor for name, tensor in new.items()}
    extents = {m.fast.dim.name: m.fast.dim.size or 0, **launch.extents}  # a flattened one is no dimension of a tensor
    memory = RowMemory(m.kernel, inputs, scalars, extents, outputs)
    launch = launch.of_groups({t.name: inputs[t.name].tolist() for t in m.kernel.offsets})
    index, found = m.kernel.groups, list[Outcome]()
    for number in range(launch.tile_count):
        tile = launch.place(number)
        groups = {} if index is None else {a.name: parts[tile[index]] for a, parts in launch.groups.items()}
        passes = _loop_tiles(m, extents, tile, groups)
        made = program(m, lanes, len(passes), m.waves, m.waves_of_row, m.passes)
        found.append(execute(made, RowWork(m, memory, tile, passes, groups), order))
        if progress is not None:
            progress(number + 1, launch.tile_count)
    return modelled(outputs, found)


def _loop_tiles(
    m: RowMap, extents: Mapping[str, int], tile: Mapping[Axis, int], groups: Mapping[str, range]
) -> list[int]:
    """The starts of the tiles that the loops of a block go through."""
    tiles = {a.name: range(at * (a.tile or 1), (at + 1) * (a.tile or 1)) for a, at in tile.items()}
    if m.fast.kind is not AxisKind.SEQUENTIAL:
        found = [loop.axis for loop in loops(m.kernel)]  # over positions, all of the same ones
        return [n for n in range(extents[found[0].dim.name]) if found[0].visits(n, tiles)] if found else [0]
    size = len(groups[m.fast.name]) if m.fast.within else extents[m.fast.dim.name]
    starts = range(0, size, m.length)
    if m.fast.part is not None:
        ((index, place),) = [(a, at) for a, at in tile.items() if a.name == m.fast.part]
        run = m.fast.part_length(size, extents[index.dim.name])
        return [start for start in starts if start // run == place]
    return [start for start in starts if m.fast.visits(start, tiles)]
