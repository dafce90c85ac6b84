"""Texts of specs for Hopper, and the cases that a GPU runs."""

from __future__ import annotations

import re
from typing import Any

from tkgen.ir.functions import FUNCTIONS, Function


def gemm(
    layouts: str = "NN",
    block: tuple[int, int, int] = (128, 256, 64),
    stages: int = 4,
    operand: str = "bf16",
    right: str = "",
    output: str = "bf16",
    grid: str = "persistent(132)",
    epilogue: str = "",
    tail: str = "tail masked",
    dims: tuple[int, int, int] = (1024, 1024, 1024),
    consumers: int = 0,
    clusters: str = "",
) -> str:
    """A spec: `layouts` is N or T for each operand, as in BLAS, row-major; B is of `right`, where given.

    So many `consumers` take turns.
    """
    rows, cols, step = block
    waves = 4 * consumers or rows // 16
    a, b = "M, K" if layouts[0] == "N" else "K, M", "K, N" if layouts[1] == "N" else "N, K"
    lines = f"""kernel gemm
  target sm_90a
  dims M = {dims[0]}, N = {dims[1]}, K = {dims[2]}
  global A : {operand}[{a}]
  global B : {right or operand}[{b}]
  global C : {output}[M, N]
  {"scalar alpha : f32 = 0.5" if "alpha" in epilogue else ""}
  block {rows} x {cols} step {step}
  grid {grid}
  {clusters and f"clusters {clusters}"}
  remap group(rows = 8)
  {tail}
  shared A, B buffers {stages} via direct
  role producer waves 0..3
    load A, B
  role consumer waves 4..{3 + waves} as {waves} x 1
    accumulate C : f32 tile 16 x {cols}
    {f"epilogue {epilogue}" if epilogue else ""}
    store C
    {"schedule ping_pong" if consumers else ""}
"""
    return "\n".join(line for line in lines.splitlines() if line.strip()) + "\n"


RAGGED, ODD = (200, 328, 136), (392, 520, 264)

CASES: list[dict[str, Any]] = [
    *(
        {"layouts": layouts, **more}
        for layouts in ("NN", "NT", "TN", "TT")
        for more in (
            {"dims": (256, 512, 256)},
            {"dims": RAGGED},
            {"dims": (64, 64, 64)},
            {"dims": (4096, 2048, 512)},
            {"dims": (136, 72, 40), "block": (64, 64, 64)},
            {"dims": (520, 136, 264), "block": (256, 64, 64), "stages": 3},  # 20 warps
        )
    ),
    *(
        {"block": (rows, cols, 64), "stages": 3, "dims": ODD}
        for cols in (64, 128, 192, 256)
        for rows in (64, 128, 192)
        if (rows, cols) != (192, 256)
    ),
    {"operand": "f16", "output": "f16", "dims": RAGGED},
    {"operand": "f16", "output": "f32", "layouts": "NT", "dims": RAGGED},
    {"output": "f32", "dims": (512, 512, 1024)},
    {"output": "f32", "block": (128, 192, 64), "stages": 3, "dims": (512, 512, 1024)},
    {"grid": "linear", "dims": (640, 520, 264)},
    {"grid": "persistent(3)", "dims": (1024, 1024, 200)},
    {"grid": "persistent(7)", "stages": 2, "dims": (1024, 1024, 200)},
    {"block": (128, 256, 128), "stages": 2, "dims": (512, 512, 1024)},
    {"block": (128, 256, 128), "stages": 2, "layouts": "TT", "dims": (512, 512, 1032)},
    {"epilogue": "scale(alpha) | relu", "dims": RAGGED},
    {"stages": 2, "dims": (8192, 8, 64)},
    {"dims": (8, 8, 8)},
    {"dims": (128, 256, 8)},
    {"grid": "linear", "tail": "", "stages": 2, "dims": (256, 512, 640)},
]

