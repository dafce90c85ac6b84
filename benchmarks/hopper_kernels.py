"""Kernels of public projects on a Hopper GPU, each beside torch, compiled torch and the project's own kernel.

    python benchmarks/hopper_kernels.py [NAME...] [--peers DIR] [--results FILE] [--limit 240] [--host]

The specs are those of `benchmarks/flagships`. Every contestant is captured in a graph of launches on tensors that take
turns and together exceed the L2, and the graphs are replayed by turns (`tkgen.execute.race`). Before that tkgen's
outputs, which hold NaN until then, are compared with torch in f32. Each kernel has a process of its own, which is ended
at the limit.

`--peers DIR` has packages of Triton kernels: `pip install --no-deps --target DIR fla-core liger-kernel einops`, and
`mamba_ssm/ops/triton/ssd_chunk_scan.py`, `ssd_bmm.py` and `mamba_ssm/utils/determinism.py` of state-spaces/mamba.
A contestant that cannot run is left out, and the reason is printed. `--host` times nothing: it runs the generated C++
on the CPU, at the sizes that the spec names, and compares it with torch.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flagships.kernels import KERNELS, Flagship

HERE = Path(__file__).parent
SPECS = HERE / "flagships"
OFF = 2.0**-7  # of an output's norm, as for rows


def values_of(name: str) -> dict[str, int]:
    """The small sizes that a spec names."""
    lines = (SPECS / f"{name}.tk").read_text("utf-8").splitlines()
    said = next(line.removeprefix("# sizes: ") for line in lines if line.startswith("# sizes: "))
    return {key: int(value) for key, value in (pair.split("=") for pair in said.split())}


def tensors_of(one: Flagship, launch: Any, device: str) -> dict[str, Any]:
    """Tensors of a launch: inputs, and outputs that hold NaN, or zeros where the kernel adds to them."""
    import torch

    from tkgen.ir.rounding import TORCH

    sizes = {d.name: launch.extents[d.name] for d in launch.program.dims}
    found: dict[str, Any] = {}
    written = {t.name for t in launch.written}
    for tensor in launch.program.arguments:
        shape, dtype = launch.shape(tensor), TORCH[tensor.dtype]
        if tensor.name in written:
            start = 0.0 if tensor.name in launch.program.starts else math.nan
            found[tensor.name] = torch.full(shape, start, dtype=dtype, device=device)
        elif tensor.name in one.inputs:
            found[tensor.name] = one.inputs[tensor.name](sizes, device).to(dtype).reshape(shape).contiguous()
        else:
            found[tensor.name] = torch.randn(shape, device=device).to(dtype)
    return found


def declared(launch: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors in the shapes that the spec declares: kernels may have dimensions joined."""
    shapes = {t.name: [d.size for d in t.declared] for t in launch.program.arguments if t.declared}
    return {name: t.reshape(shapes[name]) if name in shapes else t for name, t in tensors.items()}


def differences(one: Flagship, given: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, float]:
    """The distance of each output from torch in f32, by norms; infinite where a result is nan or infinite."""
    import torch

    wanted = one.torch({n: t.float() if t.is_floating_point() else t for n, t in given.items()})
    off: dict[str, float] = {}
    for name, exact in wanted.items():
        exact = exact.double()
        distance = float((found[name].to(exact.device).double().reshape(exact.shape) - exact).norm() / exact.norm())
        off[name] = distance if math.isfinite(distance) else math.inf
        del exact
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return off


# ---------------------------------------------------------------- on the CPU


def on_the_host(name: str) -> None:
    """Run the generated C++ on the CPU. SystemExit where it is wrong."""
    import torch

    from tkgen.backends.registry import backend_of
    from tkgen.execute import given
    from tkgen.execute.modelled import in_order

    one = KERNELS[name]
    torch.manual_seed(1)
    found = given.Asked(SPECS / f"{name}.tk", values_of(name), "sm_90a").chosen()
    tensors = tensors_of(one, found.launch, "cpu")
    written = {t.name for t in found.launch.written}
    inputs = {n: t for n, t in tensors.items() if n not in written}
    executor = next(iter(backend_of("sm_90a").executors.values()))
    made = in_order(executor, found.spec, found.launch, inputs, found.scalars, executor.orders(1)[0])
    off = differences(one, declared(found.launch, inputs), dict(made.outputs))
    print(f"{name:20} {'  '.join(f'{n} {d:.2g}' for n, d in off.items())}  {' '.join(map(str, made.findings))}")
    if made.findings or max(off.values()) > OFF:
        raise SystemExit(f"{name} is wrong")


# ---------------------------------------------------------------- in the child, on the GPU


