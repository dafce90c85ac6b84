"""The order of the output tiles over the matrix: when each is computed, on which XCD, and the L2 reuse this gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tkgen.ir.launch import Launch
from tkgen.ir.limits import with_all
from tkgen.remap import compose
from tkgen.remap.measure import panels

ASSUMED_TILES = 32  # rows and columns of the grid that is drawn when a size is known only at run time
MAX_TILES = 1 << 14  # larger grids are not drawn
SAMPLED_TILES = 1 << 16  # of larger grids the reuse is that of the tiles that begin first


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
    """`sequence[t]` is the tile (row * cols + col) that begins t-th, on XCD `xcd[t]`; empty for a huge grid or one row.

    There are `matrices` such grids. `concurrent` tiles run at a time on the whole device, `window` of them on one XCD.
    `assumed` says that a size is dynamic and the grid an example. `blocks` are launched, as the `grid` clause says.
    """

    remap: str
    grid: str
    rows: int
    cols: int
    matrices: int
    assumed: bool
    blocks: int
    xcds: int
    concurrent: int
    window: int
    product: str
    sequence: tuple[int, ...]
    xcd: tuple[int, ...]
    reuse: tuple[Reuse, ...]


def block_order(program: Any, product: Any, resident: int) -> BlockOrder:
    """The block order of `program` on `product` when `resident` blocks fit a compute unit."""
    launch = _launch(program)
    (rows, cols), remap = launch.tile_grid, launch.remap
    tiles = launch.matrix_tiles
    blocks = min(launch.blocks, tiles) if program.grid.name == "persistent" else launch.blocks
    concurrent = max(min(product.compute_units * max(resident, 1), blocks, tiles), 1)
    window = max(concurrent // product.xcds, 1)
    dealt = _dealt(launch, blocks, product.xcds)
    indices, plain = [index for index, _ in dealt], compose([])
    order = remap.order(rows, cols, indices)
    reuse = []
    if program.contraction is not None:  # blocks of a row of tiles read the same panel
        reuse.append(_reuse(str(remap), order, dealt, window))
        if str(plain) != str(remap):
            reuse.append(_reuse(str(plain), plain.order(rows, cols, indices), dealt, window))
    drawn = dealt if tiles <= MAX_TILES and min(rows, cols) > 1 else []
    return BlockOrder(
        remap=str(remap),
        grid=program.grid.name,
        rows=rows,
        cols=cols,
        matrices=launch.matrices,
        assumed=any(a.dim.size is None for a in program.parallel),
        blocks=blocks,
        xcds=product.xcds,
        concurrent=concurrent,
        window=window,
        product=product.name,
        sequence=tuple(row * cols + col for row, col in order[: len(drawn)]),
        xcd=tuple(xcd for _, xcd in drawn),
        reuse=tuple(r for r in reuse if r is not None),
    )


def _launch(program: Any) -> Launch[Any]:
    """The launch at the sizes of the spec; of dynamic ones some tiles."""
    tiled = {axis.dim: program.tile(axis) for axis in program.kernel.axes}
    assumed = {d.name: ASSUMED_TILES * tiled.get(d, 1) for d in program.dims if d.size is None}
    if program.contraction is not None:
        batch = {d.name for d in program.dims} - {program.m.name, program.n.name, program.k.name}
        return Launch(program, with_all(program, {n: size for n, size in assumed.items() if n not in batch}))
    return Launch(program, {d.name: d.size for d in program.dims if d.size is not None} | assumed)


def _dealt(launch: Launch[Any], blocks: int, xcds: int) -> list[tuple[int, int]]:
    """(linear index, XCD) of tiles in the order in which they begin, SAMPLED_TILES at most; round robin over XCDs.

    A tile whose K is split counts where its first part runs.
    """
    tiles = launch.matrix_tiles
    if launch.program.grid.name != "stream_k":
        return [(index, index % blocks % xcds) for index in range(min(tiles, SAMPLED_TILES))]
    steps, run = launch.steps, launch.run_length
    some = range(tiles)
    if tiles > SAMPLED_TILES:  # the tiles in which the first blocks begin
        some = range(0, tiles, max(1, -(-run // steps)))[:SAMPLED_TILES]
    begins = sorted((index * steps % run, index) for index in some)
    return [(index, index * steps // run % xcds) for _, index in begins]


def _reuse(name: str, order: Sequence[tuple[int, int]], dealt: list[tuple[int, int]], window: int) -> Reuse | None:
    """Panels of full windows of each XCD's tiles, on average; None where no XCD gets as many. `order` is of `dealt`."""
    on_xcd: dict[int, list[tuple[int, int]]] = {}
    for tile, (_, xcd) in zip(order, dealt, strict=True):
        on_xcd.setdefault(xcd, []).append(tile)
    counts = [
        panels(tiles[start : start + window])
        for tiles in on_xcd.values()
        for start in range(0, len(tiles) - window + 1, window)
    ]
    if not counts:
        return None
    mean = sum(counts) / len(counts)
    return Reuse(name, round(mean, 2), round(2 * window / mean, 2))
