"""A `schedule` block as bodies: clusters end with a barrier and a fence, groups with a fence only."""

from __future__ import annotations

from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.ir.ops import CONTROL, Action, Body, Op
from tkgen.ir.types import Program, Role
from tkgen.source import Span
from tkgen.syntax import ast

LEVELS = {"low": 0, "high": 1}
COUNTERS = ("vm", "lds")
MOST_LEFT = 255  # operations that a wait may leave outstanding; what a target counts, a check of it says
MOST_AHEAD = 64  # K-steps between an operation and the loop's; more than there are buffers


def bodies(program: Program) -> tuple[tuple[Body, ...], bool, bool] | None:
    """(bodies, barriers automatic, waits automatic) of the spec's schedule blocks; None when it has none.

    Raises:
        SpecError: an index out of range, an unknown option, a role without a schedule.
    """
    blocks = {r.name: r.schedule or program.schedule for r in program.roles}
    if not any(b is not None and b.clusters for b in blocks.values()):
        return None
    errors: list[Diagnostic] = []
    result = []
    auto = {"barriers": False, "waits": False}
    for role in program.roles:
        block = blocks[role.name]
        if block is None:
            errors.append(
                Diagnostic("E216", f"role `{role.name}` has no schedule, but another role has one", Label(role.span,
                ""),
                           fix=Fix("give every role a `schedule` block, or none"))
            )  # fmt: skip
            continue
        for option, value in (("barriers", block.barriers), ("waits", block.waits)):
            if value is not None:
                if value.id not in ("auto", "manual"):
                    errors.append(
                        Diagnostic(
                            "E216",
                            f"`{option}` cannot be `{value.id}`",
                            Label(value.span),
                            fix=Fix("write `auto` or `manual`"),
                        )
                    )
                auto[option] |= value.id == "auto"
        result.append(Body(role.name, tuple(_ops(program, role, block, auto["barriers"], errors))))
    if len({r.schedule for r in program.roles}) > 1 and auto["barriers"]:
        spans = [r.schedule.span for r in program.roles if r.schedule]
        errors.append(
            Diagnostic("E216", "barriers of schedules that differ by role cannot be placed automatically",
                       Label(spans[0]), fix=Fix("write the barriers, or drop the schedules"))
        )  # fmt: skip
    if errors:
        raise SpecError(errors)
    return tuple(result), auto["barriers"], auto["waits"]


def merged(program: Program, bodies: tuple[Body, ...]) -> list[tuple[str, Op]]:
    """One sequence of all roles: what lies between the same two barriers stands together, in role order."""
    segments: list[list[tuple[str, Op]]] = []
    for body in bodies:
        index = 0
        for op in body.ops:
            if len(segments) <= index:
                segments.append([])
            if op.action is Action.BARRIER:
                index += 1
            elif op.action not in CONTROL:
                segments[index].append((body.role, op))
    return [pair for segment in segments for pair in segment]


def _ops(program: Program, role: Role, block: ast.Schedule, auto_barriers: bool, errors: list[Diagnostic]) -> list[Op]:
    ops: list[Op] = []
    for cluster in block.clusters:
        raised = False
        for item in cluster.ops:
            try:
                op = _op(program, role, item)
            except SpecError as e:
                errors += e.diagnostics
                continue
            raised |= op.action is Action.PRIORITY and op.count > 0
            ops.append(op)
        if raised:
            ops.append(Op(Action.PRIORITY, count=0, span=cluster.span))
        ops.append(Op(Action.FENCE, span=cluster.span))
        if cluster.kind == "cluster" and not auto_barriers:
            # `automatic`: it paces the cluster, so where nothing is left of one it may go, and it is never called
            # redundant.
            ops += [Op(Action.BARRIER, automatic=True, span=cluster.span), Op(Action.FENCE, span=cluster.span)]
    return ops


