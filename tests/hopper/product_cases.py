"""Specs with any products in and around a loop, and what torch makes of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper.serial_loop import SerialLoop
from tkgen.backends.hopper.spec import HopperSpec

GRADIENTS = """
kernel gradients
  dims HEADS = 2, LENGTH = 200, D = 64
  target sm_90a
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, LENGTH, D]
  global V : bf16[HEADS, LENGTH, D]
  global GO : bf16[HEADS, LENGTH, D]
  global L : f32[HEADS, LENGTH]
  global DELTA : f32[HEADS, LENGTH]
  global GK : f32[HEADS, LENGTH, D]
  global GV : f32[HEADS, LENGTH, D]
  over h in HEADS, j in LENGTH by 128
  shared Q, GO buffers 2
  each q in LENGTH by 64
    x = 0.125 * Q[h, q] @ K[h, j].T
    p = exp(x - L[h, q])
    gv = gv + bf16(p).T @ GO[h, q]
    gp = GO[h, q] @ V[h, j].T
    gk = gk + bf16(0.125 * p * (gp - DELTA[h, q])).T @ Q[h, q]
  GK[h, j] = gk
  GV[h, j] = gv
"""
STATES = """
kernel states
  dims HEADS = 2, LENGTH = 200, CHUNKS = ceil_div(LENGTH, 64), D = 64, E = 128
  target sm_90a
  allow slow_reads
  global K : bf16[HEADS, LENGTH, D]
  global W : bf16[HEADS, LENGTH, D]
  global U : bf16[HEADS, LENGTH, E]
  global G : f32[HEADS]
  global STATE : f32[HEADS, CHUNKS, E, D]
  global NEW : f32[HEADS, LENGTH, E]
  global Z : f32[HEADS, E, D]
  over h in HEADS, v in E by 64
  shared K, W buffers 2
  carry z : f32[v, D] = 0
  each t in LENGTH by 64
    STATE[h, t / 64, v] = z
    n = U[h, t, v] - W[h, t] @ bf16(z).T
    NEW[h, t, v] = n
    z = G[h] * z + bf16(n).T @ K[h, t]
  Z[h, v] = z
"""
SCAN = """
kernel scan
  dims LENGTH = 150, CHUNKS = ceil_div(LENGTH, 64), N = 128, P = 64
  target sm_90a
  global C : bf16[LENGTH, N]
  global B : bf16[LENGTH, N]
  global X : bf16[LENGTH, P]
  global STATE : bf16[CHUNKS, P, N]
  global T : bf16[P, N]
  global M : f32[LENGTH]
  global O : f32[LENGTH, P]
  over t in LENGTH by 64
  shared B, X
  carry o : f32[t, P] = 0.5 * C[t] @ STATE[t / 64].T, m : f32[t] = 0
  each s in LENGTH by 64 to t
    a = where(t >= s, C[t] @ B[s].T, 0)
    m = max(m, rowmax(a))
    o = o + bf16(a) @ X[s]
  M[t] = m
  O[t] = o + C[t] @ T[P, N].T
"""
WEIGHTS = """
kernel weights
  dims LENGTH = 150, KEYS = 200, D = 64
  target sm_90a
  global S : f32[LENGTH, KEYS]
  global V : bf16[KEYS, D]
  global O : f32[LENGTH, D]
  over q in LENGTH by 64
  shared V
  each j in KEYS by 64
    o = o + bf16(S[q, j]) @ V[j]
  O[q] = o
