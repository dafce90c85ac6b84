"""Linear layers, norms, rotary embeddings, gated MLPs: operators of torch with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from tkgen.execute.registered import below_autograd
from tkgen.ops.kernels import Choice, Choose, Operation, check, matrices, matrix
from tkgen.ops.products import product

# ---------------------------------------------------------------- linear


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x weightᵀ: [..., IN] and [OUT, IN] to [..., OUT], as torch.nn.functional.linear without bias.

    Raises:
        ValueError: tensors that are not bf16 or whose shapes do not go together.
    """
    check("linear", x=x, weight=weight)
    if weight.dim() != 2 or x.shape[-1:] != weight.shape[1:]:
        raise ValueError(f"linear: x of {[*x.shape]} and a weight of {[*weight.shape]} do not go together")
    return _linear(x.requires_grad or weight.requires_grad, x, weight)  # type: ignore[no-any-return]


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        with below_autograd():
            return _linear.operator(x, weight)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        return (
            _linear_input(True, gy, weight) if ctx.needs_input_grad[0] else None,
            _linear_weight(True, gy, x) if ctx.needs_input_grad[1] else None,
        )


_linear = Operation(
    "linear(Tensor x, Tensor weight) -> Tensor",
    lambda x, weight: (x.new_empty((*x.shape[:-1], weight.shape[0])),),
    lambda x, weight: product("linear", matrix(x), weight, along=True),
    _Linear,
    matrices,
)
_linear_input = Operation(
    "linear_input(Tensor gy, Tensor weight) -> Tensor",
    lambda gy, weight: (gy.new_empty((*gy.shape[:-1], weight.shape[1])),),
    lambda gy, weight: product("linear_input", matrix(gy), weight),
    seen=matrices,
)
_linear_weight = Operation(
    "linear_weight(Tensor gy, Tensor x) -> Tensor",
    lambda gy, x: (gy.new_empty((gy.shape[-1], x.shape[-1])),),
    lambda gy, x: product("linear_weight", matrix(gy), matrix(x), transposed=True),
    seen=matrices,
)

# ---------------------------------------------------------------- matmul


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """a b: [..., K] and [K, N] to [..., N], as torch.matmul. A transposed `b` is taken as it is, without a copy.

    Raises:
        ValueError: tensors that are not bf16 or whose shapes do not go together.
    """
    check("matmul", a=a, b=b)
    if b.dim() != 2 or a.shape[-1:] != b.shape[:1]:
        raise ValueError(f"matmul: a of {[*a.shape]} and b of {[*b.shape]} do not go together")
    if b.stride(0) == 1 and b.stride(1) != 1:
        return linear(a, b.T)
    return _matmul(a.requires_grad or b.requires_grad, a, b)  # type: ignore[no-any-return]


