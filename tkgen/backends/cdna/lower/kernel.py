"""Plan -> C++ model: coordinates, subtile indices, slots, bounds and constants are derived here, and only here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath

from tkgen.backends.cdna.lower.context import Context
from tkgen.backends.cdna.lower.dialects import direct_loads
from tkgen.backends.cdna.lower.elements import word_of
from tkgen.backends.cdna.lower.expressions import wave_condition
from tkgen.backends.cdna.lower.model import (
    Check,
    Constant,
    GlobalTensor,
    Groups,
    KernelModel,
    ScalarMember,
    Scope,
    Size,
    Zeroed,
)
from tkgen.backends.cdna.lower.names import as_given, comment_text, cpp_name, outside
from tkgen.backends.cdna.lower.operations import Operations
from tkgen.backends.cdna.lower.origins import Origins
from tkgen.backends.cdna.lower.placed import Placed, placed_of
from tkgen.backends.cdna.lower.statements import Noted, Statement
from tkgen.checks.shared_memory import lds_bytes
from tkgen.diagnostics.text import count_text
from tkgen.ir.equations import Axis
from tkgen.ir.functions import CDNA, helpers
from tkgen.ir.limits import Kind, Requirement, counts_steps_in_64_bits, dynamic_batch, requirements
from tkgen.ir.products import View
from tkgen.ir.reductions import exchanged
from tkgen.ir.tensors import GLOBAL_DIMENSIONS
from tkgen.ir.types import ACCESS_BYTES, SIMDS, WAVE_LANES, Operand, Role, Side, Tensor, Via
from tkgen.remap import NamedInt, RemapCall, compose
from tkgen.schedule.plan import Plan
from tkgen.tile import program as tile
from tkgen.tile.ops import CatchUp
from tkgen.tile.program import Part


def counted(tensor: Tensor, extent: str) -> str:
    """An extent along the rows of a tensor in what memory is counted in; "1" and "" are none."""
    bits = tensor.dtype.bits
    return (
        f"{extent} * {bits} / 8".replace(" * 4 / 8", " / 2")
        if tensor.dtype.packed and extent not in ("", "1")
        else extent
    )


def kernel_model(plan: Plan, target: str, spec: str = "") -> KernelModel:
    """The C++ model of `plan`; `spec` is the path that comments name."""
    return _Lowering(Context(plan, target, spec)).model()


class _Lowering:
    def __init__(self, context: Context):
        self.c = context

    def model(self) -> KernelModel:
        p = self.c.program
        scopes = tuple(self.scope(role) for role in p.roles)
        remap = compose([RemapCall(s.name, dict(s.keywords), s.positional) for s in p.remap])
        rows, cols = self.c.extent("GRID_ROWS", 0), self.c.extent("GRID_COLS", 1)
        index = "tile" if p.grid.name in ("persistent", "stream_k") else "block_id"
        placed = remap.cpp(index, rows, cols, indent="")
        partial = exchanged(p)
        shared_bytes = lds_bytes(p)
        grid_rows, grid_cols = (e.name if isinstance(e, NamedInt) else e for e in (rows, cols))
        return KernelModel(
            name=cpp_name(p.name),
            module=p.name,
            header=tuple(comment_text(line) for line in p.header.rstrip("\n").split("\n") if p.header),
            spec=comment_text(PurePath(self.c.spec).name),
            target=self.c.target,
            constants=tuple(self.constants()),
            tensors=tuple(self.tensor(t) for t in self.c.program.arguments),
            scalars=tuple(ScalarMember(cpp_name(s.name), s.dtype.cpp, self.c.origin(s.span)) for s in p.scalars),
            grid_rows=grid_rows,
            grid_cols=grid_cols,
            sizes=tuple(self.sizes(placed.reads)),
            grid=self.blocks(self.host(grid_rows), self.host(grid_cols)),
            grid_kind=p.grid.name,
            steps=self.c.steps,
            step_count="int64_t" if counts_steps_in_64_bits(p) else "int",
            zeroed=tuple(self.zeroed(t, p.starts[t.name]) for t in p.outputs if t.name in p.starts),
            waves_per_simd=p.occupancy or -(-p.waves // SIMDS),
            shared=tuple(map(self.shared, p.shared)),
            partial=partial,
            shared_bytes=shared_bytes,
            shared_origin=self.c.origin(*(o.span for o in p.shared)),
            grid_origin=self.c.origin("grid"),
            launch_origin=self.c.origin("occupancy", *(r.span for r in p.roles)),
            matrices=" * ".join(self.c.extent_of(a.dim) for a in p.batch),
            empty=self.empty(),
            batch=() if p.ragged else tuple(self.batch()),
            groups=self.groups("grid_rows" in placed.reads),
            part=self.c.index(p.part) if p.part is not None else "",
            views=tuple(map(self.matrix_view, self.c.views.values())),
            remap=tuple(placed.statements),
            remap_origin=self.c.origin("remap"),
            waves=p.waves,
            functions=helpers(self.c.functions, CDNA),
            scopes=scopes,
            checks=tuple(self.checks()),
        )

    def shared(self, o: Operand) -> Statement:
        """An operand's tiles in LDS."""
        kind = f"st_{o.tensor.dtype.suffix}<{', '.join(self.lds(o))}{self.c.dialect.shared_shape}>"
        extents = [str(n) for n in (o.buffers, o.part_count) if n > 1]
        name = _array(f"(&{self.c.shared(o)})", extents) if extents else f"&{self.c.shared(o)}"
        made = f"{kind} {name} = al.allocate<{', '.join([kind, *extents])}>();"
        return Statement([made], origin=self.c.origin(o.span))

    def blocks(self, rows: str, cols: str) -> str:
        """The number of blocks to launch."""
        grid = self.c.program.grid
        if grid.name in ("persistent", "stream_k"):
            return str(grid.count)
        parts = ["K_PARTS"] if grid.name == "split_k" else []
        if self.c.program.ragged:
            return " * ".join([self.most_rows(""), cols, *parts])
        extents = [self.c.extent_of(a.dim).removeprefix("g.") for a in self.c.program.batch]
        counts = [rows, cols, *(e if e.isupper() else f"int({e})" for e in extents)]
        return " * ".join([*counts, *parts])

    def groups(self, counted: bool) -> Groups | None:
        """The walk over the groups of ragged rows, or of a ragged contraction; `counted` as of `Groups`."""
        axis, offsets = self.c.program.ragged or self.c.program.ragged_sum, self.c.program.offsets
        if axis is None or offsets is None:
            return None
        (index,) = self.c.program.batch
        return Groups(
            f"g.{cpp_name(offsets.name)}.raw_ptr", str(index.dim.size), self.c.extent_of(axis.dim),
            self.c.index(index), self.c.first_of(axis), self.c.length_of(axis), self.steps_of(axis),
            counted, self.c.origin(axis.span),
        )  # fmt: skip

    def steps_of(self, axis: Axis) -> str:
        """The number of K-steps of a group, at least those that the schedule needs; steps past its end add nothing."""
        if axis != self.c.program.ragged_sum:
            return ""
        count, shape = f"({self.c.length_of(axis)} + K_STEP - 1) / K_STEP", self.c.plan.shape
        least, unroll = shape.tail_iterations, shape.unroll
        if unroll == 1:
            return f"max({count}, {least})" if least else count
        beyond = f"max({count} - {least}, 0)" if least else count
        return f"{f'{least} + ' if least else ''}({beyond} + {unroll - 1}) / {unroll} * {unroll}"

    def empty(self) -> str:
        """Condition under which a launch has no work; empty if there always is some."""
        return " || ".join(f"{self.c.extent_of(d)} == 0" for d in dynamic_batch(self.c.program))

    @staticmethod
    def host(extent: str) -> str:
        """A grid extent as the argument struct sees it: a constant, or a member function."""
        return extent if extent.isupper() else f"{extent}()"

    def sizes(self, read: Collection[str]) -> list[Size]:
        """Extents known only at run time, as expressions over the struct's tensors; `read`: names of the remap."""
        p, result = self.c.program, []
        counts = ("grid_rows", "grid_cols") if p.batch or p.grid.name != "linear" else ()  # the body counts all tiles
        local = {"steps", *read, *counts}
        for name, dim, block in (
            ("grid_rows", p.m, "BLOCK_ROWS"),
            ("grid_cols", p.n, "BLOCK_COLS"),
            ("steps", p.k, "K_STEP"),
        ):
            ragged = {"grid_rows": p.ragged, "steps": p.ragged_sum}.get(name)
            if dim.size is None and not ragged:
                size = f"int({self.c.size_of(dim.name).removeprefix('g.')})"
                count, divided = self.count(size, block)
                origin = self.c.origin(dim.span, "block", "tail", "grid" if divided else None)
                result.append(Size(name, count, name in local, origin))
        return result

    def lds(self, o: Operand) -> tuple[str, str]:
        """Rows and columns of a tile in LDS, as C++."""
        whole = {Side.A: "BLOCK_ROWS", Side.B: "BLOCK_COLS"}[o.side], "K_STEP"
        extent, step = (name if n == 1 else f"{name} / {n}" for name, n in zip(whole, o.parts, strict=True))
        return (step, extent) if o.contraction_first else (extent, counted(o.tensor, step))

    def tensor(self, tensor: Tensor) -> GlobalTensor:
        extents = ["-1" if d.size is None else self.c.dim(d.name) for d in tensor.given]
        together = extents[: len(extents) - GLOBAL_DIMENSIONS + 1]  # of more dimensions than four the first are one
        b, d, r, c = (
            (["1"] * 4 + [" * ".join(together), *extents[len(together) :]])[-4:]
            if together
            else (["1"] * 4 + extents)[-4:]
        )
        c = counted(tensor, c)
        return GlobalTensor(
            cpp_name(tensor.name), tensor.dtype.cpp, (b, d, r, c), self.c.origin(tensor.span), self.policy(tensor)
        )

    def policy(self, tensor: Tensor) -> str:
        """The cache policy of a tensor, as a template argument."""
        return ", cache::stream" if tensor.name in self.c.program.streamed else ""

    def zeroed(self, tensor: Tensor, start: float) -> Zeroed:
        """An output in which blocks combine values, and the number that its elements start as."""
        extents = [self.c.axis_of(tensor, axis) for axis in range(len(tensor.dims))]
        elements = " * ".join([f"size_t({extents[0]})", *extents[1:]])
        return Zeroed(cpp_name(tensor.name), elements, word_of(start, tensor.dtype))

    def batch(self) -> list[Statement]:
        """The indices that the number of the block's matrix holds, the last one fastest."""
        found: list[Statement] = []
        left = "matrix"
        for number, axis in enumerate(reversed(self.c.program.batch)):
            extent = self.c.extent_of(axis.dim)
            outermost = number == len(self.c.program.batch) - 1
            place = left if outermost else f"{left} % {extent}"
            found.append(_constant(self.c.index(axis), place, self.c.origin(axis.span)))
            left = f"{left} / ({extent})" if number == 0 else f"{left[:-1]} * {extent})"
        return found[::-1]

    def matrix_view(self, view: View) -> Statement:
        """A local of the kernel: one matrix of a tensor; extents of its type are -1 if known only at run time."""
        if view.placed:
            return Placed(self.c, view).matrix()
        tensor, tiled = view.tensor, view.tiled
        terms = []
        straight = [i.axis for i in view.access.indices if i.axis is not None and i.through is None]
        ragged = next((axis for axis in straight if axis.within), None)
        for n, index in enumerate(view.access.indices):
            place = str(index.at) if index.axis is None else self.c.index(index.axis)
            if index.axis is not None and index.axis == ragged and index.through is None:
                place = self.c.first_of(ragged)
            elif n in tiled or place == "0":
                continue
            if index.divisor != 1:
                place += f" / {index.divisor}"
            stride = counted(tensor, " * ".join(self.c.extent_of(d) for d in tensor.dims[n + 1 :]))
            terms.append(f"size_t({place}) * {stride}" if stride else f"size_t({place})")
        rows, cols = tensor.dims[tiled[0]] if len(tiled) == 2 else None, tensor.dims[tiled[-1]] if tiled else None
        known = ["1" if rows is None else "-1" if rows.size is None else self.c.dim(rows.name)]
        given = [known[0] if rows is None or rows.size is not None else self.c.extent_of(rows)]
        if cols is None:
            known, given = [*known, "1"], [*given, "1"]
        else:
            spacing = view.pitch or (cols,)
            dynamic = any(d.size is None for d in spacing)
            distance = counted(tensor, " * ".join(self.c.extent_of(d) for d in spacing))
            known.append("-1" if dynamic else distance)
            given.append(distance)
        if ragged is not None:  # rows of a matrix, or the elements of a row
            at = 0 if rows is not None else 1
            known[at], given[at] = "-1", self.c.length_of(ragged)
        pointer = " + ".join([f"g.{cpp_name(tensor.name)}.raw_ptr", *terms])
        kind = f"gl<{tensor.dtype.cpp}, 1, 1, {', '.join(known)}{self.policy(tensor)}>"
        made = f"const auto {cpp_name(view.name)}_m = tk::matrix_at<{kind}>({pointer}, {', '.join(given)});"
        return Statement([made], origin=self.c.origin(tensor.span))

    def constants(self) -> list[Constant]:
        p = self.c.program
        used = {d.name: d for t in self.c.program.arguments for d in (*t.given, *t.dims)}
        used |= {axis.dim.name: axis.dim for axis in p.kernel.axes if axis.dim.size and axis.dim not in p.dims}
        result = [
            Constant(self.c.dim(d.name), str(d.size), origin=self.c.origin(d.span))
            for d in used.values()
            if d.size is not None
        ]
        bm, bn, bk = p.block
        result += [
            Constant("BLOCK_ROWS", str(bm), "output rows of a block", self.c.origin("block")),
            Constant("BLOCK_COLS", str(bn), "output columns of a block", self.c.origin("block")),
            Constant("K_STEP", str(bk), "contraction elements per step", self.c.origin("block")),
        ]

        if p.grid.name == "split_k":
            result.append(
                Constant("K_PARTS", str(p.grid.count), "blocks that share an output tile", self.c.origin("grid"))
            )
        for name, dim, block in (
            ("GRID_ROWS", p.m, "BLOCK_ROWS"),
            ("GRID_COLS", p.n, "BLOCK_COLS"),
            ("K_STEPS", p.k, "K_STEP"),
        ):
            if dim.size is not None and not {"GRID_ROWS": p.ragged, "K_STEPS": p.ragged_sum}.get(name):
                size, divided = self.count(self.c.dim(dim.name), block)
                origin = self.c.origin(dim.span, "block", "tail", "grid" if divided else None)
                result.append(Constant(name, size, "of a part" if divided else "", origin))
        waves = self.c.origin(*(r.span for r in p.roles))
        result.append(Constant("THREADS", f"{p.waves} * WARP_THREADS", f"{p.waves} waves", waves))
        return result

    def count(self, size: str, unit: str) -> tuple[str, bool]:
        """The number of tiles or K-steps in `size` elements, and True if that is a part's number of K-steps."""
        p = self.c.program
        whole = f"({size} + {unit} - 1) / {unit}" if p.tail else f"{size} / {unit}"
        if unit != "K_STEP" or (p.part is None and p.grid.name != "split_k"):
            return whole, False
        if (
            p.part is None
            and p.tile_steps is not None
            and p.steps is not None
            and p.tile_steps == p.steps * p.grid.count
        ):
            return f"({whole}) / K_PARTS", True
        parts = "K_PARTS" if p.part is None else self.c.extent_of(p.part.dim).removeprefix("g.")
        return f"({whole} + {parts} - 1) / {parts}", True

    def most_rows(self, of: str = "g.") -> str:
        """Rows of tiles that groups can need together, whatever the offsets are; `of` leads to run-time sizes."""
        p = self.c.program
        (index,) = p.batch
        size = self.c.extent_of(p.m) if p.m.size is not None else f"int({of}{self.c.size_of(p.m.name)[2:]})"
        return f"({size} + {index.dim.size} * (BLOCK_ROWS - 1)) / BLOCK_ROWS"

    def checks(self) -> list[Check]:
        """Requirements on dynamic sizes, checked on the host where they raise a ValueError."""
        p, result = self.c.program, []
        where = {d.name: self.c.size_of(d.name) for t in p.arguments for d in t.dims if d.size is None}
        shape = self.c.plan.shape
        for r in requirements(p, shape.unroll, shape.tail_iterations):
            origin = self.c.origin(r.dim.span, *r.clauses)
            result.append(Check(self.unmet(r, where[r.dim.name]), r.message, origin))
        for tensor in self.c.program.arguments:
            for axis, dim in enumerate(tensor.dims):
                here = self.c.axis_of(tensor, axis)
                if dim.size is None and here != where[dim.name]:
                    message = f"{tensor.name} and its partners differ in {dim.name}"
                    differ = f"{as_given(here)} != {as_given(where[dim.name])}"
                    result.append(Check(differ, message, self.c.origin(dim.span, tensor.span)))
        return result

    def unmet(self, r: Requirement, size: str) -> str:
        """The C++ condition under which sizes do not meet `r`; `size` is its dimension's."""
        match r.kind:
            case Kind.RANGE:
                return outside(size, r.least, r.value)
            case Kind.MULTIPLE:
                return f"{size} % {r.value} != 0"
            case Kind.STEPS_MULTIPLE:
                return f"g.steps() % {r.value} != 0"
            case Kind.LEAST_STEPS:
                return f"g.steps() < {r.value}"
            case Kind.TILES:
                rows, cols = self.c.extent("GRID_ROWS", 0), self.c.extent("GRID_COLS", 1)
                sides = [e.name if isinstance(e, NamedInt) else f"g.{self.host(e)}" for e in (rows, cols)]
                sides[0] = self.most_rows() if self.c.program.ragged else sides[0]
                return _beyond([*sides, *map(self.c.extent_of, dynamic_batch(self.c.program))], r.value)
            case Kind.SHARED:
                rounded = size if r.value == 1 else f"({size} + {r.value} - 1) / {r.value}"
                return f"{self.c.extent_of(r.others[0])} != {rounded}"
            case Kind.PITCH:
                return _beyond([size, *map(self.c.extent_of, r.others)], r.value)

    def wave_places(self, role: Role) -> Iterator[Statement]:
        """Statements for a wave's row and column among the waves of its role."""
        if not role.multiplies:
            return
        assert role.shape is not None
        index = "wave" if role.first == 0 else f"(wave - {role.first})"
        rows, cols = role.shape
        if rows > 1:
            at = f"{index} / {cols}" if cols > 1 else index
            yield _constant("wave_row", at, self.c.origin(role.span))
        if cols > 1:
            at = f"{index} % {cols}" if rows > 1 else index
            yield _constant("wave_col", at, self.c.origin(role.span))

    def registers(self, role: Role) -> Iterator[Statement]:
        """Tiles in registers: factors and sums, and what is on its way to LDS."""
        p = self.c.program
        if role.multiplies:
            yield from map(self.register_tile, p.operands)
            acc = p.accumulator
            tiles = {name: kind for x in p.products for name, kind in (
                (self.c.sums(x), self.c.sums_type), (self.c.accumulator(x), self.c.accumulator_type))}  # fmt: skip
            for name, kind in tiles.items():
                yield _registers(kind, name, acc.fragments, self.c.origin(acc.span))
        for operand in p.operands:
            if operand.name in role.loads and operand.via is Via.REGISTERS:
                threads = role.group * WAVE_LANES
                chunks = -(-operand.part_bytes // (ACCESS_BYTES * threads))
                form = (operand.part_count, chunks) if operand.part_count > 1 else (chunks,)
                yield _registers("tk::words_4", self.c.stage(operand), form, self.c.origin(operand.span))
        for operand in p.operands:
            placed = placed_of(self.c, operand)
            if operand.name in role.loads and (placed or operand.name in p.gathered):
                chunks, kind = -(-operand.lds_bytes // (ACCESS_BYTES * role.group * WAVE_LANES)), "int"
                kind = placed.kind if placed else kind
                yield _registers(kind, self.c.gathered_rows(operand), (chunks,), self.c.origin(operand.span))

    def prefilled(self, operand: Operand, role: Role) -> Statement:
        """The offsets of an operand's direct loads, which the loop finds made."""
        count = direct_loads(operand, role) + 1
        return _registers("uint32_t", self.c.offsets(operand), (count,), self.c.origin(operand.span))

    def scope(self, role: Role) -> Scope:
        p, plan = self.c.program, self.c.plan
        programs = plan.waves_of(role.name)
        wave = programs[0]
        if any(w.parts != wave.parts for w in programs):
            raise ValueError(f"the waves of role {role.name} share one program, whatever their phase")
        gathered = [o for o in p.operands if o.name in role.loads and o.name in p.gathered]
        placed = [(o, found) for o in p.operands if o.name in role.loads and (found := placed_of(self.c, o))]
        direct = p.operands if self.c.dialect.direct else ()
        prefilled = [o for o in direct if o.name in role.loads and o.via is not Via.REGISTERS]
        before, after = self.phases(programs)
        if any(isinstance(p, CatchUp) for p in wave.behind):
            after = ()
        s, made = plan.shape, Operations(self.c)
        prologue, body, epilogue = (made.statements(role, part, wave.ops(part)) for part in Part)
        bound = self.c.steps if not s.tail_iterations else f"{self.c.steps} - {s.tail_iterations}"
        last = f"wave < {role.last + 1}" if role.first == 0 else f"wave >= {role.first}"
        if role.first and role.last + 1 < p.waves:
            last = f"wave >= {role.first} && wave < {role.last + 1}"
        return Scope(
            role=role.name,
            condition=None if len(p.roles) == 1 else last,
            comment=f"{role.name}: waves {role.first}..{role.last}",
            declared=(
                *self.wave_places(role),
                *self.registers(role),
                *(self.prefilled(o, role) for o in prefilled),
            ),
            before=before,
            prologue=(
                *(made.prefill(role, o) for o in prefilled),
                *(made.gather(role, o) for o in gathered),
                *(statement for o, found in placed for statement in made.places(role, o, found)),
                *prologue,
            ),
            body=body,
            unroll=s.unroll,
            loop_bound=bound,
            loop_origin=self.c.origin("block", "each", "unroll"),
            epilogue=epilogue,
            after=after,
            origin=self.c.origin(role.span),
        )

    def phases(self, programs: Sequence[tile.Role]) -> tuple[tuple[Statement, ...], ...]:
        """The barriers that waves of this role pass before their prologue, and those with which the others catch up."""
        last = max(w.phase for w in self.c.plan.waves)

        def passed(waves: tuple[int, ...], count: int, why: str) -> list[Statement]:
            origin = self.c.origin(*(p.span for p in self.c.program.phases))
            head = Statement([Noted(f"if ({wave_condition(waves)}) {{", why)], origin=origin)
            return [head, *[Statement(["    tk::barrier();"], origin=origin)] * count, Statement(["}"])]

        late = [(w.waves, w.phase, f"these waves run {count_text(w.phase, 'meeting')} behind") for w in programs]
        early = [(w.waves, last - w.phase, "the others catch up") for w in programs]
        return tuple(tuple(s for each in some if each[1] for s in passed(*each)) for some in (late, early))

    def register_tile(self, o: Operand) -> Statement:
        kind = self.c.dialect.register_type(o, self.c.program.accumulator.mfma[0])
        form = (o.register_buffers, o.fragments)
        return _registers(kind, self.c.registers(o), form, self.c.origin(o.registers_span or o.span))


def _constant(name: str, value: str, origin: Origins) -> Statement:
    """A local of a wave."""
    return Statement([f"const int {name} = {value};"], origin=origin)


def _registers(kind: str, name: str, extents: Sequence[int], origin: Origins) -> Statement:
    """Tiles in registers; `extents` are without those of size 1 that nothing indexes."""
    return Statement([f"{kind} {_array(name, extents)};"], origin=origin)


def _array(name: str, extents: Sequence[object]) -> str:
    return name + "".join(f"[{n}]" for n in extents)


def _beyond(factors: Sequence[str], most: int) -> str:
    """The C++ condition under which `int` factors together are more than `most`, which is one, too.

    They are multiplied one more at a time: what is not too large yet, times another, fits 64 bits.
    """
    products = [f"size_t({factors[0]})"]
    for factor in factors[1:]:
        products.append(f"{products[-1]} * {factor}")
    return " || ".join(f"{product} > {most}" for product in products[1:])
