"""Two builds into one folder, and a build killed at any moment, leave a usable state."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SPEC = Path(__file__).parents[2] / "specs" / "one_wave.tk"


def start(out: Path, cache: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tkgen", "build", str(SPEC), "-o", str(out)]
    environ = os.environ | {"TKGEN_CACHE": str(cache)}
    return subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def whole(out: Path) -> None:
    assert (out / "one_wave.hsaco").read_bytes()[:4] == b"\x7fELF"
    assert json.loads((out / "one_wave.json").read_text())["kernel"] == "one_wave"
    assert (out / "one_wave.cpp").read_text().rstrip().endswith("#endif")
    assert ".amdhsa_kernel" in (out / "one_wave.s").read_text()


def test_two_builds_into_one_folder(tmp_path: Path, new_cache: Path) -> None:
    builds = [start(tmp_path / "out", new_cache) for _ in range(2)]
    assert [b.wait(120) for b in builds] == [0, 0]
    whole(tmp_path / "out")


def test_a_killed_build_leaves_no_half_file_and_the_next_one_succeeds(tmp_path: Path, new_cache: Path) -> None:
    for number in range(6):
        build = start(tmp_path / "out", new_cache)
        time.sleep(0.15 * (number + 1))
        build.send_signal(signal.SIGKILL)
        build.wait()
        finished = list((tmp_path / "out").glob("one_wave.*"))
        assert all(p.stat().st_size > 1000 for p in finished)
    assert start(tmp_path / "out", new_cache).wait(120) == 0
    whole(tmp_path / "out")
