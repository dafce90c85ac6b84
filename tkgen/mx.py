"""Tensors of OCP's Microscaling formats (MX, revision 1.0): floats of 4 and 6 bits, packed to bytes.

Rows are packed as matrix instructions of gfx950 read them (CDNA4 ISA): each element in the bits above the one before
it, from the lowest bit of a row's first byte on. So `e2m1` is two in a byte, torch's `float4_e2m1fn_x2`, and `e2m3` and
`e3m2` are four in three bytes, of which torch has no type: they are `uint8`.

>>> a = pack(torch.randn(256, 512), "e2m1")                 # 256 x 256 of torch.float4_e2m1fn_x2
>>> unpack(a, "e2m1").shape
torch.Size([256, 512])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import lcm

import torch
from torch import Tensor


@dataclass(frozen=True)
class Format:
    """A float without infinities and NaN: its bits, sign included, and the bias of its exponent (MX, section 5.3)."""

    exponent: int
    fraction: int
    bias: int
    stored: torch.dtype

    @property
    def bits(self) -> int:
        """Of one element."""
        return 1 + self.exponent + self.fraction


FORMATS = {
    "e2m1": Format(2, 1, 1, torch.float4_e2m1fn_x2),
    "e2m3": Format(2, 3, 1, torch.uint8),
    "e3m2": Format(3, 2, 3, torch.uint8),
}


def format_of(name: str) -> Format:
    """The format of that name. Raises ValueError for another."""
    if name not in FORMATS:
        raise ValueError(f"`{name}` is no format that is packed: these are {', '.join(FORMATS)}")
    return FORMATS[name]


@cache
def _magnitudes(name: str) -> Tensor:
    """The numbers of the codes without a sign, which ascend as the codes do."""
    f = format_of(name)
    codes = torch.arange(1 << f.exponent + f.fraction)
    exponent, fraction = codes >> f.fraction, codes & (1 << f.fraction) - 1
    significand = fraction + torch.where(exponent > 0, 1 << f.fraction, 0)
    return torch.ldexp(significand.float(), exponent.clamp(min=1) - f.bias - f.fraction)


def decode(codes: Tensor, name: str) -> Tensor:
    """The numbers, in f32, of codes in the lowest bits of whole ones."""
    magnitudes, codes = _magnitudes(name).to(codes.device), codes.long()
    value = magnitudes[codes & len(magnitudes) - 1]
    return torch.where(codes & len(magnitudes) > 0, -value, value)


def encode(values: Tensor, name: str) -> Tensor:
    """The codes, as `uint8`, of numbers rounded to nearest even; beyond the largest one they are that.

    Raises:
        ValueError: a NaN, for which these formats have no code.
    """
    if values.isnan().any():
        raise ValueError(f"{name} has no NaN: that of a block is its scale's")
    magnitudes = _magnitudes(name).to(values.device, torch.float64)
    between = (magnitudes[1:] + magnitudes[:-1]) / 2
    wanted = values.double().abs().contiguous()
    code = torch.searchsorted(between, wanted)  # of a tie the lower one
    tie = wanted == between[code.clamp(max=len(between) - 1)]
    code = code + (tie & (code % 2 == 1) & (code < len(between))).long()
    return (code + torch.where(values.signbit(), len(magnitudes), 0)).to(torch.uint8)


def pack_codes(codes: Tensor, name: str) -> Tensor:
    """Codes, one in each of the last dimension's elements, as bytes; torch's own type where it has one.

    Raises:
        ValueError: a row is not full bytes.
    """
    f = format_of(name)
    unit = lcm(f.bits, 8) // f.bits
    if codes.shape[-1] % unit:
        raise ValueError(f"rows of {name} are multiples of {unit}, not {codes.shape[-1]}")
    shifts = torch.arange(unit, device=codes.device) * f.bits
    together = (codes.long().unflatten(-1, (-1, unit)) << shifts).sum(-1, keepdim=True)
    parts = torch.arange(unit * f.bits // 8, device=codes.device) * 8
    found: Tensor = (together >> parts & 0xFF).flatten(-2).to(torch.uint8)
    return found.view(f.stored)


def unpack_codes(packed: Tensor, name: str) -> Tensor:
    """The codes, as `uint8`, that `pack_codes` packed.

    Raises:
        ValueError: `packed` is of another type, or a row holds parts of elements.
    """
    f = format_of(name)
    if packed.dtype not in (f.stored, torch.uint8):
        raise ValueError(f"{name} is packed in {f.stored}, not {packed.dtype}")
    unit = lcm(f.bits, 8) // 8
    if packed.shape[-1] % unit:
        raise ValueError(f"rows of {name} are packed to multiples of {unit} bytes, not {packed.shape[-1]}")
    parts = torch.arange(unit, device=packed.device) * 8
    together = (packed.view(torch.uint8).long().unflatten(-1, (-1, unit)) << parts).sum(-1, keepdim=True)
    shifts = torch.arange(unit * 8 // f.bits, device=packed.device) * f.bits
    found: Tensor = (together >> shifts & (1 << f.bits) - 1).flatten(-2)
    return found.to(torch.uint8)


def pack(values: Tensor, name: str) -> Tensor:
    """Numbers rounded to a format, to nearest even and its largest at most, and packed along the last dimension.

    Raises:
        ValueError: a NaN, or a row that is not full bytes.
    """
    return pack_codes(encode(values, name), name)


def unpack(packed: Tensor, name: str) -> Tensor:
    """The numbers that `pack` packed, in f32. Raises ValueError for a tensor that is none of `pack`'s."""
    return decode(unpack_codes(packed, name), name)


