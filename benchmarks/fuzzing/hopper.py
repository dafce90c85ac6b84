"""Random kernels for Hopper: products of one or several sums, groups of rows, kernels of rows, attention.

Dimensions share names now and then, values are used twice, and names are those of the generated C++. Sizes are small:
an order of a launch is executed in Python.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

from fuzzing.formulas import BOTH, COL, DTYPES, ONE, ROW, Formulas
from fuzzing.rows import rows
from fuzzing.specs import Sample

# Of variables, constants and functions of generated files, and of their headers.
NAMES = (
    "stage", "phase", "full", "empty", "consumer", "tile_row", "panel", "values", "acc", "g", "last", "memory", "warp",
    "lane", "globals", "tma", "row", "col", "sum", "threadIdx", "C_acc", "A_s", "x0", "K_STEP", "STAGES", "float4",
)  # fmt: skip


def hopper(seed: int) -> Sample:
    """A kernel of one of the kinds that this back end has."""
    rng = random.Random(f"hopper {seed}")
    if (kind := rng.random()) < 0.25:
        made = rows(rng.randrange(1 << 30))
        return replace(made, seed=seed, text=_small(made.text), target="sm_90a", family="hopper",
                       features=made.features | {"rows"})  # fmt: skip
    text, features = (_attention if kind < 0.45 else _products)(rng, seed)
    return Sample(seed, text, "sm_90a", features=frozenset(features), family="hopper")


def _small(text: str) -> str:
    """A kernel of rows without what only AMD's GPUs have."""
    return "\n".join(line for line in text.splitlines() if "occupancy" not in line) + "\n"


# ---------------------------------------------------------------- products


