"""Values of a loop of equations as C++ expressions: where each lives, and what stands for an element of it.

A value that extends along the split axis and another is a register tile of f32 in the layout of MFMA results, one along
the split axis alone a register vector (a number for each column of such tiles). Without the split axis, a value that is
loaded along the rows of tiles is a vector of a number for each row; a computed one is an expression that is written
wherever it is used. Predicates and coordinates are worked out where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tkgen.backends.cdna.lower.elements import ROUNDED, applied, constant
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.places import BlockPlaces, Names, tile_constant
from tkgen.backends.cdna.lower.ranges import Range, holds
from tkgen.backends.cdna.lower.value_names import name_values
from tkgen.ir.equations import (
    Argument,
    Axis,
    Chosen,
    Constant,
    Convert,
    Coordinate,
    Extent,
    Kind,
    Load,
    Loop,
    Map,
    Op,
    Store,
    Value,
    When,
    reads,
    walk,
    writes,
)
from tkgen.ir.functions import CDNA, FUNCTIONS
from tkgen.ir.integers import Widths
from tkgen.ir.limits import LARGEST_ROWS_SIZE
from tkgen.ir.types import DType
from tkgen.schedule.loop_tiles import Multiplication
from tkgen.schedule.loops import LoopMap

PACKED = frozenset({"add", "sub", "mul"})  # instructions take two elements of a lane at a time

Elementwise = Map | Convert


class LoopExpressions:
    """The places and expressions of values for one layout."""

    def __init__(self, m: LoopMap, names: Names, places: BlockPlaces):
        self.m, self.places, ops = m, places, list(walk(m.kernel.body))
        self.widths = Widths(ops, LARGEST_ROWS_SIZE)
        self.made: dict[Value, Op] = {value: op for op in ops for value in writes(op)}
        self.by_product = {x.product.result: x for x in m.multiplications}
        self.by_result = {x.result: x for x in m.multiplications}
        self.outside = {x.product.result: x for x in m.outside}
        self.factors = m.factors
        self.exchanged = {x.product.result: x for x in m.exchanges}
        self.vectors = {ring.access: ring for ring in m.vectors}
        carried = {c.inside: c for c in m.loop.carries}
        self.made |= dict.fromkeys(carried, m.loop)
        self.users: dict[Value, list[Op]] = {}
        for op in ops:
            for value in reads(op):
                self.users.setdefault(value, []).append(op)
        for carry in m.loop.carries:
            self.users.setdefault(carry.update, []).append(m.loop)
        for when in m.votes:
            for c in when.chosen:
                self.users.setdefault(c.update, []).append(when)
        self.name = name_values(carried, self.made, ops, names, places)
        self.own = dict(self.name)  # `name` is that of the place, which values may share
        self.name |= {c.result: self.name[c.inside] for c in m.loop.carries}
        self.inlined = frozenset(value for value in self.made if self._is_part(value))
        for when in m.votes:
            for c in when.chosen:
                if self._gives_way(c, when):
                    self.name[c.result] = self.name[c.otherwise]
        for op in ops:  # what ends a tile's use takes its place
            if isinstance(op, Map) and (place := self._taken(op)) is not None:
                self.name[op.result] = self.name[place]
        self.ahead = self._read_ahead(names)
        self.declared: set[str] = set()
        self.rounds = self._rounds(ops)
        scalars = dict.fromkeys(op.scalar for op in ops if isinstance(op, Argument))
        self.scalars = {s: names.new(s.name, ()) if self.rounds else f"g.{cpp_name(s.name)}" for s in scalars}

    def _rounds(self, ops: Sequence[Op]) -> bool:
        """True if factors are rounded to bf16 by `round_operand`, which takes NaN with a lower half of zeros alone.

        Instructions make such ones, or keep those that they get: of elements of bf16, and of scalars made `quiet`.
        """
        if self.m.direct:  # the target has an instruction for it
            return False
        behind = self.m.kernel.body[self.m.kernel.body.index(self.m.loop) :]
        loaded = {op.result.dtype for op in ops if isinstance(op, Load) and op not in behind}
        return loaded == {DType.BF16} and any(isinstance(op, Convert) and op.result in self.factors for op in ops)

    def _read_ahead(self, names: Names) -> dict[Multiplication, str]:
        """Names of the registers with each product's operand from LDS, no two the same."""
        found: dict[Multiplication, str] = {}
        for x in self.m.multiplications if self.m.direct else ():
            own = f"{self.name[x.result]}_r"
            found[x] = own if own not in found.values() else names.new(own, ())
        return found

    def quieted(self) -> Iterator[str]:
        """The scalars as they are used."""
        for scalar, name in self.scalars.items() if self.rounds else ():
            yield f"const float {name} = tk::quiet(g.{cpp_name(scalar.name)});"

    def _is_part(self, value: Value) -> bool:
        """Return True if a value has no name and is a part of one expression alone, over the same axes."""
        users = self.users.get(value, [])
        if value.name or len(users) != 1 or not isinstance(users[0], Map) or not isinstance(self.made[value], Map):
            return False
        user, at = users[0], users[0].arguments.index(value)
        once = FUNCTIONS[user.function].cpp[CDNA].count(f"{{{at}}}") == 1 and not self._is_mask(user)
        kept = value in self.by_product or value in self.by_result or user.result in self.by_result
        return once and not kept and set(user.result.axes) == set(value.axes) and not self.divides(user)

    def _gives_way(self, c: Chosen, when: When) -> bool:
        """Return True if a value is used by nothing after a condition that may give another one."""
        placed = not self.is_inline(c.otherwise) and c.otherwise not in self.inlined and self._of_the_pass(c.otherwise)
        handed = any(other.update == c.otherwise for other in when.chosen)
        return placed and not handed and all(user is when or user in when.body for user in self.users[c.otherwise])

    def _of_the_pass(self, value: Value) -> bool:
        """True if each iteration has its own value there, made in it or handed to it: not one from before the loop."""
        carried = any(c.inside == value for c in self.m.loop.carries)
        return carried or (self.made[value] in self.m.loop.body and not isinstance(self.made[value], Load))

    def _taken(self, op: Map) -> Value | None:
        """The tile in whose place an operation puts its result: the first one that nothing else uses."""
        if self.rows(op.result) is None or self.is_inline(op.result) or op not in self.m.loop.body:
            return None
        x = self.by_result.get(op.result)
        for value in op.arguments if x is None else () if x.onto is None else (x.onto,):
            inline = self.is_inline(value) or value in self.inlined
            product = value in self.by_product and not (value in self.by_result and self._is_mask(op))
            kept = inline or product or not self._of_the_pass(value)
            if not kept and set(value.axes) == set(op.result.axes) and self._ends(op, value):
                return value
        return None

    def _ends(self, op: Map, value: Value) -> bool:
        """Return True if nothing uses a value after an operation; stores and products may use a carried one before."""
        others = [user for user in self.users[value] if user is not op]
        reordered = self.m.early is not None or self.m.fenced
        if reordered or not any(c.inside == value for c in self.m.loop.carries):
            return len(self.users[value]) == 1
        if any(not isinstance(u, Store) and not (isinstance(u, Convert) and u.result in self.factors) for u in others):
            return False
        body, x = self.m.loop.body, self.by_result.get(op.result)
        at = body.index(op if x is None else x.product)
        return all(user in body[:at] for user in others)

    def _is_mask(self, op: Op) -> bool:
        """True if an operation leaves most tiles as they are: it chooses by coordinates between a tile and a number."""
        if not isinstance(op, Map) or op.function != "where" or self.rows(op.result) is None:
            return False
        if op in self.m.kernel.body:  # outside of the loop no tile takes the place of another one
            return False
        chosen, tile, other = op.arguments
        alone = len(self.users[tile]) == 1 and not isinstance(self.made[tile], Loop | Load)
        own = not self.is_inline(tile) and set(tile.axes) == set(op.result.axes)
        return alone and own and self.is_inline(other) and not other.axes and self.holds(chosen) is not None

    # ------------------------------------------------------------ kinds of values

    def rows(self, value: Value) -> Axis | None:
        """The axis along the rows of a value's tile."""
        return self.m.rows(value)

    def is_inline(self, value: Value) -> bool:
        """Return True if a value is worked out wherever it is used: it has no place in registers."""
        made = self.made[value]
        if isinstance(made, Constant | Argument | Coordinate | Extent) or value.kind is not Kind.NUMBER:
            return True
        return isinstance(made, Elementwise) and self.m.split not in value.axes

    def type(self, value: Value) -> str:
        """The C++ type of a value's place."""
        rows = self.rows(value)
        if rows is None:
            return "columns"
        if self.m.split not in value.axes:
            return f"typename tile<{self.extent(rows)}>::col_vec"
        return f"{'tile' if value not in self.factors else f'operand_{value.dtype.suffix}'}<{self.extent(rows)}>"

    def extent(self, axis: Axis) -> str:
        """The constant with the extent of a tile along an axis that is not split."""
        return tile_constant(axis) if axis.tile is not None else f"DIM_{axis.dim.name}"

    def declare(self, value: Value) -> Iterator[str]:
        """The declaration of a value's place, unless there is one."""
        yield from self._once(self.name[value], f"{self.type(value)} {self.name[value]};")

    def _once(self, name: str, declaration: str) -> Iterator[str]:
        """The declaration of a local, unless there is one at this place."""
        if name not in self.declared:
            self.declared.add(name)
            yield declaration

    # ------------------------------------------------------------ predicates of coordinates

    def holds(self, predicate: Value) -> str | None:
        """C++ that is true where a predicate of coordinates holds for all elements of a wave's tile, None elsewhere."""
        return holds(predicate, self.made, self._range, self.widths)

    def _range(self, op: Op) -> Range | None:
        match op:
            case Extent(axis=axis):
                return (self.places.length(axis),) * 2
            case Load(result=result) if not result.axes:
                return (self.name[result],) * 2
            case Coordinate(axis=axis):
                first = f"{self.places.axis[axis]}_0"
                if axis.is_index:
                    return first, first
                if axis == self.m.split:
                    return "first_of_wave", "first_of_wave + COLS - 1"
                return (first, f"{first} + {self.extent(axis)} - 1") if axis.tile is not None else None
        return None

    # ------------------------------------------------------------ expressions

    def text(self, value: Value, local: Mapping[Value, str]) -> str:
        """A value of one element, inside of the loops over a lane's elements; `local` have names of their own there."""
        match made := self.made[value]:
            case Constant(value=number):
                text = constant(value, number)
                return f"({text})" if text.startswith("-") else text
            case Argument(scalar=scalar):
                return self.scalars[scalar]
            case Coordinate(axis=axis):
                return self._coordinate(axis)
            case Extent(axis=axis):
                return self.places.length(axis)
            case Load() if not value.axes:
                return self.name[value]
        if value in local:
            return local[value]
        if self.is_inline(value) or value in self.inlined:
            assert isinstance(made, Elementwise)
            return f"({self.expression(made, local)})"
        if self.m.split not in value.axes:
            return f"tk::at({self.name[value]}, i, e)"
        rows = self.rows(value)
        return f"{self.name[value]}[c][0]" if rows is None else f"tk::at({self.name[value]}, i, c, e)"

    def _coordinate(self, axis: Axis) -> str:
        first = f"{self.places.axis[axis]}_0"
        if axis.is_index:
            return first
        if axis == self.m.split:
            return "(first_column + c * SIDE)"
        return f"({first} + tk::row_at<SIDE>(i, e))" if axis.tile is not None else "tk::row_at<SIDE>(i, e)"

    def expression(self, op: Elementwise, local: Mapping[Value, str]) -> str:
        """The right side of an operation."""
        if isinstance(op, Convert):
            text = self.text(op.argument, local)
            return ROUNDED[CDNA].format(text, t=op.result.dtype.cpp)
        divisor = f"{self.name[op.arguments[1]]}_d[c]" if self.divides(op) else ""
        return applied(op, lambda v: self.text(v, local), divisor, widths=self.widths)

    def divides(self, op: Op) -> bool:
        """Return True if an operation divides the elements of a tile by something of their column."""
        return (
            isinstance(op, Map) and op.function == "div" and self.rows(op.result) is not None
            and self.rows(op.arguments[1]) is None and not self.is_inline(op.arguments[1])
        )  # fmt: skip
