"""Products of shapes drawn at random, by the kernels that `tkgen.ops` chooses, beside cuBLAS, on a Hopper GPU.

    python3 benchmarks/hopper_drawn.py [--shapes 24] [--seed N] [--write docs/measured_drawn.md]

Sizes are log-uniform from 16 to 16384, in multiples of 8; the seed is new each time, unless given. NT is
`tkgen.ops.linear`, NN `tkgen.ops.matmul`. Each result is compared with cuBLAS first. Prints ratios, their means
and the worst; asserts nothing about times.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import torch

from tkgen import ops
from tkgen.execute.race import ROTATED_BYTES, raced
from tkgen.ops.kernels import _built
from tkgen.ops.products import product

LEAST, MOST, UNIT = 4, 14, 8  # powers of two, and what sizes are multiples of
OFF = 2.0**-7  # of the norm
ROUNDS, MOST_SETS = 7, 24
LONG = 10e-6  # seconds, above which a product is listed apart: below, launches take most of the time


def drawn(seed: int, count: int) -> list[tuple[int, int, int]]:
    """`count` shapes M, N, K."""
    generator = random.Random(seed)

    def size() -> int:
        return max(2**LEAST, min(2**MOST, UNIT * round(2 ** generator.uniform(LEAST, MOST) / UNIT)))

    return [(size(), size(), size()) for _ in range(count)]


def factors(layout: str, m: int, n: int, k: int, device: str = "cuda") -> tuple[torch.Tensor, torch.Tensor]:
    """A and B, normally distributed."""
    a = torch.randn(m, k, device=device).bfloat16()
    return a, torch.randn(*((n, k) if layout == "NT" else (k, n)), device=device).bfloat16()


def build(layout: str, shape: tuple[int, int, int]) -> str:
    """Build the kernel for a shape, and name its form."""
    m, n, k = shape
    a, b = (
        torch.empty(m, k, device="cuda", dtype=torch.bfloat16),
        torch.empty(n, k, device="cuda", dtype=torch.bfloat16),
    )
    nt = layout == "NT"
    found = product("linear", a, b, along=True) if nt else product("linear_input", a, b.view(k, n))
    _built(found.spec, "sm_90a", tuple(sorted(found.defines.items())))
    tile = f"{found.defines['ROWS']} x {found.defines['COLUMNS']}, {found.defines['STAGES']} stages"
    parts = f", {found.sizes['PARTS']} parts" if found.sizes else ""
    clusters = next((f", clusters along {axis}" for axis in "mn" if f"clusters 2 along {axis}" in found.spec), "")
    return tile + clusters + parts


def measured(layout: str, shape: tuple[int, int, int]) -> tuple[float, float]:
    """Microseconds of tkgen's kernel and of cuBLAS. Raises SystemExit where the results differ."""
    m, n, k = shape
    moved = 2 * (m * k + k * n + m * n)
    sets = [factors(layout, *shape) for _ in range(max(1, min(MOST_SETS, -(-ROTATED_BYTES // moved))))]
    ours: Callable[[Any, Any], torch.Tensor] = ops.linear if layout == "NT" else ops.matmul

    def theirs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ (b.T if layout == "NT" else b)

    found, wanted = ours(*sets[0]).float(), theirs(*sets[0]).float()
    if not (off := float((found - wanted).norm() / wanted.norm())) < OFF:
        raise SystemExit(f"{layout} {shape}: off by {off:.2g} of its norm")
    launches = {
        "tkgen": [lambda s=s: ours(*s) for s in sets], "cuBLAS": [lambda s=s: theirs(*s) for s in sets],
    }  # fmt: skip
    guess = max(2.0 * m * n * k / 6e14, 2e-5)  # a replay need not be long for a short launch
    times = raced(launches, guess, ROUNDS)
    return statistics.median(times["tkgen"]) * 1e6, statistics.median(times["cuBLAS"]) * 1e6


def summary(ratios: Sequence[float]) -> str:
    """The geometric mean, the worst, and how often tkgen was faster."""
    if not ratios:
        return "none"
    faster = sum(r >= 1 for r in ratios)
    return f"{statistics.geometric_mean(ratios):.3f}; worst {min(ratios):.3f}; faster in {faster} of {len(ratios)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=int, default=24)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    given = parser.parse_args()
    shapes = [(layout, shape) for shape in drawn(given.seed, given.shapes) for layout in ("NN", "NT")]
    print(f"seed {given.seed}", flush=True)
    with ThreadPoolExecutor() as pool:
        forms = list(pool.map(lambda each: build(*each), shapes))
    rows, ratios, long = [], [], []
    for (layout, shape), form in zip(shapes, forms, strict=True):
        ours, theirs = measured(layout, shape)
        ratios.append(theirs / ours)
        if theirs * 1e-6 > LONG:
            long.append(theirs / ours)
        rows.append(
            f"| {' x '.join(map(str, shape))} | {layout} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.3f} | {form} |"
        )
        print(rows[-1], flush=True)
        torch.cuda.empty_cache()
    text = PAGE.format(
        device=torch.cuda.get_device_name(), torch=torch.__version__, date=date.today(), seed=given.seed,
        shapes=given.shapes, all=summary(ratios), long=summary(long), rows="\n".join(rows),
    )  # fmt: skip
    print(f"all: {summary(ratios)}\nabove {LONG * 1e6:.0f} us: {summary(long)}")
    if given.write:
        given.write.write_text(text, encoding="utf-8")


PAGE = """# Products of random shapes on a Hopper GPU

Written by `python benchmarks/hopper_drawn.py --write PAGE`, never by hand. bf16 in and out, f32
sums.

device {device}; torch {torch}; date {date}; seed {seed}

{shapes} shapes are drawn: M, N and K log-uniform from 16 to 16384, in multiples of 8. Nobody tuned
for them. NT is `tkgen.ops.linear`, B[N, K]; NN is `tkgen.ops.matmul`, B[K, N]. The operator chooses
its kernel by prediction (`tkgen/ops/products.py`); beside it is cuBLAS, as torch calls it. Method:
as on [the other pages](measured.md), with CUDA graphs that are replayed by turns.

Time of cuBLAS / time of tkgen, geometric mean: **{all}**.
Of products that take cuBLAS more than 10 us: **{long}**.

| M x N x K | layout | tkgen, us | cuBLAS, us | cuBLAS / tkgen | block of tkgen |
|---|---|---|---|---|---|
{rows}
"""

if __name__ == "__main__":
    main()
