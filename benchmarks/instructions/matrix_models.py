"""The sums of products of one element of a matrix instruction, in exact rationals.

AMD's text says "D = A * B + C". How a matrix core rounds is the model of Xie et al.
(arXiv 2511.10909), which they found bit for bit on CDNA2 and CDNA3; CDNA4 is taken to compute as CDNA3. f32 and f64
fuse each product into the sum, k ascending.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pcode


@dataclass(frozen=True)
class Number:
    """A value, and the exponent that a matrix core sees: of a subnormal number the smallest of the format."""

    value: float
    exponent: int
    least: int  # the smallest exponent of a normal number

    @property
    def exact(self) -> Fraction:
        return Fraction(self.value)


def of_value(value: float, least: int) -> Number:
    e = math.frexp(value)[1] - 1 if value and math.isfinite(value) else least
    return Number(value, max(e, least), least)


def special(products: Sequence[tuple[float, float]], c: float) -> float | None:
    """The result where an infinity or a NaN takes part; None for finite operands."""
    terms = [*(x * y for x, y in products), c]
    if all(math.isfinite(t) for t in terms):
        return None
    return sum(terms)


def single(x: Fraction) -> float:
    """An f32, rounded to nearest even; a negative number that rounds to zero keeps its sign."""
    return pcode.exactly(x, 32).value if x else 0.0


def cut(x: Fraction, unit: int, toward: Callable[[Fraction], int]) -> Fraction:
    """A multiple of 2^unit, cut by `toward` (math.trunc or math.floor)."""
    return toward(x / Fraction(2) ** unit) * Fraction(2) ** unit


def total(sum_: Fraction, top: int, c: float, drops_far: bool) -> float:
    """C and the sum of a group, whose largest exponent is `top`."""
    own = of_value(c, -126).exponent
    e = max(top, own)
    far = drops_far and own < e - 25
    return single(cut(sum_, e - 31, math.floor) + (0 if far else cut(Fraction(c), e - 24, math.floor)))


def product_exponent(x: Number, y: Number) -> int:
    return x.exponent + y.exponent if x.value and y.value else -126


def part(terms: Sequence[tuple[Number, Number]]) -> tuple[Fraction, int]:
    """Products cut 24 bits below the largest exponent, added exactly; and that exponent."""
    top = max(product_exponent(x, y) for x, y in terms)
    return sum((cut(x.exact * y.exact, top - 24, math.trunc) for x, y in terms), Fraction(0)), top


def cdna3(terms: Sequence[tuple[Number, Number]], c: float, group: int) -> float:
    """f16, bf16 (groups of 8) and xf32 (of 4)."""
    for at in range(0, len(terms), group):
        some = terms[at : at + group]
        known = special([(x.value, y.value) for x, y in some], c)
        c = known if known is not None else total(*part(some), c, drops_far=False)
    return c


def cdna3_small(terms: Sequence[tuple[Number, Number]], c: float) -> float:
    """8 bits and fewer: groups of 16, even and odd k apart."""
    for at in range(0, len(terms), 16):
        some = terms[at : at + 16]
        known = special([(x.value, y.value) for x, y in some], c)
        if known is not None:
            c = known
            continue
        parts = [part(some[odd::2]) for odd in (0, 1)]
        top = max(e for _, e in parts)
        c = total(sum((cut(s, top - 24, math.floor) for s, _ in parts), Fraction(0)), top, c, drops_far=True)
    return c


def without_subnormals(x: float, least: int) -> float:
    return math.copysign(0.0, x) if abs(x) < 2.0**least else x


def single_sum(x: float, y: float) -> float:
    """The sum of two f32, rounded, without subnormal numbers."""
    z = x + y
    z = pcode.exactly(Fraction(x) + Fraction(y), 32).value if math.isfinite(z) and z else z
    return without_subnormals(z, -126)


def cdna2(terms: Sequence[tuple[Number, Number]], c: float, group: int) -> float:
    """f16 and bf16: pairwise sums of four products (two), each step rounded and without subnormal numbers."""
    c = c if abs(c) >= 2.0**-126 or math.isnan(c) else 0.0
    for at in range(0, len(terms), group):
        sums = []
        for x, y in terms[at : at + group]:
            product = without_subnormals(x.value, x.least) * without_subnormals(y.value, y.least)
            product = pcode.exactly(Fraction(product), 32).value if math.isfinite(product) and product else product
            sums.append(without_subnormals(product, -126))
        while len(sums) > 1:
            sums = [single_sum(x, y) for x, y in zip(sums[::2], sums[1::2], strict=True)]
        c = single_sum(c, sums[0])
    return c


def fused(terms: Sequence[tuple[Number, Number]], c: float, width: int) -> float:
    """f32 and f64."""
    for x, y in terms:
        c = pcode.fma(pcode.F(width, x.value), pcode.F(width, y.value), pcode.F(width, c)).value
    return c
