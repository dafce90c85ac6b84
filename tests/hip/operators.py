"""Operators of `tkgen.ops` on CPU tensors that HIP's GPU computes, each beside torch: `python operators.py NAME`.

It prints `right` for each result and gradient that is as near to f64 as torch's own, within a factor of two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F

from tkgen import ops

Function = Callable[..., torch.Tensor]


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return (scale * torch.randn(*shape, generator=generator)).bfloat16()


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    (a, b), c, s = x.chunk(2, -1), cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def grouped(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.cat([F.linear(x[a:b], w) for (a, b), w in zip(pairwise(ENDS), weight, strict=True)])


ENDS = [0, 30, 30, 71]
OFFSETS = torch.tensor(ENDS, dtype=torch.int32)
ANGLES = torch.arange(13)[:, None] / torch.arange(1, 17)
# Sizes are no multiples of tiles. Of `rotary` one tensor is a transposed view, whose strides no kernel takes.
CASES: dict[str, tuple[Function, Function, tuple[torch.Tensor, ...]]] = {
    "linear": (ops.linear, F.linear, (normal(3, 50, 71), normal(137, 71))),
    "matmul": (ops.matmul, torch.matmul, (normal(3, 50, 71), normal(71, 137))),
    "rmsnorm": (
        ops.rmsnorm,
        lambda x, weight: F.rms_norm(x, weight.shape, weight, 1e-6),
        (normal(3, 17, 100), normal(100)),
    ),
    "rotary": (ops.rotary, rotated, (normal(2, 13, 3, 32).transpose(1, 2), ANGLES.cos(), ANGLES.sin())),
    "swiglu": (ops.swiglu, gated, (normal(70, 40), normal(72, 40, seed=1), normal(72, 40, seed=2))),
    "attention": (
        lambda q, k, v: ops.attention(q, k, v, causal=True),
        attended,
        (normal(1, 2, 65, 64), normal(1, 1, 65, 64, seed=1), normal(1, 1, 65, 64, seed=2)),
    ),
    "grouped_linear": (
        lambda x, weight: ops.grouped_linear(x, weight, OFFSETS),
        grouped,
        (normal(71, 40), normal(3, 72, 40)),
    ),
}


def results(function: Function, arguments: tuple[torch.Tensor, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    """The result in that type, and the gradients of the bf16 arguments for one random gradient of the result."""
    learned = [t.dtype is torch.bfloat16 for t in arguments]
    given = [t.to(dtype).requires_grad_() if of else t for t, of in zip(arguments, learned, strict=True)]
    result = function(*given)
    result.backward(normal(*result.shape, seed=9).to(dtype))
    return [result.detach(), *(t.grad for t, of in zip(given, learned, strict=True) if of and t.grad is not None)]


def judged(found: torch.Tensor, allowed: torch.Tensor, exact: torch.Tensor) -> None:
    print("right" if (found.double() - exact).abs().max() <= allowed else "WRONG")


def with_gradients(name: str) -> None:
    ours, torchs, arguments = CASES[name]
    exact, rounded = (results(torchs, arguments, dtype) for dtype in (torch.float64, torch.bfloat16))
    with ops.through_hip():
        found = results(ours, arguments, torch.bfloat16)
    assert len(found) == len(exact)
    for ours_, theirs, meant in zip(found, rounded, exact, strict=True):
        judged(ours_, 2 * (theirs.double() - meant).abs().max(), meant)


def quantised() -> None:
    """Rows as 8-bit floats and scales, and their product with such weights."""
    x, weight = normal(50, 128), normal(72, 128, seed=1)
    with ops.through_hip():
        (x8, s), (w8, t) = ops.quantise(x), ops.quantise(weight)
        found = ops.scaled_linear(x8, w8, s, t)
    for given, values, scales in ((x, x8, s), (weight, w8, t)):
        judged(values.double() * scales.double()[:, None], given.double().abs().max() / 16, given.double())
    exact = (x8.double() * s.double()[:, None]) @ (w8.double() * t.double()[:, None]).T
    judged(found, exact.abs().max() / 128, exact)


if __name__ == "__main__":
    quantised() if sys.argv[1] == "quantise" else with_gradients(sys.argv[1])
