"""Analysis in a process of its own: a spec that would take minutes to schedule costs the editor a deadline, no more.

A spec with a thousand buffers or a block of a million rows is a keystroke away from a sensible one, and a thread cannot
be stopped.
"""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.pool import Pool

from tkgen.lsp.analysis import Analysis, Request, analyze

MEMORY = 4 << 30  # bytes of address space that an analysis may take


class AnalysisError(Exception):
    """The analysis did not end well; the message says why, for the user."""


class Worker:
    """Runs one analysis at a time, each for at most `deadline` seconds. Not for several threads at once."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self._pool: Pool | None = None

    def analyze(self, request: Request) -> Analysis:
        """As `analysis.analyze`. Raises AnalysisError past the deadline or where tkgen itself failed."""
        if self._pool is None:
            self._pool = multiprocessing.get_context("spawn").Pool(1, _limit_memory)
            self._pool.apply(_ready)  # the deadline is for the analysis, not for starting Python
        try:
            return self._pool.apply_async(analyze, (request,)).get(self.deadline)
        except multiprocessing.TimeoutError:
            self.close()
            raise AnalysisError(
                f"this spec was not analysed within {self.deadline:g} s; is a size far too large?"
            ) from None
        except Exception as error:
            raise AnalysisError(
                f"tkgen failed on this spec, please report it: {type(error).__name__}: {error}"
            ) from error

    def close(self) -> None:
        """Stop the process, whatever it is doing."""
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()
            self._pool = None


def _ready() -> None:
    """What the process answers once it runs."""


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or hard > MEMORY:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
