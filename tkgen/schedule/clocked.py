"""Wave programs in the form of the general proof (`tkgen.proof`): one meeting, of all waves, and LDS buffers as rings.

`tkgen.schedule.epochs` is the fast case of that proof. With one meeting at which all agents meet, a vector clock is one
number: an agent that has passed n meetings knows of every agent what that did before its n-th meeting, and no more; so
"y knows the completion of x" is "x was complete before its agent's n-th meeting, and y begins behind y's", done(x) <
begin(y). `tests/schedule/test_clocked.py` holds the two together.

What completes within a wave, and when, the calculus of epochs says, which knows what the compiler may reorder and
merge; here that is `completes_at`. Two waves stand for all that execute one program: accesses of a wave meet those of
itself and of another. A part of a tile (`Operand.parts`) that waves of a role bring together is dealt to them, always
alike for one kind of operation. So beside that of its parts a tile has a dimension for each (role, kind) that writes
it, with an element for each such wave: a write has its own element there and all in the others, a read has all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from tkgen.ir.reductions import RING, exchanges
from tkgen.ir.types import Program as Kernel
from tkgen.proof.program import Access, Agent, Do, Drain, Fence, Meet, Meeting, Program, Step
from tkgen.schedule.epochs import rings
from tkgen.schedule.traces import CUTS, NEVER, Event, parts_of, trace
from tkgen.targets.synchronisation import GENERIC, Attendance, Synchronisation
from tkgen.tile.ops import SHARED_READS, SHARED_WRITES, Barrier, Copy, Load, Wait, WaveProgram
from tkgen.tile.ops import Fence as CompilerFence
from tkgen.tile.program import Op, Space


def clocked(
    kernel: Kernel,
    waves: Sequence[WaveProgram],
    machine: Synchronisation,
    passes: int,
    unroll: int,
    steps: int,
    tiles: int = 1,
) -> Program:
    """What the waves execute in `passes` passes of the loop, on a target's `machine`.

    The other arguments are those of `epochs.conflicts`.
    """
    barrier = next(m.name for m in machine.meetings if m.attendance is Attendance.ALL)
    last_phase = max(w.phase for w in waves)
    traces = [trace(kernel, w, passes, unroll, steps, tiles, last_phase) for w in waves]
    standing = [(number, wave, events) for wave, events in zip(waves, traces, strict=True) for number in wave.waves[:2]]
    writers = _writers(standing)
    agents = tuple(
        Agent(f"{wave.role} {number}", tuple(_steps(kernel, wave, number, events, writers, steps, barrier)))
        for number, wave, events in standing
    )
    return Program(agents, (Meeting(barrier, len(agents)),), machine)


_Writers = dict[tuple[str, type[Op]], dict[int, int]]  # (role, kind of operation) -> wave -> its part of a tile


def _writers(standing: Sequence[tuple[int, WaveProgram, Sequence[Event]]]) -> dict[str, _Writers]:
    """Who writes which part of each operand's tiles to LDS."""
    found: dict[str, _Writers] = {}
    for number, wave, events in standing:
        for e in events:
            if isinstance(e.op, SHARED_WRITES) and e.op.operand:
                parts = found.setdefault(e.op.operand, {}).setdefault((wave.role, type(e.op)), {})
                parts.setdefault(number, len(parts))
    return found


def _steps(
    kernel: Kernel,
    wave: WaveProgram,
    number: int,
    events: Sequence[Event],
    writers: dict[str, _Writers],
    steps: int,
    barrier: str,
) -> Iterator[Step]:
    """The meetings and waits of a wave, and its accesses to LDS."""
    kept = [
        e for e in events
        if isinstance(e.op, CUTS) or (isinstance(e.op, SHARED_READS + SHARED_WRITES) and e.op.operand)
    ]  # fmt: skip
    orders = [e.order for e in kept]
    for e in kept:
        match e.op:
            case Barrier():
                yield Meet(barrier)
                continue
            case Wait(counter=counter, count=count):
                yield Drain(counter, count)
                continue
            case CompilerFence():
                yield Fence(GENERIC, GENERIC)  # the compiler's
                continue
        # A write touches its wave's part of what waves like it bring, and with others' it may have anything in common.
        box = tuple(
            (parts[number], parts[number] + 1) if who == (wave.role, type(e.op)) else (0, len(parts))
            for who, parts in writers.get(e.op.operand, {}).items()
        )
        instances = exchanges(kernel) if e.op.operand == RING else steps
        reads, writes = (
            tuple(
                Access(a.name, e.tile * instances + step, step % rings(kernel)[a.name], ((part, part + 1), *box))
                for a, step in ((a, e.step_of(a)) for a in accesses if a.space is Space.SHARED)
                for part in parts_of(kernel, a)
            )
            for accesses in (e.op.reads, e.op.writes)
        )
        copied = isinstance(e.op, Copy) or (isinstance(e.op, Load) and kernel.direct)
        done = NEVER if e.completed is NEVER else bisect_right(orders, e.completed)
        yield Do(reads, writes, "vm" if copied else "lds", completes_at=done)
