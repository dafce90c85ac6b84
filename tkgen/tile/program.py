"""The tile program of a block: its roles, and what each does, in order, as ops that say what they touch.

    Block     roles, and the barriers at which they meet
    Role      the warps that execute one body: one thread of them, or groups of warps, each with a number
    nodes     Tiles | Loop | If      what holds other nodes
              ops                    what touches tiles, or waits
              Text                   C++ that touches nothing of this

One program is proven (`tkgen.tile.unroll` makes a `tkgen.proof.program` of it), printed as C++ by the back end of its
machine, and shown by `--print-after schedule`. So each index is an expression in one notation, which is evaluated there
and printed here (`tkgen.tile.expressions`).

**Rings and cursors.** A ring is a tile with slots that are used in turn. A `Cursor` counts the instances of a ring: its
slot is `count % slots`, and the number of its rounds is the phase of the slot's barriers, of which waits know only the
parity. A fresh slot counts as free: a wait for a free slot begins with the other parity (`start`).
Other rings, registers among them, count the instances by what is written: each write is the next one.

**Who.** An op is every warp's, or one thread's: of lane 0 of each warp, or of the first thread of a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, NamedTuple, Self, TypeAlias

from tkgen.source import Span

K, END = "k", "steps"  # cursors of K-steps: that of the loop's iteration, and the one after the last


class Scope(Enum):
    """The unit of a block that has its own copy of a tile."""

    BLOCK = "block"
    GROUP = "group"
    WARP = "warp"


class Space(Enum):
    """A place of data."""

    GLOBAL = "global"
    SHARED = "shared"
    STAGING = "staging"  # registers on the way to shared memory
    REGISTERS = "registers"  # tiles that are multiplied
    SUMS = "sums"  # accumulators


class StreamKind(Enum):
    """Kinds of asynchronous operations: a stream of a machine completes one of them."""

    GLOBAL = "global"  # accesses of a wave to global memory
    SHARED = "shared"  # and to shared memory
    COPIES = "copies"  # tiles that the copy engine brings
    STORES = "stores"  # and takes away
    PRODUCTS = "products"


class Who(Enum):
    """The threads of a group that execute an op."""

    ALL = "all"
    LANE = "lane 0 of each warp"
    FIRST = "the first thread"


@dataclass(frozen=True)
class Ring:
    """A tile with `slots`, each of `parts` that are written apart; `cpp` is its name in C++.

    In shared memory it has a `type`, and is an array of these `extents`. `number` is of the first of an array of rings,
    of which a region's part is one. The warps of a role write a tile that is `dealt` together: each kind of op
    divides it in another way. Of a tile with a `share` each block of a cluster copies a part of that type, for all.
    `boxes` is a local that says what is copied of a tile: fewer rows, where the tensor ends within it; all parts are
    copied as one tile of type `whole`.
    """

    name: str
    cpp: str = ""
    slots: str = "1"
    parts: str = ""
    scope: Scope = Scope.BLOCK
    type: str = ""
    extents: tuple[str, ...] = ()
    remark: str = ""
    number: str = ""
    space: Space = Space.SHARED
    dealt: bool = False
    share: str = ""
    boxes: str = ""
    whole: str = ""

    def __hash__(self) -> int:
        return hash((self.name, self.space))


@dataclass(frozen=True)
class Region:
    """The part of a ring that an op touches: all of the tile in slot `at`, or `count` parts of it from `part` on.

    `at` is a cursor, a place that was kept (`Keep`), or an expression; empty where there is one slot. The tile is
    `ahead` instances further on than the cursor. `own`: the part of the warp that touches it, not named in its C++.
    `alias`: a name that it has there (`Bind`). `box`: these fragments and slices, () being all; of sums, rows and
    columns of fragments.
    """

    ring: Ring
    at: str = ""
    part: str = ""
    own: bool = False
    alias: str = ""
    ahead: int = 0
    count: str = "1"
    box: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def name(self) -> str:
        """That of its tile."""
        return self.ring.name

    @property
    def space(self) -> Space:
        """The space of its tile."""
        return self.ring.space

    @property
    def step(self) -> str:
        """Its K-step in words."""
        return f"{self.at}{self.ahead:+d}" if self.at and self.ahead else self.at or str(self.ahead)

    def moved(self, at: str, by: int) -> Region:
        """The same `by` instances further on, counted from another one."""
        return replace(self, at=at, ahead=self.ahead + by)

    @property
    def fragments(self) -> tuple[int, ...]:
        """Fragments of an operand."""
        return self.box[0]

    @property
    def slices(self) -> tuple[int, ...]:
        """Slices of an operand."""
        return self.box[1]


@dataclass(frozen=True)
class Cursor:
    """A position in a ring. `start` is the parity of the first wait, 1 for a slot that counts as complete."""

    name: str
    phase_name: str
    slots: str = "1"
    start: str = "0"


@dataclass(frozen=True)
class Flags:
    """A barrier in shared memory for each slot of a ring: a phase is complete after `arrivals`, and its bytes."""

    name: str
    cpp: str
    arrivals: str
    slots: str = "1"


@dataclass(frozen=True)
class Named:
    """Hardware barriers, one for each group, numbered from `first` on, of so many `warps`.

    `apart`: some arrive there without waiting. `cpp` is the group of warps whose functions are called.
    """

    name: str
    cpp: str
    first: str
    warps: str
    apart: bool = False


# ---------------------------------------------------------------- ops


@dataclass(frozen=True, kw_only=True)
class Op:
    """An operation: its threads, its condition, its name in schedules, its place in the spec.

    `identity` tells the operations of an iteration apart wherever they are clipped to, one for what roles of one clause
    share; -1 for what is of no iteration. An asynchronous op completes on the machine's stream of its `stream_kind`,
    if there is one, which counts it as at least `units`.
    """

    word: ClassVar[str] = ""
    stream_kind: ClassVar[StreamKind | None] = None
    who: Who = Who.ALL
    when: str = ""
    remark: str = ""
    identity: int = field(default=-1, compare=False, repr=False)
    units: int = field(default=1, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def reads(self) -> tuple[Region, ...]:
        """Regions that it reads."""
        return ()

    @property
    def writes(self) -> tuple[Region, ...]:
        """Regions that it writes."""
        return ()

    @property
    def operand(self) -> str:
        """The name of the tile that it moves, "" if it moves none."""
        return ""

    @property
    def leading(self) -> Region | None:
        """The region whose K-step is that of the op."""
        return None

    @property
    def at(self) -> str:
        """The K-step from which its own is counted: the first one (""), the loop's (`K`) or the end (`END`)."""
        return self.leading.at if self.leading else ""

    @property
    def offset(self) -> int:
        """Its K-step, counted from there."""
        return self.leading.ahead if self.leading else 0

    def moved(self, at: str, by: int) -> Self:
        """The same op `by` K-steps further on, counted from another one."""
        return self

    def __str__(self) -> str:
        return self.word or repr(self)

    def step_of(self, region: Region, step: int) -> int:
        """The K-step of one of its regions, where `step` is its own."""
        return step + region.ahead - self.offset

    def same(self, other: Op) -> bool:
        """Return True if both are one operation of the iteration."""
        return self.identity == other.identity >= 0


