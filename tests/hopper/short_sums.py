"""Sums of 8-bit floats as Hopper's matrix units have them, bit for bit: what `tkgen.ir.short_sums` bounds."""

from __future__ import annotations

import torch
from torch import Tensor

from tkgen.targets import ShortSums, short_sums

HOPPER = short_sums("hopper")


def _exponents(values: Tensor) -> Tensor:
    """Of each number, that of the least normal one for subnormals, and less than any for zero."""
    found = torch.frexp(values.float().abs().clamp(min=torch.finfo(values.dtype).tiny)).exponent - 1
    return torch.where(values.float() == 0, -200, found)


def summed(a: Tensor, b: Tensor, sums: ShortSums | None = HOPPER, start: Tensor | None = None) -> Tensor:
    """a b^T of tensors of 8-bit floats, in f64: instruction after instruction, added to `start` if there is one."""
    assert sums is not None
    total = torch.zeros(a.shape[0], b.shape[0], dtype=torch.float64) if start is None else start.double()
    for left, right in zip(a.split(sums.depth, 1), b.split(sums.depth, 1), strict=True):
        products = left.double()[:, None] * right.double()[None]
        largest = (_exponents(left)[:, None] + _exponents(right)[None]).amax(-1)
        before = torch.where(total == 0, -200, torch.frexp(total).exponent - 1)
        unit = torch.ldexp(torch.ones_like(total), torch.maximum(largest, before) - sums.fraction)
        exact = (products / unit[..., None]).trunc().sum(-1) * unit + (total / unit).trunc() * unit
        last = torch.ldexp(torch.ones_like(exact), torch.frexp(exact).exponent - 1 - sums.fraction)
        total = (exact / last).trunc() * last
    return total
