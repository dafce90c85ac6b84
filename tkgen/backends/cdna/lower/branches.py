"""Operations that branch in the generated code: products settle before them.

An MFMA's registers are not to be touched for some wait states after it, and LLVM's GCNHazardRecognizer looks for them
once a block: where a branch goes around instructions, it counts those too, though the other way is shorter. So no
branch but a loop's own follows an MFMA without the wait states in between, and an iteration of a loop that may be
passed by begins with one wait state more (`begin_pass`). The helpers and headers that branch are known; all other
arithmetic of the headers is written without branches.
"""

from __future__ import annotations

from tkgen.ir.types import ACCESS_BYTES, WAVE_LANES, Operand, Program, Role
from tkgen.tile.ops import Fetch, Gather, Load, Move, Reduce, Store, Take, Write
from tkgen.tile.program import Op

PANEL = 64  # bytes: what tiles in LDS are divided into along their rows


def branches(program: Program, role: Role, op: Op) -> bool:
    """Return True if the code of an operation of `role` branches."""
    match op:
        case Store() | Reduce() | Gather():
            return True
        case Fetch() | Take():
            return _by_element(program, op)
        case Load():
            return _by_element(program, op) or _some_lanes(program.operand(op.operand), role, program.tail is None)
        case Write():
            return _some_lanes(program.operand(op.operand), role, False)
        case _:
            return False


def _by_element(program: Program, op: Move) -> bool:
    """Return True if rows may end inside a piece, as shows at run time: it is then loaded element by element."""
    return program.tail == "masked" and program.operand(op.operand).tensor.dims[-1].size is None


def _some_lanes(operand: Operand, role: Role, by_panels: bool) -> bool:
    """Return True if lanes of the group have no piece left to write to LDS when others have.

    `by_panels`: the header's own load deals out whole panels first, then the half panel that rows may end with.
    """
    total, row = operand.part_bytes, operand.tensor.dtype.sized(operand.part_shape[1])
    half = total // row * (row % PANEL) if by_panels else 0
    return any(part % (ACCESS_BYTES * role.group * WAVE_LANES) for part in (total - half, half))
