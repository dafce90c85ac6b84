"""The tile program of products whose operands stream through shared memory: a thread copies, warpgroups multiply.

A stage has the tiles of a K-step. A step's products are in flight while the next step's are issued; its stage is given
back when they are done. The sums leave through panels of shared memory, by the copy engine.

- `turns`: consumers take whole K-loops in turn, each of rows of its own, while the other's sums leave.
- `scaled`: a step's products are made something of before they are added: two steps at a time, the second one's
  products run while the first one's are added.
- `ragged`: groups of rows end within tiles; of 64 rows that are not all of the group, warps store those that are.
- `cluster`: blocks copy tiles of an operand for each other.
- An output that is `scattered` leaves from registers: lanes store its elements to computed positions.

Of an operand with `boxes` all rows of a block are one copy, of those rows alone that the tensor has: the copy engine is
slow where a box reaches beyond the last one (`Layout.ended`).

Tiles of an operand that is `filled` are loaded by all threads of the producer, and computed on their way where they are
no copies: each has a part of the next step's in registers while it waits for a free stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tkgen.tile.expressions import renamed
from tkgen.tile.ops import Multiply, Write
from tkgen.tile.program import (
    Advance,
    Arrive,
    Await,
    Bind,
    Block,
    Compute,
    CopyIn,
    CopyOut,
    Cursor,
    Drain,
    Expect,
    Flags,
    If,
    Keep,
    Let,
    Loop,
    Named,
    Node,
    Op,
    Region,
    Ring,
    Role,
    Scope,
    StoreRows,
    StoreValues,
    Sync,
    Text,
    Tiles,
    Who,
)

WARPS = "WARPGROUP_WARPS"
ALL_WARPS = f"CONSUMERS * {WARPS}"
OWN = f"consumer * {WARPS} + warp"
COLUMNS = "BLOCK_COLS"


IN_FLIGHT = (
    "// A step's products are in flight while the next step's are issued; its stage is given back when they are done."
)
TWO_STEPS = (
    "// Of two steps the second one's products run while the first one's are added; what scales them comes meanwhile."
)
AHEAD = "// What is loaded of a step is on its way while the stage of it is not free."
AGAIN = "// A buffer is written again when the store that was last made from it has read it."
SKIP = "const auto skip = [&](int steps) { stage += steps, phase ^= stage / STAGES & 1, stage %= STAGES; };"
PANEL = Ring("panel", "panel_s", "STORE_BUFFERS", WARPS, Scope.GROUP)


@dataclass(frozen=True)
class Operand:
    """A tile of a step in shared memory, and the arguments of its copy. `right`: all consumers have it in common."""

    ring: str
    right: bool
    cpp: str = ""
    type: str = ""
    tensor: str = ""
    coord: str = ""
    axis: str = ""
    share: str = ""  # the type of what each block of a cluster copies of it, where they have it in common
    remark: str = ""
    filled: Filled | None = None
    whole: str = ""  # the type of a tile of all parts, where the last rows of the tensor end within one
    boxes: str = ""  # and the C++ of what is copied of it


@dataclass(frozen=True)
class Filled:
    """Way of an operand through registers of the producer: their name and declaration, the functions of it in C++.

    `at` are the expressions that `load` is called with: the first row of the tile, the K-step, indices of a batch.
    `made` ends the arguments of the function that stores the tile.
    """

    loaded: str = ""
    declared: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    load: str = ""
    at: tuple[str, ...] = ()
    made: str = ""


@dataclass(frozen=True)
class Product:
    """Sums of the product of two operands; of a scaled one also what adds a step's to them, by `{half}` and `{k}`."""

    left: int
    right: int
    layouts: str = "AB"
    sums: str = ""
    step: str = ""
    scales: tuple[str, ...] = ()
    added: str = ""
    equation: str = ""  # what ends its lines


