"""The tile program of two products in a loop, the second of which multiplies what is made of the first one's sums.

Consumers hold a tile of the first product's left operand each, for all iterations; the right operands of both come
through rings. The second product of an iteration runs beside the first one of the next, and what stands between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tkgen.backends.hopper.streamed import ALL_WARPS, Round, Rows, columns_of_all, columns_of_warps, combining
from tkgen.tile.ops import Multiply, Write
from tkgen.tile.program import (
    Advance,
    Arrive,
    Await,
    Block,
    Compute,
    CopyIn,
    CopyOut,
    Cursor,
    Drain,
    Expect,
    Flags,
    If,
    Join,
    Loop,
    Named,
    Node,
    Op,
    Pin,
    Region,
    Ring,
    Role,
    Scope,
    Scoped,
    StoreValues,
    Sync,
    Text,
    Tiles,
    Who,
)

BESIDE = "// The second product of an iteration runs beside the first one of the next, and what stands behind that."
SOME = "first_iteration < iterations"
MEETING = "2 * CONSUMERS + 1"  # behind those of each consumer, and of each turn


@dataclass(frozen=True)
class Moved:
    """A tensor that the copy engine moves tiles of: its name, the coordinate of a tile, the axis of its rows."""

    name: str = ""
    coord: str = ""
    axis: str = ""


@dataclass(frozen=True)
class Code:
    """The C++ of what the block computes, which decides nothing of its schedule."""

    scores: str = "scores"
    sums: str = "sums"
    held: Moved = Moved()
    left: Moved = Moved()
    right: Moved = Moved()
    out: Moved = Moved()
    tiles: str = "TILES"  # how many there are
    to_and_fro: bool = False  # blocks take those of each second round in reverse order
    place: tuple[str, ...] = ()  # of a tile
    declared: tuple[str, ...] = ()  # for a tile, by a consumer
    loads: tuple[str, ...] = ()  # of the tiles that lanes read, for an iteration, beside its products
    middle: tuple[str, ...] = ()  # between the products
    carried: tuple[str, ...] = ()  # on to the next iteration
    behind: tuple[str, ...] = ()  # the loop
    out_value: str = ""
    out_remark: str = ""
    registers: tuple[int, int] = (0, 0)
    loads_first: bool = False  # the warpgroup that loads is in front of the others
    remarks: tuple[str, str] = ("", "")  # of the roles
    some: str = ""  # the condition that a tile has an iteration, where it may have none
    second: str = "AB"  # how the factors of the second product lie
    rounds: tuple[Round, ...] = ()  # of reductions of columns after the loop
    columns_stored: tuple[Rows, ...] = ()  # outputs that have a number of each column
    equations: tuple[str, str] = ("", "")  # what ends the lines of each product
    rows_stored: tuple[Rows, ...] = ()  # outputs that have a number of each row, where the loop has one product
    chained: bool = True  # False if the loop has one product, whose rows are reduced


def program(code: Code = Code()) -> Block:
    """The roles of a block. Its constants - CONSUMERS, LEFT_BUFFERS, RIGHT_BUFFERS - are names."""
    return _Chained(code).block()


class _Chained:
    def __init__(self, code: Code):
        self.code = code
        self.held = Ring("held", "held_s", parts="CONSUMERS", type="held_tile", extents=("CONSUMERS",))
        self.left = Ring("left", "left_s", "LEFT_BUFFERS", type="left_tile", extents=("LEFT_BUFFERS",))
        self.right = Ring("right", "right_s", "RIGHT_BUFFERS", type="right_tile", extents=("RIGHT_BUFFERS",))
        self.out = Ring("out", "out_s", parts="WARPGROUP_WARPS", scope=Scope.GROUP, type="out_tile",
                        extents=("CONSUMERS",))  # fmt: skip
        self.scores, self.made, self.factor, self.sums = (
            Ring(name, cpp, scope=Scope.WARP)
            for name, cpp in (("scores", code.scores), ("made", ""), ("factor", "factor"), ("sums", code.sums))
        )
        self.full = {ring: Flags(f"{ring.name} full", f"{ring.name}_full", "1", ring.slots) for ring in self.copied}
        self.empty = {
            ring: Flags(f"{ring.name} empty", f"{ring.name}_empty", ALL_WARPS, ring.slots) for ring in self.copied
        }
        self.group = Named("group", "warpgroup", "1", "WARPGROUP_WARPS")
        self.turn = Named("turn", "two_groups", "CONSUMERS + 1", "2 * WARPGROUP_WARPS", apart=True)
        self.consumers = Named("consumers", "consumers", MEETING, ALL_WARPS)
        self.values, self.loaded = (Ring(name, "", scope=Scope.WARP) for name in ("values", "loaded"))
        self.combined = tuple(columns_of_all(each, "WIDTH") for each in code.rounds)

    @property
    def copied(self) -> tuple[Ring, ...]:
        return (self.held, self.left, self.right) if self.code.chained else (self.held, self.left)

    def block(self) -> Block:
        flags = tuple(f for ring in self.copied for f in (self.full[ring], self.empty[ring]))
        rings = (*self.copied, self.out, self.scores, *([self.loaded] if self.code.loads else ()), self.made,
                 self.factor, self.sums)  # fmt: skip
        if not self.code.chained:
            rings = (*self.copied, self.scores, *([self.loaded] if self.code.loads else ()), self.sums)
        named: tuple[Named, ...] = (self.group, self.turn)
        if self.code.rounds:
            parts = (columns_of_warps(each, "WIDTH") for each in self.code.rounds)
            rings, named = (*rings, self.values, *parts, *self.combined), (*named, self.consumers)
        return Block((self._producer(), self._consumer()), flags, named, rings)

    def _cursor(self, ring: Ring, start: str) -> Cursor:
        return Cursor(ring.name, f"{ring.name}_phase", ring.slots, start)

    # ------------------------------------------------------------ the thread that copies

    def _producer(self) -> Role:
        left, right, held = (self._cursor(ring, "1") for ring in (self.left, self.right, self.held))
        code = self.code
        part = CopyIn(Region(self.held, "held", "consumer"), *of_moved(code.held), self.full[self.held], "held")
        copied = self._copied(self.left, left, code.left)
        if code.chained:
            copied = (*copied, *self._copied(self.right, right, code.right))
        copies: tuple[Node, ...] = (
            Await(self.empty[self.held], held),
            Expect(self.full[self.held], (Region(self.held, "held"),), "held"),
            Loop("consumer", "CONSUMERS", (part,)),
            Advance(held),
            Loop("iteration", "iterations", copied, first="first_iteration"),
        )  # fmt: skip
        body = (Text(code.place), *((If(code.some, copies),) if code.some else copies))
        before = "0" if code.loads_first else "CONSUMERS"
        cursors = (left, right, held) if code.chained else (left, held)
        return Role("producer", cursors, (), _tiles(code, body), groups_before=before,
                    registers=code.registers[0], remark=code.remarks[0])  # fmt: skip

    def _copied(self, ring: Ring, cursor: Cursor, moved: Moved) -> tuple[Node, ...]:
        at = cursor.name
        return (
            Await(self.empty[ring], cursor),
            Expect(self.full[ring], (Region(ring, at),), at),
            CopyIn(Region(ring, at), *of_moved(moved), self.full[ring], at),
            Advance(cursor),
        )

    # ------------------------------------------------------------ the warpgroups that multiply

    def _single(self) -> Role:
        """Consumers of a loop with one product: while one reduces its rows, the product of another runs."""
        left, held = (self._cursor(ring, "0") for ring in (self.left, self.held))
        code, several = self.code, "CONSUMERS > 1"
        first_turn = Join(self.turn, "CONSUMERS + 1", when=f"{several} && consumer == CONSUMERS - 1")
        next_turn = Join(self.turn, "CONSUMERS + 1 + (consumer + 1) % CONSUMERS", when=several)
        loaded = (Region(self.loaded),) if code.loads else ()

        def reduced(fresh: bool) -> Node:
            before = () if fresh else (Region(self.sums),)
            return Text(code.middle, Compute((Region(self.scores), *loaded, *before), (Region(self.sums),), "middle"))

        begin = Text(("const int iteration = first_iteration;",))
        iterations: tuple[Node, ...] = (
            Await(self.full[self.held], held),
            *self._first(left),
            *((Scoped((begin, *self._loads("first_iteration"))),) if code.loads else ()),
            *self._done(left, "0", self.scores),
            Scoped((begin, reduced(True))),
            Loop("iteration", "iterations", (
                Sync(self.turn, "CONSUMERS + 1 + consumer", when=several),
                *self._first(left),
                next_turn,
                *self._loads("iteration"),
                *self._done(left, "0", self.scores),
                reduced(False),
            ), first="first_iteration + 1", unroll="unroll 1"),
            Arrive(self.empty[self.held], "held", who=Who.LANE),
            Advance(held),
        )  # fmt: skip
        if code.some:
            iterations = (If(code.some, iterations, (Compute((), (Region(self.sums),), "initial"),)),)
        stored = [Text(rows.lines, StoreValues((Region(self.sums),), rows.tensor, rows.coord))
                  for rows in code.rows_stored]  # fmt: skip
        body: tuple[Node, ...] = (
            Text((*code.place, *code.declared, "")), *iterations, Text(("", *code.behind)), *stored
        )  # fmt: skip
        turns = "// Consumers issue their products in turn: while one's run, another reduces its rows."
        return Role("consumer", (left, held), (Text((turns,)), first_turn), _tiles(code, body), (),
                    "CONSUMERS", "WARPGROUP_WARPS", "1" if code.loads_first else "0", code.registers[1],
                    code.remarks[1])  # fmt: skip

    def _consumer(self) -> Role:
        if not self.code.chained:
            return self._single()
        left, right, held = (self._cursor(ring, "0") for ring in (self.left, self.right, self.held))
        code = self.code
        fresh, summed = (self._carried(fresh) for fresh in (True, False))
        several = "CONSUMERS > 1"
        first_turn = Join(self.turn, "CONSUMERS + 1", when=f"{several} && consumer == CONSUMERS - 1")
        next_turn = Join(self.turn, "CONSUMERS + 1 + (consumer + 1) % CONSUMERS", when=several)
        begin = Text(("const int iteration = first_iteration;",))
        iteration: tuple[Node, ...] = (
            Sync(self.turn, "CONSUMERS + 1 + consumer", when=several),
            *self._first(left),
            *self._second(right),
            next_turn,
            *self._loads("iteration"),
            *self._done(left, "1", self.scores),
            self._middle(),
            *self._done(right, "0", self.sums, self.factor),
            summed,
        )
        iterations: tuple[Node, ...] = (
            Await(self.full[self.held], held),
            *self._first(left),
            *((Scoped((begin, *self._loads("first_iteration"))),) if code.loads else ()),
            *self._done(left, "0", self.scores),
            Scoped((begin, self._middle(), fresh)),
            Text((BESIDE,)),
            Loop("iteration", "iterations", iteration, first="first_iteration + 1", unroll="unroll 1"),
            Arrive(self.empty[self.held], "held", who=Who.LANE),
            Advance(held),
            *self._second(right),
            *self._done(right, "0", self.sums, self.factor),
        )  # fmt: skip
        if code.some:  # a tile without any has what is carried before the first
            iterations = (If(code.some, iterations, (Compute((), (Region(self.sums),), "initial"),)),)
        body: tuple[Node, ...] = (
            Text((*code.place, *code.declared, "")),
            *iterations,
            *self._behind(),
            Drain("stores", reads_only=True, who=Who.FIRST),
            Sync(self.group, "consumer + 1"),
            Write(Region(self.values if code.rounds else self.sums), Region(self.out, own=True), code.out_value,
                  remark=code.out_remark),
            Sync(self.group, "consumer + 1"),
            CopyOut(Region(self.out), *of_moved(code.out), who=Who.FIRST),
        )  # fmt: skip
        turns = "// Consumers issue their products in turn: while one's run, another does what stands between them."
        last = "  // a block's shared memory goes with its last thread"
        behind = Drain("stores", reads_only=True, who=Who.FIRST, remark=last)
        return Role("consumer", (left, right, held), (Text((turns,)), first_turn), _tiles(code, body), (behind,),
                    "CONSUMERS", "WARPGROUP_WARPS", "1" if code.loads_first else "0", code.registers[1],
                    code.remarks[1])  # fmt: skip

    def _behind(self) -> Iterator[Node]:
        """After the loop: the columns that all warps combine, what is stored of them, and what else is computed."""
        code, sums = self.code, Region(self.sums)
        for n, each in enumerate(code.rounds):
            yield from combining(each, (sums, *map(Region, self.combined[:n])), "WIDTH", Sync(self.consumers, MEETING))
        columns = tuple(map(Region, self.combined))
        for stored in code.columns_stored:
            yield Text(stored.lines, StoreValues(columns, stored.tensor, stored.coord))
        lines = ("", *code.behind)
        made = Compute((sums, *columns), (Region(self.values),), "behind") if code.rounds else None
        yield Text(lines, made)

    def _first(self, left: Cursor) -> tuple[Op, ...]:
        operands = (Region(self.held, "held", "consumer"), Region(self.left, left.name))
        product = Multiply(*operands, Region(self.scores), "ABt", fresh=True, remark=self.code.equations[0])
        return (Await(self.full[self.left], left), product)

    def _second(self, right: Cursor) -> tuple[Op, ...]:
        factors = (Region(self.factor), Region(self.right, right.name))
        product = Multiply(*factors, Region(self.sums), self.code.second, remark=self.code.equations[1])
        return (Await(self.full[self.right], right), product)

    def _done(self, cursor: Cursor, left: str, *pinned: Ring) -> tuple[Op, ...]:
        """After a wait for products: their registers are there, their slot is given back."""
        ring = self.left if cursor.name == self.left.name else self.right
        return (
            Drain("products", left),
            Pin(tuple(map(Region, pinned))),
            Arrive(self.empty[ring], cursor.name, who=Who.LANE),
            Advance(cursor),
        )

    def _loads(self, iteration: str) -> Iterator[Node]:
        """Yield the loads of an iteration's tiles to registers, if there are any."""
        if self.code.loads:
            yield Text(self.code.loads, Compute((), (Region(self.loaded),), "loaded", (iteration,)))

    def _middle(self) -> Node:
        loaded = (Region(self.loaded),) if self.code.loads else ()
        return Text(self.code.middle, Compute((Region(self.scores), *loaded), (Region(self.made),), "middle"))

    def _carried(self, fresh: bool) -> Node:
        """The sums rescaled, or those that a tile starts with; the second product's factor."""
        reads = (Region(self.made), *(() if fresh else (Region(self.sums),)))
        return Text(self.code.carried, Compute(reads, (Region(self.sums), Region(self.factor)), "carried"))


