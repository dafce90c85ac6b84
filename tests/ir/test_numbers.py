"""Every number of the language is bounded where it is resolved: no spec takes long to be judged, or much memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import large_numbers
import pytest

from tkgen.api import load
from tkgen.diagnostics import SpecError

SECONDS, BYTES = 1.0, 300 << 20
SAMPLE = 9
HEAD = """kernel t
  dims M = 128, N = 128, K = 256
  param P = 64
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 128 x 128 step 32
  waves 2 x 2
"""
BODY = "  accumulate C : f32 tile 32 x 32\n  store C\n"
SCHEDULE = BODY + "  schedule\n    cluster "


def judged(first: int, every: int) -> None:
    """Judge every `every`-th of the specs in their own process, within the bounds."""
    script = Path(large_numbers.__file__)
    done = subprocess.run([sys.executable, script, str(first), str(every)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    worst = json.loads(done.stdout)
    assert worst["seconds"] < SECONDS, worst["spec"]
    assert worst["peak"] < BYTES


def test_what_the_numbers_replace_is_right_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.tk"
    for text in (large_numbers.WHOLE, large_numbers.WRITTEN, large_numbers.ROLES):
        path.write_text(text)
        load(path).check()


def test_large_numbers_are_answered_quickly() -> None:
    judged(0, SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, SAMPLE))
def test_large_numbers_are_answered_quickly_everywhere(first: int) -> None:
    judged(first, SAMPLE)


@pytest.mark.parametrize(
    ("rest", "code", "said", "at"),
    [
        ("  shared A, B buffers 1\n  unroll 2147483647\n" + BODY, "E203", "unroll is at most 64", "2147483647"),
        ("  shared A, B buffers 1\n  load A, B by 2147483647 waves\n" + BODY, "E203", "the group is at most 16",
         "2147483647"),
        ("  shared A, B buffers 1\n  phase waves 1..1 by 2147483647 clusters\n" + BODY, "E203",
         "the phase shift is at most 64", "2147483647"),
        ("  shared A, B buffers 20\n" + BODY, "E203", "an operand has at most 16 buffers", "20"),
        ("  shared A, B buffers 1\n  epilogue scale(1e39)\n" + BODY, "E203", "more than an f32 can hold", "1e39"),
        ("  shared A, B buffers 1\n  scalar s : f32 = -1e39\n" + BODY, "E203", "more than an f32 can hold", "-1e39"),
        ("  shared A, B buffers 1\n  tune NOPE in 1, 2\n" + BODY, "E200", "`NOPE`, which is not a parameter", "NOPE"),
        ("  shared A, B buffers 1\n  tune P in 64, 0\n" + BODY, "E203", "positive integers", "0"),
        ("  shared A, B buffers 1\n  tune P in 64\n  tune P in 32\n" + BODY, "E202", "`P` is tuned twice", "P"),
        ("  shared A, B buffers 1\n  unroll 2147483647 * 2147483647 * 2147483647\n" + BODY, "E203",
         "must fit 64 bits", "2147483647 * 2147483647 * 2147483647"),
        ("  shared A, B buffers 2\n" + SCHEDULE + "load A[k+2147483647] B  read A B  multiply\n", "E216",
         "2147483647 K-steps away", "[k+2147483647]"),
        ("  shared A, B buffers 2\n" + SCHEDULE + "load A B  read A B  multiply  wait vm -1\n", "E216",
         "-1 operations cannot be left", "-1"),
        ("  shared A, B buffers 2\n" + SCHEDULE + "load A B  read A B  multiply  wait vm 256\n", "E216",
         "256 operations cannot be left", "256"),
        ("  shared A, B buffers 2\n" + SCHEDULE + "load A B  read A B  multiply  wait vm 64\n", "E216",
         "the largest count is 63", "wait vm 64"),
        ("  shared A, B buffers 2\n" + SCHEDULE + "load A B  read A B  multiply  wait lds 16\n", "E216",
         "the largest count is 15", "wait lds 16"),
    ],
)  # fmt: skip
def test_a_number_out_of_bounds_is_named_with_its_place(
    tmp_path: Path, rest: str, code: str, said: str, at: str
) -> None:
    text = HEAD.replace("128 x 128 step", "64 x 64 step") + rest if "buffers 20" in rest else HEAD + rest
    (tmp_path / "t.tk").write_text(text)
    with pytest.raises(SpecError) as caught:
        load(tmp_path / "t.tk").check()
    assert [(d.code, d.primary.span.text) for d in caught.value.diagnostics if said in d.message] == [(code, at)]


@pytest.mark.parametrize("wait", ["wait vm 0", "wait vm 63", "wait lds 15"])
def test_a_wait_that_the_counter_can_express_is_none_of_them(tmp_path: Path, wait: str) -> None:
    rest = f"  shared A, B buffers 2\n{SCHEDULE}load A B\n    cluster read A B  multiply  {wait}\n"
    (tmp_path / "t.tk").write_text(HEAD + rest)
    load(tmp_path / "t.tk").check()


def test_a_run_of_stream_k_is_too_short_for_three_buffers(tmp_path: Path) -> None:
    (tmp_path / "t.tk").write_text(HEAD + "  grid stream_k(16)\n  shared A, B buffers 3\n" + BODY)
    with pytest.raises(SpecError) as caught:
        load(tmp_path / "t.tk").check()
    assert [d.code for d in caught.value.diagnostics] == ["E608"]
