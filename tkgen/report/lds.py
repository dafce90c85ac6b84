"""The LDS map: buffers in allocation order, where the swizzle puts a tile's elements, and bank conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tkgen.checks.shared_memory import read_ways, write_ways
from tkgen.ir.types import Operand, Program, Via
from tkgen.kittens import layout
from tkgen.targets import Target

SHOWN_ROWS = 16
SHOWN_UNITS = 16
UNIT_ELEMENTS = 4  # neighbouring columns that stay together: what one lane owns of a row of a base tile


@dataclass(frozen=True)
class Buffer:
    """One LDS buffer of an operand: bytes `offset`..`offset + bytes` of the block's LDS."""

    name: str
    index: int
    offset: int
    bytes: int
    shape: tuple[int, int]
    dtype: str


@dataclass(frozen=True)
class Swizzle:
    """Where the first rows of an operand's tile lie: `offsets[row][unit]` is the byte of columns 4 unit .. 4 unit + 3.

    A unit begins in bank offset / `bank_bytes` mod `banks`.
    """

    name: str
    element_bytes: int
    offsets: tuple[tuple[int, ...], ...]
    banks: int
    bank_bytes: int


@dataclass(frozen=True)
class Access:
    """One sort of LDS instruction: the worst number of times LDS serves a group of lanes, 1 without bank conflicts."""

    what: str
    instruction: str
    ways: int


@dataclass(frozen=True)
class LdsMap:
    """The LDS of a block: `used` of `capacity` bytes."""

    capacity: int
    used: int
    buffers: tuple[Buffer, ...]
    swizzles: tuple[Swizzle, ...]
    accesses: tuple[Access, ...]


def lds_map(program: Program, target: Target) -> LdsMap:
    """The LDS map of `program` on `target`."""
    buffers, offset = [], 0
    for o in program.operands:
        for index in range(o.buffers):
            buffers.append(Buffer(o.name, index, offset, o.lds_bytes, o.lds_shape, o.tensor.dtype.spelling))
            offset += o.lds_bytes
    return LdsMap(
        capacity=target.lds_bytes_per_block,
        used=offset,
        buffers=tuple(buffers),
        swizzles=tuple(_swizzle(o, target) for o in program.operands),
        accesses=tuple(a for o in program.operands for a in _accesses(program, o)),
    )


def _swizzle(operand: Operand, target: Target) -> Swizzle:
    rows, cols = operand.lds_shape
    size = operand.tensor.dtype.bytes
    units = min(cols // UNIT_ELEMENTS, SHOWN_UNITS)
    offsets = tuple(
        tuple(
            layout.box_offset(rows, row, unit * UNIT_ELEMENTS)
            if operand.via is Via.DIRECT
            else layout.element_offset(size, rows, cols, row, unit * UNIT_ELEMENTS)
            for unit in range(units)
        )
        for row in range(min(rows, SHOWN_ROWS))
    )
    return Swizzle(operand.name, size, offsets, target.lds_banks, target.lds_bank_bytes)


def _accesses(program: Program, operand: Operand) -> Iterator[Access]:
    instruction, ways = read_ways(operand)
    yield Access(f"read {operand.name}", instruction, ways)
    if operand.via is not Via.DIRECT:
        instruction, ways = write_ways(program, operand)
        yield Access(f"write {operand.name}", instruction, ways)
