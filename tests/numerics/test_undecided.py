"""Numbers whose error nothing bounds are undecided, and no success: on the command line, in JSON, JUnit and scripts."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.cli import app
from tkgen.execute.compare import compare, worst

# The difference is what rounding leaves of zero: its reciprocal may be anything.
SPEC = """\
kernel open
  target {target}
  dims R = 8, D = 64
  global X : f32[R, D]
  global Y : f32[R, D]
  over r in R by 4
  waves 4
  Y[r] = 1 / (rowsum(X[r] * 0.1) - rowsum(X[r]) * 0.1) + X[r] * 0
"""


@pytest.fixture(params=["gfx942", "sm_90a"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = tmp_path / "open.tk"
    file.write_text(SPEC.format(target=request.param))
    return file


def test_run_says_undecided_and_fails(path: Path) -> None:
    done = CliRunner().invoke(app, ["run", str(path)])
    assert done.exit_code == 1, done.output
    assert "undecided" in done.output and "right" not in done.output and "WRONG" not in done.output


def test_so_does_its_json_without_infinities(path: Path) -> None:
    done = CliRunner().invoke(app, ["run", str(path), "--json"])
    (row,) = json.loads(done.output, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    assert done.exit_code == 1 and not row["ok"]
    assert row["comparison"]["verdict"] == "undecided" and row["comparison"]["undecided"] > 0


def test_so_do_test_and_its_junit(path: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["test", str(path), "--schedules", "1", "--junit", str(tmp_path / "out.xml")])
    assert done.exit_code == 1 and "undecided" in done.output
    messages = [f.get("message", "") for f in ElementTree.parse(tmp_path / "out.xml").iter("failure")]
    assert messages and any("undecided" in m for m in messages)


def test_so_does_the_script_beside_a_kernel(tmp_path: Path) -> None:
    file = tmp_path / "open.tk"
    file.write_text(SPEC.format(target="gfx942"))
    load(file).check()
    done = CliRunner().invoke(app, ["build", str(file), "--emit", "harness", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    report = runpy.run_path(str(tmp_path / "open_check.py"), run_name="check")["report"]
    assert callable(report)
    expected, result = torch.tensor([1.0, 2.0]).double(), torch.tensor([1.0, 3.0])
    for bound, right in (([0.0, 1.0], True), ([0.0, 0.5], False), ([0.0, torch.inf], False), ([torch.inf, 1.0], True)):
        assert report(result, expected, torch.tensor(bound).double()) is right, bound


@pytest.mark.parametrize("bound", [torch.inf, torch.nan])
def test_a_bound_that_is_no_number_decides_nothing(bound: float) -> None:
    expected = torch.tensor([1.0, 2.0, torch.inf, torch.nan]).double()
    bounds = torch.full((4,), bound).double()
    assert compare(expected.float(), expected, bounds).right  # the reference itself, bit by bit
    off = compare(torch.tensor([1.0, 2.5, torch.inf, torch.nan]), expected, bounds)
    assert (off.verdict, off.undecided, off.wrong, off.nan) == ("undecided", 1, 0, 0)
    lost = compare(torch.tensor([1.0, torch.nan, torch.inf, torch.nan]), expected, bounds)
    assert (lost.verdict, lost.nan) == ("WRONG", 1)
    finite = compare(torch.tensor([1.0, 2.5, torch.inf, torch.nan]), expected, torch.full((4,), 0.25).double())
    assert finite.verdict == "WRONG"
    assert (
        worst([off, finite, lost]).verdict == "WRONG"
        and worst([off, compare(expected.float(), expected, bounds)]) is off
    )
