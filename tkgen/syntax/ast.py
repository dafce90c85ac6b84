"""The abstract syntax tree: what a spec file says, one frozen dataclass per statement, each with its span.

Nothing here is resolved: names are names, sizes are expressions. `tkgen.ir.resolve` turns a `Kernel`
into a typed program. `docs/language.md` shows every construct in its surface form.
"""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.source import Span


@dataclass(frozen=True)
class Node:
    """Anything that stands in a source file. The span of a kernel, a role, a loop or a schedule is its header line."""

    span: Span


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True)
class Number(Node):
    """An integer or (in `scalar` defaults and epilogue arguments only) a decimal literal."""

    value: int | float


@dataclass(frozen=True)
class Name(Node):
    """A reference to a dimension, parameter, scalar, tensor, axis or value."""

    id: str


@dataclass(frozen=True)
class Binary(Node):
    """`left op right`: op is one of + - * / % (in sizes without a remainder), in equations also @, and comparisons."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Call(Node):
    """`name(positional, keyword = value)`: a step, a remap, a grid clause, a function of sizes or in an equation;
    `fast tanh(x)` is its cheaper form, `sum(X[t - w], w in WIDTH)` goes `along` the positions of names."""

    name: Name
    args: tuple[Expr, ...] = ()
    keywords: tuple[tuple[Name, Expr], ...] = ()
    fast: bool = False
    along: tuple[AxisClause, ...] = ()


@dataclass(frozen=True)
class Unary(Node):
    """`-x` or `not x` in an equation."""

    op: str
    operand: Expr


@dataclass(frozen=True)
class Transposed(Node):
    """`K[j].T` in an equation: the two axes of a factor swapped."""

    operand: Expr


@dataclass(frozen=True)
class Access(Node):
    """`K[b, h / GROUP, j]` in an equation: a part of a tensor; dimensions that are not indexed are taken whole."""

    name: Name
    indices: tuple[Expr, ...]


Expr = Number | Name | Binary | Call | Unary | Transposed | Access


# ---------------------------------------------------------------- declarations


@dataclass(frozen=True)
class Binding(Node):
    """`name = value`; value None means `dynamic` (known only at run time; dims only)."""

    name: Name
    value: Expr | None


@dataclass(frozen=True)
class Dims(Node):
    """`dims M = 8192, N = dynamic`"""

    bindings: tuple[Binding, ...]


@dataclass(frozen=True)
class Param(Node):
    """`param ROWS = 4`: a named integer with a default, set by `-D ROWS=8`."""

    bindings: tuple[Binding, ...]


@dataclass(frozen=True)
class Global(Node):
    """`global A : bf16[M, K]`, a tensor in global memory; `order` is the word in `global W : u4[N, K] interleaved`."""

    name: Name
    dtype: Name
    shape: tuple[Expr, ...]
    order: Name | None = None


@dataclass(frozen=True)
class Scalar(Node):
    """`scalar alpha : f32 = 1.0`: a number passed at launch; default None means it must be passed."""

    name: Name
    dtype: Name
    default: Expr | None


@dataclass(frozen=True)
class Targets(Node):
    """`target gfx942, gfx90a`: the GPUs this spec is for; without it every target of the dialect."""

    names: tuple[Name, ...]


@dataclass(frozen=True)
class Block(Node):
    """`block 128 x 128 step 64`: output rows x columns of one block, contraction elements per step."""

    rows: Expr
    cols: Expr
    step: Expr


@dataclass(frozen=True)
class Remap(Node):
    """`remap xcd(8, chunk = 16) | group(rows = 4)`: block-index remaps, composed left to right."""

    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Grid(Node):
    """`grid linear`, `grid persistent(304)`, `grid split_k(4)`: how output tiles are dealt to blocks."""

    call: Call


@dataclass(frozen=True)
class Clusters(Node):
    """`clusters 2 along m`: so many blocks, neighbours along an axis of the output, share the tiles of a factor."""

    count: Expr
    along: Name | None


@dataclass(frozen=True)
class Tail(Node):
    """`tail masked` or `tail clamped`: how sizes that are not a multiple of the block are handled."""

    mode: Name


@dataclass(frozen=True)
class Waves(Node):
    """`waves 4 x 2` (rows x columns), `waves 8` (tkgen splits them), `waves 4 along t` (an axis of equations)."""

    rows: Expr
    cols: Expr | None
    along: Name | None = None


@dataclass(frozen=True)
class Occupancy(Node):
    """`occupancy 2 waves per simd`: the least occupancy the registers must allow."""

    waves_per_simd: Expr


@dataclass(frozen=True)
class Allow(Node):
    """`allow spills`, `allow slow_reads`, ...: a named check the author takes responsibility for."""

    names: tuple[Name, ...]


@dataclass(frozen=True)
class Stream(Node):
    """`stream C, ...`: what a block reads or writes of these tensors should not displace others in the caches."""

    names: tuple[Name, ...]


@dataclass(frozen=True)
class Shared(Node):
    """`shared A, B buffers 2 via registers`: operands staged in LDS. `via` is None, `collective` (a load that waits for
    itself), `registers` (fetched to staging registers early, written late) or `direct` (where the target can)."""

    names: tuple[Name, ...]
    buffers: Expr | None
    via: Name | None


@dataclass(frozen=True)
class Registers(Node):
    """`registers A, B slice 16 buffers 2`: register tiles of the operands; `slice` contraction elements each."""

    names: tuple[Name, ...]
    slice: Expr | None
    buffers: Expr | None


@dataclass(frozen=True)
class Accumulate(Node):
    """`accumulate C : f32 tile 32 x 32 interleaved`; `product` is (A, B) of `accumulate C = A * B : f32 ...`.

    `others` are the names after the first of `accumulate g, u : f32 ...`: sums of equations. `tile` is None where the
    target chooses. `arrangement` is None, `interleaved` or `blocked`. `mfma` is (rows, cols), or None.
    """

    name: Name
    others: tuple[Name, ...]
    product: tuple[Name, Name] | None
    dtype: Name
    tile: tuple[Expr, Expr] | None
    arrangement: Name | None
    mfma: tuple[Expr, Expr] | None


@dataclass(frozen=True)
class Epilogue(Node):
    """`epilogue scale(alpha) | add(C, beta) | bias(v) | gelu`: applied to the accumulator, left to right."""

    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Store(Node):
    """`store C`: write the accumulator to the tensor of that name, converted to its dtype."""

    name: Name


@dataclass(frozen=True)
class Load(Node):
    """`load A, B by 4 waves`: these operands come from global memory to LDS in collectives of `by` waves, of all where
    it is None; in a role, of its waves."""

    names: tuple[Name, ...]
    by: Expr | None = None


@dataclass(frozen=True)
class WaveRange(Node):
    """`0..3`: first and last wave, both included; a single number is its own range."""

    first: Expr
    last: Expr


@dataclass(frozen=True)
class Role(Node):
    """`role consumer waves 4..7 as 2 x 2` and its indented body; `shape` is (2, 2) or None."""

    name: Name
    waves: WaveRange
    shape: tuple[Expr, Expr] | None
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Phase(Node):
    """`phase waves 4..7 by 1 cluster`: these waves run `amount` barriers later than the others."""

    waves: WaveRange
    amount: Expr


@dataclass(frozen=True)
class Unroll(Node):
    """`unroll 2`: the steady loop handles this many steps per pass."""

    count: Expr


@dataclass(frozen=True)
class Tune(Node):
    """`tune BM in 64, 128, 256`: values `tkgen tune` may give a parameter."""

    name: Name
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Include(Node):
    """`include "common/shapes.tk"`: the statements of another file stand here."""

    path: str
    body: tuple[Statement, ...]


# ---------------------------------------------------------------- equations


@dataclass(frozen=True)
class Within(Node):
    """`within OFFSETS[g]`: of the dimension OFFSETS[g] to OFFSETS[g + 1]; `below LENGTH[g]`: its first places."""

    offsets: Name
    of: Name
    lengths: bool = False


@dataclass(frozen=True)
class AxisClause(Node):
    """`q in LENGTH by 256`: an axis of blocks; `tile` is None in `b in BATCH`, where a block has one place of it.

    A flattened axis, `(p in P, q in Q) by 128`, has `parts`; its `name` is that of all of them.
    """

    name: Name
    extent: Expr
    within: Within | None
    tile: Expr | None
    parts: tuple[AxisClause, ...] = ()


@dataclass(frozen=True)
class Over(Node):
    """`over b in BATCH, q in LENGTH by 256`: the parallel axes; each combination of their tiles is a block."""

    axes: tuple[AxisClause, ...]


@dataclass(frozen=True)
class Each(Node):
    """`each j in LENGTH by 64 from q - 512 to q` and its body: a loop over the tiles of an axis, or of a part of it.

    Tiles that end before `since` or begin after `until` are not visited. `part s` has an equal part for each place.
    Without `by`, and thus without a `tile`, an iteration has one position.
    A loop over a flattened axis has `parts`, as `AxisClause` does.
    """

    name: Name
    extent: Expr
    within: Within | None
    tile: Expr | None
    since: Expr | None
    until: Expr | None
    part: Name | None
    body: tuple[Statement, ...]
    parts: tuple[AxisClause, ...] = ()


@dataclass(frozen=True)
class When(Node):
    """`when any(CONDITION)` and its indented body: definitions for tiles that have an element of which it is true."""

    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Carried(Node):
    """`m : f32[q] = -inf`: a value that a loop hands from iteration to iteration, its axes, and what it starts with."""

    name: Name
    dtype: Name
    axes: tuple[Name, ...]
    initial: Expr


@dataclass(frozen=True)
class Carry(Node):
    """`carry m : f32[q] = -3.4e38, l : f32[q] = 0`"""

    values: tuple[Carried, ...]


@dataclass(frozen=True)
class Equation(Node):
    """`p = exp2(s - m)` names a value; `distinct O[q] = o / l`, with an Access, stores one, `O[q] += o` updates it."""

    target: Name | Access
    value: Expr
    update: str = ""
    distinct: bool = False


@dataclass(frozen=True)
class Function(Node):
    """`function softcap(x, c) = c * tanh(x / c)`: a function of values, expanded where equations call it."""

    name: Name
    parameters: tuple[Name, ...]
    value: Expr


@dataclass(frozen=True)
class Reference(Node):
    """`reference softmax(X, -1)`: the function of torch that the equations agree with."""

    call: Call


# ---------------------------------------------------------------- explicit schedules


@dataclass(frozen=True)
class Index(Node):
    """`2`, `0..1` or `*` (both None): which fragments or slices an operation touches."""

    first: Expr | None
    last: Expr | None


@dataclass(frozen=True)
class StepRef(Node):
    """`[k]`, `[k+1]`: the K-step relative to the loop's; written only where it differs from k.

    `base`: in a prologue they are counted from the first, `[0]` (zero), in a drain from after the last, `[end-1]`.
    """

    offset: int
    base: str


@dataclass(frozen=True)
class Move(Node):
    """`fetch|write|load|copy|read A[k+1](frags; slices)`.

    `action`: load = global to LDS, waiting for itself; fetch = global to staging registers; write = staging registers
    to LDS; copy = global to LDS asynchronously (direct); read = LDS to register tiles. None is all of them.
    """

    action: str
    name: Name
    step: StepRef | None
    frags: Index | None
    slices: Index | None


@dataclass(frozen=True)
class Compute(Node):
    """`compute p half 1`: what the equation of a loop computes beside its product, all of it or a part of its rows."""

    name: Name
    piece: tuple[str, Expr] | None  # `part 1`, `half 0`


@dataclass(frozen=True)
class Multiply(Node):
    """`multiply (rows, cols; slices)`: MFMAs of these accumulator fragments over these K slices; None = all.

    `multiply slice 0` is short for `multiply (*, *; 0)`, `multiply g (0, *)` adds to the sum `g` alone, and
    `multiply s[k+1] part 0` is the product of an equation `s` in a loop of equations.
    """

    name: Name | None
    rows: Index | None
    cols: Index | None
    slices: Index | None
    step: StepRef | None = None
    piece: tuple[str, Expr] | None = None


@dataclass(frozen=True)
class Wait(Node):
    """`wait vm 4`, `wait lds 0`: until at most that many of this wave's operations are outstanding."""

    counter: Name
    count: Expr


