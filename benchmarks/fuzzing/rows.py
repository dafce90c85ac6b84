"""Random kernels without products: element-wise formulas and reductions of rows, loops over long rows, halves of rows,
transposing copies."""

from __future__ import annotations

import random

from fuzzing.formulas import BOTH, COL, DTYPES, ONE, ROW, Formulas
from fuzzing.shared_rows import shared
from fuzzing.specs import Sample

LENGTHS = (1, 2, 3, 5, 8, 17, 32, 63, 64, 100, 128, 256, 513, 1000, 1024, 2048, 4096, 5000, 8192, 16384)
TARGETS = ("gfx942", "gfx942", "gfx950", "gfx90a")
MOST = 40000  # elements of a tensor: the emulator takes about a second for so many


def rows(seed: int) -> Sample:
    """A kernel without products, of rows of 1 to 16384 elements, or of longer ones in loops."""
    rng = random.Random(f"rows {seed}")
    draw = rng.choices([_whole_rows, _looped, _crossing, _halves, _shared], [7, 3, 2, 1, 7])[0]
    return draw(seed, rng)


def _shared(seed: int, rng: random.Random) -> Sample:
    """Reductions of what no row axis is in, gathers, integers, masks and awkward names: see `shared_rows`."""
    text, features = shared(rng)
    return Sample(seed, text, rng.choice(TARGETS), {}, features=frozenset(features), family="rows")


