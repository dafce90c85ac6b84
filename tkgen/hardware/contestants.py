"""The bar kernels, and the same operations of torch, its libraries and Triton on tensors of the GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Tensors = Mapping[str, Any]
Operation = Callable[[Tensors], Any]
Launch = Callable[[], object]

_TRITON: Final = ((256, 256, 64, 8, 2), (128, 256, 64, 8, 2), (128, 128, 64, 4, 2), (256, 128, 32, 8, 2))
"""Rows, columns and K-step of a block, warps, stages: those that tuned products of Triton have on AMD's GPUs."""


@dataclass(frozen=True)
class BarKernel:
    """A kernel that is timed: its spec, sizes, and what torch has for it.

    `error` is the largest distance from torch in f32, by norms. `product` tells that it is A times B transposed.
    """

    spec: str
    sizes: Sequence[Mapping[str, int]]
    torch: Operation
    output: str
    error: float = 2.0**-6
    product: bool = False
    scaled: bool = field(default=False)  # factors of 8 bits, which torch multiplies by another function


def product(t: Tensors) -> Any:
    """A times B transposed."""
    return t["A"] @ t["B"].T


def attention(t: Tensors) -> Any:
    """Attention of tensors with heads first."""
    import torch.nn.functional as F

    return F.scaled_dot_product_attention(t["Q"], t["K"], t["V"])


def causal_attention(t: Tensors) -> Any:
    """Causal attention of tensors with positions first, and heads of keys that several heads of queries share."""
    import torch.nn.functional as F

    q, k, v = (t[name].transpose(1, 2) for name in "QKV")
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)


def layer_norm(t: Tensors) -> Any:
    """Layer normalisation."""
    import torch.nn.functional as F

    return F.layer_norm(t["X"], t["W"].shape, t["W"], t["B"], 1e-5)


def softmax(t: Tensors) -> Any:
    """Softmax of rows."""
    return t["X"].softmax(-1)


_SQUARES: Final = tuple({"M": n, "N": n, "K": n} for n in (4096, 8192))
_LONG: Final = ({"LENGTH": 2048}, {"LENGTH": 8192})
BARS: Final = (
    BarKernel("eight_wave", _SQUARES, product, "C", product=True),
    BarKernel("ping_pong", _SQUARES, product, "C", product=True),
    BarKernel("hk_ping_pong", _SQUARES, product, "C", product=True),
    BarKernel("low_precision/fp8", _SQUARES, product, "C", product=True, scaled=True),
    BarKernel("attention/attention", _LONG, attention, "O"),
    BarKernel("attention/attention_ping_pong", _LONG, attention, "O"),
    BarKernel("attention/attention_ping_pong_direct", _LONG, attention, "O"),
    BarKernel("attention/attention_causal", ({"LENGTH": 2048}, {"LENGTH": 8192}), causal_attention, "O"),
    BarKernel("rows/layernorm", ({"TOKENS": 32768},), layer_norm, "Y"),
    BarKernel("rows/softmax", ({"ROWS": 32768},), softmax, "Y"),
)


def others(bar: BarKernel, torch: Any) -> dict[str, Callable[[Tensors], Launch]]:
    """Contestants beside tkgen's kernel: functions that prepare a launch on tensors of the GPU, by name."""
    found: dict[str, Callable[[Tensors], Launch]] = {}
    if bar.scaled:
        found["torch._scaled_mm"] = lambda t: _scaled(torch, t)
    elif bar.product:
        found["hipBLASLt"] = lambda t: _by_library(torch, t, "cublaslt")
        found["rocBLAS"] = lambda t: _by_library(torch, t, "cublas")
    else:
        found["torch"] = lambda t: lambda: bar.torch(t)
    if importlib.util.find_spec("triton") is not None:
        if bar.product and not bar.scaled:
            found |= {f"Triton {' '.join(map(str, c))}": _triton(c) for c in _TRITON}
        if bar.spec.startswith("rows/"):
            compiled = torch.compile(bar.torch)
            found["torch.compile"] = lambda t: lambda: compiled(t)
    return found


def _by_library(torch: Any, t: Tensors, library: str) -> Launch:
    """torch's product by one of its libraries; under ROCm it calls hipBLASLt and rocBLAS by the names of CUDA's.

    Its output is bf16, as torch has no other for these factors everywhere.
    """
    out = torch.empty(t["A"].shape[0], t["B"].shape[0], dtype=t["A"].dtype, device=t["A"].device)
    right = t["B"].T

    def launch() -> None:
        torch.backends.cuda.preferred_blas_library(library)
        torch.matmul(t["A"], right, out=out)

    return launch


def _scaled(torch: Any, t: Tensors) -> Launch:
    one = torch.ones((), device=t["A"].device)
    right = t["B"].T
    return lambda: torch._scaled_mm(t["A"], right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _triton(configuration: tuple[int, int, int, int, int]) -> Callable[[Tensors], Launch]:
    def prepared(t: Tensors) -> Launch:
        from tkgen.hardware.triton_product import start

        return start(t["A"], t["B"].T, t["C"].clone(), configuration)

    return prepared
