"""The steps of the waves of a loop of equations: loads, computations and barriers, in order.

    prologue    Fetch and Write of the first tiles of each ring
    iteration   Fetch of the tile `ahead` iterations later, into registers, or to LDS where it goes there directly
                Compute of the equations, product by product; a product reads its ring's tile of this iteration
                Read of that tile earlier, after the product before it, where it went to LDS directly
                Vote on a condition, each wave for its part of the tile; all read all votes where it is decided
                Write of fetched tiles
    Barrier     where two waves touch the same slot of a ring, and one writes

A block may begin with any iteration (`from q - 512`). Then `K_s[step % 2]` is another slot for all waves alike.

A tile that goes to LDS directly is complete once a wave has waited for its loads; it is complete for all waves after a
barrier with such a wait.

A ring of one tile is written between two barriers, after all waves have read it. A ring of more tiles is filled as far
ahead as it has slots, and its one barrier orders reads and writes in both directions.

**The barriers of an iteration** are as few as possible. Two steps whose accesses to a slot conflict, in one iteration
or in two, are the ends of an arc around the iteration, and every arc needs a barrier on it. All sets of positions are
tried, small ones first, and of equally small ones the last, so that a wave waits for the others late. The result is
then proven, for any number of iterations, by the vector clocks of `tkgen.proof` (`unproven`), with the prologue, which
gets one more barrier where the proof finds a fault.

**The stored values** are compared as terms (`unlike`): the steps are executed on hash-consed terms, a wave at a time
between barriers, and so are the equations. Both must store the same terms, after any of the first numbers of
iterations, twice around the rings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from math import lcm

from tkgen.ir.equation_program import WrittenSchedule
from tkgen.ir.equations import Load, When, writes
from tkgen.proof import program as proof
from tkgen.proof.passes import first_wrong
from tkgen.schedule.loop_ping_pong import ping_pong
from tkgen.schedule.loop_program import (
    barrier,
    block,
    bring,
    loads,
    persistent,
    product_of,
    read,
    ring_of,
    rings_of,
    tile,
    tiles,
    touches,
    wave_of,
    write,
)
from tkgen.schedule.loop_terms import unlike
from tkgen.schedule.loop_tiles import Moving
from tkgen.schedule.loop_written import StepError, written
from tkgen.schedule.loops import LoopMap
from tkgen.targets.synchronisation import Synchronisation
from tkgen.tile.ops import Barrier, Copy, Equations, Fetch, Read, Share, Vote, Write
from tkgen.tile.program import Op, Role, ops
from tkgen.tile.unroll import unroll

WAVES = 2  # of each group stand for all: a wave's accesses meet those of itself and of another


def steps(m: LoopMap, machine: Synchronisation) -> Role:
    """The steps of `m`, with their barriers, proven on a target's `machine`.

    Raises:
        AssertionError: the proof finds a fault, which would be one of this module.
        StepError: it finds one in a schedule that the spec writes, or rings have too few buffers for `ping_pong`.
    """
    early = None if m.early is None else m.early.moving
    first = [max(ring.buffers - 1, 1) + (ring == early) for ring in m.moving]
    if m.written is not None:
        return _written(m, m.written, machine)
    met = ping_pong(m, first) if m.late else _landing(m, _with_meetings(m, _pass(m, first)))
    made = _opened(m, met, machine)
    problem = unproven(m, made, machine)
    if problem is not None and m.late:
        raise _crowded(m, machine)
    problem = problem or unlike(m, made)
    assert problem is None, f"{m.kernel.name}: {problem}"
    return made


def _crowded(m: LoopMap, machine: Synchronisation) -> StepError:
    """Name the rings that want a second buffer, because half of the waves read while the others write."""

    def doubled(*kept: Moving) -> LoopMap:
        twice = {ring: ring if ring in kept else replace(ring, buffers=max(ring.buffers, 2)) for ring in m.moving}
        assert all(x.held_ring is None for x in m.multiplications), "refused with such a schedule"
        multiplications = tuple(replace(x, moving=twice[x.moving]) for x in m.multiplications)
        early = None if m.early is None else multiplications[m.multiplications.index(m.early)]
        return replace(m, multiplications=multiplications, vectors=tuple(twice[v] for v in m.vectors), early=early)

    def is_proven(other: LoopMap) -> bool:
        early = None if other.early is None else other.early.moving
        first = [max(ring.buffers - 1, 1) + (ring == early) for ring in other.moving]
        return unproven(other, _opened(other, ping_pong(other, first), machine), machine) is None

    assert is_proven(doubled()), f"{m.kernel.name}: two buffers of each ring are not enough"
    few = [ring for ring in m.moving if ring.buffers == 1 and not is_proven(doubled(ring))]
    names = " and ".join(f"`{ring.name}`" for ring in few)
    have = "has one buffer" if len(few) == 1 else "have one buffer each"
    fix = f"write `buffers 2` in the line `shared` of {names}"
    return StepError("E230", f"{names} {have}, which some waves still read when the waves one phase ahead write the "
                             "next tile",
                     few[0].span, fix)  # fmt: skip


def _opened(m: LoopMap, met: tuple[Op, ...], machine: Synchronisation) -> Role:
    """The steps with what comes before the loop: the first tiles of each ring, and what the first iteration finds done.

    Before the loop, and between two tiles of a persistent block, waves meet where the proof finds a fault without it.
    """
    prologue = [step for n, brought in enumerate(_distances(m, met)) for step in _first(m, n, *brought)]
    if m.early is not None:
        computed = [_now(m, step) for step in met if isinstance(step, Read | Equations) and _ahead(step)]
        prologue += [barrier(m.direct), *computed]
    meeting = (barrier(m.direct),)
    found = [
        wave_of(m, (*prologue, *opening), met, between)
        for between in ((), meeting)[: 1 + bool(m.persistent)]
        for opening in ((), meeting)
    ]
    return next((made for made in found if unproven(m, made, machine) is None), found[-1])


def _ahead(step: Read | Equations) -> int:
    """Return the number of iterations by which the data of a step is ahead."""
    return step.offset if isinstance(step, Read) else step.ahead


def _now(m: LoopMap, step: Read | Equations) -> Op:
    """The same of the iteration at hand."""
    if isinstance(step, Read):
        return read(m, product_of(step), ring_of(step))
    return replace(step, reads=tiles(m, rings_of(step)), ahead=0)


def _written(m: LoopMap, schedule: WrittenSchedule, machine: Synchronisation) -> Role:
    """The steps that a spec writes out. Raises StepError where they are wrong."""
    body = written(m, schedule)
    met = _with_meetings(m, body) if schedule.barriers else body
    meetings = [n for n, step in enumerate(met) if isinstance(step, Barrier)]
    for landing in [[n] for n in reversed(meetings)] + [meetings] if m.direct else [[]]:
        landed = tuple(barrier(True) if n in landing else step for n, step in enumerate(met))
        made = _opened(m, landed, machine)
        if (problem := unproven(m, made, machine)) is None:
            break
    if problem is not None:
        raise StepError("E314", f"it fails in some order of the waves: {problem}", schedule.span,
                        "put a barrier between the two, or write `schedule barriers auto`")  # fmt: skip
    if (problem := unlike(m, made)) is not None:
        raise StepError("E314", f"the iterations use other tiles than the equations say: {problem}", schedule.span,
                        "load each tile at most as far ahead as it has buffers")  # fmt: skip
    return made


def _pass(m: LoopMap, first: Sequence[int]) -> tuple[Op, ...]:
    """The steps of an iteration without barriers; it brings the tile of a ring that is `first` passes further on."""
    rings = range(len(m.moving))
    # A direct load into a ring's only tile begins when that has been read.
    late = [n for n in rings if m.moving[n].direct and m.moving[n].buffers == 1]
    return (
        *loads(m),
        *(bring(m, n, first[n]) for n in rings if n not in late),
        *_computes(m),
        *(write(m, n, first[n]) for n in rings if not m.moving[n].direct),
        *(bring(m, n, first[n]) for n in late),
    )


def _distances(m: LoopMap, body: Sequence[Op]) -> list[tuple[int, int]]:
    """Return how far ahead each ring's tiles are fetched and written in an iteration; earlier tiles come before the
    loop.
    """
    fetched = {ring_of(s): s.offset for s in body if isinstance(s, Fetch | Copy)}
    stored = {ring_of(s): s.offset for s in body if isinstance(s, Write)}
    return [(fetched[n], stored.get(n, fetched[n])) for n in range(len(m.moving))]


def _first(m: LoopMap, ring: int, fetched: int, stored: int) -> Iterator[Op]:
    """The tiles of a ring that no iteration brings, where one fetches so far ahead, and writes to LDS so far."""
    for item in range(fetched):
        yield bring(m, ring, item)
        if item < stored and not m.moving[ring].direct:
            yield write(m, ring, item)


def _landing(m: LoopMap, body: tuple[Op, ...]) -> tuple[Op, ...]:
    """The steps with a wait for direct loads at the last barrier, which is as late as can be."""
    last = max((n for n, step in enumerate(body) if isinstance(step, Barrier)), default=None)
    return tuple(barrier(m.direct) if n == last else step for n, step in enumerate(body))


def _computes(m: LoopMap) -> Iterator[Op]:
    """The equations, up to each product (or the sum to which it adds) and after the last; votes before conditions.

    What waves exchange they give right before its product.
    """
    products = {x.result: [m.moving.index(ring) for ring in x.rings] for x in m.multiplications}
    vectors = {ring.access: m.moving.index(ring) for ring in m.vectors}
    numbers = {x.result: n for n, x in enumerate(m.multiplications) if x.moving.direct}
    early = None if m.early is None else m.early.product
    ahead = (
        read(m, numbers[v], products[v][0], int(op == early)) for op in m.loop.body for v in writes(op) if v in numbers
    )
    first, taken = len(m.loads_of_iterations), list[int]()
    yield from islice(ahead, 1 if early is None else 2)
    if early is not None:
        place = m.loop.body.index(early)
        yield Equations(() if m.direct else tiles(m, products[early.result], 1), first=place, last=place + 1, ahead=1)
    for place, op in enumerate(m.loop.body):
        if isinstance(op, When):
            number = m.votes.index(op)
            if first < place:
                yield Equations(tiles(m, taken), first=first, last=place)
            yield Vote(number, tile(m, len(m.moving) + number, own=True))
            first, taken = place, [len(m.moving) + number]
        elif given := [n for n, x in enumerate(m.exchanges) if op == x.product]:
            if first < place:
                yield Equations(tiles(m, taken), first=first, last=place)
            ring = len(m.moving) + len(m.votes) + given[0]
            yield Share(given[0], tile(m, ring, own=True))
            first, taken = place, [ring]
        elif op == early:
            if first < place:
                yield Equations(tiles(m, taken), first=first, last=place)
            first, taken = place + 1, []
        elif product := [n for v in writes(op) for n in products.get(v, ())]:
            yield Equations(tiles(m, (*taken, *(() if m.direct else product))), first=first, last=place + 1)
            first, taken = place + 1, []
            yield from islice(ahead, 1)
        elif isinstance(op, Load) and op.source in vectors:
            taken.append(vectors[op.source])
    if first < len(m.loop.body):
        yield Equations(tiles(m, taken), first=first, last=len(m.loop.body))


# ---------------------------------------------------------------- meetings


def _with_meetings(m: LoopMap, body: tuple[Op, ...]) -> tuple[Op, ...]:
    """The steps of an iteration with the fewest barriers; a place p is before step p."""
    arcs = list(_arcs(m, body))
    for count in range(len(body) + 1):
        for places in combinations(range(len(body), 0, -1), count):
            if all(any(p % len(body) in arc for p in places) for arc in arcs):
                return tuple(
                    s for n, step in enumerate(body) for s in ((barrier(),) if n in places else ()) + (step,)
                ) + ((barrier(),) if len(body) in places else ())
    raise AssertionError("meetings everywhere order everything")


def _arcs(m: LoopMap, body: tuple[Op, ...]) -> Iterator[frozenset[int]]:
    """For each two accesses that another wave must not reorder, the places between them."""
    touched = [(p, ring, writing, ahead) for p, step in enumerate(body) for ring, writing, ahead in touches(step)]
    for p, ring, writing, ahead in touched:
        slots = m.rings[ring]
        for q, other, other_writing, other_ahead in touched:
            for later in range(slots + 1):
                follows = later > 0 or q > p
                if (
                    ring == other and (writing or other_writing) and follows
                    and (later + other_ahead - ahead) % slots == 0
                    and not (writing and other_writing)  # a wave writes its own part, always the same
                ):  # fmt: skip
                    between = range(p + 1, q + later * len(body) + 1)
                    yield frozenset(place % len(body) for place in between)


# ---------------------------------------------------------------- proof


def unproven(m: LoopMap, wave: Role, machine: Synchronisation) -> str | None:
    """The first fault of some interleaving, of any number of iterations and of tiles of a block."""
    if (wrong := first_wrong(clocked(m, wave, machine))) is not None or not m.persistent:
        return wrong
    found = (first_wrong(loop) for loop in tile_after_tile(m, wave, machine))
    return next((f"{wrong}, from tile to tile" for wrong in found if wrong is not None), None)


def clocked(m: LoopMap, wave: Role, machine: Synchronisation) -> proof.Loop:
    """The steps in the form of the proof.

    A wave writes a part of a tile, and reads all of it. Late waves meet the others once more before the loop, and these
    once more after it.
    """
    return unroll(block(m, wave), machine, _values(m), [{}])


def tile_after_tile(m: LoopMap, wave: Role, machine: Synchronisation) -> Iterator[proof.Loop]:
    """The tiles of a persistent block in the form of the proof: one tile, of each number of iterations, is repeated.

    What two tiles share of a slot are its last accesses in the one and its first in the other: of more iterations than
    slots and tiles brought ahead, all have these alike.
    """
    slots, ahead = lcm(*m.rings), max(r.ahead for op in ops(wave.nodes) for r in (*op.reads, *op.writes))
    made = block(m, persistent(wave))
    for iterations in range(slots + ahead + 2):
        rest = ahead + 1 + -(iterations + ahead + 1) % slots
        yield unroll(made, machine, _values(m), [{"ITERATIONS": iterations, "REST": rest}])


def _values(m: LoopMap) -> dict[str, int]:
    return {"WAVES": WAVES * (2 if m.late else 1), "AHEAD": WAVES}
