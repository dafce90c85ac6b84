"""The required orders of operations, found once for all programs that differ only in barriers, waits and fences.

The operations on data and their order decide which accesses to LDS the sequential meaning orders, and what registers
hold (`tkgen.schedule.epochs`, `registers`). Without a barrier or a wait, or with a wait that leaves more in flight,
only the times change when operations begin and are complete. So plans that are tried one after the other are compared
with one list of pairs: each access with the first access of every program that must come after it. Epochs never
decrease along a program, so that pair decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tkgen.ir.types import Program
from tkgen.schedule.epochs import across, barrier_counts, executed, past_the_queue, registers_of, required, rings, slots
from tkgen.schedule.traces import NEVER, Event, Issued, Passed
from tkgen.tile.program import Role

_Move = tuple[int, int]  # a program, and which of its moves


@dataclass(frozen=True)
class Unrolled:
    """The unrolling of the loop of a program: arguments of `epochs.conflicts`."""

    program: Program
    passes: int
    unroll: int
    steps: int
    tiles: int

    def executed(
        self,
        waves: Sequence[Role],
        passed: Mapping[int, Passed] = MappingProxyType({}),
        issued: Mapping[int, Issued] = MappingProxyType({}),
    ) -> list[list[Event]]:
        """Return the events that each program executes; `passed` are waits that complete nothing, by program.

        `issued` as `tkgen.schedule.traces.data_trace` takes it, by program.
        """
        return executed(self.program, waves, self.passes, self.unroll, self.steps, self.tiles, passed, issued)


@dataclass(frozen=True)
class Late:
    """A move of the program with that number that is complete too late: by position `order` of its trace it must be,
    and in an epoch before `epoch`."""

    program: int
    move: Event
    epoch: float
    order: float


@dataclass(frozen=True)
class Orders:
    """The pairs that barriers and waits must order.

    `meeting`: a move -> the first one of each other program, or of another wave of its own, that comes after it.
    `waiting`: a move -> the first one of the same wave, where LDS does not keep the two in order. `hopeless`: something
    is wrong that neither barriers nor waits mend. `issued` by the operations of each program does not depend on them,
    either.
    """

    meeting: Mapping[tuple[_Move, int], int]
    waiting: Mapping[_Move, int]
    hopeless: bool
    issued: Mapping[int, Issued]

    def late(self, traces: Sequence[Sequence[Event]]) -> Iterator[Late]:
        """Yield the pairs that are not ordered."""
        moves = [_moves(events) for events in traces]
        for ((program, first), other), second in self.meeting.items():
            x, epoch = moves[program][first], moves[other][second].begin
            if not x.done < epoch:
                yield Late(program, x, epoch, NEVER)
        for (program, first), second in self.waiting.items():
            x, order = moves[program][first], moves[program][second].order
            if not x.completed <= order:
                yield Late(program, x, NEVER, order)

    def kept(self, unrolled: Unrolled, waves: Sequence[Role]) -> bool:
        """Return True if nothing is wrong with these programs."""
        if self.hopeless or barrier_counts(waves, unrolled.passes, unrolled.tiles):
            return False
        return next(self.late(unrolled.executed(waves, issued=self.issued)), None) is None


def orders(unrolled: Unrolled, waves: Sequence[Role]) -> Orders:
    """Find the pairs that must be ordered in the execution of the programs."""
    issued: dict[int, Issued] = {number: [] for number in range(len(waves))}
    program, traces = unrolled.program, unrolled.executed(waves, issued=issued)
    numbers = [{e.order: n for n, e in enumerate(_moves(events))} for events in traces]
    direct = past_the_queue(program)
    meeting: dict[tuple[_Move, int], int] = {}
    waiting: dict[_Move, int] = {}
    hopeless = bool(registers_of(program, waves, traces, unrolled.steps))
    for ring in rings(program).items():
        for _, slot in slots(program, *ring, traces):
            hopeless |= not all(writes for writes, _ in slot.values())
            for _, x, y in required(slot, waves):
                first = x.wave, numbers[x.wave][x.event.order]
                second = numbers[y.wave][y.event.order]
                if across(x, y, waves):
                    meeting[first, y.wave] = min(second, meeting.get((first, y.wave), second))
                elif x.event.order >= y.event.order:
                    hopeless = True
                elif isinstance(x.event.op, direct) or isinstance(y.event.op, direct):
                    waiting[first] = min(second, waiting.get(first, second))
    return Orders(meeting, waiting, hopeless, issued)


def _moves(events: Sequence[Event]) -> list[Event]:
    return [e for e in events if e.op.operand]


def most_in_flight(late: Iterable[Late], passed: Mapping[int, Passed]) -> int | None:
    """Return the number of operations that a wait may leave in flight and order these pairs; None if there is none.

    `late` are the pairs that are not ordered where it completes nothing, `passed` the wait, by the program's number. Of
    the times that a wave passes it between the two, one must complete the first: it leaves no more than what is issued
    after the first one's section.
    """
    found: int | None = None
    for pair in late:
        between = (
            issued.get(pair.move.section, 0)
            for order, epoch, issued in (passed[pair.program].times if pair.program in passed else ())
            if pair.move.order < order <= pair.order and epoch < pair.epoch
        )
        left = max(between, default=0)
        found = left if found is None else min(found, left)
    return found
