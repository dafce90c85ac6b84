"""Values of the pseudo-code: floats with a width, bits, integers of a type, and their conversions."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class F:
    """A float of `width` bits; the value is exact in a Python float; `nan` are the bits of a NaN that was read."""

    width: int
    value: float
    nan: int = 0

    @property
    def signals(self) -> bool:
        """True for a signalling NaN."""
        return bool(self.nan) and not self.nan >> FRACTION[self.width] - 1 & 1


@dataclass(frozen=True)
class B:
    """Bits with a known width, as concatenations and typed reads make them."""

    width: int
    value: int


@dataclass(frozen=True)
class Power:
    """A power of two, of a float of `width` bits, with an unbounded exponent."""

    width: int
    exponent: int


class Int(int):
    """An integer read with a type: remembers its width for concatenations."""

    width = 32


def integer(value: int, width: int) -> Int:
    out = Int(value)
    out.width = width
    return out


Value = Any  # int, F, B or bool


def float_of(bits: int, width: int) -> float:
    if width == 64:
        return struct.unpack("<d", struct.pack("<Q", bits))[0]
    if width == 32:
        return struct.unpack("<f", struct.pack("<I", bits))[0]
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def bits_of(x: float, width: int) -> int:
    if math.isnan(x):
        return {64: 0x7FF8 << 48, 32: 0x7FC00000, 16: 0x7E00}[width]
    if width == 64:
        return struct.unpack("<Q", struct.pack("<d", x))[0]
    return struct.unpack("<I", struct.pack("<f", x))[0] if width == 32 else struct.unpack("<H", struct.pack("<e", x))[0]


def rounded(x: float, width: int) -> F:
    """To nearest even; overflow gives infinity."""
    if width == 64 or math.isnan(x) or math.isinf(x):
        return F(width, x)
    try:
        return F(
            width,
            struct.unpack("<f", struct.pack("<f", x))[0]
            if width == 32
            else struct.unpack("<e", struct.pack("<e", x))[0],
        )
    except OverflowError:
        return F(width, math.copysign(math.inf, x))


def exactly(x: Fraction, width: int, zero: float = 0.0) -> F:
    """A rational number rounded once."""
    if x == 0:
        return F(width, zero)
    mantissa, least = {64: (53, -1074), 32: (24, -149), 16: (11, -24)}[width]
    e = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
    if abs(x) < Fraction(2) ** e:
        e -= 1
    unit = max(e - mantissa + 1, least)
    n = round(x / Fraction(2) ** unit)  # half to even
    try:
        return rounded(math.copysign(math.ldexp(n, unit), 1 if x > 0 else -1), width)
    except OverflowError:
        return F(width, math.inf if x > 0 else -math.inf)


def fma(a: F, b: F, c: F) -> F:
    w = a.width
    if not all(math.isfinite(v.value) for v in (a, b, c)):
        try:
            return F(
                w,
                a.value * b.value + c.value
                if math.isfinite(c.value) or not math.isfinite(a.value * b.value)
                else c.value,
            )
        except OverflowError:
            return F(w, c.value)
    product_zero = a.value * b.value if a.value == 0 or b.value == 0 else 1.0
    zero = product_zero + c.value if product_zero == 0 and c.value == 0 else 0.0
    return exactly(Fraction(a.value) * Fraction(b.value) + Fraction(c.value), w, zero)


FRACTION = {16: 10, 32: 23, 64: 52}  # bits of a float beside its sign and exponent
TYPE = re.compile(r"^(?:bf|fp|[uifb])\d+$")


def typed(bits: int, name: str) -> Value:
    kind, width = re.match(r"([a-z]+)(\d+)", name).groups()
    width = int(width)
    bits &= (1 << width) - 1
    if kind == "u":
        return integer(bits, width)
    if kind == "i":
        return integer(bits - (1 << width) if bits >> (width - 1) else bits, width)
    if kind == "f":
        value = float_of(bits, width)
        return F(width, value, bits if math.isnan(value) else 0)
    if name == "bf16":
        return typed(bits << 16, "f32")
    return B(width, bits)


def raw(x: Value, width: int) -> int:
    """The bits of a value, cut to `width`."""
    if isinstance(x, F):
        return (x.nan or bits_of(x.value, x.width)) & ((1 << width) - 1)
    if isinstance(x, B):
        return x.value & ((1 << width) - 1)
    return int(x) & ((1 << width) - 1)


def number(x: Value) -> int:
    return x.value if isinstance(x, B) else int(x.value) if isinstance(x, F) else int(x)


def truth(x: Value) -> bool:
    return bool(x.value) if isinstance(x, (B, F)) else bool(x)


class Break(Exception):
    pass


class Return(Exception):
    def __init__(self, value: Value):
        self.value = value


class Env(dict):
    """Variables: registers are (width, bits) through B; `lane` values are in the environment by name."""


Expr = Callable[[Env], Value]
Stmt = Callable[[Env], None]
