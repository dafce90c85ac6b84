"""Fused matmuls whose waves combine their parts of the columns of a tile after the loop: beside plain torch, proven."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from executed import built, computed, fault
from sampling import sample
from torch import Tensor

import tkgen
from tkgen.backends.cdna.kittens import include_dir
from tkgen.diagnostics import SpecError
from tkgen.execute.launch import run, trials
from tkgen.schedule.loop_program import persistent
from tkgen.schedule.loop_steps import steps, unproven
from tkgen.schedule.loop_terms import unlike
from tkgen.tile.ops import Barrier, SharedLoad, SharedStore
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.metadata import read_resources

TEXT = """
kernel attention
  dims HEADS = 2, LENGTH = 256, KEYS = 192, D = 64, TILES = 2
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global O : f32[HEADS, LENGTH, D]
  global S : f32[HEADS, TILES, D]
  global T : f32[HEADS, TILES, D]
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
  y = o / l
  O[h, q] = y
  S[h, q / 128] = colsum(y * y)
  T[h, q / 128] = colmax(y) - colmin(y)
"""
AMD = ("gfx90a", "gfx942", "gfx950")
Change = tuple[str, str]
TWO, EIGHT = (
    ("shared K, V", "shared K, V buffers 2"),
    [("q in LENGTH by 128", "q in LENGTH by 256"), ("waves 4", "waves 8")],
)
ONE = (
    ("TILES = 2", "TILES = LENGTH / 256"),
    ("q / 128] = cols", "q / 256] = cols"),
    ("q / 128] = colm", "q / 256] = colm"),
)
CASES: dict[str, tuple[list[Change], Sequence[str]]] = {
    "plain": ([], AMD),
    "tails": ([("LENGTH = 256, KEYS = 192", "LENGTH = 201, KEYS = 150")], AMD),
    "dynamic": ([("HEADS = 2, LENGTH = 256, KEYS = 192", "HEADS = dynamic, LENGTH = 256, KEYS = dynamic")], AMD),
    "persistent": ([("waves 4", "waves 4\n  grid persistent(1)")], AMD),
    "causal": ([("KEYS = 192, ", ""), ("KEYS", "LENGTH"), ("by 64", "by 64 to q"),
                ("    n =", "    s = where(q >= j, s, -inf)\n    n =")], AMD),
    "ping-pong": ([*EIGHT, TWO, ("waves 8", "waves 8\n  schedule ping_pong"), ("LENGTH = 256", "LENGTH = 512"), *ONE],
                  AMD),
    "persistent ping-pong": ([*EIGHT, TWO, ("waves 8", "waves 8\n  schedule ping_pong\n  grid persistent(1)"),
                              ("LENGTH = 256", "LENGTH = 512"), *ONE], AMD),
    "interleave": ([TWO, ("waves 4", "waves 4\n  schedule interleave")], AMD),
    "direct": ([("shared K, V", "shared K, V buffers 2 via direct")], ("gfx950",)),
    "base tiles of 16": ([("waves 4", "waves 8")], AMD),
    "one wave": ([("LENGTH = 256", "LENGTH = 64"), ("q in LENGTH by 128", "q in LENGTH by 32"), ("waves 4", "waves 1"),
                  ("q / 128", "q / 32")], AMD),
    "columns of 48": ([("D = 64", "D = 48")], AMD),
    "narrow": ([("S : f32", "S : bf16"), ("T : f32", "T : f16"), ("D = 64", "D = 128")], AMD),
}  # fmt: skip
SIZES = {"HEADS": 3, "KEYS": 100}
NEAR = 2.0**-6  # weights are rounded to bf16, and squared


def changed(*changes: Change, text: str = TEXT) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    depth = 128 if "D = 128" in text else 48 if "D = 48" in text else 64
    return text.replace("SCALE", f"{math.log2(math.e) / math.sqrt(depth)}")


def tensors(build: Any) -> dict[str, Tensor]:
    torch.manual_seed(1)
    program = build.spec.program
    shapes = {t.name: [d.size or SIZES[d.name] for d in t.dims] for t in program.reads}
    return {name: (torch.randint(-16, 17, shape) / 8).bfloat16() for name, shape in shapes.items()}


def attended(given: dict[str, Tensor], causal: bool = False) -> Tensor:
    q, k, v = (given[name].double() for name in "QKV")
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.where(torch.ones(scores.shape[-2:]).tril() > 0, -math.inf)
    return torch.softmax(scores, -1) @ v


def worst(build: Any, tile: int, causal: bool = False) -> float:
    """The largest fault of the three outputs of the spec, whose tiles have `tile` rows."""
    given = tensors(build)
    outputs = computed(build, *given.values())
    y = attended(given, causal)
    tiles = y.split(tile, 1)
    sums = torch.stack([t.square().sum(1) for t in tiles], 1)
    spans = torch.stack([t.amax(1) - t.amin(1) for t in tiles], 1)
    return max(map(fault, outputs, (y, sums, spans)))


@pytest.mark.parametrize(("case", "target"), sample([(c, t) for c in CASES for t in CASES[c][1]], 4, several=True))
def test_sums_and_maxima_of_columns(case: str, target: str) -> None:
    build = built(changed(*CASES[case][0]), target)
    assert worst(build, 256 if "ping" in case else 32 if case == "one wave" else 128, case == "causal") <= NEAR


@pytest.mark.parametrize("case", ["persistent", "persistent ping-pong"])
def test_no_wave_takes_parts_of_another_tile(case: str) -> None:
    """The referee sees every access of many interleavings."""
    build = built(changed(*CASES[case][0]), "gfx942")
    for order, kind in trials(5):
        assert not run(build, kind=kind, order=order).failure


@pytest.mark.parametrize("target", sample(AMD, 2))
def test_a_block_with_all_rows_scales_its_columns(target: str) -> None:
    text = changed(*EIGHT, ("LENGTH = 256", "LENGTH = 200"),
                   ("  O[h, q] = y\n", "  O[h, q] = y / colmax(abs(y))\n"), (", TILES = 2", ""), (", TILES", ""),
                   ("S[h, q / 128]", "S[h]"), ("T[h, q / 128]", "T[h]"))  # fmt: skip
    build = built(text, target)
    given = tensors(build)
    y = attended(given)
    wanted = y / y.abs().amax(1, True), y.square().sum(1), y.amax(1) - y.amin(1)
    assert max(map(fault, computed(build, *given.values()), wanted)) <= NEAR


GRADIENT = """
kernel queries
  dims HEADS = 2, LENGTH = 200, KEYS = 130, D = 64, TILES = 2
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global S : f32[HEADS, TILES, D]
  global GQ : f32[HEADS, LENGTH, D]
  over h in HEADS, q in LENGTH by 128
  waves 4 along q
  shared K
  each j in KEYS by 64
    x = Q[h, q] @ K[h, j].T
    gq = gq + bf16(0.125 * x) @ K[h, j]
  GQ[h, q] = gq
  S[h, q / 128] = colsum(gq)
