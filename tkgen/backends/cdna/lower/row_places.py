"""Positions of a lane in a layout of rows: C++ for the block's tile, rows and chunks, offsets in tensors, bounds.

A place within the tile along an axis is the local `AXIS_in`, the tile's origin `AXIS_0`. An access goes through a
buffer that begins at the tile's first element in its tensor: 64-bit arithmetic once for the block, 32-bit offsets from
there. The part of an offset that depends on the row is computed once for the row, OUTSIDE if there is no such row.
Chunks add constants, which are part of the instructions; OUTSIDE plus any of them is still outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from tkgen.backends.cdna.lower.places import BlockPlaces, Names, in_bytes
from tkgen.ir.affine import may_leave
from tkgen.ir.equation_text import affine_text
from tkgen.ir.equations import Access, Axis, AxisKind, Digit, Index, Term
from tkgen.remap import Remap
from tkgen.schedule.row_form import merged
from tkgen.schedule.rows import RowMap, extent

# What no name of a spec may be in the kernel: its own locals.
LOCALS = frozenset({
    "lane", "group", "row", "i", "c", "e", "g", "pass", "exchange", "next_half",
})  # fmt: skip
# Locals made from the name of a value.
OF_VALUE = ("_h", "_d", "_e", "_n", "_s", "_t", "_b", "_l", "_r", "_k")


class Places(BlockPlaces):
    """The C++ of places for one layout."""

    placed = (AxisKind.PARALLEL, AxisKind.SEQUENTIAL)
    numbers = True

    def __init__(self, m: RowMap, names: Names, uniform: str, remap: Remap | None = None, persistent: int = 0):
        super().__init__(m.kernel, names, remap, persistent)
        self.m, self.uniform = m, uniform
        # The locals that the statements of the row, and of the chunk, name that are being made.
        self.named_of_row, self.named_of_chunk = list[set[str]](), list[set[str]]()

    def of_rows(self, access: Access) -> bool:
        """Return True if each row has elements of its own there."""
        return any(axis in self.m.rows for axis in access.axes)

    def across(self, access: Access) -> int:
        """Rows that an access across the fast axis moves at once."""
        return self.m.across if self.m.rows and access.innermost == self.m.rows[-1] else 1

    def passes(self, axis: Axis) -> str:
        """The head of a loop over the tiles of an axis."""
        start, first, last = f"{self.axis[axis]}_0", "0", ""
        of = {a.name: a for a in self.kernel.axes}
        if axis.part is not None:
            run = self._part_length(axis, of[axis.part].dim.size)
            first = f"{self.axis[of[axis.part]]}_0 * {run}"
            last = f" && {start} < ({self.axis[of[axis.part]]}_0 + 1) * {run}"
        if axis.since is not None:
            place = _moved(f"{self.axis[of[axis.since.axis]]}_0", axis.since.moved)
            first = f"max({place if axis.is_index else f'({place}) / {axis.tile} * {axis.tile}'}, 0)"
        if axis.until is not None:
            bound = of[axis.until.axis]
            last = f" && {start} < {_moved(f'{self.axis[bound]}_0', (bound.tile or 1) + axis.until.moved)}"
        step = f"++{start}" if axis.is_index else f"{start} += {axis.tile}"
        return f"for (int {start} = {first}; {start} < {self.length(axis)}{last}; {step})"

    def locals(self) -> Iterator[tuple[str, str]]:
        """The extents, the lane of a row that a thread is, and the group of lanes that it belongs to."""
        spaced = " / SPACING" if self.m.spacing > 1 else ""
        yield "lane", f"const int lane = int(threadIdx.x){spaced} % LANES;"
        yield "group", f"const int group = {self._group_of_thread()};"
        yield from super().locals()

    def _group_of_thread(self) -> str:
        """The number of the group that a thread belongs to: see `tkgen.schedule.rows`."""
        if self.m.spacing == 1:
            return "int(threadIdx.x) / LANES"
        within = "int(threadIdx.x) % SPACING"
        if self.m.groups == self.m.spacing:
            return within
        return f"int(threadIdx.x) / (SPACING * LANES) * SPACING + {within}"

    def _part_length(self, axis: Axis, parts: int | None) -> str:
        """Elements of one of the parts into which a loop's axis is divided; the last parts may have fewer."""
        assert parts is not None  # `row_form` refuses others
        if axis.dim.size is not None and axis.within is None:
            return str(axis.part_length(axis.dim.size, parts))
        tile = axis.tile or 1
        tiles = f"({self.length(axis)} + {tile - 1}) / {tile}"
        return f"(({tiles} + {parts - 1}) / {parts} * {tile})"

    # ------------------------------------------------------------ a lane's rows and chunks

    def local(self, axis: Axis) -> str:
        """The local with the place along an axis within the tile, for a statement that names it."""
        named = self.named_of_chunk if axis == self.m.fast else self.named_of_row
        return _used(named, f"{self.axis[axis]}_in")

    def of_row(self, statements: Iterable[str]) -> list[str]:
        """The `statements` of a row, which are made here, after the definitions of the row's locals that they name."""
        offsets: dict[str, Callable[[], str]] = {}
        for access in self.base:
            for index in access.indices:
                if index.through is not None and index.axis != self.m.fast:
                    offsets.setdefault(f"{self.base[index.through]}_held", partial(self._held, index.through))
            if self._by_row(access):
                offsets[f"{self.base[access]}_row"] = partial(self._row_offset, access)
        return _scope(self.named_of_row, statements, [*self._row_places(), *offsets.items()])

    def of_chunk(self, statements: Iterable[str]) -> list[str]:
        """The `statements` of a chunk, which are made here, after the definitions that they name: of its first element,
        and of the positions that a tensor of i32 holds for it.

        Inside of a row.
        """
        m, name = self.m, f"{self.axis[self.m.fast]}_in"

        def defined() -> str:
            chunk = "c" if m.lanes == 1 else f"c * LANES + {self.use('lane')}"
            number = f"({chunk})" if m.lanes > 1 else chunk
            return f"const int {name} = {f'{number} * CHUNK' if m.chunk > 1 else chunk};"

        found = [index.through for access in self.base for index in access.indices if index.axis == m.fast]
        held = [(f"{self.base[t]}_held", partial(self._held, t)) for t in dict.fromkeys(found) if t is not None]
        return _scope(self.named_of_chunk, statements, [(name, defined), *held])

    def _row_offset(self, access: Access) -> str:
        """The definition of what a row adds to the offset of an access."""
        text = self._offset(access, [axis for axis in access.axes if axis != self.m.fast])
        return f"const uint32_t {self.base[access]}_row = {text};"

    def _held(self, access: Access) -> str:
        """The definition of the place that a tensor of i32 holds for a row."""
        raw = f"tk::load_elements<int, 1>({self.buffer(access)}, {self._offset(access, access.axes)}).at[0]"
        return f"const uint32_t {self.base[access]}_held = {raw};"

    def _row_places(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """The names and definitions of a row's number and places."""
        yield "row", lambda: f"const int row = {self._row()};"
        below = 1
        for axis in reversed(self.m.rows):
            yield f"{self.axis[axis]}_in", partial(self._row_place, axis, below)
            below *= extent(axis)

    def _row_place(self, axis: Axis, below: int) -> str:
        """The definition of a row's place along an axis: of the only one it is the row's number."""
        m, name = self.m, f"{self.axis[axis]}_in"
        if len(m.rows) == 1 and "row" not in self.named_of_row[-1]:
            return f"const int {name} = {self._row()};"
        row = _used(self.named_of_row, "row")
        number = row if below == 1 else f"{row} / {below}"
        return f"const int {name} = {number if axis is m.rows[0] else f'{number} % {extent(axis)}'};"

    def _row(self) -> str:
        """The number, within the tile, of a lane's row `i`: see `tkgen.schedule.rows`."""
        m = self.m
        number = "(pass * ROWS + i)" if m.passes > 1 else "i"
        if m.across > 1:
            return f"({number} / ACROSS * GROUPS + {self.use('group')}) * ACROSS + i % ACROSS"
        return f"{number} * GROUPS + {self.use('group')}" if m.groups > 1 else number.strip("()")

    def _at(self, axis: Axis, element: str) -> str:
        """The place along an axis within the tile; `element` is added on the fast one."""
        return f"{self.local(axis)} + {element}" if element and axis == self.m.fast else self.local(axis)

    def coordinate(self, axis: Axis) -> str:
        """The place along an axis, counted over the whole tensor."""
        start = "" if axis.kind is AxisKind.WHOLE else f"{self.axis[axis]}_0"
        if axis.is_index:
            return start
        element = "e" if axis == self.m.fast and self.m.chunk > 1 else ""
        local = self._at(axis, element)
        return f"({start} + {local})" if start else f"({local})" if element else local

    # ------------------------------------------------------------ accesses

    def inside(self, axes: Sequence[Axis], element: str = "") -> list[str]:
        """Conditions on which a place exists that an access over `axes` touches, `element` added on the fast one.

        Where all of a tile is one row, lanes beyond those that share it have none.
        """
        m, found = self.m, []
        if not m.rows and m.groups > 1:
            found.append(f"{self.use('group')} == 0")
        if m.rows_covered > m.row_count and any(a in m.rows for a in axes):
            found.append(f"{_used(self.named_of_row, 'row')} < {m.row_count}")
        for axis in axes:
            tile = extent(axis)
            covered = m.chunks * m.lanes * m.chunk if axis == m.fast else tile
            whole = axis.kind is AxisKind.WHOLE
            if covered > tile:
                found.append(f"{self._at(axis, element)} < {self.size(axis.dim.name) if whole else tile}")
            if not whole and (axis.within or axis.dim.size is None or axis.dim.size % tile):
                found.append(f"{self.axis[axis]}_0 + {self._at(axis, element)} < {self.length(axis)}")
        return found

    def where(self, access: Access, element: str = "", more: Sequence[str] = ()) -> str:
        """The byte offset of an access, OUTSIDE where nothing is there; `more` conditions must hold, too.

        `element` is added on the fast axis.
        """
        fast = self.m.fast
        if not self._by_row(access):
            return self._offset(access, access.axes, element, more)
        row = _used(self.named_of_row, f"{self.base[access]}_row")
        there = [
            *self.inside([fast], element),
            *self._held_inside(access, [fast]),
            *self._reached(access, True, element),
        ]
        there += more
        return self._where(there, f"{row} + {self._bytes(access, [fast], element)}")

    def of_block(self, access: Access) -> str:
        """The byte offset of one element for the block, OUTSIDE where nothing is there."""
        return self._where(self._reached(access, False), "0")

    def _reached(self, access: Access, of_elements: bool, element: str = "") -> list[str]:
        """Conditions on which affine indices are positions of their dimensions: along the fast axis, or others.

        A position that may be negative is compared as a large number without a sign.
        """
        found = []
        for dim, index in zip(access.tensor.dims, access.indices, strict=True):
            if index.terms and (self.m.fast in index.axes) == of_elements and may_leave(index, dim):
                size = self.size(dim.name) if index.shifted is None else self.length(index.shifted)
                known = index.shifted is None and dim.size is not None
                found.append(f"uint32_t({self._position(index, element)}) < {size if known else f'uint32_t({size})'}")
        return found

    def _position(self, index: Index, element: str) -> str:
        """The position that an affine index takes, counted over the whole dimension."""
        terms, at = list[tuple[str, int]](), index.at
        for term in index.terms:
            axis = term.of
            if isinstance(axis, Digit):
                start = f"{self.axis[axis.axis]}_0 / {axis.divisor}"
                terms += [(f"({start})", term.factor)] if axis.leads and axis.axis.kind is not AxisKind.WHOLE else []
                terms.append((self._digit(axis, element), term.factor))
                continue
            if not isinstance(axis, Axis):
                terms.append((self.size(axis.name), term.factor))
                continue
            if axis.kind is not AxisKind.WHOLE:
                terms.append((f"{self.axis[axis]}_0", term.factor))
            if not axis.is_index:
                terms.append((self.local(axis), term.factor))
                if element and axis == self.m.fast:
                    terms.append((element, term.factor))
        return affine_text(terms, at)

    def _by_row(self, access: Access) -> bool:
        """Return True if an access is of many elements of a row: what the row adds to its offset is a local."""
        return self.of_rows(access) and self.m.fast in access.axes

    def _offset(self, access: Access, axes: Sequence[Axis], element: str = "", more: Sequence[str] = ()) -> str:
        """The part of an offset that comes from some axes; OUTSIDE where one of them has no position."""
        there = [*self._held_inside(access, axes), *self._reached(access, False)]
        there += self._reached(access, True, element) if self.m.fast in axes else []
        return self._where([*self.inside(axes, element), *there, *more], self._bytes(access, axes, element))

    def _held_inside(self, access: Access, axes: Sequence[Axis]) -> list[str]:
        """Conditions on which the positions that tensors of i32 hold along these axes lie in their dimensions."""
        return [
            f"{self._place_held(index)} < {self.size(dim.name)}"
            for dim, index in zip(access.tensor.dims, access.indices, strict=True)
            if index.through is not None and index.axis in axes
        ]

    def _bytes(self, access: Access, axes: Sequence[Axis], element: str = "") -> str:
        terms, is_sum = list[str](), False
        for place, index in enumerate(merged(access).indices):
            for term in index.terms:
                if isinstance(term.of, Digit) and term.of.axis in axes:
                    text = self._times(self._digit(term.of, element), term, term.of.size, self.stride(access, place))
                    is_sum |= text[0] != "(" and "+" in text
                    terms.append(text)
                if term.of in axes and isinstance(term.of, Axis) and not term.of.is_index:
                    text = self._from_lowest(term.of, term.factor, element, self.stride(access, place))
                    is_sum |= text[0] != "(" and ("+" in text or "-" in text)
                    terms.append(text)
            if index.axis is None or index.axis not in axes or index.axis.is_index:
                continue
            stride = self.stride(access, place)
            if index.through is not None:
                number, moved = self._place_held(index), False
            else:
                number, moved = self._at(index.axis, element), bool(element) and index.axis == self.m.fast
            is_sum |= bool(terms) or (moved and not stride)
            number = f"({number})" if moved and stride else number
            terms.append(f"{number} * {stride}" if stride else number)
        total = f"({' + '.join(terms)})" if is_sum or len(terms) > 1 else " + ".join(terms)
        return f"{total} {in_bytes(access.tensor)}" if terms else "0"

    def _digit(self, digit: Digit, element: str) -> str:
        """The position along a part of a flattened axis, without that at which the tile begins if the part leads.

        All elements of a chunk have one, if the part is longer than a chunk.
        """
        axis = digit.axis
        along = axis == self.m.fast and digit.divisor % self.m.chunk == 0
        place = self._at(axis, "" if along and self.m.chunk > 1 else element)
        if not (digit.leads or digit.goes_on):
            place = f"{self.axis[axis]}_0 + {place}"
        if digit.divisor == 1 and not digit.turns:
            return place
        over = f" / {digit.divisor}" if digit.divisor != 1 else ""
        return f"uint32_t({place}){over}{f' % {digit.size}' if digit.turns else ''}"

    def _from_lowest(self, axis: Axis, factor: int, element: str, stride: str) -> str:
        """The part of an offset that a term adds to the least position in the tile: never less than zero."""
        return self._times(self._at(axis, element), Term(axis, factor), extent(axis), stride)

    def _times(self, place: str, term: Term, positions: int, stride: str) -> str:
        """A position times its factor and stride, counted from the last of `positions` for a negative factor."""
        if term.factor < 0:
            place = f"{positions - 1} - {place if place.isidentifier() else f'({place})'}"
        factors = [*([str(abs(term.factor))] if abs(term.factor) != 1 else []), *([stride] if stride else [])]
        times = " * ".join(factors)
        grouped = any(sign in place for sign in "+-/%")
        return (f"({place}) * {times}" if grouped else f"{place} * {times}") if times else place

    def _place_held(self, index: Index) -> str:
        """The local with the position that a tensor of i32 holds for a row or an element, for a statement naming it."""
        assert index.through is not None
        named = self.named_of_chunk if index.axis == self.m.fast else self.named_of_row
        return _used(named, f"{self.base[index.through]}_held")

    def _where(self, conditions: Sequence[str], offset: str) -> str:
        """`offset` where all conditions hold, else OUTSIDE."""
        return f"{' && '.join(conditions)} ? {offset} : tk::OUTSIDE" if conditions else offset

    def first_only(self, target: Access) -> list[str]:
        """Conditions that leave one of all rows that would store the same."""
        return [f"{self.local(axis)} == 0" for axis in self.m.rows if axis not in target.axes]


def _moved(place: str, by: int) -> str:
    return f"{place} {'-' if by < 0 else '+'} {abs(by)}" if by else place


def _used(named: list[set[str]], name: str) -> str:
    """`name`, a local of the row or chunk whose statements are being made, for one that names it."""
    assert named, f"`{name}` is named outside of its row or chunk"
    named[-1].add(name)
    return name


def _scope(
    named: list[set[str]], statements: Iterable[str], definitions: Sequence[tuple[str, Callable[[], str]]]
) -> list[str]:
    """The `statements`, which are made here, after those `definitions` that they or later definitions name."""
    named.append(set())
    made = list(statements)
    for name, defined in reversed(definitions):
        if name in named[-1]:
            made.insert(0, defined())
    named.pop()
    return made
