"""Linear layers of 8-bit floats: quantising rows, and products of what comes of it. For inference: no gradients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import custom_op

from tkgen.ops.kernels import HOPPER, NAMESPACE, architecture, check, compute, outputs

# e4m3 as the matrix instructions of a target encode it: `fp8` of the language.
FP8 = {"gfx942": torch.float8_e4m3fnuz, "gfx950": torch.float8_e4m3fn, HOPPER: torch.float8_e4m3fn}


def fp8(x: Tensor) -> torch.dtype:
    """The 8-bit float type of the GPU that computes a tensor like `x`.

    Raises:
        ValueError: it has none.
    """
    target = architecture(x.device)
    if target not in FP8:
        raise ValueError(f"{target} has no products of 8-bit floats; {', '.join(FP8)} have")
    return FP8[target]


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of x, [..., D], as 8-bit floats of the GPU and a scale for each row, f32: x is about q * scale[..., None].

    Raises:
        ValueError: an x that is not bf16, or a GPU without 8-bit floats.
        SpecError: rows that are too long for a block's registers.
    """
    check("quantise", x=x)
    q, scale = _quantise(x.reshape(-1, x.shape[-1]), fp8(x))
    return q.reshape(x.shape), scale.reshape(x.shape[:-1])


@custom_op(f"{NAMESPACE}::quantise", mutates_args=())
def _quantise(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    q, scale = outputs("quantise_rows", x, sizes={"D": x.shape[1]})
    return q, scale


@_quantise.register_fake
def _(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape, dtype=dtype), x.new_empty(x.shape[0], dtype=torch.float32)


def scaled_linear(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    """(x_scale x) (weight_scale weight)ᵀ in bf16: [..., IN] and [OUT, IN] of 8-bit floats, with a scale for each row.

    `tkgen.fp8.convert` turns a checkpoint's encoding into another GPU's.

    Raises:
        ValueError: operands that are not of the GPU's 8-bit float type, scales that are not f32, shapes that do not go
            together.
    """
    wanted = fp8(x)
    for name, tensor in (("x", x), ("weight", weight)):
        if tensor.dtype is not wanted:
            raise ValueError(f"scaled_linear: {name} is {wanted}, not {tensor.dtype}: see tkgen.fp8.convert")
    for name, tensor, rows in (("x_scale", x_scale, x.shape[:-1]), ("weight_scale", weight_scale, weight.shape[:1])):
        if tensor.dtype is not torch.float32 or tensor.shape != rows:
            raise ValueError(f"scaled_linear: {name} is f32 of {[*rows]}, not {tensor.dtype} of {[*tensor.shape]}")
    if weight.dim() != 2 or x.shape[-1:] != weight.shape[1:]:
        raise ValueError(f"scaled_linear: x of {[*x.shape]} and a weight of {[*weight.shape]} do not go together")
    y = _scaled_linear(x.reshape(-1, x.shape[-1]), weight, x_scale.reshape(-1), weight_scale)
    return y.reshape(*x.shape[:-1], weight.shape[0])  # type: ignore[no-any-return]


@custom_op(f"{NAMESPACE}::scaled_linear", mutates_args=())
def _scaled_linear(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    return compute("scaled_linear", x, weight, x_scale, weight_scale)


@_scaled_linear.register_fake
def _(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0], dtype=torch.bfloat16)
