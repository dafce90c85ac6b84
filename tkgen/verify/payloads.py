"""Payloads of tensors: drawn for what is given, as the emulator takes them, and what it leaves.

A number of a float type has random elements of both fields for a payload. Integers - offsets, pages, weights of 4
and 8 bits - and scales that are powers of two are what they are: they have no payload but their value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from tkgen.emulate.algebra import INFINITE, LOST, NEVER_WRITTEN
from tkgen.execute.launch import Payload
from tkgen.ir import rounding, tensors
from tkgen.ir.types import DType
from tkgen.verify.field import ABSENT
from tkgen.verify.ring import NEVER, Ring

GONE, INF = -1, -3  # the p value of what was lost, and of infinities, whose q value is 1 where they are negative


def carries(tensor: tensors.Tensor) -> bool:
    """Return True if the numbers of a tensor have payloads."""
    return not tensor.dtype.whole and tensor.dtype is not DType.E8M0


def remembers(tensor: tensors.Tensor) -> bool:
    """True if what is stored in an output that carries none has the payloads of the numbers that were rounded."""
    return tensor.dtype in (DType.I8, DType.I32, DType.E8M0)


def drawn(of: Sequence[tensors.Tensor], memory: Mapping[str, Tensor], seed: int) -> dict[str, Ring]:
    """The numbers that memory holds of those tensors whose numbers have payloads, each with one."""
    generator = torch.Generator().manual_seed(seed)
    return {
        t.name: Ring.random(rounding.numbers(memory[t.name], t).double(), generator)
        for t in of
        if t.name in memory and carries(t)
    }


def packed(numbers: Ring) -> Payload:
    """As the emulator takes them: two words of each number, in the order of memory."""
    real, p, q = numbers.reals.flatten(), numbers.p.flatten(), numbers.q.flatten()
    words = np.stack([_words(p), _words(torch.where(q == ABSENT, 0xFFFFFFFF, q))], 1)
    for infinity, special in zip((torch.inf, -torch.inf), INFINITE, strict=True):
        words[(real == infinity).numpy()] = special
    return words


def _words(values: Tensor) -> Payload:
    found: Payload = values.numpy().astype(np.uint32)
    return found


def empty(shape: Sequence[int], zeros: bool) -> Payload:
    """Of an output for which nothing is given: nobody wrote it, or it holds zeros to which kernels add."""
    count = int(np.prod(shape, dtype=np.int64))
    return np.full((count, 2), 0 if zeros else NEVER_WRITTEN[0], dtype=np.uint32)


def unpacked(words: Payload, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Unpack the emulator's payloads: p and q values, `GONE`, `INF` or `NEVER` where a value has none."""
    p, q = (torch.from_numpy(words[:, i].astype(np.int64)) for i in range(2))
    found = torch.where(p == LOST[0], GONE, torch.where(p == NEVER_WRITTEN[0], NEVER, p))
    found = torch.where(p == INFINITE[0][0], INF, found)
    return found.reshape(tuple(shape)), torch.where(q == 0xFFFFFFFF, ABSENT, q).reshape(tuple(shape))
