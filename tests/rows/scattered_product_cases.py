"""Kernels that store results of products to computed positions, each beside what it is in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from scatter_cases import Given, copied, most, summed
from torch import Tensor

BODY = """  over m in M by 64, n in N by 64
  tail masked
  shared A, B
  each k in K by 32
    c = c + A[m, k] @ B[n, k].T
"""
HEAD = """kernel scattered
  dims M = 100, N = 72, K = 64, ROWS = 60
  global ROW : i32[M]
  global A : bf16[M, K]
  global B : bf16[N, K]
"""
GROUPED = """kernel moe_down
  dims TOKENS = 50, SLOTS = 150, EXPERTS = 3, OFFSETS = EXPERTS + 1, K = 64, N = 64
  global FIRST : i32[OFFSETS]
  global ROW : i32[SLOTS]
  global W : f32[SLOTS]
  global A : bf16[SLOTS, K]
  global B : bf16[EXPERTS, N, K]
  global Y : f32[TOKENS, N]

  over e in EXPERTS, m in SLOTS within FIRST[e] by 64, n in N by 64
  tail masked
  shared A, B
  each k in K by 32
    c = c + A[m, k] @ B[e, n, k].T
  Y[ROW[m], n] += W[m] * c
"""


@dataclass(frozen=True)
class Case:
    """A kernel, its reference in f64, and how many positions the tensor `of` may name."""

    name: str
    text: str
    reference: Callable[[Given], dict[str, Tensor]]
    rows: int = 60
    of: str = "ROW"

    def __str__(self) -> str:
        return self.name


def _product(t: Given) -> Tensor:
    return t["A"] @ t["B"].T


def _grouped(t: Given) -> dict[str, Tensor]:
    ends = t["FIRST"].tolist()
    parts = [t["A"][a:b] @ t["B"][e].T for e, (a, b) in enumerate(pairwise(ends))]
    own = slice(ends[0], ends[-1])
    return {"Y": summed(50, t["ROW"][own], t["W"][own, None] * torch.cat(parts))}


CASES = (
    Case("weighed and added", f"{HEAD}  global W : f32[M]\n  global Y : f32[ROWS, N]\n{BODY}"
         "  Y[ROW[m], n] += W[m] * c\n",
         lambda t: {"Y": summed(60, t["ROW"], t["W"][:, None] * _product(t))}),
    Case("distinct rows", f"{HEAD}  global Y : bf16[ROWS, N]\n{BODY}  distinct Y[ROW[m], n] = c\n".replace(
         "ROWS = 60", "ROWS = 130"), lambda t: {"Y": copied(t["Y"], t["ROW"], _product(t))}, 130),
    Case("largest and least", f"{HEAD}  global Y : f32[ROWS, N]\n  global Z : f32[ROWS, N]\n{BODY}"
         "  Y[ROW[m], n] max= c\n  Z[ROW[m], n] min= c\n",
         lambda t: {"Y": most(60, t["ROW"], _product(t), "amax", -torch.inf),
                    "Z": most(60, t["ROW"], _product(t), "amin", torch.inf)}),
    Case("beside a plain store, and reduced", f"{HEAD}  global Y : f32[ROWS]\n  global C : bf16[M, N]\n{BODY}"
         "  C[m, n] = c\n  Y[ROW[m]] += rowsum(c * c)\n".replace("N = 72", "N = 64"),
         lambda t: {"C": _product(t), "Y": summed(60, t["ROW"], (_product(t) ** 2).sum(1))}),
    Case("columns", "kernel columns\n  dims M = 70, N = 100, K = 64, COLS = 120\n  global ROW : i32[N]\n"
         f"  global A : bf16[M, K]\n  global B : bf16[N, K]\n  global Y : f16[M, COLS]\n{BODY}"
         "  distinct Y[m, ROW[n]] = c\n", lambda t: {"Y": copied(t["Y"].T, t["ROW"], _product(t).T).T}, 120),
    Case("the next row", "kernel next\n  dims M = 100, N = 72, K = 64\n  global A : bf16[M, K]\n"
         f"  global B : bf16[N, K]\n  global Y : f32[M, N]\n{BODY}  Y[m + 1, n] = c\n",
         lambda t: {"Y": torch.cat([t["Y"][:1], _product(t)[:-1]])}, of=""),
    Case("integers", f"{HEAD}  global Y : i32[ROWS, N]\n{BODY}  Y[ROW[m], n] += c\n".replace(
         "A : bf16", "A : i8").replace("B : bf16", "B : i8").replace("by 32", "by 64"),
         lambda t: {"Y": summed(60, t["ROW"], _product(t))}),
    Case("experts", GROUPED, _grouped, 50),
)  # fmt: skip
BY_NAME = {case.name: case for case in CASES}
