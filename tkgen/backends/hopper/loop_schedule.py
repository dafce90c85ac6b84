"""The schedule of a loop of products in the form of the proof (`tkgen.proof`): `templates/loops.cu.jinja`, in steps.

Agents are the thread that issues copies and every warp of the consumers. Rings: `held` has a tile's factor, a part for
each consumer; `left` and `right` the buffers of the factors that move; `out c` what consumer c stores. Of the registers
of warp w, `scores c w` has the first product's sums, `made c w` what stands between the products, `factor c w` the
second one's left factor, and `sums c w` alternates between rescaled and summed. Meetings: the mbarriers `full` and
`empty` of each buffer, the named barriers `group c` of a consumer and `turn c`, at which a consumer waits until the one
before it has issued its products: it arrives there itself, as `bar.sync` does, and awaits the phase.

    loop_faults(schedule(Shape(left=2, right=2, consumers=2, passes=5)))    # nothing: no fault

**The proof of a kernel** (`unproven`) is that of smaller shapes (`representatives`), for any number of output tiles:

- Data: one consumer of two warps stands for all, as in `tkgen.backends.hopper.schedule`. Two consumers write nothing in
  common, and of the warps of one but the first, which stores, no two touch the same rows. Turns only add waits.
- Turns: all consumers are there, of one warp each. Warps of a consumer run the same steps and come as they come.
- A turn of both rings in the middle of a tile that has another one stands for any number of them: what must be ordered
  is a turn apart at most, or at the ends of a tile.
- Where a loop begins or ends with its tile, a block has one tile (`loops` refuses more): each number of passes is a
  shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from math import gcd, lcm

from tkgen.backends.hopper.loops import HopperLoop
from tkgen.backends.hopper.schedule import ASYNC, MACHINE, wrong
from tkgen.proof.program import Access, Arrive, Await, Commit, Do, Drain, Fence, Loop, Looped, Meet, Meeting, Step
from tkgen.proof.text import loop_text


@dataclass(frozen=True)
class Shape:
    """What decides the schedule: buffers of each ring, consumers, passes of the loop for an output tile."""

    left: int
    right: int
    consumers: int
    passes: int
    warps: int = 2  # of a consumer

    @property
    def turn(self) -> int:
        """Passes that bring both rings back to their beginning."""
        return lcm(self.left, self.right)

    @property
    def tiles(self) -> int:
        """Output tiles of a pass of the proof's loop."""
        return self.turn // gcd(self.turn, self.passes)


def unproven(m: HopperLoop) -> str | None:
    """What can go wrong first in some interleaving of a kernel with this layout, at any number of output tiles."""
    return next(filter(None, map(_wrong, shapes(m))), None)


def scheduled(m: HopperLoop) -> str:
    """The schedule as text: that of the shape with all consumers and most passes of those that stand for the kernel."""
    return loop_text(schedule(shapes(m)[-1]))


def shapes(m: HopperLoop) -> list[Shape]:
    """The shapes that stand for a kernel with this layout."""
    return representatives(Shape(*m.buffers, m.consumers, 0), m.pass_counts)


def representatives(shape: Shape, numbers: Iterable[int]) -> list[Shape]:
    """The shapes that stand for `shape` with so many passes in a tile: no two the same."""
    turn = shape.turn
    passes = {n if n < 2 * turn else turn + n % turn for n in numbers}
    found = [replace(shape, passes=n, consumers=1, warps=2) for n in sorted(passes)]
    return found + [replace(shape, passes=n, warps=1) for n in sorted(passes) if shape.consumers > 1]


@cache
def _wrong(shape: Shape) -> str | None:
    return wrong(schedule(shape))


