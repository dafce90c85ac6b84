"""`tkgen test` of shipped specs: it draws sizes that they admit, and everything that it tries holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from shipped import SPECS, shipped
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.execute import modelled_suite
from tkgen.execute.admitted import admitted
from tkgen.execute.cases import size_cases
from tkgen.execute.suites import regression
from tkgen.tune import evaluate
from tkgen.tune.space import Candidate

# Of these `test` drew sizes that they refuse: CLASSES = 768 (E226), K = 1016 (E209).
SAMPLE = {("linear_softmax", "gfx942"), ("w4", "gfx942")}


ALL = [
    pytest.param(
        path, target, id=f"{path.stem}-{target}", marks=() if (path.stem, target) in SAMPLE else pytest.mark.slow
    )
    for path, target in shipped()
]


@pytest.mark.parametrize("path, target", ALL)
def test_sizes_that_are_drawn_are_admitted(path: Path, target: str) -> None:
    spec = load(path, None, target).check()
    own = {d.name: d.size for d in spec.program.dims if d.size is not None}
    cases = list(size_cases(spec))
    found = list(admitted(cases, own, lambda static: load(path, static, target).check()))
    assert found and not [refusal for _, refusal in found if refusal]


@pytest.mark.slow
@pytest.mark.parametrize("path, target", shipped(), ids=lambda value: value.stem if isinstance(value, Path) else value)
def test_everything_that_is_tried_holds(path: Path, target: str) -> None:
    test = modelled_suite.regression if target == "sm_90a" else regression
    failed = [result for result in test(path, target=target, schedules=1) if result.failure]
    assert not failed, failed


def refuses(text: str) -> SpecError:
    spec = SPECS / "linear_softmax.tk"
    with pytest.raises(SpecError) as raised:
        load(spec, {"CLASSES": 768}).check()
    assert text in str(raised.value)
    return raised.value


def test_the_fewest_sizes_change() -> None:
    error = refuses("E226")

    def check(static: Mapping[str, int]) -> None:
        if static["N"] > 64 or static["M"] == 3:
            raise error

    cases = [{"M": 3, "N": 64, "K": 8}, {"M": 64, "N": 96, "K": 16}, {"M": 64, "N": 64, "K": 8}]
    found = list(admitted(cases, {"M": 128, "N": 32}, check))
    assert found == [({"M": 64, "N": 64, "K": 8}, ""), ({"M": 64, "N": 64, "K": 16}, "")]


def test_a_case_of_which_no_size_is_admitted_is_a_failure() -> None:
    error = refuses("E226")

    def check(static: Mapping[str, int]) -> None:
        raise error

    ((sizes, refusal),) = admitted([{"M": 3}], {"M": 128}, check)
    assert sizes == {"M": 3} and refusal.startswith("no sizes near these are allowed: E226")


# Its K is a multiple of 512, or there is no whole number of parts: of small sizes none but its own.
PARTS = """
kernel parts
  dims M = 128, N = 128, K = 512, PARTS = K / 512
  param STEP = 64
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  over m in M by 128, n in N by 128
  {how}
  each k in K by STEP
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = c
  tune STEP in 64, 128
"""
AMD = "waves 2 x 2\n  shared A, B"
HOPPER = """shared A, B buffers 2 via direct
  role producer waves 0..3
    load A, B
  role consumer waves 4..11 as 8 x 1
    accumulate c : f32 tile 16 x 128"""


@pytest.mark.parametrize(
    ("how", "command"),
    [
        (AMD, ("watch", "--once", "-t", "gfx942")),
        (AMD, ("verify", "-t", "gfx942")),
        (AMD, ("tune", "-j", "1", "-t", "gfx942")),
        (HOPPER, ("verify", "-t", "sm_90a")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_each_command_tries_sizes_that_the_spec_admits(
    how: str, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = tmp_path / "parts.tk"
    spec.write_text(PARTS.format(how=how))
    done = CliRunner().invoke(app, [*command, str(spec)])
    assert done.exit_code == 0, done.output
    assert "E203" not in done.output


def test_so_does_a_candidate_whose_schedule_is_carried_out(tmp_path: Path) -> None:
    spec = tmp_path / "parts.tk"
    spec.write_text(PARTS.format(how=HOPPER))
    setting = evaluate.Setting({str(spec): {}}, {}, "sm_90a", None, (), None)
    trial = evaluate.verify(setting, evaluate.check(setting, Candidate(str(spec), ())))
    assert trial.verified, trial.message
