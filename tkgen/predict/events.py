"""The events on a compute unit as data: the timing model's own run, written down.

>>> run = record(streams, blocks=1, machine=machine)
>>> run.events[0]
Event(track=<Track.LDS: 'LDS'>, wave=0, start=12.0, end=84.0, address=412, cause='', by=-1)

The model itself (`timing.ComputeUnit`) keeps none of this, so that predictions pay nothing for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

from tkgen.predict.stream import Instruction, Unit, WaveStream
from tkgen.predict.timing import WARM_PASSES, Cause, ComputeUnit, Machine, Wave


class Track(Enum):
    """The resource that an event keeps busy, or the reason why a wave waits."""

    MFMA = "MFMA"  # the matrix unit of the wave's SIMD
    VECTOR = "vector"
    LDS = "LDS"  # from issue to data
    MEMORY = "memory"  # from issue to data, or until the store is done
    BARRIER = "barrier"  # a wave stands at a barrier
    WAIT = "wait"  # a wave stands at a wait; `cause` says what for
    IDLE = "idle"  # the matrix unit stands still; `cause` says why


@dataclass(frozen=True, slots=True)
class Event:
    """Something that lasts from cycle `start` to `end`.

    `wave` counts the waves of all resident blocks, `address` is the instruction's in dwords, -1 for a matrix unit that
    stands still. `by` is the wave that came last to a barrier, -1 elsewhere.
    """

    track: Track
    wave: int
    start: float
    end: float
    address: int
    cause: str = ""
    by: int = -1


@dataclass(frozen=True)
class Recording:
    """A run of `blocks` blocks of `waves` waves; wave w is on SIMD w mod `simds`.

    `passes` has for each wave the cycles at which its iterations of the loop begin, and the end of the last. `warm` is
    the first iteration that counts as steady.
    """

    simds: int
    waves: int
    blocks: int
    end: float
    events: tuple[Event, ...]
    passes: tuple[tuple[float, ...], ...]
    warm: int
    spent: tuple[dict[int, float], ...]


def record(streams: Sequence[WaveStream], blocks: int, machine: Machine) -> Recording:
    """Run as `timing.simulate` does and hand out what happened."""
    return recorded(ComputeUnit, streams, blocks, machine)


def recorded(kind: type[ComputeUnit], *given: Any) -> Recording:
    """Run a CU of this `kind`, which is made of what is `given`, and hand out what happened."""
    unit = type("Recorded", (_Recorder, kind), {})(*given)
    unit.run()
    events = sorted(unit.events, key=lambda e: (e.start, e.wave))
    passes = tuple(tuple(unit.headers[w.age][i] for i in sorted(w.marks.values())) for w in unit.waves)
    return Recording(
        simds=unit.machine.simds,
        waves=len(unit.streams),
        blocks=unit.blocks,
        end=unit.end,
        events=tuple(events),
        passes=passes,
        warm=min(WARM_PASSES, max(len(p) for p in passes) - 1),
        spent=tuple(unit.spent()),
    )


class _Recorder(ComputeUnit):
    """The model with a pen: every step is the model's own."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.events: list[Event] = []
        self.issued: list[list[tuple[int, float]]] = [[] for _ in self.waves]

    def issue(self, wave: Wave, unit: Unit, now: float) -> bool:
        at = wave.pc
        x = wave.code[at]
        if not super().issue(wave, unit, now):
            return False
        self.issued[wave.age].append((at, now))
        if unit is Unit.VALU:
            self.events.append(Event(Track.VECTOR, wave.age, now, now + x.cycles, x.address))
        return True

    def multiply(self, wave: Wave, x: Instruction, now: float) -> bool:
        issued = super().multiply(wave, x, now)
        if issued:
            self.events.append(Event(Track.MFMA, wave.age, now, self.matrix_free[wave.simd], x.address))
        return issued

    def lds(self, wave: Wave, x: Instruction, now: float) -> None:
        super().lds(wave, x, now)
        self.events.append(Event(Track.LDS, wave.age, now, wave.lgkm[-1], x.address))

    def memory(self, wave: Wave, x: Instruction, now: float) -> None:
        super().memory(wave, x, now)
        self.events.append(Event(Track.MEMORY, wave.age, now, wave.vector[-1], x.address))

    def wait(self, wave: Wave, x: Instruction, now: float) -> None:
        before = wave.ready
        super().wait(wave, x, now)
        if wave.ready > before:
            cause = Track.MEMORY if wave.log[-1][2] in (Cause.MEMORY, Cause.BANDWIDTH) else Track.LDS
            self.events.append(Event(Track.WAIT, wave.age, now, wave.ready, x.address, cause.value))

    def release(self, block: int, last: Wave | None, now: float) -> None:
        for wave, since in self.at_barrier[block]:
            address = wave.code[wave.pc - 1].address
            by = last.age if last else -1
            self.events.append(Event(Track.BARRIER, wave.age, since, now, address, by=by))
        super().release(block, last, now)

    def charge(self, wave: Wave, start: float, now: float) -> None:
        known = len(self.lost)
        super().charge(wave, start, now)
        spans = self.lost[known:]
        if spans and spans[-1][1:] == (now, Cause.ISSUE):
            spans.pop()  # what no wait explains is charged as one span: here it stands where it is
        for begin, end, cause in spans:
            if begin > start:
                self.events.append(Event(Track.IDLE, wave.age, start, begin, -1, Cause.ISSUE.value))
            self.events.append(Event(Track.IDLE, wave.age, begin, end, -1, cause.value))
            start = end
        if now > start:
            self.events.append(Event(Track.IDLE, wave.age, start, now, -1, Cause.ISSUE.value))

    def spent(self) -> list[dict[int, float]]:
        """Cycles from each instruction's issue to that of the wave's next one, by wave of a block and address.

        In the loop of one steady pass, on average; elsewhere of the one time it runs, on average over the blocks.
        """
        found: list[dict[int, float]] = [{} for _ in self.streams]
        runs = Counter(w.age % len(self.streams) for w in self.waves for at, _ in self.issued[w.age] if at == 0)
        for wave, issued in zip(self.waves, self.issued, strict=True):
            headers = sorted(wave.marks)  # where each pass begins, and the end of the last
            passes = len(headers) - 1
            warm = min(WARM_PASSES, passes - 1)
            measured = range(headers[warm], headers[-1]) if passes else range(0)
            for (at, begin), (_, end) in pairwise(issued):
                inside = passes and headers[0] <= at < headers[-1]
                if inside and at not in measured:
                    continue
                index = wave.age % len(self.streams)
                parts = runs[index] * (passes - warm if inside else 1)
                cycles, address = found[index], wave.code[at].address
                cycles[address] = cycles.get(address, 0.0) + (end - begin) / parts
        return found
