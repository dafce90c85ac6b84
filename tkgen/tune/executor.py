"""Where candidates are evaluated: in this process, in a pool of processes, or on a Ray cluster."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from tkgen.tune.errors import MissingPackage

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
            raise MissingPackage("`--executor ray` needs Ray: pip install ray") from None
        self.ray, self.started = ray, not ray.is_initialized()
        if self.started:
            import os

            local = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": jobs, "include_dashboard": False}
            ray.init(log_to_driver=False, **local)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = self.ray.remote(fn).remote(*args, **kwargs).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self.started:
            self.ray.shutdown()


@contextmanager
def executor(kind: str, jobs: int) -> Iterator[Executor]:
    """An executor of `jobs` workers; with one job and no cluster, this process itself.

    Raises:
        MissingPackage: Ray is asked for and not installed.
    """
    pool: Executor
    if kind == "ray":
        pool = _Ray(jobs)
    elif jobs == 1:
        pool = _Here()
    else:
        # Workers fork from a small server that has read the modules once; this process may have threads.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tkgen.tune.evaluate", "tkgen.predict", "tkgen.run"])
        pool = ProcessPoolExecutor(jobs, mp_context=context)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
