"""Matrix products on a Hopper GPU: tkgen's kernels beside cuBLAS, Triton and, of a checkout, ThunderKittens, in one
run, as tables with ratios; those with more fused after the product beside torch, eager and compiled; rows and
attention (`hopper_more`), 8-bit floats (`hopper_fp8`), other ways through a product (`hopper_ways`).

    python benchmarks/hopper.py [--write docs/measured.md] [--quick] [--limit 540] [--thunderkittens DIR]

Every contestant of a shape is captured in a graph of launches that go round a set of inputs and outputs larger than the
L2, and the graphs are replayed by turns, in another order each round, so that all meet the same clocks. A time is that
of a replay over its launches: median of the rounds, with the spread between the fastest and the slowest. Before
anything is timed, each of tkgen's kernels is compared with an exact sum, on outputs that hold NaN before. The work is
done in a child process, which is ended where it takes longer than the limit: a kernel that hangs ends the run, with its
name, and not the session.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import hopper_fp8 as fp8
import hopper_more as more
import hopper_predicted
import hopper_thunderkittens as thunderkittens
import hopper_ways as ways

from tkgen.api import load
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.execute.race import ROTATED_BYTES, ROUNDS, raced

ROOT = Path(__file__).parents[1]

SHAPES = [(n, n, n) for n in (1024, 2048, 4096, 8192, 16384)]
SHAPES += [(8192, 1024, 8192), (64, 8192, 8192), (4864, 8192, 4096)]
SPECS = {"NN": "h100_lcf", "NT": "h100_lcf_abt"}

WIDE = {"ROWS": 128, "COLUMNS": 128, "STAGES": 6}
CHOSEN = {
    ((1024, 1024, 1024), "NN"): {"ROWS": 64, "COLUMNS": 128, "STAGES": 8},
    ((1024, 1024, 1024), "NT"): {"ROWS": 128, "COLUMNS": 64, "STAGES": 8},
    ((2048, 2048, 2048), "NN"): WIDE,
    ((2048, 2048, 2048), "NT"): {**WIDE, "GROUP": 2},
    ((64, 8192, 8192), "NN"): {"ROWS": 64, "COLUMNS": 64, "STAGES": 8},
    ((64, 8192, 8192), "NT"): {"ROWS": 64, "COLUMNS": 64, "STAGES": 12},
    ((8192, 1024, 8192), "NN"): {"ROWS": 256, "COLUMNS": 128, "GROUP": 4},
    ((8192, 1024, 8192), "NT"): {"ROWS": 256, "COLUMNS": 128, "GROUP": 4},
    ((4864, 8192, 4096), "NN"): WIDE,
    ((4864, 8192, 4096), "NT"): WIDE,
}
"""What the spec's parameters are for shapes that its own values leave SMs idle at; measured in runs before."""


FUSED = {
    "h100_projection": [{"TOKENS": 4096, "OUT": 4096, "IN": 4096}, {"TOKENS": 8192, "OUT": 8192, "IN": 8192}],
    "h100_grouped_heads": [{"BATCH": 1, "LENGTH": 2048, "KEYS": 2048}, {"BATCH": 4, "LENGTH": 2048, "KEYS": 2048}],
    "h100_swiglu": [{"TOKENS": 4096, "HIDDEN": 14336, "D": 4096}, {"TOKENS": 8192, "HIDDEN": 14336, "D": 4096}],
}
"""Kernels with more than a product, and their sizes."""


@dataclass(frozen=True)
class Result:
    """One contestant on one shape: TFLOP/s, and the spread of its times over their median."""

    shape: tuple[int, ...]
    layout: str  # of a product, or what is fused
    who: str
    tflops: float
    spread: float
    detail: str = ""


def spec_of(shape: tuple[int, int, int], layout: str) -> HopperSpec:
    """tkgen's kernel for a shape."""
    defines = dict(zip("MNK", shape, strict=True)) | CHOSEN.get((shape, layout), {})
    spec = load(ROOT / "specs" / "hopper" / f"{SPECS[layout]}.tk", defines)
    assert isinstance(spec, HopperSpec)
    return spec.check()


# ---------------------------------------------------------------- in the child, on the GPU


