"""Operations: what one wave does, in the order it does it. A schedule is lists of these, one list a role.

    Move       Load | Fetch | Write | Copy | Read | Take     a tile of an operand, from one space to another
    on sums    Zero | Multiply | Reduce | Gather | Store
    results    ElementLoop | SharedStore | Vote | Share | SharedLoad | Equations     what lanes and waves compute
    Control    Barrier | Drain | Priority | Mix | Fence | CatchUp     no data

Each says what it reads and writes, as Regions. An operation is written for loop iteration k and touches K-step
k + `offset`; prologue and epilogue are the same operations clipped to the steps that exist (see
`tkgen.schedule.clipping`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import ClassVar, Self, TypeAlias

from tkgen.source import Span
from tkgen.tile.program import Compute, Control, K, Node, Op, Region, Ring, Space, StreamKind


@cache
def region(
    space: Space, name: str, offset: int = 0, fragments: tuple[int, ...] = (), slices: tuple[int, ...] = ()
) -> Region:
    """Return a region: a box of the tile `name` in a space, of K-step k + `offset`.

    `name` is that of a tensor, of the sums of a product ("" for all), or of a ring of partial results. A box of an
    operand is fragments and slices, one of sums rows and columns of fragments. An empty one means all.
    """
    return Region(Ring(name, space=space), K, ahead=offset, box=(fragments, slices))


# ---------------------------------------------------------------- moves


@dataclass(frozen=True)
class Move(Op):
    """Brings a tile of an operand, or a box of it, from `source` to `target`.

    Both are the same box of the same K-step; `ways` says of which spaces.
    """

    ways: ClassVar[tuple[Space, Space]]
    source: Region
    target: Region

    @classmethod
    def of(
        cls,
        operand: str,
        offset: int = 0,
        fragments: tuple[int, ...] = (),
        slices: tuple[int, ...] = (),
        span: Span | None = None,
    ) -> Self:
        """The move of a tile, or of a box of it."""
        source, target = (region(space, operand, offset, fragments, slices) for space in cls.ways)
        return cls(source, target, span=span)

    @property
    def reads(self) -> tuple[Region, ...]:
        """The source."""
        return (self.source,)

    @property
    def writes(self) -> tuple[Region, ...]:
        """The target."""
        return (self.target,)

    @property
    def shared(self) -> Region | None:
        """Its side in shared memory."""
        return self.target if self.ways[1] is Space.SHARED else None

    @property
    def tile(self) -> Region:
        """Its other side: what is brought to shared memory, towards it or from it."""
        return self.source

    @property
    def operand(self) -> str:
        """The name of its tile."""
        return self.source.name

    @property
    def leading(self) -> Region:
        """Its tile."""
        return self.tile

    def moved(self, at: str, by: int) -> Self:
        """The same move of tiles `by` K-steps further on."""
        return replace(self, source=self.source.moved(at, by), target=self.target.moved(at, by))

    def __str__(self) -> str:
        fragments, slices = self.tile.box
        named = [indices(fragments) or "*", *([indices(slices)] if slices else [])]
        part = f"({'; '.join(named)})" if fragments or slices else ""
        apart = self.shared is not None and self.shared.ahead != self.offset
        moved = f" with [{self.shared.step}] of shared memory" if self.shared and apart else ""
        return f"{self.word} {self.operand}[{self.tile.step}]{part}{moved}"


class Load(Move):
    """By a whole group; waits for its own traffic."""

    word, stream_kind, ways = "load", StreamKind.SHARED, (Space.GLOBAL, Space.SHARED)


class Fetch(Move):
    """Asynchronous, through global memory."""

    word, stream_kind, ways = "fetch", StreamKind.GLOBAL, (Space.GLOBAL, Space.STAGING)


@dataclass(frozen=True)
class Write(Move):
    """Asynchronous, through shared memory; a copy engine may take the tile then. `value` is the source in C++, of which
    `function` stores the tile."""

    word, stream_kind, ways = "write", StreamKind.SHARED, (Space.STAGING, Space.SHARED)
    value: str = ""
    function: str = "warpgroup::store"


class Copy(Move):
    """Asynchronous, through global memory."""

    word, stream_kind, ways = "copy", StreamKind.GLOBAL, (Space.GLOBAL, Space.SHARED)


class Read(Move):
    """Asynchronous, through shared memory."""

    word, stream_kind, ways = "read", StreamKind.SHARED, (Space.SHARED, Space.REGISTERS)

    @property
    def shared(self) -> Region | None:
        """The source."""
        return self.source

    @property
    def tile(self) -> Region:
        """The target."""
        return self.target


class Take(Move):
    """A read past shared memory, asynchronous, through global memory."""

    word, stream_kind, ways = "read", StreamKind.GLOBAL, (Space.GLOBAL, Space.REGISTERS)


MOVES: dict[str, type[Move]] = {kind.word: kind for kind in (Load, Fetch, Write, Copy, Read)}
TILE_WRITES = (Load, Write, Copy)
LOADS = (*TILE_WRITES, Fetch)
READS = (Read, Take)  # what fills register tiles


# ---------------------------------------------------------------- on sums


@dataclass(frozen=True)
class OfSums(Op):
    """An operation on fragments of sums, `rows` by `cols`."""

    rows: tuple[int, ...]
    cols: tuple[int, ...]

    @property
    def sums(self) -> Region:
        """These of all products."""
        return region(Space.SUMS, "", 0, self.rows, self.cols)


@dataclass(frozen=True)
class Zero(OfSums):
    """Sums = 0."""

    word: ClassVar[str] = "zero"

    @property
    def writes(self) -> tuple[Region, ...]:
        """The sums."""
        return (self.sums,)

    def __str__(self) -> str:
        return f"{self.word} ({indices(self.rows)}, {indices(self.cols)})"


@dataclass(frozen=True)
class Multiply(Op):
    """Adds the product of the tiles `left` and `right`, or boxes of them, to sums; `fresh`: to zero.

    `layouts` is of whole tiles: ABt for a transposed right one.
    """

    word: ClassVar[str] = "multiply"
    stream_kind: ClassVar[StreamKind | None] = StreamKind.PRODUCTS
    left: Region
    right: Region
    into: Region
    layouts: str = ""
    fresh: bool = False

    @classmethod
    def of(
        cls,
        factors: tuple[str, str],
        rows: tuple[int, ...],
        cols: tuple[int, ...],
        slices: tuple[int, ...],
        offset: int = 0,
        product: str = "",
        span: Span | None = None,
    ) -> Self:
        """The multiply of fragments `rows` of the left factor by `cols` of the right one."""
        left, right = (
            region(Space.REGISTERS, name, offset, fragments, slices)
            for name, fragments in zip(factors, (rows, cols), strict=True)
        )
        return cls(left, right, region(Space.SUMS, product), span=span)

    @property
    def product(self) -> str:
        """The name of its sums, "" where there is one product."""
        return self.into.name

    @property
    def rows(self) -> tuple[int, ...]:
        """Fragments of the left factor, rows of the sums."""
        return self.left.fragments

    @property
    def cols(self) -> tuple[int, ...]:
        """Fragments of the right factor, columns of the sums."""
        return self.right.fragments

    @property
    def slices(self) -> tuple[int, ...]:
        """Slices of both factors."""
        return self.left.slices

    @property
    def leading(self) -> Region:
        """A factor."""
        return self.left

    def moved(self, at: str, by: int) -> Self:
        """The same multiply of tiles `by` K-steps further on."""
        return replace(self, left=self.left.moved(at, by), right=self.right.moved(at, by))

    @property
    def sums(self) -> Region:
        """The sums to which it adds: of boxes rows and columns of fragments."""
        return region(Space.SUMS, self.product, 0, self.rows, self.cols) if self.rows else self.into

    @property
    def reads(self) -> tuple[Region, ...]:
        """Both factors, and the sums."""
        return (self.left, self.right, *([] if self.fresh else [self.sums]))

    @property
    def writes(self) -> tuple[Region, ...]:
        """The sums."""
        return (self.sums,)

    def __str__(self) -> str:
        parts = f"({indices(self.rows)}, {indices(self.cols)}; {indices(self.slices)})"
        return f"{self.word} {self.product}[{self.left.step}]{parts}"


@dataclass(frozen=True)
class OfRound(OfSums):
    """An operation of a round of reductions.

    `ring` is where partial results pass through shared memory, "" where they do not. `inputs` are the tensors that the
    equations up to there read.
    """

    round: int
    ring: str = ""
    inputs: tuple[str, ...] = ()
    exchange: int = 0

    @property
    def leading(self) -> Region | None:
        """The partial results: their instances are counted by exchanges."""
        return next(iter(self.partial), None)

    @property
    def partial(self) -> tuple[Region, ...]:
        """The partial results in shared memory."""
        return (replace(region(Space.SHARED, self.ring, self.exchange), at=""),) if self.ring else ()

    @property
    def operand(self) -> str:
        """The ring."""
        return self.ring

    def __str__(self) -> str:
        return f"{self.word} {self.round}"


@dataclass(frozen=True)
class Reduce(OfRound):
    """Sums -> a number for each row or column of the wave; to shared memory where waves share these."""

    word: ClassVar[str] = "reduce"

    @property
    def reads(self) -> tuple[Region, ...]:
        """The sums, and the tensors of the epilogue."""
        return (self.sums, *_global(self.inputs))

    @property
    def writes(self) -> tuple[Region, ...]:
        """The partial results."""
        return self.partial


@dataclass(frozen=True)
class Gather(OfRound):
    """The numbers of all waves of these rows or columns <- shared memory."""

    word: ClassVar[str] = "gather"

    @property
    def reads(self) -> tuple[Region, ...]:
        """The partial results."""
        return self.partial


@dataclass(frozen=True)
class Store(OfSums):
    """Sums -> epilogue, which reads `inputs` -> `outputs`."""

    word: ClassVar[str] = "store"
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[Region, ...]:
        """The sums, and the tensors of the epilogue."""
        return (self.sums, *_global(self.inputs))

    @property
    def writes(self) -> tuple[Region, ...]:
        """The outputs."""
        return _global(self.outputs)

    def __str__(self) -> str:
        return f"{self.word} ({indices(self.rows)}, {indices(self.cols)})"


def _global(tensors: tuple[str, ...]) -> tuple[Region, ...]:
    return tuple(region(Space.GLOBAL, name) for name in tensors)


SHARED_WRITES = (*TILE_WRITES, Reduce)
SHARED_READS = (Read, Gather)


# ---------------------------------------------------------------- on what lanes and waves have made


@dataclass(frozen=True)
class ElementLoop(Op):
    """Every lane does sweep `number` with its elements, which are its own."""

    number: int


@dataclass(frozen=True)
class SharedStore(Op):
    """A wave's part of result `number`, such as what a sweep reduces of its elements, to shared memory."""

    stream_kind: ClassVar[StreamKind | None] = StreamKind.SHARED
    number: int
    to: Region

    @property
    def writes(self) -> tuple[Region, ...]:
        """Its part."""
        return (self.to,)


