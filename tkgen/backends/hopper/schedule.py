"""The schedule of the generated kernel in the form of the proof (`tkgen.proof`): its tile program, unrolled.

Agents are the thread that issues copies and every warp of the consumers. Rings: a stage holds the tiles of each A (a
part for each consumer) and of each B, `panel c` what consumer c is about to store, `sums p c w` the registers of a warp
for a product, and where a step's products are scaled before they are added, `step p c w` those for these; `values c w`
what a panel becomes of them. Barriers:
the mbarriers `full s` and `empty s` of each stage, the named barrier `group c` of each consumer. An iteration of the
loop is as many output tiles as bring the ring of stages back to its beginning. It is proven tile by tile where one tile
is the one before it, rotated (`tkgen.proof.rotation`).

Consumers that take turns (`schedule ping_pong`) have K-steps of their own, those of consumer 0 first, then those of
consumer 1: a stage holds the tiles of one of them, and that one alone gives it back. `turn c` are mbarriers: consumer c
begins a tile when the one before it has all its last step's products issued. They are needed: a wait tells even phases
from odd ones, no more, so who waited for a stage two turns of the ring ahead would find it full of another's tiles.

Of a cluster, all blocks are there.

    loop_faults(schedule(Shape(stages=4, consumers=2, steps=6, panels=4, buffers=2)))    # nothing: no fault

**The proof of a kernel** (`unproven`) is that of smaller shapes (`representatives`), for any number of output tiles:

- Two warps of a consumer stand for its four; where consumers take no turns, one consumer for all. Two consumers
  write nothing in common: their own parts of A come by their own copies, B they both only read, sums, panels and named
  barriers are their own. Of the warps of a consumer but the first, which stores, no two touch the same rows. So of
  every two accesses that must be ordered, one is the producer's, or both are of one consumer, and one of its warps is
  the first or both are the same. Their order in the smaller shape holds in the full one, in which each phase needs the
  same arrivals and more. Those that are more run the same steps as the ones that are there, and come as they come.
- Of columns that the warps of all consumers reduce, another shape has all consumers, of one warp each: what one warp
  writes, all read, whichever consumer's they are.
- A turn of the ring in the middle of a tile that has another one stands for any number of them: what must be ordered
  is a turn apart at most, or at the ends of a tile.
- Where groups of rows end within tiles, warps take rows out of panels themselves, and wait for all stores before a
  panel of 64 rows that are not all of the group. Which ones these are only the data says. In a consumer's tile they are
  all, none, or the last ones. Two tiles without any, one before such a tile, one after it are what can be neighbours,
  except for two such tiles, between which no store is under way; where a consumer's tile has several 64 rows, another
  shape has tiles of which the first 64 rows are whole.
- Panels that are stored to computed positions have registers alone: one of each 64 rows stands for all.
- The same holds of the ring of panels. A K known at the launch alone may be any of these numbers of steps.
- Where warps of a producer fill tiles, two of them stand for its four: each loads and stores its share, and
  arrives by itself.
- A cluster is proven in two shapes. One is a block by itself, as above: what its consumers alone touch - sums, panels,
  named barriers - is ordered by their own steps, which are the same. The other has all blocks, each with one consumer
  of one warp, and one panel. What is left are tiles, mbarriers and the blocks' memory: of every two accesses one is a
  producer's, or sets a block's memory up, or is its end; and the warps that are left out wait, read, arrive and meet as
  the one that is there.

Of a grid `stream_k` a block's run of K-steps begins and ends within tiles (`Shape.run`): no iteration, but one program
from its beginning to its end, which is proven for each block of the launch. In the same way turns of the ring within a
part of a tile are left out, and of the whole tiles between the first part and the last those that bring the ring of
stages back to where it was, all except one round of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import accumulate
from math import gcd, lcm
from typing import TYPE_CHECKING

from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.machine import load_hopper
from tkgen.backends.hopper.streamed import Code, Filled, Operand, Output, Product, Round, Rows, program
from tkgen.ir.launch import Launch
from tkgen.proof.passes import first_wrong, unread
from tkgen.proof.program import Loop
from tkgen.proof.rotation import rotated
from tkgen.tile.program import Let
from tkgen.tile.unroll import Tile, unroll

if TYPE_CHECKING:
    from tkgen.tile.scheduled import Scheduled

MACHINE = load_hopper().synchronisation


@dataclass(frozen=True)
class Shape:
    """Parameters of the schedule: see `layout.Layout`; `steps` are the K-steps of an output tile."""

    stages: int
    consumers: int
    steps: int
    panels: int
    buffers: int
    products: tuple[tuple[int, int], ...] = ((0, 0),)  # which A and which B each one multiplies
    warps: int = 4  # of a consumer
    fragments: int = 1  # products of 64 rows of each, `products` being those of one of them
    ping_pong: bool = False
    scaled: bool = False  # a step's products are made something of before they are added
    ragged: bool = False  # groups of rows end within tiles: their last rows leave without the copy engine
    whole: int = 0  # where one does, so many times 64 rows of each consumer are before its end
    blocks: int = 1  # of a cluster
    common: str = ""  # the factors whose tiles these have in common: A or B
    run: tuple[int, ...] = ()  # the K-steps of a block's parts of tiles, where they differ
    outputs: int = 1  # that share the panels; none where all are scattered
    rounds: tuple[bool, ...] = ()  # of reductions of the sums: True of columns, which all warps have a part of
    rows_stored: int = 0  # outputs that have a number of each row
    columns_stored: int = 0  # and of each column
    chunked: tuple[int, ...] = ()  # the outputs that warps store, as the copy engine cannot step over their rows
    filled: tuple[str, ...] = ()  # the tiles that warps of the producer load and store
    scattered: int = 0  # panels that are stored to computed positions, from registers
    ended: tuple[str, ...] = ()  # those of which one copy brings all parts, or as many rows as there are

    @property
    def turn(self) -> int:
        """Steps after which stages, and the two places for what is scaled, are used as before."""
        return lcm(self.stages, 2) if self.scaled else self.stages

    @property
    def turns(self) -> int:
        """The number of times that a block goes through K for a tile."""
        return self.consumers if self.ping_pong else 1

    @property
    def parts(self) -> int:
        """Tiles of 64 rows that a stage has of each A."""
        return self.fragments * self.consumers // self.turns

    @property
    def sums(self) -> int:
        """Sums of a warp: of each product, of each fragment."""
        return self.fragments * len(self.products)

    @property
    def lefts(self) -> tuple[str, ...]:
        """The tiles of which each consumer has a part."""
        return tuple(f"A{i}" for i in sorted({a for a, _ in self.products}))

    @property
    def rights(self) -> tuple[str, ...]:
        """The tiles of all consumers."""
        return tuple(f"B{i}" for i in sorted({b for _, b in self.products}))

    @property
    def tiles(self) -> int:
        """Output tiles of an iteration."""
        return len(self.run) or self.stages // gcd(self.stages, self.turns * self.steps) * (2 if self.ragged else 1)

    def spans(self, tiles: int) -> list[range]:
        """The steps of each turn over K for `tiles` tiles, counted from the first."""
        counts = self.run or (self.steps,) * (tiles * self.turns)
        ends = list(accumulate(counts))
        return [range(end - count, end) for end, count in zip(ends, counts, strict=True)]


def unproven(layout: Layout) -> str | None:
    """The first fault in some interleaving of a kernel with this layout, at any number of output tiles, if any."""
    return next(filter(None, map(_wrong, shapes(layout))), None)


def scheduled(layout: Layout) -> Scheduled:
    """The tile program of a block."""
    from tkgen.tile.scheduled import Scheduled  # no check needs it

    shape = block_shape(layout, layout.program.steps or 0)
    values = {
        name: n for name, n in _values(shape).items() if n
    }  # the K-steps of a tile may be known at run time alone
    return Scheduled("", program(_code(shape)), values)


def shapes(layout: Layout) -> list[Shape]:
    """The shapes that stand for a kernel with this layout."""
    shape, steps = block_shape(layout, 0), layout.program.steps
    if layout.program.grid.name == "stream_k":
        return representative_runs(shape, runs(layout))
    return representatives(shape, range(1, 3 * shape.turn) if steps is None else [steps])


def block_shape(layout: Layout, steps: int) -> Shape:
    """The shape of a kernel with this layout whose tiles take `steps` steps."""
    lefts, rights = (list(dict.fromkeys(p.factors[i].name for p in layout.program.products)) for i in (0, 1))
    products = tuple((lefts.index(p.left.name), rights.index(p.right.name)) for p in layout.program.products)
    rings = {name: f"{side}{n}" for side, names in (("A", lefts), ("B", rights)) for n, name in enumerate(names)}
    return Shape(layout.stages, layout.consumers, steps, layout.panels, layout.store_buffers, products,
                 fragments=layout.fragments, ping_pong=layout.ping_pong, scaled=layout.scaled,
                 ragged=layout.ragged, blocks=layout.clusters, common=layout.common,
                 outputs=len(layout.panels_stored), rounds=tuple(layout.of_columns(ops[0]) for ops in layout.rounds),
                 rows_stored=len(layout.rows_stored), columns_stored=len(layout.columns_stored),
                 scattered=layout.fragments * sum(map(layout.panels_of, layout.scattered)),
                 chunked=tuple(n for n, store in enumerate(layout.panels_stored)
                               if layout.stored_in_chunks(store.target.tensor)),
                 filled=tuple(rings[name] for name in layout.filled),
                 ended=tuple(rings[name] for name in layout.ended))  # fmt: skip


def representatives(shape: Shape, numbers: Iterable[int]) -> list[Shape]:
    """The shapes that represent `shape` with `numbers` steps in a tile: no two the same."""
    turn, panels = shape.turn, _few_panels(shape)
    steps = {_fewer(n, turn) for n in numbers}
    alone = replace(shape, consumers=shape.turns, warps=2, panels=panels, blocks=1, common="",
                    scattered=min(shape.scattered, shape.fragments))  # fmt: skip
    kinds = [replace(alone, ragged=False)]
    if shape.ragged:
        kinds += [replace(alone, whole=whole) for whole in range(min(shape.fragments, 2))]
    if any(shape.rounds) and shape.consumers > 1:
        kinds.append(replace(alone, consumers=shape.consumers, warps=1))
    if shape.blocks > 1:
        few = min(shape.panels, 1)
        kinds.append(replace(shape, consumers=1, warps=1, panels=few, buffers=few, outputs=few, scattered=1 - few))
    return [replace(kind, steps=n) for kind in kinds for n in sorted(steps)]


def _fewer(n: int, turn: int) -> int:
    """`n`, reduced to at most one complete turn and the rest of another."""
    return n if n < 2 * turn else turn + n % turn


def _few_panels(shape: Shape) -> int:
    """Twice around their ring, and one of each output; of complete turns around it, as the panels of a tile are."""
    if not shape.panels:
        return 0
    few = max(min(shape.panels // shape.fragments, 2 * shape.buffers), shape.outputs)
    return -(-few // shape.buffers) * shape.buffers * shape.fragments


def runs(layout: Layout) -> set[tuple[int, ...]]:
    """The K-steps of the parts of tiles that a block of a launch has, for all blocks that have any."""
    launch = Launch.known(layout.program)
    assert launch is not None, "the sizes of a `stream_k` are known"
    return {tuple(piece.steps for piece in pieces) for pieces in launch.work if pieces}


def representative_runs(shape: Shape, found: Iterable[tuple[int, ...]]) -> list[Shape]:
    """The shapes that stand for blocks with these runs: no two the same."""
    turn, panels = shape.turn, _few_panels(shape)
    shorter = set()
    for first, *others in found:
        whole, last = others[:-1], others[-1:]
        around = turn // gcd(turn, whole[0]) if whole else 1  # tiles that bring the ring to its beginning
        run = (first, *whole[: _fewer(len(whole), around)], *last)
        shorter.add(tuple(_fewer(n, turn) for n in run))
    return [replace(shape, consumers=1, warps=2, panels=panels, steps=0, run=run) for run in sorted(shorter, key=sum)]


@cache
def _wrong(shape: Shape) -> str | None:
    if not shape.run and right_tile_by_tile(partial(schedule, shape), shape.tiles, shape.steps, shape.turn,
                                            2 if shape.ragged else 1):  # fmt: skip
        return None
    return wrong(schedule(shape), once=bool(shape.run))


def right_tile_by_tile(unrolled: Callable[[int], Loop], tiles: int, steps: int, turn: int, alike: int = 1) -> bool:
    """Return True if a loop has no fault whose iteration is `alike` tiles, and the next one is that rotated.

    `unrolled` makes a loop from the number of tiles in an iteration; with `tiles` tiles, nothing rotates. After `turn`
    steps every stage has been used.
    """
    parts = 1 + -(-turn // max(steps * alike, 1))
    if parts * alike >= max(tiles, 3):
        return False
    tile = rotated(unrolled(parts * alike), parts)
    return tile is not None and wrong(tile) is None


def wrong(loop: Loop, once: bool = False) -> str | None:
    """The first fault in a schedule, with any number of iterations or `once`: in some interleaving, or in all."""
    return first_wrong(loop, once) or unread(loop, once)


Part = tuple[int, int]  # a tile's rows of a consumer


def schedule(shape: Shape, tiles: int = 0, ends: Mapping[Part, int] | None = None) -> Loop:
    """The kernel as a loop that a block, or a cluster of them, passes for its output tiles, as many as it may be.

    With `tiles` tiles in an iteration, which is then the only one, where they do not bring the ring to its beginning.
    Of ragged rows `ends` says how many times 64 rows are before a group's end, where it ends within a part, or before
    it: where it is not said, `shape.whole` of each second tile.
    """
    tiles = tiles or shape.tiles
    if ends is None:
        ends = {(t, c): shape.whole for t in range(1, tiles, 2) for c in range(shape.consumers) if shape.ragged}
    counts = shape.run or (shape.steps,) * tiles
    own: list[Tile] = [
        {"K_STEPS": count, "whole": tuple(ends.get((tile, c), shape.fragments) for c in range(shape.consumers))}
        for tile, count in enumerate(counts)
    ]
    return unroll(program(_code(shape)), MACHINE, _values(shape), own)


def _code(shape: Shape) -> Code:
    """The operands, products and outputs of a block of this shape."""
    operands = [Operand(name, name in shape.rights, share="part" if name[0] == shape.common else "",
                        filled=Filled() if name in shape.filled else None, whole="whole" * (name in shape.ended))
                for name in (*shape.lefts, *shape.rights)]  # fmt: skip
    numbers = {operand.ring: n for n, operand in enumerate(operands)}
    products = tuple(Product(numbers[f"A{a}"], numbers[f"B{b}"]) for a, b in shape.products)
    outputs = tuple(Output(f"PANELS_{n}", before="".join(f"PANELS_{m} + " for m in range(n)),
                           chunks="<>" if n in shape.chunked else "")
                    for n in range(shape.outputs))  # fmt: skip
    outputs += (Output("SCATTERED", scattered=True),) * bool(shape.scattered)
    rounds = tuple(Round(n, of_columns=columns) for n, columns in enumerate(shape.rounds))
    stored = (f"{kind} {n}" for kind, count in (("rows", shape.rows_stored), ("columns", shape.columns_stored))
              for n in range(count))  # fmt: skip
    partial = Let((("partial", f"{'f' if shape.ping_pong else 0} >= whole"),))
    return Code(tuple(operands), products, outputs, turns=shape.ping_pong, scaled=shape.scaled, ragged=shape.ragged,
                cluster=shape.blocks > 1, rows=(partial,) * shape.ragged, rounds=rounds,
                rows_stored=tuple(Rows(each, "") for each in stored))  # fmt: skip


def _values(shape: Shape) -> dict[str, int]:
    """The constants of a block of this shape. Its panels are of one output, except for one of each other."""
    panels = shape.panels // shape.fragments
    counts = [panels - (shape.outputs - 1), *[1] * (shape.outputs - 1)] if shape.outputs else []
    return {
        "STAGES": shape.stages, "CONSUMERS": shape.consumers, "FRAGMENTS": shape.fragments, "K_STEPS": shape.steps,
        "WARPGROUP_WARPS": shape.warps, "STORE_BUFFERS": shape.buffers,
        **({"CLUSTER": shape.blocks} if shape.blocks > 1 else {}),
        "SCATTERED": shape.scattered // shape.fragments,
    } | {f"PANELS_{n}": count for n, count in enumerate(counts)}  # fmt: skip
