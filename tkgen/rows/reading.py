"""How often a kernel of rows reads each of its tensors."""

from __future__ import annotations

from collections import Counter

from tkgen.ir.equations import Kernel, Load
from tkgen.ir.types import Tensor
from tkgen.schedule.sweeps import regions


def read_counts(kernel: Kernel) -> Counter[Tensor]:
    """In how many parts of the kernel, loops and what is between them, each tensor is read."""
    return Counter(
        tensor
        for body in (region.ops for region in regions(kernel))
        for tensor in {op.source.tensor for op in body if isinstance(op, Load)}
    )  # fmt: skip
