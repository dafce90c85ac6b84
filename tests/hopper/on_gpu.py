"""Runs the cases on this machine's GPU and prints what is not right, a line each: a process that can be ended."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
from gemms import CASES, FUSED, GROUPED, SPLIT, TURNS, gemm

from tkgen.api import load
from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.launch import launcher
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.execute.arguments import check_scalars
from tkgen.execute.compare import Inputs, compare, random_inputs, references
from tkgen.ir.functions import HOPPER
from tkgen.ir.rounding import TORCH

AGAIN = 5  # launches that must give the same bits
GUARD = 8  # rows behind the output, or matrices of a batch, that nothing may write


def built(text: str) -> CudaBuild:
    spec = load(text)
    assert isinstance(spec, HopperSpec)
    return spec.build()


def wrong(build: CudaBuild, kind: Inputs) -> str:
    """The faults of a kernel on such inputs; empty if there are none."""
    program, launch = build.spec.program, build.spec.launch()
    inputs, scalars = random_inputs(launch, 1, kind, HOPPER), check_scalars(program)
    if program.outputs[0].dtype.encoded and kind is Inputs.NORMAL and inputs["A"].dtype != torch.float8_e4m3fn:
        inputs["A"].view(-1)[0] = torch.inf  # a row of infinities, which e4m3 has not
    expected = references(launch, inputs, scalars, HOPPER)
    whole = {t.name: _guarded(launch.shape(t), TORCH[t.dtype]) for t in program.outputs}
    outputs = {name: t[:-GUARD] for name, t in whole.items()}
    for name in program.added:
        outputs[name].zero_()
    again = launcher(build, launch, {name: t.cuda() for name, t in inputs.items()} | outputs, scalars)
    again()
    torch.cuda.synchronize()
    first = {name: t.clone() for name, t in outputs.items()}
    found = [f"{name}: {c}" for name, t in first.items() if not (c := compare(t.cpu(), *expected[name])).right]
    for _ in range(AGAIN):
        for name, t in outputs.items():
            t.fill_(0.0 if name in program.added else float("nan"))
        again()
        torch.cuda.synchronize()
        if kind is not Inputs.EXACT and program.added:
            continue  # blocks add in any order
        if not all(torch.equal(_bytes(first[name]), _bytes(t)) for name, t in outputs.items()):
            found.append("another result in another launch")
            break
    if not all(bool(t[-GUARD:].float().isnan().all()) for t in whole.values()):
        found.append("something behind an output is written")
    return "; ".join(found)


def _guarded(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """An output and what lies after it, NaNs."""
    return torch.full((shape[0] + GUARD, *shape[1:]), float("nan"), dtype=dtype, device="cuda")


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """As they lie in memory: torch does not compare 8-bit floats."""
    return tensor.contiguous().view(torch.uint8)


def main() -> None:
    cases = {str(case): gemm(**case) for case in (*CASES, *TURNS, *SPLIT)} | FUSED | GROUPED
    with ThreadPoolExecutor() as pool:
        builds = list(pool.map(built, cases.values()))
    count = 0
    for case, build in zip(cases, builds, strict=True):
        for kind in Inputs:
            found = wrong(build, kind)
            count += 1
            if found:
                print(f"WRONG {kind.value} {case}: {found}", flush=True)
    print(f"{count} launches compared", flush=True)


if __name__ == "__main__":
    main()
