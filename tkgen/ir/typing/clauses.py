"""The clauses of a kernel of equations without products: waves, what passes through LDS, the grid, the reference."""

from __future__ import annotations

from typing import TypeVar

from tkgen.diagnostics import Edit, Fix, Label
from tkgen.ir.equation_program import EquationProgram, Reference, Staging, WrittenLine, WrittenSchedule, WrittenStep
from tkgen.ir.equations import Axis, AxisKind, Kernel, Product, walk
from tkgen.ir.products import has_products
from tkgen.ir.resolve import clauses
from tkgen.ir.resolve.dataflow import MOST_BUFFERS, way
from tkgen.ir.resolve.names import Scope, Stop
from tkgen.ir.resolve.said import said
from tkgen.ir.resolve.sizes import number, positive
from tkgen.ir.resolve.waves import loading_roles, no_axis, wave_limit
from tkgen.ir.resolve.written import LEVELS, MOST_AHEAD, MOST_MIXED
from tkgen.ir.types import BASE_TILE, GridKind, Role, Tensor
from tkgen.ir.typing import Typed
from tkgen.syntax import ast, statements
from tkgen.syntax.statements import flatten

Clause = TypeVar("Clause", ast.Shared, ast.Registers)
ROW_WAVES = 4  # of a block of rows, unless `waves` says otherwise

_WITH_EQUATIONS = (
    *statements.EQUATIONS, ast.Dims, ast.Param, ast.Global, ast.Scalar, ast.Targets, ast.Remap, ast.Grid, ast.Waves,
    ast.Occupancy, ast.Allow, ast.Shared, ast.Registers, ast.Tune, ast.Function,
)  # fmt: skip
_INSTEAD = {
    ast.Block: "`over m in M by 128` gives the tile of a block, `each k in K by 64` its steps",
    ast.Accumulate: "a sum over the steps is `c = c + A[m, k] @ B[n, k].T`",
    ast.Epilogue: "functions are part of the equations: `C[m, n] = relu(c)`",
    ast.Store: "a store is an equation: `C[m, n] = c`",
    ast.Tail: "remove it: elements beyond the end are not read, and stores to them are dropped",
}


def equation_program(scope: Scope, typed: Typed) -> EquationProgram:
    """The program of equations without products; stops where a clause is wrong."""
    kernel = typed.kernel
    _foreign(scope, kernel)
    read = frozenset(t.name for t in kernel.inputs)
    roles = _roles(scope, kernel, read)
    count, along = _waves(scope, kernel, roles)
    staged = _shared(scope, read)
    return EquationProgram(
        **vars(said(scope, kernel, _grid(scope), typed.unused)),
        waves=count,
        waves_along=along,
        shared=staged,
        registers=_registers(scope, read, staged),
        schedule=next((s.preset.id for s in scope.all(ast.Schedule) if s.preset is not None), None),
        reference=_reference(scope),
        written=written_schedule(scope, count),
        roles=roles,
    )


def _foreign(scope: Scope, kernel: Kernel) -> None:
    """E222 for statements that only matrix products have a use for; stops where there are any."""
    multiplies = any(isinstance(op, Product) for op in walk(kernel.body))
    products = [op.result.span for op in walk(kernel.body) if isinstance(op, Product) and op.result.span]
    equation = next(s for s in flatten(scope.kernel.body) if isinstance(s, statements.EQUATIONS))
    named = scope.roles if multiplies and scope.groups is not None else []  # whose waves have groups, which have roles
    within = [s for role in named for s in flatten(role.body) if not isinstance(s, ast.Load | ast.Store)]
    for statement in (*flatten(scope.kernel.body), *within):
        orders = isinstance(statement, ast.Schedule | ast.Phase)
        if statement in named or statement in within:
            if statement in within:
                word = statement.span.text.split()[0]
                scope.error("E222", f"`{word}` belongs to the kernel here, not to a role", statement.span,
                            fix="write it above the roles, in which `load` and `store` name tensors")  # fmt: skip
            continue
        if not isinstance(statement, _WITH_EQUATIONS) and not (orders and multiplies):
            word = statement.span.text.split()[0]
            message, label = f"`{word}` is only for matrix products, but these equations have none", "such as this one"
            if multiplies:
                message = f"`{word}` is only for loops that just sum products, but this one computes with the products"
                label = "such as here"
            scope.error(
                "E222", message, statement.span, secondary=(Label(products[-1] if products else equation.span, label),),
                fix=_INSTEAD.get(type(statement), "leave it out"),
            )  # fmt: skip
    if scope.errors:
        raise Stop()


