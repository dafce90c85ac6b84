"""The statements of an epilogue of equations: reductions, what waves hand each other of them, stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from tkgen.backends.cdna.lower.context import Context
from tkgen.backends.cdna.lower.epilogue import IDENTITY, Epilogue, Place, spans_of, variable
from tkgen.backends.cdna.lower.expressions import loops_over, wave_condition
from tkgen.backends.cdna.lower.kept import statements
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.origins import within
from tkgen.backends.cdna.lower.scattered_stores import ScatteredStore
from tkgen.backends.cdna.lower.statements import Loop, Noted, Statement
from tkgen.ir.equations import Access, Reduce, Store, Value
from tkgen.ir.reductions import Reduction, owned, rounds
from tkgen.ir.types import Role
from tkgen.source import Span
from tkgen.tile.ops import OfRound, OfSums
from tkgen.tile.ops import Store as StoreOp


class EpilogueStatements:
    """Statements of the operations after the last K-step, of kernels with equations."""

    def __init__(self, context: Context):
        self.c = context
        self.equations = context.equations
        self.rounds = rounds(context.program)
        self.kept = {statement.op: statement for statement in statements(self.equations)}

    def stored(self, op: StoreOp) -> list[Statement]:
        """A statement for each store; the last one's tile is computed in the place of the first sum."""
        result = []
        for store in self.equations.stores:
            result += self._keeps(op, store)
            last = store is self.equations.stores[-1]
            if store.target.computed:
                result.append(self._scattered(op, store))
            else:
                result.append(self._matrix(op, store, last) if len(store.target.axes) == 2 else self._owned(op, store))
        return result

    def reduced(self, op: OfRound) -> list[Statement]:
        """The reductions of a round, over what a wave has; then to LDS where other waves have the rest."""
        result, acc = [], self.c.program.accumulator
        for r in self.rounds[op.round].reductions:
            result += self._keeps(op, r.op)
            name, function = variable(r.op.result), r.op.function
            sizes = f"[{acc.fragments[r.kept]}][{owned(self.c.program, r.kept)}]"
            made = [f"float {name}{sizes};", f"tk::begin_with({name}, {IDENTITY[function]});"]
            result.append(self._of(made, (), r.op))
            loops, epilogue = self._tile(op, self._held(r.op))
            limit = self._limit(r.across)
            result.append(self._of(epilogue.fold(r, limit), loops if r.kept == 0 else loops[::-1], r.op))
            joined = f"tk::across_{'columns' if r.across else 'rows'}<base_ops::{function}, {self.c.accumulator_type}>"
            result.append(self._of([f"{joined}({name});"], (), r.op))
            self.c.functions |= epilogue.functions
        return result + (self.handed(op, "share") if op.ring else [])

    def handed(self, op: OfRound, kind: Literal["share", "gather"]) -> list[Statement]:
        """Statements that write a round's results to LDS ("share"), or read them from there ("gather")."""
        return [self._hand(op, kind, r) for r in self.rounds[op.round].reductions if r.waves > 1]

    def _hand(self, op: OfRound, kind: Literal["share", "gather"], r: Reduction) -> Statement:
        p = self.c.program
        loops, (at,) = loops_over(("ij"[r.kept], (op.rows, op.cols)[r.kept]))
        shape = p.compute.shape
        assert shape is not None
        tile = p.accumulator.tile[r.kept]
        inner = self.c.fragment_index(r.kept, ("wave_row", "wave_col")[r.kept], at, shape[r.kept])
        extent, place = (
            ("BLOCK_ROWS", "BLOCK_COLS")[r.kept],
            f"{inner if inner.isidentifier() else f'({inner})'} * {tile}",
        )
        lanes = f"tk::{('rows', 'cols')[r.kept]}_of<{self.c.accumulator_type}>"
        results = f"{variable(r.op.result)}[{at}]"
        if kind == "share":
            wave = ("wave_row", "wave_col")[r.across]
            code = f"tk::share<{lanes}>(&partial[{r.first} + {wave} * {extent} + {place}], {results});"
        else:
            function = f"tk::gather<base_ops::{r.op.function}, {lanes}, {r.waves}, {extent}>"
            code = f"{function}({results}, &partial[{r.first} + {place}]);"
        return self._of([code], loops, r.op)

    def level(self, role: Role) -> Statement:
        """The barriers that waves of an earlier phase pass."""
        waves = self.c.plan.waves_of(role.name)
        last = max(w.phase for w in self.c.plan.waves)
        code: list[str | Noted] = []
        for w in (w for w in waves if w.phase < last):
            head = Noted(f"if ({wave_condition(w.waves)}) {{", "the others catch up")
            code += [head, *["    tk::barrier();"] * (last - w.phase), "}"]
        return Statement(code, origin=self.c.origin(*(p.span for p in self.c.program.phases)))

    # ------------------------------------------------------------ stores

    def _matrix(self, op: OfSums, store: Store, last: bool) -> Statement:
        loops, epilogue = self._tile(op, self._held(store))
        code = epilogue.combine(store, self.c.how, not last, self._integers(store, epilogue))
        self.c.functions |= epilogue.functions
        return self._of(code, loops, store)

    def _scattered(self, op: OfSums, store: Store) -> Statement:
        """A store to computed positions."""
        loops, epilogue = self._tile(op, self._held(store))
        rows = len(op.rows) > 1
        cols = [f"for (int {x.variable} = {x.first}; {x.variable} < {x.first + x.count}; ++{x.variable})"
                for x in loops[rows:]]  # fmt: skip
        made = ScatteredStore(self.c, store)
        code = made.lines(epilogue, tuple(cols), self._integers(store, epilogue))
        self.c.functions |= epilogue.functions
        return self._of(code, loops[:rows] if made.axes[0] in store.target.axes else (), store)

    def _integers(self, store: Store, epilogue: Epilogue) -> str:
        """The tile of a sum of integers that is stored as it is; empty for other values."""
        dtype = self.c.program.accumulator.dtype
        summed = next((s for s in self.equations.sums if s.result == store.value), None)
        if summed is None or not dtype.whole or store.target.tensor.dtype is not dtype:
            return ""
        product = self.c.program.product_of(summed.name)
        at = epilogue.held[store.value].removeprefix(self.c.accumulator(product))
        return f"{self.c.sums(product)}{at}"

    def _owned(self, op: OfSums, store: Store) -> Statement:
        """A store of a number for each row or column, or of one."""
        loops, epilogue = self._tile(op, self._held(store))
        axes, shape = store.target.axes, self.c.program.compute.shape
        assert shape is not None
        along = (self.equations.rows, self.equations.cols).index(axes[0]) if axes else None
        wanted = [n for n in (0, 1) if n != along and shape[n] > 1]
        condition = " && ".join(f"{('wave_row', 'wave_col')[n]} == 0" for n in wanted)
        to, stride = self._address(store.target)
        extent = self.c.extent_of(axes[0].dim) if axes else ""
        if axes and axes[0].within:
            extent = self.c.length_of(axes[0])
        code = epilogue.owned(store, to, stride, extent, condition)
        self.c.functions |= epilogue.functions
        own = {0: loops[: len(op.rows) > 1], 1: loops[len(op.rows) > 1 :], None: ()}[along]
        return self._of(code, own, store)

    def _address(self, target: Access) -> tuple[str, str]:
        """The address of the first element along the axis of `target`, and the distance between its elements."""
        terms, distance = [f"g.{cpp_name(target.tensor.name)}.raw_ptr"], "1"
        for n, index in enumerate(target.indices):
            stride = " * ".join(self.c.extent_of(d) for d in target.tensor.dims[n + 1 :])
            if index.extends and index.axis is not None:
                distance = stride or "1"
                if not index.axis.within:
                    continue
            place = str(index.at)
            if index.axis is not None and index.axis.is_index:
                place = self.c.index(index.axis) + (f" / {index.divisor}" if index.divisor != 1 else "")
            elif index.axis is not None and index.axis.within:
                place = self.c.first_of(index.axis)
            elif index.axis is not None:
                place = "tile_row" if index.axis == self.equations.rows else "tile_col"
            if place != "0":
                terms.append(f"size_t({place}) * {stride}" if stride else f"size_t({place})")
        return " + ".join(terms), distance

    # ------------------------------------------------------------ parts

    def _held(self, of: Reduce | Store) -> dict[str, Value]:
        """Contents of each sum's tiles when a statement runs."""
        return {**self.kept[of].held, **dict(self.kept[of].keeps)}

    def _keeps(self, op: OfSums, of: Reduce | Store) -> list[Statement]:
        """Statements that compute values which later statements use, too."""
        found, held = [], dict(self.kept[of].held)
        for name, value in self.kept[of].keeps:
            loops, epilogue = self._tile(op, held)
            made = epilogue.keep(value, epilogue.held[held[name]])
            self.c.functions |= epilogue.functions
            found.append(self._statement(made, loops, value, held.values()))
            held[name] = value
        return found

    def _tile(self, op: OfSums, held: Mapping[str, Value]) -> tuple[tuple[Loop, ...], Epilogue]:
        """The loops over fragments, and the epilogue of the current fragment; `held` has the values of the tiles of
        sums."""
        p = self.c.program
        loops, (i, j) = loops_over(("i", op.rows), ("j", op.cols))
        products = zip(self.equations.sums, p.products, strict=True)
        tiles = {held[s.name]: f"{self.c.accumulator(x)}[{i}][{j}]" for s, x in products}
        place = Place(*self.c.output_tile(i, j), p.accumulator.tile, (i, j))
        reductions = tuple(r for each in self.rounds for r in each.reductions)
        past_end = f"<{self.c.past_end}>" if self.c.past_end else ""
        made = Epilogue(self.equations, tiles, place, self.c.matrix, self.c.accumulator_type, reductions, past_end)
        return loops, made

    def _limit(self, axis: int) -> str:
        """The end of an axis of the output, where a block may hang over it."""
        p = self.c.program
        dim = (p.m, p.n)[axis]
        if axis == 0 and p.ragged:
            return self.c.length_of(p.ragged)
        if p.tail is None or (dim.size is not None and dim.size % p.block[axis] == 0):
            return ""
        return self.c.extent_of(dim)

    def _of(self, code: Sequence[str], loops: tuple[Loop, ...], of: Reduce | Store) -> Statement:
        """A statement of what is reduced or stored."""
        value = of.value if isinstance(of, Store) else of.argument
        return self._statement(
            code, loops, value, self._held(of).values(), of.span if isinstance(of, Store) else of.result.span
        )

    def _statement(
        self, lines: Sequence[str], loops: tuple[Loop, ...], value: Value, known: Collection[Value],
        span: Span | None = None,
    ) -> Statement:  # fmt: skip
        spans = [op.result.span for op in spans_of(self.equations, value, known)]  # type: ignore[union-attr]
        code = within(span or value.span, lines)
        return Statement(code, loops, self.c.origin(span or value.span, *spans, "tail"))
