"""A wheel holds grammar, headers, templates, specs and pages, and works from any folder in a fresh environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = (
    "tkgen/grammar/tk.lark",
    "tkgen/specs/eight_wave.tk",
    "tkgen/kittens/include/kittens.cuh",
    "tkgen/lower/templates/kernel.cpp.jinja",
    "tkgen/diagnostics/pages/E301.md",
    "tkgen/targets/gfx942.toml",
    "tkgen/emulate/core/abi.h",
    "tkgen/lsp/words.toml",
    "tkgen/py.typed",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and an sdist, made by the build backend from the tracked files."""
    out = tmp_path_factory.mktemp("dist")
    pytest.importorskip("hatchling", reason="the build backend is not installed here: pip install hatchling")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(out)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return out


def test_the_wheel_holds_everything_and_no_more(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not [n for n in NEEDED if n not in names]
    assert not [n for n in names if "node_modules" in n or n.endswith((".vsix", ".pyc")) or n.startswith("tests/")]


def test_the_sdist_holds_the_sources(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {n.split("/", 1)[1] for n in archive.getnames() if "/" in n}
    assert {"grammar/tk.lark", "specs/eight_wave.tk", "pyproject.toml", "README.md", "LICENSE"} <= names


def test_a_fresh_environment_builds_a_bundled_spec_from_any_folder(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"TKGEN_CACHE": str(tmp_path / "cache")}
    installed = subprocess.run(
        [python, "-m", "pip", "install", "-q", str(wheel)], capture_output=True, text=True, env=environ
    )
    assert installed.returncode == 0, installed.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for arguments in (["specs"], ["new", "mine", "--from", "eight_wave"], ["build", "mine.tk"], ["explain", "E301"]):
        done = subprocess.run(
            [python, "-m", "tkgen", *arguments], cwd=elsewhere, capture_output=True, text=True, env=environ
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    assert (elsewhere / "out" / "mine.hsaco").read_bytes()[:4] == b"\x7fELF"
    done = subprocess.run(
        [python, "-m", "tkgen", "run", "mine.tk"], cwd=elsewhere, capture_output=True, text=True, env=environ
    )
    assert done.returncode == 3 and "pip install 'tkgen[emulate]'" in done.stderr and "Traceback" not in done.stderr
