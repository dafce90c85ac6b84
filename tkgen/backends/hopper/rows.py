"""Rows over the lanes of warps -> CUDA C++: the layout of `tkgen.schedule.rows`.

A lane moves 16 bytes at a time; what the lanes of a warp share of a row they shuffle, several warps exchange through
shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.cdna.lower.rows import RowLowering
from tkgen.backends.hopper.file import File, Member
from tkgen.backends.hopper.machine import SmLanes
from tkgen.backends.hopper.neighbours import ALONE, Neighbours
from tkgen.ir.functions import HOPPER
from tkgen.remap import Remap
from tkgen.schedule.rows import RESIDENT, RowMap


def lower_rows(
    m: RowMap, lanes: SmLanes, header: Sequence[str] = (), spec: str = "", occupancy: int | None = None,
    remap: Remap | None = None, persistent: int = 0, beside: Neighbours = ALONE,
) -> Source:  # fmt: skip
    """The generated file: `header` are lines of comment, `spec` is the path that its comments name.

    `occupancy` is how many warps are to share a sub-partition, where the spec says so; else ptxas has all registers
    that one block leaves it: held to fewer it spills, and as few as it needs it takes on its own. But where something
    is loaded late so that `RESIDENT` blocks fit, it is held to that: it would load as early as registers allow.
    """
    lowering = RowLowering(m, HOPPER, remap, persistent)
    fitting = RESIDENT if m.late else 1
    blocks = max(occupancy * lanes.simds_per_cu // m.waves, 1) if occupancy else fitting
    made, body = lowering.made(lanes.name, blocks, header, spec)
    return File(
        made.name, made.header, made.spec, made.target, made.constants,
        tuple(Member(t.name, t.cpp, t.extents, t.origin) for t in made.tensors), made.scalars, made.functions,
        tuple(f"    {line}" if line else line for line in body.split("\n")), least_blocks=blocks, beside=beside,
    ).source(lowering.places.marks)  # fmt: skip
