"""Random products of 8-bit floats and integers: ways to registers, tails, scales after and within the loop.

Some right factors are computed of weights of 8 and 4 bits on their way to the product.
"""

from __future__ import annotations

import random
import re

from fuzzing.specs import Sample

TARGETS = ("gfx942", "gfx950", "gfx90a")
WAVES = ((1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (4, 2))


# Of variables, constants and functions of generated files and their headers.
NAMES = (
    "c_acc", "A_s", "B_r", "tile_row", "K_STEP", "step", "lane", "wave", "acc", "sum", "x0", "values", "globals", "g",
    "fp8", "int8_t", "bf16", "row", "col", "t0", "scale", "TILE", "BLOCK", "ROWS", "number_at", "whole", "half",
)  # fmt: skip


def narrow(seed: int) -> Sample:
    """A kernel of one or two sums of products in elements of one byte; some of bf16, scaled within the loop.

    Some seeds change what is drawn: dimensions of one name, integers as scales, values used twice, masks with
    infinities, names of the generated C++.
    """
    made = _plain(seed)
    rng = random.Random(f"late narrow {seed}")
    text, features = made.text, set(made.features)
    if rng.random() < 0.2:
        text = _of_one_name(text, rng, features)
    if rng.random() < 0.2:
        features.add("integers as scales")
        text = re.sub(r"global ([stuv]|each) : \w+\[",
                      lambda found: f"global {found[1]} : {rng.choice(['i32', 'i8', 'f16'])}[", text)  # fmt: skip
    if rng.random() < 0.25:
        features.add("used twice")
        text = re.sub(
            r"(\n  x = )(.*)", rng.choice([r"\1(\2) + 0.5 * c", r"\1(\2) * 0.5 + relu(\2)", r"\1max(c, \2)"]), text
        )
    if rng.random() < 0.2 and "global C : f32" in text:
        features.add("mask with infinities")
        mask = rng.choice(["m >= n", "n < 40", "m + 1 > n and n >= 0", "n - m <= 3"])
        text = re.sub(r"(\n  x = )(.*)", rf"\1where({mask}, \2, {rng.choice(['-inf', 'inf'])})", text)
        text = text.replace("= rowmax(abs(x))", "= rowmax(x)") if rng.random() < 0.5 else text
    if rng.random() < 0.2:
        features.add("names of the C++")
        taken = set(re.findall(r"\w+", text))
        olds = rng.sample(sorted({"c", "A", "B", "C", "s", "t", "u", "v"} & taken), 2)
        for old, new in zip(olds, rng.sample([n for n in NAMES if n not in taken], 2), strict=True):
            text = re.sub(rf"\b{old}\b", new, text)
    return Sample(seed, text, made.target, made.extents, step=made.step, features=frozenset(features), family="narrow")


def _of_one_name(text: str, rng: random.Random, features: set[str]) -> str:
    """N, or N and M, as K: a square factor of one dimension."""
    sizes = {name: int(size) for name, size in re.findall(r"\b([MNK]) = (\d+)", text)}
    others = rng.choice(["N", "N", "MN", "M"])
    size = max(sizes["K"], *(sizes[name] for name in others))
    features.add("dimensions of one name")
    for name in others:
        text = re.sub(rf"\b{name} = \d+, ", "", text, count=1)
        text = re.sub(rf"\b{name}\b", "K", text)
    found = re.search(r"K = \d+, ", text)
    assert found is not None
    return text.replace(found[0], "", 1).replace("dims ", f"dims K = {size}, ", 1)


def _plain(seed: int) -> Sample:
    """A sample before some of it is changed."""
    rng = random.Random(f"narrow {seed}")
    target = rng.choice(TARGETS[:2] if rng.random() < 0.85 else TARGETS)
    dtype = rng.choice(["fp8", "fp8", "bf8", "i8", "bf16"])
    whole = dtype == "i8"
    side = rng.choice([16, 16, 16, 32])
    waves = rng.choice(WAVES)
    rows, cols = (w * rng.choice([side, side, 2 * side]) for w in waves)
    step = rng.choice([64, 64, 128, 192, 256])
    size = 2 if dtype == "bf16" else 1
    while (rows + cols) * step * size > 65536:
        step //= 2
    masked = rng.random() < 0.5
    steps = rng.choice([1, 1, 2, 3, 4])
    m, n, k = rows * rng.choice([1, 2]), cols * rng.choice([1, 2]), step * steps
    if masked:
        m, n, k = (max(x - rng.choice([0, 1, 5, 16]), 1) for x in (m, n, k))
    scaled = (not whole and rng.random() < 0.4) or dtype == "bf16"
    out = rng.choice(["f32", "bf16", "fp8", "i8", "i32"] if target != "gfx90a" else ["f32", "bf16", "i8", "i32"])
    features = {dtype, f"out {out}", *(["scaled"] if scaled else []), *(["masked"] if masked else [])}
    way = _way(rng, step, scaled, target, masked, size)
    lines = [
        f"dims M = {m}, N = {n}, K = {k}, STEPS = ceil_div(K, {step}), TILES = ceil_div(N, {cols})",
        f"global A : {dtype}[M, K]", f"global B : {dtype}[N, K]", f"global C : {out}[M, N]", f"target {target}",
    ]  # fmt: skip
    term, value = "A[m, k] @ B[n, k].T", "c"
    for name, shape, index in (("s", "M, STEPS", f"m, k / {step}"), ("t", "TILES, STEPS", f"n / {cols}, k / {step}")):
        if scaled and rng.random() < 0.7:
            lines.append(f"global {name} : {rng.choice(['f32', 'bf16'])}[{shape}]")
            term = rng.choice([f"{name}[{index}] * ({term})", f"({term}) * {name}[{index}]"])
    for name, index in (("u", "m"), ("v", "n")):
        if rng.random() < 0.4:
            lines.append(f"global {name} : {rng.choice(['f32', 'bf16', 'f32', 'i8'])}[{index.upper()}]")
            value = f"{name}[{index}] * {value}"
    if rng.random() < 0.3:
        value = f"{rng.choice(['relu', 'abs', 'silu'])}({value})"
    if rng.random() < 0.3:
        lines.append("global MOST : f32[M, TILES]")
    lines += [f"over m in M by {rows}, n in N by {cols}", f"waves {waves[0]} x {waves[1]}", *way]
    lines += ["tail masked"] * masked
    tile = f"{side} x {side}" + (f" mfma {side} x {side}" if side == 32 and rng.random() < 0.6 else "")
    lines.append(f"accumulate c : {'i32' if whole else 'f32'} tile {tile}{rng.choice(['', ' interleaved'])}".replace(
        f" mfma {side} x {side} interleaved", f" interleaved mfma {side} x {side}"))  # fmt: skip
    lines += [f"each k in K by {step}", f"  c = c + {term}", f"x = {value}", "C[m, n] = x"]
    if any(line.startswith("global MOST") for line in lines):
        lines.append(f"MOST[m, n / {cols}] = rowmax(abs(x))")
    if dtype == "bf16":
        lines = _of_weights(seed, lines, step, features)
    if target == "gfx950" and dtype in ("fp8", "bf8") and not scaled:
        lines = _with_blocks(seed, lines, step, features)
    text = f"kernel fuzz_{seed}\n" + "".join(f"  {line}\n" for line in lines)
    return Sample(seed, text, target, step=step, features=frozenset(features), family="narrow")


def _of_weights(seed: int, lines: list[str], step: int, features: set[str]) -> list[str]:
    """Half of the times with weights of integers, of which the right factor is computed."""
    rng = random.Random(f"narrow weights {seed}")
    if rng.random() < 0.5:
        return lines
    dtype, order = rng.choice(["i8", "i4", "u4", "u4"]), rng.choice(["", " interleaved"])
    group = rng.choice([32, 64, step, step])
    formula = "B[n, k]"
    features |= {"weights", dtype}
    more = []
    if rng.random() < 0.6:
        more.append(f"global zero : i8[N, PARTS_{group}]")
        formula = f"({formula} - zero[n, k / {group}])"
    if rng.random() < 0.5:
        more.append(f"global each : {rng.choice(['f32', 'bf16'])}[N, PARTS_{group}]")
        formula = f"each[n, k / {group}] * {formula}"
    if rng.random() < 0.2:
        formula = f"{formula} * 0.5"
    if order and dtype != "i8":
        features.add("interleaved")
    text = "\n".join(lines).replace("STEPS = ", f"PARTS_{group} = ceil_div(K, {group}), STEPS = ", 1)
    text = text.replace("global B : bf16[N, K]", f"global B : {dtype}[N, K]{order if dtype != 'i8' else ''}", 1)
    text = text.replace("global C", "\n".join([*more, "global C"]), 1)
    return text.replace("B[n, k].T", f"bf16({formula}).T", 1).split("\n")


def _with_blocks(seed: int, lines: list[str], step: int, features: set[str]) -> list[str]:
    """Two of three times with a scale for each block of 32 of the factors, where instructions sum whole slices so.

    Either factor may have 4, 6 or 8 bits.
    """
    rng = random.Random(f"narrow blocks {seed}")
    text = "\n".join(lines)
    found = re.search(r"slice (\d+)", text)
    if (int(found[1]) if found else step) % (64 if "mfma 32" in text else 128) or rng.random() < 0.33:
        return lines
    features.add("blocks")
    formats = ["fp8", "bf8", "e2m1", "e2m1", "e2m3", "e3m2"]
    text = text.replace("STEPS = ", "BLOCKS = ceil_div(K, 32), STEPS = ", 1)
    for name in rng.choice(["A", "B"]), "B":
        dtype = rng.choice(formats)
        text = re.sub(rf"global {name} : \w+", f"global {name} : {dtype}", text)
        features.add(dtype)
    text = text.replace("global C", "global x8 : e8m0[M, BLOCKS]\nglobal y8 : e8m0[N, BLOCKS]\nglobal C", 1)
    scaled = "(x8[m, k / 32] * A[m, k]) @ (B[n, k] * y8[n, k / 32]).T"
    return text.replace("A[m, k] @ B[n, k].T", scaled).split("\n")


def _way(rng: random.Random, step: int, scaled: bool, target: str, masked: bool, size: int) -> list[str]:
    """Lines that load operands into registers."""
    slices = [s for s in (64, 128, step) if step % s == 0 and (not scaled or s == step)]
    registers = f"registers A, B slice {rng.choice(slices)}" if slices and rng.random() < 0.6 else ""
    if target == "gfx950" and not masked and rng.random() < 0.3:
        slices = [s for s in (64 // size, 128, step) if step % s == 0 and (not scaled or s == step)]
        return [f"shared A, B buffers {rng.choice([1, 2, 3])} via direct", f"registers A, B slice {rng.choice(slices)}"]
    draw = rng.random()
    if draw < 0.2:
        return [f"registers A, B buffers {rng.choice([1, 2, 3])}"]
    if draw < 0.35:
        return ["shared A", "registers B"]
    via = rng.choice(["", "", " via registers"])
    shared = f"shared A, B buffers {rng.choice([1, 1, 2])}{via}"
    return [shared, *([registers + rng.choice(["", " buffers 2"])] if registers else [])]
