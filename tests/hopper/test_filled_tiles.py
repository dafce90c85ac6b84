"""Operands that warps load themselves on Hopper: the generated C++ on the CPU and the model, beside torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from nvcc import compiles
from sampling import sample
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper import lowering, streamed
from tkgen.backends.hopper.host.run import run
from tkgen.backends.hopper.meant import wrong_product
from tkgen.backends.hopper.schedule import block_shape, schedule, unproven, wrong
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute.modelled import in_order
from tkgen.packing import pack
from tkgen.proof.execution import Order
from tkgen.proof.program import Arrive, Do, Fence, Loop

WEIGHTS = """
kernel weights
  target sm_90a
  dims M = 70, N = {n}, K = 256, GROUPS = 2
  global A : f16[M, K]
  global W : {kind}
  global Z : i8[N, GROUPS]
  global C : f32[M, N]
  over m in M by {rows}, n in N by 128
  tail masked
  {clauses}
  shared A, W
  each k in K by 128
    w = f16(W[n, k] - Z[n, k / 128])
    c = c + A[m, k] @ w.T
  C[m, n] = c
"""
GATHERED = """
kernel gathered
  target sm_90a
  dims T = 60, M = 150, N = 72, K = 136
  global ROW : i32[M]
  global X : bf16[T, K]
  global W : bf16[N, K]
  global C : f32[M, N]
  over m in M by 128, n in N by 64
  tail masked
  {clauses}
  shared X, W
  each k in K by 64
    c = c + X[ROW[m], k] @ W[n, k].T
  C[m, n] = c
"""
CONVOLVED = """
kernel convolved
  target sm_90a
  dims B = 2, H = 9, W = 7, C = 24, P = 5, Q = 4, O = 40, R = 3
  global X : f16[B, H, W, C]
  global Y : f16[O, R, R, C]
  global Z : f32[B, P, Q, O]
  over (b in B, p in P, q in Q) by 64, o in O by 64
  tail masked
  shared X, Y
  each (r in R, s in R, c in C) by 64
    z = z + X[b, 2 * p + r - 1, 2 * q + s - 1, c] @ Y[o, r, s, c].T
  Z[b, p, q, o] = z
