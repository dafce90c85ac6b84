"""The tile program of any products in and around a loop: steps, each of which waits for its own products.

The tiles that stay for all iterations come with one barrier, those that change each through a separate ring. Of the
registers of a warp each value that lives from step to step (`SerialLoop.kept`) is a ring.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tkgen.backends.hopper.chained import Moved, of_moved, tiles_of
from tkgen.backends.hopper.printer import region
from tkgen.backends.hopper.serial_loop import Brought, Multiplied, ProductStep, SerialLoop, part_count
from tkgen.backends.hopper.streamed import ALL_WARPS
from tkgen.ir.equations import Access, Store, Value
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
    Loop,
    Named,
    Node,
    Pin,
    Region,
    Ring,
    Role,
    Scope,
    StoreValues,
    Sync,
    Text,
    Who,
)

TILE, BOTH = ("tile",), ("tile", "iteration")  # what values depend on beside others
COLUMN_PARTS = "COLUMN_PARTS"  # of a tile, where consumers divide its columns


@dataclass(frozen=True)
class SerialCode:
    """The C++ of what the block computes, which decides nothing of its schedule. Without any it has no lines."""

    names: Mapping[Value, str] = field(default_factory=dict)  # of values in registers
    tiles: Mapping[Access, str] = field(default_factory=dict)  # the names of tensors, of which those of tiles are made
    moved: Mapping[Access, Moved] = field(default_factory=dict)  # to or from shared memory
    lines: Mapping[ProductStep, tuple[str, ...]] = field(default_factory=dict)
    rows: Mapping[Store, tuple[str, ...]] = field(default_factory=dict)  # of numbers of rows
    equations: Mapping[Value, str] = field(default_factory=dict)  # what ends the line of a product
    remarks: Mapping[Store, str] = field(default_factory=dict)
    count: str = "TILES"
    to_and_fro: bool = False
    place: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    initial: tuple[str, ...] = ()
    handed: tuple[str, ...] = ()
    registers: tuple[int, int] = (0, 0)
    loads_first: bool = False
    roles: tuple[str, str] = ("", "")


def serial_program(m: SerialLoop, code: SerialCode = SerialCode()) -> Block:
    """The roles of a block. Its constants are names: CONSUMERS, WARPGROUP_WARPS, and the buffers of each ring."""
    return _Serial(m, code).block()


def constants(m: SerialLoop, consumers: int, warps: int, buffers: Sequence[int] = ()) -> dict[str, int]:
    """The values of the program's constants."""
    rings = dict(zip((buffers_name(m, t) for t in m.tiles if t.moves), buffers or m.buffers, strict=True))
    return {"CONSUMERS": consumers, "WARPGROUP_WARPS": warps, COLUMN_PARTS: m.consumers} | rings


def buffers_name(m: SerialLoop, tile: Brought) -> str:
    """The constant that has the number of buffers of a tile."""
    return f"BUFFERS_{m.tiles.index(tile)}"


def ring_of(m: SerialLoop, value: Value) -> str:
    """The ring of a value's registers."""
    return f"value {m.array(value).number}"


