"""The elements of tensors that references of generated checks read: along which axes, and where they lie."""

from __future__ import annotations

from collections.abc import Mapping

from tkgen.ir.equation_text import affine_text
from tkgen.ir.equations import Access, Axis, AxisKind, Digit, Index, Kernel, Term


def is_gathered(access: Access) -> bool:
    """Return True if what is read may lie anywhere: a tensor holds its places, or an index is affine."""
    return any(i.through is not None or i.terms for i in access.indices)


def is_one_place(index: Index) -> bool:
    """Return True if it is the number of the tile that a loop is at: the same for all of the tile."""
    return index.of_tile and index.axis is not None and index.axis.kind is AxisKind.SEQUENTIAL


def directions(access: Access) -> list[Axis]:
    """The axes along which what is read may change, in the order of the tensor's dimensions."""
    found = list[Axis]()
    for index in access.indices:
        if index.through is not None:
            found += [a for a in directions(index.through) if a not in found]
        elif not is_one_place(index):
            found += [a for a in index.axes if a not in found]
    return found


def combined_over(kernel: Kernel) -> frozenset[Axis]:
    """The axes of blocks that may combine values with each other's at one position: those that no index alone has.

    A ragged axis is one of these if the index of its groups is.
    """
    stores = [s for s in kernel.stores if s.combines]
    if not stores:
        return frozenset()
    alone = [{i.axis for i in s.target.indices if i.through is None and not i.terms} for s in stores]
    blocks = [a for a in kernel.axes if a.kind is AxisKind.PARALLEL]
    found = {a for a in blocks if not all(a in own for own in alone)}
    names = {a.name for a in found}
    return frozenset(found | {a for a in blocks if a.tile and a.within and a.within.of in names})


def element(access: Access, at: Mapping[str, str]) -> str:
    """The number of the element of a row-major tensor that an access picks at a place."""
    text = ""
    for dim, index in zip(access.tensor.dims, access.indices, strict=True):
        place = place_text(index, at)
        text = (
            f"size_t({place})"
            if not text
            else f"{text if '+' not in text else f'({text})'} * extent_{dim.name} + {place}"
        )
    return text


def place_text(index: Index, at: Mapping[str, str]) -> str:
    """The position that an index takes, where `at` has the variable of each axis."""
    if index.through is not None:
        return f"tensor_{index.through.tensor.name}.host[{element(index.through, at)}]"
    if index.terms:
        return f"({affine_text([(_term_text(term, at), term.factor) for term in index.terms], index.at)})"
    if index.axis is None:
        return str(index.at)
    divided = f" {'%' if index.remainder else '/'} {index.divisor}" if index.divisor != 1 else ""
    return at[index.axis.name] + divided


def digit_text(digit: Digit, place: str, divide: str) -> str:
    """The position along a part of a flattened axis at a place of that; `divide` divides integers."""
    over = f" {divide} {digit.divisor}" if digit.divisor != 1 else ""
    return f"({place}{over}{f' % {digit.size}' if digit.turns else ''})"


def _term_text(term: Term, at: Mapping[str, str]) -> str:
    """The position along the axis of a term, or the size that it is."""
    if isinstance(term.of, Digit):
        return digit_text(term.of, at[term.of.axis.name], "/")
    return at[term.of.name] if isinstance(term.of, Axis) else f"extent_{term.of.name}"
