"""The sections of a check, in their order."""

from __future__ import annotations

from typing import cast

from tkgen.hardware import instructions, machine, specs, times
from tkgen.hardware.context import Section

SECTIONS: tuple[Section, ...] = tuple(cast(Section, module) for module in (specs, instructions, machine, times))


def names() -> tuple[str, ...]:
    """The names of all sections."""
    return tuple(section.NAME for section in SECTIONS)


def chosen(only: str) -> list[Section]:
    """The sections that a comma-separated list names, in their own order; all for an empty one.

    Raises ValueError for a name that no section has.
    """
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in names()]
    if unknown:
        raise ValueError(f"there is no section '{unknown[0]}'; there are {', '.join(names())}")
    return [section for section in SECTIONS if not wanted or section.NAME in wanted]
