"""`clamp` is torch's on the machine code: bounds that are crossed give the upper one, NaN of any argument stays NaN."""

from __future__ import annotations

import itertools

import pytest
import torch

import tkgen

PLACES = [-torch.inf, -2.0, -0.5, 0.0, 0.25, 3.0, torch.inf, torch.nan]
OF_TENSORS = """kernel clamped
  dims R = 8, D = 64
  global X : f32[R, D]
  global LOW : f32[R, D]
  global HIGH : f32[R, D]
  global Y : f32[R, D]
  over t in R by 8
  waves 1
  Y[t] = clamp(X[t], LOW[t], HIGH[t])
"""
OF_NUMBERS = """kernel clamped
  dims R = 1, D = 64
  global X : f32[R, D]
  global Y : f32[R, D]
  over t in R by 1
  waves 1
  Y[t] = clamp(X[t], {low}, {high})
"""


def test_every_company_of_numbers_and_bounds() -> None:
    x, low, high = torch.tensor(list(itertools.product(PLACES, repeat=3))).T.reshape(3, 8, 64).contiguous()
    expected = torch.clamp(x, low, high)
    crossed = low > high
    assert (expected[crossed] == high[crossed])[~x[crossed].isnan()].all() and crossed.sum() > 100
    found = tkgen.run(tkgen.load(OF_TENSORS).check().build(), x, low, high)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("low", "high"), [(-0.5, 0.25), (3, -2), (0, 0)])
def test_bounds_that_the_compiler_knows(low: float, high: float) -> None:
    x = torch.tensor(PLACES * 8).reshape(1, 64)
    found = tkgen.run(tkgen.load(OF_NUMBERS.format(low=low, high=high)).check().build(), x)
    torch.testing.assert_close(found, torch.clamp(x, low, high), rtol=0, atol=0, equal_nan=True)
