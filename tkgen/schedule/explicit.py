"""Written schedules as bodies: clusters end with a barrier and a fence, groups with a fence only."""

from __future__ import annotations

from dataclasses import replace

from tkgen.ir.types import Program
from tkgen.source import Span
from tkgen.tile.ops import Barrier, Bodies, Fence, Mix, Priority, Schedule, numbered
from tkgen.tile.program import Control, Op


def bodies(program: Program) -> tuple[Bodies, bool, bool] | None:
    """(bodies, barriers automatic, waits automatic) of the spec's schedule blocks; None when it has none."""
    followed = [(role.name, role.schedule) for role in program.roles if role.schedule]
    if not any(schedule.clusters for _, schedule in followed):
        return None
    barriers, waits = any(s.barriers for _, s in followed), any(s.waits for _, s in followed)
    found, begins, free = dict[str, tuple[Op, ...]](), dict[Span, int](), 0
    for role, schedule in followed:  # two roles that follow one clause do the same operations
        ops = _ops(schedule)
        first = begins.setdefault(schedule.span, free)
        free = max(free, first + len(ops))
        found[role] = numbered(ops, first)
    return found, barriers, waits


def ends(schedule: Schedule | None) -> tuple[tuple[Op, ...], tuple[Op, ...]] | None:
    """Prologue and drain as written; None where they are made of the loop's."""
    if schedule is None or not schedule.drain:
        return None
    prologue, drain = (
        tuple(
            replace(op, automatic=False) if isinstance(op, Control) else op
            for op in _ops(replace(schedule, clusters=lines))
            if not isinstance(op, Mix)
        )
        for lines in (schedule.prologue, schedule.drain)
    )
    return prologue, drain


def merged(program: Program, bodies: Bodies) -> list[tuple[str, Op]]:
    """One sequence of all roles: what lies between the same two barriers stands together, in role order."""
    segments: list[list[tuple[str, Op]]] = []
    for role, body in bodies.items():
        index = 0
        for op in body:
            if len(segments) <= index:
                segments.append([])
            if isinstance(op, Barrier):
                index += 1
            elif not isinstance(op, Control):
                segments[index].append((role, op))
    return [pair for segment in segments for pair in segment]


def _ops(schedule: Schedule) -> list[Op]:
    ops: list[Op] = []
    for cluster in schedule.clusters:
        ops += cluster.ops
        if any(isinstance(op, Priority) and op.level for op in cluster.ops):
            ops.append(Priority(0, span=cluster.span))
        ops.append(Fence(span=cluster.span))
        if cluster.paced and not schedule.barriers:
            # `automatic`: it paces the cluster, so where nothing is left of one it may go, and it is never called
            # redundant.
            ops += [Barrier(automatic=True, span=cluster.span), Fence(span=cluster.span)]
    return ops