CASES += [
    {"layouts": "NT", "operand": "fp8", **case}
    for case in (
        {"block": (128, 256, 128), "dims": (256, 512, 512)},
        {"block": (128, 256, 128), "dims": (392, 520, 272)},
        {"block": (128, 128, 256), "stages": 3, "dims": (392, 520, 784), "output": "f32"},
        {"block": (64, 64, 128), "dims": (136, 72, 48), "output": "f16"},
        {"block": (192, 192, 128), "stages": 3, "dims": (392, 584, 4096)},
        {"block": (128, 128, 128), "dims": (200, 336, 144), "output": "fp8"},
        {"block": (128, 256, 128), "stages": 3, "dims": (264, 528, 1040), "output": "fp8", "epilogue": "scale(alpha)"},
        {"block": (128, 256, 128), "dims": (264, 528, 400), "output": "bf8", "grid": "linear"},
        {"operand": "bf8", "block": (128, 128, 128), "dims": (200, 328, 144)},
        {"right": "bf8", "block": (128, 128, 128), "dims": (200, 328, 400), "output": "f32"},
        {"operand": "bf8", "right": "fp8", "block": (64, 256, 128), "dims": (200, 328, 400), "output": "f32"},
        {"block": (128, 256, 128), "dims": (136, 264, 16384), "output": "f32"},
        {"block": (64, 64, 128), "dims": (8, 8, 16)},
        {"operand": "bf8", "block": (128, 128, 128), "dims": (200, 336, 144), "output": "bf8"},
        {"operand": "bf16", "block": (128, 128, 64), "dims": (200, 336, 144), "output": "fp8"},
    )
]  # fmt: skip
"""8-bit floats lie along the contraction, both factors; their rows are 16 of them, or a multiple."""

ODD_ROWS: list[dict[str, Any]] = [
    {"layouts": "NT", "dims": (333, 205, 177), "block": (128, 128, 64)},  # 354 bytes: 2 at a time
    {"layouts": "NT", "dims": (200, 136, 330), "block": (64, 64, 64), "stages": 2, "grid": "persistent(3)"},
    {"layouts": "NT", "dims": (136, 72, 156), "block": (64, 64, 64), "stages": 3, "output": "f32", "epilogue": "relu"},
    {"layouts": "NN", "dims": (136, 72, 77), "block": (64, 64, 64)},  # of A alone
    {"layouts": "TT", "dims": (136, 72, 77), "block": (64, 64, 64)},  # of B alone
    {"layouts": "NT", "operand": "fp8", "dims": (72, 133, 147), "block": (64, 128, 128), "stages": 2},
    {"layouts": "NT", "dims": (72, 133, 389), "block": (64, 64, 64), "output": "f32", "grid": "stream_k(3)"},
    {"layouts": "NT", "dims": (72, 133, 450), "block": (64, 64, 64), "output": "f32", "grid": "split_k(2)"},
]
"""Operands whose rows are no multiple of 16 bytes: warps of the producer load them."""

CASES += ODD_ROWS

TURNS: list[dict[str, Any]] = [
    {"consumers": 2, "block": (256, 128, 64), "stages": 6, "dims": (520, 392, 1160), "layouts": "NT"},
    {"consumers": 2, "block": (256, 128, 64), "stages": 5, "dims": (2048, 4096, 200), "layouts": "TN"},
    {"consumers": 2, "block": (128, 256, 64), "dims": (264, 520, 136)},
    {"consumers": 2, "block": (128, 64, 128), "stages": 2, "dims": (64, 64, 64), "layouts": "TT"},
    {"consumers": 2, "block": (128, 64, 64), "stages": 3, "dims": (136, 136, 328), "grid": "persistent(1)"},
    {"consumers": 3, "block": (192, 128, 64), "stages": 4, "dims": (584, 264, 712), "output": "f32"},
    {"consumers": 2, "block": (384, 64, 64), "stages": 4, "dims": (584, 264, 712), "epilogue": "scale(alpha) | relu"},
    {"consumers": 2, "block": (256, 128, 64), "stages": 4, "dims": (512, 520, 264), "grid": "linear"},
]

