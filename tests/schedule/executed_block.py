"""Wave programs, unrolled, as a block of the tile program, for the general proof (`tkgen.tile.unroll`).

`tkgen.schedule.epochs` is the fast case of that proof. With one barrier for all agents a vector clock is one number: an
agent that has passed n barriers knows of every agent what that did before its n-th barrier, and no more. So "y knows
the completion of x" is "x was complete before its agent's n-th barrier, and y begins after y's": done(x) < begin(y).
`test_executed_block.py` compares the two, each of which finds by itself when an access is complete.

Two waves represent all that execute one program: accesses of a wave conflict with those of itself and of another. The
docstring of `tkgen.schedule.traces` says what the compiler keeps of the written order. All instructions of a section on
a stream, counted at their fewest, belong to its first operation there. An operation's own waits are written before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from tkgen.ir.reductions import RING, exchanges
from tkgen.ir.types import Program
from tkgen.schedule.epochs import rings
from tkgen.schedule.instructions import instructions_of, pieces, whole_rounds
from tkgen.schedule.traces import CUTS, Event, parts_of, trace, used
from tkgen.tile.ops import Fetch, Load, Move, OfRound, Reduce, SharedLoad, SharedStore, Write, region
from tkgen.tile.program import Block, Cursor, Drain, Op, Region, Ring, Role, Space, StreamKind, Tiles

START = Cursor("start", "")  # where all instances are counted from


class _Direct(Load):
    """To shared memory past registers."""

    stream_kind = StreamKind.GLOBAL


def executed_block(
    kernel: Program, waves: Sequence[Role], passes: int, unroll: int, steps: int, tiles: int = 1
) -> Block:
    """The operations of `passes` iterations of the loop. The arguments are those of `epochs.conflicts`."""
    last_phase = max(w.phase for w in waves)
    held = {
        name: Ring(
            name, slots=str(slots), parts=str(1 if name == RING else kernel.operand(name).part_count), dealt=True
        )
        for name, slots in rings(kernel).items()
    }
    made = (_Executed(kernel, held, steps, trace(kernel, w, passes, unroll, steps, tiles, last_phase)) for w in waves)
    roles = (
        Role(wave.name, (START,), tuple(each.ops()), Tiles((), ()), warps=str(len(wave.waves[:2])))
        for wave, each in zip(waves, made, strict=True)
    )
    return Block(tuple(roles), (), (), tuple(held.values()))


class _Executed:
    """The operations of one wave, with the waits that are part of them."""

    def __init__(self, kernel: Program, held: dict[str, Ring], steps: int, events: Sequence[Event]):
        self.kernel, self.held, self.steps, self.events = kernel, held, steps, events
        found: dict[tuple[str, int], dict[Hashable, int]] = defaultdict(dict)
        for event, tiles in zip(events, used(kernel, events), strict=True):
            for stream, each in pieces(kernel, event.op, event.step, tiles):
                found[stream, event.section] |= each
        self.instructions = {key: instructions_of(each) for key, each in found.items()}
        # A load that waits for its writes to LDS waits for all of earlier sections: where its section begins, or later.
        self.loading = {("lds", e.section) for e in events if isinstance(e.op, Load) and not kernel.direct}

    def ops(self) -> Iterator[Op]:
        """Operations on memory, waits and barriers."""
        fetched: dict[tuple[str, int, int], int] = {}  # (operand, step, part) -> the section of its fetch
        counted: set[tuple[str, int]] = set()  # streams of sections that have been counted
        waited = -1  # the latest section whose fetch a write has waited for
        for e in self.events:
            op, direct = e.op, self.kernel.direct
            if isinstance(op, CUTS):
                if waited >= 0:
                    left = sum(n for (stream, section), n in self.instructions.items()
                               if stream == "vm" and waited <= section <= e.section)  # fmt: skip
                    yield Drain("vm", str(left))
                    waited = -1
                yield op
            if not (isinstance(op, Move) or (isinstance(op, OfRound) and op.ring)):
                continue
            if isinstance(op, Fetch):
                fetched |= {(op.operand, e.step, part): e.section for part in parts_of(self.kernel, op.tile)}
            elif isinstance(op, Write):
                sections = [fetched.pop((op.operand, e.step, part), -1) for part in parts_of(self.kernel, op.source)]
                waited = max(waited, *sections) if whole_rounds(self.kernel, op) else waited
            stream = "vm" if op.stream_kind is StreamKind.GLOBAL or (direct and isinstance(op, Load)) else "lds"
            key = stream, e.section
            if key in self.loading and key not in counted:
                yield Drain(stream)
            for n, access in enumerate(self._accesses(e)):
                yield replace(access, units=0 if key in counted or n else self.instructions.get(key, 0))
            counted.add(key)
            if isinstance(op, Load) and direct:
                yield Drain(stream)

    def _accesses(self, e: Event) -> Iterator[Op]:
        """An operation for each part that it touches."""
        op = e.op
        if isinstance(op, OfRound):
            results = self._touched(region(Space.SHARED, op.ring), e.tile * exchanges(self.kernel) + e.step)
            yield SharedStore(op.round, results) if isinstance(op, Reduce) else SharedLoad(op.round, results)
            return
        assert isinstance(op, Move)
        kind = _Direct if isinstance(op, Load) and self.kernel.direct else type(op)
        if op.shared is None:
            yield kind(op.source, op.target)
            return
        instance = e.tile * self.steps + e.step_of(op.shared)
        for part in parts_of(self.kernel, op.shared):
            touched = self._touched(op.shared, instance, part)
            yield kind(touched, op.target) if op.source is op.shared else kind(op.source, touched)

    def _touched(self, access: Region, instance: int, part: int = 0) -> Region:
        return Region(self.held[access.name], START.name, str(part), ahead=instance)
