"""Random specs over the whole language; a spec is a function of its seed alone.

Shapes first, small enough to run and mostly small enough to fit; then data, mapping, what lives where, and time. What
is drawn need not be right, but mostly is: a spec that is refused tries the checks only.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import lcm, prod

from fuzzing import schedules

EPILOGUES = ("relu", "gelu", "gelu_tanh", "silu")
LDS_BYTES = {"gfx90a": 65536, "gfx942": 65536, "gfx950": 163840}
REMAPS = ("row_major", "row_major()", "column_major", "group(rows = 2)", "group(rows = 3)", "morton", "hilbert")
TINY = (1, 2, 3, 5)


@dataclass(frozen=True)
class Sample:
    """A spec as text.

    `extents` are values to try for its dynamic dimensions but K, `step` and `ragged` the elements of a K-step and those
    that the last one may lack; `features` names what was drawn. `files` are what it includes. `family` is one of
    `fuzzing.families`. `only` is "blocks" where some blocks are run and "build" where none is.
    """

    seed: int
    text: str
    target: str = "gfx942"
    extents: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dynamic_k: bool = False
    step: int = 32
    ragged: int = 0
    files: dict[str, str] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    family: str = "matrix"
    only: str = ""


@dataclass
class Draft:
    """Decisions for a spec; all sizes in elements.

    `rights` are the right factors of its products; `sums` the names of these, where equations say what is computed.
    Slices of operand `finer`, by number, are half as long as those of the others, where that is not None.
    """

    rng: random.Random
    target: str = "gfx942"
    bytes: int = 2
    dtype: str = "bf16"
    waves: tuple[int, int] = (2, 2)
    tile: tuple[int, int] = (32, 32)
    block: tuple[int, int, int] = (128, 128, 64)
    buffers: tuple[int, int] = (1, 1)
    via: tuple[str, str] = ("collective", "collective")
    slice: int = 0
    register_buffers: int = 1
    unroll: int = 1
    steps: int = 3
    roles: bool = False
    grid: str = ""
    grid_blocks: int = 1
    tail: str = ""
    dynamic: tuple[str, ...] = ()
    params: dict[str, int] = field(default_factory=dict)
    features: set[str] = field(default_factory=set)
    rare: random.Random = field(default_factory=random.Random)  # decides what is not drawn with the rest
    late: random.Random = field(default_factory=random.Random)  # decides what came to the language later
    arrangement: str = ""
    rights: tuple[str, ...] = ("B",)
    sums: tuple[str, ...] = ()
    finer: int | None = None

    @property
    def operands(self) -> list[str]:
        """The factors of the products."""
        return ["A", *self.rights]

    @property
    def fragments(self) -> tuple[int, int]:
        rows, cols = (b // (t * w) for b, t, w in zip(self.block, self.tile, self.waves, strict=False))
        return rows, cols

    @property
    def slices(self) -> int:
        return self.block[2] // (self.slice or self.block[2])

    @property
    def direct(self) -> bool:
        return "direct" in self.via

    @property
    def through_lds(self) -> str:
        """The operands that pass through LDS; the others go `past` it."""
        return "".join(name for name, via in zip("AB", self.via, strict=True) if via != "past")

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def number(self, value: int) -> str:
        """A size as text: now and then an expression, or a parameter."""
        if not self.chance(0.05):
            return str(value)
        name = f"P{len(self.params)}"
        other = self.rng.randint(1, 9)
        forms = {
            f"({value + other} - {other})": "-",
            f"{value * 3} / 3": "/",
            f"({value - 1} + 1)": "+",
            f"min({value}, {value + other})": "min",
            f"max({value}, {max(value - other, 1)})": "max",
            f"ceil_div({value * 2 - 1}, 2)": "ceil_div",
            f"{value} % {value + other}": "%",
            f"min({value})" if self.chance(0.05) else name: "param",
        }
        if value % 2 == 0:
            forms[f"2 * {value // 2}"] = "*"
        form = self.rng.choice(list(forms))
        if form == name:
            self.params[name] = value
        return form


def sample(seed: int) -> Sample:
    """The spec of a seed."""
    draft = started(seed)
    shapes(draft)
    storage(draft)
    _past_lds(draft, random.Random(f"past {seed}"))
    head, extents, ragged, epilogue = _data(draft)
    return finished(seed, draft, [*head, *mapping(draft), *later(draft, work(draft, epilogue))], extents, ragged)


def started(seed: int, family: str = "") -> Draft:
    """An empty draft, with sources of random numbers that are `family`'s own."""
    late = random.Random(f"late {family}{seed}")
    return Draft(random.Random(f"{family}{seed}" if family else seed), rare=random.Random(-1 - seed), late=late)


