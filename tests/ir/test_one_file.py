"""A function of equations and a remap are one file each: a file in the folder is enough for every part of tkgen."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import tkgen

PACKAGE = Path(tkgen.__file__).parent
OPPOSITE = """
from tkgen.ir.functions.definitions.arithmetic import FUNCTIONS as OLD
from dataclasses import replace
POSITION = 10
FUNCTIONS = (replace(next(f for f in OLD if f.name == "neg"), name="opposite", operator=""),)
"""
REMAP = """
from dataclasses import replace
from tkgen.remap.definitions.column_major import SPEC as OLD
SPEC = replace(OLD, name="columns")
"""
SPEC = """kernel a
  dims ROWS = 64, D = 1024
  global X : f32[ROWS, D]
  global Y : f32[ROWS, D]
  over r in ROWS by 1
  remap columns
  waves 4
  Y[r] = opposite(X[r])
"""


def test_a_file_is_enough(tmp_path: Path) -> None:
    """In a copy of the package, both are found by the checks, the reference and the generated C++."""
    shutil.copytree(PACKAGE, tmp_path / "tkgen", ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    shutil.copytree(PACKAGE.parent / "grammar", tmp_path / "grammar")
    (tmp_path / "a.tk").write_text(SPEC, encoding="utf-8")
    command = [sys.executable, "-m", "tkgen", "check", "a.tk", "--print-after", "lower"]

    def said() -> subprocess.CompletedProcess[str]:
        environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert "E2" in said().stderr
    (tmp_path / "tkgen/ir/functions/definitions/opposite.py").write_text(OPPOSITE, encoding="utf-8")
    (tmp_path / "tkgen/remap/definitions/columns.py").write_text(REMAP, encoding="utf-8")
    done = said()
    assert done.returncode == 0 and "__global__" in done.stdout and "1 spec checked: 0 errors" in done.stdout, (
        done.stderr
    )
