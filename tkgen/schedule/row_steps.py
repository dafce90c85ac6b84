"""The ops of a block of rows: an element loop for each sweep, and exchanges between waves.

    element loop   every lane executes a sweep on its elements
    shared store   each wave writes its part of the sweep's reductions to a half of the LDS
    barrier        all waves have arrived, and their reads and writes of LDS before it are complete
    shared load    each wave reads the parts of all that share its rows
    advance        a number of exchanges are over
    loop           ops of a loop, for each tile of its axis

One barrier is enough for an exchange. The halves are the slots of a ring: the exchange `ahead` of those that are over
takes the half of its number. A wave that writes the same half again does so two exchanges later, after the barrier
between. Every wave arrived there only after its reads were complete. `tkgen.schedule.row_verifier` proves it for each
layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from tkgen.schedule.sweeps import Sweep
from tkgen.tile.ops import Barrier, ElementLoop, SharedLoad, SharedStore
from tkgen.tile.program import Advance, Block, Cursor, Loop, Node, Region, Ring, Role, StreamKind, Tiles

HALVES = 2  # of the LDS in which results are exchanged
EXCHANGE = Ring("exchange", "exchange", str(HALVES), "WAVES")  # a part for each wave
EXCHANGED = Cursor("exchange", "", str(HALVES))
OWN, OF_ROW = Region(EXCHANGE, "exchange", own=True), "OF_ROW"  # waves that share a row
SHARED = Region(EXCHANGE, "exchange", f"warp / {OF_ROW} * {OF_ROW}", count=OF_ROW)
BARRIER = Barrier(drains=(StreamKind.SHARED,))
BETWEEN = (BARRIER,)  # two tiles of a persistent block with exchanges: each tile begins with the same half


def steps(sweeps: Sequence[Sweep], crossing: bool, close: bool = False) -> tuple[Node, ...]:
    """One pass; `crossing` says that several waves share a row, `close` that waves go through loops together."""
    made: list[Node] = []
    for loop, group in groupby(enumerate(sweeps), key=lambda numbered: numbered[1].loop):
        here: list[Node] = []
        exchanges = 0
        for number, sweep in group:
            here.append(ElementLoop(number))
            if crossing and sweep.handed:
                here += exchange(number, exchanges)
                exchanges += 1
        if exchanges:
            here.append(Advance(EXCHANGED, str(exchanges)))
        elif loop and close:
            here.append(BARRIER)
        made += [Loop("iteration", "ITERATIONS", tuple(here))] if loop else here
    return tuple(made)


def exchange(sweep: int, ahead: int) -> tuple[Node, ...]:
    """Waves hand each other what a sweep reduces."""
    own, shared = (replace(region, ahead=ahead) for region in (OWN, SHARED))
    return SharedStore(sweep, own), BARRIER, SharedLoad(sweep, shared)


def meets(made: Sequence[Node]) -> bool:
    """Return True if there is a barrier in every iteration of every loop."""
    return all(any(isinstance(op, Barrier) for op in node.body) for node in made if isinstance(node, Loop))


def passes(made: Sequence[Node]) -> Loop:
    """All passes over rows, each of these nodes."""
    return Loop("rows", "PASSES", tuple(made))


def block(made: Sequence[Node], between: Sequence[Node] = ()) -> Block:
    """The program of a block whose waves do these nodes in each pass over rows, and these between two tiles."""
    wave = Role("wave", (EXCHANGED,), (), Tiles((), (passes(made), *between)), warps="WAVES")
    return Block((wave,), (), (), (EXCHANGE,))


def persistent(made: Sequence[Node], between: Sequence[Node] = BETWEEN) -> Block:
    """The same of a block that goes from tile to tile; the next one's first half is `REST` exchanges further on."""
    return block(made, (*between, Advance(EXCHANGED, "REST")))
