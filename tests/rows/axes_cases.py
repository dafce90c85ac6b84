"""Kernels of rows that reduce along several axes, each beside what it is in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor
from torch.nn.functional import group_norm


@dataclass(frozen=True)
class Case:
    """A kernel, the reference in f64 of its output `Y`, and sizes for its dynamic dimensions."""

    name: str
    text: str
    reference: Callable[[Mapping[str, Tensor]], Tensor]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def _norm(t: Mapping[str, Tensor]) -> Tensor:
    x = t["X"]
    groups = x.shape[1]
    flat = x.reshape(x.shape[0], -1, x.shape[-1])
    return group_norm(flat, groups, t["W"].flatten(), t["B"].flatten(), 0.5).reshape(x.shape)


NORM = """kernel group_norm
  dims BATCH = 2, GROUPS = 3, CHANNELS = {channels}, HIDDEN = {hidden}
  global X : {dtype}[BATCH, GROUPS, CHANNELS, HIDDEN]
  global W : f32[GROUPS, CHANNELS]
  global B : f32[GROUPS, CHANNELS]
  global Y : {dtype}[BATCH, GROUPS, CHANNELS, HIDDEN]
  over b in BATCH, g in GROUPS
  waves {waves}
  x = X[b, g]
  c = x - mean(x)
  Y[b, g] = c * rsqrt(mean(c * c) + 0.5) * W[g] + B[g]
"""

CASES = (
    Case("group norm", NORM.format(channels=4, hidden=60, dtype="f32", waves=1), _norm),
    Case("group norm of odd sizes", NORM.format(channels=5, hidden=49, dtype="bf16", waves=2), _norm),
    Case("group norm of a chunk that parts of channels share",
         NORM.format(channels=8, hidden=12, dtype="f16", waves=1), _norm),
    Case(
        "variance of channels between others",
        """kernel batch_norm
  dims N = 5, C = 7, P = 49
  global X : bf16[N, C, P]
  global Y : f32[C]
  over c in C
  x = X[N, c, P]
  d = x - rowmean(colmean(x))
  Y[c] = colmean(rowmean(d * d))
""",
        lambda t: t["X"].var((0, 2), correction=0),
    ),
    Case(
        "two loops over two axes, weights of each",
        """kernel loops
  dims N = 9, C = 6, P = 40
  global X : f32[N, C, P]
  global W : f32[N]
  global V : f32[P]
  global Y : f32[N, C, P]
  over c in C
  each n in N by 4
    x = X[n, c, P]
    s = s + sum(x * V[P])
  each i in N by 4
    Y[i, c, P] = X[i, c, P] * W[i] + V[P] - s
""",
        lambda t: (
            t["X"] * t["W"][:, None, None] + t["V"] - (t["X"] * t["V"]).sum((0, 2))[None, :, None]
        ),
    ),
    Case(
        "three axes, a weight of the first and the last",
        """kernel three
  dims A = 3, B = 5, C = 8, D = 6
  global X : bf16[D, A, B, C]
  global W : f32[A, C]
  global Y : f32[D, A, B, C]
  over d in D by 4
  x = X[d]
  m = rowmax(rowmax(rowmax(x)))
  Y[d] = x * W[A, C] - m
""",
        lambda t: t["X"] * t["W"][:, None] - t["X"].amax((1, 2, 3), keepdim=True),
    ),
    Case(
        "positions of a sum as names",
        """kernel named
  dims T = 21, D = 12, H = 3, ONE = 1
  global X : f32[T, H, D]
  global W : f32[T]
  global Y : f32[H]
  over h in H
  Y[h] = mean(X[t, h, d] * W[t], t in T, d in D)
""",
        lambda t: (t["X"] * t["W"][:, None, None]).mean((0, 2)),
    ),
    Case(
        "transposed beside, flipped along one",
        """kernel beside
  dims A = 8, B = 36, R = 3
  global X : f32[R, A, B]
  global Z : f32[B, A]
  global Y : f32[R]
  over r in R
  x = X[r, A - 1 - coordinate(A), B]
  Y[r] = rowsum(colsum(x * Z[B, A]))
""",
        lambda t: (t["X"].flip(1) * t["Z"].T).sum((1, 2)),
    ),
    Case(
        "one number of a matrix",
        """kernel one
  dims M = 70, N = 21, ONE = 1
  global X : f32[M, N]
  global Y : f32[ONE]
  each m in M by 16
    s = s + sum(X[m, N] * X[m, N])
  Y[0] = sqrt(s)
""",
        lambda t: t["X"].norm().reshape(1),
    ),
    Case(
        "one number of a row of any length",
        """kernel mean_loss
  dims T = dynamic, ONE = 1
  global X : f32[T]
  global Y : f32[ONE]
  each t in T by 256
    s = s + sum(X[t])
  Y[0] = s / length(t)
""",
        lambda t: t["X"].mean().reshape(1),
        {"T": 1000},
    ),
    Case(
        "parts of a flattened loop",
        """kernel parts
  dims A = 6, B = 40, C = 7, PARTS = 3
  global X : bf16[A, C, B]
  global W : f32[A]
  global V : f32[B]
  global Y : f32[PARTS, C]
  over p in PARTS, c in C
  each (a in A, b in B) by 80 part p
    s = s + rowsum(X[a, c, b] * W[a] + V[b])
  Y[p, c] = s
""",
        lambda t: (
            (t["X"] * t["W"][:, None, None] + t["V"]).permute(1, 0, 2).reshape(7, 3, 80).sum(-1).T
        ),
    ),
    Case(
        "parts of a flattened loop whose tiles begin anywhere",
        """kernel anywhere
  dims A = 6, B = 40, C = 7
  global X : bf16[A, C, B]
  global W : f32[A]
  global Y : f32[C]
  over c in C
  each (a in A, b in B) by 64
    s = s + rowsum(X[a, c, b] * W[a])
  Y[c] = s
""",
        lambda t: (t["X"] * t["W"][:, None, None]).sum((0, 2)),
    ),
    Case(
        "parts of flattened rows",
        """kernel rows
  dims A = 6, B = 5, C = 64
  global X : bf16[A, B, C]
  global W : f32[A, C]
  global V : f32[B]
  global U : f32[A, C, B]
  global Y : f32[A, B, C]
  over (a in A, b in B) by 8, c in C by 64
  Y[a, b, c] = X[a, b, c] * W[a, c] + V[b] + U[a, c, b]
""",
        lambda t: t["X"].reshape(6, 5, 64) * t["W"][:, None] + t["V"][:, None] + t["U"].transpose(1, 2),
    ),
    Case(
        "two loops at affine indices",
        """kernel two
  dims R = 4, D = 1000
  global X : f32[R, D]
  global Y : f32[R, D]
  over r in R by 2
  each j in D by 256
    s = s + rowsum(X[r, j - 1])
  each i in D by 256
    Y[r, i] = X[r, i + 1] - s
""",
        lambda t: (
            t["X"].roll(-1, 1).index_fill(1, t["X"].new_tensor([999]).long(), 0.0) - t["X"][:, :-1].sum(1, True)
        ),
    ),
)  # fmt: skip
