"""Run a built sequence on the emulator, kernel after kernel, and compare with what its equations mean in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from tkgen.emulate import Interleaving, Outcome
from tkgen.execute import arguments
from tkgen.execute import launch as products
from tkgen.execute.arguments import launched
from tkgen.execute.compare import Comparison, Inputs, compare, worst
from tkgen.execute.compare import random_inputs as product_inputs
from tkgen.ir.launch import Launch
from tkgen.ir.meaning import evaluate_all
from tkgen.rows import run as rows
from tkgen.rows.launch import RowLaunch, row_launch
from tkgen.rows.spec import RowSpec
from tkgen.sequence.build import SequenceBuild
from tkgen.sequence.spec import SequenceSpec, meaning_of

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class SequenceRun:
    """One emulated launch of all kernels: what each wrote, by name, how it compares, what the referee saw of each."""

    sizes: Mapping[str, int]
    tensors: Tensors = field(repr=False)
    comparisons: Mapping[str, Comparison]
    outcomes: tuple[Outcome, ...] = field(repr=False)

    @property
    def comparison(self) -> Comparison:
        """The comparison of the tensor that is furthest from its bound, those between the kernels among them."""
        return worst(self.comparisons.values())

    @property
    def findings(self) -> tuple[str, ...]:
        """What the referee found, in all kernels."""
        return tuple(str(finding) for outcome in self.outcomes for finding in outcome.findings)

    @property
    def ok(self) -> bool:
        """The numbers are right and nothing was found."""
        return not self.failure

    @property
    def failure(self) -> str:
        """What is not right: the first tensor with wrong numbers, else what was found; empty where all is."""
        wrong = [f"{name}: {c}" for name, c in self.comparisons.items() if not c.right]
        return wrong[0] if wrong else "\n".join(self.findings)


def launches(spec: SequenceSpec, given: Mapping[str, int] | None = None) -> tuple[Launch | RowLaunch, ...]:
    """The launch of each kernel, `given` the sizes of dynamic dimensions. Raises SizeError as those of each do."""
    return tuple(
        row_launch(k.program, k.layout, given) if isinstance(k, RowSpec) else launched(k, given) for k in spec.kernels
    )


def sizes_of(spec: SequenceSpec, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Every dimension of every kernel."""
    return {name: size for launch in launches(spec, given) for name, size in launch.extents.items()}


def scalar_values(spec: SequenceSpec, given: Mapping[str, float] | None = None) -> dict[str, float]:
    """A value for every scalar: given, or its default. Raises SizeError where neither is there."""
    return {name: value for p in spec.programs for name, value in arguments.scalar_values(p, given).items()}


def random_inputs(
    spec: SequenceSpec, given: Mapping[str, int] | None = None, seed: int = 0, kind: Inputs = Inputs.EXACT
) -> dict[str, torch.Tensor]:
    """A random tensor for each input of the sequence, such as suits the first kernel that reads it."""
    found: dict[str, torch.Tensor] = {}
    names = {t.name for t in spec.inputs}
    for number, launch in enumerate(launches(spec, given)):
        if isinstance(launch, RowLaunch):
            made = rows.random_inputs(launch, seed + number, kind)
        else:
            made = product_inputs(launch, seed + number, kind)
        for name in made.keys() & names:
            found.setdefault(name, made[name])
    return found


def emulate(
    build: SequenceBuild,
    inputs: Tensors,
    scalars: Mapping[str, float],
    given: Mapping[str, int] | None = None,
    *,
    order: Interleaving | None = None,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> tuple[dict[str, torch.Tensor], tuple[Outcome, ...]]:
    """Run every kernel in order; what they wrote, by name, and what the referee saw of each.

    `progress` is told how many blocks are done. Raises EmulateError where a launch cannot start.
    """
    written: dict[str, torch.Tensor] = {}
    outcomes: list[Outcome] = []
    before = 0
    for kernel, launch in zip(build.kernels, launches(build.spec, given), strict=True):

        def done(count: int, before: int = before) -> None:
            if progress is not None:
                progress(before + count)

        program = kernel.spec.program
        kept = () if program.adds_to_output else program.outputs  # what is added to begins at zero
        wanted = {t.name for t in (*program.reads, *kept)}
        memory = {name: t for name, t in (dict(inputs) | written).items() if name in wanted}
        results, outcome = products.emulate(
            kernel, launch, memory, scalars, order=order, workers=workers, progress=done
        )
        written |= results
        outcomes.append(outcome)
        before += launch.blocks
    return written, tuple(outcomes)


def run_sequence(
    build: SequenceBuild,
    *,
    extents: Mapping[str, int] | None = None,
    seed: int = 0,
    kind: Inputs = Inputs.EXACT,
    scalars: Mapping[str, float] | None = None,
    order: Interleaving | None = None,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> SequenceRun:
    """Random inputs of that kind, one launch of each kernel, a comparison of all that they write.

    Raises:
        SizeError: sizes that a kernel cannot do, a scalar without a value.
        EmulateError: a launch cannot start.
    """
    spec = build.spec
    values = scalar_values(spec, scalars)
    for launch in launches(spec, extents):
        if isinstance(launch, Launch):
            products.check_memory(launch)
    inputs = random_inputs(spec, extents, seed, kind)
    written, outcomes = emulate(build, inputs, values, extents, order=order, workers=workers, progress=progress)
    meant = evaluate_all([meaning_of(p) for p in spec.programs], inputs, values, sizes_of(spec, extents))
    comparisons = {name: compare(t, meant[name].value, meant[name].bound) for name, t in written.items()}
    return SequenceRun(sizes_of(spec, extents), written, comparisons, outcomes)