@dataclass(frozen=True)
class SharedLoad(Op):
    """All waves' parts of result `number`, from shared memory."""

    stream_kind: ClassVar[StreamKind | None] = StreamKind.SHARED
    number: int
    source: Region

    @property
    def reads(self) -> tuple[Region, ...]:
        """The parts."""
        return (self.source,)


class Vote(SharedStore):
    """This wave's vote on condition `number`, for the others."""


class Share(SharedStore):
    """This wave's part of the tile of exchange `number`, for the others."""


@dataclass(frozen=True)
class Equations(Compute):
    """Operations `first` to `last` - 1 of the iteration's equations.

    The last one may be a product, the first one a condition: they read tiles of shared memory. `ahead`: of the
    iteration after this one, which then finds them done. `part`: of `parts` equal ones along the rows of their tiles.
    """

    stream_kind: ClassVar[StreamKind | None] = StreamKind.SHARED
    first: int = 0
    last: int = 0
    ahead: int = 0
    part: int = 0
    parts: int = 1


# ---------------------------------------------------------------- without data


@dataclass(frozen=True)
class Barrier(Control):
    """All waves of the block arrive, and wait for all; a wave's own `drains` are complete then."""

    word: ClassVar[str] = "barrier"
    drains: tuple[StreamKind, ...] = ()


