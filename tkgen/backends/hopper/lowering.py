"""Program -> CUDA C++ against the names of ThunderKittens 2.0: coordinates, sizes and the registers of each warpgroup.

The schedule is one: a producer warpgroup whose first thread fills a ring of stages by the copy engine, consumer
warpgroups that each multiply 64 rows of the block from them, one group of products in flight while the next is issued;
or that do so in turn, each all K-steps of its own rows, 64 or more, while another's sums leave (`schedule ping_pong`).
A stage is full when the bytes that its mbarrier expects have come, and empty when every consumer warp has waited for
its products of it. The sums leave through shared memory and the copy engine, panel by panel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from tkgen.backends.cdna.lower.model import Constant, ScalarMember
from tkgen.backends.cdna.lower.names import comment_text, cpp_name
from tkgen.backends.cdna.lower.origins import Marks, Origin, Origins, Source, end_of, within
from tkgen.backends.hopper import streamed
from tkgen.backends.hopper.epilogue import (
    Element,
    element,
    element_function,
    function,
    place_of,
    scaling,
    stored_as_it_is,
)
from tkgen.backends.hopper.file import File, Member, name, size
from tkgen.backends.hopper.filled import filled, helpers_of
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.machine import Hopper
from tkgen.backends.hopper.neighbours import ALONE, Neighbours
from tkgen.backends.hopper.parts import Factor, Output, ProductModel
from tkgen.backends.hopper.printer import INDENT, body
from tkgen.backends.hopper.reduced import Reduced, called
from tkgen.backends.hopper.scattered import Scattered, output_names
from tkgen.backends.hopper.streamed import Code, program
from tkgen.ir.equations import Access, Store
from tkgen.ir.types import Dim, DType, Operand, Program, Side, Tensor
from tkgen.remap import NamedInt, RemapCall, compose
from tkgen.source import Span
from tkgen.tile.program import Let, Ring, Scope

FULL = "A stage is full when its bytes have come, empty when every warp's products of it are done"
OF_CLUSTER = ": of all blocks that copy into it"
LET_NEXT = "pdl::arrive();  // the next kernel's blocks may begin, where there is room"


def lower(program: Program, machine: Hopper, spec: str = "", beside: Neighbours = ALONE) -> Source:
    """The CUDA C++ of `program`, in which `checks.check` finds nothing wrong; `spec` is the path comments name."""
    made = _Lowering(program, machine, beside)
    return made.file(spec).source(made.marks)


def tile_code(program: Program, machine: Hopper) -> Code:
    """The C++ of the tile program of a kernel."""
    return _Lowering(program, machine).parts()[-1]


DIMENSIONS = {0: "dim::BATCH", 1: "dim::DEPTH"}  # beside dim::ROW, which is meant where none is said


CHUNKS = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint2"}
"""Types by their number of bytes."""


def copied_along(along: int) -> str:
    """Template arguments of a copy: along which dimension the rows of its tiles lie, where that is not the third."""
    return f"<{DIMENSIONS[along]}, cache_policy::NORMAL>" if along in DIMENSIONS else ""


def described(tile: str, along: int, grouped: bool = False) -> str:
    """The tensor's type for the tiles that are copied: their type, the dimension of `copied_along`, groups."""
    arguments = f"<{tile}, {DIMENSIONS[along]}>" if along in DIMENSIONS else f"<{tile}>"
    if grouped:
        return f"tk::group_descriptor{arguments}"
    return f"tma::descriptor{arguments}" if along in DIMENSIONS else tile


def _stored(tensor: Tensor) -> Sequence[int | None]:
    """The extents of a tensor in what memory is counted in."""
    return tensor.shape if None in tensor.shape else tensor.dtype.stored([n or 0 for n in tensor.shape])


