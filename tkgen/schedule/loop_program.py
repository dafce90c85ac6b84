"""The ops of a wave of a loop of equations, over its rings: `tkgen.schedule.loop_steps` says what they are for.

A ring of the loop is called by its number, and so are the registers that are read for a product ahead of it. Regions
say how many iterations further on the tile is that they touch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tkgen.schedule.loops import LoopMap
from tkgen.tile.ops import Barrier, Copy, Equations, Fetch, Move, Read, SharedLoad, SharedStore, Write
from tkgen.tile.program import Advance, Block, Cursor, Loop, Op, Region, Ring, Role, Space, StreamKind, Tiles

PRIORITIES = (0, 1)  # of s_setprio: of a wave that computes, and of one that multiplies
ITERATION = Cursor("iteration", "")
RING, OPERAND = "ring ", "operand "  # what their numbers stand behind


def wave_of(m: LoopMap, prologue: Sequence[Op], body: Sequence[Op], between: Sequence[Op] = ()) -> Role:
    """A wave's ops: before the loop, in an iteration of it, and `between` two tiles of a persistent block.

    Waves from number `AHEAD` on meet the others once more before the loop, and those once more after it. There all hand
    each other their parts of reductions.
    """
    before = (barrier(when="warp >= AHEAD", remark="these waves run a meeting behind"),) if m.late else ()
    after = (barrier(when="warp < AHEAD", remark="the others catch up"),) if m.late else ()
    iteration, behind = Tiles((), (*body, Advance(ITERATION))), (*after, *between, *_combining(m))
    return Role("wave", (ITERATION,), (*prologue, *before), iteration, behind, warps="WAVES")


def _combining(m: LoopMap) -> Iterator[Op]:
    """The exchange of parts between waves after the loop, a reduction at a time."""
    first = len(m.rings) - len(m.combined)
    for number in range(len(m.combined)):
        yield SharedStore(number, tile(m, first + number, own=True))
        yield barrier()
        yield SharedLoad(number, tile(m, first + number))


def persistent(wave: Role) -> Role:
    """The same wave of a block that goes from tile to tile, each of `ITERATIONS`.

    A tile begins again with the first slot of each ring: its instances are `REST` further on.
    """
    loop, rest = Loop("step", "ITERATIONS", wave.tiles.body), Advance(ITERATION, "REST")
    return replace(wave, before=(), tiles=Tiles((), (*wave.before, loop, *wave.behind, rest)), behind=())


def block(m: LoopMap, wave: Role) -> Block:
    """The program of a block of `WAVES`."""
    return Block((wave,), (), (), rings(m))


def rings(m: LoopMap) -> tuple[Ring, ...]:
    """The rings of shared memory, with a part for each wave."""
    return tuple(Ring(f"{RING}{n}", slots=str(slots), parts="WAVES") for n, slots in enumerate(m.rings))


def tile(m: LoopMap, ring: int, ahead: int = 0, own: bool = False) -> Region:
    """The tile of a ring so many iterations further on, or a wave's own part of it."""
    return Region(rings(m)[ring], ITERATION.name, own=own, ahead=ahead)


def tiles(m: LoopMap, numbers: Sequence[int], ahead: int = 0) -> tuple[Region, ...]:
    """Those of several rings."""
    return tuple(tile(m, n, ahead) for n in numbers)


def loads(m: LoopMap) -> tuple[Equations, ...]:
    """Return the first step of an iteration: what lanes load of it, if there is anything."""
    count = len(m.loads_of_iterations)
    return (Equations(last=count),) if count else ()


def bring(m: LoopMap, ring: int, ahead: int) -> Fetch | Copy:
    """Global memory to registers, or directly to shared memory: this wave's part of a tile."""
    fetched = Fetch.of(f"{RING}{ring}", ahead)
    return Copy(fetched.source, tile(m, ring, ahead, own=True)) if m.moving[ring].direct else fetched


def write(m: LoopMap, ring: int, ahead: int) -> Write:
    """Return the write of a fetched tile to shared memory."""
    return Write(Fetch.of(f"{RING}{ring}", ahead).target, tile(m, ring, ahead, own=True))


def read(m: LoopMap, number: int, ring: int, ahead: int = 0) -> Read:
    """A tile to registers, for a later multiplication, `number`."""
    return Read(tile(m, ring, ahead), Region(Ring(f"{OPERAND}{number}", space=Space.REGISTERS), ahead=ahead))


def barrier(landed: bool = False, idle: bool = False, when: str = "", remark: str = "") -> Barrier:
    """A barrier: accesses to shared memory are complete, but of a wave that was `idle`; `landed`: direct loads, too."""
    drains = (StreamKind.GLOBAL,) * landed + (StreamKind.SHARED,) * (not idle)
    return Barrier(drains=drains, when=when, remark=remark)


def ring_number(region: Region) -> int:
    """The number of a region's ring."""
    return int(region.name.removeprefix(RING))


def ring_of(op: Move) -> int:
    """The number of the ring to which a tile is brought, or from which."""
    return ring_number(op.source)


def product_of(op: Read) -> int:
    """The multiplication for which a tile is read."""
    return int(op.target.name.removeprefix(OPERAND))


def rings_of(op: Equations) -> tuple[int, ...]:
    """The rings that equations read."""
    return tuple(map(ring_number, op.reads))


def touches(step: Op) -> Iterator[tuple[int, bool, int]]:
    """(ring, whether it is written, ahead) of what a step does with shared memory."""
    for writing, regions in ((True, step.writes), (False, step.reads)):
        for region in regions:
            if region.space is Space.SHARED:
                yield ring_number(region), writing, region.ahead
