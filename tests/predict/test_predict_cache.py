"""Traffic of whole grids, on ones small enough to count and large enough to matter."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from measured_kernels import eight_clusters

from tkgen.predict.cache import traffic
from tkgen.targets import load_target

TARGET = load_target("gfx942")
DEVICE = TARGET.product_named("MI325X")


def test_one_block_reads_its_panels_from_memory() -> None:
    w = eight_clusters(4096)
    one = replace(w, pieces=[(0, 0, 0)], m=256, n=256, blocks=1)
    flow = traffic(one, TARGET, DEVICE)
    assert flow.l2_bytes == flow.llc_bytes == flow.hbm_bytes == 2 * 256 * 4096 * 2
    assert (flow.l2_hit_rate, flow.llc_hit_rate, flow.residents, flow.active_cus) == (0, 0, (1,), 1)


def test_each_xcd_fetches_for_itself_and_memory_serves_once() -> None:
    """Eight blocks of one row, one on each XCD: A's panel goes to eight L2s, and leaves HBM once."""
    w = eight_clusters(4096)
    row = replace(w, pieces=[(0, c, 0) for c in range(8)])
    flow = traffic(row, TARGET, DEVICE)
    panel = 256 * 4096 * 2
    assert flow.llc_bytes == flow.l2_bytes == 16 * panel
    assert flow.hbm_bytes == 9 * panel


def test_blocks_of_one_xcd_share_their_l2() -> None:
    w = eight_clusters(4096)
    # Tiles 0, 8, 16, 24 in launch order go to the first XCD: a 2 x 2 square there.
    pieces = [(100 + i, 100 + i, 0) for i in range(32)]
    for i, tile in zip((0, 8, 16, 24), ((0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)), strict=True):
        pieces[i] = tile
    flow = traffic(replace(w, pieces=pieces), TARGET, DEVICE)
    panel = 256 * 4096 * 2
    assert flow.l2_bytes == 64 * panel
    assert flow.llc_bytes == (4 + 2 * 28) * panel


@pytest.mark.parametrize("size", [1024, 2048, 4096, 8192, 16384])
def test_levels_are_ordered_and_compulsory_misses_remain(size: int) -> None:
    flow = traffic(eight_clusters(size), TARGET, DEVICE)
    assert flow.l2_bytes >= flow.llc_bytes >= flow.hbm_bytes >= 2 * size * size * 2
    assert flow.written_bytes == size * size * 2
    assert 0 <= flow.from_hbm <= flow.from_llc <= 1


def test_what_fits_the_last_level_cache_is_read_from_memory_once() -> None:
    assert traffic(eight_clusters(4096), TARGET, DEVICE).hbm_bytes == 2 * 4096 * 4096 * 2
    assert traffic(eight_clusters(16384), TARGET, DEVICE).hbm_bytes > 3 * 16384 * 16384 * 2


def test_the_order_of_blocks_decides_l2_hits() -> None:
    w = eight_clusters(8192)
    scattered = list(w.pieces)
    random.Random(1).shuffle(scattered)
    good, bad = traffic(w, TARGET, DEVICE), traffic(replace(w, pieces=scattered), TARGET, DEVICE)
    assert bad.llc_bytes > 1.5 * good.llc_bytes
    assert bad.l2_bytes == good.l2_bytes
    # Square pieces of the grid per XCD: 38 blocks read at least 12 to 13 panels.
    assert good.l2_hit_rate < 1 - 12 / 76


def test_rounds_and_their_tail() -> None:
    assert traffic(eight_clusters(8192), TARGET, DEVICE).residents == (1, 1, 1, 1)  # 1024 blocks on 304 CUs
    assert traffic(eight_clusters(4096), TARGET, DEVICE).active_cus == 256
    two = eight_clusters(2048)
    assert two.blocks_per_cu == 2
    assert traffic(two, TARGET, DEVICE).residents == (1,)  # spread over the CUs before a second one goes anywhere


def test_a_persistent_grid_takes_its_tiles_in_turns() -> None:
    w = eight_clusters(8192)
    flow = traffic(replace(w, blocks=304, repeats=4), TARGET, DEVICE)
    assert flow.residents == (1, 1, 1, 1)
    assert flow.l2_bytes == traffic(w, TARGET, DEVICE).l2_bytes


def test_parts_of_k_are_panels_of_their_own() -> None:
    """Two blocks on one XCD that sum different halves of K of one tile share nothing; each reads half a panel."""
    w = eight_clusters(4096)
    halves = [(0, 0, 0), *[(9, 9 + i, 0) for i in range(7)], (0, 0, 32)]
    flow = traffic(replace(w, pieces=halves, piece_steps=32), TARGET, DEVICE)
    assert flow.l2_bytes == 9 * 2 * 256 * 2048 * 2
    assert flow.llc_bytes == flow.l2_bytes
