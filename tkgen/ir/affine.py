"""The positions that an affine index takes: `2 * p + r - 1` is a sum of axes and sizes, each times a number.

An index is evaluated over ranges of the positions along its axes. Elements whose position lies outside of the dimension
are zero, so a range may begin before 0 and end after the dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tkgen.ir.equations import Access, Axis, Index
from tkgen.ir.tensors import Dim

Ends = tuple[int, int]
"""The least and the largest position of a range."""


def ends(index: Index, along: Callable[[Axis], Ends], size: Callable[[Dim], int]) -> Ends:
    """Return the least and the largest position that the index takes.

    `along` gives the ends of the positions along an axis, `size` the size of a dimension.
    """
    low = high = index.at
    for term in index.terms:
        first, last = along(term.of) if isinstance(term.of, Axis) else (size(term.of),) * 2
        low += min(term.factor * first, term.factor * last)
        high += max(term.factor * first, term.factor * last)
    return low, high


def may_leave(index: Index, dim: Dim) -> bool:
    """Return True if the index may be outside of `dim` for elements that exist; also if a size is not known."""
    if index.shifted is not None:
        return True
    sizes = [dim, *(term.of.dim if isinstance(term.of, Axis) else term.of for term in index.terms)]
    if any(each.size is None for each in sizes):
        return True
    low, high = ends(index, lambda axis: (0, (axis.dim.size or 1) - 1), lambda each: each.size or 0)
    return low < 0 or high >= (dim.size or 0)


def whole_ends(index: Index, unknown: int) -> Ends:
    """Return the ends over all positions of its axes, with `unknown` for sizes that only the launch knows."""
    return ends(index, lambda axis: (0, (axis.dim.size or unknown) - 1), lambda dim: dim.size or unknown)


def reached(
    index: Index, dim: Dim, places: Mapping[str, range], extents: Mapping[str, int], groups: Mapping[str, range]
) -> range:
    """The positions of `dim` that an index takes, where `places` has the positions along some axes; at least one.

    A ragged axis is in the group that `groups` has, beyond which its index takes none.
    """

    def along(axis: Axis) -> Ends:
        own = places.get(axis.name, range(extents[axis.dim.name]))
        return own.start, max(own.stop - 1, own.start)

    low, high = ends(index, along, lambda each: extents[each.name])
    whole = range(extents[dim.name]) if index.shifted is None else groups[index.shifted.name]
    first = min(max(low, whole.start), whole.stop - 1)
    return range(first, max(min(high + 1, whole.stop), first + 1))


def first_affine(accesses: Iterable[Access]) -> Access | None:
    """Return the first access that has an affine index."""
    return next((access for access in accesses if any(index.terms for index in access.indices)), None)
