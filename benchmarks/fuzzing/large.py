"""Random kernels at sizes around 2^15.5, 2^16 and 2^31: some blocks are run, or, where no memory holds it, none.

Where coordinates are multiplied, squares of the first no longer fit 31 bits, those of the second 32, and places in the
largest need 64. Products, kernels of rows, and attention in a window, whose blocks see few keys.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from fuzzing.formulas import DTYPES
from fuzzing.rows import TARGETS
from fuzzing.specs import Sample

SIZES = (46339, 46340, 46341, 46342, 65535, 65536, 65537, 65552, 92682, 131075)
HUGE = (2**31 - 1, 2**31 - 8, 2**31, 2**30 + 1, 1_500_000_000, 1 << 27)


def large(seed: int) -> Sample:
    """A kernel with one dimension, or two, of such a size."""
    rng = random.Random(f"large {seed}")
    huge = rng.random() < 0.2
    size = rng.choice(HUGE if huge else SIZES)
    draw: Callable[[random.Random, int], tuple[list[str], set[str]]]
    draw = rng.choices([_products, _rows, _flat, _window], [4, 4, 2, 2])[0]
    lines, features = draw(rng, size)
    text = "\n".join(["kernel drawn", *(f"  {line}" for line in lines)]) + "\n"
    features |= {"2^31 and more" if huge else "2^16" if size > 50_000 else "2^15.5"}
    if not huge and rng.random() < 0.1 and ("M = " in text or "R = " in text):  # a tensor of 2^31 elements
        text = text.replace(f"{size}", "46341")
        text = text.replace("N = 64", "N = 46341").replace("D = 32", "D = 46341")
        huge = "46341, N = 46341" in text or "46341, D = 46341" in text
        features |= {"tensor of 2^31"} if huge else set()
    only = "build" if huge else "blocks"
    return Sample(seed, text, rng.choice(TARGETS), features=frozenset(features), family="large", only=only)


def _products(rng: random.Random, size: int) -> tuple[list[str], set[str]]:
    """M, N or K is large; what is made of the sums may compare coordinates."""
    waves, tile = rng.choice([(1, 1), (2, 1), (2, 2)]), rng.choice([16, 32])
    block = (waves[0] * tile, waves[1] * tile * rng.choice([1, 2]))
    step = rng.choice([32, 64])
    which = rng.choice("MMNNK")
    sizes = {"M": block[0], "N": 64, "K": 2 * step} | {which: size}
    a, b = rng.choice(["M, K", "K, M"]), rng.choice(["N, K", "K, N"])
    left = "A[m, k]" if a == "M, K" else "A[k, m].T"
    right = "B[n, k].T" if b == "N, K" else "B[k, n]"
    out = rng.choice(["f32", "bf16"])
    if which == "K" and rng.random() < 0.3:
        grid = rng.choice(["split_k(3)", "stream_k(3)"])
        extra, formula, out = [f"grid {grid}"], "c", "f32"
    else:
        extra = ["grid persistent(7)"] if rng.random() < 0.2 else []
        places = ["where(m * 3 >= n, c, 0)", "where(m * n > 2000000000, c, -c)", "where(m * m + n >= n * n, c, 1)",
                  "where(m + n < 65536, c, 0)"]  # fmt: skip
        formula = rng.choice(places if rng.random() < 0.25 else ["c", "c * 0.5", "relu(c)", "c - 1"])
    slow = ["allow slow_reads"] if "K, " in (a + " ")[:3] or b == "K, N" else []
    dtype = rng.choice(["bf16", "f16"])
    lines = [
        f"dims M = {sizes['M']}, N = {sizes['N']}, K = {sizes['K']}", f"global A : {dtype}[{a}]",
        f"global B : {dtype}[{b}]", f"global C : {out}[M, N]", f"over m in M by {block[0]}, n in N by {block[1]}",
        *extra, "tail masked", f"waves {waves[0]} x {waves[1]}", f"shared A, B buffers {rng.choice([1, 2])}", *slow,
        f"each k in K by {step}", f"  c = c + {left} @ {right}", f"C[m, n] = {formula}",
    ]  # fmt: skip
    return lines, {"products", f"large {which}", *(["coordinates"] if "where" in formula else [])}


def _condition(rng: random.Random, t: str, c: str, size: int) -> str:
    """A comparison of what is made of coordinates, which is true of some elements."""
    return rng.choice([
        f"{t} * {t} >= {c} * {size}", f"{t} * {size} + {c} > {size * size // 2}", f"{t} * 46341 < 2147483648 + {c}",
        f"{t} * {t} + {c} * {c} > {size}", f"({t} + {c}) * ({t} - {c}) > 100", f"{t} + {size} > 16777217 - {c}",
        f"{t} * 65537 >= {c}", f"{t} - {c} * 70000 > 0 - 5", f"{t} > {size - 3} or {c} == 0",
        f"{t} * {t} >= {c} and {t} < inf", f"{t} >= {size // 2}",
    ])  # fmt: skip


def _rows(rng: random.Random, size: int) -> tuple[list[str], set[str]]:
    """Very many rows."""
    tile, dtype = rng.choice([1, 4, 16, 64]), rng.choice(DTYPES)
    wide = rng.choice([1, 3, 32, 32, 64])
    condition = _condition(rng, "t", "coordinate(D)", size)
    body = rng.choice([
        [f"Y[t] = where({condition}, X[t], -X[t] - 1)"],
        [f"x = where({condition}, X[t], -inf)", "Y[t] = where(x > -inf, exp2(clamp(x, -4, 4)), 2)"],
        [f"x = where({condition}, X[t], 0)", "Y[t] = x - rowmax(x)"],
        ["x = X[t]", "Y[t] = x * rcp(rowsum(abs(x)) + 1)"],
    ])  # fmt: skip
    lines = [
        f"dims R = {size}, D = {wide}", f"global X : {dtype}[R, D]", f"global Y : {rng.choice(DTYPES)}[R, D]",
        f"over t in R by {tile}", f"waves {rng.choice([1, 2, 4])}", *body,
    ]  # fmt: skip
    return lines, {"rows", *(["coordinates"] if "where" in body[0] else [])}


def _flat(rng: random.Random, size: int) -> tuple[list[str], set[str]]:
    """Tiles of two axes, elements told by their number; or a long row that a loop walks over."""
    condition = _condition(rng, "r", "c", size)
    if rng.random() < 0.5:
        lines = [
            f"dims R = {size}, D = {rng.choice([8, 32, 100])}", "global X : f32[R, D]", "global Y : f32[R, D]",
            f"over r in R by {rng.choice([1, 8, 64])}, c in D by {rng.choice([8, 32])}", "waves 2",
            f"Y[r, c] = where({condition}, X[r, c], 1)",
        ]  # fmt: skip
        return lines, {"tiles", "coordinates"}
    lines = [
        f"dims R = 2, D = {size}", f"global X : {rng.choice(DTYPES)}[R, D]", "global S : f32[R]",
        f"over r in R by {rng.choice([1, 2])}", f"waves {rng.choice([1, 2])}", "carry a : f32[r] = 0",
        f"each c in D by {rng.choice([1024, 2048])}", f"  a = a + rowsum(where({condition}, X[r, c], 0) * 0.01)",
        "S[r] = a",
    ]  # fmt: skip
    return lines, {"long rows", "coordinates"}


def _window(rng: random.Random, size: int) -> tuple[list[str], set[str]]:
    """Attention in a window of few keys."""
    waves, step, window = rng.choice([1, 2, 4]), rng.choice([32, 64]), rng.choice([1, 17, 64])
    moved = rng.choice([0, 0, 1])
    lines = [
        f"dims L = {size}, D = 64", *(f"global {name} : bf16[L, D]" for name in "QKV"),
        f"global O : {rng.choice(['bf16', 'f32'])}[L, D]", f"over q in L by {16 * waves}", f"waves {waves} along q",
        "shared K, V", "carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0",
        f"each j in L by {step} from q - {window} to q + {moved}", "  s = 0.18033688 * (Q[q] @ K[j].T)",
        f"  s = where(q + {moved} >= j and q - j < {window}, s, -inf)", "  n = max(m, rowmax(s))",
        "  z = where(n > -inf, n, 0)", "  p = exp2(s - z)", "  r = exp2(m - z)", "  o = o * r + bf16(p) @ V[j]",
        "  l = l * r + rowsum(p)", "  m = n", "O[q] = where(l > 0, o / l, 0)",
    ]  # fmt: skip
    return lines, {"attention in a window"}
