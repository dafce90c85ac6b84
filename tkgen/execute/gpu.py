"""A built kernel on a GPU, whichever back end launches it: compared with its equations, and timed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

import torch

from tkgen.backends.protocol import Backend
from tkgen.execute.arguments import Sized
from tkgen.execute.compare import Comparison, Inputs, compared, random_inputs, references, worst
from tkgen.execute.launch import check_memory, outputs
from tkgen.ir.launch import Launch

WARM_UPS, TIMED = 3, 20  # launches


def compared_launch(
    backend: Backend,
    spec: Sized,
    launch: Launch,
    scalars: Mapping[str, float],
    seed: int = 0,
    cxx: str | None = None,
) -> tuple[Comparison, Callable[[], None]]:
    """One launch on random inputs, held against the equations; and what launches it again.

    Raises:
        ToolchainError: no such GPU, no compiler, or one of them fails.
        SizeError: the reference would not fit the memory.
    """
    backend.need_gpu()
    check_memory(launch)
    inputs = random_inputs(launch, seed, Inputs.EXACT)
    expected = references(spec.program, inputs, scalars, backend.functions)
    tensors = {name: t.cuda() for name, t in (inputs | outputs(launch, inputs)).items()}
    again = backend.launcher(spec, launch, tensors, scalars, cxx)
    again()
    torch.cuda.synchronize()
    return worst(compared({name: tensors[name].cpu() for name in expected}, expected).values()), again


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
