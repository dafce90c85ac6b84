"""The two fields in which `tkgen verify` computes: Z_p and Z_q, q dividing p - 1.

A number has a payload: its image in both. Sums, products and quotients of images are the images of sums, products and
quotients, so two ways to compute the same polynomial or quotient have the same payload, whatever their order. q is
there for exponents: 2 is a square modulo p, because p is 7 modulo 8, so it has the order q = (p - 1) / 2 (Euler's
criterion, and the second supplement to quadratic reciprocity), and 2^x with x in Z_q is in Z_p, with
2^(x + y) = 2^x 2^y. This is Li and Wu, "Identity Testing for Circuits with Exponentiation Gates" (ITCS 2026), and
section 5 of Mirage (arXiv 2405.05751), with the base 2: so powers of two with whole exponents are the true ones, and
code that splits an exponent in two loses nothing.

p is the largest such prime below 2^31: a product of two elements fits into 62 bits. Tensors are int64, elements are
from 0 to before the modulus; a q value that nobody knows, such as that of a power, is `ABSENT`.

>>> int(power_of_two(torch.tensor([10]))[0])
1024
"""

from __future__ import annotations

from functools import cache
from typing import Final

import torch
from torch import Tensor

P: Final = 2_147_481_143
Q: Final = 1_073_740_571
ABSENT: Final = -1  # of q values
_LEAST, _MOST = -1200, 1100  # exponents of two of which there is a table: f64 has -1074 to 1023
_HALF = 15  # bits; an exponent of Z_q has twice as many
_MASK32 = 0xFFFFFFFF
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def image(real: Tensor, modulus: int) -> Tensor:
    """The images of f64 numbers, which are whole multiples of powers of two; of infinities and NaNs zero."""
    mantissa, exponent = torch.frexp(torch.where(real.isfinite(), real, 0.0))
    whole = (mantissa * 2.0**53).long() % modulus
    return whole * _powers(modulus)[exponent.long() - 53 - _LEAST] % modulus


@cache
def _powers(modulus: int) -> Tensor:
    """2^n in the field, for n from `_LEAST` on."""
    return torch.tensor([pow(2, n, modulus) for n in range(_LEAST, _MOST)], dtype=torch.int64)


def inverse(values: Tensor, modulus: int) -> Tensor:
    """One through each, by Fermat's little theorem; of zero zero."""
    result, power, rest = torch.ones_like(values), values, modulus - 2
    while rest:
        if rest & 1:
            result = result * power % modulus
        power, rest = power * power % modulus, rest >> 1
    return result


def power_of_two(exponents: Tensor) -> Tensor:
    """2^x in Z_p for x in Z_q."""
    low, high = _tables()
    return low[exponents & ((1 << _HALF) - 1)] * high[exponents >> _HALF] % P


@cache
def _tables() -> tuple[Tensor, Tensor]:
    """2^n, and 2^(n 2^15), for n below 2^15."""
    found = []
    for step in (2, pow(2, 1 << _HALF, P)):
        powers = [1]
        for _ in range((1 << _HALF) - 1):
            powers.append(powers[-1] * step % P)
        found.append(torch.tensor(powers, dtype=torch.int64))
    return found[0], found[1]


def hashed(tag: str, values: Tensor, modulus: int) -> Tensor:
    """A function of which nothing is known but that equal arguments give equal results: a hash of `values` in Z_p.

    The finaliser of splitmix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014) over
    the tag's letters and the argument, modulo the field's size. Arithmetic on int64 is that on u64 except for shifts.
    """
    z = values * _signed(_GOLDEN) ^ int.from_bytes(tag.encode("ascii"), "little")
    z = (z ^ _shifted(z, 30)) * _signed(_FIRST)
    z = (z ^ _shifted(z, 27)) * _signed(_SECOND)
    z = z ^ _shifted(z, 31)
    return ((_shifted(z, 32) % modulus) * (2**32 % modulus) + (z & _MASK32)) % modulus


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _shifted(z: Tensor, by: int) -> Tensor:
    """To the right, zeros following."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def multiplied(a: Tensor, b: Tensor, modulus: int) -> Tensor:
    """The matrix product of batches of matrices, exactly: in f64 products of 16-bit halves, sums of which f64 holds.

    Raises ValueError for more than 2^20 products in a sum.
    """
    if a.shape[-1] > 1 << 20:
        raise ValueError("more than 2^20 products in a sum")
    parts = [((x & 0xFFFF).double(), (x >> 16).double()) for x in (a, b)]
    (a_low, a_high), (b_low, b_high) = parts
    low, high = (a_low @ b_low).long() % modulus, (a_high @ b_high).long() % modulus
    middle = (a_low @ b_high + a_high @ b_low).long() % modulus
    return (low + (middle << 16) + (high * (2**32 % modulus))) % modulus
