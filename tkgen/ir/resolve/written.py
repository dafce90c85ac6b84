"""Written schedules: each line of a `schedule` block as operations of the role that follows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import gcd

from tkgen.diagnostics import Edit, Fix, Label
from tkgen.diagnostics.edits import replaced
from tkgen.ir.resolve.names import Scope, Stop, statements
from tkgen.ir.resolve.sizes import number
from tkgen.ir.types import Accumulator, Operand, Role, Side
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.tile.ops import LOADS, MOVES, Barrier, Cluster, Mix, Multiply, Priority, Read, Schedule, Take
from tkgen.tile.program import Drain, Op

LEVELS = {"low": 0, "high": 1}
COUNTERS = ("vm", "lds")
MOST_LEFT = 255  # operations that a wait may leave outstanding; what a target counts, a check of it says
MOST_MIXED = 256  # instructions, or repetitions, of a `mix`; more than a K-step has
MOST_AHEAD = 64  # K-steps between an operation and the loop's; more than there are buffers


@dataclass(frozen=True)
class _Kernel:
    """The names that operations of `role` may use; `sums` are the products, each with the names of its operands."""

    scope: Scope
    role: Role
    roles: tuple[Role, ...]
    operands: tuple[Operand, ...]
    sums: Mapping[str, tuple[str, str]]
    accumulator: Accumulator
    part: str = ""  # of the schedule: the loop, or `prologue` or `drain`

    @property
    def multiplier(self) -> str:
        """The name of the role that multiplies."""
        return next(r.name for r in self.roles if r.multiplies)

    def interleaved(self) -> tuple[Edit, ...]:
        """The `accumulate` line with `interleaved`, where it has a tile."""
        at = self.accumulator.span
        found = re.search(r"\btile\s+\w+\s+x\s+\w+(\s+blocked\b)?", at.text)
        if found is None:
            return ()
        begin = found.start(1) if found[1] else found.end()
        return (replaced(at, begin, found.end(), " interleaved"),)


def scheduled(
    scope: Scope,
    roles: tuple[Role, ...],
    operands: tuple[Operand, ...],
    sums: Mapping[str, tuple[str, str]],
    accumulator: Accumulator,
) -> tuple[Role, ...]:
    """The roles, each with the schedule that it follows: its own, else the kernel's; every problem is said.

    `sums` are the products, each with the names of its factors.
    """
    shared = [s for s in scope.kernel.body if not isinstance(s, ast.Role)]
    own = [role.body for role in scope.roles] or [() for _ in roles]
    clauses = [next(iter(statements(ast.Schedule, b) or statements(ast.Schedule, shared)), None) for b in own]
    result = []
    for role, body in zip(roles, own, strict=True):
        _named_in_vain(scope, role, body)
    for role, clause in zip(roles, clauses, strict=True):
        unasked = not scope.roles and not role.multiplies
        kernel = _Kernel(scope, role, roles, operands, sums, accumulator)
        found = _schedule(kernel, clause) if clause and not unasked else None
        result.append(replace(role, schedule=found))
    if any(r.schedule and r.schedule.clusters for r in result):
        _agree(scope, result)
    return tuple(result)


def _named_in_vain(scope: Scope, role: Role, body: Sequence[ast.Statement]) -> None:
    """E216 for a schedule with a name in a role that it has nothing to say to."""
    for clause in statements(ast.Schedule, body):
        if clause.preset is not None and not role.multiplies:
            message = f"role `{role.name}` does not multiply, and `schedule {clause.preset.id}` orders multiplies"
            scope.error("E216", message, clause.span, secondary=(Label(role.span, "loads alone"),),
                        fix="move it to the role that multiplies, or write clusters for this role")  # fmt: skip


def divided(operands: tuple[Operand, ...], roles: Sequence[Role]) -> tuple[Operand, ...]:
    """The operands, each with the parts in which the roles' schedules bring it to LDS."""
    schedules = [r.schedule for r in roles if r.schedule]
    ops = [op for s in schedules for c in (*s.prologue, *s.clusters, *s.drain) for op in c.ops]
    result = []
    for operand in operands:
        mine = [op.tile for op in ops if isinstance(op, LOADS) and op.operand == operand.name]
        along = _pieces(operand.fragments, [tile.fragments for tile in mine])
        result.append(replace(operand, parts=(along, _pieces(operand.slices, [tile.slices for tile in mine]))))
    return tuple(result)


