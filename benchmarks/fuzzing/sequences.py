"""Random sequences of kernels: parts of sums that the second adds up, rows that it multiplies, or three kernels.

Now and then dimensions share a name, one tensor is read by several kernels and twice in one, numbers between kernels
are integers, one is made anew in place, and names are those of the generated C++.
"""

from __future__ import annotations

import random
import re

from fuzzing.formulas import BOTH, COL, DTYPES, ONE, ROW, Formulas
from fuzzing.rows import TARGETS
from fuzzing.specs import Sample

# Of functions, types and variables of generated files and their host code.
NAMES = (
    "launch", "stream", "grid_0", "args", "globals", "kernel_0", "first_globals", "scratch", "workspace", "main", "A_s",
    "C_acc", "tile_row", "THREADS", "block_0", "g", "sums", "out", "x0", "check_offsets", "module", "self", "torch",
)  # fmt: skip


def sequences(seed: int) -> Sample:
    """Two kernels, one of which sums products; of some seeds three, and of some with names and dimensions changed."""
    late = random.Random(f"late sequences {seed}")
    made = _three(seed, late) if late.random() < 0.3 else _two(seed)
    text, features = made.text, set(made.features)
    if late.random() < 0.25:
        text = _of_one_name(text, late, features)
    if late.random() < 0.25:
        features.add("names of the C++")
        taken = set(re.findall(r"\w+", text))
        olds = late.sample(sorted({"first", "second", "third", "S", "A", "Y", "w", "s"} & taken), 2)
        for old, new in zip(olds, late.sample([n for n in NAMES if n not in taken], 2), strict=True):
            text = re.sub(rf"\b{old}\b", new, text)
    return Sample(seed, text, made.target, made.extents, features=frozenset(features), family="sequences")


def _of_one_name(text: str, rng: random.Random, features: set[str]) -> str:
    """Two dimensions of a product as one, as the width of a model is."""
    one, other = rng.choice([("K", "N"), ("K", "N"), ("M", "N"), ("M", "K")])
    sizes = {name: int(size) for name, size in re.findall(r"\b([MNK]) = (\d+)", text)}
    if one not in sizes or other not in sizes:
        return text
    features.add("dimensions of one name")
    size = max(sizes[one], sizes[other])
    head, *kernels = text.split("\nkernel ")
    head = re.sub(rf", {other} = \d+|{other} = \d+, ", "", head, count=1)
    head = re.sub(rf"\b{one} = \d+", f"{one} = {size}", head)
    return "\nkernel ".join(re.sub(rf"\b{other}\b", one, part) for part in (head, *kernels))


def _three(seed: int, rng: random.Random) -> Sample:
    """Rows to 8-bit integers with a scale, their product, and what is left of it: a sum that two kernels read."""
    waves, tile = rng.choice([(1, 1), (2, 1), (2, 2)]), rng.choice([16, 32])
    block = (waves[0] * tile, waves[1] * tile * rng.choice([1, 2]), rng.choice([64, 128]))
    ragged = rng.random() < 0.4
    m, n, k = (max(1, side * rng.choice([1, 2]) - (rng.choice([0, 0, 16, 5]) if ragged else 0)) for side in block)
    k = k if ragged and rng.random() < 0.5 else -(-k // block[2]) * block[2]
    counts, twice, in_place = rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.4
    out = rng.choice(["f32", "bf16", "i32"])
    lines = [
        "sequence drawn", f"dims M = {m}, N = {n}, K = {k}", f"global X : {rng.choice(DTYPES)}[M, K]",
        "global A : i8[M, K]", "global B : i8[N, K]", "global a : f32[M]",
        *(["global COUNT : i32[M]"] * counts), f"global S : {'i32' if out == 'i32' else 'f32'}[M, N]",
        f"global Y : {rng.choice(DTYPES)}[M, N]", *(["global T : f32[M]"] * twice), "scalar s : f32 = 0.5", "",
        "kernel first", f"  over t in M by {rng.choice([1, 2, 4])}", f"  waves {rng.choice([1, 2, 4])}", "  x = X[t]",
        "  most = max(rowmax(abs(x)), 1e-6) / largest(i8)", "  A[t] = x * rcp(most)", "  a[t] = most",
        *(["  COUNT[t] = rowsum(where(abs(x) > 1, 1, 0))"] * counts), "",
        "kernel second", f"  over m in M by {block[0]}, n in N by {block[1]}", *(["  tail masked"] * ragged),
        f"  waves {waves[0]} x {waves[1]}", "  shared A, B",
        f"  each k in K by {block[2]}", "    c = c + A[m, k] @ B[n, k].T",
        f"  S[m, n] = {'c' if out == 'i32' else 'a[m] * c'}", "",
        "kernel third", f"  over t in M by {rng.choice([1, 2])}", f"  waves {rng.choice([1, 2])}",
        "  v = S[t] * s" + (" * a[t]" if out == "i32" else "") + (" + COUNT[t]" if counts else ""),
        f"  Y[t] = v{rng.choice(['', ' * v', ' + S[t]', ' / (abs(v) + 1)'])}",
        *(["  T[t] = rowsum(abs(v))"] * twice), *(["  a[t] = a[t] * 2"] * (in_place and out != "i32")),
    ]  # fmt: skip
    features = {"three kernels", "integers", *(["read twice"] if twice else [])}
    return Sample(seed, "\n".join(lines) + "\n", rng.choice(TARGETS), features=frozenset(features), family="sequences")


def _two(seed: int) -> Sample:
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
