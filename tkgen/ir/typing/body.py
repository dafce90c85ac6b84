"""The lines of a kernel of equations, in order: definitions, loops with what they carry, stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tkgen.diagnostics import Edit, Fix, Label
from tkgen.diagnostics.edits import after_body, without_statement
from tkgen.ir.affine import apart
from tkgen.ir.equations import Access, Axis, AxisKind, Carry, Chosen, Kind, Loop, Product, Store, Update, Value, When
from tkgen.ir.resolve.names import Stop
from tkgen.ir.resolve.sizes import element
from tkgen.ir.types import DType
from tkgen.ir.typing import suggestions
from tkgen.ir.typing.axes import names
from tkgen.ir.typing.expressions import Expressions, Named, Tile
from tkgen.ir.typing.stores import check_type, check_word, unproven
from tkgen.ir.typing.vocabulary import WORDS, axes_text
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.syntax.statements import flatten
from tkgen.syntax.tree import MAX_LOOPS


@dataclass
class Body:
    """Types statements into the operations of `at`."""

    at: Expressions
    declared: dict[str, ast.Carried] = field(default_factory=dict)  # `carry` lines that no loop has taken up yet
    handed: frozenset[str] = frozenset()  # what the loop hands from pass to pass: that is looked at where a pass ends

    def whole(self, body: Iterable[ast.Statement]) -> None:
        """The body of a kernel."""
        self.at.later = assignments(body)
        self.at.numbered = frozenset(_numbered(body))
        self.statements(body)
        self._all_updated()

    def statements(self, body: Iterable[ast.Statement], loop: ast.Each | None = None) -> None:
        """Each of them, of the body of `loop` if there is one; a wrong one keeps the others from its name only."""
        for statement in flatten(body):
            with suppress(Stop):
                match statement:
                    case ast.Carry(values=values):
                        for carried in values:
                            with suppress(Stop):
                                self._carried(carried)
                    case ast.Equation(target=ast.Name() as name, value=value):
                        self._definition(name, value)
                    case ast.Equation(target=ast.Access() as target):
                        self._store(target, statement)
                    case ast.Each():
                        self._loop(statement)
                    case ast.When():
                        self._when(statement)
                    case _ if loop is not None:
                        raise self._stray(statement, loop)

    def _stray(self, statement: ast.Statement, loop: ast.Each) -> Stop:
        word = statement.span.text.split()[0]
        return self.at.scope.error(
            "E222", f"`{word}` is in a loop, where only equations are allowed", statement.span,
            secondary=(Label(loop.span, "the loop"),), fix="move it before the loop, and indent it like `each`",
        )  # fmt: skip

    # ------------------------------------------------------------ definitions

    def _free(self, name: ast.Name) -> None:
        """E202 where a value would have the name of something that is declared."""
        scope = self.at.scope
        if name.id not in scope.declared:
            return
        fix = Fix("give the value another name")
        if name.id in scope.tensors:
            part = suggestions.part(name, scope.tensors[name.id], tuple(self.at.axes.found.values()))
            fix = part or Fix(f"store it: `{name.id}[...] = ...`; or give the value another name")
        raise scope.error(
            "E202", f"`{name.id}` is declared already, so no value can have this name", name.span, "defined here",
            secondary=(Label(scope.declared[name.id], "declared here"),), fix=fix,
        )  # fmt: skip

    def _definition(self, name: ast.Name, value: ast.Expr) -> None:
        at = self.at
        before = at.names.get(name.id)
        if name.id in at.scope.broken:  # a statement that cannot be read may define it
            at.broken.add(name.id)
        self._free(name)
        try:
            tile = at.expr(value, name.id)
        except Stop:
            at.broken.add(name.id)
            raise
        if (
            before is not None
            and name.id not in self.handed
            and (set(before.tile.axes), before.tile.value.kind) != (set(tile.axes), tile.value.kind)
        ):
            was, now = axes_text(before.tile.axes), axes_text(tile.axes)
            raise at.scope.error(
                "E225", f"`{name.id}` was {was}, and would be {now} here", name.span, now,
                secondary=(Label(before.span, was),), fix="give the new value another name",
            )  # fmt: skip
        at.names[name.id] = Named(tile, name.span)
        at.broken.discard(name.id)
        at.defined.append((name, tile.value))

    def _carried(self, carried: ast.Carried) -> None:
        """A `carry` line: the name stands for what it starts with until a loop takes it up."""
        at, name = self.at, carried.name
        self._free(name)
        try:
            if name.id in at.names:
                raise at.scope.error(
                    "E202", f"`{name.id}` has a value already", name.span, "declared again here",
                    secondary=(Label(at.names[name.id].span, "first defined here"),),
                    fix="remove one of the two: a loop carries a value that is defined before it",
                )  # fmt: skip
            if element(at.scope, carried.dtype) is not DType.F32:
                raise at.scope.error(
                    "E204", f"a carried value is f32, not {carried.dtype.id}", carried.dtype.span,
                    fix=Fix("write `f32`; convert where it is used", (Edit(carried.dtype.span, "f32"),)),
                )  # fmt: skip
            axes = tuple(self._axis(axis) for axis in carried.axes)
            initial = at.number(carried.initial, "`carry`")
            if not set(initial.axes) <= set(axes):
                raise at.scope.error(
                    "E225", f"`{name.id}` is {axes_text(axes)}, but starts as {axes_text(initial.axes)}",
                    carried.initial.span, axes_text(initial.axes), fix="make both have the same axes",
                )  # fmt: skip
        except Stop:
            at.broken.add(name.id)
            raise
        at.names[name.id] = Named(Tile(initial.value, axes), name.span)
        self.declared[name.id] = carried

    def _axis(self, name: ast.Name) -> Axis:
        """An axis of a `carry` line: one of `over` with tiles, or a dimension that is taken whole."""
        at = self.at
        if at.axes.is_axis(name.id):
            axis = at.axes.named(name)
            if not axis.is_index:
                return axis
            raise at.scope.error(
                "E225", f"a tile has no extent along `{name.id}`, which is an index", name.span,
                secondary=(Label(axis.span, "declared here, without `by`"),) if axis.span else (), fix="leave it out",
            )  # fmt: skip
        if name.id in at.scope.dims:
            return at.axes.whole(at.scope.dims[name.id], name.span)
        if name.id in at.axes.flattened.digits:
            raise at.axes.flattened.no_number(at.scope, name)
        raise at.scope.error(
            "E200", f"`{name.id}` is neither an axis nor a dimension", name.span,
            fix="name one of these", known=[*at.axes.found, *at.scope.dims],
        )  # fmt: skip

    # ------------------------------------------------------------ loops

    def _loop(self, loop: ast.Each) -> None:
        at = self.at
        assigned = assignments(loop.body)
        try:
            axis = at.axes.each(loop)
            if len(at.axes.active) == MAX_LOOPS:
                raise at.scope.error("E110", f"loops nest more than {MAX_LOOPS} deep", loop.span,
                                     fix="loop over fewer axes")  # fmt: skip
        except Stop:
            self._without_axis(loop)
            at.broken |= assigned.keys()
            self.declared = {name: carried for name, carried in self.declared.items() if name not in assigned}
            raise
        own = [s for s in flatten(loop.body) if isinstance(s, ast.Equation) and isinstance(s.target, ast.Name)]
        first = {s.target.id: s for s in own[::-1] if isinstance(s.target, ast.Name)}
        for name, equation in reversed(first.items()):
            if name not in at.names and _adds_to(name, equation.value):
                at.names[name] = Named(at.constant(0.0, equation.target.span), equation.target.span)
        carried = [name for name in assigned if name in at.names and name not in at.scope.declared]
        inside = {name: at.names[name].tile.axes for name in carried}
        if any(not axes and name not in self.declared for name, axes in inside.items()):
            inside |= self._found_axes(loop, axis, inside)
        self._pass(loop, axis, inside)

    def _without_axis(self, loop: ast.Each) -> None:
        """Names and functions of a loop's body that exist nowhere, where the loop itself is wrong."""
        at = self.at.trial()
        at.scope.broken |= {part.name.id for part in loop.parts or (loop,)}
        Body(at).statements(loop.body, loop)
        self.at.scope.errors += [d for d in at.scope.errors if d.code == "E200"]

    def _when(self, when: ast.When) -> None:
        """Definitions that hold for some tiles: outside, each name stands for what its tile has."""
        at = self.at
        outer, ops, known = dict(at.names), at.ops, dict(at.known)
        try:
            condition = at.truth(when.condition, "`when any`")
        except Stop:
            at.broken |= assignments(when.body).keys()
            raise
        at.ops = []
        for statement in flatten(when.body):
            with suppress(Stop):
                match statement:
                    case ast.Equation(target=ast.Name() as target, value=value):
                        self._definition(target, value)
                    case _:
                        raise self._not_chosen(statement, when)
        body, at.ops, at.known = tuple(at.ops), ops, known
        ended, at.names = at.names, outer
        chosen = []
        for name in [n for n in outer if ended[n] is not outer[n]]:
            before, after = outer[name].tile, ended[name].tile
            with suppress(Stop):
                if set(before.axes) != set(after.axes) or after.value.kind is Kind.PREDICATE:
                    was, now = axes_text(before.axes), axes_text(after.axes)
                    at.broken.add(name)
                    raise at.scope.error(
                        "E225", f"`{name}` was {was}, but would be {now} if the condition holds", ended[name].span,
                        now, secondary=(Label(outer[name].span, was),), fix="make both have the same axes",
                    )  # fmt: skip
                result = at.value(after.axes, ended[name].span, name)
                chosen.append(Chosen(before.value, after.value, result))
                at.names[name] = Named(Tile(result, after.axes), ended[name].span)
        at.gone |= {n: (None, named.span) for n, named in ended.items() if n not in outer}
        at.ops.append(When(condition.value, tuple(chosen), body, when.span))

    def _not_chosen(self, statement: ast.Statement, when: ast.When) -> Stop:
        word = statement.span.text.split()[0]
        return self.at.scope.error(
            "E222", f"`{word}` is under `when any`, where only definitions are allowed", statement.span,
            secondary=(Label(when.span, "the condition"),),
            fix="assign the new value here, and use it after `when any`",
        )  # fmt: skip

    def _found_axes(
        self, loop: ast.Each, axis: Axis, inside: dict[str, tuple[Axis, ...]]
    ) -> dict[str, tuple[Axis, ...]]:
        """The axes of those values that start as one number: those which they have after an iteration."""
        free = [name for name, axes in inside.items() if not axes and name not in self.declared]
        for _ in range(2):  # the second pass sees sums of sums
            ends = Body(self.at.trial(), dict(self.declared), self.handed)._pass(loop, axis, inside)
            inside = inside | {name: ends[name] for name in free}
        return {name: inside[name] for name in free}

    def _pass(self, loop: ast.Each, axis: Axis, inside: dict[str, tuple[Axis, ...]]) -> dict[str, tuple[Axis, ...]]:
        """Type the loop's body, and make the loop of it; `inside` are the axes of what it carries.

        Returns the axes that it leaves an iteration with.
        """
        at = self.at
        outer, ops, known, open_before = dict(at.names), at.ops, dict(at.known), dict(self.declared)
        values: dict[str, Value] = {}
        for name, axes in inside.items():
            values[name] = at.value(axes, at.names[name].span, name)
            at.names[name] = Named(Tile(values[name], axes), at.names[name].span)
            open_before.pop(name, None)
        at.ops = []
        at.axes.active.append(axis)
        self.declared, handed, self.handed = {}, self.handed, frozenset(inside)
        self.statements(loop.body, loop)
        self._all_updated()
        self.declared, self.handed = open_before, handed
        at.axes.active.pop()
        body, at.ops, at.known = tuple(at.ops), ops, known
        carries = []
        ended, at.names = at.names, outer
        for name, value in values.items():
            update = ended[name].tile
            with suppress(Stop):
                self._same_axes(name, value, update, ended[name].span, axis)
                result = at.value(value.axes, outer[name].span, name)
                carries.append(Carry(outer[name].tile.value, value, update.value, result))
                at.names[name] = Named(Tile(result, value.axes), ended[name].span)
        at.gone |= {n: (axis, named.span) for n, named in ended.items() if n not in outer}
        at.ops.append(Loop(axis, tuple(carries), body, loop.span))
        return {name: ended[name].tile.axes for name in inside}

    def _same_axes(self, name: str, value: Value, update: Tile, at: Span, axis: Axis) -> None:
        """E225 where an iteration does not hand on what it was handed."""
        if set(update.axes) == set(value.axes) and axis not in update.axes and update.value.kind is Kind.NUMBER:
            return
        self.at.broken.add(name)
        was, now = axes_text(value.axes), axes_text(update.axes)
        message = f"`{name}` is {was} at the start of an iteration, but {now} at its end"
        fix = f"make both have the same axes, as with `carry {name} : f32{now} = ...`"
        if update.value.kind is not Kind.NUMBER:
            message = f"`{name}` is {WORDS[update.value.kind]} at the end of the iteration, but a loop carries numbers"
            fix = "convert it: `where(x, 1, 0)` for a condition, `f32(q)` for a position"
        elif axis in update.axes:
            message = f"`{name}` has the loop's own axis `{axis.name}`, so the next iteration cannot use it"
            fix = "reduce it, or use another name in the loop"
        raise self.at.scope.error("E225", message, at, now, fix=fix)

    def _all_updated(self) -> None:
        """E227 for `carry` lines that no loop took up."""
        for carried in self.declared.values():
            name = carried.name
            self.at.scope.error(
                "E227", f"no loop assigns `{name.id}` a new value", carried.span, "carried in vain",
                fix=f"define `{name.id} = ...` within a loop, or name the value without `carry`",
            )  # fmt: skip

    # ------------------------------------------------------------ stores

    def _store(self, target: ast.Access, equation: ast.Equation) -> None:
        at, value = self.at, equation.value
        update = Update(equation.update or "=")
        name = target.name
        at.scope.usable(name)
        if name.id not in at.scope.tensors:
            fix = f"name it without an index: `{name.id} = ...`" if name.id in at.names else "declare it with `global`"
            raise at.scope.error(
                "E200", f"`{name.id}` is not a global tensor, and only those are stored to", name.span, fix=fix,
                known=at.scope.tensors,
            )  # fmt: skip
        if at.axes.holds_places(at.scope.tensors[name.id]):
            raise at.scope.error("E204", f"`{name.id}` is an i32 tensor of positions, but equations store "
                                         "floats", name.span, "i32",
                                 fix="store to a tensor of f32, bf16 or f16")  # fmt: skip
        access: Access | None = None
        with suppress(Stop):
            access = at.axes.access(at.scope.tensors[name.id], target.indices, target.span, stored=True)
        product = isinstance(value, ast.Binary) and value.op == "@"
        plain = update is Update.SET or (access is not None and access.computed and not product)
        one = access is not None and not access.axes
        tile, over = (at.number(value, "a store"), None) if plain else self._added(value, update, one)
        if access is None:
            return
        check_word(at, equation, access, update)
        if not plain and access.tensor.dtype is not DType.F32:
            raise at.scope.error(
                "E204", f"blocks add to `{access.tensor.name}`, which is {access.tensor.dtype.spelling}", target.span,
                secondary=(Label(access.tensor.span),) if access.tensor.span else (),
                fix="add to a tensor of f32, and round it in a later kernel",
            )  # fmt: skip
        check_type(at, access, update, target.span)
        if access.tensor.dtype.packed and not access.tensor.dtype.in_blocks:
            raise at.scope.error(
                "E204", f"`{access.tensor.name}` is {access.tensor.dtype.spelling}, but no kernel packs values yet",
                target.span, secondary=(Label(access.tensor.span),),
                fix="store i8, and pack it with `tkgen.packing.pack`",
            )  # fmt: skip
        if set(tile.axes) != set(access.axes) and not (access.computed and set(tile.axes) < set(access.axes)):
            raise self._misfit(target, access, tile, value)
        self._once(access, target, update, over)
        self._after_reads(access, target, update is not Update.SET)
        at.stores.append((access, target.span, update))
        distinct = equation.distinct and bool(unproven(access))
        at.ops.append(Store(access, tile.value, update, distinct, equation.span))

    def _added(self, value: ast.Expr, update: Update, one: bool) -> tuple[Tile, Axis | None]:
        """Type the right side of `+=`, such as `p.T @ K[j]`; return the axis over whose tiles blocks sum, too.

        `one`: it is stored as one number, for all blocks or each index of `over`.
        """
        at = self.at
        if one and not (isinstance(value, ast.Binary) and value.op == "@"):
            raise at.scope.error(
                "E226", f"`{update.value}` to one number would combine the results of blocks in no fixed order",
                value.span, "one result for each block",
                fix="store a result for each block, `over p in PARTS` and `P[p] = s`, and reduce these in a second "
                    "kernel of a `sequence`: `Y[0] = sum(P)`",
            )  # fmt: skip
        if update is not Update.ADD:
            raise at.scope.error(
                "E226", f"`{update.value}` combines one value with each element", value.span, "no position is computed",
                fix="write `=`, or reduce the value before",
            )  # fmt: skip
        if isinstance(value, ast.Binary) and value.op == "@":
            tile = at.added_product(value)
            made = at.ops[-1]
            if isinstance(made, Product) and made.axis.kind is AxisKind.PARALLEL:
                return tile, made.axis
        raise at.scope.error(
            "E226", "`+=` adds a sum of each block over its own tile, but this is not such a sum", value.span,
            fix=self._plain(value),
        )  # fmt: skip

    def _plain(self, value: ast.Expr) -> Fix:
        """`=` for the `+=` in front of a value."""
        text = "add a product over an axis of `over` with `by`: `T[q] += bf16(p) @ K[j]`; store others with `=`"
        start = value.span.file.text.rfind("+=", 0, value.span.start)
        return Fix(text, (Edit(Span(value.span.file, start, start + 2), "="),), certain=False)

    def _misfit(self, target: ast.Access, access: Access, tile: Tile, value: ast.Expr) -> Stop:
        over = [a.name for a in tile.axes if a not in access.axes]
        return self.at.scope.error(
            "E225", f"`{target.span.text}` has {_counted(access.axes)}; the value stored has {_counted(tile.axes)}",
            target.span, axes_text(access.axes), secondary=(Label(value.span, axes_text(tile.axes)),),
            fix=self._unindexed(access, over, value) or self._part(target, access, tile)
            or self._of_one(target, access, tile) or _named_count(access, tile)
            or "make both have the same axes: index the tensor, or reduce the value",
        )  # fmt: skip

    def _part(self, target: ast.Access, access: Access, tile: Tile) -> Fix | None:
        """`O[h, q]` for `O[h]`, where the value has the axis that runs over the next dimension."""
        places = [a for a in self.at.axes.found.values() if a.kind is AxisKind.PARALLEL]
        indices = suggestions.axes_of(access.tensor.dims, places)
        lacking = indices[len(target.indices) :]
        if not lacking or not {*lacking} <= {a.name for a in tile.axes}:
            return None
        written = ", ".join([*(i.span.text for i in target.indices), *lacking])
        return suggestions.written(target.span, f"{target.name.id}[{written}]", ": the part for this tile")

    @staticmethod
    def _of_one(target: ast.Access, access: Access, tile: Tile) -> Fix | None:
        """`Y[0]` for `Y[o]` along a dimension of one position, or `sum(x)` for a tile that is stored as one number."""
        lacking = [a.name for a in access.axes if a not in tile.axes]
        over = set(tile.axes) - set(access.axes)
        if lacking and not over and all(a.dim.size == 1 for a in access.axes if a.name in lacking):
            edits = tuple(Edit(i.span, "0") for i in target.indices if i.span.text in lacking)
            shown = ", ".join("0" if i.span.text in lacking else i.span.text for i in target.indices)
            if len(edits) == len(lacking):
                return Fix(f"write `{target.name.id}[{shown}]`, the one position that there is", edits)
        if over and not access.axes:
            return Fix("reduce it to one number: `sum(x)`, `mean(x)`, `max(x)` or `min(x)`")
        return None

    def _unindexed(self, access: Access, over: Sequence[str], value: ast.Expr) -> Fix | None:
        """A fix where a value, or a sum that it is of, reads a tensor whole: `c + bias` for `c + bias[n]`, `A @ B`."""
        axes, tensors = tuple(self.at.axes.found.values()), self.at.scope.tensors
        equations = [s for s in _equations(self.at.scope.kernel.body) if isinstance(s.target, ast.Name)]
        sums = [
            s.value for s in equations if isinstance(s.target, ast.Name) and s.target.id in {n.id for n in names(value)}
        ]
        fixes = []
        for name in (n for part in (value, *sums) for n in names(part) if n.id in tensors):
            bare = name.span.file.text[name.span.end : name.span.end + 1] != "["
            if bare and any(d.name in over for d in tensors[name.id].dims):
                fixes.append(suggestions.part(name, tensors[name.id], axes))
        found = [f for f in fixes if f is not None]
        if len(found) < 2:
            return found[0] if found else None
        texts = " and ".join(dict.fromkeys(f"`{edit.text}`" for f in found for edit in f.edits))
        edits = tuple(edit for f in found for edit in f.edits)
        return Fix(f"write {texts}: the parts for this tile", edits, certain=False)

    def _once(self, access: Access, target: ast.Access, update: Update, over: Axis | None = None) -> None:
        """E602 where several blocks, passes or stores write one element; blocks along `over` add to it."""
        at = self.at
        for other, stored, before in at.stores:
            together = update is before and update is not Update.SET and over is None
            if other.tensor is access.tensor and not together and not apart(other, access):
                raise at.scope.error(
                    "E602", f"`{access.tensor.name}` is stored twice", target.span,
                    "every element would be written twice",
                    secondary=(Label(stored, "first stored here"),),
                    fix=Fix("remove one of the stores", without_statement(stored), certain=False),
                )  # fmt: skip
        full = [i.axis for i in access.indices if i.axis is not None and i.divisor in (1, i.axis.tile)]
        full += [axis for i in access.indices if i.terms for axis in i.axes]  # `check_word` has seen to these
        full += [at.axes.found[a.within.of] for a in full if a.within]  # groups have no place in common
        parallel = [a for a in at.axes.found.values() if a.kind is AxisKind.PARALLEL and not a.is_one_tile]
        for axis in [*parallel, *at.axes.active]:
            if axis not in full and axis != over:
                who = "iteration" if axis.kind is AxisKind.SEQUENTIAL else "block"
                fix = Fix(f"index a dimension with `{axis.name}`")
                if who == "iteration":
                    edits = after_body(target.span, axis.span) if axis.span and axis is at.axes.active[-1] else ()
                    fix = Fix("move the store after the loop", edits, certain=False)
                    if target.span.file.text.count(f"{target.span.text} =") > 1:
                        fix = Fix("remove one of the stores", without_statement(target.span), certain=False)
                raise at.scope.error(
                    "E602", f"every {who} along `{axis.name}` writes `{target.span.text}`, each with a different value",
                    target.span, f"no `{axis.name}`",
                    secondary=(Label(axis.span, "declared here"),) if axis.span else (), fix=fix,
                )  # fmt: skip

    def _after_reads(self, access: Access, target: ast.Access, adds: bool) -> None:
        """E228 where a tensor is stored to at another place than it was read from, maybe another block's."""
        for read, where in self.at.loads:
            if adds and read.tensor is access.tensor:
                raise self.at.scope.error(
                    "E228", f"blocks add to `{access.tensor.name}`, which the kernel reads", target.span,
                    "the value read depends on which blocks have finished",
                    secondary=(Label(where, "read here"),), fix="add to another tensor",
                )  # fmt: skip
            if read.tensor is access.tensor and read != access and not apart(read, access):
                raise self.at.scope.error(
                    "E228", f"`{access.tensor.name}` is read at one place and stored to at another", target.span,
                    "another block may not have read it yet",
                    secondary=(Label(where, "read here"),), fix="store to the position that was read, or to another "
                                                                "tensor",
                )  # fmt: skip


