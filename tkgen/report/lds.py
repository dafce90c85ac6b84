"""The map of shared memory: tiles in their order, where the swizzle puts a tile's elements, and bank conflicts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tkgen.backends.cdna.kittens import layout
from tkgen.checks.shared_memory import read_ways, write_ways
from tkgen.ir.types import BASE_TILE, Operand, Program, Via
from tkgen.report.places import Places
from tkgen.targets import Target
from tkgen.tile.scheduled import Footprint

SHOWN_ROWS = 16
SHOWN_UNITS = 16
UNIT_ELEMENTS = 4  # neighbouring columns that stay together: what one lane owns of a row of a base tile


@dataclass(frozen=True)
class Place:
    """One slot of a tile: bytes `offset`..`offset + bytes` of the block's shared memory, its shape in words."""

    name: str
    index: int
    offset: int
    bytes: int
    shape: str


@dataclass(frozen=True)
class Swizzle:
    """The positions of an operand's first rows in LDS: `offsets[row][unit]` is the byte of columns 4 unit .. 4 unit +
    3.

    A unit begins in bank offset / `bank_bytes` mod `banks`.
    """

    name: str
    element_bytes: int
    offsets: tuple[tuple[int, ...], ...]
    banks: int
    bank_bytes: int


@dataclass(frozen=True)
class Access:
    """One sort of LDS instruction: the worst number of times LDS serves a group of lanes, 1 without bank conflicts.

    `count` is how often it stands in the code, 0 before compilation: the instruction is then the one that the tile
    library asks for, which the compiler may split or join. `ways` is 0 where it is not known.
    """

    what: str
    instruction: str
    ways: int
    count: int


@dataclass(frozen=True)
class LdsMap:
    """The shared memory of a block, called `memory`: `used` of `capacity` bytes."""

    memory: str
    capacity: int
    used: int
    buffers: tuple[Place, ...]
    swizzles: tuple[Swizzle, ...]
    accesses: tuple[Access, ...]


def served(ways: int) -> str:
    """Describe the bank conflicts of an LDS access of this many ways."""
    return {0: "bank conflicts not known", 1: "no bank conflict"}.get(ways, f"{ways}-way bank conflict")


def lds_map(spec: Any, places: Places | None = None) -> LdsMap:
    """The shared memory of a kernel's block; with the `places` of its code the instructions that are in it."""
    taken: Footprint = spec.footprint
    found: list[Place] = []
    for buffer in taken.buffers:
        for index in range(buffer.slots):
            offset = found[-1].offset + found[-1].bytes if found else 0
            found.append(Place(buffer.name, index, offset, buffer.bytes, buffer.shape))
    program, target = spec.program, spec.target
    planned = spec.plan is not None
    return LdsMap(
        memory=taken.memory,
        capacity=taken.capacity,
        used=taken.used,
        buffers=tuple(found),
        swizzles=tuple(_swizzle(o, target) for o in program.shared) if planned else (),
        accesses=tuple(_compiled(program, places) if places else _planned(program)) if planned else (),
    )


def _swizzle(operand: Operand, target: Target) -> Swizzle:
    rows, cols = operand.part_stored
    size = operand.tensor.dtype.bytes
    units = min(cols // UNIT_ELEMENTS, SHOWN_UNITS)
    offsets = tuple(
        tuple(
            layout.box_offset(rows, row, unit * UNIT_ELEMENTS, size)
            if operand.via is Via.DIRECT
            else layout.element_offset(size, rows, cols, row, unit * UNIT_ELEMENTS)
            for unit in range(units)
        )
        for row in range(min(rows, SHOWN_ROWS))
    )
    return Swizzle(operand.name, size, offsets, target.lds_banks, target.lds_bank_bytes)


def _planned(program: Program) -> Iterator[Access]:
    """Yield the LDS accesses that the tile library makes."""
    for operand in program.shared:
        instruction, ways = read_ways(operand)
        yield Access(f"read {operand.name}", instruction, ways, 0)
        if operand.via is not Via.DIRECT:
            instruction, ways = write_ways(program, operand)
            yield Access(f"write {operand.name}", instruction, ways, 0)


def _compiled(program: Program, places: Places) -> Iterator[Access]:
    """The LDS instructions of the code; some write of both operands."""
    wanted = {a.what: a for a in _planned(program)}
    counts: Counter[tuple[str, tuple[str, ...], str]] = Counter()
    for index, x in enumerate(places.function.instructions):
        if places.kinds[index] in ("lds read", "lds write"):
            counts[places.kinds[index].removeprefix("lds "), places.operands(index), x.mnemonic] += 1
    for (verb, names, mnemonic), count in sorted(counts.items(), key=lambda item: (item[0][1], item[0])):
        single = re.sub(r"2(st64)?_", "_", mnemonic)  # two accesses, one after the other
        ways = []
        for name in names:
            planned = wanted[f"{verb} {name}"]
            if single == planned.instruction:
                ways.append(planned.ways)
            elif (verb, single, planned.instruction) == ("read", "ds_read_b64", "ds_read_b128"):
                ways.append(_half_chunk_ways(program.operand(name)))
        worst = max(ways) if ways and len(ways) == len(names) else 0
        yield Access(f"{verb} {' and '.join(names)}", mnemonic, worst, count)


def _half_chunk_ways(operand: Operand) -> int:
    """Bank conflicts where the compiler reads 8 of a chunk's 16 bytes, because the others are not used."""
    size, (rows, cols) = operand.tensor.dtype.bytes, operand.part_stored
    return max(
        layout.conflict_ways("ds_read_b64", layout.fragment_addresses(size, rows, cols, "row", row, col))
        for row in range(min(rows // BASE_TILE, 2))
        for col in range(cols // BASE_TILE)
    )
