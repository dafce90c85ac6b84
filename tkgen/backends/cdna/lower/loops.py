"""A layout of a loop of equations over waves -> C++: rings in LDS, factors in registers, the passes, the stores.

The steps of an iteration are those of `tkgen.schedule.loop_steps`, in their order; each is a few lines here. Nothing
waits beside the barriers: the compiler knows every access to memory that is not assembly, and places the wait that it
needs.
"""

from __future__ import annotations

from collections.abc import Iterator

from tkgen.backends.cdna.lower.dialects import wide_depth
from tkgen.backends.cdna.lower.elements import INDENT, literal, nest
from tkgen.backends.cdna.lower.equation_file import Lowering
from tkgen.backends.cdna.lower.loop_values import LoopValues
from tkgen.backends.cdna.lower.model import Constant
from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.origins import within
from tkgen.backends.cdna.lower.places import OF_ACCESS, BlockPlaces, Names, origin, tile_constant
from tkgen.backends.cdna.lower.statements import MIXED
from tkgen.backends.cdna.lower.value_names import NEXT
from tkgen.ir.equations import Access, Axis, Index, Load, Store, walk
from tkgen.ir.equations import Constant as ConstantOp
from tkgen.ir.limits import LARGEST_ROWS_SIZE
from tkgen.ir.types import ACCESS_BYTES
from tkgen.schedule.loop_program import product_of, ring_of
from tkgen.schedule.loop_tiles import Moving, extent
from tkgen.schedule.loops import VOTES, LoopMap
from tkgen.source import Span
from tkgen.tile.expressions import renamed
from tkgen.tile.ops import (
    Barrier,
    Copy,
    Equations,
    Fence,
    Fetch,
    Mix,
    Priority,
    Read,
    Share,
    SharedLoad,
    SharedStore,
    Vote,
    Write,
)
from tkgen.tile.program import Node, Op, Role, StreamKind

# What no name of a spec may be in the kernel: its own locals and types.
LOCALS = frozenset({
    "i", "c", "e", "n", "k", "g", "step", "steps", "al", "part", "wave", "first_of_wave", "first_column", "first_step",
    "all", "tile", "columns",
})  # fmt: skip
RING, STAGED = "_s", "_f"  # endings of the names of a ring: its tiles in LDS, what is on the way there


class LoopPlaces(BlockPlaces):
    """The C++ of a block's places, and of rings in LDS."""

    of_access = (*OF_ACCESS, RING, STAGED)


