"""Numbers in order and their positions, and how far off f32 arithmetic of these numbers leaves them.

- **NaN is the greatest**, +0 and -0 are equal, and of equal numbers that at the lower position comes first
  (`torch.sort` with `stable`).
- **A value**: of numbers that are off, each by its bound, the i-th largest lies between the i-th largest of all lower
  ends and that of all upper ends.
- **A position** is known where no number that is off could change places with the one there: their intervals do not
  touch. Elsewhere nothing is known of it.
"""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor

from tkgen.ir.equations import Sort
from tkgen.ir.rounding import Bounded


def ordered(op: Sort, value: Tensor, error: Tensor | None, dim: int, start: int) -> Bounded:
    """All values in order along a dimension, or their positions from `start` on."""
    descending = op.descending
    found = torch.sort(value, dim=dim, descending=descending, stable=True)
    if op.function == "values":
        return found.values, None if error is None else _off(value, error, found.values, dim, descending)
    positions = (found.indices + start).to(value.dtype)
    if error is None:
        return positions, None
    known = _known(found.values, error.expand(value.shape).gather(dim, found.indices), dim, descending)
    return positions, torch.where(known, 0.0, inf)


def _off(value: Tensor, error: Tensor, found: Tensor, dim: int, descending: bool) -> Tensor:
    """The bounds of values in order."""
    high, low = (torch.sort(value + sign * error, dim=dim, descending=descending).values for sign in (1, -1))
    off = torch.maximum(high - found, found - low)
    return torch.where(off.isnan(), 0.0, off)


def _known(value: Tensor, error: Tensor, dim: int, descending: bool) -> Tensor:
    """Return whether the element at each place is certain, of numbers in order and their bounds."""
    if descending:  # as ascending ones, of which those before are at most as large
        value = -value
    value = torch.where(value.isnan(), -inf if descending else inf, value)
    exact = error == 0
    low, high = value - error, value + error
    reach, least = (torch.where(exact, -inf, high), torch.where(exact, inf, low))  # of those that are off alone
    before = (_before(reach, dim) < low) & (exact | (_before(high, dim) < low))
    after = (_after(least, dim) > high) & (exact | (_after(low, dim) > high))
    return before & after


def _before(value: Tensor, dim: int) -> Tensor:
    """The largest of all numbers before each place."""
    start = torch.full_like(value.narrow(dim, 0, 1), -inf)
    return torch.cat([start, value.cummax(dim).values.narrow(dim, 0, value.shape[dim] - 1)], dim)


def _after(value: Tensor, dim: int) -> Tensor:
    """The least of all numbers after each place."""
    return -_before(-value.flip(dim), dim).flip(dim)
