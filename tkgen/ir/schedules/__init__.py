"""Schedules with names: each is one definition, read by the schedulers, the language, its editors and its docs."""

from tkgen.ir.schedules.model import IterationOrder, NamedSchedule
from tkgen.ir.schedules.registry import SCHEDULES, alternates, names, runs_ahead

__all__ = ["SCHEDULES", "IterationOrder", "NamedSchedule", "alternates", "names", "runs_ahead"]
