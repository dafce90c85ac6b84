"""Inputs that hurt, for the tests of every kernel of attention, and how far from f64 what comes of them may be.

Queries, keys and values are [BATCH, HEADS, LENGTH, D] here, as torch has them; `laid` turns them as a spec has them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention

from tkgen.ir.types import Tensor

CASES = (
    "std 1", "std 4", "std 30", "dominant", "first", "last", "equal", "zero", "-inf", "huge", "huge values",
    "subnormal",
)  # fmt: skip
LENGTHS = (1, 63, 65, 127)
# What queries and keys, what values are multiplied by: their products, and they, come near the largest number that f32,
# or that the type holds; what makes numbers subnormal in the type.
HUGE, HUGE_VALUE, TINY = (
    {torch.bfloat16: bf16, torch.float16: f16} for bf16, f16 in ((1e18, 1e4), (1e37, 1e4), (1e-38, 1e-5))
)
PLACES = {"BATCH": 0, "SETS": 0, "HEADS": 1, "KV_HEADS": 1, "GROUP": 1, "LENGTH": 2, "KEYS": 2, "D": 3}


def hurting(
    case: str, queries: Sequence[int], keys: Sequence[int], dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values of these shapes."""
    generator = torch.Generator().manual_seed(queries[2] + keys[2])
    q, k, v = (torch.randn(*shape, generator=generator) for shape in (queries, keys, keys))
    middle = keys[2] // 2
    match case.split():
        case ["std", deviation]:
            q *= float(deviation)
        case ["dominant"]:
            k[:, :, middle] *= 50
        case ["first"]:
            k[:, :, 0] *= 20
        case ["last"]:
            k[:, :, -1] *= 20
        case ["equal"]:
            q[:], k[:] = 1, 1
        case ["zero"]:
            q[:] = 0
        case ["-inf"] if keys[2] > 1:  # the score of one key for all queries
            q[..., 0] = q[..., 0].abs() + 0.5
            k[:, :, middle, 0] = -torch.inf
        case ["huge"]:
            q, k = q * HUGE[dtype], k * HUGE[dtype]
        case ["huge", "values"]:
            v = v * HUGE_VALUE[dtype]
        case ["subnormal"]:
            q, v = q * TINY[dtype], v * TINY[dtype]
    return q.to(dtype), k.to(dtype), v.to(dtype)


def attended(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor | None = None, exact: bool = False
) -> torch.Tensor:
    """Torch's attention in the type given, or in f64: with a mask of [LENGTH, KEYS], where not all is seen."""
    if exact:
        q, k, v = q.double(), k.double(), v.double()
    return scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True).double()


def gradients(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, seen: torch.Tensor | None, exact: bool = False
) -> dict[str, torch.Tensor]:
    """Torch's, in the type given or in f64, by the name that specs give them."""
    given = [(x.double() if exact else x).detach().clone().requires_grad_() for x in (q, k, v)]
    scaled_dot_product_attention(*given, attn_mask=seen, enable_gqa=True).backward(g.to(given[0].dtype))
    return {f"G{name}": x.grad.double() for name, x in zip("QKV", given, strict=True) if x.grad is not None}


def cancelled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> float:
    """Rounding of gradients that are zero, as with one key: f32's rounding of two values that cancel."""
    sizes = [x.double().norm().item() for x in (q, k, v, g)]
    return 2.0**-20 * sizes[3] * sizes[2] * max(sizes[:2]) / q.shape[-1] ** 0.5


def laid(of: Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """As the tensor `of` a spec has it, which may lack dimensions of one."""
    places = [PLACES[d.name] for d in of.dims]
    lacking = [place for place in range(4) if place not in places]
    assert all(tensor.shape[place] == 1 for place in lacking)
    return tensor.permute(*places, *lacking).reshape([tensor.shape[place] for place in places])


def as_torchs(of: Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The inverse of `laid`."""
    places = [PLACES[d.name] for d in of.dims]
    lacking = [place for place in range(4) if place not in places]
    whole = tensor.reshape(*tensor.shape, *(1 for _ in lacking))
    return whole.permute(*((*places, *lacking).index(place) for place in range(4)))


def assert_near(
    found: torch.Tensor, meant: torch.Tensor, theirs: torch.Tensor, about: object, rounding: float = 0.0
) -> None:
    """NaN where f64 has it; else no farther from f64 than twice what torch's own is, and `rounding`."""
    found = found.reshape(meant.shape).double()
    assert torch.equal(found.isnan(), meant.isnan()), about
    error, bound = ((x - meant)[~meant.isnan()] for x in (found, theirs))
    assert error.norm() <= 2 * bound.norm() + rounding, about
    assert not error.numel() or error.abs().max() <= 2 * bound.abs().max() + rounding, about
