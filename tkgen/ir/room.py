"""Limits on the LDS and registers of a block: the diagnostics where it takes too much, for every kind of machine.

Resolving a spec refuses what no GPU has, since a plan of it would have no end; a target's checks refuse what that GPU
does not have.
"""

from __future__ import annotations

from tkgen.diagnostics import Diagnostic, Edit, Fix, Label


def too_much_lds(
    need: int,
    limit: str,
    primary: Label,
    fix: str,
    *,
    secondary: tuple[Label, ...] = (),
    notes: tuple[str, ...] = (),
    memory: str = "LDS",
    edits: tuple[Edit, ...] = (),
) -> Diagnostic:
    """E501: the tiles need so many bytes of what waves share; `limit` says who has how many."""
    message = f"the tiles need {need} bytes of {memory}, but {limit}"
    return Diagnostic("E501", message, primary, secondary, notes, Fix(fix, edits))


def too_many_registers(
    need: str,
    limit: str,
    primary: Label,
    fix: str | Fix,
    *,
    secondary: tuple[Label, ...] = (),
    notes: tuple[str, ...] = (),
    asked: bool = False,
) -> Diagnostic:
    """E403, or E404 where the spec has `asked` for so many waves: what needs how many registers, and what it has."""
    return Diagnostic(
        "E404" if asked else "E403",
        f"{need}, {limit}",
        primary,
        secondary,
        notes,
        fix if isinstance(fix, Fix) else Fix(fix),
    )