@dataclass(frozen=True)
class Output:
    """Output of the sums in panels: their number and type, and the C++ of a panel's values and its position."""

    panels: str = "PANELS"
    type: str = ""
    before: str = ""  # panels of a tile that leave earlier
    values: tuple[str, ...] = ()  # that declare `values`
    converted: str = ""  # the type of the registers that these become first, if they do
    tensor: str = ""
    coord: str = ""
    axis: str = ""
    place: str = ""  # the arguments of the function that stores rows
    chunks: str = ""  # template arguments of that function, where the copy engine cannot store the output
    remark: str = ""
    scattered: bool = False
    lines: tuple[str, ...] = ()  # that store the values of a panel to computed positions


@dataclass(frozen=True)
class Round:
    """A reduction of the rows of the sums, and of what earlier rounds made: its C++.

    Of the columns of a block's sums each warp reduces its rows, to one of `parts`, and all combine these to `columns`.
    """

    number: int
    lines: tuple[str, ...] = ()
    of_columns: bool = False
    parts: str = ""
    columns: str = ""
    combined: tuple[str, ...] = ()


def columns_of_warps(each: Round, columns: str) -> Ring:
    """A warp's part of the columns, reduced over its own rows, in shared memory."""
    return Ring(f"columns {each.number}", each.parts, parts=ALL_WARPS, type="float", extents=(ALL_WARPS, columns))


def columns_of_all(each: Round, columns: str) -> Ring:
    """The columns that all warps combine, in shared memory; each warp writes some of them."""
    return Ring(f"combined {each.number}", each.columns, parts=ALL_WARPS, type="float", extents=(columns,))


def combining(each: Round, reads: tuple[Region, ...], columns: str, met: Sync) -> Iterator[Node]:
    """Reduce the columns that each warp `reads`, then combine all parts; warps synchronise by `met` after both."""
    parts, whole = columns_of_warps(each, columns), columns_of_all(each, columns)
    yield Text(each.lines, Compute(reads, (Region(parts, part=OWN),), f"columns {each.number}"))
    yield met
    yield Text(each.combined, Compute((Region(parts),), (Region(whole, part=OWN),), f"reduced {each.number}"))
    yield met


@dataclass(frozen=True)
class Rows:
    """An output that has a number of each row, or of each column: its coordinate, and the C++ that stores it."""

    tensor: str
    coord: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Code:
    """Operands, products and outputs of a block, and its C++. `steps` is the number of K-steps of a tile."""

    operands: tuple[Operand, ...]
    products: tuple[Product, ...]
    outputs: tuple[Output, ...]
    steps: str = "K_STEPS"
    turns: bool = False
    scaled: bool = False
    ragged: bool = False
    cluster: bool = False
    function: str = "store_async"  # that stores a panel
    head: tuple[str, ...] = ("{",)  # of the loop over tiles
    place: tuple[str, ...] = ()  # of a tile
    declared: tuple[str, ...] = ()  # by a consumer, for all tiles
    scaling: tuple[str, ...] = ()  # for a tile, before its steps
    rows: tuple[Let, ...] = ()  # of ragged rows, before the panels of 64 rows: which they are, and `partial`
    positions: tuple[str, ...] = ()  # declarations of those that tensors hold for a lane's rows
    rounds: tuple[Round, ...] = ()
    rows_stored: tuple[Rows, ...] = ()
    panel: Ring = PANEL
    producer: tuple[str, str, int] = ("0", "", 0)  # groups before it, a remark, registers
    consumer: tuple[str, str, int] = ("1", "", 0)
    summed: tuple[str, ...] = ()  # lines that follow the products of a tile


def program(code: Code) -> Block:
    """The roles of a block. Its constants - STAGES, CONSUMERS, FRAGMENTS and others - are names."""
    return _Streamed(code).block()


