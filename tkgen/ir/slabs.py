"""The tiles of a kernel in slabs, which `tkgen.ir.meaning` evaluates one after another.

The values of all tiles at once would take many times the memory of the outputs, and each operation would read them from
there again. A slab is some tiles along parallel axes: no tile sees another, so the results are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

from tkgen.ir.equations import Axis, AxisKind, Kernel, Scan, Store, walk, writes

ELEMENTS = 1 << 18  # of the largest value of a slab: 2 MiB, which a cache holds


def slabs(kernel: Kernel, lengths: Mapping[str, int]) -> Iterator[dict[str, range]]:
    """Positions along parallel axes, by names, that together are all tiles; no axis where all tiles are one slab.

    `lengths` are those of all axes. A slab is as small as `ELEMENTS`, or one tile along each axis that can be divided.
    """
    sizes = {axis: lengths[axis.name] for axis in _divisible(kernel)}
    while largest(kernel, lengths, sizes) > ELEMENTS:
        axis = max(sizes, key=lambda a: _tiles(a, sizes[a]), default=None)
        if axis is None or _tiles(axis, sizes[axis]) == 1:
            break
        sizes[axis] = -(-_tiles(axis, sizes[axis]) // 2) * (axis.tile or 1)
    cut = {a: size for a, size in sizes.items() if size < lengths[a.name]}
    ranges = [
        [range(n, min(n + size, lengths[a.name])) for n in range(0, lengths[a.name], size)] for a, size in cut.items()
    ]
    for places in product(*ranges):
        yield dict(zip((a.name for a in cut), places, strict=True))


def largest(kernel: Kernel, lengths: Mapping[str, int], sizes: Mapping[Axis, int]) -> int:
    """Elements of the largest value, of tiles of loops; `sizes` are those of axes of which not all is at hand."""

    def size(axis: Axis) -> int:
        whole = min(axis.tile or 1, lengths[axis.name]) if axis.kind is AxisKind.SEQUENTIAL else lengths[axis.name]
        return sizes.get(axis, whole)

    indices = prod(size(a) for a in kernel.axes if a.kind is AxisKind.PARALLEL and a.is_index)
    values = (v for op in walk(kernel.body) for v in writes(op))
    return indices * max((prod(map(size, v.axes)) for v in values), default=0)


def _tiles(axis: Axis, size: int) -> int:
    return -(-size // (axis.tile or 1))


def _divisible(kernel: Kernel) -> list[Axis]:
    """The parallel axes whose tiles store to separate elements, and that say nothing of another axis."""
    bounds = {bound.axis for axis in kernel.axes for bound in axis.bounds} | {axis.part for axis in kernel.axes}
    bounds |= {name for axis in kernel.ragged if axis.within for name in (axis.name, axis.within.of)}
    scanned = {op.axis for op in walk(kernel.body) if isinstance(op, Scan)}
    return [
        axis for axis in kernel.axes
        if axis.kind is AxisKind.PARALLEL and axis.name not in bounds and axis not in scanned
        and all(_separate(store, axis) for store in kernel.stores)
    ]  # fmt: skip


def _separate(store: Store, axis: Axis) -> bool:
    """Return True if the tiles along an axis store to elements of their own."""
    return any(
        i.axis == axis and i.through is None and not i.remainder and i.divisor in (1, axis.tile)
        for i in store.target.indices
    )
