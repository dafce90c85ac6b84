"""Fused matmuls that read other tensors for what they store, tiles by rows and a bias of columns, beside plain torch.

The same specs run on each machine: as machine code on the emulator, or as C++ for Hopper on the CPU.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from executed import built, computed, fault
from sampling import sample
from torch import Tensor
from torch.nn import functional

import tkgen
from tkgen.backends.cdna.kittens import include_dir
from tkgen.diagnostics import SpecError
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.metadata import read_resources

TEXT = """
kernel attention
  dims HEADS = 2, LENGTH = 256, KEYS = 192, D = 64
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global G : bf16[HEADS, LENGTH, D]
  global B : f32[HEADS, D]
  global O : f32[HEADS, LENGTH, D]
  over h in HEADS, q in LENGTH by 128
  waves 4
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in KEYS by 64
    s = SCALE * Q[h, q] @ K[h, j].T
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[h, q] = silu(G[h, q]) * o / l + B[h]
"""
AMD = ("gfx90a", "gfx942", "gfx950")
ALL = (*AMD, "sm_90a")
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "i32": torch.int32}
Change = tuple[str, str]
TWO, EIGHT = ("shared K, V", "shared K, V buffers 2"), [("by 128", "by 256"), ("waves 4", "waves 8")]
# A case of the spec: its changes, and the targets that have it.
CASES: dict[str, tuple[list[Change], Sequence[str]]] = {
    "plain": ([], ALL),
    "tails": ([("LENGTH = 256, KEYS = 192", "LENGTH = 200, KEYS = 150")], ALL),
    "dynamic": ([("HEADS = 2, LENGTH = 256, KEYS = 192", "HEADS = dynamic, LENGTH = dynamic, KEYS = dynamic")], ALL),
    "persistent": ([("waves 4", "waves 4\n  grid persistent(3)")], ALL),
    "reversed": ([("waves 4", "waves 4\n  remap reversed")], AMD),
    "causal": ([("KEYS = 192, ", ""), ("KEYS", "LENGTH"), ("by 64", "by 64 to q"),
                ("    n =", "    s = where(q >= j, s, -inf)\n    n =")], ALL),
    "ping-pong": ([*EIGHT, TWO, ("waves 8", "waves 8\n  schedule ping_pong"), ("LENGTH = 256", "LENGTH = 500")], AMD),
    "interleave": ([TWO, ("waves 4", "waves 4\n  schedule interleave")], AMD),
    "direct": ([("shared K, V", "shared K, V buffers 2 via direct")], ("gfx950",)),
    "small tiles": ([("by 128", "by 16"), ("waves 4", "waves 1"), ("LENGTH = 256", "LENGTH = 40")], AMD),
    "half": ([("G : bf16", "G : f16"), ("B : f32", "B : bf16")], ALL),
    "wide": ([("G : bf16", "G : f32"), ("D = 64", "D = 128")], ALL),
    "columns of 48": ([("D = 64", "D = 48")], AMD),
    "rows apart": ([("G : bf16[HEADS, LENGTH", "G : bf16[LENGTH, HEADS"), ("G[h, q]", "G[q, h]")], ALL),
    "before the loop": ([("  carry m", "  g = silu(G[h, q])\n  b = B[h] + 0\n  carry m"),
                         ("silu(G[h, q]) *", "g *"), ("+ B[h]\n", "+ b\n")], ALL),
    "numbers before the loop": ([("  global O", "  scalar zero : f32 = 0\n  global W : f32[HEADS, LENGTH]\n  global O"),
                                 ("  carry m", "  c = bf16(0 * W[h, q]) + zero\n  w = 2 + c\n  carry m"),
                                 ("    n =", "    s = s + c\n    n ="),
                                 ("o / l +", "2 * o / l / w + 0 * o / (W[h, q] + 3) +")],
                                ALL),
    "divided by what is loaded": ([("  global O", "  global W : f32[HEADS, LENGTH]\n  global O"),
                                   ("o / l +", "o / W[h, q] * W[h, q] / l +")], ALL),
    "in the loop": ([("o = o * r", "o = o * r + 0 * G[h, q] * B[h]")], AMD),
}  # fmt: skip
SIZES = {"HEADS": 3, "LENGTH": 150, "KEYS": 100}


def changed(*changes: Change, text: str = TEXT) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    depth = 128 if "D = 128" in text else 48 if "D = 48" in text else 64
    return text.replace("SCALE", f"{math.log2(math.e) / math.sqrt(depth)}")


def tensors(build: Any, **given: Tensor) -> dict[str, Tensor]:
    """Make what a kernel reads: random numbers of a few bits, or those that are `given`."""
    torch.manual_seed(1)
    program = build.spec.program
    shapes = {t: [d.size or SIZES[d.name] for d in t.dims] for t in program.reads}
    made = {t.name: (torch.randint(-16, 17, shape) / 8).to(DTYPES[t.dtype.spelling]) for t, shape in shapes.items()}
    return made | given


def attended(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.where(torch.ones(scores.shape[-2:]).tril() > 0, -math.inf)
    return torch.softmax(scores, -1) @ v


NEAR = 2.0**-7  # weights are rounded to bf16


@pytest.mark.parametrize(("case", "target"), sample([(c, t) for c in CASES for t in CASES[c][1]], 4, several=True))
def test_a_gate_and_a_bias(case: str, target: str) -> None:
    build = built(changed(*CASES[case][0]), target)
    given = tensors(build)
    if "W" in given:
        given["W"] = given["W"].abs() + 1
    (found,) = computed(build, *given.values(), host=target == "sm_90a")
    q, k, v, g, b = (given[name].double() for name in "QKVGB")
    g = g if case != "rows apart" else g.transpose(0, 1)
    wanted = functional.silu(g) * attended(q, k, v, case == "causal") + b[:, None]
    assert fault(found, wanted) <= NEAR


PACKED = changed(
    ("HEADS = 2, LENGTH = 256, KEYS = 192", "HEADS = 2, SEQUENCES = 3, OFFSETS = SEQUENCES + 1, LENGTH = 200"),
    ("[HEADS, KEYS, D]", "[HEADS, LENGTH, D]"),
    ("  global O", "  global FIRST : i32[OFFSETS]\n  global O"),
    ("over h in HEADS, q in LENGTH by", "over b in SEQUENCES, h in HEADS, q in LENGTH within FIRST[b] by"),
    ("each j in KEYS by", "each j in LENGTH within FIRST[b] by"),
)


@pytest.mark.parametrize("target", sample(AMD, 2))
def test_groups_of_rows(target: str) -> None:
    build = built(PACKED, target)
    first = torch.tensor([0, 61, 61, 200], dtype=torch.int32)
    given = tensors(build, FIRST=first)
    (found,) = computed(build, *given.values())
    q, k, v, g, b = (given[name].double() for name in "QKVGB")
    parts = [slice(0, 61), slice(61, 200)]
    wanted = torch.cat([attended(q[:, p], k[:, p], v[:, p]) for p in parts], 1) * functional.silu(g) + b[:, None]
    assert fault(found, wanted) <= NEAR


@pytest.mark.parametrize("target", sample(ALL, 2))
def test_parts_of_the_keys(target: str) -> None:
    """Each block of a part reads the gate of its queries, and stores the part's result."""
    text = changed(
        ("HEADS = 2,", "PARTS = 2, HEADS = 2,"), ("over h", "over y in PARTS, h"), ("by 64", "by 64 part y"),
        ("O : f32[", "O : f32[PARTS, "), ("O[h, q]", "O[y, h, q]"), ("KEYS = 192", "KEYS = 256"),
    )  # fmt: skip
    build = built(text, target)
    given = tensors(build)
    (found,) = computed(build, *given.values(), host=target == "sm_90a")
    q, k, v, g, b = (given[name].double() for name in "QKVGB")
    parts = [attended(q, k[:, p], v[:, p]) for p in (slice(0, 128), slice(128, 256))]
    assert fault(found, torch.stack(parts) * functional.silu(g) + b[:, None]) <= NEAR


