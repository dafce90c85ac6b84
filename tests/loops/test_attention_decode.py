"""Attention of one query for each sequence: keys in parts, heads of a group as rows of a tile, results combined."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pytest
import torch
from hurting import CASES, LENGTHS, assert_near, attended, hurting, laid
from sampling import sample

import tkgen
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.execute.cases import unmet
from tkgen.execute.launch import emulate_all, run, trials
from tkgen.sequence import SequenceBuild, SequenceSpec

ROOT = Path(__file__).parents[2]
DECODE = ROOT / "specs/attention/attention_decode.tk"
TARGETS = ("gfx942", "gfx950")
D = 64


def spec_of(source: Path | str, target: str, **sizes: int) -> SequenceSpec:
    spec = tkgen.load(source, sizes, target=target)
    assert isinstance(spec, SequenceSpec)
    return spec


def built(spec: SequenceSpec) -> SequenceBuild:
    """Compiled, watched, without spills."""
    build = spec.build().check()
    assert all(k.machine_check.outcome == "right" and k.resources.clean for k in build.kernels)
    return build


@pytest.mark.parametrize("target", TARGETS)
def test_source_figures_and_machine_code(target: str) -> None:
    spec = spec_of(DECODE, target)
    assert not spec.diagnostics
    build = built(spec)
    assert not unmet(build)
    if target == "gfx942":
        golden = ROOT / "generated" / target / "attention_decode.cpp"
        assert golden.read_text(encoding="utf-8") == spec.source.text
    parts, combine = build.kernels
    assert isinstance(parts, Build) and isinstance(combine, Build)
    assert not run(parts, blocks=[0, 127, 700]).failure  # the first part, the last one, one between
    assert not run(combine, blocks=[0, 63]).failure


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_are_right_in_twenty_interleavings(target: str) -> None:
    build = built(spec_of(DECODE, target, BATCH=1, HEADS=8, KV_HEADS=1, KEYS=100, PARTS=2, D=64))
    for order, kind in trials(20):
        assert not run(build, kind=kind, order=order).failure


@pytest.mark.parametrize(
    ("heads", "shared", "keys", "parts"),
    sample(
        [
            (16, 2, 1, 1),
            (6, 2, 63, 3),
            (24, 2, 65, 2),
            (16, 1, 127, 8),
            (64, 2, 96, 3),
            (2, 1, 32, 4),
            (4, 4, 65, 2),
            *(pytest.param(2 * group, 2, 33, 2, marks=pytest.mark.slow) for group in range(1, 17)),
        ],
        2,
        several=True,
    ),
)
def test_groups_of_heads_and_parts_of_keys(heads: int, shared: int, keys: int, parts: int) -> None:
    """Tiles of 1 to 32 heads, one step and several, parts that have less than others, or nothing."""
    build = built(spec_of(DECODE, "gfx942", BATCH=2, HEADS=heads, KV_HEADS=shared, KEYS=keys, PARTS=parts, D=32))
    for order, kind in trials(3):
        assert not run(build, kind=kind, order=order).failure


@cache
def small(target: str, keys: int) -> SequenceBuild:
    return built(spec_of(DECODE, target, BATCH=2, HEADS=8, KV_HEADS=2, KEYS=keys, PARTS=3, D=D))


def decoded(build: SequenceBuild, *tensors: torch.Tensor) -> torch.Tensor:
    """The stores of the machine code, as torch has them; no findings."""
    reads = build.spec.program.reads
    given = {of.name: laid(of, x) for of, x in zip(reads, tensors, strict=True)}
    found, outcomes = emulate_all(build, build.spec.launch(), given, {"scale": math.log2(math.e) / math.sqrt(D)})
    assert not any(outcome.findings for outcome in outcomes)
    return found["O"][:, :, None]


@pytest.mark.parametrize("keys", LENGTHS)
def test_errors_are_within_twice_those_of_torch(keys: int) -> None:
    build = small("gfx950" if keys in (63, 127) else "gfx942", keys)
    for case in CASES:
        q, k, v = hurting(case, (2, 8, 1, D), (2, 2, keys, D))
        assert_near(decoded(build, q, k, v), attended(q, k, v, exact=True), attended(q, k, v), case)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("part", range(3))
def test_a_part_whose_scores_are_all_infinitely_small_counts_for_nothing(part: int, target: str) -> None:
    q, k, v = hurting("std 1", (2, 8, 1, D), (2, 2, 65, D))
    q[..., 0], k[:, :, 32 * part : 32 * part + 32, 0] = 1, -torch.inf
    assert_near(decoded(small(target, 65), q, k, v), attended(q, k, v, exact=True), attended(q, k, v), part)


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("K[b, j, h / GROUP]", "K[b, j, h / 4]", "E223", "`h / 4` is not the number of a tile of `h`"),
        ("by GROUP", "by 16", "E223", "`h / GROUP` is not the number of a tile of `h`"),
        ("waves 1", "waves 2", "E230", "2 waves cannot divide a tile of 8 in parts of 16"),
        ("part s", "part h", "E223", "`part h` does not name an index of `over`"),
        ("WEIGHT[b, s, h] =", "WEIGHT[b, 0, h] =", "E602", None),
        ("K[b, j, h / GROUP].T", "K[b, j, h].T", "E223",
         "`h` runs over `HEADS`, this dimension of `K` is `KV_HEADS`"),
    ],
)  # fmt: skip
def test_mistakes(old: str, new: str, code: str, message: str | None) -> None:
    text = DECODE.read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(SpecError) as caught:
        spec_of(text.replace(old, new), "gfx942").check()
    first = caught.value.diagnostics[0]
    assert first.code == code and first.primary is not None
    assert message is None or first.message == message
