"""Random fused matmuls beyond attention: products, values and names in every role that the language allows them.

Several products onto one carry, values used twice, before and after products and in parts of tiles, carried values
that nothing uses or that are replaced, vectors along both axes with one to three buffers, one tensor as several
operands, dimensions of equal names, masks with infinities, odd sizes, and names that generated code has for its own.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from math import lcm

from fuzzing.names import NAMES, RESERVED
from fuzzing.rows import TARGETS
from fuzzing.specs import Sample

HOPPER = "sm_90a"


@dataclass
class _Body:
    """The equations of a loop as they are drawn: what is known, and by which steps a written schedule does them."""

    rng: random.Random
    names: list[str]
    lines: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    tiles: list[str] = field(default_factory=list)  # along q and j
    rows: list[str] = field(default_factory=list)  # along q
    keys: list[str] = field(default_factory=list)  # along j
    plain: list[str] = field(default_factory=list)  # names of equations that only multiply

    def name(self, wish: str) -> str:
        """A name that nothing has yet: as wished, or one of those that generated code has."""
        if self.rng.random() < 0.3 or wish in self.names:
            left = [n for n in NAMES if n not in self.names and n not in RESERVED]
            wish = self.rng.choice(left)
        self.names.append(wish)
        return wish

    def tile(self, depth: int = 2) -> str:
        """A formula along q and j, bounded."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(self.tiles)
        form = rng.choice([
            "min({0}, {1})", "max({0}, -{1})", "({0} - 0.5 * {1})", "abs({0})", "({0} + {r})", "({0} * {b})",
            "0.5 * {0}", "tanh({0})", "clamp({0}, -2, 3)", "where({0} > 0, {0}, 0.5 * {0})", "({0} + 0.01 * {a})",
            "exp2(min({0}, 3))", "({0} / (abs({r}) + 1))", "({0} + {k})", "where({place}, {0}, {1})", "relu({0})",
        ])  # fmt: skip
        return form.format(
            self.tile(depth - 1), self.tile(depth - 1), r=self.row(1), b=f"tanh({self.row(1)})", a=rng.choice("qj"),
            k=rng.choice(self.keys or ["0.75"]), place=rng.choice(["q >= j", "q - j < 40", "j % 2 = 0", "q + 3 > j"]),
        ).replace("% 2 = 0", "< 50")  # fmt: skip

    def row(self, depth: int = 2) -> str:
        """A formula along q, bounded where tiles are."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.3:
            return rng.choice(self.rows or ["0.75"])
        form = rng.choice(["max({0}, {1})", "min({0}, {1})", "0.5 * {0}", "({0} - {1})", "abs({0})", "tanh({0})"])
        return form.format(self.row(depth - 1), self.row(depth - 1))

    def define(self, wish: str, formula: str, known: list[str], multiplies: str = "") -> str:
        """An equation; `multiplies`: before or after what it computes, or nothing else."""
        name = self.name(wish)
        self.put(name, formula, multiplies)
        known.append(name)
        return name

    def used(self, kept: set[str]) -> None:
        """Equations of values that nothing reads go, until there are none."""
        while True:
            read = set(re.findall(r"\w+", " ".join(line.split(" = ", 1)[1] for line in self.lines))) | kept
            names = [line.split(" = ", 1)[0] for line in self.lines]
            if not (stray := [name for name in names if name not in read]):
                return
            self.lines = [line for line in self.lines if line.split(" = ", 1)[0] not in stray]
            self.steps = [step for step in self.steps if step.split()[1] not in stray]

    def put(self, name: str, formula: str, multiplies: str = "") -> None:
        """An equation of a name that is there."""
        self.lines.append(f"{name} = {formula}")
        own = {"": [f"compute {name}"], "alone": [f"multiply {name}"]}
        both = [f"multiply {name}", f"compute {name}"]
        self.steps += own.get(multiplies, both if multiplies == "before" else both[::-1])


def fused(seed: int) -> Sample:
    """For AMD: one or two products of tensors, what is made of them, and up to four products of that."""
    rng = random.Random(f"fused {seed}")
    return _drawn(seed, rng, rng.choice(TARGETS))


def fused_hopper(seed: int) -> Sample:
    """The same for Hopper, whose loops have two products."""
    return _drawn(seed, random.Random(f"hopper {seed}"), HOPPER)


def _drawn(seed: int, rng: random.Random, target: str) -> Sample:
    hopper = target == HOPPER
    features = set[str]()
    direct = hopper or (target == "gfx950" and rng.random() < 0.4)
    waves = rng.choice([4, 8, 8]) if hopper else rng.choice([1, 2, 4, 4, 8])
    rows = 16 * waves * (1 if hopper else rng.choice([1, 1, 2]))
    step = rng.choice([64, 128]) if hopper else rng.choice([32, 64] if direct else [16, 32, 48, 64])
    depth = rng.choice([64, 128]) if hopper else rng.choice([32, 64] if direct else [16, 32, 48, 64, 80])
    width = (
        depth
        if rng.random() < 0.6
        else rng.choice([64, 128])
        if hopper
        else rng.choice([32, 64] if direct else [16, 48, 64])
    )
    length = lcm(rows, step) * rng.choice([1, 1, 2]) if rng.random() < 0.7 else rng.choice([1, 65, 100, 192])
    keys = length if rng.random() < 0.5 else step * rng.choice([1, 2, 3])
    same = keys == length and rng.random() < 0.7  # q and j along one dimension
    batch = rng.random() < 0.25
    dtype = rng.choice(["bf16", "bf16", "f16"])
    n, d, v = "L" if same else "N", "D", "D" if width == depth and rng.random() < 0.7 else "E"
    dims = [
        f"L = {length}",
        *([f"N = {keys}"] if not same else []),
        f"D = {depth}",
        *([f"E = {width}"] if v == "E" else []),
    ]
    body = _Body(rng, ["q", "j", "b", "L", "N", "D", "E", "B"])
    at, of = ("b, ", "B, ") if batch else ("", "")
    tensors: list[str] = []
    shared: dict[str, int] = {}

    def tensor(wish: str, kind: str, first: str, last: str = "", *, moves: bool = False) -> str:
        name = body.name(wish)
        tensors.append(f"  global {name} : {kind}[{of}{first}{', ' + last if last else ''}]")
        if moves:
            shared[name] = rng.choice([1, 2, 2, 2, 3])
        return name

    q, key = tensor("Q", dtype, "L", d), tensor("K", dtype, n, d, moves=True)
    if same and not batch and rng.random() < 0.1:
        features.add("one tensor, several operands")
        q = key
    value = key if v == d and rng.random() < 0.25 else tensor("V", dtype, n, v, moves=True)
    if value == key:
        features.add("keys are values")
    if not hopper and rng.random() < 0.4:
        load = tensor("G", rng.choice(["f32", "bf16"]), n, moves=True)
        body.keys.append(f"{load}[{at}j]")
        features.add("vector along the loop")
    if not hopper and rng.random() < 0.3:
        load = tensor("Z", rng.choice(["f32", "bf16"]), "L")
        body.rows.append(f"{load}[{at}q]")
        features.add("vector of rows")
    scalars = []
    if rng.random() < 0.4:
        scalars.append(body.name("scale"))
        body.rows.append(scalars[0])

    carried: dict[str, str] = {}
    for wish in rng.sample(["m", "l", "c"], rng.choice([0, 1, 1, 2, 3])):
        carried[body.name(wish)] = (
            rng.choice(["0", "1", "-inf", "0.5"]) if not hopper else rng.choice(["0", "1", "-1000"])
        )
    body.rows += carried

    score = f"{q}[{at}q] @ {key}[{at}j].T"
    scaled = rng.choice(["", "", "0.125 * ", f"{scalars[0]} * " if scalars else ""])
    body.define("s", scaled + score, body.tiles, "before" if scaled else "alone")
    if not hopper and rng.random() < 0.25:
        features.add("two products of tensors")
        other = tensor("P", dtype, "L", d), tensor("R", dtype, n, d, moves=True)
        again = f"{other[0]}[{at}q] @ {rng.choice([other[1], key])}[{at}j].T"
        if f"{other[1]}[" not in again:
            tensors.pop()
            shared.pop(other[1])
        if rng.random() < 0.5:
            body.define("s2", again, body.tiles, "alone")
        else:
            body.define("s2", f"{body.tiles[0]} + {again}", body.tiles, "alone")
    if rng.random() < 0.3:
        features.add("mask")
        last = body.tiles[-1]
        seen, hidden = rng.choice(["q >= j", "q - j < 40", "q + 5 >= j"]), rng.choice(["-inf", "inf", "0", "-1"])
        body.define("w", f"where({seen}, {last}, {hidden})", body.tiles)
        if "inf" in hidden:
            body.define("y", f"clamp({body.tiles[-1]}, -4, 4)", body.tiles)
            body.tiles.remove(body.tiles[-2])
    for _ in range(rng.choice([0, 1, 2, 3])):
        if rng.random() < 0.6:
            body.define("p", body.tile(), body.tiles)
        else:
            body.define("u", f"{rng.choice(['rowmax', 'rowsum', 'rowmin'])}({body.tile(1)})", body.rows)

    out: list[str] = []
    sums = [body.name("o")]
    if not hopper and rng.random() < 0.3:
        sums.append(body.name("a"))
    starts = dict.fromkeys(sums, "0") | ({sums[-1]: "2"} if rng.random() < 0.15 else {})
    for name in sums:
        kinds = ["plus", "scaled", "scaled", "twice", "replaced"]
        if hopper:
            kinds = ["plus", "scaled", "scaled", "behind"]
        kind = rng.choice(kinds)
        features.add(f"sum {kind}")
        by = f"tanh({body.row(1)})"
        made = [f"{dtype}({rng.choice([body.tiles[-1], body.tile(1)])}) @ {value}[{at}j]" for _ in range(2)]
        if kind == "replaced":
            body.put(name, made[0], "behind")
        elif kind == "twice":
            body.put(name, f"{name} + {made[0]}", "behind")
            body.put(name, f"{name} + {made[1]}", "behind")
        elif kind == "behind":
            body.put(name, f"{made[0]} + {name} * {by}", "behind")
        else:
            body.put(name, f"{name} * {by} + {made[0]}" if kind == "scaled" else f"{name} + {made[0]}", "behind")
    for name in carried:
        body.put(name, rng.choice([
            f"max({name}, {body.row(1)})", f"0.5 * {name} + rowsum({body.tiles[-1]}) * 0.01",
            f"{body.row(1)} + 0 * {name}",             f"rowmax({body.tile(1)})", f"min({name} + 0.5, 3)",
        ]))  # fmt: skip
    body.used({*sums, *carried})
    read = set(re.findall(r"\w+", " ".join(body.lines)))
    tensors = [line for line in tensors if line.split()[1] in read]
    shared = {name: buffers for name, buffers in shared.items() if name in read}
    written = rng.random() < 0.25
    columns = dict.fromkeys(sums, v)
    for n_, name in enumerate(sums):
        result = "bf16" if hopper else rng.choice(["f32", "bf16", "f16"])
        target_name = tensor("O" if n_ == 0 else "A", result, "L", columns[name])
        by = rng.choice([*(f"(abs({c}) + 1)" for c in carried if carried[c] != "-inf"), "2"])
        out.append(f"{target_name}[{at}q] = {rng.choice([name, name, f'{name} / {by}', f'{name} * 0.5 + {name}'])}")
    for name in carried:
        if written or rng.random() < 0.5:
            out.append(f"{tensor('Y', 'f32', 'L')}[{at}q] = {name}")

    via = " via direct" if direct else ""
    lines_of_shared = []
    vectors = {key_.split("[")[0] for key_ in body.keys}
    for name, buffers in shared.items():
        if hopper:
            buffers = 2
        count = f" buffers {buffers}" if buffers > 1 or rng.random() < 0.5 else ""
        lines_of_shared.append(f"  shared {name}{count}{'' if name in vectors else via}")
    chosen = [] if hopper else _schedule(rng, body, shared, vectors, direct, written, waves, features)
    carries = [f"{c} : f32[q] = {first}" for c, first in carried.items()]
    carries += [f"{s} : f32[q, {v}] = {first}" for s, first in starts.items()]
    lines = [
        "kernel drawn", f"  dims {'B = 2, ' if batch else ''}{', '.join(dims)}", *tensors,
        *(f"  scalar {name} : f32 = 0.25" for name in scalars),
        f"  over {'b in B, ' if batch else ''}q in L by {rows}", f"  waves {waves} along q", *lines_of_shared, *chosen,
        f"  carry {', '.join(carries)}", f"  each j in {n} by {step}", *(f"    {line}" for line in body.lines),
        *(f"  {line}" for line in out),
    ]  # fmt: skip
    features |= {"batched"} if batch else set()
    features |= {"via direct"} if direct else set()
    family = "fused_hopper" if hopper else "fused"
    return Sample(seed, "\n".join(lines) + "\n", target, features=frozenset(features), family=family)


def _schedule(
    rng: random.Random,
    body: _Body,
    shared: dict[str, int],
    vectors: set[str],
    direct: bool,
    written: bool,
    waves: int,
    features: set[str],
) -> list[str]:
    """None, a schedule's name, or lines that do every equation in order, some of them in parts."""
    if not written and rng.random() < 0.55:
        return []
    if not written:
        name = rng.choice(["interleave", *["ping_pong"] * 2]) if waves == 8 else "interleave"
        features.add(name)
        return [f"  schedule {name}"]
    features.add("written")
    brought = "  ".join(f"{'fetch' if name in vectors or not direct else 'copy'} {name}[k+1]" for name in shared)
    to_lds = "  ".join(f"write {name}[k+1]" for name in shared if name in vectors or not direct)
    read = "  ".join(f"read {name}" for name in shared if name not in vectors and direct)
    steps = [
        part for step in body.steps for part in ([f"{step} half 0", f"{step} half 1"] if rng.random() < 0.1 else [step])
    ]
    at = rng.randrange(1, len(steps) + 1)
    return ["  schedule barriers auto", f"    group {brought}  {read}  {'  '.join(steps[:at])}",
            f"    group {'  '.join(steps[at:])}  {to_lds}"]  # fmt: skip
