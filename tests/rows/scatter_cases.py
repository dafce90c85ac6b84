"""Kernels of rows that store to computed positions, each beside what it is in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

Given = Mapping[str, Tensor]


@dataclass(frozen=True)
class Case:
    """A kernel, its reference in f64, by the names of its outputs, and sizes for its dynamic dimensions.

    `positions` are the tensors of positions, and how many there are of each dimension.
    """

    name: str
    text: str
    reference: Callable[[Given], dict[str, Tensor]]
    positions: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def distinct(self) -> bool:
        """True if it must not be given a position twice."""
        return "distinct" in self.text

    def __str__(self) -> str:
        return self.name


def inside(at: Tensor, size: int) -> Tensor:
    """Which positions there are."""
    return (at >= 0) & (at < size)


def copied(into: Tensor, at: Tensor, rows: Tensor) -> Tensor:
    """`index_copy_` of the rows that have a position."""
    there = inside(at, into.shape[0])
    return into.clone().index_copy_(0, at[there].long(), rows[there])


def summed(size: int, at: Tensor, rows: Tensor) -> Tensor:
    """`index_add_` to zeros of the rows that have a position."""
    there = inside(at, size)
    return torch.zeros(size, *rows.shape[1:], dtype=rows.dtype).index_add_(0, at[there].long(), rows[there])


def most(size: int, at: Tensor, rows: Tensor, reduce: str, start: float) -> Tensor:
    """`scatter_reduce_` of the rows that have a position, NaN left out."""
    there = inside(at, size)
    index = at[there].long().reshape(-1, *[1] * (rows.dim() - 1)).expand(rows[there].shape)
    found = torch.full((size, *rows.shape[1:]), start, dtype=rows.dtype)
    values = rows[there].nan_to_num(start, torch.inf, -torch.inf)
    return found.scatter_reduce_(0, index, values, reduce)


def _cache(t: Given) -> dict[str, Tensor]:
    x, c, s = t["X"], t["C"][:, None], t["S"][:, None]
    a, b = x[:, :, 0], x[:, :, 1]
    turned = torch.stack([a * c - b * s, b * c + a * s], 2)
    return {"K": copied(t["K"], t["SLOT"], turned)}


def _packed(t: Given) -> dict[str, Tensor]:
    """Rows of no group are not stored."""
    at = t["SRC"].clone()
    first, last = int(t["FIRST"][0]), int(t["FIRST"][-1])
    at[:first], at[last:] = -1, -1
    return {"Y": copied(t["Y"], at, t["X"])}


def _shifted(t: Given) -> dict[str, Tensor]:
    found = t["Y"].clone()
    found[1:] = t["X"][:-1]
    return {"Y": found}


CASES = (
    Case(
        "rows",
        """kernel scatter
  dims M = 37, N = 50, D = 200
  global ROW : i32[M]
  global X : bf16[M, D]
  global Y : bf16[N, D]
  over m in M by 4
  waves 2
  distinct Y[ROW[m]] = X[m]
""",
        lambda t: {"Y": copied(t["Y"], t["ROW"], t["X"])},
        {"ROW": 50},
    ),
    Case(
        "embedding gradient",
        """kernel embedding
  dims T = 61, V = 20, D = 96
  global TOKEN : i32[T]
  global DY : bf16[T, D]
  global DW : f32[V, D]
  over t in T by 8
  waves 2
  DW[TOKEN[t]] += DY[t]
""",
        lambda t: {"DW": summed(20, t["TOKEN"], t["DY"])},
        {"TOKEN": 20},
    ),
    Case(
        "histogram",
        """kernel histogram
  dims N = 1000, BINS = 17
  global X : i32[N]
  global H : i32[BINS]
  over i in N by 256
  waves 2
  H[X[i]] += 1
""",
        lambda t: {"H": summed(17, t["X"], torch.ones(1000, dtype=torch.float64))},
        {"X": 17},
    ),
    Case(
        "weighted histogram of any length",
        """kernel weights
  dims N = dynamic, BINS = 300
  global X : i32[N]
  global W : bf16[N]
  global H : f32[BINS]
  over i in N by 256
  waves 2
  H[X[i]] += W[i] * W[i]
