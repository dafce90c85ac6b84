"""All checks of a scheduled program, family after family.

    found = check(plan(program, target), target)

A new check is a function in its family's module; a new family is a module and an entry in `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable

from tkgen.checks import mapping, registers, shapes, shared_memory, sync
from tkgen.diagnostics import Diagnostic
from tkgen.schedule.plan import Plan
from tkgen.targets import Target

FAMILIES: tuple[Callable[[Plan, Target], list[Diagnostic]], ...] = (
    shapes.check,
    sync.check,
    registers.check,
    shared_memory.check,
    mapping.check,
)


def check(plan: Plan, target: Target) -> list[Diagnostic]:
    """Everything that is wrong with `plan` on `target`, errors before warnings, each in the order of the spec's lines.

    An empty list, or warnings alone, means that the kernel computes the product under every interleaving of its waves.
    """
    found = [diagnostic for family in FAMILIES for diagnostic in family(plan, target)]
    return sorted(found, key=_order)


def _order(diagnostic: Diagnostic) -> tuple[bool, int, str, str]:
    at = diagnostic.primary.span.start if diagnostic.primary else 0
    return diagnostic.code.startswith("W"), at, diagnostic.code, diagnostic.message
