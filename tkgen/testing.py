"""tkgen in your own test suite: a pytest plugin (loaded by itself once tkgen is installed) and a function.

    import pytest

    @pytest.mark.tk("specs/*.tk", schedules=5)
    def test_kernels(tk_result):
        assert not tk_result.failure

    def test_mine():
        tkgen.testing.verify("specs/eight_wave.tk", {"M": 256, "N": 256, "K": 192})

A pattern is relative to the folder of the test's file. A test that fails shows the failure of its `tk_result` in a
section `tkgen`, as `tkgen check` and `tkgen test` print it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from tkgen.execute.launch import Run


def verify(
    path: str | os.PathLike[str], defines: Mapping[str, int] | None = None, *, schedules: int = 5, seed: int = 0
) -> list[Run]:
    """Build the spec at `path` with `defines`, run it under `schedules` schedules, and insist that all is right.

    Raises:
        SpecError: the spec is wrong.
        AssertionError: numbers are wrong, or the referee found something; the message says what.
    """
    from tkgen.execute.given import Asked, emulated
    from tkgen.execute.launch import run, trials

    chosen = Asked(Path(path), defines or {}).chosen()
    build = emulated(chosen.spec).build()
    runs: list[Run] = []
    for order, kind in trials(schedules):
        result = run(build, extents=chosen.extents, seed=seed, kind=kind, scalars=chosen.scalars, order=order)
        assert result.ok, f"{path}, {order}: {result.failure}"
        runs.append(result)
    return runs


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "tk(*patterns, schedules=5): run the regression of tkgen on specs; take the fixture `tk_result`"
    )


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Add the failure of a `tk_result` to the report of its test."""
    failure = getattr(getattr(item, "funcargs", {}).get("tk_result"), "failure", "")
    if call.when == "call" and call.excinfo is not None and failure:
        item.add_report_section("call", "tkgen", failure)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for everything tried on every spec that the marker's patterns name."""
    marker = metafunc.definition.get_closest_marker("tk")
    if marker is None or "tk_result" not in metafunc.fixturenames:
        return
    from tkgen.execute.suites import regression

    folder = Path(metafunc.definition.path).parent
    paths = sorted(p for pattern in marker.args for p in folder.glob(pattern))
    if not paths:
        raise ValueError(f"no spec matches {', '.join(marker.args)} in {folder}")
    results = [r for p in paths for r in regression(p, schedules=marker.kwargs.get("schedules", 5))]
    shown = [replace(r, failure=_Printed(r.failure)) for r in results]
    metafunc.parametrize("tk_result", shown, ids=[f"{r.spec}: {r.case}" for r in results])


class _Printed(str):
    """A failure that a section of the report has in full; in the line of the assertion it is the first line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self.partition(chr(10))[0]}>"
