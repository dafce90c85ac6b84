"""A check that is stopped, killed, or whose kernels end the process, goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from sampling import slow

pytest.importorskip("torch")
pytest.importorskip("tinygrad")

from tkgen.emulate import program
from tkgen.emulate.session import Result

ITEMS = ("clock", "LDS read", "LDS latency", "launch")
WORDS = ("--stand-in", "--only", "machine", *(word for item in ITEMS for word in ("--item", item)))


def results(folder):
    return {p.stem: p for p in (folder / "results").glob("*/*.json")}


@pytest.mark.parametrize("how", [signal.SIGKILL, slow(signal.SIGINT)])
def test_a_check_that_is_stopped_goes_on(checked, tmp_path, how):
    process = subprocess.Popen(
        [sys.executable, "-m", "tkgen", "hardware-check", *WORDS, "--into", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not results(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    if how is signal.SIGKILL:
        process.kill()  # and not the worker: that ends with it
    else:
        os.killpg(process.pid, how)
    _, said = process.communicate(timeout=60)
    if how is signal.SIGINT:
        assert process.returncode == 130 and "run the same command to continue" in said
    before = {name: path.stat().st_mtime_ns for name, path in results(tmp_path).items()}
    assert 0 < len(before) < len(ITEMS)
    while _held(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    got = checked(*WORDS, "--into", tmp_path)
    assert got.exit_code == 0, got.output
    after = {name: path.stat().st_mtime_ns for name, path in results(tmp_path).items()}
    assert len(after) == len(ITEMS) and before.items() <= after.items()
    assert not (tmp_path / "begun.json").exists()


def _held(folder):
    """Return True while a worker holds the folder."""
    from tkgen.hardware.state import State, StateError

    try:
        with State(folder).locked():
            return False
    except StateError:
        return True


def test_a_kernel_that_ends_the_process_is_named_and_the_rest_goes_on(checked, tmp_path, monkeypatch):
    """The stand-in ends a program whose kernel faults, as the driver of a GPU does."""
    plain = program.emulated

    def faulting(*arguments):
        run = plain(*arguments)
        fault = Result(stopped=f"{tmp_path}/k.s: memory fault")
        return lambda what: fault if what.block[0] == 1024 else run(what)

    monkeypatch.setattr(program, "emulated", faulting)
    got = checked(*WORDS, "--into", tmp_path)
    assert got.exit_code == 1, got.output
    found = {r["item"]: r for r in json.loads((tmp_path / "report.json").read_text())["results"]}
    assert set(found) == set(ITEMS)
    assert found["LDS read"]["verdict"] == "failed" and "memory fault" in found["LDS read"]["said"]
    assert str(tmp_path) not in found["LDS read"]["said"]
    assert {r["verdict"] for name, r in found.items() if name != "LDS read"} == {"measured"}


@pytest.mark.slow
def test_an_item_that_hangs_is_ended(checked, tmp_path, monkeypatch):
    plain = program.emulated

    def hanging(*arguments):
        run = plain(*arguments)

        def started(what):
            if what.block[0] == 1024:
                time.sleep(4)
            return run(what)

        return started

    monkeypatch.setattr(program, "emulated", hanging)
    words = ("--stand-in", "--only", "machine", "--item", "LDS read", "--item", "launch", "--limit", 2)
    assert checked(*words, "--into", tmp_path).exit_code == 1
    found = {r["item"]: r for r in json.loads((tmp_path / "report.json").read_text())["results"]}
    assert "no end after 2 s" in found["LDS read"]["said"] and found["launch"]["verdict"] == "measured"


def test_a_folder_of_another_check_is_refused(checked, tmp_path, capfd):
    words = ("--stand-in", "--only", "machine", "--item", "compute units", "--into", tmp_path)
    assert checked(*words).exit_code == 0
    got = checked(*words, "--seed", 3)
    assert got.exit_code == 2 and "measured" not in got.output
    assert "another seed" in capfd.readouterr().err
    assert checked(*words, "--seed", 3, "--fresh").exit_code == 0
    assert checked(*words, "-t", "gfx90a").exit_code == 2
