"""Scans and the distance of f32 arithmetic from exact scans: the rules of `tkgen.ir.rounding` for running results.

- **A running sum** is at each place a sum of the numbers up to it, added in any order.
- **A running product** of n numbers has n - 1 roundings, each by u = 2^-24 of a partial product, or by 2^-150 if
  that is subnormal; later factors enlarge the latter (Higham, section 3.1).
- **Where a partial result may overflow** in one order and not in another, nothing is known of the result: of numbers of
  both signs whose positive or negative ones alone sum to more than f32 holds, of factors some of which have a product
  beyond it, and of an infinity beside factors whose product may be zero.
- **A running maximum** is exact, and ignores NaN as a maximum does; before the first number it is -inf.
"""

from __future__ import annotations

from math import inf, sqrt

import torch
from torch import Tensor

from tkgen.ir.rounding import EXACT_SUM, LARGEST, UNIT_ROUNDOFF, Bounded, overflowed
from tkgen.ir.short_sums import DEVIATIONS_SQUARED

MOST, LEAST = 127.9, -126.0  # binary logarithms of what f32 holds without loss


def scanned(function: str, value: Tensor, error: Tensor | None, dim: int) -> Bounded:
    """The running `sum`, `prod`, `max` or `min` along a dimension."""
    if function == "sum":
        return sums(value, error, dim)
    if function == "prod":
        return products(value, error, dim)
    least = function == "min"
    result = extremes(value, dim, least)
    if error is None:
        return result, None
    high, low = extremes(value + error, dim, least), extremes(value - error, dim, least)
    off = torch.maximum(high - result, result - low)
    return result, torch.where(off.isnan(), 0.0, off)


def extremes(value: Tensor, dim: int, least: bool) -> Tensor:
    """The running maximum (or minimum) of numbers and NaNs; of zeros +0 is the largest, -0 the least."""
    missing = inf if least else -inf
    numbers = torch.where(value.isnan(), missing, value)
    if not value.shape[dim]:
        return numbers
    result = (numbers.cummin(dim) if least else numbers.cummax(dim)).values
    there = ((value == 0) & (value.signbit() == least)).cumsum(dim) > 0
    zeros = torch.where(there, -0.0 if least else 0.0, 0.0 if least else -0.0).to(value.dtype)
    return torch.where(result == 0, zeros, result)


def _counts(value: Tensor, dim: int) -> Tensor:
    """The number of roundings of each result, in the shape of a dimension."""
    shape = [1] * value.dim()
    shape[dim] = value.shape[dim]
    return torch.arange(value.shape[dim], dtype=torch.float64).reshape(shape)


def sums(value: Tensor, error: Tensor | None, dim: int) -> Bounded:
    """The running sum, of additions in any order."""
    total, magnitude = value.cumsum(dim), value.abs().cumsum(dim)
    largest = float(magnitude.nan_to_num(inf).max()) if magnitude.numel() else 0.0
    if error is None and largest < inf:
        scaled = value * EXACT_SUM / 2.0 ** torch.frexp(torch.tensor(largest)).exponent.item()
        if bool((scaled == scaled.round()).all()) and largest < LARGEST:
            return total, None
    rounds, t = _counts(value, dim), sqrt(DEVIATIONS_SQUARED)
    partial = torch.minimum(magnitude, total.abs() + t * value.square().cumsum(dim).sqrt())
    handed = torch.zeros_like(value) if error is None else error.cumsum(dim)
    bound = torch.minimum(rounds, t * (rounds + 1).sqrt()) * UNIT_ROUNDOFF * (partial + handed) + handed
    finite = torch.where(value.isfinite(), value, 0.0)
    either = torch.stack([finite.clamp(min=0).cumsum(dim), -finite.clamp(max=0).cumsum(dim)])
    reach = (either + handed).amax(0) * (1 + 2.0**-20)
    total = overflowed(total)
    one_sign = (either.amin(0) == 0) & total.isinf()
    known = (reach < LARGEST) | one_sign | total.isnan()
    bound = torch.where(total.isfinite(), torch.where(bound.isnan(), inf, bound), 0.0)
    return total, torch.where(known, bound, inf)


def products(value: Tensor, error: Tensor | None, dim: int) -> Bounded:
    """The running product, of multiplications in any order."""
    total, rounds = value.cumprod(dim), _counts(value, dim)
    plain = value.isfinite() & (value != 0)
    logs = torch.where(plain, value, 1.0).abs().log2().cumsum(dim)
    start = torch.zeros_like(logs.narrow(dim, 0, min(1, logs.shape[dim])))
    logs = torch.cat([start, logs], dim)  # of the empty product, too: any run of factors has a difference of two
    if not value.shape[dim]:
        return total, None
    n = value.shape[dim]
    most = (logs - logs.cummin(dim).values).cummax(dim).values.narrow(dim, 1, n)
    least = (logs - logs.cummax(dim).values).cummin(dim).values.narrow(dim, 1, n)
    bound = rounds * UNIT_ROUNDOFF * total.abs() * (1 + 2.0**-10) + rounds * 2.0**-150 * torch.exp2(
        most.clamp(max=200.0)
    )
    zero = (value == 0).cumsum(dim) > 0
    bound = torch.where(zero, 0.0, bound)
    if error is not None:
        wide, size = (value.abs() + error).cumprod(dim), value.abs().cumprod(dim)
        bound = bound * 2 + (wide - size) * (1 + 2.0**-10) + wide * 2.0**-40
        most = most + (wide / size).nan_to_num(1.0, inf).log2().clamp(min=0)
    total = overflowed(total)
    bound = torch.where(total.isfinite(), torch.where(bound.isnan(), inf, bound), 0.0)
    infinite = value.isinf().cumsum(dim) > 0
    known = ((most < MOST) & ~(infinite & (least < LEAST))) | (value.isnan().cumsum(dim) > 0)
    return total, torch.where(known, bound, inf)
