"""Products of 8-bit floats on a Hopper GPU: tkgen's kernels beside torch's `_scaled_mm` and Triton, as one table; a
part of `benchmarks/hopper.py`.

    python benchmarks/hopper_fp8.py [--quick]                            on the GPU: the lines of this part
    python benchmarks/hopper_fp8.py --from FILE --write docs/measured.md

The method is that of `hopper`. Beside the rates stands how far each result is from one in f32, by norms: bf16 alone is
off by 2^-9.2, matrix units that cut sums off by more.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tkgen.api import load
from tkgen.execute.race import ROTATED_BYTES, ROUNDS, raced

ROOT = Path(__file__).parents[1]
SIZES = (4096, 8192)
CHOSEN = {("h100_fp8", 4096): {"COLUMNS": 128, "STAGES": 6}, ("h100_fp8", 8192): {"GROUP": 16}}
"""What the specs' parameters are; measured in runs before."""
SPECS = ("h100_fp8", "h100_fp8_promoted", "h100_fp8_blocks")
ONE_SCALE, BLOCKS = SPECS[:2], SPECS[2:]
MARKED = re.compile(r"## 8-bit floats\n.*?(?=\n## )", re.DOTALL)

Start = Callable[..., Callable[[], None]]


def spec_of(name: str, size: int) -> Any:
    """tkgen's kernel for M = N = K."""
    sizes = dict.fromkeys("MNK", size)
    return load(ROOT / "specs" / "hopper" / f"{name}.tk", sizes | CHOSEN.get((name, size), {})).check()


# ---------------------------------------------------------------- on the GPU


def ours(build: Any) -> Start:
    """A function that prepares a launch of tkgen's kernel on A, B, C and the scales of blocks, if it has these."""
    from tkgen.backends.hopper.launch import launcher
    from tkgen.execute.arguments import check_scalars

    launch, scalars = build.spec.launch(), check_scalars(build.spec.program)
    names = [t.name for t in build.spec.program.arguments]
    return lambda *all_of: launcher(
        build, launch, {n: t for n, t in zip("ABCst", all_of, strict=True) if n in names}, scalars
    )


def scaled_mm(fast: bool) -> Start:
    """torch's product, which is cuBLAS's, with one scale for each factor."""
    import torch

    one = torch.ones((), device="cuda")

    def start(a: Any, b: Any, c: Any, *_: Any) -> Callable[[], None]:
        def launch() -> None:
            torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast, out=c)

        return launch

    return start


def scaled_blocks(a: Any, b: Any, c: Any, s: Any, t: Any) -> Callable[[], None]:
    """torch's product with scales of blocks, those of A with its rows as neighbours."""
    import torch

    of_rows, of_blocks = s.T.contiguous().T, t.T.contiguous().T

    def launch() -> None:
        torch._scaled_mm(a, b.T, of_rows, of_blocks.T, out_dtype=torch.bfloat16, out=c)

    return launch


def triton(configuration: tuple[int, int, int, int, int]) -> Start:
    """The plain kernel of `hopper_triton` in a configuration."""
    from hopper_triton import start

    return lambda a, b, c, *_: start(a, b.T, c, configuration)


TRITON = [(128, 256, 128, 8, 3), (128, 128, 128, 8, 4), (128, 128, 128, 4, 4), (128, 256, 128, 8, 4)]
"""Rows, columns and K-step of a block, warps, stages."""


def starters(name: str, build: Any) -> dict[str, Start]:
    """All contestants of a kernel."""
    found: dict[str, Start] = {"tkgen": ours(build)}
    if name in BLOCKS:
        return found | {"torch": scaled_blocks}
    found |= {"torch": scaled_mm(fast=name == "h100_fp8")}
    if name == "h100_fp8":
        with suppress(ImportError):
            found |= {f"Triton {' '.join(map(str, c))}": triton(c) for c in TRITON}
    return found


