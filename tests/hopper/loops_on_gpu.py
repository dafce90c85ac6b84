"""Runs the cases of `loop_cases` on this machine's GPU and prints what is not right: a process that can be ended."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from loop_cases import CASES, Attention
from rows_on_gpu import launched

from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.launch import launcher
from tkgen.execute.arguments import check_scalars
from tkgen.execute.compare import Inputs, random_inputs, references
from tkgen.ir.functions import HOPPER
from tkgen.ir.launch import Launch


def inputs_of(launch: Launch[Any], peaked: bool) -> dict[str, torch.Tensor]:
    """Normally distributed; or with queries that make one key win, and keys that lie far from zero."""
    found = random_inputs(launch, 1 + peaked, Inputs.NORMAL)
    if peaked:
        found["Q"] *= 8
        found["K"] += 2
    return found


def wrong(build: CudaBuild, peaked: bool) -> str:
    """The faults of a kernel on such inputs; empty if there are none."""
    spec = build.spec
    launch, scalars = spec.launch(), check_scalars(spec.program)
    inputs = inputs_of(launch, peaked)
    expected = references(launch, inputs, scalars, HOPPER)
    found, first = launched(launch, inputs, expected, lambda tensors: launcher(build, launch, tensors, scalars))
    off = float((first["O"].cpu().double() - expected["O"][0]).norm() / expected["O"][0].norm())
    found += [] if off < 2.0**-7 else [f"O is off by {off:.2g} of its norm"]
    return "; ".join(dict.fromkeys(found))


def main() -> None:
    cases: list[Attention] = CASES[: int(sys.argv[1])] if sys.argv[1:] else CASES
    with ThreadPoolExecutor() as pool:
        builds = list(pool.map(lambda case: case.spec().build(), cases))
    count = 0
    for case, build in zip(cases, builds, strict=True):
        for peaked in (False, True):
            count += 1
            if found := wrong(build, peaked):
                print(f"WRONG {'peaked' if peaked else 'normal'} {case}: {found}", flush=True)
    print(f"{count} launches compared", flush=True)


if __name__ == "__main__":
    main()
