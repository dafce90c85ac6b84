"""The waves of a block: their grid or their roles, what each role loads, phase shifts."""

from __future__ import annotations

from tkgen.diagnostics import Label
from tkgen.ir.resolve.names import Scope, statements
from tkgen.ir.resolve.sizes import number, positive
from tkgen.ir.types import ALL_WAVES, Operand, PhaseShift, Role
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.syntax.ast import flatten

MOST_SHIFT = 64  # clusters that waves may run apart


def roles(
    scope: Scope,
    block: tuple[int, int, int],
    accumulate: ast.Accumulate,
    axes: tuple[str, ...] = (),
) -> tuple[Role, ...]:
    """The roles in the order of the spec, or one of all waves; what they load is not yet said.

    `axes` are the names of the output's rows and columns, where the spec gives them any.
    """
    tile = (positive(scope, accumulate.tile[0], "tile rows"), positive(scope, accumulate.tile[1], "tile columns"))
    if not scope.roles:
        waves = scope.one(ast.Waves, "waves", "waves 4 x 2")
        rows = positive(scope, waves.rows, "the number of waves")
        wave_limit(scope, rows, waves.span)
        if waves.along:
            grid = _along(scope, waves.along, rows, axes)
        else:
            grid = (rows, positive(scope, waves.cols, "wave columns")) if waves.cols else _split(rows, block, tile)
        count = grid[0] * grid[1]
        wave_limit(scope, count, waves.span)
        return (Role(ALL_WAVES, 0, count - 1, grid, (), count, None, waves.span),)
    for waves in scope.all(ast.Waves):
        scope.error(
            "E214",
            "`waves` and `role` both divide the block's waves",
            waves.span,
            secondary=(Label(scope.roles[0].name.span, "a role"),),
            fix="remove the `waves` line; write the grid as `role ... waves 4..7 as 2 x 2`",
        )
    resolved = []
    for role in scope.roles:
        scope.declare(role.name)
        first, last = _wave_range(scope, role.waves)
        multiplies = any(isinstance(s, ast.Accumulate) for s in flatten(role.body))
        shape: tuple[int, int] | None = None
        if role.shape:
            shape = (positive(scope, role.shape[0], "wave rows"), positive(scope, role.shape[1], "wave columns"))
            if shape[0] * shape[1] != last - first + 1:
                raise scope.error(
                    "E214",
                    f"{shape[0]} x {shape[1]} is {shape[0] * shape[1]} waves, the role has {last - first + 1}",
                    role.span if role.shape is None else role.shape[0].span.to(role.shape[1].span),
                    secondary=(Label(role.waves.span, f"{last - first + 1} waves"),),
                    fix="make the two agree",
                )
        elif multiplies:
            shape = _split(last - first + 1, block, tile)
        shape = shape if multiplies else None
        resolved.append(Role(role.name.id, first, last, shape, (), last - first + 1, None, role.name.span))
    _partition(scope, resolved)
    if not any(r.multiplies for r in resolved):
        raise scope.error(
            "E215", "no role multiplies: `accumulate` must stand inside a role", accumulate.span,
            fix="indent `accumulate` and `store` under the consumer role",
        )  # fmt: skip
    return tuple(resolved)


def _wave_range(scope: Scope, waves: ast.WaveRange) -> tuple[int, int]:
    first, last = number(scope, waves.first), number(scope, waves.last)
    if first < 0 or last < first:
        raise scope.error(
            "E214", f"{first}..{last} is no range of waves", waves.span, fix="write the first wave, then the last"
        )
    wave_limit(scope, last + 1, waves.span)
    return first, last


def wave_limit(scope: Scope, waves: int, span: Span) -> None:
    """E214 where a block would have more waves than it can."""
    most = scope.most_waves
    if waves > most:
        raise scope.error(
            "E214",
            f"{waves} waves, but a block has at most {most} ({scope.largest_block[0]} threads)",
            span,
            fix=f"use {most} waves or fewer, each with more or larger fragments",
        )


