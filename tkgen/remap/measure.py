"""Pictures and reuse figures of block orders, from the Python model."""

from __future__ import annotations

from collections.abc import Sequence

from tkgen.remap.composition import Remap


def picture(remap: Remap, rows: int, cols: int) -> str:
    """The grid with each tile's linear index, one line per row of tiles."""
    order = remap.order(rows, cols)
    index = {tile: i for i, tile in enumerate(order)}
    width = len(str(len(order) - 1))
    return "\n".join(" ".join(f"{index[r, c]:{width}}" for c in range(cols)) for r in range(rows))


def panels(tiles: Sequence[tuple[int, int]]) -> int:
    """Distinct rows plus distinct columns: the panels of A and of B that these tiles read between them."""
    return len({row for row, _ in tiles}) + len({col for _, col in tiles})


def panels_per_window(remap: Remap, rows: int, cols: int, window: int, xcds: int = 1) -> float:
    """Count the panels that `window` concurrent blocks read, on average over the launch; fewer is more reuse.

    Blocks are dealt round robin over `xcds` dies and a window is `window` consecutive ones of the same die, for these
    share an L2. Windows are full and follow one another.
    """
    order = remap.order(rows, cols)
    counts = [
        panels(die[start : start + window])
        for die in (order[x::xcds] for x in range(xcds))
        for start in range(0, len(die) - window + 1, window)
    ]
    if not counts:
        raise ValueError(f"no window of {window} blocks fits a grid of {rows} x {cols} on {xcds} dies")
    return sum(counts) / len(counts)
