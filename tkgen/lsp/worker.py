"""Analysis in its own process: a spec that would take minutes to schedule costs the editor a deadline, no more.

A spec with a thousand buffers or a block of a million rows is a keystroke away from a sensible one, and a thread cannot
be stopped.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.pool import AsyncResult, Pool
from typing import Any, TypeVar

from tkgen.lsp.analysis import Analysis, Request, analyze

T = TypeVar("T")
POLL = 0.05  # seconds after which a closed worker is noticed
MEMORY = 4 << 30  # bytes of address space that an analysis may take


class AnalysisError(Exception):
    """The analysis did not end well; the message says why, for the user."""


class Worker:
    """Runs one analysis at a time, each for at most `deadline` seconds. `close` may come from another thread."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self._pool: Pool | None = None
        self._closed = False
        self._lock = threading.Lock()  # of the two above

    def analyze(self, request: Request) -> Analysis:
        """As `analysis.analyze`. Raises as `run`."""
        return self.run(analyze, request)

    def run(self, work: Callable[[Request], T], request: Request) -> T:
        """The result of `work`, a function of a module.

        Raises AnalysisError past the deadline, when closed, or where tkgen itself failed.
        """
        try:
            pool = self._started()
            pending = pool.apply_async(work, (request,))
            if self._done(pending, self.deadline):
                return pending.get()
        except AnalysisError:
            raise
        except Exception as error:
            raise AnalysisError(
                f"tkgen failed on this spec, please report it: {type(error).__name__}: {error}"
            ) from error
        self._stop()
        raise AnalysisError(f"this spec was not analysed within {self.deadline:g} s: is a size too large?")

    def _started(self) -> Pool:
        """The process, running: the deadline is for the analysis, not for starting Python."""
        with self._lock:
            if self._closed:
                raise AnalysisError("the server ends")
            if self._pool is not None:
                return self._pool
            pool = self._pool = multiprocessing.get_context("spawn").Pool(1, _prepare)
        if not self._done(pool.apply_async(_ready), float("inf")):
            raise AnalysisError("the server ends")
        return pool

    def _done(self, pending: AsyncResult[Any], seconds: float) -> bool:
        """Wait for a result; False where it does not come in time, or the worker is closed meanwhile."""
        end = time.monotonic() + seconds
        while not self._closed and time.monotonic() < end:
            pending.wait(POLL)
            if pending.ready():
                return True
        return False

    def close(self) -> None:
        """Stop the process for good, whatever it is doing."""
        self._closed = True
        self._stop()

    def _stop(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()
            pool.join()


def _ready() -> None:
    """Do nothing: a process that answers has started."""


def _prepare() -> None:
    """In the new process: a limit to its memory, and an end when the server ends, whatever it is doing then."""
    gc.set_threshold(100_000)  # few values of an analysis are cycles: as in `tkgen.cli.main`
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
