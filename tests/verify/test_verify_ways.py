"""Inputs of `tkgen verify`, and mutants that only some inputs and sizes tell from the original."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
import verify as benchmark
from mutating.sources import SourceMutant
from sampling import sample

from tkgen.api import load, load_equations
from tkgen.emulate import interleavings
from tkgen.execute import given
from tkgen.execute.compare import random_inputs
from tkgen.verify import inputs, payloads, specs, verify
from tkgen.verify.specs import case_of

SPECS = Path(__file__).parents[2] / "specs"
SCALES = """
kernel scales
  target gfx950
  dims TOKENS = 8, BLOCKS = 64, SIDE = 32
  global X : bf16[TOKENS, BLOCKS, SIDE]
  global SCALE : e8m0[TOKENS, BLOCKS]

  over t in TOKENS by 4, b in BLOCKS by 64
  waves 4
  SCALE[t, b] = rowmax(abs(X[t, b])) * 0.375
"""


def original(stem: str, **defines: int) -> benchmark.Original:
    (path,) = SPECS.rglob(f"{stem}.tk")
    return benchmark.original(given.Asked(path, dict(defines)).chosen())


def judged(of: benchmark.Original, old: str, new: str) -> dict[str, object]:
    """The verdict on the kernel with a change in the first line that has `old`."""
    ((_, source),) = benchmark.sources(of.build)
    number, line = next((n, text) for n, text in enumerate(source.splitlines(), 1) if old in text)
    build = benchmark.mutated(of.build, SourceMutant("mistake", source, number, line, line.replace(old, new)))
    assert build is not None
    return benchmark.judged(of, build)


# ---------------------------------------------------------------- what is largest so far


@pytest.mark.parametrize("rising", [False, True])
def test_a_maximum_that_moves_after_the_first_pass_is_rescaled_by(
    rising: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first time it is 2 to minus infinity with either sign."""
    if not rising:
        monkeypatch.setattr(specs, "risen", lambda _, memory: memory)
    of = original("attention_lazy", BATCH=1, HEADS=1, LENGTH=251)
    found = judged(of, "m_[c][0] - n_2[c][0]));", "m_[c][0] + n_2[c][0]));")
    assert found["normal"], "within the bound of numbers"
    assert found["verify"] != rising


def test_numbers_rise_along_loops_that_go_by_what_is_largest() -> None:
    (lazy,) = load_equations(SPECS / "attention" / "attention_lazy.tk", {"BATCH": 1, "HEADS": 1, "LENGTH": 6}, None, ())
    ones = {name: torch.ones(1, 1, 6, 128, dtype=torch.bfloat16) for name in "QKV"}
    found = inputs.risen([lazy], ones)
    assert found["K"][0, 0, :, 5].tolist() == [1, 1, 4, 4, 8, 8] and found["K"].dtype == torch.bfloat16
    assert found["Q"] is ones["Q"], "which is read before the loop"
    (product,) = load_equations(SPECS / "eight_wave.tk", None, None, ())
    assert inputs.risen([product], {"A": ones["Q"]})["A"] is ones["Q"], "a sum goes by nothing"


def test_a_kernel_is_as_meant_with_inputs_that_rise() -> None:
    assert verify(load(SPECS / "attention" / "attention.tk", {"BATCH": 1, "HEADS": 1, "LENGTH": 251}).build()).ok


# ---------------------------------------------------------------- blocks and groups with several tiles


SECOND_TILES = [
    ("persistent", "group_slot / group_rows;", "int(blockIdx.x) / group_rows;"),
    ("grouped_persistent", "tile = at - walk.before;", "tile = int(blockIdx.x) - walk.before;"),
    ("grouped_gemm", "group_first_row + group_slot % group_height;", "group_first_row;"),
]


def small(stem: str) -> benchmark.Original:
    (path,) = SPECS.rglob(f"{stem}.tk")
    (sizes, _), *_ = specs.chosen_cases(given.Asked(path))
    return benchmark.original(given.Asked(path, sizes).chosen())


@pytest.mark.parametrize(("stem", "old", "new"), sample(SECOND_TILES, 2, several=True))
def test_the_place_of_a_second_tile_is_seen(stem: str, old: str, new: str) -> None:
    """Of a block of a persistent grid, or of the second row of tiles of a group."""
    assert not judged(small(stem), old, new)["verify"]


def test_a_second_tile_is_not_seen_where_each_block_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specs, "in_turn", lambda launch, _: launch)
    stem, old, new = SECOND_TILES[0]
    assert judged(small(stem), old, new)["verify"]


def test_few_blocks_of_persistent_grids_have_two_tiles_each() -> None:
    first, second = interleavings(2)
    for path, sizes, count in (
        ("persistent", {"M": 256, "N": 384, "K": 192}, 3),
        ("persistent", {"M": 128, "N": 128, "K": 192}, 1),
        ("groups/grouped_fp8", {"TOKENS": 257, "EXPERTS": 4, "OUT": 251, "IN": 1021}, 2),
    ):
        launch = given.Asked(SPECS / f"{path}.tk", dict(sizes)).chosen().launch
        assert specs.in_turn(launch, first).blocks == 304, "with blocks that have no tile"
        assert specs.in_turn(launch, second).blocks == count
    split = given.Asked(SPECS / "split_k.tk", {"M": 128, "N": 128, "K": 768}).chosen().launch
    assert specs.in_turn(split, second) == split


def test_a_group_is_empty_and_one_is_longer_than_a_tile() -> None:
    path, extents = SPECS / "groups" / "grouped_gemm.tk", {"TOKENS": 257, "EXPERTS": 4}
    launch = given.Asked(path, dict(extents)).chosen().launch
    each = load_equations(path, extents, None, ())
    for seed in range(20):
        found = inputs.grouped(each, random_inputs(launch, seed), launch.extents, seed)
        ends = found["FIRST"].tolist()
        lengths = [b - a for a, b in pairwise(ends)]
        assert 0 in lengths and max(lengths) > 128 and 0 <= ends[0] <= ends[-1] <= 257, ends


# ---------------------------------------------------------------- scales that are powers of two


@pytest.mark.parametrize("change", ["+ 0.001f", "* 1.001f", "* (laneid() ? 1.0f : 1.25f)"])
def test_what_vanishes_in_the_rounding_of_a_scale_is_seen(change: str) -> None:
    of = original("mxfp4_rows", TOKENS=4, BLOCKS=9)
    found = judged(of, "times_power(1.0f, n[i])", f"times_power(1.0f, n[i]) {change}")
    assert found["normal"] and found["exact"], "the bytes are the same"
    assert not found["verify"]


def test_scales_are_of_the_numbers_that_were_rounded(tmp_path: Path) -> None:
    """From above and from below, of zeros, of subnormal numbers and of those beyond the largest one."""
    path = tmp_path / "scales.tk"
    path.write_text(SCALES)
    case = case_of(load(path).build())
    drawn = case.draw(0)
    rows = torch.tensor([1.0, 0.0, 2.0**-126, 2.0**-127, 2.0**125, 2.0**-60, 3.0, 0.4])
    memory = {"X": (drawn.memory["X"].double() * rows[:, None, None]).bfloat16()}
    (tensor,) = load(path).program.reads
    again = benchmark.replace(case, draw=lambda seed: benchmark.Drawn(memory, payloads.drawn([tensor], memory, seed)))
    verdict = benchmark.verified(again, 2, 2, 0)
    assert verdict.ok, verdict.wrong
