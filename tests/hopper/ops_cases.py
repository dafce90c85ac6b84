"""The operators of `tkgen.ops` beside torch's in f64, on any device: numbers, gradients, what Hopper refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from tkgen import ops

MOST = 0.01  # of the norm of what torch makes in f64 of the same inputs; bf16 rounds by 0.002
QUANTISED = 0.06  # of the same, where factors are of 8 bits
WINDOW = 150  # keys
Function = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Case:
    """Ours, torch's, the inputs, of how many of them, from the first on, there is a gradient, what may deviate."""

    ours: Function
    torchs: Function
    inputs: tuple[torch.Tensor, ...]
    slopes: int = 0
    most: float = MOST

    def deviations(self) -> list[float]:
        """Of the output and of each gradient, relative in the 2-norm."""
        wanted = self._results(self.torchs, tuple(t.double() for t in self.inputs))
        found = self._results(self.ours, self.inputs)
        assert len(found) == len(wanted) == self.slopes + 1
        return [float((a.double() - b).norm() / b.norm()) for a, b in zip(found, wanted, strict=True)]

    def _results(self, f: Function, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """The output, and the gradients of its sum with fixed weights."""
        own = [t.detach().clone().requires_grad_(n < self.slopes) for n, t in enumerate(inputs)]
        y = f(*own)
        if self.slopes:
            weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(7)).bfloat16()
            y.backward(weights.to(y))
        return [y.detach(), *(t.grad for t in own[: self.slopes] if t.grad is not None)]


def normal(*shape: int, seed: int = 0, device: str = "cpu") -> torch.Tensor:
    """Normally distributed numbers in bf16."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator).bfloat16().to(device)


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, weight.shape, weight, 1e-6)


def gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    (a, b), c, s = x.chunk(2, -1), cos.to(x), sin.to(x)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return ops.attention(q, k, v, causal=True)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool = False) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)


def in_window(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return ops.attention(q, k, v, causal=True, window=WINDOW)


def attend_in_window(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A query without a key gets zeros."""
    seen = torch.ones(q.shape[2], k.shape[2], device=q.device).tril().triu(1 - WINDOW).bool()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True).nan_to_num(0)


def quantised(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    (a, s), (b, t) = ops.quantise(x), ops.quantise(weight)
    return ops.scaled_linear(a, b, s, t)


def cases(device: str) -> dict[str, Case]:
    """Each operator at sizes of several tiles that no tile divides."""

    def random(*shape: int, seed: int = 0) -> torch.Tensor:
        return normal(*shape, seed=seed, device=device)

    angles = (torch.arange(96)[:, None] / torch.arange(1, 33)).to(device)
    tables = angles.cos(), angles.sin()
    first = [0, 130, 130, 400]
    offsets = torch.tensor(first, dtype=torch.int32, device=device)

    def by_groups(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.cat([F.linear(x[i:j], w) for i, j, w in zip(first, first[1:], weight, strict=False)])

    long = random(2, 4, 300, 128), random(2, 2, 333, 128, seed=1), random(2, 2, 333, 128, seed=2)
    even = random(2, 4, 300, 64), random(2, 2, 300, 64, seed=1), random(2, 2, 300, 64, seed=2)
    weights = random(720, 400, seed=1), random(720, 400, seed=2)
    return {
        "linear": Case(ops.linear, F.linear, (random(3, 100, 200), random(328, 200)), 2),
        "rmsnorm": Case(ops.rmsnorm, rms_norm, (random(3, 170, 1000), random(1000)), 2),
        "rotary": Case(lambda x: ops.rotary(x, *tables), lambda x: rotated(x, *tables), (random(2, 3, 96, 64),), 1),
        "swiglu": Case(ops.swiglu, gated, (random(300, 400), *weights), 3),
        "attention": Case(ops.attention, attend, long),
        "causal": Case(causal, lambda q, k, v: attend(q, k, v, is_causal=True), even),
        "heads of 192": Case(
            ops.attention, attend, (random(1, 2, 150, 192), *(random(1, 2, 200, 192, seed=n) for n in (1, 2)))
        ),
        "heads of 256": Case(
            causal,
            lambda q, k, v: attend(q, k, v, is_causal=True),
            tuple(random(1, 2, 150, 256, seed=n) for n in range(3)),
        ),
        "window": Case(in_window, attend_in_window, (even[0], even[1][:, :, :200], even[2][:, :, :200])),
        "grouped_linear": Case(
            lambda x, w: ops.grouped_linear(x, w, offsets), by_groups, (random(400, 320), random(3, 328, 320)), 1
        ),
        "scaled_linear": Case(quantised, F.linear, (random(300, 512), random(336, 512)), most=QUANTISED),
    }


def refusals(device: str) -> dict[str, Callable[[], object]]:
    """Calls for which Hopper has no kernel, by the beginning of the message."""

    def of_weight() -> None:
        x, w = normal(40, 64, device=device), normal(2, 72, 64, device=device).requires_grad_()
        offsets = torch.tensor([0, 20, 40], dtype=torch.int32, device=device)
        ops.grouped_linear(x, w, offsets).sum().backward()

    q, k, v = (normal(1, 2, 64, 64, seed=n, device=device) for n in range(3))
    return {
        "attention has no gradient on sm_90a": lambda: ops.attention(q.requires_grad_(), k, v).sum().backward(),
        "grouped_linear has no gradient of its weights on sm_90a": of_weight,
    }
