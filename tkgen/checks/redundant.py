"""Barriers and waits of a written schedule that order nothing (W301, W302).

Rule. A barrier, or a wait, is redundant if nothing is left unordered without it, and without all others that are
reported. The proof of `tkgen.schedule.traces` runs again without candidates, which are halved where not all can go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TypeVar

from tkgen.checks.words import place
from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.schedule.epochs import Cover
from tkgen.schedule.plan import Plan
from tkgen.source import Span
from tkgen.tile.ops import Barrier, Bodies, barriers
from tkgen.tile.program import Drain, Op

T = TypeVar("T")
PROOFS = 12_000  # events that each search may trace; beyond they stay silent


def redundant(plan: Plan) -> list[Diagnostic]:
    """Barriers and waits of a written schedule that can all go together without anything left unordered.

    A schedule with phase shifts is left alone: its barriers and waits are also the clock of its halves.
    """
    if plan.automatic or plan.program.phases:
        return []
    whole = plan.with_bodies(plan.bodies)  # with the barriers of prologue and epilogue that were trimmed
    known = whole.purposes()
    return [*_redundant_barriers(whole, known.covers), *_redundant_waits(whole, known.completing)]


def _together(plan: Plan, candidates: Sequence[T], without: Callable[[Sequence[T]], Plan]) -> list[T]:
    """Candidates that can all be left out: halves that cannot go whole are halved again, as far as `PROOFS` reaches."""
    budget = PROOFS
    gone: list[T] = []
    pending = [list(candidates)] if candidates else []
    while pending:
        group = pending.pop()
        budget -= _events(plan)
        if budget < 0:
            break
        if not without([*gone, *group]).conflicts():
            gone += group
        elif len(group) > 1:
            half = len(group) // 2
            pending += [group[half:], group[:half]]
    return gone


def _redundant_barriers(plan: Plan, covers: Mapping[int, Cover]) -> Iterator[Diagnostic]:
    candidates = [
        n
        for n in range(min(map(barriers, plan.bodies.values())))
        # A barrier that no K-step reaches is no subject: something else is wrong.
        if all(op.span and op.identity in covers and not covers[op.identity].alone for op in _nth(plan, n))
    ]
    removed = _together(plan, candidates, lambda ordinals: plan.with_bodies(_without_barriers(plan, ordinals)))
    for n in sorted(removed):
        op = _nth(plan, n)[0]
        shared = covers[op.identity].shared
        pair = [f"`{plan.written(each)}`" for each in shared[:2]] if shared else []
        yield Diagnostic(
            "W301",
            "this barrier orders nothing",
            Label(place(plan.program, op), "the barrier that ends this cluster" if _ends_cluster(op) else ""),
            (Label(place(plan.program, shared[2]), "already orders them"),)
            if shared and shared[2].span != op.span
            else (),
            (
                f"of the accesses before and after it, such as {' and '.join(pair)}, all that must be ordered "
                "are ordered by another barrier"
                if shared
                else "no access that completes before it conflicts with an access of another wave after it",
            ),
            _removal(op) if len(plan.bodies) == 1 else Fix("remove it in the schedule of every role"),
        )


def _ends_cluster(op: Op) -> bool:
    return op.span is not None and op.span.text != "barrier"


def _removal(op: Op) -> Fix:
    assert op.span is not None
    if _ends_cluster(op):
        keyword = Span(op.span.file, op.span.start, op.span.start + len("cluster"))
        return Fix("make the line a `group`", (Edit(keyword, "group"),))
    return Fix("remove it", (_deletion(op.span),))


def _deletion(span: Span) -> Edit:
    """Remove an operation and the blanks before it."""
    before = span.file.text[: span.start]
    return Edit(Span(span.file, len(before.rstrip(" ")), span.end), "")


def _nth(plan: Plan, n: int) -> list[Op]:
    """The n-th barrier of an iteration, of each role."""
    return [[op for op in body if isinstance(op, Barrier)][n] for body in plan.bodies.values()]


def _without_barriers(plan: Plan, ordinals: Sequence[int]) -> Bodies:
    result = {}
    for role, body in plan.bodies.items():
        places = [i for i, op in enumerate(body) if isinstance(op, Barrier)]
        gone = {places[n] for n in ordinals}
        result[role] = tuple(op for i, op in enumerate(body) if i not in gone)
    return result


def _redundant_waits(plan: Plan, completing: Set[int]) -> Iterator[Diagnostic]:
    """Waits that complete nothing, and those whose work is done in time without them."""
    waits = [op for body in plan.bodies.values() for op in body if isinstance(op, Drain) and op.span]

    def without(gone: Sequence[Op]) -> Plan:
        numbers = {op.identity for op in gone}
        kept = {role: tuple(op for op in body if op.identity not in numbers) for role, body in plan.bodies.items()}
        return plan.with_bodies(kept)

    idle = [op for op in waits if op.identity not in completing]
    rest = [op for op in waits if op.identity in completing]
    late = {op.identity for op in _together(plan, rest, lambda gone: without([*idle, *gone]))}
    for op in waits:
        if op.identity in completing and op.identity not in late:
            continue
        span = place(plan.program, op)
        note = (
            "the same operations are waited for again before the barrier that orders them"
            if op.identity in late
            else "all operations that it could wait for are already complete"
        )
        yield Diagnostic(
            "W302", "no operation depends on this wait", Label(span), (), (note,), Fix("remove it", (_deletion(span),))
        )


def _events(plan: Plan) -> int:
    """Operations that one proof traces."""
    return plan.tiles_to_prove * sum(
        len(w.before) + len(w.tiles.body) * passes + len(w.behind)
        for w in plan.waves
        for passes in plan.passes_to_prove
    )
