"""The judges of a mutant of machine code: machine check, race referee, numbers under poison, `verify`.

Each returns what it found in a few words, or an empty text. A judge that takes more than `LIMIT` seconds of processor
time has found that the mutant does not end: the code itself takes a small part of that.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mutating.machine_code import Mutant, mutants, patched_elf
from tkgen.build import Build
from tkgen.emulate import CodeObject, EmulateError, Interleaving, Kernel, Outcome, TraceRequest, interleavings
from tkgen.emulate import launch as emulate
from tkgen.emulate import load as load_code
from tkgen.execute.given import Asked, Chosen
from tkgen.execute.launch import run, trials
from tkgen.machine_check import WRONG, watch
from tkgen.sanitize.arguments import named
from tkgen.sanitize.report import code_of, unwritten
from tkgen.sanitize.subject import Launch, from_spec
from tkgen.sequence.build import SequenceBuild
from tkgen.verify.run import Case, Drawn, verified
from tkgen.verify.specs import case_of, chosen_cases

JUDGES = ("machine check", "referee", "numbers", "verify")
LIMIT = 120.0
DRAWS = 2
LONG, FEW = 400_000, 2  # instructions of a launch from which on so few orders are tried


class DoesNotEndError(Exception):
    """A judge takes too long."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises DoesNotEndError in the block after these seconds of processor time; the emulator then stops soon."""

    def stop(number: int, frame: object) -> None:
        raise DoesNotEndError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@dataclass(frozen=True)
class Unit:
    """One kernel of a subject: its build, its code, and its launch under the referee."""

    build: Build
    code: CodeObject
    launch: Launch

    @property
    def kernel(self) -> Kernel:
        """Its entry and descriptor."""
        return self.code.kernel(self.build.resources.kernel)

    def mutants(self) -> list[Mutant]:
        """All mutants of its code."""
        return list(mutants(self.code, self.kernel))

    def run(self, code: CodeObject, order: Interleaving, trace: int | None = None) -> tuple[Outcome, str]:
        """One run under the referee, and the bytes of outputs that nothing wrote, in words.

        With `trace` that linear block alone runs, and all of its waves are traced.
        """
        args = named(self.launch.arguments.make(), code.kernel(self.launch.kernel))
        outcome = emulate(
            code,
            args=args,
            grid=self.launch.grid,
            block=self.launch.block,
            kernel=self.launch.kernel,
            lds_bytes=self.launch.lds_bytes,
            policy=order.policy,
            seed=order.seed,
            watch=trace is None,
            blocks=None if trace is None else [trace],
            trace=None if trace is None else TraceRequest(limit=1 << 22),
        )
        gaps = unwritten(outcome, args) if trace is None and outcome.completed else []
        return outcome, " ".join(d.code for d in gaps)


@dataclass(frozen=True)
class Subject:
    """A spec at a small size for a target, built, with the judges of its mutants."""

    chosen: Chosen
    build: Build | SequenceBuild
    units: tuple[Unit, ...]
    case: Case
    orders: int

    @classmethod
    def of(cls, path: Path, target: str, orders: int) -> Subject:
        """The spec at its first case of `verify`, a small one. Raises SpecError where the target does not take it."""
        asked = Asked(path, {}, target)
        values, _ = next(chosen_cases(asked))
        chosen = replace(asked, defines=values).chosen()
        build: Any = chosen.spec.build(machine_check=False)
        launched = from_spec(path, target, defines=values)
        units = tuple(
            Unit(kernel, load_code(kernel.hsaco), launch)
            for kernel, (_, launch) in zip(build.kernels, launched, strict=True)
        )
        case = case_of(build, chosen.extents, chosen.scalars)
        effort = sum(unit.run(unit.code, Interleaving())[0].instructions for unit in units)
        return cls(chosen, build, units, _kept(case), min(orders, FEW) if effort > LONG else orders)

    def with_code(self, number: int, hsaco: bytes) -> Build | SequenceBuild:
        """The build with other machine code of one of its kernels."""
        if isinstance(self.build, Build):
            return replace(self.build, hsaco=hsaco)
        kernels = list(self.build.kernels)
        kernels[number] = replace(kernels[number], hsaco=hsaco)
        return replace(self.build, kernels=tuple(kernels))

    def verdicts(self, number: int, words: Mapping[int, int]) -> dict[str, str]:
        """The finding of each judge in kernel `number` with other dwords of its text."""
        unit = self.units[number]
        hsaco = patched_elf(unit.code, words)
        build = self.with_code(number, hsaco)
        judges: Sequence[Callable[[], str]] = (
            lambda: self._machine_check(unit, hsaco),
            lambda: self._referee(unit, load_code(hsaco)),
            lambda: self._numbers(build),
            lambda: self._verify(build),
        )
        return {name: _judged(judge) for name, judge in zip(JUDGES, judges, strict=True)}

    def _machine_check(self, unit: Unit, hsaco: bytes) -> str:
        verdict = watch(unit.build.spec, hsaco, unit.build.resources.kernel)
        return " ".join(dict.fromkeys(d.code for d in verdict.diagnostics)) if verdict.outcome == WRONG else ""

    def _referee(self, unit: Unit, code: CodeObject) -> str:
        for order in interleavings(self.orders):
            outcome, gaps = unit.run(code, order)
            codes = dict.fromkeys(code_of(f) for f in outcome.findings)
            found = " ".join([*(c for c in codes if c.startswith("E")), *([gaps] if gaps else [])])
            if found or not outcome.completed:
                return f"{order}: {found or 'it did not end'}"
        return ""

    def _numbers(self, build: Build | SequenceBuild) -> str:
        for order, kind in trials(self.orders):
            result = run(build, extents=self.chosen.extents, scalars=self.chosen.scalars, order=order, kind=kind)
            if not result.comparison.right:
                return f"{order}: wrong"
        return ""

    def _verify(self, build: Build | SequenceBuild) -> str:
        made = case_of(build, self.chosen.extents, self.chosen.scalars)
        verdict = verified(replace(self.case, machine=made.machine), DRAWS, DRAWS, 0)
        return "" if verdict.ok else "wrong" if verdict.wrong else "undecided" if verdict.undecided else "stopped"


def _judged(judge: Callable[[], str]) -> str:
    try:
        with limited(LIMIT):
            return judge()
    except DoesNotEndError:
        return "it does not end"
    except EmulateError as error:
        return f"refused: {error}"


def _kept(case: Case) -> Case:
    """The case with draws and meanings computed once for each seed."""
    draw = cache(case.draw)
    known: list[tuple[Drawn, Any]] = []

    def meaning(drawn: Drawn) -> Any:
        for one, found in known:
            if one is drawn:
                return found
        known.append((drawn, case.meaning(drawn)))
        return known[-1][1]

    return replace(case, draw=draw, meaning=meaning)
