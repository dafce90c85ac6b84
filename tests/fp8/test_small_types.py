"""8-bit floats and integers: every code loaded, every kind of number stored, on the emulator against torch."""

from __future__ import annotations

from math import inf, nan

import pytest
import torch

import tkgen
from tkgen import fp8
from tkgen.diagnostics import SpecError

E4M3FN, E4M3FNUZ = torch.float8_e4m3fn, torch.float8_e4m3fnuz
E5M2, E5M2FNUZ = torch.float8_e5m2, torch.float8_e5m2fnuz
OWN = {
    ("gfx942", "fp8"): E4M3FNUZ, ("gfx942", "bf8"): E5M2FNUZ,
    ("gfx950", "fp8"): E4M3FN, ("gfx950", "bf8"): E5M2,
}  # fmt: skip
SPELLED = {E4M3FN: "e4m3fn", E4M3FNUZ: "e4m3fnuz", E5M2: "e5m2", E5M2FNUZ: "e5m2fnuz"}
CODES = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(2, 128)


def copy(source: str, dest: str) -> str:
    return f"""kernel copy
  dims R = 2, D = 128
  global X : {source}[R, D]
  global Y : {dest}[R, D]
  over r in R by 2
  waves 2
  Y[r] = X[r]
"""


def copied(x: torch.Tensor, source: str, dest: str, target: str) -> torch.Tensor:
    """A 2 x 128 tensor as a kernel stores it that loads `source` and stores `dest`."""
    build = tkgen.load(copy(source, dest), target=target).check().build()
    found: torch.Tensor = tkgen.operator(build, f"copy_{source}_{dest}_{target}")(x)
    return found


def padded(numbers: list[float]) -> torch.Tensor:
    """At the beginning of 2 x 128 numbers."""
    return torch.tensor([*numbers, *[0.0] * (256 - len(numbers))]).view(2, 128)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal, NaN equal to NaN, -0 told from 0."""
    a, b = a.double(), b.double()
    return bool(((a == b) & (a.signbit() == b.signbit()) | a.isnan() & b.isnan()).all())


@pytest.mark.parametrize(("target", "name"), OWN)
def test_every_code_is_loaded_as_torch_reads_it(target: str, name: str) -> None:
    codes = CODES.view(OWN[target, name])
    assert same(copied(codes, name, "f32", target), codes.float())
    assert same(copied(codes, SPELLED[codes.dtype], "f32", target), codes.float())


@pytest.mark.parametrize(("target", "name"), OWN)
def test_every_code_comes_back(target: str, name: str) -> None:
    dtype = OWN[target, name]
    numbers = CODES.view(dtype).float()
    assert same(copied(numbers, "f32", name, target).float(), numbers)


@pytest.mark.parametrize(("target", "name"), OWN)
def test_numbers_between_two_codes_are_rounded_as_torch_does(target: str, name: str) -> None:
    dtype = OWN[target, name]
    finite = CODES.view(dtype).float().flatten()
    finite = finite[finite.isfinite()].sort().values
    middles = (finite[1:] + finite[:-1]) / 2
    for numbers in (middles, middles.nextafter(torch.tensor(inf)), middles.nextafter(torch.tensor(-inf))):
        x = padded(numbers.tolist())
        assert same(copied(x, "f32", name, target).float(), x.to(dtype).float())


@pytest.mark.parametrize(("target", "name"), OWN)
def test_what_is_too_large_becomes_the_largest(target: str, name: str) -> None:
    dtype = OWN[target, name]
    most = torch.finfo(dtype).max
    beyond = inf if dtype is E5M2 else nan
    x = padded([most, 1.01 * most, 1e30, -1e30, inf, -inf, nan])
    expected = padded([most, most, most, -most, beyond, -beyond, nan])
    found = copied(x, "f32", name, target)
    assert same(found.float().abs(), expected.abs())
    numbers = expected.flatten()[:6]
    assert same(found.float().flatten()[:6].nan_to_num(0), numbers.nan_to_num(0))


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_whole_numbers_are_rounded_to_even_and_stop_at_their_ends(target: str) -> None:
    x = padded([0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.4, 127.6, 128.0, 1e9, -128.4, -129.0, -1e30, inf, -inf, nan])
    small = [0, 2, 2, 0, -2, 126, 127, 127, 127, 127, -128, -128, -128, 127, -128, -128]
    assert copied(x, "f32", "i8", target).flatten()[:16].tolist() == small
    least, most = -(2**31), 2**31 - 1
    y = padded([0.5, 1.5, -2.5, 2147483520.0, 2147483648.0, -2147483648.0, 3e9, -3e9, inf, -inf, nan])
    large = [0, 2, -2, 2147483520, most, least, most, least, most, least, least]
    assert copied(y, "f32", "i32", target).flatten()[:11].tolist() == large


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_every_whole_number_of_8_bits_is_loaded(target: str) -> None:
    codes = CODES.view(torch.int8)
    assert same(copied(codes, "i8", "f32", target) + 0.0, codes.float())
    wide = codes.int() * 65537
    assert same(copied(wide, "i32", "f32", target) + 0.0, wide.float())


@pytest.mark.parametrize(("ocp", "fnuz"), [(E4M3FN, E4M3FNUZ), (E5M2, E5M2FNUZ)])
def test_weights_of_ocps_encoding_are_the_same_numbers_in_the_other(ocp: torch.dtype, fnuz: torch.dtype) -> None:
    codes, scale = CODES.view(ocp), torch.tensor(0.375)
    found, doubled = fp8.convert(codes, scale, fnuz)
    assert found.dtype == fnuz
    numbers = codes.double() * scale
    numbers = torch.where(numbers.isinf(), nan, numbers)
    there = found.double() * doubled
    assert torch.equal(there.isnan(), numbers.isnan())
    assert torch.equal(there.nan_to_num(0), numbers.nan_to_num(0))
    assert not (found.view(torch.uint8).flatten()[0x80] or found.double().isnan().all())  # -0 is no NaN


@pytest.mark.parametrize(("ocp", "fnuz"), [(E4M3FN, E4M3FNUZ), (E5M2, E5M2FNUZ)])
def test_and_back_where_ocp_has_a_code(ocp: torch.dtype, fnuz: torch.dtype) -> None:
    codes = CODES.view(fnuz)
    found, half = fp8.convert(codes, torch.tensor(2.0), ocp)
    numbers, there = codes.double() * 2, found.double() * half
    assert torch.equal(there.isnan(), numbers.isnan())
    most = torch.finfo(ocp).max * half
    assert torch.equal(there.nan_to_num(0), numbers.nan_to_num(0).clamp(-most, most))


def test_other_types_are_no_twins() -> None:
    with pytest.raises(ValueError, match="two encodings"):
        fp8.convert(CODES.view(E4M3FN), torch.tensor(1.0), E5M2FNUZ)


def test_a_target_refuses_the_encoding_of_the_other() -> None:
    for name, target, its in (("e4m3fn", "gfx942", "e4m3fnuz"), ("e5m2fnuz", "gfx950", "e5m2")):
        with pytest.raises(SpecError, match=f"{target} has no {name}: its (fp|bf)8 is {its}"):
            tkgen.load(copy(name, "f32"), target=target)
    with pytest.raises(SpecError, match="no 8-bit floats"):
        tkgen.load(copy("fp8", "f32"), target="gfx90a")
