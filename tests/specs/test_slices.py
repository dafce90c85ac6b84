"""Operands whose register tiles differ: slices of one that are several of the other's, more buffers for one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tkgen import api
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.launch import run
from tkgen.tile.ops import Read

TEXT = """\
kernel slices
  dims M = 128, N = 64, K = {k}
  global A : bf16[{a}]
  global B : bf16[{b}]
  global C : f32[M, N]
  block 64 x 64 step 64
  waves 2 x 2
  shared A, B buffers {buffers} via {via}
  registers A {one}
  registers B {other}
  accumulate C : f32 tile 32 x 32
  allow slow_reads, low_occupancy
  store C
"""
DEFAULTS = {"k": 320, "a": "M, K", "b": "N, K", "buffers": 2, "via": "collective"}
# All of B's step is held; A's slices come one after the other, each read while the one before it multiplies.
HELD = """\
  schedule
    cluster load A[k+1] B[k+1]  read B  read A(*; 0)
    group multiply slice 0  read A(*; 1)
    group multiply slice 1  read A(*; 2)
    group multiply slice 2  read A(*; 3)
    cluster multiply slice 3  wait lds 0
"""


def spec(folder: Path, one: str, other: str, schedule: str = "", **changes: object) -> api.Spec:
    path = folder / "slices.tk"
    path.write_text(TEXT.format(**(DEFAULTS | changes), one=one, other=other) + schedule)
    return api.load(path)


def right(made: api.Spec, orders: int = 2) -> bool:
    build = made.check().build().check()
    return all(run(build, order=order).ok for order in interleavings(orders))


@pytest.mark.parametrize(
    ("one", "other", "a", "b"),
    [("slice 16", "slice 64", "M, K", "N, K"), ("slice 32 buffers 2", "slice 16 buffers 2", "K, M", "K, N")],
)
def test_schedules_of_tkgens_own(tmp_path: Path, one: str, other: str, a: str, b: str) -> None:
    assert right(spec(tmp_path, one, other, a=a, b=b))
    assert right(spec(tmp_path, one, other, a=a, b=b, via="registers", buffers=1, k=64))


def test_a_longer_slice_is_read_at_once(tmp_path: Path) -> None:
    """B, in slices of 64, once a step; A, in slices of 16, four times."""
    ops = spec(tmp_path, "slice 16", "slice 64").plan.bodies["waves"]
    reads = [(op.operand, op.tile.slices) for op in ops if isinstance(op, Read)]
    assert reads == [("A", (0,)), ("B", (0, 1, 2, 3)), ("A", (1,)), ("A", (2,)), ("A", (3,))]


def test_an_operand_that_is_held_whole(tmp_path: Path) -> None:
    made = spec(tmp_path, "slice 16 buffers 2", "slice 64", HELD)
    assert [(o.slice, o.register_buffers) for o in made.program.operands] == [(16, 2), (16, 4)]
    assert right(made, orders=4)
    assert right(spec(tmp_path, "slice 16 buffers 2", "slice 32 buffers 2", HELD), orders=4)


def test_reads_count_their_operands_slices(tmp_path: Path) -> None:
    made = spec(tmp_path, "slice 16", "slice 32", HELD.replace("read B ", "read B(*; 1) "))
    (read,) = [op for op in made.plan.bodies["waves"] if isinstance(op, Read) and op.operand == "B"]
    assert read.tile.slices == (2, 3)


AHEAD = HELD.replace("multiply slice 0  read A(*; 1)", "read A(*; 1)  multiply slice 0")
MISTAKES = {
    "a slice read over one that is still needed": ("slice 16", "slice 64", AHEAD, "E310"),
    "half of what is held": ("slice 16 buffers 2", "slice 32", HELD.replace("read B ", "read B(*; 0) "), "E310"),
    "a slice of the other operand": (
        "slice 16 buffers 2",
        "slice 64",
        HELD.replace("read B ", "read B(*; 1) "),
        "E217",
    ),
    "buffers that differ, and no schedule": ("slice 16 buffers 2", "slice 64", "", "E208"),
    "no common slice": ("slice 48", "slice 32", "", "E208"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tmp_path: Path, name: str) -> None:
    one, other, lines, code = MISTAKES[name]
    with pytest.raises(SpecError) as caught:
        spec(tmp_path, one, other, lines).check()
    assert code in {d.code for d in caught.value.diagnostics}
