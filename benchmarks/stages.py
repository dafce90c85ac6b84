"""Time and memory of every stage of tkgen over growing specs and growing grids, with the exponent of each growth.

    python benchmarks/stages.py [--quick]

Specs grow by the operations of a written schedule (10 to 400, a fragment each), by waves and by LDS buffers; grids by
the output tiles. Times are CPU time, all threads and children together, the best of three; memory is the peak that the
stage allocates (tracemalloc; the compiler's is its resident set). The exponent is the slope of log(time) over
log(input), fitted to the larger half of the inputs: 1 is linear; small inputs, mostly constant work, stay below.
"""

from __future__ import annotations

import argparse
import math
import resource
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table

import tkgen
from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.cdna.lower.render import lower
from tkgen.build import Build
from tkgen.checks.families import check
from tkgen.execute.launch import run
from tkgen.ir.program import matrix_program as resolve
from tkgen.predict import predict
from tkgen.schedule.plan import plan
from tkgen.syntax.parser import parse_path
from tkgen.targets import load_target
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler

T = TypeVar("T")
STAGES = ("parse", "resolve", "plan", "check", "lower", "compile", "emulate", "predict")
SPECS = Path(__file__).parent.parent / "specs"


def schedule_of(rows: int, cols: int, slices: int) -> str:
    """A spec whose schedule reads and multiplies every fragment by its own operation."""
    lines = ["cluster load A  load B"]
    for t in range(slices):
        reads = [f"read A({i}; {t})" for i in range(rows)] + [f"read B({j}; {t})" for j in range(cols)]
        lines.append("cluster " + "  ".join(reads))
        lines += ["cluster " + "  ".join(f"multiply ({i}, {j}; {t})" for j in range(cols)) for i in range(rows)]
    body = "\n".join(f"    {line}" for line in lines)
    return f"""kernel grown
  dims M = {32 * rows}, N = {32 * cols}, K = {16 * slices * 4}
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block {32 * rows} x {32 * cols} step {16 * slices}
  waves 2 x 2
  shared A, B buffers 1
  registers A, B slice 16
  accumulate C : f32 tile 16 x 16 blocked
  store C
  schedule
{body}
"""


def automatic(waves: tuple[int, int], buffers: int, step: int = 32) -> str:
    """A spec whose schedule tkgen derives."""
    rows, cols = waves
    return f"""kernel grown
  dims M = {32 * rows}, N = {32 * cols}, K = {step * 8}
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block {32 * rows} x {32 * cols} step {step}
  waves {rows} x {cols}
  shared A, B buffers {buffers}
  accumulate C : f32 tile 32 x 32
  store C
"""


@dataclass(frozen=True)
class Measured:
    """One input: its size and, per stage, seconds and MiB."""

    size: int
    seconds: Mapping[str, float]
    mib: Mapping[str, float]


def cpu_seconds() -> float:
    """CPU time of this process and the children it waited for; other work of the machine does not count."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def best(work: Callable[[], T], repeats: int) -> tuple[T, float]:
    """The result and the shortest time of a call."""
    shortest = math.inf
    for _ in range(repeats):
        start = cpu_seconds()
        result = work()
        shortest = min(shortest, cpu_seconds() - start)
    return result, shortest


def peak(work: Callable[[], object]) -> float:
    """MiB that a call allocates at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def measure(
    path: Path, size: int, defines: Mapping[str, int | None], stages: tuple[str, ...], repeats: int
) -> Measured:
    """Every stage of `stages` on one spec."""
    target = load_target("gfx942")
    compiler = find_compiler(target)
    kernel = parse_path(path)
    program = resolve(kernel, defines)
    schedule = plan(program, target)
    spec = tkgen.load(path, defines).check()
    build: Build = spec.build()
    work: dict[str, Callable[[], object]] = {
        "parse": lambda: parse_path(path),
        "resolve": lambda: resolve(kernel, defines),
        "plan": lambda: plan(program, target),
        "check": lambda: check(schedule, target),
        "lower": lambda: lower(schedule, target.name, "grown.tk"),
        "compile": lambda: compile_device(spec.source.text, target, compiler, include_dirs=[include_dir()]),
        "emulate": lambda: run(build),
        "predict": lambda: predict(build, what_if=False),
    }
    seconds, mib = {}, {}
    for stage in stages:
        _, seconds[stage] = best(work[stage], repeats)
        if stage == "compile":
            mib[stage] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        else:
            mib[stage] = peak(work[stage])
    return Measured(size, seconds, mib)


def exponent(points: list[Measured], stage: str) -> float:
    """The slope of log(time) over log(size) of the larger half of the inputs."""
    upper = points[len(points) // 2 - 1 :]
    xs, ys = [math.log(p.size) for p in upper], [math.log(max(p.seconds[stage], 1e-6)) for p in upper]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def table(title: str, unit: str, points: list[Measured], stages: tuple[str, ...]) -> Table:
    shown = Table(title=title)
    shown.add_column(unit, justify="right")
    for stage in stages:
        shown.add_column(f"{stage}\nms, MiB", justify="right", no_wrap=True)
    for p in points:
        shown.add_row(str(p.size), *(f"{p.seconds[s] * 1e3:.1f}, {p.mib[s]:.1f}" for s in stages))
    shown.add_row("exponent", *(f"{exponent(points, s):.2f}" for s in stages))
    return shown


def operations(path: Path) -> int:
    """Operations of a written schedule."""
    return sum(len(cluster.ops) for s in parse_path(path).body if hasattr(s, "clusters") for cluster in s.clusters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="one run of each, fewer inputs")
    parser.add_argument("--stages", default=",".join(STAGES), help="comma list of stages")
    options = parser.parse_args()
    stages, repeats = tuple(options.stages.split(",")), 1 if options.quick else 3
    console = Console(width=160)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grown.tk"

        def over(texts: list[tuple[int, str]]) -> list[Measured]:
            points = []
            for size, text in texts:
                path.write_text(text)
                points.append(measure(path, size or operations(path), {}, stages, repeats))
            return points

        shapes = [(1, 1, 2), (2, 2, 2), (2, 2, 4), (4, 4, 2), (4, 4, 4), (8, 4, 4), (8, 8, 4)]
        grown = [(0, schedule_of(*shape)) for shape in shapes]
        console.print(table("operations of a written schedule", "operations", over(grown), stages))
        waves = [(1, automatic((1, 1), 2)), (2, automatic((2, 1), 2)), (4, automatic((2, 2), 2)),
                 (8, automatic((4, 2), 2)), (16, automatic((4, 4), 2))]  # fmt: skip
        console.print(table("waves of a block", "waves", over(waves), stages))
        buffers = [(n, automatic((2, 2), n, 16)) for n in (1, 2, 4, 8)]
        console.print(table("LDS buffers", "buffers", over(buffers), stages))
        sizes = [512, 1024, 2048, 4096, 8192] if not options.quick else [512, 1024, 2048]
        inner = tuple(s for s in stages if s != "emulate")
        points = [
            measure(SPECS / "eight_wave.tk", (n // 128) ** 2, {"M": n, "N": n, "K": 1024}, inner, repeats)
            for n in sizes
        ]
        console.print(table("output tiles of a grid (eight_wave, K = 1024)", "tiles", points, inner))
        points = [
            measure(SPECS / "eight_wave.tk", n, {"M": 128, "N": 128 * n, "K": 256}, ("emulate",), repeats)
            for n in (1, 2, 4, 8)
        ]  # fmt: skip
        console.print(table("blocks emulated (eight_wave, K = 256)", "blocks", points, ("emulate",)))


if __name__ == "__main__":
    main()
