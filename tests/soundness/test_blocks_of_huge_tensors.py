"""Chosen blocks of huge tensors: those that do not fit this machine are refused, others take no more than they hold."""

from __future__ import annotations

import os
import subprocess
import sys
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


# The output alone, 512 MiB of it; no input says how large a block's part is.
FLAT = """kernel flat
  dims T = 2048, D = 65536
  global Y : f32[T, D]
  over t in T by 1, d in D by 1024
  waves 4
  Y[t, d] = where(t * length(d) + d > 1000, 1, 0)
"""
PEAK = """
import resource, sys
from tkgen.api import load
from tkgen.execute.launch import run
build = load(sys.argv[1]).check().build()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
done = run(build, [0, 131071])
print(done.ok, done.outputs["Y"].numel(), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_blocks_take_no_more_than_their_tensors() -> None:
    """All of a tensor was evaluated for a few blocks, in nineteen times its memory."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PEAK, FLAT], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    ok, elements, mebibytes = done.stdout.split()
    assert (ok, elements) == ("True", str(2048 * 65536))
    assert int(mebibytes) < 3 * 512  # the tensor, torch and the emulator
