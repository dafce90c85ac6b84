"""Random kernels of one to three sums of products, and of what becomes of them.

Shapes, storage, waves, roles and schedules are drawn as for products by clauses (`fuzzing.specs`); equations say the
rest: layouts and batches of the factors, formulas of the sums, reductions of the block's tile, several outputs.
"""

from __future__ import annotations

from math import prod

from fuzzing import specs
from fuzzing.formulas import BOTH, COL, DTYPES, ONE, ROW, Formulas
from fuzzing.specs import Draft, Sample

SUMS = ("g", "u", "z")


def sums(seed: int) -> Sample:
    """A kernel of sums of products."""
    d = specs.started(seed, "sums")
    specs.shapes(d)
    _counted(d)
    specs.storage(d)
    batch = d.chance(0.2)
    parts = 0 if batch or not d.chance(0.15) else d.rng.choice([1, 2, 3])
    d.grid = "" if batch or parts or (d.grid in ("split_k", "stream_k") and d.chance(0.9)) else d.grid
    head, extents, ragged = _sizes(d, batch, parts)
    tensors, loop = _factors(d, batch)
    at = "h, " if batch else "p, " if parts else ""
    outputs, lines, features = _outputs(d, at, extents)
    d.features |= features | {f"sums {len(d.sums)}", "ragged" if ragged else "even"}
    d.features |= {name for name, there in (("batch", batch), ("parts", parts)) if there}
    over = f"over {'h in H, ' if batch else 'p in P, ' if parts else ''}"
    over += f"m in M by {d.number(d.block[0])}, n in N by {d.block[1]}"
    written = [line for line in specs.later(d, specs.work(d, [])) if not line.strip().startswith("stream")]
    each = f"each k in K by {d.number(d.block[2])}{' part p' if parts else ''}"
    clauses, schedule = _apart(written)
    body = [
        *head, *(f"  {line}" for line in (*tensors, *outputs, "scalar s : f32 = 0.5")), f"  {over}", *specs.mapping(d),
        *([f"  tail {d.tail}"] if d.tail else []), *_allowed(d, tensors), *clauses, f"  {each}",
        *(f"    {line}" for line in loop), *(f"  {line}" for line in lines), *schedule,
    ]  # fmt: skip
    return specs.finished(seed, d, body, extents, ragged, "sums")


def _counted(d: Draft) -> None:
    """Draw the number of sums: mostly as many as a wave has registers for."""
    number = d.rng.choice([1, 1, 2, 3])
    while number > 1 and number * prod(d.tile) * prod(d.fragments) > 64 * 64 and d.chance(0.95):
        number -= 1
    d.sums = SUMS[:number]
    d.rights = tuple(f"B{name}" for name in d.sums)
    if d.grid == "stream_k":
        d.unroll = 1


def _sizes(d: Draft, batch: bool, parts: int) -> tuple[list[str], dict[str, tuple[int, ...]], int]:
    """Dimensions, those of run time among them, and what the last K-step lacks."""
    rng = d.rng
    if not d.direct and d.chance(0.4):
        d.tail = rng.choice(["masked", "masked", "masked", "clamped"])
    d.dynamic = tuple(name for name, p in (("M", 0.2), ("N", 0.1), ("K", 0.4)) if d.chance(p))
    if parts and d.chance(0.9):
        d.dynamic = tuple(name for name in d.dynamic if name != "K")
    whole = d.chance(0.4)  # a block has whole rows
    lengths = {name: specs.lengths(d, unit) for name, unit in zip("MN", d.block[:2], strict=True)}
    if whole:
        lengths["N"] = [n for n in lengths["N"] if n <= d.block[1]] or [d.block[1]]
    chunk = 1 if d.chance(0.3) else 16 // d.bytes
    ragged = min(chunk * rng.randint(1, 6), d.block[2] - 1) if d.tail == "masked" and d.chance(0.7) else 0
    steps = d.steps * d.unroll * max(parts, 1)
    fixed = {"K": max(d.block[2] * steps - ragged, 1)}
    fixed |= {name: rng.choice(choices) for name, choices in lengths.items()}
    named = ", ".join(f"{n} = {'dynamic' if n in d.dynamic else d.number(fixed[n])}" for n in "MNK")
    more = [*(["H = 3"] if batch else []), *([f"P = {parts}"] if parts else [])]
    more += [f"ROWS = ceil_div(M, {d.block[0]})"] * ("M" not in d.dynamic)
    more += [f"COLS = ceil_div(N, {d.block[1]})"] * ("N" not in d.dynamic)
    extents = {n: tuple(lengths[n]) for n in d.dynamic if n != "K"}
    return [f"  dims {named}", *([f"  dims {', '.join(more)}"] if more else [])], extents, ragged


