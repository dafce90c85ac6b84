"""`ping_pong`: waves take turns, so that one of a SIMD multiplies while the other one moves data.

(HipKittens, arXiv 2511.08083, section 3.) The waves of the block are in two halves, two waves to a SIMD, the second
half one cluster later. Clusters of memory operations and of multiplies take turns, so that on every SIMD one wave
multiplies, at raised priority, while the other moves data.
"""

from __future__ import annotations

from tkgen.ir.schedules.model import IterationOrder, NamedSchedule
from tkgen.ir.schedules.operations import loads, moves, multiplies, reads, staged_obstacle
from tkgen.ir.types import SIMDS, PhaseShift, Program
from tkgen.targets import Target
from tkgen.tile.ops import Barrier, Fence, Priority, Write
from tkgen.tile.program import Drain, Op

SMALLEST_BLOCK = 128 * 128 * 2  # output elements below which halves of the waves have too little to multiply

_Part = tuple[tuple[int, ...], tuple[int, ...]]  # fragment rows and columns


def obstacle(program: Program) -> str:
    """It needs two waves to a SIMD, and enough to multiply in a block."""
    if program.waves != 2 * SIMDS:
        return f"it needs {2 * SIMDS} waves, two per SIMD, not {program.waves}"
    if program.block[0] * program.block[1] < SMALLEST_BLOCK:
        return f"a {program.block[0]} x {program.block[1]} block is too small to fill its clusters"
    if not _parts(program)[1]:
        rows, cols = program.accumulator.fragments
        return f"a wave's {rows} x {cols} fragments do not split in halves"
    return staged_obstacle(program)


def slower(program: Program, _target: Target) -> str:
    """Loads through registers take clusters of their own, and so barriers."""
    if not program.direct and program.block[0] * program.block[1] < 2 * SMALLEST_BLOCK:
        return (
            f"the multiplies of a {program.block[0]} x {program.block[1]} block cost less time than its eight barriers"
        )
    return ""


def order(program: Program) -> IterationOrder:
    """Memory and multiply clusters in turn; the fetch in the first that reads nothing, the write in the last.

    Direct loads are issued where fetches would be, and waited for where writes would be. The multiplies of a slice are
    one cluster or two halves. The last slice's are always two: the write comes between them, a cluster after the last
    reads of the waves that run late.
    """
    slices = program.slices
    whole, halves = _parts(program)
    products = [(part, t) for t in range(slices) for part in (halves if slices < 4 or t == slices - 1 else [whole])]
    span = program.accumulator.span
    ops: list[Op] = []
    for number, ((rows, cols), t) in enumerate(products):
        memory = [] if (rows, cols) == halves[1] else [*reads(program, t)]
        if memory:
            memory.append(Drain("lds", span=span))
        if number == (1 if slices < 4 else 0):
            memory += loads(program)
        if number == len(products) - 1:
            memory.append(Drain("vm", span=span))
            if not program.direct:
                memory += [*moves(program, Write), Drain("lds", span=span)]
        ops += _cluster(memory)
        up, down = (Priority(level, span=span) for level in (1, 0))
        ops += _cluster([up, *multiplies(program, rows, cols, t), down])
    late = PhaseShift(program.waves // 2, program.waves - 1, 1, span)
    return IterationOrder([(program.compute.name, op) for op in ops], paced=True, phases=(late,))


def _parts(program: Program) -> tuple[_Part, tuple[_Part, ...]]:
    """All fragments of a wave, and two halves of them: by rows, else by columns; no halves where both are odd."""
    rows, cols = (tuple(range(n)) for n in program.accumulator.fragments)
    if len(rows) % 2 == 0:
        middle = len(rows) // 2
        return (rows, cols), ((rows[:middle], cols), (rows[middle:], cols))
    if len(cols) % 2 == 0:
        middle = len(cols) // 2
        return (rows, cols), ((rows, cols[:middle]), (rows, cols[middle:]))
    return (rows, cols), ()


def _cluster(ops: list[Op]) -> list[Op]:
    fence = Fence()
    return [*ops, fence, Barrier(automatic=True), fence]


SPEC = NamedSchedule(
    name="ping_pong",
    doc="Two halves of the waves are phase-shifted by one cluster: one half multiplies while the other moves data.",
    position=1,
    order=order,
    obstacle=obstacle,
    slower=slower,
    reason="8 waves of a large block, two per SIMD, hide each other's memory operations",
    alternates=True,
)