CASES += [
    *(
        {"layouts": layouts, "clusters": clusters, **more}
        for layouts in ("NN", "NT", "TN", "TT")
        for clusters in ("2", "2 along n")
        for more in (
            {"dims": RAGGED},
            {"dims": (4096, 2048, 512)},
            {"dims": (136, 72, 40), "block": (64, 64, 64), "stages": 2, "grid": "persistent(4)"},
        )
    ),
    {"clusters": "2", "dims": (64, 64, 64)},  # the second block of a cluster has nothing
    {"clusters": "2 along n", "dims": (8, 8, 8)},
    {"clusters": "2", "grid": "linear", "dims": (8192, 8, 64), "stages": 2},
    {"clusters": "2 along n", "grid": "linear", "tail": "", "dims": (384, 768, 640), "stages": 2},
    {"clusters": "2", "block": (128, 256, 128), "stages": 2, "layouts": "NT", "dims": (512, 520, 1032)},
    {"clusters": "2 along n", "block": (192, 128, 64), "stages": 3, "dims": ODD},
    {"clusters": "2", "operand": "f16", "output": "f32", "layouts": "NT", "dims": RAGGED},
    {"clusters": "2", "epilogue": "scale(alpha) | relu", "dims": RAGGED},
]


SPLIT: list[dict[str, Any]] = [
    {"grid": f"split_k({parts})", "output": "f32", "dims": dims, "block": block, "stages": 3, **more}
    for parts, dims, block, more in (
        (4, (72, 264, 1000), (64, 128, 64), {}),
        (2, (392, 520, 256), (128, 256, 64), {"epilogue": "scale(alpha)"}),
        (16, (8, 4096, 8192), (64, 256, 64), {"layouts": "NT"}),
        (3, (264, 136, 384), (256, 64, 64), {"consumers": 2, "layouts": "TN"}),
        (5, (200, 328, 320), (128, 128, 64), {"operand": "f16", "layouts": "TT"}),
    )
]
SPLIT += [
    {"grid": grid, "output": "f32", **more}
    for grid in ("stream_k(132)", "stream_k(7)", "stream_k(1)")
    for more in (
        {"dims": (200, 328, 576), "block": (64, 64, 64)},
        {"dims": (520, 392, 960), "block": (128, 128, 64), "stages": 3, "epilogue": "scale(alpha)"},
        {"dims": (1024, 1280, 4224), "layouts": "NT", "stages": 3},
    )
]
"""Tiles that several blocks add to."""

OTHERS = {
    "b": "  global b : f32[N]",
    "s": "  global s : f32[M]",
    "R": "  global R : bf16[M, N]",
    "Q": "  global Q : f16[M, N]",
    "alpha": "  scalar alpha : f32 = 0.5",
}


def fused(
    formula: str,
    dims: tuple[int, int, int] = (200, 328, 136),
    block: tuple[int, int, int] = (128, 128, 64),
    output: str = "f32",
    products: tuple[str, ...] = ("c",),
    more: tuple[tuple[str, str, str], ...] = (),
) -> str:
    """A spec whose output is a formula of sums - `c` of X and Wc, `d` of X and Wd, ... -, vectors and matrices.

    `more` outputs beside Y: each a name, a type, a formula.
    """
    rows, cols, step = block
    weights = [f"W{p}" for p in products]
    formulas = " ".join([formula, *(f for *_, f in more)])
    used = [declaration for name, declaration in OTHERS.items() if re.search(rf"\b{name}\b", formulas)]
    stored = "".join(f"\n  {y}[m, n] = {f}" for y, _, f in more)
    others = "\n".join([*(f"  global {w} : bf16[N, K]" for w in weights), *used])
    sums = "\n".join(f"    {p} = {p} + X[m, k] @ {w}[n, k].T" for p, w in zip(products, weights, strict=True))
    return f"""kernel fused
  target sm_90a
  dims M = {dims[0]}, N = {dims[1]}, K = {dims[2]}
  global X : bf16[M, K]
{others}
  global Y : {output}[M, N]
{"".join(f"  global {y} : {dtype}[M, N]{chr(10)}" for y, dtype, _ in more)}  over m in M by {rows}, n in N by {cols}
  grid persistent(132)
  tail masked
  shared X, {", ".join(weights)} buffers 3 via direct
  role producer waves 0..3
    load X, {", ".join(weights)}
  role consumer waves 4..{3 + rows // 16} as {rows // 16} x 1
    accumulate {", ".join(products)} : f32 tile 16 x {cols}
  each k in K by {step}
{sums}
  Y[m, n] = {formula}{stored}
"""


