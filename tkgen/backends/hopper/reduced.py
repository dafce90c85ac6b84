"""The statements that reduce a block's sums, by rows or columns, and that store a number of each, or one of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tkgen.backends.cdna.lower.elements import INDENT
from tkgen.backends.cdna.lower.origins import within
from tkgen.backends.hopper import streamed
from tkgen.backends.hopper.epilogue import (
    Element,
    Reduction,
    element,
    element_function,
    function,
    of_all_warps,
    place_of,
    reductions,
)
from tkgen.backends.hopper.file import name
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.scattered import Scattered
from tkgen.ir.equations import Axis, Store
from tkgen.ir.tensors import Dim
from tkgen.source import Span

OWN_WARP = "consumer * WARPGROUP_WARPS + warpgroup::warpid()"
THREAD = "consumer * warpgroup::GROUP_THREADS + warpgroup::laneid()"
"""The number of a warp, and of a thread, among those of all consumers."""


def called(head: str, made: Element, sums: Sequence[str], loads: Sequence[str], remark: str = "") -> Iterator[str]:
    """A call with the function of an element, and the sums, loads and reductions that this is given."""
    parameters = [*made.sums, *(x.name for x in made.loads), *made.rows]
    given = ", ".join([*sums, *loads, *made.given])
    yield from function(f"{head}, {element_function(parameters)}", made, remark, f", {given});")


@dataclass(frozen=True)
class Reduced:
    """The C++ of what is reduced of the sums of a kernel with this layout.

    `rows` and `cols` are the sizes of a matrix, `row_tile` which 64 rows of it a consumer has, the first of which is
    `first_row`. `remark` ends a line that comes from a place of the spec.
    """

    layout: Layout
    rows: str
    cols: str
    row_tile: str
    first_row: str
    remark: Callable[[Span | None], str]
    limit: Callable[[Dim], str]

    @property
    def rounds(self) -> tuple[tuple[Reduction, ...], ...]:
        """The reductions, round by round."""
        return reductions(self.layout.equations, self.layout.rounds, name)

    @property
    def elements(self) -> Iterator[Element]:
        """The elements that are reduced, and those of numbers that are stored."""
        yield from (r.element for each in self.rounds for r in each)
        yield from map(self._number, (*self.layout.rows_stored, *self.layout.columns_stored))

    def statements(self, sums: Sequence[str]) -> Iterator[streamed.Round]:
        """The statements of each round: of columns each warp reduces those of its rows, and all combine that."""
        for number, each in enumerate(self.rounds):
            lines = [line for r in each for line in within(r.span, self._reduce(r, sums))]
            (r, *_) = each
            if not r.columns:
                yield streamed.Round(number, tuple(lines))
                continue
            columns = of_all_warps(r.name)
            combined = within(r.span, [f"tk::combine<{r.operation}>({columns}, {r.parts}, {THREAD});"])
            yield streamed.Round(number, tuple(lines), True, r.parts, columns, tuple(combined))

    def stored(self) -> Iterator[streamed.Rows]:
        """The statements that store a number of each row, of each column, or one of the block."""
        yield from map(self._rows_stored, self.layout.rows_stored)
        yield from map(self._columns_stored, self.layout.columns_stored)

    @property
    def _masked(self) -> bool:
        return self.layout.program.tail == "masked"

    def _reduce(self, r: Reduction, sums: Sequence[str]) -> Iterator[str]:
        within = f"tk::before{{{self.rows if r.columns else self.cols}}}" if self._masked else "tk::all{}"
        place = f"{r.start}, {within}, {self.first_row}, tile_col * BLOCK_COLS"
        head = f"const auto {r.name} = tk::reduce<{r.operation}>({place}"
        if r.columns:
            head = f"tk::reduce_columns<{r.operation}>({r.parts}[{OWN_WARP}], {place}"
        loads = [f"[&](int r, int c) -> float2 {{ return {x.pair}; }}" for x in r.element.loads]
        yield from called(head, r.element, sums, loads)

    def _number(self, store: Store) -> Element:
        return element(self.layout.equations, store.value, name, store.target.axes)

    def _rows_stored(self, store: Store) -> streamed.Rows:
        cluster = self.layout.clusters > 1  # a block of it may be beyond the end
        ends = [f"row >= {self.rows}"] if self._masked or cluster else []
        ends = ["row >= walk.end"] if self.layout.ragged else ends  # behind it are rows of the next group
        ends += [f"tile_col * BLOCK_COLS >= {self.cols}"] if cluster else []
        return self._stored(store, "row", self.row_tile, ends, f"tk::each_row({self.first_row}")

    def _columns_stored(self, store: Store) -> streamed.Rows:
        of_columns, cluster = bool(store.target.axes), self.layout.clusters > 1
        ends = [f"tile_row * BLOCK_ROWS >= {self.rows}"] if cluster else []
        ends += [f"col >= {self.cols}"] if of_columns and (self._masked or cluster) else []
        ends += [f"tile_col * BLOCK_COLS >= {self.cols}"] if cluster and not of_columns else []
        head = f"tk::by_first({THREAD}"
        if of_columns:
            head = f"tk::each_column<BLOCK_COLS, CONSUMERS * warpgroup::GROUP_THREADS>({THREAD}, tile_col * BLOCK_COLS"
        return self._stored(store, "col" if of_columns else "", "tile_row", ends, head)

    def _stored(self, store: Store, along: str, row: str, ends: Sequence[str], head: str) -> streamed.Rows:
        """The statements of a store: `along` is the number of a row or column, `ends` where nothing is stored."""
        equations, tensor, made = self.layout.equations, store.target.tensor, self._number(store)
        tiles: dict[Axis | None, str] = {equations.rows: "tile_row", equations.cols: "tile_col"}
        at = tiles | ({equations.rows: row} if equations.rows in store.target.axes else {})
        indices = store.target.indices
        coord = place_of(store.target, [at.get(i.axis, "") for i in indices])
        place = place_of(store.target, [along if i.extends else tiles.get(i.axis, "") for i in indices])
        put = [f"tk::number_at(g.{name(tensor.name)}, {place}) = {tensor.dtype.cpp}({made.value});"]
        if store.target.computed:
            scattered = Scattered(self.layout, store, self.first_row, self.limit, single=True)
            put = [*scattered.listed(), scattered.statement(made.value)]
        parameters = ", ".join([*([f"int {along}"] if along else []), *(f"float {v}" for v in made.rows)])
        lines = [
            *([f"if ({' || '.join(ends)}) return;"] if ends else []),
            *(f"const float {x.name} = {x.pair};" for x in made.loads),
            *made.lines,
            *put,
        ]
        given = "".join(f", {v}" for v in made.given)
        first, last = f"{head}, [&]({parameters}) {{{self.remark(store.span)}", f"}}{given});"
        stored = within(store.span, [first, *(INDENT + line for line in lines), last])
        return streamed.Rows(name(tensor.name), coord, tuple(stored))