@pytest.mark.parametrize("target", sample(ALL, 2))
def test_a_loop_begins_with_a_tile(target: str) -> None:
    """A sum begins with what is loaded."""
    text = changed(("m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0", "o : f32[q, D] = G[h, q]"),
                   ("    n = max(m, rowmax(s))\n    p = exp2(s - n)\n", ""), ("    r = exp2(m - n)\n", ""),
                   ("    l = l * r + rowsum(p)\n", ""),
                   ("o * r + bf16(p)", "o + bf16(s)"), ("    m = n\n", ""),
                   ("silu(G[h, q]) * o / l", "o"))  # fmt: skip
    build = built(text, target)
    given = tensors(build)
    (found,) = computed(build, *given.values(), host=target == "sm_90a")
    q, k, v, g, b = (given[name].double() for name in "QKVGB")
    scale = math.log2(math.e) / 8
    assert fault(found, g + scale * q @ k.mT @ v + b[:, None]) <= NEAR


GRADIENT = """
kernel queries
  dims HEADS = 2, LENGTH = 200, KEYS = 130, D = 64
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global G : bf16[HEADS, LENGTH, D]
  global B : f32[D]
  global GQ : f32[HEADS, LENGTH, D]
  over h in HEADS, q in LENGTH by 128
  waves 4 along q
  shared K
  each j in KEYS by 64
    x = Q[h, q] @ K[h, j].T
    gq = gq + bf16(0.125 * x) @ K[h, j]
  GQ[h, q] = gq * G[h, q] + B
"""


