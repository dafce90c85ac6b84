"""Fused matmuls on Hopper whose columns no product has: tiles are padded, and hold zeros beyond the end of a row."""

from __future__ import annotations

import pytest
import torch
from nvcc import compiles
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute.modelled import in_order
from tkgen.proof.execution import Order

TEXT = """
kernel padded
  target sm_90a
  dims HEADS = 2, LENGTH = 100, KEYS = 150, D = {d}, E = {e}
  global Q : bf16[LENGTH, HEADS, D]
  global K : bf16[KEYS, D]
  global V : bf16[KEYS, E]
  global B : f32[E]
  global O : bf16[LENGTH, HEADS, E]
  global M : f32[HEADS, LENGTH]
  over h in HEADS, q in LENGTH by 64
  shared K, V
  carry l : f32[q] = 0, o : f32[q, E] = 0
  each j in KEYS by 64
    p = exp2(0.1 * Q[q, h] @ K[j].T)
    l = l + rowsum(p)
    o = o + bf16(p) @ V[j]
  y = o / l + B
  M[h, q] = rowsum(exp2(y))
  O[q, h] = y - rowmax(y)
"""
SIZES = {"96 of both": (96, 96), "a part of a panel": (24, 40), "not the same": (80, 136)}


def made(name: str) -> HopperSpec:
    d, e = SIZES[name]
    spec = load(TEXT.format(d=d, e=e)).check()
    assert isinstance(spec, HopperSpec)
    return spec


def wanted(q: Tensor, k: Tensor, v: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The tile and the sums of its rows."""
    p = torch.exp2(0.1 * torch.einsum("qhd,kd->hqk", q.double(), k.double()))
    y = p @ v.double() / p.sum(-1, keepdim=True) + b.double()
    return (y - y.amax(-1, keepdim=True)).transpose(0, 1), torch.exp2(y).sum(-1)


@pytest.mark.parametrize("name", SIZES)
def test_padded_columns_compute_what_torch_does(name: str) -> None:
    spec = made(name)
    launch = spec.launch()
    generator = torch.Generator().manual_seed(0)
    inputs = {
        t.name: torch.randn(launch.shape(t), generator=generator).to(
            torch.float32 if t.name == "B" else torch.bfloat16
        )
        for t in spec.program.reads
    }  # fmt: skip
    inputs["B"] -= 4  # so that zeros beyond the end would be the largest of a row
    tile, sums = wanted(*inputs.values())
    for executor in backend_of("sm_90a").executors.values():
        found = in_order(executor, spec, launch, inputs, {}, Order())
        assert not found.findings
        assert torch.allclose(found.outputs["O"].double(), tile, rtol=0.02, atol=0.05)
        assert torch.allclose(found.outputs["M"].double(), sums, rtol=0.02, atol=0.01)


@compiles
def test_padded_columns_compile_without_spills() -> None:
    assert made("not the same").build().check()


@pytest.mark.parametrize(("d", "e", "name"), [(100, 64, "Q"), (64, 68, "V")])
def test_rows_that_the_copy_engine_cannot_step_over_are_refused(d: int, e: int, name: str) -> None:
    with pytest.raises(SpecError, match=f"a row of `{name}` is .* the copy engine needs a multiple of 16"):
        load(TEXT.format(d=d, e=e)).check()
