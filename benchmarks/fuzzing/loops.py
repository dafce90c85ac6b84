"""Random kernels with loops that carry more than sums: attention in its forms, with what is chosen tile by tile.

A loop of fused matmuls has a schedule for few of these; the others are refused, and say so. Some have a named
schedule, some a written one, and some are of sequences that lie one after the other.
"""

from __future__ import annotations

import random
from math import lcm

from fuzzing.names import renamed
from fuzzing.rows import TARGETS
from fuzzing.specs import Sample


def loops(seed: int) -> Sample:
    """Softmax attention: causal, in a window or neither, of heads that share keys, rescaled at every iteration or
    not."""
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
    chosen = _schedule(seed, [line.split(" = ")[0] for line in body if not line.startswith("when")], step, shared)
    lines = [
        "kernel drawn", f"  dims H = 2, {'KV = 1, ' if group > 1 else ''}L = {size}, D = {head}{others}",
        *(f"  global {name} : {dtype}[{'H' if name == 'Q' or group == 1 else 'KV'}, L, D]" for name in "QKV"),
        f"  global O : {stored}[{of}, D]", *([f"  global E : f32[{of}]"] if second else []),
        f"  scalar scale : f32 = {head**-0.5}", f"  over h in H, {'t in P, ' if parts else ''}q in L by {rows}",
        f"  waves {waves}{rng.choice(['', ' along q'])}", *shared, *chosen,
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
    text = "\n".join(lines) + "\n"
    if chosen:
        features.add("named schedule" if len(chosen) == 1 else "written schedule of equations")
    if not dynamic and random.Random(f"packed {seed}").random() < 0.15:
        features.add("packed")
        text = _packed(seed, text)
    return Sample(seed, renamed(seed, text), target, extents, features=frozenset(features), family="loops")


def _schedule(seed: int, names: list[str], step: int, shared: list[str]) -> list[str]:
    """None for most; the name of a schedule; or its lines, not always good ones."""
    rng = random.Random(f"schedule of loops {seed}")
    if rng.random() < 0.7:
        return []
    if rng.random() < 0.3:
        return [f"  schedule {rng.choice(['interleave', 'ping_pong'])}"]
    early = rng.random() < 0.4 and "buffers 2" in "".join(shared)
    softmax = list(dict.fromkeys(name.strip() for name in names))
    part = rng.choice(["", "", " half {}", " part {}"])
    first = "multiply s[k+1]" if early else "multiply s"
    sums = [f"multiply o{part.format(n)}" for n in rng.sample(range(2), 2)] if part else ["multiply o"]
    computed = [name for name in softmax if name != "m"]
    if rng.random() < 0.15:
        rng.shuffle(computed)
    divided = rng.random() < 0.2
    computes = [f"p half {n}" if divided and name == "p" else name for name in computed
                for n in range(1 + (divided and name == "p"))]  # fmt: skip
    ahead, mixed = ("k+2" if early else "k+1"), rng.choice(["", f"  mix (multiply 1, compute {step // 8}) x 16"])
    return [
        f"  schedule{rng.choice(['', ' barriers auto'])}",
        f"    {rng.choice(['group', 'cluster'])} fetch K[{ahead}] V[k+1]  {first}  compute {' '.join(computes)}{mixed}",
        f"    cluster {rng.choice(['', 'priority 1  '])}{'  '.join(sums)}  write K[{ahead}] V[k+1]",
    ]


def _packed(seed: int, text: str) -> str:
    """The kernel for sequences that lie one after the other: queries, keys or both within offsets."""
    rng = random.Random(f"packed {seed}")
    sequences = rng.choice([1, 2, 3, 5])
    text = text.replace("  dims H", f"  dims SEQUENCES = {sequences}, ENDS = SEQUENCES + 1\n  dims H", 1)
    text = text.replace("  global Q", "  global FIRST : i32[ENDS]\n  global Q", 1)
    text = text.replace("q in L by", "e in SEQUENCES, q in L within FIRST[e] by", 1)
    within = rng.choice(["within FIRST[e]", "within FIRST[e]", "within FIRST[e]", "below COUNT[e]", ""])
    if "COUNT" in within:
        text = text.replace("  global Q", "  global COUNT : i32[SEQUENCES]\n  global Q", 1)
    return text.replace("each j in L by", f"each j in L {within} by".replace("  ", " "))
