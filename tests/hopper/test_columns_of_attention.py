"""Fused matmuls on Hopper whose warps combine their parts of a tile's columns after the loop: beside torch, proven."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from nvcc import compiles
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.backends.hopper.host.run import run
from tkgen.backends.hopper.loop_schedule import Shape, representatives, schedule
from tkgen.backends.hopper.schedule import wrong
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute import modelled
from tkgen.execute.arguments import check_scalars
from tkgen.execute.given import Chosen
from tkgen.execute.modelled import in_order
from tkgen.proof.execution import Order
from tkgen.proof.program import Meet, Step

TEXT = """kernel attention
  target sm_90a
  dims HEADS = 2, LENGTH = 256, KEYS = 192, D = 64, TILES = ceil_div(LENGTH, 128)
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global B : f32[D]
  global O : f32[HEADS, LENGTH, D]
  global S : f32[HEADS, TILES, D]
  global T : f32[HEADS, TILES, D]
  over h in HEADS, q in LENGTH by 128
  waves 8 along q
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in KEYS by 64
    s = 0.125 * Q[h, q] @ K[h, j].T
    n = max(m, rowmax(s))
    p = exp(s - n)
    r = exp(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  y = o / l + B
  O[h, q] = y
  S[h, q / 128] = colsum(y * y)
  T[h, q / 128] = (colmax(y) - colmin(y)) * B
"""
Change = tuple[str, str]
TAILS = ("LENGTH = 256, KEYS = 192", "LENGTH = 201, KEYS = 150")
CAUSAL = (("KEYS = 192, ", ""), ("KEYS", "LENGTH"), ("by 64", "by 64 to q"),
          ("    n =", "    s = where(q >= j, s, -inf)\n    n ="))  # fmt: skip
PERSISTENT = ("shared K", "grid persistent(1)\n  shared K")
CASES: dict[str, list[Change]] = {
    "plain": [],
    "tails": [TAILS],
    "persistent": [("LENGTH = 256", "LENGTH = 300"), PERSISTENT],
    "causal": [("LENGTH = 256", "LENGTH = 200"), *CAUSAL],
    "ping-pong": [("shared K", "schedule ping_pong\n  shared K"), PERSISTENT],
    "three consumers": [("LENGTH = 256", "LENGTH = 250"), ("128", "192"), ("waves 8", "waves 12")],
    "one consumer": [("LENGTH = 256", "LENGTH = 100"), ("128", "64"), ("waves 8", "waves 4")],
    "padded columns": [("D = 64", "D = 72"), TAILS],
    "narrow": [("S : f32", "S : f16"), ("T : f32", "T : bf16"), ("D = 64", "D = 128")],
}  # fmt: skip
NEAR = 2.0**-6  # weights are rounded to bf16, and squared


def changed(*changes: Change) -> str:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def checked(text: str) -> HopperSpec[Any]:
    spec = load(text).check()
    assert isinstance(spec, HopperSpec)
    return spec


def inputs_of(spec: HopperSpec[Any]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = {t.name: ([d.size for d in t.dims], t.dtype) for t in spec.program.reads}
    made = {name: torch.randint(-16, 17, shape, generator=generator) / 8 for name, (shape, _) in shapes.items()}
    return {name: x.float() if name == "B" else x.bfloat16() for name, x in made.items()}


def wanted(given: dict[str, Tensor], tile: int, causal: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v, b = (given[name].double() for name in "QKVB")
    scores = 0.125 * q @ k.mT
    if causal:
        scores = scores.where(torch.ones(scores.shape[-2:]).tril() > 0, -math.inf)
    y = torch.softmax(scores, -1) @ v + b
    tiles = y.split(tile, 1)
    spans = torch.stack([t.amax(1) - t.amin(1) for t in tiles], 1)
    return y, torch.stack([t.square().sum(1) for t in tiles], 1), spans * b


def near(found: Tensor, meant: Tensor) -> bool:
    """Return True if no error is beyond `NEAR` of the largest number; NaN is as wrong as can be."""
    assert found.shape == meant.shape
    return float(((found.double() - meant).abs() / meant.abs().max()).nan_to_num(math.inf).max()) <= NEAR


@pytest.mark.parametrize("case", CASES)
def test_columns_beside_torch(case: str) -> None:
    """The generated C++, and the model of its schedule, in orders of their own."""
    spec = checked(changed(*CASES[case]))
    given, tile = inputs_of(spec), {"three consumers": 192, "one consumer": 64}.get(case, 128)
    meant = dict(zip("OST", wanted(given, tile, case == "causal"), strict=True))
    for name, executor in HopperBackend().executors.items():
        for order in executor.orders(2):
            made = in_order(executor, spec, spec.launch(), given, {}, order)
            assert not made.findings
            assert all(near(made.outputs[of], value) for of, value in meant.items()), (name, order)


WHOLE = changed(("LENGTH = 256", "LENGTH = 100"), ("TILES = ceil_div(LENGTH, 128)", "TILES = 1"))
USED = {
    "of all rows": ("  y = o / l + B\n", "  c = o / l + B\n  y = c / max(colmax(abs(c)), 1e-6)\n"),
    "rounded": ("  y = o / l + B\n", "  c = o / l + B\n  z = bf16(colmax(abs(c)))\n  y = c / z\n"),
    "rows behind columns": ("  y = o / l + B\n", "  c = o / l + B\n  u = c - colsum(c) * 0.01\n  y = u - rowmax(u)\n"),
    "of what columns gave": ("  y = o / l + B\n", "  c = o / l\n  e = exp(c - colmax(c))\n  y = e / colsum(e)\n"),
}


@pytest.mark.parametrize("use", USED)
def test_other_equations_use_columns(use: str) -> None:
    spec = checked(WHOLE.replace(*USED[use]))
    found = Chosen(spec, spec.launch(), {}, check_scalars(spec.launch().program))
    for executor in ("host", "model"):
        failures = [t.failure for t in modelled.trials(backend_of("sm_90a"), found, 2, executor=executor)]
        assert failures == ["", ""], executor


FLAWS = {
    "a row beyond the end": ("tk::before{201}", "tk::before{256}"),
    "a consumer's part": ("[consumer * WARPGROUP_WARPS + warpgroup::warpid()]", "[warpgroup::warpid()]"),
    "a warp's part": ("[consumer * WARPGROUP_WARPS + warpgroup::warpid()]", "[consumer * WARPGROUP_WARPS]"),
    "no meeting": ("consumers::sync(2 * CONSUMERS + 1);", ""),
    "another column": ("_columns[col]", "_columns[col ^ 1]"),
    "columns of some threads": (", 0, [&](int col)", ", 1, [&](int col)"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_flawed_code_is_found(flaw: str) -> None:
    spec = checked(changed(TAILS, PERSISTENT))
    given, (old, new) = inputs_of(spec), FLAWS[flaw]
    meant = dict(zip("OST", wanted(given, 128), strict=True))
    assert old in spec.text
    right = True
    for order in (Order(), Order("last", frozenset()), Order("first")):
        made = run(spec, spec.launch(), given, {}, order, text=spec.text.replace(old, new), limit=60)
        right &= not made.findings and all(near(made.outputs[name], value) for name, value in meant.items())
    assert right == (flaw == "nothing")


@pytest.mark.parametrize("passes", [1, 2, 3])
@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize("left_out", [0, 1, 2, 3])
def test_the_proof_needs_every_meeting_of_all_consumers(left_out: int, consumers: int, passes: int) -> None:
    """One orders parts before they are combined; the next orders that before its use, and before the next tile."""
    whole = Shape(2, 2, consumers, passes, rounds=2, columns_stored=1)
    assert not any(wrong(schedule(shape)) for shape in representatives(whole, [passes]))

    def without(steps: tuple[Step, ...], every: int) -> tuple[Step, ...]:
        met = [n for n, step in enumerate(steps) if isinstance(step, Meet) and step.meeting == "consumers 0"]
        return tuple(step for n, step in enumerate(steps) if n not in met[left_out::every])

    faults = []
    for shape in representatives(whole, [passes]):
        loop = schedule(shape)
        agents = tuple(replace(agent, body=without(agent.body, 4)) for agent in loop.agents)
        by = {**loop.advance, "consumers 0": loop.advance["consumers 0"] * 3 // 4}
        faults.append(wrong(replace(loop, agents=agents, advance=by)))
    assert any("columns" in fault or "combined" in fault for fault in faults if fault)


def test_a_consumer_that_does_not_meet_is_found() -> None:
    loop = schedule(Shape(1, 1, 2, 2, warps=1, rounds=1, columns_stored=1))
    last = loop.agents[-1]
    met = next(n for n, step in enumerate(last.body) if isinstance(step, Meet) and step.meeting == "consumers 0")
    short = replace(last, body=(*last.body[:met], *last.body[met + 1 :]))
    assert wrong(loop) is None and wrong(replace(loop, agents=(*loop.agents[:-1], short))) is not None


def test_shared_memory_counts_parts_of_columns() -> None:
    spec = checked(TEXT)
    without = checked(TEXT.split("  S[h")[0].replace("  global S", "  # ").replace("  global T", "  # "))
    assert spec.layout.shared_bytes - without.layout.shared_bytes == 3 * (8 + 1) * 64 * 4


REFUSED = {
    "a number of a tile": ("T[h, q / 128] = (colmax(y) - colmin(y)) * B", "T[h, q / 128] = rowmax(colmax(y)) * B"),
    "columns of rows": ("T[h, q / 128] = (colmax(y) - colmin(y)) * B", "T[h, q / 128] = colsum(l) * B"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_other_reductions_are_refused(change: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(changed(REFUSED[change])).check()
    assert [d.code for d in caught.value.diagnostics] == ["E230"] and "or columns of a tile" in str(caught.value)


@compiles
@pytest.mark.parametrize("case", ["tails", "three consumers", "narrow"])
def test_code_compiles_without_a_spill(case: str) -> None:
    build: Any = checked(changed(*CASES[case])).build()
    figures = build.figures
    assert figures.spill_bytes == figures.stack_bytes == 0
