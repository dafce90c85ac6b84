"""Linear layers, norms, rotary embeddings, gated MLPs: operators of torch with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from tkgen.ops.kernels import NAMESPACE, check, compute, outputs

# ---------------------------------------------------------------- linear


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x weightᵀ: [..., IN] and [OUT, IN] to [..., OUT], as torch.nn.functional.linear without bias.

    Raises:
        ValueError: tensors that are not bf16 or whose shapes do not go together.
    """
    check("linear", x=x, weight=weight)
    if weight.dim() != 2 or x.shape[-1:] != weight.shape[1:]:
        raise ValueError(f"linear: x of {[*x.shape]} and a weight of {[*weight.shape]} do not go together")
    return _linear(x.reshape(-1, x.shape[-1]), weight).reshape(*x.shape[:-1], weight.shape[0])  # type: ignore[no-any-return]


@custom_op(f"{NAMESPACE}::linear", mutates_args=())
def _linear(x: Tensor, weight: Tensor) -> Tensor:
    return compute("linear", x, weight)


@_linear.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


@custom_op(f"{NAMESPACE}::linear_backward", mutates_args=())
def _linear_backward(gy: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return compute("linear_input", gy, weight), compute("linear_weight", gy, x)


@_linear_backward.register_fake
def _(gy: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def _keep_linear(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _linear_gradient(ctx: Any, gy: Tensor) -> tuple[Tensor, Tensor]:
    return _linear_backward(gy, *ctx.saved_tensors)  # type: ignore[no-any-return]


_linear.register_autograd(_linear_gradient, setup_context=_keep_linear)

# ---------------------------------------------------------------- rmsnorm


def rmsnorm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """weight x / sqrt(mean(x²) + eps) over the last dimension: [..., D] and [D], as torch.nn.functional.rms_norm.

    Raises:
        ValueError: tensors that are not bf16 or whose shapes do not go together.
        SpecError: rows that are too long for a block's registers (more than 16384).
    """
    check("rmsnorm", x=x, weight=weight)
    if weight.shape != x.shape[-1:]:
        raise ValueError(f"rmsnorm: x of {[*x.shape]} and a weight of {[*weight.shape]} do not go together")
    y, _ = _rmsnorm(x.reshape(-1, x.shape[-1]), weight, eps)
    return y.reshape(x.shape)  # type: ignore[no-any-return]


@custom_op(f"{NAMESPACE}::rmsnorm", mutates_args=())
def _rmsnorm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    y, r = outputs("rmsnorm", x, weight, sizes={"D": x.shape[1]}, scalars={"eps": eps})
    return y, r


@_rmsnorm.register_fake
def _(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape[0], dtype=torch.float32)


@custom_op(f"{NAMESPACE}::rmsnorm_backward", mutates_args=())
def _rmsnorm_backward(gy: Tensor, x: Tensor, weight: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    sizes = {"D": x.shape[1]}
    return compute("rmsnorm_input", x, weight, r, gy, sizes=sizes), compute("rmsnorm_weight", x, r, gy, sizes=sizes)


@_rmsnorm_backward.register_fake
def _(gy: Tensor, x: Tensor, weight: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def _keep_rmsnorm(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight, output[1])


def _rmsnorm_gradient(ctx: Any, gy: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None]:
    gx, gw = _rmsnorm_backward(gy, *ctx.saved_tensors)
    return gx, gw, None


_rmsnorm.register_autograd(_rmsnorm_gradient, setup_context=_keep_rmsnorm)

# ---------------------------------------------------------------- rotary


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of [BATCH, LENGTH, HEADS, D] by tables of [LENGTH, D / 2], f32.

    The first half of each head is rotated against the second: (a cos - b sin, b cos + a sin). Tables get no gradient.

    Raises:
        ValueError: an x that is not bf16, tables that are not f32, shapes that do not go together.
    """
    check("rotary", x=x)
    if x.dim() != 4 or x.shape[-1] % 2:
        raise ValueError(f"rotary: x is [BATCH, LENGTH, HEADS, D] with an even D, not {[*x.shape]}")
    batch, length, heads, width = x.shape
    for name, table in (("cos", cos), ("sin", sin)):
        if table.shape != (length, width // 2) or table.dtype is not torch.float32:
            raise ValueError(f"rotary: {name} is f32 of {[length, width // 2]}, not {table.dtype} of {[*table.shape]}")
    tables = (table.repeat(batch, 1) if batch > 1 else table for table in (cos, sin))
    return _rotary(x.reshape(batch * length, heads, 2, width // 2), *tables, 1.0).reshape(x.shape)  # type: ignore[no-any-return]


@custom_op(f"{NAMESPACE}::rotary", mutates_args=())
def _rotary(x: Tensor, cos: Tensor, sin: Tensor, turn: float) -> Tensor:
    return compute("rotary", x, cos, sin, sizes={"HEADS": x.shape[1], "HALF": x.shape[3]}, scalars={"turn": turn})


@_rotary.register_fake
def _(x: Tensor, cos: Tensor, sin: Tensor, turn: float) -> Tensor:
    return x.new_empty(x.shape)


def _keep_rotary(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, cos, sin, ctx.turn = inputs
    ctx.save_for_backward(cos, sin)


def _rotary_gradient(ctx: Any, gy: Tensor) -> tuple[Tensor, None, None, None]:
    return _rotary(gy, *ctx.saved_tensors, -ctx.turn), None, None, None


_rotary.register_autograd(_rotary_gradient, setup_context=_keep_rotary)

# ---------------------------------------------------------------- swiglu


def swiglu(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    """silu(x gateᵀ) * (x upᵀ): [..., IN] and two of [HIDDEN, IN] to [..., HIDDEN], both products in one kernel.

    Raises:
        ValueError: tensors that are not bf16 or whose shapes do not go together.
    """
    check("swiglu", x=x, gate=gate, up=up)
    if gate.dim() != 2 or gate.shape != up.shape or x.shape[-1:] != gate.shape[1:]:
        shapes = ", ".join(str([*t.shape]) for t in (x, gate, up))
        raise ValueError(f"swiglu: x, gate and up of {shapes} do not go together")
    *_, y = _swiglu(x.reshape(-1, x.shape[-1]), gate, up)
    return y.reshape(*x.shape[:-1], gate.shape[0])  # type: ignore[no-any-return]


@custom_op(f"{NAMESPACE}::swiglu", mutates_args=())
def _swiglu(x: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    g, u, y = outputs("swiglu", x, gate, up)
    return g, u, y


@_swiglu.register_fake
def _(x: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    g, u, y = (x.new_empty(x.shape[0], gate.shape[0]) for _ in range(3))
    return g, u, y


@custom_op(f"{NAMESPACE}::swiglu_backward", mutates_args=())
def _swiglu_backward(
    gy: Tensor, x: Tensor, gate: Tensor, up: Tensor, g: Tensor, u: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    gg, gu = outputs("swiglu_products", g, u, gy)
    gx = compute("linear_input", gg, gate) + compute("linear_input", gu, up)
    return gx, compute("linear_weight", gg, x), compute("linear_weight", gu, x)


@_swiglu_backward.register_fake
def _(gy: Tensor, x: Tensor, gate: Tensor, up: Tensor, g: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), gate.new_empty(gate.shape), up.new_empty(up.shape)


def _keep_swiglu(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    g, u, _ = output
    ctx.save_for_backward(*inputs, g, u)


def _swiglu_gradient(ctx: Any, _: Tensor, __: Tensor, gy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _swiglu_backward(gy, *ctx.saved_tensors)  # type: ignore[no-any-return]


_swiglu.register_autograd(_swiglu_gradient, setup_context=_keep_swiglu)
