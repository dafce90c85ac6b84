"""The smallest number of instructions of the machine code for an operation, by hardware counter.

Accesses that the compiler merges or drops are not counted: see "Order in the machine code" in
`tkgen.schedule.traces`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

from tkgen.ir.types import ACCESS_BYTES, WAVE_LANES, Operand, Program
from tkgen.tile.ops import Copy, Fetch, Load, Move, OfRound, Read, Take, Write
from tkgen.tile.program import Op

WAVE_BYTES = ACCESS_BYTES * WAVE_LANES  # what one instruction of a wave moves at most


def instructions(program: Program, ops: Iterable[Op]) -> dict[str, int]:
    """The fewest instructions by counter (`lds`, `vm`) with which one wave does `ops`, all within one section.

    Fewest, because a counted wait leaves that many of the *latest* outstanding: counting too many of these would take
    an earlier operation for complete.
    """
    issued: dict[str, dict[Hashable, int]] = {"lds": {}, "vm": {}}
    for op in ops:
        for counter, found in pieces(program, op, op.offset, None):
            issued[counter].update(found)
    return {counter: instructions_of(found) for counter, found in issued.items()}


def instructions_of(found: Mapping[Hashable, int]) -> int:
    """Instructions that make pieces of these weights."""
    return -(-sum(found.values()) // WAVE_BYTES)


def pieces(program: Program, op: Op, step: int, used: frozenset[tuple[int, int]] | None
            ) -> Iterator[tuple[str, dict[Hashable, int]]]:  # fmt: skip
    """(counter, pieces) of what `op` issues: what a section does once, and its weight in bytes of full instructions.

    `used` are the (fragment, slice) of a READ whose registers are multiplied, and the parts of a FETCH that are
    written, each as (part, 0); None for all.
    """
    if isinstance(op, OfRound) and op.ring:
        yield "lds", {(op.word, op.round): WAVE_BYTES}
    if not isinstance(op, Move):
        return
    operand = program.operand(op.operand)
    # Two K-steps in one LDS buffer are one access to the compiler; in global memory they lie apart.
    slot = op.step_of(op.shared, step) % operand.buffers if op.shared else step
    parts = operand.parts_of(op.tile)
    match op:
        case Read() | Take():
            weight = _read_weight(program, operand)
            tiles = ((f, t) for f in op.tile.fragments for t in op.tile.slices)
            yield (
                "lds" if op.shared else "vm",
                {(op.operand, slot, *tile): weight for tile in tiles if used is None or tile in used},
            )
        case Fetch():
            rounds = whole_rounds(program, op) * WAVE_BYTES
            yield "vm", {(op.operand, step, part): rounds for part in parts if used is None or (part, 0) in used}
        case Copy() | Load() if isinstance(op, Copy) or program.direct:
            yield "vm", {(op.operand, step, part): _part_loads(program, op) * WAVE_BYTES for part in parts}
        case Write() | Load():
            yield "lds", {(op.operand, slot, part): whole_rounds(program, op) * WAVE_BYTES for part in parts}
        case _:
            pass


def _read_weight(program: Program, operand: Operand) -> int:
    """One register tile, in bytes of full instructions.

    Two-byte elements of a column layout are read one by one (`kittens/move.cuh`; direct tiles in LDS have transposing
    reads); everything else may be merged to 16 bytes a lane. With `tail clamped` a read past the end of a tensor may
    return the elements of another tile, so no such read from global memory is counted.
    """
    elements, size = operand.fragment_extent * operand.slice, operand.tensor.dtype.bytes
    if not operand.shared and program.tail == "clamped":
        return 0
    if operand.contraction_first and size == 2 and not (operand.shared and program.direct):
        return elements // WAVE_LANES * WAVE_BYTES
    return operand.tensor.dtype.sized(elements)


def _group(program: Program, op: Move) -> tuple[Operand, int]:
    operand = program.operand(op.operand)
    role = next((r for r in program.roles if op.operand in r.loads), program.compute)
    return operand, role.group


def whole_rounds(program: Program, op: Move) -> int:
    """Accesses of 16 bytes a lane that every wave of the group makes to bring one part of a tile.

    A wave may have no share in what whole rounds leave; the compiler may then let it branch around.
    """
    operand, group = _group(program, op)
    return operand.part_bytes // (WAVE_BYTES * group)


def global_instructions(program: Program, op: Move) -> int:
    """Global loads one wave issues to bring what `op` does: 16 bytes a lane, over the waves of one group.

    Register tiles that go past LDS are read as the headers' load does it: a lane's four neighbours of a row (eight of
    the tiles beside direct loads, sixteen of one byte) at once, of a column one by one.
    """
    if isinstance(op, Take):
        operand = program.operand(op.operand)
        together = 1 if operand.contraction_first else 8 if program.direct else 4
        together = operand.tensor.dtype.elements(ACCESS_BYTES) if operand.tensor.dtype.bytes == 1 else together
        each = operand.fragment_extent * operand.slice // (WAVE_LANES * together)
        return len(op.tile.fragments) * len(op.tile.slices) * each
    return len(program.operand(op.operand).parts_of(op.tile)) * _part_loads(program, op)


def _part_loads(program: Program, op: Move) -> int:
    operand, group = _group(program, op)
    return max(1, -(-operand.part_bytes // (WAVE_BYTES * group)))
