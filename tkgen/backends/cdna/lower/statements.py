"""The statements of a wave as data; `templates/statements.jinja` has a macro for each, called as its class says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from tkgen.backends.cdna.lower.origins import NOWHERE, Origins, Performed


@dataclass(frozen=True)
class Call:
    """A call of a function of sync.cuh, which no access to memory crosses."""

    function: Literal["barrier", "lds_barrier", "fence", "settle", "begin_pass"]
    macro: ClassVar = "call"


@dataclass(frozen=True)
class Wait:
    """`s_waitcnt` with that immediate; `comment` says what it means."""

    immediate: str
    comment: str
    macro: ClassVar = "wait"


@dataclass(frozen=True)
class Priority:
    """`s_setprio`."""

    level: int
    macro: ClassVar = "priority"


# Kinds of instructions as `__builtin_amdgcn_sched_group_barrier` masks them (LLVM AMDGPUUsage), and their names.
MIXED = {"compute": ("0x2", "vector instructions"), "multiply": ("0x8", "MFMA"), "fetch": ("0x20", "global reads"),
         "read": ("0x100", "LDS reads"), "write": ("0x200", "LDS writes")}  # fmt: skip


@dataclass(frozen=True)
class Mix:
    """`sched_group_barrier` for each of `pattern`: mask of the instructions' kind, how many, and what they are."""

    pattern: tuple[tuple[str, int, str], ...]
    macro: ClassVar = "mix"


@dataclass(frozen=True)
class Zero:
    """A register tile of zeros."""

    tile: str
    macro: ClassVar = "zero"


@dataclass(frozen=True)
class AsNumbers:
    """A register tile of floats = one of sums that are whole numbers."""

    tile: str
    sums: str
    macro: ClassVar = "as_numbers"


@dataclass(frozen=True)
class Read:
    """`function`, `load` or ours: part (row, col), of `rows` x `cols` elements, of a tile in LDS to a register tile."""

    function: str
    tile: str
    rows: int
    cols: int
    shared: str
    row: str
    col: str
    macro: ClassVar = "read"


@dataclass(frozen=True)
class ReadMade(Read):
    """A read of bytes with `value`, which `inner` lines compute of each `element`, in its place.

    `outer` lines are of a row of the tile, number `place` of those along the rows or columns of the output (`along`),
    and of each block of it where it has several. `traits` are the template arguments of `load_made`, `kind` the type of
    `element`: `auto` where the lines take several elements at once as well.
    """

    place: str
    along: Literal["row", "col"]
    outer: tuple[str, ...]
    inner: tuple[str, ...]
    value: str
    traits: tuple[str, ...]
    blocks: bool
    kind: str
    macro: ClassVar = "read_made"


@dataclass(frozen=True)
class Take:
    """Tile (row, col) of a tensor in global memory to a register tile.

    `how`: template arguments, where it may hang over the end.
    """

    tile: str
    tensor: str
    row: str
    col: str
    how: str
    macro: ClassVar = "take"


@dataclass(frozen=True)
class Multiply:
    """`function(acc, a, b, acc)`; behind these the scales of the blocks of a and of b, where they have some."""

    function: str
    acc: str
    a: str
    b: str
    scales: tuple[str, ...] = ()
    macro: ClassVar = "multiply"


@dataclass(frozen=True)
class ScaledMultiply:
    """`function(product, a, b, 0)`, then each element of `acc` from what it was and from that of the product."""

    function: str
    type: str
    acc: str
    a: str
    b: str
    row: str
    col: str
    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    value: str
    macro: ClassVar = "scaled_multiply"


@dataclass(frozen=True)
class Prefill:
    """The offsets at which lanes of a group load a tile straight to LDS. `masked`: tiles may hang over the end."""

    group: int
    shared: str
    tensor: str
    offsets: str
    masked: bool
    macro: ClassVar = "prefill"


@dataclass(frozen=True)
class GatherRows:
    """Where the rows of tile `row` lie in `tensor`: at what `places` holds there; for each chunk of a lane."""

    group: int
    shared: str
    rows: str
    tensor: str
    places: str
    row: str
    macro: ClassVar = "gather_rows"


