"""A kernel on tensors, through `tkgen.run` or its C++ for Hopper on the host, and the error of what it computes."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from torch import Tensor

import tkgen
from tkgen.backends.registry import backend_of
from tkgen.execute.arguments import scalar_values
from tkgen.execute.operator import launch_of
from tkgen.proof.execution import Order


def computed(build: Any, *tensors: Tensor, host: bool = False, **scalars: float) -> tuple[Tensor, ...]:
    """The outputs, in order."""
    if not host:
        found = tkgen.run(build, *tensors, **scalars)
        return found if isinstance(found, tuple) else (found,)
    program = build.spec.program
    named = {t.name: tensor for t, tensor in zip(program.reads, tensors, strict=True)}
    launch, values = launch_of(build, tensors), scalar_values(program, scalars)
    made = backend_of("sm_90a").executors["host"].run(build.spec, launch, named, values, Order())
    assert not made.findings, made.findings
    return tuple(made.outputs[t.name] for t in program.outputs)


@cache
def built(text: str, target: str) -> Any:
    """Compiled, watched, without spills; Hopper's warpgroups say themselves how many warps they have."""
    text = text.replace("  waves 4\n", "") if target == "sm_90a" else text
    build = tkgen.load(text, target=target).check().build().check()
    if target != "sm_90a":
        assert build.machine_check.outcome == "right" and build.resources.clean
    return build


def fault(found: Tensor, wanted: Tensor) -> float:
    """The largest error, in units of the largest number; NaN and what has another shape are as wrong as can be."""
    assert found.shape == wanted.shape
    errors = (found.double() - wanted).abs() / wanted.abs().max()
    return float(errors.nan_to_num(math.inf).max())
