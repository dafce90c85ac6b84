"""Runs the cases of `product_cases` on this machine's GPU and prints what is not right: a process that can be ended."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from product_cases import CASES, TEXTS, inputs_of, spec_of

from tkgen.backends.hopper.launch import launcher
from tkgen.ir.rounding import TORCH

AGAIN = 3  # launches that must give the same bits


def wrong(case: str, build: Any) -> str:
    """The first fault of a case; empty if there is none."""
    launch = build.spec.launch({"LENGTH": 200} if case == "dynamic" else None)
    inputs = inputs_of(build.spec, launch)
    outputs = {t.name: torch.empty(launch.shape(t), dtype=TORCH[t.dtype], device="cuda")
               for t in build.spec.program.outputs}  # fmt: skip
    start = launcher(build, launch, {name: t.cuda() for name, t in inputs.items()} | outputs, {})
    first: dict[str, torch.Tensor] = {}
    for _ in range(AGAIN):
        for tensor in outputs.values():
            tensor.fill_(torch.nan)
        start()
        torch.cuda.synchronize()
        first = first or {name: t.clone() for name, t in outputs.items()}
        if not all(torch.equal(first[name], t) for name, t in outputs.items()):
            return "another result in another launch"
    for name, wanted in TEXTS[CASES[case][0]][1](inputs).items():
        off = float((first[name].cpu().double() - wanted).abs().max() / wanted.abs().max())
        if not off <= 2.0**-6:
            return f"{name} is off by {off:.3g} of its largest number"
    return ""


def main() -> None:
    with ThreadPoolExecutor() as pool:
        builds = dict(zip(CASES, pool.map(lambda case: spec_of(case).build(), CASES), strict=True))
    for case, build in builds.items():
        if found := wrong(case, build):
            print(f"WRONG {case}: {found}", flush=True)
    print(f"{len(builds)} launches compared", flush=True)


if __name__ == "__main__":
    main()