def finished(
    seed: int, draft: Draft, body: list[str], extents: dict[str, tuple[int, ...]], ragged: int, family: str = "matrix"
) -> Sample:
    """The draft as a spec: the lines of its body, and the parameters that they name."""
    files = {}
    if draft.params and draft.chance(0.2):
        draft.params |= {"UNUSED": 7}
    if draft.params:
        listed = ", ".join(f"{name} = {value}" for name, value in draft.params.items())
        at = next(i for i, line in enumerate(body) if not line.strip().startswith("dims")) if family != "matrix" else 1
        body.insert(at, f"  param {listed}")
        name, value = next(iter(draft.params.items()))
        if draft.chance(0.5):
            body.insert(at + 1, f"  tune {name} in {value}" + f", {value}" * draft.chance(0.5))
    elif draft.chance(0.03):
        files["shapes.tk"] = body.pop(0).strip() + "\n"
        body.insert(0, '  include "shapes.tk"')
    if draft.chance(0.03):
        body.insert(0, "  # a comment")
    return Sample(
        seed,
        "\n".join([f"kernel fuzz_{seed}", *body]) + "\n",
        draft.target,
        extents,
        "K" in draft.dynamic,
        draft.block[2],
        ragged,
        files,
        frozenset(draft.features),
        family,
    )


# ---------------------------------------------------------------- shapes


