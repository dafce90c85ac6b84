"""The positions that stores reach: whether they are distinct, and all that a tensor has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tkgen.ir.axes import Axis
from tkgen.ir.tensors import Dim, Tensor

if TYPE_CHECKING:
    from tkgen.ir.equations import Access, Index


def cover_all(tensor: Tensor, targets: Sequence[Access]) -> bool:
    """Return True if stores to `targets`, which share no element, reach each position of every dimension."""
    each = [(dim, [t.indices[n] for t in targets]) for n, dim in enumerate(tensor.dims)]
    computed = [(dim, indices) for dim, indices in each if any(i.through is not None or i.terms for i in indices)]
    if len(targets) > 1 and len(computed) > 1:
        return False
    return all(
        (len(indices) == 1 and _reverses(indices[0], dim)) or sum(_count(i, dim) for i in indices) == dim.size
        for dim, indices in computed
    )


def _reverses(index: Index, dim: Dim) -> bool:
    """Return True for `N - 1 - n`, of all positions of a dimension of any size."""
    return index.at == -1 and {(t.of if isinstance(t.of, Dim) else t.of.dim, t.factor) for t in index.terms} == {
        (dim, 1), (dim, -1)
    }  # fmt: skip


def _count(index: Index, dim: Dim) -> int:
    """The positions that an index takes, each once and all in the dimension; 0 where it is not so."""
    ends, count = [index.at, index.at], 1
    for term in index.terms:
        if not isinstance(term.of, Axis) or term.of.dim.size is None or term.of.within is not None:
            return 0
        reach = term.factor * (term.of.dim.size - 1)
        ends[reach > 0] += reach
        count *= term.of.dim.size
    inside = index.terms and ends[0] >= 0 and dim.size is not None and ends[1] < dim.size
    return count if inside and tells_apart(index) else 0


def tells_apart(index: Index) -> bool:
    """Return True if an affine index is another number for any other positions along its axes.

    It is so if each factor, from the least, is more than all smaller terms together can make up.
    """
    reach: int | None = 0
    for term in sorted((t for t in index.terms if not isinstance(t.of, Dim)), key=lambda t: abs(t.factor)):
        assert not isinstance(term.of, Dim)
        if reach is None or abs(term.factor) <= reach:
            return False
        size = term.of.dim.size
        reach = None if size is None else reach + abs(term.factor) * (size - 1)
    return bool(index.terms)
