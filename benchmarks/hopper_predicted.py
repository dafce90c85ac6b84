"""Predictions for a Hopper GPU beside measurements: drawn and predicted first, measured after that was committed.

    python benchmarks/hopper_predicted.py draw --seed 1       # adds kernels and predictions to hopper_predicted.json
    git commit benchmarks/hopper_predicted.json
    python benchmarks/hopper_predicted.py measure             # on the GPU: adds what it takes
    python benchmarks/hopper_predicted.py page                # puts both into docs/measured.md

Twenty problems are drawn - products, attention, rows - and four variants of each: blocks, stages, tiles, warps, good
ones and bad ones. A time is that of launches back to back in a graph over tensors beyond the L2, after about a second
of them: the card has settled at its power limit.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from hopper_probe import SPECS, launches, timed

from tkgen.api import load
from tkgen.backends.hopper.machine import load_hopper
from tkgen.diagnostics import SpecError
from tkgen.execute.race import ROTATED_BYTES
from tkgen.predict import predict

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "measured.md"
HEAD = """## Predictions

`benchmarks/hopper_predicted.py` chose random kernels and predicted them: ten problems with four
variants each, later twenty problems. The predictions were committed before the kernels were
measured. [Prediction](prediction.md#hopper) says what is modelled, and what each group taught.
Launches are back to back in a graph, with tensors that exceed the L2. The time is the median after
half a second of launches, when the card has settled at its power limit.

"""
ROUNDS, VARIANTS = 2, 4
MOST_BYTES = 3_000_000_000
MOST_FLOPS = 4e12
APART = 0.1  # variants that differ by more have an order to be right about

Values = dict[str, int]


def problems(draw: random.Random) -> Iterator[tuple[str, Values]]:
    """Problems to compute: the spec and its sizes, ten of them in a round."""

    def size(low: int, high: int, of: int = 64) -> int:
        return max(round(2 ** draw.uniform(math.log2(low), math.log2(high)) / of), 1) * of

    for name in ("h100_lcf", "h100_lcf_abt", "h100_lcf", "h100_lcf_abt"):
        yield name, {"M": size(64, 16384), "N": size(256, 16384), "K": size(256, 16384)}
    yield "h100_projection", {"TOKENS": size(256, 8192), "OUT": size(512, 8192), "IN": size(512, 8192)}
    for name in ("h100_attention", "h100_attention_causal"):
        yield name, {"BATCH": draw.randint(1, 8), "LENGTH": size(768, 12288, 384), "D": draw.choice((64, 128))}
    yield "h100_rmsnorm", {"TOKENS": size(1024, 65536, 32), "D": size(512, 16384, 512)}
    yield "h100_softmax", {"ROWS": size(1024, 65536, 32), "D": size(512, 16384, 512)}
    yield "h100_layernorm", {"TOKENS": size(1024, 65536, 32), "D": size(512, 16384, 512)}


def variant(draw: random.Random, name: str) -> Values:
    """A variant of a problem's kernel."""
    if "attention" in name:
        return {"QUERIES": draw.choice((64, 128, 192)), "BLOCK": draw.choice((64, 128)), "BUFFERS": draw.choice((2, 3))}
    if name in ("h100_rmsnorm", "h100_softmax", "h100_layernorm"):
        return {"TILE": draw.choice((1, 1, 2, 4, 8)), "WARPS": draw.choice((1, 2, 4, 8, 16))}
    blocks = ((64, 64), (64, 128), (64, 256), (128, 64), (128, 128), (128, 256), (192, 128), (256, 128))
    rows, columns = draw.choice(blocks)
    if name == "h100_projection":
        rows, columns = draw.choice(((128, 128), (128, 256), (64, 128), (64, 256)))
    return {"ROWS": rows, "COLUMNS": columns, "STAGES": draw.randint(2, 8)} | (
        {} if name == "h100_projection" else {"GROUP": draw.choice((1, 4, 8))})  # fmt: skip


def drawn(seed: int) -> Iterator[tuple[str, Values, Values, Any]]:
    """Problems and four variants of each that compile: the spec's name, sizes, parameters, the build."""
    draw = random.Random(seed)
    for name, sizes in [one for _ in range(ROUNDS) for one in problems(draw)]:
        tried: list[Values] = []
        builds: list[Any] = []
        while len(builds) < VARIANTS:
            more: list[Values] = []
            while len(more) < VARIANTS - len(builds):
                if (how := variant(draw, name)) not in (*tried, *more):
                    more.append(how)
            with ThreadPoolExecutor() as pool:
                made = list(pool.map(partial(built, name), [sizes | how for how in more]))
            builds += [(name, sizes, how, build) for how, build in zip(more, made, strict=True) if build]
            tried += more
        yield from builds


def built(name: str, values: Values) -> Any:
    """A kernel; None where there is no schedule, or its registers spill: nothing that could be measured."""
    try:
        spec = load(SPECS / f"{name}.tk", values).check()
        if cost(spec) > 1:
            raise SystemExit(f"{name} {values} is too large to be measured: draw with another seed")
        return spec.build()
    except SpecError:
        return None


def cost(spec: Any) -> float:
    """Cost of a launch, as a part of the memory and time of a measurement."""
    launch = spec.launch()
    moved = sum(map(launch.bytes, (*spec.program.reads, *spec.program.outputs)))
    n = {d.name: d.size or 1 for d in spec.program.dims}
    flops = 2.0 * math.prod(n[d] for d in ("M", "N", "K") if d in n) if "M" in n else 0.0
    if "LENGTH" in n:
        flops = 4.0 * n["BATCH"] * n["HEADS"] * n["LENGTH"] ** 2 * n["D"]
    return max(moved / MOST_BYTES, flops / MOST_FLOPS)


def kept() -> list[dict[str, Any]]:
    """All that was drawn, the first one first; what was not measured yet has no `machine`."""
    found: list[dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []
    return found


def keep(runs: list[dict[str, Any]], into: Path = KEPT) -> None:
    """Write all of it."""
    into.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")


def draw_all(seed: int) -> None:
    """Add what is to be measured, and what is predicted of it."""
    found = []
    for name, sizes, how, build in drawn(seed):
        p = predict(build)
        found.append({"spec": name, "sizes": sizes, "variant": how, "predicted_us": p.seconds * 1e6,
                      "clock_mhz": p.clock_mhz, "limiter": p.limiter})  # fmt: skip
        print(f"{len(found):2} {name} {sizes} {how}: {p.seconds * 1e6:.1f} us, {p.limiter}", flush=True)
    keep([*kept(), {"seed": seed, "kernels": found}])


def measure(into: Path, seconds: float) -> None:
    """Add what each kernel takes that was not measured yet, and the machine it ran on."""
    runs = kept()
    for run in runs:
        if "machine" not in run:
            measure_run(run, seconds)
    keep(runs, into)


def measure_run(run: dict[str, Any], seconds: float) -> None:
    """The kernels of one draw."""
    import torch

    with ThreadPoolExecutor() as pool:
        builds = list(pool.map(lambda k: load(SPECS / f"{k['spec']}.tk", k["sizes"] | k["variant"]).build(),
                               run["kernels"]))  # fmt: skip
    for kernel, build in zip(run["kernels"], builds, strict=True):
        spec = build.spec
        launch: Any = spec.launch()
        moved = sum(map(launch.bytes, (*spec.program.reads, *spec.program.outputs)))
        taken, mhz, watts = timed(launches(build, "normal", max(2, -(-ROTATED_BYTES // moved))), seconds)
        if held_back(mhz, watts):
            raise SystemExit(
                f"this card runs at {mhz:.0f} MHz with {watts:.0f} W: something else than its power limit holds it, "
                "such as heat, and nothing that is measured here says how good a prediction is"
            )
        kernel |= {"measured_us": taken * 1e6, "measured_mhz": mhz, "watts": watts}
        print(f"{kernel['spec']} {kernel['sizes']} {kernel['variant']}: {taken * 1e6:.1f} us, predicted "
              f"{kernel['predicted_us']:.1f}", flush=True)  # fmt: skip
        torch.cuda.empty_cache()
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    run["machine"] = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def held_back(mhz: float, watts: float) -> bool:
    """Return True if a card runs far below its highest clock although it takes far less than its power limit."""
    t = load_hopper().timing
    return mhz < 0.75 * t.max_clock_mhz and watts < 0.75 * t.power_limit_w


def verdict(kernels: list[dict[str, Any]]) -> str:
    """The errors of the prediction, and the share of pairs of variants in the right order."""
    off = sorted(abs(k["predicted_us"] / k["measured_us"] - 1) for k in kernels)
    right = total = 0
    by_problem: dict[str, list[dict[str, Any]]] = {}
    for k in kernels:
        by_problem.setdefault(json.dumps([k["spec"], k["sizes"]]), []).append(k)
    for variants in by_problem.values():
        for a, b in combinations(variants, 2):
            if abs(math.log(a["measured_us"] / b["measured_us"])) > math.log(1 + APART):
                total += 1
                right += (a["measured_us"] < b["measured_us"]) == (a["predicted_us"] < b["predicted_us"])
    ninth = off[math.ceil(0.9 * len(off)) - 1]
    ranks = correlation(ranked([k["measured_us"] for k in kernels]), ranked([k["predicted_us"] for k in kernels]))
    return (f"Of {len(off)} kernels: median error {statistics.median(off):.1%} (12 % is aimed at), nine of ten within "
            f"{ninth:.1%} (25 %), the worst {off[-1]:.1%}. Of {total} pairs of variants of a problem that differ by "
            f"more than 10 % the order of {right} is right ({right / total:.0%}; 95 %). Rank correlation of all: "
            f"{ranks:.4f}.")  # fmt: skip


def ranked(values: list[float]) -> list[float]:
    """The rank of each."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return [float(order.index(i)) for i in range(len(values))]


def correlation(a: list[float], b: list[float]) -> float:
    """Pearson's, of ranks Spearman's."""
    return statistics.correlation(a, b)


def page() -> str:
    """The part of docs/measured.md: what was predicted beside what was measured."""
    return HEAD + "\n".join(map(_part, (run for run in kept() if "machine" in run)))


def _part(run: dict[str, Any]) -> str:
    lines = [
        f"Seed {run['seed']}, on {run['machine']}. {verdict(run['kernels'])}",
        "",
        "| spec | sizes | variant | predicted, us | measured, us | off by | limited by | clock predicted, measured |",
        "|---|---|---|---:|---:|---:|---|---:|",
    ]
    for k in run["kernels"]:
        words = [" ".join(f"{n}={v}" for n, v in k[part].items()) for part in ("sizes", "variant")]
        off = k["predicted_us"] / k["measured_us"] - 1
        lines.append(f"| `{k['spec']}` | {words[0]} | {words[1]} | {k['predicted_us']:.1f} | {k['measured_us']:.1f} | "
                     f"{off:+.1%} | {k['limiter']} | {k['clock_mhz']:.0f}, {k['measured_mhz']:.0f} MHz |")  # fmt: skip
    return "\n".join(lines) + "\n"


def write_page() -> None:
    """Replace the part of the page, which is its last."""
    before = PAGE.read_text(encoding="utf-8").split(HEAD.splitlines()[0])[0]
    PAGE.write_text(before.rstrip("\n") + "\n\n" + page(), encoding="utf-8")


def main() -> None:
    """One of the three steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("draw", "measure", "page"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.2, help="of launches of each kernel")
    parser.add_argument("--into", type=Path, default=KEPT, help="where `measure` writes")
    args = parser.parse_args()
    if args.step == "draw":
        draw_all(args.seed)
    elif args.step == "measure":
        measure(args.into, args.seconds)
    else:
        write_page()


if __name__ == "__main__":
    main()