def _factors(d: Draft, batch: bool) -> tuple[list[str], list[str]]:
    """The factors as tensors, and the lines of the loop: either way round, of a batch, with others between rows."""
    first = d.chance(0.25)
    before, at = ("H, ", "h, ") if batch else ("", "")
    strided = batch and d.chance(0.3) and not first
    shape = "M, H, K" if strided else f"{before}{'K, M' if first else 'M, K'}"
    tensors = [f"global A : {d.dtype}[{shape}]"]
    left = "A[m, h, k]" if strided else f"A[{at}k, m].T" if first else f"A[{at}m, k]"
    loop = []
    for name, right in zip(d.sums, d.rights, strict=True):
        turned = d.chance(0.25)
        apart = batch and not turned and d.chance(0.5)
        held = "K, N" if turned else f"N, {'H, ' if apart else ''}K"
        tensors.append(f"global {right} : {d.dtype}[{'' if apart else before}{held}]")
        index = "k, n" if turned else f"n, {'h, ' if apart else ''}k"
        factor = f"{right}[{'' if apart else at}{index}]" + ("" if turned else ".T")
        loop.append(f"{name} = {name} + {left} @ {factor}")
    return tensors, loop


def _outputs(d: Draft, at: str, extents: dict[str, tuple[int, ...]]) -> tuple[list[str], list[str], set[str]]:
    """Tensors beside the factors, and the equations after the loop."""
    rng, before = d.rng, at.upper()
    leaves: dict[str, list[str]] = {BOTH: list(d.sums), ROW: [], COL: [], ONE: ["0.75", "s", "2"]}
    tensors: list[str] = []
    for name, dims, kind, index in (
        ("D", f"[{before}M, N]", BOTH, f"D[{at}m, n]"), ("w", "[N]", COL, "w[n]"), ("v", "[M]", ROW, "v[m]"),
    ):  # fmt: skip
        if d.chance(0.3):
            tensors.append(f"global {name} : {rng.choice(DTYPES)}{dims}")
            leaves[kind].append(index)
    if d.chance(0.2):
        leaves[BOTH].append(rng.choice(["where(m >= n, 1, 2)", "where(m > n and n > 3 or m == 0, 1, 2)"]))
    reduced = d.chance(0.45) and d.tail != "clamped"
    words = ("rowmax", "rowmin", "rowsum") if reduced and "N" not in extents else ()
    columns = ("colmax", "colmin", "colsum") if reduced and "M" not in extents and d.chance(0.5) else ()
    made = Formulas(rng, leaves, {ROW: words, COL: columns})
    made.draw(rng.randint(1, 3) if d.chance(0.8) else 0)
    stores = []
    rows_of, cols_of = ([line.split(" = ")[0] for line in made.lines if f"= {way}" in line] for way in ("row", "col"))
    if rows_of:
        tensors.append(f"global R : {rng.choice(DTYPES)}[{before}M, COLS]")
        stores.append(f"R[{at}m, n / {d.block[1]}] = {' + '.join(rows_of)}")
    if cols_of:
        tensors.append(f"global C : {rng.choice(DTYPES)}[{before}ROWS, N]")
        stores.append(f"C[{at}m / {d.block[0]}, n] = {' + '.join(cols_of)}")
    tensors.append(f"global Y : {rng.choice(DTYPES)}[{before}M, N]")
    plain = len(d.sums) == 1 and d.chance(0.2)
    formula = d.sums[0] if plain else f"{made.formula_of_both()} + 0 * ({' + '.join(d.sums)})"
    stores.append(f"Y[{at}m, n] = {formula}")
    if any(leaf.startswith("D[") for leaf in leaves[BOTH]) and d.chance(0.3):
        stores.insert(rng.randint(0, len(stores)), f"D[{at}m, n] = {made.formula_of_both()}")
        made.features.add("stored in place")
    if d.chance(0.05):
        stores.append("reference matmul(A, B)")
    made.features.add(f"outputs {len(stores)}")
    return tensors, [*made.lines, *stores], made.features


def _allowed(d: Draft, tensors: list[str]) -> list[str]:
    """The `allow` and `target` lines of a spec."""
    slow = any("[K, " in t or "H, K, " in t for t in tensors)
    allowed = ["slow_reads"] * slow + [name for name in ("spills", "low_occupancy") if d.chance(0.15)]
    return [*([f"  allow {', '.join(allowed)}"] if allowed else []), f"  target {d.target}"]


def _apart(lines: list[str]) -> tuple[list[str], list[str]]:
    """The clauses, and the schedule of the whole kernel with its phases, which stands last."""
    at = next((n for n, line in enumerate(lines) if line.startswith(("  schedule", "  phase"))), len(lines))
    return lines[:at], lines[at:]
