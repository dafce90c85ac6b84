"""Rows and attention of the benchmark on a Hopper GPU: measured beside torch and cuDNN, and their part of the page."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tkgen.api import load
from tkgen.execute.race import ROTATED_BYTES, raced

SPECS = Path(__file__).parents[1] / "specs" / "hopper"

ROWS: dict[str, list[dict[str, int]]] = {
    "h100_rmsnorm": [{"TOKENS": 131072, "D": 1024, "TILE": 1, "WARPS": 1}, {"TOKENS": 32768, "D": 4096},
                     {"TOKENS": 16384, "D": 8192, "WARPS": 8}, {"TOKENS": 8192, "D": 16384, "WARPS": 16}],
    "h100_softmax": [{"ROWS": 131072, "D": 1024, "WARPS": 4}, {"ROWS": 32768, "D": 4096},
                     {"ROWS": 16384, "D": 8192, "WARPS": 8}, {"ROWS": 8192, "D": 16384, "WARPS": 8}],
    "h100_layernorm": [{"TOKENS": 131072, "D": 1024, "TILE": 1, "WARPS": 2}, {"TOKENS": 32768, "D": 4096},
                       {"TOKENS": 16384, "D": 8192, "TILE": 4, "WARPS": 4},
                       {"TOKENS": 8192, "D": 16384, "TILE": 1, "WARPS": 16}],
    "h100_long_softmax": [{"WARPS": 32, "STEP": 32768},
                          {"ROWS": 16384, "D": 32768, "WARPS": 16, "STEP": 16384}],
    "h100_norm_gradient": [{}],
    "h100_elementwise": [{}],
    "h100_rotary": [{}],
    "h100_transpose": [{}],
}  # fmt: skip
"""Kernels of rows, and the sizes and parameters that they are measured with."""

ATTENTION = [
    (
        name,
        {
            "BATCH": batch,
            "LENGTH": length,
            "D": depth,
            "QUERIES": 128 if depth == 128 or (length == 1024 and name.endswith("causal")) else 192,
        },
    )
    for name in ("h100_attention", "h100_attention_causal")
    for depth in (128, 64)
    for batch, length in ((16, 1024), (4, 4096), (1, 16384))
]
"""Sixteen heads, 16384 queries in all."""

THIRD = "FlashAttention-3"
DYNAMIC = "h100_attention_dynamic"
LAUNCHED = [{"BATCH": batch, "LENGTH": length, "KEYS": length} for batch, length in ((16, 1024), (4, 4096), (3, 5001))]
"""Sizes of launches of one kernel, of sixteen heads."""


# ---------------------------------------------------------------- in the child, on the GPU


def built(jobs: Sequence[tuple[str, dict[str, int]]]) -> list[Any]:
    """The kernels of these specs with these values."""
    specs = [load(SPECS / f"{name}.tk", values) for name, values in jobs]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda spec: spec.build(), specs))


def told(kind: str, name: str, sizes: str, rate: float, times: dict[str, list[float]], detail: str) -> None:
    """A line for each contestant: `rate` is what a launch does, in the unit of the table."""
    for who, seconds in times.items():
        middle = statistics.median(seconds)
        spread = (max(seconds) - min(seconds)) / middle
        print(json.dumps({"kind": kind, "name": name, "sizes": sizes, "who": who, "rate": rate / middle,
                          "spread": spread, "detail": detail}), flush=True)  # fmt: skip


def rmsnorm(x: Any, r: Any, w: Any) -> tuple[Any, Any]:
    """The function of h100_rmsnorm: the sum, and its norm."""
    s = x.float() + r.float()
    return s.to(x.dtype), (s * (s.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w.float()).to(x.dtype)


def long_softmax(x: Any) -> tuple[Any, Any]:
    """The function of h100_long_softmax: the quotients, and the logarithms of the sums of powers."""
    import torch

    return torch.logsumexp(x.float(), -1), torch.softmax(x, -1)


def rotary(x: Any, c: Any, s: Any) -> Any:
    """The function of h100_rotary."""
    import torch

    a, b = x.float().unbind(2)
    c, s = c[:, None], s[:, None]
    return torch.stack((a * c - b * s, b * c + a * s), 2).to(x.dtype)


def with_torch(name: str) -> Callable[..., Any]:
    """The torch function for a kernel of rows, of its inputs in order."""
    import torch.nn.functional as F

    functions: dict[str, Callable[..., Any]] = {
        "h100_rmsnorm": rmsnorm,
        "h100_long_softmax": long_softmax,
        "h100_norm_gradient": lambda x, g: (x.float() * g.float()).sum(0),
        "h100_softmax": lambda x: F.softmax(x, -1),
        "h100_layernorm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        "h100_elementwise": lambda x, g: F.silu(x) * g,
        "h100_rotary": rotary,
        "h100_transpose": lambda x: x.t().contiguous(),
    }
    return functions[name]


def measure_rows(quick: bool) -> None:
    """Kernels of rows beside torch, eager and compiled, and a copy of as many bytes."""
    import torch

    jobs = [(name, values) for name, each in ROWS.items() for values in (each[:1] if quick else each)]
    for (name, _), build in zip(jobs, built(jobs), strict=True):
        print(json.dumps({"at": f"{name}"}), flush=True)
        times, moved = _rows(build, name)
        sizes = " x ".join(str(d.size) for d in build.spec.program.arguments[0].dims)
        told("rows", name, sizes, moved / 1e9, times, build.spec.layout.describe())
    torch._dynamo.reset()


def _rows(build: Any, name: str) -> tuple[dict[str, list[float]], int]:
    """Times of the contestants, and bytes read and written once."""
    import torch

    from tkgen.backends.hopper.launch import launcher
    from tkgen.execute.arguments import check_scalars
    from tkgen.ir.rounding import TORCH

    program = build.spec.program
    launch, scalars = build.spec.launch(), check_scalars(program)
    moved = sum(launch.bytes(t) for t in (*program.reads, *program.outputs))
    sets = [
        {t.name: torch.randn(launch.shape(t), device="cuda").to(TORCH[t.dtype]) for t in program.arguments}
        for _ in range(max(2, -(-ROTATED_BYTES // moved)))
    ]
    _agree(build, name, sets[0])
    torch._dynamo.reset()
    eager, fused = with_torch(name), torch.compile(with_torch(name), dynamic=False)
    half, apart = moved // 2 // 4096 * 4096, 2**20  # bytes, so that no two are a power of 2 apart
    halves = [[torch.empty(half + apart, dtype=torch.uint8, device="cuda")[:half] for _ in range(2)] for _ in sets]

    def calls(function: Callable[..., Any]) -> list[Callable[[], None]]:
        given = [[s[t.name] for t in program.reads] for s in sets]
        return [lambda each=each: function(*each) for each in given]  # type: ignore[misc]

    contestants = {
        "tkgen": [launcher(build, launch, s, scalars) for s in sets],
        "torch": calls(eager),
        "torch.compile": calls(fused),
        "copy": [lambda pair=pair: pair[1].copy_(pair[0]) for pair in halves],
    }
    return raced(contestants, moved / 2.5e12), moved


def _agree(build: Any, name: str, tensors: dict[str, Any]) -> None:
    """SystemExit where a kernel's last output is further from torch's than rounding is."""
    import torch

    from tkgen.backends.hopper.launch import launcher
    from tkgen.execute.arguments import check_scalars

    program = build.spec.program
    wanted = with_torch(name)(*(tensors[t.name] for t in program.reads))
    wanted = wanted[-1] if isinstance(wanted, tuple) else wanted
    last = "Y" if name == "h100_long_softmax" else program.outputs[-1].name
    mine = {n: t.clone() for n, t in tensors.items()}
    mine[last].fill_(float("nan"))
    launcher(build, build.spec.launch(), mine, check_scalars(program))()
    torch.cuda.synchronize()
    _close(f"{name}", mine[last].float(), wanted.float())


def _close(what: str, found: Any, wanted: Any) -> None:
    off = float((found - wanted).norm() / wanted.norm())
    if not off < 2.0**-7:
        print(json.dumps({"wrong": f"{what}: off by {off:.2g} of its norm"}), flush=True)
        raise SystemExit(1)


def measure_attention(quick: bool) -> None:
    """Attention forward beside cuDNN and FlashAttention-2 of torch, and FlashAttention-3 where it is installed."""
    jobs = ATTENTION[:1] if quick else ATTENTION
    any_size = (DYNAMIC, {"HEADS": 16, "KV_HEADS": 16})
    *known, unknown = built([*jobs, any_size])
    launches = [(build, {}) for build in known] + [(unknown, sizes) for sizes in LAUNCHED[: len(jobs)]]
    for build, chosen in launches:
        name, launch = build.spec.name, build.spec.launch(chosen)
        batch, heads, length, depth = launch.shape(next(t for t in build.spec.program.arguments if t.name == "Q"))
        causal = name != "h100_attention"
        print(json.dumps({"at": f"{name} {batch} x {length} x {depth}"}), flush=True)
        flops = 4.0 * batch * heads * length**2 * depth / (2 if causal else 1)
        sizes = f"{batch} x {heads} x {length} x {depth}{', causal' if causal else ''}"
        times = _attention(build, launch, causal, flops)
        told("attention", name, sizes, flops / 1e12, times, build.spec.layout.describe())


def _attention(build: Any, launch: Any, causal: bool, flops: float) -> dict[str, list[float]]:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from tkgen.backends.hopper.launch import launcher

    shapes = {t.name: launch.shape(t) for t in build.spec.program.arguments}
    each = 2 * sum(map(math.prod, shapes.values()))
    kinds = {name: torch.float32 if name == "LSE2" else torch.bfloat16 for name in shapes}
    sets = [{n: torch.randn(s, device="cuda", dtype=kinds[n]) for n, s in shapes.items()}
            for _ in range(max(2, -(-ROTATED_BYTES // each)))]  # fmt: skip
    scalars = {"scale": math.log2(math.e) / shapes["Q"][-1] ** 0.5}
    mine = [launcher(build, launch, s, scalars) for s in sets]

    def theirs(backend: Any) -> list[Callable[[], None]]:
        def call(s: dict[str, Any]) -> Any:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(s["Q"], s["K"], s["V"], is_causal=causal)

        return [lambda s=s: call(s) for s in sets]  # type: ignore[misc]

    contestants = {"tkgen": mine, "cuDNN": theirs(SDPBackend.CUDNN_ATTENTION),
                   "FlashAttention-2": theirs(SDPBackend.FLASH_ATTENTION)}  # fmt: skip
    if third := _flash_attention_3():
        contestants[THIRD] = [lambda s=s: third(s["Q"], s["K"], s["V"], causal) for s in sets]  # type: ignore[misc]
    sets[0]["O"].fill_(float("nan"))
    mine[0]()
    torch.cuda.synchronize()
    _close(build.spec.name, sets[0]["O"].float(), contestants["FlashAttention-2"][0]().float())  # type: ignore[attr-defined]
    return raced(contestants, flops / 5e14)


def _flash_attention_3() -> Callable[..., Any] | None:
    """Attention of B x H x N x D by FlashAttention-3, whose Python package is `flash_attn_interface`; None without it.

    Source: github.com/Dao-AILab/flash-attention, hopper/flash_attn_interface.py.
    """
    try:
        from flash_attn_interface import flash_attn_func
    except ImportError:
        return None

    def call(q: Any, k: Any, v: Any, causal: bool) -> Any:
        out = flash_attn_func(*(t.transpose(1, 2) for t in (q, k, v)), causal=causal)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return call


# ---------------------------------------------------------------- the page

HEAD = """## Rows

