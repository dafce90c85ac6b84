"""Wheel and sdist hold everything that is tracked, make the same wheel, and work from any folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from tkgen.packages import DISTRIBUTION, EXTRAS, install_line, needed_by

ROOT = Path(__file__).parents[2]
NEEDED = (
    "tkgen/grammar/tk.lark",
    "tkgen/specs/eight_wave.tk",
    "tkgen/backends/cdna/kittens/include/kittens.cuh",
    "tkgen/backends/cdna/lower/templates/kernel.cpp.jinja",
    "tkgen/diagnostics/pages/E301.md",
    "tkgen/targets/gfx942.toml",
    "tkgen/emulate/core/abi.h",
    "tkgen/lsp/words.toml",
    "tkgen/py.typed",
)


# `pip install tkgen`, or an extra of it, from an index: another project's package, or nobody's yet. What has an address
# or a path after `@` is ours.
FROM_AN_INDEX = re.compile(
    r"""(?<!un)install (?:-\S+ )*["']?tkgen(?:-compiler)?(?:\[[\w,]*\])?(?![\w./\[-])(?! @ )"""
    r"""|\btkgen(?:-compiler)?\[\w[\w,]*\](?! @ )"""
)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("pip install tkgen", True), ("pip install --upgrade 'tkgen[lsp]'", True), ('"tkgen[emulate,tune]"', True),
        ("pip install tkgen-compiler", True), ("pip install 'tkgen-compiler[lsp]'", True),
        ("pip install tkgen-compiler[lsp] @ file:///x", False), ("pip install dist/tkgen_compiler-0.1.0.whl", False),
        ("pip install '.[lsp]'", False), ("tkgen doctor", False),
    ],
)  # fmt: skip
def test_which_lines_install_from_an_index(line: str, wrong: bool) -> None:
    assert bool(FROM_AN_INDEX.search(line)) is wrong


def test_no_text_tells_anyone_to_install_another_project() -> None:
    found = []
    for name in sorted(tracked()):
        if name == "tests/cli/test_distribution.py":
            continue
        with suppress(UnicodeDecodeError):
            text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
            found += [(name, m[0]) for m in FROM_AN_INDEX.finditer(text)]
    assert not found


def test_messages_name_the_requirements_of_the_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    for extra, brought in EXTRAS.items():
        assert list(brought) == project["optional-dependencies"][extra]
    assert install_line("tune") == "pip install 'optuna>=4'"
    modules = ("torch", "tinygrad.runtime.autogen", "lsprotocol.types", "json")
    assert [needed_by(m) for m in modules] == ["emulate", "emulate", "lsp", None]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and an sdist, made by `make wheel` from the tracked files."""
    out = tmp_path_factory.mktemp("dist")
    pytest.importorskip("hatchling", reason="the build backend is not installed here: pip install hatchling")
    tools = f"BIN={Path(sys.executable).parent}"
    command = ["make", "-o", ".venv/.ready-dev", "wheel", f"DIST={out}", tools]  # as `make dist` does
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def test_one_command_makes_all_that_others_install() -> None:
    done = subprocess.run(["make", "-n", "-o", ".venv/.ready-dev", "dist"], cwd=ROOT, capture_output=True, text=True)
    assert "hatchling build -d dist" in done.stdout and "/dist/tkgen.vsix" in done.stdout, done.stdout


def tracked(*folders: str) -> set[str]:
    done = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("needs a git checkout, whose files it compares with those of the packages")
    return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}


def test_the_wheel_holds_everything_and_no_more(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not [n for n in NEEDED if n not in names]
    sources = {
        f"tkgen/{n}" if n.startswith(("grammar/", "specs/")) else n for n in tracked("tkgen", "grammar", "specs")
    }
    packaged = {n for n in names if n.startswith("tkgen/")}
    assert f'pip install "dist/{wheel.name}[' in (ROOT / "README.md").read_text(encoding="utf-8")
    assert packaged - sources == set() and not {n for n in sources - packaged if not n.endswith("/.gitignore")}


@pytest.fixture(scope="module")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the sdist."""
    (sdist,) = built.glob("*.tar.gz")
    folder = tmp_path_factory.mktemp("sdist")
    shutil.unpack_archive(sdist, folder)  # tarfile's filters are not in every Python 3.11
    return folder / sdist.name.removesuffix(".tar.gz")


def test_the_sdist_holds_the_sources(unpacked: Path) -> None:
    names = {str(p.relative_to(unpacked)) for p in unpacked.rglob("*") if p.is_file()}
    assert tracked() - names == set()
    assert not [n for n in names if "node_modules" in n or n.endswith((".vsix", ".pyc"))]


@pytest.fixture(scope="module")
def wheel(built: Path, unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the sdist makes, which is the wheel that the checkout makes."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    done = subprocess.run(command, cwd=unpacked, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,), (direct,) = out.glob("*.whl"), built.glob("*.whl")
    with zipfile.ZipFile(found) as one, zipfile.ZipFile(direct) as other:
        assert set(one.namelist()) == set(other.namelist())
        assert all(one.read(n) == other.read(n) for n in one.namelist())
    return found


# Commands in one process, each of which has to succeed.
COMMANDS = """
import sys
from typer.testing import CliRunner
import tkgen.cli
for command in sys.argv[1:]:
    done = CliRunner().invoke(tkgen.cli.app, command.split())
    assert done.exit_code == 0, (command, done.output, done.exception)
"""


def test_the_files_of_the_wheel_do_everything(wheel: Path, tmp_path: Path) -> None:
    """Grammar, headers, templates, pages, emulator, report and language server, with the packages that are here."""
    package, elsewhere = tmp_path / "package", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)
    commands = (
        "new mine --from one_wave",
        "run mine.tk -D M=64 -D N=64 -D K=64",
        "report mine.tk",
        "sanitize mine.tk -D M=64 -D N=64 -D K=64 --schedules 1",
        "explain E701",
        "regen --directory . -o generated",
    )
    script = "import tkgen.lsp.server, tkgen.pygments, tkgen.testing" + COMMANDS + "print(tkgen.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", script, *commands],
        cwd=elsewhere, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(package)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(package)
    assert (elsewhere / "report.html").stat().st_size > 10_000


def test_a_fresh_environment_builds_a_bundled_spec_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"TKGEN_CACHE": str(tmp_path / "cache")}
    # The pip of this environment installs into the other one; modules are compiled when they are imported.
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-compile", str(wheel)]
    installed = subprocess.run(pip, capture_output=True, text=True, env=environ)
    assert installed.returncode == 0, installed.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([python, *arguments], cwd=elsewhere, capture_output=True, text=True, env=environ)

    names = "from importlib.metadata import distributions\nprint(*(d.name.lower() for d in distributions()))"
    done = run("-c", COMMANDS + names, "specs", "new mine --from eight_wave", "explain E301")
    assert done.returncode == 0, done.stderr
    packages = set(done.stdout.split())
    assert not packages & {"torch", "numpy", "tinygrad", "triton", "ziglang", "pygls", "optuna"} and len(packages) < 25
    done = run("-m", "tkgen", "build", "mine.tk")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert (elsewhere / "out" / "mine.hsaco").read_bytes()[:4] == b"\x7fELF"
    done = run("-m", "tkgen", "run", "mine.tk")
    assert done.returncode == 3 and install_line("emulate") in done.stderr
    assert "Traceback" not in done.stderr
