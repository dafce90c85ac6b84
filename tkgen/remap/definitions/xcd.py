"""`xcd(n, chunk)`: gives each of `n` XCDs runs of `chunk` consecutive tiles, so that what they share is in one L2.

The hardware deals consecutive block ids round robin: block `id` runs on XCD `id % n`. Within each round of n * chunk
ids, XCD x gets the x-th chunk. The last, shorter round is dealt the same way with shares as even as they can be, which
is a bijection for every number of tiles. Without `chunk` the whole grid is one such round: one run per XCD.
"""

from __future__ import annotations

from tkgen.remap.expr import Const, Expr, Program, divides, minimum
from tkgen.remap.spec import Arguments, Grid, Parameter, Permutation


def define(program: Program, index: Expr, grid: Grid, args: Arguments) -> Expr:
    """The XCD and its turn by division, then the shares of the XCDs before it. No value exceeds the number of tiles."""
    count = program.let("count", Const(args["n"]), "XCDs that blocks are dealt over")
    base: Expr = Const(0)
    slot, tiles = index, grid.tiles
    if "chunk" in args:
        span = program.let("round", count * args["chunk"], "tiles of a full round: one chunk for every XCD")
        slot = program.let("slot", index % span, "place in the round")
        base = program.let("base", index - slot, "first tile of the round")
        tiles = span
        if not divides(span, grid.tiles):
            left = program.let("tiles_left", grid.tiles - base)
            tiles = program.let("tiles", minimum(span, left), "of this round, the last may be short")
    xcd = program.let("id", slot % count, "its XCD, by round robin")
    turn = program.let("turn", slot // count, "blocks it has had before in the round")
    share = program.let("share", tiles // count, "tiles of every XCD in the round")
    linear = base + xcd * share
    if not divides(count, tiles):
        extra = program.let("extra", tiles % count, "XCDs that get one more")
        linear = linear + program.let("before", minimum(xcd, extra), "of them, those before this one")
    return program.let("linear", linear + turn, "the tile's linear index")


SPEC = Permutation(
    name="xcd",
    doc="Runs of `chunk` consecutive tiles on each of `n` XCDs; without `chunk`, one run for each.",
    source="Blocks go round robin over XCDs (AMD documentation); chunked as in HipKittens' chiplet swizzle.",
    parameters=(
        Parameter("n", "number of XCDs", 1, 1 << 10),
        Parameter(
            "chunk", "consecutive tiles of one XCD, default an even share of the grid", 1, 1 << 20, required=False
        ),
    ),
    define=define,
)
