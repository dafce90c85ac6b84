"""A built kernel on a GPU, whichever back end launches it: compared with its equations, and timed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from tkgen.backends.protocol import Backend, Spec
from tkgen.execute.compare import Comparison, Inputs, Reference, compared, random_inputs, references, worst
from tkgen.execute.launch import check_memory, memory
from tkgen.ir.sizing import Sizing

WARM_UPS, TIMED = 3, 20  # launches


@dataclass(frozen=True)
class Expected:
    """Random inputs, and what the equations make of them: each output in fp64, with a bound on its error."""

    inputs: Mapping[str, torch.Tensor]
    outputs: Mapping[str, Reference]


def expected(
    backend: Backend, launch: Sizing, scalars: Mapping[str, float], seed: int = 0, kind: Inputs = Inputs.EXACT
) -> Expected:
    """Compute on the CPU what a launch must store. Raises SizeError where it would not fit the memory."""
    check_memory(launch)
    inputs = random_inputs(launch, seed, kind, backend.functions)
    return Expected(inputs, references(launch, inputs, scalars, backend.functions))


def compared_launch(
    backend: Backend,
    spec: Spec,
    launch: Sizing,
    scalars: Mapping[str, float],
    wanted: Expected,
    cxx: str | None = None,
) -> tuple[Comparison, Callable[[], None]]:
    """One launch on outputs that hold NaN, held against the equations; and what launches it again.

    Raises:
        ToolchainError: no such GPU, no compiler, or one of them fails.
    """
    backend.need_gpu()
    tensors = {name: t.cuda() for name, t in memory(launch, wanted.inputs, poison=True).items()}
    again = backend.launcher(spec, launch, tensors, scalars, cxx)
    again()
    torch.cuda.synchronize()
    found = {name: tensors[name].cpu() for name in wanted.outputs}
    return worst(compared(found, wanted.outputs, launch.written).values()), again


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