def batched(x: str, w: str, y: str, formula: str = "c", others: tuple[str, ...] = (), over: str = "h in H") -> str:
    """A spec of a product for each index of a batch; `x`, `w`, `y` are how the product's tensors are indexed."""

    def declared(name: str, indices: str, dtype: str) -> str:
        dims = {"h": "H", "g": "G", "h / 2": "PAIRS", "m": "M", "n": "N", "k": "K", "1": "PARTS"}
        return f"  global {name} : {dtype}[{', '.join(dims[i] for i in indices.split(', '))}]"

    tensors = [declared("X", x, "bf16"), declared("W", w, "bf16"), *others, declared("Y", y, "f32")]
    return f"""kernel batched
  target sm_90a
  dims H = 4, G = 3, PAIRS = 2, PARTS = 2, M = 200, N = 384, K = 128
{chr(10).join(tensors)}
  over {over}, m in M by 128, n in N by 128
  tail masked
  shared X, W buffers 3 via direct
  role producer waves 0..3
    load X, W
  role consumer waves 4..11 as 8 x 1
    accumulate c : f32 tile 16 x 128
  each k in K by 64
    c = c + X[{x}] @ W[{w}].T
  Y[{y}] = {formula}
"""


def scaled(
    added: str,
    dims: tuple[int, int, int] = (200, 336, 784),
    block: tuple[int, int, int] = (128, 128, 128),
    operand: str = "fp8",
    output: str = "f32",
    others: tuple[str, ...] = (),
    stages: int = 3,
) -> str:
    """A spec whose products `p` of a step are made something of, which may be `added` to the sum `c`."""
    rows, cols, step = block
    return f"""kernel scaled
  target sm_90a
  dims M = {dims[0]}, N = {dims[1]}, K = {dims[2]}, STEPS = ceil_div(K, {step}), COLS = ceil_div(N, {cols})
  global A : {operand}[M, K]
  global B : {operand}[N, K]
{chr(10).join(f"  {o}" for o in others)}
  global C : {output}[M, N]
  over m in M by {rows}, n in N by {cols}
  grid persistent(132)
  tail masked
  shared A, B buffers {stages} via direct
  role producer waves 0..3
    load A, B
  role consumer waves 4..{3 + rows // 16} as {rows // 16} x 1
    accumulate c : f32 tile 16 x {cols}
  each k in K by {step}
    p = A[m, k] @ B[n, k].T
    c = c + {added}
  C[m, n] = c
"""


OF_ROWS, OF_COLUMNS = "global s : f32[M, STEPS]", "global u : bf16[N, STEPS]"
OF_TILES, ALPHA = "global t : f32[COLS, STEPS]", "scalar alpha : f32 = 0.5"
SCALED = {
    "promoted": scaled("alpha * p", others=(ALPHA,), output="bf16"),
    "promoted, one step": scaled("1 * p", (200, 336, 48)),
    "promoted, bf16": scaled("1 * p", (200, 336, 264), (128, 64, 64), "bf16"),
    "blocks": scaled("s[m, k / 128] * t[n / 128, k / 128] * p", others=(OF_ROWS, OF_TILES), output="bf16"),
    "blocks, many tiles": scaled("s[m, k / 128] * t[n / 128, k / 128] * p", (2048, 2560, 1024),
                                 others=(OF_ROWS, OF_TILES), stages=5),
    "columns": scaled("s[m, k / 128] * (p * u[n, k / 128])", block=(64, 64, 128), others=(OF_ROWS, OF_COLUMNS)),
    "places": scaled("where(m >= n, p, alpha * p)", others=(ALPHA,), output="fp8"),
}  # fmt: skip
"""Products that are scaled before they are added."""


