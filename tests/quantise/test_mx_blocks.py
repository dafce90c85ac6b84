"""Kernels that make blocks of OCP's MX formats, with scales of e8m0: against the rule, and multiplied."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import tkgen
from tkgen import mx
from tkgen.emulate import interleavings
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run

SPECS = Path(__file__).parents[2] / "specs"
ROWS = SPECS / "quantise" / "mxfp8_rows.tk"


@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_the_spec_under_interleavings(count: int) -> None:
    build = tkgen.load(ROWS, defines={"TOKENS": 9, "BLOCKS": 5}).check().build()
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    for number, order in enumerate(interleavings(count)):
        kind = (Inputs.EXACT, Inputs.NORMAL)[number % 2]
        found = run(build, seed=number, order=order, kind=kind)
        assert found.ok, found.failure


def hurting() -> torch.Tensor:
    """Blocks of zeros, of one number, of powers of two and just below, huge, tiny, subnormal, with NaN, infinities."""
    x = torch.randn(16, 2, 32, generator=torch.Generator().manual_seed(3))
    x[0], x[1, 0], x[1, 1] = 0.0, 3.0, -0.0
    x[2, 0, 7], x[2, 1, 0] = 3e4, 2.0
    x[3, 0], x[3, 1] = 1.0, 511 / 512
    x[4] *= 1e38
    x[5] *= 1e-38
    x[6, 0], x[6, 1] = 2.0**-133, 2.0**-127  # of bf16 the least, and one below the normal ones
    x[7] = x[7] * 2.0**-118
    x[8, 0, 5], x[8, 1, 5] = torch.nan, torch.inf
    x[9, 0], x[9, 1, 31] = torch.nan, -torch.inf
    x[10] = torch.linspace(-449, 449, 64).reshape(2, 32)
    x[11, 0], x[11, 1, 0] = (2 - 2.0**-7) * 2.0**127, 2.0**127
    return x.bfloat16()


def by_the_rule(block: list[float]) -> tuple[int, list[float]]:
    """The code of a block's scale, and its elements in f64 by the conversion of OCP's MX specification, section 6.3."""
    numbers = [abs(v) for v in block if not math.isnan(v)]
    if not numbers or any(map(math.isinf, numbers)):
        return 255, [math.nan] * len(block)
    largest = max(numbers)
    shared = max(math.frexp(largest)[1] - 1 - 8, -127) if largest else -127
    elements = torch.tensor([v / 2.0**shared for v in block], dtype=torch.float64)
    kept = torch.where(elements.isnan(), elements, elements.clamp(-448, 448)).float().to(torch.float8_e4m3fn)
    return shared + 127, kept.double().tolist()


def test_blocks_that_hurt_are_what_the_rule_says() -> None:
    build = tkgen.load(ROWS, defines={"TOKENS": 16, "BLOCKS": 2}).check().build()
    x = hurting()
    q, scale = tkgen.operator(build, "mxfp8_rows_hurt")(x)
    assert (q.dtype, scale.dtype) == (torch.float8_e4m3fn, torch.float8_e8m0fnu)
    for t in range(16):
        for b in range(2):
            code, elements = by_the_rule(x[t, b].double().tolist())
            assert scale.view(torch.uint8)[t, b] == code, (t, b)
            if code != 255:  # what a NaN scales is NaN whatever it is
                assert torch.equal(q[t, b].double().nan_to_num(7e7), torch.tensor(elements).double().nan_to_num(7e7)), (
                    t,
                    b,
                )
    assert scale[9, 0].isnan() and q[9, 0].isnan().all() and not scale[8, 0].isnan()


@pytest.mark.parametrize("name", mx.LARGEST_EXPONENTS)
def test_the_library_makes_blocks_by_the_rule(name: str) -> None:
    x = hurting().flatten(1)
    elements, scale = mx.quantise(x, name)
    numbers = (mx.unpack(elements, name) if name in mx.FORMATS else elements).double().unflatten(-1, (-1, 32))
    found, wanted = numbers * scale.double()[..., None], x.double().unflatten(-1, (-1, 32))
    whole = wanted.isfinite().all(-1)
    assert scale.view(torch.uint8)[wanted.isinf().any(-1)].unique().tolist() == [255]
    assert found[wanted.isinf().any(-1)].isnan().all() and found[wanted.isnan()].isnan().all()
    if name == "e4m3fn":
        for at in whole.nonzero().tolist():
            code, kept = by_the_rule(wanted[tuple(at)].tolist())
            assert (int(scale.view(torch.uint8)[tuple(at)]), numbers[tuple(at)].tolist()) == (code, kept)
    most = (
        float(mx.decode(torch.tensor([(1 << mx.FORMATS[name].bits - 1) - 1]), name))
        if name in mx.FORMATS
        else (torch.finfo(mx.BYTES[name]).max)
    )
    assert numbers[whole].abs().amax() == most  # beyond it they are that
    fraction = {"e2m1": 1, "e2m3": 3, "e3m2": 2, "e4m3fn": 3, "e5m2": 2}[name]
    step = scale.double()[..., None] * 2.0 ** (mx.LARGEST_EXPONENTS[name] - fraction)  # of the largest numbers
    beyond = wanted.abs() > most * scale.double()[..., None]
    assert ((found - wanted).abs() <= step / 2)[whole[..., None] & ~beyond].all()


def test_blocks_feed_the_product() -> None:
    """Both factors quantised by the kernel, multiplied by the scaled instructions: near to the product itself."""
    m, n, k = 256, 256, 384
    generator = torch.Generator().manual_seed(11)
    a, b = (torch.randn(size, k, generator=generator).bfloat16() for size in (m, n))
    a[3] *= 2.0**20
    b[5, :32] = 0
    made = tkgen.load(ROWS, defines={"TOKENS": 256, "BLOCKS": k // 32}).check().build()
    quantise = tkgen.operator(made, "mxfp8_rows_of_a_product")
    (qa, s), (qb, t) = (quantise(x.reshape(256, k // 32, 32)) for x in (a, b))
    for x, q, scale in ((a, qa, s), (b, qb, t)):
        elements, scales = mx.quantise(x, "e4m3fn")
        assert torch.equal(q.flatten(1).view(torch.uint8), elements.view(torch.uint8))
        assert torch.equal(scale.view(torch.uint8), scales.view(torch.uint8))
    gemm = tkgen.load(SPECS / "low_precision" / "mxfp8.tk", {"M": m, "N": n, "K": k}).check().build()
    found = tkgen.operator(gemm, "mxfp8_of_blocks")(qa.flatten(1), qb.flatten(1), s, t).double()
    left, right = ((q.double() * e.double()[..., None]).flatten(1) for q, e in ((qa, s), (qb, t)))
    assert (
        (found - left @ right.T).abs() <= 2**-8 * (left @ right.T).abs() + 2**-18 * left.abs() @ right.abs().T
    ).all()
    true = a.double() @ b.double().T
    off = (
        2 * 2.0**-5
    )  # each factor by 2^-4 at most but for what is beyond 448, in the mean square by less than half of that
    assert ((found - true).norm(dim=1) <= off * true.norm(dim=1)).all()


# ---------------------------------------------------------------- the type


def row_kernel(source: str, target: str, count: int) -> str:
    return f"""kernel rows
  target gfx950
  dims M = {count}, D = 64
  global X : {source}[M, D]
  global Y : {target}[M, D]
  over m in M by 4
  waves 4
  Y[m] = X[m]
"""


def test_every_code_of_a_scale_is_read_as_torch_reads_it() -> None:
    build = tkgen.load(row_kernel("e8m0", "f32", 4)).check().build()
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e8m0fnu).reshape(4, 64)
    found = tkgen.operator(build, "scales_read")(codes)
    torch.testing.assert_close(found, codes.float(), rtol=0, atol=0, equal_nan=True)


def test_numbers_become_scales_as_torch_rounds_them() -> None:
    """Of every exponent the halves, the numbers beside them, and others; subnormals, infinities and NaN."""
    exponents = torch.arange(256).repeat_interleave(8) << 23
    fractions = torch.tensor([0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF, 0x200000, 0x600000]).repeat(256)
    bits = (exponents | fractions).int()
    x = torch.cat([bits, bits | -(1 << 31)]).view(torch.float32).reshape(-1, 64)
    build = tkgen.load(row_kernel("f32", "e8m0", len(x))).check().build()
    found = tkgen.operator(build, "scales_made")(x)
    assert torch.equal(found.view(torch.uint8), x.to(torch.float8_e8m0fnu).view(torch.uint8))
