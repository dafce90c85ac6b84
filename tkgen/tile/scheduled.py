"""A kernel's tile program with the values of its constants, and what a block of it takes: for people to look at.

    Scheduled    the program, and how ops read that say too little by themselves
    Step         an op of a role, the loops around it, and what it waits for
    Footprint    buffers of shared memory, registers over the program, the owners of the block's output

`--print-after schedule`, `tkgen graph` and reports show these of every kernel, on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tkgen.source import Span
from tkgen.tile.expressions import evaluate, renamed
from tkgen.tile.ops import Barrier, Load, SharedLoad, SharedStore, Write
from tkgen.tile.program import (
    Advance,
    Arrive,
    Await,
    Bind,
    Block,
    Compute,
    CopyIn,
    CopyOut,
    Drain,
    Expect,
    Flags,
    If,
    Join,
    Keep,
    Let,
    Loop,
    Node,
    Op,
    Part,
    Pin,
    Role,
    Scoped,
    StoreRows,
    StoreValues,
    Sync,
    Text,
    Tiles,
    ops,
)
from tkgen.tile.text import Lines, block_text, op_text

SILENT = (Let, Keep, Bind, Advance, Pin)  # they name or count something, or hold the compiler, and do nothing


@dataclass(frozen=True)
class Line:
    """A line of what an op does: its text, its action in a word, its place in the spec."""

    text: str
    action: str
    span: Span | None


def plain(op: Op) -> None:
    """None: an op reads as everywhere."""


@dataclass(frozen=True)
class Scheduled:
    """The program of a block whose constants have these `values`, `head` being its layout in a line.

    Of ops that say too little by themselves, `lines` are as `--print-after` shows them, `written` as the spec says it.
    """

    head: str
    block: Block
    values: Mapping[str, int]
    lines: Lines = plain
    written: Callable[[Op], Iterable[Line] | None] = plain

    @property
    def text(self) -> str:
        """The program as text."""
        return "\n".join(filter(None, (self.head, block_text(self.block, self.values, self.lines))))

    def agents(self, role: Role) -> tuple[int, ...]:
        """The numbers of the waves of a role in the block; of one thread its warp alone."""
        if role.waves:
            return role.waves
        of_group = evaluate(role.warps or "WARPGROUP_WARPS", self.values)
        first = evaluate(role.groups_before, self.values) * of_group
        return tuple(range(first, first + (of_group * evaluate(role.groups or "1", self.values) if role.warps else 1)))

    def steps(self, role: Role) -> Iterator[Step]:
        """The ops of a role in order, without those that only name something."""
        for part, nodes in zip(Part, role.parts, strict=True):
            yield from self._steps(role, part, nodes, ())

    def _steps(self, role: Role, part: Part, nodes: Sequence[Node], within: tuple[str, ...]) -> Iterator[Step]:
        for node in nodes:
            match node:
                case Loop(name=name, first=first, count=count, body=body):
                    title = self._named(f"loop {name} from {first} to {count}")
                    yield from self._steps(role, part, body, (*within, title))
                case If(condition=condition, then=then, other=other):
                    yield from self._steps(role, part, then, (*within, self._named(f"if {condition}")))
                    yield from self._steps(role, part, other, (*within, self._named(f"unless {condition}")))
                case Scoped(body=body) | Tiles(body=body):
                    yield from self._steps(role, part, body, within)
                case Text(does=Op() as op):
                    yield from self._steps(role, part, (op,), within)
                case Op() if not isinstance(node, SILENT):
                    around = (*within, self._named(f"if {node.when}")) if node.when else within
                    own, waits = self.written(node), self.waits_for(role, node)
                    for line in own if own is not None else (Line(op_text(node), action_of(node), node.span),):
                        if line.text:
                            yield Step(part, around, self._named(line.text), line.action, node, waits, line.span)

    def _value(self, expression: str) -> str:
        """An expression as a number, where constants decide it."""
        try:
            return str(evaluate(expression, self.values))
        except KeyError:
            return self._named(expression)

    def _named(self, text: str) -> str:
        """A text with the values of constants in the place of their names."""
        return renamed(text, {name: str(value) for name, value in self.values.items()})

    def waits_for(self, role: Role, op: Op) -> str:
        """The role that an op waits for, and the event: empty where it does not wait."""
        match op:
            case Await(flags=flags):
                who = " and ".join(self._arriving(flags)) or "nobody"
                return f"{who}: {flags.name}"
            case Sync(barrier=barrier):
                every = (o for r in self.block.roles for o in ops(r.nodes))
                joined = any(isinstance(o, Join) and o.barrier == barrier for o in every)
                return f"{evaluate(barrier.warps, self.values)} warps{': arrivals of the group before' * joined}"
            case Barrier():
                return "all waves"
            case Drain(stream=stream, left=left):
                most = left if left == "0" else self._value(left)
                return f"itself: {stream}{f', all except the last {most}' * (most != '0')}"
            case Load():
                return "itself: the tile"
            case Write() if role.waves:
                return "itself: the fetched tile"
        return ""

    def _arriving(self, flags: Flags) -> Iterator[str]:
        """The roles that arrive at a barrier, or deliver bytes to it."""
        for role in self.block.roles:
            if any(isinstance(op, Arrive | Expect | CopyIn) and op.flags == flags for op in ops(role.nodes)):
                yield role.name


ACTIONS: Mapping[type[Op], str] = {
    CopyIn: "copy", CopyOut: "store", StoreRows: "store", StoreValues: "store", Compute: "map", Sync: "barrier",
    Await: "wait", SharedStore: "write", SharedLoad: "read",
}  # fmt: skip


def action_of(op: Op) -> str:
    """The action of an op in a word."""
    return op.word or next((word for kind, word in ACTIONS.items() if isinstance(op, kind)), "signal")


@dataclass(frozen=True)
class Step:
    """An op of a role: its part, the loops and conditions `within` which it is, its text, what it `waits` for."""

    part: Part
    within: tuple[str, ...]
    text: str
    action: str
    op: Op
    waits: str
    span: Span | None


# ---------------------------------------------------------------- what a block takes


@dataclass(frozen=True)
class Buffer:
    """A tile of shared memory in `slots`, each of `bytes`; its shape and type in words."""

    name: str
    bytes: int
    slots: int = 1
    shape: str = ""


@dataclass(frozen=True)
class Share:
    """`registers` of a lane for `what`, in words."""

    what: str
    registers: int


@dataclass(frozen=True)
class Moment:
    """A point of a role's program, and the registers of a lane that hold something there."""

    text: str
    action: str
    segment: str
    shares: tuple[Share, ...]

    @property
    def total(self) -> int:
        """All of them together."""
        return sum(share.registers for share in self.shares)


