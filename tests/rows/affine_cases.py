"""Kernels of rows whose tensors are read at affine indices, each beside what it is in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d, max_pool1d, pad


@dataclass(frozen=True)
class Case:
    """A kernel, its reference in f64, and sizes for its dynamic dimensions."""

    name: str
    text: str
    reference: Callable[[Mapping[str, Tensor]], Tensor]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def of(self, dtype: str) -> str:
        """The spec, its tensors of 16 bits of this type."""
        return self.text.replace("bf16", dtype)

    def __str__(self) -> str:
        return self.name


def shifted(x: Tensor, dim: int, by: int) -> Tensor:
    """`x` moved `by` positions on along a dimension, zeros where nothing comes from: `x[t - by]`."""
    found = torch.zeros_like(x)
    size = x.shape[dim]
    if abs(by) < size:
        kept = size - abs(by)
        found.narrow(dim, max(by, 0), kept).copy_(x.narrow(dim, max(-by, 0), kept))
    return found


def _stencil(t: Mapping[str, Tensor]) -> Tensor:
    x = t["X"]
    return sum((shifted(x, d, s) for d in (0, 1) for s in (1, -1)), torch.zeros_like(x)) - 4 * x


def _packed(t: Mapping[str, Tensor]) -> Tensor:
    """Sequence by sequence; rows of none are NaN, as no block stores them."""
    found, ends = torch.full_like(t["X"], torch.nan), t["FIRST"].long().tolist()
    for first, last in pairwise(ends):
        x = t["X"][first:last]
        taps = sum((shifted(x, 0, w) * t["W"][w] for w in range(4)), torch.zeros_like(x))
        found[first:last] = taps + shifted(x, 0, -1)
    return found


CASES = (
    Case(
        "causal conv1d",
        """kernel conv1d
  dims B = 2, T = 37, C = 72, WIDTH = 4
  global X : bf16[B, T, C]
  global W : f32[C, WIDTH]
  global Y : bf16[B, T, C]
  over b in B, t in T by 8, c in C by 64
  waves 2
  Y[b, t, c] = silu(sum(X[b, t - w, c] * W[c, w], w in WIDTH))
""",
        lambda t: torch.nn.functional.silu(sum(shifted(t["X"], 1, w) * t["W"][:, w] for w in range(4))),
    ),
    Case(
        "causal conv1d, channels first",
        """kernel conv1d_rows
  dims B = 2, C = 6, T = 77, WIDTH = 4
  global X : f32[B, C, T]
  global W : f32[C, WIDTH]
  global Y : f32[B, C, T]
  over b in B, c in C by 4, t in T by 64
  waves 2
  Y[b, c, t] = sum(X[b, c, t + w - 3] * W[c, w], w in WIDTH)
""",
        lambda t: sum(shifted(t["X"], 2, 3 - w) * t["W"][:, w, None] for w in range(4)),
    ),
    Case(
        "token shift of dynamic length",
        """kernel token_shift
  dims T = dynamic, D = 136
  global X : bf16[T, D]
  global MU : f32[D]
  global Y : bf16[T, D]
  over t in T by 4
  waves 2
  Y[t] = X[t] + (X[t - 1] - X[t]) * MU
""",
        lambda t: t["X"] + (shifted(t["X"], 0, 1) - t["X"]) * t["MU"],
        {"T": 23},
    ),
    Case(
        "normalised neighbours",
        """kernel neighbours
  dims T = 19, D = 264
  global X : bf16[T, D]
  global Y : f32[T, D]
  over t in T by 4
  waves 2
  x = X[t + 1] - X[t - 2]
  Y[t] = x * rsqrt(rowmean(x * x) + 1e-5)
""",
        lambda t: torch.nn.functional.rms_norm(
            x := shifted(t["X"], 0, -1) - shifted(t["X"], 0, 2), x.shape[-1:], eps=1e-5
        ),
    ),
    Case(
        "central difference",
        """kernel difference
  dims N = 301, ROWS = 5
  scalar h : f32 = 0.5
  global X : f32[ROWS, N]
  global Y : f32[ROWS, N]
  over r in ROWS by 2, n in N by 256
  waves 2
  Y[r, n] = (X[r, n + 1] - X[r, n - 1]) / (2 * h)