def _equations(body: Iterable[ast.Statement]) -> Iterator[ast.Equation]:
    """The equations of a body, those of its loops included."""
    for statement in flatten(body):
        match statement:
            case ast.Equation():
                yield statement
            case ast.Each(body=inner) | ast.When(body=inner):
                yield from _equations(inner)


def _counted(axes: tuple[Axis, ...]) -> str:
    """`axis [q]`, `axes [q, D]`, `no axes`."""
    return f"ax{'i' if len(axes) == 1 else 'e'}s {axes_text(axes)}" if axes else "no axes"


def _named_count(access: Access, tile: Tile) -> str | None:
    """The fix for `topk(x, 8)` stored along a dimension of 8 elements, whose name it should say."""
    lacking, over = ([a for a in one if a not in other] for one, other in
                     ((access.axes, tile.axes), (tile.axes, access.axes)))  # fmt: skip
    if len(lacking) != 1 or len(over) != 1 or str(lacking[0].dim.size) != over[0].name:
        return None
    return f"name the dimension in place of the number {over[0].name}: `topk(x, {lacking[0].name})`"


def assignments(body: Iterable[ast.Statement]) -> dict[str, Span]:
    """The names that a loop's body defines, loops within it included, in order, and where first."""
    found: dict[str, Span] = {}
    for statement in flatten(body):
        match statement:
            case ast.Equation(target=ast.Name() as name):
                found.setdefault(name.id, name.span)
            case ast.Each(body=inner) | ast.When(body=inner):
                found = assignments(inner) | found
    return found


def _numbered(body: Iterable[ast.Statement]) -> Iterator[str]:
    """The axes by whose tiles stores index: `R[m, n / 128] = ...`."""
    for statement in flatten(body):
        match statement:
            case ast.Equation(target=ast.Access(indices=indices)):
                for index in indices:
                    if isinstance(index, ast.Binary) and index.op == "/" and isinstance(index.left, ast.Name):
                        yield index.left.id
            case ast.Each(body=inner):
                yield from _numbered(inner)


def _adds_to(name: str, value: ast.Expr) -> bool:
    """Return True if a definition is a sum of which one term is the name itself: `g = g + a @ b`."""
    terms = list(_terms(value))
    own = [t for t in terms if isinstance(t, ast.Name) and t.id == name]
    return len(own) == 1 and [n.id for n in names(value)].count(name) == 1 and len(terms) > 1


def _terms(value: ast.Expr) -> Iterator[ast.Expr]:
    """The terms of a sum; of a difference, those that are added."""
    match value:
        case ast.Binary(op="+", left=left, right=right):
            yield from _terms(left)
            yield from _terms(right)
        case ast.Binary(op="-", left=left):
            yield from _terms(left)
            yield value
        case _:
            yield value