def _pieces(count: int, runs: Iterable[tuple[int, ...]]) -> int:
    """The fewest equal pieces of 0 .. count - 1 of which all runs consist."""
    ends = [end for run in runs if run for end in (run[0], run[-1] + 1)]
    return count // gcd(count, *ends)


def _agree(scope: Scope, roles: Sequence[Role]) -> None:
    """Report a role without a schedule beside one that has one, and automatic barriers in schedules that differ by
    role.
    """
    for role in roles:
        if role.schedule is None:
            message = f"role `{role.name}` has no schedule, but another role has one"
            scope.error("E216", message, role.span, fix="give every role a `schedule` block, or none")
    spans = [r.schedule.span for r in roles if r.schedule]
    if len(set(spans)) > 1 and any(r.schedule and r.schedule.barriers for r in roles):
        scope.error(
            "E216",
            "if roles have different schedules, barriers cannot be placed automatically",
            spans[0],
            fix="write the barriers, or drop the schedules",
        )


def _schedule(kernel: _Kernel, clause: ast.Schedule) -> Schedule:
    for option, value in (("barriers", clause.barriers), ("waits", clause.waits)):
        if value is not None and value.id not in ("auto", "manual"):
            kernel.scope.error("E216", f"`{option}` cannot be `{value.id}`", value.span, fix="write `auto` or `manual`")
    return Schedule(
        preset=clause.preset.id if clause.preset else None,
        barriers=clause.barriers is not None and clause.barriers.id == "auto",
        waits=clause.waits is not None and clause.waits.id == "auto",
        clusters=_clusters(kernel, clause, ""),
        span=clause.span,
        preset_span=clause.preset.span if clause.preset else None,
        prologue=_clusters(kernel, clause, "prologue"),
        drain=_clusters(kernel, clause, "drain"),
    )


def _clusters(kernel: _Kernel, clause: ast.Schedule, part: str) -> tuple[Cluster, ...]:
    """The lines of a part of a schedule; none where groups of waves have schedules of their own, which checks say."""
    if kernel.scope.groups:
        return ()
    here = replace(kernel, part=part)
    lines = [c for c in clause.clusters if (c.part or "") == part]
    return tuple(Cluster(_ops(here, c.ops), c.kind == "cluster", c.span) for c in lines)


def _ops(kernel: _Kernel, items: Sequence[ast.ScheduleOp]) -> tuple[Op, ...]:
    ops: list[Op] = []
    for item in items:
        with suppress(Stop):  # what is wrong with the other operations is said, too
            ops += _multiplies(kernel, item) if isinstance(item, ast.Multiply) else (_op(kernel, item),)
    return tuple(ops)


def _op(kernel: _Kernel, item: ast.ScheduleOp) -> Op:
    error = kernel.scope.error
    match item:
        case ast.Barrier():
            return Barrier(span=item.span)
        case ast.Wait(counter=counter, count=count):
            if counter.id not in COUNTERS:
                raise error("E216", f"there is no counter `{counter.id}`", counter.span,
                            fix="write `vm` (global) or `lds`")  # fmt: skip
            left = number(kernel.scope, count)
            if not 0 <= left <= MOST_LEFT:
                raise error("E216", f"{left} operations cannot be left outstanding", count.span,
                            fix="write 0 or more, and no more than the counter holds")  # fmt: skip
            return Drain(counter.id, str(left), span=item.span)
        case ast.Priority(level=level):
            value = LEVELS.get(level.id, -1) if isinstance(level, ast.Name) else number(kernel.scope, level)
            if not 0 <= value <= 3:
                raise error("E216", "there is no such priority", level.span,
                            fix="write `low`, `high` or a number 0..3")  # fmt: skip
            return Priority(value, span=item.span)
        case ast.Compute() | ast.Mix() if isinstance(item, ast.Compute) or "compute" in dict(item.pattern):
            raise error("E216", "`compute` is for fused matmuls, but this loop only sums products", item.span,
                        fix="leave it out")  # fmt: skip
        case ast.Mix(pattern=pattern, times=times):
            sizes = [number(kernel.scope, size) for _, size in pattern]
            found = [
                (times, number(kernel.scope, times)),
                *((at, n) for (_, at), n in zip(pattern, sizes, strict=True)),
            ]
            for at, n in found:
                if not 1 <= n <= MOST_MIXED:
                    raise error("E216", f"{n} is not a valid number of instructions to mix", at.span,
                                fix=f"write 1..{MOST_MIXED}")  # fmt: skip
            kinds = tuple((kind, n) for (kind, _), n in zip(pattern, sizes, strict=True))
            return Mix(kinds, found[0][1], span=item.span)
        case ast.Move():
            return _read(kernel, item) if item.action == Read.word else _load(kernel, item)
    raise AssertionError(item)


