"""A launch: a kernel at sizes, its output tiles, its blocks and what each of them does.

Where rows are ragged, each group has tiles of its own: as many as its rows need, in the order of the groups. How many
that are only the device knows, so a `linear` grid has as many blocks as there can be tiles; those beyond do nothing.
What asks for one grid of tiles is told that of a group of average length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Protocol

from tkgen.ir.equations import Axis, AxisKind, Kernel, accesses
from tkgen.ir.kernel_program import KernelProgram
from tkgen.ir.segments import segments
from tkgen.ir.types import Dim, Program, ScalarArg, Tensor
from tkgen.remap import Remap, RemapCall, compose

PAGE_BYTES, WATCHED_PAGES = 1024, 40_000  # of memory that the referee can watch, and how many: `core/referee.h`
WATCHED_STEPS = 1000  # K-steps of one block beyond which it touches more memory than the referee can watch
SAMPLE_STEPS = 1000  # K-steps of a sample: a second or so for a hundred


@dataclass(frozen=True)
class Piece:
    """What a block does at a time: K-steps `first` to before `last` of the output tile at (`row`, `col`), in tiles.

    `matrix` says of which output, where there is a batch of them.
    """

    row: int
    col: int
    first: int
    last: int
    matrix: int = 0

    @property
    def steps(self) -> int:
        """K-steps of it."""
        return self.last - self.first


class Taking(Protocol):
    """What a launch needs to know of a kernel, or of several: what they take and write."""

    @property
    def arguments(self) -> Sequence[Tensor]:
        """All tensors, in the order of the spec."""

    @property
    def reads(self) -> Sequence[Tensor]:
        """Those to be given."""

    @property
    def outputs(self) -> Sequence[Tensor]:
        """What it is for."""

    @property
    def scalars(self) -> Sequence[ScalarArg]:
        """The scalars."""

    @property
    def added(self) -> frozenset[str]:
        """The outputs to which several blocks add, which must be zero before the launch."""

    @property
    def dims(self) -> Sequence[Dim]:
        """All dimensions."""


@dataclass(frozen=True)
class Box:
    """A piece of what a block computes: the places of each axis, by its name, of which the block has a part alone.

    Of a ragged axis `groups` has the places of the group in which these are.
    """

    places: Mapping[str, range]
    groups: Mapping[str, range] = field(default_factory=dict)

    def first(self, axis: str) -> int:
        """The first place, as the equations count: of a ragged axis from where the group begins."""
        return self.places[axis].start - (self.groups[axis].start if axis in self.groups else 0)


@dataclass(frozen=True)
class Sizing(ABC):
    """`program` at the sizes `extents`, by the names of dimensions; only those asked about need be there."""

    program: Taking = field(repr=False)
    extents: Mapping[str, int] = field(compare=False)

    @property
    @abstractmethod
    def launches(self) -> tuple[OneLaunch, ...]:
        """The launches of single kernels, in order."""

    @abstractmethod
    def with_launches(self, launches: Sequence[OneLaunch]) -> Sizing:
        """The same with others of its kernels."""

    @property
    def blocks(self) -> int:
        """Blocks to launch, of all kernels."""
        return sum(launch.blocks for launch in self.launches)

    @property
    def written(self) -> tuple[Tensor, ...]:
        """The tensors that it writes."""
        return tuple(self.program.outputs)

    @property
    def flops(self) -> int:
        """Floating-point operations of all products."""
        return sum(launch.flops for launch in self.launches)

    @property
    def moved_bytes(self) -> int:
        """Bytes that it reads and writes, each tensor once."""
        return sum(map(self.bytes, (*self.program.reads, *self.program.outputs)))

    def first(self, count: int) -> Sizing:
        """The launch of the first `count` kernels."""
        return self

    def shape(self, tensor: Tensor) -> list[int]:
        """The sizes of a tensor in memory: elements, or bytes along a dimension of which they hold several."""
        return tensor.dtype.stored([self.extents[d.name] for d in tensor.dims])

    def bytes(self, tensor: Tensor) -> int:
        """The size of a tensor in memory."""
        return prod(self.shape(tensor)) * tensor.dtype.bytes


class OneLaunch(Sizing):
    """One kernel at sizes: what launching it takes."""

    program: KernelProgram = field(repr=False)

    @property
    def launches(self) -> tuple[OneLaunch, ...]:
        """This one."""
        return (self,)

    def with_launches(self, launches: Sequence[OneLaunch]) -> OneLaunch:
        """The only one of them."""
        (found,) = launches
        return found

    def on_few_blocks(self) -> OneLaunch:
        """The same on so few blocks of a persistent grid that each has two tiles or more."""
        return self

    @abstractmethod
    def of_groups(self, offsets: Mapping[str, Sequence[int]]) -> OneLaunch:
        """The same with groups of these offsets or lengths, by the names of tensors."""

    @property
    @abstractmethod
    def blocks(self) -> int:
        """Blocks to launch."""

    @property
    @abstractmethod
    def flops(self) -> int:
        """Floating-point operations of its products; 0 where nobody knows here."""

    @property
    @abstractmethod
    def summed(self) -> tuple[frozenset[str], int]:
        """The tensors whose products are summed along one axis before anything is rounded, and the places of it.

        None, and 0, where there is no one such axis.
        """

    @property
    def partial_sums(self) -> int:
        """Partial sums that blocks add up in an output, at most; 0 where its products are summed at a stretch."""
        return 0

    @property
    def steps(self) -> int:
        """Steps of such a sum; of a group of average length, where the sum is ragged."""
        return 0

    @abstractmethod
    def boxes(self, block: int) -> Iterator[Box]:
        """What a block computes, one piece after the other; nothing where it finds no tile."""

    @abstractmethod
    def offsets_of(self, axis: Axis) -> Sequence[int]:
        """What the offsets of a ragged axis hold, or its lengths."""

    def part(self, tensor: Tensor, box: Box, kernel: Kernel | None = None) -> tuple[slice, ...]:
        """The part of a tensor that belongs to a piece of a block; `kernel` has the equations in another form."""
        kernel = kernel or self.program.kernel
        ragged = kernel.offsets.get(tensor)
        if ragged is not None and ragged.within is not None and ragged.within.lengths and kernel.groups is not None:
            mine = box.places[kernel.groups.name]
            return (slice(mine.start, mine.stop),)
        found = [slice(None)] * len(tensor.dims)
        places = kernel.places
        for access in (*accesses(kernel), *places):
            for at, index in enumerate(access.indices):
                if access.tensor != tensor or index.axis is None or index.through is not None or index.remainder:
                    continue
                walked = index.axis.kind is AxisKind.SEQUENTIAL
                if index.axis.name not in box.places or (walked and index.divisor != 1 and access in places):
                    continue  # a table of pages is read as it is
                mine = box.places[index.axis.name]
                first = mine.start // index.divisor
                found[at] = slice(first, -(-mine.stop // index.divisor) if mine else first)
        return tuple(found)

    @abstractmethod
    def sample(self) -> tuple[int, ...]:
        """Blocks worth running where there are many."""

    @abstractmethod
    def watched(self, blocks: Sequence[int]) -> bool:
        """Whether the referee has room to watch these blocks."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads of a block."""

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks in each direction."""
        return self.blocks, 1, 1

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block in each direction."""
        return self.threads, 1, 1


