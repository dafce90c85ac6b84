"""The executed instructions of the waves of one block, for questions about waits, barriers and loops: the accesses that
a wait completes and their first use, the barriers that synchronise, the iterations of loops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from tkgen.emulate import Outcome
from tkgen.emulate.decode import Encoding
from tkgen.emulate.disassemble import disassemble
from tkgen.sanitize.waits import LGKM, NEVER, VECTOR, Wait

_COUNTERS: Final = {
    Encoding.DS: (LGKM,),
    Encoding.SMEM: (LGKM,),
    Encoding.FLAT: (VECTOR, LGKM),
    Encoding.GLOBAL: (VECTOR,),
    Encoding.SCRATCH: (VECTOR,),
    Encoding.MUBUF: (VECTOR,),
    Encoding.MTBUF: (VECTOR,),
}


@dataclass(frozen=True)
class Released:
    """The accesses that a wait completes without need: their number, one of them, and its first user.

    `access` and `user` are dword indices; `distance` is how many instructions of the wave stand between the wait and
    the user. Without a user nobody touches its registers before the wave ends, or it has none.
    """

    count: int
    access: int
    user: int | None
    distance: int


class Streams:
    """The waves of one block, from a launch with a trace of all of them."""

    def __init__(self, outcome: Outcome):
        assert outcome.trace is not None
        self.outcome, self.program = outcome, outcome.program
        trace = outcome.trace
        order = np.argsort(trace.wave, kind="stable")
        cuts = np.cumsum(np.bincount(trace.wave))[:-1]
        self.paths = [part.tolist() for part in np.split(trace.index[order], cuts)]
        self.accesses = [part.tolist() for part in np.split(trace.lanes[order] >= 0, cuts)]

    @cached_property
    def registers(self) -> dict[int, tuple[frozenset[int], frozenset[int]]]:
        """By dword index, the registers that an instruction reads and those that it writes."""
        assert self.outcome.trace is not None
        found: dict[int, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
        for index, first, count, writes in self.outcome.trace.spans.tolist():
            found[index][bool(writes)].update(range(first, first + count))
        return {index: (frozenset(reads), frozenset(writes)) for index, (reads, writes) in found.items()}

    def text(self, index: int) -> str:
        """An instruction and where it stands, for people."""
        return f"`{disassemble(self.program, index)}` at {self.outcome.address(index):#x}"

    def barriers(self) -> list[frozenset[int]]:
        """Barriers that are checked together: the n-th of each wave is the same one."""
        met = [[i for i in path if self.program.mnemonic(i) == "s_barrier"] for path in self.paths]
        groups: list[set[int]] = []
        for n in range(max(map(len, met), default=0)):
            together = {m[n] for m in met if n < len(m)}
            apart = [g for g in groups if not g & together]
            groups = [*apart, together.union(*(g for g in groups if g & together))]
        return [frozenset(g) for g in sorted(groups, key=min)]

    def loops(self) -> dict[int, int]:
        """Return the iterations of each loop, by the dword at which it begins, in the wave with the most."""
        most: dict[int, int] = {}
        for path in self.paths:
            passes: dict[int, int] = defaultdict(lambda: 1)
            for before, now in pairwise(path):
                if now <= before:
                    passes[now] += 1
            for header, count in passes.items():
                most[header] = max(most.get(header, 0), count)
        return most

    def released(self, wait: int, counter: str, enough: int) -> Released | None:
        """Return the first-used access that the wait at a dword completes and would not if it allowed `enough`.

        None where there is no such access: it waits for nothing.
        """
        count = Wait.at(self.program, wait).count(counter)
        best: Released | None = None
        for path, is_access in zip(self.paths, self.accesses, strict=True):
            for position, pending in self._pending(path, is_access, wait, counter):
                extra = pending[max(len(pending) - enough, 0) : len(pending) - count]
                for at in extra:
                    user, distance = self._first_use(path, position, path[at])
                    found = Released(len(extra), path[at], user, distance)
                    if best is None or (best.user is None, best.distance) > (user is None, distance):
                        best = found
                if extra:
                    break  # the later executions of a wave are like this one
        return best

    def _pending(
        self, path: list[int], is_access: list[bool], wait: int, counter: str
    ) -> Iterator[tuple[int, list[int]]]:
        """Each execution of a wait, and the positions of the accesses that are on their way at it, in order."""
        pending: list[int] = []
        for position, index in enumerate(path):
            if is_access[position]:
                if counter in _COUNTERS.get(Encoding(int(self.program.ops[index]["encoding"])), ()):
                    pending.append(position)
            elif self.program.mnemonic(index) == "s_waitcnt":
                if index == wait:
                    yield position, list(pending)
                allowed = Wait.at(self.program, index).count(counter)
                if allowed < NEVER[counter]:
                    pending = pending[max(len(pending) - allowed, 0) :]

    def _first_use(self, path: list[int], after: int, access: int) -> tuple[int | None, int]:
        nothing: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
        _, written = self.registers.get(access, nothing)
        for distance, index in enumerate(path[after + 1 :] if written else ()):
            reads, writes = self.registers.get(index, nothing)
            if written & reads or written & writes:
                return index, distance
        return None, 0