def _multiplies(kernel: _Kernel, item: ast.Multiply) -> tuple[Op, ...]:
    """The products that a `multiply` names; all where it names none."""
    if item.piece is not None:
        raise kernel.scope.error("E216", f"`{item.piece[0]}` is for fused matmuls", item.span,
                                 fix="write `(ROWS, COLUMNS; SLICES)`")  # fmt: skip
    rows, cols, slices, offset = _multiplied(kernel, item)
    names = tuple(kernel.sums)
    if item.name is not None and item.name.id not in names:
        raise kernel.scope.error(
            "E200", f"`multiply` names `{item.name.id}`, which is not a sum of products", item.name.span,
            fix=f"name {' or '.join(f'`{n}`' for n in names)}, or no name for all sums", known=names,
        )  # fmt: skip
    return tuple(
        Multiply.of(factors, rows, cols, slices, offset, name if len(names) > 1 else "", item.span)
        for name, factors in kernel.sums.items()
        if item.name is None or item.name.id == name
    )


_Indices = tuple[int, ...]


def _multiplied(kernel: _Kernel, item: ast.Multiply) -> tuple[_Indices, _Indices, _Indices, int]:
    """Fragment rows and columns, slices, and the K-step of a `multiply`."""
    if not kernel.role.multiplies:
        raise kernel.scope.error(
            "E401", f"role `{kernel.role.name}` has no accumulators to multiply into", item.span,
            fix=f"accumulators belong to role `{kernel.multiplier}`; leave `multiply` to its schedule",
        )  # fmt: skip
    rows, cols = kernel.accumulator.fragments
    offset = _step(kernel, item.step, item.span)
    if offset and not kernel.part and item.step is not None:
        raise kernel.scope.error("E216", "the loop multiplies its own K-step", item.step.span, fix="remove the step")
    return (
        _range(kernel.scope, item.rows, rows, "fragment row"),
        _range(kernel.scope, item.cols, cols, "fragment column"),
        _range(kernel.scope, item.slices, kernel.operands[0].slices, "slice"),
        offset,
    )


def _load(kernel: _Kernel, move: ast.Move) -> Op:
    """Return the operation that brings a tile, or a part of it, to LDS or to staging registers."""
    operand, offset = _operand(kernel, move)
    role = kernel.role
    if not operand.shared:
        raise kernel.scope.error(
            "E220",
            f"`{move.action} {operand.name}` in the schedule, but `{operand.name}` bypasses LDS",
            move.span, secondary=(Label(operand.span, f"no `shared` line names `{operand.name}`"),),
            fix=f"write `read {operand.name}`, which loads it from global memory to registers",
        )  # fmt: skip
    if operand.name not in role.loads:
        owner = next((r.name for r in kernel.roles if operand.name in r.loads), None)
        fix = f"role `{owner}` loads it; leave it to its schedule, or" if owner else "to load it here,"
        fix += f" write `load {operand.name}` in role `{role.name}`"
        raise kernel.scope.error("E401", f"role `{role.name}` does not load `{operand.name}`", move.span, fix=fix)
    fragments, slices = _touched(kernel, operand, move)
    if len(fragments) == operand.fragments:
        fragments = ()
    elif not _side_by_side(kernel, operand):
        raise kernel.scope.error(
            "E216",
            f"fragments of `{operand.name}` cannot be moved separately: the fragments of one wave are together in "
            "its tile",
            move.span,
            fix=Fix(
                "write `interleaved` at the end of the `accumulate` line, so that equal fragments of all waves are "
                "together",
                kernel.interleaved(),
                certain=False,
            ),
        )
    slices = slices if len(slices) < operand.slices else ()
    return MOVES[move.action].of(operand.name, offset, fragments, slices, move.span)


