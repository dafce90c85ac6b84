"""Attention of 8-bit floats for the tests of each kind of machine: a spec with open parts, and the numbers of torch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SPEC = """kernel attention
  target {target}
  dims HEADS = 2, LENGTH = {length}, KEYS = {keys}, D = {d}
  global Q : {kind}[HEADS, LENGTH, D]
  global K : {kind}[{k_dims}]
  global V : {v_kind}[{v_dims}]
  global S : f32[HEADS]
  global O : {out}[HEADS, LENGTH, D]
  global L : f32[HEADS, LENGTH]

  over h in HEADS, q in LENGTH by {tile}
  {waves}
  {clauses}
  shared K, V  buffers {buffers}
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in KEYS by {step}{bounds}
    s = S[h] * Q[h, q] @ {k}{mask}
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + {p_kind}(p) @ {v}
    m = n
  O[h, q] = o / l
  L[h, q] = m + log2(l)
"""


def attended(q: Tensor, k: Tensor, v: Tensor, scales: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Attention of [HEADS, LENGTH, D] in f64, and the logarithms to base 2 of its sums; a scale for each head."""
    q, k, v = q.double(), k.double(), v.double()
    scores = math.log(2) * scales.double()[:, None, None] * (q @ k.mT)  # the kernel's powers are of 2
    if causal:
        scores = scores.masked_fill(torch.arange(k.shape[1]) > torch.arange(q.shape[1])[:, None], -torch.inf)
    return scores.softmax(-1) @ v, torch.logsumexp(scores, -1) / math.log(2)