def _tiles(code: Code, body: tuple[Node, ...]) -> Tiles:
    return tiles_of(code.tiles, code.to_and_fro, body)


def tiles_of(count: str, to_and_fro: bool, body: tuple[Node, ...]) -> Tiles:
    """`body` for each output tile of a block, of `count` in all; `to_and_fro`: each second round in reverse order."""
    through, on = f"int tile = blockIdx.x; tile < {count}; tile += gridDim.x", ""
    if to_and_fro:  # the steps of two rounds add up to twice the number of blocks
        through = f"int tile = blockIdx.x, step = 2 * (gridDim.x - blockIdx.x) - 1; tile < {count}; tile += step"
        on = ", step = 2 * gridDim.x - step"
    return Tiles(("#pragma unroll 1", f"for ({through}{on}) {{"), body)


def of_moved(moved: Moved) -> tuple[str, str, str]:
    """The name of a tensor, the coordinate of a tile and the axis of its rows, as copies take them."""
    return moved.name, moved.coord, moved.axis


def constants(left: int, right: int, consumers: int, warps: int) -> Mapping[str, int]:
    """The values of the program's constants."""
    return {"LEFT_BUFFERS": left, "RIGHT_BUFFERS": right, "CONSUMERS": consumers, "WARPGROUP_WARPS": warps}
