"""Kernels of products executed as their schedule says, on tiles of torch, in place of a GPU.

`run_products` gives each block of a launch the steps of `schedule.schedule`, the data that is proven and printed as
C++, and executes them in one order (`tkgen.proof.execution`). Here stands only
what each operation makes of what it finds: a copy brings the tile of its instance from global memory, zeros beyond the
end; a product adds rows of a warp; a panel is what the epilogue makes of the sums; a store takes it out. Numbers are
f32, rounded where the kernel rounds; sums are in an order of torch's. Blocks do not meet, so they run one by one; those
of a cluster do, and run together.

It is the schedule that runs, not the machine code: the C++ itself is run by `tkgen.backends.hopper.host`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from tkgen.backends.hopper.epilogue import stored_as_it_is
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.schedule import Part, Shape, block_shape, schedule
from tkgen.backends.protocol import Modelled
from tkgen.ir.computation import Computation
from tkgen.ir.equations import Access, Axis, Kernel, Op, Store, Update, Value
from tkgen.ir.launch import Launch
from tkgen.ir.products import Made, needed
from tkgen.ir.rounding import TORCH, rounded
from tkgen.ir.scattered import flat, placed
from tkgen.ir.sizing import Piece
from tkgen.ir.tiles import Tile, along_dims
from tkgen.ir.types import DType, Program
from tkgen.proof.execution import Order, Outcome, Parts, Work, execute
from tkgen.proof.program import Access as Accessed
from tkgen.proof.program import Do, Loop
from tkgen.schedule.loop_masks import NEUTRAL
from tkgen.tile.unroll import MEMORY

Edit = Callable[[Loop], Loop]


class Memory(Computation):
    """Global memory, and the equations of a kernel at the place of one tile: along `places` of axes."""

    def __init__(
        self, kernel: Kernel, inputs: Mapping[str, Tensor], scalars: Mapping[str, float], extents: Mapping[str, int],
        outputs: dict[str, Tensor], added: frozenset[str] = frozenset(),
    ):  # fmt: skip
        super().__init__(kernel, inputs, scalars, extents)
        self.outputs, self.shared = outputs, added

    def at_indices(self, indices: Mapping[str, int]) -> None:
        """From now on at these values of axes that are indices."""
        self.group = {name: range(at, at + 1) for name, at in indices.items()}

    def brought(
        self, access: Access, axes: tuple[Axis, Axis], first: tuple[int, int], shape: tuple[int, int]
    ) -> Tensor:
        """A tile of a tensor from these places on, directions in the order of `axes`; zeros beyond the end."""
        self.places = self.inside(axes, first, shape)
        tile = self.load(access)
        value = along_dims(tile.value, tile.dims, tuple(a.name for a in axes))
        whole = torch.zeros(shape)
        whole[: value.shape[0], : value.shape[1]] = value
        return whole

    def filled(
        self, access: Access, made: Made | None, axes: tuple[Axis, Axis], first: tuple[int, int],
        shape: tuple[int, int],
    ) -> Tensor:  # fmt: skip
        """The same of a tile that is computed, if it is, and whose rows lie where a tensor or a sum says."""
        if made is None:
            return self.brought(access, axes, first, shape)
        places = self.inside(axes, first, shape)
        self.compute((made.tile, *made.ops), {}, places)
        tile, whole = self.get(made.value), torch.zeros(shape)
        value = along_dims(tile.value, tile.dims, tuple(a.name for a in axes))
        whole[: value.shape[0], : value.shape[1]] = value
        return whole

    def inside(self, axes: Sequence[Axis], first: Sequence[int], shape: Sequence[int]) -> dict[str, range]:
        """The part of a tile that is not beyond the end of its axes, which it begins within or after.

        Along a ragged axis whose group is known it begins that number of positions after the start of the group.
        """
        wholes = [self.group.get(a.name, range(self.extents[a.dim.name])) for a in axes]
        return {
            a.name: whole[max(at, 0) : max(at, 0) + size]
            for a, at, size, whole in zip(axes, first, shape, wholes, strict=True)
        }

    def put_out(self, target: Access, places: Mapping[str, range], value: Tensor, dims: tuple[str, ...]) -> None:
        """Numbers, already rounded, to the places of a tensor; what is beyond the end is left out."""
        self.places = dict(places)
        found, named = self.view(self.outputs[target.tensor.name], target)
        inside = tuple(slice(0, len(places[d])) for d in dims)
        new = along_dims(value[inside], dims, named)
        found.copy_(found + new if target.tensor.name in self.shared else new)

    def scattered(self, op: Store, tile: Tile) -> None:
        """Store to computed positions, or combine with what is there, one element after the other."""
        output, dtype = self.outputs[op.target.tensor.name], op.target.tensor.dtype
        elements = placed(self, op.target, self.positions, [])
        value = rounded(elements.of(tile).value, dtype)
        match op.update:
            case Update.SET:
                output[elements.at] = value
            case Update.ADD:
                output.index_put_(elements.at, value, accumulate=True)
            case _:
                number = flat(elements.at, output.shape)
                reduced = "amax" if op.update is Update.MAX else "amin"
                kept = ~value.isnan() if dtype is DType.F32 else torch.ones_like(value, dtype=torch.bool)
                output.view(-1).scatter_reduce_(0, number[kept], value[kept], reduced)

    def compute(self, ops: Sequence[Op], known: Mapping[Value, Tile], places: Mapping[str, range]) -> None:
        """Compute operations from known values, at these positions; `get` returns the results afterwards."""
        self.values = {value.number: tile for value, tile in known.items()}
        self.places = dict(places)
        self.body(ops)


class ProductWork:
    """Data of the operations of `schedule` in one block, for the output tiles of `pieces`."""

    def __init__(self, layout: Layout, shape: Shape, memory: Memory, pieces: Sequence[Piece], launch: Launch[Program]):
        self.layout, self.shape, self.memory, self.pieces, self.launch = layout, shape, memory, pieces, launch
        self.sums = layout.equations
        panels = [(store, n) for store in layout.tiles_stored for n in range(layout.panels_of(store))]
        self.values = [(f, *panel) for f in range(shape.fragments) for panel in panels]
        self.panels = [each for each in self.values if not each[1].target.computed]
        self.groups = launch.groups[layout.program.ragged] if layout.program.ragged else []
        self.rows = layout.machine.wgmma_rows
        self.own = self.rows // shape.warps  # rows of a warp
        products = layout.program.products
        self.numbers = Counter[object]()  # that each agent has stored, by what it stores
        self.factors = [list(dict.fromkeys(p.factors[side].name for p in products)) for side in (0, 1)]

    def do(self, agent: int, step: Do, found: Sequence[Parts]) -> Sequence[Parts]:
        """The results of an operation."""
        match step.stream:
            case "copies":
                return [self._brought(step)]
            case "products":
                return [(self._product(step, found),)]
            case "stores":
                self._stored(step, torch.cat(found[0]))
                return []
        if not step.writes:
            if _is_number(step):
                self._numbers_stored(agent, step, found)
            elif step.reads[0].ring.startswith("values"):
                self._scattered(step, found[0][0])
            else:
                self._directly(step, found[0][0])
            return []
        match step.writes[0].ring.split()[0]:
            case "sums" if not found:
                return [(torch.zeros(self.own, self.layout.program.block[1]),)]
            case "sums":
                return [(self._added(step, found),)]
            case "reduced" | "columns":
                return [(self._reduced(agent, step, found),)]
            case "combined":
                return [(self._combined(step, found[0]),)]
            case "loaded":
                return [(self._loaded(step),)]
            case "values":
                return [(self._values(step, found),)]
        return [found[0]]  # a panel

    def lost(self, agent: int, step: Do) -> None:
        """A store of what nobody knows leaves NaNs."""
        if step.stream == "stores":
            self._stored(step, None)
        elif not step.writes and not _is_number(step):
            self._scattered(step, None) if step.reads[0].ring.startswith("values") else self._directly(step, None)

    def _panel_of(self, access: Accessed) -> tuple[int, Store, tuple[int, int], int]:
        """The number of the output tile, the output, where in the tile a buffer's panel begins, and its columns."""
        panels = self.panels if access.ring.startswith("panel") else self.values
        tile, number = divmod(access.instance, len(panels))
        fragment, store, panel = panels[number]
        cols = self.layout.panel_cols(store.target.tensor)
        part = int(access.ring.split()[1]) * self.shape.fragments + fragment
        return tile, store, (part * self.rows, panel * cols), cols

    def _piece(self, number: int) -> Piece | None:
        """The output tile of that number; after the last one there is none."""
        if not 0 <= number < len(self.pieces):
            return None
        piece = self.pieces[number]
        self.memory.at_indices(self.launch.indices(piece.matrix))
        return piece

    def _step(self, instance: int) -> tuple[int, int]:
        """The number of the pass over K, -1 where there is none, and which of its steps step number `instance` is."""
        if not self.shape.run:
            return divmod(instance, self.shape.steps)
        spans = enumerate(self.shape.spans(0))
        return next(((n, instance - span.start) for n, span in spans if instance in span), (-1, 0))

    def _loaded(self, step: Do) -> Tensor:
        """The share of a warp of a tile that warps of the producer load."""
        (access,) = step.writes
        number, *_, warp = map(int, access.ring.split()[1:])
        each, part = divmod(number, self.shape.parts)
        ring = (*self.shape.lefts, *self.shape.rights)[each]
        whole = self._tile(ring, access.instance, part)
        return whole.chunk(self.shape.warps)[warp]

    def _brought(self, step: Do) -> Parts:
        (access,) = step.writes
        parts = range(*access.box[0]) if access.ring[0] == "A" else (0,)
        return tuple(self._tile(access.ring, access.instance, part) for part in parts)

    def _tile(self, ring: str, instance: int, part: int) -> Tensor:
        """The tile of an operand in a step; of A that part of the consumers'."""
        side, (_, bn, bk) = int(ring[0] == "B"), self.layout.program.block
        name = self.factors[side][int(ring[1:])]
        turn, k = self._step(instance)
        tile, consumer = divmod(turn, self.shape.turns)
        shape = (bn if side else self.rows, bk)
        piece = self._piece(tile)
        if piece is None:
            return torch.zeros(shape)
        part = 0 if side else consumer * self.shape.parts + part
        first = piece.col * bn if side else self._row(piece, part * self.rows)
        axes = (self.sums.cols if side else self.sums.rows, self.sums.contraction)
        at = (first, (piece.first + k) * bk)
        if name not in self.layout.filled:
            access = self.layout.moved[name]
            brought = self.memory.brought(access, axes, at, shape)
            if name in self.layout.ended:  # nobody has written the other rows
                brought[len(self.memory.places[axes[0].name]) :] = torch.nan
            return brought
        return self.memory.filled(self.layout.filled[name], self.sums.made.get(name), axes, at, shape)

    def _product(self, step: Do, found: Sequence[Parts]) -> Tensor:
        """Rows of warp w of the sums: those before, where they are read, and a step's."""
        (left, right), before = [torch.cat(parts) for parts in found[:2]], found[2:]
        w = int(step.writes[0].ring.split()[-1])
        if self.layout.program.a.dtype.whole:  # f64 holds all of their sums
            left, right = left.double(), right.double()
        made: Tensor = left[w * self.own : (w + 1) * self.own] @ right.T
        return made + before[0][0] if before else made

    def _added(self, step: Do, found: Sequence[Parts]) -> Tensor:
        """Rows of warp w of the sums after a step whose products are scaled: of these and of the sums before."""
        (access,) = step.writes
        number, consumer, w = map(int, access.ring.split()[1:])
        tile, k = divmod(access.instance, self.shape.steps + 1)  # behind the zeros with which a tile begins
        k -= 1
        total, (bm, bn, bk), piece = self.sums.sums[number], self.layout.program.block, self._piece(tile)
        values = [parts[0] for parts in found]
        before: Tensor = values[1]
        if piece is None:
            return before
        row = piece.row * bm + consumer * self.rows + w * self.own
        axes = (self.sums.rows, self.sums.cols)
        places = self.memory.inside(axes, (row, piece.col * bn), (self.own, bn))
        dims, inside = tuple(places), tuple(slice(0, len(r)) for r in places.values())
        known = {v: Tile(dims, t[inside]) for v, t in ((total.product, values[0]), (total.inside, before))}
        first = (piece.first + k) * bk
        self.memory.compute(total.scaled, known, places | {self.sums.contraction.name: range(first, first + bk)})
        made, whole = self.memory.get(total.update), torch.zeros(self.own, bn)
        whole[inside] = along_dims(made.value, made.dims, dims).expand(whole[inside].shape)
        return whole

    def _warp(self, agent: int) -> tuple[int, int]:
        """The consumer of an agent, and its warp there: the first agents of a block are its producer."""
        producers = self.shape.warps if self.shape.filled else 1
        return divmod(agent % (self.shape.consumers * self.shape.warps + producers) - producers, self.shape.warps)

    def _reduced(self, agent: int, step: Do, found: Sequence[Parts]) -> Mapping[Value, Tensor]:
        """The reductions of a round, by value, for a warp's rows or columns, with those of earlier rounds."""
        (access,) = step.writes
        number, (consumer, w) = int(access.ring.split()[1]), self._warp(agent)
        tile, fragment = divmod(access.instance, self.shape.fragments)
        piece, count = self._piece(tile), len(self.sums.sums)
        values, known = [parts[0] for parts in found[:count]], dict[Value, Tensor]()
        for earlier in found[count:]:
            known |= earlier[0]
        for op in self.layout.rounds[number]:
            columns = self.layout.of_columns(op)
            size = self.layout.program.block[1] if columns else self.own
            known[op.result] = torch.full((size,), NEUTRAL[op.function] if columns else 0.0)
            if piece is not None:
                part = consumer * self.shape.fragments + fragment
                places = self._known(piece, (part * self.rows + w * self.own, 0), values, known, op.argument)
                made, kept = self.memory.get(op.argument), self.sums.cols if columns else self.sums.rows
                whole = along_dims(made.value, made.dims, tuple(places)).expand([len(r) for r in places.values()])
                if whole.shape[int(not columns)] == 0:  # of rows beyond the end
                    continue
                gathered, _ = self.memory.gather(op.function, Tile(tuple(places), whole), int(not columns))
                known[op.result][: len(places[kept.name])] = gathered
        return known

    def _combined(self, step: Do, parts: Parts) -> Mapping[Value, Tensor]:
        """The reductions of each column over all warps."""
        (op,) = self.layout.rounds[int(step.writes[0].ring.split()[1])]
        tile = Tile(("warps", self.sums.cols.name), torch.stack([part[op.result] for part in parts]))
        return {op.result: self.memory.gather(op.function, tile, 0)[0]}

    def _known(
        self, piece: Piece, first: tuple[int, int], values: Sequence[Tensor], reduced: Mapping[Value, Tensor],
        *made: Value,
    ) -> dict[str, range]:  # fmt: skip
        """Computes what values are made of, of sums that begin there in their tile; where these are."""
        axes = (self.sums.rows, self.sums.cols)
        places = self.memory.inside(axes, self._place(piece, first), (self.own, values[0].shape[1]))
        dims, inside = tuple(places), tuple(slice(0, len(r)) for r in places.values())
        known = {s.result: Tile(dims, v[inside].float()) for s, v in zip(self.sums.sums, values, strict=True)}
        columns = {op.result for ops in self.layout.rounds for op in ops if self.layout.of_columns(op)}
        for value, numbers in reduced.items():
            along = int(value in columns)
            if not value.axes:  # all rows, or columns, have the same
                known[value] = Tile((), numbers[0])
                continue
            known[value] = Tile((dims[along],), numbers[first[1] :][inside[1]] if along else numbers[inside[0]])
        self.memory.compute(needed(self.sums.epilogue, *made), known, places)
        return places

    def _values(self, step: Do, found: Sequence[Parts]) -> Tensor:
        """Rows of warp w of a panel: what the epilogue makes of the sums, rounded."""
        (access,) = step.writes
        tile, store, (row, col), cols = self._panel_of(access)
        count = len(self.sums.sums)
        values, reduced = [parts[0][:, col : col + cols] for parts in found[:count]], dict[Value, Tensor]()
        for of_round in found[count:]:
            reduced |= of_round[0]
        first = (row + int(access.ring.split()[-1]) * self.own, col)
        return self._made(self._piece(tile), store, first, values, reduced)

    def _made(
        self, piece: Piece | None, store: Store, first: tuple[int, int], values: Sequence[Tensor],
        reduced: Mapping[Value, Tensor],
    ) -> Tensor:  # fmt: skip
        """The epilogue's values for an output of a warp's sums, which begin at `first` in their tile."""
        dtype, shape = store.target.tensor.dtype, (self.own, values[0].shape[1])
        if (number := stored_as_it_is(self.sums, store)) is not None:
            return rounded(values[number], dtype)
        whole = torch.zeros(shape)
        if piece is None:
            return rounded(whole, dtype)
        places = self._known(piece, first, values, reduced, store.value)
        dims, inside = tuple(places), tuple(slice(0, len(r)) for r in places.values())
        if store.value.number in self.memory.values:
            made = self.memory.get(store.value)
            whole[inside] = along_dims(made.value, made.dims, dims).expand(whole[inside].shape)
        return rounded(whole, dtype)

    def _place(self, piece: Piece, first: tuple[int, int]) -> tuple[int, int]:
        """The first row and column in the output of a panel that begins there in its tile."""
        return self._row(piece, first[0]), piece.col * self.layout.program.block[1] + first[1]

    def _row(self, piece: Piece, row: int) -> int:
        """A row of a tile in its tensor: of ragged rows those of a group follow its first."""
        before = self.groups[piece.matrix].start if self.groups else 0
        return before + piece.row * self.layout.program.block[0] + row

    def _directly(self, step: Do, rows: Tensor | None) -> None:
        """The rows of a warp's part of a panel that are of the group to memory, without the copy engine."""
        (access,) = step.reads
        tile, store, (row, col), cols = self._panel_of(access)
        if (piece := self._piece(tile)) is None:
            return
        rows, own = torch.full((self.own, cols), torch.nan) if rows is None else rows, self.sums.rows.name
        first = self._place(piece, (row + access.box[0][0] * self.own, col))
        places = self.memory.inside((self.sums.rows, self.sums.cols), first, (self.own, cols))
        end = min([places[own].stop, *(self.groups[piece.matrix].stop for _ in self.groups[:1])])
        places[own] = range(places[own].start, max(places[own].start, end))
        self.memory.put_out(store.target, places, rows, tuple(places))

    def _scattered(self, step: Do, rows: Tensor | None) -> None:
        """The elements of a warp's part of a panel to their computed positions."""
        (access,) = step.reads
        tile, store, (row, col), cols = self._panel_of(access)
        if (piece := self._piece(tile)) is None:
            return
        rows = torch.full((self.own, cols), torch.nan) if rows is None else rows
        first = self._place(piece, (row + int(access.ring.split()[-1]) * self.own, col))
        places = self.memory.inside((self.sums.rows, self.sums.cols), first, (self.own, cols))
        if self.groups:
            name, group = self.sums.rows.name, self.groups[piece.matrix]
            places[name] = places[name][: max(group.stop - places[name].start, 0)]
            self.memory.group[name] = group  # affine positions are counted in it
        inside = tuple(slice(0, len(r)) for r in places.values())
        self.memory.places = places
        self.memory.scattered(store, Tile(tuple(places), rows[inside]))

    def _numbers_stored(self, agent: int, step: Do, found: Sequence[Parts]) -> None:
        """The numbers of a warp's rows, or of a block's columns, to memory."""
        consumer, w = self._warp(agent)
        tile, fragment = divmod(self.numbers[agent, step.does], self.shape.fragments)
        self.numbers[agent, step.does] += 1
        if (piece := self._piece(tile)) is None:
            return
        reduced = dict[Value, Tensor]()
        for of_round in found:
            reduced |= of_round[0]
        kind, number = str(step.does[1]).split()
        block, ends = self.layout.program.block, (self.sums.rows, self.sums.cols)
        beyond = any(n * size >= self.memory.extents[a.dim.name]
                     for n, size, a in zip((piece.row, piece.col), block, ends, strict=False))  # fmt: skip
        if beyond or (kind == "columns" and consumer + w > 0):  # of columns all warps have the same
            return
        store = (self.layout.rows_stored if kind == "rows" else self.layout.columns_stored)[int(number)]
        first = ((consumer * self.shape.fragments + fragment) * self.rows + w * self.own, 0)
        blank = [torch.zeros(self.own, self.layout.program.block[1]) for _ in self.sums.sums]
        places = self._known(piece, first, blank, reduced, store.value)
        made, axes = self.memory.get(store.value), store.target.axes
        value = along_dims(made.value, made.dims, tuple(a.name for a in axes))
        value = value.expand([len(places[a.name]) for a in axes])
        if self.groups and kind == "rows":  # behind those of the group are rows of the next one
            own = places[axes[0].name]
            places[axes[0].name] = own[: max(self.groups[piece.matrix].stop - own.start, 0)]
            value = value[: len(places[axes[0].name])]
        if store.target.computed:
            firsts = [(axis, n * size) for axis, n, size in zip(ends, (piece.row, piece.col), block, strict=False)]
            self.memory.places = {a.name: range(n, n + 1) for a, n in firsts} | {a.name: places[a.name] for a in axes}
            self.memory.scattered(store, Tile(tuple(a.name for a in axes), value))
            return
        tiles: dict[Axis, int | slice] = {self.sums.rows: piece.row, self.sums.cols: piece.col}
        tiles |= {a: slice(places[a.name].start, places[a.name].stop) for a in axes}
        place = tuple(
            index.at if index.axis is None else tiles[index.axis] if index.axis in tiles else
            self.memory.group[index.axis.name].start // index.divisor
            for index in store.target.indices
        )  # fmt: skip
        self.memory.outputs[store.target.tensor.name][place] = rounded(value, store.target.tensor.dtype)

    def ends(self) -> dict[Part, int]:
        """The number of 64-row parts before the group's end, by tile and consumer; empty without groups."""
        bm, own = self.layout.program.block[0], self.shape.fragments * self.rows
        return {(n, c): min(max(len(self.groups[p.matrix]) - p.row * bm - c * own, 0), own) // self.rows
                for n, p in enumerate(self.pieces) for c in range(self.shape.consumers) if self.groups}  # fmt: skip

    def _stored(self, step: Do, panel: Tensor | None) -> None:
        (access,) = step.reads
        tile, store, first, cols = self._panel_of(access)
        if (piece := self._piece(tile)) is None:
            return
        axes = (self.sums.rows, self.sums.cols)
        places = self.memory.inside(axes, self._place(piece, first), (self.rows, cols))
        panel = torch.full((self.rows, cols), torch.nan) if panel is None else panel
        self.memory.put_out(store.target, places, panel, tuple(places))


