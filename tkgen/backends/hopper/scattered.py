"""Results of products that are stored to computed positions, `Y[ROW[m], n] += c`, by the lanes that have them.

A lane has elements of two rows. The positions that a tensor of i32 holds for these are read once for a tile. Two
neighbours of a row are stored at once where the tensor has them side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.positions import StorePositions, held_by, positions
from tkgen.backends.hopper.epilogue import place_of
from tkgen.backends.hopper.file import name
from tkgen.backends.hopper.layout import Layout
from tkgen.ir.equations import Access, Axis, Store, Update
from tkgen.ir.tensors import Dim

COMBINE = {Update.ADD: "tk::add_to", Update.MAX: "tk::max_to", Update.MIN: "tk::min_to", Update.SET: "tk::set_to"}


def output_names(layout: Layout) -> dict[str, Store]:
    """The outputs that have a tile of each block, by their names in C++: of one tensor numbered from the second on."""
    found = dict[str, Store]()
    for store in layout.tiles_stored:
        plain = name(store.target.tensor.name)
        count = sum(each.target.tensor == store.target.tensor for each in found.values())
        found[f"{plain}_{count + 1}" if count else plain] = store
    return found


@dataclass(frozen=True)
class Scattered:
    """The C++ of a store to computed positions.

    `first_row` is the first of the 64 rows at hand, `limit` gives sizes. A `single` one is for one row or one column:
    positions that a tensor holds are locals, not arrays.
    """

    layout: Layout
    store: Store
    first_row: str
    limit: Callable[[Dim], str]
    single: bool = False

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Rows and columns of the output."""
        return self.layout.equations.rows, self.layout.equations.cols

    # ------------------------------------------------------------ the names of positions

    def place(self, number: int) -> str:
        """The position of an element along the rows (0) or columns (1)."""
        return ("row", "col")[number]

    def counted(self, number: int) -> str:
        """The same, counted in the group of a ragged axis."""
        return "(row - walk.first)" if self.axes[number].within else self.place(number)

    def first_of(self, axis: Axis) -> str:
        """The first position of a group along a ragged axis."""
        return "walk.first"

    def length_of(self, axis: Axis) -> str:
        """The number of positions that a group has along a ragged axis."""
        return "(walk.end - walk.first)"

    def index(self, axis: Axis) -> str:
        """The index of a block along an axis of the batch."""
        return f"{cpp_name(axis.name)}_i"

    def extent_of(self, dim: Dim) -> str:
        """The size of a dimension."""
        return self.limit(dim)

    def held(self, access: Access, own: str) -> str:
        """A position that a tensor holds: of one of a lane's rows or columns, if `own` is its number."""
        return f"{self._local(access)}[{own}]" if own and not self.single else self._local(access)

    def _local(self, access: Access) -> str:
        """The local with the positions that a tensor holds."""
        every = [a for store in self.layout.equations.stores for a in held_by(store.target)]
        alike = [a for a in dict.fromkeys(every) if a.tensor == access.tensor]
        number = alike.index(access)
        return f"{name(access.tensor.name)}_at{f'_{number + 1}' if number else ''}"

    def end(self, axis: Axis) -> str:
        """The number of rows or columns, where a block's tile may reach past it; else empty."""
        program, size = self.layout.program, axis.dim.size
        if axis.within is not None:
            return "walk.end"
        if self.layout.clusters == 1 and size is not None and size % program.block[self.axes.index(axis)] == 0:
            return ""
        return self.limit(axis.dim) if program.tail is not None or self.layout.clusters > 1 else ""

    # ------------------------------------------------------------ statements

    @property
    def positions(self) -> StorePositions:
        """The position in each dimension, and the conditions on which an element is stored."""
        return positions(self.store.target, self, self.end)

    def declared(self, number: int, first: str = "", cols: str = "") -> dict[Access, str]:
        """Declarations of what tensors hold for a lane's rows (0), or of `cols` columns from `first` on (1).

        Those of the block are declared with the rows.
        """
        found = dict[Access, str]()
        for access in held_by(self.store.target):
            local = self._local(access)
            if not access.axes and number == 0:
                found[access] = f"const uint32_t {local} = tk::number_at({self._element(access)});"
            elif access.axes and access.axes[0] == self.axes[number]:
                where = ("row", "col")[number]
                there = self.end(access.axes[0])
                number_of = f"tk::number_at({self._element(access)})"
                number_of = f"{where} < {there} ? uint32_t({number_of}) : tk::NOWHERE" if there else number_of
                function = f"[&](int {where}) -> uint32_t {{ return {number_of}; }}"
                call = f"tk::own_rows({self.first_row}, {function})"
                call = f"tk::own_columns<{cols}>({first}, {function})" if number else call
                found[access] = f"const auto {local} = {call};"
        return found

    def listed(self) -> list[str]:
        """The same of the one row or column, if any, that a number is stored for."""
        return [f"const uint32_t {self._local(access)} = tk::number_at({self._element(access)});"
                for access in held_by(self.store.target)]  # fmt: skip

    def _element(self, access: Access) -> str:
        """The arguments of an element of a tensor of positions."""
        places: dict[Axis | None, str] = dict(zip(self.axes, ("row", "col"), strict=True))
        tiled = [places.get(i.axis, "") if i.axis in access.axes else "" for i in access.indices]
        return f"g.{name(access.tensor.name)}, {place_of(access, tiled)}"

    @property
    def pairs(self) -> bool:
        """True if two neighbouring columns are neighbours in memory, the first of which has an even position."""
        index, dim = self.store.target.indices[-1], self.store.target.tensor.dims[-1]
        plain = index.axis == self.axes[1] and index.through is None and not index.terms and index.divisor == 1
        return plain and dim.size is not None and dim.size % 2 == 0

    def statement(self, value: str) -> str:
        """The statement that stores an element, or combines it with what is there, if its position exists."""
        target, found = self.store.target, self.positions
        offset = found.offset([self.limit(dim) for dim in target.tensor.dims])
        put = f"{COMBINE[self.store.update]}(g.{name(target.tensor.name)}.raw_ptr + {_factor(offset)}, {value});"
        return f"if ({' && '.join(found.conditions)}) {put}" if found.conditions else put

    def lines(self, first_col: str, cols: str) -> list[str]:
        """The statements that store the `values` of a panel, whose columns begin at `first_col`."""
        function = "[&](int row, int col, int r, int c, auto value)"
        pairs = "_pairs" if self.pairs else ""
        return [
            *self.declared(1, first_col, cols).values(),
            f"tk::scatter{pairs}<{cols}>(values, {self.first_row}, {first_col}, {function} {{",
            f"    {self.statement('value')}",
            "});",
        ]


def _factor(offset: str) -> str:
    return f"({offset})" if " " in offset else offset
