"""The model of the LDS layout: tiles of every width are free of bank conflicts, and conflicts are counted right."""

from __future__ import annotations

import pytest

from tkgen.backends.cdna.kittens.layout import (
    Instruction,
    conflict_ways,
    element_offset,
    fragment_addresses,
    fragment_instruction,
    lane_groups,
    piece,
    turns,
)

WIDTHS = [16, 32, 48, 64, 80, 96, 128, 256]


@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("size", [2, 4])
def test_fragment_reads_are_free_of_conflicts(size: int, cols: int) -> None:
    for base_col in range(cols // 16):
        for base_row in range(3):
            row = fragment_addresses(size, 48, cols, "row", base_row, base_col)
            assert conflict_ways(fragment_instruction(size, cols, "row", base_col), row) == 1
            for element in range(4):
                col = fragment_addresses(size, 48, cols, "col", base_row, base_col, element)
                assert conflict_ways(fragment_instruction(size, cols, "col"), col) == 1


@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("size", [2, 4])
def test_group_writes_are_free_of_conflicts_and_complete(size: int, cols: int) -> None:
    rows, instruction = 32, "ds_write_b64" if size == 2 else "ds_write_b128"
    for threads in (64, 128, 256, 512):
        written: list[int] = []
        for turn in range(turns(rows, cols * size, threads)):
            for wave in range(0, threads, 64):
                pieces = [piece(rows, cols * size, threads, wave + lane, turn) for lane in range(64)]
                for part in range(2 if size == 2 else 1):
                    lanes = [p and element_offset(size, rows, cols, p[0], p[1] // size + 4 * part) for p in pieces]
                    assert conflict_ways(instruction, lanes) == 1  # type: ignore[arg-type]
                    written += [a for a in lanes if a is not None]
        step = 8 if size == 2 else 16
        assert sorted(written) == list(range(0, rows * cols * size, step))


@pytest.mark.parametrize("cols", [64, 128, 192])
def test_tiles_of_bytes_are_free_of_conflicts_and_complete(cols: int) -> None:
    """Reads of base tiles of 16 x 64 and of 32 x 32, and writes of whole chunks."""
    for base_col in range(cols // 16):
        for base_row in range(3):
            row = fragment_addresses(1, 48, cols, "row", base_row, base_col)
            assert conflict_ways("ds_read_b128", row) == 1
    for first in range(0, cols, 32):
        lanes = [element_offset(1, 32, cols, lane % 32, first + 16 * (lane // 32)) for lane in range(64)]
        assert conflict_ways("ds_read_b128", lanes) == 1
    for threads in (64, 256):
        written: list[int] = []
        for turn in range(turns(32, cols, threads)):
            for wave in range(0, threads, 64):
                pieces = [piece(32, cols, threads, wave + lane, turn) for lane in range(64)]
                places = [p and element_offset(1, 32, cols, *p) for p in pieces]
                assert conflict_ways("ds_write_b128", places) == 1
                written += [a for a in places if a is not None]
        assert sorted(written) == list(range(0, 32 * cols, 16))


def test_rows_eight_apart_lie_512_bytes_apart() -> None:
    """Constant offsets of the headers rely on this."""
    for row, col in ((0, 0), (3, 21), (7, 63)):
        assert element_offset(2, 128, 64, row + 40, col) == element_offset(2, 128, 64, row, col) + 5 * 512


@pytest.mark.parametrize(
    ("instruction", "addresses", "ways"),
    [
        ("ds_read_b32", [4 * lane for lane in range(64)], 1),
        ("ds_read_b32", [0] * 64, 1),  # the same word is broadcast
        ("ds_read_b32", [128 * lane for lane in range(64)], 32),
        ("ds_read_u16", [2 * lane for lane in range(64)], 1),
        ("ds_read_b64", [8 * lane for lane in range(64)], 1),
        ("ds_write_b64", [16 * lane for lane in range(64)], 2),
        ("ds_write_b128", [16 * lane for lane in range(64)], 1),
        ("ds_read_b128", [16 * (lane ^ lane // 16 % 2 * 4) for lane in range(64)], 2),  # lanes 0-3 with 20-23
        ("ds_write_b128", [128 * lane for lane in range(64)], 8),
        ("ds_write_b128", [128 * lane if lane < 2 else None for lane in range(64)], 2),
    ],
)
def test_conflicts_are_counted_per_group(instruction: Instruction, addresses: list[int | None], ways: int) -> None:
    assert conflict_ways(instruction, addresses) == ways


def test_every_lane_is_served_once() -> None:
    for instruction in ("ds_read_u16", "ds_read_b64", "ds_read_b128", "ds_write_b128"):
        assert sorted(lane for group in lane_groups(instruction) for lane in group) == list(range(64))
