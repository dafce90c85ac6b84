"""Specs beside this file mean what torch computes, at sizes that no tile divides."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tkgen.ir.equations import Kernel
from tkgen.ir.meaning import Result, evaluate
from tkgen.ir.typing import typed
from tkgen.syntax.parser import parse_path

TORCH = {"bf16": torch.bfloat16, "f32": torch.float32}


def kernel(name: str, **sizes: int) -> Kernel:
    return typed(parse_path(Path(__file__).parent / f"{name}.tk"), sizes).kernel


def drawn(of: Kernel) -> dict[str, Tensor]:
    """Inputs that are normal numbers, rounded to their types."""
    torch.manual_seed(7)
    shapes = {t: [d.size or 0 for d in t.dims] for t in of.inputs}
    return {t.name: torch.randn(shape).to(TORCH[t.dtype.spelling]) for t, shape in shapes.items()}


def agree(found: Result, wanted: Tensor) -> None:
    """The values are f64's: what they are stored as is in the bound."""
    assert found.value.shape == wanted.shape
    assert bool(((found.value - wanted.double()).abs() <= found.bound + 1e-12).all())
    assert float(found.bound.max()) < 0.2 and float(wanted.double().std()) > 1e-3


def test_softmax() -> None:
    of = kernel("softmax", ROWS=13, D=37)
    given = drawn(of)
    agree(evaluate(of, given)["Y"], functional.softmax(given["X"].double(), -1))


def test_layernorm() -> None:
    of = kernel("layernorm", TOKENS=13, D=37)
    given = drawn(of)
    x, w, b = (given[n].double() for n in "XWB")
    agree(evaluate(of, given, {"eps": 1e-5})["Y"], functional.layer_norm(x, (37,), w, b, 1e-5))


def test_rmsnorm_and_its_residual() -> None:
    of = kernel("rmsnorm", TOKENS=13, D=37)
    given = drawn(of)
    x = given["X"].double() + given["R"].double()
    found = evaluate(of, given, {"eps": 1e-6})
    agree(found["R"], x)
    agree(found["Y"], functional.rms_norm(x, (37,), given["W"].double(), 1e-6))


def test_rotary() -> None:
    of = kernel("rotary", ROWS=3, LENGTH=19, HALF=5)
    given = drawn(of)
    a, b = given["X"].double().unbind(2)
    turn = torch.complex(given["C"].double(), given["S"].double())
    turned = torch.complex(a, b) * turn
    agree(evaluate(of, given)["Y"], torch.stack((turned.real, turned.imag), 2))


def test_elementwise_and_transpose() -> None:
    of = kernel("elementwise", ROWS=21, COLS=300)
    given = drawn(of)
    agree(evaluate(of, given)["Y"], functional.gelu(given["X"].double()) + given["B"].double())
    of = kernel("transpose", ROWS=21, COLS=300)
    given = drawn(of)
    agree(evaluate(of, given)["Y"], given["X"].T)


def test_swiglu() -> None:
    of = kernel("swiglu", TOKENS=40, HIDDEN=50, D=70)
    given = drawn(of)
    x, g, u = (given[n].double() / 4 for n in "XGU")
    given = {n: v.bfloat16() for n, v in zip("XGU", (x, g, u), strict=True)}
    agree(evaluate(of, given)["Y"], functional.silu(x @ g.T) * (x @ u.T))


@pytest.mark.parametrize("length", [1, 64, 150])
def test_attention(length: int) -> None:
    of = kernel("attention", BATCH=2, HEADS=4, KV_HEADS=2, LENGTH=length, D=8, GROUP=2)
    given = drawn(of)
    q, k, v = (given[n].double() for n in "QKV")
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    found = evaluate(of, given, {"scale": 0.25})
    wanted, sizes = (functional.scaled_dot_product_attention(q, k, x, is_causal=True, scale=0.25) for x in (v, v.abs()))
    rounded = sizes * 2**-8  # weights are rounded to bf16 before they multiply V: half a unit of 8 bits, and the sum
    assert bool(((found["O"].value - wanted).abs() <= found["O"].bound + rounded).all())
    scores = (q @ k.transpose(-1, -2) * 0.25).masked_fill(
        ~torch.ones(length, length, dtype=torch.bool).tril(), -torch.inf
    )
    agree(found["LSE"], scores.logsumexp(-1))
