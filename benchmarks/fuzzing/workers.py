"""Processes that judge seeds, each bounded in memory and time, replaced where one dies."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from fuzzing.families import FAMILIES
from fuzzing.rows import TARGETS
from fuzzing.verdict import Depth, Result, attempt, compiler_for

GIB = 1 << 30
# What a seed runs on: its draw, and how deep it is judged.
Judge = Callable[[str, int], Result]


@dataclass(frozen=True)
class Limits:
    """Bounds of one worker: `memory` in GiB, `seconds` for one seed."""

    memory: float = 6.0
    seconds: float = 300.0


def judge_with(depth: Depth) -> Judge:
    """The function that a worker calls for each seed of a family."""

    def judge(family: str, seed: int) -> Result:
        return attempt(FAMILIES[family](seed), depth.orders, depth.quick, depth.build_only)

    return judge


def preload() -> None:
    """Import, find and compile what every worker needs, before the first fork: a new worker starts in milliseconds."""

    from tkgen.backends.hopper.host import library
    from tkgen.emulate import native
    from tkgen.syntax.grammar import parser

    native.core()
    library.prepare()
    parser()
    for target in sorted(set(TARGETS)):
        compiler_for(target)
    importlib.import_module("tinygrad.runtime.autogen.amd.cdna.enum")
    gc.freeze()


def judged(tasks: Iterator[tuple[str, int]], jobs: int, judge: Judge, limits: Limits, until: float) -> Iterator[Result]:
    """Results of the tasks, as they come; those in progress at time `until` of the monotonic clock are dropped."""
    workers = [_Worker(judge, limits) for _ in range(jobs)]
    try:
        while True:
            for worker in workers:
                if not worker.busy and time.monotonic() < until and (task := next(tasks, None)) is not None:
                    worker.start(task)
            busy = {worker.pipe: worker for worker in workers if worker.busy}
            left = until - time.monotonic()
            if not busy or left <= 0:
                return
            ready = wait(list(busy), timeout=min(left, 1.0))
            for pipe in ready:
                assert isinstance(pipe, Connection)
                yield busy[pipe].finished()
            for worker in busy.values():
                if worker.busy and worker.overdue():
                    yield worker.stopped("timeout", f"not finished after {limits.seconds:.0f} s")
    finally:
        for worker in workers:
            worker.close()


class _Worker:
    """One process, and the seed that it works on."""

    def __init__(self, judge: Judge, limits: Limits) -> None:
        self.judge, self.limits = judge, limits
        self.task: tuple[str, int] | None = None
        self.started = 0.0
        self._fork()

    def _fork(self) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(other, self.judge, self.limits), daemon=True)
        self.process.start()
        other.close()

    @property
    def busy(self) -> bool:
        return self.task is not None

    def start(self, task: tuple[str, int]) -> None:
        self.task, self.started = task, time.monotonic()
        self.pipe.send(task)

    def overdue(self) -> bool:
        return time.monotonic() - self.started > self.limits.seconds

    def finished(self) -> Result:
        """The result that the process sent, or its death."""
        try:
            result, leaves = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(5)
            return self.stopped("crash", f"the process ended with status {self.process.exitcode}")
        assert isinstance(result, Result)
        self.task = None
        if leaves:
            self.close()
            self._fork()
        return result

    def stopped(self, kind: str, detail: str) -> Result:
        """End the process; the failure of its seed."""
        assert self.task is not None
        (family, seed), self.task = self.task, None
        self.close()
        self._fork()
        seconds = time.monotonic() - self.started
        return Result(seed, "FAILED", detail, seconds, kind=kind, family=family)

    def close(self) -> None:
        """End the process and the compiler that it may have started."""
        if self.process.is_alive() and self.process.pid is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except OSError:  # not yet the leader of its group
                self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, judge: Judge, limits: Limits) -> None:
    """Judge the seeds that arrive. A process that holds much memory after one leaves, and says so."""
    import torch

    os.setpgid(0, 0)
    torch.set_num_threads(1)  # a worker uses one core: torch on several is slower here
    os.environ["TKGEN_CACHE"] = ""  # these builds are never asked for again
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    most = int(limits.memory * GIB)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            family, seed = pipe.recv()
        except EOFError:
            return
        result = judge(family, seed)
        leaves = _resident() > most // 2
        pipe.send((result, leaves))
        if leaves:
            return


def _resident() -> int:
    """Bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
