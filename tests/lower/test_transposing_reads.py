"""Tiles that lie with the contraction first, on gfx950: instructions that transpose read them of LDS."""

from __future__ import annotations

import pytest

from tkgen import load_products
from tkgen.execute.launch import run, trials

TEXT = """kernel at_b
  target gfx950
  dims M = 150, N = 100, K = 100
  global A : {dtype}[K, M]
  global B : {dtype}[K, N]
  global C : f32[M, N]
  block {block} step 32
  tail masked
  allow low_occupancy
  waves 2 x 1
  shared A, B{ways}
  registers A, B slice {slice}
  accumulate C : f32 tile {tile} x {tile}
  store C
"""
WAYS = ["", " buffers 2", " via registers"]


@pytest.mark.parametrize(("dtype", "tile", "slice", "ways"), [
    ("bf16", 16, 32, WAYS[0]), ("bf16", 32, 16, WAYS[1]), ("f16", 32, 32, WAYS[2]), ("f16", 16, 16, WAYS[2]),
])  # fmt: skip
def test_tiles_of_whole_panels(dtype: str, tile: int, slice: int, ways: str) -> None:
    build = load_products(TEXT.format(dtype=dtype, tile=tile, slice=slice, ways=ways, block="128 x 64")).check().build()
    assert "ds_read_b64_tr_b16" in build.asm and "ds_read_u16" not in build.asm
    for seed, (order, kind) in enumerate(trials(3)):
        found = run(build, seed=seed, kind=kind, order=order)
        assert found.ok, found.failure


def test_tiles_of_half_a_panel_are_read_singly_and_said_to_be() -> None:
    """48 columns are a panel of 32 and a half."""
    text = TEXT.format(dtype="bf16", tile=16, slice=32, ways="", block="64 x 48")
    spec = load_products(text)
    slow = ("W201", "`B` is read from LDS one element at a time")
    assert slow in [(d.code, d.message) for d in spec.diagnostics]
    build = spec.build()
    assert "ds_read_b64_tr_b16" in build.asm and "ds_read_u16" in build.asm
    assert run(build).ok
