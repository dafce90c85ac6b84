"""Predicted time of a dense product of 16-bit factors by its block alone, in milliseconds: no kernel is built.

The model is that of `tiles`. The rounds of tiles are counted for a persistent grid whose blocks take bands of
`GROUP_ROWS` rows of tiles; the first rounds and the last are counted, those between them are like the third.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tkgen.backends.hopper.machine import Hopper, HopperProduct, load_hopper
from tkgen.predict.hopper.model import read_rate
from tkgen.predict.hopper.tiles import BOX_BYTES, L2, NEIGHBOURS, Panel, Round, Rows, Tiles, Tiling

ELEMENT_BYTES = 2
STEP = BOX_BYTES // ELEMENT_BYTES
GROUP_ROWS = 8  # rows of tiles that blocks take together
WATCHED_ROUNDS = 3
# Counted in the machine code of products of 64 x 64 to 128 x 256: 320 to 328, 378, 473 instructions for 1, 2, 4 panels.
OUTSIDE, OUTSIDE_OF_PANEL, OF_STEP = 280, 50, 150
PANEL_COLUMNS, CONSUMER_ROWS = 64, 64


@dataclass(frozen=True)
class Form:
    """A block of a product: rows and columns of its tile, stages, and the axis along which two blocks share copies."""

    rows: int
    columns: int
    stages: int
    clusters: str = ""  # "m": two blocks one below the other share B; "n": two beside each other share A


@dataclass(frozen=True)
class Sizes:
    """The sizes of a product, bytes of the rows of both factors in memory, and if K goes along the rows of both."""

    m: int
    n: int
    k: int
    row_bytes: tuple[int, int]
    along: bool


@cache
def machine(product: str) -> tuple[Hopper, HopperProduct]:
    """The target, and its product of that name, or the one that was measured where it is another."""
    target = load_hopper()
    named = {p.name: p for p in target.products}
    return target, named.get(product, named[target.timing.product])


def seconds(form: Form, sizes: Sizes, product: str, parts: int = 1) -> float:
    """Seconds of one launch; of `parts` of K in blocks of their own, with those of the kernel that adds the parts."""
    target, chip = machine(product)
    panels = form.columns // PANEL_COLUMNS
    consumers, buffers = form.rows // CONSUMER_ROWS, 2 if panels > 1 and form.rows <= 2 * CONSUMER_ROWS else 1
    stored = ELEMENT_BYTES if parts == 1 else 4
    tiling = Tiling(
        (form.rows, form.columns, STEP), ELEMENT_BYTES, form.stages, (form.rows + form.columns) * BOX_BYTES, consumers,
        form.rows * form.columns * stored, OUTSIDE + OUTSIDE_OF_PANEL * panels, OF_STEP, panels // buffers - 1,
        shared=(form.clusters == "n", form.clusters == "m"),
    )  # fmt: skip
    rounds = list(_rounds(form, sizes, chip, parts))
    tiles = Tiles(target, chip, tiling, Rows(sizes.row_bytes, sizes.along), rounds)
    outputs = sizes.m * sizes.n * stored * parts
    moved = ELEMENT_BYTES * sizes.k * (sizes.m + sizes.n) + outputs
    total = sum(r.tiles * r.steps * r.alike for r in rounds)
    found = sum(tiles.start) + tiles.settled(total, moved, outputs).seconds
    if parts == 1:
        return found
    t, added = target.timing, outputs + ELEMENT_BYTES * sizes.m * sizes.n
    second = t.early_launch_us * 1e-6 + t.load_latency_ns * 1e-9
    return found + second + added / read_rate(target, chip, outputs, added - outputs)


def _rounds(form: Form, sizes: Sizes, chip: HopperProduct, parts: int) -> Iterator[Round]:
    """The rounds of tiles of a persistent grid, or of all blocks of parts as they fit the SMs."""
    down, across = -(-sizes.m // form.rows), -(-sizes.n // form.columns)
    if form.clusters:  # a block of a cluster may have nothing
        down, across = (down + down % 2, across) if form.clusters == "m" else (down, across + across % 2)
    count, steps = down * across * parts, max(-(-sizes.k // (STEP * parts)), 1)
    full, rest = divmod(count, chip.sms)
    watched = [chip.sms] * min(full, WATCHED_ROUNDS) + ([rest] if rest else [])
    begin, l2 = 0, L2(chip.l2_bytes)
    for number, tiles in enumerate(watched):
        if number == WATCHED_ROUNDS:
            begin = full * chip.sms
        places = [_place(at, down, across) for at in range(begin, begin + tiles)]
        begin += tiles
        rows = [max(min(form.rows, sizes.m - row * form.rows), 0) for row, _, _ in places]
        columns = [max(min(form.columns, sizes.n - col * form.columns), 0) for _, col, _ in places]
        shared = {"": (1.0, 1.0), "m": (1.0, 0.5), "n": (0.5, 1.0)}[form.clusters]
        lines = shared[0] * sum(rows), shared[1] * sum(columns)
        asked = sum(lines)
        if not form.clusters:
            pairs = zip(
                places[::NEIGHBOURS], places[1::NEIGHBOURS], rows[::NEIGHBOURS], columns[::NEIGHBOURS], strict=False
            )
            for (row, col, part), (next_row, next_col, next_part), own_rows, own_columns in pairs:
                if part == next_part:
                    asked -= own_columns if col == next_col else own_rows if row == next_row else 0
        now: dict[Panel, float] = {
            ("A", row, (part,)): size * BOX_BYTES for (row, _, part), size in zip(places, rows, strict=True)
        }
        now |= {("B", col, (part,)): size * BOX_BYTES for (_, col, part), size in zip(places, columns, strict=True)}
        alike = full - WATCHED_ROUNDS + 1 if number == WATCHED_ROUNDS - 1 and full > WATCHED_ROUNDS else 1
        yield Round(tiles, steps, asked * BOX_BYTES, l2.read(now, steps), lines, alike)


def _place(at: int, down: int, across: int) -> tuple[int, int, int]:
    """Row and column of a tile, and its part of K, by its number."""
    part, at = divmod(at, down * across)
    band, at = divmod(at, GROUP_ROWS * across)
    height = min(GROUP_ROWS, down - band * GROUP_ROWS)
    return band * GROUP_ROWS + at % height, at // height, part
