"""A function of equations, a remap and a named schedule are one file each, which every part of tkgen finds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
ELEMENTS = """kernel a
  dims ROWS = 64, D = 1024
  global X : f32[ROWS, D]
  global Y : f32[ROWS, D]
  over r in ROWS by 1
  remap columns
  waves 4
  Y[r] = opposite(X[r])
"""
LOADS_LAST = '''
from tkgen.ir.schedules import IterationOrder, NamedSchedule
from tkgen.ir.schedules.operations import loads, multiplies, reads


def order(program):
    """A schedule that no definition has: the next tiles are copied after all multiplies of this K-step."""
    every = [tuple(range(n)) for n in program.accumulator.fragments]
    ops = [op for t in range(program.slices) for op in (*reads(program, t), *multiplies(program, *every, t))]
    return IterationOrder([(program.compute.name, op) for op in (*ops, *loads(program))])


SPEC = NamedSchedule("loads_last", "The next tiles are copied last.", 9, order,
                     obstacle=lambda program: "" if program.direct else "operands must come `via direct`",
                     reason="copies come last", {more})
'''
PRODUCT = """kernel a
  target gfx950
  dims M = 128, N = 128, K = 256
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 64 x 64 step 64
  waves 2 x 2
  shared A, B buffers 2 via direct
  accumulate C : f32 tile 32 x 32
  store C
  schedule loads_last
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a copy of the package, to which a test adds files."""
    shutil.copytree(PACKAGE, tmp_path / "tkgen", ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    shutil.copytree(PACKAGE.parent / "grammar", tmp_path / "grammar")
    return tmp_path


def ran(package: Path, *command: str) -> subprocess.CompletedProcess[str]:
    cache = {name: os.environ[name] for name in ("TKGEN_CACHE", "XDG_CACHE_HOME") if name in os.environ}
    environment = {"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin", "HOME": str(Path.home()), **cache}
    return subprocess.run(
        [sys.executable, *command], cwd=package, env=environment, capture_output=True, text=True, check=False
    )


def test_a_function_and_a_remap(package: Path) -> None:
    """Both are found by the checks, the reference and the generated C++."""
    (package / "a.tk").write_text(ELEMENTS, encoding="utf-8")
    command = ("-m", "tkgen", "check", "a.tk", "--print-after", "lower")
    assert "E2" in ran(package, *command).stderr
    (package / "tkgen/ir/functions/definitions/opposite.py").write_text(OPPOSITE, encoding="utf-8")
    (package / "tkgen/remap/definitions/columns.py").write_text(REMAP, encoding="utf-8")
    done = ran(package, *command)
    assert done.returncode == 0 and "__global__" in done.stdout and "1 spec checked: 0 errors" in done.stdout, (
        done.stderr
    )


def test_a_named_schedule(package: Path) -> None:
    """It is scheduled and proven, runs on the emulator as torch computes it, and editors and `auto` know it."""
    spec, definition = package / "a.tk", package / "tkgen/ir/schedules/definitions/loads_last.py"
    spec.write_text(PRODUCT, encoding="utf-8")
    missing = ran(package, "-m", "tkgen", "check", "a.tk")
    assert missing.returncode == 1 and "there is no schedule `loads_last`" in missing.stderr
    definition.write_text(LOADS_LAST.replace("{more}", ""), encoding="utf-8")
    shown = ran(package, "-m", "tkgen", "check", "a.tk", "--print-after", "schedule").stdout
    loop = shown[shown.index("  loop") : shown.index("  epilogue")]
    assert loop.index("multiply") < loop.index("copy A[k+1]"), shown
    run = ran(package, "-m", "tkgen", "run", "a.tk")
    assert run.returncode == 0, run.stdout + run.stderr
    spec.write_text(PRODUCT.replace(" loads_last", " auto"), encoding="utf-8")
    chosen = ran(package, "-c", "import tkgen; print(tkgen.load('a.tk').plan.chosen)")
    assert chosen.stdout == "loads_last: chosen automatically: copies come last\n", chosen.stderr
    hover = "from tkgen.lsp.words import word; print(word('preset', 'loads_last'))"
    assert "The next tiles are copied last." in ran(package, "-c", hover).stdout
    spec.write_text(PRODUCT.replace(" via direct", " via registers"), encoding="utf-8")
    refused = ran(package, "-m", "tkgen", "check", "a.tk").stderr
    assert "`schedule loads_last` is not possible here: operands must come `via direct`" in refused


def test_a_named_schedule_that_is_wrong(package: Path) -> None:
    """A definition is not trusted: an order that leaves a slice out is refused by the proof."""
    (package / "a.tk").write_text(PRODUCT, encoding="utf-8")
    wrong = LOADS_LAST.replace("{more}", "").replace("range(program.slices)", "range(program.slices - 1)")
    (package / "tkgen/ir/schedules/definitions/loads_last.py").write_text(wrong, encoding="utf-8")
    done = ran(package, "-m", "tkgen", "check", "a.tk")
    assert "error[E402]" in done.stderr and "slice 0 of K-step 0 is missing from the sum" in done.stderr, done.stderr
