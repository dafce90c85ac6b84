"""Executors of candidates: a Ray cluster, its failures in our terms, and the same through a stand-in without Ray."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from types import SimpleNamespace

import pytest

from tkgen.toolchain.compiler import ToolchainError
from tkgen.tune import Outcome, Request, TuneError, tune
from tkgen.tune.executor import executor


def square(x: int) -> int:
    return x * x


def failing() -> None:
    raise ToolchainError("no compiler")


def dying() -> None:
    os._exit(1)


class _RayError(Exception):
    """The base of Ray's own errors."""


class _RayTaskError(_RayError):
    def __init__(self, cause: Exception):
        self.cause = cause


class StandIn:
    """Parts of Ray that the executor uses: tasks run at once, in this process."""

    exceptions = SimpleNamespace(RayError=_RayError)

    def __init__(self) -> None:
        self.options: dict[str, object] = {}
        self.is_running = False

    def is_initialized(self) -> bool:
        return self.is_running

    def init(self, **options: object) -> None:
        self.is_running, self.options = True, options

    def shutdown(self) -> None:
        self.is_running = False

    def remote(self, fn: Callable[..., object]) -> object:
        def submitted(*args: object) -> object:
            future: Future[object] = Future()
            try:
                if fn is dying:
                    raise _RayError("the worker died")
                future.set_result(fn(*args))
            except _RayError as error:
                future.set_exception(error)
            except Exception as error:
                future.set_exception(_RayTaskError(error))
            return SimpleNamespace(future=lambda: future)

        return SimpleNamespace(remote=submitted)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    ray = StandIn()
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return ray


def test_ray_is_started_with_the_jobs_and_stopped(stand_in: StandIn) -> None:
    with executor("ray", 3) as pool:
        assert stand_in.is_running and stand_in.options["num_cpus"] == 3
        assert [pool.submit(square, n).result() for n in range(4)] == [0, 1, 4, 9]
    assert not stand_in.is_running


def test_a_cluster_that_is_joined_decides_its_own_size(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with executor("ray", 3):
        assert stand_in.options["num_cpus"] is None


def test_a_ray_that_already_runs_is_left_running(stand_in: StandIn) -> None:
    stand_in.is_running = True
    with executor("ray", 3) as pool:
        assert pool.submit(square, 5).result() == 25
    assert stand_in.is_running and not stand_in.options


def test_errors_of_tasks_and_lost_workers(stand_in: StandIn) -> None:
    with executor("ray", 1) as pool:
        with pytest.raises(ToolchainError, match="no compiler"):
            pool.submit(failing).result()
        with pytest.raises(BrokenExecutor, match="died"):
            pool.submit(dying).result()


def test_a_cluster_that_does_not_answer_is_named_at_once(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(TuneError, match=r"no Ray cluster at RAY_ADDRESS=127\.0\.0\.1:1"), executor("ray", 1):
        pass
    assert not stand_in.is_running


def test_a_search_on_a_real_ray(
    small: Path, searched: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A local cluster: two candidates in its processes, one with its own error, and the same winner."""
    pytest.importorskip("ray", reason="needs Ray: the extra `ray`")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    values = searched.winner.values
    ranges = {"ROWS": [values["ROWS"], 96], "BUFFERS": [values["BUFFERS"]]}
    outcome = tune(Request((small,), ranges=ranges, best=1, jobs=1, executor="ray", directory=tmp_path))
    assert outcome.winner.candidate == searched.winner.candidate and outcome.winner.verified
    assert outcome.rejected == {"E604": 1}
