"""Operators of torch, registered with as little as possible between a call and the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

Compute = Callable[..., Any]
below_autograd = torch._C._AutoDispatchBelowAutograd
"""Within it, operators compute and keep nothing for a gradient: what `torch.library` itself uses for that."""
_libraries: dict[str, torch.library.Library] = {}  # what they register goes with them


class Defined(NamedTuple):
    """An operator of torch, and what computes it and keeps what its gradient needs."""

    operator: Compute
    keeping: Compute


def define(schema: str, compute: Compute, rule: Compute, gradient: type[Function] | None = None) -> Defined:
    """Register an operator, `namespace::name(...) -> ...`.

    `rule` makes empty tensors like the results, of fake tensors and of real ones. The `forward` of `gradient` takes
    what the operator takes, and calls it within `below_autograd`; without one, a backward pass raises RuntimeError.
    """
    qualified = schema.partition("(")[0]
    namespace, _, name = qualified.partition("::")
    library = _libraries.setdefault(namespace, torch.library.Library(namespace, "FRAGMENT"))
    library.define(schema[len(namespace) + 2 :], tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(qualified, rule, lib=library)
    packet = getattr(getattr(torch.ops, namespace), name)
    apply = (gradient or _without(qualified, packet.default)).apply

    def wanted(*arguments: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in arguments):
            return apply(*arguments)  # type: ignore[no-untyped-call]
        with below_autograd():
            return packet.default(*arguments)

    library.impl(name, wanted, "Autograd")
    return Defined(packet.default, apply)


def _without(name: str, operator: Compute) -> type[Function]:
    """The gradient of an operator that has none: an error, raised when a backward pass runs."""

    class Refused(Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            ctx.like = [(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in arguments]
            with below_autograd():
                return operator(*arguments)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *slopes: Tensor | None) -> Any:
            slope = next(s for s in slopes if s is not None)  # integer outputs have none
            wanted = zip(ctx.like, ctx.needs_input_grad, strict=True)
            return tuple([_refuse(slope, name, *like) if needed and like else None for like, needed in wanted])

    return Refused


def _raise(slope: Tensor, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    path = name.replace("::", ".")
    raise RuntimeError(f"torch.ops.{path} has no gradient: call it under torch.no_grad()")


def _like(slope: Tensor, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return slope.new_empty(shape, dtype=dtype)


_refusing = torch.library.Library("tkgen_operator", "FRAGMENT")
_refusing.define("no_gradient(Tensor slope, str name, SymInt[] shape, ScalarType dtype) -> Tensor")
_refusing.impl("no_gradient", _raise, "CompositeExplicitAutograd")
torch.library.register_fake("tkgen_operator::no_gradient", _like, lib=_refusing)
_refuse = torch.ops.tkgen_operator.no_gradient.default
"""An operator, so that `torch.compile` traces a backward pass, which raises only where it runs."""
