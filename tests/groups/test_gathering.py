"""Rows at places that a tensor holds: gathered for products and in kernels of rows; a layer of experts made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sampling import sample

import tkgen
from tkgen import load_products
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.cases import size_cases
from tkgen.execute.launch import emulate, run, trials

ROOT = Path(__file__).parents[2]
GATHERED = """kernel gathered
  dims TOKENS = 90, SLOTS = 150, GROUPS = 3, OFFSETS = GROUPS + 1, N = 64, K = 64
  global FIRST : i32[OFFSETS]
  global TOKEN : i32[SLOTS]
  global X : bf16[TOKENS, K]
  global W : bf16[GROUPS, N, K]
  global Y : f32[SLOTS, N]
  over g in GROUPS, m in SLOTS within FIRST[g] by 64, n in N by 64
  tail masked
  waves 2 x 2
  shared X, W
  each k in K by 32
    y = y + X[TOKEN[m], k] @ W[g, n, k].T
  Y[m, n] = y
"""
WHOLE = """kernel whole
  dims TOKENS = 90, SLOTS = 128, N = 64, K = 64
  global TOKEN : i32[SLOTS]
  global X : bf16[TOKENS, K]
  global W : bf16[N, K]
  global Y : f32[SLOTS, N]
  over m in SLOTS by 64, n in N by 64
  waves 2 x 2
  shared X, W
  each k in K by 32
    y = y + X[TOKEN[m], k] @ W[n, k].T
  Y[m, n] = y
"""
ROWS = """kernel rows
  dims TOKENS = 37, SLOTS = 80, TOP = 3, D = 200
  global SLOT : i32[TOKENS, TOP]
  global weight : f32[TOKENS, TOP]
  global P : bf16[SLOTS, D]
  global Y : bf16[TOKENS, D]
  over t in TOKENS by 4
  waves 4
  Y[t] = weight[t, 0] * P[SLOT[t, 0]] + weight[t, 1] * P[SLOT[t, 1]] + P[SLOT[t, 2]]
