"""The positions that an affine index takes: `2 * p + r - 1` is a sum of axes and sizes, each times a number.

An index is evaluated over ranges of the positions along its axes. Elements whose position lies outside of the dimension
are zero, so a range may begin before 0 and end after the dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd, prod

from tkgen.ir.equations import Access, Axis, Digit, Index, Kernel
from tkgen.ir.tensors import Dim, Tensor

Ends = tuple[int, int]
"""The least and the largest position of a range."""


def ends(index: Index, along: Callable[[Axis], Ends], size: Callable[[Dim], int]) -> Ends:
    """Return the least and the largest position that the index takes.

    `along` gives the ends of the positions along an axis, `size` the size of a dimension.
    """
    low = high = index.at
    for term in index.terms:
        if isinstance(term.of, Digit):
            first, last = digits(term.of, along(term.of.axis))
        else:
            first, last = along(term.of) if isinstance(term.of, Axis) else (size(term.of),) * 2
        low += min(term.factor * first, term.factor * last)
        high += max(term.factor * first, term.factor * last)
    return low, high


def digits(digit: Digit, along: Ends) -> Ends:
    """Return the least and the largest position of a part of a flattened axis between two places of that."""
    first, last = ((digit.first + place) // digit.divisor for place in along)
    low, high = first % digit.size, last % digit.size
    return (low, high) if last - first < digit.size and low <= high else (0, digit.size - 1)


def may_leave(index: Index, dim: Dim) -> bool:
    """Return True if the index may be outside of `dim` for elements that exist; also if a size is not known."""
    if index.shifted is not None:
        return True
    sizes = [dim.size, *(term.size for term in index.terms)]
    if None in sizes:
        return True
    low, high = ends(index, lambda axis: (0, (axis.dim.size or 1) - 1), lambda each: each.size or 0)
    return low < 0 or high >= (dim.size or 0)


def apart(one: Access, other: Access) -> bool:
    """Return True if two parts of a tensor have no element in common, by positions along one of its dimensions."""
    return any(_differ(a, b) for a, b in zip(one.indices, other.indices, strict=True))


def _differ(one: Index, other: Index) -> bool:
    """Return True if two indices are never the same position: `2 * p` and `2 * q + 1`."""
    if not all(index.is_constant or index.terms for index in (one, other)):
        return False
    sizes = [{(t.of, t.factor) for t in index.terms if isinstance(t.of, Dim)} for index in (one, other)]
    unit = gcd(*(t.factor for index in (one, other) for t in index.terms if t.axis is not None))
    difference = one.at - other.at
    return sizes[0] == sizes[1] and (difference % unit != 0 if unit else difference != 0)


def distinct_positions(kernel: Kernel) -> frozenset[Tensor]:
    """Return the tensors of i32 whose positions are promised to be distinct, as far as they are positions."""
    stores = (store for store in kernel.stores if store.distinct)
    return frozenset(i.through.tensor for s in stores for i in s.target.indices if i.through is not None)


def overlaps(index: Index) -> bool:
    """Return True if an affine index is one number for several positions along its axes, whatever their order."""
    axes = [term.of for term in index.terms if isinstance(term.of, Axis)]
    if any(axis.dim.size is None for axis in axes):
        return False
    low, high = ends(index, lambda axis: (0, (axis.dim.size or 1) - 1), lambda _: 0)
    return prod(axis.dim.size or 1 for axis in axes) > high - low + 1


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
