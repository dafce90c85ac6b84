"""Linear layers of groups of rows, as experts have them: an operator of torch with its gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from tkgen.execute.registered import below_autograd
from tkgen.ops.kernels import Choice, Operation, check


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
    return _grouped_linear(x.requires_grad or weight.requires_grad, offsets, x, weight)  # type: ignore[no-any-return]


class _GroupedLinear(Function):
    @staticmethod
    def forward(ctx: Any, offsets: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, offsets)
        with below_autograd():
            return _grouped_linear.operator(offsets, x, weight)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        x, weight, offsets = ctx.saved_tensors
        return (
            None,
            _grouped_linear_input(True, offsets, gy, weight) if ctx.needs_input_grad[1] else None,
            _grouped_linear_weight(True, offsets, gy, x) if ctx.needs_input_grad[2] else None,
        )


def _sizes(weight: Tensor) -> dict[str, int]:
    return dict(zip(("GROUPS", "OUT", "IN"), weight.shape, strict=True))


_grouped_linear = Operation(
    "grouped_linear(Tensor offsets, Tensor x, Tensor weight) -> Tensor",
    lambda offsets, x, weight: (x.new_empty((x.shape[0], weight.shape[1])),),
    lambda offsets, x, weight: Choice("grouped_linear", _sizes(weight)),
    _GroupedLinear,
)
_grouped_linear_input = Operation(
    "grouped_linear_input(Tensor offsets, Tensor gy, Tensor weight) -> Tensor",
    lambda offsets, gy, weight: (gy.new_empty((gy.shape[0], weight.shape[2])),),
    lambda offsets, gy, weight: Choice("grouped_linear_input", _sizes(weight)),
)
_grouped_linear_weight = Operation(
    "grouped_linear_weight(Tensor offsets, Tensor gy, Tensor x) -> Tensor",
    lambda offsets, gy, x: (gy.new_empty((offsets.shape[0] - 1, gy.shape[1], x.shape[1])),),
    lambda offsets, gy, x: Choice(
        "grouped_linear_weight", {"GROUPS": offsets.shape[0] - 1, "OUT": gy.shape[1], "IN": x.shape[1]}
    ),
)  # fmt: skip