@dataclass(frozen=True)
class RoleMoments:
    """The registers of a lane of a role over its program; altogether it `needs` these, addresses counted.

    `budget` is the most that it may have. A role that does not compute reserves registers on another one's account.
    """

    role: str
    moments: tuple[Moment, ...]
    needs: int
    budget: int
    computes: bool = True


@dataclass(frozen=True)
class Fragment:
    """The cell (`row`, `col`) of a block's output: its owner, a wave by its number, and which `part` of its own."""

    row: int
    col: int
    wave: int
    part: str = ""


@dataclass(frozen=True)
class Reads:
    """The reads of an operand by the waves, in an iteration.

    Its tile is cut into `count` subtiles of `extent` elements along the block's rows, or columns, and `slices` of
    `slice` elements along the other axis. `readers[s]` are the waves that read subtile s, in every slice.
    """

    name: str
    along_rows: bool
    extent: int
    slice: int
    count: int
    slices: int
    readers: tuple[tuple[int, ...], ...]

    @property
    def times_read(self) -> float:
        """The number of times that a byte of the tile is read from shared memory, on average."""
        return sum(map(len, self.readers)) / self.count if self.count else 0.0


@dataclass(frozen=True)
class Ownership:
    """The output tile of a block, `block` elements, in rows and columns of cells that begin at these elements.

    `how` says how they lie, in words. A large tile is shown in part, `whole` is False then.
    """

    output: str
    block: tuple[int, int]
    rows: tuple[int, ...]
    cols: tuple[int, ...]
    fragments: tuple[Fragment, ...]
    how: str
    reads: tuple[Reads, ...] = ()
    whole: bool = True


@dataclass(frozen=True)
class Footprint:
    """The part of its machine that a block takes, as predicted.

    `memory` is what the machine calls shared memory, of which a block has `capacity` bytes. A wave of `wave_size` lanes
    gets registers in `granule`s; its budget is for `sharing` waves in a part of a compute unit. All waves get as many
    as the neediest, but where roles hand registers to each other: `moved`. A compute unit has `resident` blocks.
    """

    memory: str
    capacity: int
    buffers: tuple[Buffer, ...]
    registers: tuple[RoleMoments, ...]
    ownership: Ownership
    wave_size: int
    granule: int
    resident: int
    sharing: int
    moved: bool = False

    @property
    def used(self) -> int:
        """Bytes of shared memory."""
        return sum(b.bytes * b.slots for b in self.buffers)

    def reserved(self, registers: int) -> int:
        """Registers of a lane that a wave gets which needs this number."""
        return -(-max(registers, 1) // self.granule) * self.granule


def together(shares: Iterable[Share]) -> tuple[Share, ...]:
    """Shares of more than nothing, those for the same put together."""
    found: dict[str, int] = {}
    for share in shares:
        found[share.what] = found.get(share.what, 0) + share.registers
    return tuple(Share(what, registers) for what, registers in found.items() if registers)
