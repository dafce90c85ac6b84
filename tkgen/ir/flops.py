"""The number of operations in the products of equations, at sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product as combinations
from math import prod

from tkgen.ir.equations import Axis, AxisKind, Kernel, Loop, Op, Product, When


def multiplied(kernel: Kernel, extents: Mapping[str, int]) -> int:
    """Floating-point operations of the products of a launch: two for each pair of elements that is multiplied.

    Of a loop that does not walk its whole axis, as with causal attention, those of the tiles that are visited count,
    whole except for what lies after the end. Where nobody knows here how long ragged axes are: 0.
    """
    counts = [_pairs(kernel, extents, op, loop) for op, loop in _products(kernel.body)]
    return 0 if None in counts else sum(2 * count for count in counts if count)


def _products(body: tuple[Op, ...], loop: Loop | None = None) -> Iterator[tuple[Product, Loop | None]]:
    """Each product, and the loop in which it is."""
    for op in body:
        if isinstance(op, Product):
            yield op, loop
        elif isinstance(op, Loop | When):
            yield from _products(op.body, op if isinstance(op, Loop) else loop)


def _pairs(kernel: Kernel, extents: Mapping[str, int], op: Product, loop: Loop | None) -> int | None:
    """Count the pairs of elements that are multiplied, over all blocks and iterations; None where it depends on data.

    The groups of one ragged axis have all of its places together; of two, or of the first places of one for each
    index, nobody knows.
    """
    axes = {a for a in kernel.axes if a.kind is AxisKind.PARALLEL} | {*op.left.axes, *op.right.axes}
    ragged = [a.within for a in axes if a.within is not None]
    if len(ragged) > 1 or any(within.lengths for within in ragged):
        return None
    axes -= {a for a in axes if ragged and a == kernel.groups}
    walked = 1
    if loop is not None:
        shared = {a for a in axes if a.name in {b.axis for b in loop.axis.bounds}}
        walked = _walked(extents, loop.axis, sorted(shared, key=lambda a: a.name))
        axes -= {loop.axis, *shared, *(a for a in axes if a.name == loop.axis.part)}
    return prod(extents[a.dim.name] for a in axes) * walked


def _walked(extents: Mapping[str, int], axis: Axis, bounding: list[Axis]) -> int:
    """Elements of a loop's axis that are visited, with each of those of the axes whose tiles bound it."""
    around = [_tiles(extents, a) for a in bounding]
    return sum(
        len(tile) * prod(map(len, at))
        for at in combinations(*around)
        for tile in _tiles(extents, axis)
        if axis.visits(tile.start, _whole(bounding, at))
    )


def _tiles(extents: Mapping[str, int], axis: Axis) -> list[range]:
    size, tile = extents[axis.dim.name], axis.tile or 1
    return [range(start, min(start + tile, size)) for start in range(0, size, tile)]


def _whole(axes: list[Axis], tiles: tuple[range, ...]) -> dict[str, range]:
    """Tiles as blocks have them: what hangs over the end is part of it."""
    return {a.name: range(t.start, t.start + (a.tile or 1)) for a, t in zip(axes, tiles, strict=True)}
