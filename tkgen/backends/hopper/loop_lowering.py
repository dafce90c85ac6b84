"""A fused matmul over warpgroups -> CUDA C++, and its tile program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tkgen.backends.cdna.lower.model import Constant, ScalarMember
from tkgen.backends.cdna.lower.names import comment_text, cpp_name
from tkgen.backends.cdna.lower.origins import Marks
from tkgen.backends.cdna.lower.places import origin
from tkgen.backends.hopper.chained import Moved
from tkgen.backends.hopper.epilogue import place_of
from tkgen.backends.hopper.file import File, Member, name
from tkgen.backends.hopper.loop_values import LoopValues
from tkgen.backends.hopper.loops import HopperLoop
from tkgen.backends.hopper.lowering import copied_along, described
from tkgen.backends.hopper.serial_loop import SerialLoop
from tkgen.ir.equations import Access, Axis, AxisKind, Bound, Index, Map, Store, walk
from tkgen.ir.functions import HOPPER, helpers
from tkgen.ir.tensors import Tensor
from tkgen.schedule.loop_tiles import extent

Count = int | str  # a number, or the C++ of one that is known only at run time

UNKNOWN = 'asm("" : "+r"(iterations));  // unknown: the second one stays a loop'
FULL = "A buffer is full when its bytes have come, empty when every warp's products of it are done"


def times(counts: Iterable[Count]) -> Count:
    """The product of counts; a number comes after names."""
    number, names = 1, list[str]()
    for count in counts:
        if isinstance(count, int):
            number *= count
        else:
            names.append(count)
    return " * ".join([*names, *([str(number)] if number > 1 else [])]) if names else number


class LoopLowering:
    """The C++ of the layout of a fused matmul: its constants, the place of a tile, its iterations."""

    def __init__(self, m: HopperLoop | SerialLoop):
        self.m, self.marks = m, Marks()
        self.values = LoopValues(
            m, {s.name: name(s.name) for s in m.kernel.scalars}, {t.name: name(t.name) for t in m.kernel.tensors}
        )
        self.walked = m.split.within is not None  # which group has a tile follows from the tile's number
        parallel = [a for a in m.kernel.axes if a.kind is AxisKind.PARALLEL]
        self.parallel = [a for a in parallel if not self.walked or a != m.kernel.groups]  # by which tiles are numbered

    def file(self, header: Sequence[str], spec: str, target: str) -> File:
        """The generated file."""
        m = self.m
        used = {op.function for op in walk(m.kernel.body) if isinstance(op, Map)}
        return File(
            name(m.kernel.name), tuple(map(comment_text, (*header, m.describe()))), comment_text(spec), target,
            tuple(self._constants()), tuple(map(self._tensor, m.kernel.arguments)),
            tuple(ScalarMember(name(s.name), s.dtype.cpp, origin(s.span)) for s in m.kernel.scalars),
            helpers(used, HOPPER),
            tuple(self.body_lines()),
            tuple(self._types()),
        )  # fmt: skip

    # ------------------------------------------------------------ of its products

    def body_lines(self) -> list[str]:
        """The lines of the kernel."""
        raise NotImplementedError

    def _types(self) -> Iterator[str]:
        raise NotImplementedError

    def _tile_types(self) -> Mapping[Access, str]:
        raise NotImplementedError

    def _widths(self) -> Iterator[Constant]:
        raise NotImplementedError

    # ------------------------------------------------------------ of its tiles

    def _role_remarks(self) -> tuple[str, str]:
        """The names of the roles, where the spec has any: of the warps that load, and of the others."""
        named = sorted(self.m.roles, key=lambda role: not role.loads)
        one, two = (self.marks.remark(origin(r.span), comment_text(r.name)) for r in named) if named else ("", "")
        return one, two

    @property
    def _tile_rows(self) -> str:
        """The rows of a block's tile, in C++."""
        return "TILE_ROWS" if self.m.padded else "ROWS" if self.m.divided else "CONSUMERS * ROWS"

    def _row_tile(self) -> str:
        if self.m.padded:
            return "0"
        if self.m.divided is not None:
            return f"{cpp_name(self.m.split.name)}_i"
        return f"{cpp_name(self.m.split.name)}_i * CONSUMERS + consumer"

    def _moved(self, access: Access, row: str, col: str = "0") -> Moved:
        """A tile as the copy engine moves it, of these numbers in the directions in which it extends."""
        tiled, m = iter((row, col)), self.m
        numbers = [next(tiled) if i.extends else self.values.tile_number(i) for i in access.indices]
        place = place_of(access, numbers)
        if (page := m.page(access)) is not None:
            place = self._in_page(access, page, numbers)
        elif m.grouped(access):
            place = f"tk::group_coord{place[:-1]}, {', '.join(self._group_of(access))}}}"
        return Moved(name(access.tensor.name), place, copied_along(self.m.rows_along(access)))

    def _in_page(self, access: Access, page: Index, numbers: list[str]) -> str:
        """The place of an iteration's tile in the page that a table lists for it."""
        through, at, m = page.through, access.indices.index(page), self.m
        assert through is not None and page.axis is not None
        size = next(i.divisor for i in access.indices if i.remainder)
        numbers[at] = "0"
        numbers[at + 1] = f"iteration % {size // m.keys}" if size > m.keys else "0"
        entry = f"iteration / {size // m.keys}" if size > m.keys else "iteration"
        listed = [entry if i.axis == m.loop.axis else self.values.tile_number(i) for i in through.indices]
        tables = place_of(through, listed)[1:-1]
        along, rows = (("dim::BATCH", "dim::DEPTH", "dim::ROW")[4 - len(access.indices) + n] for n in (at, at + 1))
        where = f"{place_of(access, numbers)[:-1]}, {self.values.length(page.axis)}, {tables}}}"
        return f"tk::in_page<{along}, {rows}>(g.{name(through.tensor.name)}, g.{name(access.tensor.name)}, {where})"

    def _group_of(self, access: Access) -> tuple[str, str]:
        """The first of the rows of a group, or of a padded tile, in a tensor, and their number."""
        if self.m.padded and self.m.split in access.axes:
            split = cpp_name(self.m.split.name)
            return f"{split}_first", f"{split}_rows"
        axis = next(a for a in access.axes if a.within)
        return self.values.in_tensor(axis, "").removesuffix(" + ") or "0", self.values.length(axis)

    def _tensor(self, tensor: Tensor) -> Member:
        m = self.m
        b, d, r, c = ["1", "1", "1", *("-1" if d.size is None else str(d.size) for d in tensor.dims)][-4:]
        d = "-1" if len(tensor.dims) > 2 and b == d == "1" else d  # a matrix is what has two dimensions
        tiles = self._tile_types()
        access = m.moved.get(tensor.name)
        tile = described(tiles[access], m.rows_along(access), m.grouped(access)) if access else ""
        return Member(name(tensor.name), tensor.dtype.cpp, (b, d, r, c), origin(tensor.span), tile)

    def _tiles(self, axis: Axis) -> Count:
        """Tiles along a parallel axis: of a ragged one as many as there can be, whatever its offsets are."""
        size, tile = axis.dim.size, axis.tile or 1
        return f"{cpp_name(axis.name)}_tiles" if size is None else (size + self._not_filled(axis)) // tile

    def _not_filled(self, axis: Axis) -> int:
        """Elements along an axis that its last tile may lack; of a ragged one the last tile of each group."""
        groups = self.m.kernel.groups
        count = groups.dim.size if axis.within is not None and groups is not None else 1
        assert count is not None, "the number of groups is known"
        return count * ((axis.tile or 1) - 1)

    @property
    def _every_tile(self) -> Count:
        return times(map(self._tiles, self.parallel))

    @property
    def _rows(self) -> Count:
        """Rows of the grid of tiles that a remap orders."""
        return times(map(self._tiles, self.parallel[:-1]))

    def _counted(self) -> Iterator[str]:
        """The counts of `dynamic` sizes, as constants of the kernel."""
        m = self.m
        for axis in (a for a in self.parallel if a.dim.size is None):
            rounded = f"({self.values.size(axis.dim)} + {self._not_filled(axis)}) / {axis.tile}" if axis.tile else ""
            remark = self.marks.remark(origin(axis.span))
            yield f"const int {self._tiles(axis)} = {rounded or self.values.size(axis.dim)};{remark}"
        if m.remap is not None and isinstance(self._rows, str):
            yield f"const int grid_rows = {self._rows};"
        if isinstance(self._every_tile, str):
            yield f"const int tiles = {self._every_tile};"
        if not m.loop.axis.within:
            yield from self._counted_iterations()

    def _counted_iterations(self) -> Iterator[str]:
        """The counts of iterations known only at run time."""
        m = self.m
        if isinstance(self.iterations, str):
            remark = self.marks.remark(origin(m.loop.axis.span), "of the loop over all of its axis")
            yield f"const int all_iterations = ({self.values.length(m.loop.axis)} + KEYS - 1) / KEYS;{remark}"
        if m.part is not None and isinstance(self._of_part(m.part), str):
            parts = self.values.size(m.part.dim)
            yield f"const int part_iterations = ({self._all} + {parts} - 1) / {parts};"

    def _constants(self) -> Iterator[Constant]:
        m = self.m
        loop = m.loop.axis
        yield Constant("CONSUMERS", str(m.consumers), "warpgroups that multiply", origin(m.split.span))
        yield Constant("ROWS", str(m.machine.wgmma_rows), f"of {m.split.name}, for a consumer")
        if m.padded:
            yield Constant("TILE_ROWS", str(extent(m.split)), f"of {m.split.name} in a tile; the others are zeros")
        yield Constant("KEYS", str(m.keys), f"of {loop.name} in a pass", origin(loop.span))
        yield from self._widths()
        which = "first" if m.loads_first else "last"
        yield Constant("THREADS", "(CONSUMERS + 1) * WARPGROUP_WARPS * WARP_THREADS", f"the {which} warpgroup loads")
        if isinstance(self._every_tile, int):
            yield Constant("TILES", str(self._every_tile), "of the output")
        if isinstance(self.iterations, int):
            yield Constant("ITERATIONS", str(self.iterations), "of the loop over all of its axis")

    def _place(self) -> Iterator[str]:
        """The numbers of a tile along the parallel axes, the last one fastest; of bounded loops from the end on.

        A remap orders them otherwise.
        """
        m, tile = self.m, "tile"
        inner: Count = 1
        if m.remap is not None:
            rows, cols = self._rows, self._tiles(self.parallel[-1])
            rows = rows if isinstance(rows, int) else "grid_rows"
            placed = m.remap.cpp("tile", rows, cols, indent="", row="remapped_row", col="remapped_col",
                                  reserved=sorted(self.values.names.used))  # fmt: skip
            yield from placed.statements
            tile = "remapped"
            yield f"const int {tile} = remapped_row * {cols} + remapped_col;"
        for axis in reversed(self.parallel):
            size = self._tiles(axis)
            behind = f"({inner})" if " " in str(inner) else inner
            number = f"{tile} % {size}" if inner == 1 else f"{tile} / {behind} % {size}"
            inner = times((size, inner))
            if axis == m.split and self.walked:
                yield from self._found(number)
                continue
            if axis == m.split and m.backwards:
                number = f"{size - 1 if isinstance(size, int) else f'{size} - 1'} - {number}"
            yield f"const int {cpp_name(axis.name)}_i = {number};"
        if m.padded:
            yield from self._padded_rows(cpp_name(m.split.name))
        for axis in m.kernel.ragged:
            yield from self._group(axis)
        if m.loop.axis.within:
            yield from self._counted_iterations()
        yield from self._bounds()

    def _padded_rows(self, split: str) -> Iterator[str]:
        """The first row of a tile of fewer rows than a product has, and their number."""
        yield f"const int {split}_first = {split}_i * TILE_ROWS;"
        yield f"const int {split}_rows = min({self.values.length(self.m.split)} - {split}_first, TILE_ROWS);"

    def _walk(self, axis: Axis) -> str:
        """A walk over the groups of a ragged axis."""
        assert axis.within is not None and self.m.kernel.groups is not None
        offsets, groups = f"g.{name(axis.within.offsets.name)}.raw_ptr", self.m.kernel.groups.dim.size
        return f"tk::group_walk {cpp_name(axis.name)}_walk({offsets}, {groups}, {self.values.size(axis.dim)});"

    def _found(self, number: str) -> Iterator[str]:
        """The group that has a tile, and its number there; a block whose tile no group has does nothing."""
        m, groups = self.m, self.m.kernel.groups
        assert groups is not None
        split = cpp_name(m.split.name)
        yield self._walk(m.split) + self.marks.remark(origin(m.split.span))
        yield f"if (!{split}_walk.find({number}, CONSUMERS * ROWS, 1)) continue;"
        yield f"const int {cpp_name(groups.name)}_i = {split}_walk.group;"
        own = f"{number} - {split}_walk.before"
        yield f"const int {split}_i = {f'{split}_walk.rows - 1 - ({own})' if m.backwards else own};"

    def _group(self, axis: Axis) -> Iterator[str]:
        """The first position of the group at hand along a ragged axis, and its length."""
        made, remark, groups = cpp_name(axis.name), self.marks.remark(origin(axis.span)), self.m.kernel.groups
        assert axis.within is not None and groups is not None
        group, size = f"{cpp_name(groups.name)}_i", self.values.size(axis.dim)
        if axis.within.lengths:
            held = f"g.{name(axis.within.offsets.name)}.raw_ptr[{group}]"
            yield f"const int {made}_length = min(max({held}, 0), {size});{remark}"
            return
        before = self.m.kernel.ragged[: self.m.kernel.ragged.index(axis)]
        same = next((cpp_name(a.name) for a in before if a.within == axis.within and a.dim == axis.dim), "")
        if same:
            yield f"const int {made}_first = {same}_first, {made}_length = {same}_length;{remark}"
            return
        if axis != self.m.split:
            yield self._walk(axis) + remark
            yield f"{made}_walk.go({group});"
        walk = f"{made}_walk"
        yield f"const int {made}_first = {walk}.first, {made}_length = {walk}.end - {walk}.first;{remark}"

    @property
    def iterations(self) -> Count:
        """Those of a loop over all of its axis."""
        size = None if self.m.loop.axis.within else self.m.loop.axis.dim.size
        return "all_iterations" if size is None else -(-size // self.m.keys)

    @property
    def _all(self) -> str:
        """The name of the number of iterations over all of the loop's axis."""
        return "ITERATIONS" if isinstance(self.iterations, int) else self.iterations

    def _of_part(self, part: Axis) -> Count:
        """Iterations of a part of the loop; the last parts may have fewer."""
        axis = self.m.loop.axis
        if axis.within or axis.dim.size is None or part.dim.size is None:
            return "part_iterations"
        return axis.part_length(axis.dim.size, part.dim.size) // self.m.keys

    def _moved_by(self, bound: Bound) -> str:
        """The distance from the place of a tile to the one where its loop begins or ends."""
        moved = f" + {bound.moved}" if bound.moved else ""
        both = (self.m.loop.axis, self.m.split)
        ends = " - ".join(map(self.values.length, both))
        return f"{moved} + ({ends})" if bound.aligned else moved

    def _bounds(self) -> Iterator[str]:
        """The iterations of a tile, as `HopperLoop.passes` has them.

        Where a tile begins at either of two, the one beside the first is no loop to the compiler, and ptxas serialises
        its products however many registers there are (C7511): so nvcc is not told how many iterations there are.
        """
        m, axis, split = self.m, self.m.loop.axis, cpp_name(self.m.split.name)
        if (part := m.part) is not None:
            run, at = self._of_part(part), f"{cpp_name(part.name)}_i"
            few = isinstance(run, int) and run <= 2
            yield f"const int first_iteration = {at} * {run};"
            yield f"{'int' if few else 'const int'} iterations = min({self._all}, ({at} + 1) * {run});"
            if few:
                yield UNKNOWN
            return
        if axis.since is None:
            yield "constexpr int first_iteration = 0;"
        else:
            moved = self._moved_by(axis.since)
            yield f"const int first_iteration = max({split}_i * {self._tile_rows}{moved}, 0) / KEYS;"
        kind, count = "constexpr int" if isinstance(self.iterations, int) else "const int", self._all
        if axis.until is not None:
            last = f"({split}_i + 1) * {self._tile_rows} - 1{self._moved_by(axis.until)}"
            kind, count = "const int", f"min({self._all}, ({last}) / KEYS + 1)"
            if m.of_groups:  # the last one may be in front of the first
                count = f"min({self._all}, max({last} + KEYS, 0) / KEYS)"
        if self.iterations != 2 or axis.since is None:
            yield f"{kind} iterations = {count};"
            return
        yield f"int iterations = {count};"
        yield UNKNOWN

    def _number_of_rows(self, store: Store) -> Iterator[str]:
        m, row = self.m, "first_row + laneid() / 4 + 8 * r"
        at = self.values.in_tensor(m.split, row)
        place = place_of(store.target, [at if i.extends else "" for i in store.target.indices])
        written = f"tk::number_at(g.{name(store.target.tensor.name)}, {place})"
        kind = store.target.tensor.dtype.cpp
        yield "#pragma unroll"
        yield "for (int r = 0; r < 2; ++r) {"
        end = f"{cpp_name(m.split.name)}_first + {cpp_name(m.split.name)}_rows" if m.padded else ""
        guard = f" && {row} < {end or self.values.length(m.split)}" if m.overhangs(m.split) else ""
        yield f"    if (laneid() % 4 == 0{guard}) {written} = {kind}({self.values.text(store.value, False)});"
        yield "}"
