"""Results of products that are stored to computed positions, `Y[ROW[m], n] += c`: one element at a time.

The positions that a tensor of i32 holds are the same for all columns: a lane reads those of its own rows once for each
fragment row. An element is stored if its row and column exist, and if each computed position lies in its dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.backends.cdna.lower.context import Context
from tkgen.backends.cdna.lower.elements import nest, parameters
from tkgen.backends.cdna.lower.epilogue import Epilogue
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.positions import LOCALS, OWN, StorePositions, held_by, positions
from tkgen.backends.cdna.lower.statements import indented, lambda_call, scoped
from tkgen.ir.equations import Access, Axis, Store, Update
from tkgen.ir.reductions import owned
from tkgen.ir.tensors import Dim

COMBINE = {Update.ADD: "add_to", Update.MAX: "max_to", Update.MIN: "min_to"}


@dataclass(frozen=True)
class ScatteredStore:
    """One store of an epilogue to computed positions."""

    c: Context
    store: Store

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Rows and columns of the output tile."""
        return self.c.equations.rows, self.c.equations.cols

    def lines(self, epilogue: Epilogue, cols: tuple[str, ...], whole: str) -> list[str]:
        """The statements for one fragment row; `cols` is the head of a loop over its fragments, where it has several.

        `whole` is the tile of a sum of integers that is stored as it is, else empty.
        """
        element = epilogue.element(self.store.value)
        along = [axis in self.store.target.axes for axis in self.axes]
        found = positions(self.store.target, self, self.end)
        value = element.value if whole else f"tk::narrow<{self._type}>({element.value})"
        named = found.named | element.named
        body = [*element.lines, *self._put(found, value)]
        if all(along):
            taken = element.parameters if not whole else [p.replace("float ", "int ") for p in element.parameters]
            call = f"tk::visit({next(iter(epilogue.held.values()))}, {epilogue.place.row}, {epilogue.place.col}, "
            sums = element.sums if not whole else (whole,)
            visited = lambda_call(call, (*parameters(named, *LOCALS, *OWN), *taken), body, sums)
        else:
            visited = self._few(along, named, body, epilogue)
        inner = [*self._defined(1, epilogue), *element.buffers, *visited]
        outer = self._defined(0, epilogue)
        if cols and along[1]:
            return scoped(outer, nest(cols, inner))
        return scoped([*outer, *inner[: len(inner) - len(visited)]], visited)

    def _few(self, along: list[bool], named: frozenset[str], body: list[str], epilogue: Epilogue) -> list[str]:
        """A value for each row or column, or one: by the first of the lanes and waves that have it."""
        shape = self.c.program.compute.shape
        assert shape is not None
        waves = [f"{('wave_row', 'wave_col')[n]} == 0" for n in (0, 1) if not along[n] and shape[n] > 1]
        if any(along):
            n = along.index(True)
            tile = (epilogue.place.row, epilogue.place.col)[n]
            call = f"tk::each_owned<{self._owned(n)}>({tile}, "
            visited = lambda_call(call, parameters(named, LOCALS[n], OWN[n]), body)
        else:
            visited = ["if (laneid() == 0) {", *indented(body), "}"]
        return [f"if ({' && '.join(waves)}) {{", *indented(visited), "}"] if waves else visited

    # ------------------------------------------------------------ the names of positions

    def place(self, number: int) -> str:
        """The position of an element along the rows (0) or columns (1)."""
        axis, name = self.axes[number], LOCALS[number]
        return f"({self.c.first_of(axis)} + {name})" if axis.within else name

    def counted(self, number: int) -> str:
        """The same, counted in the group of a ragged axis."""
        return LOCALS[number]

    def first_of(self, axis: Axis) -> str:
        """The first position of a group along a ragged axis."""
        return self.c.first_of(axis)

    def length_of(self, axis: Axis) -> str:
        """The number of positions that a group has along a ragged axis."""
        return self.c.length_of(axis)

    def index(self, axis: Axis) -> str:
        """The index of a block along an axis of the batch."""
        return self.c.index(axis)

    def extent_of(self, dim: Dim) -> str:
        """The size of a dimension."""
        return self.c.extent_of(dim)

    def held(self, access: Access, own: str) -> str:
        """A position that a tensor holds: of one of a lane's rows or columns, if `own` is its number."""
        return f"{self._local(access)}[{own}]" if own else self._local(access)

    def _local(self, access: Access) -> str:
        """The local with the positions that a tensor holds."""
        return f"{self.c.matrix(access).removeprefix('g.').removesuffix('_m')}_at"

    def end(self, axis: Axis) -> str:
        """The number of rows or columns, where a block's tile may reach past it; else empty."""
        p = self.c.program
        if axis.within is not None:
            return self.c.length_of(axis)
        tile = p.block[self.axes.index(axis)]
        if p.tail is None or (axis.dim.size is not None and axis.dim.size % tile == 0):
            return ""
        return self.c.extent_of(axis.dim)

    def _defined(self, number: int, epilogue: Epilogue) -> list[str]:
        """Definitions of the positions that tensors of i32 hold for the rows (0) or columns (1) of a fragment.

        Those of the block alone are defined with the rows.
        """
        lines = list[str]()
        for access in held_by(self.store.target):
            name, held = self._local(access), self.c.matrix(access)
            if not access.axes and number == 0:
                lines.append(f"const uint32_t {name} = {held}.raw_ptr[0];")
            elif access.axes and access.axes[0] == self.axes[number]:
                tile = (epilogue.place.row, epilogue.place.col)[number]
                lines.append(f"uint32_t {name}[{owned(self.c.program, number)}];")
                lines.append(f"tk::positions_of<{self._owned(number)}>({name}, {held}, {tile});")
        return lines

    # ------------------------------------------------------------ parts

    def _put(self, found: StorePositions, value: str) -> list[str]:
        """The statement that stores or combines an element, where it exists."""
        tensor = self.store.target.tensor
        offset = found.offset([self.c.extent_of(d) for d in tensor.dims])
        policy = "cache::stream" if tensor.name in self.c.program.streamed else "0"
        combine = COMBINE.get(self.store.update, f"set_to<{policy}>")
        put = f"tk::{combine}(tk::element_at(g.{cpp_name(tensor.name)}, {offset}), {value});"
        return [f"if ({' && '.join(found.conditions)}) {put}" if found.conditions else put]

    @property
    def _type(self) -> str:
        return self.store.target.tensor.dtype.cpp

    def _owned(self, number: int) -> str:
        return f"tk::{('rows', 'cols')[number]}_of<{self.c.accumulator_type}>"
