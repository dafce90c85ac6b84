"""Zeros have their signs: what is divided by them says so. Machine code against f32 of numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import tkgen
from tkgen.api import load

SPEC = """\
kernel zeros
  dims R = 8, D = 64
  global X : f32[R, D]
  global W : f32[R, D]
{outputs}
  over r in R by 4
  waves 4
  x = X[r]
  w = W[r]
{values}
"""
LOOP = """\
kernel zeros
  dims R = 8, D = 64
  global X : f32[R, D]
  global Y : f32[R]
  over r in R by 4
  waves 4
  carry l : f32[r] = 0
  each j in D by 64
    l = l - rowsum(X[r, j])
  Y[r] = 1 / l
"""
TARGETS = ("gfx90a", "gfx942", "gfx950")
Array = np.ndarray
one = np.float32(1)
zero = np.float32(0)
# of zeros that are alike numpy takes any: `max` the positive, `min` the negative one, as IEEE 754-2019 has it
greatest = lambda a, b: np.where((a == 0) & (b == 0), a + b, np.maximum(a, b))  # noqa: E731
least = lambda a, b: -greatest(-a, -b)  # noqa: E731
VALUES: dict[str, Callable[[Array, Array], Array]] = {
    "1 / (0 - x)": lambda x, w: one / (zero - x),
    "1 / (w * (0 - x))": lambda x, w: one / (w * (zero - x)),
    "1 / (w - (0 - x) - w)": lambda x, w: one / (w - (zero - x) - w),
    "(0 - w) / x": lambda x, w: (zero - w) / x,
    "w / (0 - x)": lambda x, w: w / (zero - x),
    "1 / -(0 - x)": lambda x, w: one / -(zero - x),
    "1 / (1 - 1 - x)": lambda x, w: one / (zero - x),
    "1 / (-x + 0)": lambda x, w: one / (-x + zero),
    "1 / (0 + -x)": lambda x, w: one / (zero + -x),
    "1 / (x * -1 + 0)": lambda x, w: one / (-x + zero),
    "1 / (0 + x / -1)": lambda x, w: one / (zero - x),
    "1 / (-0.0 - x)": lambda x, w: one / -x,
    "1 / -x": lambda x, w: one / -x,
    "1 / (x - x)": lambda x, w: one / (x - x),
    "1 / (x * 0)": lambda x, w: one / (x * zero),
    "1 / (0 * x + 0)": lambda x, w: one / (x * zero + zero),
    "1 / (x * 1)": lambda x, w: one / x,
    "1 / (x / 1)": lambda x, w: one / x,
    "1 / (x + 0)": lambda x, w: one / (x + zero),
    "1 / (x - 0)": lambda x, w: one / x,
    "1 / abs(0 - x)": lambda x, w: one / abs(x),
    "1 / max(x, 0)": lambda x, w: one / greatest(x, zero),
    "1 / min(0, x)": lambda x, w: one / least(x, zero),
    "1 / max(0 - x, -0.0)": lambda x, w: one / greatest(zero - x, -zero),
    "1 / where(w > 0, 0 - x, x)": lambda x, w: one / np.where(w > 0, zero - x, x),
    "1 / (where(w > 0, 0, 1) - x)": lambda x, w: one / (np.where(w > 0, zero, one) - x),
    "1 / where(x == 0, 0, x)": lambda x, w: one / np.where(x == 0, zero, x),
    "1 / clamp(x, 0, 1)": lambda x, w: one / np.where(x < 0, zero, np.where(x > 1, one, x)),
    "1 / relu(x)": lambda x, w: one / np.where(x < 0, zero, x),
    "1 / bf16(0 - x)": lambda x, w: one / (zero - x),
    "1 / rowmax(where(w > 0, x * 0, -0.0))": lambda x, w: np.broadcast_to(
        one / np.where(((w > 0) & ~np.signbit(x)).any(1, keepdims=True), zero, -zero), x.shape
    ),
    "1 / rowmin(where(w > 0, x * 0, 0))": lambda x, w: np.broadcast_to(
        one / np.where(((w > 0) & np.signbit(x)).any(1, keepdims=True), -zero, zero), x.shape
    ),
}  # fmt: skip


def drawn() -> tuple[torch.Tensor, torch.Tensor]:
    """Zeros of both signs among powers of two; rows of nothing but one."""
    torch.manual_seed(5)
    x, w = (torch.randint(-2, 3, (8, 64)).float() for _ in range(2))
    x = torch.where((x == 0) & (torch.rand(8, 64) < 0.5), -0.0, x)
    x[6], x[7] = 0.0, -0.0
    return x, torch.where(w == 0, 4.0, w)


@pytest.mark.parametrize("target", TARGETS)
def test_zeros_keep_their_signs(target: str) -> None:
    """All in one kernel, an output for each."""
    outputs = "\n".join(f"  global Y{n} : f32[R, D]" for n in range(len(VALUES)))
    values = "\n".join(f"  Y{n}[r] = {value} + w * 0" for n, value in enumerate(VALUES))
    x, w = drawn()
    found = tkgen.run(load(SPEC.format(outputs=outputs, values=values), target=target).check().build(), x, w)
    with np.errstate(all="ignore"):
        for (value, meaning), y in zip(VALUES.items(), found, strict=True):
            np.testing.assert_allclose(y.numpy(), meaning(x.numpy(), w.numpy()), rtol=2.0**-22, err_msg=value)


ALONE = ["1 / (0 - x)", "w / (0 - x)", "1 / (w * (0 - x))", "1 / (1 - 1 - x)", "1 / (0 + -x)", "1 / (x * -1 + 0)"]


@pytest.mark.parametrize("value", ALONE)
def test_differences_from_zero_that_one_instruction_takes(value: str) -> None:
    """Alone in a kernel: where others share the difference, the compiler has computed it."""
    x, w = drawn()
    text = SPEC.format(outputs="  global Y : f32[R, D]", values=f"  Y[r] = {value} + w * 0")
    found = tkgen.run(load(text, target="gfx942").check().build(), x, w).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, VALUES[value](x.numpy(), w.numpy()), rtol=2.0**-22)


def test_a_sum_that_a_loop_begins_at_zero_subtracts_from_it() -> None:
    """The loop has one pass: the compiler knows the zero."""
    x = torch.zeros(8, 64)
    x[1::2] = -0.0
    x[4, 3] = 2.0
    found = tkgen.run(load(LOOP, target="gfx942").check().build(), x)
    expected = 1 / (0 - x.sum(1))
    assert torch.equal(found, expected), (found, expected)


def test_a_value_may_have_the_name_of_the_function_that_keeps_them() -> None:
    text = SPEC.format(outputs="  global Y : f32[R, D]", values="  settled = x * w\n  Y[r] = 1 / (0 - settled)")
    x, w = drawn()
    with np.errstate(all="ignore"):
        expected = one / (zero - (x * w).numpy())
    np.testing.assert_allclose(tkgen.run(load(text).check().build(), x, w).numpy(), expected, rtol=2.0**-22)
