"""A second calculation of what waits and barriers of machine code order, from the instructions that waves execute.

It shares the decoded instructions and the traces of addresses with the emulator, and nothing of its referee. Rules,
of the CDNA2 and CDNA3 ISA documents ("Data Dependency Resolution") and of LLVM's memory model:

- `vmcnt` counts vector memory in the order of issue; `lgkmcnt` counts LDS in order, and scalar loads in any order, so
  these are complete after `lgkmcnt(0)` alone. A flat access needs both counters at 0.
- A counter holds no more than 63 (`vmcnt`) or 15 (`lgkmcnt`): an access that is issued waits for the oldest one of its
  queue until there is room.
- Until a load is complete, no instruction reads or writes its registers, but loads of one queue, which return in order:
  the later one overwrites the earlier one.
- An access lies in the epochs from the barriers passed at its issue to those passed when it is complete. Accesses of
  two waves to the same byte of LDS, one of them a write, share no epoch. In global memory the vector L1 serves the
  waves of a block in order, so the epoch of the issue counts.
- Until a load to LDS is complete, its own wave does not touch these bytes.
- All waves pass equally many barriers.

A block of the code itself is traced once, for all its mutants. A mutant in which everything that conflicts is ordered
computes what the code does, instruction after instruction, so it goes the same way and has the same addresses.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from tkgen.emulate import Outcome
from tkgen.emulate.decode import Encoding
from tkgen.sanitize.waits import LGKM, VECTOR, Wait

_READS, _WRITES, _UPDATES = 0, 1, 2
_LDS, _TO_LDS, _TWO = 4, 8, 16  # bits of an access in a trace (TkTraceEntry in core/abi.h)
_NEVER: Final = 1 << 30
_MOST: Final = {"vector": 63, "shared": 15}  # accesses that a counter holds
_INACTIVE: Final = np.uint64(2**64 - 1)

Change = Wait | None  # what a wait or a barrier becomes: another wait, or nothing


@dataclass(frozen=True)
class _Step:
    """An instruction of a wave: its dword and name, and masks of the registers that it reads and writes."""

    index: int
    name: str
    reads: int = 0
    writes: int = 0
    touches: int = 0
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
    """The way of a wave: its accesses, barriers, and the number of accesses that each wait completed."""

    accesses: list[_Access] = field(default_factory=list)
    epoch: int = 0
    completed: Counter[tuple[int, str]] = field(default_factory=Counter)
    by_room: int = 0  # accesses that were complete because their counter was full
    fault: str = ""


@dataclass(frozen=True)
class Modelled:
    """The fault that the model sees, empty where there is none; the accesses that each `s_waitcnt` completed.

    `completed` has, by dword of a wait and its counter, how many accesses it completed in all executions; `by_room` is
    the number of those that were complete because their counter was full.
    """

    fault: str
    completed: Mapping[tuple[int, str], int]
    by_room: int = 0


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
                busy = _busy(queues)
            continue
        assert step.encoding is not None
        name = names.get(step.encoding, "vector")
        if len(queues[name]) >= _MOST.get(name, _NEVER):
            oldest = queues[name].pop(0)
            oldest.complete, oldest.done = position, way.epoch
            way.by_room += 1
            busy = _busy(queues)
        if step.touches & busy:
            others = {other: queue for other, queue in queues.items() if other != name or name not in _MOST}
            if step.reads & busy or step.writes & _busy(others):
                way.fault = way.fault or _used(step, queues)
        access = _Access(position, step, way.epoch)
        way.accesses.append(access)
        queues[name].append(access)
        busy |= step.writes
    return way


def _busy(queues: Mapping[str, list[_Access]]) -> int:
    """The registers of loads on their way."""
    found = 0
    for queue in queues.values():
        for access in queue:
            found |= access.step.writes
    return found


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
        self._spans: dict[int, tuple[int, int]] = {}
        self._masks: dict[int, tuple[int, int]] = {}
        for index, first, count, writes in self.trace.spans.tolist():
            mask, (read, written) = ((1 << count) - 1) << first, self._masks.get(index, (0, 0))
            self._masks[index] = (read, written | mask) if writes else (read | mask, written)
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
            read, written = self._masks.get(index, (0, 0))
            found = _Step(index, name, read, written, read | written, encoding, wait, plain)
            self._known[index, accesses] = found
        return found

    @cached_property
    def _itself(self) -> list[_Way]:
        return [_followed(steps, {}) for steps in self.sequences]

    @cached_property
    def itself(self) -> Modelled:
        """The verdict on the code itself."""
        by_room = sum(self._itself[number].by_room for number in self.ways)
        return Modelled(self._judged(self._itself, everything=True), self._completed(self._itself), by_room)

    def modelled(self, changes: Mapping[int, Change]) -> Modelled:
        """The verdict on the code with some waits and barriers changed, by dword."""
        if self.itself.fault:
            return Modelled(f"the code itself: {self.itself.fault}", {})
        ways = [_followed(steps, changes) for steps in self.sequences]
        return Modelled(self._judged(ways), self._completed(ways), sum(ways[number].by_room for number in self.ways))

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
            fault = self._conflict(ways, lds=True) or self._conflict(ways, lds=False)
        if everything or any(a.complete != b.complete for a, b in pairs):
            fault = fault or self._overtaken(ways)
        return fault

    # ------------------------------------------------------------ memory

    @cached_property
    def _unit(self) -> int:
        """The number of bytes, a power of 2, by multiples of which all accesses are apart and long."""
        live = self.trace.addresses[self.trace.addresses != _INACTIVE]
        rows = self.trace.rows[self.trace.lanes >= 0]
        bits = [
            int(np.bitwise_or.reduce(rows[name].astype(np.int64), initial=0)) for name in ("size", "second", "lds_base")
        ]
        found = int(np.bitwise_or.reduce(live, initial=np.uint64(0))) | bits[0] | bits[1] | bits[2]
        return min(found & -found, 16) or 16

    def _units(self, row: int, lds: bool) -> npt.NDArray[np.int64]:
        """The units of memory that an access touches in LDS, or in global memory."""
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
            if not lds:  # spills through a buffer are at offsets in a lane's own memory
                starts = starts[starts >= min((base for base, _ in self.trace.buffers), default=0)]
        if how & _TWO:
            starts = np.concatenate([starts, starts + int(entry["second"])])
        return (starts[:, None] // self._unit + np.arange(size // self._unit)).ravel()

    def _how(self, row: int, lds: bool) -> int:
        how = int(self.trace.rows[row]["access"])
        return (_WRITES if lds else _READS) if how & _TO_LDS else how & 3

    @cached_property
    def _touched(self) -> tuple[_Touched, _Touched]:
        """The accesses to LDS and to global memory."""
        found = _Touched(), _Touched()
        for wave, number in enumerate(self.ways):
            for nth, access in enumerate(self._itself[number].accesses):
                row = int(self.rows[wave][access.position])
                if access.step.encoding == Encoding.SCRATCH:
                    continue
                for lds, touched in zip((True, False), found, strict=True):
                    if len(units := self._units(row, lds)):
                        touched.add(wave, nth, self._how(row, lds), units)
        return found

    def _conflict(self, ways: list[_Way], lds: bool) -> str:
        """Two waves that touch a byte, one of them writing, in the same epoch."""
        touched = self._touched[not lds]
        begins, ends = [], []
        last = max(way.epoch for way in ways)
        for each in touched.accesses:
            access = ways[self.ways[each.wave]].accesses[each.nth]
            # A store counts from its issue to its completion in LDS; in global memory as it is issued.
            strict = lds or access.step.encoding == Encoding.SMEM
            begins.append(access.epoch)
            ends.append(min(access.done, last) if strict else access.epoch)
        for epoch in range(last + 1):
            there = [each for each, a, b in zip(touched.accesses, begins, ends, strict=True) if a <= epoch <= b]
            if there and touched.meet(there):
                return f"two waves conflict in {'LDS' if lds else 'global memory'} in epoch {epoch}"
        return ""

    def _overtaken(self, ways: list[_Way]) -> str:
        """A load to LDS and another access of its wave to the same bytes before the first of the two is complete."""
        for wave, number in enumerate(self.ways):
            rows, found = self.rows[wave], ways[number].accesses
            how = self.trace.rows["access"][rows[[a.position for a in found]]]
            if not np.any(how & _TO_LDS):
                continue
            shared = [(a, bool(h & _TO_LDS)) for a, h in zip(found, how.tolist(), strict=True) if h & (_LDS | _TO_LDS)]
            for nth, (first, direct) in enumerate(shared):
                for second, also in itertools.islice(shared, nth + 1, None):
                    if second.position >= first.complete:
                        break
                    if (direct or also) and self._share(int(rows[first.position]), int(rows[second.position])):
                        return f"`{second.step.name}` touches LDS where `{first.step.name}` is on its way"
        return ""

    def _share(self, first: int, second: int) -> bool:
        """True if two accesses touch a byte of LDS."""
        one, other = self._span(first), self._span(second)
        if one[1] < other[0] or other[1] < one[0]:
            return False
        return bool(np.any(np.isin(self._units(first, True), self._units(second, True))))

    def _span(self, row: int) -> tuple[int, int]:
        """The first and the last unit of LDS that an access touches; a range that is empty where it touches none."""
        if row not in self._spans:
            touched = self._units(row, True)
            self._spans[row] = (int(touched.min()), int(touched.max())) if len(touched) else (1, 0)
        return self._spans[row]


@dataclass(frozen=True)
class _Units:
    """The units of an access: the wave, the number among its accesses, what it does, the units by number."""

    wave: int
    nth: int
    how: int
    units: npt.NDArray[np.int32]


class _Touched:
    """Accesses of a block to one memory. Its units are numbered; those that nobody changes are left out."""

    def __init__(self) -> None:
        self._raw: list[tuple[int, int, int, npt.NDArray[np.int64]]] = []

    def add(self, wave: int, nth: int, how: int, touched: npt.NDArray[np.int64]) -> None:
        """One access more."""
        self._raw.append((wave, nth, how, touched))

    @cached_property
    def _changed(self) -> npt.NDArray[np.int64]:
        """The units that somebody changes, sorted."""
        found = [touched for _, _, how, touched in self._raw if how != _READS]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    @cached_property
    def accesses(self) -> list[_Units]:
        """All accesses to units that somebody changes."""
        changed, found = self._changed, []
        for wave, nth, how, touched in self._raw:
            if not len(changed) or touched.max() < changed[0] or touched.min() > changed[-1]:
                continue
            at = np.searchsorted(changed, touched)
            kept = at[changed[np.minimum(at, len(changed) - 1)] == touched]
            if len(kept):
                found.append(_Units(wave, nth, how, kept.astype(np.int32)))
        self._raw = []
        return found

    def meet(self, accesses: Sequence[_Units]) -> bool:
        """True if two waves touch one unit, one of which writes it, or updates what the other reads."""
        owner = np.full(len(self._changed), -1, np.int16)
        several, written, updated, read = (np.zeros(len(self._changed), bool) for _ in range(4))
        by_how = {_READS: read, _WRITES: written, _UPDATES: updated}
        for each in accesses:
            before = owner[each.units]
            several[each.units] |= (before >= 0) & (before != each.wave)
            owner[each.units] = each.wave
            by_how[each.how][each.units] = True
        return bool(np.any(several & (written | updated & read)))
