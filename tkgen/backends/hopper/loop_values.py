"""C++ of a fused matmul's values, element by element, over a lane's two rows of each tile.

A tile that a product sums, or that is needed in a later nest, is an array of registers (`rt_fl`); what one nest makes
and uses is a local of it; numbers of rows are arrays of two. Operations are in the first nest in which all that they
need is known: the one after a reduction is another. Predicates, and values without a name that one operation uses, are
part of its expression. Others are named after the spec's (`value_names`). A nest in which `where`
chooses by coordinates is written twice: once without, for tiles that are wholly inside. A sum of rows that the loop
carries is one of each lane's own elements until the loop is done.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain

from tkgen.backends.cdna.lower.elements import INDENT, ROUNDED, SATURATED, constant, nest
from tkgen.backends.cdna.lower.names import WORD, cpp_name
from tkgen.backends.cdna.lower.origins import within
from tkgen.backends.cdna.lower.places import Names
from tkgen.backends.cdna.lower.ranges import Range, holds
from tkgen.backends.cdna.lower.value_names import made_of
from tkgen.backends.hopper import chained
from tkgen.backends.hopper.epilogue import of_all_warps, place_of
from tkgen.backends.hopper.file import size
from tkgen.backends.hopper.loops import HopperLoop
from tkgen.backends.hopper.printer import printed
from tkgen.backends.hopper.serial_loop import SerialLoop
from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    Carry,
    Constant,
    Convert,
    Coordinate,
    Extent,
    Index,
    Kind,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Store,
    Value,
    reads,
    walk,
    writes,
)
from tkgen.ir.functions import FUNCTIONS, HOPPER, helpers
from tkgen.ir.integers import Widths
from tkgen.ir.limits import LARGEST_ROWS_SIZE
from tkgen.ir.tensors import Dim

LOCALS = {"r", "t", "h", "e", "g", "tk", "two_groups", "iterations", "first_iteration", "first_row", "remapped"}
LOCALS |= {"col", "consumers", "tiles", "grid_rows", "all_iterations", "part_iterations"}  # what is counted at run time
OF_AXIS = ("i", "tiles", "walk", "first", "length", "rows")  # endings of the locals that are made for an axis
OF_VALUE = ("_d", "_parts", "_next", "_columns", "_read")  # endings of the locals that are made for a value
IDENTITY = {"sum": "0.0f", "max": "-__builtin_inff()", "min": "__builtin_inff()"}
COLUMN = "16 * t + 8 * (h / 2) + 2 * (laneid() % 4) + e"  # of a lane's element of a tile
INLINE = (Constant, Argument, Coordinate, Extent)


class LoopValues:
    """The C++ of values for one layout."""

    def __init__(self, m: HopperLoop | SerialLoop, scalar: dict[str, str], tensor: dict[str, str]):
        self.m, self.scalar, self.tensor = m, scalar, tensor
        self.widths = Widths(walk(m.kernel.body), LARGEST_ROWS_SIZE)
        self.made = {value: op for op in walk(m.kernel.body) for value in writes(op)}
        self.arrays = set(m.in_arrays)
        self.inlined = frozenset(op.result for op in m.inlined_before if isinstance(op, Map | Convert))
        self.inlined |= frozenset(self._inlined())
        self.names = Names({*_reserved(), *(f"{cpp_name(a.name)}_{of}" for a in m.kernel.axes for of in OF_AXIS)})
        self.name = self._named()
        self.name |= {value: self.name[other] for value, other in m.shared_arrays.items()}
        self.made |= {carry.inside: m.loop for carry in m.loop.carries}
        self.lasting = frozenset(self.name[v] for v in self.arrays)  # arrays that a tile of the output has throughout
        self.declared: set[str] = set(self.lasting)
        self.deferred = {r: c for c in m.loop.carries for r in m.reduced if self._defers(c, r)}

    def _defers(self, carry: Carry, reduce: Reduce) -> bool:
        """True if the loop carries a sum of rows, scaled by row: a lane's part of it can be summed after the loop."""
        m, start = self.m, self.made[carry.initial]
        users = [op for op in walk(m.kernel.body) if reduce.result in reads(op)]
        added = users[0] if len(users) == 1 else None
        zero = isinstance(start, Constant) and start.value == 0
        if reduce.function != "sum" or not zero or not isinstance(added, Map) or added.function != "add":
            return False
        (other,) = [v for v in added.arguments if v != reduce.result] or [carry.inside]
        scaled = self.made.get(other)
        scales = isinstance(scaled, Map) and scaled.function == "mul" and scaled.arguments.count(carry.inside) == 1
        uses = [op for op in walk(m.kernel.body) if {carry.inside, added.result, other} & set(reads(op))]
        alone = [op for op in uses if op not in (added, scaled) and not isinstance(op, Loop)]
        return carry.update == added.result and (scales or other == carry.inside) and not alone

    # ------------------------------------------------------------ places

    def tiled(self, value: Value) -> bool:
        """Return True if a value extends along the columns of a tile."""
        return any(a != self.m.split and not a.is_index for a in value.axes)

    def inline(self, value: Value) -> bool:
        """True if a value is part of the expressions that use it.

        Such are conditions, numbers of columns alone, values that are computed before the loop, and those without a
        name that have one use, by an operation of the same group on as many elements.
        """
        number = value.kind is Kind.NUMBER and (not value.axes or self.m.split in value.axes)
        return value in self.inlined or (isinstance(self.made.get(value), Map | Convert) and not number)

    def _named(self) -> dict[Value, str]:
        """The variable of each value that has one: what is carried has the same one all the time."""
        found = dict[Value, str]()
        for carry in self.m.loop.carries:
            found[carry.inside] = found[carry.result] = self.names.new(carry.inside.name or "carried", OF_VALUE)
        computed = (value for value, op in self.made.items() if isinstance(op, Product | Map | Convert | Reduce))
        found |= {op.result: self.names.new(op.source.tensor.name, OF_VALUE) for op in self.m.loaded}
        for value in computed:
            if value not in found and not self.inline(value) and value not in self.m.shared_arrays:
                found[value] = self.names.new(made_of(value, self.made), OF_VALUE)
        return found

    def _inlined(self) -> Iterator[Value]:
        uses = self._uses()
        for group in self.m.groups:  # between which the kernel does something else
            level = self._levels(self._computed(group))
            for op in level:
                users = uses.get(writes(op)[0], [])
                if not isinstance(op, Map) or op.result.name or len(users) != 1 or op.result in self.arrays:
                    continue
                if op.function == "where" or self.divides(op):  # a mask has two nests, a divisor a local
                    continue
                (user,) = users
                if user is None:
                    continue
                if isinstance(user, Map):
                    text = FUNCTIONS[user.function].cpp[HOPPER]
                    once = text.count(f"{{{user.arguments.index(op.result)}}}") == 1
                    alike = self.tiled(user.result) == self.tiled(op.result)
                else:
                    once, alike = isinstance(user, Reduce), True
                if once and alike and level[op] == level.get(user):
                    yield op.result

    def _uses(self) -> dict[Value, list[Op | None]]:
        """The operations that read each value, once for each time; None where it is carried on or stored."""
        found: dict[Value, list[Op | None]] = {}
        for op in walk(self.m.kernel.body):
            for value in reads(op) if not isinstance(op, Loop) else ():
                found.setdefault(value, []).append(None if isinstance(op, Store) else op)
        for carry in self.m.loop.carries:
            for value in (carry.initial, carry.update):
                found.setdefault(value, []).append(None)
        return found

    def _columns(self, ops: Sequence[Op]) -> str:
        axes = {a for op in ops for v in (*reads(op), *writes(op)) for a in v.axes}
        return self.m.columns_text(axes)

    # ------------------------------------------------------------ expressions

    def text(self, value: Value, clear: bool, column: str = COLUMN, alone: bool = False) -> str:
        """A value of the element at hand; `clear`: where all conditions on coordinates hold.

        Its operators are in parentheses, unless it is `alone` in those of a call. `column` is the element's.
        """
        made = self.made.get(value)
        match made:
            case Constant(value=number):
                text = constant(value, number)
                return f"({text})" if text.startswith("-") and not alone else text
            case Argument(scalar=scalar):
                return f"g.{self.scalar[scalar.name]}"
            case Coordinate(axis=axis):
                return self._coordinate(axis, column, alone)
            case Extent(axis=axis):
                return self.length(axis)
            case Convert() if self.inline(value):
                return self.expression(made, clear, column)
            case Map() if self.inline(value):
                text = self.expression(made, clear, column)
                return text if alone or FUNCTIONS[made.function].calls(HOPPER) else f"({text})"
            case Load() if made in self.m.loaded:
                return f"tk::at({self.name[value]}, t, h, e)"
            case Load(source=source):
                return self._read(source, column, alone)
            case Reduce(axis=axis) if axis == self.m.split:
                return f"{of_all_warps(self.name[value])}[{column}]"
        if self.tiled(value):
            return f"tk::at({self.name[value]}, t, h, e)" if value in self.arrays else self.name[value]
        return f"{self.name[value]}[r]" if value.axes and self.m.split in value.axes else self.name[value]

    def size(self, dim: Dim) -> str:
        """The size of a dimension."""
        return size(dim, self.m.kernel.arguments)

    def length(self, axis: Axis) -> str:
        """The number of positions along an axis: of a ragged one those of the group at hand."""
        return f"{cpp_name(axis.name)}_length" if axis.within else self.size(axis.dim)

    def in_tensor(self, axis: Axis, place: str) -> str:
        """A position in the dimension of a tensor: along a ragged axis they are counted from the group's first."""
        return f"{cpp_name(axis.name)}_first + {place}" if axis.is_moved else place

    def _read(self, access: Access, column: str, alone: bool) -> str:
        """An element of a tensor in global memory beside the one at hand; zero beyond the end."""
        along = [(i.axis, self._coordinate(i.axis, column)) if i.extends and i.axis else None for i in access.indices]
        ends = [f"{at[1]} < {self.length(at[0])}" for at in along if at and self.m.overhangs(at[0])]
        both = zip(along, access.indices, strict=True)
        places = [self.in_tensor(*at) if at else self.tile_number(index) for at, index in both]
        read = f"float(tk::number_at(g.{self.tensor[access.tensor.name]}, {place_of(access, places)}))"
        text = f"{' && '.join(ends)} ? {read} : 0.0f"
        return read if not ends else text if alone else f"({text})"

    def loads(self) -> Iterator[str]:
        """The tiles that lanes load for an iteration."""
        m, firsts = self.m, {self.m.split: "first_row", self.m.loop.axis: "iteration * KEYS"}
        for load in m.loaded:
            access = load.source
            places = [self.in_tensor(i.axis, firsts[i.axis]) if i.extends and i.axis else self.tile_number(i)
                      for i in access.indices]  # fmt: skip
            at = f"&tk::number_at(g.{self.tensor[access.tensor.name]}, {place_of(access, places)})"
            apart = [self._apart(access, axis) for axis in firsts]
            left = [f"{self.length(a)} - {first}" if m.overhangs(a) else size
                    for (a, first), size in zip(firsts.items(), ("16", "KEYS"), strict=True)]  # fmt: skip
            yield f"tk::load_tile<{m.at_once(access)}>({', '.join((self.name[load.result], at, *apart, *left))});"

    def tile_number(self, index: Index) -> str:
        """The number of the tile at hand where an index is one (`q / 128`, `j / 64`); empty for another index."""
        if not index.of_tile or index.axis is None:
            return ""
        return "iteration" if index.axis == self.m.loop.axis else f"{cpp_name(index.axis.name)}_i"

    def _apart(self, access: Access, axis: Axis) -> str:
        """Elements between neighbours along an axis of a tile in memory."""
        at = next(n for n, i in enumerate(access.indices) if i.extends and i.axis == axis)
        return " * ".join(["size_t(1)", *map(self.size, access.tensor.dims[at + 1 :])])

    def _coordinate(self, axis: Axis, column: str, alone: bool = False) -> str:
        if axis.is_index:
            return f"{cpp_name(axis.name)}_i"
        first = "iteration * KEYS + " if axis == self.m.loop.axis else ""
        if axis == self.m.divided:
            first = f"consumer * {self.m.columns_text((axis,))} + "
        text = f"{first}{column}"
        if axis == self.m.split:
            text = "first_row + laneid() / 4 + 8 * r"
        return text if alone else f"({text})"

    def expression(self, op: Map | Convert, clear: bool, column: str = COLUMN) -> str:
        """The right side of an operation."""
        if isinstance(op, Convert):
            rounded = SATURATED.get(op.result.dtype, ROUNDED[HOPPER])
            return rounded.format(self.text(op.argument, clear, column), t=op.result.dtype.cpp)
        function = FUNCTIONS[op.function]
        if clear and op.function == "where" and self.holds(op.arguments[0]) is not None:
            return self.text(op.arguments[1], clear, column, alone=True)
        whole = function.whole and all(v.kind is Kind.COORDINATE for v in op.arguments)
        whole = whole or function.takes == "place"
        texts, code = list[str](), function.cpp[HOPPER]
        for n, value in enumerate(op.arguments):
            cast = "float" if value.kind is Kind.COORDINATE and not whole else ""
            wide = n == 0 and self.widths.first_wide(op)
            text = self.text(value, clear, column, bool(cast) or wide or f"({{{n}}})" in f"({code})")
            text = f"{cast}({text})" if cast else text
            texts.append(f"int64_t({text})" if wide else text)
        if self.divides(op):
            texts[1] = f"{self.name[op.arguments[1]]}_d[r]"
        texts += ["0"] * (function.arity - len(texts))
        return code.format(*texts)

    def divides(self, op: Op) -> bool:
        """Return True if elements of a tile are divided by a number of their row that has a variable."""
        if not isinstance(op, Map) or op.function != "div":
            return False
        by = op.arguments[1]
        part = isinstance(self.made.get(by), Load) or self.inline(by)
        return self.tiled(op.result) and by.axes == (self.m.split,) and not part

    # ------------------------------------------------------------ conditions on coordinates

    def holds(self, predicate: Value) -> str | None:
        """C++ that is true where a condition on coordinates holds for a warp's whole tile; None for another."""
        return holds(predicate, self.made, self._range, self.widths)

    def _range(self, op: Op) -> Range | None:
        match op:
            case Coordinate(axis=axis) if axis == self.m.split:
                return "first_row", "first_row + 15"
            case Coordinate(axis=axis) if axis == self.m.loop.axis:
                return "iteration * KEYS", "iteration * KEYS + KEYS - 1"
            case Coordinate(axis=axis) if axis.is_index:
                return f"{cpp_name(axis.name)}_i", f"{cpp_name(axis.name)}_i"
            case Extent(axis=axis):
                return self.length(axis), self.length(axis)
        return None

    # ------------------------------------------------------------ nests

    def statements(self, ops: Sequence[Op], kept: Sequence[Value] = ()) -> list[str]:
        """Some operations in order, in nests; the tiles of `kept` are arrays."""
        ops = self._computed(ops)
        level = self._levels(ops)
        self._keep(ops, level, kept)
        lines: list[str] = []
        for at in range(max(level.values(), default=0) + 1):
            here = [op for op in ops if level[op] == at]
            rows = [op for op in here if not isinstance(op, Reduce) and not self.tiled(writes(op)[0])]
            lines += self._rows(rows)
            nests: dict[str, list[Op]] = {}
            for op in (op for op in here if op not in rows):
                nests.setdefault(self._columns([op]), []).append(op)
            for alike in nests.values():
                lines += self._nest(alike)
        return lines

    def _computed(self, ops: Sequence[Op]) -> list[Op]:
        """The operations that have their own statement."""
        ops = [op for op in ops if not isinstance(op, (*INLINE, Load, Product))]
        return [op for op in ops if not self.inline(writes(op)[0])]

    def _levels(self, ops: Sequence[Op]) -> dict[Op, int]:
        known: dict[Value, int] = {}
        level: dict[Op, int] = {}
        for op in ops:
            level[op] = max((self._known(v, known) for v in reads(op)), default=0)
            known[writes(op)[0]] = level[op] + isinstance(op, Reduce)
        for op in reversed(ops):  # an element is worked out beside the first use of it: one fused instruction, often
            uses = [level[user] for user in ops if writes(op)[0] in self.leaves(user)]
            if isinstance(op, Map | Convert) and self.tiled(op.result) and uses:
                level[op] = min(uses)
        return level

    def leaves(self, op: Op) -> set[Value]:
        """Values that an operation reads, also through operations inlined in its expression."""
        found = set[Value]()
        for value in reads(op):
            made = self.made.get(value)
            found |= self.leaves(made) if isinstance(made, Map) and self.inline(value) else {value}
        return found

    def _known(self, value: Value, known: dict[Value, int]) -> int:
        made = self.made.get(value)
        if value not in known and isinstance(made, Map) and self.inline(value):
            return max((self._known(v, known) for v in reads(made)), default=0)
        return known.get(value, 0)

    def _keep(self, ops: Sequence[Op], level: dict[Op, int], kept: Sequence[Value]) -> None:
        """Tiles that a later nest needs are arrays."""
        of = {writes(op)[0]: level[op] for op in ops}
        for op in ops:
            for value in self.leaves(op):
                if self.tiled(value) and value in of and (of[value] < level[op]):
                    self.arrays.add(value)
        self.arrays |= {v for v in kept if self.tiled(v)}

    def _rows(self, ops: Sequence[Op]) -> list[str]:
        lines, arrays, body = list[str](), list[str](), list[str]()
        for op in ops:
            assert isinstance(op, Map | Convert)
            value = op.result
            if self.m.split not in value.axes:
                lines += within(value.span, [f"const float {self.name[value]} = {self.expression(op, False)};"])
                continue
            arrays.append(f"{self.name[value]}[2]")
            body += within(value.span, [f"{self.name[value]}[r] = {self.expression(op, False)};"])
        return [*lines, *([f"float {', '.join(arrays)};"] if arrays else []), *_rows(body)]

    def _nest(self, ops: Sequence[Op]) -> list[str]:
        if not ops:
            return []
        lines, before = list[str](), list[str]()
        columns = self._columns(ops)
        for op in ops:
            if isinstance(op, Reduce):
                name = self.name[op.result]
                parts = f"tk::parts<base_ops::{op.function}> {name}_parts({IDENTITY[op.function]});"
                before += within(op.result.span, [parts])
            elif (value := writes(op)[0]) in self.arrays and self.name[value] not in self.declared:
                self.declared.add(self.name[value])
                before.append(f"rt_fl<16, {columns}> {self.name[value]};")
        for by in dict.fromkeys(op.arguments[1] for op in ops if isinstance(op, Map) and self.divides(op)):
            name = self.name[by]
            made = f"const tk::divisor {name}_d[2] = {{tk::divisor({name}[0]), tk::divisor({name}[1])}};"
            before += within(by.span, [made])
        conditions = [self.holds(op.arguments[0]) for op in ops if isinstance(op, Map) and op.function == "where"]
        found = list(dict.fromkeys(c for c in conditions if c))
        if found:
            lines = [f"if ({' && '.join(found)}) {{", *_indented(self._body(ops, columns, True)), "} else {",
                     *_indented(self._body(ops, columns, False)), "}"]  # fmt: skip
        else:
            lines = self._body(ops, columns, False)
        reduced = {self.name[op.result]: op for op in ops if isinstance(op, Reduce)}
        arrays = [f"float {', '.join(f'{name}[2]' for name in reduced)};"] if reduced else []
        after = list[str]()
        for name, op in reduced.items():
            how = "of_lane" if op in self.deferred else "of_row"
            after += within(op.result.span, [f"{name}[r] = {name}_parts.{how}(r);"])
        self.declared -= {self.name[op.result] for op in ops if isinstance(op, Map | Convert) and self._local(op)}
        return [*before, *lines, *arrays, *_rows(after)]

    def _local(self, op: Op) -> bool:
        """Return True if an array belongs to the scope of its nest."""
        return self.name[writes(op)[0]] not in self.lasting

    def _body(self, ops: Sequence[Op], columns: str, clear: bool) -> list[str]:
        lines = list[str]()
        for op in ops:
            if isinstance(op, Reduce):
                taken = f"{self.name[op.result]}_parts.take(h, e, {self.text(op.argument, clear)});"
                lines += within(op.result.span, [taken])
                continue
            assert isinstance(op, Map | Convert)
            made = self.expression(op, clear)
            to = f"const float {self.name[op.result]}"
            if op.result in self.arrays:
                to = f"tk::at({self.name[op.result]}, t, h, e)"
            lines += within(op.result.span, [f"{to} = {made};"])
        return _elements(columns, lines)

    # ------------------------------------------------------------ what the loop hands on

    def initial(self) -> Iterator[str]:
        """The carried values before the first iteration."""
        for carry in self.m.loop.carries:
            name, value = self.name[carry.inside], self.text(carry.initial, False)
            if self.tiled(carry.inside):
                columns = self.m.columns_text(set(carry.inside.axes))
                first = _elements(columns, [f"tk::at({name}, t, h, e) = {value};"])
            else:
                first = [f"float {name}[2] = {{{value}, {value}}};"]
            yield from within(carry.inside.span, first)

    def handed(self) -> list[str]:
        """The carried values at the end of an iteration, all at once."""
        rows = [c for c in self.m.loop.carries if not self.tiled(c.inside)]
        taken = [f"const float {self.name[c.inside]}_next = {self.text(c.update, False)};" for c in rows]
        lines = _rows([*taken, *(f"{self.name[c.inside]}[r] = {self.name[c.inside]}_next;" for c in rows)])
        for carry in (c for c in self.m.loop.carries if self.tiled(c.inside)):
            if self.name.get(carry.update) != self.name[carry.inside]:
                moved = f"tk::at({self.name[carry.inside]}, t, h, e) = {self.text(carry.update, False)};"
                lines += _elements(self.m.columns_text(set(carry.inside.axes)), [moved])
        return lines

    def gathered(self) -> list[str]:
        """Lines that sum carried sums over the lanes of a row."""
        lines = list[str]()
        for reduce, carry in self.deferred.items():
            name = self.name[carry.inside]
            lines += within(reduce.result.span, [f"{name}[r] = tk::across<base_ops::sum, 4>({name}[r]);"])
        return _rows(lines)

    def converted(self, convert: Convert, factor: str = "factor") -> list[str]:
        """The left operand of a product, which is `factor`."""
        copy = "tk::convert" if convert.result.dtype.bytes == 1 else "warp::copy"
        taken, read = self.name.get(convert.argument), list[str]()
        if taken is None or convert.argument not in self.arrays:  # elements of a tensor, or a number of their rows
            taken, columns = f"{factor}_read", self.m.columns_text(set(convert.result.axes))
            read = [
                f"rt_fl<16, {columns}> {taken};",
                *_elements(columns, [f"tk::at({taken}, t, h, e) = {self.text(convert.argument, False, alone=True)};"]),
            ]
        return within(convert.result.span, [*read, f"{copy}({factor}, {taken});"])


def _rows(body: Sequence[str]) -> list[str]:
    """An unrolled loop over a lane's rows; nothing for nothing."""
    return nest(["for (int r = 0; r < 2; ++r)"], body) if body else []


def _elements(columns: str, body: Sequence[str]) -> list[str]:
    """Unrolled loops over a lane's elements of a tile; nothing for nothing.

    As one loop, or as calls of a function, they compile to other code.
    """
    counts = (("t", f"{columns} / 16"), ("h", "4"), ("e", "2"))
    heads = [f"for (int {name} = 0; {name} < {count}; ++{name})" for name, count in counts]
    return nest(heads, ["const int r = h % 2;", *body]) if body else []


def _indented(lines: Sequence[str]) -> list[str]:
    return [INDENT + line for line in lines]


@cache
def _reserved() -> frozenset[str]:
    """Names that a consumer's statements use for values of their own."""
    _, consumer = chained.program().roles
    text = "\n".join(printed((*consumer.before, consumer.tiles, *consumer.behind), 0))
    functions = (re.findall(r"__device__ inline \w+ (\w+)\(", helper) for helper in helpers(FUNCTIONS, HOPPER))
    return frozenset({*WORD.findall(re.sub("//.*", "", text)), *chain(*functions), *LOCALS})
