"""Outputs whose rows the copy engine cannot step over: the generated C++ for Hopper on the CPU, beside torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from gemms import ODD_ROWS, fused, gemm
from nvcc import compiles
from sampling import sample
from test_host_run import failures

from tkgen.api import load
from tkgen.backends.hopper import lowering
from tkgen.backends.hopper.host.run import run
from tkgen.backends.hopper.meant import wrong_product
from tkgen.backends.hopper.schedule import block_shape, schedule, wrong
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.diagnostics import SpecError
from tkgen.diagnostics.fixes import edited
from tkgen.execute.arguments import check_scalars
from tkgen.execute.compare import Inputs, random_inputs
from tkgen.ir.functions import HOPPER
from tkgen.proof.execution import Order

MIXED = fused("c + b[n]", (72, 148, 72), (64, 64, 64), more=(("Z", "bf16", "relu(c)"),))
HEADS = """
kernel heads
  target sm_90a
  dims B = 2, L = 72, H = 3, N = 70, K = 64
  global X : bf16[B, L, H, K]
  global W : bf16[H, N, K]
  global Y : bf16[B, H, L, N]
  over b in B, h in H, m in L by 64, n in N by 64
  tail masked
  shared X, W
  each k in K by 64
    y = y + X[b, m, h, k] @ W[h, n, k].T
  Y[b, h, m, n] = y
"""
CASES = {
    "f32": fused("c", (72, 151, 72), (64, 64, 64)),
    "what is read beside the sums has odd rows, too": fused("c * s[m] + b[n] + R[m, n]", (72, 151, 72), output="bf16"),
    "bytes": gemm("NT", (64, 128, 128), operand="fp8", output="fp8", dims=(72, 147, 144), grid="linear"),
    "two outputs, one by the copy engine": MIXED,
    "rows of heads": HEADS,
    "blocks add": gemm("NT", (64, 64, 64), 3, output="f32", grid="split_k(3)", dims=(72, 133, 384)),
    "runs of steps add": gemm("NT", (64, 64, 64), 2, output="f32", grid="stream_k(3)", dims=(72, 133, 328)),
    "consumers take turns": gemm("NT", (128, 64, 64), 3, grid="persistent(2)", dims=(200, 75, 136), consumers=2),
    "clusters": gemm("NT", (64, 64, 64), 2, grid="persistent(2)", dims=(136, 201, 136), clusters="2"),
}


@pytest.mark.parametrize("name", sample(CASES, 4))
def test_odd_rows_are_stored(name: str) -> None:
    assert not failures(CASES[name])


def products(text: str) -> HopperSpec:
    spec = load(text).check()
    assert isinstance(spec, HopperSpec)
    return spec


def found(spec: HopperSpec, text: str = "") -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """The inputs, and the outputs of the generated C++."""
    launch, scalars = spec.launch(), check_scalars(spec.program)
    inputs = random_inputs(launch, 1, Inputs.NORMAL, HOPPER)
    made = run(spec, launch, inputs, scalars, Order("first", frozenset()), text=text or spec.text, limit=60)
    assert not made.findings
    return list(inputs.values()), dict(made.outputs)


def test_odd_rows_of_two_outputs_are_those_of_torch() -> None:
    (x, w, b), made = found(products(MIXED))
    sums = x.double() @ w.double().T
    assert torch.allclose(made["Y"].double(), sums + b.double(), rtol=1e-5, atol=1e-3)
    assert torch.allclose(made["Z"].double(), sums.relu(), rtol=0.01, atol=0.01)


@pytest.mark.parametrize(
    ("old", "new"), [("+ p})", "})"), ("consumer, tile_col", "0, tile_col"), ("<uint16_t>", "<uint8_t>")]
)
def test_a_slip_in_what_stores_is_found(old: str, new: str) -> None:
    spec = products(gemm("NT", (128, 128, 64), 2, grid="linear", dims=(134, 133, 72)))
    (inputs, right), changed = found(spec), spec.text.replace(old, new)
    assert changed != spec.text
    (again, made) = found(spec, changed)
    assert all(map(torch.equal, inputs, again))
    assert not torch.equal(right["C"], made["C"])


def test_a_store_to_another_tile_is_refused() -> None:
    spec = products(MIXED)
    code = lowering.tile_code(spec.program, spec.target)
    first, second = code.outputs
    assert not first.chunks and second.chunks and wrong_product(spec.layout, code) is None
    for place in (
        second.place.replace("tile_col *", "1 + tile_col *"),
        second.place.replace("tile_row *", "1 + tile_row *"),
    ):
        assert wrong_product(spec.layout, replace(code, outputs=(first, replace(second, place=place)))), place


def test_a_buffer_is_free_before_it_is_written_again() -> None:
    """Panels that warps store are no groups of the copy engine: so the wait is for all of them."""
    shape = block_shape(products(MIXED).layout, 3)
    assert shape.chunked == (1,) and wrong(schedule(shape)) is None


@compiles
@pytest.mark.parametrize("name", ["rows of heads", "blocks add", "bytes"])
def test_odd_rows_compile_without_spills(name: str) -> None:
    assert load(CASES[name]).build().check()


# ---------------------------------------------------------------- operands

BATCH = """
kernel batch
  target sm_90a
  dims B = 2, L = 72, H = 3, N = 70, K = 75
  global X : bf16[B, H, L, K]
  global W : bf16[H, N, K]
  global b : bf16[N]
  global Y : bf16[B, H, L, N]
  over b_i in B, h in H, m in L by 64, n in N by 64
  tail masked
  shared X, W
  each k in K by 64
    y = y + X[b_i, h, m, k] @ W[h, n, k].T
  r = relu(y + b[n])
  Y[b_i, h, m, n] = r * r
