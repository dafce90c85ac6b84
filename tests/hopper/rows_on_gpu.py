"""Runs the cases of `row_cases` on this machine's GPU and prints what is not right: a process that can be ended.

With the name of a kernel, its cases alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from row_cases import CASES

from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.launch import launcher
from tkgen.execute.arguments import check_scalars
from tkgen.execute.compare import Inputs, Reference, compare, random_inputs, references
from tkgen.ir.functions import HOPPER
from tkgen.ir.launch import Launch
from tkgen.ir.rounding import is_unwritten, unwritten

AGAIN = 3  # launches that must give the same bits
GUARD = 1024  # elements behind each output that nothing may write


def inputs_of(launch: Launch[Any], kind: str) -> dict[str, torch.Tensor]:
    """Random inputs, or such as hurt: huge, tiny, peaked."""
    if kind != "hurting":
        return random_inputs(launch, 1, Inputs(kind))
    found = random_inputs(launch, 2, Inputs.NORMAL)
    for tensor in found.values():
        if tensor.element_size() == 1:  # torch has no arithmetic of them, nor would they hold such numbers
            continue
        flat = tensor.view(-1)
        flat[::5] *= 2.0**9
        flat[1::7] *= 2.0**-9
    return found


def guarded(launch: Launch[Any], inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Everything that the kernel takes, on the GPU; outputs that are not read hold NaN, with a guard after each."""
    found = {}
    for tensor in launch.program.arguments:
        shape, count = launch.shape(tensor), launch.bytes(tensor) // tensor.dtype.bytes
        whole = unwritten((count + GUARD,), tensor.dtype).cuda()
        if tensor.name in inputs:
            whole[:count] = inputs[tensor.name].cuda().view(-1)
        found[tensor.name] = whole[:count].view(shape)
    return found


def launched(
    launch: Launch[Any], inputs: Mapping[str, torch.Tensor], expected: Mapping[str, Reference],
    start: Callable[[Mapping[str, torch.Tensor]], Callable[[], None]],
) -> tuple[list[str], dict[str, torch.Tensor]]:  # fmt: skip
    """The faults of several launches on such inputs, and the results of the first one; `start` makes a launch."""
    first: dict[str, torch.Tensor] = {}
    found = []
    for number in range(1 + AGAIN):
        tensors = guarded(launch, inputs)
        start(tensors)()
        torch.cuda.synchronize()
        for name, (value, bound) in expected.items():
            whole = tensors[name].as_strided((tensors[name].numel() + GUARD,), (1,))
            if not bool(is_unwritten(whole[tensors[name].numel() :]).all()):
                found.append(f"something behind {name} is written")
            if number == 0:
                first[name] = tensors[name]
                judged = compare(tensors[name].cpu(), value, bound)
                found += [] if judged.right else [f"{name}: {judged}"]
            elif not torch.equal(first[name].view(torch.uint8), tensors[name].view(torch.uint8)):
                found.append(f"another {name} in another launch")
    return found, first


def wrong(build: CudaBuild, kind: str) -> str:
    """The faults of a kernel on such inputs; empty if there are none."""
    spec = build.spec
    launch, scalars = spec.launch(), check_scalars(spec.program)
    inputs = inputs_of(launch, kind)
    expected = references(launch, inputs, scalars, HOPPER)
    found, _ = launched(launch, inputs, expected, lambda tensors: launcher(build, launch, tensors, scalars))
    return "; ".join(dict.fromkeys(found))


def main() -> None:
    cases = [case for case in CASES if case.name in (sys.argv[1:] or case.name)]
    with ThreadPoolExecutor() as pool:
        builds = list(pool.map(lambda case: case.spec().build(), cases))
    count = 0
    for case, build in zip(cases, builds, strict=True):
        for kind in ("exact", "normal", "hurting"):
            count += 1
            if found := wrong(build, kind):
                print(f"WRONG {kind} {case}: {found}", flush=True)
    print(f"{count} launches compared", flush=True)


if __name__ == "__main__":
    main()