def _roles(scope: Scope, kernel: Kernel, read: frozenset[str]) -> tuple[Role, ...]:
    """The roles of waves: one loads, the other multiplies and stores every output, if it says what it stores."""
    found, written = loading_roles(scope, read), {t.name for t in kernel.outputs}
    for role, node in zip(found, scope.roles, strict=True):
        names = [s.name for s in flatten(node.body) if isinstance(s, ast.Store)]
        for name in names:
            if name.id not in written:
                scope.tensor_named(name, "`store`", written)
                raise scope.error("E200", f"`store` names `{name.id}`, which no equation writes", name.span,
                                  fix="name a tensor that is written", known=written)  # fmt: skip
        left = sorted(written - {n.id for n in names}) if names else []
        if names and (role.loads or left):
            message = (
                f"`{left[0]}` must be stored by the same waves" if left else f"role `{role.name}` loads, and stores"
            )
            raise scope.error("E215", message, names[0].span, fix="store all outputs in one role")
    if found and (waves := next(iter(scope.all(ast.Waves)), None)):
        raise scope.error(
            "E214", "`waves` and `role` both divide the block's waves", waves.span,
            secondary=(Label(found[0].span, "a role"),), fix="remove the `waves` line",
        )  # fmt: skip
    return found


def _waves(scope: Scope, kernel: Kernel, roles: tuple[Role, ...]) -> tuple[int, Axis | None]:
    """Return the number of waves of a block, and the axis along which they share its tiles."""
    if roles:
        axes = [a for a in kernel.axes if a.tile is not None and a.kind is AxisKind.PARALLEL]
        return sum(len(role.waves) for role in roles if not role.loads), axes[0] if len(axes) == 1 else None
    if not scope.all(ast.Waves):
        if not has_products(kernel):
            return ROW_WAVES, None
        tiled_ones = [a for a in kernel.axes if a.tile is not None and a.kind is AxisKind.PARALLEL]
        if len(tiled_ones) == 1 and (tile := tiled_ones[0].tile or 0) % BASE_TILE == 0:
            return _fitting(scope, tile), tiled_ones[0]
    clause = scope.one(ast.Waves, "waves", "waves 4")
    count = positive(scope, clause.rows, "the number of waves", scope.most_waves)
    wave_limit(scope, count, clause.span)
    if clause.cols is not None:
        raise scope.error(
            "E214", "a grid of waves is only for matrix products", clause.span,
            fix=f"write `waves {count}`, or `waves {count} along` an axis",
        )  # fmt: skip
    if clause.along is None:
        return count, None
    tiled = {a.name: a for a in kernel.axes if a.tile is not None and a.kind is AxisKind.PARALLEL}
    if clause.along.id not in tiled:
        raise no_axis(scope, clause.along, tiled)
    axis = tiled[clause.along.id]
    assert axis.tile is not None
    if axis.tile % count:
        divisor = max(d for d in range(1, count) if axis.tile % d == 0)
        raise scope.error(
            "E214", f"{count} waves cannot divide a tile of {axis.tile} along `{axis.name}`", clause.span,
            f"{axis.tile} % {count} = {axis.tile % count}",
            secondary=(Label(axis.span, f"tiles of {axis.tile}"),) if axis.span else (),
            fix=Fix(f"write `waves {divisor} along {axis.name}`: a number of waves that divides the tile",
                    (Edit(clause.span, f"waves {divisor} along {axis.name}"),), certain=False),
        )  # fmt: skip
    return count, axis


