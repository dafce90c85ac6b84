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
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tkgen.emulate import Outcome
from tkgen.emulate.decode import Encoding
from tkgen.sanitize.waits import LGKM, VECTOR, Wait

_READS, _WRITES, _UPDATES = 0, 1, 2
_LDS, _TO_LDS, _TWO = 4, 8, 16  # bits of an access in a trace (TkTraceEntry in core/abi.h)
_NEVER: Final = 1 << 30
_VECTOR_MEMORY = (Encoding.GLOBAL, Encoding.MUBUF, Encoding.MTBUF, Encoding.SCRATCH)


@dataclass
class _Access:
    """An access of a wave: its row in the trace, positions and epochs of issue and completion."""

    row: int
    index: int
    encoding: Encoding
    registers: frozenset[int]
    issued: int
    epoch: int
    complete: int = _NEVER
    done: int = _NEVER


@dataclass
class _Wave:
    """A wave on its way through its instructions."""

    number: int
    epoch: int = 0
    vector: list[_Access] = field(default_factory=list)
    shared: list[_Access] = field(default_factory=list)
    scalar: list[_Access] = field(default_factory=list)
    flat: list[_Access] = field(default_factory=list)
    accesses: list[_Access] = field(default_factory=list)

    def pending(self) -> list[_Access]:
        """The accesses that are not complete."""
        return [*self.vector, *self.shared, *self.scalar, *self.flat]


@dataclass(frozen=True)
class Modelled:
    """The fault that the model sees, empty where there is none; the accesses that each `s_waitcnt` completed.

    `completed` has, by dword of a wait and its counter, how many accesses it completed in all executions.
    """

    fault: str
    completed: dict[tuple[int, str], int]


def modelled(outcome: Outcome) -> Modelled:
    """The verdict of the model on one block, whose waves are all traced."""
    assert outcome.trace is not None
    model = _Model(outcome)
    waves = [model.walk(number) for number in range(int(outcome.trace.wave.max()) + 1)]
    fault = model.fault
    if not outcome.completed:
        fault = fault or "the block did not end"
    if len({wave.epoch for wave in waves}) > 1:
        fault = fault or "waves pass different numbers of barriers"
    return Modelled(fault or model.conflicts(waves) or model.overtaken(waves), dict(model.completed))


