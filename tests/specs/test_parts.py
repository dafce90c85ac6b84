"""Tiles that a written schedule brings to LDS in parts: fragments, slices or both, every way into LDS, every layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_builds import SPECS

pytest.importorskip("torch")

from tkgen import api
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.launch import run

TEXT = """\
kernel parts
  dims M = {m}, N = {n}, K = {k}
  global A : {dtype}[{a}]
  global B : {dtype}[{b}]
  global C : f32[M, N]
  block {block}
  {waves}
  shared A, B buffers {buffers} via {via}
  registers A, B slice {slice} buffers 2
  accumulate C : f32 tile 16 x 16 interleaved
  allow slow_reads, low_occupancy
  store C
{rest}  schedule barriers auto waits auto
{lines}"""
DEFAULTS = {
    "m": 128, "n": 64, "k": 160, "dtype": "bf16", "a": "M, K", "b": "N, K", "block": "64 x 64 step 32",
    "waves": "waves 2 x 2", "buffers": 2, "via": "collective", "slice": 16, "rest": "",
}  # fmt: skip
MULTIPLY = "    cluster read A B  multiply\n"
HALVES = MULTIPLY + "    cluster load A[k+1](0)\n    cluster load A[k+1](1) B[k+1](0)  load B[k+1](1)\n"
STAGED = (
    "    cluster fetch A[k+1](1) A[k+1](0) B[k+1](*; 0)  fetch B[k+1](*; 1)\n"
    + MULTIPLY
    + "    cluster write A[k+1](0) B[k+1](*; 0..1)\n    cluster write A[k+1](1)\n"
)
# A half is refilled as soon as it is read; the other one is read in the next cluster.
REFILLED = """\
    cluster read A(0) B  multiply (0, *)
    cluster {move} A[k+{ahead}](0)  read A(1)
    cluster multiply (1, *)
    cluster {move} A[k+{ahead}](1) B[k+{ahead}]
"""


def spec(folder: Path, lines: str, **changes: object) -> api.Spec:
    path = folder / "parts.tk"
    path.write_text(TEXT.format(**(DEFAULTS | changes), lines=lines))
    return api.load(path)


def right(made: api.Spec, orders: int = 2, **extents: int) -> bool:
    build = made.check().build().check()
    return all(run(build, extents=extents or None, order=order).ok for order in interleavings(orders))


LAYOUTS = {"ABt": ("M, K", "N, K"), "AB": ("M, K", "K, N"), "AtB": ("K, M", "K, N")}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lines", [HALVES, HALVES.replace("(0)", "(*; 0)").replace("(1)", "(*; 1)")], ids=["rows", "k"])
def test_collective_loads(tmp_path: Path, layout: str, lines: str) -> None:
    a, b = LAYOUTS[layout]
    assert right(spec(tmp_path, lines, a=a, b=b))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_through_staging_registers(tmp_path: Path, layout: str) -> None:
    a, b = LAYOUTS[layout]
    assert right(spec(tmp_path, STAGED, a=a, b=b, via="registers", buffers=1))


def test_quarters_of_a_tile(tmp_path: Path) -> None:
    """Fragments and slices: the tile lies in 2 x 2 parts, and a load of one fragment brings two of them."""
    lines = MULTIPLY + "    cluster load A[k+1](0; 1) A[k+1](0; 0)\n    cluster load A[k+1](1)  load B[k+1]\n"
    assert right(spec(tmp_path, lines))


def test_halves_refilled_as_soon_as_they_are_read(tmp_path: Path) -> None:
    for move, ahead, changes in (
        ("load", 1, {"buffers": 1}),
        ("load", 2, {}),
        ("copy", 2, {"via": "direct", "slice": 32, "block": "64 x 64 step 64", "k": 320, "rest": "  target gfx950\n"}),
    ):
        assert right(spec(tmp_path, REFILLED.format(move=move, ahead=ahead), **changes), orders=4)


@pytest.mark.parametrize("tail", ["masked", "clamped"])
def test_the_part_of_a_tile_behind_the_last_row(tmp_path: Path, tail: str) -> None:
    """70 rows: of the second tile's two halves one is not in the tensor at all."""
    changes = {"m": 70, "n": 90, "rest": f"  tail {tail}\n"}
    assert right(spec(tmp_path, HALVES, **changes))
    assert right(spec(tmp_path, STAGED, via="registers", buffers=1, **changes))


def test_other_grids_and_dynamic_sizes(tmp_path: Path) -> None:
    assert right(spec(tmp_path, HALVES, m=256, rest="  grid persistent(3)\n"), orders=3)
    assert right(spec(tmp_path, HALVES, rest="  grid split_k(2)\n", k=192))
    dynamic = spec(tmp_path, HALVES, m="dynamic", n="dynamic", k="dynamic")
    assert right(dynamic, M=128, N=64, K=32) and right(dynamic, M=64, N=128, K=160)


def test_fewer_steps_than_the_prologue_brings(tmp_path: Path) -> None:
    lines = REFILLED.format(move="load", ahead=2)
    assert right(spec(tmp_path, lines, k=32, buffers=2)) and right(spec(tmp_path, lines, k=64))


def test_half_tiles_refilled_by_direct_loads() -> None:
    """HipKittens' kernel for CDNA4, in twenty orders of the waves: one, two and a few passes of its loop."""
    for k, orders in ((128, 2), (256, 2), (384, 20)):
        made = api.load(SPECS / "hk_half_tiles.tk", {"M": 256, "N": 256, "K": k})
        assert right(made, orders)


# ---------------------------------------------------------------- mistakes

HALF_TILES = (SPECS / "hk_half_tiles.tk").read_text()
MISTAKES = {
    "a half is never refilled": ("  copy A[k+2](0..1)", "", "E305"),
    "the other half is refilled twice": ("copy B[k+2](0)", "copy B[k+2](1)", "E305"),
    "a half is refilled while waves still read it": ("copy B[k+2](1)", "copy B[k+3](1)", "E302"),
    "one read too many is outstanding at the barrier": ("wait lds 8", "wait lds 9", "E304"),
    "one load too many is under way at the barrier": ("wait vm 6", "wait vm 7", "E304"),
    "the wait for what the next cluster reads, as HipKittens leaves it out": ("  wait vm 10", "", "E304"),
    "fragments that a wave does not have": ("copy A[k+1](2..3)", "copy A[k+1](2..4)", "E217"),
    "fragments of a wave side by side": (" interleaved", "", "E216"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tmp_path: Path, name: str) -> None:
    old, new, code = MISTAKES[name]
    path = tmp_path / "mistake.tk"
    assert old in HALF_TILES
    path.write_text(HALF_TILES.replace(old, new))
    with pytest.raises(SpecError) as caught:
        api.load(path).check()
    assert code in {d.code for d in caught.value.diagnostics}


def test_parts_too_small_for_the_waves_of_a_direct_load(tmp_path: Path) -> None:
    lines = REFILLED.format(move="copy", ahead=2)
    with pytest.raises(SpecError, match="4 waves cannot divide the 2 boxes of its parts of 32 x 32 evenly"):
        spec(tmp_path, lines, via="direct", slice=32, rest="  target gfx950\n").check()
