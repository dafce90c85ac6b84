"""Prologue and drain of a loop as the spec writes them: right ones, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_builds import SPECS

pytest.importorskip("torch")

from tkgen import api
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.launch import run
from tkgen.source import SourceFile
from tkgen.syntax.format import format_source
from tkgen.tile.ops import Load, Multiply

TEXT = """\
kernel ends
  dims M = 128, N = 64, K = {k}
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 64 x 64 step 32
  waves 2 x 2
  shared A, B buffers {buffers} via {via}
  registers A, B slice 16 buffers 2
  accumulate C : f32 tile 32 x 32
{rest}  store C
  schedule
{lines}"""
# One LDS buffer: the next step waits in staging registers.
STAGED = """\
    prologue group fetch A[0] B[0]
    prologue cluster write A[0] B[0]  wait lds 0
    cluster fetch A[k+1] B[k+1]  read A B  multiply  wait lds 0
    cluster write A[k+1] B[k+1]  wait lds 0
    drain group read A[end-1] B[end-1]  multiply[end-1]
"""
# Three buffers and two steps ahead; the drain makes two steps of which the last reads what the loop has brought.
DEEP = """\
    prologue group load A[0] B[0]
    prologue cluster load A[1] B[1]
    cluster load A[k+2] B[k+2]  read A B  multiply  wait lds 0
    drain group read A[end-2](*; 0) B[end-2](*; 0)  multiply[end-2] slice 0
    drain group read A[end-2](*; 1) B[end-2](*; 1)  multiply[end-2] slice 1
    drain group read A[end-1] B[end-1]  multiply[end-1]
"""
HALF_TILES = """\
    prologue group copy B[0](0) A[0](0..1)
    prologue cluster copy B[0](1) A[0](2..3)  wait vm 4
    prologue group copy B[1](0)
    prologue cluster copy A[1](0..1) B[1](1)  wait vm 6
    prologue group read B[0](0)
{loop}
    drain cluster read A[end-2](0..1)  copy A[end-1](2..3)  wait lds 8
    drain cluster wait lds 0  priority high  multiply[end-2](0..1, 0)
    drain cluster read B[end-2](1)
    drain cluster wait lds 0  priority high  multiply[end-2](0..1, 1)
    drain cluster read A[end-2](2..3)  wait vm 6
    drain cluster wait lds 0  priority high  multiply[end-2](2..3, 0)
    drain cluster read B[end-1](0)  wait vm 0
    drain cluster priority high  multiply[end-2](2..3, 1)
    drain cluster read A[end-1](0..1) B[end-1](1)
    drain cluster wait lds 0  priority high  multiply[end-1](0..1, *)
    drain group read A[end-1](2..3)
    drain group wait lds 0  multiply[end-1](2..3, *)
