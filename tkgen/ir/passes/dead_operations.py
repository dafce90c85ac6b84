"""Operations on which no store depends are removed; `tkgen check` warns of those that have a name (W502)."""

from __future__ import annotations

from dataclasses import replace

from tkgen.ir.equations import Kernel
from tkgen.ir.liveness import pruned


def run(kernel: Kernel) -> Kernel:
    """The kernel with the operations that reach a store."""
    return replace(kernel, body=pruned(kernel.body))
