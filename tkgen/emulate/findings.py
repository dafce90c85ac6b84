"""Findings of the referee and the emulator as values, with the text that people read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum


class Kind(Enum):
    """The kind of a finding; the values are stable names for reports."""

    RACE = "race"
    UNINITIALISED_LDS = "uninitialised-lds-read"
    UNINITIALISED_REGISTER = "uninitialised-register"
    LDS_OUT_OF_BOUNDS = "lds-out-of-bounds"
    GLOBAL_OUT_OF_BOUNDS = "global-out-of-bounds"
    READ_ONLY_WRITE = "read-only-write"
    SCRATCH_OUT_OF_BOUNDS = "scratch-out-of-bounds"
    MISALIGNED = "misaligned"
    READ_BEFORE_WAIT = "read-before-wait"
    OVERWRITE_BEFORE_WAIT = "overwrite-before-wait"
    BARRIER_COUNT = "barrier-count"
    BUDGET = "endless"
    UNKNOWN_INSTRUCTION = "unknown-instruction"
    BAD_JUMP = "bad-jump"
    TRAP = "trap"
    UNSUPPORTED = "unsupported"
    ILLEGAL_OPERAND = "illegal-operand"
    DEADLOCK = "deadlock"
    WATCH_LIMIT = "watch-limit"
    LANE_RACE = "lane-race"
    DATA_DEPENDENT = "data-dependent"
    WAIT_STATES = "missing-wait-states"
    DIVERGENT_BARRIER = "divergent-barrier"
    BLOCK_RACE = "block-race"


# The numbers of core/abi.h, FindingKind.
BY_NUMBER = dict(enumerate((k for k in Kind if k is not Kind.BLOCK_RACE), start=1))


class Space(Enum):
    """The memory of an address."""

    LDS = "LDS"
    GLOBAL = "global memory"
    SCRATCH = "scratch"
    VGPR = "VGPR"
    SGPR = "SGPR"


@dataclass(frozen=True)
class Access:
    """One dynamic instruction: who, where in the code, and the how-manieth execution of it by that wave.

    `epoch` is the number of barriers the wave had passed when it issued, `done` when it had waited for the access
    (None: it never did). `instance` counts from 0: in a loop it is the iteration.
    """

    wave: int
    address: int
    text: str
    file: str | None
    line: int | None
    instance: int
    epoch: int
    done: int | None
    access: str  # "reads", "writes" or "updates"

    @property
    def place(self) -> str:
        """File and line where known, else the address."""
        return f"{self.file}:{self.line}" if self.file else f"0x{self.address:x}"

    def __str__(self) -> str:
        return f"wave {self.wave}, `{self.text}` at {self.place}, iteration {self.instance}, epoch {self.epoch}"


@dataclass(frozen=True)
class Finding:
    """One defect, with the first occurrence described and `count` occurrences in all."""

    kind: Kind
    message: str
    fatal: bool
    block: tuple[int, int, int]
    first: Access
    second: Access | None
    space: Space
    offset: int  # bytes into LDS, scratch or the buffer; the register number for registers
    buffer: str | None
    size: int
    lane: int
    count: int
    other_lane: int = 0  # of a lane race
    same_values: bool = False  # of two racing writes
    written_later: bool = False  # of a read of LDS that nobody had written: somebody did afterwards
    in_another_l2: bool = False  # of blocks that a flag orders: what one stored was not written back from its L2
    no_release: bool = False  # of waves: one saw a flag that the other set before its own access was complete
    no_acquire: bool = False  # of waves: one read a flag of the other, and did not acquire what it orders
    wide_flag: bool = False  # this flag is of agent or system scope

    def to_json(self) -> dict[str, object]:
        """Plain data, with both accesses."""
        return asdict(self) | {"kind": self.kind.value, "space": self.space.value}

    def __str__(self) -> str:
        lines = [f"{self.kind.value}: {self.message}", f"  {self.first}"]
        if self.second:
            lines.append(f"  {self.second}")
        return "\n".join(lines)
