"""`schedule ping_pong` of loops of equations: of the two waves of a SIMD one multiplies while the other one computes.

    pass   compute    what follows from the first product, its first half
           barrier
           multiply   the first product of the next iteration
           barrier
           compute    the other half of what follows from the first product; tiles that were fetched go to LDS
           barrier
           multiply   the next products, up to where something else is computed
           barrier    ... and so on, two phases for each run of products

Half of the waves are one barrier later than the others (`LoopMap.late`), and each SIMD has a wave of both halves, for
waves are given to SIMDs in turn: so a SIMD's matrix unit and its vector unit have a wave each, which change places at
every barrier. A wave that multiplies has the higher priority: its MFMAs issue as soon as they can, and leave most issue
slots to the other wave. Tiles that went to LDS directly are read in the previous phase, while the wave computes. Other
tiles are read as they are multiplied, if a wave lacks the registers for a full one. (As in HipKittens, arXiv
2511.08083, section 3, whose phases are clusters of both kinds of instructions beside memory's.)

The two phases of computing that stand around the first product take about as long: the operations between the first
product and the second one are divided, one of them by halves of its tile. Tiles are fetched where an iteration begins,
and written to LDS in its last phase of computing: late waves are done with that when the next iteration of the others
begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tkgen.ir.equations import Convert, Load, Map, Op, Reduce, Value, writes
from tkgen.ir.functions import CDNA, FUNCTIONS
from tkgen.schedule.loop_program import PRIORITIES, barrier, bring, loads, read, tiles, write
from tkgen.schedule.loop_tiles import Multiplication, extent
from tkgen.schedule.loops import LoopMap
from tkgen.tile.ops import Equations, Priority, Read
from tkgen.tile.program import Op as Step

# v_exp_f32 and its like take four times as long as an addition: `transcendental_cycles` of targets, with its source.
SLOW, SLOWER = ("exp", "log", "rcp", "rsq", "sqrt", "sin", "cos"), 4


Turn = tuple[Multiplication, Equations]


@dataclass(frozen=True)
class _Phase:
    """Computing, then products: of the next iteration where `ahead`."""

    computes: tuple[Equations, ...]
    products: tuple[Turn, ...]
    ahead: int = 0


def ping_pong(m: LoopMap, first: Sequence[int]) -> tuple[Step, ...]:
    """The steps of an iteration, which brings the tile of each ring that is `first` passes further on."""
    phases, rings = _phases(m), range(len(m.moving))
    found: list[Step] = [*loads(m), *(bring(m, n, first[n]) for n in rings)]
    for number, phase in enumerate(phases):
        last = number == len(phases) - 1
        found += _reads(m, phase)
        found += phase.computes
        found += (write(m, n, first[n]) for n in rings if last and not m.moving[n].direct)
        found += [barrier(last and m.direct), Priority(PRIORITIES[1])]
        found += (compute for _, compute in phase.products)
        found += [Priority(PRIORITIES[0]), barrier(idle=m.direct)]
    return tuple(found)


def _reads(m: LoopMap, phase: _Phase) -> Iterator[Read]:
    """Yield the reads of LDS for the products of a phase, where they are not part of the multiplication."""
    for x in dict.fromkeys(x for x, _ in phase.products if m.direct):
        yield read(m, m.multiplications.index(x), m.moving.index(x.moving), phase.ahead)


def _phases(m: LoopMap) -> list[_Phase]:
    assert m.early is not None
    runs = list(_runs(m))
    between, products = runs[0]
    before, behind = _halves(m, between)
    return [
        _Phase(before, tuple(_multiplied(m, m.early, 1)), 1),
        _Phase(behind, products),
        *(_Phase(*run) for run in runs[1:]),
    ]


def _runs(m: LoopMap) -> Iterator[tuple[tuple[Equations, ...], tuple[Turn, ...]]]:
    """Yield runs of computations and the products after them; the first product is not in any."""
    ends = {x.result: x for x in m.multiplications}
    begins = {x.product for x in m.multiplications}
    computes, products = list[Equations](), list[Turn]()
    first = len(m.loads_of_iterations)
    for place, op in enumerate(m.loop.body):
        x = next((ends[value] for value in writes(op) if value in ends), None)
        if x is None and op not in begins:
            if products and _works(op):
                yield tuple(computes), tuple(products)
                computes, products = [], []
            continue
        computes += _units(m, first, place)
        first = place + 1
        if x is not None and x != m.early:
            products += _multiplied(m, x)
    yield (*computes, *_units(m, first, len(m.loop.body))), tuple(products)


def _multiplied(m: LoopMap, x: Multiplication, ahead: int = 0) -> Iterator[Turn]:
    """The steps of a product, and of the sum to which it adds."""
    factor = () if m.direct else (m.moving.index(x.moving),)
    at = m.loop.body.index(x.product)
    last = next(n for n, op in enumerate(m.loop.body) if x.result in writes(op))
    places = [(at, last + 1)] if last - at <= 1 else [(at, at + 1), (last, last + 1)]
    for place in places:
        yield x, Equations(tiles(m, factor, ahead), first=place[0], last=place[1], ahead=ahead)


def _works(op: Op) -> bool:
    """Return True if an operation takes vector instructions."""
    return isinstance(op, Map | Convert | Reduce) and bool(op.result.axes)


# ---------------------------------------------------------------- halves


def _units(m: LoopMap, first: int, last: int) -> tuple[Equations, ...]:
    """The operations as steps: what is computed for one value of an equation alone stands with it."""
    body, vectors = m.loop.body, {ring.access: m.moving.index(ring) for ring in m.vectors}
    ends = [n + 1 for n in range(first, last) if _works(body[n]) and (not isinstance(body[n], Map) or _named(body[n]))]
    if not ends and not any(isinstance(op, Load) and op.source in vectors for op in body[first:last]):
        return ()  # factors of products, scalars: they are read where they are used
    ends = [*ends[:-1], last]
    found, begin = list[Equations](), first
    for end in ends:
        rings = tuple(vectors[op.source] for op in body[begin:end] if isinstance(op, Load) and op.source in vectors)
        found.append(Equations(tiles(m, rings), first=begin, last=end))
        begin = end
    return tuple(found)


def _named(op: Op) -> bool:
    return any(value.name for value in writes(op))


def _halves(m: LoopMap, computes: Sequence[Equations]) -> tuple[tuple[Equations, ...], tuple[Equations, ...]]:
    """The steps in two lots that take about as long."""
    if not computes:
        return (), ()
    total, done = sum(_cycles(m, c) for c in computes), 0
    choices = list[tuple[int, int, tuple[Equations, ...], tuple[Equations, ...]]]()
    for n, step in enumerate(computes):
        before, behind = tuple(computes[:n]), tuple(computes[n + 1 :])
        choices.append((abs(total - 2 * done), 0, before, (step, *behind)))
        if _divides(m, step):
            halves = replace(step, part=0, parts=2), replace(step, part=1, parts=2)
            half = done + _cycles(m, step) // 2
            choices.append((abs(total - 2 * half), 1, (*before, halves[0]), (halves[1], *behind)))
        done += _cycles(m, step)
    *_, before, behind = min(choices, key=lambda choice: choice[:2])
    return before, behind


def _divides(m: LoopMap, step: Equations) -> bool:
    """Return True if a step works element by element on a tile of an even number of base tiles, without masks."""
    ops = m.loop.body[step.first : step.last]
    tiles = all(isinstance(op, Map) and op.function != "where" and _is_tile(m, op.result) for op in ops)
    return tiles and all(extent(rows) // m.side % 2 == 0 for v in _results(ops) if (rows := m.rows(v)) is not None)


def _is_tile(m: LoopMap, value: Value) -> bool:
    return m.rows(value) is not None and m.split in value.axes


def _results(ops: Sequence[Op]) -> list[Value]:
    return [value for op in ops for value in writes(op)]


def _cycles(m: LoopMap, step: Equations) -> int:
    """About how many instructions' time a step takes."""
    return sum(
        m.lane_registers(op.result) * (SLOWER if isinstance(op, Map) and _is_slow(op) else 1)
        for op in m.loop.body[step.first : step.last]
        if isinstance(op, Map | Convert) and m.split in op.result.axes
    )


def _is_slow(op: Map) -> bool:
    return any(word in FUNCTIONS[op.function].cpp[CDNA] for word in SLOW)
