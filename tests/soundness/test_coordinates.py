"""Arithmetic on coordinates is exact: machine code against integers of numpy, beyond 2^15.5, 2^24 and 2^31."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

import tkgen
from tkgen.api import load
from tkgen.diagnostics import SpecError

ROWS = """\
kernel places
  dims T = {T}, D = {D}, N = {N}
  global X : f32[T, D]
{outputs}
  over t in T by 64
  waves 4
  d = coordinate(D)
{values}
"""
PRODUCT = """\
kernel places
  target {target}
  dims M = 128, N = 192, K = 64, B = 2
  global A : bf16[B, M, K]
  global W : bf16[B, N, K]
  global C : f32[B, M, N]
  over b in B, m in M by 64, n in N by 64
  waves 2 x 2
  shared A, W buffers 2
  each k in K by 64
    c = c + A[b, m, k] @ W[b, n, k].T
  C[b, m, n] = {value}
"""
ATTENTION = """\
kernel places
  target {target}
  dims L = 100, N = 75, D = 16
  global Q : bf16[L, D]
  global K : bf16[N, D]
  global V : bf16[N, D]
  global O : f32[L, D]
  over q in L by 64
  waves 4 along q
  shared K, V buffers 2
  carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0
  each j in N by 32{bounds}
    s = 0.2 * Q[q] @ K[j].T
    s = where({mask}, s, -inf)
    n = max(m, rowmax(s))
    z = where(n > -inf, n, 0)
    p = exp(s - z)
    r = exp(m - z)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[j]
    m = n
  O[q] = where(l > 0, o / l, 0)