BLOCK = 32  # neighbours that share a scale (MX, section 5)
LARGEST_EXPONENTS = {"e2m1": 2, "e2m3": 2, "e3m2": 4, "e4m3fn": 8, "e5m2": 15}  # of a number of each format
LEAST_SCALE, NAN = -127, 255  # exponent of the code 0, and the code of NaN
BYTES = {"e4m3fn": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def quantise(values: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Numbers as blocks of 32 along the last dimension: elements, packed where bytes hold several, and scales.

    A scale is 2 to the exponent of the block's largest magnitude less that of the format's largest number (MX, section
    6.3), 2^-127 at least, which that of zeros is. Values beyond the largest number become that number. A NaN stays one;
    in formats that have none it makes the scale of its block a NaN, as infinities do, and NaNs alone in a block.

    Raises:
        ValueError: another format, or a row that is not a multiple of 32.
    """
    if name not in LARGEST_EXPONENTS:
        raise ValueError(f"`{name}` is no element of MX blocks: these are {', '.join(LARGEST_EXPONENTS)}")
    if values.shape[-1] % BLOCK:
        raise ValueError(f"blocks are {BLOCK} long, and a row is {values.shape[-1]}")
    blocks = values.double().unflatten(-1, (-1, BLOCK))
    largest = blocks.abs().nan_to_num(0, posinf=torch.inf).amax(-1)
    exponent = torch.frexp(largest).exponent - 1 - LARGEST_EXPONENTS[name]
    exponent = torch.where(largest > 0, exponent, LEAST_SCALE).clamp(min=LEAST_SCALE)
    none = blocks.isnan()
    broken = largest.isinf() | (none.any(-1) if name in FORMATS else none.all(-1))
    scale = torch.where(broken, NAN, exponent - LEAST_SCALE).to(torch.uint8).view(torch.float8_e8m0fnu)
    elements = torch.ldexp(blocks, -exponent[..., None]).flatten(-2)
    if name in FORMATS:
        return pack(elements.nan_to_num(0), name), scale
    most = torch.finfo(BYTES[name]).max
    kept = torch.where(elements.isfinite(), elements.clamp(-most, most), elements)
    return kept.float().to(BYTES[name]), scale
