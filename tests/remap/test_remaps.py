"""The remaps themselves: bijections on every grid, and each with the order that is its purpose."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tkgen.remap import Remap, RemapCall, compose
from tkgen.remap.measure import panels, panels_per_window, picture

PLACEMENTS = {
    "row_major": RemapCall("row_major"),
    "column_major": RemapCall("column_major"),
    "group": RemapCall("group", {"rows": 8}),
    "morton": RemapCall("morton"),
    "hilbert": RemapCall("hilbert"),
}
SIDES = st.integers(1, 40)

xcd_calls = st.builds(
    lambda n, chunk: RemapCall("xcd", {"n": n} | ({} if chunk is None else {"chunk": chunk})),
    st.integers(1, 12),
    st.none() | st.integers(1, 40),
)
placement_calls = st.sampled_from([*PLACEMENTS.values()]) | st.builds(
    lambda rows: RemapCall("group", {"rows": rows}), st.integers(1, 50)
)
compositions = st.builds(
    lambda stages, placement: [*stages, *placement],
    st.lists(xcd_calls | st.just(RemapCall("reversed")), max_size=3),
    st.lists(placement_calls, max_size=1),
)


def order(name: str, grid_rows: int, grid_cols: int, **args: int) -> list[tuple[int, int]]:
    return compose([RemapCall(name, args)]).order(grid_rows, grid_cols)


def linear(tiles: int, **args: int) -> list[int]:
    """The linear index that `xcd` gives to every block id."""
    return [col for _, col in order("xcd", 1, tiles, **args)]


def places_each_tile_once(remap: Remap, rows: int, cols: int) -> bool:
    return sorted(remap.order(rows, cols)) == [(r, c) for r in range(rows) for c in range(cols)]


# ---------------------------------------------------------------- every remap


@settings(deadline=None, max_examples=300)
@given(compositions, SIDES, SIDES)
def test_every_composition_is_a_bijection(calls, rows, cols):
    remap = compose(calls)
    assert places_each_tile_once(remap, rows, cols)


@pytest.mark.parametrize("call", PLACEMENTS.values(), ids=PLACEMENTS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 997), (997, 1), (2, 500), (97, 101), (128, 128), (64, 200)])
def test_larger_grids(call, shape):
    assert places_each_tile_once(compose([RemapCall("xcd", {"n": 8, "chunk": 19}), call]), *shape)


@pytest.mark.slow
@pytest.mark.parametrize("call", PLACEMENTS.values(), ids=PLACEMENTS)
def test_all_small_grids(call):
    remap = compose([call])
    assert all(places_each_tile_once(remap, rows, cols) for rows in range(1, 33) for cols in range(1, 33))


@given(compositions, SIDES, SIDES, st.data())
def test_one_tile_at_a_time_is_the_same_order(calls, rows, cols, data):
    remap = compose(calls)
    index = data.draw(st.integers(0, rows * cols - 1))
    assert remap.place(index, rows, cols) == remap.order(rows, cols)[index]


@pytest.mark.parametrize("call", PLACEMENTS.values(), ids=PLACEMENTS)
def test_large_grids_are_quick(call):
    remap = compose([RemapCall("xcd", {"n": 8, "chunk": 32}), call])
    start = time.perf_counter()
    assert len(remap.order(300, 300)) == 90000
    assert time.perf_counter() - start < 1


def test_pictures():
    assert picture(compose([RemapCall("group", {"rows": 2})]), 3, 4) == " 0  2  4  6\n 1  3  5  7\n 8  9 10 11"


# ---------------------------------------------------------------- row_major, column_major, group


def test_row_and_column_major():
    assert order("row_major", 2, 3) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert order("column_major", 2, 3) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]


@given(SIDES, SIDES, st.integers(1, 50))
def test_group_walks_its_rows_per_column(rows, cols, band):
    expected = [
        (row, col) for top in range(0, rows, band) for col in range(cols) for row in range(top, min(top + band, rows))
    ]
    assert order("group", rows, cols, rows=band) == expected


@pytest.mark.parametrize(("rows", "cols"), [(64, 64), (12, 5), (24, 7), (25, 7), (35, 3), (7, 9), (100, 32)])
def test_group_of_12_is_the_super_m_of_the_nvidia_kernels(rows, cols):
    """Their formula: full super-rows first, then a remainder whose height replaces SUPER_M."""
    super_m = 12
    in_super_rows = rows // super_m * super_m
    left_over = rows - in_super_rows

    def tile(task: int) -> tuple[int, int]:
        if task < in_super_rows * cols:
            super_row, place = divmod(task, super_m * cols)
            return super_row * super_m + task % super_m, place // super_m
        rest = task - in_super_rows * cols
        return in_super_rows + rest % left_over, rest // left_over

    assert order("group", rows, cols, rows=super_m) == [tile(i) for i in range(rows * cols)]


# ---------------------------------------------------------------- reversed


def test_reversed_begins_with_the_last_tile_of_each_row():
    found = compose([RemapCall("reversed"), RemapCall("column_major")]).order(3, 4)
    assert found[:3] == [(2, 3), (1, 3), (0, 3)] and found[-1] == (0, 0)


# ---------------------------------------------------------------- morton, hilbert


@pytest.mark.parametrize("bits", range(6))
def test_morton_on_a_power_of_two_interleaves_the_bits(bits):
    def every_other(index: int, first: int) -> int:
        return sum((index >> (2 * b + first) & 1) << b for b in range(bits))

    side = 1 << bits
    assert order("morton", side, side) == [(every_other(i, 1), every_other(i, 0)) for i in range(side * side)]


@given(SIDES, SIDES)
def test_hilbert_steps_to_a_neighbour(rows, cols):
    """One diagonal step is left where a side that is even cannot be crossed an odd number of times."""
    curve = order("hilbert", rows, cols)
    steps = [(abs(r - s), abs(c - d)) for (r, c), (s, d) in pairwise(curve)]
    diagonal = steps.count((1, 1))
    assert diagonal + steps.count((0, 1)) + steps.count((1, 0)) == len(steps)
    assert diagonal <= (max(rows, cols) % 2 == 1 and min(rows, cols) % 2 == 0)


def test_hilbert_runs_along_the_longer_side():
    assert order("hilbert", 6, 10)[0] == (0, 0) and order("hilbert", 6, 10)[-1] == (0, 9)
    assert order("hilbert", 10, 6)[0] == (0, 0) and order("hilbert", 10, 6)[-1] == (9, 0)


@pytest.mark.parametrize("name", ["morton", "hilbert"])
def test_aligned_runs_are_squares(name):
    curve = order(name, 32, 32)
    for side in (2, 4, 8, 16):
        for start in range(0, 1024, side * side):
            run = curve[start : start + side * side]
            rows, cols = {r for r, _ in run}, {c for _, c in run}
            assert len(rows) == len(cols) == side


@pytest.mark.parametrize("shape", [(64, 64), (61, 53), (32, 128), (100, 36)])
@pytest.mark.parametrize("name", ["group", "morton", "hilbert"])
def test_any_run_of_tiles_touches_fewer_panels_than_row_major(name, shape):
    def worst(call: RemapCall, n: int) -> int:
        tiles = compose([call]).order(*shape)
        return max(panels(tiles[i : i + n]) for i in range(0, len(tiles) - n, 7))

    for n in (32, 64):
        assert worst(PLACEMENTS[name], n) < worst(PLACEMENTS["row_major"], n)


@pytest.mark.parametrize("name", ["group", "morton", "hilbert"])
def test_reuse_on_a_big_grid(name):
    """64 tiles read at least 16 panels (8 x 8); row-major reads 65."""
    remap = compose([PLACEMENTS[name]])
    assert panels_per_window(compose([]), 64, 64, window=64) == 65
    assert panels_per_window(remap, 64, 64, window=64) == 16
    assert panels_per_window(remap, 61, 67, window=64) < 25


def test_a_window_larger_than_the_grid():
    with pytest.raises(ValueError, match="no window of 100 blocks"):
        panels_per_window(compose([]), 8, 8, window=100)


# ---------------------------------------------------------------- xcd


@given(st.integers(1, 600), st.integers(1, 12), st.integers(1, 40))
def test_every_xcd_works_on_chunks(tiles, n, chunk):
    """Against the hardware's deal: block `id` runs on XCD `id % n`, the blocks of one XCD in order."""
    tile_of = linear(tiles, n=n, chunk=chunk)
    full_rounds = tiles // (n * chunk)
    leftover = tiles - full_rounds * n * chunk
    start_of_share = full_rounds * n * chunk
    for xcd in range(n):
        worked_on = tile_of[xcd::n]
        expected = []
        for round_ in range(full_rounds):
            first = (round_ * n + xcd) * chunk
            expected.extend(range(first, first + chunk))
        share = len(range(xcd, leftover, n))  # what the deal leaves it of the last round, in one run
        expected.extend(range(start_of_share, start_of_share + share))
        start_of_share += share
        assert worked_on == expected


@given(st.integers(1, 600), st.integers(1, 12))
def test_without_a_chunk_every_xcd_gets_one_run(tiles, n):
    tile_of = linear(tiles, n=n)
    assert [tile for xcd in range(n) for tile in tile_of[xcd::n]] == list(range(tiles))


def test_xcd_brings_reuse_to_each_die():
    """On 8 dies of 32 blocks, group alone spreads neighbours over the dies."""
    grouped = PLACEMENTS["group"]
    alone = panels_per_window(compose([grouped]), 64, 64, window=32, xcds=8)
    chunked = panels_per_window(compose([RemapCall("xcd", {"n": 8, "chunk": 32}), grouped]), 64, 64, window=32, xcds=8)
    assert chunked == 12  # 8 rows and 4 columns
    assert chunked < alone / 2
