"""Block orders of grids too large to go through: a sample of the tiles that begin first."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tkgen.api import load
from tkgen.predict import PredictError, predict
from tkgen.report import order

SPEC = """kernel t
  dims M = {size}, N = {size}, K = 256
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 32 x 32 step 32
  remap xcd(8, chunk = 16) | group(rows = 8)
  {grid}
  waves 1
  shared A, B buffers 1
  accumulate C : f32 tile 32 x 32
  store C
"""
GRIDS = ["grid linear", "grid persistent(1216)", "grid stream_k(1216)"]


def block_order(path: Path, size: int, grid: str) -> order.BlockOrder:
    path.write_text(SPEC.format(size=size, grid=grid))
    spec = load(path).check()
    return order.block_order(spec.program, spec.target.product, 4)


@pytest.mark.parametrize("grid", GRIDS)
def test_a_grid_of_2_to_the_25_blocks_takes_little_memory(grid: str, tmp_path: Path) -> None:
    tracemalloc.start()
    found = block_order(tmp_path / "t.tk", 185_344, grid)  # 5792 x 5792 tiles
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.rows * found.cols > 33_000_000 and found.sequence == ()
    assert peak < 100 << 20
    least = 1 if "stream_k" in grid else 1.5  # runs of 27,000 tiles each begin far from one another
    assert len(found.reuse) == 2 and all(r.factor >= least for r in found.reuse)


@pytest.mark.parametrize("grid", GRIDS)
def test_the_sample_says_what_the_whole_says(grid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = block_order(tmp_path / "t.tk", 8192, grid)  # 256 x 256 tiles: all of them
    monkeypatch.setattr(order, "SAMPLED_TILES", 1 << 14)
    for mine, all_of_it in zip(block_order(tmp_path / "t.tk", 8192, grid).reuse, whole.reuse, strict=True):
        assert mine.panels == pytest.approx(all_of_it.panels, rel=0.15)


def test_a_prediction_of_so_many_blocks_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.tk"
    path.write_text(SPEC.format(size=185_344, grid="grid linear"))
    with pytest.raises(PredictError, match="5792 x 5792 output tiles are more than"):
        predict(load(path).build(), {})