def schedule(shape: Shape, tiles: int = 0) -> Loop:
    """The kernel as a loop that a block passes for its output tiles, as many as it may be.

    With so many `tiles` in a pass, which is then the only one, where they do not bring the rings to their beginning.
    """
    tiles = tiles or shape.tiles
    every, warps = tiles * shape.passes, shape.consumers * shape.warps
    meetings = [Meeting("held full", 1, True), Meeting("held empty", warps, True)]
    slots = {"held": 1, "left": shape.left, "right": shape.right}
    advance = {"held": tiles, "held full": tiles, "held empty": tiles, "left": every, "right": every}
    for ring, buffers in (("left", shape.left), ("right", shape.right)):
        for s in range(buffers):
            meetings += [Meeting(f"{ring} full {s}", 1, True), Meeting(f"{ring} empty {s}", warps, True)]
            advance |= dict.fromkeys((f"{ring} full {s}", f"{ring} empty {s}"), every // buffers)
    for c in range(shape.consumers):
        meetings.append(Meeting(f"group {c}", shape.warps))
        slots[f"out {c}"], advance[f"out {c}"], advance[f"group {c}"] = 1, tiles, 2 * tiles
        if shape.consumers > 1:
            meetings.append(Meeting(f"turn {c}", 2 * shape.warps, True))
            advance[f"turn {c}"] = tiles * (shape.passes - 1)
        for w in range(shape.warps):
            for ring, each in (("scores", 1), ("made", 1), ("factor", 1), ("sums", 2)):
                slots[f"{ring} {c} {w}"], advance[f"{ring} {c} {w}"] = 1, each * every
    groups = [(c, w) for c in range(shape.consumers) for w in range(shape.warps)]
    agents = (_producer(shape, tiles), *(_consumer(shape, tiles, c, w) for c, w in groups))
    return Loop(agents, tuple(meetings), slots, advance, MACHINE)


def _producer(shape: Shape, tiles: int) -> Looped:
    steps: list[Step] = []
    for tile in range(tiles):
        steps += [Await("held empty", tile - 1), Arrive("held full", bytes=shape.consumers)]
        for c in range(shape.consumers):
            part = Access("held", tile, 0, ((c, c + 1),))
            steps.append(Do(writes=(part,), stream="copies", meeting="held full", bytes=1))
        for i in range(tile * shape.passes, (tile + 1) * shape.passes):
            for ring, buffers in (("left", shape.left), ("right", shape.right)):
                s, full = i % buffers, f"{ring} full {i % buffers}"
                steps += [Await(f"{ring} empty {s}", i // buffers - 1), Arrive(full, bytes=1)]
                steps.append(Do(writes=(Access(ring, i, s),), stream="copies", meeting=full, bytes=1))
    return Looped("producer", (), tuple(steps))


def _consumer(shape: Shape, tiles: int, c: int, w: int) -> Looped:
    steps: list[Step] = []
    for tile in range(tiles):
        first, last = tile * shape.passes, (tile + 1) * shape.passes - 1
        steps.append(Await("held full", tile))
        steps += [*_first(shape, c, w, tile, first), Drain("products"), Arrive(f"left empty {first % shape.left}")]
        steps += [*_middle(c, w, first), *_carried(c, w, first, fresh=True)]
        for i in range(first + 1, last + 1):
            steps += _turn(shape, c, tile * (shape.passes - 1) + i - first - 1)
            steps += [*_first(shape, c, w, tile, i), *_second(shape, c, w, i - 1), *_next(shape, c)]
            steps += [Drain("products", 1), Arrive(f"left empty {i % shape.left}"), *_middle(c, w, i)]
            steps += [Drain("products"), Arrive(f"right empty {(i - 1) % shape.right}")]
            steps += _carried(c, w, i, fresh=False)
        steps += [Arrive("held empty"), *_second(shape, c, w, last), Drain("products")]
        steps += [Arrive(f"right empty {last % shape.right}"), *_out(shape, c, w, tile, last)]
    start = _next(shape, c) if c == shape.consumers - 1 else []
    end = (Drain("stores", reads_only=True),) if w == 0 else ()
    return Looped(f"consumer {c} warp {w}", tuple(start), tuple(steps), end)


def _turn(shape: Shape, c: int, phase: int) -> list[Step]:
    return [Arrive(f"turn {c}"), Await(f"turn {c}", phase)] if shape.consumers > 1 else []


def _next(shape: Shape, c: int) -> list[Step]:
    return [Arrive(f"turn {(c + 1) % shape.consumers}")] if shape.consumers > 1 else []


def _first(shape: Shape, c: int, w: int, tile: int, i: int) -> list[Step]:
    s = i % shape.left
    reads = (Access("held", tile, 0, ((c, c + 1),)), Access("left", i, s))
    product = Do(reads=reads, writes=(Access(f"scores {c} {w}", i, 0),), stream="products")
    return [Await(f"left full {s}", i // shape.left), product, Commit("products")]


def _second(shape: Shape, c: int, w: int, i: int) -> list[Step]:
    s, sums = i % shape.right, f"sums {c} {w}"
    reads = (Access("right", i, s), Access(f"factor {c} {w}", i, 0), Access(sums, 2 * i, 0))
    product = Do(reads=reads, writes=(Access(sums, 2 * i + 1, 0),), stream="products")
    fence = Fence("generic", ASYNC)  # wgmma.fence: nothing in shared memory is written between two of them
    return [Await(f"right full {s}", i // shape.right), fence, product, Commit("products")]


def _middle(c: int, w: int, i: int) -> list[Step]:
    return [Do(reads=(Access(f"scores {c} {w}", i, 0),), writes=(Access(f"made {c} {w}", i, 0),))]


def _carried(c: int, w: int, i: int, fresh: bool) -> list[Step]:
    """The sums rescaled, or those that a tile starts with; the second product's factor."""
    sums = f"sums {c} {w}"
    reads = (Access(f"made {c} {w}", i, 0), *(() if fresh else (Access(sums, 2 * i - 1, 0),)))
    return [Do(reads=reads, writes=(Access(sums, 2 * i, 0), Access(f"factor {c} {w}", i, 0)))]


def _out(shape: Shape, c: int, w: int, tile: int, last: int) -> list[Step]:
    ring = f"out {c}"
    mine, whole = (Access(ring, tile, 0, (box,)) for box in ((w, w + 1), (0, shape.warps)))
    free: list[Step] = [Drain("stores", reads_only=True)] if w == 0 else []
    write = Do(reads=(Access(f"sums {c} {w}", 2 * last + 1, 0),), writes=(mine,))
    store: list[Step] = [Do(reads=(whole,), stream="stores"), Commit("stores")] if w == 0 else []
    return [*free, Meet(f"group {c}"), write, Fence("generic", ASYNC), Meet(f"group {c}"), *store]
