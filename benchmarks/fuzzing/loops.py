"""Random kernels with loops that carry more than sums: attention in its forms, with what is chosen tile by tile.

A loop of products of products has a schedule for few of these; the others are refused, and say so.
"""

from __future__ import annotations

import random
from math import lcm

from fuzzing.rows import TARGETS
from fuzzing.specs import Sample


def loops(seed: int) -> Sample:
    """Softmax attention: causal, in a window or neither, of heads that share keys, rescaled at every pass or not."""
    rng = random.Random(f"loops {seed}")
    waves = rng.choice([1, 2, 4, 8])
    rows, step, head = 16 * waves * rng.choice([1, 2]), rng.choice([16, 32, 64]), rng.choice([32, 64, 128])
    length = lcm(rows, step) * rng.choice([1, 1, 2]) if rng.random() < 0.85 else rng.choice([64, 100, 192])
    rows -= rng.choice([0, 0, 3, 8]) if waves == 1 else 0
    group, causal, lazy = rng.choice([1, 1, 2]), rng.random() < 0.3, rng.random() < 0.2
    moved, window = rng.choice([0, 0, 5, 64]), rng.choice([0, 0, 1, 40, 100])
    dtype, stored = rng.choice(["bf16", "f16"]), rng.choice(["bf16", "f16", "f32"])
    keys = "h" if group == 1 else f"h / {group}"
    score = "s = scale * Q[h, q] @ K[{0}, j].T" if rng.random() < 0.5 else "s = scale * (Q[h, q] @ K[{0}, j].T)"
    exponential = rng.choice(["exp({})", "exp2(({}) * 1.4426950408889634)"])
    seen = f"q + {moved} >= j" + (f" and q - j < {window}" if window else "")
    begin, guard = (f" from q - {window}", "z") if window else ("", "n")
    rescaled = ["o = o * r", "l = l * r"]
    body = [
        score.format(keys),
        *([f"s = where({seen}, s, -inf)"] if causal else []),
        "n = max(m, rowmax(s))",
        *(["z = where(n > -inf, n, 0)"] if guard == "z" else []),
        f"p = {exponential.format(f's - {guard}')}",
        f"r = {exponential.format(f'm - {guard}')}",
        *(["when any(r < 0.99609375)", *(f"  {line}" for line in rescaled)] if lazy else rescaled),
        "l = l + rowsum(p)",
        f"o = o + {dtype}(p) @ V[{keys}, j]",
        "m = n",
    ]
    second = rng.random() < 0.4
    parts = 0 if causal or rng.random() < 0.8 else rng.choice([1, 2, 3, 8])
    dynamic = not parts and random.Random(f"size of loops {seed}").random() < 0.2
    size = "dynamic" if dynamic else str(length)
    at, of, others = ("h, t, q", "H, P, L", f", P = {parts}") if parts else ("h, q", "H, L", "")
    ends = f"{begin} to q + {moved}" if causal else " part t" if parts else ""
    counted = rng.random() < 0.05  # a number that no tile needs
    carried = ["  carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0"]
    if rng.random() < 0.2:
        carried = ["  carry m : f32[q] = -inf", "  carry l : f32[q] = 0, o : f32[q, D] = 0"]
    if counted:
        carried.append("  carry c : f32 = 0")
        body.append("c = c + 1")
    shared = [f"  shared K, V{rng.choice(['', ' buffers 2'])}"] if rng.random() < 0.9 else []
    lines = [
        "kernel drawn", f"  dims H = 2, {'KV = 1, ' if group > 1 else ''}L = {size}, D = {head}{others}",
        *(f"  global {name} : {dtype}[{'H' if name == 'Q' or group == 1 else 'KV'}, L, D]" for name in "QKV"),
        f"  global O : {stored}[{of}, D]", *([f"  global E : f32[{of}]"] if second else []),
        f"  scalar scale : f32 = {head**-0.5}", f"  over h in H, {'t in P, ' if parts else ''}q in L by {rows}",
        f"  waves {waves}{rng.choice(['', ' along q'])}", *shared,
        *carried,
        f"  each j in L by {step}{ends}", *(f"    {line}" for line in body),
        f"  O[{at}] = {'where(l > 0, o / l, 0)' if parts else 'o / l'}",
        *([f"  E[{at}] = m + log(l)"] if second else []),
        "  reference scaled_dot_product_attention(Q, K, V)",
    ]  # fmt: skip
    form = ("window" if window else "causal") if causal else "parts of keys" if parts else "all keys"
    features = {form, *(["when any"] if lazy else []), f"group {group}", *(["dynamic"] if dynamic else [])}
    extents = {"L": tuple(sorted({1, rows, step + 1, length}))} if dynamic else {}
    target = rng.choice(TARGETS)
    return Sample(seed, "\n".join(lines) + "\n", target, extents, features=frozenset(features), family="loops")
