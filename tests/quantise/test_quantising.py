"""Kernels that quantise rows and blocks of rows: on the emulator against torch, inputs that hurt, both targets."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tkgen
from tkgen import mx
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run
from tkgen.ir.rounding import TORCH
from tkgen.ir.tensors import DType
from tkgen.packing import unpack

SPECS = Path(__file__).parents[2] / "specs" / "quantise"
FP8 = {"gfx942": torch.float8_e4m3fnuz, "gfx950": torch.float8_e4m3fn}
SMALL = {
    "quantise_rows": {"TOKENS": 9, "D": 200},
    "quantise_int8": {"TOKENS": 9, "D": 200},
    "quantise_rmsnorm": {"TOKENS": 9, "D": 200},
    "quantise_swiglu": {"TOKENS": 5, "BLOCKS": 3},
}


@pytest.mark.parametrize("target", FP8)
@pytest.mark.parametrize("name", SMALL)
def test_the_specs(name: str, target: str) -> None:
    build = tkgen.load(SPECS / f"{name}.tk", defines=dict(SMALL[name]), target=target).check().build()
    assert build.resources.vgpr_spills == 0
    for number, order in enumerate(interleavings(20 if target == "gfx942" else 2)):
        kind = (Inputs.EXACT, Inputs.NORMAL)[number % 2]
        found = run(build, seed=number, order=order, kind=kind)
        assert found.ok, found.failure


def hurting() -> torch.Tensor:
    """Rows of zeros, of one number, one far larger than all others, huge, tiny, and beyond half of a step."""
    x = torch.randn(8, 200)
    x[0], x[1], x[2, 7] = 0.0, 3.0, 3e4
    x[3] *= 1e30
    x[4] *= 1e-30
    x[5] = torch.linspace(-1, 1, 200)
    x[6], x[6, 0] = 1e-20, -1.0
    return x.bfloat16()


@pytest.mark.parametrize("target", FP8)
@pytest.mark.parametrize("name", ["quantise_rows", "quantise_int8"])
def test_rows_that_hurt_come_back(name: str, target: str) -> None:
    build = tkgen.load(SPECS / f"{name}.tk", defines={"TOKENS": 8, "D": 200}, target=target).check().build()
    x = hurting()
    q, scale = tkgen.operator(build, f"{name}_{target}_hurt")(x)
    most = 127.0 if name == "quantise_int8" else torch.finfo(FP8[target]).max
    assert q.dtype is (torch.int8 if name == "quantise_int8" else FP8[target])
    expected = x.double().abs().amax(1).clamp(min=1e-12) / most
    torch.testing.assert_close(scale.double(), expected, rtol=1e-6, atol=0.0)
    found, rows = q.double() * scale.double()[:, None], x.double()
    half_a_step = scale.double()[:, None] * 0.502 if name == "quantise_int8" else rows.abs() / 15.9
    subnormal = scale.double()[:, None] * 2.0**-10  # half of the least step of e4m3
    assert ((found - rows).abs() <= torch.maximum(half_a_step, subnormal)).all()
    whole = x.double().abs().amax(1) > 1e-10
    assert (q.double().abs().amax(1)[whole] == most).all()  # all of the range is used


def test_blocks_have_scales_of_their_own() -> None:
    sizes = {"TOKENS": 5, "BLOCKS": 3}
    build = tkgen.load(SPECS / "quantise_swiglu.tk", defines=dict(sizes), target="gfx950").check().build()
    g, u = torch.randn(2, 5, 3, 128).bfloat16()
    g[0, 1] *= 100
    u[1, 2] = 0
    q, scale = tkgen.operator(build, "quantise_swiglu_blocks")(g, u)
    y = torch.nn.functional.silu(g.double()) * u.double()
    torch.testing.assert_close(scale.double(), y.abs().amax(-1).clamp(min=1e-12) / 448, rtol=1e-5, atol=0.0)
    assert ((q.double() * scale.double()[..., None] - y).abs() <= y.abs() / 15 + scale[..., None] * 2.0**-9).all()


def test_the_largest_number_of_each_type() -> None:
    for dtype in DType:
        if dtype.packed:
            codes = torch.arange(256, dtype=torch.uint8)  # in bytes, or alone
            found = (
                mx.decode(codes % (1 << dtype.bits), dtype.spelling)
                if dtype.in_blocks
                else unpack(codes, dtype.spelling)
            )
            assert dtype.largest == float(found.max()), dtype
            continue
        info = torch.iinfo(TORCH[dtype]) if dtype.whole else torch.finfo(TORCH[dtype])
        assert dtype.largest == info.max, dtype


@pytest.mark.parametrize(
    ("wrong", "code"),
    [("largest(448)", "E204"), ("largest(fp9)", "E204"), ("largest(fp8, fp8)", "E200"), ("largest", "E200")],
)
def test_what_has_no_largest_number(wrong: str, code: str) -> None:
    text = (SPECS / "quantise_rows.tk").read_text(encoding="utf-8")
    with pytest.raises(SpecError) as found:
        tkgen.load(text.replace("largest(fp8)", wrong)).check()
    assert [d.code for d in found.value.diagnostics] == [code]
