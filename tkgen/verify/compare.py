"""The comparison of stored values with the meaning, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tkgen.ir import rounding
from tkgen.ir.types import DType
from tkgen.verify.field import P, image
from tkgen.verify.payloads import GONE, INF
from tkgen.verify.ring import NEVER, Ring


@dataclass(frozen=True)
class Judged:
    """The elements of an output, each of one of these kinds; `p` and `q` are what the machine code stored.

    `undecided` are those that differ where they may: they hang on a choice between numbers that rounding cannot tell
    apart.
    """

    right: Tensor
    wrong: Tensor
    undecided: Tensor
    lost: Tensor  # of the wrong ones, those whose payload nobody knows
    missing: Tensor  # of the wrong ones, those that were never written
    p: Tensor
    q: Tensor


def judged(found: tuple[Tensor, Tensor], meant: Ring, numbers: Tensor | None, dtype: DType) -> Judged:
    """An output with payloads; `numbers` is what is stored there, for those that have none."""
    p, q = found
    real = meant.reals
    same = (p == meant.p) & ((q == meant.q) | (q < 0) | (meant.q < 0))
    infinite = (p == INF) & (q == (real < 0).long())
    same = torch.where(real.isinf(), infinite, same)
    same = torch.where(meant.p == NEVER, p == NEVER, same)
    nan = real.isnan() & (meant.p != NEVER)
    if bool(nan.any()) and numbers is not None:
        same = torch.where(nan, numbers.double().isnan(), same)
    return _sorted(same, meant.unsure, p, q)


def by_number(numbers: Tensor, meant: Ring, dtype: DType) -> Judged:
    """An output of integers or of scales: stored is the number that is meant, as far as rounding decides."""
    real, error = meant.reals, meant.planes.error
    near = (numbers.double() - real).abs() <= torch.where(error.isfinite(), error, torch.inf)
    same = (numbers.double() == real) | (near & (error > 0)) | (meant.p == NEVER) & rounding.is_unwritten(numbers)
    none = torch.full(real.shape, GONE)
    return _sorted(same, meant.unsure, none, none)


def by_rounding(found: tuple[Tensor, Tensor], numbers: Tensor, meant: Ring, dtype: DType) -> Judged:
    """An output of integers or of scales: the payload is that of the number which was rounded.

    Where either side knows no more than the integer itself, such as the largest of the type, that must be right.
    A scale, which is a power of two, must be right in any case, and made of no other number than is meant.
    """
    p, q = found
    number, by_payload = by_number(numbers, meant, dtype), judged(found, meant, None, dtype)
    whole = p == image(numbers.double(), P)
    if not dtype.whole:
        return _sorted(number.right & (by_payload.right | whole), meant.unsure, p, q)
    whole = whole | (meant.p == image(meant.reals, P))
    return _sorted(by_payload.right | (whole & number.right), meant.unsure, p, q)


def _sorted(same: Tensor, unsure: Tensor, p: Tensor, q: Tensor) -> Judged:
    wrong = ~same & ~unsure
    return Judged(same, wrong, ~same & unsure, wrong & (p == GONE), wrong & (p == NEVER), p, q)


# ---------------------------------------------------------------- where, in words


def where(wrong: Tensor, names: tuple[str, ...]) -> str:
    """Describe a set of elements: their number, the first, and their positions along each dimension."""
    count, places = int(wrong.sum()), wrong.nonzero()
    first = ", ".join(str(int(x)) for x in places[0]) if wrong.dim() else ""
    if count == wrong.numel():
        return "all elements"
    if count == 1:
        return f"the element [{first}]"
    along = [places[:, d].unique() for d in range(wrong.dim())]
    full = 1
    for taken in along:
        full *= len(taken)
    parts = [
        f"{name} {spread(taken.tolist())}"
        for name, taken, size in zip(names, along, wrong.shape, strict=True)
        if len(taken) < size
    ]
    whole = "" if full == count else f", {count / full:.0%} of the elements there"
    text = "; ".join(parts)
    return f"{count} of {wrong.numel()} elements, the first [{first}]{': ' if text else ''}{text}{whole}"


def spread(places: list[int]) -> str:
    """Integers, ascending, as runs: `3`, `16..31`, `0..3 of each 16`, or the first few of them."""
    runs: list[tuple[int, int]] = []
    for x in places:
        if runs and x == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], x
        else:
            runs.append((x, x))
    texts = [str(a) if a == b else f"{a}..{b}" for a, b in runs]
    if len(runs) > 2:
        steps = {b[0] - a[0] for a, b in pairwise(runs)}
        lengths = {b - a for a, b in runs}
        if len(steps) == 1 and len(lengths) == 1:
            return f"{texts[0]} and so on, each {steps.pop()}, to {texts[-1]}"
    return ", ".join(texts if len(texts) <= 4 else [*texts[:3], f"... {texts[-1]}"])
