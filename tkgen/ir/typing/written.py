"""Written schedules of a loop of equations: the lines of a `schedule` block, with the `phase` of late waves."""

from __future__ import annotations

from tkgen.ir.equation_program import WrittenLine, WrittenSchedule, WrittenStep
from tkgen.ir.resolve.names import Scope
from tkgen.ir.resolve.sizes import number
from tkgen.ir.resolve.written import LEVELS, MOST_AHEAD, MOST_MIXED
from tkgen.syntax import ast


def written_schedule(scope: Scope, waves: int) -> WrittenSchedule | None:
    """The schedule that a spec writes out; None where it names one, or has none. Stops where it is wrong."""
    clause = next((s for s in scope.all(ast.Schedule) if s.preset is None), None)
    if clause is None:
        if phase := next(iter(scope.all(ast.Phase)), None):
            raise scope.error("E216", "a phase is counted in clusters, and no schedule is written", phase.span,
                              fix="write a `schedule` block, or `schedule ping_pong`")  # fmt: skip
        return None
    if clause.waits is not None:
        raise scope.error("E216", "waits of a loop of equations are always derived", clause.waits.span,
                          fix="leave `waits` out")  # fmt: skip
    lines = []
    for line in clause.clusters:
        if line.part is not None:
            raise scope.error("E216", f"the {line.part} of a loop of equations is derived", line.span,
                              fix="leave the line out")  # fmt: skip
        lines.append(WrittenLine(tuple(_step(scope, op) for op in line.ops), line.kind == "cluster", line.span))
    auto = clause.barriers is not None and clause.barriers.id == "auto"
    return WrittenSchedule(tuple(lines), auto, _late(scope, waves), clause.span)


def _late(scope: Scope, waves: int) -> int:
    """The first of the waves that run a meeting behind the others; 0 where none do."""
    phases = scope.all(ast.Phase)
    for phase in phases:
        first, last, amount = (number(scope, e) for e in (phase.waves.first, phase.waves.last, phase.amount))
        if len(phases) > 1 or last != waves - 1 or not 0 < first <= last or amount != 1:
            message = "in a loop of equations the last waves run one cluster behind the others"
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
                raise scope.error("E216", f"{wrong} is no number of instructions to mix", op.span,
                                  fix=f"write 1..{MOST_MIXED}")  # fmt: skip
            kinds = tuple((kind, n) for (kind, _), n in zip(pattern, sizes, strict=False))
            return WrittenStep("mix", op.span, mix=(kinds, sizes[-1]))
    fixes = {
        ast.Multiply: "write `multiply NAME`, with the name of an equation",
        ast.Wait: "leave it out: waits of a loop of equations are derived",
    }
    raise scope.error("E216", "a loop of equations has no such step", op.span,
                      fix=fixes.get(type(op), "write `fetch`, `copy`, `write` or `read` of a whole tile"))  # fmt: skip


def _ahead(scope: Scope, step: ast.StepRef | None) -> int:
    if step is None:
        return 0
    if step.base != "k" or not 0 <= step.offset <= MOST_AHEAD:
        raise scope.error("E216", "a pass names its own tiles, or those of later passes", step.span,
                          fix="write `[k+1]`")  # fmt: skip
    return step.offset


def _piece(scope: Scope, piece: tuple[str, ast.Expr] | None) -> tuple[str, int] | None:
    return None if piece is None else (piece[0], number(scope, piece[1]))
