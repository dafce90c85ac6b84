"""Linear layers of groups of rows, as experts have them: an operator of torch with its gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from tkgen.ops.kernels import NAMESPACE, check, compute


def grouped_linear(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """x weight[g]ᵀ for the rows offsets[g] to offsets[g + 1] of x: [TOKENS, IN] and [GROUPS, OUT, IN] to [TOKENS, OUT].

    `offsets` is [GROUPS + 1], int32, from 0 to TOKENS; a group may be empty: its weights have a gradient of zero.

    Raises:
        ValueError: tensors that are not bf16, shapes that do not go together, offsets on the CPU that decrease or leave
            the rows (on a GPU the kernel stays within bounds, whatever they hold).
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


@custom_op(f"{NAMESPACE}::grouped_linear_weight", mutates_args=())
def _grouped_linear_weight(gy: Tensor, x: Tensor, offsets: Tensor) -> Tensor:
    sizes = {"GROUPS": len(offsets) - 1, "OUT": gy.shape[1], "IN": x.shape[1]}
    return compute("grouped_linear_weight", offsets, gy, x, sizes=sizes)


@_grouped_linear_weight.register_fake
def _(gy: Tensor, x: Tensor, offsets: Tensor) -> Tensor:
    return gy.new_empty(offsets.shape[0] - 1, gy.shape[1], x.shape[1])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _gradient(ctx: Any, gy: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    x, weight, offsets = ctx.saved_tensors
    of_input, of_weight = ctx.needs_input_grad[:2]
    return (
        _grouped_linear_input(gy, weight, offsets) if of_input else None,
        _grouped_linear_weight(gy, x, offsets) if of_weight else None,
        None,
    )


_grouped_linear.register_autograd(_gradient, setup_context=_keep)
