"""Random kernels of the gradients of attention: one of keys and values, or one of queries, in its forms.

Tiles that products take both ways, several products an iteration, vectors along either axis.
"""

from __future__ import annotations

import random
from math import lcm

from fuzzing.names import renamed
from fuzzing.rows import TARGETS
from fuzzing.specs import Sample


def gradients(seed: int) -> Sample:
    """Causal or not, of heads that share keys, with vectors in memory in one order or the other."""
    rng = random.Random(f"gradients {seed}")
    of_keys = rng.random() < 0.5
    waves = rng.choice([1, 2, 4, 4, 8])
    target = rng.choice(TARGETS)
    via = " via direct" if target == "gfx950" and rng.random() < 0.5 else ""
    step, head = (rng.choice([32, 64]), rng.choice([64, 128])) if via else (
        rng.choice([16, 32, 64]), rng.choice([32, 48, 64, 96, 128])
    )  # fmt: skip
    tile = 16 * waves * rng.choice([1, 2])
    length = lcm(tile, step) * rng.choice([1, 1, 2]) if rng.random() < 0.7 else rng.choice([1, 63, 100, 192])
    group, causal = rng.choice([1, 1, 2]), rng.random() < 0.4
    dtype, stored = rng.choice(["bf16", "bf16", "f16"]), rng.choice(["bf16", "f16", "f32"])
    numbers = rng.choice(["f32", "f32", dtype])
    keys = "h" if group == 1 else f"h / {group}"
    vector = rng.choice(["h, q", "q, h"])
    scores = rng.choice(["Q[h, q] @ K[{0}, j].T", "K[{0}, j] @ Q[h, q].T"]).format(keys)
    turned = scores.startswith("K")
    comes = f"V[{keys}, j] @ G[h, q].T" if turned else f"G[h, q] @ V[{keys}, j].T"
    first_of_keys = turned and not causal  # `where` puts the axes of its condition first: q, j
    by_keys, by_queries = ("", ".T") if first_of_keys else (".T", "")
    split, moved = ("j", "q") if of_keys else ("q", "j")
    bound = {True: f" from {split}", False: f" to {split}"}[of_keys] if causal and rng.random() < 0.8 else ""
    body = [
        f"s = scale * {scores}",
        *(["s = where(q >= j, s, -inf)"] if causal else []),
        rng.choice([f"p = exp(s - E[{vector}])", f"p = exp2((s - E[{vector}]) * 1.4426950408889634)"]),
        f"c = {comes}",
        f"d = p * (c - T[{vector}])",
    ]
    if of_keys:
        body += [f"y = y + {dtype}(d){by_keys} @ Q[h, q]", f"x = x + {dtype}(p){by_keys} @ G[h, q]"]
    else:
        body += [f"y = y + {dtype}(d){by_queries} @ K[{keys}, j]"]
        if rng.random() < 0.3:
            body += [f"x = x + {dtype}(p){by_queries} @ V[{keys}, j]"]
    both = len([line for line in body if line.startswith("x")])
    factors = "Q, G" if of_keys else "K, V"
    lines = [
        "kernel drawn", f"  dims H = 2, {'KV = 1, ' if group > 1 else ''}L = {length}, D = {head}",
        *(f"  global {n} : {dtype}[{'KV' if n in 'KV' and group > 1 else 'H'}, L, D]" for n in "QKVG"),
        *(f"  global {n} : {numbers}[{'H, L' if vector == 'h, q' else 'L, H'}]" for n in "ET"),
        f"  global Y : {stored}[H, L, D]", *([f"  global X : {stored}[H, L, D]"] * both),
        f"  scalar scale : f32 = {head**-0.5}", f"  over h in H, {split} in L by {tile}",
        f"  waves {waves} along {split}", f"  shared {factors} buffers {rng.choice([1, 2, 2, 3])}{via}",
        *([f"  shared E, T buffers {rng.choice([1, 2, 3])}"] if of_keys else []),
        f"  each {moved} in L by {step}{bound}", *(f"    {line}" for line in body),
        f"  Y[h, {split}] = scale * y", *([f"  X[h, {split}] = x"] * both),
    ]  # fmt: skip
    features = {"of keys" if of_keys else "of queries", "causal" if causal else "all", f"group {group}"}
    features |= {"via direct"} if via else set()
    return Sample(
        seed, renamed(seed, "\n".join(lines) + "\n"), target, features=frozenset(features), family="gradients"
    )
