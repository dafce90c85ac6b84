"""Kernels of a sequence that run beside each other for a while."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Neighbours:
    """Which kernels of a sequence, before and after one, run beside it for a while.

    Blocks of the next kernel begin where blocks of this one end, and wait until all of them have, so that the time from
    one launch to the next passes meanwhile (CUDA C++ Programming Guide, "Programmatic Dependent Launch"). A kernel of
    products lets them begin when its products are done: at its start they would all come to the SMs that are free then.
    """

    before: bool = False
    after: bool = False


ALONE = Neighbours()
