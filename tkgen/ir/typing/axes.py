"""Axes of a kernel of equations, and the parts of tensors that equations touch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tkgen.diagnostics import Edit, Fix, Label
from tkgen.ir.equations import Access, Axis, AxisKind, Bound, Digit, Index, Value, Within
from tkgen.ir.resolve.names import Scope, Stop
from tkgen.ir.resolve.sizes import number, positive
from tkgen.ir.types import Dim, DType, Tensor
from tkgen.ir.typing import suggestions
from tkgen.ir.typing.affine_indices import Reader
from tkgen.ir.typing.flattened import Flattened
from tkgen.source import Span
from tkgen.syntax import ast

LENGTH = "length"  # `length(j)`: how many places an axis has, of a ragged one those of the group at hand
MOST_MOVED = 1 << 29  # places: with a place along an axis still a number of 32 bits


@dataclass(frozen=True)
class Partial:
    """A reduction of what one tile of several has: some store must say which tile it is of."""

    value: Value
    axis: Axis
    what: str
    span: Span


@dataclass
class Axes:
    """The axes so far, by name; `active` are the sequential ones whose loop the equations at hand stand in."""

    scope: Scope
    found: dict[str, Axis] = field(default_factory=dict)
    active: list[Axis] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    flattened: Flattened = field(default_factory=Flattened)

    # ------------------------------------------------------------ declaring

    def over(self, clause: ast.AxisClause) -> None:
        """`q in LENGTH by 256`, or `(p in P, q in Q) by 256`."""
        if clause.parts:
            assert clause.tile is not None  # the grammar has it
            what = f"the tile along `{clause.name.span.text}`"
            self._flatten(clause, AxisKind.PARALLEL, positive(self.scope, clause.tile, what))
            return
        dim = self._extent(clause.extent)
        tile = None if clause.tile is None else positive(self.scope, clause.tile, f"the tile along `{clause.name.id}`")
        within = None if clause.within is None else self._within(clause.within, dim)
        if within is not None and tile is None:
            raise self.scope.error(
                "E232", f"`{clause.name.id}` is over a group of unknown length, so it needs a tile", clause.span,
                fix=f"give it one: `{clause.span.text} by 128`",
            )  # fmt: skip
        self.scope.declare(clause.name)
        name = clause.name
        self.found[name.id] = Axis(name.id, dim, AxisKind.PARALLEL, tile, within=within, span=name.span)

    def each(self, loop: ast.Each) -> Axis:
        """The axis of a loop. Two loops may walk along one axis, where they say the same of it."""
        name = loop.name.id
        part = None if loop.part is None else self._part(loop.part)
        of = loop.name.span.text if loop.parts else name
        tile = None if loop.tile is None else positive(self.scope, loop.tile, f"the tile along `{of}`")
        if loop.parts:
            assert tile is not None  # by the grammar
            return self._flatten(loop, AxisKind.SEQUENTIAL, tile, part)
        dim = self._extent(loop.extent)
        within = None if loop.within is None else self._within(loop.within, dim)
        if within is not None and loop.part is not None and not within.lengths:
            raise self.scope.error(
                "E232", f"`{name}` is over a group of unknown length, which cannot be divided into "
                        "parts", loop.part.span,
                fix=f"remove `part {part}`",
            )  # fmt: skip
        axis = Axis(name, dim, AxisKind.SEQUENTIAL, tile, part=part, within=within, span=loop.name.span)
        since = None if loop.since is None else self._bound("from", loop.since, axis)
        until = None if loop.until is None else self._bound("to", loop.until, axis)
        if within is None:
            self._counted_alike(loop, (since, until))
        axis = replace(axis, since=since, until=until)
        before = self.found.get(name)
        if before is None:
            self.scope.declare(loop.name)
        elif before != axis or before in self.active:
            raise self.scope.error(
                "E202", f"`{name}` is declared twice", loop.name.span, "declared again here",
                secondary=(Label(self.scope.declared[name], "first declared here"),),
                fix="rename one of them; successive loops may share an axis if their tile and end are the same",
            )  # fmt: skip
        self.found[name] = axis
        return axis

    def _flatten(self, clause: ast.AxisClause | ast.Each, kind: AxisKind, tile: int, part: str | None = None) -> Axis:
        """The axis of `(r in R, s in S) by 64`; two loops may walk along one."""
        dims = [self._extent(each.extent) for each in clause.parts]
        axis, again = self.flattened.axis(self.scope, clause, dims, kind, tile, part)
        if axis in self.active or (again and kind is AxisKind.PARALLEL):
            raise self.flattened.twice(self.scope, clause)
        self.found[axis.name] = axis
        return axis

    def _bound(self, word: str, expr: ast.Expr, loop: Axis) -> Bound:
        """After `from` or `to` of a loop: an axis of `over`, and how far from its tile."""
        at, moves = expr, []
        while isinstance(at, ast.Binary) and at.op in ("+", "-"):
            moves.append(at)
            at = at.left
        if isinstance(at, ast.Name):
            self.scope.usable(at)
        parallel = [a.name for a in self.found.values() if a.kind is AxisKind.PARALLEL]
        if not isinstance(at, ast.Name) or at.id not in parallel:
            raise self.scope.error(
                "E223", f"`{word} {expr.span.text}` is not bounded by an axis of `over`", at.span,
                fix=f"name the axis whose tile is the {'first' if word == 'from' else 'last'} to be visited, and "
                "then an offset: `q - 512`", known=parallel,
            )  # fmt: skip
        of = self.found[at.id]
        lengths = [m for m in moves if _is_length(m.right)]
        if lengths and sorted(f"{m.op} {m.right.span.text}" for m in lengths) != [
            f"+ {LENGTH}({loop.name})", f"- {LENGTH}({of.name})",
        ]:  # fmt: skip
            raise self.scope.error(
                "E223", f"`{expr.span.text}` is moved by a length that is not the difference of the lengths of the "
                        "two axes",
                lengths[0].right.span,
                fix=f"`{of.name} + {LENGTH}({loop.name}) - {LENGTH}({of.name})` is the position of `{loop.name}` "
                "with the same distance from the end",
            )  # fmt: skip
        moved = sum(number(self.scope, m.right) * (1 if m.op == "+" else -1) for m in moves if m not in lengths)
        alike = loop.dim == of.dim and loop.within == of.within  # as many places of both
        known = None if loop.within or of.within or loop.dim.size is None or of.dim.size is None else of.dim.size
        if lengths and known is not None:
            moved += (loop.dim.size or 0) - known
        if abs(moved) > MOST_MOVED:
            raise self.scope.error("E203", f"a bound of a loop is at most {MOST_MOVED} positions from a tile, not "
                                           f"{moved}",
                                   expr.span, fix="remove the bound: no axis is longer")  # fmt: skip
        self.used.add(at.id)
        return Bound(at.id, moved, bool(lengths) and known is None and not alike)

    def _counted_alike(self, loop: ast.Each, bounds: tuple[Bound | None, ...]) -> None:
        """E232 where a loop along a whole dimension begins or ends with a tile whose places are counted in a group."""
        for axis in (self.found[b.axis] for b in bounds if b is not None):
            if axis.within is not None:
                raise self.scope.error(
                    "E232", f"`{loop.name.id}` is counted from the start of the dimension, `{axis.name}` from the "
                    "start of its group", loop.name.span, secondary=(Label(axis.span, "ragged"),) if axis.span else (),
                    fix=f"loop over the group, too: `{loop.name.id} in {loop.extent.span.text} within "
                    f"{axis.within.offsets.name}[{axis.within.of}]`",
                )  # fmt: skip

    def _part(self, name: ast.Name) -> str:
        """The index among whose places a loop is divided: `each k in K by 64 part s`."""
        indices = [a.name for a in self.found.values() if a.kind is AxisKind.PARALLEL and a.is_index]
        if name.id not in indices:
            tiled = name.id in self.found
            raise self.scope.error(
                "E223", f"`part {name.id}` does not name an index of `over`", name.span,
                f"`{name.id}` has tiles, but a part belongs to one block" if tiled else "not declared",
                fix="declare one without a tile: `over s in PARTS, ...`", known=indices,
            )  # fmt: skip
        self.used.add(name.id)
        return name.id

    def holds_places(self, tensor: Tensor) -> bool:
        """Return True if an axis goes by what a tensor holds."""
        return any(a.within is not None and a.within.offsets == tensor for a in self.found.values())

    def _within(self, clause: ast.Within, dim: Dim) -> Within:
        """`within OFFSETS[g]`: an i32 tensor with an offset for each place of an index of `over`, and a last one; or
        `below LENGTH[g]`: one with a length for each."""
        name, of = clause.offsets, clause.of
        for used in (name, of):
            self.scope.usable(used)
        if name.id not in self.scope.tensors:
            raise self.scope.error(
                "E200", f"`{name.id}` is not a global tensor", name.span,
                fix=f"declare it: `global {name.id} : i32[...]`", known=self.scope.tensors,
            )  # fmt: skip
        offsets = self.scope.tensors[name.id]
        declared = (Label(offsets.span, "declared here"),)
        indices = {a.name: a for a in self.found.values() if a.kind is AxisKind.PARALLEL and a.is_index}
        if of.id not in indices:
            raise self.scope.error(
                "E223", f"`{clause.span.text}` does not name an index of `over`", of.span,
                f"`{of.id}` has tiles, but a group has one position" if of.id in self.found else "not declared before",
                fix="declare one without a tile before it: `over g in GROUPS, ...`", known=indices,
            )  # fmt: skip
        index = indices[of.id]
        if offsets.dtype is not DType.I32 or len(offsets.dims) != 1:
            what, last = "offsets", ", with a last offset, where the last group ends"
            if clause.lengths:
                what, last = "lengths", ", with one for each group"
            fix = Fix(f"declare it as `global {name.id} : i32[...]`{last}")
            raise self.scope.error("E232", f"`{name.id}` holds no {what}", name.span, "not a row of i32",
                                   secondary=declared, fix=fix)  # fmt: skip
        if clause.lengths:
            self._one_each(offsets, index, name)
        else:
            self._as_many(offsets, index, name)
        other = next((a for a in self.found.values() if a.within and a.within.of != of.id), None)
        if other is not None and other.within is not None:
            raise self.scope.error(
                "E232", f"groups of `{of.id}`, and of `{other.within.of}`", clause.span,
                secondary=(Label(other.span, f"within groups of `{other.within.of}`"),) if other.span else (),
                fix="use the same index for all ragged axes of a kernel",
            )  # fmt: skip
        self.used.add(of.id)
        return Within(offsets, of.id, clause.lengths)

    def _one_each(self, lengths: Tensor, index: Axis, at: ast.Name) -> None:
        """E232 where there is not one length for each place of an index."""
        (dim,) = lengths.dims
        if dim != index.dim and (dim.size is None or dim.size != index.dim.size):
            raise self.scope.error(
                "E232", f"`{lengths.name}` has a length for each position of `{dim.name}`, and `{index.name}` runs "
                        "over "
                f"`{index.dim.name}`", at.span, secondary=(Label(dim.span), Label(index.dim.span)),
                fix=f"declare it as `global {lengths.name} : i32[{index.dim.name}]`",
            )  # fmt: skip

    def _as_many(self, offsets: Tensor, index: Axis, at: ast.Name) -> None:
        """E232 where offsets are not one more than groups; both numbers are known."""
        (dim,), groups = offsets.dims, index.dim
        if dim.size is not None and groups.size is not None and dim.size == groups.size + 1:
            return
        unknown = next((d for d in (groups, dim) if d.size is None), None)
        message = f"`{offsets.name}` has {dim.size} offsets for {groups.size} groups: it must have one more"
        if unknown is not None:
            message = f"the number of groups must be known at build time, but `{unknown.name}` is dynamic"
        raise self.scope.error(
            "E232", message, at.span, secondary=(Label(dim.span), Label(groups.span)),
            fix=f"give `{unknown.name}` a size" if unknown
            else f"declare `dims {dim.name if dim != groups else 'OFFSETS'} = {groups.name} + 1` for its dimension",
        )  # fmt: skip

    def _extent(self, expr: ast.Expr) -> Dim:
        if isinstance(expr, ast.Name):
            self.scope.usable(expr)
        if isinstance(expr, ast.Name) and expr.id in self.scope.dims:
            return self.scope.dims[expr.id]
        shown = expr.span.text
        raise self.scope.error(
            "E209", f"`{shown}` is not a declared dimension", expr.span,
            "an axis runs over a dimension, so that tkgen knows the tensors that it indexes",
            fix=self._as_dimension(expr), known=self.scope.dims,
        )  # fmt: skip

    def _as_dimension(self, expr: ast.Expr) -> Fix:
        """`M` for `range(M)`, `M by 128` for `M / 128` and `range(0, M, 128)`; otherwise advice."""
        text, dims = expr.span.text, self.scope.dims
        match expr:
            case ast.Call(name=ast.Name(id="range"), args=(_, ast.Name(id=name), step)) if name in dims:
                return suggestions.written(expr.span, f"{name} by {step.span.text}")
            case ast.Call(name=ast.Name(id="range"), args=(*_, ast.Name(id=name))) if name in dims:
                return suggestions.written(expr.span, name)
            case ast.Binary(op="/", left=ast.Name(id=name), right=ast.Number()) if name in dims:
                return suggestions.written(
                    expr.span, f"{name} by {expr.right.span.text}", ": the axis counts elements, not tiles"
                )
            case ast.Name():
                return Fix(f"declare it: `dims {text} = ...`, with its size or `dynamic`")
        return Fix(f"name it: `dims X = {text}`")

    # ------------------------------------------------------------ looking up

    def is_axis(self, name: str) -> bool:
        """Return True if `over` or `each` declares it; a dimension's name is a number."""
        return name in self.found and name not in self.scope.values and name not in self.flattened.axes

    def along(self, name: ast.Name) -> Axis | Digit | None:
        """The axis of that name, or the part of a flattened one, usable here; None where it is neither."""
        if (digit := self.flattened.digits.get(name.id)) is None:
            return self.named(name) if self.is_axis(name.id) else None
        self._within_loop(digit.axis, name)
        self.used.add(digit.axis.name)
        return digit

    def named(self, name: ast.Name) -> Axis:
        """The axis of that name, usable here."""
        axis = self.found[name.id]
        self._within_loop(axis, name)
        self.used.add(name.id)
        return axis

    def _within_loop(self, axis: Axis, name: ast.Name) -> None:
        """E227 where the axis of a name is that of a loop, and this is not in it."""
        if axis.kind is AxisKind.SEQUENTIAL and axis not in self.active:
            raise self.scope.error(
                "E227", f"`{name.id}` is not defined outside of its loop", name.span, "not within `each`",
                secondary=(Label(axis.span, "the loop"),) if axis.span else (),
                fix=f"move this into the loop over `{name.id}`",
            )  # fmt: skip

    def whole(self, dim: Dim, at: Span) -> Axis:
        """The axis of a dimension that is taken whole."""
        if dim.name in self.scope.broken:
            raise Stop()
        if dim.size is None:
            self.scope.broken.add(dim.name)
            raise self.scope.error(
                "E203", f"`{dim.name}` is dynamic, but the length of a tile must be known at build time", at,
                f"takes `{dim.name}` whole",
                secondary=(Label(dim.span, "dynamic"),),
                fix=f"give `{dim.name}` a size, or loop over it: `each i in {dim.name} by 256`",
            )  # fmt: skip
        return self.found.setdefault(dim.name, Axis(dim.name, dim, AxisKind.WHOLE, span=dim.span))

    def access(self, tensor: Tensor, indices: tuple[ast.Expr, ...], at: Span, stored: bool = False) -> Access:
        """The part of a tensor that indices pick; dimensions after them are whole. `stored`: it is stored to."""
        shape = f"{tensor.name}[{', '.join(d.name for d in tensor.dims)}]"
        declared = (Label(tensor.span, "declared here"),)
        if len(indices) > len(tensor.dims):
            several = f"{len(tensor.dims)} dimension{'s' if len(tensor.dims) != 1 else ''}"
            raise self.scope.error(
                "E223", f"`{shape}` has {several}, not {len(indices)}", at, secondary=declared,
                fix=suggestions.without_none(tensor.name, indices, at) or "write an index for each dimension, or fewer",
            )  # fmt: skip
        tensor, indices, runs = self.flattened.form(self.scope, tensor, indices, at)
        found: list[Index] = []
        for dim, expr in zip(tensor.dims, indices, strict=False):
            if expr in runs:
                found.append(Index(self._run(runs[expr], expr)))
                continue
            place = self._in_page(tensor, dim, expr, found[-1]) if found and found[-1].of_page else None
            found.append(place or self._index(tensor, dim, expr, indices, stored))
        found += [Index(self.whole(dim, at)) for dim in tensor.dims[len(indices) :]]
        ways = [a for i in found for a in i.ways if not i.of_page]
        twice = next((a for a in ways if ways.count(a) > 1), None)
        if twice is not None:
            raise self.scope.error(
                "E223", f"`{at.text}` indexes two dimensions of `{shape}` along `{twice.name}`", at,
                secondary=declared, fix="use a separate axis for one of the two",
            )  # fmt: skip
        return Access(tensor, tuple(found))

    def _run(self, axis: Axis, at: ast.Expr) -> Axis:
        """A flattened axis whose parts index neighbouring dimensions in their order."""
        self._within_loop(axis, ast.Name(at.span, at.span.text))
        self.used.add(axis.name)
        return axis

    def _index(self, tensor: Tensor, dim: Dim, expr: ast.Expr, beside: tuple[ast.Expr, ...], stored: bool) -> Index:
        """An axis, an axis divided, a sum, a number, what a tensor holds, or the dimension's own name: all of it."""
        for name in names(expr):
            self.scope.usable(name)
        if isinstance(expr, ast.Access):
            return self._through(expr)
        if isinstance(expr, ast.Name) and expr.id == dim.name:
            return Index(self.whole(dim, expr.span))
        if isinstance(expr, ast.Name) and isinstance(digit := self.along(expr), Digit):
            return self.flattened.index(self.scope, tensor, dim, digit, expr, stored)
        if isinstance(expr, ast.Name) and self.is_axis(expr.id):
            axis = self.named(expr)
            if axis.dim != dim:
                raise self._misfit(tensor, dim, axis, expr, beside)
            return Index(axis)
        match expr:
            case ast.Binary(op=op, left=ast.Name() as first) if self.is_axis(first.id) and (
                op == "/" or self._counts_tiles(dim, expr, self.found[first.id])
            ):
                return self._divided(tensor, dim, expr, self.named(first), stored)
        if isinstance(expr, ast.Binary | ast.Call):
            reader = Reader(self.scope, self.along, self.whole)
            index = reader.index(tensor, dim, expr)
            if stored and (digit := next((way for way in index.ways if isinstance(way, Digit)), None)):
                raise self.flattened.apart(self.scope, tensor, digit, expr)
            if not index.is_constant:
                return index
        if isinstance(expr, ast.Name) and expr.id not in self.scope.values:
            inside = [
                name for name, value in self.scope.values.items() if value is not None and value < (dim.size or 1)
            ]
            raise self.scope.error(
                "E200", f"`{expr.id}` is no axis", expr.span, "not declared",
                fix=f"declare it: `over {expr.id} in {dim.name}`, or `each {expr.id} in {dim.name} by 64`",
                known=[*self.found, *inside],
            )  # fmt: skip
        place = number(self.scope, expr)
        if place < 0 or place >= (dim.size or 1):
            known = f"0..{dim.size - 1}" if dim.size else "known only at run time"
            raise self.scope.error(
                "E223", f"`{tensor.name}` has no position {place} along `{dim.name}`", expr.span, f"it is {known}",
                secondary=(Label(dim.span, "declared here"),), fix="write a position that exists",
            )  # fmt: skip
        return Index(None, at=place)

    def _counts_tiles(self, dim: Dim, expr: ast.Binary, axis: Axis) -> bool:
        """Return True if an index multiplies an axis by its tile, as if the axis were the number of a block."""
        sized = expr.op == "*" and dim == axis.dim and axis.tile not in (None, 1) and not self._axes_in(expr.right)
        return sized and number(self.scope, expr.right) == axis.tile

    def _axes_in(self, expr: ast.Expr) -> list[ast.Name]:
        """The names in an expression that are axes."""
        return [name for name in names(expr) if self.is_axis(name.id)]

    def _through(self, expr: ast.Access) -> Index:
        """`ROW[m]`: the places that a tensor of i32 holds along an axis."""
        name = expr.name
        if name.id not in self.scope.tensors:
            raise self.scope.error(
                "E200", f"`{name.id}` is not a global tensor", name.span,
                fix=f"declare it: `global {name.id} : i32[...]`", known=self.scope.tensors,
            )  # fmt: skip
        holding = self.scope.tensors[name.id]
        if holding.dtype is not DType.I32:
            raise self.scope.error(
                "E233", f"`{name.id}` holds {holding.dtype.spelling}, but positions are i32", name.span,
                secondary=(Label(holding.span, "declared here"),),
                fix=f"declare it as `global {name.id} : i32[...]`",
            )  # fmt: skip
        if (page := self._page(holding, expr)) is not None:
            return page
        access = self.access(holding, expr.indices, expr.span)
        axes = [i.axis for i in access.indices if i.axis is not None]
        if len(axes) != 1 or access.axes != tuple(axes) or axes[0].kind is AxisKind.WHOLE or access.indices[-1].through:
            fix = Fix("index it with one axis that has tiles, and otherwise with numbers: `ROW[m]`, `SLOT[t, 0]`")
            if len(axes) == 1 and axes[0].is_index and len(access.indices) == 1 and access.indices[0].divisor == 1:
                fix = suggestions.tiles_of_one(axes[0]) or fix
            raise self.scope.error(
                "E233", f"`{expr.span.text}` does not have one position for each position of one axis", expr.span,
                fix=fix,
            )  # fmt: skip
        return Index(axes[0], through=access)

    def _page(self, table: Tensor, expr: ast.Access) -> Index | None:
        """`PAGES[b, j / 64]`: the page of a loop's tile, as a table of i32 has it; None where nothing is divided."""
        last = expr.indices[-1] if expr.indices else None
        if not isinstance(last, ast.Binary) or last.op != "/" or not isinstance(last.left, ast.Name):
            return None
        axis = self.named(last.left) if self.is_axis(last.left.id) else None
        if axis is None or axis.kind is not AxisKind.SEQUENTIAL:
            return None
        places = positive(self.scope, last.right, "the positions of a page")
        before = [
            self._index(table, dim, e, expr.indices, False)
            for dim, e in zip(table.dims, expr.indices[:-1], strict=False)
        ]
        moved = axis.is_moved or any(i.extends or i.through is not None for i in before)
        if len(expr.indices) != len(table.dims) or moved or places % (axis.tile or 1):
            raise self.scope.error(
                "E233", f"`{expr.span.text}` does not have one page for each tile of `{axis.name}`", expr.span,
                f"tiles are of {axis.tile}", secondary=(Label(axis.span, "the axis"),) if axis.span else (),
                fix=f"make the page a multiple of {axis.tile} positions, and index the table with axes without tiles",
            )  # fmt: skip
        dim, size = table.dims[-1], axis.dim.size
        if dim.size is None or size is None or dim.size * places < size:
            raise self.scope.error(
                "E233", f"`{table.name}` does not have one page for each {places} positions of "
                        f"`{axis.name}`", expr.span,
                f"`{dim.name}` is {dim.size or 'dynamic'}, `{axis.dim.name}` {size or 'dynamic'}",
                secondary=(Label(table.span, "declared here"),),
                fix=f"declare `dims {dim.name} = ceil_div({axis.dim.name}, {places})`, both known at build time",
            )  # fmt: skip
        return Index(axis, through=Access(table, (*before, Index(axis, places, numbered=places == 1))))

    def _in_page(self, tensor: Tensor, dim: Dim, expr: ast.Expr, page: Index) -> Index:
        """`j % 64`, after the index of its page."""
        assert page.axis is not None and page.through is not None
        places, name = page.through.indices[-1].divisor, page.axis.name
        rest = isinstance(expr, ast.Binary) and expr.op == "%" and expr
        of = rest and isinstance(rest.left, ast.Name) and rest.left.id == name
        if not rest or not of or number(self.scope, rest.right) != places or dim.size != places:
            raise self.scope.error(
                "E233", f"`{expr.span.text}` is not the position in a page of {places}", expr.span,
                f"`{dim.name}` is {dim.size or 'dynamic'}", secondary=(Label(tensor.span, "declared here"),),
                fix=f"the index after a page is `{name} % {places}`, for a dimension of {places}",
            )  # fmt: skip
        return Index(page.axis, places, remainder=True)

    def _misfit(self, tensor: Tensor, dim: Dim, axis: Axis, expr: ast.Expr, beside: tuple[ast.Expr, ...]) -> Stop:
        every = [a.name for a in self.found.values() if a.dim == dim and a.kind is not AxisKind.WHOLE]
        fitting = [name for name in every if name not in {i.span.text for i in beside}]
        text = expr.span.file.text
        start = text.rfind("[", 0, beside[0].span.start) - len(tensor.name)
        whole = Span(expr.span.file, start, text.find("]", beside[-1].span.end) + 1)
        swapped = suggestions.swapped(tensor, beside, self.found, whole) if whole.text.startswith(tensor.name) else None
        fix = Fix(f"declare an axis of `{dim.name}`, or change the shape of `{tensor.name}`")
        if every:
            shape = f"{tensor.name}[{', '.join(d.name for d in tensor.dims)}]"
            fix = swapped or Fix(
                f"write the indices in the order of `{shape}`; for an operand, also add or remove `.T`"
            )
        if fitting:
            fix = Fix(f"write `{fitting[0]}`, which runs over `{dim.name}`", (Edit(expr.span, fitting[0]),), False)
        elif axis.is_index and dim.size and (axis.dim.size or 0) > dim.size and (axis.dim.size or 0) % dim.size == 0:
            text = f"{axis.name} / {(axis.dim.size or 0) // dim.size}"
            fix = Fix(f"write `{text}`, which runs over `{dim.name}`", (Edit(expr.span, text),), False)
        return self.scope.error(
            "E223", f"`{axis.name}` runs over `{axis.dim.name}`, this dimension of `{tensor.name}` is `{dim.name}`",
            expr.span, f"along `{dim.name}`",
            secondary=(Label(tensor.span, "declared here"), *((Label(axis.span, "the axis"),) if axis.span else ())),
            fix=fix,
        )  # fmt: skip

    def _divided(self, tensor: Tensor, dim: Dim, expr: ast.Binary, axis: Axis, stored: bool) -> Index:
        """`h / GROUP`, or the number of a tile: `n / 128`, of what is loaded `k / 128`, too."""
        by_tile = axis.tile is not None
        if expr.op != "/" or not (axis.is_index or by_tile):
            fix = Fix("an index is an axis, an index axis divided by a number, or a sum of axes times numbers")
            if expr.op == "*":
                fix = suggestions.written(expr.span, axis.name, ": the axis counts its tiles")
            what = f"`{axis.name}` has tiles" if expr.op == "/" else f"`{axis.name}` is an axis"
            raise self.scope.error("E223", f"`{expr.span.text}` is no index", expr.span, what, fix=fix)
        divisor = positive(self.scope, expr.right, "the divisor of an index")
        if axis.is_moved:
            raise self.scope.error(
                "E232", f"`{expr.span.text}` is the same position in every group", expr.span, "each group counts its "
                                                                                              "tiles from 0",
                secondary=(Label(axis.span, "ragged"),) if axis.span else (),
                fix="store a result for each row, or reduce along another axis",
            )  # fmt: skip
        weights = any(t.dtype.whole and t.dtype.bits <= 8 for t in self.scope.tensors.values())
        blocks = tensor.dtype is DType.E8M0 or weights  # scales of blocks of factors, or what these are made of
        blocks = blocks and axis.kind is AxisKind.SEQUENTIAL and (axis.tile or 1) % divisor == 0
        if by_tile and divisor != axis.tile and not blocks:
            assert isinstance(expr.left, ast.Name)
            text = f"{expr.left.id} / {axis.tile}"
            raise self.scope.error(
                "E223", f"`{expr.span.text}` is not the number of a tile of `{axis.name}`", expr.span,
                f"its tiles have {axis.tile} positions",
                secondary=(Label(axis.span, "the axis"),) if axis.span else (),
                fix=Fix(f"write `{text}`", (Edit(expr.span, text),), False),
            )  # fmt: skip
        places = None if axis.dim.size is None else -(-axis.dim.size // divisor)
        exact = by_tile or (axis.dim.size or 0) % divisor == 0
        if dim.size != places or not exact:  # of two dynamic ones only run time knows
            sizes = f"{axis.dim.size or 'dynamic'} / {divisor} places, `{dim.name}` has {dim.size or 'dynamic'}"
            count = f"{axis.dim.name} / {dim.name}"
            raise self.scope.error(
                "E223", f"`{expr.span.text}` does not run over `{dim.name}` of `{tensor.name}`", expr.span, sizes,
                secondary=(Label(tensor.span, "declared here"),),
                fix=f"declare `{dim.name} = ceil_div({axis.dim.name}, {divisor})`" if by_tile
                else f"divide by {count}, such that the result is an integer",
            )  # fmt: skip
        return Index(axis, divisor, numbered=axis.tile == 1)


def _is_length(expr: ast.Expr) -> bool:
    """Return True if it is `length(AXIS)`."""
    return isinstance(expr, ast.Call) and expr.name.id == LENGTH and len(expr.args) == 1


def names(expr: ast.Expr) -> list[ast.Name]:
    """The names in an expression, those of functions aside."""
    match expr:
        case ast.Name():
            return [expr]
        case ast.Binary(left=left, right=right):
            return names(left) + names(right)
        case ast.Unary(operand=operand) | ast.Transposed(operand=operand):
            return names(operand)
        case ast.Call(args=args):
            return [n for a in args for n in names(a)]
        case ast.Access(name=name, indices=indices):
            return [name, *(n for i in indices for n in names(i))]
    return []
