"""Issue order of MFMAs in a loop of equations: rows at a time, with hints for the instructions between them."""

from __future__ import annotations

from collections.abc import Callable

from tkgen.ir.equations import Axis
from tkgen.schedule.loop_tiles import Multiplication, Outside, extent
from tkgen.schedule.loops import SIDES, LoopMap


def interleaved(m: LoopMap, constant: Callable[[Axis], str]) -> str:
    """The hint that places the product of the next iteration between the computations of this one.

    `constant` names the extent of a tile along an axis.
    """
    x = m.early
    assert x is not None
    summed = constant(x.summed)
    depth = "tk::DEPTH<SIDE>"
    if x.moving.of_bytes:
        depth = f"tk::BYTE_DEPTH<SIDE, {summed}>"
    elif extent(x.summed) % max(SIDES):  # an odd number of quads: instructions of one each
        summed = f"({summed} % tk::DEPTH<SIDE> ? 2 * {summed} : {summed})"
    count = f"({constant(x.rows)} / SIDE) * (COLS / SIDE) * ({summed} / {depth})"
    carried = sum(m.lane_registers(c.inside) for c in m.loop.carries)
    # About four instructions for an element of the scores, one for two of what is carried.
    vector = 4 * m.lane_registers(x.result) + carried // 2
    return f"tk::interleave<{count}, {vector}>();"


def rows_at_once(x: Multiplication | Outside) -> int:
    """Rows of a product's result that are a tile of what is read for it."""
    return next(s for s in SIDES if extent(x.rows) % s == 0)
