"""Plan -> C++ model: coordinates, subtile indices, slots, bounds and constants are derived here, and only here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from pathlib import PurePath
from urllib.parse import quote

from tkgen.ir.equations import Access, Axis
from tkgen.ir.limits import Kind, Requirement, counts_steps_in_64_bits, requirements
from tkgen.ir.ops import Action, Op, Placed, Step, WaveProgram
from tkgen.ir.products import View
from tkgen.ir.resolve.clauses import ACTIVATIONS
from tkgen.ir.types import BASE_TILE, Dim, Operand, Product, Role, Side, Tensor, Via
from tkgen.lower.branches import branches
from tkgen.lower.dialects import dialect, direct_loads
from tkgen.lower.epilogue import Place, epilogue
from tkgen.lower.expressions import float_literal, loops_over, wave_condition
from tkgen.lower.model import (
    BatchIndex,
    Check,
    Constant,
    GlobalTensor,
    KernelModel,
    MatrixView,
    Phase,
    RegisterTile,
    ScalarMember,
    Scope,
    SharedTile,
    Size,
    Statement,
)
from tkgen.lower.names import comment_text, cpp_name
from tkgen.lower.waits import least, wait_arguments
from tkgen.remap import NamedInt, RemapCall, compose
from tkgen.schedule import Plan
from tkgen.source import SourceFile, Span

BUFFERED = frozenset(
    {"staging", "masked_store", "atomic_store", "bias"}
)  # helpers that address memory through a buffer


def kernel_model(plan: Plan, target: str, spec: str = "") -> KernelModel:
    """The C++ model of `plan`; `spec` is the path that comments name."""
    return _Lowering(plan, target, spec).model()


class _Lowering:
    def __init__(self, plan: Plan, target: str, spec: str):
        self.plan, self.program, self.target, self.spec = plan, plan.program, target, spec
        self.dialect = dialect(plan.program, target)
        self.helpers: set[str] = set()
        self.files: dict[str, SourceFile] = {}

    # ------------------------------------------------------------ names

    def origin(self, *spans: Span | str | None) -> str:
        """The spec lines of spans, or of clauses by name, as comments name them: the first one matters most.

        None and a clause that is not written add nothing.
        """
        main, lines = self.program.spans["kernel"].file, list[str]()
        for s in spans:
            span = self.program.spans.get(s) if isinstance(s, str) else s
            if span is not None:
                key = _file_key(span.file, main)
                self.files.setdefault(key, span.file)
                lines.append(f"{key}:{span.line}" if key else str(span.line))
        return ",".join(dict.fromkeys(lines))

    def dim(self, name: str) -> str:
        return f"DIM_{name}"

    def shared(self, operand: Operand) -> str:
        return f"{cpp_name(operand.name)}_s"

    def registers(self, operand: Operand) -> str:
        return f"{cpp_name(operand.name)}_r"

    def stage(self, operand: Operand) -> str:
        return f"{cpp_name(operand.name)}_stage"

    def offsets(self, operand: Operand) -> str:
        return f"{cpp_name(operand.name)}_offsets"

    @staticmethod
    def accumulator(product: Product) -> str:
        return f"{cpp_name(product.name)}_acc"

    @property
    def shape(self) -> str:
        """The base tiles of the register tiles, as a last template argument; the default is left out."""
        side = self.program.accumulator.mfma[0]
        return f", ducks::rt_shape::rt_{side}x{side}" if side != BASE_TILE else ""

    @property
    def accumulator_type(self) -> str:
        acc = self.program.accumulator
        return f"rt_{acc.dtype.suffix}<{acc.tile[0]}, {acc.tile[1]}, ducks::rt_layout::col{self.shape}>"

    @property
    def steps(self) -> str:
        return "steps" if self.program.steps is None else "K_STEPS"

    # ------------------------------------------------------------ the file

    def model(self) -> KernelModel:
        p = self.program
        scopes = tuple(self.scope(role) for role in p.roles)
        remap = compose([RemapCall(s.name, dict(s.keywords), s.positional) for s in p.remap])
        rows, cols = self.extent("GRID_ROWS", 0), self.extent("GRID_COLS", 1)
        index = "tile" if p.grid.name in ("persistent", "stream_k") else "block_id"
        placed = remap.cpp(index, rows, cols, indent="")
        shared = tuple(
            SharedTile(
                self.shared(o),
                f"st_{o.tensor.dtype.suffix}<{self.lds(o)[0]}, {self.lds(o)[1]}{self.dialect.shared_shape}>",
                o.buffers,
                self.origin(o.span),
            )
            for o in p.operands
        )
        shared_bytes = sum(o.lds_bytes * o.buffers for o in p.operands)
        grid_rows, grid_cols = (e.name if isinstance(e, NamedInt) else e for e in (rows, cols))
        return KernelModel(
            name=cpp_name(p.name),
            module=p.name,
            header=tuple(comment_text(line) for line in p.header.rstrip("\n").split("\n") if p.header),
            spec=comment_text(PurePath(self.spec).name),
            target=self.target,
            constants=tuple(self.constants()),
            tensors=tuple(self.tensor(t) for t in self.used_tensors()),
            scalars=tuple(ScalarMember(cpp_name(s.name), s.dtype.cpp, self.origin(s.span)) for s in p.scalars),
            grid_rows=grid_rows,
            grid_cols=grid_cols,
            sizes=tuple(self.sizes()),
            grid=self.blocks(self.host(grid_rows), self.host(grid_cols)),
            grid_kind=p.grid.name,
            step_count="int64_t" if counts_steps_in_64_bits(p) else "int",
            zeroed=cpp_name(p.accumulator.tensor.name) if p.adds_to_output else "",
            waves_per_simd=p.occupancy or -(-p.waves // 4),
            shared=shared,
            shared_bytes=shared_bytes,
            shared_origin=self.origin(*(o.span for o in p.operands)),
            grid_origin=self.origin("grid"),
            launch_origin=self.origin("occupancy", *(r.span for r in p.roles)),
            batch=tuple(self.batch()),
            views=tuple(map(self.matrix_view, self.views.values())),
            remap=tuple(placed.statements),
            remap_origin=self.origin("remap"),
            tile_row=placed.row,
            tile_col=placed.col,
            helpers=frozenset(self.helpers | ({"buffer"} if self.helpers & BUFFERED else set())),
            tail=p.tail,
            wide=any(self.may_be_wide(o.tensor) for o in p.operands),
            shape=self.shape,
            scopes=scopes,
            files=self.files,
            checks=tuple(self.checks()),
        )

    def blocks(self, rows: str, cols: str) -> str:
        """The number of blocks to launch."""
        grid = self.program.grid
        if grid.name in ("persistent", "stream_k"):
            return str(grid.count)
        if grid.name == "split_k":
            return f"{rows} * {cols} * K_PARTS"
        extents = [self.extent_of(a.dim).removeprefix("g.") for a in self.program.batch]
        return " * ".join([rows, cols, *(e if e.isupper() else f"int({e})" for e in extents)])

    def extent(self, constant: str, axis: int) -> str | NamedInt:
        size = (self.program.m, self.program.n)[axis].size
        if size is None:
            return constant.lower()
        return NamedInt(constant, -(-size // self.program.block[axis]))

    @staticmethod
    def host(extent: str) -> str:
        """A grid extent as the argument struct sees it: a constant, or a member function."""
        return extent if extent.isupper() else f"{extent}()"

    def sizes(self) -> list[Size]:
        """Extents known only at run time, as expressions over the struct's tensors."""
        p, result = self.program, []
        for name, dim, block in (
            ("grid_rows", p.m, "BLOCK_ROWS"),
            ("grid_cols", p.n, "BLOCK_COLS"),
            ("steps", p.k, "K_STEP"),
        ):
            if dim.size is None:
                size = f"int({self.size_of(dim.name).removeprefix('g.')})"
                count = f"({size} + {block} - 1) / {block}" if p.tail else f"{size} / {block}"
                result.append(Size(name, count, self.origin(dim.span, "block", "tail")))
        return result

    def lds(self, o: Operand) -> tuple[str, str]:
        extent = {Side.A: "BLOCK_ROWS", Side.B: "BLOCK_COLS"}[o.side]
        return ("K_STEP", extent) if o.contraction_first else (extent, "K_STEP")

    def used_tensors(self) -> list[Tensor]:
        return list(self.program.arguments)

    @staticmethod
    def may_be_wide(tensor: Tensor) -> bool:
        """Whether byte offsets into the tensor may not fit 31 bits."""
        elements = 1
        for dim in tensor.dims:
            elements *= dim.size or 1 << 31
        return elements * tensor.dtype.bytes >= 1 << 31

    def tensor(self, tensor: Tensor) -> GlobalTensor:
        b, d, r, c = (["1"] * 4 + ["-1" if d.size is None else self.dim(d.name) for d in tensor.dims])[-4:]
        return GlobalTensor(cpp_name(tensor.name), tensor.dtype.cpp, (b, d, r, c), self.origin(tensor.span))

    # ------------------------------------------------------------ one matrix of many

    @cached_property
    def views(self) -> dict[Access, View]:
        """What the block sees of the tensors, where that is not all of them."""
        equations = self.program.equations
        return {v.access: v for v in equations.views if not v.is_whole} if equations else {}

    def matrix(self, of: Access | Tensor) -> str:
        """The tensor, or the block's matrix of it, as C++."""
        if isinstance(of, Tensor):
            view = next((v for v in self.views.values() if v.tensor.name == of.name), None)
            return f"g.{cpp_name(of.name)}" if view is None else f"{cpp_name(view.name)}_m"
        return f"{cpp_name(self.views[of].name)}_m" if of in self.views else f"g.{cpp_name(of.tensor.name)}"

    def batch(self) -> list[BatchIndex]:
        """The indices that the number of the block's matrix holds, the last one fastest."""
        found: list[BatchIndex] = []
        left = "matrix"
        for number, axis in enumerate(reversed(self.program.batch)):
            extent = self.extent_of(axis.dim)
            outermost = number == len(self.program.batch) - 1
            place = left if outermost else f"{left} % {extent}"
            found.append(BatchIndex(self.index(axis), place, self.origin(axis.span)))
            left = f"{left} / ({extent})" if number == 0 else f"{left[:-1]} * {extent})"
        return found[::-1]

    @staticmethod
    def index(axis: Axis) -> str:
        return f"{cpp_name(axis.name)}_i"

    def extent_of(self, dim: Dim) -> str:
        """A dimension's size in the kernel."""
        return self.size_of(dim.name) if dim.size is None else self.dim(dim.name)

    def matrix_view(self, view: View) -> MatrixView:
        tensor, tiled = view.tensor, view.tiled
        terms = []
        for n, index in enumerate(view.access.indices):
            place = str(index.at) if index.axis is None else self.index(index.axis)
            if n in tiled or place == "0":
                continue
            if index.divisor != 1:
                place += f" / {index.divisor}"
            stride = " * ".join(self.extent_of(d) for d in tensor.dims[n + 1 :])
            terms.append(f"size_t({place}) * {stride}" if stride else f"size_t({place})")
        spacing = [self.extent_of(d) for d in tensor.dims[tiled[0] + 1 :]] if len(tiled) == 2 else []
        rows, cols = tensor.dims[tiled[0]] if len(tiled) == 2 else None, tensor.dims[tiled[-1]] if tiled else None
        known = ["1" if rows is None else "-1" if rows.size is None else self.dim(rows.name)]
        given = ["nullptr" if rows is None or rows.size is not None else self.extent_of(rows)]
        if cols is None:
            known, given = [*known, "1"], [*given, "nullptr"]
        else:
            dynamic = cols.size is None  # then it is the only one: a pitch of several is known
            known.append("-1" if dynamic else " * ".join(spacing or [self.dim(cols.name)]))
            given.append(self.extent_of(cols) if dynamic else "nullptr")
        return MatrixView(
            f"{cpp_name(view.name)}_m", tensor.dtype.cpp, (known[0], known[1]),
            " + ".join([f"g.{cpp_name(tensor.name)}.raw_ptr", *terms]), (given[0], given[1]), self.origin(tensor.span),
        )  # fmt: skip

    def constants(self) -> list[Constant]:
        p = self.program
        used = {d.name: d for t in self.used_tensors() for d in t.dims}
        result = [
            Constant(self.dim(d.name), str(d.size), origin=self.origin(d.span))
            for d in used.values()
            if d.size is not None
        ]
        bm, bn, bk = p.block
        result += [
            Constant("BLOCK_ROWS", str(bm), "output rows of a block", self.origin("block")),
            Constant("BLOCK_COLS", str(bn), "output columns of a block", self.origin("block")),
            Constant("K_STEP", str(bk), "contraction elements per step", self.origin("block")),
        ]

        def ceil(dim: str, block: str) -> str:
            return f"({dim} + {block} - 1) / {block}" if p.tail else f"{dim} / {block}"

        if p.grid.name == "split_k":
            result.append(
                Constant("K_PARTS", str(p.grid.count), "blocks that share an output tile", self.origin("grid"))
            )
        for name, dim, block in (
            ("GRID_ROWS", p.m, "BLOCK_ROWS"),
            ("GRID_COLS", p.n, "BLOCK_COLS"),
            ("K_STEPS", p.k, "K_STEP"),
        ):
            if dim.size is not None:
                part = " / K_PARTS" if name == "K_STEPS" and p.grid.name == "split_k" else ""
                size = ceil(self.dim(dim.name), block)
                origin = self.origin(dim.span, "block", "tail", "grid" if part else None)
                result.append(Constant(name, f"({size}){part}" if part else size, "of a part" if part else "", origin))
        waves = self.origin(*(r.span for r in p.roles))
        result.append(Constant("THREADS", f"{p.waves} * WARP_THREADS", f"{p.waves} waves", waves))
        return result

    def checks(self) -> list[Check]:
        """Requirements on dynamic sizes, checked on the host where they raise a ValueError."""
        p, result = self.program, []
        where = {p.m.name: self.size_of(p.m.name), p.n.name: self.size_of(p.n.name), p.k.name: self.size_of(p.k.name)}
        shape = self.plan.shape
        for r in requirements(p, shape.unroll, shape.tail_iterations):
            origin = self.origin(r.dim.span, *r.clauses)
            result.append(Check(self.unmet(r, where[r.dim.name]), r.message, origin))
        for tensor in self.used_tensors():
            for axis, dim in enumerate(tensor.dims):
                here = self.axis_of(tensor, axis)
                if dim.size is None and dim.name in where and here != where[dim.name]:
                    message = f"{tensor.name} and its partners differ in {dim.name}"
                    result.append(Check(f"{here} != {where[dim.name]}", message, self.origin(dim.span, tensor.span)))
        return result

    def unmet(self, r: Requirement, size: str) -> str:
        """The C++ condition under which sizes do not meet `r`; `size` is its dimension's."""
        match r.kind:
            case Kind.RANGE:
                return f"{size} < 1 || {size} > {r.value}"
            case Kind.MULTIPLE:
                return f"{size} % {r.value} != 0"
            case Kind.STEPS_MULTIPLE:
                return f"g.steps() % {r.value} != 0"
            case Kind.LEAST_STEPS:
                return f"g.steps() < {r.value}"
            case Kind.TILES:
                rows, cols = self.extent("GRID_ROWS", 0), self.extent("GRID_COLS", 1)
                sides = (e.name if isinstance(e, NamedInt) else f"g.{self.host(e)}" for e in (rows, cols))
                return f"size_t({next(sides)}) * {next(sides)} > {r.value}"

    def size_of(self, dim: str) -> str:
        tensor, axis = next((t, i) for t in self.used_tensors() for i, d in enumerate(t.dims) if d.name == dim)
        return self.axis_of(tensor, axis)

    def axis_of(self, tensor: Tensor, axis: int) -> str:
        method = ("batch", "depth", "rows", "cols")[4 - len(tensor.dims) + axis]
        return f"g.{cpp_name(tensor.name)}.{method}()"

    # ------------------------------------------------------------ scopes

    def scope(self, role: Role) -> Scope:
        p, plan = self.program, self.plan
        programs = [w for w in plan.waves if w.role == role.name]
        wave = programs[0]
        if any((w.prologue, w.body, w.epilogue) != (wave.prologue, wave.body, wave.epilogue) for w in programs):
            raise ValueError(f"the waves of role {role.name} share one program, whatever their phase")
        constants: list[Constant] = []
        registers: list[RegisterTile] = []
        single = len(p.roles) == 1
        if role.multiplies:
            assert role.shape is not None
            index = "wave" if role.first == 0 else f"(wave - {role.first})"
            rows, cols = role.shape
            if rows > 1:
                at = f"{index} / {cols}" if cols > 1 else index
                constants.append(Constant("wave_row", at, origin=self.origin(role.span)))
            if cols > 1:
                at = f"{index} % {cols}" if rows > 1 else index
                constants.append(Constant("wave_col", at, origin=self.origin(role.span)))
            registers += [self.register_tile(o) for o in p.operands]
            acc = p.accumulator
            registers += [
                RegisterTile(self.accumulator(x), self.accumulator_type, acc.fragments, self.origin(acc.span))
                for x in p.products
            ]
        for operand in p.operands:
            if operand.name in role.loads and operand.via is Via.REGISTERS:
                threads = role.group * 64
                chunks = -(-operand.lds_bytes // (16 * threads))
                registers.append(RegisterTile(self.stage(operand), "chunk", (chunks,), self.origin(operand.span)))
        direct = p.operands if self.dialect.direct else ()
        prefilled = [o for o in direct if o.name in role.loads and o.via is not Via.REGISTERS]
        for operand in prefilled:
            count = direct_loads(operand, role) + 1
            registers.append(RegisterTile(self.offsets(operand), "uint32_t", (count,), self.origin(operand.span)))
        before, after = self.phases(programs)
        s = plan.shape
        bound = self.steps if not s.tail_iterations else f"{self.steps} - {s.tail_iterations}"
        last = f"wave < {role.last + 1}" if role.first == 0 else f"wave >= {role.first}"
        if role.first and role.last + 1 < p.waves:
            last = f"wave >= {role.first} && wave < {role.last + 1}"
        return Scope(
            role=role.name,
            condition=None if single else last,
            comment=f"{role.name}: waves {role.first}..{role.last}",
            constants=tuple(constants),
            registers=tuple(registers),
            before=before,
            prologue=(*(self.prefill(role, o) for o in prefilled), *self.statements(role, "prologue", wave.prologue)),
            body=self.statements(role, "body", wave.body),
            unroll=s.unroll,
            loop_bound=bound,
            loop_origin=self.origin("block", "unroll"),
            epilogue=self.statements(role, "epilogue", wave.epilogue),
            after=after,
            origin=self.origin(role.span),
        )

    def phases(self, programs: list[WaveProgram]) -> tuple[tuple[Phase, ...], tuple[Phase, ...]]:
        """The meetings that waves of this role pass before their prologue, and those with which the others catch up."""
        last = max(w.phase for w in self.plan.waves)
        origin = self.origin(*(p.span for p in self.program.phases))
        before = tuple(Phase(wave_condition(w.waves), w.phase, origin) for w in programs if w.phase)
        after = tuple(Phase(wave_condition(w.waves), last - w.phase, origin) for w in programs if w.phase < last)
        if before or after:
            self.helpers.add("barrier")
        return before, after

    def register_tile(self, o: Operand) -> RegisterTile:
        kind = self.dialect.register_type(o, self.program.accumulator.mfma[0])
        return RegisterTile(
            self.registers(o), kind, (o.register_buffers, o.fragments), self.origin(o.registers_span or o.span)
        )

    # ------------------------------------------------------------ statements

    def statements(self, role: Role, part: str, placed: tuple[Placed, ...]) -> tuple[Statement, ...]:
        """The statements of a part of a role's program, each with the operations it carries out."""
        result: list[Statement] = []

        def add(made: Iterable[Statement], first: int, count: int) -> None:
            names = tuple(f"{role.name}/{part}/{n}" for n in range(first, first + count))
            result.extend(replace(s, operations=names) for s in made)

        multiplied = role.multiplies and part != "prologue"  # products that may still be on their way
        i = 0
        while i < len(placed):
            left = (part, i) == ("epilogue", 0)  # the loop
            if multiplied and (left or branches(self.program, role, placed[i].op)):
                add([self.settle()], i, 1)
                multiplied = False
            multiplied |= placed[i].op.action is Action.MULTIPLY
            waits = list(takewhile(lambda op: op.action is Action.WAIT, (p.op for p in placed[i:])))
            then = placed[i + len(waits)].op if i + len(waits) < len(placed) else None
            if not waits:
                add(self.statement(role, placed[i]), i, 1)
                i += 1
            elif least(waits) == {"lds": 0} and then is not None and then.action is Action.BARRIER:
                add([self.synchronise("lds_barrier", self.origin(then.span))], i, len(waits) + 1)
                i += len(waits) + 1
            else:
                add([self.wait(least(waits), self.origin(*(op.span for op in waits)))], i, len(waits))
                i += len(waits)
        return tuple(result)

    def synchronise(self, kind: str, origin: str, **arguments: object) -> Statement:
        """A statement that is one call of a helper of its name, which no access to memory crosses."""
        self.helpers.add(kind)
        return Statement(kind, arguments, origin=origin)

    def settle(self) -> Statement:
        self.helpers.add("fence")
        return self.synchronise("settle", "")

    def wait(self, outstanding: Mapping[str, int], origin: str) -> Statement:
        """One wait for several counters."""
        return self.synchronise("wait", origin, **wait_arguments(outstanding))

    def statement(self, role: Role, placed: Placed) -> list[Statement]:
        op, origin = placed.op, self.origin(placed.op.span)
        match op.action:
            case Action.BARRIER:
                return [self.synchronise("barrier", origin)]
            case Action.FENCE:
                return [self.synchronise("fence", origin)]
            case Action.PRIORITY:
                return [Statement("priority", {"level": op.count}, origin=origin)]
            case Action.ZERO:
                loops, (i, j) = loops_over(("i", op.rows), ("j", op.cols))
                return [
                    Statement("zero", {"tile": f"{self.accumulator(x)}[{i}][{j}]"}, loops, origin)
                    for x in self.program.products
                ]
            case Action.STORE:
                return self.equations(op) if self.program.equations else [self.store(op)]
            case Action.MULTIPLY:
                return self.multiply(placed)
            case Action.READ:
                return self.read(placed)
            case _:
                return [self.move(role, placed)]

    def prefill(self, role: Role, operand: Operand) -> Statement:
        shared = self.shared(operand) + ("[0]" if operand.buffers > 1 else "")
        tensor = self.matrix(operand.tensor)
        args = {"group": role.group, "shared": shared, "tensor": tensor, "offsets": self.offsets(operand)}
        return Statement("prefill", args, origin=self.origin(operand.span))

    def move(self, role: Role, placed: Placed) -> Statement:
        op, p = placed.op, self.program
        operand = p.operand(op.operand)
        tile = {Side.A: "tile_row", Side.B: "tile_col"}[operand.side]
        step = self.step(placed.step)
        if p.adds_to_output:
            step = "k_first" if step == "0" else f"k_first + {step}"
        coordinate = (step, tile) if operand.contraction_first else (tile, step)
        args: dict[str, object] = {
            "group": role.group,
            "shared": self.slot(operand, placed, scalar=self.dialect.direct),
            "tensor": self.matrix(operand.tensor),
            "row": coordinate[0],
            "col": coordinate[1],
            "stage": self.stage(operand),
            "offsets": self.offsets(operand),
            "masked": p.tail is not None,
        }
        if op.action in (Action.FETCH, Action.WRITE) or p.tail is not None:
            self.helpers.add("staging")
        kind = op.action.value
        if self.dialect.direct and op.action is Action.LOAD:
            kind = "copy_and_wait"
            self.helpers.add("wait")
            args |= wait_arguments({"vm": 0})
        return Statement(kind, args, origin=self.origin(op.span or operand.span, role.loads_span, "tail"))

    def read(self, placed: Placed) -> list[Statement]:
        op, p = placed.op, self.program
        operand = p.operand(op.operand)
        is_a = operand.side is Side.A
        axis, wave, waves = (0, "wave_row", p.compute.shape[0]) if is_a else (1, "wave_col", p.compute.shape[1])  # type: ignore[index]
        result = []
        for t in op.slices:
            loops, (f,) = loops_over(("i" if is_a else "j", op.rows if is_a else op.cols))
            subtile = self.fragment_index(axis, wave, f, waves)
            rows, cols = operand.register_shape
            index = (str(t), subtile) if operand.contraction_first else (subtile, str(t))
            args: dict[str, object] = {
                "tile": f"{self.registers(operand)}[{self.register_slot(placed.step, t)}][{f}]",
                "rows": rows,
                "cols": cols,
                "shared": self.slot(operand, placed),
                "row": index[0],
                "col": index[1],
            }
            result.append(Statement("read", args, loops, self.origin(op.span, operand.registers_span)))
        return result

    def multiply(self, placed: Placed) -> list[Statement]:
        op, product = placed.op, self.program.product_of(placed.op.product)
        result = []
        for t in op.slices:
            loops, (i, j) = loops_over(("i", op.rows), ("j", op.cols))
            slot = self.register_slot(placed.step, t)
            args: dict[str, object] = {
                "function": f"mma_{product.layouts}",
                "acc": f"{self.accumulator(product)}[{i}][{j}]",
                "a": f"{self.registers(product.left)}[{slot}][{i}]",
                "b": f"{self.registers(product.right)}[{slot}][{j}]",
            }
            result.append(Statement("multiply", args, loops, self.origin(op.span)))
        return result

    def store(self, op: Op) -> Statement:
        p = self.program
        acc = p.accumulator
        loops, (i, j) = loops_over(("i", op.rows), ("j", op.cols))
        coordinate = self.output_tile(i, j)
        steps = []
        for number, step in enumerate(p.epilogue):
            factor = f"g.{cpp_name(step.factor)}" if isinstance(step.factor, str) else float_literal(step.factor)
            along_rows = step.tensor is not None and step.tensor.dims == (p.m,)
            steps.append(
                {
                    "function": step.function,
                    "tensor": f"g.{cpp_name(step.tensor.name)}" if step.tensor else "",
                    "factor": factor,
                    "scalar": isinstance(step.factor, str),
                    "nothing": step.factor == 0,  # as in BLAS, the tensor is not read then
                    "along_rows": along_rows,
                    "variable": f"{step.function}_{number}",
                }
            )
            if step.function in ACTIVATIONS:
                self.helpers |= {step.function, "apply"}
            elif step.function == "bias":
                self.helpers |= {"bias", "add_to_rows" if along_rows else "add_to_columns"}
        if p.adds_to_output:
            self.helpers.add("atomic_store")
        elif p.tail:
            self.helpers.add("masked_store")
            if any(s.function == "add" for s in p.epilogue):
                self.helpers.add("masked_add")
        args: dict[str, object] = {
            "tensor": f"g.{cpp_name(acc.tensor.name)}",
            "tile": f"{self.accumulator(p.products[0])}[{i}][{j}]",
            "type": self.accumulator_type,
            "row": coordinate[0],
            "col": coordinate[1],
            "epilogue": steps,
            "how": "add" if p.adds_to_output else "masked" if p.tail else "whole",
        }
        return Statement("store", args, loops, self.origin("store", "tail", *(s.span for s in p.epilogue)))

    def equations(self, op: Op) -> list[Statement]:
        """What a STORE does where equations say what becomes of the sums."""
        p, acc = self.program, self.program.accumulator
        assert p.equations is not None
        loops, (i, j) = loops_over(("i", op.rows), ("j", op.cols))
        sums = {x.name: f"{self.accumulator(x)}[{i}][{j}]" for x in p.products}
        how = "add" if p.adds_to_output else "masked" if p.tail else "whole"
        place = Place(*self.output_tile(i, j), acc.tile)
        made, helpers = epilogue(
            p.equations,
            sums,
            place,
            self.matrix,
            self.accumulator_type,
            how,
            loops,
            lambda s: self.origin(s.span, "tail"),
        )
        self.helpers |= helpers
        return made

    # ------------------------------------------------------------ indices

    def output_tile(self, i: str, j: str) -> tuple[str, str]:
        """Row and column of the output, in tiles, that fragment (i, j) is."""
        p, shape = self.program, self.program.compute.shape
        assert shape is not None
        coordinate = []
        for axis, (tile, wave, f) in enumerate((("tile_row", "wave_row", i), ("tile_col", "wave_col", j))):
            per_block = p.block[axis] // p.accumulator.tile[axis]
            inner = self.fragment_index(axis, wave, f, shape[axis])
            coordinate.append(f"{tile} * {per_block} + {inner}" if per_block > 1 else tile)
        return coordinate[0], coordinate[1]

    def fragment_index(self, axis: int, wave: str, fragment: str, waves: int) -> str:
        """The tile row or column of the block that a fragment is, as C++."""
        acc = self.program.accumulator
        count = acc.fragments[axis]
        if waves == 1:
            return fragment
        if count == 1:
            return wave
        if acc.interleaved:
            return f"{wave} + {waves} * {fragment}" if fragment != "0" else wave
        return f"{wave} * {count} + {fragment}" if fragment != "0" else f"{wave} * {count}"

    def step(self, step: Step) -> str:
        """A K-step as C++."""
        if step.base == "zero":
            return str(step.offset)
        name = "k" if step.base == "k" else self.steps
        return name if not step.offset else f"{name} {'+' if step.offset > 0 else '-'} {abs(step.offset)}"

    def slot(self, operand: Operand, placed: Placed, scalar: bool = False) -> str:
        """The LDS buffer that holds the tile of a step: `A_s`, or `A_s[...]` where there are several.

        `scalar`: its address must lie in a scalar register, as that of a direct load does. clang 22 takes some indices
        that count round a ring of 3 to vector registers, though they are uniform; a power of two is a mask, which it
        leaves alone.
        """
        variable, n = self.shared(operand), operand.buffers
        shift = placed.op.slot_shift
        if n == 1:
            return variable
        step = placed.step
        if step.base == "zero" or (step.base == "k" and self.plan.shape.unroll % n == 0):
            return f"{variable}[{(step.offset + shift) % n}]"
        if step.base == "end" and self.program.steps is not None:
            return f"{variable}[{(self.program.steps + step.offset + shift) % n}]"
        moved = Step(step.base, step.offset + shift)
        inner = self.step(moved)
        index = f"{inner if inner.isidentifier() else f'({inner})'} % {n}"
        return f"{variable}[{f'__builtin_amdgcn_readfirstlane({index})' if scalar and n & n - 1 else index}]"

    def register_slot(self, step: Step, slice_: int) -> int:
        """The register buffer of a slice: static, because the loop's unrolling is a multiple of the period."""
        p = self.program
        base = p.steps or 0 if step.base == "end" else 0
        return ((base + step.offset) * p.slices + slice_) % p.register_buffers


def _file_key(file: SourceFile, main: SourceFile) -> str:
    """How comments name an included file: its path from the spec's folder, without blanks and commas; the spec: ""."""
    if file.name == main.name:
        return ""
    return quote(os.path.relpath(file.name, os.path.dirname(main.name) or "."), safe="/")
