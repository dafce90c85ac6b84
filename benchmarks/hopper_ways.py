"""Other ways through a product on a Hopper GPU - clusters, consumers that take turns, blocks that share sums, groups of
rows, several outputs -, each beside the plain kernel of the same layout and torch; a part of `benchmarks/hopper.py`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tkgen.api import load
from tkgen.execute.race import ROTATED_BYTES, raced

SPECS = Path(__file__).parents[1] / "specs" / "hopper"
OFF = 2.0**-7  # of the norm, as for rows


@dataclass(frozen=True)
class Way:
    """One kernel at one size, and the values of the plain one beside it: none where there is no such kernel."""

    spec: str
    values: dict[str, int]
    plain: str = ""
    block: dict[str, int] = field(default_factory=dict)  # parameters of the plain one


def sizes(m: int, n: int, k: int) -> dict[str, int]:
    """Of a product."""
    return {"M": m, "N": n, "K": k}


WAYS = [
    *(Way("h100_cluster", sizes(n, n, n), "h100_lcf") for n in (4096, 8192)),
    *(Way("h100_ping_pong", sizes(n, n, k), "h100_lcf_abt") for n, k in ((4096, 512), (4096, 4096), (8192, 8192))),
    Way("h100_split_k", sizes(128, 4096, 16384), "h100_lcf_abt", {"ROWS": 128, "COLUMNS": 64, "STAGES": 8}),
    Way("h100_split_k", sizes(1024, 1024, 8192) | {"PARTS": 4}, "h100_lcf_abt",
        {"ROWS": 128, "COLUMNS": 64, "STAGES": 8}),
    Way("h100_stream_k", sizes(1024, 1024, 8192), "h100_lcf", {"ROWS": 64, "COLUMNS": 128, "STAGES": 8}),
    Way("h100_stream_k", sizes(1024, 1280, 8192), "h100_lcf", {"ROWS": 64, "COLUMNS": 128, "STAGES": 8}),
    *(Way("h100_grouped", {"TOKENS": tokens, "EXPERTS": experts}) for tokens, experts in ((16384, 8), (16384, 64))),
    Way("h100_swiglu_gates", {}),
]  # fmt: skip
"""What is measured; blocks of plain kernels are those that leave the fewest SMs idle."""


# ---------------------------------------------------------------- on the GPU


def rows_of_groups(tokens: int, groups: int) -> Any:
    """The start of each group, and the end: of a router that sends every row anywhere, the same in each run."""
    import torch

    chosen = torch.randint(0, groups, (tokens,), generator=torch.Generator().manual_seed(1))
    counts = torch.bincount(chosen, minlength=groups)
    return torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0))).int().cuda()


def made(build: Any) -> dict[str, Any]:
    """A set of tensors: normally distributed, what is added to zero, other outputs NaN."""
    import torch

    from tkgen.ir.rounding import TORCH

    program, launch = build.spec.program, build.spec.launch()
    found = {}
    for tensor in program.arguments:
        shape, dtype = launch.shape(tensor), TORCH[tensor.dtype]
        found[tensor.name] = torch.randn(*shape, device="cuda").to(dtype)
        if tensor in program.outputs:
            found[tensor.name].fill_(0.0 if tensor.name in program.added else float("nan"))
    if "FIRST" in found:
        found["FIRST"] = rows_of_groups(found["X"].shape[0], found["W"].shape[0])
    return found


def ours(build: Any, tensors: dict[str, Any]) -> Callable[[], None]:
    """A launch of tkgen's kernel; outputs that it adds to are set to zero before, which counts."""
    from tkgen.backends.hopper.launch import launcher
    from tkgen.execute.arguments import check_scalars

    program = build.spec.program
    start = launcher(build, build.spec.launch(), tensors, check_scalars(program))
    added = [tensors[name] for name in program.added]

    def launch() -> None:
        for tensor in added:
            tensor.zero_()
        start()

    return launch


def plainly(build: Any, tensors: dict[str, Any]) -> Callable[[], None]:
    """A launch of the plain kernel on the same factors, with its own output in bf16."""
    import torch

    c = torch.empty_like(tensors["C"], dtype=torch.bfloat16)
    return ours(build, {"A": tensors["A"], "B": tensors["B"], "C": c})


def gates(x: Any, g: Any, u: Any) -> tuple[Any, Any, Any]:
    """The function of h100_swiglu_gates."""
    import torch.nn.functional as F

    p, q = F.linear(x, g), F.linear(x, u)
    return F.silu(p) * q, p, q


def with_torch(name: str) -> Callable[[dict[str, Any]], Any]:
    """The torch function for a set of tensors: the product, of groups, or the compiled function."""
    import torch

    if name == "h100_grouped":
        return lambda s: torch._grouped_mm(s["X"], s["W"].transpose(1, 2), offs=s["FIRST"][1:])
    if name == "h100_swiglu_gates":
        compiled = torch.compile(gates)
        return lambda s: compiled(s["X"], s["G"], s["U"])[0]
    if name in ("h100_cluster", "h100_stream_k"):
        return lambda s: torch.matmul(s["A"], s["B"])
    return lambda s: torch.matmul(s["A"], s["B"].T)


