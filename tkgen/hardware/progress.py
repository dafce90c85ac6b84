"""The progress of a section on standard error: a bar on a terminal, else a line now and then; what is wrong at once."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from tkgen.hardware.context import FAILED, WRONG

_SECONDS: Final = 10.0  # between two lines


class SectionProgress:
    """The items of one section, as they end."""

    def __init__(self, terminal: TextIO, title: str, total: int) -> None:
        self.title, self.total, self.done, self.wrong = title, total, 0, 0
        self.console = Console(file=terminal, highlight=False, markup=False, soft_wrap=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self.bar = Bar(
            *columns, TimeRemainingColumn(), console=self.console, transient=True, redirect_stdout=False,
            redirect_stderr=False, disable=not self.console.is_terminal,
        )  # fmt: skip
        self.task = self.bar.add_task(title, total=total)
        self.last = time.monotonic()

    def __enter__(self) -> Self:
        """Show the bar, or the first line."""
        self.bar.start()
        if not self.console.is_terminal:
            self._line()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        """Remove the bar, and say how it ended."""
        self.bar.stop()
        if kind is None:
            self._line()

    def starts(self, item: str) -> None:
        """Name the item under way."""
        self.bar.update(self.task, description=f"{self.title}: {item}")

    def ended(self, item: str, verdict: str, said: str) -> None:
        """Count an item; say what is wrong with it."""
        self.done += 1
        self.bar.update(self.task, completed=self.done)
        if verdict in (WRONG, FAILED):
            self.wrong += 1
            self.console.print(f"{self.title}: {item}: {said.splitlines()[0] if said else verdict}")
        if not self.console.is_terminal and time.monotonic() - self.last > _SECONDS and self.done < self.total:
            self._line()

    def _line(self) -> None:
        self.last = time.monotonic()
        wrong = f", {self.wrong} wrong" if self.wrong else ""
        self.console.print(f"{self.title}: {self.done} of {self.total}{wrong}")
