"""What commands print on a terminal: no line is wider than it, and bars keep away from results."""

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


def on_a_terminal(width: int, folder: Path, *command: str, results: int | None = None) -> str:
    """What a command writes to a terminal: both streams, or standard error alone where `results` takes the other."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environ = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"TERM": "xterm", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tkgen", *command], stdin=subprocess.DEVNULL,
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


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "specs" / "one_wave.tk", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "width"),
    [pytest.param(c, w, marks=pytest.mark.slow if w == 120 and i % 3 else ())
     for i, c in enumerate(COMMANDS) for w in (80, 120)],
)  # fmt: skip
def test_no_line_is_wider_than_the_terminal(command: str, width: int, workplace: Path) -> None:
    lines = ESCAPES.sub("", on_a_terminal(width, workplace, *command.split())).splitlines()
    assert lines and not [line for line in lines if len(line) > width]


def test_bars_stay_on_standard_error(workplace: Path) -> None:
    """Results go where they are sent, whole and without marks of a terminal."""
    shutil.copy(workplace / "one_wave.tk", workplace / "other.tk")
    with (workplace / "results").open("w") as results:
        seen = on_a_terminal(80, workplace, "build", "one_wave.tk", "other.tk", results=results.fileno())
    lines = (workplace / "results").read_text().splitlines()
    assert len(lines) == 2 and all(re.match(r"one_wave \(gfx942\): .* others per MFMA$", line) for line in lines)
    assert "building" in seen and "VGPR" not in seen
