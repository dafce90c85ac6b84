"""A second calculation of what waits and barriers of machine code order, from the instructions that waves execute.

It shares the decoded instructions and the traces of addresses with the emulator, and nothing of its referee. Rules,
of the CDNA2 and CDNA3 ISA documents ("Data Dependency Resolution") and of LLVM's memory model:

- `vmcnt` counts vector memory in the order of issue; `lgkmcnt` counts LDS in order, and scalar loads in any order, so
  these are complete after `lgkmcnt(0)` alone. A flat access needs both counters at 0.
- Until a load is complete, no instruction reads or writes its registers.
- An access lies in the epochs from the barriers passed at its issue to those passed when it is complete. Accesses of
  two waves to the same byte of LDS, one of them a write, share no epoch. In global memory the vector L1 serves the
  waves of a block in order, so the epoch of the issue counts.
- Until a load to LDS is complete, its own wave does not touch these bytes.
- All waves pass equally many barriers.

A block of the code itself is traced once, for all its mutants. A mutant in which everything that conflicts is ordered
computes what the code does, instruction after instruction, so it goes the same way and has the same addresses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tkgen.emulate import Outcome
from tkgen.emulate.decode import Encoding
from tkgen.sanitize.waits import LGKM, VECTOR, Wait

_READS, _WRITES, _UPDATES = 0, 1, 2
_LDS, _TO_LDS, _TWO = 4, 8, 16  # bits of an access in a trace (TkTraceEntry in core/abi.h)
_NEVER: Final = 1 << 30
_INACTIVE: Final = np.uint64(2**64 - 1)

Change = Wait | None  # what a wait or a barrier becomes: another wait, or nothing


@dataclass(frozen=True)
class _Step:
    """An instruction of a wave: its dword and name, and masks of the registers that it touches and writes."""

    index: int
    name: str
    touches: int = 0
    writes: int = 0
    encoding: Encoding | None = None  # of an access
    wait: Wait | None = None
    plain: bool = True  # it neither waits nor accesses memory


@dataclass
class _Access:
    """An access of a wave: its position among the wave's instructions, the position and the epoch of its completion."""

    position: int
    step: _Step
    epoch: int
    complete: int = _NEVER
    done: int = _NEVER


@dataclass
class _Way:
    """What a wave went through: its accesses, barriers, and the number of accesses that each wait completed."""

    accesses: list[_Access] = field(default_factory=list)
    epoch: int = 0
    completed: Counter[tuple[int, str]] = field(default_factory=Counter)
    fault: str = ""


@dataclass(frozen=True)
class Modelled:
    """The fault that the model sees, empty where there is none; the accesses that each `s_waitcnt` completed.

    `completed` has, by dword of a wait and its counter, how many accesses it completed in all executions.
    """

    fault: str
    completed: Mapping[tuple[int, str], int]


def _followed(steps: list[_Step], changes: Mapping[int, Change]) -> _Way:
    """A wave through all its instructions, with some waits and barriers changed."""
    way = _Way()
    queues: dict[str, list[_Access]] = {"vector": [], "shared": [], "scalar": [], "flat": []}
    names = {Encoding.DS: "shared", Encoding.SMEM: "scalar", Encoding.FLAT: "flat"}
    busy = 0
    for position, step in enumerate(steps):
        if step.plain:
            if step.touches & busy:
                way.fault = way.fault or _used(step, queues)
            continue
        if step.name == "s_barrier":
            way.epoch += step.index not in changes
            continue
        if step.wait is not None:
            wait = changes.get(step.index, step.wait)
            if wait is not None:
                _complete(way, queues, step.index, wait, position)
                busy = 0
                for queue in queues.values():
                    for access in queue:
                        busy |= access.step.writes
            continue
        if step.touches & busy:
            way.fault = way.fault or _used(step, queues)
        assert step.encoding is not None
        access = _Access(position, step, way.epoch)
        way.accesses.append(access)
        queues[names.get(step.encoding, "vector")].append(access)
        busy |= step.writes
    return way


def _used(step: _Step, queues: Mapping[str, list[_Access]]) -> str:
    loads = (a.step.name for queue in queues.values() for a in queue if a.step.writes & step.touches)
    return f"`{step.name}` uses a register of `{next(loads)}` on its way"