@pytest.mark.parametrize(("depth", "target"), sample([(d, t) for d in (32, 64, 128) for t in AMD], 4, several=True))
def test_results_whose_rows_lie_interleaved(depth: int, target: str) -> None:
    """A tile of keys is taken both ways: neighbours of a result are in one, two or four base tiles."""
    build = built(GRADIENT.replace("D = 64", f"D = {depth}"), target)
    layout = build.spec.layout
    assert {layout.neighbours(axis) for axis in layout.interleaved} == {depth // 32}
    given = tensors(build)
    (found,) = computed(build, *given.values())
    q, k, g, b = (given[name].double() for name in "QKGB")
    assert fault(found, 0.125 * (q @ k.mT) @ k * g + b) <= NEAR


# ---------------------------------------------------------------- mistakes

LOADED, AT = "tk::load_rows<bf16>(G_r, G_at, wave * COLS, DIM_D)", "(start + g * G * side + row_at<side>(0, e) * G)"
SLIPS = [
    ("generated", LOADED, LOADED.replace("wave * COLS", "0")),  # the rows of another wave
    ("generated", LOADED, LOADED.replace("DIM_D", "DIM_LENGTH")),
    ("tkgen/fused.cuh", "laneid() % side) * pitch, [&]", "laneid() / side) * pitch, [&]"),
    ("tkgen/fused.cuh", AT, AT.replace("(0, e)", "(0, 0)")),
    ("tkgen/fused.cuh", AT, AT.replace("g * G * side + ", "")),
    ("tkgen/fused.cuh", "if (e % 2) values[i][e / 2].y = x;", "if (e % 2) values[i][0].y = x;"),
]  # fmt: skip


@pytest.mark.parametrize("slip", range(len(SLIPS)))
def test_a_wrong_row_or_column_shows(slip: int, tmp_path: Path) -> None:
    """The comparison above, of C++ with a mistake in what is loaded after the loop."""
    build = built(changed(), "gfx942")
    where, old, new = SLIPS[slip]
    headers = tmp_path / "include"
    shutil.copytree(include_dir(), headers)
    text = build.spec.source.text
    if where == "generated":
        assert old in text
        text = text.replace(old, new)
    else:
        assert text.count("tk::load_row") == 2
        header = (headers / where).read_text(encoding="utf-8")
        assert header.count(old) == 1
        (headers / where).write_text(header.replace(old, new), encoding="utf-8")
    made = compile_device(text, build.spec.target, build.compiler, include_dirs=[headers], source_name="slip.cpp")
    assert made.hsaco is not None
    (resources,) = read_resources(made.hsaco).values()
    wrong = replace(build, asm=made.asm, hsaco=made.hsaco, resources=resources)
    given = tensors(build)
    q, k, v, g, b = (given[name].double() for name in "QKVGB")
    wanted = functional.silu(g) * attended(q, k, v) + b[:, None]
    (found,) = computed(wrong, *given.values())
    assert fault(found, wanted) > NEAR


def test_tiles_that_lanes_do_not_hold_are_refused() -> None:
    cases = {
        "`G` does not have `D` innermost": [("G : bf16[HEADS, LENGTH, D]", "G : bf16[HEADS, D, LENGTH]"),
                                      ("G[h, q]", "G[h, D, q].T")],
        "40 along `E` is not a multiple of 32": [
            ("  global O", "  global X : f32[HEADS, LENGTH, E]\n  global O"), ("D = 64", "D = 64, E = 40"),
            ("+ B[h]\n", "+ B[h] + rowsum(X[h, q])\n")],
    }  # fmt: skip
    for message, changes in cases.items():
        with pytest.raises(SpecError) as caught:
            tkgen.load(changed(*changes), target="gfx942").check()
        assert [(d.code, d.message) for d in caught.value.diagnostics] == [("E230", message)]


def test_a_tile_from_before_the_loop_counts_among_the_registers() -> None:
    """Four tiles of 128 registers each are more than a lane has beside the sums."""
    tiles = "".join(f"  g{n} = {n + 1} * silu(G[h, q])\n" for n in range(4))
    sums = " + ".join(f"g{n}" for n in range(4))
    text = changed(*CASES["wide"][0], ("by 128", "by 256"), ("  carry m", f"{tiles}  carry m"),
                   ("o = o * r", f"o = o * r + {sums}"), ("silu(G[h, q]) *", "1 *"))  # fmt: skip
    with pytest.raises(SpecError) as caught:
        tkgen.load(text, target="gfx942").check()
    (found,) = caught.value.diagnostics
    assert found.code == "E403" and "`g0`" in str(found.notes) + found.message