"""


@pytest.mark.parametrize(("depth", "target"), sample([(d, t) for d in (32, 64, 128) for t in AMD], 4, several=True))
def test_results_whose_rows_lie_interleaved(depth: int, target: str) -> None:
    build = built(GRADIENT.replace("D = 64", f"D = {depth}"), target)
    given = tensors(build)
    q, k = (given[name].double() for name in "QK")
    wanted = 0.125 * (q @ k.mT) @ k
    sums, found = computed(build, *given.values())
    assert fault(found, wanted) <= NEAR
    assert fault(sums, torch.stack([wanted[:, :128].sum(1), wanted[:, 128:].sum(1)], 1)) <= NEAR


def test_parts_of_the_keys() -> None:
    text = changed(("HEADS = 2,", "PARTS = 2, HEADS = 2,"), ("over h", "over y in PARTS, h"), ("by 64", "by 64 part y"),
                   ("f32[HEADS", "f32[PARTS, HEADS"), ("O[h,", "O[y, h,"), ("S[h,", "S[y, h,"), ("T[h,", "T[y, h,"),
                   ("  y = o / l", "  z = o / l"), ("] = y\n", "] = z\n"), ("(y * y)", "(z * z)"),
                   ("colmax(y) - colmin(y)", "colmax(z) - colmin(z)"), ("KEYS = 192", "KEYS = 256"))  # fmt: skip
    build = built(text, "gfx942")
    given = tensors(build)
    halves = [given | {n: given[n][:, p] for n in "KV"} for p in (slice(0, 128), slice(128, 256))]
    z = torch.stack([attended(half) for half in halves])
    _, sums, _ = computed(build, *given.values())
    assert fault(sums, z.square().unflatten(2, (2, 128)).sum(3)) <= NEAR


def test_a_mask_after_the_loop() -> None:
    """Rows from some row on are another number. The C++ did not declare the tile of such a result."""
    text = changed(("  O[h, q] = y\n", "  O[h, q] = where(q < 100, o / l, 7)\n"))
    build = built(text, "gfx942")
    given = tensors(build)
    wanted = attended(given)
    wanted[:, 100:] = 7
    found, *_ = computed(build, *given.values())
    assert fault(found, wanted) <= NEAR


# ---------------------------------------------------------------- the proof, and mistakes


def test_without_its_barrier_a_combination_is_refused() -> None:
    for changes in ([], CASES["persistent"][0]):
        spec: Any = tkgen.load(changed(*changes), target="gfx942").check()
        m, machine = spec.layout, spec.target.synchronisation
        wave = steps(m, machine)
        assert unproven(m, wave, machine) is None and unlike(m, wave) is None
        places = [n for n, step in enumerate(wave.behind) if isinstance(step, Barrier)]
        assert len(places) == len(m.combined) == 3
        for n in places:
            less = replace(wave, behind=(*wave.behind[:n], *wave.behind[n + 1 :]))
            assert unproven(m, less, machine) is not None


def test_the_next_tile_writes_no_parts_that_are_still_read() -> None:
    """A tile may have no iterations: the barrier before the loop alone orders the two."""
    spec: Any = tkgen.load(changed(*CASES["persistent"][0]), target="gfx942").check()
    m, machine = spec.layout, spec.target.synchronisation
    wave = steps(m, machine)
    assert isinstance(wave.before[-1], Barrier)
    found = unproven(m, replace(wave, before=wave.before[:-1]), machine)
    assert found is not None and persistent(wave).tiles.body[: len(wave.before)] == wave.before


def test_parts_that_are_not_given_or_of_another_reduction_are_other_terms() -> None:
    spec: Any = tkgen.load(changed(), target="gfx942").check()
    m = spec.layout
    wave = steps(m, spec.target.synchronisation)
    store, load = (next(s for s in wave.behind if isinstance(s, kind)) for kind in (SharedStore, SharedLoad))
    other = next(s for s in wave.behind if isinstance(s, SharedStore) and s.number == 1)
    for behind in (
        tuple(s for s in wave.behind if s != store),
        tuple(s for s in wave.behind if s != load),
        tuple(replace(s, to=other.to) if s == store else s for s in wave.behind),
    ):
        assert "is not the value of the equations" in str(unlike(m, replace(wave, behind=behind)))


SLIPS = [
    ("tk::share_rows<base_ops::sum>(parts_0[wave]", "tk::share_rows<base_ops::sum>(parts_0[0]"),
    ("tk::take_rows<base_ops::sum>", "tk::take_rows<base_ops::max>"),
    (", -__builtin_inff())", ", 3.0e38f)"),
    ("    tk::lds_barrier();\n    typename tile<DIM_D>::col_vec", "    typename tile<DIM_D>::col_vec"),
]


@pytest.mark.parametrize("slip", range(len(SLIPS)))
def test_slips_in_the_code_are_found(slip: int) -> None:
    """By the numbers, or by the referee: a wave that reads parts before they are there."""
    build = built(changed(), "gfx942")
    old, new = SLIPS[slip]
    assert old in build.spec.source.text
    text = build.spec.source.text.replace(old, new)
    made = compile_device(text, build.spec.target, build.compiler, include_dirs=[include_dir()], source_name="slip.cpp")
    assert made.hsaco is not None
    (resources,) = read_resources(made.hsaco).values()
    wrong = replace(build, asm=made.asm, hsaco=made.hsaco, resources=resources)
    assert run(wrong).failure or worst(wrong, 128) > NEAR


def test_what_no_waves_combine_is_refused() -> None:
    cases = {
        "the waves have more than a tile of `q`": [
            ("q in LENGTH by 128", "q in LENGTH by 40"), ("q / 128", "q / 40"), ("waves 4", "waves 1"),
            ("LENGTH = 256", "LENGTH = 80")],
        "only rows along `q` can be reduced, and after the loop columns of a tile": [
            ("  S[h, q / 128] = colsum(y * y)\n", ""), ("  T[h, q / 128] = colmax(y) - colmin(y)\n", ""),
            ("  global S : f32[HEADS, TILES, D]\n", ""), ("T : f32[HEADS, TILES, D]", "T : f32[HEADS, TILES]"),
            ("  O[h, q] = y\n", "  O[h, q] = y\n  T[h, q / 128] = colsum(l)\n")],
    }  # fmt: skip
    for message, changes in cases.items():
        with pytest.raises(SpecError) as caught:
            tkgen.load(changed(*changes), target="gfx942").check()
        assert ("E230", message) in [(d.code, d.message) for d in caught.value.diagnostics]
