"""Linear layers of 8-bit floats: quantising rows, and products of what comes of it. For inference: no gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from tkgen.ops.kernels import Choice, Operation, architecture, check, matrices, matrix
from tkgen.targets import known_names, own_fp8

# e4m3 as the matrix instructions of a target encode it: `fp8` of the language.
FP8: dict[str, torch.dtype] = {t: getattr(torch, f"float8_{own_fp8(t)[0]}") for t in known_names() if own_fp8(t)}


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
    return _quantise(x.requires_grad, x, fp8(x))  # type: ignore[no-any-return]


_quantise = Operation(
    "quantise(Tensor x, ScalarType dtype) -> (Tensor, Tensor)",
    lambda x, dtype: (x.new_empty(x.shape, dtype=dtype), x.new_empty(x.shape[:-1], dtype=torch.float32)),
    lambda x, dtype: Choice("quantise_rows", {"D": x.shape[-1]}),
    seen=matrices,
)


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
    wants = any(t.requires_grad for t in (x, weight, x_scale, weight_scale))
    return _scaled_linear(wants, x, weight, x_scale, weight_scale)  # type: ignore[no-any-return]


_scaled_linear = Operation(
    "scaled_linear(Tensor x, Tensor weight, Tensor x_scale, Tensor weight_scale) -> Tensor",
    lambda x, weight, s, t: (x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=torch.bfloat16),),
    "scaled_linear",
    seen=lambda x, weight, s, t: (matrix(x), weight, s.reshape(-1), t),
)
