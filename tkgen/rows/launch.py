"""A launch of a kernel of rows, or of a loop of products: its sizes, its blocks.

Where an axis along which blocks have tiles is ragged, each group has tiles of its own, in the order of the groups: as
many as it needs. How many these are only the device knows, so there are as many blocks as there can be tiles; those
beyond do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Protocol

from tkgen.execute.arguments import SizeError, sizes
from tkgen.ir.divided import divided
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Axis, Kernel, accesses
from tkgen.ir.launch import PAGE_BYTES, WATCHED_PAGES, Box, OneLaunch
from tkgen.ir.limits import BUFFER_BYTES, LAUNCH_THREADS
from tkgen.ir.segments import alike, parts
from tkgen.ir.types import Tensor
from tkgen.remap import Remap, RemapCall, compose
from tkgen.rows.work import multiplied
from tkgen.schedule.rows import reach_bytes


class Layout(Protocol):
    """How a block's tile lies over its lanes, as far as launches need to know."""

    @property
    def kernel(self) -> Kernel:
        """The equations, in the form that is laid out."""

    @property
    def threads(self) -> int:
        """Threads of a block."""

    @property
    def registers(self) -> int:
        """VGPRs of a lane, as predicted."""

    @property
    def meets(self) -> bool:
        """Whether its waves meet in every loop."""

    def largest(self, dim: str) -> int:
        """The largest size of a dimension that only run time knows."""

    def describe(self) -> str:
        """One line for people."""


