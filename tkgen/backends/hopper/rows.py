"""Rows over the lanes of warps -> CUDA C++: the layout of `tkgen.schedule.rows`, through `templates/rows.cu.jinja`.

A lane moves 16 bytes at a time; what the lanes of a warp share of a row they shuffle, several warps exchange through
shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from tkgen.backends.cdna.lower.names import declared
from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.cdna.lower.render import tidy
from tkgen.backends.cdna.lower.rows import RowLowering
from tkgen.backends.hopper.lowering import environment
from tkgen.backends.hopper.machine import SmLanes
from tkgen.ir.functions import HOPPER
from tkgen.schedule.rows import RESIDENT, RowMap

TEMPLATE = "rows.cu.jinja"
# The functions of the template that a kernel may do without, as it calls them.
CALLS = {
    "loads": "load_elements<", "lasts": "load_last<", "forgets": "forget(", "divides": "divisor(", "folds": "fold<",
    "shuffles": "across<", "spaced": "across_spaced<", "exchanges": "lds_barrier()",
}  # fmt: skip


def lower_rows(
    m: RowMap, lanes: SmLanes, header: Sequence[str] = (), spec: str = "", occupancy: int | None = None
) -> Source:
    """The generated file: `header` are lines of comment, `spec` is the path that its comments name.

    `occupancy` is how many warps are to share a sub-partition, where the spec says so; else ptxas has all registers
    that one block leaves it: held to fewer it spills, and as few as it needs it takes on its own. But where something
    is loaded late so that `RESIDENT` blocks fit, it is held to that: it would load as early as registers allow.
    """
    lowering = RowLowering(m, HOPPER, own="", reserved=_declared())
    fitting = RESIDENT if m.late else 1
    blocks = max(occupancy * lanes.simds_per_cu // m.waves, 1) if occupancy else fitting
    model, body = lowering.made(lanes.name, blocks, header, spec)
    marks = lowering.places.marks
    called = {name: call in body for name, call in CALLS.items()}
    text = environment().get_template(TEMPLATE).render(m=model, body=body, remark=marks.remark, **called)
    return marks.source(tidy(text).rstrip("\n") + "\n")


def _declared() -> frozenset[str]:
    """The names that the template declares."""
    loader = environment().loader
    assert loader is not None
    return declared(loader.get_source(environment(), TEMPLATE)[0], r"[a-z_\[]")
