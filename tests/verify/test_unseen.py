"""`tkgen verify` shrinks sizes, and says what numbers of the spec's own sizes it has not seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.cli import app

SPEC = """\
kernel far
  dims T = {size}, D = 8
  global X : f32[T, D]
  global Y : f32[T, D]
  over t in T by 64
  waves 4
  Y[t] = X[t] + {value}
"""


@pytest.mark.parametrize(
    ("size", "value", "expected"),
    [
        ("65600", "t * t", ["`t * t` beyond 32 bits"]),
        ("4000", "t * t", []),  # 16 million: f32 holds it
        ("5000", "t * t", ["`t * t` beyond 2^24, up to which f32 has all integers"]),
        ("dynamic", "0.5 * t", ["`t` beyond 2^24, up to which f32 has all integers"]),
        ("134217728", "1", ["what lies beyond 2^31 bytes of X", "what lies beyond 2^31 bytes of Y"]),
    ],
)
def test_numbers_that_smaller_sizes_do_not_reach(size: str, value: str, expected: list[str], tmp_path: Path) -> None:
    path = tmp_path / "far.tk"
    path.write_text(SPEC.format(size=size, value=value))
    done = CliRunner().invoke(app, ["verify", str(path), "--draws", "1", "--schedules", "1", "--json"])
    assert done.exit_code == 0, done.output
    for verdict in json.loads(done.output):
        assert verdict["ok"] and verdict["unseen"] == expected


def test_the_table_has_them_too(tmp_path: Path) -> None:
    path = tmp_path / "far.tk"
    path.write_text(SPEC.format(size="65600", value="t * t"))
    done = CliRunner().invoke(app, ["verify", str(path), "--draws", "1", "--schedules", "1"])
    assert done.output.splitlines()[-1] == "not shown at these sizes: `t * t` beyond 32 bits"
