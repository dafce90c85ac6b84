"""The axes of equations: directions in which tiles extend, and the positions along them that indices add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tkgen.ir.hashing import hashed_once
from tkgen.ir.tensors import Dim, Tensor
from tkgen.source import Span


class AxisKind(Enum):
    """The way in which an axis is traversed: by blocks, by a loop, or as a whole."""

    PARALLEL = "over"  # blocks: a tile each
    SEQUENTIAL = "each"  # a loop of every block
    WHOLE = "whole"  # nobody: a tile holds all of it


@hashed_once
@dataclass(frozen=True)
class Within:
    """The source of the ends of a ragged axis: at the index g of the axis `of` it goes from `offsets`[g] to `offsets`[g
    + 1].

    Where the tensor holds `lengths` it goes from 0 to `offsets`[g]. `tkgen.ir.segments` says what that is where offsets
    decrease, or they or lengths lie beyond the dimension.
    """

    offsets: Tensor
    of: str
    lengths: bool = False


@hashed_once
@dataclass(frozen=True)
class Bound:
    """An end of a loop: the block's tile of the PARALLEL axis of that name, moved by a number of elements.

    A first bound is at the tile's first element, a last one at its last. Where the ends of the two axes are `aligned`,
    places are moved by as many more as the loop's axis has than the other one: `q + length(j) - length(q)`.
    """

    axis: str
    moved: int = 0
    aligned: bool = False

    def __str__(self) -> str:
        sign = "-" if self.moved < 0 else "+"
        ends = f", ends of {self.axis} aligned" if self.aligned else ""
        return (f"{self.axis} {sign} {abs(self.moved)}" if self.moved else self.axis) + ends


@hashed_once
@dataclass(frozen=True)
class Axis:
    """A direction in which tiles extend. Its `name` is its identity: a kernel has one axis of a name.

    `tile` elements of it are in one tile; None where the axis is an index alone (`over b in BATCH`), or WHOLE. `since`
    and `until` bound the walk along a SEQUENTIAL one (`each j in LENGTH by 64 from q - 512 to q`): tiles whose last
    element is before the first bound, or whose first is after the second, are not visited. `part` names the PARALLEL
    index among whose places a SEQUENTIAL axis is divided (`each k in K by 64 part s`): at place s only part s of its
    tiles is visited. `within` makes it ragged (`m in TOKENS within OFFSETS[g] by 128`, `j in KEYS below
    LENGTH[b] by 64`): tiles are of, and places are counted in, a part of `dim`. A flattened one, `(p in P, q in Q) by
    128`, has the dimensions that it combines, `parts`, the last one fastest; `dim` is as long as all combinations.
    """

    name: str
    dim: Dim
    kind: AxisKind
    tile: int | None = None
    since: Bound | None = None
    until: Bound | None = None
    part: str | None = None
    within: Within | None = None
    parts: tuple[Dim, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    def part_length(self, size: int, parts: int) -> int:
        """Elements of one of `parts` parts of an axis of `size` elements: whole tiles, as many in each.

        What is left for the last parts may be less than that, or nothing.
        """
        tile = self.tile or 1
        tiles = -(-size // tile)
        return -(-tiles // parts) * tile

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Between what it is walked."""
        return tuple(b for b in (self.since, self.until) if b is not None)

    def visits(self, start: int, tiles: Mapping[str, range], longer: int = 0) -> bool:
        """True if a block with these tiles visits the tile from place `start` on, as far as bounds name their axes.

        Where ends are aligned, this axis is by so many places `longer` than that of the bounds.
        """
        since, until, last = self.since, self.until, start + (self.tile or 1) - 1
        first, end = (b.moved + longer * b.aligned if b else 0 for b in (since, until))
        begun = since is None or since.axis not in tiles or last >= tiles[since.axis].start + first
        ended = until is not None and until.axis in tiles and start > tiles[until.axis].stop - 1 + end
        return begun and not ended

    @property
    def is_moved(self) -> bool:
        """True if its places are counted from another one than the dimension's first: from where a group begins."""
        return self.within is not None and not self.within.lengths

    @property
    def is_index(self) -> bool:
        """True if a tile has no extent along it: the axis only says which tile."""
        return self.tile is None and self.kind is not AxisKind.WHOLE

    @property
    def is_one_tile(self) -> bool:
        """True if a tile holds all of it."""
        if self.kind is AxisKind.WHOLE:
            return True
        if self.within is not None:
            return False  # of an empty group there is none
        return self.tile is not None and self.dim.size is not None and self.dim.size <= self.tile


@hashed_once
@dataclass(frozen=True)
class Digit:
    """One of the axes that a flattened axis combines: at place n of `axis` its position is n / `divisor` % size.

    The size is that of `dim`. Places of a piece of the axis count from `first`.
    """

    name: str
    axis: Axis
    dim: Dim
    divisor: int
    first: int = 0

    @property
    def size(self) -> int:
        """The number of positions; typing refuses dimensions of unknown size."""
        assert self.dim.size is not None
        return self.dim.size

    @property
    def turns(self) -> bool:
        """Return True if positions begin anew along the axis: those of the first digit do not."""
        return self.axis.dim.size != self.divisor * self.size

    @property
    def leads(self) -> bool:
        """Return True for the first digit of an axis each of whose tiles begins at one of its positions."""
        return not self.turns and (self.axis.tile is None or self.axis.tile % self.divisor == 0)

    @property
    def goes_on(self) -> bool:
        """Return True if tiles of the axis begin at the first position: places in a tile tell positions."""
        tile = self.axis.tile
        return self.axis.kind is AxisKind.WHOLE or (tile is not None and tile % (self.divisor * self.size) == 0)


@hashed_once
@dataclass(frozen=True)
class Term:
    """A part of an affine index: `factor` times the position along an axis, or times the size of a dimension."""

    of: Axis | Digit | Dim
    factor: int = 1

    @property
    def size(self) -> int | None:
        """The number of positions, or the size that it is; None where it is known only at run time."""
        return self.of.dim.size if isinstance(self.of, Axis) else self.of.size

    @property
    def axis(self) -> Axis | None:
        """The axis along which it changes."""
        return self.of.axis if isinstance(self.of, Digit) else self.of if isinstance(self.of, Axis) else None
