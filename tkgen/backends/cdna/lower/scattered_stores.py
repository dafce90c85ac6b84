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
from tkgen.backends.cdna.lower.statements import indented, lambda_call, scoped
from tkgen.ir.affine import may_leave
from tkgen.ir.equation_text import affine_text
from tkgen.ir.equations import Access, Axis, Index, Store, Update
from tkgen.ir.reductions import owned
from tkgen.ir.tensors import Dim

LOCALS = ("row", "col")  # the coordinates of an element, and its numbers among those of a lane
OWN = ("r", "c")
COMBINE = {Update.ADD: "add_to", Update.MAX: "max_to", Update.MIN: "min_to"}


@dataclass(frozen=True)
class Position:
    """The position in one dimension: its C++, the conditions on which it exists, and the locals that both name."""

    text: str
    conditions: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()


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
        positions, conditions, named = self._positions()
        value = element.value if whole else f"tk::narrow<{self._type}>({element.value})"
        named |= element.named
        body = [*element.lines, *self._put(positions, conditions, value)]
        if all(along):
            taken = element.parameters if not whole else [p.replace("float ", "int ") for p in element.parameters]
            call = f"tk::visit({next(iter(epilogue.held.values()))}, {epilogue.place.row}, {epilogue.place.col}, "
            sums = element.sums if not whole else (whole,)
            visited = lambda_call(call, (*parameters(named, *LOCALS, *OWN), *taken), body, sums)
        else:
            visited = self._few(along, named, body, epilogue)
        inner = [*self._held(1, epilogue), *element.buffers, *visited]
        outer = self._held(0, epilogue)
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

    # ------------------------------------------------------------ positions

    def _positions(self) -> tuple[list[str], list[str], frozenset[str]]:
        """The position in each dimension, the conditions on all of them, and the locals that these name."""
        target = self.store.target
        found = [self._position(i, dim) for i, dim in zip(target.indices, target.tensor.dims, strict=True)]
        conditions = dict.fromkeys(c for each in found for c in each.conditions)
        checked = {i.axis for i in target.indices if i.through is not None}  # their positions exist for rows that do
        ends = dict[str, str]()
        for number, axis in enumerate(self.axes):
            if axis in target.axes and axis not in checked and (end := self.end(axis)):
                ends[f"{LOCALS[number]} < {end}"] = LOCALS[number]
        named = frozenset(name for each in found for name in each.named) | frozenset(ends.values())
        return [each.text for each in found], [*ends, *conditions], named

    def end(self, axis: Axis) -> str:
        """The number of rows or columns, where a block's tile may reach past it; else empty."""
        p = self.c.program
        if axis.within is not None:
            return self.c.length_of(axis)
        tile = p.block[self.axes.index(axis)]
        if p.tail is None or (axis.dim.size is not None and axis.dim.size % tile == 0):
            return ""
        return self.c.extent_of(axis.dim)

    def _position(self, index: Index, dim: Dim) -> Position:
        if index.through is not None:
            return self._listed(index, index.through, dim)
        if index.terms:
            return self._affine(index, dim)
        axis = index.axis
        if axis is None:
            return Position(str(index.at))
        if axis not in self.axes:
            return Position(self.c.index(axis) + (f" / {index.divisor}" if index.divisor != 1 else ""))
        number = self.axes.index(axis)
        if not index.extends:  # the number of the block's tile
            return Position(("tile_row", "tile_col")[number])
        name = LOCALS[number]
        return Position(f"({self.c.first_of(axis)} + {name})" if axis.within else name, (), frozenset({name}))

    def _listed(self, index: Index, through: Access, dim: Dim) -> Position:
        """A position that a tensor of i32 holds."""
        size, name = self.c.extent_of(dim), self._local(through)
        if index.axis not in self.axes or not through.axes:
            return Position(name, (f"{name} < uint32_t({size})",))
        own = OWN[self.axes.index(index.axis)]
        return Position(f"{name}[{own}]", (f"{name}[{own}] < uint32_t({size})",), frozenset({own}))

    def _affine(self, index: Index, dim: Dim) -> Position:
        """A sum of axes, counted in the group that a ragged axis is in."""
        terms, named = list[tuple[str, int]](), set[str]()
        for term in index.terms:
            if isinstance(term.of, Dim):
                terms.append((f"int({self.c.extent_of(term.of)})", term.factor))
            elif term.of in self.axes:
                named.add(LOCALS[self.axes.index(term.of)])
                terms.append((LOCALS[self.axes.index(term.of)], term.factor))
            else:
                terms.append((self.c.index(term.of), term.factor))  # type: ignore[arg-type]
        text = affine_text(terms, index.at)
        shifted = index.shifted
        size = self.c.extent_of(dim) if shifted is None else self.c.length_of(shifted)
        conditions = (f"uint32_t({text}) < uint32_t({size})",) if may_leave(index, dim) else ()
        place = f"({text})" if shifted is None else f"({self.c.first_of(shifted)} + {text})"
        return Position(place, conditions, frozenset(named))

    def _held(self, number: int, epilogue: Epilogue) -> list[str]:
        """Definitions of the positions that tensors of i32 hold for the rows (0) or columns (1) of a fragment.

        Those of the block alone are defined with the rows.
        """
        lines = list[str]()
        through = dict.fromkeys(i.through for i in self.store.target.indices if i.through is not None)
        for access in through:
            name, held = self._local(access), self.c.matrix(access)
            if not access.axes and number == 0:
                lines.append(f"const uint32_t {name} = {held}.raw_ptr[0];")
            elif access.axes and access.axes[0] == self.axes[number]:
                tile = (epilogue.place.row, epilogue.place.col)[number]
                lines.append(f"uint32_t {name}[{owned(self.c.program, number)}];")
                lines.append(f"tk::positions_of<{self._owned(number)}>({name}, {held}, {tile});")
        return lines

    # ------------------------------------------------------------ parts

    def _put(self, positions: list[str], conditions: list[str], value: str) -> list[str]:
        """The statement that stores or combines an element, where it exists."""
        tensor, dims = self.store.target.tensor, self.store.target.tensor.dims
        terms = []
        for n, text in enumerate(positions):
            strides = [self.c.extent_of(d) for d in dims[n + 1 :]]
            if text != "0":
                terms.append(" * ".join([f"size_t({text})" if n == 0 or strides else text, *strides]))
        at = f"tk::element_at(g.{cpp_name(tensor.name)}, {' + '.join(terms) or '0'})"
        policy = "cache::stream" if tensor.name in self.c.program.streamed else "0"
        combine = COMBINE.get(self.store.update, f"set_to<{policy}>")
        put = f"tk::{combine}({at}, {value});"
        return [f"if ({' && '.join(conditions)}) {put}" if conditions else put]

    @property
    def _type(self) -> str:
        return self.store.target.tensor.dtype.cpp

    def _owned(self, number: int) -> str:
        return f"tk::{('rows', 'cols')[number]}_of<{self.c.accumulator_type}>"

    def _local(self, access: Access) -> str:
        """The local with the positions that a tensor holds."""
        return f"{self.c.matrix(access).removeprefix('g.').removesuffix('_m')}_at"