class _Streamed:
    def __init__(self, code: Code):
        self.code = code
        self.parts = "FRAGMENTS" if code.turns else "CONSUMERS"  # of a left operand, in a stage
        self.operands = tuple(map(self._operand, code.operands))
        self.panel = code.panel
        self.sums = tuple(self._sums("sums", n, p.sums) for n, p in enumerate(code.products))
        self.steps = tuple(self._sums("step", n, p.step, "2") for n, p in enumerate(code.products))
        self.ready = Ring("values", "values", scope=Scope.WARP)
        self.reduced = tuple(map(self._reduced, code.rounds))
        everyone = ("CLUSTER * " if code.cluster else "") + ("" if code.turns else "CONSUMERS * ") + WARPS
        self.filled = any(o.filled for o in code.operands)
        self.copied = [output for output in code.outputs if not output.scattered]
        self.loaded = tuple(map(self._loaded, range(len(code.operands)), code.operands))
        copies = "" if all(o.filled for o in code.operands) else "1"
        self.full = Flags("full", "full", " + ".join(filter(None, (copies, WARPS * self.filled))), "STAGES")
        self.empty = Flags("empty", "empty", everyone, "STAGES")
        self.turn = Flags("turn", "turn", WARPS, "CONSUMERS")
        self.group = Named("group", "warpgroup", "1", WARPS)
        self.consumers = Named("consumers", "consumers", "CONSUMERS + 1", ALL_WARPS)
        self.own = Cursor("own", "own", start="consumer == 0")
        self.stage = Cursor("stage", "phase", "STAGES")

    def _operand(self, operand: Operand) -> Ring:
        parts = "" if operand.right else self.parts
        extents = ("STAGES",) if operand.right else ("STAGES", parts)
        dealt = operand.filled is not None
        return Ring(operand.ring, operand.cpp, "STAGES", parts or "1" * dealt, type=operand.type, extents=extents,
                    remark=operand.remark, share=operand.share, dealt=dealt, whole=operand.whole,
                    boxes=f"{operand.tensor}_boxes" if operand.whole else "")  # fmt: skip

    def _loaded(self, number: int, operand: Operand) -> Ring:
        """Registers with a warp's share of the tiles of a step, as they were loaded."""
        cpp = operand.filled.loaded if operand.filled else ""
        return Ring("loaded", cpp, parts=self.parts, scope=Scope.WARP, number=f"{number} * {self.parts}")

    @staticmethod
    def _reduced(each: Round) -> Ring:
        """A reduction: of rows in registers, of columns in shared memory."""
        if not each.of_columns:
            return Ring(f"reduced {each.number}", f"of_rows_{each.number}", scope=Scope.WARP)
        return columns_of_all(each, COLUMNS)

    @staticmethod
    def _sums(name: str, product: int, cpp: str, slots: str = "1") -> Ring:
        """Sums of a product in registers, of each 64 rows."""
        return Ring(name, cpp, slots, "FRAGMENTS", Scope.WARP, number=f"{product} * FRAGMENTS")

    def block(self) -> Block:
        code = self.code
        flags = (self.full, self.empty, *((self.turn,) if code.turns else ()))
        steps = self.steps if code.scaled else ()
        of_columns = [each for each in code.rounds if each.of_columns]
        rings = (
            *self.operands,
            *((self.panel,) if self.copied else ()),
            *(columns_of_warps(each, COLUMNS) for each in of_columns),
            *(ring for ring, operand in zip(self.loaded, code.operands, strict=True) if operand.filled),
            *self.sums,
            *steps,
            *self.reduced,
            self.ready,
        )
        named = ((self.group,) if self.copied else ()) + ((self.consumers,) if of_columns else ())
        return Block((self._producer(), self._consumer()), flags, named, rings, "CLUSTER" if code.cluster else "1")

    # ------------------------------------------------------------ the thread that copies

    def _producer(self) -> Role:
        code, stage = self.code, Cursor("stage", "phase", "STAGES", "1")
        if self.filled:
            return self._filling(stage)
        body: tuple[Node, ...] = (
            Await(self.empty, stage),
            Expect(self.full, tuple(Region(ring, "stage") for ring in self.operands), "stage"),
            *(self._copied(operand, ring) for operand, ring in zip(code.operands, self.operands, strict=True)),
            Advance(stage),
        )
        if code.turns:
            of_turn = Let((("consumer", f"step / {code.steps}"), ("k", f"step % {code.steps}")))
            loop = Loop("step", f"CONSUMERS * {code.steps}", (of_turn, *body))
        else:
            loop = Loop("k", code.steps, body, unroll="unroll 1" if code.cluster else "")
        before, remark, registers = code.producer
        boxes = tuple(operand.boxes for operand in code.operands if operand.boxes)
        tiles = Tiles(code.head, (Text((*code.place, *boxes)), loop))
        return Role("producer", (stage,), (), tiles, groups_before=before, registers=registers, remark=remark)

    def _copied(self, operand: Operand, ring: Ring) -> Node:
        part = "i" if ring.parts and not ring.boxes else ""
        copy = CopyIn(Region(ring, "stage", part), operand.tensor, operand.coord, operand.axis, self.full, "stage",
                      who=Who.FIRST if self.filled else Who.ALL)  # fmt: skip
        return Loop("i", ring.parts, (copy,)) if part else copy

    # ------------------------------------------------------------ the warps that fill

    def _filling(self, stage: Cursor) -> Role:
        """A producer of warps that load and store operands, and of a thread among them that copies the others."""
        code, both = self.code, list(zip(self.code.operands, self.operands, strict=True))
        copied = [(operand, ring) for operand, ring in both if not operand.filled]
        expected = Expect(self.full, tuple(Region(ring, "stage") for _, ring in copied), "stage", who=Who.FIRST)
        filled = [(o, o.filled, ring, loaded) for (o, ring), loaded in zip(both, self.loaded, strict=True) if o.filled]
        after = tuple(self._load(*each, "k + 1") for each in filled)
        body: tuple[Node, ...] = (
            Await(self.empty, stage),
            *((expected,) if copied else ()),
            *(self._copied(operand, ring) for operand, ring in copied),
            *(self._fill(*each) for each in filled),
            Arrive(self.full, "stage", who=Who.LANE),
            Advance(stage),
            If(f"k + 1 < {code.steps}", after),
        )
        declared = [line for _, f, *_ in filled for line in (*f.declared, *f.functions)]
        first = tuple(self._load(*each, "0") for each in filled)
        nodes = (Text((*code.place, *declared, AHEAD)), *first, Loop("k", code.steps, body))
        before, remark, registers = code.producer
        return Role("producer", (stage,), (), Tiles(code.head, nodes), groups="1", warps=WARPS, groups_before=before,
                    registers=registers, remark=remark)  # fmt: skip

    def _load(self, operand: Operand, filled: Filled, ring: Ring, loaded: Ring, k: str) -> Node:
        """Loads of the tiles of step `k`, each part by itself."""
        part = "" if operand.right else "i"
        at = tuple(renamed(each, {"k": k}) for each in filled.at)
        to = Region(loaded, part=part)
        does = Compute((), (to,), f"loaded {operand.tensor}", at)
        registers = f"{loaded.cpp}[i]" if part else loaded.cpp
        load = Text((f"{filled.load}({', '.join((registers, *at))});",), does)
        return Loop("i", self.parts, (load,), unroll="unroll") if part else load

    def _fill(self, operand: Operand, filled: Filled, ring: Ring, loaded: Ring) -> Node:
        """The tiles of a step from registers to the stage, each warp its share."""
        part = "" if operand.right else "i"
        registers = f"{loaded.cpp}[i]" if part else loaded.cpp
        value = f"{registers}, {filled.made}" if filled.made else registers
        write = Write(Region(loaded, part=part), Region(ring, "stage", part), value, "tk::fill")
        return Loop("i", self.parts, (write,), unroll="unroll") if part else write

    # ------------------------------------------------------------ the warpgroups that multiply

    def _consumer(self) -> Role:
        code = self.code
        before: tuple[Node, ...] = (Text(code.declared),)
        if code.turns:
            before = (Text((*code.declared, SKIP)), Advance(self.stage, f"consumer * {code.steps}"))
        steps = self._scaled() if code.scaled else self._steps()
        panels: tuple[Node, ...] = (
            *code.rows, *((Text(code.positions),) if code.positions else ()), *self._rounds(),
            *(self._scattered(o) if o.scattered else self._panels(n) for n, o in enumerate(code.outputs)),
        )  # fmt: skip
        stores: tuple[Node, ...] = (Loop("f", "FRAGMENTS", panels, unroll="unroll"),) if code.turns else panels
        body: tuple[Node, ...] = (
            Text(code.place),
            *steps,
            Text((*code.summed, "", *([AGAIN] if self.copied else []))),
            *stores,
        )
        last = "  // a block's shared memory goes with its last thread"
        end = Drain("stores", reads_only=True, who=Who.FIRST, remark=last)
        groups, remark, registers = code.consumer
        cursors = (self.stage, self.own) if code.turns else (self.stage,)
        return Role("consumer", cursors, before, Tiles(code.head, body), (end,) if self.copied else (), "CONSUMERS",
                    WARPS, groups, registers, remark)  # fmt: skip

    def _given_back(self, at: str) -> Op:
        return Arrive(self.empty, at, everywhere=self.code.cluster, who=Who.LANE)

    def _steps(self) -> tuple[Node, ...]:
        """The K-steps of a tile: one step's products run while the next step's are issued."""
        code = self.code
        several = " * FRAGMENTS" if code.turns else ""
        again: tuple[Node, ...] = (
            Await(self.full, self.stage),
            *self._products(fresh=False),
            Drain("products", f"{len(code.products)}{several}"),
            self._given_back("last"),
            Keep("last", self.stage, fresh=False),
            Advance(self.stage),
        )
        turn: tuple[Node, ...] = (Await(self.turn, self.own, "consumer"), Advance(self.own)) if code.turns else ()
        handed = (Arrive(self.turn, "(consumer + 1) % CONSUMERS", who=Who.LANE),) if code.turns else ()
        others = (Advance(self.stage, f"(CONSUMERS - 1) * {code.steps}"),) if code.turns else ()
        return (
            Text((IN_FLIGHT,)),
            *turn,
            Await(self.full, self.stage),
            *self._products(fresh=True),
            Keep("last", self.stage),
            Advance(self.stage),
            Loop("k", code.steps, again, first="1"),
            *handed,
            Drain("products"),
            self._given_back("last"),
            *others,
        )

    def _products(self, fresh: bool) -> Iterator[Node]:
        part = "f" if self.code.turns else "consumer"
        for product, sums in zip(self.code.products, self.sums, strict=True):
            into = Region(sums, part="f" if self.code.turns else "")
            made = Multiply(*self._factors(product, part), into, product.layouts, fresh, remark=product.equation)
            yield Loop("f", "FRAGMENTS", (made,), unroll="unroll") if self.code.turns else made

    def _factors(self, product: Product, part: str) -> tuple[Region, Region]:
        return Region(self.operands[product.left], "stage", part), Region(self.operands[product.right], "stage")

    def _scaled(self) -> tuple[Node, ...]:
        """The K-steps of a tile, two and two, each from zero."""
        code = self.code
        zero = (
            Text((f"warp::zero({p.sums});",), Compute((), (Region(s),), "zero"))
            for p, s in zip(code.products, self.sums, strict=True)
        )
        pair: tuple[Node, ...] = (
            Keep("first", self.stage),
            *self._started("0", "k"),
            Advance(self.stage),
            *self._started("1", "k + 1"),
            Drain("products", str(len(code.products))),
            self._given_back("first"),
            *self._added("0"),
            *self._ended("1"),
        )
        return (
            Text(code.scaling[:1]),
            *zero,
            Text((*code.scaling[1:], TWO_STEPS, "int k = 0;")),
            Loop("k", code.steps, pair, by=2),
            If(f"k < {code.steps}", (*self._started("0", "k"), *self._ended("0"))),
        )

    def _started(self, half: str, k: str) -> Iterator[Node]:
        yield Await(self.full, self.stage)
        for product, step in zip(self.code.products, self.steps, strict=True):
            factors, into = self._factors(product, "consumer"), Region(step, half)
            yield Multiply(*factors, into, product.layouts, fresh=True, remark=product.equation)
        if scales := tuple(line.format(half=half, k=k) for p in self.code.products for line in p.scales):
            yield Text(scales)

    def _ended(self, half: str) -> Iterator[Node]:
        yield from (Drain("products"), self._given_back("stage"), Advance(self.stage), *self._added(half))

    def _added(self, half: str) -> Iterator[Node]:
        for product, sums, step in zip(self.code.products, self.sums, self.steps, strict=True):
            added = Compute((Region(step, half), Region(sums)), (Region(sums),), "added")
            yield Text((product.added.format(half=half),), added)

    # ------------------------------------------------------------ what leaves

    @property
    def _totals(self) -> tuple[Region, ...]:
        """The sums of all products, of the 64 rows at hand."""
        return tuple(Region(ring, part="f" if self.code.turns else "") for ring in self.sums)

    def _rounds(self) -> Iterator[Node]:
        """The reductions of the sums, round by round, and the numbers of rows and columns that are stored of these."""
        code = self.code
        for n, (each, ring) in enumerate(zip(code.rounds, self.reduced, strict=True)):
            reads = (*self._totals, *map(Region, self.reduced[:n]))
            if not each.of_columns:
                yield Text(each.lines, Compute(reads, (Region(ring),), f"reduced {each.number}"))
                continue
            yield from combining(each, reads, COLUMNS, Sync(self.consumers, "CONSUMERS + 1"))
        for rows in code.rows_stored:
            yield Text(rows.lines, StoreValues(tuple(map(Region, self.reduced)), rows.tensor, rows.coord))

    def _scattered(self, output: Output) -> Loop:
        """The panels of an output from the sums to computed positions in global memory."""
        sums = (*self._totals, *map(Region, self.reduced))
        body = (
            Text(output.values, Compute(sums, (Region(self.ready),), output.tensor, ("p",))),
            Text(output.lines, StoreValues((Region(self.ready),), output.tensor, output.coord)),
        )
        return Loop("p", output.panels, body, unroll="unroll", remark=output.remark)

    def _panels(self, number: int) -> Loop:
        """The panels of an output, from the sums through shared memory to global memory."""
        code, output = self.code, self.code.outputs[number]
        panels = " + ".join(o.panels for o in self.copied)
        panels = f"({panels})" if len(self.copied) > 1 else panels
        before = f"f * {panels} + {output.before}p" if code.turns else f"{output.before}p"
        at = f"({before}) % STORE_BUFFERS" if before != "p" else "p % STORE_BUFFERS"
        panel, own = (Region(self.panel, at, own=own, alias="panel") for own in (False, True))
        sums = (*self._totals, *map(Region, self.reduced))
        value, converted = "values", list[str]()
        if output.converted:
            value, converted = "bytes", [f"{output.converted} bytes;", "warp::copy(bytes, values);"]
        copy = CopyOut(panel, output.tensor, output.coord, output.axis, code.function, who=Who.FIRST)
        rows = StoreRows(own, output.tensor, output.place, output.chunks, code.function != "store_async")
        stored: Node = If("partial", (rows,), (copy,)) if code.ragged else rows if output.chunks else copy
        body: tuple[Node, ...] = (
            Bind(panel, output.type, cast=number > 0),
            Text(output.values, Compute(sums, (Region(self.ready),), output.tensor, ("p",))),
            *self._free(),
            Sync(self.group, "consumer + 1"),
            Text(tuple(converted)),
            Write(Region(self.ready), own, value),
            Sync(self.group, "consumer + 1"),
            stored,
        )  # fmt: skip
        return Loop("p", output.panels, body, unroll="unroll", remark=output.remark)

    def _free(self) -> tuple[Node, ...]:
        """Until the store that was last made from a buffer has read it: of part of a tile, until all have."""
        wait = Drain("stores", "STORE_BUFFERS - 1", reads_only=True, who=Who.FIRST)
        every = Drain("stores", reads_only=True, who=Who.FIRST)
        if any(o.chunks for o in self.copied):  # no groups of the copy engine tell which buffer they read
            return () if all(o.chunks for o in self.copied) else (every,)
        return (If("partial", (every,), (wait,)),) if self.code.ragged else (wait,)