@dataclass(frozen=True)
class Launch(OneLaunch):
    """A launch of matrix products."""

    program: Program = field(repr=False)
    offsets: tuple[int, ...] = ()  # of ragged rows; without any, groups are alike

    @classmethod
    def known(cls, program: Program) -> Launch | None:
        """The launch that the spec's own sizes give; None where rows, columns or indices of the output are dynamic."""
        if any(d.size is None for d in (program.m, program.n, *(a.dim for a in program.batch))):
            return None
        return cls(program, {d.name: d.size for d in program.dims if d.size is not None})

    @property
    def tile_grid(self) -> tuple[int, int]:
        """Rows and columns of output tiles, those that hang over the end counted."""
        m, n = self.program.m, self.program.n
        rows, cols, _ = self.program.block
        of_group = -(-self.extents[m.name] // (self.matrices if self.program.ragged else 1))
        return -(-of_group // rows), -(-self.extents[n.name] // cols)

    @cached_property
    def groups(self) -> list[range]:
        """The places of each group, where rows or the contraction are ragged."""
        axis = self.program.ragged or self.program.ragged_sum
        assert axis is not None
        size, count = self.extents[axis.dim.name], self.matrices
        return segments(self.offsets or [size * g // count for g in range(count + 1)], size)

    @property
    def offset_values(self) -> tuple[int, ...]:
        """What the tensor of offsets holds."""
        return self.offsets or (self.groups[0].start, *(g.stop for g in self.groups))

    def held_values(self, tensor: Tensor) -> list[int]:
        """Places that a tensor may hold, where nobody gives any: its offsets, or rows far from one another."""
        if tensor == self.program.offsets:
            return list(self.offset_values)
        size = self.extents[self.program.held[tensor].name]
        return [7919 * at % size for at in range(prod(self.shape(tensor)))]

    @property
    def most_tiles(self) -> int:
        """How many tiles groups can need together: each one more than its rows fill, whatever the offsets are."""
        rows, size = self.program.block[0], self.extents[self.program.m.name]
        return (size + self.matrices * (rows - 1)) // rows * self.tile_grid[1]

    @property
    def tiles(self) -> int:
        """Output tiles of a matrix."""
        rows, cols = self.tile_grid
        return rows * cols

    @property
    def clustered(self) -> tuple[int, int]:
        """Rows and columns of clusters that cover a matrix: of tiles, where a block has its own."""
        (rows, cols), clusters = self.tile_grid, self.program.clusters
        if clusters is None:
            return rows, cols
        return (-(-rows // clusters.count), cols) if clusters.rows else (rows, -(-cols // clusters.count))

    @property
    def all_tiles(self) -> int:
        """Output tiles of all matrices of the batch, in whose order they are numbered."""
        return self.tiles * self.matrices

    @property
    def batch(self) -> tuple[int, ...]:
        """How many values each index of the batch has, the last one fastest."""
        return tuple(self.extents[a.dim.name] for a in self.program.batch)

    @property
    def matrices(self) -> int:
        """Outputs of the batch; 1 where there is none."""
        return prod(self.batch)

    @property
    def factors(self) -> int:
        """Contractions of the batch: outputs that take a part of one each count together."""
        return len({self.apart(matrix) for matrix in range(self.matrices)})

    def apart(self, matrix: int) -> tuple[int, ...]:
        """The indices of matrix number `matrix` beside that of its part of the contraction."""
        part = self.program.part
        return tuple(at for name, at in self.indices(matrix).items() if part is None or name != part.name)

    def indices(self, matrix: int) -> dict[str, int]:
        """The indices of the batch, by the names of their axes, that matrix number `matrix` has."""
        found = {}
        for axis, count in zip(reversed(self.program.batch), reversed(self.batch), strict=True):
            matrix, found[axis.name] = divmod(matrix, count)
        return found

    @property
    def steps(self) -> int:
        """K-steps of an output tile; of a group of average length, where the contraction is ragged."""
        length = -(-self.extents[self.program.k.name] // (self.matrices if self.program.ragged_sum else 1))
        return -(-length // self.program.block[2])

    def steps_of(self, matrix: int) -> int:
        """K-steps of the tiles of a matrix of the batch."""
        return -(-len(self.groups[matrix]) // self.program.block[2]) if self.program.ragged_sum else self.steps

    @property
    def parts(self) -> int:
        """Blocks that have an equal part of the K-steps of each tile."""
        return self.program.grid.count if self.program.grid.name == "split_k" else 1

    @property
    def block_steps(self) -> int:
        """K-steps that a block sums at a stretch, unless the grid is `stream_k`."""
        part = self.program.part
        return self.steps // self.parts if part is None else -(-self.steps // self.extents[part.dim.name])

    def first_step(self, matrix: int) -> int:
        """The K-step that the sums of matrix number `matrix` begin with."""
        part = self.program.part
        return 0 if part is None else self.indices(matrix)[part.name] * self.block_steps

    @property
    def blocks(self) -> int:
        """Blocks to launch; none where the batch has no matrix."""
        grid = self.program.grid
        if grid.name in ("persistent", "stream_k"):
            return grid.count if self.matrices else 0
        if self.program.ragged:
            return self.most_tiles
        if self.program.clusters is not None:
            return prod(self.clustered) * self.program.clusters.count * self.matrices
        return self.all_tiles * self.parts

    @property
    def summed(self) -> tuple[frozenset[str], int]:
        """The factors, and the contraction."""
        return frozenset(o.name for o in self.program.operands), self.extents[self.program.k.name]

    def boxes(self, block: int) -> Iterator[Box]:
        """The pieces of a block: rows, columns, indices, K-steps."""
        of, tiles = self.program.equations, self.program.block
        for piece in self.work[block]:
            places = {name: range(at, at + 1) for name, at in self.indices(piece.matrix).items()}
            groups = {a.name: self.groups[piece.matrix] for a in (of.rows, of.contraction) if a.within}
            steps = ((piece.row, piece.row + 1), (piece.col, piece.col + 1), (piece.first, piece.last))
            for axis, tile, (first, end) in zip((of.rows, of.cols, of.contraction), tiles, steps, strict=True):
                whole = groups.get(axis.name, range(self.extents[axis.dim.name]))
                places[axis.name] = whole[first * tile : end * tile]
            yield Box(places, groups)

    def of_groups(self, offsets: Mapping[str, Sequence[int]]) -> Launch:
        """The same with groups of these offsets."""
        return replace(self, offsets=tuple(next(iter(offsets.values()), ())))

    def on_few_blocks(self) -> Launch:
        """The same on so few blocks of a persistent grid that each has two tiles or more."""
        program, tiles = self.program, self.all_tiles
        if program.grid.name != "persistent":
            return self
        if program.ragged:  # those of one group, which has two rows of tiles where it can (`tkgen.verify.inputs`)
            tiles = min(2, -(-self.extents[program.m.name] // program.block[0])) * self.tile_grid[1]
        count = min(program.grid.count, max(1, tiles // 2))
        return replace(self, program=replace(program, grid=replace(program.grid, count=count)))

    def offsets_of(self, axis: Axis) -> Sequence[int]:
        """Those of its one ragged axis."""
        return self.offset_values

    @property
    def partial_sums(self) -> int:
        """Blocks that have a part of a tile."""
        if not self.program.added:
            return 0
        if self.program.grid.name == "split_k":
            return self.parts
        return -(-self.steps // max(self.run_length, 1)) + 1

    def sample(self) -> tuple[int, ...]:
        """The block of the last corner, the first and one in the middle.

        Blocks that each compute many tiles are long, so there are fewer of them.
        """
        busy = [block for block, mine in enumerate(self.work) if mine]
        if not busy:
            return ()
        corner = max(busy, key=lambda block: max((p.row, p.col, p.last) for p in self.work[block]))
        chosen = [corner]
        for block in (busy[0], busy[len(busy) // 2]):
            if block not in chosen and sum(map(self._steps, (*chosen, block))) <= SAMPLE_STEPS:
                chosen.append(block)
        return tuple(sorted(chosen))

    def watched(self, blocks: Sequence[int]) -> bool:
        """A block of many K-steps touches more memory than the referee can watch; one wave, with no barrier, sooner."""
        pages = self._pages_of_step if self.program.waves == 1 else 0
        return all((n := self._steps(b)) <= WATCHED_STEPS and n * pages <= WATCHED_PAGES for b in blocks)

    @property
    def _pages_of_step(self) -> int:
        """Pages of the referee that the tiles of a K-step are in, at most."""
        found = 0
        for o in self.program.operands:
            rows, cols = (o.step, o.extent) if o.contraction_first else (o.extent, o.step)
            found += rows * (-(-cols * o.tensor.dtype.bytes // PAGE_BYTES) + 1)
        return found

    def _steps(self, block: int) -> int:
        return sum(piece.steps for piece in self.work[block])

    @property
    def flops(self) -> int:
        """Floating-point operations: two for each pair of elements that is multiplied."""
        program = self.program
        m, n, k = (self.extents[d.name] for d in (program.m, program.n, program.k))
        return 2 * m * n * k * self.factors * len(program.products)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.program.threads

    @property
    def run_length(self) -> int:
        """K-steps, of all tiles laid end to end, that a block of a `stream_k` grid gets."""
        return -(-self.all_tiles * self.steps // self.program.grid.count)

    @cached_property
    def remap(self) -> Remap:
        """The order of the output tiles."""
        return compose([RemapCall(s.name, dict(s.keywords), s.positional) for s in self.program.remap])

    @cached_property
    def order(self) -> list[tuple[int, int]]:
        """The output tiles in their order.

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

    @cached_property
    def work(self) -> list[list[Piece]]:
        """For each block the pieces that it computes, in its order."""
        count, steps = self.program.grid.count, self.steps
        if self.program.ragged:
            return self._work_of_groups()
        every = [(row, col, matrix) for matrix in range(self.matrices) for row, col in self.order]
        match self.program.grid.name:
            case "persistent":
                pieces = [Piece(row, col, 0, self.steps_of(matrix), matrix) for row, col, matrix in every]
                return [pieces[block::count] for block in range(self.blocks)]
            case "split_k":
                part = steps // count
                return [[Piece(r, c, i * part, (i + 1) * part, of)] for i in range(count) for r, c, of in every]
            case "stream_k":
                end, run = len(every) * steps, self.run_length
                ends = [(block * run, min((block + 1) * run, end)) for block in range(self.blocks)]
                return [_run_of(every, steps, at, last) for at, last in ends]
        if self.program.ragged_sum:
            return [[Piece(r, c, 0, self.steps_of(of), of)] for r, c, of in every]
        firsts = [self.first_step(matrix) for matrix in range(self.matrices)]
        return [[Piece(r, c, firsts[of], firsts[of] + self.block_steps, of)] for r, c, of in every]

    def _work_of_groups(self) -> list[list[Piece]]:
        height, cols = self.program.block[0], self.tile_grid[1]
        pieces = [
            Piece(row, col, 0, self.steps, matrix)
            for matrix, rows in enumerate(self.groups)
            for row, col in (self.remap.order(-(-len(rows) // height), cols) if rows else ())
        ]
        return [pieces[block :: self.blocks] for block in range(self.blocks)]


def _run_of(tiles: Sequence[tuple[int, int, int]], steps: int, at: int, end: int) -> list[Piece]:
    """K-steps `at` to before `end` of all tiles - row, column, matrix - laid end to end."""
    found = []
    while at < end:
        first = at % steps
        last = min(steps, first + end - at)
        row, col, matrix = tiles[at // steps]
        found.append(Piece(row, col, first, last, matrix))
        at += last - first
    return found
