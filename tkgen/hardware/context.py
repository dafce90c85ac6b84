"""The input of every section of a check: the GPU, its target, and the options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tkgen.hardware.hip import Hip
from tkgen.hardware.state import Result
from tkgen.targets import Target, load_target

RIGHT, WRONG, CLOSE, SKIPPED, MEASURED, FAILED = "right", "wrong", "close", "skipped", "measured", "failed"
"""Verdicts of items. CLOSE: within what the instruction's description allows. FAILED: it ended the process."""


@dataclass(frozen=True)
class CheckContext:
    """The GPU and the options of a check; `specs` is the folder of specs."""

    hip: Hip
    specs: Path
    seed: int = 0
    cxx: str | None = None

    @property
    def target(self) -> Target:
        """The target of the GPU."""
        return load_target(self.hip.device.target)

    @property
    def stand_in(self) -> bool:
        """True if the GPU is the emulator's."""
        return self.hip.device.stand_in


class Section(Protocol):
    """A part of the check, as a module has it."""

    NAME: str
    TITLE: str

    def missing(self) -> Sequence[tuple[str, str]]:
        """Packages that it needs and that are not installed: the name, and how to get it."""

    def items(self, context: CheckContext) -> Sequence[str]:
        """The names of its items."""

    def run(self, context: CheckContext, item: str) -> Result:
        """Do one: at least `verdict` and `said`."""


def sampled(items: Sequence[str], count: int | None) -> list[str]:
    """`count` of the items, evenly spread; all without a count."""
    if count is None or count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]