def _complete(way: _Way, queues: dict[str, list[_Access]], index: int, wait: Wait, position: int) -> None:
    vector, lgkm = wait.count(VECTOR), wait.count(LGKM)
    done = {VECTOR: queues["vector"][: max(len(queues["vector"]) - vector, 0)]}
    done[LGKM] = queues["shared"][: max(len(queues["shared"]) - lgkm, 0)] + (queues["scalar"] if lgkm == 0 else [])
    if vector == lgkm == 0:
        done[VECTOR] = done[VECTOR] + queues["flat"]
    for counter, accesses in done.items():
        way.completed[index, counter] += len(accesses)
        for access in accesses:
            access.complete, access.done = position, way.epoch
    for name, queue in queues.items():
        queues[name] = [access for access in queue if access.done == _NEVER]


class Model:
    """One block of the code itself, whose waves are all traced, and the verdict on its changes."""

    def __init__(self, outcome: Outcome):
        assert outcome.trace is not None
        self.trace, self.program = outcome.trace, outcome.program
        self.whole = outcome.completed and len(self.trace.index) == outcome.instructions
        self.executed = frozenset(np.unique(self.trace.index).tolist())
        self._known: dict[tuple[int, bool], _Step] = {}
        self._masks: dict[int, tuple[int, int]] = {}
        for index, first, count, writes in self.trace.spans.tolist():
            mask, (both, written) = ((1 << count) - 1) << first, self._masks.get(index, (0, 0))
            self._masks[index] = both | mask, written | (mask if writes else 0)
        # Waves that execute the same instructions are followed once.
        self.rows: list[npt.NDArray[np.intp]] = []
        self.ways: list[int] = []  # by wave, the number of its steps in `sequences`
        self.sequences: list[list[_Step]] = []
        numbers: dict[bytes, int] = {}
        keys = self.trace.index.astype(np.int64) * 2 + (self.trace.lanes >= 0)
        for wave in range(int(self.trace.wave.max()) + 1):
            rows = np.flatnonzero(self.trace.wave == wave)
            number = numbers.setdefault(keys[rows].tobytes(), len(self.sequences))
            if number == len(self.sequences):
                self.sequences.append([self._step(key >> 1, bool(key & 1)) for key in keys[rows].tolist()])
            self.rows.append(rows)
            self.ways.append(number)

    def _step(self, index: int, accesses: bool) -> _Step:
        found = self._known.get((index, accesses))
        if found is None:
            name = self.program.mnemonic(index)
            accesses_memory = accesses or name.startswith(("s_load", "s_buffer_load"))
            encoding = Encoding(int(self.program.ops[index]["encoding"])) if accesses_memory else None
            wait = Wait.at(self.program, index) if name == "s_waitcnt" else None
            plain = encoding is None and wait is None and name != "s_barrier"
            found = _Step(index, name, *self._masks.get(index, (0, 0)), encoding, wait, plain)
            self._known[index, accesses] = found
        return found

    @cached_property
    def _itself(self) -> list[_Way]:
        return [_followed(steps, {}) for steps in self.sequences]

    @cached_property
    def itself(self) -> Modelled:
        """The verdict on the code itself."""
        return Modelled(self._judged(self._itself, everything=True), self._completed(self._itself))

    def modelled(self, changes: Mapping[int, Change]) -> Modelled:
        """The verdict on the code with some waits and barriers changed, by dword."""
        if self.itself.fault:
            return Modelled(f"the code itself: {self.itself.fault}", {})
        ways = [_followed(steps, changes) for steps in self.sequences]
        return Modelled(self._judged(ways), self._completed(ways))

    def _completed(self, ways: list[_Way]) -> Mapping[tuple[int, str], int]:
        total: Counter[tuple[int, str]] = Counter()
        for number in self.ways:
            total.update(ways[number].completed)
        return total

    def _judged(self, ways: list[_Way], everything: bool = False) -> str:
        """The fault of waves on these ways. Accesses at the same time as in the code itself need no comparison."""
        fault = "" if self.whole else "the block did not end"
        fault = fault or next((way.fault for way in ways if way.fault), "")
        if len({way.epoch for way in ways}) > 1:
            fault = fault or "waves pass different numbers of barriers"
        if fault:
            return fault
        pairs = [
            (a, b) for way, own in zip(ways, self._itself, strict=True)
            for a, b in zip(way.accesses, own.accesses, strict=True)
        ]  # fmt: skip
        if everything or any((a.epoch, a.done) != (b.epoch, b.done) for a, b in pairs):
            fault = self._conflict(ways)
        if everything or any(a.complete != b.complete for a, b in pairs):
            fault = fault or self._overtaken(ways)
        return fault

    # ------------------------------------------------------------ bytes

    def _bytes(self, row: int, lds: bool) -> npt.NDArray[np.int64]:
        """The bytes that an access touches in LDS, or in global memory."""
        entry = self.trace.rows[row]
        how = int(entry["access"])
        to_lds = bool(how & _TO_LDS)
        if (bool(how & _LDS) != lds and not to_lds) or self.trace.lanes[row] < 0:
            return np.zeros(0, np.int64)
        live = self.trace.addresses[int(self.trace.lanes[row])]
        size = int(entry["size"])
        if to_lds and lds:
            active = np.flatnonzero(live != _INACTIVE)
            starts = int(entry["lds_base"]) + size * active.astype(np.int64)
        else:
            starts = live[live != _INACTIVE].astype(np.int64)
        if how & _TWO:
            starts = np.concatenate([starts, starts + int(entry["second"])])
        return np.unique((starts[:, None] + np.arange(size)).ravel())

    def _how(self, row: int, lds: bool) -> int:
        how = int(self.trace.rows[row]["access"])
        return (_WRITES if lds else _READS) if how & _TO_LDS else how & 3

    def _conflict(self, ways: list[_Way]) -> str:
        """Two waves that touch a byte, one of them writing, in the same epoch."""
        last = max(way.epoch for way in ways)
        for lds in (True, False):
            keys, owners, hows = [], [], []
            for wave, number in enumerate(self.ways):
                for access in ways[number].accesses:
                    row = int(self.rows[wave][access.position])
                    scratch = access.step.encoding == Encoding.SCRATCH
                    touched = np.zeros(0, np.int64) if scratch else self._bytes(row, lds)
                    if not len(touched):
                        continue
                    # A store counts from its issue to its completion in LDS; in global memory as it is issued.
                    strict = lds or access.step.encoding == Encoding.SMEM
                    until = min(access.done, last) if strict else access.epoch
                    for epoch in range(access.epoch, until + 1):
                        keys.append(touched * (last + 1) + epoch)
                        owners.append(np.full(len(touched), wave, np.int64))
                        hows.append(np.full(len(touched), self._how(row, lds), np.int64))
            if keys and (found := _met(np.concatenate(keys), np.concatenate(owners), np.concatenate(hows))) is not None:
                where = "LDS" if lds else "global memory"
                return f"two waves conflict in {where} in epoch {found % (last + 1)}"
        return ""

    def _overtaken(self, ways: list[_Way]) -> str:
        """A load to LDS and another access of its wave to the same bytes before it is complete."""
        for wave, number in enumerate(self.ways):
            rows, accesses = self.rows[wave], ways[number].accesses
            direct = [a for a in accesses if int(self.trace.rows[rows[a.position]]["access"]) & _TO_LDS]
            if not direct:
                continue
            others = [(a, self._bytes(int(rows[a.position]), True)) for a in accesses]
            for load in direct:
                mine = self._bytes(int(rows[load.position]), True)
                for other, touched in others:
                    if other is load or not len(touched):
                        continue
                    inside = load.position < other.position < load.complete
                    inside = inside or other.position < load.position < other.complete
                    if inside and len(np.intersect1d(mine, touched, assume_unique=True)):
                        return f"a load to LDS is on its way where its wave has `{other.step.name}`"
        return ""


def _met(keys: npt.NDArray[Any], owners: npt.NDArray[Any], hows: npt.NDArray[Any]) -> int | None:
    """A key of two owners one of whom writes, or updates what another reads; None where there is none."""
    order = np.argsort(keys, kind="stable")
    keys, owners, hows = keys[order], owners[order], hows[order]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    several = np.minimum.reduceat(owners, starts) != np.maximum.reduceat(owners, starts)
    flags = np.bitwise_or.reduceat(1 << hows, starts)
    changes = (flags & 1 << _WRITES != 0) | ((flags & 1 << _UPDATES != 0) & (flags & 1 << _READS != 0))
    bad = np.flatnonzero(several & changes)
    return int(keys[starts[bad[0]]]) if len(bad) else None
