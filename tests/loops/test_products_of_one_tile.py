"""Loops with many products an iteration, of tiles that are taken both ways, and vectors: the parts of a backward
pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from sampling import sample
from typer.testing import CliRunner

import tkgen
from tkgen.backends.cdna.spec import Spec
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.execute.launch import run, trials
from tkgen.schedule.loop_program import rings_of
from tkgen.tile.ops import Equations

DIMS = "HEADS = 1, LENGTH = 128, KEYS = 192, D = 64"
QUERIES = f"""kernel queries
  dims {DIMS}
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global G : bf16[HEADS, LENGTH, D]
  global LSE : f32[HEADS, LENGTH]
  global DELTA : f32[HEADS, LENGTH]
  global DQ : bf16[HEADS, LENGTH, D]
  over h in HEADS, q in LENGTH by 128
  waves 4 along q
  shared K, V buffers 2
  carry dq : f32[q, D] = 0
  each j in KEYS by 64
    s = 0.125 * Q[h, q] @ K[h, j].T
    p = exp(s - LSE[h, q])
    dp = G[h, q] @ V[h, j].T
    ds = p * (dp - DELTA[h, q])
    dq = dq + bf16(ds) @ K[h, j]
  DQ[h, q] = 0.125 * dq
"""
KEYS = f"""kernel keys
  dims {DIMS}
  global Q : bf16[HEADS, KEYS, D]
  global K : bf16[HEADS, LENGTH, D]
  global V : bf16[HEADS, LENGTH, D]
  global G : bf16[HEADS, KEYS, D]
  global LSE : f32[HEADS, KEYS]
  global DELTA : f32[HEADS, KEYS]
  global DK : bf16[HEADS, LENGTH, D]
  global DV : f32[HEADS, LENGTH, D]
  over h in HEADS, j in LENGTH by 128
  waves 4 along j
  shared Q, G, LSE, DELTA buffers 2
  each q in KEYS by 64
    s = 0.125 * K[h, j] @ Q[h, q].T
    p = exp(s - LSE[h, q])
    dv = dv + bf16(p) @ G[h, q]
    dp = V[h, j] @ G[h, q].T
    ds = p * (dp - DELTA[h, q])
    dk = dk + bf16(ds) @ Q[h, q]
  DK[h, j] = 0.125 * dk
  DV[h, j] = dv