""",
        lambda t: shifted(t["X"], 1, -1) - shifted(t["X"], 1, 1),
    ),
    Case(
        "5-point stencil",
        """kernel laplacian
  dims H = 21, W = 136
  global X : f32[H, W]
  global Y : f32[H, W]
  over y in H by 4, x in W by 128
  waves 2
  Y[y, x] = X[y - 1, x] + X[y + 1, x] + X[y, x - 1] + X[y, x + 1] - 4 * X[y, x]
""",
        _stencil,
    ),
    Case(
        "3 x 3 stencil of images",
        """kernel blur
  dims N = 2, C = 3, H = 9, W = 40, KH = 3, KW = 3
  global X : f16[N, C, H, W]
  global F : f32[KH, KW]
  global Y : f16[N, C, H, W]
  over n in N, c in C, y in H by 4, x in W by 32
  waves 1
  Y[n, c, y, x] = sum(F[dy, dx] * X[n, c, y + dy - 1, x + dx - 1], dy in KH, dx in KW)
""",
        lambda t: conv2d(t["X"].flatten(0, 1)[:, None], t["F"][None, None], padding=1).reshape(t["X"].shape),
    ),
    Case(
        "2 x 2 average",
        """kernel pool
  dims H = 14, W = 36, P = H / 2, Q = W / 2, C = 24
  global X : bf16[H, W, C]
  global Y : bf16[P, Q, C]
  over p in P by 2, q in Q by 4, c in C by 24
  waves 1
  Y[p, q, c] = mean(X[2 * p + r, 2 * q + s, c], r in 2, s in 2)
""",
        lambda t: avg_pool2d(t["X"].movedim(-1, 0), 2).movedim(0, -1),
    ),
    Case(
        "maximum of each three, of dynamic rows",
        """kernel largest
  dims ROWS = dynamic, N = 96, P = N / 3
  global X : bf16[ROWS, N]
  global Y : bf16[ROWS, P]
  over r in ROWS by 4, p in P by 32
  waves 1
  Y[r, p] = max(X[r, 3 * p + i], i in 3)
""",
        lambda t: max_pool1d(t["X"], 3),
        {"ROWS": 7},
    ),
    Case(
        "rotary halves swapped",
        """kernel rotary
  dims T = 11, D = 128, HALF = D / 2
  global X : bf16[T, D]
  global C : f32[T, D]
  global S : f32[T, D]
  global Y : bf16[T, D]
  over t in T by 4, d in D by D
  waves 2
  Y[t, d] = X[t, d] * C[t, d] + (X[t, d - HALF] - X[t, d + HALF]) * S[t, d]
""",
        lambda t: t["X"] * t["C"] + torch.cat([-t["X"][:, 64:], t["X"][:, :64]], 1) * t["S"],
    ),
    Case(
        "flip of rows",
        """kernel flip
  dims ROWS = 5, N = 200
  global X : bf16[ROWS, N]
  global Y : bf16[ROWS, N]
  over r in ROWS by 4, n in N by 128
  waves 2
  Y[r, n] = X[r, N - 1 - n]
""",
        lambda t: t["X"].flip(1),
    ),
    Case(
        "flip of both, dynamic",
        """kernel turn
  dims ROWS = dynamic, N = dynamic
  global X : f32[ROWS, N]
  global Y : f32[ROWS, N]
  over r in ROWS by 4, n in N by 64
  waves 2
  Y[r, n] = X[ROWS - 1 - r, N - 1 - n] + X[r, n - 1]
