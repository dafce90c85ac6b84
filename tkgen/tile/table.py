"""The schedule of a kernel as a table: the ops of each role, what each waits for, and the budgets of a block.

`tkgen graph` prints it, for every kernel on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tkgen.diagnostics.text import count_text
from tkgen.tile.ops import Barrier
from tkgen.tile.program import Await, Control, Drain, Part, Role, Sync
from tkgen.tile.scheduled import Footprint, Scheduled, Step

WAITS = (Await, Drain)
HEADS = ("role", "waves", "part", "operation", "waits for")


def as_data(found: Scheduled, taken: Footprint) -> dict[str, Any]:
    """The steps of each role and the budgets, for `tkgen graph --format json`."""
    return {
        "schedule": [
            {"role": role.name, "waves": list(found.agents(role)), "part": step.part.value, "within": list(step.within),
             "operation": step.text, "waits_for": step.waits}
            for role in found.block.roles for step in found.steps(role)
        ],
        "budgets": {
            "registers": [{"role": r.role, "needs": r.needs, "budget": r.budget} for r in taken.registers],
            "memory": {"kind": taken.memory, "used": taken.used, "capacity": taken.capacity},
            "buffers": [{"name": b.name, "slots": b.slots, "bytes": b.bytes} for b in taken.buffers],
            "loops": [{"role": loop.role, "loop": loop.title, "operations": loop.operations,
                       "barriers": loop.barriers, "waits": loop.waits} for loop in loops(found)],
        },
    }  # fmt: skip


def as_text(found: Scheduled, taken: Footprint) -> str:
    """The same as text: a line for each step, then a line for each budget."""
    rows = [HEADS]
    for role in found.block.roles:
        waves = found.agents(role)
        spread = f"{waves[0]}..{waves[-1]}" if len(waves) > 1 else str(waves[0])
        phase = f" phase {role.phase}" if role.phase else ""
        for step in found.steps(role):
            rows.append((role.name + phase, spread, place(step), step.text, step.waits))
    return "\n".join(["schedule", *_aligned(rows), *_budgets(found, taken)]) + "\n"


def place(step: Step) -> str:
    """The part of a role in which a step is, and the loops and conditions around it."""
    part = {Part.PROLOGUE: "before", Part.BODY: "loop", Part.EPILOGUE: "after"}[step.part]
    return ", ".join(step.within) or part


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(HEADS))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _budgets(found: Scheduled, taken: Footprint) -> Iterator[str]:
    for r in taken.registers:
        yield f"registers: {r.role} needs about {r.needs} of {r.budget}"
    buffers = ", ".join(f"{b.name} {b.slots} x {b.bytes}" for b in taken.buffers)
    yield f"{taken.memory}: {taken.used} of {taken.capacity} bytes{f': {buffers}' * bool(buffers)}"
    for loop in loops(found):
        counts = ((loop.operations, "operation"), (loop.barriers, "barrier"), (loop.waits, "wait"))
        yield f"{loop.role}, {loop.title}: {', '.join(count_text(*each) for each in counts)}"


@dataclass(frozen=True)
class LoopBudget:
    """The ops of a role in an iteration of a loop, loops within it not counted."""

    role: str
    title: str
    operations: int
    barriers: int
    waits: int


def loops(found: Scheduled) -> Iterator[LoopBudget]:
    """The loops of each role, waves of other phases not told apart."""
    roles: dict[str, Role] = {}
    for role in found.block.roles:
        roles.setdefault(role.name, role)
    for role in roles.values():
        counts: dict[str, list[int]] = {}
        for step in found.steps(role):
            if step.part is Part.BODY:
                title = next((each for each in reversed(step.within) if each.startswith("loop")), "loop")
                meets = isinstance(step.op, Barrier | Sync)
                kinds = (not isinstance(step.op, Control | Sync | Await), meets, isinstance(step.op, WAITS))
                counts[title] = [a + b for a, b in zip(counts.get(title, [0, 0, 0]), kinds, strict=True)]
        yield from (LoopBudget(role.name, title, *each) for title, each in counts.items())
