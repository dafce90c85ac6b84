"""The maximum of NaNs alone is -inf, the minimum inf, wherever a kernel reduces rows; NaN beside numbers is ignored.

Reductions of register tiles start with the first element: in fused matmuls that was NaN, in rows and products -inf.
"""

from __future__ import annotations

import pytest
import torch
from executed import computed
from torch import Tensor

from tkgen.api import load
from tkgen.backends.registry import backend_of
from tkgen.proof.execution import Order

NANS = [3, 8]  # the rows of NaNs alone
ROWS = """
kernel extremes
  dims R = 16, D = 64
  global X : f32[R, D]
  global A : f32[R]
  global B : f32[R]
  over r in R by 4
  waves 4
  A[r] = rowmax(X[r])
  B[r] = rowmin(X[r])
"""
PRODUCT = """
kernel extremes
  dims M = 128, N = 128, K = 64
  global X : bf16[M, K]
  global W : bf16[N, K]
  global A : f32[M]
  global B : f32[M]
  global Y : bf16[M, N]
  over m in M by 128, n in N by 128
  {waves}
  each k in K by 64
    c = c + X[m, k] @ W[n, k].T
  A[m] = rowmax(c)
  B[m] = rowmin(c)
  Y[m, n] = c
"""
# A NaN would show in a, and in b of two NaNs; not in n: m is a number before the loop, and remains one.
FUSED = """
kernel extremes
  dims L = 128, D = 64
  global X : bf16[L, D]
  global W : bf16[L, D]
  global V : bf16[L, D]
  global A : f32[L]
  global B : f32[L]
  global Y : bf16[L, D]
  over q in L by 128
  waves {waves} along q
  shared W, V buffers 2 via {via}
  carry a : f32[q] = 0, b : f32[q] = 0, m : f32[q] = -inf, o : f32[q, D] = 0
  each j in L by 128
    s = X[q] @ W[j].T
    n = max(m, rowmax(s))
    a = rowmax(s)
    b = min(rowmin(s), rowmin(s + 1000))
    o = o + bf16(where(n > -1e30, s, 0)) @ V[j]
    m = n
  A[q] = a
  B[q] = b
  Y[q] = o
"""
AMD = "waves 4 x 1\n  shared X, W"
HOPPER = """shared X, W buffers 2 via direct
  role producer waves 0..3
    load X, W
  role consumer waves 4..11 as 8 x 1
    accumulate c : f32 tile 16 x 128"""
TARGETS = ("gfx942", "gfx950", "sm_90a")
VIA = {"gfx942": "registers", "gfx950": "direct", "sm_90a": "direct"}
SPECS = {
    "rows": dict.fromkeys(TARGETS, ROWS),
    "after a product": {t: PRODUCT.format(waves=HOPPER if t == "sm_90a" else AMD) for t in TARGETS},
    "fused": {t: FUSED.format(waves=8 if t == "sm_90a" else 4, via=VIA[t]) for t in TARGETS},
}


def meant(place: str, inputs: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The largest and the least number of each row."""
    values = inputs[0].double() if place == "rows" else inputs[0].double() @ inputs[1].double().T
    missing = values.isnan()
    return values.masked_fill(missing, -torch.inf).amax(1), values.masked_fill(missing, torch.inf).amin(1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", SPECS)
def test_of_nans_alone_the_maximum_is_the_least_of_all(place: str, target: str) -> None:
    build = load(SPECS[place][target], target=target).build()
    generator = torch.Generator().manual_seed(0)
    shapes, dtype = ([(16, 64)], torch.float32) if place == "rows" else ([(128, 64)] * 3, torch.bfloat16)
    inputs = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes[: 2 if "product" in place else 3]]
    inputs[0][NANS] = torch.nan
    if place == "rows":
        inputs[0][5, ::2] = torch.nan
    expected = meant(place, inputs)
    assert all((e[NANS] == infinity).all() for e, infinity in zip(expected, (-torch.inf, torch.inf), strict=True))
    results = [computed(build, *inputs, host=target == "sm_90a")]
    if target == "sm_90a":
        named = dict(zip((t.name for t in build.spec.program.reads), inputs, strict=True))
        made = backend_of(target).executors["model"].run(build.spec, build.spec.launch(), named, {}, Order())
        results.append(tuple(made.outputs[t.name] for t in build.spec.program.outputs))
    for found in results:
        for ours, theirs in zip(found, expected, strict=False):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)