""",
        lambda t: {"H": summed(300, t["X"], t["W"] * t["W"])},
        {"X": 300},
        {"N": 777},
    ),
    Case(
        "KV cache with rotary embedding",
        """kernel cache
  dims T = 21, SLOTS = 64, HEADS = 2, HALVES = 2, HALF = 32
  global SLOT : i32[T]
  global X : bf16[T, HEADS, HALVES, HALF]
  global C : f32[T, HALF]
  global S : f32[T, HALF]
  global K : bf16[SLOTS, HEADS, HALVES, HALF]
  over t in T by 4, h in HEADS
  waves 1
  a = X[t, h, 0]
  b = X[t, h, 1]
  distinct K[SLOT[t], h, 0] = a * C[t] - b * S[t]
  distinct K[SLOT[t], h, 1] = b * C[t] + a * S[t]
""",
        _cache,
        {"SLOT": 64},
    ),
    Case(
        "segment sums of rows",
        """kernel segments
  dims M = 40, N = 9, D = 300
  global SEGMENT : i32[M]
  global X : f32[M, D]
  global S : f32[N]
  global COUNT : i32[N]
  over m in M by 8
  waves 2
  S[SEGMENT[m]] += rowsum(X[m])
  COUNT[SEGMENT[m]] += 1
""",
        lambda t: {
            "S": summed(9, t["SEGMENT"], t["X"].sum(1)),
            "COUNT": summed(9, t["SEGMENT"], torch.ones(40, dtype=torch.float64)),
        },
        {"SEGMENT": 9},
    ),
    Case(
        "segment extremes",
        """kernel extremes
  dims M = 40, N = 9, D = 72
  global SEGMENT : i32[M]
  global X : f32[M, D]
  global Q : i32[M, D]
  global MOST : f32[N, D]
  global LEAST : f32[N, D]
  global TOP : i32[N, D]
  global BOTTOM : i32[N, D]
  over m in M by 8
  waves 2
  MOST[SEGMENT[m]] max= X[m]
  LEAST[SEGMENT[m]] min= X[m]
  TOP[SEGMENT[m]] max= Q[m]
  BOTTOM[SEGMENT[m]] min= Q[m]
""",
        lambda t: {
            "MOST": most(9, t["SEGMENT"], t["X"], "amax", -torch.inf),
            "LEAST": most(9, t["SEGMENT"], t["X"], "amin", torch.inf),
            "TOP": most(9, t["SEGMENT"], t["Q"], "amax", -(2.0**31)),
            "BOTTOM": most(9, t["SEGMENT"], t["Q"], "amin", 2.0**31 - 1),
        },
        {"SEGMENT": 9},
    ),
    Case(
        "each token to two experts' rows",
        """kernel dispatch
  dims T = 30, SLOTS = 25, TOP = 2, D = 128
  global SLOT : i32[T, TOP]
  global W : f32[T, TOP]
  global X : bf16[T, D]
  global Y : f32[SLOTS, D]
  over t in T by 4
  waves 2
  Y[SLOT[t, 0]] += W[t, 0] * X[t]
  Y[SLOT[t, 1]] += W[t, 1] * X[t]
""",
        lambda t: {
            "Y": sum(
                (summed(25, t["SLOT"][:, n], t["W"][:, n, None] * t["X"]) for n in range(2)),
                torch.zeros(25, 128, dtype=torch.float64),
            )
        },
        {"SLOT": 25},
    ),
    Case(
        "columns",
        """kernel columns
  dims M = 40, N = 60, C = 70
  global COLUMN : i32[M]
  global X : bf16[M, C]
  global Y : bf16[C, N]
  over m in M by 8, c in C by 64
  waves 2
  distinct Y[c, COLUMN[m]] = X[m, c]
""",
        lambda t: {"Y": copied(t["Y"].T, t["COLUMN"], t["X"]).T},
        {"COLUMN": 60},
    ),
    Case(
        "long rows in a loop",
        """kernel loop
  dims T = 100, V = 30, D = 40
  global TOKEN : i32[T]
  global DY : f32[T, D]
  global DW : f32[V, D]
  over d in D by 8
  waves 2
  each t in T by 32
    DW[TOKEN[t], d] += DY[t, d]
