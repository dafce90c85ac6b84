"""The places of evaluation of candidates: this process, a pool of processes, or a Ray cluster."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import wait
from typing import ParamSpec, TypeVar

from tkgen.packages import install_line
from tkgen.tune.errors import MissingPackage, TuneError

P = ParamSpec("P")
T = TypeVar("T")

EXECUTORS = ("process", "ray")


class _Here(Executor):
    """Runs a task when it is submitted."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class _Ray(Executor):
    """Tasks of a Ray cluster: the one RAY_ADDRESS names, else a local one of `jobs` processes.

    Spec files and the compiler must be at the same paths on every node.
    """

    def __init__(self, jobs: int):
        try:
            import ray
        except ImportError:
            raise MissingPackage(f"`--executor ray` needs Ray: {install_line('ray')}") from None
        self.ray, self.started = ray, not ray.is_initialized()
        if self.started:
            address = os.environ.get("RAY_ADDRESS")
            # Ray refuses a number of CPUs where it joins a cluster.
            cpus = None if address else jobs
            try:
                _reach(address)
                ray.init(num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
            except (OSError, ValueError, RuntimeError) as error:
                where = f"at RAY_ADDRESS={address}" if address else "can be started here"
                raise TuneError(f"no Ray cluster {where}: {error}") from None

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        mine: Future[T] = Future()

        def finished(theirs: Future[T]) -> None:
            error = theirs.exception()
            if error is None:
                mine.set_result(theirs.result())
            elif isinstance(error, self.ray.exceptions.RayError):
                cause = getattr(error, "cause", None)  # what the task itself raised, else a worker or node is gone
                mine.set_exception(cause if isinstance(cause, Exception) else BrokenExecutor(str(error)))
            else:
                mine.set_exception(error)

        self.ray.remote(fn).remote(*args, **kwargs).future().add_done_callback(finished)
        return mine

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self.started:
            self.ray.shutdown()


def _reach(address: str | None) -> None:
    """Connect to `host:port` or `ray://host:port` once: Ray itself waits minutes for a cluster that is not there.

    Raises:
        OSError: nothing answers.
    """
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ctrl-C does nothing meanwhile, nor to processes that are started; only the main thread can say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end_with_parent() -> None:
    """In a worker: end when the search is killed, instead of waiting for its next task for ever.

    Ctrl-C reaches all processes of a terminal; what becomes of the search is for its own process to say.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def executor(kind: str, jobs: int) -> Iterator[Executor]:
    """An executor of `jobs` workers; with one job and no cluster, this process itself.

    Raises:
        MissingPackage: Ray is asked for and not installed.
        TuneError: the Ray cluster that is named cannot be reached.
    """
    pool: Executor
    if kind == "ray":
        pool = _Ray(jobs)
    elif jobs == 1:
        pool = _Here()
    else:
        # Workers fork from a small server that has read the modules once; this process may have threads.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tkgen.tune.evaluate", "tkgen.predict", "tkgen.execute.launch"])
        with _interrupts_ignored():  # the server inherits that
            forkserver.ensure_running()
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
