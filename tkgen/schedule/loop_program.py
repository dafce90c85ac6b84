"""The ops of a wave of a loop of equations, over its rings: `tkgen.schedule.loop_steps` says what they are for.

A ring of the loop is called by its number, and so are the registers that are read for a product ahead of it. Regions
say how many iterations further on the tile is that they touch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tkgen.schedule.loops import LoopMap
from tkgen.tile.ops import Barrier, Copy, Equations, Fetch, Move, Read, Write
from tkgen.tile.program import Advance, Block, Cursor, Loop, Node, Op, Region, Ring, Role, Space, StreamKind, Tiles

PRIORITIES = (0, 1)  # of s_setprio: of a wave that computes, and of one that multiplies
ITERATION = Cursor("iteration", "")
RING, OPERAND = "ring ", "operand "  # what their numbers stand behind


@dataclass(frozen=True)
class LoopSteps:
    """The ops of a wave: before the loop, in an iteration of it, and between two tiles of a persistent block.

    Waves from number `map.late` on meet the others once more before the loop, and those once more after it.
    """

    map: LoopMap
    prologue: tuple[Op, ...]
    body: tuple[Op, ...]
    between: tuple[Op, ...] = ()

    @property
    def barriers(self) -> int:
        """Barriers of an iteration."""
        return sum(isinstance(step, Barrier) for step in self.body)

    @property
    def block(self) -> Block:
        """The program of a block of `WAVES` with one tile; waves from `AHEAD` on are behind the others."""
        before, body, after = self._parts
        return self._of(before, body, after)

    @property
    def persistent(self) -> Block:
        """The program of a block that goes from tile to tile, each of `ITERATIONS`.

        A tile begins again with the first slot of each ring: its instances are `REST` further on.
        """
        before, body, after = self._parts
        rest = Advance(ITERATION, "REST")
        return self._of((), (*before, Loop("step", "ITERATIONS", body), *after, *self.between, rest), ())

    @property
    def _parts(self) -> tuple[tuple[Op, ...], ...]:
        """The ops of a wave with one tile: before the loop, in an iteration, and after the loop."""
        before = (barrier(when="warp >= AHEAD"),) if self.map.late else ()
        after = (barrier(when="warp < AHEAD"),) if self.map.late else ()
        return (*self.prologue, *before), (*self.body, Advance(ITERATION)), after

    def _of(self, before: tuple[Node, ...], body: tuple[Node, ...], after: tuple[Node, ...]) -> Block:
        wave = Role("wave", (ITERATION,), before, Tiles((), body), after, warps="WAVES")
        return Block((wave,), (), (), rings(self.map))


def rings(m: LoopMap) -> tuple[Ring, ...]:
    """The rings of shared memory, with a part for each wave."""
    return tuple(Ring(f"{RING}{n}", slots=str(slots), parts="WAVES") for n, slots in enumerate(m.rings))


def tile(m: LoopMap, ring: int, ahead: int = 0, own: bool = False) -> Region:
    """The tile of a ring so many iterations further on, or a wave's own part of it."""
    return Region(rings(m)[ring], ITERATION.name, own=own, ahead=ahead)


def tiles(m: LoopMap, numbers: Sequence[int], ahead: int = 0) -> tuple[Region, ...]:
    """Those of several rings."""
    return tuple(tile(m, n, ahead) for n in numbers)


def bring(m: LoopMap, ring: int, ahead: int) -> Fetch | Copy:
    """Global memory to registers, or directly to shared memory: this wave's part of a tile."""
    fetched = Fetch.of(f"{RING}{ring}", ahead)
    return Copy(fetched.source, tile(m, ring, ahead, own=True)) if m.moving[ring].direct else fetched


def write(m: LoopMap, ring: int, ahead: int) -> Write:
    """What was fetched, to shared memory."""
    return Write(Fetch.of(f"{RING}{ring}", ahead).target, tile(m, ring, ahead, own=True))


def read(m: LoopMap, number: int, ring: int, ahead: int = 0) -> Read:
    """A tile to registers, for a later multiplication, `number`."""
    return Read(tile(m, ring, ahead), Region(Ring(f"{OPERAND}{number}", space=Space.REGISTERS), ahead=ahead))


def barrier(landed: bool = False, idle: bool = False, when: str = "") -> Barrier:
    """A barrier: accesses to shared memory are complete, but of a wave that was `idle`; `landed`: direct loads, too."""
    return Barrier(drains=(StreamKind.GLOBAL,) * landed + (StreamKind.SHARED,) * (not idle), when=when)


def ring_of(op: Move) -> int:
    """The number of the ring to which a tile is brought, or from which."""
    return int(op.source.name.removeprefix(RING))


def product_of(op: Read) -> int:
    """The multiplication for which a tile is read."""
    return int(op.target.name.removeprefix(OPERAND))


def rings_of(op: Equations) -> tuple[int, ...]:
    """The rings that equations read."""
    return tuple(int(region.name.removeprefix(RING)) for region in op.tiles)


def touches(step: Op) -> Iterator[tuple[int, bool, int]]:
    """(ring, whether it is written, ahead) of what a step does with shared memory."""
    for writing, regions in ((True, step.writes), (False, step.reads)):
        for region in regions:
            if region.space is Space.SHARED:
                yield int(region.name.removeprefix(RING)), writing, region.ahead
