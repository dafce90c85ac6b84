"""Loops that carry a state: linear attention, gated delta rule and Mamba 2 in chunks, beside plain torch.

A product outside of the loop reads its other operand from memory, a product of two tiles that change reads both from
LDS, and tiles are stored for each iteration.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from executed import built, computed, fault
from sampling import sample
from torch import Tensor

import tkgen
from tkgen.diagnostics import SpecError
from tkgen.predict.device import Device
from tkgen.predict.iterations import IterationModel, Iterations

SPECS = Path(__file__).parents[2] / "specs" / "attention"
AMD = ("gfx90a", "gfx942", "gfx950")
NEAR = 2.0**-6  # scores, states and outputs are rounded to bf16
STATES = """
kernel states
  dims HEADS = 2, LENGTH = 200, CHUNKS = ceil_div(LENGTH, 64), D = 128, E = 128
  global K : bf16[HEADS, LENGTH, D]
  global V : bf16[HEADS, LENGTH, E]
  global STATE : f32[HEADS, CHUNKS, E, D]
  global Z : f32[HEADS, E, D]
  over h in HEADS, v in E by 128
  waves 4 along v
  shared K, V
  carry z : f32[v, D] = 0
  each t in LENGTH by 64
    STATE[h, t / 64, v] = z
    z = z + V[h, t, v].T @ K[h, t]
  Z[h, v] = z
"""
# Mamba 2: what a state gives each position, and a chunk's own positions, which A decays.
SCAN = """
kernel scan
  dims HEADS = 3, LENGTH = 150, CHUNKS = ceil_div(LENGTH, 64), N = 128, P = 64
  global C : bf16[LENGTH, N]
  global B : bf16[LENGTH, N]
  global X : bf16[HEADS, LENGTH, P]
  global A : f32[HEADS, LENGTH]
  global STEP : f32[HEADS, LENGTH]
  global STATE : bf16[HEADS, CHUNKS, P, N]
  global O : bf16[HEADS, LENGTH, P]
  over h in HEADS, t in LENGTH by 64
  waves 2 along t
  shared B, X
  carry o : f32[t, P] = exp(A[h, t]) * C[t] @ STATE[h, t / 64].T
  each s in LENGTH by 64 from t to t
    a = where(t >= s, exp(A[h, t] - A[h, s]) * STEP[h, s] * C[t] @ B[s].T, 0)
    o = o + bf16(a) @ X[h, s]
  O[h, t] = o
