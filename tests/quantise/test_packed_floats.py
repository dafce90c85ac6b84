"""Kernels that make floats of 4 and 6 bits: as `tkgen.mx` rounds and packs them, every code, and blocks with scales."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from test_mx_blocks import hurting

import tkgen
from tkgen import mx
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run
from tkgen.ir.computation import compute

FOLDER = Path(__file__).parents[2] / "specs/quantise"
FOUR, SIX = (FOLDER / f"mxfp{bits}_rows.tk" for bits in (4, 6))
STORED = """kernel stored
  target gfx950
  dims ROWS = 16, COLS = 256
  global X : {given}[ROWS, COLS]
  global Q : {made}[ROWS, COLS]
  over r in ROWS by 4
  waves 4
  Q[r] = X[r]
"""


@cache
def built(made: str, given: str = "f32") -> Build:
    spec = tkgen.load(STORED.format(given=given, made=made).replace("kernel stored", f"kernel as_{made}_of_{given}"))
    assert isinstance(spec, Spec)
    return spec.build().check()


def blocks(name: str) -> str:
    """The spec that makes blocks of a format."""
    text = (FOUR if name == "e2m1" else SIX).read_text(encoding="utf-8")
    exponent = mx.LARGEST_EXPONENTS[name]
    text = text.replace("e2m3", name).replace("- 2, -127", f"- {exponent}, -127").replace("_rows\n", f"_rows_{name}\n")
    return text.replace("TOKENS = 8192, BLOCKS = 128", "TOKENS = 16, BLOCKS = 2")


def edges(name: str) -> torch.Tensor:
    """All numbers of a format, the middles between neighbours, what lies next to these in f32, and beyond the ends."""
    numbers = mx.decode(torch.arange(1 << mx.FORMATS[name].bits), name)
    ascending = numbers.unique()
    middles = (ascending[1:] + ascending[:-1]) / 2
    around = [torch.nextafter(m, torch.tensor(far)) for m in (ascending, middles) for far in (-torch.inf, torch.inf)]
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, -0.0, 1e30, -1e30, 1e-45, -1e-40, 2.0**-126])
    return torch.cat([numbers, middles, *around, special])


@pytest.mark.parametrize("name", mx.FORMATS)
def test_every_code_and_every_tie(name: str) -> None:
    x = torch.randn(16 * 256, generator=torch.Generator().manual_seed(0)) * 4
    some = edges(name)
    x[: len(some)] = some
    x = x.reshape(16, 256)
    found = tkgen.operator(built(name), f"every_{name}")(x)
    wanted = mx.pack(x.nan_to_num(0.0, torch.inf, -torch.inf), name)
    assert found.dtype is wanted.dtype and found.shape == wanted.shape
    assert torch.equal(found.view(torch.uint8), wanted.view(torch.uint8))
    assert set(mx.unpack_codes(found, name).unique().tolist()) == set(range(1 << mx.FORMATS[name].bits))
    meant = compute(built(name).spec.program.kernel, {"X": x})["Q"]
    assert torch.equal(meant.view(torch.uint8), wanted.view(torch.uint8))


@pytest.mark.parametrize(("name", "given"), [("e2m3", "bf16"), ("e2m1", "e4m3fn"), ("e3m2", "e4m3fn")])
def test_chunks_of_other_widths(name: str, given: str) -> None:
    """Of bf16 a lane has 8 neighbours, 6 bytes of 6 bits; of 8-bit floats 16."""
    for number, kind in enumerate((Inputs.EXACT, Inputs.NORMAL)):
        found = run(built(name, given), seed=number, kind=kind)
        assert found.ok, found.failure
    assert run(built(name, given), blocks=[1, 3]).ok


@pytest.mark.parametrize("name", mx.FORMATS)
def test_blocks_that_hurt_are_those_of_the_library(name: str) -> None:
    """Bit for bit, except for the elements of a block whose scale is a NaN: those are NaN whatever they are."""
    build = tkgen.load(blocks(name)).build().check()
    x = hurting()
    q, scale = tkgen.operator(build, f"mx_{name}_hurt")(x)
    wanted, scales = mx.quantise(x.flatten(1), name)
    assert q.dtype is wanted.dtype and scale.dtype is torch.float8_e8m0fnu
    assert torch.equal(scale.view(torch.uint8), scales.view(torch.uint8))
    whole = ~scales.isnan()
    assert 3 <= int((~whole).sum()) < 8
    codes, rule = (mx.unpack_codes(t.flatten(1), name).unflatten(-1, (-1, 32)) for t in (q, wanted))
    assert torch.equal(codes[whole], rule[whole])


@pytest.mark.parametrize("path", [FOUR, SIX], ids=["mxfp4", "mxfp6"])
def test_the_specs(path: Path) -> None:
    spec = tkgen.load(path)
    assert isinstance(spec, Spec) and not spec.diagnostics
    golden = path.parents[2] / "generated/gfx950" / f"{path.stem}.cpp"
    assert golden.read_text(encoding="utf-8") == spec.source.text
    build = spec.build().check()
    assert build.machine_check.outcome == "right" and build.resources.clean
    assert run(build, blocks=[0, 77, 4095]).ok


@pytest.mark.parametrize("path", [FOUR, SIX], ids=["mxfp4", "mxfp6"])
@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_the_specs_under_interleavings(path: Path, count: int) -> None:
    build = tkgen.load(path, {"TOKENS": 9, "BLOCKS": 5}).build().check()
    assert isinstance(build, Build)
    for number, order in enumerate(interleavings(count)):
        found = run(build, seed=number, order=order, kind=(Inputs.EXACT, Inputs.NORMAL)[number % 2])
        assert found.ok, found.failure


def test_an_element_that_is_wrong_is_seen() -> None:
    """Mutants of the rule: another exponent, a scale that is not divided by, an element forgotten."""
    right = tkgen.load(blocks("e2m1"))
    assert isinstance(right, Spec)
    for old, new in (("- 2, -127", "- 3, -127"), ("ldexp(x, -n)", "x"), ("ldexp(x, -n)", "ldexp(max(x, 0), -n)")):
        wrong = tkgen.load(blocks("e2m1").replace(old, new))
        assert isinstance(wrong, Spec)
        x = {"X": torch.randn(16, 2, 32, generator=torch.Generator().manual_seed(5)).bfloat16()}
        meant, other = (compute(spec.program.kernel, x) for spec in (right, wrong))
        assert any(not torch.equal(meant[n].view(torch.uint8), other[n].view(torch.uint8)) for n in meant)


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("target gfx950", "target gfx942", "E204",
         "gfx942 has no e2m1: none of its instructions multiplies or converts it"),
        ("COLS = 256", "COLS = 255", "E209", "a row of `Q` has several elements in a byte, and `COLS` is 255"),
        ("Q[r] = X[r]", "Q[r] = e2m1(X[r])", "E204",
         "`e2m1` converts to e2m1, a packed type that only stores create"),
        ("X : f32", "X : e2m1", "E406",
         "`X` is e2m1, which can only be used to compute an operand of a matrix product"),
        ("X : f32[ROWS, COLS]", "X : f32[COLS, ROWS]", "E406",
         "lanes store 1 neighbors of `Q` at a time, but e2m1 shares bytes among 2"),
    ],
)  # fmt: skip
def test_what_people_get_wrong(old: str, new: str, code: str, message: str) -> None:
    text = STORED.format(given="f32", made="e2m1").replace(old, new)
    if "COLS, ROWS" in new:
        text = text.replace("over r in ROWS by 4", "over r in ROWS by 4, c in COLS by 64")
        text = text.replace("Q[r] = X[r]", "Q[r, c] = X[c, r]")
    with pytest.raises(SpecError) as caught:
        tkgen.load(text).check()
    first = caught.value.diagnostics[0]
    assert (first.code, first.message) == (code, message)


def test_products_do_not_make_them() -> None:
    product = """kernel product
  target gfx950
  dims M = 128, N = 128, K = 64
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : e2m1[M, N]
  over m in M by 64, n in N by 64
  waves 2 x 2
  shared A, B
  each k in K by 32
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = c
"""
    with pytest.raises(SpecError) as caught:
        tkgen.load(product).check()
    assert caught.value.diagnostics[0].message == "`C` is e2m1, and no product stores such values yet"
