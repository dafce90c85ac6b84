"""Expressions of equations as operations on values.

A tile here is a value with the order of its axes: `.T` swaps them, `@`, `rowsum` and `colsum` go by them, and nothing
else does, since values are named-axis tiles. Parts of tensors, products and `.T` state an order; what is made of tiles
of one axis, such as the mask `j > q`, states none: its operands may be swapped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tkgen.diagnostics import Edit, Fix, Label
from tkgen.ir.affine import apart
from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    AxisKind,
    Constant,
    Convert,
    Coordinate,
    Extent,
    Kind,
    Load,
    Map,
    Op,
    Product,
    Update,
    Value,
)
from tkgen.ir.functions import FUNCTIONS, Function
from tkgen.ir.resolve.names import Scope, Stop
from tkgen.ir.resolve.sizes import ELEMENTS, element, real
from tkgen.ir.types import DType
from tkgen.ir.typing import suggestions
from tkgen.ir.typing.axes import LENGTH, Axes, Partial
from tkgen.ir.typing.functions import no_value, wrong_call
from tkgen.ir.typing.mixed_factors import mixed_factors
from tkgen.ir.typing.reduced import reduced_to_one, reduction
from tkgen.ir.typing.scanned import scanned
from tkgen.ir.typing.sorted import sorted_
from tkgen.ir.typing.summed import SUMMED, summed
from tkgen.ir.typing.vocabulary import (
    BINARY,
    CALLS,
    CONSTANTS,
    LARGEST,
    OPPOSITE,
    PLACE,
    REDUCTIONS,
    SCANS,
    SORTED,
    UNARY,
    WORDS,
    axes_text,
    fast_form,
)  # fmt: skip
from tkgen.source import Span
from tkgen.syntax import ast, habits
from tkgen.targets import mixes_fp8

MOST_EXPANSIONS = 2000  # calls of a kernel: functions of functions multiply


@dataclass(frozen=True)
class Tile:
    """A value, and the order of its axes where it is used; `stated`: something in it says this order."""

    value: Value
    axes: tuple[Axis, ...]
    stated: bool = True


@dataclass(frozen=True)
class Named:
    """The tile of a name, and the place of its definition."""

    tile: Tile
    span: Span


@dataclass
class Expressions:
    """Turns expressions into operations, appended to `ops`; `names` are those defined so far."""

    scope: Scope
    axes: Axes
    ops: list[Op] = field(default_factory=list)
    names: dict[str, Named] = field(default_factory=dict)
    gone: dict[str, tuple[Axis | None, Span]] = field(default_factory=dict)  # names of loops (or conditions) behind us
    loads: list[tuple[Access, Span]] = field(default_factory=list)
    stores: list[tuple[Access, Span, Update]] = field(default_factory=list)
    known: dict[object, Value] = field(default_factory=dict)  # leaves that have a value here: each is loaded once
    defined: list[tuple[ast.Name, Value]] = field(default_factory=list)
    later: dict[str, Span] = field(default_factory=dict)  # what the body at hand defines, maybe further down
    broken: set[str] = field(default_factory=set)  # names whose definition is already reported
    count: int = 0
    numbered: frozenset[str] = frozenset()  # axes of which some store says the tile: `n / 128`
    partial: list[Partial] = field(default_factory=list)
    expansions: int = 0  # of the spec's own functions

    def trial(self) -> Expressions:
        """A copy that things can be tried on: nothing of it reaches this one, errors included."""
        scope = replace(self.scope, errors=[], declared=dict(self.scope.declared), broken=set(self.scope.broken))
        flattened = replace(self.axes.flattened, **{k: dict(v) for k, v in vars(self.axes.flattened).items()})
        axes = replace(self.axes, scope=scope, found=dict(self.axes.found), active=list(self.axes.active),
                       flattened=flattened)  # fmt: skip
        return Expressions(
            scope, axes, [], dict(self.names), dict(self.gone), list(self.loads), list(self.stores),
            dict(self.known), [], dict(self.later), set(self.broken), self.count, self.numbered,
        )  # fmt: skip

    # ------------------------------------------------------------ values

    def value(
        self, axes: tuple[Axis, ...], at: Span, name: str = "", kind: Kind = Kind.NUMBER, dtype: DType = DType.F32
    ) -> Value:
        """A new one."""
        self.count += 1
        return Value(self.count - 1, axes, name, kind, dtype, at)

    def expr(self, node: ast.Expr, name: str = "") -> Tile:
        """The tile of an expression; a value made for it is called `name`."""
        match node:
            case ast.Number(value=number):
                return self.constant(real(self.scope, node, number), node.span, name)
            case ast.Name():
                return self._name(node, name)
            case ast.Access(name=tensor, indices=indices):
                return self._part(tensor, indices, node.span, name)
            case ast.Transposed(operand=operand):
                return self._transposed(operand, node.span)
            case ast.Unary(op="-", operand=operand) if (literal := self._literal(operand)) is not None:
                return self.constant(-literal, node.span, name)
            case ast.Unary(op=op, operand=operand):
                return self._map(UNARY[op], (operand,), node.span, name)
            case ast.Binary(op="@", left=left, right=right):
                return self._product(left, right, node.span, name)
            case ast.Binary(op=op, left=left, right=right):
                return self._map(BINARY[op], (left, right), node.span, name)
            case ast.Call():
                return self._call(node, name)

    def _literal(self, node: ast.Expr) -> float | None:
        """The value of a number that stands there as one."""
        if isinstance(node, ast.Number):
            return real(self.scope, node, node.value)
        free = isinstance(node, ast.Name) and node.id not in {*self.names, *self.scope.declared, *self.broken}
        return CONSTANTS.get(node.id) if isinstance(node, ast.Name) and free else None

    def constant(self, number: float, at: Span, name: str = "") -> Tile:
        """A number everywhere."""
        key = (math.copysign(1.0, number), number)
        if key not in self.known:
            self.known[key] = self.value((), at, name)  # no other key is a tuple
            self.ops.append(Constant(self.known[key], number))
        return Tile(self.known[key], ())

    def _name(self, node: ast.Name, name: str) -> Tile:
        """A value, an axis' coordinate, a whole tensor, a scalar, a size or a constant."""
        scope, at = self.scope, node.span
        scope.usable(node)
        if node.id in self.broken:
            raise Stop()
        if node.id in self.names:
            return self.names[node.id].tile
        if self.axes.is_axis(node.id):
            return self._coordinate(self.axes.named(node), at, name)
        if node.id in self.axes.flattened.digits:
            raise self.axes.flattened.no_number(scope, node)
        if node.id in scope.tensors:
            return self._part(node, (), at, name)
        if node.id in scope.scalars:
            if node.id not in self.known:
                self.known[node.id] = self.value((), at, name)
                self.ops.append(Argument(self.known[node.id], scope.scalars[node.id]))
            return Tile(self.known[node.id], ())
        if node.id in scope.values:
            size = scope.values[node.id]
            if size is None:
                raise scope.error(
                    "E203", f"`{node.id}` is dynamic, but a number in an equation must be known at build time", at,
                    secondary=(Label(scope.declared[node.id], "dynamic"),),
                    fix=f"give `{node.id}` a size, or pass the number as a `scalar`",
                )  # fmt: skip
            return self.constant(float(size), at, name)
        if node.id in CONSTANTS:
            return self.constant(CONSTANTS[node.id], at, name)
        self.broken.add(node.id)  # said once
        if node.id in self.gone:
            axis, defined = self.gone[node.id]
            if axis is None:
                raise scope.error(
                    "E227", f"`{node.id}` is defined under `when any`, so it does not exist in every "
                            "tile", at, "behind it",
                    secondary=(Label(defined, "defined here"),), fix=f"assign `{node.id}` a value before `when any`",
                )  # fmt: skip
            raise scope.error(
                "E227", f"`{node.id}` is a value of the loop over `{axis.name}`, so it exists only in the loop", at,
                "after the loop",
                secondary=(Label(defined, "defined here"),),
                fix=suggestions.summed(scope.kernel.body, node.id, defined)
                or f"pass it on: `carry {node.id} : f32[...] = ...` before the loop",
            )  # fmt: skip
        if node.id in self.later:
            looping = bool(self.axes.active)
            raise scope.error(
                "E227", f"`{node.id}` has no value yet", at, "not in the first iteration" if looping else "too early",
                secondary=(Label(self.later[node.id], "it has a value only from here on"),),
                fix=suggestions.carried(scope.kernel.body, node) if looping else "move the definition up",
            )  # fmt: skip
        if node.id in scope.functions:
            raise scope.refuse(no_value(scope.functions[node.id], at))
        known = [*self.names, *self.axes.found, *scope.tensors, *scope.scalars, *scope.values]
        if (number := habits.CONSTANTS.get(node.id)) is not None:
            fix = suggestions.written(at, number)
            raise scope.error("E200", f"`{node.id}` is written `{number}` in equations", at, "not defined", fix=fix)
        if (instead := habits.NAMES.get(node.id)) is not None:
            raise scope.error("E200", f"the name `{node.id}` is not defined here", at, "not defined", fix=instead)
        raise scope.error(
            "E200", f"the name `{node.id}` is not defined here", at, "not defined",
            fix="define it in a line above", known=known,
        )  # fmt: skip

    def _coordinate(self, axis: Axis, at: Span, name: str) -> Tile:
        own = () if axis.is_index else (axis,)
        if axis not in self.known:
            self.known[axis] = self.value(own, at, name, Kind.COORDINATE)
            self.ops.append(Coordinate(self.known[axis], axis))
        return Tile(self.known[axis], own)

    def _part(self, name: ast.Name, indices: tuple[ast.Expr, ...], at: Span, called: str) -> Tile:
        """A part of a tensor, loaded."""
        self.scope.usable(name)
        if name.id not in self.scope.tensors:
            what = "a value, which cannot be indexed" if name.id in self.names else "not a global tensor"
            fix: Fix | str = f"declare it: `global {name.id} : bf16[...]`"
            if name.id in self.names:
                fix = Fix("remove the index: values have none", (Edit(at, name.id),), certain=False)
            raise self.scope.error("E200", f"`{name.id}` is {what}", name.span, fix=fix, known=self.scope.tensors)
        tensor = self.scope.tensors[name.id]
        if self.axes.holds_places(tensor):
            raise self.scope.error(
                "E204", f"`{name.id}` holds positions, with which equations cannot compute", at, "i32",
                secondary=(Label(tensor.span, "declared here"),),
                fix=f"use it for an axis, `over g in GROUPS, m in ROWS within {name.id}[g] by 128`, or make it f32",
            )  # fmt: skip
        source = self.axes.access(tensor, indices, at)
        for target, stored, _ in self.stores:
            if target.tensor is source.tensor and not apart(target, source):
                raise self.scope.error(
                    "E228", f"`{name.id}` is read after a store to it", at, "the value here would be undefined",
                    secondary=(Label(stored, "stored here"),),
                    fix="use the name of the stored value",
                )  # fmt: skip
        self.loads.append((source, at))
        if source not in self.known:
            self.known[source] = self.value(source.axes, at, called, dtype=source.tensor.dtype)
            self.ops.append(Load(self.known[source], source))
        return Tile(self.known[source], source.axes)

    # ------------------------------------------------------------ operations

    def number(self, node: ast.Expr, what: str) -> Tile:
        """The tile of an expression that must not be a truth."""
        tile = self.expr(node)
        self._expect(tile, Kind.NUMBER, node, what)
        return tile

    def truth(self, node: ast.Expr, what: str) -> Tile:
        """The tile of an expression that must be a truth."""
        tile = self.expr(node)
        self._expect(tile, Kind.PREDICATE, node, what)
        return tile

    def _expect(self, tile: Tile, kind: Kind, node: ast.Expr, what: str) -> None:
        """E229 where a tile is of another kind; a coordinate is a number, too."""
        given = tile.value.kind
        if given is kind or (kind is Kind.NUMBER and given is Kind.COORDINATE):
            return
        fixes = {
            Kind.NUMBER: suggestions.number(node),
            Kind.PREDICATE: suggestions.truth(node),
            Kind.COORDINATE: Fix(f"name an axis, or `{PLACE}(D)` for a complete dimension"),
        }
        raise self.scope.error("E229", f"{what} takes {WORDS[kind]}, not {WORDS[given]}", node.span,
                               f"{WORDS[given]}", fix=fixes[kind])  # fmt: skip

    def _map(self, function: Function, nodes: tuple[ast.Expr, ...], at: Span, name: str) -> Tile:
        """A function of each element."""
        what = f"`{function.operator or function.word}`"
        tiles: list[Tile] = []
        for i, (node, tile) in enumerate(zip(nodes, self._each(nodes), strict=True)):
            rest = Kind.COORDINATE if function.takes == "place" else Kind.NUMBER
            first = Kind.PREDICATE if function.takes == "choice" else Kind.NUMBER
            kind = Kind.PREDICATE if function.takes == "predicate" else rest if i else first
            self._expect(tile, kind, node, what)
            tiles.append(tile)
        return self.mapped(function, tiles, at, name)

    def mapped(self, function: Function, tiles: list[Tile], at: Span, name: str = "") -> Tile:
        """The tile of a function of tiles of the kinds that it takes."""
        while len(tiles) < function.arity:  # what may be left out
            tiles.append(self.constant(0.0, at))
        coordinates = all(t.value.kind is Kind.COORDINATE for t in tiles)
        kind = Kind.COORDINATE if function.whole and coordinates else Kind.NUMBER
        kind = Kind.PREDICATE if function.predicate else kind
        if function.takes == "choice":
            tiles = self._kept_first(tiles)
        stated = any(t.stated and len(t.axes) > 1 for t in tiles)
        result = self.value(self._together([(t.value.axes, t.stated) for t in tiles]), at, name, kind)
        self.ops.append(Map(result, function.name, tuple(t.value for t in tiles)))
        return Tile(result, self._together([(t.axes, t.stated) for t in tiles]), stated)

    def _each(self, nodes: tuple[ast.Expr, ...]) -> list[Tile]:
        """The tile of each expression. Stops after the last one where any is wrong."""
        tiles = []
        for node in nodes:
            with suppress(Stop):
                tiles.append(self.expr(node))
        if len(tiles) < len(nodes):
            raise Stop()
        return tiles

    def _kept_first(self, tiles: list[Tile]) -> list[Tile]:
        """A mask by coordinates that names what is left out, `where(j > q, -inf, s)`, as one that names what is kept.

        All that looks at masks knows `where(j <= q, s, -inf)`.
        """
        condition, one, other = tiles
        if one.value not in self._constants or other.value in self._constants:
            return tiles
        opposite = self._opposite(condition.value)
        return tiles if opposite is None else [replace(condition, value=opposite), other, one]

    def _opposite(self, value: Value) -> Value | None:
        """The truth that does not hold where `value` does; None of what compares other than coordinates."""
        op = next((op for op in reversed(self.ops) if isinstance(op, Map) and op.result == value), None)
        if op is None:
            return None
        if op.function == "not":
            return op.arguments[0]
        if op.function in ("and", "or"):
            parts = [self._opposite(a) for a in op.arguments]
            arguments = tuple(p for p in parts if p is not None)
            if len(arguments) < len(parts):
                return None
        elif op.function in OPPOSITE and all(a.kind is Kind.COORDINATE or a in self._constants for a in op.arguments):
            arguments = op.arguments
        else:
            return None
        result = self.value(value.axes, value.span or self.scope.kernel.name.span, value.name, value.kind)
        self.ops.append(Map(result, OPPOSITE[op.function], arguments))
        return result

    @property
    def _constants(self) -> set[Value]:
        return {value for key, value in self.known.items() if isinstance(key, tuple)}

    def _together(self, orders: Sequence[tuple[tuple[Axis, ...], bool]]) -> tuple[Axis, ...]:
        """The axes of an element-wise result, in the order of the widest operand that states one.

        Other axes stand as in `over`, then as loops, then as dimensions that are taken whole.
        """
        order: list[Axis] = []
        for axes, stated in orders:
            if stated and len(axes) > max(1, len(order)):
                order = [*axes]
        kinds, declared = (AxisKind.PARALLEL, AxisKind.SEQUENTIAL, AxisKind.WHOLE), [*self.axes.found.values()]
        others = {axis for axes, _ in orders for axis in axes} - set(order)
        for axis in sorted(others, key=lambda a: (kinds.index(a.kind), declared.index(a))):
            behind = (n for n, a in enumerate(order) if kinds.index(a.kind) > kinds.index(axis.kind))
            order.insert(next(behind, len(order)), axis)
        return tuple(order)

    def _call(self, node: ast.Call, name: str) -> Tile:
        """A function, a reduction, a conversion or a coordinate."""
        word = node.name.id
        if node.along:
            return summed(self, node, name)
        if word in self.scope.functions and not node.fast:
            return self.expanded(node, [self.expr(argument) for argument in node.args], name)
        if word in SUMMED and len(node.args) == 1 and not node.fast and (found := reduced_to_one(self, node, name)):
            return found
        if node.fast or word in CALLS:
            function = FUNCTIONS[fast_form(self.scope, node) if node.fast else word]
            least = function.arity - function.optional
            if not least <= len(node.args) <= function.arity:
                self._arguments(node, f"{least} to {function.arity}" if function.optional else str(least))
            return self._map(function, node.args, node.span, name)
        if word == LARGEST:
            return self._largest(node, name)
        if word in SCANS:
            return scanned(self, node, name)
        if word in SORTED:
            return sorted_(self, node, name)
        if word not in (*REDUCTIONS, *ELEMENTS, PLACE, LENGTH):
            raise self._unknown(node)
        if len(node.args) != 1:
            self._arguments(node, "1")
        if word in REDUCTIONS:
            return reduction(self, node, name)
        if word == PLACE:
            return self._place(node, name)
        if word == LENGTH:
            return self._length(node, name)
        tile, dtype = self.number(node.args[0], f"`{word}`"), element(self.scope, node.name)
        if dtype.packed:
            what = f"`{word}` converts to {dtype.spelling}, a packed type that only stores create"
            raise self.scope.error("E204", what, node.name.span, fix="convert to another type, or store it")
        result = self.value(tile.value.axes, node.span, name, dtype=dtype)
        self.ops.append(Convert(result, tile.value))
        return Tile(result, tile.axes, tile.stated)

    def expanded(self, node: ast.Call, tiles: Sequence[Tile], name: str = "") -> Tile:
        """The tile of a call of one of the spec's own functions, whose body is typed for these arguments."""
        function, scope = self.scope.functions[node.name.id], self.scope
        if node.name.id in scope.broken or self.expansions > MOST_EXPANSIONS:  # said already
            raise Stop()
        self.expansions += 1
        if len(tiles) != len(function.parameters) or self.expansions > MOST_EXPANSIONS:
            raise scope.refuse(wrong_call(function, node, len(tiles), MOST_EXPANSIONS))
        outside, before = (self.names, self.broken), len(scope.errors)
        self.names = {p.id: Named(t, p.span) for p, t in zip(function.parameters, tiles, strict=True)}
        self.broken = set()
        try:
            return self.expr(function.value, name)
        finally:
            self.names, self.broken = outside
            here = Label(node.span, f"in this call of `{node.name.id}`")
            scope.errors[before:] = [replace(e, secondary=(*e.secondary, here)) for e in scope.errors[before:]]

    def _unknown(self, node: ast.Call) -> Stop:
        """E200 for a function that has another name here, or none."""
        word, message = node.name.id, f"`{node.name.id}` is not a function of equations"
        if (fix := suggestions.indexed(node, self.scope.tensors)) is not None:
            return self.scope.error("E200", f"`{word}` is a tensor, not a function", node.name.span, fix=fix)
        if (known := suggestions.renamed(node)) is not None:
            return self.scope.error("E200", f"{message}{known[0]}", node.name.span, "not known", fix=known[1])
        return self.scope.error(
            "E200", message, node.name.span, "not known",
            fix=f"one of {', '.join([*CALLS, *REDUCTIONS, *SCANS, *SORTED])}",
            known=[*self.scope.functions, *CALLS, *REDUCTIONS, *SCANS, *SORTED, *ELEMENTS, PLACE, LARGEST, LENGTH],
        )  # fmt: skip

    def _arguments(self, node: ast.Call, wanted: str) -> None:
        word, plural = node.name.id, "" if wanted == "1" else "s"
        fix = suggestions.of_arguments(node, word in REDUCTIONS)
        if len(node.args) == 1 and word in ("max", "min"):
            raise self.scope.error("E200", f"`{word}` compares two values, but has one", node.span, fix=fix)
        about = CALLS[word].doc if word in CALLS else "of a tile"
        raise self.scope.error(
            "E200", f"`{word}` takes {wanted} argument{plural}, not {len(node.args)}", node.span,
            fix=fix or f"`{word}`: {about}",
        )  # fmt: skip

    def _largest(self, node: ast.Call, name: str) -> Tile:
        """`largest(fp8)`: a number."""
        if len(node.args) != 1:
            self._arguments(node, "1")
        (argument,) = node.args
        if not isinstance(argument, ast.Name):
            raise self.scope.error("E204", f"`{argument.span.text}` is not a data type", argument.span,
                                   fix="name one: `largest(fp8)`", known=ELEMENTS)  # fmt: skip
        return self.constant(element(self.scope, argument).largest, node.span, name)

    def _place(self, node: ast.Call, name: str) -> Tile:
        """`coordinate(D)`: the place along an axis, or along a dimension that is taken whole."""
        (argument,) = node.args
        if isinstance(argument, ast.Name) and self.axes.is_axis(argument.id):
            return self._coordinate(self.axes.named(argument), node.span, name)
        if isinstance(argument, ast.Name) and argument.id in self.scope.dims:
            axis = self.axes.whole(self.scope.dims[argument.id], argument.span)
            return self._coordinate(axis, node.span, name)
        raise self.scope.error(
            "E200", f"`{argument.span.text}` is neither an axis nor a dimension", argument.span,
            fix="name one of these", known=[*self.axes.found, *self.scope.dims],
        )  # fmt: skip

    def _length(self, node: ast.Call, name: str) -> Tile:
        """`length(j)`: how many places an axis has, an integer."""
        (argument,) = node.args
        if not isinstance(argument, ast.Name) or not self.axes.is_axis(argument.id):
            raise self.scope.error("E200", f"`{argument.span.text}` is no axis", argument.span, fix="name one",
                                   known=list(self.axes.found))  # fmt: skip
        axis = self.axes.found[argument.id]  # after its loop, too
        self.axes.used.add(axis.name)
        result = self.value((), node.span, name, Kind.COORDINATE)
        known = None if axis.within else axis.dim.size
        self.ops.append(Extent(result, axis) if known is None else Constant(result, float(known)))
        return Tile(result, ())

    def _transposed(self, operand: ast.Expr, at: Span) -> Tile:
        tile = self.expr(operand)
        if len(tile.axes) != 2:
            loops = [a for a in self.axes.active if a in tile.axes]
            flat = ", ".join(f"{a.name} in {a.dim.name}" for a in loops)
            order = "index the axes in the order that you want"
            order = f"flatten the loops to one: `each ({flat}) by {loops[-1].tile}`" if len(loops) > 1 else order
            raise self.scope.error(
                "E224", f"`.T` swaps two axes, but this tile has {len(tile.axes)}", at, axes_text(tile.axes),
                fix=order if len(tile.axes) > 2 else self._tile_for_loop() or "drop it",
            )  # fmt: skip
        return Tile(tile.value, tile.axes[::-1])

    def _tile_for_loop(self) -> Fix | None:
        """The fix for a product in a loop without tiles, whose operands lack the axis."""
        loop = next((axis for axis in self.axes.active if axis.tile is None and axis.span is not None), None)
        if loop is None or loop.span is None:
            return None
        head = f"each {loop.name} in {loop.dim.name}"
        text = loop.span.file.text
        end = text.find(loop.dim.name, loop.span.end) + len(loop.dim.name)
        return Fix(
            f"`{head}` takes one position at a time; for tiles write `{head} by 64`",
            (Edit(Span(loop.span.file, end, end), " by 64"),),
        )

    def needs_whole(self, axis: Axis, what: str, at: Span, reduced: bool = True, fix: str = "") -> Stop:
        """E226 where a sum would be of one block's tile, so that its meaning hung on the tile's size."""
        usual = (
            f"walk along `{axis.name}` with `each {axis.name} in {axis.dim.name} by {axis.tile}`, "
            "or omit the index to select the complete dimension"
        )
        if axis.within:
            walked = f"each {axis.name} in {axis.dim.name} within {axis.within.offsets.name}[{axis.within.of}] by ..."
            usual = f"sum over a complete group in a loop: `{walked}`"
        elif reduced:
            whole = f"`{axis.name} in {axis.dim.name} by {axis.dim.size or '...'}`"
            usual = (
                f"give a block all of `{axis.name}`, {whole} or without an index; or store one result for each "
                f"tile, at a place `{axis.name} / {axis.tile}`"
            )
        return self.scope.error(
            "E226", f"{what} would be over only the block's tile of {axis.tile}", at,
            "the result would depend on how the work is divided",
            secondary=(Label(axis.span, "each block has one tile"),) if axis.span else (),
            fix=f"{fix}; or {usual}" if fix else usual,
        )  # fmt: skip

    # ------------------------------------------------------------ products

    def added_product(self, node: ast.Binary) -> Tile:
        """A product that may sum over the block's tile alone, as blocks add what they find."""
        return self._product(node.left, node.right, node.span, "", adds=True)

    def _product(self, left: ast.Expr, right: ast.Expr, at: Span, name: str, adds: bool = False) -> Tile:
        """`a @ b`: the sum over the last axis of the left factor, which is the first of the right one."""
        a, b = self._each((left, right))
        for tile, node in ((a, left), (b, right)):
            self._expect(tile, Kind.NUMBER, node, "`@`")
        common = [axis for axis in a.axes if axis in b.axes]
        sides = (Label(left.span, axes_text(a.axes)), Label(right.span, axes_text(b.axes)))
        if not common:
            plain = "use `*`" if not a.axes or not b.axes else "a product sums over an axis that both operands have"
            fix = self._tile_for_loop() or plain
            message = f"a product of {axes_text(a.axes)} and {axes_text(b.axes)} has no axis in common"
            raise self.scope.error("E224", message, at, secondary=sides, fix=fix)
        axis = common[0]
        if len(common) > 1:
            raise self.scope.error(
                "E224", f"both factors have {' and '.join(f'`{c.name}`' for c in common)}", at, secondary=sides,
                fix="make them share only the axis that is summed",
            )  # fmt: skip
        if a.axes[-1] != axis or b.axes[0] != axis:
            raise self.scope.error(
                "E224", "`@` sums over the last axis of the left operand and the first of the right one, not "
                        f"`{axis.name}`",
                at, secondary=sides,
                fix=suggestions.transposing(axis, left, a.axes, right, b.axes),
            )  # fmt: skip
        if axis.kind is AxisKind.PARALLEL and not adds:
            raise self.needs_whole(axis, f"the sum over `{axis.name}`", at, reduced=False)
        mixed = a.value.dtype.encoded and b.value.dtype.encoded and mixes_fp8(self.scope.chosen)
        if a.value.dtype is not b.value.dtype and not mixed:
            raise mixed_factors(self, a, b, left, right, at)
        axes = tuple(x for x in (*a.axes, *b.axes) if x != axis)
        result = self.value(axes, at, name)
        self.ops.append(Product(result, a.value, b.value, axis))
        return Tile(result, axes)
