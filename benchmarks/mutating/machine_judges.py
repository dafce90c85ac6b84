"""The judges of a mutant of machine code: machine check, race referee, numbers under poison, `verify`.

Each returns what it found in a few words, or an empty text. A judge that takes more than `LIMIT` seconds of processor
time has found that the mutant does not end: the code itself takes a small part of that.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from math import prod
from pathlib import Path
from typing import Any

import torch

from mutating.machine_arguments import Arguments
from mutating.machine_code import Mutant, mutants, patched_elf
from tkgen.build import Build
from tkgen.emulate import Buffer, CodeObject, EmulateError, Interleaving, Kernel, Outcome, TraceRequest, interleavings
from tkgen.emulate import launch as emulate
from tkgen.emulate import load as load_code
from tkgen.emulate.code_object import patched
from tkgen.execute.arguments import packed
from tkgen.execute.compare import random_inputs
from tkgen.execute.given import Asked, Chosen
from tkgen.execute.launch import emulate as emulate_kernel
from tkgen.execute.launch import outputs, run, trials
from tkgen.ir.launch import Launch as KernelLaunch
from tkgen.machine_check import WRONG, watch
from tkgen.machine_check.verdict import Watching
from tkgen.machine_check.words import code_of_kind
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
    """One kernel of a subject: its build and its code; `memory` gives the tensors that it finds."""

    build: Build
    code: CodeObject
    launch: KernelLaunch[Any]
    scalars: Mapping[str, float]
    memory: Callable[[], Mapping[str, torch.Tensor]]

    @property
    def kernel(self) -> Kernel:
        """Its entry and descriptor."""
        return self.code.kernel(self.build.resources.kernel)

    @cached_property
    def mutants(self) -> list[Mutant]:
        """All mutants of its code."""
        return list(mutants(self.code, self.kernel))

    @cached_property
    def watching(self) -> Watching:
        """The launches of the machine check."""
        return Watching.of(self.build.spec, self.build.resources.kernel)

    @cached_property
    def arguments(self) -> Arguments:
        """The second calculation of its mutants."""
        return Arguments(self.code, self.kernel, prod(self.launch.grid), self._traced)

    def checked(self, words: Mapping[int, int]) -> str:
        """The first finding of the machine check in the code with other dwords of its text, as a code of a diagnostic.

        Empty where the machine check accepts them, or cannot decide.
        """
        changed = patched(self.code, {self.code.text[0] + 4 * i: word for i, word in words.items()})
        seen = self.watching.observed(changed, first_finding=True).seen
        return " ".join(dict.fromkeys(code_of_kind(each.finding.kind) for each in seen))

    def _traced(self, block: int) -> Outcome:
        """One block of the code itself, all of its waves traced."""
        memory = dict(self.memory())
        buffers = {name: Buffer(t.contiguous(), name) for name, t in (memory | outputs(self.launch, memory)).items()}
        return emulate(
            self.code,
            args=[packed(self.launch, buffers, self.scalars)],
            grid=self.launch.grid,
            block=self.launch.block,
            kernel=self.build.resources.kernel,
            blocks=[block],
            trace=TraceRequest(limit=1 << 22),
        )


@dataclass(frozen=True)
class Subject:
    """A spec at a small size for a target, built, with the judges of its mutants."""

    chosen: Chosen
    asked: Asked
    build: Build | SequenceBuild
    most_orders: int

    @classmethod
    def of(cls, path: Path, target: str, orders: int) -> Subject:
        """The spec at its first case of `verify`, a small one. Raises SpecError where the target does not take it."""
        asked = Asked(path, {}, target)
        values, _ = next(chosen_cases(asked))
        asked = replace(asked, defines=values)
        chosen = asked.chosen()
        build: Any = chosen.spec.build(machine_check=False)
        return cls(chosen, asked, build, orders)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The kernels."""
        kernels, launches = self.build.kernels, self.chosen.launch.launches
        return tuple(
            Unit(kernel, load_code(kernel.hsaco), launch, self.chosen.scalars, partial(self._memory, number))
            for number, (kernel, launch) in enumerate(zip(kernels, launches, strict=True))
        )

    def _memory(self, number: int) -> Mapping[str, torch.Tensor]:
        return self._memories[number]

    @cached_property
    def _memories(self) -> list[Mapping[str, torch.Tensor]]:
        """The tensors that each kernel finds: random inputs, and what the kernels before it wrote."""
        inputs, written = random_inputs(self.chosen.launch), dict[str, torch.Tensor]()
        found = []
        for number, unit in enumerate(self.units, 1):
            program = unit.launch.program
            wanted = {t.name for t in program.reads} | ({t.name for t in program.outputs} - program.added)
            found.append({name: t for name, t in (dict(inputs) | written).items() if name in wanted})
            if number < len(self.units):
                written |= emulate_kernel(unit.build, unit.launch, found[-1], self.chosen.scalars, watch=False)[0]
        return found

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The launches under the referee."""
        asked = self.asked
        return tuple(launch for _, launch in from_spec(asked.path, asked.target, defines=asked.defines))

    @cached_property
    def case(self) -> Case:
        """The case of `verify`, with draws and meanings computed once."""
        return _kept(case_of(self.build, self.chosen.extents, self.chosen.scalars))

    @cached_property
    def orders(self) -> int:
        """The number of orders of the waves."""
        effort = sum(self._watched(n, unit.code, Interleaving())[0].instructions for n, unit in enumerate(self.units))
        return min(self.most_orders, FEW) if effort > LONG else self.most_orders

    def with_code(self, number: int, hsaco: bytes) -> Build | SequenceBuild:
        """The build with other machine code of one of its kernels."""
        if isinstance(self.build, Build):
            return replace(self.build, hsaco=hsaco)
        kernels = list(self.build.kernels)
        kernels[number] = replace(kernels[number], hsaco=hsaco)
        return replace(self.build, kernels=tuple(kernels))

    def checked(self, number: int, words: Mapping[int, int]) -> str:
        """The finding of the machine check alone, as `Unit.checked`."""
        return _judged(lambda: self.units[number].checked(words))

    def verdicts(self, number: int, words: Mapping[int, int]) -> dict[str, str]:
        """The finding of each judge in kernel `number` with other dwords of its text."""
        unit = self.units[number]
        hsaco = patched_elf(unit.code, words)
        build = self.with_code(number, hsaco)
        judges: Sequence[Callable[[], str]] = (
            lambda: self._machine_check(unit, hsaco),
            lambda: self._referee(number, load_code(hsaco)),
            lambda: self._numbers(build),
            lambda: self._verify(build),
        )
        return {name: _judged(judge) for name, judge in zip(JUDGES, judges, strict=True)}

    def _machine_check(self, unit: Unit, hsaco: bytes) -> str:
        verdict = watch(unit.build.spec, hsaco, unit.build.resources.kernel)
        return " ".join(dict.fromkeys(d.code for d in verdict.diagnostics)) if verdict.outcome == WRONG else ""

    def _watched(self, number: int, code: CodeObject, order: Interleaving) -> tuple[Outcome, str]:
        """One run under the referee, and the bytes of outputs that nothing wrote, in words."""
        launch = self.launches[number]
        args = named(launch.arguments.make(), code.kernel(launch.kernel))
        outcome = emulate(
            code,
            args=args,
            grid=launch.grid,
            block=launch.block,
            kernel=launch.kernel,
            lds_bytes=launch.lds_bytes,
            policy=order.policy,
            seed=order.seed,
            watch=True,
        )
        gaps = unwritten(outcome, args) if outcome.completed else []
        return outcome, " ".join(d.code for d in gaps)

    def _referee(self, number: int, code: CodeObject) -> str:
        for order in interleavings(self.orders):
            outcome, gaps = self._watched(number, code, order)
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
