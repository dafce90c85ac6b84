"""Gradients of attention: the bundled sequences, their machine code, and their numbers against f64 and torch's own."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pytest
import torch
from hurting import CASES, LENGTHS, assert_near, attended, cancelled, gradients, hurting

import tkgen
from tkgen.execute.cases import unmet
from tkgen.execute.launch import emulate as once
from tkgen.execute.launch import trials
from tkgen.loops import LoopBuild, LoopSpec
from tkgen.ops.kernels import SPECS as SPECS_OF_OPERATORS
from tkgen.rows import RowBuild
from tkgen.rows.launch import row_launch
from tkgen.rows.run import run_rows, sample
from tkgen.sequence import SequenceBuild, SequenceSpec
from tkgen.sequence.launch import sequence_launch
from tkgen.sequence.run import emulate, run_sequence

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs/attention").glob("attention_backward*.tk"))
TARGETS = ("gfx942", "gfx950")
BUILDS = [(path, target) for path in SPECS for target in TARGETS if target == "gfx950" or "direct" not in path.stem]


def spec_of(source: Path | str, target: str, **sizes: int) -> SequenceSpec:
    spec = tkgen.load(source, sizes, target=target)
    assert isinstance(spec, SequenceSpec)
    return spec


def built(spec: SequenceSpec) -> SequenceBuild:
    """Compiled, watched, without spills."""
    build = spec.build().check()
    assert all(k.machine_check.outcome == "right" and k.resources.clean for k in build.kernels)
    return build


@pytest.mark.parametrize(("path", "target"), BUILDS, ids=lambda p: getattr(p, "stem", p))
def test_source_figures_and_machine_code(path: Path, target: str) -> None:
    spec = spec_of(path, target)
    assert not spec.diagnostics
    build = built(spec)
    assert "# expect " in path.read_text(encoding="utf-8") and not unmet(build)
    if target != tkgen.load(path).target.name:
        return
    golden = ROOT / "generated" / target / f"{path.stem}.cpp"
    assert golden.read_text(encoding="utf-8") == spec.source.text
    for kernel in build.kernels:
        assert isinstance(kernel, RowBuild)
        blocks = sample(row_launch(kernel.spec.program, kernel.spec.layout))
        assert not run_rows(kernel, blocks=blocks[:1] if isinstance(kernel.spec, LoopSpec) else blocks).failure


@pytest.mark.parametrize(("path", "target"), BUILDS, ids=lambda p: getattr(p, "stem", p))
def test_numbers_are_right_in_twenty_interleavings(path: Path, target: str) -> None:
    build = built(spec_of(path, target, **small(path, 128, 64 if "direct" in path.stem else 32)))
    for order, kind in trials(20):
        assert not run_sequence(build, kind=kind, order=order).failure


def small(path: Path, length: int, width: int) -> dict[str, int]:
    """Sizes that run soon."""
    heads = {"SETS": 1, "GROUP": 2} if "causal" in path.stem else {"BATCH": 1, "HEADS": 1}
    return heads | {"LENGTH": length, "D": width}


# ---------------------------------------------------------------- against torch

D = 64
SCALE = {"scale": math.log2(math.e) / math.sqrt(D)}


@cache
def forward(length: int, causal: bool, target: str, direct: bool) -> LoopBuild:
    """The kernel whose sums and logarithms a backward pass takes, which computes the same scores, bit by bit."""
    text = (SPECS_OF_OPERATORS / f"attention{'_causal' * causal}.tk").read_text(encoding="utf-8")
    text = text.replace("buffers 2", "buffers 2 via direct") if direct else text
    sizes = {"SETS": 1, "GROUP": 1 + causal, "LENGTH": length, "KEYS": length, "D": D}
    build = tkgen.load(text, sizes, target=target).check().build()
    assert isinstance(build, LoopBuild)
    return build


def backward(
    build: SequenceBuild, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **others: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The gradients that the machine code finds, as torch has them; nothing was found of it."""
    launch, given = sequence_launch(build.spec), {"Q": q, "K": k, "V": v} | others
    tensors = {of.name: given[of.name].reshape(launch.shape(of)) for of in build.spec.program.reads}
    found, outcomes = emulate(build, launch, tensors, SCALE)
    assert not any(outcome.findings for outcome in outcomes)
    return {f"G{name}": found[f"G{name}"].reshape(x.shape) for name, x in zip("QKV", (q, k, v), strict=True)}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_errors_are_within_twice_those_of_torch(path: Path, length: int) -> None:
    """One and two passes of 64 keys, two and four of 32 queries; each length on one of the targets."""
    target = "gfx950" if "direct" in path.stem or length in (63, 127) else "gfx942"
    causal = "causal" in path.stem
    build = built(spec_of(path, target, **small(path, length, D)))
    before = forward(length, causal, target, "direct" in path.stem)
    seen = torch.ones(length, length).tril().bool() if causal else None
    for case in CASES:
        q, k, v = hurting(case, (1, 1 + causal, length, D), (1, 1, length, D))
        g = torch.randn(q.shape, generator=torch.Generator().manual_seed(length)).mul(0.01).bfloat16()
        launch = row_launch(before.spec.program, before.spec.layout)
        reads = zip(before.spec.program.reads, (q, k, v), strict=True)
        given = {of.name: x.reshape(launch.shape(of)) for of, x in reads}
        left, _ = once(before, launch, given, SCALE)
        found = backward(build, q, k, v, GO=g, O=left["O"], LSE2=left["LSE2"])
        exact, theirs = gradients(q, k, v, g, seen, exact=True), gradients(q, k, v, g, seen)
        rounding = cancelled(q, k, v, g) if length == 1 else 0.0
        for name, meant in exact.items():
            assert_near(found[name], meant, theirs[name], (case, name), rounding)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_see_no_key_have_no_gradient(target: str) -> None:
    """Their logarithm is -inf, and what is subtracted of their scores is not that."""
    text = SPECS[1].read_text(encoding="utf-8").replace("q >= j", "q >= j + 40")
    build = built(spec_of(text, target, **small(SPECS[1], 100, D)))
    seen = torch.arange(100)[:, None] >= torch.arange(100) + 40
    q, k, v = hurting("std 4", (1, 2, 100, D), (1, 1, 100, D))
    g = torch.randn(q.shape, generator=torch.Generator().manual_seed(1)).bfloat16()
    scores = (q.double() @ k.double().transpose(-1, -2) / math.sqrt(D)).where(seen, -torch.inf)
    logarithms = (scores.logsumexp(-1) * math.log2(math.e)).float()
    found = backward(build, q, k, v, GO=g, O=attended(q, k, v, seen, exact=True).bfloat16(), LSE2=logarithms)
    assert not found["GQ"][:, :, :40].any() and not found["GK"][:, :, 60:].any() and not found["GV"][:, :, 60:].any()
    exact, theirs = gradients(q, k, v, g, seen, exact=True), gradients(q, k, v, g, seen)
    for name, meant in exact.items():
        assert_near(found[name], meant, theirs[name], name)
