"""AST -> typed program: names resolved, expressions evaluated, operands and fragments derived.

Every problem of a spec is collected, then raised as one SpecError; what depends on a broken declaration is not
reported a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import gcd
from typing import TypeVar

from tkgen.diagnostics import Diagnostic, Edit, Fix, Label, SpecError
from tkgen.diagnostics.suggest import nearest, suggestion
from tkgen.ir.limits import LARGEST_INT
from tkgen.ir.tuned import tune_clauses
from tkgen.ir.types import (
    ALL_WAVES,
    BASE_TILE,
    DTYPE_NAMES,
    Accumulator,
    Dim,
    DType,
    EpilogueStep,
    GridKind,
    Operand,
    PhaseShift,
    Program,
    RemapStage,
    Role,
    ScalarArg,
    Side,
    Tensor,
    Unused,
    Via,
)
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.syntax.ast import flatten

S = TypeVar("S")

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")  # functions of one element
EPILOGUES = ("scale", "add", "bias", *ACTIVATIONS)
GRIDS = ("linear", "persistent", "split_k", "stream_k")
TAILS = ("masked", "clamped")
ALLOWANCES = ("spills", "slow_reads", "low_occupancy")
MOST_LDS = 160 * 1024  # bytes of LDS that any target gives a block (gfx950)
MOST_REGISTERS = 512  # VGPRs and AGPRs of one wave, on every CDNA target
LARGEST_F32 = (2 - 2**-23) * 2.0**127
MOST_UNROLL = 64  # K-steps of one pass; their code is written out
MOST_BUFFERS = 16  # of an operand in LDS
MOST_SHIFT = 64  # clusters that waves may run apart
MAX_WAVES = 16  # 1024 threads of a work-group (AMDGPU backend limit, LLVM AMDGPUUsage)


def resolve(kernel: ast.Kernel, defines: Mapping[str, int | None] | None = None) -> Program:
    """The typed program of `kernel`, with `-D` values from `defines` (None stands for `dynamic`).

    Raises:
        SpecError: with every independent problem found.
    """
    return _Resolver(kernel, dict(defines or {})).run()


class _Stop(Exception):
    """A declaration is broken and already reported; what needs it is skipped."""


@dataclass
class _Resolver:
    kernel: ast.Kernel
    defines: dict[str, int | None]
    errors: list[Diagnostic] = field(default_factory=list)
    values: dict[str, int | None] = field(default_factory=dict)
    declared: dict[str, Span] = field(default_factory=dict)
    dims: dict[str, Dim] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    scalars: dict[str, ScalarArg] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)  # dimensions and parameters whose value is already reported

    # ------------------------------------------------------------ reporting

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        *,
        secondary: tuple[Label, ...] = (),
        notes: tuple[str, ...] = (),
        fix: str | Fix | None = None,
        known: Iterable[str] = (),
    ) -> _Stop:
        """Keep an error. `known`: names that may stand in the place of `span`, of which the nearest is offered."""
        remedy = Fix(fix) if isinstance(fix, str) else fix
        close = nearest(span.text, known)
        if close is not None:
            message, notes = f"{message}; did you mean `{close}`?", (*notes, *([remedy.text] if remedy else []))
            remedy = Fix(f"write `{close}`", (Edit(span, close),), certain=False)
        self.errors.append(Diagnostic(code, message, Label(span, label), secondary, notes, remedy))
        return _Stop()

    def all(self, kind: type[S], body: Iterable[ast.Statement]) -> list[S]:
        return [s for s in flatten(body) if isinstance(s, kind)]

    def one(self, kind: type[S], body: Iterable[ast.Statement], keyword: str, example: str) -> S:
        found = self.all(kind, body)
        if not found:
            name = self.kernel.name
            raise self.error(
                "E201",
                f"kernel `{name.id}` has no `{keyword}` statement",
                name.span,
                "declared here",
                fix=f"add a line such as `{example}`",
            )
        return found[0]

    # ------------------------------------------------------------ names and sizes

    def declare(self, name: ast.Name) -> None:
        if name.id in self.declared:
            raise self.error(
                "E202",
                f"`{name.id}` is declared twice",
                name.span,
                "declared again here",
                secondary=(Label(self.declared[name.id], "first declared here"),),
                fix="rename or remove one of them",
            )
        self.declared[name.id] = name.span

    def number(self, expr: ast.Expr) -> int:
        """The value of a size expression, which must be known now."""
        match expr:
            case ast.Number(value=value):
                if not isinstance(value, int):
                    raise self.error(
                        "E203", f"a size is a whole number, not {value}", expr.span, fix=f"write {round(value)}"
                    )
                return value
            case ast.Name(id=name):
                if name in self.broken:
                    raise _Stop()
                if name not in self.values:
                    raise self.error(
                        "E200",
                        f"`{name}` is not a dimension or parameter",
                        expr.span,
                        "not declared",
                        fix=f"declare it: `param {name} = ...`",
                        known=self.values,
                    )
                size = self.values[name]
                if size is None:
                    raise self.error(
                        "E203",
                        f"`{name}` is dynamic, so it cannot size anything at build time",
                        expr.span,
                        secondary=(Label(self.declared[name], "dynamic"),),
                        fix=f"give `{name}` a size, or use a `param`",
                    )
                return size
            case ast.Binary(op=op, left=left, right=right):
                result = self.arithmetic(expr, op, self.number(left), self.number(right))
                if abs(result) >= 1 << 63:
                    raise self.error("E203", "the value of a size expression must fit 64 bits", expr.span,
                                     fix="use smaller factors")  # fmt: skip
                return result
            case ast.Call(name=name, args=args):
                values = [self.number(a) for a in args]
                functions: dict[str, Callable[[int, int], int]] = {
                    "min": min, "max": max, "ceil_div": lambda a, b: -(-a // b),
                }  # fmt: skip
                if name.id not in functions or len(values) != 2 or (name.id == "ceil_div" and values[1] == 0):
                    raise self.error(
                        "E200",
                        f"`{name.id}` with {len(values)} arguments is no size function",
                        expr.span if name.id in functions else name.span,
                        fix="use min(a, b), max(a, b) or ceil_div(a, b)",
                        known=() if name.id in functions else functions,
                    )
                return functions[name.id](values[0], values[1])
        raise AssertionError(expr)

    def arithmetic(self, expr: ast.Expr, op: str, left: int, right: int) -> int:
        match op:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
        if right == 0:
            raise self.error(
                "E203", "division by zero", expr.span, "the divisor is 0", fix="give the divisor another value"
            )
        if op == "%":
            return left % right
        if left % right:
            raise self.error(
                "E203",
                f"{left} / {right} is not a whole number",
                expr.span,
                f"{left} % {right} = {left % right}",
                fix=f"use `ceil_div({left}, {right})` where rounding up is meant",
            )
        return left // right

    @staticmethod
    def _slices(step: int, base: int) -> str:
        """Which slices a K-step admits, for a fix."""
        fit = [n for n in range(base, step + 1, base) if step % n == 0]
        if fit:
            return f"use a slice of {' or '.join(map(str, fit))}"
        return f"make the K-step a multiple of {base}"

    def positive(self, expr: ast.Expr, what: str, most: int = LARGEST_INT) -> int:
        value = self.number(expr)
        if value <= 0:
            raise self.error("E203", f"{what} must be positive, not {value}", expr.span, fix="write 1 or more")
        if value >= 1 << 31:
            raise self.error(
                "E203", f"{what} must fit 31 bits, {value} does not", expr.span, fix=f"write less than {1 << 31}"
            )
        if value > most:
            raise self.error("E203", f"{what} is at most {most}, not {value}", expr.span, fix=f"write {most} or less")
        return value

    def real(self, at: ast.Expr, value: float) -> float:
        """The value of a number that the kernel takes as an f32."""
        if abs(value) > LARGEST_F32:
            raise self.error("E203", f"{value:g} is more than an f32 can hold", at.span,
                             fix=f"write at most {LARGEST_F32:.7g}")  # fmt: skip
        return float(value)

    def dtype(self, name: ast.Name) -> DType:
        if name.id not in DTYPE_NAMES:
            known = ", ".join(d.spelling for d in DType)
            raise self.error(
                "E204",
                f"unknown data type `{name.id}`",
                name.span,
                fix=f"the types are {known}",
                known=DTYPE_NAMES,
            )
        return DTYPE_NAMES[name.id]

    # ------------------------------------------------------------ the whole

    def run(self) -> Program:
        body = self.kernel.body
        try:
            self.declarations(body)
            program = self.program(body)
        except _Stop:
            program = None
        if self.errors:
            raise SpecError(self.errors)
        assert program is not None
        return program

    def declarations(self, body: tuple[ast.Statement, ...]) -> None:
        for statement in flatten(body):
            match statement:
                case ast.Dims(bindings=bindings) | ast.Param(bindings=bindings):
                    for binding in bindings:
                        self.guarded(partial(self.binding, statement, binding))
        self.errors += tune_clauses(self.kernel)[1]
        unknown = [n for n in self.defines if n not in self.declared]
        for name in unknown:
            self.error(
                "E210",
                f"-D {name} sets nothing in kernel `{self.kernel.name.id}`{suggestion(name, self.declared)}",
                self.kernel.name.span,
                "no dimension or parameter of that name",
                notes=(f"it has {', '.join(sorted(self.values)) or 'none'}",),
                fix="leave it out, or name one of these",
            )
        for statement in flatten(body):
            match statement:
                case ast.Global():
                    self.guarded(partial(self.tensor, statement))
                case ast.Scalar():
                    self.guarded(partial(self.scalar, statement))
        if self.errors:
            raise _Stop()

    def guarded(self, action: Callable[[], None]) -> None:
        with suppress(_Stop):
            action()

    def binding(self, statement: ast.Dims | ast.Param, binding: ast.Binding) -> None:
        name = binding.name.id
        self.declare(binding.name)
        self.broken.add(name)
        value: int | None
        if name in self.defines:
            value = self.defines[name]
            if value is not None and not 0 < value < 1 << 31:
                raise self.error(
                    "E210",
                    f"-D {name}={value} is no size",
                    binding.span,
                    "must be positive, 31 bits",
                    fix=f"give `{name}` a number from 1 to {(1 << 31) - 1}",
                )
        else:
            value = None if binding.value is None else self.positive(binding.value, f"`{name}`")
        if value is None and isinstance(statement, ast.Param):
            raise self.error(
                "E210",
                f"parameter `{name}` cannot be dynamic",
                binding.span,
                "a parameter, not a dim",
                fix=f"give it a number: -D {name}=...",
            )
        self.values[name] = value
        self.broken.discard(name)
        if isinstance(statement, ast.Dims):
            self.dims[name] = Dim(name, value, binding.span)

    def tensor(self, statement: ast.Global) -> None:
        self.declare(statement.name)
        dtype = self.dtype(statement.dtype)
        dims = []
        for extent in statement.shape:
            if isinstance(extent, ast.Name) and extent.id in self.broken:
                raise _Stop()
            if not isinstance(extent, ast.Name) or extent.id not in self.dims:
                shown = extent.span.text
                raise self.error(
                    "E209",
                    f"`{shown}` is not a declared dimension",
                    extent.span,
                    "tensors are shaped by names, so that tkgen knows which extents are the same",
                    fix=f"name it: `dims X = {shown}`",
                    known=self.dims,
                )
            dims.append(self.dims[extent.id])
        if len(dims) > 2:
            raise self.error(
                "E209",
                f"`{statement.name.id}` has {len(dims)} dimensions, at most 2",
                statement.span,
                fix="write a kernel of one matrix, and launch it once for each of a batch",
            )
        self.tensors[statement.name.id] = Tensor(statement.name.id, dtype, tuple(dims), statement.span)

    def scalar(self, statement: ast.Scalar) -> None:
        self.declare(statement.name)
        dtype = self.dtype(statement.dtype)
        if dtype is not DType.F32:
            raise self.error("E204", f"a scalar is f32, not {dtype.spelling}", statement.dtype.span, fix="write `f32`")
        default = statement.default
        if default is not None and not isinstance(default, ast.Number):
            raise self.error(
                "E203", "the default of a scalar is a number", default.span, fix="write a number, or leave it out"
            )
        value = None if default is None else self.real(default, default.value)
        self.scalars[statement.name.id] = ScalarArg(statement.name.id, dtype, value, statement.span)

    def tensor_named(self, name: ast.Name, what: str) -> Tensor:
        if name.id not in self.tensors:
            raise self.error(
                "E200",
                f"{what} names `{name.id}`, which is not a global tensor",
                name.span,
                "not declared",
                fix=f"declare it: `global {name.id} : bf16[...]`",
                known=self.tensors,
            )
        return self.tensors[name.id]

    def program(self, body: tuple[ast.Statement, ...]) -> Program:
        roles = self.all(ast.Role, body)
        inner = [s for r in roles for s in flatten(r.body)]
        everything = [*(s for s in flatten(body) if not isinstance(s, ast.Role)), *inner]
        block_at = self.one(ast.Block, everything, "block", "block 128 x 128 step 64")
        block = (
            self.positive(block_at.rows, "the block's rows"),
            self.positive(block_at.cols, "the block's columns"),
            self.positive(block_at.step, "the K-step"),
        )
        accumulate = self.one(ast.Accumulate, everything, "accumulate", "accumulate C : f32 tile 32 x 32")
        for extra in self.all(ast.Accumulate, everything)[1:]:
            self.error(
                "E202",
                "a kernel has one accumulator",
                extra.span,
                "a second one",
                secondary=(Label(accumulate.span, "the first"),),
                fix="write a kernel for each product",
            )
        output = self.tensor_named(accumulate.name, "`accumulate`")
        if len(output.dims) != 2 or output.dims[0] == output.dims[1]:
            raise self.error(
                "E209",
                f"the output `{output.name}` needs two different dimensions",
                accumulate.name.span,
                fix="declare it as rows and columns, `[M, N]`",
                secondary=(Label(output.span, "declared here"),),
                notes=("give equal sizes two names: `dims M = 8192, N = 8192`",),
            )
        wave_roles = self.roles(body, roles, everything, block, accumulate)
        compute = next(r for r in wave_roles if r.multiplies)
        accumulator = self.accumulator(accumulate, output, block, compute)
        operands = self.operands(everything, accumulate, output, block, accumulator)
        wave_roles = self.loads(wave_roles, roles, everything, operands)
        self.stores(everything, accumulate, roles)
        spans = {"block": block_at.span, "kernel": self.kernel.name.span, "accumulate": accumulate.span}
        for statement in everything:
            spans.setdefault(type(statement).__name__.lower(), statement.span)
        steps = self.epilogue(everything, output)
        grid = self.grid(everything)
        self.short_runs(grid, operands)
        return Program(
            name=self.kernel.name.id,
            header=self.kernel.header,
            dims=tuple(self.dims.values()),
            tensors=tuple(self.tensors.values()),
            scalars=tuple(self.scalars.values()),
            block=block,
            operands=operands,
            roles=wave_roles,
            accumulator=accumulator,
            epilogue=steps,
            remap=self.remap(everything),
            grid=grid,
            tail=self.tail(everything),
            occupancy=self.occupancy(everything),
            allow=self.allow(everything),
            phases=self.phases(everything),
            unroll=next(
                (self.positive(u.count, "unroll", MOST_UNROLL) for u in self.all(ast.Unroll, everything)), None
            ),
            targets=tuple(n.id for t in self.all(ast.Targets, everything) for n in t.names),
            schedule=self.schedule(s for s in body if not isinstance(s, ast.Role)),
            unused=tuple(self.unused(everything, operands, steps, output)),
            spans=spans,
        )

    def schedule(self, body: Iterable[ast.Statement]) -> ast.Schedule | None:
        """The `schedule` block of a kernel or role, its expressions replaced by their values."""

        def value(expr: ast.Expr) -> ast.Number:
            return expr if isinstance(expr, ast.Number) else ast.Number(expr.span, self.number(expr))

        def index(at: ast.Index | None) -> ast.Index | None:
            if at is None:
                return None
            return replace(at, first=at.first and value(at.first), last=at.last and value(at.last))

        def op(item: ast.ScheduleOp) -> ast.ScheduleOp:
            match item:
                case ast.Move():
                    return replace(item, frags=index(item.frags), slices=index(item.slices))
                case ast.Multiply():
                    return replace(item, rows=index(item.rows), cols=index(item.cols), slices=index(item.slices))
                case ast.Wait():
                    return replace(item, count=value(item.count))
            return item

        found = next(iter(self.all(ast.Schedule, body)), None)
        if found is None:
            return None
        return replace(found, clusters=tuple(replace(c, ops=tuple(map(op, c.ops))) for c in found.clusters))

    # ------------------------------------------------------------ waves and roles

    def roles(
        self,
        body: tuple[ast.Statement, ...],
        roles: list[ast.Role],
        everything: list[ast.Statement],
        block: tuple[int, int, int],
        accumulate: ast.Accumulate,
    ) -> tuple[Role, ...]:
        tile = (self.positive(accumulate.tile[0], "tile rows"), self.positive(accumulate.tile[1], "tile columns"))
        if not roles:
            waves = self.one(ast.Waves, everything, "waves", "waves 4 x 2")
            rows = self.positive(waves.rows, "the number of waves")
            self.wave_limit(rows, waves.span)
            grid = (rows, self.positive(waves.cols, "wave columns")) if waves.cols else self.split(rows, block, tile)
            count = grid[0] * grid[1]
            self.wave_limit(count, waves.span)
            return (Role(ALL_WAVES, 0, count - 1, grid, (), count, True, None, waves.span),)
        for waves in self.all(ast.Waves, everything):
            self.error(
                "E214",
                "`waves` and `role` both divide the block's waves",
                waves.span,
                secondary=(Label(roles[0].name.span, "a role"),),
                fix="remove the `waves` line; write the grid as `role ... waves 4..7 as 2 x 2`",
            )
        resolved = []
        for role in roles:
            self.declare(role.name)
            first, last = self.wave_range(role.waves)
            multiplies = any(isinstance(s, ast.Accumulate) for s in flatten(role.body))
            shape: tuple[int, int] | None = None
            if role.shape:
                shape = (self.positive(role.shape[0], "wave rows"), self.positive(role.shape[1], "wave columns"))
                if shape[0] * shape[1] != last - first + 1:
                    raise self.error(
                        "E214",
                        f"{shape[0]} x {shape[1]} is {shape[0] * shape[1]} waves, the role has {last - first + 1}",
                        role.span if role.shape is None else role.shape[0].span.to(role.shape[1].span),
                        secondary=(Label(role.waves.span, f"{last - first + 1} waves"),),
                        fix="make the two agree",
                    )
            elif multiplies:
                shape = self.split(last - first + 1, block, tile)
            schedule = self.schedule(role.body)
            stores = any(isinstance(s, ast.Store) for s in flatten(role.body))
            resolved.append(
                Role(role.name.id, first, last, shape if multiplies else None, (), last - first + 1, stores, schedule,
                     role.name.span)
            )  # fmt: skip
        self.partition(resolved)
        if not any(r.multiplies for r in resolved):
            raise self.error(
                "E215", "no role multiplies: `accumulate` must stand inside a role", accumulate.span,
                fix="indent `accumulate` and `store` under the consumer role",
            )  # fmt: skip
        return tuple(resolved)

    def wave_range(self, waves: ast.WaveRange) -> tuple[int, int]:
        first, last = self.number(waves.first), self.number(waves.last)
        if first < 0 or last < first:
            raise self.error(
                "E214", f"{first}..{last} is no range of waves", waves.span, fix="write the first wave, then the last"
            )
        self.wave_limit(last + 1, waves.span)
        return first, last

    def wave_limit(self, waves: int, span: Span) -> None:
        if waves > MAX_WAVES:
            raise self.error(
                "E214",
                f"{waves} waves, but a block has at most {MAX_WAVES} (1024 threads)",
                span,
                fix=f"use {MAX_WAVES} waves or fewer, each with more or larger fragments",
            )

    def partition(self, roles: list[Role]) -> None:
        """Every wave 0..last belongs to exactly one role."""
        owner: dict[int, Role] = {}
        for role in roles:
            for wave in role.waves:
                if wave in owner:
                    raise self.error(
                        "E214",
                        f"wave {wave} has two roles, `{owner[wave].name}` and `{role.name}`",
                        role.span,
                        secondary=(Label(owner[wave].span, "also here"),),
                        fix="give every wave one role: let one range end where the next begins",
                    )
                owner[wave] = role
        idle = [w for w in range(max(owner)) if w not in owner]
        if idle:
            raise self.error(
                "E214",
                f"wave {idle[0]} of {max(owner) + 1} has no role",
                roles[-1].span,
                notes=("waves are launched from 0 on; every one must belong to a role",),
                fix="renumber the roles so that they cover 0..n without a gap",
            )

    def split(self, waves: int, block: tuple[int, int, int], tile: tuple[int, int]) -> tuple[int, int]:
        """The grid of waves that reads least from LDS: the smallest rows + columns of output per wave."""
        grids = [(r, waves // r) for r in range(1, waves + 1) if waves % r == 0]
        fitting = [g for g in grids if block[0] % (g[0] * tile[0]) == 0 and block[1] % (g[1] * tile[1]) == 0]
        return min(fitting or grids, key=lambda g: (block[0] / g[0] + block[1] / g[1], g[1]))

    # ------------------------------------------------------------ accumulator and operands

    def accumulator(
        self, at: ast.Accumulate, output: Tensor, block: tuple[int, int, int], compute: Role
    ) -> Accumulator:
        assert compute.shape is not None
        dtype = self.dtype(at.dtype)
        if dtype is not DType.F32:
            raise self.error(
                "E204", f"MFMA accumulates in f32, not {dtype.spelling}", at.dtype.span,
                fix=Fix("accumulate in f32; the store converts to the tensor's type", (Edit(at.dtype.span, "f32"),)),
            )  # fmt: skip
        tile = (self.number(at.tile[0]), self.number(at.tile[1]))
        for expr, size in zip(at.tile, tile, strict=True):
            if size % BASE_TILE:
                raise self.error(
                    "E207", f"a tile side of {size} is no multiple of {BASE_TILE}", expr.span,
                    fix=f"register tiles are made of {BASE_TILE} x {BASE_TILE} base tiles",
                )  # fmt: skip
        fragments = []
        for axis, what in enumerate(("rows", "columns")):
            covered = compute.shape[axis] * tile[axis]
            if block[axis] % covered:
                raise self.error(
                    "E206",
                    f"the block's {block[axis]} {what} are no multiple of {compute.shape[axis]} waves x {tile[axis]}",
                    at.tile[axis].span,
                    f"{compute.shape[axis]} waves x {tile[axis]} = {covered}",
                    secondary=(Label(compute.span, f"{compute.shape[0]} x {compute.shape[1]} waves"),),
                    notes=(f"fragment {block[axis] // covered} of the last wave would reach past the block",),
                    fix=f"use a tile side that divides {block[axis] // gcd(block[axis], compute.shape[axis])}",
                )
            fragments.append(block[axis] // covered)
        mfma = (BASE_TILE, BASE_TILE)
        if at.mfma:
            mfma = (self.number(at.mfma[0]), self.number(at.mfma[1]))
            if mfma not in ((16, 16), (32, 32)) or tile[0] % mfma[0] or tile[1] % mfma[1]:
                raise self.error(
                    "E207", f"no MFMA makes {mfma[0]} x {mfma[1]} of a {tile[0]} x {tile[1]} tile",
                    at.mfma[0].span.to(at.mfma[1].span), fix="use `mfma 16 x 16` or `mfma 32 x 32`",
                )  # fmt: skip
        if at.arrangement and at.arrangement.id not in ("interleaved", "blocked"):
            raise self.error(
                "E212", f"unknown arrangement `{at.arrangement.id}`", at.arrangement.span,
                fix="write `interleaved` or `blocked`",
            )  # fmt: skip
        interleaved = at.arrangement is not None and at.arrangement.id == "interleaved"
        result = Accumulator(output, dtype, tile, (fragments[0], fragments[1]), interleaved, mfma, at.span)
        if result.registers > MOST_REGISTERS:
            raise self.error(
                "E403",
                f"the sums of one wave need {result.registers} registers of each lane; a wave has {MOST_REGISTERS}",
                at.span,
                f"{fragments[0]} x {fragments[1]} fragments of {tile[0]} x {tile[1]}",
                secondary=(Label(compute.span, f"{compute.shape[0]} x {compute.shape[1]} waves"),),
                fix="use more waves, or a smaller block",
            )
        return result

    def operands(
        self,
        everything: list[ast.Statement],
        at: ast.Accumulate,
        output: Tensor,
        block: tuple[int, int, int],
        accumulator: Accumulator,
    ) -> tuple[Operand, Operand]:
        tensors = self.factors(everything, at, output)
        contraction = self.contraction(tensors, output, at)
        result = []
        for axis, (side, tensor) in enumerate(zip(Side, tensors, strict=True)):
            shared = self.clause(ast.Shared, everything, tensor, "shared", f"shared {tensor.name} buffers 1")
            registers = self.clause(ast.Registers, everything, tensor, None, "")
            via = Via.COLLECTIVE
            if shared.via:
                if shared.via.id not in [v.value for v in Via]:
                    raise self.error(
                        "E213",
                        f"`via {shared.via.id}` is no way into LDS", shared.via.span,
                        fix="use `via collective`, `via registers` or `via direct`", known=[v.value for v in Via],
                    )  # fmt: skip
                via = Via(shared.via.id)
            buffers = self.positive(shared.buffers, "buffers") if shared.buffers else 1
            if buffers * block[axis] * block[2] * tensor.dtype.bytes > MOST_LDS:
                need = buffers * block[axis] * block[2] * tensor.dtype.bytes
                raise self.error(
                    "E501",
                    f"{buffers} buffers of {block[axis]} x {block[2]} {tensor.dtype.spelling} are "
                    f"{need} bytes of LDS; no GPU has more than {MOST_LDS}",
                    shared.span,
                    fix="make the block or the K-step smaller, or use fewer buffers",
                )
            if buffers > MOST_BUFFERS and shared.buffers:
                raise self.error("E203", f"an operand has at most {MOST_BUFFERS} buffers, not {buffers}",
                                 shared.buffers.span, fix=f"write {MOST_BUFFERS} or less")  # fmt: skip
            slice_at = registers.slice if registers else None
            slice_ = self.positive(slice_at, "the slice") if slice_at else block[2]
            register_buffers = self.positive(registers.buffers, "buffers") if registers and registers.buffers else 1
            if register_buffers > 2 and registers:
                raise self.error("E208", "registers are buffered once or twice", registers.span,
                                 notes=("a third register buffer would only hold what LDS holds already",),
                                 fix="write `buffers 2`")  # fmt: skip
            base = accumulator.mfma[0]  # register tiles are whole base tiles of the matrix instruction's side
            if block[2] % slice_ or slice_ % base:
                raise self.error(
                    "E208",
                    f"a slice of {slice_} does not divide the K-step of {block[2]} into multiples of {base}",
                    slice_at.span if slice_at else self.all(ast.Block, everything)[0].step.span,
                    fix=self._slices(block[2], base),
                )
            result.append(
                Operand(
                    side=side,
                    tensor=tensor,
                    extent=block[axis],
                    step=block[2],
                    contraction_first=tensor.dims[0] == contraction,
                    buffers=buffers,
                    via=via,
                    register_buffers=register_buffers,
                    slice=slice_,
                    fragments=accumulator.fragments[axis],
                    fragment_extent=accumulator.tile[axis],
                    span=shared.span,
                    registers_span=registers.span if registers else None,
                )
            )
        a, b = result
        if a.slice != b.slice or a.register_buffers != b.register_buffers:
            raise self.error(
                "E208", "both operands need the same slice and register buffers: a product consumes them in pairs",
                next(s.span for s in self.all(ast.Registers, everything)),
                notes=(f"{a.name}: slice {a.slice}, buffers {a.register_buffers}; "
                       f"{b.name}: slice {b.slice}, buffers {b.register_buffers}",),
                fix=f"write one line for both: `registers {a.name}, {b.name} slice {min(a.slice, b.slice)} ...`",
            )  # fmt: skip
        return a, b

    def clause(
        self, kind: type[S], everything: list[ast.Statement], tensor: Tensor, keyword: str | None, example: str
    ) -> S:
        """The statement of `kind` that names `tensor`; required when it has a keyword to ask for."""
        found = [s for s in self.all(kind, everything) if tensor.name in [n.id for n in s.names]]  # type: ignore[attr-defined]
        if len(found) > 1:
            raise self.error(
                "E202", f"two `{kind.__name__.lower()}` lines for `{tensor.name}`", found[1].span, "again here",  # type: ignore[attr-defined]
                secondary=(Label(found[0].span, "first here"),),  # type: ignore[attr-defined]
                fix="keep one of them",
            )  # fmt: skip
        if not found and keyword:
            raise self.error(
                "E201", f"nothing says how `{tensor.name}` is buffered in LDS", tensor.span, "an operand",
                fix=f"add a line such as `{example}`",
            )  # fmt: skip
        return found[0] if found else None  # type: ignore[return-value]

    def factors(self, everything: list[ast.Statement], at: ast.Accumulate, output: Tensor) -> tuple[Tensor, Tensor]:
        """The tensors of the product: as written, or the two that `shared` names, ordered by the output's dims."""
        for shared in self.all(ast.Shared, everything):
            for name in shared.names:
                self.tensor_named(name, "`shared`")
        for registers in self.all(ast.Registers, everything):
            for name in registers.names:
                self.tensor_named(name, "`registers`")
        if at.product:
            a, b = (self.tensor_named(n, "the product") for n in at.product)
            return a, b
        names = list(dict.fromkeys(n.id for s in self.all(ast.Shared, everything) for n in s.names))
        if len(names) < 2:
            raise self.error(
                "E205", f"only `{names[0]}` goes through LDS" if names else "no tensor goes through LDS", at.span,
                "a product of two tensors",
                notes=("both factors are shared tiles: no factor goes from global memory to registers without LDS",),
                fix="name both in `shared`, such as `shared A, B buffers 2`",
            )  # fmt: skip
        if len(names) > 2:
            raise self.error(
                "E205", f"the product is not clear: `shared` names {len(names)} tensors", at.span,
                fix=f"write it out: `accumulate {at.name.id} = A * B : f32 ...`",
            )  # fmt: skip
        first, second = (self.tensors[n] for n in names)
        return (first, second) if output.dims[0] in first.dims else (second, first)

    def contraction(self, tensors: tuple[Tensor, Tensor], output: Tensor, at: ast.Accumulate) -> Dim:
        a, b = tensors
        shared = [d for d in a.dims if d in b.dims]
        good = (
            len(a.dims) == len(b.dims) == 2
            and len(shared) == 1
            and output.dims[0] in a.dims
            and output.dims[1] in b.dims
            and shared[0] not in output.dims
        )
        if not good:
            shape = {t.name: f"[{', '.join(d.name for d in t.dims)}]" for t in (a, b, output)}
            raise self.error(
                "E205",
                f"`{a.name}{shape[a.name]}` times `{b.name}{shape[b.name]}` does not make "
                f"`{output.name}{shape[output.name]}`",
                at.span,
                secondary=(Label(a.span, "the left factor"), Label(b.span, "the right factor")),
                notes=("the left factor has the output's first dimension, the right one its second, "
                       "and both have one contracted dimension in common",),
                fix=f"change the dimensions of `{a.name}`, `{b.name}` or `{output.name}`, or the order of the factors",
            )  # fmt: skip
        if a.dtype is not b.dtype:
            raise self.error(
                "E204", f"one product of {a.dtype.spelling} and {b.dtype.spelling}: no MFMA mixes them", at.span,
                secondary=(Label(a.span, a.dtype.spelling), Label(b.span, b.dtype.spelling)),
                fix=f"make both {a.dtype.spelling} or both {b.dtype.spelling}",
            )  # fmt: skip
        return shared[0]

    def unused(
        self,
        everything: list[ast.Statement],
        operands: tuple[Operand, Operand],
        epilogue: tuple[EpilogueStep, ...],
        output: Tensor,
    ) -> Iterator[Unused]:
        """Tiles of tensors that are no operand, tensors and scalars that nothing names."""
        names = [o.name for o in operands]
        tiles = [("shared tile", n) for s in self.all(ast.Shared, everything) for n in s.names]
        tiles += [("register tile", n) for s in self.all(ast.Registers, everything) for n in s.names]
        yield from (Unused(what, n.id, n.span) for what, n in tiles if n.id not in names)
        used = {*names, output.name, *(s.tensor.name for s in epilogue if s.tensor)}
        yield from (Unused("tensor", t.name, t.span) for t in self.tensors.values() if t.name not in used)
        factors = {s.factor for s in epilogue}
        yield from (Unused("scalar", s.name, s.span) for s in self.scalars.values() if s.name not in factors)

    # ------------------------------------------------------------ loads, stores

    def loads(
        self,
        resolved: tuple[Role, ...],
        roles: list[ast.Role],
        everything: list[ast.Statement],
        operands: tuple[Operand, Operand],
    ) -> tuple[Role, ...]:
        names = [o.name for o in operands]
        result = []
        bodies = [list(flatten(r.body)) for r in roles] if roles else [everything]
        for role, body in zip(resolved, bodies, strict=True):
            found = self.all(ast.Load, body)
            for load in found:
                for name in load.names:
                    if name.id not in names:
                        raise self.error(
                            "E200", f"`load` names `{name.id}`, which is no operand of the product", name.span,
                            fix=f"the operands are {names[0]} and {names[1]}",
                        )  # fmt: skip
            loaded = tuple(dict.fromkeys(n.id for load in found for n in load.names))
            if not roles and not found:
                loaded = tuple(names)
            by = {self.positive(load.by, "the group", MAX_WAVES) for load in found if load.by}
            if len(by) > 1:
                raise self.error(
                    "E214",
                    "the loads of one role run in groups of one size",
                    found[1].span,
                    "another size",
                    secondary=(Label(found[0].span, "the first"),),
                    fix="write one `load` line for all",
                )
            group = by.pop() if by else len(role.waves)
            result.append(Role(role.name, role.first, role.last, role.shape, loaded, group, role.stores or not roles,
                               role.schedule, role.span, found[0].span if found else None))  # fmt: skip
        for operand in operands:
            if not any(operand.name in r.loads for r in result):
                raise self.error(
                    "E215", f"no role loads `{operand.name}`", operand.tensor.span, "an operand of the product",
                    fix=f"add `load {operand.name}` to a role",
                )  # fmt: skip
        return tuple(result)

    def stores(self, everything: list[ast.Statement], at: ast.Accumulate, roles: list[ast.Role]) -> None:
        found = self.all(ast.Store, everything)
        for store in found:
            if store.name.id != at.name.id:
                self.error(
                    "E215", f"`store {store.name.id}`, but the accumulator is `{at.name.id}`", store.name.span,
                    secondary=(Label(at.name.span, "accumulated here"),),
                    fix=Fix(f"store `{at.name.id}`", (Edit(store.name.span, at.name.id),)),
                )  # fmt: skip
        if not found:
            self.error(
                "E215", f"`{at.name.id}` is accumulated and never stored", at.name.span,
                fix=f"add `store {at.name.id}`",
            )  # fmt: skip
        if len(found) > 1:
            self.error(
                "E602", f"`{at.name.id}` is stored twice", found[1].span, "every element would be written again",
                secondary=(Label(found[0].span, "first stored here"),),
                fix=Fix("remove the second store", ()),
            )  # fmt: skip
        for role in roles:
            body = list(flatten(role.body))
            accumulates = any(isinstance(s, ast.Accumulate) for s in body)
            for store in self.all(ast.Store, body):
                if not accumulates:
                    self.error(
                        "E401", f"role `{role.name.id}` stores `{store.name.id}`, whose registers it does not own",
                        store.span, secondary=(Label(at.span, "these registers belong to the role that accumulates"),),
                        notes=("a register tile lives in the waves that filled it; other waves cannot see it",),
                        fix="move `store` into the role that accumulates",
                    )  # fmt: skip
            for registers in self.all(ast.Registers, body):
                if not accumulates:
                    self.error(
                        "E401",
                        f"role `{role.name.id}` declares register tiles, but another role multiplies them",
                        registers.span, secondary=(Label(at.span, "multiplied by the waves of this role"),),
                        notes=("a register tile lives in the waves that filled it; other waves cannot see it",),
                        fix="move `registers` into the role that accumulates",
                    )  # fmt: skip

    # ------------------------------------------------------------ the rest

    def epilogue(self, everything: list[ast.Statement], output: Tensor) -> tuple[EpilogueStep, ...]:
        steps = []
        for call in [c for e in self.all(ast.Epilogue, everything) for c in e.calls]:
            if call.name.id not in EPILOGUES:
                self.error(
                    "E211", f"unknown epilogue step `{call.name.id}`", call.name.span,
                    fix=f"the steps are {', '.join(EPILOGUES)}", known=EPILOGUES,
                )  # fmt: skip
                continue
            with suppress(_Stop):  # what is wrong with the other steps is said, too
                steps.append(self.epilogue_step(call, output))
        return tuple(steps)

    def epilogue_step(self, call: ast.Call, output: Tensor) -> EpilogueStep:
        name, args = call.name.id, list(call.args)
        shapes = {"scale": "scale(factor)", "add": "add(tensor, factor)", "bias": "bias(vector)"}
        expected = {"scale": (1, 1), "add": (1, 2), "bias": (1, 1)}.get(name, (0, 0))
        if call.keywords or not expected[0] <= len(args) <= expected[1]:
            raise self.error(
                "E211", f"`{name}` does not take these arguments", call.span,
                fix=f"write `{shapes.get(name, name)}`",
            )  # fmt: skip
        tensor = None
        if name in ("add", "bias"):
            head = args.pop(0)
            if not isinstance(head, ast.Name):
                raise self.error(
                    "E211", f"the first argument of `{name}` is a tensor", head.span, fix="name a `global`"
                )
            tensor = self.tensor_named(head, f"`{name}`")
            wanted = (output.dims,) if name == "add" else ((output.dims[0],), (output.dims[1],))
            if tensor.dims not in wanted:
                raise self.error(
                    "E211", f"`{name}({tensor.name})` needs a tensor shaped "
                    + " or ".join(f"[{', '.join(d.name for d in w)}]" for w in wanted), head.span,
                    secondary=(Label(tensor.span, "declared here"),),
                    fix="use a `global` of that shape" + (", or `add` for a whole matrix" * (name == "bias")),
                )  # fmt: skip
        factor: float | str | None = None
        if args:
            match args[0]:
                case ast.Number(value=value):
                    factor = self.real(args[0], value)
                case ast.Name(id=scalar) if scalar in self.scalars:
                    factor = scalar
                case other:
                    raise self.error(
                        "E211", f"a factor is a number or a scalar, not `{other.span.text}`", other.span,
                        fix="declare `scalar alpha : f32 = 1.0`",
                    )  # fmt: skip
        return EpilogueStep(name, tensor, factor, call.span)

    def remap(self, everything: list[ast.Statement]) -> tuple[RemapStage, ...]:
        stages = []
        for call in [c for r in self.all(ast.Remap, everything) for c in r.calls]:
            positional = tuple(self.number(a) for a in call.args)
            keywords = tuple((n.id, self.number(v)) for n, v in call.keywords)
            stages.append(RemapStage(call.name.id, positional, keywords, call.span))
        return tuple(stages)

    def grid(self, everything: list[ast.Statement]) -> GridKind:
        found = self.all(ast.Grid, everything)
        if not found:
            return GridKind("linear", 0, None)
        call = found[0].call
        if call.name.id not in GRIDS:
            raise self.error(
                "E212", f"unknown grid `{call.name.id}`", call.name.span,
                fix=f"the grids are {', '.join(GRIDS)}", known=GRIDS,
            )  # fmt: skip
        values = [*call.args, *(v for n, v in call.keywords)]
        wanted = 0 if call.name.id == "linear" else 1
        if len(values) != wanted or any(n.id != "blocks" for n, _ in call.keywords):
            raise self.error(
                "E212", f"`{call.name.id}` takes {'no argument' if not wanted else 'the number of blocks'}", call.span,
                fix=f"write `grid {call.name.id}`" if not wanted else f"write `grid {call.name.id}(blocks = 304)`",
            )  # fmt: skip
        count = self.positive(values[0], "blocks") if values else 0
        if call.name.id == "split_k" and count == 1:  # a tile of its own for every block: nothing is added to it
            return GridKind("linear", 0, call.span)
        return GridKind(call.name.id, count, call.span)

    def short_runs(self, grid: GridKind, operands: tuple[Operand, Operand]) -> None:
        """E608 where more buffers are to be filled than a run of `stream_k` may have K-steps."""
        deep = max(operands, key=lambda o: o.buffers)
        if grid.name == "stream_k" and grid.span and deep.buffers > 2:
            raise self.error(
                "E608",
                f"a run of `stream_k` may be one K-step long, and {deep.buffers} buffers are filled "
                f"{deep.buffers - 1} steps ahead",
                grid.span,
                secondary=(Label(deep.span, "the depth comes from these buffers"),),
                fix="use at most two LDS buffers and one register buffer",
            )

    def tail(self, everything: list[ast.Statement]) -> str | None:
        for tail in self.all(ast.Tail, everything):
            if tail.mode.id not in TAILS:
                raise self.error(
                    "E212", f"unknown tail `{tail.mode.id}`", tail.mode.span,
                    fix="`tail masked` or `tail clamped`", known=TAILS,
                )  # fmt: skip
            return tail.mode.id
        return None

    def occupancy(self, everything: list[ast.Statement]) -> int | None:
        for occupancy in self.all(ast.Occupancy, everything):
            value = self.positive(occupancy.waves_per_simd, "waves per SIMD")
            if value > 8:
                raise self.error("E203", "a SIMD holds at most 8 waves", occupancy.span, fix="ask for 1 to 8")
            return value
        return None

    def unroll(self, everything: list[ast.Statement]) -> int | None:
        return next((self.positive(u.count, "unroll", MOST_UNROLL) for u in self.all(ast.Unroll, everything)), None)

    def allow(self, everything: list[ast.Statement]) -> frozenset[str]:
        names = [n for a in self.all(ast.Allow, everything) for n in a.names]
        for name in names:
            if name.id not in ALLOWANCES:
                self.error(
                    "E200", f"nothing called `{name.id}` can be allowed", name.span,
                    fix=f"one of {', '.join(ALLOWANCES)}", known=ALLOWANCES,
                )  # fmt: skip
        return frozenset(n.id for n in names)

    def phases(self, everything: list[ast.Statement]) -> tuple[PhaseShift, ...]:
        return tuple(
            PhaseShift(*self.wave_range(p.waves), self.positive(p.amount, "the phase shift", MOST_SHIFT), p.span)
            for p in self.all(ast.Phase, everything)
        )
