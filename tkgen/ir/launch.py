"""A launch: a kernel at sizes, its output tiles, its blocks and what each of them does.

Blocks have tiles along the parallel axes of the equations. Where such an axis is ragged, each group has tiles of its
own, as many as it needs, in the order of the groups. How many that are only the device knows, so a `linear` grid has as
many blocks as there can be tiles; those beyond do nothing. What asks for one grid of tiles is told that of a group of
average length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Generic, TypeVar

from tkgen.ir.affine import reached
from tkgen.ir.equations import Axis, AxisKind, Kernel, accesses
from tkgen.ir.flops import multiplied
from tkgen.ir.segments import alike, parts
from tkgen.ir.sizing import Box, Piece, Sizing
from tkgen.ir.types import WAVE_LANES, KernelProgram, Program, Tensor
from tkgen.remap import Remap, RemapCall, compose

PAGE_BYTES, WATCHED_PAGES = 1024, 40_000  # of memory that the referee can watch, and how many: `core/referee.h`
WATCHED_STEPS = 1000  # K-steps of one block beyond which it touches more memory than the referee can watch
SAMPLE_STEPS = 1000  # K-steps of a sample: a second or so for a hundred

K = TypeVar("K", bound=KernelProgram, covariant=True)


@dataclass(frozen=True)
class Launch(Sizing, Generic[K]):
    """One kernel at sizes: what launching it takes.

    `offsets` is what the tensors of ragged axes hold, by their names; without any, groups are alike. `meets` says
    whether its waves meet in every loop.
    """

    program: K = field(repr=False)
    offsets: Mapping[str, Sequence[int]] = field(default_factory=dict)
    meets: bool = True

    def __post_init__(self) -> None:
        """Add the sizes of flattened axes: no dimension of the spec is as long."""
        known = {axis.dim.name: axis.dim.size for axis in self.program.kernel.axes if axis.dim.size is not None}
        missing = {name: size for name, size in known.items() if name not in self.extents}
        if missing:
            object.__setattr__(self, "extents", {**self.extents, **missing})

    @classmethod
    def known(cls, program: Program) -> Launch[Program] | None:
        """The launch that the spec's own sizes give; None where rows, columns or indices of the output are dynamic."""
        if any(a.dim.size is None for a in program.parallel):
            return None
        return Launch(program, {d.name: d.size for d in program.dims if d.size is not None})

    @property
    def stated(self) -> tuple[tuple[str, int], ...]:
        """The sizes of the dimensions that the spec declares: those of flattened axes follow from them."""
        names = {dim.name for dim in self.program.dims}
        return tuple((name, size) for name, size in self.extents.items() if name in names)

    @property
    def launches(self) -> tuple[Launch[K], ...]:
        """This one."""
        return (self,)

    def with_launches(self, launches: Sequence[Launch[Any]]) -> Launch[Any]:
        """The only one of them."""
        (found,) = launches
        return found

    # ------------------------------------------------------------ groups

    @property
    def group_count(self) -> int:
        """The number of groups of ragged axes."""
        index = self.program.kernel.groups
        return 1 if index is None else self.extents[index.dim.name]

    def of_groups(self, offsets: Mapping[str, Sequence[int]]) -> Launch[K]:
        """The same with groups of these offsets or lengths, by the names of tensors."""
        return replace(self, offsets=offsets)

    def offset_values(self, axis: Axis) -> Sequence[int]:
        """Return the values in the tensor of offsets, or of lengths, of a ragged axis."""
        assert axis.within is not None
        given = self.offsets.get(axis.within.offsets.name)
        return given or alike(axis.within, self.group_count, self.extents[axis.dim.name])

    @cached_property
    def groups(self) -> dict[Axis, list[range]]:
        """The places of each group, of each ragged axis."""
        ragged = [(a, a.within) for a in self.program.kernel.ragged if a.within is not None]
        return {a: parts(within, self.offset_values(a), self.extents[a.dim.name]) for a, within in ragged}

    def held(self) -> dict[Tensor, list[int]]:
        """The default values of tensors of indices and offsets, where the caller gives none:
        rows far from one another.
        """
        found = {}
        for tensor, dim in self.program.kernel.held.items():
            ragged = self.program.kernel.offsets.get(tensor)
            size, count = self.extents[dim.name], prod(self.shape(tensor))
            found[tensor] = [*self.offset_values(ragged)] if ragged else [7919 * at % size for at in range(count)]
        return found

    # ------------------------------------------------------------ tiles

    @property
    def walked(self) -> Axis | None:
        """The ragged axis along which blocks have tiles."""
        return next((a for a in self.program.parallel if a.within is not None), None)

    @property
    def numbered(self) -> tuple[Axis, ...]:
        """The axes along which the number of a block counts: which group has its tile follows from that."""
        return tuple(a for a in self.program.parallel if self.walked is None or a != self.program.kernel.groups)

    @cached_property
    def _sides(self) -> tuple[tuple[Axis, ...], Axis | None]:
        """The axes along the rows of the grid of tiles that a remap orders, and the one along its columns."""
        axes = tuple(a for a in self.numbered if a not in self.program.batch)
        return axes[:-1], axes[-1] if axes else None

    def tiles(self, axis: Axis) -> int:
        """Tiles along a parallel axis, one that hangs over the end counted; of a ragged one as many as there can be:
        each group one more than its places fill, whatever the offsets are."""
        size, tile = self.extents[axis.dim.name], self.program.tile(axis)
        return -(-size // tile) if axis.within is None else (size + self.group_count * (tile - 1)) // tile

    @cached_property
    def by_group(self) -> bool:
        """Return True if a remap orders the tiles of each group by themselves."""
        return self.walked is not None and self.program.kernel.groups in self.program.batch

    @cached_property
    def tile_grid(self) -> tuple[int, int]:
        """Rows and columns of output tiles, those that hang over the end counted."""
        outer, cols = self._sides
        across = 1 if cols is None else self.tiles(cols)
        if self.by_group and self.walked is not None:
            of_group = -(-self.extents[self.walked.dim.name] // self.matrices)
            return -(-of_group // self.program.tile(self.walked)), across
        return prod(map(self.tiles, outer)), across

    @property
    def most_tiles(self) -> int:
        """Output tiles of a matrix; of ragged ones as many as there can be of all groups together."""
        outer, cols = self._sides
        return prod(map(self.tiles, (*outer, *([cols] if cols else []))))

    @property
    def matrix_tiles(self) -> int:
        """Output tiles of a matrix."""
        return prod(self.tile_grid)

    @property
    def all_tiles(self) -> int:
        """Output tiles of all matrices of the batch, in whose order they are numbered."""
        return self.matrix_tiles * self.matrices

    @property
    def clustered(self) -> tuple[int, int]:
        """Rows and columns of clusters that cover a matrix: of tiles, where a block has its own."""
        (rows, cols), clusters = self.tile_grid, self.program.clusters
        if clusters is None:
            return rows, cols
        return (-(-rows // clusters.count), cols) if clusters.rows else (rows, -(-cols // clusters.count))

    @cached_property
    def ordered_tiles(self) -> int:
        """Tiles of a matrix, those beyond its end counted that clusters have there."""
        return prod(self.clustered) * (self.program.clusters.count if self.program.clusters else 1)

    @cached_property
    def remap(self) -> Remap:
        """The order of the output tiles."""
        return compose([RemapCall(s.name, dict(s.keywords), s.positional) for s in self.program.remap])

    @cached_property
    def order(self) -> list[tuple[int, int]]:
        """The output tiles of a matrix in their order.

        Those of a cluster come together, in the order of its blocks. The last of them may lie beyond the end: what is
        read there is zeros, what is stored is dropped, and all blocks of a cluster have as many tiles.
        """
        clusters = self.program.clusters
        if clusters is None:
            return self.remap.order(*self.tile_grid)
        count, rows = clusters.count, clusters.rows
        return [
            (row * count + n, col) if rows else (row, col * count + n)
            for row, col in self.remap.order(*self.clustered) for n in range(count)
        ]  # fmt: skip

    # ------------------------------------------------------------ matrices

    @property
    def batch(self) -> tuple[int, ...]:
        """The size of each index of the batch, the last one fastest."""
        return tuple(self.extents[a.dim.name] for a in self.program.batch)

    @cached_property
    def matrices(self) -> int:
        """Outputs of the batch; 1 where there is none."""
        return prod(self.batch)

    @property
    def factors(self) -> int:
        """Contractions of the batch: outputs that take a part of one each count together."""
        return len({self.apart(matrix) for matrix in range(self.matrices)})

    def apart(self, matrix: int) -> tuple[int, ...]:
        """The indices of matrix number `matrix` beside that of its part of the contraction."""
        return tuple(at for name, at in self.indices(matrix).items() if self._part is None or name != self._part.name)

    def indices(self, matrix: int) -> dict[str, int]:
        """The indices of the batch, by the names of their axes, that matrix number `matrix` has."""
        found = {}
        for axis, count in zip(reversed(self.program.batch), reversed(self.batch), strict=True):
            matrix, found[axis.name] = divmod(matrix, count)
        return found

    # ------------------------------------------------------------ K-steps

    @property
    def summed(self) -> tuple[frozenset[str], int]:
        """The tensors whose products are summed along one axis before anything is rounded, and the places of it.

        None, and 0, where there is no one such axis.
        """
        axis = self.program.contraction
        return self.program.factors, 0 if axis is None else self.extents[axis.dim.name]

    @property
    def steps(self) -> int:
        """K-steps of an output tile; of a group of average length, where the contraction is ragged."""
        axis = self.program.contraction
        if axis is None:
            return 0
        length = -(-self.extents[axis.dim.name] // (self.matrices if axis.within else 1))
        return -(-length // self.program.tile(axis))

    def steps_of(self, matrix: int) -> int:
        """K-steps of the tiles of a matrix of the batch, of which a block has all unless blocks share tiles."""
        axis = self.program.contraction
        if axis is None or axis.within is None:
            return self.block_steps
        return -(-len(self.groups[axis][matrix]) // self.program.tile(axis))

    @property
    def parts(self) -> int:
        """Blocks that have an equal part of the K-steps of each tile."""
        return self.program.grid.count if self.program.grid.name == "split_k" else 1

    @property
    def _part(self) -> Axis | None:
        """The index of the batch among whose places the contraction is divided."""
        axis = self.program.contraction
        return None if axis is None else next((a for a in self.program.batch if a.name == axis.part), None)

    @cached_property
    def block_steps(self) -> int:
        """K-steps that a block sums at a stretch, unless the grid is `stream_k`."""
        return -(-self.steps // (self.parts if self._part is None else self.extents[self._part.dim.name]))

    def first_step(self, matrix: int) -> int:
        """The K-step that the sums of matrix number `matrix` begin with."""
        return 0 if self._part is None else self.indices(matrix)[self._part.name] * self.block_steps

    @property
    def run_length(self) -> int:
        """K-steps, of all tiles laid end to end, that a block of a `stream_k` grid gets."""
        return -(-self.all_tiles * self.steps // self.program.grid.count)

    @property
    def partial_sums(self) -> int:
        """Partial sums that blocks add up in an output, at most; 0 where its products are summed at a stretch."""
        if self.program.contraction is None or not self.program.grid.shares_tiles:
            return 0
        split = self.program.grid.name == "split_k"
        return self.parts if split else -(-self.steps // max(self.run_length, 1)) + 1

    # ------------------------------------------------------------ blocks

    @property
    def blocks(self) -> int:
        """Blocks to launch; none where the batch has no matrix."""
        grid = self.program.grid
        if grid.name in ("persistent", "stream_k"):
            return grid.count if self.matrices else 0
        return (self.most_tiles if self.by_group else self.ordered_tiles * self.matrices) * self.parts

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks in each direction."""
        return self.blocks, 1, 1

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block of an AMD GPU in each direction."""
        return self.program.waves * WAVE_LANES, 1, 1

    def on_few_blocks(self) -> Launch[Any]:
        """The same on so few blocks of a persistent grid that each has two tiles or more."""
        program: Any = self.program
        tiles = self.all_tiles
        if program.grid.name != "persistent":
            return self
        if self.by_group and self.walked is not None:  # those of one group, which has two rows of tiles where it can
            height = program.tile(self.walked)  # (`tkgen.verify.specs`)
            tiles = min(2, -(-self.extents[self.walked.dim.name] // height)) * self.tile_grid[1]
        count = min(program.grid.count, max(1, tiles // 2))
        return replace(self, program=replace(program, grid=replace(program.grid, count=count)))

    @property
    def tile_count(self) -> int:
        """Tiles of all matrices, in the order in which blocks take them."""
        return len(self._tiles_of_groups) if self.by_group else self.ordered_tiles * self.matrices

    @cached_property
    def _tiles_of_groups(self) -> list[tuple[int, int, int]]:
        """Row, column and matrix of the tiles of all groups, where each has its own order."""
        assert self.walked is not None
        height, cols = self.program.tile(self.walked), self.tile_grid[1]
        heights = [-(-len(group) // height) for group in self.groups[self.walked]]
        return [(*at, of) for of, rows in enumerate(heights) if rows for at in self.remap.order(rows, cols)]

    def _tile(self, number: int) -> tuple[int, int, int]:
        """Row, column and matrix of a tile by its number."""
        if self.by_group:
            return self._tiles_of_groups[number]
        matrix, number = divmod(number, self.ordered_tiles)
        reordered = self.program.remap or self.program.clusters
        row, col = self.order[number] if reordered else divmod(number, self.tile_grid[1])
        return row, col, matrix

    def pieces(self, block: int) -> list[Piece]:
        """Return the pieces of work of a block, in order."""
        if self.program.grid.name == "stream_k":
            run = self.run_length
            return list(self._run(block * run, min((block + 1) * run, self.tile_count * self.steps)))
        if self.program.grid.name == "split_k":
            number, part = divmod(block, self.parts) if self.by_group else divmod(block, self.tile_count)[::-1]
            if number >= self.tile_count:
                return []
            row, col, matrix = self._tile(number)
            return [Piece(row, col, part * self.block_steps, (part + 1) * self.block_steps, matrix)]
        found = []
        for number in range(block, self.tile_count, self.blocks):
            row, col, matrix = self._tile(number)
            first = self.first_step(matrix)
            found.append(Piece(row, col, first, first + self.steps_of(matrix), matrix))
        return found

    def _run(self, at: int, end: int) -> Iterator[Piece]:
        """K-steps `at` to before `end` of all tiles laid end to end."""
        while at < end:
            number, first = divmod(at, self.steps)
            last = min(self.steps, first + end - at)
            row, col, matrix = self._tile(number)
            yield Piece(row, col, first, last, matrix)
            at += last - first

    @cached_property
    def work(self) -> list[list[Piece]]:
        """For each block the pieces that it computes, in its order."""
        return [self.pieces(block) for block in range(self.blocks)]

    def place(self, number: int) -> dict[Axis, int]:
        """The number of a tile along every parallel axis, by its number among all.

        Along a ragged axis it is the number in the group that has it; one that no group has is after the last tile of
        the last group.
        """
        return self._place(*self._tile(number))

    def _place(self, row: int, col: int, matrix: int) -> dict[Axis, int]:
        outer, cols = self._sides
        indices = self.indices(matrix)
        found = {axis: indices[axis.name] for axis in self.program.batch}
        if cols is not None:
            found[cols] = col
        for axis in reversed(outer[1:]):
            row, found[axis] = divmod(row, self.tiles(axis))
        found |= dict.fromkeys(outer[:1], row)
        if self.walked is not None and self.program.kernel.groups is not None and not self.by_group:
            found[self.program.kernel.groups], found[self.walked] = self._of_group(self.walked, found[self.walked])
        return found

    def _of_group(self, axis: Axis, number: int) -> tuple[int, int]:
        """The group that has tile `number` of all, and which of its own that is."""
        group, tiles = -1, 0
        for group, places in enumerate(self.groups[axis]):
            tiles = -(-len(places) // self.program.tile(axis))
            if number < tiles:
                return group, number
            number -= tiles
        return group, tiles

    def number(self, place: Mapping[Axis, int]) -> int:
        """The tile that is at this place, of a kernel without a batch."""
        number = 0
        for axis in self.numbered:
            number = number * self.tiles(axis) + place[axis]
            if axis.within is not None and self.program.kernel.groups is not None:
                before = self.groups[axis][: place[self.program.kernel.groups]]
                number += sum(-(-len(g) // self.program.tile(axis)) for g in before)
        return self.order.index(divmod(number, self.tile_grid[1])) if self.program.remap else number

    def boxes(self, block: int) -> Iterator[Box]:
        """Yield the boxes of the axes that a block computes, in order; none where it has no tile."""
        kernel, program = self.program.kernel, self.program
        for piece in self.pieces(block):
            own = self._place(piece.row, piece.col, piece.matrix)
            groups = {a.name: self.groups[a][own[kernel.groups]] for a in kernel.ragged if kernel.groups is not None}
            places: dict[str, range] = {}
            steps = {} if program.contraction is None else {program.contraction: (piece.first, piece.last)}
            for axis, (first, last) in ({a: (n, n + 1) for a, n in own.items()} | steps).items():
                tile, whole = program.tile(axis), groups.get(axis.name, range(self.extents[axis.dim.name]))
                places[axis.name] = whole[first * tile : last * tile]
            if any(axis.within and not places[axis.name] for axis in own):
                continue
            for axis in kernel.axes:
                if axis.name not in places and (axis.bounds or axis.part or axis.within):
                    begin, visited = groups[axis.name].start if axis.within else 0, self._visited(axis, own, groups)
                    places[axis.name] = range(begin + visited.start, begin + visited.stop)
            yield Box(places, groups)

    def _visited(self, axis: Axis, own: Mapping[Axis, int], groups: Mapping[str, range]) -> range:
        """From where to where along its axis a loop goes that begins or ends with a block's tile, or has a part.

        Of a ragged axis, places are counted in the block's group.
        """

        def length(of: Axis) -> int:
            return len(groups[of.name]) if of.within else self.extents[of.dim.name]

        size = length(axis)
        if axis.part is not None:
            index, place = next((a, number) for a, number in own.items() if a.name == axis.part)
            run = axis.part_length(size, self.extents[index.dim.name])
            return range(min(place * run, size), min((place + 1) * run, size))
        tiles = {a.name: range(number * (a.tile or 1), (number + 1) * (a.tile or 1)) for a, number in own.items()}
        step = axis.tile or 1
        bounding = next((a for a in own if a.name in {b.axis for b in axis.bounds}), axis)
        starts = [s for s in range(0, size, step) if axis.visits(s, tiles, size - length(bounding))]
        return range(starts[0], min(starts[-1] + step, size)) if starts else range(0)

    def part(self, tensor: Tensor, box: Box, kernel: Kernel | None = None) -> tuple[slice, ...]:
        """The part of a tensor that belongs to a piece of a block; `kernel` has the equations in another form."""
        kernel = kernel or self.program.kernel
        ragged = kernel.offsets.get(tensor)
        if ragged is not None and ragged.within is not None and ragged.within.lengths and kernel.groups is not None:
            mine = box.places[kernel.groups.name]
            return (slice(mine.start, mine.stop),)
        found: list[slice | None] = [None] * len(tensor.dims)
        places = kernel.places
        for access in (*accesses(kernel), *places):
            for at, index in enumerate(access.indices):
                if access.tensor != tensor:
                    continue
                own = None if index.axis is None else box.places.get(index.axis.name)
                walked = index.axis is not None and index.axis.kind is AxisKind.SEQUENTIAL
                paged = walked and index.divisor != 1 and access in places  # a table of pages is read as it is
                if index.terms and found[at] != slice(None):
                    own = reached(index, tensor.dims[at], box.places, self.extents, box.groups)
                    before = found[at] or slice(own.start, own.stop)
                    found[at] = slice(min(before.start, own.start), max(before.stop, own.stop))
                    continue
                if own is None or index.through is not None or index.remainder or paged or found[at] == slice(None):
                    found[at] = slice(None)
                    continue
                first, last = (
                    own.start // index.divisor,
                    -(-own.stop // index.divisor) if own else own.start // index.divisor,
                )
                before = found[at] or slice(first, last)
                found[at] = slice(min(before.start, first), max(before.stop, last))
        return tuple(each or slice(None) for each in found)

    # ------------------------------------------------------------ what it costs

    @property
    def flops(self) -> int:
        """Floating-point operations of its products; 0 where nobody knows here."""
        return multiplied(self.program.kernel, self.extents)

    def sample(self) -> tuple[int, ...]:
        """Blocks worth running where there are many: the one of the last corner, the first and one in the middle.

        Blocks that each compute many tiles are long, so there are fewer of them.
        """
        if self.program.contraction is None:
            return tuple(sorted({0, self.blocks // 2, self.blocks - 1}))
        busy = [block for block, mine in enumerate(self.work) if mine]
        if not busy:
            return ()
        corner = max(busy, key=lambda block: max((p.row, p.col, p.last) for p in self.work[block]))
        chosen = [corner]
        for block in (busy[0], busy[len(busy) // 2]):
            if block not in chosen and sum(map(self._steps, (*chosen, block))) <= SAMPLE_STEPS:
                chosen.append(block)
        return tuple(sorted(chosen))

    def _steps(self, block: int) -> int:
        return sum(piece.steps for piece in self.pieces(block))

    def watched(self, blocks: Sequence[int]) -> bool:
        """Return True if the referee has the memory to watch these blocks.

        A block of many K-steps touches more memory than that; one whose waves do not meet in its loops, sooner.
        """
        if any(self._steps(block) > WATCHED_STEPS for block in blocks):
            return False
        tensors = {access.tensor for access in accesses(self.program.kernel)}
        return self.meets or all(
            sum(self._pages(t, box) for box in self.boxes(block) for t in tensors) <= WATCHED_PAGES for block in blocks
        )

    def _pages(self, tensor: Tensor, box: Box) -> int:
        """Pages of the referee in a block's part of a tensor, at most."""
        shape = self.shape(tensor)
        counts = [len(range(size)[part]) for size, part in zip(shape, self.part(tensor, box), strict=True)]
        return prod(counts[:-1]) * (-(-counts[-1] * tensor.dtype.bytes // PAGE_BYTES) + 1) if counts else 1
