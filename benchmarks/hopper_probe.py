"""Numbers of a Hopper GPU that no data sheet has, measured with kernels of extreme shapes: launches, latencies, rates,
clocks under the power limit. `tkgen/targets/sm_90a.toml` has the printed numbers, with the date.

    python benchmarks/hopper_probe.py [--json FILE] [--only rows --only "memory to all SMs"]

Each probe is a kernel of tkgen's in which one thing takes nearly all of the time, launched back to back in a graph. The
clock is what nvidia-smi says while the graph is replayed for a second: the median of its samples.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from tkgen.api import load
from tkgen.execute.race import graph_of

SPECS = Path(__file__).parents[1] / "specs" / "hopper"
SAMPLE_MS = 50
COLD_BYTES = 160_000_000  # that launches go round, more than the L2 has


@dataclass(frozen=True)
class Probe:
    """One kernel at one size: seconds of a launch, and the clock and power meanwhile."""

    what: str
    spec: str
    values: dict[str, int]
    data: str  # "zeros" or "normal"
    sets: int  # of tensors that launches go round
    seconds: float
    mhz: float
    watts: float


def probes() -> list[tuple[str, str, dict[str, int], str, int]]:
    """Probes: the question, the kernel, its sizes, its data, and the number of sets of tensors."""
    small = {"ROWS": 64, "COLUMNS": 64, "STAGES": 2}
    tall = {"M": 1536, "N": 2816, "K": 65536}
    found = [
        ("a launch of one tile and one step", "h100_lcf", {"M": 128, "N": 256, "K": 64}, "zeros", 2),
        ("a launch of one tile and 5 steps", "h100_lcf", {"M": 128, "N": 256, "K": 320}, "zeros", 2),
        ("a launch of one row", "h100_rmsnorm", {"TOKENS": 1, "D": 4096}, "zeros", 2),
        ("a launch of 132 rows", "h100_rmsnorm", {"TOKENS": 132, "D": 4096}, "zeros", 2),
        ("a launch of 16 blocks of attention", "h100_attention", {"BATCH": 1, "LENGTH": 128}, "zeros", 2),
        ("copies from L2, two in flight", "h100_lcf", {"M": 64, "N": 64, "K": 32768, **small}, "zeros", 1),
        ("copies from L2, eight in flight", "h100_lcf", {"M": 64, "N": 64, "K": 32768, **small, "STAGES": 8}, "zeros",
         1),
        ("copies from memory, two in flight", "h100_lcf", {"M": 64, "N": 64, "K": 131072, **small}, "zeros", 8),
        *(("copies from memory in short rows", name, {"M": 64, "N": 64, "K": 8192, **small}, "zeros", 96)
          for name in ("h100_lcf", "h100_lcf_abt")),
        ("L2 to all SMs", "h100_lcf", {"M": 768, "N": 704, "K": 16384, **small, "STAGES": 12}, "zeros", 1),
        ("L2 to all SMs, 64 x 128", "h100_lcf",
         {"M": 768, "N": 1408, "K": 8192, "ROWS": 64, "COLUMNS": 128, "STAGES": 8}, "zeros", 1),
        ("L2 to all SMs, 128 x 128", "h100_lcf",
         {"M": 1536, "N": 1408, "K": 8192, "ROWS": 128, "COLUMNS": 128, "STAGES": 6}, "zeros", 1),
        ("memory to all SMs", "h100_lcf", {"M": 64, "N": 8448, "K": 16384, "ROWS": 64, "COLUMNS": 64, "STAGES": 12},
         "zeros", 2),
    ]  # fmt: skip
    one, all_of_them, three = (1, 1), (12, 11), (12, 33)  # tiles along the rows and the columns: 132 for one each
    for what, (down, across), (rows, columns, stages), depth in (
        ("products of one consumer, 64 columns", one, (64, 64, 8), 8192),
        ("products of one consumer, 128 columns", one, (64, 128, 8), 8192),
        ("products of one consumer, 256 columns", one, (64, 256, 4), 8192),
        ("copies of all SMs in four stages, 16 KB", all_of_them, (64, 64, 4), 8192),
        ("copies of all SMs in four stages, 24 KB", all_of_them, (64, 128, 4), 8192),
        ("copies of all SMs in four stages, 32 KB", all_of_them, (128, 128, 4), 8192),
        ("a tile of one step", all_of_them, (128, 256, 4), 64),
        ("three tiles of one step", three, (128, 256, 4), 64),
        ("a tile of 16 steps", all_of_them, (128, 256, 4), 1024),
        ("three tiles of 16 steps", three, (128, 256, 4), 1024),
    ):
        values = {
            "M": down * rows,
            "N": across * columns,
            "K": depth,
            "ROWS": rows,
            "COLUMNS": columns,
            "STAGES": stages,
        }
        found.append((what, "h100_lcf", values, "zeros", 2))
    found += copies()
    for width, queries, keys in product((64, 128), (64, 128, 192), (64, 128)):
        if (width, queries, keys) != (128, 192, 128):  # which has no room for its tiles
            values = {"BATCH": 1, "LENGTH": 9216, "D": width, "QUERIES": queries, "BLOCK": keys}
            found.append((f"attention by {queries // 64} consumers", "h100_attention", values, "normal", 2))
    for width, tile, warps in ((1024, 1, 4), (4096, 1, 2), (4096, 8, 8), (16384, 1, 8), (16384, 2, 16)):
        values = {"TOKENS": 2**27 // width, "D": width, "TILE": tile, "WARPS": warps}
        found.append(("layer norm in blocks of all sizes", "h100_layernorm", values, "normal", 2))
    for data in ("zeros", "normal"):
        found += [
            ("products alone", "h100_lcf", tall, data, 2),
            ("products alone, 128 x 128", "h100_lcf",
             {"M": 1536, "N": 1408, "K": 65536, "ROWS": 128, "COLUMNS": 128, "STAGES": 6}, data, 2),
            ("products in half of the SMs", "h100_lcf", {"M": 768, "N": 2816, "K": 65536}, data, 2),
            ("attention, D = 128", "h100_attention", {"BATCH": 1, "LENGTH": 16384}, data, 2),
            ("attention, D = 64", "h100_attention",
             {"BATCH": 1, "LENGTH": 16384, "D": 64, "QUERIES": 192}, data, 2),
            ("rows", "h100_softmax", {"ROWS": 32768, "D": 4096}, data, 2),
        ]  # fmt: skip
    return found


def chosen(only: Sequence[str] | None) -> list[tuple[str, str, dict[str, int], str, int]]:
    """The probes whose names begin as one of `only`, or all. Raises SystemExit where one names none."""
    every = probes()
    for start in only or ():
        if not any(what.startswith(start) for what, *_ in every):
            raise SystemExit(f"no probe's name begins with `{start}`")
    return [probe for probe in every if not only or probe[0].startswith(tuple(only))]


def copies() -> list[tuple[str, str, dict[str, int], str, int]]:
    """Copies of blocks of all shapes, one on its way at a time: of one block, of a row of them, of 12 x 11.

    A set of tensors is in the L2 where there is one; several of more bytes than it has are not.
    """

    def asked(what: str, down: int, across: int, rows: int, columns: int, stages: int = 2, spec: str = "h100_lcf_abt",
              hot: bool = False, **more: int) -> tuple[str, str, dict[str, int], str, int]:  # fmt: skip
        values = {"M": down * rows, "N": across * columns, "K": 4096, "ROWS": rows, "COLUMNS": columns}
        sets = max(-(-COLD_BYTES // ((down * rows + across * columns) * 4096 * 2)), 2)
        return what, spec, values | {"STAGES": stages} | more, "normal", 1 if hot else sets

    found = []
    for block in ((64, 64), (64, 128), (64, 256), (128, 64), (128, 128), (128, 256), (192, 128), (256, 128)):
        found += [asked(f"copies of one block, {' x '.join(map(str, block))}, from L2", 1, 1, *block, hot=True),
                  asked(f"copies of one block, {' x '.join(map(str, block))}", 1, 1, *block)]  # fmt: skip
    for block in ((64, 64), (64, 128), (64, 256), (128, 128)):
        found.append(asked("copies of one block, K across the rows of B", 1, 1, *block, spec="h100_lcf"))
        found += [asked(f"copies of a row of {n} blocks", 1, n, *block) for n in (33, 132)]
        found += [asked("copies of 12 x 11 blocks", 12, 11, *block, stages) for stages in (2, 4)]
    for group in (1, 12):  # neighbours have rows of A in common, or columns of B
        large = {"M": 8448, "N": 2816, "GROUP": group}
        found.append(asked(f"132 x 11 tiles, {group} rows at a time", 132, 11, 64, 256, 5, "h100_lcf", **large))
    return found


def clocks() -> tuple[float, float]:
    """SM clock in MHz and power in W now."""
    query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw.instant", "--format=csv,noheader,nounits"]
    said = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip().split(",")
    return float(said[0]), float(said[1])


def timed(launches: Sequence[Callable[[], None]], seconds: float) -> tuple[float, float, float]:
    """Seconds of a launch, MHz and W over about `seconds` of replays."""
    import torch

    for launch in launches:
        launch()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for launch in launches:
        launch()
    torch.cuda.synchronize()
    one = (time.perf_counter() - begin) / len(launches)
    repeats = min(max(1, round(4e-3 / one / len(launches))), 400)
    graph = graph_of(list(launches) * repeats)
    times, seen, end = [], [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(10):
            graph.replay()
        last.record()
        seen.append(clocks())  # while they run
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last) / 1e3 / (10 * repeats * len(launches)))
    mhz, watts = (statistics.median(x) for x in zip(*seen[len(seen) // 2 :], strict=True))
    return statistics.median(times[len(times) // 2 :]), mhz, watts


def launches(build: Any, data: str, sets: int) -> list[Callable[[], None]]:
    """Functions that launch a kernel, one for each of `sets` sets of tensors."""
    import torch

    from tkgen.backends.hopper.launch import launcher
    from tkgen.execute.arguments import check_scalars
    from tkgen.ir.rounding import TORCH

    spec, program = build.spec, build.spec.program
    scalars = check_scalars(program)
    launch: Any = spec.launch()
    start: Any = launcher
    found = []
    for _ in range(sets):
        tensors = {
            t.name: (torch.zeros if data == "zeros" else torch.randn)(launch.shape(t), device="cuda").to(TORCH[t.dtype])
            for t in program.arguments
        }
        found.append(start(build, launch, tensors, scalars))
    return found


def main() -> None:
    """Run all probes and print them."""
    from concurrent.futures import ThreadPoolExecutor

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", action="append", help="probes alone whose names begin so; may be given again")
    args = parser.parse_args()
    asked = chosen(args.only)
    with ThreadPoolExecutor() as pool:
        builds = list(pool.map(lambda p: load(SPECS / f"{p[1]}.tk", p[2]).build(), asked))
    found = []
    for (what, spec, values, data, sets), build in zip(asked, builds, strict=True):
        probe = Probe(what, spec, values, data, sets, *timed(launches(build, data, sets), args.seconds))
        found.append(probe)
        print(
            f"{what:38} {data:7} {probe.seconds * 1e6:10.2f} us {probe.mhz:6.0f} MHz {probe.watts:5.0f} W", flush=True
        )
    if args.json:
        args.json.write_text(json.dumps([asdict(p) for p in found], indent=1))


if __name__ == "__main__":
    main()
