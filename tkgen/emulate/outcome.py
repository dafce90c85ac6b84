"""The results of a launch: counts, traces, stored tensors, and the findings from the core's records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tkgen.emulate import native
from tkgen.emulate.algebra import Loss
from tkgen.emulate.arguments import Buffer
from tkgen.emulate.between import Flags, numbered, races
from tkgen.emulate.code_object import CodeObject, Kernel
from tkgen.emulate.decode import Program
from tkgen.emulate.disassemble import disassemble
from tkgen.emulate.findings import BY_NUMBER, Access, Finding, Kind, Space
from tkgen.emulate.guest import Dim, Guest, Region
from tkgen.emulate.messages import describe
from tkgen.emulate.printed import printed


@dataclass(frozen=True)
class Trace:
    """An instruction stream: parallel arrays, one row per instruction executed.

    `index` is the dword index into `program.ops`; `lanes` the row of `addresses` that holds the 64 byte addresses of a
    memory instruction (LDS offsets for LDS), or -1; inactive lanes hold 2**64 - 1. `exec` is the mask of active lanes.
    `spans` says of the instructions of the whole code which registers they touch: rows of the dword `index`, the
    `first` register (VGPRs from 0, AGPRs from 256, scalar registers from 512), their `count`, whether it `writes`.
    """

    wave: npt.NDArray[np.uint32]
    index: npt.NDArray[np.uint32]
    lanes: npt.NDArray[np.int64]
    exec: npt.NDArray[np.uint64]
    addresses: npt.NDArray[np.uint64]
    spans: npt.NDArray[Any]
    rows: npt.NDArray[Any]  # as the core hands them out (TkTraceEntry in core/abi.h)
    buffers: tuple[tuple[int, Buffer], ...] = ()  # and where each begins


@dataclass(frozen=True)
class Written:
    """Bytes `begin`..`end` of a buffer that one block wrote, and the instruction that did."""

    buffer: Buffer
    block: int
    begin: int
    end: int
    address: int


@dataclass(frozen=True)
class Outcome:
    """The outcome of a launch. `findings` is empty if it was right; `completed` is False if it had to stop.

    `executed_by` has for each dword of the code a bit for each wave of a block (modulo 64) that executed it. It is
    empty without a referee. `block_dependent`, of launches without data: whether a block's number decided a branch,
    EXEC, M0 or an LDS address. Where it did not, all blocks go through the same instructions, waits, barriers and LDS
    addresses.
    """

    findings: tuple[Finding, ...]
    completed: bool
    instructions: int
    block_dependent: bool
    barriers: tuple[int, ...]  # per wave of the blocks run, block by block
    counts: npt.NDArray[np.uint64] = field(repr=False)  # executions per dword of the code
    program: Program = field(repr=False)
    code: CodeObject = field(repr=False)
    kernel: Kernel = field(repr=False)
    intervals: npt.NDArray[Any] = field(repr=False)  # of global memory, as the core hands them out, of a referee
    regions: tuple[Region, ...] = field(repr=False)  # that the intervals number
    trace: Trace | None = field(repr=False)
    lost: tuple[Loss, ...] = ()  # of launches over an algebra
    printed: str = ""  # by a `printf` that the stand-ins for HIP's headers have
    executed_by: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64), repr=False)

    @property
    def opcodes(self) -> Counter[str]:
        """Executions per mnemonic, counted per wave."""
        tally: Counter[str] = Counter()
        for i in np.flatnonzero(self.counts):
            tally[self.program.mnemonic(int(i))] += int(self.counts[i])
        return tally

    def address(self, index: int) -> int:
        """The address in the code object of dword `index` of the code."""
        return self.code.text[0] + 4 * index

    @cached_property
    def written(self) -> tuple[Written, ...]:
        """The bytes of buffers that blocks wrote, of a launch under the referee."""
        found = []
        for number, block, index, _, begin, end, *_ in self.intervals[self.intervals["writes"] != 0].tolist():
            region = self.regions[number]
            if region.buffer is not None:
                made = Written(region.buffer, block, begin - region.base, end - region.base, self.address(index))
                found.append(made)
        return tuple(found)

    def unwritten(self, buffer: Buffer) -> list[tuple[int, int]]:
        """Byte ranges of `buffer` that no block wrote (needs `watch=True`)."""
        rows = self.intervals[self.intervals["writes"] != 0]
        base = {number: r.base for number, r in enumerate(self.regions) if r.buffer is buffer}
        rows = rows[np.isin(rows["region"], list(base))]
        moved = np.array([base[number] for number in rows["region"].tolist()], dtype=np.int64)
        order = np.argsort(rows["begin"].astype(np.int64) - moved, kind="stable")
        begins, ends = ((rows[end].astype(np.int64) - moved)[order] for end in ("begin", "end"))
        reached = np.maximum.accumulate(np.concatenate([[0], ends]))
        size = len(buffer.bytes())
        starts = np.concatenate([begins, [size]])
        return [(int(reached[i]), int(starts[i])) for i in np.flatnonzero(starts > reached)]


@dataclass
class Part:
    """The raw results of one worker."""

    stopped: bool
    instructions: int
    block_dependent: bool
    counts: npt.NDArray[np.uint64]
    executed_by: npt.NDArray[np.uint64]
    findings: list[native.RawFinding]
    barriers: list[int]
    intervals: npt.NDArray[Any]
    releases: npt.NDArray[Any]
    known: npt.NDArray[Any]
    losses: list[tuple[int, str, int]]
    trace: Trace


def collect(guest: Guest, parts: list[Part]) -> Outcome:
    """The outcome of all workers together."""
    intervals, known = numbered([(p.intervals, p.known) for p in parts])
    found = _Findings(guest)
    for raw in _merged([raw for part in parts for raw in part.findings]):
        found.add(raw)
    flags = Flags(np.concatenate([p.releases for p in parts]), known)
    for a, b in races(intervals, flags):
        found.block_race(a, b, not_written_back=flags.order(a, b, anywhere=True))
    return Outcome(
        tuple(found.findings),
        not any(p.stopped for p in parts),
        sum(p.instructions for p in parts),
        any(p.block_dependent for p in parts),
        tuple(b for p in parts for b in p.barriers),
        np.sum([p.counts for p in parts], axis=0, dtype=np.uint64),
        guest.program,
        guest.code,
        guest.kernel,
        intervals,
        tuple(guest.regions),
        _trace(guest, parts[0].trace) if guest.record.trace_wave != -1 else None,
        _lost(guest, parts),
        printed(guest) if guest.host is None else guest.host.text,
        executed_by=np.bitwise_or.reduce([p.executed_by for p in parts]),
    )


def _lost(guest: Guest, parts: list[Part]) -> tuple[Loss, ...]:
    """Count the payloads that were lost on the way to an output, by instruction and reason, the most frequent first."""
    tally: Counter[tuple[int, str]] = Counter()
    for part in parts:
        for index, reason, count in part.losses:
            tally[index, reason] += count
    found = []
    for (index, reason), count in tally.most_common():
        known = index < len(guest.program.ops)
        address = guest.code.text[0] + 4 * index if known else 0
        line = guest.code.line(address) if known else None
        mnemonic = guest.program.mnemonic(index) if known else "an earlier kernel"
        found.append(Loss(address, mnemonic, line[0] if line else None, line[1] if line else None, reason, count))
    return tuple(found)


def _trace(guest: Guest, trace: Trace) -> Trace:
    return replace(trace, buffers=tuple((r.base, r.buffer) for r in guest.regions if r.buffer is not None))


def _merged(records: list[native.RawFinding]) -> list[native.RawFinding]:
    """Each pair of instructions once, with the occurrences of all workers."""
    kept: dict[tuple[int, int, int], native.RawFinding] = {}
    for raw in records:
        first = kept.setdefault((raw.kind, raw.a.index, raw.b.index), raw)
        if first is not raw:
            first.count += raw.count
    return list(kept.values())


class _Findings:
    """Turns the core's records into findings, each pair of instructions once over all workers."""

    def __init__(self, guest: Guest):
        self.guest = guest
        self.findings: list[Finding] = []
        self.seen: set[tuple[int, int, int]] = set()

    def access(self, p: native.Party, access: str | None = None) -> Access:
        code, program = self.guest.code, self.guest.program
        index = min(p.index, len(program.ops) - 1)
        address = code.text[0] + 4 * index
        line = code.line(address)
        return Access(
            p.wave,
            address,
            disassemble(program, index),
            line[0] if line else None,
            line[1] if line else None,
            p.instance,
            p.epoch,
            None if p.done == 0xFFFF_FFFF else p.done,
            access or ("reads", "writes", "updates")[min(p.writes, 2)],
        )

    def add(self, raw: native.RawFinding) -> None:
        space = (Space.LDS, Space.GLOBAL, Space.SCRATCH, Space.VGPR, Space.SGPR)[raw.space]
        self.make(
            BY_NUMBER[raw.kind],
            (raw.block[0], raw.block[1], raw.block[2]),
            self.access(raw.a),
            self.access(raw.b) if raw.b.index != 0xFFFF_FFFF else None,
            space,
            raw.address,
            fatal=bool(raw.fatal),
            size=raw.size,
            lane=raw.lane,
            count=raw.count,
            other_lane=raw.other_lane,
            note=raw.note,
        )

    def make(
        self,
        kind: Kind,
        block: Dim,
        first: Access,
        second: Access | None,
        space: Space,
        address: int,
        *,
        fatal: bool = False,
        size: int = 0,
        lane: int = 0,
        count: int = 1,
        other_lane: int = 0,
        note: int = 0,
    ) -> None:
        offset, buffer = address, None
        if space is Space.GLOBAL:
            region = self.guest.region_below(address)
            if region is not None:
                offset, buffer = address - region.base, self._name(region)
        message = describe(kind, first, second, space, offset, buffer, size, lane, other_lane, self.guest.record)
        bits = (native.SAME_VALUES, native.WRITTEN_LATER, native.IN_ANOTHER_L2, native.NO_RELEASE, native.NO_ACQUIRE)
        notes = [bool(note & bit) for bit in (*bits, native.WIDE_FLAG)]
        shown = (kind, message, fatal, block, first, second, space, offset, buffer, size, lane, count)
        self.findings.append(Finding(*shown, other_lane, *notes))

    def _name(self, region: Region) -> str:
        if region.buffer is None:
            code = self.guest.code
            own = 0 <= region.base - code.base < len(code.image)
            return "the code object" if own else "the kernel arguments"
        given = [r for r in self.guest.regions if r.buffer is not None]
        return region.buffer.name or f"buffer {given.index(region)}"

    def block_race(self, a: Any, b: Any, *, not_written_back: bool) -> None:
        """Two intervals of different blocks that nothing orders; each pair of instructions once."""
        key = (Kind.BLOCK_RACE.value.__hash__(), int(a["index"]), int(b["index"]))
        if key in self.seen:
            return
        self.seen.add(key)
        names = ("reads", "writes", "updates")
        grid = self.guest.record.grid
        linear = int(a["block"])
        block = (linear % grid[0], linear // grid[0] % grid[1], linear // grid[0] // grid[1])

        later = max(a, b, key=lambda row: int(row["block"]))  # blocks run in this order

        def party(row: Any) -> Access:
            return self.access(
                native.Party(0, int(row["index"]), 0, 0, 0, int(row["writes"])), names[min(int(row["writes"]), 2)]
            )

        self.make(
            Kind.BLOCK_RACE,
            block,
            party(a),
            party(b),
            Space.GLOBAL,
            int(max(a["begin"], b["begin"])),
            size=int(a["end"] - a["begin"]),
            note=(native.SAME_VALUES if later["unchanged"] else 0) | (native.IN_ANOTHER_L2 if not_written_back else 0),
        )