def _is_number(step: Do) -> bool:
    """True if a step stores a number of rows, of columns, or of a block."""
    return str(step.does[1]).startswith(("rows ", "columns "))


class ClusterWork:
    """Data of the operations of `schedule` in the blocks of a cluster: of each block, and parts of shared tiles."""

    def __init__(self, shape: Shape, blocks: Sequence[ProductWork], agents: int):
        self.common, self.blocks, self.agents = shape.common, blocks, agents  # so many of each block

    def do(self, agent: int, step: Do, found: Sequence[Parts]) -> Sequence[Parts]:
        """The results of an operation."""
        if step.writes and step.writes[0].ring.startswith(MEMORY):
            return [("set up",)]
        joined = [(torch.cat(parts, self._along(a)),) if self._common(a) else parts
                  for parts, a in zip(found, step.reads, strict=True)]  # fmt: skip
        made = self.blocks[agent // self.agents].do(agent, self._alone(step), joined)
        if step.stream != "copies" or not self._common(step.writes[0]):
            return made
        (access,), ((tile,),) = step.writes, made
        return [(tile.chunk(len(self.blocks), self._along(access))[access.box[-1][0]],)]

    def lost(self, agent: int, step: Do) -> None:
        """The same of a step that reads what nobody can know."""
        self.blocks[agent // self.agents].lost(agent, self._alone(step))

    def _alone(self, step: Do) -> Do:
        """An operation as a block by itself has it: names without the block's, tiles in common as wholes."""

        def plain(access: Accessed) -> Accessed:
            box = access.box[:-1] if self._common(access) else access.box
            return replace(access, ring=access.ring.rsplit(" of ", 1)[0], box=box)

        reads, writes = (tuple(map(plain, group)) for group in (step.reads, step.writes))
        return replace(step, reads=reads, writes=writes)

    def _common(self, access: Accessed) -> bool:
        return access.ring[0] == self.common

    def _along(self, access: Accessed) -> int:
        """The axis of a tile that its parts divide: 0 for rows or columns of the output, 1 for the contraction."""
        work = self.blocks[0]
        name = work.factors[access.ring[0] == "B"][int(access.ring.split()[0][1:])]
        operand = work.layout.program.operand(name)
        along = work.layout.parted(operand)
        assert along is not None
        return along ^ operand.contraction_first


def work_of(shape: Shape, blocks: Sequence[ProductWork], loop: Loop) -> Work:
    """The data of the operations of `loop`, which is of one block, or of these blocks of a cluster."""
    return blocks[0] if shape.blocks == 1 else ClusterWork(shape, blocks, len(loop.agents) // shape.blocks)


def run_products(
    layout: Layout, launch: Launch[Program], inputs: Mapping[str, Tensor], scalars: Mapping[str, float], order: Order,
    progress: Callable[[int, int], None] | None = None, warps: int = 0, edit: Edit | None = None,
) -> Modelled:  # fmt: skip
    """A launch of a kernel of products in one order, block after block.

    `warps` is the number of warps that divide the rows of a consumer, `edit` makes another schedule of each block's:
    for mutants.
    """
    program = layout.program
    if layout.ragged and program.offsets is not None:
        launch = replace(launch, offsets={program.offsets.name: inputs[program.offsets.name].tolist()})
    outputs = started(program, launch) | {t.name: inputs[t.name].clone() for t in program.outputs if t.name in inputs}
    memory = Memory(program.kernel, inputs, scalars, launch.extents, outputs, program.added)
    found = list[Outcome]()
    busy = [first for first in range(0, len(launch.work), layout.clusters) if launch.work[first]]
    for number, first in enumerate(busy):
        blocks, loop = cluster_schedule(layout, launch, memory, first, warps)
        work = work_of(blocks[0].shape, blocks, loop)
        found.append(execute((edit(loop) if edit else loop).unrolled(1), work, order))
        if progress is not None:
            progress(number + 1, len(busy))
    return modelled(outputs, found)


def cluster_schedule(
    layout: Layout, launch: Launch[Program], memory: Memory, first: int, warps: int = 0
) -> tuple[list[ProductWork], Loop]:
    """The operations of the blocks of a cluster with data, `first` being the number of its first one, and their
    schedule.

    A block by itself is one, too; it has at least one piece. `warps` as in `run_products`.
    """
    pieces = launch.work[first : first + layout.clusters]
    shape = block_shape(layout, pieces[0][0].steps)
    run = tuple(p.steps for p in pieces[0]) if layout.program.grid.name == "stream_k" else ()
    shape = replace(shape, warps=warps or shape.warps, run=run)
    blocks = [ProductWork(layout, shape, memory, own, launch) for own in pieces]
    return blocks, schedule(shape, len(pieces[0]), blocks[0].ends())


def started(program: Program, launch: Launch[Program]) -> dict[str, Tensor]:
    """The outputs as they are before a launch: NaNs, or what stores combine values with."""
    starts = {t: program.starts.get(t.name, torch.nan) for t in program.outputs}
    return {t.name: torch.full(launch.shape(t), at, dtype=TORCH[t.dtype]) for t, at in starts.items()}


def modelled(outputs: Mapping[str, Tensor], found: Sequence[Outcome]) -> Modelled:
    """The results of all blocks: each finding once, in the order of the blocks."""
    findings = dict.fromkeys(text for outcome in found for text in outcome.findings)
    return Modelled(outputs, tuple(findings), sum(outcome.steps for outcome in found))