def _op(program: Program, role: Role, item: ast.ScheduleOp) -> Op:
    match item:
        case ast.Barrier():
            return Op(Action.BARRIER, span=item.span)
        case ast.Wait(counter=counter, count=count):
            if counter.id not in COUNTERS:
                raise _error(f"there is no counter `{counter.id}`", counter.span, "write `vm` (global) or `lds`")
            left = _number(count)
            if not 0 <= left <= MOST_LEFT:
                message = f"{left} operations cannot be left outstanding"
                raise _error(message, count.span, "write 0 or more, and no more than the counter holds")
            return Op(Action.WAIT, counter=counter.id, count=left, span=item.span)
        case ast.Priority(level=level):
            value = LEVELS.get(level.id, -1) if isinstance(level, ast.Name) else _number(level)
            if not 0 <= value <= 3:
                raise _error("there is no such priority", level.span, "write `low`, `high` or a number 0..3")
            return Op(Action.PRIORITY, count=value, span=item.span)
        case ast.Multiply(rows=rows, cols=cols, slices=slices):
            if not role.multiplies:
                raise _error(
                    f"role `{role.name}` has no accumulators to multiply into", item.span,
                    f"accumulators belong to role `{program.compute.name}`; leave `multiply` to its schedule", "E401",
                )  # fmt: skip
            shape = program.accumulator.fragments
            return Op(
                Action.MULTIPLY,
                rows=_range(rows, shape[0], "fragment row"),
                cols=_range(cols, shape[1], "fragment column"),
                slices=_range(slices, program.a.slices, "slice"),
                span=item.span,
            )
        case ast.Move():
            return _move(program, role, item)
    raise AssertionError(item)


def _move(program: Program, role: Role, move: ast.Move) -> Op:
    names = [o.name for o in program.operands]
    if move.name.id not in names:
        raise _error(
            f"`{move.name.id}` is no operand of the product", move.name.span,
            f"the operands are `{names[0]}` and `{names[1]}`", "E200",
        )  # fmt: skip
    operand = program.operand(move.name.id)
    offset = move.step.offset if move.step else 0
    if move.step and abs(offset) > MOST_AHEAD:
        raise _error(
            f"`{move.step.span.text}` is {abs(offset)} K-steps away; nothing is held so long",
            move.step.span,
            f"write `k{offset // abs(offset) * MOST_AHEAD:+}` at most",
        )
    action = Action(move.action)
    if action is not Action.READ:
        if move.frags or move.slices:
            raise _error(
                "only `read` takes fragments and slices: a whole tile moves to LDS", move.span, "leave them out"
            )
        if operand.name not in role.loads:
            owner = next((r.name for r in program.roles if operand.name in r.loads), None)
            fix = f"role `{owner}` loads it; leave it to its schedule, or" if owner else "for it to do so,"
            fix += f" write `load {operand.name}` in role `{role.name}`"
            raise _error(f"role `{role.name}` does not load `{operand.name}`", move.span, fix, "E401")
        return Op(action, operand.name, offset, span=move.span)
    if not role.multiplies:
        raise _error(
            f"role `{role.name}` reads `{operand.name}` to registers that it never multiplies",
            move.span,
            f"a register tile belongs to one role; role `{program.compute.name}` multiplies, so it must read",
            "E401",
        )
    fragments = _range(move.frags, operand.fragments, f"fragment of {operand.name}")
    is_a = operand is program.a
    return Op(
        action,
        operand.name,
        offset,
        rows=fragments if is_a else (),
        cols=() if is_a else fragments,
        slices=_range(move.slices, operand.slices, "slice"),
        span=move.span,
    )


def _range(index: ast.Index | None, count: int, what: str) -> tuple[int, ...]:
    if index is None or index.first is None:
        return tuple(range(count))
    first = _number(index.first)
    last = first if index.last is None else _number(index.last)
    if not 0 <= first <= last < count:
        raise _error(
            f"{what} {index.span.text} is out of range: there are {count} (0..{count - 1})",
            index.span,
            "write 0 or `*`" if count == 1 else f"write one of 0..{count - 1}, or `*` for all",
            "E217",
        )
    return tuple(range(first, last + 1))


def _number(expr: ast.Expr) -> int:
    if isinstance(expr, ast.Number) and isinstance(expr.value, int):
        return expr.value
    raise _error("a plain number is expected in a schedule", expr.span, "write the number itself")


def _error(message: str, span: Span, fix: str, code: str = "E216") -> SpecError:
    return SpecError(Diagnostic(code, message, Label(span), fix=Fix(fix)))
