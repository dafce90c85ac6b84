"""A layout of rows over lanes -> C++: loads, sweeps, the exchange between waves, stores.

The kernel loads each element once, before it computes; then a loop nest for each sweep: rows of a lane `i`, its chunks
`c`, the elements `e` of a chunk. All of these loops are unrolled, so that arrays are registers. A loop of the spec
loads its tile in each iteration, and does its sweeps; what is carried is an array over the rows of a lane.

Reductions that cross waves go through LDS as the layout's steps say (`tkgen.schedule.row_steps`); `lds_barrier` waits
for what a wave has read and written there before it meets the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from tkgen.backends.cdna.lower.elements import INDENT, nest
from tkgen.backends.cdna.lower.equation_file import Lowering
from tkgen.backends.cdna.lower.model import Constant
from tkgen.backends.cdna.lower.origins import within
from tkgen.backends.cdna.lower.places import BlockPlaces, Names
from tkgen.backends.cdna.lower.row_places import LOCALS, Places
from tkgen.backends.cdna.lower.row_scans import IDENTITY, OPERATION, ScanLowering
from tkgen.backends.cdna.lower.row_sorts import SortLowering
from tkgen.backends.cdna.lower.row_values import BEFORE, Values
from tkgen.ir.equations import (
    Access,
    AxisKind,
    Carry,
    Convert,
    Load,
    Map,
    Op,
    Reduce,
    Scan,
    Store,
    Update,
    Value,
    reads,
    walk,
    writes,
)
from tkgen.ir.equations import Loop as SpecLoop
from tkgen.ir.functions import CDNA, HOPPER
from tkgen.remap import Remap
from tkgen.schedule.row_form import Way
from tkgen.schedule.row_loops import loops
from tkgen.schedule.row_steps import BETWEEN, HALVES
from tkgen.schedule.rows import RowMap
from tkgen.schedule.sweeps import Sweep, apart
from tkgen.tile.ops import Barrier, ElementLoop, SharedLoad, SharedStore
from tkgen.tile.program import Advance, Loop, Node, ops

STORED = {
    Update.SET: "store_elements", Update.ADD: "add_elements", Update.MAX: "max_elements", Update.MIN: "min_elements",
}  # fmt: skip
UNIFORM = {CDNA: BlockPlaces.uniform, HOPPER: ""}
APART = {CDNA: ["__builtin_amdgcn_sched_barrier(0);  // a chunk's ciphers at a time: each takes many registers"]}


class RowLowering(Lowering):
    """The C++ of a layout. Back ends differ in their headers, and in the C++ of functions.

    `remap` orders the tiles; `persistent` blocks go from tile to tile, where it is not 0.
    """

    def __init__(self, m: RowMap, back_end: str = CDNA, remap: Remap | None = None, persistent: int = 0):
        self.m = m
        names = Names({*LOCALS})
        self.places: Places = Places(m, names, UNIFORM[back_end], remap, persistent)
        super().__init__(m, self.places, back_end)
        self.values = Values(m, names, self.places, back_end)
        self.scans = ScanLowering(m, self.values)
        self.sorts = SortLowering(m, self.values)
        self.loads = _loads(m.kernel.body)
        # Where a loop hands on an odd number of times, only run time knows which half of the LDS is next: `next_half`.
        handing = [int(op.by) for op in ops(m.steps) if isinstance(op, Advance)]
        looped = any(isinstance(op, Advance) for node in m.steps if isinstance(node, Loop) for op in node.body)
        again = looped or len(handing) > 1
        self.counted = bool(loops(m.kernel)) and again and any(count % HALVES for count in handing)

    # ------------------------------------------------------------ the file

    def constants(self) -> Iterator[Constant]:
        """The numbers that its statements name."""
        m = self.m
        yield from super().constants()
        yield Constant("LANES", str(m.lanes), "that share a row")
        if m.groups > 1 or m.across > 1:
            yield Constant("GROUPS", "THREADS / LANES", "of such lanes, each with rows of its own")
        if m.spacing > 1:
            yield Constant("SPACING", str(m.spacing), "threads from a lane of a row to the next one")
        yield Constant("CHUNK", str(m.chunk), "neighbours that a lane moves at once")
        yield Constant("CHUNKS", str(m.chunks), "of a row, for a lane")
        yield Constant("ROWS", str(m.held), "that a lane has at a time")
        if m.across > 1:
            yield Constant("ACROSS", str(m.across), "rows next to each other, for a lane")
        if m.passes > 1:
            yield Constant("PASSES", str(m.passes), "until all rows of the tile are done")

    # ------------------------------------------------------------ the kernel's body

    def body(self) -> Iterator[str]:
        """The statements of the kernel."""
        m = self.m
        if m.exchanges:
            most = m.most_handed
            spaced = "[SPACING]" if m.spacing > 1 else ""
            yield f"__shared__ float exchange[2][{most}][ROWS]{spaced}[THREADS / WARP_THREADS];"
        yield from self.places.with_locals(self._lines())

    def _lines(self) -> Iterator[str]:
        """The statements that follow the definitions of the kernel's locals."""
        m = self.m
        shared, rows = self._loads(self.loads)
        rows += [*self._divisors_declared(BEFORE), *self._rows(self._divisors_set(BEFORE)), *self._steps(m.steps)]
        body = [*self.places.head(), *self._uniform(), *shared]
        if self.counted:
            body = ["int next_half = 0;  // the half of the LDS that is next", *body]
        if m.passes > 1:
            body += ["#pragma unroll 1", "for (int pass = 0; pass < PASSES; ++pass) {"]
            body += [INDENT + line if line else line for line in rows]
            body.append("}")
        else:
            body += rows
        yield from self.places.from_tile_to_tile(body, self._steps(BETWEEN if m.exchanges else ()))

    def _uniform(self, loop: SpecLoop | None = None) -> Iterator[str]:
        """Numbers of the whole block: what is loaded for it, or for an iteration, and what is made of scalars."""
        values = self.values
        loads = self.loads if loop is None else _loads(loop.body)
        for access, op in loads.items():
            if not op.result.axes:
                buffer, where = self.places.buffer(access), self.places.of_block(access)
                raw = f"tk::load_elements<{access.tensor.dtype.cpp}, 1>({buffer}, {where}).at[0]"
                end = self.places.remark(op.result.span)
                yield f"const float {values.name[op.result]} = tk::widen({raw});{end}"
        for row in next(sweep for sweep in self.m.sweeps if loop is None or sweep.loop == loop).rows:
            if isinstance(row, Map | Convert) and row.result in values.of_block - values.inlined:
                made = f"const {values.type(row.result)} {values.name[row.result]} = {values.expression(row)};"
                yield made + self.places.remark(row.result.span)

    def _loads(self, loads: dict[Access, Load]) -> tuple[list[str], list[str]]:
        """Loads to registers: what is the same for all rows, and what each row has of its own."""
        rows = [op for access, op in loads.items() if self.places.of_rows(access)]
        once = {access: op for access, op in loads.items() if op.result.axes and access not in self.m.late}
        shared = [op for access, op in once.items() if not self.places.of_rows(access)]
        return self._loaded(shared), self._loaded(rows)

    def _loaded(self, loads: Sequence[Load]) -> list[str]:
        """Loads to registers, those that are touched in the same way in one nest of loops."""
        lines: list[str] = []
        nests: dict[tuple[Way, str], list[Load]] = {}
        for op in loads:
            access, way = op.source, self.m.way(op.source)
            width, shape, _ = self._registers(access)
            kind = f"{access.tensor.dtype.cpp}, {width}"
            lines.append(f"tk::elements<{kind}> {self.values.raw(access)}{shape};{self.places.remark(op.result.span)}")
            step = "ACROSS" if way is Way.ACROSS and self.places.across(access) > 1 else ""
            nests.setdefault((way, step), []).append(op)
        for (way, step), alike in nests.items():
            calls = map(self._load, alike)
            body = calls if way is Way.ROW else self._chunks(self._elements(calls) if way is Way.ACROSS else calls)
            lines += self._rows(body, step) if self.places.of_rows(loads[0].source) else body
        return lines

    def _load(self, op: Load) -> str:
        """A load to registers of what lies at one place of them."""
        access = op.source
        width, _, place = self._registers(access)
        where = self.places.where(access, self._element(self.m.way(access)))
        call = f"{self._loader(op)}<{access.tensor.dtype.cpp}, {width}>({self.places.buffer(access)}, {where})"
        (line,) = within(op.result.span, [f"{self.values.raw(access)}{place} = {call};"])
        return line

    def _loader(self, op: Load) -> str:
        """The function that loads. If several loops of a block read the same part, the last one need not cache it."""
        loads = [other for other in walk(self.m.kernel.body) if isinstance(other, Load)]
        of = [other for other in loads if other.source.tensor == op.source.tensor]
        looped = all(any(axis.kind is AxisKind.SEQUENTIAL for axis in other.source.axes) for other in of)
        own = all(axis in op.source.axes for axis in self.m.kernel.axes if axis.kind is AxisKind.PARALLEL)
        last = looped and own and len(of) > 1 and op is of[-1]
        return "tk::load_last" if self.back_end == HOPPER and last else "tk::load_elements"

    def _element(self, way: Way) -> str:
        """The index of an element within a chunk of an access."""
        return "e" if way is Way.ACROSS and self.m.chunk > 1 else ""

    def _registers(self, access: Access) -> tuple[str, str, str]:
        """The C++ of one move of an access: its length, the extents of the array of all moves, the index of one."""
        rows, row = ("[ROWS]", "[i]") if self.places.of_rows(access) else ("", "")
        match self.m.way(access):
            case Way.ROW:
                return "1", rows, row
            case Way.ALONG:
                return "CHUNK", f"{rows}[CHUNKS]", f"{row}[c]"
            case Way.CHUNK:
                return "1", f"{rows}[CHUNKS]", f"{row}[c]"
        if self.places.across(access) > 1:
            return "ACROSS", "[ROWS / ACROSS][CHUNKS][CHUNK]", "[i / ACROSS][c][e]"
        return "1", f"{rows}[CHUNKS][CHUNK]", f"{row}[c][e]"

    # ------------------------------------------------------------ loops

    # Statements are made inside of the loops that they stand in, whose locals they name: `body` is gone through there.

    def _rows(self, body: Iterable[str], step: str = "") -> Iterator[str]:
        """The loop over rows, if there is something to do in it."""
        advance = f"i += {step}" if step else "++i"
        if lines := self.places.of_row(body):
            yield from nest([f"for (int i = 0; i < ROWS; {advance})"], lines)

    def _chunks(self, body: Iterable[str]) -> Iterator[str]:
        yield from nest(["for (int c = 0; c < CHUNKS; ++c)"], self.places.of_chunk(body))

    def _elements(self, body: Iterable[str]) -> Iterator[str]:
        yield from nest(["for (int e = 0; e < CHUNK; ++e)"], list(body))

    def _steps(self, steps: Sequence[Node]) -> list[str]:
        lines = list[str]()
        for step in steps:
            match step:
                case Loop():
                    lines += ["", *self._repeat(step)]
                case ElementLoop(number=number):
                    lines += ["", *self._sweep(number)]
                case SharedStore() | Barrier() | SharedLoad():
                    lines += self._exchange(step)
                case Advance(by=by) if self.counted and int(by) % HALVES:
                    lines.append("next_half ^= 1;")
        return lines

    def _repeat(self, step: Loop) -> list[str]:
        """A loop of the spec: what it carries, and the passes over the tiles of its axis."""
        values = self.values
        sweeps = [s.number for s in step.body if isinstance(s, ElementLoop)]
        loop = self.m.sweeps[sweeps[0]].loop
        assert loop is not None
        end = self.places.remark(loop.span or loop.axis.span)
        carries = [c for c in loop.carries if c not in apart(loop)]
        parts = [p for n in sweeps for p in self.m.sweeps[n].parts]
        of_rows = [c for c in carries if c.inside not in values.carried]
        elements = [c for c in carries if c.inside in values.carried]
        before = [f"float {values.name[v]}[ROWS];" for v in (*(c.inside for c in of_rows), *(p.result for p in parts))]
        before += [f"float {values.name[c.inside]}_h[ROWS][CHUNKS][CHUNK];" for c in elements]
        first = (f"{values.name[c.inside]}[i] = {values.text(c.initial)};" for c in of_rows)
        before += self._rows(chain(
            first, (f"{values.name[p.result]}[i] = {IDENTITY[p.function]};" for p in parts), self._begun(elements),
        ))  # fmt: skip
        shared, rows = self._loads(_loads(loop.body))
        buffers = self.places.buffers(_accesses(loop.body))
        handed = chain(self._handed_on(of_rows), self._elements_handed_on(elements))
        inside = [*buffers, *self._uniform(loop), *shared, *rows, *self._steps(step.body), *self._rows(handed)]
        lines = [*before, "#pragma unroll 1", f"{self.places.passes(loop.axis)} {{{end}"]
        lines += [INDENT + line if line else line for line in inside]
        known = [c.result for c in carries if c.result in values.divisors]
        after = (f"{values.name[v]}_d[i] = tk::divisor({values.text(v)});" for v in known)
        declared = [f"tk::divisor {values.name[v]}_d[ROWS];" for v in known]
        return [*lines, "}", *declared, *self._rows(after)]

    def _begun(self, carries: Sequence[Carry]) -> Iterator[str]:
        """The loops that set the carried elements of a row before the first iteration."""
        if carries:
            sets = (f"{self.values.carry(c.inside)} = {self.values.at(c.initial)};" for c in carries)
            yield from self._chunks(self._elements(sets))

    def _elements_handed_on(self, carries: Sequence[Carry]) -> Iterator[str]:
        """The loops that set the carried elements of a row for the next iteration, all of a place at once."""
        values = self.values
        moved = [c for c in carries if c.update != c.inside]
        if moved:
            new = [f"const float {values.name[c.inside]}_n = {values.at(c.update)};" for c in moved]
            sets = (f"{values.carry(c.inside)} = {values.name[c.inside]}_n;" for c in moved)
            yield from self._chunks(self._elements(chain(new, sets)))

    def _handed_on(self, carries: Sequence[Carry]) -> Iterator[str]:
        """Lines that set all carried values for the next iteration at once: an update may read another one."""
        values = self.values
        inside = {c.inside for c in carries}
        moved = [c for c in carries if c.update != c.inside]
        kept = [c for c in moved if c.update in inside]
        yield from (f"const float {values.name[c.inside]}_n = {values.text(c.update)};" for c in kept)
        for c in moved:
            update = f"{values.name[c.inside]}_n" if c in kept else values.text(c.update)
            yield f"{values.name[c.inside]}[i] = {update};{self.places.remark(c.update.span)}"

    # ------------------------------------------------------------ sweeps

    def _sweep(self, number: int) -> list[str]:
        values, sweep = self.values, self.m.sweeps[number]
        declared = [f"{values.type(value)} {values.name[value]}[ROWS];" for value in self._made_of_rows(sweep)]
        declared += self._divisors_declared(number)
        for value, (first, _) in values.held.items():
            if first == number:
                declared.append(f"{values.type(value)} {values.name[value]}_h[ROWS][CHUNKS][CHUNK];")
        crossing = [op for op in sweep.elements if isinstance(op, Store) and self.m.way(op.target) is Way.ACROSS]
        for store in dict.fromkeys(crossing):
            width, shape, _ = self._registers(store.target)
            declared.append(f"tk::elements<{store.target.tensor.dtype.cpp}, {width}> {values.out(store)}{shape};")
        declared += [f"float {values.name[reduce.result]}[ROWS];" for reduce in sweep.reduces]
        names_of_scans = (values.name[scan.result] for scan in sweep.scans)
        declared += [f"float {name}_t[ROWS][CHUNKS], {name}_b[ROWS][CHUNKS];" for name in names_of_scans]
        nest = self._rows(chain(self._of_rows(number, sweep), self._of_elements(number, sweep)))
        after = [line for store in crossing for line in self._store_across(store)]
        names = {values.name[reduce.result]: reduce for reduce in sweep.whole}
        whole = [
            line
            for name, reduce in names.items()
            for line in within(reduce.result.span, [f"{name}[i] = {self._across(reduce, f'{name}[i]')};"])
        ]
        return [*declared, *nest, *after, *(self._rows(whole) if self.m.lanes_of_wave > 1 else [])]

    def _made_of_rows(self, sweep: Sweep) -> Iterator[Value]:
        """Values of rows that a sweep computes to arrays over a lane's rows."""
        made = (writes(op)[0] for op in sweep.rows if not isinstance(op, Store))
        return (value for value in made if self.values.of_row(value) and value not in self.values.inlined)

    def _of_rows(self, number: int, sweep: Sweep) -> Iterator[str]:
        """The operations of what belongs to rows."""
        values = self.values
        for value in self._made_of_rows(sweep):
            yield f"{values.name[value]}[i] = {values.expression(values.made[value])};{self.places.remark(value.span)}"
        yield from self._divisors_set(number)
        yield from (self._store_row(op) for op in sweep.rows if isinstance(op, Store))

    def _divisors_declared(self, number: int) -> list[str]:
        """The reciprocals of divisors that are known from sweep `number` on."""
        return [f"tk::divisor {self.values.name[value]}_d[ROWS];" for value in self.values.divisors_made(number)]

    def _divisors_set(self, number: int) -> Iterator[str]:
        """The statements that compute them, for a row."""
        for value in self.values.divisors_made(number):
            yield from within(value.span, [f"{self.values.name[value]}_d[i] = tk::divisor({self.values.text(value)});"])

    def _of_elements(self, number: int, sweep: Sweep) -> Iterator[str]:
        """The walk over a lane's elements of a row."""
        if sweep.used:
            parts, folds = self._partials(sweep)
            yield from parts
            groups = self.sorts.groups(sweep)
            for group in groups:
                yield from self.sorts.declared(group)
            yield from self._chunks(self._of_chunk(number, sweep))
            yield from folds
            for group in groups:
                yield from within(group[0].result.span, self.sorts.sorted(group))
            for scan in sweep.scans:
                yield from within(scan.result.span, self.scans.of_lanes(scan))

    def _of_chunk(self, number: int, sweep: Sweep) -> Iterator[str]:
        """The statements of a sweep for one chunk."""
        values = self.values
        element = [
            line
            for op in values.loads_used(sweep)
            for line in within(
                op.result.span, [f"const float {values.name[op.result]} = tk::widen({values.loaded(op.source)});"]
            )
        ]
        before, after = [*self._late(sweep), *self._forgotten(number, sweep)], list[str]()
        filled = set[Store]()
        for op in sweep.elements:
            if isinstance(op, Scan):
                before.append(self.scans.begun(op))
                element += within(op.result.span, self.scans.of_element(op))
            elif isinstance(op, Store):
                out, packed = values.out(op), op.target.tensor.dtype.packed
                narrowed = self.values.whole(op.value) if packed else self._narrowed(op)
                if op not in filled:
                    element.append(f"{self._out_element(op)} = {narrowed};{self.places.remark(op.span)}")
                if self.m.way(op.target) is Way.ALONG:
                    cpp = op.target.tensor.dtype.cpp
                    before += [f"tk::elements<{'float' if packed else cpp}, CHUNK> {out};"] * (op not in filled)
                    where = self.places.where(op.target, more=self.places.first_only(op.target))
                    after.append(self._store(op, where, f"tk::pack<{cpp}>({out})" if packed else out))
                filled.add(op)
            elif (value := writes(op)[0]) not in values.inlined:
                name, end = values.name[value], self.places.remark(value.span)
                element.append(f"const {values.type(value)} {name} = {values.expression(op)};{end}")
                if value in values.held:
                    element.append(f"{name}_h[i][c][e] = {name};")
        for scan in sweep.scans:
            before.append(self.scans.empty(scan))
            element += within(scan.result.span, self.scans.added(scan))
            after.append(self.scans.found(scan))
        inside = " && ".join(self.places.inside([self.m.fast])) if sweep.sorts else ""
        for group in self.sorts.groups(sweep):
            element += within(group[0].result.span, [self.sorts.element(group, inside)])
        yield from (*before, *self._elements([*self._read_held(sweep), *element, *self._sums(sweep)]), *after)
        if any(isinstance(op, Map) and op.function == "random" for op in sweep.elements):
            yield from APART.get(self.back_end, [])

    def _late(self, sweep: Sweep) -> list[str]:
        """Loads of the chunk at hand of what all rows share and registers do not hold."""
        lines = list[str]()
        used = {op.source: op for op in self.values.loads_used(sweep) if op.source in self.m.late}
        for access, op in used.items():
            kind, where = f"{access.tensor.dtype.cpp}, CHUNK", self.places.where(access)
            loaded = f"{self._loader(op)}<{kind}>({self.places.buffer(access)}, {where})"
            end = self.places.remark(op.result.span)
            lines.append(f"const tk::elements<{kind}> {self.values.raw(access)} = {loaded};{end}")
        return lines

    def _forgotten(self, number: int, sweep: Sweep) -> list[str]:
        """Lines that keep 16-bit values packed in half a register: each sweep widens them anew, for each row.

        The compiler would widen them once and keep that; where there is a loop of passes, even before it.
        """
        if self.m.chunk == 1:
            return []
        before = [s for s in self.m.sweeps[:number] if s.loop == sweep.loop]
        earlier = {op.source for s in before for op in self.values.loads_used(s)}
        again = self.m.held * self.m.passes > 1
        return [
            f"tk::forget({self.values.registers(access)});"
            for access in dict.fromkeys(op.source for op in self.values.loads_used(sweep))
            if self.m.way(access) is Way.ALONG
            and access not in self.m.late
            and access.tensor.dtype.bytes < 4
            and (access in earlier or (again and not self.places.of_rows(access)))
        ]

    def _read_held(self, sweep: Sweep) -> list[str]:
        """Definitions of held values that an earlier sweep made."""
        values = self.values
        made = {value for op in sweep.elements for value in writes(op)}
        used = dict.fromkeys(v for op in sweep.used for v in reads(op) if v in values.held or v in values.carried)
        return [
            f"const {values.type(v)} {values.name[v]} = {values.name[v]}_h[i][c][e];" for v in used if v not in made
        ]

    def _partials(self, sweep: Sweep) -> tuple[list[str], list[str]]:
        """For each reduction a lane's partial results, one for each place in a chunk: declared, and folded."""
        parts, folds = list[str](), list[str]()
        for reduce in (*sweep.reduces, *sweep.parts):
            name, operation = self.values.name[reduce.result], OPERATION[reduce.function]
            parts.append(f"float {name}_e[CHUNK];")
            parts += self._elements(within(reduce.result.span, [f"{name}_e[e] = {IDENTITY[reduce.function]};"]))
            folded = f"tk::fold<{operation}, CHUNK>({name}_e)"
            if reduce in sweep.parts:
                found = f"{operation}::op<float>({name}[i], {folded})"
            else:
                found = self._across(reduce, folded)
            folds.append(f"{name}[i] = {found};{self.places.remark(reduce.result.span)}")
        return parts, folds

    def _sums(self, sweep: Sweep) -> Iterator[str]:
        """The statements that add an element to the partial results."""
        for reduce in (*sweep.reduces, *sweep.parts):
            name, operation = self.values.name[reduce.result], OPERATION[reduce.function]
            if inside := " && ".join(self.places.inside([self.m.fast])):
                value = f"{inside} ? {self.values.text(reduce.argument)} : {IDENTITY[reduce.function]}"
            else:
                value = self.values.whole(reduce.argument)
            yield from within(reduce.result.span, [f"{name}_e[e] = {operation}::op<float>({name}_e[e], {value});"])

    def _across(self, reduce: Reduce, of_lane: str) -> str:
        """The part of a reduction that the lanes of a wave that share a row have together."""
        m = self.m
        if m.lanes_of_wave == 1:
            return of_lane
        if m.spacing > 1:
            return f"tk::across_spaced<{OPERATION[reduce.function]}, SPACING>({of_lane})"
        lanes = "WARP_THREADS" if m.waves_of_row > 1 else "LANES"
        return f"tk::across<{OPERATION[reduce.function]}, {lanes}>({of_lane})"

    def _exchange(self, step: SharedStore | Barrier | SharedLoad) -> list[str]:
        """A step of handing on the reductions of a sweep over the waves that share a row."""
        if isinstance(step, Barrier):
            return ["tk::lds_barrier();"]
        m, sweep = self.m, self.m.sweeps[step.number]
        ahead = (step.to if isinstance(step, SharedStore) else step.source).ahead
        half = f"({ahead} + pass) % 2" if m.passes > 1 and m.exchanges % HALVES else str(ahead % HALVES)
        if self.counted:
            half = f"next_half ^ {ahead % HALVES}"
        of_row = "" if m.waves_of_row == m.waves else f"warpid() / {m.waves_of_row} * {m.waves_of_row} + "
        group = "[laneid() % SPACING]" if m.spacing > 1 else ""
        lines = list[str]()
        place = 0
        for reduce in sweep.handed:
            if isinstance(reduce, Scan):
                lines += within(reduce.result.span, self.scans.handed(
                    reduce, f"exchange[{half}][{place} + c][i]{group}", of_row, isinstance(step, SharedStore)
                ))  # fmt: skip
                place += m.parts(reduce)
                continue
            result, parts = f"{self.values.name[reduce.result]}[i]", f"exchange[{half}][{place}][i]{group}"
            taken = f"{OPERATION[reduce.function]}, {m.waves_of_row}"
            if m.spacing > 1:  # a wave may have fewer lanes of a row than there are parts
                got = f"tk::fold<{taken}>(&{parts}[{of_row}0])"
            else:
                got = f"tk::across<{taken}>({parts}[{of_row}laneid() % {m.waves_of_row}])"
            line = f"{parts}[warpid()] = {result};" if isinstance(step, SharedStore) else f"{result} = {got};"
            lines += within(reduce.result.span, [line])
            place += 1
        if isinstance(step, SharedLoad):
            return list(self._rows(lines))
        first = "laneid() < SPACING" if m.spacing > 1 else "laneid() == 0"
        return [f"if ({first}) {{", *(INDENT + line for line in self._rows(lines)), "}"]

    # ------------------------------------------------------------ stores

    def _out_element(self, op: Store) -> str:
        out, target = self.values.out(op), op.target
        if self.m.way(target) is Way.ALONG:
            return f"{out}.at[e]"
        _, _, place = self._registers(target)
        return f"{out}{place}.at[{'i % ACROSS' if self.places.across(target) > 1 else '0'}]"

    def _narrowed(self, op: Store) -> str:
        return f"tk::narrow<{op.target.tensor.dtype.cpp}>({self.values.whole(op.value)})"

    def _store(self, op: Store, where: str, what: str) -> str:
        how = "store_packed" if op.target.tensor.dtype.packed else STORED[op.update]
        return f"tk::{how}({self.places.buffer(op.target)}, {where}, {what});{self.places.remark(op.span)}"

    def _store_row(self, op: Store) -> str:
        more = [*([f"{self.places.use('lane')} == 0"] if self.m.lanes > 1 else []), *self.places.first_only(op.target)]
        where = self.places.where(op.target, more=more)
        return self._store(op, where, f"tk::elements<{op.target.tensor.dtype.cpp}, 1>{{{self._narrowed(op)}}}")

    def _store_across(self, op: Store) -> Iterator[str]:
        step = "ACROSS" if self.places.across(op.target) > 1 else ""
        return self._rows(self._chunks(self._elements(map(self._store_element, [op]))), step)

    def _store_element(self, op: Store) -> str:
        where = self.places.where(op.target, self._element(Way.ACROSS), self.places.first_only(op.target))
        _, _, place = self._registers(op.target)
        return self._store(op, where, f"{self.values.out(op)}{place}")


def _loads(body: Sequence[Op]) -> dict[Access, Load]:
    """Loads of a part of the kernel, each access once."""
    found: dict[Access, Load] = {}
    for op in body:
        if isinstance(op, Load):
            found.setdefault(op.source, op)
    return found


def _accesses(body: Sequence[Op]) -> list[Access]:
    """Accesses of a part of the kernel, each once."""
    touched = [op.source if isinstance(op, Load) else op.target for op in body if isinstance(op, Load | Store)]
    held = [index.through for access in touched for index in access.indices if index.through is not None]
    return list(dict.fromkeys([*held, *touched]))
