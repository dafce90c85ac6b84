"""Run a built sequence on the emulator, kernel after kernel, and compare with what its equations mean in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from tkgen.emulate import Interleaving, Outcome
from tkgen.execute import launch as products
from tkgen.execute.arguments import scalar_values
from tkgen.execute.compare import Comparison, Inputs, Reference, compared, worst
from tkgen.execute.compare import random_inputs as product_inputs
from tkgen.execute.kept import kept
from tkgen.ir.meaning import evaluate_all
from tkgen.ir.types import DType
from tkgen.rows import run as rows
from tkgen.rows.launch import RowLaunch
from tkgen.sequence.build import SequenceBuild
from tkgen.sequence.launch import SequenceLaunch, sequence_launch
from tkgen.sequence.program import meaning_of

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
    def instructions(self) -> int:
        """Instructions executed, in all kernels."""
        return sum(outcome.instructions for outcome in self.outcomes)

    @property
    def ok(self) -> bool:
        """The numbers are right and nothing was found."""
        return not self.failure

    @property
    def failure(self) -> str:
        """What is not right: the first tensor with wrong numbers, else what was found; empty where all is."""
        wrong = [f"{name}: {c}" for name, c in self.comparisons.items() if not c.right]
        return wrong[0] if wrong else "\n".join(self.findings)


def random_inputs(launch: SequenceLaunch, seed: int = 0, kind: Inputs = Inputs.EXACT) -> dict[str, torch.Tensor]:
    """A random tensor for each input of the sequence, such as suits the first kernel that reads it."""
    found: dict[str, torch.Tensor] = {}
    names = {t.name for t in launch.program.reads}
    for number, of in enumerate(launch.launches):
        if isinstance(of, RowLaunch):
            made = rows.random_inputs(of, seed + number, kind)
        else:
            made = product_inputs(of, seed + number, kind)
        for name, tensor in made.items():
            if name in names:
                found.setdefault(name, tensor)
    return found


def references(
    launch: SequenceLaunch, inputs: Tensors, scalars: Mapping[str, float], flushes_f16: bool = False
) -> dict[str, Reference]:
    """What each kernel must write, by name, in fp64, and the bound on each element's error.

    A target `flushes_f16` where its matrix units take subnormal factors for zero: what a kernel stores may be one.
    """
    kernels, flushed = [meaning_of(p) for p in launch.program.kernels], [DType.F16] * flushes_f16
    meant = evaluate_all(kernels, inputs, scalars, launch.extents, flushed=flushed)
    return {name: (result.value, result.bound) for name, result in meant.items()}


def emulate(
    build: SequenceBuild,
    launch: SequenceLaunch,
    inputs: Tensors,
    scalars: Mapping[str, float],
    *,
    order: Interleaving | None = None,
    watch: bool = True,
    workers: int = 1,
    backwards: bool = False,
    progress: Callable[[int], None] | None = None,
    payloads: Mapping[str, products.Payload] | None = None,
) -> tuple[dict[str, torch.Tensor], tuple[Outcome, ...]]:
    """Run every kernel in order; what they wrote, by name, and what the referee saw of each.

    Blocks of each go `backwards`, the last one first. `progress` is told how many are done; `payloads` has those of all
    tensors. Raises EmulateError where a launch cannot start.
    """
    written: dict[str, torch.Tensor] = {}
    outcomes: list[Outcome] = []
    before = 0
    for kernel, of in zip(build.kernels, launch.launches, strict=True):

        def done(count: int, before: int = before) -> None:
            if progress is not None:
                progress(before + count)

        program = kernel.spec.program
        kept = {t.name for t in program.outputs} - program.added  # what is added to begins at zero
        wanted = {t.name for t in program.reads} | kept
        memory = {name: t for name, t in (dict(inputs) | written).items() if name in wanted}
        own = None if payloads is None else {t.name: payloads[t.name] for t in program.arguments if t.name in payloads}
        results, outcome = products.emulate(
            kernel, of, memory, scalars, order=order, watch=watch, workers=workers, backwards=backwards,
            progress=done, payloads=own,
        )  # fmt: skip
        written |= results
        outcomes.append(outcome)
        before += of.blocks
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
    launch = sequence_launch(build.spec, extents)
    values = scalar_values(launch.program, scalars)
    for of in launch.launches:
        products.check_memory(of)
    inputs = random_inputs(launch, seed, kind)
    written, outcomes = emulate(build, launch, inputs, values, order=order, workers=workers, progress=progress)
    outputs = [t for of in launch.launches for t in of.program.outputs]
    given = (references, *launch.extents.items(), seed, kind, *values.items())
    flushes = build.spec.target.flushes_f16
    meant = kept(build.spec, given, lambda: references(launch, inputs, values, flushes))
    found = compared(written, meant, outputs)
    return SequenceRun(launch.extents, written, found, outcomes)
