"""Random kernels of equations: rows (element-wise formulas and reductions) and sums of products with their epilogues.

A spec is a function of its seed alone. Formulas are drawn with the axes that they have: a value of rows and columns, of
rows, of columns, or one number. What divides or takes a root is kept away from zero, so that results can be judged.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from fuzzing.specs import Sample

DTYPES = ("bf16", "f16", "f32")
WRAPPED = (
    "abs({})", "-{}", "relu({})", "silu({})", "tanh({})", "gelu({})", "exp2(clamp({}, -3, 3))", "sqrt(abs({}))",
    "rsqrt(abs({}) + 0.5)", "rcp(abs({}) + 1)", "bf16({})", "f16({})", "sigmoid({})", "clamp({}, -1, 1.5)",
    "log(abs({}) + 1)", "sin({})",
)  # fmt: skip
JOINED = (
    "{} + {}", "{} - {}", "{} * {}", "max({}, {})", "min({}, {})", "{} / (abs({}) + 1)", "where({} > 0, {}, 0.5)",
)  # fmt: skip
BOTH, ROW, COL, ONE = "both", "row", "col", "one"
WIDER = {BOTH: (BOTH, ROW, COL, ONE), ROW: (ROW, ONE), COL: (COL, ONE), ONE: (ONE,)}


@dataclass
class Formulas:
    """Draws formulas; `leaves` are what is known by its axes, `reductions` what leads from both axes to fewer."""

    rng: random.Random
    leaves: dict[str, list[str]]
    reductions: dict[str, Sequence[str]]
    lines: list[str] = field(default_factory=list)
    features: set[str] = field(default_factory=set)

    def formula(self, axes: str, depth: int = 2) -> str:
        """One with these axes, or fewer."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            known = [leaf for kind in WIDER[axes] for leaf in self.leaves[kind]]
            own = self.leaves[axes]
            return rng.choice(own if own and rng.random() < 0.7 else known or ["0.75"])
        if rng.random() < 0.5:
            return rng.choice(WRAPPED).format(f"({self.formula(axes, depth - 1)})")
        return f"({rng.choice(JOINED).format(self.formula(axes, depth - 1), self.formula(axes, depth - 1))})"

    def define(self, axes: str, formula: str) -> str:
        """A name for a formula."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {formula}")
        self.leaves[axes].append(name)
        return name

    def draw(self, count: int) -> None:
        """So many definitions, some of them reductions of the tile."""
        for _ in range(count):
            choices = [axes for axes, words in self.reductions.items() if words]
            if choices and self.rng.random() < 0.5:
                axes = self.rng.choice(choices)
                word = self.rng.choice(self.reductions[axes])
                self.features.add(f"{word[:3]} reduction")
                self.define(axes, f"{word}({self.leaves[BOTH][0]} + 0 * ({self.formula(BOTH)}))"
                            if self.rng.random() < 0.2 else f"{word}({self.formula_of_both()})")  # fmt: skip
            else:
                self.define(BOTH, self.formula_of_both())

    def formula_of_both(self) -> str:
        """One that has both axes for certain."""
        return f"{self.rng.choice(self.leaves[BOTH])} * 0.5 + {self.formula(BOTH)}"


def rows(seed: int) -> Sample:
    """A kernel without products, of rows of 1 to 16384 elements."""
    rng = random.Random(seed)
    length = rng.choice([1, 2, 3, 5, 8, 17, 32, 63, 64, 100, 128, 256, 513, 1000, 1024, 2048, 4096, 5000, 8192, 16384])
    most = max(1, 40000 // length)
    count = min(rng.choice([1, 2, 3, 4, 7, 8, 13, 16, 33, 64]), most)
    tile = rng.choice([1, 2, 4, 4, 8, 16])
    waves = rng.choice([1, 2, 4, 4, 8])
    along = rng.choice(["", "", " along t"])
    batch = rng.random() < 0.2
    before, at = ("B, ", "b, ") if batch else ("", "")
    dtypes = [rng.choice(DTYPES) for _ in range(6)]
    tensors = [f"X : {dtypes[0]}[{before}R, D]"]
    leaves: dict[str, list[str]] = {BOTH: [f"X[{at}t]"], ROW: [], COL: [], ONE: ["0.75", "s"]}
    for name, shape, kind, index in (
        ("Z", f"[{before}R, D]", BOTH, f"Z[{at}t]"), ("w", "[D]", COL, "w"), ("v", "[R]", ROW, "v[t]"),
    ):  # fmt: skip
        if rng.random() < 0.5:
            tensors.append(f"{name} : {rng.choice(DTYPES)}{shape}")
            leaves[kind].append(index)
    if rng.random() < 0.2:
        leaves[BOTH].append("where(t >= coordinate(D), 1, 2)")
    made = Formulas(rng, leaves, {ROW: ("rowmax", "rowmin", "rowsum", "rowmean")})
    made.draw(rng.randint(1, 4))
    stores = []
    if leaves[ROW] and rng.random() < 0.4:
        tensors.append(f"S : {dtypes[2]}[{before}R]")
        stores.append(f"S[{at}t] = {made.formula(ROW, 1) if rng.random() < 0.5 else leaves[ROW][-1]}")
        if "t]" not in stores[-1].split("=")[1] and not any(n in stores[-1].split("=")[1] for n in leaves[ROW]):
            stores[-1] = f"S[{at}t] = {leaves[ROW][-1]}"
    if rng.random() < 0.25:
        stores.append(f"X[{at}t] = {made.formula_of_both()}")
        made.features.add("stored in place")
    tensors.append(f"Y : {dtypes[1]}[{before}R, D]")
    stores.append(f"Y[{at}t] = {made.formula_of_both()}")
    over = f"b in B, t in R by {tile}" if batch else f"t in R by {tile}"
    lines = [
        "kernel drawn", f"  dims {'B = 2, ' if batch else ''}R = {count}, D = {length}",
        *(f"  global {t}" for t in tensors), "  scalar s : f32 = 0.5", f"  over {over}", f"  waves {waves}{along}",
        *(f"  {line}" for line in (*made.lines, *stores)),
    ]  # fmt: skip
    target = rng.choice(["gfx942", "gfx942", "gfx950", "gfx90a"])
    features = made.features | {f"outputs {len(stores)}", "batch" if batch else "one matrix", f"rows{along}"}
    return Sample(seed, "\n".join(lines) + "\n", target, features=frozenset(features), family="rows")


def sums(seed: int) -> Sample:
    """A kernel of one to three sums of products, with what becomes of them."""
    rng = random.Random(seed)
    shape = rng.choice([(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (2, 4), (4, 2)])
    tile = rng.choice([(16, 16), (32, 32), (32, 32), (16, 32), (64, 32)])
    block = tuple(w * t * rng.choice([1, 1, 2]) for w, t in zip(shape, tile, strict=True))
    ragged = rng.random() < 0.4
    whole = rng.random() < 0.4  # a block has whole rows
    step, number = rng.choice([16, 32, 64]), rng.choice([1, 1, 2, 3])
    sizes = [
        block[0] * rng.choice([1, 2]),
        block[1] * (1 if whole else rng.choice([1, 2])),
        step * rng.choice([1, 2, 3]),
    ]
    if ragged:
        sizes = [max(1, size - rng.choice([0, 1, 3, 13])) for size in sizes]
    batch = rng.random() < 0.25
    first = rng.random() < 0.25  # the left factor is stored with K first
    dtype = rng.choice(["bf16", "bf16", "f16"])
    before, at = ("H, ", "h, ") if batch else ("", "")
    tensors = [f"A : {dtype}[{before}{'K, M' if first else 'M, K'}]"]
    left = f"A[{at}k, m].T" if first else f"A[{at}m, k]"
    names = ["g", "u", "z"][:number]
    loop = []
    for name in names:
        turned = rng.random() < 0.25
        strided = batch and not turned and rng.random() < 0.5
        held = "K, N" if turned else f"N, {'H, ' if strided else ''}K"
        tensors.append(f"B{name} : {dtype}[{'' if strided else before}{held}]")
        index = "k, n" if turned else f"n, {'h, ' if strided else ''}k"
        factor = f"B{name}[{'' if strided else at}{index}]" + ("" if turned else ".T")
        loop.append(f"    {name} = {name} + {left} @ {factor}")
    leaves: dict[str, list[str]] = {BOTH: list(names), ROW: [], COL: [], ONE: ["0.75", "s"]}
    for name, dims, kind, index in (
        ("D", f"[{before}M, N]", BOTH, f"D[{at}m, n]"), ("w", "[N]", COL, "w[n]"), ("v", "[M]", ROW, "v[m]"),
    ):  # fmt: skip
        if rng.random() < 0.35:
            tensors.append(f"{name} : {rng.choice(DTYPES)}{dims}")
            leaves[kind].append(index)
    if rng.random() < 0.2:
        leaves[BOTH].append("where(m >= n, 1, 2)")
    reduced = rng.random() < 0.6
    words = ("rowmax", "rowmin", "rowsum") if reduced else ()
    tall = sizes[0] <= block[0]
    columns = ("colmax", "colmin", "colsum") if reduced and (tall or rng.random() < 0.3) else ()
    made = Formulas(rng, leaves, {ROW: words, COL: columns})
    made.draw(rng.randint(1, 3))
    stores = []
    dims = [f"COLS = ceil_div(N, {block[1]})", f"ROWS = ceil_div(M, {block[0]})"]
    rows_of, cols_of = ([line.split(" = ")[0] for line in made.lines if f"= {way}" in line] for way in ("row", "col"))
    if rows_of:
        tensors.append(f"R : {rng.choice(DTYPES)}[{before}M, COLS]")
        stores.append(f"R[{at}m, n / {block[1]}] = {' + '.join(rows_of)}")
    if cols_of:
        tensors.append(f"C : {rng.choice(DTYPES)}[{before}ROWS, N]")
        stores.append(f"C[{at}m / {block[0]}, n] = {' + '.join(cols_of)}")
    tensors.append(f"Y : {rng.choice(DTYPES)}[{before}M, N]")
    stores.append(f"Y[{at}m, n] = {made.formula_of_both()} + 0 * ({' + '.join(names)})")
    if any(leaf.startswith("D[") for leaf in leaves[BOTH]) and rng.random() < 0.3:
        stores.insert(rng.randint(0, len(stores)), f"D[{at}m, n] = {made.formula_of_both()}")
        made.features.add("stored in place")
    grid = "" if batch else rng.choice(["", "", "  grid persistent(2)\n", "  remap group(rows = 2)\n"])
    shared = rng.choice(["", " buffers 2", " buffers 2 via registers", " via registers"])
    factors = ", ".join(["A", *(f"B{name}" for name in names)])
    text = "\n".join([
        "kernel drawn", f"  dims {'H = 3, ' if batch else ''}M = {sizes[0]}, N = {sizes[1]}, K = {sizes[2]}",
        f"  dims {', '.join(dims)}", *(f"  global {t}" for t in tensors), "  scalar s : f32 = 0.5",
        f"  over {'h in H, ' if batch else ''}m in M by {block[0]}, n in N by {block[1]}",
        *([grid.rstrip()] if grid else []), *(["  tail masked"] if ragged else []), f"  waves {shape[0]} x {shape[1]}",
        f"  shared {factors}{shared}",
        f"  accumulate {', '.join(names)} : f32 tile {tile[0]} x {tile[1]}{rng.choice(['', ' interleaved'])}",
        f"  each k in K by {step}", *loop, *(f"  {line}" for line in (*made.lines, *stores)),
    ])  # fmt: skip
    features = made.features | {f"sums {number}", f"outputs {len(stores)}", "ragged" if ragged else "even"}
    features |= {"batch"} if batch else set()
    target = rng.choice(["gfx942", "gfx942", "gfx950", "gfx90a"])
    return Sample(seed, text + "\n", target, features=frozenset(features), family="sums")