"""


def f32(x: np.ndarray | float) -> np.ndarray:
    """Rounded to f32, as numbers of equations are."""
    return np.asarray(x).astype(np.float32).astype(np.float64)


# value of the equation, what it is of integers t and d: exact where the equation has a number of f32 at the end alone
OF_ROWS = {
    "t * t": lambda x, t, d: f32(t * t),
    "t * (t + d)": lambda x, t, d: f32(t * (t + d)),
    "t * N + d": lambda x, t, d: f32(t * 65537 + d),
    "-(t * N)": lambda x, t, d: f32(-(t * 65537)),
    "where(t * N + d > 2147483647, X[t], 7)": lambda x, t, d: np.where(t * 65537 + d > 2147483647, x, 7),
    "where(t * N - d * N * 4000 < t * d, 1, X[t])": lambda x, t, d: np.where(
        t * 65537 - d * 65537 * 4000 < t * d, 1, x
    ),
    "where(t + 16777217 == d + 16777217 + 40000, X[t], 3)": lambda x, t, d: np.where(t == d + 40000, x, 3),
    "where((t - 2147483647) * 3 != d - 2147483647 * 3, X[t], 3)": lambda x, t, d: np.where(t * 3 != d, x, 3),
    "where(t * t - t * t == 0 and t * N >= 0, X[t], 3)": lambda x, t, d: x,
    "1 / (t * -1)": lambda x, t, d: np.divide(1, f32(-t + 0.0), where=t != 0, out=np.full(x.shape, np.inf)),
    "t / (d + 3)": lambda x, t, d: t / (d + 3),
    "abs(d - t) * 0.5": lambda x, t, d: abs(d - t) * 0.5,
    "random(0.5, t * t, d)": None,
}  # fmt: skip
TARGETS = ("gfx90a", "gfx942", "gfx950")


@pytest.mark.parametrize("target", ["gfx942", *(pytest.param(t, marks=pytest.mark.slow) for t in ("gfx90a", "gfx950"))])
def test_rows_are_exact_beyond_32_bits(target: str) -> None:
    """65600 squared is beyond 2^32, 65600 * 65537 too. All in one kernel, an output for each."""
    rows, width = 65600, 4
    outputs = "\n".join(f"  global Y{n} : f32[T, D]" for n in range(len(OF_ROWS)))
    values = "\n".join(f"  Y{n}[t] = {value} + X[t] * 0" for n, value in enumerate(OF_ROWS))
    text = ROWS.format(T=rows, D=width, N=65537, outputs=outputs, values=values)
    x = torch.rand(rows, width) + 1
    found = tkgen.run(load(text, target=target).check().build(), x)
    t, d = np.arange(rows, dtype=np.int64)[:, None], np.arange(width, dtype=np.int64)[None]
    for (value, meaning), y in zip(OF_ROWS.items(), found, strict=True):
        if meaning is None:
            assert len(y.unique()) > rows * width * 0.98  # another number at each place, by all bits of it
        else:
            expected = meaning(x.double().numpy(), t, d) + np.zeros(x.shape)
            np.testing.assert_allclose(y.double().numpy(), expected, rtol=2.0**-22, err_msg=value)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_products_know_their_place(target: str) -> None:
    """Along rows, columns and the batch, divided as numbers."""
    value = "c + m / (n + 1) + (m * n - 3 * n) * 33554433 * b + b * 100 + where(b > 0, m, n)"
    build = load(PRODUCT.format(target=target, value=value)).check().build()
    a, w = torch.randint(-2, 3, (2, 128, 64)).bfloat16(), torch.randint(-2, 3, (2, 192, 64)).bfloat16()
    b, m, n = (torch.arange(size, dtype=torch.int64) for size in (2, 128, 192))
    b, m, n = b[:, None, None], m[None, :, None], n[None, None]
    expected = a.double() @ w.double().mT + m / (n + 1) + (m * n - 3 * n) * 33554433 * b + b * 100
    expected += torch.where(b > 0, m, n)
    torch.testing.assert_close(tkgen.run(build, a, w).double(), expected, rtol=2.0**-21, atol=1e-4)


MASKS = {
    "q - j < inf": lambda q, j: q >= 0,
    "inf > j": lambda q, j: q >= 0,
    "j != inf": lambda q, j: q >= 0,
    "q - inf < j": lambda q, j: q >= 0,
    "q * inf > j": lambda q, j: q > 0,  # 0 * inf is no number
    "q < inf - inf": lambda q, j: q < 0,
    "q - j < 1 / 0": lambda q, j: q >= 0,
    "q - j < 10.5": lambda q, j: q - j < 10.5,
    "q + 0.5 >= j": lambda q, j: q + 0.5 >= j,
    "q - 2147483647 < j": lambda q, j: q >= 0,
    "q + 16777216 > j + 16777216": lambda q, j: q > j,
    "q + 2147483647 >= j + 2147483600": lambda q, j: q + 47 >= j,
    "(q + 1000000) * 3 >= j * 3 + 3000000": lambda q, j: q >= j,
    "q * 1000000 >= j * 1000000 and q - j < 40": lambda q, j: (q >= j) & (q - j < 40),
    "q * 900000000 - j * 900000000 > -1": lambda q, j: q >= j,
    "-q <= -j": lambda q, j: q >= j,
    "q / 2 >= j": lambda q, j: q / 2 >= j,
    "q + length(j) - length(q) >= j": lambda q, j: q - 25 >= j,
}  # fmt: skip


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: np.ndarray) -> torch.Tensor:
    scores = 0.2 * q.double() @ k.double().T
    scores = torch.where(torch.from_numpy(mask), scores, -torch.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v.double()


CASES = list(zip(MASKS, itertools.cycle(TARGETS), strict=False))


@pytest.mark.parametrize(
    ("mask", "target"), [*CASES[::4], *(pytest.param(*c, marks=pytest.mark.slow) for c in CASES if c not in CASES[::4])]
)
def test_masks_of_tiles_and_of_elements_agree(mask: str, target: str) -> None:
    """With infinities and NaN in any place, and numbers that f32 would round."""
    build = load(ATTENTION.format(target=target, mask=mask, bounds="")).check().build()
    torch.manual_seed(3)
    q, k, v = torch.randn(100, 16), torch.randn(75, 16), torch.randn(75, 16)
    q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
    at = np.broadcast_to(MASKS[mask](*np.ogrid[:100, :75]), (100, 75)).copy()
    torch.testing.assert_close(tkgen.run(build, q, k, v).double(), attended(q, k, v, at), rtol=0.02, atol=0.02)


def test_attention_biased_by_the_square_of_a_distance_beyond_32_bits() -> None:
    """65536 squared is 2^32: keys there, of which the bias leaves nothing, would come back with none."""
    path = Path(__file__).parent / "coordinates" / "coord_square_attention.tk"
    build = load(path).check().build()
    torch.manual_seed(3)
    q, k, v = torch.randn(64, 16).bfloat16(), torch.randn(66048, 16).bfloat16(), torch.randn(66048, 16).bfloat16()
    away = torch.arange(64, dtype=torch.int64)[:, None] - torch.arange(66048, dtype=torch.int64)
    expected = torch.softmax(0.2 * q.double() @ k.double().T - 1e-8 * (away * away), -1) @ v.double()
    torch.testing.assert_close(tkgen.run(build, q, k, v).double(), expected, rtol=0.02, atol=2e-4)


def one_row(value: str) -> str:
    return ROWS.format(T="dynamic", D=4, N=7, outputs="  global Y : f32[T, D]", values=f"  Y[t] = {value}")


@pytest.mark.parametrize(
    ("value", "code"),
    [("t * t * t", "E607"), ("t * t + d * (t * t * t)", "E607"), ("2147483647 * t * 2147483647 * t", "E607")],
)
def test_what_64_bits_may_not_hold_is_refused(value: str, code: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(one_row(f"X[t] + {value}"))
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_the_help_of_the_refusal_works() -> None:
    build = load(one_row("X[t] * 0 + f32(t) * f32(t) * f32(t)")).check().build()
    t = torch.arange(3000, dtype=torch.float64)[:, None].expand(3000, 4)
    torch.testing.assert_close(tkgen.run(build, torch.zeros(3000, 4)).double(), t**3, rtol=2.0**-21, atol=0)