"""
GATED = fused("silu(c) * d", (72, 136, 77), (64, 64, 64), products=("c", "d"), output="bf16")


@pytest.mark.parametrize("case", sample(ODD_ROWS, 4), ids=str)
def test_operands_of_odd_rows_are_multiplied(case: dict[str, Any]) -> None:
    text = gemm(**case)
    assert products(text).layout.filled and not failures(text)


@pytest.mark.parametrize("text", [BATCH, GATED], ids=["a batch", "two products"])
def test_odd_rows_of_other_products_are_multiplied(text: str) -> None:
    assert products(text).layout.filled and not failures(text)


def test_what_follows_the_end_of_a_row_is_not_multiplied() -> None:
    """The host run has no mask: elements after a row's end are those of the next row, or memory that nobody wrote."""
    text = gemm("NT", (64, 64, 64), 2, grid="linear", output="f32", dims=(72, 72, 77))
    spec = products(text)
    assert "chunk_in_parts<2>(" in spec.text
    inputs = random_inputs(spec.launch(), 0, Inputs.EXACT, HOPPER)
    wanted = inputs["A"].float() @ inputs["B"].float().T
    assert torch.equal(run(spec, spec.launch(), inputs, {}, Order(), limit=60).outputs["C"], wanted)
    longer = spec.text.replace("? 77 - (col) : 0", "? 8 : 0")
    assert longer != spec.text
    found = run(spec, spec.launch(), inputs, {}, Order(), text=longer, limit=60)
    assert found.findings or not torch.equal(found.outputs["C"], wanted)


@compiles
@pytest.mark.parametrize("case", [ODD_ROWS[0], ODD_ROWS[5]], ids=str)
def test_operands_of_odd_rows_compile_without_spills(case: dict[str, Any]) -> None:
    assert products(gemm(**case)).build().check().figures.spill_bytes == 0


def test_odd_rows_are_slow_and_a_fix_pads_them() -> None:
    text = gemm("NT", (64, 64, 64), 2, dims=(72, 72, 77))
    (found,) = load(text).check().diagnostics
    assert found.code == "W201" and "`A` and `B` are read by warps, 2 bytes at a time" in found.message
    assert found.fix is not None and "pad K to 80" in found.fix.text
    assert not load(edited(text, found.fix.edits)).check().diagnostics
    assert not load(text.replace("  tail masked", "  tail masked\n  allow slow_reads")).check().diagnostics


@pytest.mark.parametrize("case, said", [
    ({"layouts": "NN", "dims": (72, 133, 384)}, "pad N to 136"),
    ({"layouts": "NT", "dims": (200, 72, 77), "block": (128, 64, 64), "stages": 3, "consumers": 2},
     "pad K to 80, or remove `schedule`: warps then load the rows themselves"),
    ({"layouts": "NT", "dims": (136, 201, 77), "block": (64, 64, 64), "stages": 2, "clusters": "2"},
     "pad K to 80, or remove `clusters`: warps then load the rows themselves"),
], ids=["N last", "turns", "clusters"])  # fmt: skip
def test_operands_that_only_the_copy_engine_brings_need_rows_of_16_bytes(case: dict[str, Any], said: str) -> None:
    text = gemm(**case)
    with pytest.raises(SpecError, match="not a multiple of 16") as caught:
        load(text).check()
    first = caught.value.diagnostics[0]
    assert first.code == "E240" and first.fix is not None and first.fix.text == said
    assert not load(edited(text, first.fix.edits)).check().diagnostics
    if "remove" in said:
        word = said.split("`")[1]
        other = "".join(line + "\n" for line in text.splitlines() if not line.strip().startswith(word))
        assert products(other).layout.filled
