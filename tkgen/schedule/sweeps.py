"""In which order a lane goes over its elements: a sweep for each reduction that the next one needs.

A sweep first computes what belongs to a row, then every element's operations, then the reductions of what it saw.
Operations stand in the first sweep in which all they need is known. Values of elements that a later sweep reads are
held in registers; what was loaded is held as it stands in memory, and widened at each use.

A loop has sweeps of its own, which each iteration does with the elements of its tile; what is between loops is done
once. Sums, maxima and minima that a loop only accumulates (`w = w + rowsum(x)`) stay in each lane during the loop. The
parts of all lanes are combined once, after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    Carry,
    Constant,
    Convert,
    Coordinate,
    Extent,
    Kernel,
    Load,
    Loop,
    Map,
    Op,
    Reduce,
    Scan,
    Sort,
    Store,
    Value,
    reads,
    walk,
    writes,
)
from tkgen.schedule.row_form import by_chunk

REGISTER_BYTES = 4
THERE = Load | Constant | Argument | Coordinate | Extent  # what stands in no sweep


@dataclass(frozen=True)
class Sweep:
    """One walk: `rows`, operations of a whole row; `elements`, of every element; `reduces`, at its end.

    `loop` is the loop in each iteration of which it is done, None for what is done once. Of `parts`, reductions too,
    each lane keeps its own part, to which an iteration adds; `whole` are those of the loop before, whose parts are put
    together.

    Of `scans` it finds what comes before each chunk of a lane. The next sweep has the scan itself among its elements.
    At its end lanes bring its `sorts` into order; the results are held.
    """

    rows: tuple[Op, ...]
    elements: tuple[Op, ...]
    reduces: tuple[Reduce, ...]
    loop: Loop | None = None
    parts: tuple[Reduce, ...] = ()
    whole: tuple[Reduce, ...] = ()
    scans: tuple[Scan, ...] = ()
    sorts: tuple[Sort, ...] = ()

    @property
    def ops(self) -> tuple[Op, ...]:
        """All of it, in order."""
        return (*self.rows, *self.elements, *self.reduces, *self.parts, *self.sorts)

    @property
    def handed(self) -> tuple[Reduce | Scan, ...]:
        """The reductions and scans whose parts lanes exchange at its end."""
        return (*self.reduces, *self.whole, *self.scans)

    @property
    def used(self) -> tuple[Op, ...]:
        """The operations that read elements."""
        return (*self.elements, *self.reduces, *self.parts, *self.scans, *self.sorts)


def on(op: Op, fast: Axis) -> bool:
    """Return True if an operation is of every element, not of a row."""
    match op:
        case Store(target=target):
            return fast in target.axes
        case Reduce():
            return False
    return fast in writes(op)[0].axes


TAKEN = {"sum": "add", "max": "max", "min": "min"}  # by which function a carried value takes up a reduction


def apart(loop: Loop) -> dict[Carry, tuple[Reduce, Map]]:
    """The carried values that are nothing but what a reduction finds in all passes: it, and how they take it up."""
    made = {value: op for op in loop.body for value in writes(op)}
    uses = Counter(value for op in walk(loop.body) for value in reads(op))
    uses.update(c.update for c in loop.carries)
    found = {}
    for carry in loop.carries:
        update = made.get(carry.update)
        if not isinstance(update, Map) or carry.inside not in update.arguments or len(update.arguments) != 2:
            continue
        other = next((v for v in update.arguments if v != carry.inside), carry.inside)
        reduce = made.get(other)
        alone = uses[carry.inside] == uses[other] == uses[carry.update] == 1
        if isinstance(reduce, Reduce) and alone and TAKEN.get(reduce.function) == update.function:
            found[carry] = reduce, update
    return found


@dataclass(frozen=True)
class Region:
    """A part of the body: the operations of a `loop`, or with None of what stands after one, and before the next.

    Those of a loop do not take up its reductions in `parts`; those after it do, once, when they are put together.
    """

    loop: Loop | None
    ops: tuple[Op, ...]
    parts: tuple[Reduce, ...] = ()

    @property
    def whole(self) -> tuple[Reduce, ...]:
        """The reductions of the loop before that are combined at its begin."""
        return () if self.loop else self.parts


def regions(kernel: Kernel) -> Iterator[Region]:
    """The body in parts, in order."""
    between: list[Op] = []
    parts: tuple[Reduce, ...] = ()
    for op in kernel.body:
        if not isinstance(op, Loop):
            between.append(op)
            continue
        yield Region(None, tuple(between), parts)
        kept = apart(op)
        updates = [update for _, update in kept.values()]
        parts = tuple(reduce for reduce, _ in kept.values())
        yield Region(op, tuple(inner for inner in op.body if inner not in updates), parts)
        between = [taken_up(carry, *made) for carry, made in kept.items()]
    yield Region(None, tuple(between), parts)


def taken_up(carry: Carry, reduce: Reduce, update: Map) -> Map:
    """Return the op of a carried value after its loop: its initial value combined with the reduction over all
    iterations.
    """
    return Map(carry.result, update.function, (carry.initial, reduce.result))


def of_block(kernel: Kernel) -> frozenset[Value]:
    """The values that all lanes of a block have alike before a sweep: of scalars, constants, single loads.

    A reduction is none of them, even of what all rows share: each lane has it with its rows, after a sweep.
    """
    found: set[Value] = set()
    for op in walk(kernel.body):
        alike = isinstance(op, Load | Constant | Argument | Extent | Map | Convert) and found.issuperset(reads(op))
        if alike and not (result := writes(op)[0]).axes:
            found.add(result)
    return frozenset(found)


def sweeps(kernel: Kernel, fast: Axis) -> tuple[Sweep, ...]:
    """The sweeps of a kernel. Loads, constants, scalars, coordinates and lengths stand in none: they are there."""
    known: dict[Value, int] = {}
    found: list[Sweep] = []
    for region in regions(kernel):
        loop, start = region.loop, len(found)
        kept = apart(loop) if loop else {}
        places: list[tuple[int, Op]] = []
        begun: list[tuple[int, Scan]] = []  # the sweep that finds what comes before each chunk
        known |= {c.inside: start for c in loop.carries} if loop else {}
        known |= {reduce.result: start + 1 for reduce in region.whole}
        for op in region.ops:
            level = max((known[value] for value in reads(op)), default=0)
            if not isinstance(op, THERE):
                level = max(level, start)
                if isinstance(op, Scan):
                    begun.append((level, op))
                    level += 1
                places.append((level, op))
            for value in writes(op):
                known[value] = level + isinstance(op, Reduce | Sort)
        levels: dict[int, list[Op]] = {}
        for at, op in places:
            levels.setdefault(at, []).append(op)
        for level in range(start, max((level + 1 for level in levels), default=start + bool(region.whole))):
            here = levels.get(level, [])
            plain = [op for op in here if not isinstance(op, Reduce | Sort)]
            rows = tuple(op for op in plain if not on(op, fast))
            elements = tuple(op for op in plain if on(op, fast))
            reduces = [op for op in here if isinstance(op, Reduce)]
            late = tuple(op for op in reduces if loop and op in region.parts)
            whole = region.whole if level == start else ()
            scans = tuple(op for at, op in begun if at == level)
            sorts = tuple(op for op in here if isinstance(op, Sort))
            now = tuple(op for op in reduces if op not in late)
            found.append(Sweep(rows, elements, now, loop, late, whole, scans, sorts))
        known |= {c.result: len(found) for c in loop.carries if c not in kept} if loop else {}
    return tuple(found) or (Sweep((), (), ()),)


def last_use(all_sweeps: tuple[Sweep, ...]) -> dict[Value, int]:
    """The last sweep that reads a value; what a loop hands on is read after its sweeps."""
    last = {value: number for number, sweep in enumerate(all_sweeps) for op in sweep.ops for value in reads(op)}
    for number, sweep in enumerate(all_sweeps):
        if sweep.loop is not None:
            last |= {c.update: max(last.get(c.update, 0), number + 1) for c in sweep.loop.carries}
            if number == 0 or all_sweeps[number - 1].loop != sweep.loop:
                last |= {c.initial: max(last.get(c.initial, 0), number) for c in sweep.loop.carries}
    return last


def carried(kernel: Kernel, fast: Axis) -> tuple[Carry, ...]:
    """The carried values of elements, which lanes hold in registers from iteration to iteration."""
    return tuple(c for op in walk(kernel.body) if isinstance(op, Loop) for c in op.carries if fast in c.inside.axes)


def held(kernel: Kernel, fast: Axis) -> dict[Value, tuple[int, int]]:
    """Values of elements that are kept between sweeps: the one that makes each, and the last that reads it."""
    found = sweeps(kernel, fast)
    last = last_use(found)
    return {
        value: (number, last[value])
        for number, sweep in enumerate(found)
        for op in (*sweep.elements, *sweep.sorts)
        for value in writes(op)
        if last.get(value, number) > number
    }


def padded_chunks(chunks: int) -> int:
    """The chunks of a lane while they are sorted: a power of two."""
    return 1 << (chunks - 1).bit_length()


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


def registers(
    kernel: Kernel, fast: Axis, rows: int, chunks: int, chunk: int, late: Collection[Access] = ()
) -> int:  # fmt: skip
    """VGPRs of the elements that a lane has at the worst moment: `rows` at a time, `chunks` of `chunk` of each."""
    return max((sum(live.values()) for _, live in moments(kernel, fast, rows, chunks, chunk, late)), default=0)


def moments(
    kernel: Kernel, fast: Axis, rows: int, chunks: int, chunk: int, late: Collection[Access] = ()
) -> Iterator[tuple[int, dict[str, int]]]:  # fmt: skip
    """VGPRs of the elements that a lane has in each sweep, by what they hold.

    What was loaded takes whole registers for each chunk, but of `late` ones, which a sweep loads chunk by chunk.
    Elements that a sweep reads for the last time free their registers, chunk by chunk, for its results. Elements live
    in one iteration of a loop.
    """
    elements = chunks * chunk
    found = sweeps(kernel, fast)
    last = last_use(found)
    kept, taken_along = held(kernel, fast), carried(kernel, fast)

    def copies(value: Value) -> int:
        return rows if any(a != fast and not a.is_index for a in value.axes) else 1

    for region in regions(kernel):
        loads: dict[Access, list[Load]] = {}
        for op in region.ops:
            if isinstance(op, Load) and fast in op.result.axes and op.source not in late:
                loads.setdefault(op.source, []).append(op)
        until = {access: max(last.get(op.result, -1) for op in same) for access, same in loads.items()}
        for number in (n for n, sweep in enumerate(found) if sweep.loop == region.loop):
            stays, goes, comes = Counter[str](), Counter[str](), Counter[str]()
            for access, same in loads.items():
                elements_of = 1 if by_chunk(access, fast, chunk) else chunk
                words = chunks * -(-elements_of * access.tensor.dtype.bytes // REGISTER_BYTES)
                if until[access] >= number:
                    (stays if until[access] > number else goes)[access.tensor.name] += copies(same[0].result) * words
            if carries := [c for c in taken_along if region.loop and c in region.loop.carries]:
                stays["what a loop carries"] += rows * elements * len(carries)
            for value, (first, end) in kept.items():
                if first <= number <= end:
                    mine = comes if first == number else goes if end == number else stays
                    mine[value.name or "what is computed between"] += rows * elements
            before = [*found[number].scans, *(found[number - 1].scans if number else ())]
            if before:
                stays["what scans begin with"] += rows * chunks * len(before)
            if sorts := found[number].sorts:
                words = 2 if any(op.function == "positions" for op in sorts) else 1
                stays["what is sorted"] += padded_chunks(chunks) * chunk * words
            yield number, stays + max(goes, comes, key=Counter.total)
