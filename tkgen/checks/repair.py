"""Repairs of written schedules: the edit that adds a missing barrier or wait, proven before it is offered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tkgen.diagnostics import Edit
from tkgen.schedule.barriers import minimum_stabbing
from tkgen.schedule.plan import Plan
from tkgen.schedule.traces import Conflict, Event
from tkgen.source import Span
from tkgen.tile.ops import Barrier, Copy, Fence
from tkgen.tile.program import Drain, Op

RACES = ("RAW", "WAR", "WAW")


@dataclass(frozen=True)
class Missing:
    """One barrier that a schedule lacks: the conflicts it would order, and the edit that adds it, if that is proven."""

    conflicts: tuple[Conflict, ...]
    edit: Edit | None


@dataclass(frozen=True)
class _Insertion:
    """Operations to put before position `at` of an iteration, and the text that says the same."""

    at: int
    ops: tuple[Op, ...]
    edit: Edit


def missing_barriers(plan: Plan, races: Sequence[Conflict]) -> list[Missing]:
    """The races grouped by the fewest barriers that would order them.

    Positions and arcs are those of `tkgen.schedule.barriers`, over the one iteration that all waves execute. Where
    roles have schedules of their own, races between the same two lines are one group, and no edit is offered.
    """
    if len(plan.bodies) > 1:
        return [Missing(tuple(group), None) for group in _by_lines(races)]
    (ops,) = plan.bodies.values()
    arcs = [_arc(ops, c) for c in races]
    possible = {arc for arc in arcs if arc is not None}
    gaps = minimum_stabbing(possible, len(ops))
    groups: dict[int, list[Conflict]] = {}
    ordered: dict[int, list[tuple[int, int]]] = {}  # the arcs of each group
    alone: list[Conflict] = []
    for conflict, arc in zip(races, arcs, strict=True):
        gap = next((g for g in gaps if arc is not None and (g - arc[0]) % len(ops) < arc[1]), None)
        (alone if gap is None else groups.setdefault(gap, [])).append(conflict)
        if gap is not None and arc is not None:
            ordered.setdefault(gap, []).append(arc)
    insertions = [_insertion(ops, ordered[gap]) for gap in groups]
    proven = not alone and _proves(plan, [i for i in insertions if i], races)
    found = [
        Missing(tuple(group), insertion.edit if insertion and proven else None)
        for group, insertion in zip(groups.values(), insertions, strict=True)
    ]
    return found + [Missing(tuple(group), None) for group in _by_lines(alone)]


def never_in_time(plan: Plan, conflict: Conflict) -> bool:
    """Return True if the first operation comes later than the second in the program of every wave: no barrier helps."""
    body = next(iter(plan.bodies.values()))
    listed = [any(op.same(e.op) for op in body) for e in (conflict.first, conflict.second) if e]
    same_tile = conflict.first and conflict.second and conflict.first.tile == conflict.second.tile
    return len(plan.bodies) == 1 and all(listed) and bool(same_tile) and _arc(body, conflict) is None


def missing_wait(plan: Plan, conflict: Conflict) -> Edit | None:
    """The edit that makes the wave wait for the first access before the barrier that comes too early."""
    first, second = conflict.first, conflict.second
    assert first is not None and second is not None
    role = next((role for role, body in plan.bodies.items() if any(op.same(first.op) for op in body)), None)
    if plan.automatic or role is None:
        return None
    body = plan.bodies[role]
    start = next(i for i, op in enumerate(body) if op.same(first.op))
    barrier = next((i for i, op in enumerate(body) if i > start and isinstance(op, Barrier)), None)
    if barrier is None:
        return None
    counter = "vm" if isinstance(first.op, Copy) else "lds"
    op, at = body[barrier], barrier
    if op.span is None:
        return None
    if op.span.text == "barrier":
        edit = Edit(Span(op.span.file, op.span.start, op.span.start), f"wait {counter} 0 ")
    else:  # the barrier that ends a cluster; before it stands the cluster's fence
        edit, at = Edit(Span(op.span.file, op.span.end, op.span.end), f" wait {counter} 0"), barrier - 1
    wait = Drain(counter, span=op.span)
    repaired = plan.with_bodies({**plan.bodies, role: (*body[:at], wait, *body[at:])})
    return edit if not any(_same(c, conflict) for c in repaired.conflicts()) else None


def _same(a: Conflict, b: Conflict) -> bool:
    return (
        (a.kind, a.operand) == (b.kind, b.operand) and _op(a.first) == _op(b.first) and _op(a.second) == _op(b.second)
    )


def _op(event: Event | None) -> Op | None:
    return event.op if event else None


def _by_lines(races: Iterable[Conflict]) -> list[list[Conflict]]:
    groups: dict[tuple[object, ...], list[Conflict]] = {}
    for c in races:
        lines = tuple(e.op.span.line if e and e.op.span else 0 for e in (c.first, c.second))
        groups.setdefault((c.kind, *lines), []).append(c)
    return list(groups.values())


def _arc(ops: Sequence[Op], conflict: Conflict) -> tuple[int, int] | None:
    """The gaps of the iteration's circle in one of which a barrier would order the conflict; None where none would."""
    x, y = conflict.first, conflict.second
    if x is None or y is None or x.tile != y.tile:
        return None
    positions = [next((i for i, op in enumerate(ops) if op.same(e.op)), None) for e in (x, y)]
    source, target = positions
    if source is None or target is None:
        return None
    distance = (y.step - ops[target].offset) - (x.step - ops[source].offset)
    gaps = target + distance * len(ops) - source
    return ((source + 1) % len(ops), min(gaps, len(ops))) if gaps > 0 else None


def _insertion(ops: Sequence[Op], arcs: Sequence[tuple[int, int]]) -> _Insertion | None:
    """A barrier in a gap that all arcs share: the end of a `group` line if there is one, else the last gap."""
    shared = [g for g in range(len(ops)) if all((g - first) % len(ops) < count for first, count in arcs)]
    last_first = sorted(shared, key=lambda g: (g - arcs[0][0]) % len(ops), reverse=True)
    for gap in last_first:
        end = ops[gap - 1]  # gap 0 follows the last operation
        if isinstance(end, Fence) and end.span is not None and re.match(r"group\b", end.span.text):
            keyword = Span(end.span.file, end.span.start, end.span.start + len("group"))
            inserted = (Barrier(span=end.span), Fence(span=end.span))
            return _Insertion(gap or len(ops), inserted, Edit(keyword, "cluster"))
    for gap in last_first:
        op = ops[gap]
        if op.span is not None and not isinstance(op, Fence | Barrier):
            begins = re.match(rf"{op.word}\b", op.span.text)
            text = "barrier " if begins else f"barrier {op.word} "
            at = Span(op.span.file, op.span.start, op.span.start)
            return _Insertion(gap, (Barrier(span=op.span),), Edit(at, text))
    return None


def _proves(plan: Plan, insertions: Sequence[_Insertion], races: Sequence[Conflict]) -> bool:
    """Return True if the schedule with all insertions has none of the races left."""
    if plan.automatic or not insertions:
        return False
    ((role, body),) = plan.bodies.items()
    ops = list(body)
    for insertion in sorted(insertions, key=lambda i: i.at, reverse=True):
        ops[insertion.at : insertion.at] = insertion.ops
    repaired = plan.with_bodies({role: tuple(ops)})
    return not any(c.kind in RACES for c in repaired.conflicts())
