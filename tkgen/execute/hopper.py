"""A built kernel on a Hopper GPU, compared with its equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from tkgen.backends.hopper import HopperSpec
from tkgen.backends.hopper.launch import launcher, need_gpu
from tkgen.execute.arguments import check_requirements, sizes
from tkgen.execute.compare import Comparison, Inputs, compared, random_inputs, references, worst
from tkgen.execute.launch import check_memory, outputs
from tkgen.ir.launch import Launch


def launched(spec: HopperSpec, given: Mapping[str, int] | None = None) -> Launch:
    """The launch of `spec` at its own sizes, `given` ones for dynamic dimensions.

    Raises:
        SizeError: a dynamic dimension without a size, or a size the kernel cannot do.
    """
    launch = Launch(spec.program, sizes(spec.program, given))
    check_requirements(spec.program, 1, 0, launch.extents)
    return launch


def compared_launch(
    spec: HopperSpec,
    launch: Launch,
    scalars: Mapping[str, float],
    seed: int = 0,
    nvcc: str | None = None,
    kind: Inputs = Inputs.EXACT,
) -> tuple[Comparison, Callable[[], None]]:
    """One launch on random inputs, held against the equations; and what launches it again.

    Raises:
        ToolchainError: no Hopper GPU, no nvcc, or one of them fails.
        SizeError: the reference would not fit the memory.
    """
    need_gpu()
    check_memory(launch)
    inputs = random_inputs(launch, seed, kind)
    expected = references(spec.program, inputs, scalars)
    tensors = {name: t.cuda() for name, t in (inputs | outputs(launch, inputs)).items()}
    again = launcher(spec.build(nvcc=nvcc), launch, tensors, scalars)
    again()
    torch.cuda.synchronize()
    return worst(compared({name: tensors[name].cpu() for name in expected}, expected).values()), again
