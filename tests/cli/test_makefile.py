"""`make test` on a machine that lacks the browser, npm and a clang with HIP."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = shutil.which("make") or "make"
MISSING = "chromium chromium-driver npm clang-22 clang-tools-22 lld-22 llvm-22 libamdhip64-dev rocm-device-libs"


def machine(folder: Path, **programs: str) -> str:
    """A PATH with nothing but these programs, lines of shell each."""
    for name, line in programs.items():
        program = folder / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
    return str(folder)


def tools(folder: Path, path: str) -> str:
    headers = f"HIP_HEADERS={folder / 'hip'}"
    done = subprocess.run([MAKE, "-s", "tools", headers], cwd=ROOT, env={"PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_missing_is_installed_where_it_may_be(tmp_path: Path) -> None:
    log = tmp_path / "log"
    path = machine(tmp_path, id="echo 0", apt_get=f'echo "$@" >> {log}')
    assert tools(tmp_path, path) == ""
    update, install = log.read_text().splitlines()
    assert update.startswith("update") and install.endswith(MISSING)


@pytest.mark.parametrize("apt", ["", "exit 1"])
def test_else_it_is_said_what_is_skipped(apt: str, tmp_path: Path) -> None:
    programs = {"id": "echo 0", "apt_get": apt} if apt else {"id": "echo 1000"}
    assert tools(tmp_path, machine(tmp_path, **programs)) == (
        f"not installed: {MISSING}\nthe tests that need them are skipped\n"
    )


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    there = {"chromium": "", "npm": "", "clang++_22": "", "ld.lld_22": "", "clang-offload-bundler_22": ""}
    (tmp_path / "hip").mkdir()
    (tmp_path / "hip" / "hip_runtime.h").touch()
    assert tools(tmp_path, machine(tmp_path, **there, id="echo 0", apt_get="exit 1")) == ""


def test_tests_come_after_the_tools() -> None:
    done = subprocess.run([MAKE, "-n", "test"], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.index("apt-get install -y -qq --no-install-recommends") < done.stdout.index("pytest")
