"""Random rows of what the language allows beside formulas of rows and columns: see `shared`.

Reductions of what no row axis is in - weights, constants, coordinates -, in loops and outside, carried or not; several
gathers by one tensor of places; columns and halves of tensors; dimensions of equal names and sizes; integers; masks
with infinities; more waves than rows; values used twice; names that generated code has for its own.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

LENGTHS = (1, 3, 8, 17, 64, 100, 128, 256, 513, 1000, 2048, 4096)
MOST = 30000  # elements of a tensor
# Names that the C++ of rows has for something, alone or with the endings that it gives to names of a spec.
NAMES = (
    "n", "r", "v8", "v1", "v12", "lane", "d", "row", "c", "e", "i", "g", "at", "inside", "tile", "elements", "pass_",
    "exchange", "with_", "widen", "narrow", "divisor", "fold", "across", "forget", "buffer", "next_half", "lane_at",
    "X_e", "X_r", "X_at", "X_row", "X_w", "W_r", "POS__held", "POS_held", "t_0", "t_in", "D_in", "j_0", "a_d", "m_n",
    "x_h", "s_e", "R_size", "D_size", "rest_0", "int_", "float_", "globals", "x", "scale", "reciprocal",
    "TILE_t", "pack", "code_of", "words_2", "from_", "offset", "laneid", "warpid", "isnan", "fminf", "rintf", "float2",
    "threadIdx", "size_t", "uint2", "half", "_x", "x_", "l_carry", "all", "part", "y_0_in",
)  # fmt: skip
RESERVED = {"all", "part", "half"}
ROWWISE, LONE = ("rowsum", "rowmax", "rowmin", "rowmean"), ("rowsum", "rowmax", "rowmin")


@dataclass
class _Rows:
    """Equations as they are drawn, by the axes of what is known."""

    rng: random.Random
    names: list[str]
    both: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    one: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def name(self, wish: str) -> str:
        """A name that nothing has yet."""
        if self.rng.random() < 0.4 or wish in self.names:
            wish = self.rng.choice([n for n in NAMES if n not in self.names and n not in RESERVED])
        self.names.append(wish)
        return wish

    def formula(self, *kinds: list[str], depth: int = 2) -> str:
        """Of what these lists hold, bounded."""
        rng = self.rng
        known = [x for kind in kinds for x in kind]
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(known or ["0.5"])
        form = rng.choice([
            "({0} + {1})", "({0} - {1})", "min({0}, {1})", "max({0}, {1})", "abs({0})", "({0} * 0.5)", "-{0}",
            "({0} / (abs({1}) + 1))", "where({0} > {1}, {0}, {1})", "tanh({0})", "clamp({0}, -2, 2) * {1}",
            "({0} * {0} * 0.125)", "where({0} < 0, {0}, 0.25)", "sigmoid({0})", "f16({0})",
        ])  # fmt: skip
        return form.format(self.formula(*kinds, depth=depth - 1), self.formula(*kinds, depth=depth - 1))

    def define(self, kind: list[str], formula: str, wish: str) -> None:
        """A name for a formula."""
        name = self.name(wish)
        self.lines.append(f"{name} = {formula}")
        kind.append(name)

    def draw(self, count: int, column: str, place: str = "t") -> None:
        """So many definitions; `column` names places along the row."""
        rng = self.rng
        for number in range(count):
            match rng.randrange(6):
                case 0:
                    self.define(
                        self.rows, f"{rng.choice(ROWWISE[:3])}({self.formula(self.both, self.columns)})", f"w{number}"
                    )
                case 1:
                    of = self.formula(self.columns, self.one) if self.columns else "0.5"
                    lone = f"where({column} >= {rng.randrange(5)}, {of}, {rng.choice(['0', '0.5', '-1'])})"
                    lone = rng.choice([of, lone]) if self.columns and of not in self.one and of != "0.5" else lone
                    self.define(self.one, f"{rng.choice(LONE)}({lone})", f"k{number}")
                case 2:
                    self.define(self.both, self.formula(self.both, self.rows, self.columns, self.one), f"v{number}")
                case 3:
                    mask = f"where({rng.choice([f'{column} >= {place}', f'{column} < 7', f'{place} > {column} + 2'])}, "
                    taken = rng.choice(self.both)
                    masked = rng.choice(
                        [f"rowmax({mask}{taken}, -inf))", f"rowsum(exp2({mask}clamp({taken}, -3, 3), -inf)))"]
                    )
                    self.define(self.rows, f"max({masked}, -4)", f"h{number}")
                case 4 if self.columns:
                    self.define(self.columns, self.formula(self.columns, self.one), f"u{number}")
                case _:
                    self.define(self.rows, self.formula(self.rows or ["0.5 * t"], self.one), f"y{number}")


def shared(rng: random.Random) -> tuple[str, set[str]]:
    """A spec, and what was drawn for it."""
    looped = rng.random() < 0.4
    length = rng.choice(LENGTHS)
    count = max(1, min(rng.choice([1, 2, 3, 5, 8, 16]), MOST // length))
    square = length <= 128 and rng.random() < 0.15  # rows and columns of one dimension
    dim_r, dim_d = ("D", "D") if square else ("R", "D")
    by, waves = rng.choice([1, 1, 2, 4, 8]), rng.choice([1, 2, 4, 8])
    indexed = (
        not looped and not square and rng.random() < 0.15
    )  # a row each block, of which several waves may have none
    batch = rng.random() < 0.15
    before, at = ("B, ", "b, ") if batch else ("", "")
    kinds = ("bf16", "f16", "f32", "f32") if rng.random() < 0.85 else ("i8", "i32", "f32")
    tensors = [f"X : {rng.choice(kinds)}[{before}{dim_r}, {dim_d}]"]
    column, end = ("j", ", j") if looped else ("d", ", d") if indexed else (f"coordinate({dim_d})", "")
    known = _Rows(rng, ["X", "Y", "S", "W", "V", "C", "P", "T", "POS", "R", "D", "B", "t", "b", "j", "d", "s"])
    known.both.append(f"X[{at}t{end}]")
    known.one += ["0.75", "s"]
    features = {"shared rows"}
    for chance, tensor, kind, leaf in (
        (0.7, f"W : {rng.choice(kinds)}[{dim_d}]", known.columns, f"W[{column}]" if end else "W"),
        (0.3, f"V : {rng.choice(kinds)}[{dim_r}]", known.rows, "V[t]"),
        (0.2, f"G : f32[{dim_r}, {dim_d}, Q]", known.both, f"G[t{end}, 1]" if end else ""),
        (0.2, f"H : f32[Q, {dim_d}]", known.columns, f"H[1{end}]"),
        (0.2, f"M : f32[{dim_d}, Q]", known.columns, f"M[{column}, 2]" if end else ""),
        (0.15, f"B2 : f32[B, {dim_d}]", known.columns, f"B2[b{end}]" if batch else ""),
    ):  # fmt: skip
        if leaf and rng.random() < chance:
            tensors.append(tensor)
            kind.append(leaf)
    if not indexed and rng.random() < 0.35:
        features.add("gathers")
        tensors += [f"POS : i32[{dim_r}]", f"C : f32[L, {dim_d}]", f"E : bf16[L, {dim_d}]", "P : f32[L]"]
        known.both += rng.sample([f"C[POS[t]{end}]", f"E[POS[t]{end}]"], rng.choice([1, 2]))
        known.rows += rng.sample(["P[POS[t]]", "POS[t]"], rng.choice([0, 1, 2]))
        tensors = [t for t in tensors if t[0] not in "CEP" or t[:3] == "POS" or f"{t[0]}[POS" in str(known)]
    draw = _looped if looped else _whole
    body = draw(known, rng, column, at, end, length)
    dtype = rng.choice(("i8", "i32", "f32") if kinds[0] == "i8" else ("bf16", "f32", "f32"))
    stored = [f"Y : {dtype}[{before}{dim_r}, {dim_d}]"]
    if any(line.startswith("S[") for line in body):
        stored.append(f"S : f32[{before}{dim_r}]")
    if not any("Y[" in line for line in body):
        stored = stored[1:]
    text = "\n".join(body)
    dims = [f"D = {length}", *([] if square else [f"R = {count}"]), *(["B = 2"] if batch else [])]
    dims += [f"{n} = {size}" for n, size in (("Q", 3), ("L", 11)) if any(f"{n}]" in t or f"[{n}" in t for t in tensors)]
    over = [*(["b in B"] if batch else []), "t in R" if indexed else f"t in {dim_r} by {by}"]
    over += [f"d in D by {length}"] if indexed else []
    features |= {"loops of rows"} if looped else set()
    drawn = {"equal dimensions": square, "one row a block": indexed, "integers": "i8" in kinds}
    features |= {name for name, there in drawn.items() if there}
    lines = ["kernel drawn", f"  dims {', '.join(dims)}", *(f"  global {t}" for t in (*tensors, *stored))]
    lines += ["  scalar s : f32 = 0.5"] * ("s" in text)
    lines += [f"  over {', '.join(over)}", f"  waves {waves}", *(f"  {line}" for line in body)]
    return "\n".join(lines) + "\n", features


def _whole(known: _Rows, rng: random.Random, column: str, at: str, end: str, length: int) -> list[str]:
    known.draw(rng.randint(2, 6), column)
    used = [*known.both, *known.both[1:], *known.rows, *known.columns, *known.one]
    terms = [f"{rng.choice(used)} * {rng.choice([0.5, 0.25, -1])}" for _ in range(rng.randint(1, 4))]
    rest = known.formula(known.both, known.rows, known.columns, known.one)
    value = " + ".join([f"{known.both[0]} * 0.5", *terms, rest])
    stores = [f"Y[{at}t{end}] = {value}"]
    if not end and rng.random() < 0.5:
        stores.append(f"S[{at}t] = rowsum({known.both[0]}) + {known.formula(known.rows, known.one)}")
    return [*known.lines, *stores]


def _looped(known: _Rows, rng: random.Random, column: str, at: str, end: str, length: int) -> list[str]:
    tile = rng.choice([16, 64, 100, 256, 512])
    names = [known.name(n) for n in ("a", "m", "b", "p")]
    a, m, b, p = names
    before = list[str]()
    if rng.random() < 0.4:
        q = known.name("q")
        before.append(f"{q} = {rng.choice(['s * 2', '0.5 + s', *(f'abs({r}) + 1' for r in known.rows)])}")
        (known.one if "s" in before[0].partition("=")[2] else known.rows).append(q)
    outer = (list(known.rows), list(known.one))
    inside = rng.sample(["a", "m", "b", "p"], rng.randint(1, 4))
    known.draw(rng.randint(0, 4), column)
    updates, carries = [], []
    if "a" in inside:
        carries.append(f"{a} : f32[t] = 0")
        of = f"({known.formula(known.both, known.columns)} + {rng.choice(known.both)})"
        updates.append(f"{a} = {a} + rowsum({of} * 0.01)")
    if "m" in inside:
        carries.append(f"{m} : f32[t] = -3.4e38")
        updates.append(f"{m} = max({m}, rowmax({known.formula(known.both, known.rows)}))")
    if "p" in inside:
        carries.append(f"{p} : f32[t] = 1")
        of = known.columns[0] if known.columns else known.both[0]
        divided = f"rowsum({known.both[0]} / (abs({p}) + 1)) * 0.01 + {p} * 0.25"
        updates.append(f"{p} = {rng.choice([f'{p} * 0.5 + rowmax({of})', divided])}")
    if "b" in inside:
        carries.append(f"{b} : f32 = 0")
        of = rng.choice(known.columns) if known.columns else f"where({column} < 9, 1, 0.5)"
        updates.append(f"{b} = {rng.choice([f'{b} + 1', f'0.5 * {b} + rowsum({of})', f'{b} + rowsum({of})'])}")
    rng.shuffle(updates)
    body = [*before, f"carry {', '.join(carries)}", f"each j in D by {tile}"]
    body += [f"  {line}" for line in (*known.lines, *updates)]
    results = [n for n, k in zip(names, ("a", "m", "b", "p"), strict=True) if k in inside]
    bounded = [f"clamp({n}, -4, 4)" for n in results]
    stores = []
    if rng.random() < 0.6:
        again = [x.replace(", j", ", i") for x in known.both if "[" in x]
        stores += [
            f"each i in D by {tile}",
            f"  Y[{at}t, i] = {again[0]} * 0.5 + {rng.choice(again)} / ({rng.choice(bounded)} + 9)",
        ]
    if not stores or rng.random() < 0.5:
        stores.append(f"S[{at}t] = {' + '.join([*results, known.formula(outer[0] or ['t'], outer[1])])}")
        if not any(r in results for r in (a, m, p)):
            stores[-1] += " + 0 * t"
    return [*body, *stores]