class LoopLowering(Lowering):
    """The C++ of a loop of equations over waves."""

    def __init__(self, m: LoopMap, steps: Role):
        self.steps, self.m = steps, m
        votes = range(len(self.m.votes))
        own = {f"{word}_{n}" for n in votes for word in ("votes", "asks")}
        own |= {f"{word}_{n}" for n in range(len(self.m.exchanges)) for word in ("given", "turned")}
        own |= {f"parts_{n}" for n in range(len(self.m.combined))}
        own |= {tile_constant(axis) for axis in self.m.kernel.axes}
        names = Names({*LOCALS, *own})
        super().__init__(self.m, LoopPlaces(self.m.kernel, names, self.m.remap, self.m.persistent))
        self.values = LoopValues(self.m, names, self.places)

    # ------------------------------------------------------------ the file

    def types(self) -> Iterator[str]:
        """The register tiles of a wave: as a product gives them, columns of these, and what is multiplied next."""
        side, depth = self.m.side, wide_depth(self.m.side)
        yield f"using SHAPE = tk::square<{side}>;"
        yield "template <int rows> using tile = tk::rt_fl<rows, COLS, ducks::rt_layout::col, SHAPE>;  // of a wave"
        yield "using columns = typename tile<SIDE>::row_vec;  // a number for each column"
        shape = "SHAPE"
        if self.m.direct:
            shape = "COMPUTED"
            yield f"using OPERAND = tk::wide<{side}, {depth}>;  // of what is loaded, by rows"
            yield f"using ACROSS = tk::wide<{depth}, {side}>;  // the same by columns"
            yield f"using COMPUTED = tk::wide<{depth}, {side}, 4>;  // of what is computed"
        if any(v.dtype.bits == 8 for v in self.m.factors):
            yield "using BYTES = ducks::rt_shape::bytes<SIDE>;  // of operands, 16 bytes a lane"
        for dtype, bits in sorted({(v.dtype.suffix, v.dtype.bits) for v in self.m.factors}):
            kind = f"tk::rt_{dtype}<rows, COLS, ducks::rt_layout::col, {shape}>"
            if bits == 8:
                kind = f"rt_{dtype}<COLS, rows, ducks::rt_layout::row, BYTES>"
            yield f"template <int rows> using operand_{dtype} = {kind};  // of a product"

    def constants(self) -> Iterator[Constant]:
        """The numbers that its statements name."""
        m = self.m
        yield from super().constants()
        yield Constant("COLS", str(m.columns), f"of a tile of {m.split.name}, for a wave")
        yield Constant("SIDE", str(m.side), "of the base tiles of products")
        yield Constant("ELEMENTS", "SIDE * SIDE / WARP_THREADS", "of a base tile, for a lane")
        axis = m.loop.axis
        yield Constant(self.values.extent(axis), str(axis.tile), f"of {axis.dim.name} in a pass", origin(axis.span))
        if any(x.held_ring is not None for x in m.multiplications):
            yield Constant(self.values.extent(m.split), str(m.split.tile), "of a block", origin(m.split.span))
        if self._all_steps == "STEPS":
            yield Constant("STEPS", self._steps(), "passes")

    def _steps(self) -> str:
        """Tiles of the loop's axis."""
        axis = self.m.loop.axis
        size, tile = self.places.length(axis), self.values.extent(axis)
        whole = axis.within is None and axis.dim.size is not None and axis.dim.size % (axis.tile or 1) == 0
        return f"{size} / {tile}" if whole else f"({size} + {tile} - 1) / {tile}"

    # ------------------------------------------------------------ the kernel's body

    def body(self) -> Iterator[str]:
        """The statements of the kernel."""
        # s - n is zero where n is the maximum of s; if s were a product rounded with the difference alone, it were not.
        yield "#pragma clang fp contract(on)  // within an expression, not across"
        yield from self.places.with_locals(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from self._rings()
        yield "const int wave = warpid();"
        yield from self.values.quieted()
        yield from self.places.from_tile_to_tile(list(self._tile()))

    def _tile(self) -> Iterator[str]:
        """Lines of a block for one tile."""
        m, loop = self.m, self.m.loop
        at = self.kernel.body.index(loop)
        yield from self.places.head()
        if self._all_steps != "STEPS":
            yield f"const int {self._all_steps} = {self._steps()};{self.places.remark(loop.axis.span)}"
        yield f"const int first_of_wave = {self.places.axis[m.split]}_0 + wave * COLS;"
        yield "const int first_column = first_of_wave + laneid() % SIDE;"
        yield from self._held()
        yield from self.values.statements(self.kernel.body[:at])
        yield from self._carried()
        for n, ring in enumerate(m.moving):
            if ring.direct:
                yield self._direct(n)
                continue
            kind, size, square = "tk::words_4", "tk::CHUNKS", ""
            if ring.turned:
                kind, size, square = "uint32_t" if ring.of_bytes else "tk::words_2", "tk::SQUARES", "[4]"
            elif ring.cols is None:
                kind, size = ring.access.tensor.dtype.cpp, "tk::LINES"
            yield f"{kind} {self._staged(n)}[{size}<THREADS, {self._ring_type(ring)}>]{square};"
        first = "0"
        if loop.axis.since is not None or loop.axis.part is not None:
            first = "first_step"
            yield f"const int first_step = {self._first()};{self.places.remark(loop.axis.span)}"
        for step in self.steps.before:
            if isinstance(step, Op) and step.when:
                yield from self.values.under_way.before_branch()
            yield from self._step(step, first)
        if not self._surely_entered:
            yield from self.values.under_way.before_branch()
        yield f"#pragma unroll {m.unrolled}"
        yield f"for (int step = {first}; step < {self._passes()}; ++step) {{{self.places.remark(loop.axis.span)}"
        yield from (INDENT + line for line in self._pass())
        yield "}"
        combining = next((n for n, s in enumerate(self.steps.behind) if isinstance(s, SharedStore)), None)
        for step in self.steps.behind[:combining]:
            yield from self._step(step, "")
        yield "tk::settle();"
        steps = iter(self.steps.behind[combining:] if combining is not None else ())
        for op in self.kernel.body[at + 1 :]:
            if op in m.combined:  # up to the step that gives its result
                for step in steps:
                    yield from self._step(step, "")
                    if isinstance(step, SharedLoad):
                        break
            else:
                yield from self._stored(op) if isinstance(op, Store) else self.values.statements([op])

    @property
    def _surely_entered(self) -> bool:
        """Return True if the compiler knows that the loop has an iteration: no branch skips it."""
        axis = self.m.loop.axis
        return self._all_steps == "STEPS" and not axis.bounds and axis.part is None

    @property
    def _all_steps(self) -> str:
        """The name of the number of passes over the whole axis."""
        axis = self.m.loop.axis
        return "STEPS" if axis.dim.size is not None and axis.within is None else "steps"

    def _passes(self) -> str:
        """Before which pass a block ends: where the loop does with its tile, after what has its last element."""
        axis, split = self.m.loop.axis, self.m.split
        if axis.part is not None:
            return f"min({self._all_steps}, first_step + {self._steps_of_part(axis)})"
        if axis.until is None:
            return self._all_steps
        tile, behind = self.values.extent(axis), (split.tile or 1) - 1 + axis.until.moved
        if axis.until.aligned:
            last = f"{self.places.axis[split]}_0 + {behind}{self._longer()}".replace("+ -", "- ")
            return f"min({self._all_steps}, max({last} + {tile}, 0) / {tile})"
        if behind >= 0:
            return f"min({self._all_steps}, ({self.places.axis[split]}_0 + {behind}) / {tile} + 1)"
        return f"min({self._all_steps}, max({self.places.axis[split]}_0 - {-behind} + {tile}, 0) / {tile})"

    def _first(self) -> str:
        """The first iteration of a block: that of its part, or what has the last element that is not before its
        tile."""
        axis, split = self.m.loop.axis, self.m.split
        if axis.part is not None:
            index = next(a for a in self.kernel.axes if a.name == axis.part)
            run = self._steps_of_part(axis)
            run = run if self._all_steps == "STEPS" else f"({run})"
            return f"{self.places.axis[index]}_0 * {run}"
        assert axis.since is not None
        moved = axis.since.moved
        place = f"{self.places.axis[split]}_0" + (f" {'-' if moved < 0 else '+'} {abs(moved)}" if moved else "")
        if axis.since.aligned:
            return f"max({place}{self._longer()}, 0) / {self.values.extent(axis)}"
        return f"{f'max({place}, 0)' if moved < 0 else f'({place})'} / {self.values.extent(axis)}"

    def _longer(self) -> str:
        """Difference between positions of the loop's axis and of the split axis that are equally far from the ends."""
        both = self.m.loop.axis, self.m.split
        one, other = map(self.places.length, both)
        far = any(a.dim.size is None or a.dim.size > LARGEST_ROWS_SIZE // 4 for a in both)
        return f" + ({one} - {other})" if far else f" + {one} - {other}"  # no sum beyond 32 bits

    def _steps_of_part(self, axis: Axis) -> str:
        """Passes over a part of the loop's axis; the last parts may have fewer."""
        parts = next(a.dim.size for a in self.kernel.axes if a.name == axis.part)
        assert parts is not None
        if axis.dim.size is None or axis.within is not None:
            return f"(steps + {parts - 1}) / {parts}"
        return str(axis.part_length(axis.dim.size, parts) // (axis.tile or 1))

    def _rings(self) -> Iterator[str]:
        yield f"__shared__ alignment_dummy __shm[{self.m.lds_bytes} / sizeof(alignment_dummy)];"
        yield "shared_allocator al((int *)&__shm[0]);"
        for ring in self.m.moving:
            kind, name = self._ring_type(ring), f"{self.places.base[ring.access]}{RING}"
            end = self.places.remark(ring.access.tensor.span)
            if ring.buffers == 1:
                yield f"{kind} &{name} = al.allocate<{kind}>();{end}"
            else:
                yield f"{kind} (&{name})[{ring.buffers}] = al.allocate<{kind}, {ring.buffers}>();{end}"

        for n, x in enumerate(self.m.exchanges):
            kind = f"tk::exchanged<{self.m.split.tile}, {self.values.extent(x.rows)}>"
            yield f"{kind} (&given_{n})[{VOTES}] = al.allocate<{kind}, {VOTES}>();"
        for n in range(len(self.m.votes)):
            yield f"int (&votes_{n})[{VOTES}][{self.m.waves}] = al.allocate<int, {VOTES}, {self.m.waves}>();"
        for n, op in enumerate(self.m.combined):
            extents = f"{self.m.waves}, {self.values.extent(op.result.axes[0])}"
            yield f"float (&parts_{n})[{extents.replace(', ', '][')}] = al.allocate<float, {extents}>();"

    def _ring_type(self, ring: Moving) -> str:
        rows = self.values.extent(ring.rows)
        if ring.cols is None:
            return f"sv_{ring.access.tensor.dtype.suffix}<{rows}>"
        shape = ", st_16x32_s" if ring.direct else ""
        return f"st_{ring.access.tensor.dtype.suffix}<{rows}, {self.values.extent(ring.cols)}{shape}>"

    def _held(self) -> Iterator[str]:
        """Factors that stay in registers."""
        for load in self.m.held:
            name, (_, summed) = self.values.name[load.result], self._tile_axes(load.source)
            kind = self.values.operand(load.result.dtype, f"COLS, {self.values.extent(summed)}")
            yield f"{kind} {name};{self.places.remark(load.result.span)}"
            pitch = self.places.pitch(load.source)
            operand = f"tk::load_operand({name}, {self.places.buffer(load.source)}, wave * COLS, {pitch});"
            yield from within(load.result.span, [operand])
        for load in self.m.numbers_loaded:
            yield self.values.number(load, self.places.origin(load.source))
        for load in self.m.columns_loaded:
            name, pitch = self.values.name[load.result], self.places.pitch(load.source)
            kind, end = load.source.tensor.dtype.cpp, self.places.remark(load.result.span)
            yield f"columns {name};{end}"
            columns = f"tk::load_columns<{kind}>({name}, {self.places.buffer(load.source)}, wave * COLS, {pitch});"
            yield from within(load.result.span, [columns])
        for load in self.m.tiles_loaded:
            if load in self.m.loop.body:
                yield from self.values.loaded(load)

        for x in self.m.exchanges:
            yield from within(x.product.result.span, self.values.exchanges.turned(x))

    def _carried(self) -> Iterator[str]:
        values = self.values
        for carry in self.m.loop.carries:
            yield from values.declare(carry.inside)
            first = values.made[carry.initial]
            end = values.places.remark(carry.inside.span)
            name, rows = values.name[carry.inside], values.rows(carry.inside)
            if isinstance(first, ConstantOp) and rows is not None:
                yield f"zero({name});{end}" if first.value == 0 else f"copy({name}, {literal(first.value)});{end}"
            else:
                first_values = values.nest(rows, [values.put(carry.inside, values.text(carry.initial, {}))])
                yield from within(carry.inside.span, first_values)

    def _pass(self) -> Iterator[str]:
        axis = self.m.loop.axis
        outer = set(self.values.declared)
        self.values.under_way.begin_iteration()
        yield f"const int {self.places.axis[axis]}_0 = step * {self.values.extent(axis)};"
        for step in self.steps.tiles.body:
            yield from self._step(step, "step")
        yield from self._handed_on()
        if not self._surely_entered:
            yield "tk::end_iteration();"
        self.values.declared = outer

    def _step(self, step: Node, now: str) -> Iterator[str]:
        match step:
            case Fetch() | Copy():
                n, ahead = ring_of(step), step.offset
                if any(i.of_page for i in self.m.moving[n].access.indices):
                    yield from self.values.under_way.before_branch()
                yield from within(self._span_of(n), self._fetch(n, _item(now, ahead)))
            case Write():
                n, ahead = ring_of(step), step.offset
                ring = self.m.moving[n]
                to = self.values.ring(ring.access, ring.buffers, _item(now, ahead))
                if _by_some_lanes(ring, self.m.threads):
                    yield from self.values.under_way.before_branch()
                order = ", WARP_THREADS / SIDE" if self.m.in_quads(ring) else ""
                line = f"{_moving('write', ring, order)}({to}, {self._staged(n)});"
                yield from within(self._span_of(n), [line])
            case Read():
                x = self.m.multiplications[product_of(step)]
                yield from within(x.result.span, self.values.read_ahead(x, _item(now, step.offset)))
            case Equations(first=first, last=last, ahead=ahead):
                ops = self.m.loop.body[first:last]
                if self.m.early is not None and ops == (self.m.early.product,):
                    early = self.values.early(_item(now, ahead), bool(ahead), (step.part, step.parts))
                    yield from within(self.m.early.result.span, early)
                else:
                    yield from self.values.statements(ops, (step.part, step.parts))
            case Vote(number=n):
                yield from self.values.voted(self.m.votes[n], n)
            case Share(number=n):
                yield from within(self.m.exchanges[n].given.span, [self.values.exchanges.give(n)])
            case SharedStore(number=n):
                yield from within(self.m.combined[n].result.span, self.values.shared(n))
            case SharedLoad(number=n):
                yield from within(self.m.combined[n].result.span, self.values.combined(n))
            case Barrier(drains=drains, when=when, remark=remark):
                met = self._meet(StreamKind.GLOBAL in drains, not drains)
                if when:  # of some waves
                    yield f"if ({renamed(when, {'warp': 'wave', 'AHEAD': str(self.m.late)})}) {met}  // {remark}"
                else:
                    self.values.arriving.clear()
                    yield met
            case Priority(level=level):
                yield f"__builtin_amdgcn_s_setprio({level});"
            case Fence():
                yield "__builtin_amdgcn_sched_barrier(0);"
            case Mix(pattern=pattern, times=times):
                groups = [f"__builtin_amdgcn_sched_group_barrier({MIXED[word][0]}, {n}, 0);" for word, n in pattern]
                yield from nest([f"for (int n = 0; n < {times}; ++n)"], groups)

    def _meet(self, landed: bool = False, idle: bool = False) -> str:
        fenced = self.m.fenced
        how = "idle_" if idle else "landed_" if landed else "" if fenced else "lds_"
        return f"tk::{how}{'turn' if fenced else 'barrier'}();"

    def _span_of(self, n: int) -> Span | None:
        """The place in the spec at which a ring's tensor is read."""
        access = self.m.moving[n].access
        loads = (op for op in walk(self.kernel.body) if isinstance(op, Load) and op.source == access)
        return next((op.result.span for op in loads), None)

    def _fetch(self, n: int, item: str) -> Iterator[str]:
        """A ring's tile of an iteration: the rows of memory that are there, none after the last."""
        ring, loop = self.m.moving[n], self.m.loop.axis
        outer, inner = ring.access.axes[0], ring.access.axes[-1]
        tile, pitch = self.values.extent(loop), self.places.pitch(ring.access)
        start = f"({item}) * {tile}" if " " in item else f"{item} * {tile}"
        if ring.direct:
            to, apart = self.values.ring(ring.access, ring.buffers, item), pitch if outer == loop else "1"
            yield f"tk::fetch_direct<THREADS>({to}, {self._staged(n)}, {start} * {apart});"
            return
        there = f"{self.places.length(loop)} - {start}"
        rows = f"min({there}, {tile})" if outer == loop else f"{there} > 0 ? {self.values.extent(outer)} : 0"
        apart = pitch if outer == loop else "1"
        begin = f"uint64_t({start}) * {apart}"
        if (page := next((i for i in ring.access.indices if i.of_page), None)) is not None:
            name = f"{self.places.base[ring.access]}_page"
            yield f"{{ const int {name} = {self._page(ring.access, page, start)};"
            size = next(i.divisor for i in ring.access.indices if i.remainder)
            begin = f"(uint64_t(max({name}, 0)) * {size} + ({start}) % {size}) * {apart}"
            rows = f"{name} < 0 ? 0 : {rows}"
        begin = f"{self.places.origin(ring.access)} + {begin}"
        across = "1" if ring.cols is None else self.values.extent(inner)
        buffer = f"tk::rows_from(g.{cpp_name(ring.access.tensor.name)}, {begin}, {rows}, {pitch}, {across})"
        to = self.values.ring(ring.access, ring.buffers, "0")
        end = " }" if page is not None else ""
        yield f"{_moving('fetch', ring)}({to}, {self._staged(n)}, {buffer}, {pitch});{end}"

    def _page(self, access: Access, index: Index, start: str) -> str:
        """The page that has the tile from place `start` on, as its table says."""
        assert index.through is not None
        table, size = index.through.tensor, index.through.indices[-1].divisor
        pages = self.places.size(access.tensor.dims[access.indices.index(index)].name)
        first, entries = self.places.origin(index.through), self.places.size(table.dims[-1].name)
        return f"tk::page_of(g.{cpp_name(table.name)}, {first}, ({start}) / {size}, {entries}, {pages})"

    def _direct(self, n: int) -> str:
        """Arguments that all direct loads of a ring share."""
        access = self.m.moving[n].access
        outer, inner = (self.places.length(axis) for axis in access.axes)
        pitch = self.places.pitch(access)
        if access.axes[0].within is not None:  # a group may have no rows: then one of no elements
            outer, inner = f"max({outer}, 1)", f"{outer} > 0 ? {inner} : 0"
        place = f"g.{cpp_name(access.tensor.name)}, {self.places.origin(access)}, {outer}, {pitch}, {inner}"
        return f"const tk::direct<THREADS, {self._ring_type(self.m.moving[n])}> {self._staged(n)}({place});"

    def _staged(self, n: int) -> str:
        return f"{self.places.base[self.m.moving[n].access]}{STAGED}"

    def _handed_on(self) -> Iterator[str]:
        """Lines that set carried values for the next iteration; values that other updates read are copied first."""
        name = self.values.name
        pairs = [(name[c.inside], name[c.update]) for c in self.m.loop.carries if name[c.inside] != name[c.update]]
        inside = {c.inside for c in self.m.loop.carries}
        aside = {name[c.update]: f"{name[c.update]}{NEXT}" for c in self.m.loop.carries if c.update in inside}
        for was, kept in aside.items():
            yield f"const auto {kept} = {was};"
        if self.m.early is not None:
            yield f"{name[self.m.early.result]} = {name[self.m.early.result]}{NEXT};"
        for to, what in pairs:
            yield f"{to} = {aside.get(what, what)};"

    # ------------------------------------------------------------ memory

    def _tile_axes(self, access: Access) -> tuple[Axis, Axis]:
        """The axes of a tile in memory, rows first."""
        rows, cols = access.axes
        return rows, cols

    def _stored(self, store: Store) -> Iterator[str]:
        cpp, end = store.target.tensor.dtype.cpp, self.places.remark(store.span)
        along = self.values.rows(store.value)
        if along is not None and self.m.split not in store.target.axes:
            kind = f"{cpp}, {self.m.neighbours(along) if along in self.m.interleaved else 1}"
            kind += f", {self.values.extent(along)}, SHAPE"
            value = f"[&](int i, int e) {{ return {self.values.text(store.value, {})}; }}"
            yield f"tk::store_row<{kind}>({self.places.buffer(store.target)}, {value});{end}"
            return
        yield self.values.stored(store)


def _by_some_lanes(ring: Moving, threads: int) -> bool:
    """Return True if some lanes write to LDS after others have no element, chunk or 16-byte square left."""
    size = ring.access.tensor.dtype.bytes
    elements = extent(ring.rows) * (1 if ring.cols is None else extent(ring.cols))
    of_thread = 1 if ring.cols is None else 16 if ring.turned else ACCESS_BYTES // size
    return elements % (threads * of_thread) != 0


def _moving(word: str, ring: Moving, order: str = "") -> str:
    """The function that fetches or writes a ring's tile, with its template arguments; `order` of columns in LDS."""
    way = "_vector" if ring.cols is None else "_transposed" if ring.turned else "_quads" if order else ""
    return f"tk::{word}{way}<THREADS{order if way else ', tk::WHOLE_BLOCK'}>"


def _item(now: str, ahead: int) -> str:
    return str(ahead) if now == "0" else f"{now} + {ahead}" if ahead else now
