"""The place of each tile in lanes, waves and LDS, for kernels that are not laid out by output tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tkgen.schedule.loop_registers import shares, total
from tkgen.schedule.loops import LoopMap
from tkgen.schedule.rows import RowMap
from tkgen.tile.ops import barriers

LANES_SHOWN = 3  # of a row: the first ones, and the last


@dataclass(frozen=True)
class Placement:
    """The places of the parts of a tile, as a text and a table of two columns. `stats` are numbers, with a remark."""

    title: str
    text: str
    table: str
    heads: tuple[str, str]
    rows: tuple[tuple[str, str], ...]
    stats: tuple[tuple[str, str, str], ...]


def placement(build: Any) -> Placement | None:
    """Return the places of the tiles of a build, None where its layout has no such table."""
    match getattr(build.spec, "layout", None):
        case LoopMap() as m:
            meetings = f"{barriers(build.spec.schedule.tiles.body)} barriers a pass"
            return Placement(
                "Tiles over waves",
                f"{m.describe()}. Each wave has its part of {m.split.name}, which runs along the columns of all "
                "products.",
                "What takes registers and LDS through the whole loop", ("tile", "where"), tuple(_tiles(m)),
                (
                    ("Tile", f"{m.waves} x {m.columns}", f"of {m.split.name} by wave, {meetings}"),
                    ("Registers", str(build.resources.vgpr), f"per lane; {m.registers} of them through the whole loop"),
                    ("LDS", f"{build.lds_bytes} B", "for the factors that move"),
                ),
            )  # fmt: skip
        case RowMap() as layout:
            return Placement(
                "Rows over lanes",
                f"{layout.describe()}. A lane holds chunks of neighbouring elements, in turn with the other lanes of "
                "its row.",
                "Which lane has what of a row of the tile", ("lane of the row", "elements"), tuple(_lanes(layout)),
                tuple(_row_stats(build, layout)),
            )  # fmt: skip
    return None


def _row_stats(build: Any, layout: RowMap) -> Iterator[tuple[str, str, str]]:
    yield "Tile", f"{layout.row_count} x {layout.length}", f"{layout.waves} waves, {layout.waves_of_row} to a row"
    if build.function is not None:
        yield "Registers", str(build.resources.vgpr), f"per lane; {layout.registers} were predicted"
        yield "LDS", f"{build.lds_bytes} B", "for what waves tell each other" if layout.exchanges else "none is needed"


def _tiles(m: LoopMap) -> Iterator[tuple[str, str]]:
    """Yield the tiles that a loop of equations holds from iteration to iteration."""
    for ring in m.moving:
        across = any(x.across and x.moving == ring for x in m.multiplications)
        way = ", turned on the way" * ring.turned + ", read both ways" * across
        yield ring.name, f"{ring.bytes} B of LDS, {ring.buffers} tiles{way}"
    for op in m.combined:
        yield str(op.result), f"{m.part_bytes(op)} B of LDS, where waves combine their parts"
    for load in (*m.held, *m.columns_loaded, *m.tiles_loaded):
        yield load.source.tensor.name, f"registers, {m.lane_registers(load.result)} of a lane"
    for carry in m.loop.carries:
        yield carry.inside.name, f"registers, {m.lane_registers(carry.inside)} of a lane, handed from pass to pass"
    found = shares(m)
    most = "; ".join(f"{share.what.replace('`', '')}: {share.registers}" for share in found)
    yield "all at the fullest product", f"at least {total(found)} registers of a lane: {most}"


def _lanes(layout: RowMap) -> Iterator[tuple[str, str]]:
    """For some lanes of a row the elements that each holds."""
    shown = [*range(min(LANES_SHOWN, layout.lanes)), layout.lanes - 1]
    for lane in dict.fromkeys(shown):
        first = [(c * layout.lanes + lane) * layout.chunk for c in range(layout.chunks)]
        ranges = [f"{at}..{min(at + layout.chunk, layout.length) - 1}" for at in first if at < layout.length]
        if len(ranges) > LANES_SHOWN + 1:
            ranges = [*ranges[:LANES_SHOWN], "...", ranges[-1]]
        yield str(lane), ", ".join(ranges) or "none"