""",
        lambda t: t["X"].flip(0, 1) + shifted(t["X"], 1, 1),
        {"ROWS": 6, "N": 131},
    ),
    Case(
        "heads of a flat row",
        """kernel heads
  dims T = 9, HEADS = 3, D = 64, FLAT = 3 * HEADS * D
  global X : bf16[T, FLAT]
  global Y : bf16[HEADS, T, D]
  over h in HEADS, t in T by 4
  waves 1
  Y[h, t, D] = X[t, 64 * h + coordinate(D) + HEADS * D]
""",
        lambda t: t["X"].reshape(-1, 3, 3, 64)[:, 1].movedim(0, 1),
    ),
    Case(
        "the batch before, and one number of it",
        """kernel before
  dims B = 4, T = 33, D = 40
  global X : bf16[B, T, D]
  global S : f32[B]
  global Y : f32[B, T, D]
  over b in B, t in T by 8
  waves 1
  Y[b, t] = X[b - 1, t] * S[b + 2] + X[b, t]
""",
        lambda t: shifted(t["X"], 0, 1) * shifted(t["S"], 0, -2)[:, None, None] + t["X"],
    ),
    Case(
        "transposed and shifted",
        """kernel turned
  dims M = 40, N = 72
  global X : bf16[M, N]
  global Y : bf16[N, M]
  over m in M by 32, n in N by 32
  waves 1
  Y[n, m] = X[m - 1, n] + X[m, n + 3]
""",
        lambda t: (shifted(t["X"], 0, 1) + shifted(t["X"], 1, -3)).T,
    ),
    Case(
        "long rows in a loop",
        """kernel long
  dims T = 5, D = dynamic
  global X : f32[T, D]
  global Y : f32[T]
  over t in T by 2
  waves 2
  each j in D by 128
    s = s + rowsum(X[t, j] * X[t, j - 1] + X[t - 1, j])
  Y[t] = s
""",
        lambda t: (t["X"] * shifted(t["X"], 1, 1) + shifted(t["X"], 0, 1)).sum(1),
        {"D": 300},
    ),
    Case(
        "every second, padded",
        """kernel strided
  dims N = 61, P = 40
  global X : f32[N]
  global Y : f32[P]
  over p in P by 32
  waves 1
  Y[p] = X[2 * p - 3] + X[60 - 2 * p]
""",
        lambda t: pad(t["X"], (3, 40))[:80:2] + pad(t["X"].flip(0), (0, 40))[:80:2],
    ),
    Case(
        "causal conv1d of packed sequences",
        """kernel packed
  dims S = 4, T = 61, ENDS = S + 1, C = 72, WIDTH = 4
  global FIRST : i32[ENDS]
  global X : bf16[T, C]
  global W : f32[WIDTH, C]
  global Y : bf16[T, C]
  over s in S, t in T within FIRST[s] by 8, c in C by 64
  waves 2
  Y[t, c] = sum(X[t - w, c] * W[w, c], w in WIDTH) + X[t + 1, c]
""",
        _packed,
    ),
    Case(
        "pixel shuffle of six dimensions",
        """kernel shuffle
  dims N = 2, C = 3, R = 2, H = 5, W = 24
  global X : bf16[N, C, R, R, H, W]
  global Y : bf16[N, C, H, R, W, R]
  over n in N, c in C, i in R, h in H by 2, w in W by 24, j in R by 2
  waves 1
  Y[n, c, h, i, w, j] = X[n, c, i, j, h, w]
""",
        lambda t: t["X"].permute(0, 1, 4, 2, 5, 3),
    ),
    Case(
        "five dimensions, one dynamic",
        """kernel five
  dims A = 2, B = 2, C = 3, T = dynamic, D = 40
  global X : bf16[A, B, C, T, D]
  global Y : f32[A, B, C, T, D]
  over a in A, b in B, c in C, t in T by 4
  waves 1
  Y[a, b, c, t] = X[a, b, c, t - 1] + X[a, 1 - b, c + 1, t]
""",
        lambda t: shifted(t["X"], 3, 1) + shifted(t["X"].flip(1), 2, -1),
        {"T": 7},
    ),
)  # fmt: skip
