"""The C++ of the remaps, compiled by the host's compiler, against the Python model, tile by tile."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tkgen.remap import MAX_TILES, NamedInt, Remap, RemapCall, compose

XCD = RemapCall("xcd", {"n": 8, "chunk": 16})
COMPOSITIONS = [
    compose(calls)
    for calls in (
        [],
        [RemapCall("column_major")],
        [RemapCall("group", {"rows": 1})],
        [RemapCall("group", {"rows": 12})],
        [RemapCall("group", {"rows": 65536})],
        [RemapCall("morton")],
        [RemapCall("hilbert")],
        [RemapCall("reversed"), RemapCall("column_major")],
        [XCD, RemapCall("reversed")],
        [RemapCall("xcd", {"n": 8})],
        [RemapCall("xcd", {"n": 1024, "chunk": 1 << 20})],
        [XCD, RemapCall("group", {"rows": 4})],
        [XCD, RemapCall("morton")],
        [RemapCall("xcd", {"n": 4, "chunk": 3}), XCD, RemapCall("hilbert")],
    )
]
# Extents known when the kernel is generated: the code folds, and the ragged cases may vanish.
STATIC_GRIDS = [(1, 1), (64, 64), (25, 7), (6, 10), (1, 33), (48, 2)]
DYNAMIC_GRIDS = [*STATIC_GRIDS, (33, 1), (17, 31), (40, 36), (12, 100)]
LARGEST_GRIDS = [(1, MAX_TILES), (MAX_TILES, 1), (46340, 46341), (65537, 32767), (3, MAX_TILES // 3)]

Placer = Callable[[int, int, int, list[int]], list[tuple[int, int]]]


def function(name: str, remap: Remap, rows: int | str | NamedInt, cols: int | str | NamedInt) -> str:
    block = remap.cpp("block", rows, cols)
    body = "\n".join(block.statements)
    return (
        f"static Tile {name}(int block, [[maybe_unused]] int grid_rows, [[maybe_unused]] int grid_cols) {{\n{body}\n"
        f"    return {{tile_row, tile_col}};\n}}\n"
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Placer:
    """One program with every composition, on any grid and on each static one; aborts on signed overflow."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    functions, table = [], []
    for i, remap in enumerate(COMPOSITIONS):
        table.append(f"dynamic_{i}")
        functions.append(function(table[-1], remap, "grid_rows", "grid_cols"))
        for rows, cols in STATIC_GRIDS:
            table.append(f"static_{i}_{rows}_{cols}")
            functions.append(function(table[-1], remap, rows, cols))
    source = f"""
#include <cstdio>
struct Tile {{ int row, col; }};
{"".join(functions)}
int main() {{
    Tile (*const table[])(int, int, int) = {{{", ".join(table)}}};
    int which, rows, cols, block;
    while (std::scanf("%d %d %d %d", &which, &rows, &cols, &block) == 4) {{
        const Tile tile = table[which](block, rows, cols);
        std::fwrite(&tile, sizeof tile, 1, stdout);
    }}
}}
"""
    folder: Path = tmp_path_factory.mktemp("remaps")
    (folder / "remaps.cpp").write_text(source)
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover"]
    subprocess.run([compiler, *flags, "remaps.cpp", "-o", "remaps"], cwd=folder, check=True)

    def run(which: int, rows: int, cols: int, blocks: list[int]) -> list[tuple[int, int]]:
        lines = "".join(f"{which} {rows} {cols} {block}\n" for block in blocks)
        done = subprocess.run([folder / "remaps"], input=lines.encode(), capture_output=True, check=True)
        return list(struct.iter_unpack("ii", done.stdout))

    return run


@pytest.mark.parametrize("which", range(len(COMPOSITIONS)), ids=lambda i: str(COMPOSITIONS[i]))
def test_cpp_is_the_model(place, which):
    remap = COMPOSITIONS[which]
    first = which * (1 + len(STATIC_GRIDS))
    for rows, cols in DYNAMIC_GRIDS:
        assert place(first, rows, cols, list(range(rows * cols))) == remap.order(rows, cols)
    for i, (rows, cols) in enumerate(STATIC_GRIDS):
        assert place(first + 1 + i, -1, -1, list(range(rows * cols))) == remap.order(rows, cols)


@pytest.mark.parametrize("which", range(len(COMPOSITIONS)), ids=lambda i: str(COMPOSITIONS[i]))
def test_the_largest_grids_do_not_overflow(place, which):
    remap = COMPOSITIONS[which]
    pick = random.Random(which)
    for rows, cols in LARGEST_GRIDS:
        tiles = rows * cols
        blocks = [0, 1, tiles // 2, tiles - 2, tiles - 1, *(pick.randrange(tiles) for _ in range(20))]
        expected = [remap.place(block, rows, cols) for block in blocks]
        assert place(which * (1 + len(STATIC_GRIDS)), rows, cols, blocks) == expected


def test_the_text_for_a_static_grid():
    remap = compose([XCD, RemapCall("group", {"rows": 4})])
    block = remap.cpp("block", NamedInt("grid_rows", 64), NamedInt("grid_cols", 64))
    assert (
        "\n".join(block.statements)
        == """\
    constexpr int xcd_count = 8;  // XCDs that blocks are dealt over
    constexpr int xcd_round = 128;  // tiles of a full round: one chunk for every XCD
    const int xcd_slot = block % xcd_round;  // place in the round
    const int xcd_base = block - xcd_slot;  // first tile of the round
    const int xcd_id = xcd_slot % xcd_count;  // its XCD, by round robin
    const int xcd_turn = xcd_slot / xcd_count;  // blocks it has had before in the round
    constexpr int xcd_share = 16;  // tiles of every XCD in the round
    const int xcd_linear = xcd_base + xcd_id * xcd_share + xcd_turn;  // the tile's linear index
    constexpr int group_rows = 4;  // height of a full band
    constexpr int group_tiles = 256;  // tiles of a full band
    const int group_first_row = xcd_linear / group_tiles * group_rows;  // of this band
    const int group_slot = xcd_linear % group_tiles;  // place in the band
    const int tile_row = group_first_row + group_slot % group_rows;
    const int tile_col = group_slot / group_rows;"""
    )


def test_the_text_for_a_dynamic_grid():
    block = compose([RemapCall("group", {"rows": 12})]).cpp("task", "g.tile_rows", "g.tile_cols", indent="")
    assert (
        "\n".join(block.statements)
        == """\
const int group_rows = 12 < g.tile_rows ? 12 : g.tile_rows;  // height of a full band
const int group_tiles = group_rows * g.tile_cols;  // tiles of a full band
const int group_first_row = task / group_tiles * group_rows;  // of this band
const int group_slot = task % group_tiles;  // place in the band
const int group_rows_left = g.tile_rows - group_first_row;
// the last band keeps the remainder
const int group_height = group_rows < group_rows_left ? group_rows : group_rows_left;
const int tile_row = group_first_row + group_slot % group_height;
const int tile_col = group_slot / group_height;"""
    )


def test_named_extents_stand_by_their_names():
    block = compose([]).cpp("block", NamedInt("grid_rows", 8), NamedInt("grid_cols", 4), indent="")
    assert block.statements == ["const int tile_row = block / grid_cols;", "const int tile_col = block % grid_cols;"]


def test_a_square_grid_may_have_one_name_for_both_sides():
    block = compose([]).cpp("block", "side", "side", indent="")
    assert block.statements == ["const int tile_row = block / side;", "const int tile_col = block % side;"]