"""
Change = tuple[str, str]


def gradients(given: dict[str, Tensor], causal: bool = False) -> dict[str, Tensor]:
    q, k, v, go = (given[n].double() for n in ("Q", "K", "V", "GO"))
    p = (q @ k.mT * 0.125 - given["L"][..., None]).exp()
    if causal:
        p = p * torch.ones(p.shape[-2:]).tril()
    gx = 0.125 * p * (go @ v.mT - given["DELTA"][..., None])
    rounded = p.bfloat16().double(), gx.bfloat16().double()
    return {"GV": rounded[0].mT @ go, "GK": rounded[1].mT @ q}


def states(given: dict[str, Tensor], chunk: int = 64) -> dict[str, Tensor]:
    k, w, u = (given[n].double() for n in ("K", "W", "U"))
    heads, length, size = u.shape
    z, before, new = torch.zeros(heads, size, k.shape[-1], dtype=torch.float64), [], []
    for t in range(0, length, chunk):
        before.append(z)
        n = u[:, t : t + chunk] - w[:, t : t + chunk] @ z.bfloat16().double().mT
        new.append(n)
        z = given["G"][:, None, None] * z + n.bfloat16().double().mT @ k[:, t : t + chunk]
    return {"STATE": torch.stack(before, 1), "NEW": torch.cat(new, 1), "Z": z}


def scan(given: dict[str, Tensor]) -> dict[str, Tensor]:
    c, b, x = (given[n].double() for n in "CBX")
    a = (c @ b.T) * torch.ones(len(c), len(c)).tril()
    chunk = given["STATE"].double()[torch.arange(len(c)) // 64]
    o = 0.5 * torch.einsum("tn,tpn->tp", c, chunk) + a.bfloat16().double() @ x + c @ given["T"].double().T
    return {"O": o, "M": a.amax(1).clamp(min=0)}


TEXTS: dict[str, tuple[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]]] = {
    "gradients": (GRADIENTS, gradients), "states": (STATES, states), "scan": (SCAN, scan),
    **{f"states of {n}": (STATES.replace("LENGTH, 64)", f"LENGTH, {n})").replace("LENGTH by 64", f"LENGTH by {n}")
                          .replace("t / 64", f"t / {n}"), partial(states, chunk=n)) for n in (16, 32)},
    "weights": (WEIGHTS, lambda given: {"O": given["S"].bfloat16().double() @ given["V"].double()}),
}  # fmt: skip
CASES: dict[str, tuple[str, list[Change]]] = {
    "gradients": ("gradients", []),
    "states": ("states", []),
    "scan": ("scan", []),
    "weights": ("weights", []),
    "chunks of 16": ("states of 16", []),
    "chunks of 32": ("states of 32", []),
    "one consumer": ("gradients", [("j in LENGTH by 128", "j in LENGTH by 64")]),
    "a tile of 32": ("gradients", [("q in LENGTH by 64", "q in LENGTH by 32")]),
    "one buffer": ("gradients", [("buffers 2", "buffers 1")]),
    "other orders": ("gradients", [("Q[h, q] @ K[h, j].T", "(K[h, j] @ Q[h, q].T).T"),
                                   ("GO[h, q] @ V[h, j].T", "(V[h, j] @ GO[h, q].T).T")]),
    "persistent": ("gradients", [("  shared", "  grid persistent(1)\n  shared")]),
    "f16": ("gradients", [("bf16", "f16")]),
    "dynamic": ("gradients", [("LENGTH = 200", "LENGTH = dynamic")]),
    "bf16 stored side by side": ("states", [("NEW : f32", "NEW : bf16"), ("STATE : f32", "STATE : bf16")]),
    "two consumers": ("states", [("v in E by 64", "v in E by 128")]),
    "bounded, persistent": ("scan", [("  shared", "  grid persistent(2)\n  shared")]),
}  # fmt: skip


def spec_of(case: str) -> HopperSpec[Any]:
    """The checked spec of a case."""
    name, changes = CASES[case]
    text = TEXTS[name][0]
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    spec = load(text).check()
    assert isinstance(spec, HopperSpec) and isinstance(spec.layout, SerialLoop)
    return spec


def inputs_of(spec: HopperSpec[Any], launch: Any) -> dict[str, Tensor]:
    """Drawn inputs, of which no sum overflows."""
    generator = torch.Generator().manual_seed(1)
    found = {}
    for tensor in spec.program.reads:
        made = torch.randn(launch.shape(tensor), generator=generator)
        made = made * 0.2 if tensor.name in "WK" and spec.name == "states" else made
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[tensor.dtype.spelling]
        found[tensor.name] = (torch.full_like(made, 5.0) if tensor.name == "L" else made).to(dtype)
    return found
