"""Random sequences of two kernels: parts of sums that the second adds up, and rows that the second multiplies."""

from __future__ import annotations

import random

from fuzzing.formulas import BOTH, COL, DTYPES, ONE, ROW, Formulas
from fuzzing.rows import TARGETS
from fuzzing.specs import Sample


def sequences(seed: int) -> Sample:
    """Two kernels, one of which sums products."""
    rng = random.Random(f"sequences {seed}")
    waves = rng.choice([(1, 1), (2, 1), (2, 2), (4, 1), (2, 4)])
    tile = rng.choice([16, 32])
    block = (waves[0] * tile * rng.choice([1, 2]), waves[1] * tile * rng.choice([1, 2]), rng.choice([16, 32, 64]))
    ragged = rng.random() < 0.4
    sizes = [max(1, side * rng.choice([1, 2, 3]) - (rng.choice([0, 1, 5, 13]) if ragged else 0)) for side in block]
    made = _parts_of_sums if rng.random() < 0.6 else _normalised
    head, first, second, features = made(rng, sizes, block)
    product = [
        *(["tail masked"] if ragged else []), f"waves {waves[0]} x {waves[1]}",
        f"shared A, B{rng.choice(['', ' buffers 2', ' buffers 2 via registers', ' via registers'])}",
        *([f"registers A, B slice {rng.choice([16, 32])}"] if block[2] > 16 and rng.random() < 0.5 else []),
        *(["schedule simple"] if rng.random() < 0.2 else []),
    ]  # fmt: skip
    lines = ["sequence drawn", f"dims M = {sizes[0]}, N = {sizes[1]}, K = {sizes[2]}", *head, "scalar s : f32 = 0.5"]
    for name, body in (("first", first), ("second", second)):
        at = next((n for n, line in enumerate(body) if line == "PRODUCT"), None)
        if at is not None:
            body = [*body[:at], *product, *body[at + 1 :]]
        lines += ["", f"kernel {name}", *(f"  {line}" for line in body)]
    text = "\n".join(lines) + "\n"
    return Sample(seed, text, rng.choice(TARGETS), features=frozenset(features), family="sequences")


_Made = tuple[list[str], list[str], list[str], set[str]]


def _parts_of_sums(rng: random.Random, sizes: list[int], block: tuple[int, int, int]) -> _Made:
    """K in parts, or whole; the second kernel adds the parts and does what is left."""
    parts = rng.choice([1, 2, 3, 4])
    sizes[2] *= parts
    head = [
        f"dims P = {parts}", f"global A : {(dtype := rng.choice(DTYPES[:2]))}[M, K]", f"global B : {dtype}[N, K]",
        "global S : f32[P, M, N]", f"global w : {rng.choice(DTYPES)}[N]", f"global Y : {rng.choice(DTYPES)}[M, N]",
    ]  # fmt: skip
    first = [
        f"over p in P, m in M by {block[0]}, n in N by {block[1]}", "PRODUCT",
        f"each k in K by {block[2]} part p", "  c = c + A[m, k] @ B[n, k].T", "S[p, m, n] = c",
    ]  # fmt: skip
    formulas = Formulas(rng, {BOTH: ["a"], ROW: [], COL: ["w[n]"], ONE: ["s", "0.5"]}, {})
    formulas.draw(rng.randint(0, 2))
    second = [
        f"over m in M by {rng.choice([1, 4, 8])}, n in N by {rng.choice([32, 64, 256])}",
        f"waves {rng.choice([1, 2, 4])}", "a = colsum(S[P, m, n])", *formulas.lines,
        f"Y[m, n] = {formulas.formula_of_both()}",
    ]  # fmt: skip
    return head, first, second, {"parts of sums", f"parts {parts}"}


def _normalised(rng: random.Random, sizes: list[int], block: tuple[int, int, int]) -> _Made:
    """Rows of the left factor are made first; the second kernel multiplies them."""
    dtype = rng.choice(DTYPES[:2])
    head = [
        f"global X : {rng.choice(DTYPES)}[M, K]", f"global A : {dtype}[M, K]", f"global B : {dtype}[N, K]",
        f"global Y : {rng.choice(DTYPES)}[M, N]",
    ]  # fmt: skip
    formulas = Formulas(rng, {BOTH: ["X[t]"], ROW: [], COL: [], ONE: ["s", "0.5"]}, {ROW: ("rowmax", "rowsum")})
    formulas.draw(rng.randint(1, 2))
    first = [
        f"over t in M by {rng.choice([1, 2, 4])}", f"waves {rng.choice([1, 2, 4])}", *formulas.lines,
        f"A[t] = clamp({formulas.formula_of_both()}, -4, 4)",
    ]  # fmt: skip
    second = [
        f"over m in M by {block[0]}, n in N by {block[1]}", "PRODUCT",
        f"each k in K by {block[2]}", "  c = c + A[m, k] @ B[n, k].T", f"Y[m, n] = {rng.choice(['c', 'relu(c) * s'])}",
    ]  # fmt: skip
    return head, first, second, {"rows, then products"}
