"""`tkgen build` and the library: code that is wrong is refused, and what was not watched is said not to be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from broken_code import FOLDER
from typer.testing import CliRunner, Result

import tkgen
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.targets import load_target
from tkgen.toolchain.discover import find_compiler

# A compiler that loses the last barrier of a kernel.
LOSING = """
import subprocess, sys
from pathlib import Path
for name in (a for a in sys.argv if a.endswith("in.cpp")):
    head, _, tail = Path(name).read_text().rpartition("tk::lds_barrier();")
    Path(name).write_text(head + tail)
sys.exit(subprocess.run([*{command}, *sys.argv[1:]]).returncode)
"""


@pytest.fixture
def losing(tmp_path: Path) -> str:
    script = tmp_path / "losing.py"
    script.write_text(LOSING.format(command=list(find_compiler(load_target("gfx942")).command)))
    return f"{sys.executable} {script}"


def build(*args: str) -> Result:
    return CliRunner().invoke(app, ["build", *args])


COLLECTIVE = str(FOLDER / "collective.tk")


def test_wrong_code_is_refused_and_nothing_is_written_as_if_it_were_good(tmp_path: Path, losing: str) -> None:
    out = tmp_path / "out"
    result = build(COLLECTIVE, "-o", str(out), "--cxx", losing)
    assert result.exit_code == 1 and "error[E321]" in result.output and "collective.tk:9" in result.output
    assert "8 waves/SIMD" not in result.output
    assert sorted(p.name for p in out.iterdir()) == ["collective.refused.cpp", "collective.refused.s"]
    assert "kept as" in result.output
    # Once it is right, what was refused is gone.
    assert build(COLLECTIVE, "-o", str(out)).exit_code == 0
    assert not [p for p in out.iterdir() if "refused" in p.name] and (out / "collective.hsaco").exists()


def test_the_error_is_json_too(tmp_path: Path, losing: str) -> None:
    result = build(COLLECTIVE, "-o", str(tmp_path), "--cxx", losing, "--json")
    (said,) = json.loads(result.stdout)
    assert result.exit_code == 1 and {d["code"] for d in said["diagnostics"]} == {"E321"}


def test_the_report_says_what_was_watched_and_what_it_cost(tmp_path: Path) -> None:
    result = build(COLLECTIVE, "-o", str(tmp_path), "--json")
    (said,) = json.loads(result.stdout)
    checked = said["machine_check"]
    assert checked["outcome"] == "right" and checked["blocks"] == 2 and checked["steps"] == [6]
    assert checked["instructions"] > 1000 and checked["seconds"] > 0
    assert "Machine code right: 2 blocks watched" in (tmp_path / "collective.html").read_text()


def test_what_was_left_out_is_said_to_be(tmp_path: Path, losing: str) -> None:
    result = build(COLLECTIVE, "-o", str(tmp_path), "--cxx", losing, "--no-machine-check")
    assert result.exit_code == 0
    report = json.loads((tmp_path / "collective.json").read_text())
    assert report["machine_check"]["outcome"] == "not checked"
    assert "Machine code not checked: it was left out." in (tmp_path / "collective.html").read_text()


def test_a_machine_that_cannot_build_the_emulator_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tkgen.emulate import native

    monkeypatch.setenv("TKGEN_HOST_CXX", "/nonexistent/c++")
    monkeypatch.setenv("TKGEN_CACHE", str(tmp_path / "cache"))
    native.core.cache_clear()
    try:
        result = build(COLLECTIVE, "-o", str(tmp_path / "out"))
    finally:
        native.core.cache_clear()
    assert result.exit_code == 0, result.output
    assert "note: collective: machine code not checked: compiling the emulator's core with /nonexistent/c++ failed" in (
        result.output
    )
    assert "Machine code not checked: compiling" in (tmp_path / "out" / "collective.html").read_text()


def test_the_library_refuses_it_as_well(losing: str) -> None:
    spec = tkgen.load(COLLECTIVE).check()
    assert spec.build().machine_check.outcome == "right"
    with pytest.raises(SpecError, match="E321"):
        spec.build(cxx=losing)
    unwatched = spec.build(cxx=losing, machine_check=False)
    assert unwatched.machine_check.outcome == "not checked"


def test_check_says_what_is_proven_and_what_is_left_to_a_build() -> None:
    result = CliRunner().invoke(app, ["check", COLLECTIVE])
    assert "the schedule is proven; `tkgen build` also checks the machine code" in result.output
