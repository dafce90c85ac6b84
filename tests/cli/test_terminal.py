"""Output of commands on a terminal: no line is wider than it, and bars keep away from results."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
COMMANDS = ("build one_wave.tk", "check one_wave.tk", "run one_wave.tk -D M=64,N=64,K=64 --schedules 3", "specs",
            "explain E301", "graph one_wave.tk", "--help", "run --help", "tune --help", "build --help")  # fmt: skip
WIDTHS = (80, 120)


# One process runs all the commands at each width: it prints the end of each, and its exit code.
ALL = """
import fcntl, struct, sys, termios
from tkgen.cli import app
for width in map(int, sys.argv[1].split()):
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    for command in sys.argv[2:]:
        try:
            app(command.split())
        except SystemExit as end:
            print(f"\\0{end.code or 0}\\0", end="", flush=True)
"""


def on_a_terminal(width: int, folder: Path, *command: str, results: int | None = None) -> str:
    """The output of a Python command on a terminal: both streams, or standard error alone beside `results`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environ = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"TERM": "xterm", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.DEVNULL,
        stdout=slave if results is None else results, stderr=slave, cwd=folder, env=environ,
    )  # fmt: skip
    os.close(slave)
    written = b""
    while True:
        try:
            piece = os.read(master, 1 << 16)
        except OSError:  # the other end is closed
            break
        written += piece
        if not piece:
            break
    os.close(master)
    assert process.wait() == 0, written.decode()
    return written.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], tuple[int, str]]:
    """The exit code and the text of each command on a terminal of each width."""
    folder = tmp_path_factory.mktemp("screens")
    shutil.copy(ROOT / "specs" / "one_wave.tk", folder)
    parts = on_a_terminal(80, folder, "-c", ALL, " ".join(map(str, WIDTHS)), *COMMANDS).split("\0")
    keys = [(command, width) for width in WIDTHS for command in COMMANDS]
    assert len(parts) == 2 * len(keys) + 1 and not parts[-1]
    return {key: (int(code), text) for key, text, code in zip(keys, parts[::2], parts[1::2], strict=False)}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_wider_than_the_terminal(
    command: str, width: int, screens: dict[tuple[str, int], tuple[int, str]]
) -> None:
    code, text = screens[command, width]
    lines = ESCAPES.sub("", text).splitlines()
    assert code == 0 and lines and not [line for line in lines if len(line) > width], text


def test_the_commands_know_how_wide_the_terminal_is(screens: dict[tuple[str, int], tuple[int, str]]) -> None:
    assert screens["run --help", 80] != screens["run --help", 120]


def test_bars_stay_on_standard_error(tmp_path: Path) -> None:
    """Results go where they are sent, whole and without marks of a terminal."""
    for name in ("one_wave.tk", "other.tk"):
        shutil.copy(ROOT / "specs" / "one_wave.tk", tmp_path / name)
    with (tmp_path / "results").open("w") as results:
        seen = on_a_terminal(80, tmp_path, "-m", "tkgen", "build", "one_wave.tk", "other.tk", results=results.fileno())
    lines = (tmp_path / "results").read_text().splitlines()
    assert len(lines) == 2 and all(
        re.match(r"one_wave \(gfx942\): .* non-MFMA instructions per MFMA$", line) for line in lines
    )
    assert "building" in seen and "VGPR" not in seen