def exact(shape: tuple[int, int, int], layout: str, start: Callable[..., Callable[[], None]]) -> bool:
    """Return True if a kernel gives the exact sums of integers, rounded once, wherever the output held NaN before."""
    import torch

    m, n, k = shape
    a = torch.randint(-4, 5, (m, k), device="cuda").bfloat16()
    b = torch.randint(-4, 5, (k, n) if layout == "NN" else (n, k), device="cuda").bfloat16()
    c = torch.full((m, n), float("nan"), dtype=torch.bfloat16, device="cuda")
    start(a, b, c)()
    torch.cuda.synchronize()
    wanted = torch.matmul(a.float(), b.float() if layout == "NN" else b.float().T).bfloat16()  # |sums| < 2^24: exact
    return bool(torch.equal(c, wanted))


def contest(sizes: list[tuple[int, ...]], flops: float, starters: dict[str, Callable[..., Callable[[], None]]],
            rounds: int) -> dict[str, list[float]]:  # fmt: skip
    """Seconds of a launch of each contestant on bf16 tensors of these sizes, round by round."""
    import torch

    sets = max(2, -(-ROTATED_BYTES // (2 * sum(map(math.prod, sizes)))))
    tensors = [tuple(torch.randn(*s, device="cuda", dtype=torch.bfloat16) for s in sizes) for _ in range(sets)]
    launches = {who: [start(*each) for each in tensors] for who, start in starters.items()}
    return raced(launches, flops / 6e14, rounds)


def ours(build: Any) -> Callable[..., Callable[[], None]]:
    """A function that prepares a launch of tkgen's kernel on tensors."""
    from tkgen.backends.hopper.launch import launcher

    launch = build.spec.launch()
    return lambda a, b, c: launcher(build, launch, {"A": a, "B": b, "C": c}, {})


def cublas(layout: str) -> Callable[..., Callable[[], None]]:
    """torch's product, which is cuBLAS's."""
    import torch

    def start(a: Any, b: Any, c: Any) -> Callable[[], None]:
        second = b if layout == "NN" else b.T

        def launch() -> None:
            torch.matmul(a, second, out=c)

        return launch

    return start


def triton_starters(layout: str) -> dict[str, Callable[..., Callable[[], None]]]:
    """A plain Triton kernel in a few configurations; empty where Triton is not here."""
    try:
        from hopper_triton import CONFIGURATIONS, start
    except ImportError:
        return {}
    return {
        f"Triton {' '.join(map(str, c))}": lambda a, b, x, c=c: start(a, b if layout == "NN" else b.T, x, c)
        for c in CONFIGURATIONS
    }


def clocks() -> str:
    """SM clock and power just now, as nvidia-smi says."""
    query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def measure(quick: bool, checkout: Path | None) -> None:
    """All shapes; a JSON line for each result and remark."""
    theirs = thunderkittens.starter(checkout) if checkout else None
    shapes = SHAPES[:3] if quick else SHAPES
    jobs = [(shape, layout) for shape in shapes for layout in SPECS]
    with ThreadPoolExecutor() as pool:
        builds = dict(zip(jobs, pool.map(lambda job: spec_of(*job).build(), jobs), strict=True))
    for (shape, layout), build in builds.items():
        print(json.dumps({"at": f"{shape} {layout}"}), flush=True)
        mine = ours(build)
        starters = {"tkgen": mine, "cuBLAS": cublas(layout)} | triton_starters(layout)
        if theirs and thunderkittens.fits(shape, layout):
            starters["ThunderKittens"] = theirs
        for who in ("tkgen", "ThunderKittens"):
            if who in starters and not exact(shape, layout, starters[who]):
                print(json.dumps({"wrong": f"{who}: {build.spec.name} {shape} {layout}"}), flush=True)
                raise SystemExit(1)
        m, n, k = shape
        flops = 2.0 * m * n * k
        times = contest([(m, k), (k, n) if layout == "NN" else (n, k), (m, n)], flops, starters, ROUNDS)
        told(build, shape, layout, flops, times)


def told(build: Any, shape: tuple[int, ...], layout: str, flops: float, times: dict[str, list[float]]) -> None:
    """The lines of one row: a result of each contestant, and the clocks."""
    block = " x ".join(map(str, build.spec.program.block))
    for who, seconds in times.items():
        middle = statistics.median(seconds)
        detail = f"{block}, {build.spec.layout.stages} stages" if who == "tkgen" else ""
        result = Result(shape, layout, who, flops / middle / 1e12, (max(seconds) - min(seconds)) / middle, detail)
        print(json.dumps(asdict(result)), flush=True)
    print(json.dumps({"clocks": clocks()}), flush=True)


def measure_fused(quick: bool) -> None:
    """Kernels with more than a product, beside torch's way to the same; a JSON line for each result."""
    import torch

    jobs = [(name, sizes) for name, all_sizes in FUSED.items() for sizes in all_sizes[: 1 if quick else None]]
    specs = [load(ROOT / "specs" / "hopper" / f"{name}.tk", sizes) for name, sizes in jobs]
    with ThreadPoolExecutor() as pool:
        builds = list(pool.map(lambda spec: spec.build(), specs))
    for (name, sizes), build in zip(jobs, builds, strict=True):
        print(json.dumps({"at": f"{name} {sizes}"}), flush=True)
        program = build.spec.program
        tensors = [t for t in program.arguments if t not in program.outputs] + list(program.outputs)
        shapes = [tuple(d.size or 0 for d in t.dims) for t in tensors]
        torch._dynamo.reset()
        starters = {"tkgen": named(build, [t.name for t in tensors])} | {
            "torch": eagerly(WITH_TORCH[name]), "torch.compile": eagerly(torch.compile(WITH_TORCH[name]))
        }  # fmt: skip
        if (off := distance(shapes, starters["tkgen"], WITH_TORCH[name])) > 2.0**-8:
            print(json.dumps({"wrong": f"{name} {sizes}: off by {off:.2g} of its norm"}), flush=True)
            raise SystemExit(1)
        m, n, k = program.m.size or 0, program.n.size or 0, program.k.size or 0
        flops = 2.0 * m * n * k * len(program.products) * build.spec.launch().matrices
        told(build, (m, n, k, *build.spec.launch().batch), name, flops, contest(shapes, flops, starters, ROUNDS))


def named(build: Any, names: list[str]) -> Callable[..., Callable[[], None]]:
    """A function that prepares a launch of tkgen's kernel on tensors in the order of `names`."""
    from tkgen.backends.hopper.launch import launcher
    from tkgen.execute.arguments import check_scalars

    launch, scalars = build.spec.launch(), check_scalars(build.spec.program)
    return lambda *tensors: launcher(build, launch, dict(zip(names, tensors, strict=True)), scalars)


def eagerly(function: Callable[..., Any]) -> Callable[..., Callable[[], None]]:
    """A function that prepares a call of a torch function on all tensors except the last, its output."""
    return lambda *tensors: lambda: function(*tensors[:-1])


def distance(sizes: list[tuple[int, ...]], start: Callable[..., Callable[[], None]], wanted: Any) -> float:
    """Distance of a kernel from torch in f32, by norms; infinite if a result is nan or infinite."""
    import torch

    tensors = [torch.randn(*size, device="cuda", dtype=torch.bfloat16) for size in sizes]
    tensors[-1].fill_(float("nan"))
    start(*tensors)()
    exact = wanted(*(t.float() for t in tensors[:-1]))
    off = float((tensors[-1].float() - exact).norm() / exact.norm())
    return off if math.isfinite(off) else math.inf


def projection(x: Any, w: Any, b: Any, r: Any) -> Any:
    """The function of h100_projection."""
    import torch.nn.functional as F

    return F.gelu(F.linear(x, w, b), approximate="tanh") + r


def swiglu(x: Any, g: Any, u: Any) -> Any:
    """The function of h100_swiglu."""
    import torch.nn.functional as F

    return F.silu(F.linear(x, g)) * F.linear(x, u)


def grouped_heads(q: Any, k: Any) -> Any:
    """The function of h100_grouped_heads; a head of keys is a matrix of all query heads that share it."""
    batch, length, heads, d = q.shape
    shared = k.shape[2]
    queries = q.transpose(1, 2).reshape(batch, shared, heads // shared * length, d)
    scores = (queries @ k.transpose(1, 2).transpose(2, 3)) * d**-0.5
    return scores.view(batch, heads, length, k.shape[1])


WITH_TORCH = {"h100_projection": projection, "h100_swiglu": swiglu, "h100_grouped_heads": grouped_heads}


def machine() -> dict[str, str]:
    """The machine and the software of the measurements."""
    import torch

    from tkgen.backends.hopper.toolchain import find_nvcc

    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"]
    said = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    driver, clock, power = (said.split(", ") + ["?"] * 3)[:3]
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = "not here"
    return {
        "device": torch.cuda.get_device_name(), "driver": driver, "most SM clock": clock, "power limit": power,
        "torch": torch.__version__, "nvcc": find_nvcc().version, "Triton": triton_version,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    }  # fmt: skip


# ---------------------------------------------------------------- in the parent


def run_child(quick: bool, limit: float, checkout: Path | None = None) -> list[dict[str, Any]]:
    """The lines of the child; SystemExit with what it was at where it fails or takes too long."""
    command = [sys.executable, __file__, "--child", *(["--quick"] if quick else [])]
    command += ["--thunderkittens", str(checkout)] if checkout else []
    with tempfile.TemporaryFile("w+") as out:
        try:
            status = subprocess.run(command, stdout=out, timeout=limit, check=False).returncode
        except subprocess.TimeoutExpired:
            status = 124
        out.seek(0)
        lines = [json.loads(line) for line in out if line.startswith("{")]
    if status:
        last = next((line["at"] for line in reversed(lines) if "at" in line), "the start")
        wrong = [line["wrong"] for line in lines if "wrong" in line]
        raise SystemExit(f"wrong numbers: {wrong[0]}" if wrong else f"ended with status {status} at {last}")
    return lines


def bar(shape: tuple[int, ...]) -> float:
    """The least ratio that is aimed at: to the better of cuBLAS and ThunderKittens, below 4096 to cuBLAS."""
    return 0.98 if min(shape) >= 4096 else 1.0


def table(lines: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """A row for each shape and layout, and what is below its bar."""
    found = [r for r in results(lines) if r.layout in SPECS]
    said = [line["clocks"] for line in lines if "clocks" in line]
    rows = [
        "| M x N x K | layout | tkgen | cuBLAS | ThunderKittens | Triton | tkgen / cuBLAS | tkgen / ThunderKittens "
        "| block of tkgen | clock, power after |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    below = []
    for at, (shape, layout) in enumerate(dict.fromkeys((r.shape, r.layout) for r in found)):
        here = [r for r in found if (r.shape, r.layout) == (shape, layout)]
        mine, base = (next(r for r in here if r.who == who) for who in ("tkgen", "cuBLAS"))
        others = [r for r in here if r.who.startswith("Triton")]
        best = max(others, key=lambda r: r.tflops, default=None)
        theirs = next((r for r in here if r.who == "ThunderKittens"), None)
        name = " x ".join(map(str, shape))
        shown = (mine, base, theirs, best)
        cells = [name, layout, *(f"{r.tflops:.0f} ± {50 * r.spread:.1f} %" if r else "-" for r in shown)]
        cells += [f"{mine.tflops / r.tflops:.3f}" if r else "-" for r in (base, theirs)]
        rows.append(f"| {' | '.join(cells)} | {mine.detail} | {said[at]} |")
        for other in (base, theirs if min(shape) >= 4096 else None):
            if other and mine.tflops < bar(shape) * other.tflops:
                of = f"{mine.tflops / other.tflops:.3f} of {other.who}"
                below.append(f"{name} {layout}: {of}, {bar(shape):.2f} is aimed at")
    return "\n".join(rows), below


def results(lines: list[dict[str, Any]]) -> list[Result]:
    """The results among the lines of the child."""
    found = [line for line in lines if "who" in line and "kind" not in line]
    return [Result(**{**line, "shape": tuple(line["shape"])}) for line in found]


def fused_table(lines: list[dict[str, Any]]) -> str:
    """A row for each fused kernel and size."""
    found = [r for r in results(lines) if r.layout in FUSED]
    rows = [
        "| spec | M x N x K, batch | tkgen | torch | torch.compile | by torch | by torch.compile | block of tkgen |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, shape in dict.fromkeys((r.layout, r.shape) for r in found):  # of more dimensions: the batch behind
        here = {r.who: r for r in found if (r.layout, r.shape) == (name, shape)}
        order = [here[who] for who in ("tkgen", "torch", "torch.compile")]
        cells = [f"`{name}`", " x ".join(map(str, shape)), *(f"{r.tflops:.0f} ± {50 * r.spread:.1f} %" for r in order)]
        ratios = [f"{order[0].tflops / r.tflops:.3f}" for r in order[1:]]
        rows.append(f"| {' | '.join([*cells, *ratios, order[0].detail])} |")
    return "\n".join(rows)


HEAD = """# Measured on an {device}

`python benchmarks/hopper.py --write PAGE` writes this page. Inputs and outputs are bf16, sums are
f32, and rates are in TFLOP/s, unless a section says otherwise.

{machine}

How it was measured:

- Launches are back to back in a CUDA graph. They use rotating inputs and outputs of {megabytes} MB or
  more together, which exceeds the L2. Inputs are normally distributed.
- The graphs of all contestants are replayed in turn: two rounds to warm up, then {rounds} rounds, each
  in a different order, because a kernel after one that draws less power runs at a higher clock.
- The tables have the median, and ± half of the difference between the fastest and the slowest
  round. Most of it comes from the clock, which the card lowers at its power limit; that affects all
  contestants of a row.
- Before it was timed, each tkgen kernel gave exact sums on these shapes.
- Layouts: NN is B[K, N], NT is B[N, K]. The specs are `specs/hopper/h100_lcf.tk` and
  `h100_lcf_abt.tk`, with other parameters if the block is not 128 x 256.
- cuBLAS is called through torch. Triton is a plain kernel of `benchmarks/hopper_triton.py` with the
  best of its configurations.
{theirs}

{table}

{below}

## More in one kernel

The same method. TFLOP/s count only the products.

- `h100_projection` is `gelu_tanh(x Wt + b) + r`, and `h100_swiglu` is `silu(x Gt) * (x Ut)`.
- `h100_grouped_heads` is `scale q kt` of 32 query heads and 8 key heads. M x N x K is that of one
  head; most of its time is the store of the scores.
- torch calls cuBLAS and then separate kernels for the rest. `torch.compile` is used in its default
  mode, which fuses the rest into one kernel. The last two columns are the ratios of tkgen to these.
- Each tkgen kernel was first compared with torch in f32 (error at most 2^-8 of the norm).

{fused}

{more}

{fp8}
{ways}
{predicted}"""


UNMEASURED = "- ThunderKittens was not measured."
THEIRS = """- ThunderKittens is its `kernels/gemm/bf16_h100` (April 2026), which supports NN and complete
  blocks, with the settings of its own benchmark: blocks of 128 x 256 x 64, four stages, groups of
  eight rows of blocks."""


def page(lines: list[dict[str, Any]]) -> str:
    """A page of measurements: docs/measured.md of an H100, docs/measured_h200.md of an H200."""
    facts = next(line["machine"] for line in lines if "machine" in line)
    rows, below = table(lines)
    said = "Below what is aimed at:\n\n" + "\n".join(f"- {b}" for b in below) if below else "Every ratio is at its bar."
    device = facts["device"]
    predicted = hopper_predicted.page() if "H100" in device else ""  # made before the first run, for that chip
    return HEAD.format(
        device=device, machine="; ".join(f"{key} {value}" for key, value in facts.items()),
        theirs=THEIRS if any(r.who == "ThunderKittens" for r in results(lines)) else UNMEASURED,
        megabytes=ROTATED_BYTES // 1_000_000, rounds=ROUNDS, table=rows, below=said, fused=fused_table(lines),
        more=more.page(lines), fp8=fp8.page(lines), ways=ways.page(lines), predicted=predicted,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", type=Path, help="write the page there")
    parser.add_argument("--quick", action="store_true", help="the three smallest shapes alone")
    parser.add_argument("--limit", type=float, default=580, help="seconds after which the run is ended")
    parser.add_argument("--thunderkittens", type=Path, help="a checkout of it, whose product is measured, too")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps({"machine": machine()}), flush=True)
        measure(given.quick, given.thunderkittens)
        measure_fused(given.quick)
        more.measure_rows(given.quick)
        more.measure_attention(given.quick)
        fp8.measure(given.quick)
        ways.measure(given.quick)
        return
    text = page(run_child(given.quick, given.limit, given.thunderkittens))
    print(text)
    if given.write:
        given.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
