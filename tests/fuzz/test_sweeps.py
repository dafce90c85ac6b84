"""Sweeps of benchmarks/fuzz.py: bounded workers, results that are kept, seeds that are not tried twice."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import fuzz
import torch  # noqa: F401  (workers are forked: they need not import it)
from fuzzing.records import FILE, Records, line, read
from fuzzing.workers import GIB, Limits, judged

HELD: list[bytes] = []
SOON = 60.0  # seconds: far more than any of these needs


def _result(family: str, seed: int, verdict: str = "accepted") -> fuzz.Result:
    return fuzz.Result(seed, verdict, "", 0.0, family=family, features=frozenset({"drawn"}))


def _misbehaving(family: str, seed: int) -> fuzz.Result:
    """Seed 1 kills its process, 2 never ends, 3 asks for more memory than there is, the others are right."""
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == 2:
        time.sleep(SOON)
    if seed == 3:
        try:
            bytearray(3 << 30)
        except MemoryError:
            return fuzz.Result(seed, "FAILED", "MemoryError", 0.0, kind="exception", family=family)
    return _result(family, seed)


def test_a_seed_that_dies_hangs_or_eats_memory_is_a_failure_and_the_sweep_goes_on() -> None:
    tasks = iter([("rows", seed) for seed in range(6)])
    results = judged(tasks, 2, _misbehaving, Limits(memory=2.0, seconds=3.0), time.monotonic() + SOON)
    found = {r.seed: (r.verdict, r.kind) for r in results}
    failed = {1: ("FAILED", "crash"), 2: ("FAILED", "timeout"), 3: ("FAILED", "exception")}
    assert found == {seed: failed.get(seed, ("accepted", "")) for seed in range(6)}


def _holding(family: str, seed: int) -> fuzz.Result:
    """Keeps a third of a GiB of each seed."""
    HELD.append(b"1" * (GIB // 3))
    return fuzz.Result(seed, "accepted", str(os.getpid()), 0.0, family=family)


def test_a_process_that_holds_much_memory_is_replaced_between_seeds() -> None:
    tasks = iter([("rows", seed) for seed in range(6)])
    results = list(judged(tasks, 1, _holding, Limits(memory=2.0, seconds=SOON), time.monotonic() + SOON))
    assert [r.verdict for r in results] == ["accepted"] * 6
    assert len({r.detail for r in results}) > 1 and not HELD


def test_what_is_in_progress_when_time_is_up_is_dropped() -> None:
    tasks = iter([("rows", 0), ("rows", 2), ("rows", 4)])
    results = judged(tasks, 1, _misbehaving, Limits(), time.monotonic() + 3)
    assert [r.seed for r in results] == [0]


def test_results_are_kept_as_they_come_and_read_again(tmp_path: Path) -> None:
    records = Records(tmp_path)
    made = [_result("rows", 3), fuzz.Result(4, "FAILED", "one\ntwo", 1.25, kind="wrong", family="sums")]
    for result in made:
        records.add(result)
        assert read(tmp_path / FILE)[-1] == result
    with (tmp_path / FILE).open("a") as file:
        file.write(line(_result("rows", 5))[:20])  # a sweep that was killed within a line
    again = Records(tmp_path)
    assert again.results == made
    again.add(_result("rows", 5))
    assert read(tmp_path / FILE) == [*made, _result("rows", 5)]


def test_a_quota_counts_what_is_kept_and_tries_no_seed_twice() -> None:
    quota = fuzz.Quota(("rows", "sums"), 10, 2)
    for result in (_result("rows", 10), _result("rows", 11), _result("sums", 11, "rejected")):
        quota.add(result)
    tried = []
    for family, seed in quota.tasks():
        tried.append((family, seed))
        quota.add(_result(family, seed))
    assert tried == [("sums", 10), ("sums", 12)]


def test_a_sweep_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    first = fuzz.sweep(6, 1, 1, 1, quick=True, families=("rows",), build_only=True, folder=tmp_path)
    assert [r.verdict for r in first][-1] == "accepted" and not sum(r.runs for r in first)
    again = fuzz.sweep(6, 1, 1, 1, families=("rows",), folder=tmp_path)
    assert again == read(tmp_path / FILE) == [fuzz_rounded(r) for r in first]


def fuzz_rounded(result: fuzz.Result) -> fuzz.Result:
    """A result as its line keeps it."""
    from dataclasses import replace

    return replace(result, seconds=round(result.seconds, 3), cpu=round(result.cpu, 3))


def test_the_table_of_several_families_has_a_line_for_each() -> None:
    failed = fuzz.Result(7, "FAILED", "x", 2.0, kind="wrong", family="sums")
    text = fuzz.table([_result("rows", 1), _result("rows", 2, "rejected"), failed])
    rows = next(row for row in text.splitlines() if row.startswith("rows "))
    assert rows.split() == ["rows", "1", "1", "0", "0.0"]
    assert text.endswith("--family sums --seed N --show): 7")
