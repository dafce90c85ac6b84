"""Weights of 4 bits, two in a byte: what tensors of `i4` and `u4` hold, and the torch functions that pack them.

Plain, byte i of a row holds elements 2 i, in its low half, and 2 i + 1. With `global W : u4[N, K] interleaved` each 128
neighbours of a row lie as matrix instructions want them in registers. Bytes 16 q to 16 q + 15 are for lanes that own
quad q of each 16 elements; word w of these, 4 bytes, holds quad q of the 16 from 32 w on, and of the 16 after them:

    byte          0              1              2              3
    low half      32 w + 4 q     ... + 2        ... + 1        ... + 3
    high half     the same 16 elements further

A lane so reads 16 bytes at once for its part of 128 elements, and half of a word, masked, is four of its neighbours.

>>> packed = pack(weights, "u4", interleaved=True)  # [N, K] integers from 0 to 15 -> [N, K / 2] uint8
"""

from __future__ import annotations

import torch
from torch import Tensor

INTERLEAVED = 128  # elements along a row that lie interleaved
RANGES = {"i4": (-8, 7), "u4": (0, 15)}  # the numbers of each type


def _place() -> Tensor:
    """Of 128 elements in their order in memory, low half of a byte before its high half, which one each is."""
    byte, half = torch.arange(INTERLEAVED // 2), torch.arange(2)
    quad, word, within = byte // 16, byte // 4 % 4, byte % 4
    element = within // 2 + within % 2 * 2
    return (16 * (2 * word[:, None] + half) + (4 * quad + element)[:, None]).flatten()


def pack(values: Tensor, dtype: str, *, interleaved: bool = False) -> Tensor:
    """Integers [..., K] as a tensor of `dtype`, `i4` or `u4`, has them in memory: uint8 [..., K / 2].

    Raises:
        ValueError: another type, numbers that it does not hold, an odd K, or, interleaved, no multiple of 128.
    """
    least, most = _range(dtype)
    _whole_rows(values.shape, INTERLEAVED if interleaved else 2)
    if values.numel() and (bool((values < least).any()) or bool((values > most).any())):
        raise ValueError(f"{dtype} holds numbers from {least} to {most}")
    if bool((values != values.to(torch.int8)).any()):
        raise ValueError(f"{dtype} holds integers")
    codes = values.to(torch.int8).bitwise_and(15).to(torch.uint8)
    if interleaved:
        groups = codes.unflatten(-1, (-1, INTERLEAVED))
        codes = groups[..., _place().to(values.device)].flatten(-2)
    return codes[..., 0::2] | codes[..., 1::2] << 4


def unpack(packed: Tensor, dtype: str, *, interleaved: bool = False) -> Tensor:
    """The other way round: uint8 [..., K / 2] to the integers [..., K] that it holds, as int8.

    Raises:
        ValueError: another type than `i4` or `u4`, packed bytes of another type than uint8, or such a K.
    """
    least, _ = _range(dtype)
    if packed.dtype is not torch.uint8:
        raise ValueError(f"packed weights are uint8, not {packed.dtype}")
    codes = torch.stack([packed & 15, packed >> 4], -1).flatten(-2)
    if interleaved:
        _whole_rows(codes.shape, INTERLEAVED)
        back = torch.argsort(_place()).to(packed.device)
        codes = codes.unflatten(-1, (-1, INTERLEAVED))[..., back].flatten(-2)
    numbers = codes.to(torch.int8)
    return torch.where(numbers > 7, numbers - 16, numbers) if least < 0 else numbers


def _range(dtype: str) -> tuple[int, int]:
    if dtype not in RANGES:
        raise ValueError(f"{dtype} is not packed: {' and '.join(RANGES)} are")
    return RANGES[dtype]


def _whole_rows(shape: torch.Size, unit: int) -> None:
    if not shape or shape[-1] % unit:
        raise ValueError(f"rows of {shape[-1] if shape else 0} elements are not a multiple of {unit}")