@dataclass(frozen=True)
class Await(Op):
    """Wait until the slot at `cursor` is what `flags` say: full, or empty.

    `at` is the slot where it is not the cursor's: of barriers that are no ring, but each a group's.
    """

    flags: Flags
    cursor: Cursor
    at: str = ""


@dataclass(frozen=True)
class Arrive(Op):
    """One arrival for slot `at`; `everywhere`: in each block of the cluster."""

    flags: Flags
    at: str = ""
    everywhere: bool = False


@dataclass(frozen=True)
class Expect(Op):
    """One arrival for slot `at`, and as many bytes as these tiles have, each with all its parts."""

    flags: Flags
    tiles: tuple[Region, ...]
    at: str = ""


@dataclass(frozen=True)
class CopyIn(Op):
    """A tile from global memory by the copy engine, which delivers its bytes to slot `at` of `flags`.

    Of a tile with a share that is the block's own one, in each block of the cluster.
    """

    stream_kind: ClassVar[StreamKind | None] = StreamKind.COPIES
    to: Region
    tensor: str
    coord: str
    axis: str
    flags: Flags
    at: str = ""


@dataclass(frozen=True)
class Control(Op):
    """An operation that touches no data; `automatic` where tkgen placed it."""

    automatic: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Drain(Control):
    """Wait until at most `left` operations, or groups, of a stream of the machine are under way.

    `reads_only`: those may still write.
    """

    word: ClassVar[str] = "wait"
    stream: str
    left: str = "0"
    reads_only: bool = False

    @property
    def count(self) -> int:
        """`left` as a number."""
        return int(self.left)

    def __str__(self) -> str:
        return f"{self.word} {self.stream} {self.left}"


@dataclass(frozen=True)
class Pin(Op):
    """The compiler moves nothing that touches these registers across."""

    tiles: tuple[Region, ...]


@dataclass(frozen=True)
class Compute(Op):
    """A function of tiles and of the values `of` expressions, in words. The back end makes its C++."""

    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()
    function: str = ""
    of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bind(Op):
    """A name in C++ for a tile of shared memory, as one of `type`; `cast` where that is not its own."""

    tile: Region
    type: str
    cast: bool = False


@dataclass(frozen=True)
class StoreRows(Op):
    """The rows of a warp's part of a tile of shared memory to global memory, or `adds` them there, by the warp.

    `chunks` are the template arguments of the function that does it.
    """

    source: Region
    tensor: str
    place: str
    chunks: str = ""
    adds: bool = False


@dataclass(frozen=True)
class StoreValues(Op):
    """Registers to `coord` of a tensor, by the warp that has them. The back end makes its C++."""

    values: tuple[Region, ...]
    tensor: str
    coord: str


