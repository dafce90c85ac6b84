"""Operations: what one wave does, in the order it does it. A schedule is lists of these, one list a role.

An operation is written for loop iteration k and touches K-step k + `offset`; prologue and epilogue are the same
operations clipped to the steps that exist (see `tkgen.schedule.pipeline`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from tkgen.source import Span


class Action(Enum):
    """What an operation does."""

    LOAD = "load"  # global -> LDS by a whole group; waits for its own traffic
    FETCH = "fetch"  # global -> staging registers, asynchronous (vmcnt)
    WRITE = "write"  # staging registers -> LDS, asynchronous (lgkmcnt)
    COPY = "copy"  # global -> LDS directly, asynchronous (vmcnt)
    READ = "read"  # LDS -> register tiles, asynchronous (lgkmcnt)
    ZERO = "zero"  # accumulators = 0
    MULTIPLY = "multiply"  # register tiles -> accumulators
    REDUCE = "reduce"  # accumulators -> a number for each row or column of the wave; to LDS where waves share these
    GATHER = "gather"  # the numbers of all waves of these rows or columns <- LDS
    STORE = "store"  # accumulators -> epilogue -> global
    BARRIER = "barrier"  # s_barrier: a meeting of all waves of the block
    WAIT = "wait"  # s_waitcnt on one counter
    PRIORITY = "priority"  # s_setprio
    MIX = "mix"  # a wish for the order of instructions (sched_group_barrier): no order of accesses relies on it
    FENCE = "fence"  # the compiler moves nothing across
    CATCH_UP = "catch up"  # the barriers that waves of an earlier phase pass until all are level


LDS_WRITES = frozenset({Action.LOAD, Action.WRITE, Action.COPY})
LOADS = LDS_WRITES | {Action.FETCH}
SHARED_WRITES = LDS_WRITES | {Action.REDUCE}
SHARED_READS = frozenset({Action.READ, Action.GATHER})
CONTROL = frozenset(  # touch no data
    {Action.BARRIER, Action.WAIT, Action.PRIORITY, Action.MIX, Action.FENCE, Action.CATCH_UP}
)


@dataclass(frozen=True)
class Op:
    """One operation.

    `operand` names the tensor of a move, `product` that of a MULTIPLY where there are several. `rows`/`cols` are
    accumulator fragment indices (a move of a left factor uses rows, of a right one cols), `slices` the K slices; those
    that bring a tile to LDS or towards it name none where they bring all of it.
    `count` is the argument of a wait (operations that may stay outstanding), the priority, how often a MIX wants its
    `pattern` (kinds of operations, with how many instructions of each stand together), or the round of a REDUCE
    or GATHER, whose `operand` is the ring of partial results where these pass through LDS. `counter` is `vm` or
    `lds`. `automatic` marks barriers and waits that tkgen placed. LDS buffer of step s is (s + `slot_shift`) mod
    buffers; the shift is zero but in mutants of the mutation benchmark. `number` tells the operations of an iteration
    apart wherever they are clipped to, one for what roles of one clause share; -1 for what is of no iteration.
    """

    action: Action
    operand: str = ""
    offset: int = 0
    rows: tuple[int, ...] = ()
    cols: tuple[int, ...] = ()
    slices: tuple[int, ...] = ()
    counter: str = ""
    count: int = 0
    automatic: bool = False
    product: str = ""
    pattern: tuple[tuple[str, int], ...] = ()
    slot_shift: int = 0
    number: int = field(default=-1, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def writes_lds(self) -> bool:
        """Whether it fills an LDS buffer."""
        return self.action in LDS_WRITES

    def __str__(self) -> str:
        step = "[k]" if not self.offset else f"[k{self.offset:+d}]"
        match self.action:
            case Action.READ:
                return f"read {self.operand}{step}({indices(self.rows or self.cols)}; {indices(self.slices)})"
            case Action.ZERO | Action.STORE:
                return f"{self.action.value} ({indices(self.rows)}, {indices(self.cols)})"
            case Action.MULTIPLY:
                return (
                    f"multiply {self.product}{step}({indices(self.rows)}, {indices(self.cols)}; {indices(self.slices)})"
                )
            case Action.WAIT:
                return f"wait {self.counter} {self.count}"
            case Action.PRIORITY | Action.REDUCE | Action.GATHER:
                return f"{self.action.value} {self.count}"
            case Action.MIX:
                return f"mix ({', '.join(f'{kind} {size}' for kind, size in self.pattern)}) x {self.count}"
            case Action.BARRIER | Action.FENCE | Action.CATCH_UP:
                return str(self.action.value)
            case _:
                shift = f" slot {self.slot_shift:+d}" if self.slot_shift else ""
                named = [indices(self.rows or self.cols) or "*", *([indices(self.slices)] if self.slices else [])]
                part = f"({'; '.join(named)})" if self.rows or self.cols or self.slices else ""
                return f"{self.action.value} {self.operand}{step}{part}{shift}"


def indices(values: tuple[int, ...]) -> str:
    """`0..3` for a run, `0,2` otherwise."""
    if len(values) > 1 and values == tuple(range(values[0], values[-1] + 1)):
        return f"{values[0]}..{values[-1]}"
    return ",".join(map(str, values))


@dataclass(frozen=True)
class Step:
    """A K-step: `offset` counted from step 0 (`zero`), from the loop variable (`k`) or from the last + 1 (`end`)."""

    base: str
    offset: int

    def at(self, k: int, steps: int) -> int:
        """The number of the step in iteration `k` of a tile of `steps` K-steps."""
        return self.offset + {"zero": 0, "k": k, "end": steps}[self.base]

    def __str__(self) -> str:
        if self.base == "zero":
            return str(self.offset)
        name = {"k": "k", "end": "steps"}[self.base]
        return name if not self.offset else f"{name} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"


@dataclass(frozen=True)
class Placed:
    """An operation at a K-step of a program."""

    op: Op
    step: Step

    def __str__(self) -> str:
        shown = str(self.op)
        return shown.replace("[k]", f"[{self.step}]").replace(f"[k{self.op.offset:+d}]", f"[{self.step}]")


@dataclass(frozen=True)
class WaveProgram:
    """What some waves of the block execute: prologue, steady loop (one pass handles `unroll` steps), epilogue.

    `phase` meetings are passed before the prologue, so these waves run that far behind; all others pass as many
    after their epilogue.
    """

    role: str
    waves: tuple[int, ...]
    phase: int
    prologue: tuple[Placed, ...]
    body: tuple[Placed, ...]
    epilogue: tuple[Placed, ...]


@dataclass(frozen=True)
class Body:
    """One iteration of one role: the operations in order, steps relative to k."""

    role: str
    ops: tuple[Op, ...]


def numbered(ops: Iterable[Op], first: int = 0) -> tuple[Op, ...]:
    """The operations of an iteration with a number each, from `first` on."""
    return tuple(replace(op, number=number) for number, op in enumerate(ops, first))


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

    `barriers` and `waits` say that tkgen places these. `prologue` and `drain` stand before and behind the loop where
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
        """The K-steps that the drain multiplies, counted from behind the last, in order."""
        return tuple(sorted({op.offset for c in self.drain for op in c.ops if op.action is Action.MULTIPLY}))
