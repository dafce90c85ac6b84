"""How much the products of a launch of equations multiply."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as combinations
from math import prod
from typing import TYPE_CHECKING

from tkgen.ir.equations import Axis, Loop, Op, Product, When

if TYPE_CHECKING:
    from tkgen.rows.launch import RowLaunch


def multiplied(launch: RowLaunch) -> int:
    """Floating-point operations of the products of a launch: two for each pair of elements that is multiplied.

    Of a loop that does not walk its whole axis, as with causal attention, those of the tiles that are visited count,
    whole but for what lies behind the end. Of ragged axes nobody knows here how long they are: 0.
    """
    if launch.program.kernel.ragged:
        return 0
    return sum(2 * _pairs(launch, op, loop) for op, loop in _products(launch.program.kernel.body))


def _products(body: tuple[Op, ...], loop: Loop | None = None) -> Iterator[tuple[Product, Loop | None]]:
    """Each product, and the loop in which it is."""
    for op in body:
        if isinstance(op, Product):
            yield op, loop
        elif isinstance(op, Loop | When):
            yield from _products(op.body, op if isinstance(op, Loop) else loop)


def _pairs(launch: RowLaunch, op: Product, loop: Loop | None) -> int:
    """How many pairs of elements are multiplied, over all blocks and passes."""
    axes = {*launch.program.parallel, *op.left.axes, *op.right.axes}
    walked = 1
    if loop is not None:
        shared = {a for a in axes if a.name in {b.axis for b in loop.axis.bounds}}
        walked = _walked(launch, loop.axis, sorted(shared, key=lambda a: a.name))
        axes -= {loop.axis, *shared, *(a for a in axes if a.name == loop.axis.part)}
    return prod(launch.extents[a.dim.name] for a in axes) * walked


def _walked(launch: RowLaunch, axis: Axis, bounding: list[Axis]) -> int:
    """Elements of a loop's axis that are visited, with each of those of the axes whose tiles bound it."""
    around = [_tiles(launch, a) for a in bounding]
    return sum(
        len(tile) * prod(map(len, at))
        for at in combinations(*around)
        for tile in _tiles(launch, axis)
        if axis.visits(tile.start, _whole(bounding, at))
    )


def _tiles(launch: RowLaunch, axis: Axis) -> list[range]:
    size, tile = launch.extents[axis.dim.name], axis.tile or 1
    return [range(start, min(start + tile, size)) for start in range(0, size, tile)]


def _whole(axes: list[Axis], tiles: tuple[range, ...]) -> dict[str, range]:
    """Tiles as blocks have them: what hangs over the end is part of it."""
    return {a.name: range(t.start, t.start + (a.tile or 1)) for a, t in zip(axes, tiles, strict=True)}
