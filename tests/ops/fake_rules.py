"""Operators of torch beside their fake-tensor rules, and inputs with every kind of strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda t: t,
    "columns first": lambda t: t.mT.contiguous().mT if t.dim() > 1 else t,
    "second dimension first": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1) if t.dim() > 1 else t,
    "third dimension second": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2) if t.dim() > 2 else t,
    "part of wider rows": lambda t: F.pad(t, (8, 8))[..., 8:-8],
    "every second": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "one repeated": lambda t: t[:1].expand(t.shape),
    "behind an odd offset": lambda t: torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape),
}


class Compared(TorchDispatchMode):
    """Within it, calls of tkgen's operators are compared with their fake rules; `names` are those that were called.

    Also, inputs keep their values, and no result shares memory with an input.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator, with its rule beside it if it is one of tkgen's."""
        if not func.namespace.startswith("tkgen"):
            return func(*args, **(kwargs or {}))
        self.names.append(func.name().partition("::")[2])
        before = [a.clone() for a in args if isinstance(a, Tensor)]
        found = func(*args, **(kwargs or {}))
        with FakeTensorMode() as mode:
            fake = func(*tree_map_only(Tensor, mode.from_tensor, args), **(kwargs or {}))
        for place, (real, ruled) in enumerate(zip(tree_leaves(found), tree_leaves(fake), strict=True)):
            assert described(ruled) == described(real), f"{func.name()}, result {place}"
        inputs = [a for a in args if isinstance(a, Tensor)]
        assert all(same_bits(a, b) for a, b in zip(inputs, before, strict=True)), f"{func.name()} wrote an input"
        places = {a.untyped_storage().data_ptr() for a in inputs} - {0}  # of what has no element
        assert not any(r.untyped_storage().data_ptr() in places for r in tree_leaves(found)), func.name()
        return found


def described(t: Tensor) -> tuple[object, ...]:
    return t.shape, t.stride(), t.storage_offset(), t.dtype, t.device, t.layout


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def with_gradients(
    function: Callable[..., Any], given: Sequence[Tensor], view: Callable[[Tensor], Tensor]
) -> list[Tensor]:
    """The results, and the gradients of all inputs that want one, for one random gradient in the view's strides."""
    learned = [t.detach().requires_grad_(t.requires_grad) for t in given]
    result = function(*learned)
    results = list(result) if isinstance(result, tuple) else [result]
    if not results[0].requires_grad:
        return results
    generator = torch.Generator().manual_seed(9)
    slope = torch.randn(results[0].shape, generator=generator).bfloat16().to(results[0].dtype)
    results[0].backward(view(slope))
    return [r.detach() for r in results] + [t.grad for t in learned if t.grad is not None]
