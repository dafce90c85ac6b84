"""Subjects of mutation, by family: a spec made small, its mutants, and the verdicts of the checks and the emulator.

products     plans of one product by clauses (`specs/*.tk`)
sums         plans of kernels by equations, with what they reduce after the loop
rows         layouts of rows over lanes, at several lengths (`specs/rows`)
loops        steps of loops that multiply what they made of products (`specs/attention`)
written      the lines of schedules that such specs write out
sequences    the order of kernels, and each of them (`specs/sequences`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mutating import loops, rows, schedules, written
from mutating.referee import Referee, rejected, small
from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.diagnostics import Severity
from tkgen.emulate import EmulateError, Interleaving
from tkgen.execute.arguments import scalar_values
from tkgen.execute.compare import compared, random_inputs, references
from tkgen.execute.launch import emulate_all
from tkgen.sequence.build import SequenceBuild
from tkgen.sequence.spec import SequenceSpec

SEQUENCES = {
    "split_k_gelu": {"TOKENS": 128, "OUT": 256, "IN": 500, "PARTS": 2},  # two tiles, ragged parts
    "moe": {"TOKENS": 100, "EXPERTS": 3, "D": 200, "HIDDEN": 136},
}


@dataclass(frozen=True)
class Candidate:
    """A mutant: its `kind` and `what` it is in words, the codes of its rejection, and what goes wrong with it."""

    kind: str
    what: str
    codes: Callable[[], tuple[str, ...]]
    fault: Callable[[], str]


@dataclass(frozen=True)
class Subject:
    """Something to mutate. `fault` is what is wrong before anything is changed, which must be nothing."""

    name: str
    family: str
    fault: Callable[[], str]
    candidates: Callable[[], Iterator[Candidate]]


def subjects(path: Path, orders: Sequence[Interleaving]) -> Iterator[Subject]:
    """The subjects of the spec at `path`."""
    match path.parent.name:
        case "rows" | "quantise":
            yield from (_rows(name, "rows", spec, orders) for name, spec in rows.small(path))
        case _ if path.stem in SEQUENCES:
            yield from _sequence(path, orders)
        case "attention" if path.stem == "attention_written":
            yield from (_written(name, spec, orders) for name, spec in written.small(path.parent).items())
        case "attention":
            yield from (_loops(name, spec, orders) for name, spec in loops.small(path).items())
        case _:
            spec = small(path)
            yield _plan(path.stem, "products" if "block" in spec.program.spans["block"].text else "sums", spec, orders)


def _plan(name: str, family: str, spec: Spec, orders: Sequence[Interleaving]) -> Subject:
    referee = Referee(spec, orders)

    def candidates() -> Iterator[Candidate]:
        for m in schedules.mutants(spec.plan):
            if referee.changes(m.plan):
                yield Candidate(m.kind, m.what, partial(rejected, spec, m.plan), partial(referee.fault, m.plan))

    return Subject(name, family, partial(referee.fault, spec.plan), candidates)


def _rows(name: str, family: str, spec: Spec, orders: Sequence[Interleaving]) -> Subject:
    referee = rows.RowReferee(spec, orders)

    def candidates() -> Iterator[Candidate]:
        for m in rows.mutants(spec.layout):
            if referee.changes(m.layout):
                fault = partial(referee.fault, m.layout)
                yield Candidate(m.kind, m.what, partial(referee.rejected, m.layout), fault)

    return Subject(name, family, partial(referee.fault, spec.layout), candidates)


def _loops(name: str, spec: Spec, orders: Sequence[Interleaving]) -> Subject:
    referee = loops.LoopReferee(spec, orders)

    def candidates() -> Iterator[Candidate]:
        for m in loops.mutants(spec):
            if referee.changes(m.spec):
                yield Candidate(m.kind, m.what, partial(referee.rejected, m.spec), partial(referee.fault, m.spec))

    return Subject(name, "loops", partial(referee.fault, spec), candidates)


def _written(name: str, spec: Spec, orders: Sequence[Interleaving]) -> Subject:
    referee = written.WrittenReferee(spec, orders)
    own = spec.layout.written
    assert own is not None

    def candidates() -> Iterator[Candidate]:
        for m in written.mutants(own):
            if referee.changes(m.schedule):
                fault = partial(referee.fault, m.schedule)
                yield Candidate(m.kind, m.what, partial(referee.rejected, m.schedule), fault)

    return Subject(name, "written", partial(referee.fault, own), candidates)


def _sequence(path: Path, orders: Sequence[Interleaving]) -> Iterator[Subject]:
    spec = load(path, SEQUENCES[path.stem])
    assert isinstance(spec, SequenceSpec)
    build = spec.build()

    def ordered(numbers: Sequence[int]) -> SequenceSpec:
        kernels = tuple(spec.kernels[n] for n in numbers)
        return replace(spec, kernels=kernels, program=replace(spec.program, kernels=tuple(k.program for k in kernels)))

    def fault(numbers: Sequence[int]) -> str:
        """The fault if the kernels run in another order, compared with what the spec means."""
        mutant = SequenceBuild(ordered(numbers), tuple(build.kernels[n] for n in numbers))
        launch = spec.launch()
        reordered = replace(launch, launches=tuple(launch.launches[n] for n in numbers))
        inputs, scalars = random_inputs(launch), scalar_values(launch.program)
        meant = references(launch, inputs, scalars)
        for order in orders:
            try:
                written, outcomes = emulate_all(mutant, reordered, inputs, scalars, order=order)
            except (EmulateError, KeyError) as error:
                return f"{order}: {error}"
            if wrong := [f"{name}: {c}" for name, c in compared(written, meant).items() if not c.right]:
                return f"{order}: {wrong[0]}"
            if found := [str(f) for outcome in outcomes for f in outcome.findings]:
                return f"{order}: {found[0]}"
        return ""

    def codes(numbers: Sequence[int]) -> tuple[str, ...]:
        found = ordered(numbers).diagnostics
        return tuple(sorted({d.code for d in found if d.severity is Severity.ERROR}))

    def candidates() -> Iterator[Candidate]:
        count = range(len(spec.kernels))
        changed = [("swap kernels", [*count[:n], n + 1, n, *count[n + 2 :]]) for n in count[:-1]]
        changed += [("duplicate kernel", [*count[:n], n, *count[n:]]) for n in count]
        for kind, numbers in changed:
            yield Candidate(kind, f"{numbers}", partial(codes, numbers), partial(fault, numbers))

    yield Subject(path.stem, "sequences", partial(fault, range(len(spec.kernels))), candidates)
    for kernel in spec.kernels:
        name = f"{path.stem}/{kernel.name}"
        if kernel.plan is None:
            yield _rows(name, "sequences", kernel, orders)
        else:
            yield _plan(name, "sequences", kernel, orders)
