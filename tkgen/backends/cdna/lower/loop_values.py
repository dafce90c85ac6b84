"""Values of a loop of equations as C++ statements: what makes register tiles and columns of a wave.

Operations next to each other over the same axes are one nest of unrolled loops; what only they use has no tile of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tkgen.backends.cdna.lower.elements import INDENT, TYPES, nest
from tkgen.backends.cdna.lower.loop_exchanges import Exchanges
from tkgen.backends.cdna.lower.loop_expressions import Elementwise, LoopExpressions
from tkgen.backends.cdna.lower.loop_hints import interleaved, rows_at_once
from tkgen.backends.cdna.lower.loop_reductions import IDENTITIES, reduced
from tkgen.backends.cdna.lower.loop_waits import WHOLE, UnderWay
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.origins import within
from tkgen.backends.cdna.lower.places import BlockPlaces, Names
from tkgen.backends.cdna.lower.ranges import conjuncts
from tkgen.backends.cdna.lower.value_names import NEXT
from tkgen.ir.equations import (
    Axis,
    Convert,
    Kind,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Store,
    Value,
    When,
    reads,
    writes,
)
from tkgen.ir.functions import CDNA, FUNCTIONS
from tkgen.ir.types import DType
from tkgen.schedule.loop_loads import at_once, widened
from tkgen.schedule.loop_tiles import Moving, Multiplication, Outside, extent
from tkgen.schedule.loops import VOTES, LoopMap

PACKED = frozenset({"add", "sub", "mul"})  # instructions take two elements of a lane at a time


class LoopValues(LoopExpressions):
    """The C++ of values for one layout."""

    def __init__(self, m: LoopMap, names: Names, places: BlockPlaces):
        super().__init__(m, names, places)
        self.exchanges = Exchanges(m, places, self.name)
        self.under_way = UnderWay(m, self.made, self.users)
        self.arriving: set[str] = set()  # what is on its way from LDS, since the last meeting
        self.part = WHOLE  # of how many along the rows of tiles that statements do

    # ------------------------------------------------------------ statements

    def statements(self, ops: Sequence[Op], part: tuple[int, int] = (0, 1)) -> list[str]:
        """Operations in order; those that are worked out in place, and loads of factors, give none.

        `part`: number, of how many, along the rows of tiles.
        """
        lines: list[str] = []
        before, self.part = self.part, part
        group: list[Elementwise] = []

        def close() -> None:
            if group:
                lines.extend(self._group(group))
                group.clear()

        for op in ops:
            multiplication = None if isinstance(op, Store | Loop) else self.by_result.get(writes(op)[0])
            if isinstance(op, Store):
                close()
                exchange = next((x for x in self.m.exchanges if x.store == op), None)
                lines += within(op.span, self.exchanges.added(exchange) if exchange else self._stored_now(op))
                self.under_way.store(op.value)
            elif isinstance(op, Product) and (exchange := self.exchanged.get(op.result)) is not None:
                close()
                lines += within(exchange.product.result.span, self.exchanges.multiplied(exchange))
                self.under_way.multiply(op.result)
            elif isinstance(op, Product) and (alone := self.outside.get(op.result)) is not None:
                close()
                lines += within(op.result.span, self._multiplied_from_memory(alone))
                self.under_way.multiply(op.result)
            elif multiplication is not None:
                close()
                lines += within(multiplication.result.span, self._multiplied(multiplication))
            elif isinstance(op, Reduce):
                close()
                lines += within(op.result.span, self._reduced(op))
            elif isinstance(op, When):
                close()
                lines += within(op.span, self._chosen(op))
            elif isinstance(op, Load) and (ring := self.vectors.get(op.source)) is not None:
                close()
                lines += within(op.result.span, self._read(op, ring))
            elif isinstance(op, Load) and op in self.m.loads_of_iterations:
                close()
                lines += within(op.result.span, self._loaded_now(op))
            elif isinstance(op, Load) and op in self.m.tiles_loaded:
                close()
                lines += [] if op in self.m.loop.body else within(op.result.span, self.loaded(op))
            elif isinstance(op, Convert) and op.result in self.factors:
                close()
                whole = self.rounds and op.result.dtype is DType.BF16
                how = "tk::round_operand" if whole or self.m.direct or op.result.dtype.bits == 8 else "copy"
                end = self.places.remark(op.result.span)
                lines += [*self.declare(op.result), f"{how}({self.name[op.result]}, {self.name[op.argument]});{end}"]
            elif self._is_mask(op):
                close()
                lines += within(writes(op)[0].span, self._masked(op))
            elif isinstance(op, Elementwise) and not self.is_inline(op.result):
                if group and group[0].result.axes != op.result.axes and (
                    set(group[0].result.axes) != set(op.result.axes)
                ):  # fmt: skip
                    close()
                group.append(op)
            else:
                assert self._silent(op), f"{op} has no statement"
        close()
        self.part = before
        return lines

    def _silent(self, op: Op) -> bool:
        inline = isinstance(op, Load) or self.is_inline(writes(op)[0])
        return op.result in self.by_product if isinstance(op, Product) else inline

    def _group(self, group: Sequence[Elementwise]) -> Iterator[str]:
        """Element by element, over the same axes."""
        written = [op for op in group if op.result not in self.inlined]
        paired = all(map(self._in_pairs, written))
        kinds = {**TYPES, Kind.NUMBER: "tk::pair"} if paired else TYPES
        for value in dict.fromkeys(v for op in written for v in self._divisors(op)):
            name = self.name[value]
            yield from self._once(f"{name}_d", f"tk::divisor {name}_d[COLS / SIDE];")
            made = nest(["for (int c = 0; c < COLS / SIDE; ++c)"], [f"{name}_d[c] = tk::divisor({name}[c][0]);"])
            yield from within(value.span, made)
        local: dict[Value, str] = {}
        body: list[str] = []
        for op in written:
            value, end = op.result, self.places.remark(op.result.span)
            kept = any(user not in group for user in self._users(value))
            expression = self._pair(op, local) if paired else self.expression(op, local)
            if any(user in group for user in self.users.get(value, [])):
                element = f"{self.name[value]}_e"
                if element in local.values():  # what ends the use of another value, in its place
                    element = f"{self.own[value]}_e"
                body += within(value.span, [f"const {kinds[value.kind]} {element} = {expression};{end}"])
                expression, end = element, ""
                local[value] = element
            if kept:
                yield from self.declare(value)
                pair = f"tk::put_pair({self.name[value]}, i, c, e, {expression});"
                body += within(value.span, [f"{pair if paired else self.put(value, expression)}{end}"])
        alone = len(body) == 1 and self.part == WHOLE and self.rows(value) is not None
        if alone and (paired or self.divides(written[0])):  # of others LLVM makes other code
            element = f"[&](int i, int c, int e) {{ return {expression}; }}"
            yield f"tk::map{'_pairs' * paired}({self.name[value]}, {element});{end}"
        elif body:
            yield from self.nest(self.rows(group[0].result), body, "ELEMENTS / 2" if paired else "ELEMENTS")

    def _users(self, value: Value) -> Iterator[Op]:
        """The operations whose expressions have a value: those inside others are written with these."""
        for user in self.users.get(value, []):
            if isinstance(user, Map) and user.result in self.inlined:
                yield from self._users(user.result)
            else:
                yield user

    def _in_pairs(self, op: Elementwise) -> bool:
        """True if an operation on tiles is done for two elements at a time: numbers, a function of pairs or of one."""
        if not isinstance(op, Map) or self.rows(op.result) is None or self.divides(op):
            return False
        if op.function not in PACKED and len(op.arguments) != 1:
            return False
        for value in op.arguments:
            tile, column = set(value.axes) == set(op.result.axes), set(value.axes) <= {self.m.split}
            if value.kind is not Kind.NUMBER or not (tile or column) or (self.is_inline(value) and value.axes):
                return False
            if value in self.inlined and not (isinstance(made := self.made[value], Map) and self._in_pairs(made)):
                return False
        return FUNCTIONS[op.function].takes != "place"

    def _pair(self, op: Elementwise, local: Mapping[Value, str]) -> str:
        """The right side of an operation for two elements at a time."""
        assert isinstance(op, Map)
        texts = [self._pair_text(v, local) for v in op.arguments]
        if op.function in PACKED:
            return FUNCTIONS[op.function].cpp[CDNA].format(*texts)
        function = FUNCTIONS[op.function].cpp[CDNA].format("x", *["0"] * (FUNCTIONS[op.function].arity - 1))
        return f"tk::each([](float x) {{ return {function}; }}, {texts[0]})"

    def _pair_text(self, value: Value, local: Mapping[Value, str]) -> str:
        made = self.made[value]
        if value in self.inlined and value not in local:
            assert isinstance(made, Map)
            return f"({self._pair(made, local)})" if made.function in PACKED else self._pair(made, local)
        if value in local or self.is_inline(value) or self.rows(value) is None:
            return self.text(value, local)
        return f"tk::pair_at({self.name[value]}, i, c, e)"

    def _divisors(self, op: Elementwise) -> Iterator[Value]:
        """Divisors of an operation, and of those inlined in its expression."""
        if isinstance(op, Map) and self.divides(op):
            yield op.arguments[1]
        for value in reads(op):
            inner = self.made[value]
            if value in self.inlined and isinstance(inner, Elementwise):
                yield from self._divisors(inner)

    def put(self, value: Value, expression: str) -> str:
        """The element at hand of a value's place = an expression."""
        if self.rows(value) is None:
            return f"{self.name[value]}[c][0] = {expression};"
        return f"tk::put({self.name[value]}, i, c, e, {expression});"

    def nest(self, rows: Axis | None, body: Sequence[str], elements: str = "ELEMENTS") -> list[str]:
        """The loops over a lane's elements of a tile, or of a vector."""
        heads = ["for (int c = 0; c < COLS / SIDE; ++c)"]
        if rows is not None:
            begin, end = self._of_part(f"{self.extent(rows)} / SIDE")
            first = f"for (int i = {begin}; i < {end}; ++i)"
            heads = [first, *heads, f"for (int e = 0; e < {elements}; ++e)"]
        return nest(heads, body)

    def _of_part(self, count: str) -> tuple[str, str]:
        """The first of `count` rows of the part that is done, and the one after its last."""
        part, parts = self.part
        begin, end = (f"{n} * {count} / {parts}" if n else "0" for n in (part, part + 1))
        return begin, count if part + 1 == parts else end

    def _masked(self, op: Op) -> Iterator[str]:
        """A choice by coordinates, where any element of the tile is not as it was: by each condition of several alone.

        Few tiles need more than one of them, and where all are worked out together they take many scalar registers.
        """
        assert isinstance(op, Map)
        chosen, tile, other = op.arguments
        yield f"tk::keep({self.name[op.result]});"
        yield from self.under_way.before_branch(op.result, self.part)
        for condition in conjuncts(chosen, self.made):
            alone = replace(op, arguments=(condition, tile, other))
            body = self.nest(self.rows(op.result), [self.put(op.result, self.expression(alone, {}))])
            yield f"if (!({self.holds(condition)})) {{{self.places.remark(op.result.span)}"
            yield from (INDENT + line for line in body)
            yield "}"

    # ------------------------------------------------------------ conditions

    def voted(self, when: When, number: int) -> Iterator[str]:
        """Lines that tell the other waves if any element of this wave satisfies the condition."""
        rows = self.rows(when.condition)
        inside = [self.text(when.condition, {})]
        for axis in when.condition.axes:
            if axis.tile is not None and axis.dim.size is not None and axis.dim.size % axis.tile:
                inside.append(f"{self._coordinate(axis)} < {axis.dim.size}")
            if axis == self.m.split and self.m.waves * self.m.columns > extent(axis):
                inside.append(f"{self._coordinate(axis)} < {self.places.axis[axis]}_0 + {axis.tile}")
        yield f"bool asks_{number} = false;"
        yield from self.nest(rows, [f"asks_{number} = asks_{number} || ({' && '.join(inside)});"])
        yield from self.under_way.before_branch(when.condition)
        yield f"tk::vote(votes_{number}[step % {VOTES}], asks_{number});{self.places.remark(when.span)}"

    def _chosen(self, when: When) -> Iterator[str]:
        """New values where any wave asks for them."""
        for c in when.chosen:
            if self.name[c.result] != self.name[c.otherwise]:
                yield from self.declare(c.result)
                yield from self._set(c.result, c.otherwise)
        number, outer = self.m.votes.index(when), set(self.declared)
        yield from self.under_way.before_branch(when.condition)
        inner = [*self.statements(when.body)]
        for c in when.chosen:
            inner += self._set(c.result, c.update)
        self.declared = outer
        yield f"if (tk::any_vote(votes_{number}[step % {VOTES}])) {{{self.places.remark(when.span)}"
        yield from (INDENT + line for line in inner)
        yield "}"

    def _set(self, to: Value, value: Value) -> Iterator[str]:
        """A place = a value."""
        if self.is_inline(value) or value in self.inlined or set(value.axes) != set(to.axes):
            yield from self.nest(self.rows(to), [self.put(to, self.text(value, {}))])
        elif self.name[to] != self.name[value]:
            yield f"{self.name[to]} = {self.name[value]};"

    def _reduced(self, op: Reduce) -> Iterator[str]:
        yield from self.declare(op.result)
        line = reduced(op, self.m.kernel, self.name[op.result], self.name[op.argument])
        yield f"{line}{self.places.remark(op.result.span)}"

    def shared(self, number: int) -> Iterator[str]:
        """This wave's part of a reduction after the loop, to LDS."""
        op = self.m.combined[number]
        name, argument = f"parts_{number}", op.argument
        tile = self.name[argument]
        of = f"tk::share_rows<base_ops::{op.function}>({name}[wave], {tile}, {IDENTITIES[op.function]});"
        yield f"{of}{self.places.remark(op.result.span)}"

    def combined(self, number: int) -> Iterator[str]:
        """The result of a reduction after the loop, of the parts in LDS."""
        op = self.m.combined[number]
        yield from self.declare(op.result)
        yield f"tk::take_rows<base_ops::{op.function}>({self.name[op.result]}, parts_{number});"

    def early(self, item: str, ahead: bool, part: tuple[int, int] = (0, 1)) -> Iterator[str]:
        """The product of `item` that is computed an iteration ahead, or a part; before the loop that of the first
        iteration."""
        x = self.m.early
        assert x is not None
        name = self.name[x.result]
        if ahead:
            self.name[x.result] = f"{name}{NEXT}"
        self.part = part
        yield from self._multiplied(x, item)
        self.name[x.result], self.part = name, (0, 1)

    def _multiplied(self, x: Multiplication, item: str = "step") -> Iterator[str]:
        """A product, some rows of the result at a time: as many as keep what is read of LDS small."""
        moving, result = x.moving, self.name[x.result]
        self.under_way.multiply(x.result if item == "step" else None, self.part)
        if self.m.early not in (None, x) and not self.m.fenced and x == self.m.multiplications[1]:
            yield interleaved(self.m, self.extent)
        rows, summed = self.extent(x.rows), self.extent(x.summed)
        yield from self.declare(x.result)
        if x.onto is not None and self.name[x.onto] != result and self.part[0] == 0:
            loaded = isinstance(self.made.get(x.onto), Load)  # such as a bias of scores
            onto = self.name[x.onto]
            yield f"tk::widen_tile({result}, {onto});" if loaded else f"{result} = {onto};"
        if moving.direct:
            yield from self._multiplied_ahead(x)
            return
        slot = self.slot(x, item)
        by_rows = isinstance(self.made[x.held], Load)
        held, end = self.name[x.held], self.places.remark(x.result.span)
        read = f"{self.places.base[moving.access]}_r"
        kind = partial(self.operand, moving.access.tensor.dtype)
        if x.across:
            own = [] if x.held_ring is None else self._own_part(x.held_ring, held, "SIDE", "k", item)
            right = held if own else f"tk::subtile_inplace<SIDE>({held}, k)"
            if x.onto is None:
                yield f"zero({result});"
            yield from nest(
                [f"for (int k = 0; k < {summed} / SIDE; ++k)"],
                [
                    f"{kind(f'{rows}, SIDE')} {read};",
                    f"tk::load_across<{self.m.neighbours(x.rows)}>({read}, {slot}, k * SIDE);",
                    *own,
                    f"mma_AB{'t' if own else ''}({result}, {read}, {right}, {result});{end}",
                ],
            )
            return
        if x.held_ring is not None:
            yield from self._own_part(x.held_ring, held, summed, "0", item)
        part = rows_at_once(x)
        begin, stop = self._of_part(f"{rows} / {part}")
        yield from nest(
            [f"for (int n = {begin}; n < {stop}; ++n)"],
            [
                f"{kind(f'{part}, {summed}')} {read};",
                f"load({read}, subtile_inplace<{part}, {summed}>({slot}, {{n, 0}}));",
                f"auto &part = tk::subtile_inplace<{part}>({result}, n);",
                *(["zero(part);"] if x.onto is None else []),
                f"mma_{'ABt' if by_rows or moving.of_bytes else 'AB'}(part, {read}, {held}, part);{end}",
            ],
        )

    def _own_part(self, ring: Moving, name: str, summed: str, col: str, item: str) -> list[str]:
        """The part of a ring's tile of iteration `item` that has this wave's columns, to registers as an operand.

        `summed` of its columns are read, number `col` of such parts.
        """
        tile = self.ring(ring.access, ring.buffers, item)
        kind = self.operand(ring.access.tensor.dtype, f"COLS, {summed}")
        part = f"subtile_inplace<COLS, {summed}>({tile}, {{wave, {col}}})"
        return [f"{kind} {name};", f"load({name}, {part});"]

    def _multiplied_from_memory(self, x: Outside) -> Iterator[str]:
        """A product outside of the loop: rows of its other operand are read from memory as they are multiplied."""
        source, result, part = x.source.source, self.name[x.product.result], rows_at_once(x)
        read, summed = f"{self.places.base[source]}_r", self.extent(x.summed)
        transposed = "t" if isinstance(self.made[x.held], Load) else ""
        yield from self.declare(x.product.result)
        place = f"{self.places.buffer(source)}, n * {part}, {self.places.pitch(source)}"
        end = self.places.remark(x.product.result.span)
        yield from nest(
            [f"for (int n = 0; n < {self.extent(x.rows)} / {part}; ++n)"],
            [
                f"{self.operand(source.tensor.dtype, f'{part}, {summed}')} {read};",
                f"tk::load_operand({read}, {place});",
                f"auto &part = tk::subtile_inplace<{part}>({result}, n);",
                "zero(part);",
                f"mma_AB{transposed}(part, {read}, {self.name[x.held]}, part);{end}",
            ],
        )

    def operand(self, dtype: DType, size: str) -> str:
        """The C++ type of an operand of products by rows, of `size`."""
        shape = "BYTES" if dtype.bits == 8 else "OPERAND" if self.m.direct else "SHAPE"
        return f"{'' if dtype.bits == 8 else 'tk::'}rt_{dtype.suffix}<{size}, ducks::rt_layout::row, {shape}>"

    def read_ahead(self, x: Multiplication, item: str) -> Iterator[str]:
        """All of a product's tile of pass `item` to registers."""
        rows, summed = extent(x.rows), self.extent(x.summed)
        part = rows_at_once(x)
        shape, size, at = f"{part}, {summed}, ducks::rt_layout::row, OPERAND", f"{part}, {summed}", "{n, 0}"
        if x.by_columns:
            order = "ACROSS" if isinstance(self.made[x.held], Load) else "COMPUTED"
            shape, size, at = f"{summed}, {part}, ducks::rt_layout::col, {order}", f"{summed}, {part}", "{0, n}"
        name = self.ahead[x]
        self.arriving.add(name)
        yield f"tk::rt_{x.moving.access.tensor.dtype.suffix}<{shape}> {name}[{rows // part}];"
        load = f"load({name}[n], subtile_inplace<{size}>({self.slot(x, item)}, {at}));"
        yield from nest([f"for (int n = 0; n < {rows // part}; ++n)"], [load])

    def _multiplied_ahead(self, x: Multiplication) -> Iterator[str]:
        """A product of what was read ahead, once it has arrived."""
        rows, part, result = extent(x.rows), rows_at_once(x), self.name[x.result]
        transposed = "t" if isinstance(self.made[x.held], Load) else ""
        how, end = f"mma_A{'t' if x.by_columns else ''}B{transposed}", self.places.remark(x.result.span)
        if self.ahead[x] in self.arriving:
            yield "tk::arrived();"
        begin, stop = self._of_part(str(rows // part))
        yield from nest(
            [f"for (int n = {begin}; n < {stop}; ++n)"],
            [
                f"auto &part = tk::subtile_inplace<{part}>({result}, n);",
                *(["zero(part);"] if x.onto is None else []),
                f"{how}(part, {self.ahead[x]}[n], {self.name[x.held]}, part);{end}",
            ],
        )
        if x != self.m.early and not self.m.fenced:
            yield "__builtin_amdgcn_sched_barrier(0);"

    def _read(self, op: Load, ring: Moving) -> Iterator[str]:
        """A number for each row of results: this pass' part of a vector."""
        name, slot = self.name[op.result], self.ring(ring.access, ring.buffers, "step")
        yield f"{self.type(op.result)} {name};"
        yield f"load({name}, {slot});{self.places.remark(op.result.span)}"

    def loaded(self, op: Load) -> Iterator[str]:
        """A tile of results, or a number for each of their rows, from memory."""
        access, rows = op.source, self.rows(op.result)
        kind = access.tensor.dtype.cpp
        if rows in self.m.interleaved:
            kind += f", {self.m.neighbours(rows)}"
        what, at = "row", ""
        if self.m.split in op.result.axes:
            what, at = "rows", f", wave * COLS, {self.places.pitch(access)}"
        place = f"{self.name[op.result]}, {self.places.buffer(access)}{at}"
        yield from self.declare(op.result)
        yield f"tk::load_{what}<{kind}>({place});{self.places.remark(op.result.span)}"

    def _loaded_now(self, op: Load) -> Iterator[str]:
        """The loads of this iteration: a tile as in memory or of f32, a number for each column or row, or one."""
        access, name, split, axis = op.source, self.name[op.result], self.m.split, self.m.loop.axis
        begin, buffer = self.places.origin(access, (axis.kind,)), self.places.buffer(access)
        if not op.result.axes:
            yield self.number(op, begin)
            return
        kind, along = f"{access.tensor.dtype.cpp}, {at_once(self.m, access)}", op.result.axes
        yield f"const auto {buffer} = tk::buffer_from(g.{cpp_name(access.tensor.name)}, {begin});"
        if len(along) > 1 and not widened(self.m, op):
            yield f"tk::loaded_tile<{kind}, {self.extent(axis)}, COLS, SIDE> {name};"
        else:
            yield from self.declare(op.result)
        columns = ["wave * COLS", self.places.apart(access, split)] if split in along else ["0", "0"]
        rows = [self.places.apart(access, axis)] if axis in along else []
        how = f"tile<{kind}>" if rows else f"columns<{access.tensor.dtype.cpp}>"
        end = self.places.remark(op.result.span)
        yield f"tk::load_{how}({', '.join([name, buffer, *columns, *rows])});{end}"

    def _stored_now(self, op: Store) -> Iterator[str]:
        """A tile of this iteration to memory: what is within the tensor."""
        access, axis, split, end = op.target, self.m.loop.axis, self.m.split, self.places.remark(op.span)
        buffer, tensor, extent = self.places.buffer(access), access.tensor, self.extent(axis)
        begin = self.places.origin(access, (axis.kind,))
        yield f"const auto {buffer} = tk::buffer_from(g.{cpp_name(tensor.name)}, {begin});"
        if axis not in access.axes:
            yield self.stored(op)
            return
        whole = axis.dim.size is not None and axis.dim.size % (axis.tile or 1) == 0
        columns = extent if whole else f"{self.places.length(axis)} - {self.places.axis[axis]}_0"
        value = f"[&](int i, int c, int e) {{ return {self.text(op.value, {})}; }}"
        inside = f"{buffer}, wave * COLS, {self.rows_left()}, {columns}"
        if access.indices[-1].axis == split:
            kind = f"{tensor.dtype.cpp}, {extent}, COLS, SIDE"
            yield f"tk::store_across<{kind}>({inside}, {self.places.apart(access, axis)}, {value});{end}"
            return
        kind = f"{tensor.dtype.cpp}, {at_once(self.m, access)}, {extent}, COLS, SIDE"
        yield f"tk::store_tile<{kind}>({inside}, {self.places.apart(access, split)}, {value});{end}"

    def stored(self, op: Store) -> str:
        """The line that stores a tile or a vector of the axis that the waves divide."""
        along, cpp, access = self.rows(op.value), op.target.tensor.dtype.cpp, op.target
        what = "store_rows" if along else "store_columns"
        if along in self.m.interleaved:
            what, cpp = "store_interleaved", f"{cpp}, {self.m.neighbours(along)}"
        at = f"wave * COLS, {self.rows_left()}, {self.places.pitch(access)}"
        buffer, end = self.places.buffer(access), self.places.remark(op.span)
        return f"tk::{what}<{cpp}>({buffer}, {self.name[op.value]}, {at});{end}"

    def rows_left(self) -> str:
        """The rows of a block's tile that are within the tensors, and no other block's."""
        split = self.m.split
        left, tile = f"{self.places.length(split)} - {self.places.axis[split]}_0", split.tile or 1
        if split.within is None and split.dim.size is not None and split.dim.size % tile == 0:
            return str(tile)
        # A wave may have columns beyond the tile, which are another block's.
        return left if self.m.waves * self.m.columns == tile else f"min({left}, {tile})"

    def number(self, op: Load, at: str) -> str:
        """The number that all lanes take of element `at` of a tensor."""
        dtype = op.source.tensor.dtype
        held = f"g.{cpp_name(op.source.tensor.name)}.raw_ptr[{at}]"
        if not dtype.whole and dtype is not DType.F32:
            held = f"base_types::convertor<float, {dtype.cpp}>::convert({held})"
        return f"const float {self.name[op.result]} = {held};{self.places.remark(op.result.span)}"

    def slot(self, x: Multiplication, item: str) -> str:
        """The tile of a ring that belongs to an iteration."""
        return self.ring(x.moving.access, x.moving.buffers, item)

    def ring(self, access: object, buffers: int, item: str) -> str:
        """The tile of a ring in LDS that holds `item`."""
        name = f"{self.places.base[access]}_s"  # type: ignore[index]
        if buffers == 1:
            return name
        return f"{name}[{f'({item})' if ' ' in item else item} % {buffers}]"
