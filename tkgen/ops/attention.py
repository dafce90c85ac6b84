"""Softmax attention: an operator of torch with its gradient."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from tkgen.ops.kernels import HOPPER, NAMESPACE, architecture, check, outputs


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    deterministic: bool = True,
) -> Tensor:
    """softmax(scale q kᵀ) v over [BATCH, HEADS, LENGTH, D], as torch's scaled_dot_product_attention.

    k and v are [BATCH, KV_HEADS, KEYS, D]: a head of keys serves HEADS / KV_HEADS heads of queries, in order. `causal`
    lets the query at place i see the keys up to place i, with a `window` only so many of them, the last ones; a query
    that sees none gets zeros. `scale` is 1 / sqrt(D) unless given. One build serves all batches and lengths of a D, a
    window, and of as many heads to a head of keys. D is a multiple of 16, 256 at most. Its gradients have the same bits
    in every run; without `deterministic` blocks may add up that of q in any order, which takes fewer products: the
    scores are computed once (but in windows, and where D is above 128).

    Raises:
        ValueError: tensors that are not bf16 or whose shapes do not go together, a window without `causal`.
        SpecError: a D for which the kernel cannot be built; on Hopper, in a window, 128 queries that see no key.
    """
    check("attention", q=q, k=k, v=v)
    if q.dim() != 4 or k.dim() != 4 or k.shape != v.shape or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        shapes = ", ".join(str([*t.shape]) for t in (q, k, v))
        raise ValueError(f"attention: q, k and v of {shapes} do not go together")
    batch, heads, length, width = q.shape
    if not k.shape[1] or heads % k.shape[1]:
        raise ValueError(f"attention: {heads} heads of queries cannot share {k.shape[1]} heads of keys")
    if window is not None and (not causal or window < 1):
        raise ValueError(f"attention: a window of {window} keys{' without `causal`' if not causal else ''}")
    sets, group = batch * k.shape[1], heads // k.shape[1]
    kv = (t.reshape(sets, t.shape[2], width) for t in (k, v))
    scale = 1 / math.sqrt(width) if scale is None else scale
    o, _ = _attention(q.reshape(sets, group, length, width), *kv, causal, scale, window or 0, deterministic)
    return o.reshape(q.shape)  # type: ignore[no-any-return]


def _kernel(name: str, q: Tensor, k: Tensor, causal: bool, window: int) -> tuple[str, dict[str, int]]:
    """The spec that computes `name`, and the sizes for which it is built; a window of 0 has all keys."""
    sizes = {"GROUP": q.shape[1], "D": q.shape[3]}
    if architecture(q.device) == HOPPER:  # where such loops know their lengths
        sizes |= {"SETS": q.shape[0], "LENGTH": q.shape[2], "KEYS": k.shape[1]}
    if 0 < window < k.shape[1]:
        return f"{name}_window", sizes | {"WINDOW": window}
    return f"{name}{'_causal' * causal}", sizes


@custom_op(f"{NAMESPACE}::attention", mutates_args=())
def _attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float, window: int, deterministic: bool
) -> tuple[Tensor, Tensor]:
    name, sizes = _kernel("attention", q, k, causal, window)
    o, lse = outputs(name, q, k, v, scalars={"scale": scale * math.log2(math.e)}, sizes=sizes)
    return o, lse


@_attention.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float, window: int, deterministic: bool
) -> tuple[Tensor, Tensor]:
    return q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=torch.float32)


@custom_op(f"{NAMESPACE}::attention_backward", mutates_args=())
def _attention_backward(
    go: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    causal: bool,
    scale: float,
    window: int,
    deterministic: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    name, sizes = _kernel("attention_backward", q, k, causal, window)
    if not deterministic and "WINDOW" not in sizes:
        name += "_atomic"
    scalars = {"scale": scale * math.log2(math.e)}
    gq, gk, gv = outputs(name, q, k, v, o, lse, go, scalars=scalars, sizes=sizes)
    return gq, gk, gv


@_attention_backward.register_fake
def _(
    go: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    causal: bool,
    scale: float,
    window: int,
    deterministic: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, *output)


def _gradient(ctx: Any, go: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None, None]:
    return *_attention_backward(go, *ctx.saved_tensors, *ctx.options), None, None, None, None


_attention.register_autograd(_gradient, setup_context=_keep)