@dataclass(frozen=True)
class Move:
    """A tile on its way to LDS by `group` waves, from tile (row, col) of a tensor.

    `load` waits for itself, `fetch` and `write` go through `stage`, `copy` goes straight, with `offsets`. `masked`: it
    may hang over the end; `how`: template arguments. With a `wait` it is followed by one. `rows` are the offsets of its
    rows, where these are gathered.
    """

    kind: Literal["load", "fetch", "write", "copy"]
    group: int
    shared: str
    tensor: str
    row: str
    col: str
    stage: str
    offsets: str
    masked: bool
    how: str
    wait: Wait | None = None
    rows: str = ""

    @property
    def macro(self) -> str:
        """Each kind has its own."""
        return self.kind


How = Literal["whole", "masked", "add"]  # how a tile goes to memory


@dataclass(frozen=True)
class OfElements:
    """`value`, computed by `lines` for each element of `tile`, which is tile (row, col) of a tensor.

    `parameters` are those of the lines: the element's row and column, in kernels with reductions those of the lane's
    own, too, then its `sums`. `buffers` declare what the lines address tensors by.
    """

    tile: str
    row: str
    col: str
    buffers: tuple[str, ...]
    parameters: tuple[str, ...]
    sums: tuple[str, ...]
    lines: tuple[str, ...]
    value: str


@dataclass(frozen=True)
class Keep(OfElements):
    """A value to the tile, in the place of what it held."""

    macro: ClassVar = "keep"


@dataclass(frozen=True)
class Combine(OfElements):
    """A value to a tile of `tensor`, computed into the tile, a new one where there is a `type`.

    `identity`: it is the tile already.
    """

    tensor: str
    type: str
    identity: bool
    how: How
    macro: ClassVar = "combine"


@dataclass(frozen=True)
class Results:
    """What is reduced of `fragments` fragments, of each for the `owned` rows or columns of a lane: nothing yet."""

    variable: str
    fragments: int
    owned: int
    identity: str
    macro: ClassVar = "results"


@dataclass(frozen=True)
class Fold(OfElements):
    """A value joined to `variable` by `function`.

    `inside`: the condition for elements to take part, where some may lie behind the end; `identity` stands for others.
    """

    variable: str
    function: str
    inside: str
    identity: str
    macro: ClassVar = "fold"


@dataclass(frozen=True)
class Across:
    """Results of lanes with elements of the same rows (`columns`: across them) or columns, joined."""

    variable: str
    type: str
    function: str
    direction: Literal["columns", "rows"]
    macro: ClassVar = "across"


@dataclass(frozen=True)
class Hand:
    """The results of a fragment to (`share`) or from LDS (`gather`), where `waves` waves have `extent` numbers each.

    The fragment's first is number `place` of the wave's, whose own number is `wave`; all begin at number `first`.
    """

    kind: Literal["share", "gather"]
    variable: str
    type: str
    function: str
    along: Literal["rows", "cols"]
    first: int
    wave: str
    waves: int
    extent: str
    place: str
    macro: ClassVar = "hand"


@dataclass(frozen=True)
class StoreOwned:
    """`value`, computed by `lines` for each row (or column) of a fragment that a lane owns, `stride` elements apart.

    By the waves of a `condition`. `along` is what is stored for each of: empty for a single number.
    """

    along: Literal["rows", "cols", ""]
    type: str
    to: str
    stride: str
    extent: str
    tile: str
    condition: str
    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    value: str
    macro: ClassVar = "store_owned"


@dataclass(frozen=True)
class CatchUp:
    """Barriers that waves of a condition pass until all waves are level: (condition, how many)."""

    waves: tuple[tuple[str, int], ...]
    macro: ClassVar = "catch_up"


Code = (
    Call | Wait | Priority | Mix | Zero | AsNumbers | Read | ReadMade | Take | Multiply | ScaledMultiply | Prefill
    | GatherRows | Move
    | Keep | Combine | Results | Fold | Across | Hand | StoreOwned | CatchUp
)  # fmt: skip


@dataclass(frozen=True)
class Loop:
    """`for (int variable = first; variable < first + count; ++variable)`, unrolled."""

    variable: str
    count: int
    first: int = 0


@dataclass(frozen=True)
class Statement:
    """One operation of a wave, inside of `loops`.

    `operations` are those of the schedule that it carries out.
    """

    code: Code
    loops: tuple[Loop, ...] = ()
    origin: Origins = NOWHERE
    operations: tuple[Performed, ...] = ()