def shapes(d: Draft) -> None:
    """Target, types, waves, tiles, block and step."""
    rng = d.rng
    d.target = rng.choice(["gfx942", "gfx942", "gfx90a", "gfx950", "gfx950"])
    d.dtype, d.bytes = rng.choice([("bf16", 2), ("bf16", 2), ("bf16", 2), ("f16", 2), ("f16", 2), ("f32", 4)])
    d.waves = rng.choice(
        [(1, 1), (1, 2), (2, 1), (2, 2), (2, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4), (8, 1), (3, 1)]
    )
    direct = d.target == "gfx950" and d.bytes == 2 and d.chance(0.6)
    for _ in range(100):
        d.tile = (rng.choice([16, 16, 32, 32, 48, 64]), rng.choice([16, 16, 32, 32, 48, 64]))
        fragments = (rng.choice([1, 1, 2, 2, 3]), rng.choice([1, 1, 2, 2, 4]))
        rows, cols = (t * w * f for t, w, f in zip(d.tile, d.waves, fragments, strict=True))
        boxes = rows % (16 * prod(d.waves)) == cols % (16 * prod(d.waves)) == 0
        if rows * cols <= 128 * 128 and prod(d.tile) * prod(fragments) <= 64 * 64 and (boxes or not direct):
            break
    step = rng.choice([32, 64, 64, 96]) if direct else rng.choice([16, 32, 32, 48, 64, 64, 96])
    while (rows + cols) * step * d.bytes > LDS_BYTES[d.target] and step > 32:
        step //= 2
    d.block = (rows, cols, max(step // 16 * 16, 16))
    slices = [s for s in ((32,) if direct else (16, 32, 48)) if d.block[2] % s == 0]
    d.slice = rng.choice([0, *slices, *slices])
    if direct and d.slice != 32 and d.chance(0.8):
        d.slice = 32
    d.register_buffers = rng.choice([1, 1, 2, 2]) if d.slices > 1 or d.chance(0.2) else 1
    least = 32 if direct else 16
    if d.slice and d.slice % (2 * least) == 0 and d.register_buffers == 1 and d.late.random() < 0.4:
        d.finer = d.late.choice([0, 1])
    d.via = ("direct", "direct") if direct and d.chance(0.7) else ("", "")
    choices = ["collective", "collective", "registers", "registers", *(["direct"] * 3 if direct else [])]
    if not d.direct:
        first = rng.choice(choices)
        d.via = (first, first if d.chance(0.6) else rng.choice(choices))
    d.unroll = rng.choice([1, 1, 1, 1, 2, 3])
    d.steps = rng.choice([1, 2, 3, 4, 5, 6])
    d.roles = d.chance(0.3)
    d.grid = rng.choice(["persistent", "split_k", "stream_k", "linear"]) if d.chance(0.2) else ""
    d.grid_blocks = rng.choice([1, 2, 2, 3, 5])
    if d.grid == "stream_k" and d.chance(0.95):
        d.unroll, d.register_buffers = 1, 1


def storage(d: Draft) -> None:
    """LDS buffers that fit, and now and then some that do not."""
    per = [d.block[i] * d.block[2] * d.bytes * count for i, count in ((0, 1), (1, len(d.rights)))]
    left = LDS_BYTES[d.target]
    most = left // sum(per)
    same = d.rng.choice([b for b in (1, 1, 2, 2, 3, 4) if b <= max(most, 1)] or [1])
    if d.grid == "stream_k" and d.chance(0.9):
        same = min(same, 2)
    d.buffers = (same, same)
    if d.grid != "stream_k" and d.chance(0.25):
        d.buffers = (d.rng.choice([1, 2, 3]), d.rng.choice([1, 2, 3]))
        if sum(b * p for b, p in zip(d.buffers, per, strict=True)) > left and d.chance(0.95):
            d.buffers = (same, same)


def _past_lds(d: Draft, rng: random.Random) -> None:
    """Now and then an operand that goes past LDS, or both, which leaves roles nothing to load."""
    if rng.random() < 0.85:
        return
    names = rng.choice(["A", "B", "B", "AB"])
    d.via = ("past" if "A" in names else d.via[0], "past" if "B" in names else d.via[1])
    d.roles = d.roles and bool(d.through_lds)
    d.features.add("past LDS: " + ("both" if names == "AB" else "one"))


def _data(d: Draft) -> tuple[list[str], dict[str, tuple[int, ...]], int, list[str]]:
    """Dimensions, tensors and scalars; sizes of dynamic dimensions; elements that K lacks; the epilogue's steps."""
    rng = d.rng
    if (not d.direct and d.chance(0.3)) or d.chance(0.01):
        d.tail = rng.choice(["masked", "masked", "masked", "clamped"])
    d.dynamic = tuple(name for name, p in (("M", 0.15), ("N", 0.15), ("K", 0.55)) if d.chance(p))
    if d.grid in ("split_k", "stream_k") and d.chance(0.9):
        d.dynamic = tuple(n for n in d.dynamic if n != "K")
    sizes = {name: lengths(d, unit) for name, unit in zip("MN", d.block[:2], strict=True)}
    chunk = 1 if d.chance(0.3) else 16 // d.bytes
    ragged = chunk * rng.randint(1, 6) if d.tail == "masked" and d.chance(0.7) else 0
    ragged = min(ragged, d.block[2] - 1)
    if d.grid == "split_k":
        d.steps *= d.grid_blocks if d.chance(0.95) else 1
    fixed = {"K": max(d.block[2] * d.steps * (d.unroll if d.chance(0.9) else 1) - ragged, 1)}
    fixed |= {name: rng.choice(lengths) for name, lengths in sizes.items()}
    named = ", ".join(f"{n} = {'dynamic' if n in d.dynamic else d.number(fixed[n])}" for n in "MNK")
    a, b = rng.choice(["M, K", "M, K", "M, K", "K, M"]), rng.choice(["N, K", "N, K", "N, K", "K, N"])
    out = rng.choice(["f32", "f32", "bf16", "f16"]) if d.grid not in ("split_k", "stream_k") else "f32"
    other = d.dtype if d.chance(0.99) else rng.choice(["bf16", "f16", "f32"])
    tensors = [f"global A : {d.dtype}[{a}]", f"global B : {other}[{b}]", f"global C : {out}[M, N]"]
    steps, extra = _epilogue(d, out)
    lines = [f"dims {named}" if d.chance(0.95) else f"dims {named}".replace(", N", "\n  dims N"), *tensors, *extra]
    lines.append(f"block {d.number(d.block[0])} x {d.number(d.block[1])} step {d.number(d.block[2])}")
    lines += [f"tail {d.tail}"] * bool(d.tail)
    allowed = ["slow_reads"] if "K, " in a or ", K" not in b else []
    allowed += [name for name in ("spills", "low_occupancy") if d.chance(0.15)]
    lines += [f"allow {', '.join(allowed)}"] * bool(allowed)
    lines += [f"target {', '.join([d.target, *(['gfx942'] if d.chance(0.2) and d.target != 'gfx942' else [])])}"]
    extents = {n: tuple(sizes[n]) for n in d.dynamic if n != "K"}
    return [f"  {line}" for line in lines], extents, ragged, steps


def lengths(d: Draft, unit: int) -> list[int]:
    """Sizes of a dimension to choose from: whole blocks, or with a tail ragged and tiny ones, too."""
    whole = [unit, unit, 2 * unit]
    if not d.tail:
        return whole if d.chance(0.98) else [unit + 8]
    step = 16 // d.bytes if d.tail == "clamped" or d.chance(0.5) else 1
    near = [unit - step, unit + step * d.rng.randint(1, 3), 2 * unit - step * d.rng.randint(1, 5)]
    tiny = [n for n in TINY if d.tail == "masked"] or [step]
    return [*near, *tiny, *whole[:1]]


def _epilogue(d: Draft, out: str) -> tuple[list[str], list[str]]:
    """Steps, and the tensors and scalars that they need."""
    rng = d.rng
    steps: list[str] = []
    extra: list[str] = []
    if d.grid in ("split_k", "stream_k"):
        return (["scale(0.5)"], []) if d.chance(0.2) else ([], [])
    if d.chance(0.6):
        return steps, extra
    kinds = rng.sample(["scale", "add", "bias", rng.choice(EPILOGUES)], rng.randint(1, 3))
    for kind in kinds:
        if kind == "scale":
            factor = rng.choice(["alpha", "0.5", "2", "-1.5", "1e-1", "0.75"])
            if factor == "alpha":
                extra.append(rng.choice(["scalar alpha : f32 = 1.25", "scalar alpha : f32 = -2", "scalar alpha : f32"]))
            steps.append(f"scale({factor})")
        elif kind == "add":
            if d.chance(0.2):
                steps.append(rng.choice(["add(C)", "add(C, 0.5)"]))
                continue
            extra.append(f"global D : {rng.choice(['f32', 'bf16', 'f16'])}[M, N]")
            steps.append(rng.choice(["add(D, 0.5)", "add(D)", "add(D, 0)"]))
        elif kind == "bias":
            extra.append(f"global v : {rng.choice(['f32', 'bf16', 'f16'])}[{rng.choice('MN')}]")
            steps.append("bias(v)")
        else:
            steps.append(kind)
    return steps, extra


def mapping(d: Draft) -> list[str]:
    """The order of the blocks."""
    rng = d.rng
    lines: list[str] = []
    if d.chance(0.3):
        stages = [rng.choice(REMAPS)]
        if d.chance(0.5):
            stages.insert(0, rng.choice(["xcd(8)", "xcd(8, chunk = 2)", "xcd(2, chunk = 3)"]))
        lines.append(f"remap {' | '.join(stages)}")
    if d.grid:
        lines.append(f"grid {d.grid}({d.number(d.grid_blocks)})" if d.grid != "linear" else "grid linear")
    if d.unroll > 1 or d.chance(0.02):
        lines.append(f"unroll {d.number(d.unroll)}")
    if d.chance(0.05):
        word = rng.choice(["1 wave", "1 waves", "2 waves"])
        lines.append(f"occupancy {word} per simd")
    return [f"  {line}" for line in lines]


# ---------------------------------------------------------------- waves, storage, schedule


def work(d: Draft, epilogue: list[str]) -> list[str]:
    """Waves and roles, LDS, registers, accumulator, schedule."""
    rng = d.rng
    every, rights = ", ".join(d.operands), ", ".join(d.rights)
    shared = [_shared(d, every, 0)] if d.buffers[0] == d.buffers[1] and d.via[0] == d.via[1] else []
    if not shared or d.chance(0.1):
        shared = [_shared(d, "A", 0), _shared(d, rights, 1)]
    past = d.through_lds != "AB"
    if past:
        shared = [_shared(d, name, "AB".index(name)) for name in d.through_lds]
    registers = []
    if d.slice or d.register_buffers > 1 or d.chance(0.05) or past:
        clauses = [f"slice {d.number(d.slice)}"] * bool(d.slice)
        clauses += [f"buffers {d.register_buffers}"] * (d.register_buffers > 1 or d.chance(0.1))
        if d.chance(0.2):
            clauses.reverse()
        names = [every] if d.chance(0.95) or past or d.finer is not None else ["A", rights] if d.chance(0.7) else ["A"]
        registers = [" ".join(["registers", name, *clauses]) for name in names]
        if d.finer is not None:
            registers = [f"registers {every} slice {d.slice}"]
    arrangement = d.arrangement = rng.choice(["", " interleaved", " blocked"])
    mfma = ""
    if all(t % 32 == 0 for t in d.tile) and d.block[2] % 32 == 0 and d.chance(0.3):
        mfma = " mfma 32 x 32"
    elif d.chance(0.05):
        mfma = " mfma 16 x 16"
    which = " = A * B" if d.chance(0.12) and not d.sums else ""
    summed = ", ".join(d.sums or ["C"])
    accumulate = f"accumulate {summed}{which} : f32 tile {d.number(d.tile[0])} x {d.tile[1]}{arrangement}{mfma}"
    finish = [*([f"epilogue {' | '.join(epilogue)}"] if epilogue else []), *([] if d.sums else ["store C"])]
    compute = [*registers, accumulate, *finish]
    if d.roles:
        return [*(f"  {line}" for line in shared), *_roles(d, compute)]
    count = prod(d.waves)
    group = count
    load = []
    if d.through_lds and d.chance(0.1):
        group = count if d.chance(0.8) else rng.choice([1, 2])
        load = [f"load {', '.join(_named(d, d.through_lds))} by {group} {'wave' if group == 1 else 'waves'}"]
    waves = f"waves {d.waves[0]} x {d.waves[1]}" if d.chance(0.95) else f"waves {count}"
    return [*(f"  {line}" for line in [waves, *shared, *load, *compute]), *_schedule(d, [group, group])]


def later(d: Draft, lines: list[str]) -> list[str]:
    """The lines, with what came to the language later: tensors used once, slices that differ, rings of registers."""
    result = list(lines)
    written = any(line.strip().startswith(("cluster", "group")) for line in lines)
    every = ", ".join(d.operands)
    plain = [n for n, line in enumerate(lines) if re.fullmatch(rf" *registers {every} slice \d+( buffers \d)?", line)]
    sides = ["A", ", ".join(d.rights)]
    if plain and not written and d.slices % 2 == 0 and d.late.random() < 0.3:
        if d.late.random() < 0.5:
            sides.reverse()
        one, other = (lines[plain[0]].replace(every, side) for side in sides)
        result[plain[0] : plain[0] + 1] = [one, other.replace(f"slice {d.slice}", f"slice {2 * d.slice}")]
        d.features.add("slices that differ")
    elif not written and d.through_lds != "AB":
        at = next(n for n, line in enumerate(lines) if " registers A, B" in line)
        ring = re.sub(r" buffers \d+", "", lines[at]) + f" buffers {d.late.randint(1, 5)}"
        past = [name for name in "AB" if name not in d.through_lds]
        result[at : at + 1] = [ring.replace("A, B", ", ".join(past))]
        result[at:at] = [lines[at].replace("A, B", d.through_lds)] * bool(d.through_lds)
    if plain and written and d.finer is not None:
        fine, other = (lines[plain[0]].replace(every, sides[side]) for side in (d.finer, 1 - d.finer))
        fine = fine.split(" slice ")[0] + f" slice {d.slice // 2} buffers 2"
        result[plain[0] : plain[0] + 1] = [other, fine]
        d.features.add("written slices that differ")
    if d.late.random() < 0.1:
        result.insert(0, f"  stream {d.late.choice(['A', 'B', 'C', 'A, C', 'A, B, C'])}")
        d.features.add("stream")
    return result


def _shared(d: Draft, operands: str, index: int) -> str:
    buffers, via = d.buffers[index], d.via[index]
    clauses = [f"buffers {buffers}"] * (buffers > 1 or d.chance(0.5))
    clauses += [f"via {via}"] * (via != "collective" or d.chance(0.3))
    if d.chance(0.2):
        clauses.reverse()
    return " ".join([f"shared {operands}", *clauses])


def _span(start: int, count: int) -> str:
    return f"{start}..{start + count - 1}" if count > 1 else f"{start}"


def _roles(d: Draft, compute: list[str]) -> list[str]:
    """Producers before or after the consumers, alone or one for each operand, of as many waves or others."""
    rng, consumers = d.rng, prod(d.waves)
    for _ in range(20):
        producers = rng.choice([1, 2, 2, 3, 4, 4, 8])
        first = d.chance(0.7)
        split = d.through_lds == "AB" and producers > 1 and producers % 2 == 0 and d.chance(0.4)
        half = producers // 2
        shares = [("A", half), ("B", producers - half)] if split else [(d.through_lds, producers)]
        starts = [0 if first else consumers, shares[0][1] + (0 if first else consumers)]
        if all(_can_load(d, s, n, operands) for s, (operands, n) in zip(starts, shares, strict=False)):
            break
    groups = [rng.choice([0, 0, 0, n]) if d.chance(0.97) else 1 for _, n in shares]
    loading = [groups[0] or shares[0][1], groups[-1] or shares[-1][1]]
    written = d.chance(0.6)
    frame = _frame(d, loading, len(shares) + 1, [0, len(shares) - 1], len(shares), consumers + producers)
    bodies, header = _written(d, frame) if written else (None, "")
    if split and not bodies and d.rare.random() < 0.2:
        shares[0] = ("AB", shares[0][1])  # two roles load B
    made: list[str] = []
    at = 0 if first else consumers
    for number, (operands, count) in enumerate(shares):
        made.append(f"  role producer{number or ''} waves {_span(at, count)}")
        by = f" by {groups[number]} {'wave' if groups[number] == 1 else 'waves'}" if groups[number] else ""
        made.append(f"    load {', '.join(_named(d, operands))}{by}")
        made += _indented(bodies[number], header, "    ") if bodies else []
        at += count
    start = producers if first else 0
    consumer = [f"  role consumer waves {_span(start, consumers)} as {d.waves[0]} x {d.waves[1]}"]
    consumer += [f"    {line}" for line in compute]
    consumer += _indented(bodies[-1], header, "    ") if bodies else []
    return [*made, *consumer] if first else [*consumer, *made]


def _named(d: Draft, sides: str) -> list[str]:
    """The operands of these sides."""
    return [*(["A"] if "A" in sides else []), *(d.rights if "B" in sides else [])]


def _can_load(d: Draft, start: int, count: int, operands: str = "AB") -> bool:
    """Return True if waves can load tiles together: aligned, each with as many boxes of a direct load as the others."""
    tiles = [d.block["AB".index(o)] * d.block[2] // 512 for o in operands if d.via["AB".index(o)] == "direct"]
    return start % count == 0 and all(tile % count == 0 for tile in tiles)


def _indented(lines: Iterable[str], header: str, indent: str) -> list[str]:
    return [f"{indent}schedule{header}", *(f"{indent}  {line}" for line in lines)]


def _frame(d: Draft, loading: list[int], roles: int, owners: list[int], compute: int, waves: int) -> schedules.Frame:
    operands = []
    for index, name in ((min(n, 1), name) for n, name in enumerate(d.operands)):
        tile = d.block[index] * d.block[2] * d.bytes
        instructions = max(1, -(-tile // (1024 * loading[index])))
        owner = owners[index]
        buffers, via = d.buffers[index], d.via[index]
        apart = (d.arrangement == " interleaved" or d.waves[index] == 1) and d.fragments[index] > 1
        finer = 2 if index == d.finer else 1
        operands.append(schedules.Operand(name, d.fragments[index], buffers, via, owner, instructions, apart, finer))
    slots = lcm(d.register_buffers, d.slices) // d.slices
    return schedules.Frame(
        d.rng, tuple(operands), d.slices, d.register_buffers, roles, compute, waves, features=d.features,
        late=d.late, sums=d.sums, unroll=lcm(slots, d.unroll),
    )  # fmt: skip


def _written(d: Draft, frame: schedules.Frame) -> tuple[list[list[str]] | None, str]:
    """A schedule written line by line, for each role, and the options after `schedule`."""
    frame.automatic_barriers = d.chance(0.02 if frame.roles > 1 else 0.3)
    frame.automatic_waits = d.chance(0.75 if frame.automatic_barriers else 0.3)
    options = ["barriers auto"] if frame.automatic_barriers else ["barriers manual"] * d.chance(0.05)
    options += ["waits auto"] if frame.automatic_waits else ["waits manual"] * d.chance(0.05)
    if d.chance(0.2):
        options.reverse()
    if d.late.random() < 0.2:
        options, frame.automatic_barriers, frame.automatic_waits, frame.ends = [], False, False, True
    for _ in range(8):
        bodies = schedules.schedule(frame, mistakes=0.5 if frame.waves == 1 else 0.15)
        if bodies is not None:
            break
    if bodies is not None:
        d.features.add("written schedule")
        d.features |= {f"mistake: {frame.changed}"} if frame.changed else set()
        d.features |= {f"phase {frame.shift}"} if frame.shift else set()
    return bodies, "".join(f" {option}" for option in options)


def _schedule(d: Draft, loading: list[int]) -> list[str]:
    """None, one by name, or a written one, some of whose waves may run late."""
    rng = d.rng
    if d.chance(0.12):
        return []
    if d.chance(0.15):
        fitting = {8: ["ping_pong"] * 4, 4: ["interleave"] * 4}.get(prod(d.waves), [])
        return [f"  schedule {rng.choice(['auto', 'auto', 'simple', *fitting, 'ping_pong', 'interleave'])}"]
    count = prod(d.waves)
    frame = _frame(d, loading, 1, [0, 0], 0, count)
    late: list[str] = []
    if count > 1 and d.chance(0.25):
        frame.shift = rng.choice([1, 1, 1, 2, 3])
        word = f"{d.number(frame.shift)} {'cluster' if frame.shift == 1 else 'clusters'}"
        first, last = rng.choice([(count // 2, count - 1), (count - 1, count - 1), (0, 0)])
        late = [f"phase waves {_span(first, last - first + 1)} by {word}"]
    lines, header = _written(d, frame)
    if lines is None:
        return []
    return [*(f"  {line}" for line in late), *_indented(lines[0], header, "  ")]