"""


def spec(folder: Path, lines: str, k: object = 160, rest: str = "", **changes: object) -> api.Spec:
    path = folder / "ends.tk"
    given = {"buffers": 1, "via": "registers"} | changes
    path.write_text(TEXT.format(lines=lines, k=k, rest=rest, **given))
    return api.load(path)


def deep(folder: Path, lines: str = DEEP, k: object = 160, rest: str = "") -> api.Spec:
    return spec(folder, lines, k, rest, buffers=3, via="collective")


def right(made: api.Spec, orders: int = 2, **extents: int) -> bool:
    build = made.check().build().check()
    return all(run(build, extents=extents or None, order=order).ok for order in interleavings(orders))


def test_they_stand_as_written(tmp_path: Path) -> None:
    (wave,) = deep(tmp_path).plan.waves
    loads = [(str(p.operand), p.tile.step) for p in wave.before if isinstance(p, Load)]
    assert loads == [("A", "0"), ("B", "0"), ("A", "1"), ("B", "1")]
    drained = [(p.slices, p.left.step) for p in wave.behind if isinstance(p, Multiply)]
    assert drained == [((0,), "steps-2"), ((1,), "steps-2"), ((0, 1), "steps-1")]


@pytest.mark.parametrize("k", [32, 64, 160])
def test_numbers(tmp_path: Path, k: int) -> None:
    assert right(spec(tmp_path, STAGED, k), orders=3)


def test_numbers_of_a_longer_drain(tmp_path: Path) -> None:
    assert right(deep(tmp_path, k=64)) and right(deep(tmp_path, k=224), orders=3)
    assert right(deep(tmp_path, DEEP + "    drain cluster wait lds 0\n", rest="  grid persistent(1)\n"), orders=3)
    with pytest.raises(SpecError, match="E302"):  # the next tile's prologue, while waves are still in this one's drain
        deep(tmp_path, rest="  grid persistent(1)\n").check()
    dynamic = deep(tmp_path, k="dynamic")
    assert right(dynamic, M=128, N=64, K=64) and right(dynamic, M=128, N=64, K=192)
    with pytest.raises(ValueError, match="at least 2 steps"):
        right(dynamic, M=128, N=64, K=32)


def half_tiles() -> str:
    text = (SPECS / "hk_half_tiles.tk").read_text()
    head, loop = text.split("  schedule\n")
    return head + "  schedule\n" + HALF_TILES.format(loop=loop.rstrip("\n"))


def test_half_tiles_with_ends_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "half_tiles.tk"
    path.write_text(half_tiles())
    assert format_source(SourceFile("half_tiles.tk", half_tiles())) == half_tiles()
    for k in (128, 384):
        assert right(api.load(path, {"M": 256, "N": 256, "K": k}), orders=4)


TWO_LINES = "A[0](0..1)\n    prologue cluster copy B[0](1) A[0](2..3)  "
ONE_LINE = "A[0](0..1) B[0](1) A[0](2..3)\n    prologue cluster "
MISTAKES = {
    "copies of one line are in no order": (TWO_LINES, ONE_LINE, "E304"),
    "a step that the prologue forgets": ("    prologue group copy B[1](0)\n", "", "E305"),
    "a wait too loose in the drain": ("wait vm 0", "wait vm 3", "E304"),
    "a product twice": ("multiply[end-1](2..3, *)", "multiply[end-1](1..3, *)", "E402"),
    "a product missing": ("multiply[end-1](2..3, *)", "multiply[end-1](2..3, 0)", "E402"),
    "a drain alone": ("    prologue", "    #", "E216"),
    "steps of the loop in the drain": ("read B[end-2](1)", "read B[k](1)", "E216"),
    "no step in the prologue": ("read B[0](0)", "read B(0)", "E216"),
    "a product in the prologue": ("read B[0](0)", "read B[0](0)  multiply[0](0, 0)", "E216"),
    "one step for a loop that takes two": ("multiply[end-2]", "multiply[end-1]", "E216"),
    "a step that two steps do not have": ("A[1](0..1) B[1](1)", "A[2](0..1) B[1](1)", "E216"),
    "a step behind the last": ("read B[end-1](0)", "read B[end](0)", "E216"),
    "placed waits": ("  schedule\n", "  schedule waits auto\n", "E216"),
    "another step in the loop": ("multiply (0..1, 1)", "multiply[k+1](0..1, 1)", "E216"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tmp_path: Path, name: str) -> None:
    old, new, code = MISTAKES[name]
    text = half_tiles()
    assert old in text
    path = tmp_path / "mistake.tk"
    path.write_text(text.replace(old, new))
    with pytest.raises(SpecError) as caught:
        api.load(path).check()
    assert code in {d.code for d in caught.value.diagnostics}


def test_a_size_that_leaves_a_step(tmp_path: Path) -> None:
    path = tmp_path / "half_tiles.tk"
    path.write_text(half_tiles())
    with pytest.raises(SpecError, match="3 K-steps are not 2 of the drain plus iterations of 2"):
        api.load(path, {"K": 192}).check()
