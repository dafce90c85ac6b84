"""Contractions divided among blocks: sizes that do not divide, numbers of parts that only the launch knows."""

from __future__ import annotations

import pytest
import torch

import tkgen
from tkgen.backends.hopper.host.run import run as on_host
from tkgen.diagnostics import SpecError
from tkgen.execute.arguments import SizeError
from tkgen.execute.launch import run
from tkgen.proof.execution import Order

SPLIT = """\
kernel divided
  dims {dims}
  global A : bf16[M, K]
  global B : bf16[N, K]
  global {out}
  over {over}m in M by 64, n in N by 64
  {grid}
  tail masked
{waves}
  each k in K by {step}{part}
    c = c + A[m, k] @ B[n, k].T
  {store} = c
"""
AMD = "  waves 2 x 2\n  shared A, B buffers 2"
HOPPER = """\
  shared A, B buffers 4 via direct
  role producer waves 0..3
    load A, B
  role consumer waves 4..7 as 4 x 1
    accumulate c : f32 tile 16 x 64"""
ADDED = {"out": "C : f32[M, N]", "over": "", "part": "", "store": "C[m, n]"}
STORED = {"out": "S : f32[P, M, N]", "over": "p in P, ", "part": " part p", "store": "S[p, m, n]", "grid": ""}
MACHINES = pytest.mark.parametrize(
    ("target", "waves", "step"), [("gfx90a", AMD, 32), ("gfx950", AMD, 32), ("sm_90a", HOPPER, 64)]
)
SIZES = {"M": 72, "N": 96}
LENGTHS = (8, 64, 200, 1000)  # one step and no others, a step a part, parts that differ, an end within a step


def load(target: str, **parts: object) -> tkgen.Spec:
    return tkgen.load(SPLIT.format(**parts), target=target)


def right(spec: tkgen.Spec, sizes: dict[str, int]) -> bool:
    """Return True if the machine code, or on Hopper the C++ on the CPU, computes products of small integers exactly."""
    if spec.target.name != "sm_90a":
        return run(spec.build(), extents=sizes).ok
    launch, generator = spec.launch(sizes), torch.Generator().manual_seed(0)
    a, b = (torch.randint(-4, 5, launch.shape(t), generator=generator).to(torch.bfloat16) for t in spec.program.reads)
    found = on_host(spec, launch, {"A": a, "B": b}, {}, Order(), limit=60)
    assert not found.findings
    (out,) = found.outputs.values()
    return torch.equal(out if out.dim() == 2 else out.sum(0), a.float() @ b.float().T)


@MACHINES
def test_blocks_add_parts_of_a_contraction_of_any_length(target: str, waves: str, step: int) -> None:
    """Three blocks to a tile: parts are equally many K-steps, and what lies beyond the end adds nothing."""
    dims = "M = dynamic, N = dynamic, K = dynamic"
    spec = load(target, dims=dims, grid="grid split_k(3)", waves=waves, step=step, **ADDED).check()
    for length in LENGTHS:
        assert right(spec, SIZES | {"K": length})
    static = load(target, dims="M = 72, N = 96, K = 1000", grid="grid split_k(3)", waves=waves, step=step, **ADDED)
    assert right(static.check(), {})


@MACHINES
def test_the_launch_says_into_how_many_parts(target: str, waves: str, step: int) -> None:
    dims = "P = dynamic, M = dynamic, N = dynamic, K = dynamic"
    spec = load(target, dims=dims, waves=waves, step=step, **STORED).check()
    for parts, length in ((1, 200), (3, 200), (7, 64), (4, 1000)):
        assert right(spec, SIZES | {"P": parts, "K": length})
    with pytest.raises(SizeError, match="P must be from 1 to 65536"):
        spec.launch(SIZES | {"P": 0, "K": 64})


@MACHINES
@pytest.mark.parametrize("parts", [1, 2, 3, 5, 16])
def test_every_k_step_is_that_of_one_block(target: str, waves: str, step: int, parts: int) -> None:
    dims = "M = dynamic, N = dynamic, K = dynamic"
    spec = load(target, dims=dims, grid=f"grid split_k({parts})", waves=waves, step=step, **ADDED)
    for length in LENGTHS:
        launch = spec.launch(SIZES | {"K": length})
        steps = [(p.row, p.col, k) for own in launch.work for p in own for k in range(p.first, p.last)]
        assert len(steps) == len(set(steps))
        assert {k for _, _, k in steps} >= set(range(launch.steps))


def test_without_a_masked_tail_parts_are_whole_steps() -> None:
    """A number of K-steps that does not divide is refused, at build time or at the launch."""
    whole = SPLIT.replace("  tail masked\n", "")
    known = whole.format(dims="M = 128, N = 128, K = 1024", grid="grid split_k(3)", waves=AMD, step=32, **ADDED)
    with pytest.raises(SpecError, match=r"E608\]: 32 K-steps cannot be divided equally among 3 blocks"):
        tkgen.load(known, target="gfx942").check()
    dims = "M = dynamic, N = dynamic, K = dynamic"
    spec = tkgen.load(whole.format(dims=dims, grid="grid split_k(3)", waves=AMD, step=32, **ADDED), target="gfx942")
    spec.check().launch({"M": 64, "N": 64, "K": 192})
    with pytest.raises(SizeError, match="K must be a multiple of 96"):
        spec.launch({"M": 64, "N": 64, "K": 128})


def test_each_part_has_the_steps_that_a_schedule_needs() -> None:
    dims = "M = dynamic, N = dynamic, K = dynamic"
    deep = AMD.replace("buffers 2", "buffers 3")
    spec = load("gfx942", dims=dims, grid="grid split_k(3)", waves=deep, step=32, **ADDED).check()
    with pytest.raises(SizeError, match="K must make at least 2 steps of 32 in each of 3 parts"):
        spec.launch(SIZES | {"K": 96})
    assert right(spec, SIZES | {"K": 104})


@pytest.mark.parametrize(
    ("dims", "tail"),
    [("P = dynamic, M = 64, N = 64, K = 640", "tail masked"), ("P = dynamic, M = 64, N = 64, K = dynamic", "")],
    ids=["known length", "whole steps"],
)
def test_a_number_of_parts_of_the_launch_needs_a_length_of_the_launch(dims: str, tail: str) -> None:
    text = SPLIT.replace("tail masked", tail).format(dims=dims, waves=AMD, step=32, **STORED)
    with pytest.raises(SpecError, match=r"E230\]: parts of K, whose number is known only at launch, need"):
        tkgen.load(text, target="gfx942").check()