def measure(quick: bool) -> None:
    """All of them; a JSON line for each result."""
    import torch

    ways = WAYS[:1] if quick else WAYS
    jobs = [(way.spec, way.values) for way in ways]
    jobs += [(way.plain, {n: way.values[n] for n in "MNK"} | way.block) for way in ways if way.plain]
    with ThreadPoolExecutor() as pool:
        builds = pool.map(lambda job: load(SPECS / f"{job[0]}.tk", job[1]).build(), jobs)
    built = {json.dumps(job): build for job, build in zip(jobs, builds, strict=True)}
    for way in ways:
        print(json.dumps({"at": f"{way.spec} {way.values}"}), flush=True)
        build = built[json.dumps((way.spec, way.values))]
        plain = built[json.dumps((way.plain, {n: way.values[n] for n in "MNK"} | way.block))] if way.plain else None
        torch._dynamo.reset()
        _told(way, build, plain)


def _told(way: Way, build: Any, plain: Any) -> None:
    """Compares a kernel with torch, and the lines of its row."""
    import torch

    first = made(build)
    moved = sum(t.numel() * t.element_size() for t in first.values())
    sets = [first, *(made(build) for _ in range(max(1, -(-ROTATED_BYTES // moved) - 1)))]
    torchs = with_torch(way.spec)
    contestants = {"tkgen": [ours(build, s) for s in sets], "torch": [lambda s=s: torchs(s) for s in sets]}
    if plain:
        contestants["plain"] = [plainly(plain, s) for s in sets]
    contestants["tkgen"][0]()
    output, wanted = first[build.spec.program.outputs[0].name].float(), torchs(first).float()
    torch.cuda.synchronize()
    if not (off := float((output - wanted).norm() / wanted.norm())) < OFF:
        print(json.dumps({"wrong": f"{way.spec} {way.values}: off by {off:.2g} of its norm"}), flush=True)
        raise SystemExit(1)
    flops = _flops(first)
    blocks = {"tkgen": build, "plain": plain}
    for who, seconds in raced(contestants, flops / 6e14).items():
        middle = statistics.median(seconds)
        chosen = blocks.get(who)
        block = f"{' x '.join(map(str, chosen.spec.program.block))}, {chosen.spec.layout.stages}" if chosen else ""
        print(json.dumps({"kind": "ways", "name": way.spec, "sizes": _shown(first), "who": who,
                          "rate": flops / middle / 1e12, "spread": (max(seconds) - min(seconds)) / middle,
                          "block": block}), flush=True)  # fmt: skip


def _flops(tensors: dict[str, Any]) -> float:
    """Of the products alone."""
    if "A" in tensors:
        return 2.0 * tensors["C"].numel() * tensors["A"].shape[1]
    return 2.0 * tensors["Y"].numel() * tensors["X"].shape[1] * (2 if "U" in tensors else 1)


def _shown(tensors: dict[str, Any]) -> str:
    """M x N x K, with the groups."""
    left, out = (tensors["A"], tensors["C"]) if "A" in tensors else (tensors["X"], tensors["Y"])
    groups = f", {tensors['W'].shape[0]} groups" if "W" in tensors else ""
    return f"{out.shape[0]} x {out.shape[1]} x {left.shape[1]}{groups}"


# ---------------------------------------------------------------- the page


TEXT = """## Other ways through a product

The same method, bf16 in. TFLOP/s count only the products. Each kernel was first compared with torch
(error at most 2^-7 of the norm).

- Next to each kernel is the plain kernel of the same layout (`h100_lcf` or `h100_lcf_abt`), with
  the block that leaves the fewest SMs idle.
- `h100_split_k` and `h100_stream_k` add to outputs in f32. Their times include setting these to
  zero.
- torch stores bf16. It uses cuBLAS, its grouped product, and for `h100_swiglu_gates` the compiled
  function.

{table}
"""


def page(lines: Sequence[dict[str, Any]]) -> str:
    """This part of docs/measured.md; empty where nothing was measured."""
    found = [line for line in lines if line.get("kind") == "ways"]
    text = [
        "| spec | M x N x K | tkgen | plain | torch | tkgen / plain | tkgen / torch | block, stages | plain block |",
        "|---" * 9 + "|",
    ]
    for name, shape in dict.fromkeys((line["name"], line["sizes"]) for line in found):
        here = {line["who"]: line for line in found if (line["name"], line["sizes"]) == (name, shape)}
        mine, others = here["tkgen"], [here.get(who) for who in ("plain", "torch")]
        rates = [f"{x['rate']:.0f} ± {50 * x['spread']:.1f} %" if x else "-" for x in (mine, *others)]
        ratios = [f"{mine['rate'] / x['rate']:.3f}" if x else "-" for x in others]
        plain = others[0]["block"] if others[0] else "-"
        text.append(f"| {' | '.join([f'`{name}`', shape, *rates, *ratios, mine['block'], plain])} |")
    return TEXT.format(table="\n".join(text)) if found else ""
