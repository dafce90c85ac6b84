"""The schedule of any products in and around a loop in the form of the proof: its tile program, unrolled.

As in `loop_schedule`, one consumer of two warps stands for all of them: consumers write nothing in common, and take no
turns; they read the same tiles, which are given back by every warp. Consumers that divide columns are all there: each
reads a part of a tile that nobody else does. The numbers of iterations that stand for others are those of
`tile_lengths`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from math import gcd, lcm

from tkgen.backends.hopper.schedule import MACHINE, right_tile_by_tile, wrong
from tkgen.backends.hopper.serial_loop import SerialLoop
from tkgen.backends.hopper.serial_program import SerialCode, constants, serial_program
from tkgen.backends.hopper.tile_lengths import fewer, in_any_order
from tkgen.proof.program import Loop
from tkgen.tile.scheduled import Scheduled
from tkgen.tile.unroll import unroll


@dataclass(frozen=True)
class SerialShape:
    """Parameters of the schedule: buffers of each ring, consumers, iterations of the loop for an output tile."""

    buffers: tuple[int, ...]
    consumers: int
    passes: int
    warps: int = 2  # of a consumer
    run: tuple[int, ...] = ()  # iterations of each tile, where tiles differ

    @property
    def turn(self) -> int:
        """Passes that bring all rings back to their beginning."""
        return lcm(*self.buffers)

    @property
    def tiles(self) -> int:
        """Output tiles of an iteration of the proof's loop."""
        if self.run:
            return len(self.run) * self.turn // gcd(self.turn, sum(self.run))
        return self.turn // gcd(self.turn, self.passes)


def serial_unproven(m: SerialLoop) -> str | None:
    """The first fault in some interleaving of a kernel with this layout, at any number of output tiles, if any."""
    return next(filter(None, (_wrong(m, shape) for shape in serial_shapes(m))), None)


def serial_scheduled(m: SerialLoop) -> Scheduled:
    """The tile program of a block."""
    values = constants(m, m.consumers, m.machine.warpgroup_warps)
    return Scheduled("", serial_program(m, SerialCode(loads_first=m.loads_first)), values)


def serial_shapes(m: SerialLoop) -> list[SerialShape]:
    """The shapes that stand for a kernel with this layout: no two the same."""
    shape = SerialShape(m.buffers, 1 if m.divided is None else m.consumers, 0)
    turn, numbers = shape.turn, m.pass_counts or range(int(not m.of_groups), 3 * shape.turn)
    passes = sorted({fewer(n, turn) for n in numbers})
    found = [replace(shape, passes=n) for n in passes]
    if m.unlike_tiles:
        found.append(replace(shape, run=in_any_order(numbers, max(shape.buffers), turn)))
    return found


def _wrong(m: SerialLoop, shape: SerialShape) -> str | None:
    made = partial(serial_schedule, m, shape)
    if not shape.run and shape.passes and right_tile_by_tile(made, shape.tiles, shape.passes, shape.turn):
        return None
    return wrong(made())


def serial_schedule(m: SerialLoop, shape: SerialShape, tiles: int = 0, spans: Sequence[range] = ()) -> Loop:
    """The kernel as a loop that a block passes for its output tiles, as many as it may be.

    With `tiles` tiles in an iteration, which is then the only one, where they do not bring the rings to their
    beginning. `spans` has the iterations of each tile, where it matters which these are.
    """
    values = constants(m, shape.consumers, shape.warps, shape.buffers)
    counts = islice(cycle(shape.run or (shape.passes,)), tiles or shape.tiles)
    own = [{"tile": n, "first_iteration": 0, "iterations": count} for n, count in enumerate(counts)]
    if spans:
        own = [{"tile": n, "first_iteration": s.start, "iterations": s.stop} for n, s in enumerate(spans)]
    return unroll(serial_program(m), MACHINE, values, own)
