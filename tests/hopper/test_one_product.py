"""Fused matmuls on Hopper with one product, whose rows are reduced: on the model and as C++, beside torch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from sampling import sample
from torch import Tensor

from tkgen import load
from tkgen.backends.hopper import chain_lowering, chained
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.backends.hopper.loop_schedule import schedule, shape_of
from tkgen.backends.hopper.meant import wrong_chain
from tkgen.backends.hopper.schedule import wrong
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.execute.modelled import in_order
from tkgen.proof.program import Arrive, Await, Drain

TEXT = """
kernel logsumexp
  dims TOKENS = 200, VOCABULARY = 300, D = 64
  target sm_90a
  global X : bf16[TOKENS, D]
  global W : bf16[VOCABULARY, D]
  global LSE : f32[TOKENS]
  over t in TOKENS by 128
  shared W buffers 2 via direct
  carry m : f32[t] = -3.4e38, l : f32[t] = 0
  each v in VOCABULARY by 128
    s = X[t] @ W[v].T
    n = max(m, rowmax(s))
    l = l * exp(m - n) + rowsum(exp(s - n))
    m = n
  LSE[t] = m + log(l)
"""
Change = tuple[str, str]
CASES: dict[str, list[Change]] = {
    "plain": [],
    "one consumer": [("TOKENS by 128", "TOKENS by 64")],
    "three consumers": [("TOKENS by 128", "TOKENS by 192"), ("buffers 2", "buffers 3")],
    "one buffer": [("buffers 2", "buffers 1"), ("VOCABULARY by 128", "VOCABULARY by 64")],
    "dynamic": [("TOKENS = 200, VOCABULARY = 300", "TOKENS = dynamic, VOCABULARY = dynamic")],
    "persistent": [("  shared", "  grid persistent(1)\n  shared")],
    "one tile": [("VOCABULARY = 300", "VOCABULARY = 100")],
    "a bias": [("  global LSE", "  global B : f32[TOKENS, VOCABULARY]\n  global LSE"),
               ("    n =", "    s = s + B[t, v]\n    n =")],
    "a scale of rows": [("  global LSE", "  global B : f32[TOKENS]\n  global LSE"),
                        ("    n =", "    s = s * B[t]\n    n =")],
    "bounded": [("VOCABULARY = 300, ", ""), ("VOCABULARY", "TOKENS"),
                ("TOKENS by 128\n    s", "TOKENS by 64 to t\n    s"),
                ("    n =", "    s = where(t >= v, s, -inf)\n    n =")],
    "two outputs": [("  global LSE", "  global M : f32[TOKENS]\n  global LSE"), ("  LSE", "  M[t] = m\n  LSE")],
    "f16": [("bf16", "f16")],
    "labels": [("  global LSE", "  global LABEL : i32[TOKENS]\n  global LSE"),
               ("l : f32[t] = 0", "l : f32[t] = 0, y : f32[t] = 0"),
               ("    m = n", "    y = y + rowsum(where(LABEL[t] == v, s, 0))\n    m = n"),
               ("log(l)", "log(l) - y")],
}  # fmt: skip
SIZES = {"TOKENS": 150, "VOCABULARY": 260}


def changed(*changes: Change) -> str:
    text = TEXT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def spec_of(*changes: Change) -> HopperSpec[Any]:
    spec = load(changed(*changes)).check()
    assert isinstance(spec, HopperSpec)
    return spec


def inputs_of(spec: HopperSpec[Any], launch: Any, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    floats = [t for t in spec.program.reads if t.dtype.spelling in types]
    found = {t.name: torch.randn(launch.shape(t), generator=generator).to(types[t.dtype.spelling]) for t in floats}
    labels = (torch.arange(200, dtype=torch.int32) * 7) % 300
    labels[:5] = torch.tensor([0, 299, 127, 128, -1])
    return found | {t.name: labels for t in spec.program.reads if t not in floats}


def scores(case: str, given: dict[str, Tensor]) -> Tensor:
    found = given["X"].double() @ given["W"].double().mT
    if case == "a bias":
        found = found + given["B"]
    if case == "a scale of rows":
        found = found * given["B"][:, None]
    return found.where(torch.ones_like(found).tril() > 0, -math.inf) if case == "bounded" else found


@pytest.mark.parametrize("case", sample(list(CASES), 3))
def test_rows_of_a_product_are_reduced(case: str) -> None:
    spec = spec_of(*CASES[case])
    launch = spec.launch({d.name: SIZES[d.name] for d in spec.program.dims if d.size is None})
    given = inputs_of(spec, launch)
    wanted = scores(case, given)
    for executor in HopperBackend().executors.values():
        (order,) = executor.orders(1)
        made = in_order(executor, spec, launch, given, {}, order)
        assert not made.findings
        sums = wanted.logsumexp(1)
        if case == "labels":
            at = given["LABEL"].long()
            sums = sums - torch.where(at >= 0, wanted.gather(1, at.clamp(0)[:, None])[:, 0], 0)
        assert torch.allclose(made.outputs["LSE"].double(), sums, rtol=1e-5, atol=1e-4)
        if case == "two outputs":
            assert torch.allclose(made.outputs["M"].double(), wanted.amax(1), rtol=1e-5, atol=1e-5)


def test_inputs_that_hurt() -> None:
    """Scores of 1e30, a row of NaN, and rows that are zero."""
    spec = spec_of()
    launch = spec.launch()
    given = inputs_of(spec, launch)
    given["X"][3], given["X"][4], given["X"][5] = 1e30, math.nan, 0.0
    wanted = scores("", given).logsumexp(1)
    executor = HopperBackend().executors["host"]
    made = in_order(executor, spec, launch, given, {}, executor.orders(1)[0])
    assert torch.allclose(made.outputs["LSE"].double(), wanted, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_it_compiles_without_spills() -> None:
    assert spec_of().build().figures.spill_bytes == 0


@pytest.mark.parametrize(
    ("which", "new", "said"),
    [
        ("left", {"coord": "{0, 0, 0, 0}"}, "is not the value"),  # the first columns in each iteration
        ("held", {"coord": "{0, 0, t_i * CONSUMERS, 0}"}, "is not the value"),  # rows of one consumer for all
        ("left", {"name": "X"}, "is not the value"),
    ],
)
def test_another_loop_is_found(which: str, new: dict[str, str], said: str) -> None:
    spec = spec_of()
    code = chain_lowering.tile_code(spec.layout)
    assert wrong_chain(spec.layout, code) is None
    moved: chained.Moved = getattr(code, which)
    assert said in str(wrong_chain(spec.layout, replace(code, **{which: replace(moved, **new)})))


def test_rows_stored_elsewhere_are_found() -> None:
    spec = spec_of()
    code = chain_lowering.tile_code(spec.layout)
    (rows,) = code.rows_stored
    other = replace(rows, coord="{0, 0, 0, t_i * CONSUMERS}")
    assert "is stored 4 times" in str(wrong_chain(spec.layout, replace(code, rows_stored=(other,))))
    assert "0 times" in str(wrong_chain(spec.layout, replace(code, rows_stored=())))


@pytest.mark.parametrize("kind", [Await, Arrive, Drain])
def test_a_schedule_without_a_wait_or_an_arrival_is_refused(kind: type) -> None:
    """Each of a consumer is needed: without it the proof finds a fault."""
    shape = replace(shape_of(spec_of().layout, 3), consumers=1, warps=2)
    loop = schedule(shape)
    assert wrong(loop) is None
    found = []
    for number, agent in list(enumerate(loop.agents))[1:]:
        for n in (n for n, step in enumerate(agent.body) if isinstance(step, kind)):
            shorter = replace(agent, body=(*agent.body[:n], *agent.body[n + 1 :]))
            found.append(wrong(replace(loop, agents=(*loop.agents[:number], shorter, *loop.agents[number + 1 :]))))
    assert found and all(found)
