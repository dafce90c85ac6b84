"""The waves of a block: their grid or their roles, what each role loads, phase shifts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tkgen.diagnostics import Label
from tkgen.ir.resolve.names import Scope, Stop, statements
from tkgen.ir.resolve.sizes import number, positive
from tkgen.ir.schedules import alternates
from tkgen.ir.types import ALL_WAVES, BASE_TILE, SIMDS, WAVE_LANES, Operand, PhaseShift, Role
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.syntax.statements import flatten
from tkgen.targets.model import WaveGroups

WANTED_SUMS = 128  # registers of a lane for its sums, where a spec does not say how many waves there are
MOST_SHIFT = 64  # clusters that waves may run apart


def roles(
    scope: Scope,
    block: tuple[int, int, int],
    accumulate: ast.Accumulate,
    axes: tuple[str, ...] = (),
) -> tuple[Role, ...]:
    """The roles in the order of the spec; what they load is not yet said.

    Without any, one of all waves, or a group that loads for those that multiply where waves of the target have groups.

    `axes` are the names of the output's rows and columns, where the spec gives them any.
    """
    tile = (BASE_TILE, BASE_TILE)
    if accumulate.tile is not None:
        tile = (positive(scope, accumulate.tile[0], "tile rows"), positive(scope, accumulate.tile[1], "tile columns"))
    if not scope.roles:
        grid, span = _grid(scope, block, tile, 1 + len(accumulate.others), axes)
        count = grid[0] * grid[1]
        if (groups := scope.groups) is None:
            wave_limit(scope, count, span)
            return (Role(ALL_WAVES, 0, count - 1, grid, (), count, None, span),)
        first, last = groups.waves, groups.waves + count - 1
        wave_limit(scope, last + 1, span)
        loading = Role("producer", 0, first - 1, None, (), first, None, span)
        return loading, Role("consumer", first, last, grid, (), count, None, span)
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
                    f"{shape[0]} x {shape[1]} is {shape[0] * shape[1]} waves, but the role has {last - first + 1}",
                    role.span if role.shape is None else role.shape[0].span.to(role.shape[1].span),
                    secondary=(Label(role.waves.span, f"{last - first + 1} waves"),),
                    fix="make the two equal",
                )
        elif multiplies:
            shape = _split(last - first + 1, block, tile)
        shape = shape if multiplies else None
        resolved.append(Role(role.name.id, first, last, shape, (), last - first + 1, None, role.name.span))
    _partition(scope, resolved)
    if not any(r.multiplies for r in resolved):
        raise scope.error(
            "E215", "no role multiplies: `accumulate` must be inside a role", accumulate.span,
            fix="indent `accumulate` and `store` under the consumer role",
        )  # fmt: skip
    return tuple(resolved)


def no_axis(scope: Scope, along: ast.Name, tiled: Iterable[str]) -> Stop:
    """E214 for waves along a name that is no axis with a tile; `tiled` are those that are."""
    return scope.error(
        "E214", f"waves cannot be along `{along.id}`", along.span, "not an axis with tiles",
        fix="name an axis of `over` that has a tile: `over t in T by 4`", known=tiled,
    )  # fmt: skip


def loading_roles(scope: Scope, read: Collection[str]) -> tuple[Role, ...]:
    """The roles of a kernel whose tiles the waves of a role divide by themselves, each with the tensors that it loads.

    `read` are the names of tensors that the kernel reads.
    """
    found = []
    for role in scope.roles:
        scope.declare(role.name)
        if role.shape is not None:
            at = role.shape[0].span.to(role.shape[1].span)
            raise scope.error("E214", "a grid of waves is only for matrix products", at, fix="remove `as`")
        first, last = _wave_range(scope, role.waves)
        loads = statements(ast.Load, role.body)
        for name in (n for load in loads for n in load.names):
            scope.tensor_named(name, "`load`", read)
        if load := next((load for load in loads if load.by is not None), None):
            raise scope.error("E214", "all waves of a role load together here", load.span, fix="remove `by`")
        names = tuple(dict.fromkeys(n.id for load in loads for n in load.names))
        span = loads[0].span if loads else None
        found.append(Role(role.name.id, first, last, None, names, last - first + 1, None, role.name.span, span))
    if found:
        _partition(scope, found)
    return tuple(found)


def _grid(
    scope: Scope, block: tuple[int, int, int], tile: tuple[int, int], sums: int, axes: tuple[str, ...]
) -> tuple[tuple[int, int], Span]:
    """The grid of waves over the output that `waves` says, or the target wants, and where that is said."""
    groups, clause = scope.groups, next(iter(scope.all(ast.Waves)), None)
    if clause is None:
        if groups is None:
            return _split(_fitting(scope, block, tile, sums), block, tile), scope.kernel.name.span
        return _in_groups(scope, groups, block), scope.kernel.name.span
    rows = positive(scope, clause.rows, "the number of waves")
    wave_limit(scope, rows, clause.span)
    if clause.along:
        return _along(scope, clause.along, rows, axes), clause.span
    if clause.cols:
        grid = rows, positive(scope, clause.cols, "wave columns")
        kinds = ast.Accumulate, ast.Registers, ast.Schedule
        if groups is not None and grid[1] > 1 and not any(scope.all(kind) for kind in kinds):
            # The spec says nothing else of single waves: those of a group share the rows of a matrix instruction.
            return _in_groups(scope, groups, block), clause.span
        return grid, clause.span
    return (rows, 1) if groups else _split(rows, block, tile), clause.span


def _in_groups(scope: Scope, groups: WaveGroups, block: tuple[int, int, int]) -> tuple[int, int]:
    """Waves of whole groups, one above the other, each with its rows of a matrix instruction of the group."""
    count = max(block[0] // groups.wave_rows, 1)
    while count + groups.waves > scope.most_waves and count % 2 == 0:
        count //= 2
    return count, 1


def _fitting(scope: Scope, block: tuple[int, int, int], tile: tuple[int, int], sums: int) -> int:
    """Waves of a block on a target where each multiplies on its own.

    Four, or as many as leave half of a lane's registers beside its sums; two to a SIMD where these are to take turns;
    fewer where there are not so many tiles.
    """
    tiles = max(block[0] // tile[0] * (block[1] // tile[1]), 1)
    wanted = max(SIMDS, sums * block[0] * block[1] // (WAVE_LANES * WANTED_SUMS))
    if any(s.preset is not None and alternates(s.preset.id) for s in scope.all(ast.Schedule)):
        wanted = max(wanted, 2 * SIMDS)
    return max(n for n in (1, 2, 4, 8, 16) if n == 1 or (n <= wanted and tiles % n == 0))


def _wave_range(scope: Scope, waves: ast.WaveRange) -> tuple[int, int]:
    first, last = number(scope, waves.first), number(scope, waves.last)
    if first < 0 or last < first:
        raise scope.error(
            "E214", f"{first}..{last} is not a range of waves", waves.span, fix="write the first wave, then the last"
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
            notes=("waves are numbered from 0; each must belong to a role",),
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
    bodies = [list(flatten(r.body)) for r in scope.roles]
    if not scope.roles:
        bodies = [scope.everything, *([] for _ in resolved[1:])]
    for role, body in zip(resolved, bodies, strict=True):
        found = statements(ast.Load, body)
        for load in found:
            for name in load.names:
                if name.id not in names:
                    raise scope.error(
                        "E200", f"`load` names `{name.id}`, which is not an operand of the product", name.span,
                        fix=f"the operands are {', '.join(names[:-1])} and {names[-1]}",
                    )  # fmt: skip
                if name.id not in shared:
                    raise scope.error(
                        "E220", f"`load {name.id}` loads tiles to LDS, but `{name.id}` bypasses it", name.span,
                        notes=("each wave that multiplies reads its register tiles from global memory",),
                        fix=f"remove `{name.id}`, or add `shared {name.id}`",
                    )  # fmt: skip
        loaded = tuple(dict.fromkeys(n.id for load in found for n in load.names))
        if not scope.roles and not found and body:
            loaded = shared
        by = {positive(scope, load.by, "the group", scope.most_waves) for load in found if load.by}
        if len(by) > 1:
            raise scope.error(
                "E214",
                "all loads of a role must have the same group size",
                found[1].span,
                "another size",
                secondary=(Label(found[0].span, "the first"),),
                fix="write one `load` line for all operands",
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
    """The waves that run later than the others."""
    return tuple(
        PhaseShift(*_wave_range(scope, p.waves), positive(scope, p.amount, "the phase shift", MOST_SHIFT), p.span)
        for p in scope.all(ast.Phase)
    )
