"""Values that a block must store, from the equations, in the terms of its tile program (`tkgen.tile.stored`).

`wrong_product` and `wrong_chain` compare it with what the program stores: of two output tiles at different places,
with all consumers, two warps of each, and the number of K-steps, or iterations, that goes around the rings twice.
Coordinates of the program are what its C++ says, evaluated; here they are worked out from the indices of the equations.
Of a cluster one block is compared, which copies all of its tiles itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import lcm
from typing import TYPE_CHECKING

from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.hopper.file import name
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.scattered import output_names
from tkgen.backends.hopper.schedule import MACHINE
from tkgen.backends.hopper.streamed import Code, program
from tkgen.ir.equations import Access, Axis, Index
from tkgen.ir.types import Side
from tkgen.proof.terms import Term, Terms
from tkgen.schedule.loop_tiles import extent
from tkgen.tile.stored import Coordinate, computed, copied, product, stores
from tkgen.tile.unroll import Tile, unroll

if TYPE_CHECKING:
    from tkgen.backends.hopper.chained import Code as Chained
    from tkgen.backends.hopper.fused_loop import FusedLoop
    from tkgen.backends.hopper.loops import HopperLoop

WARPS = 2  # of a consumer, which stand for its four
TILES = 2
PADDED = 40_009  # rows of a tile that has fewer than a product: no other number
FIRST = 5  # K-step of a block's part of a tile, where several blocks share one

Expected = Mapping[tuple[str, Coordinate], Sequence[Term]]


def wrong_product(layout: Layout, code: Code) -> str | None:
    """The first difference between the stores of a kernel of products and its equations; None without one."""
    block, steps = layout.program.block, 2 * (lcm(layout.stages, 2) if layout.scaled else layout.stages) + 1
    values = {
        "STAGES": layout.stages, "CONSUMERS": layout.consumers, "FRAGMENTS": layout.fragments, "CLUSTER": 1, "rank": 0,
        "WARPGROUP_WARPS": WARPS, "STORE_BUFFERS": layout.store_buffers, "BLOCK_ROWS": block[0],
        "BLOCK_COLS": block[1], "K_STEP": block[2], code.steps: steps,
    }  # fmt: skip
    for output, store in zip(code.outputs, layout.tiles_stored, strict=True):
        values |= {output.panels: layout.panels_of(store)}
        values |= {f"{output.tensor}_tile__cols": layout.panel_cols(store.target.tensor)}
    tiled = [*(o.tensor for o in code.operands), *(o.tensor for o in code.outputs)]
    values |= {f"{tensor}_tile__rows": layout.machine.wgmma_rows for tensor in tiled}
    places = [_ProductPlace(layout, number, steps) for number in range(TILES)]
    terms = Terms()
    found = stores(unroll(program(code), MACHINE, values, [place.values for place in places]), terms)
    return compared(found, dict(chain.from_iterable(place.meant(terms) for place in places)))


def wrong_chain(m: HopperLoop, code: Chained) -> str | None:
    """The same of a kernel of two products in a loop; where a tile may take no iteration, also of such a tile."""
    from tkgen.backends.hopper.chained import constants
    from tkgen.backends.hopper.chained import program as chained_program  # products alone do not need it

    values = {**constants(*m.buffers, m.consumers, WARPS)}
    places = [_ChainPlace(m, number) for number in range(TILES + m.of_groups)]
    terms = Terms()
    found = stores(unroll(chained_program(code), MACHINE, values, [place.values for place in places]), terms)
    return compared(found, dict(chain.from_iterable(place.meant(terms) for place in places)))


def compared(found: Expected, meant: Expected) -> str | None:
    """The first tile that is stored and differs from what is meant; None without one."""
    for place, terms in meant.items():
        if Counter(found.get(place, ())) != Counter(terms):
            times = len(found.get(place, ()))
            what = "is not the value of the equations" if times == len(terms) else f"is stored {times} times"
            return f"tile {place[1]} of `{place[0]}` {what}"
    if others := found.keys() - meant.keys():
        tensor, coordinate = min(others)
        return f"tile {coordinate} of `{tensor}` is stored, and is no tile of the block"
    return None


def _coordinate(access: Access, at: Mapping[Axis, int], indices: Mapping[str, int]) -> Coordinate:
    """Batch, depth, row and column of a tile: along the axes of the tile as `at` says, otherwise by `indices`."""
    found = []
    for index in access.indices:
        if index.axis is None:
            found.append(index.at or 0)
        elif index.axis in at:
            found.append(at[index.axis])
        else:
            found.append(indices.get(index.axis.name, 0) // index.divisor)
    return tuple([0, 0, 0, *found][-4:])


class _ProductPlace:
    """An output tile of a kernel of products: where it lies, and what is to be stored there."""

    def __init__(self, layout: Layout, number: int, steps: int):
        self.layout, self.steps = layout, steps
        self.row, self.col = 7 + number, 101 + number  # in tiles of the block
        self.indices = {axis.name: 1009 + 10 * n + number for n, axis in enumerate(layout.program.batch)}
        self.first = FIRST if layout.program.grid.shares_tiles else 0
        if (part := layout.program.part) is not None:
            self.first = self.indices[part.name] * steps
        self.begin = 100_000 * (number + 1)  # of a group's rows
        self.end = 1 << 20  # of that group: of the second tile within the last 64 rows of a consumer in the middle
        if number:
            last = self._row((layout.consumers - 1) // 2, layout.fragments - 1)
            self.end = self.begin + last * layout.machine.wgmma_rows + 1

    @property
    def values(self) -> Tile:
        """The values of the names that the C++ of a tile has."""
        return {
            "tile_row": self.row, "tile_col": self.col, "first": self.first, "walk__first": self.begin,
            "walk__end": self.end,
            **{f"{cpp_name(axis)}_i": at for axis, at in self.indices.items()},
        }  # fmt: skip

    def _row(self, consumer: int, fragment: int) -> int:
        """The number of 64 rows in the output, or in a group's."""
        layout = self.layout
        return (self.row * layout.consumers + consumer) * layout.fragments + fragment

    def meant(self, terms: Terms) -> Iterator[tuple[tuple[str, Coordinate], Sequence[Term]]]:
        """The terms that each panel must have."""
        layout, sums = self.layout, self.layout.equations
        parts = [(c, f) for c in range(layout.consumers) for f in range(layout.fragments)]  # 64 rows each
        totals = {part: [self._sum(terms, n, self._row(*part)) for n in range(len(sums.sums))] for part in parts}
        reduced: dict[tuple[int, int], list[Term]] = {part: [] for part in parts}
        for number, ops in enumerate(layout.rounds):
            word = "columns" if layout.of_columns(ops[0]) else "reduced"
            own = {p: computed(terms, f"{word} {number}", tiles=(*totals[p], *reduced[p])) for p in parts}
            if word == "columns":  # each warp's, in order: of one consumer they are the same
                all_of_them = [own[part] for part in parts for _ in range(WARPS)]
                whole = all_of_them[0] if len(parts) == 1 else terms.of("parts", *all_of_them)
                own = dict.fromkeys(parts, computed(terms, f"reduced {number}", tiles=(whole,)))
            for part in parts:
                reduced[part].append(own[part])
        for store in layout.columns_stored:
            at = {sums.rows: self.row, sums.cols: self.col}
            values = [self._stored_value(terms, reduced[part]) for part in parts for _ in range(WARPS)]
            yield (name(store.target.tensor.name), _coordinate(store.target, at, self.indices)), values
        for consumer in range(layout.consumers):
            for fragment in range(layout.fragments):
                row, part = self._row(consumer, fragment), (consumer, fragment)
                for store in layout.rows_stored:
                    at = {sums.rows: row, sums.cols: self.col}
                    values = [self._stored_value(terms, reduced[part])] * WARPS
                    yield (name(store.target.tensor.name), _coordinate(store.target, at, self.indices)), values
                for tensor, store in output_names(layout).items():
                    for panel in range(layout.panels_of(store)):
                        term = computed(terms, tensor, panel, tiles=(*totals[part], *reduced[part]))
                        place, times = self._stored(store.target, row, panel)
                        yield (tensor, place), [term] * times

    def _stored_value(self, terms: Terms, reduced: Sequence[Term]) -> Term:
        """The stored value of rows or columns, computed from all reductions."""
        return reduced[0] if len(reduced) == 1 else terms.of("values", *reduced)

    def _stored(self, target: Access, row: int, panel: int) -> tuple[Coordinate, int]:
        """The coordinate of a panel, and how many store there: of part of a group's last tile each warp its rows."""
        layout = self.layout
        col = self.col * (layout.program.block[1] // layout.panel_cols(target.tensor)) + panel
        if target.computed:  # of its first element in the product
            first = row * layout.machine.wgmma_rows + (self.begin if layout.ragged else 0)
            of_batch = (self.indices[axis.name] for axis in layout.program.batch)
            return (*of_batch, first, col * layout.panel_cols(target.tensor)), WARPS
        if not layout.ragged:
            times = WARPS if layout.stored_in_chunks(target.tensor) else 1
            at = {layout.equations.rows: row, layout.equations.cols: col}
            return _coordinate(target, at, self.indices), times
        first = self.begin + row * layout.machine.wgmma_rows
        at_col = col * layout.panel_cols(target.tensor)
        partial = first + layout.machine.wgmma_rows > self.end
        return ((first, at_col, self.end), WARPS) if partial else ((0, 0, first, at_col), 1)

    def _sum(self, terms: Terms, number: int, row: int) -> Term:
        """A sum over the K-steps, of their products or of what these are made."""
        total, k = self.layout.equations.sums[number], self.layout.equations.contraction
        layouts = "AtB" if total.left.axes[0] == k else "AB"  # of both, as their own indices have them
        layouts += "" if total.right.axes[0] == k else "t"
        products = []
        for step in range(self.first, self.first + self.steps):
            left, right = (self._brought(terms, *each, step) for each in ((total.left, row), (total.right, self.col)))
            products.append(product(terms, layouts, left, right))
        if not self.layout.scaled:
            return terms.sum(products)
        made = computed(terms, "zero", tiles=())
        for each in products:
            made = computed(terms, "added", tiles=(each, made))
        return made

    def _brought(self, terms: Terms, access: Access, place: int, step: int) -> Term:
        """The tile of an operand: copied, or what warps load at its first row, at the step, at indices of a batch."""
        layout, tensor = self.layout, access.tensor.name
        is_left = layout.program.operand(tensor).side is Side.A
        if tensor in layout.ended and is_left and layout.consumers > 1:  # one copy brings the rows of all
            if not layout.one_panel(layout.program.operand(tensor)):
                return computed(terms, "rows of several consumers", tiles=())
            place, part = divmod(place, layout.consumers)
            return copied(terms, name(tensor), self._operand(access, place, step), part)
        if tensor not in layout.filled:
            return copied(terms, name(tensor), self._operand(access, place, step))
        first = place * (layout.machine.wgmma_rows if is_left else layout.program.block[1])
        first += self.begin if layout.ragged and is_left else 0
        at = (first, step, *(self.indices[axis.name] for axis in layout.batch_of(access)))
        return computed(terms, f"loaded {name(tensor)}", *at, tiles=())

    def _operand(self, access: Access, place: int, step: int) -> Coordinate:
        """The coordinate of an operand's tile: rows of a group are counted one by one, with the step's elements."""
        layout, sums = self.layout, self.layout.equations
        of_group = layout.ragged and sums.rows in access.axes
        if of_group:
            place = self.begin + place * layout.machine.wgmma_rows
            step *= layout.program.block[2]
        return _coordinate(access, {sums.rows: place, sums.cols: place, sums.contraction: step}, self.indices)


class TilePosition:
    """An output tile of a kernel with a loop of matmuls: its position, its iterations, the coordinates of tiles."""

    def __init__(self, m: FusedLoop, number: int):
        self.m, self.number = m, number
        self.tile, self.first = 7 + number, 3 * number
        self.iterations = range(self.first, self.first + self.iterations_of * (number < TILES))
        others = [axis for axis in m.kernel.axes if axis not in (m.split, m.loop.axis)]
        self.indices = {axis.name: 1009 + 10 * n + number for n, axis in enumerate(others)}
        self.groups = {
            axis.name: ({"first": 100_000 * (n + 1) + number} if axis.is_moved else {}) | {"length": 5003 + 10 * n}
            for n, axis in enumerate(m.kernel.ragged)
        }

    @property
    def iterations_of(self) -> int:
        """The iterations of a tile that has any: enough to go around the rings twice."""
        raise NotImplementedError

    @property
    def values(self) -> Tile:
        """The values of the names that the C++ of a tile has."""
        indices = {f"{cpp_name(axis)}_i": at for axis, at in self.indices.items()}
        ends = {"first_iteration": self.iterations.start, "iterations": self.iterations.stop}
        groups = {f"{cpp_name(a)}_{of}": n for a, both in self.groups.items() for of, n in both.items()}
        split = cpp_name(self.m.split.name)
        padded = {f"{split}_first": self._first, f"{split}_rows": PADDED} if self.m.padded else {}
        return {f"{split}_i": self.tile, **padded, **ends, **indices, **groups}

    @property
    def _first(self) -> int:
        """The first row of a tile with fewer rows than a product."""
        return self.tile * extent(self.m.split)

    def _at(self, index: Index) -> int:
        """The position of an index that does not change along the tile."""
        if index.axis is None:
            return index.at
        if index.extends:
            return 0
        return self.tile if index.axis == self.m.split else self.indices[index.axis.name] // index.divisor

    def coordinate(self, access: Access, row: int, iteration: int, column: int = 0) -> Coordinate:
        """The coordinate of a tile at `row` of 64 rows and at an iteration, as its C++ has it.

        `column` is the number of the part of the columns, where consumers divide these.
        """
        m, split, loop = self.m, self.m.split, self.m.loop.axis
        at = dict.fromkeys(access.axes, 0) | {split: row, loop: iteration}
        at |= {m.divided: column} if m.divided is not None else {}
        at |= {split: self.tile} if any(i.of_tile and i.axis == split for i in access.indices) else {}
        if (page := m.page(access)) is not None:
            size = next(i.divisor for i in access.indices if i.remainder) // m.keys
            assert page.through is not None
            tile = [0 if i is page else iteration % size if i.remainder else self._at(i) for i in access.indices]
            listed = [iteration // size if i.axis == loop else self._at(i) for i in page.through.indices]
            length = self.groups[loop.name]["length"] if loop.within else loop.dim.size or 0
            return (*[0, 0, 0, *tile][-4:], length, *[0, 0, 0, *listed][-4:])
        if m.padded and split in access.axes:
            return (*_coordinate(access, at | {split: 0}, self.indices), self._first, PADDED)
        (group, *_) = [*(self.groups[a.name] for a in access.axes if a.within), None]
        of_group = (group.get("first", 0), group["length"]) if group else ()
        return (*_coordinate(access, at, self.indices), *of_group)


class _ChainPlace(TilePosition):
    """An output tile of a kernel of two products in a loop."""

    m: HopperLoop

    @property
    def iterations_of(self) -> int:
        """Enough to go around both rings twice."""
        return 2 * lcm(*self.m.buffers) + 1

    def meant(self, terms: Terms) -> Iterator[tuple[tuple[str, Coordinate], Sequence[Term]]]:
        """The terms that each consumer's tile must have."""
        m, consumers = self.m, range(self.m.consumers)
        if m.second is None:
            for consumer in consumers:
                total = self._rows(terms, self.tile * m.consumers + consumer)
                for store in m.rows_stored:
                    place = self.coordinate(store.target, self.tile * m.consumers + consumer, 0)
                    yield (name(store.target.tensor.name), place), [total] * WARPS
            return
        totals = [self._total(terms, self.tile * m.consumers + consumer) for consumer in consumers]
        reduced = list[Term]()
        for number in range(len(m.combined)):
            own = [computed(terms, f"columns {number}", tiles=(total, *reduced)) for total in totals]
            parts = [part for part in own for _ in range(WARPS)]  # of one consumer they are the same
            whole = own[0] if len(own) == 1 else terms.of("parts", *parts)
            reduced.append(computed(terms, f"reduced {number}", tiles=(whole,)))
        for store in m.columns_stored:
            value = reduced[0] if len(reduced) == 1 else terms.of("values", *reduced)
            yield (name(store.target.tensor.name), self.coordinate(store.target, self.tile, 0)), [value] * len(parts)
        (out,) = m.tile_stored
        for consumer, total in zip(consumers, totals, strict=True):
            value = computed(terms, "behind", tiles=(total, *reduced)) if reduced else total
            place = self.coordinate(out.target, self.tile * m.consumers + consumer, 0)
            yield (name(out.target.tensor.name), place), [value]

    def _total(self, terms: Terms, row: int) -> Term:
        """The sums of a consumer's rows after the loop."""
        m = self.m
        assert m.second is not None
        of_right, second = m.second.right, "ABt" if m.keys_innermost else "AB"
        held = copied(terms, name(m.held.tensor.name), self.coordinate(m.held, row, 0))
        total: Term | None = None if self.iterations else computed(terms, "initial", tiles=())
        for number in self.iterations:
            left = copied(terms, name(m.left.tensor.name), self.coordinate(m.left, row, number))
            right = copied(terms, name(of_right.tensor.name), self.coordinate(of_right, row, number))
            loaded = [computed(terms, "loaded", number, tiles=())] if m.loaded else []
            made = computed(terms, "middle", tiles=(product(terms, "ABt", held, left), *loaded))
            tiles = (made,) if total is None else (made, total)
            carried, factor = (computed(terms, "carried", tiles=tiles, result=n) for n in (0, 1))
            total = terms.sum([carried, product(terms, second, factor, right)])
        assert total is not None
        return total

    def _rows(self, terms: Terms, row: int) -> Term:
        """The numbers of a consumer's rows after a loop with one product."""
        m = self.m
        held = copied(terms, name(m.held.tensor.name), self.coordinate(m.held, row, 0))
        total: Term | None = None if self.iterations else computed(terms, "initial", tiles=())
        for number in self.iterations:
            left = copied(terms, name(m.left.tensor.name), self.coordinate(m.left, row, number))
            loaded = [computed(terms, "loaded", number, tiles=())] if m.loaded else []
            before = [] if total is None else [total]
            total = computed(terms, "middle", tiles=(product(terms, "ABt", held, left), *loaded, *before))
        assert total is not None
        return total
