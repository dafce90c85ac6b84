"""Bits of operands: edge values of each format in all combinations, then random ones."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

# Edge values by the width of a float: zeros, ones, infinities, NaNs (quiet, signalling), subnormals, the largest,
# halves, and integers about which conversions saturate.
FLOATS: Final = {
    16: (
        0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7D01, 0xFE00, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF,
        0x3800, 0xB800, 0x3E00, 0x4100, 0x4248, 0x5C00, 0x6400, 0x7800, 0xF800, 0x3555,
    ),
    32: (
        0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345,
        0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0xBF000000, 0x3FC00000, 0xC0200000,
        0x3EFFFFFF, 0x4B000001, 0x4F000000, 0x4F800000, 0xCF000000, 0x437F8000, 0x40490FDB, 0x477FE000, 0x33000000,
    ),
    64: (
        0x0000000000000000, 0x8000000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FF0000000000000,
        0xFFF0000000000000, 0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8123400000000, 0x0000000000000001,
        0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0x3FE0000000000000, 0xC004000000000000,
        0x41E0000000000000, 0xC1E0000000200000, 0x41EFFFFFFFE00000, 0x400921FB54442D18, 0x47EFFFFFE0000000,
        0x36A0000000000000,
    ),
}  # fmt: skip
BFLOATS: Final = (*(x >> 16 for x in FLOATS[32] if not 0 < x & 0x7FFFFFFF < 0x10000), 0x0001, 0x7F81)
INTEGERS: Final = (
    0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFF,
    0x800000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x00FF00FF, 0x12345678, 0x80018001,
)  # fmt: skip
LONG: Final = (
    0, 1, 31, 32, 63, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000,
    0xFFFFFFFFFFFFFFFF, 0x0123456789ABCDEF,
)  # fmt: skip
_ELEMENT: Final = re.compile(r"(?:PK(\d+)_)?([A-Z]+)(\d+)$")


def element(format: str, bits: int) -> tuple[int, str, int]:
    """Elements of an operand, the kind of one (F, BF, I, ...) and its bits."""
    found = _ELEMENT.match(format)
    if found is None or found[2] not in ("F", "BF", "FP", "I", "U", "B", "M"):
        return 1, "B", bits
    kind, width = found[2], int(found[3])
    if kind in ("BF", "FP") and width == 16:
        return bits // 16 if found[1] else 1, "BF", 16
    if kind in ("BF", "FP"):  # 8 bits and fewer: any bits are a number
        return max(bits // 32, 1), "B", min(bits, 32)
    if kind != "F" and not found[1]:
        return 1, "B", bits
    return max(int(found[1] or 1), 1), kind, width


def edges(kind: str, width: int) -> tuple[int, ...]:
    """The edge values of an element."""
    if kind == "BF":
        return BFLOATS
    if kind == "F" and width in FLOATS:
        return FLOATS[width]
    most = (1 << width) - 1
    return tuple(dict.fromkeys(x & most for x in (LONG if width > 32 else INTEGERS)))


def operand(format: str, bits: int, count: int, stride: int, rng: np.random.Generator) -> Words:
    """`count` values of an operand of at most 64 bits.

    Those of the first half go through all edges, each `stride` times in a row, so that operands with different strides
    meet in all combinations. The rest is a third edges, and else random.
    """
    number, kind, width = element(format, bits)
    found = np.zeros(count, np.uint64)
    some = np.array(edges(kind, width), np.uint64)
    for place in range(number):
        if place * width >= 64:
            break
        half = count // 2
        chosen = some[(np.arange(half) // stride + 3 * place) % len(some)]
        found |= np.concatenate([chosen, drawn(kind, width, count - half, rng)]) << np.uint64(place * width)
    return found


def drawn(kind: str, width: int, count: int, rng: np.random.Generator, edge: float = 0.33) -> Words:
    """Random elements, a part of them edges."""
    found = rng.integers(0, 1 << min(width, 63), count, dtype=np.uint64)
    if kind in ("F", "BF"):
        with np.errstate(over="ignore"):
            numbers = rng.standard_normal(count) * 2.0 ** rng.integers(-8, 9, count)
            found = encoded(numbers, kind, width)
    some = np.array(edges(kind, width), np.uint64)
    return np.where(rng.random(count) < edge, rng.choice(some, count), found)


def encoded(numbers: npt.NDArray[np.float64], kind: str, width: int) -> Words:
    """Numbers in a float format; those of bf16 are cut, not rounded."""
    if kind == "BF":
        return numbers.astype(np.float32).view(np.uint32).astype(np.uint64) >> np.uint64(16)
    if width == 16:
        return numbers.astype(np.float16).view(np.uint16).astype(np.uint64)
    if width == 32:
        return numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
    return numbers.view(np.uint64)
