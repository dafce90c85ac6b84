"""Random kernels of products in which dimensions share names and sizes, and what they mean, said by indices alone.

A kernel is drawn with its roles - rows, columns, contraction, indices - apart from the names and sizes of dimensions
that they run over: any of these may be the same. `meant` computes what it writes with einsum, in f64, of the roles:
it reads no spec. Inputs are small integers, and all steps are exact in f32, so results are compared bit by bit.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "i8": torch.int8, "i32": torch.int32}
TARGETS = ("gfx90a", "gfx942", "gfx950")
NAMES = ("D", "K", "M", "N", "SIDE", "B")
LETTERS = "mnkbedtij"
SIZES = (32, 64, 96)
LAYOUTS = {"NN": ("mk", "kn"), "NT": ("mk", "nk"), "TN": ("km", "kn"), "TT": ("km", "nk")}


@dataclass
class Tensor:
    """A tensor: the role of each of its dimensions, `divided` those of blocks or steps."""

    name: str
    dtype: str
    roles: str
    divided: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Kernel:
    """A drawn kernel: `text` is its spec; the rest is what it means."""

    text: str
    target: str
    layout: str
    tensors: list[Tensor]
    sizes: dict[str, int]  # of each role
    steps: list[tuple[str, str]]  # behind the sum: what is done, with which tensor
    out: Tensor
    step_scale: str = ""  # a tensor that scales each step's product
    ends: list[int] = field(default_factory=list)  # where groups of rows begin, and the last one ends
    rows_at: str = ""  # the tensor of places of the left factor's rows

    @property
    def multiplied(self) -> str:
        """The layout of the product's operands, by the rows and columns of the output: `AB`, `ABt`, ..."""
        first, second = self.layout
        if self.out.roles.replace("b", "") == "nm":  # the other way round: the right factor is along the rows
            first, second = ("NT"[factor == "N"] for factor in (second, first))
        return ("A" if first == "N" else "At") + ("B" if second == "N" else "Bt")

    def expected(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The same, rounded to the type of the output."""
        meant, dtype = self.meant(inputs), TORCH[self.out.dtype]
        if dtype.is_floating_point:
            return meant.to(torch.float32).to(dtype).double()
        return meant.round().clamp(torch.iinfo(dtype).min, torch.iinfo(dtype).max)

    def inputs(self, seed: int) -> dict[str, torch.Tensor]:
        """Small integers, scales that are powers of two, offsets and places."""
        made, found = torch.Generator().manual_seed(seed), dict[str, torch.Tensor]()
        for t in self.tensors:
            shape = [-(-self.sizes[r] // t.divided.get(r, 1)) for r in t.roles]
            if t.name == "ENDS":
                found[t.name] = torch.tensor(self.ends, dtype=torch.int32)
            elif t.name == self.rows_at and t.name:
                found[t.name] = torch.randint(-1, self.sizes["t"] + 1, shape, generator=made, dtype=torch.int32)
            elif t.dtype in ("bf16", "f16", "f32") and t.name[0] in "STU":
                found[t.name] = torch.exp2(torch.randint(-1, 2, shape, generator=made).float()).to(TORCH[t.dtype])
            else:
                found[t.name] = torch.randint(-3, 4, shape, generator=made).to(TORCH[t.dtype])
        return found

    def meant(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The output in f64; NaN in rows that are in no group."""
        wide = {n: t.double() for n, t in inputs.items()}
        size, batch = self.sizes, "b" if "b" in self.out.roles else ""
        spread = {t.name: self._spread(t, wide[t.name]) for t in self.tensors if t.name not in ("ENDS", self.rows_at)}
        left, of_left = spread["A"], next(t for t in self.tensors if t.name == "A").roles
        if self.rows_at:
            places = inputs[self.rows_at].long()
            inside = (places >= 0) & (places < size["t"])
            left = left[places.clamp(0, size["t"] - 1)] * inside[:, None]
            of_left = of_left.replace("t", "m")
        right, of_right = spread["W"], next(t for t in self.tensors if t.name == "W").roles
        if self.ends:
            out = torch.full((size["m"], size["n"]), torch.nan, dtype=torch.float64)
            for e, (first, last) in enumerate(zip(self.ends, self.ends[1:], strict=False)):
                own = right[e] if of_right[0] == "e" else right
                out[first:last] = torch.einsum(f"{of_left},{of_right.replace('e', '')}->mn", left, own)[first:last]
            group = torch.zeros(size["m"], dtype=torch.long)
            for e, (first, last) in enumerate(zip(self.ends, self.ends[1:], strict=False)):
                group[first:last] = e
        elif self.step_scale:
            scale = next(t for t in self.tensors if t.name == self.step_scale)
            terms = f"{of_left},{of_right},{scale.roles}->{batch}mn"
            out = torch.einsum(terms, left, right, spread[self.step_scale])
        else:
            out = torch.einsum(f"{of_left},{of_right}->{batch}mn", left, right)
        for what, name in self.steps:
            if what == "relu":
                out = out.relu()
            elif what == "lower":
                at = torch.arange(size["m"])[:, None] >= torch.arange(size["n"])[None, :]
                out = torch.where(at, out, torch.zeros(()))
            else:
                tensor = next(t for t in self.tensors if t.name == name)
                value, roles = spread[name], tensor.roles
                if roles[0] == "e":
                    value, roles = value[group], "m" + roles[1:]
                value = torch.einsum(f"{roles},{batch}mn->{batch}mn", value, torch.ones_like(out).nan_to_num(1.0))
                out = out + value if what == "add" else out * value
        return torch.einsum(f"{batch}mn->{self.out.roles}", out)

    def _spread(self, tensor: Tensor, value: torch.Tensor) -> torch.Tensor:
        """With an element for each place of its roles, where it has one for several."""
        for at, role in enumerate(tensor.roles):
            if role in tensor.divided:
                value = value.index_select(at, torch.arange(self.sizes[role]) // tensor.divided[role])
        return value


def drawn(seed: int, target: str = "") -> Kernel:
    """The kernel of a seed."""
    rng = random.Random(f"products {seed}")
    target = target or rng.choice(TARGETS)
    hopper = target == "sm_90a"
    layout = rng.choice(list(LAYOUTS))
    kind = rng.choice(["plain", "plain", "batch", "batch", "groups", "gathered", "steps"])
    roles = "mnk" + {"batch": "b", "groups": "e", "gathered": "t"}.get(kind, "")
    if kind in ("groups", "gathered") and layout[0] == "T":
        layout = "N" + layout[1]
    sizes, names = _dims(rng, roles, hopper)
    letter = dict(zip("mnkbet", rng.sample(LETTERS, 6), strict=True))
    rows, cols, step = (128, 128, 64) if hopper else (32, 32, 32)
    tile = {"m": rows, "n": cols, "k": step}
    if kind == "steps":
        tile["k"] = 64 if hopper else rng.choice([32, 64])
    dtype = rng.choice(["bf16", "bf16", "f16"])
    masked = kind == "groups" or any(sizes[r] % tile[r] for r in "mnk")
    left, right = LAYOUTS[layout]
    left = left.replace("m", "t") if kind == "gathered" else left
    if kind == "batch":
        left, right = _batched(rng, left), _batched(rng, right)
        if "b" not in left + right:
            left = f"b{left}"
    if kind == "groups" and rng.random() < 0.8:
        right = f"e{right}"
    out = rng.choice(["mn", "nm"]) if kind not in ("groups",) else "mn"
    if kind == "batch":
        out = _batched(rng, out, always=True)
    more = random.Random(f"more {seed}")
    integers = more.random() < 0.4
    out_tensor = Tensor("Y", rng.choice(["f32", "f32", dtype]), out)
    if integers and not hopper and more.random() < 0.3:
        out_tensor.dtype = more.choice(["i32", "i8"])
    tensors = [Tensor("A", dtype, left), Tensor("W", dtype, right)]
    steps, step_scale = list[tuple[str, str]](), ""
    if kind == "steps":
        scale = rng.choice(["k", "mk", "km", "nk", "kn"])
        step_scale, by = "S", {"k": tile["k"]}
        tensors.append(Tensor("S", more.choice(["i32", "i8"]) if integers else "f32", scale, by))
    for number in range(rng.choice([0, 1, 1, 2])):
        what = rng.choice(["add", "add", "mul", "relu", "lower"])
        what = "add" if what == "lower" and kind == "groups" else what
        if what in ("relu", "lower"):
            steps.append((what, ""))
            continue
        choices = ["m", "n", "mn", "nm"]
        choices += {"batch": ["b", "bm", "nb", "bnm", "mbn"], "groups": ["e", "en"]}.get(kind, [])
        name = f"{'U' if what == 'mul' else 'V'}{number}"
        kept = rng.choice(["f32", dtype])
        tensors.append(Tensor(name, more.choice(["i32", "i8"]) if integers else kept, rng.choice(choices)))
        steps.append((what, name))
    ends = list[int]()
    if kind == "groups":
        size = sizes["m"]
        ends = sorted(rng.choice([0, size, rng.randint(0, size), rng.randint(0, size)]) for _ in range(sizes["e"] + 1))
        tensors.insert(0, Tensor("ENDS", "i32", "+"))
    rows_at = ""
    if kind == "gathered":
        rows_at = "ROW"
        tensors.append(Tensor("ROW", "i32", "m"))

    # ------------------------------------------------ text
    def ref(t: Tensor) -> str:
        return f"{t.name}[{', '.join(letter[r] + (f' / {t.divided[r]}' if r in t.divided else '') for r in t.roles)}]"

    shown = dict(zip(names.values(), (sizes[r] for r in names), strict=True))
    if ends:
        shown["ENDS_SIZE"] = sizes["e"] + 1
    divided = {}
    for t in tensors:
        for r, by in t.divided.items():
            divided[r, by] = f"{names[r]}_BY"
            shown[f"{names[r]}_BY"] = -(-sizes[r] // by)

    def declared(t: Tensor) -> str:
        dims = ["ENDS_SIZE" if r == "+" else divided[r, t.divided[r]] if r in t.divided else names[r] for r in t.roles]
        return f"  global {t.name} : {t.dtype}[{', '.join(dims)}]"

    a, w = tensors[1 if ends else 0], tensors[2 if ends else 1]
    left_text = ref(a).replace(f"A[{letter['t']},", f"A[ROW[{letter['m']}],") if rows_at else ref(a)
    left_text += ".T" if layout[0] == "T" else ""
    product = f"{left_text} @ {ref(w)}{'.T' if layout[1] == 'T' else ''}"
    if step_scale:
        product = f"{ref(next(t for t in tensors if t.name == 'S'))} * ({product})"
    parallel = [f"{letter[r]} in {names[r]}" for r in roles if r in "be"]
    rows = f"{letter['m']} in {names['m']}" + (f" within ENDS[{letter['e']}]" if ends else "")
    tiled = [f"{rows} by {tile['m']}", f"{letter['n']} in {names['n']} by {tile['n']}"]
    if rng.random() < 0.3 and not ends:
        tiled.reverse()
    lines = [
        f"kernel drawn_{seed}",
        f"  dims {', '.join(f'{n} = {s}' for n, s in shown.items())}",
        *map(declared, tensors), declared(out_tensor),
        f"  over {', '.join([*parallel, *tiled])}",
    ]  # fmt: skip
    lines += ["  tail masked"] * masked
    if hopper:
        lines += ["  shared A, W buffers 2 via direct", "  role producer waves 0..3", "    load A, W",
                  "  role consumer waves 4..11 as 8 x 1", "    accumulate acc : f32 tile 16 x 128"]  # fmt: skip
    else:
        lines += ["  waves 2 x 2", f"  shared A, W{rng.choice([' buffers 2', ''])}{rng.choice(['', ' via registers'])}"]
    lines += ["  allow slow_reads", f"  target {target}"]
    lines += [f"  each {letter['k']} in {names['k']} by {tile['k']}", f"    acc = acc + {product}"]
    value = "acc"
    for what, name in steps:
        other = ref(next(t for t in tensors if t.name == name)) if name else ""
        value = {
            "relu": f"relu({value})", "lower": f"where({letter['m']} >= {letter['n']}, {value}, 0)",
            "add": f"({value} + {other})", "mul": f"({value} * {other})",
        }[what]  # fmt: skip
    lines.append(f"  {ref(out_tensor)} = {value}")
    sizes["+"] = len(ends)
    return Kernel("\n".join(lines) + "\n", target, layout, tensors, sizes, steps, out_tensor, step_scale, ends, rows_at)


def _dims(rng: random.Random, roles: str, hopper: bool) -> tuple[dict[str, int], dict[str, str]]:
    """Sizes and names of the roles: of some that are as large the same name, of others another."""
    pool = (64, 128) if hopper else SIZES
    one = rng.choice(pool)
    sizes = {r: one if rng.random() < 0.7 else rng.choice(pool) for r in roles}
    for r in roles:
        if r in "be" and rng.random() < 0.7:
            sizes[r] = rng.choice([1, 2, 3])
    if rng.random() < 0.3:
        ragged = rng.choice([40, 72])
        sizes = {r: ragged if s == one and r not in "be" else s for r, s in sizes.items()}
    names, free = dict[str, str](), rng.sample(NAMES, len(NAMES))
    for r in rng.sample(roles, len(roles)):
        same = [n for other, n in names.items() if sizes[other] == sizes[r]]
        names[r] = rng.choice(same) if same and rng.random() < 0.7 else free.pop()
    return sizes, {r: names[r] for r in roles}


def _batched(rng: random.Random, roles: str, always: bool = False) -> str:
    """With the index in front, between, or nowhere."""
    choices = [f"b{roles}", f"{roles[0]}b{roles[1]}"] + [roles] * (not always)
    return rng.choice(choices)


def dynamic(text: str, seed: int) -> tuple[str, dict[str, int]]:
    """A spec with some dimensions known only at run time, and their sizes."""
    rng = random.Random(f"dynamic {seed}")
    head = next(line for line in text.split("\n") if line.startswith("  dims "))
    sizes = {name: int(size) for name, size in re.findall(r"(\w+) = (\d+)", head)}
    chosen = {n: s for n, s in sizes.items() if n in NAMES and f"{n}_BY" not in sizes and rng.random() < 0.6}
    for name, size in chosen.items():
        text = re.sub(rf"\b{name} = {size}\b", f"{name} = dynamic", text, count=1)
    return text, chosen