def _partition(scope: Scope, roles: list[Role]) -> None:
    """Every wave 0..last belongs to exactly one role."""
    owner: dict[int, Role] = {}
    for role in roles:
        for wave in role.waves:
            if wave in owner:
                raise scope.error(
                    "E214",
                    f"wave {wave} has two roles, `{owner[wave].name}` and `{role.name}`",
                    role.span,
                    secondary=(Label(owner[wave].span, "also here"),),
                    fix="give every wave one role: let one range end where the next begins",
                )
            owner[wave] = role
    idle = [w for w in range(max(owner)) if w not in owner]
    if idle:
        raise scope.error(
            "E214",
            f"wave {idle[0]} of {max(owner) + 1} has no role",
            roles[-1].span,
            notes=("waves are launched from 0 on; every one must belong to a role",),
            fix="renumber the roles so that they cover 0..n without a gap",
        )


def _along(scope: Scope, name: ast.Name, count: int, axes: tuple[str, ...]) -> tuple[int, int]:
    """The grid of waves that share the rows or the columns of the output."""
    if name.id not in axes:
        raise scope.error(
            "E200", f"`{name.id}` is no axis of the output tile", name.span,
            fix=f"write {' or '.join(f'`along {a}`' for a in axes) or '`waves 4 x 2`'}", known=axes,
        )  # fmt: skip
    return (count, 1) if name.id == axes[0] else (1, count)


def _split(waves: int, block: tuple[int, int, int], tile: tuple[int, int]) -> tuple[int, int]:
    """The grid of waves that reads least from LDS: the smallest rows + columns of output per wave."""
    grids = [(r, waves // r) for r in range(1, waves + 1) if waves % r == 0]
    fitting = [g for g in grids if block[0] % (g[0] * tile[0]) == 0 and block[1] % (g[1] * tile[1]) == 0]
    return min(fitting or grids, key=lambda g: (block[0] / g[0] + block[1] / g[1], g[1]))


def loads(
    scope: Scope,
    resolved: tuple[Role, ...],
    operands: tuple[Operand, ...],
) -> tuple[Role, ...]:
    """The roles with the operands that each brings to LDS."""
    names, shared = [o.name for o in operands], tuple(o.name for o in operands if o.shared)
    result = []
    bodies = [list(flatten(r.body)) for r in scope.roles] if scope.roles else [scope.everything]
    for role, body in zip(resolved, bodies, strict=True):
        found = statements(ast.Load, body)
        for load in found:
            for name in load.names:
                if name.id not in names:
                    raise scope.error(
                        "E200", f"`load` names `{name.id}`, which is no operand of the product", name.span,
                        fix=f"the operands are {', '.join(names[:-1])} and {names[-1]}",
                    )  # fmt: skip
                if name.id not in shared:
                    raise scope.error(
                        "E220", f"`load {name.id}` brings tiles to LDS, and `{name.id}` goes past it", name.span,
                        notes=("each wave that multiplies reads its register tiles from global memory",),
                        fix=f"leave `{name.id}` out, or add `shared {name.id}`",
                    )  # fmt: skip
        loaded = tuple(dict.fromkeys(n.id for load in found for n in load.names))
        if not scope.roles and not found:
            loaded = shared
        by = {positive(scope, load.by, "the group", scope.most_waves) for load in found if load.by}
        if len(by) > 1:
            raise scope.error(
                "E214",
                "the loads of one role run in groups of one size",
                found[1].span,
                "another size",
                secondary=(Label(found[0].span, "the first"),),
                fix="write one `load` line for all",
            )
        group = by.pop() if by else len(role.waves)
        at = found[0].span if found else None
        result.append(Role(role.name, role.first, role.last, role.shape, loaded, group, role.schedule, role.span, at))
    for operand in operands:
        if operand.shared and not any(operand.name in r.loads for r in result):
            raise scope.error(
                "E215", f"no role loads `{operand.name}`", operand.tensor.span, "an operand of the product",
                fix=f"add `load {operand.name}` to a role",
            )  # fmt: skip
    return tuple(result)


def phases(scope: Scope) -> tuple[PhaseShift, ...]:
    """The waves that run behind the others."""
    return tuple(
        PhaseShift(*_wave_range(scope, p.waves), positive(scope, p.amount, "the phase shift", MOST_SHIFT), p.span)
        for p in scope.all(ast.Phase)
    )