class _Serial:
    def __init__(self, m: SerialLoop, code: SerialCode):
        self.m, self.code = m, code
        self.tile = {tile: self._ring(n, tile) for n, tile in enumerate(m.tiles)}
        self.held = tuple(tile for tile in m.tiles if not tile.moves)
        self.moving = tuple(tile for tile in m.tiles if tile.moves)
        self.full = {t: self._flags(t, "full", "1") for t in self.moving}
        self.empty = {t: self._flags(t, "empty", ALL_WARPS) for t in self.moving}
        self.held_full = Flags("held full", "held_full", "1")
        self.held_empty = Flags("held empty", "held_empty", ALL_WARPS)
        self.out = {
            store: Ring(f"out{n}", f"out_{n}_s", parts="WARPGROUP_WARPS", scope=Scope.GROUP, type=f"out_{n}_tile",
                        extents=("CONSUMERS",))
            for n, store in enumerate(m.tile_stored)
        }  # fmt: skip
        self.group = Named("group", "warpgroup", "1", "WARPGROUP_WARPS")

    # ------------------------------------------------------------ names

    def _flags(self, tile: Brought, word: str, arrivals: str) -> Flags:
        return Flags(f"{self._word(tile)} {word}", f"{self._cpp(tile)}_{word}", arrivals, self._slots(tile))

    def _word(self, tile: Brought) -> str:
        return f"tile{self.m.tiles.index(tile)}"

    def _cpp(self, tile: Brought) -> str:
        return self.code.tiles.get(tile.access, self._word(tile))

    def _slots(self, tile: Brought) -> str:
        return buffers_name(self.m, tile) if tile.moves and tile.buffers > 1 else "1"

    def _ring(self, number: int, tile: Brought) -> Ring:
        cpp, slots = self._cpp(tile), self._slots(tile)
        extents = (slots,) * (slots != "1") + ("CONSUMERS",) * tile.own
        parts = COLUMN_PARTS if self.m.in_parts(tile) else "CONSUMERS" if tile.own else ""
        return Ring(f"tile{number}", f"{cpp}_s", slots, parts, type=f"{cpp}_tile", extents=extents)

    def _at(self, tile: Brought) -> str:
        """The cursor of a tile."""
        return self._cpp(tile) + "_at" if tile.moves else "held"

    def _cursor(self, tile: Brought, start: str) -> Cursor:
        at = self._at(tile)
        return Cursor(at, f"{self._cpp(tile) if tile.moves else 'held'}_phase", self._slots(tile), start)

    def _held(self, start: str) -> Cursor:
        return Cursor("held", "held_phase", "1", start)

    @cached_property
    def values(self) -> Mapping[Value, Ring]:
        """The rings of registers by the values that name them."""
        m = self.m
        found = dict.fromkeys(m.array(v) for v in sorted(m.kept, key=lambda v: v.number))
        return {v: Ring(ring_of(m, v), self.code.names.get(v, ""), scope=Scope.WARP) for v in found}

    def _value(self, value: Value) -> Region:
        return Region(self.values[self.m.array(value)])

    def _temporary(self, word: str, number: int) -> Region:
        return Region(Ring(f"{word} {number}", scope=Scope.WARP))

    # ------------------------------------------------------------ the block

    def block(self) -> Block:
        """The roles, the barriers and the rings."""
        m = self.m
        flags = tuple(f for tile in self.moving for f in (self.full[tile], self.empty[tile]))
        flags = ((self.held_full, self.held_empty) if self.held else ()) + flags
        temporary = [self._temporary("next", c.inside.number).ring for c in m.handed]
        stored = [self._temporary("stored", n).ring for n in range(len((*m.tile_stored, *m.rows_stored)))]
        rings = (*self.tile.values(), *self.out.values(), *self.values.values(), *temporary, *stored)
        return Block((self._producer(), self._consumer()), flags, (self.group,), rings)

    def _producer(self) -> Role:
        code = self.code
        held = tuple(node for tile in self.held for node in self._copied(tile, self.held_full))
        cursors = tuple(self._cursor(tile, "1") for tile in self.moving)
        iteration: tuple[Node, ...] = ()
        for tile, cursor in zip(self.moving, cursors, strict=True):
            expected = Expect(self.full[tile], (Region(self.tile[tile], cursor.name),), cursor.name)
            iteration += (Await(self.empty[tile], cursor), expected, *self._copied(tile, self.full[tile]),
                          Advance(cursor))  # fmt: skip
        copies: tuple[Node, ...] = (Loop("iteration", "iterations", iteration, first="first_iteration"),)
        if self.held:
            begin = self._held("1")
            tiles = tuple(Region(self.tile[tile], "held") for tile in self.held)
            copies = (Await(self.held_empty, begin), Expect(self.held_full, tiles, "held"), *held, Advance(begin),
                      *copies)  # fmt: skip
            cursors += (begin,)
        before = "0" if code.loads_first else "CONSUMERS"
        return Role("producer", cursors, (), tiles_of(code.count, code.to_and_fro, (Text(code.place), *copies)),
                    groups_before=before, registers=code.registers[0], remark=code.roles[0])  # fmt: skip

    def _copied(self, tile: Brought, flags: Flags) -> tuple[Node, ...]:
        """The copies of a tile: one, or one for each consumer."""
        at, moved = self._at(tile), of_moved(self.code.moved.get(tile.access, Moved()))
        part = "consumer" if tile.own else ""
        copy = CopyIn(Region(self.tile[tile], at, part), *moved, flags, at)
        return (Loop("consumer", "CONSUMERS", (copy,)),) if tile.own else (copy,)

    def _consumer(self) -> Role:
        m, code = self.m, self.code
        cursors = tuple(self._cursor(tile, "0") for tile in self.moving)
        held = self._held("0")
        body: tuple[Node, ...] = (Text((*code.place, *code.declared, "")),)
        body += (Await(self.held_full, held),) if self.held else ()
        body += (*self._steps(m.before, TILE), *self._initial())
        iteration = (*self._steps(m.body, BOTH), *self._handed())
        body += (Loop("iteration", "iterations", iteration, first="first_iteration", unroll="unroll 1"),)
        body += tuple(self._steps(m.behind, TILE))
        body += (Compute(tuple(self._value(v) for v in m.dropped), (), "dropped"),) if m.dropped else ()
        body += (Arrive(self.held_empty, "held", who=Who.LANE), Advance(held)) if self.held else ()
        cursors += (held,) if self.held else ()
        last = "  // a block's shared memory goes with its last thread"
        behind = (Drain("stores", reads_only=True, who=Who.FIRST, remark=last),) if self.out else ()
        return Role("consumer", cursors, (), tiles_of(code.count, code.to_and_fro, body), behind,
                    "CONSUMERS", "WARPGROUP_WARPS", "1" if code.loads_first else "0", code.registers[1],
                    code.roles[1])  # fmt: skip

    # ------------------------------------------------------------ steps

    def _steps(self, steps: Sequence[ProductStep], of: tuple[str, ...]) -> Iterator[Node]:
        first, last = dict[Brought, ProductStep](), dict[Brought, ProductStep]()
        for step in steps:
            for tile in (tile for each in step.products for tile in each.tiles if tile.moves):
                first.setdefault(tile, step)
                last[tile] = step
        in_loop = any(store in self.out for step in self.m.body for store in step.stores)
        fresh = steps is not self.m.behind or not in_loop or self.m.of_groups
        for step in steps:
            yield from (Await(self.full[tile], self._cursor(tile, "0")) for tile in first if first[tile] is step)
            yield from map(self._multiply, step.products)
            yield from self._computed(step, of)
            if step.products:
                arrays = dict.fromkeys(self._value(each.result) for each in step.products)
                factors = dict.fromkeys(self._value(p.left) for p in step.products if isinstance(p.left, Value))
                yield Drain("products", "0")
                yield Pin((*arrays, *factors))
            for tile in (tile for tile in last if last[tile] is step):
                yield Arrive(self.empty[tile], self._at(tile), who=Who.LANE)
                yield Advance(self._cursor(tile, "0"))
            yield from self._stored(step.stores, of, fresh)
            fresh &= not any(store in self.out for store in step.stores)

    def _multiply(self, each: Multiplied) -> Node:
        left = self._value(each.left) if isinstance(each.left, Value) else self._operand(each.left)
        right = self._operand(each.right)
        if self.m.takes_part(each) and self.m.divided is not None:
            part = f"tk::columns<{part_count(self.m.divided)}>({region(right)}, consumer)"
            right = replace(right, part="consumer", alias=part)
        return Multiply(left, right, self._value(each.result), each.layouts,
                        fresh=each.onto is None, remark=self.code.equations.get(each.product.result, ""))  # fmt: skip

    def _operand(self, tile: Brought) -> Region:
        return Region(self.tile[tile], self._at(tile), "consumer" if tile.own else "")

    def _computed(self, step: ProductStep, of: tuple[str, ...]) -> Iterator[Node]:
        """The lines of a step, and what they make."""
        m = self.m
        made = [op for op in (*step.ops, *step.converts) if op.result in m.kept]
        for op in made:
            reads = tuple(map(self._value, m.inputs(op)))
            yield Compute(reads, (self._value(op.result),), f"make {op.result.number}", of)
        if lines := self.code.lines.get(step, ()):
            yield Text(lines)

    def _taken(self, value: Value, region: Region, of: tuple[str, ...]) -> Node:
        """A value where it is stored or handed on from."""
        return Compute(tuple(map(self._value, self.m.parts(value))), (region,), f"take {value.number}", of)

    def _initial(self) -> Iterator[Node]:
        for carry in self.m.loop.carries:
            yield self._taken(carry.initial, self._value(carry.inside), TILE)
        yield Text(self.code.initial)

    def _handed(self) -> Iterator[Node]:
        """Hand the carries on, all at once."""
        new = {carry: self._temporary("next", carry.inside.number) for carry in self.m.handed}
        yield from (self._taken(carry.update, region, BOTH) for carry, region in new.items())
        yield from (Compute((region,), (self._value(carry.inside),), "handed") for carry, region in new.items())
        if self.code.handed:
            yield Text(self.code.handed)

    def _stored(self, stores: Sequence[Store], of: tuple[str, ...], fresh: bool) -> Iterator[Node]:
        """The stores of a step; `fresh`: no other before it, since its tile was last stored, has waited for that."""
        m, code = self.m, self.code
        tiles = [store for store in stores if store in self.out]
        numbers = {store: n for n, store in enumerate((*m.tile_stored, *m.rows_stored))}
        for store in tiles:
            yield self._taken(store.value, self._temporary("stored", numbers[store]), of)
        for store in (store for store in stores if store not in self.out):
            moved = code.moved.get(store.target, Moved())
            region = self._temporary("stored", numbers[store])
            stored = Text(code.rows.get(store, ()), StoreValues((region,), moved.name, moved.coord))
            both = (self._taken(store.value, region, of), stored)
            dropped = Compute(tuple(map(self._value, m.parts(store.value))), (), "dropped")
            yield from both if m.divided is None else (If("consumer == 0", both, (dropped,)),)  # all have the same
        if not tiles:
            return
        if fresh:
            yield Drain("stores", reads_only=True, who=Who.FIRST)
            yield Sync(self.group, "consumer + 1")
        for store in tiles:
            function = "tk::store_columns" if m.transposed(store) else "warpgroup::store"
            name = code.names.get(store.value, "")
            yield Write(self._temporary("stored", numbers[store]), Region(self.out[store], own=True), name, function,
                        remark=code.remarks.get(store, ""))  # fmt: skip
        yield Sync(self.group, "consumer + 1")
        for store in tiles:
            yield CopyOut(Region(self.out[store]), *of_moved(code.moved.get(store.target, Moved())), who=Who.FIRST)
