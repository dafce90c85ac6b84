"""Analysis in a process of its own: a spec that would take minutes to schedule costs the editor a deadline, no more.

A spec with a thousand buffers or a block of a million rows is a keystroke away from a sensible one, and a thread cannot
be stopped.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from multiprocessing.pool import Pool

from tkgen.lsp.analysis import Analysis, Request, analyze

POLL = 0.05  # seconds after which a closed worker is noticed
MEMORY = 4 << 30  # bytes of address space that an analysis may take


class AnalysisError(Exception):
    """The analysis did not end well; the message says why, for the user."""


class Worker:
    """Runs one analysis at a time, each for at most `deadline` seconds. `close` may come from another thread."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self._pool: Pool | None = None

    def analyze(self, request: Request) -> Analysis:
        """As `analysis.analyze`. Raises AnalysisError past the deadline or where tkgen itself failed."""
        try:
            if self._pool is None:
                self._pool = multiprocessing.get_context("spawn").Pool(1, _prepare)
                self._pool.apply(_ready)  # the deadline is for the analysis, not for starting Python
            pool = self._pool
            pending = pool.apply_async(analyze, (request,))
            end = time.monotonic() + self.deadline
            while self._pool is pool and time.monotonic() < end:
                pending.wait(POLL)
                if pending.ready():
                    return pending.get()
        except Exception as error:
            raise AnalysisError(
                f"tkgen failed on this spec, please report it: {type(error).__name__}: {error}"
            ) from error
        self.close()
        raise AnalysisError(f"this spec was not analysed within {self.deadline:g} s: is a size too large?")

    def close(self) -> None:
        """Stop the process, whatever it is doing."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()
            pool.join()


def _ready() -> None:
    """What the process answers once it runs."""


def _prepare() -> None:
    """In the new process: a limit to its memory, and an end when the server ends, whatever it is doing then."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or hard > MEMORY:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    threading.Thread(target=_end_with_the_server, daemon=True).start()


def _end_with_the_server() -> None:
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        os._exit(1)