"""
BUFFERED, VIA = ("shared X, W", "shared X, W buffers 2"), ("shared X, W", "shared X, W buffers 2 via registers")


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("shared", [BUFFERED, VIA, ("", "")])
@pytest.mark.parametrize("grid", sample(["", "  grid persistent(3)\n"], 2))
def test_rows_of_a_product(target: str, shared: tuple[str, str], grid: str) -> None:
    build = load_products(changed(GATHERED, shared) + grid, target=target).check().build()
    assert build.resources.vgpr_spills == 0
    for seed, (order, kind) in enumerate(trials(2)):
        found = run(build, seed=seed, kind=kind, order=order)
        assert found.ok, found.failure


@pytest.mark.parametrize("k", [8, 32, 40, 104])
@pytest.mark.parametrize("shared", sample([BUFFERED, VIA], 2))
def test_contractions_of_any_length(k: int, shared: tuple[str, str]) -> None:
    build = load_products(changed(GATHERED, ("K = 64", f"K = {k}"), shared)).check().build()
    assert run(build, seed=k).ok and run(build, build.spec.launch().sample()).ok


@pytest.mark.parametrize("tail", ["", "  tail masked\n"])
def test_rows_of_a_product_without_groups(tail: str) -> None:
    text = changed(WHOLE, ("SLOTS = 128", "SLOTS = 100")) if tail else WHOLE
    build = load_products(text + tail).check().build()
    for seed, (order, kind) in enumerate(trials(2)):
        assert run(build, seed=seed, kind=kind, order=order).ok


def test_many_interleavings() -> None:
    for text in (changed(GATHERED, VIA), changed(GATHERED, BUFFERED) + "  grid persistent(3)\n"):
        build = load_products(text).check().build()
        for number, order in enumerate(interleavings(20)):
            assert run(build, seed=number, order=order).ok
    build = tkgen.load(ROWS).check().build()
    for number, order in enumerate(interleavings(20)):
        assert run(build, seed=number, order=order).ok


def test_places_that_are_none_read_zeros() -> None:
    places = torch.tensor([-1, 89, 90, 2**31 - 1, -(2**31), 0] * 25, dtype=torch.int32)
    build = load_products(GATHERED).check().build()
    torch.manual_seed(0)
    x, w = torch.randn(90, 64).bfloat16(), torch.randn(3, 64, 64).bfloat16()
    inputs = {"FIRST": torch.tensor([0, 50, 50, 150], dtype=torch.int32), "TOKEN": places, "X": x, "W": w}
    results, outcome = emulate(build, build.spec.launch(), inputs, {})
    there = (places >= 0) & (places < 90)
    picked = torch.where(there[:, None], x.float()[places.clamp(0, 89)], 0.0)
    expected = torch.cat([picked[:50] @ w[0].float().T, picked[50:] @ w[2].float().T])
    assert not outcome.findings
    torch.testing.assert_close(results["Y"], expected, rtol=1e-4, atol=1e-4)


def test_kernels_of_rows_gather() -> None:
    build = tkgen.load(ROWS).check().build()
    assert build.resources.vgpr_spills == 0
    for blocks in (None, (0, 9)):
        found = run(build, blocks=blocks)
        assert found.ok, found.failure
    slot = torch.tensor([-1, 79, 80], dtype=torch.int32).repeat(37, 1)
    p, weight = torch.randn(80, 200).bfloat16(), torch.randn(37, 3)
    y = tkgen.operator(build, "rows_gathered")(slot, weight, p)
    torch.testing.assert_close(y, (weight[:, 1:2] * p[79].float()).bfloat16())


REFUSED = [
    (
        GATHERED,
        ("  shared X, W\n", "  shared W\n  registers X\n"),
        "E230",
        "gathered, which needs registers on the way to LDS",
    ),
    (GATHERED, ("K = 64", "K = 60"), "E230", "gathered in chunks of 16 bytes"),
    (GATHERED, ("TOKENS = 90", "TOKENS = dynamic"), "E230", "known at build time"),
    (GATHERED, ("W[g, n, k]", "W[g, PICK[n], k]"), "E230", "no rows of a left factor"),
    (ROWS, ("P[SLOT[t, 2]]", "P[0, AT[d]]"), "E200", "`d` is no axis"),
    (ROWS, ("SLOTS = 80", "SLOTS = dynamic"), "E406", "so SLOTS must be known"),
]


@pytest.mark.parametrize(("text", "change", "code", "message"), REFUSED)
def test_what_is_not_gathered(text: str, change: tuple[str, str], code: str, message: str) -> None:
    more = [("  over", "  global PICK : i32[N]\n  over")] if "PICK" in change[1] else []
    more += [("  over", "  global AT : i32[D]\n  over")] if "AT[d]" in change[1] else []
    with pytest.raises(SpecError) as found:
        tkgen.load(changed(text, change, *more)).check()
    assert [(d.code, message in d.message) for d in found.value.diagnostics] == [(code, True)]


def test_the_regression_tries_rows_of_whole_chunks() -> None:
    moe = tkgen.load(ROOT / "specs" / "groups" / "moe.tk")
    for spec, dim in ((tkgen.load(GATHERED + "  remap group(rows = 2)\n"), "K"), (moe, "D")):
        sizes = [case[dim] for case in size_cases(spec)]
        assert len(sizes) > 5 and all(size % 8 == 0 for size in sizes)
        assert any(size % 64 for size in sizes)  # the last step is not whole


def test_a_layer_of_experts() -> None:
    sizes: dict[str, int | None] = {"TOKENS": 70, "EXPERTS": 4, "D": 72, "HIDDEN": 136}
    build = tkgen.load(ROOT / "specs" / "groups" / "moe.tk", defines=sizes).check().build()
    for number, order in enumerate(interleavings(3)):
        found = run(build, seed=number, order=order)
        assert found.ok, found.failure
    torch.manual_seed(3)
    x, gate, up = (torch.randn(*s).mul(0.3).bfloat16() for s in ((70, 72), (4, 136, 72), (4, 136, 72)))
    down, chances = torch.randn(4, 72, 136).mul(0.3).bfloat16(), torch.randn(70, 4)
    chances[:, 2] = -9.0  # an expert that nobody asks
    weights, experts = chances.softmax(-1).topk(2)
    order = experts.flatten().argsort(stable=True)
    first = torch.cat([torch.zeros(1), torch.bincount(experts.flatten(), minlength=4).cumsum(0)]).int()
    slot = order.argsort().view(70, 2).int()
    layer = tkgen.operator(build, "a_layer_of_experts")
    y = layer(first, (order // 2).int(), slot, weights.flatten()[order], x, gate, up, down)
    expected = torch.zeros(70, 72, dtype=torch.float64)
    for t in range(70):
        for weight, e in zip(weights[t].double(), experts[t], strict=True):
            h = torch.nn.functional.silu(gate[e].double() @ x[t].double()) * (up[e].double() @ x[t].double())
            expected[t] += weight * (down[e].double() @ h)
    assert (y.double() - expected).norm() < 0.01 * expected.norm()
