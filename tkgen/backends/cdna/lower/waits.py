"""Waits for memory operations as statements: several in a row are one instruction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tkgen.backends.cdna.lower.statements import Wait
from tkgen.targets import counted
from tkgen.tile.program import Drain

# s_waitcnt immediate of gfx9 (LLVM AMDGPUUsage; CDNA3 ISA guide, SOPP): vmcnt in bits 3:0 and 15:14, expcnt 6:4,
# lgkmcnt 11:8; all ones means "do not wait".
EXPCNT_NONE = 7


def least(waits: Iterable[Drain]) -> dict[str, int]:
    """What waits in a row leave outstanding of each counter."""
    left: dict[str, int] = {}
    for op in waits:
        left[op.stream] = min(op.count, left.get(op.stream, op.count))
    return left


def waitcnt(outstanding: Mapping[str, int]) -> int:
    """The immediate of `s_waitcnt` that waits until at most that many operations of each counter remain."""
    most = counted()
    vm, lds = (min(outstanding.get(counter, most[counter]), most[counter]) for counter in ("vm", "lds"))
    return (vm & 15) | EXPCNT_NONE << 4 | lds << 8 | (vm >> 4) << 14


def wait_for(outstanding: Mapping[str, int]) -> Wait:
    """The wait for at most that many operations of each counter."""
    names = {"vm": "global", "lds": "LDS"}
    counts = [
        f"{names[counter]} operations: at most {outstanding[counter]} outstanding"
        for counter in sorted(outstanding, reverse=True)
    ]
    return Wait(hex(waitcnt(outstanding)), ", ".join(counts))
