"""Floats of 8 and 4 bits: their values, rounding to nearest even, and the conversions that the pseudo-code names.

A format is given by its exponent and mantissa bits and its flavour: `fnuz` (gfx90a, gfx942: no infinities, one NaN,
no minus zero), `ocp` (gfx950: e4m3 with one NaN, e5m2 as IEEE) or `finite` (4 bits). Scales are powers of two, given
as the exponent field of an f32 ("scale" of `v_cvt_scalef32_*`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise

from pcode.operations import bfloat
from pcode.values import B, Env, F, Value, bits_of, exactly, float_of, number, raw, rounded


@dataclass(frozen=True)
class Format:
    exponent: int
    mantissa: int
    flavour: str

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa

    def magnitude(self, code: int) -> Fraction:
        """Of a code without its sign, as if no code were special."""
        bias = (1 << self.exponent - 1) - (0 if self.flavour == "fnuz" else 1)
        e, m = code >> self.mantissa, code & (1 << self.mantissa) - 1
        return Fraction(m + (1 << self.mantissa if e else 0)) * Fraction(2) ** (max(e, 1) - bias - self.mantissa)

    @property
    def largest(self) -> int:
        codes = 1 << self.exponent + self.mantissa
        if self.flavour == "ocp":
            return codes - 2 if self.exponent == 4 else codes - (1 << self.mantissa) - 1
        return codes - 1

    def value(self, code: int) -> float:
        sign, code = code >> self.width - 1 & 1, code & (1 << self.width - 1) - 1
        if self.flavour == "fnuz" and sign and not code:
            return math.nan
        if code > self.largest:
            infinite = self.flavour == "ocp" and self.exponent == 5 and code == self.largest + 1
            return math.copysign(math.inf if infinite else math.nan, -1 if sign else 1)
        return math.copysign(float(self.magnitude(code)), -1 if sign else 1)

    def code(self, x: float | Fraction, negative: bool, saturates: bool) -> int | None:
        """The nearest code, ties to even; None for NaN."""
        sign = 1 << self.width - 1 if negative else 0
        if isinstance(x, float) and math.isnan(x):
            return None
        infinite = isinstance(x, float) and math.isinf(x)
        if infinite and self.flavour == "ocp" and self.exponent == 5:
            return sign | self.largest + 1
        best = self.largest + 1 if infinite else nearest(self, abs(Fraction(x)))
        if best > self.largest:
            if saturates or self.flavour == "finite":
                return sign | self.largest
            return sign | self.largest + 1 if self.flavour == "ocp" and self.exponent == 5 else None
        return 0 if self.flavour == "fnuz" and best == 0 else sign | best


@cache
def ladder(kind: Format) -> list[Fraction]:
    """All magnitudes, and one beyond the largest."""
    return [kind.magnitude(code) for code in range(kind.largest + 2)]


def nearest(kind: Format, x: Fraction) -> int:
    steps = ladder(kind)
    for code, (low, high) in enumerate(pairwise(steps)):
        if x <= high:
            middle = (low + high) / 2
            return code + (x > middle or (x == middle and code % 2 == 1))
    return len(steps) - 1


def format_of(name: str, e: Env) -> Format:
    flavour = e.get("FLAVOUR", "ocp")
    return {"fp8": Format(4, 3, flavour), "bf8": Format(5, 2, flavour), "fp4": Format(2, 1, "finite")}[name]


def scaled(x: F, scale: int) -> float | Fraction:
    if scale == 255:
        return math.nan
    return Fraction(x.value) * Fraction(2) ** scale if math.isfinite(x.value) else x.value


def to_small(name: str) -> Callable[..., Value]:
    def convert(e: Env, x: F, *scale: Value) -> B:
        kind = format_of(name, e)
        exponent = 127 - number(scale[0]) if scale else 0
        lost = bool(scale) and number(scale[0]) == 255
        value = math.nan if lost else scaled(x, exponent)
        negative = raw(x, x.width) >> x.width - 1 == 1 and (not lost or math.isnan(x.value))
        code = kind.code(value, negative, bool(e.get("OVFL")))
        return B(kind.width, not_a_number(kind, negative) if code is None else code)

    return convert


def not_a_number(kind: Format, negative: bool) -> int:
    if kind.flavour == "finite":  # which has no NaN: the largest
        return kind.largest | negative << kind.width - 1
    return 0x80 if kind.flavour == "fnuz" else 0x7F | negative << 7


LARGEST = float_of(0x7F7FFFFF, 32)


def within(bits: int) -> int:
    """The bits of an f32, infinity where a sum has left its range."""
    return bits if bits >> 23 & 255 != 255 else bits >> 23 << 23


def to_small_at_random(name: str) -> Callable[..., Value]:
    """The random bits are added below the mantissa that is kept, then the value is cut."""

    def convert(e: Env, x: F, random: Value, scale: Value) -> B:
        kind = format_of(name, e)
        if not math.isfinite(x.value) or number(scale) == 255:
            return to_small(name)(e, x, scale)
        down = exactly(Fraction(x.value) / Fraction(2) ** (number(scale) - 127), 32, x.value)
        if not math.isfinite(down.value):  # out of the range of f32
            down = F(32, math.copysign(LARGEST, x.value))
        kept = kind.mantissa
        bits = bits_of(down.value, 32) + (number(random) >> 9 + kept)
        return to_small(name)(e, F(32, float_of(within(bits) & ~((1 << 23 - kept) - 1), 32)))

    return convert


def from_small(name: str, wide: str) -> Callable[..., Value]:
    def convert(e: Env, x: Value, *scale: Value) -> Value:
        value = format_of(name, e).value(number(x))
        exponent = number(scale[0]) if scale else 127
        f = F(32, math.nan if exponent == 255 else value)
        if math.isfinite(f.value):
            f = exactly(Fraction(value) * Fraction(2) ** (exponent - 127), 32, value)
        return bfloat(f) if wide == "bf16" else rounded(f.value, int(wide[1:]))

    return convert


WIDE, SMALL = ("f32", "f16", "bf16"), ("fp8", "bf8", "fp4")
CONVERSIONS: dict[str, Callable[..., Value]] = {
    f"{w}_to_{s}_sr_scale": to_small_at_random(s) for w in WIDE for s in SMALL
}
CONVERSIONS |= {f"{w}_to_{s}{scale}": to_small(s) for w in WIDE for s in SMALL for scale in ("", "_scale")}
CONVERSIONS |= {f"{s}_to_{w}{scale}": from_small(s, w) for w in WIDE for s in SMALL for scale in ("", "_scale")}