"""
# Attention with a sink, whose output a head's weights project.
PROJECTED = f"""
kernel projected
  dims HEADS = 2, LENGTH = 150, KEYS = 192, D = 64, M = 96
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global W : bf16[HEADS, M, D]
  global SINK : f32[HEADS]
  global O : f32[HEADS, LENGTH, M]
  over h in HEADS, q in LENGTH by 128
  waves 4 along q
  shared K, V buffers 2
  carry m : f32[q] = SINK[h], l : f32[q] = 1, o : f32[q, D] = 0
  each j in KEYS by 64
    s = {math.log2(math.e) / 8} * Q[h, q] @ K[h, j].T
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[h, q] = bf16(o / l) @ W[h].T
"""
Change = tuple[str, str]


def changed(text: str, *changes: Change) -> str:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


# ---------------------------------------------------------------- states

BOTH_WAYS = [
    ("    z =", "    y = y + bf16(K[h, t] @ Y[h, v].T).T @ K[h, t]\n    z ="),
    ("z : f32[v, D] = 0", "z : f32[v, D] = 0, y : f32[v, D] = 0"),
    ("  global Z", "  global Y : bf16[HEADS, E, D]\n  global YS : f32[HEADS, E, D]\n  global Z"),
    ("  Z[h, v] = z", "  Z[h, v] = z\n  YS[h, v] = y"),
]
STATE_CASES: dict[str, tuple[list[Change], tuple[str, ...]]] = {
    "plain": ([], AMD),
    "two buffers": ([("shared K, V", "shared K, V buffers 2")], AMD),
    "dynamic": ([("HEADS = 2, LENGTH = 200, CHUNKS = ceil_div(LENGTH, 64)",
                  "HEADS = dynamic, LENGTH = dynamic, CHUNKS = dynamic")], AMD),
    "persistent": ([("waves 4 along v", "waves 4 along v\n  grid persistent(3)"), ("v in E by 128", "v in E by 64"),
                    ("waves 4", "waves 2")], AMD),
    "computed": ([("V[h, t, v].T @", "bf16(1 * V[h, t, v]).T @"), ("shared K, V", "shared K"),
                  ("  over", "  allow slow_reads\n  over")], AMD),
    "rows of values": ([("V : bf16[HEADS, LENGTH, E]", "V : bf16[HEADS, E, LENGTH]"), ("V[h, t, v].T", "V[h, v, t]"),
                        ("LENGTH = 200", "LENGTH = 192")], AMD),
    "keys read both ways": (BOTH_WAYS, AMD),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "target"), sample([(c, t) for c, (_, targets) in STATE_CASES.items() for t in targets], 3, several=True)
)
def test_the_state_before_each_chunk(case: str, target: str) -> None:
    build = built(changed(STATES, *STATE_CASES[case][0]), target)
    length = 192 if case == "rows of values" else 200
    keys, values, other = (numbers(2, n, 128, seed=i).bfloat16() for i, n in enumerate((length, length, 128)))
    given = (keys, values.mT.contiguous() if case == "rows of values" else values)
    found = computed(build, *given, *([other] if "both ways" in case else []))
    outer = torch.einsum("htv,htd->htvd", values.double(), keys.double()).cumsum(1)
    chunks = -(-length // 64)
    wanted = torch.stack([torch.zeros_like(outer[:, 0]), *(outer[:, 64 * n - 1] for n in range(1, chunks))], 1)
    named = dict(zip([t.name for t in build.spec.program.outputs], found, strict=True))
    assert fault(named["STATE"], wanted) <= 1e-6
    assert fault(named["Z"], outer[:, -1]) <= 1e-6
    if "both ways" in case:
        k = keys.double()
        assert fault(named["YS"], (k @ other.double().mT).mT @ k) <= NEAR


@pytest.mark.parametrize("kind", sample(["zero", "huge", "subnormal", "nan in a later chunk"], 2))
def test_states_of_inputs_that_hurt(kind: str) -> None:
    build = built(STATES, "gfx942")
    keys, values = numbers(2, 200, 128).bfloat16(), numbers(2, 200, 128, seed=1).bfloat16()
    if kind == "nan in a later chunk":
        values[:, 130:] = math.nan
    elif kind != "nan":
        keys = keys * {"zero": 0.0, "huge": 1e35, "subnormal": 1e-39}[kind]
    states, _ = computed(build, keys, values)
    outer = torch.einsum("htv,htd->htvd", values.double(), keys.double()).cumsum(1)
    wanted = torch.stack([torch.zeros_like(outer[:, 0]), *(outer[:, 64 * n - 1] for n in (1, 2, 3))], 1)
    wrong = wanted.isnan() if kind == "nan in a later chunk" else wanted.abs() > torch.finfo(torch.float32).max
    assert torch.equal(~states.isfinite(), wrong)
    most = wanted[~wrong].abs().max()
    assert (states.double() - wanted)[~wrong].abs().max() <= 1e-5 * most + 2.0**-126


# ---------------------------------------------------------------- products outside of the loop


@pytest.mark.parametrize("target", sample(AMD, 1))
def test_a_chunk_scan(target: str) -> None:
    build = built(SCAN, target)
    c, b = numbers(150, 128).bfloat16(), numbers(150, 128, seed=1).bfloat16()
    x, state = numbers(3, 150, 64).bfloat16(), numbers(3, 3, 64, 128).bfloat16()
    decays = torch.cat([part.cumsum(1) for part in (-torch.rand(3, 150)).split(64, 1)], 1)
    step = torch.rand(3, 150)
    (found,) = computed(build, c, b, x, decays, step, state)
    wanted = torch.zeros(3, 150, 64).double()
    for chunk, at in enumerate(torch.arange(150).split(64)):
        a = decays[:, at].double()
        scores = (a[:, :, None] - a[:, None, :]).exp() * step[:, None, at].double()
        scores = (scores * (c[at].double() @ b[at].double().mT)).tril()
        carried = a.exp()[..., None] * (c[at].double() @ state[:, chunk].double().mT)
        wanted[:, at] = scores @ x[:, at].double() + carried
    assert fault(found, wanted) <= NEAR


PROJECTED_CASES: dict[str, tuple[list[Change], tuple[str, ...]]] = {
    "plain": ([], AMD),
    "interleave": ([("  carry", "  schedule interleave\n  carry")], AMD),
    "ping-pong": ([("by 128", "by 256"), ("waves 4 along q", "waves 8 along q\n  schedule ping_pong")], AMD),
    "persistent": ([("waves 4 along q", "waves 4 along q\n  grid persistent(3)")], AMD),
    "sides of 16": ([("M = 96", "M = 80")], AMD),
    "used twice": ([("O[h, q] = bf16(o / l)", "y = bf16(o / l)\n  O[h, q] = 0 * rowsum(y) + y")], AMD),
    "and once more": ([("  global SINK", "  global X : bf16[HEADS, M, D]\n  global SINK"),
                       ("@ W[h].T", "@ W[h].T + Q[h, q] @ X[h].T")], AMD),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "target"), sample([(c, t) for c, (_, of) in PROJECTED_CASES.items() for t in of], 3, several=True)
)
def test_attention_with_a_sink_and_a_projection(case: str, target: str) -> None:
    build = built(changed(PROJECTED, *PROJECTED_CASES[case][0]), target)
    rows = 80 if case == "sides of 16" else 96
    q, k, v = (numbers(2, n, 64, seed=n).bfloat16() for n in (150, 192, 192))
    w, x, sink = numbers(2, rows, 64).bfloat16(), numbers(2, rows, 64, seed=1).bfloat16(), numbers(2)
    extra = [x] if case == "and once more" else []
    (found,) = computed(build, q, k, v, w, *extra, sink)
    scores = q.double() @ k.double().mT / 8
    sinks = (sink.double() * math.log(2))[:, None, None].expand(2, 150, 1)
    weights = torch.softmax(torch.cat([scores, sinks], -1), -1)[..., :-1]
    wanted = weights @ v.double() @ w.double().mT
    assert fault(found, wanted + q.double() @ x.double().mT if extra else wanted) <= NEAR


def test_a_product_before_the_loop_next_to_direct_loads() -> None:
    text = (SPECS / "linear_attention.tk").read_text(encoding="utf-8")
    text = text.replace("HEADS = 32, LENGTH = 2048", "HEADS = 1, LENGTH = 128")
    head, outputs = text.split("kernel outputs")
    text = f"{head}kernel outputs{outputs.replace('shared K, V', 'shared K, V via direct')}"
    build = tkgen.load(text, target="gfx950").check().build().check()
    q, k, v = (numbers(1, 128, 128, seed=n).bfloat16() for n in range(3))
    found = computed(build, q, k, v)[-1]
    assert fault(found, (q.double() @ k.double().mT).tril() @ v.double()) <= NEAR


# ---------------------------------------------------------------- mistakes

REFUSED: dict[str, tuple[str, list[Change]]] = {
    "`V` is transposed on the way to LDS, which direct loads cannot do":
        (STATES, [("shared K, V", "shared K, V via direct")]),
    "`W` does not have `D` innermost, as products outside of the loop read it":
        (PROJECTED, [("W : bf16[HEADS, M, D]", "W : bf16[HEADS, D, M]"), ("W[h].T", "W[h]")]),
    "`W` is multiplied outside of the loop, where the waves read it from memory":
        (PROJECTED, [("shared K, V buffers 2", "shared K, V, W buffers 2")]),
    "all waves multiply by `V`, which must go through LDS": (STATES, [("shared K, V", "shared K")]),
    "this schedule has no step for `V`: both operands of a product change":
        (STATES, [("  carry", "  schedule interleave\n  carry")]),
    "both operands change along `t`, but the product does not sum over it":
        (STATES, [("  global Z", "  global Y : bf16[HEADS, CHUNKS, E, D]\n  global Z"),
                  ("K[h, t]\n  Z", "K[h, t] + bf16(Y[h, t / 64, v] @ K[h, t].T) @ K[h, t]\n  Z")]),
    "40 along `M` is not a multiple of 16": (PROJECTED, [("M = 96", "M = 40")]),
    "`STATE` is stored in a loop that does not visit all of `t`":
        (STATES, [("HEADS", "PARTS"), ("h in", "y in"), ("[h,", "[y,"), ("by 64\n", "by 64 part y\n")]),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_has_no_schedule_is_refused(message: str) -> None:
    text, changes = REFUSED[message]
    with pytest.raises(SpecError) as caught:
        tkgen.load(changed(text, *changes), target="gfx942").check()
    found = [(d.code, d.message) for d in caught.value.diagnostics]
    assert found == [("E230", message)]


def test_the_registers_of_a_product_behind_the_loop_count() -> None:
    """A result of 640 columns has 320 registers of a lane: no wave has them beside the sums."""
    with pytest.raises(SpecError) as caught:
        tkgen.load(changed(PROJECTED, ("M = 96", "M = 1024")), target="gfx942").check()
    (found,) = caught.value.diagnostics
    assert found.code == "E403" and "rows of `W` read from memory" in str(found.notes) + found.message


def test_flops_outside_of_the_loop_are_predicted_once() -> None:
    """The model counts what the launch multiplies, with a product outside of the loop as without."""
    alone = [("bf16(o / l) @ W[h].T", "o / l"), ("M = 96", "M = 64"), ("  global W : bf16[HEADS, M, D]\n", ""),
             ("O : f32[HEADS, LENGTH, M]", "O : f32[HEADS, LENGTH, D]")]  # fmt: skip
    for text in (PROJECTED, changed(PROJECTED, *alone)):
        build: Any = built(changed(text, ("LENGTH = 150", "LENGTH = 512"), ("KEYS = 192", "KEYS = 512")), "gfx942")
        multiplied = IterationModel(Iterations.of(build), Device.of(build.spec.target)).flops
        heads, length, keys, depth, rows = 2, 512, 512, 64, 96 if "W[h]" in text else 0
        assert multiplied == pytest.approx(2 * heads * length * (2 * keys * depth + rows * depth), rel=0.02)