class _Model:
    """The waves of one block."""

    def __init__(self, outcome: Outcome):
        assert outcome.trace is not None
        self.trace, self.program = outcome.trace, outcome.program
        self.fault = ""
        self.completed: dict[tuple[int, str], int] = defaultdict(int)
        touched: dict[int, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
        for index, first, count, writes in self.trace.spans.tolist():
            touched[index][bool(writes)].update(range(first, first + count))
        self.touched = {i: (frozenset(r | w), frozenset(w)) for i, (r, w) in touched.items()}
        self.names = {int(i): self.program.mnemonic(int(i)) for i in np.unique(self.trace.index)}

    def walk(self, number: int) -> _Wave:
        """A wave through all its instructions."""
        wave, nothing = _Wave(number), (frozenset[int](), frozenset[int]())
        rows = np.flatnonzero(self.trace.wave == number).tolist()
        indices, lanes = self.trace.index.tolist(), self.trace.lanes.tolist()
        for row in rows:
            index = indices[row]
            name = self.names[index]
            if name == "s_waitcnt":
                self._wait(wave, index, row)
                continue
            if name == "s_barrier":
                wave.epoch += 1
                continue
            both, written = self.touched.get(index, nothing)
            for each in wave.pending():
                if both & each.registers:
                    self.fault = self.fault or f"`{name}` uses a register of `{self.names[each.index]}` on its way"
            if lanes[row] >= 0 or name.startswith(("s_load", "s_buffer_load")):
                encoding = Encoding(int(self.program.ops[index]["encoding"]))
                access = _Access(row, index, encoding, written, row, wave.epoch)
                wave.accesses.append(access)
                queue = {Encoding.DS: wave.shared, Encoding.SMEM: wave.scalar, Encoding.FLAT: wave.flat}
                queue.get(encoding, wave.vector).append(access)
        return wave

    def _wait(self, wave: _Wave, index: int, row: int) -> None:
        wait = Wait.at(self.program, index)
        vector, lgkm = wait.count(VECTOR), wait.count(LGKM)
        done = {VECTOR: wave.vector[: max(len(wave.vector) - vector, 0)]}
        done[LGKM] = wave.shared[: max(len(wave.shared) - lgkm, 0)] + (wave.scalar if lgkm == 0 else [])
        if vector == lgkm == 0:
            done[VECTOR] = done[VECTOR] + wave.flat
        for counter, accesses in done.items():
            self.completed[index, counter] += len(accesses)
            for access in accesses:
                access.complete, access.done = row, wave.epoch
        wave.vector, wave.shared, wave.scalar, wave.flat = (
            [a for a in queue if a.done == _NEVER] for queue in (wave.vector, wave.shared, wave.scalar, wave.flat)
        )

    # ------------------------------------------------------------ bytes

    def _bytes(self, access: _Access, lds: bool) -> npt.NDArray[np.int64]:
        """The bytes that an access touches in LDS, or in global memory."""
        entry = self.trace.rows[access.row]
        how = int(entry["access"])
        to_lds = bool(how & _TO_LDS)
        if (bool(how & _LDS) != lds and not to_lds) or self.trace.lanes[access.row] < 0:
            return np.zeros(0, np.int64)
        live = self.trace.addresses[int(self.trace.lanes[access.row])]
        size = int(entry["size"])
        if to_lds and lds:
            active = np.flatnonzero(live != np.uint64(2**64 - 1))
            starts = int(entry["lds_base"]) + size * active.astype(np.int64)
        else:
            starts = live[live != np.uint64(2**64 - 1)].astype(np.int64)
        if how & _TWO:
            starts = np.concatenate([starts, starts + int(entry["second"])])
        return np.unique((starts[:, None] + np.arange(size)).ravel())

    def _how(self, access: _Access, lds: bool) -> int:
        how = int(self.trace.rows[access.row]["access"])
        return (_WRITES if lds else _READS) if how & _TO_LDS else how & 3

    def conflicts(self, waves: list[_Wave]) -> str:
        """Two waves that touch a byte, one of them writing, in the same epoch."""
        last = max(wave.epoch for wave in waves)
        for lds in (True, False):
            keys, owners, hows = [], [], []
            for wave in waves:
                for access in wave.accesses:
                    touched = self._bytes(access, lds) if access.encoding != Encoding.SCRATCH else np.zeros(0, np.int64)
                    if not len(touched):
                        continue
                    # A store counts from its issue to its completion in LDS; in global memory as it is issued.
                    strict = lds or access.encoding == Encoding.SMEM
                    until = min(access.done, last) if strict else access.epoch
                    for epoch in range(access.epoch, until + 1):
                        keys.append(touched * (last + 1) + epoch)
                        owners.append(np.full(len(touched), wave.number, np.int64))
                        hows.append(np.full(len(touched), self._how(access, lds), np.int64))
            if keys and (found := _met(np.concatenate(keys), np.concatenate(owners), np.concatenate(hows))) is not None:
                where = "LDS" if lds else "global memory"
                return f"two waves conflict in {where} in epoch {found % (last + 1)}"
        return ""

    def overtaken(self, waves: list[_Wave]) -> str:
        """A load to LDS and another access of its wave to the same bytes before it is complete."""
        for wave in waves:
            direct = [a for a in wave.accesses if int(self.trace.rows[a.row]["access"]) & _TO_LDS]
            if not direct:
                continue
            others = [(a, self._bytes(a, True)) for a in wave.accesses]
            for load in direct:
                mine = self._bytes(load, True)
                for other, touched in others:
                    if other is load or not len(touched):
                        continue
                    inside = load.issued < other.issued < load.complete or other.issued < load.issued < other.complete
                    if inside and len(np.intersect1d(mine, touched, assume_unique=True)):
                        return f"a load to LDS is on its way where its wave has `{self.names[other.index]}`"
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