@dataclass(frozen=True)
class RowLaunch(OneLaunch):
    """A launch of equations over lanes, or over waves, as `layout` says."""

    program: EquationProgram = field(repr=False)
    layout: Layout = field(repr=False)
    offsets: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by tensor; without any, groups are alike

    def tiles(self, axis: Axis) -> int:
        """Tiles along a parallel axis, one that hangs over the end counted; of a ragged one as many as there can be."""
        size, tile = self.extents[axis.dim.name], axis.tile or 1
        return -(-size // tile) if axis.within is None else (size + self.group_count * (tile - 1)) // tile

    @property
    def walked(self) -> Axis | None:
        """The ragged axis along which blocks have tiles."""
        return next((a for a in self.program.parallel if a.within is not None), None)

    @property
    def numbered(self) -> tuple[Axis, ...]:
        """The axes along which the number of a block counts: which group has its tile follows from that."""
        return tuple(a for a in self.program.parallel if self.walked is None or a != self.program.kernel.groups)

    @property
    def blocks(self) -> int:
        """Blocks to launch."""
        return prod(map(self.tiles, self.numbered))

    @property
    def group_count(self) -> int:
        """How many groups ragged axes have."""
        index = self.program.kernel.groups
        return 1 if index is None else self.extents[index.dim.name]

    def offset_values(self, axis: Axis) -> Sequence[int]:
        """What the offsets of a ragged axis hold, or its lengths."""
        assert axis.within is not None
        given = self.offsets.get(axis.within.offsets.name)
        return given or alike(axis.within, self.group_count, self.extents[axis.dim.name])

    def groups(self, axis: Axis) -> list[range]:
        """The places of each group of a ragged axis."""
        assert axis.within is not None
        return parts(axis.within, self.offset_values(axis), self.extents[axis.dim.name])

    def held(self) -> dict[Tensor, list[int]]:
        """What tensors of places and offsets hold where nobody says: rows far from one another."""
        found = {}
        for tensor, dim in self.program.kernel.held.items():
            ragged = self.program.kernel.offsets.get(tensor)
            size, count = self.extents[dim.name], prod(self.shape(tensor))
            found[tensor] = [*self.offset_values(ragged)] if ragged else [7919 * at % size for at in range(count)]
        return found

    @property
    def flops(self) -> int:
        """Floating-point operations of the products."""
        return multiplied(self)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.layout.threads

    @property
    def summed(self) -> tuple[frozenset[str], int]:
        """None: what is multiplied may be made of sums."""
        return frozenset(), 0

    def of_groups(self, offsets: Mapping[str, Sequence[int]]) -> RowLaunch:
        """The same with groups of these offsets or lengths."""
        return replace(self, offsets=offsets)

    def offsets_of(self, axis: Axis) -> Sequence[int]:
        """What the offsets of a ragged axis hold, or its lengths."""
        return self.offset_values(axis)

    def boxes(self, block: int) -> Iterator[Box]:
        """The tile of a block, and what it visits of loops that go over a part of their axis."""
        own, kernel = self.place(block), self.program.kernel
        groups = {a.name: self.groups(a)[own[kernel.groups]] for a in kernel.ragged if kernel.groups is not None}
        places: dict[str, range] = {}
        for axis, number in own.items():
            tile, whole = axis.tile or 1, groups.get(axis.name, range(self.extents[axis.dim.name]))
            places[axis.name] = whole[number * tile : (number + 1) * tile]
        if any(axis.within and not places[axis.name] for axis in own):
            return
        for axis in kernel.axes:
            if axis not in own and (axis.bounds or axis.part or axis.within):
                first, visited = groups[axis.name].start if axis.within else 0, self._visited(axis, own, groups)
                places[axis.name] = range(first + visited.start, first + visited.stop)
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

    def sample(self) -> tuple[int, ...]:
        """The first block, the last, and one between."""
        return tuple(sorted({0, self.blocks // 2, self.blocks - 1}))

    def watched(self, blocks: Sequence[int]) -> bool:
        """What is touched between two meetings of the waves is in the referee's room.

        A loop without a meeting touches its whole walk.
        """
        if self.layout.meets:
            return True
        tensors = {access.tensor for access in accesses(self.program.kernel)}
        boxes = [box for block in blocks for box in self.boxes(block)]
        return all(sum(self._pages(t, box) for t in tensors) <= WATCHED_PAGES for box in boxes)

    def _pages(self, tensor: Tensor, box: Box) -> int:
        """Pages of the referee in a block's part of a tensor, at most."""
        shape = self.shape(tensor)
        counts = [len(range(size)[part]) for size, part in zip(shape, self.part(tensor, box), strict=True)]
        return prod(counts[:-1]) * (-(-counts[-1] * tensor.dtype.bytes // PAGE_BYTES) + 1) if counts else 1

    def place(self, block: int) -> dict[Axis, int]:
        """The number of a block's tile along every parallel axis; the last one changes fastest.

        Along a ragged axis it is the number in the group that has it; a block that none has a tile for is behind the
        last tile of the last group.
        """
        found: dict[Axis, int] = {}
        if self.program.remap:
            row, col = _remap(self.program).place(block, *self._grid)
            block = row * self._grid[1] + col
        for axis in reversed(self.numbered):
            block, found[axis] = divmod(block, self.tiles(axis))
        if self.walked is not None and self.program.kernel.groups is not None:
            found[self.program.kernel.groups], found[self.walked] = self._of_group(self.walked, found[self.walked])
        return found

    def _of_group(self, axis: Axis, number: int) -> tuple[int, int]:
        """The group that has tile `number` of all, and which of its own that is."""
        groups, group, tiles = self.groups(axis), -1, 0
        for group, places in enumerate(groups):
            tiles = -(-len(places) // (axis.tile or 1))
            if number < tiles:
                return group, number
            number -= tiles
        return group, tiles

    def number(self, place: Mapping[Axis, int]) -> int:
        """The block that has these tiles: what `place` says of it."""
        number = 0
        for axis in self.numbered:
            number = number * self.tiles(axis) + place[axis]
            if axis.within is not None and self.program.kernel.groups is not None:
                before = self.groups(axis)[: place[self.program.kernel.groups]]
                number += sum(-(-len(g) // (axis.tile or 1)) for g in before)
        if self.program.remap:
            return _remap(self.program).order(*self._grid).index(divmod(number, self._grid[1]))
        return number

    @property
    def _grid(self) -> tuple[int, int]:
        """Tiles along all parallel axes but the last, and along that one: what a remap orders."""
        *outer, cols = map(self.tiles, self.numbered)
        return prod(outer), cols


def _remap(program: EquationProgram) -> Remap:
    return compose([RemapCall(s.name, dict(s.keywords), s.positional) for s in program.remap])


def row_launch(program: EquationProgram, layout: Layout, given: Mapping[str, int] | None = None) -> RowLaunch:
    """The launch at the spec's own sizes, `given` ones for dynamic dimensions.

    Raises:
        SizeError: a dynamic dimension without a size, or a size that the kernel cannot do.
    """
    extents = sizes(program, given)
    for name, size in extents.items():
        if not 1 <= size <= layout.largest(name):
            raise SizeError(f"{program.name}: {name} must be from 1 to {layout.largest(name)}")
    for found in divided(program.kernel):
        large, small = found.large.name, found.small.name
        if found.of(extents[large]) != extents[small] or (not found.by_tile and extents[large] % found.count):
            raise SizeError(f"{program.name}: {small} must be {large} / {found.count}{', rounded up' * found.by_tile}")
    launch, most = RowLaunch(program, extents, layout), LAUNCH_THREADS // layout.threads
    if launch.blocks > most:
        raise SizeError(f"{program.name}: there must be at most {most} blocks")
    for access in accesses(layout.kernel) if program.dynamic else ():
        if reach_bytes(access, extents) > BUFFER_BYTES:
            raise SizeError(f"{program.name}: a tile of {access.tensor.name} spans more than {BUFFER_BYTES} bytes")
    return launch