def grouped(
    dims: tuple[int, int, int],
    groups: int,
    block: tuple[int, int, int] = (128, 128, 64),
    formula: str = "y",
    output: str = "bf16",
    grid: str = "grid persistent(132)",
    more: tuple[tuple[str, str, str], ...] = (),
    turns: int = 0,
) -> str:
    """A spec of a product for each group of rows; formulas may take `b[e, n]`, `s[m]` and R[m, n], too.

    `turns` is the number of consumers that take turns, 0 where they share each step.
    """
    rows, cols, step = block
    waves = 4 * turns or rows // 16
    formulas = " ".join([formula, *(f for *_, f in more)])
    others = {"b": "bf16[E, N]", "s": "f32[M]", "R": "bf16[M, N]"}
    used = "".join(f"  global {t} : {kind}\n" for t, kind in others.items() if re.search(rf"\b{t}\b", formulas))
    used += "".join(f"  global {y} : {dtype}[M, N]\n" for y, dtype, _ in more)
    return f"""kernel grouped
  target sm_90a
  dims M = {dims[0]}, N = {dims[1]}, K = {dims[2]}, E = {groups}, OFFSETS = E + 1
  global FIRST : i32[OFFSETS]
  global X : bf16[M, K]
  global W : bf16[E, N, K]
{used}  global Y : {output}[M, N]
  over e in E, m in M within FIRST[e] by {rows}, n in N by {cols}
  {grid}
  remap group(rows = 4)
  tail masked
  shared X, W buffers 3 via direct
  role producer waves 0..3
    load X, W
  role consumer waves 4..{3 + waves} as {waves} x 1
    accumulate y : f32 tile 16 x {cols}{f"{chr(10)}    schedule ping_pong" * (turns > 0)}
  each k in K by {step}
    y = y + X[m, k] @ W[e, n, k].T
  Y[m, n] = {formula}{"".join(f"{chr(10)}  {y}[m, n] = {f}" for y, _, f in more)}
"""


GROUPED = {
    "groups": grouped((1000, 264, 136), 5),
    "groups of few rows": grouped((72, 136, 72), 9, (64, 64, 64)),
    "one group": grouped((200, 264, 136), 1, (128, 256, 64), output="f32"),
    "groups, a block for each tile": grouped((1000, 264, 136), 7, grid=""),
    "many groups": grouped((2000, 520, 200), 64, (128, 256, 64), grid="grid persistent(7)"),
    "groups that are weighed": grouped((1000, 264, 136), 5, formula="s[m] * (y + b[e, n]) + R[m, n]", output="f16"),
    "two outputs of groups": grouped((1000, 264, 136), 5, (192, 128, 64), "silu(y)", more=(("Z", "f32", "y * e"),)),
    "no rows": grouped((8, 64, 64), 4, (64, 64, 64)),
    "groups in turn": grouped((200, 136, 136), 5, (128, 64, 64), grid="grid persistent(2)", turns=2),
    "groups of tall tiles in turn": grouped(
        (700, 136, 200), 3, (256, 64, 64), "s[m] * (y + b[e, n])", "f16", "grid persistent(2)", turns=2
    ),
    "two outputs of groups in turn": grouped(
        (500, 264, 136), 2, (384, 64, 64), "silu(y)", more=(("Z", "f32", "y"),), turns=3
    ),
}


