"""Linear layers of groups of rows, as experts have them: an operator of torch with the gradient of its input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from tkgen.ops.kernels import NAMESPACE, check, compute


def grouped_linear(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """x weight[g]ᵀ for the rows offsets[g] to offsets[g + 1] of x: [TOKENS, IN] and [GROUPS, OUT, IN] to [TOKENS, OUT].

    `offsets` is [GROUPS + 1], int32, from 0 to TOKENS; a group may be empty. The weights get no gradient.

    Raises:
        ValueError: tensors that are not bf16, shapes that do not go together, offsets on the CPU that decrease or leave
            the rows (on a GPU the kernel stays within bounds, whatever they hold).
        RuntimeError: in a backward pass that asks for the weights' gradient.
    """
    check("grouped_linear", x=x, weight=weight)
    if x.dim() != 2 or weight.dim() != 3 or x.shape[1] != weight.shape[2]:
        raise ValueError(f"grouped_linear: x of {[*x.shape]} and weights of {[*weight.shape]} do not go together")
    if offsets.dtype is not torch.int32 or offsets.shape != (len(weight) + 1,):
        found = f"{offsets.dtype} of {[*offsets.shape]}"
        raise ValueError(f"grouped_linear: offsets are int32 of {[len(weight) + 1]}, not {found}")
    return _grouped_linear(x, weight, offsets)  # type: ignore[no-any-return]


def _sizes(weight: Tensor) -> dict[str, int]:
    return dict(zip(("GROUPS", "OUT", "IN"), weight.shape, strict=True))


@custom_op(f"{NAMESPACE}::grouped_linear", mutates_args=())
def _grouped_linear(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    return compute("grouped_linear", offsets, x, weight, sizes=_sizes(weight))


@_grouped_linear.register_fake
def _(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[1])


@custom_op(f"{NAMESPACE}::grouped_linear_input", mutates_args=())
def _grouped_linear_input(gy: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    return compute("grouped_linear_input", offsets, gy, weight, sizes=_sizes(weight))


@_grouped_linear_input.register_fake
def _(gy: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    return gy.new_empty(gy.shape[0], weight.shape[2])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, weight, offsets = inputs
    ctx.save_for_backward(weight, offsets)


def _gradient(ctx: Any, gy: Tensor) -> tuple[Tensor, None, None]:
    if ctx.needs_input_grad[1]:
        raise RuntimeError("grouped_linear has no gradient of its weights: detach them")
    return _grouped_linear_input(gy, *ctx.saved_tensors), None, None


_grouped_linear.register_autograd(_gradient, setup_context=_keep)
