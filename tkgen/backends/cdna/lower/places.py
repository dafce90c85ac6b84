"""Position of a block of a kernel of equations: C++ names, the grid, the block's tile, buffers of its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from tkgen.backends.cdna.lower.model import Offsets
from tkgen.backends.cdna.lower.names import EXTENTS, cpp_name
from tkgen.backends.cdna.lower.origins import NOWHERE, Marks, Origin, Origins
from tkgen.ir.equation_text import affine_text
from tkgen.ir.equations import Access, Axis, AxisKind, Digit, Index, Kernel, Update, accesses
from tkgen.ir.types import Dim, Tensor
from tkgen.remap import Remap
from tkgen.schedule.row_form import merged
from tkgen.schedule.rows import extent
from tkgen.source import Span

# Locals made from the name of an axis, of an access.
BLOCK, TILE = "block_id", "tile_id"  # where blocks have an order of their own
PLACE = "place"  # the number of a tile in that order, where blocks go from tile to tile
OF_AXIS = ("_0", "_in")
OF_RAGGED = (*OF_AXIS, "_first", "_length", "_walk")
OF_ACCESS = ("_at", "_row", "_r", "_w", "_held", "_page")


@dataclass
class Names:
    """C++ names of what a spec names, each once."""

    used: set[str]

    def new(self, wish: str, suffixes: Sequence[str]) -> str:
        """`wish` as an identifier that nothing has yet, and nothing with one of the suffixes either."""
        base = cpp_name(wish)
        name, number = base, 2
        while self.used & {name, *(name + suffix for suffix in suffixes)}:
            name, number = f"{base.rstrip('_')}_{number}", number + 1
        self.used |= {name, *(name + suffix for suffix in suffixes)}
        return name


class BlockPlaces:
    """The C++ of a block's places."""

    placed: tuple[AxisKind, ...] = (AxisKind.PARALLEL,)  # axes along which the tile at hand has a place, `AXIS_0`
    numbers = False  # whether one element for a block goes through a buffer, too
    of_access: tuple[str, ...] = OF_ACCESS  # endings of the locals that are made for an access
    uniform = "__builtin_amdgcn_readfirstlane"  # makes a scalar of what all lanes have alike

    def __init__(self, kernel: Kernel, names: Names, remap: Remap | None = None, persistent: int = 0):
        self.kernel, self.names, self.marks, self.remap = kernel, names, Marks(), remap
        self.tensors: tuple[Tensor, ...] = tuple(t for t in kernel.tensors if t in kernel.inputs or t in kernel.outputs)
        self.dims = {d.name: d for t in self.tensors for d in t.dims}
        # Keys in pages are no dimension of a tensor, and neither is the number of groups, where each stores its rows.
        others = [*(a for a in kernel.axes if a.kind is AxisKind.SEQUENTIAL or a.parts), *self.numbered]
        self.dims |= {a.dim.name: a.dim for a in others if a.dim.name not in self.dims}
        self.named = set[str]()  # locals of the whole kernel that its statements name
        names.used |= {self.size(name) for name in self.dims} | {f"rest_{n}" for n in range(len(kernel.axes))}
        self.persistent = persistent  # blocks, which go from tile to tile; 0 where each has its own
        if remap is not None:
            names.used |= {BLOCK, TILE, "tile_row", "tile_col"}
        if persistent:
            names.used.add(PLACE)
        self.axis = {a: names.new(a.name, OF_RAGGED if a.within else OF_AXIS) for a in kernel.axes}
        # What is made for an access is named after its tensor: X_at, X_row, X_r, X_w.
        self.base = {a: names.new(a.tensor.name, self.of_access) for a in dict.fromkeys(_accesses(kernel))}
        self.updated = {s.target for s in kernel.stores if s.update is not Update.SET}

    def remark(self, span: Span | None, comment: str = "") -> str:
        """End of a line that comes from a span and has `comment`."""
        return self.marks.remark(origin(span), comment)

    def buffer(self, access: Access) -> str:
        """The buffer through which an access goes."""
        return f"{self.base[access]}_at"

    def size(self, dim: str) -> str:
        """The extent of a dimension: a constant, or a local if known only at run time."""
        return f"DIM_{dim}" if self.dims[dim].size is not None else self.use(f"{dim}_size")

    def use(self, name: str) -> str:
        """`name`, a local of the whole kernel, for a statement that names it: the kernel defines those alone."""
        self.named.add(name)
        return name

    def length(self, axis: Axis) -> str:
        """The number of positions of an axis: of a ragged one those of the current group."""
        return self.size(axis.dim.name) if axis.within is None else f"{self.axis[axis]}_length"

    # ------------------------------------------------------------ the grid and the block's tile

    @property
    def parallel(self) -> list[Axis]:
        """The axes along which blocks have tiles, outermost first."""
        return [a for a in self.kernel.axes if a.kind is AxisKind.PARALLEL]

    @property
    def walked(self) -> Axis | None:
        """The ragged axis along which blocks have tiles: of which group a block's is, it finds out itself."""
        return next((a for a in self.parallel if a.within), None)

    @property
    def numbered(self) -> list[Axis]:
        """The axes along which the number of a block counts."""
        return [a for a in self.parallel if self.walked is None or a != self.kernel.groups]

    def _blocks(self, axis: Axis, size: str) -> str:
        """Tiles along an axis of `size` elements; for groups the number that they may need for any offsets."""
        if axis.within is None:
            return _blocks(axis, size)
        return f"({size} + {self._index.dim.size} * {(axis.tile or 1) - 1}) / {axis.tile}"

    @property
    def _index(self) -> Axis:
        """The index whose places are groups. How many these are is known: typing refuses others."""
        assert self.kernel.groups is not None
        return self.kernel.groups

    def grid(self) -> str:
        """The number of blocks, over the argument struct's members."""
        return str(self.persistent) if self.persistent else self.tiles()

    def tiles(self, of: str = "") -> str:
        """The number of tiles, over the members of the argument struct; `of` is their prefix."""
        parts = [self._blocks(axis, self.extent(axis.dim, of)) for axis in self.numbered]
        return " * ".join(f"({p})" if "/" in p and len(parts) > 1 else p for p in parts) or "1"

    def extent(self, dim: Dim, of: str = "") -> str:
        """The extent of a dimension: a constant, or a member of the argument struct; `of` is its prefix."""
        return f"DIM_{dim.name}" if dim.size is not None else of + self.member(dim.name)

    def member(self, dim: str) -> str:
        """The run-time extent of a dimension, as a member function of the first tensor that has it."""
        return next(member for tensor in self.tensors for member in self.members(tensor, dim))

    def members(self, tensor: Tensor, dim: str) -> list[str]:
        """The same of one tensor, for each of its dimensions that is this one."""
        places = enumerate(tensor.dims, 4 - len(tensor.dims))
        return [f"{cpp_name(tensor.name)}.{EXTENTS[place]}()" for place, each in places if each.name == dim]

    def with_locals(self, statements: Iterable[str]) -> Iterator[str]:
        """The `statements` of a kernel, and before them the definitions of its locals that are named by these.

        They are made here: what they name is known from what `use` gave them meanwhile.
        """
        self.named.clear()
        made = list(statements)
        yield from (text for name, text in self.locals() if name in self.named)
        yield from made

    def locals(self) -> Iterator[tuple[str, str]]:
        """The name and the definition of each local of the whole kernel: the extents known only at run time."""
        for name, dim in self.dims.items():
            if dim.size is None:
                yield f"{name}_size", f"const int {name}_size = g.{self.member(name)};"

    def from_tile_to_tile(self, body: Sequence[str], between: Sequence[str] = ()) -> Iterator[str]:
        """The lines of a block's tile; of a persistent block a loop over tiles, with these `between` two of them."""
        if not self.persistent:
            yield from body
            return
        parts = [self._blocks(axis, self.size(axis.dim.name)) for axis in self.numbered]
        tiles = " * ".join(f"({p})" if "/" in p else p for p in parts) or "1"
        yield "#pragma unroll 1"
        yield f"for (int {PLACE} = blockIdx.x; {PLACE} < {tiles}; {PLACE} += gridDim.x) {{"
        yield from (f"    {line}" if line else line for line in (*body, *between))
        yield "}"

    def head(self) -> Iterator[str]:
        """The origin of the block's tile, a buffer for everything that is touched."""
        rest = PLACE if self.persistent else "int(blockIdx.x)"
        if self.remap is not None:
            yield from self._ordered(self.remap)
            rest = TILE
        for place in range(len(self.numbered) - 1, -1, -1):
            axis = self.numbered[place]
            count = self._blocks(axis, self.size(axis.dim.name)) if place else ""
            count = f"({count})" if "/" in count else count
            number = f"{rest} % {count}" if place else rest
            scaled = number if axis.tile in (None, 1) else f"{number} * {axis.tile}"
            if axis.within is not None:
                yield from self._found(axis, number)
            else:
                yield f"const int {self.axis[axis]}_0 = {scaled};{self.remark(axis.span, 'first of this block')}"
            if place > 1:
                yield f"const int rest_{place} = {rest} / {count};"
                rest = f"rest_{place}"
            elif place:
                rest = f"{rest} / {count}"
        for axis in self.kernel.ragged:
            yield from self._group(axis)
        # What goes along a loop has another tile in each pass.
        stay = [a for a in self.base if all(x.kind is not AxisKind.SEQUENTIAL for i in a.indices for x in i.axes)]
        yield from self.buffers([a for a in stay if a.axes or self.numbers])

    def _ordered(self, remap: Remap) -> Iterator[str]:
        """The number of the block's tile: its row in the grid is that of the outer axes, its column the last one's."""
        *outer, cols = [-(-(axis.dim.size or 1) // (axis.tile or 1)) for axis in self.numbered]
        yield f"const int {BLOCK} = {PLACE if self.persistent else 'blockIdx.x'};"
        yield from remap.cpp(BLOCK, prod(outer), cols, "", reserved=sorted(self.names.used)).statements
        yield f"const int {TILE} = tile_row * {cols} + tile_col;"

    def _found(self, axis: Axis, number: str) -> Iterator[str]:
        """The group that has a block's tile, and which of its tiles that is; nothing is to do where none has it."""
        name, walk = self.axis[axis], f"{self.axis[axis]}_walk"
        yield self._walk(axis) + self.remark(axis.span)
        yield f"if (!{walk}.find({number}, {axis.tile}, 1)) {'continue' if self.persistent else 'return'};"
        group = self.axis[self._index]
        yield f"const int {group}_0 = {walk}.group;{self.remark(self._index.span, 'the group that has it')}"
        number = f"({number} - {walk}.before)"
        scaled = number if axis.tile == 1 else f"{number} * {axis.tile}"
        yield f"const int {name}_0 = {scaled};{self.remark(axis.span, 'first of this block, counted in its group')}"

    def _walk(self, axis: Axis) -> str:
        """The local that goes over the groups of a ragged axis."""
        assert axis.within is not None
        offsets = f"g.{cpp_name(axis.within.offsets.name)}.raw_ptr"
        size = self.size(axis.dim.name)
        return f"tk::group_walk {self.axis[axis]}_walk({offsets}, {self._index.dim.size}, {size});"

    def _group(self, axis: Axis) -> Iterator[str]:
        """Lines for the start and length of the current group along a ragged axis."""
        name, end = self.axis[axis], self.remark(axis.span)
        assert axis.within is not None
        if axis.within.lengths:
            held = f"g.{cpp_name(axis.within.offsets.name)}.raw_ptr[{self.axis[self._index]}_0]"
            length = f"min(max({held}, 0), {self.size(axis.dim.name)})"
            # Outermost: both together are v_med3_i32, and direct loads take scalars.
            yield f"const int {name}_length = {self.uniform}({length});{end}"
            return
        before = self.kernel.ragged[: self.kernel.ragged.index(axis)]
        same = next((a for a in before if a.within == axis.within and a.dim == axis.dim), None)
        if same is not None:
            other = self.axis[same]
            yield f"const int {name}_first = {other}_first, {name}_length = {other}_length;{end}"
            return
        if axis != self.walked:
            yield self._walk(axis) + end
            yield f"{name}_walk.go({self.axis[self._index]}_0);"
        walk = f"{name}_walk"
        yield f"const int {name}_first = {walk}.first, {name}_length = {walk}.end - {walk}.first;{end}"

    def offsets(self) -> Iterator[Offsets]:
        """Offsets of ragged axes, each once for a dimension, and the tables that list pages."""
        for axis in {(a.within, a.dim): a for a in self.kernel.ragged}.values():
            assert axis.within is not None
            name, size = axis.within.offsets.name, self.extent(axis.dim, "g.")
            lengths = axis.within.lengths
            count = self.extent(self._index.dim, "g.") if lengths else str(self._index.dim.size)
            kind = "lengths" if lengths else "offsets"
            yield Offsets(name, cpp_name(name), count, size, kind, origin(axis.span))
        for table in (t for t in self.kernel.tensors if t in self.kernel.tables):
            count = " * ".join(self.extent(d, "g.") for d in table.dims)
            pages = self.extent(self.kernel.held[table], "g.")
            yield Offsets(table.name, cpp_name(table.name), count, pages, "pages", origin(table.span))

    def buffers(self, accesses: Sequence[Access]) -> Iterator[str]:
        """Buffers that begin where the tiles of these accesses do."""
        for access in accesses:
            tensor = cpp_name(access.tensor.name)
            origin = self.origin(access)
            if access.tensor.dtype.packed and origin != "0":  # memory is counted in bytes
                origin = f"({origin}) {in_bytes(access.tensor)}"
            maker = "memory_from" if access in self.updated else "buffer_from"
            yield f"const auto {self.buffer(access)} = tk::{maker}(g.{tensor}, {origin});"

    def stride(self, access: Access, place: int) -> str:
        """Elements between neighbours along a dimension; empty for one."""
        inner = access.tensor.dims[place + 1 :]
        return " * ".join(self.size(d.name) for d in inner if d.size != 1)

    def pitch(self, access: Access) -> str:
        """Elements between the rows of a tile in memory."""
        return self.apart(access, access.axes[0])

    def apart(self, access: Access, axis: Axis) -> str:
        """Elements between neighbours along an axis of a tile."""
        return self.stride(access, next(n for n, i in enumerate(access.indices) if i.extends and i.axis == axis)) or "1"

    def origin(self, access: Access, also: tuple[AxisKind, ...] = ()) -> str:
        """The first element of the tile at hand in its tensor; it has a place along axes of a kind in `also`, too."""
        terms = []
        for place, index in enumerate(merged(access).indices):
            if index.terms:
                number = self.lowest(index)
            elif index.axis is None:
                number = str(index.at) if index.at else ""
            elif index.through is not None:
                number = ""  # each row lies where another tensor says
            else:
                placed = index.axis.kind in (*self.placed, *also)
                parts = [f"{self.axis[index.axis]}_first"] if index.axis.is_moved else []
                parts += [f"{self.axis[index.axis]}_0"] if placed else []
                number = " + ".join(parts) + (f" / {index.divisor}" if placed and index.divisor != 1 else "")
            if number:
                stride = self.stride(access, place)
                terms.append(f"uint64_t({number}) * {stride}" if stride else f"uint64_t({number})")
        return " + ".join(terms) or "0"

    def lowest(self, index: Index) -> str:
        """The least position that an affine index takes in the tile at hand; it may be no position of the tensor."""
        terms, at = [], index.at
        for term in index.terms:
            if isinstance(term.of, Digit):
                if term.of.leads and term.of.axis.kind is not AxisKind.WHOLE:
                    terms.append((f"({self.axis[term.of.axis]}_0 / {term.of.divisor})", term.factor))
                at += min(term.factor, 0) * (term.of.size - 1)
                continue
            if not isinstance(term.of, Axis):
                terms.append((self.size(term.of.name), term.factor))
                continue
            if term.of.is_moved:
                terms.append((f"{self.axis[term.of]}_first", 1))
            if term.of.kind is not AxisKind.WHOLE:
                terms.append((f"{self.axis[term.of]}_0", term.factor))
            if term.factor < 0 and not term.of.is_index:
                at += term.factor * (extent(term.of) - 1)
        return affine_text(terms, at) if terms or at else ""


def tile_constant(axis: Axis) -> str:
    """The constant with the extent of a tile along an axis."""
    return f"TILE_{cpp_name(axis.name)}"


def in_bytes(tensor: Tensor) -> str:
    """Factor, as C++ text, from a number of elements to bytes; the bytes are integers."""
    return {4: "/ 2", 6: "* 3 / 4"}.get(tensor.dtype.bits, f"* {tensor.dtype.bytes}")


def _accesses(kernel: Kernel) -> Iterator[Access]:
    for access in accesses(kernel):
        yield from (i.through for i in access.indices if i.through is not None)
        yield access


def _blocks(axis: Axis, size: str) -> str:
    """Tiles along an axis of `size` elements."""
    return size if axis.tile in (None, 1) else f"({size} + {axis.tile} - 1) / {axis.tile}"


def origin(span: Span | None) -> Origins:
    """The spec line of a span."""
    return NOWHERE if span is None or not span.file.text else Origins((Origin(span.file, span.line),))