def formula(f: Function) -> str:
    """A formula that calls a function at numbers where it is defined."""
    match f.fast_of or f.name:
        case "and" | "or":
            return f"where(c > 0 {f.name} b[n] > 0, c, 1)"
        case "not":
            return "where(not c > 0, c, 1)"
        case "where":
            return "where(c > 0, c, b[n])"
        case "clamp":
            return "clamp(c, -1, b[n] + 2)"
        case "random":
            return "c + random(alpha, m, n)"
        case "neg":
            return "-c"
        case "mod":
            return "c % (b[n] + 4)"
        case "pow":
            return f"{f.word}(abs(c) + 0.125, b[n])"
        case "sqrt" | "rsqrt" | "log" | "log2" | "log1p":
            return f"{f.word}(abs(c) + 0.125)"
    if f.operator:
        compared = f"c {f.operator} b[n]"
        return f"where({compared}, c, 1)" if f.predicate else compared
    return f"{f.word}({', '.join(('c', 'b[n]', 's[m]')[: f.arity])})"


FUSED = {f.name: fused(formula(f)) for f in FUNCTIONS.values() if not f.internal} | {
    "gated": fused("silu(c) * d", products=("c", "d"), output="bf16"),
    "gated, a large block": fused("silu(c) * d", (1024, 1024, 512), products=("c", "d"), output="bf16"),
    "three sums": fused("c * d + e", (392, 520, 264), (64, 64, 64), products=("c", "d", "e"), output="bf16"),
    "residual": fused("gelu_tanh(alpha * c + b[n]) + R[m, n]", (392, 520, 264), (128, 256, 64), "bf16"),
    "residual in f16": fused("relu(s[m] * c) + Q[m, n]", output="f16"),
    "a sum and what is made of it": fused("c", output="bf16", more=(("Z", "bf16", "gelu_tanh(c + b[n])"),)),
    "in two types": fused("relu(c)", more=(("Z", "f16", "c"),)),
    "in three types": fused("c", (392, 520, 264), (64, 192, 64), "f16", more=(
        ("Z", "f32", "c * s[m]"), ("R", "bf16", "silu(c)"))),
    "a gate kept": fused("silu(c) * d", (392, 520, 264), products=("c", "d"), output="bf16", more=(
        ("U", "bf16", "c"), ("V", "f32", "d"))),
    "two products, two outputs": fused("c", products=("c", "d"), more=(("Z", "bf16", "d + R[m, n]"),)),
    "coordinates": fused("where(m >= n, c, -1)"),
    "rounded between": fused("bf16(c) + b[n]"),
    "a constant": fused("where(n < 100, c, alpha)"),
    "a batch": batched("h, m, k", "h, n, k", "h, m, n"),
    "heads beside each other": batched("m, h, k", "n, h / 2, k", "h, m, n"),
    "heads of the output beside each other": batched("h, m, k", "n, k", "m, h, n"),
    "two indices": batched("g, m, h, k", "g, n, h / 2, k", "g, h, m, n", over="g in G, h in H"),
    "rows farthest apart": batched("m, g, h, k", "n, g, h, k", "m, g, h, n", over="g in G, h in H"),
    "one of two weights": batched("m, k", "1, n, k", "m, n", over="h in H").replace("over h in H, ", "over "),
    "a bias for each of a batch": batched(
        "h, m, k", "h, n, k", "h, m, n", "relu(c + b[h, n]) * s[h, m] + R[m, h, n]",
        ("  global b : bf16[H, N]", "  global s : f32[H, M]", "  global R : bf16[M, H, N]"),
    ),
    "the number of a head": batched("h, m, k", "h, n, k", "h, m, n", "c + h"),
    "gated, in clusters": fused("silu(c) * d + R[m, n]", products=("c", "d")).replace(
        "  tail", "  clusters 2 along n\n  tail"
    ),
    "a batch in clusters": batched("h, m, k", "h, n, k", "h, m, n", "c + h").replace("  tail", "  clusters 2\n  tail"),
    "scaled, in clusters": SCALED["promoted, bf16"].replace("  tail", "  clusters 2\n  tail"),
    "clauses": gemm(epilogue="scale(alpha) | clamp(-1, 1) | tanh", dims=(200, 328, 136)),
    **SCALED,
}  # fmt: skip