The same method. GB/s count every byte that is read or written once. The copy is torch's copy of the
same number of bytes, and torch.compile is used in its default mode. Each tkgen kernel was first
compared with torch (error at most 2^-7 of the norm).

{rows}

{rows_below}

## Attention, forward

The same method. TFLOP/s count 4 B H N^2 D operations, and half of them for causal attention. cuDNN
and FlashAttention-2 are the backends of torch's scaled_dot_product_attention{third}. tkgen's kernels also
store the logarithms of the sums. Each was first compared with FlashAttention-2.
`h100_attention_dynamic` is one kernel for all rows; it gets the batch and the lengths at the launch.

{attention}

{attention_below}"""


def page(lines: Sequence[dict[str, Any]]) -> str:
    """The parts of docs/measured.md."""
    rows, rows_below = _table(lines, "rows", ("copy", "torch", "torch.compile"), "shape", _short_of_copy)
    has_third = any(line.get("who") == THIRD for line in lines)
    others = ("cuDNN", "FlashAttention-2", *([THIRD] if has_third else []))
    attention, below = _table(lines, "attention", others, "batch x heads x length x D", _short)
    third = f"; {THIRD} is\nits main branch" if has_third else ""
    return HEAD.format(rows=rows, rows_below=rows_below, attention=attention, attention_below=below, third=third)


def _short_of_copy(found: dict[str, Any], ratios: dict[str, float]) -> str:
    if ratios["copy"] >= 0.9:
        return ""
    return f"`{found['name']}` {found['sizes']}: {ratios['copy']:.3f} of the copy, 0.90 is aimed at"


def _short(found: dict[str, Any], ratios: dict[str, float]) -> str:
    long = " x 1024 x " not in found["sizes"] and " x 128" in found["sizes"]
    said = []
    if long and ratios["cuDNN"] < 0.95:
        said.append(f"{ratios['cuDNN']:.3f} of cuDNN, 0.95 is aimed at")
    for who in ("FlashAttention-2", THIRD):
        if ratios.get(who, 1) < 1:
            said.append(f"{ratios[who]:.3f} of {who}, 1.00 is aimed at")
    return f"`{found['name']}` {found['sizes']}: {'; '.join(said)}" if said else ""


def _table(
    lines: Sequence[dict[str, Any]], kind: str, others: tuple[str, ...], shape: str,
    short: Callable[[dict[str, Any], dict[str, float]], str],
) -> tuple[str, str]:  # fmt: skip
    """A row for each kernel and size, and what is below what is aimed at."""
    found = [line for line in lines if line.get("kind") == kind]
    by = " | ".join(f"tkgen / {who}" for who in others)
    text = [f"| spec | {shape} | tkgen | {' | '.join(others)} | {by} | layout |", "|---" * (4 + 2 * len(others)) + "|"]
    below = []
    for name, sizes in dict.fromkeys((line["name"], line["sizes"]) for line in found):
        here = {line["who"]: line for line in found if (line["name"], line["sizes"]) == (name, sizes)}
        ratios = {who: here["tkgen"]["rate"] / here[who]["rate"] for who in others}
        rates = [f"{here[who]['rate']:.0f} ± {50 * here[who]['spread']:.1f} %" for who in ("tkgen", *others)]
        cells = [f"`{name}`", sizes, *rates, *(f"{ratios[who]:.3f}" for who in others), here["tkgen"]["detail"]]
        text.append(f"| {' | '.join(cells)} |")
        if said := short(here["tkgen"], ratios):
            below.append(said)
    listed = "\n".join(f"- {b}" for b in below)
    return "\n".join(text), f"Below what is aimed at:\n\n{listed}" if below else "All are at what is aimed at."
