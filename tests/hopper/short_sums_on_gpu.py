"""Sums of 8-bit floats on this machine's GPU beside those of `short_sums`, bit for bit: prints what differs."""

from __future__ import annotations

from itertools import product

import torch
from gemms import gemm
from on_gpu import built
from short_sums import summed
from test_short_sums import NUMBERS

from tkgen.backends.hopper.launch import launcher

TYPES = {"fp8": torch.float8_e4m3fn, "bf8": torch.float8_e5m2}
M, N, K = 64, 128, 1040


def main() -> None:
    count = 0
    for left, right in product(TYPES, TYPES):
        text = gemm("NT", (64, 128, 128), operand=left, right=right, output="f32", dims=(M, N, K))
        build = built(text)
        launch = build.spec.launch()
        for numbers, made in NUMBERS.items():
            generator = torch.Generator().manual_seed(count)
            a, b = (made(torch.randn(rows, K, generator=generator)).to(TYPES[t]) for rows, t in ((M, left), (N, right)))
            tensors = {"A": a.cuda(), "B": b.cuda(), "C": torch.full((M, N), torch.nan, device="cuda")}
            launcher(build, launch, tensors, {})()
            found, wanted = tensors["C"].cpu().double(), summed(a, b)
            count += 1
            if not torch.equal(found, wanted):
                off = int((found != wanted).sum())
                print(f"WRONG {left} {right} {numbers}: {off} of {M * N} sums have other bits", flush=True)
    print(f"{count} launches compared", flush=True)


if __name__ == "__main__":
    main()
