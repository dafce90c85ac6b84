"""Products of 8-bit floats and of integers on the emulator: the specs, and the ways that a factor can go."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path

import pytest
import torch
from sampling import sample

import tkgen
from tkgen import Spec
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run, trials

SPECS = Path(__file__).parents[2] / "specs" / "low_precision"
TARGETS = {
    "fp8": ("gfx942",), "fp8_direct": ("gfx950",), "fp8_rowwise": ("gfx942", "gfx950"),
    "i8": ("gfx90a", "gfx942", "gfx950"),
}  # fmt: skip

GEMM = """kernel gemm
  dims M = {m}, N = {n}, K = {k}
  global A : {dtype}[M, K]
  global B : {dtype}[N, K]
  global C : {out}[M, N]
  over m in M by 64, n in N by 64
{clauses}
  each k in K by {step}
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = c
"""


def gemm(dtype: str, out: str, clauses: str, m: int = 64, n: int = 128, k: int = 256, step: int = 128) -> str:
    lines = "\n".join(f"  {line.strip()}" for line in clauses.splitlines())
    return GEMM.format(m=m, n=n, k=k, step=step, dtype=dtype, out=out, clauses=lines)


def assert_right(text: str, target: str, count: int = 2) -> None:
    """Under `count` interleavings, with exact and with other inputs."""
    build = tkgen.load(text, target=target).check().build()
    assert isinstance(build.spec, Spec)
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    for number, (order, kind) in enumerate(trials(count)):
        ran = run(build, order=order, kind=kind, seed=number)
        assert ran.ok, f"{target}, {kind}, {order}: {ran.failure}\n{text}"


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "target"), sample([(n, t) for n, ts in TARGETS.items() for t in ts], 2, several=True))
def test_the_specs_under_many_interleavings(name: str, target: str, count: int) -> None:
    """One block of three K-steps; the sizes that need not divide do not."""
    masked = name == "fp8_rowwise"
    sizes = {"M": 200, "N": 136, "K": 328} if masked else {"M": 256, "N": 256, "K": 384}
    build = tkgen.load(SPECS / f"{name}.tk", sizes, target).check().build()
    assert isinstance(build.spec, Spec)
    for number, order in enumerate(interleavings(count)):
        ran = run(build, order=order, kind=(Inputs.EXACT, Inputs.NORMAL)[number % 2], seed=number, workers=2)
        assert ran.ok, f"{order}: {ran.failure}"


@pytest.mark.parametrize("name", TARGETS)
def test_the_specs_spill_nothing_and_multiply_in_the_longest_instructions(name: str) -> None:
    expected = {
        ("fp8", "gfx942"): "16x16x32_fp8_fp8", ("fp8_direct", "gfx950"): "16x16x128_f8f6f4",
        ("fp8_rowwise", "gfx942"): "16x16x32_fp8_fp8", ("fp8_rowwise", "gfx950"): "16x16x128_f8f6f4",
        ("i8", "gfx90a"): "16x16x16i8", ("i8", "gfx942"): "16x16x32_i8", ("i8", "gfx950"): "16x16x64_i8",
    }  # fmt: skip
    for target in TARGETS[name]:
        build = tkgen.load(SPECS / f"{name}.tk", target=target).check().build().check()
        assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
        used = {line.split()[0] for line in build.asm.splitlines() if line.strip().startswith("v_mfma")}
        kind = "i32" if name == "i8" else "f32"
        assert used == {f"v_mfma_{kind}_{expected[name, target]}"}


WAYS = {
    "collective": "waves 2 x 2\nshared A, B buffers 2",
    "registers": "waves 2 x 2\nshared A, B via registers\nregisters A, B slice 64",
    "past LDS": "waves 2 x 2\nregisters A, B slice 64 buffers 2",
    "one past LDS": "waves 1 x 2\nshared A buffers 2\nregisters B slice 64 buffers 3",
    "32 x 32": "waves 2 x 2\nshared A, B buffers 2\naccumulate c : {sums} tile 32 x 32 mfma 32 x 32",
    "32 x 32 past LDS": "waves 2 x 2\nregisters A, B slice 32\naccumulate c : {sums} tile 32 x 32 mfma 32 x 32",
}


def ways() -> Iterator[object]:
    """Each way with each type on both targets; by default with one type, in turn."""
    kinds = [(d, o, t) for d, o in (("fp8", "f32"), ("bf8", "bf16"), ("i8", "i32")) for t in ("gfx942", "gfx950")]
    for number, way in enumerate(WAYS):
        for at, (dtype, out, target) in enumerate(kinds):
            marks = () if at in (number, (number + 3) % len(kinds)) else (pytest.mark.slow,)
            yield pytest.param(way, dtype, out, target, marks=marks)


@pytest.mark.parametrize(("way", "dtype", "out", "target"), sample(list(ways()), 2, several=True))
def test_ways_to_registers(way: str, dtype: str, out: str, target: str) -> None:
    sums = "i32" if dtype == "i8" else "f32"
    assert_right(gemm(dtype, out, WAYS[way].format(sums=sums)), target)


ENCODINGS = (("fp8", "bf8"), ("bf8", "fp8"))
MIXED = [(way, types, target) for way in WAYS for types in ENCODINGS for target in ("gfx942", "gfx950")]


@pytest.mark.parametrize(("way", "types", "target"), sample(MIXED, 6, several=True))
def test_one_factor_of_each_encoding(way: str, types: tuple[str, str], target: str) -> None:
    """The larger range for gradients, the finer numbers for weights: each factor's format is the instruction's."""
    text = gemm("fp8", "f32", WAYS[way].format(sums="f32"))
    for name, dtype in zip("AB", types, strict=True):
        text = text.replace(f"{name} : fp8", f"{name} : {dtype}")
    assert_right(text, target)


@pytest.mark.parametrize("side", [16, 32])
@pytest.mark.parametrize(("dtype", "out"), [("fp8", "f32"), ("bf8", "f32"), ("i8", "i32")])
def test_direct_loads(dtype: str, out: str, side: int) -> None:
    sums = "i32" if dtype == "i8" else "f32"
    clauses = f"""waves 2 x 2