class _Matmul(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        with below_autograd():
            return _matmul.operator(a, b)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        return (
            _linear(True, gy, b) if ctx.needs_input_grad[0] else None,
            _linear_weight(True, a, gy) if ctx.needs_input_grad[1] else None,
        )


_matmul = Operation(
    "matmul(Tensor a, Tensor b) -> Tensor",
    lambda a, b: (a.new_empty((*a.shape[:-1], b.shape[1])),),
    lambda a, b: product("linear_input", matrix(a), b),
    _Matmul,
    matrices,
)

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
    return _rmsnorm(x.requires_grad or weight.requires_grad, x, weight, eps)[0]  # type: ignore[no-any-return]


class _RmsNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        with below_autograd():
            y, r = _rmsnorm.operator(x, weight, eps)
        ctx.save_for_backward(x, weight, r)
        ctx.mark_non_differentiable(r)
        ctx.set_materialize_grads(False)
        return y, r

    @staticmethod
    def backward(ctx: Any, gy: Tensor | None, _: None) -> tuple[Tensor | None, Tensor | None, None]:
        if gy is None:
            return None, None, None
        x, weight, r = ctx.saved_tensors
        return (
            _rmsnorm_input(True, x, weight, r, gy) if ctx.needs_input_grad[0] else None,
            _rmsnorm_weight(True, x, r, gy) if ctx.needs_input_grad[1] else None,
            None,
        )


_rmsnorm = Operation(
    "rmsnorm(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)",
    lambda x, weight, eps: (x.new_empty(x.shape), x.new_empty(x.shape[:-1], dtype=torch.float32)),
    lambda x, weight: Choice("rmsnorm", {"D": x.shape[-1]}),
    _RmsNorm,
    lambda x, weight: (matrix(x), weight),
)
_rmsnorm_input = Operation(
    "rmsnorm_input(Tensor x, Tensor weight, Tensor r, Tensor gy) -> Tensor",
    lambda x, weight, r, gy: (x.new_empty(x.shape),),
    lambda x, weight, r, gy: Choice("rmsnorm_input", {"D": x.shape[-1]}),
    seen=lambda x, weight, r, gy: (matrix(x), weight, r.reshape(-1), matrix(gy)),
)
_rmsnorm_weight = Operation(
    "rmsnorm_weight(Tensor x, Tensor r, Tensor gy) -> Tensor",
    lambda x, r, gy: (x.new_empty(x.shape[-1:]),),
    lambda x, r, gy: Choice("rmsnorm_weight", {"D": x.shape[-1]}),
    seen=lambda x, r, gy: (matrix(x), r.reshape(-1), matrix(gy)),
)

# ---------------------------------------------------------------- rotary


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of [BATCH, HEADS, LENGTH, D], as of `attention`, by f32 tables of [LENGTH, D / 2].

    The first half of each head is rotated against the second: (a cos - b sin, b cos + a sin). Tables get no gradient.
    The result has its heads after the length in memory where x has them there.

    Raises:
        ValueError: an x that is not bf16, tables that are not f32, shapes that do not go together.
    """
    check("rotary", x=x)
    if x.dim() != 4 or x.shape[-1] % 2:
        raise ValueError(f"rotary: x is [BATCH, HEADS, LENGTH, D] with an even D, not {[*x.shape]}")
    _, _, length, width = x.shape
    for name, table in (("cos", cos), ("sin", sin)):
        if table.shape != (length, width // 2) or table.dtype is not torch.float32:
            raise ValueError(f"rotary: {name} is f32 of {[length, width // 2]}, not {table.dtype} of {[*table.shape]}")
    by_place = x.transpose(1, 2)
    if x.stride(1) < x.stride(2):
        return _rotary_by_place(x.requires_grad, by_place, cos, sin, 1.0).transpose(1, 2)  # type: ignore[no-any-return]
    return _rotary(x.requires_grad, x, cos, sin, 1.0)  # type: ignore[no-any-return]


def _heads(x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The heads of all sequences in one dimension, and their halves in another."""
    batch, heads, length, width = x.shape
    return x.reshape(batch * heads, length, 2, width // 2), cos, sin


def _places(x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The places of all sequences in one dimension, with tables for each, and the halves of heads in another."""
    batch, length, heads, width = x.shape
    if batch != 1:
        cos, sin = cos.repeat(batch, 1), sin.repeat(batch, 1)
    return x.reshape(batch * length, heads, 2, width // 2), cos, sin


def _rotation(name: str, choose: Choose, seen: Callable[..., tuple[Tensor, ...]]) -> Operation:
    """The operator for one order of the dimensions in memory."""

    class Rotary(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor, turn: float) -> Tensor:
            ctx.save_for_backward(cos, sin)
            ctx.turn = turn
            with below_autograd():
                return operation.operator(x, cos, sin, turn)  # type: ignore[no-any-return]

        @staticmethod
        def backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, None, None, None]:
            back = operation(True, gy, *ctx.saved_tensors, -ctx.turn) if ctx.needs_input_grad[0] else None
            return back, None, None, None

    schema = f"{name}(Tensor x, Tensor cos, Tensor sin, float turn) -> Tensor"
    operation = Operation(schema, lambda x, cos, sin, turn: (x.new_empty(x.shape),), choose, Rotary, seen)
    return operation


_rotary = _rotation("rotary", lambda x, cos, sin: Choice("rotary", {"HALF": x.shape[3] // 2}), _heads)
_rotary_by_place = _rotation(
    "rotary_by_place",
    lambda x, cos, sin: Choice("rotary_by_place", {"HEADS": x.shape[2], "HALF": x.shape[3] // 2}),
    _places,
)

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
    wants = x.requires_grad or gate.requires_grad or up.requires_grad
    return _swiglu(wants, x, gate, up)[2]  # type: ignore[no-any-return]


class _Swiglu(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with below_autograd():
            g, u, y = _swiglu.operator(x, gate, up)
        ctx.save_for_backward(x, gate, up, g, u)
        ctx.mark_non_differentiable(g, u)
        ctx.set_materialize_grads(False)
        return g, u, y

    @staticmethod
    def backward(ctx: Any, _: None, __: None, gy: Tensor | None) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        if gy is None:
            return None, None, None
        x, gate, up, g, u = ctx.saved_tensors
        gg, gu = _swiglu_products(True, g, u, gy)
        of_x, of_gate, of_up = ctx.needs_input_grad
        return (
            _linear_input(True, gg, gate) + _linear_input(True, gu, up) if of_x else None,
            _linear_weight(True, gg, x) if of_gate else None,
            _linear_weight(True, gu, x) if of_up else None,
        )


_swiglu = Operation(
    "swiglu(Tensor x, Tensor gate, Tensor up) -> (Tensor, Tensor, Tensor)",
    lambda x, gate, up: tuple([x.new_empty((*x.shape[:-1], gate.shape[0])) for _ in range(3)]),
    "swiglu",
    _Swiglu,
    matrices,
)
_swiglu_products = Operation(
    "swiglu_products(Tensor g, Tensor u, Tensor gy) -> (Tensor, Tensor)",
    lambda g, u, gy: (g.new_empty(g.shape), u.new_empty(u.shape)),
    "swiglu_products",
    seen=matrices,
)
