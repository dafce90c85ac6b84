"""Attention of one query for each sequence: keys in parts, heads of a group as rows of a tile, results combined."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import tkgen
from tkgen.diagnostics import SpecError
from tkgen.execute.cases import unmet
from tkgen.execute.launch import trials
from tkgen.rows import RowBuild
from tkgen.rows.run import run_rows
from tkgen.sequence import SequenceBuild, SequenceSpec
from tkgen.sequence.launch import sequence_launch
from tkgen.sequence.run import emulate, run_sequence

ROOT = Path(__file__).parents[2]
DECODE = ROOT / "specs/attention/attention_decode.tk"
TARGETS = ("gfx942", "gfx950")
CASES = ["std 1", "std 4", "std 30", "dominant", "first", "last", "equal", "zero", "huge", "tiny"]
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
    assert isinstance(parts, RowBuild) and isinstance(combine, RowBuild)
    assert not run_rows(parts, blocks=[0, 127, 700]).failure  # the first part, the last one, one between
    assert not run_rows(combine, blocks=[0, 63]).failure


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_are_right_in_twenty_interleavings(target: str) -> None:
    build = built(spec_of(DECODE, target, BATCH=1, HEADS=8, KV_HEADS=1, KEYS=100, PARTS=2, D=64))
    for order, kind in trials(20):
        assert not run_sequence(build, kind=kind, order=order).failure


@pytest.mark.parametrize(
    ("heads", "shared", "keys", "parts"),
    [(16, 2, 1, 1), (6, 2, 63, 3), (24, 2, 65, 2), (16, 1, 127, 8), (64, 2, 96, 3), (2, 1, 32, 4)],
)
def test_groups_of_heads_and_parts_of_keys(heads: int, shared: int, keys: int, parts: int) -> None:
    """Tiles of 3 to 32 heads, one step and several, parts that have less than others, or nothing."""
    build = built(spec_of(DECODE, "gfx942", BATCH=2, HEADS=heads, KV_HEADS=shared, KEYS=keys, PARTS=parts, D=32))
    for order, kind in trials(3):
        assert not run_sequence(build, kind=kind, order=order).failure


@cache
def small(target: str, keys: int) -> SequenceBuild:
    text = DECODE.read_text(encoding="utf-8").replace("0.12751743", f"{math.log2(math.e) / math.sqrt(D)}")
    return built(spec_of(text, target, BATCH=2, HEADS=8, KV_HEADS=2, KEYS=keys, PARTS=3, D=D))


def inputs(case: str, keys: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(keys)
    q = torch.randn(2, 8, D, generator=generator)
    k, v = (torch.randn(2, keys, 2, D, generator=generator) for _ in range(2))
    match case.split():
        case ["std", deviation]:
            q *= float(deviation)
        case ["dominant"]:
            k[:, keys // 2] *= 50
        case ["first"]:
            k[:, 0] *= 20
        case ["last"]:
            k[:, -1] *= 20
        case ["equal"]:
            q[:], k[:] = 1, 1
        case ["zero"]:
            q[:] = 0
        case ["huge"]:
            q, k = q * 1e18, k * 1e18
        case ["tiny"]:
            q, v = q * 1e-38, v * 1e-37
    return q.bfloat16(), k.bfloat16(), v.bfloat16()


@pytest.mark.parametrize(("keys", "target"), [(1, "gfx942"), (63, "gfx950"), (65, "gfx942"), (127, "gfx950")])
def test_errors_are_within_twice_those_of_torch(keys: int, target: str) -> None:
    build = small(target, keys)
    scalars = {s.name: s.default or 0.0 for s in build.spec.program.scalars}
    for case in CASES:
        q, k, v = inputs(case, keys)
        one, theirs_k, theirs_v = q[:, :, None], k.transpose(1, 2), v.transpose(1, 2)
        theirs = scaled_dot_product_attention(one, theirs_k, theirs_v, enable_gqa=True)[:, :, 0].double()
        wide_k, wide_v = (x.double().repeat_interleave(4, 1) for x in (theirs_k, theirs_v))
        scores = (one.double() @ wide_k.transpose(-1, -2)) / math.sqrt(D)
        meant = (scores.softmax(-1) @ wide_v)[:, :, 0]
        found, outcomes = emulate(build, sequence_launch(build.spec), {"Q": q, "K": k, "V": v}, scalars)
        assert not any(outcome.findings for outcome in outcomes)
        off = found["O"].double() - meant
        assert off.norm() <= 2 * (theirs - meant).norm(), case
        assert off.abs().max() <= 2 * (theirs - meant).abs().max(), case


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("K[b, j, h / GROUP]", "K[b, j, h / 4]", "E223", "`h / 4` is no tile of `h`"),
        ("by GROUP", "by 16", "E223", "`h / GROUP` is no tile of `h`"),
        ("waves 1", "waves 2", "E230", "2 waves cannot share a tile of 8 in parts of 16"),
        ("part s", "part h", "E223", "`part h` names no index of `over`"),
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