shared A, B buffers 2 via direct
registers A, B slice 128
accumulate c : {sums} tile 32 x 32 mfma {side} x {side}"""
    assert_right(gemm(dtype, out, clauses), "gfx950")


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_few_steps(steps: int, target: str) -> None:
    assert_right(gemm("fp8", "fp8", WAYS["collective"], k=128 * steps), target, 1)


@pytest.mark.parametrize("way", ["collective", "registers", "past LDS"])
@pytest.mark.parametrize(("dtype", "out"), sample([("fp8", "fp8"), ("i8", "i32"), ("i8", "i8")], 2, several=True))
def test_sizes_that_do_not_divide(way: str, dtype: str, out: str) -> None:
    """Rows of whole 16 bytes, and others."""
    clauses = WAYS[way] + "\ntail masked"
    assert_right(gemm(dtype, out, clauses, 72, 40, 208), "gfx942")
    assert_right(gemm(dtype, out, clauses, 33, 70, 131), "gfx950")


def test_sums_of_whole_numbers_are_exact_beyond_what_floats_hold() -> None:
    """127 squared, 4096 times, is 2 to the 26, less a little: an odd addend would be lost in f32."""
    text = gemm("i8", "i32", WAYS["collective"], 64, 64, 4096)
    a = torch.full((64, 4096), 127, dtype=torch.int8)
    b = a.clone()
    b[:, 0] = 126  # an odd number
    found = tkgen.operator(tkgen.load(text, target="gfx942").check().build(), "exact_i8")(a, b)
    assert torch.equal(found, torch.full((64, 64), 127 * 127 * 4095 + 127 * 126, dtype=torch.int32))


def test_scales_of_rows_columns_and_the_output_agree_with_torch() -> None:
    """The spec against a reference that is written with torch alone."""
    m, n, k, out = 200, 136, 192, 0.05
    build = tkgen.load(SPECS / "fp8_rowwise.tk", {"M": m, "N": n, "K": k}, "gfx950").check().build()
    generator = torch.Generator().manual_seed(3)
    a, b = (torch.randn(size, k, generator=generator).to(torch.float8_e4m3fn) for size in (m, n))
    s, t = torch.rand(m, generator=generator), torch.rand(n, generator=generator)
    scaled = tkgen.operator(build, "fp8_rowwise_950")
    c, amax = scaled(a, b, s, t, out=out)
    v = s[:, None].double() * (a.double() @ b.double().T) * t.double()
    assert c.dtype == torch.float8_e4m3fn
    assert ((c.double() - out * v).abs() <= 2**-4 * (out * v).abs() + 2.0**-10).all()
    tiles = torch.nn.functional.pad(v.abs(), (0, -n % 128, 0, -m % 128)).unflatten(1, (-1, 128)).unflatten(0, (-1, 128))
    torch.testing.assert_close(amax.double(), tiles.amax((1, 3)), rtol=1e-5, atol=1e-5)
    assert amax.shape == (ceil(m / 128), ceil(n / 128))


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (("B : fp8[N, K]", "B : bf16[N, K]"), "E204", "no matrix instruction accepts both"),
        (("B : fp8[N, K]", "B : fp8[K, N]"), "E204", "`B` of e4m3fnuz is stored with `K` first"),
        (("by 128", "by 96"), "E208", "does not divide the K-step of 96 into multiples of 64"),
        (("waves 2 x 2", "waves 2 x 2\n  accumulate c : i32 tile 32 x 32"), "E204", "are summed in f32, not i32"),
        (("fp8[", "e5m2["), "E204", "gfx942 has no e5m2"),
    ],
)
def test_mistakes(change: tuple[str, str], code: str, message: str) -> None:
    text = gemm("fp8", "f32", WAYS["collective"]).replace(
        "B[n, k].T", "B[k, n]" if "[K, N]" in change[1] else "B[n, k].T"
    )
    with pytest.raises(SpecError, match=message) as raised:
        tkgen.load(text.replace(*change), target="gfx942").check()
    assert {d.code for d in raised.value.diagnostics} == {code}


def test_parts_of_whole_sums_are_not_added_as_floats() -> None:
    text = gemm("i8", "f32", "waves 2 x 2\nshared A, B\ngrid split_k(2)")
    with pytest.raises(SpecError, match="would add parts of integer sums as floats"):
        tkgen.load(text).check()