def _fitting(scope: Scope, tile: int) -> int:
    """The waves that share a tile where nothing says them: of the rows of a matrix instruction each, or two of them."""
    if (groups := scope.groups) is not None:
        return tile // groups.wave_rows
    return tile // (2 * BASE_TILE) if tile % (2 * BASE_TILE) == 0 else tile // BASE_TILE


def _shared(scope: Scope, read: frozenset[str]) -> tuple[Staging, ...]:
    """The tensors whose tiles pass through LDS; `read` are those that the equations read."""
    found: dict[str, Staging] = {}
    for clause in scope.all(ast.Shared):
        buffers = 2 if scope.groups else 1
        if clause.buffers:
            buffers = positive(scope, clause.buffers, "buffers", MOST_BUFFERS)
        how = way(scope, clause)
        for tensor in _read(scope, clause, read):
            if tensor.name in found:
                raise scope.error(
                    "E202", f"two `shared` lines for `{tensor.name}`", clause.span, "again here",
                    secondary=(Label(found[tensor.name].span, "first here"),), fix="keep one of them",
                )  # fmt: skip
            found[tensor.name] = Staging(tensor, buffers, how, clause.span)
    return tuple(found.values())


def _registers(scope: Scope, read: frozenset[str], staged: tuple[Staging, ...]) -> tuple[Tensor, ...]:
    """The tensors of which the spec says that their tiles go to registers directly."""
    found: list[Tensor] = []
    through = {s.tensor.name: s for s in staged}
    for clause in scope.all(ast.Registers):
        if clause.slice or clause.buffers:
            raise scope.error(
                "E222", "slices and buffers of registers are only for matrix products", clause.span,
                fix="name the tensors only",
            )  # fmt: skip
        for tensor in _read(scope, clause, read):
            if tensor.name in through:
                raise scope.error(
                    "E202", f"`{tensor.name}` goes through LDS, and to registers directly", clause.span, "directly",
                    secondary=(Label(through[tensor.name].span, "through LDS"),), fix="keep one of the two",
                )  # fmt: skip
            found.append(tensor)
    return tuple(dict.fromkeys(found))


def _read(scope: Scope, clause: Clause, read: frozenset[str]) -> list[Tensor]:
    """The tensors that a clause names, each read by an equation."""
    word = clause.span.text.split()[0]
    tensors = []
    for name in clause.names:
        tensor = scope.tensor_named(name, f"`{word}`", read)
        if tensor.name not in read:
            raise scope.error(
                "E200", f"`{word}` names `{tensor.name}`, which no equation reads", name.span,
                fix="name a tensor that is read", known=read,
            )  # fmt: skip
        tensors.append(tensor)
    return tensors


def _grid(scope: Scope) -> GridKind:
    """Read the `grid` clause of a kernel that has no K-steps."""
    found = clauses.grid(scope)
    if found.span is not None and found.name in ("split_k", "stream_k"):
        raise scope.error(
            "E212", f"`grid {found.name}` is only for matrix products", found.span,
            fix="use `linear` or `persistent(blocks)`",
        )  # fmt: skip
    return found


def _reference(scope: Scope) -> Reference | None:
    """The `reference` line: names of arguments are tensors, scalars or words of the function."""
    for clause in scope.all(ast.Reference):
        keywords = tuple(f"{name.id}={value.span.text}" for name, value in clause.call.keywords)
        arguments = (*(a.span.text for a in clause.call.args), *keywords)
        return Reference(clause.call.name.id, arguments, clause.span)
    return None