"""
CASES = {
    "i4, interleaved": WEIGHTS.format(kind="i4[N, K] interleaved", n=140, rows=64, clauses=""),
    "u4": WEIGHTS.format(kind="u4[N, K]", n=128, rows=128, clauses="grid persistent(1)"),
    "i8": WEIGHTS.format(kind="i8[N, K]", n=140, rows=16, clauses="waves 1 x 4"),
    "i4, parts of the sum": WEIGHTS.format(kind="i4[N, K]", n=140, rows=64, clauses="grid split_k(2)"),
    "gathered": GATHERED.format(clauses=""),
    "gathered, runs of steps": GATHERED.format(clauses="grid stream_k(2)"),
    "strided convolution": CONVOLVED,
}  # fmt: skip


def made(name: str) -> HopperSpec:
    spec = load(CASES[name]).check()
    assert isinstance(spec, HopperSpec)
    return spec


def given(spec: HopperSpec) -> tuple[dict[str, Tensor], Tensor]:
    """Small integers, which all types hold, and what torch makes of them."""
    generator, launch = torch.Generator().manual_seed(3), spec.launch()
    inputs = {t.name: torch.randint(-4, 5, launch.shape(t), generator=generator).to(
        {"f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32}.get(t.dtype.spelling, torch.int8)
    ) for t in spec.program.reads}  # fmt: skip
    if spec.name == "weights":
        tensor = next(t for t in spec.program.reads if t.name == "W")
        weights = torch.randint(-4, 5, (tensor.shape[0] or 0, 256), generator=generator)
        if tensor.dtype.packed:
            weights += 4 * (tensor.dtype.spelling == "u4")
            inputs["W"] = pack(weights, tensor.dtype.spelling, interleaved=tensor.interleaved)
        else:
            inputs["W"] = weights.to(torch.int8)
        wanted = inputs["A"].float() @ (weights - inputs["Z"].repeat_interleave(128, 1)).float().T
    elif spec.name == "gathered":
        inputs["ROW"] = torch.randint(-3, 63, (150,), generator=generator, dtype=torch.int32)  # some are no rows
        there = (inputs["ROW"] >= 0) & (inputs["ROW"] < 60)
        rows = inputs["X"].float()[inputs["ROW"].clamp(0, 59).long()] * there[:, None]
        wanted = rows @ inputs["W"].float().T
    else:
        shapes = {"X": (2, 9, 7, 24), "Y": (40, 3, 3, 24)}
        x, y = (inputs[name].float().reshape(shapes[name]).permute(0, 3, 1, 2) for name in "XY")
        wanted = F.conv2d(x, y, padding=1, stride=2).permute(0, 2, 3, 1)
    return inputs, wanted


@pytest.mark.parametrize("name", sample(CASES, 2))
def test_what_warps_load_is_multiplied_as_torch_does(name: str) -> None:
    spec = made(name)
    launch, (inputs, wanted) = spec.launch(), given(spec)
    for executor in backend_of("sm_90a").executors.values():
        for order in executor.orders(2):
            found = in_order(executor, spec, launch, inputs, {}, order)
            assert not found.findings
            (output,) = found.outputs.values()
            assert torch.equal(output.reshape(wanted.shape), wanted)


@compiles
@pytest.mark.parametrize("name", sample(CASES, 4))
def test_what_warps_load_compiles_without_spills(name: str) -> None:
    assert made(name).build().check().figures.spill_bytes == 0


def without(kind: type, agent: str) -> Callable[[Loop], Loop]:
    """A schedule without the first such step of an agent."""

    def changed(loop: Loop) -> Loop:
        agents = []
        for each in loop.agents:
            if each.name == agent:
                number = next(n for n, step in enumerate(each.body) if isinstance(step, kind))
                each = replace(each, body=(*each.body[:number], *each.body[number + 1 :]))
            agents.append(each)
        return replace(loop, agents=tuple(agents))

    return changed


@pytest.mark.parametrize("kind", [Fence, Arrive, Do])
def test_a_schedule_that_lacks_a_step_of_a_warp_is_refused(kind: type) -> None:
    layout = made("i8").layout
    assert unproven(layout) is None
    loop = schedule(replace(block_shape(layout, 2), warps=2))
    assert wrong(loop) is None
    assert wrong(without(kind, "producer 0 warp 1")(loop)) is not None


@pytest.mark.parametrize("old, new", [("k", "k + 1"), ("tile_col", "tile_row"), ("BLOCK_COLS", "K_STEP")])
def test_a_tile_that_is_loaded_from_elsewhere_is_not_what_the_equations_say(old: str, new: str) -> None:
    spec = load(CASES["i8"].replace("by 128\n  tail", "by 64\n  tail"))
    assert isinstance(spec, HopperSpec)
    code = lowering.tile_code(spec.program, spec.target)
    assert wrong_product(spec.layout, code) is None
    operands = []
    for each in code.operands:
        if each.filled is not None:
            at = tuple(a.replace(old, new) for a in each.filled.at)
            assert at != each.filled.at
            each = replace(each, filled=replace(each.filled, at=at))
        operands.append(each)
    assert wrong_product(spec.layout, replace(code, operands=tuple(operands))) is not None


@pytest.mark.parametrize("old, new", [
    ("if (laneid() == 0) arrive(full[stage]);", ""),
    ("W_load(W_loaded, tile_col * BLOCK_COLS, k + 1);", "W_load(W_loaded, tile_col * BLOCK_COLS, k);"),
])  # fmt: skip
def test_the_host_run_finds_what_is_wrong_in_the_text(old: str, new: str) -> None:
    spec = made("i4, interleaved")
    inputs, wanted = given(spec)
    assert old in spec.text
    found = run(
        spec, spec.launch(), inputs, {}, Order("first", frozenset()), text=spec.text.replace(old, new), limit=30
    )
    assert found.findings or not torch.equal(found.outputs["C"], wanted)


@pytest.mark.parametrize("old, new, said", [
    ("W : i8[N, K]", "W : i8[K, N]", "with `K` first"),
    ("K = 256", "K = 264", "complete K-steps"),
    ("  waves 1 x 4", "  clusters 2", "blocks of a cluster"),
])  # fmt: skip
def test_what_warps_cannot_load_is_refused(old: str, new: str, said: str) -> None:
    text = (
        CASES["i8"]
        .replace("GROUPS = 2", "GROUPS = ceil_div(K, 128)")
        .replace(old, new)
        .replace("W[n, k]", "W[k, n].T" if "first" in said else "W[n, k]")
    )
    with pytest.raises(SpecError) as caught:
        load(text).check()
    assert said in str([d.message for d in caught.value.diagnostics])


def test_streamed_programs_have_words_of_both_producers() -> None:
    operand = streamed.Operand("A", False, filled=streamed.Filled())
    assert streamed.program(streamed.Code((operand,), (), (streamed.Output(),))).roles[0].warps
