"""`simple`: the order of one iteration follows from buffer counts and prefetch distances.

With n LDS buffers the loads run n - 1 steps ahead of the reads (one step ahead through staging registers even with
n = 1: the staging registers are the second buffer). With two register buffers the reads run one register tile ahead
of the multiplies: a whole step when a step is one slice, else one slice. An operand that goes past LDS is read as many
slices ahead as its register buffers hold beside the one that is multiplied.

The list is the *sequential meaning* of an iteration: every role executes its own operations in this order, and
barriers are cuts through it (`tkgen.schedule.barriers`), only where data demands them. This is also the schedule of a
spec that asks for none.
"""

from __future__ import annotations

from tkgen.ir.schedules.model import IterationOrder, NamedSchedule
from tkgen.ir.schedules.operations import multiplies, read_all, reads_past_lds
from tkgen.ir.types import Operand, Program, Via
from tkgen.tile.ops import Copy, Fetch, Load, Move, Write
from tkgen.tile.program import Op


def order(program: Program) -> IterationOrder:
    """The loads, reads and multiplies of all roles."""
    return IterationOrder(_iteration(program))


def _iteration(program: Program) -> list[tuple[str, Op]]:
    slices, buffers = program.slices, _register_depth(program)
    lead = 1 if buffers == 2 and slices == 1 else 0  # steps that reads run ahead of multiplies
    past = [[(program.compute.name, op) for op in reads_past_lds(program, t)] for t in range(slices)]
    early, middle = [], []
    for operand in program.shared:
        before, late = _moves(program, operand, lead)
        early += before
        middle += late
    if lead:
        return [*middle, *early, *past[0], *_reads(program, 1, 0), *_multiplies(program, 0)]
    if buffers == 1:
        compute = [pair for t in range(slices) for pair in past[t] + _reads(program, 0, t) + _multiplies(program, t)]
        return [*early, *compute, *middle]
    last = slices - 1  # slice t + 1 is read while slice t is multiplied; slice 0 of the next step while the last is
    compute = [pair for t in range(last) for pair in past[t] + _reads(program, 0, t + 1) + _multiplies(program, t)]
    return [*early, *compute, *middle, *past[last], *_reads(program, 1, 0), *_multiplies(program, last)]


def _moves(program: Program, operand: Operand, lead: int) -> tuple[list[tuple[str, Op]], list[tuple[str, Op]]]:
    """Operations that bring `operand` to LDS: those at the start of an iteration and those after its reads.

    With `lead` both come before the reads, the second list first.
    """
    roles = [r.name for r in program.roles if operand.name in r.loads]
    ahead = operand.buffers - 1 + lead
    span = operand.span

    def ops(kind: type[Move], offset: int) -> list[tuple[str, Op]]:
        return [(role, kind.of(operand.name, offset, span=span)) for role in roles]

    rotating = _register_depth(program) == 2 and not lead  # slice 0 of the next step is read within the iteration
    if operand.via is Via.REGISTERS:
        if lead:
            return ops(Fetch, ahead + 1), ops(Write, ahead)
        distance = max(ahead, 1)
        return ops(Fetch, distance), ops(Write, distance)
    kind = Load if operand.via is Via.COLLECTIVE else Copy
    if operand.buffers == 1 and rotating:
        return [], ops(kind, 1)
    return ops(kind, ahead), []


def _register_depth(program: Program) -> int:
    """Slices of an operand in LDS that registers hold: the same for all operands (`tkgen.schedule.presets`)."""
    return next((o.register_depth for o in program.shared), 1)


def _reads(program: Program, offset: int, slice_: int) -> list[tuple[str, Op]]:
    return [(program.compute.name, read_all(o, offset, slice_)) for o in program.shared if slice_ % o.together == 0]


def _multiplies(program: Program, slice_: int) -> list[tuple[str, Op]]:
    rows, cols = (tuple(range(n)) for n in program.accumulator.fragments)
    return [(program.compute.name, op) for op in multiplies(program, rows, cols, slice_)]


SPEC = NamedSchedule(
    name="simple",
    doc="Barriers are placed only where data needs them; the compiler orders the rest.",
    position=0,
    order=order,
)
