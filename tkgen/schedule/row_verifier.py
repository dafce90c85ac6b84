"""The invariants of every layout of rows over lanes: it computes what its kernel means, whoever made it.

`wrong` says which rules do not hold of a layout, `verify` raises `Broken` (see `tkgen.ir.verifier`) for the first: a
mistake of tkgen. The rules:

    elements   the lanes that share a row have each of its elements, once
    rows       the groups of lanes have each row of the tile, once
    accesses   a chunk is wholly inside its row or outside, and no wider than one access; what is late is of no row
    sweeps     each operation stands in one sweep of its loop, after what it needs; what later sweeps read is held; a
               scan comes right after the sweep that finds what is before each chunk
    steps      each sweep has one element loop, in order; what it reduces across waves is handed on before the next
    races      in every interleaving of the waves a part is read as it was put there (`tkgen.proof`), in one tile, and
               in any number of tiles of a persistent block, whichever half the next one begins with

Why a few iterations prove all of them, of the rows and of each loop: an exchange meets those that use its half of the
LDS, two exchanges apart, and an iteration has one or more; the barriers are the same in each. The steps after a loop
depend only on the parity of its number of iterations. Both parities are tried, and no iteration, as in a part that has
no tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from tkgen.ir.equations import (
    Axis,
    Loop,
    Op,
    Reduce,
    Scan,
    Sort,
    Value,
    accesses,
    reads,
    writes,
)
from tkgen.ir.types import ACCESS_BYTES
from tkgen.ir.verifier import Broken
from tkgen.proof import faults as proof
from tkgen.proof.passes import first_wrong
from tkgen.proof.program import Program
from tkgen.schedule.row_form import Way
from tkgen.schedule.row_steps import BETWEEN, HALVES, OF_ROW, block, persistent
from tkgen.schedule.rows import LaneTarget, RowMap
from tkgen.schedule.sweeps import THERE, apart, carried, held, on, regions
from tkgen.tile.ops import ElementLoop, SharedLoad, SharedStore
from tkgen.tile.program import Loop as TileLoop
from tkgen.tile.program import Node, ops
from tkgen.tile.unroll import once, unroll

PASSES = HALVES + 2  # that prove all: see the module
WAVES = 2  # that stand for all that share a row: they do the same, each with a part of its own


def verify(m: RowMap, target: LaneTarget) -> None:
    """Raises Broken for the first rule that does not hold of a layout."""
    for rule, what in wrong(m, target):
        raise Broken(m.kernel.name, "rows", rule, what)


def wrong(m: RowMap, target: LaneTarget) -> Iterator[tuple[str, str]]:
    """The rules that do not hold of a layout, with what is wrong."""
    yield from _layout(m)
    yield from _sweeps(m)
    found = [*_steps(m)]
    yield from found
    if not found and m.waves_of_row > 1:
        looped = any(isinstance(step, TileLoop) for step in m.steps)
        for trips in (0, PASSES, PASSES + 1) if looped else (1,):
            for fault in proof.faults(program(m, target, trips)):
                yield "races", f"{fault.kind.value}: {fault.second.step if fault.second else ''}"
            if fault_between := unproven_between(m, target, trips):
                yield "races", f"{fault_between}, from tile to tile"


def unproven_between(m: RowMap, target: LaneTarget, trips: int, between: Sequence[Node] = BETWEEN) -> str | None:
    """The first fault of some interleaving of a persistent block, with these ops `between` two tiles."""
    made, values = persistent(m.steps, between), constants(m, trips, WAVES, WAVES, PASSES)
    loops = (unroll(made, target.synchronisation, values, [{"REST": rest}]) for rest in range(HALVES))
    return next((wrong for loop in loops if (wrong := first_wrong(loop)) is not None), None)


def _layout(m: RowMap) -> Iterator[tuple[str, str]]:
    if m.lanes < 1 or m.threads % m.lanes or m.lanes & (m.lanes - 1):
        yield "elements", f"{m.lanes} lanes to a row of {m.threads} threads"
        return
    if m.wave_lanes % m.spacing or m.threads % (m.lanes * m.spacing):
        yield "elements", f"{m.lanes} lanes to a row, {m.spacing} apart, of {m.threads} threads"
        return
    needed = min(m.length, m.fast.dim.size or m.length)
    if m.chunk * m.chunks * m.lanes < needed:
        yield "elements", f"{m.chunks} chunks of {m.chunk} in {m.lanes} lanes are fewer than {needed} elements"
    if m.held % m.across or m.rows_covered < m.row_count:
        yield "rows", f"{m.passes} passes of {m.held} rows ({m.across} at once) do not cover {m.row_count}"
    if m.chunk & (m.chunk - 1) or m.across & (m.across - 1):
        yield "accesses", f"{m.chunk} elements, {m.across} rows: accesses are of 1, 2, 4, ... of them"
    for access in accesses(m.kernel):
        way, size = m.way(access), access.tensor.dtype.bytes
        if way is Way.ALONG and (_splits(m.fast, m.chunk) or m.chunk * size > ACCESS_BYTES):
            yield "accesses", f"{access.tensor.name} by {m.chunk} elements"
        if access in m.late and (way is not Way.ALONG or {*access.axes} & {*m.rows}):
            yield "accesses", f"{access.tensor.name} is loaded late, and not the same for all rows"
        inner = access.innermost
        several = way is Way.ACROSS and m.across > 1 and m.rows and inner == m.rows[-1]
        if several and (_splits(m.rows[-1], m.across) or m.across * size > ACCESS_BYTES):
            yield "accesses", f"{access.tensor.name} by {m.across} rows"


def _splits(axis: Axis, count: int) -> bool:
    """Return True if the end of a tile, the dimension or a group may part `count` neighbours along an axis."""
    if axis.within is not None and count > 1:
        return True
    return bool((axis.tile or axis.dim.size or 0) % count or (axis.dim.size or 0) % count)


def _sweeps(m: RowMap) -> Iterator[tuple[str, str]]:
    stand: Counter[tuple[Loop | None, Op]] = Counter((sweep.loop, op) for sweep in m.sweeps for op in sweep.ops)
    due: Counter[tuple[Loop | None, Op]] = Counter(
        (region.loop, op) for region in regions(m.kernel) for op in region.ops if not isinstance(op, THERE)
    )
    for key in stand | due:
        if stand[key] != due[key]:  # a store may be written twice, such as `Y[ROW[m]] += x`
            yield "sweeps", f"{_named(key[1])} stands in {stand[key]} sweeps, not {due[key]}"
    there = (op for region in regions(m.kernel) for op in region.ops if isinstance(op, THERE))
    known = dict.fromkeys((v for op in there for v in writes(op)), -1)
    kept = {*held(m.kernel, m.fast), *(v for c in carried(m.kernel, m.fast) for v in (c.inside, c.result))}
    ordered = {op.result for sweep in m.sweeps for op in sweep.sorts}
    if ordered and m.waves_of_row > 1:
        yield "sweeps", "lanes of several waves sort a row"
    inside: Loop | None = None
    parts = list[Reduce]()
    for number, sweep in enumerate(m.sweeps):
        before = m.sweeps[number - 1] if number else None
        scans = [op for op in sweep.elements if isinstance(op, Scan)]
        if scans != [*(before.scans if before and before.loop == sweep.loop else ())] or (
            sweep.scans and _ends(m, number)
        ):
            yield "sweeps", "what is before each chunk is not found right before the scan"
        if sweep.loop != inside:
            if inside:
                alone = apart(inside)
                known |= {c.result: number for c in inside.carries if c not in alone}
                if {*parts} != {reduce for reduce, _ in alone.values()} or {*parts} != {*sweep.whole}:
                    yield "sweeps", "what lanes keep of a loop is not what is put together behind it"
                parts = []
            known |= {c.inside: number for c in sweep.loop.carries} if sweep.loop else {}
            inside = sweep.loop
        elif sweep.whole:
            yield "sweeps", "what lanes keep of a loop is not put together right behind it"
        parts += sweep.parts
        known |= {reduce.result: number + 1 for reduce in sweep.whole}
        for op in sweep.ops:
            of = sweep.elements if on(op, m.fast) else sweep.rows
            if isinstance(op, Reduce):
                of = sweep.parts if op in sweep.parts else sweep.reduces
            if isinstance(op, Sort):
                of = sweep.sorts
            if op not in of:
                yield "sweeps", f"{_named(op)} is none of what it stands with"
            for value in reads(op):
                made = known.get(value)
                earlier = made is not None and -1 < made < number and m.fast in value.axes
                unheld = (earlier or value in ordered) and value not in kept
                if made is None or made > number or unheld:
                    yield "sweeps", f"{_named(op)} comes before what it needs, or that is not held"
            for value in () if op in sweep.parts else writes(op):
                known[value] = number + isinstance(op, Reduce | Sort)
        for scan in sweep.scans:
            made = known.get(scan.argument)
            if made is None or made > number or (-1 < made < number and scan.argument not in kept):
                yield "sweeps", f"{_named(scan)} begins before what it needs, or that is not held"
        yield from _handed_on(m, number, known, kept)


def _ends(m: RowMap, number: int) -> bool:
    """Return True if a sweep is the last one of its loop, or of what is between loops."""
    return number + 1 == len(m.sweeps) or m.sweeps[number + 1].loop != m.sweeps[number].loop


def _handed_on(
    m: RowMap, number: int, known: Mapping[Value, int], kept: Collection[Value]
) -> Iterator[tuple[str, str]]:
    """Faults of what the loop of sweep `number` hands on at its end: unknown there, or elements that are not held."""
    loop = m.sweeps[number].loop
    if loop is None or (number + 1 < len(m.sweeps) and m.sweeps[number + 1].loop == loop):
        return
    alone = apart(loop)
    for carry in (c for c in loop.carries if c not in alone):
        made = known.get(carry.update)
        elements = m.fast in carry.update.axes
        if made is None or made > number + 1 or (made > -1 and elements and carry.update not in kept):
            yield "sweeps", f"{carry.inside.name} of the next iteration is not known at the end of one, or not held"


def _named(op: Op) -> str:
    results = writes(op)
    return results[0].name or type(op).__name__ if results else type(op).__name__


def _steps(m: RowMap) -> Iterator[tuple[str, str]]:
    walked = [step.number for step in ops(m.steps) if isinstance(step, ElementLoop)]
    if walked != list(range(len(m.sweeps))):
        yield "steps", f"walks of the sweeps {walked}"
        return
    repeated: list[Loop | None] = []
    for step in m.steps:
        if isinstance(step, TileLoop):
            own = {m.sweeps[s.number].loop for s in step.body if isinstance(s, ElementLoop)}
            repeated += own if len(own) == 1 else [None]
        elif isinstance(step, ElementLoop) and m.sweeps[step.number].loop:
            repeated.append(None)
    if repeated != [region.loop for region in regions(m.kernel) if region.loop]:
        yield "steps", "a loop is not repeated, or not all of it"
        return
    crossing = [n for n, sweep in enumerate(m.sweeps) if sweep.handed and m.waves_of_row > 1]
    at = -1
    stored, loaded = list[int](), list[int]()
    for step in ops(m.steps):
        match step:
            case ElementLoop():
                at = step.number
                if at > 0 and at - 1 in crossing and at - 1 not in loaded:
                    yield "steps", f"what sweep {at - 1} reduces is not handed on before sweep {at}"
            case SharedStore(number=number) | SharedLoad(number=number):
                if number != at or number not in crossing:
                    yield "steps", f"sweep {number} is handed on within sweep {at}"
                if isinstance(step, SharedStore) and number in loaded:
                    yield "steps", f"sweep {number} is stored after it was loaded"
                (stored if isinstance(step, SharedStore) else loaded).append(number)
    for number in crossing:
        if number not in stored or number not in loaded:
            yield "steps", f"what sweep {number} reduces is not stored, or never loaded"


def program(
    m: RowMap, target: LaneTarget, trips: int, waves: int = WAVES, of_row: int = WAVES, passes: int = PASSES
) -> Program:
    """At most so many iterations over rows, with `trips` passes of each loop, in the form of the general proof.

    What waves exchange is a ring of two halves, with a part for each of the `waves`, of which `of_row` share a row. An
    element loop touches nothing that they share.
    """
    return once(block(m.steps), target.synchronisation, constants(m, trips, waves, of_row, passes))


def constants(m: RowMap, trips: int, waves: int, of_row: int, passes: int) -> Mapping[str, int]:
    """The values of the program's constants."""
    return {"WAVES": waves, OF_ROW: of_row, "PASSES": min(m.passes, passes), "ITERATIONS": trips}
