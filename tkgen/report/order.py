"""The order of the output tiles over the matrix: when each is computed, on which XCD, and the L2 reuse this gives."""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.ir.types import Program
from tkgen.remap import Remap, RemapCall, compose
from tkgen.remap.measure import panels_per_window
from tkgen.targets import Target

ASSUMED_TILES = 32  # rows and columns of the grid that is drawn when a size is known only at run time
MAX_TILES = 1 << 14  # larger grids are not drawn; the figures stay exact


@dataclass(frozen=True)
class Reuse:
    """Panels of A and B that the blocks running at once on one XCD read between them, with a remap and without reuse.

    A panel is one row of tiles' part of A, or one column's part of B. `factor` is how many blocks share a panel.
    """

    name: str
    panels: float
    factor: float


@dataclass(frozen=True)
class BlockOrder:
    """`sequence[t]` is the tile (row * cols + col) that is computed t-th; tile t runs on XCD (t mod blocks) mod `xcds`.

    `concurrent` tiles run at a time on the whole device, `window` of them on one XCD. `assumed` says that a size is
    dynamic and the grid an example. `blocks` is the number of blocks launched.
    """

    remap: str
    rows: int
    cols: int
    assumed: bool
    persistent: bool
    blocks: int
    xcds: int
    concurrent: int
    window: int
    product: str
    sequence: tuple[int, ...]
    reuse: tuple[Reuse, ...]

    def xcd(self, turn: int) -> int:
        """The XCD that computes the tile of `turn`: blocks are dealt round robin by linear id."""
        return turn % self.blocks % self.xcds


def block_order(program: Program, target: Target, blocks_per_cu: int) -> BlockOrder:
    """The block order of `program` when `blocks_per_cu` blocks fit a compute unit."""
    remap = compose([RemapCall(s.name, dict(s.keywords), s.positional) for s in program.remap])
    m, n = program.m.size, program.n.size
    rows = ASSUMED_TILES if m is None else -(-m // program.block[0])
    cols = ASSUMED_TILES if n is None else -(-n // program.block[1])
    product = target.product
    persistent = program.grid.name == "persistent"
    blocks = min(program.grid.count, rows * cols) if persistent else rows * cols
    concurrent = min(product.compute_units * max(blocks_per_cu, 1), blocks)
    window = max(concurrent // product.xcds, 1)
    sequence = tuple(row * cols + col for row, col in remap.order(rows, cols)) if rows * cols <= MAX_TILES else ()
    reuse = [_reuse(str(remap), remap, rows, cols, window, product.xcds)]
    plain = compose([])
    if str(plain) != str(remap):
        reuse.append(_reuse(str(plain), plain, rows, cols, window, product.xcds))
    return BlockOrder(
        remap=str(remap),
        rows=rows,
        cols=cols,
        assumed=m is None or n is None,
        persistent=persistent,
        blocks=blocks,
        xcds=product.xcds,
        concurrent=concurrent,
        window=window,
        product=product.name,
        sequence=sequence,
        reuse=tuple(r for r in reuse if r is not None),
    )


def _reuse(name: str, remap: Remap, rows: int, cols: int, window: int, xcds: int) -> Reuse | None:
    if window > rows * cols // xcds:
        return None  # fewer tiles than one XCD holds: nothing to measure
    panels = panels_per_window(remap, rows, cols, window, xcds)
    return Reuse(name, round(panels, 2), round(2 * window / panels, 2))
