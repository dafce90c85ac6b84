"""A wave of a loop with other ops, and whether both proofs accept it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tkgen.backends.cdna.spec import Spec
from tkgen.schedule.loop_steps import unproven
from tkgen.schedule.loop_terms import unlike
from tkgen.tile.program import Advance, Op, Part, Role


def is_right(spec: Spec, wave: Role) -> bool:
    """Return True if no interleaving goes wrong, and what is stored is what the equations say."""
    return unproven(spec.layout, wave, spec.target.synchronisation) is None and unlike(spec.layout, wave) is None


def with_each(wave: Role, change: Callable[[Op], Op]) -> Role:
    """The wave with another op for each of an iteration."""
    return wave.with_ops(Part.BODY, map(change, wave.ops(Part.BODY)))


def left_out(wave: Role) -> Iterator[tuple[Part, Op, Role]]:
    """For each op its part, the op, and the wave without it; the loop itself counts its iterations."""
    for part in (Part.PROLOGUE, Part.BODY):
        made = wave.ops(part)
        for n, op in enumerate(made):
            if not isinstance(op, Advance):
                yield part, op, wave.with_ops(part, (*made[:n], *made[n + 1 :]))
