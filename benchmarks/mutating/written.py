"""Mutants of the schedules that specs of loops write out, line by line, as a hand would get them wrong.

What the language refuses has no steps to run: such a mutant counts as wrong. What it takes must be right.

for mutant in mutants(spec.layout.written):
    mutant.kind, mutant.what, mutant.schedule
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mutating.loops import SIZES, LoopReferee
from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.emulate import Interleaving
from tkgen.ir.equation_program import WrittenLine, WrittenSchedule, WrittenStep
from tkgen.schedule.loop_steps import steps
from tkgen.schedule.loop_written import StepError

# The lines of `schedule ping_pong`, with a barrier behind each, and half of the waves a line behind.
PHASES = """\
  phase waves 4..7 by 1 cluster
  schedule
    cluster fetch K[k+2] V[k+1]  compute s n  compute p half 0
    cluster priority high  multiply s[k+1]
    cluster compute p half 1 r l o  write K[k+2] V[k+1]
    cluster priority high  multiply o
"""


@dataclass(frozen=True)
class WrittenMutant:
    """`kind` as the benchmark counts them, `what` in words."""

    kind: str
    what: str
    schedule: WrittenSchedule


def small(folder: Path) -> dict[str, Spec]:
    """Specs with written schedules, by name, at sizes that run soon: with one barrier an iteration, and in phases."""
    phased = (folder / "attention_ping_pong.tk").read_text(encoding="utf-8").replace("  schedule ping_pong\n", PHASES)
    found = {}
    for name, text in (("attention_written", folder / "attention_written.tk"), ("attention_written/phases", phased)):
        spec = load(text, SIZES["attention_ping_pong"])
        assert isinstance(spec, Spec) and spec.layout.written is not None
        found[name] = spec.check()
    return found


def mutants(schedule: WrittenSchedule) -> Iterator[WrittenMutant]:
    """All mutants of the lines, in a fixed order."""
    for what, kind, lines in _lines(schedule.lines):
        yield WrittenMutant(kind, what, replace(schedule, lines=lines))
    yield WrittenMutant("other barriers", "all lines", replace(schedule, barriers=not schedule.barriers))
    if schedule.late:
        yield WrittenMutant("no phases", "all waves", replace(schedule, late=0))


def _lines(lines: tuple[WrittenLine, ...]) -> Iterator[tuple[str, str, tuple[WrittenLine, ...]]]:
    for n, line in enumerate(lines):
        before, behind = lines[:n], lines[n + 1 :]
        yield f"line {n}", "drop line", (*before, *behind)
        yield f"line {n}", "duplicate line", (*before, line, *lines[n:])
        yield f"line {n}", "other pace", (*before, replace(line, paced=not line.paced), *behind)
        if behind:
            yield f"line {n}", "swap lines", (*before, behind[0], line, *behind[1:])
        for at, step in enumerate(line.steps):
            what = f"{step.word} {step.name} at {at} of line {n}"
            for kind, changed in _steps(line.steps, at):
                yield what, kind, (*before, replace(line, steps=changed), *behind)
            if behind:
                fewer = replace(line, steps=(*line.steps[:at], *line.steps[at + 1 :]))
                later = replace(behind[0], steps=(step, *behind[0].steps))
                yield what, "move step", (*before, fewer, later, *behind[1:])


def _steps(line: tuple[WrittenStep, ...], at: int) -> Iterator[tuple[str, tuple[WrittenStep, ...]]]:
    before, step, behind = line[:at], line[at], line[at + 1 :]
    yield "drop step", (*before, *behind)
    yield "duplicate step", (*before, step, *line[at:])
    if behind:
        yield "swap steps", (*before, behind[0], step, *behind[1:])
    others = sorted({s.name for s in line if s.name} - {step.name}) if step.name else ()
    changed = [("other name", replace(step, name=name)) for name in others]
    if step.name:
        changed += [("shift step", replace(step, ahead=step.ahead + by)) for by in (-1, 1) if step.ahead + by >= 0]
    if step.piece is not None:
        changed.append(("other half", replace(step, piece=(step.piece[0], 1 - step.piece[1]))))
        changed.append(("whole", replace(step, piece=None)))
    for kind, other in changed:
        yield kind, (*before, other, *behind)


class WrittenReferee:
    """Says what is wrong with the schedules of one spec."""

    def __init__(self, spec: Spec, orders: Sequence[Interleaving]):
        self.spec, self.loops = spec, LoopReferee(spec, orders)

    def made(self, schedule: WrittenSchedule) -> Spec | StepError:
        """The spec with a schedule, proven, or why the language refuses it."""
        layout, spec = replace(self.spec.layout, written=schedule, late=schedule.late), replace(self.spec)
        try:
            spec.__dict__.update(layout=layout, schedule=steps(layout, spec.target.synchronisation))
        except StepError as refused:
            return refused
        return spec

    def changes(self, schedule: WrittenSchedule) -> bool:
        """Return True if the kernel is another one, or none."""
        made = self.made(schedule)
        return isinstance(made, StepError) or self.loops.changes(made)

    def rejected(self, schedule: WrittenSchedule) -> tuple[str, ...]:
        """The code of the refusal."""
        made = self.made(schedule)
        return (made.code,) if isinstance(made, StepError) else ()

    def fault(self, schedule: WrittenSchedule) -> str:
        """The fault; empty if every order of the waves gives the right values."""
        made = self.made(schedule)
        return f"refused: {made}" if isinstance(made, StepError) else self.loops.fault(made)
