"""A built kernel on a GPU, whichever back end launches it: compared with its equations, and timed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch

from tkgen.api import load
from tkgen.backends.protocol import Backend, Spec
from tkgen.execute import kernels
from tkgen.execute.arguments import Sized, scalar_values
from tkgen.execute.compare import Comparison, Inputs, Reference, compared, worst
from tkgen.execute.given import Values
from tkgen.execute.kernels import AnyLaunch, AnySpec
from tkgen.execute.launch import check_memory

WARM_UPS, TIMED = 3, 20  # launches


@dataclass(frozen=True)
class Prepared:
    """A checked spec with the `-D` values that its code is built for, its launch, and its scalars."""

    spec: Spec
    launch: AnyLaunch
    scalars: dict[str, float]


def prepared(
    path: Path, defines: Mapping[str, float | None], target: str | None, roots: Sequence[Path] = ()
) -> Prepared:
    """The spec at `path` for whichever target, with `-D` values told apart by what they give.

    Raises:
        SpecError: the spec is wrong, or a value gives nothing that is there.
        SizeError: a size that the kernel cannot do, or a scalar without a value.
    """
    values = Values.of(_sized(load(path, None, target, roots)).program, defines)
    spec = load(path, values.static, target, roots).check()
    launch = kernels.launch_of(_sized(spec), values.extents)
    return Prepared(spec, launch, scalar_values(launch.program, values.scalars))


def _sized(spec: Spec) -> AnySpec | Sized:
    """The spec: of AMD's GPUs, or of another with sizes of its own."""
    return cast("AnySpec | Sized", spec)


@dataclass(frozen=True)
class Expected:
    """Random inputs, and what the equations make of them: each output in fp64, with a bound on its error."""

    inputs: Mapping[str, torch.Tensor]
    outputs: Mapping[str, Reference]


def expected(
    backend: Backend, launch: AnyLaunch, scalars: Mapping[str, float], seed: int = 0, kind: Inputs = Inputs.EXACT
) -> Expected:
    """What a launch must compute, worked out on the CPU. Raises SizeError where it would not fit the memory."""
    for of in kernels.launches(launch):
        check_memory(of)
    inputs = kernels.random_inputs(launch, seed, kind, backend.functions)
    return Expected(inputs, kernels.references(launch, inputs, scalars, backend.functions))


def compared_launch(
    backend: Backend,
    spec: Spec,
    launch: AnyLaunch,
    scalars: Mapping[str, float],
    wanted: Expected,
    cxx: str | None = None,
) -> tuple[Comparison, Callable[[], None]]:
    """One launch on outputs that hold NaN, held against the equations; and what launches it again.

    Raises:
        ToolchainError: no such GPU, no compiler, or one of them fails.
    """
    backend.need_gpu()
    tensors = {name: t.cuda() for name, t in kernels.memory(launch, wanted.inputs, poison=True).items()}
    again = backend.launcher(spec, launch, tensors, scalars, cxx)
    again()
    torch.cuda.synchronize()
    found = {name: tensors[name].cpu() for name in wanted.outputs}
    outputs = [t for of in kernels.launches(launch) for t in of.program.outputs]
    return worst(compared(found, wanted.outputs, outputs).values()), again


def median_milliseconds(launch: Callable[[], None]) -> float:
    """The time of one launch by events: the median of TIMED after WARM_UPS."""
    times: list[float] = []
    for number in range(WARM_UPS + TIMED):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        if number >= WARM_UPS:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)
