"""Placement of a shared tile's elements in LDS by the headers, and the bank conflicts of an access to them.

The Python twin of `include/kittens/shared.cuh`, which describes the layout; a test compares the two element by element.

>>> conflict_ways("ds_read_b128", fragment_addresses(size=2, rows=64, cols=64, layout="row"))
1
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

WAVE = 64
SIX, BLOCK_OF_SIX = 6, 24  # bits of a float, and bytes of the 32 that a lane has
BANKS, BANK_BYTES = 32, 4  # gfx90a and gfx942 (AMD CDNA2 and CDNA3 ISA)

Layout = Literal["row", "col"]
Instruction = Literal[
    "ds_read_u16",
    "ds_read_b32",
    "ds_read_b64",
    "ds_read_b128",
    "ds_write_b16",
    "ds_write_b32",
    "ds_write_b64",
    "ds_write_b128",
]


def element_offset(size: int, rows: int, cols: int, row: int, col: int) -> int:
    """The byte, counted from the beginning of a shared tile, of its element (row, col).

    `size` is the element's size in bytes, 1, 2 or 4; `rows` and `cols` are multiples of 16, of one byte `cols` of 64.
    """
    panel_cols = 64 // size
    panel, in_panel = divmod(col, panel_cols)
    if size == 1:
        line, chunk = row // 2, (row % 2 * 4 + in_panel // 16) ^ (0, 1, 6, 7)[row // 2 % 4]
        return panel * rows * 64 + line * 128 + chunk * 16 + col % 16
    quad, element = (col // 4) % 4, (col % 4) * size
    start = panel * rows * 64
    if (panel + 1) * panel_cols > cols:  # the half panel: four rows of 32 bytes to a line
        line = row // 4
        unit = ((row % 4) * 4 + quad) ^ (5 * (line % 4))
        return start + line * 128 + unit * 8 + element
    line = row // 2
    chunk = ((row % 2) * 4 + quad) ^ (0, 1, 6, 7)[line % 4]
    return start + line * 128 + chunk * 16 + (in_panel // 16) * 8 + element


def box_offset(rows: int, row: int, col: int, size: int = 2) -> int:
    """The byte of element (row, col) of a shared tile of shape st_16x32, `rows` high; the twin of `hk.cuh`.

    Boxes of 16 rows x 64 bytes, 1024 bytes each, those of the same columns one after the other. `size` is an element's,
    in bytes.
    """
    byte = col * size
    chunk = (byte // 16 % 4) ^ (0, 2, 3, 1)[row // 4 % 4]
    return byte // 64 * rows * 64 + row * 64 + chunk * 16 + byte % 16


def _in_half_panel(size: int, cols: int, col: int) -> bool:
    panel_cols = 64 // size
    return (col // panel_cols + 1) * panel_cols > cols


def fragment_instruction(size: int, cols: int, layout: Layout, base_col: int = 0) -> Instruction:
    """The instruction with which `load(rt, st)` reads base tile column `base_col` of a tile of `cols` columns."""
    if layout == "col":
        return "ds_read_u16" if size == 2 else "ds_read_b32"
    return "ds_read_b64" if _in_half_panel(size, cols, base_col * 16) else "ds_read_b128"


def fragment_addresses(
    size: int, rows: int, cols: int, layout: Layout, base_row: int = 0, base_col: int = 0, element: int = 0
) -> list[int]:
    """The byte each lane addresses when `load(rt, st)` reads base tile (`base_row`, `base_col`) of a shared tile.

    Base tiles of one-byte elements are 64 columns wide; `base_col` counts 16 columns of those, too.

    In row layout one instruction reads a lane's four elements (and, where a 16-byte chunk serves two base tiles, its
    four of the other one); in col layout each needs its own instruction: `element` 0..3 selects it.
    """
    addresses = []
    for lane in range(WAVE):
        low, high = lane % 16, lane // 16
        if layout == "row":
            row, col = base_row * 16 + low, base_col * 16 + 4 * high
            if size == 1:
                col = base_col // 4 * 64 + 16 * high
            elif size == 2 and not _in_half_panel(size, cols, col):
                col -= base_col % 2 * 16  # the chunk begins with the even base tile's part
        else:
            row, col = base_row * 16 + 4 * high + element, base_col * 16 + low
        addresses.append(element_offset(size, rows, cols, row, col))
    return addresses


def quad_addresses(rows: int, cols: int) -> list[int]:
    """The byte each lane addresses when `load_made(rt, st)` reads a quad of a base tile of one-byte elements."""
    return [element_offset(1, rows, cols, lane % 16, lane // 16 * 4) for lane in range(WAVE)]


def block_addresses(rows: int, cols: int, piece: int) -> list[int]:
    """The byte each lane addresses when `load(rt, st)` reads 8 of the 24 bytes of a block of 6-bit floats.

    `cols` is the width of the shared tile in bytes.
    """
    return [element_offset(1, rows, cols, lane % 16, lane // 16 * BLOCK_OF_SIX + piece * 8) for lane in range(WAVE)]


def piece(rows: int, row_bytes: int, threads: int, thread: int, turn: int) -> tuple[int, int] | None:
    """The 16 bytes that a thread of a group moves in access number `turn` of `group<N>::load`: (row, byte in the row).

    `row_bytes` is the tile's row in bytes; turns count the passes over the whole panels, then those over the half
    panel. None: the thread has no part in that turn.
    """
    panels, half = divmod(row_bytes, 64)
    blocks = panels * rows // 8
    panel_turns = -(-blocks // (threads // 32))
    if turn < panel_turns:
        block = turn * (threads // 32) + thread // 32
        if block >= blocks:
            return None
        return block // panels * 8 + (thread // 4 % 8 ^ thread // 16 % 2), block % panels * 64 + thread % 4 * 16
    if not half:
        return None
    row = (turn - panel_turns) * (threads // 2) + thread // 2
    return (row, panels * 64 + thread % 2 * 16) if row < rows else None


def turns(rows: int, row_bytes: int, threads: int) -> int:
    """The number of 16-byte accesses that each thread of a group makes to load a tile."""
    panels, half = divmod(row_bytes, 64)
    return -(-panels * rows // 8 // (threads // 32)) + (-(-rows // (threads // 2)) if half else 0)


def lane_groups(instruction: Instruction) -> list[list[int]]:
    """The lanes that LDS serves together: the addresses within a group must not meet in a bank.

    16-byte accesses: ROCm documentation, Composable Kernel, "Understanding AMD GPU LDS and Bank Conflicts" (eight
    neighbours for writes, interleaved groups for reads). 8 bytes: a quarter of the wave; 4 and less: a half (AMD OpenCL
    optimisation guide, "Local Memory (LDS) Optimization"). Each moves at most the 128 bytes of 32 banks.
    """
    if instruction == "ds_read_b128":
        pairs = ((0, 20), (4, 16), (8, 28), (12, 24))
        return [
            [*range(first + half, first + half + 4), *range(second + half, second + half + 4)]
            for half in (0, 32)
            for first, second in pairs
        ]
    width = {"ds_write_b128": 8, "ds_read_b64": 16, "ds_write_b64": 16}.get(instruction, 32)
    return [list(range(start, start + width)) for start in range(0, WAVE, width)]


def access_bytes(instruction: Instruction) -> int:
    """Bytes that one lane moves."""
    return {"16": 2, "32": 4, "64": 8, "28": 16}[instruction[-2:]]


def conflict_ways(instruction: Instruction, addresses: Sequence[int | None]) -> int:
    """The number of times that the busiest group of lanes must be served: 1 is free of conflicts.

    `addresses` holds one byte address per lane, None for a lane that is switched off. Lanes that touch the same 4 bytes
    share them.
    """
    row = BANKS * BANK_BYTES  # moving all addresses by rows of banks changes nothing, and patterns recur
    base = min((a for a in addresses if a is not None), default=0) // row * row
    return _conflict_ways(instruction, tuple(None if a is None else a - base for a in addresses))


@lru_cache(maxsize=4096)
def _conflict_ways(instruction: Instruction, addresses: tuple[int | None, ...]) -> int:
    worst, size = 1, access_bytes(instruction)
    for group in lane_groups(instruction):
        words: defaultdict[int, set[int]] = defaultdict(set)
        for address in (addresses[lane] for lane in group):
            if address is None:
                continue
            for word in range(address // BANK_BYTES, (address + size - 1) // BANK_BYTES + 1):
                words[word % BANKS].add(word)
        worst = max(worst, *map(len, words.values())) if words else worst
    return worst
