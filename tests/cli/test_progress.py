"""Long commands show on a terminal what they do before anything heavy is imported, and can be stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pty = pytest.importorskip("pty")
SPEC = str(Path(__file__).parents[2] / "specs" / "eight_wave.tk")
HEAVY = "import sys\nsys.modules['torch'] = sys.modules['numpy'] = None\nfrom tkgen.cli import main\nmain()\n"


def shown(folder: Path, program: list[str], words: list[str], interrupt: bool) -> tuple[int, str]:
    """The exit code of a command and what its terminal shows; it is interrupted once it has shown something."""
    main, terminal = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, *program, *words], stdin=terminal, stdout=terminal, stderr=terminal, cwd=folder,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what a shell starts beside it ignores it
        start_new_session=True, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    os.close(terminal)
    text = b""
    while True:
        try:
            more = os.read(main, 4096)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        text += more
        if interrupt and (b"eight_wave" in text or b"reading" in text):
            time.sleep(0.5)
            run.send_signal(signal.SIGINT)
            interrupt = False
    os.close(main)
    return run.wait(60), text.decode(errors="replace")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["run", SPEC], "eight_wave"),
        (["predict", SPEC], "reading eight_wave"),
        (["predict", SPEC, "--edits"], "reading eight_wave"),
        (["tune", SPEC, "-o", "tuned"], "reading the specs"),
    ],
    ids=["run", "predict", "edits", "tune"],
)
def test_progress_is_seen_first_and_an_interrupt_ends_it(tmp_path: Path, words: list[str], what: str) -> None:
    code, text = shown(tmp_path, ["-c", HEAVY], words, interrupt=False)
    assert what in text  # although nothing heavy can be imported
    code, text = shown(tmp_path, ["-m", "tkgen"], words, interrupt=True)
    assert (code, "interrupted" in text) == (130, True), text
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "trials.jsonl"]