def _products(rng: random.Random, seed: int) -> tuple[str, set[str]]:
    """Sums of products by equations: layouts, batches, groups, grids, clusters, turns, 8-bit floats, outputs."""
    features = set[str]()
    dtype = rng.choice(["bf16", "bf16", "bf16", "f16", "fp8"])
    rows, cols = rng.choice([64, 128, 128, 192]), rng.choice([64, 64, 128, 128, 192, 256])
    step = rng.choice([128, 256]) if dtype == "fp8" else rng.choice([64, 64, 64, 128])
    if rng.random() < 0.04:  # what no instruction has
        cols, step = rng.choice([(16, step), (cols, 32)])
    masked, square = rng.random() < 0.5, rng.random() < 0.2
    sizes = [side * rng.choice([1, 2, 2, 3]) for side in (rows, cols, step)]
    if masked and rng.random() < 0.7:
        sizes = [max(1, size - rng.choice([0, 8, 8, 16, 5 if n == 0 else 24])) for n, size in enumerate(sizes)]
    if square:  # one dimension twice or three times, as a projection of a model's width has it
        sizes[2] = -(-max(sizes) // step) * step if not masked else max(sizes)
        sizes[1] = sizes[2]
        sizes[0] = sizes[2] if rng.random() < 0.5 else sizes[0]
    outer = rng.choice(["", "", "", "batch", "heads", "groups"])
    first = "N" if dtype == "fp8" or rng.random() < (0.95 if outer == "groups" else 0.7) else "T"
    second = "T" if dtype == "fp8" or rng.random() < 0.6 else "N"
    dims = {"M": sizes[0], "N": sizes[1], "K": sizes[2]}
    m, n, k = "M", "N", "K"
    if square:
        features.add("dimensions of one name")
        n = k
        m = k if sizes[0] == sizes[2] else m
        dims = {name: dims[name] for name in dict.fromkeys([m, n, k])}
    b, at = ("", "") if not outer else ("B, ", "b, ")
    over = f"m in {m} by {rows}, n in {n} by {cols}"
    left = ("A[{}m, k]" if first == "N" else "A[{}k, m].T").format("" if outer == "groups" else at)
    a_dims = (
        f"{'' if outer == 'groups' else b}{m}, {k}" if first == "N" else f"{'' if outer == 'groups' else b}{k}, {m}"
    )
    b_dims = f"{b}{n}, {k}" if second == "T" else f"{b}{k}, {n}"
    right = "{}[" + at + ("n, k].T" if second == "T" else "k, n]")
    extra: list[str] = []
    out_b, out_at = b, at
    if outer in ("batch", "heads"):
        dims["B"] = rng.choice([1, 2, 3])
        over = f"b in B, {over}"
        if outer == "heads" and first == "N" and second == "T" and not square:
            dims |= {"H": 2, "G": rng.choice([1, 2])} | (
                {"K": -(-sizes[2] // step) * step} if rng.random() < 0.9 else {}
            )
            over = over.replace("b in B,", "b in B, h in H,")
            left, a_dims = "A[b, m, h, k]", f"B, {m}, H, {k}"
            right, b_dims = "{}[b, n, h / 2, k].T", f"B, {n}, G, {k}"
            if dims["G"] == 2:
                right, b_dims = "{}[b, n, h, k].T", f"B, {n}, H, {k}"
                del dims["G"]
            out_b, out_at = "B, H, ", "b, h, "
    elif outer == "groups":
        dims |= {"B": rng.choice([1, 2, 4]), "ENDS": 0}
        extra.append("global FIRST : i32[ENDS]")
        over = over.replace("m in ", "b in B, m in ").replace(f" by {rows},", f" within FIRST[b] by {rows},", 1)
        out_b, out_at = "", ""
        masked = masked or rng.random() < 0.9
    features |= {outer or "one matrix", f"layout {first}{second}", dtype}
    count = 2 if rng.random() < 0.3 and cols <= 128 else 1
    rights = ["W"] if count == 1 or rng.random() < 0.15 else ["W", "U"]
    sums = [f"c{number}" for number in range(count)]
    if rng.random() < 0.2:
        features.add("names of the C++")
        sums = rng.sample(NAMES, count)
    scaled = dtype == "fp8" and rng.random() < 0.4 and cols <= 128
    lines = [f"global A : {dtype}[{a_dims}]", *(f"global {w} : {dtype}[{b_dims}]" for w in rights)]
    terms = [
        f"{name} = {name} + {left} @ {right.format(rights[min(i, len(rights) - 1)])}" for i, name in enumerate(sums)
    ]
    if scaled and not outer:
        features.add("scaled steps")
        lines.append(f"global s : f32[{m}, STEPS]")
        dims["STEPS"] = -(-sizes[2] // step)
        terms = [t.replace(" + ", f" + s[m, k / {step}] * (", 1) + ")" for t in terms]
    grid, turns = _grid(rng, outer, features)
    added = "_k(" in grid[0] if grid else False
    made, tensors, stores = _outputs(rng, sums, (out_b, out_at), (m, n), added and rng.random() < 0.9, features)
    waves = (4 * turns) if turns else rows // 16
    waves = waves if rng.random() < 0.97 else 4
    body = [
        f"kernel {rng.choice(['drawn', 'drawn', f'fuzz_{seed}', 'gemm', 'tma'])}",
        f"dims {', '.join(f'{name} = {size}' if name != 'ENDS' else 'ENDS = B + 1' for name, size in dims.items())}",
        *lines, *extra, *tensors, "scalar alpha : f32 = 0.5", f"over {over}", *grid,
        *([f"remap group(rows = {rng.choice([2, 4])})"] if rng.random() < 0.3 else []),
        *(["tail masked"] if masked else []),
        f"shared {', '.join(['A', *rights])} buffers {rng.choice([2, 2, 3, 4])} via direct",
        "role producer waves 0..3", f"  load {', '.join(['A', *rights])}",
        f"role consumer waves 4..{3 + waves} as {waves} x 1",
        f"  accumulate {', '.join(sums)} : f32 tile 16 x {cols}", *(["  schedule ping_pong"] if turns else []),
        *(["allow slow_reads"] if rng.random() < 0.1 else []),
        f"each k in {k} by {step}", *(f"  {t}" for t in terms), *made, *stores,
    ]  # fmt: skip
    return _used("\n".join([body[0], *(f"  {line}" for line in body[1:])]) + "\n", rng), features


def _used(text: str, rng: random.Random) -> str:
    """Mostly without what nothing uses, which is refused."""
    if rng.random() < 0.05:
        return text
    for kind in (r"  (v\d+) = .*\n", r"  global (\w+) : .*\n", r"  scalar (\w+) : .*\n"):
        for found in reversed(list(re.finditer(kind, text))):
            if len(re.findall(rf"\b{found[1]}\b", text)) == 1:
                text = text.replace(found[0], "", 1)
    return text


def _outputs(
    rng: random.Random, sums: list[str], place: tuple[str, str], dims: tuple[str, str], added: bool, features: set[str]
) -> tuple[list[str], list[str], list[str]]:
    """Equations, tensors and stores after the sums. Parts that are `added` are only scaled."""
    (before, at), (m, n) = place, dims
    if added:
        tensors = [f"global Y{number} : f32[{before}{m}, {n}]" for number in range(len(sums))]
        return [], tensors, [f"Y{number}[{at}m, n] = alpha * {name}" for number, name in enumerate(sums)]
    leaves: dict[str, list[str]] = {BOTH: list(sums), ROW: [], COL: [], ONE: ["0.75", "alpha", "2"]}
    tensors = []
    for name, shape, kind, index in (
        ("R", f"{before}{m}, {n}", BOTH, f"R[{at}m, n]"), ("v", m, ROW, "v[m]"), ("w", n, COL, "w[n]"),
    ):  # fmt: skip
        if rng.random() < 0.3:
            tensors.append(f"global {name} : {rng.choice(DTYPES)}[{shape}]")
            leaves[kind].append(index)
    made = Formulas(rng, leaves, {})
    if rng.random() < 0.6:
        made.draw(rng.randint(0, 2))
    stores = []
    for number in range(rng.choice([1, 1, 1, 2])):
        tensors.append(f"global Y{number} : {rng.choice(['bf16', 'f16', 'f32'])}[{before}{m}, {n}]")
        plain = len(sums) == 1 and rng.random() < 0.3
        formula = sums[0] if plain else f"{made.formula_of_both()} + 0.5 * ({' + '.join(sums)})"
        stores.append(f"Y{number}[{at}m, n] = {formula}")
    features.add(f"outputs {len(stores)}")
    return made.lines, tensors, stores


def _grid(rng: random.Random, outer: str, features: set[str]) -> tuple[list[str], int]:
    """The grid, and consumers that take turns, if any. What a grid does not deal out is seldom drawn for it."""
    grid = rng.choice(
        ["", "", "persistent(2)", "persistent(3)", "persistent(132)", "split_k(2)", "stream_k(3)", "linear"]
    )
    if rng.random() < 0.9 and (outer in ("batch", "heads") or (outer == "groups" and "_k(" in grid)):
        grid = ""
    lines = [f"grid {grid}"] if grid else []
    if rng.random() < 0.12:
        features.add("clusters")
        lines.append(f"clusters {rng.choice(['2', '2 along m', '2 along n'])}")
    turns = rng.choice([2, 3]) if rng.random() < 0.1 else 0
    features |= {"turns"} if turns else set()
    features.add(f"grid {grid.split('(')[0] or 'none'}")
    return lines, turns


# ---------------------------------------------------------------- attention


def _attention(rng: random.Random, seed: int) -> tuple[str, set[str]]:
    """Attention forward: masks in each form, groups of heads, either order of dimensions, rows that see nothing."""
    rows, block = 64 * rng.choice([1, 2, 2, 3]), rng.choice([64, 64, 128, 128, 192])
    depth = rng.choice([64, 64, 64, 128, 128, 96])
    queries = rng.choice([1, 7, rows, rows + 8, 2 * rows, 2 * rows - 40])
    keys = rng.choice([queries, queries, block, 2 * block, block + 24, 3 * block - 56, 1])
    group = rng.choice([1, 1, 2])
    causal, dtype = rng.random() < 0.5, rng.choice(["bf16", "bf16", "f16"])
    window = rng.choice([0, 0, 1, 40, 100]) if causal else 0
    shift = keys - queries if rng.random() < 0.8 else rng.choice([0, 5, -3])
    moved = f" + {shift}" if shift > 0 else f" - {-shift}" if shift else ""
    back = shift - window + 1
    starts = (f" from q {'+' if back >= 0 else '-'} {abs(back)}" if back else " from q") if window else ""
    ends = f" to q{moved}" if causal and rng.random() < 0.9 else ""
    models = rng.random() < 0.5
    shape, place = ("{n}, {h}, D", "{n}, {h}") if models else ("{h}, {n}, D", "{h}, {n}")
    q, k = (f"[{shape.format(h=h, n=n)}]" for h, n in (("H", "Q_LEN"), ("KV" if group > 1 else "H", "K_LEN")))
    at_q, at_k = place.format(h="h", n="q"), place.format(h=f"h / {group}" if group > 1 else "h", n="j")
    mask = [f"s = where(q{moved} >= j, s, -inf)"] * causal
    mask += [f"s = where(q{moved} - j < {window}, s, -inf)"] if window else []
    guard = rng.random() < (0.8 if causal else 0.2)
    inner, outer = ("scale * ", "") if rng.random() < 0.5 else ("", "scale * ")
    exponent = "exp2({0}{1} - {0}{2})" if outer else "exp2({1} - {2})"
    top = "z" if guard else "n"
    body = [
        f"s = {inner}Q[{at_q}] @ K[{at_k}].T", *mask, "n = max(m, rowmax(s))",
        *(["z = where(n > -inf, n, 0)"] if guard else []),
        f"p = {exponent.format(outer, 's', top)}", f"r = {exponent.format(outer, 'm', top)}",
        "l = l * r + rowsum(p)", f"o = o * r + {dtype}(p) @ V[{at_k}]", "m = n",
    ]  # fmt: skip
    lse = rng.random() < 0.5
    equal = queries == keys and rng.random() < 0.5
    heads = rng.choice([1, 2])
    dims = {"H": heads * group, **({"KV": heads} if group > 1 else {}), "Q_LEN": queries, "K_LEN": keys, "D": depth}
    first = rng.choice(["-inf", "-inf", "-1e30"]) if not guard else "-inf"
    lines = [
        "kernel drawn", f"dims {', '.join(f'{name} = {size}' for name, size in dims.items())}",
        *(f"global {name} : {dtype}{x}" for name, x in (("Q", q), ("K", k), ("V", k))),
        f"global O : {rng.choice([dtype] * 9 + ['f32'])}{q}", *(["global LSE2 : f32[H, Q_LEN]"] * lse),
        f"scalar scale : f32 = {1.4426950408889634 / depth**0.5}", f"over h in H, q in Q_LEN by {rows}",
        f"waves {rows // 16} along q", *(["grid persistent(3)"] if rng.random() < 0.2 else []),
        f"shared K, V buffers {rng.choice([2, 2, 3])} via direct",
        f"carry m : f32[q] = {first}, l : f32[q] = 0, o : f32[q, D] = 0",
        f"each j in K_LEN by {block}{starts}{ends}", *(f"  {line}" for line in body),
        f"O[{at_q}] = {'where(l > 0, o / l, 0)' if guard else 'o / l'}",
        *([f"LSE2[h, q] = {outer}m + log2(l)"] * lse),
    ]  # fmt: skip
    text = "\n".join([lines[0], *(f"  {line}" for line in lines[1:])]) + "\n"
    if equal:
        text = text.replace("Q_LEN = ", "L = ", 1).replace(f", K_LEN = {keys}", "", 1)
        text = text.replace("Q_LEN", "L").replace("K_LEN", "L")
    features = {"attention", "window" if window else "causal" if causal else "all keys", f"group {group}"}
    return text, features | ({"rows without keys"} if keys < queries else set())
