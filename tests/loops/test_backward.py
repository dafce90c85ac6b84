"""Gradients of attention: the bundled sequences, their machine code, and their numbers against f64 and torch's own."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import tkgen
from tkgen.execute.cases import unmet
from tkgen.execute.launch import trials
from tkgen.loops import LoopSpec
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

CASES = ["std 1", "std 4", "std 30", "dominant", "first", "last", "equal", "zero", "tiny"]
D = 64
# Of gradients that are zero, as with one key, what is left is f32's rounding of two numbers that cancel.
CANCELLED = 2.0**-20


@cache
def of_length(path: Path, length: int, target: str) -> SequenceBuild:
    text = path.read_text(encoding="utf-8").replace("0.12751743", f"{math.log2(math.e) / math.sqrt(D)}")
    return built(spec_of(text, target, **small(path, length, D)))


def inputs(case: str, length: int, heads: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(length)
    q, g = (torch.randn(1, heads, length, D, generator=generator) for _ in range(2))
    k, v = (torch.randn(1, 1, length, D, generator=generator) for _ in range(2))
    match case.split():
        case ["std", deviation]:
            q *= float(deviation)
        case ["dominant"]:
            k[:, :, length // 2] *= 50
        case ["first"]:
            k[:, :, 0] *= 20
        case ["last"]:
            k[:, :, -1] *= 20
        case ["equal"]:
            q[:], k[:] = 1, 1
        case ["zero"]:
            q[:] = 0
        case ["tiny"]:
            q, v = q * 1e-38, v * 1e-37
    return tuple(x.bfloat16() for x in (q, k, v, g))


def gradients(tensors: tuple[torch.Tensor, ...], causal: bool) -> dict[str, torch.Tensor]:
    """Torch's, in the type that is given."""
    q, k, v, g = (x.clone().requires_grad_() for x in tensors)
    scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True).backward(g)
    found = {"GQ": q.grad, "GK": k.grad, "GV": v.grad}
    return {name: x.double() for name, x in found.items() if x is not None}


@pytest.mark.parametrize("length", [1, 63, 65, 127])
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_errors_are_within_twice_those_of_torch(path: Path, length: int) -> None:
    """One and two passes of 64 keys, two and four of 32 queries; each length on one of the targets."""
    target = "gfx950" if "direct" in path.stem or length in (63, 127) else "gfx942"
    build, causal = of_length(path, length, target), "causal" in path.stem
    launch = sequence_launch(build.spec)
    scalars = {s.name: s.default or 0.0 for s in build.spec.program.scalars}
    for case in CASES:
        given = inputs(case, length, 2 if causal else 1)
        exact, theirs = gradients(tuple(x.double() for x in given), causal), gradients(given, causal)
        q, k, v, g = (x.double() for x in given)
        scores = q @ k.transpose(-1, -2) / math.sqrt(D)
        if causal:
            scores = scores.where(torch.ones(length, length).tril().bool(), -torch.inf)
        tensors = dict(zip(("Q", "K", "V", "GO"), given, strict=True)) | {"LSE": scores.logsumexp(-1).float()}
        tensors["O"] = (scores.softmax(-1) @ v).bfloat16()
        tensors = {
            n: t.reshape(launch.shape(of))
            for of in build.spec.program.reads
            for n, t in tensors.items()
            if n == of.name
        }
        found, outcomes = emulate(build, launch, tensors, scalars)
        assert not any(outcome.findings for outcome in outcomes)
        rounding = CANCELLED * g.norm() * v.norm() * max(q.norm(), k.norm()) / math.sqrt(D) if length == 1 else 0
        for name, meant in exact.items():
            error, bound = found[name].reshape(meant.shape).double() - meant, theirs[name] - meant
            assert error.norm() <= 2 * bound.norm() + rounding, (case, name)
            assert error.abs().max() <= 2 * bound.abs().max() + rounding, (case, name)