def written_schedule(scope: Scope, waves: int) -> WrittenSchedule | None:
    """The schedule that a spec writes out; None where it names one, or has none. Stops where it is wrong."""
    clause = next((s for s in scope.all(ast.Schedule) if s.preset is None), None)
    if clause is None:
        if phase := next(iter(scope.all(ast.Phase)), None):
            raise scope.error("E216", "a phase is counted in clusters, but there is no written schedule", phase.span,
                              fix="write a `schedule` block, or `schedule ping_pong`")  # fmt: skip
        return None
    if clause.waits is not None:
        raise scope.error("E216", "waits of a fused matmul are always derived", clause.waits.span,
                          fix="remove `waits`")  # fmt: skip
    lines = []
    for line in clause.clusters:
        if line.part is not None:
            raise scope.error("E216", f"the {line.part} of a fused matmul is derived", line.span,
                              fix="remove the line")  # fmt: skip
        lines.append(WrittenLine(tuple(_step(scope, op) for op in line.ops), line.kind == "cluster", line.span))
    auto = clause.barriers is not None and clause.barriers.id == "auto"
    return WrittenSchedule(tuple(lines), auto, _late(scope, waves), clause.span)


def _late(scope: Scope, waves: int) -> int:
    """The first of the waves that run one barrier later than the others; 0 where none do."""
    phases = scope.all(ast.Phase)
    for phase in phases:
        first, last, amount = (number(scope, e) for e in (phase.waves.first, phase.waves.last, phase.amount))
        if len(phases) > 1 or last != waves - 1 or not 0 < first <= last or amount != 1:
            message = "in a fused matmul the second half of the waves must run one cluster later than the first"
            fix = f"write `phase waves {waves // 2}..{waves - 1} by 1 cluster`"
            raise scope.error("E309", message, phase.span, fix=fix)
        return first
    return 0


def _step(scope: Scope, op: ast.ScheduleOp) -> WrittenStep:
    match op:
        case ast.Move(action=action, name=name) if action != "load" and op.frags is None and op.slices is None:
            return WrittenStep(action, op.span, name.id, _ahead(scope, op.step))
        case ast.Multiply(name=ast.Name(id=name)) if op.rows is None and op.slices is None:
            return WrittenStep("multiply", op.span, name, _ahead(scope, op.step), _piece(scope, op.piece))
        case ast.Compute(name=name):
            return WrittenStep("compute", op.span, name.id, 0, _piece(scope, op.piece))
        case ast.Barrier():
            return WrittenStep("barrier", op.span)
        case ast.Priority(level=level):
            value = LEVELS.get(level.id, -1) if isinstance(level, ast.Name) else number(scope, level)
            if not 0 <= value <= 3:
                raise scope.error("E216", "there is no such priority", level.span,
                                  fix="write `low`, `high` or a number 0..3")  # fmt: skip
            return WrittenStep("priority", op.span, level=value)
        case ast.Mix(pattern=pattern, times=times):
            sizes = [number(scope, size) for size in (*(size for _, size in pattern), times)]
            if wrong := next((n for n in sizes if not 1 <= n <= MOST_MIXED), None):
                raise scope.error("E216", f"{wrong} is not a valid number of instructions to mix", op.span,
                                  fix=f"write 1..{MOST_MIXED}")  # fmt: skip
            kinds = tuple((kind, n) for (kind, _), n in zip(pattern, sizes, strict=False))
            return WrittenStep("mix", op.span, mix=(kinds, sizes[-1]))
    fixes = {
        ast.Multiply: "write `multiply NAME`, with the name of an equation",
        ast.Wait: "remove it: waits of a fused matmul are derived",
    }
    raise scope.error("E216", "a fused matmul has no such step", op.span,
                      fix=fixes.get(type(op), "write `fetch`, `copy`, `write` or `read` of a complete "
                                              "tile"))  # fmt: skip


def _ahead(scope: Scope, step: ast.StepRef | None) -> int:
    if step is None:
        return 0
    if step.base != "k" or not 0 <= step.offset <= MOST_AHEAD:
        raise scope.error("E216", "an iteration names its own tiles or those of later iterations", step.span,
                          fix="write `[k+1]`")  # fmt: skip
    return step.offset


def _piece(scope: Scope, piece: tuple[str, ast.Expr] | None) -> tuple[str, int] | None:
    return None if piece is None else (piece[0], number(scope, piece[1]))
