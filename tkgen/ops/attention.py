"""Softmax attention: an operator of torch with its gradient."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from tkgen.execute.registered import below_autograd
from tkgen.ops.kernels import HOPPER, Choice, Operation, architecture, check


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
    window, and of as many heads to a head of keys (on Hopper, of as many heads of both). D is a multiple of 16, 256 at
    most. Its gradients have the same bits in every run; without `deterministic` blocks may add up that of q in any
    order, which takes fewer products: the scores are computed once (but in windows, and where D is above 128).

    Raises:
        ValueError: tensors that are not bf16 or whose shapes do not go together, a window without `causal`; on Hopper,
            in a window, 128 queries that see no key.
        SpecError: a D for which the kernel cannot be built.
    """
    check("attention", q=q, k=k, v=v)
    if q.dim() != 4 or k.dim() != 4 or k.shape != v.shape or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        shapes = ", ".join(str([*t.shape]) for t in (q, k, v))
        raise ValueError(f"attention: q, k and v of {shapes} do not go together")
    heads, width = q.shape[1], q.shape[3]
    if not k.shape[1] or heads % k.shape[1]:
        raise ValueError(f"attention: {heads} heads of queries cannot share {k.shape[1]} heads of keys")
    if window is not None and (not causal or window < 1):
        raise ValueError(f"attention: a window of {window} keys{' without `causal`' if not causal else ''}")
    if not width:
        raise ValueError("attention: heads without an element")
    wants = q.requires_grad or k.requires_grad or v.requires_grad
    scale = 1 / math.sqrt(width) if scale is None else scale
    return _attention(wants, q, k, v, scale * math.log2(math.e), causal, window or 0, deterministic)[0]  # type: ignore[no-any-return]


class _Attention(Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
        with below_autograd():
            o, lse = _attention.operator(q, k, v, *options)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.options = options
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    def backward(ctx: Any, go: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        slopes = (None, None, None) if go is None else _attention_backward(True, *ctx.saved_tensors, go, *ctx.options)
        return *slopes, None, None, None, None


def _kernel(name: str, q: Tensor, k: Tensor, causal: bool, window: int) -> Choice:
    """The spec that computes `name`, and the sizes for which it is built; a window of 0 has all keys."""
    (_, heads, _, width), (_, shared, keys, _) = q.shape, k.shape
    sizes = {"GROUP": heads // shared, "D": width}
    if architecture(q.device) == HOPPER:  # whose tiles leave room for wide heads in shared memory
        tile = (128, 128) if width <= 128 else (128, 64) if width <= 192 else (64, 64)
        sizes = {"HEADS": heads, "KV_HEADS": shared, "QUERIES": tile[0], "BLOCK": tile[1], "D": width}
    if 0 < window < keys:
        return Choice(f"{name}_window", sizes | {"WINDOW": window})
    return Choice(f"{name}{'_causal' * causal}", sizes)


def _forward(q: Tensor, k: Tensor, v: Tensor, *options: Any) -> Choice:
    causal, window, _ = options
    return _kernel("attention", q, k, causal, window)


def _backward(q: Tensor, k: Tensor, *given: Any) -> Choice:
    *_, causal, window, deterministic = given
    found = _kernel("attention_backward", q, k, causal, window)
    plain = deterministic or "WINDOW" in found.defines
    return found if plain else replace(found, spec=f"{found.spec}_atomic")


def _by_heads_of_keys(q: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """The tensors as AMD's kernels take them: queries in [SETS, GROUP, LENGTH, D], keys in [SETS, KEYS, D]."""
    if architecture(q.device) == HOPPER:
        return (q, k, v, *others)
    sets, group = k.shape[0] * k.shape[1], q.shape[1] // k.shape[1]
    keys = (t.reshape(sets, *t.shape[2:]) for t in (k, v))
    queries = (t.reshape(sets, group, *t.shape[2:]) for t in (q, *others))
    return next(queries), *keys, *queries


_attention = Operation(
    "attention(Tensor q, Tensor k, Tensor v, float scale, bool causal, int window, bool deterministic) "
    "-> (Tensor, Tensor)",
    lambda q, *_: (q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=torch.float32)),
    _forward,
    _Attention,
    seen=_by_heads_of_keys,
)
_attention_backward = Operation(
    "attention_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor go, float scale, bool causal, "
    "int window, bool deterministic) -> (Tensor, Tensor, Tensor)",
    lambda q, k, v, *_: (q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)),
    _backward,
    seen=_by_heads_of_keys,
)
