"""In which order a lane goes over its elements: a sweep for each reduction that the next one needs.

A sweep first computes what belongs to a row, then every element's operations, then the reductions of what it saw.
Operations stand in the first sweep in which all they need is known. Values of elements that a later sweep reads are
held in registers; what was loaded is held as it stands in memory, and widened at each use.

A loop has sweeps of its own, which each pass does with the elements of its tile; what is between loops is done once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    Constant,
    Coordinate,
    Kernel,
    Load,
    Loop,
    Map,
    Op,
    Reduce,
    Store,
    Value,
    reads,
    walk,
    writes,
)

REGISTER_BYTES = 4


@dataclass(frozen=True)
class Sweep:
    """One walk: `rows`, operations of a whole row; `elements`, of every element; `reduces`, at its end.

    `loop` is the loop in each pass of which it is done, None for what is done once.
    """

    rows: tuple[Op, ...]
    elements: tuple[Op, ...]
    reduces: tuple[Reduce, ...]
    loop: Loop | None = None

    @property
    def ops(self) -> tuple[Op, ...]:
        """All of it, in order."""
        return (*self.rows, *self.elements, *self.reduces)


def on(op: Op, fast: Axis) -> bool:
    """Whether an operation is of every element, not of a row."""
    match op:
        case Store(target=target):
            return fast in target.axes
        case Reduce():
            return False
    return fast in writes(op)[0].axes


def regions(kernel: Kernel) -> Iterator[tuple[Loop | None, tuple[Op, ...]]]:
    """The body in parts, in order: each loop with what is in it, and with None what stands between loops."""
    between: list[Op] = []
    for op in kernel.body:
        if isinstance(op, Loop):
            yield None, tuple(between)
            yield op, op.body
            between = []
        else:
            between.append(op)
    yield None, tuple(between)


def sweeps(kernel: Kernel, fast: Axis) -> tuple[Sweep, ...]:
    """The sweeps of a kernel. Loads, constants, scalars and coordinates stand in none: they are there."""
    known: dict[Value, int] = {}
    found: list[Sweep] = []
    for loop, body in regions(kernel):
        start = len(found)
        places: list[tuple[int, Op]] = []
        known |= {c.inside: start for c in loop.carries} if loop else {}
        for op in body:
            level = max((known[value] for value in reads(op)), default=0)
            if not isinstance(op, Load | Constant | Argument | Coordinate):
                level = max(level, start)
                places.append((level, op))
            for value in writes(op):
                known[value] = level + isinstance(op, Reduce)
        for level in range(start, max((level + 1 for level, _ in places), default=start)):
            here = [op for at, op in places if at == level]
            plain = [op for op in here if not isinstance(op, Reduce)]
            rows = tuple(op for op in plain if not on(op, fast))
            elements = tuple(op for op in plain if on(op, fast))
            found.append(Sweep(rows, elements, tuple(op for op in here if isinstance(op, Reduce)), loop))
        known |= {c.result: len(found) for c in loop.carries} if loop else {}
    return tuple(found) or (Sweep((), (), ()),)


def last_use(all_sweeps: tuple[Sweep, ...]) -> dict[Value, int]:
    """The last sweep that reads a value."""
    return {value: number for number, sweep in enumerate(all_sweeps) for op in sweep.ops for value in reads(op)}


def held(kernel: Kernel, fast: Axis) -> dict[Value, tuple[int, int]]:
    """Values of elements that are kept between sweeps: the one that makes each, and the last that reads it."""
    found = sweeps(kernel, fast)
    last = last_use(found)
    return {
        value: (number, last[value])
        for number, sweep in enumerate(found)
        for op in sweep.elements
        for value in writes(op)
        if last.get(value, number) > number
    }


def divisors(kernel: Kernel, fast: Axis) -> tuple[Value, ...]:
    """Values of rows by which elements are divided."""
    found: dict[Value, None] = {}
    constants = {op.result for op in walk(kernel.body) if isinstance(op, Constant)}
    for op in walk(kernel.body):
        if isinstance(op, Map) and op.function == "div" and fast in op.result.axes:
            by = op.arguments[1]
            if fast not in by.axes and by not in constants:
                found[by] = None
    return tuple(found)


def registers(kernel: Kernel, fast: Axis, rows: int, chunks: int, chunk: int) -> int:
    """VGPRs of the elements that a lane has at the worst moment: `rows` at a time, `chunks` of `chunk` of each.

    What was loaded takes whole registers for each chunk. What a sweep reads for the last time makes room, chunk by
    chunk, for what it makes. Elements live in one pass of a loop.
    """
    elements = chunks * chunk
    found = sweeps(kernel, fast)
    last = last_use(found)
    kept = held(kernel, fast)

    def copies(value: Value) -> int:
        return rows if any(a != fast and not a.is_index for a in value.axes) else 1

    most = 0
    for loop, body in regions(kernel):
        loads: dict[Access, list[Load]] = {}
        for op in body:
            if isinstance(op, Load) and fast in op.result.axes:
                loads.setdefault(op.source, []).append(op)
        until = {access: max(last.get(op.result, -1) for op in same) for access, same in loads.items()}
        for number in (n for n, sweep in enumerate(found) if sweep.loop == loop):
            stays = goes = comes = 0
            for access, same in loads.items():
                words = chunks * -(-chunk * access.tensor.dtype.bytes // REGISTER_BYTES)
                if until[access] > number:
                    stays += copies(same[0].result) * words
                elif until[access] == number:
                    goes += copies(same[0].result) * words
            for first, end in kept.values():
                stays += rows * elements * (first < number < end)
                goes += rows * elements * (end == number)
                comes += rows * elements * (first == number)
            most = max(most, stays + max(goes, comes))
    return most