def contest(name: str, rounds: int) -> None:
    """One kernel: a JSON line for each contestant."""
    import torch

    from tkgen.backends.hopper.launch import launcher
    from tkgen.execute import given
    from tkgen.execute.race import ROTATED_BYTES, graph_of, raced

    one = KERNELS[name]
    torch.manual_seed(1)
    found = given.Asked(SPECS / f"{name}.tk", {}, "sm_90a").chosen()
    launch, build = found.launch, found.spec.build()
    sizes = {d.name: launch.extents[d.name] for d in launch.program.dims}
    first = tensors_of(one, launch, "cuda")
    each = sum(t.numel() * t.element_size() for t in first.values())
    sets = [first, *(tensors_of(one, launch, "cuda") for _ in range(max(2, -(-ROTATED_BYTES // each)) - 1))]
    starts = sorted(launch.program.starts) if len(build.kernels) == 1 else []  # of several the launch sets them

    def ours(tensors: dict[str, Any]) -> Callable[[], object]:
        start = launcher(build, launch, tensors, found.scalars)
        cleared = [tensors[n] for n in starts]

        def both() -> None:
            for tensor in cleared:
                tensor.zero_()
            start()

        return both

    ours(first)()
    torch.cuda.synchronize()
    written = {t.name for t in launch.written}
    off = differences(one, declared(launch, {n: t for n, t in first.items() if n not in written}), first)
    print(json.dumps({"kernel": name, "off": off}), flush=True)
    if max(off.values()) > OFF:
        raise SystemExit(1)
    contestants: dict[str, list[Callable[[], object]]] = {"tkgen": [ours(s) for s in sets]}
    torch._dynamo.reset()
    others: dict[str, Callable[[dict[str, Any]], Callable[[], object]]] = {"torch": lambda t: lambda: one.torch(t)}
    if one.compiled:
        fused = torch.compile(one.torch, dynamic=False)
        others["torch.compile"] = lambda t: lambda: fused(t)
    others |= one.peers
    for who, prepare in others.items():
        try:
            launches = [prepare(declared(launch, s)) for s in sets]
            launches[0]()
            graph_of(launches[:1])  # some read numbers back, which no graph can hold
            contestants[who] = launches
        except Exception as error:  # whatever a contestant lacks
            print(
                json.dumps({"kernel": name, "who": who, "error": f"{type(error).__name__}: {error}"[:300]}), flush=True
            )
    work = one.work(sizes)
    times = raced(contestants, work / one.rate, rounds)  # type: ignore[arg-type]
    for who, seconds in times.items():
        middle = statistics.median(seconds)
        print(json.dumps({
            "kernel": name, "who": who, "seconds": middle, "spread": (max(seconds) - min(seconds)) / middle,
            "work": work, "unit": one.unit, "sizes": one.sizes(sizes),
        }), flush=True)  # fmt: skip


# ---------------------------------------------------------------- in the parent


def measured(name: str, limit: float, peers: Path | None, rounds: int) -> list[dict[str, Any]]:
    """The lines of a child, with one that says how it ended where it did not end well."""
    command = [sys.executable, __file__, "--child", name, "--rounds", str(rounds)]
    found = [str(peers.resolve())] if peers else []
    paths = os.pathsep.join([*found, *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        try:
            environment = {**os.environ, "PYTHONPATH": paths}
            status = subprocess.run(
                command, stdout=out, stderr=errors, timeout=limit, check=False, env=environment
            ).returncode
        except subprocess.TimeoutExpired:
            status = 124
        out.seek(0)
        errors.seek(0)
        lines = [json.loads(line) for line in out if line.startswith("{")]
        said = errors.read().strip().splitlines()[-1:]
    if status:
        lines.append({"kernel": name, "error": f"ended with status {status}: {' '.join(said)[:300]}"})
    return lines


def table(lines: list[dict[str, Any]]) -> str:
    """A row for each contestant of each kernel, and what was left out."""
    rows = ["| kernel | sizes | contestant | ms | rate | tkgen is faster by |", "|---|---|---|--:|--:|--:|"]
    timed = [line for line in lines if "seconds" in line]
    ours = {line["kernel"]: line["seconds"] for line in timed if line["who"] == "tkgen"}
    for line in timed:
        rate = line["work"] / line["seconds"] / (1e12 if line["unit"] == "TFLOP/s" else 1e9)
        ratio = line["seconds"] / ours[line["kernel"]]
        mine = line["who"] == "tkgen"
        rows.append(
            f"| {line['kernel'] if mine else ''} | {line['sizes'] if mine else ''} | {line['who']} "
            f"| {line['seconds'] * 1e3:.3f} ± {50 * line['spread']:.1f} % | {rate:.0f} {line['unit']} "
            f"| {'' if mine else f'{ratio:.2f}'} |"
        )
    left = [f"- {line['kernel']} {line.get('who', '')}: {line['error']}" for line in lines if "error" in line]
    off = [f"- {line['kernel']}: {', '.join(f'{n} {d:.2g}' for n, d in line['off'].items())}"
           for line in lines if "off" in line]  # fmt: skip
    return "\n".join([*rows, "", "Distances from torch in f32, of the norm:", "", *off, "", *left])


def main() -> None:
    """Measure the kernels, or run them on the CPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="kernels; all if there are none")
    parser.add_argument("--peers", type=Path, help="a folder of packages to compare with")
    parser.add_argument("--results", type=Path, help="a file for the table")
    parser.add_argument("--limit", type=float, default=240, help="seconds for a kernel")
    parser.add_argument("--rounds", type=int, default=15, help="replays of each contestant")
    parser.add_argument("--host", action="store_true", help="run the generated C++ on the CPU, and time nothing")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if unknown := set(args.names) - set(KERNELS):
        parser.error(f"no kernels: {', '.join(sorted(unknown))}; there are {', '.join(KERNELS)}")
    if args.child:
        contest(args.child, args.rounds)
        return
    lines: list[dict[str, Any]] = []
    for name in args.names or KERNELS:
        if args.host:
            on_the_host(name)
            continue
        lines += measured(name, args.limit, args.peers, args.rounds)
        print("\n".join(json.dumps(line) for line in lines if line["kernel"] == name), flush=True)
    if not args.host:
        print(table(lines))
        if args.results:
            args.results.write_text(table(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
