"""Chosen blocks of tensors that do not fit this machine are refused by what they would take, with no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.cli import app

ROOT = Path(__file__).parents[2]
ROWS = """kernel huge
  dims R = 1000000000, D = 512
  global A : bf16[R, D]
  global W : f32[D]
  global Y : bf16[R, D]
  over r in R by 128
  waves 4
  Y[r] = A[r] * W
"""


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        ("", "R=1000000000"),
        ("specs/eight_wave.tk", "M=1048576 N=65536 K=262144"),
        ("specs/attention/attention.tk", "BATCH=512 HEADS=1024"),
    ],
)
def test_it_says_what_they_take(spec: str, sizes: str, tmp_path: Path) -> None:
    path = ROOT / spec if spec else tmp_path / "huge.tk"
    if not spec:
        path.write_text(ROWS)
    found = CliRunner().invoke(app, ["run", str(path), "-D", sizes, "--blocks", "0"])
    assert found.exit_code == 2 and isinstance(found.exception, SystemExit), found.output
    assert "GiB are free here" in found.output