"""
KERNELS = {"queries": QUERIES, "keys": KEYS}
TARGETS = ("gfx942", "gfx950")


def spec_of(text: str, target: str = "gfx942") -> Spec:
    spec = tkgen.load(text, target=target)
    assert isinstance(spec, Spec)
    return spec


def right(text: str, target: str) -> Spec:
    """Built, watched, without spills, and as the equations say."""
    build = spec_of(text, target).build().check()
    assert build.machine_check.outcome == "right" and build.resources.clean
    for order, kind in trials(3):
        assert not run(build, kind=kind, order=order).failure
    return build.spec


SHAPES = [
    {},
    {"by 64": "by 32"},
    {"by 128": "by 64", "KEYS = 192": "KEYS = 70"},  # MFMAs of 16 x 16; keys that no tile divides
    {"buffers 2": "buffers 1", "LENGTH = 128": "LENGTH = 100"},
    {"buffers 2": "buffers 3", "by 64": "by 32", "KEYS = 192": "KEYS = 160"},
    {"D = 64": "D = 128", "by 64": "by 32", "KEYS = 192": "KEYS = 32"},  # one pass
    {"D = 64": "D = 96", "by 64": "by 32"},  # three base tiles: neighbours are one at a time
    {"D = 64": "D = 32", "by 64": "by 16", "KEYS = 192": "KEYS = 48"},
    {"bf16": "f16", "0.125 *": "0.05 *"},
]


@pytest.mark.parametrize(
    ("kernel", "number"),
    sample(
        [
            pytest.param(kernel, number, marks=pytest.mark.slow if (place + number) % 2 else ())
            for place, kernel in enumerate(sorted(KERNELS))
            for number in range(len(SHAPES))
        ],
        2,
        several=True,
    ),
)
def test_shapes(kernel: str, number: int) -> None:
    """On one of the targets each."""
    text = KERNELS[kernel]
    for old, new in SHAPES[number].items():
        assert old in text
        text = text.replace(old, new)
    right(text, TARGETS[(number + (kernel == "keys")) % 2])


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_vectors_of_other_types(dtype: str) -> None:
    for text in KERNELS.values():
        text = text.replace("LSE : f32", f"LSE : {dtype}").replace("DELTA : f32", f"DELTA : {dtype}")
        right(text.replace("KEYS = 192", "KEYS = 64"), "gfx942")


def test_vectors_that_lie_apart_in_memory() -> None:
    for text in KERNELS.values():
        for name in ("LSE", "DELTA"):
            text = text.replace(f"{name} : f32[HEADS, LENGTH]", f"{name} : f32[LENGTH, HEADS]")
            text = text.replace(f"{name} : f32[HEADS, KEYS]", f"{name} : f32[KEYS, HEADS]")
            text = text.replace(f"{name}[h, q]", f"{name}[q, h]")
        right(text.replace("HEADS = 1", "HEADS = 2").replace("KEYS = 192", "KEYS = 64"), "gfx950")


def test_a_tile_that_products_take_both_ways_is_in_lds_once() -> None:
    layout = right(QUERIES.replace("KEYS = 192", "KEYS = 64"), "gfx942").layout
    assert [ring.name for ring in layout.moving] == ["K", "V"] and not any(ring.turned for ring in layout.moving)
    assert [x.across for x in layout.multiplications] == [False, False, True]
    assert {a.name for a in layout.interleaved} == {"D"}


def test_vectors_have_rings_of_their_own() -> None:
    spec = spec_of(KEYS)
    assert [ring.name for ring in spec.layout.moving] == ["Q", "G", "LSE", "DELTA"]
    read = [rings_of(step) for step in spec.schedule.tiles.body if isinstance(step, Equations)]
    assert [sorted(rings) for rings in read] == [[0], [1, 2], [1], [0, 3]]
    assert spec.layout.lds_bytes == 2 * (2 * 64 * 64 * 2 + 2 * 64 * 4)


def test_all_results_along_an_interleaved_axis_are() -> None:
    """V is taken one way alone, but what it gives is added to what K gave."""
    text = QUERIES.replace("dq = dq + bf16(ds) @ K[h, j]", "dq = dq + bf16(ds) @ K[h, j] + bf16(p) @ V[h, j]")
    text = text.replace("dp = G[h, q] @ V[h, j].T", "dp = s")
    layout = right(text.replace("KEYS = 192", "KEYS = 64"), "gfx942").layout
    assert [x.across for x in layout.multiplications] == [False, True, True]


def test_a_number_of_a_tensor_is_one_of_the_block() -> None:
    right(QUERIES.replace("DQ[h, q] = 0.125 * dq", "DQ[h, q] = 0.125 * dq * LSE[h, 3]"), "gfx942")


def test_what_is_rounded_for_a_product_may_be_summed() -> None:
    right(KEYS.replace("dv = dv + bf16(p) @ G[h, q]", "z = bf16(p)\n    dv = dv + z @ G[h, q] + rowsum(z)"), "gfx942")


@pytest.mark.parametrize(
    ("kernel", "old", "new", "message"),
    [
        ("keys", "LSE, DELTA buffers", "LSE, DELTA, K buffers",
         "`K` is neither an operand that changes in the loop nor a vector along `q`"),
        ("queries", "shared K, V", "shared K, V, LSE",
         "`LSE` is neither an operand that changes in the loop nor a vector along `j`"),
        ("keys", "dk = dk + bf16(ds) @ Q[h, q]", "dk = dk + bf16(ds) @ Q[h, q] + K[h, j]",
         "a tile that is an operand of a product cannot be used otherwise, because it has another layout in registers"),
        ("queries", "bf16(ds) @ K[h, j]", "bf16(ds) @ K[h, j] + bf16(bf16(dq) @ K[h, j].T) @ V[h, j]",
         "positions of an operand along `D` are interleaved, because a tile of `K` is read both ways"),
    ],
)  # fmt: skip
def test_what_has_no_schedule_is_refused(kernel: str, old: str, new: str, message: str) -> None:
    text = KERNELS[kernel].replace(old, new)
    assert text != KERNELS[kernel]
    with pytest.raises(SpecError) as caught:
        spec_of(text).check()
    first = caught.value.diagnostics[0]
    assert (first.code, first.message) == ("E230", message)


def test_what_must_spill_is_refused_with_what_takes_how_much() -> None:
    """Eight waves on four SIMDs leave each half of the registers."""
    text = KEYS.replace("D = 64", "D = 128").replace("by 64", "by 32")
    assert not spec_of(text).diagnostics
    with pytest.raises(SpecError) as caught:
        spec_of(text.replace("waves 4", "waves 8").replace("by 128", "by 256")).check()
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == (
        "E403", "a wave needs at least 266 registers, 2 waves on a SIMD leave it 256"
    )  # fmt: skip
    assert "`dk`: 64; `dv`: 64; `K`, which stays: 32; `V`, which stays: 32" in found.notes[0]


def test_the_report_says_which_tiles_live_where(tmp_path: Path) -> None:
    path = tmp_path / "keys.tk"
    path.write_text(KEYS)
    result = CliRunner().invoke(app, ["build", str(path), "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    report = (tmp_path / "keys.html").read_text()
    assert "16 `K`, which stays, 16 `V`, which stays" in report
    assert all(f"`{tile}` read of LDS" in report for tile in "QG")


def test_a_product_that_is_masked_and_nothing_else(tmp_path: Path) -> None:
    """Keys end within a tile: what stands after them is zero, in the product's own place."""
    path = tmp_path / "bare.tk"
    path.write_text("""kernel bare
  dims HEADS = 1, LENGTH = 32, KEYS = 40, D = 32
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global O : bf16[HEADS, LENGTH, D]
  over h in HEADS, q in LENGTH by 32
  waves 1 along q
  shared K, V buffers 2
  each j in KEYS by 32
    x = Q[h, q] @ K[h, j].T
    o = o + bf16(x) @ V[h, j]
  O[h, q] = o
""")
    spec = tkgen.load(path)
    assert isinstance(spec, Spec)
    build = spec.check().build().check()
    for order, kind in trials(2):
        assert run(build, order=order, kind=kind).ok
