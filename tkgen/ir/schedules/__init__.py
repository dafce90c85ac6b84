"""Schedules with names: each is one definition, read by the schedulers, the language, its editors and its docs.

`SCHEDULES` has those of every module of `definitions/`, by their positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tkgen.ir.schedules import definitions
from tkgen.ir.schedules.model import IterationOrder, NamedSchedule
from tkgen.packages import modules_of

__all__ = ["SCHEDULES", "IterationOrder", "NamedSchedule", "alternates", "names", "runs_ahead"]

_SPECS: list[NamedSchedule] = [module.SPEC for module in modules_of(definitions)]

SCHEDULES: Mapping[str, NamedSchedule] = MappingProxyType(
    {spec.name: spec for spec in sorted(_SPECS, key=lambda spec: spec.position)}
)


def alternates(name: str | None) -> bool:
    """Return True for the name of a schedule that alternates; False for None and unknown names."""
    spec = SCHEDULES.get(name or "")
    return spec is not None and spec.alternates


def runs_ahead(name: str | None) -> bool:
    """Return True for the name of a schedule that computes a product one iteration ahead in attention-like loops."""
    spec = SCHEDULES.get(name or "")
    return spec is not None and (spec.ahead or spec.alternates)


def names(*, alternating: bool = False) -> str:
    """The names of all schedules, or of those that alternate, for messages."""
    return ", ".join(f"`{spec.name}`" for spec in SCHEDULES.values() if spec.alternates or not alternating)