def made(size: int, whole: bool = False) -> tuple[Any, ...]:
    """A, B, C and scales of blocks: normally distributed, or so small integers that all sums are exact."""
    import torch

    def numbers() -> Any:
        shape = (size, size)
        values = torch.randint(-1, 2, shape, device="cuda").float() if whole else torch.randn(*shape, device="cuda")
        return values.to(torch.float8_e4m3fn)

    c = torch.full((size, size), math.nan, device="cuda", dtype=torch.bfloat16)
    scales = [torch.ones(rows, size // 128, device="cuda") for rows in (size, size // 128)]
    return numbers(), numbers(), c, *(s if whole else s + torch.rand_like(s) for s in scales)


def exact(size: int, start: Start) -> bool:
    """Return True if a kernel gives the exact sums of integers, rounded once, wherever the output held NaN before."""
    import torch

    a, b, c, *scales = made(size, whole=True)
    start(a, b, c, *scales)()
    torch.cuda.synchronize()
    return bool(torch.equal(c, (a.float() @ b.float().T).bfloat16()))


def distance(name: str, size: int, start: Start) -> float:
    """Distance of a result from one in f32, by norms."""
    import torch

    a, b, c, s, t = made(size)
    start(a, b, c, s, t)()
    left, right = a.float(), b.float()
    if name in BLOCKS:
        left = left * s.repeat_interleave(128, 1)
        right = right * t.repeat_interleave(128, 0).repeat_interleave(128, 1)
    wanted = left @ right.T
    torch.cuda.synchronize()
    return float((c.float() - wanted).norm() / wanted.norm())


def runs(start: Start, size: int) -> bool:
    """Return True if a contestant runs at all here."""
    import torch

    try:
        start(*made(size))()
        torch.cuda.synchronize()
    except (RuntimeError, ValueError) as error:
        print(json.dumps({"left out": str(error).splitlines()[0][:300]}), flush=True)
        return False
    return True


def measure(quick: bool) -> None:
    """All kernels and sizes; a JSON line for each result."""
    jobs = [(name, size) for name in SPECS for size in SIZES[: 1 if quick else None]]
    with ThreadPoolExecutor() as pool:
        builds = list(pool.map(lambda job: spec_of(*job).build(), jobs))
    for (name, size), build in zip(jobs, builds, strict=True):
        print(json.dumps({"at": f"{name} {size}"}), flush=True)
        found = starters(name, build)
        if not exact(size, found["tkgen"]):
            print(json.dumps({"wrong": f"{name} {size}"}), flush=True)
            raise SystemExit(1)
        found = {who: start for who, start in found.items() if who == "tkgen" or runs(start, size)}
        sets = [made(size) for _ in range(max(2, -(-ROTATED_BYTES // (4 * size**2))))]
        launches = {who: [start(*each) for each in sets] for who, start in found.items()}
        flops = 2.0 * size**3
        layout = build.spec.layout
        block = f"{' x '.join(map(str, build.spec.program.block))}, {layout.stages} stages"
        for who, seconds in raced(launches, flops / 1.2e15, ROUNDS).items():
            middle = statistics.median(seconds)
            line = {"kind": "fp8", "spec": name, "size": size, "who": who, "tflops": flops / middle / 1e12,
                    "spread": (max(seconds) - min(seconds)) / middle, "off": distance(name, size, found[who]),
                    "block": block}  # fmt: skip
            print(json.dumps(line), flush=True)


# ---------------------------------------------------------------- what came of it


TEXT = """## 8-bit floats

The same method, in TFLOP/s: e4m3 in and bf16 out, B[N, K], M = N = K. After each rate is the
distance of the result from one in f32, relative to its norm. Triton has the best of a few
configurations.

- In `h100_fp8` the matrix units add all products, as in torch's `_scaled_mm` with `use_fast_accum`.
- `h100_fp8_promoted` adds the sum of each 128 elements of K in f32, as `_scaled_mm` does otherwise.
- `h100_fp8_blocks` scales each of these sums first, as `_scaled_mm` does with scales of 1 x 128 and
  128 x 128.

{table}
"""


def table(lines: list[dict[str, Any]]) -> str:
    """A row for each kernel and size; empty where nothing was measured."""
    found = [line for line in lines if line.get("kind") == "fp8"]
    rows = [
        "| spec | M = N = K | tkgen | torch | Triton | tkgen / torch | block of tkgen |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, size in dict.fromkeys((r["spec"], r["size"]) for r in found):
        here = [r for r in found if (r["spec"], r["size"]) == (name, size)]
        mine, torch = (next((r for r in here if r["who"] == who), None) for who in ("tkgen", "torch"))
        others = [r for r in here if r["who"].startswith("Triton")]
        best = max(others, key=lambda r: float(r["tflops"]), default=None)
        assert mine is not None
        cells = [f"{r['tflops']:.0f} ± {50 * r['spread']:.1f} %, off {100 * r['off']:.2f} %" if r else "-"
                 for r in (mine, torch, best)]  # fmt: skip
        ratio = f"{mine['tflops'] / torch['tflops']:.3f}" if torch else "-"
        rows.append(f"| `{name}` | {size} | {' | '.join(cells)} | {ratio} | {mine['block']} |")
    return "\n".join(rows) if found else ""


def page(lines: list[dict[str, Any]]) -> str:
    """This part of docs/measured.md; empty where nothing was measured."""
    made_of = table(lines)
    return TEXT.format(table=made_of) if made_of else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the smaller size alone")
    parser.add_argument("--from", type=Path, dest="source", help="the lines of a run, in place of one")
    parser.add_argument("--write", type=Path, help="the page in which this part is replaced")
    given = parser.parse_args()
    if given.source is None:
        measure(given.quick)
        return
    lines = [json.loads(x) for x in given.source.read_text(encoding="utf-8").splitlines() if x.startswith("{")]
    print(page(lines))
    if given.write:
        text = given.write.read_text(encoding="utf-8")
        assert MARKED.search(text), f"{given.write} has no part of 8-bit floats"
        given.write.write_text(MARKED.sub(lambda _: page(lines).rstrip("\n") + "\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
