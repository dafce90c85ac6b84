"""What a block of rows does, step by step: a walk over the elements for each sweep, and where waves hand on results.

    Walk(n)       every lane does sweep n with its elements
    Put(n, half)  each wave writes its part of what sweep n reduces to a half of the LDS
    Meet()        all waves have come here, and what each has read and written in LDS is complete
    Get(n, half)  each wave reads the parts of all that share its rows
    Repeat(steps) the steps of a loop, for each tile of its axis

One meeting is enough for an exchange: its half of the LDS is `half`, its number in this pass - of the rows, of a loop,
or of what is between loops -, plus the exchanges before that pass, mod 2. A wave that writes the same half again does
so two exchanges later, behind the meeting between; it came there, as every wave did, only after its reads were
complete. `tkgen.schedule.row_verifier` proves it for each layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tkgen.schedule.sweeps import Sweep

HALVES = 2  # of the LDS in which results are exchanged


@dataclass(frozen=True)
class Walk:
    """One sweep, of every lane."""

    sweep: int


@dataclass(frozen=True)
class Put:
    """What a wave has reduced, to LDS."""

    sweep: int
    half: int


@dataclass(frozen=True)
class Meet:
    """A barrier of all waves, at which their accesses to LDS are complete."""


@dataclass(frozen=True)
class Get:
    """What all waves of a row have reduced, from LDS."""

    sweep: int
    half: int


@dataclass(frozen=True)
class Repeat:
    """A loop: its steps in each pass."""

    steps: tuple[Step, ...]


Step = Walk | Put | Meet | Get | Repeat


def steps(sweeps: Sequence[Sweep], crossing: bool, close: bool = False) -> tuple[Step, ...]:
    """One pass; `crossing` says that several waves share a row, `close` that waves go through loops together."""
    made: list[Step] = []
    for loop, group in groupby(enumerate(sweeps), key=lambda numbered: numbered[1].loop):
        here: list[Step] = []
        exchanges = 0
        for number, sweep in group:
            here.append(Walk(number))
            if crossing and sweep.handed:
                here += [Put(number, exchanges), Meet(), Get(number, exchanges)]
                exchanges += 1
        if loop and close and not exchanges:
            here.append(Meet())
        made += [Repeat(tuple(here))] if loop else here
    return tuple(made)


@dataclass(frozen=True)
class Run:
    """Steps without loops among them: those of a loop, which are `repeated`, or those before, between and behind."""

    steps: tuple[Step, ...]
    repeated: bool


def runs(steps: Sequence[Step]) -> Iterator[Run]:
    """The steps in parts, in order."""
    for repeated, group in groupby(steps, key=lambda step: isinstance(step, Repeat)):
        here = tuple(group)
        loops = [step.steps for step in here if isinstance(step, Repeat)]
        yield from (Run(inner, True) for inner in loops) if repeated else (Run(here, False),)


def handed(steps: Sequence[Step]) -> int:
    """How often waves hand each other results in steps."""
    return sum(isinstance(step, Put) for step in steps)


def every(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, in order, those of a loop in its place."""
    for step in steps:
        if isinstance(step, Repeat):
            yield from every(step.steps)
        else:
            yield step
