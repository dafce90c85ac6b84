"""Sums whose contraction is divided among blocks (`part p`): the generated C++ for Hopper on the CPU, beside torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from nvcc import compiles
from sampling import sample
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper import lowering
from tkgen.backends.hopper.meant import wrong_product
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute.modelled import in_order

PARTS = """
kernel parts
  target sm_90a
  dims M = {m}, N = {n}, K = {k}, PARTS = {parts}
  global A : bf16[M, K]
  global B : bf16[N, K]
  global S : f32[PARTS, M, N]
  over p in PARTS, m in M by {rows}, n in N by 64
  tail masked
  {clauses}
  shared A, B
  each k in K by 64 part p
    s = s + A[m, k] @ B[n, k].T
  S[p, m, n] = s
"""
PLAIN = {"m": 128, "n": 128, "k": 512, "parts": 4, "rows": 64, "clauses": ""}
CASES = {
    "even parts": PLAIN,
    "a last part that is shorter": PLAIN | {"m": 100, "n": 72, "k": 456, "parts": 3},
    "parts without anything": PLAIN | {"k": 192, "parts": 5},
    "consumers take turns": PLAIN | {"rows": 128, "clauses": "schedule ping_pong", "parts": 3},
    "clusters": PLAIN | {"clauses": "clusters 2 along m", "parts": 3},
}


def made(name: str) -> HopperSpec:
    spec = load(PARTS.format(**CASES[name])).check()
    assert isinstance(spec, HopperSpec)
    return spec


def wanted(a: Tensor, b: Tensor, parts: int) -> Tensor:
    """The sums over each part: runs of equally many steps of 64, of which the last ones may be beyond the end."""
    steps = -(-a.shape[1] // 64)
    run = -(-steps // parts) * 64
    sums = [a[:, p * run : (p + 1) * run].double() @ b[:, p * run : (p + 1) * run].double().T for p in range(parts)]
    return torch.stack(sums)


@pytest.mark.parametrize("name", sample(CASES, 3))
def test_each_part_is_that_of_torch(name: str) -> None:
    spec = made(name)
    launch = spec.launch()
    generator = torch.Generator().manual_seed(0)
    inputs = {t.name: torch.randint(-4, 5, launch.shape(t), generator=generator).bfloat16() for t in spec.program.reads}
    sums = wanted(inputs["A"], inputs["B"], CASES[name]["parts"])
    for executor in backend_of("sm_90a").executors.values():
        for order in executor.orders(2):
            found = in_order(executor, spec, launch, inputs, {}, order)
            assert not found.findings
            assert torch.equal(found.outputs["S"].double(), sums)


@compiles
def test_parts_compile_without_spills() -> None:
    assert made("a last part that is shorter").build().check()


@pytest.mark.parametrize(("old", "new"), [("p_i * K_STEPS + k", "k"), ("p_i * K_STEPS", "p_i * (K_STEPS - 1)")])
def test_steps_of_another_part_are_found(old: str, new: str) -> None:
    spec = made("even parts")
    code = lowering.tile_code(spec.program, spec.target)
    assert wrong_product(spec.layout, code) is None
    first, *others = code.operands
    assert old in first.coord
    changed = replace(code, operands=(replace(first, coord=first.coord.replace(old, new)), *others))
    assert "is not the value of the equations" in str(wrong_product(spec.layout, changed))


def test_products_that_are_scaled_are_not_divided() -> None:
    text = PARTS.format(**PLAIN).replace(
        "    s = s + A[m, k] @ B[n, k].T", "    v = A[m, k] @ B[n, k].T\n    s = s + 2 * v"
    )
    with pytest.raises(SpecError, match="does not divide the K-steps of scaled products"):
        load(text).check()