class _Lowering:
    def __init__(self, program: Program, machine: Hopper, beside: Neighbours = ALONE):
        self.program, self.machine, self.beside = program, machine, beside
        self.layout, self.marks = Layout(program, machine), Marks()

    def origin(self, *spans: Span | str | None) -> Origins:
        """The spec lines of spans, or of clauses by name; None and a clause that is not written add nothing."""
        found = [self.program.spans.get(s) if isinstance(s, str) else s for s in spans]
        main = self.program.spans["kernel"].file.name
        return Origins.of(Origin(s.file, s.line) for s in found if s is not None and s.file.name == main)

    def remark(self, *spans: Span | str | None) -> str:
        """End of a line that comes from there."""
        return self.marks.remark(self.origin(*spans))

    def file(self, spec: str) -> File:
        """The generated file."""
        p = self.program
        factors, products, outputs, code = self.parts()
        made = [o.epilogue for o in outputs if o.epilogue]
        made += self.reduced.elements
        functions = [h for each in made for h in each.helpers]
        functions += [h for each in products if each.scaling for h in each.scaling.helpers]
        functions += [h for made in self.layout.equations.made.values() for h in helpers_of(made)]
        return File(
            name(p.name),
            tuple(comment_text(line) for line in p.header.rstrip("\n").split("\n") if p.header),
            comment_text(PurePath(spec).name),
            self.machine.name,
            tuple(self.constants()),
            (*map(self.tensor, p.arguments), *(self.end(t) for t in p.arguments if t.name in self.layout.ended)),
            tuple(ScalarMember(name(s.name), s.dtype.cpp, self.origin(s.span)) for s in p.scalars),
            tuple(dict.fromkeys(functions)),
            tuple(body(program(code), FULL + OF_CLUSTER * code.cluster, "a fresh stage counts as empty",
                       [self._constant(size) for size in self.sizes()])),
            tuple(self._types(factors, outputs)),
            self.layout.clusters > 1,
            origin=self.origin(*(r.span for r in p.roles)),
            beside=self.beside,
        )  # fmt: skip

    def _types(self, factors: Sequence[Factor], outputs: Sequence[Output]) -> Iterator[str]:
        """The types of tiles in shared memory, and of warps that reduce columns together."""
        remark = self.marks.remark
        if any(r.columns for each in self.reduced.rounds for r in each):
            yield "using consumers = group<CONSUMERS * WARPGROUP_WARPS>;"
        for f in factors:
            yield f"using {f.name}_tile = {f.type};{remark(f.origin, f.comment)}"
            if f.part:
                about = "what each block of a cluster copies of it, for all"
                yield f"using {f.name}_part = {f.part};{remark(self.origin('clusters'), about)}"
            if f.whole and f.parts:
                yield f"using {f.name}_box = {f.whole};{remark(f.origin, 'the same of all consumers, in one copy')}"
        for o in outputs:
            if o.type:
                yield f"using {o.name}_tile = {o.type};{remark(o.origin, o.comment)}"

    def _constant(self, made: Constant) -> str:
        return f"const int {made.name} = {made.expression};{self.marks.remark(made.origin)}"

    def parts(self) -> tuple[list[Factor], list[ProductModel], list[Output], Code]:
        """The operands, products and outputs, and the C++ of the tile program for them."""
        p, rows, cols = self.program, self.extent(0), self.extent(1)
        remap = compose([RemapCall(s.name, dict(s.keywords), s.positional) for s in p.remap])
        row, col = ("cluster" if clustered else "tile" for clustered in self.clustered)
        placed = remap.cpp("tile", rows, cols, indent="", row=f"{row}_row", col=f"{col}_col")
        factors, outputs = [self.factor(o) for o in p.operands], self.outputs()
        products = [self.product(number) for number in range(len(p.products))]
        place = [*placed.statements, *self.own_tile()]
        return factors, products, outputs, self.code(factors, products, outputs, self.tiles(rows, cols), place)

    def code(self, factors: Sequence[Factor], products: Sequence[ProductModel], outputs: Sequence[Output],
             head: str, place: Sequence[str]) -> Code:  # fmt: skip
        """The C++ of the tile program: what is copied, multiplied, stored."""
        p, layout, warps = self.program, self.layout, self.machine.warpgroup_warps
        moved = layout.moved_registers or (0, 0)
        operands = tuple(
            streamed.Operand(f.name, not f.parts, f"{f.name}_s", f"{f.name}_tile", f.name, f.coord, f.axis,
                             f"{f.name}_part" if f.part else "", self.marks.remark(f.origin), f.filled,
                             f"{f.name}_{'box' if f.parts else 'tile'}" if f.whole else "", f.boxes)
            for f in factors
        )  # fmt: skip
        numbers = {f.name: n for n, f in enumerate(factors)}
        scaled = any(each.scaling for each in products)
        copied = next((each for each in outputs if not each.scattered), None)
        producer, consumer = (
            (str(role.first // warps), self.marks.remark(self.origin(role.span), comment_text(role.name)), registers)
            for role, registers in zip((layout.producer, p.compute), moved, strict=True)
        )
        return Code(
            operands,
            tuple(self._product(each, numbers) for each in products),
            tuple(self._output(each, products) for each in outputs),
            "steps" if p.grid.name == "stream_k" else self.steps,
            layout.ping_pong, scaled, layout.ragged, layout.clusters > 1,
            "store_add_async" if p.grid.shares_tiles else "store_async",
            tuple(head.split("\n")), (*place, *map(self._constant, self.batch())),
            tuple(self._declared(products, scaled)), tuple(self._scaling(products)) if scaled else (),
            tuple(self._rows_of_group(copied)) if layout.ragged else (),
            tuple(self._positions()),
            tuple(self.reduced.statements(self._sums(products))),
            tuple(self.reduced.stored()),
            streamed.PANEL if copied is None else
            Ring("panel", f"{copied.name}_s", "STORE_BUFFERS", streamed.WARPS, Scope.GROUP, f"{copied.name}_tile",
                 ("CONSUMERS", "STORE_BUFFERS"),
                 self.marks.remark(copied.origin, "panels of all outputs have as many bytes" * (len(outputs) > 1))),
            producer, consumer,
            summed=(LET_NEXT,) if self.beside.after else (),
        )  # fmt: skip

    def _rows_of_group(self, copied: Output | None) -> Iterator[Let]:
        """The first of 64 rows of a group, and whether the group ends within them, where panels of these are copied."""
        rows = "64" if copied is None else copied.rows
        yield Let((("row", f"walk.first + ({self.row_tile}) * {rows}"),))
        if copied is not None:
            yield Let((("partial", f"row + {rows} > walk.end"),), "bool",
                      remark="  // the copy engine would write rows of the next group, too")  # fmt: skip

    def _positions(self) -> Iterator[str]:
        """Declarations of the positions that tensors hold for the rows of a lane, once each."""
        found = dict[Access, list[str]]()
        for store in self.layout.scattered:
            for access, line in self.scattered(store).declared(0).items():
                found.setdefault(access, list(within(store.span, [line])))
        yield from (line for lines in found.values() for line in lines)

    def scattered(self, store: Store) -> Scattered:
        """A store to computed positions."""
        return Scattered(self.layout, store, self._first_row, self.limit)

    def _declared(self, products: Sequence[ProductModel], scaled: bool) -> Iterator[str]:
        """The sums of a consumer, and those of single steps."""
        fragments = "[FRAGMENTS]" if self.layout.ping_pong else ""
        sums = ", ".join(f"{each.sums}{fragments}" for each in products)
        kind = "rt<int, " if self.program.accumulator.dtype.whole else "rt_fl<"
        yield f"{kind}16, BLOCK_COLS> {sums};{self.remark(self.program.accumulator.span)}"
        if scaled:
            steps = ", ".join(f"{each.step}[2]" for each in products)
            yield f"rt_fl<16, BLOCK_COLS> {steps};  // of one step, and of the next"

    def _scaling(self, products: Sequence[ProductModel]) -> Iterator[str]:
        """Declarations for a tile whose steps are scaled: the scales of two steps, and values computed from them."""
        yield "const int row = (tile_row * CONSUMERS + consumer) * 64, col = tile_col * BLOCK_COLS;  // the first ones"
        for each in products:
            made, suffix = each.scaling, each.suffix
            assert made is not None
            for x in made.scales:
                number = f"{x.name}{suffix}"
                yield f"{x.type} {number}[2];"
                yield f"const auto {number}_at = [&](int k) {{ return {x.loaded}; }};"
            parameters = [made.sum, made.product, *(x.name for x in made.scales)]
            head = f"const auto added{suffix} = {element_function(parameters)}"
            yield from function(head, made, self.remark(*made.spans), ";")

    def _product(self, product: ProductModel, numbers: Mapping[str, int]) -> streamed.Product:
        """A product with the statements that load what scales a step's sums, and add them."""
        scales = [f"{x.name}{product.suffix}" for x in product.scaling.scales] if product.scaling else []
        passed = "".join(f", {x}[{{half}}]" for x in scales)
        return streamed.Product(
            numbers[product.left], numbers[product.right], product.layouts, product.sums, product.step,
            tuple(f"{x}[{{half}}] = {x}_at({{k}});" for x in scales),
            f"tk::add({product.sums}, {product.step}[{{half}}], row, col, added{product.suffix}{passed});"
            f"{product.equation}",
            product.equation,
        )  # fmt: skip

    @property
    def reduced(self) -> Reduced:
        """The reductions of the sums, and their stores."""
        p = self.program
        return Reduced(self.layout, self.limit(p.m), self.limit(p.n), self.row_tile, self._first_row, self.remark,
                       self.limit)  # fmt: skip

    def _sums(self, products: Sequence[ProductModel]) -> list[str]:
        """The sums of all products, of the 64 rows at hand."""
        return [f"{p.sums}{'[f]' if self.layout.ping_pong else ''}" for p in products]

    @property
    def _first_row(self) -> str:
        return "row" if self.layout.ragged else f"({self.row_tile}) * {self.machine.wgmma_rows}"

    def _output(self, output: Output, products: Sequence[ProductModel]) -> streamed.Output:
        """The stores of an output, from the sums of all products."""
        cols, remark = output.cols, self.marks.remark(output.origin)
        made = output.epilogue or Element.of_sum(output.sum, [f"{p.sums}_v" for p in products])
        row = "row" if self.layout.ragged else f"({self.row_tile}) * {output.rows}"
        place = f"p * {cols} / 16, {row}, tile_col * BLOCK_COLS"
        lines = list[str]()
        if made.loads:
            pairs = ", ".join(x.name for x in made.loads)
            about = self.marks.remark(comment="all on their way before one is used")
            lines.append(f"tk::pairs<{cols}> {pairs};{about}")
            loads = [f"{x.name}.at[j][q] = {x.pair};" for x in made.loads]
            lines += [f"tk::each_pair<{cols}>({place}, [&](int j, int q, int r, int c) {{",
                      *(INDENT + line for line in loads), "});"]  # fmt: skip
        if output.epilogue is None and (len(products) == 1 or output.whole):
            fragment = "[f]" if self.layout.ping_pong else ""
            panel = "integer_panel" if output.whole else "panel"
            sums = f"{products[output.sum].sums}{fragment}"
            lines.append(f"const auto values = tk::{panel}<{cols}>(p * {cols} / 16, {sums});")
        else:
            head = f"const auto values = tk::panel<{cols}>({place}"
            loads = [x.name for x in made.loads]
            lines += called(head, made, self._sums(products), loads, self.remark(*made.spans))
        if output.scattered is not None:
            first = f"tile_col * BLOCK_COLS + p * {cols}"
            batch = [f"{cpp_name(axis.name)}_i, " for axis in self.program.batch]
            stored = within(output.span, self.scattered(output.scattered).lines(first, cols))
            return streamed.Output(
                output.panels, values=tuple(within(output.span, lines)), tensor=output.name,
                coord=f"{{{''.join(batch)}{row}, {first}}}", remark=remark, scattered=True, lines=tuple(stored),
            )  # fmt: skip
        return streamed.Output(
            output.panels, f"{output.name}_tile", output.before, tuple(within(output.span, lines)), output.bytes,
            output.name, output.coord,
            output.axis, output.coord if output.chunks else f"row, tile_col * BLOCK_COLS + p * {cols}, walk.end",
            output.chunks, remark,
        )  # fmt: skip

    @property
    def row_tile(self) -> str:
        """The index of the 64 rows of the output that a panel has."""
        own = "tile_row * CONSUMERS + consumer"
        return f"({own}) * FRAGMENTS + f" if self.layout.ping_pong else own

    def outputs(self) -> list[Output]:
        """The outputs, in the order in which they are stored."""
        layout, stores = self.layout, output_names(self.layout)
        found, before = list[Output](), list[str]()
        for safe, store in stores.items():
            tensor, only = store.target.tensor, len(stores) == 1
            as_it_is, computed = stored_as_it_is(layout.equations, store), store.target.computed
            made = element(layout.equations, store.value, name) if as_it_is is None else None
            panels = "PANELS" if only else f"{safe}_PANELS"
            found.append(Output(
                safe, "" if computed else
                self.tile_type(tensor.dtype, (str(self.machine.wgmma_rows), str(layout.panel_cols(tensor)))),
                f"rt_{tensor.dtype.suffix}<16, {safe}_tile::cols>" if tensor.dtype.bits == 8 else "",
                "a panel of a consumer's sums" if only else "a panel of what is stored there",
                panels, "".join(f"{b} + " for b in before), made, as_it_is or 0,
                "" if computed else f"coord<>{{0, 0, row, tile_col * BLOCK_COLS + p * {safe}_tile::cols}}"
                if layout.ragged else self.place(store.target, (self.row_tile, f"tile_col * {panels} + p")),
                "" if computed else self.axis(store.target), self.chunks(store.target),
                self.origin(store.span) if not only else self.origin("store"), store.span, tensor.dtype.whole,
                store if computed else None, layout.panel_cols(tensor),
            ))  # fmt: skip
            before.append(panels)
        return found

    def limit(self, dim: Dim) -> str:
        """The size of a dimension in C++."""
        return size(dim, (*(access.tensor for access in self.layout.moved.values()), *self.program.arguments))

    def tiles(self, rows: str | NamedInt, cols: str | NamedInt) -> str:
        """The head of the loop over a block's output tiles."""
        names = [e.name if isinstance(e, NamedInt) else e for e in (rows, cols)]
        grid, each = self.program.grid, " / CLUSTER" if self.layout.clusters > 1 else ""
        if (axis := self.program.ragged) is not None and self.program.offsets is not None:
            (index,) = self.program.batch
            count = f"{index.dim.size}, {self.limit(axis.dim)}"
            walk = f"tk::group_walk walk(g.{name(self.program.offsets.name)}.raw_ptr, {count});"
            split = grid.name == "split_k"
            number, first = (
                (f"at / {grid.count}", f", first = at % {grid.count} * {self.steps}") if split else ("at", "")
            )
            head = f"for (int at = blockIdx.x; walk.find({number}, BLOCK_ROWS, {names[1]}); at += gridDim.x) {{"
            return (f"{walk}{self.remark(axis.span)}\n{head}{self.remark('grid')}\n"
                    f"    const int tile = {number} - walk.before{first}, grid_rows = walk.rows;")  # fmt: skip
        if grid.name == "persistent":
            tiles = f"tile < {names[0]} * {names[1]}; tile += gridDim.x{each}"
            return f"for (int tile = blockIdx.x{each}; {tiles}) {{{self.remark('grid')}"
        if grid.name == "split_k":
            tiles = f"({names[0]} * {names[1]})"
            part = f"const int tile = blockIdx.x % {tiles}, first = blockIdx.x / {tiles} * {self.steps};"
            return f"{{\n    {part}{self.marks.remark(self.origin('grid'), 'a part of the K-steps')}"
        if grid.name == "stream_k":
            every = f"{names[0]} * {names[1]} * K_STEPS"
            return (
                f"const int run = ({every} + gridDim.x - 1) / gridDim.x;{self.remark('grid')}\n"
                f"for (int at = blockIdx.x * run, end = min(at + run, {every}), steps; at < end; at += steps) {{\n"
                "    const int tile = at / K_STEPS, first = at % K_STEPS;\n"
                "    steps = min(K_STEPS - first, end - at);"
            )
        if self.program.batch:
            tiles = f"({names[0]} * {names[1]})"
            return f"{{\n    const int tile = blockIdx.x{each} % {tiles}, matrix = blockIdx.x{each} / {tiles};"
        return f"{{\n    const int tile = blockIdx.x{each};"

    @property
    def clustered(self) -> tuple[bool, bool]:
        """Two flags: True if the blocks of a cluster have tiles one below the other, and if beside each other."""
        clusters = self.program.clusters
        return clusters is not None and clusters.rows, clusters is not None and not clusters.rows

    def own_tile(self) -> list[str]:
        """From the place of a cluster to the tile of a block: one beyond the end has zeros, and is dropped."""
        places = [place for place, found in zip(("row", "col"), self.clustered, strict=True) if found]
        remark = self.remark("clusters")
        return [f"const int tile_{place} = cluster_{place} * CLUSTER + rank;{remark}" for place in places]

    def counted(self) -> list[tuple[str, Dim, str]]:
        """The numbers of tiles, or clusters of them, and of K-steps: name, dimension, elements of one."""
        p, found = self.program, list[tuple[str, Dim, str]]()
        for clustered, place, dim in zip(self.clustered, ("ROWS", "COLS"), (p.m, p.n), strict=True):
            symbol, unit = ("CLUSTER", "(CLUSTER * BLOCK_{})") if clustered else ("GRID", "BLOCK_{}")
            found.append((f"{symbol}_{place}", dim, unit.format(place)))
        return [*found, ("K_STEPS", p.k, "K_STEP")]

    def of_group(self, symbol: str) -> bool:
        """Return True if each group has its own such number: of tiles along the rows, where these are ragged."""
        return self.layout.ragged and symbol not in ("GRID_COLS", "K_STEPS")

    def factor(self, operand: Operand) -> Factor:
        rows = operand.side is Side.A
        turns = self.layout.ping_pong
        extent = f"BLOCK_ROWS / CONSUMERS{' / FRAGMENTS' if turns else ''}" if rows else "BLOCK_COLS"
        own = "(tile_row * CONSUMERS + consumer) * FRAGMENTS + i" if turns else "tile_row * CONSUMERS + i"
        place = own if rows else "tile_col"  # in tiles, at step `k`
        about = f"a step's, of {'all consumers' if not rows else '64 rows' if turns else 'one consumer'}"
        if operand.name in self.layout.filled:
            tile = self.tile_type(operand.dtype, (extent, "K_STEP"))
            return Factor(name(operand.name), tile, "", "CONSUMERS" if rows else "", "", "", about,
                          self.origin(operand.span), self.filling(operand))  # fmt: skip
        access, along = self.layout.moved[operand.name], self.layout.parted(operand)
        shape, at = [extent, "K_STEP"], [place, self.step]
        if rows and self.layout.ragged:
            step = f"({self.step})" if " " in self.step else self.step
            at = [f"walk.first + ({own}) * {name(operand.name)}_tile::rows", f"{step} * K_STEP"]
        if operand.contraction_first:
            shape, at = shape[::-1], at[::-1]
        tile, part = self.tile_type(operand.dtype, shape), ""
        whole, boxes, box = "", "", f"{name(operand.name)}_{'box' if rows else 'tile'}"
        if operand.name in self.layout.ended:
            place, dim = ("tile_row", self.program.m) if rows else ("tile_col", self.program.n)
            at[0], tensor = place, name(operand.name)
            whole = self.tile_type(operand.dtype, ("BLOCK_ROWS" if rows else "BLOCK_COLS", "K_STEP"))
            remark = self.marks.remark(self.origin("tail"))
            boxes = (f"const auto {tensor}_boxes = tk::boxes_of<{box}>(g.{tensor}, g.{tensor}_end, {place}, "
                     f"{self.limit(dim)});{remark}")  # fmt: skip
        if along is not None:
            shape[along] = f"{shape[along]} / CLUSTER"
            at[along] = f"{f'({at[along]})' if ' ' in at[along] else at[along]} * CLUSTER + rank"
            part = self.tile_type(operand.dtype, shape)
        return Factor(
            name(operand.name),
            tile,
            part,
            ("FRAGMENTS" if turns else "CONSUMERS") if rows else "",
            f"coord<>{self.place(access, at)}" if rows and self.layout.ragged else self.place(access, at),
            self.axis(access),
            about,
            self.origin(operand.span),
            whole=whole,
            boxes=boxes,
        )

    def filling(self, operand: Operand) -> streamed.Filled:
        """The way of an operand that warps of the producer load."""
        row = "tile_col * BLOCK_COLS"
        if operand.side is Side.A:
            row = f"({self.row_tile.replace('consumer', 'i')}) * {name(operand.name)}_tile::rows"
            row = f"walk.first + {row}" if self.layout.ragged else row
        spec = self.marks.remark(self.origin(operand.tensor.span))
        return filled(self.layout, operand, row, self.step, self.limit, spec)

    @property
    def step(self) -> str:
        """The K-step of the contraction that is step `k` of a block's sums."""
        if (part := self.program.part) is not None:
            return f"{cpp_name(part.name)}_i * {self.steps} + k"
        return "first + k" if self.program.grid.shares_tiles else "k"

    @staticmethod
    def place(access: Access, tiled: Sequence[str]) -> str:
        """The coordinate of a tile, `tiled` in tiles."""
        left = iter(tiled)
        return place_of(access, [next(left) if i.axis in access.axes else "" for i in access.indices])

    def axis(self, access: Access) -> str:
        """Template arguments: along which dimension the rows of its tiles lie, where that is not the third."""
        return copied_along(self.layout.rows_along(access))

    def chunks(self, access: Access) -> str:
        """A template argument: the type that a lane stores at once; empty where the copy engine stores.

        Rows of such an output follow one another: a tail along columns is refused where others lie between them.
        """
        found = self.layout.stored_in_chunks(access.tensor)
        return f"<{CHUNKS[found]}>" if found else ""

    def batch(self) -> list[Constant]:
        """The indices that the number of the block's matrix holds, the last one fastest."""
        found, left = list[Constant](), "matrix"
        for axis in reversed(self.program.batch):
            size = self.limit(axis.dim)
            place = "walk.group" if self.layout.ragged else f"{left} % {size}"
            found.append(Constant(f"{cpp_name(axis.name)}_i", place, "", self.origin(axis.span)))
            left += f" / {size}"
        return found[::-1]

    def product(self, number: int) -> ProductModel:
        product, only = self.program.products[number], len(self.program.products) == 1
        scaled = scaling(self.layout.equations, self.layout.equations.sums[number], name)
        sums = self.program.accumulator.tensor.name if only else product.name
        return ProductModel(
            f"{name(sums)}_acc", name(product.left.name), name(product.right.name), product.layouts,
            scaled, f"{name(sums)}_step", "" if only else f"_{name(sums)}",
            end_of(product.span or self.program.accumulator.span),
        )  # fmt: skip

    @staticmethod
    def tile_type(dtype: DType, shape: Sequence[str]) -> str:
        """The type of a tile in shared memory."""
        kind = f"st<{dtype.cpp}, " if dtype.whole else f"st_{dtype.suffix}<"
        return f"{kind}{shape[0]}, {shape[1]}>"

    def tensor(self, tensor: Tensor) -> Member:
        known = ["-1" if n is None else str(n) for n in _stored(tensor)]
        b, d, r, c = ["1", "1", "1", *known][-4:]
        d = "-1" if len(known) > 2 and b == d == "1" else d  # a matrix is what has two dimensions
        parted = any(o.name == tensor.name and self.layout.shared_by_cluster(o) for o in self.program.operands)
        what = "part" if parted else "tile"
        access, tile = self.layout.moved.get(tensor.name), ""
        if access is not None:
            left = any(o.name == tensor.name and o.side is Side.A for o in self.program.operands)
            what = "box" if left and tensor.name in self.layout.ended else what
            tile = described(f"{name(tensor.name)}_{what}", self.layout.rows_along(access))
        kind = "uint8_t" if tensor.dtype.packed else tensor.dtype.cpp
        return Member(name(tensor.name), kind, (b, d, r, c), self.origin(tensor.span), tile)

    def end(self, tensor: Tensor) -> Member:
        """A tensor once more, with a map for boxes of the last tile's rows."""
        member = self.tensor(tensor)
        return replace(member, name=f"{member.name}_end")

    @property
    def steps(self) -> str:
        """The number of K-steps of a tile, or of a part of them."""
        return "K_STEPS" if self.program.k.size is not None else "k_steps"

    def extent(self, axis: int) -> str | NamedInt:
        constant, dim, _ = self.counted()[axis]
        if dim.size is None or (axis == 0 and self.layout.ragged):
            return constant.lower()
        each = self.program.block[axis] * (self.layout.clusters if self.clustered[axis] else 1)
        return NamedInt(constant, -(-dim.size // each))

    def constants(self) -> list[Constant]:
        p, layout = self.program, self.layout
        bm, bn, bk = p.block
        block, roles = self.origin("block"), self.origin(*(r.span for r in p.roles))
        result = [
            Constant("BLOCK_ROWS", str(bm), "output rows of a block", block),
            Constant("BLOCK_COLS", str(bn), "output columns of a block", block),
            Constant("K_STEP", str(bk), "contraction elements per step", block),
            Constant("STAGES", str(layout.stages), "steps that shared memory holds", self.origin(p.a.span)),
            Constant("CONSUMERS", str(layout.consumers), "warpgroups that multiply", self.origin(p.compute.span)),
            *self.panels(),
            *(
                [Constant("STORE_BUFFERS", str(layout.store_buffers), "panels on their way out", self.origin("store"))]
                if layout.store_buffers
                else []
            ),
            Constant("THREADS", f"{p.waves} * WARP_THREADS", f"{p.waves} warps", roles),
        ]
        if layout.ping_pong:
            about = "products of 64 rows that a consumer's rows are"
            result.insert(5, Constant("FRAGMENTS", str(layout.fragments), about, self.origin(p.accumulator.span)))
        if layout.clusters > 1:
            origin = self.origin("clusters")
            every = Constant("EVERY_BLOCK", "(1 << CLUSTER) - 1", "of a cluster, as a mask", origin)
            count = Constant("CLUSTER", str(layout.clusters), "blocks that share the tiles of a factor", origin)
            result = [count, every, *result]
        for symbol, dim, unit in self.counted():
            if dim.size is not None and not self.of_group(symbol):
                origin = self.origin(dim.span, "block", "tail")
                result.append(Constant(symbol, *self._counted(str(dim.size), symbol, unit), origin))
        return result

    def _counted(self, size: str, symbol: str, unit: str) -> tuple[str, str]:
        """The number of tiles or K-steps in `size` elements, of a part where blocks share these; and what it is of."""
        count, parts = f"({size} + {unit} - 1) / {unit}", self.program.parts
        if symbol != "K_STEPS" or parts == 1:
            return count, ""
        if self.program.part is not None and parts is None:
            place = self.limit(self.program.part.dim)
            return f"({count} + {place} - 1) / {place}", "of a part"
        assert parts is not None
        if self.program.tile_steps is not None and self.program.tile_steps % parts == 0 and self.program.part is None:
            return f"{count} / {parts}", f"of the {parts} blocks that add to a tile, each"
        return f"({count} + {parts} - 1) / {parts}", "of a part"

    def panels(self) -> list[Constant]:
        """The number of panels of each output."""
        counts = map(self.layout.panels_of, self.layout.tiles_stored)
        about = "of a consumer's sums, each 128 bytes wide"
        return [Constant(o.panels, str(n), about, o.origin) for o, n in zip(self.outputs(), counts, strict=True)]

    def sizes(self) -> list[Constant]:
        """Extents known only at run time."""
        result = []
        for symbol, dim, unit in self.counted():
            if dim.size is None and not self.of_group(symbol):
                origin = self.origin(dim.span, "block", "tail")
                count, about = self._counted(self.limit(dim), symbol, unit)
                result.append(Constant(symbol.lower(), count, about, origin))
        return result
