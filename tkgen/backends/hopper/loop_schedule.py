"""The schedule of a fused matmul in the form of the proof (`tkgen.proof`): its tile program, unrolled.

Agents are the thread that issues copies and every warp of the consumers. Rings: `held` has a tile's factor, a part for
each consumer; `left` and `right` the buffers of the factors that move; `out c` what consumer c stores. Of the registers
of warp w, `scores c w` has the first product's sums, `made c w` the values between the products, `factor c w` the
second one's left factor, and `sums c w` alternates between rescaled and summed. Barriers: the mbarriers `full` and
`empty` of each buffer, the named barriers `group c` of a consumer and `turn c`, at which a consumer waits until the one
before it has issued its products: it arrives there itself, as `bar.sync` does, and awaits the phase.

    loop_faults(schedule(Shape(left=2, right=2, consumers=2, passes=5)))    # nothing: no fault

**The proof of a kernel** (`unproven`) is that of smaller shapes (`representatives`), for any number of output tiles:

- Data: one consumer of two warps stands for all, as in `tkgen.backends.hopper.schedule`. Two consumers write nothing in
  common, and of the warps of one but the first, which stores, no two touch the same rows. Turns only add waits.
- Turns, and columns that the warps of all consumers combine: all consumers are there, of one warp each. Warps of a
  consumer run the same steps and come as they come.
- A turn of both rings in the middle of a tile that has another one, or part of it, stands for any number of them: what
  must be ordered is a turn apart at most, or at the ends of a tile, where all wait for the held factor.
- Where a loop begins or ends with its tile, each number of iterations is a shape, of tiles that all have as many. The
  tiles of a persistent block differ: one more shape has them one after the other (`tile_lengths`).
- Lengths that are known at the launch alone may give any number of iterations, from one on: `fused` refuses a launch
  with a tile that has none. Those of groups are data, and a tile may have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import cycle, islice
from math import gcd, lcm

from tkgen.backends.hopper.chained import SOME, Code, constants, program
from tkgen.backends.hopper.loops import HopperLoop
from tkgen.backends.hopper.schedule import MACHINE, right_tile_by_tile, wrong
from tkgen.backends.hopper.streamed import Round, Rows
from tkgen.backends.hopper.tile_lengths import fewer, in_any_order
from tkgen.proof.program import Loop
from tkgen.tile.scheduled import Scheduled
from tkgen.tile.unroll import unroll


@dataclass(frozen=True)
class Shape:
    """Parameters of the schedule: buffers of each ring, consumers, iterations of the loop for an output tile."""

    left: int
    right: int
    consumers: int
    passes: int
    warps: int = 2  # of a consumer
    some: bool = True  # False where a tile may take no iteration
    rounds: int = 0  # of reductions of columns after the loop
    columns_stored: int = 0  # outputs that have a number of each column
    loads: bool = False  # lanes read tiles in each iteration
    chained: bool = True  # False if the loop has one product
    rows_stored: int = 0  # outputs of these that have a number of each row
    run: tuple[int, ...] = ()  # iterations of each tile, where tiles differ

    @property
    def turn(self) -> int:
        """Passes that bring both rings back to their beginning."""
        return lcm(self.left, self.right)

    @property
    def code(self) -> Code:
        """The tile program's C++, as far as it decides the schedule."""
        rounds = tuple(Round(n, of_columns=True) for n in range(self.rounds))
        stored = tuple(Rows(f"columns {n}", "", ()) for n in range(self.columns_stored))
        loads = ("loads",) * self.loads
        rows = tuple(Rows(f"rows {n}", "", ()) for n in range(self.rows_stored))
        return Code(some="" if self.some else SOME, rounds=rounds, columns_stored=stored, loads=loads,
                    rows_stored=rows, chained=self.chained)  # fmt: skip

    @property
    def tiles(self) -> int:
        """Output tiles of an iteration of the proof's loop."""
        if self.run:
            return len(self.run) * self.turn // gcd(self.turn, sum(self.run))
        return self.turn // gcd(self.turn, self.passes)


def unproven(m: HopperLoop) -> str | None:
    """The first fault in some interleaving of a kernel with this layout, at any number of output tiles, if any."""
    return next(filter(None, map(_wrong, shapes(m))), None)


def scheduled(m: HopperLoop) -> Scheduled:
    """The tile program of a block."""
    code = replace(shape_of(m).code, loads_first=m.loads_first)
    return Scheduled("", program(code), constants(*m.buffers, m.consumers, m.machine.warpgroup_warps))


def shape_of(m: HopperLoop, passes: int = 0) -> Shape:
    """The shape of a kernel with this layout, with all warps of each consumer and `passes` iterations for a tile."""
    return Shape(*m.buffers, m.consumers, passes, m.machine.warpgroup_warps, not m.of_groups, len(m.combined),
                 len(m.columns_stored), bool(m.loaded), m.second is not None,
                 len(m.rows_stored) if m.second is None else 0)  # fmt: skip


def shapes(m: HopperLoop) -> list[Shape]:
    """The shapes that stand for a kernel with this layout."""
    shape = shape_of(m)
    numbers = m.pass_counts or range(int(shape.some), 3 * shape.turn)
    return [*representatives(shape, numbers), *(in_turn(shape, numbers) if m.unlike_tiles else ())]


def representatives(shape: Shape, numbers: Iterable[int]) -> list[Shape]:
    """The shapes that represent `shape` with `numbers` iterations in a tile: no two the same."""
    turn = shape.turn
    passes = {fewer(n, turn) for n in numbers}
    found = [replace(shape, passes=n, consumers=1, warps=2) for n in sorted(passes)]
    return found + [replace(shape, passes=n, warps=1) for n in sorted(passes) if shape.consumers > 1]


def in_turn(shape: Shape, numbers: Iterable[int]) -> list[Shape]:
    """The shapes that represent `shape` with tiles of different `numbers` of iterations, in any order."""
    run = in_any_order(numbers, max(shape.left, shape.right), shape.turn)
    found = [replace(shape, run=run, consumers=1, warps=2)]
    return found + ([replace(shape, run=run, warps=1)] if shape.consumers > 1 else [])


@cache
def _wrong(shape: Shape) -> str | None:
    if not shape.run and right_tile_by_tile(partial(schedule, shape), shape.tiles, shape.passes, shape.turn):
        return None
    return wrong(schedule(shape))


def schedule(shape: Shape, tiles: int = 0) -> Loop:
    """The kernel as a loop that a block passes for its output tiles, as many as it may be.

    With `tiles` tiles in an iteration, which is then the only one, where they do not bring the rings to their
    beginning.
    """
    values = constants(shape.left, shape.right, shape.consumers, shape.warps)
    counts = islice(cycle(shape.run or (shape.passes,)), tiles or shape.tiles)
    return unroll(program(shape.code), MACHINE, values, [{"first_iteration": 0, "iterations": n} for n in counts])