def _whole_rows(seed: int, rng: random.Random) -> Sample:
    """Rows that a block has whole, of a batch or of one matrix, whose number only run time may know."""
    length = rng.choice(LENGTHS)
    most = max(1, MOST // length)
    count = min(rng.choice([1, 2, 3, 4, 7, 8, 13, 16, 33, 64]), most)
    tile = rng.choice([1, 2, 4, 4, 8, 16])
    batch, dynamic = rng.random() < 0.2, rng.random() < 0.3
    before, at = ("B, ", "b, ") if batch else ("", "")
    dtypes = [rng.choice(DTYPES) for _ in range(6)]
    tensors = [f"X : {dtypes[0]}[{before}R, D]"]
    row = f"X[{at}t]" if rng.random() < 0.8 else f"X[{at}t, D]"
    leaves: dict[str, list[str]] = {BOTH: [row], ROW: [], COL: [], ONE: ["0.75", "s", "3"]}
    for name, shape, kind, index in (
        ("Z", f"[{before}R, D]", BOTH, f"Z[{at}t]"), ("w", "[D]", COL, "w"), ("v", "[R]", ROW, "v[t]"),
        ("T", "[R, P]", ROW, "T[t, 1]"), ("u", "[P, D]", COL, "u[2]"),
    ):  # fmt: skip
        if rng.random() < (0.5 if name in "Zwv" else 0.15):
            tensors.append(f"{name} : {rng.choice(DTYPES)}{shape}")
            leaves[kind].append(index)
    if batch and rng.random() < 0.4:
        tensors.append(f"G : {rng.choice(DTYPES)}[H, D]")
        leaves[COL].append("G[b / 2]")
    if rng.random() < 0.2:
        leaves[BOTH].append("where(t >= coordinate(D), 1, 2)")
    made = Formulas(rng, leaves, {ROW: ("rowmax", "rowmin", "rowsum", "rowmean")})
    made.draw(rng.randint(1, 4))
    stores = []
    if leaves[ROW] and rng.random() < 0.4:
        tensors.append(f"S : {dtypes[2]}[{before}R]")
        stores.append(f"S[{at}t] = {leaves[ROW][-1]} + {made.formula(ROW, 1)}")
    if rng.random() < 0.25:
        stores.append(f"X[{at}t] = {made.formula_of_both()}")
        made.features.add("stored in place")
    tensors.append(f"Y : {dtypes[1]}[{before}R, D]")
    stores.insert(0 if rng.random() < 0.8 else len(stores), f"Y[{at}t] = {made.formula_of_both()}")
    over = f"b in B, t in R by {tile}" if batch else f"t in R by {tile}"
    dims = [*(["B = 2"] if batch else []), f"R = {'dynamic' if dynamic else count}", f"D = {length}"]
    dims += [f"{name} = {size}" for name, size in (("P", 3), ("H", 1)) if any(f"[{name}, " in t or f", {name}]" in t
                                                                            for t in tensors)]  # fmt: skip
    made.features |= {"batch"} if batch else set()
    made.features |= {f"outputs {len(stores)}", *(["dynamic R"] if dynamic else [])}
    sizes = sorted({min(n, most) for n in (1, tile, tile + 1, count, 3 * tile - 1)})
    along = rng.choice(["", "", " along t"])
    return _sample(seed, rng, dims, tensors, over, along, made, stores, {"R": tuple(sizes)} if dynamic else {})


def _looped(seed: int, rng: random.Random) -> Sample:
    """Rows that loops walk over, tile by tile: one that carries sums and maxima, maybe one that stores."""
    length = rng.choice((*LENGTHS, 20000, 32100))
    tile = rng.choice([64, 100, 256, 512, 2048])
    count, by = rng.choice([1, 2, 3, 5]), rng.choice([1, 1, 2, 4])
    dynamic, causal = rng.random() < 0.25, rng.random() < 0.15
    tensors = [f"X : {rng.choice(DTYPES)}[R, D]", f"w : {rng.choice(DTYPES)}[D]", f"v : {rng.choice(DTYPES)}[R]"]
    over = f"t in R by {by}"
    to = " to t" if causal and not dynamic else ""

    def leaves(j: str, rows: list[str]) -> dict[str, list[str]]:
        wide = [f"X[t, {j}]", f"where(t >= {j}, 1, 2)"][: 1 + (rng.random() < 0.2)]
        return {BOTH: wide, ROW: ["v[t]", *rows], COL: [f"w[{j}]"], ONE: ["0.75", "s", "t"]}

    made = Formulas(rng, leaves("j", []), {})
    made.draw(rng.randint(0, 2))
    names = ["a", "m"][: rng.choice([1, 2, 2])]
    faded = rng.random() < 0.3
    total = "a = a * 0.5 + rowsum(({}) * 0.01)" if faded else "a = a + rowsum({})"
    updates = [total.format(made.formula_of_both()), f"m = max(m, rowmax({made.formula_of_both()}))"]
    if len(names) == 2 and rng.random() < 0.3:  # what a sum is of depends on what was carried so far
        updates = ["n = max(m, rowmax(X[t, j]))", "a = a * exp2(m - n) + rowsum(exp2(X[t, j] - n))", "m = n"]
    else:
        updates = updates[: len(names)]
        rng.shuffle(updates)
    carries = ["a : f32[t] = 0", "m : f32[t] = -inf" if rng.random() < 0.7 else "m : f32[t] = v[t]"]
    made.lines = [
        f"carry {', '.join(carries[: len(names)])}", f"each j in D by {tile}{to}", *(f"  {x}" for x in made.lines),
        *(f"  {x}" for x in updates),
    ]  # fmt: skip
    last = Formulas(rng, leaves("i", ["clamp(" + name + ", -4, 4)" for name in names]), {}, features=made.features)
    stores = []
    if rng.random() < 0.6:
        tensors.append(f"Y : {rng.choice(DTYPES)}[R, D]")
        stores += [f"each i in D by {tile}{to}", f"  Y[t, i] = {last.formula_of_both()}"]
        made.features.add("two loops")
    if not stores or rng.random() < 0.5:
        tensors.append("S : f32[R]")
        stores.append(f"S[t] = {' + '.join(names)}")
    made.features |= {"loops of rows", *(["loop to t"] if to else []), *(["dynamic D"] if dynamic else [])}
    dims = [f"R = {count}", f"D = {'dynamic' if dynamic else length}"]
    sizes = tuple(sorted({1, tile, tile + 1, length}))
    along = rng.choice(["", "", " along t"])
    return _sample(seed, rng, dims, tensors, over, along, made, stores, {"D": sizes} if dynamic else {})


def _crossing(seed: int, rng: random.Random) -> Sample:
    """Tiles of two axes, of tensors that have the one innermost and tensors that have the other."""
    tiles = [rng.choice([8, 16, 32, 64]), rng.choice([8, 16, 32, 64])]
    dynamic = rng.random() < 0.3
    sizes = [max(1, tile * rng.choice([1, 2, 3]) - rng.choice([0, 0, 1, 5, 8])) for tile in tiles]
    tensors = [f"X : {rng.choice(DTYPES)}[R, D]"]
    leaves: dict[str, list[str]] = {BOTH: ["X[t, c]"], ROW: [], COL: [], ONE: ["0.5", "s", "t"]}
    for name, shape, kind, index in (
        ("Z", "[D, R]", BOTH, "Z[c, t]"), ("w", "[D]", COL, "w[c]"), ("v", "[R]", ROW, "v[t]"),
    ):  # fmt: skip
        if rng.random() < 0.4:
            tensors.append(f"{name} : {rng.choice(DTYPES)}{shape}")
            leaves[kind].append(index)
    if rng.random() < 0.3:
        leaves[BOTH].append("where(t >= c, 1, 2)")
    made = Formulas(rng, leaves, {})
    made.draw(rng.randint(0, 2))
    made.features.add("transposed")
    tensors.append(f"Y : {rng.choice(DTYPES)}[D, R]")
    stores = [f"Y[c, t] = {made.formula_of_both() if rng.random() < 0.7 else 'X[t, c]'}"]
    dims = [f"R = {'dynamic' if dynamic else sizes[0]}", f"D = {sizes[1]}"]
    made.features |= {"dynamic R"} if dynamic else set()
    extents = {"R": (1, tiles[0], tiles[0] + 1, sizes[0])} if dynamic else {}
    over = f"t in R by {tiles[0]}, c in D by {tiles[1]}"
    return _sample(seed, rng, dims, tensors, over, rng.choice(["", " along t"]), made, stores, extents)


def _halves(seed: int, rng: random.Random) -> Sample:
    """Rows that lie in two halves, which constant indices name, as rotary embeddings have them."""
    length, count, heads = rng.choice([4, 32, 60, 64, 128]), rng.choice([1, 3, 8, 17]), rng.choice([1, 4, 6])
    tensors = [f"X : {rng.choice(DTYPES)}[R, H, P, D]", f"w : {rng.choice(DTYPES)}[R, D]"]
    names = ("X[t, h, 0]", "X[t, h, 1]")
    leaves: dict[str, list[str]] = {BOTH: [*names], ROW: [], COL: ["w[t]"], ONE: ["0.5", "s"]}
    made = Formulas(rng, leaves, {})
    made.draw(rng.randint(0, 2))
    tensors.append(f"Y : {rng.choice(DTYPES)}[R, H, P, D]")
    stores = [f"Y[t, h, {half}] = {names[half]} * w[t] + {made.formula(BOTH)}" for half in (0, 1)]
    made.features.add("halves")
    dims = [f"R = {count}", f"H = {heads}", "P = 2", f"D = {length}"]
    over = f"t in R by {rng.choice([1, 2, 4])}, h in H by {rng.choice([1, 2, 4])}"
    return _sample(seed, rng, dims, tensors, over, rng.choice(["", " along t"]), made, stores, {})


def _sample(
    seed: int, rng: random.Random, dims: list[str], tensors: list[str], over: str, along: str, made: Formulas,
    stores: list[str], extents: dict[str, tuple[int, ...]],
) -> Sample:  # fmt: skip
    lines = ["kernel drawn", f"  dims {', '.join(dims)}", *(f"  global {t}" for t in tensors), "  scalar s : f32 = 0.5"]
    if rng.random() < 0.1:
        lines += [f"  param WAVES = 4, MORE = {'8' if rng.random() < 0.8 else 'min(8)'}", "  tune WAVES in 2, 4"]
        waves = "WAVES"
    else:
        waves = rng.choice(["1", "2", "4", "4", "8"])
    lines += [f"  over {over}", f"  waves {waves}{along}"]
    lines += ["  occupancy 1 wave per simd"] * (rng.random() < 0.05)
    lines += [f"  {line}" for line in (*made.lines, *stores)]
    if rng.random() < 0.1:
        lines.append(f"  reference {rng.choice(['softmax(X, -1)', 'torch_function(X)', 'layer_norm(X, D, s)'])}")
    features = made.features | {f"rows{along}"}
    text = "\n".join(lines) + "\n"
    return Sample(seed, text, rng.choice(TARGETS), extents, features=frozenset(features), family="rows")
