"""The schedule that a spec asks for by name, and `schedule auto`, which chooses one of `tkgen.ir.schedules`."""

from __future__ import annotations

from tkgen.diagnostics import Diagnostic, Edit, Fix, Label, SpecError
from tkgen.diagnostics.text import nearest, suggestion
from tkgen.ir.schedules import SCHEDULES, NamedSchedule
from tkgen.ir.types import Program
from tkgen.targets import Target

DEFAULT = SCHEDULES["simple"]  # without a `schedule` statement, and where `auto` finds no faster one


def preset(program: Program, target: Target) -> tuple[NamedSchedule, str]:
    """The schedule that the spec asks for by name, or `simple` without a `schedule` statement; and why it is this one.

    Raises:
        SpecError: there is no such schedule, or it cannot be made for this block.
    """
    block = program.schedule
    _even(program)
    if block is None or block.preset is None:
        return DEFAULT, "the spec names no schedule"
    name, span = block.preset, block.preset_span or block.span
    if name == "auto":
        return _automatic(program, target)
    if name not in SCHEDULES:
        known = ", ".join([*SCHEDULES, "auto"])
        near = nearest(name, (*SCHEDULES, "auto"))
        raise SpecError(
            Diagnostic(
                "E216",
                f"there is no schedule `{name}`{suggestion(name, (*SCHEDULES, 'auto'))}",
                Label(span),
                notes=(f"the schedules are {known}",) if near else (),
                fix=Fix(f"write `{near}`", (Edit(span, near),), certain=False)
                if near
                else Fix(f"the schedules are {known}"),
            )
        )
    obstacle = SCHEDULES[name].obstacle(program)
    if obstacle:
        raise SpecError(
            Diagnostic(
                "E216", f"`schedule {name}` is not possible here: {obstacle}", Label(span),
                fix=Fix("write `schedule auto`, which chooses the best possible one", (Edit(span, "auto"),)),
            )
        )  # fmt: skip
    return SCHEDULES[name], "the spec names it"


def _even(program: Program) -> None:
    """E208 where operands are read ahead by different distances: the order of that is for a schedule to say."""
    *others, first = reversed(program.shared) if program.shared else program.operands[:1]
    other = next((o for o in reversed(others) if o.register_depth != first.register_depth), None)
    if other is not None:
        message = (
            f"`{first.name}` has {first.register_depth} register buffers, `{other.name}` {other.register_depth}: "
            "no schedule of tkgen's own reads one further ahead than the other"
        )
        fix = Fix("give both the same `buffers`, or write the schedule")
        raise SpecError(Diagnostic("E208", message, Label(other.registers_span or other.span), fix=fix))


def _automatic(program: Program, target: Target) -> tuple[NamedSchedule, str]:
    """The fastest of the schedules that this block admits, as `tkgen predict` ranks them for its kind of block."""
    reasons = []
    for schedule in (s for s in SCHEDULES.values() if s.reason):
        obstacle = schedule.obstacle(program) or schedule.slower(program, target)
        if not obstacle:
            return schedule, f"chosen automatically: {schedule.reason}"
        reasons.append(f"not {schedule.name}: {obstacle}")
    return DEFAULT, "; ".join(["chosen automatically", *reasons])