@dataclass(frozen=True)
class CopyOut(Op):
    """A tile of shared memory to global memory by the copy engine: one group."""

    stream_kind: ClassVar[StreamKind | None] = StreamKind.STORES
    source: Region
    tensor: str
    coord: str
    axis: str
    function: str = "store_async"


@dataclass(frozen=True)
class Sync(Op):
    """Arrive at the barrier with this number, and wait for all."""

    barrier: Named
    number: str


@dataclass(frozen=True)
class Join(Op):
    """Arrive there without waiting."""

    barrier: Named
    number: str


@dataclass(frozen=True)
class Advance(Op):
    """The cursor goes on to the next instance, or by this number."""

    cursor: Cursor
    by: str = "1"


@dataclass(frozen=True)
class Keep(Op):
    """The present place of a cursor, under a name. `fresh`: the name is new."""

    name: str
    cursor: Cursor
    fresh: bool = True


@dataclass(frozen=True)
class Let(Op):
    """Constants of the scope, each a name and an expression, all of a `type` of C++."""

    constants: tuple[tuple[str, str], ...]
    type: str = "int"


# ---------------------------------------------------------------- structure


@dataclass(frozen=True)
class Text:
    """C++ of an op, or of none: declarations, comments."""

    lines: tuple[str, ...]
    does: Op | None = None


@dataclass(frozen=True)
class Loop:
    """`body` for each value of `name` from `first` to before `count`. `unroll`: what the compiler is told of it.

    With `by` more than one the body is executed for as many values at once, while there are as many, and `name` goes on
    after the loop, where it was declared before it.
    """

    name: str
    count: str
    body: tuple[Node, ...]
    first: str = "0"
    by: int = 1
    unroll: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Tiles:
    """`body` for each output tile of a block; `head` are the lines of C++ that go through them."""

    head: tuple[str, ...]
    body: tuple[Node, ...]


@dataclass(frozen=True)
class If:
    """One of two bodies, by a condition that is the same for all threads."""

    condition: str
    then: tuple[Node, ...]
    other: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Scoped:
    """Nodes in a separate scope."""

    body: tuple[Node, ...]


Node: TypeAlias = Op | Text | Loop | Tiles | If | Scoped


class Part(Enum):
    """A part of a role: before what it repeats, in that, and after it."""

    PROLOGUE = "prologue"
    BODY = "body"
    EPILOGUE = "epilogue"


class Place(NamedTuple):
    """The place of an op: a part of a role, and the position in it."""

    part: Part
    number: int


@dataclass(frozen=True)
class Role:
    """A body for one thread, for `warps` alike, for `groups` of these, or for those with the numbers `waves`.

    Nodes `before` and `behind` its tiles are executed once. Waves of a `phase` pass so many barriers first, and run
    that far behind; all others pass as many at the end.

    `cursors` begin at the first instance. `registers` of a lane, where warps of a role give some up or take more.
    `groups_before` are those of the block that come before its own.
    """

    name: str
    cursors: tuple[Cursor, ...]
    before: tuple[Node, ...]
    tiles: Tiles
    behind: tuple[Node, ...] = ()
    groups: str = ""
    warps: str = ""
    groups_before: str = "0"
    registers: int = 0
    remark: str = ""
    waves: tuple[int, ...] = ()
    phase: int = 0

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All of its nodes."""
        return (*self.before, self.tiles, *self.behind)

    @property
    def parts(self) -> tuple[tuple[Node, ...], ...]:
        """Its nodes by part."""
        return self.before, self.tiles.body, self.behind

    def ops(self, part: Part) -> tuple[Op, ...]:
        """The ops of a part."""
        return tuple(ops(dict(zip(Part, self.parts, strict=True))[part]))

    def op(self, place: Place) -> Op:
        """The op at a place."""
        return self.ops(place.part)[place.number]

    def with_ops(self, part: Part, changed: Iterable[Op]) -> Role:
        """The role with other ops in a part."""
        nodes = zip(Part, self.parts, strict=True)
        before, body, behind = (tuple(changed) if p is part else same for p, same in nodes)
        return replace(self, before=before, tiles=replace(self.tiles, body=body), behind=behind)


@dataclass(frozen=True)
class Block:
    """The roles of a block, its barriers in the order of their declaration, and its rings.

    `cluster` is the number of blocks of its cluster, each with a `rank`. Of several blocks all threads meet
    after the first thread of each has set up its flags, and before any block ends.
    """

    roles: tuple[Role, ...]
    flags: tuple[Flags, ...]
    barriers: tuple[Named, ...]
    rings: tuple[Ring, ...]
    cluster: str = "1"


def ops(nodes: tuple[Node, ...]) -> Iterator[Op]:
    """All ops among nodes, in the order of the text."""
    for node in nodes:
        match node:
            case Op():
                yield node
            case Text(does=Op() as op):
                yield op
            case Loop(body=body) | Tiles(body=body) | Scoped(body=body):
                yield from ops(body)
            case If(then=then, other=other):
                yield from ops(then)
                yield from ops(other)