def _side_by_side(kernel: _Kernel, operand: Operand) -> bool:
    """Return True if the same fragment of all waves is one piece of a K-step's tile."""
    shape = next(r.shape for r in kernel.roles if r.multiplies)
    assert shape is not None
    return kernel.accumulator.interleaved or shape[0 if operand.side is Side.A else 1] == 1


def _touched(kernel: _Kernel, operand: Operand, move: ast.Move) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The fragments that a move names, and the slices, which the spec counts as it declares them for the operand."""
    fragments = _range(kernel.scope, move.frags, operand.fragments, f"fragment of {operand.name}")
    own = _range(kernel.scope, move.slices, operand.slices // operand.together, "slice")
    return fragments, tuple(range(own[0] * operand.together, (own[-1] + 1) * operand.together))


def _read(kernel: _Kernel, move: ast.Move) -> Op:
    """LDS, or global memory, to register tiles."""
    operand, offset = _operand(kernel, move)
    role = kernel.role
    if not role.multiplies:
        raise kernel.scope.error(
            "E401", f"role `{role.name}` reads `{operand.name}` to registers that it never multiplies", move.span,
            fix=f"a register tile belongs to one role; role `{kernel.multiplier}` multiplies, so it must read",
        )  # fmt: skip
    fragments, slices = _touched(kernel, operand, move)
    return (Read if operand.shared else Take).of(operand.name, offset, fragments, slices, move.span)


def _operand(kernel: _Kernel, move: ast.Move) -> tuple[Operand, int]:
    """The operand that a move names, and the K-step."""
    found = next((o for o in kernel.operands if o.name == move.name.id), None)
    if found is None:
        names = [f"`{o.name}`" for o in kernel.operands]
        raise kernel.scope.error(
            "E200", f"`{move.name.id}` is not an operand of the product", move.name.span,
            fix=f"the operands are {', '.join(names[:-1])} and {names[-1]}",
        )  # fmt: skip
    return found, _step(kernel, move.step, move.span)


FORMS = {"": ("k", "`[k+1]`"), "prologue": ("zero", "`[0]`"), "drain": ("end", "`[end-1]`")}  # how steps are counted


def _step(kernel: _Kernel, step: ast.StepRef | None, at: Span) -> int:
    """The K-step of an operation: relative to the loop's, to the first one in a prologue, to the end in a drain."""
    base, form = FORMS[kernel.part]
    if (step.base if step else "k") != base:
        where = f"in the {kernel.part} " if kernel.part else "in the loop "
        message = f"{where}K-steps are counted as in {form}"
        raise kernel.scope.error("E216", message, step.span if step else at, fix=f"write {form}")
    offset = step.offset if step else 0
    if step and abs(offset) > MOST_AHEAD:
        sign = "+" if offset > 0 else "-"
        raise kernel.scope.error(
            "E216",
            f"`{step.span.text}` is {abs(offset)} K-steps away; no buffer holds data that long",
            step.span,
            fix=f"write `{'' if base == 'zero' else step.base + sign}{MOST_AHEAD}` at most",
        )
    return offset


def _range(scope: Scope, index: ast.Index | None, count: int, what: str) -> tuple[int, ...]:
    """The fragments or slices, of `count`, that an index names; all where there is none."""
    if index is None or index.first is None:
        return tuple(range(count))
    first = number(scope, index.first)
    last = first if index.last is None else number(scope, index.last)
    if not 0 <= first <= last < count:
        raise scope.error(
            "E217",
            f"{what} {index.span.text} is out of range: there are {count} (0..{count - 1})",
            index.span,
            fix=Fix(
                "write 0 or `*`" if count == 1 else f"write `*` for all, or one of 0..{count - 1}",
                (Edit(index.span, "*"),),
                certain=False,
            ),
        )
    return tuple(range(first, last + 1))
