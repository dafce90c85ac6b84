"""Sums of 8-bit floats that matrix units cut off: within the bound, and exact where that is zero."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from short_sums import HOPPER as SUMS
from short_sums import summed
from torch import Tensor

from tkgen.backends.hopper.interpreter import one_thread
from tkgen.ir.functions import CDNA, HOPPER
from tkgen.ir.rounding import contracted, exact_grid, exact_sums, normal
from tkgen.ir.short_sums import cut_off_start
from tkgen.ir.types import DType
from tkgen.targets import short_sums

FP8, BF8 = DType.E4M3FN, DType.E5M2
TYPE = {FP8: torch.float8_e4m3fn, BF8: torch.float8_e5m2}
Made = Callable[[Tensor], Tensor]
NUMBERS: dict[str, Made] = {
    "normal": lambda x: x,
    "positive": lambda x: x.abs(),
    "rising": lambda x: x * torch.linspace(0.05, 4, x.shape[1]),
    "falling": lambda x: x * torch.linspace(4, 0.05, x.shape[1]),
    "one large": lambda x: x.index_fill(1, torch.tensor([0]), 100.0),
    "mostly zero": lambda x: x * (torch.arange(x.shape[1]) % 7 == 0),
    "tiny": lambda x: x * 0.004,  # subnormals among them
    "shifted": lambda x: x + 0.5,
}


def factors(made: Made, left: DType, right: DType, k: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(k)
    tensors = (torch.randn(24, k, generator=generator), torch.randn(40, k, generator=generator))
    a, b = (made(t).to(TYPE[d]) for t, d in zip(tensors, (left, right), strict=True))
    return a, b


def bounded(a: Tensor, b: Tensor, left: DType, right: DType) -> tuple[Tensor, Tensor | None]:
    return contracted((a.double(), None), (b.double(), None), (left, right), "ak,bk->ab", a.shape[1], SUMS)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("left, right, k", [(FP8, FP8, 48), (FP8, FP8, 4096), (BF8, FP8, 784), (BF8, BF8, 1024)])
def test_what_the_machine_sums_is_within_the_bound(numbers: str, left: DType, right: DType, k: int) -> None:
    a, b = factors(NUMBERS[numbers], left, right, k)
    with one_thread():
        value, bound = bounded(a, b, left, right)
        error = (summed(a, b) - value).abs()
    assert bool((error <= (0.0 if bound is None else bound)).all())
    assert (bound is None) == (numbers == "tiny" and k == 48)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("size", [0.01, 1.0, 100.0, 30000.0])
@pytest.mark.parametrize("k", [32, 128, 256])
def test_sums_that_start_elsewhere_than_at_zero_are_within_the_bound(numbers: str, size: float, k: int) -> None:
    """Those of fused matmuls do in every iteration but the first. The bound from zero is too small for some."""
    a, b = factors(NUMBERS[numbers], FP8, FP8, k)
    start = size * torch.randn(24, 40, generator=torch.Generator().manual_seed(k))
    with one_thread():
        value, bound = bounded(a, b, FP8, FP8)
        error = (summed(a, b, start=start) - (start.double() + value)).abs()
    from_zero = torch.zeros_like(error) if bound is None else bound
    assert bool((error <= from_zero + cut_off_start(start.double(), None, k, SUMS)).all())
    assert size < 30000.0 or numbers == "one large" or bool((error > from_zero).any())


def test_the_bound_shows_a_lost_step() -> None:
    """And what f32 is held to would refuse what the machine makes of right sums."""
    a, b = factors(NUMBERS["normal"], FP8, FP8, 1024)
    lost = a.clone()
    lost[:, 512:640] = 0
    with one_thread():
        value, bound = bounded(a, b, FP8, FP8)
        right, wrong = summed(a, b), summed(lost, b)
    as_f32 = contracted((a.double(), None), (b.double(), None), (FP8, FP8), "ak,bk->ab", 1024)[1]
    assert bound is not None and as_f32 is not None
    assert float(((wrong - value).abs() > bound).double().mean()) > 0.8
    assert bool(((right - value).abs() > as_f32).any())


@pytest.mark.parametrize("k", [16, 256, 2048, 16384])
def test_exact_sums_are_exact(k: int) -> None:
    limit, unit = exact_grid(FP8, k, exact_sums((FP8, BF8), SUMS))
    generator = torch.Generator().manual_seed(k)
    least = min(limit, 8)  # a significand of e5m2
    shape = (4, k)
    a, b = (torch.randint(-n, n + 1, shape, generator=generator) * unit for n in (limit, least))
    b = torch.where(b.abs() == 0, unit, b.abs()) if k == 256 else b  # sums that grow
    factors = a.to(TYPE[FP8]), b.to(TYPE[FP8])
    with one_thread():
        value, bound = bounded(*factors, FP8, FP8)
        assert bound is None and torch.equal(summed(*factors), value)


def test_other_sums_are_as_they_were() -> None:
    assert short_sums(CDNA) is None and short_sums(HOPPER) == SUMS
    assert exact_sums((FP8, FP8), None) == exact_sums((DType.BF16, DType.BF16), SUMS) == 2**24
    assert exact_sums((FP8, BF8), SUMS) == 2**14
    x = normal((8, 64), DType.BF16, torch.Generator().manual_seed(1)).double()
    both = [contracted((x, None), (x, None), (DType.BF16,) * 2, "ak,bk->ab", 64, s)[1] for s in (None, SUMS)]
    assert both[0] is not None and both[1] is not None and torch.equal(both[0], both[1])
