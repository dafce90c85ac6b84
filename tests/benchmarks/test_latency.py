"""The latency benchmark times commands as an installed tkgen runs them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_modules_are_compiled_before_a_command_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that keeps no compiled modules compiles tkgen in every run: a third of the time of `check`."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    import latency

    command = latency.Timed("check", [sys.executable, "-m", "tkgen", "check", "nope.tk"], 1, 0.3)
    assert latency.seconds(command, 1, tmp_path) is not None
    assert list((tmp_path / "compiled").rglob("tkgen/cli/*.pyc"))


def test_a_command_that_ends_otherwise_has_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import latency

    command = latency.Timed("check", [sys.executable, "-m", "tkgen", "check", "nope.tk"], 0)
    assert latency.seconds(command, 1, tmp_path) is None
