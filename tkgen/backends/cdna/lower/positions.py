"""The C++ of a computed position in a tensor: where an element of a product is stored, and when it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tkgen.ir.affine import may_leave
from tkgen.ir.equation_text import affine_text
from tkgen.ir.equations import Access, Axis, Index
from tkgen.ir.tensors import Dim

LOCALS = ("row", "col")  # the coordinates of an element, and its numbers among those of a lane
OWN = ("r", "c")


class TileNames(Protocol):
    """The C++ that a kernel has for the axes of its output tiles: rows (0) and columns (1)."""

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Rows and columns of the output."""

    def place(self, number: int) -> str:
        """The position of an element along one of them, in the tensor."""

    def counted(self, number: int) -> str:
        """The same, counted in the group of a ragged axis."""

    def first_of(self, axis: Axis) -> str:
        """The first position of a group along a ragged axis."""

    def length_of(self, axis: Axis) -> str:
        """The number of positions that a group has along a ragged axis."""

    def index(self, axis: Axis) -> str:
        """The index of a block along an axis of the batch."""

    def extent_of(self, dim: Dim) -> str:
        """The size of a dimension."""

    def held(self, access: Access, own: str) -> str:
        """A position that a tensor holds: of one of a lane's rows or columns, if `own` is its number."""


@dataclass(frozen=True)
class Position:
    """The position in one dimension: its C++, the conditions on which it exists, and the locals that both name."""

    text: str
    conditions: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StorePositions:
    """The positions of a store: in each dimension, and all conditions on them; `named` are the locals in these."""

    texts: tuple[str, ...]
    conditions: tuple[str, ...]
    named: frozenset[str]

    def offset(self, extents: list[str]) -> str:
        """The number of the element in a row-major tensor of these extents."""
        terms = []
        for n, text in enumerate(self.texts):
            strides = extents[n + 1 :]
            if text != "0":
                terms.append(" * ".join([f"size_t({text})" if n == 0 or strides else text, *strides]))
        return " + ".join(terms) or "0"


def positions(target: Access, names: TileNames, end: Callable[[Axis], str]) -> StorePositions:
    """The positions of a store; `end` is the number of rows or columns where tiles may reach past it, else empty."""
    found = [_position(i, dim, names) for i, dim in zip(target.indices, target.tensor.dims, strict=True)]
    conditions = dict.fromkeys(c for each in found for c in each.conditions)
    checked = {i.axis for i in target.indices if i.through is not None}  # their positions exist for rows that do
    ends = dict[str, str]()
    for number, axis in enumerate(names.axes):
        if axis in target.axes and axis not in checked and (last := end(axis)):
            ends[f"{LOCALS[number]} < {last}"] = LOCALS[number]
    named = frozenset(name for each in found for name in each.named) | frozenset(ends.values())
    return StorePositions(tuple(each.text for each in found), (*ends, *conditions), named)


def held_by(target: Access) -> dict[Access, None]:
    """The tensors of i32 that hold positions of a store."""
    return dict.fromkeys(i.through for i in target.indices if i.through is not None)


def _position(index: Index, dim: Dim, names: TileNames) -> Position:
    if index.through is not None:
        return _listed(index, index.through, dim, names)
    if index.terms:
        return _affine(index, dim, names)
    axis = index.axis
    if axis is None:
        return Position(str(index.at))
    if axis not in names.axes:
        return Position(names.index(axis) + (f" / {index.divisor}" if index.divisor != 1 else ""))
    number = names.axes.index(axis)
    if not index.extends:  # the number of the block's tile
        return Position(("tile_row", "tile_col")[number])
    return Position(names.place(number), (), frozenset({LOCALS[number]}))


def _listed(index: Index, through: Access, dim: Dim, names: TileNames) -> Position:
    """A position that a tensor of i32 holds."""
    size = names.extent_of(dim)
    own = OWN[names.axes.index(index.axis)] if index.axis in names.axes and through.axes else ""
    held = names.held(through, own)
    return Position(held, (f"{held} < uint32_t({size})",), frozenset({own} if own else ()))


def _affine(index: Index, dim: Dim, names: TileNames) -> Position:
    """A sum of axes, counted in the group that a ragged axis is in."""
    terms, named = list[tuple[str, int]](), set[str]()
    for term in index.terms:
        if isinstance(term.of, Dim):
            terms.append((f"int({names.extent_of(term.of)})", term.factor))
        elif term.of in names.axes:
            number = names.axes.index(term.of)
            named.add(LOCALS[number])
            terms.append((names.counted(number), term.factor))
        else:
            terms.append((names.index(term.of), term.factor))  # type: ignore[arg-type]
    text = affine_text(terms, index.at)
    shifted = index.shifted
    size = names.extent_of(dim) if shifted is None else names.length_of(shifted)
    conditions = (f"uint32_t({text}) < uint32_t({size})",) if may_leave(index, dim) else ()
    place = f"({text})" if shifted is None else f"({names.first_of(shifted)} + {text})"
    return Position(place, conditions, frozenset(named))
