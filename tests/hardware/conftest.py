"""A spec that builds fast, and the command on the stand-in."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tkgen.cli import app

SCALED = """kernel scaled
  dims ROWS = dynamic, COLUMNS = 64
  global X : bf16[ROWS, COLUMNS]
  global Y : bf16[ROWS, COLUMNS]
  over r in ROWS
  waves 1
  Y[r] = 2 * X[r]
"""


@pytest.fixture(scope="session")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one small spec, and one of the bar kernels."""
    folder = tmp_path_factory.mktemp("specs")
    (folder / "scaled.tk").write_text(SCALED)
    (folder / "rows").mkdir()
    shutil.copy(Path(__file__).parents[2] / "specs" / "rows" / "softmax.tk", folder / "rows")
    return folder


@pytest.fixture
def checked() -> Callable[..., Result]:
    """Run `tkgen hardware-check` with some arguments."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, ["hardware-check", *map(str, arguments)])

    return run
