"""A built kernel on a GPU, whichever back end launches it: compared with its equations, and timed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

import torch

from tkgen.backends.protocol import Backend, Spec
from tkgen.execute import kernels
from tkgen.execute.compare import Comparison, Inputs, compared, worst
from tkgen.execute.kernels import AnyLaunch
from tkgen.execute.launch import check_memory

WARM_UPS, TIMED = 3, 20  # launches


def compared_launch(
    backend: Backend,
    spec: Spec,
    launch: AnyLaunch,
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
    for of in kernels.launches(launch):
        check_memory(of)
    inputs = kernels.random_inputs(launch, seed, Inputs.EXACT)
    expected = kernels.references(launch, inputs, scalars, backend.functions)
    tensors = {name: t.cuda() for name, t in kernels.memory(launch, inputs, poison=True).items()}
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