@dataclass(frozen=True)
class Barrier(Node):
    """`barrier`: a barrier of all waves of the block."""


@dataclass(frozen=True)
class Priority(Node):
    """`priority high` (1), `priority low` (0) or `priority 0..3`, for the rest of the cluster it stands in."""

    level: Expr


@dataclass(frozen=True)
class Mix(Node):
    """`mix (multiply 4, read 1) x 8`: a wish for the order of instructions, so many of each kind; nothing needs it."""

    pattern: tuple[tuple[str, Expr], ...]
    times: Expr


ScheduleOp = Move | Multiply | Compute | Wait | Barrier | Priority | Mix


@dataclass(frozen=True)
class Cluster(Node):
    """One line of a schedule. `kind` is `cluster` (the compiler moves nothing across its ends; a barrier ends it unless
    they are automatic) or `group` (no barrier); `part` is `prologue` or `drain` before or after the loop."""

    kind: str
    ops: tuple[ScheduleOp, ...]
    part: str | None = None


@dataclass(frozen=True)
class Schedule(Node):
    """`schedule barriers auto waits auto` and its lines; without an option barriers and waits stand as written.

    `preset` is the name in `schedule auto`, `schedule ping_pong`, ...: a schedule tkgen builds itself, without lines.
    """

    preset: Name | None
    barriers: Name | None
    waits: Name | None
    clusters: tuple[Cluster, ...]


Statement = (
    Dims | Param | Global | Scalar | Targets | Block | Remap | Grid | Clusters | Tail | Waves | Occupancy | Allow
    | Stream | Shared | Registers | Accumulate | Epilogue | Store | Load | Role | Phase | Unroll | Tune | Include
    | Schedule | Over | Each | When | Carry | Equation | Function | Reference
)  # fmt: skip


@dataclass(frozen=True)
class Kernel(Node):
    """`kernel NAME` and its indented body; `header` is the comment block the file opens with."""

    name: Name
    body: tuple[Statement, ...]
    header: str


@dataclass(frozen=True)
class Sequence(Node):
    """`sequence NAME` and what its kernels share, then the kernels, each with those of these declarations it needs."""

    name: Name
    shared: tuple[Statement, ...]
    kernels: tuple[Kernel, ...]
    header: str