""",
        lambda t: {"DW": summed(30, t["TOKEN"], t["DY"])},
        {"TOKEN": 30},
    ),
    Case(
        "rows of packed sequences",
        """kernel packed
  dims T = 50, N = 60, D = 64, GROUPS = 4, ENDS = GROUPS + 1
  global FIRST : i32[ENDS]
  global SRC : i32[T]
  global X : bf16[T, D]
  global Y : bf16[N, D]
  over g in GROUPS, t in T within FIRST[g] by 8
  waves 2
  distinct Y[SRC[t]] = X[t]
""",
        _packed,
        {"SRC": 60},
    ),
    Case(
        "every position of an index",
        """kernel marks
  dims M = 37, N = 50, D = 64
  global ROW : i32[M]
  global X : f32[M]
  global Y : f32[N, D]
  over m in M by 4
  waves 1
  distinct Y[ROW[m]] = X[m] + 1
""",
        lambda t: {"Y": copied(t["Y"], t["ROW"], (t["X"] + 1)[:, None].expand(37, 64))},
        {"ROW": 50},
    ),
    Case(
        "the next row",
        """kernel next
  dims T = 33, D = 128
  global X : bf16[T, D]
  global Y : bf16[T, D]
  over t in T by 4
  waves 2
  Y[t + 1] = X[t]
""",
        _shifted,
    ),
    Case(
        "flip of any length",
        """kernel flip
  dims N = dynamic, D = 64
  global X : bf16[N, D]
  global Y : bf16[N, D]
  over n in N by 8
  waves 2
  Y[N - 1 - n, D] = X[n]
""",
        lambda t: {"Y": t["X"].flip(0)},
        sizes={"N": 29},
    ),
    Case(
        "pixels of two rows",
        """kernel shuffle
  dims P = 20, R = 2, ALL = P * R, D = 64
  global X : f32[R, P, D]
  global Y : f32[ALL, D]
  over r in R, p in P by 4
  waves 1
  Y[2 * p + r] = X[r, p]
""",
        lambda t: {"Y": t["X"].transpose(0, 1).reshape(40, 64)},
    ),
    Case(
        "even and odd elements",
        """kernel interleave
  dims ROWS = 7, P = 100, ALL = 2 * P
  global X : bf16[ROWS, P]
  global Z : bf16[ROWS, P]
  global Y : bf16[ROWS, ALL]
  over r in ROWS by 2, p in P by 64
  waves 1
  Y[r, 2 * p] = X[r, p]
  Y[r, 2 * p + 1] = Z[r, p]
""",
        lambda t: {"Y": torch.stack([t["X"], t["Z"]], 2).reshape(7, 200)},
    ),
    Case(
        "overlapping windows",
        """kernel windows
  dims P = 60, R = 4, ALL = 70, D = 64
  global X : f32[P, R, D]
  global Y : f32[ALL, D]
  over p in P by 4, r in R
  waves 1
  Y[p + r] += X[p, r]
""",
        lambda t: {
            "Y": summed(70, torch.arange(60)[:, None].add(torch.arange(4)).flatten(), t["X"].reshape(240, 64))
        },
    ),
    Case(
        "several times to one position",
        """kernel twice
  dims M = 20, N = 9, D = 40
  global ROW : i32[M]
  global X : f32[M, D]
  global Y : f32[N, D]
  global Z : f32[D, N]
  over m in M by 8
  waves 2
  x = X[m]
  Y[ROW[m]] += x
  Y[ROW[m]] += 2 * x
  Y[ROW[m]] += x
  Z[D, ROW[m]] += x
  Z[D, ROW[m]] += abs(x)
""",
        lambda t: {"Y": 4 * summed(9, t["ROW"], t["X"]), "Z": summed(9, t["ROW"], t["X"] + t["X"].abs()).T},
        {"ROW": 9},
    ),
)  # fmt: skip