@dataclass(frozen=True)
class Priority(Control):
    """With which priority the wave issues."""

    word: ClassVar[str] = "priority"
    level: int

    def __str__(self) -> str:
        return f"{self.word} {self.level}"


@dataclass(frozen=True)
class Mix(Control):
    """A wish for the order of instructions: no order of accesses relies on it.

    `pattern`: kinds of operations, with how many instructions of each stand together; `times` such patterns.
    """

    word: ClassVar[str] = "mix"
    pattern: tuple[tuple[str, int], ...]
    times: int

    def __str__(self) -> str:
        return f"{self.word} ({', '.join(f'{kind} {size}' for kind, size in self.pattern)}) x {self.times}"


class Fence(Control):
    """The compiler moves nothing across."""

    word = "fence"


class CatchUp(Control):
    """The barriers that waves of an earlier phase pass until all are level."""

    word = "catch up"


def indices(values: tuple[int, ...]) -> str:
    """`0..3` for a run, `0,2` otherwise."""
    if len(values) > 1 and values == tuple(range(values[0], values[-1] + 1)):
        return f"{values[0]}..{values[-1]}"
    return ",".join(map(str, values))


Bodies: TypeAlias = Mapping[str, tuple[Op, ...]]  # role -> the operations of an iteration in order, steps relative to k


def barriers(nodes: Iterable[Node]) -> int:
    """The number of barriers among nodes."""
    return sum(isinstance(node, Barrier) for node in nodes)


def numbered(ops: Iterable[Op], first: int = 0) -> tuple[Op, ...]:
    """The operations of an iteration with a number each, from `first` on."""
    return tuple(replace(op, identity=number) for number, op in enumerate(ops, first))


@dataclass(frozen=True)
class Cluster:
    """A line of a written schedule: operations that the compiler keeps between its ends.

    `paced`: it ends with a barrier, unless barriers are placed automatically.
    """

    ops: tuple[Op, ...]
    paced: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Schedule:
    """The `schedule` clause that a role follows: the name of one that tkgen makes, or clusters as written.

    `barriers` and `waits` say that tkgen places these. `prologue` and `drain` stand before and after the loop where
    the spec writes them; else they are made of the loop's. Two roles follow one clause iff its spans are equal.
    """

    preset: str | None
    barriers: bool
    waits: bool
    clusters: tuple[Cluster, ...]
    span: Span
    preset_span: Span | None = field(default=None, compare=False, repr=False)
    prologue: tuple[Cluster, ...] = ()
    drain: tuple[Cluster, ...] = ()

    @property
    def drained(self) -> tuple[int, ...]:
        """The K-steps that the drain multiplies, counted from after the last, in order."""
        return tuple(sorted({op.offset for c in self.drain for op in c.ops if isinstance(op, Multiply)}))
