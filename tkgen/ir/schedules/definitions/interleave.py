"""`interleave`: one wave to a SIMD, whose own LDS reads and global loads come between groups of its multiplies.

(The 4-wave kernels of HipKittens, arXiv 2511.08083, section 3.)
"""

from __future__ import annotations

from tkgen.ir.schedules.model import IterationOrder, NamedSchedule
from tkgen.ir.schedules.operations import loads, moves, multiplies, reads, staged_obstacle
from tkgen.ir.types import SIMDS, Program, Side
from tkgen.targets import Target
from tkgen.tile.ops import Write
from tkgen.tile.program import Op


def obstacle(program: Program) -> str:
    """It needs one wave to a SIMD."""
    if program.waves != SIMDS:
        return f"it needs {SIMDS} waves, one per SIMD, not {program.waves}"
    return staged_obstacle(program)


def slower(program: Program, target: Target) -> str:
    """A second wave on the SIMD hides more, where there are registers for one."""
    sums = program.sum_registers
    if sums < target.registers_per_lane // 2:  # with that many, a wave has a SIMD for itself
        return f"{sums} registers of sums allow a second wave on the SIMD, which hides more latency"
    if program.direct:
        return (
            "direct loads need no instructions to write tiles to LDS, so there is nothing to place between multiplies"
        )
    return ""


def order(program: Program) -> IterationOrder:
    """Reads of slice t + 1 and the fetches come between the multiplies of slice t, a fragment row to a group."""
    rows, cols = (tuple(range(n)) for n in program.accumulator.fragments)
    ops: list[Op] = []
    for t in range(program.slices):
        ops += reads(program, t)
        for i in rows:
            if t == 0:  # left operands before the first group, right ones before the last
                sides = {side for side, at in ((Side.A, 0), (Side.B, len(rows) - 1)) if at == i}
                ops += [op for op, o in zip(loads(program), program.shared, strict=True) if o.side in sides]
            ops += multiplies(program, (i,), cols, t)
    if not program.direct:
        ops += moves(program, Write)
    return IterationOrder([(program.compute.name, op) for op in ops])


SPEC = NamedSchedule(
    name="interleave",
    doc="One wave per SIMD, whose reads and loads are placed between its multiplies.",
    position=2,
    order=order,
    obstacle=obstacle,
    slower=slower,
    reason="4 waves, one per SIMD, hide memory operations between their multiplies",
    ahead=True,
)
